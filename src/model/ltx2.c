/* LTX-2 and LTX-2.3: docs/models.md 3.27. Originals:
   https://github.com/Lightricks/LTX-2/tree/main/packages/ltx-core/src/ltx_core/model/transformer
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_ltx2.py

   A clip and its sound are denoised together, each in a stream of tokens with a width of its own: D for pictures, E for
   sound. Both attend themselves, their own text, and each other. The sound's tokens have as many channels as the
   pictures', so that they stand in the latent as frames behind the clip's (diti_sound_frames); between blocks they
   stand in rows behind those of all pictures, in the first E columns. */
#include "model/model.h"
#include "text/text.h"

#define DITI_LTX2_MAX_BLOCKS 128u
enum { DITI_LTX2_VIDEO, DITI_LTX2_AUDIO, DITI_LTX2_STREAMS };

/* ---- configuration ---- */

typedef struct diti_ltx2_config {
    uint32_t blocks, channels;
    uint32_t heads[DITI_LTX2_STREAMS], head_dim[DITI_LTX2_STREAMS], width[DITI_LTX2_STREAMS]; /* width: D, E */
    uint32_t text[DITI_LTX2_STREAMS]; /* columns of each stream's text, the picture's first */
    uint32_t out[DITI_LTX2_STREAMS], in_audio;
    bool captions;          /* texts are projected first (LTX-2) */
    bool modulated;         /* attention to the text is modulated, too (LTX-2.3) */
    bool gated;             /* heads have gates (LTX-2.3) */
    float eps, gate_factor; /* gate_factor: timesteps of the gates between streams are so many times as large */
} diti_ltx2_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_ltx2_keys[][2] = {
    {"proj_in", "patchify_proj"},
    {"audio_proj_in", "audio_patchify_proj"},
    {"time_embed", "adaln_single"},
    {"audio_time_embed", "audio_adaln_single"},
    {"prompt_adaln", "prompt_adaln_single"},
    {"audio_prompt_adaln", "audio_prompt_adaln_single"},
    {"av_cross_attn_video_scale_shift", "av_ca_video_scale_shift_adaln_single"},
    {"av_cross_attn_audio_scale_shift", "av_ca_audio_scale_shift_adaln_single"},
    {"av_cross_attn_video_a2v_gate", "av_ca_a2v_gate_adaln_single"},
    {"av_cross_attn_audio_v2a_gate", "av_ca_v2a_gate_adaln_single"},
    {"caption_projection", "caption_projection"},
    {"audio_caption_projection", "audio_caption_projection"},
    {"scale_shift_table", "scale_shift_table"},
    {"audio_scale_shift_table", "audio_scale_shift_table"},
    {"proj_out", "proj_out"},
    {"audio_proj_out", "audio_proj_out"},
    {"keyframes_abs_pos_embedding", "keyframes_abs_pos_embedding"},
};
#define DITI_LTX2_ATTENTION_KEYS(name)                                                                                 \
    {name ".norm_q", name ".q_norm"}, {name ".norm_k", name ".k_norm"}, { name, name }
static const char *const diti_ltx2_block_keys[][2] = {
    DITI_LTX2_ATTENTION_KEYS("attn1"),
    DITI_LTX2_ATTENTION_KEYS("attn2"),
    DITI_LTX2_ATTENTION_KEYS("audio_attn1"),
    DITI_LTX2_ATTENTION_KEYS("audio_attn2"),
    DITI_LTX2_ATTENTION_KEYS("audio_to_video_attn"),
    DITI_LTX2_ATTENTION_KEYS("video_to_audio_attn"),
    {"ff", "ff"},
    {"audio_ff", "audio_ff"},
    {"scale_shift_table", "scale_shift_table"},
    {"audio_scale_shift_table", "audio_scale_shift_table"},
    {"prompt_scale_shift_table", "prompt_scale_shift_table"},
    {"audio_prompt_scale_shift_table", "audio_prompt_scale_shift_table"},
    {"video_a2v_cross_attn_scale_shift_table", "scale_shift_table_a2v_ca_video"},
    {"audio_a2v_cross_attn_scale_shift_table", "scale_shift_table_a2v_ca_audio"},
};
static const diti_key_table diti_ltx2_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "transformer_blocks.", diti_ltx2_block_keys, DITI_COUNT(diti_ltx2_block_keys)},
    {NULL, NULL, diti_ltx2_keys, DITI_COUNT(diti_ltx2_keys)},
};

/* ---- weights; arrays have the picture's first, d: D or E ---- */

typedef struct diti_ltx2_block {
    diti_gated_attention own[DITI_LTX2_STREAMS], text[DITI_LTX2_STREAMS];
    diti_gated_attention other[DITI_LTX2_STREAMS]; /* queries are the stream's, keys the other one's */
    diti_layer ff_in[DITI_LTX2_STREAMS], ff_out[DITI_LTX2_STREAMS];
    diti_weight table[DITI_LTX2_STREAMS];        /* F32 [6 or 9, d] */
    diti_weight prompt_table[DITI_LTX2_STREAMS]; /* F32 [2, d]: shift and scale of the text */
    diti_weight other_table[DITI_LTX2_STREAMS];  /* F32 [5, d] */
    diti_sublayer feed[DITI_LTX2_STREAMS];
} diti_ltx2_block;

/* linear(silu(embedder(timestep))) */
typedef struct diti_ltx2_time {
    diti_embedder embedder;
    diti_layer linear; /* [rows * d, d] */
    uint32_t rows;
} diti_ltx2_time;

typedef struct diti_ltx2_stream {
    diti_layer in, out;                 /* [d, C], [C, d] */
    diti_layer caption_in, caption_out; /* [d, caption], [d, d] */
    diti_ltx2_time time, prompt, scales, gate;
    diti_weight final_table; /* F32 [2, d] */
} diti_ltx2_stream;

