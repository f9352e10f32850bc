/* The clock: microseconds of a clock that never goes back, on POSIX systems and on Windows. */
#include "base/base.h"
#include "base/windows.h"
#ifndef _WIN32
#include <sys/time.h>
#endif

/* Only for time-outs, so a clock that is set meanwhile does little harm; the monotonic one is not declared in plain
 * C99. */
DIT_INTERNAL uint64_t diti_clock_us(void) {
#ifdef _WIN32
    LARGE_INTEGER ticks, rate; /* clock() ends after 24.8 days of a process */
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&ticks);
    return (uint64_t)(ticks.QuadPart / rate.QuadPart) * 1000000u +
           (uint64_t)(ticks.QuadPart % rate.QuadPart) * 1000000u / (uint64_t)rate.QuadPart;
#else
    struct timeval now;
    if (gettimeofday(&now, NULL) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_usec;
#endif
}

#define DITI_CLOCK_LOOK_US 1000000u /* most that counts between two looks */

DIT_INTERNAL uint64_t diti_clock_passed(uint64_t *looked_us) {
    uint64_t now = diti_clock_us(), passed = *looked_us && now > *looked_us ? now - *looked_us : 0;
    *looked_us = now;
    return passed < DITI_CLOCK_LOOK_US ? passed : DITI_CLOCK_LOOK_US;
}
