/* build/dit-bench from inside: every case in a tiny size prints lines of JSON with the keys it promises, wrong
   arguments are refused in one line and before any work.   test-runs: lavapipe */
#define BENCH_NO_MAIN
#define BENCH_BURSTS 1 /* every call measures the device anew */
#define BENCH_COPY_MIB 1
#include "library.h"
#include "tools/dit-bench.c"
#include "vulkan_test.h"

#define MODEL "tests/fixtures/pipe_pixart_sigma"

static bool test_everything(void) {
    const char *all = getenv("DIT_TEST_ALL");
    return all && all[0] == '1';
}

typedef struct outcome {
    int code;
    char out[65536], err[4096];
} outcome;

static void take_text(FILE *file, char *out, size_t size) {
    size_t length;
    rewind(file);
    length = fread(out, 1, size - 1, file);
    out[length] = 0;
    fclose(file);
}

/* dit-bench with the words of text as its arguments. */
static void run_bench(const char *text, outcome *o) {
    char copy[512], *words[64] = {(char *)"dit-bench"}, *word;
    FILE *out = tmpfile(), *err = tmpfile();
    int count = 1, saved = dup(2);
    snprintf(copy, sizeof copy, "%s", text);
    for (word = strtok(copy, " "); word; word = strtok(NULL, " ")) words[count++] = word;
    dup2(fileno(err), 2);
    o->code = bench_run(count, words, out);
    dup2(saved, 2);
    close(saved);
    take_text(out, o->out, sizeof o->out);
    take_text(err, o->err, sizeof o->err);
}

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* keys: words; those with "+" behind them must be numbers above zero. */
static void check_keys(const diti_json *line, const char *keys, const char *what) {
    char copy[512], *key;
    snprintf(copy, sizeof copy, "%s", keys);
    for (key = strtok(copy, " "); key; key = strtok(NULL, " ")) {
        char *plus = strchr(key, '+');
        if (plus) *plus = 0;
        if (!CHECK_MESSAGE(diti_json_get(line, key), "%s: no key %s", what, key)) continue;
        if (plus) CHECK_MESSAGE(diti_json_number(line, key, 0) > 0, "%s: %s is not above zero", what, key);
    }
}

#define KEYS "op m n k type rung device gflops seconds+ wall_seconds+ cpu_seconds "
#define PEAKS "peak_gflops+ peak_gbytes_per_s+ bound fraction "

static const struct {
    const char *arguments;
    int lines; /* 0: any number */
    const char *keys;
    bool full; /* in the full run only: kernels that take long to compile, and keys that another case has */
} cases[] = {
    {"gemm --m 17 --n 32 --k 64 --runs 2", 1, KEYS PEAKS "m+ n+ k+ gflops+", false},
    {"gemm --m 8 --n 8 --k 256 --runs 1 --type f32,F16,q8_0,Q2_K", 4, KEYS PEAKS "m+ n+ k+ gflops+", true},
    {"gemm --m 20 --n 24 --k 256 --runs 1 --type i8r,i8r+rot", 2, KEYS PEAKS "m+ n+ k+ gflops+", false},
    {"gemm --m 4 --n 24 --k 256 --runs 1 --sweep --type i4_group", 7, "op n k type ", true},
    {"gemm --m 20 --n 24 --k 256 --runs 1 --type i4r+rot", 1, KEYS PEAKS "m+ n+ k+ gflops+", true},
    {"gemm --m 40 --n 64 --k 64 --runs 1 --form gpu --slice-us 1000", 1, KEYS "gflops+", true},
    {"gemv --n 64 --k 64 --runs 1", 1, KEYS PEAKS "m+ gflops+", false},
    {"attention --tokens 33 --keys 20 --heads 2 --head-dim 24 --batch 2 --runs 2", 1,
     KEYS PEAKS "tokens+ keys+ heads+ head_dim+ gflops+", false},
    {"conv --size 8 --in 4 --out 8 --runs 1", 1, KEYS PEAKS "size+ kernel+ gflops+", false},
    {"conv --size 8 --in 32 --out 8 --kernel 1 --type q8_0 --runs 1", 1, KEYS "gflops+", true},
    {"ceilings", 0, "op type device", false},
    {"norm --m 5 --k 96 --runs 1", 1, KEYS PEAKS "gbytes_per_s+", false},
    {"expand --n 16 --k 64 --runs 1", 1, KEYS PEAKS "gbytes_per_s+", false},
    {"copy --m 64 --k 64 --runs 1", 1, KEYS PEAKS "gbytes_per_s+", true},
    {"vae --size 1 --runs 1 --type f16", 1, KEYS PEAKS "gflops+", true},
    {"encoder --shape clip-l --tokens 4 --runs 1 --layers 1", 1,
     KEYS PEAKS "gflops+ layers+ layers_run+ extrapolated memory+ runs_per_s+", false},
    {"block --shape flux-tiny --tokens 8 --runs 1", 2, KEYS PEAKS "gflops+ shape layer count+", false},
    {"model --steps 2 --runs 1 --model " MODEL, 1,
     KEYS "gflops+ steps+ steps_per_s+ memory+ device_bytes+ pipelines+ again_seconds+ expanded_bytes_per_step "
          "barriers_per_step+",
     false},
};

