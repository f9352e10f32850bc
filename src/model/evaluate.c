/* One evaluation of a transformer, or the part of it that this device computes: some rows of the image and of a joint
   text, which devices of a sequence divide among them, and some of the blocks, which stages do. */
#include "model/model.h"

/* ---- rows ---- */

/* PipeFusion's strips are made of lines of tokens; of whole frames of tokens where one of these is several frames
   deep, as lines of it are not together in the latent. Returns how many there are; tokens: of each. */
static uint32_t diti_strip_units(const diti_transformer *transformer, const diti_step_desc *step, uint32_t *tokens) {
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    bool deep = transformer->traits.patch_frames > 1;
    *tokens = deep ? grid.rows * grid.columns : grid.columns;
    return deep ? grid.frames : grid.frames * grid.rows;
}

DIT_INTERNAL uint32_t diti_transformer_strip_pixels(const diti_transformer *transformer, const diti_step_desc *step,
                                                    uint32_t strip, uint32_t strips, uint32_t *first) {
    const diti_model_traits *traits = &transformer->traits;
    uint32_t tokens, units = diti_strip_units(transformer, step, &tokens), unit = step->width * traits->patch;
    if (traits->patch_frames > 1) unit = step->width * step->height * traits->patch_frames;
    *first = (uint32_t)((uint64_t)units * strip / strips) * unit;
    return (uint32_t)((uint64_t)units * (strip + 1) / strips) * unit - *first;
}

/* Values of a latent's channel in a token. */
static uint32_t diti_token_volume(const diti_model_traits *traits) {
    return (traits->patch_frames ? traits->patch_frames : 1) * traits->patch * traits->patch;
}

DIT_INTERNAL uint32_t diti_axes_frames(const diti_axes *axes, uint32_t frames, uint32_t *first) {
    const diti_ranks *sequence = axes ? &axes->sequence : NULL;
    uint32_t self = sequence ? sequence->index : 0;
    *first = diti_ranks_first(sequence, self, frames);
    return diti_ranks_size(sequence, self, frames);
}

static void diti_token_range_begin(const diti_transformer *transformer, const diti_step_desc *step, uint32_t number,
                                   diti_token_range *token_range) {
    const diti_ranks *sequence = step->axes ? &step->axes->sequence : NULL;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t self = sequence ? sequence->index : 0, strips = step->strips ? step->strips : 1;
    uint32_t tokens;
    uint64_t units = diti_strip_units(transformer, step, &tokens);
    token_range->all = step->lead + grid.frames * grid.rows * grid.columns;
    token_range->all_text = transformer->traits.joint ? step->text_tokens + step->behind_text : 0;
    token_range->strip_lead = number ? 0 : step->lead;
    token_range->strip_token = (uint32_t)(units * number / strips) * tokens;
    token_range->strip_tokens = (uint32_t)(units * (number + 1) / strips) * tokens - token_range->strip_token;
    token_range->strip_first = number ? step->lead + token_range->strip_token : 0;
    token_range->strip_rows = token_range->strip_lead + token_range->strip_tokens;
    token_range->strip_text = number ? 0 : token_range->all_text;
    token_range->unit =
        strips == 1 && (transformer->traits.divided || step->frame_steps) ? grid.rows * grid.columns : 1;
    token_range->first = token_range->strip_first + diti_token_range_before(sequence, self, token_range);
    token_range->rows = diti_token_range_size(sequence, self, token_range);
    token_range->first_text = diti_ranks_first(sequence, self, token_range->strip_text);
    token_range->text = diti_ranks_size(sequence, self, token_range->strip_text);
}

DIT_INTERNAL uint32_t diti_token_range_first(const diti_step_desc *step, uint32_t image) {
    const diti_token_range *token_range = &step->token_range;
    uint32_t first = token_range->first - token_range->strip_first, lead = token_range->strip_lead;
    return image * token_range->strip_tokens + (first > lead ? first - lead : 0);
}

/* The patches of PipeFusion's strip, whose lines of tokens are those of one tall picture, or frames; or all. */
static diti_patches diti_token_range_patches(const diti_transformer *transformer, const diti_step_desc *step,
                                             uint32_t items, uint32_t channels) {
    const diti_model_traits *traits = &transformer->traits;
    const diti_token_range *at = &step->token_range;
    diti_patches patches;
    patches.batch = items;
    patches.channels = channels;
    patches.frames = step->frames;
    patches.height = step->height;
    patches.width = step->width;
    patches.patch = traits->patch;
    patches.patch_frames = traits->patch_frames;
    patches.channels_last = traits->channels_last;
    if (at->strip_rows == at->all) return patches;
    if (traits->patch_frames > 1) {
        patches.frames = at->strip_tokens * diti_token_volume(traits) / (step->height * step->width);
        return patches;
    }
    patches.frames = 1;
    patches.height = at->strip_tokens * traits->patch * traits->patch / step->width;
    return patches;
}

/* Patches of planes, of the rows that the devices of a sequence divide: [batch * rows, columns]. */
static diti_tensor diti_token_range_patchify(const diti_pass *p, diti_tensor planes, uint32_t channels,
                                             diti_tensor scale) {
    const diti_step_desc *step = p->step;
    const diti_token_range *at = &step->token_range;
    uint32_t volume = diti_token_volume(&p->model->traits);
    diti_patches patches = diti_token_range_patches(p->model, step, step->batch, channels);
    if (at->strip_rows < at->all)
        planes = diti_tensor_view(p->graph, planes, 0, step->batch * channels, at->strip_token * volume,
                                  at->strip_tokens * volume);
    return diti_patchify(p->graph, planes, &patches, scale);
}

