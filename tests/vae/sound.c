/* The sound of clips: its ops against formulas in double precision, both generations of LTX-2's decoder and vocoder
   against diffusers (tests/reference/ltx2_sound.py), the original's names, long sounds in parts, and files that must be
   refused. test-runs: lavapipe swiftshader sanitize */
#include "kernel_bench.h"
#include "files.h"
#include "lora_file.h"
#include "vulkan_test.h"
#include <math.h>

/* --- ops --- */

static double clamped(const matrix *x, long row, uint32_t column) {
    long last = (long)x->rows - 1;
    return (double)at(x, (uint32_t)(row < 0 ? 0 : row > last ? last : row), column);
}

/* u[n] of docs/models.md 4.12, then what the snake makes of it. */
static double snake_at(const matrix *x, long n, uint32_t c, const float *filters, double a, double b) {
    double u = 0, s;
    long i;
    n = n < 0 ? 0 : n > 2 * (long)x->rows - 1 ? 2 * (long)x->rows - 1 : n;
    for (i = 0; i < 12; i++)
        if ((n + 5 - i) % 2 == 0) u += (double)filters[i] * clamped(x, (n + 5 - i) / 2, c);
    s = sin(a * u);
    return u + b * s * s;
}

static void check_snake(diti_device *device, uint32_t rows, uint32_t columns, diti_element format, uint32_t extra,
                        float size) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(rows, columns, size, format), out;
    weight_values rates = weight_random(DIT_TYPE_F32, 2, columns, 1, 1),
                  filters = weight_random(DIT_TYPE_F32, 2, 12, 1, 1);
    diti_tensor made = diti_snake(graph, input(&x, format, extra, "x"), &rates.weight, &filters.weight, "snake"),
                kept = diti_tensor_state(graph, DITI_F32, rows, columns, "kept");
    double most = 0, largest = 0;
    diti_copy(graph, made, kept, "keep");
    if (run_plan()) {
        out = read_tensor(kept);
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t c = 0; c < columns; c++) {
                double y = 0, d;
                for (long j = 0; j < 12; j++)
                    y += (double)filters.values[12 + j] * snake_at(&x, 2 * (long)r + j - 5, c, filters.values,
                                                                   (double)rates.values[c],
                                                                   (double)rates.values[columns + c]);
                d = fabs(y - (double)at(&out, r, c));
                if (!(d <= most)) most = d;
                if (fabs(y) > largest) largest = fabs(y);
            }
        /* sums of 72 products each, and angles of up to 200 rounded to 24 bits */
        CHECK_MESSAGE(most <= 2e-5 * (1 + largest), "snake [%u, %u]: off by %g of %g", rows, columns, most, largest);
        free(out.data);
    }
    end();
    free(x.data);
    weight_free(&rates), weight_free(&filters);
}

static void check_map(diti_device *device, diti_activation activation, uint32_t rows, uint32_t columns) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(rows, columns, 1, DITI_F32), out;
    diti_elementwise_desc desc = {.activation = activation, .out_f32 = true, .name = "map"};
    double most = 0;
    for (uint32_t i = 0; i < rows * columns; i++) x.data[i] = i % 7 ? (float)pow(10, 4 * (double)x.data[i]) : 0;
    if (activation == DITI_ACTIVATION_LOG) x.data[0] = -1;
    desc.out = diti_tensor_state(graph, DITI_F32, rows, columns, "out");
    diti_elementwise(graph, input(&x, DITI_F32, 1, "x"), &desc);
    if (run_plan()) {
        out = read_tensor(desc.out);
        for (uint32_t i = 0; i < rows * columns; i++) {
            double v = (double)x.data[i],
                   wanted = activation == DITI_ACTIVATION_ROOT ? sqrt(v) : log(v > 1e-5 ? v : 1e-5),
                   d = fabs(wanted - (double)out.data[i]) / (1 + fabs(wanted));
            if (!(d <= most)) most = d;
        }
        /* Vulkan promises 3 units in the last place, or 2^-21 where the argument is near 1. */
        CHECK_MESSAGE(most <= 1e-6, "activation %d: off by %g", (int)activation, most);
        free(out.data);
    }
    end();
    free(x.data);
}

/* --- files --- */

typedef struct sound {
    diti_checkpoint *files[2];
    diti_json *configs[2];
    bytes whole;
    diti_spectrogram *spectrogram;
    diti_vocoder *vocoder;
} sound;

