/* Tuning on request: every kernel has a usual size of tiles and up to two others, which give the same bytes. Ops ask
   here which one to take; where that was never measured on the device they leave a case, and diti_tune_run measures
   the cases of a graph, which is then built again. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

#define DITI_TUNE_RUNS 5u    /* runs of each candidate, in turn, so that what else the machine does meets all alike */
#define DITI_TUNE_US 4000.0f /* about so long is one run */
#define DITI_TUNE_SLICE_US 500000u  /* runs are not cut */
#define DITI_TUNE_BYTES (64u << 20) /* most of one operand; larger cases keep the usual tiles */
#define DITI_TUNE_GAIN 0.97         /* fraction of the usual tiles' time below which a candidate replaces them */

/* --- measuring --- */

static diti_tensor diti_tune_tensor(diti_graph *graph, diti_element format, uint64_t rows, uint64_t columns) {
    if (rows * columns * diti_element_size(format) > DITI_TUNE_BYTES)
        return diti_graph_fail(graph, DIT_ERROR_OUT_OF_DEVICE_MEMORY, "too large to be tuned");
    return diti_tensor_state(graph, format, (uint32_t)rows, (uint32_t)columns, "tuned");
}

static void diti_tune_gemm(diti_graph *graph, const diti_tune_case *c, uint32_t times) {
    const diti_gemm_image *image = &c->image;
    uint64_t rows = c->rows;
    uint32_t i, taps = image->kernel ? image->kernel * image->kernel * image->frames : 1;
    diti_gemm gemm = DITI_ZERO;
    if (image->kernel)
        rows =
            (image->frames > 1 || image->frame_stride > 1 ? image->in_frames
                                                          : rows / ((uint64_t)image->out_height * image->out_width)) *
            (image->height >> image->upsample) * (image->width >> image->upsample);
    gemm.x = diti_tune_tensor(graph, c->formats[0], rows, c->depth);
    gemm.weight = diti_tune_tensor(graph, c->formats[1], c->columns, (uint64_t)taps * ((c->depth + 3u) & ~3u));
    gemm.out = diti_tune_tensor(graph, c->formats[2], c->rows, c->columns);
    gemm.rows = c->rows;
    gemm.columns = c->columns;
    gemm.depth = c->depth;
    gemm.parts = 1;
    gemm.image = image->kernel ? image : NULL;
    gemm.name = "tuned product";
    for (i = 0; i < times && !diti_graph_failed(graph); i++) diti_op_gemm(graph, &gemm);
}

static void diti_tune_attention(diti_graph *graph, const diti_tune_case *c, uint32_t times) {
    uint32_t i, width = c->depth * c->head_dim;
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor q = diti_tune_tensor(graph, c->formats[0], c->rows, width);
    diti_tensor k = diti_tune_tensor(graph, c->formats[0], c->columns, width);
    desc.batch = 1;
    desc.heads = c->depth;
    desc.head_dim = c->head_dim;
    desc.scale = 1.0f;
    desc.name = "tuned attention";
    for (i = 0; i < times && !diti_graph_failed(graph); i++) diti_attention(graph, q, k, k, &desc);
}

static void diti_tune_emit(diti_graph *graph, const diti_tune_case *c, uint32_t times) {
    if (c->kind == DITI_TUNE_GEMM)
        diti_tune_gemm(graph, c, times);
    else
        diti_tune_attention(graph, c, times);
}

static uint32_t diti_tune_times(const diti_device *device, const diti_tune_case *c) {
    double flops = 2.0 * c->rows * c->columns * c->depth;
    double us;
    if (c->kind == DITI_TUNE_ATTENTION) flops *= 2.0 * c->head_dim;
    if (c->image.kernel) flops *= c->image.kernel * c->image.kernel * c->image.frames;
    us = flops * 1e-9 * (double)device->speed.us_per_gflop + (double)device->speed.launch_us;
    return us * 32 < (double)DITI_TUNE_US ? 32u
           : us >= (double)DITI_TUNE_US   ? 1u
                                          : (uint32_t)((double)DITI_TUNE_US / us);
}

