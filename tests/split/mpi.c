/* examples/mpi_split.c: two processes that MPI connects make the picture of one, on rank 0. */
/* test-runs: lavapipe */
#include "test.h"

enum { SIDE = 32, BYTES = SIDE * SIDE * 3 };
#define MODEL "tests/fixtures/pipe_pixart_sigma"

/* Runs mpi_split with so many ranks and reads the picture that it writes; not 0: it failed. */
static int run(int ranks, const char *split, unsigned char *out) {
    char command[600];
    FILE *pipe;
    int side[2] = {0, 0};
    size_t got = 0;
    snprintf(
        command, sizeof command,
        "PATH=$PATH:/usr/lib64/openmpi/bin:/usr/lib64/mpi/gcc/openmpi4/bin timeout 60 mpirun -n %d build/mpi_split %s 'a red fox' %s %d 2 "
        "2>build/logs/mpi.txt",
        ranks, MODEL, split, SIDE);
    pipe = popen(command, "r");
    if (!pipe) return 1;
    if (fscanf(pipe, "P6 %d %d 255", &side[0], &side[1]) == 2 && fgetc(pipe) == '\n') got = fread(out, 1, BYTES, pipe);
    return pclose(pipe) != 0 || side[0] != SIDE || side[1] != SIDE || got != BYTES;
}

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
    if (!CHECK(refuses("cfg2,ring2", "has 2"))) explain();
    return TEST_END("mpi");
}
