/* LoRAs of models and jobs: beside the weights, merged, with strengths that a restart changes, streamed weights, int8
   rows, other devices under every split, what is told about modules that fit nothing, and defaults that a LoRA changes.

   make test runs FLUX.1 on one device and on two; DIT_TEST_ALL=1 more families, int8 rows and every split.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "lora_file.h"
#include "split/split_job.h"
#include "vulkan_test.h"

static const generated_model flux = {"flux8", "flux", 8, 16, 2, 2, 0, true};
static const generated_model pixart = {"pixart8", "pixart", 8, 16, 4, 0, 0, false};
static const generated_model sd3 = {"sd3-8", "sd3", 8, 16, 4, 0, 2, true};
static const generated_model hunyuan = {"hunyuan8", "hunyuandit", 8, 16, 4, 0, 0, false};

enum { LORAS = 2 };
static lora_file files[LORAS];
static const float strengths[LORAS] = {0.8f, -0.5f};
static char warnings[2000], told[8000]; /* what was heard at level 1, and at level 2 */

/* --- files for a generated model: pairs for all its layers, by diffusers' names and, if `kohya`, those of FLUX --- */

static void make_files(const generated_model *shape, bool kohya) {
    diti_env env = test_env(NULL);
    diti_checkpoint *checkpoint = NULL;
    generated_files made;
    char name[200];
    uint32_t i, count;
    bool fused = kohya && diti_equal(shape->family, "flux"); /* q, k and v in one module */
    for (i = 0; i < LORAS; i++) lora_file_free(&files[i]);
    generated_make(&made, shape);
    CHECK(diti_checkpoint_open_member(&env, &made.components[0].source, "model.safetensors", &checkpoint, &err) == 0);
    for (i = 0, count = diti_checkpoint_count(checkpoint); i < count; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        uint64_t columns = tensor->rank >= 2 ? diti_stored_tensor_elements(tensor) / tensor->shape[0] : 0;
        size_t length = strlen(tensor->name);
        if (!diti_ends_with(tensor->name, ".weight") || tensor->rank < 2 || strstr(tensor->name, "table") ||
            strstr(tensor->name, "pooler.") || strstr(tensor->name, "style"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - strlen(".weight")), tensor->name);
        if (i % 3 && !(fused && (strstr(name, "single_transformer_blocks.0.attn.to_") || strstr(name, "0.proj_mlp"))))
            lora_file_pair(&files[0], name, tensor->shape[0], columns, 4, 0.1, 1);
        if (i / 2 % 2 && !(fused && strstr(name, "transformer_blocks.1.attn.to_") && !strstr(name, "to_out")))
            lora_file_pair(&files[1], name, tensor->shape[0], columns, 6, 0.1, 2);
    }
    if (fused) {
        uint64_t width = (uint64_t)shape->heads * shape->head_dim;
        lora_file_matrix(&files[0], "lora_unet_single_blocks_0_linear1.lora_down.weight", 5, width, 0.1, 3);
        lora_file_matrix(&files[0], "lora_unet_single_blocks_0_linear1.lora_up.weight", 7 * width, 5, 0.1, 3);
        lora_file_number(&files[0], "lora_unet_single_blocks_0_linear1.alpha", 2.5f);
        lora_file_matrix(&files[1], "lora_unet_double_blocks_1_img_attn_qkv.lokr_w1", 3, 2, 0.1, 4);
        lora_file_matrix(&files[1], "lora_unet_double_blocks_1_img_attn_qkv.lokr_w2", width, width / 2, 0.1, 4);
    }
    diti_checkpoint_close(checkpoint);
    generated_free(&made);
}

typedef struct loading { /* a model with LoRAs */
    bool loras, merged;
    dit_type type;
    VkDeviceSize budget;
    bool by_need;
} loading;

static dit_result load(maker *m, const generated_model *shape, const loading *l) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    dit_component components[2 + LORAS];
    dit_model_desc desc = DITI_ZERO;
    dit_result result;
    uint32_t i;
    close_model(m);
    generated_make(&m->files, shape);
    m->generated = true;
    memset(components, 0, sizeof components);
    memcpy(components, m->files.components, sizeof m->files.components);
    for (i = 0; i < LORAS; i++) {
        components[2 + i].source = lora_file_source(&files[i]);
        components[2 + i].role = DIT_ROLE_LORA;
        components[2 + i].weight = strengths[i];
        components[2 + i].merge = l->merged;
    }
    rule.type = l->type;
    desc.types = l->type ? &rule : NULL;
    desc.type_count = l->type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = l->loras ? 2 + LORAS : 2;
    desc.weight_budget = l->budget;
    desc.weights_by_need = l->by_need;
    result = dit_model_load(m->context, &desc, &m->model, &err);
    return result;
}

static const asked small = {4, 3, 1, 1, 0, 0, 0, "euler", false, 0, NULL};

static dit_result run_with(const maker *m, const float *weights, const char *split, outcome *out, dit_job **kept) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(m, &small, split, &inputs);
    dit_job *job = NULL;
    dit_result result;
    desc.lora_weights = weights;
    desc.lora_weight_count = weights ? LORAS : 0;
    result = dit_job_create(m->context, &desc, &job, &err);
    generated_free_inputs(&inputs);
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) result = wait_for(job, 300);
    if (result == DIT_OK) result = read_latent(job, 0, out);
    if (kept)
        *kept = job;
    else
        dit_job_destroy(job);
    return result;
}

static dit_result restart_with(const maker *m, dit_job *job, const float *weights, outcome *out) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(m, &small, NULL, &inputs);
    dit_result result;
    desc.lora_weights = weights;
    desc.lora_weight_count = LORAS;
    result = dit_job_restart(job, &desc, &err);
    generated_free_inputs(&inputs);
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) result = wait_for(job, 300);
    if (result == DIT_OK) result = read_latent(job, 0, out);
    return result;
}

