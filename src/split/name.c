/* Splits by name, and whether a model allows them. */
#include "split/split.h"

DIT_INTERNAL const char *diti_split_axis_name(uint32_t axis) {
    static const char *const names[DITI_SPLIT_AXES] = {"tensor", "ulysses", "ring", "pipefusion", "layers", "cfg"};
    return names[axis];
}

/* One AXIS DEGREE; at is moved behind it. False: there is none, or its degree is not 1 to DITI_SPLIT_DEVICES. */
static bool diti_split_parse_axis(const char **at, uint32_t *axis, uint32_t *degree) {
    *axis = 0;
    while (!diti_starts_with(*at, diti_split_axis_name(*axis))) {
        if (++*axis == DITI_SPLIT_AXES) return false;
    }
    *at += strlen(diti_split_axis_name(*axis));
    for (*degree = 0; **at >= '0' && **at <= '9' && *degree <= DITI_SPLIT_DEVICES; ++*at)
        *degree = *degree * 10 + (uint32_t)(**at - '0');
    return *degree >= 1 && *degree <= DITI_SPLIT_DEVICES && (**at == ',' || **at == 0);
}

DIT_INTERNAL dit_result diti_split_parse(const char *text, diti_split *out, dit_error *err) {
    const char *at = text, *wrong = NULL;
    uint32_t axis, degree;
    memset(out, 0, sizeof *out);
    if (diti_equal(text, "auto")) return DIT_OK;
    do {
        if (!diti_split_parse_axis(&at, &axis, &degree))
            wrong = "write auto, or some of cfg, layers, pipefusion, ring, ulysses, tensor, each with a number from 1 "
                    "to 64: cfg2,ulysses2";
        else if (out->degree[axis])
            wrong = "a method stands in it twice";
        else
            out->degree[axis] = degree;
    } while (!wrong && *at++);
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) out->degree[axis] += out->degree[axis] == 0;
    if (!wrong && diti_split_ranks(out) > DITI_SPLIT_DEVICES) wrong = "that is for more than 64 devices";
    return wrong ? diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split '%s': %s", text, wrong) : DIT_OK;
}

/* The outermost axis first; one device is cfg1. */
DIT_INTERNAL const char *diti_split_print(const diti_split *split, char out[DITI_SPLIT_NAME]) {
    size_t length = 0;
    uint32_t axis = DITI_SPLIT_AXES;
    diti_format(out, DITI_SPLIT_NAME, split->degree[0] ? "cfg1" : "auto");
    while (axis-- > 0) {
        if (split->degree[axis] < 2) continue;
        diti_format(out + length, DITI_SPLIT_NAME - length, "%s%s%u", length ? "," : "", diti_split_axis_name(axis),
                    (unsigned)split->degree[axis]);
        length = strlen(out);
    }
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
    if (degree[DITI_SPLIT_TENSOR] * degree[DITI_SPLIT_ULYSSES] > shape->heads)
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
