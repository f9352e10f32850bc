/* nunchaku's files: the integers, scales and factors of tests/fixtures/nunchaku (tests/reference/nunchaku.py and
   nunchaku_text.py) come back bit for bit, in pieces of any size, under diffusers' names; files that are damaged, or of
   another layout, are refused. */
#include "library.h"
#include "test.h"
#include "files.h"
#include "lora_file.h"
#include "nunchaku_file.h"

#define TEXT "tests/fixtures/nunchaku/text.safetensors"

static test_memory memory;
static diti_env env;
static dit_error err;

/* --- the fixture --- */

static diti_checkpoint *packed, *plain;

static diti_checkpoint *open_path(const char *path) {
    diti_checkpoint *checkpoint = NULL;
    dit_source source = {0};
    source.path = path;
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message);
    return checkpoint;
}

static float *read_floats(const diti_checkpoint *from, const char *name, uint64_t *count) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(from, name);
    float *out = NULL;
    if (!CHECK_MESSAGE(tensor, "there is no %s", name)) return NULL;
    *count = diti_stored_tensor_elements(tensor);
    out = malloc((size_t)*count * sizeof *out);
    CHECK_MESSAGE(diti_checkpoint_read_float(from, tensor, out, *count, &err) == DIT_OK, "%s", err.message);
    return out;
}

static float *read_plain(const char *base, const char *what) {
    char name[200];
    uint64_t count;
    snprintf(name, sizeof name, "%s.%s", base, what);
    return read_floats(plain, name, &count);
}

static int8_t *read_integers(const char *base, uint64_t *rows, uint64_t *columns) {
    const diti_stored_tensor *tensor;
    int8_t *out;
    char name[200];
    snprintf(name, sizeof name, "%s.q", base);
    tensor = diti_checkpoint_find(plain, name);
    out = malloc((size_t)tensor->size);
    CHECK(diti_checkpoint_read(plain, tensor, 0, out, (size_t)tensor->size, &err) == DIT_OK);
    *rows = tensor->shape[0];
    *columns = tensor->shape[1];
    return out;
}

static void check_same(const char *name, const float *got, const float *wanted, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++)
        if (got[i] != wanted[i] && !CHECK_MESSAGE(false, "%s: value %llu is %g and not %g", name, (unsigned long long)i,
                                                  (double)got[i], (double)wanted[i]))
            return;
}

/* Rows [first, first + rows) of a layer `base` are columns [column, ...) of the tensor `name`. */
static void check_values(const char *name, const char *base, uint64_t first, uint64_t rows, uint64_t column) {
    uint64_t all, columns, count, n, k, width;
    int8_t *q = read_integers(base, &all, &columns);
    float *scales = read_plain(base, "scales"), *got = read_floats(packed, name, &count);
    width = count / rows;
    for (n = 0; n < rows; n++) {
        for (k = 0; k < columns; k++) {
            float wanted = scales[(first + n) * (columns / 64) + k / 64] * q[(first + n) * columns + k];
            if (got[n * width + column + k] != wanted &&
                !CHECK_MESSAGE(false, "%s [%u, %u] is %g and not %g", name, (unsigned)n, (unsigned)k,
                               (double)got[n * width + column + k], (double)wanted))
                n = rows, k = columns;
        }
    }
    free(got);
    free(scales);
    free(q);
}

static void check_part(const char *name, const char *base, const char *what, uint64_t first) {
    uint64_t count;
    float *got = read_floats(packed, name, &count), *wanted = read_plain(base, what);
    check_same(name, got, wanted + first, count);
    free(wanted);
    free(got);
}

static void test_fused(void) {
    static const char *const names[] = {"to_q", "to_k", "to_v"};
    static const char base[] = "transformer_blocks.0.qkv_proj";
    char name[200];
    for (uint32_t i = 0; i < 3; i++) {
        const diti_stored_tensor *tensor;
#define NAME(REST) (snprintf(name, sizeof name, "transformer_blocks.0.attn.%s" REST, names[i]), name)
        tensor = diti_checkpoint_find(packed, NAME(".weight"));
        if (!CHECK_MESSAGE(tensor, "there is no %s", name)) return;
        CHECK(tensor->type == DIT_TYPE_Q4_0 && tensor->shape[0] == 64 && tensor->shape[1] == 64);
        check_values(name, base, 64 * i, 64, 0);
        check_part(NAME(".bias"), base, "bias", 64 * i);
        check_part(NAME(".weight_smooth"), base, "smooth", 0);
        check_part(NAME(".weight_lora_down"), base, "down", 0);
        check_part(NAME(".weight_lora_up"), base, "up", 64 * i * 16);
    }
    CHECK(diti_checkpoint_find(packed, "transformer_blocks.0.attn.norm_q.weight"));
    CHECK(!diti_checkpoint_find(packed, "transformer_blocks.0.norm_q.weight") &&
          !diti_checkpoint_find(packed, "transformer_blocks.0.qkv_proj.qweight"));
}

