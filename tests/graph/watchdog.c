/* No dispatch is longer than max_slice_us, so that no driver's watchdog fires and no frame is missed: by the plan's
 * own predictions, for real models and for shapes that no test can run; and a long attention gives the same bytes
 * however finely it is cut. DIT_TEST_ALL=1: 512 query rows at 100003 keys instead of 64.
 * test-runs: lavapipe, in test-all discrete */
#include "library.h"
#include "graph/plan.c"
#include "vulkan_test.h"
#include "files.h"

#define TINY "tests/fixtures/pipe_pixart_sigma"
#define BUNDLED "models/emoji-q8_0.gguf"

#define LONGEST_US 300000.0f /* Windows allows two seconds, and predictions may be wrong */

static const uint32_t budgets[] = {1, 100, 1000, 16000, 50000};

/* ---- Predictions ---- */

static uint32_t smallest_piece(const diti_dispatch *source) { return source->group_align ? source->group_align : 1; }

/* A GPU is not given fewer workgroups at a time than fill it, unless these are cut evenly out of somewhat more: four of
   256 invocations for each core, or 512 where it does not tell how many it has. */
static uint32_t least_groups(const diti_plan *plan, const diti_dispatch *source) {
    uint32_t size = source->constants[0], fill = 512;
    if (plan->device->is_cpu) return smallest_piece(source);
    if (plan->device->limits.cores_told) fill = 4 * plan->device->limits.cores * (size && size < 256 ? 256 / size : 1);
    return fill > smallest_piece(source) ? fill : smallest_piece(source);
}

/* Says what is wrong with a piece that comes after `before`; NULL: nothing. */
static const char *piece_problem(const diti_plan *plan, const diti_plan_dispatch *before,
                                 const diti_plan_dispatch *piece) {
    const diti_dispatch *op = &plan->sources[piece->source];
    bool goes_on = before && before->source == piece->source;
    uint32_t next = before ? before->first_group + before->groups : 0;
    if (!goes_on && piece->source != (before ? before->source + 1 : 0)) return "an op is missing";
    if (!goes_on && before && next != plan->sources[before->source].groups) return "the op before ends too early";
    if (piece->first_group != (goes_on ? next : 0) || !piece->groups)
        return "it does not begin where the last one ends";
    if (piece->first_group % smallest_piece(op)) return "it begins inside a smallest piece";
    /* the product of floats rounds; a machine that was busy when its speed was measured gets coarser pieces */
    if (piece->us > plan->finest_us * 1.0001f && piece->groups > least_groups(plan, op) &&
        piece->us > 2 * plan->launch_us && piece->groups > smallest_piece(op))
        return "it is predicted too long, and could be cut";
    if (piece->groups < op->groups && 2 * piece->groups < least_groups(plan, op) && 2 * piece->us < LONGEST_US &&
        op->groups >= least_groups(plan, op) && piece->first_group + piece->groups < op->groups)
        return "it leaves the device idle";
    if (piece->us > LONGEST_US * 1.0001f && piece->us > plan->finest_us * 1.0001f && piece->groups > smallest_piece(op))
        return "a driver's watchdog may end it";
    if (piece->barrier && goes_on && !plan->device->validated) return "it waits for a part of the same op";
    return NULL;
}

/* Pieces of an op follow each other without gaps, and only the smallest possible one may be predicted too long. */
static void check_pieces(const diti_plan *plan, const char *what) {
    const diti_plan_dispatch *piece = NULL;
    const char *problem = NULL;
    size_t i;
    for (i = 0; i < plan->dispatch_count && !problem; i++) {
        const diti_plan_dispatch *before = piece;
        piece = &plan->dispatches[i];
        problem = piece_problem(plan, before, piece);
    }
    if (!CHECK_MESSAGE(piece, "%s: no pieces", what)) return;
    CHECK_MESSAGE(!problem, "%s: %s, workgroups %u + %u of %u, %.0f us predicted, %u allowed: %s", what,
                  plan->sources[piece->source].name, piece->first_group, piece->groups,
                  plan->sources[piece->source].groups, (double)piece->us, (uint32_t)plan->finest_us,
                  problem ? problem : "fine");
    CHECK(problem || (piece->source + 1 == plan->source_count &&
                      piece->first_group + piece->groups == plan->sources[piece->source].groups));
}

