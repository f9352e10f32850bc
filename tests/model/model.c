/* Loading of weights and the models' tables: wrong files and their messages, sizes of dry runs, cancelling, memory that
   runs out; and on a device: small limits and staged uploads change no byte, a batch equals its single runs.
   Values against the references are golden's.   test-runs: lavapipe sanitize, in test-all swiftshader */
#include "library.h"
#include "text/t5.c"
#include "model/pixart.c"
#include "model/hunyuandit.c"
#include "vae/kl.c"
#include "files.h"
#include "vulkan_test.h"
#include <dirent.h>

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
    if (!CHECK_MESSAGE(file.bytes != NULL, "cannot read %s", path)) exit(test_end("model"));
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

/* --- wrong files --- */

typedef struct wrong {
    part which;
    const char *from, *to; /* in the header */
    const char *config;
    const char *words[3]; /* the message must hold these */
} wrong;

#define LTX_CONFIG "{\"patch_size\": 2"
#define VACE_CONFIG "{\"num_attention_heads\": 2, \"attention_head_dim\": 24"
#define WAN_CONFIG "{\"num_attention_heads\": 3, \"attention_head_dim\": 24"
static const wrong wrongs[] = {
    {PART_T5,
     "block.1.layer.0.SelfAttention.k.weight",
     "block.1.layer.0.SelfAttention.x.weight",
     NULL,
     {"encoder.block.1.layer.0.SelfAttention.k.weight", "missing", NULL}},
    {PART_T5,
     "encoder.final_layer_norm.weight\":{\"dtype\":\"F32\",\"shape\":[48]",
     "encoder.final_layer_nurm.weight\":{\"dtype\":\"F32\",\"shape\":[48]",
     NULL,
     {"T5", NULL, NULL}},
    {PART_T5,
     "block.2.layer.1.DenseReluDense.wo.weight\":{\"dtype\":\"F32\",\"shape\":[48,96]",
     "block.2.layer.1.DenseReluDense.wo.weight\":{\"dtype\":\"F32\",\"shape\":[96,48]",
     NULL,
     {"encoder.block.2.layer.1.DenseReluDense.wo.weight", "[96, 48]", "[48, 96]"}},
    {PART_T5,
     "block.0.layer.0.SelfAttention.q.weight\":{\"dtype\":\"F32\"",
     "block.0.layer.0.SelfAttention.q.weight\":{\"dtype\":\"I32\"",
     NULL,
     {"encoder.block.0.layer.0.SelfAttention.q.weight", "I32", NULL}},
    {PART_T5, "shared.weight", "shered.weight", NULL, {"T5", "embedding", NULL}},
    {PART_T5, "relative_attention_bias", "relative_attention_bies", NULL, {"relative position", NULL, NULL}},
    {PART_T5, NULL, NULL, "{\"feed_forward_proj\": \"relu\"}", {"relu", "gated-gelu", NULL}},
    {PART_T5, NULL, NULL, "{\"num_layers\": 4}", {"encoder.block.3.", "missing", NULL}},
    {PART_T5, NULL, NULL, "{\"num_layers\": -1}", {"num_layers", NULL, NULL}},
    {PART_T5, NULL, NULL, "{\"num_layers\": 1000}", {"1000 blocks", NULL, NULL}},
    {PART_PIXART,
     "blocks.1.mlp.fc2.weight",
     "blocks.1.mlp.fc3.weight",
     NULL,
     {"blocks.1.mlp.fc2.weight", "missing", NULL}},
    {PART_PIXART,
     "blocks.1.attn.qkv.weight\":{\"dtype\":\"F16\",\"shape\":[432,144]",
     "blocks.1.attn.qkv.weight\":{\"dtype\":\"F16\",\"shape\":[144,432]",
     NULL,
     {"blocks.1.attn.qkv.weight", "[144, 432]", "[432, 144]"}},
    {PART_PIXART,
     "x_embedder.proj.weight\":{\"dtype\":\"F16\",\"shape\":[144,4,2,2]",
     "x_embedder.proj.weight\":{\"dtype\":\"F16\",\"shape\":[144,2,4,2]",
     NULL,
     {"x_embedder.proj.weight", "[144, 2, 4, 2]", NULL}},
    {PART_PIXART, "t_block.1.weight", "t_black.1.weight", NULL, {"PixArt", "config.json", NULL}},
    {PART_PIXART, NULL, NULL, "{\"num_attention_heads\": 5}", {"5 heads of 72", "144", NULL}},
    {PART_PIXART, NULL, NULL, "{\"attention_head_dim\": 288}", {"288", NULL, NULL}},
    {PART_PIXART,
     NULL,
     NULL,
     "{\"_class_name\": \"AuraFlowTransformer2DModel\"}",
     {"AuraFlowTransformer2DModel", "PixArt", NULL}},
    {PART_PIXART, NULL, NULL, "{\"_class_name\": \"FluxTransformer2DModel\"}", {"FLUX", "without blocks", NULL}},
    {PART_PIXART, NULL, NULL, "{\"activation_fn\": \"geglu\"}", {"geglu", NULL, NULL}},
    {PART_PIXART,
     "x_embedder.proj.weight\":{\"dtype\":\"F16\",\"shape\":[144,4,2,2]",
     "x_embedder.proj.weight\":{\"dtype\":\"F16\",\"shape\":[1,9,256,1]",
     NULL,
     {"patches of 256", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"sample_size\": 1}", {"size of 1", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"sample_size\": 0.5}", {"sample_size", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"interpolation_scale\": 0}", {"interpolation_scale", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"num_layers\": 65}", {"65 blocks", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"out_channels\": 2}", {"2 channels", NULL, NULL}},
    {PART_VAE,
     "decoder.mid.attn_1.k.weight",
     "decoder.mid.attn_1.x.weight",
     NULL,
     {"decoder.mid.attn_1.k.weight", "missing", NULL}},
    {PART_VAE,
     "decoder.up.1.block.0.nin_shortcut.weight",
     "decoder.up.1.block.0.nin_shortcat.weight",
     NULL,
     {"decoder.up.1.block.0.nin_shortcut.weight", "missing", NULL}},
    {PART_VAE,
     "decoder.conv_out.weight\":{\"dtype\":\"F32\",\"shape\":[3,16,3,3]",
     "decoder.conv_out.weight\":{\"dtype\":\"F32\",\"shape\":[3,3,16,3]",
     NULL,
     {"decoder.conv_out.weight", "[3, 3, 16, 3]", "[3, 16, 3, 3]"}},
    {PART_VAE, "coder.conv_in.weight", "coder.conv_an.weight", NULL, {"autoencoder", "conv_in", NULL}},
    {PART_TINY, "13.conv.2.weight", "13.cone.2.weight", NULL, {"13.conv.2.weight", "missing", NULL}},
    {PART_TINY, "10.conv.0.weight\":{", "10.cone.0.weight\":{", NULL, {"layer 12", "layer 9", NULL}},
    {PART_VAE, NULL, NULL, "{\"norm_num_groups\": 7}", {"7 groups", NULL, NULL}},
    {PART_VAE, NULL, NULL, "{\"scaling_factor\": -1}", {"scaling_factor", NULL, NULL}},
    {PART_VAE, NULL, NULL, "{\"_class_name\": \"AutoencoderDC\"}", {"AutoencoderDC", NULL, NULL}},
    {PART_SD3, NULL, NULL, "{\"_class_name\": \"FluxTransformer2DModel\"}", {"FLUX", "single", NULL}},
    {PART_SD3, NULL, NULL, "{\"attention_head_dim\": 36}", {"attention_head_dim is 36", "have 24", NULL}},
    {PART_SD3, "pos_embed.pos_embed", "pos_embed.pos_ombed", NULL, {"transformer", "knows", NULL}},
    {PART_SD3,
     "pos_embed.pos_embed\":{\"dtype\":\"F32\",\"shape\":[1,196,72]",
     "pos_embed.pos_embed\":{\"dtype\":\"F32\",\"shape\":[1,72,196]",
     NULL,
     {"SD3", "square position table", NULL}},
    {PART_SD3, "context_embedder.weight", "context_embodder.weight", NULL, {"SD3", "context_embedder", NULL}},
    {PART_SD3,
     "transformer_blocks.1.attn2.to_k.weight",
     "transformer_blocks.1.attn2.to_x.weight",
     NULL,
     {"transformer_blocks.1.attn2.to_k.weight", "missing", NULL}},
    {PART_SD3,
     "transformer_blocks.1.attn.norm_added_q.weight",
     "transformer_blocks.1.attn.norm_added_x.weight",
     NULL,
     {"transformer_blocks.1.attn.norm_added_q.weight", "missing", NULL}},
    {PART_SD3,
     "norm_out.linear.weight\":{\"dtype\":\"F16\",\"shape\":[144,72]",
     "norm_out.linear.weight\":{\"dtype\":\"F16\",\"shape\":[72,144]",
     NULL,
     {"norm_out.linear.weight", "[72, 144]", "[144, 72]"}},
    {PART_FLUX, NULL, NULL, "{\"guidance_embeds\": false}", {"guidance_embeds is false", "guidance embedder", NULL}},
    {PART_FLUX, NULL, NULL, "{\"axes_dims_rope\": [16, 56, 60]}", {"axes_dims_rope", "128", NULL}},
    {PART_FLUX, NULL, NULL, "{\"axes_dims_rope\": [16, 55, 57]}", {"axes_dims_rope", "even", NULL}},
    {PART_DIT, NULL, NULL, "{\"num_attention_heads\": 3}", {"3 heads of 72", "144", NULL}},
    {PART_DIT, NULL, NULL, "{\"activation_fn\": \"geglu\"}", {"geglu", NULL, NULL}},
    {PART_DIT, NULL, NULL, "{\"num_embeds_ada_norm\": 1000}", {"y_embedder.embedding_table.weight", "1001", NULL}},
    {PART_DIT, NULL, NULL, "{\"out_channels\": 2}", {"2 channels", NULL, NULL}},
    {PART_DIT, NULL, NULL, "{\"num_layers\": 129}", {"129 blocks", NULL, NULL}},
    {PART_DIT, "blocks.0.adaLN_modulation.1.weight", "blocks.0.adaLN_modulatiun.1.weight", NULL, {"knows", NULL, NULL}},
    {PART_DIT,
     "y_embedder.embedding_table.weight\":{\"dtype\":\"F16\",\"shape\":[11,144]",
     "y_embedder.embedding_table.weight\":{\"dtype\":\"F16\",\"shape\":[1,1584]",
     NULL,
     {"DiT", "classes", NULL}},
    {PART_DIT,
     "blocks.1.mlp.fc2.weight",
     "blocks.1.mlp.fc3.weight",
     NULL,
     {"blocks.1.mlp.fc2.weight", "missing", NULL}},
    {PART_HUNYUAN, NULL, NULL, "{\"norm_type\": \"rms_norm\"}", {"rms_norm", NULL, NULL}},
    {PART_HUNYUAN, NULL, NULL, "{\"attention_head_dim\": 44}", {"norm_q", "[88]", NULL}},
    {PART_HUNYUAN, NULL, NULL, "{\"num_layers\": 5}", {"5 blocks", NULL, NULL}},
    {PART_HUNYUAN, NULL, NULL, "{\"text_len\": 77}", {"text_embedding_padding", NULL, NULL}},
    {PART_HUNYUAN, "pooler.positional_embedding", "pooler.positional_embeddong", NULL, {"HunyuanDiT", "pooler", NULL}},
    {PART_HUNYUAN,
     "blocks.3.skip_linear.weight",
     "blocks.3.skip_linoar.weight",
     NULL,
     {"skip_linear", "missing", NULL}},
    {PART_HUNYUAN,
     "text_embedding_padding\":{\"dtype\":\"F16\",\"shape\":[16,40]",
     "text_embedding_padding\":{\"dtype\":\"F16\",\"shape\":[10,64]",
     NULL,
     {"HunyuanDiT", "text_embedding_padding", NULL}},
    /* fewer blocks than the file holds */
    {PART_PIXART, NULL, NULL, "{\"num_layers\": 1}", {"num_layers: 1", "holds 2", "blocks.1.scale_shift_table"}},
    {PART_DIT, NULL, NULL, "{\"num_layers\": 1}", {"num_layers: 1", "holds 2", "blocks.1.adaLN_modulation.1.weight"}},
    {PART_SD3, NULL, NULL, "{\"num_layers\": 1}", {"num_layers: 1", "transformer_blocks.1.norm1.linear.weight", NULL}},
    {PART_SD3, NULL, NULL, "{\"num_layers\": 50}", {"transformer_blocks.2.norm1_context", NULL, NULL}},
    {PART_FLUX,
     NULL,
     NULL,
     "{\"num_single_layers\": 1}",
     {"num_single_layers: 1", "single_blocks.1.modulation.lin.weight", NULL}},
    {PART_HUNYUAN, NULL, NULL, "{\"num_layers\": 2}", {"num_layers: 2", "holds 4", "blocks.2.norm1.linear.weight"}},
    {PART_T5, NULL, NULL, "{\"num_layers\": 1}", {"num_layers: 1", "block.1.layer.0.SelfAttention.q.weight", NULL}},
    {PART_CLIP, NULL, NULL, "{\"num_hidden_layers\": 1}", {"num_hidden_layers: 1", "layers.1.mlp.fc1.weight", NULL}},
    {PART_BERT,
     NULL,
     NULL,
     "{\"num_hidden_layers\": 1}",
     {"num_hidden_layers: 1", "encoder.layer.1.intermediate.dense.weight", NULL}},
    {PART_KL, NULL, NULL, "{\"act_fn\": \"relu\"}", {"act_fn: relu", "silu", NULL}},
    {PART_KL, NULL, NULL, "{\"act_fn\": 3}", {"act_fn: its value", NULL, NULL}},
    {PART_KL,
     NULL,
     NULL,
     "{\"down_block_types\": [\"DownEncoderBlock2D\", \"AttnDownEncoderBlock2D\"]}",
     {"down_block_types: AttnDownEncoderBlock2D", NULL, NULL}},
    {PART_KL,
     NULL,
     NULL,
     "{\"up_block_types\": [\"AttnUpDecoderBlock2D\"]}",
     {"up_block_types: AttnUpDecoderBlock2D", NULL, NULL}},
    {PART_TINY, NULL, NULL, "{\"act_fn\": \"gelu\"}", {"act_fn: gelu", "relu", NULL}},
    {PART_HUNYUANVIDEO_VAE,
     NULL,
     NULL,
     "{\"norm_num_groups\": 4, \"spatial_compression_ratio\": 4}",
     {"spatial_compression_ratio", NULL, NULL}},
    {PART_LTX_VAE, NULL, NULL, LTX_CONFIG ", \"encoder_causal\": false}", {"encoder_causal: only true", NULL, NULL}},
    {PART_LTX_VAE, NULL, NULL, LTX_CONFIG ", \"upsample_residual\": [true]}", {"upsample_residual", NULL, NULL}},
    {PART_LTX_VAE, NULL, NULL, LTX_CONFIG ", \"upsample_residual\": [true, 1]}", {"upsample_residual", NULL, NULL}},
    {PART_LTX_VAE, NULL, NULL, LTX_CONFIG ", \"upsample_residual\": true}", {"upsample_residual", NULL, NULL}},
    {PART_KL, NULL, NULL, "{\"layers_per_block\": 3}", {"layers_per_block: 3", "encoder", "level 0"}},
    {PART_KL, NULL, NULL, "{\"block_out_channels\": [8]}", {"block_out_channels: a list of 1", "encoder", NULL}},
    /* Wan, whose fixture has smaller heads than published models */
    {PART_WAN, NULL, NULL, NULL, {"0 heads of 128", "72", NULL}},
    {PART_WAN,
     "blocks.1.attn1.norm_q.weight",
     "blocks.1.attn1.norm_x.weight",
     WAN_CONFIG "}",
     {"blocks.1.attn1.norm_q.weight", "missing", NULL}},
    {PART_WAN,
     "patch_embedding.weight\":{\"dtype\":\"BF16\",\"shape\":[72,16,1,2,2]",
     "patch_embedding.weight\":{\"dtype\":\"BF16\",\"shape\":[72,2,1,2,16]",
     WAN_CONFIG "}",
     {"patch_embedding.weight", "[72, 2, 1, 2, 16]", "[72, 16, 1, 2, 2]"}},
    {PART_WAN,
     "time_embedder.linear_1.weight",
     "time_embedder.linear_3.weight",
     WAN_CONFIG "}",
     {"without time_embedding", NULL, NULL}},
    {PART_WAN, "blocks.0.ffn.net.0.proj.weight", "blocks.0.ffn.net.5.proj.weight", NULL, {"without blocks", NULL}},
    {PART_WAN, "patch_embedding.weight", "patch_imbedding.weight", NULL, {"without patch_embedding", NULL, NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"patch_size\": [1, 2, 4]}", {"patch_size is not 1, 2, 2", NULL, NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"patch_size\": [1, 2]}", {"patch_size is not 1, 2, 2", NULL, NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"patch_size\": 2}", {"patch_size: 2 is not a list", NULL, NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"qk_norm\": \"rms_norm\"}", {"qk_norm rms_norm", NULL, NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"cross_attn_norm\": false}", {"cross_attn_norm false", NULL, NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"num_layers\": 1}", {"num_layers: 1", "holds 2", "'blocks.1.scale"}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"num_layers\": 3}", {"blocks.2.", "missing", NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"in_channels\": 36}", {"patch_embedding.weight", "[72, 36, 1, 2, 2]", NULL}},
    {PART_WAN, NULL, NULL, WAN_CONFIG ", \"out_channels\": 17}", {"17 channels out of 16", NULL, NULL}},
    {PART_WAN,
     NULL,
     NULL,
     WAN_CONFIG ", \"_class_name\": \"WanVACETransformer3DModel\"}",
     {"0 vace_blocks", "0 channels of a clip", NULL}},
    {PART_VACE, NULL, NULL, NULL, {"0 heads of 128", "48", NULL}},
    {PART_VACE, NULL, NULL, VACE_CONFIG ", \"vace_layers\": [0, 3]}", {"vace_layers must be 2 rising", "has 3", NULL}},
    {PART_VACE, NULL, NULL, VACE_CONFIG ", \"vace_layers\": [1, 2]}", {"from 0 on", NULL, NULL}},
    {PART_VACE, NULL, NULL, VACE_CONFIG ", \"vace_layers\": [0, 0]}", {"vace_layers must be 2 rising", NULL, NULL}},
    {PART_VACE, NULL, NULL, VACE_CONFIG ", \"vace_layers\": [0]}", {"vace_layers must be 2 rising", NULL, NULL}},
    {PART_VACE, NULL, NULL, VACE_CONFIG ", \"vace_layers\": [0, 1, 2]}", {"as many as", "vace_blocks", NULL}},
    {PART_VACE, NULL, NULL, VACE_CONFIG ", \"vace_layers\": 2}", {"vace_layers: 2 is not a list", NULL, NULL}},
    {PART_VACE, "vace_patch_embedding.weight", "vace_potch_embedding.weight", VACE_CONFIG "}", {"0 channels", NULL}},
    {PART_VACE,
     "vace_blocks.1.proj_out.weight",
     "vace_blocks.1.proj_aut.weight",
     VACE_CONFIG "}",
     {"vace_blocks.1.proj_out.weight", "missing", NULL}},
    {PART_VACE,
     "vace_blocks.0.proj_in.bias",
     "vace_blocks.0.proj_on.bias",
     VACE_CONFIG "}",
     {"vace_blocks.0.proj_in.bias", "missing", NULL}},
    {PART_WAN, NULL, NULL, "{\"_class_name\": \"WanModel\", \"num_heads\": 5}", {"5 heads of 128", NULL, NULL}},
    /* models whose transformers have the classes and tensors of others, and more */
    {PART_QWENIMAGE, NULL, NULL, "{\"use_layer3d_rope\": true}", {"Qwen-Image-Layered", "not supported", NULL}},
    {PART_QWENIMAGE,
     "transformer_blocks.0.attn.add_k_proj.weight",
     "time_text_embed.addition_t_embedding.weight",
     NULL,
     {"Qwen-Image-Layered", "not supported", NULL}},
    {PART_ANIMA,
     "\"transformer_blocks.1.norm1.linear_1.weight\":",
     "\"learnable_pos_embed.pos_emb_h\":             ",
     "{\"_class_name\": \"CosmosTransformer3DModel\"}",
     {"'learnable_pos_embed.pos_emb_h'", "another model than Anima", "not supported"}},
    {PART_ANIMA,
     "\"transformer_blocks.1.norm1.linear_1.weight\":",
     "\"crossattn_proj.0.weight\":                   ",
     "{\"_class_name\": \"CosmosTransformer3DModel\"}",
     {"'crossattn_proj.0.weight'", "another model than Anima", "not supported"}},
    {PART_ANIMA,
     "\"transformer_blocks.0.norm1.linear_1.weight\":",
     "\"net.crossattn_proj.0.weight\":               ",
     "{\"_class_name\": \"CosmosTransformer3DModel\"}",
     {"'net.crossattn_proj.0.weight'", "another model than Anima", "not supported"}},
    {PART_LUMINA2,
     "\"layers.1.feed_forward.linear_3.weight\":",
     "\"ref_image_patch_embedder.weight\":      ",
     NULL,
     {"'ref_image_patch_embedder.weight'", "another model than Lumina-Image 2", "not supported"}},
    {PART_LUMINA2,
     "\"layers.1.feed_forward.linear_3.weight\":",
     "\"clip_text_pooled_proj.0.weight\":       ",
     NULL,
     {"'clip_text_pooled_proj.0.weight'", "another model than Lumina-Image 2", "not supported"}},
    {PART_ZIMAGE,
     "\"layers.1.attention_norm1.weight\":",
     "\"siglip_embedder.1.weight\":       ",
     NULL,
     {"'siglip_embedder.1.weight'", "Z-Image-Omni", "not supported"}},
    /* settings that are known with one value */
    {PART_FLUX2, NULL, NULL, "{\"eps\": 1e-5}", {"eps: 1e-5 is not", NULL, NULL}},
    {PART_FLUX3, NULL, NULL, "{\"eps\": 1e-5}", {"eps: 1e-5 is not", NULL, NULL}},
    {PART_QWENIMAGE21, NULL, NULL, "{\"eps\": 1e-5}", {"eps: 1e-5 is not", NULL, NULL}},
    {PART_SANA,
     NULL,
     NULL,
     "{\"norm_elementwise_affine\": true, \"attention_head_dim\": 16, \"cross_attention_head_dim\": 32}",
     {"norm_elementwise_affine: only false", NULL, NULL}},
    /* models that only look like Wan's or HunyuanVideo's */
    {PART_I2V,
     "condition_embedder.image_embedder.norm1.bias\"",
     "condition_embedder.image_embedder.pos_embed\" ",
     WAN_CONFIG "}",
     {"other places than two of 257", NULL}},
    {PART_WAN,
     "blocks.1.ffn.net.0.proj.bias\"",
     "vace_patch_embedding.weight\" ",
     WAN_CONFIG "}",
     {"0 vace_blocks beside 2", "is not known", NULL}},
    {PART_WAN, "blocks.1.attn1.norm_q.weight\"", "ref_conv.weight\"             ", WAN_CONFIG "}", {"Fun-Control"}},
    {PART_I2V, NULL, NULL, WAN_CONFIG ", \"out_channels\": 8}", {"8 channels out of 36", "4 of a mask", NULL}},
    {PART_HUNYUANVIDEO,
     NULL,
     NULL,
     "{\"image_condition_type\": \"token_replace\"}",
     {"image_condition_type", "HunyuanVideo-I2V", NULL}},
    /* settings that no published model of the family has */
    {PART_KANDINSKY, NULL, NULL, "{\"attention_type\": \"nabla\"}", {"attention_type: nabla", "regular", NULL}},
    {PART_KANDINSKY, NULL, NULL, "{\"in_visual_dim\": 64}", {"in_visual_dim", "only patches of 2 x 2", NULL}},
    {PART_KANDINSKY,
     "\"pooled_text_embeddings.in_layer.weight\":",
     "\"pooled_text_embedding.in_layer.weights\":",
     NULL,
     {"without pooled_text_embeddings", "incomplete", NULL}},
    {PART_KANDINSKY, /* a file of clips has another number on either side */
     "\"out_layer.out_layer.weight\":{\"dtype\":\"BF16\",\"shape\":[64,64]",
     "\"out_layer.out_layer.weight\":{\"dtype\":\"BF16\",\"shape\":[8,512]",
     NULL,
     {"takes 64 columns of patches and makes 8", "Kandinsky-5.0-T2I", NULL}},
    {PART_HUNYUANVIDEO, NULL, NULL, "{\"qk_norm\": \"layer_norm\"}", {"qk_norm: layer_norm", "rms_norm", NULL}},
    {PART_LTX, NULL, NULL, "{\"norm_elementwise_affine\": true}", {"norm_elementwise_affine: only false", NULL, NULL}},
    {PART_COGVIDEOX, NULL, NULL, "{\"activation_fn\": \"gelu\"}", {"activation_fn: only gelu-approximate", NULL, NULL}},
    {PART_COGVIDEOX,
     NULL,
     NULL,
     "{\"timestep_activation_fn\": \"mish\"}",
     {"timestep_activation_fn: mish", NULL, NULL}},
    {PART_COGVIDEOX, NULL, NULL, "{\"flip_sin_to_cos\": false}", {"flip_sin_to_cos: only true", NULL, NULL}},
    {PART_COGVIDEOX, NULL, NULL, "{\"freq_shift\": 1}", {"freq_shift: only 0", NULL, NULL}},
    /* decoder language models: 4 heads of queries and 2 of keys with 16 channels */
    {PART_DECODER, NULL, NULL, "{\"num_attention_heads\": 5}", {"5 heads of queries", "64", "32 rows"}},
    {PART_DECODER, NULL, NULL, "{\"num_key_value_heads\": 4}", {"4 of keys", "another model's", NULL}},
    {PART_DECODER, NULL, NULL, "{\"head_dim\": 8}", {"self_attn.q_norm.weight", "[16]", "[8]"}},
    {PART_DECODER,
     NULL,
     NULL,
     "{\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 32}",
     {"self_attn.q_norm.weight", "[16]", "[32]"}},
    {PART_DECODER, NULL, NULL, "{\"num_hidden_layers\": 2}", {"num_hidden_layers: 2", "holds 4", "layers.2.self"}},
    {PART_DECODER, NULL, NULL, "{\"num_hidden_layers\": 5}", {"layers.4.", "missing", NULL}},
    {PART_DECODER, NULL, NULL, "{\"hidden_act\": \"relu\"}", {"hidden_act", "silu", "gelu_pytorch_tanh"}},
    {PART_DECODER, NULL, NULL, "{\"rope_theta\": \"1e6\"}", {"rope_theta: \"1e6\"", NULL, NULL}},
    {PART_DECODER,
     NULL,
     NULL,
     "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}",
     {"original_max_position_embeddings", "yarn", NULL}},
    {PART_DECODER,
     NULL,
     NULL,
     "{\"text_config\": {\"rope_parameters\": {\"rope_type\": \"llama3\"}}}",
     {"rope_parameters", "default, mrope and yarn", NULL}},
    {PART_DECODER, NULL, NULL, "{\"text_config\": 7}", {"config.json", "object", NULL}},
    {PART_DECODER, "embed_tokens", "embed_takens", NULL, {"language model", "the token embedding", NULL}},
    {PART_DECODER, "layers.0.mlp.gate_proj", "layers.0.mlp.gote_proj", NULL, {"a matrix of layer 0", NULL, NULL}},
    {PART_DECODER,
     "layers.1.self_attn.v_proj.weight",
     "layers.1.self_attn.x_proj.weight",
     NULL,
     {"model.layers.1.self_attn.v_proj.weight", "missing", NULL}},
    {PART_DECODER,
     "layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,40]",
     "layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[40,32]",
     NULL,
     {"64 and 40 rows", NULL, NULL}},
    {PART_DECODER, "model.norm.weight", "model.nerm.weight", NULL, {"model.norm.weight", "missing", NULL}},
    /* a block too many that no other follows, or whose like is not there */
    {PART_PIXART,
     "y_embedder.y_embedding",
     "blocks.7.attn.qkv.bias",
     NULL,
     {"blocks.7.attn.qkv.bias", "would be left out", "'blocks.7.'"}},
    {PART_DIT, "blocks.1.attn.qkv.bias", "blocks.9.attn.qkv.bias", NULL, {"blocks.1.attn.qkv.bias", "missing", NULL}},
    /* values of another type */
    {PART_PIXART, NULL, NULL, "{\"interpolation_scale\": \"2\"}", {"interpolation_scale: \"2\" is not a number", NULL}},
    {PART_PIXART, NULL, NULL, "{\"norm_eps\": \"1e-6\"}", {"transformer's config.json: norm_eps", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"norm_eps\": NaN}", {"norm_eps: NaN is not", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"norm_eps\": [1e-6]}", {"norm_eps: the list is not a number", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"use_additional_conditions\": 1}", {"use_additional_conditions: 1", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"activation_fn\": 5}", {"activation_fn: 5 is not a text", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"_class_name\": {}}", {"_class_name: the object is not a text", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "{\"num_layers\": \"2\"}", {"num_layers: \"2\" is not a whole number", NULL, NULL}},
    {PART_PIXART, NULL, NULL, "[2]", {"not an object of settings", NULL, NULL}},
    {PART_DIT, NULL, NULL, "{\"norm_eps\": true}", {"norm_eps: true is not a number", NULL, NULL}},
    {PART_DIT, NULL, NULL, "{\"norm_type\": 5}", {"norm_type: 5 is not a text", NULL, NULL}},
    {PART_SD3, NULL, NULL, "{\"sample_size\": \"128\"}", {"sample_size: \"128\"", NULL, NULL}},
    {PART_FLUX, NULL, NULL, "{\"guidance_embeds\": \"true\"}", {"guidance_embeds: \"true\"", NULL, NULL}},
    {PART_FLUX, NULL, NULL, "{\"axes_dims_rope\": 5}", {"axes_dims_rope: 5 is not a list of numbers", NULL, NULL}},
    {PART_FLUX, NULL, NULL, "{\"axes_dims_rope\": [16, \"56\", 56]}", {"axes_dims_rope: the list is not", NULL, NULL}},
    {PART_HUNYUAN,
     NULL,
     NULL,
     "{\"use_style_cond_and_image_meta_size\": \"no\"}",
     {"use_style_cond_and_image_meta_size: \"no\"", NULL, NULL}},
    {PART_HUNYUAN, NULL, NULL, "{\"text_len\": \"77\"}", {"text_len: \"77\"", NULL, NULL}},
    {PART_T5,
     NULL,
     NULL,
     "{\"layer_norm_epsilon\": \"1e-6\"}",
     {"text encoder's config.json: layer_norm_epsilon", NULL}},
    {PART_T5, NULL, NULL, "{\"layer_norm_epsilon\": 2}", {"layer_norm_epsilon: 2 is not a number from", NULL, NULL}},
    {PART_T5, NULL, NULL, "{\"feed_forward_proj\": []}", {"feed_forward_proj: the list is not a text", NULL, NULL}},
    {PART_CLIP, NULL, NULL, "{\"layer_norm_eps\": \"1e-5\"}", {"layer_norm_eps: \"1e-5\"", NULL, NULL}},
    {PART_CLIP, NULL, NULL, "{\"eos_token_id\": \"2\"}", {"eos_token_id: \"2\"", NULL, NULL}},
    {PART_BERT, NULL, NULL, "{\"layer_norm_eps\": \"1e-12\"}", {"layer_norm_eps: \"1e-12\"", NULL, NULL}},
    {PART_BERT, NULL, NULL, "{\"hidden_act\": 1}", {"hidden_act: 1 is not a text", NULL, NULL}},
    {PART_VAE, NULL, NULL, "{\"scaling_factor\": \"x\"}", {"autoencoder's config.json: scaling_factor: \"x\"", NULL}},
    {PART_VAE, NULL, NULL, "{\"shift_factor\": \"0\"}", {"shift_factor: \"0\"", NULL, NULL}},
    {PART_VAE, NULL, NULL, "{\"force_upcast\": \"false\"}", {"force_upcast: \"false\" is not true or false", NULL}},
    {PART_TINY, NULL, NULL, "{\"scaling_factor\": \"1\"}", {"scaling_factor: \"1\"", NULL, NULL}},
    {PART_TINY, NULL, NULL, "{\"_class_name\": 1}", {"_class_name: 1 is not a text", NULL, NULL}},
};

static void test_wrong_files(void) {
    test_memory memory = {0, 0, 0};
    diti_env env = test_env(&memory);
    size_t i, j;
    for (i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const wrong *w = &wrongs[i];
        component c;
        dit_error err = DITI_ZERO;
        image file = image_open(&env, part_files[w->which], w->from, w->to);
        dit_result result = component_load(w->which, NULL, &env, file.checkpoint, w->config, NULL, &c, &err);
        CHECK_MESSAGE(result < 0 && result == err.result, "case %u loads", (unsigned)i);
        for (j = 0; j < 3 && w->words[j]; j++) {
            CHECK_MESSAGE(strstr(err.message, w->words[j]) != NULL, "\"%s\" does not say \"%s\"", err.message,
                          w->words[j]);
        }
        CHECK(!strchr(err.message, '\n'));
        CHECK(!c.t5 && !c.transformer && !c.vae && !c.clip && !c.bert);
        image_close(&file);
    }
    CHECK_MESSAGE(memory.alive == 0, "%ld blocks leak", memory.alive);
}

/* Names of tensors that nobody asks for are told, and do no harm. */
static char told[1024];

static void keep_message(int level, const char *message, void *user) {
    (void)user;
    if (level == DITI_LOG_INFO) snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", message);
}

static void test_harmless_tensors(void) {
    static const part parts[] = {PART_PIXART, PART_SD3, PART_CLIP};
    static const char *const froms[] = {"y_embedder.y_embedding", NULL, NULL}, *const tos[] = {"loss.0.logvar_of_block",
                                                                                               NULL, NULL};
    size_t i;
    for (i = 0; i < DITI_COUNT(parts); i++) {
        diti_env env = test_env(NULL);
        component c;
        dit_error err = DITI_ZERO;
        image file = image_open(&env, part_files[parts[i]], froms[i], tos[i]);
        env.logger.func = keep_message;
        env.logger.max_level = DITI_LOG_INFO;
        told[0] = 0;
        CHECK_MESSAGE(component_load(parts[i], NULL, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message);
        CHECK_MESSAGE(froms[i]
                          ? strstr(told, "1 tensors are not used for the transformer: loss.0.logvar_of_block") != NULL
                          : !strstr(told, "not used"),
                      "%s", told);
        component_free(&c);
        image_close(&file);
    }
}

/* --- sizes --- */

/* Elements by the fixtures' READMEs, less what stays on the host or is not counted: T5's 32 x 4 relative positions,
 * PixArt's null caption, SD3's position table, DiT's positions. */
static const uint64_t part_parameters[PART_COUNT] = {127952 - 128, 919952 - 12 * 64,  294751, 641680 - 196 * 72,
                                                     1265472,      868352 - 64 * 144, 645896, 120683};

static void test_dry_runs(diti_device *device) {
    diti_env env = test_env(NULL);
    part which;
    for (which = PART_T5; which < PART_COUNT; which = (part)(which + 1)) {
        component dry, real;
        dit_error err = DITI_ZERO;
        image file = image_open(&env, part_files[which], NULL, NULL);
        CHECK_MESSAGE(component_load(which, NULL, &env, file.checkpoint, NULL, NULL, &dry, &err) == DIT_OK, "%s",
                      err.message);
        CHECK_MESSAGE(component_load(which, device, &env, file.checkpoint, NULL, NULL, &real, &err) == DIT_OK, "%s",
                      err.message);
        CHECK_MESSAGE(component_weights(&dry)->parameters == part_parameters[which], "%s: %llu parameters",
                      part_files[which], (unsigned long long)component_weights(&dry)->parameters);
        CHECK(component_weights(&dry)->bytes == component_weights(&real)->bytes);
        CHECK(component_weights(&dry)->bytes >= file.size / 2 && component_weights(&dry)->bytes < 2 * file.size);
        component_free(&dry);
        component_free(&real);
        image_close(&file);
    }
}

/* --- cancelling and memory that runs out --- */

typedef struct cancel {
    long calls, at;
    uint64_t last_done, total;
    bool backwards;
} cancel;

static bool cancel_at(const char *what, uint64_t done, uint64_t total, void *user) {
    cancel *c = (cancel *)user;
    if (done < c->last_done || done > total || !what[0]) c->backwards = true;
    c->last_done = done;
    c->total = total;
    return ++c->calls != c->at;
}

static dit_result load_counting(diti_device *device, part which, const diti_checkpoint *file, cancel *count,
                                test_memory *memory) {
    diti_env env = test_env(memory);
    dit_progress progress = {cancel_at, NULL};
    dit_error err = DITI_ZERO;
    component c;
    dit_result result;
    progress.user = count;
    result = component_load(which, device, &env, file, NULL, &progress, &c, &err);
    CHECK((result == DIT_OK) == (c.t5 || c.transformer || c.vae));
    component_free(&c);
    CHECK_MESSAGE(memory->alive == 0, "%ld blocks leak", memory->alive);
    return result;
}

static void test_cancel(diti_device *device) {
    diti_env env = test_env(NULL);
    part which;
    for (which = PART_T5; which < PART_COUNT; which = (part)(which + 1)) {
        image file = image_open(&env, part_files[which], NULL, NULL);
        cancel whole = DITI_ZERO, early = DITI_ZERO;
        test_memory memory = {0, 0, 0};
        CHECK(load_counting(device, which, file.checkpoint, &whole, &memory) == DIT_OK);
        CHECK(whole.calls > 5 && whole.last_done > whole.total / 2 && !whole.backwards);
        early.at = whole.calls / 2;
        CHECK(load_counting(device, which, file.checkpoint, &early, &memory) == DIT_CANCELLED);
        CHECK(early.calls == early.at);
        image_close(&file);
    }
}

/* Every allocation of a dry run fails once. */
static void test_out_of_memory(void) {
    diti_env plain = test_env(NULL);
    part which;
    for (which = PART_T5; which < PART_COUNT; which = (part)(which + 1)) {
        image file = image_open(&plain, part_files[which], NULL, NULL);
        dit_result result = DIT_ERROR_OUT_OF_HOST_MEMORY;
        long failures = 0;
        while (result == DIT_ERROR_OUT_OF_HOST_MEMORY && failures < 10000) {
            test_memory memory = {0, 0, 0};
            diti_env env = test_env(&memory);
            component c;
            dit_error err = DITI_ZERO;
            memory.fail_at = ++failures;
            result = component_load(which, NULL, &env, file.checkpoint, NULL, NULL, &c, &err);
            component_free(&c);
            if (memory.alive) break;
        }
        CHECK_MESSAGE(result == DIT_OK && failures > 20, "%s: allocation %ld ends in %d", part_files[which], failures,
                      (int)result);
        image_close(&file);
    }
}

/* --- tables --- */

static void test_tables(void) {
    static const char *const pairs[][2] = {{"a", "x"}, {"a.b", "y"}, {"ab", "z"}};
    static const diti_grid grid = {2, 3, 0.5f, 1.0f, 2.0f};
    float t[2] = {0, 1}, sinusoid[2 * 256], table[2 * 3 * 8];
    char name[16];
    diti_sinusoid(t, 2, 256, 0, sinusoid);
    CHECK(sinusoid[0] == 1 && sinusoid[127] == 1 && sinusoid[128] == 0 && sinusoid[255] == 0);
    CHECK(fabsf(sinusoid[256] - cosf(1)) < 1e-6f && fabsf(sinusoid[256 + 128] - sinf(1)) < 1e-6f);
    diti_position_table(&grid, 8, table); /* y: 0, 1; x: 0, 0.5, 1 */
    CHECK(table[0] == 0 && table[2] == 1 && table[4] == 0 && table[6] == 1);
    CHECK(fabsf(table[2 * 8] - sinf(1)) < 1e-6f && table[2 * 8 + 4] == 0); /* (0, 2): horizontal first */
    CHECK(table[3 * 8] == 0 && fabsf(table[3 * 8 + 4] - sinf(1)) < 1e-6f); /* (1, 0) */
    CHECK(fabsf(table[4 * 8 + 1] - sinf(0.005f)) < 1e-6f && table[4 * 8 + 5] == table[3 * 8 + 5]); /* (1, 1) */
    CHECK(diti_equal(diti_rename(pairs, 3, "a.c", name, sizeof name), "x.c"));
    CHECK(diti_equal(diti_rename(pairs, 3, "a.b.c", name, sizeof name), "y.c"));
    CHECK(diti_equal(diti_rename(pairs, 3, "ab", name, sizeof name), "z"));
    CHECK(!diti_rename(pairs, 3, "abc", name, sizeof name) &&
          !diti_rename(pairs, 3, "a.b.too.long.for.it", name, sizeof name));
}

/* Names that no fixture in the repository has. */
static void test_names(void) {
    uint32_t levels = 4;
    char name[256];
    CHECK(diti_equal(
        diti_rename_by_tables((void *)(uintptr_t)diti_hunyuandit_names, "blocks.12.norm2.weight", name, sizeof name),
        "blocks.12.norm3.weight"));
    CHECK(diti_equal(diti_rename_by_tables((void *)(uintptr_t)diti_hunyuandit_names,
                                           "time_extra_emb.pooler.k_proj.bias", name, sizeof name),
                     "pooler.k_proj.bias"));
    CHECK(diti_equal(diti_kl_old_name(NULL, "encoder.mid_block.attentions.0.to_out.0.bias", name, sizeof name),
                     "encoder.mid_block.attentions.0.proj_attn.bias"));
    CHECK(diti_equal(diti_kl_old_name(NULL, "decoder.mid_block.attentions.0.to_k.weight", name, sizeof name),
                     "decoder.mid_block.attentions.0.key.weight"));
    CHECK(diti_equal(diti_kl_ldm_name(&levels, "decoder.up_blocks.0.resnets.2.conv_shortcut.bias", name, sizeof name),
                     "decoder.up.3.block.2.nin_shortcut.bias"));
    CHECK(diti_equal(diti_kl_ldm_name(&levels, "encoder.down_blocks.2.downsamplers.0.conv.weight", name, sizeof name),
                     "encoder.down.2.downsample.conv.weight"));
    CHECK(!diti_kl_ldm_name(&levels, "decoder.up_blocks.4.resnets.2.conv1.bias", name, sizeof name));
    CHECK(!diti_kl_ldm_name(&levels, "decoder.up_blocks.0.resnets.2.conv1.bias", name, 12));
    CHECK(diti_equal(diti_rename_by_tables((void *)(uintptr_t)diti_t5_llama_names,
                                           "encoder.block.11.layer.1.DenseReluDense.wi_1.weight", name, sizeof name),
                     "enc.blk.11.ffn_up.weight"));
    CHECK(!diti_rename_by_tables((void *)(uintptr_t)diti_t5_llama_names, "encoder.block.11.layer.2.x", name,
                                 sizeof name));
    CHECK(diti_equal(diti_rename_by_tables((void *)(uintptr_t)diti_pixart_names, "transformer_blocks.27.attn2.kv.bias",
                                           name, sizeof name),
                     "blocks.27.cross_attn.kv_linear.bias"));
    CHECK(!diti_rename_by_tables((void *)(uintptr_t)diti_pixart_names, "transformer_blocks.", name, sizeof name));
    CHECK(!diti_rename_by_tables((void *)(uintptr_t)diti_pixart_names, "transformer_blocks.27.attn2.kv.bias", name, 9));
}

/* --- computing: the outputs of all three components, as bytes --- */

#define T5_TOKENS 30u
#define LATENT_HEIGHT 8u
#define LATENT_WIDTH 12u
#define TEXT_TOKENS 12u

/* Two branches of an image of 16 channels. */
#define JOINT_VALUES (2 * 16 * LATENT_HEIGHT * LATENT_WIDTH)
typedef struct outputs {
    float t5[2 * T5_TOKENS * 48], denoised[4 * 4 * LATENT_HEIGHT * LATENT_WIDTH],
        picture[16 * LATENT_HEIGHT * LATENT_WIDTH * 3], joint[2][JOINT_VALUES];
} outputs;

static float noise_at(uint32_t i) { return (float)((i * 2654435761u) >> 16) / 32768.0f - 1.0f; }

static void fill(diti_plan *plan, diti_tensor input, uint32_t count, uint32_t first) {
    float *values = (float *)malloc(count * sizeof *values);
    dit_error err = DITI_ZERO;
    uint32_t i;
    for (i = 0; i < count; i++) values[i] = noise_at(first + i);
    CHECK_MESSAGE(diti_plan_write(plan, input, values, count * sizeof *values, &err) == DIT_OK, "%s", err.message);
    free(values);
}

static diti_tensor keep(diti_graph *graph, diti_tensor x, uint32_t rows, uint32_t columns) {
    diti_elementwise_desc copy = DITI_ZERO;
    copy.out = diti_tensor_state(graph, DITI_F32, rows, columns, "kept");
    copy.name = "keep";
    diti_elementwise(graph, x, &copy);
    return copy.out;
}

static bool plan_of(diti_graph *graph, diti_plan **plan) {
    dit_error err = DITI_ZERO;
    dit_result result = diti_plan_create(graph, NULL, plan, &err);
    diti_graph_free(graph);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static void finish(diti_plan *plan, diti_tensor kept, float *out, size_t size) {
    dit_error err = DITI_ZERO;
    CHECK_MESSAGE(diti_plan_run(plan, 0, plan->segment_count, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(diti_plan_read(plan, kept, out, size, &err) == DIT_OK, "%s", err.message);
}

static void run_t5(diti_device *device, const diti_t5 *t5, outputs *out) {
    uint32_t ids[2 * T5_TOKENS], i,
        items[2][DITI_ITEM_WORDS] = {{0, T5_TOKENS, 0, 7}, {T5_TOKENS, T5_TOKENS, T5_TOKENS, T5_TOKENS}};
    diti_encoder_use use = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    for (i = 0; i < 2 * T5_TOKENS; i++) ids[i] = i * 37 % 1024;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    use.batch = 2;
    use.tokens = T5_TOKENS;
    use.rows = 2 * T5_TOKENS;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, 2 * T5_TOKENS, "ids");
    use.items = diti_tensor_input(&graph, DITI_U32, 2, DITI_ITEM_WORDS, "items");
    kept = keep(&graph, diti_t5_encode(t5, &graph, &use), 2 * T5_TOKENS, 48);
    if (plan_of(&graph, &plan)) {
        CHECK(diti_plan_write(plan, use.ids, ids, sizeof ids, NULL) == DIT_OK);
        CHECK(diti_plan_write(plan, use.items, items, sizeof items, NULL) == DIT_OK);
        CHECK(diti_t5_write_inputs(t5, plan, &use, NULL) == DIT_OK);
        finish(plan, kept, out->t5, sizeof out->t5);
    }
    diti_plan_destroy(plan);
}

/* Images [first, first + batch) of a batch of two, both branches; shares: one text for each branch, else one for each
 * row; packed: the texts' tokens without padding, in the other order, behind a few rows of nothing. */
static void run_pixart(diti_device *device, const diti_transformer *model, uint32_t first, uint32_t batch, bool shares,
                       bool packed, float *out) {
    static const float times[3] = {700, 321, 5};
    uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH, texts = shares ? 2 : 2 * batch, i, items[4][DITI_ITEM_WORDS],
             step = 0;
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept, latent;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = batch;
    d.branches = 2;
    d.height = LATENT_HEIGHT;
    d.width = LATENT_WIDTH;
    d.steps = 3;
    d.text_batch = texts;
    d.text_tokens = TEXT_TOKENS;
    d.pixels[0] = 64;
    d.pixels[1] = 96;
    latent = d.latent = diti_tensor_input(&graph, DITI_F32, 4 * batch, pixels, "latent");
    d.text = diti_tensor_input(&graph, DITI_F32, texts * TEXT_TOKENS, 64, "text");
    d.text_items = diti_tensor_input(&graph, DITI_U32, texts, DITI_ITEM_WORDS, "items");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * batch * 4, pixels);
    if (plan_of(&graph, &plan)) {
        fill(plan, latent, 4 * batch * pixels, first * 4 * pixels);
        memset(items, 0, sizeof items);
        for (i = 0; i < texts; i++) {
            uint32_t before = i < texts / 2 ? texts / 2 * 9 + i : (i - texts / 2) * 9; /* tokens */
            items[i][2] = packed ? 3 + before : i * TEXT_TOKENS;
            items[i][3] = i < texts / 2 ? 1 : 9;
        }
        CHECK(diti_plan_write(plan, d.text_items, items, texts * sizeof *items, NULL) == DIT_OK);
        CHECK(diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK);
        CHECK(model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        {
            uint32_t one = TEXT_TOKENS * 64;
            float *text = (float *)malloc(texts * one * sizeof *text);
            for (i = 0; i < texts * one; i++) text[i] = 1e30f; /* padding, which nothing may read */
            for (i = 0; i < texts * 9 * 64; i++) {
                uint32_t item = i / 64 / 9, token = i / 64 % 9;
                if (token < items[item][3])
                    text[(items[item][2] + token) * 64 + i % 64] =
                        noise_at(99 + item / (texts / 2) * one + i % (9 * 64));
            }
            CHECK(diti_plan_write(plan, d.text, text, texts * one * sizeof *text, NULL) == DIT_OK);
            free(text);
        }
        finish(plan, kept, out, (size_t)2 * batch * 4 * pixels * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

/* Text and image attend each other: the second of two steps. */
static void run_joint(diti_device *device, const diti_transformer *model, float *out) {
    enum { TOKENS = 6 };
    static const float times[] = {900, 300};
    const uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH, step = 1;
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = 1;
    d.steps = d.branches = d.text_batch = 2;
    d.height = LATENT_HEIGHT;
    d.width = LATENT_WIDTH;
    d.text_tokens = TOKENS;
    d.guidance = 3.5f;
    d.latent = diti_tensor_input(&graph, DITI_F32, 16, pixels, "latent");
    d.text = diti_tensor_input(&graph, DITI_F32, 2 * TOKENS, model->traits.text_columns, "text");
    d.pooled = diti_tensor_input(&graph, DITI_F32, 2, model->traits.pooled_columns, "pooled");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * 16, pixels);
    if (plan_of(&graph, &plan)) {
        fill(plan, d.latent, 16 * pixels, 7);
        fill(plan, d.text, 2 * TOKENS * model->traits.text_columns, 11);
        fill(plan, d.pooled, 2 * model->traits.pooled_columns, 13);
        CHECK(diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK);
        CHECK(model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        finish(plan, kept, out, JOINT_VALUES * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

static void run_vae(diti_device *device, const diti_vae *vae, outputs *out) {
    uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept, latent;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "decode", false);
    latent = diti_tensor_input(&graph, DITI_F32, 4, pixels, "latent");
    kept = keep(&graph, diti_vae_decode(vae, &graph, latent, LATENT_HEIGHT, LATENT_WIDTH, 0, NULL), 16 * pixels, 3);
    if (plan_of(&graph, &plan)) {
        fill(plan, latent, 4 * pixels, 5);
        finish(plan, kept, out->picture, sizeof out->picture);
    }
    diti_plan_destroy(plan);
}

static diti_device *open_device(const diti_env *env, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_device *device = NULL;
    desc.overrides = overrides;
    CHECK_MESSAGE(diti_device_open(&desc, env, &device, &err) == DIT_OK, "%s", err.message);
    return device;
}

/* parts: of the largest matrix. */
static void run_all(const char *overrides, outputs *out, uint32_t *parts) {
    diti_env env = test_env(NULL);
    diti_device *device = open_device(&env, overrides);
    component c;
    part which;
    *parts = 0;
    for (which = PART_T5; device && which < PART_DIT; which = (part)(which + 1)) {
        image file = image_open(&env, part_files[which], NULL, NULL);
        dit_error err = DITI_ZERO;
        if (CHECK_MESSAGE(component_load(which, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK,
                          "%s: %s", overrides, err.message)) {
            if (which == PART_T5) run_t5(device, c.t5, out);
            if (which == PART_VAE) run_vae(device, c.vae, out);
            if (which >= PART_SD3) run_joint(device, c.transformer, out->joint[which - PART_SD3]);
            if (which == PART_PIXART) {
                run_pixart(device, c.transformer, 0, 2, true, false, out->denoised);
                *parts = ((diti_pixart *)(void *)c.transformer)->modulation.weight.part_count;
            }
        }
        component_free(&c);
        image_close(&file);
    }
    if (device) diti_device_close(device);
}

static bool finite_and_alive(const float *values, size_t count) {
    size_t i;
    double sum = 0;
    for (i = 0; i < count; i++) sum += fabs((double)values[i]);
    return isfinite(sum) && sum > 1e-3 * (double)count;
}

/* Parts of a matrix are whole tiles, however few bytes a device binds: results in halves begin at even columns. */
static void test_part_rows(void) {
    diti_env env = test_env(NULL);
    image file = image_open(&env, part_files[PART_PIXART], NULL, NULL);
    uint32_t kilobytes, i, divided = 0;
    for (kilobytes = 50; kilobytes <= 241; kilobytes += 27) {
        char overrides[64];
        dit_error err = DITI_ZERO;
        diti_device *device;
        component c;
        snprintf(overrides, sizeof overrides, "rung=base,storage_range=%uK", (unsigned)kilobytes);
        device = open_device(&env, overrides);
        if (device &&
            CHECK_MESSAGE(component_load(PART_PIXART, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK,
                          "%s: %s", overrides, err.message)) {
            const diti_weight *weight = &((diti_pixart *)(void *)c.transformer)->modulation.weight;
            for (i = 0; i + 1 < weight->part_count; i++)
                CHECK_MESSAGE(weight->parts[i].rows % DITI_PART_ROWS == 0, "%u KB: part %u has %u rows",
                              (unsigned)kilobytes, i, weight->parts[i].rows);
            divided += weight->part_count > 1;
        }
        component_free(&c);
        if (device) diti_device_close(device);
    }
    image_close(&file);
    CHECK(divided > 4);
}

static void test_limits(void) {
    static const char *const others[] = {"rung=base,storage_range=240K,allocation=256K,mapped=0,staging=100K",
                                         "rung=base,storage_range=1M,allocation=16M", "rung=base,mapped=0"};
    const char *sweep = getenv("DIT_TEST_ALL");
    size_t count = sweep && !strcmp(sweep, "1") ? DITI_COUNT(others) : 1;
    static outputs plain, other;
    uint32_t parts;
    size_t i;
    run_all("rung=base", &plain, &parts);
    CHECK(parts == 1);
    CHECK(finite_and_alive(plain.t5, DITI_COUNT(plain.t5)) &&
          finite_and_alive(plain.denoised, DITI_COUNT(plain.denoised)));
    CHECK(finite_and_alive(plain.picture, DITI_COUNT(plain.picture)));
    CHECK(finite_and_alive(plain.joint[0], JOINT_VALUES) && finite_and_alive(plain.joint[1], JOINT_VALUES));
    for (i = 0; i < count; i++) {
        memset(&other, 0, sizeof other);
        run_all(others[i], &other, &parts);
        CHECK((parts > 1) == (i == 0));
        CHECK_MESSAGE(!memcmp(plain.t5, other.t5, sizeof plain.t5), "T5 with %s", others[i]);
        CHECK_MESSAGE(!memcmp(plain.denoised, other.denoised, sizeof plain.denoised), "PixArt with %s", others[i]);
        CHECK_MESSAGE(!memcmp(plain.picture, other.picture, sizeof plain.picture), "the autoencoder with %s",
                      others[i]);
        CHECK_MESSAGE(!memcmp(plain.joint[0], other.joint[0], sizeof plain.joint[0]), "SD3 with %s", others[i]);
        CHECK_MESSAGE(!memcmp(plain.joint[1], other.joint[1], sizeof plain.joint[1]), "FLUX with %s", others[i]);
    }
}

/* Runs a model that is loaded with these options; NULL: as it is. */
static void run_joint_loaded(diti_device *device, part which, const diti_load_options *options, float *out) {
    diti_env env = test_env(NULL);
    image file = image_open(&env, part_files[which], NULL, NULL);
    diti_transformer *model = NULL;
    dit_error err = DITI_ZERO;
    if (CHECK_MESSAGE(diti_transformer_load(device, &env, NULL, file.checkpoint, "", options, &model, &err) == DIT_OK,
                      "%s: %s", part_files[which], err.message))
        run_joint(device, model, out);
    diti_transformer_destroy(model);
    image_close(&file);
}

/* Joint attention with all matrices streamed, to the byte; and with int8 where rows fill groups, and where not. */
static void test_joint_loads(diti_device *device) {
    static const dit_type_rule rotated = {"transformer.*blocks.*", DIT_TYPE_I8_ROW_ROTATED};
    static float plain[JOINT_VALUES], other[JOINT_VALUES];
    const diti_stream_sizes sizes = {512 << 10, 4096, 0, 0};
    diti_env env = test_env(NULL);
    part which;
    for (which = PART_SD3; which < PART_DIT; which = (part)(which + 1)) {
        diti_load_options options = DITI_ZERO;
        dit_error err = DITI_ZERO;
        double error = 0, norm = 0;
        uint32_t i;
        run_joint_loaded(device, which, NULL, plain);
        options.matrices = 1 << 20;
        if (CHECK_MESSAGE(diti_stream_create(device, &env, &sizes, &options.stream, &err) == DIT_OK, "%s", err.message))
            run_joint_loaded(device, which, &options, other);
        CHECK_MESSAGE(!memcmp(plain, other, sizeof plain), "%s streamed", part_files[which]);
        diti_stream_destroy(options.stream);
        memset(&options, 0, sizeof options);
        options.types = &rotated;
        options.type_count = 1;
        run_joint_loaded(device, which, &options, other);
        for (i = 0; i < JOINT_VALUES; i++) {
            error += ((double)plain[i] - other[i]) * ((double)plain[i] - other[i]);
            norm += (double)plain[i] * plain[i];
        }
        CHECK_MESSAGE(error > 0 && sqrt(error / norm) < 0.05, "%s with int8: relative L2 %.3g", part_files[which],
                      sqrt(error / norm)); /* short rows of 72 and 128 in few blocks */
    }
}

/* Rows are unconditional 0 and 1, then conditional 0 and 1; single runs have two rows each. */
static void test_batches(diti_device *device) {
    enum { IMAGE = 4 * LATENT_HEIGHT * LATENT_WIDTH };
    static float both[4 * IMAGE], own[4 * IMAGE], one[2 * IMAGE];
    diti_env env = test_env(NULL);
    image file = image_open(&env, PIXART_FILE, NULL, NULL);
    component c;
    dit_error err = DITI_ZERO;
    uint32_t i;
    if (CHECK_MESSAGE(component_load(PART_PIXART, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message)) {
        run_pixart(device, c.transformer, 0, 2, true, false, both);
        run_pixart(device, c.transformer, 0, 2, false, false, own);
        CHECK(!memcmp(both, own, sizeof both));
        run_pixart(device, c.transformer, 0, 2, false, true, own);
        CHECK(!memcmp(both, own, sizeof both));
        run_pixart(device, c.transformer, 0, 2, true, true, own);
        CHECK(!memcmp(both, own, sizeof both));
        for (i = 0; i < 2; i++) {
            run_pixart(device, c.transformer, i, 1, true, false, one);
            CHECK_MESSAGE(!memcmp(one, both + i * IMAGE, IMAGE * sizeof(float)), "unconditional %u", (unsigned)i);
            CHECK_MESSAGE(!memcmp(one + IMAGE, both + (2 + i) * IMAGE, IMAGE * sizeof(float)), "conditional %u",
                          (unsigned)i);
        }
        CHECK(memcmp(one, one + IMAGE, IMAGE * sizeof(float)) != 0);
    }
    component_free(&c);
    image_close(&file);
}

/* Images [first, first + batch) of a batch of two with HunyuanDiT; shares: one prompt for each branch, else one for
   each row. */
static void run_hunyuan(diti_device *device, const diti_transformer *model, uint32_t first, uint32_t batch, bool shares,
                        float *out) {
    static const float times[3] = {700, 321, 5};
    const diti_model_traits *traits = &model->traits;
    uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH, texts = shares ? 2 : 2 * batch, i, step = 1, lengths[4],
             lengths2[4];
    uint32_t text = traits->text_tokens * traits->text_columns, text2 = traits->text2_tokens * traits->text2_columns;
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = batch;
    d.branches = 2;
    d.height = LATENT_HEIGHT;
    d.width = LATENT_WIDTH;
    d.steps = 3;
    d.text_batch = texts;
    d.text_tokens = traits->text_tokens;
    d.text_lengths = lengths;
    d.text2_lengths = lengths2;
    d.latent = diti_tensor_input(&graph, DITI_F32, 4 * batch, pixels, "latent");
    d.text = diti_tensor_input(&graph, DITI_F32, texts * traits->text_tokens, traits->text_columns, "text");
    d.text2 = diti_tensor_input(&graph, DITI_F32, texts * traits->text2_tokens, traits->text2_columns, "text2");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * batch * 4, pixels);
    if (plan_of(&graph, &plan)) {
        float *rows = (float *)malloc(texts * (text + text2) * sizeof *rows);
        fill(plan, d.latent, 4 * batch * pixels, first * 4 * pixels);
        for (i = 0; i < texts; i++) {
            uint32_t branch = i / (texts / 2), k;
            lengths[i] = branch ? 5 : 1;
            lengths2[i] = branch ? 3 : 10;
            for (k = 0; k < text; k++) rows[i * text + k] = noise_at(branch * 7919 + k);
            for (k = 0; k < text2; k++) rows[texts * text + i * text2 + k] = noise_at(branch * 104729 + 31 + k);
        }
        CHECK(diti_plan_write(plan, d.text, rows, texts * text * sizeof *rows, NULL) == DIT_OK &&
              diti_plan_write(plan, d.text2, rows + texts * text, texts * text2 * sizeof *rows, NULL) == DIT_OK &&
              diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK &&
              model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        free(rows);
        finish(plan, kept, out, (size_t)2 * batch * 4 * pixels * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

static void test_hunyuan_batches(diti_device *device) {
    enum { IMAGE = 4 * LATENT_HEIGHT * LATENT_WIDTH };
    static float both[4 * IMAGE], own[4 * IMAGE], one[2 * IMAGE];
    diti_env env = test_env(NULL);
    image file = image_open(&env, HUNYUAN_FILE, NULL, NULL);
    component c;
    dit_error err = DITI_ZERO;
    uint32_t i;
    if (CHECK_MESSAGE(component_load(PART_HUNYUAN, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message)) {
        run_hunyuan(device, c.transformer, 0, 2, true, both);
        CHECK(finite_and_alive(both, DITI_COUNT(both)));
        run_hunyuan(device, c.transformer, 0, 2, false, own);
        CHECK(!memcmp(both, own, sizeof both));
        for (i = 0; i < 2; i++) {
            run_hunyuan(device, c.transformer, i, 1, true, one);
            CHECK_MESSAGE(!memcmp(one, both + i * IMAGE, IMAGE * sizeof(float)), "unconditional %u", (unsigned)i);
            CHECK_MESSAGE(!memcmp(one + IMAGE, both + (2 + i) * IMAGE, IMAGE * sizeof(float)), "conditional %u",
                          (unsigned)i);
        }
        CHECK(memcmp(one, one + IMAGE, IMAGE * sizeof(float)) != 0);
    }
    component_free(&c);
    image_close(&file);
}

/* --- clips --- */

typedef struct clip_case {
    const char *path, *config;
    uint32_t frames, height, width, tokens;
    bool gives;     /* frames may be given */
    size_t devices; /* of test_clips */
} clip_case;
enum { CLIP = 16 * 3 * 8 * 12 }; /* the most values of a latent */

/* Clips [first, first + batch) of a batch of two, both branches, in the second of three steps; given: which frames of
   either clip are given, as bits, or NULL where the model is not told of frames. */
static void run_clips(diti_device *device, const diti_transformer *model, const clip_case *c, uint32_t first,
                      uint32_t batch, const uint32_t *given, float *out) {
    static const float times[3] = {700, 321, 5};
    const diti_model_traits *traits = &model->traits;
    uint32_t i, step = 1, items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 1}, {0, 0, 0, 7}}, rows[3 * 4 * 4];
    uint32_t plane = c->frames * c->height * c->width, clip = traits->latent_channels * plane;
    uint32_t more = traits->condition_channels * plane, lengths[2] = {1, 7};
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    items[1][2] = c->tokens;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = batch;
    d.branches = d.text_batch = 2;
    d.frames = c->frames;
    d.height = c->height;
    d.width = c->width;
    d.steps = 3;
    d.text_tokens = c->tokens;
    d.pixels[0] = 8 * c->height;
    d.pixels[1] = 8 * c->width;
    d.latent = diti_tensor_input(&graph, DITI_F32, traits->latent_channels * batch, plane, "latent");
    if (more) d.condition = diti_tensor_input(&graph, DITI_F32, traits->condition_channels * batch, plane, "condition");
    d.text = diti_tensor_input(&graph, DITI_F32, 2 * c->tokens, traits->text_columns, "text");
    d.text_items = diti_tensor_input(&graph, DITI_U32, 2, DITI_ITEM_WORDS, "items");
    if (traits->pooled_columns) d.pooled = diti_tensor_input(&graph, DITI_F32, 2, traits->pooled_columns, "pooled");
    if (traits->masks_padding) d.text_lengths = lengths;
    d.guidance = traits->default_distilled;
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    if (given) d.frame_steps = diti_tensor_input(&graph, DITI_U32, 3, 2 * batch * c->frames, "frames");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * batch * traits->latent_channels, plane);
    for (i = 0; given && i < 3 * 2 * batch * c->frames; i++)
        rows[i] = given[first + i / c->frames % batch] >> i % c->frames & 1 ? 3 : i / (2 * batch * c->frames);
    if (plan_of(&graph, &plan)) {
        fill(plan, d.latent, batch * clip, first * clip);
        if (more) fill(plan, d.condition, batch * more, 7919 + first * more);
        fill(plan, d.text, 2 * c->tokens * traits->text_columns, 99);
        if (d.pooled) fill(plan, d.pooled, 2 * traits->pooled_columns, 7);
        CHECK((traits->joint || diti_plan_write(plan, d.text_items, items, sizeof items, NULL) == DIT_OK) &&
              diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK &&
              (!given ||
               diti_plan_write(plan, d.frame_steps, rows, 3 * 2 * batch * c->frames * sizeof *rows, NULL) == DIT_OK) &&
              model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        finish(plan, kept, out, (size_t)2 * batch * clip * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

/* Clips of a batch are what each of them is alone, with the frames given that each has. Frames of which none is given
   are as if none had been named. */
static void compare_clips(diti_device *device, const diti_transformer *model, const clip_case *c, const float *both) {
    static const uint32_t frames[2] = {5, 0}, none[2] = {0, 0};
    static float one[2 * CLIP], plain[2 * CLIP];
    size_t clip = (size_t)model->traits.latent_channels * c->frames * c->height * c->width;
    uint32_t i;
    for (i = 0; i < 2; i++) {
        run_clips(device, model, c, i, 1, c->gives ? frames : NULL, one);
        CHECK_MESSAGE(!memcmp(one, both + i * clip, clip * sizeof *one), "%s: unconditional %u", c->path, (unsigned)i);
        CHECK_MESSAGE(!memcmp(one + clip, both + (2 + i) * clip, clip * sizeof *one), "%s: conditional %u", c->path,
                      (unsigned)i);
    }
    CHECK(memcmp(one, one + clip, clip * sizeof *one) != 0);
    if (!c->gives) return;
    run_clips(device, model, c, 1, 1, NULL, plain);
    CHECK(!memcmp(one, plain, 2 * clip * sizeof *one));
    run_clips(device, model, c, 0, 1, none, plain);
    CHECK(memcmp(both, plain, clip * sizeof *both) != 0);
}

/* Nothing changes where a device binds few bytes at once. Workgroups on processors have rows and columns for each
   thread of a subgroup, so that wide subgroups need twice as many bytes. */
static void test_clips(const diti_env *env, const clip_case *c) {
    static const uint32_t ranges[] = {0, 100 << 10, 50 << 10}, frames[2] = {5, 0};
    static float both[4 * CLIP], limited[4 * CLIP];
    image file = image_open(env, c->path, NULL, NULL);
    diti_json *json = NULL;
    uint32_t i;
    CHECK(diti_json_parse(env, c->config, strlen(c->config), "config.json", &json, NULL) == DIT_OK);
    for (i = 0; i < c->devices; i++) {
        diti_device *device = open_device(env, "rung=base");
        diti_transformer *model = NULL;
        dit_error err = DITI_ZERO;
        size_t count;
        if (device && i) device->limits.storage_range = ranges[i] * (device->limits.subgroup_size > 8 ? 2 : 1);
        if (device &&
            CHECK_MESSAGE(diti_transformer_load(device, env, json, file.checkpoint, "", NULL, &model, &err) == DIT_OK,
                          "%s", err.message)) {
            count = (size_t)4 * model->traits.latent_channels * c->frames * c->height * c->width;
            run_clips(device, model, c, 0, 2, c->gives ? frames : NULL, i ? limited : both);
            CHECK(finite_and_alive(both, count));
            if (i)
                CHECK_MESSAGE(!memcmp(both, limited, count * sizeof *both), "%s with %u bytes", c->path,
                              (unsigned)ranges[i]);
            else
                compare_clips(device, model, c, both);
        }
        diti_transformer_destroy(model);
        if (device) diti_device_close(device);
    }
    diti_json_free(env, json);
    image_close(&file);
}

/* Ulysses divides the rows of attention within frames and within positions, where there are enough of both; ring and
   PipeFusion do not. A model takes the frames and the condition that it knows. */
static void test_clip_refusals(void) {
    static const uint32_t rows[] = {DITI_SPLIT_RING, DITI_SPLIT_PIPEFUSION};
    diti_transformer transformer = DITI_ZERO;
    diti_job_request request;
    dit_model model = DITI_ZERO;
    diti_step_desc step = DITI_ZERO;
    const char *why;
    uint32_t i, k;
    model.transformer = &transformer;
    transformer.family = diti_pixart_family();
    transformer.traits.variant = "test";
    transformer.traits.divided = true;
    transformer.traits.patch = 2;
    memset(&request, 0, sizeof request);
    request.latent_width = request.latent_height = 4;
    request.shape.latent_frames = 2;
    for (i = 0; i < DITI_SPLIT_AXES; i++) request.shape.split.degree[i] = 1;
    request.shape.split.degree[DITI_SPLIT_CFG] = request.shape.split.degree[DITI_SPLIT_TENSOR] = 2;
    CHECK(!diti_job_unsplit(&model, &request));
    for (i = 0; i < DITI_COUNT(rows); i++) {
        request.shape.split.degree[rows[i]] = 2;
        why = diti_job_unsplit(&model, &request);
        CHECK_MESSAGE(why && strstr(why, "exchange frames for positions"), "%s", why ? why : "split");
        request.shape.split.degree[rows[i]] = 1;
    }
    request.shape.split.degree[DITI_SPLIT_ULYSSES] = 2;
    CHECK(!diti_job_unsplit(&model, &request));
    request.shape.split.degree[DITI_SPLIT_ULYSSES] = 3;
    why = diti_job_unsplit(&model, &request);
    CHECK_MESSAGE(why && strstr(why, "fewer than devices"), "%s", why ? why : "split");
    request.shape.split.degree[DITI_SPLIT_ULYSSES] = 1;
    for (k = 0; k < 3; k++) {
        static const char *const says[] = {"one timestep for all frames", "takes no picture as a condition",
                                           "needs a picture as a condition"};
        diti_graph graph;
        memset(&graph, 0, sizeof graph);
        step.frame_steps = k == 0;
        step.condition = k == 1;
        transformer.traits.condition_channels = k == 2 ? 16 : 0;
        step.branches = step.text_batch = step.batch = 1;
        transformer.traits.patch = 2;
        diti_transformer_prepare(&transformer, &graph, &step);
        CHECK_MESSAGE(diti_graph_failed(&graph) && strstr(graph.error.message, says[k]), "%s", graph.error.message);
    }
}

static void encode_prompts(diti_device *device, const diti_t5 *t5, const uint32_t *lengths, uint32_t count,
                           uint32_t rows, uint32_t tokens, uint32_t first_id, float *out) {
    uint32_t ids[256] = {0}, items[8][DITI_ITEM_WORDS] = {{0}}, i, token, at = 0;
    diti_encoder_use use = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    for (i = 0; i < count; i++) {
        for (token = 0; token < lengths[i]; token++) ids[at + token] = ((first_id + i) * 131 + token * 37 + 1) % 1024;
        items[i][0] = items[i][2] = at;
        items[i][1] = items[i][3] = lengths[i];
        at += lengths[i];
    }
    items[count][0] = at;
    items[count][1] = rows - at;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    use.batch = count + 1;
    use.tokens = tokens;
    use.rows = rows;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, rows, "ids");
    use.items = diti_tensor_input(&graph, DITI_U32, count + 1, DITI_ITEM_WORDS, "items");
    kept = keep(&graph, diti_t5_encode(t5, &graph, &use), rows, 48);
    if (plan_of(&graph, &plan)) {
        CHECK(diti_plan_write(plan, use.ids, ids, rows * sizeof *ids, NULL) == DIT_OK);
        CHECK(diti_plan_write(plan, use.items, items, use.batch * sizeof *items, NULL) == DIT_OK);
        CHECK(diti_t5_write_inputs(t5, plan, &use, NULL) == DIT_OK);
        finish(plan, kept, out, rows * 48 * sizeof *out);
    }
    diti_plan_destroy(plan);
}

/* Together and alone: the same to 1e-5 of the largest value (other numbers of rows may take other kernels). */
static void test_unequal_prompts(diti_device *device) {
    static const uint32_t lengths[] = {1, 7, 120, 16, 0, 33};
    enum { COUNT = sizeof lengths / sizeof *lengths, ROWS = 192 };
    static float all[ROWS * 48], one[128 * 48];
    diti_env env = test_env(NULL);
    image file = image_open(&env, T5_FILE, NULL, NULL);
    component c;
    dit_error err = DITI_ZERO;
    uint32_t i, k, at = 0;
    if (CHECK_MESSAGE(component_load(PART_T5, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message)) {
        encode_prompts(device, c.t5, lengths, COUNT, ROWS, 120, 0, all);
        CHECK(finite_and_alive(all, DITI_COUNT(all)));
        for (i = 0; i < COUNT; at += lengths[i++]) {
            double worst = 0, largest = 0;
            if (!lengths[i]) continue;
            encode_prompts(device, c.t5, &lengths[i], 1, lengths[i], lengths[i] < 64 ? 64 : 120, i, one);
            for (k = 0; k < lengths[i] * 48; k++) {
                worst = fmax(worst, fabs((double)all[at * 48 + k] - (double)one[k]));
                largest = fmax(largest, fabs((double)one[k]));
            }
            CHECK_MESSAGE(worst <= 1e-5 * largest && largest > 0, "%u tokens: %g of %g", lengths[i], worst, largest);
        }
    }
    component_free(&c);
    image_close(&file);
}

/* A budget is compared with what is then loaded: the parts, and the layers of text encoders, that the pipeline wants.
 */
static void check_measured(const char *folder) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_model_info whole, info;
    dit_error err = {0};
    const char *number;
    desc.source.path = folder;
    desc.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", folder, err.message)) return;
    dit_model_get_info(model, &whole);
    dit_model_destroy(model);
    desc.weight_budget = 1;
    CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT, "%s", folder);
    number = strstr(err.message, "needs at least ");
    if (!CHECK_MESSAGE(number, "%s: %s", folder, err.message)) return;
    desc.weight_budget = strtoull(number + strlen("needs at least "), NULL, 10);
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", folder, err.message)) return;
    dit_model_get_info(model, &info);
    dit_model_destroy(model);
    CHECK_MESSAGE(!memcmp(info.parameters, whole.parameters, sizeof whole.parameters) && info.streamed_bytes > 0,
                  "%s: other parts than without a budget", folder);
    CHECK_MESSAGE(info.weight_bytes <= desc.weight_budget, "%s: %llu bytes of a budget of %llu", folder,
                  (unsigned long long)info.weight_bytes, (unsigned long long)desc.weight_budget);
}

static void test_measured(void) {
    DIR *folder = opendir("tests/fixtures");
    struct dirent *entry;
    char name[300];
    uint32_t pipelines = 0;
    while (folder && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, "pipe_", 5)) continue;
        snprintf(name, sizeof name, "tests/fixtures/%s", entry->d_name);
        check_measured(name);
        pipelines++;
    }
    if (folder) closedir(folder);
    CHECK_MESSAGE(pipelines >= 18, "%u pipelines", (unsigned)pipelines);
}

int main(void) {
    const char *way = getenv("DIT_TEST_WAY");
    static const clip_case clips[] = {
        {"tests/fixtures/stdit1/model.safetensors", "{}", 4, 8, 8, 10, true, 3},
        {"tests/fixtures/osp11_lattet2v_rope/model.safetensors",
         "{\"_class_name\": \"LatteT2V\", \"use_rope\": true, \"num_attention_heads\": 2, \"attention_head_dim\": 36}",
         4, 8, 8, 10, false, 3},
        {"tests/fixtures/cogvideox_5b_i2v/model.safetensors",
         "{\"max_text_seq_length\": 7, \"sample_width\": 12, \"sample_height\": 8, "
         "\"use_rotary_positional_embeddings\": true}",
         3, 8, 12, 7, false, 2},
        {"tests/fixtures/ltx/model.safetensors", "{\"num_attention_heads\": 2}", 3, 8, 6, 9, true, 3},
        {"tests/fixtures/hunyuanvideo/model.safetensors", "{\"rope_axes_dim\": [8, 12, 12]}", 3, 8, 10, 9, false, 2}};
    size_t i;
    bool slow = way && !strcmp(way, "swiftshader") && !test_first_driver(); /* all pipelines are compiled anew */
    diti_env env = test_env(NULL);
    diti_device *device;
    test_wrong_files();
    test_harmless_tensors();
    test_out_of_memory();
    test_tables();
    test_names();
    test_clip_refusals();
    test_measured();
    test_vulkan_begin();
    device = open_device(&env, "rung=base");
    if (device) {
        test_dry_runs(device);
        test_cancel(device);
        test_batches(device);
        if (!slow) test_hunyuan_batches(device);
        if (!slow) test_joint_loads(device);
        test_unequal_prompts(device);
        diti_device_close(device);
    }
    if (test_first_driver()) test_limits();
    if (test_first_driver()) test_part_rows();
    for (i = 0; i < DITI_COUNT(clips) && test_first_driver(); i++) test_clips(&env, &clips[i]);
    test_vulkan_end();
    return TEST_END("model");
}