DIT_INTERNAL diti_tensor diti_token_range_table(const diti_pass *p, diti_tensor table, const char *name) {
    diti_graph *graph = p->graph;
    const diti_token_range *token_range = &p->step->token_range;
    uint32_t columns = diti_tensor_columns(graph, table);
    diti_tensor image =
        diti_tensor_view(graph, table, token_range->all_text + token_range->first, token_range->rows, 0, columns);
    diti_tensor both;
    if (!token_range->text) return image;
    if (token_range->first == 0 && token_range->first_text + token_range->text == token_range->all_text)
        return diti_tensor_view(graph, table, token_range->first_text, token_range->text + token_range->rows, 0,
                                columns);
    both = diti_tensor_new(graph, DITI_F32, token_range->text + token_range->rows, columns, name);
    diti_copy(graph, diti_tensor_view(graph, table, token_range->first_text, token_range->text, 0, columns),
              diti_tensor_view(graph, both, 0, token_range->text, 0, columns), name);
    diti_copy(graph, image, diti_tensor_view(graph, both, token_range->text, token_range->rows, 0, columns), name);
    return both;
}

DIT_INTERNAL uint32_t diti_image_rows(const diti_step_desc *step) {
    return step->lead + step->height / 2 * (step->width / 2);
}

DIT_INTERNAL void diti_rotation_prepare(diti_graph *graph, diti_rotation *out, uint32_t rows, uint32_t half) {
    out->cosines = diti_tensor_input(graph, DITI_F32, rows, half, "cosines");
    out->sines = diti_tensor_input(graph, DITI_F32, rows, half, "sines");
}

DIT_INTERNAL void diti_rotation_begin(const diti_pass *p, diti_rotation *rotation) {
    rotation->here_cosines = diti_token_range_table(p, rotation->cosines, "cosines");
    rotation->here_sines = diti_token_range_table(p, rotation->sines, "sines");
}

DIT_INTERNAL void diti_rotation_apply(diti_pass *p, const diti_rotation *rotation) {
    p->cosines = rotation->here_cosines;
    p->sines = rotation->here_sines;
    p->table_items = rotation->table_items;
}

/* ---- the family's functions ---- */

/* The columns of patches are (c, dt, dy, dx): a condition's stand behind the latent's, and its product is added. More
   columns of the layer are those of a mask of zeros. */
static void diti_patch_project(const diti_pass *p, const diti_tensor parts[2], uint32_t row, const diti_layer *layer,
                               diti_tensor positions, diti_tensor out) {
    uint32_t i, first = 0, rows = diti_tensor_rows(p->graph, out);
    for (i = 0; i < 2 && parts[i] && !diti_graph_failed(p->graph); i++) {
        uint32_t columns = diti_tensor_columns(p->graph, parts[i]);
        diti_linear_desc desc = DITI_ZERO;
        if (parts[1] || columns < layer->weight.columns) {
            desc.cut.columns[0].first = first;
            desc.cut.columns[0].count = columns;
        }
        desc.bias = i ? NULL : &layer->bias;
        desc.residual = i ? out : positions;
        desc.out = out;
        desc.name = "patch_embed";
        diti_linear(p->graph, diti_tensor_view(p->graph, parts[i], row, rows, 0, columns), &layer->weight, &desc);
        first += columns;
    }
}

DIT_INTERNAL diti_tensor diti_patch_embed(const diti_pass *p, diti_tensor text, const diti_layer *layer,
                                          diti_tensor positions) {
    diti_graph *graph = p->graph;
    const diti_model_traits *traits = &p->model->traits;
    const diti_token_range *at = &p->step->token_range;
    uint32_t i, rows = p->text + p->image, width = p->width, lead = diti_token_range_lead(p->step);
    diti_tensor parts[2] = {0, 0}, x;
    bool repeats = positions && diti_tensor_rows(graph, positions) < at->all;
    parts[0] = diti_token_range_patchify(p, p->latent, p->channels, p->step->input_scale);
    if (traits->condition_channels)
        parts[1] = diti_token_range_patchify(p, p->step->condition, traits->condition_channels, 0);
    x = diti_tensor_new(graph, DITI_F32, p->items * rows, width, "residual");
    if (positions && !repeats) positions = diti_tensor_view(graph, positions, at->first, at->rows, 0, width);
    for (i = 0; i < p->items && !diti_graph_failed(graph); i++) {
        uint32_t prompt = p->step->text_batch - p->prompts + i / (p->items / p->prompts);
        uint32_t text_row = prompt * at->all_text + at->first_text;
        if (p->text)
            diti_add_rows(graph, diti_tensor_view(graph, text, text_row, p->text, 0, width), 0,
                          diti_tensor_view(graph, x, i * rows, p->text, 0, width), "text_embed");
        if (lead)
            diti_add_rows(graph, diti_tensor_view(graph, p->step->lead_rows, at->first, lead, 0, width), 0,
                          diti_tensor_view(graph, x, i * rows + p->text, lead, 0, width), "lead");
        if (p->image > lead)
            diti_patch_project(p, parts, diti_token_range_first(p->step, i % p->step->batch), layer,
                               repeats ? 0 : positions,
                               diti_tensor_view(graph, x, i * rows + p->text + lead, p->image - lead, 0, width));
    }
    return repeats ? diti_add_rows(graph, x, positions, x, "positions") : x;
}

DIT_INTERNAL diti_tensor diti_control_patches(const diti_pass *p) {
    diti_patches patches = DITI_ZERO;
    patches.batch = 1;
    patches.channels =
        p->model->traits.control_channels ? p->model->traits.control_channels : p->model->traits.latent_channels;
    patches.frames = p->step->frames;
    patches.height = p->step->height;
    patches.width = p->step->width;
    patches.patch = p->model->traits.patch;
    patches.channels_last = p->model->traits.channels_last;
    return diti_patchify(p->graph, p->step->control, &patches, 0);
}

/* ---- pictures that are referred to ---- */

