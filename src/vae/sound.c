#include "vae/vae.h"

/* The sound of a clip (docs/models.md 4.12): LTX-2's AutoencoderKLLTX2Audio makes a spectrogram of tokens, and its
   vocoder samples of that: LTX2Vocoder, or LTX2VocoderWithBWE, whose second net extends the band of the first one's
   samples. MiniMax-H3's AutoencoderKLMiniMaxH3Audio (4.12.1) has such a net, BigVGAN, which reads the tokens of one
   channel behind a layer of its own. Rows are moments of time, columns are channels; all of them are F32, for 16 bits
   of sound are more than F16 has. */

#define DITI_SOUND_LEVELS 8u
#define DITI_SOUND_RESNETS 4u
#define DITI_SOUND_CONVS 3u       /* convolutions of a resnet that have a dilation, and as many behind them */
#define DITI_SOUND_DOWN 4u        /* lines of a spectrogram for each line of the latent, and moments for each token */
#define DITI_SOUND_HALF 7u        /* the resampler's filter reaches over so many samples on either side */
#define DITI_SOUND_TOKENS 150u    /* tokens that are decoded at a time, beside those that their sound depends on */
#define DITI_SOUND_MOST 4096u     /* sizes that a config.json states are at most this */
#define DITI_SOUND_LEAKY_OUT 0.01 /* slope of the last leaky ReLU, whatever that of the others */

struct diti_spectrogram {
    diti_component base;
    diti_kl_half decoder;
    diti_weight deviations, means; /* F32 [1, planes * lines] of a token */
    uint32_t planes, lines, outputs;
};

typedef struct diti_snake_weights {
    diti_weight rates, filters; /* see diti_snake; no parts: a leaky ReLU */
} diti_snake_weights;
typedef struct diti_vocoder_resnet {
    diti_layer convs[2][DITI_SOUND_CONVS];
    diti_snake_weights acts[2][DITI_SOUND_CONVS];
    uint32_t dilations[DITI_SOUND_CONVS], count, taps;
} diti_vocoder_resnet;
typedef struct diti_vocoder_level {
    diti_layer up; /* [factor * channels, taps * channels before] */
    uint32_t factor, before, after, channels;
    diti_vocoder_resnet resnets[DITI_SOUND_RESNETS];
} diti_vocoder_level;
typedef enum diti_vocoder_end { DITI_VOCODER_PLAIN, DITI_VOCODER_TANH, DITI_VOCODER_CLAMP } diti_vocoder_end;
typedef struct diti_vocoder_net {
    diti_layer conv_in, conv_out;
    diti_snake_weights act_out;
    diti_vocoder_level *levels;
    uint32_t level_count, resnet_count, inputs, outputs, factors[DITI_SOUND_LEVELS], factor;
    uint32_t dilations[DITI_SOUND_RESNETS][DITI_SOUND_CONVS];
    bool snakes;
    float slope;
    diti_vocoder_end end;
} diti_vocoder_net;
struct diti_vocoder {
    diti_component base;
    diti_vocoder_net nets[2];
    uint32_t net_count, rate;
    uint32_t hop, window, ratio, mels, bins; /* the second net's spectrogram; bins: frequencies, a multiple of 4 */
    diti_layer waves;                        /* [2 * bins, taps * hop], without a bias */
    diti_weight bands, resampler;            /* [mels, bins], [ratio * channels, taps * channels] */
    uint32_t tokens;                         /* values of a token; 0: it reads a spectrogram */
    float *means, *deviations;               /* host: of these values */
    diti_layer token_in;                     /* [inputs, tokens] */
};
#define DITI_SOUND_SIDES 2u /* channels of the sound, where each has tokens of its own */

/* ---- the spectrogram's decoder: loading ---- */

static const char *diti_spectrogram_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {{"latents_mean", "per_channel_statistics.mean-of-means"},
                                           {"latents_std", "per_channel_statistics.std-of-means"}};
    (void)user;
    return diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out, size);
}

static void diti_spectrogram_expect(diti_settings *settings, const char *key, bool good, const char *known) {
    if (!good) diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, known);
}

static dit_result diti_spectrogram_read(diti_component *component, diti_loader *loader, const diti_json *config,
                                        dit_error *err) {
    struct diti_spectrogram *own = (struct diti_spectrogram *)(void *)component;
    diti_settings settings = diti_settings_of(config, "the sound's autoencoder: config.json", err);
    const diti_json *attends = diti_setting(&settings, "attn_resolutions");
    uint32_t values;
    if (!diti_loader_find(loader, "latents_std")) loader->rename = diti_spectrogram_name;
    values = diti_loader_dimension(loader, "latents_std", 0);
    own->planes = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 1);
    own->outputs = diti_loader_dimension(loader, "decoder.conv_out.conv.weight", 0);
    own->lines = own->planes ? values / own->planes : 0;
    own->decoder.level_count = diti_loader_count(loader, "decoder.up.", ".block.0.conv1.conv.weight");
    diti_spectrogram_expect(&settings, "causality_axis",
                            diti_equal(diti_setting_text(&settings, "causality_axis", "height"), "height"),
                            "only \"height\" is known");
    diti_spectrogram_expect(&settings, "norm_type",
                            diti_equal(diti_setting_text(&settings, "norm_type", "pixel"), "pixel"),
                            "only \"pixel\" is known");
    diti_spectrogram_expect(&settings, "mid_block_add_attention",
                            !diti_setting_bool(&settings, "mid_block_add_attention", false), "only false is known");
    diti_spectrogram_expect(&settings, "attn_resolutions", !attends || !attends->first, "only none are known");
    if (settings.result < 0) return settings.result;
    if (own->lines && own->lines * own->planes == values && own->decoder.level_count == 3 && own->outputs)
        return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "the decoder of a sound's spectrogram has %u levels, not 3, %u planes in latents of %u values "
        "and %u channels",
        (unsigned)own->decoder.level_count, (unsigned)own->planes, (unsigned)values, (unsigned)own->outputs);
}

static uint32_t diti_spectrogram_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels,
                                             const char *name) {
    diti_loader_scope(loader, "decoder.%s.", name);
    out->channels = diti_loader_dimension(loader, "conv1.conv.weight", 0);
    diti_load_layer(loader, &out->conv1, out->channels, 9 * channels, 3, "conv1.conv");
    diti_load_layer(loader, &out->conv2, out->channels, 9 * out->channels, 3, "conv2.conv");
    if (channels != out->channels)
        diti_load_layer(loader, &out->shortcut, out->channels, channels, 1, "nin_shortcut.conv");
    diti_loader_scope_end(loader);
    return out->channels;
}

