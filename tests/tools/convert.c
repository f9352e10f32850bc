/* dit-convert: quantization byte for byte as ggml does it, whole folders, the same bytes from every run, errors. */
#define main convert_main
#include "library.h"
#include "text/decoder.c"
#include "tools/dit-convert.c"
#undef main
#include "test.h"
#include "files.h"
#include "model_files.h"
#include "real_shapes.h"
#include "small_floats.h"
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#endif

static const char *const folder_path = "tests/fixtures/pipe_pixart_sigma";
static const char *const output = "build/convert_test.gguf";

static int run(const char *type, const char *input, const char *out) {
    char *arguments[] = {"dit-convert", "--type",     (char *)type, "--name",      "test",      "--steps",
                         "12",          "--guidance", "3.5",        (char *)input, (char *)out, NULL};
    return convert_main(11, arguments);
}

static diti_package *open_package(const diti_env *env, const char *path) {
    dit_source source = {0};
    dit_error err = {0};
    diti_package *package = NULL;
    source.path = path;
    CHECK_MESSAGE(diti_package_open(env, &source, &package, &err) == DIT_OK, "%s", err.message);
    return package;
}

/* The fixture holds one tensor of random numbers, quantized by ggml itself. */
static void test_as_ggml(const diti_env *env) {
    static const dit_type types[] = {DIT_TYPE_Q8_0, DIT_TYPE_Q4_0, DIT_TYPE_Q4_1, DIT_TYPE_Q5_0, DIT_TYPE_Q5_1,
                                     DIT_TYPE_Q4_K, DIT_TYPE_Q5_K, DIT_TYPE_Q6_K, DIT_TYPE_F16,  DIT_TYPE_BF16};
    static float values[2560];
    static uint8_t ours[10240], theirs[10240];
    dit_error err = {0};
    dit_source source = {0};
    diti_checkpoint *file = NULL;
    source.path = "tests/fixtures/gguf_types/all_types.gguf";
    if (!CHECK(diti_checkpoint_open(env, &source, &file, &err) == DIT_OK)) return;
    CHECK(diti_checkpoint_read_float(file, diti_checkpoint_find(file, "t.F32"), values, 2560, &err) == DIT_OK);
    for (size_t i = 0; i < DITI_COUNT(types); i++) {
        const diti_stored_tensor *tensor;
        char name[16];
        snprintf(name, sizeof name, "t.%s", diti_type_name(types[i]));
        tensor = diti_checkpoint_find(file, name);
        if (!CHECK(tensor && diti_checkpoint_read(file, tensor, 0, theirs, (size_t)tensor->size, &err) == DIT_OK))
            continue;
        encode(types[i], values, 2560, ours);
        CHECK_MESSAGE(memcmp(ours, theirs, (size_t)tensor->size) == 0, "%s differs from ggml's", name);
    }
    diti_checkpoint_close(file);
}

/* Rows of many kinds, made of integers alone, so that every machine has the same: wide and narrow, one-sided, with
   zeros, with outliers, of few values, far too small. */
static void make_odd_row(uint32_t kind, uint32_t *state, float *x) {
    const int exponent = (int)(kind / 8 % 5) * 4 - 14;
    for (int i = 0; i < 256; i++) {
        uint32_t a, b;
        float value;
        *state = *state * 1664525u + 1013904223u, a = *state >> 8;
        *state = *state * 1664525u + 1013904223u, b = *state >> 8;
        value = ldexpf((float)((int)(a >> 4) + (int)(b >> 4) - (1 << 20)), -20); /* a triangle around 0 */
        if (kind % 8 == 1) value = ldexpf((float)a, -24);
        if (kind % 8 == 2) value = -ldexpf((float)a, -24) - 1;
        if (kind % 8 == 3 && b % 8) value = 0;
        if (kind % 8 == 4 && i / 32 % 2) value = 0;
        if (kind % 8 == 5 && i % 37 == 5) value *= 4096;
        if (kind % 8 == 6) value = (float)((int)(a % 8) - 4);
        if (kind % 8 == 7) value = kind / 8 % 3 == 0 ? ldexpf(value, -130) : i / 16 % 2 ? ldexpf(value, -50) : value;
        x[i] = ldexpf(value, exponent);
    }
}

/* FNV-1a of what ggml's own quantizer (version of August 2026) made of these rows, recorded once. */
static void test_odd_rows_as_ggml(void) {
    static const struct {
        dit_type type;
        uint64_t hash;
    } recorded[] = {{DIT_TYPE_Q8_0, 0x168275804096f586u},
                    {DIT_TYPE_Q4_K, 0x4fc5a182ae5db74au},
                    {DIT_TYPE_Q5_K, 0xfc6f8ad1aafbb440u},
                    {DIT_TYPE_Q6_K, 0x24e1c22f809c8708u}};
    for (size_t i = 0; i < DITI_COUNT(recorded); i++) {
        const dit_type type = recorded[i].type;
        uint64_t hash = 0xcbf29ce484222325u;
        uint32_t state = 1;
        for (uint32_t row = 0; row < 240; row++) {
            const size_t size = 256 / diti_type_block(type) * diti_type_block_bytes(type);
            float x[256];
            uint8_t blocks[272];
            make_odd_row(row, &state, x);
            encode(type, x, 256, blocks);
            for (size_t k = 0; k < size; k++) hash = (hash ^ blocks[k]) * 0x100000001b3u;
        }
        CHECK_MESSAGE(hash == recorded[i].hash, "%s: %016llx", diti_type_name(type), (unsigned long long)hash);
    }
}

/* Blocks of zeros, of one value, and with the extremes at the ends give what they can represent exactly. */
static void test_exact_blocks(void) {
    static const dit_type types[] = {DIT_TYPE_Q8_0, DIT_TYPE_Q4_0, DIT_TYPE_Q4_1, DIT_TYPE_Q5_0,
                                     DIT_TYPE_Q5_1, DIT_TYPE_Q4_K, DIT_TYPE_Q5_K, DIT_TYPE_Q6_K};
    float x[256] = {0}, y[256];
    uint8_t block[272];
    for (size_t i = 0; i < DITI_COUNT(types); i++) {
        for (int value = -2; value <= 2; value++) {
            for (int k = 0; k < 256; k++) x[k] = (float)value;
            encode(types[i], x, 256, block);
            diti_type_to_float(types[i], block, 256, y);
            for (int k = 0; k < 256; k++) CHECK(fabsf(x[k] - y[k]) <= 0.01f * fabsf(x[k]));
        }
    }
}

static void check_same_tensor(const diti_checkpoint *a, const diti_stored_tensor *x, const diti_checkpoint *b,
                              const diti_stored_tensor *y, double tolerance) {
    uint64_t count = diti_stored_tensor_elements(x);
    float *u = malloc((size_t)count * 4), *v = malloc((size_t)count * 4);
    double error = 0, size = 0;
    dit_error err = {0};
    CHECK(diti_checkpoint_read_float(a, x, u, count, &err) == DIT_OK &&
          diti_checkpoint_read_float(b, y, v, count, &err) == DIT_OK);
    for (uint64_t i = 0; i < count; i++) error += pow((double)u[i] - v[i], 2), size += pow(u[i], 2);
    CHECK_MESSAGE(sqrt(error) <= tolerance * sqrt(size), "%s: %g", x->name, sqrt(error / size));
    free(u), free(v);
}

/* tolerance: half a step over the spread of values uniform or normal in a block of 32, with some room. */
static size_t check_component(diti_package *from, diti_package *to, const char *component, dit_type type,
                              double tolerance) {
    const diti_checkpoint *a, *b;
    const char *own, *prefix;
    dit_error err = {0};
    size_t converted = 0;
    if (!CHECK(diti_package_component(from, component, &a, &own, &err) == DIT_OK && a)) return 0;
    if (!CHECK(diti_package_component(to, component, &b, &prefix, &err) == DIT_OK && b)) return 0;
    for (uint32_t i = 0; i < diti_checkpoint_count(a); i++) {
        const diti_stored_tensor *x = diti_checkpoint_tensor(a, i), *y;
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, x->name);
        y = diti_checkpoint_find(b, name);
        if (!CHECK_MESSAGE(y, "%s is missing", name)) continue;
        CHECK(y->rank == x->rank && memcmp(x->shape, y->shape, sizeof x->shape) == 0);
        if (y->type == type) converted++;
        check_same_tensor(a, x, b, y, y->type == x->type ? 0 : y->type == DIT_TYPE_F16 ? 5e-4 : tolerance);
        if (x->rank == 1 || is_sensitive(x->name)) CHECK(y->type == x->type);
    }
    return converted;
}

