/* Models whose file is nunchaku's: FLUX.1 by older and newer names of layers, Z-Image with refiners that are quantized
   or not. Each is packed from a generated model (nunchaku_file.h), and compared with the model of floats that the file
   means, computed in doubles: low-rank parts and smoothing are in its weights. A width of 192 fills no tile.

   make test runs FLUX.1 and Z-Image on one device; DIT_TEST_ALL=1 more rungs.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "lora_file.h"
#include "nunchaku_file.h"
#include "split/split_job.h"
#include "vulkan_test.h"

static const generated_model flux = {"flux12", "flux", 12, 16, 2, 2, 0, true};
static const generated_model zimage = {"zimage12", "zimage", 12, 16, 2, 0, 0, true};

/* --- files --- */

typedef struct packing { /* a layer of nunchaku's and the layers of diffusers that it is */
    const char *stack, *older, *newer;
    const char *parts[3];
    uint32_t rank, splits;
    bool shifted;
    uint32_t first, of; /* columns [first, of) of them, in widths; of 0: all */
} packing;

static const packing flux_layers[] = {
    {"transformer_blocks.", "norm1.linear", NULL, {"norm1.linear"}, 0, 6, false, 0, 0},
    {"transformer_blocks.", "norm1_context.linear", NULL, {"norm1_context.linear"}, 0, 6, false, 0, 0},
    {"transformer_blocks.", "qkv_proj", "attn.to_qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 16, 0, false, 0, 0},
    {"transformer_blocks.",
     "qkv_proj_context",
     "attn.add_qkv_proj",
     {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"},
     32,
     0,
     false,
     0,
     0},
    {"transformer_blocks.", "out_proj", "attn.to_out.0", {"attn.to_out.0"}, 16, 0, false, 0, 0},
    {"transformer_blocks.", "out_proj_context", "attn.to_add_out", {"attn.to_add_out"}, 16, 0, false, 0, 0},
    {"transformer_blocks.", "mlp_fc1", "ff.net.0.proj", {"ff.net.0.proj"}, 16, 0, false, 0, 0},
    {"transformer_blocks.", "mlp_fc2", "ff.net.2", {"ff.net.2"}, 32, 0, true, 0, 0},
    {"transformer_blocks.", "mlp_context_fc1", "ff_context.net.0.proj", {"ff_context.net.0.proj"}, 0, 0, false, 0, 0},
    {"transformer_blocks.", "mlp_context_fc2", "ff_context.net.2", {"ff_context.net.2"}, 16, 0, true, 0, 0},
    {"single_transformer_blocks.", "norm.linear", NULL, {"norm.linear"}, 0, 3, false, 0, 0},
    {"single_transformer_blocks.",
     "qkv_proj",
     "attn.to_qkv",
     {"attn.to_q", "attn.to_k", "attn.to_v"},
     16,
     0,
     false,
     0,
     0},
    {"single_transformer_blocks.", "mlp_fc1", NULL, {"proj_mlp"}, 16, 0, false, 0, 0},
    {"single_transformer_blocks.", "out_proj", "attn.to_out", {"proj_out"}, 16, 0, false, 0, 1},
    {"single_transformer_blocks.", "mlp_fc2", NULL, {"proj_out"}, 48, 0, true, 1, 5},
};
#define ZIMAGE(STACK)                                                                                                  \
    {STACK, "attention.to_qkv", NULL, {"attention.to_q", "attention.to_k", "attention.to_v"}, 16, 0, false, 0, 0},     \
        {STACK, "attention.to_out.0", NULL, {"attention.to_out.0"}, 16, 0, false, 0, 0},                               \
        {STACK, "feed_forward.net.0.proj", NULL, {"feed_forward.w3", "feed_forward.w1"}, 16, 0, false, 0, 0}, {        \
        STACK, "feed_forward.net.2", NULL, {"feed_forward.w2"}, 16, 0, false, 0, 0                                     \
    }
static const packing zimage_layers[] = {ZIMAGE("layers."), ZIMAGE("noise_refiner."), ZIMAGE("context_refiner.")};

typedef struct tensor_values {
    char name[120];
    uint64_t shape[2];
    uint32_t rank;
    float *values;
    bool packed;
} tensor_values;

static tensor_values tensors[600];
static uint32_t tensor_count;
static lora_file ours, meant; /* nunchaku's file, and the floats that it means */
static bool bare;             /* refiners are not quantized */
static bool fours;            /* layers are fp4 */

static tensor_values *tensor_of(const char *name) {
    for (uint32_t i = 0; i < tensor_count; i++)
        if (!strcmp(tensors[i].name, name)) return &tensors[i];
    return NULL;
}

static void read_tensors(const generated_model *shape) {
    diti_env env = test_env(NULL);
    diti_checkpoint *checkpoint = NULL;
    generated_files made;
    generated_make(&made, shape);
    CHECK(diti_checkpoint_open_member(&env, &made.components[0].source, "model.safetensors", &checkpoint, &err) == 0);
    tensor_count = diti_checkpoint_count(checkpoint);
    CHECK(tensor_count <= DITI_COUNT(tensors));
    for (uint32_t i = 0; i < tensor_count; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        tensor_values *out = &tensors[i];
        uint64_t count = diti_stored_tensor_elements(tensor);
        memset(out, 0, sizeof *out);
        snprintf(out->name, sizeof out->name, "%s", tensor->name);
        out->rank = tensor->rank;
        out->shape[0] = tensor->shape[0];
        out->shape[1] = tensor->rank > 1 ? tensor->shape[1] : 0;
        out->values = malloc((size_t)count * sizeof *out->values);
        CHECK(diti_checkpoint_read_float(checkpoint, tensor, out->values, count, &err) == DIT_OK);
    }
    diti_checkpoint_close(checkpoint);
    generated_free(&made);
}

/* A layer of a block, taken out of its parts and put back as it is meant then. */
static void pack_layer(const packing *p, uint32_t block, const nunchaku_names *names, bool newer) {
    tensor_values *weights[3] = {0}, *biases[3] = {0};
    uint64_t rows = 0, all = 0, first, columns, n;
    float *weight, *bias = NULL;
    char base[120], name[160];
    for (uint32_t i = 0; i < 3 && p->parts[i]; i++) {
        snprintf(name, sizeof name, "%s%u.%s.weight", p->stack, block, p->parts[i]);
        weights[i] = tensor_of(name);
        if (!weights[i]) return; /* no such block */
        snprintf(name, sizeof name, "%s%u.%s.bias", p->stack, block, p->parts[i]);
        biases[i] = tensor_of(name);
        rows += weights[i]->shape[0];
        all = weights[i]->shape[1];
        weights[i]->packed = true;
        if (biases[i]) biases[i]->packed = true;
    }
    first = p->of ? p->first * (all / 5) : 0;
    columns = p->of ? (p->of - p->first) * (all / 5) : all;
    weight = malloc((size_t)(rows * columns) * sizeof *weight);
    if (biases[0]) bias = malloc((size_t)rows * sizeof *bias);
#define EACH(ROW)                                                                                                      \
    for (uint32_t i = 0, at = 0; i < 3 && weights[i]; at += (uint32_t)weights[i]->shape[0], i++)                       \
        for (ROW = 0; ROW < weights[i]->shape[0]; ROW++)
    EACH(n) memcpy(weight + (at + n) * columns, weights[i]->values + n * all + first, (size_t)columns * sizeof(float));
    /* two layers of one have biases that add up to its own */
    if (bias) EACH(n) bias[at + n] = p->of == 1 ? biases[i]->values[n] - 0.25f : p->of ? 0.25f : biases[i]->values[n];
    snprintf(base, sizeof base, "%s%u.%s", p->stack, block, newer && p->newer ? p->newer : p->older);
    if (p->splits)
        nunchaku_modulation(&ours, base, weight, bias, rows, columns, p->splits);
    else if (fours)
        nunchaku_fours(&ours, base, names, weight, bias, rows, columns, p->rank, p->parts[1] != NULL);
    else
        nunchaku_layer(&ours, base, names, weight, bias, rows, columns, p->rank, p->shifted);
    EACH(n) memcpy(weights[i]->values + n * all + first, weight + (at + n) * columns, (size_t)columns * sizeof(float));
    if (bias) EACH(n) biases[i]->values[n] = p->first ? biases[i]->values[n] + bias[at + n] : bias[at + n];
#undef EACH
    free(bias);
    free(weight);
}

static void copy_to(lora_file *file, const char *name, const tensor_values *from, uint64_t rows) {
    uint64_t shape[2], count = rows * (from->rank > 1 ? from->shape[1] : 1);
    shape[0] = rows;
    shape[1] = from->shape[1];
    lora_file_bytes(file, name, "F32", shape, from->rank, from->values, (size_t)count * sizeof(float));
}

/* The two matrices of a refiner that is not quantized are one in nunchaku's file. */
static bool copy_bare(tensor_values *one) {
    char name[160], *at = strstr(one->name, "feed_forward.w");
    tensor_values *other, both;
    if (!at || one->packed) return false;
    snprintf(name, sizeof name, "%.*s", (int)(at - one->name), one->name);
    if (at[14] == '2') return strcat(name, "feed_forward.net.2.weight"), copy_to(&ours, name, one, one->shape[0]), true;
    if (at[14] == '1') return true;
    strcat(name, "feed_forward.w1.weight");
    other = tensor_of(name);
    both = *one;
    both.values = malloc(2 * (size_t)(one->shape[0] * one->shape[1]) * sizeof(float));
    memcpy(both.values, one->values, (size_t)(one->shape[0] * one->shape[1]) * sizeof(float));
    memcpy(both.values + one->shape[0] * one->shape[1], other->values,
           (size_t)(one->shape[0] * one->shape[1]) * sizeof(float));
    snprintf(name, sizeof name, "%.*sfeed_forward.net.0.proj.weight", (int)(at - one->name), one->name);
    copy_to(&ours, name, &both, 2 * one->shape[0]);
    free(both.values);
    return true;
}

static void make_files(const generated_model *shape, bool newer) {
    static const nunchaku_names olds = {".smooth", ".lora_down", ".lora_up"},
                                news = {".smooth_factor", ".proj_down", ".proj_up"};
    const bool is_flux = shape == &flux;
    const packing *layers = is_flux ? flux_layers : zimage_layers;
    uint32_t count = is_flux ? DITI_COUNT(flux_layers) : bare ? 4u : DITI_COUNT(zimage_layers);
    char name[200];
    lora_file_free(&ours);
    lora_file_free(&meant);
    read_tensors(shape);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t block = 0; block < 2; block++) pack_layer(&layers[i], block, newer ? &news : &olds, newer);
    for (uint32_t i = 0; i < tensor_count; i++) {
        char *at = newer ? NULL : strstr(tensors[i].name, ".attn.norm_");
        snprintf(name, sizeof name, "%s", tensors[i].name);
        if (at) snprintf(name, sizeof name, "%.*s%s", (int)(at - tensors[i].name), tensors[i].name, at + 5);
        if (!tensors[i].packed && !(bare && copy_bare(&tensors[i])))
            copy_to(&ours, name, &tensors[i], tensors[i].shape[0]);
        copy_to(&meant, tensors[i].name, &tensors[i], tensors[i].shape[0]);
    }
    for (uint32_t i = 0; i < tensor_count; i++) free(tensors[i].values);
}

/* --- models of them --- */

static dit_source folder_of;
static lora_file *served;

static dit_result open_served(const char *member, dit_source *out, void *user) {
    (void)user;
    if (strcmp(member, "model.safetensors")) return folder_of.open(member, out, folder_of.user);
    *out = lora_file_source(served);
    return DIT_OK;
}

static lora_file adapter;

static dit_result load_file(maker *m, const generated_model *shape, lora_file *file, dit_type type, VkDeviceSize budget,
                            int adapts, bool by_need) {
    dit_type_rule rule = {"transformer.*.attn*.to_*", DIT_TYPE_STORED};
    dit_component components[3];
    dit_model_desc desc = DITI_ZERO;
    close_model(m);
    generated_make(&m->files, shape);
    m->generated = true;
    memset(components, 0, sizeof components);
    memcpy(components, m->files.components, sizeof m->files.components);
    folder_of = components[0].source;
    served = file;
    components[0].source.open = open_served;
    components[2].source = lora_file_source(&adapter);
    components[2].role = DIT_ROLE_LORA;
    components[2].weight = 1;
    components[2].merge = adapts == 2;
    rule.type = type;
    desc.types = type ? &rule : NULL;
    desc.type_count = type ? 1 : 0;
    desc.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    desc.components = components;
    desc.component_count = adapts ? 3 : 2;
    desc.weight_budget = budget;
    desc.weights_by_need = by_need;
    return dit_model_load(m->context, &desc, &m->model, &err);
}

static const asked small = {4, 3, 1, 2, 0, 0, 0, "euler", false, 0, NULL};

static dit_result run_with(const maker *m, const char *split, outcome *out) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(m, &small, split, &inputs);
    dit_job *job = NULL;
    dit_result result = dit_job_create(m->context, &desc, &job, &err);
    generated_free_inputs(&inputs);
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) result = wait_for(job, 300);
    if (result == DIT_OK) result = read_latent(job, 0, out);
    dit_job_destroy(job);
    return result;
}

