/* golden DIR... [--json] [--rung RUNG] [--device DEVICE] [--split SPLIT] [--overrides TEXT] [--truncating]
   [--allow-unsupported]

   Runs fixture folders: whatever a folder holds is computed with dit.h and compared with what the original
   implementation computed. Prints max-abs, relative L2 and cosine per tensor; exits non-zero past a tolerance. A folder
   without goldens is searched for folders with goldens. A folder of no known family fails. --truncating: on a driver
   that rounds to F16 toward zero. Without DIR: all of tests/fixtures that is listed below, on every rung of the device,
   or on RUNG alone. --split: whole pipelines on the first two devices. */
#include "library.h"
#include "graph/ops_elementwise.c"
#include "text/t5.c"
#include "text/clip.c"
#include "text/bert.c"
#include "text/vision.c"
#include "text/decoder.c"
#include "model/evaluate.c"
#include "model/pixart.c"
#include "model/dit.c"
#include "model/hunyuandit.c"
#include "model/flux.c"
#include "model/sd3.c"
#include "model/stdit.c"
#include "model/latte.c"
#include "model/cogvideox.c"
#include "model/ltx.c"
#include "model/ltx2.c"
#include "model/hunyuanvideo.c"
#include "model/hunyuanvideo15.c"
#include "model/wan.c"
#include "model/zimage.c"
#include "model/flux2.c"
#include "model/flux3.c"
#include "model/chroma.c"
#include "model/longcat.c"
#include "model/qwenimage.c"
#include "model/qwenimage21.c"
#include "model/lumina2.c"
#include "model/sana.c"
#include "model/krea2.c"
#include "model/anima.c"
#include "model/ernie.c"
#include "model/ideogram4.c"
#include "model/kandinsky.c"
#include "model/minimax.c"
#include "vae/kl.c"
#include "vae/tiny.c"
#include "vae/dc.c"
#include "golden.h"
#include "golden_anima.h"
#include "golden_bert.h"
#include "golden_cache.h"
#include "golden_chats.h"
#include "golden_chroma.h"
#include "golden_clip.h"
#include "golden_cogvideox.h"
#include "golden_control.h"
#include "golden_decoder.h"
#include "golden_ernie.h"
#include "golden_flux.h"
#include "golden_flux3.h"
#include "golden_dit.h"
#include "golden_hunyuandit.h"
#include "golden_hunyuanvideo.h"
#include "golden_ideogram4.h"
#include "golden_hunyuanvideo15.h"
#include "golden_kandinsky.h"
#include "golden_kontext.h"
#include "golden_krea2.h"
#include "golden_boogu.h"
#include "golden_longcat.h"
#include "golden_latte.h"
#include "golden_ltx.h"
#include "golden_ltx2.h"
#include "golden_minimax.h"
#include "golden_calls.h"
#include "golden_clips.h"
#include "golden_edit.h"
#include "golden_packed.h"
#include "golden_pipe.h"
#include "golden_pixart.h"
#include "golden_qwenimage21.h"
#include "golden_newer.h"
#include "golden_random.h"
#include "golden_schedulers.h"
#include "golden_sd3.h"
#include "golden_stdit.h"
#include "golden_texts.h"
#include "golden_tokenizers.h"
#include "golden_types.h"
#include "golden_vae.h"
#include "golden_dc.h"
#include "golden_video.h"
#include "golden_wan.h"
#include "golden_wan_pipe.h"
#include "golden_vace.h"
#include "golden_zimage.h"
#include "golden_sana.h"
#include "vulkan_test.h"
#include <dirent.h>
#include <sys/stat.h>
#include "golden_lora.h"

