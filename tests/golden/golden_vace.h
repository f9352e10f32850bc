/* Wan VACE's pipeline through the public API: clips after text alone, after a clip in part and as a whole with pictures
   that are referred to, and by two experts. All but the transformers is that of pipe_wan22_i2v_a14b. */
#ifndef GOLDEN_VACE_H
#define GOLDEN_VACE_H
#include "golden_renamed.h"
#include "golden_wan_pipe.h"

static inline bool golden_is_vace(const golden_folder *folder) {
    return folder->golden && folder->readme && diti_starts_with(folder->readme, "WanVACEPipeline");
}

#define GOLDEN_VACE_PARTS 6u
/* A transformer in memory under the original's names. */
static inline dit_result golden_vace_file(const char *member, dit_source *out, void *user) {
    static const char config[] = "{\"_class_name\": \"VaceWanModel\", \"model_type\": \"vace\", \"num_heads\": 2, "
                                 "\"num_layers\": 3, \"ffn_dim\": 80, \"in_dim\": 16, \"out_dim\": 16, \"dim\": 48, "
                                 "\"vace_in_dim\": 96, \"vace_layers\": [0, 2], \"eps\": 1e-06}";
    if (diti_equal(member, "diffusion_pytorch_model.safetensors")) {
        *out = memory_source((const bytes *)user);
        return DIT_OK;
    }
    if (!diti_equal(member, "config.json")) return DIT_ERROR_IO;
    out->data = config;
    out->size = strlen(config);
    return DIT_OK;
}

/* original: of the transformer; NULL: the folder's. budget: of weights; 0: none. */
static inline bool golden_vace_open(golden_pipe *p, golden *g, const golden_folder *folder, bytes *original,
                                    bool experts, uint64_t budget) {
    static const char *const folders[GOLDEN_VACE_PARTS] = {"transformer",
                                                           "../pipe_wan22_i2v_a14b/vae",
                                                           "../pipe_wan22_i2v_a14b/text_encoder",
                                                           "../pipe_wan22_i2v_a14b/tokenizer",
                                                           "../pipe_wan22_i2v_a14b/scheduler",
                                                           "transformer_2"};
    static const dit_role roles[GOLDEN_VACE_PARTS] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE,       DIT_ROLE_TEXT_1,
                                                      DIT_ROLE_TOKENIZER_1, DIT_ROLE_SCHEDULER, DIT_ROLE_TRANSFORMER_2};
    char overrides[256], paths[GOLDEN_VACE_PARTS][1024];
    dit_component components[GOLDEN_VACE_PARTS];
    dit_context_desc context = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t i;
    memset(p, 0, sizeof *p);
    memset(components, 0, sizeof components);
    p->g = g;
    p->folder = folder;
    for (i = 0; i < GOLDEN_VACE_PARTS; i++) {
        golden_join(paths[i], sizeof paths[i], folder->path, folders[i]);
        components[i].source.path = paths[i];
        components[i].role = roles[i];
    }
    if (original) {
        components[0].source.path = NULL;
        components[0].source.open = golden_vace_file;
        components[0].source.user = original;
    }
    golden_overrides(g, overrides, sizeof overrides);
    context.overrides = overrides;
    context.devices = g->split && !g->device ? "0,1" : g->device;
    context.cache = golden_pipe_cache.bytes;
    context.cache_size = golden_pipe_cache.size;
    desc.weight_budget = budget;
    desc.components = components;
    desc.component_count = experts ? GOLDEN_VACE_PARTS : GOLDEN_VACE_PARTS - 1;
    if (!golden_require(g, dit_context_create(&context, &p->context, &err) == DIT_OK, "%s", err.message) ||
        !golden_require(g, dit_model_load(p->context, &desc, &p->model, &err) == DIT_OK, "%s", err.message))
        return false;
    p->model->texts[DITI_TEXT_FIRST].tokens = p->model->encoders[0].tokens = 32;
    return true;
}

/* Recorded bytes, colours or greys of `channels`, as pictures; freed with free of the first one's rgba, and *out. */
static inline uint32_t golden_vace_pictures(const golden_folder *folder, const char *name, uint32_t channels,
                                            dit_image **out) {
    const diti_stored_tensor *stored = diti_checkpoint_find(folder->golden, name);
    uint32_t rank = channels > 1 ? 3 : 2, frames = stored && stored->rank > rank ? (uint32_t)stored->shape[0] : 1, c;
    const uint64_t *size = stored ? stored->shape + (stored->rank - rank) : NULL;
    uint64_t values, i;
    uint8_t *rgba;
    float *from;
    *out = NULL;
    if (!stored) return 0;
    from = golden_floats(folder->golden, name, &values);
    rgba = (uint8_t *)malloc((size_t)values / channels * 4);
    for (i = 0; i < values / channels; i++) {
        for (c = 0; c < 3; c++) rgba[4 * i + c] = (uint8_t)from[channels * i + c % channels];
        rgba[4 * i + 3] = 255;
    }
    free(from);
    *out = (dit_image *)calloc(frames, sizeof **out);
    for (i = 0; i < frames; i++) {
        (*out)[i].height = (uint32_t)size[0];
        (*out)[i].width = (uint32_t)size[1];
        (*out)[i].rgba = rgba + i * size[0] * size[1] * 4;
    }
    return frames;
}

