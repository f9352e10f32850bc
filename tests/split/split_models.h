/* Models whose splits and requests are tested, by name: generated ones with as many heads and layers as a split needs,
   and fixtures of every family. Include it after split_job.h. */
#ifndef SPLIT_MODELS_H
#define SPLIT_MODELS_H
#include "split_job.h"

static const generated_model shapes[] = {
    {"pixart8", "pixart", 8, 16, 8, 0, 0, false},   {"pixart30", "pixart", 30, 8, 8, 0, 0, false},
    {"dit8", "dit", 8, 16, 8, 0, 0, false},         {"sd3-8", "sd3", 8, 16, 8, 0, 0, false},
    {"sd35-24", "sd3", 24, 8, 8, 0, 3, true},       {"flux8", "flux", 8, 16, 4, 4, 0, true},
    {"flux24", "flux", 24, 8, 3, 5, 0, true},       {"hunyuan8", "hunyuandit", 8, 16, 8, 0, 0, false},
    {"z-image30", "zimage", 30, 8, 4, 0, 0, false}, {"hunyuan16", "hunyuandit", 16, 8, 8, 0, 0, false},
    {"krea2-48", "krea2", 48, 8, 4, 0, 0, false},   {"cogvideox 1.5 clip", "cogvideox15", 3, 64, 3, 0, 0, false},
    {"ernie12", "ernie", 12, 16, 4, 0, 0, false},   {"kandinsky12", "kandinsky", 12, 16, 4, 0, 0, false},
};

