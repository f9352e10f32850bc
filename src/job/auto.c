/* Which split suits a job and the devices of its context, from what is measured: how fast each device is, what goes
   between them, how much memory there is. And how unequal devices share the work. */
#include "job/job.h"

/* A method that computes a slightly other picture is taken where it or auto:any is named only. */
static uint32_t diti_auto_methods(const dit_model *model, const diti_job_request *request) {
    uint32_t methods = 0, axis, i;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        diti_job_request with = *request;
        for (i = 0; i < DITI_SPLIT_AXES; i++) with.shape.split.degree[i] = i == axis ? 2 : 1;
        if ((diti_split_is_exact(axis) || request->shape.any) && !diti_job_unsplit(model, &with)) methods |= 1u << axis;
    }
    if (request->guidance.skip_layer > 0 || request->guidance.first > 0 || request->guidance.last > 0) return methods;
    return methods | DITI_SPLIT_SHARDS;
}

/* Operations and bytes of memory per second; devices are calibrated when the context is made. */
static double diti_auto_rate(const diti_device *device) { return 1e15 / (double)device->speed.us_per_gflop; }
static double diti_auto_stream(const diti_device *device) { return 1e15 / (double)device->speed.us_per_gigabyte; }

/* The memory of a device that a share of the transformer may fill; the first one holds the rest of the pipeline. */
static double diti_auto_memory(const dit_model *model, diti_device *device) {
    const diti_weights *weights = &model->transformer->component.weights; /* resident ones count as free */
    double used, own = (double)diti_replicas_bytes(weights->replicas, device);
    if (device == model->device) own += (double)weights->bytes;
    diti_lock(&device->lock);
    used = (double)device->memory_used;
    diti_unlock(&device->lock);
    return (double)device->memory_limit > used - own ? (double)device->memory_limit - (used - own) : 1;
}

static dit_result diti_auto_box(const dit_model *model, const dit_context *context, diti_split_box *box,
                                dit_error *err) {
    const diti_split_links *links = &context->peers->links;
    uint32_t i;
    DITI_TRY(diti_peers_measure(context->peers, err));
    box->count = context->device_count;
    for (i = 0; i < box->count; i++) {
        box->devices[i].rate = diti_auto_rate(context->devices[i]);
        box->devices[i].stream = diti_auto_stream(context->devices[i]);
        box->devices[i].memory = diti_auto_memory(model, context->devices[i]);
    }
    box->inside = links->inside;
    box->across = links->across;
    box->per_socket = links->per_socket;
    box->latency = links->latency;
    return DIT_OK;
}

/* Every process must choose the same without asking the others: as if all devices were alike. */
static void diti_auto_assume_equal(const dit_context *context, diti_split_box *box) {
    uint32_t i;
    box->count = context->peers->all;
    for (i = 0; i < box->count; i++) {
        box->devices[i].rate = 2e13;
        box->devices[i].stream = 5e11;
    }
    box->inside.pair = box->inside.ring = box->inside.all_to_all = 1e9;
    box->across = box->inside;
    box->latency = 1e-4;
}

/* Whether a job can be planned so, which the planner does not know. */
static bool diti_auto_allows(const dit_model *model, const diti_job_request *request, const diti_split *split) {
    diti_job_request with = *request;
    with.shape.split = *split;
    with.shape.strips = split->degree[DITI_SPLIT_PIPEFUSION];
    return !diti_job_unsplit(model, &with) && diti_job_check_strips(model, &with, NULL) >= 0;
}

/* The best split of the first 1, 2, … devices; more of them only where that gains something. */
static void diti_auto_best(const dit_model *model, const diti_job_request *request, diti_split_request *q,
                           uint32_t count, diti_split_cost *best) {
    diti_split_cost costs[16], cost;
    uint32_t i, k, found;
    memset(best, 0, sizeof *best);
    for (i = 1; i <= count; i++) {
        q->box.count = i;
        found = diti_split_choose(q, costs, DITI_COUNT(costs));
        if (found > DITI_COUNT(costs)) found = DITI_COUNT(costs);
        for (k = 0; k < found && !diti_auto_allows(model, request, &costs[k].split); k++) {
        }
        if (k == found) continue;
        cost = costs[k];
        if (i > 1 && (cost.fits != best->fits ? best->fits : cost.seconds > 0.98 * best->seconds)) continue;
        *best = cost;
    }
    q->box.count = count;
}

