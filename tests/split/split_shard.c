/* Each device holds a part of every block's weights and receives the others' parts one block ahead (shard). The tests
   compare with one device, compare bytes with their closed form, and check what each device has to hold and which
   requests are refused. Weights that each device streams are tested, too.
   test-runs: lavapipe */
#include "library.h"
#include "model/pixart.c"
#include "split_job.h"
#include "split_ranks.h"
#include "vulkan_test.h"

#define CALL_TOLERANCE 1e-5 /* rows of products do not see each other; sums of attention may be in another order */

static const generated_model pixart = {"pixart5", "pixart", 3, 16, 5, 0, 0, false};

static maker at;

static bool open_context(uint32_t devices, const char *overrides) {
    close_maker(&at);
    return CHECK_MESSAGE(open_devices(&at, devices, overrides, 0) == DIT_OK, "%s", err.message);
}

/* shape NULL: the bundled model. */
static bool open_model(const generated_model *shape, dit_type type) {
    dit_model_desc desc = DITI_ZERO;
    desc.weights_by_need = true;
    desc.source.path = shape ? NULL : bundled;
    return CHECK_MESSAGE(load_denoiser(&at, shape, type, desc) == DIT_OK, "%s", err.message);
}

static dit_result run(const char *split, uint32_t steps, float interval, outcome *out) {
    asked a = {5, 3, 1, 0, 0, 0, 0, "euler", false, 0, NULL};
    a.steps = steps;
    a.last = interval;
    return run_asked(&at, &a, split, out);
}

/* Bytes of a block of PixArt that a step reads, in whole words as on the device: q, k, v and out of the self attention,
   q and out of the cross attention, D x D each (keys and values of the text are made before), and 2 matrices of 4 D x
   D. */
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
    static outcome one, plain, other;
    uint32_t i;
    snprintf(sharded, sizeof sharded, "%s,shard", split);
    CHECK_MESSAGE(run(sharded, 1, 0, &other) == DIT_OK, "%s: %s", sharded, err.message);
    CHECK_MESSAGE(run(split, 1, 0, &plain) == DIT_OK, "%s: %s", split, err.message);
    if (alone) CHECK_MESSAGE(run(NULL, 1, 0, &one) == DIT_OK, "alone: %s", err.message);
    all = plain.weights[1]; /* the weights of each device in the plain split: all */
    printf("%s: relative L2 %.2g, %llu bytes, %llu without shard\n", sharded, difference(&other, alone ? &one : &plain),
           (unsigned long long)other.sent, (unsigned long long)plain.sent);
    CHECK(difference(&other, alone ? &one : &plain) <= CALL_TOLERANCE);
    CHECK(other.count && other.count == plain.count && !memcmp(other.latent, plain.latent, sizeof plain.latent));
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
}

/* Other families: what is sent beside the closed form of one. */
static void check_family(const generated_model *shape) {
    static outcome one, other;
    if (open_model(shape, DIT_TYPE_STORED)) {
        CHECK_MESSAGE(run("ulysses2,ring2,shard", 2, 0, &other) == DIT_OK, "%s: %s", shape->name, err.message);
        CHECK_MESSAGE(run(NULL, 2, 0, &one) == DIT_OK, "alone: %s", err.message);
        printf("%s: relative L2 %.2g, %llu bytes\n", shape->name, difference(&other, &one),
               (unsigned long long)other.sent);
        CHECK(difference(&other, &one) <= 2 * CALL_TOLERANCE && other.planned == other.sent);
    }
    close_model(&at);
}

static void check_refusals(void) {
    static const char *const bad[] = {"tensor2,shard", "layers2,shard", "pipefusion2,shard", "cfg2,shard"};
    static outcome out;
    uint32_t i;
    for (i = 0; i < DITI_COUNT(bad); i++) {
        CHECK_MESSAGE(run(bad[i], 2, i == 3 ? 0.5f : 0, &out) == DIT_ERROR_INVALID_ARGUMENT, "%s", bad[i]);
        CHECK_MESSAGE(strstr(err.message, "shard ") && !strchr(err.message, '\n'), "%s", err.message);
    }
}

/* ---- streamed weights ---- */

/* The least budget that a model can be loaded with, which its refusal names. */
static uint64_t least_budget(const generated_model *shape, dit_type type) {
    dit_model_desc desc = DITI_ZERO;
    maker other = DITI_ZERO;
    const char *number = NULL;
    other.context = at.context;
    desc.weight_budget = 1;
    if (CHECK(load_denoiser(&other, shape, type, desc) == DIT_ERROR_INVALID_ARGUMENT))
        number = strstr(err.message, "needs at least ");
    close_model(&other);
    return CHECK_MESSAGE(number, "%s", err.message) ? strtoull(number + strlen("needs at least "), NULL, 10) : 0;
}

