/* The whole picture as one graph: encode, prepare, step (replayed), preview (between steps), decode. */
#include "job/job.h"

/* The text rows that a share reads: those of its branches, or all where they have no fixed places. */
static uint32_t diti_emit_share_rows(const dit_job *job, const diti_assignment *whose, uint32_t text, uint32_t *first) {
    uint32_t tokens = job->model->texts[text].tokens;
    *first = job->model->fixed_text ? whose->first_branch * tokens : 0;
    if (!job->model->fixed_text)
        return job->request.shape.encoded_rows + job->request.shape.given_rows +
               (job->request.shape.null_text ? job->model->texts[text].tokens : 0);
    return whose->branches * tokens;
}

/* Inputs reach the device with its first op, behind which alone they can be sent. */
static bool diti_emit_can_send(diti_graph *graph, diti_tensor x) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    return info->format == DITI_F32 && diti_tensor_get(graph, info->parent)->storage != DITI_STORAGE_INPUT;
}

static void diti_emit_send_text(diti_share *share, diti_graph *graph, uint32_t text) {
    const dit_job *job = share->job;
    diti_tensor whole = share->program.text.texts[text], sent = whole;
    uint32_t i, first, rows, columns = diti_tensor_get(graph, whole)->columns;
    if (!diti_emit_can_send(graph, whole)) {
        sent = diti_tensor_new(graph, DITI_F32, diti_tensor_get(graph, whole)->rows, columns, "text to send");
        diti_copy(graph, whole, sent, "text to send");
    }
    for (i = 1; i < share->assignment.share_total; i++) {
        diti_assignment other;
        diti_assign(&job->request.shape, share->assignment.folded, i, share->assignment.share_total, &other);
        rows = diti_emit_share_rows(job, &other, text, &first);
        diti_send(graph, diti_tensor_view(graph, sent, first, rows, 0, columns), i);
    }
    rows = diti_emit_share_rows(job, &share->assignment, text, &first);
    share->program.text.texts[text] = diti_tensor_view(graph, whole, first, rows, 0, columns);
}

static void diti_emit_receive_text(diti_share *share, diti_graph *graph, uint32_t text) {
    uint32_t first, rows = diti_emit_share_rows(share->job, &share->assignment, text, &first);
    share->program.text.texts[text] =
        diti_tensor_new(graph, DITI_F32, rows, share->job->model->texts[text].columns, "text from the first share");
    diti_receive_by_end(graph, share->program.text.texts[text], 0);
}

static bool diti_emit_has_text(const dit_job *job, uint32_t text) {
    if (job->model->transformer->traits.class_count) return false;
    return text == DITI_TEXT_FIRST || (job->model->fixed_text && job->model->texts[text].tokens > 0);
}

/* Shares take everything from the first by the segment's end: exchanges end in the order in which they begin. */
static void diti_emit_share_seen(diti_share *share, diti_graph *graph) {
    uint32_t i;
    if (!share->program.text.seen) return;
    if (share->assignment.share) diti_receive_by_end(graph, share->program.text.seen, 0);
    for (i = 1; !share->assignment.share && i < share->assignment.share_total; i++)
        diti_send(graph, share->program.text.seen, i);
}

/* The first share sends what it has encoded to the others. */
static void diti_emit_share_text(diti_share *share, diti_graph *graph) {
    uint32_t text;
    for (text = 0; text < DITI_TEXTS && share->assignment.share_total > 1 && !diti_graph_failed(graph); text++) {
        if (!diti_emit_has_text(share->job, text)) continue;
        if (share->assignment.share)
            diti_emit_receive_text(share, graph, text);
        else
            diti_emit_send_text(share, graph, text);
    }
    if (share->assignment.share_total > 1) diti_emit_share_seen(share, graph);
}

/* All shares have the tokens that the image encoder makes of a picture, where these are no text of a branch. */
static void diti_emit_seen(diti_share *share, diti_graph *graph) {
    const dit_model *model = share->job->model;
    uint32_t columns = model->transformer->traits.seen_columns;
    if (!columns || !model->image_encoder) return;
    share->program.text.seen = diti_tensor_state(graph, DITI_F32, diti_clip_vision_tokens(model->image_encoder),
                                                 columns, "tokens of the picture");
}

