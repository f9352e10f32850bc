/* Golden families that compute on a device share this: one device for all folders, recorded tensors as inputs of a
   graph, and the comparison of its outputs. Include it after golden.h. */
#ifndef GOLDEN_MODEL_H
#define GOLDEN_MODEL_H
#include "golden.h"
#include "truncating.h"

/* A check that is worth a line only when it fails. */
#define golden_require(g, condition, ...) ((condition) ? true : golden_check(g, false, __VA_ARGS__))

/* --- the device: opened at the first use, closed by golden.c --- */
typedef struct golden_device {
    diti_device *device;
    bool tried, is_fp16;
} golden_device;
static golden_device golden_shared;

static inline void golden_overrides(const golden *g, char *out, size_t size) {
    diti_format(out, size, "rung=%s%s%s", g->rung, g->overrides ? "," : "", g->overrides ? g->overrides : "");
}

static inline diti_device *golden_open_device(golden *g) {
    dit_context_desc desc = DITI_ZERO;
    dit_vulkan through = DITI_ZERO;
    dit_error err = DITI_ZERO;
    char overrides[256];
    if (golden_shared.tried) return golden_shared.device;
    golden_shared.tried = true;
    golden_shared.is_fp16 = !diti_equal(g->rung, "base");
    golden_overrides(g, overrides, sizeof overrides);
    desc.overrides = overrides;
    desc.devices = g->device;
    through.get_instance_proc_addr = truncating_get_instance_proc_addr;
    if (g->truncates) desc.vulkan = &through, desc.vulkan_count = 1;
    golden_require(g, diti_device_open(&desc, &g->env, &golden_shared.device, &err) == DIT_OK, "a device on rung %s %s",
                   g->rung, err.message);
    return golden_shared.device;
}

static inline void golden_close_device(void) {
    if (golden_shared.device) diti_device_close(golden_shared.device);
    memset(&golden_shared, 0, sizeof golden_shared);
}

static inline bool golden_has_fp16(const golden *g) {
    dit_context_desc desc = DITI_ZERO;
    diti_device *device = NULL;
    bool has = diti_device_open(&desc, &g->env, &device, NULL) == DIT_OK && device->has_fp16;
    if (device) diti_device_close(device);
    return has;
}

static inline bool golden_has_rung(const golden *g, diti_rung rung) {
    dit_context_desc desc = DITI_ZERO;
    diti_device *device = NULL;
    char overrides[32];
    diti_format(overrides, sizeof overrides, "rung=%s", diti_rung_name(rung));
    desc.overrides = overrides;
    if (diti_device_open(&desc, &g->env, &device, NULL) < 0) return false;
    diti_device_close(device);
    return true;
}

static inline double golden_tolerance(double fp32) { return golden_shared.is_fp16 ? GOLDEN_FP16 : fp32; }

/* The folder's weights, whatever their file. */
static inline diti_checkpoint *golden_open_weights(golden *g, const golden_folder *folder) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", "model.gguf",
                                        "diffusion_pytorch_model.safetensors.index.json"};
    size_t i;
    for (i = 0; i < DITI_COUNT(names); i++)
        if (golden_has(folder->path, names[i])) return golden_open_checkpoint(&g->env, folder->path, names[i]);
    if (golden_has(folder->path, "weights.txt")) { /* another fixture's: their path */
        char path[512] = "", name[512] = "";
        FILE *file;
        diti_format(path, sizeof path, "%s/weights.txt", folder->path);
        file = fopen(path, "r");
        if (file && fscanf(file, "%511s", name) != 1) name[0] = 0;
        if (file) fclose(file);
        if (name[0]) return golden_open_checkpoint(&g->env, folder->path, name);
    }
    return NULL;
}

/* The configuration of a fixture in an original single-file format, which stores none. */
static inline diti_json *golden_config(golden *g, const golden_folder *folder, const char *instead) {
    diti_json *json = NULL;
    dit_error err = DITI_ZERO;
    if (folder->config || !instead) return NULL;
    golden_require(g,
                   diti_json_parse(&g->env, instead, strlen(instead), "instead of config.json", &json, &err) == DIT_OK,
                   "a configuration %s", err.message);
    return json;
}

/* --- one graph: inputs from recorded tensors, outputs to be compared --- */
#define GOLDEN_SLOTS 96

typedef struct golden_input {
    diti_tensor tensor;
    void *data;
    size_t bytes;
} golden_input;

typedef struct golden_output {
    char name[96];      /* of the recorded tensor */
    diti_tensor tensor; /* a state */
    float *reference;   /* rows * columns, in the order of the tensor */
    size_t count;
    double tolerance;
} golden_output;

typedef struct golden_graph {
    golden *g;
    const golden_folder *folder;
    diti_graph graph;
    diti_plan *plan;
    golden_input inputs[GOLDEN_SLOTS];
    golden_output outputs[GOLDEN_SLOTS];
    int input_count, output_count;
} golden_graph;

