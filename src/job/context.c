/* Contexts: the devices they work on. */
#include "job/job.h"

/* Finds what the same physical device has proved before. */
static bool diti_context_has_proved(const dit_context *context, diti_device *device) {
    uint32_t i;
    for (i = 0; i < device->ordinal; i++) {
        const diti_device *same = context->devices[i];
        if (!device->owns_device || !same->owns_device || same->physical != device->physical) continue;
        device->rung = same->rung;
        device->half_products = same->half_products;
        device->coop_convolutions = same->coop_convolutions;
        device->coop_pairs = same->coop_pairs;
        device->coop_i8 = same->coop_i8;
        device->coop_float8 = same->coop_float8;
        device->dot = same->dot;
        device->packed_dot = same->packed_dot;
        device->coop_attention = same->coop_attention;
        device->coop_attention_khr = same->coop_attention_khr;
        memcpy(device->khr_is_faster, same->khr_is_faster, sizeof device->khr_is_faster);
        device->coop_attention_i8 = same->coop_attention_i8;
        device->coop_layout = same->coop_layout;
        device->half_attention = same->half_attention;
        device->team = same->team;
        device->attention_team = same->attention_team;
        device->dot_attention = same->dot_attention;
        device->speed = same->speed;
        device->calibrated = same->calibrated;
        device->calibrated_rung = same->calibrated_rung;
        device->dropped = same->dropped;
        memcpy(device->info.rung, same->info.rung, sizeof device->info.rung);
        return true;
    }
    return false;
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
#ifdef DIT_NO_TUNE
    if (desc->tune)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: tune must be false: this build was made without tuning (DIT_NO_TUNE)");
#endif
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

/* A device that was lost in a self-test is opened again without the class of kernels that lost it, or without compiling
   ahead, with what was proved before. This is not possible with a device of the application's, or one that shares its
   VkDevice. */
static dit_result diti_context_prove(dit_context *context, const dit_context_desc *desc, diti_device_place *place,
                                     dit_error *err) {
    diti_device **device = &context->devices[place->ordinal];
    diti_proof proofs[DITI_CLASSES + 1];
    dit_error why = DITI_ZERO;
    dit_result result = DIT_OK;
    int i;
    while (!diti_context_has_proved(context, *device)) {
        const bool ahead = diti_selftest_compiles_ahead(context, *device);
        result = diti_selftest_device(context, *device, &why);
        if (result != DIT_ERROR_DEVICE_LOST || !(*device)->owns_device) break;
        if ((*device)->dropped == place->dropped && ahead == diti_selftest_compiles_ahead(context, *device)) break;
        place->dropped = (*device)->dropped;
        for (i = 0; i <= DITI_CLASSES; i++) proofs[i] = diti_proof_find(*device, (diti_class)i);
        diti_device_close(*device);
        *device = NULL;
        context->device_count--;
        result = diti_device_open_beside(desc, &context->env, place, device, err);
        DITI_TRY(result);
        context->device_count++;
        (*device)->fail_submit_after = 0; /* the override has had its effect */
        for (i = 0; i <= DITI_CLASSES; i++)
            if (proofs[i] != DITI_PROOF_UNKNOWN) diti_proof_put(*device, (diti_class)i, proofs[i]);
    }
    if (result == DIT_ERROR_DEVICE_LOST && !(*device)->owns_device)
        return diti_fail_vk(
            err, VK_ERROR_DEVICE_LOST,
            "%s; it was lost in a self-test: make the device anew and set overrides to \"rung=half\", or "
            "to a lower rung",
            why.message);
    if (result < 0 && err) *err = why;
    return result;
}

static dit_result diti_context_open_device(dit_context *context, const dit_context_desc *desc, diti_device_place *place,
                                           dit_error *err) {
    diti_device **out = &context->devices[place->ordinal];
    dit_result result;
    uint32_t i;
    place->dropped = 0;
    DITI_TRY(place->count > 1 ? diti_device_open_beside(desc, &context->env, place, out, err)
                              : diti_device_open(desc, &context->env, out, err));
    context->device_count++;
    result = diti_context_prove(context, desc, place, err);
    if (result != DIT_OK) return result;
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
    for (; place.ordinal < place.count && result == DIT_OK; place.ordinal++) {
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
    if (result == DIT_OK) diti_context_level(context);
    return result;
}

static dit_result diti_context_open(dit_context *context, const dit_context_desc *desc, dit_error *err) {
    dit_result result;
    context->worker = desc->worker;
    context->progress = desc->progress;
    diti_marks_read(&context->marks, desc);
    context->overrides = diti_copy_string(&context->env, desc->overrides);
    if (desc->overrides && !context->overrides) return diti_fail_memory(err, "the context");
    result = diti_context_open_devices(context, desc, err);
    if (result != DIT_OK) return result;
    if (context->device_count > 1 || desc->transport.rank_count > 1 || desc->transport.rank)
        DITI_TRY(diti_peers_create(&context->env, context->devices, context->device_count, &desc->transport,
                                   context->overrides, &context->peers, err));
    context->progress = diti_beats_progress(context->peers, &desc->progress, &context->telling);
    return desc->trace ? diti_context_trace(context, desc->trace_light, err) : DIT_OK;
}

DIT_API dit_result dit_context_create(const dit_context_desc *desc, dit_context **out, dit_error *err) {
    dit_context *context;
    diti_env env;
    dit_result result;
    if (!out) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_create: out is NULL");
    *out = NULL;
    DITI_TRY(diti_context_check(desc, err));
    DITI_TRY(diti_env_init(&env, &desc->allocator, &desc->logger, err));
    context = (dit_context *)diti_alloc_zero(&env, sizeof *context);
    if (!context) return diti_fail_memory(err, "the context");
    context->env = env;
    result = diti_context_open(context, desc, err);
    if (result != DIT_OK) {
        dit_context_destroy(context);
        return result;
    }
    *out = context;
    return DIT_OK;
}

/* A job that is planned meanwhile may find that a kernel does not compile. */
static void diti_context_copy_info(diti_device *device, dit_device_info *out) {
    diti_lock(&device->lock);
    *out = device->info;
    diti_unlock(&device->lock);
}

DIT_API dit_result dit_context_device(const dit_context *ctx, dit_device_info *out, dit_error *err) {
    if (!ctx || !out)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_device: ctx and out must be given");
    diti_context_copy_info(ctx->device, out);
    return DIT_OK;
}

DIT_API dit_result dit_context_devices(const dit_context *ctx, dit_device_info *out, uint32_t *count, dit_error *err) {
    uint32_t i;
    if (!ctx || !count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_devices: ctx and count must be given");
    if (!out || *count > ctx->device_count) *count = ctx->device_count;
    for (i = 0; out && i < *count; i++) diti_context_copy_info(ctx->devices[i], &out[i]);
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
    DITI_TRY(result);
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
    diti_retired_end(ctx, NULL);
    diti_peers_destroy(ctx->peers);
    while (ctx->device_count) diti_device_close(ctx->devices[--ctx->device_count]); /* the first has the instance */
    diti_trace_destroy(ctx->trace);
    diti_free(&env, ctx->overrides);
    diti_free(&env, ctx);
}
