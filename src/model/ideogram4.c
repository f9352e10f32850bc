/* Ideogram 4: docs/models.md 3.26. Originals: https://github.com/ideogram-oss/ideogram4 and
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_ideogram4.py

   Text and image are one row of tokens with the same weights, and every sublayer has a norm before and one behind it. A
   token of the text is what 13 layers of the language model say of it, side by side. The unconditional half of guidance
   is evaluated by a transformer of its own, of the same shape, which sees the image alone. */
#include "model/model.h"
#include "text/text.h"

#define DITI_IDEOGRAM4_MAX_BLOCKS 128u
#define DITI_IDEOGRAM4_AXES 3u
#define DITI_IDEOGRAM4_ORIGIN 65536 /* the image's first place, which no text reaches */

/* ---- configuration ---- */

typedef struct diti_ideogram4_config {
    uint32_t blocks, heads, head_dim, width, feed; /* width: D */
    uint32_t channels;                             /* channels of the latent, whose pixels are the tokens */
    uint32_t text, time;                           /* columns of the text, of the vector that modulates */
    uint32_t sections[DITI_IDEOGRAM4_AXES];        /* how many angles of a head turn with time, line and column */
    float theta, eps;
    uint32_t out; /* columns that the last layer makes */
} diti_ideogram4_config;

/* ---- key tables: names asked for here are diffusers'; single files and GGUF call them so ---- */

static const char *const diti_ideogram4_block_keys[][2] = {
    {"attention.qkv", "attention.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attention.to_out.0", "attention.o"},
    {"attention.norm_q", "attention.norm_q"},
    {"attention.norm_k", "attention.norm_k"},
    {"attention_norm1", "attention_norm1"},
    {"attention_norm2", "attention_norm2"},
    {"ffn_norm1", "ffn_norm1"},
    {"ffn_norm2", "ffn_norm2"},
    {"feed_forward", "feed_forward"},
    {"adaln_modulation", "adaln_modulation"},
};
static const diti_key_table diti_ideogram4_names[DITI_KEY_TABLES] = {
    {"layers.", "layers.", diti_ideogram4_block_keys, DITI_COUNT(diti_ideogram4_block_keys)},
    {NULL, "", NULL, 0},
};

/* ---- weights ---- */

typedef struct diti_ideogram4 {
    diti_transformer base;
    diti_ideogram4_config config;
    diti_layer patch;       /* [D, channels] */
    diti_weight text_norm;  /* F32 [text] */
    diti_layer text;        /* [D, text] */
    diti_weight indicators; /* F32 [2, D]: added to tokens of the text, and of the image */
    diti_embedder time;     /* [D, D] each */
    diti_layer condition;   /* [time, D] */
    diti_gated_block *blocks;
    diti_layer final_modulation; /* [D, time]: scale */
    diti_layer proj_out;         /* [channels, D] */
    diti_sublayer last;
} diti_ideogram4;

#define diti_ideogram4_of(transformer) ((const diti_ideogram4 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_ideogram4_check(const diti_loader *loader, const diti_ideogram4_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_ideogram4_config, blocks), "layers"},
                                      {offsetof(diti_ideogram4_config, feed), "layers"},
                                      {offsetof(diti_ideogram4_config, text), "llm_cond_proj"},
                                      {offsetof(diti_ideogram4_config, time), "adaln_proj"},
                                      {offsetof(diti_ideogram4_config, head_dim), "norms of queries"},
                                      {offsetof(diti_ideogram4_config, width), "input_proj or final_layer"},
                                      {offsetof(diti_ideogram4_config, channels), "input_proj or final_layer"},
                                      {offsetof(diti_ideogram4_config, out), "input_proj or final_layer"}};
    DITI_TRY(diti_config_complete(loader, config, "Ideogram 4", needs, DITI_COUNT(needs), err));
    if (config->channels != config->out || config->out > 1024 || config->out % 4 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 8 || config->width % 4 || config->time % 4 ||
        config->text > 65536 || config->blocks > DITI_IDEOGRAM4_MAX_BLOCKS)
        return diti_loader_refuse(
            loader, err,
            "an Ideogram 4 transformer of %u blocks, heads of %u in a width of %u, and %u columns of "
            "text, that takes %u channels and makes %u, is out of range",
            (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->text,
            (unsigned)config->channels, (unsigned)config->out);
    return DIT_OK;
}

