/* Tiny autoencoders whose files are made here, against the formulas of docs/models.md 4.2 in double precision: FLUX.2's
   (a GroupNorm beside blocks, packed latents) and those of clips (frames that remember each other). Then colours of
   latents without any decoder. By hand: build/tests/tiny 512 tells what previews of so many pixels cost.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "lora_file.h"
#include "files.h"
#include "vulkan_test.h"
#include <math.h>
#include <time.h>

static diti_env env;

/* --- files --- */

enum { MOST_WEIGHTS = 160 };
typedef struct weight {
    char name[48];
    uint32_t out, in, side;
    float *values; /* [out][in][side][side] */
} weight;
typedef struct weights {
    lora_file file;
    weight list[MOST_WEIGHTS];
    uint32_t count;
} weights;

static void add(weights *w, uint32_t out, uint32_t in, uint32_t side, const char *format, unsigned number) {
    weight *made = &w->list[w->count++];
    size_t size = (size_t)out * in * side * side, i;
    uint64_t shape[4] = {out, in, side, side};
    double spread = sqrt(6.0 / (in * side * side));
    snprintf(made->name, sizeof made->name, format, number);
    made->out = out;
    made->in = in;
    made->side = side;
    made->values = (float *)malloc(size * sizeof *made->values);
    for (i = 0; i < size; i++)
        made->values[i] =
            (float)(((double)(real_random(diti_hash(made->name, strlen(made->name)), i) >> 11) / 9007199254740992.0 -
                     0.5) *
                    (side ? 2 * spread : 1));
    lora_file_bytes(&w->file, made->name, "F32", shape, in ? 4 : 1, made->values, size * sizeof *made->values);
}

/* A vector of so many values around `middle`. */
static void add_vector(weights *w, uint32_t count, double middle, const char *format, unsigned number) {
    weight *made = &w->list[w->count++];
    uint64_t shape[1] = {count}, i;
    snprintf(made->name, sizeof made->name, format, number);
    made->out = count;
    made->in = made->side = 1;
    made->values = (float *)malloc(count * sizeof *made->values);
    for (i = 0; i < count; i++)
        made->values[i] =
            (float)(middle + 0.4 * ((double)(real_random(diti_hash(made->name, strlen(made->name)), i) >> 11) /
                                        9007199254740992.0 -
                                    0.5));
    lora_file_bytes(&w->file, made->name, "F32", shape, 1, made->values, count * sizeof *made->values);
}

static void add_conv(weights *w, uint32_t out, uint32_t in, bool bias, const char *name, unsigned number) {
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    add(w, out, in, 3, full, number);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) add_vector(w, out, 0, full, number);
}

static void add_block(weights *w, uint32_t channels, bool pool, bool remembers, unsigned number) {
    add_conv(w, channels, remembers ? 2 * channels : channels, true, "decoder.%u.conv.0", number);
    add_conv(w, channels, channels, true, "decoder.%u.conv.2", number);
    add_conv(w, channels, channels, true, "decoder.%u.conv.4", number);
    if (!pool) return;
    add(w, 4 * channels, channels, 1, "decoder.%u.pool.0.weight", number);
    add_vector(w, 4 * channels, 1, "decoder.%u.pool.1.weight", number);
    add_vector(w, 4 * channels, 0, "decoder.%u.pool.1.bias", number);
    add(w, channels, 4 * channels, 1, "decoder.%u.pool.3.weight", number);
}

static const weight *find(const weights *w, const char *name, unsigned number) {
    char full[48];
    uint32_t i;
    snprintf(full, sizeof full, name, number);
    for (i = 0; i < w->count; i++)
        if (!strcmp(w->list[i].name, full)) return &w->list[i];
    return NULL;
}

static void forget(weights *w) {
    uint32_t i;
    for (i = 0; i < w->count; i++) free(w->list[i].values);
    bytes_free(&w->file.header);
    bytes_free(&w->file.data);
    bytes_free(&w->file.whole);
}

