/* Steps that reuse what blocks added in earlier ones: dit_job_desc.cache read, and the table of steps that follows from
   it (docs/models.md 7.16). Residuals of a range of blocks are kept; a policy says when they stand for these
   blocks, and which sum of them. Where the device decides, the table has thresholds. */
#include "job/job.h"

typedef struct diti_reuse_policy_row {
    const char *name;
    diti_reuse_policy policy;
    uint32_t keys; /* bits of keys that it knows */
} diti_reuse_policy_row;
#define DITI_KEY(name) (1u << DITI_REUSE_##name)
#define DITI_RANGE_KEYS (DITI_KEY(FIRST) | DITI_KEY(BLOCKS) | DITI_KEY(FROM) | DITI_KEY(TO) | DITI_KEY(INTERVAL))
#define DITI_FIRST_KEYS (DITI_KEY(THRESHOLD) | DITI_KEY(FRONT) | DITI_KEY(BACK) | DITI_KEY(WARMUP) | DITI_KEY(MOST))

static const diti_reuse_policy_row diti_reuse_policies[] = {
    {"delta", DITI_REUSE_DELTA, DITI_RANGE_KEYS},
    {"taylor", DITI_REUSE_TAYLOR, DITI_RANGE_KEYS | DITI_KEY(ORDER)},
    {"spectrum", DITI_REUSE_SPECTRUM,
     DITI_KEY(FIRST) | DITI_KEY(BLOCKS) | DITI_KEY(TO) | DITI_KEY(INTERVAL) | DITI_KEY(ORDER) | DITI_KEY(WARMUP) |
         DITI_KEY(GROW) | DITI_KEY(BLEND) | DITI_KEY(RIDGE)},
    {"fbcache", DITI_REUSE_FIRST_BLOCK, DITI_FIRST_KEYS},
    {"dbcache", DITI_REUSE_FIRST_BLOCK, DITI_FIRST_KEYS},
    {"easycache", DITI_REUSE_EASY, DITI_KEY(THRESHOLD) | DITI_KEY(FROM) | DITI_KEY(TO) | DITI_KEY(MOST)},
    {"mag", DITI_REUSE_MAG, DITI_KEY(THRESHOLD) | DITI_KEY(MOST) | DITI_KEY(RETAIN) | DITI_KEY(RATIOS)},
};
static const char *const diti_reuse_keys[DITI_REUSE_KEYS] = {
    "first", "blocks", "from", "to",     "interval", "order", "threshold", "front",
    "back",  "warmup", "most", "retain", "grow",     "blend", "ridge",     "ratios"};

/* Presets by the number of steps that are asked for (docs/caching.md): below so many nothing is reused, since as much
   time is saved by a step or two less at a smaller cost; families that name no preset leave out every second step, and
   from so many on two of three. */
#define DITI_REUSE_STEPS 10u
#define DITI_REUSE_FEW "delta"
#define DITI_REUSE_MANY_STEPS 16u
#define DITI_REUSE_MANY "taylor:order=1,interval=3,from=0.2"

static dit_result diti_reuse_refuse(dit_error *err, const char *part, const char *why) {
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: cache \"%.60s\" %s", part, why);
}

/* Digits with a point, as many as are there. */
static const char *diti_reuse_number(const char *text, double *out) {
    char digits[32];
    size_t length = strspn(text, "0123456789.");
    if (!length || length >= sizeof digits || *text == '.') return NULL;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (digits[length - 1] == '.' || strchr(digits, '.') != strrchr(digits, '.')) return NULL;
    *out = diti_parse_double(digits);
    return text + length;
}

static bool diti_reuse_word(const char **at, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*at, word, length) || ((*at)[length] >= 'a' && (*at)[length] <= 'z')) return false;
    *at += length;
    return true;
}

/* "key=number", and of ratios several with strokes between. */
static const char *diti_reuse_value(const char *at, const diti_reuse_policy_row *row, diti_reuse *out) {
    uint32_t key;
    double value;
    for (key = 0; key < DITI_REUSE_KEYS; key++)
        if (row->keys >> key & 1u && diti_reuse_word(&at, diti_reuse_keys[key]) && *at == '=') break;
    if (key == DITI_REUSE_KEYS || out->given >> key & 1u) return NULL;
    do {
        at = diti_reuse_number(at + 1, &value);
    } while (at && *at == '/' && key == DITI_REUSE_RATIOS);
    out->given |= 1u << key;
    out->values[key] = (float)value;
    return at;
}