/* Command buffers keep to the same limit, unless they hold one piece only. */
static void check_slices(const diti_plan *plan, const char *what) {
    diti_plan_slice none = {0};
    const diti_plan_slice *longest = &none;
    size_t i;
    for (i = 0; i < plan->slice_count; i++) {
        const diti_plan_slice *slice = &plan->slices[i];
        if (slice->count > 1 && slice->planned_us > longest->planned_us) longest = slice;
    }
    CHECK_MESSAGE(longest->count <= 1 || longest->planned_us <= (float)plan->device->max_slice_us * 1.0001f,
                  "%s: a slice of %u dispatches: %.0f us predicted, %u allowed", what, longest->count,
                  (double)longest->planned_us, plan->device->max_slice_us);
    CHECK(plan->slice_count > 0);
}

static void check_model(dit_context *ctx, const char *path, uint32_t side) {
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    size_t i, pieces = 0;
    md.source.path = path;
    if (!CHECK_MESSAGE(dit_model_load(ctx, &md, &model, &err) == DIT_OK, "%s", err.message)) return;
    for (i = 0; i < DITI_COUNT(budgets); i++) {
        dit_job_desc jd = {0};
        dit_job *job = NULL;
        char what[64];
        jd.model = model;
        jd.width = jd.height = side;
        jd.prompt = "a red heart";
        ctx->device->max_slice_us = budgets[i];
        snprintf(what, sizeof what, "%s within %u us", strrchr(path, '/') + 1, budgets[i]);
        if (!CHECK_MESSAGE(dit_job_create(ctx, &jd, &job, &err) == DIT_OK, "%s", err.message)) break;
        check_pieces(job->shares[0]->program.plan, what);
        check_slices(job->shares[0]->program.plan, what);
        CHECK_MESSAGE(i == 0 || job->shares[0]->program.plan->dispatch_count <= pieces,
                      "%s: more pieces than with less time", what);
        pieces = job->shares[0]->program.plan->dispatch_count;
        dit_job_destroy(job);
    }
    dit_model_destroy(model);
}

/* ---- Shapes of large models: cut, never run ---- */

static diti_weight imagined_weight(dit_type type, uint32_t rows, uint32_t columns, uint32_t kernel) {
    static const diti_weight_block nowhere;
    diti_weight weight;
    memset(&weight, 0, sizeof weight);
    weight.name = "imagined";
    weight.type = type;
    weight.rows = weight.parts[0].rows = rows;
    weight.columns = columns;
    weight.kernel = kernel;
    weight.parts[0].block = &nowhere;
    weight.part_count = 1;
    return weight;
}

static void large_attention(diti_graph *graph, uint32_t queries, uint32_t keys, uint32_t heads, uint32_t head_dim) {
    diti_attention_desc desc = {0};
    diti_tensor q = diti_tensor_new(graph, graph->activation, queries, heads * head_dim, "q");
    diti_tensor kv = diti_tensor_new(graph, graph->activation, keys, heads * head_dim, "kv");
    desc.heads = heads;
    desc.head_dim = head_dim;
    desc.scale = 1;
    diti_attention(graph, q, kv, kv, &desc);
}

static void large_ops(diti_graph *graph, const diti_weight *linear, const diti_weight *conv) {
    diti_linear_desc up = {0};
    diti_norm_desc norm = {0};
    diti_conv_desc upsample = {0};
    diti_tensor x = diti_tensor_new(graph, graph->activation, 8192, 3072, "tokens");
    diti_tensor pixels = diti_tensor_new(graph, graph->activation, 512 * 512, 128, "pixels");
    diti_linear(graph, x, linear, &up);
    diti_norm(graph, x, &norm);
    upsample.batch = 1;
    upsample.height = upsample.width = 512;
    upsample.pad_before = upsample.pad_after = 1;
    diti_conv(graph, pixels, conv, &upsample);
    large_attention(graph, 8192, 8192, 24, 128);
    large_attention(graph, 512, 100003, 1, 64);
}

/* Whether some op takes longer than allowed and has workgroups enough for two pieces. */
static bool has_long_op(const diti_plan *plan) {
    size_t i;
    for (i = 0; i < plan->source_count; i++)
        if (plan->source_us[i] > 2 * plan->finest_us &&
            plan->sources[i].groups >= 2 * least_groups(plan, &plan->sources[i]))
            return true;
    return false;
}

/* Pieces were measured to leave the device idle, and to take long: they stay as large as that, but for what would take
   so long that the system resets the device. */