static dit_result run_maker(const maker *m, const char *split, outcome *out, bool *streams) {
    asked a = {5, 3, 1, 2, 0, 0, 0, "euler", false, 0, NULL};
    dit_job *job = NULL;
    dit_result result = make_asked(m, &a, split, &job);
    dit_counters counters;
    uint64_t all = 0;
    uint32_t i;
    memset(out, 0, sizeof *out);
    *streams = result == DIT_OK;
    if (result == DIT_OK) result = wait_for(job, 120);
    for (i = 0; i < (job ? job->share_count : 0); i++) {
        uint64_t streamed = job->shares[i]->program.plan->counters.streamed_bytes;
        *streams = *streams && streamed > 0;
        all += streamed;
    }
    dit_job_get_counters(job, &counters);
    CHECK_MESSAGE(counters.streamed_bytes == all, "%llu bytes were streamed, and %llu are counted",
                  (unsigned long long)all, (unsigned long long)counters.streamed_bytes);
    if (result == DIT_OK) result = read_latent(job, 0, out);
    dit_job_destroy(job);
    return result;
}

/* Every device reads its own part through two slots of its own: the picture of the same split with resident weights to
   the byte, in all methods. part: of what can be streamed, how much stays. */
static void check_streamed(const generated_model *shape, dit_type type, double part, const char *const *splits) {
    maker resident = DITI_ZERO, streamed = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    static outcome one, other;
    uint64_t least = least_budget(shape, type), all;
    bool streams;
    resident.context = streamed.context = at.context;
    if (CHECK_MESSAGE(load_denoiser(&resident, shape, type, desc) == DIT_OK, "%s", err.message)) {
        all = resident.model->info.weight_bytes;
        desc.weight_budget = least + (uint64_t)((double)(all > least ? all - least : 0) * part);
        desc.keep_streamed = part > 0;
        CHECK_MESSAGE(load_denoiser(&streamed, shape, type, desc) == DIT_OK, "%s", err.message);
    }
    for (; streamed.model && *splits; splits++) {
        CHECK_MESSAGE(run_maker(&streamed, *splits, &other, &streams) == DIT_OK, "%s: %s", *splits, err.message);
        CHECK_MESSAGE(streams, "%s: a device streamed nothing", *splits);
        CHECK_MESSAGE(run_maker(&resident, *splits, &one, &streams) == DIT_OK, "%s: %s", *splits, err.message);
        printf("%s of %s: streamed, relative L2 %.2g to resident weights\n", *splits, shape->name,
               difference(&other, &one));
        CHECK_MESSAGE(one.count && one.count == other.count && !memcmp(one.latent, other.latent, sizeof one.latent),
                      "%s", *splits);
    }
    close_model(&streamed);
    close_model(&resident);
}

static void test_streamed(bool all) {
    static const generated_model even = {"pixart4", "pixart", 4, 32, 4, 0, 0, false},
                                 joint = {"flux4", "flux", 4, 32, 1, 2, 0, true};
    static const char *const few[] = {"ulysses2", "ring2", "tensor2", "layers2", "pipefusion2", "ring2,shard", NULL};
    static const char *const many[] = {"cfg2", "tensor1x2", "cfg2,tensor2", "tensor2x2", "cfg2,pipefusion2:m3w1",
                                       "auto", NULL};
    static const char *const joints[] = {"ulysses2", "tensor2", "tensor2x2", "pipefusion2", NULL};
    check_streamed(&even, DIT_TYPE_STORED, 0, few);
    if (!all) return;
    check_streamed(&even, DIT_TYPE_STORED, 0.4, many);
    check_streamed(&even, DIT_TYPE_I8_ROW, 0, few);
    check_streamed(&even, DIT_TYPE_I8_ROW, 0.4, many);
    check_streamed(&joint, DIT_TYPE_STORED, 0, joints);
}

/* ---- streamed weights that the host keeps ---- */

static long reads; /* of the transformer's files */

static int64_t counted_read(uint64_t offset, void *out, size_t size, void *user) {
    reads++;
    memcpy(out, (const unsigned char *)user + offset, size);
    return (int64_t)size;
}

static dit_result counted_open(const char *member, dit_source *out, void *user) {
    dit_result result = folder_open(member, out, user);
    out->user = (void *)(uintptr_t)out->data;
    out->data = NULL;
    out->read_at = counted_read;
    return result;
}

static bool load_kept(maker *m, const generated_model *shape, dit_type type, uint64_t budget) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    dit_model_desc desc = DITI_ZERO;
    rule.type = type;
    generated_make(&m->files, shape);
    m->generated = true;
    m->files.components[0].source.open = counted_open;
    desc.components = m->files.components;
    desc.component_count = m->files.component_count;
    desc.types = type ? &rule : NULL;
    desc.type_count = type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.weight_budget = budget;
    desc.keep_streamed = true;
    return CHECK_MESSAGE(dit_model_load(m->context, &desc, &m->model, &err) == DIT_OK, "%s", err.message);
}

