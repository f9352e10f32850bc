/* PipeFusion: a step is evaluated strip by strip, so that every stage of blocks works on another one, and the solver
   does a strip of the latent as soon as its prediction is back: the first stage goes on with that strip's next step
   while the strips behind it are still on their way. A segment so does the solver's part of the step before it. */
#include "job/job.h"

/* More than one stage: what a step predicts is worked on in the segment after it. */
static bool diti_strips_piped(const diti_share *share) {
    return diti_ranks_count(&share->assignment.axes.pipefusion) > 1;
}

DIT_INTERNAL uint32_t diti_strips_after(const diti_share *share, uint32_t segment, uint32_t steps) {
    const dit_job *job = share->job;
    const diti_program *program = &share->program;
    const diti_job_request *request = &job->request;
    uint32_t form, variant;
    bool more = steps < request->shape.steps && !diti_job_preview_due(job, steps) &&
                !diti_strips_whole(request, job->begins_at, steps);
    if (!diti_strips_piped(share)) return UINT32_MAX;
    for (form = DITI_FORM_STRIPS; form <= DITI_FORM_NEXT; form++) {
        for (variant = 0; variant < DITI_STEP_VARIANTS; variant++) {
            if (program->step_segments[form][variant] != segment &&
                program->reuse_segments[0][form][variant] != segment)
                continue;
            more = more && diti_job_step_variant(request, steps) == variant;
            if (more && diti_job_reuses(job, steps)) return program->reuse_segments[0][DITI_FORM_NEXT][variant];
            return program->step_segments[more ? DITI_FORM_NEXT : DITI_FORM_REST][variant];
        }
    }
    return UINT32_MAX;
}

DIT_INTERNAL bool diti_strips_is(const diti_share *share, uint32_t segment, diti_step_form form) {
    uint32_t variant;
    for (variant = 0; variant < DITI_STEP_VARIANTS && diti_strips_piped(share); variant++)
        if (share->program.step_segments[form][variant] == segment ||
            share->program.reuse_segments[0][form][variant] == segment)
            return true;
    return false;
}

/* ---- where predictions are ---- */

/* A step's predictions: count strips, whose planes are those of the job from `first` on; of the picture as a
   whole one, whose planes are the last. */
typedef struct diti_strip_walk {
    diti_step_kind kind;
    bool reuses; /* blocks */
    uint32_t first, count;
} diti_strip_walk;

/* A strip's columns of planes. */
static diti_tensor diti_strips_view(const diti_share *share, diti_graph *graph, diti_tensor planes, uint32_t first_row,
                                    uint32_t rows, uint32_t strip, uint32_t strips) {
    uint32_t first, count = diti_transformer_strip_pixels(diti_share_transformer(share), &share->program.step, strip,
                                                          strips, &first);
    return planes ? diti_tensor_view(graph, planes, first_row, rows, first, count) : 0;
}

static void diti_strips_views(diti_share *share, diti_graph *graph, diti_tensor planes, uint32_t strip, uint32_t strips,
                              diti_tensor *views) {
    uint32_t all = diti_tensor_get(graph, planes)->rows, rows = share->job->request.shape.guided ? all / 2 : all;
    views[DITI_PLANES_FIRST] = diti_strips_view(share, graph, planes, 0, rows, strip, strips);
    views[DITI_PLANES_LAST] = diti_strips_view(share, graph, planes, all - rows, rows, strip, strips);
    views[DITI_PLANES_BOTH] = diti_strips_view(share, graph, planes, 0, all, strip, strips);
}

DIT_INTERNAL void diti_strips_begin(diti_share *share, diti_graph *graph) {
    const diti_job_shape *shape = &share->job->request.shape;
    uint32_t rows, strip;
    diti_tensor planes;
    memset(&share->program.kept_kv, 0, sizeof share->program.kept_kv);
    share->program.kept_kv.int8 = shape->int8_kept;
    share->program.step.kept_kv = diti_strips_used(shape) ? &share->program.kept_kv : NULL;
    if (!diti_strips_piped(share) || share->assignment.axes.pipefusion.index || diti_graph_failed(graph)) return;
    rows = diti_tensor_get(graph, share->program.latent)->rows * (shape->learned ? 2u : 1u) * (shape->guided ? 2u : 1u);
    planes =
        diti_tensor_state(graph, DITI_F32, rows, diti_tensor_get(graph, share->program.latent)->columns, "predictions");
    for (strip = 0; strip < shape->strips && !diti_graph_failed(graph); strip++)
        diti_strips_views(share, graph, planes, strip, shape->strips, share->program.strips[strip]);
    if (!diti_graph_failed(graph)) diti_strips_views(share, graph, planes, 0, 1, share->program.strips[shape->strips]);
}

