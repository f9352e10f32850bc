/* Models of published sizes from their headers alone, whose weights are made while they are read (real_shapes.h): how
   many parameters a dry run counts and which family it sees, in both namings; which autoencoders, text encoders and
   adapters fit; and what a job would take. real.c runs them. test-runs: sanitize, in test-all plain */
#include "library.h"
#include "lora_file.h"
#include "real_shapes.h"
#include "real_vaes.h"
#include "text/decoder.c"

/* ---- architectures ---- */

typedef struct architecture {
    const char *name;
    void (*make)(real_file *file);
    double millions; /* published parameters; for schnell and v1.1 computed from dev and v1.2 */
    const char *family, *variant;
} architecture;

static const architecture architectures[] = {
    {"DiT-XL/2", published_dit_xl_2, 675, "dit", "xl"},
    {"PixArt-alpha", published_pixart_alpha, 611, "pixart", "alpha"},
    {"PixArt-alpha 512", published_pixart_alpha_512, 611, "pixart", "alpha"},
    {"PixArt-Sigma", published_pixart_sigma, 611, "pixart", "sigma"},
    {"SD3-medium", published_sd3_medium, 2028, "sd3", "3-medium"},
    {"SD3.5-medium", published_sd35_medium, 2243, "sd3", "3.5-medium"},
    {"SD3.5-large", published_sd35_large, 8057, "sd3", "3.5-large"},
    {"FLUX.1-schnell", published_flux_schnell, 11891, "flux", "schnell"},
    {"FLUX.1-dev", published_flux_dev, 11901, "flux", "dev"},
    {"Chroma1", published_chroma, 8900, "chroma", "1"},
    {"LongCat-Image", published_longcat, 6269, "longcat", "1.0"},
    {"Ovis-Image", published_ovis, 7370, "ovis", "1.0"},
    {"Z-Image", published_zimage, 6155, "zimage", "turbo"},
    {"FLUX.2-klein-4B", published_klein_4b, 3875.5, "flux2", "klein-4b"},
    {"FLUX.2-klein-9B", published_klein_9b, 9078.6, "flux2", "klein-9b"},
    {"FLUX.2-dev", published_flux2_dev, 32223, "flux2", "dev"},
    {"FLUX.3-klein", published_flux3_klein, 5550, "flux3", "klein"},
    {"FLUX.3-klein-base", published_flux3_klein_base, 5540, "flux3", "klein-base"},
    {"Qwen-Image", published_qwenimage, 20430, "qwenimage", "1.0"},
    {"Qwen-Image-2.1", published_qwenimage21, 7115, "qwenimage21", "2.1"},
    {"Anima", published_anima, 1956, "anima", "1.0"},
    {"Ideogram-4", published_ideogram4, 9279, "ideogram4", "4"},
    {"Lumina-Image 2", published_lumina2, 2610, "lumina2", "lumina2"},
    {"Boogu-Image", published_boogu, 10292.6, "boogu", "0.1"},
    {"Sana 0.6B", published_sana_600m, 592, "sana", "sana"},
    {"Sana 1.6B", published_sana_1600m, 1604.5, "sana", "sana"},
    {"Sana-Sprint 1.6B", published_sana_sprint, 1610, "sana", "sprint"},
    {"Krea-2", published_krea2, 12820, "krea2", "turbo"},
    {"ERNIE-Image", published_ernie, 8033.6, "ernie", "ernie-image"},
    {"Kandinsky 5.0 T2I Lite", published_kandinsky, 6022.1, "kandinsky", "5.0-t2i"},
    {"Kandinsky 5.0 T2V Lite", published_kandinsky_t2v, 2007.7, "kandinsky", "5.0-t2v"},
    {"Kandinsky 5.0 T2V Pro", published_kandinsky_t2v_pro, 19311.3, "kandinsky", "5.0-t2v"},
    {"HunyuanDiT v1.1", published_hunyuandit_v11, 1517, "hunyuandit", "1.1"},
    {"HunyuanDiT v1.2", published_hunyuandit_v12, 1500, "hunyuandit", "1.2"},
    {"Open-Sora v1.0", published_stdit_1, 759.6, "stdit", "v1.0"},
    {"Open-Sora v1.1", published_stdit_2, 767.5, "stdit", "v1.1"},
    {"Open-Sora v1.2", published_stdit_3, 1207.6, "stdit", "v1.2"},
    {"Latte-1", published_latte, 1057.2, "latte", "1"},
    {"Open-Sora-Plan v1.1", published_lattet2v, 1057.2, "latte", "open-sora-plan-v1.1"},
    {"CogVideoX-2b", published_cogvideox_2b, 1693, "cogvideox", "2b"},
    {"CogVideoX-5b", published_cogvideox_5b, 5570, "cogvideox", "5b"},
    {"CogVideoX1.5-5b", published_cogvideox15, 5570, "cogvideox", "1.5-5b"},
    {"LTX-Video 2B", published_ltx_2b, 1923.4, "ltx", "2b"},
    {"LTX-Video 13B", published_ltx_13b, 13042.6, "ltx", "13b"},
    {"LTX-2", published_ltx2, 18876.2, "ltx2", "2"},
    {"LTX-2.3", published_ltx23, 18988.8, "ltx2", "2.3"},
    {"MiniMax-H3", published_minimax, 33123.0, "minimax", "h3"},
    {"HunyuanVideo", published_hunyuanvideo, 12821.0, "hunyuanvideo", "1.0"},
    {"HunyuanVideo 1.5", published_hunyuanvideo15, 8326.6, "hunyuanvideo15", "1.5"},
    {"HunyuanVideo 1.5, step-distilled", published_hunyuanvideo15_flow, 8331.3, "hunyuanvideo15", "i2v-480p"},
    {"Wan2.1-T2V-1.3B", published_wan_1_3b, 1419.0, "wan", "t2v-1.3b"},
    {"Wan2.1-T2V-14B", published_wan_14b, 14288.5, "wan", "t2v-14b"},
    {"Wan2.1-I2V-14B", published_wan_i2v_14b, 16400, "wan", "i2v-14b"},
    {"Wan2.2-I2V-A14B", published_wan_i2v_a14b, 14288.9, "wan", "i2v-a14b"},
    {"Wan2.2-TI2V-5B", published_wan_ti2v_5b, 4999.8, "wan", "ti2v-5b"},
    {"Wan2.1-VACE-1.3B", published_wan_vace_1_3b, 2154.0, "wan", "vace-1.3b"},
    {"Wan2.1-VACE-14B", published_wan_vace_14b, 17337.6, "wan", "vace-14b"},
};

/* Files alone do not tell a Kontext from FLUX.1-dev, or an editor from Qwen-Image and LongCat-Image. */
static int edits_of(const architecture *a) {
    static const char *const editors[] = {"flux2", "flux3", "qwenimage21"};
    size_t i;
    for (i = 0; i < sizeof editors / sizeof *editors; i++)
        if (diti_equal(a->family, editors[i])) return 1;
    return diti_equal(a->family, "qwenimage") || diti_equal(a->name, "FLUX.1-dev") ||
                   diti_equal(a->name, "LongCat-Image") || diti_equal(a->name, "Boogu-Image")
               ? -1
               : 0;
}

