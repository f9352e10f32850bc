/* A clip from a model that makes pictures: a looped walk through its latents and prompts.
     build/clip [-m MODEL] [-W N] [-H N] [--frames N] [--fps X] [--steps N] [--seed N] -o FILE [-o FILE] PROMPT...
   The noise goes once around a circle between two draws, so that it is normal everywhere and ends where it began; the
   prompts' embeddings are mixed from each to the next and from the last to the first. One job makes all frames: its
   plan stays, and only its inputs change. Endings of FILE: .y4m, .apng, .webp, .png (numbered), .mp4, .mov, .webm,
   .mkv; - is Y4M to the standard output. */
#include "dit.h"
#include "cli/clip.h"

enum { MOST_PROMPTS = 16, MOST_OUTPUTS = 4 };

typedef struct options {
    const char *model, *prompts[MOST_PROMPTS], *outputs[MOST_OUTPUTS];
    uint32_t prompt_count, output_count, width, height, frames, steps, seed;
    double fps;
} options;

typedef struct walk {
    options o;
    dit_context *context;
    dit_model *model;
    dit_job *job;
    dit_model_info info;
    unsigned char *blobs[MOST_PROMPTS], *negative, *mixed, *rgba;
    size_t blob_size, values; /* of the noise */
    float *ends[2], *noise;
    clip clips[MOST_OUTPUTS];
    dit_error err;
} walk;

static int usage(const char *what, const char *value) {
    fprintf(stderr,
            "clip: %s%s\nusage: clip [-m MODEL] [-W N] [-H N] [--frames N] [--fps X] [--steps N] [--seed N]\n"
            "            -o FILE [-o FILE] PROMPT...\n",
            what, value);
    return EXIT_USAGE;
}

static bool take_whole(const char *text, uint32_t least, uint32_t most, uint32_t *out) {
    char *end;
    double value = strtod(text, &end);
    *out = value >= least && value <= most ? (uint32_t)value : least;
    return *text && !*end && value == *out;
}

static int take_options(options *o, int argc, char **argv) {
    int i;
    o->model = "models/emoji-q8_0.gguf";
    o->frames = 24;
    o->fps = 12;
    o->steps = 8;
    o->seed = 42;
    for (i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;
        if (name[0] != '-' || !name[1]) {
            if (o->prompt_count == MOST_PROMPTS) return usage("at most 16 prompts are possible, not also ", name);
            o->prompts[o->prompt_count++] = name;
            continue;
        }
        i++;
        if (strcmp(name, "-m") == 0)
            o->model = value;
        else if (strcmp(name, "-o") == 0 && o->output_count < MOST_OUTPUTS)
            o->outputs[o->output_count++] = value;
        else if (strcmp(name, "-W") == 0)
            good = take_whole(value, 8, 16384, &o->width);
        else if (strcmp(name, "-H") == 0)
            good = take_whole(value, 8, 16384, &o->height);
        else if (strcmp(name, "--frames") == 0)
            good = take_whole(value, 1, 9999, &o->frames);
        else if (strcmp(name, "--steps") == 0)
            good = take_whole(value, 1, 1000, &o->steps);
        else if (strcmp(name, "--seed") == 0)
            good = take_whole(value, 0, UINT32_MAX, &o->seed);
        else if (strcmp(name, "--fps") == 0)
            good = (o->fps = atof(value)) >= 0.001 && o->fps <= 1000;
        else
            return usage("there is no such option, or once too often: ", name);
        if (!good || !*value) return usage("this option needs another value: ", name);
    }
    if (!o->prompt_count) return usage("a prompt is needed", "");
    if (!o->output_count) return usage("-o FILE is needed", "");
    return EXIT_GOOD;
}

/* Before the model is loaded: what cannot be written costs no work. */
static int check_outputs(const options *o) {
    uint32_t i;
    for (i = 0; i < o->output_count; i++) {
        const char *why = why_no_clip(o->outputs[i]);
        if (!why) continue;
        fprintf(stderr, "clip: -o %s: %s\n", o->outputs[i], why);
        return clip_find_ending(o->outputs[i]) ? EXIT_OUTPUT : EXIT_USAGE;
    }
    return EXIT_GOOD;
}

