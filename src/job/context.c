/* Contexts: the device they work on, the proof that its rung computes right, and how fast it is. */
#include "job/job.h"

/* The self-test's matrix product: tiles, fragments and slices of K are left over on every side. */
#define DITI_PROBE_M 191u
#define DITI_PROBE_N 188u
#define DITI_PROBE_K 200u

static float diti_probe_value(uint32_t i) { return (float)((i * 2654435761u) >> 20) / 4096.0f - 0.5f; }

/* Runs one matrix product through the graph. timed: it says how fast the device is. */
static dit_result diti_probe_run(diti_device *device, const diti_weight *weight, bool timed, const float *input,
                                 float *output, dit_error *err) {
    const uint32_t m = DITI_PROBE_M, n = DITI_PROBE_N, k = DITI_PROBE_K;
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
    x = diti_tensor_input(&graph, DITI_F32, m, k, "self-test input");
    desc.out = diti_tensor_state(&graph, DITI_F32, m, n, "self-test output");
    y = diti_linear(&graph, x, weight, &desc);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_plan_write(plan, x, input, (size_t)m * k * sizeof *input, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0 && timed) result = diti_plan_run(plan, 0, 1, err); /* the first may pay for the driver's compiler */
    if (result >= 0) result = diti_plan_read(plan, y, output, (size_t)m * n * sizeof *output, err);
    if (result >= 0 && timed) {
        diti_plan_learn(plan);
        if (diti_plan_last_slice_us(plan))
            device->us_per_gflop = (float)diti_plan_last_slice_us(plan) / (2e-9f * (float)m * (float)n * (float)k);
    }
    diti_plan_destroy(plan);
    return result;
}

/* Relative L2 error of what the device computed. The rungs promise 1e-5 (fp32) and 1.4e-2 (fp16, int8); a broken driver
 * misses by far more. */
static bool diti_probe_agrees(const float *weight, const float *input, const float *output) {
    double error = 0, norm = 0;
    uint32_t r, c, k;
    for (r = 0; r < DITI_PROBE_M; r += 5) {
        for (c = 0; c < DITI_PROBE_N; c += 3) {
            double exact = 0;
            for (k = 0; k < DITI_PROBE_K; k++)
                exact += (double)input[r * DITI_PROBE_K + k] * weight[c * DITI_PROBE_K + k];
            error += (exact - output[r * DITI_PROBE_N + c]) * (exact - output[r * DITI_PROBE_N + c]);
            norm += exact * exact;
        }
    }
    return error <= norm * 2e-4; /* also false for NaN */
}

/* Weights as the device holds them: floats, or rows of int8 (DITI_I8) of which values becomes what they stand for. */
static uint32_t diti_probe_weights(bool i8, float *values, unsigned char *out) {
    const float scale = 1.0f / 254.0f;
    uint32_t r, k, pitch = i8 ? diti_i8_pitch(DITI_PROBE_K) : DITI_PROBE_K * (uint32_t)sizeof(float);
    for (r = 0; r < DITI_PROBE_N; r++) {
        float *row = values + (size_t)r * DITI_PROBE_K;
        unsigned char *to = out + (size_t)r * pitch;
        memset(to, 0, pitch);
        if (!i8) memcpy(to, row, pitch);
        for (k = 0; k < DITI_PROBE_K && i8; k++) {
            int8_t step = (int8_t)(row[k] * 254.0f);
            row[k] = (float)step * scale;
            memcpy(to + k, &step, 1);
        }
        if (i8) memcpy(to + (DITI_PROBE_K + 15u) / 16u * 16u, &scale, sizeof scale);
    }
    return DITI_PROBE_N * pitch;
}