static dit_result diti_auto_choose(const dit_model *model, const dit_context *context, diti_job_request *request,
                                   dit_error *err) {
    diti_split_request *q = (diti_split_request *)diti_alloc_zero(&model->env, sizeof *q);
    bool alone = context->peers->all == context->device_count;
    diti_split_cost best;
    dit_result result = DIT_OK;
    if (!q) return diti_fail_memory(err, "choosing a split");
    diti_job_split_shape(model, request, &q->shape);
    diti_split_usual_system(&q->system);
    q->system.element = request->shape.int8_payload ? 1 : context->device->rung >= DITI_RUNG_FP16 ? 2 : 4;
    q->system.steps = request->shape.steps * request->shape.image_count;
    q->methods = diti_auto_methods(model, request);
    if (alone)
        result = diti_auto_box(model, context, &q->box, err);
    else
        diti_auto_assume_equal(context, &q->box);
    if (result >= 0) {
        diti_auto_best(model, request, q, q->box.count, &best);
        request->shape.split = best.split;
        request->shape.strips = best.split.degree[DITI_SPLIT_PIPEFUSION];
        request->predicted_seconds = alone ? best.seconds : 0;
    }
    diti_free(&model->env, q);
    return result;
}

/* Shares as the devices' rates, in sixteenths of the fastest, so that every measurement gives the same; none where
 * these come out equal. */
static void diti_auto_shares(const dit_context *context, diti_job_request *request) {
    uint32_t ranks = diti_split_ranks(&request->shape.split), each, rank, i;
    double most = 0, sum;
    bool equal = true;
    each = ranks / request->shape.split.degree[DITI_SPLIT_CFG];
    for (rank = 0; rank < ranks; rank++)
        if (diti_auto_rate(context->devices[rank]) > most) most = diti_auto_rate(context->devices[rank]);
    for (rank = 0; rank < ranks; rank++) {
        double share = floor(16 * diti_auto_rate(context->devices[rank]) / most + 0.5);
        request->shape.shares[rank] = share < 1 ? 1 : share;
        equal = equal && share > 13;
    }
    for (rank = 0; rank < ranks; rank += each) {
        for (i = rank, sum = 0; i < rank + each; i++) sum += request->shape.shares[i];
        for (i = rank; i < rank + each; i++) request->shape.shares[i] = equal ? 0 : request->shape.shares[i] / sum;
    }
}

static bool diti_auto_alike(const dit_context *context, uint32_t count) {
    uint32_t i;
    for (i = 1; i < count; i++)
        if (strcmp(context->devices[0]->info.name, context->devices[i]->info.name) != 0) return false;
    return true;
}

static void diti_auto_log(const dit_model *model, const diti_job_request *request) {
    char name[DITI_SPLIT_NAME];
    diti_log(&model->env, DITI_LOG_INFO, "split auto: %s of %u devices; %.3g s a picture are predicted",
             diti_job_print_split(&request->shape, name), diti_split_ranks(&request->shape.split),
             request->predicted_seconds);
}

DIT_INTERNAL dit_result diti_job_choose(const dit_model *model, const dit_context *context, diti_job_request *request,
                                        dit_error *err) {
    diti_split *split = &request->shape.split;
    bool automatic = !split->degree[0];
    uint32_t axis;
    if (automatic && context && context->peers) {
        DITI_TRY(diti_auto_choose(model, context, request, err));
        if (request->predicted_seconds > 0) diti_auto_log(model, request);
    }
    for (axis = 0; axis < DITI_SPLIT_AXES && !split->degree[axis]; axis++) split->degree[axis] = 1;
    if (request->shape.shares[0] > 0 || diti_split_ranks(split) == 1 || !context || !context->peers ||
        diti_split_ranks(split) > context->device_count || context->peers->all > context->device_count ||
        diti_auto_alike(context, diti_split_ranks(split)))
        return DIT_OK;
    diti_auto_shares(context, request);
    return DIT_OK;
}