static void test_modulation(void) {
    static const char base[] = "transformer_blocks.0.norm1.linear", name[] = "transformer_blocks.0.norm1.linear.weight";
    uint64_t rows, columns, count, n, k;
    int8_t *q = read_integers(base, &rows, &columns);
    float *scales = read_plain(base, "scales"), *zeros = read_plain(base, "zeros"), *bias = read_plain(base, "bias");
    float *got = read_floats(packed, name, &count),
          *got_bias = read_floats(packed, "transformer_blocks.0.norm1.linear.bias", &count);
    CHECK(diti_checkpoint_find(packed, name)->type == DIT_TYPE_Q4_1 && rows == 384 && columns == 64);
    for (n = 0; n < rows; n++) {
        uint64_t to = n % 6 * 64 + n / 6;
        for (k = 0; k < columns; k++)
            if (got[to * 64 + k] != scales[n] * q[n * 64 + k] + zeros[n])
                CHECK_MESSAGE(false, "%s [%u, %u]", name, (unsigned)to, (unsigned)k);
        CHECK(got_bias[to] == bias[n] - (n % 6 == 1 || n % 6 == 4 ? 1.0f : 0.0f));
    }
    CHECK(!diti_checkpoint_find(packed, "transformer_blocks.0.norm1.linear.weight_smooth"));
    free(got_bias);
    free(got);
    free(bias);
    free(zeros);
    free(scales);
    free(q);
}

/* The two layers that are proj_out: columns side by side, their low-rank parts one behind the other. */
static void test_beside(void) {
    static const char *const bases[] = {"single_transformer_blocks.0.out_proj", "single_transformer_blocks.0.mlp_fc2"};
    static const char name[] = "single_transformer_blocks.0.proj_out.weight";
    double sums[64] = {0};
    uint64_t count, rows, columns, n, k, at = 0;
    float *down = read_floats(packed, "single_transformer_blocks.0.proj_out.weight_lora_down", &count);
    float *up = read_floats(packed, "single_transformer_blocks.0.proj_out.weight_lora_up", &count);
    float *smooth = read_floats(packed, "single_transformer_blocks.0.proj_out.weight_smooth", &count);
    float *bias = read_floats(packed, "single_transformer_blocks.0.proj_out.bias", &count);
    for (uint32_t i = 0; i < 2; i++) {
        float *one = read_plain(bases[i], "down"), *factors = read_plain(bases[i], "smooth");
        float *scales = read_plain(bases[i], "scales"), *b = read_plain(bases[i], "bias"),
              *u = read_plain(bases[i], "up");
        int8_t *q = read_integers(bases[i], &rows, &columns);
        check_values(name, bases[i], 0, 64, at);
        for (n = 0; n < 32; n++)
            for (k = 0; k < columns; k++)
                CHECK(down[n * 320 + at + k] == (n / 16 == i ? one[n % 16 * columns + k] : 0));
        for (n = 0; n < 64; n++)
            for (k = 0; k < 16; k++) CHECK(up[n * 32 + i * 16 + k] == u[n * 16 + k]);
        check_same("smooth", smooth + at, factors, columns);
        for (n = 0; n < 64; n++) {
            double sum = 0;
            for (k = 0; k < columns && i; k++)
                sum += (double)scales[n * (columns / 64) + k / 64] * q[n * columns + k] / (double)factors[k];
            sums[n] += (double)b[n] + NUNCHAKU_SHIFT * sum;
        }
        at += columns;
        free(q), free(u), free(b), free(scales), free(factors), free(one);
    }
    for (n = 0; n < 64; n++) CHECK(fabs((double)bias[n] - sums[n]) <= 1e-6 * (1 + fabs(sums[n])));
    free(bias), free(smooth), free(up), free(down);
}

