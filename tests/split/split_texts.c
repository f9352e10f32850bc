/* Texts on whose lengths a split depends: rows that are divided only where prompts are as long, blocks that are sent to
   devices without a row of the text, and LoRAs, with which every device needs one.
   test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "split_models.h"
#include "vulkan_test.h"

static maker at;
static const char *opened; /* its model */

/* The model on four devices, those of the test before, if there was one. */
static bool open_model(const char *name) {
    dit_model_desc how = DITI_ZERO;
    close_model(&at);
    opened = name;
    if (!at.context && !CHECK_MESSAGE(open_devices(&at, 4, "rung=base", 0) == DIT_OK, "%s", err.message)) return false;
    return load_listed(&at, name, how);
}

/* A job of a picture of 4 x 4 tokens whose prompts have so many rows, or its restart where *job is not NULL. rows: 0:
   one prompt has more than the other. lora: strength of the model's LoRA; NULL: its own. */
static dit_result make_texts_with(const char *split, uint32_t rows, const float *lora, dit_job **job) {
    asked a = ask_listed(&at, opened, 4, 4, 1, 2);
    generated_inputs inputs;
    dit_job_desc desc = request_asked(&at, &a, split, &inputs);
    dit_result result;
    uint32_t i, k;
    for (i = 0; i < inputs.count && rows; i++)
        for (k = 0; strstr(inputs.list[i].name, "attention_mask") && k < inputs.list[i].shape[1]; k++)
            inputs.memory[i][k] = k < rows ? 1 : 0;
    desc.lora_weights = lora;
    desc.lora_weight_count = lora ? 1 : 0;
    result = *job ? dit_job_restart(*job, &desc, &err) : dit_job_create(at.context, &desc, job, &err);
    generated_free_inputs(&inputs);
    return result;
}

static dit_result make_texts(const char *split, uint32_t rows, dit_job **job) {
    return make_texts_with(split, rows, NULL, job);
}

/* Runs it to its end. */
static void finish_texts(dit_job **job, outcome *out) {
    out->count = 0;
    CHECK_MESSAGE(*job && wait_for(*job, 60) == DIT_OK && read_latent(*job, 0, out) == DIT_OK, "%s", err.message);
    dit_job_destroy(*job);
    *job = NULL;
}

/* Where slow devices are quick to exchange, auto divides rows if the prompts are as long, and does not if they are not.
   A job that divides rows stays as it is when it is asked for other prompts. */
static void check_auto_texts(void) {
    static outcome alone, divided;
    const uint32_t *degree;
    dit_job *job = NULL;
    uint32_t even;
    if (!open_model("qwen-image")) return;
    pretend(&at, 1e9, 1e11);
    for (even = 0; even < 2; even++) {
        CHECK_MESSAGE(make_texts(NULL, 9 * even, &job) == DIT_OK, "%s", err.message);
        finish_texts(&job, &alone);
        if (!CHECK_MESSAGE(make_texts("auto", 9 * even, &job) == DIT_OK, "%s", err.message)) return;
        degree = job->request.shape.split.degree;
        CHECK_MESSAGE((degree[DITI_SPLIT_ULYSSES] * degree[DITI_SPLIT_RING] > 1) == even && job->share_count > 1,
                      "even %u: %u devices", even, job->share_count);
        if (even) CHECK(make_texts("auto", 0, &job) < 0 && strstr(err.message, "rows of text"));
        finish_texts(&job, &divided);
        CHECK_MESSAGE(difference(&divided, &alone) <= 1e-5, "even %u: off by %.3g", even, difference(&divided, &alone));
    }
}

/* Devices that keep some blocks each send all matrices of a block, those of the text, too, which a device without rows
   of the text does not read: it may be the one that keeps them, or one that gets them. */
static void check_short_text(const char *model, const char *split, uint32_t rows) {
    static outcome whole, kept;
    dit_job *job = NULL;
    char shard[32];
    snprintf(shard, sizeof shard, "%s,shard", split);
    CHECK_MESSAGE(make_texts(split, rows, &job) == DIT_OK, "%s, %s, %u rows: %s", model, split, rows, err.message);
    finish_texts(&job, &whole);
    CHECK_MESSAGE(make_texts(shard, rows, &job) == DIT_OK, "%s, %s, %u rows: %s", model, shard, rows, err.message);
    finish_texts(&job, &kept);
    CHECK_MESSAGE(difference(&kept, &whole) == 0, "%s, %s, %u rows: off by %.3g", model, shard, rows,
                  difference(&kept, &whole));
}

static void check_short_texts(bool whole) {
    static const char *const models[] = {"chroma", "sd35-24",          "flux8", "qwen-image of even prompts",
                                         "klein",  "hunyuanvideo clip"};
    static const char *const splits[] = {"ulysses2", "ring2", "ring3"};
    uint32_t i, k, rows;
    for (k = 0; k < (whole ? DITI_COUNT(models) : 2); k++) {
        if (!open_model(models[k])) return;
        for (i = 0; i < DITI_COUNT(splits); i++)
            for (rows = 1; rows <= (i == 2 && whole ? 3u : 1u); rows++) {
                if (at.model->fixed_text) at.model->texts[DITI_TEXT_FIRST].tokens = rows;
                check_short_text(models[k], splits[i], rows);
            }
    }
}

/* With LoRAs every device needs a row of the text; a LoRA of strength 0 asks for none, not even in the restart of a job
   that had it. */
static void check_short_loras(void) {
    static const char split[] = "ulysses2,shard";
    static const char says[] = "shard needs a row of the text on every device where LoRAs or low-rank parts are used";
    static const float none = 0;
    static outcome whole, kept;
    dit_component component = DITI_ZERO;
    dit_job *job = NULL;
    component.source.path = "tests/fixtures/lora_chroma/peft.safetensors";
    if (!open_model("chroma") ||
        !CHECK_MESSAGE(dit_model_add_lora(at.model, &component, NULL, &err) == DIT_OK, "%s", err.message))
        return;
    CHECK_MESSAGE(make_texts(split, 1, &job) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, says), "%s",
                  err.message);
    CHECK_MESSAGE(make_texts_with("ulysses2", 1, &none, &job) == DIT_OK, "%s", err.message);
    finish_texts(&job, &whole);
    CHECK_MESSAGE(make_texts(split, 2, &job) == DIT_OK && wait_for(job, 60) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(make_texts(split, 1, &job) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, says), "%s",
                  err.message);
    CHECK_MESSAGE(make_texts_with(split, 1, &none, &job) == DIT_OK, "%s", err.message);
    finish_texts(&job, &kept);
    CHECK_MESSAGE(difference(&kept, &whole) == 0, "without the LoRA it had: off by %.3g", difference(&kept, &whole));
}

int main(void) {
    test_vulkan_begin();
    check_auto_texts();
    check_short_texts(whole_sweep() && is_usual_way());
    check_short_loras();
    close_maker(&at);
    test_vulkan_end();
    return TEST_END("split_texts");
}