#define CHECK_RUN(call) CHECK_MESSAGE((call) == DIT_OK, "%s", err.message)

static outcome plain, beside, other;

static void near(const char *what, double off, double most) {
    CHECK_MESSAGE(off <= most, "%s: off by %.3g, at most %g", what, off, most);
}

/* --- low-rank parts in the model's file: what the first LoRA adds at strength 1 --- */

static lora_file combined, *served = &combined;
static bytes packed; /* a GGUF, which is served in place of these */
static dit_source uncombined;

static dit_result open_combined(const char *member, dit_source *out, void *user) {
    (void)user;
    if (strcmp(member, "model.safetensors")) return uncombined.open(member, out, uncombined.user);
    *out = packed.size ? memory_source(&packed) : lora_file_source(served);
    return DIT_OK;
}

static void copy_tensor(const diti_checkpoint *from, const diti_stored_tensor *tensor, const char *name) {
    void *values = malloc((size_t)tensor->size);
    CHECK(diti_checkpoint_read(from, tensor, 0, values, (size_t)tensor->size, &err) == DIT_OK);
    lora_file_bytes(&combined, name, tensor->type_name, tensor->shape, tensor->rank, values, (size_t)tensor->size);
    free(values);
}

/* parts: 1 down, 2 up, 4 smooth of the first module. */
static void combine(const dit_source *folder, uint32_t parts) {
    diti_env env = test_env(NULL);
    diti_checkpoint *model = NULL, *lora = NULL;
    dit_source source = lora_file_source(&files[0]);
    lora_file_free(&combined);
    uncombined = *folder;
    CHECK(diti_checkpoint_open_member(&env, folder, "model.safetensors", &model, &err) == DIT_OK);
    CHECK(diti_checkpoint_open(&env, &source, &lora, &err) == DIT_OK);
    for (uint32_t i = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i), *part;
        char name[300];
        copy_tensor(model, tensor, tensor->name);
        for (int up = 0; up < 2; up++) {
            snprintf(name, sizeof name, "transformer.%.*slora_%s.weight", (int)strlen(tensor->name) - 6, tensor->name,
                     up ? "B" : "A");
            part = tensor->rank == 2 && strstr(tensor->name, ".weight") ? diti_checkpoint_find(lora, name) : NULL;
            snprintf(name, sizeof name, "%s%s", tensor->name, up ? "_lora_up" : "_lora_down");
            if (part && (parts & (up ? 2u : 1u))) copy_tensor(lora, part, name);
            snprintf(name, sizeof name, "%s_smooth", tensor->name);
            if (part && !up && parts & 4) copy_tensor(lora, part, name), parts &= 3;
        }
    }
    diti_checkpoint_close(model);
    diti_checkpoint_close(lora);
}

static dit_result load_combined(maker *m, const generated_model *shape, dit_type type, VkDeviceSize budget,
                                uint32_t parts) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    dit_component components[2];
    dit_model_desc desc = DITI_ZERO;
    close_model(m);
    generated_make(&m->files, shape);
    m->generated = true;
    memcpy(components, m->files.components, sizeof components);
    combine(&components[0].source, parts);
    components[0].source.open = open_combined;
    rule.type = type;
    desc.types = type ? &rule : NULL;
    desc.type_count = type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = 2;
    desc.weight_budget = budget;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

static void test_low_rank(const generated_model *shape, const char *overrides, dit_type type) {
    static const float first[LORAS] = {1, 0};
    /* One rounding to F16: without adapters FLUX is off by 1.4e-4, PixArt by 4.4e-4. */
    const double halves = 1.0 / 2048;
    const loading with = {true, false, type, 0, false};
    static outcome wanted, divided;
    dit_model_info all;
    maker m = DITI_ZERO;
    if (!CHECK_RUN(open_devices(&m, 2, overrides, 0))) return;
    make_files(shape, false);
    if (CHECK_RUN(load(&m, shape, &with)) && CHECK_RUN(run_with(&m, first, NULL, &wanted, NULL)) &&
        CHECK_RUN(run_with(&m, first, "tensor2", &divided, NULL)) && CHECK_RUN(load_combined(&m, shape, type, 0, 3)) &&
        CHECK_RUN(run_with(&m, NULL, NULL, &other, NULL))) {
        CHECK(difference(&other, &wanted) == 0);
        dit_model_get_info(m.model, &all);
        CHECK(all.lora_count == 0);
        if (CHECK_RUN(run_with(&m, NULL, "tensor2", &other, NULL))) CHECK(difference(&other, &divided) == 0);
        near("low rank, tensor2", difference(&divided, &wanted), diti_equal(overrides, "rung=base") ? 1e-6 : halves);
        if (CHECK_RUN(load_combined(&m, shape, type, all.weight_bytes / 2, 3)) &&
            CHECK_RUN(run_with(&m, NULL, NULL, &other, NULL)))
            CHECK(difference(&other, &wanted) == 0);
        if (CHECK_RUN(load_combined(&m, shape, type, 0, 0)) && CHECK_RUN(run_with(&m, NULL, NULL, &other, NULL)))
            CHECK(difference(&other, &wanted) > 1e-3);
    }
    CHECK(load_combined(&m, shape, type, 0, 1) == DIT_ERROR_BAD_FILE && strstr(err.message, "low-rank part"));
    CHECK(load_combined(&m, shape, type, 0, 7) == DIT_ERROR_BAD_FILE &&
          strstr(err.message, "a factor for each column"));
    lora_file_free(&combined);
    close_maker(&m);
}

/* --- differences of weights, norms, tables and biases: as a model whose file has them in it --- */

static const float *random_floats(uint64_t count, uint64_t seed) {
    static float values[1 << 20];
    for (uint64_t i = 0; i < count && i < DITI_COUNT(values); i++)
        values[i] = (float)((double)(real_random(seed, i) >> 11) / 9007199254740992.0 - 0.5) * 0.2f;
    return values;
}

