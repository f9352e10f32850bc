/* The weights of a folder as the code base wrote them that a model comes from: other names, matrices that lie in one,
   halves that have changed places. The names are those of docs/models.md and of the published files, not of the tables
   in src/model/, so that both must agree. */
#ifndef GOLDEN_ORIGINALS_H
#define GOLDEN_ORIGINALS_H
#include "golden_model.h"
#include "model_files.h"

typedef struct golden_joined { /* rows of these lie one behind the other in `whole` */
    const char *parts[5], *whole;
} golden_joined;
typedef struct golden_table { /* names that begin with `in`; what follows has some words replaced, one after the other
                               */
    const char *in, *out;
    const char *const (*pairs)[2];
    size_t pair_count;
    const golden_joined *joins;
    size_t join_count;
    const golden_joined *divided; /* `whole` is parts in the original; the last has no names. NULL: none is */
} golden_table;
typedef struct golden_original {
    const char *folder, *before; /* before: in front of every name */
    const golden_table *tables;
    size_t table_count;
    const char *swapped; /* the upper half of the rows of what is called so, or, with a '.' in front, of what has that
                            in its name, is the lower one; or NULL */
    bool weights;        /* norms have weights, which the original calls scales */
} golden_original;

#define GOLDEN_TABLE(IN, OUT, PAIRS, JOINS)                                                                            \
    { IN, OUT, PAIRS, DITI_COUNT(PAIRS), JOINS, DITI_COUNT(JOINS), NULL }
#define GOLDEN_PLAIN_TABLE(IN, OUT, PAIRS)                                                                             \
    { IN, OUT, PAIRS, DITI_COUNT(PAIRS), NULL, 0, NULL }

/* --- Sana --- */
static const char *const golden_sana_block[][2] = {
    {"attn1.norm_q", "attn.q_norm"},          {"attn1.norm_k", "attn.k_norm"},
    {"attn1.to_out.0", "attn.proj"},          {"attn2.to_q", "cross_attn.q_linear"},
    {"attn2.norm_q", "cross_attn.q_norm"},    {"attn2.norm_k", "cross_attn.k_norm"},
    {"attn2.to_out.0", "cross_attn.proj"},    {"ff.conv_inverted", "mlp.inverted_conv.conv"},
    {"ff.conv_depth", "mlp.depth_conv.conv"}, {"ff.conv_point", "mlp.point_conv.conv"},
};
static const golden_joined golden_sana_joins[] = {{{"attn1.to_q.", "attn1.to_k.", "attn1.to_v."}, "attn.qkv."},
                                                  {{"attn2.to_k.", "attn2.to_v."}, "cross_attn.kv_linear."}};
static const char *const golden_sana_other[][2] = {
    {"patch_embed", "x_embedder"},
    {"time_embed.emb.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_embed.emb.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_embed.guidance_embedder.linear_1", "cfg_embedder.mlp.0"},
    {"time_embed.guidance_embedder.linear_2", "cfg_embedder.mlp.2"},
    {"time_embed.linear", "t_block.1"},
    {"caption_projection.linear_1", "y_embedder.y_proj.fc1"},
    {"caption_projection.linear_2", "y_embedder.y_proj.fc2"},
    {"caption_norm", "attention_y_norm"},
    {"scale_shift_table", "final_layer.scale_shift_table"},
    {"proj_out", "final_layer.linear"},
};
static const golden_table golden_sana_names[] = {
    GOLDEN_TABLE("transformer_blocks.", "blocks.", golden_sana_block, golden_sana_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_sana_other)};

/* --- Lumina-Image 2 --- */
static const char *const golden_lumina2_block[][2] = {
    {"attn.to_out.0", "attention.out"},
    {"attn.norm_q", "attention.q_norm"},
    {"attn.norm_k", "attention.k_norm"},
    {".norm1.linear", ".adaLN_modulation.1"},
    {".norm1.norm", ".attention_norm1"},
    {".norm1.weight", ".attention_norm1.weight"},
    {".norm2.", ".attention_norm2."},
    {"feed_forward.linear_1", "feed_forward.w1"},
    {"feed_forward.linear_2", "feed_forward.w2"},
    {"feed_forward.linear_3", "feed_forward.w3"},
};
static const golden_joined golden_lumina2_joins[] = {{{"attn.to_q.", "attn.to_k.", "attn.to_v."}, "attention.qkv."}};
static const char *const golden_lumina2_other[][2] = {
    {"time_caption_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_caption_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_caption_embed.caption_embedder", "cap_embedder"},
    {"norm_out.linear_1", "final_layer.adaLN_modulation.1"},
    {"norm_out.linear_2", "final_layer.linear"},
};
static const golden_table golden_lumina2_names[] = {
    GOLDEN_TABLE("layers.", "layers.", golden_lumina2_block, golden_lumina2_joins),
    GOLDEN_TABLE("noise_refiner.", "noise_refiner.", golden_lumina2_block, golden_lumina2_joins),
    GOLDEN_TABLE("context_refiner.", "context_refiner.", golden_lumina2_block, golden_lumina2_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_lumina2_other)};

