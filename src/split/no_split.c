/* DIT_NO_SPLIT: what stands in place of peers, meshes and names of splits. A context of several devices is refused, and
   so is a split; no job ever has a mesh, so the functions of meshes are never called. */
#include "split/mesh.h"

DIT_INTERNAL dit_result diti_peers_create(const diti_env *env, diti_device *const *devices, uint32_t count,
                                          const dit_transport *application, const char *overrides, diti_peers **out,
                                          dit_error *err) {
    (void)env, (void)devices, (void)count, (void)application, (void)overrides;
    *out = NULL;
    return diti_fail(
        err, DIT_ERROR_INVALID_ARGUMENT,
        "dit_context_desc: there must be one device and one rank: this build was made without splits (DIT_NO_SPLIT)");
}

DIT_INTERNAL void diti_peers_destroy(diti_peers *peers) { (void)peers; }

DIT_INTERNAL bool diti_mesh_ready(diti_mesh *mesh, uint32_t member, uint32_t segment, uint32_t slice) {
    (void)mesh, (void)member, (void)segment, (void)slice;
    return true;
}

DIT_INTERNAL dit_result diti_mesh_submit(diti_mesh *mesh, uint32_t member, uint32_t segment, uint32_t slice,
                                         uint64_t *value, dit_error *err) {
    (void)mesh, (void)member, (void)segment, (void)slice, (void)value, (void)err;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_mesh_pump(diti_mesh *mesh, bool *moved, dit_error *err) {
    (void)mesh, (void)moved, (void)err;
    return DIT_OK;
}

DIT_INTERNAL diti_device *diti_mesh_waits(const diti_mesh *mesh) {
    (void)mesh;
    return NULL;
}

DIT_INTERNAL bool diti_mesh_awaits(const diti_mesh *mesh, const diti_device *device) {
    (void)mesh, (void)device;
    return false;
}

DIT_INTERNAL bool diti_mesh_idle(const diti_mesh *mesh) {
    (void)mesh;
    return true;
}

DIT_INTERNAL dit_result diti_mesh_wait(diti_mesh *mesh, uint64_t timeout_ns, bool *waited, dit_error *err) {
    (void)mesh, (void)timeout_ns, (void)waited, (void)err;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_mesh_watch(diti_mesh *mesh, bool moved, dit_error *err) {
    (void)mesh, (void)moved, (void)err;
    return DIT_OK;
}

DIT_INTERNAL uint64_t diti_mesh_bytes(const diti_mesh *mesh, uint32_t member, uint32_t to) {
    (void)mesh, (void)member, (void)to;
    return 0;
}

DIT_INTERNAL uint32_t diti_split_ranks(const diti_split *split) {
    (void)split;
    return 1;
}

DIT_INTERNAL const char *diti_split_print_plan(const diti_split_plan *plan, char out[DITI_SPLIT_NAME]) {
    (void)plan;
    diti_format(out, DITI_SPLIT_NAME, "cfg1");
    return out;
}

DIT_INTERNAL dit_result diti_split_check_plan(const diti_split_plan *plan, const diti_split_shape *shape,
                                              dit_error *err) {
    (void)plan, (void)shape, (void)err;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_split_take(const diti_env *env, const char *text, diti_split_plan *out, dit_error *err) {
    (void)env;
    uint32_t axis;
    memset(out, 0, sizeof *out);
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) out->split.degree[axis] = 1;
    out->strips = out->warmup = 1;
    if (diti_equal(text, "cfg1") || diti_equal(text, "auto")) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: split %.100s: this build was made without splits (DIT_NO_SPLIT)", text);
}

DIT_INTERNAL void diti_beats_prepare(diti_peers *peers) { (void)peers; }

DIT_INTERNAL dit_progress diti_beats_progress(diti_peers *peers, const dit_progress *own, diti_telling *telling) {
    (void)peers, (void)telling;
    return *own;
}

DIT_INTERNAL uint32_t diti_beats_number(diti_peers *peers) {
    (void)peers;
    return 0;
}

DIT_INTERNAL void diti_beats_aim(diti_peers *peers, uint32_t job, uint32_t run) { (void)peers, (void)job, (void)run; }

DIT_INTERNAL void diti_beats_made(diti_peers *peers, uint32_t job, uint32_t run, bool joins, diti_leaving how) {
    (void)peers, (void)job, (void)run, (void)joins, (void)how;
}

DIT_INTERNAL void diti_beats_leave(diti_mesh *mesh, diti_leaving how) { (void)mesh, (void)how; }

DIT_INTERNAL void diti_mesh_log(diti_mesh *mesh) { (void)mesh; }