static const golden_family families[] = {
    {"LTX-2", golden_is_ltx2, golden_run_ltx2},
    {"adapters", golden_is_lora, golden_run_lora},
    {"caches", golden_is_cache, golden_run_cache},
    {"pipeline", golden_is_pipe, golden_run_pipe},
    {"control", golden_is_control, golden_run_control},
    {"FLUX.1 Kontext", golden_is_kontext, golden_run_kontext},
    {"pipeline of clips", golden_is_clips, golden_run_clips},
    {"pipeline of Wan", golden_is_wan_pipe, golden_run_wan_pipe},
    {"pipeline of VACE", golden_is_vace, golden_run_vace},
    {"Open-Sora-Plan", golden_is_plan, golden_run_plan},
    {"Open-Sora's programs", golden_is_sora, golden_run_sora},
    {"FLUX.3", golden_is_flux3, golden_run_flux3},
    {"Chroma", golden_is_chroma, golden_run_chroma},
    {"Boogu-Image", golden_is_boogu, golden_run_boogu},
    {"LongCat-Image", golden_is_longcat, golden_run_longcat},
    {"Ideogram 4", golden_is_ideogram4, golden_run_ideogram4},
    {"HunyuanVideo 1.5", golden_is_hunyuanvideo15, golden_run_hunyuanvideo15},
    {"MiniMax-H3", golden_is_minimax, golden_run_minimax},
    {"Kandinsky 5.0 for clips", golden_is_kandinsky_clips, golden_run_kandinsky_clips},
    {"Kandinsky 5.0 from a picture", golden_is_kandinsky_moves, golden_run_kandinsky_moves},
    {"pipeline with several calls", golden_is_calls, golden_run_calls},
    {"prompts", golden_is_prompts, golden_run_prompts},
    {"scheduler", golden_is_scheduler, golden_run_scheduler},
    {"respaced scheduler", golden_is_respaced, golden_run_respaced},
    {"Open-Sora scheduler", golden_is_opensora, golden_run_opensora},
    {"tokenizer", golden_is_tokenizer, golden_run_tokenizer},
    {"random numbers", golden_is_random, golden_run_random},
    {"Sana", golden_is_sana, golden_run_sana},
    {"Lumina-Image 2", golden_is_lumina2, golden_run_lumina2},
    {"pixart", golden_is_pixart, golden_run_pixart},
    {"DiT", golden_is_dit, golden_run_dit},
    {"HunyuanDiT", golden_is_hunyuandit, golden_run_hunyuandit},
    {"SD3", golden_is_sd3, golden_run_sd3},
    {"FLUX.1", golden_is_flux, golden_run_flux},
    {"Open-Sora", golden_is_stdit, golden_run_stdit},
    {"Latte", golden_is_latte, golden_run_latte},
    {"CogVideoX", golden_is_cogvideox, golden_run_cogvideox},
    {"LTX-Video", golden_is_ltx, golden_run_ltx},
    {"HunyuanVideo", golden_is_hunyuanvideo, golden_run_hunyuanvideo},
    {"Wan", golden_is_wan, golden_run_wan},
    {"latents as tokens", golden_is_packed, golden_run_packed},
    {"Z-Image", golden_is_zimage, golden_run_zimage},
    {"newer files", golden_is_newer, golden_run_newer},
    {"Anima", golden_is_anima, golden_run_anima},
    {"Qwen-Image-2.1", golden_is_qwenimage21, golden_run_qwenimage21},
    {"Krea 2's files", golden_is_krea2_files, golden_run_krea2_files},
    {"decoder language model", golden_is_decoder, golden_run_decoder},
    {"t5", golden_is_t5, golden_run_t5},
    {"CLIP", golden_is_clip, golden_run_clip},
    {"BERT", golden_is_bert, golden_run_bert},
    {"AutoencoderKL", golden_is_vae_kl, golden_run_vae_kl},
    {"AutoencoderTiny", golden_is_vae_tiny, golden_run_vae_tiny},
    {"AutoencoderDC", golden_is_vae_dc, golden_run_vae_dc},
    {"autoencoder of clips", golden_is_video, golden_run_video},
    {"stored types", golden_is_types, golden_run_types},
};

static const char *const own_folders[] = {
    "tests/fixtures/schedulers",       "tests/fixtures/tokenizers/t5",      "tests/fixtures/tokenizers/clip",
    "tests/fixtures/tokenizers/bert",  "tests/fixtures/torch_rng",          "tests/fixtures/gguf_types",
    "tests/fixtures/tokenizers/qwen2", "tests/fixtures/tokenizers/scripts",
};

