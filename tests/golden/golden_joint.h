/* Transformers with joint attention, SD3 and FLUX: every part alone on the reference's recorded input, and whole
   evaluations. Items of a batch have timesteps of their own in the fixtures: each is run alone, and then together with
   the others in all ways in which items share or do not share a prompt, at its own timestep, where it is looked at
   alone. */
#ifndef GOLDEN_JOINT_H
#define GOLDEN_JOINT_H
#include "golden_model.h"

enum {
    GOLDEN_ALONE,
    GOLDEN_BATCH,  /* images with a prompt each */
    GOLDEN_SHARED, /* images with one prompt */
    GOLDEN_COPIES, /* branches; the last one also without those before it */
    GOLDEN_MODES
};

typedef struct golden_joint_case {
    golden_case base;
    uint32_t items, mode;
    diti_pass joint;
    double tolerance; /* the tolerance of parts; where conditioning is not recorded, parts take over its error */
} golden_joint_case;

/* All items' rows of a recorded tensor, or those of this one. */
static inline float *golden_joint_rows(golden_joint_case *c, const char *rest, bool all, uint32_t rows,
                                       uint32_t columns) {
    char name[96];
    golden_case_name(&c->base, rest, name);
    return golden_item(&c->base.m, name, all ? 0 : c->base.item, all ? c->items * rows : rows, columns);
}

/* latent: its recorded name; time: what a recorded timestep is multiplied with. */
static inline void golden_joint_inputs(golden_joint_case *c, const diti_model_traits *traits, const char *latent,
                                       float *timesteps, float time) {
    diti_step_desc *d = &c->base.step;
    bool prompts = c->mode == GOLDEN_BATCH || c->mode == GOLDEN_COPIES;
    bool latents = c->mode == GOLDEN_BATCH || c->mode == GOLDEN_SHARED;
    uint32_t i, count = c->mode == GOLDEN_ALONE ? 1 : c->items, pixels = d->height * d->width;
    float *recorded = golden_joint_rows(c, "in.timestep", count > 1, 1, 1);
    for (i = 0; i < count; i++) timesteps[i] = recorded[i] * time;
    free(recorded);
    c->base.timesteps = timesteps;
    d->steps = count;
    d->batch = latents ? count : 1;
    d->branches = c->mode == GOLDEN_COPIES ? count : 1;
    d->text_batch = prompts ? count : 1;
    d->first_branch = c->mode == GOLDEN_COPIES && c->base.item + 1 == count ? c->base.item : 0;
    d->latent = golden_give(&c->base.m, DITI_F32, d->batch * traits->latent_channels, pixels,
                            golden_joint_rows(c, latent, latents, traits->latent_channels, pixels));
    d->text =
        golden_give(&c->base.m, DITI_F32, d->text_batch * d->text_tokens, traits->text_columns,
                    golden_joint_rows(c, "in.encoder_hidden_states", prompts, d->text_tokens, traits->text_columns));
    d->pooled = golden_give(&c->base.m, DITI_F32, d->text_batch, traits->pooled_columns,
                            golden_joint_rows(c, "in.pooled_projections", prompts, 1, traits->pooled_columns));
    d->row = golden_give_u32(&c->base.m, count > 1 ? c->base.item : 0);
    if (traits->wants_guidance) {
        float *guidance = golden_case_rows(&c->base, "in.guidance", 1, 1);
        d->guidance = guidance[0];
        free(guidance);
    }
}

/* A recorded residual stream: text, then image; text NULL: it is not recorded, as behind SD3's last block. */
static inline diti_tensor golden_joint_recorded(golden_joint_case *c, const char *text, const char *image) {
    const diti_pass *joint = &c->joint;
    diti_graph *graph = &c->base.m.graph;
    diti_tensor x = diti_tensor_new(graph, DITI_F32, joint->text + joint->image, joint->width, "recorded");
    uint32_t i;
    for (i = 0; i < DITI_JOINT_STREAMS; i++) {
        diti_rows rows = diti_pass_rows(joint, i);
        const char *name = i == DITI_JOINT_TEXT ? text : image;
        diti_tensor part = diti_tensor_view(graph, x, rows.first, rows.count, 0, joint->width);
        if (name) diti_add_rows(graph, golden_case_recorded(&c->base, name, rows.count, joint->width), 0, part, "give");
    }
    return x;
}

/* silu of the recorded conditioning, which then modulates the blocks, as in models that keep no tables; 0: none is
   recorded. The reference rounds frequencies and angles of large timesteps in float32, up to 3e-5 of an evaluation. */
static inline diti_tensor golden_joint_active(golden_joint_case *c) {
    bool has = golden_case_has(&c->base, "mid.time_text_embed");
    c->tolerance = has ? GOLDEN_BLOCK : GOLDEN_MODEL;
    if (!has) return 0;
    return diti_silu(&c->base.m.graph, golden_case_recorded(&c->base, "mid.time_text_embed", 1, c->joint.width),
                     "recorded_conditioning");
}

/* Compares the rows of one stream with a recorded tensor, which may be missing. */
static inline void golden_joint_expect(golden_joint_case *c, const char *rest, diti_tensor x, uint32_t stream) {
    diti_rows rows = diti_pass_rows(&c->joint, stream);
    diti_tensor view = diti_tensor_view(&c->base.m.graph, x, rows.first, rows.count, 0, c->joint.width);
    if (golden_case_has(&c->base, rest)) golden_case_expect(&c->base, rest, view, c->tolerance);
}

/* Expects an item's image of an evaluation; reference: its planes, which the graph frees. */
static inline void golden_joint_whole(golden_joint_case *c, const diti_transformer *model, const char *rest,
                                      float *reference) {
    static const char *const modes[] = {"", ", in a batch", ", sharing a prompt", ", as a branch"};
    diti_step_desc *d = &c->base.step;
    uint32_t channels = model->traits.latent_channels, pixels = d->height * d->width;
    uint32_t place = c->mode == GOLDEN_ALONE ? 0 : c->base.item - d->first_branch;
    diti_tensor out = diti_transformer_step(model, &c->base.m.graph, d);
    char name[96], label[96];
    diti_format(label, sizeof label, "%s [%u]%s", golden_case_name(&c->base, rest, name), c->base.item, modes[c->mode]);
    golden_expect(&c->base.m, label, diti_tensor_view(&c->base.m.graph, out, place * channels, channels, 0, pixels),
                  reference, GOLDEN_MODEL);
}

/* Sizes of a case; false: there is no such case. */
static inline bool golden_joint_begin(golden_joint_case *c, const golden_folder *folder, const char *latent,
                                      uint32_t index, uint32_t item, uint32_t mode) {
    const diti_stored_tensor *image, *text;
    char name[96];
    memset(c, 0, sizeof *c);
    c->base.index = index;
    c->base.item = item;
    c->mode = mode;
    image = diti_checkpoint_find(folder->golden, golden_case_name(&c->base, latent, name));
    text = diti_checkpoint_find(folder->golden, golden_case_name(&c->base, "in.encoder_hidden_states", name));
    if (!image || !text || image->rank != 4 || text->rank != 3) return false;
    c->items = (uint32_t)image->shape[0];
    c->base.step.height = (uint32_t)image->shape[2];
    c->base.step.width = (uint32_t)image->shape[3];
    c->base.step.text_tokens = (uint32_t)text->shape[1];
    return true;
}
#endif
