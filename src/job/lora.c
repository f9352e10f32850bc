/* LoRAs of a model: which there are, what they add to which of its parts, and their strengths in a job. */
#include "job/job.h"

/* --- files --- */

static void diti_lora_describe(const diti_lora_file *file, const dit_component *component, dit_lora_info *out) {
    const char *path = diti_checkpoint_name(file->checkpoint), *name = path, *slash, *dot;
    memset(out, 0, sizeof *out);
    if (component->source.path) name = component->source.path;
    slash = strrchr(name, '/');
    if (slash && slash[1]) name = slash + 1;
    dot = strrchr(name, '.');
    diti_format(out->name, sizeof out->name, "%.*s", (int)(dot && dot != name ? dot - name : (ptrdiff_t)strlen(name)),
                name);
    out->weight = component->weight != 0 ? component->weight : 1;
    out->merged = component->merge;
    diti_lora_defaults(file, &out->steps, &out->guidance);
}

/* Counts, which are known when all parts have been looked at. */
static void diti_lora_count(const diti_lora_file *file, dit_lora_info *out) {
    size_t i;
    for (i = 0; i < file->module_count; i++) {
        const diti_lora_module *module = &file->modules[i];
        if (module->fits) {
            out->modules++;
            if (module->rank > out->rank) out->rank = module->rank;
        } else if (!out->left_out++) {
            diti_format(out->first_left_out, sizeof out->first_left_out, "%s", module->name);
        }
    }
}

static dit_result diti_lora_check_component(const dit_model *model, const dit_component *component, dit_error *err) {
    if (model->lora_count == DITI_MAX_LORAS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "a model has at most %u LoRAs", DITI_MAX_LORAS);
    if (component->weight != component->weight || component->weight > 1e6f || component->weight < -1e6f)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_component: weight %g of a LoRA is out of range",
                         (double)component->weight);
    if (component->lora_of != DIT_ROLE_NONE && component->lora_of != DIT_ROLE_TRANSFORMER &&
        component->lora_of != DIT_ROLE_TRANSFORMER_2)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_component: lora_of must be DIT_ROLE_NONE, DIT_ROLE_TRANSFORMER or "
                         "DIT_ROLE_TRANSFORMER_2");
    return DIT_OK;
}

