/* Weights of 4 bit, with low-rank parts and in ComfyUI's files, under every split, streamed, and with a LoRA beside
   them, against one device that has them all; and files of these types against the same rows made while a model loads.

   make test runs one file under one split; DIT_TEST_ALL=1 all. By hand: build/tests/split_types WORD runs the kinds
   with this word in their name.
   test-runs: lavapipe, in test-all sanitize */
#include "library.h"
#include "lora_file.h"
#include "split_job.h"
#include "vulkan_test.h"

/* Rows of 512 have two groups that are rotated and four that have a scale: two devices divide them. */
static const generated_model pixart = {"pixart16", "pixart", 16, 32, 2, 0, 0, false},
                             joint = {"flux16", "flux", 16, 32, 1, 1, 0, true},
                             narrow = {"pixart4", "pixart", 4, 32, 2, 0, 0, false};

/* Devices with whole rows give the bytes of one. Others add in another order: where activations are int8, sums that
   differ by 1e-7 round a value in ten thousand to the next step, of 1 / 127 of its row's largest. */
#define SUMS 1e-5
#define INT8_SUMS 1e-2

typedef enum written { AS_IT_IS, ROWS, ROTATED, FOURS } written;
typedef struct kind {
    const char *name;
    dit_type rule;   /* what the model's floats become while they load */
    written written; /* what the file has instead of floats */
    bool low_rank;
} kind;
static const kind kinds[] = {
    {"i4_group", DIT_TYPE_I4_GROUP, AS_IT_IS, false},
    {"i4_row_rotated", DIT_TYPE_I4_ROW_ROTATED, AS_IT_IS, false},
    {"i4_group, low-rank", DIT_TYPE_I4_GROUP, AS_IT_IS, true},
    {"i4_row_rotated, low-rank", DIT_TYPE_I4_ROW_ROTATED, AS_IT_IS, true},
    {"int8_tensorwise", DIT_TYPE_STORED, ROWS, false},
    {"int8_tensorwise, convrot", DIT_TYPE_STORED, ROTATED, false},
    {"convrot_w4a4", DIT_TYPE_STORED, FOURS, false},
    {"convrot_w4a4, low-rank", DIT_TYPE_STORED, FOURS, true},
};

/* ---- files ---- */

static maker at;
static lora_file model_file, lora;
static dit_source without_types; /* the folder whose model.safetensors model_file stands for */

static dit_result open_file(const char *member, dit_source *out, void *user) {
    (void)user;
    if (strcmp(member, "model.safetensors")) return without_types.open(member, out, without_types.user);
    *out = lora_file_source(&model_file);
    return DIT_OK;
}

static void write_as_it_is(const diti_checkpoint *from, const diti_stored_tensor *tensor) {
    void *values = malloc((size_t)tensor->size);
    CHECK(diti_checkpoint_read(from, tensor, 0, values, (size_t)tensor->size, &err) == DIT_OK);
    lora_file_bytes(&model_file, tensor->name, tensor->type_name, tensor->shape, tensor->rank, values,
                    (size_t)tensor->size);
    free(values);
}

/* NAME.weight as ComfyUI's files have it: I8, its scales, and what it is. */
static void write_comfy(const diti_checkpoint *from, const diti_stored_tensor *tensor, written how) {
    static const char *const formats[] = {"", "{\"format\": \"int8_tensorwise\"}",
                                          "{\"format\": \"int8_tensorwise\", \"convrot\": true}",
                                          "{\"format\": \"convrot_w4a4\", \"convrot_groupsize\": 256}"};
    uint64_t rows = tensor->shape[0], columns = tensor->shape[1], r, c, shape[2] = {rows, columns};
    float *values = (float *)malloc((size_t)(rows * columns) * sizeof *values), *scales;
    int8_t *out = (int8_t *)malloc((size_t)(rows * columns));
    char name[200];
    scales = (float *)malloc((size_t)rows * sizeof *scales);
    CHECK(diti_checkpoint_read_float(from, tensor, values, rows * columns, &err) == DIT_OK);
    for (r = 0; r < rows; r++) {
        float *row = values + r * columns;
        if (how != ROWS) diti_rotate_row(row, (uint32_t)columns);
        if (how != FOURS) {
            CHECK(diti_quantize_row(row, (uint32_t)columns, out + r * columns, &scales[r]));
            continue;
        }
        CHECK(diti_quantize_row_4(row, (uint32_t)columns, &scales[r]));
        for (c = 0; c < columns; c += 2)
            out[(r * columns + c) / 2] = (int8_t)(((int)row[c] & 15) | ((int)row[c + 1] & 15) << 4);
    }
    if (how == FOURS) shape[1] /= 2;
    lora_file_bytes(&model_file, tensor->name, "I8", shape, 2, out, (size_t)(shape[0] * shape[1]));
    shape[1] = 1;
    snprintf(name, sizeof name, "%s_scale", tensor->name);
    lora_file_bytes(&model_file, name, "F32", shape, 2, scales, (size_t)rows * sizeof *scales);
    snprintf(name, sizeof name, "%.*scomfy_quant", (int)(strlen(tensor->name) - strlen("weight")), tensor->name);
    shape[0] = strlen(formats[how]);
    lora_file_bytes(&model_file, name, "U8", shape, 1, formats[how], strlen(formats[how]));
    free(values);
    free(scales);
    free(out);
}

