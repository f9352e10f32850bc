/* Class-conditional models: classes by number and name, what they refuse, batches of several classes, restarts, the
   original's single file with its own scheduler, and modulation made in the steps where its tables are too large.
   Values against the references are golden's.   test-runs: sanitize, in test-all lavapipe */
#include "library.h"
#include "model/dit.c"
#include "files.h"
#include "vulkan_test.h"

#define FOLDER "tests/fixtures/pipe_dit"
#define ORIGINAL "tests/fixtures/dit_orig/model.safetensors"
enum { SIDE = 64, BYTES = SIDE * SIDE * 4, CLASSES = 10, IMAGES = 3 };

static dit_context *context;

/* ---- a folder whose model_index.json has names ---- */

static const char index_text[] =
    "{\"_class_name\": \"DiTPipeline\", \"id2label\": {\"0\": \"tench, Tinca tinca\", "
    "\"3\": \"tiger shark\", \"7\": \"cock\", \"12\": \"far\", \"x\": \"none\", \"4\": 5}}";

static dit_result open_member(const char *member, dit_source *out, void *user) {
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    FILE *file;
    (void)user;
    memset(out, 0, sizeof *out);
    if (strcmp(member, "model_index.json") == 0) {
        out->data = index_text;
        out->size = strlen(index_text);
        return DIT_OK;
    }
    snprintf(path, sizeof paths[0], FOLDER "/%s", member);
    file = fopen(path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = path;
    return DIT_OK;
}

static dit_model *load(const dit_model_desc *desc) {
    dit_model *model = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_model_load(context, desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static void test_names(void) {
    static const struct {
        const char *name;
        int32_t class_;
    } names[] = {{"7", 7},           {"9", 9},           {"10", -1},
                 {"tiger shark", 3}, {"Tiger SHARK", 3}, {"tinca tinca", 0},
                 {"", -1},           {"tench", 0},       {"tench, Tinca tinca", 0},
                 {"shark", -1},      {"far", -1},        {"none", -1},
                 {"-1", -1},         {"3 ", -1},         {"99999999999999999999", -1}};
    dit_model_desc desc = {0};
    dit_model *model;
    size_t i;
    desc.source.open = open_member;
    desc.dry_run = true;
    model = load(&desc);
    for (i = 0; i < DITI_COUNT(names); i++) {
        int32_t found = dit_model_class(model, names[i].name);
        CHECK_MESSAGE(found == names[i].class_, "\"%s\" is %d", names[i].name, (int)found);
    }
    CHECK(dit_model_class(NULL, "7") == -1 && dit_model_class(model, NULL) == -1);
    dit_model_destroy(model);
}

/* ---- jobs ---- */

static const int32_t labels[IMAGES] = {3, 7, 3};

static dit_job_desc describe(const dit_model *model, const int32_t *classes, uint32_t count, uint64_t seed) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.class_labels = classes;
    desc.image_count = count;
    desc.steps = 2;
    desc.seed = seed;
    return desc;
}

static dit_job *make_job(const dit_job_desc *desc) {
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_create(context, desc, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static bool picture(dit_job *job, uint32_t image, unsigned char *out, size_t size) {
    dit_error err = {0};
    dit_result result = job ? dit_job_wait(job, UINT64_MAX) : DIT_ERROR_IO;
    if (job) dit_job_status(job, NULL, &err);
    if (!CHECK_MESSAGE(result == DIT_OK, "%s", err.message)) return false;
    return CHECK(dit_job_read(job, DIT_READ_RGBA8, image, 0, out, size, 0, NULL) == DIT_OK);
}

/* Images of a batch are those of single runs, and a restart with other classes is a new run. */
static void test_batch(const dit_model *model) {
    static unsigned char batch[IMAGES][BYTES], one[BYTES], other[BYTES];
    dit_job_desc desc = describe(model, labels, IMAGES, 5);
    dit_job *job = make_job(&desc);
    dit_error err = {0};
    uint32_t i;
    for (i = 0; i < IMAGES; i++) picture(job, i, batch[i], BYTES);
    dit_job_destroy(job);
    for (i = 0; i < IMAGES; i++) {
        desc = describe(model, &labels[i], 1, 5 + i);
        job = make_job(&desc);
        picture(job, 0, one, BYTES);
        CHECK_MESSAGE(!memcmp(one, batch[i], BYTES), "picture %u", (unsigned)i);
        if (i + 1 < IMAGES) dit_job_destroy(job);
    }
    desc.class_labels = &labels[1];
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    picture(job, 0, other, BYTES);
    CHECK(memcmp(one, other, BYTES) != 0);
    desc.class_labels = &labels[2];
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && picture(job, 0, other, BYTES) && !memcmp(one, other, BYTES));
    dit_job_destroy(job);
}

static void test_refusals(const dit_model *model) {
    static const int32_t none[] = {CLASSES}, negative[] = {-1};
    static const float embedding[4] = {0};
    static const char *const messages[] = {"class_labels must name one from 0 to 9",
                                           "class_labels[0] is 10",
                                           "class_labels[0] is -1",
                                           "takes no prompts",
                                           "takes no prompts",
                                           "takes no conditioning",
                                           "takes no prompt_embeds"};
    dit_tensor input = {"prompt_embeds", DIT_TYPE_F32, 3, {1, 1, 4}, embedding};
    size_t i;
    for (i = 0; i < DITI_COUNT(messages); i++) {
        dit_job_desc desc = describe(model, i == 0 ? NULL : i == 1 ? none : i == 2 ? negative : labels, 1, 0);
        dit_job *job = NULL;
        dit_error err = {0};
        if (i == 3) desc.prompt = "a cat";
        if (i == 4) desc.negative_prompt = "a dog";
        if (i == 5) desc.conditioning = embedding, desc.conditioning_size = sizeof embedding;
        if (i == 6) desc.inputs = &input, desc.input_count = 1;
        CHECK(dit_job_create(context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job);
        CHECK_MESSAGE(strstr(err.message, messages[i]), "%s", err.message);
    }
}

static void test_folder(void) {
    dit_model_desc desc = {0};
    dit_model_info info;
    dit_model *model;
    desc.source.path = FOLDER;
    model = load(&desc);
    if (!model) return;
    dit_model_get_info(model, &info);
    CHECK(!strcmp(info.family, "dit") && info.class_count == CLASSES && info.missing == 0);
    CHECK(info.default_width == SIDE && info.default_steps == 50 && !strcmp(info.default_sampler, "ddim"));
    test_batch(model);
    test_refusals(model);
    dit_model_destroy(model);
}

/* The original's file runs alone: respaced steps with the variance that the model predicts, three channels guided. */
static void test_original(void) {
    static unsigned char first[4 * BYTES], all_guided[4 * BYTES];
    dit_component vae = {{0}, DIT_ROLE_VAE, 0, false, DIT_ROLE_NONE};
    dit_model_desc md = {0};
    dit_job_desc desc;
    dit_model_info info;
    dit_model *model;
    dit_job *job;
    vae.source.path = FOLDER "/vae";
    md.source.path = ORIGINAL;
    md.components = &vae;
    md.component_count = 1;
    model = load(&md);
    if (!model) return;
    dit_model_get_info(model, &info);
    CHECK(info.missing == 0 && info.class_count == CLASSES && info.default_width == 2 * SIDE);
    CHECK(!strcmp(info.default_sampler, "ddpm") && info.default_steps == 250);
    desc = describe(model, labels, 1, 1);
    job = make_job(&desc);
    CHECK(job && job->request.schedule.learned && job->request.schedule.draws);
    picture(job, 0, first, sizeof first);
    dit_job_destroy(job);
    ((diti_transformer *)model->transformer)->traits.guided_channels = 0;
    job = make_job(&desc);
    picture(job, 0, all_guided, sizeof all_guided);
    CHECK(memcmp(first, all_guided, sizeof first) != 0);
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* ---- modulation of every step in a table, or made in the step ---- */

static void evaluate(diti_device *device, const diti_transformer *model, uint32_t steps, bool *kept, float *out) {
    static const uint32_t classes[2] = {CLASSES, 3}, row = 1;
    float latent[4 * 64], *times = (float *)calloc(steps, sizeof *times);
    diti_step_desc d = DITI_ZERO;
    diti_elementwise_desc copy = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_graph graph;
    diti_plan *plan = NULL;
    uint32_t i;
    for (i = 0; i < DITI_COUNT(latent); i++) latent[i] = (float)((i * 2654435761u) >> 16) / 32768.0f - 1.0f;
    for (i = 0; i < steps; i++) times[i] = (float)(999 - i);
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    d.batch = 1;
    d.branches = d.text_batch = 2;
    d.height = d.width = 8;
    d.steps = steps;
    d.latent = diti_tensor_input(&graph, DITI_F32, 4, 64, "latent");
    d.labels = diti_tensor_input(&graph, DITI_U32, 1, 2, "labels");
    d.row = diti_tensor_input(&graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &graph, &d);
    *kept = d.family && ((const diti_dit_state *)d.family)->adaln.table != 0;
    diti_graph_segment(&graph, "step", true);
    copy.out = diti_tensor_state(&graph, DITI_F32, 8, 64, "kept");
    diti_elementwise(&graph, diti_transformer_step(model, &graph, &d), &copy);
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message)) {
        CHECK(diti_plan_write(plan, d.latent, latent, sizeof latent, NULL) == DIT_OK &&
              diti_plan_write(plan, d.labels, classes, sizeof classes, NULL) == DIT_OK &&
              diti_plan_write(plan, d.row, &row, sizeof row, NULL) == DIT_OK &&
              model->family->write_inputs(model, plan, &d, times, NULL) == DIT_OK);
        CHECK_MESSAGE(diti_plan_run(plan, 0, 2, &err) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(plan, copy.out, out, 8 * 64 * sizeof *out, NULL) == DIT_OK);
    }
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
    diti_free(&model->component.env, d.family);
    free(times);
}

/* Rounding differs, as other numbers of rows take other kernels. */
static void test_many_steps(void) {
    static float few[8 * 64], many[8 * 64];
    diti_env env = test_env(NULL);
    dit_context_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_device *device = NULL;
    diti_checkpoint *file = NULL;
    diti_transformer *model = NULL;
    dit_source source = DITI_ZERO;
    bool kept[2] = {false, true};
    double worst = 0, largest = 0;
    int i;
    source.path = ORIGINAL;
    desc.overrides = "rung=base,storage_range=1M";
    CHECK_MESSAGE(diti_device_open(&desc, &env, &device, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &file, &err) == DIT_OK, "%s", err.message);
    if (device && file &&
        CHECK_MESSAGE(diti_transformer_load(device, &env, NULL, file, "", NULL, &model, &err) == DIT_OK, "%s",
                      err.message)) {
        evaluate(device, model, 2, &kept[0], few);
        evaluate(device, model, 100, &kept[1], many);
        CHECK(kept[0] && !kept[1]);
        for (i = 0; i < 8 * 64; i++) {
            worst = fmax(worst, fabs((double)few[i] - (double)many[i]));
            largest = fmax(largest, fabs((double)few[i]));
        }
        CHECK_MESSAGE(worst <= 1e-5 * largest && largest > 0.1, "%g of %g", worst, largest);
    }
    diti_transformer_destroy(model);
    diti_checkpoint_close(file);
    if (device) diti_device_close(device);
}

int main(void) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    test_vulkan_begin();
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_names();
        test_folder();
        test_original();
        dit_context_destroy(context);
    }
    test_many_steps();
    test_vulkan_end();
    return TEST_END("classes");
}
