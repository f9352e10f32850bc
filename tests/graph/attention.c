/* Attention on cooperative matrices, in F16 and by integer dot products, against a reference in double precision: heads
   that do not fit the matrices, odd lengths, items of unequal length, nothing to attend to, scores to 1e4 and values of
   6e4, parts that are merged, slices, and int8 queries and keys. Each driver does what it can. By hand:
   build/tests/attention PART... runs the parts of those names, which DIT_TEST_ALL=1 tells as they end.
   test-compiler: quick   test-runs: lavapipe, in test-all swiftshader newest races */
#include "library.h"
#include "model/pixart.c"
#include "vk/pipeline.c"
#include "vulkan_test.h"
#include "plain.h"

static diti_env env;
static bool sweep; /* DIT_TEST_ALL=1 */

typedef struct problem {
    uint32_t head_dim, heads, batch, queries, keys;
    float size, common, values; /* the size of queries and keys, of the part that all keys share, of values */
    const uint32_t (*items)[4]; /* batch rows, or NULL; packed where queries is 0 */
    uint32_t query_rows, key_rows;
    bool int8, f32; /* f32: the output */
    uint32_t max_us, row_step;
    uint32_t kv_heads; /* 0: heads */
} problem;

static uint32_t kv_width(const problem *p) { return (p->kv_heads ? p->kv_heads : p->heads) * p->head_dim; }

typedef struct answer {
    float *out, *lse;
    size_t count, rows;
    uint32_t groups; /* workgroups of the kernel */
} answer;

static uint64_t random_state;
static float *random_halves(size_t count, float size) {
    float *v = malloc((count + 1) * sizeof *v);
    for (size_t i = 0; i < count; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        v[i] = size * ((float)(uint32_t)(random_state >> 32) * (2.0f / 4294967296.0f) - 1.0f);
        v[i] = diti_half_to_float(diti_float_to_half(v[i]));
    }
    return v;
}

static void write_halves(diti_plan *plan, diti_tensor tensor, const float *values, size_t count) {
    uint16_t *halves = malloc((count + 1) * sizeof *halves);
    dit_error err = {0};
    for (size_t i = 0; i < count; i++) halves[i] = diti_float_to_half(values[i]);
    CHECK_MESSAGE(diti_plan_write(plan, tensor, halves, count * 2, &err) >= 0, "%s", err.message);
    free(halves);
}

static void read_floats(diti_plan *plan, diti_tensor tensor, float *out, size_t count) {
    bool half = plan->tensors[tensor].format == DITI_F16;
    uint16_t *halves = malloc((count + 1) * sizeof *halves);
    dit_error err = {0};
    CHECK_MESSAGE(diti_plan_read(plan, tensor, half ? (void *)halves : (void *)out, count * (half ? 2 : 4), &err) >= 0,
                  "%s", err.message);
    for (size_t i = 0; half && i < count; i++) out[i] = diti_half_to_float(halves[i]);
    free(halves);
}

static void describe(const problem *p, char *text, size_t size) {
    snprintf(text, size, "%u heads of %u, %u items, %u queries, %u keys, size %g, values %g%s%s%s%s", p->heads,
             p->head_dim, p->batch, p->queries, p->keys, (double)p->size, (double)p->values, p->items ? ", items" : "",
             p->int8 ? ", int8" : "", p->f32 ? ", out F32" : "",
             p->row_step   ? ", interleaved"
             : p->kv_heads ? ", shared keys"
                           : "");
}

static const char *plain_modules; /* a folder, or NULL: the embedded modules */

/* module: what must have been chosen. */
static answer solve(diti_device *device, const problem *p, const float *q, const float *k, const float *v,
                    const char *module) {
    uint32_t width = p->heads * p->head_dim;
    answer a = {NULL, NULL, (size_t)p->query_rows * width, (size_t)p->query_rows * p->heads, 0};
    diti_attention_desc desc = {0};
    diti_tensor inputs[3], out, items = 0;
    diti_graph graph;
    diti_plan *plan = NULL;
    dit_error err = {0};
    bool used = false;
    diti_graph_init(&graph, device);
    if (p->f32) graph.activation = DITI_F32;
    diti_graph_segment(&graph, "test", false);
    inputs[0] = diti_tensor_input(&graph, DITI_F16, p->query_rows, width, "q");
    inputs[1] = diti_tensor_input(&graph, DITI_F16, p->key_rows, kv_width(p), "k");
    inputs[2] = diti_tensor_input(&graph, DITI_F16, p->key_rows, kv_width(p), "v");
    if (p->items) items = diti_tensor_input(&graph, DITI_U32, p->batch, DITI_ITEM_WORDS, "items");
    desc.batch = p->batch;
    desc.heads = p->heads;
    desc.kv_heads = p->kv_heads;
    desc.head_dim = p->head_dim;
    desc.scale = 1 / sqrtf((float)p->head_dim);
    desc.items = items;
    desc.packed = p->items && !p->queries;
    desc.key_limit = p->items ? p->key_rows : 0;
    desc.int8 = p->int8;
    desc.row_step = p->row_step;
    desc.lse = diti_tensor_new(&graph, DITI_F32, p->query_rows, p->heads, "lse");
    out = diti_attention(&graph, inputs[0], inputs[1], inputs[2], &desc);
    for (size_t i = 0; i < graph.dispatch_count; i++) {
        if (strcmp(diti_kernel_name(graph.dispatches[i].kernel), module)) continue;
        used = true;
        a.groups = graph.dispatches[i].groups;
    }
    CHECK_MESSAGE(used, "head_dim %u did not choose %s", p->head_dim, module);
    a.out = calloc(a.count + 1, sizeof(float));
    a.lse = calloc(a.rows + 1, sizeof(float));
    device->max_slice_us = p->max_us ? p->max_us : 50000;
    if (plain_modules) plain_insert(device, plain_modules, &graph);
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) >= 0, "%s", err.message)) {
        CHECK(!p->max_us || plan->dispatch_count > graph.dispatch_count);
        write_halves(plan, inputs[0], q, a.count);
        write_halves(plan, inputs[1], k, (size_t)p->key_rows * kv_width(p));
        write_halves(plan, inputs[2], v, (size_t)p->key_rows * kv_width(p));
        if (items)
            CHECK(diti_plan_write(plan, items, p->items, p->batch * DITI_ITEM_WORDS * sizeof(uint32_t), &err) >= 0);
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) >= 0, "%s", err.message);
        read_floats(plan, out, a.out, a.count);
        read_floats(plan, desc.lse, a.lse, a.rows);
    }
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
    return a;
}

static void answer_free(answer *a) { free(a->out), free(a->lse); }

/* Output row (query, head) in double precision; returns its LSE. */
static double exact_row(const problem *p, const float *q, const float *k, const float *v, uint32_t query, uint32_t head,
                        uint32_t first, uint32_t count, double *out) {
    uint32_t width = p->heads * p->head_dim, at = head * p->head_dim, shared = kv_width(p);
    uint32_t kv = p->kv_heads ? head / (p->heads / p->kv_heads) * p->head_dim : at;
    double *w = malloc((count + 1) * sizeof *w), top = -1e300, sum = 0, scale = 1 / sqrt((double)p->head_dim);
    uint32_t step = p->row_step ? p->row_step : 1;
    for (uint32_t j = 0; j < count; j++) {
        w[j] = 0;
        for (uint32_t d = 0; d < p->head_dim; d++)
            w[j] += scale * q[(size_t)query * width + at + d] * (double)k[(size_t)(first + j * step) * shared + kv + d];
        if (w[j] > top) top = w[j];
    }
    for (uint32_t j = 0; j < count; j++) sum += w[j] = exp(w[j] - top);
    for (uint32_t d = 0; d < p->head_dim; d++) {
        out[d] = 0;
        for (uint32_t j = 0; j < count; j++) out[d] += w[j] / sum * v[(size_t)(first + j * step) * shared + kv + d];
    }
    free(w);
    return count ? top + log(sum) : -3e38;
}