static void diti_spectrogram_load(diti_component *component, diti_loader *loader) {
    struct diti_spectrogram *own = (struct diti_spectrogram *)(void *)component;
    diti_kl_half *half = &own->decoder;
    uint32_t channels = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 0), i, k;
    char name[64];
    half->levels = (diti_kl_level *)diti_component_array(component, loader, half->level_count, sizeof *half->levels);
    if (!half->levels) return;
    diti_load_vector(loader, &own->deviations, 1, own->planes * own->lines, "latents_std");
    diti_load_vector(loader, &own->means, 1, own->planes * own->lines, "latents_mean");
    diti_load_layer(loader, &half->conv_in, channels, 9 * own->planes, 3, "decoder.conv_in.conv");
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "mid.block_%u", (unsigned)i + 1);
        channels = diti_spectrogram_load_resnet(loader, &half->mid[i], channels, name);
    }
    for (i = half->level_count; i-- > 0 && !loader->error.result;) { /* numbered from the spectrogram */
        diti_kl_level *level = &half->levels[half->level_count - 1 - i];
        diti_format(name, sizeof name, "decoder.up.%u.block.", (unsigned)i);
        level->count = diti_loader_count(loader, name, ".conv1.conv.weight");
        if (level->count > DITI_KL_MAX_RESNETS) level->count = DITI_KL_MAX_RESNETS; /* one too many is told */
        for (k = 0; k < level->count; k++) {
            diti_format(name, sizeof name, "up.%u.block.%u", (unsigned)i, (unsigned)k);
            channels = diti_spectrogram_load_resnet(loader, &level->resnets[k], channels, name);
        }
        diti_format(name, sizeof name, "decoder.up.%u.upsample.conv.conv", (unsigned)i);
        if (i) diti_load_layer(loader, &level->resample, channels, 9 * channels, 3, name);
    }
    diti_load_layer(loader, &half->conv_out, own->outputs, 9 * channels, 3, "decoder.conv_out.conv");
}

/* ---- the vocoder: values that are made of stored ones ---- */

static void diti_sound_make_rate(const uint32_t *made, const float *values, float *out) {
    uint32_t i;
    for (i = 0; i < made[0]; i++) out[i] = (float)exp((double)values[i]);
}

static void diti_sound_make_share(const uint32_t *made, const float *values, float *out) {
    uint32_t i;
    for (i = 0; i < made[0]; i++) out[i] = (float)(1 / (exp((double)values[i]) + 1e-9));
}

static void diti_sound_make_double(const uint32_t *made, const float *values, float *out) {
    uint32_t i;
    for (i = 0; i < made[0]; i++) out[i] = 2 * values[i]; /* for each sample there are two */
}

enum { DITI_MADE_INPUTS = 1, DITI_MADE_OUTPUTS, DITI_MADE_TAPS, DITI_MADE_FACTOR, DITI_MADE_BEFORE };

/* A transposed convolution [inputs, outputs, taps] as one that makes all samples between two of its input at a time:
   row r * outputs + c makes channel c of sample q * factor + r of frames q - before, ... of the input. */
static void diti_sound_make_phases(const uint32_t *made, const float *values, float *out) {
    uint32_t inputs = made[DITI_MADE_INPUTS], outputs = made[DITI_MADE_OUTPUTS], taps = made[DITI_MADE_TAPS],
             factor = made[DITI_MADE_FACTOR], before = made[DITI_MADE_BEFORE], pad = (taps - factor) / 2,
             frames = before + 1 + (factor - 1 + pad) / factor, row, input, d;
    for (row = 0; row < factor * outputs; row++)
        for (input = 0; input < inputs; input++)
            for (d = 0; d < frames; d++) {
                int64_t tap = (int64_t)(row / outputs) + pad + ((int64_t)before - d) * factor;
                *out++ =
                    tap < 0 || tap >= taps ? 0 : values[((size_t)input * outputs + row % outputs) * taps + (size_t)tap];
            }
}

static void diti_sound_make_repeated(const uint32_t *made, const float *values, float *out) {
    uint32_t i;
    for (i = 0; i < made[DITI_MADE_FACTOR]; i++, out += made[0]) memcpy(out, values, made[0] * sizeof *out);
}

/* Waves [2 * frequencies, 1, window] as rows of cosines, then of sines, up to bins each, over frames of `factor`
   samples, the last of which ends where the window ends. */
static void diti_sound_make_waves(const uint32_t *made, const float *values, float *out) {
    uint32_t hop = made[DITI_MADE_FACTOR], frames = made[DITI_MADE_BEFORE] + 1, window = made[DITI_MADE_TAPS],
             bins = made[DITI_MADE_OUTPUTS], stored = made[DITI_MADE_INPUTS], empty = frames * hop - window, row, i, d;
    for (row = 0; row < 2 * bins; row++)
        for (i = 0; i < hop; i++)
            for (d = 0; d < frames; d++) {
                uint32_t at = d * hop + i, from = row % bins + row / bins * stored;
                *out++ = row % bins >= stored || at < empty ? 0 : values[(size_t)from * window + at - empty];
            }
}

static void diti_sound_make_bands(const uint32_t *made, const float *values, float *out) {
    uint32_t stored = made[DITI_MADE_INPUTS], bins = made[DITI_MADE_OUTPUTS], mels = made[0] / stored, row, i;
    for (row = 0; row < mels; row++)
        for (i = 0; i < bins; i++) *out++ = i < stored ? values[(size_t)row * stored + i] : 0;
}

/* A sinc with a Hann window over six of its zeros on either side, as diffusers' UpSample1d has it; no stored values. */
static void diti_sound_make_resampler(const uint32_t *made, const float *values, float *out) {
    const double pi = 3.14159265358979323846, cutoff = 0.99, zeros = 6;
    uint32_t channels = made[DITI_MADE_OUTPUTS], ratio = made[DITI_MADE_FACTOR], row, input, d;
    (void)values;
    for (row = 0; row < ratio * channels; row++)
        for (input = 0; input < channels; input++)
            for (d = 0; d <= 2 * DITI_SOUND_HALF; d++) {
                double t = ((double)(row / channels) / ratio + DITI_SOUND_HALF - d) * cutoff,
                       window = fabs(t) < zeros ? cos(t * pi / zeros / 2) : 0, x = pi * t;
                *out++ = (float)(row % channels != input ? 0 : window * window * (t == 0 ? 1 : sin(x) / x) * cutoff);
            }
}

/* ---- the vocoder: loading ---- */

static const char *diti_vocoder_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {
        {"conv_in", "conv_pre"},    {"conv_out", "conv_post"}, {"upsamplers.", "ups."},
        {"resnets.", "resblocks."}, {"act_out.", "act_post."}, {"downsample.filter", "downsample.lowpass.filter"}};
    (void)user;
    return diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out, size);
}

/* MiniMax-H3's: a level's transposed convolution stands in a list of one. */
static const char *diti_vocoder_alone_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {
        {"conv_in", "conv_pre"},          {"conv_out", "conv_post"},
        {"upsamplers.", "ups."},          {"resnets.", "resblocks."},
        {"act_out.", "activation_post."}, {"acts1.0.", "activations.0."},
        {"acts2.0.", "activations.1."},   {"acts1.1.", "activations.2."},
        {"acts2.1.", "activations.3."},   {"acts1.2.", "activations.4."},
        {"acts2.2.", "activations.5."},   {"downsample.filter", "downsample.lowpass.filter"}};
    char stored[200];
    const char *dot;
    (void)user;
    if (!diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, stored, sizeof stored)) return NULL;
    dot = strrchr(stored, '.');
    if (diti_starts_with(stored, "dec_in_proj") || diti_starts_with(stored, "latents_"))
        return diti_format(out, size, "%s", stored) ? out : NULL;
    if (dot && diti_starts_with(stored, "ups."))
        return diti_format(out, size, "decoder.%.*s.0%s", (int)(dot - stored), stored, dot) ? out : NULL;
    return diti_format(out, size, "decoder.%s", stored) ? out : NULL;
}