/* Any stretch of bytes is that of the whole. */
static void test_pieces(const diti_checkpoint *from) {
    for (uint32_t i = 0; i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(from, i);
        size_t size = (size_t)tensor->size;
        unsigned char *whole = malloc(size), *piece = malloc(size);
        static const size_t steps[] = {1, 7, 18, 613, 4096};
        CHECK(diti_checkpoint_read(from, tensor, 0, whole, size, &err) == DIT_OK);
        for (uint32_t s = size > 4096 ? 3 : 0; s < DITI_COUNT(steps); s++) {
            for (size_t at = s; at < size; at += steps[s] * 5 + 1) {
                size_t take = size - at < steps[s] ? size - at : steps[s];
                CHECK(diti_checkpoint_read(from, tensor, at, piece, take, &err) == DIT_OK);
                CHECK_MESSAGE(!memcmp(piece, whole + at, take), "%s: bytes from %zu", tensor->name, at);
            }
        }
        CHECK(diti_checkpoint_read(from, tensor, size, piece, 0, &err) == DIT_OK);
        CHECK(diti_checkpoint_read(from, tensor, size, piece, 1, &err) == DIT_ERROR_INVALID_ARGUMENT);
        free(piece);
        free(whole);
    }
}

/* nunchaku_file.h packs as the reference does: what it makes of the plain values is the fixture. */
static void test_packer(void) {
    static const char base[] = "single_transformer_blocks.0.mlp_fc2";
    static const char *const endings[] = {".qweight", ".wscales", ".bias", ".smooth", ".lora_down", ".lora_up"};
    lora_file file = {0};
    diti_checkpoint *own = NULL;
    uint64_t rows, columns;
    int8_t *q = read_integers(base, &rows, &columns);
    double values[4][64 * 256];
    static const char *const parts[] = {"bias", "smooth", "down", "up"};
    const uint64_t counts[] = {rows, columns, 16 * columns, rows * 16};
    float *scales = read_plain(base, "scales");
    double wide[64 * 4];
    for (uint32_t p = 0; p < 4; p++) {
        float *from = read_plain(base, parts[p]);
        for (uint64_t i = 0; i < counts[p]; i++) values[p][i] = from[i];
        free(from);
    }
    for (uint32_t i = 0; i < 64 * 4; i++) wide[i] = scales[i];
    nunchaku_values(&file, base, q, rows, columns);
    nunchaku_scales(&file, base, wide, rows, columns / 64);
    nunchaku_vector(&file, base, ".bias", values[0], rows);
    nunchaku_vector(&file, base, ".smooth", values[1], columns);
    nunchaku_low_rank(&file, base, ".lora_down", values[2], columns, 16, true);
    nunchaku_low_rank(&file, base, ".lora_up", values[3], rows, 16, false);
    for (uint32_t e = 0; e < DITI_COUNT(endings); e++) {
        /* the fixture's own tensors are kept behind those that are made of them */
        char name[200];
        size_t at = 0;
        snprintf(name, sizeof name, "%s%s", base, endings[e]);
        while (strcmp(packed->packed[at].name, name)) at++;
        const diti_stored_tensor *theirs = &packed->packed[at];
        unsigned char *bytes_of = malloc((size_t)theirs->size);
        size_t begin = 0;
        CHECK(diti_checkpoint_read(packed, theirs, 0, bytes_of, (size_t)theirs->size, &err) == DIT_OK);
        for (uint32_t before = 0; before < e; before++) {
            snprintf(name, sizeof name, "%s%s", base, endings[before]);
            for (at = 0; strcmp(packed->packed[at].name, name);) at++;
            begin += (size_t)packed->packed[at].size;
        }
        CHECK_MESSAGE(!memcmp(file.data.data + begin, bytes_of, (size_t)theirs->size), "%s is packed otherwise",
                      endings[e]);
        free(bytes_of);
    }
    diti_checkpoint_close(own);
    lora_file_free(&file);
    free(scales);
    free(q);
}