/* A stage of a branch, as exchanges number it, and which of a strip's sets of planes its prediction is; false: the
   branch is left out. */
static bool diti_strips_peer(const diti_share *share, diti_step_kind kind, uint32_t stage, uint32_t branch,
                             uint32_t *planes, uint32_t *device) {
    const diti_ranks *stages = &share->assignment.axes.pipefusion, *guidance = &share->assignment.guidance;
    bool alone = kind == DITI_STEP_ALONE || !share->job->request.shape.guided;
    *device = stages->devices[stage];
    *planes = alone ? (uint32_t)DITI_PLANES_LAST : (uint32_t)DITI_PLANES_BOTH;
    if (guidance->count < 2) return true;
    *device += guidance->devices[branch] - guidance->devices[guidance->index];
    *planes = branch;
    return branch == 1 || !alone;
}

/* The last stage's prediction of a strip goes to the first stages of all branches: 4 bytes for each of its values to
   each of them. */
static void diti_strips_send(const diti_share *share, diti_graph *graph, diti_tensor prediction) {
    uint32_t branch, planes, device;
    for (branch = 0; branch < diti_ranks_count(&share->assignment.guidance); branch++) {
        diti_strips_peer(share, DITI_STEP_USUAL, 0, branch, &planes, &device);
        diti_send(graph, prediction, device);
    }
}

static void diti_strips_receive(const diti_share *share, diti_graph *graph, const diti_strip_walk *p) {
    uint32_t strip, branch, planes, device, last = share->assignment.axes.pipefusion.count - 1;
    for (strip = 0; strip < p->count; strip++)
        for (branch = 0; branch < diti_ranks_count(&share->assignment.guidance); branch++)
            if (diti_strips_peer(share, p->kind, last, branch, &planes, &device))
                diti_receive_carried(graph, share->program.strips[p->first + strip][planes], device);
}

static void diti_strips_join(const diti_share *share, diti_graph *graph, const diti_strip_walk *p, uint32_t strip) {
    uint32_t branch, planes, device;
    for (branch = 0; branch < diti_ranks_count(&share->assignment.guidance); branch++)
        if (diti_strips_peer(share, p->kind, 0, branch, &planes, &device))
            diti_receive_join(graph, share->program.strips[p->first + strip][planes]);
}

/* ---- a segment ---- */

/* Selects the rows of the solver's tables that share->program.step_row names. */
static void diti_strips_select(const diti_share *share, diti_graph *graph, diti_step_kind kind,
                               diti_solver_desc *solver) {
    const diti_tensor_info latent = *diti_tensor_get(graph, share->program.latent);
    solver->guided = share->job->request.shape.guided && kind != DITI_STEP_ALONE;
    if (share->program.step_noise)
        solver->noise = diti_tensor_reshape(
            graph, diti_select_row(graph, share->program.step_noise, share->program.step_row, "select noise"),
            latent.rows, latent.columns);
    solver->coefficients =
        diti_select_row(graph, share->program.coefficients, share->program.step_row, "select coefficients");
}

static void diti_strips_solve(const diti_share *share, diti_graph *graph, const diti_strip_walk *p,
                              const diti_solver_desc *whole, uint32_t strip) {
    diti_solver_desc solver = *whole;
    uint32_t rows = diti_tensor_rows(graph, share->program.latent);
    diti_strips_join(share, graph, p, strip);
    solver.x = diti_strips_view(share, graph, whole->x, 0, rows, strip, p->count);
    solver.h1 = diti_strips_view(share, graph, whole->h1, 0, rows, strip, p->count);
    solver.h2 = diti_strips_view(share, graph, whole->h2, 0, rows * diti_solver_planes(whole), strip, p->count);
    solver.x0 = diti_strips_view(share, graph, whole->x0, 0, rows, strip, p->count);
    solver.noise = diti_strips_view(share, graph, whole->noise, 0, rows, strip, p->count);
    diti_solver_step(
        graph, share->program.strips[p->first + strip][solver.guided ? DITI_PLANES_BOTH : DITI_PLANES_LAST], &solver);
}

