/* Matrices divided among devices, and weights that are only where they are needed: W8A8 and packed types against one
   device, memory of each device, bytes against their closed form, what cannot be divided; a model that no device holds.
   By hand: an argument is a folder with more packed models (gguf_sd35m_q8_0, gguf_sd35m_q6_k).
   test-runs: lavapipe */
#include "library.h"
#include "model/sd3.c"
#include "split_job.h"
#include "vulkan_test.h"

#define CALL_TOLERANCE 1e-5 /* the order of sums */
#define LATENT_TOLERANCE 1e-3
/* int8: sums in another order differ by 1e-7, and for that a value in ten thousand rounds to the next step, of 1 / 127
   of its row's largest; then others round differently in all layers behind it. Two devices so differ from one by what
   int8 rounds away at most, which floats tell. Scales are the same to the bit (test_scales). */

static bool full;

/* Rotated rows are cut between groups of 256 channels: heads of 32 have two such parts in 512. */
static const generated_model wide = {"pixart16", "pixart", 16, 32, 1, 0, 0, false},
                             narrow = {"pixart4", "pixart", 4, 32, 1, 0, 0, false};
static const generated_model joint = {"flux16", "flux", 16, 32, 1, 1, 0, true};

/* ---- a model on devices ---- */

typedef struct setup {
    const generated_model *shape; /* NULL: a file */
    const char *file;
    uint32_t devices;
    const char *overrides;
    VkDeviceSize limit;     /* of each device */
    dit_type type;          /* of linear layers */
    bool by_need, wide_vae; /* wide_vae: the file has none */
} setup;

static maker at;

/* Four devices serve every test that asks for no more and for nothing else: to open them and to make their pipelines
   takes longer than a test. */
enum { KEPT = 4 };
static dit_context *kept;

static bool open_context(const setup *s) {
    bool usual = s->devices <= KEPT && !s->overrides && !s->limit;
    const char *overrides = s->overrides ? s->overrides : "rung=base";
    at.context = usual ? kept : NULL;
    if (at.context) return true;
    if (!CHECK_MESSAGE(open_devices(&at, usual ? KEPT : s->devices, overrides, s->limit) == DIT_OK, "%s", err.message))
        return false;
    if (usual) kept = at.context;
    return true;
}

static void leave_maker(void) {
    close_model(&at);
    if (at.context != kept) dit_context_destroy(at.context);
    at.context = NULL;
}

static dit_result open_model(const setup *s) {
    dit_model_desc desc = DITI_ZERO;
    dit_component components[2];
    bytes vae = DITI_ZERO;
    dit_result result;
    memset(components, 0, sizeof components);
    if (!open_context(s)) return err.result;
    desc.weights_by_need = s->by_need;
    desc.source.path = s->file;
    components[0].source.path = s->file;
    components[0].role = DIT_ROLE_TRANSFORMER;
    if (s->wide_vae) {
        vae = generated_wide_vae(16);
        components[1].role = DIT_ROLE_VAE;
        components[1].source = memory_source(&vae);
        desc.source.path = NULL;
        desc.components = components;
        desc.component_count = 2;
    }
    result = load_denoiser(&at, s->shape, s->type, desc);
    bytes_free(&vae);
    return result;
}

/* ---- runs ---- */

enum { COLUMNS = 5, ROWS = 3 };

static dit_result run(const char *split, uint32_t steps, outcome *out) {
    asked a = {COLUMNS, ROWS, 1, 0, 0, 0, 0, "euler", false, 0, NULL};
    a.steps = steps;
    return run_asked(&at, &a, split, out);
}

/* Bytes that all devices send in a step: every sum over devices moves 2 (N - 1) n D values, and where layers are int8
   the largest magnitudes of n rows go from each to each. PixArt has 3 sums in a block, FLUX 2 in a double and 1 in a
   single one; SD3 has 2, in the last block over image rows alone, and one more where the image attends twice. */
static uint64_t closed_form(const setup *s, uint32_t members) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    uint64_t items = traits->default_guidance != 1.0f ? 2 : 1, image = items * COLUMNS * ROWS;
    uint64_t text = traits->joint ? items * at.model->texts[DITI_TEXT_FIRST].tokens : 0;
    uint64_t sums = 3 * traits->layers, rows, bytes, i;
    if (traits->joint) sums = 2 * traits->layers - traits->single_layers;
    rows = sums * (image + text);
    if (!strcmp(traits->family, "sd3")) {
        const diti_sd3 *model = diti_sd3_of(at.model->transformer);
        rows -= 2 * text;
        for (i = 0; i < traits->layers; i++) rows += diti_sd3_is_dual(&model->config, (uint32_t)i) ? image : 0;
    }
    bytes = rows * 2 * (members - 1) * traits->width * sizeof(float);
    if (s->type) bytes += rows * members * (members - 1) * sizeof(float);
    return bytes;
}

