/* Contexts: the device they work on, the proof that its rung computes right, and how fast it is. */
#include "job/job.h"

#define DITI_PROBE_SIZE 192u /* rows, columns and depth of the self-test's matrix product */

static float diti_probe_value(uint32_t i) { return (float)((i * 2654435761u) >> 20) / 4096.0f - 0.5f; }

/* Runs one matrix product through the graph and times it. inputs: [n, n] activations and [n, n] weights, row-major. */
static dit_result diti_probe_run(diti_device *device, const diti_weight *weight, const float *input, float *output,
                                 dit_error *err) {
    const uint32_t n = DITI_PROBE_SIZE;
    const size_t bytes = (size_t)n * n * sizeof(float);
    diti_linear_desc desc;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor x, y;
    dit_result result;
    memset(&desc, 0, sizeof desc);
    desc.out_f32 = true;
    desc.name = "self-test";
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "self-test", false);
    x = diti_tensor_input(&graph, DITI_F32, n, n, "self-test input");
    desc.out = diti_tensor_state(&graph, DITI_F32, n, n, "self-test output");
    y = diti_linear(&graph, x, weight, &desc);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_plan_write(plan, x, input, bytes, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err); /* the first run may pay for compilation in the driver */
    if (result >= 0) result = diti_plan_read(plan, y, output, bytes, err);
    if (result >= 0) {
        diti_plan_learn(plan);
        if (diti_plan_last_slice_us(plan))
            device->us_per_gflop = (float)diti_plan_last_slice_us(plan) / (2e-9f * (float)n * (float)n * (float)n);
    }
    diti_plan_destroy(plan);
    return result;
}

/* Relative L2 error of what the device computed. The rungs promise 1e-5 (fp32) and 2e-2 (fp16); a broken driver misses
 * by far more. */
static bool diti_probe_agrees(const float *weight, const float *input, const float *output) {
    const uint32_t n = DITI_PROBE_SIZE;
    double error = 0, norm = 0;
    uint32_t r, c, k;
    for (r = 0; r < n; r += 5) {
        for (c = 0; c < n; c += 3) {
            double exact = 0;
            for (k = 0; k < n; k++) exact += (double)input[r * n + k] * weight[c * n + k];
            error += (exact - output[r * n + c]) * (exact - output[r * n + c]);
            norm += exact * exact;
        }
    }
    return error <= norm * 1e-4; /* also false for NaN */
}

static dit_result diti_probe_device(diti_device *device, bool *agrees, dit_error *err) {
    const uint32_t n = DITI_PROBE_SIZE;
    const size_t count = (size_t)n * n;
    float *values = (float *)diti_alloc_array(&device->env, count * 3, sizeof *values);
    diti_buffer buffer;
    diti_weight weight;
    dit_result result;
    uint32_t i;
    if (!values) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the device self-test");
    memset(&buffer, 0, sizeof buffer);
    memset(&weight, 0, sizeof weight);
    for (i = 0; i < 2 * count; i++) values[i] = diti_probe_value(i);
    result = diti_buffer_create(device, count * sizeof *values, DITI_MEMORY_DEVICE, "self-test weights", &buffer, err);
    if (result >= 0) result = diti_buffer_write(device, &buffer, 0, values + count, count * sizeof *values, err);
    weight.name = "self-test weight";
    weight.type = DIT_TYPE_F32;
    weight.rows = weight.columns = n;
    weight.kernel = 1;
    weight.part_count = 1;
    weight.parts[0].buffer = &buffer;
    weight.parts[0].rows = n;
    if (result >= 0) result = diti_probe_run(device, &weight, values, values + 2 * count, err);
    *agrees = result >= 0 && diti_probe_agrees(values + count, values, values + 2 * count);
    diti_buffer_destroy(device, &buffer);
    diti_free(&device->env, values);
    return result;
}