/* Tensors that both LoRAs here change: all vectors and tables, by turns in the names of ComfyUI and of LyCORIS, and
   some matrices. */
static bool is_changed(const diti_stored_tensor *tensor, uint32_t index, char *name, size_t size) {
    bool bias = diti_ends_with(tensor->name, ".bias"), weight = diti_ends_with(tensor->name, ".weight");
    const char *ending = bias ? index % 2 ? ".diff_b" : ".b_norm" : index % 2 ? ".diff" : ".w_norm";
    size_t length = strlen(tensor->name) - (bias ? strlen(".bias") : weight ? strlen(".weight") : 0);
    if (tensor->rank >= 2 && !strstr(tensor->name, "scale_shift_table") && (!weight || tensor->rank > 2 || index % 7))
        return false;
    if (strstr(tensor->name, "embedding_padding") || strstr(tensor->name, "positional") ||
        strstr(tensor->name, "pooler.") || strstr(tensor->name, "style"))
        return false;
    snprintf(name, size, "transformer.%.*s%s", (int)length, tensor->name, ending);
    return true;
}

/* Makes both files, and `combined` with what `weights` of them make of the model. */
static void make_differences(const dit_source *folder, const float *weights) {
    diti_env env = test_env(NULL);
    diti_checkpoint *model = NULL;
    char name[300];
    uint32_t i, k;
    uint64_t c;
    for (i = 0; i < LORAS; i++) lora_file_free(&files[i]);
    lora_file_free(&combined);
    uncombined = *folder;
    CHECK(diti_checkpoint_open_member(&env, folder, "model.safetensors", &model, &err) == DIT_OK);
    for (i = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        uint64_t count = diti_stored_tensor_elements(tensor);
        float *sum;
        if (!is_changed(tensor, i, name, sizeof name)) {
            copy_tensor(model, tensor, tensor->name);
            continue;
        }
        sum = malloc((size_t)count * sizeof *sum);
        CHECK(diti_checkpoint_read_float(model, tensor, sum, count, &err) == DIT_OK);
        for (k = 0; k < LORAS; k++) {
            const float *values = random_floats(count, 7 * i + k);
            if (k && i % 3) continue;
            lora_file_bytes(&files[k], name, "F32", tensor->shape, tensor->rank, values, (size_t)count * sizeof *sum);
            for (c = 0; c < count; c++) sum[c] += weights[k] * values[c];
        }
        lora_file_bytes(&combined, tensor->name, "F32", tensor->shape, tensor->rank, sum, (size_t)count * sizeof *sum);
        free(sum);
    }
    diti_checkpoint_close(model);
}

static dit_result load_changed(maker *m, const generated_model *shape, const float *weights) {
    dit_component components[2];
    dit_model_desc desc = DITI_ZERO;
    close_model(m);
    generated_make(&m->files, shape);
    m->generated = true;
    memcpy(components, m->files.components, sizeof components);
    make_differences(&components[0].source, weights);
    components[0].source.open = open_combined;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = 2;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

static void test_differences(const generated_model *shape, const char *rung, double most) {
    static const float others[LORAS] = {0.3f, 0};
    static const loading merged = {true, true, DIT_TYPE_STORED, 0, false},
                         with = {true, false, DIT_TYPE_STORED, 0, false},
                         without = {false, false, DIT_TYPE_STORED, 0, false};
    static outcome changed, less;
    loading streamed = merged;
    dit_lora_info lora;
    dit_model_info all;
    dit_job *job = NULL;
    maker m = DITI_ZERO;
    if (CHECK_RUN(open_devices(&m, 2, rung, 0)) && CHECK_RUN(load_changed(&m, shape, others)) &&
        CHECK_RUN(run_with(&m, NULL, NULL, &less, NULL)) && CHECK_RUN(load_changed(&m, shape, strengths)) &&
        CHECK_RUN(run_with(&m, NULL, NULL, &changed, NULL)) && CHECK_RUN(load(&m, shape, &without)) &&
        CHECK_RUN(run_with(&m, NULL, NULL, &plain, NULL))) {
        CHECK_MESSAGE(difference(&changed, &plain) > 1e-2, "differences change %.3g", difference(&changed, &plain));
        dit_model_get_info(m.model, &all);
        if (CHECK_RUN(load(&m, shape, &merged)) && CHECK_RUN(run_with(&m, NULL, NULL, &other, NULL)))
            near("merged differences", difference(&other, &changed), most);
        CHECK(dit_model_lora(m.model, 0, &lora) == DIT_OK && lora.modules > 20 && !lora.left_out);
        streamed.budget = all.weight_bytes / 2;
        if (whole_sweep() && CHECK_RUN(load(&m, shape, &streamed)) && CHECK_RUN(run_with(&m, NULL, NULL, &other, NULL)))
            near("streamed differences", difference(&other, &changed), most);
        if (CHECK_RUN(load(&m, shape, &with)) && CHECK_RUN(run_with(&m, NULL, NULL, &other, &job))) {
            near("differences beside", difference(&other, &changed), most);
            if (CHECK_RUN(restart_with(&m, job, others, &other)))
                near("a restart's differences", difference(&other, &less), most);
            dit_job_destroy(job);
            if (CHECK_RUN(run_with(&m, NULL, "tensor2", &other, NULL)))
                near("divided differences", difference(&other, &changed), most);
        }
    }
    lora_file_free(&combined);
    close_maker(&m);
}

/* --- DoRA in weights of all kinds, and divided --- */

typedef enum storing { FLOATS, PACKED, INT8, STORINGS } storing;
static const char *const storing_names[] = {"floats made int8", "Q8_0", "stored int8"};
static lora_file stored;

static bool is_dora(const diti_stored_tensor *tensor) {
    return tensor->rank == 2 && strstr(tensor->name, "transformer_blocks.") && diti_ends_with(tensor->name, ".weight");
}

/* The model's file, with its blocks' matrices as int8 rows if `int8`. */
static void store_rows(const diti_checkpoint *model, bool int8) {
    char name[300];
    lora_file_free(&stored);
    for (uint32_t i = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        uint64_t count = diti_stored_tensor_elements(tensor);
        uint32_t rows = (uint32_t)tensor->shape[0], columns = (uint32_t)(count / rows);
        uint64_t shape[2] = {rows, 1};
        float *values = malloc((size_t)count * sizeof *values), *scales = malloc(rows * sizeof *scales);
        int8_t *quants = malloc((size_t)count);
        CHECK(diti_checkpoint_read_float(model, tensor, values, count, &err) == DIT_OK);
        if (!int8 || !is_dora(tensor)) {
            lora_file_bytes(&stored, tensor->name, "F32", tensor->shape, tensor->rank, values,
                            (size_t)count * sizeof *values);
        } else {
            for (uint32_t r = 0; r < rows; r++)
                CHECK(
                    diti_quantize_row(values + (size_t)r * columns, columns, quants + (size_t)r * columns, &scales[r]));
            lora_file_bytes(&stored, tensor->name, "I8", tensor->shape, 2, quants, (size_t)count);
            snprintf(name, sizeof name, "%s_scale", tensor->name);
            lora_file_bytes(&stored, name, "F32", shape, 2, scales, rows * sizeof *scales);
        }
        free(values);
        free(scales);
        free(quants);
    }
}

/* w + weight * (magnitudes * (w + up down) / |w + up down| - w), in double. */
static void add_dora(float *w, uint32_t rows, uint32_t columns, const float *down, const float *up, uint32_t rank,
                     const float *magnitudes, bool by_row) {
    double *sum = malloc((size_t)rows * columns * sizeof *sum), *norms = calloc(by_row ? rows : columns, sizeof *norms);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double v = w[(size_t)r * columns + c];
            for (uint32_t k = 0; k < rank; k++)
                v += (double)up[(size_t)r * rank + k] * (double)down[(size_t)k * columns + c];
            sum[(size_t)r * columns + c] = v;
            norms[by_row ? r : c] += v * v;
        }
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t k = by_row ? r : c;
            float *v = &w[(size_t)r * columns + c];
            double made = (double)magnitudes[k] * sum[(size_t)r * columns + c] / sqrt(norms[k]);
            *v += (float)((double)strengths[0] * (made - (double)*v));
        }
    free(sum);
    free(norms);
}