/* --- the formulas --- */

typedef struct planes {
    uint32_t frames, channels, height, width;
    double *v; /* [frames][channels][height][width] */
} planes;

static planes planes_of(uint32_t frames, uint32_t channels, uint32_t height, uint32_t width) {
    planes p = {frames, channels, height, width, NULL};
    p.v = (double *)calloc((size_t)frames * channels * height * width, sizeof *p.v);
    return p;
}
static size_t count_of(const planes *p) { return (size_t)p->frames * p->channels * p->height * p->width; }
static double *at(const planes *p, uint32_t f, uint32_t c, uint32_t y, uint32_t x) {
    return &p->v[(((size_t)f * p->channels + c) * p->height + y) * p->width + x];
}
static planes replace(planes old, planes now) {
    free(old.v);
    return now;
}
static planes relu(planes p) {
    size_t i;
    for (i = 0; i < count_of(&p); i++) p.v[i] = p.v[i] > 0 ? p.v[i] : 0;
    return p;
}
static planes plus(planes a, planes b) {
    size_t i;
    for (i = 0; i < count_of(&a); i++) a.v[i] += b.v[i];
    return replace(b, a);
}
static planes copy_of(planes p) {
    planes out = planes_of(p.frames, p.channels, p.height, p.width);
    memcpy(out.v, p.v, count_of(&p) * sizeof *p.v);
    return out;
}

/* 3 x 3 with zeros around, or 1 x 1; x is freed. */
static planes conv(const weights *w, planes x, const char *name, unsigned number) {
    char full[48];
    const weight *k = find(w, name, number), *b;
    planes out = planes_of(x.frames, k->out, x.height, x.width);
    uint32_t f, o, y, i;
    int dy, dx, half = (int)k->side / 2, column;
    snprintf(full, sizeof full, "%.*s.bias", (int)(strlen(name) - strlen(".weight")), name);
    b = find(w, full, number);
    for (f = 0; f < x.frames; f++)
        for (o = 0; o < k->out; o++)
            for (y = 0; y < x.height; y++)
                for (column = 0; column < (int)x.width; column++) {
                    double sum = b ? b->values[o] : 0;
                    for (i = 0; i < k->in; i++)
                        for (dy = -half; dy <= half; dy++)
                            for (dx = -half; dx <= half; dx++) {
                                int line = (int)y + dy, from = column + dx;
                                if (line < 0 || from < 0 || line >= (int)x.height || from >= (int)x.width) continue;
                                sum += *at(&x, f, i, (uint32_t)line, (uint32_t)from) *
                                       (double)k->values[((o * k->in + i) * k->side + (uint32_t)(dy + half)) * k->side +
                                                         (uint32_t)(dx + half)];
                            }
                    *at(&out, f, o, y, (uint32_t)column) = sum;
                }
    return replace(x, out);
}

static planes twice(planes x) {
    planes out = planes_of(x.frames, x.channels, 2 * x.height, 2 * x.width);
    uint32_t f, c, y, i;
    for (f = 0; f < x.frames; f++)
        for (c = 0; c < x.channels; c++)
            for (y = 0; y < out.height; y++)
                for (i = 0; i < out.width; i++) *at(&out, f, c, y, i) = *at(&x, f, c, y / 2, i / 2);
    return replace(x, out);
}

static planes group_norm(const weights *w, planes x, unsigned number) {
    const weight *scale = find(w, "decoder.%u.pool.1.weight", number),
                 *shift = find(w, "decoder.%u.pool.1.bias", number);
    size_t area = (size_t)x.height * x.width, size = x.channels / 4 * area, i;
    uint32_t g, c;
    for (g = 0; g < 4; g++) {
        double *v = x.v + g * size, mean = 0, square = 0;
        for (i = 0; i < size; i++) mean += v[i] / (double)size;
        for (i = 0; i < size; i++) square += (v[i] - mean) * (v[i] - mean) / (double)size;
        for (i = 0; i < size; i++) {
            c = g * (x.channels / 4) + (uint32_t)(i / area);
            v[i] = (v[i] - mean) / sqrt(square + 1e-5) * scale->values[c] + shift->values[c];
        }
    }
    return x;
}

