/* LoRA, LoHa and LoKr beside a linear layer, and merged into it, against double precision: odd sizes, every operand of
   the epilogue, parts of the weight, rows of items, int8 rows, several at once; files that are damaged or for another
   model. DIT_TEST_ALL=1: every set of adapters on every size, and rows of I4_GROUP that are read when they are needed.
   test-runs: lavapipe sanitize, in test-all swiftshader newest */
#include "library.h"
#include "files.h"
#include "lora_file.h"
#include "vulkan_test.h"

enum { MOST_LORAS = 3 };
static diti_env env;
static diti_device *device;
static dit_error err;
static bool by_need; /* matrices are read when their products are planned */

/* --- a layer, and what adapters add to it --- */

typedef enum adapter_kind {
    LORA,
    LOHA,
    LOKR_LEFT,
    LOKR_RIGHT,
    LOKR_BOTH,
    LOKR_WHOLE,
    DORA_ROWS, /* a LoRA with magnitudes of rows */
    DORA_COLUMNS,
    DOHA, /* a LoHa with magnitudes of columns */
    TUCKER_LORA,
    TUCKER_LOHA,
    TUCKER_LOKR,
    BIASED /* a LoRA with a bias of up */
} adapter_kind;
typedef struct adapter {
    adapter_kind kind;
    uint32_t rank;
    float alpha; /* 0: none */
    float weight;
} adapter;

typedef struct bench {
    uint32_t rows, columns; /* of the weight */
    lora_file base;
    diti_checkpoint *checkpoint;
    diti_layer layer;
    diti_weights weights;
    double *w, *bias; /* as the product should be: with all deltas */
    uint32_t count;
    lora_file files[MOST_LORAS];
    diti_lora_file *opened[MOST_LORAS];
    diti_lora *loras[MOST_LORAS];
    diti_lora_merges merges; /* into the layer */
    diti_lora_use uses[MOST_LORAS];
    float *scales;
    uint32_t scale_count;
} bench;

static float *matrix_of(lora_file *file, const char *name, uint64_t rows, uint64_t columns, double spread,
                        uint64_t seed) {
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    lora_file_matrix(file, name, rows, columns, spread, seed);
    memcpy(values, file->data.data + file->data.size - (size_t)(rows * columns) * sizeof *values,
           (size_t)(rows * columns) * sizeof *values);
    return values;
}

/* a [rows, inner] * b [inner, columns]. */
static double *times(const float *a, const float *b, uint32_t rows, uint32_t inner, uint32_t columns) {
    double *out = calloc((size_t)rows * columns, sizeof *out);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < inner; k++)
            for (uint32_t c = 0; c < columns; c++)
                out[(size_t)r * columns + c] += (double)a[(size_t)r * inner + k] * (double)b[(size_t)k * columns + c];
    return out;
}

static double *lora_delta(bench *b, lora_file *file, const adapter *a, uint64_t seed) {
    float *down = matrix_of(file, "transformer.block.layer.lora_A.weight", a->rank, b->columns, 0.2, seed);
    float *up = matrix_of(file, "transformer.block.layer.lora_B.weight", b->rows, a->rank, 0.2, seed);
    double *delta = times(up, down, b->rows, a->rank, b->columns);
    free(down);
    free(up);
    return delta;
}

static double *loha_delta(bench *b, lora_file *file, const adapter *a, uint64_t seed) {
    static const char *const names[] = {"lora_unet_block_layer.hada_w1_a", "lora_unet_block_layer.hada_w1_b",
                                        "lora_unet_block_layer.hada_w2_a", "lora_unet_block_layer.hada_w2_b"};
    float *factors[4];
    double *one, *two;
    for (int i = 0; i < 4; i++)
        factors[i] = matrix_of(file, names[i], i % 2 ? a->rank : b->rows, i % 2 ? b->columns : a->rank, 0.5, seed);
    one = times(factors[0], factors[1], b->rows, a->rank, b->columns);
    two = times(factors[2], factors[3], b->rows, a->rank, b->columns);
    for (size_t i = 0; i < (size_t)b->rows * b->columns; i++) one[i] *= two[i];
    for (int i = 0; i < 4; i++) free(factors[i]);
    free(two);
    return one;
}

/* The smallest divisor above 1. */
static uint32_t divisor(uint32_t value) {
    uint32_t d = 2;
    while (value % d) d++;
    return d;
}

static double *lokr_factor(lora_file *file, const char *name, bool product, uint32_t rows, uint32_t columns,
                           uint32_t rank, uint64_t seed) {
    char full[64];
    float *a, *b;
    double *out;
    if (!product) {
        a = matrix_of(file, name, rows, columns, 0.4, seed);
        out = calloc((size_t)rows * columns, sizeof *out);
        for (size_t i = 0; i < (size_t)rows * columns; i++) out[i] = a[i];
        free(a);
        return out;
    }
    snprintf(full, sizeof full, "%s_a", name);
    a = matrix_of(file, full, rows, rank, 0.4, seed);
    snprintf(full, sizeof full, "%s_b", name);
    b = matrix_of(file, full, rank, columns, 0.4, seed);
    out = times(a, b, rows, rank, columns);
    free(a);
    free(b);
    return out;
}

/* A delta of a convolution of 2 x 2: the sum over i and j of a [i, row] * t [i, j, tap] * b [j, channel]; a [row, i] of
 * LoRA.
 */
static double *tucker_delta(lora_file *file, const char *const names[3], uint32_t rows, uint32_t columns, uint32_t rank,
                            uint64_t seed) {
    uint64_t shape[4] = {rank, rank, 2, 2};
    uint32_t channels = columns / 4;
    bool up = strstr(names[0], "lora_up") != NULL;
    float *a = matrix_of(file, names[0], up ? rows : rank, up ? rank : rows, 0.4, seed);
    float *b = matrix_of(file, names[1], rank, channels, 0.4, seed), *t = malloc(4 * rank * rank * sizeof *t);
    double *delta = calloc((size_t)rows * columns, sizeof *delta);
    for (uint32_t i = 0; i < 4 * rank * rank; i++) t[i] = (float)(real_random(seed, i) >> 40) / 8388608.0f - 1.0f;
    lora_file_bytes(file, names[2], "F32", shape, 4, t, 4 * rank * rank * sizeof *t);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++)
            for (uint32_t i = 0; i < rank; i++)
                for (uint32_t j = 0; j < rank; j++)
                    delta[(size_t)r * columns + c] += (double)a[up ? r * rank + i : i * rows + r] *
                                                      t[(i * rank + j) * 4 + c % 4] * b[j * channels + c / 4];
    free(a);
    free(b);
    free(t);
    return delta;
}

static double *lokr_delta(bench *b, lora_file *file, const adapter *a, uint64_t seed) {
    uint32_t rows = divisor(b->rows), columns = divisor(b->columns), rows2 = b->rows / rows,
             columns2 = b->columns / columns;
    bool left = a->kind == LOKR_LEFT || a->kind == LOKR_BOTH, right = a->kind == LOKR_RIGHT || a->kind == LOKR_BOTH;
    double *one = lokr_factor(file, "lycoris_block_layer.lokr_w1", left, rows, columns, a->rank, seed);
    static const char *const names[] = {"lycoris_block_layer.lokr_w2_a", "lycoris_block_layer.lokr_w2_b",
                                        "lycoris_block_layer.lokr_t2"};
    double *two = a->kind == TUCKER_LOKR
                      ? tucker_delta(file, names, rows2, columns2, a->rank, seed)
                      : lokr_factor(file, "lycoris_block_layer.lokr_w2", right, rows2, columns2, a->rank, seed);
    double *delta = calloc((size_t)b->rows * b->columns, sizeof *delta);
    for (uint32_t r = 0; r < b->rows; r++)
        for (uint32_t c = 0; c < b->columns; c++)
            delta[(size_t)r * b->columns + c] =
                one[(size_t)(r / rows2) * columns + c / columns2] * two[(size_t)(r % rows2) * columns2 + c % columns2];
    free(one);
    free(two);
    return delta;
}

