/* Tells what each device does for a job, before it runs. */
#include "job/job.h"

DIT_INTERNAL const char *diti_job_print_split(const diti_job_shape *shape, char out[DITI_SPLIT_NAME]) {
    diti_split_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.split = shape->split;
    plan.strips = shape->strips;
    plan.warmup = shape->warmup;
    plan.int8 = shape->int8_payload;
    plan.feedback = shape->int8_feedback;
    plan.kept_int8 = shape->int8_kept;
    if (diti_split_ranks(&plan.split) == 1) plan.strips = plan.warmup = 1;
    return diti_split_print_plan(&plan, out);
}

/* "rows 12-23 of 24": what a member of a group has of so many. */
static void diti_share_append(char *out, size_t size, const diti_ranks *group, const char *what, uint32_t total) {
    size_t length = strlen(out);
    uint32_t first, count;
    if (diti_ranks_count(group) == 1) return;
    first = diti_ranks_first(group, group->index, total);
    count = diti_ranks_size(group, group->index, total);
    diti_format(out + length, size - length, "%s%s %u-%u of %u", length ? ", " : "", what, first,
                first + (count ? count - 1 : 0), total);
}

DIT_INTERNAL void diti_share_describe(const diti_share *share, dit_share *out) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    const diti_axes *axes = &share->assignment.axes;
    diti_split_shape split;
    uint32_t ranks = share->assignment.share_total, branches = diti_ranks_count(&share->assignment.guidance);
    memset(out, 0, sizeof *out);
    diti_job_split_shape(job->model, &job->request, &split);
    if (branches > 1)
        diti_format(out->work, sizeof out->work, "branch %u of %u", share->assignment.guidance.index + 1, branches);
    diti_share_append(out->work, sizeof out->work, &axes->sequence, "rows", split.rows);
    diti_share_append(out->work, sizeof out->work, &axes->ulysses, "heads", split.heads);
    diti_share_append(out->work, sizeof out->work, &axes->tensor_out, "matrices of heads", split.heads);
    diti_share_append(out->work, sizeof out->work, &axes->tensor_in, "their columns", split.hidden);
    diti_share_append(out->work, sizeof out->work, diti_axes_stages(axes), "blocks", split.layers);
    if (!out->work[0]) diti_format(out->work, sizeof out->work, "everything");
    out->part =
        (float)(shape->shares[0] > 0
                    ? shape->shares[share->assignment.folded ? share->assignment.share / 2 : share->assignment.share] /
                          (share->assignment.folded ? 2 * branches : branches)
                    : 1.0 / ranks);
    if (ranks > 1)
        out->step_bytes = diti_plan_exchange_bytes(share->program.plan, share->program.step_segment, UINT32_MAX);
}