static void check_file(const diti_env *env, diti_package *from, diti_package *to, const char *path) {
    char *a = NULL, *b = NULL;
    size_t a_size, b_size;
    dit_error err = {0};
    CHECK(diti_package_read(from, path, &a, &a_size, &err) == DIT_OK &&
          diti_package_read(to, path, &b, &b_size, &err) == DIT_OK);
    CHECK_MESSAGE(a && b && a_size == b_size && memcmp(a, b, a_size) == 0, "%s", path);
    diti_free(env, a), diti_free(env, b);
}

static void test_folder(const diti_env *env, const char *type_name, double tolerance) {
    static const char *const components[] = {"transformer", "text_encoder", "vae"};
    static const char *const files[] = {
        "model_index.json",       "scheduler/scheduler_config.json", "tokenizer/spiece.model",
        "vae/config.json",        "tokenizer/tokenizer_config.json", "text_encoder/config.json",
        "transformer/config.json"};
    size_t first_size, second_size, converted = 0;
    const diti_checkpoint *file;
    const char *prefix;
    dit_error err = {0};
    char *first, *second;
    diti_package *from, *to;
    dit_type type;
    CHECK(type_from_name(type_name, &type) && run(type_name, folder_path, output) == 0);
    first = test_read_file(output, &first_size);
    CHECK(run(type_name, folder_path, output) == 0);
    second = test_read_file(output, &second_size);
    CHECK(first && second && first_size == second_size && memcmp(first, second, first_size) == 0);
    free(first), free(second);
    from = open_package(env, folder_path), to = open_package(env, output);
    if (!from || !to) return;
    for (size_t i = 0; i < DITI_COUNT(components); i++)
        converted += check_component(from, to, components[i], type, tolerance);
    CHECK_MESSAGE(converted >= 18, "only %zu tensors became %s", converted, type_name);
    for (size_t i = 0; i < DITI_COUNT(files); i++) check_file(env, from, to, files[i]);
    if (diti_package_component(to, "", &file, &prefix, &err) == DIT_OK && CHECK(file)) {
        CHECK(diti_equal(diti_checkpoint_text(file, "dit.steps"), "12") &&
              diti_equal(diti_checkpoint_text(file, "dit.guidance"), "3.5"));
        CHECK(diti_equal(diti_checkpoint_text(file, "general.name"), "test"));
    }
    diti_package_close(from), diti_package_close(to);
    remove(output);
}

/* DiT's blocks have tables of classes, which are looked up and cannot be int8 rows. */
static void test_tables_of_classes(void) {
    static const char *const types[] = {"i8r", "i4r+rot"};
    for (size_t i = 0; i < DITI_COUNT(types); i++) {
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        CHECK(run(types[i], "tests/fixtures/pipe_dit", output) == 0);
        desc.source.path = output;
        desc.dry_run = true;
        CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message);
        dit_model_destroy(model);
    }
    remove(output);
}

static void write_lora_file(lora_file *file, const char *path) {
    FILE *out = fopen(path, "wb");
    lora_file_source(file);
    CHECK(out && fwrite(file->whole.data, 1, file->whole.size, out) == file->whole.size && fclose(out) == 0);
    lora_file_free(file);
}

static bool same_meta(const diti_meta *a, const diti_meta *b) {
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (!b || a->type != b->type || a->array != b->array || a->count != b->count || !a->text != !b->text) return false;
    for (uint64_t i = 0; a->texts && i < a->count; i++)
        if (a->texts[i].length != b->texts[i].length ||
            memcmp(a->texts[i].text, b->texts[i].text, a->texts[i].length) != 0)
            return false;
    if (a->text && strcmp(a->text, b->text) != 0) return false;
    return !a->data || memcmp(a->data, b->data, (size_t)a->count * sizes[a->type]) == 0;
}

/* llama.cpp's files say in their metadata what a language model is, and have its tokenizer there. A table of positions
   is looked up, and keeps its type. */
static void test_language_models(const diti_env *env) {
    static const char *const files[] = {"tests/fixtures/gguf_t5_q8_0/model.gguf",
                                        "tests/fixtures/qwen3_text_gguf/model-Q4_K_M.gguf"};
    for (size_t i = 0; i < DITI_COUNT(files); i++) {
        const diti_stored_tensor *table;
        const diti_checkpoint *a = NULL, *b = NULL;
        const char *prefix;
        diti_package *from, *to;
        dit_error err = {0};
        size_t kept = 0;
        CHECK(run("q8_0", files[i], output) == 0);
        from = open_package(env, files[i]), to = open_package(env, output);
        if (from && to && CHECK(diti_package_component(from, "", &a, &prefix, &err) == DIT_OK && a) &&
            CHECK(diti_package_component(to, "", &b, &prefix, &err) == DIT_OK && b)) {
            for (size_t k = 0; k < a->metadata.count; k++) {
                const diti_meta *meta = &a->metadata.items[k];
                if (strcmp(meta->name, "general.architecture") != 0 && !is_kept(meta->name)) continue;
                CHECK_MESSAGE(same_meta(meta, diti_metadata_find(&b->metadata, meta->name)), "%s", meta->name);
                kept++;
            }
            CHECK(kept > 20 && diti_equal(diti_checkpoint_text(b, "dit.steps"), "12") &&
                  !diti_metadata_find(&b->metadata, "general.file_type"));
            table = diti_checkpoint_find(b, "enc.blk.0.attn_rel_b.weight");
            CHECK(i > 0 || (table && table->type == DIT_TYPE_F32));
        }
        diti_package_close(from), diti_package_close(to);
    }
    remove(output);
}

/* LTX-Video's original files say in the metadata of safetensors how positions count (docs/models.md 3.10). Entries
   about safetensors alone, or about types, do not stay. */
static void test_metadata_of_safetensors(const diti_env *env) {
    static const char path[] = "build/convert_test.safetensors",
                      metadata[] =
                          "\"format\":\"pt\",\"quantization_config\":\"{}\",\"config\":\"{\\\"transformer\\\":{}}\"";
    static const float values[4 * 32] = {0.5f, -1};
    const uint64_t shape[2] = {4, 32};
    const diti_checkpoint *converted = NULL;
    const char *prefix;
    dit_error err = {0};
    diti_package *package;
    lora_file file = {0};
    snprintf(file.metadata, sizeof file.metadata, "%s", metadata);
    lora_file_bytes(&file, "transformer_blocks.0.attn1.to_k.weight", "F32", shape, 2, values, sizeof values);
    write_lora_file(&file, path);
    CHECK(run("q8_0", path, output) == 0);
    package = open_package(env, output);
    if (package && diti_package_component(package, "", &converted, &prefix, &err) == DIT_OK && CHECK(converted))
        CHECK(diti_equal(diti_checkpoint_text(converted, "config"), "{\"transformer\":{}}") &&
              !diti_checkpoint_text(converted, "format") && !diti_checkpoint_text(converted, "quantization_config"));
    diti_package_close(package);
    remove(path);
    remove(output);
}