static double *tucker_loha_delta(bench *b, lora_file *file, const adapter *a, uint64_t seed) {
    static const char *const names[2][3] = {
        {"lycoris_block_layer.hada_w1_a", "lycoris_block_layer.hada_w1_b", "lycoris_block_layer.hada_t1"},
        {"lycoris_block_layer.hada_w2_a", "lycoris_block_layer.hada_w2_b", "lycoris_block_layer.hada_t2"}};
    double *one = tucker_delta(file, names[0], b->rows, b->columns, a->rank, seed);
    double *two = tucker_delta(file, names[1], b->rows, b->columns, a->rank, seed + 50);
    for (size_t i = 0; i < (size_t)b->rows * b->columns; i++) one[i] *= two[i];
    free(two);
    return one;
}

static double *tucker_lora_delta(bench *b, lora_file *file, const adapter *a, uint64_t seed) {
    static const char *const names[] = {"lycoris_block_layer.lora_up.weight", "lycoris_block_layer.lora_down.weight",
                                        "lycoris_block_layer.lora_mid.weight"};
    return tucker_delta(file, names, b->rows, b->columns, a->rank, seed);
}

/* w + weight * (magnitude * (w + delta) / |w + delta| - w), the length that of a row or of a column. */
static void add_magnitudes(bench *b, lora_file *file, const adapter *a, const double *delta, double scale) {
    bool rows = a->kind == DORA_ROWS;
    uint32_t count = rows ? b->rows : b->columns, across = rows ? b->columns : b->rows, i, k;
    const char *name = a->kind == DOHA ? "lora_unet_block_layer.dora_scale"
                       : rows          ? "transformer.block.layer.magnitude"
                                       : "transformer.block.layer.dora_scale";
    float *magnitudes = matrix_of(file, name, rows ? count : 1, rows ? 1 : count, 2, 5);
    for (i = 0; i < count; i++) {
        double sum = 0;
        for (k = 0; k < across; k++) {
            size_t at = rows ? (size_t)i * b->columns + k : (size_t)k * b->columns + i;
            sum += (b->w[at] + scale * delta[at]) * (b->w[at] + scale * delta[at]);
        }
        for (k = 0; k < across; k++) {
            size_t at = rows ? (size_t)i * b->columns + k : (size_t)k * b->columns + i;
            double made = (double)magnitudes[i] * (b->w[at] + scale * delta[at]) / sqrt(sum);
            b->w[at] += (double)a->weight * (made - b->w[at]);
        }
    }
    free(magnitudes);
}

static void add_adapter(bench *b, const adapter *a) {
    lora_file *file = &b->files[b->count];
    uint64_t seed = 77 + b->count;
    double scale = a->alpha != 0 && a->kind != LOKR_WHOLE ? a->alpha / a->rank : 1;
    bool pair = a->kind == LORA || a->kind == DORA_ROWS || a->kind == DORA_COLUMNS || a->kind == BIASED;
    bool loha = a->kind == LOHA || a->kind == DOHA, magnitudes = a->kind >= DORA_ROWS && a->kind <= DOHA;
    double *delta = pair                     ? lora_delta(b, file, a, seed)
                    : loha                   ? loha_delta(b, file, a, seed)
                    : a->kind == TUCKER_LORA ? tucker_lora_delta(b, file, a, seed)
                    : a->kind == TUCKER_LOHA ? tucker_loha_delta(b, file, a, seed)
                                             : lokr_delta(b, file, a, seed);
    if (a->alpha != 0)
        lora_file_number(file,
                         pair   ? "transformer.block.layer.alpha"
                         : loha ? "lora_unet_block_layer.alpha"
                                : "lycoris_block_layer.alpha",
                         a->alpha);
    if (magnitudes) add_magnitudes(b, file, a, delta, scale);
    for (size_t i = 0; i < (size_t)b->rows * b->columns && !magnitudes; i++)
        b->w[i] += (double)a->weight * scale * delta[i];
    if (a->kind == BIASED) {
        const uint64_t shape[1] = {b->rows};
        float *bias = malloc(b->rows * sizeof *bias);
        for (uint32_t r = 0; r < b->rows; r++) bias[r] = (float)(real_random(seed, r) >> 40) / 8388608.0f - 1.0f;
        for (uint32_t r = 0; r < b->rows; r++) b->bias[r] += (double)a->weight * scale * bias[r];
        lora_file_bytes(file, "transformer.block.layer.lora_B.bias", "F32", shape, 1, bias, b->rows * sizeof *bias);
        free(bias);
    }
    free(delta);
    b->count++;
}

static dit_result load_base(bench *b, dit_type type, diti_lora_merges *merges) {
    dit_type_rule rule = {"*", DIT_TYPE_STORED};
    diti_load_options options = DITI_ZERO;
    diti_loader loader;
    rule.type = type;
    options.types = &rule;
    options.type_count = type ? 1 : 0;
    options.adapts = true;
    options.merges = merges;
    options.by_need = by_need;
    diti_loader_begin(&loader, device, &env, b->checkpoint, "", "layer", NULL);
    diti_loader_rules(&loader, "transformer", &options);
    diti_loader_scope(&loader, "block.");
    diti_load_layer(&loader, &b->layer, b->rows, b->columns, 1, "layer");
    return diti_loader_finish(&loader, &b->weights, &err);
}

static bool open_files(bench *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        dit_source source = lora_file_source(&b->files[i]);
        if (!CHECK_MESSAGE(diti_lora_open(&env, &source, &b->opened[i], &err) == DIT_OK, "%s", err.message))
            return false;
    }
    return true;
}

static bool load_loras(bench *b, const adapter *adapters) {
    diti_lora_scope scope = {DIT_ROLE_TRANSFORMER, &b->weights};
    for (uint32_t i = 0; i < b->count; i++) {
        diti_lora_matches matches = DITI_ZERO;
        dit_result result = diti_lora_match_scopes(b->opened[i], &scope, 1, &matches, &err);
        if (result == DIT_OK) result = diti_lora_check_fits(b->opened[i], &err);
        if (result == DIT_OK) result = diti_lora_load(device, &env, b->opened[i], &matches, false, &b->loras[i], &err);
        diti_free(&env, matches.list);
        if (!CHECK_MESSAGE(result == DIT_OK, "%s", err.message)) return false;
        b->uses[i].lora = b->loras[i];
        b->uses[i].column = b->scale_count;
        b->scale_count += b->loras[i]->scale_count;
        b->scales = realloc(b->scales, b->scale_count * sizeof *b->scales);
        for (uint32_t k = 0; k < b->loras[i]->scale_count; k++)
            b->scales[b->uses[i].column + k] = adapters[i].weight * b->loras[i]->scales[k];
    }
    return true;
}

