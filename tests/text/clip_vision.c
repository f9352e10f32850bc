/* CLIP's encoder of pictures against its formulas in doubles: a whole encoder with made-up weights, under the names of
   transformers 4 and of 5, pictures of bytes and of floats, wide and high, larger and smaller than what it reads; and
   Wan 2.1 I2V, which reads its tokens. */
/* test-runs: lavapipe sanitize, in test-all swiftshader */
#include "library.h"
#include "files.h"
#include "real_shapes.h"
#include "vulkan_test.h"

enum {
    D = 20,
    SIDE = 3,
    PATCH = 2,
    TOKENS = SIDE * SIDE + 1,
    HEADS = 2,
    LAYERS = 3,
    HIDDEN = 4 * D,
    IN = 3 * PATCH * PATCH
};

/* --- an encoder with made-up weights, as a folder --- */

static void vision_file(real_file *file, uint32_t d, uint32_t side, uint32_t patch, uint32_t layers) {
    static const char *const square[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.out_proj"};
    static const char block[] = "vision_model.encoder.layers.%u";
    const uint64_t kernel[4] = {d, 3, patch, patch}, whole[1] = {d};
    uint32_t i, k;
    memset(file, 0, sizeof *file);
    file->container = REAL_SAFETENSORS;
    file->type = DIT_TYPE_F32;
    real_tensor_of(file, kernel, 4, 0, 0.3, "vision_model.embeddings.patch_embedding", NULL, 0, ".weight");
    real_tensor_of(file, whole, 1, 0, 0.3, "vision_model.embeddings.class_embedding", NULL, 0, "");
    real_rows(file, side * side + 1, d, "vision_model.embeddings.position_embedding.weight");
    real_named_norm(file, d, true, "vision_model", "pre_layrnorm", 0);
    for (i = 0; i < layers; i++) {
        for (k = 0; k < 4; k++) real_named_layer(file, d, d, block, square[k], i);
        real_named_norm(file, d, true, block, "layer_norm1", i);
        real_named_norm(file, d, true, block, "layer_norm2", i);
        real_named_layer(file, 4 * d, d, block, "mlp.fc1", i);
        real_named_layer(file, d, 4 * d, block, "mlp.fc2", i);
    }
    real_named_norm(file, d, true, "vision_model", "post_layernorm", 0);
}

static bytes file_bytes(real_file *file) {
    bytes whole = {0};
    dit_source source = real_source(file);
    bytes_add(&whole, NULL, (size_t)source.size);
    CHECK(source.read_at(0, whole.data, (size_t)source.size, source.user) == (int64_t)source.size);
    return whole;
}

/* --- its formulas, in doubles --- */

static diti_env env;
static diti_checkpoint *stored;

static void values_of(double *out, size_t count, const char *format, uint32_t layer) {
    char name[128];
    const diti_stored_tensor *tensor;
    float *values = malloc(count * sizeof *values);
    dit_error err = {0};
    snprintf(name, sizeof name, format, layer);
    tensor = diti_checkpoint_find(stored, name);
    memset(values, 0, count * sizeof *values);
    if (CHECK_MESSAGE(tensor && diti_stored_tensor_elements(tensor) == count, "%s", name))
        CHECK(diti_checkpoint_read(stored, tensor, 0, values, count * sizeof *values, &err) == DIT_OK);
    for (size_t i = 0; i < count; i++) out[i] = values[i];
    free(values);
}

static void layer_of(const double *x, uint32_t in, double *out, uint32_t rows, const char *format, uint32_t layer) {
    static double weight[HIDDEN * D], bias[HIDDEN];
    char name[128];
    snprintf(name, sizeof name, "%s.weight", format);
    values_of(weight, (size_t)rows * in, name, layer);
    snprintf(name, sizeof name, "%s.bias", format);
    values_of(bias, rows, name, layer);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t r = 0; r < rows; r++) {
            double sum = bias[r];
            for (uint32_t c = 0; c < in; c++) sum += weight[r * in + c] * x[t * in + c];
            out[t * rows + r] = sum;
        }
}