static void diti_emit_text(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    diti_text_use *use = &share->program.text;
    uint32_t i;
    diti_emit_seen(share, graph);
    if (share->assignment.share) return;
    use->branches = diti_job_branches(&job->request.shape);
    use->encodes[0] = job->request.shape.encodes[0];
    use->encodes[1] = job->request.shape.encodes[1];
    use->weighted = job->request.shape.weighted;
    use->clip_skip = job->request.shape.clip_skip;
    for (i = 0; i < job->request.shape.reference_count && diti_references_tokens(&job->request.shape); i++)
        use->pictures[use->picture_count++] = job->request.shape.references[i].shown;
    use->encoded_rows = job->request.shape.encoded_rows;
    use->given_rows = job->request.shape.given_rows;
    if (job->request.shape.null_text) use->null_text = job->model->transformer->traits.null_text;
    for (i = 0; job->model->image_encoder && i < job->model->transformer->traits.pictures_seen; i++)
        use->patches[i] = diti_clip_vision_input(job->model->image_encoder, graph);
    if (!job->model->transformer->traits.class_count) diti_prompts_emit(job->model, graph, use);
}

/* Images share the prompts, but each has a class of its own. */
static void diti_emit_conditions(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    diti_step_desc *step = &share->program.step;
    if (job->model->transformer->traits.class_count) {
        step->text_batch = step->branches * step->batch;
        step->labels = share->program.labels = diti_tensor_input(graph, DITI_U32, 1, step->text_batch, "classes");
        return;
    }
    if (!job->model->fixed_text) /* families with places of fixed length know which rows are whose */
        share->program.text_items = diti_tensor_input(graph, DITI_U32, step->branches, DITI_ITEM_WORDS, "prompts");
    step->text_batch = step->branches;
    step->text_tokens = job->request.shape.text_rows;
    step->text2_tokens = job->request.shape.text2_rows;
    step->text = share->program.text.texts[DITI_TEXT_FIRST];
    step->text2 = share->program.text.texts[DITI_TEXT_SECOND];
    step->pooled = share->program.text.texts[DITI_TEXT_POOLED];
    step->seen = share->program.text.seen;
    step->text_items = share->program.text_items;
    step->text_firsts = share->program.text_firsts;
    step->text_lengths = job->request.lengths[DITI_TEXT_FIRST] + share->assignment.first_branch;
    step->text2_lengths = job->request.lengths[DITI_TEXT_SECOND] + share->assignment.first_branch;
}

/* Makes the tensors that the solver works on and remembers. */
static void diti_emit_states(diti_share *share, diti_graph *graph, diti_solver_desc *solver) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    uint32_t channels = job->model->transformer->traits.latent_channels, planes = shape->image_count * channels,
             pixels = (uint32_t)diti_request_plane(&job->request), room = planes * diti_padded(pixels), first;
    memset(solver, 0, sizeof *solver);
    solver->channels = channels;
    solver->mixed = shape->mixed || shape->norms_tokens;
    solver->sent = share->assignment.share_total > 1;
    if (shape->norms_tokens) {
        const diti_model_traits *traits = &job->model->transformer->traits;
        solver->token_side = traits->norms_lines ? DITI_SOLVER_LINES : traits->patch;
    }
    solver->width = job->request.latent_width;
    solver->has_y = shape->has_y;
    solver->has_h3 = shape->has_h3;
    solver->learned = shape->learned;
    solver->keeps = shape->masked;
    solver->frames = shape->hold_count ? shape->latent_frames : 0;
    share->program.latent = diti_tensor_state(graph, DITI_F32, planes, pixels, "latent");
    share->program.noise = diti_tensor_input(graph, DITI_F32, planes, pixels, "noise");
    share->program.health_words = graph->guards ? diti_guard_health(graph, 0, DITI_HEALTH_WORDS)
                                                : diti_tensor_state(graph, DITI_U32, 1, DITI_HEALTH_WORDS, "health");
    share->program.step_row =
        graph->guards ? diti_guard_health(graph, 3, 1) : diti_tensor_state(graph, DITI_U32, 1, 1, "step");
    share->program.coefficients =
        diti_tensor_input(graph, DITI_F32, shape->steps, diti_job_solver_columns(shape), "solver coefficients");
    diti_modal_emit_inputs(share, graph);
    if (shape->scaled_input)
        share->program.input_scales = diti_tensor_input(graph, DITI_F32, shape->steps, 1, "input scales");
    if (shape->stochastic)
        share->program.step_noise = diti_tensor_input(graph, DITI_F32, shape->steps, room, "step noise");
    if (shape->hold_count)
        share->program.renoise = diti_tensor_input(graph, DITI_F32, shape->steps, room, "noise of given frames");
    if (shape->noisy_first)
        share->program.first_noise = diti_tensor_input(graph, DITI_F32, shape->steps,
                                                       (uint32_t)diti_first_noise_columns(job->model, &job->request),
                                                       "noise of the given frame");
    if (shape->hold_count || (shape->fixes && job->model->transformer->traits.frame_steps))
        share->program.frame_steps =
            diti_tensor_input(graph, DITI_U32, shape->steps,
                              share->assignment.branches * shape->image_count *
                                  diti_axes_frames(&share->assignment.axes, shape->latent_frames, &first),
                              "frame steps");
    solver->x = share->program.latent;
    solver->h1 = share->program.history[0] = diti_tensor_state(graph, DITI_F32, planes, pixels, "x0 one step before");
    solver->h2 = share->program.history[1] =
        diti_tensor_state(graph, DITI_F32, planes * diti_solver_planes(solver), pixels, "x0 two steps before");
    if (shape->preview_interval)
        solver->x0 = share->program.x0 = diti_tensor_state(graph, DITI_F32, planes, pixels, "x0");
    solver->health = share->program.health_words;
}

