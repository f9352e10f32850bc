/* A tiny test harness: CHECK counts, TEST_END prints the closing line and gives main's exit code.
 * Both checks are expressions: `if (!CHECK(pointer)) return;`. */
#ifndef TEST_H
#define TEST_H
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/resource.h>
#endif

/* Whether this program is built with AddressSanitizer, which looks for leaks at its end. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif
#if SANITIZED
void __lsan_disable(void); /* allocations of this thread are no leaks, until as many calls of __lsan_enable */
void __lsan_enable(void);
#else
static inline void __lsan_disable(void) {}
static inline void __lsan_enable(void) {}
#endif

static int test_passed, test_failed;

#define CHECK(condition) test_check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)
#define CHECK_MESSAGE(condition, ...)                                                                                  \
    test_explain(test_check((condition) ? 1 : 0, __FILE__, __LINE__, #condition), __VA_ARGS__)
#define TEST_END(name) test_end(name)

/* DIT_TEST_PROFILE=1: the places whose checks ended the most processor time, of this program and those that it started,
   are told at the end. Time counts for the check behind it. */
#ifdef __linux__
typedef struct test_place {
    const char *file;
    int line, checks;
    double seconds;
} test_place;

static inline double test_processor_seconds(void) {
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage r;
        if (getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &r) != 0) continue;
        sum +=
            (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    }
    return sum;
}

/* file NULL: tells the places. */
static inline void test_took(const char *file, int line) {
    static test_place places[4096];
    static double last;
    static int on = -1;
    const double now = on == 0 ? 0 : test_processor_seconds();
    test_place *p = places;
    if (on < 0) on = getenv("DIT_TEST_PROFILE") != NULL;
    if (!on) return;
    for (int told = 0; !file && told < 40; told++) {
        test_place *most = places;
        for (p = places; p < places + 4096 && p->file; p++)
            if (p->seconds > most->seconds) most = p;
        if (most->seconds < 0.05) return;
        printf("%8.2f s before %s:%d, %d checks\n", most->seconds, most->file, most->line, most->checks);
        most->seconds = 0;
    }
    if (!file) return;
    while (p < places + 4095 && p->file && !(p->line == line && !strcmp(p->file, file))) p++;
    p->file = file, p->line = line, p->checks++;
    p->seconds += now - last;
    last = now;
}
#else
static inline void test_took(const char *file, int line) { (void)file, (void)line; }
#endif

static inline int test_check(int good, const char *file, int line, const char *what) {
    test_took(file, line);
    if (good)
        test_passed++;
    else
        test_failed++, fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    return good;
}

#if defined(__MINGW_PRINTF_FORMAT)
__attribute__((format(__MINGW_PRINTF_FORMAT, 2, 3)))
#elif defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline int
test_explain(int good, const char *format, ...) {
    va_list arguments;
    if (good) return good;
    va_start(arguments, format);
    fputs("    ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return good;
}

/* Whether a file or folder that a test reads is there; a check that names it fails where it is not, as in trees that
   hold few fixtures. */
static inline int test_needs(const char *path) {
    struct stat status;
    return CHECK_MESSAGE(stat(path, &status) == 0, "the test reads %s, which is not there", path);
}

/* A block of exactly `size` bytes, so that AddressSanitizer sees what goes past its end; freed with free. */
static inline void *test_block(size_t size, size_t align) {
#ifdef _WIN32
    (void)align; /* malloc aligns to 16 bytes, as much as dit asks for */
    return malloc(size);
#else
    void *block = NULL;
    return posix_memalign(&block, align, size) == 0 ? block : NULL;
#endif
}

static inline int test_end(const char *name) {
    if (test_passed + test_failed == 0) test_failed = 1, fprintf(stderr, "%s: no case was checked\n", name);
    test_took(NULL, 0);
    printf("%s: %d passed, %d failed\n", name, test_passed, test_failed);
    fflush(stdout); /* a leak checker may end the program before stdio does */
    return test_failed != 0;
}
/* Whether make test-all runs: tests/run.sh sets the variable to 0 for make test. */
static inline int test_sweeps(void) {
    const char *all = getenv("DIT_TEST_ALL");
    return all && !strcmp(all, "1");
}

/* Whether to run checks that other ways need not repeat in make test: true on lavapipe, on a driver that
   DIT_TEST_DRIVER names, and in all ways with DIT_TEST_ALL=1. */
static inline int test_first_driver(void) {
    const char *way = getenv("DIT_TEST_WAY");
    return test_sweeps() || !way || !strcmp(way, "lavapipe") || !strcmp(way, "driver");
}

/* Whether that way, a name of tests/run.sh, is to be cheap: true in make test, when it is the one. */
static inline int test_quick_way(const char *wanted) {
    const char *way = getenv("DIT_TEST_WAY");
    return !test_sweeps() && way && !strcmp(way, wanted);
}

#endif
