/* Splits by name, and whether a model allows them. */
#include "split/axes.h"

/* One AXIS DEGREE, or int8, or shard; at is moved behind it. Returns what is wrong with it; NULL: nothing. */
static const char *diti_split_parse_item(const char **at, diti_split_plan *out) {
    static const char *const usage =
        "write auto, auto:any, @FILE, or some of cfg, layers, pipefusion, ring, ulysses, tensor, each with a number from 1 to 64, "
        "and int8, int8:e or shard behind them: cfg2,ulysses2,shard or pipefusion4:m8w1,int8 or tensor2x2";
    uint32_t axis = 0, degree;
    diti_split_method method;
    if (diti_starts_with(*at, "int8")) {
        *at += 4;
        if (out->int8) return "int8 stands in it twice";
        out->int8 = true;
        out->feedback = diti_starts_with(*at, ":e");
        if (out->feedback) *at += 2;
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
    method = diti_split_method_of(axis);
    *at += strlen(method.name);
    if (!diti_split_parse_number(at, 1, DITI_SPLIT_DEVICES, &degree)) return usage;
    if (method.read && !method.read(at, &degree, out)) return usage;
    if (**at != ',' && **at != 0) return usage;
    if (out->split.degree[axis]) return "a method stands in it twice";
    out->split.degree[axis] = degree;
    return NULL;
}

static void diti_split_fill(diti_split_plan *plan) {
    uint32_t axis;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) plan->split.degree[axis] += plan->split.degree[axis] == 0;
    if (!plan->strips) plan->strips = plan->split.degree[DITI_SPLIT_PIPEFUSION];
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
        out->feedback = diti_equal(at, ",int8:e");
        out->int8 = out->feedback || diti_equal(at, ",int8");
        automatic = !*at || out->int8;
        at = text;
    }
    if (automatic) return DIT_OK;
    out->any = out->int8 = out->feedback = false;
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

/* The outermost axis first; one device is cfg1. plan NULL: methods and degrees alone. */
static void diti_split_print_axes(const diti_split *split, const diti_split_plan *plan, char out[DITI_SPLIT_NAME]) {
    size_t length = 0;
    uint32_t axis = DITI_SPLIT_AXES;
    char degree[40];
    diti_format(out, DITI_SPLIT_NAME, split->degree[0] ? "cfg1" : "auto");
    while (axis-- > 0) {
        diti_split_method method = diti_split_method_of(axis);
        if (split->degree[axis] < 2) continue;
        diti_format(degree, sizeof degree, "%u", (unsigned)split->degree[axis]);
        if (method.print) method.print(split, plan, degree, sizeof degree);
        diti_format(out + length, DITI_SPLIT_NAME - length, "%s%s%s", length ? "," : "", method.name, degree);
        length = strlen(out);
    }
}

DIT_INTERNAL const char *diti_split_print(const diti_split *split, char out[DITI_SPLIT_NAME]) {
    size_t length;
    diti_split_print_axes(split, NULL, out);
    length = strlen(out);
    if (split->shard) diti_format(out + length, DITI_SPLIT_NAME - length, ",shard");
    return out;
}

DIT_INTERNAL const char *diti_split_print_plan(const diti_split_plan *plan, char out[DITI_SPLIT_NAME]) {
    size_t length;
    diti_split_print_axes(&plan->split, plan, out);
    if (plan->any) diti_format(out, DITI_SPLIT_NAME, "auto:any");
    length = strlen(out);
    diti_format(out + length, DITI_SPLIT_NAME - length, "%s%s", plan->split.shard ? ",shard" : "",
                plan->feedback ? ",int8:e"
                : plan->int8   ? ",int8"
                               : "");
    return out;
}

/* Devices among which one thing is divided: the product of the degrees of all methods that divide it. In a grid of
   tensor, devices that have the same outputs have the same heads; where attention is by turns, ulysses leaves heads
   alone. */
static uint32_t diti_split_divisor(const diti_split *split, const diti_split_shape *shape, uint32_t thing) {
    uint32_t product = 1, axis;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        if (!(diti_split_method_of(axis).divides & thing)) continue;
        if (axis == DITI_SPLIT_ULYSSES && thing == DITI_DIVIDES_HEADS && shape->frames) continue;
        product *=
            axis == DITI_SPLIT_TENSOR && split->inputs ? split->degree[axis] / split->inputs : split->degree[axis];
    }
    return product;
}

/* Methods that cannot stand side by side. */
static dit_result diti_split_check_pairs(const diti_split *split, const char *name, dit_error *err) {
    uint32_t axis, other;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        diti_split_method method = diti_split_method_of(axis);
        for (other = 0; other < DITI_SPLIT_AXES && split->degree[axis] > 1; other++)
            if (method.excludes >> other & 1 && split->degree[other] > 1)
                return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: %s and %s exclude each other", name,
                                 method.name, diti_split_axis_name(other));
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_split_check(const diti_split *split, const diti_split_shape *shape, dit_error *err) {
    char name[DITI_SPLIT_NAME];
    diti_split_print(split, name);
    if (diti_split_divisor(split, shape, DITI_DIVIDES_BRANCHES) > (shape->guided ? 2u : 1u))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: cfg%u, but this model computes %s", name,
                         (unsigned)split->degree[DITI_SPLIT_CFG],
                         shape->guided ? "two branches of guidance" : "without classifier-free guidance");
    if (shape->frames && (split->degree[DITI_SPLIT_RING] > 1 || split->degree[DITI_SPLIT_PIPEFUSION] > 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s: ring and pipefusion are not for attention within frames and within positions by "
                         "turns",
                         name);
    if (shape->frames && split->degree[DITI_SPLIT_ULYSSES] > shape->frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s: ulysses gives each device whole latent frames, of which there are %u, fewer than "
                         "devices",
                         name, (unsigned)shape->frames);
    if (diti_split_divisor(split, shape, DITI_DIVIDES_HEADS) > shape->heads)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s: tensor and ulysses divide heads, of which this "
                         "model has %u",
                         name, (unsigned)shape->heads);
    DITI_TRY(diti_split_check_pairs(split, name, err));
    if (diti_split_divisor(split, shape, DITI_DIVIDES_LAYERS) > shape->layers)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: it divides layers, of which this model has %u",
                         name, (unsigned)shape->layers);
    if (diti_split_divisor(split, shape, DITI_DIVIDES_ROWS) > shape->rows)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: it divides rows, of which there are %u", name,
                         (unsigned)shape->rows);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_split_check_plan(const diti_split_plan *plan, const diti_split_shape *shape,
                                              dit_error *err) {
    char name[DITI_SPLIT_NAME];
    uint32_t axis;
    DITI_TRY(diti_split_check(&plan->split, shape, err));
    if (plan->split.shard && diti_split_cuts_blocks(&plan->split))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s: shard is for devices that compute all blocks whole: it goes with cfg, ulysses and "
                         "ring alone",
                         diti_split_print_plan(plan, name));
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        diti_split_method method = diti_split_method_of(axis);
        if (plan->split.degree[axis] > 1 && method.limits)
            DITI_TRY(method.limits(plan, shape, diti_split_print_plan(plan, name), err));
    }
    return DIT_OK;
}