/* ComfyUI's files of umT5 have the tokenizer as a tensor, and become files that have it, too. */
static void test_words_beside_weights(const diti_env *env) {
    static const char path[] = "build/convert_test.safetensors";
    static const float values[4 * 32] = {0.5f, -1};
    const uint64_t shape[2] = {4, 32};
    size_t size;
    char *words = test_read_file("tests/fixtures/tokenizers/t5/spiece.model", &size);
    const uint64_t length = size;
    diti_package *from, *to;
    lora_file file = {0};
    if (!CHECK(words)) return;
    lora_file_bytes(&file, "encoder.block.0.layer.0.SelfAttention.k.weight", "F32", shape, 2, values, sizeof values);
    lora_file_bytes(&file, "spiece_model", "U8", &length, 1, words, size);
    lora_file_bytes(&file, "tekken_model", "U8", &length, 1, words, size);
    write_lora_file(&file, path);
    CHECK(run("q8_0", path, output) == 0);
    from = open_package(env, path), to = open_package(env, output);
    if (from && to) check_file(env, from, to, "spiece.model");
    diti_package_close(from), diti_package_close(to);
    free(words);
    remove(path);
    remove(output);
}

/* Weights of Gemma's norms are stored minus 1 in transformers' files, and so in what is made of them. */
static void test_gemma(const diti_env *env) {
    static const char folder[] = "tests/fixtures/gemma2_text";
    const char *const paths[] = {folder, output};
    CHECK(run("f32", folder, output) == 0);
    for (size_t i = 0; i < DITI_COUNT(paths); i++) {
        const diti_checkpoint *checkpoint = NULL;
        const char *prefix;
        dit_error err = {0};
        char *text = NULL;
        size_t size;
        diti_json *json = NULL;
        diti_decoder *decoder = NULL;
        diti_package *package = open_package(env, paths[i]);
        if (package && CHECK(diti_package_component(package, "", &checkpoint, &prefix, &err) == DIT_OK && checkpoint) &&
            CHECK(diti_package_read(package, "config.json", &text, &size, &err) == DIT_OK && text) &&
            CHECK(diti_json_parse(env, text, size, "config.json", &json, &err) == DIT_OK) &&
            CHECK_MESSAGE(diti_decoder_load(NULL, env, json, checkpoint, prefix, NULL, &decoder, &err) == DIT_OK, "%s",
                          err.message))
            CHECK_MESSAGE(decoder->config.offset_norms, "%s", paths[i]);
        diti_decoder_destroy(decoder);
        diti_json_free(env, json);
        diti_free(env, text);
        diti_package_close(package);
    }
    remove(output);
}

/* Parts that few models have: a second expert, the transformer of the unconditional branch, the conditioner of a folder
   without model_index.json, and what lies in a folder that model_index.json does not name. */
static void test_rare_parts(const diti_env *env) {
    static const struct {
        const char *folder, *part, *files[2];
    } cases[] = {
        {"tests/fixtures/pipe_wan22_i2v_a14b", "transformer_2", {"transformer_2/config.json", NULL}},
        {"tests/fixtures/pipe_ideogram4",
         "unconditional_transformer",
         {"unconditional_transformer/config.json", "model_index.json"}},
        {"tests/fixtures/pipe_anima", "text_conditioner", {"text_conditioner/config.json", "tokenizer/tokenizer.json"}},
        {"tests/fixtures/pipe_ltx2", "connectors", {"connectors/config.json", NULL}},
        {"tests/fixtures/pipe_chroma", "transformer", {"transformer/config.json", NULL}}};
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        diti_package *from, *to;
        CHECK(run("f16", cases[i].folder, output) == 0);
        from = open_package(env, cases[i].folder), to = open_package(env, output);
        if (from && to) {
            CHECK(check_component(from, to, "transformer", DIT_TYPE_F16, 0) > 5);
            CHECK(check_component(from, to, cases[i].part, DIT_TYPE_F16, 0) > 5);
            for (size_t k = 0; k < 2 && cases[i].files[k]; k++) check_file(env, from, to, cases[i].files[k]);
        }
        diti_package_close(from), diti_package_close(to);
        remove(output);
    }
}

/* Matrices of small floats with factors become what the floats become that they mean, and nothing of what stood beside
   them is left. */
static void test_small_floats(void) {
    static const char *const types[] = {"f16", "q8_0", "i8r", "q4_k"};
    static const char path[] = "build/convert_test.safetensors", other[] = "build/convert_other.gguf";
    for (int kind = 0; kind < SMALL_FLOATS_KINDS; kind++) {
        for (size_t t = 0; t < DITI_COUNT(types); t++) {
            static float values[5 * 256];
            const uint64_t none = 0, shape[2] = {5, 256};
            lora_file ours = {0}, meant = {0};
            size_t size[2] = {0};
            char *bytes_of[2];
            if (kind == FLOAT8_OLDER) lora_file_bytes(&ours, "scaled_fp8", "F8_E4M3", &none, 1, NULL, 0);
            for (size_t i = 0; i < DITI_COUNT(values); i++) values[i] = sinf((float)(i * i)) * 0.05f;
            small_floats_add(&ours, "blocks.0.m", (small_floats_kind)kind, values, 5, 256);
            lora_file_bytes(&meant, "blocks.0.m.weight", "F32", shape, 2, values, sizeof values);
            write_lora_file(&ours, path);
            CHECK(run(types[t], path, output) == 0);
            write_lora_file(&meant, path);
            CHECK(run(types[t], path, other) == 0);
            bytes_of[0] = test_read_file(output, &size[0]);
            bytes_of[1] = test_read_file(other, &size[1]);
            CHECK_MESSAGE(bytes_of[0] && bytes_of[1] && size[0] == size[1] &&
                              !memcmp(bytes_of[0], bytes_of[1], size[0]),
                          "kind %d as %s: %zu and %zu bytes", kind, types[t], size[0], size[1]);
            free(bytes_of[0]);
            free(bytes_of[1]);
        }
    }
    remove(path);
    remove(other);
    remove(output);
}

static void test_component_folder(const diti_env *env) {
    diti_package *from, *to;
    CHECK(run("q8_0", "tests/fixtures/t5_encoder_sharded", output) == 0);
    from = open_package(env, "tests/fixtures/t5_encoder_sharded"), to = open_package(env, output);
    if (!from || !to) return;
    CHECK(check_component(from, to, "", DIT_TYPE_Q8_0, 0.01) > 5);
    check_file(env, from, to, "config.json");
    diti_package_close(from), diti_package_close(to);
    remove(output);
}

static void test_classes(void) {
    diti_stored_tensor tensor = {0};
    tensor.type = DIT_TYPE_F32, tensor.rank = 2, tensor.shape[0] = 8, tensor.shape[1] = 64;
    tensor.name = "transformer_blocks.0.attn1.to_q.weight";
    CHECK(choose_type(DIT_TYPE_Q4_0, "", &tensor) == DIT_TYPE_Q4_0 &&
          choose_type(DIT_TYPE_F16, "", &tensor) == DIT_TYPE_F16);
    tensor.shape[0] = 0; /* no rows: their length fills no blocks, and other readers refuse it */
    CHECK(choose_type(DIT_TYPE_Q6_K, "", &tensor) == DIT_TYPE_F32 &&
          choose_type(DIT_TYPE_I8_ROW, "", &tensor) == DIT_TYPE_F32);
    tensor.shape[0] = 8;
    tensor.name = "single_transformer_blocks.0.proj_out.weight";
    CHECK(choose_type(DIT_TYPE_Q4_0, "", &tensor) == DIT_TYPE_Q4_0);
    tensor.name = "proj_out.weight";
    CHECK(choose_type(DIT_TYPE_Q4_0, "", &tensor) == DIT_TYPE_F32);
    tensor.name = "adaln_single.linear.weight";
    CHECK(choose_type(DIT_TYPE_Q4_0, "", &tensor) == DIT_TYPE_Q8_0 &&
          choose_type(DIT_TYPE_BF16, "", &tensor) == DIT_TYPE_BF16);
    tensor.name = "scale_shift_table";
    CHECK(choose_type(DIT_TYPE_Q8_0, "", &tensor) == DIT_TYPE_F32);
    tensor.name = "conv.weight", tensor.shape[1] = 48;
    CHECK(choose_type(DIT_TYPE_Q8_0, "", &tensor) == DIT_TYPE_F16);
    tensor.rank = 4, tensor.shape[2] = tensor.shape[3] = 2;
    CHECK(choose_type(DIT_TYPE_Q8_0, "", &tensor) == DIT_TYPE_Q8_0);
    tensor.type = DIT_TYPE_I64;
    CHECK(choose_type(DIT_TYPE_Q8_0, "", &tensor) == DIT_TYPE_I64);
}