static diti_checkpoint *open_file(const char *folder, const char *part) {
    diti_checkpoint *out = NULL;
    dit_source source = {0};
    dit_error err = {0};
    char path[200];
    snprintf(path, sizeof path, "tests/fixtures/%s/%s.safetensors", folder, part);
    source.path = path;
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &out, &err) == DIT_OK, "%s", err.message);
    return out;
}

static diti_json *read_config(const char *folder, const char *part, const char *key, const char *value) {
    char path[200], problem[100];
    diti_json *out = NULL;
    dit_error err = {0};
    size_t size;
    char *text, *whole;
    snprintf(path, sizeof path, "tests/fixtures/%s/%s/config.json", folder, part);
    text = test_read_file(path, &size);
    if (!CHECK(text != NULL)) return NULL;
    whole = malloc(size + 200);
    if (key) { /* in front of the others, whose own must not be there twice */
        snprintf(problem, sizeof problem, "\"%s\":", key);
        char *own = strstr(text, problem);
        if (own) own[1] = '_';
        snprintf(whole, size + 200, "{\"%s\": %s, %s", key, value, strchr(text, '{') + 1);
    } else {
        memcpy(whole, text, size + 1);
    }
    CHECK_MESSAGE(diti_json_parse(&env, whole, strlen(whole), "config.json", &out, &err) >= 0, "%s", err.message);
    free(whole);
    free(text);
    return out;
}

static dit_result load_part(diti_device *device, sound *s, bool vocoder, const char *prefix, dit_error *err) {
    diti_component_source from = {0};
    from.device = device;
    from.env = &env;
    from.config = s->configs[vocoder];
    from.checkpoint = s->files[vocoder];
    from.prefix = prefix;
    return vocoder ? diti_vocoder_create(&from, &s->vocoder, err)
                   : diti_spectrogram_create(&from, &s->spectrogram, err);
}

static bool load(diti_device *device, sound *s, const char *const prefixes[2]) {
    dit_error err = {0};
    return CHECK_MESSAGE(load_part(device, s, false, prefixes[0], &err) == DIT_OK, "%s", err.message) &&
           CHECK_MESSAGE(load_part(device, s, true, prefixes[1], &err) == DIT_OK, "%s", err.message);
}

static void open_folder(sound *s, const char *folder) {
    memset(s, 0, sizeof *s);
    s->files[0] = open_file(folder, "audio_vae/diffusion_pytorch_model");
    s->files[1] = open_file(folder, "vocoder/diffusion_pytorch_model");
    s->configs[0] = read_config(folder, "audio_vae", NULL, NULL);
    s->configs[1] = read_config(folder, "vocoder", NULL, NULL);
}

static void unload(sound *s) {
    diti_spectrogram_destroy(s->spectrogram);
    diti_vocoder_destroy(s->vocoder);
    s->spectrogram = NULL;
    s->vocoder = NULL;
}

static void close_folder(sound *s) {
    unload(s);
    diti_checkpoint_close(s->files[0]);
    if (s->files[1] != s->files[0]) diti_checkpoint_close(s->files[1]);
    diti_json_free(&env, s->configs[0]);
    diti_json_free(&env, s->configs[1]);
    bytes_free(&s->whole);
}

/* --- decoding --- */

/* Samples of tokens, [samples, channels]. */
static matrix decode(diti_device *device, const sound *s, const matrix *tokens, uint32_t tile) {
    diti_graph *graph = begin(device);
    diti_sound_traits traits;
    matrix samples = {0};
    diti_tensor out, in = input(tokens, DITI_F32, 0, "tokens");
    diti_sound_traits_of(s->spectrogram, s->vocoder, &traits);
    out = diti_tensor_state(graph, DITI_F32, diti_sound_samples(s->vocoder, tokens->rows), traits.channels, "samples");
    diti_sound_decode(s->spectrogram, s->vocoder, graph, in, tile, out);
    if (run_plan()) samples = read_tensor(out);
    end();
    return samples;
}

static matrix recorded(const diti_checkpoint *file, const char *name) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(file, name);
    dit_error err = {0};
    matrix m = {0};
    if (!CHECK_MESSAGE(tensor != NULL, "%s is recorded", name)) return m;
    m = matrix_new((uint32_t)tensor->shape[tensor->rank - 2], (uint32_t)tensor->shape[tensor->rank - 1]);
    CHECK(diti_checkpoint_read_float(file, tensor, m.data, (uint64_t)m.rows * m.columns, &err) >= 0);
    return m;
}

