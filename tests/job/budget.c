/* One block, one layer and one step have a budget: the dispatches and the bytes that they move, counted on the graph of
   the bundled model, are compared with numbers derived here. No device is needed: the graph is that of an imaginary
   GPU.
   test-runs: plain */
#include "library.h"
#include "text/t5.c"
#include "model/pixart.c"
#include "job/inspect.c"
#include "files.h"
#include "test.h"

#define MODEL "models/emoji-q8_0.gguf"
#define LATTE "tests/fixtures/pipe_latte/transformer/"
#define STDIT "tests/fixtures/stdit"
#define STDIT2 "tests/fixtures/pipe_opensora11/transformer/"
#define STDIT3 "tests/fixtures/pipe_opensora12/transformer/"

typedef struct budget_line { /* one dispatch */
    const char *name;
    double bytes;
} budget_line;

typedef struct picture {
    dit_model *model;
    dit_job job;
    diti_share share;
    diti_device device;
    diti_graph graph;
} picture;

static bool picture_open(picture *p, const dit_type_rule *rule) {
    dit_model_desc md = {0};
    dit_job_desc jd = {0};
    dit_error err = {0};
    memset(p, 0, sizeof *p);
    md.source.path = MODEL;
    md.dry_run = true;
    md.types = rule;
    md.type_count = rule ? 1 : 0;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &md, &p->model, &err) == DIT_OK, "%s", err.message)) return false;
    jd.model = p->model;
    jd.prompt = "a fox";
    p->job.model = p->model;
    p->job.env = p->model->env;
    p->share.job = &p->job;
    if (!CHECK_MESSAGE(diti_job_request_make(p->model, &p->job.env, &jd, NULL, &p->job.request, &err) == DIT_OK, "%s",
                       err.message))
        return false;
    diti_assign(&p->job.request.shape, false, 0, 1, &p->share.assignment);
    diti_job_imaginary_device(p->model, &p->device);
    diti_graph_init(&p->graph, &p->device);
    diti_share_emit(&p->share, &p->graph);
    return CHECK_MESSAGE(!diti_graph_failed(&p->graph), "%s", p->graph.error.message);
}

static void picture_close(picture *p) {
    diti_graph_free(&p->graph);
    diti_free(&p->job.env, p->share.program.step.family);
    diti_job_request_free(&p->job.env, &p->job.request);
    dit_model_destroy(p->model);
}

/* The next dispatch from *at on that is not the expansion of a packed weight, which only packed types have and which
   moves no activation. */
static const diti_dispatch *next_dispatch(const picture *p, uint32_t *at) {
    while (*at < p->graph.dispatch_count && !strcmp(p->graph.dispatches[*at].name, "expand")) (*at)++;
    return *at < p->graph.dispatch_count ? &p->graph.dispatches[(*at)++] : NULL;
}

/* Exactly these dispatches in this order; bytes 0: any. Returns the bytes of all. */
static double spend(const picture *p, uint32_t *at, const budget_line *lines, uint32_t count, const char *what) {
    double sum = 0;
    uint32_t i;
    for (i = 0; i < count; i++) {
        const diti_dispatch *got = next_dispatch(p, at);
        const char *name = got ? got->name : "nothing";
        if (!CHECK_MESSAGE(!strcmp(name, lines[i].name), "%s: %s where the budget has %s", what, name, lines[i].name))
            return sum;
        CHECK_MESSAGE(lines[i].bytes == 0 || got->memory_bytes == lines[i].bytes,
                      "%s: %s moves %.0f bytes, its budget is %.0f", what, name, got->memory_bytes, lines[i].bytes);
        sum += got->memory_bytes;
    }
    return sum;
}

#define SPEND(PICTURE, AT, LINES, WHAT) spend(PICTURE, AT, LINES, sizeof(LINES) / sizeof *(LINES), WHAT)