static void check_measured(diti_plan *plan, const char *what) {
    size_t i, long_ones = 0;
    dit_error err = {0};
    for (i = 0; i < plan->source_count; i++) {
        plan->source_measured[i] = true;
        plan->source_minimum[i] = plan->sources[i].groups;
        plan->source_cut_us[i] *= 3;
        long_ones += plan->source_cut_us[i] > 2 * LONGEST_US;
    }
    plan->dispatch_count = plan->slice_count = 0;
    CHECK_MESSAGE(diti_plan_slice_sources(plan, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < plan->dispatch_count; i++) {
        const diti_plan_dispatch *piece = &plan->dispatches[i];
        CHECK_MESSAGE(
            piece->us <= 1.1f * LONGEST_US || piece->groups <= least_groups(plan, &plan->sources[piece->source]),
            "%s: a measured piece of %s takes %.0f us", what, plan->sources[piece->source].name, (double)piece->us);
    }
    printf("%s: %u of %u measured ops took longer than two of the longest pieces\n", what, (unsigned)long_ones,
           (unsigned)plan->source_count);
}

/* Plans large ops as diti_plan_create does, without memory, pipelines and commands. */
static void cut_large_ops(diti_device *device, dit_type type, bool own_speed, const char *what) {
    diti_weight linear = imagined_weight(type, 12288, 3072, 1), conv = imagined_weight(type, 128, 128 * 9, 3);
    diti_plan plan;
    diti_graph graph;
    dit_error err = {0};
    memset(&plan, 0, sizeof plan);
    plan.device = device;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "large", false);
    large_ops(&graph, &linear, &conv);
    if (CHECK_MESSAGE(!diti_graph_failed(&graph), "%s", graph.error.message) &&
        CHECK_MESSAGE(diti_plan_assign_memory(&graph, &plan, &err) == DIT_OK, "%s", err.message)) {
        diti_plan_take(&plan, &graph);
        CHECK_MESSAGE(diti_plan_make_slices(&plan, &graph, &err) == DIT_OK, "%s", err.message);
        check_pieces(&plan, what);
        check_slices(&plan, what);
        CHECK_MESSAGE(has_long_op(&plan) || own_speed, "%s: nothing needs to be cut", what);
        CHECK_MESSAGE(plan.dispatch_count > plan.source_count || !has_long_op(&plan), "%s: nothing was cut", what);
        if (!own_speed && device->speed.us_per_gflop > 3000) check_measured(&plan, what);
    }
    diti_free(&device->env, plan.tensors);
    diti_free(&device->env, plan.sources);
    diti_free(&device->env, plan.dispatches);
    diti_free(&device->env, plan.slices);
    diti_free(&device->env, plan.source_us);
    diti_free(&device->env, plan.source_cut_us);
    diti_free(&device->env, plan.source_measured);
    diti_free(&device->env, plan.source_minimum);
    diti_free(&device->env, plan.blocks);
    diti_graph_free(&graph);
}

/* Cuts large ops for a device as slow as this one, which may be fast enough to need no cut, and for GPUs of a quarter,
   1 and 100 TFLOP/s, one of which tells its cores. */
static void test_large_ops(diti_device *device) {
    static const struct {
        float us_per_gflop;
        uint32_t cores;
    } gpus[] = {{0, 0}, {4000, 0}, {1000, 0}, {10, 0}, {10, 132}};
    const diti_speed own = device->speed;
    const diti_limits own_limits = device->limits;
    bool is_cpu = device->is_cpu;
    size_t gpu, i;
    device->limits.storage_range = UINT32_MAX; /* so that time alone cuts */
    for (gpu = 0; gpu < DITI_COUNT(gpus); gpu++) {
        if (gpu > 0) {
            device->speed.us_per_gflop = gpus[gpu].us_per_gflop;
            device->speed.us_per_gigabyte = gpus[gpu].us_per_gflop * 20;
            device->speed.launch_us = 5;
            device->limits.cores = gpus[gpu].cores ? gpus[gpu].cores : 32;
            device->limits.cores_told = gpus[gpu].cores > 0;
            device->is_cpu = false;
        }
        for (i = 1; i < DITI_COUNT(budgets) - (gpu > 0 ? 2u : 0u); i++) {
            char what[96];
            device->max_slice_us = budgets[i];
            snprintf(what, sizeof what, "large ops at %.0f us per GFLOP on %u cores within %u us",
                     (double)device->speed.us_per_gflop, device->limits.cores, budgets[i]);
            cut_large_ops(device, i % 2 ? DIT_TYPE_Q4_0 : DIT_TYPE_F16, gpu == 0, what);
        }
    }
    device->speed = own;
    device->limits = own_limits;
    device->is_cpu = is_cpu;
}

