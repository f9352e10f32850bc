/* HunyuanVideo's transformer: whole evaluations, and every block alone on the reference's recorded input. Items of a
   batch have timesteps and texts of their own in the fixtures, so that they are run one by one. Recorded texts end in
   padding, dit.h's begin with it. */
#ifndef GOLDEN_HUNYUANVIDEO_H
#define GOLDEN_HUNYUANVIDEO_H
#include "golden_originals.h"
#include "golden_t5.h"

static inline bool golden_is_hunyuanvideo(const golden_folder *folder) {
    return folder->golden &&
           diti_equal(diti_json_string(folder->config, "_class_name", ""), "HunyuanVideoTransformer3DModel");
}

typedef struct golden_hunyuanvideo_case {
    golden_case base;
    const diti_hunyuanvideo *model;
    uint32_t length; /* rows of the text that are no padding */
} golden_hunyuanvideo_case;

static inline void golden_hunyuanvideo_inputs(golden_hunyuanvideo_case *c) {
    const diti_hunyuanvideo_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t plane = d->frames * d->height * d->width;
    float *mask = golden_case_rows(&c->base, "in.encoder_attention_mask", 1, d->text_tokens);
    float *time = golden_case_rows(&c->base, "in.timestep", 1, 1);
    float *guidance = golden_case_rows(&c->base, "in.guidance", 1, 1);
    golden_mask_lengths(c->base.m.g, mask, 1, d->text_tokens, &c->length);
    c->base.timestep = time[0];
    d->guidance = guidance[0] / 1000;
    d->text_lengths = &c->length;
    free(mask);
    free(time);
    free(guidance);
    d->latent = golden_give(&c->base.m, DITI_F32, config->channels, plane,
                            golden_case_rows(&c->base, "in.hidden_states", config->channels, plane));
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->text,
                          golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, config->text));
    d->pooled = golden_give(&c->base.m, DITI_F32, 1, config->pooled,
                            golden_case_rows(&c->base, "in.pooled_projections", 1, config->pooled));
    d->row = golden_give_u32(&c->base.m, 0);
}

/* Recorded rows of text and video in the order of dit.h's: padding, text, video. */
static inline float *golden_hunyuanvideo_recorded(golden_hunyuanvideo_case *c, const char *text, const char *video) {
    uint32_t texts = c->base.step.text_tokens, rows = c->base.step.token_range.rows, pad = texts - c->length;
    size_t width = c->model->config.width;
    float *out = (float *)malloc((texts + rows) * width * sizeof *out);
    float *part = golden_case_rows(&c->base, text, texts, (uint32_t)width);
    memcpy(out, part + c->length * width, pad * width * sizeof *out);
    memcpy(out + pad * width, part, c->length * width * sizeof *out);
    free(part);
    part = golden_case_rows(&c->base, video, rows, (uint32_t)width);
    memcpy(out + texts * width, part, rows * width * sizeof *out);
    free(part);
    return out;
}

/* The refined text's rows that are no padding, and the video's. */
static inline void golden_hunyuanvideo_embedded(golden_hunyuanvideo_case *c, diti_tensor x) {
    uint32_t texts = c->base.step.text_tokens, rows = c->base.step.token_range.rows, width = c->model->config.width;
    diti_graph *graph = &c->base.m.graph;
    char label[96], name[96];
    diti_format(label, sizeof label, "%s [%u]", golden_case_name(&c->base, "mid.context_embedder", name), c->base.item);
    golden_expect(&c->base.m, label, diti_tensor_view(graph, x, texts - c->length, c->length, 0, width),
                  golden_case_rows(&c->base, "mid.context_embedder", texts, width), GOLDEN_BLOCK);
    golden_case_expect(&c->base, "mid.x_embedder", diti_tensor_view(graph, x, texts, rows, 0, width), GOLDEN_BLOCK);
}

static inline void golden_hunyuanvideo_parts(golden_hunyuanvideo_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    uint32_t i, rows = d->text_tokens + d->token_range.rows, width = c->model->config.width;
    char names[2][64], label[96];
    diti_tensor x = diti_transformer_embed(model, graph, d);
    golden_hunyuanvideo_embedded(c, x);
    diti_format(names[0], sizeof names[0], "mid.context_embedder");
    diti_format(names[1], sizeof names[1], "mid.x_embedder");
    for (i = 0; i < c->model->config.doubles + c->model->config.singles; i++) {
        uint32_t own = i < c->model->config.doubles ? i : i - c->model->config.doubles;
        const char *kind = own == i ? "" : "single_";
        x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, rows, width,
                                                golden_hunyuanvideo_recorded(c, names[0], names[1])));
        diti_transformer_block(model, graph, d, i, x);
        diti_format(names[0], sizeof names[0], "mid.%stransformer_blocks.%u.1", kind, own);
        diti_format(names[1], sizeof names[1], "mid.%stransformer_blocks.%u.0", kind, own);
        diti_format(label, sizeof label, "case%u.%sblock %u [%u]", c->base.index, kind, own, c->base.item);
        golden_expect(&c->base.m, label, x, golden_hunyuanvideo_recorded(c, names[0], names[1]), GOLDEN_BLOCK);
    }
}

static inline bool golden_run_hunyuanvideo_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                                uint32_t index) {
    golden_hunyuanvideo_case c;
    uint32_t item, items = 1;
    for (item = 0; item < items; item++) {
        diti_step_desc *d = &c.base.step;
        diti_hunyuanvideo_state *state, kept;
        memset(&c, 0, sizeof c);
        c.model = diti_hunyuanvideo_of(model);
        c.base.index = index;
        c.base.item = item;
        if (!golden_case_clip(&c.base, folder, "in.hidden_states", "in.encoder_hidden_states", 2, &items)) return false;
        golden_graph_begin(&c.base.m, g, folder);
        golden_hunyuanvideo_inputs(&c);
        diti_transformer_prepare(model, &c.base.m.graph, d);
        diti_graph_segment(&c.base.m.graph, "step", true);
        diti_transformer_begin(model, &c.base.m.graph, d);
        state = diti_hunyuanvideo_state_of(d);
        kept = *state;
        state->modulation.kept = false; /* what the reference recorded modulates the blocks */
        state->modulation.step_active =
            diti_silu(&c.base.m.graph, golden_case_recorded(&c.base, "mid.time_text_embed.0", 1, c.model->config.width),
                      "recorded");
        golden_hunyuanvideo_parts(&c);
        *state = kept;
        golden_case_expect(&c.base, "out", diti_transformer_step(model, &c.base.m.graph, d), GOLDEN_MODEL);
        golden_case_run(&c.base, model);
    }
    return true;
}

static inline void golden_run_hunyuanvideo(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    golden_run_cases(g, folder, folder->config, weights, golden_run_hunyuanvideo_case);
    golden_run_original(g, folder, folder->config, weights, golden_run_hunyuanvideo_case);
    diti_checkpoint_close(weights);
}
#endif