/* The largest difference, of the largest value; wanted is [channels, samples] where turned. */
static double difference(const matrix *out, const matrix *wanted, bool turned) {
    double most = 0, largest = 0;
    if (!out->data || !wanted->data || (uint64_t)out->rows * out->columns != (uint64_t)wanted->rows * wanted->columns)
        return 1e9;
    for (uint32_t r = 0; r < out->rows; r++)
        for (uint32_t c = 0; c < out->columns; c++) {
            double w = (double)(turned ? at(wanted, c, r) : at(wanted, r, c)), d = fabs(w - (double)at(out, r, c));
            if (!(d <= most)) most = d;
            if (fabs(w) > largest) largest = fabs(w);
        }
    return most / largest;
}

static void compare(diti_device *device, const sound *s, const char *folder, const char *what, double tolerance) {
    diti_checkpoint *file = open_file(folder, "sound");
    matrix tokens = recorded(file, "tokens"), wanted = recorded(file, "samples"), out = decode(device, s, &tokens, 0);
    double off = difference(&out, &wanted, true);
    printf("%s, %s: off by %.3g of the largest sample\n", folder, what, off);
    CHECK_MESSAGE(off <= tolerance, "%s, %s: off by %g of the largest sample", folder, what, off);
    free(tokens.data), free(wanted.data), free(out.data);
    diti_checkpoint_close(file);
}

/* A name as files of the original have it. */
static void original_name(const char *part, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {
        {"conv_in.", "conv_pre."},  {"conv_out.", "conv_post."}, {"upsamplers.", "ups."},
        {"resnets.", "resblocks."}, {"act_out.", "act_post."},   {"downsample.filter", "downsample.lowpass.filter"}};
    bool vocoder = !strcmp(part, "vocoder.");
    if (!vocoder && diti_starts_with(name, "latents_"))
        snprintf(out, size, "audio_vae.per_channel_statistics.%s-of-means",
                 strcmp(name, "latents_std") ? "mean" : "std");
    else if (vocoder && diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out + 8, size - 8))
        memcpy(out, part, 8);
    else
        snprintf(out, size, "%s%s", part, name);
}

/* Both parts as one file with the original's names, without the tensor `missing`, and with one row less of `bent`. */
static bool make_original(sound *s, const char *missing, const char *bent) {
    static const char *const parts[2] = {"audio_vae.", "vocoder."};
    lora_file file = {0};
    dit_error err = {0};
    dit_source source;
    for (int p = 0; p < 2; p++)
        for (uint32_t i = 0; i < diti_checkpoint_count(s->files[p]); i++) {
            const diti_stored_tensor *tensor = diti_checkpoint_tensor(s->files[p], i);
            unsigned char *values = malloc((size_t)tensor->size);
            uint64_t shape[5];
            char name[200];
            original_name(parts[p], tensor->name, name, sizeof name);
            CHECK(diti_checkpoint_read(s->files[p], tensor, 0, values, (size_t)tensor->size, &err) >= 0);
            memcpy(shape, tensor->shape, sizeof shape);
            if (bent && !strcmp(name, bent)) shape[0]--;
            if (!missing || strcmp(name, missing))
                lora_file_bytes(&file, name, "BF16", shape, tensor->rank, values,
                                (size_t)(tensor->size / tensor->shape[0] * shape[0]));
            free(values);
        }
    diti_checkpoint_close(s->files[0]);
    diti_checkpoint_close(s->files[1]);
    lora_file_source(&file);
    s->whole = file.whole;
    memset(&file.whole, 0, sizeof file.whole);
    lora_file_free(&file);
    source = memory_source(&s->whole);
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &s->files[0], &err) == DIT_OK, "%s", err.message);
    s->files[1] = s->files[0];
    return s->files[0] != NULL;
}

static const char *const plain[2] = {"", ""}, *const original[2] = {"audio_vae.", "vocoder."};
static const char *const folders[2] = {"pipe_ltx2", "pipe_ltx2_0"};

static void test_folders(diti_device *device, const char *what, double tolerance) {
    for (int f = 0; f < 2; f++) {
        diti_sound_traits traits;
        sound s;
        open_folder(&s, folders[f]);
        if (load(device, &s, plain)) {
            diti_sound_traits_of(s.spectrogram, s.vocoder, &traits);
            CHECK(traits.rate == (f ? 24000u : 48000u) && traits.channels == 2 && traits.token_values == 16 &&
                  traits.moment_values == traits.vocoder_values);
            compare(device, &s, folders[f], what, tolerance);
        }
        close_folder(&s);
    }
}

