/* One configuration of dit-compare: the options of `dit`, its context, model and job, and the results of its ops as
   they come. The job runs in slices of one op: after each, its result is read back before the next one may overwrite
   it. Include it after compare_stats.h. Not part of dit.h. */
#ifndef COMPARE_RUN_H
#define COMPARE_RUN_H
#define main dit_main /* examples/cli: what `dit` does, this does alike */
#include "../examples/cli/txt2img.c"
#undef main
#include "../src/job/job.h"

typedef struct op {
    char name[160];    /* "step/block 3/attention_out" */
    char weight[128];  /* of the checkpoint, without its ending; empty: none */
    char reads[256];   /* inputs, for people */
    const char *label; /* the dispatch's name; static, or of the plan */
    uint32_t segment, source;
    diti_tensor tensor, operand;  /* what the op writes; what its product reads besides the weight, else 0 */
    uint32_t rows, columns, pair; /* pair: index of the other configuration's op; UINT32_MAX: none */
    bool is_weight;               /* a weight that is expanded, not a result */
    bool wanted;
} op;

/* Ops run in this order: by phase, then by round (a step, a chunk of a clip), then as the first configuration lists
   them. */
typedef struct moment {
    uint32_t phase, round, op;
} moment;

struct side;
typedef void (*op_taker)(struct side *s, const op *o, const moment *at, const float *values, void *user);

typedef struct side {
    app a;
    char *words[128], *text; /* the options as they were split; text is freed with free */
    int word_count;
    char overrides[256];
    diti_device *device; /* the first share's */
    diti_plan *plan;
    const diti_share *share;
    op *ops;
    uint32_t op_count, room, round, hint;
    uint32_t
        *first_op; /* by source: the first op that ends there; op_count: none. Ops of a source follow one another */
    VkResult(VKAPI_PTR *submit)(VkQueue, uint32_t, const VkSubmitInfo *, VkFence);
    op_taker take;
    void *user;
    float *values;
    size_t value_room;
    bool failed, captures;
    diti_speed speeds[DITI_MAX_DEVICES]; /* as they were measured */
    uint32_t timestamp_bits[DITI_MAX_DEVICES];
    unsigned char *rgba;
    float *latent;
    size_t latent_count;
    dit_memory memory;
    double seconds;
    const char *title;
} side;

/* ---- options ---- */

/* Words as a shell splits them, within "..." or '...' with spaces. Writes over text. */
static int split_words(char *text, char **words, int most) {
    int count = 0;
    char *from = text, *to;
    for (;;) {
        char quote = 0;
        while (*from == ' ' || *from == '\n' || *from == '\t') from++;
        if (!*from || count == most) return count;
        words[count++] = to = from;
        for (; *from && (quote || !strchr(" \n\t", *from)); from++) {
            if (quote ? *from == quote : *from == '"' || *from == '\'')
                quote = quote ? 0 : *from;
            else
                *to++ = *from;
        }
        if (*from) from++;
        *to = 0;
    }
}

/* --rung and --override, which `dit` has not, go to dit_context_desc.overrides. */
static int take_side_word(side *s, int *i, int count, char **words) {
    const char *key = !strcmp(words[*i], "--rung") ? "rung=" : !strcmp(words[*i], "--override") ? "" : NULL;
    size_t used = strlen(s->overrides);
    if (!key) {
        if (s->word_count == (int)DITI_COUNT(s->words)) return complain(EXIT_USAGE, "too many options");
        s->words[s->word_count++] = words[*i];
        return EXIT_GOOD;
    }
    if (*i + 1 >= count) return complain(EXIT_USAGE, "%s needs a value", words[*i]);
    if (used + strlen(words[*i + 1]) + 8 > sizeof s->overrides)
        return complain(EXIT_USAGE, "%s %s: too long", words[*i], words[*i + 1]);
    snprintf(s->overrides + used, sizeof s->overrides - used, "%s%s%s", used ? "," : "", key, words[*i + 1]);
    ++*i;
    return EXIT_GOOD;
}

static bool take_nothing(app *a, uint32_t i) {
    (void)a, (void)i;
    return true;
}