typedef struct diti_ltx2 {
    diti_transformer base;
    diti_ltx2_config config;
    diti_ltx2_stream streams[DITI_LTX2_STREAMS];
    diti_ltx2_block *blocks;
} diti_ltx2;

#define diti_ltx2_of(transformer) ((const diti_ltx2 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_ltx2_check(const diti_loader *loader, const diti_ltx2_config *config, dit_error *err) {
    uint32_t i;
    bool good = config->blocks && config->blocks <= DITI_LTX2_MAX_BLOCKS && config->channels <= 1024 &&
                config->channels % 8 == 0 && config->in_audio == config->channels &&
                config->out[0] == config->channels && config->out[1] == config->channels &&
                config->width[DITI_LTX2_AUDIO] <= config->width[DITI_LTX2_VIDEO];
    for (i = 0; i < DITI_LTX2_STREAMS; i++)
        good = good && config->text[i] && config->head_dim[i] && config->width[i] % 4 == 0 &&
               config->head_dim[i] % 4 == 0 && config->head_dim[i] <= 256 &&
               (uint64_t)config->heads[i] * config->head_dim[i] == config->width[i];
    good = good && config->heads[0] == config->heads[1];
    if (good) return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "an LTX-2 transformer of %u blocks, %u heads of %u and %u in widths of %u and %u, %u and %u "
        "channels is out of range",
        (unsigned)config->blocks, (unsigned)config->heads[0], (unsigned)config->head_dim[0],
        (unsigned)config->head_dim[1], (unsigned)config->width[0], (unsigned)config->width[1],
        (unsigned)config->channels, (unsigned)config->in_audio);
}

/* Only what published models have is known; newer: LTX-2.5, by a tensor of its own. */
static void diti_ltx2_refuse(diti_settings *settings, bool newer) {
    if (!diti_equal(diti_setting_text(settings, "rope_type", "split"), "split"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "rope_type", "only split is known");
    if (!diti_equal(diti_setting_text(settings, "qk_norm", "rms_norm_across_heads"), "rms_norm_across_heads"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "qk_norm", "only rms_norm_across_heads is known");
    if (diti_setting_size(settings, "patch_size", 1, 16) != 1 ||
        diti_setting_size(settings, "patch_size_t", 1, 16) != 1)
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "patch_size", "only 1, of one frame, is known");
    if (newer || !diti_setting_bool(settings, "ff_bias", true) ||
        !diti_setting_bool(settings, "use_prompt_adaln_single", true) ||
        diti_setting_bool(settings, "use_keyframes_abs_pos_embedding", false))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "ff_bias",
                             "LTX-2.5 is not known, only LTX-2 and LTX-2.3 are");
}