/* --- Anima --- */
static const char *const golden_anima_block[][2] = {
    {"norm1.linear_", "adaln_modulation_self_attn."},
    {"norm2.linear_", "adaln_modulation_cross_attn."},
    {"norm3.linear_", "adaln_modulation_mlp."},
    {"attn1.to_out.0", "self_attn.output_proj"},
    {"attn1.to_q", "self_attn.q_proj"},
    {"attn1.to_k", "self_attn.k_proj"},
    {"attn1.to_v", "self_attn.v_proj"},
    {"attn1.norm_q", "self_attn.q_norm"},
    {"attn1.norm_k", "self_attn.k_norm"},
    {"attn2.to_out.0", "cross_attn.output_proj"},
    {"attn2.to_q", "cross_attn.q_proj"},
    {"attn2.to_k", "cross_attn.k_proj"},
    {"attn2.to_v", "cross_attn.v_proj"},
    {"attn2.norm_q", "cross_attn.q_norm"},
    {"attn2.norm_k", "cross_attn.k_norm"},
    {"ff.net.0.proj", "mlp.layer1"},
    {"ff.net.2", "mlp.layer2"},
};
static const char *const golden_anima_other[][2] = {
    {"patch_embed.proj", "x_embedder.proj.1"}, {"time_embed.t_embedder", "t_embedder.1"},
    {"time_embed.norm", "t_embedding_norm"},   {"norm_out.linear_", "final_layer.adaln_modulation."},
    {"proj_out", "final_layer.linear"},
};
static const golden_table golden_anima_names[] = {
    GOLDEN_PLAIN_TABLE("transformer_blocks.", "blocks.", golden_anima_block),
    GOLDEN_PLAIN_TABLE("", "", golden_anima_other)};

/* --- Chroma, whose blocks are FLUX.1's --- */
static const char *const golden_double_block[][2] = {
    {"attn.norm_q.weight", "img_attn.norm.query_norm.scale"},
    {"attn.norm_k.weight", "img_attn.norm.key_norm.scale"},
    {"attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"},
    {"attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"},
    {"attn.to_out.0", "img_attn.proj"},
    {"attn.to_add_out", "txt_attn.proj"},
    {"ff.net.0.proj", "img_mlp.0"},
    {"ff.net.2", "img_mlp.2"},
    {"ff_context.net.0.proj", "txt_mlp.0"},
    {"ff_context.net.2", "txt_mlp.2"},
    {"norm1.linear", "img_mod.lin"},
    {"norm1_context.linear", "txt_mod.lin"},
};
static const golden_joined golden_double_joins[] = {
    {{"attn.to_q.", "attn.to_k.", "attn.to_v."}, "img_attn.qkv."},
    {{"attn.add_q_proj.", "attn.add_k_proj.", "attn.add_v_proj."}, "txt_attn.qkv."}};
static const char *const golden_single_block[][2] = {{"attn.norm_q.weight", "norm.query_norm.scale"},
                                                     {"attn.norm_k.weight", "norm.key_norm.scale"},
                                                     {".norm.linear", ".modulation.lin"},
                                                     {"proj_out", "linear2"}};
static const golden_joined golden_single_joins[] = {
    {{"attn.to_q.", "attn.to_k.", "attn.to_v.", "proj_mlp."}, "linear1."}};
static const char *const golden_guidance_layer[][2] = {{"linear_1", "in_layer"}, {"linear_2", "out_layer"}};
static const char *const golden_guidance_norm[][2] = {{"weight", "scale"}};
static const char *const golden_chroma_other[][2] = {
    {"x_embedder", "img_in"}, {"context_embedder", "txt_in"}, {"proj_out", "final_layer.linear"}};