DIT_INTERNAL uint32_t diti_reference_tokens(const diti_pass *p) {
    uint32_t side = p->model->traits.patch, tokens = 0, i;
    for (i = 0; i < p->step->reference_count; i++)
        tokens += p->step->references[i].height / side * (p->step->references[i].width / side);
    return tokens;
}

DIT_INTERNAL diti_tensor diti_reference_rows(const diti_pass *p, const diti_layer *layer) {
    const diti_step_desc *step = p->step;
    uint32_t row = 0, i;
    diti_tensor rows = diti_tensor_new(p->graph, DITI_F32, diti_reference_tokens(p), p->width, "references");
    for (i = 0; i < step->reference_count; i++) {
        const diti_reference_latent *from = &step->references[i];
        diti_patches patches = DITI_ZERO;
        uint32_t tokens;
        patches.batch = 1;
        patches.channels = p->model->traits.latent_channels;
        patches.height = from->height;
        patches.width = from->width;
        patches.patch = p->model->traits.patch;
        patches.channels_last = p->model->traits.channels_last;
        tokens = diti_patches_tokens(&patches);
        diti_layer_f32(p->graph, diti_patchify(p->graph, from->planes, &patches, 0), layer, DITI_ACTIVATION_NONE,
                       diti_tensor_view(p->graph, rows, row, tokens, 0, p->width), "reference");
        row += tokens;
    }
    return rows;
}

DIT_INTERNAL void diti_reference_lead(const diti_pass *p, const diti_layer *layer) {
    p->step->lead = diti_reference_tokens(p);
    if (p->step->lead) p->step->lead_rows = diti_reference_rows(p, layer);
}

DIT_INTERNAL uint32_t diti_reference_position(const diti_step_desc *step, uint32_t patch, uint32_t row, uint32_t *y,
                                              uint32_t *x) {
    uint32_t i = 0, columns;
    for (; i + 1 < step->reference_count; i++) {
        uint32_t tokens = step->references[i].height / patch * (step->references[i].width / patch);
        if (row < tokens) break;
        row -= tokens;
    }
    columns = step->references[i].width / patch;
    *y = row / columns;
    *x = row % columns;
    return i;
}

/* ---- frames with timesteps of their own ---- */

DIT_INTERNAL diti_tensor diti_pass_frame_steps(const diti_pass *p) {
    uint32_t first, frames = diti_transformer_grid(p->model, p->step).frames,
                    count = p->items * diti_axes_frames(p->step->axes, frames, &first);
    diti_tensor row;
    if (!p->step->frame_steps || diti_graph_failed(p->graph)) return 0;
    row = diti_select_row(p->graph, p->step->frame_steps, p->step->row, "select_frames");
    return diti_tensor_view(p->graph, row, 0, 1, diti_tensor_columns(p->graph, row) - count, count);
}

DIT_INTERNAL diti_tensor diti_pass_frames_table(const diti_pass *p, diti_tensor table) {
    const diti_token_range *at = &p->step->token_range;
    return diti_tensor_view(p->graph, table, at->first / p->positions, at->rows / p->positions, 0,
                            diti_tensor_columns(p->graph, table));
}

DIT_INTERNAL diti_tensor diti_pass_frame_rows(const diti_pass *p, diti_tensor table, diti_tensor frame_steps,
                                              const char *name) {
    return frame_steps ? diti_gather_tensor(p->graph, table, frame_steps, name)
                       : diti_select_row(p->graph, table, p->step->row, name);
}

DIT_INTERNAL void diti_transformer_prepare(const diti_transformer *transformer, diti_graph *graph,
                                           diti_step_desc *step) {
    diti_pass p = diti_pass_make(transformer, graph, step);
    if (!step->condition != !transformer->traits.condition_channels) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "%s %s %s", transformer->family->title,
                        transformer->traits.variant,
                        step->condition ? "takes no picture as a condition" : "needs a picture as a condition");
        return;
    }
    if (step->frame_steps && !transformer->traits.frame_steps) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "%s has one timestep for all frames",
                        transformer->family->title);
        return;
    }
    if (step->strips > 1 && (step->frame_steps || transformer->traits.divided)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "%s: PipeFusion's patches are no whole frames",
                        transformer->family->title);
        return;
    }
    step->family = diti_alloc_zero(&transformer->component.env, transformer->family->state_size);
    if (step->family)
        transformer->family->prepare(&p);
    else
        diti_graph_fail_memory(graph, "the transformer's plan");
}

DIT_INTERNAL diti_tensor diti_transformer_embed(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step) {
    diti_pass p = diti_pass_make(transformer, graph, step);
    return transformer->family->embed(&p);
}

DIT_INTERNAL diti_tensor diti_transformer_block(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step, uint32_t index, diti_tensor x) {
    diti_pass p = diti_pass_make(transformer, graph, step);
    step->block = index;
    diti_pass_enter(&p, index);
    return transformer->family->block(&p, x);
}

DIT_INTERNAL diti_tensor diti_transformer_final(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step, diti_tensor x) {
    diti_pass p = diti_pass_make(transformer, graph, step);
    return transformer->family->final(&p, x);
}

/* ---- stages: devices that have some of the blocks each ---- */

DIT_INTERNAL const diti_ranks *diti_axes_stages(const diti_axes *axes) {
    if (!axes) return NULL;
    if (diti_ranks_count(&axes->pipefusion) > 1) return &axes->pipefusion;
    return diti_ranks_count(&axes->layers) > 1 ? &axes->layers : NULL;
}

DIT_INTERNAL void diti_axes_blocks(const diti_axes *axes, uint32_t layers, uint32_t *first, uint32_t *end) {
    const diti_ranks *stages = diti_axes_stages(axes);
    bool leads = axes && axes->leads;
    *first = leads ? axes->first_block : stages ? diti_ranks_first(stages, stages->index, layers) : 0;
    *end = leads ? axes->end_block : stages ? diti_ranks_first(stages, stages->index + 1, layers) : layers;
}