static inline void golden_graph_begin(golden_graph *m, golden *g, const golden_folder *folder) {
    memset(m, 0, sizeof *m);
    m->g = g;
    m->folder = folder;
    diti_graph_init(&m->graph, golden_shared.device);
    diti_graph_segment(&m->graph, "prepare", false);
}

/* An input filled with data, which the graph frees. */
static inline diti_tensor golden_give(golden_graph *m, diti_element format, uint32_t rows, uint32_t columns,
                                      void *data) {
    golden_input *input = &m->inputs[m->input_count++];
    if (m->input_count > GOLDEN_SLOTS) abort();
    input->tensor = diti_tensor_input(&m->graph, format, rows, columns, "golden input");
    input->data = data;
    input->bytes = (size_t)rows * columns * 4;
    return input->tensor;
}

static inline diti_tensor golden_give_u32(golden_graph *m, uint32_t value) {
    uint32_t *data = (uint32_t *)malloc(sizeof *data);
    *data = value;
    return golden_give(m, DITI_U32, 1, 1, data);
}

/* Item `item` of a recorded tensor [items, rows, columns], as floats. */
static inline float *golden_item(golden_graph *m, const char *name, uint32_t item, uint32_t rows, uint32_t columns) {
    uint64_t count, size = (uint64_t)rows * columns;
    float *all = golden_floats(m->folder->golden, name, &count), *out = (float *)calloc((size_t)size, sizeof(float));
    if (golden_require(m->g, all && count >= (item + 1) * size && count % size == 0, "%s is [?, %u, %u]", name, rows,
                       columns)) {
        memcpy(out, all + item * size, (size_t)size * sizeof(float));
    }
    free(all);
    return out;
}

/* Planes [columns, rows] become rows, and back. */
static inline float *golden_transpose(float *from, uint32_t rows, uint32_t columns) {
    float *out = (float *)malloc((size_t)rows * columns * sizeof(float));
    size_t r, c;
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c++) out[c * rows + r] = from[r * columns + c];
    free(from);
    return out;
}

/* Compares tensor, of any format, with reference when the graph has run; the graph frees reference. */
static inline void golden_expect(golden_graph *m, const char *name, diti_tensor tensor, float *reference, double fp32) {
    golden_output *output = &m->outputs[m->output_count++];
    diti_elementwise_desc copy = DITI_ZERO;
    uint32_t rows = 0, columns = 0;
    if (m->output_count > GOLDEN_SLOTS) abort();
    output->reference = reference;
    if (diti_graph_failed(&m->graph)) return;
    rows = diti_tensor_get(&m->graph, tensor)->rows;
    columns = diti_tensor_get(&m->graph, tensor)->columns;
    diti_format(output->name, sizeof output->name, "%s", name);
    output->count = (size_t)rows * columns;
    output->tolerance = golden_tolerance(fp32);
    output->tensor = copy.out = diti_tensor_state(&m->graph, DITI_F32, rows, columns, "golden output");
    copy.name = "golden_copy";
    diti_elementwise(&m->graph, tensor, &copy);
}

/* A copy of x that an op may change in place. */
static inline diti_tensor golden_copy(golden_graph *m, diti_tensor x) {
    diti_elementwise_desc copy = DITI_ZERO;
    copy.out_f32 = true;
    copy.name = "golden_copy";
    return diti_elementwise(&m->graph, x, &copy);
}

static inline dit_result golden_graph_create(golden_graph *m, dit_error *err) {
    dit_result result = diti_plan_create(&m->graph, NULL, &m->plan, err);
    int i;
    for (i = 0; result == DIT_OK && i < m->input_count; i++) {
        result = diti_plan_write(m->plan, m->inputs[i].tensor, m->inputs[i].data, m->inputs[i].bytes, err);
    }
    return result;
}

static inline void golden_compare_output(golden_graph *m, const golden_output *output) {
    dit_error err = DITI_ZERO;
    float *out = (float *)malloc(output->count * sizeof(float));
    if (golden_require(m->g,
                       diti_plan_read(m->plan, output->tensor, out, output->count * sizeof(float), &err) == DIT_OK,
                       "%s read %s", output->name, err.message)) {
        golden_compare(m->g, output->name, out, output->reference, output->count, output->tolerance);
    }
    free(out);
}

/* Runs every segment once and compares all outputs; call after golden_graph_create. */
static inline void golden_graph_run(golden_graph *m) {
    dit_error err = DITI_ZERO;
    int i;
    if (!golden_require(m->g, diti_plan_run(m->plan, 0, m->plan->segment_count, &err) == DIT_OK, "runs %s",
                        err.message))
        return;
    for (i = 0; i < m->output_count; i++) golden_compare_output(m, &m->outputs[i]);
}