/* flags: this configuration's; common: those of both, which stand before. */
static int side_options(side *s, const char *flags, char **common, int common_count) {
    static const char *const written[] = {"--output",  "--latent-out",    "--grid",
                                          "--preview", "--encode-prompt", "--trace"};
    static const char *const others[] = {"--serve", "--batch", "--repeat-from", "--info"};
    char *own[96];
    int count, i, code = EXIT_GOOD;
    s->text = strdup(flags);
    if (!s->text) return complain(EXIT_MEMORY, "out of memory");
    count = split_words(s->text, own, (int)DITI_COUNT(own));
    s->words[s->word_count++] = (char *)"dit";
    for (i = 0; i < common_count && !code; i++) code = take_side_word(s, &i, common_count, common);
    for (i = 0; i < count && !code; i++) code = take_side_word(s, &i, count, own);
    if (!code) code = parse_options(s->word_count, s->words, &s->a.o);
    for (i = 0; i < (int)DITI_COUNT(written) && !code; i++)
        if (*option_text(&s->a.o, find_option(written[i])))
            code = complain(EXIT_USAGE, "%s: a configuration writes no file; leave it out", written[i]);
    for (i = 0; i < (int)DITI_COUNT(others) && !code; i++)
        if (*option_text(&s->a.o, find_option(others[i])))
            code =
                complain(EXIT_USAGE, "%s: a configuration is a model and its options alone; leave it out", others[i]);
    s->a.o.quiet = !s->a.o.verbose;
    s->a.follow.take = take_nothing; /* no file is written */
    return code;
}

/* ---- opening ---- */