static const char *const golden_chroma_ends[][2] = {{"in_proj", "in_proj"}};
static const golden_table golden_chroma_names[] = {
    GOLDEN_TABLE("transformer_blocks.", "double_blocks.", golden_double_block, golden_double_joins),
    GOLDEN_TABLE("single_transformer_blocks.", "single_blocks.", golden_single_block, golden_single_joins),
    GOLDEN_PLAIN_TABLE("distilled_guidance_layer.layers.", "distilled_guidance_layer.layers.", golden_guidance_layer),
    GOLDEN_PLAIN_TABLE("distilled_guidance_layer.norms.", "distilled_guidance_layer.norms.", golden_guidance_norm),
    GOLDEN_PLAIN_TABLE("distilled_guidance_layer.", "distilled_guidance_layer.", golden_chroma_ends),
    GOLDEN_PLAIN_TABLE("", "", golden_chroma_other)};

/* --- LongCat-Image, which has FLUX.1's blocks with their modulation, too --- */
static const char *const golden_stream_other[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder", "txt_in"},
    {"time_embed.timestep_embedder.linear_1", "time_in.in_layer"},
    {"time_embed.timestep_embedder.linear_2", "time_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"},
    {"proj_out", "final_layer.linear"},
};
static const golden_table golden_longcat_names[] = {
    GOLDEN_TABLE("transformer_blocks.", "double_blocks.", golden_double_block, golden_double_joins),
    GOLDEN_TABLE("single_transformer_blocks.", "single_blocks.", golden_single_block, golden_single_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_stream_other)};

/* --- Ovis-Image: by its own file's names of the text's layers, and by ComfyUI's --- */
static const char *const golden_ovis_double[][2] = {
    {"attn.norm_q.weight", "img_attn.norm.query_norm.scale"},
    {"attn.norm_k.weight", "img_attn.norm.key_norm.scale"},
    {"attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"},
    {"attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"},
    {"attn.to_out.0", "img_attn.proj"},
    {"attn.to_add_out", "txt_attn.proj"},
    {"ff.net.2", "img_mlp.down_proj"},
    {"ff_context.net.2", "txt_mlp.down_proj"},
    {"norm1.linear", "img_mod.lin"},
    {"norm1_context.linear", "txt_mod.lin"},
};
static const golden_joined golden_ovis_divided[] = {
    {{"img_mlp.up_proj.", "img_mlp.gate_proj."}, ".ff.net.0.proj."},
    {{"txt_mlp.up_proj.", "txt_mlp.gate_proj."}, ".ff_context.net.0.proj."},
    {{NULL}, NULL}};
static const char *const golden_ovis_own[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder_norm", "semantic_txt_norm"},
    {"context_embedder", "semantic_txt_in"},
    {"timestep_embedder.linear_1", "time_in.in_layer"},
    {"timestep_embedder.linear_2", "time_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"},
    {"proj_out", "final_layer.linear"},
};
static const char *const golden_ovis_other[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder_norm.weight", "txt_norm.scale"},
    {"context_embedder", "txt_in"},
    {"timestep_embedder.linear_1", "time_in.in_layer"},
    {"timestep_embedder.linear_2", "time_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"},
    {"proj_out", "final_layer.linear"},
};
#define GOLDEN_OVIS_DOUBLE                                                                                             \
    {                                                                                                                  \
        "transformer_blocks.", "double_blocks.", golden_ovis_double, DITI_COUNT(golden_ovis_double),                   \
            golden_double_joins, DITI_COUNT(golden_double_joins), golden_ovis_divided                                  \
    }
static const golden_table golden_ovis_own_names[] = {
    GOLDEN_OVIS_DOUBLE,
    GOLDEN_TABLE("single_transformer_blocks.", "single_blocks.", golden_single_block, golden_single_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_ovis_own)};
static const golden_table golden_ovis_names[] = {
    GOLDEN_OVIS_DOUBLE,
    GOLDEN_TABLE("single_transformer_blocks.", "single_blocks.", golden_single_block, golden_single_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_ovis_other)};