typedef struct errors {
    double out, lse; /* largest; of lse: relative to 1 + |lse| */
    double dot, got, wanted;
} errors;

static void compare_row(const problem *p, const answer *a, uint32_t query, uint32_t head, const double *wanted,
                        double lse, errors *e) {
    const float *got = a->out + ((size_t)query * p->heads + head) * p->head_dim;
    double l = a->lse[(size_t)query * p->heads + head];
    for (uint32_t d = 0; d < p->head_dim; d++) {
        double error = fabs(got[d] - wanted[d]);
        if (!(error <= e->out)) e->out = error; /* NaN stays */
        e->dot += got[d] * wanted[d];
        e->got += (double)got[d] * got[d];
        e->wanted += wanted[d] * wanted[d];
    }
    l = lse < -1e38 ? (l < -1e38 ? 0 : 1) : fabs(l - lse) / (1 + fabs(lse));
    if (!(l <= e->lse)) e->lse = l;
}

static errors compare(const problem *p, const answer *a, const float *q, const float *k, const float *v) {
    double *wanted = malloc(p->head_dim * sizeof *wanted);
    errors e = {0, 0, 0, 0, 0};
    for (uint32_t b = 0; b < p->batch; b++) {
        uint32_t rows = p->queries ? p->queries : p->items[b][1], first = p->queries ? b * p->queries : p->items[b][0];
        uint32_t key = p->items ? p->items[b][2] : b * p->keys, keys = p->items ? p->items[b][3] : p->keys;
        uint32_t step = p->row_step ? p->row_step : 1;
        if (p->row_step) first = b / step * step * rows + b % step, key = b / step * step * keys + b % step;
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t h = 0; h < p->heads; h++) {
                double lse = exact_row(p, q, k, v, first + i * step, h, key, keys, wanted);
                compare_row(p, a, first + i * step, h, wanted, lse, &e);
            }
    }
    free(wanted);
    return e;
}

static void fill(const problem *p, float **q, float **k, float **v) {
    size_t width = (size_t)p->heads * p->head_dim, keys = p->key_rows * (size_t)kv_width(p);
    random_state = 1;
    *q = random_halves(p->query_rows * width, p->size);
    *k = random_halves(keys, p->size);
    *v = random_halves(keys, p->values);
    for (size_t i = 0; i < keys && p->common > 0; i++)
        (*k)[i] = diti_half_to_float(diti_float_to_half((*k)[i] + p->common * sinf((float)(i % width))));
}

static void check(diti_device *device, problem p, const char *module) {
    double tolerance = 1.5e-3; /* of the largest value: weights and output are halves (2^-11 each, errors of weights
                                  average out) */
    float *q, *k, *v;
    char what[200];
    answer a;
    errors e;
    double lse_tolerance = 2e-6;
    if (p.size > 20) tolerance += 4e-3; /* scores of 1e4 are off by 1e-3 in float */
    if (!strcmp(module,
                "attention_half")) { /* F16 sums of scores to 16 (larger ones are F32) are off by 2^-12 of that */
        tolerance += p.size > 2 ? 4e-3 : 2e-3;
        lse_tolerance = 4e-3;
    }
    if (!p.query_rows) p.query_rows = p.batch * p.queries;
    if (!p.key_rows) p.key_rows = p.batch * p.keys;
    fill(&p, &q, &k, &v);
    a = solve(device, &p, q, k, v, module);
    e = compare(&p, &a, q, k, v);
    describe(&p, what, sizeof what);
    if (p.int8) { /* eight bits of the largest of a head; all keys share more than that */
        CHECK_MESSAGE(e.dot >= 0.9998 * sqrt(e.got * e.wanted), "%s: cosine %g", what, e.dot / sqrt(e.got * e.wanted));
        CHECK_MESSAGE(e.lse <= 2e-3, "%s: LSE off by %g", what, e.lse);
    } else {
        CHECK_MESSAGE(e.out <= tolerance * p.values, "%s: off by %g", what, e.out);
        CHECK_MESSAGE(e.lse <= lse_tolerance, "%s: LSE off by %g", what, e.lse);
    }
    answer_free(&a);
    free(q), free(k), free(v);
}

static void test_shapes(diti_device *device, const char *module) {
    static const uint32_t dims[] = {16, 72, 64, 80, 88, 96, 128}, lengths[] = {1, 15, 16, 17, 77, 300};
    static const uint32_t items[4][4] = {{0, 9, 0, 30}, {9, 9, 30, 0}, {18, 9, 7, 1}, {27, 9, 0, 77}};
    static const uint32_t packed[4][4] = {{30, 7, 0, 30}, {0, 9, 30, 0}, {9, 1, 7, 1}, {10, 20, 0, 77}};
    for (int i = 0; i < (sweep ? 7 : 2); i++)
        check(device,
              (problem){.head_dim = dims[i], .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1},
              module);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            if (sweep || (i + 5 * j) % 7 == 0)
                check(device,
                      (problem){.head_dim = 16,
                                .heads = 2,
                                .batch = 1,
                                .queries = lengths[i],
                                .keys = lengths[j],
                                .size = 2,
                                .values = 1},
                      module);
    check(device,
          (problem){.head_dim = 16, .heads = 2, .batch = 1, .queries = 17, .keys = 300, .size = 200, .values = 1},
          module);
    check(device,
          (problem){.head_dim = 16, .heads = 1, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 6e4f},
          module);
    check(device,
          (problem){.head_dim = 16,
                    .heads = 2,
                    .batch = 4,
                    .queries = 9,
                    .items = items,
                    .key_rows = 77,
                    .size = 2,
                    .values = 1},
          module);
    check(device,
          (problem){
              .head_dim = 16, .heads = 2, .batch = 6, .queries = 17, .keys = 19, .size = 2, .values = 1, .row_step = 3},
          module);
    check(device,
          (problem){
              .head_dim = 16, .heads = 6, .batch = 2, .queries = 17, .keys = 77, .size = 2, .values = 1, .kv_heads = 2},
          module);
    if (!sweep) return;
    check(device,
          (problem){.head_dim = 72,
                    .heads = 2,
                    .batch = 4,
                    .items = packed,
                    .query_rows = 37,
                    .key_rows = 77,
                    .size = 2,
                    .values = 1},
          module);
    check(device,
          (problem){
              .head_dim = 72, .heads = 2, .batch = 2, .queries = 17, .keys = 77, .size = 2, .values = 1, .f32 = true},
          module);
}