static const char *diti_reuse_part(const char *at, diti_reuse *out) {
    const diti_reuse_policy_row *row = NULL;
    double gate;
    size_t i;
    if (diti_reuse_word(&at, "references")) {
        out->references = true;
        return at;
    }
    if (diti_reuse_word(&at, "gate")) {
        if (*at != ':' || out->gate > 0) return NULL;
        at = diti_reuse_number(at + 1, &gate);
        out->gate = (float)(at && gate > 0 ? gate : 0);
        return out->gate > 0 ? at : NULL;
    }
    for (i = 0; i < DITI_COUNT(diti_reuse_policies) && !row; i++)
        if (diti_reuse_word(&at, diti_reuse_policies[i].name)) row = &diti_reuse_policies[i];
    if (!row || out->policy) return NULL;
    out->policy = row->policy;
    out->front_blocks = row->name[0] == 'd' ? 8.0f : 1.0f;
    if (*at != ':') return at;
    do {
        at = diti_reuse_value(at + 1, row, out);
    } while (at && *at == ',');
    return at;
}

/* dit_job_desc.cache, or the preset that it asks for; NULL: nothing is reused. */
static const char *diti_reuse_text(const dit_model *model, const dit_job_desc *desc) {
    const char *preset = model->transformer->traits.cache;
    uint32_t steps = desc->steps ? desc->steps : model->info.default_steps;
    if (!desc->cache || !diti_equal(desc->cache, "auto")) return desc->cache;
    if (steps < DITI_REUSE_STEPS) return NULL;
    if (preset) return preset;
    return steps < DITI_REUSE_MANY_STEPS ? DITI_REUSE_FEW : DITI_REUSE_MANY;
}

DIT_INTERNAL dit_result diti_job_request_cache(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                               dit_error *err) {
    const char *at = diti_reuse_text(model, desc);
    if (!at) return DIT_OK;
    for (;; at++) {
        at = diti_reuse_part(at, &out->shape.reuse);
        if (!at || (*at && *at != '+'))
            return diti_reuse_refuse(
                err, desc->cache,
                "is unknown; it must be \"auto\", \"references\", \"gate:STEP\", or delta, taylor, spectrum, fbcache, "
                "dbcache, easycache or mag with what docs/caching.md names behind a colon, and '+' between several");
        if (!*at) return DIT_OK;
    }
}

/* --- resolving --- */

/* The device decides what steps reuse. */
static bool diti_reuse_decides(const diti_reuse *reuse) {
    return reuse->policy == DITI_REUSE_FIRST_BLOCK || reuse->policy == DITI_REUSE_EASY;
}

static double diti_reuse_get(const diti_reuse *reuse, diti_reuse_key key, double otherwise) {
    return reuse->given >> key & 1u ? (double)reuse->values[key] : otherwise;
}

/* A number of steps or blocks, or a fraction of all. */
static uint32_t diti_reuse_of(double value, uint32_t all) {
    double count = value > 0 && value < 1 ? floor(value * all + 0.5) : floor(value);
    return count > 1e6 ? 1000000u : (uint32_t)count;
}

/* A block inside leaves nothing for one outside, and takes nothing from there. */
static bool diti_reuse_closed(const diti_model_traits *traits, uint32_t first, uint32_t end) {
    uint32_t i;
    for (i = 0; traits->skips && i + 1 < traits->layers / 2; i++) {
        uint32_t taker = traits->layers - 1 - i;
        if ((i >= first && i < end) != (taker >= first && taker < end)) return false;
    }
    return true;
}

static dit_result diti_reuse_range(const diti_model_traits *traits, const char *text, diti_reuse *reuse,
                                   dit_error *err) {
    bool decides = reuse->policy == DITI_REUSE_FIRST_BLOCK;
    uint32_t layers = traits->layers, back,
             first = diti_reuse_of(decides ? diti_reuse_get(reuse, DITI_REUSE_FRONT, (double)reuse->front_blocks)
                                           : diti_reuse_get(reuse, DITI_REUSE_FIRST, reuse->policy == DITI_REUSE_DELTA),
                                   layers);
    back = diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_BACK, traits->skips ? (double)first : 0), layers);
    if (first + back >= layers || (decides && !first))
        return diti_reuse_refuse(err, text, "leaves no block of the model's to be reused, or none before them");
    reuse->first = first;
    reuse->end = layers - back;
    if (reuse->given >> DITI_REUSE_BLOCKS & 1u)
        reuse->end = first + diti_reuse_of((double)reuse->values[DITI_REUSE_BLOCKS], layers);
    if (reuse->end <= first || reuse->end > layers)
        return diti_reuse_refuse(err, text, "names blocks beyond the model's, or none");
    if (!diti_reuse_closed(traits, reuse->first, reuse->end))
        return diti_reuse_refuse(err, text,
                                 "parts blocks of this model that hand results to mirrored ones: as many blocks must "
                                 "stay in front as behind");
    return DIT_OK;
}