typedef struct fixture { /* a file or folder, or the model of that name among shapes; and what it lacks */
    const char *name, *path;
    uint32_t channels;   /* 4, 8, 16, 64 or 128: the decoder that is added; 0: it has one */
    uint32_t frames;     /* of a clip; 0: pictures are made */
    bool begins;         /* with a picture */
    bool unguided, even; /* made without guidance; its prompts have one length */
} fixture;
static const fixture fixtures[] = {
    {"bundled", bundled, 0, 0, false, false, false},
    {"pixart-sigma", tiny, 0, 0, false, false, false},
    {"dit", "tests/fixtures/pipe_dit", 0, 0, false, false, false},
    {"sd35-odd", "tests/fixtures/sd35_odd", 16, 0, false, false, false},
    {"flux-sdcpp", "tests/fixtures/gguf_flux_sdcpp/model.gguf", 16, 0, false, false, false},
    {"hunyuandit", "tests/fixtures/hunyuandit_v12", 4, 0, false, false, false},
    {"wan", "tests/fixtures/wan", 16, 0, false, false, false},
    {"zimage", "tests/fixtures/pipe_zimage", 0, 0, false, false, false},
    {"klein", "tests/fixtures/pipe_flux2_klein", 0, 0, false, false, false},
    {"qwen-image", "tests/fixtures/qwenimage", 16, 0, false, false, false},
    {"qwen-image of even prompts", "tests/fixtures/qwenimage", 16, 0, false, false, true},
    {"qwen-image unguided", "tests/fixtures/qwenimage", 16, 0, false, true, false},
    {"qwen-image-21", "tests/fixtures/qwenimage21", 64, 0, false, false, false},
    {"sana", "tests/fixtures/sana", 8, 0, false, false, false},
    {"lumina2", "tests/fixtures/lumina2", 16, 0, false, false, false},
    {"boogu", "tests/fixtures/pipe_boogu/transformer", 16, 0, false, false, false},
    {"krea2", "tests/fixtures/pipe_krea2", 0, 0, false, false, false},
    {"chroma", "tests/fixtures/pipe_chroma/transformer", 16, 0, false, false, false},
    {"ernie", "tests/fixtures/pipe_ernie", 0, 0, false, false, false},
    {"ernie of even prompts", "tests/fixtures/pipe_ernie", 0, 0, false, false, true},
    {"ernie12", NULL, 128, 0, false, true, false},
    {"longcat", "tests/fixtures/pipe_longcat/transformer", 16, 0, false, false, true},
    {"ovis", "tests/fixtures/pipe_ovis/transformer", 16, 0, false, false, false},
    {"kandinsky", "tests/fixtures/pipe_kandinsky", 0, 0, false, false, false},
    {"kandinsky12", NULL, 16, 0, false, true, false},
    {"flux3", "tests/fixtures/pipe_flux3/transformer", 128, 0, false, false, false},
    {"ideogram4", "tests/fixtures/pipe_ideogram4/transformer", 128, 0, false, false, false},
    {"wan clip", "tests/fixtures/wan", 16, 5, false, false, false},
    {"short clip", "tests/fixtures/pipe_latte/transformer", 4, 2, false, false, false},
    {"ltx from a picture", "tests/fixtures/pipe_ltx", 0, 9, true, false, false},
    {"stdit1 clip", "tests/fixtures/stdit1", 4, 5, false, false, false},
    {"stdit2 clip", "tests/fixtures/pipe_opensora11/transformer", 4, 5, false, false, false},
    {"stdit3 clip", "tests/fixtures/pipe_opensora12/transformer", 4, 5, false, false, false},
    {"latte clip", "tests/fixtures/pipe_latte/transformer", 4, 5, false, false, false},
    {"plan clip", "tests/fixtures/osp11_lattet2v_rope", 4, 5, false, false, false},
    {"cogvideox clip", "tests/fixtures/pipe_cogvideox_2b/transformer", 16, 5, false, false, false},
    {"cogvideox from a picture", "tests/fixtures/cogvideox_5b_i2v", 16, 9, true, false, false},
    {"cogvideox 1.5 clip", NULL, 16, 5, false, false, false},
    {"wan 2.2 clip", "tests/fixtures/wan22_ti2v", 48, 5, false, false, false},
    {"wan 2.2 from a picture", "/pipe_wan22_ti2v", 0, 5, true, false, false},
    {"wan from a picture", "tests/fixtures/pipe_wan22_i2v_a14b", 0, 5, true, false, false},
    {"vace from a picture", "tests/fixtures/wan_vace/transformer", 16, 5, true, false, false},
    {"anima", "tests/fixtures/pipe_anima", 0, 0, false, false, false},
    {"ltx clip", "tests/fixtures/pipe_ltx", 0, 9, false, false, false},
    {"ltx2 clip", "tests/fixtures/pipe_ltx2", 0, 9, false, false, false},
    {"ltx2 mirrored", "tests/fixtures/pipe_ltx2_0", 0, 9, false, false, false},
    {"ltx2 from a picture", "tests/fixtures/pipe_ltx2", 0, 9, true, false, false},
    {"hunyuanvideo clip", "tests/fixtures/hunyuanvideo", 16, 5, false, false, false},
    {"minimax clip", "tests/fixtures/pipe_minimax_h3", 0, 22, false, true, false},
    {"kandinsky clip", "tests/fixtures/pipe_kandinsky_t2v/transformer", 16, 5, false, false, false},
    {"hunyuanvideo 1.5 clip", "tests/fixtures/pipe_hunyuanvideo15/transformer", 4, 5, false, false, false},
    {"hunyuanvideo 1.5 unguided", "tests/fixtures/pipe_hunyuanvideo15/transformer", 4, 5, false, true, false},
    {"pixart-alpha", "/pipe_pixart_alpha", 0, 0, false, false,
     false}, /* below the folder that is named on the command line */
    {"sd35-medium", "/sd35m", 16, 0, false, false, false},
    {"flux-schnell", "/flux_schnell", 16, 0, false, false, false},
    {"hunyuandit-pipe", "/pipe_hunyuandit", 0, 0, false, false, false},
};
static const char *fixture_folder;

static inline const fixture *find_fixture(const char *name) {
    size_t i;
    for (i = 0; i < DITI_COUNT(fixtures); i++)
        if (!strcmp(fixtures[i].name, name)) return &fixtures[i];
    return NULL;
}

static inline const generated_model *find_shape(const char *name) {
    size_t i;
    for (i = 0; i < DITI_COUNT(shapes); i++)
        if (!strcmp(shapes[i].name, name)) return &shapes[i];
    return NULL;
}