static planes block(const weights *w, planes x, unsigned number) {
    planes sum, both;
    const weight *first = find(w, "decoder.%u.conv.0.weight", number);
    uint32_t f;
    size_t frame = (size_t)x.channels * x.height * x.width;
    if (find(w, "decoder.%u.pool.0.weight", number)) {
        planes h = relu(group_norm(w, conv(w, copy_of(x), "decoder.%u.pool.0.weight", number), number));
        x = plus(x, conv(w, h, "decoder.%u.pool.3.weight", number));
    }
    sum = copy_of(x);
    if (first->in == 2 * x.channels) {
        both = planes_of(x.frames, 2 * x.channels, x.height, x.width);
        for (f = 0; f < x.frames; f++) {
            memcpy(both.v + 2 * f * frame, x.v + f * frame, frame * sizeof *x.v);
            if (f) memcpy(both.v + (2 * f + 1) * frame, x.v + (f - 1) * frame, frame * sizeof *x.v);
        }
        x = replace(x, both);
    }
    x = relu(conv(w, x, "decoder.%u.conv.0.weight", number));
    x = relu(conv(w, x, "decoder.%u.conv.2.weight", number));
    return relu(plus(conv(w, x, "decoder.%u.conv.4.weight", number), sum));
}

/* Channels t * C + c of a frame become frames. */
static planes grow(const weights *w, planes x, unsigned number) {
    uint32_t channels = x.channels, frames = x.frames;
    x = conv(w, x, "decoder.%u.conv.weight", number);
    x.frames = frames * (x.channels / channels);
    x.channels = channels;
    return x;
}

static planes squash(planes x) {
    size_t i;
    for (i = 0; i < count_of(&x); i++) x.v[i] = 3 * tanh(x.v[i] / 3);
    return x;
}

static planes decode_of_pictures(const weights *w, planes x) {
    unsigned number = 3, stage, i;
    x = relu(conv(w, squash(x), "decoder.%u.weight", 1));
    for (stage = 0; stage < 3; stage++, number += 5) {
        for (i = 0; i < 3; i++) x = block(w, x, number + i);
        x = conv(w, twice(x), "decoder.%u.weight", number + 4);
    }
    return conv(w, block(w, x, number), "decoder.%u.weight", number + 1);
}

static planes decode_of_clips(const weights *w, planes x) {
    unsigned number = 3, stage, i;
    x = relu(conv(w, squash(x), "decoder.%u.weight", 1));
    for (stage = 0; stage < 3; stage++, number += 6) {
        for (i = 0; i < 3; i++) x = block(w, x, number + i);
        x = conv(w, grow(w, twice(x), number + 4), "decoder.%u.weight", number + 5);
    }
    return conv(w, relu(x), "decoder.%u.weight", 22);
}

/* --- against the library --- */

enum { HEIGHT = 5, WIDTH = 3, LATENT = 4 };

/* latent: channels that the decoder reads. */
static void make_pictures(weights *w, bool pool, uint32_t latent, uint32_t channels) {
    unsigned number = 3, stage, i;
    memset(w, 0, sizeof *w);
    add_conv(w, channels, latent, true, "decoder.%u", 1);
    for (stage = 0; stage < 3; stage++, number += 5) {
        for (i = 0; i < 3; i++) add_block(w, channels, pool && !stage, false, number + i);
        add_conv(w, channels, channels, false, "decoder.%u", number + 4);
    }
    add_block(w, channels, false, false, number);
    add_conv(w, 3, channels, true, "decoder.%u", number + 1);
}

