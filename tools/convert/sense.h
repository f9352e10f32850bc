/* How far a picture moves when one matrix alone has fewer bits.
 *
 * The model runs a short trajectory on each prompt of --calibrate. Then, matrix after matrix, the values that a type
 * would leave take the place of the matrix on the device, the trajectory runs again, and the matrix gets its own values
 * back. The square of what the latents are off by, over all steps and prompts, is what that type costs there. Matrices
 * that --weight-budget leaves on the disk are not tried. */
#ifndef CONVERT_SENSE_H
#define CONVERT_SENSE_H
#include "trajectory.h"
#include "write.h"

enum { SENSE_STEPS = 3 }; /* early, middle and late noise */

typedef struct sensed { /* a matrix whose type is tried */
    const out_tensor *tensor;
    const char *component;
    dit_type type;
    double off, size; /* squares of latents: differences, and the latents themselves; size 0: not measured */
} sensed;

typedef struct sense {
    diti_observer observer; /* first */
    diti_env env;
    diti_weight *weights; /* that linear layers read */
    size_t count, capacity;
    bool failed;
} sense;

static void note_weight(const diti_observer *observer, diti_graph *graph, diti_tensor x, const diti_weight *weight) {
    sense *s = (sense *)(uintptr_t)observer;
    (void)graph, (void)x;
    for (size_t i = 0; i < s->count; i++)
        if (s->weights[i].name == weight->name) return;
    s->failed |= !diti_grow(&s->env, (void **)&s->weights, &s->capacity, s->count, sizeof *s->weights);
    if (!s->failed) s->weights[s->count++] = *weight;
}

static const diti_weights *weights_of(const dit_model *model, const char *component) {
    static const char *const encoders[] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
    if (!*component || strcmp(component, "transformer") == 0) return &model->transformer->component.weights;
    for (size_t i = 0; i < DITI_COUNT(encoders) && i < DITI_ENCODERS; i++)
        if (strcmp(component, encoders[i]) == 0) return diti_encoder_weights(&model->encoders[i]);
    return NULL;
}

/* Bytes of rows [first, first + rows) of a weight: saved from the device, or written to it, part by part. */
static dit_result move_rows(diti_device *device, const diti_weight *weight, uint32_t first, uint32_t rows,
                            uint8_t *bytes, bool writes, dit_error *err) {
    uint64_t pitch = 0;
    dit_result result = DIT_OK;
    diti_weight_bytes(weight->type, 1, weight->columns, &pitch);
    for (uint32_t i = 0; i < weight->part_count && result >= 0; i++) {
        const diti_weight_part *part = &weight->parts[i];
        const uint32_t from = first > part->first_row ? first : part->first_row;
        const uint32_t end = first + rows < part->first_row + part->rows ? first + rows : part->first_row + part->rows;
        diti_buffer *buffer = part->block ? (diti_buffer *)(uintptr_t)&part->block->buffer : NULL;
        if (from >= end || !buffer) continue;
        if (writes)
            result = diti_buffer_write(device, buffer, part->offset + (from - part->first_row) * pitch,
                                       bytes + (from - first) * pitch, (end - from) * pitch, err);
        else
            result = diti_buffer_read(device, buffer, part->offset + (from - part->first_row) * pitch,
                                      bytes + (from - first) * pitch, (end - from) * pitch, err);
    }
    return result;
}

/* The rows of a stored matrix as a type leaves them, in the type that the device has. */
static dit_result tried_rows(converter *convert, const sensed *tried, const diti_weight *weight, uint32_t first,
                             uint32_t rows, uint8_t *out) {
    const diti_stored_tensor *stored = tried->tensor->stored;
    const uint32_t columns = weight->columns;
    uint64_t size = 0, pitch = 0, coded = 0;
    uint8_t *bytes, *codes;
    float *values;
    dit_result result = DIT_OK;
    diti_type_bytes(stored->type, 1, columns, &size);
    diti_type_bytes(tried->type, 1, columns, &coded);
    diti_weight_bytes(weight->type, 1, columns, &pitch);
    bytes = (uint8_t *)malloc((size_t)size);
    codes = (uint8_t *)malloc((size_t)coded);
    values = (float *)malloc(columns * sizeof *values);
    if (!bytes || !codes || !values) result = no_memory(convert);
    for (uint32_t row = 0; row < rows && result >= 0; row++) {
        result =
            diti_checkpoint_read(tried->tensor->from, stored, (first + row) * size, bytes, (size_t)size, convert->err);
        if (result < 0) break;
        diti_type_to_float(stored->type, bytes, columns, values);
        result = diti_factor_apply(tried->tensor->from, stored, (uint64_t)(first + row) * columns, columns, values,
                                   convert->err);
        encode(tried->type, values, columns, codes);
        diti_type_to_float(tried->type, codes, columns, values);
        encode(weight->type, values, columns, out + row * pitch);
    }
    free(bytes);
    free(codes);
    free(values);
    return result;
}

/* Whether encode() makes what the device holds. */
static bool is_encoded(dit_type type) {
    return (type >= DIT_TYPE_F32 && type <= DIT_TYPE_Q5_1 && type != DIT_TYPE_F8_E4M3 && type != DIT_TYPE_F8_E5M2) ||
           (type >= DIT_TYPE_Q3_K && type <= DIT_TYPE_I4_GROUP);
}

