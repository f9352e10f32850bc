/* Models whose matrices are small floats with factors, as ComfyUI's files have them, against the model of F32 that the
   file means: on one device, divided, streamed, loaded by need, with LoRAs beside and within, and as int8 rows.

   make test runs two kinds on the base rung, one of them divided, too; DIT_TEST_ALL=1 all.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "small_floats.h"
#include "split/split_job.h"
#include "vulkan_test.h"

static const generated_model flux = {"flux8", "flux", 8, 16, 1, 1, 0, true};
static const char *const kind_names[] = {"F8, marked", "F8, older", "F8, rows", "NVFP4"};

static lora_file ours, meant, adapter; /* the file, and the floats that it means */

static void add_plain(lora_file *file, const diti_stored_tensor *tensor, const float *values) {
    lora_file_bytes(file, tensor->name, "F32", tensor->shape, tensor->rank, values,
                    (size_t)diti_stored_tensor_elements(tensor) * sizeof *values);
}

/* Every matrix of the blocks becomes one of the kind, in files that begin with the one of an older program. */
static void make_files(small_floats_kind kind) {
    const uint64_t none = 0;
    diti_env env = test_env(NULL);
    diti_checkpoint *model = NULL;
    generated_files made;
    lora_file_free(&ours);
    lora_file_free(&meant);
    generated_make(&made, &flux);
    CHECK(diti_checkpoint_open_member(&env, &made.components[0].source, "model.safetensors", &model, &err) == DIT_OK);
    if (kind == FLOAT8_OLDER) lora_file_bytes(&ours, "scaled_fp8", "F8_E4M3", &none, 1, NULL, 0);
    for (uint32_t i = 0; model && i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        uint64_t count = diti_stored_tensor_elements(tensor);
        float *values = malloc((size_t)count * sizeof *values);
        char module[200];
        CHECK(diti_checkpoint_read_float(model, tensor, values, count, &err) == DIT_OK);
        snprintf(module, sizeof module, "%.*s", (int)(strlen(tensor->name) - strlen(".weight")), tensor->name);
        if (tensor->rank == 2 && strstr(tensor->name, "blocks.") && diti_ends_with(tensor->name, ".weight"))
            small_floats_add(&ours, module, kind, values, tensor->shape[0], tensor->shape[1]);
        else
            add_plain(&ours, tensor, values);
        add_plain(&meant, tensor, values);
        free(values);
    }
    diti_checkpoint_close(model);
    generated_free(&made);
}

static dit_source folder_of;
static lora_file *served;

static dit_result open_served(const char *member, dit_source *out, void *user) {
    (void)user;
    if (strcmp(member, "model.safetensors")) return folder_of.open(member, out, folder_of.user);
    *out = lora_file_source(served);
    return DIT_OK;
}

typedef struct use {
    dit_type type;
    VkDeviceSize budget;
    int adapts; /* 1: beside the weights, 2: within */
    bool by_need;
} use;

static dit_result load_file(maker *m, lora_file *file, use how) {
    dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_STORED};
    dit_component components[3];
    dit_model_desc desc = DITI_ZERO;
    close_model(m);
    generated_make(&m->files, &flux);
    m->generated = true;
    memset(components, 0, sizeof components);
    memcpy(components, m->files.components, sizeof m->files.components);
    folder_of = components[0].source;
    served = file;
    components[0].source.open = open_served;
    components[2].source = lora_file_source(&adapter);
    components[2].role = DIT_ROLE_LORA;
    components[2].weight = 1;
    components[2].merge = how.adapts == 2;
    rule.type = how.type;
    desc.types = how.type ? &rule : NULL;
    desc.type_count = how.type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = how.adapts ? 3 : 2;
    desc.weight_budget = how.budget;
    desc.weights_by_need = how.by_need;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

static const asked small = {4, 4, 1, 1, 0, 0, 0, "euler", false, 0, NULL};
static outcome wanted, got, whole;