static uint64_t count_parameters(const architecture *a, real_file *file, const char *naming) {
    dit_model_desc desc = {0};
    dit_model_info info = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    a->make(file);
    desc.source = real_source(file);
    desc.dry_run = true;
    if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s, %s: %s", a->name, naming,
                      err.message)) {
        double counted;
        dit_model_get_info(model, &info);
        counted = (double)info.parameters[DIT_ROLE_TRANSFORMER] / 1e6;
        CHECK_MESSAGE(fabs(counted / a->millions - 1) < 0.002, "%s, %s: %.1f million parameters, not %.0f", a->name,
                      naming, counted, a->millions);
        CHECK_MESSAGE(diti_equal(info.family, a->family) && diti_equal(info.variant, a->variant),
                      "%s, %s: taken for %s %s", a->name, naming, info.family, info.variant);
        CHECK_MESSAGE(dit_model_edits(model) == edits_of(a), "%s, %s: edits, %d", a->name, naming,
                      dit_model_edits(model));
        CHECK_MESSAGE(info.parameters[DIT_ROLE_TRANSFORMER] == file->parameters, "%s, %s: %llu parameters, not %llu",
                      a->name, naming, (unsigned long long)info.parameters[DIT_ROLE_TRANSFORMER],
                      (unsigned long long)file->parameters);
        /* PyTorch's files have 30 bytes in front of each tensor */
        CHECK_MESSAGE(file->data_read < (1u << 16) + 30 * file->count, "%s, %s: a dry run read %llu bytes of data",
                      a->name, naming, (unsigned long long)file->data_read);
    }
    dit_model_destroy(model);
    real_free(file);
    return info.parameters[DIT_ROLE_TRANSFORMER];
}

static void test_headers(void) {
    static const char all_in_one[] = "model.diffusion_model."; /* single files that hold encoders and VAE besides */
    size_t i;
    for (i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        const architecture *a = &architectures[i];
        real_file diffusers = {0}, original = {0}, prefixed = {0}, gguf = {0}, pytorch = {0};
        uint64_t count;
        diffusers.container = original.container = prefixed.container = REAL_SAFETENSORS;
        pytorch.container = REAL_PYTORCH;
        diffusers.type = DIT_TYPE_BF16;
        original.type = prefixed.type = DIT_TYPE_F16;
        gguf.type = DIT_TYPE_Q8_0;
        pytorch.type = DIT_TYPE_F32;
        original.original = prefixed.original = gguf.original = pytorch.original = true;
        prefixed.prefix = all_in_one;
        count = count_parameters(a, &diffusers, "diffusers' names");
        CHECK(count_parameters(a, &original, "original names") == count);
        CHECK(count_parameters(a, &prefixed, "names of an all-in-one file") == count);
        CHECK(count_parameters(a, &gguf, "GGUF") == count);
        CHECK(count_parameters(a, &pytorch, "PyTorch") == count);
    }
}

/* ---- autoencoders of clips: parameters as counted from the original classes, of both halves or of the decoder ---- */

static void test_autoencoders(void) {
    static const struct {
        const char *name;
        void (*transformer)(real_file *file);
        void (*makers[2])(real_file *file);
        double millions;
    } cases[] = {
        {"Wan 2.1", published_wan_1_3b, {vae_wan, vae_wan_encoder}, 126.9},
        {"Wan 2.2", published_wan_ti2v_5b, {vae_wan22, NULL}, 704.7},
        {"HunyuanVideo", published_hunyuanvideo, {vae_hunyuanvideo, vae_hunyuanvideo_encoder}, 246.5},
        {"HunyuanVideo 1.5", published_hunyuanvideo15, {vae_hunyuanvideo15, vae_hunyuanvideo15_encoder}, 871.3 + 389.3},
        {"LTX-Video 0.9.0", published_ltx_2b, {vae_ltx, vae_ltx_encoder}, 419.2},
        {"LTX-2's decoder", published_ltx2, {vae_ltx2, NULL}, 528.4},
        {"LTX-2.3's decoder", published_ltx23, {vae_ltx23, NULL}, 407.2},
        {"MiniMax-H3", published_minimax, {vae_minimax, vae_minimax_encoder}, 2423.5 + 180.3},
        {"Open-Sora-Plan 1.1's decoder", published_lattet2v, {vae_open_sora_plan, NULL}, 149.5},
        {"Open-Sora 1.2's decoders", published_stdit_3, {vae_open_sora, NULL}, 165.3 + 83.7}};
    size_t i, k;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        real_file transformer = {0}, file = {0};
        dit_component component = {{0}, DIT_ROLE_VAE, 0, false, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model_info info = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        double counted;
        transformer.type = file.type = DIT_TYPE_BF16;
        cases[i].transformer(&transformer);
        for (k = 0; k < 2 && cases[i].makers[k]; k++) cases[i].makers[k](&file);
        desc.source = real_source(&transformer);
        component.source = real_source(&file);
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", cases[i].name, err.message)) {
            dit_model_get_info(model, &info);
            counted = (double)info.parameters[DIT_ROLE_VAE] / 1e6;
            CHECK_MESSAGE(fabs(counted - cases[i].millions) <= 0.1, "%s: %.2f million parameters, not %.1f",
                          cases[i].name, counted, cases[i].millions);
        }
        dit_model_destroy(model);
        real_free(&transformer);
        real_free(&file);
    }
}

static void vae_ltx_timed(real_file *file) {
    vae_ltx2(file);
    real_vector(file, 1, 0, "decoder.timestep_scale_multiplier", "decoder.timestep_scale_multiplier", 0, "");
}

typedef struct config_folder {
    real_file file;
    char config[80];
} config_folder;

static dit_result open_config_folder(const char *member, dit_source *out, void *user) {
    config_folder *folder = user;
    memset(out, 0, sizeof *out);
    if (diti_equal(member, "diffusion_pytorch_model.safetensors")) *out = real_source(&folder->file);
    if (diti_equal(member, "config.json")) out->data = folder->config, out->size = strlen(folder->config);
    return out->size ? DIT_OK : DIT_ERROR_IO;
}

/* LTX-Video and LTX-2 have as many channels in their latents, and each its own autoencoders. */
static void test_foreign_autoencoders(void) {
    static const struct {
        void (*transformer)(real_file *file), (*vae)(real_file *file);
        const char *class_name, *title;
    } cases[] = {{published_ltx2, vae_ltx, NULL, "LTX-Video"},
                 {published_ltx23, vae_ltx_timed, NULL, "LTX-Video"},
                 {published_ltx2, vae_ltx23, "AutoencoderKLLTXVideo", "LTX-Video"},
                 {published_ltx_2b, vae_ltx2, NULL, "LTX-2"},
                 {published_ltx_13b, vae_ltx23, NULL, "LTX-2"},
                 {published_ltx_2b, vae_ltx, "AutoencoderKLLTX2Video", "LTX-2"},
                 {published_ltx_13b, vae_ltx_timed, NULL, NULL},
                 {published_ltx23, vae_ltx2, "AutoencoderKLLTX2Video", NULL}};
    char told[80];
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        real_file transformer = {0};
        config_folder folder = {0};
        dit_component component = {{0}, DIT_ROLE_VAE, 0, false, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        const char *title = cases[i].title, *name = cases[i].class_name;
        transformer.type = folder.file.type = DIT_TYPE_BF16;
        cases[i].transformer(&transformer);
        cases[i].vae(&folder.file);
        desc.source = real_source(&transformer);
        diti_format(folder.config, sizeof folder.config, "{\"_class_name\":\"%s\"}", name ? name : "");
        component.source.open = open_config_folder;
        component.source.user = &folder;
        if (!name) component.source = real_source(&folder.file);
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        diti_format(told, sizeof told, "the VAE is that of %s; ", title ? title : "");
        CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == (title ? DIT_ERROR_UNSUPPORTED_MODEL : DIT_OK) &&
                          (!title || strstr(err.message, told)),
                      "case %u: %s", (unsigned)i, err.message);
        dit_model_destroy(model);
        real_free(&transformer);
        real_free(&folder.file);
    }
}

