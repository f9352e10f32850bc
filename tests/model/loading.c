/* Loading of weights: wrong files and their messages, tensors that nobody asks for, names, sizes of dry runs, budgets,
   cancelling, memory that runs out. model.c has what is computed with them.
   test-runs: lavapipe sanitize, in test-all swiftshader */
#include "fixture_parts.h"
#include "text/t5.c"
#include "model/pixart.c"
#include "model/hunyuandit.c"
#include "vae/kl.c"
#include <dirent.h>

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
        CHECK(!c.t5 && !c.transformer && !c.vae && !c.clip && !c.bert && !c.decoder);
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

/* --- names --- */

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

int main(void) {
    diti_env env = test_env(NULL);
    diti_device *device;
    test_wrong_files();
    test_harmless_tensors();
    test_names();
    test_measured();
    test_out_of_memory();
    test_vulkan_begin();
    device = open_device(&env, "rung=base");
    if (device) {
        test_dry_runs(device);
        test_cancel(device);
        diti_device_close(device);
    }
    test_vulkan_end();
    return TEST_END("loading");
}