/* Two draws of normal numbers, by Marsaglia's polar method over an xorshift generator. */
static void draw_noise(walk *w) {
    uint64_t state = 0x9e3779b97f4a7c15ull ^ ((uint64_t)w->o.seed << 20 | 1);
    size_t i;
    for (i = 0; i < 2 * w->values;) {
        double pair[2], square = 0;
        int k;
        for (k = 0; k < 2; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            pair[k] = (double)(state >> 11) / 4503599627370496.0 - 1;
            square += pair[k] * pair[k];
        }
        if (square >= 1 || square == 0) continue;
        for (k = 0; k < 2 && i < 2 * w->values; k++, i++)
            w->ends[i / w->values][i % w->values] = (float)(pair[k] * sqrt(-2 * log(square) / square));
    }
}

static bool encode(walk *w, const char *prompt, unsigned char **blob) {
    size_t size = w->blob_size;
    *blob = (unsigned char *)malloc(size);
    if (*blob) return dit_encode_prompt(w->context, w->model, prompt, *blob, &size, &w->err) >= 0;
    w->err.result = DIT_ERROR_OUT_OF_HOST_MEMORY;
    snprintf(w->err.message, sizeof w->err.message, "not enough memory for a prompt");
    return false;
}

/* All prompts get as many tokens as the longest one has, so that one plan fits all mixtures. */
static bool encode_prompts(walk *w) {
    uint32_t i, k, count = w->o.prompt_count;
    if (dit_encode_prompt(w->context, w->model, "", NULL, &w->blob_size, &w->err) < 0) return false;
    if (!encode(w, "", &w->negative)) return false;
    for (i = 0; i < count; i++)
        if (!encode(w, w->o.prompts[i], &w->blobs[i])) return false;
    for (i = 0; i < count; i++)
        for (k = 0; k < count; k++)
            if (dit_mix_prompts(w->blobs[i], w->blobs[k], w->blob_size, 0, w->blobs[i], &w->err) < 0) return false;
    w->mixed = (unsigned char *)malloc(w->blob_size);
    return w->mixed != NULL;
}

/* The frame's place on the way, 0 to 1: prompts are mixed smoothly, so that each stays for a while. */
static bool place_frame(walk *w, uint32_t frame) {
    const double pi = 3.14159265358979323846;
    double place = (double)frame / w->o.frames, at = place * w->o.prompt_count, part = at - floor(at);
    uint32_t from = (uint32_t)at % w->o.prompt_count, to = (from + 1) % w->o.prompt_count;
    float c = (float)cos(2 * pi * place), s = (float)sin(2 * pi * place);
    size_t i;
    for (i = 0; i < w->values; i++) w->noise[i] = c * w->ends[0][i] + s * w->ends[1][i];
    part = part * part * (3 - 2 * part);
    return dit_mix_prompts(w->blobs[from], w->blobs[to], w->blob_size, (float)part, w->mixed, &w->err) >= 0;
}

static bool make_frame(walk *w, uint32_t frame) {
    dit_job_desc desc = {0};
    dit_tensor noise = {0};
    dit_result result;
    if (!place_frame(w, frame)) return false;
    noise.name = "noise";
    noise.type = DIT_TYPE_F32;
    noise.rank = 4;
    noise.shape[0] = 1;
    noise.shape[1] = w->info.latent_channels;
    noise.shape[2] = w->o.height / w->info.latent_factor;
    noise.shape[3] = w->o.width / w->info.latent_factor;
    noise.data = w->noise;
    desc.model = w->model;
    desc.conditioning = w->mixed;
    desc.negative_conditioning = w->negative;
    desc.conditioning_size = desc.negative_conditioning_size = w->blob_size;
    desc.inputs = &noise;
    desc.input_count = 1;
    desc.width = w->o.width;
    desc.height = w->o.height;
    desc.steps = w->o.steps;
    result = w->job ? dit_job_restart(w->job, &desc, &w->err) : dit_job_create(w->context, &desc, &w->job, &w->err);
    if (result < 0) return false;
    if (dit_job_wait(w->job, UINT64_MAX) < 0) return dit_job_status(w->job, NULL, &w->err), false;
    return dit_job_read(w->job, DIT_READ_RGBA8, 0, 0, w->rgba, (size_t)w->o.width * w->o.height * 4, 0, &w->err) >= 0;
}

