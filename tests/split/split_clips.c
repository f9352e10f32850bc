/* Autoencoders of clips over several devices, each of which has a band of every frame's lines, or some of the frames:
   against one device, whose bytes they give; the bytes that plans say against what transports counted. */
/* test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "vulkan_test.h"

static diti_env env;

typedef struct clip_case {
    const char *path, *config; /* NULL: none */
    uint32_t frames, height, width;
    uint32_t tile;
    bool encode, wide; /* wide: one op reads more than 192 KB of one device's memory at once */
} clip_case;

#define PIPE(NAME, FILE)                                                                                               \
    "tests/fixtures/pipe_" NAME "/vae/" FILE ".safetensors", "tests/fixtures/pipe_" NAME "/vae/config.json"
#define DIFFUSERS "diffusion_pytorch_model"
enum { QUICK = 7 }; /* so many of them in make test */
static const clip_case clips[] = {{"tests/fixtures/vae_wan/model.safetensors", NULL, 5, 4, 3, 0, false, false},
                                  {PIPE("osp11", DIFFUSERS), 5, 3, 2, 0, false, true},
                                  {PIPE("opensora12", "model"), 21, 3, 2, 0, false, false},
                                  {PIPE("ltx", DIFFUSERS), 9, 3, 2, 0, false, true},
                                  {"tests/fixtures/vae_hunyuanvideo/model.safetensors",
                                   "tests/fixtures/vae_hunyuanvideo/config.json", 5, 4, 3, 0, false, true},
                                  {PIPE("cogvideox_2b", DIFFUSERS), 17, 4, 3, 0, false, false},
                                  {PIPE("osp11", DIFFUSERS), 5, 6, 4, 4, false, true},
                                  {"tests/fixtures/vae_wan/model.safetensors", NULL, 5, 4, 3, 0, true, false},
                                  {PIPE("cogvideox_2b", DIFFUSERS), 17, 4, 3, 0, true, false},
                                  {PIPE("osp11", DIFFUSERS), 5, 3, 2, 0, true, false},
                                  {PIPE("osp11", DIFFUSERS), 5, 9, 6, 4, true, false},
                                  {PIPE("opensora12", "model"), 21, 4, 3, 2, false, true},
                                  {PIPE("opensora12", "model"), 21, 3, 2, 0, true, false},
                                  {PIPE("opensora12", "model"), 19, 9, 6, 8, true, false},
                                  {PIPE("ltx", DIFFUSERS), 9, 3, 2, 0, true, true},
                                  {PIPE("latte", DIFFUSERS), 5, 4, 3, 0, false, false},
                                  {PIPE("latte", DIFFUSERS), 5, 4, 3, 2, false, false},
                                  {PIPE("latte", DIFFUSERS), 5, 4, 3, 0, true, false},
                                  {"tests/fixtures/vae_hunyuanvideo/model.safetensors",
                                   "tests/fixtures/vae_hunyuanvideo/config.json", 5, 4, 3, 0, true, false},
                                  {"tests/fixtures/vae_hunyuanvideo/model.safetensors",
                                   "tests/fixtures/vae_hunyuanvideo/config.json", 21, 4, 3, 0, false, true},
                                  {"tests/fixtures/vae_hunyuanvideo/model.safetensors",
                                   "tests/fixtures/vae_hunyuanvideo/config.json", 21, 4, 3, 0, true, true},
                                  {"tests/fixtures/vae_hunyuanvideo/model.safetensors",
                                   "tests/fixtures/vae_hunyuanvideo/config.json", 17, 6, 3, 4, false, true},
                                  {PIPE("hunyuanvideo15", DIFFUSERS), 9, 5, 2, 0, false, true},
                                  {PIPE("hunyuanvideo15", DIFFUSERS), 5, 3, 2, 0, true, true},
                                  {PIPE("hunyuanvideo15", DIFFUSERS), 5, 6, 3, 4, false, true},
                                  {"tests/fixtures/vae_wan/model.safetensors", NULL, 9, 6, 5, 4, false, true},
                                  {"tests/fixtures/vae_wan/model.safetensors", NULL, 9, 6, 5, 4, true, true},
                                  {PIPE("cogvideox_2b", DIFFUSERS), 9, 6, 5, 4, false, true},
                                  {PIPE("cogvideox_2b", DIFFUSERS), 9, 6, 5, 4, true, true}};