/* Floating-point weights. R rows of D channels; the residual stream is F32, all else F16, 2 bytes, weights too. Every
   operand is read once and every result written once; nothing stands between two products but what needs whole rows
   (norms) or all rows (attention):
     norm      reads the stream 4RD, shift and scale 8D; writes 2RD
     qkv       reads 2RD, weight 6DD, bias 12D; writes 6RD
     attention reads 6RD, writes 2RD
     out       reads 2RD, weight 2DD, bias and gate 4D each, the stream 4RD; writes it 4RD
     text_q    reads the stream 4RD, weight 2DD, bias 4D; writes 2RD
     text attention reads 2RD, keys and values of T text rows 4TD, a table of two items; writes 2RD
     text_out  as out, without a gate
     ff_in     reads 2RD, weight 8DD, bias 16D; writes 8RD
     ff_out    reads 8RD, weight 8DD, bias and gate 4D each, the stream 4RD; writes it 4RD
   Together 84RD + 4TD + 28DD + 68D + 32 bytes. */
static void check_block(const picture *p, uint32_t *at, double R, double T, double D) {
    const budget_line lines[] = {
        {"norm1", 6 * R * D + 8 * D},
        {"qkv", 8 * R * D + 6 * D * D + 12 * D},
        {"attention", 8 * R * D},
        {"attention_out", 10 * R * D + 2 * D * D + 8 * D},
        {"text_q", 6 * R * D + 2 * D * D + 4 * D},
        {"text_attention", 4 * R * D + 4 * T * D + 32},
        {"text_out", 10 * R * D + 2 * D * D + 4 * D},
        {"norm2", 6 * R * D + 8 * D},
        {"ff_in", 10 * R * D + 8 * D * D + 16 * D},
        {"ff_out", 16 * R * D + 8 * D * D + 8 * D},
    };
    double sum = SPEND(p, at, lines, "block");
    CHECK_MESSAGE(sum == 84 * R * D + 4 * T * D + 28 * D * D + 68 * D + 32, "a block moves %.0f bytes", sum);
}

static void check_step(const picture *p) {
    static const budget_line begin[] = {
        {"select_modulation", 0}, {"patchify", 0}, {"patch_embed", 0}, {"patch_embed", 0}};
    static const budget_line end[] = {
        {"norm_out", 0}, {"proj_out", 0},    {"unpatchify", 0},  {"select coefficients", 0},
        {"judge", 0},    {"solver step", 0}, {"advance step", 0}}; /* judge: a workgroup that looks at guards */
    const diti_pixart *model = (const diti_pixart *)(const void *)p->model->transformer;
    const diti_segment *segment = &p->graph.segments[p->share.program.step_segment];
    uint32_t at = segment->first, i, tokens = p->share.program.step.height * p->share.program.step.width / 4;
    SPEND(p, &at, begin, "step");
    for (i = 0; i < model->config.blocks; i++)
        check_block(p, &at, 2.0 * tokens, p->job.request.shape.encoded_rows, model->config.width);
    SPEND(p, &at, end, "step");
    CHECK_MESSAGE(at == segment->first + segment->count, "%u dispatches more in a step",
                  segment->first + segment->count - at);
}

/* The budget of an encoder layer with R rows of D channels, I in the heads, H in the feed-forward; bias: the table of
   relative positions.
     norm  reads 4RD, weight 4D; writes 2RD              qkv  reads 2RD, weight 6DI; writes 6RI
     attention  reads 6RI, bias, items; writes 2RI       out  reads 2RI, weight 2DI, the stream 4RD; writes it 4RD
     up    reads 2RD, weight 2DH; writes 2RH             gate the same, and reads what up wrote, 2RH
     down  reads 2RH, weight 2DH, the stream 4RD; writes it 4RD */
static void check_encoder(const picture *p) {
    static const budget_line begin[] = {{"gather rows", 0}}, end[] = {{"t5_final_norm", 0}, {"judge", 0}};
    const diti_t5_config *t5 = &((const diti_t5 *)p->model->encoders[0].self)->config;
    const diti_segment *segment = &p->graph.segments[p->share.program.encode_segment];
    double R = p->job.request.shape.encoded_rows, D = t5->columns, I = t5->inner, H = t5->hidden;
    double bias = 4.0 * t5->heads * (2 * p->share.program.text.encoders[0].tokens - 1),
           items = 16.0 * p->share.program.text.encoders[0].batch;
    const budget_line layer[] = {
        {"t5_norm1", 6 * R * D + 4 * D},
        {"t5_qkv", 2 * R * D + 6 * D * I + 6 * R * I},
        {"t5_attention", 8 * R * I + bias + items},
        {"t5_attention_out", 2 * R * I + 2 * D * I + 8 * R * D},
        {"t5_norm2", 6 * R * D + 4 * D},
        {"t5_up", 2 * R * D + 2 * D * H + 2 * R * H},
        {"t5_gate", 2 * R * D + 2 * D * H + 4 * R * H},
        {"t5_down", 2 * R * H + 2 * D * H + 8 * R * D},
    };
    uint32_t at = segment->first, i;
    SPEND(p, &at, begin, "encoder");
    for (i = 0; i < t5->blocks; i++) SPEND(p, &at, layer, "layer");
    SPEND(p, &at, end, "encoder");
    CHECK(at == segment->first + segment->count);
}