/* Writes the model of a folder as that kind, and a LoRA for every third of its blocks' matrices. */
static void write_files(const dit_source *folder, const kind *k) {
    diti_env env = test_env(NULL);
    diti_checkpoint *model = NULL;
    char name[200];
    uint32_t i;
    lora_file_free(&model_file);
    lora_file_free(&lora);
    without_types = *folder;
    CHECK(diti_checkpoint_open_member(&env, folder, "model.safetensors", &model, &err) == DIT_OK);
    for (i = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        bool matrix = tensor->rank == 2 && strstr(tensor->name, "blocks.") && diti_ends_with(tensor->name, ".weight");
        if (matrix && k->written)
            write_comfy(model, tensor, k->written);
        else
            write_as_it_is(model, tensor);
        if (matrix && k->low_rank && i % 2) {
            snprintf(name, sizeof name, "%s_lora_down", tensor->name);
            lora_file_matrix(&model_file, name, 4, tensor->shape[1], 1 / sqrt((double)tensor->shape[1]), 1);
            snprintf(name, sizeof name, "%s_lora_up", tensor->name);
            lora_file_matrix(&model_file, name, tensor->shape[0], 4, 0.1, 1);
        }
        if (!matrix || i % 3) continue;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(tensor->name) - strlen(".weight")), tensor->name);
        lora_file_pair(&lora, name, tensor->shape[0], tensor->shape[1], 4, 0.1, 2);
    }
    diti_checkpoint_close(model);
}

/* ---- models ---- */

static dit_result load(const generated_model *shape, const kind *k, bool with_lora, VkDeviceSize budget) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    dit_component components[3];
    dit_model_desc desc = DITI_ZERO;
    close_model(&at);
    generated_make(&at.files, shape);
    at.generated = true;
    memset(components, 0, sizeof components);
    memcpy(components, at.files.components, sizeof at.files.components);
    write_files(&components[0].source, k);
    components[0].source.open = open_file;
    components[2].source = lora_file_source(&lora);
    components[2].role = DIT_ROLE_LORA;
    components[2].weight = 0.7f;
    rule.type = k->rule;
    desc.types = k->rule ? &rule : NULL;
    desc.type_count = k->rule ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = with_lora ? 3 : 2;
    desc.weight_budget = budget;
    return dit_model_load(at.context, &desc, &at.model, &err);
}

/* With the smallest budget that the message of a smaller one names. */
static bool load_streamed(const generated_model *shape, const kind *k, bool with_lora) {
    const char *least;
    if (!CHECK(load(shape, k, with_lora, 1) == DIT_ERROR_INVALID_ARGUMENT)) return false;
    least = strstr(err.message, "at least ");
    return CHECK_MESSAGE(least && load(shape, k, with_lora, strtoull(least + strlen("at least "), NULL, 10)) == DIT_OK,
                         "%s", err.message) &&
           CHECK(at.model->stream != NULL);
}

/* ---- splits ---- */

typedef enum order { ALIKE, OTHER_SUMS, STRIPS } order;
typedef struct division {
    const char *split;
    order order; /* of sums; STRIPS: the same strips on one device are the reference */
} division;
static const division divisions[] = {
    {"ulysses2", OTHER_SUMS},       {"tensor2", OTHER_SUMS}, {"ring2", OTHER_SUMS},        {"layers2", ALIKE},
    {"ulysses2,shard", OTHER_SUMS}, {"cfg2", ALIKE},         {"pipefusion2:m2w1", STRIPS},
};

static const asked once = {4, 4, 1, 1, 0, 0, 0, "euler", false, 0, NULL},
                   twice = {4, 4, 1, 2, 0, 0, 0, "euler", false, 0, NULL};
static outcome alone, strips, other;

static void check_divisions(const char *what, const kind *k, size_t count) {
    bool floats = k->rule == DIT_TYPE_I4_GROUP;
    size_t i;
    for (i = 0; i < count; i++) {
        const division *d = &divisions[i];
        const outcome *wanted = d->order == STRIPS ? &strips : &alone;
        double most = d->order != OTHER_SUMS ? 0 : floats ? SUMS : INT8_SUMS, off;
        dit_result result = run_asked(&at, d->order == STRIPS ? &twice : &once, d->split, &other);
        if (result == DIT_ERROR_INVALID_ARGUMENT && diti_equal(d->split, "cfg2") &&
            at.model->transformer->traits.default_guidance == 1.0f)
            continue; /* a model without guidance */
        if (!CHECK_MESSAGE(result == DIT_OK, "%s: %s: %s", what, d->split, err.message)) continue;
        off = difference(&other, wanted);
        if (off > 0) printf("%s: %s: relative L2 %.2g\n", what, d->split, off);
        CHECK_MESSAGE(off <= most, "%s: %s: off by %.3g, at most %g", what, d->split, off, most);
    }
}