/* The device that has a block; UINT32_MAX: this one. */
static uint32_t diti_stage_device(const diti_step_desc *step, uint32_t layers, uint32_t block) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    uint32_t i = 0;
    if (!stages) return UINT32_MAX;
    while (diti_ranks_first(stages, i + 1, layers) <= block) i++;
    return i == stages->index ? UINT32_MAX : stages->devices[i];
}

#define DITI_SKIP "keep_skip"

DIT_INTERNAL void diti_skip_leave(const diti_pass *p, diti_tensor x) {
    uint32_t layers = p->model->traits.layers, device = diti_stage_device(p->step, layers, layers - 1 - p->index);
    diti_elementwise_desc copy = DITI_ZERO;
    diti_tensor skip;
    copy.name = DITI_SKIP;
    skip = diti_elementwise(p->graph, x, &copy);
    p->step->inboxes[p->step->strip % 2].skips[p->index] = skip;
    if (device != UINT32_MAX) diti_send(p->graph, diti_payload(p->graph, skip), device);
}

DIT_INTERNAL diti_tensor diti_skip_take(const diti_pass *p) {
    diti_stage_inbox *inbox = &p->step->inboxes[p->step->strip % 2];
    uint32_t i = p->model->traits.layers - 1 - p->index;
    if (inbox->exchanges[i])
        inbox->skips[i] = diti_payload_take(p->graph, inbox->exchanges[i] - 1, inbox->skips[i], p->graph->activation);
    inbox->exchanges[i] = 0;
    return inbox->skips[i];
}

/* Whether the evaluation does without block i. */
static bool diti_residual_skips(const diti_step_desc *step, uint32_t i) {
    const diti_residual *r = step->residual;
    return r && r->use == DITI_REUSE_ADDS && i >= r->first && i < r->end;
}

static void diti_transformer_begin(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step) {
    diti_pass p;
    diti_token_range_begin(transformer, step, step->strip, &step->token_range);
    step->same_timestep = step->strip > 0;
    p = diti_pass_make(transformer, graph, step);
    transformer->family->begin(&p);
}

/* ---- control nets: models whose blocks add to those of another ---- */

/* Number, from 1 on, of the block of a control net that adds to block `index` of a model; 0: none does (docs/models.md
   3.3.1, 3.4.2). */
static uint32_t diti_control_block(const diti_model_traits *model, const diti_model_traits *net, uint32_t index) {
    uint32_t doubles = model->layers - model->single_layers, own = net->layers - net->single_layers;
    bool single = index >= doubles;
    uint32_t blocks = single ? model->single_layers : doubles, count = single ? net->single_layers : own;
    uint32_t i = single ? index - doubles : index;
    if (net->adds_behind) {
        for (i = 0; i < own && net->adds_behind[i] != index;) i++;
        return i < own ? 1 + i : 0;
    }
    if (!count || (model->spreads_control && i + 1 == blocks)) return 0;
    i = model->spreads_control ? (uint32_t)(i / ((double)blocks / count)) : i / ((blocks + count - 1) / count);
    return 1 + i + (single ? own : 0);
}

/* How many blocks of a net those of a model in front of block `end` need. */
static uint32_t diti_control_blocks(const diti_transformer *transformer, const diti_transformer *net, uint32_t end) {
    uint32_t i, most = 0;
    for (i = 0; i < end; i++) {
        uint32_t wanted = diti_control_block(&transformer->traits, &net->traits, i);
        if (wanted > most) most = wanted;
    }
    return most;
}

DIT_INTERNAL void diti_control_divide(const diti_transformer *transformer, const diti_axes *axes,
                                      diti_control_use *use) {
    uint32_t first, end;
    if (!axes) return;
    diti_axes_blocks(axes, transformer->traits.layers, &first, &end);
    use->axes = *axes;
    use->axes.leads = true;
    use->axes.first_block = diti_control_blocks(transformer, use->model, first);
    use->axes.end_block = diti_control_blocks(transformer, use->model, end);
    use->step->axes = &use->axes;
}

/* Whether stages from block `first` of the model on need the net. */
static bool diti_control_goes_on(const diti_transformer *transformer, const diti_step_desc *step,
                                 const diti_control_use *use, uint32_t first) {
    for (; first < transformer->traits.layers; first++)
        if (diti_control_block(&transformer->traits, &use->model->traits, first) && !diti_residual_skips(step, first))
            return true;
    return false;
}

static void diti_control_begin(diti_graph *graph, const diti_step_desc *step, diti_control_use *use) {
    use->step->first_branch = step->first_branch;
    use->step->latent = step->latent;
    use->step->input_scale = step->input_scale;
    use->step->strip = step->strip;
    use->step->strips = step->strips;
    diti_transformer_begin(use->model, graph, use->step);
    use->done = use->axes.leads ? use->axes.first_block : 0;
    use->made = 0;
    use->x = 0;
}

/* The residual stream of a net comes in front of the model's (diti_stage_await), as many bytes for each of its rows. */
static void diti_control_await(const diti_transformer *transformer, diti_graph *graph, const diti_step_desc *step,
                               uint32_t strip) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    uint32_t items = (step->branches - step->first_branch) * step->batch, first, end, i;
    diti_axes_blocks(step->axes, transformer->traits.layers, &first, &end);
    for (i = 0; i < step->control_count && !diti_graph_failed(graph); i++) {
        diti_control_use *use = &step->controls[i];
        diti_token_range range;
        if (!diti_control_goes_on(transformer, step, use, first)) continue;
        diti_token_range_begin(use->model, use->step, strip, &range);
        use->inboxes[strip % 2].x =
            diti_tensor_new(graph, graph->int8_payload ? DITI_I8 : DITI_F32, items * (range.text + range.rows),
                            use->model->traits.width, "control stream");
        use->inboxes[strip % 2].exchange =
            diti_receive_begin(graph, use->inboxes[strip % 2].x, stages->devices[stages->index - 1]);
    }
}