typedef struct swapped { /* rows of a weight with other values, and their own */
    const diti_weight *weight;
    uint32_t first, rows, stored_row;
    uint8_t *own, *other;
} swapped;

static bool is_resident(const diti_weight *weight) {
    uint32_t i;
    for (i = 0; i < weight->part_count && weight->parts[i].block; i++) {
    }
    return i == weight->part_count;
}

/* The weights that a stored matrix has become: several where a file stores several layers as one. */
static size_t find_swapped(const sense *s, const diti_weights *weights, const sensed *tried, swapped *out,
                           size_t most) {
    const size_t length = strlen(tried->tensor->rest) - strlen(".weight");
    size_t count = 0;
    for (size_t i = 0; weights && i < weights->target_count; i++) {
        const diti_target *target = &weights->targets[i];
        swapped found = {NULL, target->row, target->rows, target->first, NULL, NULL};
        bool known = strlen(target->module) != length || memcmp(target->module, tried->tensor->rest, length) != 0;
        for (size_t k = 0; k < s->count && !known; k++)
            if (s->weights[k].name == target->weight) found.weight = &s->weights[k];
        if (!found.weight || !is_encoded(found.weight->type) || !is_resident(found.weight)) continue;
        for (size_t k = 0; k < count; k++)
            known |= out[k].weight == found.weight && out[k].first == found.first && out[k].rows == found.rows;
        if (!known && count < most) out[count++] = found;
    }
    return count;
}

/* Squares of what the latents of a run are off by. */
static dit_result run_tried(dit_job *job, const latents_path *reference, latents_path *path, sensed *tried,
                            dit_error *err) {
    dit_result result;
    path->count = 0;
    result = run_steps(job, keep_latent, path, err);
    for (size_t i = 0; i < path->count && result >= 0; i++) {
        const double r = (double)reference->values[i], d = (double)path->values[i] - r;
        tried->off += d * d;
        tried->size += r * r;
    }
    return result;
}

static dit_result sense_matrix(converter *convert, const sense *s, dit_model *model, dit_job *job,
                               const latents_path *reference, latents_path *path, sensed *tried) {
    enum { MOST = 8 };
    swapped list[MOST];
    diti_device *device = job->shares[0]->device;
    const bool stays = tried->type == tried->tensor->stored->type;
    const size_t count = stays ? 0 : find_swapped(s, weights_of(model, tried->component), tried, list, MOST);
    dit_result result = DIT_OK;
    for (size_t i = 0; i < count; i++) {
        swapped *at = &list[i];
        uint64_t size = 0;
        diti_weight_bytes(at->weight->type, at->rows, at->weight->columns, &size);
        at->own = (uint8_t *)malloc((size_t)size);
        at->other = (uint8_t *)malloc((size_t)size);
        if (!at->own || !at->other) result = no_memory(convert);
        if (result >= 0) result = move_rows(device, at->weight, at->first, at->rows, at->own, false, convert->err);
        if (result >= 0) result = tried_rows(convert, tried, at->weight, at->stored_row, at->rows, at->other);
        if (result >= 0) result = move_rows(device, at->weight, at->first, at->rows, at->other, true, convert->err);
    }
    if (count && result >= 0) result = run_tried(job, reference, path, tried, convert->err);
    for (size_t i = 0; i < count; i++) {
        if (result >= 0)
            result = move_rows(device, list[i].weight, list[i].first, list[i].rows, list[i].own, true, convert->err);
        free(list[i].own);
        free(list[i].other);
    }
    return result;
}

static dit_result sense_prompt(converter *convert, sense *s, dit_context *context, dit_model *model, const char *prompt,
                               uint64_t seed, sensed *list, size_t count) {
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    latents_path reference = {0}, path = {0};
    dit_result result;
    desc.model = model;
    desc.prompt = prompt;
    desc.seed = seed;
    desc.steps = SENSE_STEPS;
    context->device->observer = &s->observer;
    result = dit_job_create(context, &desc, &job, convert->err);
    context->device->observer = NULL;
    if (result >= 0 && s->failed) result = no_memory(convert);
    if (result >= 0) result = run_steps(job, keep_latent, &reference, convert->err);
    for (size_t i = 0; i < count && result >= 0; i++)
        result = sense_matrix(convert, s, model, job, &reference, &path, &list[i]);
    dit_job_destroy(job);
    free(reference.values);
    free(path.values);
    return result;
}

/* Fills in off and size of every matrix in the list. */
static dit_result sense_matrices(converter *convert, sensed *list, size_t count) {
    dit_context *context = NULL;
    dit_model *model = NULL;
    prompt_list prompts = {0};
    sense s = {0};
    dit_result result = read_prompts(convert, &prompts);
    s.observer.linear = note_weight;
    s.env = convert->env;
    if (result >= 0) result = open_model(convert->input, &convert->place, &context, &model, convert->err);
    for (size_t i = 0; i < prompts.count && result >= 0; i++)
        result = sense_prompt(convert, &s, context, model, prompts.lines[i], i, list, count);
    dit_model_destroy(model);
    dit_context_destroy(context);
    diti_free(&s.env, s.weights);
    free_prompts(convert, &prompts);
    return result;
}

#endif