/* The unconditional branch reads no text where another transformer evaluates it. Where the share has both
   branches, that transformer has an evaluation of its own, and program.step is of the other branch alone. */
static void diti_emit_bare(diti_share *share, diti_graph *graph) {
    diti_step_desc *step = &share->program.step, *bare = step;
    if (diti_share_guides_apart(share)) {
        bare = &share->program.unconditional;
        step->branches = step->text_batch = 1;
        step->text_firsts++;
        step->text_lengths++;
        *bare = *step;
    }
    if (bare == step && diti_share_transformer(share) == share->job->model->transformer) return;
    bare->text_tokens = 0;
    bare->text = bare->text2 = bare->pooled = bare->text_items = 0;
    bare->text_firsts = bare->text_lengths = bare->text2_lengths = NULL;
    if (bare != step) diti_transformer_prepare(share->job->model->unconditional, graph, bare);
}

static void diti_emit_prepare(diti_share *share, diti_graph *graph) {
    const diti_job_request *request = &share->job->request;
    diti_step_desc *step = &share->program.step;
    if (!request->shape.starts && !request->shape.hold_count)
        diti_copy(graph, share->program.noise, share->program.latent, "start from noise");
    step->batch = request->shape.image_count;
    step->branches = share->assignment.branches;
    step->width = request->latent_width;
    step->height = request->latent_height;
    step->frames = request->shape.latent_frames;
    step->clip_frames = request->shape.frames;
    step->fps = request->fps;
    step->fixed = request->shape.fixes;
    step->still = request->shape.frames == 1 && share->job->model->transformer->traits.still_pictures;
    step->condition = share->program.condition;
    step->keeps_references = request->shape.keeps_references;
    step->frame_steps = share->program.frame_steps;
    step->steps = request->shape.steps;
    diti_emit_conditions(share, graph);
    step->pixels[0] = request->shape.height;
    step->pixels[1] = request->shape.width;
    step->latent = share->program.latent;
    step->row = share->program.step_row;
    step->axes = share->assignment.share_total > 1 ? &share->assignment.axes : NULL;
    step->variance = request->shape.learned;
    share->program.low = *step;
    if (request->shape.bare) diti_emit_bare(share, graph);
    diti_transformer_prepare(diti_share_transformer(share), graph, step);
    diti_control_prepare(share, graph, false);
    diti_strips_begin(share, graph);
    diti_reuse_begin(share, graph);
}

/* Makes what the expert for low noise reads in its steps. Where weights are streamed, none of its come before. */
static void diti_emit_low_prepare(diti_share *share, diti_graph *graph) {
    share->program.low_prepare = UINT32_MAX;
    if (!share->job->model->low) return;
    share->program.low_prepare = diti_graph_segment(graph, "prepare low noise", false);
    if (diti_graph_failed(graph)) return;
    graph->segments[share->program.low_prepare].late = true;
    diti_control_prepare(share, graph, true);
    diti_transformer_prepare(share->job->model->low, graph, &share->program.low);
    diti_guard_judge(graph);
}