static int side_context(side *s) {
    dit_context_desc desc = {0};
    dit_result result;
    load_pipeline_cache(&s->a);
    desc.devices = s->a.o.device;
    desc.overrides = s->overrides[0] ? s->overrides : NULL;
    desc.worker.run = lend_thread;
    desc.device_memory_limit = s->a.r.device_memory;
    desc.cache = s->a.cache;
    desc.cache_size = s->a.cache_size;
    desc.tune = s->a.o.tune;
    result = dit_context_create(&desc, &s->a.context, &s->a.err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(&s->a, result, NULL);
}

/* Every op is said to take as long as a slice may, so that it has one of its own; without timestamps nobody finds out
   that it does not. Measured speeds come back before they are kept for later runs. */
static void side_slow_down(side *s, bool slow) {
    uint32_t i;
    for (i = 0; i < s->a.context->device_count; i++) {
        diti_device *device = s->a.context->devices[i];
        if (!slow) {
            device->speed = s->speeds[i];
            device->limits.timestamp_bits = s->timestamp_bits[i];
            continue;
        }
        s->speeds[i] = device->speed;
        s->timestamp_bits[i] = device->limits.timestamp_bits;
        device->speed.launch_us = 1;
        device->speed.us_per_gflop = device->speed.us_per_gigabyte = 0;
        device->limits.timestamp_bits = 0;
        device->max_slice_us = 1;
    }
}

/* Checks a request before any work: its options, what it reads, and that no output replaces an input. */
static int side_check(side *s, const named_path *outputs, size_t count) {
    input_list inputs;
    char why[2 * PATH_SIZE];
    int code = take_loras(&s->a.o, &s->a.loras);
    if (!code) code = check_request(&s->a);
    if (!code && s->a.r.count > 1) code = complain(EXIT_USAGE, "--batch-count: pictures are compared one at a time");
    if (code) return code;
    list_inputs(&s->a, &inputs);
    return find_overwritten(outputs, count, inputs.paths, inputs.count, why, sizeof why)
               ? complain(EXIT_USAGE, "%s", why)
               : EXIT_GOOD;
}

/* From a request that was checked to a job that is ready to run. captures: in slices of one op. */
static int side_open(side *s, bool captures) {
    int code = side_context(s);
    s->captures = captures;
    if (!code && captures) side_slow_down(s, true);
    if (!code) code = prepare(&s->a);
    if (!code) {
        dit_job_desc desc;
        dit_tensor noise;
        describe_job(&s->a, 0, &desc, &noise);
        dit_job_memory(s->a.context, &desc, &s->memory, NULL);
        s->share = s->a.job->shares[0];
        s->device = s->share->device;
        s->plan = s->share->program.plan;
    }
    return code;
}

static void side_close(side *s) {
    if (s->submit) s->device->vk.QueueSubmit = s->submit;
    if (s->a.context && s->captures) side_slow_down(s, false);
    if (s->a.context) keep_pipeline_cache(&s->a);
    end_request(&s->a);
    unload(&s->a);
    free(s->text);
    free(s->ops);
    free(s->first_op);
    free(s->values);
    free(s->rgba);
    free(s->latent);
    memset(s, 0, sizeof *s);
}

/* ---- ops ---- */

/* The scope that a source belongs to: "block 3", or "". */
static const char *source_scope(const diti_plan *plan, uint32_t source, uint32_t segment) {
    const diti_mark *found = NULL;
    size_t i;
    for (i = 0; i < plan->mark_count && plan->marks[i].place <= source; i++) found = &plan->marks[i];
    return found && found->segment == segment && found->block != DITI_NO_BLOCK ? found->scope : "";
}

static bool is_plain(const diti_tensor_info *tensor) {
    return tensor->storage != DITI_STORAGE_WEIGHT && diti_element_is_float(tensor->format);
}

static bool is_guard(const diti_plan *plan, const diti_tensor_info *tensor) {
    return plan->guards && tensor->parent == plan->guards;
}

/* The name of a layer: of "transformer.blocks.0.attn.to_q.weight" without the last word. */
static void layer_name(const char *weight, char *out, size_t size) {
    const char *dot = strrchr(weight, '.');
    snprintf(out, size, "%.*s", (int)(dot ? dot - weight : (ptrdiff_t)strlen(weight)), weight);
}

static void add_read(const diti_tensor_info *tensor, op *o) {
    size_t used = strlen(o->reads);
    snprintf(o->reads + used, sizeof o->reads - used, "%s%s [%u, %u]", used ? ", " : "", tensor->name, tensor->rows,
             tensor->columns);
}

/* Fills all of an op but its name; false: its result is nothing that can be compared. */
static bool describe_op(const diti_plan *plan, uint32_t source, op *o) {
    const diti_dispatch *dispatch = &plan->sources[source];
    const diti_tensor_info *written;
    bool computes = false;
    uint32_t i;
    memset(o, 0, sizeof *o);
    o->pair = UINT32_MAX;
    o->source = source;
    o->segment = dispatch->segment;
    o->label = dispatch->name;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_binding *binding = &dispatch->bindings[i];
        const diti_tensor_info *tensor = &plan->tensors[binding->tensor];
        if (!binding->tensor) continue;
        if (tensor->storage == DITI_STORAGE_WEIGHT && !o->weight[0])
            layer_name(tensor->name, o->weight, sizeof o->weight);
        computes = computes || (binding->reads && tensor->storage != DITI_STORAGE_WEIGHT && !is_guard(plan, tensor));
        if (binding->reads && !is_guard(plan, tensor)) add_read(tensor, o);
        if (binding->writes && !o->tensor && is_plain(tensor)) o->tensor = binding->tensor;
        if (binding->reads && !binding->writes && !o->operand && is_plain(tensor) &&
            tensor->columns == dispatch->shape[2])
            o->operand = binding->tensor;
    }
    if (!o->tensor) return false;
    written = &plan->tensors[o->tensor];
    o->rows = written->rows;
    o->columns = written->columns;
    o->is_weight = !computes && o->weight[0];
    return true;
}

/* Whether two views of one tensor have an element in common. */
static bool views_meet(const diti_tensor_info *a, const diti_tensor_info *b) {
    const uint64_t row = a->first / a->pitch, column = a->first % a->pitch;
    const uint64_t other_row = b->first / a->pitch, other_column = b->first % a->pitch;
    return a->parent == b->parent && row < other_row + b->rows && other_row < row + a->rows &&
           column < other_column + b->columns && other_column < column + a->columns;
}

/* Whether a dispatch goes on with what one of the same name has begun: a product whose residual is added apart, or that
   is summed in parts. */
static bool continues_op(const diti_plan *plan, const op *before, const op *o) {
    const diti_dispatch *dispatch = &plan->sources[o->source];
    uint32_t i;
    if (before->segment != o->segment || o->is_weight || strcmp(before->label, o->label) != 0) return false;
    for (i = 0; i < dispatch->binding_count; i++)
        if (dispatch->bindings[i].reads && dispatch->bindings[i].tensor &&
            views_meet(&plan->tensors[dispatch->bindings[i].tensor], &plan->tensors[before->tensor]))
            return true;
    return false;
}