/* Keys in parts, merged by their LSE, are all keys at once. */
static void test_merge(diti_device *device, uint32_t parts, double tolerance, const char *module) {
    uint32_t items[1][4] = {{0, 17, 0, 100}};
    problem p = {.head_dim = 16,
                 .heads = 2,
                 .batch = 1,
                 .queries = 17,
                 .items = items,
                 .query_rows = 17,
                 .key_rows = 100,
                 .size = 2,
                 .values = 1,
                 .f32 = true};
    float *q, *k, *v;
    double *sums, *tops, *weights, worst = 0, worst_lse = 0;
    answer whole;
    fill(&p, &q, &k, &v);
    whole = solve(device, &p, q, k, v, module);
    sums = calloc(whole.count, sizeof *sums), tops = calloc(whole.rows, sizeof *tops);
    weights = calloc(whole.rows, sizeof *weights);
    for (uint32_t part = 0; part < parts; part++) {
        answer a;
        items[0][2] = part * 100 / parts;
        items[0][3] = (part + 1) * 100 / parts - items[0][2];
        a = solve(device, &p, q, k, v, module);
        for (size_t r = 0; r < a.rows; r++) {
            double top = part && tops[r] > a.lse[r] ? tops[r] : a.lse[r];
            double keep = part ? exp(tops[r] - top) : 0, add = exp(a.lse[r] - top);
            for (uint32_t d = 0; d < p.head_dim; d++)
                sums[r * p.head_dim + d] = sums[r * p.head_dim + d] * keep + add * a.out[r * p.head_dim + d];
            weights[r] = weights[r] * keep + add;
            tops[r] = top;
        }
        answer_free(&a);
    }
    for (size_t i = 0; i < whole.count; i++) {
        double error = fabs(sums[i] / weights[i / p.head_dim] - whole.out[i]);
        if (!(error <= worst)) worst = error;
    }
    for (size_t r = 0; r < whole.rows; r++) {
        double error = fabs(tops[r] + log(weights[r]) - whole.lse[r]);
        if (!(error <= worst_lse)) worst_lse = error;
    }
    CHECK_MESSAGE(worst <= tolerance, "%u parts: output off by %g", parts, worst);
    CHECK_MESSAGE(worst_lse <= 1e-5, "%u parts: LSE off by %g", parts, worst_lse);
    answer_free(&whole);
    free(q), free(k), free(v), free(sums), free(tops), free(weights);
}

static void test_slices(diti_device *device, const char *module) {
    problem p = {.head_dim = 16,
                 .heads = 2,
                 .batch = 2,
                 .queries = 60,
                 .keys = 77,
                 .query_rows = 120,
                 .key_rows = 154,
                 .size = 2,
                 .values = 1};
    float *q, *k, *v;
    answer whole, sliced;
    uint32_t most = device->limits.group_count;
    fill(&p, &q, &k, &v);
    whole = solve(device, &p, q, k, v, module);
    p.max_us = 1;
    device->limits.group_count = 3; /* less than what fills a GPU is not cut for the time alone */
    sliced = solve(device, &p, q, k, v, module);
    device->limits.group_count = most;
    CHECK_MESSAGE(!memcmp(whole.out, sliced.out, whole.count * sizeof(float)) &&
                      !memcmp(whole.lse, sliced.lse, whole.rows * sizeof(float)),
                  "%s: slices give other bytes", module);
    answer_free(&whole), answer_free(&sliced);
    free(q), free(k), free(v);
}

static void test_int8(diti_device *device, const char *module) {
    static const uint32_t items[2][4] = {{0, 9, 30, 0}, {9, 9, 0, 30}};
    check(device,
          (problem){.head_dim = 24,
                    .heads = 2,
                    .batch = 1,
                    .queries = 17,
                    .keys = 300,
                    .size = 1,
                    .common = 4,
                    .values = 1,
                    .int8 = true},
          module);
    if (!sweep) return;
    check(device,
          (problem){.head_dim = 72,
                    .heads = 2,
                    .batch = 2,
                    .queries = 17,
                    .keys = 77,
                    .size = 1,
                    .common = 4,
                    .values = 1,
                    .int8 = true},
          module);
    check(device,
          (problem){.head_dim = 64,
                    .heads = 2,
                    .batch = 2,
                    .queries = 9,
                    .items = items,
                    .key_rows = 30,
                    .size = 1,
                    .common = 4,
                    .values = 1,
                    .int8 = true},
          module);
    check(device,
          (problem){.head_dim = 128,
                    .heads = 1,
                    .batch = 1,
                    .queries = 17,
                    .keys = 77,
                    .size = 1,
                    .common = 4,
                    .values = 1,
                    .int8 = true},
          module);
}

/* --- queries and keys of a real model --- */

enum { REAL_TOKENS = 2 * 64, REAL_TAPS = 4 }; /* both halves of a guided run; first and middle block, two steps */
typedef struct taps {
    uint32_t heads, head_dim, count;
    float *qkv[REAL_TAPS];
} taps;

/* The tensor that the only dispatch of that slice writes, where its name is "qkv". */
static diti_tensor written_qkv(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    const diti_plan_slice *s = &plan->slices[plan->segments[segment].first + slice];
    const diti_dispatch *d = &plan->sources[plan->dispatches[s->first + s->count - 1].source];
    if (strcmp(d->name, "qkv")) return 0;
    for (uint32_t i = 0; i < d->binding_count; i++)
        if (d->bindings[i].tensor && d->bindings[i].writes) return d->bindings[i].tensor;
    return 0;
}

/* One step, command buffer by command buffer, which are of one dispatch each; the last piece of a product tells that it
   is whole. */
static void tap_step(dit_job *job, uint32_t middle, taps *out) {
    uint32_t block = 0, segment = job->shares[0]->program.step_segment,
             slices = diti_plan_slice_count(job->shares[0]->program.plan, segment);
    dit_error err = {0};
    uint64_t value;
    for (uint32_t i = 0; i < slices; i++) {
        diti_tensor qkv = written_qkv(job->shares[0]->program.plan, segment, i),
                    next = i + 1 < slices ? written_qkv(job->shares[0]->program.plan, segment, i + 1) : 0;
        if (!CHECK_MESSAGE(diti_plan_submit(job->shares[0]->program.plan, segment, i, &value, &err) >= 0, "%s",
                           err.message))
            return;
        diti_plan_wait(job->shares[0]->program.plan);
        if (!qkv || next) continue;
        if ((block == 0 || block == middle) && out->count < REAL_TAPS) {
            const diti_tensor_info *info = &job->shares[0]->program.plan->tensors[qkv];
            size_t count = (size_t)info->rows * info->columns;
            CHECK(info->rows == REAL_TOKENS && info->columns == 3 * out->heads * out->head_dim);
            out->qkv[out->count] = calloc(count, sizeof(float));
            read_floats(job->shares[0]->program.plan, qkv, out->qkv[out->count++], count);
        }
        block++;
    }
    CHECK(block > middle);
}