/* Makes the first file, by turns with magnitudes of rows and of columns, and `combined` of what it makes of the model.
 */
static void make_dora(const diti_checkpoint *model, bool int8) {
    enum { RANK = 3 };
    static int8_t quants[4096];
    char name[300];
    lora_file_free(&files[0]);
    lora_file_free(&combined);
    for (uint32_t i = 0, number = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        uint64_t count = diti_stored_tensor_elements(tensor);
        uint32_t rows = (uint32_t)tensor->shape[0], columns = (uint32_t)(count / rows);
        int length = (int)(strlen(tensor->name) - strlen(".weight"));
        float *values, *parts[3];
        bool by_row = number % 2;
        uint64_t shapes[3][2] = {{RANK, columns}, {rows, RANK}, {by_row ? rows : 1, by_row ? 1 : columns}};
        static const char *const endings[] = {"lora_A.weight", "lora_B.weight", "dora_scale"};
        values = malloc((size_t)count * sizeof *values);
        CHECK(diti_checkpoint_read_float(model, tensor, values, count, &err) == DIT_OK);
        for (uint32_t r = 0; r < rows && int8 && is_dora(tensor); r++) {
            float *row = values + (size_t)r * columns, scale;
            CHECK(diti_quantize_row(row, columns, quants, &scale));
            for (uint32_t c = 0; c < columns; c++) row[c] = scale * (float)quants[c];
        }
        for (uint32_t k = 0; k < 3 && is_dora(tensor); k++) {
            uint64_t all = shapes[k][0] * shapes[k][1];
            parts[k] = malloc((size_t)all * sizeof(float));
            memcpy(parts[k], random_floats(all, 31 * i + k), (size_t)all * sizeof(float));
            for (uint64_t c = 0; c < all && k == 2; c++) parts[k][c] += 1;
            snprintf(name, sizeof name, "transformer.%.*s.%s", length, tensor->name, endings[k]);
            lora_file_bytes(&files[0], name, "F32", shapes[k], 2, parts[k], (size_t)all * sizeof(float));
        }
        if (is_dora(tensor)) {
            add_dora(values, rows, columns, parts[0], parts[1], RANK, parts[2], by_row);
            for (uint32_t k = 0; k < 3; k++) free(parts[k]);
            number++;
        }
        lora_file_bytes(&combined, tensor->name, "F32", tensor->shape, tensor->rank, values,
                        (size_t)count * sizeof *values);
        free(values);
    }
}

/* Makes the file that is served in place of the model's, and the DoRA and the sum that belong to it. */
static bool store(const generated_model *shape, storing how) {
    diti_env env = test_env(NULL);
    diti_checkpoint *model = NULL;
    generated_files made;
    dit_source source;
    bytes_free(&packed);
    generated_make(&made, shape);
    if (!CHECK(diti_checkpoint_open_member(&env, &made.components[0].source, "model.safetensors", &model, &err) == 0))
        return false;
    served = &combined;
    if (how == PACKED) {
        real_file file = {0};
        file.container = REAL_GGUF;
        file.type = DIT_TYPE_Q8_0;
        generated_family_of(shape)->make(&file, shape);
        source = real_source(&file);
        bytes_add(&packed, NULL, (size_t)source.size);
        CHECK(source.read_at(0, packed.data, (size_t)source.size, source.user) == (int64_t)source.size);
        real_free(&file);
        diti_checkpoint_close(model);
        source = memory_source(&packed);
        CHECK(diti_checkpoint_open(&env, &source, &model, &err) == DIT_OK);
    } else {
        store_rows(model, how == INT8);
    }
    make_dora(model, how == INT8);
    diti_checkpoint_close(model);
    generated_free(&made);
    return true;
}

