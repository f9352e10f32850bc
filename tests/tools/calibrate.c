/* dit-convert's calibrated rounding against plain references in double precision; types under a budget; parts left out;
 * outputs that go on after SIGKILL. */
/* test-runs: lavapipe */
#define main convert_main
#include "library.h"
#include "tools/dit-convert.c"
#undef main
#include "vulkan_test.h"
#include "files.h"
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#endif

static const char *const folder_path = "tests/fixtures/pipe_pixart_sigma", *const output = "build/calibrate_test.gguf";

/* --- a layer of made-up weights and inputs --- */

enum { ROWS = 6, COLUMNS = 256, SAMPLES = 300 };

static double w[ROWS * COLUMNS], x[SAMPLES * COLUMNS], h[COLUMNS * COLUMNS], mean[COLUMNS], most[COLUMNS];

static double next_number(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ldexp((double)(state >> 11), -52) - 1;
}

/* Some columns have much larger inputs, and neighbours are alike. */
static void make_layer(void) {
    for (int i = 0; i < ROWS * COLUMNS; i++) w[i] = 0.05 * next_number() * (i % 17 == 3 ? 6 : 1);
    for (int s = 0; s < SAMPLES; s++)
        for (int k = 0; k < COLUMNS; k++)
            x[s * COLUMNS + k] = (k ? 0.5 * x[s * COLUMNS + k - 1] : 0) + next_number() * (k % 29 == 5 ? 12 : 1);
    memset(h, 0, sizeof h), memset(mean, 0, sizeof mean), memset(most, 0, sizeof most);
    for (int s = 0; s < SAMPLES; s++) {
        const double *row = x + s * COLUMNS;
        for (int i = 0; i < COLUMNS; i++) {
            mean[i] += fabs(row[i]) / SAMPLES;
            if (fabs(row[i]) > most[i]) most[i] = fabs(row[i]);
            for (int k = 0; k < COLUMNS; k++) h[i * COLUMNS + k] += row[i] * row[k] / SAMPLES;
        }
    }
}

typedef struct buffers {
    uint8_t codes[ROWS * COLUMNS];
    uint16_t scale[ROWS * COLUMNS / GROUP], least[ROWS * COLUMNS / GROUP];
} buffers;

static grouped in_buffers(buffers *b) {
    grouped g = {ROWS, COLUMNS, b->codes, b->scale, b->least};
    memset(b, 0xaa, sizeof *b);
    return g;
}

/* Mean square of what the outputs are off by, from the inputs themselves. */
static double error_on_inputs(const grouped *g, const double *smooth) {
    double sum = 0;
    for (int s = 0; s < SAMPLES; s++) {
        for (int r = 0; r < ROWS; r++) {
            double off = 0;
            for (int k = 0; k < COLUMNS; k++)
                off += (w[r * COLUMNS + k] - grouped_value(g, (uint32_t)r, (uint32_t)k) / (smooth ? smooth[k] : 1)) *
                       x[s * COLUMNS + k];
            sum += off * off / SAMPLES;
        }
    }
    return sum;
}

/* --- GPTQ --- */

/* The inverse by Gauss-Jordan elimination, pivots on the diagonal. */
static void invert(double *a, int n) {
    for (int p = 0; p < n; p++) {
        const double pivot = a[p * n + p];
        a[p * n + p] = 1;
        for (int k = 0; k < n; k++) a[p * n + k] /= pivot;
        for (int i = 0; i < n; i++) {
            const double factor = a[i * n + p];
            if (i == p) continue;
            a[i * n + p] = 0;
            for (int k = 0; k < n; k++) a[i * n + k] -= factor * a[p * n + k];
        }
    }
}