/* A text encoder: each value is what the packer was given, q * scale - zero, rounded once. */
static void test_text(void) {
    static const struct {
        const char *base;
        uint32_t rows, columns;
    } layers[] = {{"encoder.block.0.layer.0.SelfAttention.q", 136, 128},
                  {"encoder.block.0.layer.1.DenseReluDense.wi_0", 24, 384},
                  {"encoder.block.0.layer.1.DenseReluDense.wo", 8, 1152}};
    diti_checkpoint *text = open_path(TEXT);
    if (!text) return;
    plain = text;
    for (uint32_t l = 0; l < DITI_COUNT(layers); l++) {
        const uint32_t groups = layers[l].columns / 128;
        const diti_stored_tensor *tensor;
        uint64_t rows, columns, count, n, k, wrong = 0;
        char name[200];
        int8_t *q;
        float *scales, *zeros, *got;
        snprintf(name, sizeof name, "%s.plain", layers[l].base);
        q = read_integers(name, &rows, &columns);
        scales = read_plain(name, "scales");
        zeros = read_plain(name, "zeros");
        snprintf(name, sizeof name, "%s.weight", layers[l].base);
        tensor = diti_checkpoint_find(text, name);
        CHECK_MESSAGE(tensor && tensor->type == DIT_TYPE_I4_GROUP && tensor->rank == 2 &&
                          tensor->shape[0] == layers[l].rows && tensor->shape[1] == layers[l].columns &&
                          tensor->size == (uint64_t)layers[l].rows * groups * 68,
                      "%s", name);
        got = read_floats(text, name, &count);
        for (n = 0; n < rows && count == rows * columns; n++)
            for (k = 0; k < columns; k++) {
                uint64_t at = n * groups + k / 128;
                double wanted = (double)q[n * columns + k] * (double)scales[at] - (double)zeros[at];
                wrong += got[n * columns + k] != (float)wanted;
            }
        CHECK_MESSAGE(count == (uint64_t)layers[l].rows * layers[l].columns && wrong == 0, "%s: %u wrong values", name,
                      (unsigned)wrong);
        snprintf(name, sizeof name, "%s.qweight", layers[l].base);
        CHECK(!diti_checkpoint_find(text, name));
        free(got), free(zeros), free(scales), free(q);
    }
    CHECK(diti_checkpoint_find(text, "shared.weight"));
    test_pieces(text);
    plain = NULL;
    diti_checkpoint_close(text);
}

/* A layer whose parts have these sizes, rows and columns being those of its words; a length of 0: it has no such part.
 */
typedef struct text_case {
    const char *type;
    uint64_t rows, columns, scales, zeros, bias;
    const char *other; /* a part more */
    uint16_t half;     /* all scales and zeros */
    dit_result result;
    const char *said; /* NULL: it is read */
} text_case;

static void check_text(const text_case *c) {
    static const char base[] = "encoder.block.0.layer.0.SelfAttention.q";
    unsigned char bits[2048];
    uint16_t halves[8 * 8];
    float values[8 * 128];
    lora_file file = {0};
    diti_checkpoint *checkpoint = NULL;
    dit_source source;
    dit_result result;
    for (uint32_t i = 0; i < DITI_COUNT(halves); i++) halves[i] = c->half;
    for (uint32_t i = 0; i < sizeof bits; i++) bits[i] = (unsigned char)(i * 37);
    nunchaku_add(&file, base, ".qweight", c->type, c->rows, c->columns, bits,
                 (size_t)(c->rows * c->columns) * (strcmp(c->type, "I32") ? 2 : 4));
    if (c->scales) nunchaku_add(&file, base, ".scales", "BF16", c->scales, 8, halves, (size_t)c->scales * 16);
    if (c->zeros) nunchaku_add(&file, base, ".scaled_zeros", "BF16", c->zeros, 8, halves, (size_t)c->zeros * 16);
    if (c->bias) nunchaku_add(&file, base, ".bias", "BF16", c->bias, 0, halves, (size_t)c->bias * 2);
    if (c->other) nunchaku_add(&file, base, c->other, "BF16", 8, 0, halves, 16);
    source = lora_file_source(&file);
    result = diti_checkpoint_open(&env, &source, &checkpoint, &err);
    if (result == DIT_OK) {
        const diti_stored_tensor *weight =
            diti_checkpoint_find(checkpoint, "encoder.block.0.layer.0.SelfAttention.q.weight");
        const diti_stored_tensor *added =
            diti_checkpoint_find(checkpoint, "encoder.block.0.layer.0.SelfAttention.q.bias");
        if (CHECK(weight)) result = diti_checkpoint_read_float(checkpoint, weight, values, 8 * 128, &err);
        if (result == DIT_OK && c->bias && CHECK(added)) {
            result = diti_checkpoint_read_float(checkpoint, added, values, 8, &err);
            for (uint32_t i = 0; i < 8; i++) CHECK(values[i] == diti_bfloat_to_float(c->half));
        }
    }
    if (c->said)
        CHECK_MESSAGE(result == c->result && strstr(err.message, c->said), "%s: %d, %s", c->said, result, err.message);
    else
        CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
    diti_checkpoint_close(checkpoint);
    lora_file_free(&file);
}