static void tap_model(taps *out) {
    dit_context_desc context_desc = {0};
    dit_model_desc model_desc = {0};
    dit_job_desc job_desc = {0};
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = {0};
    context_desc.overrides = "rung=base";
    context_desc.max_slice_us = 1;
    model_desc.source.path = "models/emoji-q8_0.gguf";
    job_desc.prompt = "red apple on a white background";
    job_desc.seed = 7;
    job_desc.steps = 2;
    job_desc.guidance.scale = 3;
    if (CHECK_MESSAGE(dit_context_create(&context_desc, &context, &err) == DIT_OK, "%s", err.message) &&
        CHECK_MESSAGE(dit_model_load(context, &model_desc, &model, &err) == DIT_OK, "%s", err.message)) {
        const diti_pixart *pixart = diti_pixart_of(model->transformer);
        job_desc.model = model;
        out->heads = pixart->config.heads;
        out->head_dim = pixart->config.head_dim;
        if (CHECK_MESSAGE(dit_job_create(context, &job_desc, &job, &err) == DIT_OK, "%s", err.message)) {
            for (uint32_t i = 0; i < job->shares[0]->program.step_segment; i++)
                CHECK_MESSAGE(diti_plan_run(job->shares[0]->program.plan, i, 1, &err) >= 0, "%s", err.message);
            tap_step(job, pixart->config.blocks / 2, out);
            tap_step(job, pixart->config.blocks / 2, out);
        }
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* int8 against double precision, on what the bundled model multiplies. */
static void test_real(diti_device *device, const char *module) {
    taps t = {0};
    tap_model(&t);
    CHECK(t.count == REAL_TAPS);
    for (uint32_t i = 0; i < t.count; i++) {
        problem p = {.head_dim = t.head_dim,
                     .heads = t.heads,
                     .batch = 2,
                     .queries = REAL_TOKENS / 2,
                     .keys = REAL_TOKENS / 2,
                     .query_rows = REAL_TOKENS,
                     .key_rows = REAL_TOKENS,
                     .values = 1,
                     .int8 = true};
        size_t width = (size_t)p.heads * p.head_dim, count = REAL_TOKENS * width;
        float *parts[3];
        answer a;
        errors e;
        for (int j = 0; j < 3; j++) {
            parts[j] = malloc(count * sizeof(float));
            for (size_t n = 0; n < count; n++)
                parts[j][n] = t.qkv[i][n / width * 3 * width + (size_t)j * width + n % width];
        }
        a = solve(device, &p, parts[0], parts[1], parts[2], module);
        e = compare(&p, &a, parts[0], parts[1], parts[2]);
        printf("  int8 attention of the bundled model, %s block, step %u: cosine %.7f\n", i % 2 ? "middle" : "first",
               i / 2, e.dot / sqrt(e.got * e.wanted));
        CHECK_MESSAGE(e.dot >= 0.9995 * sqrt(e.got * e.wanted), "block %u, step %u: cosine %g", i % 2, i / 2,
                      e.dot / sqrt(e.got * e.wanted));
        answer_free(&a);
        for (int j = 0; j < 3; j++) free(parts[j]);
        free(t.qkv[i]);
    }
}

static void test_large(diti_device *device, const char *module) {
    problem p = {.head_dim = 16, .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1};
    check(device, p, module);
    p.queries = 613; /* long sequences have tiles of their own */
    p.keys = 131;
    check(device, p, module);
    p.head_dim = 88;
    check(device, p, module);
    p.head_dim = 24;
    p.int8 = true;
    p.common = 4;
    p.size = 1;
    if (diti_attention_int8_head(device, p.head_dim)) check(device, p, "attention_coop");
}

/* A kernel that fails its self-test is replaced by the next one, and the device's description says so. */
static void test_vector_descent(void) {
    static const char *const fails[] = {"none", "half_attention", "dot_attention"};
    for (uint32_t i = 0; i < 3; i++) {
        dit_context_desc desc = {0};
        dit_context *context = NULL;
        dit_error err = {0};
        char overrides[80];
        snprintf(overrides, sizeof overrides, "rung=half,dot=1,selftest_fail=%s", fails[i]);
        desc.overrides = overrides;
        if (dit_context_create(&desc, &context, &err) < 0) {
            CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s", err.message);
            return;
        }
        CHECK(context->device->half_attention == (i != 1));
        CHECK((strstr(context->device->info.rung, "no half_attention") != NULL) == (i == 1));
        CHECK(context->device->dot_attention == (i != 2 && context->device->dot));
        CHECK((diti_attention_int8_head(context->device, 64) > 0) == context->device->dot_attention);
        dit_context_destroy(context);
        desc.devices = "0,0"; /* the second one takes over what the first one has proved */
        if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) continue;
        CHECK(context->devices[1]->half_attention == (i != 1));
        CHECK(context->devices[1]->dot_attention == (i != 2 && context->devices[1]->dot));
        dit_context_destroy(context);
    }
}

/* Attention that fails its self-test is left out, step by step. */
static void test_descent(void) {
    static const char *const fails[] = {"none", "coop2_attention", "coop_attention_i8"};
    for (uint32_t i = 0; i < 3; i++) {
        dit_context_desc desc = {0};
        dit_context *context = NULL;
        dit_error err = {0};
        char overrides[80];
        snprintf(overrides, sizeof overrides, "rung=coop2,selftest_fail=%s", fails[i]);
        desc.overrides = overrides;
        if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) continue;
        CHECK_MESSAGE(context->device->coop_attention == (i == 1 ? 1u : 2u), "%s: %u", fails[i],
                      context->device->coop_attention);
        CHECK(context->device->coop_attention_i8 == (i != 2));
        CHECK((diti_attention_int8_head(context->device, 64) > 0) == (i != 2));
        dit_context_destroy(context);
    }
}

/* Whether heads of so many channels have the kernel on matrices of VK_KHR_cooperative_matrix. */
static bool has_khr(const diti_device *device, uint32_t head_dim) {
    diti_attention_tiles tiles;
    return CHECK_MESSAGE(diti_attention_tiles_matrix(device, head_dim, 256, 256, false, 0, &tiles), "%u", head_dim) &&
           tiles.kernel != DITI_KERNEL_ATTENTION_COOP2;
}

/* The device measures once which of both kinds of matrices is faster, for narrow heads and for wide ones; the cache
   blob keeps the answers. */
static void test_faster(void) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    diti_device *device;
    uint64_t submits;
    desc.overrides = "rung=coop2,cpu=0,selftest=skip";
    if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) return;
    device = context->device;
    CHECK(device->coop_attention == 2 && device->coop_attention_khr);
    CHECK_MESSAGE(diti_device_choose_attention(device, &err) == DIT_OK, "%s", err.message);
    submits = device->submits;
    CHECK(submits > 0 && device->tuned_count == 2);
    for (uint32_t i = 0; i < 2; i++) CHECK(device->tuned[i].choice + device->khr_is_faster[i] == 1);
    for (uint32_t kept = 0; kept < 9; kept++) { /* 2 is no answer */
        const bool narrow = kept % 3 != 1, wide = kept / 3 != 1;
        device->tuned[0].choice = kept % 3;
        device->tuned[1].choice = kept / 3;
        device->khr_is_faster[0] = device->khr_is_faster[1] = false;
        CHECK(diti_device_choose_attention(device, &err) == DIT_OK && device->submits == submits);
        CHECK(has_khr(device, 64) == narrow && has_khr(device, 80) == narrow);
        CHECK(has_khr(device, 88) == wide && has_khr(device, 256) == wide);
    }
    device->coop_attention_khr = false; /* what is left does not depend on what was faster */
    CHECK(!has_khr(device, 64) && !has_khr(device, 256));
    device->coop_attention_khr = true;
    device->is_cpu = true; /* a software driver's choice is the rung's */
    device->khr_is_faster[0] = device->khr_is_faster[1] = false;
    CHECK(diti_device_choose_attention(device, &err) == DIT_OK && !has_khr(device, 64) && !has_khr(device, 256));
    dit_context_destroy(context);
}

/* A kernel that does not compile while it is measured leaves the device without its class, and with what the others
   are. No answer is kept then, but that classes are bad. */
static void test_left_while_measured(void) {
    static const struct {
        const char *fails;
        dit_result (*choose)(diti_device *device, dit_error *err);
        diti_rung rung;
        uint32_t attention, bad; /* coop_attention, and classes */
    } cases[] = {{"attention_coop", diti_device_choose_attention, DITI_RUNG_COOP2, 2, 1},
                 {"attention_coop2", diti_device_choose_attention, DITI_RUNG_COOP2, 1, 1},
                 {"gemm_coop", diti_device_choose_matrices, DITI_RUNG_HALF, 0, 2}};
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        dit_context_desc desc = {0};
        dit_context *context = NULL;
        dit_error err = {0};
        diti_device *device;
        desc.overrides = "rung=coop2,cpu=0,selftest=skip";
        if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) return;
        device = context->device;
        device->doubts_matrices = true;
        snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s", cases[i].fails);
        CHECK_MESSAGE(cases[i].choose(device, &err) == DIT_OK, "%s", err.message);
        CHECK_MESSAGE(device->rung == cases[i].rung && device->coop_attention == cases[i].attention &&
                          device->tuned_count == cases[i].bad,
                      "%s: rung %s, attention %u, %u answers", device->fail_pipeline, diti_rung_name(device->rung),
                      device->coop_attention, (unsigned)device->tuned_count);
        dit_context_destroy(context);
    }
}

/* Matrices that may be slow are used only if a product on them took less time; the cache blob keeps that answer, too.
 */
