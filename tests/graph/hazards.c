/* Every plan orders its work as the work needs (hazards.h): plans of all models at their published sizes and of small
 * models whole, under every kind of split, with streamed weights, cut into many slices and into few. No device is
 * needed: the plans are those of imaginary ones.
 *    test-runs: plain */
#include "library.h"
#include "generated_model.h"
#include "hazards.h"

static uint64_t plans, dispatches, slices, exchanges, batches, pairs;
static dit_error err;

/* ---- imaginary devices ---- */

typedef struct imaginary {
    const char *name;
    diti_rung rung;
    bool cpu;
    uint64_t alignment, storage_range;
    uint32_t cores, max_slice_us;
} imaginary;

static const imaginary gpus[] = {
    {"a GPU", DITI_RUNG_FP16, false, 256, 0xffffffffu, 0, 50000},
    {"a GPU of small slices", DITI_RUNG_FP16, false, 16, 1u << 30, 64, 1000},
    {"a processor", DITI_RUNG_BASE, true, 64, 0xffffffffu, 0, 50000},
};

static void make_device(const imaginary *like, const diti_env *env, diti_device *out) {
    memset(out, 0, sizeof *out);
    diti_identity nobody = DITI_ZERO;
    out->env = *env;
    out->portions = diti_portions_of(&nobody, UINT64_MAX);
    out->rung = like->rung;
    out->is_cpu = like->cpu;
    out->has_fp16 = like->rung >= DITI_RUNG_FP16;
    out->limits.storage_range = like->storage_range;
    out->limits.allocation = (VkDeviceSize)1 << 40;
    out->limits.band = (VkDeviceSize)1 << 30;
    out->limits.storage_alignment = like->alignment;
    out->limits.group_count = 65535;
    out->limits.group_invocations = 1024;
    out->limits.shared_bytes = 32768;
    out->limits.subgroup_size = like->cpu ? 8 : 32;
    out->limits.cores = like->cores;
    out->speed.launch_us = 5;
    out->speed.us_per_gflop = 10;
    out->speed.us_per_gigabyte = 200;
    out->max_slice_us = like->max_slice_us;
}

/* ---- from a request to checked plans ---- */

/* Plans a graph as diti_plan_create does, without all that belongs to a device, and checks the plan. */
static void check_graph(diti_graph *graph, const char *name) {
    diti_plan plan = DITI_ZERO;
    dit_result result;
    size_t i;
    if (!CHECK_MESSAGE(!diti_graph_failed(graph), "%s: %s", name, graph->error.message)) return;
    plan.device = graph->device;
    for (i = 1; i < graph->tensor_count; i++) { /* a stream of the plan's device, which has no memory to make one of */
        const diti_weight_part *part = graph->tensors[i].part;
        if (part && part->streamed && part->streamed->stream) part->streamed->stream->device = graph->device;
    }
    result = diti_plan_assign_memory(graph, &plan, &err);
    for (i = 0; i < plan.block_count; i++) plan.blocks[i].buffer.buffer = (VkBuffer)(uintptr_t)(i + 1);
    plan.tensors = graph->tensors;
    plan.tensor_count = graph->tensor_count;
    plan.sources = graph->dispatches;
    plan.source_count = graph->dispatch_count;
    plan.guards = graph->guards;
    plan.exchanges = graph->exchanges;
    plan.exchange_count = graph->exchange_count;
    plan.events = graph->events;
    plan.event_count = graph->event_count;
    if (result >= 0) result = diti_plan_make_slices(&plan, graph, &err);
    if (CHECK_MESSAGE(result == DIT_OK, "%s: %s", name, err.message)) {
        pairs += hazard_check_plan(&plan, name);
        plans++;
        dispatches += plan.dispatch_count;
        slices += plan.slice_count;
        exchanges += plan.exchange_count;
        batches += plan.streaming.batch_count;
    }
    diti_free(&plan.device->env, plan.blocks);
    diti_free(&plan.device->env, plan.dispatches);
    diti_free(&plan.device->env, plan.slices);
    diti_free(&plan.device->env, plan.source_us);
    diti_free(&plan.device->env, plan.source_cut_us);
    diti_free(&plan.device->env, plan.source_measured);
    diti_free(&plan.device->env, plan.source_minimum);
    diti_free(&plan.device->env, plan.streaming.items);
    diti_free(&plan.device->env, plan.streaming.batches);
    diti_free(&plan.device->env, plan.source_batches);
}

