/* cards: what fits which card, and how long it takes by the cost model: the tables of README.md and of the pages of
   families, made from headers of made-up files of published sizes (tests/support/real_shapes.h). No data and no device
   is needed. A new model is a row of models[] and two comments in its page:

       <!-- cards: NAME --> ... <!-- cards end -->

   build/cards write PAGE...   replaces what stands between them; build/cards check PAGE... fails where it differs. */
#include "library.h"
#include "real_shapes.h"
#include "real_vaes.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- cards ---- */

/* A card's memory less a tenth, which the desktop and the driver have. rate: 1e12 operations per second that a denoiser
   attains, for lack of measurements a share of the peak as cards of its kind attain it; bus: 1e9 bytes per second. */
typedef struct card {
    const char *name;
    double gigabytes, rate, bus;
} card;
static const card cards[] = {{"GTX 1650", 4, 2.4, 6},  {"RTX 2060", 6, 11, 10},     {"RTX 4060", 8, 17, 12},
                             {"RTX 3060", 12, 14, 20}, {"RTX 4060 Ti", 16, 25, 12}, {"RTX 4090", 24, 95, 24}};
enum { CARDS = sizeof cards / sizeof cards[0] };
static double usable(const card *c) { return c->gigabytes * (1u << 30) * 0.9; }

/* ---- models ---- */

static void qwen3(real_file *file, uint64_t width, uint64_t inner, uint32_t heads) {
    real_decoder_shape shape = {"model.", 151936, 0, 0, 36, 0, 8, 128, true, false, false};
    shape.width = width;
    shape.inner = inner;
    shape.heads = heads;
    real_decoder(file, &shape);
}
static void qwen3_06b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 151936, 1024, 3072, 28, 16, 8, 128, true, false, false};
    real_decoder(file, &shape);
}
static void gemma2_2b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 256000, 2304, 9216, 26, 8, 4, 256, false, false, true};
    real_decoder(file, &shape);
}
static void gemma3_12b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 262208, 3840, 15360, 48, 16, 8, 256, true, false, true};
    real_decoder(file, &shape);
}

/* LTX-2's connectors (docs/models.md 5.10). */
static void connector(real_file *file, const char *name, uint64_t width, uint32_t blocks, bool gated) {
    static const char *const layers[] = {"to_q", "to_k", "to_v", "to_out.0", "to_gate_logits"};
    char full[112];
    uint32_t i, k;
    diti_format(full, sizeof full, "%s_connector.learnable_registers", name);
    real_table(file, 128, width, full, full, 0);
    for (i = 0; i < blocks; i++) {
        for (k = 0; k < (gated ? 5u : 4u); k++) {
            diti_format(full, sizeof full, "%s_connector.transformer_blocks.%u.attn1.%s", name, i, layers[k]);
            real_layer(file, k == 4 ? 32 : width, width, full, full, 0);
        }
        for (k = 0; k < 2; k++) {
            diti_format(full, sizeof full, "%s_connector.transformer_blocks.%u.attn1.norm_%c", name, i, "qk"[k]);
            real_norm(file, width, false, full, full, 0);
        }
        for (k = 0; k < 2; k++) {
            diti_format(full, sizeof full, "%s_connector.transformer_blocks.%u.ff.net.%s", name, i, k ? "2" : "0.proj");
            real_layer(file, k ? width : 4 * width, k ? 4 * width : width, full, full, 0);
        }
    }
}
static void connectors2(real_file *file) {
    real_matrix(file, 3840, 49 * 3840, "text_proj_in", "text_proj_in", 0);
    connector(file, "video", 3840, 2, false);
    connector(file, "audio", 3840, 2, false);
}
static void connectors23(real_file *file) {
    real_layer(file, 4096, 49 * 3840, "video_text_proj_in", "video_text_proj_in", 0);
    real_layer(file, 2048, 49 * 3840, "audio_text_proj_in", "audio_text_proj_in", 0);
    connector(file, "video", 4096, 8, true);
    connector(file, "audio", 2048, 8, true);
}
/* MiniMax-H3's, cut behind layer 50. */
static void qwen3_vl_32b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 151936, 5120, 25600, 50, 64, 8, 128, true, false, false};
    real_decoder(file, &shape);
}
static void umt5_xxl(real_file *file) { real_t5(file, 256384, 4096, 10240, 24, 64); }
static void qwen3_17b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 151936, 2048, 6144, 28, 16, 8, 128, true, false, false};
    real_decoder(file, &shape);
}
static void qwen3_4b(real_file *file) { qwen3(file, 2560, 9728, 32); }
static void qwen3_8b(real_file *file) { qwen3(file, 4096, 12288, 32); }
static void qwen25_7b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 152064, 3584, 18944, 28, 28, 4, 128, false, true, false};
    real_decoder(file, &shape);
}