/* --- FLUX.3 --- */
static const char *const golden_flux3_block[][2] = {
    {"attn.norm_q.weight", "norm.query_norm.scale"},
    {"attn.norm_k.weight", "norm.key_norm.scale"},
    {"attn.to_out.0", "attn_out"},
    {"attn.to_q", "q_proj"},
    {"attn.to_k", "k_proj"},
    {"attn.to_v", "v_proj"},
    {"ff.linear_", "mlp_"},
};
static const char *const golden_flux3_other[][2] = {
    {"x_embedders.", "emb_in."},
    {"context_embedder", "txt_in"},
    {"target_timestep_embedder.linear_1", "ref_time_in.in_layer"},
    {"target_timestep_embedder.linear_2", "ref_time_in.out_layer"},
    {"timestep_embedder.linear_1", "time_in.in_layer"},
    {"timestep_embedder.linear_2", "time_in.out_layer"},
    {"norm_out.linear", "final_layer.image.adaLN_modulation.1"},
    {"proj_out", "final_layer.image.linear"},
    {".linear.weight", ".lin.weight"},
    {"final_layer.image.lin.", "final_layer.image.linear."},
};
static const golden_table golden_flux3_names[] = {
    GOLDEN_PLAIN_TABLE("mode_blocks.", "content_mode_blocks.", golden_flux3_block),
    GOLDEN_PLAIN_TABLE("txt_mode_blocks.", "txt_mode_blocks.", golden_flux3_block),
    GOLDEN_PLAIN_TABLE("single_transformer_blocks.", "single_blocks.", golden_flux3_block),
    GOLDEN_PLAIN_TABLE("", "", golden_flux3_other)};

/* --- Ideogram 4 --- */
static const char *const golden_ideogram4_block[][2] = {{"attention.to_out.0", "attention.o"}};
static const golden_joined golden_ideogram4_joins[] = {
    {{"attention.to_q.", "attention.to_k.", "attention.to_v."}, "attention.qkv."}};
static const char *const golden_ideogram4_other[][2] = {{"input_proj", "input_proj"}};
static const golden_table golden_ideogram4_names[] = {
    GOLDEN_TABLE("layers.", "layers.", golden_ideogram4_block, golden_ideogram4_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_ideogram4_other)};

/* --- Qwen-Image-2.1: single files have the repository's names behind a prefix --- */
static const char *const golden_same[][2] = {{"proj_out", "proj_out"}};
static const golden_table golden_same_names[] = {GOLDEN_PLAIN_TABLE("", "", golden_same)};

/* --- LTX-Video --- */
static const char *const golden_ltx_block[][2] = {{"norm_q", "q_norm"}, {"norm_k", "k_norm"}};
static const char *const golden_ltx_other[][2] = {{"proj_in", "patchify_proj"}, {"time_embed", "adaln_single"}};
static const golden_table golden_ltx_names[] = {
    GOLDEN_PLAIN_TABLE("transformer_blocks.", "transformer_blocks.", golden_ltx_block),
    GOLDEN_PLAIN_TABLE("", "", golden_ltx_other)};

/* --- LTX-2 --- */
static const char *const golden_ltx2_block[][2] = {
    {"norm_q", "q_norm"},
    {"norm_k", "k_norm"},
    {"video_a2v_cross_attn_scale_shift_table", "scale_shift_table_a2v_ca_video"},
    {"audio_a2v_cross_attn_scale_shift_table", "scale_shift_table_a2v_ca_audio"}};
static const char *const golden_ltx2_other[][2] = {
    {"proj_in", "patchify_proj"},
    {"time_embed", "adaln_single"},
    {"prompt_adaln", "prompt_adaln_single"},
    {"av_cross_attn_video_scale_shift", "av_ca_video_scale_shift_adaln_single"},
    {"av_cross_attn_audio_scale_shift", "av_ca_audio_scale_shift_adaln_single"},
    {"av_cross_attn_video_a2v_gate", "av_ca_a2v_gate_adaln_single"},
    {"av_cross_attn_audio_v2a_gate", "av_ca_v2a_gate_adaln_single"}};
static const golden_table golden_ltx2_names[] = {
    GOLDEN_PLAIN_TABLE("transformer_blocks.", "transformer_blocks.", golden_ltx2_block),
    GOLDEN_PLAIN_TABLE("", "", golden_ltx2_other)};

/* --- MiniMax-H3 --- */
static const char *const golden_minimax_block[][2] = {{"attn.norm_q", "attn.q_norm"},
                                                      {"attn.norm_k", "attn.k_norm"},
                                                      {"attn.to_out.0", "attn.out_proj"},
                                                      {"ff.net.0.proj", "mlp.fc1"},
                                                      {"ff.net.2", "mlp.fc2"}};
