/* Transformers of newer families whose activations go far beyond what fp16 holds: the fp16 rung raises exponents, runs
   again, and gives the latent of the base rung. The models are fixtures with scaled weights, each of which fits fp16:
   much larger ones in front, smaller ones behind, so that the numbers between them leave the range. tests/graph/guard.c
   does so with PixArt, in whole pipelines and splits. make test runs Z-Image and Sana; DIT_TEST_ALL=1 the others, too.
   test-runs: lavapipe, in test-all sanitize */
#include "library.h"
#include "edited_files.h"
#include "split/split_job.h"
#include "vulkan_test.h"

#define TRANSFORMER "transformer" /* whichever file has its weights */
#define UP 65536.0f               /* weights of up to 0.6 still fit fp16 */
#define DOWN (1.0f / 1024)        /* weights of 1e-4 still have all of their bits there */

static const edit none[] = {{NULL, NULL, 0, 0}};
static const edit zimage[] = {
    {TRANSFORMER, "attention.to_v", UP, 0},
    {TRANSFORMER, "attention.to_out.0", DOWN, 0},
    {TRANSFORMER, "feed_forward.w3", UP, 0},
    {TRANSFORMER, "feed_forward.w2", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit qwenimage[] = {
    {TRANSFORMER, "attn.to_v", UP, 0},
    {TRANSFORMER, "attn.add_v_proj", UP, 0},
    {TRANSFORMER, "attn.to_out.0.weight", DOWN, 0},
    {TRANSFORMER, "attn.to_add_out.weight", DOWN, 0},
    {TRANSFORMER, "mlp.net.0.proj", UP, 0},
    {TRANSFORMER, "mlp.net.2.weight", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit krea2[] = {
    {TRANSFORMER, "attn.to_v", UP, 0},
    {TRANSFORMER, "attn.to_out.0", DOWN, 0},
    {TRANSFORMER, "ff.up", UP, 0},
    {TRANSFORMER, "ff.down", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit ernie[] = {
    {TRANSFORMER, "self_attention.to_v", UP, 0},
    {TRANSFORMER, "self_attention.to_out.0", DOWN, 0},
    {TRANSFORMER, "mlp.up_proj", UP, 0},
    {TRANSFORMER, "mlp.linear_fc2", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit kandinsky[] = {
    {TRANSFORMER, "attention.to_value", UP, 0},
    {TRANSFORMER, "attention.out_layer", DOWN, 0},
    {TRANSFORMER, "feed_forward.in_layer", UP, 0},
    {TRANSFORMER, "feed_forward.out_layer", DOWN, 0},
    {NULL, NULL, 0, 0},
};
/* The gate and what it multiplies are one matrix; single blocks make queries, keys, values and both in one. */
static const edit flux2[] = {
    {TRANSFORMER, "attn.to_v", UP, 0},
    {TRANSFORMER, "attn.add_v_proj", UP, 0},
    {TRANSFORMER, "attn.to_out.0", DOWN, 0},
    {TRANSFORMER, "attn.to_add_out", DOWN, 0},
    {TRANSFORMER, "linear_in", 512, 0},
    {TRANSFORMER, "linear_out", DOWN, 0},
    {TRANSFORMER, "attn.to_qkv_mlp_proj", 512, 0},
    {TRANSFORMER, "single_transformer_blocks.0.attn.to_out", DOWN, 0},
    {TRANSFORMER, "single_transformer_blocks.1.attn.to_out", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit ideogram4[] = {
    {TRANSFORMER, "attention.to_v", UP, 0},
    {TRANSFORMER, "attention.to_out.0", DOWN, 0},
    {TRANSFORMER, "feed_forward.w3", UP, 0},
    {TRANSFORMER, "feed_forward.w2", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit lumina2[] = {
    {TRANSFORMER, "attn.to_v", UP, 0},
    {TRANSFORMER, "attn.to_out.0", DOWN, 0},
    {TRANSFORMER, "feed_forward.linear_3", UP, 0},
    {TRANSFORMER, "feed_forward.linear_2", DOWN, 0},
    {NULL, NULL, 0, 0},
};
/* The gate and what it multiplies are one matrix. */
static const edit minimax[] = {
    {TRANSFORMER, "attn.to_v", UP, 0},
    {TRANSFORMER, "attn.to_out.0", DOWN, 0},
    {TRANSFORMER, "ff.net.0.proj", 512, 0},
    {TRANSFORMER, "ff.net.2", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit boogu[] = {
    {TRANSFORMER, "to_v", UP, 0},
    {TRANSFORMER, "processor.img_out", DOWN, 0},
    {TRANSFORMER, "processor.instruct_out", DOWN, 0},
    {TRANSFORMER, "self_attn.to_out.0", DOWN, 0},
    {TRANSFORMER, ".0.attn.to_out.0", DOWN, 0},
    {TRANSFORMER, "feed_forward.linear_3", UP, 0},
    {TRANSFORMER, "feed_forward.linear_2", DOWN, 0},
    {NULL, NULL, 0, 0},
};
static const edit sana[] = {
    {TRANSFORMER, "to_v", UP, 0},
    {TRANSFORMER, "to_out.0.weight", DOWN, 0},
    {TRANSFORMER, "ff.conv_inverted", UP, 0},
    {TRANSFORMER, "ff.conv_depth.weight", DOWN, 0},
    {NULL, NULL, 0, 0},
};

typedef struct family {
    const char *name, *index, *pipeline; /* model_index.json, or NULL: that of the folder */
    const char *transformer, *vae;       /* folders */
    const edit *edits;
    uint32_t frames; /* of a clip; 0: a picture */
} family;
#define FIXTURES "tests/fixtures/"
#define PIPELINE(NAME) NULL, FIXTURES NAME, FIXTURES NAME "/transformer", FIXTURES NAME "/vae"
static const family families[] = {
    {"Z-Image", PIPELINE("pipe_zimage"), zimage, 0},
    {"Sana", "{\"_class_name\": \"SanaPipeline\"}", "", FIXTURES "sana", FIXTURES "vae_dcae", sana, 0},
    {"Qwen-Image", PIPELINE("pipe_qwenimage"), qwenimage, 0},
    {"Krea 2", PIPELINE("pipe_krea2"), krea2, 0},
    {"ERNIE-Image", PIPELINE("pipe_ernie"), ernie, 0},
    {"Kandinsky 5.0", PIPELINE("pipe_kandinsky"), kandinsky, 0},
    {"FLUX.2 klein", PIPELINE("pipe_flux2_klein"), flux2, 0},
    {"MiniMax-H3", PIPELINE("pipe_minimax_h3"), minimax, 22},
    {"Lumina-Image 2", "{\"_class_name\": \"Lumina2Pipeline\"}", "", FIXTURES "lumina2", FIXTURES "pipe_zimage/vae",
     lumina2, 0},
    {"Boogu-Image", "{\"_class_name\": \"BooguImagePipeline\"}", FIXTURES "pipe_krea2",
     FIXTURES "pipe_boogu/transformer", FIXTURES "pipe_flux/vae", boogu, 0},
    {"Ideogram 4", NULL, FIXTURES "pipe_ideogram4", FIXTURES "pipe_ideogram4/transformer",
     FIXTURES "pipe_flux2_klein/vae", ideogram4, 0}, /* both transformers are scaled */
};

static dit_result open_member(const char *name, dit_source *out, void *user) {
    const family *f = (const family *)user;
    const char *rest = strchr(name, '/');
    bool weights = strstr(name, "transformer/") && diti_ends_with(name, ".safetensors");
    char path[256];
    if (f->index && !strcmp(name, "model_index.json")) {
        out->data = f->index;
        out->size = strlen(f->index);
        return DIT_OK;
    }
    snprintf(path, sizeof path, "%s/%s", f->pipeline, name);
    if (rest && !strncmp(name, "transformer/", 12)) snprintf(path, sizeof path, "%s%s", f->transformer, rest);
    if (rest && !strncmp(name, "vae/", 4)) snprintf(path, sizeof path, "%s%s", f->vae, rest);
    return edited_open(weights ? TRANSFORMER : name, path, out);
}

typedef struct run { /* one job's end */
    outcome out;
    dit_status status;
    dit_result result;
    uint32_t exponents; /* guard records whose exponent was raised */
    char op[64];
} run;

typedef struct way { /* how the picture of a family is made */
    const edit *edits;
    const char *overrides, *cache;
    uint32_t steps, budget_us; /* of each call of dit_job_step */
    uint32_t stop;             /* the job ends behind so many steps, and another one goes on; 0: it does not */
} way;

static dit_result step_to_end(dit_job *job, uint32_t budget_us) {
    dit_result result = DIT_WORKING;
    uint64_t begin = diti_clock_us();
    while (result == DIT_WORKING && diti_clock_us() - begin < 250000000u) result = dit_job_step(job, budget_us);
    dit_job_status(job, NULL, &err);
    return result;
}

/* In place of the job another one, from what it kept behind that step. */
static dit_result go_on_elsewhere(maker *m, dit_job_desc *request, uint32_t stop) {
    static unsigned char state[1 << 17];
    size_t size = sizeof state;
    dit_result result = DIT_WORKING;
    dit_status status = {0};
    while (result == DIT_WORKING && status.step < stop) {
        result = dit_job_step(m->job, 0);
        dit_job_status(m->job, &status, &err);
    }
    if (result == DIT_WORKING) result = dit_job_save_state(m->job, state, &size, &err);
    dit_job_destroy(m->job);
    m->job = NULL;
    request->state = state;
    request->state_size = size;
    return result == DIT_OK ? make_job(m, request) : result;
}

static void run_family(const family *f, const way *w, run *r) {
    const asked a = {4, 2, 1, w->steps, 0, 0, 0, NULL, false, f->frames, NULL};
    generated_inputs inputs;
    dit_job_desc request;
    dit_model_desc desc = DITI_ZERO;
    maker m = DITI_ZERO;
    uint32_t i;
    memset(r, 0, sizeof *r);
    edited.edits = w->edits;
    desc.source.open = open_member;
    desc.source.user = (void *)(uintptr_t)f;
    r->result = open_devices(&m, 1, w->overrides, 0);
    if (r->result == DIT_OK) r->result = load_denoiser(&m, NULL, DIT_TYPE_STORED, desc);
    CHECK_MESSAGE(!w->edits->member || edited.changed > 0, "%s: no weight was scaled", f->name);
    edited_free();
    if (r->result == DIT_OK) {
        shorten_texts(m.model);
        request = request_asked(&m, &a, NULL, &inputs);
        request.cache = w->cache;
        m.context->device->max_slice_us = UINT32_MAX; /* few slices, so that all steps can be in flight */
        request.keep_state = w->stop > 0;
        r->result = make_job(&m, &request);
        if (r->result == DIT_OK && w->stop) r->result = go_on_elsewhere(&m, &request, w->stop);
        generated_free_inputs(&inputs);
    }
    if (r->result == DIT_OK) r->result = step_to_end(m.job, w->budget_us);
    if (m.job) {
        const diti_plan *plan = m.job->shares[0]->program.plan;
        dit_job_status(m.job, &r->status, NULL);
        snprintf(r->op, sizeof r->op, "%s", r->status.rerun_op ? r->status.rerun_op : "");
        for (i = 1; plan->guards && i < plan->tensors[plan->guards].rows; i++)
            r->exponents += plan->guard_records[i].exponent > 0;
        if (r->result == DIT_OK) r->result = read_latent(m.job, 0, &r->out);
    }
    close_maker(&m);
}

static void test_family(const family *f) {
    static run right, got, ordinary;
    const way as_it_is = {none, "rung=fp16", NULL, 2, 0, 0}, base = {f->edits, "rung=base", NULL, 2, 0, 0},
              unguarded = {f->edits, "rung=fp16,guards=0", NULL, 2, 0, 0},
              guarded = {f->edits, "rung=fp16", NULL, 2, 0, 0};
    run_family(f, &as_it_is, &ordinary);
    CHECK_MESSAGE(ordinary.result == DIT_OK && ordinary.status.reruns == 0, "%s as it is: %u reruns for %s, %s",
                  f->name, ordinary.status.reruns, ordinary.op, err.message);
    run_family(f, &base, &right);
    CHECK_MESSAGE(right.result == DIT_OK && right.status.reruns == 0, "%s: %s", f->name, err.message);
    run_family(f, &unguarded, &got);
    CHECK_MESSAGE(got.result == DIT_ERROR_NOT_FINITE, "%s needs no guards", f->name);
    run_family(f, &guarded, &got);
    CHECK_MESSAGE(got.result == DIT_OK, "%s: %s", f->name, err.message);
    CHECK_MESSAGE(got.status.reruns >= 1 && got.status.reruns <= 12 && got.exponents > ordinary.exponents,
                  "%s: %u reruns, %u exponents above 0, before it was scaled %u", f->name, got.status.reruns,
                  got.exponents, ordinary.exponents);
    /* one evaluation of the golden fixtures may be 1.4e-2 away on this rung; this is a trajectory */
    CHECK_MESSAGE(difference(&got.out, &right.out) <= 2e-2, "%s: %g from fp32", f->name,
                  difference(&got.out, &right.out));
    printf("%s: %u reruns, the last for %s; %u exponents raised; %.2g from fp32\n", f->name, got.status.reruns, got.op,
           got.exponents, difference(&got.out, &right.out));
}

/* A job that goes on where another one was knows the exponents that this one has learned. */
static void test_state(const family *f) {
    static run whole, resumed;
    const way guarded = {f->edits, "rung=fp16", NULL, 4, 0, 0}, halves = {f->edits, "rung=fp16", NULL, 4, 0, 2};
    run_family(f, &guarded, &whole);
    run_family(f, &halves, &resumed);
    CHECK_MESSAGE(whole.result == DIT_OK && resumed.result == DIT_OK && whole.status.reruns > 0 &&
                      resumed.status.reruns == 0 && resumed.exponents == whole.exponents,
                  "%s: %u reruns and then %u, %u exponents and then %u, %s", f->name, whole.status.reruns,
                  resumed.status.reruns, whole.exponents, resumed.exponents, err.message);
    CHECK_MESSAGE(difference(&whole.out, &resumed.out) == 0, "%s: %g from the run as a whole", f->name,
                  difference(&whole.out, &resumed.out));
}

/* A step that reuses blocks overflows while later ones are in flight, whose blocks run: what they add is not kept. */
static void test_cache(const family *f) {
    static const char *const caches[] = {"delta:first=1,from=1,interval=2", "taylor:first=1,from=1,interval=2"};
    static run one, all;
    size_t i;
    for (i = 0; i < (whole_sweep() ? DITI_COUNT(caches) : 1); i++) {
        const way by_one = {f->edits, "rung=fp16", caches[i], 4, 0, 0},
                  at_once = {f->edits, "rung=fp16", caches[i], 4, UINT32_MAX, 0};
        run_family(f, &by_one, &one);
        run_family(f, &at_once, &all);
        CHECK_MESSAGE(one.result == DIT_OK && all.result == DIT_OK && one.status.reused == 2 && all.status.reruns > 1,
                      "%s, %s: %u steps reuse blocks, %u reruns, %s", f->name, caches[i], one.status.reused,
                      all.status.reruns, err.message);
        CHECK_MESSAGE(difference(&all.out, &one.out) == 0, "%s, %s: %g from steps one by one", f->name, caches[i],
                      difference(&all.out, &one.out));
    }
}

static bool is_there(const family *f) {
    return test_needs(f->transformer) && test_needs(f->vae) && (!*f->pipeline || test_needs(f->pipeline));
}

int main(void) {
    size_t i, count = whole_sweep() ? DITI_COUNT(families) : 2;
    maker m = DITI_ZERO;
    bool fp16;
    test_vulkan_begin();
    CHECK_MESSAGE(open_devices(&m, 1, "", 0) == DIT_OK, "%s", err.message);
    fp16 = m.context && m.context->device->has_fp16;
    close_maker(&m);
    if (!fp16) printf("skipped: the driver has no fp16\n");
    for (i = 0; fp16 && i < count; i++) {
        if (!is_there(&families[i])) continue;
        test_family(&families[i]);
        test_state(&families[i]);
        if (i || whole_sweep()) test_cache(&families[i]);
    }
    test_vulkan_end();
    return TEST_END("overflow");
}