static void make_clips(weights *w, uint32_t patch, uint32_t first_frames, uint32_t latent, const uint32_t *channels) {
    unsigned number = 3, stage, i;
    memset(w, 0, sizeof *w);
    add_conv(w, channels[0], latent, true, "decoder.%u", 1);
    for (stage = 0; stage < 3; stage++, number += 6) {
        uint32_t own = channels[stage], frames = stage ? 2 : first_frames;
        for (i = 0; i < 3; i++) add_block(w, own, false, true, number + i);
        add(w, frames * own, own, 1, "decoder.%u.conv.weight", number + 4);
        add_conv(w, channels[stage + 1], own, false, "decoder.%u", number + 5);
    }
    add_conv(w, 3 * patch * patch, channels[3], true, "decoder.%u", 22);
}

static diti_vae *load(diti_device *device, weights *w, diti_checkpoint **file) {
    dit_source source = lora_file_source(&w->file);
    dit_error err = DITI_ZERO;
    diti_vae *vae = NULL;
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, file, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(diti_vae_load(device, &env, NULL, *file, "", NULL, &vae, &err) == DIT_OK, "%s", err.message);
    return vae;
}

static float latent_value(uint32_t c, uint32_t y, uint32_t x) { return (float)(2 * sin(1.7 * c + 0.9 * y - 1.3 * x)); }