static dit_result diti_probe_device(diti_device *device, bool i8, bool *agrees, dit_error *err) {
    const size_t inputs = (size_t)DITI_PROBE_M * DITI_PROBE_K, weights = (size_t)DITI_PROBE_N * DITI_PROBE_K;
    const size_t outputs = (size_t)DITI_PROBE_M * DITI_PROBE_N;
    float *values = (float *)diti_alloc_array(&device->env, inputs + outputs + 2 * weights, sizeof *values);
    float *weight_values;
    unsigned char *stored;
    diti_buffer buffer;
    diti_weight weight;
    dit_result result;
    uint32_t i, bytes;
    if (!values) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the device self-test");
    weight_values = values + inputs + outputs;
    stored = (unsigned char *)(weight_values + weights);
    memset(&buffer, 0, sizeof buffer);
    memset(&weight, 0, sizeof weight);
    for (i = 0; i < inputs; i++) values[i] = diti_probe_value(i);
    for (i = 0; i < weights; i++) weight_values[i] = diti_probe_value(i + (uint32_t)inputs);
    bytes = diti_probe_weights(i8, weight_values, stored);
    result = diti_buffer_create(device, bytes, DITI_MEMORY_DEVICE, "self-test weights", &buffer, err);
    if (result >= 0) result = diti_buffer_write(device, &buffer, 0, stored, bytes, err);
    weight.name = "self-test weight";
    weight.type = i8 ? DIT_TYPE_I8_ROW : DIT_TYPE_F32;
    weight.rows = DITI_PROBE_N;
    weight.columns = DITI_PROBE_K;
    weight.kernel = 1;
    weight.part_count = 1;
    weight.parts[0].buffer = &buffer;
    weight.parts[0].rows = DITI_PROBE_N;
    if (result >= 0) result = diti_probe_run(device, &weight, !i8, values, values + inputs, err);
    *agrees = result >= 0 && diti_probe_agrees(weight_values, values, values + inputs);
    diti_buffer_destroy(device, &buffer);
    diti_free(&device->env, values);
    return result;
}

/* What a self-test by that name means. What the device cannot help, such as a lost device, is an error; all else is a
   failed test. */
static dit_result diti_context_judge(const dit_context *context, diti_device *device, const char *name,
                                     dit_result result, bool *agrees) {
    if (diti_override_is(context->overrides, "selftest_fail", name)) *agrees = false;
    if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY ||
        result == DIT_ERROR_OUT_OF_DEVICE_MEMORY)
        return result;
    if (!*agrees)
        diti_log(&context->env, DITI_LOG_WARNING, "device %s fails the self-test of %s", device->info.name, name);
    return DIT_OK;
}

static dit_result diti_context_probe(const dit_context *context, diti_device *device, const char *name, bool i8,
                                     bool *agrees, dit_error *err) {
    dit_result result = diti_probe_device(device, i8, agrees, err);
    return diti_context_judge(context, device, name, result, agrees);
}

/* Climbs down from the device's rung until one computes right. */
static dit_result diti_context_prove_rung(const dit_context *context, diti_device *device, dit_error *err) {
    for (;;) {
        bool agrees = false;
        dit_error why = DITI_ZERO;
        dit_result result = diti_context_probe(context, device, diti_rung_name(device->rung), false, &agrees, &why);
        if (result < 0) {
            if (err) *err = why;
            return result;
        }
        if (agrees) return DIT_OK;
        if (device->rung == DITI_RUNG_BASE) {
            if (why.result < 0 && err) *err = why;
            return why.result < 0
                       ? why.result
                       : diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                                   "device %s computes a matrix product wrong even on the base rung; update its driver",
                                   device->info.name);
        }
        device->rung = (diti_rung)((int)device->rung - 1);
        if (device->rung == DITI_RUNG_COOP && !device->coop.subgroup_shape[DITI_COOP_F16].m)
            device->rung = DITI_RUNG_HALF;
        if (device->rung < DITI_RUNG_COOP) device->coop_i8 = false;
    }
}

/* The faster ways to multiply int8 rows, each alone. */
static dit_result diti_context_prove_i8(const dit_context *context, diti_device *device, dit_error *err) {
    dit_result result = DIT_OK;
    bool agrees = true;
    if (device->coop_i8) {
        result = diti_context_probe(context, device, "coop_i8", true, &agrees, err);
        device->coop_i8 = agrees;
    }
    if (result >= 0 && !device->coop_i8 && device->dot) {
        result = diti_context_probe(context, device, "dot", true, &agrees, err);
        device->dot = agrees;
    }
    return result;
}