/* Qwen2.5-VL with the tower that sees pictures. */
static void qwen25_vl_7b(real_file *file) {
    static const struct {
        const char *name;
        uint32_t rows, columns;
    } layers[] = {{"attn.qkv", 3840, 1280},
                  {"attn.proj", 1280, 1280},
                  {"mlp.gate_proj", 3420, 1280},
                  {"mlp.up_proj", 3420, 1280},
                  {"mlp.down_proj", 1280, 3420}};
    static const uint64_t patch[5] = {1280, 3, 2, 14, 14};
    char name[112];
    uint32_t i, k;
    qwen25_7b(file);
    real_tensor_of(file, patch, 5, 0, 0.03, "visual.patch_embed.proj", "visual.patch_embed.proj", 0, ".weight");
    for (i = 0; i < 32; i++) {
        for (k = 0; k < sizeof layers / sizeof *layers; k++) {
            diti_format(name, sizeof name, "visual.blocks.%u.%s", i, layers[k].name);
            real_layer(file, layers[k].rows, layers[k].columns, name, name, 0);
        }
        for (k = 1; k < 3; k++) {
            diti_format(name, sizeof name, "visual.blocks.%u.norm%u", i, k);
            real_norm(file, 1280, false, name, name, 0);
        }
    }
    real_norm(file, 1280, false, "visual.merger.ln_q", "visual.merger.ln_q", 0);
    real_layer(file, 5120, 5120, "visual.merger.mlp.0", "visual.merger.mlp.0", 0);
    real_layer(file, 3584, 5120, "visual.merger.mlp.2", "visual.merger.mlp.2", 0);
}

/* Anima's text conditioner (docs/models.md 5.8). */
static void conditioner(real_file *file) {
    static const char *const norms[] = {"norm_self_attn", "norm_cross_attn", "norm_mlp"};
    static const char *const layers[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    const uint64_t width = 1024;
    char name[112];
    uint32_t i, j, k;
    real_rows(file, 32128, width, "embed.weight");
    for (i = 0; i < 6; i++) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "blocks.%u.%s", i, norms[k]);
            real_norm(file, width, false, name, name, 0);
        }
        for (j = 0; j < 2; j++) {
            for (k = 0; k < 4; k++) {
                diti_format(name, sizeof name, "blocks.%u.%s.%s", i, j ? "cross_attn" : "self_attn", layers[k]);
                real_matrix(file, width, width, name, name, 0);
            }
            for (k = 0; k < 2; k++) {
                diti_format(name, sizeof name, "blocks.%u.%s.%c_norm", i, j ? "cross_attn" : "self_attn", "qk"[k]);
                real_norm(file, 64, false, name, name, 0);
            }
        }
        for (k = 0; k < 3; k += 2) {
            diti_format(name, sizeof name, "blocks.%u.mlp.%u", i, k);
            real_layer(file, k ? width : 4 * width, k ? 4 * width : width, name, name, 0);
        }
    }
    real_layer(file, width, width, "out_proj", "out_proj", 0);
    real_norm(file, width, false, "norm", "norm", 0);
}

static void llama3_8b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 128320, 4096, 14336, 32, 32, 8, 128, false, false, false};
    real_decoder(file, &shape);
}

/* Mistral-Small-3's text path. */
static void mistral_24b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 131072, 5120, 32768, 40, 32, 8, 128, false, false, false};
    real_decoder(file, &shape);
}

/* Ministral 3's text path. */
static void ministral_3b(real_file *file) {
    static const real_decoder_shape shape = {"model.", 131072, 3072, 9216, 26, 32, 8, 128, false, false, false};
    real_decoder(file, &shape);
}

static void vae_wan_whole(real_file *file) {
    vae_wan(file);
    vae_wan_encoder(file);
}

typedef void (*maker)(real_file *file);
typedef struct model {
    const char *name, *title; /* of the comments; of README's table */
    maker transformer, texts[3], vae;
    uint32_t width, height, frames, steps; /* frames: of a clip; 0: a picture */
    float guidance;                        /* 0: the model's own */
    bool diffusers;                        /* the autoencoder's names are diffusers' */
    const char *scheduler;                 /* scheduler_config.json, of models that have no single one; else NULL */
} model;
#define COGVIDEOX_SCHEDULER                                                                                                \
    "{\"_class_name\": \"CogVideoXDDIMScheduler\", \"beta_schedule\": \"scaled_linear\", \"prediction_type\": "            \
    "\"v_prediction\", \"rescale_betas_zero_snr\": true, \"timestep_spacing\": \"trailing\", \"set_alpha_to_one\": true, " \
    "\"snr_shift_scale\": "