static const golden_joined golden_minimax_joins[] = {{{"attn.to_q.", "attn.to_k.", "attn.to_v."}, "attn.qkv_proj."}};
static const char *const golden_minimax_other[][2] = {
    {"audio_proj_in", "audio_patch_proj"},
    {"proj_in", "video_patch_proj"},
    {"audio_proj_out", "final_layer.audio_out"},
    {"proj_out", "final_layer.video_out"},
    {"context_embedder", "condition_proj"},
    {"time_embedder.linear_1", "time_embedder.proj_in"},
    {"time_embedder.linear_2", "time_embedder.proj_out"},
    {"norm_out.norm", "final_layer.norm"},
    {"norm_out.linear", "final_layer.adaln_proj.linear"},
};
static const golden_table golden_minimax_names[] = {
    GOLDEN_TABLE("transformer_blocks.", "blocks.", golden_minimax_block, golden_minimax_joins),
    GOLDEN_TABLE("token_refiner.refiner_blocks.", "token_refiner.blocks.", golden_minimax_block, golden_minimax_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_minimax_other)};

/* --- HunyuanVideo --- */
static const char *const golden_hunyuan_refiner[][2] = {{"attn.to_out.0", "self_attn_proj"},
                                                        {"ff.net.0.proj", "mlp.fc1"},
                                                        {"ff.net.2", "mlp.fc2"},
                                                        {"norm_out.linear", "adaLN_modulation.1"}};
static const golden_joined golden_hunyuan_refiner_joins[] = {
    {{"attn.to_q.", "attn.to_k.", "attn.to_v."}, "self_attn_qkv."}};
static const char *const golden_hunyuan_single[][2] = {{"norm.linear", "modulation.linear"},
                                                       {"attn.norm_q", "q_norm"},
                                                       {"attn.norm_k", "k_norm"},
                                                       {"proj_out", "linear2"}};
static const char *const golden_hunyuan_double[][2] = {
    {"norm1.linear", "img_mod.linear"},       {"norm1_context.linear", "txt_mod.linear"},
    {"attn.norm_q", "img_attn_q_norm"},       {"attn.norm_k", "img_attn_k_norm"},
    {"attn.norm_added_q", "txt_attn_q_norm"}, {"attn.norm_added_k", "txt_attn_k_norm"},
    {"attn.to_out.0", "img_attn_proj"},       {"attn.to_add_out", "txt_attn_proj"},
    {"ff.net.0.proj", "img_mlp.fc1"},         {"ff.net.2", "img_mlp.fc2"},
    {"ff_context.net.0.proj", "txt_mlp.fc1"}, {"ff_context.net.2", "txt_mlp.fc2"},
};
static const golden_joined golden_hunyuan_double_joins[] = {
    {{"attn.to_q.", "attn.to_k.", "attn.to_v."}, "img_attn_qkv."},
    {{"attn.add_q_proj.", "attn.add_k_proj.", "attn.add_v_proj."}, "txt_attn_qkv."}};
static const char *const golden_hunyuan_other[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder.proj_in", "txt_in.input_embedder"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"},
    {"context_embedder.time_text_embed.text_embedder", "txt_in.c_embedder"},
    {"time_text_embed.timestep_embedder.linear_1", "time_in.mlp.0"},
    {"time_text_embed.timestep_embedder.linear_2", "time_in.mlp.2"},
    {"time_text_embed.guidance_embedder.linear_1", "guidance_in.mlp.0"},
    {"time_text_embed.guidance_embedder.linear_2", "guidance_in.mlp.2"},
    {"time_text_embed.text_embedder.linear_1", "vector_in.in_layer"},
    {"time_text_embed.text_embedder.linear_2", "vector_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"},
    {"proj_out", "final_layer.linear"},
};
static const golden_table golden_hunyuan_names[] = {
    GOLDEN_TABLE("context_embedder.token_refiner.refiner_blocks.", "txt_in.individual_token_refiner.blocks.",
                 golden_hunyuan_refiner, golden_hunyuan_refiner_joins),
    GOLDEN_TABLE("single_transformer_blocks.", "single_blocks.", golden_hunyuan_single, golden_single_joins),
    GOLDEN_TABLE("transformer_blocks.", "double_blocks.", golden_hunyuan_double, golden_hunyuan_double_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_hunyuan_other)};

