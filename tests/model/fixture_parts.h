/* Transformers, text encoders and autoencoders of the fixtures, each loaded by one function from a file in memory,
   whose header a test may change. */
#ifndef FIXTURE_PARTS_H
#define FIXTURE_PARTS_H
#include "library.h"
#include "files.h"
#include "vulkan_test.h"

#define T5_FILE "tests/fixtures/t5_encoder/model.safetensors"
#define PIXART_FILE "tests/fixtures/pixart_alpha_orig/model.safetensors"
#define TINY_FILE "tests/fixtures/taesd/taesd_decoder.safetensors"
#define DIT_FILE "tests/fixtures/dit_orig/model.safetensors"
#define HUNYUAN_FILE "tests/fixtures/hunyuandit_v12/model.safetensors"
#define VAE_FILE "tests/fixtures/vae_small_groups8_ldm/model.safetensors"
#define SD3_FILE "tests/fixtures/sd35_odd/model.safetensors"
#define FLUX_FILE "tests/fixtures/gguf_flux_sdcpp/model.gguf"
#define CLIP_FILE "tests/fixtures/clip_l_proj/model.safetensors"
#define DECODER_FILE "tests/fixtures/qwen3_text/model.safetensors"
#define BERT_FILE "tests/fixtures/bert/model.safetensors"
#define KL_FILE "tests/fixtures/pipe_dit/vae/diffusion_pytorch_model.safetensors"
#define WAN_FILE "tests/fixtures/wan/model.safetensors"
#define QWENIMAGE_FILE "tests/fixtures/pipe_qwenimage/transformer/diffusion_pytorch_model.safetensors"
#define FLUX2_FILE "tests/fixtures/pipe_flux2_klein/transformer/diffusion_pytorch_model.safetensors"
#define FLUX3_FILE "tests/fixtures/pipe_flux3/transformer/diffusion_pytorch_model.safetensors"
#define QWENIMAGE21_FILE "tests/fixtures/qwenimage21/transformer/diffusion_pytorch_model.safetensors"
#define SANA_FILE "tests/fixtures/sana/model.safetensors"
#define LUMINA2_FILE "tests/fixtures/lumina2/model.safetensors"
#define ZIMAGE_FILE "tests/fixtures/pipe_zimage/transformer/diffusion_pytorch_model.safetensors"
#define ANIMA_FILE "tests/fixtures/pipe_anima/transformer/diffusion_pytorch_model.safetensors"
#define VACE_FILE "tests/fixtures/wan_vace/transformer/diffusion_pytorch_model.safetensors"
#define I2V_FILE "tests/fixtures/wan21_i2v/model.safetensors"
#define COGVIDEOX_FILE "tests/fixtures/cogvideox_5b_i2v/model.safetensors"
#define LTX_FILE "tests/fixtures/ltx/model.safetensors"
#define KANDINSKY_FILE "tests/fixtures/pipe_kandinsky/transformer/diffusion_pytorch_model.safetensors"
#define HUNYUANVIDEO_FILE "tests/fixtures/hunyuanvideo/model.safetensors"
#define HUNYUANVIDEO_VAE_FILE "tests/fixtures/vae_hunyuanvideo/model.safetensors"
#define LTX_VAE_FILE "tests/fixtures/vae_ltx_mixed/model.safetensors"

/* --- files changed in memory --- */

typedef struct image { /* a file in memory, which the checkpoint reads */
    char *bytes;
    size_t size;
    diti_checkpoint *checkpoint;
} image;

/* Replaces every occurrence of from in the header by to, which is as long. */
static void image_replace(image *file, const char *from, const char *to) {
    size_t i, length = strlen(from), header = 8 + (size_t) * (const uint64_t *)(const void *)file->bytes;
    int found = 0;
    CHECK(strlen(to) == length);
    for (i = 8; i + length <= header; i++) {
        if (memcmp(file->bytes + i, from, length) != 0) continue;
        memcpy(file->bytes + i, to, length);
        found++;
    }
    CHECK_MESSAGE(found > 0, "%s is not in the header", from);
}

static image image_open(const diti_env *env, const char *path, const char *from, const char *to) {
    image file = DITI_ZERO;
    dit_source source = DITI_ZERO;
    dit_error err = DITI_ZERO;
    file.bytes = test_read_file(path, &file.size);
    if (!CHECK_MESSAGE(file.bytes != NULL, "cannot read %s", path)) exit(test_end("fixture_parts"));
    if (from) image_replace(&file, from, to);
    source.data = file.bytes;
    source.size = file.size;
    CHECK_MESSAGE(diti_checkpoint_open(env, &source, &file.checkpoint, &err) == DIT_OK, "%s", err.message);
    return file;
}