static const model models[] = {
    {"dit", "DiT-XL/2", published_dit_xl_2, {NULL}, published_vae_sd, 256, 256, 0, 50, 0, false, NULL},
    {"pixart-sigma",
     "PixArt-Sigma",
     published_pixart_sigma,
     {published_t5_xxl},
     published_vae_sd,
     1024,
     1024,
     0,
     20,
     0,
     false,
     NULL},
    {"hunyuandit",
     "HunyuanDiT 1.2",
     published_hunyuandit_v12,
     {published_bert_large, published_mt5_xl},
     published_vae_sd,
     1024,
     1024,
     0,
     50,
     0,
     false,
     NULL},
    {"sd3-medium",
     "Stable Diffusion 3 Medium",
     published_sd3_medium,
     {published_clip_l, published_clip_g, published_t5_xxl},
     published_vae_16,
     1024,
     1024,
     0,
     28,
     0,
     false,
     NULL},
    {"sd35-large",
     "Stable Diffusion 3.5 Large",
     published_sd35_large,
     {published_clip_l, published_clip_g, published_t5_xxl},
     published_vae_16,
     1024,
     1024,
     0,
     28,
     0,
     false,
     NULL},
    {"flux-schnell",
     "FLUX.1-schnell",
     published_flux_schnell,
     {published_clip_l_bare, published_t5_xxl},
     published_vae_16,
     1024,
     1024,
     0,
     4,
     0,
     false,
     NULL},
    {"flux-dev",
     "FLUX.1-dev",
     published_flux_dev,
     {published_clip_l_bare, published_t5_xxl},
     published_vae_16,
     1024,
     1024,
     0,
     28,
     0,
     false,
     NULL},
    {"chroma1-hd",
     "Chroma1-HD",
     published_chroma,
     {published_t5_xxl},
     published_vae_16,
     1024,
     1024,
     0,
     35,
     0,
     false,
     NULL},
    {"longcat-image",
     "LongCat-Image",
     published_longcat,
     {qwen25_7b},
     published_vae_16,
     1024,
     1024,
     0,
     50,
     0,
     false,
     NULL},
    {"ovis-image", "Ovis-Image", published_ovis, {qwen3_17b}, published_vae_16, 1024, 1024, 0, 50, 0, false, NULL},
    {"z-image-turbo",
     "Z-Image-Turbo",
     published_zimage,
     {qwen3_4b},
     published_vae_16,
     1024,
     1024,
     0,
     8,
     1,
     false,
     NULL},
    {"z-image", "Z-Image", published_zimage, {qwen3_4b}, published_vae_16, 1024, 1024, 0, 50, 5, false, NULL},
    {"flux2-klein-4b", "FLUX.2 klein 4B", published_klein_4b, {qwen3_4b}, vae_flux2, 1024, 1024, 0, 4, 1, false, NULL},
    {"flux2-klein-9b", "FLUX.2 klein 9B", published_klein_9b, {qwen3_8b}, vae_flux2, 1024, 1024, 0, 4, 1, false, NULL},
    {"flux2-dev", "FLUX.2-dev", published_flux2_dev, {mistral_24b}, vae_flux2, 1024, 1024, 0, 28, 1, false, NULL},
    {"flux3-klein", "FLUX.3 klein", published_flux3_klein, {qwen3_4b}, vae_flux2, 1024, 1024, 0, 16, 1, false, NULL},
    {"qwen-image", "Qwen-Image", published_qwenimage, {qwen25_7b}, vae_wan, 1024, 1024, 0, 50, 0, true, NULL},
    {"qwen-image-edit",
     "Qwen-Image-Edit, one reference",
     published_qwenimage,
     {qwen25_vl_7b},
     vae_wan_whole,
     1024,
     1024,
     0,
     40,
     0,
     true,
     NULL},
    {"qwen-image-21",
     "Qwen-Image-2.1",
     published_qwenimage21,
     {qwen3_8b},
     vae_qwenimage21,
     1024,
     1024,
     0,
     50,
     0,
     true,
     NULL},
    {"krea-2-turbo", "Krea 2 Turbo", published_krea2, {qwen3_4b}, vae_wan, 1024, 1024, 0, 8, 1, true, NULL},
    {"ernie-image-turbo",
     "ERNIE-Image-Turbo",
     published_ernie,
     {ministral_3b},
     vae_flux2,
     1024,
     1024,
     0,
     8,
     1,
     false,
     NULL},
    {"ernie-image", "ERNIE-Image", published_ernie, {ministral_3b}, vae_flux2, 1024, 1024, 0, 50, 4, false, NULL},
    {"ideogram-4", "Ideogram 4", published_ideogram4, {qwen3_8b}, vae_flux2, 1024, 1024, 0, 48, 0, false, NULL},
    {"kandinsky-5",
     "Kandinsky 5.0 T2I Lite",
     published_kandinsky,
     {qwen25_7b, published_clip_l_bare},
     published_vae_16,
     1024,
     1024,
     0,
     50,
     3.5,
     true,
     NULL},
    {"anima", "Anima", published_anima, {qwen3_06b, conditioner}, vae_wan, 1024, 1024, 0, 30, 0, true, NULL},
    {"sana-600m", "Sana 0.6B", published_sana_600m, {gemma2_2b}, real_dcae, 1024, 1024, 0, 20, 0, true, NULL},
    {"sana-1600m", "Sana 1.6B", published_sana_1600m, {gemma2_2b}, real_dcae, 1024, 1024, 0, 20, 0, true, NULL},
    {"sana-sprint", "Sana-Sprint 1.6B", published_sana_sprint, {gemma2_2b}, real_dcae, 1024, 1024, 0, 2, 1, true, NULL},
    {"lumina-image-2",
     "Lumina-Image 2",
     published_lumina2,
     {gemma2_2b},
     published_vae_16,
     1024,
     1024,
     0,
     30,
     0,
     false,
     NULL},
    {"boogu-image-turbo",
     "Boogu-Image-Turbo",
     published_boogu,
     {qwen3_8b},
     published_vae_16,
     1024,
     1024,
     0,
     4,
     1,
     false,
     NULL},
    {"boogu-image", "Boogu-Image", published_boogu, {qwen3_8b}, published_vae_16, 1024, 1024, 0, 50, 0, false, NULL},
    {"wan21-1.3b", "Wan 2.1 1.3B", published_wan_1_3b, {umt5_xxl}, vae_wan, 832, 480, 81, 50, 0, true, NULL},
    {"wan21-14b", "Wan 2.1 14B", published_wan_14b, {umt5_xxl}, vae_wan, 832, 480, 81, 50, 0, true, NULL},
    {"wan22-ti2v-5b",
     "Wan 2.2 TI2V-5B",
     published_wan_ti2v_5b,
     {umt5_xxl},
     vae_wan22,
     1280,
     704,
     121,
     50,
     0,
     true,
     NULL},
    {"wan21-vace-1.3b",
     "Wan 2.1 VACE-1.3B, one reference",
     published_wan_vace_1_3b,
     {umt5_xxl},
     vae_wan_whole,
     832,
     480,
     81,
     50,
     0,
     true,
     NULL},
    {"wan21-vace-14b",
     "Wan 2.1 VACE-14B, one reference",
     published_wan_vace_14b,
     {umt5_xxl},
     vae_wan_whole,
     832,
     480,
     81,
     50,
     0,
     true,
     NULL},
    {"wan22-t2v-a14b", "Wan 2.2 T2V-A14B", published_wan_14b, {umt5_xxl}, vae_wan, 832, 480, 81, 40, 0, true, NULL},
    {"cogvideox-2b",
     "CogVideoX-2b",
     published_cogvideox_2b,
     {published_t5_xxl},
     vae_cogvideox,
     720,
     480,
     49,
     50,
     0,
     true,
     COGVIDEOX_SCHEDULER "3.0}"},
    {"cogvideox-5b",
     "CogVideoX-5b",
     published_cogvideox_5b,
     {published_t5_xxl},
     vae_cogvideox,
     720,
     480,
     49,
     50,
     0,
     true,
     COGVIDEOX_SCHEDULER "1.0}"},
    {"ltx-video-2b", "LTX-Video 2B", published_ltx_2b, {published_t5_xxl}, vae_ltx, 704, 512, 161, 50, 0, true, NULL},
    {"ltx-2", "LTX-2", published_ltx2, {gemma3_12b, connectors2}, vae_ltx2, 768, 512, 121, 30, 0, true, NULL},
    {"ltx-2.3", "LTX-2.3", published_ltx23, {gemma3_12b, connectors23}, vae_ltx23, 768, 512, 121, 30, 0, true, NULL},
    {"minimax-h3", "MiniMax-H3", published_minimax, {qwen3_vl_32b}, vae_minimax, 1344, 768, 124, 49, 0, true, NULL},
    {"hunyuanvideo",
     "HunyuanVideo",
     published_hunyuanvideo,
     {llama3_8b, published_clip_l_bare},
     vae_hunyuanvideo,
     512,
     320,
     25,
     50,
     0,
     true,
     NULL},
    {"kandinsky-5-t2v",
     "Kandinsky 5.0 T2V Lite",
     published_kandinsky_t2v,
     {qwen25_7b, published_clip_l_bare},
     vae_hunyuanvideo,
     768,
     512,
     121,
     50,
     5,
     true,
     NULL},
    {"kandinsky-5-t2v-pro",
     "Kandinsky 5.0 T2V Pro",
     published_kandinsky_t2v_pro,
     {qwen25_7b, published_clip_l_bare},
     vae_hunyuanvideo,
     768,
     512,
     121,
     50,
     5,
     true,
     NULL},
    {"hunyuanvideo-1.5",
     "HunyuanVideo 1.5",
     published_hunyuanvideo15,
     {qwen25_7b, published_byt5_small},
     vae_hunyuanvideo15,
     848,
     480,
     121,
     50,
     0,
     true,
     NULL},
    {"latte-1", "Latte-1", published_latte, {published_t5_xxl}, published_vae_sd, 512, 512, 16, 50, 0, true, NULL},
    {"open-sora-1.1",
     "Open-Sora 1.1",
     published_stdit_2,
     {published_t5_xxl},
     published_vae_sd,
     512,
     512,
     16,
     100,
     0,
     true,
     NULL},
    {"open-sora-1.2",
     "Open-Sora 1.2",
     published_stdit_3,
     {published_t5_xxl},
     vae_open_sora,
     640,
     360,
     51,
     30,
     0,
     true,
     NULL},
    {"open-sora-plan-1.1",
     "Open-Sora-Plan 1.1",
     published_lattet2v,
     {published_t5_xxl},
     vae_open_sora_plan,
     512,
     512,
     65,
     50,
     0,
     true,
     NULL},
};