/* The net's names begin with that. */
static const char *diti_vocoder_scope(const struct diti_vocoder *own, uint32_t net) {
    static const char *const scopes[] = {"vocoder.", "bwe_generator."};
    return own->net_count == 1 ? "" : scopes[net];
}

/* Numbers of a list, up to `most`; how many it has. */
static uint32_t diti_vocoder_list(diti_settings *settings, const char *key, const diti_json *list, uint32_t *out,
                                  uint32_t most) {
    const diti_json *entry;
    uint32_t count = 0;
    for (entry = list ? list->first : NULL; entry; entry = entry->next, count++) {
        bool good = entry->kind == DITI_JSON_NUMBER && entry->number >= 1 && entry->number <= DITI_SOUND_MOST &&
                    floor(entry->number) == entry->number && count < most;
        if (!good) {
            diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, "not a short list of positive numbers");
            return count;
        }
        out[count] = (uint32_t)entry->number;
    }
    return count;
}

/* Files of the original tell factors by the taps alone, of which each published vocoder has others. */
static uint32_t diti_vocoder_factor(uint32_t taps) {
    static const uint32_t known[][2] = {{16, 6}, {15, 5}, {12, 6}, {11, 5}, {9, 5}, {8, 2}, {4, 2}};
    size_t i;
    for (i = 0; i < DITI_COUNT(known); i++)
        if (known[i][0] == taps) return known[i][1];
    return 0;
}

static void diti_vocoder_read_dilations(diti_settings *settings, diti_vocoder_net *net, const char *key) {
    const diti_json *list = diti_setting(settings, key), *entry = list ? list->first : NULL;
    uint32_t i, k;
    for (i = 0; i < DITI_SOUND_RESNETS; i++)
        for (k = 0; k < DITI_SOUND_CONVS; k++) net->dilations[i][k] = 2 * k + 1;
    for (i = 0; entry; entry = entry->next, i++) {
        if (i < DITI_SOUND_RESNETS &&
            diti_vocoder_list(settings, key, entry, net->dilations[i], DITI_SOUND_CONVS) == DITI_SOUND_CONVS)
            continue;
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, "not up to four lists of three numbers");
        return;
    }
}

/* A net's sizes, and its settings in config.json, whose keys begin with `before`. */
static void diti_vocoder_read_net(struct diti_vocoder *own, diti_loader *loader, diti_settings *settings, uint32_t n) {
    diti_vocoder_net *net = &own->nets[n];
    const char *before = n ? "bwe_" : "", *act, *end;
    char name[96], act_key[32], key[48];
    uint32_t i, count;
    diti_loader_scope(loader, "%s", diti_vocoder_scope(own, n));
    net->inputs = diti_loader_dimension(loader, "conv_in.weight", 1);
    net->outputs = diti_loader_dimension(loader, "conv_out.weight", 0);
    net->level_count = diti_loader_count(loader, "upsamplers.", ".weight");
    count = diti_loader_count(loader, "resnets.", ".convs1.0.weight");
    net->resnet_count = net->level_count && count % net->level_count == 0 ? count / net->level_count : 0;
    net->snakes = diti_loader_find(loader, "resnets.0.acts1.0.act.alpha") != NULL;
    for (i = 0; i < net->level_count && i < DITI_SOUND_LEVELS; i++) {
        diti_format(name, sizeof name, "upsamplers.%u.weight", (unsigned)i);
        net->factors[i] = diti_vocoder_factor(diti_loader_dimension(loader, name, 2));
    }
    diti_loader_scope_end(loader);
    diti_format(key, sizeof key, "%supsample_factors", before);
    if (diti_setting_numbers(settings, key) && diti_vocoder_list(settings, key, diti_setting(settings, key),
                                                                 net->factors, DITI_SOUND_LEVELS) != net->level_count)
        diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, key, "it has another number of levels than the file");
    diti_format(key, sizeof key, "%sresnet_dilations", before);
    diti_vocoder_read_dilations(settings, net, key);
    diti_format(key, sizeof key, "%sleaky_relu_negative_slope", before);
    net->slope = (float)diti_setting_number(settings, key, 0.1, 0, 1);
    diti_format(act_key, sizeof act_key, "%sact_fn", before);
    act = diti_setting_text(settings, act_key, net->snakes ? "snakebeta" : "leaky_relu");
    if (!diti_equal(act, net->snakes ? "snakebeta" : "leaky_relu"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, act_key,
                             "only \"snakebeta\" with its tensors, and \"leaky_relu\" without, are known");
    diti_format(key, sizeof key, "%santialias", before);
    if (diti_setting_bool(settings, key, net->snakes) != net->snakes)
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, "only that of \"snakebeta\" is known");
    diti_format(key, sizeof key, "%sfinal_act_fn", before);
    end = diti_setting_text(settings, key, net->snakes || diti_setting(settings, act_key) ? "" : "tanh");
    net->end = diti_equal(end, "tanh")    ? DITI_VOCODER_TANH
               : diti_equal(end, "clamp") ? DITI_VOCODER_CLAMP
                                          : DITI_VOCODER_PLAIN;
    if (net->end == DITI_VOCODER_PLAIN && end[0])
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, "only \"tanh\", \"clamp\" and null are known");
}

static dit_result diti_vocoder_check_net(const struct diti_vocoder *own, const diti_loader *loader, uint32_t n,
                                         dit_error *err) {
    const diti_vocoder_net *net = &own->nets[n];
    uint32_t i;
    bool good = net->inputs && net->outputs && net->level_count && net->level_count <= DITI_SOUND_LEVELS &&
                net->resnet_count && net->resnet_count <= DITI_SOUND_RESNETS;
    for (i = 0; i < net->level_count && good; i++) good = net->factors[i] != 0;
    if (good) return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "the vocoder's %s has %u levels with %u resnets each, not 1 to %u with 1 to %u, or one whose "
        "factor its taps do not tell; a config.json with upsample_factors does",
        n ? "bwe_generator" : "first net", (unsigned)net->level_count, (unsigned)net->resnet_count, DITI_SOUND_LEVELS,
        DITI_SOUND_RESNETS);
}

/* A list of numbers in config.json or a tensor in the file; false: there is neither. */
static bool diti_vocoder_values(struct diti_vocoder *own, diti_loader *loader, diti_settings *settings, const char *key,
                                float **out) {
    const diti_stored_tensor *tensor = diti_loader_find(loader, key);
    *out = (float *)diti_component_array(&own->base, loader, own->tokens, sizeof **out);
    if (!*out) return false;
    diti_video_read_list(settings, key, own->tokens, *out);
    if (diti_setting_numbers(settings, key)) return true;
    return tensor && diti_stored_tensor_elements(tensor) == own->tokens &&
           diti_checkpoint_read_float(loader->checkpoint, tensor, *out, own->tokens, &loader->error) == DIT_OK;
}