typedef struct clip_member {
    diti_plan *plan;
    diti_tensor input, kept, timestep, noise;
    diti_vae_portion made[16];
    uint32_t chunks, first[16]; /* first row of what is made of a chunk */
    bool takes_part;
} clip_member;

static float clip_latent[1 << 18], clip_noise[1 << 16], clip_out[2][1 << 20];

static diti_vae *load_clips(dit_context *context, const clip_case *c, diti_checkpoint **file) {
    dit_source source = DITI_ZERO;
    diti_json *config = NULL;
    diti_vae *vae = NULL;
    size_t size = 0;
    char *text = c->config ? test_read_file(c->config, &size) : NULL;
    source.path = c->path;
    if (text) CHECK(diti_json_parse(&env, text, size, c->config, &config, &err) == DIT_OK);
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, file, &err) == DIT_OK &&
                      diti_vae_load(context->device, &env, config, *file, "", NULL, &vae, &err) == DIT_OK,
                  "%s: %s", c->path, err.message);
    diti_json_free(&env, config);
    free(text);
    return vae;
}

/* Values of a row that is made. */
static uint32_t made_columns(const diti_vae *vae, const clip_case *c) {
    return c->encode ? (vae->traits.tiny ? 1 : 2) * vae->traits.latent_channels : 3;
}