/* ---- A long attention ---- */

enum { CASES = 3 };

typedef struct long_attention {
    uint32_t head, keys, rows; /* q, k, v are [keys, head]; rows of q are asked for at its begin, its middle, its end */
    float *q, *k, *v;
    float *first[CASES]; /* the results of the first budget */
    uint32_t pieces;     /* of the newest plan */
    uint32_t most;       /* as many as its workgroups would allow */
} long_attention;

static float *random_floats(size_t count, float size, uint32_t seed) {
    float *values = malloc(count * sizeof *values);
    size_t i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * size;
    }
    return values;
}

static uint32_t first_row(const long_attention *a, int which) {
    return which == 0 ? 0 : which == 1 ? (a->keys - a->rows) / 2 : a->keys - a->rows;
}

static diti_plan *plan_attention(diti_device *device, const long_attention *a, diti_tensor *inputs, diti_tensor *outs) {
    static const char *const names[] = {"q", "k", "v"};
    diti_elementwise_desc keep = {0};
    diti_attention_desc desc = {0};
    diti_plan *plan = NULL;
    diti_graph graph;
    dit_error err = {0};
    int i;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "attention", false);
    for (i = 0; i < 3; i++) inputs[i] = diti_tensor_input(&graph, DITI_F32, a->keys, a->head, names[i]);
    desc.heads = 1;
    desc.head_dim = a->head;
    desc.scale = 1 / sqrtf((float)a->head);
    for (i = 0; i < CASES; i++) {
        diti_tensor rows = diti_tensor_view(&graph, inputs[0], first_row(a, i), a->rows, 0, a->head);
        keep.out = outs[i] = diti_tensor_state(&graph, DITI_F32, a->rows, a->head, "kept");
        diti_elementwise(&graph, diti_attention(&graph, rows, inputs[1], inputs[2], &desc), &keep);
    }
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
    return plan;
}

static void run_attention(diti_device *device, long_attention *a, float **outs) {
    const size_t bytes = (size_t)a->keys * a->head * sizeof(float),
                 out_bytes = (size_t)a->rows * a->head * sizeof(float);
    diti_tensor inputs[3], kept[CASES];
    diti_plan *plan = plan_attention(device, a, inputs, kept);
    dit_error err = {0};
    char what[64];
    int i;
    if (!plan) return;
    snprintf(what, sizeof what, "%u x %u of %u within %u us", a->rows, a->keys, a->head, device->max_slice_us);
    check_pieces(plan, what);
    a->pieces = (uint32_t)plan->dispatch_count;
    for (a->most = 0, i = 0; i < (int)plan->source_count; i++)
        a->most += plan->sources[i].groups / smallest_piece(&plan->sources[i]);
    CHECK(diti_plan_write(plan, inputs[0], a->q, bytes, &err) == DIT_OK);
    CHECK(diti_plan_write(plan, inputs[1], a->k, bytes, &err) == DIT_OK);
    CHECK(diti_plan_write(plan, inputs[2], a->v, bytes, &err) == DIT_OK);
    CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < CASES; i++) CHECK(diti_plan_read(plan, kept[i], outs[i], out_bytes, &err) == DIT_OK);
    diti_plan_destroy(plan);
}

/* Relative L2 error of one row against double precision. */
static double row_error(const long_attention *a, int which, uint32_t row, double *weights) {
    const float *q = a->q + (size_t)(first_row(a, which) + row) * a->head,
                *got = a->first[which] + (size_t)row * a->head;
    double sum = 0, most = -1e300, error = 0, norm = 0;
    uint32_t j, c;
    for (j = 0; j < a->keys; j++) {
        for (weights[j] = 0, c = 0; c < a->head; c++) weights[j] += (double)q[c] * a->k[(size_t)j * a->head + c];
        weights[j] /= sqrt((double)a->head);
        if (weights[j] > most) most = weights[j];
    }
    for (j = 0; j < a->keys; j++) sum += weights[j] = exp(weights[j] - most);
    for (c = 0; c < a->head; c++) {
        double exact = 0;
        for (j = 0; j < a->keys; j++) exact += weights[j] / sum * a->v[(size_t)j * a->head + c];
        error += (got[c] - exact) * (got[c] - exact);
        norm += exact * exact;
    }
    return sqrt(error / norm);
}