static void test_doubted(void) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    diti_device *device;
    uint64_t submits;
    uint32_t chosen, kept;
    desc.overrides = "rung=coop,selftest=skip";
    if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) return;
    device = context->device;
    submits = device->submits;
    CHECK(diti_device_choose_matrices(device, &err) == DIT_OK); /* nobody doubts */
    CHECK(device->rung == DITI_RUNG_COOP && device->submits == submits && !device->tuned_count);
    device->doubts_matrices = true;
    CHECK_MESSAGE(diti_device_choose_matrices(device, &err) == DIT_OK, "%s", err.message);
    submits = device->submits;
    chosen = device->rung == DITI_RUNG_COOP;
    CHECK(submits > 0 && device->tuned_count == 1 && device->tuned[0].choice == chosen);
    dit_context_destroy(context);
    for (kept = 0; kept < 2; kept++) {
        CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
        device = context->device;
        device->doubts_matrices = true;
        CHECK(diti_device_choose_matrices(device, &err) == DIT_OK && device->tuned_count == 1);
        device->tuned[0].choice = kept;
        device->rung = DITI_RUNG_COOP;
        submits = device->submits;
        CHECK(diti_device_choose_matrices(device, &err) == DIT_OK && device->submits == submits);
        CHECK_MESSAGE(device->rung == (kept ? DITI_RUNG_COOP : DITI_RUNG_HALF), "%s", diti_rung_name(device->rung));
        CHECK(kept || (!device->coop_convolutions && !device->coop_i8 && !device->coop_attention));
        dit_context_destroy(context);
    }
}

static diti_device *open_rung(const char *overrides) {
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    if (diti_device_open(&desc, &env, &device, &err) < 0)
        CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s", err.message);
    return device;
}

static const diti_coop_shape small_shape = {8, 8, 8}, nvidia_shape = {16, 16, 16}, xe2_shape = {8, 16, 16},
                             arc_shape = {8, 8, 16};
static float found[2 * 16 * 16 + 2]; /* sums, operand, elements of a thread */

/* Matrices of 8 x 8 over 8 threads: thread and element are row and column; columns: the other way round. */
static void spread(bool columns) {
    for (uint32_t i = 0; i < 2 * 64; i++) found[i] = (float)(columns ? i % 8 * 8 + i / 8 % 8 : i % 64);
    found[128] = found[129] = 8;
}

/* As Intel's matrices lie: a thread has a column of sums, and pairs of an operand's neighbours below each other. */
static void spread_columns(const diti_coop_shape *s) {
    float *operand = found + s->m * s->n, *held = operand + s->m * s->k;
    uint32_t each = s->m * s->k / s->n, apart = s->n / (s->k / 2); /* elements of a thread, rows between its pairs */
    for (uint32_t i = 0; i < s->m * s->n; i++) found[i] = (float)(i % s->m * s->n + i / s->m);
    for (uint32_t i = 0; i < s->m * s->k; i++) {
        uint32_t thread = i / each, e = i % each, row = e / 2 * apart + thread / (s->k / 2);
        operand[i] = (float)(row * s->k + thread % (s->k / 2) * 2 + e % 2);
    }
    held[0] = (float)s->m, held[1] = (float)(s->m * s->k / s->n);
}

static uint32_t small_layout(void) { return diti_coop_layout_of(found, 8, &small_shape); }

/* A layout is told by the bits of a thread's number and of an element's number that choose a column, and by whether
   threads have columns. */
static void test_layouts(void) {
    const uint32_t columns = DITI_LAYOUT_COLUMNS, pairs = DITI_LAYOUT_PAIRS;
    spread(false);
    CHECK(small_layout() == 7 << 8);
    spread(true);
    CHECK(small_layout() == (7 | columns));
    found[64] = 8, found[65] = 0; /* the operand's elements lie elsewhere */
    CHECK(small_layout() == columns);
    spread(true);
    found[1] = found[65] = 0; /* one twice, another one nowhere */
    CHECK(!small_layout());
    spread(true);
    found[2] = found[66] = NAN;
    CHECK(!small_layout());
    spread(true);
    found[129] = 16; /* the operand is there twice, as on RDNA3 */
    CHECK(small_layout() == columns);
    spread(true);
    found[0] = found[64] = 9, found[9] = found[73] = 0; /* no pattern of bits: two places have changed */
    CHECK(!small_layout());
    for (uint32_t i = 0; i < 2 * 256; i++) { /* as NVIDIA's matrices lie */
        uint32_t thread = i / 8 % 32, e = i % 8, row = thread / 4 + (e & 2) * 4,
                 column = thread % 4 * 2 + (e & 1) + (e & 4) * 2;
        found[i] = (float)(row * 16 + column);
    }
    found[512] = found[513] = 8;
    CHECK(diti_coop_layout_of(found, 32, &nvidia_shape) == (3 | 5 << 8));
    spread_columns(&xe2_shape);
    CHECK(diti_coop_layout_of(found, 16, &xe2_shape) == (columns | pairs));
    CHECK(!diti_coop_layout_of(found, 8, &xe2_shape)); /* threads have half of the elements */
    found[2 * 8 * 16] = 16;
    CHECK(!diti_coop_layout_of(found, 8, &xe2_shape)); /* eight threads cannot have sixteen columns */
    found[2 * 8 * 16] = 8;
    found[8 * 16 - 1]--;
    CHECK(diti_coop_layout_of(found, 16, &xe2_shape) == pairs);
    spread_columns(&arc_shape);
    CHECK(diti_coop_layout_of(found, 8, &arc_shape) == (columns | pairs));
    found[8 * 8 + 8 * 16 + 1] = 32; /* the operand is there twice */
    CHECK(diti_coop_layout_of(found, 8, &arc_shape) == columns);
    found[8 * 8 + 8 * 16 + 1] = 16;
    found[8 * 8 + 2] = 3, found[8 * 8 + 3] = 2; /* two neighbours changed their places */
    CHECK(diti_coop_layout_of(found, 8, &arc_shape) == columns);
    CHECK(diti_coop_layout_fits(3 | 5 << 8, 32, &nvidia_shape) && diti_coop_layout_fits(7, 8, &small_shape));
    CHECK(diti_coop_layout_fits(7 | columns, 8, &small_shape) && diti_coop_layout_fits(0, 8, &small_shape));
    CHECK(diti_coop_layout_fits(columns, 16, &xe2_shape) && diti_coop_layout_fits(columns, 8, &arc_shape));
    CHECK(!diti_coop_layout_fits(columns, 8, &xe2_shape) && !diti_coop_layout_fits(7, 8, &arc_shape));
    CHECK(!diti_coop_layout_fits(3 | 5 << 8, 8, &small_shape) && !diti_coop_layout_fits(8 | 3 << 8, 8, &small_shape));
    CHECK(!diti_coop_layout_fits(3, 8, &small_shape) && !diti_coop_layout_fits(7 | 8 << 8, 8, &small_shape));
    CHECK(diti_coop_layout_fits(columns | pairs, 16, &xe2_shape) && diti_coop_layout_fits(pairs, 8, &arc_shape));
    CHECK(!diti_coop_layout_fits(pairs, 32, &small_shape) && !diti_coop_layout_fits(1u << 18, 8, &small_shape));
}

static uint32_t ignored; /* times that a cache blob was */
static void hear_ignored(int level, const char *message, void *user) {
    (void)level, (void)user;
    if (strstr(message, "the cache blob is ignored")) ignored++;
}