static inline void golden_vace_free(dit_image *images) {
    if (images) free((void *)(uintptr_t)images[0].rgba);
    free(images);
}

/* Latents and frames; of the first two devices or of one. */
static inline void golden_vace_case(golden_pipe *p, const diti_json *call) {
    const char *own = diti_json_string(call, "case", "");
    dit_job_desc desc = DITI_ZERO;
    dit_image *control, *mask, *pictures[2];
    dit_reference references[2] = {{NULL, 0}, {NULL, 0}};
    dit_job *job = NULL;
    char name[64];
    uint32_t i;
    golden_clips_desc(p, call, &desc);
    desc.guidance.low_scale = (float)diti_json_number(call, "guidance_scale_2", 0);
    desc.control_strength = (float)diti_json_number(call, "conditioning_scale", 0);
    diti_format(name, sizeof name, "%s.in.control", own);
    desc.control_count = golden_vace_pictures(p->folder, name, 3, &control);
    desc.control_image = control;
    diti_format(name, sizeof name, "%s.in.mask", own);
    desc.mask_count = golden_vace_pictures(p->folder, name, 1, &mask);
    desc.mask = mask;
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "%s.in.reference%u", own, (unsigned)i);
        desc.reference_count += golden_vace_pictures(p->folder, name, 3, &pictures[i]);
        references[i].frames = pictures[i];
    }
    desc.references = references;
    diti_format(name, sizeof name, "%s.in.latents", own);
    golden_draw_from(p->g, p->folder->golden, name, "");
    if (golden_clips_run(p, &desc, &job)) {
        diti_format(name, sizeof name, "%s.step%u.latents", own, (unsigned)desc.steps - 1);
        golden_clips_latents(p, job, name);
        diti_format(name, sizeof name, "%s.out.video01", own);
        if (diti_checkpoint_find(p->folder->golden, name))
            golden_clips_frames(p, golden_clips_read(p, job), desc.frame_count, (size_t)desc.width * desc.height,
                                GOLDEN_FRAMES_01, name);
    }
    dit_job_destroy(job);
    golden_vace_free(control);
    golden_vace_free(mask);
    for (i = 0; i < 2; i++) golden_vace_free(pictures[i]);
}

/* only: of that name alone; NULL: all of one expert, or all of two. */
static inline void golden_vace_cases(golden_pipe *p, const diti_json *calls, const char *only) {
    const diti_json *call;
    for (call = calls->first; call; call = call->next)
        if (only ? diti_equal(diti_json_string(call, "case", ""), only)
                 : !diti_json_get(call, "guidance_scale_2") == !p->model->low)
            golden_vace_case(p, call);
}

static inline void golden_run_vace(golden *g, const golden_folder *folder) {
    static const char *const pairs[][2] = {{".scale_shift_table", ".modulation"},
                                           {"scale_shift_table", "head.modulation"},
                                           {".proj_in", ".before_proj"},
                                           {".proj_out", ".after_proj"},
                                           {"proj_out", "head.head"},
                                           {"norm2", "norm3"},
                                           {"attn1.to_out.0", "self_attn.o"},
                                           {"attn1.to_", "self_attn."},
                                           {"attn1.", "self_attn."},
                                           {"attn2.to_out.0", "cross_attn.o"},
                                           {"attn2.to_", "cross_attn."},
                                           {"attn2.", "cross_attn."},
                                           {"ffn.net.0.proj", "ffn.0"},
                                           {"ffn.net.2", "ffn.2"},
                                           {"condition_embedder.time_embedder.linear_1", "time_embedding.0"},
                                           {"condition_embedder.time_embedder.linear_2", "time_embedding.2"},
                                           {"condition_embedder.time_proj", "time_projection.1"},
                                           {"condition_embedder.text_embedder.linear_1", "text_embedding.0"},
                                           {"condition_embedder.text_embedder.linear_2", "text_embedding.2"}};
    const golden_renamed to = {"model.diffusion_model.", pairs, DITI_COUNT(pairs), true};
    diti_json *calls = golden_clips_json(g, folder, "calls: ");
    diti_checkpoint *weights;
    golden_pipe p = DITI_ZERO;
    bytes file = {0};
    uint64_t all = 0;
    uint32_t i;
    for (i = 0; i < 3 && calls; i++) { /* the last one with weights of either expert that are read in its steps */
        if (golden_vace_open(&p, g, folder, NULL, i > 0, i > 1 ? all / 4 * 3 : 0)) {
            golden_vace_cases(&p, calls, NULL);
            all = p.model->info.weight_bytes;
        }
        golden_pipe_close(&p);
    }
    weights = golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    if (weights && calls) {
        file = golden_renamed_file(weights, &to);
        if (golden_vace_open(&p, g, folder, &file, false, 0)) golden_vace_cases(&p, calls, "follow");
        golden_pipe_close(&p);
    }
    diti_checkpoint_close(weights);
    bytes_free(&file);
    diti_json_free(&g->env, calls);
}
#endif
