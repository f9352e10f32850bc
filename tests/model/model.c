/* Transformers, text encoders and autoencoders computing on a device: small limits and staged uploads change no byte, a
   batch equals its single runs, and so do clips with frames that are given; and the models' tables. loading.c has wrong
   files, sizes and memory. Values against the references are golden's.
   test-runs: lavapipe sanitize, in test-all swiftshader */
#include "fixture_parts.h"
#include "model/pixart.c"

/* --- tables --- */

static void test_tables(void) {
    static const char *const pairs[][2] = {{"a", "x"}, {"a.b", "y"}, {"ab", "z"}};
    static const diti_grid grid = {2, 3, 0.5f, 1.0f, 2.0f};
    float t[2] = {0, 1}, sinusoid[2 * 256], table[2 * 3 * 8];
    char name[16];
    diti_sinusoid(t, 2, 256, 0, sinusoid);
    CHECK(sinusoid[0] == 1 && sinusoid[127] == 1 && sinusoid[128] == 0 && sinusoid[255] == 0);
    CHECK(fabsf(sinusoid[256] - cosf(1)) < 1e-6f && fabsf(sinusoid[256 + 128] - sinf(1)) < 1e-6f);
    diti_position_table(&grid, 8, table); /* y: 0, 1; x: 0, 0.5, 1 */
    CHECK(table[0] == 0 && table[2] == 1 && table[4] == 0 && table[6] == 1);
    CHECK(fabsf(table[2 * 8] - sinf(1)) < 1e-6f && table[2 * 8 + 4] == 0); /* (0, 2): horizontal first */
    CHECK(table[3 * 8] == 0 && fabsf(table[3 * 8 + 4] - sinf(1)) < 1e-6f); /* (1, 0) */
    CHECK(fabsf(table[4 * 8 + 1] - sinf(0.005f)) < 1e-6f && table[4 * 8 + 5] == table[3 * 8 + 5]); /* (1, 1) */
    CHECK(diti_equal(diti_rename(pairs, 3, "a.c", name, sizeof name), "x.c"));
    CHECK(diti_equal(diti_rename(pairs, 3, "a.b.c", name, sizeof name), "y.c"));
    CHECK(diti_equal(diti_rename(pairs, 3, "ab", name, sizeof name), "z"));
    CHECK(!diti_rename(pairs, 3, "abc", name, sizeof name) &&
          !diti_rename(pairs, 3, "a.b.too.long.for.it", name, sizeof name));
}

/* --- computing: the outputs of all three components, as bytes --- */

#define T5_TOKENS 30u
#define LATENT_HEIGHT 8u
#define LATENT_WIDTH 12u
#define TEXT_TOKENS 12u

/* Two branches of an image of 16 channels. */
#define JOINT_VALUES (2 * 16 * LATENT_HEIGHT * LATENT_WIDTH)
typedef struct outputs {
    float t5[2 * T5_TOKENS * 48], denoised[4 * 4 * LATENT_HEIGHT * LATENT_WIDTH],
        picture[16 * LATENT_HEIGHT * LATENT_WIDTH * 3], joint[2][JOINT_VALUES];
} outputs;

static float noise_at(uint32_t i) { return (float)((i * 2654435761u) >> 16) / 32768.0f - 1.0f; }

static void fill(diti_plan *plan, diti_tensor input, uint32_t count, uint32_t first) {
    float *values = (float *)malloc(count * sizeof *values);
    dit_error err = DITI_ZERO;
    uint32_t i;
    for (i = 0; i < count; i++) values[i] = noise_at(first + i);
    CHECK_MESSAGE(diti_plan_write(plan, input, values, count * sizeof *values, &err) == DIT_OK, "%s", err.message);
    free(values);
}

static diti_tensor keep(diti_graph *graph, diti_tensor x, uint32_t rows, uint32_t columns) {
    diti_elementwise_desc copy = DITI_ZERO;
    copy.out = diti_tensor_state(graph, DITI_F32, rows, columns, "kept");
    copy.name = "keep";
    diti_elementwise(graph, x, &copy);
    return copy.out;
}