/* Optimal brain quantization in order, as the paper derives it: after each column the inverse loses that column. */
static void reference_gptq(buffers *out) {
    static double inverse[COLUMNS * COLUMNS], left[ROWS * COLUMNS];
    double lambda = 0;
    for (int i = 0; i < COLUMNS; i++) lambda += 0.01 * 2 * h[i * COLUMNS + i] / COLUMNS;
    for (int i = 0; i < COLUMNS * COLUMNS; i++) inverse[i] = 2 * h[i] + (i % (COLUMNS + 1) == 0 ? lambda : 0);
    invert(inverse, COLUMNS);
    memcpy(left, w, sizeof left);
    for (int j = 0; j < COLUMNS; j++) {
        const double pivot = inverse[j * COLUMNS + j];
        for (int r = 0; r < ROWS; r++) {
            double *row = left + r * COLUMNS, error;
            const int group = (r * COLUMNS + j) / GROUP;
            if (j % GROUP == 0) group_range(row + j, 1, &out->scale[group], &out->least[group]);
            out->codes[r * COLUMNS + j] = group_code(row[j], out->scale[group], out->least[group]);
            error = row[j] - group_value(out->codes[r * COLUMNS + j], out->scale[group], out->least[group]);
            for (int k = j; k < COLUMNS; k++) row[k] -= error * inverse[j * COLUMNS + k] / pivot;
        }
        for (int i = j + 1; i < COLUMNS; i++) {
            const double factor = inverse[i * COLUMNS + j] / pivot;
            for (int k = j + 1; k < COLUMNS; k++) inverse[i * COLUMNS + k] -= factor * inverse[j * COLUMNS + k];
        }
    }
}

static void test_gptq(void) {
    static double u[COLUMNS * COLUMNS], work[COLUMNS], left[ROWS * COLUMNS];
    buffers plain_codes, codes, wanted;
    grouped plain = in_buffers(&plain_codes), g = in_buffers(&codes);
    round_groups(w, &plain);
    CHECK(gptq_factor(h, COLUMNS, u, work));
    memcpy(left, w, sizeof left);
    gptq_round(left, u, &g);
    in_buffers(&wanted);
    reference_gptq(&wanted);
    CHECK(!memcmp(codes.codes, wanted.codes, sizeof codes.codes));
    CHECK(!memcmp(codes.scale, wanted.scale, sizeof codes.scale) &&
          !memcmp(codes.least, wanted.least, sizeof codes.least));
    CHECK_MESSAGE(error_on_inputs(&g, NULL) < 0.6 * error_on_inputs(&plain, NULL), "%g, plain %g",
                  error_on_inputs(&g, NULL), error_on_inputs(&plain, NULL));
    memset(u, 0, sizeof u);
    CHECK(!gptq_factor(u, COLUMNS, left, work)); /* nothing came through */
}

/* --- AWQ --- */

static void test_awq(void) {
    static double scaled[(ROWS + 1) * COLUMNS], s[COLUMNS], tried[COLUMNS], through[COLUMNS * COLUMNS];
    double best = INFINITY, wanted = 0, alpha;
    buffers codes, other;
    grouped g = in_buffers(&codes), trial = in_buffers(&other);
    alpha = awq_search(w, mean, h, scaled, s, &g);
    for (int step = 0; step < 20; step++) { /* the same grid, judged by the inputs themselves */
        double low = INFINITY, high = 0, error;
        for (int k = 0; k < COLUMNS; k++) {
            tried[k] = pow(mean[k], step * 0.05);
            low = fmin(low, tried[k]), high = fmax(high, tried[k]);
        }
        for (int k = 0; k < COLUMNS; k++) tried[k] /= sqrt(low * high);
        for (int i = 0; i < ROWS * COLUMNS; i++) scaled[i] = w[i] * tried[i % COLUMNS];
        round_groups(scaled, &trial);
        error = error_on_inputs(&trial, tried);
        if (error < best) best = error, wanted = step / 20.0;
    }
    CHECK_MESSAGE(alpha == wanted && alpha > 0, "alpha %g, not %g", alpha, wanted);
    for (int i = 0; i < ROWS * COLUMNS; i++) scaled[i] = w[i] * s[i % COLUMNS];
    for (int i = 0; i < COLUMNS * COLUMNS; i++) through[i] = h[i] / s[i / COLUMNS] / s[i % COLUMNS];
    awq_round(scaled, through, &g);
    CHECK(error_on_inputs(&g, s) <= best * 1.2);
    for (int r = 0; r < ROWS; r++) { /* the range of each group is the best of ten */
        for (int first = 0; first < COLUMNS; first += GROUP) {
            const int at = r * COLUMNS + first, group = at / GROUP;
            double least = INFINITY;
            uint16_t scale = 0, below = 0;
            for (int step = 0; step < 10; step++) {
                double error = 0;
                uint16_t a, b;
                group_range(scaled + at, 1 - 0.05 * step, &a, &b);
                for (int q = 0; q < SAMPLES; q++) {
                    double off = 0;
                    for (int k = 0; k < GROUP; k++)
                        off += (scaled[at + k] - group_value(group_code(scaled[at + k], a, b), a, b)) *
                               x[q * COLUMNS + first + k] / s[first + k];
                    error += off * off;
                }
                if (error < least) least = error, scale = a, below = b;
            }
            CHECK(g.scale[group] == scale && g.least[group] == below);
            for (int k = 0; k < GROUP; k++) CHECK(g.codes[at + k] == group_code(scaled[at + k], scale, below));
        }
    }
}