/* --- int8 rows --- */

static void check_row_class(const char *component, const char *name, uint32_t columns, dit_type wanted) {
    diti_stored_tensor tensor = {0};
    tensor.type = DIT_TYPE_F16, tensor.rank = 2, tensor.shape[0] = 8, tensor.shape[1] = columns;
    tensor.name = name;
    CHECK_MESSAGE(choose_type(DIT_TYPE_I8_ROW_ROTATED, component, &tensor) == wanted, "%s of %u", name, columns);
}

static void test_row_classes(void) {
    check_row_class("transformer", "transformer_blocks.0.attn1.to_q.weight", 512, DIT_TYPE_I8_ROW_ROTATED);
    check_row_class("transformer", "transformer_blocks.0.attn1.to_q.weight", 1152, DIT_TYPE_I8_ROW);
    check_row_class("transformer", "blocks.0.mlp.fc1.weight", 100, DIT_TYPE_I8_ROW);
    check_row_class("transformer", "transformer_blocks.0.norm1.linear.weight", 512, DIT_TYPE_Q8_0);
    check_row_class("transformer", "adaln_single.linear.weight", 512, DIT_TYPE_Q8_0);
    check_row_class("transformer", "caption_projection.linear_1.weight", 512, DIT_TYPE_Q8_0);
    check_row_class("transformer", "adaln_single.emb.timestep_embedder.linear_1.weight", 256, DIT_TYPE_F16);
    check_row_class("transformer", "blocks.0.mlp.fc1.weight", 1u << 18, DIT_TYPE_Q8_0); /* sums could overflow */
    check_row_class("transformer", "transformer_blocks.0.norm1.emb.class_embedder.embedding_table.weight", 512,
                    DIT_TYPE_Q8_0);
    check_row_class("text_encoder", "encoder.block.0.layer.1.DenseReluDense.wo.weight", 512, DIT_TYPE_Q8_0);
    check_row_class("vae", "decoder.up_blocks.0.attentions.0.to_q.weight", 512, DIT_TYPE_Q8_0);
}

/* The rows of a tensor as the device gets them. */
static unsigned char *device_rows(const diti_env *env, const diti_checkpoint *file, const diti_stored_tensor *tensor,
                                  dit_type type, size_t *size) {
    diti_i8_source source = {env, file, tensor, type, (uint32_t)tensor->shape[1], NULL, NULL};
    dit_error err = {0};
    unsigned char *rows;
    uint64_t bytes = 0;
    CHECK(diti_weight_bytes(type, tensor->shape[0], source.columns, &bytes));
    *size = (size_t)bytes;
    rows = malloc(*size);
    CHECK_MESSAGE(diti_i8_rows(&source, 0, (uint32_t)tensor->shape[0], rows, &err) == DIT_OK, "%s", err.message);
    return rows;
}

/* Every I8 or I4 tensor of a converted component, bit for bit what loading the original as int8 makes. Returns their
 * number; *rotated: how many of them are, *four: how many have 4 bits. */
static size_t check_rows(const diti_env *env, const char *from_path, const char *to_path, const char *component,
                         size_t *rotated, size_t *four) {
    diti_package *from = open_package(env, from_path), *to = open_package(env, to_path);
    const diti_checkpoint *a = NULL, *b = NULL;
    const char *own, *prefix;
    dit_error err = {0};
    size_t count = 0;
    CHECK(diti_package_component(from, component, &a, &own, &err) == DIT_OK && a);
    CHECK(diti_package_component(to, component, &b, &prefix, &err) == DIT_OK && b);
    for (uint32_t i = 0; a && b && i < diti_checkpoint_count(a); i++) {
        const diti_stored_tensor *x = diti_checkpoint_tensor(a, i), *y;
        unsigned char *made, *kept;
        size_t made_size, kept_size;
        dit_type type;
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, x->name + strlen(own));
        y = diti_checkpoint_find(b, name);
        if (!diti_starts_with(x->name, own) || !CHECK(y) || !diti_type_is_i8(y->type)) continue;
        CHECK_MESSAGE(diti_i8_stored_type(b, y, &type, &err) == DIT_OK, "%s", err.message);
        made = device_rows(env, a, x, type, &made_size), kept = device_rows(env, b, y, type, &kept_size);
        CHECK_MESSAGE(made_size == kept_size && !memcmp(made, kept, made_size), "%s", name);
        free(made), free(kept);
        count++, *rotated += diti_type_is_rotated(type), *four += type == DIT_TYPE_I4_ROW_ROTATED;
    }
    diti_package_close(from), diti_package_close(to);
    return count;
}

/* A file of int8 rows in which every `from` in front of the weights became `to`, as long: refused by its headers alone.
 */
static void check_damaged_rows(const char *from, const char *to, size_t length, const char *culprit) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    size_t size, found = 0;
    char *data = test_read_file(output, &size);
    for (size_t i = 0; data && i + length < size; i++)
        if (!memcmp(data + i, from, length)) memcpy(data + i, to, length), found++;
    CHECK_MESSAGE(found > 0, "no %s in the file", from);
    desc.source.data = data;
    desc.source.size = size;
    desc.dry_run = true;
    CHECK(dit_model_load(NULL, &desc, &model, &err) == DIT_ERROR_UNSUPPORTED_MODEL && !model);
    CHECK_MESSAGE(strstr(err.message, culprit) && !strchr(err.message, '\n'), "%s", err.message);
    free(data);
}

/* The file with 4 bits is one that a model loads from. */
static void check_four_model(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = output;
    desc.dry_run = true;
    CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message);
    dit_model_destroy(model);
}

/* Text streams and modulation keep 8 bits, rows that groups do not fill become I8. */
static void test_four_classes(void) {
    diti_stored_tensor tensor = {0};
    tensor.type = DIT_TYPE_F16, tensor.rank = 2, tensor.shape[0] = 8, tensor.shape[1] = 512;
    tensor.name = "transformer_blocks.0.attn.to_q.weight";
    CHECK(choose_type(DIT_TYPE_I4_ROW_ROTATED, "transformer", &tensor) == DIT_TYPE_I4_ROW_ROTATED);
    tensor.name = "transformer_blocks.0.attn.add_q_proj.weight";
    CHECK(choose_type(DIT_TYPE_I4_ROW_ROTATED, "transformer", &tensor) == DIT_TYPE_I8_ROW_ROTATED);
    tensor.name = "transformer_blocks.0.norm1.linear.weight";
    CHECK(choose_type(DIT_TYPE_I4_ROW_ROTATED, "transformer", &tensor) == DIT_TYPE_Q8_0);
    tensor.name = "transformer_blocks.0.attn.to_q.weight", tensor.shape[1] = 640;
    CHECK(choose_type(DIT_TYPE_I4_ROW_ROTATED, "transformer", &tensor) == DIT_TYPE_I8_ROW);
    tensor.name = "decoder.up_blocks.0.attentions.0.to_q.weight", tensor.shape[1] = 512;
    CHECK(choose_type(DIT_TYPE_I4_ROW_ROTATED, "vae", &tensor) == DIT_TYPE_Q8_0);
}