/* LTX-2.3's sizes beside its tensors are those of its config.json, which the miniature does not have. */
static void test_originals(diti_device *device) {
    for (int f = 0; f < 2; f++) {
        sound s;
        open_folder(&s, folders[f]);
        diti_json_free(&env, s.configs[0]);
        s.configs[0] = NULL;
        if (f) diti_json_free(&env, s.configs[1]), s.configs[1] = NULL;
        if (make_original(&s, NULL, NULL) && load(device, &s, original))
            compare(device, &s, folders[f], "original names", 1e-4);
        close_folder(&s);
    }
}

/* Parts of a sound are those of the whole one. */
static void test_parts(diti_device *device) {
    const uint32_t counts[] = {1, 2, 3, 97, 160};
    for (int f = 0; f < 2; f++) {
        sound s;
        open_folder(&s, folders[f]);
        load(device, &s, plain);
        for (size_t i = 0; i < DITI_COUNT(counts) && s.vocoder; i++) {
            matrix tokens = matrix_random(counts[i], 16, 1.7f, DITI_F32), whole = decode(device, &s, &tokens, 1000),
                   parts;
            uint32_t each = f ? 60 : 30;
            CHECK_MESSAGE(whole.rows == (4 * counts[i] - 3) * each, "%u tokens are %u samples", counts[i], whole.rows);
            parts = decode(device, &s, &tokens, counts[i] > 90 ? 37 : 1);
            CHECK_MESSAGE(difference(&parts, &whole, false) <= 2e-6, "%s: %u tokens in parts are off by %g", folders[f],
                          counts[i], difference(&parts, &whole, false));
            free(tokens.data), free(whole.data), free(parts.data);
        }
        close_folder(&s);
    }
}

/* Dispatches that are cut into many slices give the same bytes, and are right where each sees a part of its buffers. */
static void test_slices(diti_device *whole) {
    diti_device *device = open_device("rung=base,gflop_ns=100000000", 50);
    matrix tokens = matrix_random(61, 16, 1.7f, DITI_F32), wanted, sliced;
    for (int f = 0; f < 2 && device; f++) {
        sound s;
        open_folder(&s, folders[f]);
        load(whole, &s, plain);
        wanted = decode(whole, &s, &tokens, 0);
        unload(&s);
        load(device, &s, plain);
        sliced = decode(device, &s, &tokens, 0);
        CHECK_MESSAGE(sliced.data &&
                          !memcmp(sliced.data, wanted.data, (size_t)wanted.rows * wanted.columns * sizeof(float)),
                      "%s: slices give other samples, off by %g", folders[f], difference(&sliced, &wanted, false));
        free(wanted.data), free(sliced.data);
        close_folder(&s);
    }
    free(tokens.data);
    if (!device) return;
    device->limits.storage_range = 32 << 10; /* of 144 KB */
    check_snake(device, 3000, 12, DITI_F32, 0, 3);
    diti_device_close(device);
}

/* --- what is refused --- */

static void refuse(sound *s, bool vocoder, const char *prefix, const char *words, const char *more) {
    dit_error err = {0};
    dit_result result = load_part(NULL, s, vocoder, prefix, &err);
    CHECK_MESSAGE(result < 0 && strstr(err.message, words) && strstr(err.message, more), "%s, %s: %s", words, more,
                  result < 0 ? err.message : "it is taken");
    unload(s);
}

