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
    if (request->guidance.skip_layer > 0 || request->guidance.first > 0 || request->guidance.last > 0 ||
        request->shape.reuse.gate > 0)
        return methods;
    return methods | DITI_SPLIT_SHARDS;
}

/* Operations and bytes of memory per second; devices are calibrated when the context is made. */
static double diti_auto_rate(const diti_device *device) { return 1e15 / (double)device->speed.us_per_gflop; }
static double diti_auto_stream(const diti_device *device) { return 1e15 / (double)device->speed.us_per_gigabyte; }

/* The memory of a device that a share of the transformer may fill; the first one holds the rest of the pipeline. */
static double diti_auto_memory(const dit_model *model, diti_device *device) {
    const diti_transformer *const all[] = {model->transformer, diti_model_second(model)};
    double used, own = 0; /* resident ones count as free */
    uint32_t i;
    for (i = 0; i < DITI_COUNT(all) && all[i]; i++) {
        const diti_weights *weights = &all[i]->component.weights;
        own += (double)diti_replicas_bytes(weights->replicas, device);
        if (device == model->device) own += (double)weights->bytes;
    }
    diti_lock(&device->lock);
    used = (double)device->memory_used;
    diti_unlock(&device->lock);
    return (double)device->memory_limit > used - own ? (double)device->memory_limit - (used - own) : 1;
}

/* The numbers of a process about its devices. */
typedef struct diti_auto_numbers {
    double rate[DITI_MAX_DEVICES], stream[DITI_MAX_DEVICES], memory[DITI_MAX_DEVICES];
    uint64_t name[DITI_MAX_DEVICES]; /* hash of what the driver states */
    diti_split_rates inside;         /* between devices of the process */
    double latency, element;
    uint32_t failed; /* the process makes no job */
} diti_auto_numbers;

typedef struct diti_auto_choice {
    uint32_t made;                   /* 0: no choice, as rank lost has not told its numbers */
    uint32_t lost;                   /* rank that is missing */
    double seconds;                  /* predicted time of a picture */
    double shares[DITI_MAX_DEVICES]; /* all 0: equal */
    diti_split split;
} diti_auto_choice;

typedef struct diti_auto {
    const dit_model *model;
    const dit_context *context;
    const diti_job_request *request;
    const dit_job *made;                       /* NULL: no other process is asked */
    diti_auto_numbers ranks[DITI_MAX_DEVICES]; /* by place */
    diti_split_request q;
    diti_auto_choice choice;
} diti_auto;

static dit_result diti_auto_count(const diti_auto *a, diti_auto_numbers *out, dit_error *err) {
    const dit_context *context = a->context;
    uint32_t i;
    if (context->device_count > 1) DITI_TRY(diti_peers_measure(context->peers, err));
    out->element = a->request->shape.int8_payload ? 1 : 2;
    for (i = 0; i < context->device_count; i++) {
        diti_device *device = context->devices[i];
        if (device->rung < DITI_RUNG_FP16 && out->element > 1) out->element = 4; /* for all (diti_emit_format) */
        out->rate[i] = diti_auto_rate(device);
        out->stream[i] = diti_auto_stream(device);
        out->memory[i] = diti_auto_memory(a->model, device);
        out->name[i] = diti_hash(device->info.name, strlen(device->info.name));
    }
    out->inside = context->peers->links.inside;
    out->latency = context->peers->links.latency;
    return DIT_OK;
}

static void diti_auto_least(double *rate, double other) {
    if (other < *rate) *rate = other;
}

/* Processes are sockets. Nobody has measured what goes between them. */
static void diti_auto_join(const diti_auto *a, diti_split_box *box) {
    const diti_peers *peers = a->context->peers;
    uint32_t rank;
    box->across.pair = box->across.ring = box->across.all_to_all = 1e9;
    if (peers->count == 1) box->inside = box->across;
    for (rank = 1; rank < peers->rank_count && peers->count > 1; rank++) {
        diti_auto_least(&box->inside.pair, a->ranks[rank].inside.pair);
        diti_auto_least(&box->inside.ring, a->ranks[rank].inside.ring);
        diti_auto_least(&box->inside.all_to_all, a->ranks[rank].inside.all_to_all);
    }
    box->per_socket = peers->count > 1 ? peers->count : 0;
    box->latency = 1e-4;
}