static dit_result diti_reuse_check(const diti_job_request *request, const char *text, dit_error *err) {
    const diti_reuse *reuse = &request->shape.reuse;
    if (reuse->policy == DITI_REUSE_MAG && !(reuse->given >> DITI_REUSE_RATIOS & 1u))
        return diti_reuse_refuse(err, text, "needs the model's ratios: mag:ratios=1/1.02/0.99");
    if (diti_reuse_get(reuse, DITI_REUSE_ORDER, 1) > (reuse->policy == DITI_REUSE_SPECTRUM ? 5 : 2) ||
        diti_reuse_get(reuse, DITI_REUSE_INTERVAL, 2) < 1 || diti_reuse_get(reuse, DITI_REUSE_RIDGE, 1) <= 0)
        return diti_reuse_refuse(err, text,
                                 "has an order above 2 (spectrum: 5), an interval below 1, or a ridge that is not "
                                 "above 0");
    if (diti_strips_used(&request->shape) && diti_reuse_decides(reuse))
        return diti_reuse_refuse(err, text,
                                 "does not go with pipefusion, whose stages see a patch at a time and nobody all rows "
                                 "of a step before its blocks run; choose delta, taylor, spectrum or mag");
    if (diti_reuse_decides(reuse) && request->shape.int8_feedback)
        return diti_reuse_refuse(
            err, text, "does not go with int8 payloads that carry their error on; leave feedback out of split");
    return DIT_OK;
}

/* --- the table --- */

/* How much every slot counts in each finite difference of the residuals that are kept. */
typedef struct diti_reuse_history {
    double differences[3][DITI_REUSE_SLOTS];
    uint32_t count; /* residuals since the history began; differences that there are: one less than so many */
    uint32_t last;  /* step of the newest */
    uint32_t next_slot;
    bool alone, low;                  /* the newest lacks the unconditional branch; is of the expert for low noise */
    double ratio, error;              /* lengths since the newest (mag) */
    double window;                    /* steps from one that is computed to the next (spectrum) */
    uint32_t steps[DITI_REUSE_SLOTS]; /* step of the residual in each slot */
    uint32_t since;
} diti_reuse_history;

static void diti_reuse_keep(const diti_reuse *reuse, diti_reuse_history *h, uint32_t step, diti_reuse_row *row) {
    double before[3][DITI_REUSE_SLOTS], apart = (double)(step - h->last);
    uint32_t order, i;
    memcpy(before, h->differences, sizeof before);
    memset(h->differences, 0, sizeof h->differences);
    row->slot = (float)h->next_slot;
    h->steps[h->next_slot] = step;
    h->differences[0][h->next_slot] = 1;
    for (order = 1; order < reuse->slots && order < DITI_COUNT(h->differences) && order <= h->count; order++)
        for (i = 0; i < reuse->slots; i++)
            h->differences[order][i] = (h->differences[order - 1][i] - before[order - 1][i]) / apart;
    h->next_slot = (h->next_slot + 1) % reuse->slots;
    h->last = step;
    h->count++;
    h->ratio = 1;
    h->error = 0;
    h->since = 0;
}

/* f(step) = sum of differences * distance^order / order! */
static void diti_reuse_forecast(const diti_reuse *reuse, const diti_reuse_history *h, uint32_t step,
                                diti_reuse_row *row) {
    double factor = 1;
    uint32_t order, i;
    for (order = 0; order < reuse->slots && order < h->count; order++) {
        for (i = 0; i < reuse->slots; i++)
            row->weights[i] = (float)((double)row->weights[i] + factor * h->differences[order][i]);
        factor *= (double)(step - h->last) / (order + 1);
    }
}

/* T[0..order] at -1 + 2 * step / 50. */
static void diti_reuse_chebyshev(uint32_t step, uint32_t order, double *out) {
    double x = (double)step / 25 - 1;
    uint32_t i;
    out[0] = 1;
    for (i = 1; i <= order; i++) out[i] = i == 1 ? x : 2 * x * out[i - 1] - out[i - 2];
}