/* Climbs down from the device's rung until one computes right. */
static dit_result diti_context_prove(dit_context *context, dit_error *err) {
    diti_device *device = context->device;
    for (;;) {
        bool agrees = false;
        dit_result result = diti_probe_device(device, &agrees, err);
        if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY ||
            result == DIT_ERROR_OUT_OF_DEVICE_MEMORY)
            return result;
        if (diti_override_is(context->overrides, "selftest_fail", diti_rung_name(device->rung))) agrees = false;
        if (agrees) break;
        if (device->rung == DITI_RUNG_BASE) {
            return result < 0
                       ? result
                       : diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                                   "device %s computes a matrix product wrong even on the base rung; update its driver",
                                   device->info.name);
        }
        diti_log(&context->env, DITI_LOG_WARNING, "device %s fails the self-test of rung %s; using rung %s",
                 device->info.name, diti_rung_name(device->rung), diti_rung_name((diti_rung)((int)device->rung - 1)));
        device->rung = (diti_rung)((int)device->rung - 1);
    }
    diti_format(device->info.rung, sizeof device->info.rung, "%s", diti_rung_name(device->rung));
    diti_log(&context->env, DITI_LOG_INFO, "device %s, rung %s, %.1f GFLOP/s in the self-test", device->info.name,
             diti_rung_name(device->rung), device->us_per_gflop > 0 ? 1e6 / (double)device->us_per_gflop : 0.0);
    return DIT_OK;
}

static dit_result diti_context_check(const dit_context_desc *desc, dit_error *err) {
    if (!desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_create: desc is NULL");
    if (desc->_zero_begin || desc->_zero_end)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: the guard members are not zero; initialise the struct with {0}");
    if (desc->vulkan_count > 1 || (desc->vulkan_count == 1) != (desc->vulkan != NULL)) {
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_context_desc: this version works with one device; vulkan_count must be 0 or 1 and match vulkan");
    }
    if (desc->transport.rank_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: this version works in one process; transport.rank_count must be 0 or 1");
    if (desc->trace_light && !desc->trace)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: trace_light makes a trace lighter; set trace, too");
    return DIT_OK;
}

/* The self-test stays out of the trace. */
static dit_result diti_context_trace(dit_context *context, bool light, dit_error *err) {
    uint64_t limit = diti_override_number(context->overrides, "trace_events", DITI_TRACE_EVENTS);
    dit_result result;
    if (limit > DITI_TRACE_EVENTS) limit = DITI_TRACE_EVENTS;
    result = diti_trace_create(&context->env, light, (uint32_t)limit, &context->trace, err);
    return result < 0 ? result : diti_trace_attach(context->trace, context->device, err);
}

static dit_result diti_context_open(dit_context *context, const dit_context_desc *desc, dit_error *err) {
    dit_result result;
    context->progress = desc->progress;
    context->worker = desc->worker;
    context->overrides = diti_copy_string(&context->env, desc->overrides);
    if (desc->overrides && !context->overrides)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the context");
    result = diti_device_open(desc, &context->env, &context->device, err);
    if (result >= 0) result = diti_context_prove(context, err);
    if (result >= 0 && desc->trace) result = diti_context_trace(context, desc->trace_light, err);
    return result;
}

DIT_API dit_result dit_context_create(const dit_context_desc *desc, dit_context **out, dit_error *err) {
    dit_context *context;
    diti_env env;
    dit_result result = diti_context_check(desc, err);
    if (result >= 0 && !out) result = diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_create: out is NULL");
    if (result < 0) return result;
    *out = NULL;
    result = diti_env_init(&env, &desc->allocator, &desc->logger, err);
    if (result < 0) return result;
    context = (dit_context *)diti_alloc_zero(&env, sizeof *context);
    if (!context) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the context");
    context->env = env;
    result = diti_context_open(context, desc, err);
    if (result < 0) {
        dit_context_destroy(context);
        return result;
    }
    *out = context;
    return DIT_OK;
}

DIT_API dit_result dit_context_save_cache(dit_context *ctx, void *blob, size_t *size, dit_error *err) {
    if (!ctx || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_save_cache: ctx and size must be given");
    return diti_cache_save(ctx->device, blob, size, err);
}

DIT_API void dit_context_destroy(dit_context *ctx) {
    diti_env env;
    if (!ctx) return;
    env = ctx->env;
    diti_device_close(ctx->device);
    diti_trace_destroy(ctx->trace);
    diti_free(&env, ctx->overrides);
    diti_free(&env, ctx);
}