static dit_result diti_lora_open_one(dit_model *model, const dit_component *component, dit_error *err) {
    uint32_t number = model->lora_count;
    diti_lora_file *file;
    DITI_TRY(diti_lora_check_component(model, component, err));
    DITI_TRY(diti_lora_open(&model->env, &component->source, &file, err));
    diti_lora_describe(file, component, &model->loras[number].info);
    model->lora_parts[number] = component->lora_of;
    if (component->merge) {
        diti_lora_merges *merges = &model->merges;
        merges->env = model->env;
        merges->weights[merges->count] = model->loras[number].info.weight;
        merges->of[merges->count] = component->lora_of;
        merges->files[merges->count++] = file;
    } else {
        model->lora_files[number] = file;
    }
    model->lora_count++;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_loras_open(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    uint32_t i;
    for (i = 0; i < desc->component_count; i++)
        if (desc->components[i].role == DIT_ROLE_LORA) DITI_TRY(diti_lora_open_one(model, &desc->components[i], err));
    return DIT_OK;
}

/* --- what they fit --- */

/* T5 goes as the third encoder in kohya's and ComfyUI's names, whichever it is. */
DIT_INTERNAL bool diti_encoder_is_third(const dit_model *model, uint32_t index) {
    const diti_encoder_kind third = model->transformer ? model->transformer->traits.encoders[DITI_ENCODERS - 1]
                                                       : model->encoders[DITI_ENCODERS - 1].kind;
    return index + 1 < DITI_ENCODERS && model->encoders[index].kind == DITI_ENCODER_T5 && third == DITI_ENCODER_NONE;
}

/* Scopes of the parts that are loaded. */
#define DITI_LORA_SCOPES (2u + DITI_ENCODERS)
static size_t diti_lora_scopes(const dit_model *model, dit_role of, diti_lora_scope out[DITI_LORA_SCOPES]) {
    const diti_transformer *transformer = of == DIT_ROLE_TRANSFORMER_2 ? diti_model_second(model) : model->transformer;
    size_t count = 0, i;
    if (transformer && diti_model_wants(model, DIT_ROLE_TRANSFORMER)) {
        out[count].part = DIT_ROLE_TRANSFORMER;
        out[count++].weights = &transformer->component.weights;
    }
    for (i = 0; i < DITI_ENCODERS; i++) {
        const diti_weights *weights = diti_encoder_weights(&model->encoders[i]);
        if (!weights || !diti_model_wants(model, (dit_role)(DIT_ROLE_TEXT_1 + (int)i))) continue;
        out[count].part = (dit_role)(DIT_ROLE_TEXT_1 + (int)i);
        out[count++].weights = weights;
        if (!diti_encoder_is_third(model, (uint32_t)i)) continue;
        out[count].part = DIT_ROLE_TEXT_3;
        out[count++].weights = weights;
    }
    return count;
}

static dit_result diti_lora_make(const dit_model *model, diti_lora_file *file, dit_role of, bool measures,
                                 diti_lora **out, dit_error *err) {
    diti_lora_scope scopes[DITI_LORA_SCOPES];
    diti_lora_matches matches = DITI_ZERO;
    size_t count = diti_lora_scopes(model, of, scopes);
    dit_result result = diti_lora_match_scopes(file, scopes, count, &matches, err);
    if (result >= 0 && !measures && diti_model_wants(model, DIT_ROLE_TRANSFORMER))
        result = diti_lora_check_fits(file, err);
    if (result >= 0) result = diti_lora_load(model->device, &model->env, file, &matches, measures, out, err);
    diti_free(&model->env, matches.list);
    return result;
}

DIT_INTERNAL dit_result diti_loras_measure(dit_model *model, dit_error *err) {
    uint32_t i;
    model->lora_bytes = 0;
    for (i = 0; i < model->lora_count; i++) {
        diti_lora *lora = NULL;
        if (!model->lora_files[i]) continue;
        DITI_TRY(diti_lora_make(model, model->lora_files[i], model->lora_parts[i], true, &lora, err));
        model->lora_bytes += lora->weights.bytes;
        diti_lora_free(lora);
    }
    return DIT_OK;
}

/* A LoRA that was distilled to fewer steps says so to jobs that leave them to the model. */
static void diti_lora_set_defaults(dit_model *model, const dit_lora_info *info) {
    if (info->weight <= 0) return;
    if (info->steps) model->info.default_steps = info->steps;
    if (info->guidance > 0) {
        model->info.default_guidance = info->guidance;
        model->info.default_low_guidance = 0;
    }
    if (info->steps || info->guidance > 0)
        diti_log(&model->env, DITI_LOG_INFO, "LoRA %s: %u steps, guidance %g by default", info->name,
                 (unsigned)model->info.default_steps, (double)model->info.default_guidance);
}

static dit_result diti_lora_add(dit_model *model, uint32_t number, dit_error *err) {
    diti_model_lora *entry = &model->loras[number];
    diti_lora_file *file = model->lora_files[number];
    DITI_TRY(diti_lora_make(model, file, model->lora_parts[number], false, &entry->lora, err));
    diti_lora_count(file, &entry->info);
    entry->info.dense = entry->lora->dense;
    entry->info.only_merged = entry->lora->merged != NULL;
    entry->lora->merged = NULL; /* the module goes with its file */
    entry->info.bytes = entry->lora->weights.bytes;
    if (entry->info.dense)
        diti_log(
            &model->env, DITI_LOG_WARNING,
            "LoRA %s: what it adds to %u layers is no thin product; it costs as much as these layers again, unless "
            "it is merged",
            entry->info.name, (unsigned)entry->info.dense);
    diti_lora_close(file);
    model->lora_files[number] = NULL;
    diti_lora_set_defaults(model, &entry->info);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_loras_load(dit_model *model, dit_error *err) {
    uint32_t i, merged = 0;
    for (i = 0; i < model->lora_count; i++) {
        if (model->lora_files[i]) {
            DITI_TRY(diti_lora_add(model, i, err));
            continue;
        }
        if (diti_model_wants(model, DIT_ROLE_TRANSFORMER))
            DITI_TRY(diti_lora_check_fits(model->merges.files[merged], err));
        diti_lora_count(model->merges.files[merged++], &model->loras[i].info);
        diti_lora_set_defaults(model, &model->loras[i].info);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_loras_low_rank(dit_model *model, const diti_checkpoint *checkpoint, bool low,
                                            dit_error *err) {
    const diti_transformer *transformer = low ? diti_model_second(model) : model->transformer;
    diti_device *device = diti_model_wants(model, DIT_ROLE_TRANSFORMER) ? model->device : NULL;
    diti_lora *made = NULL;
    if (!transformer) return DIT_OK;
    DITI_TRY(diti_low_rank_load(device, &model->env, checkpoint, &transformer->component.weights, model->measuring,
                                &made, err));
    if (!model->measuring) {
        model->low_ranks[low] = made;
        return DIT_OK;
    }
    model->low_rank_bytes += made ? made->weights.bytes : 0;
    diti_lora_free(made);
    return DIT_OK;
}

DIT_INTERNAL uint64_t diti_loras_bytes(const dit_model *model) {
    uint64_t bytes = 0;
    uint32_t i;
    for (i = 0; i < DITI_LOW_RANKS; i++) bytes += model->low_ranks[i] ? model->low_ranks[i]->weights.bytes : 0;
    for (i = 0; i < model->lora_count; i++) bytes += model->loras[i].info.bytes;
    return bytes;
}

DIT_INTERNAL void diti_loras_free(dit_model *model) {
    uint32_t i;
    for (i = 0; i < model->lora_count; i++) {
        diti_lora_free(model->loras[i].lora);
        diti_lora_close(model->lora_files[i]);
    }
    for (i = 0; i < DITI_LOW_RANKS; i++) diti_lora_free(model->low_ranks[i]);
    diti_lora_merges_free(&model->merges);
    model->lora_count = 0;
}

DIT_API dit_result dit_model_add_lora(dit_model *model, const dit_component *lora, uint32_t *number, dit_error *err) {
    dit_component component;
    dit_result result;
    if (!model || !lora)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_add_lora: model and lora must be given");
    if (!model->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_add_lora: the model was loaded as a dry run");
    if (lora->merge)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_add_lora: weights that are loaded take no LoRA any more; merge must be false, or "
                         "the LoRA one of dit_model_desc.components");
    component = *lora;
    DITI_TRY(diti_lora_open_one(model, &component, err));
    result = diti_lora_add(model, model->lora_count - 1, err);
    if (result < 0) {
        diti_lora_close(model->lora_files[--model->lora_count]);
        model->lora_files[model->lora_count] = NULL;
        return result;
    }
    model->info.lora_count = model->lora_count;
    model->info.weight_bytes += model->loras[model->lora_count - 1].info.bytes;
    if (number) *number = model->lora_count - 1;
    return DIT_OK;
}

DIT_API dit_result dit_model_lora(const dit_model *model, uint32_t number, dit_lora_info *out) {
    if (!model || !out || number >= model->lora_count) return DIT_ERROR_INVALID_ARGUMENT;
    *out = model->loras[number].info;
    return DIT_OK;
}

/* --- jobs --- */

DIT_INTERNAL dit_result diti_loras_request(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                           dit_error *err) {
    uint32_t i;
    if (desc->lora_weight_count && !desc->lora_weights)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: lora_weights is NULL, lora_weight_count is %u",
                         desc->lora_weight_count);
    if (desc->lora_weight_count > model->lora_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: lora_weight_count is %u, but the model has %u LoRAs", desc->lora_weight_count,
                         model->lora_count);
    for (i = 0; i < model->lora_count; i++) {
        float weight = i < desc->lora_weight_count ? desc->lora_weights[i] : model->loras[i].info.weight;
        if (weight != weight || weight > 1e6f || weight < -1e6f)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: lora_weights[%u] is %g, out of range", i,
                             (double)weight);
        out->lora_weights[i] = weight;
        if (weight != 0 && model->loras[i].lora) out->shape.loras |= 1u << i;
    }
    return DIT_OK;
}

static void diti_loras_emit_one(diti_lora_uses *out, const diti_lora *lora, uint32_t number, uint32_t *columns) {
    if (!lora) return;
    out->list[out->count].lora = lora;
    out->list[out->count].column = *columns;
    *columns += lora->scale_count;
    out->numbers[out->count++] = number;
}

DIT_INTERNAL void diti_loras_emit(const dit_model *model, uint32_t which, diti_graph *graph, diti_lora_uses *out) {
    uint32_t i, columns = 0;
    memset(out, 0, sizeof *out);
    for (i = 0; i < DITI_LOW_RANKS; i++) diti_loras_emit_one(out, model->low_ranks[i], UINT32_MAX, &columns);
    for (i = 0; i < model->lora_count; i++)
        if (which & 1u << i) diti_loras_emit_one(out, model->loras[i].lora, i, &columns);
    if (!columns) return;
    out->scales = diti_tensor_input(graph, DITI_F32, 1, columns, "strengths of LoRAs");
    graph->loras = out->list;
    graph->add_to_vector = diti_lora_vector;
    graph->lora_count = out->count;
    graph->lora_scales = out->scales;
}

DIT_INTERNAL dit_result diti_loras_write(const dit_model *model, const float *weights, const diti_lora_uses *uses,
                                         diti_plan *plan, dit_error *err) {
    const diti_lora_use *last = uses->count ? &uses->list[uses->count - 1] : NULL;
    uint32_t i, k, columns = last ? last->column + last->lora->scale_count : 0;
    float *scales;
    dit_result result;
    if (!uses->scales) return DIT_OK;
    scales = (float *)diti_alloc_array(&model->env, columns, sizeof *scales);
    if (!scales) return diti_fail_memory(err, "the strengths of LoRAs");
    for (i = 0; i < uses->count; i++) {
        const diti_lora_use *use = &uses->list[i];
        uint32_t number = uses->numbers[i];
        float weight = number == UINT32_MAX ? 1 : weights ? weights[number] : model->loras[number].info.weight;
        for (k = 0; k < use->lora->scale_count; k++) scales[use->column + k] = weight * use->lora->scales[k];
    }
    result = diti_plan_write(plan, uses->scales, scales, columns * sizeof *scales, err);
    diti_free(&model->env, scales);
    return result;
}