static void name_op(const side *s, op *o) {
    const char *scope = source_scope(s->plan, o->source, o->segment);
    snprintf(o->name, sizeof o->name, "%s/%s%s%s%s%s", s->plan->segments[o->segment].name, scope, *scope ? "/" : "",
             o->label, o->is_weight ? " " : "", o->is_weight ? o->weight : "");
}

static const op *sorted_ops; /* for qsort */

static int compare_op_names(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int order = strcmp(sorted_ops[i].name, sorted_ops[j].name);
    return order ? order : (i > j) - (i < j);
}

/* Numbers of the ops in the order of their names; NULL without memory, else freed with free. */
static uint32_t *sort_ops(const side *s) {
    uint32_t *order = malloc((s->op_count + 1) * sizeof *order), i;
    for (i = 0; order && i < s->op_count; i++) order[i] = i;
    sorted_ops = s->ops;
    if (order) qsort(order, s->op_count, sizeof *order, compare_op_names);
    return order;
}

/* The second op of a name becomes "NAME #2". */
static bool number_ops(side *s) {
    uint32_t *order = sort_ops(s), i, k = 1;
    for (i = 1; order && i < s->op_count; i++) {
        op *before = &s->ops[order[i - 1]], *o = &s->ops[order[i]];
        const size_t length = strlen(o->name);
        k = strncmp(before->name, o->name, length) == 0 && (!before->name[length] || before->name[length] == '\n')
                ? k + 1
                : 1;
        if (k > 1 && length + 14 < sizeof o->name) snprintf(o->name + length, sizeof o->name - length, "\n%u", k);
    }
    for (i = 0; order && i < s->op_count; i++) {
        char *mark = strchr(s->ops[i].name, '\n'), number[12];
        if (!mark) continue;
        snprintf(number, sizeof number, "%.11s", mark + 1);
        snprintf(mark, sizeof s->ops[i].name - (size_t)(mark - s->ops[i].name), " #%s", number);
    }
    free(order);
    return order != NULL;
}

static op *add_op(side *s) {
    if (s->op_count == s->room) {
        op *more = realloc(s->ops, (2 * s->room + 256) * sizeof *more);
        if (!more) return NULL;
        s->ops = more;
        s->room = 2 * s->room + 256;
    }
    return &s->ops[s->op_count];
}

/* After the last op of a step: the latent. */
static bool add_latent(side *s, uint32_t segment, uint32_t source) {
    const diti_tensor_info *latent = &s->plan->tensors[s->share->program.latent];
    op *o = add_op(s);
    if (!o) return false;
    memset(o, 0, sizeof *o);
    o->pair = UINT32_MAX;
    o->source = source;
    o->segment = segment;
    o->label = "latent";
    o->tensor = s->share->program.latent;
    o->rows = latent->rows;
    o->columns = latent->columns;
    snprintf(o->name, sizeof o->name, "%s/latent after the step", s->plan->segments[segment].name);
    s->op_count++;
    return true;
}

/* Lists what the plan computes, in order. */
static int side_list(side *s) {
    const diti_plan *plan = s->plan;
    uint32_t i, computed = UINT32_MAX; /* the newest op that is no weight */
    bool good;
    s->first_op = malloc((plan->source_count + 1) * sizeof *s->first_op);
    good = s->first_op != NULL;
    for (i = 0; i < plan->source_count && good; i++) {
        op *o = add_op(s);
        const bool last = i + 1 == plan->source_count || plan->sources[i + 1].segment != plan->sources[i].segment;
        good = o != NULL;
        if (!good) break;
        s->first_op[i] = s->op_count;
        if (describe_op(plan, i, o)) {
            name_op(s, o);
            if (computed != UINT32_MAX && continues_op(plan, &s->ops[computed], o) &&
                !strcmp(s->ops[computed].name, o->name))
                strncat(s->ops[computed].name, " part", sizeof o->name - strlen(s->ops[computed].name) - 1);
            if (!o->is_weight) computed = s->op_count;
            s->op_count++;
        }
        if (last && s->share->program.latent && diti_share_is_step(s->share, plan->sources[i].segment))
            good = add_latent(s, plan->sources[i].segment, i);
    }
    if (good) good = number_ops(s);
    return good ? EXIT_GOOD : complain(EXIT_MEMORY, "out of memory for %u ops", s->op_count);
}