/* As published, 24, 20 and 20 of 128 angles; the same shares of other heads. */
static dit_result diti_ideogram4_read_sections(diti_settings *settings, diti_ideogram4_config *config) {
    const diti_json *list = diti_setting_numbers(settings, "mrope_section"), *entry = list ? list->first : NULL;
    uint32_t half = config->head_dim / 2, i;
    for (i = 0; i < DITI_IDEOGRAM4_AXES; i++) config->sections[i] = half * (i ? 20u : 24u) / 128u;
    for (i = 0; list && (entry || i < DITI_IDEOGRAM4_AXES); i++, entry = entry->next) {
        bool fits = entry && i < DITI_IDEOGRAM4_AXES && entry->number >= 0 && entry->number <= half;
        if (!fits) {
            diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "mrope_section",
                                 "not three numbers of angles of half a head");
            break;
        }
        config->sections[i] = (uint32_t)entry->number;
    }
    return settings->result;
}

static dit_result diti_ideogram4_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                      dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_ideogram4_config, out), "final_layer.linear.weight", 0},
        {offsetof(diti_ideogram4_config, width), "input_proj.weight", 0},
        {offsetof(diti_ideogram4_config, channels), "input_proj.weight", 1},
        {offsetof(diti_ideogram4_config, text), "llm_cond_proj.weight", 1},
        {offsetof(diti_ideogram4_config, time), "adaln_proj.weight", 0},
        {offsetof(diti_ideogram4_config, feed), "layers.0.feed_forward.w1.weight", 0},
        {offsetof(diti_ideogram4_config, head_dim), "layers.0.attention.norm_q.weight", 0}};
    diti_ideogram4_config *config = &((diti_ideogram4 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "layers.", ".attention_norm1.weight");
    DITI_TRY(diti_ideogram4_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 5e6, 2, 1e9);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    return diti_ideogram4_read_sections(&settings, config);
}

/* ---- loading ---- */

static void diti_ideogram4_load_blocks(diti_loader *loader, const diti_ideogram4_config *config,
                                       diti_gated_block *blocks) {
    static const diti_gated_names names = DITI_GATED_NAMES("adaln_modulation");
    diti_gated_kind kind = DITI_ZERO;
    uint32_t i;
    kind.width = config->width;
    kind.head_dim = config->head_dim;
    kind.feed = config->feed;
    kind.time = config->time;
    kind.eps = config->eps;
    diti_gated_blocks_load(loader, blocks, config->blocks, "layers.", &names, &kind, DITI_STREAMS_ONE);
    for (i = 0; i < config->blocks; i++) {
        blocks[i].attention.norm_eps = 1e-5f;
        blocks[i].attention.half_split = true;
    }
}

