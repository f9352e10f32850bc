/* Models of published sizes, whose weights are made while they are read (real_shapes.h): with DIT_TEST_ALL=1 or with
   names as arguments, one step of each whole architecture at 256 or 128 pixels, streamed through 1.5 GB, one block of
   each long clip (long_clips.h), and a decoder; in every run the generator of the weights, and memory of that decoder.
   real_headers.c has what headers alone tell. test-runs: sanitize, in test-all plain */
#include "library.h"
#include "long_clips.h"
#include "real_shapes.h"
#include "real_vaes.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the generator itself ---- */

/* Whatever is read at a time, the bytes are the same; the values have the spread that was asked for. */
static void test_generator(void) {
    static const dit_type types[] = {DIT_TYPE_Q8_0, DIT_TYPE_F16, DIT_TYPE_BF16, DIT_TYPE_F32};
    static const real_container containers[] = {REAL_GGUF, REAL_SAFETENSORS, REAL_PYTORCH, REAL_PYTORCH};
    enum { ROWS = 24, COLUMNS = 576, COUNT = ROWS * COLUMNS };
    size_t i, k;
    for (i = 0; i < sizeof types / sizeof *types; i++) {
        real_file file = {0};
        const real_tensor *t;
        unsigned char *whole, *pieces;
        float *values = (float *)calloc(COUNT, sizeof *values);
        double sum = 0, squares = 0;
        uint64_t at, size;
        dit_source source;
        file.type = types[i];
        file.container = containers[i];
        real_layer(&file, 3, 5, "before", NULL, 0);
        real_layer(&file, ROWS, COLUMNS, "layer", NULL, 0);
        source = real_source(&file);
        t = &file.tensors[2];
        CHECK(t->type == types[i] && t->elements == COUNT);
        whole = (unsigned char *)calloc(2, (size_t)source.size);
        pieces = whole + source.size;
        CHECK(source.read_at(0, whole, (size_t)source.size, source.user) == (int64_t)source.size);
        for (at = 0; at < source.size; at += size) {
            size = 1 + at * 7 % 201;
            if (size > source.size - at) size = source.size - at;
            CHECK(source.read_at(at, pieces + at, (size_t)size, source.user) == (int64_t)size);
        }
        CHECK(!memcmp(whole, pieces, (size_t)source.size));
        CHECK(source.read_at(source.size, pieces, 1, source.user) < 0);
        diti_type_to_float(t->type, whole + file.header.size + t->offset, COUNT, values);
        for (k = 0; k < COUNT; k++) sum += values[k], squares += (double)values[k] * values[k];
        CHECK(fabs(sum / COUNT) * sqrt(COLUMNS) < 0.05);
        CHECK(fabs(sqrt(squares / COUNT * COLUMNS) - 1) < 0.02);
        free(whole);
        free(values);
        real_free(&file);
    }
}

/* ---- one step of a whole model ---- */

#define BUDGET ((uint64_t)1280 << 20)  /* device memory for weights, of 1.5 GB in all */
#define HOST_LIMIT ((uint64_t)3 << 30) /* the limit of the whole process, the driver's device memory included */
enum { SIDE = 256, SMALL_SIDE = 64 };  /* pixels; the largest models make pictures of half the side */

typedef struct input { /* an input of a job: unit normal numbers, or a mask */
    const char *name;
    uint32_t tokens, columns; /* [1, tokens, columns]; columns 0: a mask [1, tokens]; tokens 0: [1, columns] */
    uint32_t valid;           /* of a mask */
} input;

typedef struct run {
    const char *name;
    void (*make)(real_file *file);
    bool always;       /* small enough for every run of the tests */
    bool original;     /* names */
    uint32_t side;     /* of the picture; less of latents that stand for 16 or 32 pixels, as the decoder's are 8 */
    uint32_t channels; /* of the latent */
    bool classes;      /* DiT's labels in place of inputs */
    input inputs[4];
} run;