/* Longest run of pairs that both plans have in one order, so that both can be read side by side; the others are left
   unpaired. */
static bool keep_ordered(side *a, side *b) {
    uint32_t *tail = malloc((a->op_count + 1) * sizeof *tail), *before = malloc((a->op_count + 1) * sizeof *before);
    uint32_t length = 0, i, at;
    for (i = 0; tail && before && i < a->op_count; i++) {
        uint32_t low = 0, high = length;
        if (a->ops[i].pair == UINT32_MAX) continue;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (a->ops[tail[middle]].pair < a->ops[i].pair)
                low = middle + 1;
            else
                high = middle;
        }
        before[i] = low ? tail[low - 1] : UINT32_MAX;
        tail[low] = i;
        if (low == length) length++;
    }
    for (i = 0; i < b->op_count; i++) b->ops[i].pair = UINT32_MAX;
    at = length ? tail[length - 1] : UINT32_MAX;
    for (i = a->op_count; tail && before && i-- > 0;) {
        if (i != at) {
            a->ops[i].pair = UINT32_MAX;
            continue;
        }
        b->ops[a->ops[i].pair].pair = i;
        at = before[i];
    }
    free(tail);
    free(before);
    return tail && before;
}

/* Whether two ops compute alike: results of as many numbers, products and attention of one shape. A device of several
   that has some of the columns of a product computes a part of each sum. */
static bool same_work(const side *a, const op *x, const side *b, const op *y) {
    const diti_dispatch *first = &a->plan->sources[x->source], *second = &b->plan->sources[y->source];
    if ((uint64_t)x->rows * x->columns != (uint64_t)y->rows * y->columns) return false;
    if (first->cost_kind != second->cost_kind || first->cost_kind == DITI_COST_MEMORY) return true;
    return !memcmp(first->shape, second->shape, sizeof first->shape);
}

/* Pairs ops of one name that compute alike. */
static int pair_ops(side *a, side *b) {
    uint32_t *first = sort_ops(a), *second = sort_ops(b), i = 0, j = 0;
    bool good = first && second;
    while (good && i < a->op_count && j < b->op_count) {
        op *x = &a->ops[first[i]], *y = &b->ops[second[j]];
        int order = strcmp(x->name, y->name);
        if (!order && same_work(a, x, b, y)) x->pair = second[j];
        i += order <= 0;
        j += order >= 0;
    }
    good = good && keep_ordered(a, b);
    free(first);
    free(second);
    return good ? EXIT_GOOD : complain(EXIT_MEMORY, "out of memory for the pairs of ops");
}

/* ---- running ---- */

static side *watched[2];

static uint32_t phase_of(const side *s, uint32_t segment) {
    if (diti_share_is_step(s->share, segment)) return 1000;
    return segment < s->share->program.step_segment ? segment : 2000 + segment;
}

/* A slice of a segment was submitted; the cursor stands behind it. */
static void follow_round(side *s, uint32_t segment, uint32_t slice) {
    const diti_job_cursor *cursor = &s->share->run.cursor;
    const bool over = cursor->segment != segment || cursor->slice == 0;
    if (slice) return;
    if (diti_share_is_step(s->share, segment))
        s->round = cursor->repeat - (over && diti_share_counts(s->share, segment) ? 1 : 0);
    else if (segment > s->share->program.decode_segment)
        s->round = cursor->chunk - (over ? 1 : 0);
    else
        s->round = 0;
}

/* Numbers of a tensor as they are meant: halves may be stored with an exponent of their guard. */
static bool read_values(side *s, diti_tensor tensor, dit_error *err) {
    const diti_tensor_info *info = &s->plan->tensors[tensor];
    const size_t count = (size_t)info->rows * info->columns, size = diti_element_size(info->format);
    const uint32_t guard = s->plan->tensors[info->parent].guard;
    const float factor = guard ? ldexpf(1, (int)s->plan->guard_records[guard].exponent) : 1;
    size_t i;
    if (count > s->value_room) {
        free(s->values);
        s->values = malloc(count * sizeof *s->values);
        s->value_room = s->values ? count : 0;
    }
    if (!s->values) return diti_fail_memory(err, "reading tensor %s", info->name), false;
    if (diti_plan_read(s->plan, tensor, s->values, count * size, err) < 0) return false;
    if (info->format == DITI_F16)
        for (i = count; i-- > 0;) {
            uint16_t half;
            memcpy(&half, (const unsigned char *)s->values + 2 * i, 2);
            s->values[i] = diti_half_to_float(half);
        }
    for (i = 0; i < count && guard; i++) s->values[i] *= factor;
    return true;
}