static dit_result diti_ltx2_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                 dit_error *err) {
    diti_ltx2_config *config = &((diti_ltx2 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    const diti_shape_key keys[] = {
        {offsetof(diti_ltx2_config, width), "proj_in.weight", 0},
        {offsetof(diti_ltx2_config, channels), "proj_in.weight", 1},
        {offsetof(diti_ltx2_config, width) + sizeof(uint32_t), "audio_proj_in.weight", 0},
        {offsetof(diti_ltx2_config, in_audio), "audio_proj_in.weight", 1},
        {offsetof(diti_ltx2_config, out), "proj_out.weight", 0},
        {offsetof(diti_ltx2_config, out) + sizeof(uint32_t), "audio_proj_out.weight", 0},
        {offsetof(diti_ltx2_config, text), "transformer_blocks.0.attn2.to_k.weight", 1},
        {offsetof(diti_ltx2_config, text) + sizeof(uint32_t), "transformer_blocks.0.audio_attn2.to_k.weight", 1}};
    uint32_t heads;
    double scale;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    diti_ltx2_refuse(&settings, diti_loader_find(loader, "keyframes_abs_pos_embedding") != NULL);
    config->captions = diti_loader_find(loader, "caption_projection.linear_1.weight") != NULL;
    config->modulated = diti_loader_find(loader, "transformer_blocks.0.prompt_scale_shift_table") != NULL;
    config->gated = diti_loader_find(loader, "transformer_blocks.0.attn1.to_gate_logits.weight") != NULL;
    if (config->captions) {
        config->text[0] = diti_loader_dimension(loader, "caption_projection.linear_1.weight", 1);
        config->text[1] = diti_loader_dimension(loader, "audio_caption_projection.linear_1.weight", 1);
    }
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".scale_shift_table");
    heads = diti_loader_dimension(loader, "transformer_blocks.0.attn1.to_gate_logits.weight", 0);
    if (!heads) heads = 32; /* as published */
    config->heads[0] = diti_setting_size(&settings, "num_attention_heads", heads, 1024);
    config->heads[1] = diti_setting_size(&settings, "audio_num_attention_heads", heads, 1024);
    config->head_dim[0] = diti_setting_size(&settings, "attention_head_dim", config->width[0] / config->heads[0], 1024);
    config->head_dim[1] =
        diti_setting_size(&settings, "audio_attention_head_dim", config->width[1] / config->heads[1], 1024);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    scale = diti_setting_number(&settings, "timestep_scale_multiplier", 1000, 1e-3, 1e6);
    config->gate_factor =
        (float)(diti_setting_number(&settings, "cross_attn_timestep_scale_multiplier", scale, 0, 1e6) / scale);
    DITI_TRY(settings.result);
    return diti_ltx2_check(loader, config, err);
}

/* ---- loading ---- */

/* columns: of what keys and values are made of. */
static void diti_ltx2_load_attention(diti_loader *loader, const diti_ltx2_config *config, diti_gated_attention *out,
                                     uint32_t index, const char *name, uint32_t width, uint32_t columns,
                                     uint32_t head_dim) {
    diti_loader_scope(loader, "transformer_blocks.%u.%s.", (unsigned)index, name);
    diti_gated_attention_load(loader, out, config->heads[0], head_dim, width, columns);
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
}

static void diti_ltx2_load_block(diti_loader *loader, const diti_ltx2_config *config, diti_ltx2_block *block,
                                 uint32_t index) {
    static const char *const
        own[] = {"attn1", "audio_attn1"},
        *const text[] = {"attn2", "audio_attn2"}, *const other[] = {"audio_to_video_attn", "video_to_audio_attn"},
        *const tables[] = {"scale_shift_table", "audio_scale_shift_table"},
        *const prompts[] = {"prompt_scale_shift_table", "audio_prompt_scale_shift_table"},
        *const others[] = {"video_a2v_cross_attn_scale_shift_table", "audio_a2v_cross_attn_scale_shift_table"},
        *const ff_in[] = {"ff.net.0.proj", "audio_ff.net.0.proj"}, *const ff_out[] = {"ff.net.2", "audio_ff.net.2"};
    uint32_t i;
    for (i = 0; i < DITI_LTX2_STREAMS; i++) {
        uint32_t width = config->width[i], columns = config->captions ? width : config->text[i];
        diti_ltx2_load_attention(loader, config, &block->own[i], index, own[i], width, width, config->head_dim[i]);
        diti_ltx2_load_attention(loader, config, &block->text[i], index, text[i], width, columns, config->head_dim[i]);
        diti_ltx2_load_attention(loader, config, &block->other[i], index, other[i], width, config->width[1 - i],
                                 config->head_dim[DITI_LTX2_AUDIO]);
        diti_load_vector(loader, &block->table[i], config->modulated ? 9 : 6, width, tables[i]);
        if (config->modulated) diti_load_vector(loader, &block->prompt_table[i], 2, width, prompts[i]);
        diti_load_vector(loader, &block->other_table[i], 5, width, others[i]);
        diti_load_layer(loader, &block->ff_in[i], 4 * width, width, 1, ff_in[i]);
        diti_load_layer(loader, &block->ff_out[i], width, 4 * width, 1, ff_out[i]);
        diti_make_feed(&block->feed[i], DITI_STREAMS_ONE, &block->ff_in[i], &block->ff_out[i]);
        block->feed[i].rms = true;
        block->feed[i].eps = config->eps;
    }
    diti_loader_scope_end(loader);
}

static void diti_ltx2_load_time(diti_loader *loader, diti_ltx2_time *out, uint32_t rows, uint32_t width,
                                const char *name) {
    char full[96];
    out->rows = rows;
    diti_format(full, sizeof full, "%s.emb.timestep_embedder", name);
    diti_load_embedder(loader, &out->embedder, width, width, 256, full);
    diti_format(full, sizeof full, "%s.linear", name);
    diti_load_layer(loader, &out->linear, rows * width, width, 1, full);
}

static void diti_ltx2_load_stream(diti_loader *loader, const diti_ltx2_config *config, diti_ltx2_stream *out,
                                  uint32_t stream) {
    const char *audio = stream == DITI_LTX2_AUDIO ? "audio_" : "";
    uint32_t width = config->width[stream];
    char name[96];
    diti_format(name, sizeof name, "%sproj_in", audio);
    diti_load_layer(loader, &out->in, width, config->channels, 1, name);
    diti_format(name, sizeof name, "%stime_embed", audio);
    diti_ltx2_load_time(loader, &out->time, config->modulated ? 9 : 6, width, name);
    diti_format(name, sizeof name, "%sprompt_adaln", audio);
    if (config->modulated) diti_ltx2_load_time(loader, &out->prompt, 2, width, name);
    diti_ltx2_load_time(loader, &out->scales, 4, width,
                        *audio ? "av_cross_attn_audio_scale_shift" : "av_cross_attn_video_scale_shift");
    diti_ltx2_load_time(loader, &out->gate, 1, width,
                        *audio ? "av_cross_attn_audio_v2a_gate" : "av_cross_attn_video_a2v_gate");
    if (config->captions) {
        diti_format(name, sizeof name, "%scaption_projection.linear_1", audio);
        diti_load_layer(loader, &out->caption_in, width, config->text[stream], 1, name);
        diti_format(name, sizeof name, "%scaption_projection.linear_2", audio);
        diti_load_layer(loader, &out->caption_out, width, width, 1, name);
    }
    diti_format(name, sizeof name, "%sscale_shift_table", audio);
    diti_load_vector(loader, &out->final_table, 2, width, name);
    diti_format(name, sizeof name, "%sproj_out", audio);
    diti_load_layer(loader, &out->out, config->channels, width, 1, name);
}

/* As the repository of the diffusers pipeline has it. */
static const char diti_ltx2_scheduler[] =
    "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"use_dynamic_shifting\":true,\"base_shift\":0.95,"
    "\"max_shift\":2.05,\"base_image_seq_len\":1024,\"max_image_seq_len\":4096,\"shift_terminal\":0.1}";

/* Distilled models, whose files are like the others', have these steps, without guidance. */
static const float diti_ltx2_sigmas[] = {1.0f, 0.99375f, 0.9875f, 0.98125f, 0.975f, 0.909375f, 0.725f, 0.421875f};

static const char diti_ltx2_negative[] =
    "blurry, out of focus, overexposed, underexposed, low contrast, washed out colors, excessive noise, grainy "
    "texture, poor lighting, flickering, motion blur, distorted proportions, unnatural skin tones, deformed "
    "facial features, asymmetrical face, missing facial features, extra limbs, disfigured hands, wrong hand "
    "count, artifacts around text, inconsistent perspective, camera shake, incorrect depth of field, background "
    "too sharp, background clutter, distracting reflections, harsh shadows, inconsistent lighting direction, "
    "color banding, cartoonish rendering, 3D CGI look, unrealistic materials, uncanny valley effect, incorrect "
    "ethnicity, wrong gender, exaggerated expressions, wrong gaze direction, mismatched lip sync, silent "
    "or muted audio, distorted voice, robotic voice, echo, background noise, off-sync audio, incorrect dialogue, "
    "added dialogue, repetitive speech, jittery movement, awkward pauses, incorrect timing, unnatural transitions, "
    "inconsistent framing, tilted camera, flat lighting, inconsistent tone, cinematic oversaturation, stylized "
    "filters, or AI artifacts.";

/* How Gemma 3 is asked (docs/models.md 5.5): all its states are the text. */
static const diti_chat diti_ltx2_chats[] = {
    {"LTX2Pipeline LTX2ImageToVideoPipeline LTX2ConditionPipeline",
     "",
     "",
     NULL,
     "",
     "",
     1024,
     true,
     DITI_CHAT_STRIPS,
     {DITI_TAPS_ALL, 0, {0}, false},
     0},
    DITI_CHATS_END,
};

static void diti_ltx2_set_traits(diti_ltx2 *model) {
    const diti_ltx2_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->gated ? "2.3" : "2";
    traits->latents.channels = config->channels;
    traits->latents.scale = 1;
    diti_traits_sizes(traits, config->blocks, config->width[DITI_LTX2_VIDEO], config->heads[DITI_LTX2_VIDEO],
                      config->channels, 1);
    traits->default_size = 16;
    traits->default_columns = 24;
    traits->default_frames = 16;
    traits->default_fps = 24;
    traits->sound_rate = 25; /* 16,000 samples a second, 160 of a line of the spectrogram, 4 lines of a token */
    traits->sound_channels = 8;
    traits->text_tokens = 1024;
    traits->text_columns = config->text[0] + config->text[1];
    traits->encoders[0] = DITI_ENCODER_GEMMA3;
    traits->encoders[1] = DITI_ENCODER_CONNECTORS;
    traits->chat = &diti_ltx2_chats[0];
    traits->default_steps = 30;
    traits->negative = diti_ltx2_negative;
    traits->default_guidance = 3;
    traits->sound_guidance = 7;
    traits->perturbed = config->gated ? 29 : 30;
    if (traits->perturbed > config->blocks) traits->perturbed = config->blocks;
    traits->scheduler = diti_ltx2_scheduler;
    traits->distilled_sigmas = diti_ltx2_sigmas;
    traits->distilled_steps = DITI_COUNT(diti_ltx2_sigmas);
    traits->uniform_sigmas = true;
    traits->planar = true;
    traits->attends_padding = traits->keeps_case = true;
    traits->frame_steps = traits->fixes_first = traits->means = true;
    traits->whole_rows = true;
}

static void diti_ltx2_load(diti_component *component, diti_loader *loader) {
    diti_ltx2 *model = (diti_ltx2 *)(void *)component;
    const diti_ltx2_config *config = &model->config;
    uint32_t i;
    model->blocks = (diti_ltx2_block *)diti_component_array(component, loader, config->blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    for (i = 0; i < DITI_LTX2_STREAMS; i++) diti_ltx2_load_stream(loader, config, &model->streams[i], i);
    for (i = 0; i < config->blocks; i++) diti_ltx2_load_block(loader, config, &model->blocks[i], i);
    diti_ltx2_set_traits(model);
}

/* ---- the streams of a clip ---- */

typedef struct diti_ltx2_state { /* prepare leaves these for the steps; arrays have the picture's first */
    diti_tensor sinusoids;       /* input F32 [steps, 256], and of timestep 0 where frames are given */
    diti_tensor gate_sinusoids;  /* input F32 [steps, 256] */
    uint32_t tokens[DITI_LTX2_STREAMS];
    diti_tensor cosines[DITI_LTX2_STREAMS], sines[DITI_LTX2_STREAMS]; /* inputs F32 [tokens, d / 2] */
    diti_tensor time_cosines, time_sines;      /* inputs F32 [picture's tokens, E / 2]: of places in time alone */
    diti_tensor modulation[DITI_LTX2_STREAMS]; /* F32 [rows of sinusoids, (6 or 9) d], then two for the last norm */
    diti_tensor prompt[DITI_LTX2_STREAMS];     /* F32 [steps, 2d] */
    diti_tensor other[DITI_LTX2_STREAMS];      /* F32 [steps, 5d] */
    diti_tensor text[DITI_LTX2_STREAMS];       /* F32 [prompts * text tokens, columns] */
    diti_tensor rows[DITI_LTX2_STREAMS], prompt_row[DITI_LTX2_STREAMS], other_row[DITI_LTX2_STREAMS]; /* the step's */
} diti_ltx2_state;

#define diti_ltx2_state_of(step) ((diti_ltx2_state *)(step)->family)

static uint32_t diti_ltx2_chunks(const diti_ltx2 *model) { return model->config.modulated ? 9 : 6; }

/* A stream's rows of the residual stream x [items * image, D]. */
static diti_tensor diti_ltx2_rows(const diti_pass *p, diti_tensor x, uint32_t stream) {
    const diti_ltx2_state *state = diti_ltx2_state_of(p->step);
    uint32_t first = stream == DITI_LTX2_AUDIO ? p->items * state->tokens[DITI_LTX2_VIDEO] : 0;
    return diti_tensor_view(p->graph, x, first, p->items * state->tokens[stream], 0,
                            diti_ltx2_of(p->model)->config.width[stream]);
}

/* ---- once per clip: everything that does not depend on the latent ---- */

/* Rows of a timestep's vectors to columns [first, first + rows) of out; the embedding itself. */
static diti_tensor diti_ltx2_time_run(const diti_pass *p, const diti_ltx2_time *time, diti_tensor sinusoids,
                                      uint32_t width, uint32_t first, diti_tensor out) {
    uint32_t steps = diti_tensor_rows(p->graph, out);
    diti_tensor y = diti_embed(p->graph, &time->embedder, sinusoids, 0);
    diti_layer_f32(p->graph, diti_silu(p->graph, y, "modulation_silu"), &time->linear, DITI_ACTIVATION_NONE,
                   diti_tensor_view(p->graph, out, 0, steps, first * width, time->rows * width), "modulation");
    return y;
}

static void diti_ltx2_prepare_stream(diti_pass *p, diti_ltx2_state *state, uint32_t stream) {
    const diti_ltx2 *model = diti_ltx2_of(p->model);
    const diti_ltx2_stream *w = &model->streams[stream];
    diti_graph *graph = p->graph;
    uint32_t width = model->config.width[stream], rows = diti_tensor_rows(graph, state->sinusoids), i,
             chunks = diti_ltx2_chunks(model), steps = p->step->steps, tokens = state->tokens[stream],
             columns = model->config.text[stream];
    diti_tensor final_rows = diti_tensor_weight(graph, &w->final_table, 0), time,
                sinusoids = diti_tensor_view(graph, state->sinusoids, 0, steps, 0, 256);
    state->cosines[stream] = diti_tensor_input(graph, DITI_F32, tokens, width / 2, "cosines");
    state->sines[stream] = diti_tensor_input(graph, DITI_F32, tokens, width / 2, "sines");
    state->modulation[stream] = diti_tensor_new(graph, DITI_F32, rows, (chunks + 2) * width, "modulation");
    time = diti_ltx2_time_run(p, &w->time, state->sinusoids, width, 0, state->modulation[stream]);
    for (i = 0; i < 2; i++)
        diti_add_rows(graph, time, diti_tensor_view(graph, final_rows, i, 1, 0, width),
                      diti_tensor_view(graph, state->modulation[stream], 0, rows, (chunks + i) * width, width),
                      "final_modulation");
    state->other[stream] = diti_tensor_new(graph, DITI_F32, steps, 5 * width, "modulation");
    diti_ltx2_time_run(p, &w->scales, sinusoids, width, 0, state->other[stream]);
    diti_ltx2_time_run(p, &w->gate, state->gate_sinusoids, width, 4, state->other[stream]);
    if (model->config.modulated) {
        state->prompt[stream] = diti_tensor_new(graph, DITI_F32, steps, 2 * width, "modulation");
        diti_ltx2_time_run(p, &w->prompt, sinusoids, width, 0, state->prompt[stream]);
    }
    state->text[stream] =
        diti_tensor_view(graph, p->step->text, 0, p->step->text_batch * p->step->text_tokens,
                         stream == DITI_LTX2_AUDIO ? model->config.text[DITI_LTX2_VIDEO] : 0, columns);
    if (!model->config.captions) return;
    state->text[stream] =
        diti_layer_run(graph, state->text[stream], &w->caption_in, DITI_ACTIVATION_GELU_TANH, "caption_in");
    state->text[stream] =
        diti_layer_f32(graph, state->text[stream], &w->caption_out, DITI_ACTIVATION_NONE, 0, "caption_out");
}

static void diti_ltx2_prepare(diti_pass *p) {
    const diti_ltx2 *model = diti_ltx2_of(p->model);
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t plane = grid.rows * grid.columns, all = grid.frames * plane, i, sound;
    diti_ltx2_state *state = diti_ltx2_state_of(step);
    sound = diti_sound_frames(&model->base.traits, step->clip_frames, step->fps, plane);
    if (sound >= grid.frames) {
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "LTX-2: %u frames of a latent, of which %u are the sound's, have none for pictures",
                        (unsigned)grid.frames, (unsigned)sound);
        return;
    }
    state->tokens[DITI_LTX2_VIDEO] = all - sound * plane;
    state->tokens[DITI_LTX2_AUDIO] = diti_sound_tokens(&model->base.traits, step->clip_frames, step->fps);
    state->sinusoids =
        diti_tensor_input(p->graph, DITI_F32, step->steps + (step->frame_steps ? 1 : 0), 256, "timesteps");
    state->gate_sinusoids = diti_tensor_input(p->graph, DITI_F32, step->steps, 256, "timesteps of gates");
    state->time_cosines = diti_tensor_input(p->graph, DITI_F32, state->tokens[DITI_LTX2_VIDEO],
                                            model->config.width[DITI_LTX2_AUDIO] / 2, "cosines of time");
    state->time_sines = diti_tensor_input(p->graph, DITI_F32, state->tokens[DITI_LTX2_VIDEO],
                                          model->config.width[DITI_LTX2_AUDIO] / 2, "sines of time");
    for (i = 0; i < DITI_LTX2_STREAMS; i++) diti_ltx2_prepare_stream(p, state, i);
}

/* ---- inputs ---- */

/* The middle of token i of so many lines or frames, the first of which is one long, as a part of 20 seconds. */
static float diti_ltx2_middle(uint32_t i, int32_t step, float unit, float parts) {
    int32_t first = (int32_t)i * step + 1 - step, end = first + step;
    float from = (float)(first > 0 ? first : 0) * unit / parts, to = (float)end * unit / parts;
    return (from + to) / 2.0f / 20.0f;
}

/* kind: a stream, or DITI_LTX2_STREAMS: the picture's tokens by their places in time. */
static void diti_ltx2_table(const diti_ltx2 *model, const diti_step_desc *step, uint32_t kind, uint32_t tokens,
                            float *cosines, float *sines) {
    uint32_t width = model->config.width[kind == DITI_LTX2_VIDEO ? DITI_LTX2_VIDEO : DITI_LTX2_AUDIO], token;
    uint32_t plane = step->height * step->width;
    float fps = step->fps > 0 ? step->fps : model->base.traits.default_fps;
    for (token = 0; token < tokens; token++) {
        float places[3];
        if (kind == DITI_LTX2_AUDIO) {
            places[0] = diti_ltx2_middle(token, 4, 160.0f, 16000.0f);
        } else {
            places[0] = diti_ltx2_middle(token / plane, 8, 1.0f, fps);
            places[1] = ((float)(token % plane / step->width) * 32.0f + 16.0f) / 2048.0f;
            places[2] = ((float)(token % step->width) * 32.0f + 16.0f) / 2048.0f;
        }
        diti_part_rotation(width, kind == DITI_LTX2_VIDEO ? 3 : 1, places, cosines + (size_t)token * (width / 2),
                           sines + (size_t)token * (width / 2));
    }
}

static dit_result diti_ltx2_write_table(const diti_ltx2 *model, diti_plan *plan, const diti_step_desc *step,
                                        uint32_t kind, diti_tensor cosines, diti_tensor sines, dit_error *err) {
    const diti_env *env = &model->base.component.env;
    size_t count = (size_t)plan->tensors[cosines].rows * plan->tensors[cosines].columns;
    float *table = (float *)diti_alloc_array(env, 2 * count, sizeof *table);
    dit_result result;
    if (!table) return diti_fail_memory(err, "the rotation of positions");
    diti_ltx2_table(model, step, kind, plan->tensors[cosines].rows, table, table + count);
    result = diti_plan_write(plan, cosines, table, count * sizeof *table, err);
    if (result >= 0) result = diti_plan_write(plan, sines, table + count, count * sizeof *table, err);
    diti_free(env, table);
    return result;
}

static dit_result diti_ltx2_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                         const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_ltx2 *model = diti_ltx2_of(transformer);
    const diti_env *env = &model->base.component.env;
    const diti_ltx2_state *state = (const diti_ltx2_state *)step->family;
    float *gates;
    dit_result result;
    uint32_t i;
    for (i = 0; i < DITI_LTX2_STREAMS; i++)
        DITI_TRY(diti_ltx2_write_table(model, plan, step, i, state->cosines[i], state->sines[i], err));
    DITI_TRY(diti_ltx2_write_table(model, plan, step, DITI_LTX2_STREAMS, state->time_cosines, state->time_sines, err));
    gates = (float *)diti_alloc_array(env, step->steps, sizeof *gates);
    if (!gates) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) gates[i] = timesteps[i] * model->config.gate_factor;
    result = diti_write_sinusoids(plan, state->gate_sinusoids, gates, step->steps, 0, err);
    diti_free(env, gates);
    DITI_TRY(result);
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

