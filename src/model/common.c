/* Steps that families share: sinusoids, positions and their rotations, embedders of timesteps, and single layers. */
#include "model/model.h"
#include "text/text.h"

DIT_INTERNAL void diti_traits_sizes(diti_model_traits *traits, uint32_t layers, uint32_t width, uint32_t heads,
                                    uint32_t channels, uint32_t patch) {
    traits->layers = layers;
    traits->width = width;
    traits->heads = heads;
    traits->latent_channels = traits->out_channels = channels;
    traits->patch = patch;
}

DIT_INTERNAL void diti_traits_chat(diti_model_traits *traits, diti_encoder_kind encoder, const struct diti_chat *chat,
                                   uint32_t columns, uint32_t unit) {
    traits->encoders[0] = encoder;
    traits->chat = chat;
    traits->text_tokens = chat->tokens;
    traits->text_columns = columns;
    traits->text_unit = unit;
}

DIT_INTERNAL const diti_stored_tensor *diti_model_find(const diti_checkpoint *checkpoint, const char *prefix,
                                                       const char *name) {
    char full[320];
    if (!diti_format(full, sizeof full, "%s%s", prefix, name)) return NULL;
    return diti_checkpoint_find(checkpoint, full);
}

DIT_INTERNAL dit_result diti_refuse_others(diti_loader *loader, const char *const (*others)[2], size_t count,
                                           const char *instead, dit_error *err) {
    size_t i;
    for (i = 0; i < count; i++) {
        const diti_stored_tensor *tensor = diti_model_find(loader->checkpoint, loader->prefix, others[i][0]);
        if (!tensor) tensor = diti_loader_find(loader, others[i][0]);
        if (tensor)
            return diti_loader_refuse(loader, err, "tensor '%.100s' belongs to %s: it is not supported; use %s",
                                      tensor->name, others[i][1], instead);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_settings_check_known(diti_settings *settings, const char *title,
                                                  const char *const known[2][2], dit_error *err) {
    const char *first = diti_setting_text(settings, known[0][0], known[0][1]);
    const char *second = diti_setting_text(settings, known[1][0], known[1][1]);
    DITI_TRY(settings->result);
    if (diti_equal(first, known[0][1]) && diti_equal(second, known[1][1])) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "config.json: a transformer of %s with %s %.40s and %s %.40s is not known", title, known[0][0],
                     first, known[1][0], second);
}

DIT_INTERNAL dit_result diti_check_patches(const diti_loader *loader, const char *title, uint32_t patch,
                                           uint32_t channels, dit_error *err) {
    if (patch <= 16 && channels <= 1024) return DIT_OK;
    return diti_loader_refuse(loader, err, "a transformer of %s with patches of %u and %u channels is out of range",
                              title, (unsigned)patch, (unsigned)channels);
}

/* Row 1 is a place to the right of the origin: its columns 0 and width / 4 are sine and cosine of 1 / interpolation, in
   half precision perhaps. */
DIT_INTERNAL dit_result diti_read_position_table(const diti_loader *loader, uint32_t width, uint32_t *grid,
                                                 float *interpolation, dit_error *err) {
    const diti_stored_tensor *table = diti_model_find(loader->checkpoint, loader->prefix, "pos_embed");
    float sine, cosine;
    if (!table || table->rank != 3 || table->shape[1] < 4 || table->shape[1] > 1u << 20 || table->shape[2] != width)
        return DIT_OK;
    *grid = (uint32_t)lround(sqrt((double)table->shape[1]));
    if (loader->env->headers_only) return DIT_OK;
    DITI_TRY(diti_checkpoint_read_range(loader->checkpoint, table, width, &sine, 1, err));
    DITI_TRY(diti_checkpoint_read_range(loader->checkpoint, table, width + width / 4, &cosine, 1, err));
    if (sine > 0 && fabsf(sine * sine + cosine * cosine - 1) < 0.05f)
        *interpolation = roundf(16 / atan2f(sine, cosine)) / 16;
    return DIT_OK;
}

DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, uint32_t shift, float *out) {
    uint32_t row, i, half = dim / 2;
    for (i = 0; i < half; i++) {
        float exponent = (float)-9.210340371976184 * (float)i / (float)(half - shift); /* -ln(10000) */
        float frequency = expf(exponent);
        for (row = 0; row < count; row++) {
            float angle = timesteps[row] * frequency;
            out[(size_t)row * dim + i] = cosf(angle);
            out[(size_t)row * dim + half + i] = sinf(angle);
        }
    }
}