static void norm_of(const double *x, double *out, const char *format, uint32_t layer) {
    double weight[D], bias[D];
    char name[128];
    snprintf(name, sizeof name, "%s.weight", format);
    values_of(weight, D, name, layer);
    snprintf(name, sizeof name, "%s.bias", format);
    values_of(bias, D, name, layer);
    for (uint32_t t = 0; t < TOKENS; t++) {
        double mean = 0, square = 0;
        for (uint32_t c = 0; c < D; c++) mean += x[t * D + c] / D;
        for (uint32_t c = 0; c < D; c++) square += (x[t * D + c] - mean) * (x[t * D + c] - mean) / D;
        for (uint32_t c = 0; c < D; c++)
            out[t * D + c] = (x[t * D + c] - mean) / sqrt(square + 1e-5) * weight[c] + bias[c];
    }
}

#define LAYER "vision_model.encoder.layers.%u."
static void reference(const double *patches, double *x) {
    static double weight[D * IN], position[TOKENS * D], h[TOKENS * D], q[TOKENS * D], k[TOKENS * D], v[TOKENS * D],
        o[TOKENS * D], up[TOKENS * HIDDEN];
    uint32_t i, t, s, c, head;
    values_of(weight, D * IN, "vision_model.embeddings.patch_embedding.weight", 0);
    values_of(position, TOKENS * D, "vision_model.embeddings.position_embedding.weight", 0);
    values_of(x, D, "vision_model.embeddings.class_embedding", 0);
    for (t = 1; t < TOKENS; t++)
        for (c = 0; c < D; c++) {
            x[t * D + c] = 0;
            for (i = 0; i < IN; i++) x[t * D + c] += weight[c * IN + i] * patches[(t - 1) * IN + i];
        }
    for (i = 0; i < TOKENS * D; i++) x[i] += position[i];
    norm_of(x, h, "vision_model.pre_layrnorm", 0);
    memcpy(x, h, sizeof h);
    for (i = 0; i + 1 < LAYERS; i++) { /* all but the last */
        norm_of(x, h, LAYER "layer_norm1", i);
        layer_of(h, D, q, D, LAYER "self_attn.q_proj", i);
        layer_of(h, D, k, D, LAYER "self_attn.k_proj", i);
        layer_of(h, D, v, D, LAYER "self_attn.v_proj", i);
        for (head = 0; head < HEADS; head++)
            for (t = 0; t < TOKENS; t++) {
                double scores[TOKENS], sum = 0;
                uint32_t first = head * D / HEADS, last = first + D / HEADS;
                for (s = 0; s < TOKENS; s++) {
                    scores[s] = 0;
                    for (c = first; c < last; c++) scores[s] += q[t * D + c] * k[s * D + c] / sqrt((double)D / HEADS);
                    sum += scores[s] = exp(scores[s]);
                }
                for (c = first; c < last; c++) {
                    o[t * D + c] = 0;
                    for (s = 0; s < TOKENS; s++) o[t * D + c] += scores[s] / sum * v[s * D + c];
                }
            }
        layer_of(o, D, h, D, LAYER "self_attn.out_proj", i);
        for (c = 0; c < TOKENS * D; c++) x[c] += h[c];
        norm_of(x, h, LAYER "layer_norm2", i);
        layer_of(h, D, up, HIDDEN, LAYER "mlp.fc1", i);
        for (c = 0; c < TOKENS * HIDDEN; c++) up[c] *= 0.5 * (1 + erf(up[c] / sqrt(2.0)));
        layer_of(up, HIDDEN, h, D, LAYER "mlp.fc2", i);
        for (c = 0; c < TOKENS * D; c++) x[c] += h[c];
    }
}

/* --- the picture: every pixel of the result as a sum over all of the picture --- */