/* Rows of the picture's modulation: one of all, or one of each frame of each item, without the sound's frames. */
static diti_tensor diti_ltx2_frame_rows(const diti_pass *p, const diti_ltx2_state *state) {
    diti_tensor table = state->modulation[DITI_LTX2_VIDEO], words = diti_pass_frame_steps(p), all, rows;
    uint32_t frames = state->tokens[DITI_LTX2_VIDEO] / p->positions, columns = diti_tensor_columns(p->graph, table), i;
    all = diti_pass_frame_rows(p, table, words, "select_modulation");
    if (!words) return all;
    rows = diti_tensor_new(p->graph, DITI_F32, p->items * frames, columns, "select_modulation");
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++)
        diti_copy(p->graph, diti_tensor_view(p->graph, all, i * (p->image / p->positions), frames, 0, columns),
                  diti_tensor_view(p->graph, rows, i * frames, frames, 0, columns), "select_modulation");
    return rows;
}

static void diti_ltx2_begin(diti_pass *p) {
    diti_ltx2_state *state = diti_ltx2_state_of(p->step);
    uint32_t i;
    if (p->step->same_timestep) return;
    state->rows[DITI_LTX2_VIDEO] = diti_ltx2_frame_rows(p, state);
    state->rows[DITI_LTX2_AUDIO] = diti_select_modulation(p, state->modulation[DITI_LTX2_AUDIO]);
    for (i = 0; i < DITI_LTX2_STREAMS; i++) {
        state->other_row[i] = diti_select_modulation(p, state->other[i]);
        if (state->prompt[i]) state->prompt_row[i] = diti_select_modulation(p, state->prompt[i]);
    }
}