/* The streams of all nets as they come into the first block here. */
static void diti_control_embed(const diti_transformer *transformer, diti_graph *graph, const diti_step_desc *step) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    uint32_t first, end, i;
    diti_axes_blocks(step->axes, transformer->traits.layers, &first, &end);
    for (i = 0; i < step->control_count && !diti_graph_failed(graph); i++) {
        diti_control_use *use = &step->controls[i];
        if (!stages || !stages->index)
            use->x = diti_transformer_embed(use->model, graph, use->step);
        else if (diti_control_goes_on(transformer, step, use, first))
            use->x = diti_payload_take(graph, use->inboxes[step->strip % 2].exchange, use->inboxes[step->strip % 2].x,
                                       DITI_F32);
    }
}

/* A net's blocks up to `wanted`, those that are not done. */
static void diti_control_run(diti_graph *graph, diti_control_use *use, uint32_t wanted) {
    for (; use->done < wanted && !diti_graph_failed(graph); use->done++)
        use->x = diti_transformer_block(use->model, graph, use->step, use->done, use->x);
}

static void diti_control_send(const diti_transformer *transformer, diti_graph *graph, const diti_step_desc *step,
                              uint32_t end, uint32_t device) {
    uint32_t i;
    for (i = 0; i < step->control_count && !diti_graph_failed(graph); i++) {
        diti_control_use *use = &step->controls[i];
        if (!diti_control_goes_on(transformer, step, use, end)) continue;
        diti_control_run(graph, use, use->axes.end_block);
        diti_graph_scope(graph, NULL, 0);
        diti_send(graph, diti_payload(graph, use->x), device);
    }
}

/* The newest block of a net adds strength * outlet(its image rows), F32 [items * image, D]. */
static void diti_control_make(const diti_pass *p, diti_control_use *use) {
    uint32_t rows = use->step->token_range.text + p->image, i, width = p->width;
    const diti_layer *outlet = &use->model->outlets[use->done - 1];
    use->added = diti_tensor_new(p->graph, DITI_F32, p->items * p->image, width, "control");
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++) {
        diti_linear_desc desc = DITI_ZERO;
        desc.bias = &outlet->bias;
        desc.gate = use->scales;
        desc.out = diti_tensor_view(p->graph, use->added, i * p->image, p->image, 0, width);
        desc.name = "control";
        diti_linear(p->graph,
                    diti_tensor_view(p->graph, use->x, i * rows + use->step->token_range.text, p->image, 0, width),
                    &outlet->weight, &desc);
    }
    use->made = use->done;
}

/* Adds what control nets add behind block `index`, F32 [items * (text + image), D], in place. A net's blocks run when a
   block first needs them, so that what one of them adds is there at a time. */
static void diti_control_add(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step,
                             uint32_t index, diti_tensor x) {
    diti_pass p = diti_pass_make(transformer, graph, step);
    uint32_t i, item;
    for (i = 0; i < step->control_count && !diti_graph_failed(graph); i++) {
        diti_control_use *use = &step->controls[i];
        uint32_t wanted = diti_control_block(&transformer->traits, &use->model->traits, index);
        if (!wanted) continue;
        diti_control_run(graph, use, wanted);
        if (use->made != wanted) diti_control_make(&p, use);
        for (item = 0; item < p.items && !diti_graph_failed(graph); item++) {
            diti_tensor rows = diti_tensor_view(graph, x, item * (p.text + p.image) + p.text, p.image, 0, p.width);
            diti_add_rows(graph, rows, diti_tensor_view(graph, use->added, item * p.image, p.image, 0, p.width), rows,
                          "control");
        }
    }
}

/* ---- what blocks add, and whether it is used again ---- */

/* States for the rows of all branches, made when they are first wanted; out: the part of each for the rows of x. */
static void diti_residual_room(diti_graph *graph, const diti_step_desc *step, diti_tensor x, diti_tensor *states,
                               uint32_t count, const char *name, diti_tensor *out) {
    uint32_t rows = diti_tensor_rows(graph, x), columns = diti_tensor_columns(graph, x), i,
             all = rows / (step->branches - step->first_branch) * step->branches;
    for (i = 0; i < count && !diti_graph_failed(graph); i++) {
        if (!states[i]) states[i] = diti_tensor_state(graph, DITI_F32, all, columns, name);
        out[i] = diti_tensor_view(graph, states[i], all - rows, rows, 0, columns);
    }
}

static diti_decide_desc diti_decide_desc_make(const diti_pass *p) {
    const diti_residual *r = p->step->residual;
    diti_decide_desc desc = DITI_ZERO;
    memcpy(desc.sums, r->sums, sizeof desc.sums);
    desc.state = r->state;
    desc.row = r->row;
    desc.gate = r->gate;
    desc.items = p->items;
    desc.text = p->text;
    desc.image = p->image;
    desc.first_branch = r->first_branch + p->step->first_branch;
    desc.branches = p->step->branches - p->step->first_branch;
    desc.group = &r->group;
    return desc;
}

/* Measures how blocks [first, r->first) have changed before, or without such blocks how x has, and sets the gate of the
   blocks behind them. Devices that have other blocks learn it from this one. */
