/* Adapters: a transformer with what diffusers, PEFT, kohya's scripts and LyCORIS write, computed beside the weights and
   merged into them. The folders have no weights of their own: these are in pipe_NAME/transformer beside them. */
#ifndef GOLDEN_LORA_H
#define GOLDEN_LORA_H
#include "golden_flux.h"
#include "golden_pixart.h"
#include "golden_sd3.h"
#include "golden_zimage.h"
#include "weights/lora.h"

#define GOLDEN_LORAS 2

typedef struct golden_lora_run {
    golden *g;
    const golden_folder *folder;
    diti_json *config;
    diti_checkpoint *base;
    diti_lora_file *files[GOLDEN_LORAS];
    float weights[GOLDEN_LORAS];
    uint32_t count;
    char tag[64];
    diti_transformer *model;
    diti_lora *loras[GOLDEN_LORAS];
    diti_lora_use uses[GOLDEN_LORAS];
    float *scales;
} golden_lora_run;

static inline bool golden_is_lora(const golden_folder *folder) {
    return folder->golden && diti_starts_with(folder->name, "lora_") &&
           diti_checkpoint_find(folder->golden, "base.out");
}

/* --- the adapters of a tag: "kohya", "peft_w0.5", "two_0.8_-0.5" --- */

static inline diti_lora_file *golden_lora_open(golden_lora_run *r, const char *name) {
    static const char *const endings[] = {".safetensors", "_lycoris.safetensors", "_diffusion_model.safetensors", ""};
    char path[1024];
    dit_source source = DITI_ZERO;
    diti_lora_file *file = NULL;
    dit_error err = DITI_ZERO;
    size_t i;
    for (i = 0; i < DITI_COUNT(endings); i++) {
        struct stat status;
        diti_format(path, sizeof path, "%s/%s%s", r->folder->path, name, endings[i]);
        if (stat(path, &status) != 0) continue;
        source.path = path;
        golden_require(r->g, diti_lora_open(&r->g->env, &source, &file, &err) == DIT_OK, "opens %s", err.message);
        return file;
    }
    golden_check(r->g, false, "no adapter %s", name);
    return NULL;
}

static inline bool golden_lora_choose(golden_lora_run *r, const char *output) {
    static const char *const pairs[][2] = {{"peft", "kohya"},      {"peft", "kohya_fused"}, {"lora", "lora_rs"},
                                           {"lightning", "kohya"}, {"bfl", "kohya"},        {"comfy", "aitoolkit"}};
    const char *const *pair = pairs[0], *weight;
    char path[96];
    char name[64];
    uint32_t i;
    diti_format(r->tag, sizeof r->tag, "%.*s", (int)(strlen(output) - strlen(".out")), output);
    r->count = 0;
    if (diti_equal(r->tag, "base")) return true;
    if (diti_starts_with(r->tag, "two_")) {
        for (i = 0; i < DITI_COUNT(pairs); i++) { /* the first of which both are there */
            bool both = true;
            uint32_t k;
            for (k = 0; k < 2; k++) {
                diti_format(path, sizeof path, "%s.safetensors", pairs[i][k]);
                if (golden_has(r->folder->path, path)) continue;
                diti_format(path, sizeof path, "%s/adapter_config.json", pairs[i][k]);
                both = both && golden_has(r->folder->path, path);
            }
            pair = pairs[i];
            if (both) break;
        }
        r->weights[0] = (float)atof(r->tag + strlen("two_"));
        r->weights[1] = (float)atof(strrchr(r->tag, '_') + 1);
        for (i = 0; i < 2; i++)
            if ((r->files[r->count] = golden_lora_open(r, pair[i])) != NULL) r->count++;
        return r->count == 2;
    }
    diti_format(name, sizeof name, "%s", r->tag);
    weight = strstr(name, "_w");
    r->weights[0] = weight ? (float)atof(weight + 2) : 1;
    if (weight) name[weight - name] = 0;
    r->files[0] = golden_lora_open(r, name);
    r->count = r->files[0] ? 1 : 0;
    return r->count == 1;
}

/* --- loading --- */