/* --- HunyuanVideo 1.5: Tencent's files, and ComfyUI's, which join queries, keys and values --- */
static const char *const golden_hv15_double[][2] = {
    {"norm1.linear", "img_mod.linear"},
    {"norm1_context.linear", "txt_mod.linear"},
    {"attn.norm_q", "img_attn_q_norm"},
    {"attn.norm_k", "img_attn_k_norm"},
    {"attn.norm_added_q", "txt_attn_q_norm"},
    {"attn.norm_added_k", "txt_attn_k_norm"},
    {"attn.to_out.0", "img_attn_proj"},
    {"attn.to_add_out", "txt_attn_proj"},
    {"attn.to_q", "img_attn_q"},
    {"attn.to_k", "img_attn_k"},
    {"attn.to_v", "img_attn_v"},
    {"attn.add_q_proj", "txt_attn_q"},
    {"attn.add_k_proj", "txt_attn_k"},
    {"attn.add_v_proj", "txt_attn_v"},
    {"ff.net.0.proj", "img_mlp.fc1"},
    {"ff.net.2", "img_mlp.fc2"},
    {"ff_context.net.0.proj", "txt_mlp.fc1"},
    {"ff_context.net.2", "txt_mlp.fc2"},
};
static const char *const golden_hv15_other[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder.proj_in", "txt_in.input_embedder"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"},
    {"context_embedder.time_text_embed.text_embedder", "txt_in.c_embedder"},
    {"context_embedder_2.norm", "byt5_in.layernorm"},
    {"context_embedder_2.linear_", "byt5_in.fc"},
    {"image_embedder.norm_in", "vision_in.proj.0"},
    {"image_embedder.linear_1", "vision_in.proj.1"},
    {"image_embedder.linear_2", "vision_in.proj.3"},
    {"image_embedder.norm_out", "vision_in.proj.4"},
    {"time_embed.timestep_embedder.linear_1", "time_in.mlp.0"},
    {"time_embed.timestep_embedder.linear_2", "time_in.mlp.2"},
    {"cond_type_embed", "cond_type_embedding"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"},
    {"proj_out", "final_layer.linear"},
};
static const golden_table golden_hv15_names[] = {
    GOLDEN_TABLE("context_embedder.token_refiner.refiner_blocks.", "txt_in.individual_token_refiner.blocks.",
                 golden_hunyuan_refiner, golden_hunyuan_refiner_joins),
    GOLDEN_PLAIN_TABLE("transformer_blocks.", "double_blocks.", golden_hv15_double),
    GOLDEN_PLAIN_TABLE("", "", golden_hv15_other)};
static const golden_table golden_hv15_comfy_names[] = {
    GOLDEN_TABLE("context_embedder.token_refiner.refiner_blocks.", "txt_in.individual_token_refiner.blocks.",
                 golden_hunyuan_refiner, golden_hunyuan_refiner_joins),
    GOLDEN_TABLE("transformer_blocks.", "double_blocks.", golden_hunyuan_double, golden_hunyuan_double_joins),
    GOLDEN_PLAIN_TABLE("", "", golden_hv15_other)};

static const golden_original golden_originals[] = {
    {"sana", "", golden_sana_names, DITI_COUNT(golden_sana_names), NULL, false},
    {"sana_sprint", "", golden_sana_names, DITI_COUNT(golden_sana_names), NULL, false},
    {"lumina2", "model.diffusion_model.", golden_lumina2_names, DITI_COUNT(golden_lumina2_names), NULL, false},
    {"pipe_anima", "net.", golden_anima_names, DITI_COUNT(golden_anima_names), NULL, false},
    {"pipe_anima", "", golden_anima_names, DITI_COUNT(golden_anima_names), NULL, false},
    {"pipe_anima", "model.diffusion_model.", golden_anima_names, DITI_COUNT(golden_anima_names), NULL, false},
    {"pipe_chroma", "", golden_chroma_names, DITI_COUNT(golden_chroma_names), NULL, false},
    {"pipe_chroma", "model.diffusion_model.", golden_chroma_names, DITI_COUNT(golden_chroma_names), NULL, true},
    {"pipe_longcat", "", golden_longcat_names, DITI_COUNT(golden_longcat_names), "norm_out.linear.", false},
    {"pipe_longcat", "model.diffusion_model.", golden_longcat_names, DITI_COUNT(golden_longcat_names),
     "norm_out.linear.", true},
    {"pipe_ovis", "", golden_ovis_own_names, DITI_COUNT(golden_ovis_own_names), "norm_out.linear.", true},
    {"pipe_ovis", "model.diffusion_model.", golden_ovis_names, DITI_COUNT(golden_ovis_names), "norm_out.linear.",
     false},
    {"pipe_flux3", "", golden_flux3_names, DITI_COUNT(golden_flux3_names), "norm_out.linear.", false},
    {"pipe_ideogram4", "", golden_ideogram4_names, DITI_COUNT(golden_ideogram4_names), NULL, false},
    {"pipe_boogu", "model.diffusion_model.", golden_same_names, DITI_COUNT(golden_same_names), NULL, false},
    {"qwenimage21", "model.diffusion_model.", golden_same_names, DITI_COUNT(golden_same_names), NULL, false},
    {"ltx", "model.diffusion_model.", golden_ltx_names, DITI_COUNT(golden_ltx_names), NULL, false},
    {"pipe_ltx2", "", golden_ltx2_names, DITI_COUNT(golden_ltx2_names), NULL, false},
    {"pipe_minimax_h3", "model.diffusion_model.", golden_minimax_names, DITI_COUNT(golden_minimax_names),
     ".ff.net.0.proj.", false},
    {"hunyuanvideo", "", golden_hunyuan_names, DITI_COUNT(golden_hunyuan_names), "norm_out.linear.", false},
    {"pipe_hunyuanvideo15", "", golden_hv15_names, DITI_COUNT(golden_hv15_names), "norm_out.linear.", false},
    {"pipe_hunyuanvideo15", "model.diffusion_model.", golden_hv15_comfy_names, DITI_COUNT(golden_hv15_comfy_names),
     "norm_out.linear.", false},
};

