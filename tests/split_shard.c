/* Weights of blocks that devices have but a part of, with the others' coming one block ahead: against one device, what
   is sent against its closed form, what each device has to hold, what this does not go with.
   test-runs: lavapipe */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "generated_model.h"
#include "vulkan_test.h"

#define BUNDLED "models/emoji-q8_0.gguf"
#define CALL_TOLERANCE 1e-5 /* rows of products do not see each other; sums of attention may be in another order */

static dit_error err;
static const generated_model pixart = {"pixart5", "pixart", 3, 16, 5, 0, 0, false};

static struct {
    dit_context *context;
    dit_model *model;
    generated_files files;
    bool generated;
} at;

static void close_model(void) {
    dit_model_destroy(at.model);
    if (at.generated) generated_free(&at.files);
    at.generated = false;
    at.model = NULL;
}

static bool open_context(uint32_t devices, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    char names[256] = "";
    uint32_t i;
    dit_context_destroy(at.context);
    for (i = 0; i < devices; i++) strcat(names, i ? ",llvmpipe" : "llvmpipe");
    desc.devices = names;
    desc.overrides = overrides;
    return CHECK_MESSAGE(dit_context_create(&desc, &at.context, &err) == DIT_OK, "%s", err.message);
}

/* shape NULL: the bundled model. */
static bool open_model(const generated_model *shape, dit_type type) {
    dit_type_rule rule = {"transformer.*blocks.*", type};
    dit_model_desc desc = DITI_ZERO;
    desc.types = type ? &rule : NULL;
    desc.type_count = type ? 1 : 0;
    desc.weights_by_need = true;
    desc.source.path = shape ? NULL : BUNDLED;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    if (shape) {
        generated_make(&at.files, shape);
        at.generated = true;
        desc.components = at.files.components;
        desc.component_count = at.files.component_count;
    }
    return CHECK_MESSAGE(dit_model_load(at.context, &desc, &at.model, &err) == DIT_OK, "%s", err.message);
}

enum { COLUMNS = 5, ROWS = 3 };

typedef struct outcome {
    float *latent;
    size_t count;
    uint64_t planned, sent;                                                            /* bytes */
    uint64_t step[DITI_MAX_DEVICES], weights[DITI_MAX_DEVICES], own[DITI_MAX_DEVICES]; /* of each device */
} outcome;

static void tell(const dit_job *job, outcome *out) {
    uint64_t bytes, runs;
    uint32_t i, segment;
    size_t k;
    for (i = 0; i < job->share_count; i++) {
        const dit_job *share = job->shares[i];
        const diti_plan *plan = share->plan;
        out->weights[i] = diti_replicas_bytes(at.model->transformer->weights.replicas, share->device);
        out->step[i] = diti_plan_exchange_bytes(plan, share->step_segment, UINT32_MAX);
        for (k = 0; k < plan->block_count; k++) out->own[i] += plan->blocks[k].size;
        for (segment = 0; segment < plan->segment_count; segment++) {
            bytes = diti_plan_exchange_bytes(plan, segment, UINT32_MAX);
            runs = diti_job_runs(share, segment, UINT32_MAX);
            out->planned += runs * bytes;
        }
    }
}

static dit_result run(const char *split, uint32_t steps, float interval, outcome *out) {
    generated_inputs inputs;
    dit_job_desc desc = DITI_ZERO;
    dit_counters counters;
    dit_job *job = NULL;
    dit_result result;
    bool guided = at.model->transformer->traits.default_guidance != 1.0f;
    memset(out, 0, sizeof *out);
    memset(&inputs, 0, sizeof inputs);
    generated_texts(&inputs, at.model, GENERATED_TOKENS2, guided);
    desc.model = at.model;
    desc.inputs = inputs.list;
    desc.input_count = inputs.count;
    desc.width = COLUMNS * at.model->info.size_multiple;
    desc.height = ROWS * at.model->info.size_multiple;
    desc.steps = steps;
    desc.seed = 5;
    desc.sampler = "euler";
    desc.guidance.scale = guided ? 3 : 0;
    desc.guidance.last = interval;
    desc.split = split;
    result = dit_job_create(at.context, &desc, &job, &err);
    if (result == DIT_OK) {
        tell(job, out);
        result = dit_job_wait(job, 120000000000u);
        if (result < 0) dit_job_status(job, NULL, &err);
    }
    if (result == DIT_OK) {
        out->count = diti_job_latent_values(job);
        out->latent = (float *)calloc(out->count, sizeof *out->latent);
        result = dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, out->latent, out->count * sizeof *out->latent, 0, &err);
        dit_job_get_counters(job, &counters);
        out->sent = counters.peer_bytes;
    }
    dit_job_destroy(job);
    generated_free_inputs(&inputs);
    return result;
}

static double difference(const outcome *a, const outcome *b) {
    double error = 0, norm = 0;
    size_t i;
    for (i = 0; i < b->count && a->latent; i++) {
        error += ((double)a->latent[i] - b->latent[i]) * ((double)a->latent[i] - b->latent[i]);
        norm += (double)b->latent[i] * b->latent[i];
    }
    return a->count == b->count && a->latent && norm > 0 ? sqrt(error / norm) : INFINITY;
}

/* Of a block of PixArt, as words on the device: what a step reads are 4 D x D matrices of two attentions (keys and
   values of the text are made before), and 2 of 4 D x D. */
static uint64_t block_bytes(dit_type type) {
    const diti_pixart *model = diti_pixart_of(at.model->transformer);
    uint64_t width = model->config.width, rows[7], bytes, sum = 0;
    uint32_t columns[7], i;
    for (i = 0; i < 7; i++) {
        rows[i] = i == 5 ? 4 * width : width;
        columns[i] = (uint32_t)(i == 6 ? 4 * width : width);
    }
    rows[0] = 3 * width; /* q, k, v; then out, and q and out of the cross attention */
    for (i = 0; i < 7; i++) {
        if (i == 4) continue;
        if (!diti_weight_bytes(type, rows[i], columns[i], &bytes)) return 0;
        sum += (bytes + 3) / 4 * 4;
    }
    return sum;
}