static void diti_auto_box(const diti_auto *a, diti_split_box *box, double *element) {
    const diti_peers *peers = a->context->peers;
    uint32_t i;
    box->count = peers->all;
    *element = 0;
    for (i = 0; i < box->count; i++) {
        const diti_auto_numbers *numbers = &a->ranks[i / peers->count];
        box->devices[i].rate = numbers->rate[i % peers->count];
        box->devices[i].stream = numbers->stream[i % peers->count];
        box->devices[i].memory = numbers->memory[i % peers->count];
        if (numbers->element > *element) *element = numbers->element;
    }
    box->inside = a->ranks[0].inside;
    box->across = peers->links.across;
    box->per_socket = peers->links.per_socket;
    box->latency = a->ranks[0].latency;
    if (peers->rank_count > 1) diti_auto_join(a, box);
}

/* Whether a job can be planned so, which the planner does not know. */
static bool diti_auto_allows(const dit_model *model, const diti_job_request *request, const diti_split *split) {
    diti_job_request with = *request;
    with.shape.split = *split;
    with.shape.strips = split->degree[DITI_SPLIT_PIPEFUSION];
    return !diti_job_unsplit(model, &with) && diti_job_check_strips(model, &with, NULL) >= 0;
}

/* Without a split every process does the whole work, on its first device. */
static double diti_auto_alone(const diti_auto *a) {
    double least = a->ranks[0].memory[0];
    uint32_t rank;
    for (rank = 1; rank < a->context->peers->rank_count; rank++) diti_auto_least(&least, a->ranks[rank].memory[0]);
    return least;
}

/* The best split of the first 1, 2, … devices; more of them only where that gains something. No process must be left
   without a share of those of others. */
static void diti_auto_best(diti_auto *a, diti_split_cost *best) {
    const diti_peers *peers = a->context->peers;
    diti_split_request *q = &a->q;
    diti_split_cost costs[16], cost;
    double memory = q->box.devices[0].memory;
    uint32_t count = q->box.count, i, k, found;
    memset(best, 0, sizeof *best);
    for (i = 1; i <= count; i++) {
        if (i > 1 && i <= peers->all - peers->count) continue;
        q->box.count = i;
        q->box.devices[0].memory = i > 1 ? memory : diti_auto_alone(a);
        found = diti_split_choose(q, costs, DITI_COUNT(costs));
        if (found > DITI_COUNT(costs)) found = DITI_COUNT(costs);
        for (k = 0; k < found && !diti_auto_allows(a->model, a->request, &costs[k].split); k++) {
        }
        if (k == found) continue;
        cost = costs[k];
        if (i > 1 && (cost.fits != best->fits ? best->fits : cost.seconds > 0.98 * best->seconds)) continue;
        *best = cost;
    }
    q->box.count = count;
}

/* Shares as the devices' rates, in sixteenths of the fastest, so that every measurement gives the same; none where
 * these come out equal. */
static void diti_auto_shares(const diti_split *split, const double *rates, double *shares) {
    uint32_t ranks = diti_split_ranks(split), each, rank, i;
    double most = 0, sum;
    bool equal = true;
    each = ranks / split->degree[DITI_SPLIT_CFG];
    for (rank = 0; rank < ranks; rank++)
        if (rates[rank] > most) most = rates[rank];
    for (rank = 0; rank < ranks; rank++) {
        double share = floor(16 * rates[rank] / most + 0.5);
        shares[rank] = share < 1 ? 1 : share;
        equal = equal && share > 13;
    }
    for (rank = 0; rank < ranks; rank += each) {
        for (i = rank, sum = 0; i < rank + each; i++) sum += shares[i];
        for (i = rank; i < rank + each; i++) shares[i] = equal ? 0 : shares[i] / sum;
    }
}

/* Devices of one name get equal shares, whatever was measured. */
static void diti_auto_divide(const diti_auto *a, const diti_split *split, double *shares) {
    uint32_t count = diti_split_ranks(split), each = a->context->peers->count, i;
    double rates[DITI_MAX_DEVICES];
    bool alike = true;
    for (i = 0; i < count; i++) {
        alike = alike && a->ranks[i / each].name[i % each] == a->ranks[0].name[0];
        rates[i] = a->ranks[i / each].rate[i % each];
    }
    if (!alike) diti_auto_shares(split, rates, shares);
}

/* The best split by all numbers. */
static void diti_auto_decide(diti_auto *a) {
    diti_split_cost best;
    diti_job_split_shape(a->model, a->request, &a->q.shape);
    diti_split_usual_system(&a->q.system);
    diti_auto_box(a, &a->q.box, &a->q.system.element);
    a->q.system.steps = a->request->shape.steps * a->request->shape.image_count;
    a->q.methods = diti_auto_methods(a->model, a->request);
    diti_auto_best(a, &best);
    a->choice.made = 1;
    a->choice.split = best.split;
    a->choice.seconds = best.seconds;
    diti_auto_divide(a, &best.split, a->choice.shares);
}