static dit_result load_dora(maker *m, const generated_model *shape, dit_type type, bool lora, VkDeviceSize budget) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    dit_component components[3];
    dit_model_desc desc = DITI_ZERO;
    close_model(m);
    generated_make(&m->files, shape);
    m->generated = true;
    memset(components, 0, sizeof components);
    memcpy(components, m->files.components, sizeof m->files.components);
    uncombined = components[0].source;
    components[0].source.open = open_combined;
    components[2].source = lora_file_source(&files[0]);
    components[2].role = DIT_ROLE_LORA;
    components[2].weight = strengths[0];
    components[2].merge = true;
    rule.type = type;
    desc.types = type ? &rule : NULL;
    desc.type_count = type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = lora ? 3 : 2;
    desc.weight_budget = budget;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

static void test_dora_divided(maker *m, const generated_model *shape, const char *how) {
    static const char *const splits[] = {"tensor2", "layers2", "ulysses2", "pipefusion2"};
    for (size_t i = 0; i < DITI_COUNT(splits); i++) {
        dit_result result;
        if (i && !whole_sweep()) return;
        result = run_with(m, NULL, splits[i], &other, NULL);
        if (result == DIT_ERROR_INVALID_ARGUMENT) continue; /* the model refuses that split */
        if (CHECK_MESSAGE(result == DIT_OK, "%s %s, %s: %s", shape->name, splits[i], how, err.message))
            near(splits[i], difference(&other, &beside), i == 3 ? 0.5 : strstr(how, "int8") ? 2e-2 : 1e-5);
    }
}

/* Merged into weights of a kind, on one device as in the sum; then divided and streamed as on one device. */
static void test_dora(const generated_model *shape, storing how) {
    dit_type type = how == PACKED ? DIT_TYPE_STORED : DIT_TYPE_I8_ROW;
    const char *name = storing_names[how];
    static outcome changed;
    dit_model_info all;
    maker m = DITI_ZERO;
    bytes gguf;
    if (!CHECK_RUN(open_devices(&m, 2, "rung=base", 0)) || !store(shape, how)) return;
    gguf = packed;
    memset(&packed, 0, sizeof packed);
    if (CHECK_RUN(load_dora(&m, shape, type, false, 0)) && CHECK_RUN(run_with(&m, NULL, NULL, &changed, NULL))) {
        packed = gguf;
        served = &stored;
        if (how == INT8) type = DIT_TYPE_STORED;
        if (CHECK_RUN(load_dora(&m, shape, type, false, 0)) && CHECK_RUN(run_with(&m, NULL, NULL, &plain, NULL)))
            CHECK_MESSAGE(difference(&plain, &changed) > 1e-2, "%s: DoRA changes %.3g", name,
                          difference(&plain, &changed));
        dit_model_get_info(m.model, &all);
        if (CHECK_RUN(load_dora(&m, shape, type, true, 0)) && CHECK_RUN(run_with(&m, NULL, NULL, &beside, NULL))) {
            near(name, difference(&beside, &changed), how == PACKED ? 1e-5 : 2e-2);
            test_dora_divided(&m, shape, name);
        }
        if (CHECK_RUN(load_dora(&m, shape, type, true, all.weight_bytes / 2)) &&
            CHECK_RUN(run_with(&m, NULL, NULL, &other, NULL))) {
            CHECK_MESSAGE(difference(&other, &beside) == 0, "%s, streamed: off by %.3g", name,
                          difference(&other, &beside));
            test_dora_divided(&m, shape, name);
        }
    }
    bytes_free(&packed);
    lora_file_free(&combined);
    lora_file_free(&stored);
    served = &combined;
    close_maker(&m);
}

/* --- one device --- */

static void test_strengths(maker *m) {
    static const float none[LORAS] = {0, 0}, others[LORAS] = {0.3f, 1.1f}, second[LORAS] = {0, -0.5f};
    const diti_plan *plan;
    outcome again;
    dit_job *job = NULL;
    if (!CHECK_RUN(run_with(m, none, NULL, &other, NULL))) return;
    CHECK(difference(&other, &plain) == 0);
    if (CHECK_RUN(run_with(m, NULL, NULL, &other, &job))) {
        CHECK(difference(&other, &beside) == 0);
        plan = job->shares[0]->program.plan;
        if (CHECK_RUN(restart_with(m, job, none, &again))) near("strength 0", difference(&again, &plain), 1e-7);
        if (CHECK_RUN(restart_with(m, job, others, &again)) && CHECK_RUN(run_with(m, others, NULL, &other, NULL)))
            CHECK(difference(&again, &other) == 0);
        CHECK(difference(&again, &beside) > 1e-3);
        CHECK(job->shares[0]->program.plan == plan); /* nothing was planned anew */
        if (CHECK_RUN(restart_with(m, job, strengths, &again))) CHECK(difference(&again, &beside) == 0);
    }
    dit_job_destroy(job);
    job = NULL;
    if (CHECK_RUN(run_with(m, second, NULL, &other, &job))) {
        CHECK(job->request.shape.loras == 2);
        if (CHECK_RUN(restart_with(m, job, strengths, &again))) near("a LoRA more", difference(&again, &beside), 1e-6);
        CHECK(job->request.shape.loras == 3);
    }
    dit_job_destroy(job);
}

static void test_info(maker *m) {
    dit_model_info info;
    dit_lora_info lora;
    uint32_t i;
    dit_model_get_info(m->model, &info);
    CHECK(info.lora_count == LORAS);
    for (i = 0; i < LORAS; i++) {
        CHECK(dit_model_lora(m->model, i, &lora) == DIT_OK);
        CHECK_MESSAGE(lora.modules > 10 && !lora.left_out && lora.bytes > 1000 && lora.rank >= 4 && !lora.merged &&
                          lora.weight == strengths[i],
                      "%u modules, %u left out (%s), %u dense", lora.modules, lora.left_out, lora.first_left_out,
                      lora.dense);
    }
    CHECK(dit_model_lora(m->model, LORAS, &lora) == DIT_ERROR_INVALID_ARGUMENT);
}