/* Hands over the results of a finished slice. */
static void take_slice(side *s, const diti_plan_slice *slice) {
    const diti_plan_dispatch *piece = &s->plan->dispatches[slice->first + slice->count - 1];
    uint32_t i;
    if (!slice->count || piece->first_group + piece->groups < s->plan->sources[piece->source].groups) return;
    for (i = s->first_op[piece->source]; i < s->op_count && s->ops[i].source == piece->source; i++) {
        moment at = {phase_of(s, slice->segment), s->round, 0};
        if (!s->ops[i].wanted || s->failed) continue;
        at.op = s == watched[0] ? i : s->ops[i].pair;
        s->failed = !read_values(s, s->ops[i].tensor, &s->a.err);
        if (!s->failed) s->take(s, &s->ops[i], &at, s->values, s->user);
    }
}

/* The slice whose commands these are, searched from the newest on; UINT32_MAX: none. */
static uint32_t find_slice(side *s, VkCommandBuffer commands) {
    uint32_t count = (uint32_t)s->plan->slice_count, i;
    for (i = 0; i < count; i++) {
        uint32_t at = (s->hint + i) % count;
        if (s->plan->slices[at].primary == commands) return s->hint = at;
    }
    return UINT32_MAX;
}

/* Stands in place of vkQueueSubmit of a watched device, under its queue lock. */
static VkResult VKAPI_CALL submit_and_look(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
    side *s = watched[0] && watched[0]->device->queue == queue ? watched[0] : watched[1];
    VkResult result = s->submit(queue, count, infos, fence);
    uint32_t found = UINT32_MAX, i;
    for (i = 0; i < infos->commandBufferCount && found == UINT32_MAX; i++)
        found = find_slice(s, infos->pCommandBuffers[i]);
    if (result != VK_SUCCESS || queue != s->device->queue || found == UINT32_MAX) return result;
    follow_round(s, s->plan->slices[found].segment, found - s->plan->segments[s->plan->slices[found].segment].first);
    s->device->vk.QueueWaitIdle(queue);
    diti_queue_unlock(s->device); /* reading submits copies */
    take_slice(s, &s->plan->slices[found]);
    diti_queue_lock(s->device);
    return result;
}

static void side_watch(side *s, int which, op_taker take, void *user) {
    watched[which] = s;
    s->take = take;
    s->user = user;
    s->submit = s->device->vk.QueueSubmit;
    s->device->vk.QueueSubmit = submit_and_look;
}

/* The picture (of a clip its first frame) and the latent, when the job is over. */
static int side_results(side *s) {
    const size_t pixels = (size_t)s->a.r.width * s->a.r.height;
    dit_result result;
    s->latent_count = latent_values(&s->a);
    s->rgba = malloc(pixels * 4);
    s->latent = calloc(s->latent_count + 1, sizeof *s->latent);
    if (!s->rgba || !s->latent) return complain(EXIT_MEMORY, "out of memory for the picture");
    result = dit_job_read(s->a.job, DIT_READ_RGBA8, 0, 0, s->rgba, pixels * 4, 0, &s->a.err);
    if (result == DIT_OK)
        result =
            dit_job_read(s->a.job, DIT_READ_LATENT_F32, 0, 0, s->latent, s->latent_count * sizeof(float), 0, &s->a.err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(&s->a, result, NULL);
}

/* Runs the job to its end. */
static int side_run(side *s) {
    double begin = now();
    dit_result result;
    do result = dit_job_wait(s->a.job, UINT64_MAX);
    while (result == DIT_WORKING);
    s->seconds = now() - begin;
    if (s->failed) return dit_failed(&s->a, s->a.err.result, NULL);
    if (result != DIT_OK) {
        dit_job_status(s->a.job, NULL, &s->a.err);
        return dit_failed(&s->a, result, NULL);
    }
    return side_results(s);
}
#endif