static void diti_ideogram4_load_weights(diti_loader *loader, diti_ideogram4 *model) {
    const diti_ideogram4_config *config = &model->config;
    uint32_t width = config->width;
    diti_load_layer(loader, &model->patch, width, config->channels, 1, "input_proj");
    diti_load_vector(loader, &model->text_norm, 1, config->text, "llm_cond_norm.weight");
    diti_load_layer(loader, &model->text, width, config->text, 1, "llm_cond_proj");
    diti_load_vector(loader, &model->indicators, 2, width, "embed_image_indicator.weight");
    diti_load_layer(loader, &model->time.in, width, width, 1, "t_embedding.mlp_in");
    diti_load_layer(loader, &model->time.out, width, width, 1, "t_embedding.mlp_out");
    diti_load_layer(loader, &model->condition, config->time, width, 1, "adaln_proj");
    diti_ideogram4_load_blocks(loader, config, model->blocks);
    diti_load_layer(loader, &model->final_modulation, width, config->time, 1, "final_layer.adaln_modulation");
    diti_load_layer(loader, &model->proj_out, config->channels, width, 1, "final_layer.linear");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

static const diti_chat diti_ideogram4_chats[] = {
    {"Ideogram4Pipeline",
     DITI_CHAT_USER,
     DITI_CHAT_ANSWER,
     NULL,
     "",
     "",
     2048,
     false,
     DITI_CHAT_KEEPS_AFTER,
     {13, 36, {1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 36}, DITI_TAPS_UNNORMED | DITI_TAPS_DEALT},
     0},
    DITI_CHATS_END,
};

/* Statistics of its latents, which are FLUX.2's with channels in another order (docs/models.md 4.4): means, and what
   values were divided by. */
/* clang-format off */
static const float diti_ideogram4_means[128] = {
    0.01984364f, 0.10149707f, 0.29689494f, 0.2718862f, -0.21445648f, -0.15979549f, 0.05021099f, -0.15083604f,
    -0.15360136f, -0.201318f, 0.019223521f, 0.062262598f, 0.10140969f, -0.067394279f, 0.37582609f, -0.233712f,
    0.3516449f, -0.02590912f, -0.0271935f, -0.10833897f, -0.1476848f, -0.01130957f, -0.22983719f, 0.23526423f,
    -0.10893522f, 0.11957631f, 0.040477991f, 0.31345889f, -0.17225064f, -0.18646109f, -0.34691978f, -0.035712458f,
    0.025838571f, 0.10190072f, 0.28402293f, 0.26952153f, -0.21634676f, -0.17938656f, 0.043589089f, -0.15007621f,
    -0.1548502f, -0.18971132f, 0.02710861f, 0.056094941f, 0.10697846f, -0.068549678f, 0.38167697f, -0.24269937f,
    0.35705471f, -0.030633049f, -0.02946109f, -0.11244286f, -0.14336038f, -0.01362137f, -0.21863696f, 0.23228984f,
    -0.11739769f, 0.11693044f, 0.02563311f, 0.31356594f, -0.17420591f, -0.19006285f, -0.34905377f, -0.040250052f,
    0.01924137f, 0.076529838f, 0.29956079f, 0.2628057f, -0.22011673f, -0.12715361f, 0.048798788f, -0.14075719f,
    -0.15935895f, -0.2123584f, 0.019748131f, 0.055235472f, 0.10011992f, -0.064289637f, 0.37781867f, -0.21491644f,
    0.34254214f, -0.031535279f, -0.031008201f, -0.10761415f, -0.14730404f, -0.02475182f, -0.22855879f, 0.25150809f,
    -0.10445128f, 0.12446f, 0.070628688f, 0.30880162f, -0.18016875f, -0.18869165f, -0.34533498f, -0.0129177f,
    0.02578168f, 0.079936586f, 0.28642181f, 0.26038408f, -0.22459419f, -0.14820156f, 0.04059549f, -0.14043529f,
    -0.16111188f, -0.20203049f, 0.026020691f, 0.04852717f, 0.10432153f, -0.063099422f, 0.38402444f, -0.22397003f,
    0.3481448f, -0.037744321f, -0.033814382f, -0.11245691f, -0.14128767f, -0.02853208f, -0.21752016f, 0.24872462f,
    -0.11399775f, 0.1222687f, 0.05620835f, 0.30917799f, -0.18065739f, -0.19401479f, -0.34495115f, -0.017605919f};
static const float diti_ideogram4_deviations[128] = {
    1.6393369f, 1.7020447f, 1.7364256f, 1.900048f, 1.6675316f, 1.6905959f, 1.568532f, 1.6231494f, 1.8910663f,
    1.5808667f, 1.6082213f, 1.60963f, 1.6332213f, 1.5607436f, 1.7341952f, 1.7919265f, 1.6404064f, 1.6680281f,
    1.6039031f, 1.754805f, 1.6318759f, 1.643346f, 1.6172289f, 1.6014605f, 1.6345922f, 1.5529147f, 1.6877149f,
    1.6841565f, 1.7896606f, 1.6663164f, 1.6562668f, 1.6597643f, 1.634876f, 1.6951325f, 1.7293376f, 1.9131067f,
    1.6703506f, 1.7228687f, 1.5671926f, 1.6193483f, 1.8862886f, 1.5691154f, 1.5945513f, 1.6082987f, 1.6247061f,
    1.5605285f, 1.73677f, 1.7756361f, 1.6373254f, 1.6637052f, 1.5950896f, 1.7515395f, 1.6302928f, 1.6451766f,
    1.6165934f, 1.5972204f, 1.6410313f, 1.5408531f, 1.6861039f, 1.6777276f, 1.7899857f, 1.6662171f, 1.6545895f,
    1.660413f, 1.6471086f, 1.681635f, 1.740003f, 1.9278479f, 1.674112f, 1.6739554f, 1.5740653f, 1.6219935f, 1.876182f,
    1.5584375f, 1.5743879f, 1.6171105f, 1.6309431f, 1.5564402f, 1.731243f, 1.8066663f, 1.6463621f, 1.6593201f,
    1.6081619f, 1.7568268f, 1.6469587f, 1.6312172f, 1.6138083f, 1.6047865f, 1.6339604f, 1.5350506f, 1.6553429f,
    1.6713228f, 1.803172f, 1.6767313f, 1.6570094f, 1.6842626f, 1.6533972f, 1.6754063f, 1.732985f, 1.9406735f,
    1.6789361f, 1.7063512f, 1.5730906f, 1.6192856f, 1.8714881f, 1.5624486f, 1.5669715f, 1.6158439f, 1.6275949f,
    1.5548037f, 1.7348411f, 1.7905514f, 1.6468878f, 1.6612149f, 1.6013589f, 1.7525457f, 1.6479833f, 1.6298993f,
    1.6138159f, 1.6079289f, 1.6393967f, 1.5307575f, 1.6537132f, 1.6680119f, 1.8002908f, 1.6759148f, 1.6565517f,
    1.6853346f};
/* clang-format on */

/* The part of the standard normal distribution that lies below x (Marsaglia, Evaluating the Normal Distribution, 2004;
   not every C library has erfc). */
static double diti_ideogram4_below(double x) {
    double term = x, sum = x;
    uint32_t i;
    for (i = 3; fabs(term) > 1e-17 * fabs(sum); i += 2) {
        term *= x * x / i;
        sum += term;
    }
    return 0.5 + sum * exp(-x * x / 2) / sqrt(6.283185307179586);
}

/* The value below which a part p of it lies. */
static double diti_ideogram4_quantile(double p) {
    double low = -8, high = 8;
    uint32_t i;
    for (i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(diti_ideogram4_below(middle) < p ? &low : &high) = middle;
    }
    return low;
}

/* The steps are quantiles of a normal distribution of the logarithm of noise to signal, whose mean grows with the
   picture. Twelve and twenty steps are presets of the original. */
static double diti_ideogram4_sigma(uint32_t step, uint32_t steps, uint32_t image_tokens) {
    const double least = 1 / (1 + exp(7.5)), most = 1 / (1 + exp(-9.0));
    double mean = log(image_tokens / 1024.0) / 2 + (steps == 12 ? 0.5 : 0);
    double deviation = steps == 12 || steps == 20 ? 1.75 : 1.5, sigma;
    if (!step) return most;
    sigma = 1 / (1 + exp(-(mean + deviation * diti_ideogram4_quantile(1 - step / (double)steps))));
    return sigma < least ? least : sigma > most ? most : sigma;
}

static void diti_ideogram4_set_traits(diti_ideogram4 *model) {
    const diti_ideogram4_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "4";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 1);
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 128;
    traits->factor = 16;
    diti_traits_chat(traits, DITI_ENCODER_QWEN3_VL, &diti_ideogram4_chats[0], config->text, 1);
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":1.0}";
    traits->sigma = diti_ideogram4_sigma;
    traits->default_steps = 48;
    traits->default_guidance = 7;
    traits->late_guidance = 3;
    traits->guides_apart = "unconditional_transformer";
    traits->joint = traits->planar = true;
    traits->noise_by_token = true;
    traits->pixels_last = true;
    if (config->channels != DITI_COUNT(diti_ideogram4_means)) return;
    traits->latent_means = diti_ideogram4_means;
    traits->latent_deviations = diti_ideogram4_deviations;
}