/* A member's plan of all chunks, one after the other: its lines of the chunk's input are cut from all of it. */
static bool make_clip(dit_context *context, const diti_vae *vae, const clip_case *c, const diti_ranks *group,
                      clip_member *m) {
    uint32_t factor = vae->traits.factor, channels = vae->traits.latent_channels, area, row = 0, plane, count,
             values = 0;
    uint32_t columns = c->encode ? 3 : channels, made = made_columns(vae, c);
    diti_video pixels = {c->frames, factor * c->height, factor * c->width}, latent;
    diti_tensor parts[16], rows, part;
    diti_vae_portion portion;
    diti_vae_chunk chunk;
    diti_vae_clip clip;
    diti_graph graph;
    dit_result result;
    diti_graph_init(&graph, context->devices[group->index]);
    diti_graph_segment(&graph, "decode", false);
    if (!CHECK_MESSAGE(diti_vae_clip_begin(&clip, vae, &graph, c->encode, &pixels, c->tile, 0), "%s",
                       graph.error.message))
        return false;
    if (c->encode && diti_vae_draws_inside(vae)) {
        values = c->frames * clip.latent.height * clip.latent.width * channels;
        clip.noise = m->noise = diti_tensor_input(&graph, DITI_F32, values / channels, channels, "noise");
    }
    latent = c->encode ? clip.pixels : clip.latent;
    area = latent.height * latent.width;
    m->input = c->encode ? diti_tensor_input(&graph, DITI_F32, latent.frames * area, 3, "pixels")
                         : diti_tensor_input(&graph, DITI_F32, channels, latent.frames * area, "latent");
    rows = c->encode ? m->input : diti_vae_clip_latents(&clip, m->input);
    if (vae->traits.timed && !c->encode) {
        for (plane = 0; (count = diti_vae_noise_plane(vae, &latent, plane)) != 0; plane++) values += count;
        clip.timestep = m->timestep = diti_tensor_input(&graph, DITI_F32, 1, DITI_VAE_TIMESTEP, "timestep");
        if (values) clip.noise = m->noise = diti_tensor_input(&graph, DITI_F32, values, 1, "noise");
    }
    CHECK(values <= DITI_COUNT(clip_noise) && latent.frames * area * columns <= DITI_COUNT(clip_latent));
    m->takes_part = diti_vae_clip_divide(&clip, group);
    for (; m->takes_part && diti_vae_clip_chunk(&clip, m->chunks, &chunk) && !diti_graph_failed(&graph); m->chunks++) {
        diti_place_desc cut = DITI_ZERO;
        portion = diti_vae_clip_portion(&clip, &chunk, group->index, false);
        cut.from = cut.to = latent;
        cut.to.frames = portion.frames;
        cut.to.height = portion.lines;
        cut.part = cut.to;
        cut.first = chunk.first + portion.first;
        cut.from_y = portion.line;
        if (portion.frames)
            cut.out = diti_tensor_new(&graph, DITI_F32, portion.frames * cut.to.height * cut.to.width, columns, "cut");
        if (portion.frames) diti_place_frames(&graph, rows, &cut);
        part = diti_vae_clip_run(&clip, &chunk, portion.frames ? cut.out : 0);
        m->made[m->chunks] = diti_vae_clip_portion(&clip, &chunk, group->index, true);
        m->made[m->chunks].first += chunk.out_first;
        m->first[m->chunks] = row;
        CHECK((part != 0) == (m->made[m->chunks].frames != 0));
        parts[m->chunks] = part;
        row += part && !diti_graph_failed(&graph) ? diti_tensor_rows(&graph, part) : 0;
    }
    if (row) m->kept = diti_tensor_state(&graph, DITI_F32, row, made, "kept");
    for (plane = 0; plane < m->chunks && row && !diti_graph_failed(&graph); plane++)
        if (parts[plane])
            diti_copy(
                &graph, parts[plane],
                diti_tensor_view(&graph, m->kept, m->first[plane], diti_tensor_rows(&graph, parts[plane]), 0, made),
                "keep");
    result = diti_plan_create(&graph, NULL, &m->plan, &err);
    diti_graph_free(&graph);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

/* Copies what the device made to its place among all pixels. */
static void read_clip(const clip_member *m, const diti_vae *vae, const clip_case *c, float *out, uint32_t *pixels) {
    static float rows[1 << 20];
    uint32_t factor = c->encode ? 1 : vae->traits.factor, line = factor * c->width, lines = factor * c->height, i, f,
             all = 0, columns = made_columns(vae, c);
    for (i = 0; i < m->chunks; i++) all += m->made[i].frames * m->made[i].lines * line;
    *pixels += all;
    if (!all || !CHECK(columns * all <= DITI_COUNT(rows)) ||
        !CHECK(diti_plan_read(m->plan, m->kept, rows, sizeof(float) * columns * all, &err) == DIT_OK))
        return;
    for (i = 0; i < m->chunks; i++)
        for (f = 0; f < m->made[i].frames; f++)
            memcpy(out + columns * ((size_t)(m->made[i].first + f) * lines + m->made[i].line) * line,
                   rows + columns * ((size_t)m->first[i] + (size_t)f * m->made[i].lines * line),
                   sizeof(float) * columns * m->made[i].lines * line);
}

static uint32_t made_pixels(const diti_vae *vae, const clip_case *c) {
    uint32_t factor = c->encode ? 1 : vae->traits.factor;
    return (c->encode ? diti_vae_latent_frames(vae, c->frames, true, NULL) : c->frames) * c->height * c->width *
           factor * factor;
}

static uint64_t decode_clip(dit_context *context, const diti_vae *vae, const clip_case *c, uint32_t count,
                            const float *weights, float *out) {
    clip_member members[DITI_MAX_DEVICES];
    diti_plan *plans[DITI_MAX_DEVICES];
    float sinusoids[DITI_VAE_TIMESTEP];
    diti_mesh *mesh = NULL;
    uint64_t sent = 0;
    uint32_t i, k, pixels = 0;
    bool good = true;
    memset(members, 0, sizeof members);
    for (i = 0; i < count && good; i++) {
        diti_ranks group = DITI_ZERO;
        group.count = count;
        group.index = i;
        for (k = 0; k < count; k++) group.devices[k] = k;
        for (k = 0; k < count && weights; k++) group.weights[k] = weights[k];
        good = make_clip(context, vae, c, &group, &members[i]);
        plans[i] = members[i].plan;
        if (!good || !members[i].takes_part) continue;
        diti_vae_clip_timestep(vae, 0.05f, sinusoids);
        CHECK(diti_plan_write(plans[i], members[i].input, clip_latent,
                              sizeof(float) * plans[i]->tensors[members[i].input].rows *
                                  plans[i]->tensors[members[i].input].columns,
                              &err) == DIT_OK);
        if (members[i].timestep)
            CHECK(diti_plan_write(plans[i], members[i].timestep, sinusoids, sizeof sinusoids, &err) == DIT_OK);
        if (members[i].noise)
            CHECK(diti_plan_write(plans[i], members[i].noise, clip_noise,
                                  sizeof(float) * plans[i]->tensors[members[i].noise].rows *
                                      plans[i]->tensors[members[i].noise].columns,
                                  &err) == DIT_OK);
    }
    good = good && CHECK_MESSAGE(diti_mesh_create(context->peers, plans, NULL, count, &mesh, &err) == DIT_OK, "%s",
                                 err.message);
    good = good && CHECK_MESSAGE(run_plans(mesh, plans, count, 0, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < count && good; i++) {
        CHECK(diti_plan_exchange_bytes(members[i].plan, 0, UINT32_MAX) == diti_mesh_bytes(mesh, i, UINT32_MAX));
        sent += diti_mesh_bytes(mesh, i, UINT32_MAX);
        read_clip(&members[i], vae, c, out, &pixels);
    }
    CHECK(pixels == made_pixels(vae, c));
    diti_mesh_destroy(mesh);
    for (i = 0; i < count; i++) diti_plan_destroy(members[i].plan);
    return sent;
}

/* The bytes of one device, whatever the others. */
static void check_clip(dit_context *context, const clip_case *c, const uint32_t *counts, const float *weights) {
    diti_checkpoint *file = NULL;
    diti_vae *vae = load_clips(context, c, &file);
    uint32_t i, values;
    if (!vae) return;
    values = made_pixels(vae, c) * made_columns(vae, c);
    if (CHECK(values <= DITI_COUNT(clip_out[0])) && CHECK(decode_clip(context, vae, c, 1, NULL, clip_out[0]) == 0))
        for (i = 0; counts[i]; i++) {
            uint64_t sent;
            double error;
            memset(clip_out[1], 0, sizeof clip_out[1]);
            sent = decode_clip(context, vae, c, counts[i], weights, clip_out[1]);
            error = relative_l2(clip_out[1], clip_out[0], NULL, values);
            printf("%s%s, %u frames of %ux%u%s on %u devices%s: relative L2 %.2g, %llu bytes\n", c->path,
                   c->encode ? " encodes" : "", c->frames, c->height, c->width, c->tile ? " in tiles" : "", counts[i],
                   weights ? ", unequal" : "", error, (unsigned long long)sent);
            CHECK_MESSAGE(error == 0, "%s%s on %u devices: %g", c->path, c->encode ? " encodes" : "", counts[i], error);
            CHECK(sent > 0 || !vae->kind); /* whole frames are sent before and behind */
        }
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
}

enum { WIDE = 1, NARROW = 2 };
static void check_clips(const char *overrides, const uint32_t *counts, const float *weights, int which) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    size_t i;
    desc.devices = counts[1] ? "llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe,llvmpipe"
                             : "llvmpipe,llvmpipe,llvmpipe";
    desc.overrides = overrides;
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message))
        for (i = 0; i < DITI_COUNT(clips); i++)
            if ((i < QUICK || whole_sweep()) && (which & (clips[i].wide ? WIDE : NARROW)))
                check_clip(context, &clips[i], counts, weights);
    dit_context_destroy(context);
}

int main(void) {
    static const float unequal[DITI_MAX_DEVICES] = {1, 2.5f, 0.6f, 1, 1, 3, 1, 0.2f};
    static const uint32_t three[] = {3, 0}, all[] = {2, 3, 4, 8, 0};
    uint32_t i, state = 1;
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    for (i = 0; i < DITI_COUNT(clip_latent) + DITI_COUNT(clip_noise); i++) { /* with an offset */
        float *to = i < DITI_COUNT(clip_latent) ? &clip_latent[i] : &clip_noise[i - DITI_COUNT(clip_latent)];
        state = state * 1664525u + 1013904223u;
        *to = (float)(state >> 8) / (float)(1 << 23) - 0.5f;
    }
    check_clips("rung=base", three, unequal, WIDE | NARROW);
    if (whole_sweep()) {
        check_clips("rung=base,storage_range=192K", all, NULL, NARROW);
        check_clips("rung=base,storage_range=1024K", all, NULL, WIDE);
        check_clips("rung=base", all, unequal, WIDE | NARROW);
        check_clips("rung=fp16", all, NULL, WIDE | NARROW);
    }
    test_vulkan_end();
    return TEST_END("split_clips");
}