/* Bytes that all devices of a grid send in a step; a row of it has `inputs` devices. The D columns that second matrices
   of pairs make are summed over `members / inputs` devices, then gathered by all of a row. The columns that first
   matrices make (PixArt 3 D, D and 4 D; FLUX 3 D and 4 D; SD3 as many, 3 D more where image rows attend twice) are
   summed over `inputs` devices. */
static uint64_t grid_form(const setup *s, uint32_t members, uint32_t inputs) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    uint64_t items = traits->default_guidance != 1.0f ? 2 : 1, image = items * COLUMNS * ROWS, i;
    uint64_t text = traits->joint ? items * at.model->texts[DITI_TEXT_FIRST].tokens : 0, outs = members / inputs;
    uint64_t element = traits->width * sizeof(float), bytes, seconds;
    setup floats = *s;
    uint64_t firsts = (traits->joint ? 7 : 8) * traits->layers * (image + text);
    if (!strcmp(traits->family, "sd3")) {
        const diti_sd3 *model = diti_sd3_of(at.model->transformer);
        firsts -= 4 * text;
        for (i = 0; i < traits->layers; i++) firsts += diti_sd3_is_dual(&model->config, (uint32_t)i) ? 3 * image : 0;
    }
    floats.type = DIT_TYPE_STORED;
    seconds = closed_form(&floats, 2) / (2 * element);
    bytes = (seconds * (2 * (outs - 1) + outs * (inputs - 1)) + firsts * 2 * (inputs - 1)) * element;
    return bytes + (s->type ? seconds * members * (outs - 1) * sizeof(float) : 0);
}

static uint64_t split_form(const setup *s, const char *split, uint32_t members) {
    const char *grid = strchr(split, 'x');
    return grid ? grid_form(s, members, (uint32_t)atoi(grid + 1)) : closed_form(s, members);
}

/* Compares one evaluation and some steps with one device, and bytes with their closed form; each device must hold only
   its part of what is divided. */
static void check_split(const setup *s, const char *split, uint32_t members, double most_weights) {
    static outcome one, other, floats[4]; /* behind so many steps */
    setup plain = *s;
    uint32_t steps, i;
    uint64_t all, own;
    plain.type = DIT_TYPE_STORED;
    if (s->type && CHECK_MESSAGE(open_model(&plain) == DIT_OK, "%s", err.message))
        for (steps = 1; steps <= (full ? 3 : 1); steps += 2)
            CHECK_MESSAGE(run(NULL, steps, &floats[steps]) == DIT_OK, "floats: %s", err.message);
    if (s->type) leave_maker();
    if (CHECK_MESSAGE(open_model(s) == DIT_OK, "%s", err.message)) {
        const diti_weights *weights = &at.model->transformer->component.weights;
        all = weights->bytes + (weights->streamed ? weights->streamed->bytes : 0);
        for (steps = 1; steps <= (full ? 3 : 1); steps += 2) {
            double tolerance = steps == 1 ? CALL_TOLERANCE : LATENT_TOLERANCE;
            CHECK_MESSAGE(run(split, steps, &other) == DIT_OK, "%s: %s", split, err.message);
            for (i = s->by_need ? 0 : 1; i < members && steps == 1; i++) {
                own = other.weights[i] + (i ? 0 : weights->bytes);
                printf("device %u of %u has %.3f of the weights\n", i, members, (double)own / (double)all);
                CHECK((double)own <= most_weights * (double)all && own * 8 > all / members);
            }
            CHECK_MESSAGE(run(NULL, steps, &one) == DIT_OK, "alone: %s", err.message);
            printf("%s%s of %s: %u steps, relative L2 %.2g, %llu bytes\n", split, s->by_need ? ", by need" : "",
                   s->shape ? s->shape->name : s->file, steps, difference(&other, &one),
                   (unsigned long long)other.sent);
            if (s->type) {
                tolerance = difference(&one, &floats[steps]);
                printf("    int8 itself: %.2g\n", tolerance);
            }
            CHECK(difference(&other, &one) <= tolerance);
            CHECK_MESSAGE(other.planned == other.sent, "%llu bytes were planned", (unsigned long long)other.planned);
            if (!strchr(split, ','))
                CHECK_MESSAGE(other.in_step == split_form(s, split, members), "a step sends %llu bytes, not %llu",
                              (unsigned long long)other.in_step, (unsigned long long)split_form(s, split, members));
        }
    }
    leave_maker();
}