static void test_rows(const diti_env *env) {
    static const char again[] = "build/convert_again.gguf";
    size_t rotated = 0, four = 0, first_size, second_size;
    char *first, *second;
    char *ruled[] = {
        "dit-convert",       "--type",       "f16", "--tensor-type-rules", "text_encoder.*wo.*=q8_0,text_encoder.*=i8r",
        (char *)folder_path, (char *)output, NULL};
    CHECK(run("i8r", folder_path, output) == 0);
    CHECK(check_rows(env, folder_path, output, "transformer", &rotated, &four) >= 18 && rotated == 0);
    CHECK(check_rows(env, folder_path, output, "text_encoder", &rotated, &four) == 0);
    CHECK(check_rows(env, folder_path, output, "vae", &rotated, &four) == 0);
    CHECK(run("i8r", output, again) == 0); /* int8 stays as it is */
    first = test_read_file(output, &first_size), second = test_read_file(again, &second_size);
    CHECK(first_size == second_size && !memcmp(first, second, first_size));
    free(first), free(second);
    CHECK(run("q8_0", output, again) == EXIT_INPUT); /* int8 becomes nothing else */
    CHECK(run("I8R+ROT", "models/emoji-q8_0.gguf", output) == 0);
    CHECK(check_rows(env, "models/emoji-q8_0.gguf", output, "transformer", &rotated, &four) == 100 && rotated == 100);
    CHECK(run("i8r", output, again) == EXIT_INPUT);
    check_damaged_rows("ff.net.2.weight_scale", "ff.net.2.weight_scalf", 21, "ff.net.2.weight_scale'");
    check_damaged_rows("to_k.weight\4\0\0\0\0\1", "to_k.weight\4\0\0\0\200\0", 17, "groups of 128");
    CHECK(run("i8r+rot", output, again) == 0);
    first = test_read_file(output, &first_size), second = test_read_file(again, &second_size);
    CHECK(first_size == second_size && !memcmp(first, second, first_size));
    free(first), free(second);
    CHECK(four == 0 && run("i4r+rot", "models/emoji-q8_0.gguf", output) == 0);
    rotated = 0;
    CHECK(check_rows(env, "models/emoji-q8_0.gguf", output, "transformer", &rotated, &four) == 100 && rotated == 100 &&
          four == 100);
    CHECK(run("i8r+rot", output, again) == EXIT_INPUT);
    check_damaged_rows("ff.net.2.weight_scale", "ff.net.2.weight_scalf", 21, "ff.net.2.weight_scale'");
    check_damaged_rows("i4_row_rotated", "i4_row_rotatex", 14, "holds blocks of 'i4_row_rotatex'");
    CHECK(run("i4r+rot", output, again) == 0); /* int4 stays as it is */
    first = test_read_file(output, &first_size), second = test_read_file(again, &second_size);
    CHECK(first_size == second_size && !memcmp(first, second, first_size));
    free(first), free(second);
    check_four_model();
    rotated = 0;
    CHECK(convert_main(7, ruled) == 0);
    CHECK(check_rows(env, folder_path, output, "transformer", &rotated, &four) == 0);
    CHECK(check_rows(env, folder_path, output, "text_encoder", &rotated, &four) >= 6 && rotated == 0);
    remove(output), remove(again);
}

/* The bundled model: all parts inside, at most 20 MB, its convolutions quantized with their shapes kept. */
static void test_bundled_model(const diti_env *env) {
    static const char *const components[] = {"transformer", "text_encoder", "vae"};
    diti_package *package = open_package(env, "models/emoji-q8_0.gguf");
    const diti_checkpoint *file;
    const char *prefix;
    dit_error err = {0};
    size_t convolutions = 0;
    char *text;
    size_t size;
    if (!package) return;
    for (size_t i = 0; i < DITI_COUNT(components); i++) {
        CHECK(diti_package_component(package, components[i], &file, &prefix, &err) == DIT_OK && file && *prefix);
    }
    for (uint32_t i = 0; i < diti_checkpoint_count(file); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(file, i);
        if (tensor->rank == 4 && tensor->type == DIT_TYPE_Q8_0) convolutions++;
        CHECK(tensor->type == DIT_TYPE_Q8_0 || tensor->type == DIT_TYPE_F16);
    }
    CHECK_MESSAGE(convolutions == 36, "%zu", convolutions);
    CHECK(diti_package_read(package, "tokenizer/spiece.model", &text, &size, &err) == DIT_OK && size == 262170);
    diti_free(env, text);
    diti_package_close(package);
    text = test_read_file("models/emoji-q8_0.gguf", &size);
    CHECK(size > 0 && size <= 20000000);
    free(text);
}

/* Converts and returns what went wrong; the output is left only where nothing did. */
static dit_result convert_folder(const char *input, dit_error *err) {
    converter convert = {0};
    dit_result result;
    FILE *left;
    memset(err, 0, sizeof *err);
    convert.env = test_env(NULL);
    convert.input = input, convert.output = output, convert.name = "test", convert.type = DIT_TYPE_Q8_0;
    convert.err = err;
    remove(output);
    result = convert_model(&convert);
    clean_up(&convert);
    left = fopen(output, "rb");
    CHECK((left != NULL) == (result >= 0));
    if (left) fclose(left);
    remove(output);
    return result;
}

static void write_text(const char *path, const char *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (CHECK_MESSAGE(file, "cannot write %s", path)) fwrite(data, 1, size, file), fclose(file);
}

/* Damage that would be refused only when the output is used is refused before the output is written, by the name of the
   file. */