/* Runs what `out` needs, from `input`, which gets values. */
static void run(diti_graph *graph, diti_tensor input, const float *values, diti_tensor out, float *results) {
    size_t in = (size_t)diti_tensor_rows(graph, input) * diti_tensor_columns(graph, input),
           made = (size_t)diti_tensor_rows(graph, out) * diti_tensor_columns(graph, out);
    diti_tensor kept =
        diti_tensor_state(graph, DITI_F32, diti_tensor_rows(graph, out), diti_tensor_columns(graph, out), "kept");
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    diti_copy(graph, out, kept, "kept");
    CHECK_MESSAGE(diti_plan_create(graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(graph);
    if (!plan) return;
    CHECK(diti_plan_write(plan, input, values, in * sizeof(float), &err) == DIT_OK);
    CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_plan_read(plan, kept, results, made * sizeof(float), &err) == DIT_OK);
    diti_plan_destroy(plan);
}

static void expect(const diti_device *device, const char *name, const double *wanted, const float *got, size_t count) {
    double difference = 0, size = 0, limit = device->rung == DITI_RUNG_BASE ? 1e-5 : 2e-2;
    size_t i;
    for (i = 0; i < count; i++) {
        difference += (wanted[i] - got[i]) * (wanted[i] - got[i]);
        size += wanted[i] * wanted[i];
    }
    printf("%s: relative L2 %.2e of %zu values\n", name, sqrt(difference / size), count);
    CHECK_MESSAGE(sqrt(difference / size) <= limit, "%s: relative L2 %g", name, sqrt(difference / size));
}

/* packed: the latent has four times the channels, and a pixel of it is 2 x 2. patch: of the last convolution. */
static void test_decoder(diti_device *device, weights *w, bool packed, uint32_t patch, const char *name) {
    uint32_t side = packed ? 2 : 1, channels = LATENT * side * side, factor = 8 * side * patch, c, y, x, i;
    uint32_t height = factor * HEIGHT, width = factor * WIDTH;
    planes latent = planes_of(1, LATENT, side * HEIGHT, side * WIDTH), out;
    float *values = (float *)malloc(sizeof(float) * channels * HEIGHT * WIDTH),
          *got = (float *)malloc(sizeof(float) * 3 * height * width);
    double *wanted = (double *)malloc(sizeof(double) * 3 * height * width);
    diti_checkpoint *file = NULL;
    diti_vae *vae = load(device, w, &file);
    diti_graph graph;
    diti_tensor input, rows;
    for (c = 0; c < LATENT; c++)
        for (y = 0; y < latent.height; y++)
            for (x = 0; x < latent.width; x++) {
                uint32_t plane = (c * side + y % side) * side + x % side;
                values[(plane * HEIGHT + y / side) * WIDTH + x / side] = latent_value(c, y, x);
                *at(&latent, 0, c, y, x) = (double)latent_value(c, y, x);
            }
    out = find(w, "decoder.%u.weight", 22) ? decode_of_clips(w, latent) : decode_of_pictures(w, latent);
    for (i = 0; i < height * width; i++)
        for (c = 0; c < 3; c++) {
            y = i / width, x = i % width;
            wanted[3 * i + c] =
                *at(&out, out.frames - 1, (c * patch + y % patch) * patch + x % patch, y / patch, x / patch) * 2 - 1;
        }
    if (vae) {
        CHECK(vae->traits.latent_channels == LATENT && vae->traits.factor == 8 * patch);
        diti_vae_fit(vae, channels);
        CHECK(vae->traits.latent_channels == channels && vae->traits.factor == factor && vae->traits.tiny);
        diti_graph_init(&graph, device);
        diti_graph_segment(&graph, "vae", false);
        input = diti_tensor_input(&graph, DITI_F32, channels, HEIGHT * WIDTH, "latent");
        rows = diti_vae_decode(vae, &graph, input, HEIGHT, WIDTH, 0, NULL);
        CHECK_MESSAGE(!diti_graph_failed(&graph) && diti_tensor_rows(&graph, rows) == height * width, "%s", name);
        run(&graph, input, values, rows, got);
        expect(device, name, wanted, got, (size_t)3 * height * width);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
    free(out.v);
    free(values);
    free(got);
    free(wanted);
    forget(w);
}

/* Colours: each is a sum over channels; between the centres of the latent's pixels lie straight lines. */
static void test_colors(diti_device *device, uint32_t channels, uint32_t patch, uint32_t factor, bool swap) {
    uint32_t height = HEIGHT * patch, width = WIDTH * patch, all = factor * height * factor * width, i, c, y, x;
    float *values = (float *)malloc(sizeof(float) * channels * patch * patch * HEIGHT * WIDTH),
          *table = (float *)calloc((channels + 1) * DITI_COLOR_COLUMNS, sizeof(float)),
          *rows = (float *)malloc(sizeof(float) * 3 * height * width);
    double *wanted = (double *)malloc(sizeof(double) * 3 * height * width);
    uint32_t *bytes = (uint32_t *)malloc(sizeof(uint32_t) * all), worst = 0;
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    diti_graph graph;
    diti_tensor input, factors, colors, kept, rgba;
    for (i = 0; i < (channels + 1) * DITI_COLOR_COLUMNS; i++) table[i] = (float)(0.3 * sin(2.3 * i));
    for (i = 0; i < height * width; i++) {
        y = i / width, x = i % width;
        for (c = 0; c < 3; c++) wanted[3 * i + c] = table[channels * DITI_COLOR_COLUMNS + c];
        for (c = 0; c < channels; c++) {
            uint32_t plane = (c * patch + y % patch) * patch + x % patch, j;
            values[(plane * HEIGHT + y / patch) * WIDTH + x / patch] = latent_value(c, y, x);
            for (j = 0; j < 3; j++)
                wanted[3 * i + j] += (double)latent_value(c, y, x) * table[c * DITI_COLOR_COLUMNS + j];
        }
    }
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "colors", false);
    input = diti_tensor_input(&graph, DITI_F32, channels * patch * patch, HEIGHT * WIDTH, "latent");
    factors = diti_tensor_input(&graph, DITI_F32, channels + 1, DITI_COLOR_COLUMNS, "table");
    colors = diti_latent_colors(&graph, input, HEIGHT, WIDTH, patch, factors);
    kept = diti_tensor_state(&graph, DITI_F32, height * width, 3, "kept");
    rgba = diti_tensor_state(&graph, DITI_U32, 1, all, "rgba");
    diti_copy(&graph, colors, kept, "kept");
    diti_enlarge_out(&graph, colors, height, width, factor, rgba, swap);
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
    if (plan) {
        CHECK(diti_plan_write(plan, input, values, sizeof(float) * channels * patch * patch * HEIGHT * WIDTH, &err) ==
                  DIT_OK &&
              diti_plan_write(plan, factors, table, sizeof(float) * (channels + 1) * DITI_COLOR_COLUMNS, &err) ==
                  DIT_OK);
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(plan, kept, rows, sizeof(float) * 3 * height * width, &err) == DIT_OK);
        CHECK(diti_plan_read(plan, rgba, bytes, sizeof(uint32_t) * all, &err) == DIT_OK);
        expect(device, "colours of a latent", wanted, rows, (size_t)3 * height * width);
        for (i = 0; i < all; i++) {
            double fy = (i / (factor * width) + 0.5) / factor - 0.5, fx = (i % (factor * width) + 0.5) / factor - 0.5;
            fy = fy < 0 ? 0 : fy > height - 1 ? height - 1 : fy;
            fx = fx < 0 ? 0 : fx > width - 1 ? width - 1 : fx;
            y = (uint32_t)fy, x = (uint32_t)fx;
            CHECK(bytes[i] >> 24 == 255);
            for (c = 0; c < 3; c++) {
                uint32_t y1 = y + 1 < height ? y + 1 : y, x1 = x + 1 < width ? x + 1 : x;
                double a = wanted[3 * (y * width + x) + c] * (1 - fx + x) + wanted[3 * (y * width + x1) + c] * (fx - x),
                       b = wanted[3 * (y1 * width + x) + c] * (1 - fx + x) +
                           wanted[3 * (y1 * width + x1) + c] * (fx - x),
                       v = (a * (1 - fy + y) + b * (fy - y)) * 127.5 + 127.5;
                int byte = (int)floor((v < 0     ? 0
                                       : v > 255 ? 255
                                                 : v) +
                                      0.5),
                    got = (int)(bytes[i] >> 8 * (swap ? 2 - c : c) & 255u);
                if ((uint32_t)abs(byte - got) > worst) worst = (uint32_t)abs(byte - got);
            }
        }
        printf("enlarged %u times: worst byte off by %u\n", factor, worst);
        CHECK(worst <= 1);
        diti_plan_destroy(plan);
    }
    free(values);
    free(table);
    free(rows);
    free(wanted);
    free(bytes);
}