/* ---- defaults that config.json and tensors tell ---- */

static void small_hunyuanvideo15(real_file *file) { real_hunyuanvideo15(file, 128, 2, 64); }
static void small_hunyuanvideo15_flow(real_file *file) {
    small_hunyuanvideo15(file);
    real_embedder(file, 128, 128, 256, "time_embed.timestep_embedder_r", "time_r_in.mlp.%u");
}

static void small_kandinsky(real_file *file) { real_kandinsky(file, 64, 128, 32, 48, 48, 32, 16, 1, 1); }
static void small_minimax(real_file *file) { real_minimax(file, 64, 128, 96, 32, 32, 16, 48, 1); }
static void small_minimax_pruned(real_file *file) { real_minimax(file, 64, 128, 96, 32, 0, 16, 48, 1); }
static void narrow_minimax(real_file *file) { real_minimax(file, 64, 128, 96, 16, 32, 16, 48, 1); }
static void small_kandinsky_t2v(real_file *file) { real_kandinsky(file, 64, 128, 32, 48, 48, 32, 33, 1, 1); }

#define SKYREELS "{\"_class_name\":\"SkyReelsV2Transformer3DModel\",\"attention_head_dim\":128}"
static void tiny_wan(real_file *file) { real_wan(file, 128, 2, 256, 16, 16, 0); }
static void tiny_wan_i2v(real_file *file) { real_wan(file, 128, 2, 256, 36, 16, 1280); }

/* The headers of a folder with that config.json; NULL: of a single file. */
static dit_result load_told(config_folder *folder, void (*make)(real_file *file), const char *config, dit_model **model,
                            dit_error *err) {
    dit_model_desc desc = {0};
    folder->file.type = DIT_TYPE_F16;
    make(&folder->file);
    if (config) diti_format(folder->config, sizeof folder->config, "%s", config);
    desc.source.open = open_config_folder;
    desc.source.user = folder;
    if (!config) desc.source = real_source(&folder->file);
    desc.dry_run = true;
    return dit_model_load(NULL, &desc, model, err);
}

/* A HunyuanVideo 1.5 is told by its config.json, a step-distilled one by its tensors as well; a Kandinsky for clips by
   the channels that it reads; SkyReels V2 by its class. */
static void test_told_defaults(void) {
    static const struct {
        void (*make)(real_file *file);
        const char *config, *variant; /* config NULL: a single file */
        uint32_t steps;
        double guidance, shift;
    } cases[] = {{small_hunyuanvideo15, NULL, "1.5", 50, 6, 5},
                 {small_hunyuanvideo15, "{\"ideal_resolution\":\"480p\",\"ideal_task\":\"t2v\"}", "480p", 50, 6, 5},
                 {small_hunyuanvideo15, "{\"ideal_resolution\":\"720p\",\"ideal_task\":\"t2v\"}", "720p", 50, 6, 9},
                 {small_hunyuanvideo15, "{\"target_size\":640,\"task_type\":\"i2v\"}", "i2v-480p", 50, 6, 5},
                 {small_hunyuanvideo15, "{\"target_size\":960,\"task_type\":\"i2v\"}", "i2v-720p", 50, 6, 7},
                 {tiny_wan, NULL, "t2v-1.3b", 50, 5, 3},
                 {tiny_wan, SKYREELS, "skyreels-v2-t2v", 50, 6, 8},
                 {tiny_wan_i2v, SKYREELS, "skyreels-v2-i2v", 50, 5, 5},
                 {small_kandinsky, NULL, "5.0-t2i", 50, 3.5, 3},
                 {small_kandinsky_t2v, NULL, "5.0-t2v", 50, 5, 10},
                 {small_minimax, "{\"rope_freq_dim\":4}", "h3", 49, 1, 12},
                 {small_minimax_pruned, "{\"rope_freq_dim\":4}", "h3-pruned", 49, 1, 12},
                 {small_hunyuanvideo15_flow, NULL, "i2v-480p", 8, 1, 7},
                 {small_hunyuanvideo15_flow, "{\"target_size\":640,\"task_type\":\"i2v\"}", "i2v-480p", 8, 1, 7}};
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        config_folder folder = {0};
        dit_model_info info = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        double shift = 0;
        if (CHECK_MESSAGE(load_told(&folder, cases[i].make, cases[i].config, &model, &err) == DIT_OK, "case %u: %s",
                          (unsigned)i, err.message)) {
            dit_model_get_info(model, &info);
            shift =
                diti_json_number(model->scheduler, "shift", 0) + diti_json_number(model->scheduler, "flow_shift", 0);
            if (model->transformer->traits.fixed_shift > 0) shift = model->transformer->traits.fixed_shift;
        }
        CHECK_MESSAGE(diti_equal(info.variant, cases[i].variant) && info.default_steps == cases[i].steps &&
                          (double)info.default_guidance == cases[i].guidance && shift == cases[i].shift,
                      "case %u: %s, %u steps, guidance %g, shift %g", (unsigned)i, info.variant,
                      (unsigned)info.default_steps, (double)info.default_guidance, shift);
        dit_model_destroy(model);
        real_free(&folder.file);
    }
}

static void edits_kandinsky(real_file *file) { real_kandinsky(file, 2560, 128, 32, 48, 48, 128, 33, 1, 1); }

/* Models that look like those above, and compute something else. */
static void test_told_refusals(void) {
    static const struct {
        void (*make)(real_file *file);
        const char *config, *says; /* config NULL: a single file */
    } cases[] = {{edits_kandinsky, NULL, "edit a picture"},
                 {small_minimax, NULL, "of which 96 rotate"},
                 {narrow_minimax, "{\"rope_freq_dim\":4}", "of which 24 rotate"},
                 {small_minimax, "{\"rope_freq_dim\":4,\"in_channels\":48}", "only patches of 2 x 2"},
                 {small_kandinsky_t2v, "{\"attention_type\":\"nabla\",\"axes_dims\":[8,12,12]}", "attention_type"},
                 {tiny_wan, "{\"attention_head_dim\":128,\"inject_sample_info\":true}", "inject_sample_info"},
                 {tiny_wan, "{\"attention_head_dim\":128,\"num_frame_per_block\":5}", "frames block by block"}};
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        config_folder folder = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        CHECK_MESSAGE(load_told(&folder, cases[i].make, cases[i].config, &model, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                          strstr(err.message, cases[i].says),
                      "case %u: %s", (unsigned)i, err.message);
        dit_model_destroy(model);
        real_free(&folder.file);
    }
}

/* ---- what stands between encoders and transformer ---- */

/* Connectors of LTX-2.3 for that transformer: blocks of one layer, and what stands in front of them. */
static void small_connectors(real_file *file, uint64_t unit) {
    static const char *const layers[] = {"to_q", "to_k", "to_v", "to_out.0", "to_gate_logits"};
    uint32_t s, k;
    for (s = 0; s < 2; s++) {
        const uint64_t width = s ? 16 * unit : 32 * unit;
        const char *block = s ? "audio_embeddings_connector.transformer_1d_blocks.0"
                              : "video_embeddings_connector.transformer_1d_blocks.0";
        for (k = 0; k < 5; k++) {
            char name[40];
            diti_format(name, sizeof name, "attn1.%s", layers[k]);
            real_named_layer(file, k == 4 ? 4 : width, width, block, name, 0);
        }
        real_named_norm(file, width, false, block, "attn1.q_norm", 0);
        real_named_norm(file, width, false, block, "attn1.k_norm", 0);
        real_named_layer(file, 4 * width, width, block, "ff.net.0.proj", 0);
        real_named_layer(file, width, 4 * width, block, "ff.net.2", 0);
        real_rows(file, 8, width,
                  s ? "audio_embeddings_connector.learnable_registers"
                    : "video_embeddings_connector.learnable_registers");
    }
}
static void small_projection(real_file *file, uint64_t unit) {
    real_named_layer(file, 32 * unit, 3840 * 2, "text_embedding_projection", "video_aggregate_embed", 0);
    real_named_layer(file, 16 * unit, 3840 * 2, "text_embedding_projection", "audio_aggregate_embed", 0);
}