/* Attention climbs down by itself. */
static dit_result diti_context_prove_attention(const dit_context *context, diti_device *device, const char *name,
                                               bool int8, bool *agrees, dit_error *err) {
    dit_result result = diti_probe_attention(device, int8, agrees, err);
    return diti_context_judge(context, device, name, result, agrees);
}

/* What is left to shapes that no matrix fits. */
static dit_result diti_context_prove_half(const dit_context *context, diti_device *device, dit_error *err) {
    uint32_t coop = device->coop_attention;
    dit_result result = DIT_OK;
    if (device->rung < DITI_RUNG_HALF) device->half_attention = false;
    if (!device->half_attention) return DIT_OK;
    device->coop_attention = 0;
    result = diti_context_prove_attention(context, device, "half_attention", false, &device->half_attention, err);
    device->coop_attention = coop;
    return result;
}

static dit_result diti_context_prove_attentions(const dit_context *context, diti_device *device, dit_error *err) {
    static const char *const names[] = {"", "coop_attention", "coop2_attention"};
    dit_result result = DIT_OK;
    bool agrees = false;
    if (device->rung < DITI_RUNG_COOP) device->coop_attention = 0;
    if (device->rung == DITI_RUNG_COOP && device->coop_attention > 1) device->coop_attention = 1;
    while (device->coop_attention && !agrees && result >= 0) {
        result = diti_context_prove_attention(context, device, names[device->coop_attention], false, &agrees, err);
        if (!agrees) device->coop_attention--;
    }
    if (result >= 0) result = diti_context_prove_half(context, device, err);
    if (!device->dot) device->dot_attention = false;
    if (result >= 0 && diti_attention_int8_head(device, 64)) {
        bool *int8 = device->coop_attention ? &device->coop_attention_i8 : &device->dot_attention;
        result = diti_context_prove_attention(
            context, device, device->coop_attention ? "coop_attention_i8" : "dot_attention", true, int8, err);
    }
    return result;
}

/* Each kind of kernel is skipped where it computes wrong, and the device's description says what was left out. */
static dit_result diti_context_prove_device(const dit_context *context, diti_device *device, dit_error *err) {
    diti_rung rung = device->rung;
    bool coop_i8 = device->coop_i8, dot = device->dot, half = device->half_attention;
    dit_result result = diti_context_prove_rung(context, device, err);
    if (result >= 0) result = diti_context_prove_i8(context, device, err);
    if (result >= 0) result = diti_context_prove_attentions(context, device, err);
    if (result < 0) return result;
    half = half && device->rung >= DITI_RUNG_HALF && !device->half_attention;
    diti_format(device->info.rung, sizeof device->info.rung, "%s%s%s%s%s%s", diti_rung_name(device->rung),
                device->rung != rung ? ", no " : "", device->rung != rung ? diti_rung_name(rung) : "",
                coop_i8 && !device->coop_i8 ? ", no coop_i8" : "", dot && !device->dot ? ", no dot" : "",
                half ? ", no half_attention" : "");
    diti_log(&context->env, DITI_LOG_INFO, "device %s, rung %s, %.1f GFLOP/s in the self-test", device->info.name,
             device->info.rung, device->us_per_gflop > 0 ? 1e6 / (double)device->us_per_gflop : 0.0);
    return DIT_OK;
}

/* What the same physical device has proved before. */
static bool diti_context_proved(const dit_context *context, diti_device *device) {
    uint32_t i;
    for (i = 0; i < device->ordinal; i++) {
        const diti_device *same = context->devices[i];
        if (!device->owns_device || !same->owns_device || same->physical != device->physical) continue;
        device->rung = same->rung;
        device->coop_i8 = same->coop_i8;
        device->dot = same->dot;
        device->coop_attention = same->coop_attention;
        device->coop_attention_i8 = same->coop_attention_i8;
        device->half_attention = same->half_attention;
        device->dot_attention = same->dot_attention;
        device->us_per_gflop = same->us_per_gflop;
        memcpy(device->info.rung, same->info.rung, sizeof device->info.rung);
        return true;
    }
    return false;
}

