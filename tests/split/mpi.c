/* examples/mpi_split.c: two processes that MPI connects make the picture of one, on rank 0, or the clip. One that is
   killed ends the other, whether mpirun watches them or not. test-runs: lavapipe */
#define _GNU_SOURCE
#include "test.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIDE = 32, BYTES = SIDE * SIDE * 3, MOST_FRAMES = 9 };
#define MODEL "tests/fixtures/pipe_pixart_sigma"
#define PATHS "PATH=$PATH:/usr/lib64/openmpi/bin:/usr/lib64/mpi/gcc/openmpi4/bin "

/* Runs mpi_split with so many ranks and reads the picture or the frames that it writes; not 0: it failed. */
static int run_model(const char *model, int ranks, const char *split, int frames, unsigned char *out) {
    char command[600];
    FILE *pipe;
    int side[2] = {0, 0}, frame = 0, wrong = 0;
    snprintf(command, sizeof command,
             PATHS "timeout 60 mpirun -n %d build/mpi_split %s 'a red fox' %s %d 2 %d "
                   "2>build/logs/mpi.txt",
             ranks, model, split, SIDE, frames);
    pipe = popen(command, "r");
    if (!pipe) return 1;
    do {
        wrong += fscanf(pipe, "P6 %d %d 255", &side[0], &side[1]) != 2 || fgetc(pipe) != '\n' || side[0] != SIDE ||
                 side[1] != SIDE || fread(out + frame * BYTES, 1, BYTES, pipe) != BYTES;
    } while (++frame < frames);
    return pclose(pipe) != 0 || wrong;
}

static int run(int ranks, const char *split, unsigned char *out) { return run_model(MODEL, ranks, split, 0, out); }

static void explain(void) {
    char line[400];
    FILE *file = fopen("build/logs/mpi.txt", "r");
    while (file && fgets(line, sizeof line, file)) fprintf(stderr, "    %s", line);
    if (file) fclose(file);
}

static int refuses(const char *split, const char *message) {
    unsigned char picture[BYTES];
    char text[4000] = "";
    FILE *file;
    int failed = run(2, split, picture);
    file = fopen("build/logs/mpi.txt", "r");
    if (file) text[fread(text, 1, sizeof text - 1, file)] = 0;
    if (file) fclose(file);
    return failed && strstr(text, message);
}

/* Frames of two ranks against those of one. */
static void check_clip(const char *model, const char *split, int frames) {
    static unsigned char one[MOST_FRAMES * BYTES], two[MOST_FRAMES * BYTES];
    int i, most = 0, colours = 0;
    memset(two, 0, sizeof two);
    if (!CHECK(run_model(model, 1, "none", frames, one) == 0)) explain();
    if (!CHECK(run_model(model, 2, split, frames, two) == 0)) explain();
    for (i = 0; i < frames * BYTES; i++) {
        most = abs(one[i] - two[i]) > most ? abs(one[i] - two[i]) : most;
        colours += one[i] != one[0];
    }
    printf("%s, %s on two ranks: no value of %d frames differs by more than %d of 255\n", model, split, frames, most);
    CHECK(most <= 1 && colours > BYTES / 2);
}

/* ---- a rank that is killed ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool says(const char *path, const char *wanted, char text[8000]) {
    FILE *file = fopen(path, "r");
    text[0] = 0;
    if (file) text[fread(text, 1, 7999, file)] = 0;
    if (file) fclose(file);
    return strstr(text, wanted) != NULL;
}

/* Starts mpirun in a group of its own, with two ranks that leave their numbers in build/logs/mpi.RANK. */
static pid_t start(const char *flags) {
    char command[800];
    pid_t child;
    snprintf(command, sizeof command,
             PATHS
             "exec mpirun %s -n 2 sh -c 'echo $$ >build/logs/mpi.$OMPI_COMM_WORLD_RANK; exec build/mpi_split " MODEL
             " fox cfg2 %d 400' >/dev/null 2>build/logs/mpi.txt",
             flags, 4 * SIDE);
    remove("build/logs/mpi.0"), remove("build/logs/mpi.1"), remove("build/logs/mpi.txt");
    fflush(stdout);
    child = fork();
    if (child) return child;
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* Kills a rank once steps are behind it. The message of mpirun, or with its recovery that of the other rank, names it;
   all of it is over in less than 30 seconds. */
static void check_killed(const char *flags, int rank, const char *wanted) {
    char text[8000], path[32], number[8000];
    pid_t child = start(flags);
    double began = now(), killed;
    int status = 0;
    pid_t ended = 0;
    snprintf(path, sizeof path, "build/logs/mpi.%d", rank);
    while (!says("build/logs/mpi.txt", "step ", text) && now() - began < 60) usleep(20000);
    CHECK_MESSAGE(strstr(text, "step "), "the run has not begun after 60 s: %s", text);
    CHECK(says(path, "\n", number) && atoi(number) > 1 && kill((pid_t)atoi(number), SIGKILL) == 0);
    killed = now();
    while (ended == 0 && now() - killed < 40) {
        ended = waitpid(child, &status, WNOHANG);
        if (!ended) usleep(50000);
    }
    printf("mpirun %s: rank %d killed, the others ended after %.1f s\n", flags, rank, now() - killed);
    if (!CHECK(ended == child && now() - killed < 30)) kill(-child, SIGKILL), waitpid(child, &status, 0);
    if (!*flags) CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) == 0));
    if (!CHECK_MESSAGE(says("build/logs/mpi.txt", wanted, text), "nothing says '%s'", wanted)) explain();
}

static void test_killed(bool all) {
    char text[8000];
    check_killed("", 1, "process rank 1");
    if (all && system(PATHS "mpirun --version >build/logs/mpi.version 2>&1") == 0 &&
        says("build/logs/mpi.version", "(Open MPI) 4.", text)) /* others have other words for it */
        check_killed("--enable-recovery", 0, "mpi_split, rank 1: rank 0");
}

int main(int argc, char **argv) {
    static unsigned char one[BYTES], two[BYTES];
    static const char *const splits[] = {"cfg2", "ulysses2"};
    const char *all = getenv("DIT_TEST_ALL");
    unsigned i, k, most, colours;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1); /* Open MPI: more ranks than processors, in a container */
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    if (argc > 1 && !strcmp(argv[1], "killed")) { /* that alone */
        test_killed(true);
        return TEST_END("mpi");
    }
    if (!CHECK(run(1, "none", one) == 0)) explain();
    for (k = 0; k < (unsigned)(all && *all == '1' ? 2 : 1); k++) {
        memset(two, 0, sizeof two);
        if (!CHECK(run(2, splits[k], two) == 0)) explain();
        for (i = 0, most = 0, colours = 0; i < BYTES; i++) {
            unsigned difference = one[i] > two[i] ? one[i] - two[i] : two[i] - one[i];
            if (difference > most) most = difference;
            colours += one[i] != one[0];
        }
        printf("%s on two ranks: no value differs by more than %u of 255\n", splits[k], most);
        CHECK(most <= 1 && colours > BYTES / 2); /* rounding */
    }
    if (all && *all == '1') {
        check_clip("tests/fixtures/pipe_opensora11", "ulysses2", 5);
        check_clip("tests/fixtures/pipe_opensora11", "layers2", 5);
        check_clip("tests/fixtures/pipe_cogvideox_2b", "ulysses2", 9);
        check_clip("tests/fixtures/pipe_cogvideox_2b", "layers2", 9);
    }
    if (!CHECK(refuses("cfg2,ring2", "has 2"))) explain();
    test_killed(all && *all == '1');
    return TEST_END("mpi");
}