static void test_refusals(void) {
    static const struct {
        const char *part, *key, *value;
    } settings[] = {{"audio_vae", "causality_axis", "\"width\""},
                    {"audio_vae", "norm_type", "\"group\""},
                    {"audio_vae", "mid_block_add_attention", "true"},
                    {"audio_vae", "attn_resolutions", "[8]"},
                    {"vocoder", "upsample_factors", "[5]"},
                    {"vocoder", "upsample_factors", "[5, 0]"},
                    {"vocoder", "bwe_upsample_factors", "[6, \"2\"]"},
                    {"vocoder", "resnet_dilations", "[[1, 3, 5, 7]]"},
                    {"vocoder", "resnet_dilations", "[[1, 3, 5], [1, 3, 5], [1, 3, 5], [1, 3, 5], [1, 3, 5]]"},
                    {"vocoder", "act_fn", "\"snake\""},
                    {"vocoder", "antialias", "false"},
                    {"vocoder", "bwe_final_act_fn", "\"relu\""},
                    {"vocoder", "leaky_relu_negative_slope", "2"},
                    {"vocoder", "hop_length", "-1"}};
    static const struct {
        const char *key, *value, *words;
    } sizes[] = {{"hop_length", "80", "bwe_generator"},
                 {"hop_length", "3", "bwe_generator makes 12 samples"},
                 {"output_sampling_rate", "40000", "40000 Hz"},
                 {"upsample_factors", "[4, 2]", "upsamplers.0.weight makes 4 samples of each by 11 taps"}};
    static const char *const missing[] = {"audio_vae.decoder.conv_in.conv.bias",
                                          "audio_vae.decoder.up.1.block.0.nin_shortcut.conv.weight",
                                          "audio_vae.per_channel_statistics.mean-of-means",
                                          "vocoder.vocoder.resblocks.1.acts2.2.act.beta",
                                          "vocoder.vocoder.ups.1.bias",
                                          "vocoder.bwe_generator.conv_post.weight",
                                          "vocoder.mel_stft.stft_fn.forward_basis",
                                          "vocoder.bwe_generator.act_post.downsample.lowpass.filter"};
    sound s;
    for (size_t i = 0; i < DITI_COUNT(settings); i++) {
        bool vocoder = !strcmp(settings[i].part, "vocoder");
        open_folder(&s, "pipe_ltx2");
        diti_json_free(&env, s.configs[vocoder]);
        s.configs[vocoder] = read_config("pipe_ltx2", settings[i].part, settings[i].key, settings[i].value);
        refuse(&s, vocoder, "", "config.json", settings[i].key);
        close_folder(&s);
    }
    for (size_t i = 0; i < DITI_COUNT(sizes); i++) {
        open_folder(&s, "pipe_ltx2");
        diti_json_free(&env, s.configs[1]);
        s.configs[1] = read_config("pipe_ltx2", "vocoder", sizes[i].key, sizes[i].value);
        refuse(&s, true, "", "vocoder/", sizes[i].words);
        close_folder(&s);
    }
    for (size_t i = 0; i < DITI_COUNT(missing); i++) {
        bool vocoder = diti_starts_with(missing[i], "vocoder.");
        open_folder(&s, "pipe_ltx2");
        if (make_original(&s, missing[i], NULL))
            refuse(&s, vocoder, original[vocoder], "", i == 5 || i == 6 ? "bwe_generator" : missing[i]);
        close_folder(&s);
    }
}

static void test_shapes(void) {
    static const char *const bent[] = {"audio_vae.decoder.mid.block_2.conv1.conv.bias",
                                       "audio_vae.decoder.up.0.block.1.conv2.conv.weight",
                                       "audio_vae.per_channel_statistics.mean-of-means",
                                       "vocoder.vocoder.resblocks.0.convs1.1.weight",
                                       "vocoder.vocoder.ups.1.weight",
                                       "vocoder.bwe_generator.ups.0.bias",
                                       "vocoder.bwe_generator.resblocks.2.acts1.0.upsample.filter",
                                       "vocoder.mel_stft.stft_fn.forward_basis"};
    sound s;
    for (size_t i = 0; i < DITI_COUNT(bent); i++) {
        bool vocoder = diti_starts_with(bent[i], "vocoder.");
        open_folder(&s, "pipe_ltx2");
        if (make_original(&s, NULL, bent[i])) refuse(&s, vocoder, original[vocoder], bent[i], "shape");
        close_folder(&s);
    }
}

static void test_device(diti_rung rung, const char *what, double tolerance) {
    diti_device *device = open_rung(NULL, rung);
    if (!device) return;
    check_snake(device, 1, 4, device->rung >= DITI_RUNG_FP16 ? DITI_F16 : DITI_F32, 0, 1);
    check_snake(device, 2, 7, DITI_F32, 1, 20);
    check_snake(device, 37, 12, DITI_F32, 0, 3);
    check_snake(device, 300, 20, DITI_F32, 4, 200);
    if (rung == DITI_RUNG_BASE) {
        check_map(device, DITI_ACTIVATION_LOG, 9, 13);
        check_map(device, DITI_ACTIVATION_ROOT, 9, 13);
    }
    test_folders(device, what, tolerance);
    if (rung == DITI_RUNG_BASE && test_first_driver()) test_originals(device);
    if (rung == DITI_RUNG_BASE && test_first_driver() && !test_quick_way("sanitize")) {
        test_parts(device);
        test_slices(device);
    }
    diti_device_close(device);
}

int main(void) {
    dit_error err = {0};
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    test_device(DITI_RUNG_BASE, "base", 1e-4);
    /* weights are halves then, and products of matrices: 11 bits */
    if (test_sweeps() || (test_first_driver() && !test_quick_way("sanitize")))
        test_device(DITI_RUNG_FP16, "fp16", 5e-3);
    test_refusals();
    test_shapes();
    test_vulkan_end();
    return TEST_END("sound");
}
