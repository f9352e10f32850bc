/* Splits by name, and whether a model allows them. */
#include "split/split.h"

DIT_INTERNAL const char *diti_split_axis_name(uint32_t axis) {
    static const char *const names[DITI_SPLIT_AXES] = {"tensor", "ulysses", "ring", "pipefusion", "layers", "cfg"};
    return names[axis];
}

/* A whole number from 1 (or 0) to most; at is moved behind it. */
static bool diti_split_parse_number(const char **at, uint32_t least, uint32_t most, uint32_t *out) {
    const char *first = *at;
    for (*out = 0; **at >= '0' && **at <= '9' && *out <= most; ++*at) *out = *out * 10 + (uint32_t)(**at - '0');
    return *at > first && *out >= least && *out <= most;
}

/* Behind pipefusion4: ":" and some of m8, w2 and k8, in this order. */
static bool diti_split_parse_patches(const char **at, diti_split_plan *out) {
    const char *first = *at + 1;
    if (**at != ':') return true;
    ++*at;
    if (**at == 'm' && (++*at, !diti_split_parse_number(at, 1, DITI_SPLIT_LARGEST, &out->patches))) return false;
    if (**at == 'w' && (++*at, !diti_split_parse_number(at, 0, DITI_SPLIT_LARGEST, &out->warmup))) return false;
    out->kept_int8 = (*at)[0] == 'k' && (*at)[1] == '8';
    if (out->kept_int8) *at += 2;
    return *at > first;
}

/* Behind tensor2, degree: "x2". */
static bool diti_split_parse_grid(const char **at, uint32_t *degree, diti_split_plan *out) {
    uint32_t inputs;
    if (**at != 'x') return true;
    ++*at;
    if (!diti_split_parse_number(at, 1, DITI_SPLIT_DEVICES, &inputs)) return false;
    out->split.inputs = inputs > 1 ? inputs : 0;
    *degree *= inputs;
    return *degree <= DITI_SPLIT_DEVICES;
}

/* One AXIS DEGREE, or int8, or shard; at is moved behind it. Returns what is wrong with it; NULL: nothing. */
static const char *diti_split_parse_item(const char **at, diti_split_plan *out) {
    static const char *const usage =
        "write auto, auto:any, @FILE, or some of cfg, layers, pipefusion, ring, ulysses, tensor, each with a number from 1 to 64, "
        "and int8 or shard behind them: cfg2,ulysses2,shard or pipefusion4:m8w1,int8 or tensor2x2";
    uint32_t axis = 0, degree;
    if (diti_starts_with(*at, "int8")) {
        *at += 4;
        if (out->int8) return "int8 stands in it twice";
        out->int8 = true;
        return **at == ',' || **at == 0 ? NULL : usage;
    }
    if (diti_starts_with(*at, "shard")) {
        *at += 5;
        if (out->split.shard) return "shard stands in it twice";
        out->split.shard = 1;
        return **at == ',' || **at == 0 ? NULL : usage;
    }
    while (!diti_starts_with(*at, diti_split_axis_name(axis)))
        if (++axis == DITI_SPLIT_AXES) return usage;
    *at += strlen(diti_split_axis_name(axis));
    if (!diti_split_parse_number(at, 1, DITI_SPLIT_DEVICES, &degree)) return usage;
    if (axis == DITI_SPLIT_PIPEFUSION && !diti_split_parse_patches(at, out)) return usage;
    if (axis == DITI_SPLIT_TENSOR && !diti_split_parse_grid(at, &degree, out)) return usage;
    if (**at != ',' && **at != 0) return usage;
    if (out->split.degree[axis]) return "a method stands in it twice";
    out->split.degree[axis] = degree;
    return NULL;
}

static void diti_split_fill(diti_split_plan *plan) {
    uint32_t axis;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) plan->split.degree[axis] += plan->split.degree[axis] == 0;
    if (!plan->patches) plan->patches = plan->split.degree[DITI_SPLIT_PIPEFUSION];
}

DIT_INTERNAL dit_result diti_split_parse_plan(const char *text, diti_split_plan *out, dit_error *err) {
    const char *at = text, *wrong = NULL;
    bool named = false, automatic = false;
    uint32_t axis;
    memset(out, 0, sizeof *out);
    out->warmup = 1;
    if (diti_starts_with(text, "auto")) {
        at += 4;
        out->any = diti_starts_with(at, ":any");
        if (out->any) at += 4;
        out->int8 = diti_equal(at, ",int8");
        automatic = !*at || out->int8;
        at = text;
    }
    if (automatic) return DIT_OK;
    out->any = out->int8 = false;
    do {
        wrong = diti_split_parse_item(&at, out);
    } while (!wrong && *at++);
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) named = named || out->split.degree[axis];
    diti_split_fill(out);
    if (!wrong && !named) wrong = "it names no method";
    if (!wrong && diti_split_ranks(&out->split) > DITI_SPLIT_DEVICES) wrong = "that is for more than 64 devices";
    return wrong ? diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split '%.64s': %s", text, wrong) : DIT_OK;
}

DIT_INTERNAL dit_result diti_split_parse(const char *text, diti_split *out, dit_error *err) {
    diti_split_plan plan;
    dit_result result = diti_split_parse_plan(text, &plan, err);
    *out = plan.split;
    DITI_TRY(result);
    if (plan.int8 || plan.split.shard || strchr(text, ':'))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split '%.64s': methods and their degrees alone can stand here", text);
    return DIT_OK;
}