static double cubic(double x) {
    x = fabs(x);
    return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

static double scaled(const double *line, size_t step, uint32_t from, uint32_t to, uint32_t at, bool whole) {
    double scale = (double)from / to, wide = scale > 1 ? scale : 1, sum = 0, all = 0;
    for (uint32_t i = 0; i < from; i++) {
        double weight = cubic((i + 0.5 - (at + 0.5) * scale) / wide);
        sum += weight * line[i * step];
        all += weight;
    }
    sum /= all;
    return !whole ? sum : sum < 0 ? 0 : sum > 255 ? 255 : floor(sum + 0.5);
}

static void patches_of(const double *planes, uint32_t width, uint32_t height, bool whole, double *out) {
    static const double mean[] = {0.48145466, 0.4578275, 0.40821073},
                        deviation[] = {0.26862954, 0.26130258, 0.27577711};
    enum { EDGE = SIDE * PATCH };
    static double lines[EDGE * 64];
    uint32_t wide = width < height ? EDGE : EDGE * width / height, high = width < height ? EDGE * height / width : EDGE;
    uint32_t c, y, x;
    for (c = 0; c < 3; c++, planes += (size_t)width * height) {
        for (y = 0; y < height; y++)
            for (x = 0; x < EDGE; x++)
                lines[y * EDGE + x] = scaled(planes + (size_t)y * width, 1, width, wide, (wide - EDGE) / 2 + x, whole);
        for (y = 0; y < EDGE; y++)
            for (x = 0; x < EDGE; x++) {
                double v = scaled(lines + x, EDGE, height, high, (high - EDGE) / 2 + y, whole);
                out[(((y / PATCH) * SIDE + x / PATCH) * 3 + c) * PATCH * PATCH + y % PATCH * PATCH + x % PATCH] =
                    (v / 255 - mean[c]) / deviation[c];
            }
    }
}

static void check_picture(diti_device *device, const diti_clip_vision *vision, uint32_t width, uint32_t height,
                          bool floats) {
    static uint8_t rgba[64 * 64 * 4];
    static float rgb[64 * 64 * 3], made[TOKENS * D];
    static double planes[3 * 64 * 64], patches[(TOKENS - 1) * IN], wanted[TOKENS * D];
    dit_image image = {0};
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor input, out, kept;
    dit_error err = {0};
    uint32_t i, c, state = width * 31 + height;
    double error = 0, size = 0;
    for (i = 0; i < width * height; i++)
        for (c = 0; c < 3; c++) {
            state = state * 1664525u + 1013904223u;
            rgba[4 * i + c] = (uint8_t)(state >> 24);
            rgb[3 * i + c] = (float)(state >> 24) / 255;
            planes[c * width * height + i] = floats ? 255 * (double)rgb[3 * i + c] : rgba[4 * i + c];
        }
    image.width = width, image.height = height;
    if (floats)
        image.rgb = rgb;
    else
        image.rgba = rgba;
    patches_of(planes, width, height, !floats, patches);
    reference(patches, wanted);
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    input = diti_clip_vision_input(vision, &graph);
    out = diti_clip_vision_encode(vision, &graph, input);
    kept = diti_tensor_state(&graph, DITI_F32, TOKENS, D, "kept");
    diti_copy(&graph, out, kept, "keep");
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message) &&
        CHECK(diti_clip_vision_write(vision, plan, input, &image, &err) == DIT_OK) &&
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message))
        CHECK(diti_plan_read(plan, kept, made, sizeof made, &err) == DIT_OK);
    for (i = 0; i < TOKENS * D; i++) {
        error += (made[i] - wanted[i]) * (made[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    CHECK_MESSAGE(sqrt(error / size) <= 1e-5, "%u x %u: relative L2 %g", width, height, sqrt(error / size));
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
}

/* The beginning of names becomes blanks in front of them. */
static void leave_out(bytes *file, const char *beginning) {
    size_t length = strlen(beginning), i;
    for (i = 0; i + length < file->size; i++)
        if (!memcmp(file->data + i, beginning, length)) {
            memset(file->data + i, ' ', length);
            file->data[i + length - 1] = '"';
        }
}

static void test_encoder(diti_device *device, bool bare) {
    const char config[] = "{\"num_attention_heads\": 2, \"hidden_act\": \"gelu\"}";
    diti_clip_vision *vision = NULL;
    diti_checkpoint *loaded = NULL;
    diti_json *json = NULL;
    real_file file;
    bytes whole, other;
    dit_source source, other_source;
    dit_error err = {0};
    vision_file(&file, D, SIDE, PATCH, LAYERS);
    whole = file_bytes(&file);
    other = file_bytes(&file);
    if (bare) leave_out(&other, "\"vision_model.");
    source = memory_source(&whole);
    other_source = memory_source(&other);
    CHECK(diti_json_parse(&env, config, strlen(config), "config", &json, &err) == DIT_OK);
    if (CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &stored, &err) == DIT_OK &&
                          diti_checkpoint_open(&env, &other_source, &loaded, &err) == DIT_OK &&
                          diti_clip_vision_load(device, &env, json, loaded, "", NULL, &vision, &err) == DIT_OK,
                      "%s", err.message)) {
        CHECK(diti_clip_vision_is(loaded, "") && diti_clip_vision_tokens(vision) == TOKENS &&
              diti_clip_vision_columns(vision) == D);
        check_picture(device, vision, 23, 16, false);
        check_picture(device, vision, 16, 37, false);
        check_picture(device, vision, 6, 6, false);
        check_picture(device, vision, 4, 3, true);
        check_picture(device, vision, 31, 47, true);
    }
    diti_clip_vision_destroy(vision);
    diti_checkpoint_close(loaded);
    diti_checkpoint_close(stored);
    diti_json_free(&env, json);
    bytes_free(&whole);
    bytes_free(&other);
    real_free(&file);
}