/* Strips of this step, each on the first stage after the solver's part of the step before, where that is due. */
static void diti_strips_evaluate(diti_share *share, diti_graph *graph, const diti_strip_walk *p,
                                 const diti_solver_desc *solver) {
    diti_step_desc *step = &share->program.step;
    bool alone = p->kind == DITI_STEP_ALONE,
         idle = alone && share->assignment.guidance.count > 1 && share->assignment.guidance.index == 0;
    step->strips = p->count;
    step->first_branch = alone ? step->branches - 1 : 0;
    diti_reuse_select(share, graph, p->kind, p->reuses);
    if (share->program.input_scales && !share->assignment.axes.pipefusion.index)
        step->input_scale =
            diti_select_row(graph, share->program.input_scales, share->program.step_row, "select input scale");
    for (step->strip = 0; step->strip < p->count && !diti_graph_failed(graph); step->strip++) {
        diti_tensor prediction = 0;
        if (solver) diti_strips_solve(share, graph, p, solver, step->strip);
        if (!idle) prediction = diti_transformer_strip(diti_share_transformer(share), graph, step);
        if (prediction) diti_strips_send(share, graph, prediction);
    }
    step->strip = step->first_branch = 0;
    if (!share->assignment.axes.pipefusion.index) diti_strips_receive(share, graph, p);
}

/* Rows of the tables are those of the step before until share->program.step_row moves on. */
static void diti_strips_step(diti_share *share, diti_graph *graph, diti_step_kind kind, diti_step_form form,
                             bool reuses, const diti_solver_desc *states) {
    bool first = share->assignment.axes.pipefusion.index == 0, late = form == DITI_FORM_NEXT || form == DITI_FORM_REST;
    diti_solver_desc solver = *states;
    diti_strip_walk p;
    uint32_t strip;
    p.kind = kind;
    p.reuses = reuses;
    p.first = form == DITI_FORM_WHOLE ? share->job->request.shape.strips : 0;
    p.count = form == DITI_FORM_WHOLE ? 1 : share->job->request.shape.strips;
    if (first && form != DITI_FORM_STRIPS) diti_strips_select(share, graph, kind, &solver);
    if (late) diti_advance_step(graph, share->program.step_row);
    if (form != DITI_FORM_REST) diti_strips_evaluate(share, graph, &p, first && late ? &solver : NULL);
    for (strip = 0; strip < p.count && first && (form == DITI_FORM_WHOLE || form == DITI_FORM_REST); strip++)
        diti_strips_solve(share, graph, &p, &solver, strip);
    if (form == DITI_FORM_WHOLE) diti_advance_step(graph, share->program.step_row);
}

DIT_INTERNAL bool diti_strips_emit(diti_share *share, diti_graph *graph, diti_step_kind kind, diti_step_form form,
                                   bool reuses, const diti_solver_desc *states) {
    share->program.step.strips = form == DITI_FORM_STRIPS ? share->job->request.shape.strips : 0;
    if (diti_strips_piped(share) && !diti_graph_failed(graph))
        diti_strips_step(share, graph, kind, form, reuses, states);
    return diti_strips_piped(share);
}

/* Whether some run has segments of that form, wherever it begins. */
DIT_INTERNAL bool diti_strips_has(const diti_share *share, uint32_t variant, diti_step_form form) {
    const diti_job_request *request = &share->job->request;
    uint32_t step, cut = 0;
    if (form == DITI_FORM_WHOLE) return request->shape.variants >> variant & 1u;
    for (step = request->shape.warmup; step < request->shape.steps; step++)
        cut += diti_job_step_variant(request, step) == variant;
    if (cut && request->shape.control_set_count > 1) cut = 2; /* a restart may change their steps */
    if (!diti_strips_used(&request->shape)) return false;
    return form == DITI_FORM_STRIPS ? cut > 0 : diti_strips_piped(share) && cut > (form == DITI_FORM_NEXT ? 1u : 0u);
}

DIT_INTERNAL void diti_strips_share_latent(diti_share *share, diti_graph *graph) {
    if (diti_strips_piped(share)) diti_broadcast(graph, &share->assignment.axes.pipefusion, 0, share->program.latent);
}