/* Devices in one process, as many as any split needs, that have never been measured. */
typedef struct machine {
    dit_context context;
    diti_peers peers;
    diti_device device;
} machine;

static void make_machine(const imaginary *like, const diti_env *env, machine *out) {
    uint32_t i;
    memset(out, 0, sizeof *out);
    make_device(like, env, &out->device);
    out->context.env = *env;
    out->context.device = &out->device;
    out->context.device_count = out->peers.all = out->peers.count = DITI_MAX_DEVICES;
    for (i = 0; i < DITI_MAX_DEVICES; i++) out->context.devices[i] = &out->device;
    out->context.peers = &out->peers;
}

/* The plans of all shares of a job. */
static void check_job(const imaginary *like, const dit_job_desc *desc, const char *name) {
    const diti_env *env = &desc->model->env;
    static machine m;
    static dit_job job;
    diti_share *share;
    dit_result result;
    uint32_t i, total;
    char title[200];
    memset(&job, 0, sizeof job);
    make_machine(like, env, &m);
    job.env = *env;
    job.model = desc->model;
    job.context = &m.context;
    result = diti_job_request_make(desc->model, env, desc, NULL, &job.request, &err);
    if (result >= 0) result = diti_job_divide(&job, desc->split ? &m.context : NULL, &err);
    if (!CHECK_MESSAGE(result == DIT_OK, "%s on %s: %s", name, like->name, err.message)) {
        diti_job_request_free(env, &job.request);
        diti_free(env, job.shares[0]);
        return;
    }
    share = job.shares[0];
    total = share->assignment.share_total;
    for (i = 0; i < total; i++) {
        diti_graph graph;
        diti_assign(&job.request.shape, share->assignment.folded, i, total, &share->assignment);
        memset(&share->program.text, 0, sizeof share->program.text);
        memset(&share->program.step, 0, sizeof share->program.step);
        diti_graph_init(&graph, &m.device);
        diti_share_emit(share, &graph);
        snprintf(title, sizeof title, "%s on %s, share %u of %u", name, like->name, i, total);
        check_graph(&graph, title);
        diti_graph_free(&graph);
        diti_free(env, share->program.step.family);
    }
    diti_free(env, share);
    diti_job_request_free(env, &job.request);
}

static void check_model(const dit_model *model, dit_job_desc desc, const char *name) {
    size_t i;
    desc.model = model;
    for (i = 0; i < DITI_COUNT(gpus); i++) check_job(&gpus[i], &desc, name);
}

/* ---- published sizes ---- */

typedef struct published {
    const char *name;
    struct {
        dit_role role;
        void (*make)(real_file *file);
    } parts[5]; /* the transformer first */
    const char *split;
} published;

static const published models[] = {
    {"DiT-XL/2", {{DIT_ROLE_TRANSFORMER, published_dit_xl_2}, {DIT_ROLE_VAE, published_vae_sd}}, "cfg2"},
    {"PixArt-alpha",
     {{DIT_ROLE_TRANSFORMER, published_pixart_alpha},
      {DIT_ROLE_TEXT_1, published_t5_xxl},
      {DIT_ROLE_VAE, published_vae_sd}},
     "cfg2,ulysses2"},
    {"PixArt-Sigma",
     {{DIT_ROLE_TRANSFORMER, published_pixart_sigma},
      {DIT_ROLE_TEXT_1, published_t5_xxl},
      {DIT_ROLE_VAE, published_vae_sd}},
     "ring2"},
    {"SD3-medium",
     {{DIT_ROLE_TRANSFORMER, published_sd3_medium},
      {DIT_ROLE_TEXT_1, published_clip_l},
      {DIT_ROLE_TEXT_2, published_clip_g},
      {DIT_ROLE_TEXT_3, published_t5_xxl},
      {DIT_ROLE_VAE, published_vae_16}},
     "layers2"},
    {"SD3.5-medium",
     {{DIT_ROLE_TRANSFORMER, published_sd35_medium},
      {DIT_ROLE_TEXT_1, published_clip_l},
      {DIT_ROLE_TEXT_2, published_clip_g},
      {DIT_ROLE_TEXT_3, published_t5_xxl},
      {DIT_ROLE_VAE, published_vae_16}},
     "ulysses2"},
    {"SD3.5-large",
     {{DIT_ROLE_TRANSFORMER, published_sd35_large},
      {DIT_ROLE_TEXT_1, published_clip_l},
      {DIT_ROLE_TEXT_2, published_clip_g},
      {DIT_ROLE_TEXT_3, published_t5_xxl},
      {DIT_ROLE_VAE, published_vae_16}},
     "tensor2"},
    {"FLUX.1-dev",
     {{DIT_ROLE_TRANSFORMER, published_flux_dev},
      {DIT_ROLE_TEXT_1, published_clip_l_bare},
      {DIT_ROLE_TEXT_2, published_t5_xxl},
      {DIT_ROLE_VAE, published_vae_16}},
     "ulysses2,shard"},
    {"HunyuanDiT",
     {{DIT_ROLE_TRANSFORMER, published_hunyuandit_v12},
      {DIT_ROLE_TEXT_1, published_bert_large},
      {DIT_ROLE_TEXT_2, published_mt5_xl},
      {DIT_ROLE_VAE, published_vae_sd}},
     "pipefusion2"},
};