static const run runs[] = {
    {"DiT-S/2", published_dit_s_2, true, true, SMALL_SIDE, 4, true, {{NULL, 0, 0, 0}}},
    {"DiT-XL/2", published_dit_xl_2, false, true, SIDE, 4, true, {{NULL, 0, 0, 0}}},
    {"PixArt-Sigma",
     published_pixart_sigma,
     false,
     false,
     SIDE,
     4,
     false,
     {{"prompt_embeds", 300, 4096, 0}, {"prompt_attention_mask", 300, 0, 41}}},
    {"SD3-medium",
     published_sd3_medium,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 333, 4096, 0}, {"pooled_prompt_embeds", 0, 2048, 0}}},
    {"SD3.5-large",
     published_sd35_large,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 333, 4096, 0}, {"pooled_prompt_embeds", 0, 2048, 0}}},
    {"FLUX.1-dev",
     published_flux_dev,
     false,
     true,
     SIDE / 2,
     16,
     false,
     {{"prompt_embeds", 512, 4096, 0}, {"pooled_prompt_embeds", 0, 768, 0}}},
    {"Chroma1",
     published_chroma,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 40, 4096, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"LongCat-Image", published_longcat, false, true, SIDE, 16, false, {{"prompt_embeds", 512, 3584, 0}}},
    {"Ovis-Image", published_ovis, false, true, SIDE, 16, false, {{"prompt_embeds", 40, 2048, 0}}},
    {"Z-Image",
     published_zimage,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 40, 2560, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"FLUX.2-klein-4B", published_klein_4b, false, true, SIDE / 2, 128, false, {{"prompt_embeds", 512, 7680, 0}}},
    {"FLUX.2-klein-9B", published_klein_9b, false, true, SIDE / 2, 128, false, {{"prompt_embeds", 512, 12288, 0}}},
    {"FLUX.2-dev", published_flux2_dev, false, true, SIDE / 2, 128, false, {{"prompt_embeds", 512, 15360, 0}}},
    {"FLUX.3-klein", published_flux3_klein, false, true, SIDE / 2, 128, false, {{"prompt_embeds", 80, 20480, 0}}},
    {"Qwen-Image",
     published_qwenimage,
     false,
     true,
     SIDE / 2,
     16,
     false,
     {{"prompt_embeds", 40, 3584, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"Qwen-Image-2.1",
     published_qwenimage21,
     false,
     true,
     SIDE / 2,
     64,
     false,
     {{"prompt_embeds", 40, 4096, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"Krea-2",
     published_krea2,
     false,
     true,
     SIDE / 2,
     16,
     false,
     {{"prompt_embeds", 40, 30720, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"Anima", published_anima, false, true, SIDE, 16, false, {{"prompt_embeds", 512, 1024, 0}}},
    {"ERNIE-Image",
     published_ernie,
     false,
     true,
     SIDE / 2,
     128,
     false,
     {{"prompt_embeds", 40, 3072, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"Kandinsky 5.0 T2I Lite",
     published_kandinsky,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 40, 3584, 0}, {"prompt_attention_mask", 40, 0, 40}, {"pooled_prompt_embeds", 0, 768, 0}}},
    {"Lumina-Image 2",
     published_lumina2,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 40, 2304, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"Boogu-Image",
     published_boogu,
     false,
     true,
     SIDE,
     16,
     false,
     {{"prompt_embeds", 40, 4096, 0}, {"prompt_attention_mask", 40, 0, 40}}},
    {"Sana 1.6B",
     published_sana_1600m,
     false,
     true,
     SIDE / 2,
     32,
     false,
     {{"prompt_embeds", 300, 2304, 0}, {"prompt_attention_mask", 300, 0, 40}}},
    {"HunyuanDiT",
     published_hunyuandit_v12,
     false,
     false,
     SIDE,
     4,
     false,
     {{"prompt_embeds", 77, 1024, 0},
      {"prompt_attention_mask", 77, 0, 12},
      {"prompt_embeds_2", 256, 2048, 0},
      {"prompt_attention_mask_2", 256, 0, 15}}},
};

/* Sums of four uniform numbers: near enough to normal. */
static float *random_floats(uint64_t count, uint64_t seed) {
    float *out = (float *)malloc((size_t)count * sizeof *out);
    uint64_t i;
    uint32_t k;
    for (i = 0; out && i < count; i++) {
        uint64_t random = real_random(seed, i);
        for (k = 0, out[i] = 0; k < 4; k++) out[i] += (float)(random >> 16 * k & 0xffff) / 65536.0f - 0.5f;
        out[i] *= 1.7320508f;
    }
    return out;
}

static dit_tensor make_input(const input *in, uint64_t seed) {
    dit_tensor out = {0};
    uint64_t count = (uint64_t)(in->tokens ? in->tokens : 1) * (in->columns ? in->columns : 1), i;
    float *values = random_floats(count, seed);
    out.name = in->name;
    out.rank = 2u + (in->tokens && in->columns ? 1u : 0u);
    out.shape[0] = 1;
    out.shape[1] = in->tokens ? in->tokens : in->columns;
    out.shape[2] = in->columns;
    for (i = 0; values && in->valid && i < count; i++) values[i] = i < in->valid ? 1 : 0;
    out.type = DIT_TYPE_F32;
    out.data = values;
    return out;
}

/* Finite, and neither constant nor out of proportion. */
static void check_values(const run *r, const char *what, const float *values, size_t count) {
    double sum = 0, squares = 0, deviation;
    size_t i;
    for (i = 0; i < count; i++) sum += (double)values[i], squares += (double)values[i] * (double)values[i];
    deviation = sqrt(squares / (double)count - sum / (double)count * (sum / (double)count));
    CHECK_MESSAGE(deviation > 1e-3 && deviation < 1e3, "%s: the %s has a standard deviation of %g", r->name, what,
                  deviation);
}

static void check_results(const run *r, dit_job *job) {
    size_t pixels = (size_t)r->side * r->side, latent = r->channels * pixels / 64;
    float *values = (float *)calloc(3 * pixels, sizeof *values);
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, values, latent * sizeof *values, 0, &err) == DIT_OK,
                  "%s: %s", r->name, err.message);
    check_values(r, "latent", values, latent);
    CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, values, 3 * pixels * sizeof *values, 0, &err) == DIT_OK,
                  "%s: %s", r->name, err.message);
    check_values(r, "picture", values, 3 * pixels);
    free(values);
}

static double seconds_used(const struct rusage *usage) {
    return (double)usage->ru_utime.tv_sec + (double)usage->ru_stime.tv_sec + (double)usage->ru_utime.tv_usec / 1e6 +
           (double)usage->ru_stime.tv_usec / 1e6;
}

/* Seconds of the processor so far. */
static double used_now(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return seconds_used(&usage);
}

/* Runs a job to its end; *steps: what the processor had used when the decoding was seen to begin. */
static dit_result run_to_end(dit_job *job, double *steps) {
    dit_status status;
    dit_result result;
    *steps = 0;
    do {
        result = dit_job_wait(job, 20000000);
        dit_job_status(job, &status, NULL);
        if (!*steps && status.stage >= DIT_STAGE_DECODE) *steps = used_now();
    } while (result == DIT_WORKING);
    if (!*steps) *steps = used_now();
    return result;
}

/* Weights stay in their budget whatever the job does. loaded: seconds of the processor that loading took. */
static void run_job(const run *r, dit_context *context, const dit_model *model, const real_file *file, uint64_t budget,
                    double loaded) {
    const int32_t label = 207;
    double begun = used_now(), planned, steps;
    const uint64_t slack = (uint64_t)16 << 20; /* blocks of device memory are rounded up */
    dit_job_desc desc = {0};
    dit_memory memory = {0};
    dit_model_info info;
    dit_error err = {0};
    dit_tensor inputs[4];
    dit_job *job = NULL;
    dit_counters before, after;
    struct rusage usage;
    uint64_t used;
    dit_model_get_info(model, &info);
    CHECK_MESSAGE(info.weight_bytes <= budget, "%s: %llu bytes of weights", r->name,
                  (unsigned long long)info.weight_bytes);
    CHECK(context->device->memory_used <= budget + slack);
    CHECK(info.streamed_bytes + budget > file->data / 64 * 63);
    desc.model = model;
    desc.width = desc.height = r->side;
    desc.steps = 1;
    desc.guidance.scale = 1;
    desc.seed = 3;
    if (r->classes) desc.class_labels = &label;
    for (; desc.input_count < 4 && r->inputs[desc.input_count].name; desc.input_count++)
        inputs[desc.input_count] = make_input(&r->inputs[desc.input_count], 1000 + desc.input_count);
    desc.inputs = inputs;
    CHECK_MESSAGE(dit_job_memory(context, &desc, &memory, &err) == DIT_OK, "%s: %s", r->name, err.message);
    CHECK(memory.weights == info.weight_bytes && memory.streamed == info.streamed_bytes);
    if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s: %s", r->name, err.message)) {
        dit_result result;
        used = context->device->memory_used;
        CHECK_MESSAGE(used <= memory.weights + memory.activations + slack, "%s: %llu bytes of device memory, not %llu",
                      r->name, (unsigned long long)used, (unsigned long long)(memory.weights + memory.activations));
        dit_job_get_counters(job, &before);
        planned = used_now();
        result = run_to_end(job, &steps);
        printf("%s: seconds of the processor: load %.1f, plan %.1f, one step %.1f, decode %.1f\n", r->name, loaded,
               planned - begun, steps - planned, used_now() - steps);
        dit_job_status(job, NULL, &err);
        if (CHECK_MESSAGE(result == DIT_OK, "%s: %s", r->name, err.message)) check_results(r, job);
        dit_job_get_counters(job, &after);
        CHECK(after.allocations == before.allocations && context->device->memory_used == used);
        getrusage(RUSAGE_SELF, &usage);
        CHECK_MESSAGE((uint64_t)usage.ru_maxrss * 1024 < HOST_LIMIT, "%s: %ld MB of host memory", r->name,
                      usage.ru_maxrss >> 10);
        printf("%s: %.0f M parameters, %.1f s of processor, weights %llu MB on the device of %llu, %llu streamed, "
               "activations %llu MB, host %ld MB\n",
               r->name, (double)info.parameters[DIT_ROLE_TRANSFORMER] / 1e6, seconds_used(&usage),
               (unsigned long long)(info.weight_bytes >> 20), (unsigned long long)(file->data >> 20),
               (unsigned long long)(after.streamed_bytes >> 20), (unsigned long long)(memory.activations >> 20),
               usage.ru_maxrss >> 10);
        fflush(stdout);
    }
    dit_job_destroy(job);
    while (desc.input_count) free((void *)(uintptr_t)inputs[--desc.input_count].data);
}