/* --- the file --- */

static inline void golden_replace(char *name, size_t size, const char *word, const char *with) {
    char before[256];
    char *at = strstr(name, word);
    if (!at) return;
    diti_format(before, sizeof before, "%.*s%s%s", (int)(at - name), name, with, at + strlen(word));
    diti_format(name, size, "%s", before);
}

static inline const golden_table *golden_table_of(const golden_original *to, const char *name) {
    size_t i;
    for (i = 0; i + 1 < to->table_count && !diti_starts_with(name, to->tables[i].in);) i++;
    return &to->tables[i];
}

/* The matrix that a tensor's rows are part of, and which part they are; NULL: it stands alone. */
static inline const golden_joined *golden_joined_of(const golden_table *table, const char *name, size_t *part) {
    size_t i;
    for (i = 0; i < table->join_count; i++)
        for (*part = 0; table->joins[i].parts[*part]; ++*part)
            if (strstr(name, table->joins[i].parts[*part])) return &table->joins[i];
    return NULL;
}

/* divided: the original has the tensor in parts, of which this is `index`; NULL: it has not. */
static inline void golden_original_name(const golden_original *to, const char *name, const golden_joined *divided,
                                        uint32_t index, char *out, size_t size) {
    const golden_table *table = golden_table_of(to, name);
    size_t i, part;
    const golden_joined *joined = golden_joined_of(table, name, &part);
    diti_format(out, size, ".%s", name + strlen(table->in)); /* so that a word can begin with a dot */
    if (divided)
        golden_replace(out, size, divided->whole + 1, divided->parts[index]);
    else if (joined)
        golden_replace(out, size, joined->parts[0], joined->whole);
    else
        for (i = 0; i < table->pair_count; i++) golden_replace(out, size, table->pairs[i][0], table->pairs[i][1]);
    diti_format(out, size, "%s", out + 1);
    if (to->weights) golden_replace(out, size, ".scale", ".weight");
}

/* Appends the rows of all parts, and returns how many they are; 0: one of them is missing. */
static inline uint64_t golden_original_join(golden *g, const diti_checkpoint *from, const char *name,
                                            const golden_joined *joined, bytes *data) {
    uint64_t rows = 0, count;
    size_t i;
    for (i = 0; joined->parts[i]; i++) {
        const diti_stored_tensor *tensor;
        char other[256];
        float *values;
        diti_format(other, sizeof other, "%s", name);
        golden_replace(other, sizeof other, joined->parts[0], joined->parts[i]);
        tensor = diti_checkpoint_find(from, other);
        if (!golden_require(g, tensor != NULL, "%s is there", other)) return 0;
        values = golden_floats(from, other, &count);
        bytes_add(data, values, (size_t)count * sizeof *values);
        free(values);
        rows += tensor->shape[0];
    }
    return rows;
}

static inline void golden_original_add(const diti_checkpoint *from, const char *name, bool swapped, bytes *data) {
    uint64_t count;
    float *values = golden_floats(from, name, &count), *half = values + (swapped ? count / 2 : 0);
    bytes_add(data, half, (size_t)(count - (uint64_t)(half - values)) * sizeof *values);
    bytes_add(data, values, (size_t)(half - values) * sizeof *values);
    free(values);
}

/* The parts that the original has of a tensor; NULL: it is one there, too. */
static inline const golden_joined *golden_divided_of(const golden_original *to, const char *name) {
    const golden_joined *divided = golden_table_of(to, name)->divided;
    while (divided && divided->whole && !strstr(name, divided->whole)) divided++;
    return divided && divided->whole ? divided : NULL;
}