#define CHECK_RUN(call) CHECK_MESSAGE((call) == DIT_OK, "%s", err.message)

static outcome wanted, got, whole;

static void near(const char *what, double most) {
    double off = difference(&got, &wanted);
    printf("%s: off by %.3g\n", what, off);
    CHECK_MESSAGE(off <= most, "%s: off by %.3g, at most %g", what, off, most);
}

/* On the rung at hand; most: how far the model of floats may be. */
static void test_model(const generated_model *shape, const char *what, const char *overrides, bool newer, double most) {
    maker m = DITI_ZERO;
    dit_model_info info;
    make_files(shape, newer);
    if (CHECK_RUN(open_devices(&m, 2, overrides, 0)) &&
        CHECK_RUN(load_file(&m, shape, &meant, DIT_TYPE_STORED, 0, 0, false)) &&
        CHECK_RUN(run_with(&m, NULL, &wanted)) &&
        CHECK_RUN(load_file(&m, shape, &ours, DIT_TYPE_STORED, 0, 0, false)) && CHECK_RUN(run_with(&m, NULL, &got))) {
        near(what, most);
        dit_model_get_info(m.model, &info);
        whole = got;
        if (CHECK_RUN(run_with(&m, "tensor2", &got))) near("tensor2", most < 1e-4 ? 1e-4 : most);
        if (CHECK_RUN(load_file(&m, shape, &ours, DIT_TYPE_STORED, info.weight_bytes * 3 / 4, 0, false)) &&
            CHECK_RUN(run_with(&m, NULL, &got)))
            CHECK(difference(&got, &whole) == 0);
    }
    close_maker(&m);
}