/* MiniMax-H3's, by the keys of its config.json. */
static dit_result diti_vocoder_read_alone(struct diti_vocoder *own, diti_loader *loader, const diti_json *config,
                                          dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the sound's autoencoder: config.json", err);
    diti_vocoder_net *net = &own->nets[0];
    bool told;
    loader->rename = diti_vocoder_alone_name;
    own->net_count = 1;
    own->tokens = diti_loader_dimension(loader, DITI_SOUND_ALONE, 1);
    diti_vocoder_read_net(own, loader, &settings, 0);
    if (diti_setting_numbers(&settings, "decoder_rates") &&
        diti_vocoder_list(&settings, "decoder_rates", diti_setting(&settings, "decoder_rates"), net->factors,
                          DITI_SOUND_LEVELS) != net->level_count)
        diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "decoder_rates",
                             "it has another number of levels than the file");
    diti_vocoder_read_dilations(&settings, net, "resblock_dilation_sizes");
    net->end = DITI_VOCODER_CLAMP;
    own->rate = diti_setting_size(&settings, "sampling_rate", 32000, 1000000);
    told = own->tokens && diti_vocoder_values(own, loader, &settings, "latents_mean", &own->means) &&
           diti_vocoder_values(own, loader, &settings, "latents_std", &own->deviations);
    DITI_TRY(settings.result);
    DITI_TRY(loader->error.result);
    DITI_TRY(diti_vocoder_check_net(own, loader, 0, err));
    if (!told)
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "%s: a decoder of sound without latents_mean and latents_std, by which tokens are scaled; name "
            "the folder with its config.json, or a file with both as tensors",
            diti_checkpoint_name(loader->checkpoint));
    if (net->outputs == 1 && net->snakes && own->tokens % 4 == 0) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: a decoder of sound of %u channels, not 1, and tokens of %u values, not a multiple of 4, %s "
                     "activations that snake",
                     diti_checkpoint_name(loader->checkpoint), (unsigned)net->outputs, (unsigned)own->tokens,
                     net->snakes ? "with" : "without");
}

static dit_result diti_vocoder_read(diti_component *component, diti_loader *loader, const diti_json *config,
                                    dit_error *err) {
    struct diti_vocoder *own = (struct diti_vocoder *)(void *)component;
    diti_settings settings = diti_settings_of(config, "the vocoder: config.json", err);
    uint32_t i, rate;
    if (diti_loader_find(loader, DITI_SOUND_ALONE)) return diti_vocoder_read_alone(own, loader, config, err);
    if (diti_loader_find(loader, "conv_pre.weight") || diti_loader_find(loader, "vocoder.conv_pre.weight"))
        loader->rename = diti_vocoder_name;
    own->net_count = diti_loader_find(loader, "bwe_generator.conv_in.weight") ? 2 : 1;
    for (i = 0; i < own->net_count; i++) diti_vocoder_read_net(own, loader, &settings, i);
    own->rate = diti_setting_size(&settings, "output_sampling_rate", own->net_count > 1 ? 48000 : 24000, 1000000);
    rate = diti_setting_size(&settings, "input_sampling_rate", 16000, 1000000);
    own->hop = diti_setting_size(&settings, "hop_length", 80, DITI_SOUND_MOST);
    if (settings.result < 0) return settings.result;
    for (i = 0; i < own->net_count; i++) DITI_TRY(diti_vocoder_check_net(own, loader, i, err));
    if (own->net_count == 1) return DIT_OK;
    own->ratio = rate && own->rate % rate == 0 ? own->rate / rate : 0;
    own->window = diti_loader_dimension(loader, "mel_stft.stft_fn.forward_basis", 2);
    own->mels = diti_loader_dimension(loader, "mel_stft.mel_basis", 0);
    own->bins = (diti_loader_dimension(loader, "mel_stft.mel_basis", 1) + 3u) & ~3u;
    if (own->ratio && own->ratio <= 16 && own->hop && own->window >= own->hop && own->bins && own->bins <= 1u << 20 &&
        own->nets[0].outputs * own->mels == own->nets[1].inputs && own->nets[0].outputs == own->nets[1].outputs)
        return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "the vocoder's bwe_generator reads %u channels and makes %u at %u Hz, which do not fit %u bands "
        "of %u channels at %u Hz in windows of %u samples, each %u behind the one before",
        (unsigned)own->nets[1].inputs, (unsigned)own->nets[1].outputs, (unsigned)own->rate, (unsigned)own->mels,
        (unsigned)own->nets[0].outputs, (unsigned)rate, (unsigned)own->window, (unsigned)own->hop);
}

/* name: without what stands in front of "act.alpha". */
static void diti_vocoder_load_snake(diti_loader *loader, diti_snake_weights *out, uint32_t channels, const char *name) {
    static const char *const ends[4] = {"act.alpha", "act.beta", "upsample.filter", "downsample.filter"};
    char full[4][96];
    const char *names[4];
    uint32_t i;
    for (i = 0; i < 4; i++) {
        diti_format(full[i], sizeof full[i], "%s%s", name, ends[i]);
        names[i] = full[i];
    }
    diti_load_vectors(loader, &out->rates, names, 2, channels);
    diti_load_remake(loader, 1, diti_sound_make_rate);
    diti_load_remake(loader, 0, diti_sound_make_share);
    diti_load_vectors(loader, &out->filters, names + 2, 2, DITI_SNAKE_TAPS);
    diti_load_remake(loader, 1, diti_sound_make_double);
}

static void diti_vocoder_load_resnet(diti_loader *loader, diti_vocoder_resnet *out, uint32_t channels, bool snakes,
                                     uint32_t number) {
    char name[64];
    uint32_t i, k;
    diti_format(name, sizeof name, "resnets.%u.convs1.0.weight", (unsigned)number);
    out->taps = diti_loader_dimension(loader, name, 2);
    if ((out->taps % 2 == 0 || out->taps > 63) && !loader->error.result)
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the vocoder's resnet %u has %u taps, no odd number",
                  diti_checkpoint_name(loader->checkpoint), (unsigned)number, (unsigned)out->taps);
    for (i = 0; i < 2; i++)
        for (k = 0; k < DITI_SOUND_CONVS; k++) {
            diti_format(name, sizeof name, "resnets.%u.convs%u.%u", (unsigned)number, (unsigned)i + 1, (unsigned)k);
            diti_load_conv(loader, &out->convs[i][k], channels, channels, out->taps, 1, true, name);
            diti_format(name, sizeof name, "resnets.%u.acts%u.%u.", (unsigned)number, (unsigned)i + 1, (unsigned)k);
            if (snakes) diti_vocoder_load_snake(loader, &out->acts[i][k], channels, name);
        }
}

/* Returns the channels that the level gives. */
static uint32_t diti_vocoder_load_up(diti_loader *loader, diti_vocoder_level *level, uint32_t channels,
                                     uint32_t number) {
    uint32_t made[6] = {0}, taps, pad;
    uint64_t shape[3];
    char name[64];
    diti_format(name, sizeof name, "upsamplers.%u.weight", (unsigned)number);
    level->channels = diti_loader_dimension(loader, name, 1);
    taps = diti_loader_dimension(loader, name, 2);
    if (!level->channels || taps < level->factor || (taps - level->factor) % 2 || taps > 255) {
        if (!loader->error.result)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                      "%s: tensor %.160s makes %u samples of each by %u taps, which leaves no even number of them",
                      diti_checkpoint_name(loader->checkpoint), name, (unsigned)level->factor, (unsigned)taps);
        return channels;
    }
    pad = (taps - level->factor) / 2;
    level->before = (taps - 1 - pad) / level->factor;
    level->after = (level->factor - 1 + pad) / level->factor;
    shape[0] = channels;
    shape[1] = level->channels;
    shape[2] = taps;
    made[DITI_MADE_INPUTS] = channels;
    made[DITI_MADE_OUTPUTS] = level->channels;
    made[DITI_MADE_TAPS] = taps;
    made[DITI_MADE_FACTOR] = level->factor;
    made[DITI_MADE_BEFORE] = level->before;
    diti_load_made(loader, &level->up.weight, level->factor * level->channels,
                   channels * (level->before + 1 + level->after), level->before + 1 + level->after, name, shape, 3,
                   diti_sound_make_phases, made);
    diti_format(name, sizeof name, "upsamplers.%u.bias", (unsigned)number);
    diti_load_made(loader, &level->up.bias, 1, level->factor * level->channels, 1, name, shape + 1, 1,
                   diti_sound_make_repeated, made);
    return level->channels;
}