static void diti_ideogram4_load(diti_component *component, diti_loader *loader) {
    diti_ideogram4 *model = (diti_ideogram4 *)(void *)component;
    model->blocks =
        (diti_gated_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_ideogram4_load_weights(loader, model);
    diti_ideogram4_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_ideogram4_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;            /* input F32 [steps, D] */
    diti_rotation rotation;           /* [text + image rows, head_dim / 2] */
    diti_tensor text;                 /* F32 [text rows, D]; 0: there is none */
    diti_tensor final;                /* F32 [steps, D] */
    diti_adaln adaln;
} diti_ideogram4_state;

#define diti_ideogram4_state_of(step) ((diti_ideogram4_state *)(step)->family)

/* x plus what tokens of its kind get, in place. */
static diti_tensor diti_ideogram4_indicate(const diti_pass *p, diti_tensor x, uint32_t kind) {
    diti_tensor rows = diti_tensor_weight(p->graph, &diti_ideogram4_of(p->model)->indicators, 0);
    return diti_add_rows(p->graph, x, diti_tensor_view(p->graph, rows, kind, 1, 0, p->width), x, "indicator");
}

/* The only prompt's text as blocks read it, F32 [text rows, D]. */
static diti_tensor diti_ideogram4_text(const diti_pass *p) {
    const diti_ideogram4 *model = diti_ideogram4_of(p->model);
    diti_tensor text = diti_tensor_view(p->graph, p->step->text, 0, p->step->text_tokens, 0, model->config.text);
    text = diti_rms_norm(p->graph, text, &model->text_norm, 1e-6f, &model->text.weight, "text_norm");
    return diti_ideogram4_indicate(p, diti_layer_f32(p->graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "text"), 0);
}

static void diti_ideogram4_prepare(diti_pass *p) {
    const diti_ideogram4 *model = diti_ideogram4_of(p->model);
    const diti_ideogram4_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows = step->text_tokens + step->height * step->width;
    diti_ideogram4_state *state = diti_ideogram4_state_of(step);
    diti_tensor active;
    if (step->text_batch > 1) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "Ideogram 4 evaluates one prompt at a time");
        return;
    }
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, config->width, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, rows, config->head_dim / 2);
    active = diti_embed(graph, &model->time, state->sinusoids, 0);
    active = diti_layer_f32(graph, active, &model->condition, DITI_ACTIVATION_SILU, 0, "condition");
    state->final = diti_gated_prepare(p, &state->adaln, model->blocks, active, &model->final_modulation);
    if (step->text_tokens) state->text = diti_ideogram4_text(p);
}