/* Weights in registers: the self-test finds the layout, production uses it, and a wrong one is found out. */
static void test_direct(void) {
    static const struct {
        const char *overrides;
        uint32_t layout;
        const char *module;
    } cases[] = {{"rung=coop", 7 | DITI_LAYOUT_COLUMNS, "attention_direct"},
                 {"rung=coop,cpu=0,portions=1", 7 | DITI_LAYOUT_COLUMNS, "attention_columns"},
                 {"rung=coop,layout=0", 0, "attention_coop"},
                 {"rung=coop,layout=1792", 0, "attention_coop"}}; /* elements are columns: Mesa's are rows */
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        problem p = {.head_dim = 72, .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1};
        dit_context_desc desc = {0};
        dit_context *context = NULL;
        dit_error err = {0};
        static unsigned char blob[1 << 22];
        ignored = 0;
        desc.overrides = cases[i].overrides;
        desc.logger.func = hear_ignored;
        desc.logger.max_level = DITI_LOG_INFO;
        if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) continue;
        CHECK_MESSAGE(context->device->coop_layout == cases[i].layout, "%s: %u", cases[i].overrides,
                      context->device->coop_layout);
        check(context->device, p, cases[i].module);
        desc.cache = blob;
        desc.cache_size = sizeof blob;
        CHECK_MESSAGE(dit_context_save_cache(context, blob, &desc.cache_size, &err) == DIT_OK, "%s", err.message);
        dit_context_destroy(context);
        if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) continue;
        CHECK(context->device->coop_layout == cases[i].layout); /* told by the blob: nothing was run for it */
        CHECK_MESSAGE(!ignored && !context->device->submits, "%s: %u, %llu", cases[i].overrides, ignored,
                      (unsigned long long)context->device->submits);
        dit_context_destroy(context);
    }
}

/* Attention has guards here, as it has in jobs. */
static void test_guarded(diti_device *device) {
    dit_error err = {0};
    bool agrees = false;
    CHECK_MESSAGE(diti_probe_attention(device, false, 24, &agrees, &err) == DIT_OK && agrees, "%s", err.message);
}

/* Threads have eight queries where there are many, and four otherwise: devices that split rows must not see which. */
static void test_rows(diti_device *device, problem p) {
    float *q, *k, *v;
    answer a, b;
    check(device, p, "attention_half");
    p.query_rows = p.batch * p.queries;
    p.key_rows = p.batch * p.keys;
    fill(&p, &q, &k, &v);
    a = solve(device, &p, q, k, v, "attention_half");
    device->candidate = 2; /* the other number of queries */
    b = solve(device, &p, q, k, v, "attention_half");
    device->candidate = 0;
    CHECK(a.groups < b.groups);
    CHECK(!memcmp(a.out, b.out, a.count * sizeof *a.out));
    CHECK(!memcmp(a.lse, b.lse, a.rows * sizeof *a.lse));
    answer_free(&a), answer_free(&b);
    free(q), free(k), free(v);
}

static void test_half(void) {
    static const uint32_t lengths[5][4] = {
        {30, 7, 0, 30}, {0, 9, 30, 0}, {9, 1, 7, 1}, {10, 20, 0, 77}, {37, 40, 0, 33}};
    static const uint32_t dims[] = {20, 40, 256};
    diti_device *device = open_rung("rung=half");
    if (!device) return;
    test_guarded(device);
    test_shapes(device, "attention_half");
    for (int i = 0; i < (sweep ? 3 : 1); i++)
        check(device,
              (problem){.head_dim = dims[i], .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1},
              "attention_half");
    check(device,
          (problem){.head_dim = 24,
                    .heads = 2,
                    .batch = 5,
                    .items = lengths,
                    .query_rows = 77,
                    .key_rows = 77,
                    .size = 2,
                    .values = 1},
          "attention_half");
    for (float size = 4; size < 64; size *= 2) /* some workgroups, then all, begin again in F32 */
        check(device,
              (problem){.head_dim = 16, .heads = 2, .batch = 1, .queries = 100, .keys = 77, .size = size, .values = 1},
              "attention_half");
    test_merge(device, 5, 2e-3, "attention_half");
    test_slices(device, "attention_half");
    diti_device_close(device);
    device = open_rung("rung=half,portions=0,cpu=0"); /* more threads for large heads, as Intel's GPUs have them */
    if (device) {
        problem p = {.head_dim = 128, .heads = 1, .batch = 1, .queries = 45, .keys = 77, .size = 2, .values = 1};
        device->attention_team = 0;
        check(device, p, "attention_half");
        p.head_dim = 252;
        check(device, p, "attention_half");
        p.head_dim = 260; /* a thread would have outputs of two groups of channels, which spills there */
        check(device, p, "attention_gpu");
        p.head_dim = 300;
        p.f32 = true;
        check(device, p, "attention_gpu");
        p.head_dim = 1152; /* Qwen-Image-2.1's decoder */
        check(device, p, "attention_gpu");
        device->limits.narrow_invocations = 448; /* workgroups of 256 threads, as on Intel's GPUs before Gen 12 */
        if (sweep) check(device, p, "attention_gpu");
    }
    diti_device_close(device);
    device = open_rung("rung=half,portions=5,cpu=0"); /* as Adrenos have them: 256 threads, of wide heads 16 queries */
    if (device) {
        problem p = {.head_dim = 40, .heads = 2, .batch = 1, .queries = 45, .keys = 77, .size = 2, .values = 1};
        check(device, p, "attention_half"); /* halves are multiplied one by one */
        p.queries = 530;
        if (sweep) test_rows(device, p);
        p.queries = 45;
        p.heads = 1;
        p.head_dim = 252;
        if (sweep) check(device, p, "attention_half");
        p.head_dim = 1152;
        p.f32 = true;
        check(device, p, "attention_gpu");
    }
    diti_device_close(device);
    device = open_rung("rung=half,portions=2,cpu=0"); /* threads with eight queries, as on AMD's GPUs */
    if (device) {
        problem p = {.head_dim = 40, .heads = 2, .batch = 1, .queries = 530, .keys = 77, .size = 2, .values = 1};
        test_rows(device, p);
        p.head_dim = 64;
        p.heads = 1;
        if (sweep) test_rows(device, p);
        for (p.head_dim = 24, p.size = 4; p.size < 64; p.size *= 2) /* some workgroups, then all, begin again in F32 */
            if (sweep || p.size == 16) check(device, p, "attention_half");
    }
    diti_device_close(device);
    device = open_rung("rung=half,shared=16K,cpu=0"); /* fewer keys at a time */
    if (device)
        check(device,
              (problem){.head_dim = 128, .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1},
              "attention_half");
    diti_device_close(device);
}

/* Weights that threads read from each other, as on Intel's GPUs: a thread's keys and channels follow from the driver's
   subgroups. Sums are F32 throughout, so that large scores need no second attempt. */
static void test_broadcast(void) {
    problem p = {.head_dim = 20, .heads = 2, .batch = 1, .queries = 45, .keys = 77, .size = 2, .values = 1};
    diti_device *device = open_rung("rung=fp16,portions=0,cpu=0");
    if (!device || !device->attention_team) printf("skipped: attention by broadcasts (the device has none)\n");
    if (device && device->attention_team) {
        CHECK(device->attention_team == device->limits.subgroup_size);
        test_shapes(device, "attention_broadcast");
        check(device, p, "attention_broadcast");
        p.head_dim = 160;
        p.queries = 150;
        check(device, p, "attention_broadcast");
        p.queries = 530; /* more threads, with the same sums */
        p.size = 60;
        if (sweep) check(device, p, "attention_broadcast");
        p.head_dim = 164;
        if (sweep) check(device, p, "attention_gpu");
        test_merge(device, 5, 1e-5, "attention_broadcast");
        test_slices(device, "attention_broadcast");
    }
    diti_device_close(device);
}