static bool bench_begin(bench *b, uint32_t rows, uint32_t columns, const adapter *adapters, uint32_t count,
                        dit_type type, bool merged) {
    dit_source source;
    float *values;
    memset(b, 0, sizeof *b);
    b->rows = rows;
    b->columns = columns;
    b->w = calloc((size_t)rows * columns, sizeof *b->w);
    b->bias = calloc(rows, sizeof *b->bias);
    values = matrix_of(&b->base, "block.layer.weight", rows, columns, 0.3, 1);
    for (size_t i = 0; i < (size_t)rows * columns; i++) b->w[i] = values[i];
    free(values);
    values = matrix_of(&b->base, "block.layer.bias", 1, rows, 0.3, 1);
    for (uint32_t i = 0; i < rows; i++) b->bias[i] = values[i];
    free(values);
    for (uint32_t i = 0; i < count; i++) add_adapter(b, &adapters[i]);
    source = lora_file_source(&b->base);
    if (!CHECK(diti_checkpoint_open(&env, &source, &b->checkpoint, &err) == DIT_OK) || !open_files(b)) return false;
    if (!CHECK_MESSAGE(load_base(b, type, NULL) == DIT_OK, "%s", err.message)) return false;
    if (!merged) return load_loras(b, adapters);
    b->merges.env = env;
    b->merges.count = count;
    for (uint32_t i = 0; i < count; i++) {
        b->merges.files[i] = b->opened[i];
        b->merges.weights[i] = adapters[i].weight;
    }
    if (!CHECK_MESSAGE(diti_lora_merges_match(&b->merges, DIT_ROLE_TRANSFORMER, &b->weights, &err) == DIT_OK, "%s",
                       err.message) ||
        !CHECK_MESSAGE(diti_lora_merges_measure(&b->merges, b->checkpoint, &err) == DIT_OK, "%s", err.message))
        return false;
    diti_weights_free(device, &env, &b->weights);
    return CHECK_MESSAGE(load_base(b, type, &b->merges) == DIT_OK, "%s", err.message);
}

static void bench_end(bench *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        diti_lora_free(b->loras[i]);
        diti_lora_close(b->opened[i]);
        lora_file_free(&b->files[i]);
    }
    diti_free(&env, b->merges.list);
    diti_weights_free(device, &env, &b->weights);
    diti_checkpoint_close(b->checkpoint);
    lora_file_free(&b->base);
    free(b->scales);
    free(b->w);
    free(b->bias);
}

/* --- products --- */

typedef struct product {
    diti_activation activation;
    bool multiplied, gated, residual, f32;
    uint32_t of, first, count;       /* rows of items; of 0: all */
    uint32_t row, rows;              /* of the weight, as a cut; rows 0: all */
    uint32_t column, columns;        /* and columns of it; columns 0: all */
    uint32_t part_first, part_count; /* as desc.first and count; 0: all */
} product;

static float *random_values(size_t count, uint64_t seed) {
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = (float)(real_random(seed, i) >> 40) / 8388608.0f - 1.0f;
    return values;
}

static double activated(diti_activation activation, double v) {
    if (activation == DITI_ACTIVATION_SILU) return v / (1 + exp(-v));
    if (activation == DITI_ACTIVATION_GELU_ERF) return 0.5 * v * (1 + erf(v / sqrt(2.0)));
    return v;
}

typedef struct operands {
    uint32_t rows, out; /* rows of x, columns of the result */
    float *x, *multiply, *gate, *residual;
} operands;

/* The product as it should be; rows that it is not about keep the residual's value. */
static double *expected(const bench *b, const product *p, const operands *o) {
    uint32_t row0 = p->row + p->part_first, columns = p->columns ? p->columns : b->columns;
    double *out = calloc((size_t)o->rows * o->out, sizeof *out);
    for (uint32_t r = 0; r < o->rows; r++) {
        bool meant = !p->of || (r % p->of >= p->first && r % p->of < p->first + p->count);
        for (uint32_t n = 0; n < o->out; n++) {
            size_t at = (size_t)r * o->out + n;
            double sum = b->bias[row0 + n];
            for (uint32_t k = 0; k < columns; k++)
                sum += (double)o->x[(size_t)r * columns + k] * b->w[(size_t)(row0 + n) * b->columns + p->column + k];
            sum = activated(p->activation, sum);
            if (p->multiplied) sum *= o->multiply[at];
            if (p->gated) sum *= o->gate[n];
            if (p->residual) sum += o->residual[at];
            out[at] = meant ? sum : o->residual[at];
        }
    }
    return out;
}

static diti_tensor give(diti_graph *graph, diti_tensor *input, uint32_t rows, uint32_t columns) {
    return *input = diti_tensor_input(graph, DITI_F32, rows, columns, "operand");
}

static diti_tensor copy_of(diti_graph *graph, diti_tensor from, bool f32, diti_storage storage) {
    uint32_t rows = diti_tensor_rows(graph, from), columns = diti_tensor_columns(graph, from);
    diti_element format = f32 ? DITI_F32 : graph->activation;
    diti_tensor to = storage == DITI_STORAGE_STATE ? diti_tensor_state(graph, DITI_F32, rows, columns, "out")
                                                   : diti_tensor_new(graph, format, rows, columns, "copy");
    diti_copy(graph, from, to, "copy");
    return to;
}

static diti_tensor emit(diti_graph *graph, const bench *b, const product *p, const operands *o, diti_tensor in[4]) {
    diti_linear_desc desc = DITI_ZERO;
    uint32_t columns = p->columns ? p->columns : b->columns;
    diti_tensor x = give(graph, &in[0], o->rows, columns);
    if (p->multiplied) desc.multiply = copy_of(graph, give(graph, &in[1], o->rows, o->out), false, DITI_STORAGE_ARENA);
    if (p->gated) desc.gate = give(graph, &in[2], 1, o->out);
    if (p->residual || p->of) {
        desc.out = copy_of(graph, give(graph, &in[3], o->rows, o->out), p->f32, DITI_STORAGE_ARENA);
        desc.residual = p->residual ? desc.out : 0;
    }
    desc.bias = &b->layer.bias;
    desc.activation = p->activation;
    desc.out_f32 = p->f32;
    desc.rows.of = p->of;
    desc.rows.first = p->first;
    desc.rows.count = p->count;
    desc.cut.row = p->row;
    desc.cut.rows = p->rows;
    desc.cut.columns[0].first = p->column;
    desc.cut.columns[0].count = p->columns;
    desc.first = p->part_first;
    desc.count = p->part_count;
    return copy_of(graph, diti_linear(graph, x, &b->layer.weight, &desc), true, DITI_STORAGE_STATE);
}

static double relative(const float *out, const double *reference, size_t count) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        error += (out[i] - reference[i]) * (out[i] - reference[i]);
        norm += reference[i] * reference[i];
    }
    return sqrt(error / norm);
}