/* Each type is one more kernel to compile, so only the full run tries them. */
static const char all_types[] = "gemm --m 8 --n 8 --k 256 --runs 1 --type "
                                "bf16,f8_e4m3,f8_e5m2,q4_0,q4_1,q5_0,q5_1,q3_k,q4_k,q5_k,q6_k,i4_group";

static void check_lines(const char *text, const char *keys, const char *what) {
    diti_env env;
    diti_env_init(&env, NULL, NULL, NULL);
    while (*text) {
        size_t length = strcspn(text, "\n");
        diti_json *line = NULL;
        dit_error err = DITI_ZERO;
        CHECK_MESSAGE(diti_json_parse(&env, text, length, what, &line, &err) >= 0, "%s", err.message);
        if (line) check_keys(line, keys, what);
        diti_json_free(&env, line);
        text += length + (text[length] == '\n');
    }
}

static void test_cases(void) {
    static outcome o;
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].full && !test_everything()) continue;
        run_bench(cases[i].arguments, &o);
        CHECK_MESSAGE(o.code == 0 && !o.err[0], "%s: exit code %d, %s", cases[i].arguments, o.code, o.err);
        CHECK_MESSAGE(cases[i].lines ? lines_of(o.out) == cases[i].lines : lines_of(o.out) > 0, "%s: %d lines",
                      cases[i].arguments, lines_of(o.out));
        check_lines(o.out, cases[i].keys, cases[i].arguments);
    }
}

/* A profile splits the plan's command buffers: the work stays the same, and every op gets its line. */
static void test_types(void) {
    static outcome o;
    if (!test_everything()) return;
    run_bench(all_types, &o);
    CHECK_MESSAGE(o.code == 0 && lines_of(o.out) == 11, "%s", o.err);
    check_lines(o.out, KEYS PEAKS "gflops+", all_types);
}

static void test_profile(void) {
    static outcome o;
    run_bench("gemm --m 64 --n 64 --k 64 --type q8_0 --runs 1 --profile", &o);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(lines_of(o.out) == 3 && strstr(o.out, "\"name\": \"expand\"") && strstr(o.out, "\"name\": \"gemm\""));
    check_lines(strchr(o.out, '\n') + 1, "op segment name dispatches+ repeats+ seconds share gflops gbytes_per_s",
                "profile");
}

/* A picture in frames, twice, is the same whatever a frame has time for. */
static void test_frames(void) {
    static outcome few, many;
    static const char some
        [] =
            "op run width+ height+ budget_us+ device frames+ measured p50_ms p99_ms max_ms record_p50_us record_p99_us record_max_us first_ms+ "
            "over_budget expected_ms slices+ cuts picture",
    keys[] =
        "op run width+ height+ budget_us+ device frames+ measured+ p50_ms+ p99_ms+ max_ms+ record_p50_us+ record_p99_us+ record_max_us+ first_ms+ "
        "over_budget expected_ms+ slices+ cuts+ picture";
    const char *one, *other;
    run_bench("frames --model " MODEL " --width 32 --height 32 --steps 2 --runs 1 --budget-us 50000", &few);
    run_bench("frames --model " MODEL " --width 32 --height 32 --steps 2 --runs 1 --budget-us 1000 --by-cpu", &many);
    CHECK_MESSAGE(few.code == 0 && many.code == 0, "%s%s", few.err, many.err);
    CHECK(lines_of(few.out) == 2 && lines_of(many.out) == 2);
    check_lines(few.out, some, "frames"); /* a fast machine ends the picture in the frames of its first step */
    check_lines(many.out, keys, "frames");
    one = strstr(few.out, "\"picture\"");
    other = strstr(many.out, "\"picture\"");
    CHECK(one && other && !strncmp(one, other, strcspn(one, "\n")));
}