/* The kind of file whose integers are floats. */
static void test_fours(void) {
    maker m = DITI_ZERO;
    fours = true;
    make_files(&flux, false);
    fours = false;
    if (CHECK_RUN(open_devices(&m, 1, "rung=base", 0)) &&
        CHECK_RUN(load_file(&m, &flux, &meant, DIT_TYPE_STORED, 0, 0, false)) &&
        CHECK_RUN(run_with(&m, NULL, &wanted)) &&
        CHECK_RUN(load_file(&m, &flux, &ours, DIT_TYPE_STORED, 0, 0, false)) && CHECK_RUN(run_with(&m, NULL, &got)))
        near("FLUX.1 in fp4", 1e-5);
    close_maker(&m);
}

/* The low-rank parts are sent as LoRAs are, for which every device needs a row of the text. */
static void test_shard(maker *m) {
    if (!CHECK_RUN(load_file(m, &flux, &ours, DIT_TYPE_STORED, 0, 0, false)) || !CHECK_RUN(run_with(m, NULL, &wanted)))
        return;
    if (CHECK_RUN(run_with(m, "ulysses2,shard", &got))) near("ulysses2,shard", 1e-5);
    m->model->texts[DITI_TEXT_FIRST].tokens = 1;
    CHECK_MESSAGE(run_with(m, "ulysses2,shard", &got) == DIT_ERROR_INVALID_ARGUMENT &&
                      strstr(err.message, "shard needs a row of the text on every device"),
                  "%s", err.message);
}