static inline void golden_graph_end(golden_graph *m) {
    int i;
    for (i = 0; i < m->input_count; i++) free(m->inputs[i].data);
    for (i = 0; i < m->output_count; i++) free(m->outputs[i].reference);
    diti_plan_destroy(m->plan);
    diti_graph_free(&m->graph);
}

/* --- one item of a recorded case of a transformer: "case3.in.timestep" of index 3 --- */
typedef struct golden_case {
    golden_graph m;
    diti_step_desc step;
    uint32_t index, item;
    float timestep;
    const float *timesteps; /* of all steps; NULL: there is one */
} golden_case;

static inline const char *golden_case_name(const golden_case *c, const char *rest, char *out) {
    diti_format(out, 96, "case%u.%s", c->index, rest);
    return out;
}

/* The shapes of an item of a recorded case of clips; the latent's dimension `frames` counts its frames. false: there is
   no such case. */
static inline bool golden_case_clip(golden_case *c, const golden_folder *folder, const char *latent, const char *text,
                                    uint32_t frames, uint32_t *items) {
    const diti_stored_tensor *x, *y;
    diti_step_desc *d = &c->step;
    char name[96];
    x = diti_checkpoint_find(folder->golden, golden_case_name(c, latent, name));
    y = diti_checkpoint_find(folder->golden, golden_case_name(c, text, name));
    if (!x || !y || x->rank != 5 || y->rank < 3) return false;
    *items = (uint32_t)x->shape[0];
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->frames = (uint32_t)x->shape[frames];
    d->height = (uint32_t)x->shape[3];
    d->width = (uint32_t)x->shape[4];
    d->text_tokens = (uint32_t)y->shape[y->rank - 2];
    return true;
}

/* The item's rows of a recorded tensor. */
static inline float *golden_case_rows(golden_case *c, const char *rest, uint32_t rows, uint32_t columns) {
    char name[96];
    return golden_item(&c->m, golden_case_name(c, rest, name), c->item, rows, columns);
}

static inline bool golden_case_has(const golden_case *c, const char *rest) {
    char name[96];
    return diti_checkpoint_find(c->m.folder->golden, golden_case_name(c, rest, name)) != NULL;
}

static inline void golden_case_expect(golden_case *c, const char *rest, diti_tensor tensor, double fp32) {
    char name[96], label[96];
    uint32_t rows = 1, columns = 1;
    if (!diti_graph_failed(&c->m.graph))
        rows = diti_tensor_get(&c->m.graph, tensor)->rows, columns = diti_tensor_get(&c->m.graph, tensor)->columns;
    diti_format(label, sizeof label, "%s [%u]", golden_case_name(c, rest, name), c->item);
    golden_expect(&c->m, label, tensor, golden_case_rows(c, rest, rows, columns), fp32);
}

/* The item's rows of a recorded tensor, as what an op may change in place. */
static inline diti_tensor golden_case_recorded(golden_case *c, const char *rest, uint32_t rows, uint32_t columns) {
    return golden_copy(&c->m, golden_give(&c->m, DITI_F32, rows, columns, golden_case_rows(c, rest, rows, columns)));
}

/* Plans what was emitted, writes the inputs that prepare declared, runs and compares. */
static inline void golden_case_run(golden_case *c, const diti_transformer *model) {
    dit_error err = DITI_ZERO;
    const float *timesteps = c->timesteps ? c->timesteps : &c->timestep;
    dit_result result = golden_graph_create(&c->m, &err);
    if (result == DIT_OK) result = model->family->write_inputs(model, c->m.plan, &c->step, timesteps, &err);
    if (golden_require(c->m.g, result == DIT_OK, "case%u [%u] is planned %s", c->index, c->item, err.message))
        golden_graph_run(&c->m);
    golden_graph_end(&c->m);
    diti_free(&model->component.env, c->step.family);
}

typedef bool (*golden_run_case)(golden *g, const golden_folder *folder, const diti_transformer *model, uint32_t index);

/* Loads a transformer and runs the folder's cases, as long as `run` finds one. */
static inline void golden_run_cases(golden *g, const golden_folder *folder, const diti_json *config,
                                    const diti_checkpoint *weights, golden_run_case run) {
    diti_transformer *model = NULL;
    dit_error err = DITI_ZERO;
    uint32_t i = 0;
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(
            g, diti_transformer_load(golden_shared.device, &g->env, config, weights, "", NULL, &model, &err) == DIT_OK,
            "loads %s", err.message)) {
        while (run(g, folder, model, i)) i++;
        golden_require(g, i > 0, "no case");
    }
    diti_transformer_destroy(model);
}

/* instead: a configuration for folders without one, or NULL. */
static inline void golden_run_transformer(golden *g, const golden_folder *folder, const char *instead,
                                          golden_run_case run) {
    diti_json *json = golden_config(g, folder, instead);
    diti_checkpoint *weights = golden_open_weights(g, folder);
    golden_run_cases(g, folder, folder->config ? folder->config : json, weights, run);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}
#endif