/* ---- tests ---- */

static void test_int8(void) {
    setup s = {&narrow, NULL, 4, NULL, 0, DIT_TYPE_I8_ROW, false, false};
    check_split(&s, "tensor2x2", 4, 0.6);
    if (!full) return;
    s.devices = 2;
    check_split(&s, "tensor2", 2, 0.7);
    s.shape = &wide;
    check_split(&s, "tensor2", 2, 0.7);
    s.type = DIT_TYPE_I8_ROW_ROTATED;
    check_split(&s, "tensor2", 2, 0.7);
    s.shape = &joint;
    check_split(&s, "tensor2", 2, 0.7);
    s.type = DIT_TYPE_I8_ROW;
    s.overrides = "rung=base,mapped=0,staging=8K,allocation=4M";
    s.devices = 4;
    s.by_need = true;
    check_split(&s, "tensor4", 4, 0.5);
    check_split(&s, "tensor2,ulysses2", 4, 0.7);
}

/* Halves of rows that agree in their largest values are quantized as whole rows are. */
static void check_scales(bool rotated) {
    enum { LINES = 5, WIDTH = 512 };
    static float x[LINES][WIDTH];
    static float whole[LINES][WIDTH], part[LINES][WIDTH / 2];
    diti_tensor input, table, made[3], opened[3];
    diti_plan *plan = NULL;
    diti_graph graph;
    uint32_t i, r, c, wrong = 0;
    for (r = 0; r < LINES; r++)
        for (c = 0; c < WIDTH; c++) x[r][c] = r == 4 ? 0 : sinf((float)(r * 977 + c * 31)) * (c == 37 + 90 * r ? 9 : 1);
    diti_graph_init(&graph, at.context->device);
    diti_graph_segment(&graph, "scales", false);
    input = diti_tensor_input(&graph, DITI_F32, LINES, WIDTH, "x");
    table = diti_tensor_new(&graph, DITI_F32, 2, LINES, "largest");
    for (i = 0; i < 2; i++)
        diti_copy(&graph,
                  diti_quantize_measure(&graph, diti_tensor_view(&graph, input, 0, LINES, i * WIDTH / 2, WIDTH / 2),
                                        rotated, "measure"),
                  diti_tensor_view(&graph, table, i, 1, 0, LINES), "largest");
    made[2] = diti_quantize(&graph, input, rotated, "quantize");
    for (i = 0; i < 2; i++)
        made[i] = diti_quantize_agreed(&graph, diti_tensor_view(&graph, input, 0, LINES, i * WIDTH / 2, WIDTH / 2),
                                       rotated, table, "quantize");
    for (i = 0; i < 3; i++) {
        opened[i] = diti_tensor_state(&graph, DITI_F32, LINES, i < 2 ? WIDTH / 2 : WIDTH, "values");
        diti_dequantize(&graph, made[i], opened[i], "values");
    }
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message)) {
        CHECK(diti_plan_write(plan, input, x, sizeof x, &err) == DIT_OK && diti_plan_run(plan, 0, 1, &err) == DIT_OK);
        CHECK_MESSAGE(diti_plan_read(plan, opened[2], whole, sizeof whole, &err) == DIT_OK, "%s", err.message);
        for (i = 0; i < 2; i++) {
            CHECK(diti_plan_read(plan, opened[i], part, sizeof part, &err) == DIT_OK);
            for (r = 0; r < LINES; r++) wrong += memcmp(part[r], whole[r] + i * WIDTH / 2, sizeof part[r]) != 0;
        }
        CHECK_MESSAGE(wrong == 0, "%u of %u rows differ", wrong, 2 * LINES);
    }
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
}

static void test_scales(void) {
    setup s = {NULL, NULL, 1, NULL, 0, DIT_TYPE_STORED, false, false};
    if (open_context(&s)) {
        check_scales(false);
        check_scales(true);
    }
    leave_maker();
}