/* The result; NULL: an error. */
static float *run_product(bench *b, const product *p, const operands *o, bool adapted) {
    const float *values[4] = {o->x, o->multiply, o->gate, o->residual};
    diti_tensor in[4] = {0, 0, 0, 0}, scales = 0, out;
    float *result = malloc((size_t)o->rows * o->out * sizeof *result);
    diti_plan *plan = NULL;
    diti_graph graph;
    dit_result done;
    diti_graph_init(&graph, device);
    diti_guard_begin(&graph);
    if (adapted && b->scale_count) {
        graph.loras = b->uses;
        graph.add_to_vector = diti_lora_vector;
        graph.lora_count = b->count;
        graph.lora_scales = scales = diti_tensor_input(&graph, DITI_F32, 1, b->scale_count, "scales");
    }
    diti_graph_segment(&graph, "product", false);
    out = emit(&graph, b, p, o, in);
    diti_guard_judge(&graph);
    done = diti_plan_create(&graph, NULL, &plan, &err);
    if (done == DIT_OK && scales) done = diti_plan_write(plan, scales, b->scales, b->scale_count * sizeof(float), &err);
    for (int i = 0; i < 4 && done == DIT_OK; i++) {
        const diti_tensor_info *info = in[i] ? &plan->tensors[in[i]] : NULL;
        if (info) done = diti_plan_write(plan, in[i], values[i], (size_t)info->rows * info->columns * 4, &err);
    }
    if (done == DIT_OK) done = diti_guard_run(plan, 0, &err);
    if (done == DIT_OK) done = diti_plan_read(plan, out, result, (size_t)o->rows * o->out * sizeof *result, &err);
    CHECK_MESSAGE(done == DIT_OK, "%s", err.message);
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
    return result;
}

static operands operands_of(const bench *b, const product *p, uint32_t rows) {
    operands o = DITI_ZERO;
    o.rows = rows;
    o.out = p->part_count ? p->part_count : p->rows ? p->rows : b->rows;
    o.x = random_values((size_t)rows * (p->columns ? p->columns : b->columns), 11);
    o.multiply = random_values((size_t)rows * o.out, 12);
    o.gate = random_values(o.out, 13);
    o.residual = random_values((size_t)rows * o.out, 14);
    return o;
}

static void operands_free(operands *o) {
    free(o->x);
    free(o->multiply);
    free(o->gate);
    free(o->residual);
}

static void check_product(bench *b, const product *p, uint32_t rows, const char *what, size_t number) {
    operands o = operands_of(b, p, rows);
    double *reference = expected(b, p, &o), worst = device->rung >= DITI_RUNG_FP16 ? 3e-3 : 2e-6, off;
    float *out = run_product(b, p, &o, true);
    off = relative(out, reference, (size_t)rows * o.out);
    CHECK_MESSAGE(off <= worst, "%s %s [%u, %u] on %u rows, product %u: off by %.3g", diti_rung_name(device->rung),
                  what, b->rows, b->columns, rows, (unsigned)number, off);
    free(out);
    free(reference);
    operands_free(&o);
}

static const product products[] = {
    {DITI_ACTIVATION_NONE, false, false, false, true, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_NONE, false, false, false, false, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_GELU_ERF, false, false, false, false, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_SILU, true, false, false, false, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_NONE, false, true, true, true, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_NONE, true, true, true, true, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_SILU, false, false, true, true, 7, 2, 4, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_NONE, false, false, false, false, 7, 0, 2, 0, 0, 0, 0, 0, 0},
    {DITI_ACTIVATION_NONE, false, false, false, true, 0, 0, 0, 8, 12, 0, 0, 0, 0},
    {DITI_ACTIVATION_SILU, false, false, false, true, 0, 0, 0, 8, 12, 4, 20, 0, 0},
    {DITI_ACTIVATION_NONE, false, false, false, false, 0, 0, 0, 0, 0, 0, 0, 5, 17},
};

static void test_products(void) {
    static const adapter sets[][MOST_LORAS] = {
        {{LORA, 3, 0, 1}, {LOHA, 2, 1.5f, -0.5f}, {LOKR_RIGHT, 2, 3, 0.7f}},
        {{LOKR_LEFT, 1, 0.5f, 1.25f}, {LOKR_BOTH, 1, 2, -1}, {LORA, 16, 4, 0.8f}},
        {{LOKR_WHOLE, 1, 7, 1}, {LORA, 1, 0, -0.3f}, {LOHA, 6, 6, 0.4f}},
    };
    static const uint32_t shapes[][2] = {{35, 44}, {52, 33}};
    const char *all = getenv("DIT_TEST_ALL");
    bench b;
    for (size_t s = 0; s < DITI_COUNT(sets); s++)
        for (size_t k = 0; k < DITI_COUNT(shapes); k++) {
            if (!(all && *all == '1') && s % 2 != k) continue;
            if (bench_begin(&b, shapes[k][0], shapes[k][1], sets[s], MOST_LORAS, DIT_TYPE_STORED, false))
                for (size_t i = 0; i < DITI_COUNT(products); i++) {
                    const product *p = &products[i];
                    if (p->columns && b.columns % 4) continue; /* such rows cannot be cut */
                    check_product(&b, p, p->of ? 2 * p->of : 7, "beside", i);
                }
            bench_end(&b);
            if (bench_begin(&b, shapes[k][0], shapes[k][1], sets[s], MOST_LORAS, DIT_TYPE_STORED, true))
                check_product(&b, &products[0], 7, "merged", 0);
            bench_end(&b);
        }
}

/* Wide enough that the sums are made in several turns, and a LoRA that is about some rows of the weight alone. */
static void test_wide(void) {
    static const adapter one[] = {{LORA, 5, 2, 1}};
    bench b;
    uint32_t i;
    if (bench_begin(&b, 300, 64, one, 1, DIT_TYPE_STORED, false)) {
        check_product(&b, &products[2], 130, "wide", 2);
        for (i = 0; i < b.loras[0]->adapter_count; i++) { /* rows 100 to 159 alone */
            diti_adapter *adapter = &b.loras[0]->adapters[i];
            float *down = b.opened[0]->modules[0].values[DITI_LORA_DOWN];
            CHECK(adapter->part_count == 1 && !down);
            adapter->parts[0].row = 100;
            adapter->parts[0].rows = 60;
        }
        CHECK(diti_lora_read(b.opened[0], &b.opened[0]->modules[0], &err) == DIT_OK);
        for (i = 0; i < 300; i++) { /* up's first rows are those of rows 100 and on now */
            float row[64];
            memset(row, 0, sizeof row);
            diti_lora_add_row(&b.opened[0]->modules[0], i, 1, row);
            for (uint32_t c = 0; c < 64; c++) b.w[(size_t)i * 64 + c] -= row[c];
        }
        for (i = 0; i < 60; i++) {
            float row[64];
            memset(row, 0, sizeof row);
            diti_lora_add_row(&b.opened[0]->modules[0], i, 1, row);
            for (uint32_t c = 0; c < 64; c++) b.w[(size_t)(100 + i) * 64 + c] += row[c];
        }
        check_product(&b, &products[0], 9, "some rows", 0);
        check_product(&b, &products[2], 9, "some rows", 2);
        diti_lora_forget(b.opened[0], &b.opened[0]->modules[0]);
    }
    bench_end(&b);
}

/* Tucker factors of a convolution's matrix, and PEFT's bias of up: beside the weights and merged. */
static void test_factors(void) {
    static const adapter sets[][MOST_LORAS] = {
        {{TUCKER_LORA, 3, 2, 1}, {TUCKER_LOHA, 2, 1.5f, -0.5f}, {TUCKER_LOKR, 2, 3, 0.7f}},
        {{BIASED, 3, 2, 0.8f}, {BIASED, 5, 0, -1.5f}, {LORA, 2, 1, 1}},
    };
    bench b;
    for (size_t s = 0; s < DITI_COUNT(sets); s++)
        for (int merged = 0; merged < 2; merged++) {
            if (bench_begin(&b, 36, 48, sets[s], MOST_LORAS, DIT_TYPE_STORED, merged == 1))
                check_product(&b, &products[0], 7, merged ? "factors, merged" : "factors", s);
            bench_end(&b);
        }
}