static void test_text_refused(void) {
    static const text_case cases[] = {
        {"I16", 2, 128, 8, 8, 8, NULL, 0x3f80, DIT_OK, NULL},
        {"I32", 2, 128, 8, 8, 0, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "is not I16"},
        {"I16", 2, 192, 8, 8, 0, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "multiple of 128"},
        {"I16", 0, 128, 8, 8, 0, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "is not a matrix"},
        {"I16", 2, 128, 0, 8, 0, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "has no scales"},
        {"I16", 2, 128, 1, 1, 0, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "is not [8, 8] of floats"},
        {"I16", 2, 128, 8, 1, 0, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "is not [8, 8] of floats"},
        {"I16", 2, 128, 8, 8, 4, NULL, 0x3f80, DIT_ERROR_BAD_FILE, "is not [8] of floats"},
        {"I16", 2, 128, 8, 8, 0, ".smooth", 0x3f80, DIT_ERROR_UNSUPPORTED_MODEL, "factors or a low-rank part"},
        {"I16", 2, 128, 8, 8, 0, ".extra", 0x3f80, DIT_ERROR_UNSUPPORTED_MODEL, "does not know what it is for"},
        {"I16", 2, 128, 8, 8, 0, NULL, 0x7f7f, DIT_ERROR_BAD_FILE, "beyond F16"},
    };
    size_t size;
    char *file = test_read_file(TEXT, &size), *at = NULL;
    diti_checkpoint *checkpoint = NULL;
    dit_source source = {0};
    for (size_t i = 0; i < DITI_COUNT(cases); i++) check_text(&cases[i]);
    for (size_t i = 8; i < 4096 && !at; i++) /* another layer still has its zeros */
        if (!memcmp(file + i, "wo.scaled_zeros", 15)) at = file + i;
    if (CHECK(at)) at[3] = 'S';
    source.data = file;
    source.size = size;
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_ERROR_BAD_FILE &&
                      strstr(err.message, "DenseReluDense.wo' has no scaled_zeros"),
                  "%s", err.message);
    diti_checkpoint_close(checkpoint);
    free(file);
}

/* A block of Qwen-Image: all its layers have their names, and what they mean. */
static void test_qwenimage(void) {
    static const nunchaku_names names = {".smooth_factor", ".proj_down", ".proj_up"};
    static const struct {
        const char *module, *parts[3];
        uint32_t rows, columns, splits;
        bool shifted;
    } layers[] = {
        {"img_mod.1", {"img_mod.1"}, 6, 1, 6, false},
        {"txt_mod.1", {"txt_mod.1"}, 6, 1, 6, false},
        {"attn.to_qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3, 1, 0, false},
        {"attn.add_qkv_proj", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, 3, 1, 0, false},
        {"attn.to_out.0", {"attn.to_out.0"}, 1, 1, 0, false},
        {"attn.to_add_out", {"attn.to_add_out"}, 1, 1, 0, false},
        {"img_mlp.net.0.proj", {"img_mlp.net.0.proj"}, 4, 1, 0, false},
        {"img_mlp.net.2", {"img_mlp.net.2"}, 1, 4, 0, true},
        {"txt_mlp.net.0.proj", {"txt_mlp.net.0.proj"}, 4, 1, 0, false},
        {"txt_mlp.net.2", {"txt_mlp.net.2"}, 1, 4, 0, true},
    };
    enum { WIDTH = 64, RANK = 16 };
    static float weight[DITI_COUNT(layers)][6 * WIDTH * WIDTH], bias[DITI_COUNT(layers)][6 * WIDTH];
    lora_file file = {0};
    diti_checkpoint *checkpoint = NULL;
    dit_source source;
    char name[200];
    uint64_t i, k, r, count;
    nunchaku_add(&file, "img_in", ".weight", "F32", WIDTH, 1, bias, WIDTH * 4);
    for (uint32_t l = 0; l < DITI_COUNT(layers); l++) {
        uint64_t rows = layers[l].rows * WIDTH, columns = layers[l].columns * WIDTH;
        for (i = 0; i < rows * columns; i++) weight[l][i] = (float)nunchaku_random(layers[l].module, 7, i) - 0.5f;
        for (i = 0; i < rows; i++) bias[l][i] = (float)nunchaku_random(layers[l].module, 8, i) - 0.5f;
        snprintf(name, sizeof name, "transformer_blocks.3.%s", layers[l].module);
        if (layers[l].splits)
            nunchaku_modulation(&file, name, weight[l], bias[l], rows, columns, layers[l].splits);
        else
            nunchaku_layer(&file, name, &names, weight[l], bias[l], rows, columns, RANK, layers[l].shifted);
    }
    source = lora_file_source(&file);
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) return;
    for (uint32_t l = 0; l < DITI_COUNT(layers); l++) {
        uint64_t columns = layers[l].columns * WIDTH, at = 0;
        double off = 0;
        for (uint32_t p = 0; p < 3 && layers[l].parts[p]; p++) {
            float *w, *b, *down = NULL, *up = NULL, *smooth = NULL;
#define READ(ENDING)                                                                                                   \
    (snprintf(name, sizeof name, "transformer_blocks.3.%s" ENDING, layers[l].parts[p]),                                \
     read_floats(checkpoint, name, &count))
            if (!layers[l].splits)
                down = READ(".weight_lora_down"), up = READ(".weight_lora_up"), smooth = READ(".weight_smooth");
            w = READ(".weight");
            b = READ(".bias");
            for (i = 0; i < count; i++) {
                double away = fabs((double)b[i] - (double)bias[l][at + i]);
                if (away > off) off = away;
                for (k = 0; k < columns; k++) {
                    double value = (double)w[i * columns + k] / (smooth ? (double)smooth[k] : 1);
                    for (r = 0; up && r < RANK; r++) value += (double)up[i * RANK + r] * (double)down[r * columns + k];
                    away = fabs(value - (double)weight[l][(at + i) * columns + k]);
                    if (away > off) off = away;
                }
            }
            at += count;
            free(smooth), free(up), free(down), free(b), free(w);
        }
        CHECK_MESSAGE(at == layers[l].rows * WIDTH && off < 1e-6, "%s is off by %g", layers[l].module, off);
    }
    diti_checkpoint_close(checkpoint);
    lora_file_free(&file);
}