/* Int8: the norms write int8 rows for their readers; what no norm produced is quantized by a pass of its own, since the
   scale of a row wants the row's largest value: the outputs of both attentions and of GELU, and the stream for the
   queries. */
static void check_int8(const picture *p) {
    static const budget_line block[] = {
        {"norm1", 0},    {"qkv", 0},    {"attention", 0},      {"quantize", 0}, {"attention_out", 0},
        {"quantize", 0}, {"text_q", 0}, {"text_attention", 0}, {"quantize", 0}, {"text_out", 0},
        {"norm2", 0},    {"ff_in", 0},  {"quantize", 0},       {"ff_out", 0},
    };
    uint32_t at = p->graph.segments[p->share.program.step_segment].first, i;
    for (i = 0; i < 4; i++) next_dispatch(p, &at); /* to the first block */
    SPEND(p, &at, block, "int8 block");
    SPEND(p, &at, block, "int8 block");
}

/* Decoding: every dispatch is a product, an attention, a group norm (sums, their sums, and the norm with SiLU in one:
   a mean over all pixels cannot be known earlier) or the way in or out. */
static void check_decode(const picture *p) {
    static const char *const allowed[] = {"planes to rows", "vae_", "image", "judge"};
    const diti_segment *segment = &p->graph.segments[p->share.program.decode_segment];
    uint32_t at = segment->first, i, norms = 0, products = 0, resnets = 0;
    while (at < segment->first + segment->count) {
        const diti_dispatch *got = next_dispatch(p, &at);
        for (i = 0; i < 4 && strncmp(got->name, allowed[i], strlen(allowed[i])); i++) {
        }
        CHECK_MESSAGE(i < 4, "decoding has an op %s", got->name);
        norms += strstr(got->name, "norm") != NULL;
        products += got->flops > 0;
        resnets += !strcmp(got->name, "vae_conv1");
    }
    CHECK(resnets > 0 && norms == 3 * (2 * resnets + 2)); /* two for each, attention, output */
    CHECK_MESSAGE(segment->count > products && at == segment->first + segment->count, "%u products", products);
}

/* Once per picture, whatever the steps: the modulation of all blocks and steps, keys and values of all blocks. */
static void check_prepare(const picture *p) {
    const diti_pixart *model = (const diti_pixart *)(const void *)p->model->transformer;
    const diti_segment *segment = &p->graph.segments[p->share.program.encode_segment + 1];
    uint32_t at = segment->first, tables = 0, keys = 0, products = 0;
    while (at < segment->first + segment->count) {
        const diti_dispatch *got = next_dispatch(p, &at);
        tables += !strcmp(got->name, "block_modulation");
        keys += !strcmp(got->name, "text_kv");
        products += got->flops > 0;
    }
    CHECK(tables == model->config.blocks && keys == model->config.blocks);
    CHECK_MESSAGE(products == model->config.blocks + 5, "%u products",
                  products); /* caption 2, timestep 2, modulation */
}

/* --- joint attention: nothing stands between the ops of a block, above all nothing that puts text and image together,
   or takes them apart; two products where both have weights of their own --- */