/* The step's row of a table of noise, as planes like the latent's. */
static diti_tensor diti_emit_noise(const diti_share *share, diti_graph *graph, diti_tensor table) {
    uint32_t planes = diti_tensor_get(graph, share->program.latent)->rows,
             pixels = diti_tensor_get(graph, share->program.latent)->columns;
    diti_tensor row = diti_select_row(graph, table, share->program.step_row, "select noise");
    row = diti_tensor_reshape(graph, row, planes, diti_padded(pixels));
    return diti_tensor_view(graph, row, 0, planes, 0, pixels);
}

/* Frames that are given get noise before the model sees them: on a copy, since a step may have to be evaluated again,
   and then on the latent. */
static void diti_emit_renoise(diti_share *share, diti_graph *graph, const diti_solver_desc *states, diti_tensor x) {
    diti_solver_desc solver = *states;
    solver.x = x;
    solver.noise = diti_emit_noise(share, graph, share->program.renoise);
    solver.coefficients =
        diti_select_row(graph, share->program.coefficients, share->program.step_row, "select coefficients");
    if (!diti_graph_failed(graph)) diti_solver_renoise(graph, &solver);
}

static void diti_emit_step(diti_share *share, diti_graph *graph, diti_step_kind kind, bool reuses,
                           const diti_solver_desc *states) {
    const diti_job_shape *shape = &share->job->request.shape;
    diti_solver_desc solver = *states;
    diti_tensor prediction;
    if (shape->hold_count || shape->fixes) {
        diti_tensor seen = diti_tensor_new(graph, DITI_F32, diti_tensor_rows(graph, states->x),
                                           diti_tensor_columns(graph, states->x), "latent with given frames");
        diti_copy(graph, states->x, seen, "latent with given frames");
        if (shape->hold_count) diti_emit_renoise(share, graph, states, seen);
        if (shape->fixes)
            diti_given_fix(share, graph, seen,
                           shape->noisy_first ? diti_select_row(graph, share->program.first_noise,
                                                                share->program.step_row, "select noise")
                                              : 0);
        share->program.step.latent = share->program.low.latent = seen;
    }
    if (shape->scaled_input)
        share->program.step.input_scale = share->program.low.input_scale =
            diti_select_row(graph, share->program.input_scales, share->program.step_row, "select input scale");
    diti_reuse_select(share, graph, kind, reuses);
    prediction = diti_guidance_emit(share, graph, kind);
    if (kind != DITI_STEP_ALONE) prediction = diti_modal_guide(share, graph, prediction);
    if (shape->stochastic) solver.noise = diti_emit_noise(share, graph, share->program.step_noise);
    solver.coefficients =
        diti_select_row(graph, share->program.coefficients, share->program.step_row, "select coefficients");
    solver.guided = shape->guided && kind != DITI_STEP_ALONE && shape->rescales <= 0;
    diti_guard_judge(graph);
    if (shape->hold_count) diti_emit_renoise(share, graph, states, states->x);
    diti_solver_step(graph, prediction, &solver);
    diti_advance_step(graph, share->program.step_row);
}

/* Begins the segment of the steps of a variant. */
static uint32_t diti_emit_variant(diti_share *share, diti_graph *graph, uint32_t variant, const char *name) {
    uint32_t segment = diti_graph_segment(graph, name, true);
    diti_control_choose(share, variant / DITI_STEP_KINDS);
    return segment;
}

/* Steps that the expert for low noise evaluates. Where weights are streamed, its come with the first of them, and those
   of the other expert no more. */
static void diti_emit_low_steps(diti_share *share, diti_graph *graph, const diti_solver_desc *states) {
    uint32_t variant;
    share->program.is_low = true;
    for (variant = 0; variant < DITI_STEP_VARIANTS; variant++) {
        share->program.low_segments[variant] = UINT32_MAX;
        if (!diti_strips_has(share, variant, DITI_FORM_WHOLE)) continue;
        share->program.low_segments[variant] = diti_emit_variant(share, graph, variant, "step of low noise");
        diti_emit_step(share, graph, (diti_step_kind)(variant % DITI_STEP_KINDS), false, states);
    }
    share->program.is_low = false;
}

static void diti_emit_form(diti_share *share, diti_graph *graph, uint32_t variant, diti_step_form form, bool reuses,
                           const diti_solver_desc *states) {
    diti_step_kind kind = (diti_step_kind)(variant % DITI_STEP_KINDS);
    if (diti_strips_emit(share, graph, kind, form, reuses, states))
        diti_guard_judge(graph);
    else
        diti_emit_step(share, graph, kind, reuses, states);
}