/* --- what is refused --- */

typedef struct damage {
    const char *from, *to; /* in the header, of equal length */
    dit_result result;
    const char *culprit;
} damage;

static void check_damage(const damage *d) {
    size_t size;
    char *file = test_read_file("tests/fixtures/nunchaku/packed.safetensors", &size), *at = NULL;
    diti_checkpoint *checkpoint = NULL;
    dit_source source = {0};
    dit_result result;
    uint64_t header;
    memcpy(&header, file, 8);
    for (size_t i = 8; i + strlen(d->from) < header && !at; i++)
        if (!memcmp(file + i, d->from, strlen(d->from))) at = file + i;
    CHECK_MESSAGE(at && strlen(d->from) == strlen(d->to), "%s", d->from);
    if (at) memcpy(at, d->to, strlen(d->to));
    source.data = file;
    source.size = size;
    memset(&err, 0, sizeof err);
    result = diti_checkpoint_open(&env, &source, &checkpoint, &err);
    CHECK_MESSAGE(result == d->result && strstr(err.message, d->culprit), "%s: %d, %s", d->to, result, err.message);
    CHECK(!checkpoint);
    diti_checkpoint_close(checkpoint);
    free(file);
}

#define QKV "\"transformer_blocks.0.qkv_proj."
#define MOD "\"transformer_blocks.0.norm1.linear."

static void test_refused(void) {
    static const damage list[] = {
        {QKV "lora_up\"", QKV "lora_UP\"", DIT_ERROR_BAD_FILE, "without a lora_up"},
        {QKV "lora_down\"", QKV "lora_DOWN\"", DIT_ERROR_BAD_FILE, "without a lora_down"},
        {QKV "smooth\"", QKV "smOOth\"", DIT_ERROR_BAD_FILE, "no smooth"},
        {QKV "smooth_orig\"", QKV "wtscale_one\"", DIT_ERROR_UNSUPPORTED_MODEL, "wtscale_one"},
        {QKV "bias\"", QKV "shft\"", DIT_ERROR_UNSUPPORTED_MODEL, "shft"},
        {QKV "wscales\"", QKV "wcscale\"", DIT_ERROR_BAD_FILE, "no wscales"},
        {QKV "qweight\":{\"dtype\":\"I8\",\"shape\":[256,64]", QKV "qweight\":{\"dtype\":\"U8\",\"shape\":[256,64]",
         DIT_ERROR_BAD_FILE, "is not I8 [256, 64]"},
        {QKV "qweight\":{\"dtype\":\"I8\",\"shape\":[256,64]", QKV "qweight\":{\"dtype\":\"I8\",\"shape\":[64,256]",
         DIT_ERROR_BAD_FILE, "is not I8 [256, 64]"},
        {QKV "wscales\":{\"dtype\":\"BF16\",\"shape\":[2,256]", QKV "wscales\":{\"dtype\":\"BF16\",\"shape\":[1,512]",
         DIT_ERROR_UNSUPPORTED_MODEL, "groups of 128"},
        {QKV "lora_up\":{\"dtype\":\"BF16\",\"shape\":[256,16]", QKV "lora_up\":{\"dtype\":\"BF16\",\"shape\":[16,256]",
         DIT_ERROR_BAD_FILE, "is not [256, 16] of floats"},
        {MOD "wzeros\"", MOD "wzerOs\"", DIT_ERROR_BAD_FILE, "no wzeros"},
        {MOD "bias\"", MOD "bIas\"", DIT_ERROR_BAD_FILE, "no bias"},
        {MOD "qweight\":{\"dtype\":\"I32\",\"shape\":[96,32]", MOD "qweight\":{\"dtype\":\"I32\",\"shape\":[32,96]",
         DIT_ERROR_BAD_FILE, "is not I32 [96, 32]"},
        {"x_embedder.weight\"", "x_EMBEDDER.weight\"", DIT_ERROR_UNSUPPORTED_MODEL, "unquantized_layers"},
        {"x_embedder.weight\":{\"dtype\":\"F32\",\"shape\":[64,4]",
         "x_embedder.weight\":{\"dtype\":\"F32\",\"shape\":[4,64]", DIT_ERROR_BAD_FILE, "is not"},
        {"transformer_blocks.0.qkv_proj.qweight", "transformer_blocks.0.qqq_proj.qweight", DIT_ERROR_UNSUPPORTED_MODEL,
         "FLUX.1, Qwen-Image and Z-Image"},
        {"single_transformer_blocks.0.mlp_fc2.qweight", "single_transformer_blocks.1.mlp_fc2.qweight",
         DIT_ERROR_BAD_FILE, "mlp_fc2"},
    };
    for (size_t i = 0; i < DITI_COUNT(list); i++) check_damage(&list[i]);
}