static void check_published(const published *p) {
    real_file files[5] = {{0}};
    dit_component components[4] = DITI_ZERO;
    const int32_t label = 207;
    dit_model_desc source = {0};
    dit_job_desc desc = {0};
    dit_model *model = NULL;
    size_t i;
    for (i = 0; i < 5 && p->parts[i].make; i++) {
        files[i].type = DIT_TYPE_Q8_0;
        files[i].original = true;
        p->parts[i].make(&files[i]);
        if (i == 0) source.source = real_source(&files[i]);
        if (i == 0) continue;
        components[i - 1].source = real_source(&files[i]);
        components[i - 1].role = p->parts[i].role;
        source.component_count++;
    }
    source.components = components;
    source.dry_run = true;
    desc.class_labels = i == 2 ? &label : NULL;
    desc.steps = 3;
    for (i = 0; i < 2; i++) { /* with all weights on the device, and with few of them */
        if (i) source.weight_budget = (uint64_t)2 << 30;
        if (CHECK_MESSAGE(dit_model_load(NULL, &source, &model, &err) == DIT_OK, "%s: %s", p->name, err.message)) {
            check_model(model, desc, p->name);
            desc.split = i ? NULL : p->split;
            if (!i) check_model(model, desc, p->name);
            desc.split = NULL;
        }
        dit_model_destroy(model);
        model = NULL;
    }
    for (i = 0; i < 5; i++) real_free(&files[i]);
}

/* ---- small models, whole: encoders, start pictures, previews, every kind of split ---- */

static void test_small(const char *path, bool encodes) {
    static uint8_t rgba[256 * 256 * 4];
    dit_model_desc source = {0};
    dit_job_desc desc = {0};
    dit_image picture = {0};
    dit_model *model = NULL;
    size_t i, k;
    source.source.path = path;
    source.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &source, &model, &err) == DIT_OK, "%s: %s", path, err.message)) return;
    desc.prompt = encodes ? "a (red:1.3) fox" : NULL;
    desc.negative_prompt = encodes ? "blue" : NULL;
    desc.width = desc.height = 128;
    desc.guidance.scale = 3;
    desc.steps = 4;
    picture.rgba = rgba;
    picture.width = picture.height = 128;
    for (i = 0; i < 3; i++) { /* plain; previews of a batch, with guidance for some steps; from a picture with a mask */
        static const int32_t labels[2] = {1, 2};
        desc.model = model;
        desc.image_count = i == 1 ? 2 : 1;
        desc.class_labels = encodes ? NULL : labels;
        desc.preview_interval = i == 1;
        desc.guidance.first = i == 1 ? 0.2f : 0;
        desc.guidance.last = i == 1 ? 0.7f : 0;
        desc.sampler = i == 1 ? "dpm++2m" : NULL;
        desc.init_image = i == 2 ? &picture : NULL;
        desc.mask = i == 2 ? &picture : NULL;
        desc.vae_tile = i == 2 ? 64 : 0;
        for (k = 0; k < DITI_COUNT(gpus); k++) check_job(&gpus[k], &desc, path);
    }
    dit_model_destroy(model);
}

