/* SD3 and SD3.5 transformers: see golden_joint.h. */
#ifndef GOLDEN_SD3_H
#define GOLDEN_SD3_H
#include "golden_joint.h"

static inline bool golden_is_sd3(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.pooled_projections") &&
           diti_checkpoint_find(folder->golden, "case0.in.hidden_states")->rank == 4 &&
           (diti_starts_with(folder->name, "sd3") || diti_starts_with(folder->name, "gguf_sd3"));
}

static inline void golden_sd3_parts(golden_joint_case *c, const diti_transformer *model) {
    diti_graph *graph = &c->base.m.graph;
    const diti_sd3_config *config = &diti_sd3_of(model)->config;
    diti_tensor x;
    char before[2][64], after[2][64];
    uint32_t i, j;
    if (!golden_case_has(&c->base, "mid.pos_embed")) return;
    x = diti_transformer_embed(model, graph, &c->base.step);
    golden_joint_expect(c, "mid.context_embedder", x, DITI_JOINT_TEXT);
    golden_joint_expect(c, "mid.pos_embed", x, DITI_JOINT_IMAGE);
    diti_format(before[0], sizeof before[0], "mid.context_embedder");
    diti_format(before[1], sizeof before[1], "mid.pos_embed");
    for (i = 0; i < config->blocks; i++) {
        x = golden_joint_recorded(c, before[0], before[1]);
        diti_transformer_block(model, graph, &c->base.step, i, x);
        for (j = 0; j < DITI_JOINT_STREAMS; j++) {
            diti_format(after[j], sizeof after[j], "mid.transformer_blocks.%u.%u", i, j);
            golden_joint_expect(c, after[j], x, j);
        }
        memcpy(before, after, sizeof before);
    }
}

static inline void golden_sd3_whole(golden_joint_case *c, const diti_transformer *model, const char *rest) {
    uint32_t pixels = c->base.step.height * c->base.step.width;
    golden_joint_whole(c, model, rest, golden_case_rows(&c->base, rest, model->traits.latent_channels, pixels));
}

static inline void golden_run_sd3_item(golden *g, const golden_folder *folder, golden_joint_case *c,
                                       const diti_transformer *model) {
    diti_sd3_state *state, kept;
    float timesteps[16];
    golden_graph_begin(&c->base.m, g, folder);
    golden_joint_inputs(c, &model->traits, "in.hidden_states", timesteps, 1);
    diti_transformer_prepare(model, &c->base.m.graph, &c->base.step);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (c->mode == GOLDEN_ALONE && !diti_graph_failed(&c->base.m.graph)) {
        diti_transformer_begin(model, &c->base.m.graph, &c->base.step);
        state = diti_sd3_state_of(&c->base.step);
        kept = *state;
        c->joint = diti_pass_make(model, &c->base.m.graph, &c->base.step);
        state->modulation.step_active = golden_joint_active(c);
        state->modulation.kept = !state->modulation.step_active;
        golden_sd3_parts(c, model);
        *state = kept;
    }
    golden_sd3_whole(c, model, "out");
    if (golden_case_has(&c->base, "out_skip_layers")) { /* the folder's README says which layer */
        c->base.step.skipped = diti_starts_with(folder->name, "sd35_odd") ? 2 : 1;
        golden_sd3_whole(c, model, "out_skip_layers");
    }
    golden_case_run(&c->base, model);
}

static inline bool golden_run_sd3_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                       uint32_t index) {
    golden_joint_case c;
    uint32_t item, mode, items = 1;
    for (item = 0; item < items; item++) {
        for (mode = 0; mode < GOLDEN_MODES && (mode == GOLDEN_ALONE || items > 1); mode++) {
            if (!golden_joint_begin(&c, folder, "in.hidden_states", index, item, mode)) return false;
            items = c.items;
            golden_run_sd3_item(g, folder, &c, model);
        }
    }
    return true;
}

static inline void golden_run_sd3(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_sd3_case);
}
#endif
