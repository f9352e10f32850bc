/* Tests that drive programs have this in common: a folder of their own, which they remove at their end, files in it,
   and a clock. */
#ifndef WORK_FOLDER_H
#define WORK_FOLDER_H
#include "files.h"
#include <ftw.h>
#include <time.h>
#include <unistd.h>

static char work[256]; /* the folder */

static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline const char *in_work(const char *name) {
    static char paths[8][320];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", work, name);
    return path;
}

static inline bool exists(const char *path) { return access(path, F_OK) == 0; }

/* Makes the folder of the test of that name, with a folder for caches in it. */
static inline bool make_work(const char *test) {
    snprintf(work, sizeof work, "%s/dit-%s-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", test);
    return mkdtemp(work) && mkdir(in_work("cache"), 0700) == 0;
}

static inline int remove_one(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    (void)info, (void)kind, (void)ftw;
    return remove(path);
}

static inline void remove_work(void) { nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static inline unsigned char *load(const char *path, size_t *size) {
    return (unsigned char *)test_read_file(path, size);
}

static inline void store(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

/* 1: both files have the same bytes; -1: they have others; 0: one is empty or not there. */
static inline int compare_files(const char *a, const char *b) {
    size_t size = 0, size_2 = 0;
    unsigned char *x = load(a, &size), *y = load(b, &size_2);
    const bool same = size && size == size_2 && memcmp(x, y, size) == 0;
    free(x);
    free(y);
    return !size || !size_2 ? 0 : same ? 1 : -1;
}

static inline bool same_files(const char *a, const char *b) { return compare_files(a, b) > 0; }
static inline bool other_files(const char *a, const char *b) { return compare_files(a, b) < 0; }
#endif