static void test_damaged_input(void) {
    static const char copy[] = "build/convert_damaged";
    static const struct {
        const char *file, *text, *words;
    } damages[] = {
        {"transformer/config.json", "garbage", "transformer/config.json: JSON error at byte 0"},
        {"transformer/config.json", "{\"num_layers\": 1}", "num_layers: 1, but the file holds 2"},
        {"transformer/config.json", "{\"norm_eps\": \"x\"}", "transformer's config.json: norm_eps: \"x\""},
        {"text_encoder/config.json", "{\"num_layers\": 2", "text_encoder/config.json: JSON error"},
        {"text_encoder/config.json", "{\"layer_norm_epsilon\": []}", "layer_norm_epsilon: the list"},
        {"vae/config.json", "", "vae/config.json: JSON error"},
        {"vae/config.json", "{\"scaling_factor\": \"x\"}", "autoencoder's config.json: scaling_factor: \"x\""},
        {"scheduler/scheduler_config.json", "[", "scheduler/scheduler_config.json: JSON error"},
        {"scheduler/scheduler_config.json", "{\"_class_name\": \"DDIMScheduler\", \"beta_start\": \"x\"}",
         "scheduler_config.json: beta_start: \"x\" is not a number"},
        {"tokenizer/tokenizer_config.json", "{\"a\": tru}", "tokenizer/tokenizer_config.json: JSON error"},
        {"tokenizer/tokenizer_config.json", "{\"model_max_length\": \"300\"}", "model_max_length: \"300\""},
        {"tokenizer/spiece.model", "\ngarbage", "tokenizer/spiece.model"},
        {"tokenizer/spiece.model", "garbage", "tokenizer/spiece.model"},
        {"tokenizer/spiece.model", "", "tokenizer/spiece.model"},
        {"model_index.json", "{", "model_index.json: JSON error"},
    };
#ifdef _WIN32
    static const char fill[] = "xcopy /e /i /q /y tests\\fixtures\\pipe_pixart_sigma build\\convert_damaged",
                      drop[] = "rmdir /s /q build\\convert_damaged";
#else
    static const char drop[] = "rm -rf build/convert_damaged",
                      fill[] = "rm -rf build/convert_damaged && cp -rL tests/fixtures/pipe_pixart_sigma "
                               "build/convert_damaged && chmod -R u+w build/convert_damaged";
#endif
    char name[128];
    dit_error err;
    bytes archive = {0};
    size_t size, i;
    char *data;
    if (!CHECK(system(fill) == 0)) return;
    CHECK_MESSAGE(convert_folder(copy, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < DITI_COUNT(damages); i++) {
        snprintf(name, sizeof name, "%s/%s", copy, damages[i].file);
        data = test_read_file(name, &size);
        write_text(name, damages[i].text, strlen(damages[i].text));
        CHECK_MESSAGE(convert_folder(copy, &err) < 0 && strstr(err.message, damages[i].words), "%s with %s: %s",
                      damages[i].file, damages[i].text, err.message);
        write_text(name, data, size);
        free(data);
    }
    CHECK(convert_folder(copy, &err) == DIT_OK);
    CHECK(system(drop) == 0);
    /* weights of a model that dit.h does not know are converted, but not damaged ones */
    data = test_read_file("tests/fixtures/pytorch/nested.bin", &size);
    bytes_add(&archive, data, size);
    free(data);
    write_text("build/convert_test.bin", (const char *)archive.data, archive.size);
    CHECK_MESSAGE(convert_folder("build/convert_test.bin", &err) == DIT_OK, "%s", err.message);
    for (i = 0; i + 13 < archive.size && memcmp(archive.data + i, "nested/data/0", 13); i++) {
    }
    archive.data[i + 13 + archive.data[i - 2] + 256u * archive.data[i - 1]] ^= 4;
    write_text("build/convert_test.bin", (const char *)archive.data, archive.size);
    CHECK_MESSAGE(convert_folder("build/convert_test.bin", &err) == DIT_ERROR_BAD_FILE &&
                      strstr(err.message, "entry 'nested/data/0' of the zip archive is damaged: its CRC-32 is"),
                  "%s", err.message);
    remove("build/convert_test.bin");
    bytes_free(&archive);
}

static void narrow_sd3(real_file *file) { real_sd3(file, 2, 8, 0, false); }
static void narrow_wan(real_file *file) { real_wan(file, 32, 2, 64, 16, 16, 0); }
static void narrow_lumina2(real_file *file) { real_lumina2(file, 32, 16, 16, 32, 2, 2); }
static void narrow_zimage(real_file *file) { real_zimage(file, 128, 2, 2); }
static void narrow_qwenimage(real_file *file) { real_qwenimage(file, 128, 2); }
static void narrow_ltx(real_file *file) { real_ltx(file, 32, 2); }
static void narrow_ltx2(real_file *file) { real_ltx2(file, true, 4, 2); }
static void narrow_hunyuanvideo(real_file *file) { real_hunyuanvideo(file, 128, 2, 2); }
static void narrow_hunyuanvideo15(real_file *file) { real_hunyuanvideo15(file, 128, 2, 64); }
static void narrow_pixart(real_file *file) { real_pixart(file, 32, 28, 8, 8, false); } /* as many tables as LTX has */

/* Writes that model as BF16. */
static void write_narrow(const char *path, void (*make)(real_file *file), bool original, const char *prefix) {
    real_file file = {0};
    dit_source source;
    char *data;
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_BF16;
    file.original = original;
    file.prefix = prefix;
    make(&file);
    source = real_source(&file);
    data = malloc((size_t)source.size);
    CHECK(source.read_at(0, data, (size_t)source.size, source.user) == (int64_t)source.size);
    write_text(path, data, (size_t)source.size);
    free(data);
    real_free(&file);
}

/* A transformer alone with its original names says what it is, as ComfyUI-GGUF wants it; all others are dit.h's. */
static void test_architecture(const diti_env *env) {
    static const char made[] = "build/convert_test.safetensors", prefix[] = "model.diffusion_model.";
    static const struct {
        const char *input; /* NULL: it is made */
        void (*make)(real_file *file);
        bool original;
        const char *prefix, *wanted, *parameter; /* one that becomes F32 */
    } rows[] = {{"tests/fixtures/gguf_flux_sdcpp/model.gguf", NULL, true, NULL, "flux", NULL},
                {"tests/fixtures/pipe_flux/transformer", NULL, false, NULL, "dit", NULL},
                {"tests/fixtures/pipe_flux", NULL, false, NULL, "dit", NULL},
                {NULL, narrow_sd3, true, prefix, "sd3", NULL},
                {NULL, narrow_wan, true, NULL, "wan", "blocks.1.modulation"},
                {NULL, narrow_wan, true, prefix, "wan", "model.diffusion_model.head.modulation"},
                {NULL, narrow_wan, false, NULL, "dit", NULL},
                {NULL, narrow_lumina2, true, NULL, "lumina2", NULL},
                {NULL, narrow_lumina2, false, NULL, "dit", NULL},
                {NULL, narrow_zimage, true, NULL, "lumina2", "x_pad_token"},
                {NULL, narrow_zimage, false, NULL, "dit", NULL},
                {NULL, narrow_qwenimage, true, NULL, "qwen_image", NULL},
                {NULL, narrow_ltx, true, NULL, "ltxv", "transformer_blocks.1.scale_shift_table"},
                {NULL, narrow_ltx, false, NULL, "dit", NULL},
                {NULL, narrow_ltx2, true, NULL, "ltxv", "transformer_blocks.1.audio_prompt_scale_shift_table"},
                {NULL, narrow_ltx2, true, prefix, "ltxv",
                 "model.diffusion_model.transformer_blocks.1.scale_shift_table_a2v_ca_video"},
                {NULL, narrow_pixart, false, NULL, "dit", NULL},
                {NULL, narrow_hunyuanvideo, true, NULL, "hyvid", NULL},
                {NULL, narrow_hunyuanvideo, false, NULL, "dit", NULL},
                {NULL, narrow_hunyuanvideo15, true, NULL, "hyvid", NULL}};
    for (size_t i = 0; i < DITI_COUNT(rows); i++) {
        const char *input = rows[i].input ? rows[i].input : made, *prefix_of;
        const diti_checkpoint *converted = NULL;
        const diti_stored_tensor *parameter;
        dit_error err = {0};
        diti_package *package;
        if (rows[i].make) write_narrow(made, rows[i].make, rows[i].original, rows[i].prefix);
        if (!CHECK_MESSAGE(run("q8_0", input, output) == 0, "row %zu", i)) continue;
        package = open_package(env, output);
        CHECK(diti_package_component(package, "", &converted, &prefix_of, &err) == DIT_OK && converted);
        if (converted) {
            CHECK_MESSAGE(diti_equal(diti_checkpoint_text(converted, "general.architecture"), rows[i].wanted),
                          "row %zu, %s: %s", i, rows[i].wanted,
                          diti_checkpoint_text(converted, "general.architecture"));
            parameter = rows[i].parameter ? diti_checkpoint_find(converted, rows[i].parameter) : NULL;
            if (rows[i].parameter)
                CHECK_MESSAGE(parameter && parameter->type == DIT_TYPE_F32, "row %zu, %s", i, rows[i].parameter);
            parameter = diti_equal(rows[i].wanted, "dit") ? diti_checkpoint_find(converted, "scale_shift_table") : NULL;
            CHECK_MESSAGE(!parameter || parameter->type == DIT_TYPE_BF16, "row %zu keeps its tables", i);
        }
        diti_package_close(package);
    }
    remove(made), remove(output);
}

#ifndef _WIN32
/* PyPI's reader of GGUF, which other programs share, finds every tensor and makes the same values of it. */
static void check_read(const diti_env *env) {
    static const char values_path[] = "build/convert_values";
    diti_package *package = open_package(env, output);
    const diti_checkpoint *file = NULL;
    const char *prefix;
    dit_error err = {0};
    size_t size = 0, at = 0, count = 0;
    char *data = test_read_file(values_path, &size);
    CHECK(diti_package_component(package, "", &file, &prefix, &err) == DIT_OK && file);
    while (data && file && at + 12 < size) {
        const diti_stored_tensor *tensor;
        uint32_t length;
        uint64_t elements;
        float *own;
        char name[256];
        memcpy(&length, data + at, 4), memcpy(&elements, data + at + 4, 8);
        if (!CHECK(length < sizeof name && at + 12 + length + 4 * elements <= size)) break;
        snprintf(name, sizeof name, "%.*s", (int)length, data + at + 12);
        at += 12 + length;
        tensor = diti_checkpoint_find(file, name);
        own = malloc(4 * (size_t)elements + 4);
        if (CHECK_MESSAGE(own && tensor && diti_stored_tensor_elements(tensor) == elements, "%s", name)) {
            CHECK(diti_checkpoint_read_float(file, tensor, own, elements, &err) == DIT_OK);
            CHECK_MESSAGE(memcmp(own, data + at, 4 * (size_t)elements) == 0, "%s: %s has other values", output, name);
        }
        free(own);
        at += 4 * (size_t)elements, count++;
    }
    CHECK_MESSAGE(at == size && file && count == diti_checkpoint_count(file), "%zu tensors were read", count);
    free(data);
    diti_package_close(package);
    remove(values_path);
}

static void test_other_reader(const diti_env *env) {
    static const char script[] =
        "import sys, struct, numpy, gguf\n"
        "with open(sys.argv[2], 'wb') as out:\n"
        "    for t in gguf.GGUFReader(sys.argv[1]).tensors:\n"
        "        values = gguf.quants.dequantize(t.data, t.tensor_type).astype(numpy.float32)\n"
        "        out.write(struct.pack('<IQ', len(t.name.encode()), values.size) + t.name.encode() + values.tobytes())\n";
    static const char *const types[] = {"q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "q5_1", "bf16"};
    if (system("{ test -x build/gguf/bin/python || python3 -m venv build/gguf; } >/dev/null 2>&1 && "
               "{ build/gguf/bin/python -c 'import gguf' || build/gguf/bin/pip install -q gguf; } >/dev/null 2>&1") !=
        0) {
        printf("skipped: files in another program's reader: PyPI's gguf cannot be installed (build/gguf)\n");
        return;
    }
    write_text("build/convert_read.py", script, strlen(script));
    for (size_t i = 0; i < DITI_COUNT(types); i++) {
        char line[256];
        snprintf(line, sizeof line, "build/gguf/bin/python build/convert_read.py %s build/convert_values", output);
        CHECK(run(types[i], "models/emoji-q8_0.gguf", output) == 0);
        if (CHECK_MESSAGE(system(line) == 0, "%s: %s", types[i], line)) check_read(env);
    }
    remove("build/convert_read.py"), remove(output);
}
#endif

static bool is_half_written(const char *path) {
    char part[PATH_SIZE];
    struct stat info;
    return name_part(path, part, sizeof part) && stat(part, &info) == 0;
}

static size_t size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (size_t)info.st_size : 0;
}

/* A symbolic link stays one, even before its file exists; a file that weights are read from is not replaced; where the
   disk is full, the old file stays. */
#ifndef _WIN32
static void test_output(void) {
    static const char link[] = "build/convert_link.gguf", copy[] = "build/convert_copy.gguf";
    struct rlimit usual, limit;
    struct stat info;
    size_t size;
    remove(link), remove(output), remove(copy);
    for (int again = 0; again < 2; again++) {
        if (!again) CHECK(symlink("convert_test.gguf", link) == 0);
        CHECK(run("q8_0", folder_path, link) == EXIT_GOOD);
        CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode) && size_of(output) > 10000);
    }
    size = size_of(output);
    CHECK(run("f32", output, link) == EXIT_USAGE &&
          run("f32", output, "build/../build/convert_test.gguf") == EXIT_USAGE);
    CHECK(size_of(output) == size);
    write_text(copy, "old", 3);
    CHECK(getrlimit(RLIMIT_FSIZE, &usual) == 0);
    limit = usual, limit.rlim_cur = 8192;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(run("q8_0", folder_path, copy) == EXIT_OUTPUT);
    CHECK(setrlimit(RLIMIT_FSIZE, &usual) == 0);
    CHECK(size_of(copy) == 3 && !is_half_written(copy));
    remove(link), remove(output), remove(copy);
}
#endif