static inline bool golden_original_swaps(const char *name, const char *swapped) {
    return *swapped == '.' ? strstr(name, swapped) != NULL : diti_starts_with(name, swapped);
}

/* Freed with bytes_free. */
static inline bytes golden_original_file(golden *g, const diti_checkpoint *from, const golden_original *to) {
    static char header[65536];
    bytes data = {0}, out;
    size_t used = 1, part;
    uint32_t i, k, n, parts;
    strcpy(header, "{");
    for (i = 0; i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(from, i);
        const golden_joined *joined = golden_joined_of(golden_table_of(to, tensor->name), tensor->name, &part);
        const golden_joined *divided = golden_divided_of(to, tensor->name);
        uint64_t begin = data.size, rows = tensor->rank ? tensor->shape[0] : 1, size;
        char name[256], shape[128] = "";
        if (joined && part) continue;
        if (joined)
            rows = golden_original_join(g, from, tensor->name, joined, &data);
        else
            golden_original_add(from, tensor->name, to->swapped && golden_original_swaps(tensor->name, to->swapped),
                                &data);
        for (parts = 1; divided && divided->parts[parts];) parts++;
        size = (data.size - begin) / parts;
        for (k = 0; k < tensor->rank; k++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", k ? "," : "",
                     (unsigned long long)(k ? tensor->shape[k] : rows / parts));
        for (n = 0; n < parts; n++) {
            golden_original_name(to, tensor->name, divided, n, name, sizeof name);
            snprintf(header + used, sizeof header - used,
                     "%s\"%s%s%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                     used > 1 ? "," : "", to->before, golden_table_of(to, tensor->name)->out, name, shape,
                     (unsigned long long)(begin + n * size), (unsigned long long)(begin + (n + 1) * size));
            used += strlen(header + used);
        }
    }
    strcat(header, "}");
    out = safetensors_bytes(header, 0);
    bytes_add(&out, data.data, data.size);
    bytes_free(&data);
    return out;
}

/* The file with one more tensor, whose entry is `entry`, in front of the others in its header; freed with bytes_free.
 */
static inline bytes golden_original_with(const bytes *file, const char *entry) {
    uint64_t header = *(const uint64_t *)(const void *)file->data + strlen(entry) + 1;
    bytes out = {0};
    bytes_add(&out, &header, sizeof header);
    bytes_add(&out, "{", 1);
    bytes_add(&out, entry, strlen(entry));
    bytes_add(&out, ",", 1);
    bytes_add(&out, file->data + 9, file->size - 9);
    return out;
}

/* A file with a table of positions besides, [1, rows, columns] of bfloat16, of which row 1 is there. */
static inline bytes golden_original_table(const bytes *file, uint32_t rows, uint32_t columns, float interpolation) {
    const float values[2] = {sinf(1 / interpolation), cosf(1 / interpolation)};
    uint64_t size = file->size - 8 - *(const uint64_t *)(const void *)file->data;
    uint32_t bits[2], k;
    char entry[160];
    bytes out;
    diti_format(entry, sizeof entry,
                "\"pos_embed\":{\"dtype\":\"BF16\",\"shape\":[1,%u,%u],\"data_offsets\":[%llu,%llu]}", rows, columns,
                (unsigned long long)size, (unsigned long long)(size + 2 * (uint64_t)rows * columns));
    out = golden_original_with(file, entry);
    memcpy(bits, values, sizeof bits);
    for (k = 0; k < rows * columns; k++)
        bytes_u16(&out, k == columns ? bits[0] >> 16 : k == columns + columns / 4 ? bits[1] >> 16 : 0);
    return out;
}

/* Runs the folder's cases on the original's files, where their names are known here. */
static inline void golden_run_original(golden *g, const golden_folder *folder, const diti_json *config,
                                       const diti_checkpoint *from, golden_run_case run) {
    size_t i;
    for (i = 0; from && i < DITI_COUNT(golden_originals); i++) {
        diti_checkpoint *open = NULL;
        dit_error err = DITI_ZERO;
        dit_source source;
        bytes file;
        if (!diti_equal(folder->name, golden_originals[i].folder)) continue;
        file = golden_original_file(g, from, &golden_originals[i]);
        source = memory_source(&file);
        if (golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "original names open %s",
                           err.message))
            golden_run_cases(g, folder, config, open, run);
        diti_checkpoint_close(open);
        bytes_free(&file);
    }
}
#endif