static bool run(maker *m, lora_file *file, use how, const char *split, outcome *out) {
    return CHECK_MESSAGE(load_file(m, file, how) == DIT_OK && run_asked(m, &small, split, out) == DIT_OK, "%s",
                         err.message);
}

static void near(const char *kind, const char *what, double most) {
    double off = difference(&got, &wanted);
    printf("%s%s: off by %.3g\n", kind, what, off);
    CHECK_MESSAGE(off <= most, "%s%s: off by %.3g, at most %g", kind, what, off, most);
}

static void test_kind(maker *m, small_floats_kind kind, double most) {
    const use plain = DITI_ZERO;
    make_files(kind);
    if (run(m, &meant, plain, NULL, &wanted) && run(m, &ours, plain, NULL, &got)) near(kind_names[kind], "", most);
}

/* With the smallest budget that the message of a smaller one names. */
static VkDeviceSize least_budget(maker *m) {
    const use streamed = {DIT_TYPE_STORED, 1, 0, false};
    const char *least;
    CHECK(load_file(m, &ours, streamed) == DIT_ERROR_INVALID_ARGUMENT);
    least = strstr(err.message, "at least ");
    return CHECK_MESSAGE(least, "%s", err.message) ? strtoull(least + strlen("at least "), NULL, 10) : 0;
}

/* Uses of the weights that test_kind has left files of. */
static void test_uses(maker *m, const char *kind) {
    const use plain = DITI_ZERO, beside = {DIT_TYPE_STORED, 0, 1, false}, within = {DIT_TYPE_STORED, 0, 2, false},
              rows = {DIT_TYPE_I8_ROW, 0, 0, false}, need = {DIT_TYPE_STORED, 0, 0, true};
    use streamed = plain;
    whole = got;
    if (CHECK_MESSAGE(run_asked(m, &small, "tensor2", &got) == DIT_OK, "%s", err.message))
        near(kind, ", tensor2", 1e-5);
    if (!whole_sweep()) return;
    streamed.budget = least_budget(m);
    if (run(m, &ours, streamed, NULL, &got)) CHECK(m->model->stream && difference(&got, &whole) == 0);
    if (run(m, &ours, need, NULL, &got)) CHECK(difference(&got, &whole) == 0);
    if (run(m, &meant, beside, NULL, &wanted) && run(m, &ours, beside, NULL, &got)) near(kind, ", LoRA", 1e-5);
    if (run(m, &ours, within, NULL, &got)) near(kind, ", LoRA merged", 1e-5);
    if (run(m, &meant, rows, NULL, &wanted) && run(m, &ours, rows, NULL, &got)) near(kind, ", int8 rows", 0);
}

int main(void) {
    maker m = DITI_ZERO;
    test_vulkan_begin();
    lora_file_pair(&adapter, "transformer_blocks.0.attn.to_q", 128, 128, 4, 0.1, 1);
    lora_file_pair(&adapter, "single_transformer_blocks.0.proj_out", 128, 640, 4, 0.1, 1);
    if (CHECK_MESSAGE(open_devices(&m, 2, "rung=base", 0) == DIT_OK, "%s", err.message)) {
        for (int kind = 0; kind < SMALL_FLOATS_KINDS; kind++) {
            if (!whole_sweep() && kind != FLOAT8_OLDER && kind != FLOAT4_COMFY) continue;
            test_kind(&m, (small_floats_kind)kind, 1e-5);
            if (whole_sweep() || kind == FLOAT4_COMFY) test_uses(&m, kind_names[kind]);
        }
    }
    close_maker(&m);
    if (whole_sweep() && CHECK_MESSAGE(open_devices(&m, 1, "rung=fp16", 0) == DIT_OK, "%s", err.message))
        for (int kind = 0; kind < SMALL_FLOATS_KINDS; kind++) test_kind(&m, (small_floats_kind)kind, 2e-3);
    close_maker(&m);
    lora_file_free(&ours);
    lora_file_free(&meant);
    lora_file_free(&adapter);
    test_vulkan_end();
    return TEST_END("job_factors");
}
