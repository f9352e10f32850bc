/* Values that exceed what fp16 holds, in what devices exchange: the copies that a HunyuanDiT keeps of its residual
   stream, and sends to a later stage, and the lines, keys and values of decoders that devices divide, get exponents,
   and the picture is that of F32; with strips over several processes, too. Models are generated, or made-up weights;
   some matrices of them are multiplied.

   DIT_TEST_ALL=1 runs every split that has stages, and clips. test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "split_ranks.h"
#include "vulkan_test.h"

static const generated_model shape = {"hunyuan", "hunyuandit", 4, 16, 8, 0, 0, false};
static outcome right, got, again;

typedef struct edit {
    const char *name;
    float factor;
    uint32_t thirds; /* of the rows, from the first on, that stay as they are */
} edit;

/* Multiplies a matrix, F32 or BF16, of a safetensors file. */
static void multiply(bytes *file, const edit *e) {
    char quoted[96];
    const char *header = (const char *)file->data + 8, *entry, *offsets;
    unsigned long begin = 0, end = 0, i, size;
    uint64_t length;
    memcpy(&length, file->data, 8);
    diti_format(quoted, sizeof quoted, "\"%s\"", e->name);
    entry = strstr(header, quoted);
    offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
    if (!CHECK(offsets && sscanf(offsets + 16, "%lu,%lu", &begin, &end) == 2)) return;
    size = strstr(entry, "\"BF16\"") && strstr(entry, "\"BF16\"") < offsets ? 2 : 4;
    for (i = begin + (end - begin) / 3 * e->thirds; i < end; i += size) {
        unsigned char value[4] = {0}, *at = file->data + 8 + length + i;
        float f;
        memcpy(value + 4 - size, at, size); /* BF16 is the upper half of F32 */
        memcpy(&f, value, 4);
        f *= e->factor;
        memcpy(value, &f, 4);
        memcpy(at, value + 4 - size, size);
    }
}

/* Whose matrices are multiplied. */
typedef enum part { TRANSFORMER, DECODER, CLIPS } part;
static bytes decoder; /* of all models that are open */

static dit_source multiplied(const char *path, const edit *edits, uint32_t count) {
    size_t size;
    char *data;
    if (!decoder.data) {
        data = test_read_file(path, &size);
        CHECK_MESSAGE(data, "there is no %s", path);
        bytes_add(&decoder, data, size);
        free(data);
        while (count--) multiply(&decoder, &edits[count]);
    }
    return memory_source(&decoder);
}

/* The first block's feed-forward brings back some 1e5, or a decoder's first resnet and its values do; weights fit fp16.
 */