static void diti_vocoder_load_net(struct diti_vocoder *own, diti_loader *loader, uint32_t n) {
    diti_vocoder_net *net = &own->nets[n];
    uint32_t channels, i, k;
    net->levels = (diti_vocoder_level *)diti_component_array(&own->base, loader, net->level_count, sizeof *net->levels);
    if (!net->levels) return;
    diti_loader_scope(loader, "%s", diti_vocoder_scope(own, n));
    channels = diti_loader_dimension(loader, "conv_in.weight", 0);
    diti_load_conv(loader, &net->conv_in, channels, net->inputs, 7, 1, true, "conv_in");
    for (net->factor = 1, i = 0; i < net->level_count && !loader->error.result; i++) {
        diti_vocoder_level *level = &net->levels[i];
        level->factor = net->factors[i];
        net->factor *= level->factor;
        channels = diti_vocoder_load_up(loader, level, channels, i);
        for (k = 0; k < net->resnet_count && !loader->error.result; k++) {
            memcpy(level->resnets[k].dilations, net->dilations[k], sizeof net->dilations[k]);
            diti_vocoder_load_resnet(loader, &level->resnets[k], channels, net->snakes, i * net->resnet_count + k);
        }
    }
    if (net->snakes) diti_vocoder_load_snake(loader, &net->act_out, channels, "act_out.");
    diti_load_conv(loader, &net->conv_out, net->outputs, channels, 7, 1,
                   diti_loader_find(loader, "conv_out.bias") != NULL, "conv_out");
    diti_loader_scope_end(loader);
}

static void diti_vocoder_load_extension(struct diti_vocoder *own, diti_loader *loader) {
    uint32_t stored = diti_loader_dimension(loader, "mel_stft.mel_basis", 1), channels = own->nets[0].outputs,
             frames = (own->window + own->hop - 1) / own->hop, made[6] = {0};
    const char *bands = "mel_stft.mel_basis", *waves = "mel_stft.stft_fn.forward_basis";
    uint64_t shape[3];
    shape[0] = 2 * (uint64_t)stored;
    shape[1] = 1;
    shape[2] = own->window;
    made[DITI_MADE_INPUTS] = stored;
    made[DITI_MADE_OUTPUTS] = own->bins;
    made[DITI_MADE_TAPS] = own->window;
    made[DITI_MADE_FACTOR] = own->hop;
    made[DITI_MADE_BEFORE] = frames - 1;
    diti_load_made(loader, &own->waves.weight, 2 * own->bins, frames * own->hop, frames, waves, shape, 3,
                   diti_sound_make_waves, made);
    shape[0] = own->mels;
    shape[1] = stored;
    diti_load_made(loader, &own->bands, own->mels, own->bins, 1, bands, shape, 2, diti_sound_make_bands, made);
    made[DITI_MADE_OUTPUTS] = channels;
    made[DITI_MADE_FACTOR] = own->ratio;
    diti_load_made(loader, &own->resampler, own->ratio * channels, channels * (2 * DITI_SOUND_HALF + 1),
                   2 * DITI_SOUND_HALF + 1, bands, shape, 2, diti_sound_make_resampler, made);
    if (own->resampler.part_count)
        diti_loader_discount(loader, &own->resampler, 1, (uint64_t)own->resampler.rows * own->resampler.columns);
    if (loader->error.result || own->nets[1].factor == own->hop * own->ratio) return;
    diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
              "%s: the vocoder's bwe_generator makes %u samples of a window's, which are %u times %u",
              diti_checkpoint_name(loader->checkpoint), (unsigned)own->nets[1].factor, (unsigned)own->hop,
              (unsigned)own->ratio);
}

static void diti_vocoder_load_weights(diti_component *component, diti_loader *loader) {
    struct diti_vocoder *own = (struct diti_vocoder *)(void *)component;
    uint32_t i;
    for (i = 0; i < own->net_count; i++) diti_vocoder_load_net(own, loader, i);
    if (own->net_count > 1) diti_vocoder_load_extension(own, loader);
    if (own->tokens) diti_load_layer(loader, &own->token_in, own->nets[0].inputs, own->tokens, 1, "dec_in_proj");
}

static dit_result diti_sound_load(const diti_component_kind *kind, const diti_component_source *given,
                                  diti_component **out, dit_error *err) {
    diti_load_options plain = DITI_ZERO; /* rules about types are for transformers and text encoders */
    diti_component_source from = *given;
    if (given->options) plain = *given->options;
    plain.types = NULL;
    plain.type_count = 0;
    from.options = &plain;
    return diti_component_load(kind, &from, out, err);
}

DIT_INTERNAL dit_result diti_spectrogram_create(const diti_component_source *from, diti_spectrogram **out,
                                                dit_error *err) {
    static const diti_component_kind kind = {"sound's autoencoder", "audio_vae",           sizeof(diti_spectrogram),
                                             diti_spectrogram_read, diti_spectrogram_load, NULL};
    diti_component *component;
    dit_result result = diti_sound_load(&kind, from, &component, err);
    *out = (diti_spectrogram *)(void *)component;
    return result;
}