/* Connectors of LTX-2.3 are in the transformer's file, whole or without what stands in front of them, which is a file
   of its own, or are a file of their own. */
static void test_connectors(void) {
    enum { UNIT = 8, IN_FILE = 1, FRONT_IN_FILE = 2, FRONT = 4, BLOCKS = 8 };
    static const struct {
        unsigned has;
        dit_role role; /* of the transformer's file */
        bool found;
        const char *refused;
    } cases[] = {{IN_FILE | FRONT_IN_FILE, DIT_ROLE_NONE, true, NULL},
                 {IN_FILE | FRONT_IN_FILE, DIT_ROLE_TRANSFORMER, true, NULL},
                 {IN_FILE | FRONT, DIT_ROLE_NONE, true, NULL},
                 {IN_FILE | FRONT, DIT_ROLE_TRANSFORMER, true, NULL},
                 {FRONT | BLOCKS, DIT_ROLE_TRANSFORMER, true, NULL},
                 {IN_FILE, DIT_ROLE_NONE, false, NULL},
                 {IN_FILE, DIT_ROLE_TRANSFORMER, false, NULL},
                 {0, DIT_ROLE_TRANSFORMER, false, NULL},
                 {FRONT, DIT_ROLE_TRANSFORMER, false, "without their blocks (video_embeddings_connector"},
                 {BLOCKS, DIT_ROLE_TRANSFORMER, false, "without what reads the text encoder (text_embedding_proj"}};
    const size_t count = sizeof cases / sizeof *cases;
    uint64_t parameters = 0;
    size_t i, k;
    for (k = 0; k < 2 * count; k++) { /* of safetensors, then of a GGUF */
        real_file files[2] = {{0}, {0}};
        dit_component parts[2];
        dit_model_desc desc = {0};
        dit_model_info info = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        bool apart;
        dit_result result;
        i = k % count;
        apart = cases[i].role != DIT_ROLE_NONE;
        memset(parts, 0, sizeof parts);
        files[0].container = k < count ? REAL_SAFETENSORS : REAL_GGUF;
        files[0].type = files[1].type = DIT_TYPE_BF16;
        files[0].original = files[1].original = true;
        real_ltx2(&files[0], true, UNIT, 1);
        if (cases[i].has & IN_FILE) small_connectors(&files[0], UNIT);
        if (cases[i].has & FRONT_IN_FILE) small_projection(&files[0], UNIT);
        if (cases[i].has & BLOCKS) small_connectors(&files[1], UNIT);
        if (cases[i].has & FRONT) small_projection(&files[1], UNIT);
        parts[0].source = real_source(&files[0]), parts[0].role = DIT_ROLE_TRANSFORMER;
        if (files[1].count) parts[1].source = real_source(&files[1]);
        parts[1].role = DIT_ROLE_TEXT_2;
        if (!apart) desc.source = parts[0].source;
        desc.components = parts + !apart;
        desc.component_count = apart + (files[1].count > 0);
        desc.dry_run = true;
        result = dit_model_load(NULL, &desc, &model, &err);
        dit_model_get_info(model, &info);
        if (!parameters) parameters = info.parameters[DIT_ROLE_TEXT_2];
        CHECK_MESSAGE(cases[i].refused ? result == DIT_ERROR_UNSUPPORTED_MODEL && strstr(err.message, cases[i].refused)
                                       : result == DIT_OK,
                      "case %u: %s", (unsigned)i, err.message);
        CHECK_MESSAGE(info.parameters[DIT_ROLE_TEXT_2] == (cases[i].found ? parameters : 0) && parameters > 1000000,
                      "case %u: %llu parameters of connectors", (unsigned)i,
                      (unsigned long long)info.parameters[DIT_ROLE_TEXT_2]);
        dit_model_destroy(model);
        real_free(&files[0]);
        real_free(&files[1]);
    }
}

/* Anima's file has the conditioner of its text, whether it is the model or the transformer alone. */
static void test_conditioner(void) {
    static const dit_role roles[] = {DIT_ROLE_NONE, DIT_ROLE_TRANSFORMER};
    static const char *const layers[] = {"self_attn.%c_proj.weight", "cross_attn.%c_proj.weight"},
                             *const norms[] = {"self_attn.q_norm",  "self_attn.k_norm", "cross_attn.q_norm",
                                               "cross_attn.k_norm", "norm_self_attn",   "norm_cross_attn",
                                               "norm_mlp"};
    static const char block[] = "net.llm_adapter.blocks.0";
    uint64_t parameters[2] = {0, 0};
    char name[96], part[40];
    uint32_t i, k;
    for (i = 0; i < 2; i++) {
        real_file file = {0};
        dit_component component = {{0}, DIT_ROLE_TRANSFORMER, 0, false, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model_info info = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        file.type = DIT_TYPE_BF16;
        file.original = true;
        published_anima(&file);
        for (k = 0; k < 8; k++) {
            diti_format(part, sizeof part, layers[k / 4], "qkvo"[k % 4]);
            diti_format(name, sizeof name, "%s.%s", block, part);
            real_rows(&file, 64, 64, name);
        }
        for (k = 0; k < 7; k++) real_named_norm(&file, k < 4 ? 16 : 64, false, block, norms[k], 0);
        real_named_layer(&file, 128, 64, block, "mlp.0", 0);
        real_named_layer(&file, 64, 128, block, "mlp.2", 0);
        real_rows(&file, 32, 1024, "net.llm_adapter.embed.weight");
        real_named_layer(&file, 64, 1024, "net.llm_adapter", "in_proj", 0);
        real_named_layer(&file, 1024, 64, "net.llm_adapter", "out_proj", 0);
        real_named_norm(&file, 1024, false, "net.llm_adapter", "norm", 0);
        component.source = real_source(&file);
        if (roles[i] == DIT_ROLE_NONE) desc.source = component.source;
        desc.components = &component;
        desc.component_count = roles[i] != DIT_ROLE_NONE;
        desc.dry_run = true;
        CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message);
        dit_model_get_info(model, &info);
        parameters[i] = info.parameters[DIT_ROLE_TEXT_2];
        dit_model_destroy(model);
        real_free(&file);
    }
    CHECK_MESSAGE(parameters[0] > 50000 && parameters[0] == parameters[1], "%llu and %llu parameters",
                  (unsigned long long)parameters[0], (unsigned long long)parameters[1]);
}

/* ---- whole pipelines: in one file, or of one file per part ---- */

#define T5_XXL (4762310656u - 32 * 64) /* without the table of relative positions, which stays on the host */

typedef struct part {
    dit_role role;
    void (*make)(real_file *file);
    const char *prefix;  /* in a file of all parts */
    uint64_t parameters; /* as transformers and diffusers count them; 0: not checked */
} part;

typedef struct pipeline {
    const char *name;
    part parts[5]; /* the transformer first */
} pipeline;