/* config: path of its config.json; NULL: shapes say all. frames: of a clip; 0: a picture. */
static bool evaluation_open(picture *p, const char *path, const char *config, uint32_t copies, uint32_t frames,
                            diti_transformer **model) {
    diti_env env = test_env(NULL);
    size_t size = 0;
    char *text = config ? test_read_file(config, &size) : NULL;
    diti_json *json = NULL;
    diti_checkpoint *file = NULL;
    dit_source source = {0};
    dit_error err = {0};
    diti_step_desc *d = &p->share.program.step;
    source.path = path;
    if (text) CHECK(diti_json_parse(&env, text, size, config, &json, &err) == DIT_OK);
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &file, &err) == DIT_OK &&
                      diti_transformer_load(NULL, &env, json, file, "", NULL, model, &err) == DIT_OK,
                  "%s: %s", path, err.message);
    diti_json_free(&env, json);
    free(text);
    diti_checkpoint_close(file);
    if (!*model) return false;
    diti_graph_init(&p->graph, &p->device);
    diti_graph_segment(&p->graph, "prepare", false);
    memset(d, 0, sizeof *d);
    d->batch = 1;
    d->steps = 3;
    d->branches = d->text_batch = copies;
    d->height = 16;
    d->width = 24;
    d->text_tokens = 7;
    d->frames = frames;
    d->latent = diti_tensor_state(&p->graph, DITI_F32, (*model)->traits.latent_channels,
                                  (frames ? frames : 1) * 16 * 24, "latent");
    if (frames) d->text_items = diti_tensor_state(&p->graph, DITI_U32, copies, DITI_ITEM_WORDS, "prompts");
    d->text = diti_tensor_state(&p->graph, DITI_F32, copies * 7, (*model)->traits.text_columns, "text");
    if (!frames) d->pooled = diti_tensor_state(&p->graph, DITI_F32, copies, (*model)->traits.pooled_columns, "pooled");
    d->row = diti_tensor_state(&p->graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(*model, &p->graph, d);
    diti_graph_segment(&p->graph, "step", true);
    diti_transformer_step(*model, &p->graph, d);
    return CHECK_MESSAGE(!diti_graph_failed(&p->graph), "%s", p->graph.error.message);
}

static bool joint_open(picture *p, const char *path, uint32_t copies, diti_transformer **model) {
    return evaluation_open(p, path, NULL, copies, 0, model);
}

static void joint_close(picture *p, diti_transformer *model) {
    diti_env env = test_env(NULL);
    diti_graph_free(&p->graph);
    diti_free(&env, p->share.program.step.family);
    p->share.program.step.family = NULL;
    diti_transformer_destroy(model);
}

/* One branch of FLUX: one double block, two single blocks. */
static void check_flux(picture *p) {
    static const budget_line begin[] = {{"select_modulation", 0}, {"select_modulation", 0}, {"select_modulation", 0},
                                        {"patchify", 0},          {"text_embed", 0},        {"patch_embed", 0}};
    static const budget_line both[] = {{"norm1", 0},     {"text_qkv", 0},      {"qkv", 0},           {"qkv_post", 0},
                                       {"attention", 0}, {"attention_out", 0}, {"attention_out", 0}, {"norm2", 0},
                                       {"ff_in", 0},     {"ff_in", 0},         {"ff_out", 0},        {"ff_out", 0}};
    static const budget_line single[] = {{"norm", 0},      {"qkv", 0},   {"qkv_post", 0},
                                         {"attention", 0}, {"ff_in", 0}, {"out", 0}};
    static const budget_line end[] = {{"select_modulation", 0}, {"norm_out", 0}, {"proj_out", 0}, {"unpatchify", 0}};
    diti_transformer *model = NULL;
    uint32_t at;
    if (joint_open(p, "tests/fixtures/gguf_flux_sdcpp/model.gguf", 1, &model)) {
        at = p->graph.segments[1].first;
        SPEND(p, &at, begin, "FLUX");
        SPEND(p, &at, both, "double block");
        SPEND(p, &at, single, "single block");
        SPEND(p, &at, single, "single block");
        SPEND(p, &at, end, "FLUX");
        CHECK(next_dispatch(p, &at) == NULL);
    }
    joint_close(p, model);
}

/* Two branches of SD3.5: two blocks in which the image attends itself, too, and the last one, from which text does not
   come out. An op that both streams share runs once for both branches; an op that one stream has alone runs once for
   each branch. */
