/* Tests of split jobs have this in common: devices and models, requests, and what a run planned, sent and made. Nothing
   here counts as a check but the checks of generated_model.h.

   Include it after the library: library.h, or dit.h's implementation. */
#ifndef SPLIT_JOB_H
#define SPLIT_JOB_H
#include "generated_model.h"
#include "mesh_run.h"

static dit_error err;
static const char tiny[] = "tests/fixtures/pipe_pixart_sigma", bundled[] = "models/emoji-q8_0.gguf";

/* The sweeps of make test-all. */
static inline bool whole_sweep(void) {
    const char *all = getenv("DIT_TEST_ALL");
    return all && *all == '1';
}

/* The ways in which other programs test kernels would take hours here and show nothing about splits. */
static inline bool is_usual_way(void) {
    const char *layers = getenv("DIT_TEST_LAYERS"), *width = getenv("LP_NATIVE_VECTOR_WIDTH");
    return !(layers && !strcmp(layers, "full")) && !(width && strcmp(width, "256"));
}

/* ---- models on devices ---- */

typedef struct maker {
    dit_context *context;
    dit_model *model;
    dit_job *job;
    generated_files files; /* of the model, where it is generated */
    bool generated;
    bytes decoder; /* of a fixture that has none */
} maker;

/* limit: of each device's memory; 0: none. */
static inline dit_result open_devices(maker *m, uint32_t count, const char *overrides, VkDeviceSize limit) {
    static const char *const names[] = {"llvmpipe", "0"}; /* lavapipe, or where it is not there the first device */
    char list[DITI_MAX_DEVICES * sizeof ",llvmpipe"];
    dit_context_desc desc = DITI_ZERO;
    dit_result result = DIT_OK;
    uint32_t i, name;
    for (name = 0; name < 2 && !m->context; name++) {
        list[0] = 0;
        for (i = 0; i < count; i++) strcat(strcat(list, i ? "," : ""), names[name]);
        desc.devices = list;
        desc.overrides = overrides;
        desc.device_memory_limit = limit;
        result = dit_context_create(&desc, &m->context, &err);
        if (result < 0 && !strstr(err.message, "llvmpipe")) break;
    }
    return result;
}

/* All of a pipeline. */
static inline dit_result load_pipeline(maker *m, const char *path) {
    dit_model_desc desc = DITI_ZERO;
    desc.source.path = path;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

/* Loads a transformer and an autoencoder without text encoders, for jobs that are given their texts: a generated model
   or, where shape is NULL, the model of desc. type: that of linear layers; DIT_TYPE_STORED: as the file has them. */
static inline dit_result load_denoiser(maker *m, const generated_model *shape, dit_type type, dit_model_desc desc) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    rule.type = type;
    desc.types = type ? &rule : NULL;
    desc.type_count = type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    if (shape) {
        generated_make(&m->files, shape);
        m->generated = true;
        desc.components = m->files.components;
        desc.component_count = m->files.component_count;
    }
    return dit_model_load(m->context, &desc, &m->model, &err);
}

/* Shortens the texts of a model without encoders, as a tokenizer of so many tokens would. */
static inline void shorten_texts(dit_model *model) {
    if (model->fixed_text && !diti_encoders_mask(model)) model->texts[DITI_TEXT_FIRST].tokens = GENERATED_TOKENS2;
}

static inline void close_model(maker *m) {
    dit_job_destroy(m->job);
    dit_model_destroy(m->model);
    if (m->generated) generated_free(&m->files);
    bytes_free(&m->decoder);
    memset(&m->decoder, 0, sizeof m->decoder);
    m->job = NULL;
    m->model = NULL;
    m->generated = false;
}

static inline void close_maker(maker *m) {
    close_model(m);
    dit_context_destroy(m->context);
    m->context = NULL;
}

/* ---- requests ---- */

/* Sets speeds and links as if they had been measured. */
static inline void pretend(maker *m, double rate, double bandwidth) {
    diti_split_links *links = &m->context->peers->links;
    uint32_t i;
    for (i = 0; i < m->context->device_count; i++)
        m->context->devices[i]->speed.us_per_gflop = m->context->devices[i]->speed.us_per_gigabyte =
            (float)(1e15 / rate);
    links->count = m->context->device_count;
    links->inside.pair = links->inside.ring = links->inside.all_to_all = bandwidth;
    links->across = links->inside;
    links->latency = 1e-6;
}