/* Models that a picture is given to. */
static bool takes_reference(const model *m) { return m->vae == vae_wan_whole; }

/* Models with an expert for low noise beside the transformer; both have the same shape. */
static bool has_experts(const model *m) { return !strcmp(m->name, "wan22-t2v-a14b"); }
static bool has_second(const model *m) { return has_experts(m) || !strcmp(m->name, "ideogram-4"); }

/* The parts that make the sound of a model's clips; NULL: they have none. */
static maker sound_of(const model *m) {
    return !strcmp(m->name, "ltx-2")        ? sound_ltx2
           : !strcmp(m->name, "ltx-2.3")    ? sound_ltx23
           : !strcmp(m->name, "minimax-h3") ? sound_minimax
                                            : NULL;
}

/* ---- one model of one type on one card ---- */

typedef enum way { WAY_WHOLE, WAY_TILES, WAY_TURNS, WAY_STREAMED, WAYS } way;
typedef struct plan {
    bool fits;
    way way;
    double memory, streamed, seconds; /* bytes on the device at most, bytes read in every step */
} plan;

typedef struct files {
    real_file list[8];
    dit_component components[8];
    dit_preview preview; /* what makes previews; default: there are none */
    dit_model_desc desc;
} files;

static dit_result open_scheduler(const char *member, dit_source *out, void *user) {
    memset(out, 0, sizeof *out);
    if (strcmp(member, "scheduler_config.json") != 0) return DIT_ERROR_IO;
    out->data = user;
    out->size = strlen((const char *)user);
    return DIT_OK;
}