/* One folder of each network comes first: drivers and builds that repeat what lavapipe has run take only these. */
enum { FEW_FOLDERS = 20, PIXART_FOLDER = 1, T5_FOLDER = FEW_FOLDERS, PIPE_FOLDER = 24 };
static const char *const model_folders[] = {
    "tests/fixtures/gguf_t5_q8_0",
    "tests/fixtures/pixart_alpha_orig",
    "tests/fixtures/vae_small_groups8_ldm",
    "tests/fixtures/clip_l_proj",
    "tests/fixtures/bert",
    "tests/fixtures/taesd",
    "tests/fixtures/dit_orig",
    "tests/fixtures/hunyuandit_v12",
    "tests/fixtures/sd35_odd",
    "tests/fixtures/gguf_flux_sdcpp",
    "tests/fixtures/stdit1",
    "tests/fixtures/osp11_lattet2v_rope",
    "tests/fixtures/cogvideox_5b_i2v",
    "tests/fixtures/ltx",
    "tests/fixtures/hunyuanvideo",
    "tests/fixtures/wan22_ti2v",
    "tests/fixtures/qwen3_text",
    "tests/fixtures/sana_sprint",
    "tests/fixtures/lumina2",
    "tests/fixtures/vae_dcae",
    "tests/fixtures/t5_encoder",
    "tests/fixtures/t5_encoder_sharded",
    "tests/fixtures/umt5_encoder",
    "tests/fixtures/pipe_dit",
    "tests/fixtures/pipe_pixart_sigma",
    "tests/fixtures/vae_wan",
    "tests/fixtures/vae_hunyuanvideo",
    "tests/fixtures/vae_ltx_mixed",
    "tests/fixtures/vae_cogvideox_two",
    "tests/fixtures/pipe_cogvideox_2b",
    "tests/fixtures/wan",
    "tests/fixtures/wan21_i2v",
    "tests/fixtures/wan_vace",
    "tests/fixtures/qwenimage",
    "tests/fixtures/qwenimage21",
    "tests/fixtures/pipe_qwenimage",
    "tests/fixtures/pipe_krea2",
    "tests/fixtures/pipe_ernie",
    "tests/fixtures/pipe_kandinsky",
    "tests/fixtures/pipe_kandinsky_t2v",
    "tests/fixtures/kandinsky_i2v",
    "tests/fixtures/pipe_minimax_h3",
    "tests/fixtures/pipe_zimage",
    "tests/fixtures/pipe_flux2_klein",
    "tests/fixtures/pipe_flux3",
    "tests/fixtures/pipe_chroma",
    "tests/fixtures/pipe_boogu",
    "tests/fixtures/pipe_longcat",
    "tests/fixtures/pipe_ovis",
    "tests/fixtures/pipe_ideogram4",
    "tests/fixtures/pipe_hunyuanvideo15",
    "tests/fixtures/qwen3_text_gguf",
    "tests/fixtures/qwen2_text",
    "tests/fixtures/gemma2_text",
    "tests/fixtures/mistral_text",
    "tests/fixtures/ministral_text",
    "tests/fixtures/pipe_ltx",
    "tests/fixtures/pipe_ltx2",
    "tests/fixtures/pipe_ltx2_0",
    "tests/fixtures/lora_pixart_sigma",
    "tests/fixtures/lora_zimage",
    "tests/fixtures/flux_fill",
    "tests/fixtures/flux_controlnet",
    "tests/fixtures/flux_kontext",
    "tests/fixtures/flux2_dev_text",
};

/* The other pipelines of clips, in full sweeps. */
static const char *const sweep_folders[] = {
    "tests/fixtures/vae_cogvideox_tiles", "tests/fixtures/cache_policies",   "tests/fixtures/pipe_anima",
    "tests/fixtures/lora_ernie",          "tests/fixtures/lora_flux2_klein", "tests/fixtures/lora_chroma",
    "tests/fixtures/lora_flux3",          "tests/fixtures/pipe_latte",       "tests/fixtures/pipe_osp11",
    "tests/fixtures/pipe_cogvideox_5b",   "tests/fixtures/pipe_opensora12",  "tests/fixtures/pipe_opensora11",
    "tests/fixtures/pipe_wan22_i2v_a14b",
};

static const golden_family *find_family(const golden_folder *folder) {
    size_t i;
    for (i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i].recognise(folder)) return &families[i];
    }
    return NULL;
}