static diti_tensor diti_ltx2_embed(diti_pass *p) {
    const diti_ltx2 *model = diti_ltx2_of(p->model);
    const diti_ltx2_state *state = diti_ltx2_state_of(p->step);
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t i, stream, channels = model->config.channels, video = p->items * state->tokens[DITI_LTX2_VIDEO];
    diti_tensor x = diti_tensor_new(graph, DITI_F32, p->items * p->image, p->width, "residual"), patches;
    diti_patches at = DITI_ZERO;
    at.batch = step->batch;
    at.channels = channels;
    at.frames = step->frames;
    at.height = step->height;
    at.width = step->width;
    at.patch = 1;
    patches = diti_patchify(graph, step->latent, &at, step->input_scale);
    if (diti_graph_failed(graph)) return 0;
    if (p->items * p->image > video)
        diti_fill_zeros(graph, diti_tensor_view(graph, x, video, p->items * p->image - video, 0, p->width));
    for (i = 0; i < p->items; i++) {
        for (stream = 0; stream < DITI_LTX2_STREAMS && !diti_graph_failed(graph); stream++) {
            uint32_t tokens = state->tokens[stream],
                     from = i % step->batch * p->image + (stream ? state->tokens[DITI_LTX2_VIDEO] : 0);
            diti_tensor to = diti_ltx2_rows(p, x, stream);
            diti_layer_f32(graph, diti_tensor_view(graph, patches, from, tokens, 0, channels),
                           &model->streams[stream].in, DITI_ACTIVATION_NONE,
                           diti_tensor_view(graph, to, i * tokens, tokens, 0, model->config.width[stream]),
                           "patch_embed");
        }
    }
    return x;
}