static bool prepare(walk *w) {
    dit_context_desc context = {0};
    dit_model_desc model = {0};
    context.worker.run = lend_thread;
    model.source.path = w->o.model;
    if (dit_context_create(&context, &w->context, &w->err) < 0) return false;
    if (dit_model_load(w->context, &model, &w->model, &w->err) < 0) return false;
    dit_model_get_info(w->model, &w->info);
    if (!w->o.width) w->o.width = w->info.default_width;
    if (!w->o.height) w->o.height = w->info.default_height;
    w->values =
        (size_t)w->info.latent_channels * (w->o.width / w->info.latent_factor) * (w->o.height / w->info.latent_factor);
    w->ends[0] = (float *)malloc(w->values * sizeof(float));
    w->ends[1] = (float *)malloc(w->values * sizeof(float));
    w->noise = (float *)malloc(w->values * sizeof(float));
    w->rgba = (unsigned char *)malloc((size_t)w->o.width * w->o.height * 4);
    if (!w->ends[0] || !w->ends[1] || !w->noise || !w->rgba) {
        w->err.result = DIT_ERROR_OUT_OF_HOST_MEMORY;
        snprintf(w->err.message, sizeof w->err.message, "not enough memory for %u x %u", w->o.width, w->o.height);
        return false;
    }
    draw_noise(w);
    return encode_prompts(w);
}

/* Makes all frames; every output gets each as soon as it is there. EXIT_OUTPUT: one of them failed. */
static int make_clip(walk *w) {
    uint32_t frame, i, open = 0;
    int code = EXIT_GOOD;
    for (; open < w->o.output_count && !code; open++)
        if (!clip_open(&w->clips[open], w->o.outputs[open], w->o.width, w->o.height, w->o.frames, w->o.fps, NULL, NULL))
            code = EXIT_OUTPUT;
    for (frame = 0; frame < w->o.frames && !code; frame++) {
        if (!make_frame(w, frame)) code = exit_code_of(w->err.result);
        for (i = 0; i < open && !code; i++)
            if (!clip_put(&w->clips[i], w->rgba)) code = EXIT_OUTPUT;
        if (!code) fprintf(stderr, "\rframe %u of %u", frame + 1, w->o.frames);
    }
    fputc('\n', stderr);
    for (i = 0; i < open; i++) {
        bool told = !code || w->clips[i].why[0]; /* else it ends because something else failed */
        bool good = clip_close(&w->clips[i]);
        if (good) fprintf(stderr, "%s\n", w->o.outputs[i]);
        if (!good && told) fprintf(stderr, "clip: -o %s: %s\n", w->o.outputs[i], w->clips[i].why);
        if (!good && !code) code = EXIT_OUTPUT;
    }
    return code;
}

int main(int argc, char **argv) {
    static walk w;
    uint32_t i;
    int code = take_options(&w.o, argc, argv);
    if (!code) code = check_outputs(&w.o);
    if (code) return code;
    end_cleanly_by_signals();
    code = prepare(&w) ? make_clip(&w) : exit_code_of(w.err.result);
    if (w.err.result < 0) fprintf(stderr, "clip: %s\n", w.err.message);
    dit_job_destroy(w.job);
    dit_model_destroy(w.model);
    dit_context_destroy(w.context);
    for (i = 0; i < w.o.prompt_count; i++) free(w.blobs[i]);
    free(w.negative);
    free(w.mixed);
    free(w.rgba);
    free(w.ends[0]);
    free(w.ends[1]);
    free(w.noise);
    return code;
}
