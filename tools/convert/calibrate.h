/* --calibrate: dit.h runs the model on prompts, and the inputs of its linear layers are kept.
 *
 * The device's observer (graph/graph.h) is told of each linear layer while the job's graph is made. It appends a copy
 * of some rows of the layer's input to a state of the plan, which is read after every step. Rows go to a temporary
 * file, because all of them together may be larger than memory; a layer's statistics are computed when it is rounded.
 */
#ifndef CONVERT_CALIBRATE_H
#define CONVERT_CALIBRATE_H
#include "prompts.h"
#ifdef _WIN32
#define fseeko _fseeki64
#endif

enum { ROWS_OF_A_LAYER = 4096 }; /* kept at most, over all prompts and steps */

typedef struct watched_input { /* rows of an input that every step leaves in a state of the plan */
    diti_tensor x, copy;
    uint32_t rows, columns, segment;
    size_t layer; /* index of the layer that reads them */
} watched_input;

typedef struct watched_layer {
    const char *weight; /* diti_weight.name */
    uint32_t columns;
} watched_layer;

typedef struct kept_rows { /* a stretch of the file: rows of floats */
    size_t layer;
    uint32_t rows;
    uint64_t offset;
} kept_rows;

typedef struct named_layer { /* a module whose input is that of a watched layer */
    char *module;
    size_t layer;
} named_layer;

typedef struct calibration {
    diti_observer observer; /* first */
    diti_env env;
    uint32_t most; /* rows of an input that are kept in a step */
    watched_input *inputs;
    size_t input_count, input_capacity;
    watched_layer *layers;
    size_t layer_count, layer_capacity;
    kept_rows *rows;
    size_t row_count, row_capacity;
    named_layer *names;
    size_t name_count, name_capacity;
    FILE *file;
    uint64_t size; /* bytes of the file */
    uint64_t hash; /* of its contents */
    bool failed;   /* no memory, or no room for the file */
} calibration;

typedef struct layer_statistics {
    uint32_t columns;
    uint64_t rows;
    double *most, *mean; /* largest and mean |x| of each column */
    double *h;           /* mean of x x^T, [columns, columns] */
} layer_statistics;

/* --- while the graph is made --- */

static size_t watched_layer_of(calibration *c, const diti_weight *weight) {
    for (size_t i = 0; i < c->layer_count; i++)
        if (c->layers[i].weight == weight->name) return i;
    if (!diti_grow(&c->env, (void **)&c->layers, &c->layer_capacity, c->layer_count, sizeof *c->layers))
        return SIZE_MAX;
    c->layers[c->layer_count].weight = weight->name;
    c->layers[c->layer_count].columns = weight->columns;
    return c->layer_count++;
}

/* At most c->most rows of x, spread over all. */
static diti_tensor some_rows(const calibration *c, diti_graph *graph, diti_tensor x) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint32_t step = (info->rows + c->most - 1) / c->most, rows = info->rows, columns = info->columns;
    if (step <= 1) return x;
    while (step < rows && rows % step) step++;
    if (info->pitch != columns || rows % step) return diti_tensor_view(graph, x, 0, c->most, 0, columns);
    x = diti_tensor_reshape(graph, x, rows / step, step * columns);
    return diti_tensor_view(graph, x, 0, rows / step, 0, columns);
}

static void watch_linear(const diti_observer *observer, diti_graph *graph, diti_tensor x, const diti_weight *weight) {
    calibration *c = (calibration *)(uintptr_t)observer;
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    const uint32_t segment = graph->segment_count - 1;
    watched_input input;
    size_t layer;
    if (!graph->segments[segment].repeated || !diti_element_is_float(info->format) || diti_graph_failed(graph)) return;
    if (c->input_count && c->inputs[c->input_count - 1].copy >= graph->tensor_count) c->input_count = 0; /* made anew */
    layer = watched_layer_of(c, weight);
    for (size_t i = 0; i < c->input_count; i++)
        if (c->inputs[i].x == x && c->inputs[i].layer == layer && c->inputs[i].segment == segment) return;
    input.x = x;
    x = some_rows(c, graph, x);
    input.rows = diti_tensor_rows(graph, x);
    input.columns = diti_tensor_columns(graph, x);
    input.segment = segment;
    input.layer = layer;
    input.copy = diti_tensor_state(graph, DITI_F32, input.rows, input.columns, "watched input");
    if (layer == SIZE_MAX ||
        !diti_grow(&c->env, (void **)&c->inputs, &c->input_capacity, c->input_count, sizeof input)) {
        c->failed = true;
        return;
    }
    diti_copy(graph, x, input.copy, "watch");
    c->inputs[c->input_count++] = input;
}