/* ---- inputs ---- */

/* Row i of the text stands at (i, i, i), a token of the image at (0, y, x) from the origin on. Angles are made in
   float32, as the originals make them: at 65536 their rounding shows. */
static void diti_ideogram4_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                 float *cosines, float *sines) {
    const diti_ideogram4_config *config = &diti_ideogram4_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, rows = texts + step->height * step->width, row, i;
    (void)prompt;
    for (i = 0; i < half; i++) {
        float frequency = 1.0f / (float)pow((double)config->theta, (double)((float)(2 * i) / (float)config->head_dim));
        uint32_t axis = i % DITI_IDEOGRAM4_AXES;
        if (i >= DITI_IDEOGRAM4_AXES * config->sections[axis]) axis = 0;
        for (row = 0; row < rows; row++) {
            uint32_t token = row - texts,
                     offset = !axis       ? 0
                              : axis == 1 ? token / step->width
                                          : token % step->width,
                     place = row < texts ? row : DITI_IDEOGRAM4_ORIGIN + offset;
            float angle = frequency * (float)place;
            cosines[(size_t)row * half + i] = (float)cos((double)angle);
            sines[(size_t)row * half + i] = (float)sin((double)angle);
        }
    }
}

/* Time goes from noise, 0, to the picture, 10000; sines come first. */
static dit_result diti_ideogram4_write_times(diti_plan *plan, const diti_ideogram4_state *state, const diti_env *env,
                                             const float *timesteps, dit_error *err) {
    uint32_t count = plan->tensors[state->sinusoids].rows, dim = plan->tensors[state->sinusoids].columns;
    uint32_t half = dim / 2, row, i;
    float *rows = (float *)diti_alloc_array(env, (size_t)count * dim, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the timestep table");
    for (i = 0; i < half; i++) {
        float frequency = expf((float)i * (float)(-9.210340371976184 / (half - 1))); /* -ln(10000) */
        for (row = 0; row < count; row++) {
            float angle = 10000.0f * (1.0f - timesteps[row] / 1000.0f) * frequency;
            rows[(size_t)row * dim + i] = sinf(angle);
            rows[(size_t)row * dim + half + i] = cosf(angle);
        }
    }
    result = diti_plan_write(plan, state->sinusoids, rows, (size_t)count * dim * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

static dit_result diti_ideogram4_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                              const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_ideogram4_state *state = (const diti_ideogram4_state *)step->family;
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines,
                               step->text_batch, diti_ideogram4_place, err));
    return diti_ideogram4_write_times(plan, state, &transformer->component.env, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_ideogram4_begin(diti_pass *p) {
    diti_ideogram4_state *state = diti_ideogram4_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_adaln_select_gates(p, &state->adaln);
}

static diti_tensor diti_ideogram4_embed(diti_pass *p) {
    diti_tensor x = diti_patch_embed(p, diti_ideogram4_state_of(p->step)->text, &diti_ideogram4_of(p->model)->patch, 0);
    uint32_t rows = p->text + p->image, i;
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++)
        diti_ideogram4_indicate(p, diti_tensor_view(p->graph, x, i * rows + p->text, p->image, 0, p->width), 1);
    return x;
}

/* Ideogram4TransformerBlock.forward, docs/models.md 3.26 step 3; x F32 [items * (text + image), D] is changed in place.
 */
static diti_tensor diti_ideogram4_run_block(diti_pass *p, diti_tensor x) {
    const diti_ideogram4_state *state = diti_ideogram4_state_of(p->step);
    diti_rotation_apply(p, &state->rotation);
    diti_gated_block_run(p, &diti_ideogram4_of(p->model)->blocks[p->index], &state->adaln, x);
    return x;
}

static diti_tensor diti_ideogram4_final(diti_pass *p, diti_tensor x) {
    return diti_gated_final(p, x, diti_ideogram4_state_of(p->step)->final, &diti_ideogram4_of(p->model)->last);
}

/* ---- where parts of such models are ---- */

#define DITI_IDEOGRAM4_COMFY "Comfy-Org/Ideogram-4: "
static const diti_place diti_ideogram4_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_IDEOGRAM4_COMFY "diffusion_models/ideogram4_fp8_scaled.safetensors"},
    {"", DIT_ROLE_TRANSFORMER_2,
     DITI_IDEOGRAM4_COMFY "diffusion_models/ideogram4_unconditional_fp8_scaled.safetensors"},
    {"", DIT_ROLE_TEXT_1, "unsloth/Qwen3-VL-8B-Instruct-GGUF: Qwen3-VL-8B-Instruct-Q4_K_M.gguf"},
    {"", DIT_ROLE_VAE, DITI_IDEOGRAM4_COMFY "vae/flux2-vae.safetensors"},
    {"", DIT_ROLE_TOKENIZER_1, "ideogram-ai/ideogram-4-fp8: tokenizer/"},
    {"", DIT_ROLE_NONE, "Ideogram 4 Instant looks alike and wants 8 steps and guidance 1"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_ideogram4_family(void) {
    static const diti_family family = {
        "ideogram4",
        "Ideogram 4",
        {"Ideogram4Transformer2DModel Ideogram4Transformer",
         NULL,
         {"embed_image_indicator.weight", "llm_cond_proj.weight", "layers.0.attention.to_q.weight", NULL},
         {"embed_image_indicator.weight", "llm_cond_proj.weight", "layers.0.attention.qkv.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_ideogram4), diti_ideogram4_read, diti_ideogram4_load, NULL},
        diti_ideogram4_names,
        {128, 1, 0, false},
        NULL,
        diti_ideogram4_chats,
        diti_ideogram4_places,
        sizeof(diti_ideogram4_state),
        diti_ideogram4_prepare,
        diti_ideogram4_begin,
        diti_ideogram4_embed,
        diti_ideogram4_run_block,
        diti_ideogram4_final,
        diti_ideogram4_write_inputs};
    return &family;
}