/* A LoRA that is added later is as one that was there. */
static void test_added(maker *m, const generated_model *shape) {
    static const loading without = {false, false, DIT_TYPE_STORED, 0, false};
    dit_component component = DITI_ZERO;
    uint32_t i, number = 99;
    if (!CHECK_RUN(load(m, shape, &without))) return;
    for (i = 0; i < LORAS; i++) {
        component.source = lora_file_source(&files[i]);
        component.weight = strengths[i];
        CHECK_RUN(dit_model_add_lora(m->model, &component, &number, &err));
        CHECK(number == i);
    }
    if (CHECK_RUN(run_with(m, NULL, NULL, &other, NULL))) CHECK(difference(&other, &beside) == 0);
    component.merge = true;
    CHECK(dit_model_add_lora(m->model, &component, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
}

static void test_ways(maker *m, const generated_model *shape) {
    static const loading merged = {true, true, DIT_TYPE_STORED, 0, false},
                         need = {true, false, DIT_TYPE_STORED, 0, true};
    loading streamed = {true, false, DIT_TYPE_STORED, 0, false};
    dit_model_info all, some;
    dit_model_get_info(m->model, &all);
    if (CHECK_RUN(load(m, shape, &merged)) && CHECK_RUN(run_with(m, NULL, NULL, &other, NULL)))
        near("merged", difference(&other, &beside), 1e-5);
    streamed.budget = all.weight_bytes / 2;
    if (CHECK_RUN(load(m, shape, &streamed))) {
        dit_model_get_info(m->model, &some);
        CHECK_MESSAGE(some.weight_bytes <= streamed.budget && some.streamed_bytes > 0, "%llu of %llu bytes",
                      (unsigned long long)some.weight_bytes, (unsigned long long)streamed.budget);
        if (CHECK_RUN(run_with(m, NULL, NULL, &other, NULL))) CHECK(difference(&other, &beside) == 0);
    }
    if (!whole_sweep()) return;
    streamed.merged = true;
    if (CHECK_RUN(load(m, shape, &streamed)) && CHECK_RUN(run_with(m, NULL, NULL, &other, NULL)))
        near("merged into streamed weights", difference(&other, &beside), 1e-5);
    if (CHECK_RUN(load(m, shape, &need)) && CHECK_RUN(run_with(m, NULL, NULL, &other, NULL)))
        CHECK(difference(&other, &beside) == 0);
}

static void test_int8(maker *m, const generated_model *shape) {
    static const loading ways[] = {{true, false, DIT_TYPE_I8_ROW, 0, false}, {true, true, DIT_TYPE_I8_ROW, 0, false}},
                         without = {false, false, DIT_TYPE_I8_ROW, 0, false};
    double own;
    size_t i;
    if (!CHECK_RUN(load(m, shape, &without)) || !CHECK_RUN(run_with(m, NULL, NULL, &other, NULL))) return;
    own = difference(&other, &plain); /* what int8 loses by itself */
    for (i = 0; i < DITI_COUNT(ways); i++)
        if (CHECK_RUN(load(m, shape, &ways[i])) && CHECK_RUN(run_with(m, NULL, NULL, &other, NULL)))
            near(i ? "merged into int8 rows" : "beside int8 rows", difference(&other, &beside), 1.5 * own + 5e-3);
}

/* The model with LoRAs is left in m. */
static bool references(maker *m, const generated_model *shape) {
    static const loading without = {false, false, DIT_TYPE_STORED, 0, false},
                         with = {true, false, DIT_TYPE_STORED, 0, false};
    make_files(shape, true);
    if (!CHECK_RUN(load(m, shape, &without)) || !CHECK_RUN(run_with(m, NULL, NULL, &plain, NULL)) ||
        !CHECK_RUN(load(m, shape, &with)) || !CHECK_RUN(run_with(m, NULL, NULL, &beside, NULL)))
        return false;
    return CHECK_MESSAGE(difference(&beside, &plain) > 1e-2, "LoRAs change %.3g", difference(&beside, &plain));
}

static void test_one_device(const generated_model *shape) {
    maker m = DITI_ZERO;
    if (CHECK_RUN(open_devices(&m, 1, "rung=base", 0)) && references(&m, shape)) {
        test_info(&m);
        test_strengths(&m);
        test_ways(&m, shape);
        if (whole_sweep()) test_int8(&m, shape);
        test_added(&m, shape);
    }
    close_maker(&m);
}

/* --- several devices --- */

typedef struct division {
    const char *split;
    uint32_t devices;
    double most;
    bool sweep;
} division;
static const division divisions[] = {
    {"tensor2", 2, 1e-5, false},   {"ulysses2", 2, 1e-6, true},       {"ring2", 2, 1e-5, true},
    {"layers2", 2, 1e-6, true},    {"tensor2x2", 4, 1e-5, true},      {"cfg2", 2, 1e-6, true},
    {"pipefusion2", 2, 0.5, true}, {"ulysses2,shard", 2, 1e-6, true}, {"tensor2,ulysses2", 4, 1e-5, true},
};

static void test_divisions(const generated_model *shape, uint32_t devices, const char *rung, dit_type type) {
    loading with = {true, false, DIT_TYPE_STORED, 0, false};
    maker m = DITI_ZERO;
    size_t i;
    bool ready;
    with.type = type;
    ready = CHECK_RUN(open_devices(&m, devices, rung, 0));
    if (ready) make_files(shape, true);
    ready = ready && CHECK_RUN(load(&m, shape, &with)) && CHECK_RUN(run_with(&m, NULL, NULL, &beside, NULL));
    for (i = 0; i < DITI_COUNT(divisions) && ready; i++) {
        const division *d = &divisions[i];
        double most = d->most;
        dit_result result;
        if (d->devices != devices || (d->sweep && !whole_sweep())) continue;
        result = run_with(&m, NULL, d->split, &other, NULL);
        if (result == DIT_ERROR_INVALID_ARGUMENT) { /* no guidance, or another split that the model refuses */
            printf("%s %s: %s\n", shape->name, d->split, err.message);
            continue;
        }
        if (!diti_equal(rung, "rung=base") || type) most = most < 2e-2 ? 2e-2 : most;
        if (CHECK_MESSAGE(result == DIT_OK, "%s %s: %s", shape->name, d->split, err.message))
            near(d->split, difference(&other, &beside), most);
    }
    close_maker(&m);
}

/* A LoRA that a restart adds is where the first device's work goes when that device is lost. */
static void test_lost(const generated_model *shape) {
    static const loading with = {true, false, DIT_TYPE_STORED, 0, false};
    static const float none[LORAS] = {0};
    generated_inputs inputs;
    dit_job_desc desc;
    maker m = DITI_ZERO;
    make_files(shape, true);
    if (CHECK_RUN(open_devices(&m, 2, "rung=base", 0)) && CHECK_RUN(load(&m, shape, &with)) &&
        CHECK_RUN(run_with(&m, NULL, NULL, &beside, NULL))) {
        desc = request_asked(&m, &small, "layers2", &inputs);
        desc.resume_on_loss = true;
        desc.lora_weights = none;
        desc.lora_weight_count = LORAS;
        CHECK_RUN(dit_job_create(m.context, &desc, &m.job, &err));
        desc.lora_weights = strengths;
        CHECK_RUN(dit_job_restart(m.job, &desc, &err));
        generated_free_inputs(&inputs);
        m.context->devices[0]->fail_submit_after = (uint32_t)m.context->devices[0]->submits + 2;
        CHECK_RUN(wait_for(m.job, 120));
        memset(&other, 0, sizeof other);
        CHECK(m.job->resumed && read_latent(m.job, 0, &other) == DIT_OK);
        near("layers2 without the first device", difference(&other, &beside), 1e-6);
    }
    close_maker(&m);
}

/* --- what is told --- */

static void hear(int level, const char *message, void *user) {
    size_t length = strlen(warnings), more = strlen(told);
    (void)user;
    if (level == DITI_LOG_WARNING) snprintf(warnings + length, sizeof warnings - length, "%s\n", message);
    if (level == DITI_LOG_INFO) snprintf(told + more, sizeof told - more, "%s\n", message);
}

/* A warning counts what fits nothing and says where all of it is named. */
static void test_named(maker *m, dit_component *component) {
    lora_file file = DITI_ZERO;
    char name[80];
    uint32_t i;
    warnings[0] = told[0] = 0;
    lora_file_pair(&file, "transformer_blocks.0.attn.to_q", 128, 128, 3, 0.1, 1);
    for (i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "transformer_blocks.0.attn.nothing_%u", (unsigned)i);
        lora_file_pair(&file, name, 128, 128, 3, 0.1, 1);
        snprintf(name, sizeof name, "something.strange_%u", (unsigned)i);
        lora_file_matrix(&file, name, 8, 2, 0.1, 1);
    }
    component->source = lora_file_source(&file);
    CHECK_RUN(dit_model_add_lora(m->model, component, NULL, &err));
    CHECK_MESSAGE(strstr(warnings, "5 of 6 modules fit nothing") && !strstr(warnings, "nothing_4") &&
                      strstr(warnings, "5 tensors are no adapter's") && strstr(warnings, "names all at level 2") &&
                      strstr(warnings, "only 1 of its 6 modules of a transformer fit (the first is "
                                       "transformer_blocks.0.attn.to_q): the adapter is probably for another model"),
                  "%s", warnings);
    for (i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "left out: module transformer_blocks.0.attn.nothing_%u\n", (unsigned)i);
        CHECK_MESSAGE(strstr(told, name) != NULL, "%s is not named in: %s", name, told);
        snprintf(name, sizeof name, "left out: tensor something.strange_%u\n", (unsigned)i);
        CHECK_MESSAGE(strstr(told, name) != NULL, "%s is not named in: %s", name, told);
    }
    lora_file_free(&file);
}

