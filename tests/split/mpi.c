/* examples/mpi_split.c: two processes that MPI connects make the picture of one, on rank 0, or the clip. */
/* test-runs: lavapipe */
#include "test.h"

enum { SIDE = 32, BYTES = SIDE * SIDE * 3, MOST_FRAMES = 9 };
#define MODEL "tests/fixtures/pipe_pixart_sigma"

/* Runs mpi_split with so many ranks and reads the picture or the frames that it writes; not 0: it failed. */
static int run_model(const char *model, int ranks, const char *split, int frames, unsigned char *out) {
    char command[600];
    FILE *pipe;
    int side[2] = {0, 0}, frame = 0, wrong = 0;
    snprintf(
        command, sizeof command,
        "PATH=$PATH:/usr/lib64/openmpi/bin:/usr/lib64/mpi/gcc/openmpi4/bin timeout 60 mpirun -n %d build/mpi_split %s 'a red fox' %s %d 2 %d "
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

int main(void) {
    static unsigned char one[BYTES], two[BYTES];
    static const char *const splits[] = {"cfg2", "ulysses2"};
    const char *all = getenv("DIT_TEST_ALL");
    unsigned i, k, most, colours;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1); /* Open MPI: more ranks than processors, in a container */
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
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
    return TEST_END("mpi");
}