/* Layers of the fp4 kind, with scales of 8 bits in groups of 16: a factor for each row, or one, which is another one
   for each of two layers side by side. */
static void test_fp4(void) {
    static const nunchaku_names names = {".smooth", ".lora_down", ".lora_up"};
    static const char *const modules[] = {"transformer_blocks.0.qkv_proj", "single_transformer_blocks.0.out_proj",
                                          "single_transformer_blocks.0.mlp_fc2"};
    static const char *const made[] = {"transformer_blocks.0.attn.to_k", "single_transformer_blocks.0.proj_out",
                                       "single_transformer_blocks.0.proj_out"};
    static const uint32_t rows[] = {192, 64, 64}, columns[] = {64, 64, 256}, first[] = {64, 0, 0}, at[] = {0, 0, 64};
    static float weight[3][192 * 64 + 64 * 256];
    lora_file file = {0};
    diti_checkpoint *checkpoint = NULL;
    dit_source source;
    char name[200];
    nunchaku_add(&file, "x_embedder", ".weight", "F32", 64, 1, weight, 64 * 4);
    for (uint32_t l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < rows[l] * columns[l]; i++)
            weight[l][i] = (float)nunchaku_random(modules[l], 7, i) * (float)(l + 1) - 0.5f;
        nunchaku_fours(&file, modules[l], &names, weight[l], NULL, rows[l], columns[l], 0, l == 0);
    }
    source = lora_file_source(&file);
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) return;
    for (uint32_t l = 0; l < 3; l++) {
        uint64_t count, wide = l ? 320 : 64;
        float *w, *smooth;
        double off = 0;
        snprintf(name, sizeof name, "%s.weight", made[l]);
        CHECK(diti_checkpoint_find(checkpoint, name)->type == DIT_TYPE_NVFP4);
        w = read_floats(checkpoint, name, &count);
        snprintf(name, sizeof name, "%s.weight_smooth", made[l]);
        smooth = read_floats(checkpoint, name, &count);
        for (uint32_t n = 0; n < 64; n++)
            for (uint32_t k = 0; k < columns[l]; k++)
                off = fmax(off, fabs((double)w[n * wide + at[l] + k] / (double)smooth[at[l] + k] -
                                     (double)weight[l][(first[l] + n) * columns[l] + k]));
        CHECK_MESSAGE(off < 1e-6, "%s is off by %g", made[l], off);
        free(smooth);
        free(w);
    }
    diti_checkpoint_close(checkpoint);
    lora_file_free(&file);
}

