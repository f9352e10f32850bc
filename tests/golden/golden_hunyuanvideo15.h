/* HunyuanVideo 1.5: the texts and every block on recorded inputs, whole evaluations by names of either code base, the
   autoencoder, prompts, and the pipeline, whose language model is that of a fixture beside the folder. */
#ifndef GOLDEN_HUNYUANVIDEO15_H
#define GOLDEN_HUNYUANVIDEO15_H
#include "golden_calls.h"
#include "golden_clips.h"
#include "golden_originals.h"
#include "golden_text.h"
#include "golden_video.h"

static inline bool golden_is_hunyuanvideo15(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.mid.context_embedder_2");
}

typedef struct golden_hv15 {
    golden_case base;
    uint32_t lengths[2]; /* rows of the text and of the glyphs that are no padding */
    uint32_t glyphs;     /* recorded rows */
    uint32_t seen;       /* rows of the picture that is moved; 0: there is none */
} golden_hv15;

static inline uint32_t golden_hv15_length(golden_hv15 *c, const char *mask, uint32_t rows) {
    float *values = golden_case_rows(&c->base, mask, 1, rows);
    uint32_t length = 0, i;
    for (i = 0; i < rows; i++) length += values[i] != 0;
    free(values);
    return length;
}

static inline void golden_hv15_inputs(golden_hv15 *c, diti_transformer *model) {
    const diti_hunyuanvideo15_config *config = &diti_hunyuanvideo15_of(model)->config;
    diti_step_desc *d = &c->base.step;
    uint32_t plane = d->frames * d->height * d->width, channels = config->channels;
    float *values = golden_case_rows(&c->base, "in.timestep", 1, 1);
    c->base.timestep = values[0];
    free(values);
    c->lengths[0] = golden_hv15_length(c, "in.encoder_attention_mask", d->text_tokens);
    c->lengths[1] = golden_hv15_length(c, "in.encoder_attention_mask_2", c->glyphs);
    d->text_lengths = &c->lengths[0];
    d->text2_lengths = &c->lengths[1];
    d->text2_tokens = c->lengths[1];
    model->traits.text2_tokens = c->glyphs;
    model->traits.condition_channels = c->seen ? channels + 1 : 0;
    values = golden_case_rows(&c->base, "in.hidden_states", 2 * channels + 1, plane);
    if (c->seen) {
        float *condition = (float *)malloc((size_t)(channels + 1) * plane * sizeof *condition);
        memcpy(condition, values + (size_t)channels * plane, (size_t)(channels + 1) * plane * sizeof *condition);
        d->condition = golden_give(&c->base.m, DITI_F32, channels + 1, plane, condition);
        d->seen = golden_give(&c->base.m, DITI_F32, c->seen, config->picture,
                              golden_case_rows(&c->base, "in.image_embeds", c->seen, config->picture));
    }
    d->latent = golden_give(&c->base.m, DITI_F32, channels, plane, values);
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->text,
                          golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, config->text));
    d->text2 = golden_give(&c->base.m, DITI_F32, c->glyphs, config->glyphs,
                           golden_case_rows(&c->base, "in.encoder_hidden_states_2", c->glyphs, config->glyphs));
    d->row = golden_give_u32(&c->base.m, 0);
}

#define GOLDEN_HV15_SEEN 5u /* recorded rows of a picture */

/* Rows of x that count: the picture, glyphs, then text, then video, as they are recorded, but for padding. */
static inline void golden_hv15_expect(golden_hv15 *c, diti_tensor x, const char *text, const char *video) {
    uint32_t texts = c->base.step.text_tokens + c->lengths[1] + c->seen, kept = c->lengths[0] + c->lengths[1] + c->seen,
             rows = c->base.step.token_range.rows, width = diti_tensor_columns(&c->base.m.graph, x),
             all = c->base.step.text_tokens + c->glyphs;
    float *reference = golden_case_rows(&c->base, text, all + GOLDEN_HV15_SEEN, width);
    golden_expect(&c->base.m, text, diti_tensor_view(&c->base.m.graph, x, texts - kept, kept, 0, width), reference,
                  GOLDEN_BLOCK);
    golden_case_expect(&c->base, video, diti_tensor_view(&c->base.m.graph, x, texts, rows, 0, width), GOLDEN_BLOCK);
}

