/* Plans of several devices that work together, run without a job. Include it after the library. */
#ifndef MESH_RUN_H
#define MESH_RUN_H

/* Runs one segment of theirs as a job does, without budgets. An error, once nothing has moved for ten minutes. */
static inline dit_result run_plans(diti_mesh *mesh, diti_plan *const *plans, uint32_t count, uint32_t segment,
                                   dit_error *err) {
    uint32_t slices[DITI_MAX_DEVICES] = {0}, i;
    uint64_t value, begin = diti_clock_us();
    dit_result result = DIT_OK;
    bool moved = true, all = false, waited;
    while (result >= 0 && !(all && diti_mesh_idle(mesh))) {
        if (!moved) result = diti_mesh_wait(mesh, 1000000, &waited, err);
        moved = false;
        if (result >= 0) result = diti_mesh_pump(mesh, &moved, err);
        for (i = 0, all = true; i < count; i++) {
            for (; result >= 0 && slices[i] < diti_plan_slice_count(plans[i], segment); slices[i]++, moved = true) {
                if (!diti_mesh_ready(mesh, i, segment, slices[i])) break;
                result = diti_mesh_submit(mesh, i, segment, slices[i], &value, err);
            }
            all = all && slices[i] == diti_plan_slice_count(plans[i], segment);
        }
        if (moved) begin = diti_clock_us();
        if (diti_clock_us() - begin > 600000000) return DIT_ERROR_TRANSPORT;
    }
    return result;
}
#endif