/* Makes a picture with the ranks' jobs, each of one context. */
static bool finish_ranks(dit_job *const *jobs, uint32_t ranks) {
    dit_result results[2] = {DIT_WORKING, DIT_WORKING};
    uint64_t begin = diti_clock_us();
    uint32_t i, left = ranks;
    while (left && diti_clock_us() - begin < 60000000)
        for (i = left = 0; i < ranks; i++) {
            if (results[i] == DIT_WORKING) results[i] = dit_job_wait(jobs[i], 1000000);
            left += results[i] == DIT_WORKING;
        }
    for (i = 0; i < ranks; i++) {
        dit_job_status(jobs[i], NULL, &err);
        if (!CHECK_MESSAGE(results[i] == DIT_OK, "rank %u: %s", i, err.message)) return false;
    }
    return true;
}

/* Each device reads its own rows or columns of a matrix, wherever they begin, and nothing of them a second time. */
static void check_kept(maker *makers, uint32_t ranks, const char *split, const generated_model *shape, dit_type type) {
    asked a = {5, 3, 1, 2, 0, 0, 0, "euler", false, 0, NULL};
    dit_job *jobs[2] = {NULL, NULL};
    uint64_t budget = least_budget(shape, type);
    static outcome first, second;
    bool made = true;
    uint32_t i;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    for (i = 0; i < ranks && made; i++)
        made = load_kept(&makers[i], shape, type, budget) &&
               CHECK_MESSAGE(make_asked(&makers[i], &a, split, &jobs[i]) == DIT_OK, "%s", err.message);
    reads = 0;
    made = made && finish_ranks(jobs, ranks);
    CHECK(!made || reads > 20);
    if (made) CHECK(read_latent(jobs[0], 0, &first) == DIT_OK);
    reads = 0;
    for (i = 0; i < ranks && made; i++) {
        generated_inputs inputs;
        dit_job_desc desc = request_asked(&makers[i], &a, split, &inputs);
        made = CHECK_MESSAGE(dit_job_restart(jobs[i], &desc, &err) == DIT_OK, "%s", err.message);
        generated_free_inputs(&inputs);
    }
    made = made && finish_ranks(jobs, ranks);
    CHECK_MESSAGE(reads == 0, "%s on %u ranks: %ld reads for a second picture", split, ranks, reads);
    if (made)
        CHECK(read_latent(jobs[0], 0, &second) == DIT_OK && first.count &&
              !memcmp(first.latent, second.latent, sizeof first.latent));
    for (i = 0; i < ranks; i++) {
        dit_job_destroy(jobs[i]);
        close_model(&makers[i]);
    }
}

static void test_kept(void) {
    static const generated_model even = {"pixart4", "pixart", 4, 32, 2, 0, 0, false};
    static uint32_t numbers[2] = {0, 1};
    maker ranks[2], devices = DITI_ZERO;
    uint32_t i;
    memset(ranks, 0, sizeof ranks);
    devices.context = at.context;
    check_kept(&devices, 1, "tensor2", &even, DIT_TYPE_STORED);
    for (i = 0; i < 2; i++) {
        dit_context_desc desc = DITI_ZERO;
        desc.devices = "llvmpipe";
        desc.overrides = "rung=base,gflop_ns=100000000";
        desc.transport = rank_transport(&numbers[i], 2);
        CHECK_MESSAGE(dit_context_create(&desc, &ranks[i].context, &err) == DIT_OK, "%s", err.message);
    }
    if (ranks[0].context && ranks[1].context) check_kept(ranks, 2, "tensor2", &even, DIT_TYPE_STORED);
    if (ranks[0].context && ranks[1].context) check_kept(ranks, 2, "tensor2", &even, DIT_TYPE_I8_ROW);
    for (i = 0; i < 2; i++) close_maker(&ranks[i]);
    memset(letters, 0, sizeof letters);
}

/* In one context: most of the time of small models goes into making it. */
static void test_few(bool all) {
    if (!open_context(3, "rung=base")) return;
    if (open_model(&pixart, DIT_TYPE_STORED)) {
        check_split("ring3", 3, DIT_TYPE_F32, all);
        check_refusals();
    }
    close_model(&at);
    if (open_model(NULL, DIT_TYPE_STORED)) check_split("ulysses2", 2, DIT_TYPE_Q8_0, true);
    close_model(&at);
    test_streamed(false);
    test_kept();
}

static void test_many(void) {
    static const generated_model families[] = {{"sd3-4", "sd3", 4, 16, 5, 0, 1, true},
                                               {"flux4", "flux", 4, 16, 2, 3, 0, true},
                                               {"hunyuan4", "hunyuandit", 4, 16, 6, 0, 0, false}};
    size_t i;
    if (!open_context(4, "rung=base,mapped=0,staging=8K")) return;
    if (open_model(&pixart, DIT_TYPE_I8_ROW)) check_split("cfg2,ulysses2", 4, DIT_TYPE_I8_ROW, true);
    close_model(&at);
    for (i = 0; i < DITI_COUNT(families); i++) check_family(&families[i]);
    test_streamed(true);
    if (open_context(4, "rung=base")) test_streamed(true);
}

int main(void) {
    bool all = whole_sweep();
    test_vulkan_begin();
    test_few(all);
    if (all) test_many();
    close_maker(&at);
    test_vulkan_end();
    return TEST_END("split_shard");
}