static void diti_evaluate_decide(const diti_pass *p, diti_tensor before, diti_tensor x, diti_tensor changes[2]) {
    diti_residual *r = p->step->residual;
    diti_decide_desc desc;
    uint32_t i;
    for (i = 0; i < 2 && !r->first; i++)
        if (!r->sums[i]) r->sums[i] = diti_tensor_state(p->graph, DITI_F32, 1, 4, "change of outputs");
    desc = diti_decide_desc_make(p);
    if (before) diti_residual_do(p->graph, DITI_RESIDUAL_TAKE, x, &before, 1, r->row);
    if (x) diti_residual_room(p->graph, p->step, x, r->changes, 2, "change by first blocks", changes);
    desc.change = before ? before : x;
    memcpy(desc.changes, changes, sizeof desc.changes);
    desc.next = r->next = diti_guard_late(p->graph, r->state, "steps reused");
    if (!diti_graph_failed(p->graph)) diti_decide(p->graph, &desc);
}

/* An earlier stage tells what its first blocks decide, behind their skips and before those of later blocks. */
static void diti_decide_learn(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    const diti_residual *r = step->residual;
    diti_pass p = diti_pass_make(transformer, graph, step);
    diti_tensor changes[2] = {0, 0};
    if (!r || r->use != DITI_REUSE_DECIDES) return;
    if (r->first > diti_ranks_first(stages, 1, transformer->traits.layers))
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "cache: the first blocks, which decide, must be on the first device of split layers; choose "
                        "another split, or delta or taylor");
    diti_evaluate_decide(&p, 0, 0, changes);
}

/* ---- what a stage receives ---- */

/* Receives, in the order in which the stages before send it: skips by block, streams of control nets, then the residual
   stream; for every row at hand D elements each, F32 the stream, skips in the format of activations; as int8 payloads a
   byte and their row's. */
static void diti_stage_await(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step,
                             uint32_t strip) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    const diti_model_traits *traits = &transformer->traits;
    diti_stage_inbox *inbox = &step->inboxes[strip % 2];
    uint32_t items = (step->branches - step->first_branch) * step->batch, first, end, i, rows;
    diti_token_range token_range;
    bool learned = false;
    memset(inbox, 0, sizeof *inbox);
    diti_token_range_begin(transformer, step, strip, &token_range);
    rows = items * (token_range.text + token_range.rows);
    diti_axes_blocks(step->axes, traits->layers, &first, &end);
    for (i = 0; traits->skips && i + 1 < traits->layers / 2 && i < first; i++) {
        uint32_t taker = traits->layers - 1 - i;
        if (step->residual && i == step->residual->first) {
            diti_decide_learn(transformer, graph, step);
            learned = true;
        }
        if (taker < first || taker >= end || diti_residual_skips(step, i)) continue;
        inbox->skips[i] = diti_tensor_new(graph, graph->int8_payload ? DITI_I8 : graph->activation, rows, traits->width,
                                          "skip of an earlier stage");
        diti_graph_scope(graph, "block", i);
        diti_guard_expect(graph, inbox->skips[i], DITI_SKIP);
        inbox->exchanges[i] =
            1 + diti_receive_begin(graph, inbox->skips[i], diti_stage_device(step, traits->layers, i));
    }
    diti_graph_scope(graph, NULL, 0);
    if (!learned) diti_decide_learn(transformer, graph, step);
    diti_control_await(transformer, graph, step, strip);
    inbox->x = diti_tensor_new(graph, graph->int8_payload ? DITI_I8 : DITI_F32, rows, traits->width, "residual");
    inbox->exchange = diti_receive_begin(graph, inbox->x, stages->devices[stages->index - 1]);
}

/* The residual stream as it comes into the first block here; while it is worked on, the next strip's may come. */
static diti_tensor diti_stage_begin(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    diti_stage_inbox *inbox = &step->inboxes[step->strip % 2];
    if (!stages || stages->index == 0) {
        memset(inbox, 0, sizeof *inbox);
        return diti_transformer_embed(transformer, graph, step);
    }
    if (step->strip == 0) diti_stage_await(transformer, graph, step, 0);
    if (step->strip + 1 < step->strips) diti_stage_await(transformer, graph, step, step->strip + 1);
    return diti_payload_take(graph, inbox->exchange, inbox->x, DITI_F32);
}

/* ---- rows in front, whose keys and values are kept ---- */

DIT_INTERNAL void diti_reference_kv_fill(const diti_pass *p, diti_reference_kv *kv, uint32_t prompts, diti_tensor x,
                                         diti_tensor (*block)(diti_pass *p, diti_tensor x)) {
    diti_graph *graph = p->graph;
    diti_step_desc own = *p->step;
    const diti_ranks *stages = diti_axes_stages(own.axes);
    uint32_t rows = diti_tensor_rows(graph, x), i, end;
    diti_axes axes;
    diti_pass here;
    memset(&own.token_range, 0, sizeof own.token_range);
    own.token_range.rows = own.token_range.all = own.token_range.strip_rows = rows / prompts;
    own.token_range.unit = 1;
    own.batch = 1;
    own.branches = own.text_batch = prompts;
    if (own.axes) { /* rows are not divided */
        axes = *own.axes;
        memset(&axes.sequence, 0, sizeof axes.sequence);
        memset(&axes.ulysses, 0, sizeof axes.ulysses);
        memset(&axes.ring, 0, sizeof axes.ring);
        own.axes = &axes;
    }
    own.reference_kv = p->step->reference_kv = kv;
    kv->fills = true;
    here = diti_pass_make(p->model, graph, &own);
    if (stages && stages->index) {
        x = diti_tensor_new(graph, DITI_F32, rows, p->width, "rows in front");
        diti_receive(graph, x, stages->devices[stages->index - 1]);
    }
    for (diti_axes_blocks(own.axes, p->model->traits.layers, &i, &end); i < end && !diti_graph_failed(graph); i++) {
        own.block = i;
        diti_pass_enter(&here, i);
        block(&here, x);
    }
    diti_graph_scope(graph, NULL, 0);
    if (stages && stages->index + 1 < stages->count) diti_send(graph, x, stages->devices[stages->index + 1]);
    kv->fills = false;
    p->step->lead = 0;
    p->step->lead_rows = 0;
}

/* ---- the evaluation ---- */