/* docs/models.md 2.3: sines, then cosines of position * 10000^(-i / (dim / 2)). */
static void diti_position_row(double position, uint32_t dim, float *out) {
    uint32_t i, half = dim / 2;
    for (i = 0; i < half; i++) {
        double angle = position * (1.0 / pow(10000.0, (double)i / (double)half));
        out[i] = (float)sin(angle);
        out[half + i] = (float)cos(angle);
    }
}

DIT_INTERNAL void diti_position_rows(uint32_t count, double divide, uint32_t dim, float *out) {
    uint32_t i;
    for (i = 0; i < count; i++) diti_position_row((double)i / divide, dim, out + (size_t)i * dim);
}

DIT_INTERNAL void diti_rotation_rows(uint32_t count, double divide, bool whole, uint32_t dim, float *cosines,
                                     float *sines) {
    uint32_t i, j, half = dim / 2;
    for (j = 0; j < half; j++) {
        float frequency = (float)(1.0 / pow(10000.0, (double)((float)(2 * j) / (float)dim)));
        for (i = 0; i < count; i++) {
            double place = (double)i / divide;
            float angle = (float)(whole ? floor(place) : place) * frequency;
            cosines[(size_t)i * half + j] = cosf(angle);
            sines[(size_t)i * half + j] = sinf(angle);
        }
    }
}

DIT_INTERNAL void diti_rotate_parts(const uint32_t *axes, uint32_t count, double theta, double part,
                                    const int32_t *position, float *cosines, float *sines) {
    uint32_t axis, i, at = 0;
    for (axis = 0; axis < count; axis++) {
        for (i = 0; i < axes[axis] / 2; i++, at++) {
            double angle = part * position[axis] * pow(theta, -2.0 * i / axes[axis]);
            cosines[at] = (float)cos(angle);
            sines[at] = (float)sin(angle);
        }
    }
}

DIT_INTERNAL void diti_rotate_axes(const uint32_t *axes, uint32_t count, double theta, const int32_t *position,
                                   float *cosines, float *sines) {
    diti_rotate_parts(axes, count, theta, 1, position, cosines, sines);
}

DIT_INTERNAL void diti_position_table(const diti_grid *grid, uint32_t dim, float *out) {
    uint32_t x, y, half = dim / 2; /* the horizontal half comes first */
    size_t line = (size_t)grid->columns * dim;
    for (x = 0; x < grid->columns; x++) {
        double place = (double)((float)x / grid->divide_x / grid->interpolation);
        diti_position_row(place, half, out + (size_t)x * dim);
    }
    for (y = 0; y < grid->rows; y++) {
        float *first = out + y * line + half;
        diti_position_row((double)((float)y / grid->divide_y / grid->interpolation), half, first);
        for (x = 0; x < grid->columns; x++) {
            float *token = out + y * line + (size_t)x * dim;
            if (y > 0) memcpy(token, out + (size_t)x * dim, half * sizeof(float));
            if (x > 0) memcpy(token + half, first, half * sizeof(float));
        }
    }
}

DIT_INTERNAL void diti_grid_fit(double base_rows, double base_columns, uint32_t rows, uint32_t columns,
                                diti_grid_axis *y, diti_grid_axis *x) {
    bool tall = (double)rows / columns > base_rows / base_columns;
    y->count = rows;
    x->count = columns;
    y->length = tall ? base_rows : rint(base_columns / columns * rows);
    x->length = tall ? rint(base_rows / rows * columns) : base_columns;
    y->first = rint((base_rows - y->length) / 2);
    x->first = rint((base_columns - x->length) / 2);
}

DIT_INTERNAL float diti_grid_place(const diti_grid_axis *axis, uint32_t i, bool linspace) {
    double n = axis->count, last = (axis->first + axis->length) * (n - 1) / n;
    if (!linspace) return (float)(axis->first + i * (axis->length / n));
    return n > 1 ? (float)(axis->first + i * ((last - axis->first) / (n - 1))) : (float)axis->first;
}

DIT_INTERNAL dit_result diti_write_stretched(diti_plan *plan, diti_tensor input, const diti_token_grid *tokens,
                                             uint32_t base, double interpolation, dit_error *err) {
    diti_grid grid = {tokens->rows, tokens->columns, 1, 1, (float)interpolation};
    grid.divide_y = (float)(grid.rows / (double)base);
    grid.divide_x = (float)(grid.columns / (double)base);
    return diti_write_positions(plan, input, &grid, err);
}

/* ---- what several families are made of ---- */