/* A file "stray" has one module more, the modulation of FLUX.1's blocks, which the model does not have. */
static inline bool golden_lora_load(golden_lora_run *r, bool merged) {
    diti_load_options options = DITI_ZERO;
    diti_lora_merges merges = DITI_ZERO;
    diti_lora_matches matches[GOLDEN_LORAS] = {DITI_ZERO, DITI_ZERO};
    diti_lora_scope scope;
    dit_error err = DITI_ZERO;
    dit_result result;
    uint32_t i;
    options.adapts = true;
    options.role = DIT_ROLE_TRANSFORMER;
    merges.env = r->g->env;
    merges.count = merged ? r->count : 0;
    memcpy(merges.files, r->files, sizeof r->files);
    memcpy(merges.weights, r->weights, sizeof r->weights);
    if (merged) options.merges = &merges;
    result = diti_transformer_load(golden_shared.device, &r->g->env, r->config, r->base, "", &options, &r->model, &err);
    for (i = 0; i < r->count && result == DIT_OK && !merged; i++) {
        scope.part = DIT_ROLE_TRANSFORMER;
        scope.weights = &r->model->component.weights;
        result = diti_lora_match_scopes(r->files[i], &scope, 1, &matches[i], &err);
        if (result == DIT_OK) result = diti_lora_check_fits(r->files[i], &err);
        if (result == DIT_OK)
            result =
                diti_lora_load(golden_shared.device, &r->g->env, r->files[i], &matches[i], false, &r->loras[i], &err);
        diti_free(&r->g->env, matches[i].list);
    }
    for (i = 0; i < r->count && result == DIT_OK; i++) {
        size_t k, missing = 0, strays = diti_starts_with(r->tag, "stray") ? 1 : 0;
        for (k = 0; k < r->files[i]->module_count; k++) {
            const diti_lora_module *module = &r->files[i]->modules[k];
            missing += !module->fits;
            golden_require(r->g, module->fits || strstr(module->name, "img_mod"), "%s: %s fits nothing", r->tag,
                           module->name);
        }
        golden_require(r->g, missing == strays && !r->files[i]->foreign, "%s: %u modules fit nothing", r->tag,
                       (unsigned)missing);
    }
    diti_free(&r->g->env, merges.list);
    return golden_require(r->g, result == DIT_OK, "loads %s: %s", r->tag, err.message);
}

static inline void golden_lora_give(golden_lora_run *r, golden_graph *m) {
    uint32_t i, k, total = 0;
    float *scales;
    for (i = 0; i < r->count && r->loras[i]; i++) {
        r->uses[i].lora = r->loras[i];
        r->uses[i].column = total;
        total += r->loras[i]->scale_count;
    }
    if (!total) return;
    scales = (float *)calloc(total, sizeof *scales);
    for (i = 0; i < r->count; i++)
        for (k = 0; k < r->loras[i]->scale_count; k++)
            scales[r->uses[i].column + k] = r->weights[i] * r->loras[i]->scales[k];
    m->graph.loras = r->uses;
    m->graph.lora_count = r->count;
    m->graph.lora_scales = golden_give(m, DITI_F32, 1, total, scales);
}

/* --- evaluations --- */

/* Patches [rows, columns (c, dy, dx)] and planes [c, 2 rows, 2 columns], of which one becomes the other. */
static inline void golden_lora_unpatch(float *values, uint32_t channels, uint32_t height, uint32_t width) {
    size_t i, count = (size_t)channels * height * width;
    float *patches = (float *)malloc(count * sizeof *patches);
    memcpy(patches, values, count * sizeof *patches);
    for (i = 0; i < count; i++) {
        size_t plane = i / ((size_t)width * height), y = i / width % height, x = i % width;
        values[i] = patches[(y / 2 * (width / 2) + x / 2) * 4 * channels + plane * 4 + y % 2 * 2 + x % 2];
    }
    free(patches);
}

/* The recorded output of item `item` as planes; the prediction has their first channels. */
static inline float *golden_lora_expected(golden_lora_run *r, golden_graph *m, uint32_t item, uint32_t channels,
                                          uint32_t height, uint32_t width) {
    char name[96];
    const diti_stored_tensor *tensor;
    float *values;
    diti_format(name, sizeof name, "%s.out", r->tag);
    tensor = diti_checkpoint_find(r->folder->golden, name);
    values = golden_item(m, name, item, channels, height * width);
    if (tensor && tensor->rank == 3) golden_lora_unpatch(values, channels, height, width);
    return values;
}

