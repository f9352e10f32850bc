/* A build without everything that can be left out: it compiles and links, and a call of a missing part returns a
   sentence that names the switch. test-runs: plain */
#define DIT_NO_SPLIT
#define DIT_NO_TRACE
#define DIT_NO_TUNE
#define DIT_NO_CACHE
#define DIT_NO_PYTORCH
#define DIT_NO_PIXART
#define DIT_NO_DIT
#define DIT_NO_SD3
#define DIT_NO_FLUX
#define DIT_NO_HUNYUANDIT
#define DIT_NO_STDIT
#define DIT_NO_LATTE
#define DIT_NO_COGVIDEOX
#define DIT_NO_LTX
#define DIT_NO_LTX2
#define DIT_NO_HUNYUANVIDEO
#define DIT_NO_WAN
#define DIT_NO_ZIMAGE
#define DIT_NO_FLUX2
#define DIT_NO_FLUX3
#define DIT_NO_CHROMA
#define DIT_NO_LONGCAT
#define DIT_NO_QWENIMAGE
#define DIT_NO_LUMINA2
#define DIT_NO_SANA
#define DIT_NO_KREA2
#define DIT_NO_ANIMA
#define DIT_NO_ERNIE
#define DIT_NO_IDEOGRAM4
#define DIT_NO_KANDINSKY
#define DIT_NO_MINIMAX
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "test.h"

static void says(dit_result result, dit_result wanted, const dit_error *err, const char *text) {
    CHECK_MESSAGE(result == wanted && err->result == wanted && strstr(err->message, text),
                  "expected '%s', got '%s' (%d)", text, err->message, (int)result);
}

static void check_model(const char *path, const char *text) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = path;
    desc.dry_run = true;
    if (!strncmp(text, "DIT_NO_", 7)) text += strlen("DIT_NO"); /* the first of several has it all */
    says(dit_model_load(NULL, &desc, &model, &err), DIT_ERROR_UNSUPPORTED_MODEL, &err, text);
    CHECK(!model);
}

static bool refuse_bytes(const void *data, size_t size, void *user) {
    (void)data, (void)size, (void)user;
    return false;
}

static void check_context(void) {
    const char *overrides = "";
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_transport transport = {0};
    diti_peers *peers = NULL;
    diti_trace *trace = NULL;
    dit_error err = {0};
    diti_env env;
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    desc.tune = true;
    says(dit_context_create(&desc, &context, &err), DIT_ERROR_INVALID_ARGUMENT, &err, "without tuning (DIT_NO_TUNE)");
    CHECK(!context);
    says(diti_trace_create(&env, false, 1, &trace, &err), DIT_ERROR_INVALID_ARGUMENT, &err,
         "without traces (DIT_NO_TRACE)");
    says(diti_peers_create(&env, NULL, 2, &transport, overrides, &peers, &err), DIT_ERROR_INVALID_ARGUMENT, &err,
         "without splits (DIT_NO_SPLIT)");
    says(dit_trace_write(NULL, refuse_bytes, NULL, &err), DIT_ERROR_INVALID_ARGUMENT, &err,
         "without traces (DIT_NO_TRACE)");
    dit_trace_mark(NULL, "nothing");
    dit_trace_end(NULL, dit_trace_begin(NULL, "nothing"));
}

static void check_cache(void) {
    static const char *const refused[] = {"", "auto", "delta", "references", "gate:3"};
    dit_job_desc desc = {0};
    dit_error err;
    size_t i;
    CHECK(diti_job_request_cache(NULL, &desc, NULL, NULL) == DIT_OK);
    for (i = 0; i < DITI_COUNT(refused); i++) {
        memset(&err, 0, sizeof err);
        desc.cache = refused[i];
        says(diti_job_request_cache(NULL, &desc, NULL, &err), DIT_ERROR_INVALID_ARGUMENT, &err,
             "without caching (DIT_NO_CACHE)");
    }
}