/* Integer dot products serve devices without F16 arithmetic, too. */
static void test_dot(void) {
    diti_device *device = open_rung("rung=base,dot=1,cpu=0");
    if (!device || !device->dot) printf("skipped: int8 attention by dot products (the device has none)\n");
    if (device && device->dot) {
        problem p = {.head_dim = 40,
                     .heads = 2,
                     .batch = 2,
                     .queries = 45,
                     .keys = 90,
                     .size = 1,
                     .common = 4,
                     .values = 1,
                     .int8 = true};
        CHECK(diti_attention_int8_head(device, 40) == 64 && !diti_attention_int8_head(device, 20));
        test_int8(device, "attention_gpu");
        check(device, p, "attention_gpu");
        if (sweep) test_real(device, "attention_gpu");
    }
    diti_device_close(device);
}

/* --- all parts --- */

/* The kernel of so many heads, items, queries and keys of 64 channels, as its constants say. */
static void tiles_of(diti_device *device, uint32_t heads, uint32_t batch, uint32_t queries, uint32_t keys,
                     uint32_t out[DITI_MAX_CONSTANTS]) {
    diti_attention_desc desc = {0};
    diti_graph graph;
    diti_tensor q, kv;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "test", false);
    q = diti_tensor_input(&graph, DITI_F32, batch * queries, heads * 64, "q");
    kv = diti_tensor_input(&graph, DITI_F32, batch * keys, heads * 64, "kv");
    desc.batch = batch;
    desc.heads = heads;
    desc.head_dim = 64;
    desc.scale = 0.125f;
    diti_attention(&graph, q, kv, kv, &desc);
    memset(out, 0, DITI_MAX_CONSTANTS * sizeof *out);
    if (CHECK(graph.dispatch_count > 0))
        memcpy(out, graph.dispatches[graph.dispatch_count - 1].constants, DITI_MAX_CONSTANTS * sizeof *out);
    diti_graph_free(&graph);
}

/* An item has the same bytes alone and in a batch, and where devices divide heads, queries or branches. */
static void test_alike(diti_device *device) {
    static const uint32_t keys[] = {64, 255, 256, 300, 600, 1023, 1024, 1500};
    uint32_t alone[DITI_MAX_CONSTANTS], other[DITI_MAX_CONSTANTS], i;
    for (i = 0; i < DITI_COUNT(keys); i++) {
        tiles_of(device, 4, 1, keys[i], keys[i], alone);
        tiles_of(device, 4, 3, keys[i], keys[i], other);
        CHECK_MESSAGE(!memcmp(alone, other, sizeof alone), "%u keys, a batch of 3", keys[i]);
        tiles_of(device, 1, 1, keys[i], keys[i], other);
        CHECK_MESSAGE(!memcmp(alone, other, sizeof alone), "%u keys, one of 4 heads", keys[i]);
        tiles_of(device, 4, 1, keys[i] / 8, keys[i], other);
        CHECK_MESSAGE(!memcmp(alone, other, sizeof alone), "%u keys, an eighth of the queries", keys[i]);
    }
}

static void test_base(void) {
    diti_device *device = open_rung("rung=base");
    if (device) test_merge(device, 5, 1e-5, device->is_cpu ? "attention_cpu" : "attention_gpu");
    if (device) test_alike(device);
    diti_device_close(device);
}

static void test_coop(void) {
    diti_device *device = open_rung("rung=coop");
    if (device) {
        test_guarded(device);
        test_shapes(device, "attention_coop");
        test_merge(device, 5, 5e-4, "attention_coop"); /* weights are halves: parts round them differently */
        test_slices(device, "attention_coop");
    }
    diti_device_close(device);
}

/* Whether elements of matrices lie as in Mesa's software driver, by the self-test. A driver of hardware may have them
   elsewhere, and would give wrong results if it was told that layout. */
static bool has_mesa_layout(void) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    bool same = false;
    desc.overrides = "rung=coop";
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        same = context->device->coop_layout == (7 | DITI_LAYOUT_COLUMNS);
        if (!same)
            printf("skipped: matrices as Mesa's software driver has them (%s has others)\n",
                   context->device->info.name);
        CHECK_MESSAGE(same || !strstr(context->device->info.name, "llvmpipe"), "layout %u",
                      context->device->coop_layout);
    }
    dit_context_destroy(context);
    return same;
}

static void test_mesa(void) { /* the layout of Mesa's software driver */
    diti_device *device = open_rung("rung=coop,layout=7");
    if (device && has_mesa_layout()) {
        test_shapes(device, "attention_direct");
        device->scattered_sums = true; /* as with NVK */
        test_merge(device, 5, 5e-4, "attention_direct");
        device->scattered_sums = false;
        test_slices(device, "attention_direct");
        test_direct();
    }
    diti_device_close(device);
}

static void
test_columns(void) { /* a thread has a query, as on Intel's GPUs, of which Mesa's driver has the layout, too */
    diti_device *device = open_rung("rung=coop,cpu=0,portions=1,layout=65543");
    diti_attention_tiles tiles;
    if (device && has_mesa_layout()) {
        problem p = {.head_dim = 128, .heads = 2, .batch = 1, .queries = 37, .keys = 77, .size = 2, .values = 1};
        test_shapes(device, "attention_columns");
        test_merge(device, 5, 5e-4, "attention_columns");
        test_slices(device, "attention_columns");
        check(device, p, "attention_columns");
        p.head_dim = 136; /* the tiles of eight subgroups with the same queries have no room in shared memory */
        check(device, p, "attention_coop");
        device->coop.subgroup_shape[DITI_COOP_F16].m = 16; /* the module takes matrices of eight rows alone */
        CHECK(diti_attention_tiles_matrix(device, 64, 37, 77, false, 0, &tiles));
        CHECK(tiles.kernel == DITI_KERNEL_ATTENTION_COOP);
    }
    diti_device_close(device);
}

/* Tiles as threads of Intel's GPUs hold operands: a module of the tests, which takes some more shared memory, puts what
   they would load together again. */
static void test_pairs(void) {
    static const char *const command =
        "rm -rf build/pairs && mkdir -p build/pairs && cp shaders/*.comp shaders/*.glsl build/pairs && echo "
        "'attention_columns attention_columns.comp 16 -DEMULATED' >build/pairs/MODULES && build/spirv raw build/pairs "
        "build/pairs >build/pairs/log 2>&1 && [ -f build/pairs/attention_columns.spv ]";
    static const uint32_t dims[] = {64, 72, 128};
    diti_device *device = open_rung("rung=coop,cpu=0,portions=1,layout=196615,shared=30K");
    if (device && has_mesa_layout()) {
        if (system(command) != 0) {
            printf("skipped: pairs of operands (needs glslang-tools, and build/spirv from make)\n");
        } else {
            plain_modules = "build/pairs";
            for (size_t i = 0; i < DITI_COUNT(dims); i++)
                check(
                    device,
                    (problem){
                        .head_dim = dims[i], .heads = 2, .batch = 1, .queries = 37, .keys = 77, .size = 2, .values = 1},
                    "attention_columns");
            test_merge(device, 5, 5e-4, "attention_columns");
            plain_modules = NULL;
        }
    }
    diti_device_close(device);
}

static void test_coop2(void) {
    diti_device *device = open_rung("rung=coop2");
    if (device) {
        test_guarded(device);
        test_shapes(device, "attention_coop2");
        test_slices(device, "attention_coop2");
        if (sweep) test_merge(device, 2, 5e-4, "attention_coop2");
    }
    diti_device_close(device);
}

static void test_coop_int8(void) {
    diti_device *device = open_rung("rung=coop2");
    if (device) {
        test_int8(device, "attention_coop");
        if (sweep) test_real(device, "attention_coop");
    }
    diti_device_close(device);
}

static void test_choice(void) {
    diti_device *device = open_rung("rung=coop2");
    if (device) test_descent(), test_faster(), test_left_while_measured(), test_doubted();
    diti_device_close(device);
}