static inline void golden_lora_joint(golden_lora_run *r, const char *label) {
    golden_joint_case c;
    const diti_model_traits *traits = &r->model->traits;
    const diti_stored_tensor *latent = diti_checkpoint_find(r->folder->golden, "case0.in.hidden_states"),
                             *text = diti_checkpoint_find(r->folder->golden, "case0.in.encoder_hidden_states");
    bool patches = latent->rank == 3;
    float timesteps[16], *ids;
    uint64_t count;
    memset(&c, 0, sizeof c);
    c.items = 1;
    if (patches) {
        ids = golden_floats(r->folder->golden, "case0.in.img_ids", &count);
        c.base.step.height = 2 * ((uint32_t)ids[count - 2] + 1);
        c.base.step.width = 2 * ((uint32_t)ids[count - 1] + 1);
        free(ids);
    } else {
        c.base.step.height = (uint32_t)latent->shape[2];
        c.base.step.width = (uint32_t)latent->shape[3];
    }
    c.base.step.text_tokens = (uint32_t)text->shape[1];
    golden_graph_begin(&c.base.m, r->g, r->folder);
    golden_joint_inputs(&c, traits, "in.hidden_states", timesteps, patches ? 1000 : 1);
    if (patches)
        golden_lora_unpatch((float *)c.base.m.inputs[0].data, traits->latent_channels, c.base.step.height,
                            c.base.step.width);
    golden_lora_give(r, &c.base.m);
    diti_transformer_prepare(r->model, &c.base.m.graph, &c.base.step);
    diti_graph_segment(&c.base.m.graph, "step", true);
    golden_expect(&c.base.m, label, diti_transformer_step(r->model, &c.base.m.graph, &c.base.step),
                  golden_lora_expected(r, &c.base.m, 0, traits->latent_channels, c.base.step.height, c.base.step.width),
                  GOLDEN_MODEL);
    golden_case_run(&c.base, r->model);
}

static inline void golden_lora_pixart(golden_lora_run *r, const char *label) {
    const diti_stored_tensor *latent = diti_checkpoint_find(r->folder->golden, "case0.in.hidden_states"),
                             *text = diti_checkpoint_find(r->folder->golden, "case0.in.encoder_hidden_states");
    uint32_t item;
    for (item = 0; item < latent->shape[0]; item++) {
        golden_pixart_case c;
        diti_step_desc *d = &c.base.step;
        memset(&c, 0, sizeof c);
        c.model = diti_pixart_of(r->model);
        c.base.item = item;
        d->batch = d->branches = d->steps = d->text_batch = 1;
        d->height = (uint32_t)latent->shape[2];
        d->width = (uint32_t)latent->shape[3];
        d->text_tokens = (uint32_t)text->shape[1];
        golden_graph_begin(&c.base.m, r->g, r->folder);
        golden_pixart_inputs(&c);
        golden_lora_give(r, &c.base.m);
        diti_transformer_prepare(r->model, &c.base.m.graph, d);
        diti_graph_segment(&c.base.m.graph, "step", true);
        golden_expect(&c.base.m, label, diti_transformer_step(r->model, &c.base.m.graph, d),
                      golden_lora_expected(r, &c.base.m, item, c.model->config.out_channels, d->height, d->width),
                      GOLDEN_MODEL);
        golden_case_run(&c.base, r->model);
    }
}

static inline void golden_lora_zimage(golden_lora_run *r, const char *label) {
    const diti_stored_tensor *text = diti_checkpoint_find(r->folder->golden, "case0.in.cap_feats0");
    uint32_t lengths[2], firsts[2], i, channels = r->model->traits.latent_channels;
    golden_zimage c;
    diti_step_desc *d = &c.base.step;
    diti_tensor out;
    float *reference;
    memset(&c, 0, sizeof c);
    c.kind = "";
    c.samples = 1;
    c.rows[0] = (uint32_t)text->shape[0];
    golden_graph_begin(&c.base.m, r->g, r->folder);
    golden_zimage_inputs(&c, r->model, lengths, firsts);
    golden_lora_give(r, &c.base.m);
    diti_transformer_prepare(r->model, &c.base.m.graph, d);
    diti_graph_segment(&c.base.m.graph, "step", true);
    out = diti_transformer_step(r->model, &c.base.m.graph, d);
    reference = golden_lora_expected(r, &c.base.m, 0, channels, d->height, d->width);
    for (i = 0; i < channels * d->height * d->width; i++) reference[i] = -reference[i]; /* the pipeline's next step */
    golden_expect(&c.base.m, label, out, reference, GOLDEN_MODEL);
    golden_case_run(&c.base, r->model);
}

