/* build/dit --resume, driven as a process: clips of one model and of two experts, and pictures, that are interrupted
   early, late, while frames are written, or killed, and go on: the same bytes as those of a run that nothing
   interrupted. Files that are damaged or of other options are refused by name. Usage: resume [PROGRAM]; PROGRAM is
   build/dit unless given.   test-runs: lavapipe */
#define _GNU_SOURCE
#include "command_line.h"
#include "test.h"

#define EXPERTS "tests/fixtures/pipe_wan22_i2v_a14b"
enum { STEPS = 400 };
/* enough steps that a signal comes in the middle of them */
#define LONG_CLIP "-m", CLIPS, "-p", "a fox", "--steps", "400", "-W", "48", "-H", "32", "--video-frames", "4"
#define LONG_EXPERTS                                                                                                   \
    "-m", EXPERTS, "-p", "a fox", "--steps", "400", "-W", "32", "-H", "32", "--frames", "9", "-i", start_path
#define LONG_PICTURE "-m", MODEL, "-p", "a red heart", "--steps", "400", "-W", "32", "-H", "32", "--sampler", "euler-a"

static char start_path[320];

/* "going on behind step 12 of 400": 12; 0: it says nothing. */
static int resumed_step(const outcome *o) {
    const char *at = strstr(o->err, "going on behind step ");
    return at ? atoi(at + strlen("going on behind step ")) : 0;
}

static char *beside(const char *output, const char *ending) {
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s%s", output, ending);
    return path;
}

static char **with(char **args, char *const *more) {
    static char *words[64];
    int n = 0;
    while (*args) words[n++] = *args++;
    while (*more) words[n++] = *more++;
    words[n] = NULL;
    return words;
}

/* Interrupts it when `when` exists, and lets it go on; in this step at least, and below that one. */
static void check_resumed(char **args, char *whole, char *cut, interruption stop, int least, int below) {
    outcome o = run_as(STREAMS_PIPES, stop, with(args, LIST("--resume", "-o", cut)));
    int step;
    CHECK_MESSAGE(o.code == 128 + stop.number && exists(beside(cut, ".resume")) && !exists(cut), "%d %s", o.code,
                  o.err);
    if (stop.number == SIGINT) CHECK_MESSAGE(strstr(o.err, ".resume keeps what is finished"), "%s", o.err);
    o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("--resume", "-o", cut)));
    step = resumed_step(&o);
    CHECK_MESSAGE(o.code == 0 && step >= least && step < below, "%d: step %d, %s", o.code, step, o.err);
    CHECK_MESSAGE(same_files(whole, cut), "another file, behind step %d", step);
    CHECK(!exists(beside(cut, ".resume")));
    remove(cut);
}

static void test_clip(void) {
    char *whole = strdup(in_work("whole.y4m")), *cut = strdup(in_work("cut.y4m")), *seen = strdup(in_work("seen.png"));
    char **args = ARGS(LONG_CLIP);
    outcome o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("-o", whole)));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_resumed(args, whole, cut, (interruption){SIGINT, beside(cut, ".resume"), false}, 1, STEPS);
    check_resumed(args, whole, cut, (interruption){SIGKILL, beside(cut, ".resume"), false}, 1, STEPS);
    args = ARGS(LONG_CLIP, "--preview", seen, "--preview-interval", "250");
    check_resumed(args, whole, cut, (interruption){SIGTERM, seen, false}, 250, STEPS);
    free(whole), free(cut), free(seen);
}

/* Both experts; the first steps are those of the one for high noise. */
static void test_experts(void) {
    char *whole = strdup(in_work("experts.apng")), *cut = strdup(in_work("cut.apng")),
         *seen = strdup(in_work("late.png"));
    char **args = ARGS(LONG_EXPERTS);
    outcome o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("-o", whole)));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_resumed(args, whole, cut, (interruption){SIGINT, beside(cut, ".resume"), false}, 1, 150);
    args = ARGS(LONG_EXPERTS, "--preview", seen, "--preview-interval", "330");
    check_resumed(args, whole, cut, (interruption){SIGINT, seen, false}, 330, STEPS);
    free(whole), free(cut), free(seen);
}