/* Every architecture, with narrow layers and few tokens: all its kinds of layers are planned and run. */
static int run_tiny(bench *b, shape tiny) {
    int code = begin_case(b);
    b->line.op = "model";
    b->line.type = "f32";
    tiny.hidden = tiny.heads * 8;
    tiny.feed = 64;
    tiny.tokens = 6;
    if (tiny.frames > 3) tiny.frames = 3;
    if (tiny.text > 5) tiny.text = 5;
    if (!code) code = run_shape(b, &tiny);
    end_case(b);
    return code;
}

/* An earlier shape has these kinds of layers: in tiny sizes they are the same kernels. */
static bool seen_layers(const shape *s) {
    for (const shape *earlier = shapes; earlier < s; earlier++) {
        bool same = earlier->norm == s->norm && earlier->rotary == s->rotary;
        for (int i = 0; i < SHAPE_KINDS; i++) same = same && earlier->layers[i].kind == s->layers[i].kind;
        if (same) return true;
    }
    return false;
}

static void test_shapes(void) {
    bench b = DITI_ZERO;
    size_t i;
    int lines = 0;
    double bytes = 0;
    static char text[65536];
    b.out = tmpfile();
    b.o.op = "model";
    b.o.runs = 1;
    for (i = 0; i < 2 * DITI_COUNT(shapes); i++) { /* quick: other layers only, in turns whole and cut */
        if (!test_everything() && (i % 2 != i / 2 % 2 || seen_layers(&shapes[i / 2]))) continue;
        b.o.layers = i % 2 ? 3 : 0;
        b.o.no_fusion = b.o.no_replay = i % 2;
        b.o.type = i % 3 ? DIT_TYPE_F32 : DIT_TYPE_I8_ROW;
        CHECK_MESSAGE(run_tiny(&b, shapes[i / 2]) == 0, "%s", shapes[i / 2].name);
        CHECK_MESSAGE(shapes[i / 2].hidden % shapes[i / 2].heads == 0, "%s", shapes[i / 2].name);
        bytes += b.weight_bytes;
        lines++;
    }
    CHECK(bytes > 0);
    dit_context_destroy(b.context);
    take_text(b.out, text, sizeof text);
    CHECK(lines_of(text) == lines && lines >= (int)DITI_COUNT(shapes) / 2);
    check_lines(text,
                KEYS PEAKS
                "shape layers+ layers_run+ weight_bytes+ model_bytes+ memory+ gflops+ extrapolated fusion replay "
                "expanded_bytes_per_step barriers_per_step+",
                "shapes");
}

/* The table of --report has a row for every line. */
static void test_report(void) {
    static outcome o;
    char path[] = "/tmp/dit-bench-XXXXXX", text[4096] = "";
    int handle = mkstemp(path);
    char words[256];
    FILE *file;
    snprintf(words, sizeof words, "gemm --m 8 --n 8 --k 32 --runs 1 --type f32,q8_0 --report %s", path);
    run_bench(words, &o);
    CHECK_MESSAGE(o.code == 0 && lines_of(o.out) == 2, "%s", o.err);
    file = fopen(path, "r");
    if (CHECK(file)) take_text(file, text, sizeof text);
    CHECK_MESSAGE(lines_of(text) == 6 && strstr(text, "| gemm 8 × 8 × 32 | q8_0 |"), "%s", text);
    close(handle);
    remove(path);
#ifdef __linux__
    run_bench("gemm --m 8 --n 8 --k 32 --runs 1 --no-ceilings --report /dev/full", &o);
    CHECK_MESSAGE(o.code == 4 && strstr(o.err, "/dev/full: No space left on device"), "%d: %s", o.code, o.err);
#endif
}