static void check_split(void) {
    static const char *const refused[] = {"cfg2", "ulysses4", "cfg1,int8", "@plan.json", "{}", "", "nonsense"};
    diti_split_plan plan;
    dit_error err;
    diti_env env;
    size_t i;
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    CHECK(diti_split_take(&env, "cfg1", &plan, NULL) == DIT_OK && diti_split_ranks(&plan.split) == 1);
    CHECK(diti_split_take(&env, "auto", &plan, NULL) == DIT_OK && plan.split.degree[DITI_SPLIT_CFG] == 1);
    for (i = 0; i < DITI_COUNT(refused); i++) {
        memset(&err, 0, sizeof err);
        says(diti_split_take(&env, refused[i], &plan, &err), DIT_ERROR_INVALID_ARGUMENT, &err,
             "without splits (DIT_NO_SPLIT)");
    }
}

int main(void) {
    check_model("tests/fixtures/dit_orig/model.safetensors", "DIT_NO_DIT");
    check_model("tests/fixtures/pixart_alpha_orig/model.safetensors", "DIT_NO_PIXART");
    check_model("tests/fixtures/gguf_flux_sdcpp/model.gguf", "DIT_NO_FLUX");
    check_model("tests/fixtures/sd35_odd", "DIT_NO_SD3");
    check_model("tests/fixtures/hunyuandit_v12", "DIT_NO_HUNYUANDIT");
    check_model("tests/fixtures/stdit1/model.safetensors", "DIT_NO_STDIT");
    check_model("tests/fixtures/osp11_lattet2v_rope", "DIT_NO_LATTE");
    check_model("tests/fixtures/cogvideox_5b_i2v", "DIT_NO_COGVIDEOX");
    check_model("tests/fixtures/ltx", "DIT_NO_LTX");
    check_model("tests/fixtures/pipe_ltx2", "DIT_NO_LTX2");
    check_model("tests/fixtures/hunyuanvideo", "DIT_NO_HUNYUANVIDEO");
    check_model("tests/fixtures/pipe_hunyuanvideo15/transformer", "DIT_NO_HUNYUANVIDEO");
    check_model("tests/fixtures/wan22_ti2v", "DIT_NO_WAN");
    check_model("tests/fixtures/pipe_zimage", "DIT_NO_ZIMAGE");
    check_model("tests/fixtures/pipe_flux2_klein", "DIT_NO_FLUX2");
    check_model("tests/fixtures/pipe_flux3", "DIT_NO_FLUX3");
    check_model("tests/fixtures/pipe_chroma", "DIT_NO_CHROMA");
    check_model("tests/fixtures/pipe_longcat", "DIT_NO_LONGCAT");
    check_model("tests/fixtures/pipe_ovis", "DIT_NO_LONGCAT");
    check_model("tests/fixtures/qwenimage", "DIT_NO_QWENIMAGE");
    check_model("tests/fixtures/lumina2", "DIT_NO_LUMINA2");
    check_model("tests/fixtures/pipe_boogu", "DIT_NO_LUMINA2");
    check_model("tests/fixtures/sana", "DIT_NO_SANA");
    check_model("tests/fixtures/qwenimage21/transformer", "DIT_NO_QWENIMAGE");
    check_model("tests/fixtures/pipe_krea2", "DIT_NO_KREA2");
    check_model("tests/fixtures/pipe_anima/transformer", "DIT_NO_ANIMA");
    check_model("tests/fixtures/pipe_ernie", "DIT_NO_ERNIE");
    check_model("tests/fixtures/pipe_ideogram4/transformer", "DIT_NO_IDEOGRAM4");
    check_model("tests/fixtures/pipe_kandinsky", "DIT_NO_KANDINSKY");
    check_model("tests/fixtures/pipe_minimax_h3/transformer", "DIT_NO_MINIMAX");
    check_model("tests/fixtures/pytorch/views.pth", "without PyTorch files (DIT_NO_PYTORCH)");
    check_context();
    check_split();
    check_cache();
    return TEST_END("left_out");
}