/* The program runs with these arguments, of which the last is NULL; gives what it says on stream 1 or 2. */
static const char *said_for(char **arguments, int stream, int *code) {
    static char text[4096];
    FILE *said = tmpfile();
    const int usual = dup(stream);
    int count = 0;
    size_t size;
    while (arguments[count]) count++;
    if (!said || usual < 0) abort();
    fflush(stdout);
    dup2(fileno(said), stream);
    *code = convert_main(count, arguments);
    fflush(stdout);
    dup2(usual, stream);
    close(usual);
    rewind(said);
    size = fread(text, 1, sizeof text - 1, said);
    text[size] = 0;
    fclose(said);
    return text;
}

/* A refusal names the option, its value and what it may be. */
static void test_refused_options(void) {
    static const struct {
        const char *arguments[4], *says;
    } refused[] = {{{"--steps", "0"}, "--steps takes a whole number from 1 to 1000, not 0;"},
                   {{"--steps=0"}, "--steps takes a whole number from 1 to 1000, not 0;"},
                   {{"--steps", "0.5"}, "--steps takes a whole number from 1 to 1000, not 0.5;"},
                   {{"--steps", "1e9"}, "--steps takes a whole number from 1 to 1000, not 1e9;"},
                   {{"--guidance", "nan"}, "--guidance takes a number above 0, up to 1000, not nan;"},
                   {{"--rank", "5"}, "--rank is that of --method svd or svd+gptq"},
                   {{"--rank", "5", "--method", "plain"}, "--rank is that of --method svd or svd+gptq"},
                   {{"--expanded", "--type", "q4_0"}, "--expanded is about i4_group, which"},
                   {{"--method", "svd"}, "--method rounds i4_group where"},
                   {{"--method", "svd", "--fit", "1GB"}, "--method rounds i4_group where"},
                   {{"--expanded", "--fit", "1GB"}, "--expanded writes values that take more room than --fit counts"},
                   {{"--calibrate", "p.txt", "--type", "q4_k"}, "--calibrate is for --fit, --method and --smooth"},
                   {{"--guidance", "-1"}, "--guidance takes a number above 0, up to 1000, not -1;"}};
    for (size_t i = 0; i < DITI_COUNT(refused); i++) {
        char *arguments[8] = {"dit-convert"};
        int n = 1, code;
        const char *said;
        for (int k = 0; k < 4 && refused[i].arguments[k]; k++) arguments[n++] = (char *)refused[i].arguments[k];
        arguments[n++] = "in";
        arguments[n++] = "out.gguf";
        said = said_for(arguments, 2, &code);
        CHECK_MESSAGE(code == EXIT_USAGE && strstr(said, refused[i].says), "%d: %s", code, said);
    }
}

/* Each line of --fit --json is JSON, whatever the names. */
static void test_lines_of_json(const diti_env *env) {
    static const char path[] = "build/convert_test.safetensors";
    static const float values[8 * 64] = {0.5f, -1};
    char *arguments[] = {"dit-convert", "--fit", "1GB", "--json", (char *)path, (char *)output, NULL};
    const uint64_t shape[2] = {8, 64};
    const char *said, *end;
    int code, lines = 0;
    lora_file file = {0};
    lora_file_bytes(&file, "blocks.0.\\\"a\\\\b\\\".weight", "F32", shape, 2, values, sizeof values);
    write_lora_file(&file, path);
    said = said_for(arguments, 1, &code);
    CHECK(code == EXIT_GOOD);
    for (; (end = strchr(said, '\n')) != NULL; said = end + 1, lines++) {
        diti_json *line = NULL;
        dit_error err = {0};
        CHECK_MESSAGE(diti_json_parse(env, said, (size_t)(end - said), "line", &line, &err) == DIT_OK, "%s",
                      err.message);
        if (line && lines == 0) CHECK(diti_equal(diti_json_string(line, "tensor", ""), "blocks.0.\"a\\b\".weight"));
        diti_json_free(env, line);
    }
    CHECK_MESSAGE(lines == 2, "%d", lines);
    remove(path);
    remove(output);
}