static dit_result diti_context_prove(const dit_context *context, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < context->device_count && result >= 0; i++) {
        diti_device *device = context->devices[i];
        if (!diti_context_proved(context, device)) result = diti_context_prove_device(context, device, err);
    }
    return result;
}

static dit_result diti_context_check(const dit_context_desc *desc, dit_error *err) {
    if (!desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_create: desc is NULL");
    if (desc->_zero_begin || desc->_zero_end)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: the guard members are not zero; initialise the struct with {0}");
    if (desc->vulkan_count > DITI_MAX_DEVICES || (desc->vulkan_count > 0) != (desc->vulkan != NULL))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: vulkan_count must be 0 without vulkan, else 1 to %u", DITI_MAX_DEVICES);
    if (desc->vulkan_count > 1 && desc->devices)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: set devices or several of vulkan, not both");
    if (desc->trace_light && !desc->trace)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: trace_light makes a trace lighter; set trace, too");
    return DIT_OK;
}

/* The self-test stays out of the trace. */
static dit_result diti_context_trace(dit_context *context, bool light, dit_error *err) {
    uint64_t limit = diti_override_number(context->overrides, "trace_events", DITI_TRACE_EVENTS);
    dit_result result;
    uint32_t i;
    if (limit > DITI_TRACE_EVENTS) limit = DITI_TRACE_EVENTS;
    result = diti_trace_create(&context->env, light, (uint32_t)limit, &context->trace, err);
    for (i = 0; i < context->device_count && result >= 0; i++)
        result = diti_trace_attach(context->trace, context->devices[i], err);
    return result;
}

/* Length of the first name in a list; names as drivers state them have commas in parentheses. */
static size_t diti_context_name_length(const char *list) {
    size_t length = 0;
    int depth = 0;
    for (; list[length] && (list[length] != ',' || depth > 0); length++)
        depth += list[length] == '(' ? 1 : list[length] == ')' ? -1 : 0;
    return length;
}

static uint32_t diti_context_count_devices(const dit_context_desc *desc) {
    const char *at = desc->devices;
    uint32_t count = 1;
    if (desc->vulkan_count > 1) return desc->vulkan_count;
    while (at && *(at += diti_context_name_length(at))) {
        at++;
        count++;
    }
    return count;
}

static dit_result diti_context_open_device(dit_context *context, const dit_context_desc *desc,
                                           const diti_device_place *place, dit_error *err) {
    diti_device **out = &context->devices[place->ordinal];
    uint32_t i;
    dit_result result = place->count > 1 ? diti_device_open_beside(desc, &context->env, place, out, err)
                                         : diti_device_open(desc, &context->env, out, err);
    if (result < 0) return result;
    context->device_count++;
    (*out)->tune = desc->tune;
    for (i = 0; i < place->ordinal; i++) {
        if (context->devices[i]->queue == (*out)->queue && !(*out)->joined)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_context_desc: vulkan[%u] has the queue of vulkan[%u]; every one needs its own",
                             place->ordinal, i);
    }
    return DIT_OK;
}

/* Weights are laid out once for all devices. */
static void diti_context_level(const dit_context *context) {
    const diti_limits *least = &context->device->limits;
    VkDeviceSize allocation = least->allocation, block = least->block, range = least->storage_range;
    uint32_t i;
    for (i = 1; i < context->device_count; i++) {
        least = &context->devices[i]->limits;
        if (least->allocation < allocation) allocation = least->allocation;
        if (least->block < block) block = least->block;
        if (least->storage_range < range) range = least->storage_range;
    }
    for (i = 0; i < context->device_count; i++) {
        context->devices[i]->limits.allocation = allocation;
        context->devices[i]->limits.block = block;
        context->devices[i]->limits.storage_range = range;
    }
}

