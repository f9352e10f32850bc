/* torch's CPU generator: "seedS.randnN" from a fresh generator; randn_1x4x8x9, then_randn5, then_randn20 in a row from
 * one. */
#ifndef GOLDEN_RANDOM_H
#define GOLDEN_RANDOM_H
#include "golden.h"

static inline bool golden_is_random(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "seed0.randn1000");
}

/* Draws go through float logarithms and cosines in torch, through double here: a few units in the last place apart. */
static inline void golden_compare_draw(golden *g, const golden_folder *folder, const char *tensor,
                                       diti_random *random) {
    uint64_t count = golden_count(folder->golden, tensor);
    float *out = (float *)malloc((size_t)(count ? count : 1) * sizeof(float));
    diti_random_normal(random, out, (size_t)count);
    golden_compare_with(g, folder, tensor, out, count, 1e-6);
    free(out);
}

static inline void golden_compare_draws_in_a_row(golden *g, const golden_folder *folder, unsigned long long seed) {
    static const char *const draws[] = {"randn_1x4x8x9", "then_randn5", "then_randn20"};
    diti_random random;
    char tensor[64];
    size_t i;
    diti_random_seed(&random, seed);
    for (i = 0; i < 3; i++) {
        diti_format(tensor, sizeof tensor, "seed%llu.%s", seed, draws[i]);
        golden_compare_draw(g, folder, tensor, &random);
    }
}

static inline void golden_run_random(golden *g, const golden_folder *folder) {
    uint32_t i, length;
    for (i = 0; i < diti_checkpoint_count(folder->golden); i++) {
        const char *name = diti_checkpoint_tensor(folder->golden, i)->name;
        unsigned long long seed;
        diti_random random;
        if (sscanf(name, "seed%llu.randn%u", &seed, &length) == 2) {
            diti_random_seed(&random, seed);
            golden_compare_draw(g, folder, name, &random);
        } else if (sscanf(name, "seed%llu.", &seed) == 1 && diti_ends_with(name, ".randn_1x4x8x9")) {
            golden_compare_draws_in_a_row(g, folder, seed);
        }
    }
}
#endif