static inline void golden_hv15_parts(golden_hv15 *c, const diti_transformer *model) {
    const diti_hunyuanvideo15 *own = diti_hunyuanvideo15_of(model);
    diti_step_desc *d = &c->base.step;
    diti_graph *graph = &c->base.m.graph;
    uint32_t i, width = own->config.width, texts = d->text_tokens + c->lengths[1] + c->seen;
    char text[64], video[64];
    diti_tensor x;
    diti_transformer_begin(model, graph, d);
    x = diti_transformer_embed(model, graph, d);
    golden_case_expect(&c->base, "mid.x_embedder", diti_tensor_view(graph, x, texts, d->token_range.rows, 0, width),
                       GOLDEN_BLOCK);
    for (i = 0; i < own->config.blocks; i++) {
        x = diti_transformer_block(model, graph, d, i, x);
        diti_format(text, sizeof text, "mid.transformer_blocks.%u.1", i);
        diti_format(video, sizeof video, "mid.transformer_blocks.%u.0", i);
        golden_hv15_expect(c, x, text, video);
    }
}

static inline bool golden_run_hv15_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                        uint32_t index) {
    const diti_stored_tensor *glyphs;
    golden_hv15 c;
    uint32_t items;
    char name[96];
    memset(&c, 0, sizeof c);
    c.base.index = index;
    c.base.m.folder = folder;
    glyphs = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.encoder_hidden_states_2", name));
    if (!glyphs) return false;
    c.seen = index > 1 ? GOLDEN_HV15_SEEN : 0;
    c.glyphs = (uint32_t)glyphs->shape[1];
    if (!golden_case_clip(&c.base, folder, "in.hidden_states", "in.encoder_hidden_states", 2, &items)) return false;
    golden_graph_begin(&c.base.m, g, folder);
    golden_hv15_inputs(&c, (diti_transformer *)(uintptr_t)model);
    diti_transformer_prepare(model, &c.base.m.graph, &c.base.step);
    diti_graph_segment(&c.base.m.graph, "step", true);
    if (!diti_graph_failed(&c.base.m.graph)) golden_hv15_parts(&c, model);
    golden_case_expect(&c.base, "out", diti_transformer_step(model, &c.base.m.graph, &c.base.step), GOLDEN_MODEL);
    golden_case_run(&c.base, model);
    return true;
}

/* --- the autoencoder --- */

static const char *const golden_hv15_level[][2] = {
    {"resnets.", "block."}, {"upsamplers.0.", "upsample."}, {"downsamplers.0.", "downsample."}};
static const char *const golden_hv15_middle[][2] = {{"resnets.0.", "block_1."},
                                                    {"resnets.1.", "block_2."},
                                                    {"attentions.0.to_", "attn_1."},
                                                    {"attentions.0.", "attn_1."}};
static const char *const golden_hv15_ends[][2] = {{"conv_in", "conv_in"}};
static const golden_table golden_hv15_vae_names[] = {
    GOLDEN_PLAIN_TABLE("decoder.up_blocks.", "decoder.up.", golden_hv15_level),
    GOLDEN_PLAIN_TABLE("encoder.down_blocks.", "encoder.down.", golden_hv15_level),
    GOLDEN_PLAIN_TABLE("decoder.mid_block.", "decoder.mid.", golden_hv15_middle),
    GOLDEN_PLAIN_TABLE("encoder.mid_block.", "encoder.mid.", golden_hv15_middle),
    GOLDEN_PLAIN_TABLE("", "", golden_hv15_ends)};

static inline void golden_run_hv15_vae(golden *g, const golden_folder *folder, const diti_json *config,
                                       const diti_checkpoint *weights) {
    diti_vae *vae = NULL;
    dit_error err = DITI_ZERO;
    if (golden_require(g,
                       weights && golden_open_device(g) &&
                           diti_vae_load(golden_shared.device, &g->env, config, weights, "", NULL, &vae, &err) ==
                               DIT_OK,
                       "the autoencoder loads %s", err.message))
        golden_require(g,
                       golden_run_video_case(g, folder, vae, "dec0", false, 0, 0) &&
                           golden_run_video_case(g, folder, vae, "dec1", false, 0, 0) &&
                           golden_run_video_case(g, folder, vae, "tiled", false, 4, 0) &&
                           golden_run_video_case(g, folder, vae, "enc0", true, 0, 0),
                       "clips are decoded and encoded");
    diti_vae_destroy(vae);
}