/* --- SmoothQuant: the product stays, and both sides have the same largest values where alpha is a half --- */

static void test_smooth(void) {
    double s[COLUMNS], w_most[COLUMNS] = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) w_most[i % COLUMNS] = fmax(w_most[i % COLUMNS], fabs(w[i]));
    smooth_factors(most, w_most, COLUMNS, 0.5, s);
    for (int k = 0; k < COLUMNS; k++) CHECK(fabs(most[k] / s[k] - w_most[k] * s[k]) <= 1e-12 * most[k]);
    smooth_factors(most, w_most, COLUMNS, 0.8, s);
    for (int k = 0; k < COLUMNS; k++) CHECK(fabs(s[k] - pow(most[k], 0.8) * pow(w_most[k], -0.2)) <= 1e-12 * s[k]);
}

/* --- the low-rank part --- */

enum { SIDE = 24, RANK = 6 };

/* Eigenvalues of a symmetric matrix by Jacobi's rotations, rising. */
static int by_size(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }
static void eigenvalues(double *a, int n, double *out) {
    for (int sweep = 0; sweep < 30; sweep++) {
        for (int p = 0; p < n; p++) {
            for (int q = p + 1; q < n; q++) {
                const double angle = 0.5 * atan2(2 * a[p * n + q], a[q * n + q] - a[p * n + p]), c = cos(angle),
                             t = sin(angle);
                for (int k = 0; k < n; k++) {
                    const double u = a[p * n + k], v = a[q * n + k];
                    a[p * n + k] = c * u - t * v, a[q * n + k] = t * u + c * v;
                }
                for (int k = 0; k < n; k++) {
                    const double u = a[k * n + p], v = a[k * n + q];
                    a[k * n + p] = c * u - t * v, a[k * n + q] = t * u + c * v;
                }
            }
        }
    }
    for (int i = 0; i < n; i++) out[i] = a[i * n + i];
    qsort(out, (size_t)n, sizeof *out, by_size);
}

static void test_low_rank(void) {
    static double m[SIDE * 40], up[RANK * SIDE], down[RANK * 40], gram[SIDE * SIDE], values[SIDE];
    double tail = 0, left = 0, all = 0;
    for (int i = 0; i < SIDE * 40; i++) m[i] = next_number() + 3 * sin(i / 40 * 1.7) * cos(i % 40 * 0.9);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < 40; j++) gram[i * SIDE + k] += m[i * 40 + j] * m[k * 40 + j];
    eigenvalues(gram, SIDE, values);
    for (int i = 0; i < SIDE - RANK; i++) tail += values[i];
    low_rank(m, SIDE, 40, RANK, up, down);
    for (int i = 0; i < SIDE * 40; i++) {
        double value = m[i];
        for (int r = 0; r < RANK; r++) value -= up[r * SIDE + i / 40] * down[r * 40 + i % 40];
        left += value * value, all += m[i] * m[i];
    }
    CHECK_MESSAGE(left >= tail * (1 - 1e-9) && left <= 1.05 * tail && tail < 0.5 * all, "%g, at best %g of %g", left,
                  tail, all);
}

/* --- the program --- */