/* Ridge regression of the residuals on Chebyshev's polynomials, T (X'X + ridge)^-1 X', and half a step of the newest
   difference: a sum of residuals, too. */
static void diti_reuse_fit(const diti_reuse *reuse, const diti_reuse_history *h, uint32_t step, diti_reuse_row *row) {
    double x[DITI_REUSE_SLOTS][DITI_REUSE_SLOTS], a[DITI_REUSE_SLOTS][DITI_REUSE_SLOTS] = {{0}}, v[DITI_REUSE_SLOTS];
    double blend = diti_reuse_get(reuse, DITI_REUSE_BLEND, 0.4);
    uint32_t order = (uint32_t)diti_reuse_get(reuse, DITI_REUSE_ORDER, 3), slots[DITI_REUSE_SLOTS], i, j, k,
             count = h->count < DITI_REUSE_SLOTS ? h->count : DITI_REUSE_SLOTS;
    for (k = 0; k < count; k++) { /* the newest first */
        slots[k] = (h->next_slot + DITI_REUSE_SLOTS - 1 - k) % DITI_REUSE_SLOTS;
        diti_reuse_chebyshev(h->steps[slots[k]], order, x[k]);
        for (i = 0; i <= order; i++)
            for (j = 0; j <= order; j++) a[i][j] += x[k][i] * x[k][j];
    }
    diti_reuse_chebyshev(step, order, v);
    for (i = 0; i <= order; i++) a[i][i] += diti_reuse_get(reuse, DITI_REUSE_RIDGE, 1);
    for (i = 0; i <= order; i++) /* elimination needs no pivots: a is positive definite */
        for (k = i + 1; k <= order; k++) {
            double factor = a[k][i] / a[i][i];
            for (j = i; j <= order; j++) a[k][j] -= factor * a[i][j];
            v[k] -= factor * v[i];
        }
    for (i = order + 1; i-- > 0;) {
        for (j = i + 1; j <= order; j++) v[i] -= a[i][j] * v[j];
        v[i] /= a[i][i];
    }
    for (k = 0; k < count; k++) {
        double weight = 0;
        for (i = 0; i <= order; i++) weight += x[k][i] * v[i];
        row->weights[slots[k]] = (float)(blend * weight + (1 - blend) * (k == 0 ? 1.5 : k == 1 ? -0.5 : 0));
    }
}

/* The nearest of the given ratios, which are spread over the steps. */
static double diti_reuse_ratio(const char *text, uint32_t step, uint32_t steps) {
    const char *first = strstr(text, "ratios=") + strlen("ratios="), *at = first;
    uint32_t count = 1, wanted;
    double value = 1;
    for (; strspn(at, "0123456789./"); at++) count += *at == '/';
    wanted = steps > 1 ? (uint32_t)floor((double)step * (count - 1) / (steps - 1) + 0.5) : 0;
    for (at = first; wanted; at++) wanted -= *at == '/';
    diti_reuse_number(at, &value);
    return value;
}

static bool diti_reuse_is_due(const diti_job_request *request, const char *text, diti_reuse_history *h, uint32_t step) {
    const diti_reuse *reuse = &request->shape.reuse;
    uint32_t steps = request->shape.steps, from, every;
    if (reuse->policy == DITI_REUSE_MAG) {
        if (step < diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_RETAIN, 0.2), steps)) return false;
        h->ratio *= diti_reuse_ratio(text, step, steps);
        h->error += fabs(1 - h->ratio);
        h->since++;
        return h->error <= diti_reuse_get(reuse, DITI_REUSE_THRESHOLD, 0.06) &&
               h->since <= diti_reuse_get(reuse, DITI_REUSE_MOST, 3);
    }
    if (reuse->policy == DITI_REUSE_SPECTRUM) {
        h->since++;
        return step >= diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_WARMUP, 4), steps) && h->count >= 2 &&
               step < diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_TO, 0.9), steps) &&
               h->since % diti_reuse_of(h->window, steps);
    }
    from = diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_FROM, 0.25), steps);
    every = diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_INTERVAL, reuse->policy == DITI_REUSE_DELTA ? 2 : 3), steps);
    return step >= from && step < diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_TO, steps), steps) &&
           (step - from) % every != 1 % every;
}