/* DoRA is merged, after other adapters and before them, and refused beside the weights. */
static void test_dora(void) {
    static const adapter sets[][MOST_LORAS] = {{{DORA_ROWS, 5, 2, 1}, {LORA, 4, 2, 0.5f}, {DORA_COLUMNS, 3, 0, 0.7f}},
                                               {{DOHA, 2, 3, 1}, {DORA_COLUMNS, 4, 2, -0.4f}, {DORA_ROWS, 2, 0, 0.3f}}};
    bench b;
    for (size_t s = 0; s < DITI_COUNT(sets); s++) {
        if (bench_begin(&b, 37, 20, sets[s], MOST_LORAS, DIT_TYPE_STORED, true))
            check_product(&b, &products[0], 7, "DoRA", s);
        bench_end(&b);
    }
    memset(&b, 0, sizeof b);
    b.rows = 12;
    b.columns = 8;
    b.w = calloc(96, sizeof *b.w);
    b.bias = calloc(12, sizeof *b.bias);
    free(matrix_of(&b.base, "block.layer.weight", 12, 8, 0.3, 1));
    free(matrix_of(&b.base, "block.layer.bias", 1, 12, 0.3, 1));
    add_adapter(&b, &sets[0][0]);
    dit_source source = lora_file_source(&b.base);
    diti_lora_matches matches = DITI_ZERO;
    diti_lora_scope scope = {DIT_ROLE_TRANSFORMER, &b.weights};
    if (CHECK(diti_checkpoint_open(&env, &source, &b.checkpoint, &err) == DIT_OK) && open_files(&b) &&
        CHECK(load_base(&b, DIT_TYPE_STORED, NULL) == DIT_OK) &&
        CHECK(diti_lora_match_scopes(b.opened[0], &scope, 1, &matches, &err) == DIT_OK))
        CHECK_MESSAGE(diti_lora_load(device, &env, b.opened[0], &matches, false, &b.loras[0], &err) ==
                              DIT_ERROR_UNSUPPORTED_MODEL &&
                          strstr(err.message, "block.layer is DoRA") && strstr(err.message, "--lora-merge"),
                      "%s", err.message);
    diti_free(&env, matches.list);
    bench_end(&b);
}

/* Beside int8 rows the LoRA's part is as exact as beside floats. */
static void test_int8(void) {
    static const adapter two[] = {{LORA, 4, 2, 1}, {LOKR_WHOLE, 1, 0, -0.5f}};
    static const dit_type types[] = {DIT_TYPE_I8_ROW, DIT_TYPE_I8_ROW_ROTATED};
    for (size_t t = 0; t < DITI_COUNT(types); t++) {
        bench b;
        if (bench_begin(&b, 40, 256, two, 2, types[t], false)) {
            operands o = operands_of(&b, &products[0], 9);
            float *with = run_product(&b, &products[0], &o, true), *without = run_product(&b, &products[0], &o, false);
            double *reference = expected(&b, &products[0], &o), off;
            float *stored = (float *)(void *)(b.base.data.data);
            CHECK(b.layer.weight.type == types[t]);
            for (uint32_t r = 0; r < 9; r++)
                for (uint32_t n = 0; n < 40; n++) {
                    with[r * 40 + n] -= without[r * 40 + n];
                    reference[r * 40 + n] -= b.bias[n];
                    for (uint32_t k = 0; k < 256; k++)
                        reference[r * 40 + n] -= (double)o.x[r * 256 + k] * stored[n * 256 + k];
                }
            off = relative(with, reference, 9 * 40);
            CHECK_MESSAGE(off <= (device->rung >= DITI_RUNG_FP16 ? 3e-3 : 1e-5), "beside int8: off by %.3g", off);
            free(with);
            free(without);
            free(reference);
            operands_free(&o);
        }
        bench_end(&b);
        if (bench_begin(&b, 40, 256, two, 2, types[t], true)) {
            operands o = operands_of(&b, &products[0], 9);
            double *reference = expected(&b, &products[0], &o);
            float *out = run_product(&b, &products[0], &o, false);
            double off = relative(out, reference, 9 * 40);
            CHECK_MESSAGE(off <= 2e-2, "merged into int8: off by %.3g", off);
            free(out);
            free(reference);
            operands_free(&o);
        }
        bench_end(&b);
    }
}

/* A matrix that is converted when it is read, and is longer than what is read at a time, whose rows do not fill that
   evenly: read when the product is planned, it is the one that is read at once. */
static void check_need(uint32_t rows, uint32_t columns, dit_type type, const adapter *adapters, uint32_t count) {
    float *out[2] = {NULL, NULL};
    bench b;
    for (int need = 0; need < 2; need++) {
        by_need = need == 1;
        if (bench_begin(&b, rows, columns, adapters, count, type, count > 0)) {
            operands o = operands_of(&b, &products[0], 2);
            CHECK(b.layer.weight.type == (type ? type : DIT_TYPE_F32) && !b.weights.streamed == !need);
            out[need] = run_product(&b, &products[0], &o, false);
            operands_free(&o);
        }
        bench_end(&b);
    }
    by_need = false;
    CHECK_MESSAGE(out[0] && out[1] && !memcmp(out[0], out[1], 2 * (size_t)rows * sizeof(float)),
                  "%s [%u, %u], read when needed, has other products", diti_type_name(type), rows, columns);
    free(out[0]);
    free(out[1]);
}

static void test_need(void) {
    static const adapter one[] = {{LORA, 2, 0, 1}};
    const char *all = getenv("DIT_TEST_ALL");
    check_need(1051, 1001, DIT_TYPE_STORED, one, 1);
    if (all && *all == '1') check_need(6203, 1280, DIT_TYPE_I4_GROUP, NULL, 0);
}

/* --- files --- */

static dit_result open_source(const dit_source *source) {
    diti_lora_file *file = NULL;
    dit_result result = diti_lora_open(&env, source, &file, &err);
    diti_lora_close(file);
    return result;
}

static void refuse(lora_file *file, const char *words) {
    dit_source source = lora_file_source(file);
    dit_result result = open_source(&source);
    CHECK_MESSAGE(result < 0 && strstr(err.message, words), "\"%s\" instead of \"%s\"",
                  result < 0 ? err.message : "success", words);
    lora_file_free(file);
}

static dit_result read_all(lora_file *made) {
    diti_lora_file *file = NULL;
    dit_source source = lora_file_source(made);
    dit_result result = diti_lora_open(&env, &source, &file, &err);
    for (size_t i = 0; result == DIT_OK && i < file->module_count; i++)
        result = diti_lora_read(file, &file->modules[i], &err);
    diti_lora_close(file);
    return result;
}