DIT_INTERNAL dit_result diti_vocoder_create(const diti_component_source *from, diti_vocoder **out, dit_error *err) {
    static const diti_component_kind kind = {
        "vocoder", "vocoder", sizeof(diti_vocoder), diti_vocoder_read, diti_vocoder_load_weights, NULL};
    diti_component *component;
    dit_result result = diti_sound_load(&kind, from, &component, err);
    *out = (diti_vocoder *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_spectrogram_destroy(diti_spectrogram *spectrogram) {
    if (spectrogram) diti_component_free(&spectrogram->base);
}
DIT_INTERNAL void diti_vocoder_destroy(diti_vocoder *vocoder) {
    if (vocoder) diti_component_free(&vocoder->base);
}
DIT_INTERNAL const diti_weights *diti_spectrogram_weights(const diti_spectrogram *spectrogram) {
    return &spectrogram->base.weights;
}
DIT_INTERNAL const diti_weights *diti_vocoder_weights(const diti_vocoder *vocoder) { return &vocoder->base.weights; }

DIT_INTERNAL void diti_sound_traits_of(const diti_spectrogram *spectrogram, const diti_vocoder *vocoder,
                                       diti_sound_traits *out) {
    out->rate = vocoder->rate;
    out->channels = vocoder->nets[0].outputs;
    out->token_values = vocoder->tokens;
    out->moment_values = out->vocoder_values = vocoder->nets[0].inputs;
    if (vocoder->tokens) out->channels = DITI_SOUND_SIDES;
    if (!spectrogram) return;
    out->token_values = spectrogram->planes * spectrogram->lines;
    out->moment_values = DITI_SOUND_DOWN * spectrogram->lines * spectrogram->outputs;
}

DIT_INTERNAL uint32_t diti_sound_samples(const diti_vocoder *vocoder, uint32_t tokens) {
    uint64_t samples =
        vocoder->tokens ? tokens / DITI_SOUND_SIDES : (uint64_t)DITI_SOUND_DOWN * tokens - (DITI_SOUND_DOWN - 1);
    samples *= (uint64_t)vocoder->nets[0].factor * (vocoder->net_count > 1 ? vocoder->ratio : 1);
    return tokens && samples <= UINT32_MAX / 8 ? (uint32_t)samples : 0;
}

/* ---- computing: the spectrogram, lines of a moment and moment after moment ---- */

/* x / sqrt(mean of its squares), then SiLU, behind a moment of zeros. */
static diti_tensor diti_spectrogram_norm(diti_graph *graph, diti_tensor x, uint32_t width) {
    uint32_t rows = diti_tensor_rows(graph, x), columns = diti_tensor_columns(graph, x);
    diti_tensor out = diti_tensor_new(graph, DITI_F32, rows + width, columns, "sound_norm");
    diti_norm_desc desc = DITI_ZERO;
    if (diti_graph_failed(graph)) return 0;
    desc.rms = desc.silu = true;
    desc.eps = 1e-6f;
    desc.out = diti_tensor_view(graph, out, width, rows, 0, columns);
    desc.name = "sound_norm";
    diti_fill_zeros(graph, diti_tensor_view(graph, out, 0, width, 0, columns));
    diti_norm(graph, x, &desc);
    return out;
}

/* A convolution reads each moment and the two before it: x has a moment of zeros in front, and the others below. */
static diti_tensor diti_spectrogram_conv(diti_graph *graph, diti_tensor x, uint32_t width, const diti_layer *layer,
                                         diti_tensor residual) {
    diti_conv_desc desc = DITI_ZERO;
    desc.batch = 1;
    desc.width = width;
    desc.height = diti_graph_failed(graph) ? 1 : diti_tensor_rows(graph, x) / width - 1;
    desc.below = desc.pad_before = desc.pad_after = 1;
    desc.bias = &layer->bias;
    desc.residual = residual;
    desc.out_f32 = true;
    desc.name = "sound_conv";
    return diti_conv(graph, x, &layer->weight, &desc);
}

static diti_tensor diti_spectrogram_resnet(diti_graph *graph, diti_tensor x, uint32_t width,
                                           const diti_kl_resnet *resnet) {
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor h = diti_spectrogram_conv(graph, diti_spectrogram_norm(graph, x, width), width, &resnet->conv1, 0);
    linear.bias = &resnet->shortcut.bias;
    linear.out_f32 = true;
    linear.name = "sound_shortcut";
    if (resnet->shortcut.weight.part_count) x = diti_linear(graph, x, &resnet->shortcut.weight, &linear);
    return diti_spectrogram_conv(graph, diti_spectrogram_norm(graph, h, width), width, &resnet->conv2, x);
}

/* Twice the lines and moments, of which the first one would read what was before: so the others read one that comes
   later, and it is the last one that falls out. */
static diti_tensor diti_spectrogram_up(diti_graph *graph, diti_tensor x, uint32_t *width, const diti_layer *layer) {
    diti_conv_desc desc = DITI_ZERO;
    uint32_t moments = diti_graph_failed(graph) ? 1 : diti_tensor_rows(graph, x) / *width;
    desc.batch = 1;
    desc.width = *width;
    desc.height = moments;
    desc.pad_before = desc.pad_after = 1;
    desc.upsample = true;
    desc.bias = &layer->bias;
    desc.out_f32 = true;
    desc.name = "sound_upsample";
    x = diti_conv(graph, x, &layer->weight, &desc);
    *width *= 2;
    return diti_tensor_view(graph, x, 0, (2 * moments - 1) * *width, 0, layer->weight.rows);
}

/* Blocks of `count` rows, and of as many columns for each channel. */
static diti_block_desc diti_sound_block(uint32_t rows, uint32_t columns, uint32_t count, const char *name) {
    diti_block_desc block = DITI_ZERO;
    block.clip.frames = rows;
    block.clip.height = block.clip.width = block.side = 1;
    block.columns = columns;
    block.time = block.channel_step = count;
    block.time_step = block.line_step = block.pixel_step = 1;
    block.out_f32 = true;
    block.name = name;
    return block;
}

/* Tokens become rows of a spectrogram, F32 [4 * tokens - 3, outputs * 4 * lines]. */
static diti_tensor diti_spectrogram_run(const diti_spectrogram *own, diti_graph *graph, diti_tensor tokens) {
    const diti_kl_half *half = &own->decoder;
    uint32_t rows = diti_tensor_rows(graph, tokens), width = own->lines, i, k;
    diti_condition_desc scale = DITI_ZERO;
    diti_block_desc block = diti_sound_block(rows, own->planes, own->lines, "sound_planes");
    diti_tensor x;
    scale.clip.frames = rows;
    scale.clip.height = scale.clip.width = scale.coarse.frames = scale.coarse.height = scale.coarse.width = 1;
    scale.scale = diti_tensor_weight(graph, &own->deviations, 0);
    scale.shift = diti_tensor_weight(graph, &own->means, 0);
    scale.out = diti_tensor_new(graph, DITI_F32, rows, own->planes * own->lines, "sound_latents");
    scale.name = "sound_latents";
    x = diti_condition_frames(graph, tokens, &scale);
    block.out = diti_tensor_new(graph, DITI_F32, (rows + 1) * width, own->planes, "sound_planes");
    if (diti_graph_failed(graph)) return 0;
    diti_fill_zeros(graph, diti_tensor_view(graph, block.out, 0, width, 0, own->planes));
    x = block.out;
    block.out = diti_tensor_view(graph, x, width, rows * width, 0, own->planes);
    diti_spread_frames(graph, scale.out, &block);
    x = diti_spectrogram_conv(graph, x, width, &half->conv_in, 0);
    for (i = 0; i < 2; i++) x = diti_spectrogram_resnet(graph, x, width, &half->mid[i]);
    for (i = 0; i < half->level_count && !diti_graph_failed(graph); i++) {
        for (k = 0; k < half->levels[i].count; k++)
            x = diti_spectrogram_resnet(graph, x, width, &half->levels[i].resnets[k]);
        if (half->levels[i].resample.weight.part_count)
            x = diti_spectrogram_up(graph, x, &width, &half->levels[i].resample);
    }
    x = diti_spectrogram_conv(graph, diti_spectrogram_norm(graph, x, width), width, &half->conv_out, 0);
    if (diti_graph_failed(graph)) return 0;
    block = diti_sound_block(diti_tensor_rows(graph, x), own->outputs * width, width, "sound_spectrogram");
    return diti_gather_frames(graph, x, &block);
}

/* ---- computing: the vocoder ---- */

static diti_tensor diti_vocoder_activate(diti_graph *graph, diti_tensor x, const diti_snake_weights *snake,
                                         float slope) {
    diti_elementwise_desc part = DITI_ZERO;
    if (snake && snake->rates.part_count) return diti_snake(graph, x, &snake->rates, &snake->filters, "sound_snake");
    part.scale = slope;
    part.out_f32 = true;
    part.name = "sound_leaky_relu";
    part.add = diti_elementwise(graph, x, &part); /* slope * x + relu((1 - slope) * x) */
    part.scale = 1 - slope;
    part.activation = DITI_ACTIVATION_RELU;
    return diti_elementwise(graph, x, &part);
}

/* Rows that are `step` apart are neighbours: pixels of a line are frames of a clip. */
static diti_tensor diti_vocoder_conv(diti_graph *graph, diti_tensor x, const diti_layer *layer, uint32_t before,
                                     uint32_t after, uint32_t step, diti_tensor residual) {
    uint32_t rows = diti_tensor_rows(graph, x), columns = diti_tensor_columns(graph, x),
             padded = (rows + step - 1) / step * step;
    diti_conv_desc desc = DITI_ZERO;
    if (padded != rows) {
        diti_tensor whole = diti_tensor_new(graph, DITI_F32, padded, columns, "sound_padded");
        diti_fill_zeros(graph, diti_tensor_view(graph, whole, rows, padded - rows, 0, columns));
        diti_copy(graph, x, diti_tensor_view(graph, whole, 0, rows, 0, columns), "sound_padded");
        x = whole;
    }
    desc.batch = padded / step;
    desc.width = step;
    desc.height = 1;
    desc.frames_before = before;
    desc.frames_after = after;
    desc.bias = &layer->bias;
    desc.residual = residual;
    desc.out_f32 = true;
    desc.name = "sound_conv";
    x = diti_conv(graph, x, &layer->weight, &desc);
    return padded == rows ? x : diti_tensor_view(graph, x, 0, rows, 0, layer->weight.rows);
}

static diti_tensor diti_vocoder_resnet_run(diti_graph *graph, diti_tensor x, const diti_vocoder_net *net,
                                           const diti_vocoder_resnet *resnet) {
    uint32_t half = resnet->taps / 2, i;
    for (i = 0; i < DITI_SOUND_CONVS && !diti_graph_failed(graph); i++) {
        diti_tensor h = diti_vocoder_activate(graph, x, &resnet->acts[0][i], net->slope);
        h = diti_vocoder_conv(graph, h, &resnet->convs[0][i], half, half, resnet->dilations[i], 0);
        h = diti_vocoder_activate(graph, h, &resnet->acts[1][i], net->slope);
        x = diti_vocoder_conv(graph, h, &resnet->convs[1][i], half, half, 1, x);
    }
    return x;
}

static diti_tensor diti_vocoder_level_run(diti_graph *graph, diti_tensor x, const diti_vocoder_net *net,
                                          const diti_vocoder_level *level) {
    diti_elementwise_desc mean = DITI_ZERO;
    uint32_t rows = diti_tensor_rows(graph, x), i;
    if (!net->snakes) x = diti_vocoder_activate(graph, x, NULL, net->slope);
    x = diti_vocoder_conv(graph, x, &level->up, level->before, level->after, 1, 0);
    x = diti_tensor_reshape(graph, x, rows * level->factor, level->channels);
    mean.scale = 1 / (float)net->resnet_count;
    mean.out_f32 = true;
    mean.name = "sound_mean";
    for (i = 0; i < net->resnet_count && !diti_graph_failed(graph); i++)
        mean.add = diti_elementwise(graph, diti_vocoder_resnet_run(graph, x, net, &level->resnets[i]), &mean);
    return mean.add;
}

/* x [moments, inputs] as samples, F32 [moments * factor, outputs]. */
static diti_tensor diti_vocoder_run(diti_graph *graph, diti_tensor x, const diti_vocoder_net *net) {
    diti_elementwise_desc tanh_of = DITI_ZERO;
    diti_block_desc clamp;
    uint32_t i;
    x = diti_vocoder_conv(graph, x, &net->conv_in, 3, 3, 1, 0);
    for (i = 0; i < net->level_count && !diti_graph_failed(graph); i++)
        x = diti_vocoder_level_run(graph, x, net, &net->levels[i]);
    x = diti_vocoder_activate(graph, x, &net->act_out, (float)DITI_SOUND_LEAKY_OUT);
    x = diti_vocoder_conv(graph, x, &net->conv_out, 3, 3, 1, 0);
    if (net->end == DITI_VOCODER_PLAIN || diti_graph_failed(graph)) return x;
    if (net->end == DITI_VOCODER_CLAMP) {
        clamp = diti_sound_block(diti_tensor_rows(graph, x), net->outputs, 1, "sound_clamp");
        clamp.clamped = true;
        return diti_spread_frames(graph, x, &clamp);
    }
    tanh_of.scale = 3; /* 3 tanh(3x / 3) / 3 */
    tanh_of.activation = DITI_ACTIVATION_SQUASH;
    tanh_of.out_f32 = true;
    tanh_of.name = "sound_tanh";
    x = diti_elementwise(graph, x, &tanh_of);
    tanh_of.scale = 1 / 3.0f;
    tanh_of.activation = DITI_ACTIVATION_NONE;
    return diti_elementwise(graph, x, &tanh_of);
}

/* The logarithms of a channel's bands in each window, to columns of out. x: F32 [samples, 1], whole windows' steps. */
static void diti_vocoder_bands(const diti_vocoder *own, diti_graph *graph, diti_tensor x, diti_tensor out) {
    uint32_t windows = diti_tensor_rows(graph, out), bins = own->bins;
    diti_elementwise_desc sum = DITI_ZERO, root = DITI_ZERO, logarithm = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor z = diti_vocoder_conv(graph, diti_tensor_reshape(graph, x, windows, own->hop), &own->waves,
                                      own->waves.weight.frames - 1, 0, 1, 0);
    z = diti_multiply(graph, z, z, 0, "sound_squares");
    if (diti_graph_failed(graph)) return;
    sum.add = diti_tensor_view(graph, z, 0, windows, bins, bins);
    root.activation = DITI_ACTIVATION_ROOT;
    logarithm.activation = DITI_ACTIVATION_LOG;
    logarithm.out = out;
    sum.out_f32 = root.out_f32 = linear.out_f32 = true;
    sum.name = root.name = "sound_magnitudes";
    linear.name = logarithm.name = "sound_bands";
    z = diti_elementwise(graph, diti_tensor_view(graph, z, 0, windows, 0, bins), &sum);
    z = diti_linear(graph, diti_elementwise(graph, z, &root), &own->bands, &linear);
    diti_elementwise(graph, z, &logarithm);
}

/* Samples of the first net at the rate of the second one, to rows of out: those from `first` of the first net's on. */
static void diti_vocoder_extend(const diti_vocoder *own, diti_graph *graph, diti_tensor x, uint32_t first,
                                diti_tensor out) {
    uint32_t rows = diti_tensor_rows(graph, x), channels = own->nets[0].outputs,
             padded = (rows + own->hop - 1) / own->hop * own->hop, windows = padded / own->hop, c;
    uint32_t count = diti_tensor_rows(graph, out) / own->ratio;
    diti_block_desc spread = diti_sound_block(count, channels, own->ratio, "sound_out");
    diti_conv_desc resample = DITI_ZERO;
    diti_tensor whole = diti_tensor_new(graph, DITI_F32, padded, channels, "sound_padded"),
                bands = diti_tensor_new(graph, DITI_F32, windows, channels * own->mels, "sound_bands");
    if (diti_graph_failed(graph)) return;
    if (padded != rows) diti_fill_zeros(graph, diti_tensor_view(graph, whole, rows, padded - rows, 0, channels));
    diti_copy(graph, x, diti_tensor_view(graph, whole, 0, rows, 0, channels), "sound_padded");
    for (c = 0; c < channels; c++) {
        diti_tensor one = diti_tensor_new(graph, DITI_F32, padded, 1, "sound_channel");
        diti_copy(graph, diti_tensor_view(graph, whole, 0, padded, c, 1), one, "sound_channel");
        diti_vocoder_bands(own, graph, one, diti_tensor_view(graph, bands, 0, windows, c * own->mels, own->mels));
    }
    x = diti_vocoder_run(graph, bands, &own->nets[1]);
    resample.batch = padded;
    resample.height = resample.width = 1;
    resample.frames_before = resample.frames_after = DITI_SOUND_HALF;
    resample.ends = resample.out_f32 = true;
    resample.name = "sound_resample";
    whole = diti_conv(graph, whole, &own->resampler, &resample);
    spread.channel_step = 1;
    spread.time_step = channels;
    spread.clamped = true;
    spread.more = diti_tensor_view(graph, x, first * own->ratio, count * own->ratio, 0, channels);
    spread.out = out;
    diti_spread_frames(graph, diti_tensor_view(graph, whole, first, count, 0, own->ratio * channels), &spread);
}

/* ---- parts of a long sound ---- */

/* Moments on either side that samples of a net depend on. */
static uint32_t diti_vocoder_reach(const diti_vocoder_net *net) {
    const uint32_t snake = net->snakes ? DITI_SNAKE_TAPS / 2 : 0;
    uint32_t reach = 3 + snake, i, k, j;
    for (i = net->level_count; i-- > 0;) {
        const diti_vocoder_level *level = &net->levels[i];
        uint32_t most = 0;
        for (k = 0; k < net->resnet_count; k++) {
            uint32_t own = 0;
            for (j = 0; j < DITI_SOUND_CONVS; j++)
                own += level->resnets[k].taps / 2 * (level->resnets[k].dilations[j] + 1) + 2 * snake;
            if (own > most) most = own;
        }
        reach = (reach + most) / level->factor + 1 + (level->before > level->after ? level->before : level->after);
    }
    return reach + 3;
}

/* Tokens before and behind that a token's sound depends on. A moment is a line of the spectrogram. */
static void diti_sound_reach(const diti_spectrogram *spectrogram, const diti_vocoder *vocoder, uint32_t *before,
                             uint32_t *behind) {
    const diti_kl_half *half = &spectrogram->decoder;
    uint32_t moments = diti_vocoder_reach(&vocoder->nets[0]), past = 2, i;
    if (vocoder->net_count > 1)
        moments += ((diti_vocoder_reach(&vocoder->nets[1]) + 1) * vocoder->hop + vocoder->window + DITI_SOUND_HALF) /
                       vocoder->nets[0].factor +
                   1;
    for (i = half->level_count; i-- > 0;) {
        past += 4 * half->levels[i].count;
        if (i) past = (past + 2) / 2 + 1;
    }
    *behind = moments / DITI_SOUND_DOWN + 2;
    *before = *behind + past + 2 * 4 + 2;
}

/* The sound of tokens [first, first + count), whose own part are those from `skip` on; to rows of out. */
static void diti_sound_part(const diti_spectrogram *spectrogram, const diti_vocoder *vocoder, diti_graph *graph,
                            diti_tensor tokens, uint32_t skip, diti_tensor out) {
    diti_tensor x = diti_spectrogram_run(spectrogram, graph, tokens);
    uint32_t first = skip * DITI_SOUND_DOWN * vocoder->nets[0].factor;
    x = diti_vocoder_run(graph, x, &vocoder->nets[0]);
    if (diti_graph_failed(graph)) return;
    if (vocoder->net_count > 1)
        diti_vocoder_extend(vocoder, graph, x, first, out);
    else
        diti_copy(graph, diti_tensor_view(graph, x, first, diti_tensor_rows(graph, out), 0, vocoder->nets[0].outputs),
                  out, "sound_out");
}

/* Each channel by itself, F32 [tokens of all, values], to its column of out; in parts, with the tokens that these
   depend on. */
static void diti_sound_decode_alone(const diti_vocoder *vocoder, diti_graph *graph, diti_tensor tokens, uint32_t tile,
                                    diti_tensor out) {
    const diti_vocoder_net *net = &vocoder->nets[0];
    uint32_t all = diti_tensor_rows(graph, tokens), count = all / DITI_SOUND_SIDES, reach = diti_vocoder_reach(net),
             side, first, i;
    diti_tensor x = diti_tensor_new(graph, DITI_F32, all, vocoder->tokens, "sound_latents"), part;
    diti_linear_desc linear = DITI_ZERO;
    for (i = 0; i < vocoder->tokens && !diti_graph_failed(graph); i++) {
        diti_elementwise_desc scale = DITI_ZERO;
        scale.scale = vocoder->deviations[i];
        scale.offset = vocoder->means[i];
        scale.out = diti_tensor_view(graph, x, 0, all, i, 1);
        scale.name = "sound_latents";
        diti_elementwise(graph, diti_tensor_view(graph, tokens, 0, all, i, 1), &scale);
    }
    linear.bias = &vocoder->token_in.bias;
    linear.out_f32 = true;
    linear.name = "sound_tokens";
    for (side = 0; side < DITI_SOUND_SIDES; side++)
        for (first = 0; first < count && !diti_graph_failed(graph); first += tile) {
            uint32_t end = count - first > tile ? first + tile : count, from = first > reach ? first - reach : 0,
                     to = count - end > reach ? end + reach : count, samples = (end - first) * net->factor;
            part = diti_tensor_view(graph, x, side * count + from, to - from, 0, vocoder->tokens);
            part = diti_vocoder_run(graph, diti_linear(graph, part, &vocoder->token_in.weight, &linear), net);
            if (diti_graph_failed(graph)) return;
            diti_copy(graph, diti_tensor_view(graph, part, (first - from) * net->factor, samples, 0, 1),
                      diti_tensor_view(graph, out, first * net->factor, samples, side, 1), "sound_out");
        }
}

DIT_INTERNAL void diti_sound_decode(const diti_spectrogram *spectrogram, const diti_vocoder *vocoder, diti_graph *graph,
                                    diti_tensor tokens, uint32_t tile, diti_tensor out) {
    uint32_t count = diti_tensor_rows(graph, tokens), columns = diti_tensor_columns(graph, tokens), before, behind,
             first, each = DITI_SOUND_DOWN * vocoder->nets[0].factor;
    tile = tile ? tile : DITI_SOUND_TOKENS;
    if (!spectrogram) {
        diti_sound_decode_alone(vocoder, graph, tokens, tile, out);
        return;
    }
    diti_sound_reach(spectrogram, vocoder, &before, &behind);
    if (vocoder->net_count > 1 && each % vocoder->hop) tile = count; /* windows would begin elsewhere */
    if (vocoder->net_count > 1) each *= vocoder->ratio;
    for (first = 0; first < count && !diti_graph_failed(graph); first += tile) {
        uint32_t end = count - first > tile ? first + tile : count, from = first > before ? first - before : 0,
                 to = count - end > behind ? end + behind : count,
                 last = end < count ? end * each : diti_tensor_rows(graph, out);
        diti_sound_part(spectrogram, vocoder, graph, diti_tensor_view(graph, tokens, from, to - from, 0, columns),
                        first - from,
                        diti_tensor_view(graph, out, first * each, last - first * each, 0, vocoder->nets[0].outputs));
    }
}