/* The page of report: every part that was asked for, a row for every rung, picture and case, whatever fails or comes
   too late. */
static void test_page(void) {
    static outcome o;
    char path[] = "/tmp/dit-bench-XXXXXX", words[256];
    static char text[65536];
    int handle = mkstemp(path), i;
    size_t n;
    FILE *file;
    bool all = test_everything();
    run_bench(all ? "report --parts device,rungs,pictures --steps 1 --model " MODEL : "report --parts device,rungs",
              &o);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(o.out[0] == '#' && !strstr(o.out, "\"op\""));
    CHECK(strstr(o.out, "\n## Device\n") && strstr(o.out, "\n## Rungs\n") && !strstr(o.out, "\n## Pictures\n") == !all);
    CHECK(!strstr(o.out, "\n## Kernels\n") && !strstr(o.out, "\n## Networks"));
    CHECK(strstr(o.out, "\n| driver | ") && strstr(o.out, "\n| heap 0 | ") && strstr(o.out, "\n| queue family 0 | "));
    CHECK(strstr(o.out, "\n| base | works | base | "));
    CHECK(!all || (strstr(o.out, "\n| best | cfg2 | ") && strstr(o.out, "\n| best | tensor2 | ")));
    for (i = 0; i < DITI_RUNG_COUNT && all; i++) {
        snprintf(words, sizeof words, "\n| %s | one | ", diti_rung_name((diti_rung)i));
        CHECK_MESSAGE(strstr(o.out, words), "no picture on rung %s: %s", diti_rung_name((diti_rung)i), o.out);
    }
    CHECK_MESSAGE(strstr(o.out, " has not what rung coop needs") || strstr(o.out, "| coop | works"), "%s", o.out);
    if (!all) { /* kernels and networks take longer than their seconds */
        close(handle);
        remove(path);
        return;
    }
    snprintf(words, sizeof words, "report --parts kernels,steps --seconds 1 --runs 1 -o %s", path);
    run_bench(words, &o);
    CHECK_MESSAGE(o.code == 0 && !o.out[0], "%s", o.err);
    file = fopen(path, "r");
    if (CHECK(file)) take_text(file, text, sizeof text);
    CHECK(strstr(text, "\n## Kernels\n") && strstr(text, "\n## Networks") && !strstr(text, "\n## Device\n"));
    CHECK_MESSAGE(strstr(text, "| the time was over |"), "%s", text);
    for (n = 1; n < DITI_COUNT(small_cases); n++) { /* the lines after the ceilings; each begins with its case's name */
        snprintf(words, sizeof words, "\n| %.*s ", (int)strcspn(small_cases[n], " "), small_cases[n]);
        CHECK_MESSAGE(strstr(text, words), "no row of %s: %s", small_cases[n], text);
    }
    close(handle);
    remove(path);
}

/* Runs until a GPU counts as warm, the first of which takes `seconds`; each of `falling` more takes that share
   of the one before. */
static int runs_to_warm(bench *b, double seconds, int falling, double share) {
    warming w;
    int runs = 1;
    warming_begin(b, &w);
    for (; still_warming(b, &w, seconds) && runs < 1000; runs++)
        if (runs <= falling) seconds *= share;
    return runs;
}

/* A GPU is warm after a tenth of a second of its own time, three where it was idle, when it is no longer faster, even
   little by little, and after a second at most. A software driver is warm at once. */
static void test_warming(void) {
    static diti_device device;
    bench b = DITI_ZERO;
    warming w;
    int runs;
    b.device = &device;
    b.busy = now();
    CHECK((runs = runs_to_warm(&b, 0.01, 0, 1), runs == 10 || runs == 11));
    b.busy = now();
    CHECK((runs = runs_to_warm(&b, 0.01, 60, 0.99), runs > 60 && runs < 85));
    b.busy = now();
    CHECK((runs = runs_to_warm(&b, 0.3, 900, 0.9), runs == 4));
    b.busy = now() - 1;
    CHECK((runs = runs_to_warm(&b, 0.01, 0, 1), runs == 30 || runs == 31));
    warming_begin(&b, &w);
    CHECK(still_warming(&b, &w, 0) && w.all == 0 && w.begun > 0); /* a compiler's time */
    w.begun -= BENCH_WARM_MOST;
    CHECK(!still_warming(&b, &w, 1e-6)); /* short runs fill no second of the device's time */
    device.software = true;
    CHECK(runs_to_warm(&b, 0.01, 0, 1) == 1);
}