static uint32_t diti_step_plane(const diti_step_desc *step) {
    return (step->frames ? step->frames : 1) * step->height * step->width;
}

/* The rows of tokens alone: [items * tokens, columns] of [items * (lead + tokens), columns]. */
static diti_tensor diti_evaluate_tokens(diti_graph *graph, const diti_step_desc *step, uint32_t items, diti_tensor x) {
    const diti_token_range *at = &step->token_range;
    uint32_t columns = diti_tensor_columns(graph, x), i;
    diti_tensor tokens;
    if (!at->strip_lead || diti_graph_failed(graph)) return x;
    if (items == 1) return diti_tensor_view(graph, x, at->strip_lead, at->strip_tokens, 0, columns);
    tokens = diti_tensor_new(graph, DITI_F32, items * at->strip_tokens, columns, "predicted tokens");
    for (i = 0; i < items; i++)
        diti_copy(graph, diti_tensor_view(graph, x, i * at->strip_rows + at->strip_lead, at->strip_tokens, 0, columns),
                  diti_tensor_view(graph, tokens, i * at->strip_tokens, at->strip_tokens, 0, columns),
                  "predicted tokens");
    return tokens;
}

static diti_tensor diti_evaluate_pixels(const diti_transformer *transformer, diti_graph *graph,
                                        const diti_step_desc *step, uint32_t items, diti_tensor x) {
    const diti_model_traits *traits = &transformer->traits;
    uint32_t channels = step->variance ? traits->out_channels : traits->latent_channels;
    diti_patches patches = diti_token_range_patches(transformer, step, items, channels);
    return traits->planar ? diti_unpatchify_planes(graph, x, &patches)
                          : diti_unpatchify(graph, x, &patches, traits->out_channels);
}

/* Rows of all devices of a sequence, [items * all, columns], of those at hand, which are gathered in units. */
static diti_tensor diti_token_range_gather(diti_graph *graph, const diti_step_desc *step, diti_tensor x,
                                           uint32_t items) {
    const diti_token_range *at = &step->token_range;
    uint32_t columns = diti_tensor_columns(graph, x);
    if (diti_ranks_count(&step->axes->sequence) == 1) return x;
    x = diti_tensor_reshape(graph, x, items * at->rows / at->unit, columns * at->unit);
    x = diti_all_gather(graph, &step->axes->sequence, x, items, at->strip_rows / at->unit, "rows");
    return diti_tensor_reshape(graph, x, items * at->strip_rows, columns);
}

/* ---- blocks ---- */

static diti_tensor diti_evaluate_run(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step,
                                     uint32_t first, uint32_t end, diti_tensor x) {
    for (; first < end && !diti_graph_failed(graph); first++) {
        if (!(first < 64 && step->skipped >> first & 1)) x = diti_transformer_block(transformer, graph, step, first, x);
        diti_control_add(transformer, graph, step, first, x);
    }
    diti_graph_scope(graph, NULL, 0);
    return x;
}

static diti_tensor diti_evaluate_keep(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step,
                                      uint32_t first, uint32_t end, diti_tensor x) {
    diti_residual *r = step->residual;
    diti_tensor slots[DITI_REUSE_SLOTS], y;
    diti_residual_room(graph, step, x, r->kept[step->strip], r->slots, "residual of blocks", slots);
    diti_residual_do(graph, DITI_RESIDUAL_PUT, x, slots, r->slots, r->row);
    y = diti_evaluate_run(transformer, graph, step, first, end, x);
    diti_residual_do(graph, DITI_RESIDUAL_TAKE, y, slots, r->slots, r->row);
    return y;
}

static diti_tensor diti_evaluate_add(diti_graph *graph, const diti_step_desc *step, diti_tensor x) {
    diti_residual *r = step->residual;
    diti_tensor slots[DITI_REUSE_SLOTS];
    diti_residual_room(graph, step, x, r->kept[step->strip], r->slots, "residual of blocks", slots);
    diti_residual_do(graph, DITI_RESIDUAL_ADD, x, slots, r->slots, r->row);
    return x;
}

/* Tells the next step how the last block's rows y differ from those that were computed before, and keeps them. The
   state has the slot for them already, so that those before are in the other one. */
static void diti_evaluate_measure(const diti_pass *p, diti_tensor y) {
    diti_residual *r = p->step->residual;
    diti_decide_desc desc = diti_decide_desc_make(p);
    diti_tensor places[2], total;
    diti_residual_room(p->graph, p->step, y, r->outputs, 2, "output of blocks", places);
    desc.change = y;
    desc.changes[0] = places[1];
    desc.changes[1] = places[0];
    desc.sums[0] = 0;
    desc.state = r->next;
    if (diti_graph_failed(p->graph)) return;
    total = diti_decide_measure(p->graph, &desc);
    diti_residual_do(p->graph, DITI_RESIDUAL_PUT, total, r->sums, 2, r->next);
    diti_residual_do(p->graph, DITI_RESIDUAL_PUT, y, places, 2, r->next);
}

/* Nets in front of a range that is reused, whose blocks run with those of the range. */
typedef struct diti_control_place {
    diti_tensor x;
    uint32_t done;
} diti_control_place;

/* Where blocks behind the range need a net, its blocks run without those of the range, too. */
static void diti_evaluate_nets(const diti_transformer *transformer, diti_graph *graph, const diti_step_desc *step,
                               const diti_control_place *places) {
    uint32_t i;
    for (i = 0; i < step->control_count && !diti_graph_failed(graph); i++) {
        diti_control_use *use = &step->controls[i];
        uint32_t wanted = use->done;
        diti_tensor x = use->x;
        if (!diti_control_goes_on(transformer, step, use, step->residual->end)) continue;
        use->done = places[i].done;
        use->x = places[i].x;
        diti_control_run(graph, use, wanted);
        if (use->x != x) diti_copy(graph, use->x, x, "control stream");
        use->x = x;
        use->made = 0; /* only one of both ways made what it adds */
    }
}