/* By diffusers' names, and by those of Tencent's file, which ComfyUI's has, too. */
static inline void golden_run_hv15_vaes(golden *g, const golden_folder *folder) {
    static const golden_original original = {"",   "",   golden_hv15_vae_names, DITI_COUNT(golden_hv15_vae_names),
                                             NULL, false};
    diti_json *config = golden_open_json(&g->env, folder->path, "vae/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, "vae/diffusion_pytorch_model.safetensors"),
                    *open = NULL;
    dit_error err = DITI_ZERO;
    golden_run_hv15_vae(g, folder, config, weights);
    if (weights) {
        bytes file = golden_original_file(g, weights, &original);
        dit_source source = memory_source(&file);
        if (golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "original names open %s",
                           err.message))
            golden_run_hv15_vae(g, folder, NULL, open);
        diti_checkpoint_close(open);
        bytes_free(&file);
    }
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
}

/* --- the pipeline --- */

static const char *const golden_hv15_beside[][2] = {{"text_encoder/", "tests/fixtures/pipe_qwenimage"},
                                                    {"tokenizer/", "tests/fixtures/pipe_qwenimage"}};

/* A prompt's text and glyphs against recorded rows. */
static inline void golden_hv15_prompt(golden_pipe *p, const char *name, const char *prompt) {
    static const char *const parts[2] = {"prompt_embeds", "prompt_embeds_2"};
    dit_error err = DITI_ZERO;
    diti_conditioning out;
    size_t size = 0;
    uint32_t i;
    char tensor[64];
    void *blob;
    dit_encode_prompt(p->context, p->model, prompt, NULL, &size, &err);
    blob = malloc(size);
    if (golden_require(p->g,
                       dit_encode_prompt(p->context, p->model, prompt, blob, &size, &err) == DIT_OK &&
                           diti_conditioning_from_blob(&p->g->env, "golden", blob, size, &out, &err) == DIT_OK,
                       "%s is encoded %s", name, err.message)) {
        for (i = 0; i < 2; i++) {
            const diti_embedding *text = &out.texts[i];
            const diti_stored_tensor *stored;
            uint64_t count;
            float *wanted;
            diti_format(tensor, sizeof tensor, "%s.%s", name, parts[i]);
            stored = diti_checkpoint_find(p->folder->golden, tensor);
            if (!golden_require(p->g, stored && stored->shape[1] == text->length, "%s has %u rows, and %u were made",
                                tensor, stored ? (unsigned)stored->shape[1] : 0, text->length) ||
                !text->length)
                continue;
            wanted = golden_floats(p->folder->golden, tensor, &count);
            golden_compare(p->g, tensor, text->rows, wanted, count, golden_tolerance(GOLDEN_MODEL));
            free(wanted);
        }
        diti_conditioning_free(&p->g->env, &out);
    }
    free(blob);
}

/* SigLIP reads the recorded picture. */
static inline void golden_hv15_see(golden *g, const golden_folder *folder, const diti_clip_vision *vision) {
    dit_error err = DITI_ZERO;
    dit_image picture = DITI_ZERO;
    diti_tensor patches;
    golden_graph m;
    uint64_t count;
    golden_graph_begin(&m, g, folder);
    diti_graph_segment(&m.graph, "picture", false);
    patches = diti_clip_vision_input(vision, &m.graph);
    golden_expect(&m, "i2v.image_embeds", diti_clip_vision_encode(vision, &m.graph, patches),
                  golden_floats(folder->golden, "i2v.image_embeds", &count), GOLDEN_MODEL);
    if (golden_require(g,
                       golden_picture(folder, "i2v.image0_u8", &picture) && golden_graph_create(&m, &err) == DIT_OK &&
                           diti_clip_vision_write(vision, m.plan, patches, &picture, &err) == DIT_OK,
                       "the picture is seen %s", err.message))
        golden_graph_run(&m);
    golden_graph_end(&m);
    free((void *)(uintptr_t)picture.rgba);
}