static void test_kind(const generated_model *shape, const kind *k, bool with_lora) {
    size_t count = DITI_COUNT(divisions);
    char what[120];
    bool ready;
    snprintf(what, sizeof what, "%s, %s%s", shape->name, k->name, with_lora ? ", LoRA" : "");
    ready = CHECK_MESSAGE(load(shape, k, with_lora, 0) == DIT_OK, "%s: %s", what, err.message) &&
            CHECK_MESSAGE(run_asked(&at, &once, NULL, &alone) == DIT_OK, "%s: %s", what, err.message);
    if (ready)
        CHECK_MESSAGE(run_asked(&at, &twice, "pipefusion1:m2w1", &strips) == DIT_OK, "%s: %s", what, err.message);
    if (ready) check_divisions(what, k, count);
    if (!ready || !load_streamed(shape, k, with_lora)) return;
    snprintf(what + strlen(what), sizeof what - strlen(what), ", streamed");
    if (CHECK_MESSAGE(run_asked(&at, &once, NULL, &other) == DIT_OK, "%s: %s", what, err.message))
        CHECK_MESSAGE(difference(&other, &alone) == 0, "%s: off by %.3g", what, difference(&other, &alone));
    check_divisions(what, k, count);
}

/* Weights come while two devices divide them. */
static void test_one(const kind *k) {
    if (CHECK_MESSAGE(load(&narrow, k, false, 0) == DIT_OK, "%s", err.message) &&
        CHECK_MESSAGE(run_asked(&at, &once, NULL, &alone) == DIT_OK, "%s", err.message) &&
        load_streamed(&narrow, k, false))
        check_divisions("i4_group, low-rank, streamed", k, 1);
}

/* A file's rows are those that are made of floats while they load. */
static void test_files(const generated_model *shape) {
    static const kind pairs[][2] = {
        {{"i8r", DIT_TYPE_I8_ROW, AS_IT_IS, false}, {"int8_tensorwise", DIT_TYPE_STORED, ROWS, false}},
        {{"i8r+rot", DIT_TYPE_I8_ROW_ROTATED, AS_IT_IS, false}, {"convrot", DIT_TYPE_STORED, ROTATED, false}},
        {{"i4r+rot", DIT_TYPE_I4_ROW_ROTATED, AS_IT_IS, false}, {"convrot_w4a4", DIT_TYPE_STORED, FOURS, false}}};
    size_t i;
    for (i = 0; i < DITI_COUNT(pairs); i++) {
        if (CHECK_MESSAGE(load(shape, &pairs[i][0], false, 0) == DIT_OK, "%s", err.message) &&
            CHECK_MESSAGE(run_asked(&at, &once, NULL, &alone) == DIT_OK, "%s", err.message) &&
            CHECK_MESSAGE(load(shape, &pairs[i][1], false, 0) == DIT_OK, "%s", err.message) &&
            CHECK_MESSAGE(run_asked(&at, &once, NULL, &other) == DIT_OK, "%s", err.message))
            CHECK_MESSAGE(difference(&other, &alone) == 0, "%s is off by %.3g from %s", pairs[i][1].name,
                          difference(&other, &alone), pairs[i][0].name);
    }
}

/* ---- refusals ---- */

static void refused(const generated_model *shape, const kind *k, const char *split, const char *said) {
    if (!CHECK_MESSAGE(load(shape, k, false, 0) == DIT_OK, "%s", err.message)) return;
    CHECK_MESSAGE(run_asked(&at, &once, split, &other) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, said) &&
                      !strchr(err.message, '\n'),
                  "%s: \"%s\" should say \"%s\"", split, err.message, said);
    printf("%s\n", err.message);
}

int main(int argc, char **argv) {
    bool full = whole_sweep() || argc > 1;
    size_t i, s;
    test_vulkan_begin();
    if (CHECK_MESSAGE(open_devices(&at, full ? 4 : 2, "rung=base", 0) == DIT_OK, "%s", err.message)) {
        if (!full) test_one(&kinds[2]);
        for (s = 0; s < 2 && full; s++) {
            const generated_model *shape = s ? &joint : &pixart;
            for (i = 0; i < DITI_COUNT(kinds); i++) {
                if (argc > 1 && !strstr(kinds[i].name, argv[1])) continue;
                if (s && i != 2 && i + 1 != DITI_COUNT(kinds)) continue; /* the joint model: one of each */
                test_kind(shape, &kinds[i], false);
                test_kind(shape, &kinds[i], true);
            }
            test_files(shape);
        }
        refused(&narrow, &kinds[2], "tensor2", "parted every 128 only, as its type I4_GROUP groups them");
        if (full) refused(&pixart, &kinds[1], "tensor4", "parted every 256");
    }
    close_maker(&at);
    lora_file_free(&model_file);
    lora_file_free(&lora);
    test_vulkan_end();
    return TEST_END("split_types");
}