/* Whether steps of that form may do without blocks: strips, where a job has them (see diti_reuse_step). */
static bool diti_emit_reuses(const diti_share *share, uint32_t low, uint32_t variant, diti_step_form form) {
    const diti_job_shape *shape = &share->job->request.shape;
    bool strips = form == DITI_FORM_STRIPS || form == DITI_FORM_NEXT;
    return (shape->reuse_variants[low] >> variant & 1u) && diti_strips_used(shape) == strips &&
           form != DITI_FORM_REST && (!strips || diti_strips_has(share, variant, form));
}

/* Steps that do without some blocks. */
static void diti_emit_reusing_steps(diti_share *share, diti_graph *graph, const diti_solver_desc *states) {
    uint32_t low, variant;
    int form;
    for (low = 0; low < 2; low++) {
        share->program.is_low = low != 0;
        for (form = 0; form < (int)DITI_STEP_FORMS; form++) {
            for (variant = 0; variant < DITI_STEP_VARIANTS; variant++) {
                uint32_t *segment = &share->program.reuse_segments[low][form][variant];
                *segment = UINT32_MAX;
                if (!diti_emit_reuses(share, low, variant, (diti_step_form)form)) continue;
                *segment = diti_emit_variant(share, graph, variant, "step reusing blocks");
                diti_emit_form(share, graph, variant, (diti_step_form)form, true, states);
            }
        }
    }
    share->program.is_low = false;
}

/* Every variant of a step that there is, in every form, one loop together. */
static void diti_emit_steps(diti_share *share, diti_graph *graph, const diti_solver_desc *states) {
    static const char *const kinds[] = {"", " with skipped blocks", " without guidance"}, *const forms[] = {
                                                                                              "step", "patches",
                                                                                              "next patches",
                                                                                              "last patches"};
    uint32_t variant;
    int form;
    share->program.step_segment = graph->segment_count;
    for (form = 0; form < (int)DITI_STEP_FORMS; form++) {
        for (variant = 0; variant < DITI_STEP_VARIANTS; variant++) {
            diti_step_kind kind = (diti_step_kind)(variant % DITI_STEP_KINDS);
            char name[32];
            share->program.step_segments[form][variant] = UINT32_MAX;
            if (!diti_strips_has(share, variant, (diti_step_form)form)) continue;
            diti_format(name, sizeof name, "%s%s", forms[form], kinds[kind]);
            share->program.step_segments[form][variant] = diti_emit_variant(share, graph, variant, name);
            diti_emit_form(share, graph, variant, (diti_step_form)form, false, states);
        }
    }
    if (share->job->model->low) diti_emit_low_steps(share, graph, states);
    diti_emit_reusing_steps(share, graph, states);
}

static bool diti_emit_in_one_process(const diti_share *share) {
    return share->job->context->device_count * (share->assignment.folded ? 2u : 1u) >= share->assignment.share_total;
}

DIT_INTERNAL bool diti_job_has_halves(const dit_job *job) {
    const diti_assignment *first = &job->shares[0]->assignment;
    const dit_context *context = job->context;
    uint32_t folds = first->folded ? 2 : 1, each = context->device_count * folds, i;
    for (i = 0; i < first->share_total; i++) {
        if (i >= first->share && i - first->share < each) {
            if (context->devices[job->device_of_share[i - first->share]]->rung < DITI_RUNG_FP16) return false;
        } else if (context->peers->lacks[context->peers->ranks[i / each]] >> i % each / folds & 1u) {
            return false;
        }
    }
    return true;
}

/* Devices exchange activations, so that all have the same format. */
static void diti_emit_format(const diti_share *share, diti_graph *graph) {
    if (share->assignment.share_total == 1 || !share->job->context) return;
    if (!diti_job_has_halves(share->job)) graph->activation = DITI_F32;
}

/* Devices of a sequence exchange F16, and stages do whose blocks leave skips; their exponents must be alike: in one
   process the host raises those of ops of one name together, elsewhere all that travel rise by a fixed amount. Others
   exchange what has no exponent. Keys and values kept for strips differ when a step runs again, and stages would wait
   for each other in every step: the job goes back to its start (run.c), and nobody asks the others before the decoder
   has run, which no process can do without the others. */