static dit_result load(maker *m, part of) {
    static const edit hidden = {"blocks.0.ff.net.2.weight", 3e5f, 0},
                      pictures[] = {{"decoder.mid_block.resnets.0.conv1.weight", 1.2e5f, 0},
                                    {"decoder.mid_block.attentions.0.to_v.weight", 6e4f, 0}},
                      values = {"decoder.mid_block.attentions.0.to_qkv.weight", 3e4f, 2};
    dit_model_desc desc = DITI_ZERO;
    dit_component vae = DITI_ZERO;
    size_t i;
    if (of == CLIPS) {
        desc.source.path = "tests/fixtures/pipe_wan22_i2v_a14b";
        desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
        vae.role = DIT_ROLE_VAE;
        vae.source =
            multiplied("tests/fixtures/pipe_wan22_i2v_a14b/vae/diffusion_pytorch_model.safetensors", &values, 1);
        desc.components = &vae;
        desc.component_count = 1;
        return dit_model_load(m->context, &desc, &m->model, &err);
    }
    if (of == DECODER) { /* of four channels, as is the transformer */
        generated_make(&m->files, &shape);
        m->generated = true;
        m->files.components[1].source = multiplied(GENERATED_VAE "/diffusion_pytorch_model.safetensors", pictures, 2);
    } else {
        generated_make(&m->files, &shape);
        m->generated = true;
        for (i = 0; i < m->files.transformer.count; i++)
            if (!strcmp(m->files.transformer.members[i].name, "model.safetensors"))
                multiply(&m->files.transformer.members[i].file, &hidden);
    }
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = m->files.components;
    desc.component_count = m->files.component_count;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

static bool open_model(maker *m, part of, uint32_t devices, const char *overrides) {
    memset(m, 0, sizeof *m);
    if (!CHECK_MESSAGE(open_devices(m, devices, overrides, 0) == DIT_OK && load(m, of) == DIT_OK, "%s", err.message))
        return false;
    shorten_texts(m->model);
    return true;
}

static void close_models(maker *base, maker *half) {
    close_maker(base);
    close_maker(half);
    bytes_free(&decoder);
    memset(&decoder, 0, sizeof decoder);
}

/* A clip of so many frames, which begins with a picture; 0 frames: no clip. */
static asked clip_of(asked a, uint32_t frames) {
    static uint8_t pixels[4 * 64 * 64];
    static dit_image image;
    uint32_t i;
    if (!frames) return a;
    for (i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(37 * i + i / 256);
    image.rgba = pixels;
    image.width = image.height = 64;
    a.frames = frames;
    a.begins = &image;
    a.sampler = NULL;
    return a;
}

static bool run(const maker *m, const asked *a, const char *split, outcome *out, uint32_t *reruns) {
    dit_job *job = NULL;
    dit_status status = {0};
    dit_result result = make_asked(m, a, split, &job);
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) result = wait_for(job, 120);
    if (result == DIT_OK) result = read_latent(job, 0, out);
    if (result == DIT_OK) result = read_picture(job, out);
    if (job) dit_job_status(job, &status, NULL);
    *reruns = status.reruns;
    dit_job_destroy(job);
    return CHECK_MESSAGE(result == DIT_OK, "%s: %s", split ? split : "alone", err.message);
}

/* like: the split that makes the same of the same strips; NULL: one device. One evaluation of the golden fixtures may
   be 1.4e-2 away on this rung; int8 payloads may be as far again as they are in F32. */
static void check_split(const maker *base, const maker *half, const char *split, const char *like, uint32_t frames) {
    asked a = {4, 4, 1, 3, 0, 0, 0, "euler", false, 0, NULL};
    double limit = 2e-2;
    uint32_t reruns, twice;
    a = clip_of(a, frames);
    if (!run(base, &a, like, &right, &reruns)) return;
    if (split && strstr(split, "int8") && run(base, &a, split, &got, &reruns)) limit += difference(&got, &right);
    if (!run(half, &a, split, &got, &reruns)) return;
    CHECK_MESSAGE(reruns >= 1, "%s: nothing overflowed", split ? split : "alone");
    CHECK_MESSAGE(difference(&got, &right) <= limit, "%s: %g from fp32, more than %g", split ? split : "alone",
                  difference(&got, &right), limit);
    CHECK_MESSAGE(picture_difference(&got, &right) <= limit, "%s: the picture is %g from fp32, more than %g",
                  split ? split : "alone", picture_difference(&got, &right), limit);
    printf("%s: %u reruns, %.2g from fp32, the picture %.2g\n", split ? split : "alone", reruns,
           difference(&got, &right), picture_difference(&got, &right));
    if (run(half, &a, split, &again, &twice))
        CHECK_MESSAGE(!memcmp(&got.latent, &again.latent, sizeof got.latent) && twice == reruns &&
                          !memcmp(&got.picture, &again.picture, sizeof got.picture),
                      "%s: run again, it differs", split ? split : "alone");
}

/* Two processes with a device each, which know of each other by the transport alone. */
static void check_ranks(const maker *base, part of, const char *split, const char *like, uint32_t frames) {
    static uint32_t numbers[2] = {0, 1};
    asked a = {4, 4, 1, 3, 0, 0, 0, "euler", false, 0, NULL};
    dit_result results[2] = {DIT_WORKING, DIT_WORKING};
    dit_job *jobs[2] = {NULL, NULL};
    dit_status status[2];
    uint64_t begin = diti_clock_us();
    uint32_t reruns, i;
    maker ranks[2];
    memset(ranks, 0, sizeof ranks);
    memset(status, 0, sizeof status);
    a = clip_of(a, frames);
    if (!run(base, &a, like, &right, &reruns)) return;
    for (i = 0; i < 2; i++) {
        dit_context_desc desc = DITI_ZERO;
        desc.devices = "llvmpipe";
        desc.overrides = "rung=fp16,gflop_ns=100000000";
        desc.transport = rank_transport(&numbers[i], 2);
        CHECK_MESSAGE(dit_context_create(&desc, &ranks[i].context, &err) == DIT_OK && load(&ranks[i], of) == DIT_OK,
                      "%s", err.message);
        if (!ranks[i].model) break;
        shorten_texts(ranks[i].model);
        CHECK_MESSAGE(make_asked(&ranks[i], &a, split, &jobs[i]) == DIT_OK, "%s", err.message);
    }
    while (jobs[0] && jobs[1] && (results[0] == DIT_WORKING || results[1] == DIT_WORKING) &&
           diti_clock_us() - begin < 60000000)
        for (i = 0; i < 2; i++) results[i] = dit_job_wait(jobs[i], 1000000);
    for (i = 0; i < 2 && jobs[0] && jobs[1]; i++) {
        dit_job_status(jobs[i], &status[i], &err);
        CHECK_MESSAGE(results[i] == DIT_OK, "%s, rank %u: %s", split, i, err.message);
    }
    if (results[0] == DIT_OK && results[1] == DIT_OK) {
        memset(&got, 0, sizeof got);
        CHECK(read_latent(jobs[0], 0, &got) == DIT_OK && read_picture(jobs[0], &got) == DIT_OK);
        CHECK_MESSAGE(status[0].reruns >= 1 && status[0].reruns == status[1].reruns, "%s: %u and %u reruns", split,
                      status[0].reruns, status[1].reruns);
        CHECK_MESSAGE(difference(&got, &right) <= 2e-2 && picture_difference(&got, &right) <= 2e-2,
                      "%s on two ranks: %g from fp32, the picture %g", split, difference(&got, &right),
                      picture_difference(&got, &right));
        printf("%s on two ranks: %u reruns, %.2g from fp32, the picture %.2g\n", split, status[0].reruns,
               difference(&got, &right), picture_difference(&got, &right));
    }
    for (i = 0; i < 2; i++) {
        dit_job_destroy(jobs[i]);
        close_maker(&ranks[i]);
    }
    memset(letters, 0, sizeof letters);
}

static void *spoiling_alloc(size_t size, size_t align, void *user) {
    (void)user;
    return test_block(size, align);
}

static void spoiling_free(void *p, size_t size, void *user) {
    (void)user;
    memset(p, 0xdd, size);
    free(p);
}

/* A device fails behind an overflow: the plan goes, and the name of the op that overflowed stays. */
static void check_name(void) {
    asked a = {4, 4, 1, 2, 0, 0, 0, "euler", true, 0, NULL};
    dit_context_desc desc = DITI_ZERO;
    dit_status status = {0};
    char name[64] = "";
    maker m;
    memset(&m, 0, sizeof m);
    desc.devices = "llvmpipe,llvmpipe";
    desc.overrides = "rung=fp16,gflop_ns=100000000,device_ms=20000";
    desc.allocator.alloc = spoiling_alloc;
    desc.allocator.free = spoiling_free;
    CHECK_MESSAGE(dit_context_create(&desc, &m.context, &err) == DIT_OK && load(&m, TRANSFORMER) == DIT_OK, "%s",
                  err.message);
    if (m.model) shorten_texts(m.model);
    if (m.model && CHECK_MESSAGE(make_asked(&m, &a, "layers2", &m.job) == DIT_OK, "%s", err.message)) {
        while (!status.reruns && dit_job_step(m.job, 0) == DIT_WORKING) dit_job_status(m.job, &status, NULL);
        if (CHECK(status.reruns && status.rerun_op)) diti_format(name, sizeof name, "%s", status.rerun_op);
        m.context->devices[1]->fail_submit_after = 1;
        while (!m.job->resumed && dit_job_step(m.job, 0) == DIT_WORKING) {
        }
        dit_job_status(m.job, &status, &err);
        CHECK_MESSAGE(m.job->resumed && status.rerun_op && !strcmp(status.rerun_op, name), "%s", name);
    }
    close_maker(&m);
}

int main(void) {
    static const char *const all[][2] = {{NULL, NULL},
                                         {"ulysses2", NULL},
                                         {"layers3", NULL},
                                         {"layers2,int8", NULL},
                                         {"layers2,int8:e", NULL},
                                         {"layers2,ulysses2", NULL},
                                         {"pipefusion2:m2w1,int8", "pipefusion1:m2w1"},
                                         {"pipefusion2:m2w1,int8:e", "pipefusion1:m2w1"},
                                         {"pipefusion4:m2w1", "pipefusion1:m2w1"},
                                         {"ring2,pipefusion2:m2w1", "pipefusion1:m2w1"},
                                         {"cfg2,pipefusion2:m2w1", "pipefusion1:m2w1"}};
    maker base, half;
    size_t i;
    test_vulkan_begin();
    if (open_model(&base, TRANSFORMER, 2, "rung=base,gflop_ns=100000000") &&
        open_model(&half, TRANSFORMER, 4, "rung=fp16,gflop_ns=100000000")) {
        check_split(&base, &half, "layers2", NULL, 0);
        check_split(&base, &half, "pipefusion2:m2w1", "pipefusion1:m2w1", 0);
        check_ranks(&base, TRANSFORMER, "pipefusion2:m2w1", "pipefusion1:m2w1", 0);
        for (i = 0; i < DITI_COUNT(all) && whole_sweep(); i++) check_split(&base, &half, all[i][0], all[i][1], 0);
    }
    close_models(&base, &half);
    check_name();
    if (open_model(&base, DECODER, 2, "rung=base,gflop_ns=100000000") &&
        open_model(&half, DECODER, 4, "rung=fp16,gflop_ns=100000000")) {
        check_split(&base, &half, "layers2", NULL, 0);
        for (i = 0; i < DITI_COUNT(all) && whole_sweep(); i++) check_split(&base, &half, all[i][0], all[i][1], 0);
        if (whole_sweep()) check_ranks(&base, DECODER, "ulysses2", NULL, 0);
        if (whole_sweep()) check_ranks(&base, DECODER, "pipefusion2:m2w1", "pipefusion1:m2w1", 0);
    }
    close_models(&base, &half);
    if (whole_sweep() && open_model(&base, CLIPS, 2, "rung=base,gflop_ns=100000000") &&
        open_model(&half, CLIPS, 4, "rung=fp16,gflop_ns=100000000")) {
        check_split(&base, &half, NULL, NULL, 5);
        check_split(&base, &half, "ulysses2", NULL, 5);
        check_split(&base, &half, "cfg2", NULL, 5);
        check_ranks(&base, CLIPS, "ulysses2", NULL, 5);
    }
    if (whole_sweep()) close_models(&base, &half);
    test_vulkan_end();
    return TEST_END("split_overflow");
}