typedef struct diti_tuning {                /* the candidates of one case */
    diti_plan *plans[DITI_TUNE_CANDIDATES]; /* NULL: the candidate is the same kernel as an earlier one */
    diti_dispatch made[DITI_TUNE_CANDIDATES];
    double us[DITI_TUNE_CANDIDATES]; /* time of the shortest run */
} diti_tuning;

static dit_result diti_tune_prepare(diti_device *device, const diti_tune_case *c, uint32_t candidate,
                                    diti_tuning *tuning, dit_error *err) {
    const diti_dispatch *made = &tuning->made[candidate];
    diti_graph graph;
    dit_result result;
    uint32_t i;
    bool same = false;
    diti_graph_init(&graph, device);
    graph.candidate = candidate + 1;
    graph.slice_us = DITI_TUNE_SLICE_US;
    diti_graph_segment(&graph, "begin", false);
    diti_graph_segment(&graph, "tune", false);
    diti_tune_emit(&graph, c, diti_tune_times(device, c));
    result = graph.error.result;
    if (result < 0 && err) *err = graph.error;
    if (result >= 0) tuning->made[candidate] = graph.dispatches[0];
    for (i = 0; i < candidate && result >= 0; i++)
        same = same || (tuning->made[i].kernel == made->kernel &&
                        !memcmp(tuning->made[i].constants, made->constants, sizeof made->constants));
    if (result >= 0 && !same) result = diti_plan_create(&graph, NULL, &tuning->plans[candidate], err);
    diti_graph_free(&graph);
    if (result >= 0 && !same) result = diti_plan_run(tuning->plans[candidate], 0, 2, err); /* first runs may compile */
    return result;
}

static dit_result diti_tune_candidates(diti_device *device, const diti_tune_case *c, diti_tuning *tuning,
                                       dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i, run;
    for (i = 0; i < DITI_TUNE_CANDIDATES && result >= 0; i++) {
        tuning->us[i] = HUGE_VAL;
        result = diti_tune_prepare(device, c, i, tuning, err);
    }
    for (run = 0; run < DITI_TUNE_RUNS; run++) {
        for (i = 0; i < DITI_TUNE_CANDIDATES && result >= 0; i++) {
            double us = HUGE_VAL;
            if (tuning->plans[i]) result = diti_plan_time(tuning->plans[i], 1, &us, err);
            if (us < tuning->us[i]) tuning->us[i] = us;
        }
    }
    return result;
}

/* A product that cannot be measured keeps the usual tiles; only a lost device ends the tuning. */
static dit_result diti_tune_one(diti_device *device, const diti_tune_case *c, dit_error *err) {
    diti_tuning tuning = DITI_ZERO;
    uint32_t i, best = 0;
    dit_error error = DITI_ZERO;
    dit_result result = diti_tune_candidates(device, c, &tuning, &error);
    for (i = 0; i < DITI_TUNE_CANDIDATES; i++) {
        diti_plan_destroy(tuning.plans[i]);
        if (tuning.us[i] < tuning.us[best] * DITI_TUNE_GAIN) best = i;
    }
    if (result == DIT_ERROR_DEVICE_LOST) {
        if (err) *err = error;
        return result;
    }
    if (result >= 0)
        diti_log(&device->env, DITI_LOG_INFO, "%s of %u x %u x %u: %.0f, %.0f, %.0f us; candidate %u is taken",
                 c->kind == DITI_TUNE_GEMM ? "products" : "attention", c->rows, c->columns, c->depth, tuning.us[0],
                 tuning.us[1], tuning.us[2], best);
    diti_tuned_add(device, c->shapes, result >= 0 ? best : 0);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_tune_run(diti_graph *graph, const dit_progress *progress, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0; i < graph->wanted_count && result == DIT_OK; i++) {
        result = diti_tune_one(graph->device, &graph->wanted[i], err);
        if (result == DIT_OK && progress && progress->func &&
            !progress->func("measuring kernels", i + 1, graph->wanted_count, progress->user))
            result = DIT_CANCELLED;
    }
    return result;
}
