/* Autoencoders over several devices: bands of lines with what they need of each other, and tiles, against one
   device, whose bytes they give where all have one driver; the bytes that are sent against their closed form, the
   plans' sum and what transports counted. */
/* test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "vulkan_test.h"
#include "vae_bytes.h"

#define KL "tests/fixtures/vae_small_groups8_ldm/model.safetensors"
#define TINY "tests/fixtures/taesd/model.safetensors"
enum { PIXELS = 1 << 17 };

static diti_env env;

typedef struct setup {
    dit_context *context;
    diti_checkpoint *file;
    diti_vae *vae;
    uint32_t height, width; /* of the latent */
    float *latent;
    bool halves; /* activations */
    bool mixed;  /* devices of two drivers */
} setup;

typedef struct member {
    diti_ranks group;
    diti_plan *plan;
    diti_tensor input, kept;
    uint32_t first, lines;
} member;

/* --- one member --- */

static void emit(const setup *s, member *m, uint32_t tile, diti_graph *graph) {
    diti_tensor x;
    diti_graph_segment(graph, "decode", false);
    m->input = diti_tensor_input(graph, DITI_F32, s->vae->traits.latent_channels, s->height * s->width, "latent");
    x = diti_vae_decode(s->vae, graph, m->input, s->height, s->width, tile, &m->group);
    m->lines = diti_vae_lines(s->vae, &m->group, m->group.index, s->height, s->width, tile, &m->first);
    CHECK((x != 0) == (m->lines != 0));
    if (!x) return;
    m->kept = diti_tensor_state(graph, DITI_F32, diti_tensor_get(graph, x)->rows, 3, "kept");
    diti_copy(graph, x, m->kept, "keep");
}

static bool make(const setup *s, member *m, uint32_t tile) {
    diti_graph graph;
    dit_result result;
    diti_graph_init(&graph, s->context->devices[m->group.index]);
    emit(s, m, tile, &graph);
    result = diti_plan_create(&graph, NULL, &m->plan, &err);
    diti_graph_free(&graph);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message) &&
           CHECK(diti_plan_write(m->plan, m->input, s->latent,
                                 sizeof(float) * s->vae->traits.latent_channels * s->height * s->width,
                                 &err) == DIT_OK);
}

/* --- all of them --- */

static void check_bytes(const setup *s, const diti_mesh *mesh, const member *members, uint32_t tile) {
    uint32_t i;
    for (i = 0; i < mesh->count; i++) {
        uint64_t planned = diti_plan_exchange_bytes(members[i].plan, 0, UINT32_MAX), formula;
        CHECK_MESSAGE(planned == diti_mesh_bytes(mesh, i, UINT32_MAX), "member %u", i);
        formula = tile ? vae_tile_bytes(s->vae, &members[i].group, i, s->height, s->width, tile)
                       : vae_strip_bytes(s->vae, s->halves ? 2 : 4, &members[i].group, i, s->height, s->width);
        CHECK_MESSAGE(planned == formula, "member %u of %u plans %llu bytes, the closed form says %llu", i, mesh->count,
                      (unsigned long long)planned, (unsigned long long)formula);
    }
}