static void test_broken_files(void) {
    lora_file file = DITI_ZERO;
    dit_source source;
    size_t size;
    const float two[2] = {1, 2}, bad[2] = {1, INFINITY};
    const uint64_t shape[1] = {2};
    lora_file_matrix(&file, "x.lora_A.weight", 4, 8, 1, 1);
    refuse(&file, "x.lora_A.weight: the other half");
    lora_file_matrix(&file, "x.lora_down.weight", 4, 8, 1, 1);
    lora_file_matrix(&file, "x.lora_up.weight", 8, 3, 1, 1);
    refuse(&file, "3 columns and tensor x.lora_down.weight 4 rows");
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    lora_file_number(&file, "transformer.x.alpha", NAN);
    refuse(&file, "transformer.x.alpha: alpha is not finite");
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    lora_file_bytes(&file, "transformer.x.alpha", "F32", shape, 1, two, sizeof two);
    refuse(&file, "alpha is one number");
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    lora_file_matrix(&file, "transformer.x.lora_mid.weight", 4, 3, 1, 1);
    refuse(&file, "transformer.x.lora_mid.weight is no Tucker factor of rank 4");
    lora_file_matrix(&file, "x.lokr_w1", 2, 2, 1, 1);
    lora_file_matrix(&file, "x.lokr_w2", 2, 2, 1, 1);
    lora_file_matrix(&file, "x.lokr_t2", 2, 2, 1, 1);
    refuse(&file, "x.lokr_t2: a Tucker factor of a matrix that is whole");
    lora_file_matrix(&file, "x.lora_mid.weight", 4, 4, 1, 1);
    refuse(&file, "x.lora_mid.weight: the other half");
    lora_file_bytes(&file, "x.lora_B.bias", "F32", shape, 1, two, sizeof two);
    refuse(&file, "x.lora_B.bias: the pair that this bias belongs to is missing");
    lora_file_bytes(&file, "x.lora_B.bias", "F32", shape, 1, two, sizeof two);
    lora_file_bytes(&file, "x.diff_b", "F32", shape, 1, two, sizeof two);
    refuse(&file, "x.diff_b: the same bias has another difference");
    lora_file_pair(&file, "x", 8, 6, 4, 1, 1);
    lora_file_matrix(&file, "transformer.x.dora_scale", 1, 5, 1, 1);
    refuse(&file, "transformer.x.dora_scale has magnitudes that are neither of 8 rows nor of 6 columns");
    lora_file_matrix(&file, "x.dora_scale", 8, 1, 1, 1);
    refuse(&file, "x.dora_scale: a module without any factors");
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    lora_file_matrix(&file, "transformer.x.diff", 8, 8, 1, 1);
    refuse(&file, "more than one kind");
    lora_file_number(&file, "x.diff_b", 1);
    refuse(&file, "x.diff_b: neither a vector nor a matrix");
    lora_file_bytes(&file, "x.norm.diff", "F32", shape, 1, bad, sizeof bad);
    CHECK(read_all(&file) == DIT_ERROR_BAD_FILE && strstr(err.message, "x.norm.diff holds values that are not finite"));
    lora_file_free(&file);
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    lora_file_matrix(&file, "transformer.x.lokr_w1", 2, 2, 1, 1);
    refuse(&file, "more than one kind");
    lora_file_number(&file, "x.alpha", 1);
    refuse(&file, "x.alpha: a module without any factors");
    lora_file_matrix(&file, "x.lokr_w1", 2, 2, 1, 1);
    refuse(&file, "one of LoKr's factors is missing");
    lora_file_matrix(&file, "x.hada_w1_a", 4, 2, 1, 1);
    lora_file_matrix(&file, "x.hada_w1_b", 2, 4, 1, 1);
    lora_file_matrix(&file, "x.hada_w2_a", 5, 2, 1, 1);
    lora_file_matrix(&file, "x.hada_w2_b", 2, 4, 1, 1);
    refuse(&file, "the two products of LoHa differ");
    lora_file_bytes(&file, "x.lora_A.weight", "F32", shape, 1, two, sizeof two);
    lora_file_matrix(&file, "x.lora_B.weight", 4, 2, 1, 1);
    refuse(&file, "x.lora_A.weight: not a matrix");
    lora_file_matrix(&file, "x.weight", 4, 2, 1, 1);
    refuse(&file, "not a LoRA, LoHa or LoKr");
    snprintf(file.metadata, sizeof file.metadata, "\"lora_adapter_metadata\":\"[1]\"");
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    refuse(&file, "lora_adapter_metadata is not an object");
    lora_file_pair(&file, "x", 8, 8, 4, 1, 1);
    source = lora_file_source(&file);
    for (size = source.size; source.size-- > 0 && source.size + 40 > size;)
        CHECK_MESSAGE(open_source(&source) < 0, "a file cut to %llu bytes", (unsigned long long)source.size);
    lora_file_free(&file);
}

/* A module that fits nothing is told; one of another shape, and a file for another model, are refused. */
static void test_modules(void) {
    static const adapter one[] = {{LORA, 4, 2, 1}};
    diti_lora_matches matches = DITI_ZERO;
    diti_lora_scope scope;
    bench b;
    lora_file *file;
    dit_source source;
    if (!bench_begin(&b, 40, 64, one, 1, DIT_TYPE_STORED, false)) return;
    scope.part = DIT_ROLE_TRANSFORMER;
    scope.weights = &b.weights;
    diti_lora_close(b.opened[0]);
    file = &b.files[0];
    lora_file_pair(file, "block.other", 40, 64, 2, 1, 1);
    source = lora_file_source(file);
    CHECK(diti_lora_open(&env, &source, &b.opened[0], &err) == DIT_OK);
    CHECK(diti_lora_match_scopes(b.opened[0], &scope, 1, &matches, &err) == DIT_OK && matches.count == 1);
    CHECK(b.opened[0]->module_count == 2 && b.opened[0]->modules[0].fits && !b.opened[0]->modules[1].fits);
    CHECK(diti_lora_check_fits(b.opened[0], &err) == DIT_OK);
    diti_lora_close(b.opened[0]);
    lora_file_free(file);
    lora_file_pair(file, "block.layer", 40, 60, 2, 1, 1);
    source = lora_file_source(file);
    CHECK(diti_lora_open(&env, &source, &b.opened[0], &err) == DIT_OK);
    CHECK(diti_lora_match_scopes(b.opened[0], &scope, 1, &matches, &err) < 0 && strstr(err.message, "[40, 60]") &&
          strstr(err.message, "[40, 64]"));
    diti_lora_close(b.opened[0]);
    lora_file_free(file);
    lora_file_pair(file, "somewhere.else", 40, 64, 2, 1, 1);
    source = lora_file_source(file);
    CHECK(diti_lora_open(&env, &source, &b.opened[0], &err) == DIT_OK);
    CHECK(diti_lora_match_scopes(b.opened[0], &scope, 1, &matches, &err) == DIT_OK);
    CHECK(diti_lora_check_fits(b.opened[0], &err) < 0 && strstr(err.message, "somewhere.else"));
    diti_free(&env, matches.list);
    bench_end(&b);
}

/* Loads a model of tests/fixtures with a file, as a dry run. */
static dit_result try_file(const char *name, lora_file *file, dit_lora_info *info) {
    dit_component components[2];
    dit_model_desc desc = DITI_ZERO;
    dit_model *model = NULL;
    char path[200];
    dit_result result;
    memset(components, 0, sizeof components);
    memset(info, 0, sizeof *info);
    snprintf(path, sizeof path, "tests/fixtures/%s", name);
    components[0].source.path = path;
    components[0].role = DIT_ROLE_TRANSFORMER;
    components[1].source = lora_file_source(file);
    components[1].role = DIT_ROLE_LORA;
    desc.components = components;
    desc.component_count = 2;
    desc.dry_run = true;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER;
    if (!strchr(name, '/') && diti_starts_with(name, "pipe_")) { /* a whole pipeline */
        desc.source.path = path;
        desc.components = components + 1;
        desc.component_count = 1;
        desc.parts = 0;
    }
    result = dit_model_load(NULL, &desc, &model, &err);
    if (result == DIT_OK) dit_model_lora(model, 0, info);
    dit_model_destroy(model);
    lora_file_free(file);
    return result;
}