static void check_rows(const long_attention *a) {
    double *weights = malloc(a->keys * sizeof *weights);
    int which;
    for (which = 0; which < CASES; which++) {
        uint32_t rows[2] = {0, a->rows - 1};
        int i;
        for (i = 0; i < 2; i++) {
            double error = row_error(a, which, rows[i], weights);
            /* exp of the drivers is off by up to 17 units in the last place, scores near 20 round by 1e-6, and values
               of both signs nearly cancel */
            CHECK_MESSAGE(error < 1e-4, "%u keys, case %d, row %u: relative L2 %.2e", a->keys, which, rows[i], error);
        }
    }
    free(weights);
}

/* The first of the budgets must cut into at least `least` pieces, or as many as there are workgroups, the last of them
   nothing: for a device as slow as processors are, which a single workgroup fills. */
static void test_attention(diti_device *device, uint32_t head, uint32_t keys, uint32_t rows, const uint32_t *limits,
                           int count, uint32_t least) {
    const size_t out_bytes = (size_t)rows * head * sizeof(float);
    long_attention a = {0};
    const diti_speed own = device->speed;
    const diti_limits own_limits = device->limits;
    float *outs[CASES];
    int which, i;
    device->speed.us_per_gflop = 1000000;
    device->speed.us_per_gigabyte = 2000000;
    device->speed.launch_us = 10;
    device->limits.cores = 0;
    device->limits.cores_told = true;
    a.head = head;
    a.keys = keys;
    a.rows = rows;
    a.q = random_floats((size_t)keys * head, 6, 1);
    a.k = random_floats((size_t)keys * head, 2, 2);
    a.v = random_floats((size_t)keys * head, 1, 3);
    for (which = 0; which < CASES; which++) a.first[which] = calloc(1, out_bytes), outs[which] = calloc(1, out_bytes);
    for (i = 0; i < count; i++) {
        device->max_slice_us = limits[i];
        run_attention(device, &a, i ? outs : a.first);
        if (i == 0)
            CHECK_MESSAGE(a.pieces >= least || a.pieces >= a.most, "%u keys: only %u pieces of %u workgroups", keys,
                          a.pieces, a.most);
        if (i == count - 1) CHECK_MESSAGE(a.pieces == 2 * CASES, "%u keys: %u pieces", keys, a.pieces);
        for (which = 0; i && which < CASES; which++)
            CHECK_MESSAGE(!memcmp(outs[which], a.first[which], out_bytes),
                          "%u keys, case %d: other bytes within %u us than within %u", keys, which, limits[i],
                          limits[0]);
    }
    check_rows(&a);
    device->speed = own;
    device->limits = own_limits;
    for (which = 0; which < CASES; which++) free(a.first[which]), free(outs[which]);
    free(a.q), free(a.k), free(a.v);
}

int main(void) {
    static const uint32_t few[] = {1, 1000000000}, many[] = {1, 700, 9000, 1000000000};
    const char *all = getenv("DIT_TEST_ALL");
    bool thorough = all && !strcmp(all, "1");
    dit_context_desc desc = {0};
    dit_context *ctx = NULL;
    dit_error err = {0};
    test_vulkan_begin();
    desc.overrides = "rung=base";
    if (CHECK_MESSAGE(dit_context_create(&desc, &ctx, &err) == DIT_OK, "%s", err.message)) {
        check_model(ctx, TINY, 64);
        check_model(ctx, BUNDLED, 128);
        test_large_ops(ctx->device);
        test_attention(ctx->device, 64, 3001, 512, many, 4, 16 * CASES);
        /* an autoencoder's at 737 pixels, which Mesa would break off without a word if its loops were not kept short */
        test_attention(ctx->device, 512, 8464, 16, few, 2, CASES);
        if (thorough)
            test_attention(ctx->device, 64, 100003, 512, many, 4, 16 * CASES);
        else
            test_attention(ctx->device, 64, 100003, 64, few, 2, 2 * CASES);
    }
    dit_context_destroy(ctx);
    test_vulkan_end();
    return TEST_END("watchdog");
}