/* The picture of `count` devices; what is sent. */
static uint64_t decode(const setup *s, uint32_t count, const float *weights, uint32_t tile, float *out) {
    member members[DITI_MAX_DEVICES];
    diti_plan *plans[DITI_MAX_DEVICES];
    diti_mesh *mesh = NULL;
    uint32_t i, k, next = 0, line = s->width * s->vae->traits.factor * 3;
    uint64_t sent = 0;
    bool good = true;
    memset(members, 0, sizeof members);
    for (i = 0; i < count; i++) {
        diti_ranks *group = &members[i].group;
        group->count = count;
        group->index = i;
        for (k = 0; k < count; k++) group->devices[k] = k;
        for (k = 0; k < count && weights; k++) group->weights[k] = weights[k];
        good = good && make(s, &members[i], tile);
        plans[i] = members[i].plan;
    }
    good = good && CHECK_MESSAGE(diti_mesh_create(s->context->peers, plans, NULL, count, &mesh, &err) == DIT_OK, "%s",
                                 err.message);
    good = good && CHECK_MESSAGE(run_plans(mesh, plans, count, 0, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < count && good; i++) {
        const member *m = &members[i];
        CHECK(!m->lines || m->first == next);
        next += m->lines;
        sent += diti_mesh_bytes(mesh, i, UINT32_MAX);
        if (m->lines)
            CHECK(diti_plan_read(m->plan, m->kept, out + (size_t)m->first * line, sizeof(float) * m->lines * line,
                                 &err) == DIT_OK);
    }
    CHECK(next == s->height * s->vae->traits.factor);
    if (good) check_bytes(s, mesh, members, tile);
    diti_mesh_destroy(mesh);
    for (i = 0; i < count; i++) diti_plan_destroy(members[i].plan);
    return sent;
}

/* --- cases --- */

static bool open_setup(setup *s, const char *devices, const char *path, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_source source = DITI_ZERO;
    dit_device_info info[8];
    uint32_t count = 8;
    memset(s, 0, sizeof *s);
    desc.devices = devices;
    desc.overrides = overrides;
    source.path = path;
    if (!CHECK_MESSAGE(dit_context_create(&desc, &s->context, &err) == DIT_OK &&
                           diti_checkpoint_open(&env, &source, &s->file, &err) == DIT_OK &&
                           diti_vae_load(s->context->device, &env, NULL, s->file, "", NULL, &s->vae, &err) == DIT_OK,
                       "%s", err.message))
        return false;
    s->halves = s->context->device->rung != DITI_RUNG_BASE;
    CHECK(dit_context_devices(s->context, info, &count, &err) >= 0 && count > 1);
    s->mixed = strcmp(info[0].name, info[1].name) != 0;
    return true;
}

static void close_setup(setup *s) {
    diti_vae_destroy(s->vae);
    diti_checkpoint_close(s->file);
    dit_context_destroy(s->context);
}

static void check(setup *s, uint32_t count, uint32_t height, uint32_t width, const float *weights, uint32_t tile) {
    static float one[3 * PIXELS], several[3 * PIXELS], latent[64 * 64];
    uint32_t factor = s->vae->traits.factor, i, state = 1, values = s->vae->traits.latent_channels * height * width;
    uint64_t sent;
    double error;
    if (!CHECK(height * width * factor * factor <= PIXELS && values <= 64 * 64)) return;
    for (i = 0; i < values; i++) { /* with an offset, where sums of squares would cancel */
        state = state * 1664525u + 1013904223u;
        latent[i] = (float)(state >> 8) / (float)(1 << 23) - 0.5f;
    }
    s->height = height;
    s->width = width;
    s->latent = latent;
    CHECK(decode(s, 1, NULL, tile, one) == 0);
    memset(several, 0, sizeof several);
    sent = decode(s, count, weights, tile, several);
    error = relative_l2(several, one, NULL, (size_t)3 * height * width * factor * factor);
    printf("%s %ux%u on %u devices%s: relative L2 %.2g, %llu bytes\n", s->vae->traits.tiny ? "tiny" : "kl", height,
           width, count,
           tile      ? ", tiles"
           : weights ? ", unequal"
                     : "",
           error, (unsigned long long)sent);
    CHECK_MESSAGE(error <= (s->mixed ? 1e-5 : 0), "%ux%u on %u devices: %g", height, width, count, error);
    CHECK(sent > 0);
}

static const float unequal[DITI_MAX_DEVICES] = {1, 2.5f, 0.6f, 1, 1, 3, 1, 0.2f};

static void sweep(const char *devices, const char *path, const char *overrides) {
    static const uint32_t sizes[][2] = {{8, 5}, {13, 7}, {9, 12}, {3, 5}}, counts[] = {2, 3, 4, 8};
    uint32_t i, k;
    setup s;
    if (open_setup(&s, devices, path, overrides))
        for (k = 0; k < 4; k++)
            for (i = 0; i < 4; i++) {
                check(&s, counts[k], sizes[i][0], sizes[i][1], (i + k) % 2 ? unequal : NULL, 0);
                if (i == 2) check(&s, counts[k], sizes[i][0], sizes[i][1], k % 2 ? unequal : NULL, k < 2 ? 8 : 4);
            }
    close_setup(&s);
}

/* Eight devices, every third of another driver, where there is one. */
static bool mix(char *out, size_t size) {
    dit_device_info list[8];
    uint32_t count = 8, other = 0, i;
    if (dit_device_list(list, &count, &err) < 0) return false;
    while (other < count && strstr(list[other].name, "llvmpipe")) other++;
    for (i = 0, out[0] = 0; i < 8 && other < count; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? "," : "",
                 i % 3 == 1 ? list[other].name : "llvmpipe");
    return other < count;
}

/* Sizes that are odd and not square, more devices than lines, slices by a small storage range, halves, two drivers. */
static void test_all(void) {
    static const char eight[] = "llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe";
    char mixed[8 * 300];
    sweep(eight, KL, "rung=base,storage_range=192K");
    sweep(eight, TINY, "rung=base");
    sweep(eight, KL, "rung=fp16");
    if (mix(mixed, sizeof mixed)) sweep(mixed, KL, "rung=base");
}

int main(void) {
    static const char three[] = "llvmpipe,llvmpipe,llvmpipe";
    setup s;
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    if (open_setup(&s, three, KL, "rung=base")) {
        check(&s, 2, 5, 4, NULL, 0);
        check(&s, 3, 7, 5, unequal, 0);
        check(&s, 3, 2, 3, NULL, 0); /* one has nothing to do */
        check(&s, 2, 9, 10, NULL, 8);
    }
    close_setup(&s);
    if (open_setup(&s, three, TINY, "rung=base")) check(&s, 3, 5, 3, NULL, 0);
    close_setup(&s);
    if (whole_sweep()) test_all();
    test_vulkan_end();
    return TEST_END("split_vae");
}