/* Names as trainers write them, each alone with a model of its family. */
static void test_trainers(void) {
    static const struct {
        const char *model, *down, *up;
        uint32_t rows, columns;
    } names[] = {
        {"pipe_wan22_i2v_a14b/transformer", "lora_unet__blocks_0_self_attn_q.lora_down.weight",
         "lora_unet__blocks_0_self_attn_q.lora_up.weight", 72, 72}, /* VideoX-Fun */
        {"pipe_cogvideox_5b/transformer", "lora_unet__transformer_blocks_0_attn1_to_q.lora_down.weight",
         "lora_unet__transformer_blocks_0_attn1_to_q.lora_up.weight", 48, 48},
        {"pipe_wan22_i2v_a14b/transformer", "pipe.dit.blocks.0.ffn.2.lora_A.default.weight",
         "pipe.dit.blocks.0.ffn.2.lora_B.default.weight", 72, 144}, /* DiffSynth-Studio */
        {"hunyuanvideo", "Hunyuan_video_I2V_lora_double_blocks_0_img_attn_qkv.lora_down.weight",
         "Hunyuan_video_I2V_lora_double_blocks_0_img_attn_qkv.lora_up.weight", 192, 64},
        {"hunyuanvideo", "diffusion_model.single_blocks.0.modulation.lin.lora_down.weight", /* ComfyUI's names */
         "diffusion_model.single_blocks.0.modulation.lin.lora_up.weight", 192, 64},
        {"pipe_hunyuanvideo15/transformer", "diffusion_model.double_blocks.0.img_attn.qkv.lora_down.weight",
         "diffusion_model.double_blocks.0.img_attn.qkv.lora_up.weight", 96, 32},
        {"pipe_hunyuanvideo15/transformer", "diffusion_model.double_blocks.1.txt_mlp.0.lora_down.weight",
         "diffusion_model.double_blocks.1.txt_mlp.0.lora_up.weight", 128, 32},
        {"pipe_hunyuanvideo15/transformer", "diffusion_model.double_blocks.1.img_mlp.2.lora_A.weight",
         "diffusion_model.double_blocks.1.img_mlp.2.lora_B.weight", 32, 128},
        {"pipe_hunyuanvideo15/transformer", "diffusion_model.double_blocks.0.img_mod.lin.lora_A.weight",
         "diffusion_model.double_blocks.0.img_mod.lin.lora_B.weight", 192, 32},
        {"pipe_hunyuanvideo15/transformer", "diffusion_model.txt_in.c_embedder.in_layer.lora_A.weight",
         "diffusion_model.txt_in.c_embedder.in_layer.lora_B.weight", 32, 48},
        {"pipe_hunyuanvideo15/transformer", "diffusion_model.time_in.out_layer.lora_A.weight",
         "diffusion_model.time_in.out_layer.lora_B.weight", 32, 32},
        {"pipe_boogu/transformer", "transformer.single_stream_layers.0.attn.to_k.lora_A.weight",
         "transformer.single_stream_layers.0.attn.to_k.lora_B.weight", 16, 32},
        {"pipe_boogu/transformer",
         "diffusion_model.double_stream_layers.1.img_instruct_attn.processor.instruct_to_q.lora_down.weight",
         "diffusion_model.double_stream_layers.1.img_instruct_attn.processor.instruct_to_q.lora_up.weight", 32, 32},
        {"pipe_boogu/transformer", "lora_unet_double_stream_layers_0_img_self_attn_to_out_0.lora_down.weight",
         "lora_unet_double_stream_layers_0_img_self_attn_to_out_0.lora_up.weight", 32, 32},
        {"pipe_boogu/transformer", "transformer.double_stream_layers.0.img_norm2.linear.lora_A.weight",
         "transformer.double_stream_layers.0.img_norm2.linear.lora_B.weight", 128, 32}, /* half of it is read */
        {"lumina2", "lora_unet_layers_0_attention_qkv.lora_down.weight",
         "lora_unet_layers_0_attention_qkv.lora_up.weight", 120, 72}, /* sd-scripts */
        {"pipe_ideogram4/transformer", "conditional_transformer.layers.0.attention.qkv.lora_A.weight",
         "conditional_transformer.layers.0.attention.qkv.lora_B.weight", 144, 48}, /* ideogram-oss/ideogram4 */
        {"lumina2", "transformer.layers.0.attn.to_k.lora_A.weight", "transformer.layers.0.attn.to_k.lora_B.weight", 24,
         72},
        {"pipe_anima/transformer", "lora_unet_blocks_0_self_attn_q_proj.lora_down.weight",
         "lora_unet_blocks_0_self_attn_q_proj.lora_up.weight", 72, 72}, /* sd-scripts, and ComfyUI's names */
        {"pipe_anima/transformer", "diffusion_model.blocks.0.mlp.layer1.lora_A.weight",
         "diffusion_model.blocks.0.mlp.layer1.lora_B.weight", 288, 72},
        {"pipe_anima", "lora_unet_llm_adapter_blocks_0_self_attn_q_proj.lora_down.weight",
         "lora_unet_llm_adapter_blocks_0_self_attn_q_proj.lora_up.weight", 48, 48},
        {"pipe_anima", "diffusion_model.llm_adapter.blocks.0.self_attn.q_proj.lora_A.weight",
         "diffusion_model.llm_adapter.blocks.0.self_attn.q_proj.lora_B.weight", 48, 48},
        {"flux_fill/transformer", "transformer.x_embedder.lora_A.weight", "transformer.x_embedder.lora_B.weight", 48,
         64}, /* of the model that reads the latent alone */
        {"wan21_i2v", "diffusion_model.patch_embedding.lora_down.weight",
         "diffusion_model.patch_embedding.lora_up.weight", 72, 64},
        {"pipe_anima/transformer", "net.blocks.0.mlp.layer2.lora_A.weight", "net.blocks.0.mlp.layer2.lora_B.weight", 72,
         288},
        {"sana", "diffusion_model.blocks.0.attn.qkv.lora_A.weight", "diffusion_model.blocks.0.attn.qkv.lora_B.weight",
         192, 64},
        {"pipe_flux/transformer", "double_blocks.0.processor.qkv_lora1.down.weight",
         "double_blocks.0.processor.qkv_lora1.up.weight", 144, 48}, /* XLabs */
        {"pipe_flux/transformer", "double_blocks.0.processor.proj_lora1.down.weight",
         "double_blocks.0.processor.proj_lora1.up.weight", 48, 48},
        {"pipe_flux/transformer", "double_blocks.0.processor.qkv_lora2.down.weight",
         "double_blocks.0.processor.qkv_lora2.up.weight", 144, 48},
        {"pipe_flux/transformer", "double_blocks.0.processor.proj_lora2.down.weight",
         "double_blocks.0.processor.proj_lora2.up.weight", 48, 48},
        {"pipe_flux/transformer", "single_blocks.0.processor.qkv_lora.down.weight",
         "single_blocks.0.processor.qkv_lora.up.weight", 144, 48},
        {"pipe_flux/transformer", "diffusion_model.single_blocks.0.processor.proj_lora.down.weight",
         "diffusion_model.single_blocks.0.processor.proj_lora.up.weight", 48, 240},
    };
    for (size_t i = 0; i < DITI_COUNT(names); i++) {
        lora_file file = DITI_ZERO;
        dit_lora_info info;
        lora_file_matrix(&file, names[i].down, 4, names[i].columns, 1, 1);
        lora_file_matrix(&file, names[i].up, names[i].rows, 4, 1, 1);
        CHECK_MESSAGE(try_file(names[i].model, &file, &info) == DIT_OK && info.modules == 1 && !info.left_out,
                      "%s with %s: %s", names[i].model, names[i].down, err.message);
    }
}