static inline dit_job_desc request(const maker *m, const char *split, uint32_t side, uint32_t steps) {
    dit_job_desc desc = DITI_ZERO;
    desc.model = m->model;
    desc.prompt = "red apple";
    desc.negative_prompt = "blue";
    desc.width = desc.height = side;
    desc.steps = steps;
    desc.seed = 42;
    desc.guidance.scale = 3;
    desc.split = split;
    return desc;
}

/* Makes a job in place of the one that m had. */
static inline dit_result make_job(maker *m, const dit_job_desc *desc) {
    dit_job_destroy(m->job);
    m->job = NULL;
    return dit_job_create(m->context, desc, &m->job, &err);
}

typedef struct asked {                              /* the differences between requests with made-up texts or classes */
    uint32_t columns, rows, images, steps, preview; /* columns, rows: of tokens */
    float first, last;                              /* of guidance */
    const char *sampler;
    bool resumes;
    uint32_t frames;         /* of a clip; 0: a picture */
    const dit_image *begins; /* the picture that a clip begins with; NULL: none */
} asked;

static inline dit_job_desc request_asked(const maker *m, const asked *a, const char *split, generated_inputs *inputs) {
    static const int32_t labels[2] = {3, 7};
    const diti_model_traits *traits = &m->model->transformer->traits;
    bool classes = traits->class_count > 0, guided = traits->default_guidance != 1.0f;
    dit_job_desc desc = DITI_ZERO;
    memset(inputs, 0, sizeof *inputs);
    if (!classes) generated_texts(inputs, m->model, GENERATED_TOKENS2, guided);
    desc.model = m->model;
    desc.inputs = inputs->list;
    desc.input_count = inputs->count;
    desc.class_labels = classes ? labels : NULL;
    desc.width = a->columns * m->model->info.size_multiple * (traits->pads_patches ? traits->patch : 1);
    desc.height = a->rows * m->model->info.size_multiple * (traits->pads_patches ? traits->patch : 1);
    desc.image_count = a->images;
    desc.steps = a->steps;
    desc.preview_interval = a->preview;
    desc.seed = 5;
    desc.sampler = a->sampler;
    desc.guidance.scale = guided ? 3 : 0;
    desc.guidance.first = guided ? a->first : 0;
    desc.guidance.last = guided ? a->last : 0;
    desc.resume_on_loss = a->resumes;
    desc.frame_count = a->frames;
    desc.float_frames = a->frames > 0;
    desc.init_image = a->begins;
    desc.split = split;
    return desc;
}

static inline dit_result make_asked(const maker *m, const asked *a, const char *split, dit_job **job) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(m, a, split, &inputs);
    dit_result result = dit_job_create(m->context, &desc, job, &err);
    generated_free_inputs(&inputs);
    return result;
}

/* Waits for a job; err then holds its message, if it failed. */
static inline dit_result wait_for(dit_job *job, uint32_t seconds) {
    dit_result result = dit_job_wait(job, seconds * 1000000000ull);
    dit_job_status(job, NULL, &err);
    return result;
}

/* ---- bytes ---- */

/* Bytes that a share sends to another one, or to all (UINT32_MAX), in all runs of segments [first, end). */
static inline uint64_t share_bytes(const diti_share *share, uint32_t first, uint32_t end, uint32_t to) {
    uint64_t bytes = 0;
    for (; first < end; first++)
        bytes += diti_share_runs(share, first, UINT32_MAX) * diti_plan_exchange_bytes(share->program.plan, first, to);
    return bytes;
}

/* Bytes that a run, or its steps alone, will send to other devices, summed before the run. Folded stages have two
   shares on one device, which send nothing to each other. */
static inline uint64_t planned_bytes(const dit_job *job, bool steps) {
    uint32_t i, to, first = steps ? job->shares[0]->program.step_segment : 0;
    uint32_t end = steps ? job->shares[0]->program.decode_segment : job->shares[0]->program.plan->segment_count;
    uint64_t bytes = 0;
    for (i = 0; i < job->share_count; i++) {
        bytes += share_bytes(job->shares[i], first, end, UINT32_MAX);
        for (to = 0; to < job->share_count; to++)
            if (to != i && job->device_of_share[i] == job->device_of_share[to])
                bytes -= share_bytes(job->shares[i], first, end, to);
    }
    return bytes;
}