static void test_packed(void) {
    setup s = {NULL, bundled, 2, NULL, 0, DIT_TYPE_STORED, true, false};
    check_split(&s, "tensor2", 2, 0.55);
    s.devices = 3;
    if (full) check_split(&s, "tensor3", 3, 0.45);
}

/* Two dimensions: each device has a quarter of every matrix, in both of them. */
static void test_grid(void) {
    setup s = {&narrow, NULL, 4, NULL, 0, DIT_TYPE_STORED, false, false};
    check_split(&s, "tensor2x2", 4, 0.5);
    check_split(&s, "tensor1x3", 3, 0.6);
    check_split(&s, "cfg2,tensor1x2", 4, 0.8);
    s.shape = &joint;
    check_split(&s, "tensor2x2", 4, 0.5);
    s.type = DIT_TYPE_I8_ROW_ROTATED;
    check_split(&s, "tensor2x2", 4, 0.6);
    s.shape = &wide;
    check_split(&s, "tensor2x2", 4, 0.6);
    s.type = DIT_TYPE_STORED;
    s.shape = NULL;
    s.file = bundled;
    s.by_need = true;
    check_split(&s, "tensor2x2", 4, 0.4);
}

/* Two devices hold what none of them can. */
static void test_need(void) {
    setup s = {NULL, bundled, 2, NULL, (VkDeviceSize)13 << 20, DIT_TYPE_STORED, false, false};
    static outcome out;
    CHECK(open_model(&s) == DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    leave_maker();
    s.by_need = true;
    if (CHECK_MESSAGE(open_model(&s) == DIT_OK, "%s", err.message)) {
        CHECK(at.model->info.streamed_bytes > s.limit - ((VkDeviceSize)4 << 20));
        CHECK(run(NULL, 1, &out) == DIT_ERROR_OUT_OF_DEVICE_MEMORY);
        CHECK_MESSAGE(run("tensor2", 1, &out) == DIT_OK, "%s", err.message);
    }
    leave_maker();
    if (full && CHECK_MESSAGE(open_model(&s) == DIT_OK, "%s", err.message)) { /* blocks instead of parts of each */
        CHECK_MESSAGE(run("layers2", 1, &out) == DIT_OK, "%s", err.message);
    }
    leave_maker();
}

static void test_refusals(void) {
    setup s = {NULL, bundled, 4, NULL, 0, DIT_TYPE_I8_ROW_ROTATED, true, false};
    dit_model_desc desc = DITI_ZERO;
    dit_model *model = NULL;
    static outcome out;
    if (CHECK_MESSAGE(open_model(&s) == DIT_OK, "%s", err.message)) {
        CHECK(run("tensor4", 1, &out) == DIT_ERROR_INVALID_ARGUMENT);
        CHECK_MESSAGE(strstr(err.message, "parted every 256") && !strchr(err.message, '\n'), "%s", err.message);
        printf("%s\n", err.message);
        CHECK(run("tensor1x2", 1, &out) == DIT_ERROR_INVALID_ARGUMENT);
        CHECK_MESSAGE(strstr(err.message, "parted every 256") && !strchr(err.message, '\n'), "%s", err.message);
        printf("%s\n", err.message);
        CHECK(run("tensor9x1", 1, &out) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "heads"));
        desc.source.path = bundled;
        desc.weights_by_need = true;
        desc.weight_budget = (VkDeviceSize)64 << 20;
        CHECK(dit_model_load(at.context, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT &&
              strstr(err.message, "weights_by_need"));
    }
    leave_maker();
}

static void test_folder(const char *folder) {
    static const char *const names[] = {"gguf_sd35m_q8_0", "gguf_sd35m_q6_k"};
    char path[400];
    size_t i;
    for (i = 0; i < DITI_COUNT(names); i++) {
        setup s = {NULL, path, 2, NULL, 0, DIT_TYPE_STORED, true, true};
        snprintf(path, sizeof path, "%s/%s/model.gguf", folder, names[i]);
        check_split(&s, "tensor2", 2, 0.9);
    }
}

int main(int argc, char **argv) {
    full = whole_sweep();
    test_vulkan_begin();
    if (argc > 1) {
        test_folder(argv[1]);
    } else {
        test_scales();
        test_int8();
        test_packed();
        if (full) test_grid();
        if (full) test_need();
        test_refusals();
    }
    dit_context_destroy(kept);
    test_vulkan_end();
    return TEST_END("split_tensor");
}