static converter make_converter(const char *input, dit_error *err) {
    converter convert = {0};
    convert.env = test_env(NULL);
    convert.input = input, convert.output = output, convert.name = "test", convert.type = DIT_TYPE_Q8_0;
    convert.rank = 4, convert.journal_step = 1, convert.err = err;
    return convert;
}

static void test_without(void) {
    dit_error err = {0};
    converter convert = make_converter(folder_path, &err);
    size_t transformer = 0;
    convert.without_text = convert.without_vae = true;
    CHECK_MESSAGE(convert_model(&convert) == DIT_OK, "%s", err.message);
    for (size_t i = 0; i < convert.tensor_count; i++) {
        CHECK(diti_starts_with(convert.tensors[i].name, "transformer."));
        transformer++;
    }
    CHECK(transformer > 20);
    for (size_t i = 0; i < convert.file_count; i++)
        CHECK(!strstr(convert.files[i].path, "text_encoder") && !strstr(convert.files[i].path, "tokenizer") &&
              !strstr(convert.files[i].path, "vae"));
    clean_up(&convert);
}

static void test_budget(void) {
    struct stat info;
    uint64_t whole = 0, before = 0;
    dit_error err = {0};
    for (int part = 0; part < 4; part++) {
        converter convert = make_converter(folder_path, &err);
        convert.budget = part ? whole - 15000 * (uint64_t)part : UINT64_MAX;
        CHECK_MESSAGE(convert_model(&convert) == DIT_OK, "%s", err.message);
        CHECK(stat(output, &info) == 0 && (uint64_t)info.st_size <= convert.budget);
        if (part) CHECK((uint64_t)info.st_size > convert.budget - 5000 && (uint64_t)info.st_size < before);
        before = (uint64_t)info.st_size;
        if (!part) whole = before;
        clean_up(&convert);
    }
    {
        converter convert = make_converter(folder_path, &err);
        convert.budget = 1000;
        CHECK(convert_model(&convert) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "the budget of 1000"));
        clean_up(&convert);
    }
    remove(output);
}

#ifndef _WIN32
static void kill_myself(int number) {
    (void)number;
    kill(getpid(), SIGKILL);
}

static char *convert_resuming(const char *type, size_t *size, uint64_t *kept) {
    dit_error err = {0};
    converter convert = make_converter(folder_path, &err);
    CHECK(type_from_name(type, &convert.type));
    convert.resumes = true;
    CHECK_MESSAGE(convert_model(&convert) == DIT_OK, "%s", err.message);
    *kept = convert.kept;
    clean_up(&convert);
    return test_read_file(output, size);
}

/* Killed for good while it writes; the next run writes only the rest, and gives the same bytes. Int8 rows have their
 * scales behind them, which a run alone cannot know that begins between the two. */