static inline bool load_fixture(maker *m, const fixture *f, dit_model_desc desc) {
    dit_component components[3];
    char path[300];
    snprintf(path, sizeof path, "%s%s", f->path[0] == '/' ? fixture_folder : "", f->path);
    memset(components, 0, sizeof components);
    components[0].role = DIT_ROLE_TRANSFORMER;
    components[0].source.path = path;
    components[1].role = DIT_ROLE_VAE;
    components[1].source.path = f->channels == 8 ? "tests/fixtures/vae_dcae"
                                : !f->begins     ? GENERATED_VAE
                                : strstr(f->path, "cogvideox") /* these encode, too */
                                    ? "tests/fixtures/pipe_cogvideox_2b/vae"
                                    : "tests/fixtures/pipe_wan22_i2v_a14b/vae";
    if (f->channels >= 16 && !f->begins) {
        m->decoder = generated_wide_vae(f->channels);
        components[1].source = memory_source(&m->decoder);
    }
    components[2].role = DIT_ROLE_TRANSFORMER_2;
    components[2].source.path = "tests/fixtures/pipe_ideogram4/unconditional_transformer";
    if (!f->channels) {
        desc.source.path = path;
    } else {
        desc.components = components;
        desc.component_count = strcmp(f->name, "ideogram4") ? 2 : 3;
    }
    return CHECK_MESSAGE(load_denoiser(m, NULL, DIT_TYPE_STORED, desc) == DIT_OK, "%s", err.message);
}

/* Random weights predict no noise; in a flow's steps latents keep their size all the same. All are as long, so that
   each counts. */
static inline bool take_flow(maker *m) {
    static const char flow[] = "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"shift\": 3.0}";
    diti_json_free(&m->model->env, m->model->scheduler);
    m->model->scheduler = NULL;
    m->model->transformer->traits.uniform_sigmas = true;
    return CHECK(diti_json_parse(&m->model->env, flow, sizeof flow - 1, "flow", &m->model->scheduler, &err) == DIT_OK);
}

/* ---- what is drawn ---- */

static uint64_t drawn; /* the state; 0: nothing is drawn, but taken from a table */

static inline uint32_t draw(uint32_t below) {
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % below;
}

/* Whether it lies below the folder that is named on the command line, and none is. */
static inline bool is_absent(const char *name) {
    const fixture *f = find_fixture(name);
    return f && f->path && f->path[0] == '/' && !fixture_folder;
}

/* The name of any model that is there. */
static inline const char *draw_model(void) {
    const uint32_t count = (uint32_t)(DITI_COUNT(shapes) + DITI_COUNT(fixtures));
    const char *name;
    do {
        uint32_t model = draw(count);
        name = model < DITI_COUNT(shapes) ? shapes[model].name : fixtures[model - DITI_COUNT(shapes)].name;
    } while (is_absent(name));
    return name;
}

/* how: what is asked for beside the model itself; zero: nothing. */
static inline bool load_listed(maker *m, const char *name, dit_model_desc how) {
    const fixture *f = find_fixture(name);
    const generated_model *shape = find_shape(name);
    if (f && f->path && !load_fixture(m, f, how)) return false;
    if (shape &&
        (!CHECK_MESSAGE(load_denoiser(m, shape, DIT_TYPE_STORED, how) == DIT_OK, "%s", err.message) || !take_flow(m)))
        return false;
    if (!CHECK_MESSAGE(m->model, "there is no model %s", name)) return false;
    shorten_texts(m->model);
    if (f && f->unguided) m->model->transformer->traits.default_guidance = 1;
    if (f && f->frames) return take_flow(m);
    m->model->transformer->traits.default_frames = 0; /* clips of one frame are made as pictures are */
    return true;
}

/* A request of the model: a clip where it makes clips, with a picture in front where it begins with one. */
static inline asked ask_listed(const maker *m, const char *name, uint32_t columns, uint32_t rows, uint32_t images,
                               uint32_t steps) {
    static uint8_t rgba[4 * 256 * 256];
    static dit_image image;
    const fixture *f = find_fixture(name);
    asked a = {0, 0, 0, 0, 0, 0, 0, "euler", false, 0, NULL};
    size_t i;
    a.columns = columns;
    a.rows = rows;
    a.images = images;
    a.steps = steps;
    if (f) a.frames = f->frames;
    if (!f || !f->begins) return a;
    for (i = 0; i < sizeof rgba; i++) rgba[i] = (uint8_t)(i * 37 % 251);
    image.rgba = rgba;
    image.width = columns * m->model->info.size_multiple;
    image.height = rows * m->model->info.size_multiple;
    a.begins = &image;
    return a;
}
#endif