static void check_sd3(picture *p) {
    static const budget_line begin[] = {{"select_modulation", 0}, {"select_modulation", 0}, {"select_modulation", 0},
                                        {"patchify", 0},          {"text_embed", 0},        {"patch_embed", 0},
                                        {"text_embed", 0},        {"patch_embed", 0}};
    static const budget_line dual[] = {{"image_norm", 0},
                                       {"image_norm", 0},
                                       {"norm1", 0},
                                       {"text_qkv", 0},
                                       {"text_qkv", 0},
                                       {"qkv", 0},
                                       {"qkv", 0},
                                       {"qkv_post", 0},
                                       {"attention", 0},
                                       {"attention_out", 0},
                                       {"attention_out", 0},
                                       {"attention_out", 0},
                                       {"attention_out", 0},
                                       {"image_qkv", 0},
                                       {"qkv_post", 0},
                                       {"attention", 0},
                                       {"image_attention_out", 0},
                                       {"image_attention_out", 0},
                                       {"norm2", 0},
                                       {"ff_in", 0},
                                       {"ff_in", 0},
                                       {"ff_in", 0},
                                       {"ff_in", 0},
                                       {"ff_out", 0},
                                       {"ff_out", 0},
                                       {"ff_out", 0},
                                       {"ff_out", 0}};
    static const budget_line last[] = {{"norm1", 0},         {"text_qkv", 0}, {"text_qkv", 0},  {"qkv", 0},
                                       {"qkv", 0},           {"qkv_post", 0}, {"attention", 0}, {"attention_out", 0},
                                       {"attention_out", 0}, {"norm2", 0},    {"norm2", 0},     {"ff_in", 0},
                                       {"ff_out", 0},        {"ff_out", 0}};
    static const budget_line end[] = {
        {"select_modulation", 0}, {"norm_out", 0}, {"norm_out", 0}, {"proj_out", 0}, {"unpatchify", 0}};
    diti_transformer *model = NULL;
    uint32_t at;
    if (joint_open(p, "tests/fixtures/sd35_odd/model.safetensors", 2, &model)) {
        at = p->graph.segments[1].first;
        SPEND(p, &at, begin, "SD3");
        SPEND(p, &at, dual, "dual block");
        SPEND(p, &at, dual, "dual block");
        SPEND(p, &at, last, "last block");
        SPEND(p, &at, end, "SD3");
        CHECK(next_dispatch(p, &at) == NULL);
    }
    joint_close(p, model);
}

/* Attention within frames and within positions reads queries, keys and values where the product has left them: between
   the two nothing runs, above all nothing that copies the activation into another order, and the next product reads
   what attention has written. */
static void check_divided(picture *p, const char *path, const char *config, uint32_t attentions, const char *what) {
    diti_transformer *model = NULL;
    uint32_t at, count = 0;
    if (evaluation_open(p, path, config, 1, 4, &model)) {
        at = p->graph.segments[1].first;
        while (at < p->graph.dispatch_count) {
            const diti_dispatch *qkv = next_dispatch(p, &at), *got;
            if (!qkv || strcmp(qkv->name, "qkv") != 0) continue;
            got = next_dispatch(p, &at);
            if (got && !strcmp(got->name, "qkv_post")) got = next_dispatch(p, &at); /* norms and turns, in place */
            CHECK_MESSAGE(got && !strcmp(got->name, "attention"), "%s: %s between qkv and attention", what,
                          got ? got->name : "nothing");
            got = next_dispatch(p, &at);
            CHECK_MESSAGE(got && !strcmp(got->name, "attention_out"), "%s: %s behind attention", what,
                          got ? got->name : "nothing");
            count++;
        }
        CHECK_MESSAGE(count == attentions * model->traits.layers, "%s: %u attentions in %u layers", what, count,
                      model->traits.layers);
    }
    joint_close(p, model);
}

int main(void) {
    static const dit_type_rule int8 = {"transformer.*blocks.*", DIT_TYPE_I8_ROW};
    static picture p;
    if (picture_open(&p, NULL)) {
        check_encoder(&p);
        check_prepare(&p);
        check_step(&p);
        check_decode(&p);
    }
    picture_close(&p);
    if (picture_open(&p, &int8)) check_int8(&p);
    picture_close(&p);
    check_flux(&p);
    check_sd3(&p);
    check_divided(&p, LATTE "diffusion_pytorch_model.safetensors", LATTE "config.json", 2, "Latte");
    check_divided(&p, STDIT "1/model.safetensors", STDIT "1/config.json", 2, "STDiT");
    check_divided(&p, STDIT2 "model.safetensors", STDIT2 "config.json", 2, "STDiT2");
    check_divided(&p, STDIT3 "model.safetensors", STDIT3 "config.json", 2, "STDiT3");
    return TEST_END("budget");
}