/* --- while the plan runs --- */

static dit_result keep_input(calibration *c, diti_plan *plan, const watched_input *input, dit_error *err) {
    const size_t size = (size_t)input->rows * input->columns * sizeof(float);
    float *values = (float *)diti_alloc(&c->env, size);
    kept_rows kept = {input->layer, input->rows, c->size};
    dit_result result = values ? diti_plan_read(plan, input->copy, values, size, err)
                               : diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "inputs of layers: out of memory");
    if (result >= 0 && (!diti_grow(&c->env, (void **)&c->rows, &c->row_capacity, c->row_count, sizeof kept) ||
                        fseeko(c->file, (int64_t)c->size, SEEK_SET) != 0 || fwrite(values, 1, size, c->file) != size))
        result = diti_fail(err, DIT_ERROR_IO, "the temporary file of layers' inputs cannot be written: make room");
    if (result >= 0) hash_bytes(&c->hash, values, size);
    diti_free(&c->env, values);
    if (result < 0) return result;
    c->rows[c->row_count++] = kept;
    c->size += size;
    return DIT_OK;
}

typedef dit_result (*step_reader)(void *user, const diti_share *share, uint32_t segment, dit_error *err);

/* Runs a job up to its decoder, one segment after the other, and calls read after each step. */
static dit_result run_steps(dit_job *job, step_reader read, void *user, dit_error *err) {
    const diti_share *share = job->shares[0];
    diti_job_cursor cursor = {0};
    while (cursor.segment < share->program.decode_segment) {
        const uint32_t segment = cursor.segment;
        DITI_TRY(diti_plan_run(share->program.plan, segment, 1, err));
        if (diti_share_is_step(share, segment)) DITI_TRY(read(user, share, segment, err));
        cursor.slice = diti_plan_slice_count(share->program.plan, segment) - 1;
        diti_run_advance(share, &cursor);
    }
    return DIT_OK;
}

static dit_result keep_step(void *user, const diti_share *share, uint32_t segment, dit_error *err) {
    calibration *c = (calibration *)user;
    for (size_t i = 0; i < c->input_count; i++)
        if (c->inputs[i].segment == segment) DITI_TRY(keep_input(c, share->program.plan, &c->inputs[i], err));
    return DIT_OK;
}

/* The base rung computes in F32 throughout, so that no input overflows. */
static dit_result open_model(const char *path, const run_place *place, dit_context **context, dit_model **model,
                             dit_error *err) {
    dit_context_desc context_desc = {0};
    dit_model_desc model_desc = {0};
    context_desc.overrides = "rung=base";
    context_desc.devices = place->device;
    model_desc.source.path = path;
    model_desc.weight_budget = place->weight_budget;
    DITI_TRY(dit_context_create(&context_desc, context, err));
    if ((*context)->device_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "--device %s: the model runs on one device; name one",
                         place->device);
    return dit_model_load(*context, &model_desc, model, err);
}

static dit_result calibrate_prompt(calibration *c, dit_context *context, const dit_model *model, const char *prompt,
                                   uint64_t seed, dit_error *err) {
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    dit_result result;
    desc.model = model;
    desc.prompt = prompt;
    desc.seed = seed;
    c->input_count = 0;
    context->device->observer = &c->observer;
    result = dit_job_create(context, &desc, &job, err);
    context->device->observer = NULL;
    if (result >= 0 && c->failed) result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "calibration: out of memory");
    if (result >= 0) result = run_steps(job, keep_step, c, err);
    dit_job_destroy(job);
    return result;
}

/* Modules of a matrix that several layers have become read the same input. */
static bool name_layers(calibration *c, const diti_weights *weights) {
    for (size_t i = 0; i < weights->target_count; i++) {
        named_layer name = {NULL, 0};
        while (name.layer < c->layer_count && c->layers[name.layer].weight != weights->targets[i].weight) name.layer++;
        if (name.layer == c->layer_count) continue;
        name.module = diti_copy_string(&c->env, weights->targets[i].module);
        if (!name.module || !diti_grow(&c->env, (void **)&c->names, &c->name_capacity, c->name_count, sizeof name)) {
            diti_free(&c->env, name.module);
            return false;
        }
        c->names[c->name_count++] = name;
    }
    return true;
}

