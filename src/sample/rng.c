/* Random numbers as torch draws them, from its generators for processors and for CUDA, so that seeds agree. */
#include "sample/sample.h"

static const double diti_two_pi = 6.28318530717958647692;

/* --- torch's CPU generator (docs/models.md 10) --- */
DIT_INTERNAL void diti_random_seed(diti_random *random, uint64_t seed) {
    uint32_t *state = random->state, i;
    memset(random, 0, sizeof *random);
    state[0] = (uint32_t)seed; /* torch keeps the low 32 bits */
    for (i = 1; i < 624; i++) state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    random->index = 624;
}

static void diti_random_refill(diti_random *random) {
    uint32_t *state = random->state, i;
    for (i = 0; i < 624; i++) {
        uint32_t mixed = (state[i] & 0x80000000u) | (state[(i + 1) % 624] & 0x7fffffffu);
        state[i] = state[(i + 397) % 624] ^ (mixed >> 1) ^ ((mixed & 1u) ? 0x9908b0dfu : 0u);
    }
    random->index = 0;
}

static uint32_t diti_random_u32(diti_random *random) {
    uint32_t value;
    if (random->index >= 624) diti_random_refill(random);
    value = random->state[random->index++];
    value ^= value >> 11;
    value ^= (value << 7) & 0x9d2c5680u;
    value ^= (value << 15) & 0xefc60000u;
    return value ^ (value >> 18);
}

static float diti_random_uniform24(diti_random *random) {
    return (float)(diti_random_u32(random) & 0xffffffu) * (1.0f / 16777216.0f);
}

static double diti_random_uniform53(diti_random *random) {
    uint64_t high = diti_random_u32(random), low = diti_random_u32(random);
    return (double)(((high << 32) | low) & ((1ull << 53) - 1)) * (1.0 / 9007199254740992.0);
}

/* Box-Muller over 16 uniforms in place: element j pairs with j + 8. */
static void diti_random_transform16(float *values) {
    int j;
    for (j = 0; j < 8; j++) {
        double radius = sqrt(-2.0 * log(1.0 - (double)values[j])), angle = diti_two_pi * (double)values[j + 8];
        values[j] = (float)(radius * cos(angle));
        values[j + 8] = (float)(radius * sin(angle));
    }
}

static void diti_random_normal_blocks(diti_random *random, float *out, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) out[i] = diti_random_uniform24(random);
    for (i = 0; i + 16 <= count; i += 16) diti_random_transform16(out + i);
    if (count % 16 == 0) return;
    for (i = count - 16; i < count; i++) out[i] = diti_random_uniform24(random); /* the last 16 are drawn anew */
    diti_random_transform16(out + count - 16);
}

static float diti_random_normal_single(diti_random *random) {
    double first, radius, angle;
    if (random->has_cached) {
        random->has_cached = false;
        return (float)random->cached;
    }
    first = diti_random_uniform53(random);
    radius = sqrt(-2.0 * log1p(-diti_random_uniform53(random)));
    angle = diti_two_pi * first;
    random->cached = radius * sin(angle);
    random->has_cached = true;
    return (float)(radius * cos(angle));
}

DIT_INTERNAL void diti_random_normal(diti_random *random, float *out, size_t count) {
    size_t i;
    if (count >= 16) {
        diti_random_normal_blocks(random, out, count);
        return;
    }
    for (i = 0; i < count; i++) out[i] = diti_random_normal_single(random);
}

/* --- Philox4x32-10, as torch draws on one CUDA device (docs/models.md 10) --- */
static void diti_philox_round(uint32_t c[4], const uint32_t key[2]) {
    uint64_t a = (uint64_t)c[0] * 0xd2511f53u, b = (uint64_t)c[2] * 0xcd9e8d57u;
    uint32_t second = c[1], fourth = c[3];
    c[0] = (uint32_t)(b >> 32) ^ second ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ fourth ^ key[1];
    c[3] = (uint32_t)a;
}

static float diti_philox_value(uint64_t seed, uint32_t draw, uint32_t element) {
    uint32_t c[4] = DITI_ZERO, key[2];
    double u, v;
    int i;
    c[0] = draw;
    c[2] = element;
    key[0] = (uint32_t)seed;
    key[1] = (uint32_t)(seed >> 32);
    for (i = 0; i < 10; i++) {
        diti_philox_round(c, key);
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    u = ((double)c[0] + 0.5) * (1.0 / 4294967296.0);
    v = ((double)c[1] + 0.5) * (1.0 / 4294967296.0);
    return (float)(sqrt(-2.0 * log(u)) * sin(diti_two_pi * v));
}

DIT_INTERNAL void diti_philox_normal(uint64_t seed, uint32_t draw, float *out, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) out[i] = diti_philox_value(seed, draw, (uint32_t)i);
}