static long size_of(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (file) fclose(file);
    return size;
}

/* Starts hand what they find on by --cache, whatever the case, as the rungs of a report do. */
static void test_cache(void) {
    static outcome o;
    char path[] = "/tmp/dit-bench-XXXXXX", words[256];
    close(mkstemp(path));
    snprintf(words, sizeof words, "gemm --m 8 --n 8 --k 32 --runs 1 --cache %s", path);
    run_bench(words, &o);
    CHECK_MESSAGE(o.code == 0 && size_of(path) > 0, "%s", o.err);
    remove(path);
    snprintf(words, sizeof words, "report --parts rungs --cache %s", path);
    run_bench(words, &o);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "s at first, without a cache."), "%s%s", o.err, o.out);
    run_bench(words, &o);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "s at first, with the cache of an earlier start."), "%s%s", o.err,
                  o.out);
    CHECK_MESSAGE(strstr(o.out, "\n| base | works | base | "), "%s", o.out);
    remove(path);
}

static void test_refusals(void) {
    static const char *const wrong[] = {"",
                                        "gem",
                                        "--gemm",
                                        "gemm --m 0",
                                        "gemm --m -3",
                                        "gemm --m 12x",
                                        "gemm --m 99999999999999999999",
                                        "gemm --m",
                                        "gemm --colour red",
                                        "gemm --type q9_9",
                                        "gemm --type f32,",
                                        "gemm --type i8_row",
                                        "gemm --k 100 --type q8_0",
                                        "gemm --k 100 --type i8r+rot",
                                        "conv --type i8r",
                                        "vae --type i8r+rot --size 1",
                                        "expand --type i8r",
                                        "gemm --rung turbo",
                                        "gemm --rung base,cpu=0",
                                        "gemm --form fpga",
                                        "gemm --runs 0",
                                        "gemm --device no-such-device",
                                        "attention --head-dim 1000",
                                        "conv --kernel 9",
                                        "expand --type f32",
                                        "model --model no/such/file.gguf",
                                        "model --steps 0",
                                        "model --shape sd9",
                                        "model --shape clip-l",
                                        "encoder --shape flux",
                                        "model --shape dit-xl-2 --type q4_k",
                                        "gemm --report no/such/folder/report.md",
                                        "model --width 13 --model " MODEL,
                                        "model --split cfg2 --steps 1 --model " MODEL,
                                        "report --parts devices",
                                        "report --seconds 0",
                                        "report -o no/such/folder/page.md",
                                        "gemm --seconds 3",
                                        "all -o page.md"};
    static outcome o;
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        run_bench(wrong[i], &o);
        CHECK_MESSAGE(o.code >= EXIT_USAGE && o.code <= EXIT_DEVICE, "%s: exit code %d", wrong[i], o.code);
        CHECK_MESSAGE(!o.out[0], "%s: printed %s", wrong[i], o.out);
        CHECK_MESSAGE(lines_of(o.err) == 1, "%s: told: %s", wrong[i], o.err);
    }
    run_bench("--device 0", &o);
    CHECK_MESSAGE(strstr(o.err, "--device: the case stands before its options"), "%s", o.err);
    run_bench("gemm --runs=0", &o);
    CHECK_MESSAGE(strstr(o.err, "--runs 0: give a whole number"), "%s", o.err);
}

static void test_help(void) {
    static outcome o;
    run_bench("--help", &o);
    CHECK(o.code == 0 && !o.err[0]);
    CHECK_MESSAGE(lines_of(o.out) <= 50, "--help is %d lines long: more than a screen", lines_of(o.out));
}

int main(void) {
    test_vulkan_begin();
    test_help();
    test_warming();
    test_refusals();
    test_cases();
    test_types();
    test_profile();
    test_frames();
    test_shapes();
    test_report();
    test_page();
    test_cache();
    test_vulkan_end();
    return TEST_END("bench");
}