static void diti_emit_guards(const diti_share *share, diti_graph *graph) {
    bool strips = diti_strips_used(&share->job->request.shape);
    if (share->assignment.share_total > 1 && (!share->job->context || graph->activation != DITI_F16)) return;
    diti_guard_begin(graph);
    if (share->assignment.share_total == 1) return;
    graph->guard_alike =
        diti_ranks_count(&share->assignment.axes.sequence) > 1 ||
        (share->job->model->transformer->traits.skips && diti_axes_stages(&share->assignment.axes) != NULL);
    graph->guard_bare = !graph->guard_alike;
    graph->guard_blind = !diti_emit_in_one_process(share);
    graph->guard_apart = strips;
    diti_guard_join(graph, share->assignment.share, share->assignment.share_total);
}

/* An autoencoder's devices exchange F16 of the same ops, whatever those of the steps do. */
static void diti_emit_alike(const diti_share *share, diti_graph *graph) {
    if (!graph->guards || share->assignment.share_total == 1) return;
    graph->guard_alike = true;
    graph->guard_bare = false;
}

/* All devices agree behind the decoder. */
static void diti_emit_decoder_guards(const diti_share *share, diti_graph *graph) {
    if (!graph->guards || share->assignment.share_total == 1) return;
    diti_emit_alike(share, graph);
    if (graph->guard_apart && graph->guard_blind) graph->guard_end = graph->segment_count;
    graph->guard_apart = false;
}

DIT_INTERNAL void diti_share_emit(diti_share *share, diti_graph *graph) {
    const diti_job_shape *shape = &share->job->request.shape;
    diti_solver_desc states;
    diti_tensor guards;
    uint32_t prepare;
    graph->int8_payload = shape->int8_payload && share->assignment.share_total > 1;
    graph->int8_feedback = shape->int8_feedback && graph->int8_payload;
    graph->shards = shape->split.shard && share->assignment.share_total > 1;
    diti_emit_format(share, graph);
    diti_emit_guards(share, graph);
    diti_loras_emit(share->job->model, shape->loras, graph, &share->program.loras);
    diti_emit_states(share, graph, &states);
    share->program.encode_segment = diti_graph_segment(graph, "encode", false);
    diti_emit_text(share, graph);
    diti_emit_share_text(share, graph);
    diti_references_emit(share, graph);
    diti_control_emit(share, graph);
    diti_guard_judge(graph);
    share->program.decode_timestep = share->program.preview_colors = 0;
    memset(share->program.decode_turns, 0, sizeof share->program.decode_turns);
    share->program.start_segment = UINT32_MAX;
    if (shape->starts || shape->given_count || shape->branch) {
        bool alike = graph->guard_alike, bare = graph->guard_bare;
        share->program.start_segment = diti_graph_segment(graph, "start picture", false);
        diti_emit_alike(share, graph);
        if (shape->branch)
            diti_branch_emit(share, graph);
        else if (shape->given_count)
            diti_given_emit(share, graph, &states);
        else
            diti_start_emit(share, graph, &states);
        diti_guard_judge(graph);
        graph->guard_alike = alike;
        graph->guard_bare = bare;
    }
    prepare = diti_graph_segment(graph, "prepare", false);
    diti_emit_prepare(share, graph);
    diti_guard_judge(graph);
    diti_emit_low_prepare(share, graph);
    diti_emit_steps(share, graph, &states);
    share->program.preview_segment = UINT32_MAX;
    if (shape->preview_interval && share->job->model->vae) {
        share->program.preview_segment = diti_graph_segment(graph, "preview", true);
    }
    guards = graph->guards;
    if (share->assignment.share_total > 1) graph->guards = 0; /* no other device knows of previews */
    if (share->program.preview_segment != UINT32_MAX && share->assignment.share == 0) {
        diti_decode_emit_preview(share, graph);
        diti_guard_judge(graph);
    }
    graph->guards = guards;
    share->program.decode_segment = share->program.last_segment =
        diti_graph_segment(graph, "decode", false); /* all shares have the same segments up to here */
    diti_emit_decoder_guards(share, graph);
    diti_strips_share_latent(share, graph);
    if (shape->fixes) /* as the last step has seen it */
        diti_given_fix(share, graph, share->program.latent,
                       shape->noisy_first ? diti_tensor_view(graph, share->program.first_noise, shape->steps - 1, 1, 0,
                                                             diti_tensor_columns(graph, share->program.first_noise))
                                          : 0);
    if (shape->clip)
        diti_clip_emit(share, graph);
    else
        diti_decode_emit(share, graph);
    if (!shape->clip) diti_guard_judge(graph);
    if (graph->shards) diti_shard_blocks(graph, share->assignment.share, share->assignment.share_total, prepare);
}