static void test_told(void) {
    dit_context_desc cd = DITI_ZERO;
    dit_component component = DITI_ZERO;
    lora_file file = DITI_ZERO;
    dit_lora_info info;
    maker m = DITI_ZERO;
    static const loading without = {false, false, DIT_TYPE_STORED, 0, false};
    generated_inputs inputs;
    dit_job_desc desc;
    dit_job *job = NULL;
    float bad = NAN;
    cd.logger.func = hear;
    cd.logger.max_level = DITI_LOG_INFO;
    cd.overrides = "rung=base";
    warnings[0] = 0;
    if (!CHECK_RUN(dit_context_create(&cd, &m.context, &err)) || !CHECK_RUN(load(&m, &flux, &without))) {
        close_maker(&m);
        return;
    }
    lora_file_pair(&file, "transformer_blocks.0.attn.to_q", 128, 128, 3, 0.1, 1);
    lora_file_pair(&file, "transformer_blocks.0.attn.nothing", 128, 128, 3, 0.1, 1);
    lora_file_matrix(&file, "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", 2, 8, 0.1, 1);
    lora_file_matrix(&file, "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_up.weight", 8, 2, 0.1, 1);
    lora_file_matrix(&file, "something.strange", 8, 2, 0.1, 1);
    component.source = lora_file_source(&file);
    CHECK_RUN(dit_model_add_lora(m.model, &component, NULL, &err));
    CHECK_MESSAGE(strstr(warnings, "2 of 3 modules fit nothing") && strstr(warnings, "attn.nothing") &&
                      strstr(warnings, "text_model_encoder_layers_0_mlp_fc1") &&
                      strstr(warnings, "something.strange") && !strstr(warnings, "another model"),
                  "%s", warnings);
    CHECK(dit_model_lora(m.model, 0, &info) == DIT_OK && info.modules == 1 && info.left_out == 2 &&
          info.first_left_out[0]);
    lora_file_free(&file);
    lora_file_pair(&file, "down_blocks.0.attentions.0.to_q", 320, 320, 4, 0.1, 1);
    component.source = lora_file_source(&file);
    CHECK(dit_model_add_lora(m.model, &component, NULL, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
          strstr(err.message, "none of its 1 modules fits"));
    lora_file_free(&file);
    desc = request_asked(&m, &small, NULL, &inputs);
    desc.lora_weights = &bad;
    desc.lora_weight_count = 1;
    CHECK(dit_job_create(m.context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "lora_weights[0]"));
    desc.lora_weight_count = 2;
    CHECK(dit_job_create(m.context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "1 LoRAs"));
    generated_free_inputs(&inputs);
    test_named(&m, &component);
    close_maker(&m);
}

/* Steps and guidance of a job as it was made. */
static void check_request(maker *m, uint32_t steps, float scale, uint32_t told_steps, float told_scale) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(m, &small, NULL, &inputs);
    dit_job *job = NULL;
    dit_status status;
    desc.steps = steps;
    desc.guidance.scale = scale;
    if (CHECK_RUN(dit_job_create(m->context, &desc, &job, &err))) {
        dit_job_status(job, &status, NULL);
        CHECK_MESSAGE(status.step_count == told_steps && job->request.guidance.scale == told_scale,
                      "steps %u and guidance %g asked for: %u and %g", steps, (double)scale, status.step_count,
                      (double)job->request.guidance.scale);
    }
    dit_job_destroy(job);
    generated_free_inputs(&inputs);
}