/* Sharded first: what the model's other jobs need would already be there. alone: one device, too, and not only the same
   split without shard, which has the same bytes. */
static void check_split(const char *split, uint32_t members, dit_type type, bool alone) {
    const uint32_t layers = at.model->transformer->traits.layers;
    uint64_t block = block_bytes(type), all;
    char sharded[64];
    outcome one, plain, other;
    uint32_t i;
    snprintf(sharded, sizeof sharded, "%s,shard", split);
    CHECK_MESSAGE(run(sharded, 1, 0, &other) == DIT_OK, "%s: %s", sharded, err.message);
    CHECK_MESSAGE(run(split, 1, 0, &plain) == DIT_OK, "%s: %s", split, err.message);
    if (alone)
        CHECK_MESSAGE(run(NULL, 1, 0, &one) == DIT_OK, "alone: %s", err.message);
    else
        memset(&one, 0, sizeof one);
    all = plain.weights[1]; /* of each device in the plain split: everything */
    printf("%s: relative L2 %.2g, %llu bytes, %llu without shard\n", sharded, difference(&other, alone ? &one : &plain),
           (unsigned long long)other.sent, (unsigned long long)plain.sent);
    CHECK(difference(&other, alone ? &one : &plain) <= CALL_TOLERANCE);
    CHECK(other.latent && plain.latent && !memcmp(other.latent, plain.latent, plain.count * sizeof *plain.latent));
    CHECK_MESSAGE(other.planned == other.sent, "%llu bytes were planned", (unsigned long long)other.planned);
    for (i = 0; i < members; i++) {
        uint64_t own = (layers + members - 1 - i) / members, away = (layers - own) * block;
        uint64_t more = other.step[i] - plain.step[i];
        CHECK_MESSAGE(more == own * (members - 1) * block, "device %u sends %llu bytes of weights in a step, not %llu",
                      i, (unsigned long long)more, (unsigned long long)(own * (members - 1) * block));
        printf("device %u of %u: %llu bytes of weights, %llu of all; %llu of tensors, %llu without shard\n", i, members,
               (unsigned long long)other.weights[i], (unsigned long long)all, (unsigned long long)other.own[i],
               (unsigned long long)plain.own[i]);
        CHECK(other.weights[i] + away <= all && other.weights[i] > own * block);
        CHECK_MESSAGE(other.own[i] <= plain.own[i] + 2 * block + 4096 * (members - 1), "more than two blocks of %llu",
                      (unsigned long long)block);
    }
    free(one.latent);
    free(plain.latent);
    free(other.latent);
}

/* Other families: what is sent beside the closed form of one. */
static void check_family(const generated_model *shape) {
    outcome one, other;
    if (open_model(shape, DIT_TYPE_STORED)) {
        CHECK_MESSAGE(run("ulysses2,ring2,shard", 2, 0, &other) == DIT_OK, "%s: %s", shape->name, err.message);
        CHECK_MESSAGE(run(NULL, 2, 0, &one) == DIT_OK, "alone: %s", err.message);
        printf("%s: relative L2 %.2g, %llu bytes\n", shape->name, difference(&other, &one),
               (unsigned long long)other.sent);
        CHECK(difference(&other, &one) <= 2 * CALL_TOLERANCE && other.planned == other.sent);
        free(one.latent);
        free(other.latent);
    }
    close_model();
}

static void check_refusals(void) {
    static const char *const bad[] = {"tensor2,shard", "layers2,shard", "pipefusion2,shard", "cfg2,shard"};
    outcome out;
    uint32_t i;
    for (i = 0; i < DITI_COUNT(bad); i++) {
        CHECK_MESSAGE(run(bad[i], 2, i == 3 ? 0.5f : 0, &out) == DIT_ERROR_INVALID_ARGUMENT, "%s", bad[i]);
        CHECK_MESSAGE(strstr(err.message, "shard ") && !strchr(err.message, '\n'), "%s", err.message);
        free(out.latent);
    }
}

/* In one context: most of the time of small models goes into making it. */
static void test_few(bool all) {
    if (!open_context(3, "rung=base")) return;
    if (open_model(&pixart, DIT_TYPE_STORED)) {
        check_split("ring3", 3, DIT_TYPE_F32, all);
        check_refusals();
    }
    close_model();
    if (open_model(NULL, DIT_TYPE_STORED)) check_split("ulysses2", 2, DIT_TYPE_Q8_0, true);
    close_model();
}

static void test_many(void) {
    static const generated_model families[] = {{"sd3-4", "sd3", 4, 16, 5, 0, 1, true},
                                               {"flux4", "flux", 4, 16, 2, 3, 0, true},
                                               {"hunyuan4", "hunyuandit", 4, 16, 6, 0, 0, false}};
    size_t i;
    if (!open_context(4, "rung=base,mapped=0,staging=8K")) return;
    if (open_model(&pixart, DIT_TYPE_I8_ROW)) check_split("cfg2,ulysses2", 4, DIT_TYPE_I8_ROW, true);
    close_model();
    for (i = 0; i < DITI_COUNT(families); i++) check_family(&families[i]);
}

int main(void) {
    const char *set = getenv("DIT_TEST_ALL");
    bool all = set && *set == '1';
    test_vulkan_begin();
    test_few(all);
    if (all) test_many();
    dit_context_destroy(at.context);
    test_vulkan_end();
    return TEST_END("split_shard");
}