static bool plan_of(diti_graph *graph, diti_plan **plan) {
    dit_error err = DITI_ZERO;
    dit_result result = diti_plan_create(graph, NULL, plan, &err);
    diti_graph_free(graph);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static void finish(diti_plan *plan, diti_tensor kept, float *out, size_t size) {
    dit_error err = DITI_ZERO;
    CHECK_MESSAGE(diti_plan_run(plan, 0, plan->segment_count, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(diti_plan_read(plan, kept, out, size, &err) == DIT_OK, "%s", err.message);
}

static void run_t5(diti_device *device, const diti_t5 *t5, outputs *out) {
    uint32_t ids[2 * T5_TOKENS], i,
        items[2][DITI_ITEM_WORDS] = {{0, T5_TOKENS, 0, 7}, {T5_TOKENS, T5_TOKENS, T5_TOKENS, T5_TOKENS}};
    diti_encoder_use use = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    for (i = 0; i < 2 * T5_TOKENS; i++) ids[i] = i * 37 % 1024;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    use.batch = 2;
    use.tokens = T5_TOKENS;
    use.rows = 2 * T5_TOKENS;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, 2 * T5_TOKENS, "ids");
    use.items = diti_tensor_input(&graph, DITI_U32, 2, DITI_ITEM_WORDS, "items");
    kept = keep(&graph, diti_t5_encode(t5, &graph, &use), 2 * T5_TOKENS, 48);
    if (plan_of(&graph, &plan)) {
        CHECK(diti_plan_write(plan, use.ids, ids, sizeof ids, NULL) == DIT_OK);
        CHECK(diti_plan_write(plan, use.items, items, sizeof items, NULL) == DIT_OK);
        CHECK(diti_t5_write_inputs(t5, plan, &use, NULL) == DIT_OK);
        finish(plan, kept, out->t5, sizeof out->t5);
    }
    diti_plan_destroy(plan);
}

/* Images [first, first + batch) of a batch of two, both branches; shares: one text for each branch, else one for each
 * row; packed: the texts' tokens without padding, in the other order, behind a few rows of nothing. */
static void run_pixart(diti_device *device, const diti_transformer *model, uint32_t first, uint32_t batch, bool shares,
                       bool packed, float *out) {
    static const float times[3] = {700, 321, 5};
    uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH, texts = shares ? 2 : 2 * batch, i, items[4][DITI_ITEM_WORDS],
             step = 0;
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept, latent;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = batch;
    d.branches = 2;
    d.height = LATENT_HEIGHT;
    d.width = LATENT_WIDTH;
    d.steps = 3;
    d.text_batch = texts;
    d.text_tokens = TEXT_TOKENS;
    d.pixels[0] = 64;
    d.pixels[1] = 96;
    latent = d.latent = diti_tensor_input(&graph, DITI_F32, 4 * batch, pixels, "latent");
    d.text = diti_tensor_input(&graph, DITI_F32, texts * TEXT_TOKENS, 64, "text");
    d.text_items = diti_tensor_input(&graph, DITI_U32, texts, DITI_ITEM_WORDS, "items");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * batch * 4, pixels);
    if (plan_of(&graph, &plan)) {
        fill(plan, latent, 4 * batch * pixels, first * 4 * pixels);
        memset(items, 0, sizeof items);
        for (i = 0; i < texts; i++) {
            uint32_t before = i < texts / 2 ? texts / 2 * 9 + i : (i - texts / 2) * 9; /* tokens */
            items[i][2] = packed ? 3 + before : i * TEXT_TOKENS;
            items[i][3] = i < texts / 2 ? 1 : 9;
        }
        CHECK(diti_plan_write(plan, d.text_items, items, texts * sizeof *items, NULL) == DIT_OK);
        CHECK(diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK);
        CHECK(model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        {
            uint32_t one = TEXT_TOKENS * 64;
            float *text = (float *)malloc(texts * one * sizeof *text);
            for (i = 0; i < texts * one; i++) text[i] = 1e30f; /* padding, which nothing may read */
            for (i = 0; i < texts * 9 * 64; i++) {
                uint32_t item = i / 64 / 9, token = i / 64 % 9;
                if (token < items[item][3])
                    text[(items[item][2] + token) * 64 + i % 64] =
                        noise_at(99 + item / (texts / 2) * one + i % (9 * 64));
            }
            CHECK(diti_plan_write(plan, d.text, text, texts * one * sizeof *text, NULL) == DIT_OK);
            free(text);
        }
        finish(plan, kept, out, (size_t)2 * batch * 4 * pixels * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

/* Text and image attend each other: the second of two steps. */
static void run_joint(diti_device *device, const diti_transformer *model, float *out) {
    enum { TOKENS = 6 };
    static const float times[] = {900, 300};
    const uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH, step = 1;
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = 1;
    d.steps = d.branches = d.text_batch = 2;
    d.height = LATENT_HEIGHT;
    d.width = LATENT_WIDTH;
    d.text_tokens = TOKENS;
    d.guidance = 3.5f;
    d.latent = diti_tensor_input(&graph, DITI_F32, 16, pixels, "latent");
    d.text = diti_tensor_input(&graph, DITI_F32, 2 * TOKENS, model->traits.text_columns, "text");
    d.pooled = diti_tensor_input(&graph, DITI_F32, 2, model->traits.pooled_columns, "pooled");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * 16, pixels);
    if (plan_of(&graph, &plan)) {
        fill(plan, d.latent, 16 * pixels, 7);
        fill(plan, d.text, 2 * TOKENS * model->traits.text_columns, 11);
        fill(plan, d.pooled, 2 * model->traits.pooled_columns, 13);
        CHECK(diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK);
        CHECK(model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        finish(plan, kept, out, JOINT_VALUES * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

static void run_vae(diti_device *device, const diti_vae *vae, outputs *out) {
    uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept, latent;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "decode", false);
    latent = diti_tensor_input(&graph, DITI_F32, 4, pixels, "latent");
    kept = keep(&graph, diti_vae_decode(vae, &graph, latent, LATENT_HEIGHT, LATENT_WIDTH, 0, NULL), 16 * pixels, 3);
    if (plan_of(&graph, &plan)) {
        fill(plan, latent, 4 * pixels, 5);
        finish(plan, kept, out->picture, sizeof out->picture);
    }
    diti_plan_destroy(plan);
}

/* parts: of the largest matrix. */
static void run_all(const char *overrides, outputs *out, uint32_t *parts) {
    diti_env env = test_env(NULL);
    diti_device *device = open_device(&env, overrides);
    component c;
    part which;
    *parts = 0;
    for (which = PART_T5; device && which < PART_DIT; which = (part)(which + 1)) {
        image file = image_open(&env, part_files[which], NULL, NULL);
        dit_error err = DITI_ZERO;
        if (CHECK_MESSAGE(component_load(which, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK,
                          "%s: %s", overrides, err.message)) {
            if (which == PART_T5) run_t5(device, c.t5, out);
            if (which == PART_VAE) run_vae(device, c.vae, out);
            if (which >= PART_SD3) run_joint(device, c.transformer, out->joint[which - PART_SD3]);
            if (which == PART_PIXART) {
                run_pixart(device, c.transformer, 0, 2, true, false, out->denoised);
                *parts = ((diti_pixart *)(void *)c.transformer)->modulation.weight.part_count;
            }
        }
        component_free(&c);
        image_close(&file);
    }
    if (device) diti_device_close(device);
}

static bool finite_and_alive(const float *values, size_t count) {
    size_t i;
    double sum = 0;
    for (i = 0; i < count; i++) sum += fabs((double)values[i]);
    return isfinite(sum) && sum > 1e-3 * (double)count;
}

/* --- devices that bind or see little --- */

/* Parts of a matrix are whole tiles, however few bytes a device binds: results in halves begin at even columns. */
static void test_part_rows(void) {
    diti_env env = test_env(NULL);
    image file = image_open(&env, part_files[PART_PIXART], NULL, NULL);
    uint32_t kilobytes, i, divided = 0;
    for (kilobytes = 50; kilobytes <= 241; kilobytes += 27) {
        char overrides[64];
        dit_error err = DITI_ZERO;
        diti_device *device;
        component c;
        snprintf(overrides, sizeof overrides, "rung=base,storage_range=%uK", (unsigned)kilobytes);
        device = open_device(&env, overrides);
        if (device &&
            CHECK_MESSAGE(component_load(PART_PIXART, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK,
                          "%s: %s", overrides, err.message)) {
            const diti_weight *weight = &((diti_pixart *)(void *)c.transformer)->modulation.weight;
            for (i = 0; i + 1 < weight->part_count; i++)
                CHECK_MESSAGE(weight->parts[i].rows % DITI_PART_ROWS == 0, "%u KB: part %u has %u rows",
                              (unsigned)kilobytes, i, weight->parts[i].rows);
            divided += weight->part_count > 1;
        }
        component_free(&c);
        if (device) diti_device_close(device);
    }
    image_close(&file);
    CHECK(divided > 4);
}

static void test_limits(void) {
    static const char *const others[] = {"rung=base,storage_range=240K,allocation=256K,mapped=0,staging=100K",
                                         "rung=base,storage_range=1M,allocation=16M", "rung=base,mapped=0"};
    const char *sweep = getenv("DIT_TEST_ALL");
    size_t count = sweep && !strcmp(sweep, "1") ? DITI_COUNT(others) : 1;
    static outputs plain, other;
    uint32_t parts;
    size_t i;
    run_all("rung=base", &plain, &parts);
    CHECK(parts == 1);
    CHECK(finite_and_alive(plain.t5, DITI_COUNT(plain.t5)) &&
          finite_and_alive(plain.denoised, DITI_COUNT(plain.denoised)));
    CHECK(finite_and_alive(plain.picture, DITI_COUNT(plain.picture)));
    CHECK(finite_and_alive(plain.joint[0], JOINT_VALUES) && finite_and_alive(plain.joint[1], JOINT_VALUES));
    for (i = 0; i < count; i++) {
        memset(&other, 0, sizeof other);
        run_all(others[i], &other, &parts);
        CHECK((parts > 1) == (i == 0));
        CHECK_MESSAGE(!memcmp(plain.t5, other.t5, sizeof plain.t5), "T5 with %s", others[i]);
        CHECK_MESSAGE(!memcmp(plain.denoised, other.denoised, sizeof plain.denoised), "PixArt with %s", others[i]);
        CHECK_MESSAGE(!memcmp(plain.picture, other.picture, sizeof plain.picture), "the autoencoder with %s",
                      others[i]);
        CHECK_MESSAGE(!memcmp(plain.joint[0], other.joint[0], sizeof plain.joint[0]), "SD3 with %s", others[i]);
        CHECK_MESSAGE(!memcmp(plain.joint[1], other.joint[1], sizeof plain.joint[1]), "FLUX with %s", others[i]);
    }
}

/* Runs a model that is loaded with these options; NULL: as it is. */
static void run_joint_loaded(diti_device *device, part which, const diti_load_options *options, float *out) {
    diti_env env = test_env(NULL);
    image file = image_open(&env, part_files[which], NULL, NULL);
    diti_transformer *model = NULL;
    dit_error err = DITI_ZERO;
    if (CHECK_MESSAGE(diti_transformer_load(device, &env, NULL, file.checkpoint, "", options, &model, &err) == DIT_OK,
                      "%s: %s", part_files[which], err.message))
        run_joint(device, model, out);
    diti_transformer_destroy(model);
    image_close(&file);
}

/* Joint attention with all matrices streamed, to the byte; and with int8 where rows fill groups, and where not. */
static void test_joint_loads(diti_device *device) {
    static const dit_type_rule rotated = {"transformer.*blocks.*", DIT_TYPE_I8_ROW_ROTATED};
    static float plain[JOINT_VALUES], other[JOINT_VALUES];
    const diti_stream_sizes sizes = {512 << 10, 4096, 0, 0};
    diti_env env = test_env(NULL);
    part which;
    for (which = PART_SD3; which < PART_DIT; which = (part)(which + 1)) {
        diti_load_options options = DITI_ZERO;
        dit_error err = DITI_ZERO;
        double error = 0, norm = 0;
        uint32_t i;
        run_joint_loaded(device, which, NULL, plain);
        options.matrices = 1 << 20;
        if (CHECK_MESSAGE(diti_stream_create(device, &env, &sizes, &options.stream, &err) == DIT_OK, "%s", err.message))
            run_joint_loaded(device, which, &options, other);
        CHECK_MESSAGE(!memcmp(plain, other, sizeof plain), "%s streamed", part_files[which]);
        diti_stream_destroy(options.stream);
        memset(&options, 0, sizeof options);
        options.types = &rotated;
        options.type_count = 1;
        run_joint_loaded(device, which, &options, other);
        for (i = 0; i < JOINT_VALUES; i++) {
            error += ((double)plain[i] - other[i]) * ((double)plain[i] - other[i]);
            norm += (double)plain[i] * plain[i];
        }
        CHECK_MESSAGE(error > 0 && sqrt(error / norm) < 0.05, "%s with int8: relative L2 %.3g", part_files[which],
                      sqrt(error / norm)); /* short rows of 72 and 128 in few blocks */
    }
}

/* --- batches --- */

/* Rows are unconditional 0 and 1, then conditional 0 and 1; single runs have two rows each. */
static void test_batches(diti_device *device) {
    enum { IMAGE = 4 * LATENT_HEIGHT * LATENT_WIDTH };
    static float both[4 * IMAGE], own[4 * IMAGE], one[2 * IMAGE];
    diti_env env = test_env(NULL);
    image file = image_open(&env, PIXART_FILE, NULL, NULL);
    component c;
    dit_error err = DITI_ZERO;
    uint32_t i;
    if (CHECK_MESSAGE(component_load(PART_PIXART, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message)) {
        run_pixart(device, c.transformer, 0, 2, true, false, both);
        run_pixart(device, c.transformer, 0, 2, false, false, own);
        CHECK(!memcmp(both, own, sizeof both));
        run_pixart(device, c.transformer, 0, 2, false, true, own);
        CHECK(!memcmp(both, own, sizeof both));
        run_pixart(device, c.transformer, 0, 2, true, true, own);
        CHECK(!memcmp(both, own, sizeof both));
        for (i = 0; i < 2; i++) {
            run_pixart(device, c.transformer, i, 1, true, false, one);
            CHECK_MESSAGE(!memcmp(one, both + i * IMAGE, IMAGE * sizeof(float)), "unconditional %u", (unsigned)i);
            CHECK_MESSAGE(!memcmp(one + IMAGE, both + (2 + i) * IMAGE, IMAGE * sizeof(float)), "conditional %u",
                          (unsigned)i);
        }
        CHECK(memcmp(one, one + IMAGE, IMAGE * sizeof(float)) != 0);
    }
    component_free(&c);
    image_close(&file);
}

/* Images [first, first + batch) of a batch of two with HunyuanDiT; shares: one prompt for each branch, else one for
   each row. */
static void run_hunyuan(diti_device *device, const diti_transformer *model, uint32_t first, uint32_t batch, bool shares,
                        float *out) {
    static const float times[3] = {700, 321, 5};
    const diti_model_traits *traits = &model->traits;
    uint32_t pixels = LATENT_HEIGHT * LATENT_WIDTH, texts = shares ? 2 : 2 * batch, i, step = 1, lengths[4],
             lengths2[4];
    uint32_t text = traits->text_tokens * traits->text_columns, text2 = traits->text2_tokens * traits->text2_columns;
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = batch;
    d.branches = 2;
    d.height = LATENT_HEIGHT;
    d.width = LATENT_WIDTH;
    d.steps = 3;
    d.text_batch = texts;
    d.text_tokens = traits->text_tokens;
    d.text_lengths = lengths;
    d.text2_lengths = lengths2;
    d.latent = diti_tensor_input(&graph, DITI_F32, 4 * batch, pixels, "latent");
    d.text = diti_tensor_input(&graph, DITI_F32, texts * traits->text_tokens, traits->text_columns, "text");
    d.text2 = diti_tensor_input(&graph, DITI_F32, texts * traits->text2_tokens, traits->text2_columns, "text2");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * batch * 4, pixels);
    if (plan_of(&graph, &plan)) {
        float *rows = (float *)malloc(texts * (text + text2) * sizeof *rows);
        fill(plan, d.latent, 4 * batch * pixels, first * 4 * pixels);
        for (i = 0; i < texts; i++) {
            uint32_t branch = i / (texts / 2), k;
            lengths[i] = branch ? 5 : 1;
            lengths2[i] = branch ? 3 : 10;
            for (k = 0; k < text; k++) rows[i * text + k] = noise_at(branch * 7919 + k);
            for (k = 0; k < text2; k++) rows[texts * text + i * text2 + k] = noise_at(branch * 104729 + 31 + k);
        }
        CHECK(diti_plan_write(plan, d.text, rows, texts * text * sizeof *rows, NULL) == DIT_OK &&
              diti_plan_write(plan, d.text2, rows + texts * text, texts * text2 * sizeof *rows, NULL) == DIT_OK &&
              diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK &&
              model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        free(rows);
        finish(plan, kept, out, (size_t)2 * batch * 4 * pixels * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

static void test_hunyuan_batches(diti_device *device) {
    enum { IMAGE = 4 * LATENT_HEIGHT * LATENT_WIDTH };
    static float both[4 * IMAGE], own[4 * IMAGE], one[2 * IMAGE];
    diti_env env = test_env(NULL);
    image file = image_open(&env, HUNYUAN_FILE, NULL, NULL);
    component c;
    dit_error err = DITI_ZERO;
    uint32_t i;
    if (CHECK_MESSAGE(component_load(PART_HUNYUAN, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message)) {
        run_hunyuan(device, c.transformer, 0, 2, true, both);
        CHECK(finite_and_alive(both, DITI_COUNT(both)));
        run_hunyuan(device, c.transformer, 0, 2, false, own);
        CHECK(!memcmp(both, own, sizeof both));
        for (i = 0; i < 2; i++) {
            run_hunyuan(device, c.transformer, i, 1, true, one);
            CHECK_MESSAGE(!memcmp(one, both + i * IMAGE, IMAGE * sizeof(float)), "unconditional %u", (unsigned)i);
            CHECK_MESSAGE(!memcmp(one + IMAGE, both + (2 + i) * IMAGE, IMAGE * sizeof(float)), "conditional %u",
                          (unsigned)i);
        }
        CHECK(memcmp(one, one + IMAGE, IMAGE * sizeof(float)) != 0);
    }
    component_free(&c);
    image_close(&file);
}

static void encode_prompts(diti_device *device, const diti_t5 *t5, const uint32_t *lengths, uint32_t count,
                           uint32_t rows, uint32_t tokens, uint32_t first_id, float *out) {
    uint32_t ids[256] = {0}, items[8][DITI_ITEM_WORDS] = {{0}}, i, token, at = 0;
    diti_encoder_use use = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    for (i = 0; i < count; i++) {
        for (token = 0; token < lengths[i]; token++) ids[at + token] = ((first_id + i) * 131 + token * 37 + 1) % 1024;
        items[i][0] = items[i][2] = at;
        items[i][1] = items[i][3] = lengths[i];
        at += lengths[i];
    }
    items[count][0] = at;
    items[count][1] = rows - at;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    use.batch = count + 1;
    use.tokens = tokens;
    use.rows = rows;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, rows, "ids");
    use.items = diti_tensor_input(&graph, DITI_U32, count + 1, DITI_ITEM_WORDS, "items");
    kept = keep(&graph, diti_t5_encode(t5, &graph, &use), rows, 48);
    if (plan_of(&graph, &plan)) {
        CHECK(diti_plan_write(plan, use.ids, ids, rows * sizeof *ids, NULL) == DIT_OK);
        CHECK(diti_plan_write(plan, use.items, items, use.batch * sizeof *items, NULL) == DIT_OK);
        CHECK(diti_t5_write_inputs(t5, plan, &use, NULL) == DIT_OK);
        finish(plan, kept, out, rows * 48 * sizeof *out);
    }
    diti_plan_destroy(plan);
}

/* Together and alone: the same to 1e-5 of the largest value (other numbers of rows may take other kernels). */
static void test_unequal_prompts(diti_device *device) {
    static const uint32_t lengths[] = {1, 7, 120, 16, 0, 33};
    enum { COUNT = sizeof lengths / sizeof *lengths, ROWS = 192 };
    static float all[ROWS * 48], one[128 * 48];
    diti_env env = test_env(NULL);
    image file = image_open(&env, T5_FILE, NULL, NULL);
    component c;
    dit_error err = DITI_ZERO;
    uint32_t i, k, at = 0;
    if (CHECK_MESSAGE(component_load(PART_T5, device, &env, file.checkpoint, NULL, NULL, &c, &err) == DIT_OK, "%s",
                      err.message)) {
        encode_prompts(device, c.t5, lengths, COUNT, ROWS, 120, 0, all);
        CHECK(finite_and_alive(all, DITI_COUNT(all)));
        for (i = 0; i < COUNT; at += lengths[i++]) {
            double worst = 0, largest = 0;
            if (!lengths[i]) continue;
            encode_prompts(device, c.t5, &lengths[i], 1, lengths[i], lengths[i] < 64 ? 64 : 120, i, one);
            for (k = 0; k < lengths[i] * 48; k++) {
                worst = fmax(worst, fabs((double)all[at * 48 + k] - (double)one[k]));
                largest = fmax(largest, fabs((double)one[k]));
            }
            CHECK_MESSAGE(worst <= 1e-5 * largest && largest > 0, "%u tokens: %g of %g", lengths[i], worst, largest);
        }
    }
    component_free(&c);
    image_close(&file);
}

/* --- clips --- */

typedef struct clip_case {
    const char *path, *config;
    uint32_t frames, height, width, tokens;
    bool gives;     /* frames may be given */
    size_t devices; /* of test_clips */
} clip_case;
enum { CLIP = 16 * 3 * 8 * 12 }; /* the most values of a latent */

/* Clips [first, first + batch) of a batch of two, both branches, in the second of three steps; given: which frames of
   either clip are given, as bits, or NULL where the model is not told of frames. */
static void run_clips(diti_device *device, const diti_transformer *model, const clip_case *c, uint32_t first,
                      uint32_t batch, const uint32_t *given, float *out) {
    static const float times[3] = {700, 321, 5};
    const diti_model_traits *traits = &model->traits;
    uint32_t i, step = 1, items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 1}, {0, 0, 0, 7}}, rows[3 * 4 * 4];
    uint32_t plane = c->frames * c->height * c->width, clip = traits->latent_channels * plane;
    uint32_t more = traits->condition_channels * plane, lengths[2] = {1, 7};
    diti_step_desc d = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor kept;
    items[1][2] = c->tokens;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = batch;
    d.branches = d.text_batch = 2;
    d.frames = c->frames;
    d.height = c->height;
    d.width = c->width;
    d.steps = 3;
    d.text_tokens = c->tokens;
    d.pixels[0] = 8 * c->height;
    d.pixels[1] = 8 * c->width;
    d.latent = diti_tensor_input(&graph, DITI_F32, traits->latent_channels * batch, plane, "latent");
    if (more) d.condition = diti_tensor_input(&graph, DITI_F32, traits->condition_channels * batch, plane, "condition");
    d.text = diti_tensor_input(&graph, DITI_F32, 2 * c->tokens, traits->text_columns, "text");
    d.text_items = diti_tensor_input(&graph, DITI_U32, 2, DITI_ITEM_WORDS, "items");
    if (traits->pooled_columns) d.pooled = diti_tensor_input(&graph, DITI_F32, 2, traits->pooled_columns, "pooled");
    if (traits->masks_padding) d.text_lengths = lengths;
    d.guidance = traits->default_distilled;
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    if (given) d.frame_steps = diti_tensor_input(&graph, DITI_U32, 3, 2 * batch * c->frames, "frames");
    diti_transformer_prepare(model, &graph, &d);
    diti_graph_segment(&graph, "step", true);
    kept = keep(&graph, diti_transformer_step(model, &graph, &d), 2 * batch * traits->latent_channels, plane);
    for (i = 0; given && i < 3 * 2 * batch * c->frames; i++)
        rows[i] = given[first + i / c->frames % batch] >> i % c->frames & 1 ? 3 : i / (2 * batch * c->frames);
    if (plan_of(&graph, &plan)) {
        fill(plan, d.latent, batch * clip, first * clip);
        if (more) fill(plan, d.condition, batch * more, 7919 + first * more);
        fill(plan, d.text, 2 * c->tokens * traits->text_columns, 99);
        if (d.pooled) fill(plan, d.pooled, 2 * traits->pooled_columns, 7);
        CHECK((traits->joint || diti_plan_write(plan, d.text_items, items, sizeof items, NULL) == DIT_OK) &&
              diti_plan_write(plan, d.row, &step, sizeof step, NULL) == DIT_OK &&
              (!given ||
               diti_plan_write(plan, d.frame_steps, rows, 3 * 2 * batch * c->frames * sizeof *rows, NULL) == DIT_OK) &&
              model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        finish(plan, kept, out, (size_t)2 * batch * clip * sizeof *out);
    }
    diti_plan_destroy(plan);
    diti_free(&model->component.env, d.family);
}

/* Clips of a batch are what each of them is alone, with the frames given that each has. Frames of which none is given
   are as if none had been named. */
static void compare_clips(diti_device *device, const diti_transformer *model, const clip_case *c, const float *both) {
    static const uint32_t frames[2] = {5, 0}, none[2] = {0, 0};
    static float one[2 * CLIP], plain[2 * CLIP];
    size_t clip = (size_t)model->traits.latent_channels * c->frames * c->height * c->width;
    uint32_t i;
    for (i = 0; i < 2; i++) {
        run_clips(device, model, c, i, 1, c->gives ? frames : NULL, one);
        CHECK_MESSAGE(!memcmp(one, both + i * clip, clip * sizeof *one), "%s: unconditional %u", c->path, (unsigned)i);
        CHECK_MESSAGE(!memcmp(one + clip, both + (2 + i) * clip, clip * sizeof *one), "%s: conditional %u", c->path,
                      (unsigned)i);
    }
    CHECK(memcmp(one, one + clip, clip * sizeof *one) != 0);
    if (!c->gives) return;
    run_clips(device, model, c, 1, 1, NULL, plain);
    CHECK(!memcmp(one, plain, 2 * clip * sizeof *one));
    run_clips(device, model, c, 0, 1, none, plain);
    CHECK(memcmp(both, plain, clip * sizeof *both) != 0);
}

/* Nothing changes where a device binds few bytes at once. Workgroups on processors have rows and columns for each
   thread of a subgroup, so that wide subgroups need twice as many bytes. */
static void test_clips(const diti_env *env, const clip_case *c) {
    static const uint32_t ranges[] = {0, 100 << 10, 50 << 10}, frames[2] = {5, 0};
    static float both[4 * CLIP], limited[4 * CLIP];
    image file = image_open(env, c->path, NULL, NULL);
    diti_json *json = NULL;
    uint32_t i;
    CHECK(diti_json_parse(env, c->config, strlen(c->config), "config.json", &json, NULL) == DIT_OK);
    for (i = 0; i < c->devices; i++) {
        diti_device *device = open_device(env, "rung=base");
        diti_transformer *model = NULL;
        dit_error err = DITI_ZERO;
        size_t count;
        if (device && i) device->limits.storage_range = ranges[i] * (device->limits.subgroup_size > 8 ? 2 : 1);
        if (device &&
            CHECK_MESSAGE(diti_transformer_load(device, env, json, file.checkpoint, "", NULL, &model, &err) == DIT_OK,
                          "%s", err.message)) {
            count = (size_t)4 * model->traits.latent_channels * c->frames * c->height * c->width;
            run_clips(device, model, c, 0, 2, c->gives ? frames : NULL, i ? limited : both);
            CHECK(finite_and_alive(both, count));
            if (i)
                CHECK_MESSAGE(!memcmp(both, limited, count * sizeof *both), "%s with %u bytes", c->path,
                              (unsigned)ranges[i]);
            else
                compare_clips(device, model, c, both);
        }
        diti_transformer_destroy(model);
        if (device) diti_device_close(device);
    }
    diti_json_free(env, json);
    image_close(&file);
}

/* Ulysses divides the rows of attention within frames and within positions, where there are enough of both; ring and
   PipeFusion do not. A model takes the frames and the condition that it knows. */
static void test_clip_refusals(void) {
    static const uint32_t rows[] = {DITI_SPLIT_RING, DITI_SPLIT_PIPEFUSION};
    diti_transformer transformer = DITI_ZERO;
    diti_job_request request;
    dit_model model = DITI_ZERO;
    diti_step_desc step = DITI_ZERO;
    const char *why;
    uint32_t i, k;
    model.transformer = &transformer;
    transformer.family = diti_pixart_family();
    transformer.traits.variant = "test";
    transformer.traits.divided = true;
    transformer.traits.patch = 2;
    memset(&request, 0, sizeof request);
    request.latent_width = request.latent_height = 4;
    request.shape.latent_frames = 2;
    for (i = 0; i < DITI_SPLIT_AXES; i++) request.shape.split.degree[i] = 1;
    request.shape.split.degree[DITI_SPLIT_CFG] = request.shape.split.degree[DITI_SPLIT_TENSOR] = 2;
    CHECK(!diti_job_unsplit(&model, &request));
    for (i = 0; i < DITI_COUNT(rows); i++) {
        request.shape.split.degree[rows[i]] = 2;
        why = diti_job_unsplit(&model, &request);
        CHECK_MESSAGE(why && strstr(why, "exchange frames for positions"), "%s", why ? why : "split");
        request.shape.split.degree[rows[i]] = 1;
    }
    request.shape.split.degree[DITI_SPLIT_ULYSSES] = 2;
    CHECK(!diti_job_unsplit(&model, &request));
    request.shape.split.degree[DITI_SPLIT_ULYSSES] = 3;
    why = diti_job_unsplit(&model, &request);
    CHECK_MESSAGE(why && strstr(why, "fewer than devices"), "%s", why ? why : "split");
    request.shape.split.degree[DITI_SPLIT_ULYSSES] = 1;
    for (k = 0; k < 3; k++) {
        static const char *const says[] = {"one timestep for all frames", "takes no picture as a condition",
                                           "needs a picture as a condition"};
        diti_graph graph;
        memset(&graph, 0, sizeof graph);
        step.frame_steps = k == 0;
        step.condition = k == 1;
        transformer.traits.condition_channels = k == 2 ? 16 : 0;
        step.branches = step.text_batch = step.batch = 1;
        transformer.traits.patch = 2;
        diti_transformer_prepare(&transformer, &graph, &step);
        CHECK_MESSAGE(diti_graph_failed(&graph) && strstr(graph.error.message, says[k]), "%s", graph.error.message);
    }
}

int main(void) {
    static const clip_case clips[] = {
        {"tests/fixtures/stdit1/model.safetensors", "{}", 4, 8, 8, 10, true, 3},
        {"tests/fixtures/osp11_lattet2v_rope/model.safetensors",
         "{\"_class_name\": \"LatteT2V\", \"use_rope\": true, \"num_attention_heads\": 2, \"attention_head_dim\": 36}",
         4, 8, 8, 10, false, 3},
        {"tests/fixtures/cogvideox_5b_i2v/model.safetensors",
         "{\"max_text_seq_length\": 7, \"sample_width\": 12, \"sample_height\": 8, "
         "\"use_rotary_positional_embeddings\": true}",
         3, 8, 12, 7, false, 2},
        {"tests/fixtures/ltx/model.safetensors", "{\"num_attention_heads\": 2}", 3, 8, 6, 9, true, 3},
        {"tests/fixtures/hunyuanvideo/model.safetensors", "{\"rope_axes_dim\": [8, 12, 12]}", 3, 8, 10, 9, false, 2}};
    size_t i;
    diti_env env = test_env(NULL);
    diti_device *device;
    test_tables();
    test_clip_refusals();
    test_vulkan_begin();
    if (test_first_driver()) test_part_rows();
    if (test_first_driver()) test_limits();
    device = open_device(&env, "rung=base");
    if (device) {
        test_joint_loads(device);
        test_batches(device);
        test_hunyuan_batches(device);
        test_unequal_prompts(device);
        diti_device_close(device);
    }
    for (i = 0; i < DITI_COUNT(clips) && test_first_driver(); i++) test_clips(&env, &clips[i]);
    test_vulkan_end();
    return TEST_END("model");
}