/* A LoRA that was distilled to few steps changes the model's defaults of steps and guidance, whether it comes with the
   model or later; a job's own settings win. One that is taken away from the weights says nothing. */
static void test_defaults(void) {
    static const loading without = {false, false, DIT_TYPE_STORED, 0, false},
                         with = {true, false, DIT_TYPE_STORED, 0, false};
    static const char distilled[] = "\"dit.steps\":\"6\",\"dit.guidance\":\"2.5\"";
    dit_component component = DITI_ZERO;
    lora_file file = DITI_ZERO;
    dit_model_info info, before;
    dit_lora_info lora;
    maker m = DITI_ZERO;
    if (!CHECK_RUN(open_devices(&m, 1, "rung=base", 0)) || !CHECK_RUN(load(&m, &sd3, &without))) {
        close_maker(&m);
        return;
    }
    dit_model_get_info(m.model, &before);
    check_request(&m, 0, 0, before.default_steps, before.default_guidance);
    lora_file_pair(&file, "transformer_blocks.0.attn.to_q", 128, 128, 3, 0.1, 1);
    snprintf(file.metadata, sizeof file.metadata, "%s", distilled);
    component.source = lora_file_source(&file);
    component.weight = -1;
    CHECK_RUN(dit_model_add_lora(m.model, &component, NULL, &err));
    dit_model_get_info(m.model, &info);
    CHECK(info.default_steps == before.default_steps && info.default_guidance == before.default_guidance);
    component.weight = 0.5f;
    CHECK_RUN(dit_model_add_lora(m.model, &component, NULL, &err));
    CHECK(dit_model_lora(m.model, 1, &lora) == DIT_OK && lora.steps == 6 && lora.guidance == 2.5f);
    dit_model_get_info(m.model, &info);
    CHECK_MESSAGE(before.default_steps != 6 && info.default_steps == 6 && info.default_guidance == 2.5f,
                  "%u steps, guidance %g", info.default_steps, (double)info.default_guidance);
    check_request(&m, 0, 0, 6, 2.5f);
    check_request(&m, 3, 0, 3, 2.5f);
    check_request(&m, 0, 4, 6, 4);
    check_request(&m, 9, 1.5f, 9, 1.5f);
    make_files(&sd3, false);
    snprintf(files[0].metadata, sizeof files[0].metadata, "%s", distilled);
    if (CHECK_RUN(load(&m, &sd3, &with))) check_request(&m, 0, 0, 6, 2.5f);
    lora_file_free(&file);
    close_maker(&m);
}

int main(void) {
    const generated_model *const shapes[] = {&flux, &pixart, &sd3, &hunyuan};
    size_t i, count = whole_sweep() ? DITI_COUNT(shapes) : 1, k;
    test_vulkan_begin();
    for (i = 0; i < count; i++) {
        test_one_device(shapes[i]);
        test_divisions(shapes[i], 2, "rung=base", DIT_TYPE_STORED);
        test_lost(shapes[i]);
        if (!whole_sweep()) continue;
        test_divisions(shapes[i], 4, "rung=base", DIT_TYPE_STORED);
        test_divisions(shapes[i], 2, "rung=fp16", DIT_TYPE_STORED);
        test_divisions(shapes[i], 2, "rung=base", DIT_TYPE_I8_ROW);
    }
    test_low_rank(&pixart, "rung=base", DIT_TYPE_I8_ROW);
    if (whole_sweep()) test_low_rank(&flux, "rung=fp16", DIT_TYPE_STORED);
    for (i = 0; i < count; i++) test_differences(shapes[i], "rung=base", 1e-5);
    for (i = 0; i < count && whole_sweep(); i++) test_differences(shapes[i], "rung=fp16", 5e-3);
    for (k = 0; k < STORINGS; k++)
        if (whole_sweep() || k == PACKED) test_dora(&pixart, (storing)k);
    test_told();
    test_defaults();
    for (k = 0; k < LORAS; k++) lora_file_free(&files[k]);
    test_vulkan_end();
    return TEST_END("job_lora");
}