static void test_shared_queries(void) { /* by subgroups */
    diti_device *device = open_rung("rung=coop,cpu=0,portions=1");
    if (device) {
        problem p = {.head_dim = 72, .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1};
        check(device, p, "attention_coop");
        p.int8 = true;
        p.common = 4;
        p.size = 1;
        if (sweep && diti_attention_int8_head(device, p.head_dim)) check(device, p, "attention_coop");
        p.head_dim = 200;
        if (sweep) check(device, p, "attention_coop");
        p.int8 = false;
        if (sweep) check(device, p, "attention_coop");
        p.head_dim = 296; /* eight subgroups have the same queries, and no registers for the next tile */
        check(device, p, "attention_coop");
        p.head_dim = 512; /* values key by key, so that two sets of queries fit beside them */
        if (sweep) check(device, p, "attention_coop");
    }
    diti_device_close(device);
    device = open_rung("rung=coop,cpu=0,portions=0"); /* Arc A: up to 256 channels */
    if (device) {
        problem p = {.head_dim = 136, .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1};
        if (sweep) check(device, p, "attention_coop");
        p.head_dim = 256;
        check(device, p, "attention_coop");
        CHECK(diti_attention_has_matrices(device, 256) && !diti_attention_has_matrices(device, 264));
    }
    diti_device_close(device);
}

static void test_shared_heads(void) { /* heads of autoencoders, and heads that two subgroups share */
    diti_device *device = open_rung("rung=coop,cpu=0,portions=3");
    if (device) {
        problem p = {.head_dim = 512, .heads = 1, .batch = 1, .queries = 17, .keys = 45, .size = 1, .values = 1};
        check(device, p, "attention_coop");
        p.head_dim = 296;
        if (sweep) check(device, p, "attention_coop");
        p.head_dim = 128;
        p.queries = sweep ? 530 : 21; /* beyond 512 a subgroup has twice as many queries, with the same sums */
        check(device, p, "attention_coop");
        p.head_dim = 384; /* subgroups of four have 96 channels */
        if (sweep) check(device, p, "attention_coop");
    }
    diti_device_close(device);
    device = sweep ? open_rung("rung=coop,cpu=0,portions=2") : NULL; /* eight subgroups with 32 queries, then four */
    if (device) {
        problem p = {.head_dim = 512, .heads = 1, .batch = 1, .queries = 530, .keys = 45, .size = 1, .values = 1};
        check(device, p, "attention_coop");
        p.head_dim = 256;
        check(device, p, "attention_coop");
    }
    diti_device_close(device);
}

/* How many subgroups share queries, and how many these are. */
static void test_sharing(void) {
    static const struct {
        int portions;
        uint32_t registers; /* that a device tells of; 0: nothing */
        uint32_t head_dim, queries, of_subgroup, share;
    } cases[] = {
        {2, 768, 80, 4096, 32, 1},  {2, 768, 128, 4096, 32, 2}, {2, 768, 144, 4096, 32, 4}, {2, 768, 256, 4096, 32, 4},
        {2, 768, 256, 512, 16, 4},  {2, 768, 384, 4096, 32, 8}, {2, 768, 512, 4096, 32, 8}, {2, 512, 256, 4096, 32, 4},
        {2, 512, 384, 4096, 16, 4}, {2, 512, 512, 4096, 16, 4}, {2, 0, 512, 4096, 32, 8},   {3, 0, 96, 4096, 32, 1},
        {3, 0, 104, 4096, 32, 2},   {3, 0, 160, 4096, 32, 2},   {3, 0, 192, 4096, 32, 4},   {3, 0, 384, 4096, 32, 4},
        {3, 0, 392, 4096, 16, 4},   {3, 0, 512, 4096, 16, 4},   {0, 0, 136, 4096, 8, 8},    {0, 0, 256, 4096, 8, 8},
        {1, 0, 136, 4096, 8, 4},    {1, 0, 256, 4096, 8, 4},    {1, 0, 384, 4096, 8, 8},    {1, 0, 512, 4096, 8, 8}};
    diti_device *device = NULL;
    int open = -1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        diti_attention_tiles tiles;
        char overrides[64];
        if (cases[i].portions != open) {
            diti_device_close(device);
            snprintf(overrides, sizeof overrides, "rung=coop,cpu=0,layout=0,portions=%d", open = cases[i].portions);
            device = open_rung(overrides);
        }
        if (!device) return;
        device->limits.registers = cases[i].registers;
        device->limits.shared_bytes = open == 2 ? 64 << 10 : 48 << 10;
        device->limits.group_invocations = 1024;
        memset(&tiles, 0, sizeof tiles);
        CHECK(diti_attention_tiles_matrix(device, cases[i].head_dim, cases[i].queries, 4096, false, 0, &tiles));
        CHECK_MESSAGE(tiles.constants[1] * tiles.constants[4] == cases[i].of_subgroup &&
                          tiles.constants[8] == cases[i].share,
                      "line %d, heads of %u, %u queries: %u of a subgroup, shared by %u", open, cases[i].head_dim,
                      cases[i].queries, tiles.constants[1] * tiles.constants[4], tiles.constants[8]);
    }
    diti_device_close(device);
}

static void test_halves_alone(void) { /* matrices hold no int8 */
    diti_device *device = open_rung("rung=coop,layout=0,int8_matrices=0");
    if (device) {
        problem p = {.head_dim = 72, .heads = 2, .batch = 1, .queries = 17, .keys = 77, .size = 2, .values = 1};
        CHECK(!diti_attention_int8_head(device, p.head_dim));
        check(device, p, "attention_coop");
    }
    diti_device_close(device);
}

static void test_loop(void) { /* products of queries with a tile of keys as a loop */
    diti_device *device = open_rung("rung=coop,cpu=0,portions=2");
    if (device) test_large(device, "attention_coop");
    diti_device_close(device);
}

/* The tiles of GPUs: more matrices, rows and subgroups. */
static void test_gpu_tiles(void) {
    diti_device *device = open_rung("rung=coop,cpu=0");
    if (device) test_large(device, "attention_coop");
    diti_device_close(device);
    device = open_rung("rung=coop2,cpu=0");
    if (device) test_large(device, "attention_coop2");
    diti_device_close(device);
}

static const struct {
    const char *name;
    void (*test)(void);
    bool sweep; /* only with DIT_TEST_ALL=1 */
} parts[] = {{"base", test_base, false},
             {"layouts", test_layouts, false},
             {"half", test_half, false},
             {"broadcast", test_broadcast, true}, /* make test has a few of its cases in kernels.c */
             {"dot", test_dot, false},
             {"descent", test_vector_descent, true},
             {"coop", test_coop, false},
             {"mesa", test_mesa, false},
             {"coop2", test_coop2, false},
             {"int8", test_coop_int8, false},
             {"choice", test_choice, true},
             {"columns", test_columns, false},
             {"pairs", test_pairs, false},
             {"queries", test_shared_queries, false},
             {"heads", test_shared_heads, false},
             {"sharing", test_sharing, false},
             {"halves", test_halves_alone, false},
             {"loop", test_loop, true},
             {"tiles", test_gpu_tiles, true}};

int main(int argc, char **argv) {
    dit_error err = {0};
    sweep = getenv("DIT_TEST_ALL") && !strcmp(getenv("DIT_TEST_ALL"), "1");
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    for (size_t i = 0; i < DITI_COUNT(parts); i++) {
        uint64_t began = diti_clock_us();
        int n = 1;
        while (n < argc && strcmp(argv[n], parts[i].name)) n++;
        if ((argc > 1 && n == argc) || (parts[i].sweep && !sweep)) continue;
        parts[i].test();
        if (sweep) printf("%s: %.1f s\n", parts[i].name, (double)(diti_clock_us() - began) / 1e6), fflush(stdout);
    }
    test_vulkan_end();
    return TEST_END("attention");
}