static void run_model(const run *r) {
    dit_context_desc context_desc = {0};
    dit_context *context = NULL;
    dit_model_desc desc = {0};
    dit_component decoder = {0};
    dit_model *model = NULL;
    real_file file = {0}, taesd = {0};
    dit_error err = {0};
    double begun = used_now();
    file.original = r->original;
    file.type = DIT_TYPE_Q8_0;
    r->make(&file);
    taesd.type = DIT_TYPE_F16;
    real_taesd(&taesd, r->channels);
    desc.source = real_source(&file);
    decoder.role = DIT_ROLE_TAE;
    decoder.source = real_source(&taesd);
    desc.components = &decoder;
    desc.component_count = 1;
    desc.weight_budget = file.data / 2 < BUDGET ? file.data / 2 : BUDGET;
    if (CHECK_MESSAGE(dit_context_create(&context_desc, &context, &err) == DIT_OK, "%s", err.message) &&
        CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s: %s", r->name, err.message)) {
        run_job(r, context, model, &file, desc.weight_budget, used_now() - begun);
    }
    dit_model_destroy(model);
    dit_context_destroy(context);
    real_free(&file);
    real_free(&taesd);
}

/* In a process of its own, whose memory and time are its own, too. */
static void test_run(const run *r) {
    pid_t child = fork();
    int status = 1;
    if (child == 0) {
        test_passed = test_failed = 0;
        run_model(r);
        fflush(stdout);
        _exit(test_failed || !test_passed);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MESSAGE(status == 0, "%s failed", r->name);
}

/* ---- the decoder of Wan 2.2 5B, whose frames of 512 x 288 take 13.8 GiB elsewhere ---- */

enum { WAN22_FRAMES = 5, WAN22_MOST = 121, WAN22_HEIGHT = 288, WAN22_WIDTH = 512 };
typedef struct decoder_run {
    const char *name;
    uint32_t height, width, tile; /* tile 0: at once, which takes bindings of 227 MB at 288x512, and lavapipe has 134 */
} decoder_run;
static const decoder_run decoder_runs[] = {{"Wan 2.2 decoder 64x128", 64, 128, 0},
                                           {"Wan 2.2 decoder 288x512", WAN22_HEIGHT, WAN22_WIDTH, 256}};

typedef struct decoder_files { /* a transformer and the decoder */
    real_file transformer, decoder;
    dit_component component;
    dit_model_desc desc;
} decoder_files;

static void small_ti2v(real_file *file) { real_wan(file, 256, 1, 512, 48, 48, 0); }

static void decoder_open(decoder_files *f, void (*transformer)(real_file *file)) {
    memset(f, 0, sizeof *f);
    f->transformer.container = f->decoder.container = REAL_SAFETENSORS;
    f->transformer.type = f->decoder.type = DIT_TYPE_F16;
    transformer(&f->transformer);
    published_wan22_decoder(&f->decoder);
    f->component.role = DIT_ROLE_VAE;
    f->component.source = real_source(&f->decoder);
    f->desc.source = real_source(&f->transformer);
    f->desc.components = &f->component;
    f->desc.component_count = 1;
}

static void decoder_close(decoder_files *f) {
    real_free(&f->transformer);
    real_free(&f->decoder);
}

static dit_job_desc decoder_job(const dit_model *model, uint32_t frames, uint32_t height, uint32_t width) {
    dit_job_desc out = {0};
    out.model = model;
    out.width = width;
    out.height = height;
    out.frame_count = frames;
    out.steps = 1;
    out.guidance.scale = 1;
    out.seed = 3;
    return out;
}

/* A clip of 24 times the frames has more latents, of which the transformer and its solver have some copies. */
static void test_decoder_memory(void) {
    const uint64_t longer =
        (uint64_t)(WAN22_MOST - WAN22_FRAMES) / 4 * 48 * (WAN22_HEIGHT / 16) * (WAN22_WIDTH / 16) * 4;
    decoder_files f;
    dit_model *model = NULL;
    dit_memory few = {0}, many = {0};
    dit_job_desc job;
    dit_error err = {0};
    decoder_open(&f, published_wan_ti2v_5b);
    f.desc.dry_run = true;
    if (CHECK_MESSAGE(dit_model_load(NULL, &f.desc, &model, &err) == DIT_OK, "%s", err.message)) {
        job = decoder_job(model, WAN22_FRAMES, WAN22_HEIGHT, WAN22_WIDTH);
        job.prompt = "";
        CHECK_MESSAGE(dit_job_memory(NULL, &job, &few, &err) == DIT_OK, "%s", err.message);
        job.frame_count = WAN22_MOST;
        CHECK_MESSAGE(dit_job_memory(NULL, &job, &many, &err) == DIT_OK, "%s", err.message);
        printf("Wan 2.2 decoder 288x512: %.1f M parameters, %.2f GB; %u frames take %.3f GB, %u frames %.3f GB\n",
               (double)f.decoder.parameters / 1e6, (double)f.decoder.data / 1e9, WAN22_FRAMES,
               (double)few.activations / 1e9, WAN22_MOST, (double)many.activations / 1e9);
        CHECK(many.activations > few.activations && many.activations - few.activations <= 16 * longer);
        CHECK(many.activations < (uint64_t)1 << 31); /* of 13.8 GiB */
    }
    dit_model_destroy(model);
    decoder_close(&f);
}

/* Decodes a few frames behind a small transformer, in the memory that was said before. */
static void run_decoder(const decoder_run *r) {
    const size_t count = (size_t)3 * WAN22_FRAMES * r->width * r->height;
    const input text = {"prompt_embeds", 40, 4096, 0};
    const uint64_t slack = (uint64_t)16 << 20; /* blocks of device memory are rounded up */
    const run named = {r->name, small_ti2v, false, false, 0, 0, false, {{NULL, 0, 0, 0}}};
    dit_context_desc context_desc = {0};
    dit_context *context = NULL;
    decoder_files f;
    dit_model *model = NULL;
    dit_memory memory = {0};
    dit_job_desc desc;
    dit_job *job = NULL;
    dit_error err = {0};
    dit_tensor embeds = make_input(&text, 1000);
    float *values = (float *)calloc(count, sizeof *values);
    double steps;
    context_desc.device_memory_limit = (VkDeviceSize)8 << 30; /* of the host's, more than lavapipe says */
    decoder_open(&f, small_ti2v);
    if (CHECK_MESSAGE(dit_context_create(&context_desc, &context, &err) == DIT_OK, "%s", err.message) &&
        CHECK_MESSAGE(dit_model_load(context, &f.desc, &model, &err) == DIT_OK, "%s", err.message)) {
        desc = decoder_job(model, WAN22_FRAMES, r->height, r->width);
        desc.vae_tile = r->tile;
        desc.float_frames = true;
        desc.inputs = &embeds;
        desc.input_count = 1;
        CHECK_MESSAGE(dit_job_memory(context, &desc, &memory, &err) == DIT_OK, "%s", err.message);
        CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    }
    if (job) {
        dit_result result = run_to_end(job, &steps);
        uint64_t used = context->device->memory_used;
        dit_job_status(job, NULL, &err);
        printf("%s: %u frames on the rung %s: weights %.2f GB, activations %.2f GB, of the device %.2f GB; %.0f s of "
               "the processor\n",
               r->name, WAN22_FRAMES, diti_rung_name(context->device->rung), (double)memory.weights / 1e9,
               (double)memory.activations / 1e9, (double)used / 1e9, used_now() - steps);
        CHECK_MESSAGE(used <= memory.weights + memory.activations + slack, "%llu bytes of device memory, not %llu",
                      (unsigned long long)used, (unsigned long long)(memory.weights + memory.activations));
        if (CHECK_MESSAGE(result == DIT_OK, "%s", err.message) &&
            CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGB_F32, 0, DIT_ALL_FRAMES, values, count * sizeof *values, 0,
                                       &err) == DIT_OK,
                          "%s", err.message)) {
            check_values(&named, "first frame", values, count / WAN22_FRAMES);
            check_values(&named, "clip", values, count);
        }
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    decoder_close(&f);
    free((void *)(uintptr_t)embeds.data);
    free(values);
}