static void open_files(const model *m, dit_type type, files *out) {
    const maker makers[] = {m->transformer, m->texts[0], m->texts[1],
                            m->texts[2],    m->vae,      has_second(m) ? m->transformer : NULL,
                            sound_of(m)};
    static const dit_role roles[] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_TEXT_1,        DIT_ROLE_TEXT_2, DIT_ROLE_TEXT_3,
                                     DIT_ROLE_VAE,         DIT_ROLE_TRANSFORMER_2, DIT_ROLE_SOUND};
    uint32_t i;
    memset(out, 0, sizeof *out);
    for (i = 0; i < sizeof makers / sizeof *makers; i++) {
        real_file *file = &out->list[i];
        dit_source source;
        bool decodes;
        if (!makers[i]) continue;
        decodes = roles[i] == DIT_ROLE_VAE || roles[i] == DIT_ROLE_SOUND;
        file->container = type == DIT_TYPE_F16 || decodes ? REAL_SAFETENSORS : REAL_GGUF;
        file->type = decodes ? DIT_TYPE_F16 : type;
        file->original = roles[i] != DIT_ROLE_VAE || !m->diffusers;
        makers[i](file);
        source = real_source(file);
        if (i == 0) {
            out->desc.source = source;
            continue;
        }
        out->components[out->desc.component_count].source = source;
        out->components[out->desc.component_count++].role = roles[i];
    }
    if (m->scheduler) {
        dit_component *scheduler = &out->components[out->desc.component_count++];
        scheduler->role = DIT_ROLE_SCHEDULER;
        scheduler->source.open = open_scheduler;
        scheduler->source.user = (void *)(uintptr_t)m->scheduler;
    }
    out->desc.components = out->components;
    out->desc.dry_run = true;
}

static void close_files(files *f) {
    uint32_t i;
    for (i = 0; i < sizeof f->list / sizeof *f->list; i++) real_free(&f->list[i]);
}

typedef struct work { /* operations outside and inside of steps; of those outside, of encoding, decoding, a preview */
    double once, steps, encode, decode, preview;
    double moved; /* bytes of a preview */
} work;
static bool add_op(const dit_op_info *op, void *user) {
    work *w = (work *)user;
    if (!strcmp(op->segment, "step"))
        w->steps += op->flops * op->runs;
    else
        w->once += op->flops * op->runs;
    if (!strcmp(op->segment, "encode")) w->encode += op->flops * op->runs;
    if (!strcmp(op->segment, "decode")) w->decode += op->flops * op->runs;
    if (!strcmp(op->segment, "preview")) w->preview += op->flops, w->moved += op->bytes; /* of one */
    return true;
}

/* The largest tile that helps, as `dit` finds it. */
static uint32_t tile_of(const model *m) { return m->vae == vae_open_sora_plan ? 128 : m->frames ? 256 : 512; }

/* Bytes that a clip of a model with two experts reads, but no step does: matrices that stay while an expert is at work,
   and those of the other one, of the same shape, that pass through the two slots in its own steps. */
static uint64_t read_once(const dit_model *loaded) {
    const diti_weights *high = &loaded->transformer->component.weights, *low;
    if (!loaded->low) return 0;
    low = &loaded->low->component.weights;
    return (high->expert ? high->expert->bytes : 0) + (low->expert ? low->expert->bytes : 0) +
           (low->streamed ? low->streamed->bytes : 0);
}

