/* The methods, one row each. */
#include "split/axes.h"

/* In the order of diti_split_axis: the innermost axis of the mesh first. */
DIT_INTERNAL diti_split_method diti_split_method_of(uint32_t axis) {
    static void (*const methods[DITI_SPLIT_AXES])(diti_split_method *) = {
        diti_axis_tensor, diti_axis_ulysses, diti_axis_ring, diti_axis_pipefusion, diti_axis_layers, diti_axis_cfg};
    diti_split_method method = DITI_ZERO;
    methods[axis](&method);
    return method;
}

DIT_INTERNAL void diti_split_methods(diti_split_method out[DITI_SPLIT_AXES]) {
    uint32_t axis;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) out[axis] = diti_split_method_of(axis);
}

DIT_INTERNAL const char *diti_split_axis_name(uint32_t axis) { return diti_split_method_of(axis).name; }

DIT_INTERNAL bool diti_split_is_exact(uint32_t axis) { return diti_split_method_of(axis).exact; }

DIT_INTERNAL bool diti_split_cuts_blocks(const diti_split *split) {
    uint32_t axis;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++)
        if (split->degree[axis] > 1 && diti_split_method_of(axis).cuts_blocks) return true;
    return false;
}