/* ---- long clips ---- */

static void run_long_clip(const long_clip *clip) {
    diti_env env = test_env(NULL);
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    desc.devices = clip->devices > 1 ? "0,0" : "0";
    desc.overrides = "rung=base,allocation=8G"; /* plans of whole clips are not run */
    desc.max_slice_us = LONG_SLICE_US;
    desc.device_memory_limit = (VkDeviceSize)8 << 30; /* of the host's, more than lavapipe says */
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message))
        long_run_clip(clip, context, &env);
    dit_context_destroy(context);
}

int main(int argc, char **argv) {
    const char *sweep = getenv("DIT_TEST_ALL");
    bool all = argc < 2 && !SANITIZED && sweep && !strcmp(sweep, "1");
    size_t i, k;
    test_generator();
    test_decoder_memory();
    fflush(stdout);
    for (i = 0; i < sizeof runs / sizeof *runs; i++) {
        bool named = false;
        for (k = 1; k < (size_t)argc; k++) named = named || !strcmp(argv[k], runs[i].name);
        if (all || named || (runs[i].always && !SANITIZED)) test_run(&runs[i]);
    }
    for (i = 0; i < DITI_COUNT(long_clips); i++) {
        bool named = false;
        for (k = 1; k < (size_t)argc; k++) named = named || !strcmp(argv[k], long_clips[i].name);
        if (all || named) run_long_clip(&long_clips[i]);
    }
    for (i = 0; i < DITI_COUNT(decoder_runs); i++) {
        bool named = false;
        for (k = 1; k < (size_t)argc; k++) named = named || !strcmp(argv[k], decoder_runs[i].name);
        if ((all && i == 0) || named) run_decoder(&decoder_runs[i]);
    }
    return TEST_END("real");
}