static void calibration_free(calibration *c) {
    for (size_t i = 0; i < c->name_count; i++) diti_free(&c->env, c->names[i].module);
    diti_free(&c->env, c->inputs);
    diti_free(&c->env, c->layers);
    diti_free(&c->env, c->rows);
    diti_free(&c->env, c->names);
    if (c->file) fclose(c->file);
}

/* prompts: one a line. */
static dit_result calibrate(calibration *c, const char *model_path, const run_place *place, char *const *prompts,
                            size_t count, dit_error *err) {
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_model_info info = {0};
    dit_result result = open_model(model_path, place, &context, &model, err);
    c->observer.linear = watch_linear;
    c->file = tmpfile();
    if (result >= 0 && !c->file)
        result = diti_fail(err, DIT_ERROR_IO, "a temporary file cannot be made: %s", strerror(errno));
    if (result >= 0) dit_model_get_info(model, &info);
    c->most = info.default_steps ? (uint32_t)(ROWS_OF_A_LAYER / (info.default_steps * count)) : 64;
    if (!c->most) c->most = 1;
    for (size_t i = 0; i < count && result >= 0; i++) result = calibrate_prompt(c, context, model, prompts[i], i, err);
    if (result >= 0 && !name_layers(c, &model->transformer->component.weights))
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "calibration: out of memory");
    dit_model_destroy(model);
    dit_context_destroy(context);
    return result;
}

/* --- statistics of a layer --- */

/* Whether a tensor "MODULE.weight" has statistics; its layer. */
static bool find_calibrated(const calibration *c, const char *tensor, size_t *layer) {
    const size_t length = strlen(tensor), suffix = strlen(".weight");
    for (size_t i = 0; c && i < c->name_count; i++) {
        const char *module = c->names[i].module;
        *layer = c->names[i].layer;
        if (length > suffix && strlen(module) == length - suffix && memcmp(module, tensor, length - suffix) == 0)
            return true;
    }
    return false;
}

static bool is_calibrated(const calibration *c, const char *tensor) {
    size_t layer;
    return find_calibrated(c, tensor, &layer);
}

static void add_row(layer_statistics *out, const float *x) {
    const uint32_t n = out->columns;
    for (uint32_t i = 0; i < n; i++) {
        double size = fabs((double)x[i]), value = (double)x[i], *line = out->h + (size_t)i * n;
        if (size > out->most[i]) out->most[i] = size;
        out->mean[i] += size;
        for (uint32_t k = 0; k <= i; k++) line[k] += value * (double)x[k];
    }
    out->rows++;
}

static void statistics_free(layer_statistics *s) {
    free(s->most);
    free(s->mean);
    free(s->h);
    memset(s, 0, sizeof *s);
}

/* Statistics of the inputs of the layer with that tensor; all NULL where nothing was kept, or there is no memory. */
static bool statistics_of(const calibration *c, const char *tensor, layer_statistics *out) {
    size_t layer, n;
    float *x;
    memset(out, 0, sizeof *out);
    if (!find_calibrated(c, tensor, &layer)) return false;
    n = out->columns = c->layers[layer].columns;
    out->most = (double *)calloc(n, sizeof(double));
    out->mean = (double *)calloc(n, sizeof(double));
    out->h = (double *)calloc(n * n, sizeof(double));
    x = (float *)malloc(n * sizeof *x);
    for (size_t i = 0; i < c->row_count && out->most && out->mean && out->h && x; i++) {
        if (c->rows[i].layer != layer) continue;
        if (fseeko(c->file, (int64_t)c->rows[i].offset, SEEK_SET) != 0) break;
        for (uint32_t row = 0; row < c->rows[i].rows && fread(x, sizeof *x, n, c->file) == n; row++) add_row(out, x);
    }
    free(x);
    for (size_t i = 0; i < n && out->rows; i++) {
        out->mean[i] /= (double)out->rows;
        for (size_t k = 0; k <= i; k++) out->h[k * n + i] = out->h[i * n + k] /= (double)out->rows;
    }
    if (!out->rows) statistics_free(out);
    return out->rows > 0;
}

#endif