static void run_folder(golden *g, const char *path) {
    golden_folder folder;
    const golden_family *family;
    golden_begin(g, path);
    golden_open(&g->env, path, &folder);
    family = find_family(&folder);
    if (family) {
        if (golden_is_chats(&folder)) golden_run_asked(g, &folder);
        if (golden_is_edit(&folder)) golden_run_edit(g, &folder);
        if (golden_is_krea2(&folder)) golden_run_krea2(g, &folder);
        if (golden_is_ernie(&folder)) golden_run_ernie(g, &folder);
        if (diti_equal(folder.name, "pipe_kandinsky")) golden_run_kandinsky(g, &folder);
        if (family->run == golden_run_calls && golden_is_qwenimage21(&folder)) golden_run_qwenimage21(g, &folder);
        family->run(g, &folder);
        if (family == &families[0] && golden_is_texts(&folder)) golden_run_texts(g, &folder);
        if (g->compared == 0) golden_check(g, false, "a %s folder in which nothing could be compared", family->name);
    } else if (golden_is_chats(&folder)) {
        golden_run_asked(g, &folder);
    } else if (g->allow_unsupported) {
        fprintf(stderr, "%s: unsupported\n", path);
    } else {
        golden_check(g, false, "unsupported: no family recognises this folder");
    }
    golden_end(g);
    golden_close(&g->env, &folder);
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_case(const char *path) {
    return golden_has(path, "golden.safetensors") || golden_has(path, "golden.json") ||
           (diti_ends_with(path, "_sharded") && is_folder(path));
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The entries of a folder in alphabetical order, each freed with free. */
static size_t list_folder(const char *path, char **names, size_t capacity) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    size_t count = 0;
    while (folder && (entry = readdir(folder)) && count < capacity) {
        char child[1024];
        if (entry->d_name[0] == '.' || !golden_join(child, sizeof child, path, entry->d_name) || !is_folder(child))
            continue;
        names[count] = (char *)malloc(strlen(child) + 1);
        strcpy(names[count++], child);
    }
    if (folder) closedir(folder);
    qsort(names, count, sizeof *names, compare_names);
    return count;
}

static int run_below(golden *g, const char *path) {
    char *names[512];
    size_t count, i;
    int cases = 0;
    if (is_case(path)) {
        run_folder(g, path);
        return 1;
    }
    count = list_folder(path, names, sizeof names / sizeof *names);
    for (i = 0; i < count; i++) {
        cases += run_below(g, names[i]);
        free(names[i]);
    }
    return cases;
}

static int rung_number(const char *name) {
    int i = 0;
    while (i < DITI_RUNG_COUNT && !diti_equal(name, diti_rung_name((diti_rung)i))) i++;
    return i;
}

static void run_path(golden *g, const char *path) {
    char trimmed[1024];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    diti_format(trimmed, sizeof trimmed, "%.*s", (int)length, path);
    if (!run_below(g, trimmed)) {
        golden_begin(g, trimmed);
        golden_check(g, false, "no golden.safetensors or golden.json here or below");
    }
    test_took(path, rung_number(g->rung)); /* a profile tells each folder's time on each rung */
}

static bool chosen_rung; /* --rung was given */

static int usage(const char *problem, const char *what) {
    fprintf(stderr,
            "golden: %s %s\nusage: golden DIR... [--json] [--rung RUNG] [--device DEVICE] [--split SPLIT] "
            "[--overrides TEXT] [--truncating] [--allow-unsupported]\n",
            problem, what);
    return 2;
}

/* Puts options into g and moves folders to the front of argv; returns the number of folders, or -1. */
static int read_arguments(golden *g, int argc, char **argv) {
    int i, folders = 0;
    for (i = 1; i < argc; i++) {
        const char *option = argv[i];
        bool wants_value = diti_equal(option, "--rung") || diti_equal(option, "--device") ||
                           diti_equal(option, "--split") || diti_equal(option, "--overrides");
        if (wants_value && i + 1 == argc) return usage("a value must follow", option), -1;
        if (diti_equal(option, "--json"))
            g->json = true;
        else if (diti_equal(option, "--truncating"))
            g->truncates = true;
        else if (diti_equal(option, "--allow-unsupported"))
            g->allow_unsupported = true;
        else if (diti_equal(option, "--rung"))
            g->rung = argv[++i], chosen_rung = true;
        else if (diti_equal(option, "--device"))
            g->device = argv[++i];
        else if (diti_equal(option, "--split"))
            g->split = argv[++i];
        else if (diti_equal(option, "--overrides"))
            g->overrides = argv[++i];
        else if (diti_starts_with(option, "-"))
            return usage("unknown option", option), -1;
        else
            argv[folders++] = argv[i];
    }
    if (rung_number(g->rung) < DITI_RUNG_COUNT) return folders;
    return usage("there is no rung", g->rung), -1;
}

static void run_models(golden *g, const char *rung) {
    const char *all = getenv("DIT_TEST_ALL");
    size_t i, first = 0, end = sizeof model_folders / sizeof *model_folders;
    /* make test: files and pipelines that base has read take the same way through the other rungs */
    bool sweeps = all && !strcmp(all, "1"), repeats = !sweeps && strcmp(rung, "base");
    g->rung = rung;
    if (!test_first_driver()) {
        end = !strcmp(rung, "base") ? FEW_FOLDERS : PIXART_FOLDER + 1;
        first = end == FEW_FOLDERS ? 0 : PIXART_FOLDER;
    }
    for (i = first; i < end; i++) {
        if (test_quick_way("swiftshader") && end == FEW_FOLDERS && i % 8 != 1) continue;
        if (test_quick_way("sanitize") && end == FEW_FOLDERS && i % 2 != 1) continue;
        if (repeats && !chosen_rung && (i >= FEW_FOLDERS || i % 2 != 1) && i != PIPE_FOLDER) continue;
        run_path(g, model_folders[i]);
    }
    for (i = 0; i < sizeof sweep_folders / sizeof *sweep_folders && sweeps; i++) run_path(g, sweep_folders[i]);
    golden_close_device();
}

/* A driver that truncates values when they become F16 gives the same bytes, since shaders round them first. */
static void run_truncating(golden *g, const char *rung) {
    uint64_t bytes;
    g->bytes = 0;
    run_models(g, rung);
    bytes = g->bytes;
    g->bytes = 0;
    g->truncates = true;
    g->overrides = "rounding=0";
    printf("%s, on a driver that truncates:\n", rung);
    run_models(g, rung);
    golden_check(g, g->bytes == bytes, "rung %s: a driver that truncates gives the same bytes", rung);
    g->truncates = false;
    g->overrides = NULL;
}

/* Clips too large for a piece of memory go through a block in bands of rows: with small pieces, small ones do, too, and
   make the same bytes. */
static void run_banded(golden *g) {
    static const char *const folders[] = {"tests/fixtures/stdit1", "tests/fixtures/osp11_lattet2v_rope",
                                          "tests/fixtures/ltx", "tests/fixtures/wan22_ti2v"};
    const char *all = getenv("DIT_TEST_ALL");
    size_t i;
    if (!test_first_driver()) return;
    g->rung = "base";
    for (i = 0; i < sizeof folders / sizeof *folders; i++) {
        uint64_t bytes;
        if (i > 1 && !(all && !strcmp(all, "1"))) break;
        g->bytes = 0;
        run_path(g, folders[i]);
        bytes = g->bytes;
        g->bytes = 0;
        golden_shared.device->limits.band = 4096;
        run_path(g, folders[i]);
        golden_check(g, g->bytes == bytes, "%s: bands make the same bytes", folders[i]);
        golden_close_device();
    }
}

/* The kernels for processors and, in full sweeps, those for GPUs on the same driver. */
static void run_own(golden *g) {
    const char *sweep = getenv("DIT_TEST_ALL");
    size_t i;
    for (i = 0; i < sizeof own_folders / sizeof *own_folders; i++) run_path(g, own_folders[i]);
    test_vulkan_begin();
    run_models(g, "base");
    run_banded(g);
    if (golden_has_fp16(g))
        run_models(g, "fp16");
    else
        printf("no fp16 on this device: the fp16 rung is not run\n");
    if (golden_has_rung(g, DITI_RUNG_HALF)) { /* a small model; all of them in full sweeps */
        g->rung = "half";
        run_path(g, model_folders[T5_FOLDER]);
        golden_close_device();
    }
    if (sweep && !strcmp(sweep, "1")) {
        for (i = DITI_RUNG_HALF; i < DITI_RUNG_COUNT; i++)
            if (golden_has_rung(g, (diti_rung)i)) run_truncating(g, diti_rung_name((diti_rung)i));
        if (golden_has_fp16(g)) run_truncating(g, "fp16");
        g->overrides = "cpu=0";
        run_models(g, "base");
        if (golden_has_fp16(g)) run_models(g, "fp16");
    }
    test_vulkan_end();
}

int main(int argc, char **argv) {
    golden g = DITI_ZERO;
    int folders, i;
    g.env = test_env(NULL);
    g.rung = "base";
    folders = read_arguments(&g, argc, argv);
    if (folders < 0) return 2;
    for (i = 0; i < folders; i++) run_path(&g, argv[i]);
    if (folders == 0 && chosen_rung) {
        test_vulkan_begin();
        run_models(&g, g.rung);
        test_vulkan_end();
    } else if (folders == 0) {
        run_own(&g);
    }
    golden_close_device();
    free(golden_pipe_cache.bytes);
    if (!g.json) return TEST_END("golden");
    printf("{\"passed\":%d,\"failed\":%d}\n", test_passed, test_failed);
    return test_failed != 0 || test_passed == 0;
}