static inline void golden_hv15_vision(golden *g, const golden_folder *folder) {
    diti_json *config = golden_open_json(&g->env, folder->path, "image_encoder/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, "image_encoder/model.safetensors");
    diti_clip_vision *vision = NULL;
    dit_error err = DITI_ZERO;
    if (golden_require(g,
                       weights && golden_open_device(g) &&
                           diti_clip_vision_load(golden_shared.device, &g->env, config, weights, "", NULL, &vision,
                                                 &err) == DIT_OK,
                       "the image encoder loads %s", err.message))
        golden_hv15_see(g, folder, vision);
    diti_clip_vision_destroy(vision);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
}

static inline void golden_hv15_clip(golden_pipe *p, const char *name, const diti_json *call) {
    uint32_t steps = (uint32_t)diti_json_number(call, "num_inference_steps", 1);
    dit_job_desc desc = DITI_ZERO;
    dit_tensor noise = DITI_ZERO;
    dit_error err = DITI_ZERO;
    const diti_stored_tensor *stored;
    dit_job *job = NULL;
    uint64_t count;
    char tensor[64];
    float *values;
    diti_format(tensor, sizeof tensor, "%s.in.latents", name);
    stored = diti_checkpoint_find(p->folder->golden, tensor);
    values = golden_floats(p->folder->golden, tensor, &count);
    golden_pipe_desc(p, call, &desc, NULL);
    desc.frame_count = (uint32_t)diti_json_number(call, "num_frames", 1);
    noise.name = "noise";
    noise.type = DIT_TYPE_F32;
    noise.rank = 5;
    memcpy(noise.shape, stored->shape, sizeof noise.shape);
    noise.data = values;
    desc.float_frames = true;
    desc.inputs = &noise;
    desc.input_count = 1;
    if (golden_require(
            p->g, dit_job_create(p->context, &desc, &job, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK,
            "%s is made %s", name, err.message)) {
        diti_format(tensor, sizeof tensor, "%s.step%u.latents", name, (unsigned)steps - 1);
        golden_clips_latents(p, job, tensor);
        diti_format(tensor, sizeof tensor, "%s.out.frames01", name);
        if (diti_checkpoint_find(p->folder->golden, tensor))
            golden_clips_frames(p, golden_clips_read(p, job), desc.frame_count, (size_t)desc.width * desc.height,
                                GOLDEN_FRAMES_01, tensor);
    }
    dit_job_destroy(job);
    free(values);
}

static inline void golden_hv15_call(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    golden_beside source = DITI_ZERO;
    golden_pipe p = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    dit_image picture = DITI_ZERO;
    bool moves = diti_equal(name, "i2v");
    if (moves && g->split) source.index = "{\"_class_name\":\"HunyuanVideo15ImageToVideoPipeline\"}";
    if (moves && !g->split) source.config = "{\"task_type\":\"i2v\",\"rope_axes_dim\":[4,6,6]}";
    source.parts = golden_hv15_beside;
    source.count = DITI_COUNT(golden_hv15_beside);
    source.path = folder->path;
    desc.source.open = golden_beside_open;
    desc.source.user = &source;
    if (golden_pipe_load(&p, g, folder, &desc)) {
        golden_require(g, p.model->info.default_guidance == 6, "guider_config.json tells the guidance");
        if (moves && golden_require(g, golden_picture(folder, "i2v.image0_u8", &picture), "there is a picture"))
            p.init = &picture;
        if (!g->split && !moves) {
            golden_hv15_prompt(&p, "glyphs", diti_json_string(call, "prompt", ""));
            golden_hv15_prompt(&p, "plain", diti_json_string(call, "negative_prompt", ""));
            golden_hv15_prompt(&p, "empty", "");
        }
        golden_hv15_clip(&p, name, call);
    }
    golden_pipe_close(&p);
    free((void *)(uintptr_t)picture.rgba);
}

/* The splits that take prompts of unequal length: all in full sweeps, and one that gets a picture's tokens. */
static inline void golden_hv15_split(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    static const char *const splits[][2] = {{"cfg2", "0,0"}, {"tensor2", "0,0"}, {"layers2", "0,0"}};
    golden on = *g;
    size_t i, count = test_sweeps() ? DITI_COUNT(splits) : diti_equal(name, "i2v");
    for (i = 0; i < count; i++) {
        on.split = splits[i][0];
        on.device = splits[i][1];
        golden_hv15_call(&on, folder, name, call);
    }
    g->compared = on.compared;
}

static inline void golden_run_hunyuanvideo15(golden *g, const golden_folder *folder) {
    diti_json *config = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, config, weights, golden_run_hv15_case);
    golden_run_original(g, folder, config, weights, golden_run_hv15_case);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
    golden_run_hv15_vaes(g, folder);
    golden_hv15_vision(g, folder);
    golden_each_call(g, folder, golden_hv15_call);
    if (!g->split) golden_each_call(g, folder, golden_hv15_split);
}
#endif