/* --- Wan 2.1 I2V --- */

enum { WIDE = 48, HIGH = 32, FRAMES = 5, TEXT = 40, WORDS = 6, SEEN = 257 };

static bool make(dit_context *context, const dit_job_desc *desc, uint8_t *out, dit_error *err) {
    dit_job *job = NULL;
    bool good = dit_job_create(context, desc, &job, err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK;
    if (good)
        good = dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, out, FRAMES * WIDE * HIGH * 4, 0, err) == DIT_OK;
    dit_job_destroy(job);
    return good;
}

static dit_tensor embeds(const char *name, uint64_t rows, uint64_t columns, const float *data) {
    dit_tensor out = {0};
    out.name = name;
    out.type = DIT_TYPE_F32;
    out.rank = 3;
    out.shape[0] = 1, out.shape[1] = rows, out.shape[2] = columns;
    out.data = data;
    return out;
}

/* The encoder's tokens alone. */
static void tokens_of(dit_context *context, const dit_source *source, const dit_image *image, float *out) {
    diti_checkpoint *file = NULL;
    diti_clip_vision *vision = NULL;
    diti_plan *plan = NULL;
    diti_graph graph;
    diti_tensor input, kept;
    dit_error err = {0};
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, source, &file, &err) == DIT_OK &&
                           diti_clip_vision_load(context->device, &env, NULL, file, "", NULL, &vision, &err) == DIT_OK,
                       "%s", err.message))
        return;
    diti_graph_init(&graph, context->device);
    diti_graph_segment(&graph, "encode", false);
    input = diti_clip_vision_input(vision, &graph);
    kept = diti_tensor_state(&graph, DITI_F32, SEEN, D, "kept");
    diti_copy(&graph, diti_clip_vision_encode(vision, &graph, input), kept, "keep");
    CHECK(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK &&
          diti_clip_vision_write(vision, plan, input, image, &err) == DIT_OK &&
          diti_plan_run(plan, 0, 1, &err) == DIT_OK &&
          diti_plan_read(plan, kept, out, SEEN * D * sizeof *out, &err) == DIT_OK);
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
    diti_clip_vision_destroy(vision);
    diti_checkpoint_close(file);
}