/* RMS(x) * (1 + scale) + shift, of columns of rows F32 [groups, any]; the rows of x are equal shares of the groups. */
static diti_tensor diti_ltx2_norm(const diti_pass *p, diti_tensor x, diti_tensor rows, uint32_t shift, uint32_t scale) {
    uint32_t width = diti_tensor_columns(p->graph, x), groups = rows ? diti_tensor_rows(p->graph, rows) : 1;
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.eps = diti_ltx2_of(p->model)->config.eps;
    if (rows) desc.shift = diti_tensor_view(p->graph, rows, 0, groups, shift * width, width);
    if (rows) desc.scale = diti_tensor_view(p->graph, rows, 0, groups, scale * width, width);
    desc.rows_per_group = groups > 1 ? diti_tensor_rows(p->graph, x) / groups : 0;
    desc.name = "norm";
    return diti_norm(p->graph, x, &desc);
}

/* x += gate * attention of h to what `from` has, an equal share for each of batch; tables of queries and of keys, NULL:
   nothing rotates; gate F32 [groups, d], 0: 1. */
static void diti_ltx2_attend(const diti_pass *p, diti_tensor x, diti_tensor h, const diti_gated_attention *w,
                             diti_tensor from, uint32_t batch, const diti_tensor *q_table, const diti_tensor *k_table,
                             diti_tensor gate) {
    diti_gated_attend_desc desc = DITI_ZERO;
    uint32_t i;
    desc.values = from == h && p->index < 64 && p->step->perturbed >> p->index & 1u;
    desc.x = x;
    desc.h = h;
    desc.from = from;
    desc.batch = batch;
    for (i = 0; i < 2 && q_table; i++) {
        desc.q_table[i] = q_table[i];
        desc.k_table[i] = k_table[i];
    }
    desc.gate = gate;
    desc.int8 = p->model->int8_attention;
    diti_gated_attend(p->graph, w, &desc);
}