static const generated_model shapes[] = {
    {"pixart", "pixart", 24, 8, 8, 0, 0, false}, {"dit", "dit", 8, 16, 8, 0, 0, false},
    {"sd3", "sd3", 8, 16, 8, 0, 0, false},       {"sd35", "sd3", 24, 8, 8, 0, 3, true},
    {"flux", "flux", 24, 8, 3, 5, 0, true},      {"hunyuandit", "hunyuandit", 16, 8, 8, 0, 0, false},
};

static const char *const splits[] = {
    "ulysses2",           "ulysses3",         "ring2",        "ring3",        "tensor2",        "tensor3",
    "tensor2x2",          "layers2",          "layers3",      "layers2,int8", "pipefusion2:m4", "pipefusion4:m4w2",
    "ulysses2,int8",      "ring3,int8",       "tensor2,int8", "ring2,shard",  "ulysses2,shard", "ulysses2,ring2",
    "ulysses2,layers2",   "tensor2,ulysses2", "cfg2",         "cfg2,layers2", "cfg2,ulysses2",  "cfg2,pipefusion2",
    "cfg2,ulysses2,ring2"};

/* Residuals that are kept for later steps: written where a step computes, read where one reuses, and both ways recorded
   where the device decides. */
static const char *const caches[] = {
    "delta:first=1,blocks=6,from=2", "taylor:first=1,blocks=6,order=2,from=2,interval=3",
    "spectrum:first=1,blocks=6,warmup=3", "fbcache:threshold=0.2,front=1,back=1", "easycache:from=1,to=4"};

static void check_split(const generated_model *shape, const dit_model *model, const char *split, const char *cache) {
    static uint32_t made;
    static const int32_t label = 3;
    bool classes = model->transformer->traits.class_count > 0,
         guided = model->transformer->traits.default_guidance != 1.0f;
    generated_inputs inputs;
    dit_job_desc desc = {0};
    char name[160];
    if (!guided && split && !strncmp(split, "cfg", 3)) return;
    memset(&inputs, 0, sizeof inputs);
    if (!classes) generated_texts(&inputs, model, GENERATED_TOKENS2, guided);
    desc.model = model;
    desc.inputs = inputs.list;
    desc.input_count = inputs.count;
    desc.class_labels = classes ? &label : NULL;
    desc.width = desc.height = 8 * model->info.size_multiple;
    desc.steps = 5;
    desc.guidance.scale = guided ? 3 : 0;
    desc.split = split;
    desc.cache = cache;
    snprintf(name, sizeof name, "%s, %s, %s", shape->name, split ? split : "whole", cache ? cache : "no cache");
    check_job(&gpus[made++ % DITI_COUNT(gpus)], &desc, name);
    generated_free_inputs(&inputs);
}

static void test_splits(const generated_model *shape) {
    static const char *const cached[] = {NULL, "layers2", "ulysses2", "cfg2"};
    generated_files files;
    dit_model_desc source = {0};
    dit_model *model = NULL;
    size_t i, k;
    generated_make(&files, shape);
    source.components = files.components;
    source.component_count = files.component_count;
    source.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    source.dry_run = true;
    if (CHECK_MESSAGE(dit_model_load(NULL, &source, &model, &err) == DIT_OK, "%s: %s", shape->name, err.message)) {
        for (i = 0; i < DITI_COUNT(splits); i++) check_split(shape, model, splits[i], NULL);
        for (i = 0; i < DITI_COUNT(cached); i++)
            for (k = 0; k < DITI_COUNT(caches); k++) check_split(shape, model, cached[i], caches[k]);
    }
    dit_model_destroy(model);
    generated_free(&files);
}

int main(void) {
    size_t i;
    for (i = 0; i < DITI_COUNT(models); i++) check_published(&models[i]);
    test_small("models/emoji-q8_0.gguf", true);
    test_small("tests/fixtures/pipe_pixart_sigma", true);
    test_small("tests/fixtures/pipe_dit", false);
    for (i = 0; i < DITI_COUNT(shapes); i++) test_splits(&shapes[i]);
    printf("%llu plans of %llu dispatches in %llu slices, %llu exchanges and %llu batches of streamed weights; "
           "%llu pairs of uses compared\n",
           (unsigned long long)plans, (unsigned long long)dispatches, (unsigned long long)slices,
           (unsigned long long)exchanges, (unsigned long long)batches, (unsigned long long)pairs);
    return TEST_END("hazards");
}