/* Packed tensors stay as they are where the file fits, because no larger type holds more of them. */
static void test_fit_packed(const diti_env *env) {
    static const char packed[] = "build/convert_test_packed.gguf";
    char *arguments[] = {"dit-convert", "--fit", "1GB", (char *)packed, (char *)output, NULL};
    dit_source from = {0}, to = {0};
    diti_checkpoint *a = NULL, *b = NULL;
    dit_error err = {0};
    int code;
    from.path = packed;
    to.path = output;
    CHECK(run("q4_0", folder_path, packed) == EXIT_GOOD);
    said_for(arguments, 1, &code);
    CHECK(code == EXIT_GOOD);
    CHECK_MESSAGE(diti_checkpoint_open(env, &from, &a, &err) == DIT_OK &&
                      diti_checkpoint_open(env, &to, &b, &err) == DIT_OK,
                  "%s", err.message);
    for (uint32_t i = 0; a && b && i < diti_checkpoint_count(a); i++) {
        const diti_stored_tensor *x = diti_checkpoint_tensor(a, i), *y = diti_checkpoint_find(b, x->name);
        if (!CHECK_MESSAGE(y && y->type == x->type, "%s: %s becomes %s", x->name, diti_type_name(x->type),
                           y ? diti_type_name(y->type) : "nothing"))
            continue;
        check_same_tensor(a, x, b, y, 0);
    }
    diti_checkpoint_close(a);
    diti_checkpoint_close(b);
    remove(packed);
    remove(output);
}

/* Each refusal is one line on stderr and leaves no file. */
static void test_errors(void) {
    static const char *const wrong_types[] = {"q3_k", "i32", "f8_e4m3", "stored", "nonsense", ""};
    const float values[] = {1, NAN};
    bytes file = safetensors_bytes("{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", 8);
    char *no_steps[] = {"dit-convert", "--steps", "0.5", "in", "out.gguf", NULL},
         *no_value[] = {"dit-convert", "--type", NULL};
    char *too_few[] = {"dit-convert", "in", NULL}, *unknown[] = {"dit-convert", "--fast", "in", "out.gguf", NULL};
    static const char *const wrong_rules[] = {"",       "=q8_0", "vae.*", "vae.*=q9", "vae.*=f16,", "vae.*=f16,,a=f16",
                                              "vae=i32"};
    FILE *out = fopen("build/convert_test.safetensors", "wb");
    for (size_t i = 0; i < DITI_COUNT(wrong_types); i++) CHECK(run(wrong_types[i], folder_path, output) == EXIT_USAGE);
    for (size_t i = 0; i < DITI_COUNT(wrong_rules); i++) {
        char *rules[] = {"dit-convert", "--tensor-type-rules", (char *)wrong_rules[i], "in", "out.gguf", NULL};
        CHECK_MESSAGE(convert_main(5, rules) == EXIT_USAGE, "%s", wrong_rules[i]);
    }
    CHECK(convert_main(5, no_steps) == EXIT_USAGE && convert_main(2, no_value) == EXIT_USAGE);
    CHECK(convert_main(2, too_few) == EXIT_USAGE && convert_main(4, unknown) == EXIT_USAGE);
    CHECK(run("q8_0", folder_path, "build/convert_test.bin") == EXIT_USAGE);
    CHECK(run("q8_0", "tests/fixtures/no_such_folder", output) == EXIT_INPUT);
    CHECK(run("q8_0", "tests", output) == EXIT_INPUT);
    CHECK(run("q8_0", folder_path, "build/no_such_folder/a.gguf") == EXIT_OUTPUT);
    memcpy(file.data + file.size - 8, values, 8);
    if (CHECK(out)) fwrite(file.data, 1, file.size, out), fclose(out);
    CHECK(run("f16", "build/convert_test.safetensors", output) == EXIT_INPUT);
    CHECK(!fopen(output, "rb") && !is_half_written(output));
    remove("build/convert_test.safetensors");
    bytes_free(&file);
}

/* ---- a file that is larger than memory ---- */

#if defined __linux__ && !defined __SANITIZE_ADDRESS__ /* the same program runs in both ways */
#define LARGE
/* Bits of a weight in q4_0 (docs/quantization.md): 8.5 in modulation and in the text stream, 4.5 in other matrices of
   blocks, and 16, as stored, in what is no matrix of a block. */
static double q4_0_bits(const real_tensor *tensor) {
    if (tensor->rank != 2 || !strstr(tensor->name, "_blocks.")) return 16;
    return strstr(tensor->name, "norm") || strstr(tensor->name, "add_") || strstr(tensor->name, "context") ? 8.5 : 4.5;
}

/* FLUX.1's names and width, 16 double and 32 single blocks, BF16: 20 GB, all zeros, of which the disk holds the header
   alone. converted: bytes of its weights in q4_0. */
static uint64_t write_sparse(const char *path, double *converted) {
    real_file file = {0};
    FILE *out = fopen(path, "wb");
    uint64_t size;
    size_t i;
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_BF16;
    real_flux(&file, 3072, 16, 32, true);
    real_safetensors_header(&file);
    size = file.header.size + file.data;
    for (*converted = 0, i = 0; i < file.count; i++)
        *converted += q4_0_bits(&file.tensors[i]) / 8 * (double)file.tensors[i].elements;
    if (CHECK(out)) {
        CHECK(fwrite(file.header.data, 1, file.header.size, out) == file.header.size);
        CHECK(fclose(out) == 0 && truncate(path, (off_t)size) == 0);
    }
    real_free(&file);
    return size;
}

/* dit-convert with 2 GB of addresses; its exit code, and the most memory that it had. */
static int convert_within(const char *from, const char *to, uint64_t *most) {
    struct rusage used = {0};
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {(rlim_t)2 << 30, (rlim_t)2 << 30};
        if (setrlimit(RLIMIT_AS, &limit) == 0)
            execl("build/dit-convert", "dit-convert", "--type", "q4_0", from, to, (char *)NULL);
        _exit(99);
    }
    CHECK(child > 0 && wait4(child, &status, 0, &used) == child);
    *most = (uint64_t)used.ru_maxrss << 10;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void test_large(void) {
    static const char from[] = "build/convert_large.safetensors", to[] = "build/convert_large.gguf";
    const uint64_t needed = (uint64_t)9 << 30; /* 8 GB, and room */
    struct statvfs disk;
    uint64_t size, most;
    double converted;
    if (statvfs("build", &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize < needed) {
        printf("skipped: the 20 GB checkpoint; 9 GB of disk must be free\n");
        return;
    }
    size = write_sparse(from, &converted);
    CHECK_MESSAGE(size > 20000000000u, "%.1f GB", (double)size / 1e9);
    CHECK(convert_within(from, to, &most) == EXIT_GOOD);
    printf("%.1f GB converted with %.1f MB of memory, 2 GB of addresses allowed\n", (double)size / 1e9,
           (double)most / 1e6);
    CHECK_MESSAGE(most < 100000000u && fabs((double)size_of(to) / converted - 1) < 1e-3,
                  "%.1f MB of memory, %.1f MB converted to %.1f, not %.1f", (double)most / 1e6, (double)size / 1e6,
                  (double)size_of(to) / 1e6, converted / 1e6);
    remove(from), remove(to);
}
#endif

int main(void) {
    diti_env env = test_env(NULL);
    test_as_ggml(&env);
    test_odd_rows_as_ggml();
    test_exact_blocks();
    test_classes();
    test_row_classes();
    test_four_classes();
    test_rows(&env);
    test_folder(&env, "q8_0", 0.01);
    test_folder(&env, "q4_0", 0.15);
    test_folder(&env, "q4_1", 0.15);
    test_folder(&env, "q5_0", 0.08);
    test_folder(&env, "q5_1", 0.08);
    test_folder(&env, "bf16", 0.004);
    test_component_folder(&env);
    test_rare_parts(&env);
    test_tables_of_classes();
    test_language_models(&env);
    test_gemma(&env);
    test_metadata_of_safetensors(&env);
    test_words_beside_weights(&env);
    test_small_floats();
    test_bundled_model(&env);
    test_damaged_input();
    test_architecture(&env);
#ifndef _WIN32
    test_output();
#endif
    test_refused_options();
    test_lines_of_json(&env);
    test_fit_packed(&env);
    test_errors();
#ifndef _WIN32
    if (getenv("DIT_TEST_ALL") && *getenv("DIT_TEST_ALL") == '1') test_other_reader(&env);
#endif
#ifdef LARGE
    if (getenv("DIT_TEST_ALL") && *getenv("DIT_TEST_ALL") == '1') test_large();
#endif
    return TEST_END("convert");
}
