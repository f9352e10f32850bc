/* Atomic loads and stores of a word, and a lock that spins. C99 has neither; MSVC and the other compilers have their
 * own. */
#include "vk/vk.h"
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
static int diti_atomic_exchange(int *value, int to) {
    return (int)_InterlockedExchange((volatile long *)value, (long)to);
}
DIT_INTERNAL int diti_atomic_load(const int *value) { return (int)_InterlockedOr((volatile long *)value, 0); }
DIT_INTERNAL void diti_atomic_store(int *value, int to) { diti_atomic_exchange(value, to); }
#else
static int diti_atomic_exchange(int *value, int to) { return __atomic_exchange_n(value, to, __ATOMIC_ACQ_REL); }
DIT_INTERNAL int diti_atomic_load(const int *value) { return __atomic_load_n(value, __ATOMIC_ACQUIRE); }
DIT_INTERNAL void diti_atomic_store(int *value, int to) { __atomic_store_n(value, to, __ATOMIC_RELEASE); }
#endif

/* Held for a few instructions only, or around one vkQueueSubmit: spinning is cheaper than any mutex C99 does not have.
 */
DIT_INTERNAL void diti_lock(int *lock) {
    while (diti_atomic_exchange(lock, 1)) {
        while (diti_atomic_load(lock)) {
        }
    }
}

DIT_INTERNAL void diti_unlock(int *lock) { diti_atomic_store(lock, 0); }