/* An adapter of x_embedder with fewer columns than the model's is about the first of them; of another layer it is for
   another model. */
static void test_widened(void) {
    enum { ROWS = 36, NARROW = 20, WIDE = 48, RANK = 3 };
    static char name[] = "x_embedder", other[] = "context_embedder";
    diti_target target = DITI_ZERO;
    diti_weights weights = DITI_ZERO;
    diti_lora_scope scope = {DIT_ROLE_TRANSFORMER, &weights};
    target.module = name;
    target.weight = name;
    target.names = DITI_NAMES_ALL;
    target.rows = target.all = ROWS;
    target.columns = WIDE;
    weights.targets = &target;
    weights.target_count = 1;
    for (int k = 0; k < 2; k++) {
        lora_file file = DITI_ZERO;
        diti_lora_file *opened = NULL;
        diti_lora_matches matches = DITI_ZERO;
        dit_source source;
        dit_result result;
        lora_file_pair(&file, k ? other : name, ROWS, NARROW, RANK, 0.3, 1);
        source = lora_file_source(&file);
        target.module = k ? other : name;
        CHECK(diti_lora_open(&env, &source, &opened, &err) == DIT_OK);
        result = diti_lora_match_scopes(opened, &scope, 1, &matches, &err);
        if (k) {
            CHECK(result < 0 && strstr(err.message, "is [36, 20], and the model's is [36, 48]"));
        } else if (CHECK_MESSAGE(result == DIT_OK && diti_lora_read(opened, &opened->modules[0], &err) == DIT_OK, "%s",
                                 err.message)) {
            const diti_lora_module *module = &opened->modules[0];
            const float *pair = (const float *)(const void *)file.data.data, *b = pair + RANK * NARROW;
            float down[RANK * WIDE], most[2];
            double off = 0;
            diti_lora_down(module, down);
            diti_lora_bounds(module, &most[0], &most[1]);
            for (uint32_t r = 0; r < RANK * WIDE; r++) {
                float wanted = r % WIDE < NARROW ? pair[r / WIDE * NARROW + r % WIDE] : 0;
                CHECK(down[r] == wanted && fabsf(wanted) <= most[1]);
            }
            for (uint32_t r = 0; r < ROWS; r++) {
                float row[WIDE] = {0};
                diti_lora_add_row(module, r, 1, row);
                for (uint32_t c = 0; c < WIDE; c++) {
                    double wanted = 0;
                    for (uint32_t i = 0; i < RANK && c < NARROW; i++)
                        wanted += (double)b[r * RANK + i] * (double)pair[i * NARROW + c];
                    if (fabs(row[c] - wanted) > off) off = fabs(row[c] - wanted);
                }
            }
            CHECK_MESSAGE(off < 1e-6, "a widened row is off by %.3g", off);
        }
        diti_free(&env, matches.list);
        diti_lora_close(opened);
        lora_file_free(&file);
    }
}

/* Files of Z-Image that have a layer under two names, or in parts and fused besides: it counts once. */
static void test_doubled(void) {
    static const char *const names[][2] = {
        {"lora_unet_layers_0_attention_out", "transformer.layers.0.attention.to_out.0"},
        {"diffusion_model.layers.0.attention.qkv", "layers.0.attention.to.k"},
        {"layers.0.attention.to.v", "diffusion_model.layers.0.attention.qkv"}};
    for (size_t i = 0; i < DITI_COUNT(names); i++) {
        lora_file file = DITI_ZERO;
        dit_lora_info info;
        for (size_t k = 0; k < 2; k++) {
            char name[100];
            snprintf(name, sizeof name, "%s.lora.down.weight", names[i][k]);
            lora_file_matrix(&file, name, 4, 96, 1, 1);
            snprintf(name, sizeof name, "%s.lora.up.weight", names[i][k]);
            lora_file_matrix(&file, name, strstr(name, "qkv") ? 288 : 96, 4, 1, 1);
        }
        CHECK_MESSAGE(try_file("pipe_zimage/transformer", &file, &info) == DIT_OK && info.modules == 1 &&
                          info.left_out == 1 && strstr(names[i][1], info.first_left_out),
                      "%s and %s: %u modules, %u left out (%s)", names[i][0], names[i][1], info.modules, info.left_out,
                      info.first_left_out);
    }
}

static void check_defaults(const char *name, uint32_t steps, float guidance) {
    dit_source source;
    lora_file bytes = DITI_ZERO;
    diti_lora_file *file;
    uint32_t told;
    float scale;
    lora_file_pair(&bytes, "x", 8, 8, 4, 1, 1);
    if (name[0] == '{') snprintf(bytes.metadata, sizeof bytes.metadata, "%s", name + 1);
    source = lora_file_source(&bytes);
    if (CHECK_MESSAGE(diti_lora_open(&env, &source, &file, &err) == DIT_OK, "%s", err.message)) {
        char *kept = NULL;
        diti_checkpoint *checkpoint = file->checkpoint;
        (void)kept;
        if (name[0] != '{') {
            diti_file *first = checkpoint->files[0];
            dit_source empty = {0};
            diti_file *named = NULL;
            empty.data = bytes.whole.data;
            empty.size = bytes.whole.size;
            CHECK(diti_file_open(&env, &empty, name, &named, &err) == DIT_OK);
            checkpoint->files[0] = named;
            diti_file_close(first);
        }
        diti_lora_defaults(file, &told, &scale);
        CHECK_MESSAGE(told == steps && scale == guidance, "%s: %u steps, guidance %g", name, told, scale);
    }
    diti_lora_close(file);
    lora_file_free(&bytes);
}

static void test_defaults(void) {
    check_defaults("loras/Qwen-Image-Lightning-8steps-V1.1.safetensors", 8, 1);
    check_defaults("pytorch_lora_4_step.safetensors", 4, 1);
    check_defaults("Hyper-SD3-8steps-CFG-lora.safetensors", 8, 0);
    check_defaults("style-step2000.safetensors", 0, 0);
    check_defaults("8steps/style.safetensors", 0, 0);
    check_defaults("Wan21_T2V_14B_lightx2v_cfg_step_distill_lora_rank32.safetensors", 4, 1);
    check_defaults("cfg_step_distill/8steps.safetensors", 8, 1);
    check_defaults("cfg_step_distill/style.safetensors", 0, 0);
    check_defaults("{\"dit.steps\":\"6\",\"dit.guidance\":\"2.5\"", 6, 2.5f);
}

static bool open_device(const char *rung) {
    dit_context_desc desc = DITI_ZERO;
    desc.overrides = rung;
    return diti_device_open(&desc, &env, &device, &err) == DIT_OK;
}

int main(void) {
    static const char *const rungs[] = {"rung=base", "rung=fp16"};
    test_vulkan_begin();
    env = test_env(NULL);
    test_broken_files();
    test_trainers();
    test_doubled();
    test_widened();
    test_defaults();
    for (size_t i = 0; i < DITI_COUNT(rungs); i++) {
        if (!open_device(rungs[i])) {
            CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s", err.message);
            continue;
        }
        printf("%s on %s\n", rungs[i], diti_rung_name(device->rung));
        test_products();
        test_wide();
        test_factors();
        test_dora();
        test_int8();
        if (!i) test_modules();
        if (!i) test_need();
        diti_device_close(device);
    }
    test_vulkan_end();
    return TEST_END("lora");
}