DIT_INTERNAL void diti_load_embedder(diti_loader *loader, diti_embedder *out, uint32_t rows, uint32_t width,
                                     uint32_t columns, const char *name) {
    char layer[96];
    diti_format(layer, sizeof layer, "%s.linear_1", name);
    diti_load_layer(loader, &out->in, width, columns, 1, layer);
    diti_format(layer, sizeof layer, "%s.linear_2", name);
    diti_load_layer(loader, &out->out, rows, width, 1, layer);
}

DIT_INTERNAL void diti_load_bare_embedder(diti_loader *loader, diti_embedder *out, uint32_t width, const char *name) {
    diti_loader_scope(loader, "%s.", name);
    diti_load_bare(loader, &out->in, width, 256, "linear_1");
    diti_load_bare(loader, &out->out, width, width, "linear_2");
    diti_loader_scope_end(loader);
}

DIT_INTERNAL diti_tensor diti_embed(diti_graph *graph, const diti_embedder *embedder, diti_tensor x, diti_tensor out) {
    diti_tensor h = diti_layer_f32(graph, x, &embedder->in, DITI_ACTIVATION_SILU, 0, "embed_in");
    return diti_layer_f32(graph, h, &embedder->out, DITI_ACTIVATION_NONE, out, "embed_out");
}

DIT_INTERNAL dit_result diti_write_sinusoids(diti_plan *plan, diti_tensor input, const float *values, uint32_t count,
                                             uint32_t shift, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t dim = plan->tensors[input].columns;
    float *rows = (float *)diti_alloc_array(env, (size_t)count * dim, sizeof(float));
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the timestep table");
    diti_sinusoid(values, count, dim, shift, rows);
    result = diti_plan_write(plan, input, rows, (size_t)count * dim * sizeof(float), err);
    diti_free(env, rows);
    return result;
}

DIT_INTERNAL dit_result diti_write_timesteps(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                             const float *timesteps, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t count = plan->tensors[input].rows;
    float *values = (float *)diti_alloc_zero(env, (size_t)count * sizeof *values);
    dit_result result;
    if (!values) return diti_fail_memory(err, "the timesteps");
    memcpy(values, timesteps, (size_t)step->steps * sizeof *values);
    result = diti_write_sinusoids(plan, input, values, count, 0, err);
    diti_free(env, values);
    return result;
}

DIT_INTERNAL dit_result diti_write_next_timesteps(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                                  const float *timesteps, dit_error *err) {
    const diti_env *env = &plan->device->env;
    float *next = (float *)diti_alloc_zero(env, (size_t)step->steps * sizeof *next);
    dit_result result;
    if (!next) return diti_fail_memory(err, "the timesteps");
    memcpy(next, timesteps + 1, (size_t)(step->steps - 1) * sizeof *next);
    result = diti_write_sinusoids(plan, input, next, step->steps, 0, err);
    diti_free(env, next);
    return result;
}

DIT_INTERNAL dit_result diti_setting_guided(diti_settings *settings, bool guided, dit_error *err) {
    if (diti_setting_bool(settings, "guidance_embeds", guided) == guided) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "config.json: guidance_embeds is %s, but the weights have %s",
                     guided ? "false" : "true", guided ? "a guidance embedder" : "none");
}

DIT_INTERNAL diti_tensor diti_embed_guidance(diti_graph *graph, const diti_embedder *embedder, diti_tensor *input,
                                             diti_tensor x) {
    *input = diti_tensor_input(graph, DITI_F32, 1, 256, "guidance");
    return diti_add_rows(graph, x, diti_embed(graph, embedder, *input, 0), 0, "guidance");
}

