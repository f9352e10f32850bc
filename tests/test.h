/* A tiny test harness: CHECK counts, TEST_END prints the closing line and gives main's exit code. */
#ifndef TEST_H
#define TEST_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_passed, test_failed;

#define CHECK(condition) test_check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)
#define CHECK_MESSAGE(condition, ...) \
    do { \
        if (!test_check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)) fprintf(stderr, "    " __VA_ARGS__), fputc('\n', stderr); \
    } while (0)
#define TEST_END(name) test_end(name)

static inline int test_check(int good, const char *file, int line, const char *what) {
    if (good) test_passed++;
    else test_failed++, fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    return good;
}

static inline int test_end(const char *name) {
    if (test_passed + test_failed == 0) test_failed = 1, fprintf(stderr, "%s: no case was checked\n", name);
    printf("%s: %d passed, %d failed\n", name, test_passed, test_failed);
    return test_failed != 0;
}
#endif