static diti_tensor diti_ltx2_chunk(const diti_pass *p, diti_tensor rows, uint32_t chunk, uint32_t width) {
    return diti_tensor_view(p->graph, rows, 0, diti_tensor_rows(p->graph, rows), chunk * width, width);
}

/* A block's modulation: its table F32 [chunks, d] plus columns of rows. */
static diti_tensor diti_ltx2_modulation(const diti_pass *p, const diti_weight *table, diti_tensor rows) {
    uint32_t columns = table->rows * table->columns;
    diti_tensor own = diti_tensor_reshape(p->graph, diti_tensor_weight(p->graph, table, 0), 1, columns);
    return diti_add_rows(p->graph, diti_tensor_view(p->graph, rows, 0, diti_tensor_rows(p->graph, rows), 0, columns),
                         own, 0, "block_modulation");
}

/* The stream's text as a block reads it: with shift and scale of the step's, where there are some. */
static diti_tensor diti_ltx2_text(const diti_pass *p, const diti_ltx2_block *w, uint32_t stream) {
    const diti_ltx2_state *state = diti_ltx2_state_of(p->step);
    diti_tensor text = diti_pass_last(p, state->text[stream]), rows;
    uint32_t width = diti_tensor_columns(p->graph, text);
    diti_condition_desc desc = DITI_ZERO;
    diti_elementwise_desc one = DITI_ZERO;
    if (!state->prompt[stream]) return text;
    rows = diti_ltx2_modulation(p, &w->prompt_table[stream], state->prompt_row[stream]);
    one.offset = 1;
    one.out_f32 = true;
    one.name = "text_scale";
    desc.clip.frames = diti_tensor_rows(p->graph, text);
    desc.clip.height = desc.clip.width = desc.coarse.frames = desc.coarse.height = desc.coarse.width = 1;
    desc.shift = diti_ltx2_chunk(p, rows, 0, width);
    desc.scale = diti_elementwise(p->graph, diti_ltx2_chunk(p, rows, 1, width), &one);
    desc.name = "modulate_text";
    return diti_condition_frames(p->graph, text, &desc);
}