static const pipeline pipelines[] = {
    {"SD3-medium",
     {{DIT_ROLE_TRANSFORMER, published_sd3_medium, "model.diffusion_model.", 0},
      {DIT_ROLE_TEXT_1, published_clip_l, "text_encoders.clip_l.transformer.", 123060480 + 768 * 768},
      {DIT_ROLE_TEXT_2, published_clip_g, "text_encoders.clip_g.transformer.", 694659840},
      {DIT_ROLE_TEXT_3, published_t5_xxl, "text_encoders.t5xxl.transformer.", T5_XXL},
      {DIT_ROLE_VAE, published_vae_16, "first_stage_model.", 83819683}}},
    {"FLUX.1-dev",
     {{DIT_ROLE_TRANSFORMER, published_flux_dev, "model.diffusion_model.", 0},
      {DIT_ROLE_TEXT_1, published_clip_l_bare, "text_encoders.clip_l.transformer.", 123060480},
      {DIT_ROLE_TEXT_2, published_t5_xxl, "text_encoders.t5xxl.transformer.", T5_XXL},
      {DIT_ROLE_VAE, published_vae_16, "vae.", 83819683},
      {DIT_ROLE_NONE, NULL, NULL, 0}}},
    {"PixArt-Sigma",
     {{DIT_ROLE_TRANSFORMER, published_pixart_sigma, NULL, 0},
      {DIT_ROLE_TEXT_1, published_t5_xxl, NULL, T5_XXL},
      {DIT_ROLE_VAE, published_vae_sd, NULL, 83653863},
      {DIT_ROLE_NONE, NULL, NULL, 0},
      {DIT_ROLE_NONE, NULL, NULL, 0}}},
    {"HunyuanDiT",
     {{DIT_ROLE_TRANSFORMER, published_hunyuandit_v12, NULL, 0},
      {DIT_ROLE_TEXT_1, published_bert_large, NULL, 350986240},
      {DIT_ROLE_TEXT_2, published_mt5_xl, NULL, 1669957632},
      {DIT_ROLE_VAE, published_vae_sd, NULL, 83653863},
      {DIT_ROLE_NONE, NULL, NULL, 0}}},
};

/* Checks the memory that a job at the model's own size would take. The job is planned without a device, and no data is
   read for it. */
static void check_memory(const pipeline *p, const dit_model *model, const dit_model_info *info, const char *how) {
    dit_job_desc desc = {0};
    dit_memory memory;
    dit_error err = {0};
    desc.model = model;
    if (!CHECK_MESSAGE(dit_job_memory(NULL, &desc, &memory, &err) == DIT_OK, "%s, %s: %s", p->name, how, err.message))
        return;
    CHECK(memory.weights == info->weight_bytes && memory.peak >= memory.weights + memory.activations);
    CHECK_MESSAGE(memory.activations > (VkDeviceSize)1 << 26 && memory.activations < (VkDeviceSize)1 << 35,
                  "%s, %s: %llu bytes of activations", p->name, how, (unsigned long long)memory.activations);
    if (strcmp(how, "files with roles") != 0) return;
    /* the decoder's largest tensor has 256 floats a pixel: 3.5 GiB, within the 4 GiB less 2 MiB of ordinary devices,
       and 4 GiB, beyond them, unless there are tiles */
    desc.width = desc.height = 1920;
    if (CHECK_MESSAGE(dit_job_memory(NULL, &desc, &memory, &err) == DIT_OK, "%s, 1920 x 1920: %s", p->name,
                      err.message))
        CHECK_MESSAGE(memory.activations > (VkDeviceSize)3 << 30 && memory.activations < (VkDeviceSize)1 << 35,
                      "%s, 1920 x 1920: %llu bytes of activations", p->name, (unsigned long long)memory.activations);
    desc.width = desc.height = 2048;
    CHECK(dit_job_memory(NULL, &desc, &memory, &err) == DIT_ERROR_OUT_OF_DEVICE_MEMORY &&
          strstr(err.message, "vae_tile"));
    desc.vae_tile = 1024;
    CHECK_MESSAGE(dit_job_memory(NULL, &desc, &memory, &err) == DIT_OK, "%s, 2048 x 2048: %s", p->name, err.message);
}

static void check_pipeline(const pipeline *p, const dit_model_desc *desc, const char *how) {
    dit_model *model = NULL;
    dit_model_info info;
    dit_error err = {0};
    size_t i;
    if (!CHECK_MESSAGE(dit_model_load(NULL, desc, &model, &err) == DIT_OK, "%s, %s: %s", p->name, how, err.message))
        return;
    dit_model_get_info(model, &info);
    for (i = 0; i < 5 && p->parts[i].make; i++) {
        uint64_t counted = info.parameters[p->parts[i].role], published = p->parts[i].parameters;
        CHECK_MESSAGE(published ? counted == published : counted > 0, "%s, %s: part %u has %llu parameters, not %llu",
                      p->name, how, (unsigned)i, (unsigned long long)counted, (unsigned long long)published);
    }
    check_memory(p, model, &info, how);
    dit_model_destroy(model);
}

static void check_one_file(const pipeline *p) {
    real_file file = {0};
    dit_model_desc desc = {0};
    size_t i;
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_F16;
    file.original = true;
    for (i = 0; i < 5 && p->parts[i].make; i++) {
        file.prefix = p->parts[i].prefix;
        p->parts[i].make(&file);
    }
    desc.source = real_source(&file);
    desc.dry_run = true;
    check_pipeline(p, &desc, "one file");
    real_free(&file);
}

/* Opens files with roles, and without: then each file has to be recognised by its content. */
static void check_files(const pipeline *p, bool roles) {
    real_file files[5] = {{0}};
    dit_component components[4] = {{{0}, DIT_ROLE_NONE, 0, false, DIT_ROLE_NONE}};
    dit_model_desc desc = {0};
    size_t i;
    for (i = 0; i < 5 && p->parts[i].make; i++) {
        dit_source source;
        files[i].type = DIT_TYPE_F16;
        files[i].original = true;
        p->parts[i].make(&files[i]);
        source = real_source(&files[i]);
        if (i == 0) {
            desc.source = source;
            continue;
        }
        components[i - 1].source = source;
        components[i - 1].role = roles ? p->parts[i].role : DIT_ROLE_NONE;
        desc.component_count++;
    }
    desc.components = components;
    desc.dry_run = true;
    check_pipeline(p, &desc, roles ? "files with roles" : "files without roles");
    for (i = 0; i < 5; i++) real_free(&files[i]);
}

static void test_pipelines(void) {
    size_t i;
    for (i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        if (pipelines[i].parts[0].prefix) check_one_file(&pipelines[i]);
        check_files(&pipelines[i], true);
        check_files(&pipelines[i], false);
    }
}

/* ---- text encoders ---- */