static void test_tables(void) {
    static const struct {
        uint32_t channels;
        float scale;
        bool clips, known;
        uint32_t patch;
    } cases[] = {{4, 0.18215f, false, true, 1}, {4, 0.18215f, true, false, 0}, {4, 0.13025f, false, true, 1},
                 {16, 1.5305f, false, true, 1}, {16, 0.3611f, false, true, 1}, {128, 1, false, true, 2},
                 {128, 1, true, true, 1},       {16, 1, true, true, 1},        {48, 1, true, true, 1},
                 {64, 1, false, true, 1},       {64, 1, true, true, 1},        {16, 0.476986f, true, true, 1},
                 {16, 0.7f, true, true, 1},     {16, 0.5f, true, false, 0},    {32, 0.41407f, false, false, 0}};
    size_t i;
    uint32_t c;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        diti_colors colors = DITI_ZERO;
        bool known = diti_colors_find(cases[i].channels, cases[i].scale, cases[i].clips, &colors);
        CHECK_MESSAGE(known == cases[i].known, "%u channels of scale %g", cases[i].channels, (double)cases[i].scale);
        if (!known) continue;
        CHECK(colors.patch == cases[i].patch && colors.channels * colors.patch * colors.patch == cases[i].channels);
        for (c = 0; c < 3 * (colors.channels + 1); c++) CHECK(fabsf(colors.values[c]) < 0.8f);
    }
}

