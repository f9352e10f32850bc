/* The clock of the day for tests that set it: it is ahead by clock_ahead_us. On Windows dit has another clock, which
   nobody sets. */
#ifndef SET_CLOCK_H
#define SET_CLOCK_H
#include <stdint.h>
#include <time.h>
static int64_t clock_ahead_us;
#ifndef _WIN32
#include <sys/time.h>
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec real;
    int64_t us;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    us = (int64_t)real.tv_sec * 1000000 + real.tv_nsec / 1000 + clock_ahead_us;
    now->tv_sec = (time_t)(us / 1000000);
    now->tv_usec = (suseconds_t)(us % 1000000);
    return 0;
}
#endif
#endif
