/* The text encoder families share this: token ids and masks of a case. Include it after golden.h. */
#ifndef GOLDEN_TEXT_H
#define GOLDEN_TEXT_H
#include "golden_model.h"

/* Masks are ones, then zeros, in every fixture: more could not be told apart by length. */
static inline bool golden_mask_lengths(golden *g, const float *mask, uint32_t batch, uint32_t tokens,
                                       uint32_t *lengths) {
    uint32_t i, j;
    bool prefix = true;
    for (i = 0; i < batch; i++) {
        lengths[i] = 0;
        for (j = 0; j < tokens; j++) {
            if (mask[i * tokens + j] != 0) prefix = prefix && lengths[i] == j, lengths[i]++;
        }
    }
    return golden_require(g, prefix, "a mask that is no prefix");
}

/* The ids and the mask (NULL: none) of a case, freed with free; false when there is no such case. */
static inline bool golden_text_read(golden *g, const golden_folder *folder, const char *prefix, uint32_t *batch,
                                    uint32_t *tokens, uint32_t **ids, uint32_t **lengths) {
    char name[64];
    const diti_stored_tensor *stored;
    uint64_t count, i;
    float *values;
    diti_format(name, sizeof name, "%s.in.input_ids", prefix);
    stored = diti_checkpoint_find(folder->golden, name);
    if (!stored || stored->rank != 2) return false;
    *batch = (uint32_t)stored->shape[0];
    *tokens = (uint32_t)stored->shape[1];
    values = golden_floats(folder->golden, name, &count);
    *ids = (uint32_t *)malloc((size_t)count * sizeof(uint32_t));
    for (i = 0; i < count; i++) (*ids)[i] = (uint32_t)values[i];
    free(values);
    diti_format(name, sizeof name, "%s.in.attention_mask", prefix);
    values = golden_floats(folder->golden, name, &count);
    if (values) {
        *lengths = (uint32_t *)malloc(*batch * sizeof(uint32_t));
        golden_mask_lengths(g, values, *batch, *tokens, *lengths);
        free(values);
    }
    return true;
}

/* Padded prompts of equal length, whose padding is computed as well; lengths NULL: and attended. Frees lengths. */
static inline uint32_t *golden_text_items(uint32_t batch, uint32_t tokens, uint32_t *lengths) {
    uint32_t *items = (uint32_t *)malloc(batch * DITI_ITEM_WORDS * sizeof *items), i;
    for (i = 0; i < batch; i++) {
        items[4 * i] = items[4 * i + 2] = i * tokens;
        items[4 * i + 1] = tokens;
        items[4 * i + 3] = lengths ? lengths[i] : tokens;
    }
    free(lengths);
    return items;
}
#endif