/* Both ways are emitted; the gate lets one of them run. */
static diti_tensor diti_evaluate_either(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step,
                                        uint32_t first, uint32_t from, uint32_t to, diti_tensor x) {
    diti_residual *r = step->residual;
    diti_pass p = diti_pass_make(transformer, graph, step);
    diti_tensor before = 0, changes[2] = {0, 0}, y;
    diti_control_place places[DITI_MAX_CONTROLS];
    uint32_t i;
    if (first < from) {
        before = diti_tensor_new(graph, DITI_F32, diti_tensor_rows(graph, x), diti_tensor_columns(graph, x), "before");
        diti_copy(graph, x, before, "before");
        x = diti_evaluate_run(transformer, graph, step, first, from, x);
    }
    if (!first) diti_evaluate_decide(&p, before, x, changes);
    for (i = 0; i < step->control_count; i++) {
        places[i].x = step->controls[i].x;
        places[i].done = step->controls[i].done;
    }
    graph->gate = r->gate;
    if (!first) diti_residual_do(graph, DITI_RESIDUAL_PUT, before ? before : x, changes, 2, r->next);
    y = from < to ? diti_evaluate_keep(transformer, graph, step, from, to, x) : x;
    if (!r->first && to == transformer->traits.layers) diti_evaluate_measure(&p, y);
    if (y != x) diti_copy(graph, y, x, "after blocks");
    graph->gate_else = true;
    if (from < to) diti_evaluate_add(graph, step, x);
    diti_evaluate_nets(transformer, graph, step, places);
    diti_graph_scope(graph, NULL, 0);
    graph->gate_else = false;
    graph->gate = 0;
    return x;
}

/* Blocks [first, end), those of a range that is kept in its own way. */
static diti_tensor diti_evaluate_blocks(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step,
                                        uint32_t first, uint32_t end, diti_tensor x) {
    const diti_residual *r = step->residual;
    uint32_t from, to;
    if (!r) return diti_evaluate_run(transformer, graph, step, first, end, x);
    from = r->first < first ? first : r->first < end ? r->first : end;
    to = r->end < from ? from : r->end < end ? r->end : end;
    if (r->use == DITI_REUSE_DECIDES) {
        x = diti_evaluate_either(transformer, graph, step, first, from, to, x);
    } else {
        x = diti_evaluate_run(transformer, graph, step, first, from, x);
        if (from < to)
            x = r->use == DITI_REUSE_ADDS ? diti_evaluate_add(graph, step, x)
                                          : diti_evaluate_keep(transformer, graph, step, from, to, x);
    }
    return diti_evaluate_run(transformer, graph, step, to, end, x);
}

/* ---- a strip, or all ---- */

DIT_INTERNAL diti_tensor diti_transformer_strip(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    uint32_t items = (step->branches - step->first_branch) * step->batch, i, end;
    diti_tensor x;
    if (diti_graph_failed(graph) || !step->family) return 0;
    diti_transformer_begin(transformer, graph, step);
    for (i = 0; i < step->control_count && !diti_graph_failed(graph); i++)
        diti_control_begin(graph, step, &step->controls[i]);
    x = diti_stage_begin(transformer, graph, step);
    diti_control_embed(transformer, graph, step);
    diti_axes_blocks(step->axes, transformer->traits.layers, &i, &end);
    x = diti_evaluate_blocks(transformer, graph, step, i, end, x);
    if (stages && stages->index + 1 < stages->count) {
        diti_control_send(transformer, graph, step, end, stages->devices[stages->index + 1]);
        diti_send(graph, diti_payload(graph, x), stages->devices[stages->index + 1]);
        return 0;
    }
    x = diti_transformer_final(transformer, graph, step, x);
    if (step->axes) x = diti_token_range_gather(graph, step, x, items);
    x = diti_evaluate_tokens(graph, step, items, x);
    return diti_evaluate_pixels(transformer, graph, step, items, x);
}

/* Strip by strip; 0 on stages before the last one. */
static diti_tensor diti_evaluate_strips(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step) {
    diti_tensor whole = 0;
    step->strip = 0;
    if (step->strips < 2) return diti_transformer_strip(transformer, graph, step);
    for (; step->strip < step->strips && !diti_graph_failed(graph); step->strip++) {
        uint32_t volume = diti_token_volume(&transformer->traits), rows;
        diti_tensor strip = diti_transformer_strip(transformer, graph, step);
        if (!strip) continue;
        rows = diti_tensor_get(graph, strip)->rows;
        if (!whole) whole = diti_tensor_new(graph, DITI_F32, rows, diti_step_plane(step), "prediction");
        diti_copy(graph, strip,
                  diti_tensor_view(graph, whole, 0, rows, step->token_range.strip_token * volume,
                                   step->token_range.strip_tokens * volume),
                  "prediction");
    }
    step->strip = 0;
    return whole;
}

/* The last stage's prediction goes to all others. */
DIT_INTERNAL diti_tensor diti_transformer_step(const diti_transformer *transformer, diti_graph *graph,
                                               diti_step_desc *step) {
    const diti_ranks *stages = diti_axes_stages(step->axes);
    const diti_model_traits *traits = &transformer->traits;
    uint32_t channels = step->variance ? traits->out_channels : traits->latent_channels;
    diti_tensor x = diti_evaluate_strips(transformer, graph, step);
    if (!stages || diti_graph_failed(graph)) return x;
    if (stages->index + 1 < stages->count)
        x = diti_tensor_new(graph, DITI_F32, (step->branches - step->first_branch) * step->batch * channels,
                            diti_step_plane(step), "prediction");
    diti_broadcast(graph, stages, stages->count - 1, x);
    return x;
}