/* --- several processes --- */

/* A letter's other end has come to it; else an error names a rank that does not. letter: NULL: the rank's last word is
   waited for, which is such an error. */
static dit_result diti_auto_await(const diti_auto *a, diti_letter *letter, uint32_t rank, dit_error *err) {
    diti_peers *peers = a->context->peers;
    VkSemaphore never = VK_NULL_HANDLE;
    dit_result result = diti_timeline_create(a->context->device, &never, err);
    if (result == DIT_OK) result = DIT_WORKING;
    while (result == DIT_WORKING) {
        result = diti_beats_await(peers, a->made->number, rank, err);
        if (result >= 0) result = letter ? diti_letter_poll(peers, letter, err) : DIT_WORKING;
        if (result == DIT_WORKING) result = diti_timeline_wait(a->context->device, never, 1, 1000000u, err);
    }
    diti_destroy_Semaphore(a->context->device, never);
    return result;
}

/* Sends a letter, and waits until it has left, or asks for one, and waits until it is there. */
static dit_result diti_auto_tell(const diti_auto *a, uint32_t number, uint32_t rank, const void *data, size_t size,
                                 dit_error *err) {
    diti_peers *peers = a->context->peers;
    diti_letter *letter = NULL;
    dit_result result = diti_letter_send(peers, a->made->number, number, rank, data, size, &letter, err);
    if (result == DIT_OK) result = diti_auto_await(a, letter, rank, err);
    if (letter) diti_letter_drop(peers, &letter);
    return result;
}

static dit_result diti_auto_hear(const diti_auto *a, uint32_t number, uint32_t rank, void *data, size_t size,
                                 dit_error *err) {
    diti_peers *peers = a->context->peers;
    diti_letter *letter = NULL;
    dit_result result = diti_letter_ask(peers, a->made->number, number, rank, size, &letter, err);
    if (result == DIT_OK) result = diti_auto_await(a, letter, rank, err);
    if (result == DIT_OK) memcpy(data, diti_letter_text(letter), size);
    if (letter) diti_letter_drop(peers, &letter);
    return result;
}

static uint32_t diti_auto_number(const dit_job *job) {
    return DITI_LETTER_CHOICES + (job->number >> 4) % DITI_LETTER_CHOICES; /* the tag has 4 bits of it */
}

/* A letter of another rank is taken whenever it comes, and read by nobody. */
static void diti_auto_take(const dit_job *job, uint32_t rank, size_t size) {
    diti_peers *peers = job->context->peers;
    diti_letter *letter = NULL;
    diti_letter_ask(peers, job->number, diti_auto_number(job), rank, size, &letter, NULL);
    if (letter) diti_letter_drop(peers, &letter);
}

/* The first rank hears what all others have, chooses, and tells them. A rank that has failed sends and gets letters,
   too: none stays behind that a later job might take for its own. */
static dit_result diti_auto_lead(diti_auto *a, dit_error *err) {
    const diti_peers *peers = a->context->peers;
    uint32_t number = diti_auto_number(a->made), i;
    dit_result result = DIT_OK, told;
    for (i = 1; i < peers->rank_count; i++) {
        if (result != DIT_OK) {
            diti_auto_take(a->made, peers->ranks[i], sizeof a->ranks[i]);
            continue;
        }
        a->choice.lost = peers->ranks[i];
        result = diti_auto_hear(a, number, peers->ranks[i], &a->ranks[i], sizeof a->ranks[i], err);
        if (result == DIT_OK && a->ranks[i].failed) result = diti_auto_await(a, NULL, peers->ranks[i], err);
    }
    if (result == DIT_OK) diti_auto_decide(a);
    for (i = 1; i < peers->rank_count; i++) {
        if (!a->choice.made)
            told = diti_letter_send(a->context->peers, a->made->number, number, peers->ranks[i], &a->choice,
                                    sizeof a->choice, NULL, NULL);
        else
            told = diti_auto_tell(a, number, peers->ranks[i], &a->choice, sizeof a->choice, result < 0 ? NULL : err);
        if (result == DIT_OK) result = told;
    }
    return result;
}