/* --- by hand: what a preview costs at real sizes --- */

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* The second run of the first segment; frees the graph. */
static void time_graph(diti_graph *graph, const char *name) {
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    double begin = 0;
    uint64_t clock_us = 0;
    int i;
    CHECK_MESSAGE(diti_plan_create(graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(graph);
    for (i = 0; i < 2 && plan; i++) {
        begin = processor_seconds();
        clock_us = diti_clock_us();
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
    }
    printf("%s: %.3f s of processor, %.3f s by the clock\n", name, processor_seconds() - begin,
           (double)(diti_clock_us() - clock_us) / 1e6);
    diti_plan_destroy(plan);
}

static void time_decoder(diti_device *device, weights *w, uint32_t side, uint32_t channels, const char *name) {
    diti_checkpoint *file = NULL;
    diti_vae *vae = load(device, w, &file);
    diti_graph graph;
    if (vae) {
        uint32_t latent = side / vae->traits.factor;
        diti_graph_init(&graph, device);
        diti_graph_segment(&graph, "preview", false);
        diti_vae_decode(vae, &graph, diti_tensor_input(&graph, DITI_F32, channels, latent * latent, "latent"), latent,
                        latent, 0, NULL);
        time_graph(&graph, name);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
    forget(w);
}

static void time_previews(diti_device *device, uint32_t side) {
    static const uint32_t wide[] = {256, 128, 64, 64};
    uint32_t latent = side / 8;
    weights w;
    diti_graph graph;
    diti_tensor rows;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "preview", false);
    rows = diti_latent_colors(&graph, diti_tensor_input(&graph, DITI_F32, 16, latent * latent, "latent"), latent,
                              latent, 1, diti_tensor_input(&graph, DITI_F32, 17, DITI_COLOR_COLUMNS, "table"));
    diti_enlarge_out(&graph, rows, latent, latent, 8, diti_tensor_state(&graph, DITI_U32, 1, side * side, "rgba"),
                     false);
    time_graph(&graph, "proj");
    make_pictures(&w, false, 16, 64);
    time_decoder(device, &w, side, 16, "tae: TAEF1");
    make_pictures(&w, true, 32, 64);
    time_decoder(device, &w, side, 32, "tae: TAEF2");
    make_clips(&w, 1, 1, 16, wide);
    time_decoder(device, &w, side, 16, "tae: taew2_1");
}

int main(int argc, char **argv) {
    static const uint32_t narrow[] = {12, 8, 4, 8};
    dit_context_desc desc = DITI_ZERO;
    diti_device *device = NULL;
    dit_error err = DITI_ZERO;
    weights w;
    int rung;
    env = test_env(NULL);
    test_tables();
    test_vulkan_begin();
    for (rung = 0; rung < 2; rung++) {
        desc.overrides = rung ? "rung=fp16" : "rung=base";
        if (diti_device_open(&desc, &env, &device, &err) < 0) {
            CHECK_MESSAGE(rung && strstr(err.message, "what rung fp16 needs"), "%s", err.message);
            break;
        }
        if (argc > 1 && !rung) time_previews(device, (uint32_t)atoi(argv[1]));
        make_pictures(&w, false, LATENT, 8);
        test_decoder(device, &w, false, 1, "TAEF1");
        make_pictures(&w, true, LATENT, 8);
        test_decoder(device, &w, true, 1, "TAEF2, packed");
        make_clips(&w, 1, 1, LATENT, narrow);
        test_decoder(device, &w, false, 1, "TAEHV");
        make_clips(&w, 2, 2, LATENT, narrow);
        test_decoder(device, &w, false, 2, "TAEHV of patches, frames in all stages");
        test_colors(device, 5, 1, 8, false);
        test_colors(device, 3, 2, 8, true);
        diti_device_close(device);
    }
    test_vulkan_end();
    return TEST_END("tiny");
}