static dit_result diti_context_open_devices(dit_context *context, const dit_context_desc *desc, dit_error *err) {
    dit_context_desc one = *desc;
    diti_device_place place = DITI_ZERO;
    const char *at = desc->devices;
    char name[300];
    dit_result result = DIT_OK;
    place.count = diti_context_count_devices(desc);
    if (place.count > DITI_MAX_DEVICES)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_desc: %u devices are named, at most %u can be",
                         place.count, DITI_MAX_DEVICES);
    for (; place.ordinal < place.count && result >= 0; place.ordinal++) {
        size_t length;
        while (at && *at == ' ') at++;
        length = at ? diti_context_name_length(at) : 0;
        if (desc->vulkan_count > 1) {
            one.vulkan = &desc->vulkan[place.ordinal];
            one.vulkan_count = 1;
        } else if (at && place.count > 1) {
            if (!length)
                return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "devices '%s': a name is missing", desc->devices);
            diti_format(name, sizeof name, "%.*s", length < 299 ? (int)length : 299, at);
            one.devices = name;
            at += length + (at[length] ? 1u : 0u);
        }
        result = diti_context_open_device(context, &one, &place, err);
        place.first = context->device = context->devices[0];
    }
    if (result >= 0) diti_context_level(context);
    return result;
}

static dit_result diti_context_open(dit_context *context, const dit_context_desc *desc, dit_error *err) {
    dit_result result;
    context->progress = desc->progress;
    context->worker = desc->worker;
    context->overrides = diti_copy_string(&context->env, desc->overrides);
    if (desc->overrides && !context->overrides)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the context");
    result = diti_context_open_devices(context, desc, err);
    if (result >= 0) result = diti_context_prove(context, err);
    if (result >= 0 && (context->device_count > 1 || desc->transport.rank_count > 1))
        result = diti_peers_create(&context->env, context->devices, context->device_count, &desc->transport,
                                   context->overrides, &context->peers, err);
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

DIT_API dit_result dit_context_device(const dit_context *ctx, dit_device_info *out, dit_error *err) {
    if (!ctx || !out)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_device: ctx and out must be given");
    *out = ctx->device->info;
    return DIT_OK;
}

DIT_API dit_result dit_context_devices(const dit_context *ctx, dit_device_info *out, uint32_t *count, dit_error *err) {
    uint32_t i;
    if (!ctx || !count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_devices: ctx and count must be given");
    if (!out || *count > ctx->device_count) *count = ctx->device_count;
    for (i = 0; out && i < *count; i++) out[i] = ctx->devices[i]->info;
    return DIT_OK;
}

DIT_API dit_result dit_context_save_cache(dit_context *ctx, void *blob, size_t *size, dit_error *err) {
    dit_result result = DIT_OK;
    size_t room, need = 0, used = 0, part;
    uint32_t i;
    if (!ctx || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_save_cache: ctx and size must be given");
    room = *size;
    for (i = 0; i < ctx->device_count && result >= 0; i++, need += part)
        result = diti_cache_save(ctx->devices[i], NULL, &part, err);
    if (result < 0) return result;
    *size = need;
    if (!blob) return DIT_OK;
    if (room < need)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the cache blob needs %llu bytes, only %llu were given",
                         (unsigned long long)need, (unsigned long long)room);
    for (i = 0; i < ctx->device_count && result >= 0; i++, used += part) {
        part = room - used;
        result = diti_cache_save(ctx->devices[i], (unsigned char *)blob + used, &part, err);
    }
    if (result >= 0) *size = used;
    return result;
}

DIT_API void dit_context_destroy(dit_context *ctx) {
    diti_env env;
    if (!ctx) return;
    env = ctx->env;
    diti_peers_destroy(ctx->peers);
    while (ctx->device_count) diti_device_close(ctx->devices[--ctx->device_count]); /* the first has the instance */
    diti_trace_destroy(ctx->trace);
    diti_free(&env, ctx->overrides);
    diti_free(&env, ctx);
}