/* Numbered frames that were written stay; the others are those of the whole run. */
static void test_frames(void) {
    char *pattern = strdup(in_work("f/%04d.png")), *whole = strdup(in_work("w/%04d.png"));
    char *first = strdup(in_work("f/0001.png"));
    char name[64], other[64];
    char **args =
        ARGS("-m", EXPERTS, "-p", "a fox", "--steps", "4", "-W", "64", "-H", "64", "--frames", "81", "-i", start_path);
    outcome o;
    int step, i, same = 0;
    if (!CHECK(mkdir(in_work("f"), 0700) == 0 && mkdir(in_work("w"), 0700) == 0)) return;
    o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("-o", whole)));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = run_as(STREAMS_PIPES, (interruption){SIGINT, first, false}, with(args, LIST("--resume", "-o", pattern)));
    CHECK_MESSAGE(o.code == 130 && exists(beside(pattern, ".resume")) && !exists(in_work("f/0081.png")), "%d %s",
                  o.code, o.err);
    CHECK(same_files(first, in_work("w/0001.png")));
    store(first, "stays", 5);
    o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("--resume", "-o", pattern)));
    step = resumed_step(&o);
    CHECK_MESSAGE(o.code == 0 && step == 4, "%d: step %d, %s", o.code, step, o.err);
    for (i = 2; i <= 81; i++) {
        snprintf(name, sizeof name, "f/%04d.png", i);
        snprintf(other, sizeof other, "w/%04d.png", i);
        same += same_files(in_work(name), in_work(other));
    }
    CHECK_MESSAGE(same == 80, "%d frames of 80 are the same", same);
    {
        size_t size = 0;
        unsigned char *bytes = load(first, &size);
        CHECK(size == 5 && bytes && memcmp(bytes, "stays", 5) == 0);
        free(bytes);
    }
    CHECK(!exists(beside(pattern, ".resume")));
    free(pattern), free(whole), free(first);
}

/* Noise of every step comes from the seed, whichever step is the first. */
static void test_picture(void) {
    char *whole = strdup(in_work("whole.png")), *cut = strdup(in_work("cut.png"));
    char **args = ARGS(LONG_PICTURE);
    outcome o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("-o", whole)));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_resumed(args, whole, cut, (interruption){SIGINT, beside(cut, ".resume"), false}, 1, STEPS);
    free(whole), free(cut);
}

static void test_refusals(void) {
    char *cut = strdup(in_work("bad.y4m")), *kept;
    char **args = ARGS(LONG_CLIP);
    unsigned char *bytes;
    size_t size = 0;
    outcome o = run_as(STREAMS_PIPES, (interruption){SIGINT, beside(cut, ".resume"), false},
                       with(args, LIST("--resume", "-o", cut)));
    kept = strdup(beside(cut, ".resume"));
    bytes = load(kept, &size);
    if (!CHECK_MESSAGE(o.code == 130 && size > 400, "%d %s", o.code, o.err)) return;
    o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("--resume", "-s", "7", "-o", cut)));
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "bad.y4m.resume: it was made with other options, \"Seed: 42\" and not "
                                               "\"Seed: 7\""),
                  "%d %s", o.code, o.err);
    bytes[size - 9] ^= 4; /* of the latent */
    store(kept, bytes, size);
    o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("--resume", "-o", cut)));
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "bad.y4m.resume: it is damaged"), "%d %s", o.code, o.err);
    bytes[size - 9] ^= 4;
    for (size_t cut_at = 0; cut_at < size; cut_at += cut_at < 40 ? 13 : size / 3) {
        store(kept, bytes, cut_at);
        o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("--resume", "-o", cut)));
        CHECK_MESSAGE(o.code == 3 && strstr(o.err, "bad.y4m.resume: it is damaged"), "%d %s", o.code, o.err);
    }
    remove(kept);
    if (CHECK(mkdir(kept, 0700) == 0)) {
        o = run_as(STREAMS_PIPES, NO_STOP, with(args, LIST("--resume", "-o", cut)));
        CHECK_MESSAGE(o.code == 3 && strstr(o.err, "bad.y4m.resume: "), "%d %s", o.code, o.err);
        remove(kept);
    }
    CHECK(!exists(cut));
    check_refusal(RUN(QUICK_CLIP, "--resume", "-o", "-"), 2, "--resume: standard output has no file beside it");
    check_refusal(RUN(QUICK, "--resume", "-b", "2", "-o", cut), 2, "leave out --batch-count");
    check_refusal(RUN(QUICK_CLIP, "--resume", "--loop", "2", "-o", cut), 2, "clips of --loop");
    check_refusal(RUN(QUICK, "--resume", "--hires", "-o", (char *)in_work("larger.png")), 2,
                  "--resume: --hires needs more than it keeps");
    check_refusal(RUN(QUICK, "-q", "--resume", "--cache", "delta:first=0,blocks=1,from=1,interval=2", "-o",
                      (char *)in_work("bad.png")),
                  2, "cache needs more than --resume keeps");
    o = RUN(QUICK, "-q", "--resume", "--devices", "0,0", "--split", "cfg2", "-o", (char *)in_work("split.png"));
    CHECK_MESSAGE(o.code == 2 && strstr(o.err, "--resume is for a job on one device"), "%d %s", o.code, o.err);
    free(bytes), free(kept), free(cut);
}

int main(int argc, char **argv) {
    outcome o;
    if (argc > 1) program = argv[1];
    if (!make_work("resume")) return printf("no folder for files\n"), 1;
    snprintf(start_path, sizeof start_path, "%s", in_work("start.png"));
    o = RUN(QUICK, "-q", "-o", start_path);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    test_clip();
    test_experts();
    test_frames();
    test_picture();
    test_refusals();
    remove_work();
    return TEST_END("resume");
}