/* The outermost axis first; one device is cfg1. patches: what stands behind pipefusion. */
static void diti_split_print_axes(const diti_split *split, const char *patches, char out[DITI_SPLIT_NAME]) {
    size_t length = 0;
    uint32_t axis = DITI_SPLIT_AXES;
    char inputs[16] = "";
    diti_format(out, DITI_SPLIT_NAME, split->degree[0] ? "cfg1" : "auto");
    while (axis-- > 0) {
        uint32_t degree = split->degree[axis];
        bool grid = axis == DITI_SPLIT_TENSOR && split->inputs > 1;
        if (degree < 2) continue;
        if (grid) diti_format(inputs, sizeof inputs, "x%u", (unsigned)split->inputs);
        diti_format(out + length, DITI_SPLIT_NAME - length, "%s%s%u%s", length ? "," : "", diti_split_axis_name(axis),
                    (unsigned)(grid ? degree / split->inputs : degree),
                    grid                            ? inputs
                    : axis == DITI_SPLIT_PIPEFUSION ? patches
                                                    : "");
        length = strlen(out);
    }
}

DIT_INTERNAL const char *diti_split_print(const diti_split *split, char out[DITI_SPLIT_NAME]) {
    size_t length;
    diti_split_print_axes(split, "", out);
    length = strlen(out);
    if (split->shard) diti_format(out + length, DITI_SPLIT_NAME - length, ",shard");
    return out;
}

DIT_INTERNAL const char *diti_split_print_plan(const diti_split_plan *plan, char out[DITI_SPLIT_NAME]) {
    bool counted = plan->patches != plan->split.degree[DITI_SPLIT_PIPEFUSION], warm = plan->warmup != 1;
    char count[16] = "", warmup[16] = "", patches[40];
    size_t length;
    if (counted) diti_format(count, sizeof count, "m%u", (unsigned)plan->patches);
    if (warm) diti_format(warmup, sizeof warmup, "w%u", (unsigned)plan->warmup);
    diti_format(patches, sizeof patches, "%s%s%s%s", counted || warm || plan->kept_int8 ? ":" : "", count, warmup,
                plan->kept_int8 ? "k8" : "");
    diti_split_print_axes(&plan->split, patches, out);
    if (plan->any) diti_format(out, DITI_SPLIT_NAME, "auto:any");
    length = strlen(out);
    diti_format(out + length, DITI_SPLIT_NAME - length, "%s%s", plan->split.shard ? ",shard" : "",
                plan->int8 ? ",int8" : "");
    return out;
}

/* Saturates, so that absurd degrees stay absurd. */
DIT_INTERNAL uint32_t diti_split_ranks(const diti_split *split) {
    uint32_t ranks = 1, axis;
    for (axis = 0; axis < DITI_SPLIT_AXES && ranks <= DITI_SPLIT_DEVICES; axis++) ranks *= split->degree[axis];
    return ranks;
}

DIT_INTERNAL dit_result diti_split_check(const diti_split *split, const diti_split_shape *shape, dit_error *err) {
    const uint32_t *degree = split->degree;
    uint32_t stages = degree[DITI_SPLIT_PIPEFUSION] * degree[DITI_SPLIT_LAYERS];
    char name[DITI_SPLIT_NAME];
    diti_split_print(split, name);
    if (degree[DITI_SPLIT_CFG] > (shape->guided ? 2u : 1u))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: cfg%u, but this model computes %s", name,
                         (unsigned)degree[DITI_SPLIT_CFG],
                         shape->guided ? "two branches of guidance" : "without classifier-free guidance");
    if (degree[DITI_SPLIT_TENSOR] / (split->inputs ? split->inputs : 1) * degree[DITI_SPLIT_ULYSSES] > shape->heads)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s: tensor and ulysses divide heads, of which this "
                         "model has %u",
                         name, (unsigned)shape->heads);
    if (degree[DITI_SPLIT_PIPEFUSION] > 1 && degree[DITI_SPLIT_LAYERS] > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: pipefusion and layers exclude each other", name);
    if (stages > shape->layers)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: it divides layers, of which this model has %u",
                         name, (unsigned)shape->layers);
    if (degree[DITI_SPLIT_ULYSSES] * degree[DITI_SPLIT_RING] * degree[DITI_SPLIT_PIPEFUSION] > shape->rows)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: it divides rows, of which there are %u", name,
                         (unsigned)shape->rows);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_split_check_plan(const diti_split_plan *plan, const diti_split_shape *shape,
                                              dit_error *err) {
    const uint32_t *degree = plan->split.degree;
    char name[DITI_SPLIT_NAME];
    DITI_TRY(diti_split_check(&plan->split, shape, err));
    if (plan->split.shard && degree[DITI_SPLIT_TENSOR] * degree[DITI_SPLIT_PIPEFUSION] * degree[DITI_SPLIT_LAYERS] > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s: shard is for devices that compute all blocks whole: it goes with cfg, ulysses and "
                         "ring alone",
                         diti_split_print_plan(plan, name));
    if (degree[DITI_SPLIT_PIPEFUSION] < 2) return DIT_OK;
    if ((uint64_t)plan->patches * degree[DITI_SPLIT_ULYSSES] * degree[DITI_SPLIT_RING] <= shape->rows) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "split %s: %u patches of the picture, which has %u rows of tokens",
                     diti_split_print_plan(plan, name), (unsigned)plan->patches, (unsigned)shape->rows);
}