/* Memory of a job with a budget for weights, 0: all of them; what is streamed is in every step. */
static bool ask(const model *m, files *f, way how, uint64_t budget, dit_memory *memory, work *w) {
    dit_model_desc desc = f->desc;
    dit_job_desc job = DITI_ZERO;
    dit_inspector inspector = DITI_ZERO;
    dit_model *loaded = NULL;
    dit_error err = DITI_ZERO;
    dit_result result;
    static const int32_t fox = 277;
    static const uint8_t pixels[4 * 1024 * 1024];
    dit_image shown = DITI_ZERO;
    dit_reference reference = DITI_ZERO;
    desc.release_text_encoders = how >= WAY_TURNS;
    desc.weight_budget = how == WAY_STREAMED ? budget : 0;
    result = dit_model_load(NULL, &desc, &loaded, &err);
    job.model = loaded;
    job.width = m->width;
    job.height = m->height;
    job.frame_count = m->frames;
    job.steps = m->steps;
    job.guidance.scale = m->guidance;
    job.negative_prompt = m->guidance > 1 ? "" : NULL; /* else some models have no guidance */
    job.class_labels = m->texts[0] ? NULL : &fox;
    shown.width = shown.height = 1024;
    shown.rgba = pixels;
    reference.frames = &shown;
    job.references = takes_reference(m) ? &reference : NULL;
    job.reference_count = takes_reference(m) ? 1 : 0;
    job.preview = f->preview;
    job.preview_interval = f->preview ? 1 : 0;
    job.vae_tile = how >= WAY_TILES ? tile_of(m) : 0;
    if (result == DIT_OK) result = dit_job_memory(NULL, &job, memory, &err);
    if (result == DIT_OK) memory->streamed -= read_once(loaded);
    if (result == DIT_OK && w) {
        memset(w, 0, sizeof *w);
        inspector.op = add_op;
        inspector.user = w;
        result = dit_job_inspect(NULL, &job, &inspector, &err);
    }
    /* A refusal is an answer where it is asked whether a model has such a preview, or runs with such a budget. */
    if (result != DIT_OK && (how == WAY_TILES || how == WAY_TURNS) && !f->preview)
        fprintf(stderr, "cards: %s: %s\n", m->name, err.message);
    dit_model_destroy(loaded);
    return result == DIT_OK;
}

/* Steps wait for what they read, or for the arithmetic, whichever takes longer; the rest comes one after the other. */
static double seconds_of(const model *m, const card *c, const work *w, double encoders, double streamed) {
    double compute = w->steps / (c->rate * 1e12), reads = m->steps * streamed / (c->bus * 1e9);
    return w->once / (c->rate * 1e12) + encoders / (c->bus * 1e9) + (compute > reads ? compute : reads);
}

typedef struct known { /* answers that are the same for all cards */
    bool works[WAY_STREAMED];
    dit_memory memory[WAY_STREAMED];
    work work;
} known;

static plan fit(const model *m, files *f, const known *k, const card *c) {
    plan p = DITI_ZERO;
    double room = usable(c), resident = (double)k->memory[WAY_TURNS].weights,
           encoders = (double)k->memory[WAY_TURNS].streamed, budget;
    dit_memory memory;
    uint32_t i;
    for (i = WAY_WHOLE; i < WAY_STREAMED; i++) {
        if (!k->works[i] || (double)k->memory[i].peak > room) continue;
        p.fits = true;
        p.way = (way)i;
        p.memory = (double)k->memory[i].peak;
        p.seconds = seconds_of(m, c, &k->work, i == WAY_TURNS ? encoders : 0, 0);
        return p;
    }
    if (!k->works[WAY_TURNS]) return p;
    budget = resident - ((double)k->memory[WAY_TURNS].peak - room);
    for (i = 0; i < 6 && budget > 1e8; i++) {
        if (!ask(m, f, WAY_STREAMED, (uint64_t)budget, &memory, NULL)) return p;
        if ((double)memory.peak <= room) {
            p.fits = true;
            p.way = WAY_STREAMED;
            p.memory = (double)memory.peak;
            p.streamed = (double)memory.streamed - encoders;
            p.seconds = seconds_of(m, c, &k->work, encoders, p.streamed);
            return p;
        }
        budget -= (double)memory.peak - room + 1e7;
    }
    return p;
}

/* ---- tables ---- */

static const struct {
    dit_type type;
    const char *name;
} types[] = {{DIT_TYPE_F16, "F16, BF16"}, {DIT_TYPE_Q8_0, "Q8_0"}, {DIT_TYPE_Q4_0, "Q4_0, Q4_K"}};
enum { TYPES = sizeof types / sizeof types[0] };

typedef struct rows {
    plan plans[TYPES][CARDS];
    double whole[TYPES]; /* bytes with all on the device */
} rows;

static void plan_model(const model *m, rows *out) {
    uint32_t t, i;
    memset(out, 0, sizeof *out);
    for (t = 0; t < TYPES; t++) {
        files f;
        known k = DITI_ZERO;
        open_files(m, types[t].type, &f);
        for (i = WAY_WHOLE; i < WAY_STREAMED; i++)
            k.works[i] = ask(m, &f, (way)i, 0, &k.memory[i], i == WAY_TILES ? &k.work : NULL);
        out->whole[t] = (double)k.memory[k.works[WAY_WHOLE] ? WAY_WHOLE : WAY_TILES].peak;
        for (i = 0; i < CARDS; i++) out->plans[t][i] = fit(m, &f, &k, &cards[i]);
        close_files(&f);
    }
}

static void put_seconds(bytes *out, double seconds) {
    char text[32];
    if (seconds < 10)
        snprintf(text, sizeof text, "%.1f s", seconds);
    else if (seconds < 300)
        snprintf(text, sizeof text, "%.0f s", seconds);
    else
        snprintf(text, sizeof text, "%.0f min", seconds / 60);
    bytes_add(out, text, strlen(text));
}

static void put(bytes *out, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bytes_add(out, text, strlen(text));
}