static inline uint64_t sent_bytes(const dit_job *job) {
    dit_counters counters;
    dit_job_get_counters(job, &counters);
    return counters.peer_bytes;
}

/* ---- outcomes ---- */

enum { MOST_LATENTS = 2 * 16 * 32 * 32, MOST_COLORS = 3 * 256 * 256 };

typedef struct outcome {
    float latent[MOST_LATENTS], picture[MOST_COLORS]; /* all images; one image */
    size_t count, pixels;
    uint64_t planned, sent, in_steps, in_step; /* bytes between devices; in_steps, in_step: planned for all, for one */
    uint64_t step[DITI_MAX_DEVICES], weights[DITI_MAX_DEVICES], own[DITI_MAX_DEVICES]; /* bytes of each device: what it
                                                            sends in a step, copies of weights, what its plan keeps */
} outcome;

/* Whether an outcome can hold all latents and the picture. */
static inline bool fits_outcome(const dit_job *job) {
    const diti_job_shape *shape = &job->request.shape;
    return diti_job_latent_values(job) <= MOST_LATENTS &&
           3 * (size_t)shape->width * shape->height * shape->frames <= MOST_COLORS;
}

/* An image's latent, behind those that were read before. */
static inline dit_result read_latent(dit_job *job, uint32_t image, outcome *out) {
    size_t count = diti_job_latent_values(job) / job->request.shape.image_count;
    float *latent = out->latent + out->count;
    out->count += count;
    if (out->count > MOST_LATENTS) return diti_fail(&err, DIT_ERROR_INVALID_ARGUMENT, "more than MOST_LATENTS");
    return dit_job_read(job, DIT_READ_LATENT_F32, image, 0, latent, count * sizeof *latent, 0, &err);
}

/* The first one's colors, of clips those of all frames. */
static inline dit_result read_picture(dit_job *job, outcome *out) {
    out->pixels = 3 * (size_t)job->request.shape.width * job->request.shape.height * job->request.shape.frames;
    if (out->pixels > MOST_COLORS) return diti_fail(&err, DIT_ERROR_INVALID_ARGUMENT, "more than MOST_COLORS");
    return dit_job_read(job, DIT_READ_RGB_F32, 0, job->request.shape.clip ? DIT_ALL_FRAMES : 0, out->picture,
                        out->pixels * sizeof(float), 0, &err);
}

static inline void tell_devices(const dit_job *job, outcome *out) {
    uint32_t i;
    size_t k;
    for (i = 0; i < job->share_count; i++) {
        const diti_share *share = job->shares[i];
        out->weights[i] = diti_replicas_bytes(job->model->transformer->component.weights.replicas, share->device);
        out->in_step += out->step[i] =
            diti_plan_exchange_bytes(share->program.plan, share->program.step_segment, UINT32_MAX);
        for (k = 0; k < share->program.plan->block_count; k++) out->own[i] += share->program.plan->blocks[k].size;
    }
}

/* One picture: its latent, or the error in err. */
static inline dit_result run_asked(const maker *m, const asked *a, const char *split, outcome *out) {
    dit_job *job = NULL;
    dit_result result = make_asked(m, a, split, &job);
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) {
        tell_devices(job, out);
        out->planned = planned_bytes(job, false);
        result = wait_for(job, 120);
    }
    if (result == DIT_OK) {
        out->sent = sent_bytes(job);
        result = read_latent(job, 0, out);
    }
    dit_job_destroy(job);
    return result;
}

/* Relative L2: to b, or to how far b is from where both began. */
static inline double relative_l2(const float *a, const float *b, const float *start, size_t count) {
    double error = 0, norm = 0, way;
    size_t i;
    for (i = 0; i < count; i++) {
        way = start ? (double)b[i] - start[i] : b[i];
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += way * way;
    }
    return norm > 0 ? sqrt(error / norm) : INFINITY;
}

static inline double difference(const outcome *a, const outcome *b) {
    return a->count == b->count ? relative_l2(a->latent, b->latent, NULL, b->count) : INFINITY;
}

static inline double picture_difference(const outcome *a, const outcome *b) {
    return a->pixels == b->pixels ? relative_l2(a->picture, b->picture, NULL, b->pixels) : INFINITY;
}
#endif