/* Files of ComfyUI and stable-diffusion.cpp that hold a whole pipeline name the text encoder by its kind. */
static void test_named_encoders(void) {
    static const struct {
        const char *prefix;
        void (*transformer)(real_file *file);
        real_decoder_shape shape; /* no layers: umT5 XXL */
    } cases[] = {
        {"text_encoders.umt5xxl.transformer.", published_wan_14b, {NULL, 0, 0, 0, 0, 0, 0, 0, false, false, false}},
        {"text_encoders.qwen3_4b.transformer.",
         published_zimage,
         {"model.", 256, 2560, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.qwen3_4b.transformer.",
         published_klein_4b,
         {"model.", 256, 2560, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.qwen3_8b.transformer.",
         published_klein_9b,
         {"model.", 256, 4096, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.mistral3_24b.transformer.",
         published_flux2_dev,
         {"model.", 131072, 5120, 128, 40, 2, 1, 128, false, false, false}},
        {"text_encoders.ministral3_3b.transformer.",
         published_ernie,
         {"model.", 131072, 3072, 128, 26, 2, 1, 128, false, false, false}},
        {"text_encoders.qwen3_2b.transformer.",
         published_ovis,
         {"model.", 256, 2048, 128, 28, 2, 1, 128, true, false, false}},
        {"text_encoders.qwen3vl_4b.transformer.",
         published_krea2,
         {"model.", 256, 2560, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.qwen3vl_8b.transformer.",
         published_ideogram4,
         {"model.", 256, 4096, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.qwen25_7b.transformer.",
         published_longcat,
         {"model.", 256, 3584, 128, 28, 2, 1, 128, false, true, false}},
        {"text_encoders.qwen25_7b.transformer.",
         published_qwenimage,
         {"model.", 256, 3584, 128, 28, 2, 1, 128, false, true, false}},
        {"text_encoders.gemma2_2b.transformer.",
         published_lumina2,
         {"model.", 256, 2304, 128, 26, 2, 1, 256, false, false, true}},
        {"text_encoders.llama.transformer.",
         published_hunyuanvideo,
         {"model.", 256, 4096, 128, 32, 2, 1, 128, false, false, false}},
        {"text_encoders.llm.", published_zimage, {"model.", 256, 2560, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.llm.", published_ideogram4, {"model.", 256, 4096, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.llm.", published_boogu, {"model.", 256, 4096, 128, 36, 2, 1, 128, true, false, false}},
        {"text_encoders.llm.", published_qwenimage, {"model.", 256, 3584, 128, 28, 2, 1, 128, false, true, false}},
        {"text_encoders.llm.", published_flux2_dev, {"model.", 256, 5120, 128, 40, 2, 1, 128, false, false, false}},
    };
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        real_file file = {0};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_model_info info = {0};
        dit_error err = {0};
        file.container = REAL_SAFETENSORS;
        file.type = DIT_TYPE_BF16;
        file.original = true;
        file.prefix = "model.diffusion_model.";
        cases[i].transformer(&file);
        file.prefix = cases[i].prefix;
        if (cases[i].shape.layers)
            real_decoder(&file, &cases[i].shape);
        else
            real_t5(&file, 256384, 4096, 10240, 24, 64);
        desc.source = real_source(&file);
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", cases[i].prefix, err.message))
            dit_model_get_info(model, &info);
        CHECK_MESSAGE(info.parameters[DIT_ROLE_TEXT_1] > 0, "%s (case %u)", cases[i].prefix, (unsigned)i);
        CHECK(!info.places[DIT_ROLE_NONE] && !dit_model_distilled(NULL));
        CHECK_MESSAGE(!dit_model_distilled(model) ==
                          (cases[i].transformer != published_ernie && cases[i].transformer != published_ideogram4 &&
                           cases[i].transformer != published_longcat && cases[i].transformer != published_boogu),
                      "%s of %s: %s", cases[i].prefix, info.family, dit_model_distilled(model));
        if (model && info.parameters[DIT_ROLE_TEXT_1] &&
            cases[i].shape.head_norms) { /* files say nothing of rotations; the transformer tells Qwen3-VL */
            const diti_decoder_config *config = &((const diti_decoder *)model->encoders[0].self)->config;
            bool sees = diti_equal(info.encoders[0], "Qwen3-VL");
            CHECK_MESSAGE(config->theta == (sees ? 5e6f : 1e6f), "%s of %s rotates by %g", cases[i].prefix, info.family,
                          (double)config->theta);
        }
        if (model && cases[i].shape.words == 131072) { /* Mistral's, whose file says nothing of rotations */
            const diti_decoder_config *config = &((const diti_decoder *)model->encoders[0].self)->config;
            bool ministral = cases[i].shape.width == 3072;
            CHECK_MESSAGE(config->theta == (ministral ? 1e6f : 1e9f) && config->stretch == (ministral ? 16 : 0),
                          "%s rotates by %g, stretched %g times", cases[i].prefix, (double)config->theta,
                          config->stretch);
        }
        dit_model_destroy(model);
        real_free(&file);
    }
}

typedef struct foreign_encoder {
    const char *type; /* config.json's model_type; NULL: the file is alone */
    dit_source weights;
    char config[64];
} foreign_encoder;

static dit_result foreign_open(const char *member, dit_source *out, void *user) {
    foreign_encoder *from = user;
    if (!strcmp(member, "model.safetensors")) {
        *out = from->weights;
        return DIT_OK;
    }
    if (strcmp(member, "config.json")) return DIT_ERROR_IO;
    snprintf(from->config, sizeof from->config, "{\"model_type\": \"%s\"}", from->type);
    out->data = from->config;
    out->size = strlen(from->config);
    return DIT_OK;
}

/* A text encoder of another kind and the wanted width is refused where its tensors or its config.json tell it. */
static void test_foreign_encoders(void) {
    static const struct {
        void (*transformer)(real_file *file);
        const char *type; /* foreign_encoder.type */
        const char *wanted, *found;
        real_decoder_shape shape; /* no layers: a T5 of so many words and columns */
        dit_role role;            /* 0: DIT_ROLE_TEXT_1 */
    } cases[] = {
        {published_zimage, NULL, "Qwen3", "Qwen2.5", {"", 9, 2560, 128, 36, 2, 1, 128, false, true, false}, 0},
        {published_zimage, NULL, "Qwen3", "LLaMA", {"", 9, 2560, 128, 36, 2, 1, 128, false, false, false}, 0},
        {published_zimage, NULL, "Qwen3", "Gemma 3", {"", 9, 2560, 128, 36, 2, 1, 256, true, false, true}, 0},
        {published_zimage, "qwen3_vl", "Qwen3", "Qwen3-VL", {"", 9, 2560, 128, 36, 2, 1, 128, true, false, false}, 0},
        {published_ideogram4, "qwen3", "Qwen3-VL", "Qwen3", {"", 9, 4096, 128, 36, 2, 1, 128, true, false, false}, 0},
        {published_qwenimage, NULL, "Qwen2.5-VL", "Qwen3", {"", 9, 3584, 128, 28, 2, 1, 128, true, false, false}, 0},
        {published_qwenimage, "qwen2", "Qwen2.5-VL", "Qwen2.5", {"", 9, 3584, 9, 28, 2, 1, 128, false, true, false}, 0},
        {published_flux2_dev, NULL, "Mistral", "Qwen3", {"", 9, 5120, 128, 40, 2, 1, 128, true, false, false}, 0},
        {published_flux2_dev, NULL, "Mistral", "LLaMA", {"", 128256, 5120, 9, 40, 2, 1, 128, false, false, false}, 0},
        {published_hunyuanvideo, NULL, "LLaMA", "Mistral", {"", 131072, 4096, 9, 32, 2, 1, 128, 0, false, false}, 0},
        {published_lumina2, NULL, "Gemma 2", "Gemma 3", {"", 9, 2304, 128, 26, 2, 1, 256, true, false, true}, 0},
        {published_chroma, NULL, "T5", "umT5", {NULL, 256384, 4096, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
        {published_flux_dev, NULL, "T5", "mT5", {NULL, 250112, 4096, 0, 0, 0, 0, 0, 0, 0, 0}, DIT_ROLE_TEXT_2},
        {published_wan_14b, NULL, "umT5", "T5", {NULL, 32128, 4096, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
        {published_hunyuandit_v12, NULL, "mT5", "T5", {NULL, 32128, 2048, 0, 0, 0, 0, 0, 0, 0, 0}, DIT_ROLE_TEXT_2},
        /* these are no others */
        {published_zimage, "qwen3", "Qwen3", NULL, {"", 9, 2560, 128, 36, 2, 1, 128, true, false, false}, 0},
        {published_krea2, "qwen3_vl", "Qwen3-VL", NULL, {"", 9, 2560, 128, 36, 2, 1, 128, true, false, false}, 0},
        {published_qwenimage, "qwen2_5_vl", "Qwen2.5-VL", NULL, {"", 9, 3584, 9, 28, 2, 1, 128, 0, true, false}, 0},
        {published_flux2_dev, "mistral3", "Mistral", NULL, {"", 131072, 5120, 9, 40, 2, 1, 128, 0, false, false}, 0},
    };
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        real_file file = {0}, encoder = {0};
        foreign_encoder folder = {cases[i].type, {0}, ""};
        dit_component component = {{0}, cases[i].role ? cases[i].role : DIT_ROLE_TEXT_1, 0, false, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_model_info info = {0};
        dit_error err = {0};
        char text[96];
        dit_result result;
        file.container = encoder.container = REAL_SAFETENSORS;
        file.type = encoder.type = DIT_TYPE_BF16;
        file.original = true;
        cases[i].transformer(&file);
        if (cases[i].shape.before)
            real_decoder(&encoder, &cases[i].shape);
        else
            real_t5(&encoder, cases[i].shape.words, cases[i].shape.width, 128, 24, 64);
        desc.source = real_source(&file);
        folder.weights = component.source = real_source(&encoder);
        if (folder.type) {
            memset(&component.source, 0, sizeof component.source);
            component.source.open = foreign_open;
            component.source.user = &folder;
        }
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        result = dit_model_load(NULL, &desc, &model, &err);
        if (cases[i].found) {
            diti_format(text, sizeof text, "no %s, which the text_encoder%s of this model is, but %s (",
                        cases[i].wanted, cases[i].role ? "_2" : "", cases[i].found);
            if (!folder.type && cases[i].shape.words < 100) text[strlen(text) - 2] = 0; /* its tensors say it */
            CHECK_MESSAGE(result == DIT_ERROR_UNSUPPORTED_MODEL && strstr(err.message, text), "case %u, %s: %s",
                          (unsigned)i, text, result ? err.message : "taken");
        } else if (CHECK_MESSAGE(result == DIT_OK, "case %u: %s", (unsigned)i, err.message)) {
            dit_model_get_info(model, &info);
            CHECK_MESSAGE(info.parameters[DIT_ROLE_TEXT_1] && !strcmp(info.encoders[0], cases[i].wanted), "%s is %s",
                          cases[i].wanted, info.encoders[0]);
        }
        dit_model_destroy(model);
        real_free(&file);
        real_free(&encoder);
    }
}

/* ---- adapters ---- */

/* kohya's scripts call T5 the third text encoder, though it is FLUX.1's second one, and ComfyUI names encoders by their
   kinds. Adapters fit by all these names, beside the weights and merged. */
static void test_encoders_of_adapters(void) {
    static const struct {
        const char *name;
        uint32_t columns;
    } modules[] = {{"lora_te2_encoder_block_0_layer_0_SelfAttention_q", 4096},
                   {"lora_te3_encoder_block_0_layer_0_SelfAttention_q", 4096},
                   {"text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q", 4096},
                   {"text_encoders.clip_l.transformer.text_model.encoder.layers.0.self_attn.q_proj", 768}};
    size_t i;
    for (i = 0; i < 2 * DITI_COUNT(modules); i++) {
        real_file file = {0};
        lora_file lora = {0};
        dit_component component = {{0}, DIT_ROLE_LORA, 0, i % 2 != 0, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_lora_info info = {0};
        dit_error err = {0};
        char name[112];
        file.container = REAL_SAFETENSORS;
        file.type = DIT_TYPE_F16;
        file.original = true;
        file.prefix = "model.diffusion_model.";
        published_flux_dev(&file);
        file.prefix = "text_encoders.clip_l.transformer.";
        published_clip_l_bare(&file);
        file.prefix = "text_encoders.t5xxl.transformer.";
        published_t5_xxl(&file);
        diti_format(name, sizeof name, "%s.lora_down.weight", modules[i / 2].name);
        lora_file_matrix(&lora, name, 1, modules[i / 2].columns, 0.1, 1);
        diti_format(name, sizeof name, "%s.lora_up.weight", modules[i / 2].name);
        lora_file_matrix(&lora, name, modules[i / 2].columns, 1, 0.1, 2);
        component.source = lora_file_source(&lora);
        desc.source = real_source(&file);
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", name, err.message))
            CHECK_MESSAGE(dit_model_lora(model, 0, &info) == DIT_OK && info.modules == 1 && !info.left_out,
                          "%s, merged %d: %u modules, %u left out", name, component.merge, info.modules, info.left_out);
        dit_model_destroy(model);
        lora_file_free(&lora);
        real_free(&file);
    }
}

/* Adapters of Ovis-Image have diffusers' names, the original's or ComfyUI's, and so has the transformer. */
static void test_adapters_of_ovis(void) {
    static const struct {
        const char *name;
        uint32_t rows, columns;
    } modules[] = {{"diffusion_model.double_blocks.0.img_mlp.up_proj", 12288, 3072},
                   {"diffusion_model.double_blocks.0.txt_mlp.gate_proj", 12288, 3072},
                   {"transformer.transformer_blocks.0.ff.net.0.proj", 24576, 3072},
                   {"diffusion_model.txt_in", 3072, 2048},
                   {"diffusion_model.semantic_txt_in", 3072, 2048},
                   {"transformer.context_embedder", 3072, 2048}};
    size_t i;
    for (i = 0; i < 2 * DITI_COUNT(modules); i++) {
        real_file file = {0};
        lora_file lora = {0};
        dit_component component = {{0}, DIT_ROLE_LORA, 0, false, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_lora_info info = {0};
        dit_error err = {0};
        char name[96];
        file.container = REAL_SAFETENSORS;
        file.type = DIT_TYPE_F16;
        file.original = i % 2 != 0;
        published_ovis(&file);
        diti_format(name, sizeof name, "%s.lora_A.weight", modules[i / 2].name);
        lora_file_matrix(&lora, name, 1, modules[i / 2].columns, 0.1, 1);
        diti_format(name, sizeof name, "%s.lora_B.weight", modules[i / 2].name);
        lora_file_matrix(&lora, name, modules[i / 2].rows, 1, 0.1, 2);
        component.source = lora_file_source(&lora);
        desc.source = real_source(&file);
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", name, err.message))
            CHECK_MESSAGE(dit_model_lora(model, 0, &info) == DIT_OK && info.modules == 1 && !info.left_out,
                          "%s beside %s names: %u modules, %u left out", name,
                          file.original ? "original" : "diffusers'", info.modules, info.left_out);
        dit_model_destroy(model);
        lora_file_free(&lora);
        real_free(&file);
    }
}

static void small_wan(real_file *file) { real_wan(file, 256, 1, 512, 36, 16, 1280); }

/* A step-distillation LoRA of Wan as lightx2v writes it: pairs, and differences of biases, norms, tables and the
   patches' weight. All of them fit a file in either naming; a bias that the model lacks is refused. */
static void test_distilled_wan(void) {
    static const struct {
        const char *name;
        uint64_t rows, columns;
    } tensors[] = {{"blocks.0.self_attn.q.lora_down.weight", 4, 256},
                   {"blocks.0.self_attn.q.lora_up.weight", 256, 4},
                   {"blocks.0.self_attn.q.diff_b", 256, 0},
                   {"blocks.0.self_attn.v.diff_b", 256, 0},
                   {"blocks.0.self_attn.norm_q.diff", 256, 0},
                   {"blocks.0.self_attn.norm_k.diff", 256, 0},
                   {"blocks.0.norm3.diff", 256, 0},
                   {"blocks.0.norm3.diff_b", 256, 0},
                   {"blocks.0.cross_attn.k_img.diff_b", 256, 0},
                   {"blocks.0.cross_attn.norm_k_img.diff", 256, 0},
                   {"blocks.0.ffn.0.diff_b", 512, 0},
                   {"blocks.0.diff_m", 6, 256},
                   {"head.diff_m", 2, 256},
                   {"head.head.diff", 64, 256},
                   {"head.head.diff_b", 64, 0},
                   {"patch_embedding.diff", 256, 144},
                   {"patch_embedding.diff_b", 256, 0},
                   {"img_emb.proj.0.diff", 1280, 0},
                   {"img_emb.proj.4.diff_b", 256, 0},
                   {"text_embedding.0.diff_b", 256, 0},
                   {"time_projection.1.diff_b", 6 * 256, 0}};
    uint32_t i, k;
    for (i = 0; i < 6; i++) { /* beside, merged, and with too much; both namings */
        real_file file = {0};
        lora_file lora = {0};
        dit_component component = {{0}, DIT_ROLE_LORA, 0, i / 2 == 1, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_lora_info info = {0};
        dit_error err = {0};
        dit_result result;
        char name[112];
        file.type = DIT_TYPE_F16;
        file.original = i % 2;
        small_wan(&file);
        for (k = 0; k < DITI_COUNT(tensors); k++) {
            uint64_t rows = tensors[k].rows, columns = tensors[k].columns;
            float *zeros = (float *)calloc((size_t)(rows * (columns ? columns : 1)), sizeof *zeros);
            uint64_t shape[2];
            shape[0] = rows, shape[1] = columns;
            snprintf(name, sizeof name, "diffusion_model.%s", tensors[k].name);
            lora_file_bytes(&lora, name, "F32", shape, columns ? 2 : 1, zeros,
                            (size_t)(rows * (columns ? columns : 1)) * sizeof *zeros);
            free(zeros);
        }
        if (i / 2 == 2) lora_file_matrix(&lora, "diffusion_model.blocks.0.self_attn.norm_q.diff_b", 256, 1, 0.1, 1);
        component.source = lora_file_source(&lora);
        desc.source = real_source(&file);
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        result = dit_model_load(NULL, &desc, &model, &err);
        if (i / 2 == 2)
            CHECK_MESSAGE(result == DIT_ERROR_UNSUPPORTED_MODEL &&
                              strstr(err.message, "norm_q.diff_b changes a bias, and the model's layer has none"),
                          "%s", err.message);
        else if (CHECK_MESSAGE(result == DIT_OK, "%s", err.message))
            CHECK_MESSAGE(dit_model_lora(model, 0, &info) == DIT_OK && info.modules == DITI_COUNT(tensors) - 1 &&
                              !info.left_out && !info.only_merged,
                          "%u: %u modules, %u left out: %s", i, info.modules, info.left_out, info.first_left_out);
        dit_model_destroy(model);
        lora_file_free(&lora);
        real_free(&file);
    }
}

/* Differences of biases that a file has fused and the model in parts, or the other way round. */
static void test_fused_biases(void) {
    static const struct {
        const char *name;
        uint64_t rows;
    } tensors[] = {{"lora_unet_double_blocks_0_img_attn_qkv.diff_b", 9216},
                   {"lora_unet_single_blocks_0_linear1.diff_b", 21504},
                   {"lora_unet_final_layer_adaLN_modulation_1.diff_b", 6144},
                   {"transformer.transformer_blocks.1.attn.to_k.diff_b", 3072},
                   {"transformer.single_transformer_blocks.1.attn.to_v.diff_b", 3072},
                   {"transformer.single_transformer_blocks.1.proj_mlp.diff_b", 12288},
                   {"transformer.single_transformer_blocks.1.attn.norm_q.diff", 128}};
    uint32_t i, k;
    for (i = 0; i < 2; i++) {
        real_file file = {0};
        lora_file lora = {0};
        dit_component component = {{0}, DIT_ROLE_LORA, 0, false, DIT_ROLE_NONE};
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_lora_info info = {0};
        dit_error err = {0};
        file.type = DIT_TYPE_F16;
        file.original = i;
        published_flux_dev(&file);
        for (k = 0; k < DITI_COUNT(tensors); k++) lora_file_matrix(&lora, tensors[k].name, 1, tensors[k].rows, 0.1, 1);
        component.source = lora_file_source(&lora);
        desc.source = real_source(&file);
        desc.components = &component;
        desc.component_count = 1;
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message))
            CHECK_MESSAGE(dit_model_lora(model, 0, &info) == DIT_OK && info.modules == DITI_COUNT(tensors) &&
                              !info.left_out,
                          "%u modules, %u left out: %s", info.modules, info.left_out, info.first_left_out);
        dit_model_destroy(model);
        lora_file_free(&lora);
        real_free(&file);
    }
}

/* ---- named clips ---- */

/* Wan 14B, 81 frames of 1280 x 720: 75,600 tokens of one branch of guidance. Activations are the residual stream in
   F32, queries, keys, values and the result of attention in F16, and keys and values that all blocks keep of the text.
   Both branches in one evaluation would have queries, keys and values of 4.6 GB, more than drivers allocate in one
   piece: those of one branch are made after those of the other, of the norm's results, which stay that long. */
static void test_named_clip(void) {
    const uint64_t rows = 21 * 45 * 80, width = 5120;
    const double least = (double)(rows * width * (4 + 3 * 2 + 2) + 40 * 512 * 2 * width * 2),
                 both = (double)(rows * width * (2 * (4 + 2 + 2) + 3 * 2) + 2 * 40 * 512 * 2 * width * 2);
    real_file file = {0};
    dit_model_desc desc = {0};
    dit_job_desc job = {0};
    dit_memory memory = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_BF16;
    published_wan_14b(&file);
    desc.source = real_source(&file);
    desc.dry_run = true;
    job.prompt = "";
    job.width = 1280;
    job.height = 720;
    job.frame_count = 21; /* without an autoencoder a latent frame is a frame */
    if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message)) {
        job.model = model;
        if (CHECK_MESSAGE(dit_job_memory(NULL, &job, &memory, &err) == DIT_OK, "%s", err.message))
            CHECK_MESSAGE((double)memory.activations >= both && (double)memory.activations < 1.1 * both,
                          "activations of both branches take %.2f GB, at least %.2f", (double)memory.activations / 1e9,
                          both / 1e9);
        job.guidance.scale = 1;
        if (CHECK_MESSAGE(dit_job_memory(NULL, &job, &memory, &err) == DIT_OK, "%s", err.message)) {
            CHECK_MESSAGE((double)memory.activations >= least && (double)memory.activations < 1.1 * least,
                          "activations take %.2f GB, at least %.2f", (double)memory.activations / 1e9, least / 1e9);
        }
    }
    dit_model_destroy(model);
    real_free(&file);
}

int main(void) {
    test_headers();
    test_autoencoders();
    test_foreign_autoencoders();
    test_told_defaults();
    test_told_refusals();
    test_connectors();
    test_conditioner();
    test_pipelines();
    test_named_encoders();
    test_foreign_encoders();
    test_encoders_of_adapters();
    test_adapters_of_ovis();
    test_distilled_wan();
    test_fused_biases();
    test_named_clip();
    return TEST_END("real_headers");
}