static void put_plan(bytes *out, const plan *p) {
    static const char *const marks[] = {"", " t", " e", ""};
    if (!p->fits) {
        put(out, " - |");
        return;
    }
    put(out, " %.1f GB%s", p->memory / 1e9, marks[p->way]);
    if (p->way == WAY_STREAMED) put(out, " s %.1f", p->streamed / 1e9);
    put(out, ", ");
    put_seconds(out, p->seconds);
    put(out, " |");
}

/* 1024 x 1024, of clips with the number of frames. */
static void put_size(bytes *out, const model *m) {
    put(out, "%s, %u x %u", m->title, m->width, m->height);
    if (m->frames) put(out, ", %u frames", m->frames);
}

static void put_model(bytes *out, const model *m) {
    rows r;
    uint32_t t, i;
    plan_model(m, &r);
    put_size(out, m);
    put(out,
        ", %u steps: memory, and a predicted time ([memory.md](memory.md#what-fits-which-card) says what the "
        "letters mean).\n\n",
        m->steps);
    put(out, "| type | all on the device |");
    for (i = 0; i < CARDS; i++) put(out, " %g GB (%s) |", cards[i].gigabytes, cards[i].name);
    put(out, "\n| --- | --- |");
    for (i = 0; i < CARDS; i++) put(out, " --- |");
    for (t = 0; t < TYPES; t++) {
        put(out, "\n| %s | %.1f GB |", types[t].name, r.whole[t] / 1e9);
        for (i = 0; i < CARDS; i++) put_plan(out, &r.plans[t][i]);
    }
    put(out, "\n");
}

/* The first picture on the driver of BENCHMARKS.md, by the operations of its stages; only one step. */
#define LAVAPIPE 40e9 /* operations per second of a product there, as measured */
#define STREAMED_BUDGET ((uint64_t)1280 << 20)
static void put_stages(bytes *out) {
    size_t k;
    put(out, "| model, Q8_0 | weights, streamed with a budget of 1.34 GB | encode | prepare and one step | decode |\n"
             "| --- | --- | --- | --- | --- |");
    for (k = 0; k < sizeof models / sizeof models[0]; k++) {
        model one = models[k];
        double at[3];
        dit_memory all = DITI_ZERO, memory = DITI_ZERO;
        work w = DITI_ZERO;
        files f;
        one.steps = 2; /* some samplers have no single one */
        open_files(&one, DIT_TYPE_Q8_0, &f);
        if (!ask(&one, &f, WAY_WHOLE, 0, &all, &w)) ask(&one, &f, WAY_TILES, 0, &all, &w);
        if (!ask(&one, &f, WAY_STREAMED, STREAMED_BUDGET, &memory, NULL)) memset(&memory, 0, sizeof memory);
        close_files(&f);
        at[0] = w.encode;
        at[1] = w.steps / one.steps + w.once - w.encode - w.decode;
        at[2] = w.decode;
        put(out, "\n| ");
        put_size(out, &one);
        put(out, " | %.2f GB, %.2f GB | %.0f GFLOP, %.0f s | %.0f GFLOP, %.0f s | %.0f GFLOP, %.0f s |",
            (double)all.weights / 1e9, (double)memory.streamed / 1e9, at[0] / 1e9, at[0] / LAVAPIPE, at[1] / 1e9,
            at[1] / LAVAPIPE, at[2] / 1e9, at[2] / LAVAPIPE);
    }
    put(out, "\n");
}

/* TAESD's decoder for so many channels as a component beside the others. */
static void add_tiny(files *f, uint32_t channels) {
    dit_component *tiny = &f->components[f->desc.component_count++];
    f->list[6].type = DIT_TYPE_F16;
    real_taesd(&f->list[6], channels);
    tiny->role = DIT_ROLE_TAE;
    tiny->source = real_source(&f->list[6]);
}

/* One preview beside one step. */
static void put_previews(bytes *out) {
    size_t k;
    put(out, "| model | one step | preview by proj | by tae | by vae |\n| --- | --- | --- | --- | --- |");
    for (k = 0; k < sizeof models / sizeof models[0]; k++) {
        model one = models[k];
        double cost[3] = {0, 0, 0};
        work w = DITI_ZERO;
        dit_memory memory;
        int i;
        one.steps = 2;
        for (i = 0; i < 3; i++) {
            files f;
            if (i == 1 &&
                (one.vae == vae_wan || one.vae == vae_wan_whole || one.vae == vae_wan22 || one.vae == vae_qwenimage21 ||
                 one.vae == real_dcae || one.vae == vae_cogvideox || one.vae == vae_hunyuanvideo ||
                 one.vae == vae_hunyuanvideo15 || one.vae == vae_ltx || one.vae == vae_ltx2 || one.vae == vae_ltx23 ||
                 one.vae == vae_minimax || one.vae == vae_open_sora || one.vae == vae_open_sora_plan))
                continue; /* taew2_1 has another shape, others have none */
            open_files(&one, DIT_TYPE_Q8_0, &f);
            if (i == 1) add_tiny(&f, one.vae == vae_flux2 ? 32 : one.vae == published_vae_sd ? 4 : 16);
            f.preview = (dit_preview)(DIT_PREVIEW_PROJ + i);
            if (ask(&one, &f, WAY_WHOLE, 0, &memory, &w) || ask(&one, &f, WAY_TILES, 0, &memory, &w))
                cost[i] = i ? w.preview / 1e9 : w.moved / 1e6;
            close_files(&f);
        }
        put(out, "\n| ");
        put_size(out, &one);
        put(out, " | %.0f GFLOP |", w.steps / one.steps / 1e9);
        if (cost[0] > 0)
            put(out, " %.1f MB moved |", cost[0]);
        else
            put(out, " - |");
        if (cost[1] > 0)
            put(out, " %.0f GFLOP |", cost[1]);
        else
            put(out, " - |");
        if (cost[2] > 0)
            put(out, " %.0f GFLOP |", cost[2]);
        else
            put(out, " - |");
    }
    put(out, "\n");
}

