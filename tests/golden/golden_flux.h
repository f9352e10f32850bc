/* FLUX.1 transformers: see golden_joint.h. */
#ifndef GOLDEN_FLUX_H
#define GOLDEN_FLUX_H
#include "golden_joint.h"

static inline bool golden_is_flux(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.pooled_projections") &&
           diti_checkpoint_find(folder->golden, "case0.in.latents") &&
           (diti_starts_with(folder->name, "flux_") || diti_starts_with(folder->name, "gguf_flux_"));
}

/* The recorded outputs are diffusers', with the text first, or the original code's, with the image first. */
static inline void golden_flux_name(bool original, uint32_t block, uint32_t stream, char *out, size_t size) {
    if (original)
        diti_format(out, size, "mid.double_blocks.%u.%u", block, 1 - stream);
    else
        diti_format(out, size, "mid.transformer_blocks.%u.%u", block, stream);
}

static inline void golden_flux_doubles(golden_joint_case *c, const diti_transformer *model, bool original) {
    diti_graph *graph = &c->base.m.graph;
    const diti_flux_config *config = &diti_flux_of(model)->config;
    char before[2][64], after[2][64];
    uint32_t i, j;
    diti_tensor x = diti_transformer_embed(model, graph, &c->base.step);
    golden_joint_expect(c, "mid.context_embedder", x, DITI_JOINT_TEXT);
    golden_joint_expect(c, "mid.x_embedder", x, DITI_JOINT_IMAGE);
    diti_format(before[0], sizeof before[0], "mid.context_embedder");
    diti_format(before[1], sizeof before[1], "mid.x_embedder");
    for (i = 0; i < config->doubles; i++) {
        if (golden_case_has(&c->base, before[0])) x = golden_joint_recorded(c, before[0], before[1]);
        diti_transformer_block(model, graph, &c->base.step, i, x);
        for (j = 0; j < DITI_JOINT_STREAMS; j++) {
            golden_flux_name(original, i, j, after[j], sizeof after[j]);
            golden_joint_expect(c, after[j], x, j);
        }
        memcpy(before, after, sizeof before);
    }
}

static inline void golden_flux_singles(golden_joint_case *c, const diti_transformer *model, bool original) {
    diti_graph *graph = &c->base.m.graph;
    const diti_flux_config *config = &diti_flux_of(model)->config;
    const char *format = original ? "mid.single_blocks.%u" : "mid.single_transformer_blocks.%u";
    char text[64], image[64], name[64];
    uint32_t i, rows = c->joint.text + c->joint.image;
    diti_tensor x;
    golden_flux_name(original, config->doubles - 1, DITI_JOINT_TEXT, text, sizeof text);
    golden_flux_name(original, config->doubles - 1, DITI_JOINT_IMAGE, image, sizeof image);
    x = golden_joint_recorded(c, text, image);
    for (i = 0; i < config->singles; i++) {
        diti_transformer_block(model, graph, &c->base.step, config->doubles + i, x);
        diti_format(name, sizeof name, format, i);
        golden_case_expect(&c->base, name, x, c->tolerance);
        x = golden_case_recorded(&c->base, name, rows, c->joint.width);
    }
    golden_case_expect(&c->base, "out", diti_transformer_final(model, graph, &c->base.step, x), c->tolerance);
}

/* The fixture records patches, columns (c, dy, dx); the comparison wants planes. */
static inline void golden_flux_whole(golden_joint_case *c, const diti_transformer *model) {
    uint32_t width = c->base.step.width, height = c->base.step.height, i;
    uint32_t channels = model->traits.latent_channels, columns = 4 * channels, count = width * height * channels;
    float *patches = golden_case_rows(&c->base, "out", width * height / 4, columns);
    float *planes = (float *)calloc(count, sizeof(float));
    for (i = 0; i < count; i++) {
        uint32_t plane = i / (width * height), y = i / width % height, x = i % width;
        planes[i] = patches[(y / 2 * (width / 2) + x / 2) * columns + plane * 4 + y % 2 * 2 + x % 2];
    }
    free(patches);
    golden_joint_whole(c, model, "out", planes);
}

static inline void golden_run_flux_item(golden *g, const golden_folder *folder, golden_joint_case *c,
                                        const diti_transformer *model) {
    bool original = diti_checkpoint_find(folder->golden, "case0.mid.double_blocks.0.0") != NULL;
    diti_flux_state *state, kept;
    float timesteps[16];
    golden_graph_begin(&c->base.m, g, folder);
    golden_joint_inputs(c, &model->traits, "in.latents", timesteps, 1000);
    diti_transformer_prepare(model, &c->base.m.graph, &c->base.step);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (c->mode == GOLDEN_ALONE && !diti_graph_failed(&c->base.m.graph)) {
        diti_transformer_begin(model, &c->base.m.graph, &c->base.step);
        state = diti_flux_state_of(&c->base.step);
        kept = *state;
        c->joint = diti_pass_make(model, &c->base.m.graph, &c->base.step);
        state->modulation.step_active = golden_joint_active(c);
        state->modulation.kept = !state->modulation.step_active;
        golden_flux_doubles(c, model, original);
        golden_flux_singles(c, model, original);
        *state = kept;
    }
    golden_flux_whole(c, model);
    golden_case_run(&c->base, model);
}

static inline bool golden_run_flux_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                        uint32_t index) {
    golden_joint_case c;
    uint32_t item, mode, items = 1;
    for (item = 0; item < items; item++) {
        for (mode = 0; mode < GOLDEN_MODES && (mode == GOLDEN_ALONE || items > 1); mode++) {
            if (!golden_joint_begin(&c, folder, "in.latents", index, item, mode)) return false;
            items = c.items;
            golden_run_flux_item(g, folder, &c, model);
        }
    }
    return true;
}

static inline void golden_run_flux(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_flux_case);
}
#endif