static void image_close(image *file) {
    diti_checkpoint_close(file->checkpoint);
    free(file->bytes);
}

/* --- one function for all components --- */

typedef enum part {
    PART_T5,
    PART_PIXART,
    PART_VAE,
    PART_SD3,
    PART_FLUX,
    PART_DIT,
    PART_HUNYUAN,
    PART_TINY,
    PART_COUNT,
    PART_CLIP = PART_COUNT, /* from here on only among the wrong files */
    PART_BERT,
    PART_DECODER,
    PART_KL,
    PART_WAN,
    PART_QWENIMAGE,
    PART_ANIMA,
    PART_LUMINA2,
    PART_ZIMAGE,
    PART_FLUX2,
    PART_FLUX3,
    PART_QWENIMAGE21,
    PART_SANA,
    PART_I2V,
    PART_VACE,
    PART_COGVIDEOX,
    PART_LTX,
    PART_KANDINSKY,
    PART_HUNYUANVIDEO,
    PART_HUNYUANVIDEO_VAE,
    PART_LTX_VAE,
    PART_LAST
} part;
static const char *const part_files[PART_LAST] = {
    T5_FILE,     PIXART_FILE,  VAE_FILE,       SD3_FILE,     FLUX_FILE,      DIT_FILE,          HUNYUAN_FILE,
    TINY_FILE,   CLIP_FILE,    BERT_FILE,      DECODER_FILE, KL_FILE,        WAN_FILE,          QWENIMAGE_FILE,
    ANIMA_FILE,  LUMINA2_FILE, ZIMAGE_FILE,    FLUX2_FILE,   FLUX3_FILE,     QWENIMAGE21_FILE,  SANA_FILE,
    I2V_FILE,    VACE_FILE,    COGVIDEOX_FILE, LTX_FILE,     KANDINSKY_FILE, HUNYUANVIDEO_FILE, HUNYUANVIDEO_VAE_FILE,
    LTX_VAE_FILE};

typedef struct component {
    diti_t5 *t5;
    diti_transformer *transformer;
    diti_vae *vae;
    diti_clip *clip;
    diti_bert *bert;
    diti_decoder *decoder;
} component;

static dit_result component_load(part which, diti_device *device, const diti_env *env, const diti_checkpoint *file,
                                 const char *config, const dit_progress *progress, component *out, dit_error *err) {
    diti_load_options options = {0};
    diti_json *json = NULL;
    dit_result result = DIT_OK;
    options.progress = progress;
    memset(out, 0, sizeof *out);
    if (config) result = diti_json_parse(env, config, strlen(config), "config.json", &json, err);
    if (result != DIT_OK) return result;
    if (which == PART_T5) result = diti_t5_load(device, env, json, file, "", &options, &out->t5, err);
    if (which == PART_CLIP) result = diti_clip_load(device, env, json, file, "", &options, &out->clip, err);
    if (which == PART_BERT) result = diti_bert_load(device, env, json, file, "", &options, &out->bert, err);
    if (which == PART_DECODER) result = diti_decoder_load(device, env, json, file, "", &options, &out->decoder, err);
    if (which == PART_VAE || which == PART_TINY || which == PART_KL || which >= PART_HUNYUANVIDEO_VAE)
        result = diti_vae_load(device, env, json, file, "", &options, &out->vae, err);
    if (which == PART_PIXART || (which >= PART_WAN && which <= PART_HUNYUANVIDEO) ||
        (which >= PART_SD3 && which <= PART_HUNYUAN)) {
        result = diti_transformer_load(device, env, json, file, "", &options, &out->transformer, err);
    }
    diti_json_free(env, json);
    return result;
}

static void component_free(component *c) {
    diti_t5_destroy(c->t5);
    diti_transformer_destroy(c->transformer);
    diti_vae_destroy(c->vae);
    diti_clip_destroy(c->clip);
    diti_bert_destroy(c->bert);
    diti_decoder_destroy(c->decoder);
    memset(c, 0, sizeof *c);
}

static const diti_weights *component_weights(const component *c) {
    if (c->t5) return diti_t5_type()->weights(c->t5);
    return c->vae ? diti_vae_weights(c->vae) : &c->transformer->component.weights;
}

static diti_device *open_device(const diti_env *env, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_device *device = NULL;
    desc.overrides = overrides;
    CHECK_MESSAGE(diti_device_open(&desc, env, &device, &err) == DIT_OK, "%s", err.message);
    return device;
}

#endif