/* Models that read text and image alone: 24 tokens are 4 lines of 6. FLUX.2's are its latent's pixels. */
static inline void golden_lora_tokens(golden_lora_run *r, const char *label) {
    const diti_stored_tensor *text = diti_checkpoint_find(r->folder->golden, "case0.in.encoder_hidden_states");
    uint32_t channels = r->model->traits.latent_channels, patch = r->model->traits.patch, pixels;
    golden_joint_case c;
    diti_step_desc *d = &c.base.step;
    float timesteps[1], *recorded, *reference;
    memset(&c, 0, sizeof c);
    d->height = 4 * patch;
    d->width = 6 * patch;
    pixels = d->height * d->width;
    d->text_tokens = (uint32_t)text->shape[1];
    golden_graph_begin(&c.base.m, r->g, r->folder);
    recorded = golden_case_rows(&c.base, "in.timestep", 1, 1);
    timesteps[0] = recorded[0] * 1000;
    free(recorded);
    c.base.timesteps = timesteps;
    d->steps = d->batch = d->branches = d->text_batch = 1;
    d->text_lengths = &d->text_tokens;
    if (patch == 1) {
        recorded = golden_transpose(golden_case_rows(&c.base, "in.hidden_states", pixels, channels), pixels, channels);
    } else {
        recorded = golden_case_rows(&c.base, "in.hidden_states", channels, pixels);
        golden_lora_unpatch(recorded, channels, d->height, d->width);
    }
    d->latent = golden_give(&c.base.m, DITI_F32, channels, pixels, recorded);
    d->text = golden_give(
        &c.base.m, DITI_F32, d->text_tokens, r->model->traits.text_columns,
        golden_case_rows(&c.base, "in.encoder_hidden_states", d->text_tokens, r->model->traits.text_columns));
    d->row = golden_give_u32(&c.base.m, 0);
    golden_lora_give(r, &c.base.m);
    diti_transformer_prepare(r->model, &c.base.m.graph, d);
    diti_graph_segment(&c.base.m.graph, "step", true);
    if (patch == 1) {
        char name[96];
        diti_format(name, sizeof name, "%s.out", r->tag);
        reference = golden_transpose(golden_item(&c.base.m, name, 0, pixels, channels), pixels, channels);
    } else {
        reference = golden_lora_expected(r, &c.base.m, 0, channels, d->height, d->width);
    }
    golden_expect(&c.base.m, label, diti_transformer_step(r->model, &c.base.m.graph, d), reference, GOLDEN_BLOCK);
    golden_case_run(&c.base, r->model);
}

/* --- the folder --- */

static inline void golden_lora_tag(golden_lora_run *r, const char *output, bool merged) {
    char label[96];
    uint32_t i;
    if (golden_lora_choose(r, output) && golden_lora_load(r, merged)) {
        diti_format(label, sizeof label, "%s%s", r->tag, merged ? ", merged" : "");
        if (diti_equal(r->model->traits.family, "pixart"))
            golden_lora_pixart(r, label);
        else if (diti_equal(r->model->traits.family, "zimage"))
            golden_lora_zimage(r, label);
        else if (!diti_checkpoint_find(r->folder->golden, "case0.in.pooled_projections"))
            golden_lora_tokens(r, label);
        else
            golden_lora_joint(r, label);
    }
    for (i = 0; i < GOLDEN_LORAS; i++) {
        diti_lora_free(r->loras[i]);
        diti_lora_close(r->files[i]);
    }
    diti_transformer_destroy(r->model);
    memset(r->loras, 0, sizeof r->loras);
    memset(r->files, 0, sizeof r->files);
    r->model = NULL;
}

static inline void golden_run_lora(golden *g, const golden_folder *folder) {
    static const char weights[] = "diffusion_pytorch_model.safetensors";
    golden_lora_run r;
    char path[1024];
    uint32_t i, count = diti_checkpoint_count(folder->golden);
    memset(&r, 0, sizeof r);
    r.g = g;
    r.folder = folder;
    diti_format(path, sizeof path, "%.*spipe_%s/transformer", (int)(strlen(folder->path) - strlen(folder->name)),
                folder->path, folder->name + strlen("lora_"));
    r.config = golden_open_json(&g->env, path, "config.json");
    r.base = golden_open_checkpoint(&g->env, path, weights);
    if (golden_require(g, r.base && r.config, "no %s", path) && golden_open_device(g)) {
        for (i = 0; i < count; i++) {
            const char *name = diti_checkpoint_tensor(folder->golden, i)->name;
            if (!diti_ends_with(name, ".out")) continue;
            golden_lora_tag(&r, name, false);
            if (!diti_equal(name, "base.out")) golden_lora_tag(&r, name, true);
        }
    }
    diti_checkpoint_close(r.base);
    diti_json_free(&g->env, r.config);
}
#endif