DIT_INTERNAL dit_result diti_write_guidance(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                            dit_error *err) {
    float guidance = step->guidance * 1000.0f;
    return input ? diti_write_sinusoids(plan, input, &guidance, 1, 0, err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_write_text_rows(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                             dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t tokens = step->text_tokens, count = step->text_batch * tokens, i;
    uint32_t *rows = (uint32_t *)diti_alloc_array(env, count, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the text's rows");
    for (i = 0; i < count; i++) {
        uint32_t length = step->text_lengths ? step->text_lengths[i / tokens] : tokens;
        rows[i] = i % tokens < length ? i : count;
    }
    result = diti_plan_write(plan, input, rows, count * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

DIT_INTERNAL dit_result diti_write_times(diti_plan *plan, diti_tensor input, double divide, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t frames = plan->tensors[input].rows, dim = plan->tensors[input].columns;
    float *table = (float *)diti_alloc_array(env, (size_t)frames * dim, sizeof(float));
    dit_result result;
    if (!table) return diti_fail_memory(err, "the table of frames");
    diti_position_rows(frames, divide, dim, table);
    result = diti_plan_write(plan, input, table, (size_t)frames * dim * sizeof(float), err);
    diti_free(env, table);
    return result;
}

DIT_INTERNAL dit_result diti_write_rotation(diti_plan *plan, diti_tensor cosines, diti_tensor sines, double divide,
                                            bool whole, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t frames = plan->tensors[cosines].rows, half = plan->tensors[cosines].columns;
    size_t count = (size_t)frames * half;
    float *table = (float *)diti_alloc_array(env, 2 * count, sizeof(float));
    dit_result result;
    if (!table) return diti_fail_memory(err, "the rotation of frames");
    diti_rotation_rows(frames, divide, whole, 2 * half, table, table + count);
    result = diti_plan_write(plan, cosines, table, count * sizeof(float), err);
    if (result >= 0) result = diti_plan_write(plan, sines, table + count, count * sizeof(float), err);
    diti_free(env, table);
    return result;
}

DIT_INTERNAL dit_result diti_write_positions(diti_plan *plan, diti_tensor input, const diti_grid *grid,
                                             dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t dim = plan->tensors[input].columns;
    size_t count = (size_t)grid->rows * grid->columns * dim;
    float *table = (float *)diti_alloc_array(env, count, sizeof(float));
    dit_result result;
    if (!table) return diti_fail_memory(err, "the position table");
    diti_position_table(grid, dim, table);
    result = diti_plan_write(plan, input, table, count * sizeof(float), err);
    diti_free(env, table);
    return result;
}

DIT_INTERNAL diti_tensor diti_layer_run(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                        diti_activation activation, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = activation;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

DIT_INTERNAL diti_tensor diti_layer_f32(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                        diti_activation activation, diti_tensor out, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = activation;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

DIT_INTERNAL diti_tensor diti_add_rows(diti_graph *graph, diti_tensor x, diti_tensor add, diti_tensor out,
                                       const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.add = add;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = name;
    return diti_elementwise(graph, x, &desc);
}

DIT_INTERNAL diti_tensor diti_rms_norm(diti_graph *graph, diti_tensor x, const diti_weight *weight, float eps,
                                       const diti_weight *reader, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.weight = weight;
    desc.eps = eps;
    desc.reader = reader;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

DIT_INTERNAL diti_tensor diti_layer_norm(diti_graph *graph, diti_tensor x, const diti_layer *norm, float eps,
                                         const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.eps = eps;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

DIT_INTERNAL diti_tensor diti_silu(diti_graph *graph, diti_tensor x, const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.activation = DITI_ACTIVATION_SILU;
    desc.out_f32 = true;
    desc.name = name;
    return diti_elementwise(graph, x, &desc);
}

DIT_INTERNAL uint32_t diti_token_range_before(const diti_ranks *sequence, uint32_t i, const diti_token_range *at) {
    return at->unit * diti_ranks_first(sequence, i, at->strip_rows / at->unit);
}

DIT_INTERNAL uint32_t diti_token_range_size(const diti_ranks *sequence, uint32_t i, const diti_token_range *at) {
    return at->unit * diti_ranks_size(sequence, i, at->strip_rows / at->unit);
}

DIT_INTERNAL dit_result diti_setting_axes(diti_settings *settings, const char *family, const char *key,
                                          uint32_t head_dim, uint32_t first, uint32_t others, uint32_t count,
                                          uint32_t *axes, dit_error *err) {
    const diti_json *list = diti_setting_numbers(settings, key), *axis = list ? list->first : NULL;
    uint32_t i, sum = 0;
    for (i = 0; i < count; i++) {
        double given = i ? others : first;
        if (axis) given = axis->number;
        axes[i] = given >= 2 && given <= 512 ? (uint32_t)given & ~1u : 0;
        sum += axes[i];
        axis = axis ? axis->next : NULL;
    }
    if (sum == head_dim || settings->result < 0) return settings->result;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s transformer: heads of %u channels that rotate with %u axes need a config.json whose %s are "
                     "even and add up to it",
                     family, (unsigned)head_dim, (unsigned)count, key);
}

DIT_INTERNAL uint32_t diti_token_range_lead(const diti_step_desc *step) {
    const diti_token_range *at = &step->token_range;
    uint32_t first = at->first - at->strip_first;
    if (first >= at->strip_lead) return 0;
    return at->strip_lead - first < at->rows ? at->strip_lead - first : at->rows;
}

DIT_INTERNAL uint32_t diti_token_range_behind(const diti_step_desc *step) {
    const diti_token_range *at = &step->token_range;
    uint32_t end = at->first_text + at->text, first = at->all_text - step->behind_text;
    if (!step->behind_text || end <= first) return 0;
    return end - first < at->text ? end - first : at->text;
}