/* The clip is that of the encoder's tokens, given; another picture's tokens make another clip; without either it is
   refused. */
static void test_wan(dit_context *context) {
    static float text[2][WORDS * TEXT], seen[SEEN * D];
    static uint8_t pixels[WIDE * HIGH * 4], alone[FRAMES * WIDE * HIGH * 4], given[FRAMES * WIDE * HIGH * 4],
        other[FRAMES * WIDE * HIGH * 4];
    dit_component parts[4];
    dit_tensor inputs[4];
    dit_model_desc md = {0};
    dit_job_desc desc = {0};
    dit_model *model = NULL;
    dit_image image = {0};
    dit_model_info info;
    dit_error err = {0};
    real_file file;
    bytes whole;
    uint32_t i;
    memset(parts, 0, sizeof parts);
    vision_file(&file, D, 16, PATCH, 2);
    whole = file_bytes(&file);
    for (i = 0; i < 2 * WORDS * TEXT; i++)
        text[i / (WORDS * TEXT)][i % (WORDS * TEXT)] = (float)(i * 7 % 11) / 11 - 0.5f;
    for (i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 5 + i / 192 * 3);
    image.width = WIDE, image.height = HIGH, image.rgba = pixels;
    parts[0].role = DIT_ROLE_TRANSFORMER, parts[0].source.path = "tests/fixtures/wan21_i2v";
    parts[1].role = DIT_ROLE_VAE, parts[1].source.path = "tests/fixtures/pipe_wan22_i2v_a14b/vae";
    parts[2].role = DIT_ROLE_IMAGE_ENCODER, parts[2].source = memory_source(&whole);
    inputs[0] = embeds("prompt_embeds", WORDS, TEXT, text[0]);
    inputs[1] = embeds("negative_prompt_embeds", WORDS, TEXT, text[1]);
    inputs[2] = embeds("prompt_embeds_2", SEEN, D, seen);
    inputs[3] = embeds("negative_prompt_embeds_2", SEEN, D, seen);
    md.components = parts;
    md.component_count = 3;
    desc.width = WIDE, desc.height = HIGH, desc.frame_count = FRAMES, desc.steps = 2;
    desc.init_image = &image;
    desc.inputs = inputs, desc.input_count = 2;
    if (!CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(info.wants_image && info.parameters[DIT_ROLE_IMAGE_ENCODER] > 0);
    desc.model = model;
    CHECK_MESSAGE(make(context, &desc, alone, &err), "%s", err.message);
    tokens_of(context, &parts[2].source, &image, seen);
    dit_model_destroy(model);
    md.component_count = 2;
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        dit_model_get_info(model, &info);
        CHECK(info.missing & 1u << DIT_ROLE_IMAGE_ENCODER);
        desc.model = model;
        CHECK(!make(context, &desc, other, &err) && strstr(err.message, "image_encoder"));
        desc.input_count = 4;
        CHECK_MESSAGE(make(context, &desc, given, &err), "%s", err.message);
        CHECK(!memcmp(alone, given, sizeof alone));
        for (i = 0; i < SEEN * D; i++) seen[i] = -seen[i];
        CHECK_MESSAGE(make(context, &desc, other, &err), "%s", err.message);
        CHECK(memcmp(given, other, sizeof given) != 0);
        dit_model_destroy(model);
    }
    bytes_free(&whole);
    real_free(&file);
}

int main(void) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    test_vulkan_begin();
    diti_env_init(&env, NULL, NULL, NULL);
    desc.overrides = "rung=base";
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_encoder(context->device, false);
        test_encoder(context->device, true);
        test_wan(context);
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("clip_vision");
}