static void diti_reuse_step(const dit_model *model, const char *text, diti_job_request *out, uint32_t step,
                            diti_reuse_history *h) {
    const diti_reuse *reuse = &out->shape.reuse;
    diti_reuse_row *row = &out->reuse_rows[step];
    uint32_t steps = out->shape.steps;
    bool low = model->low && out->schedule.steps[step].timestep < model->boundary,
         alone = diti_job_step_kind(out, step) == DITI_STEP_ALONE;
    bool whole = diti_strips_used(&out->shape) && diti_strips_whole(out, 0, step);
    if (low != h->low || (h->alone && !alone) || whole) h->count = 0;
    h->low = low;
    row->step = (float)step;
    row->threshold = (float)diti_reuse_get(reuse, DITI_REUSE_THRESHOLD, reuse->policy == DITI_REUSE_EASY ? 0.2 : 0.08);
    row->most = (float)diti_reuse_get(reuse, DITI_REUSE_MOST, 0);
    if (diti_reuse_decides(reuse)) {
        diti_reuse_key begin = reuse->policy == DITI_REUSE_EASY ? DITI_REUSE_FROM : DITI_REUSE_WARMUP;
        double from = diti_reuse_get(reuse, begin, begin == DITI_REUSE_FROM ? 0.15 : 0),
               to = diti_reuse_get(reuse, DITI_REUSE_TO, begin == DITI_REUSE_FROM ? 0.95 : steps);
        row->computes = !h->count || step < diti_reuse_of(from, steps) || step >= diti_reuse_of(to, steps);
        row->weights[0] = 1;
        h->count = 1;
        h->alone = alone;
    } else if (diti_reuse_is_due(out, text, h, step) && h->count) {
        if (reuse->policy == DITI_REUSE_SPECTRUM)
            diti_reuse_fit(reuse, h, step, row);
        else
            diti_reuse_forecast(reuse, h, step, row);
        row->slot = (float)reuse->slots; /* if it overflows, steps behind it run with its row, and must keep nothing */
        out->reuses[step] = 1;
        out->shape.reuse.kinds[low] |= 1u << diti_job_step_kind(out, step);
        out->shape.reuse_variants[low] |= 1u << diti_job_step_variant(out, step);
    } else {
        if (!whole) diti_reuse_keep(reuse, h, step, row);
        h->alone = alone;
        if (step >= diti_reuse_of(diti_reuse_get(reuse, DITI_REUSE_WARMUP, 4), steps))
            h->window += diti_reuse_get(reuse, DITI_REUSE_GROW, 0.5);
    }
}

DIT_INTERNAL dit_result diti_job_request_reuse(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               diti_job_request *out, dit_error *err) {
    diti_reuse *reuse = &out->shape.reuse;
    uint32_t steps = out->shape.steps, step;
    const char *text = diti_reuse_text(model, desc);
    diti_reuse_history h = DITI_ZERO;
    reuse->gate_step = diti_reuse_of((double)reuse->gate, steps);
    if (reuse->gate > 0 && !reuse->gate_step) reuse->gate_step = 1; /* 0 stands for no gate */
    if (!reuse->policy) return DIT_OK;
    DITI_TRY(diti_reuse_check(out, text, err));
    DITI_TRY(diti_reuse_range(&model->transformer->traits, text, reuse, err));
    reuse->slots = reuse->policy == DITI_REUSE_SPECTRUM ? DITI_REUSE_SLOTS
                   : reuse->policy == DITI_REUSE_TAYLOR ? 1 + (uint32_t)diti_reuse_get(reuse, DITI_REUSE_ORDER, 1)
                                                        : 1;
    h.window = diti_reuse_get(reuse, DITI_REUSE_INTERVAL, 2);
    out->reuse_rows = (diti_reuse_row *)diti_alloc_array(env, steps, sizeof *out->reuse_rows);
    out->reuses = (uint8_t *)diti_alloc_array(env, steps, sizeof *out->reuses);
    if (!out->reuse_rows || !out->reuses) return diti_fail_memory(err, "the table of reused blocks");
    for (step = 0; step < steps; step++) diti_reuse_step(model, text, out, step, &h);
    return DIT_OK;
}

DIT_INTERNAL bool diti_job_reuses(const dit_job *job, uint32_t step) {
    return job->request.reuses && job->request.reuses[step] &&
           !job->begins_at; /* a run that begins later kept nothing */
}