/* LTX2VideoTransformerBlock.forward, docs/models.md 3.27; x is changed in place. */
static diti_tensor diti_ltx2_run_block(diti_pass *p, diti_tensor x) {
    const diti_ltx2 *model = diti_ltx2_of(p->model);
    const diti_ltx2_block *w = &model->blocks[p->index];
    const diti_ltx2_state *state = diti_ltx2_state_of(p->step);
    diti_tensor rows[DITI_LTX2_STREAMS], other[DITI_LTX2_STREAMS], own[DITI_LTX2_STREAMS], normed[DITI_LTX2_STREAMS],
        read[DITI_LTX2_STREAMS];
    const diti_tensor time[DITI_LTX2_STREAMS][2] = {{state->time_cosines, state->time_sines},
                                                    {state->cosines[1], state->sines[1]}};
    uint32_t i;
    for (i = 0; i < DITI_LTX2_STREAMS && !diti_graph_failed(p->graph); i++) {
        const diti_tensor table[2] = {state->cosines[i], state->sines[i]};
        uint32_t width = model->config.width[i];
        diti_tensor h;
        own[i] = diti_ltx2_rows(p, x, i);
        rows[i] = diti_ltx2_modulation(p, &w->table[i], state->rows[i]);
        other[i] = diti_ltx2_modulation(p, &w->other_table[i], state->other_row[i]);
        h = diti_ltx2_norm(p, own[i], rows[i], DITI_SHIFT_MSA, DITI_SCALE_MSA);
        diti_ltx2_attend(p, own[i], h, &w->own[i], h, p->items, table, table,
                         diti_ltx2_chunk(p, rows[i], DITI_GATE_MSA, width));
        h = diti_ltx2_norm(p, own[i], model->config.modulated ? rows[i] : 0, DITI_SHIFT_MSA2, DITI_SCALE_MSA2);
        diti_ltx2_attend(p, own[i], h, &w->text[i], diti_ltx2_text(p, w, i), p->prompts, NULL, NULL,
                         model->config.modulated ? diti_ltx2_chunk(p, rows[i], DITI_GATE_MSA2, width) : 0);
    }
    if (diti_graph_failed(p->graph)) return x;
    for (i = 0; i < DITI_LTX2_STREAMS && !p->step->isolated;
         i++) { /* scale and shift in sound's attention, in the picture's, gate */
        normed[i] = diti_ltx2_norm(p, own[i], other[i], i == DITI_LTX2_VIDEO ? 1 : 3, i == DITI_LTX2_VIDEO ? 0 : 2);
        read[i] = diti_ltx2_norm(p, own[i], other[i], i == DITI_LTX2_VIDEO ? 3 : 1, i == DITI_LTX2_VIDEO ? 2 : 0);
    }
    for (i = 0; i < DITI_LTX2_STREAMS && !p->step->isolated; i++)
        diti_ltx2_attend(p, own[i], normed[i], &w->other[i], read[1 - i], p->items, time[i], time[1 - i],
                         diti_ltx2_chunk(p, other[i], 4, model->config.width[i]));
    for (i = 0; i < DITI_LTX2_STREAMS; i++) {
        diti_pass here = *p;
        here.text = 0;
        here.image = state->tokens[i];
        here.width = model->config.width[i];
        here.modulation.rows = rows[i];
        diti_sublayer_feed(&here, own[i], DITI_SHIFT_MLP, DITI_SCALE_MLP, DITI_GATE_MLP, &w->feed[i]);
    }
    return x;
}

static diti_tensor diti_ltx2_final(diti_pass *p, diti_tensor x) {
    const diti_ltx2 *model = diti_ltx2_of(p->model);
    const diti_ltx2_state *state = diti_ltx2_state_of(p->step);
    uint32_t stream, i, channels = model->config.channels, chunks = diti_ltx2_chunks(model), first = 0;
    diti_tensor out = diti_tensor_new(p->graph, DITI_F32, p->items * p->image, channels, "proj_out");
    if (diti_graph_failed(p->graph)) return 0;
    diti_fill_zeros(p->graph, out);
    for (stream = 0; stream < DITI_LTX2_STREAMS; first += state->tokens[stream++]) {
        uint32_t width = model->config.width[stream], tokens = state->tokens[stream],
                 groups = diti_tensor_rows(p->graph, state->rows[stream]);
        diti_tensor own = diti_ltx2_rows(p, x, stream), h;
        diti_norm_desc desc = DITI_ZERO;
        desc.eps = 1e-6f;
        desc.shift = diti_ltx2_chunk(p, state->rows[stream], chunks, width);
        desc.scale = diti_ltx2_chunk(p, state->rows[stream], chunks + 1, width);
        desc.rows_per_group = groups > 1 ? p->items * tokens / groups : 0;
        desc.name = "norm_out";
        h = diti_norm(p->graph, own, &desc);
        for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++)
            diti_layer_f32(p->graph, diti_tensor_view(p->graph, h, i * tokens, tokens, 0, width),
                           &model->streams[stream].out, DITI_ACTIVATION_NONE,
                           diti_tensor_view(p->graph, out, i * p->image + first, tokens, 0, channels), "proj_out");
    }
    return out;
}

/* ---- where parts of such models are ---- */

#define DITI_LTX2_REPOSITORY "Lightricks/LTX-2"
static const diti_place diti_ltx2_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_LTX2_REPOSITORY ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_LTX2_REPOSITORY ": text_encoder/"},
    {"", DIT_ROLE_TEXT_2, DITI_LTX2_REPOSITORY ": connectors/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_LTX2_REPOSITORY ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_LTX2_REPOSITORY ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_LTX2_REPOSITORY ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_ltx2_family(void) {
    static const diti_family family = {
        "ltx2",
        "LTX-2",
        {"LTX2VideoTransformer3DModel",
         NULL,
         {"audio_proj_in.weight", "time_embed.linear.weight", "transformer_blocks.0.audio_to_video_attn.to_q.weight",
          NULL},
         {"audio_patchify_proj.weight", "adaln_single.linear.weight",
          "transformer_blocks.0.audio_to_video_attn.to_q.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_ltx2), diti_ltx2_read, diti_ltx2_load, NULL},
        diti_ltx2_names,
        {128, 1, 0, false},
        NULL,
        diti_ltx2_chats,
        diti_ltx2_places,
        sizeof(diti_ltx2_state),
        diti_ltx2_prepare,
        diti_ltx2_begin,
        diti_ltx2_embed,
        diti_ltx2_run_block,
        diti_ltx2_final,
        diti_ltx2_write_inputs};
    return &family;
}