static void test_resume(const char *type) {
    const char *const partial = "build/calibrate_test.gguf.partial", *const journal =
                                                                         "build/calibrate_test.gguf.journal";
    size_t size, again_size;
    uint64_t kept;
    struct stat info;
    char *whole = convert_resuming(type, &size, &kept), *again;
    CHECK(kept == 0 && stat(partial, &info) != 0 && stat(journal, &info) != 0);
    for (size_t part = 1; part < 8; part += 2) {
        int status = 0;
        pid_t child;
        remove(output);
        fflush(NULL);
        child = fork();
        if (child == 0) {
            struct rlimit limit = {size * part / 8, size * part / 8};
            signal(SIGXFSZ, kill_myself);
            setrlimit(RLIMIT_FSIZE, &limit);
            convert_resuming(type, &again_size, &kept);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(stat(output, &info) != 0 && stat(partial, &info) == 0 && stat(journal, &info) == 0);
        again = convert_resuming(type, &again_size, &kept);
        CHECK_MESSAGE(part < 5 || kept > 0, "%s, %zu of 8: nothing was kept", type, part);
        CHECK_MESSAGE(again_size == size && !memcmp(whole, again, size), "%s, %zu of 8", type, part);
        CHECK(stat(partial, &info) != 0 && stat(journal, &info) != 0);
        free(again);
    }
    free(whole);
    remove(output);
}

/* A whole output that cannot get its name stays: the next run has nothing left to do. */
static void test_resume_at_the_end(void) {
    dit_error err = {0};
    converter convert = make_converter(folder_path, &err);
    size_t size;
    uint64_t kept;
    CHECK(mkdir(output, 0700) == 0);
    convert.type = DIT_TYPE_Q4_0, convert.resumes = true;
    CHECK(convert_model(&convert) == DIT_ERROR_IO);
    clean_up(&convert);
    CHECK(rmdir(output) == 0);
    free(convert_resuming("q4_0", &size, &kept));
    CHECK_MESSAGE(kept + 32 > size, "%zu bytes were made, %llu of them kept", size, (unsigned long long)kept);
    remove(output);
}

/* A journal of other options is not used. */
static void test_other_journal(void) {
    size_t size, again_size;
    uint64_t kept;
    char *whole = convert_resuming("q5_0", &size, &kept), *again;
    FILE *journal = fopen("build/calibrate_test.gguf.journal", "wb"),
         *partial = fopen("build/calibrate_test.gguf.partial", "wb");
    CHECK(journal && partial && fprintf(journal, "plan 123\n%zu\n", size) > 0 &&
          fwrite(whole, 1, size, partial) == size);
    fclose(journal), fclose(partial);
    again = convert_resuming("q8_0", &again_size, &kept);
    CHECK(kept == 0 && again_size > size);
    free(whole), free(again);
    remove(output);
}

/* The journal's hash of all that decides the output's bytes, for these options and prompts. */
static uint64_t journalled_plan(double smoothing, rounding_method method, const char *prompt) {
    static const char prompts[] = "build/calibrate_prompts.txt";
    dit_error err = {0};
    converter convert = make_converter(folder_path, &err);
    FILE *file = fopen(prompts, "wb");
    CHECK(file && fputs(prompt, file) >= 0 && fclose(file) == 0);
    convert.type = DIT_TYPE_I4_GROUP, convert.prompts = prompts, convert.resumes = true;
    convert.smoothing = smoothing, convert.method = method, convert.journal_step = JOURNAL_STEP;
    CHECK_MESSAGE(convert_model(&convert) == DIT_OK, "%s", err.message);
    clean_up(&convert);
    remove(prompts), remove(output);
    return convert.plan;
}

/* Half a file of one way to round and half of another would be none. */
static void test_rounding_in_journal(void) {
    const uint64_t first = journalled_plan(0.5, ROUND_GPTQ, "a cat");
    CHECK(journalled_plan(0.5, ROUND_GPTQ, "a cat") == first);
    CHECK(journalled_plan(0.8, ROUND_GPTQ, "a cat") != first);
    CHECK(journalled_plan(0.5, ROUND_AWQ, "a cat") != first);
    CHECK(journalled_plan(0.5, ROUND_GPTQ, "a dog") != first);
}

/* A hard link has the input's inode. */
static void test_same_inode(void) {
    static const char twin[] = "build/calibrate_twin.gguf";
    struct stat info;
    size_t size;
    uint64_t kept;
    char *words[] = {"dit-convert", "--resume", "--type", "q4_0", (char *)output, (char *)twin, NULL};
    free(convert_resuming("q8_0", &size, &kept));
    remove(twin);
    CHECK(link(output, twin) == 0);
    CHECK(convert_main(6, words) == EXIT_USAGE);
    CHECK(stat(twin, &info) == 0 && (size_t)info.st_size == size);
    remove(twin), remove(output);
}
#endif

static const run_place anywhere; /* zeros */

/* Streamed weights and a named device leave the inputs of all layers as they are; what cannot be is said. */
static void test_run_place(void) {
    static char prompt[] = "a cat";
    char *prompts[] = {prompt};
    const run_place places[] = {{NULL, 0}, {"0", 140000}}, nowhere = {"no such device", 0}, both = {"0,0", 0};
    calibration c[2];
    dit_error err = {0};
    dit_context *context = NULL;
    dit_model *model = NULL;
    uint64_t streamed = 0;
    memset(c, 0, sizeof c);
    for (size_t i = 0; i < 2; i++) {
        c[i].env = test_env(NULL);
        CHECK_MESSAGE(calibrate(&c[i], folder_path, &places[i], prompts, 1, &err) == DIT_OK, "%s", err.message);
    }
    CHECK(c[0].layer_count > 10 && c[0].layer_count == c[1].layer_count && c[0].size == c[1].size);
    for (size_t i = 0; i < c[0].name_count && i < c[1].name_count; i++) {
        layer_statistics a, b;
        char name[160];
        snprintf(name, sizeof name, "%s.weight", c[0].names[i].module);
        if (!CHECK_MESSAGE(statistics_of(&c[0], name, &a) && statistics_of(&c[1], name, &b), "%s", name)) break;
        CHECK_MESSAGE(!memcmp(a.h, b.h, (size_t)a.columns * a.columns * sizeof *a.h), "%s", name);
        statistics_free(&a), statistics_free(&b);
    }
    calibration_free(&c[0]), calibration_free(&c[1]);
    CHECK_MESSAGE(open_model(folder_path, &places[1], &context, &model, &err) == DIT_OK, "%s", err.message);
    if (model) diti_model_weight_bytes(model, &streamed);
    CHECK(streamed > 0);
    dit_model_destroy(model), dit_context_destroy(context);
    context = NULL, model = NULL;
    CHECK(open_model(folder_path, &nowhere, &context, &model, &err) < 0 && strstr(err.message, "no such device"));
    dit_model_destroy(model), dit_context_destroy(context);
    context = NULL, model = NULL;
    CHECK(open_model(folder_path, &both, &context, &model, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "name one"));
    dit_model_destroy(model), dit_context_destroy(context);
}

/* Every layer of the blocks is seen, and q, k and v have the same inputs. */
static void test_calibration(void) {
    static char prompt[] = "a cat";
    char *prompts[] = {prompt};
    calibration c = {0};
    dit_error err = {0};
    size_t seen = 0;
    c.env = test_env(NULL);
    CHECK_MESSAGE(calibrate(&c, folder_path, &anywhere, prompts, 1, &err) == DIT_OK, "%s", err.message);
    for (size_t i = 0; i < c.name_count; i++) {
        char name[160];
        layer_statistics s, first;
        snprintf(name, sizeof name, "%s.weight", c.names[i].module);
        if (!CHECK(statistics_of(&c, name, &s))) continue;
        CHECK(s.rows > 0 && s.rows <= 2 * ROWS_OF_A_LAYER);
        for (uint32_t k = 0; k < s.columns; k++)
            CHECK(s.mean[k] <= s.most[k] && s.h[k * s.columns + k] <= s.most[k] * s.most[k] * (1 + 1e-9) &&
                  s.h[k * s.columns + k] >= s.mean[k] * s.mean[k] * (1 - 1e-9));
        if (strcmp(name, "transformer_blocks.0.attn1.to_v.weight") == 0 &&
            CHECK(statistics_of(&c, "transformer_blocks.0.attn1.to_q.weight", &first))) {
            CHECK(!memcmp(first.h, s.h, (size_t)s.columns * s.columns * sizeof *s.h));
            statistics_free(&first);
        }
        statistics_free(&s);
        seen++;
    }
    CHECK_MESSAGE(seen >= 18, "%zu", seen);
    CHECK(!is_calibrated(&c, "caption_projection.linear_1.weight") && !is_calibrated(&c, "nothing.weight"));
    calibration_free(&c);
}

/* Folded factors leave what the model computes as it is. */
static void test_folding(void) {
    static const char list[] = "build/calibrate_prompts.txt";
    static char prompt[] = "a cat";
    char *prompts[] = {prompt};
    FILE *file = fopen(list, "wb");
    dit_error err = {0};
    converter convert = make_converter(folder_path, &err);
    latents_path reference = {0}, other = {0};
    size_t folded = 0;
    CHECK(file && fputs("a cat\n", file) >= 0 && fclose(file) == 0);
    convert.prompts = list, convert.smoothing = 0.5, convert.type = DIT_TYPE_F32;
    CHECK_MESSAGE(convert_model(&convert) == DIT_OK, "%s", err.message);
    for (size_t i = 0; i < convert.tensor_count; i++)
        for (uint32_t k = 0; convert.tensors[i].column_factors && k < row_length(convert.tensors[i].stored); k++)
            folded += fabsf(convert.tensors[i].column_factors[k] - 1) > 0.1f;
    clean_up(&convert);
    CHECK_MESSAGE(folded > 32, "%zu", folded);
    CHECK(trace_model(folder_path, &anywhere, prompts, 1, 2, &reference, &err) == DIT_OK &&
          trace_model(output, &anywhere, prompts, 1, 2, &other, &err) == DIT_OK);
    CHECK_MESSAGE(trajectory_error(&reference, &other) <= 1e-5, "%g", trajectory_error(&reference, &other));
    free(reference.values), free(other.values);
    remove(output), remove(list);
}

/* Under a weight budget a matrix has the number that it has without one, or none where it is streamed. */
static void sense_within(converter *convert, const sensed *known, size_t count) {
    sensed tried[8];
    size_t left = 0;
    memcpy(tried, known, count * sizeof *tried);
    for (size_t i = 0; i < count; i++) tried[i].off = tried[i].size = 0;
    convert->place.weight_budget = 600000;
    CHECK_MESSAGE(sense_matrices(convert, tried, count) == DIT_OK, "%s", convert->err->message);
    for (size_t i = 0; i < count; i++) {
        left += !(tried[i].size > 0);
        if (tried[i].size > 0) CHECK(fabs(tried[i].off - known[i].off) <= 1e-6 * known[i].off);
    }
    CHECK_MESSAGE(left > 0 && left < count, "%zu matrices of %zu were streamed", left, count);
}

/* A matrix alone in another type: what the latents on the device are off by is what those of a file with it are. Every
 * matrix has its own values again afterwards, because the next one's number is right. */
static void test_sense(void) {
    static const char list[] = "build/calibrate_prompts.txt",
                      *const names[] = {"text_encoder.encoder.block.0.layer.0.SelfAttention.k.weight",
                                        "text_encoder.encoder.block.0.layer.1.DenseReluDense.wo.weight",
                                        "transformer.transformer_blocks.1.ff.net.2.weight"};
    static const dit_type types[] = {DIT_TYPE_Q4_0, DIT_TYPE_Q4_1, DIT_TYPE_Q5_0};
    static char prompt[] = "a cat";
    char *prompts[] = {prompt};
    FILE *file = fopen(list, "wb");
    dit_error err = {0};
    converter convert = make_converter(folder_path, &err);
    latents_path reference = {0}, other = {0};
    sensed tried[DITI_COUNT(names)];
    CHECK(file && fputs("a cat\n", file) >= 0 && fclose(file) == 0);
    memset(tried, 0, sizeof tried);
    convert.prompts = list;
    CHECK(open_input(&convert) == DIT_OK);
    for (size_t n = 0; n < DITI_COUNT(names); n++) {
        for (size_t i = 0; i < convert.tensor_count; i++)
            if (strcmp(convert.tensors[i].name, names[n]) == 0) tried[n].tensor = &convert.tensors[i];
        tried[n].component = n < 2 ? "text_encoder" : "transformer";
        tried[n].type = types[n];
        if (!CHECK_MESSAGE(tried[n].tensor != NULL, "%s", names[n])) return;
    }
    CHECK_MESSAGE(sense_matrices(&convert, tried, DITI_COUNT(names)) == DIT_OK, "%s", err.message);
    CHECK(trace_model(folder_path, &anywhere, prompts, 1, SENSE_STEPS, &reference, &err) == DIT_OK);
    for (size_t n = 0; n < DITI_COUNT(names); n++) {
        converter whole = make_converter(folder_path, &err);
        double alone = sqrt(tried[n].off / tried[n].size), of_file;
        CHECK(add_rule(&whole, names[n], strlen(names[n]), types[n]) && add_rule(&whole, "*", 1, DIT_TYPE_F32));
        CHECK_MESSAGE(convert_model(&whole) == DIT_OK &&
                          trace_model(output, &anywhere, prompts, 1, SENSE_STEPS, &other, &err) == DIT_OK,
                      "%s", err.message);
        of_file = trajectory_error(&reference, &other);
        CHECK_MESSAGE(of_file > 0 && fabs(alone - of_file) <= 1e-3 * of_file, "%s: %g alone, %g in a file", names[n],
                      alone, of_file);
        clean_up(&whole);
    }
    sense_within(&convert, tried, DITI_COUNT(names));
    clean_up(&convert);
    free(reference.values), free(other.values);
    remove(output), remove(list);
}

/* The latents of four other prompts are off by less than with one type for all, at three sizes. */
static void test_fit(void) {
    static const char list[] = "build/calibrate_prompts.txt", *const model = "models/emoji-q8_0.gguf";
    static const dit_type uniform[] = {DIT_TYPE_Q4_K, DIT_TYPE_Q5_K, DIT_TYPE_Q6_K};
    static char texts[4][48] = {"orca, fluent style on a teal background", "cat face", "rocket, noto style",
                                "flat style red apple on a red background"};
    char *prompts[] = {texts[0], texts[1], texts[2], texts[3]};
    FILE *file = fopen(list, "wb");
    dit_error err = {0};
    converter mixed = make_converter(model, &err);
    latents_path reference = {0}, other = {0};
    fit_entry *entries = NULL;
    size_t count = 0;
    CHECK(file && fputs("fox, fluent style on a purple background\n", file) >= 0 && fclose(file) == 0);
    CHECK(trace_model(model, &anywhere, prompts, 4, 6, &reference, &err) == DIT_OK);
    mixed.prompts = list;
    CHECK(add_rule(&mixed, "vae.*", 5, DIT_TYPE_Q8_0) && open_input(&mixed) == DIT_OK);
    inherit_defaults(&mixed);
    entries = (fit_entry *)calloc(mixed.tensor_count, sizeof *entries);
    CHECK_MESSAGE(entries && list_fit(&mixed, entries, &count) == DIT_OK, "%s", err.message);
    for (size_t i = 0; i < DITI_COUNT(uniform); i++) {
        converter one = make_converter(model, &err);
        double errors[2];
        struct stat info;
        one.type = uniform[i];
        CHECK(add_rule(&one, "vae.*", 5, DIT_TYPE_Q8_0) && convert_model(&one) == DIT_OK);
        CHECK(stat(output, &info) == 0 && trace_model(output, &anywhere, prompts, 4, 6, &other, &err) == DIT_OK);
        errors[0] = trajectory_error(&reference, &other);
        clean_up(&one);
        mixed.budget = (uint64_t)info.st_size;
        for (size_t k = 0; k < count; k++) choose_option(&entries[k], 0);
        CHECK_MESSAGE(shrink_to_fit(&mixed, entries, count) == DIT_OK && write_output(&mixed) == DIT_OK, "%s",
                      err.message);
        CHECK(stat(output, &info) == 0 && (uint64_t)info.st_size <= mixed.budget);
        CHECK(trace_model(output, &anywhere, prompts, 4, 6, &other, &err) == DIT_OK);
        errors[1] = trajectory_error(&reference, &other);
        printf("as large as %s, %llu bytes: relative L2 of the latents %.4f, uniform %.4f\n",
               diti_type_name(uniform[i]), (unsigned long long)mixed.budget, errors[1], errors[0]);
        CHECK(errors[1] < errors[0]);
    }
    free(entries);
    clean_up(&mixed);
    free(reference.values), free(other.values);
    remove(output), remove(list);
}

int main(void) {
    const char *all = getenv("DIT_TEST_ALL");
    test_vulkan_begin();
    make_layer();
    test_gptq();
    test_awq();
    test_smooth();
    test_low_rank();
    test_without();
    test_budget();
#ifndef _WIN32
    test_resume("q4_0");
    test_resume("i8r");
    test_resume_at_the_end();
    test_other_journal();
    test_rounding_in_journal();
    test_same_inode();
#endif
    test_calibration();
    test_run_place();
    test_folding();
    test_sense();
    if (all && strcmp(all, "1") == 0) test_fit();
    test_vulkan_end();
    return TEST_END("calibrate");
}