DIT_INTERNAL uint32_t diti_job_reused(dit_job *job) {
    const unsigned char *report = (const unsigned char *)job->health_readback.block.mapped;
    uint32_t step, count = 0, i;
    float state[2][DITI_REUSE_STATE];
    if (!job->request.shape.reuse.policy) return 0;
    if (!diti_reuse_decides(&job->request.shape.reuse)) {
        for (step = 0; step < job->status.step; step++)
            count += job->request.reuses[step] && (!job->begins_at || step < job->begins_at);
        return count;
    }
    if (job->status.result != DIT_OK) return 0;
    diti_buffer_invalidate(job->shares[0]->device, &job->health_readback);
    memcpy(state, report + sizeof(diti_health), sizeof state);
    for (i = 0; i < 2; i++)
        if (job->shares[0]->program.residuals[i].count) count += (uint32_t)state[i][DITI_REUSE_COUNT];
    return count;
}

/* --- the plan --- */

/* Devices that evaluate steps of that kind, all of which decide alike; transformers of their own decide apart. */
static void diti_reuse_group(const diti_share *share, diti_step_kind kind, diti_ranks *out) {
    const diti_job_shape *shape = &share->job->request.shape;
    uint32_t i;
    *out = share->assignment.all;
    if ((kind != DITI_STEP_ALONE && !shape->bare) || share->assignment.guidance.count < 2) return;
    out->count = 0;
    for (i = 0; i < share->assignment.share_total; i++) {
        diti_assignment other;
        diti_assign(shape, share->assignment.folded, i, share->assignment.share_total, &other);
        if (other.first_branch != share->assignment.first_branch) continue;
        if (i == share->assignment.share) out->index = out->count;
        out->devices[out->count++] = i;
    }
}

DIT_INTERNAL void diti_reuse_begin(diti_share *share, diti_graph *graph) {
    const diti_reuse *reuse = &share->job->request.shape.reuse;
    uint32_t i;
    memset(share->program.residuals, 0, sizeof share->program.residuals);
    share->program.reuse_table = 0;
    if (!reuse->policy) return;
    share->program.reuse_table =
        diti_tensor_input(graph, DITI_F32, share->job->request.shape.steps, DITI_REUSE_WORDS, "reused blocks");
    for (i = 0; i < (share->job->model->low || diti_share_guides_apart(share) ? 2u : 1u); i++) {
        diti_residual *r = &share->program.residuals[i];
        r->first = reuse->first;
        r->end = reuse->end;
        r->slots = reuse->slots;
        r->first_branch = share->assignment.first_branch;
        if (!diti_reuse_decides(reuse)) continue;
        r->state = diti_tensor_state(graph, DITI_F32, 1,
                                     DITI_REUSE_STATE + share->job->request.shape.steps +
                                         (reuse->policy == DITI_REUSE_EASY ? DITI_FORECAST_STATE : 0),
                                     "steps reused");
        if (!i || share->job->model->low) r->count = diti_tensor_view(graph, r->state, 0, 1, DITI_REUSE_COUNT, 1);
        r->gate = diti_tensor_state(graph, DITI_U32, 2 * DITI_GATE_ENTRIES, 4, "gate");
    }
    share->program.step.residual = &share->program.residuals[0];
    share->program.low.residual = share->program.unconditional.residual = &share->program.residuals[1];
}

DIT_INTERNAL void diti_reuse_select(diti_share *share, diti_graph *graph, diti_step_kind kind, bool reuses) {
    diti_residual *r = &share->program.residuals[share->program.is_low];
    if (!share->program.reuse_table) return;
    if (diti_strips_used(&share->job->request.shape))
        share->program.step.residual =
            share->program.step.strips == share->job->request.shape.strips ? r : NULL; /* wholes have other rows */
    r->use = diti_reuse_decides(&share->job->request.shape.reuse) ? DITI_REUSE_DECIDES
             : reuses                                             ? DITI_REUSE_ADDS
                                                                  : DITI_REUSE_KEEPS;
    diti_reuse_group(share, kind, &r->group);
    r->row = diti_select_row(graph, share->program.reuse_table, share->program.step_row, "select reuse");
    if (!diti_share_guides_apart(share)) return;
    share->program.residuals[1].use = r->use;
    share->program.residuals[1].group = r->group;
    share->program.residuals[1].row = r->row;
}

DIT_INTERNAL dit_result diti_reuse_write(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    if (!share->program.reuse_table) return DIT_OK;
    return diti_plan_write(share->program.plan, share->program.reuse_table, request->reuse_rows,
                           request->shape.steps * sizeof *request->reuse_rows, err);
}