static dit_result diti_auto_follow(diti_auto *a, dit_error *err) {
    const diti_peers *peers = a->context->peers;
    uint32_t first = peers->ranks[0], number = diti_auto_number(a->made);
    dit_result result = diti_auto_tell(a, number, first, &a->ranks[peers->place], sizeof a->ranks[0], err);
    if (result != DIT_OK) {
        diti_auto_take(a->made, first, sizeof a->choice);
        return result;
    }
    DITI_TRY(diti_auto_hear(a, number, first, &a->choice, sizeof a->choice, err));
    if (a->choice.made) return DIT_OK;
    if (a->choice.lost == first) return diti_auto_await(a, NULL, first, err);
    return diti_fail(err, DIT_ERROR_TRANSPORT, "rank %u is gone, says rank %u", a->choice.lost, first);
}

DIT_INTERNAL void diti_job_choose_nothing(const dit_job *job) {
    diti_peers *peers = job->context->peers;
    diti_auto *a = (diti_auto *)diti_alloc_zero(&job->env, sizeof *a);
    uint32_t first = peers->ranks[0], number = diti_auto_number(job), i;
    if (!a || peers->rank_count == 1) {
        diti_free(&job->env, a);
        return;
    }
    a->choice.lost = first;
    a->ranks[0].failed = 1;
    if (peers->place) {
        diti_letter_send(peers, job->number, number, first, &a->ranks[0], sizeof a->ranks[0], NULL, NULL);
        diti_auto_take(job, first, sizeof a->choice);
    }
    for (i = 1; i < peers->rank_count && !peers->place; i++) {
        diti_auto_take(job, peers->ranks[i], sizeof a->ranks[i]);
        diti_letter_send(peers, job->number, number, peers->ranks[i], &a->choice, sizeof a->choice, NULL, NULL);
    }
    diti_free(&job->env, a);
}

static dit_result diti_auto_find(diti_auto *a, dit_error *err) {
    diti_peers *peers = a->context->peers;
    diti_auto_numbers *own = &a->ranks[peers->place];
    uint32_t rank;
    dit_result result = diti_auto_count(a, own, err);
    if (peers->rank_count > 1 && a->made && result < 0) diti_job_choose_nothing(a->made);
    DITI_TRY(result);
    if (peers->rank_count > 1 && a->made) return peers->place ? diti_auto_follow(a, err) : diti_auto_lead(a, err);
    for (rank = 0; rank < peers->rank_count; rank++)
        if (rank != peers->place) a->ranks[rank] = *own;
    diti_auto_decide(a);
    return DIT_OK;
}

static dit_result diti_auto_choose(const dit_model *model, const dit_context *context, const dit_job *made,
                                   diti_job_request *request, dit_error *err) {
    diti_auto *a = (diti_auto *)diti_alloc_zero(&model->env, sizeof *a);
    dit_result result;
    if (!a) return diti_fail_memory(err, "choosing a split");
    a->model = model;
    a->context = context;
    a->made = made;
    a->request = request;
    result = diti_auto_find(a, err);
    if (result >= 0) {
        request->shape.split = a->choice.split;
        request->shape.strips = a->choice.split.degree[DITI_SPLIT_PIPEFUSION];
        request->predicted_seconds = a->choice.seconds;
        memcpy(request->shape.shares, a->choice.shares, sizeof request->shape.shares);
    }
    diti_free(&model->env, a);
    return result;
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

DIT_INTERNAL dit_result diti_job_choose(const dit_model *model, const dit_context *context, const dit_job *made,
                                        diti_job_request *request, dit_error *err) {
    diti_split *split = &request->shape.split;
    double rates[DITI_MAX_DEVICES];
    char name[DITI_SPLIT_NAME];
    const char *why;
    uint32_t axis, i;
    if (!split->degree[0] && context && context->peers) {
        DITI_TRY(diti_auto_choose(model, context, made, request, err));
        diti_auto_log(model, request);
    }
    for (axis = 0; axis < DITI_SPLIT_AXES && !split->degree[axis]; axis++) split->degree[axis] = 1;
    why = diti_split_ranks(split) > 1 ? diti_job_unsplit(model, request) /* the prompts are known by now */
                                      : diti_job_strips_uneven(model, request);
    if (why)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: %s", diti_job_print_split(&request->shape, name),
                         why);
    if (request->shape.shares[0] > 0 || diti_split_ranks(split) == 1 || !context || !context->peers ||
        diti_split_ranks(split) > context->device_count || context->peers->all > context->device_count ||
        diti_auto_alike(context, diti_split_ranks(split)))
        return DIT_OK;
    for (i = 0; i < context->device_count; i++) rates[i] = diti_auto_rate(context->devices[i]);
    diti_auto_shares(split, rates, request->shape.shares);
    return DIT_OK;
}