/* The best of each card: the largest type that is not streamed, else the smallest. */
static void put_overview(bytes *out) {
    size_t k;
    uint32_t t, i;
    put(out, "| model |");
    for (i = 0; i < CARDS; i++) put(out, " %g GB (%s) |", cards[i].gigabytes, cards[i].name);
    put(out, "\n| --- |");
    for (i = 0; i < CARDS; i++) put(out, " --- |");
    for (k = 0; k < sizeof models / sizeof models[0]; k++) {
        rows r;
        plan_model(&models[k], &r);
        put(out, "\n| ");
        put_size(out, &models[k]);
        put(out, ", %u steps |", models[k].steps);
        for (i = 0; i < CARDS; i++) {
            for (t = 0; t < TYPES && !(r.plans[t][i].fits && r.plans[t][i].way < WAY_STREAMED);) t++;
            if (t == TYPES) t = TYPES - 1;
            if (!r.plans[t][i].fits) {
                put(out, " - |");
                continue;
            }
            put(out, " %.*s%s, ", (int)strcspn(types[t].name, ","), types[t].name,
                r.plans[t][i].way == WAY_STREAMED ? " streamed" : "");
            put_seconds(out, r.plans[t][i].seconds);
            put(out, " |");
        }
    }
    put(out, "\n");
}

/* ---- pages ---- */

static bool read_page(const char *path, bytes *out) {
    FILE *file = fopen(path, "rb");
    char piece[4096];
    size_t size;
    if (!file) return false;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0) bytes_add(out, piece, size);
    fclose(file);
    bytes_add(out, "", 1);
    return true;
}

/* The page with new tables; false: a comment in it has no end, or names no model. */
static bool renew(const char *path, const char *page, bytes *out) {
    static const char begin[] = "<!-- cards: ", end[] = "<!-- cards end -->";
    const char *at;
    while ((at = strstr(page, begin)) != NULL) {
        const char *name = at + strlen(begin), *stop = strstr(name, " -->"), *last = strstr(name, end);
        size_t k = 0;
        if (!stop || !last) {
            fprintf(stderr, "cards: %s: a comment \"%s\" without \"%s\"\n", path, begin, end);
            return false;
        }
        bytes_add(out, page, (size_t)(stop + strlen(" -->") - page));
        put(out, "\n\n");
        while (k < sizeof models / sizeof models[0] && (strlen(models[k].name) != (size_t)(stop - name) ||
                                                        strncmp(models[k].name, name, strlen(models[k].name))))
            k++;
        if (!strncmp(name, "all -->", 7))
            put_overview(out);
        else if (!strncmp(name, "stages -->", 10))
            put_stages(out);
        else if (!strncmp(name, "previews -->", 12))
            put_previews(out);
        else if (k < sizeof models / sizeof models[0])
            put_model(out, &models[k]);
        else {
            fprintf(stderr, "cards: %s: there is no model %.*s in tools/cards.c\n", path, (int)(stop - name), name);
            return false;
        }
        put(out, "\n%s", end);
        page = last + strlen(end);
    }
    bytes_add(out, page, strlen(page));
    return true;
}

int main(int argc, char **argv) {
    int i, code = 0;
    bool write = argc > 2 && !strcmp(argv[1], "write");
    if (argc < 3 || (!write && strcmp(argv[1], "check") != 0)) {
        fprintf(stderr, "usage: cards write|check PAGE...\n");
        return 2;
    }
    for (i = 2; i < argc; i++) {
        bytes page = DITI_ZERO, now = DITI_ZERO;
        FILE *file;
        if (!read_page(argv[i], &page)) {
            fprintf(stderr, "cards: cannot read %s\n", argv[i]);
            return 1;
        }
        if (!renew(argv[i], (const char *)page.data, &now)) return 1;
        if (now.size == page.size - 1 && !memcmp(now.data, page.data, now.size)) {
            bytes_free(&page);
            bytes_free(&now);
            continue;
        }
        if (!write) {
            fprintf(stderr, "cards: %s has other tables than `make cards` writes\n", argv[i]);
            code = 1;
        } else {
            file = fopen(argv[i], "wb");
            if (!file || fwrite(now.data, 1, now.size, file) != now.size) code = 1;
            if (file) fclose(file);
            printf("%s\n", argv[i]);
        }
        bytes_free(&page);
        bytes_free(&now);
    }
    return code;
}