/* Other uses of weights: adapters beside them and in them, other types, and loading by need. */
static void test_uses(void) {
    maker m = DITI_ZERO;
    make_files(&flux, false);
    lora_file_pair(&adapter, "transformer_blocks.0.attn.to_q", 192, 192, 4, 0.1, 1);
    lora_file_pair(&adapter, "transformer_blocks.1.ff.net.2", 192, 768, 4, 0.1, 1);
    lora_file_pair(&adapter, "single_transformer_blocks.0.proj_out", 192, 960, 4, 0.1, 1);
    if (CHECK_RUN(open_devices(&m, 2, "rung=base", 0)) &&
        CHECK_RUN(load_file(&m, &flux, &meant, DIT_TYPE_STORED, 0, 1, false)) &&
        CHECK_RUN(run_with(&m, NULL, &wanted))) {
        if (CHECK_RUN(load_file(&m, &flux, &ours, DIT_TYPE_STORED, 0, 1, false)) && CHECK_RUN(run_with(&m, NULL, &got)))
            near("an adapter beside it", 1e-5);
        whole = got;
        if (CHECK_RUN(load_file(&m, &flux, &ours, DIT_TYPE_STORED, 0, 2, false)) && CHECK_RUN(run_with(&m, NULL, &got)))
            near("an adapter merged", 1e-5);
        if (CHECK_RUN(load_file(&m, &flux, &ours, DIT_TYPE_STORED, 0, 1, true)) && CHECK_RUN(run_with(&m, NULL, &got)))
            CHECK(difference(&got, &whole) == 0);
        if (CHECK_RUN(load_file(&m, &flux, &meant, DIT_TYPE_I8_ROW, 0, 0, false)) &&
            CHECK_RUN(run_with(&m, NULL, &wanted)) &&
            CHECK_RUN(load_file(&m, &flux, &ours, DIT_TYPE_I8_ROW, 0, 0, false)) && CHECK_RUN(run_with(&m, NULL, &got)))
            near("int8 rows", 2e-2);
        test_shard(&m);
    }
    close_maker(&m);
    lora_file_free(&adapter);
}

int main(void) {
    test_vulkan_begin();
    test_model(&flux, "FLUX.1", "rung=base", false, 1e-5);
    test_uses();
    bare = true;
    test_model(&zimage, "Z-Image with plain refiners", "rung=base", true, 1e-5);
    bare = false;
    if (whole_sweep()) { /* what the two leave, tests/io/nunchaku.c reads as numbers */
        test_fours();
        test_model(&flux, "FLUX.1 by newer names", "rung=base", true, 1e-5);
        test_model(&zimage, "Z-Image", "rung=base", true, 1e-5);
        test_model(&flux, "FLUX.1 in halves", "rung=fp16", false, 2e-2);
    }
    lora_file_free(&ours);
    lora_file_free(&meant);
    test_vulkan_end();
    return TEST_END("job_nunchaku");
}