static void refuses_fp4(const char *scales, uint64_t groups, unsigned char code, float factor, const char *said) {
    static unsigned char zeros[128 * 64], codes[2048];
    lora_file file = {0};
    diti_checkpoint *checkpoint = NULL;
    const diti_stored_tensor *tensor;
    dit_source source;
    dit_result result;
    float values[128 * 128];
    memset(codes, code, sizeof codes);
    nunchaku_add(&file, "x_embedder", ".weight", "BF16", 128, 4, zeros, 1024);
    nunchaku_add(&file, "transformer_blocks.0.out_proj", ".qweight", "I8", 128, 64, zeros, 128 * 64);
    nunchaku_add(&file, "transformer_blocks.0.out_proj", ".wscales", scales, groups, 128, codes,
                 (size_t)groups * 128 * (strcmp(scales, "BF16") ? 1 : 2));
    nunchaku_add(&file, "transformer_blocks.0.out_proj", ".smooth", "BF16", 128, 0, codes, 256);
    nunchaku_add(&file, "transformer_blocks.0.out_proj", ".wtscale", "F32", 1, 0, &factor, 4);
    source = lora_file_source(&file);
    result = diti_checkpoint_open(&env, &source, &checkpoint, &err);
    if (result == DIT_OK) {
        tensor = diti_checkpoint_find(checkpoint, "transformer_blocks.0.attn.to_out.0.weight");
        result = diti_checkpoint_read_float(checkpoint, tensor, values, 128 * 128, &err);
        tensor = diti_checkpoint_find(checkpoint, "transformer_blocks.0.attn.to_out.0.weight_smooth");
        if (result == DIT_OK) result = diti_checkpoint_read_float(checkpoint, tensor, values, 128, &err);
    }
    CHECK_MESSAGE(result < 0 && strstr(err.message, said), "%d, %s", result, err.message);
    diti_checkpoint_close(checkpoint);
    lora_file_free(&file);
}

static void test_fp4_refused(void) {
    refuses_fp4("BF16", 2, 0x38, 1, "has wcscales or wtscale");
    refuses_fp4("F8_E4M3", 4, 0x38, 1, "is not [8, 128], scales of F8_E4M3");
    refuses_fp4("F8_E4M3", 8, 0xb8, 1, "negative or no number");
    refuses_fp4("F8_E4M3", 8, 0x38, 0, "wtscale' is 0");
    refuses_fp4("F8_E4M3", 8, 0x38, NAN, "must be finite");
}

/* A scale beyond halves is found when it is read. */
static void test_values_refused(void) {
    size_t size;
    char *file = test_read_file("tests/fixtures/nunchaku/packed.safetensors", &size);
    const diti_stored_tensor *tensor, *scales;
    diti_checkpoint *checkpoint = NULL;
    unsigned char out[18 * 2];
    dit_source source = {0};
    source.data = file;
    source.size = size;
    CHECK(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK);
    tensor = diti_checkpoint_find(checkpoint, "transformer_blocks.0.attn.to_q.weight");
    scales = tensor->made->layers[0]->parts[DITI_NUNCHAKU_SCALES];
    memset(file + scales->offset, 0x7f, 2); /* 3.4e38 */
    CHECK(diti_checkpoint_read(checkpoint, tensor, 0, out, sizeof out, &err) == DIT_ERROR_BAD_FILE &&
          strstr(err.message, "beyond F16"));
    diti_checkpoint_close(checkpoint);
    free(file);
}

static void test_memory_fails(const char *path) {
    for (long at = 1; at < 400; at += 3) {
        diti_checkpoint *checkpoint = NULL;
        dit_source source = {0};
        long before = memory.alive;
        source.path = path;
        memory.fail_at = memory.calls + at;
        if (diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK) {
            for (uint32_t i = 0; i < diti_checkpoint_count(checkpoint); i++) {
                const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
                unsigned char some[64];
                if (diti_checkpoint_read(checkpoint, tensor, 0, some, sizeof some, &err) < 0) break;
            }
        }
        diti_checkpoint_close(checkpoint);
        memory.fail_at = 0;
        CHECK(memory.alive == before);
    }
}

int main(void) {
    env = test_env(&memory);
    packed = open_path("tests/fixtures/nunchaku/packed.safetensors");
    plain = open_path("tests/fixtures/nunchaku/plain.safetensors");
    if (packed && plain) {
        test_fused();
        test_modulation();
        test_beside();
        test_pieces(packed);
        test_packer();
    }
    diti_checkpoint_close(packed);
    diti_checkpoint_close(plain);
    test_qwenimage();
    test_refused();
    test_fp4();
    test_fp4_refused();
    test_values_refused();
    test_text();
    test_text_refused();
    test_memory_fails("tests/fixtures/nunchaku/packed.safetensors");
    test_memory_fails(TEXT);
    CHECK(memory.alive == 0);
    return TEST_END("nunchaku");
}
