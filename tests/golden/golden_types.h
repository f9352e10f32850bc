/* Stored types: every "t.TYPE" of all_types.gguf decoded, exactly, or refused by name when dit.h does not read it. */
#ifndef GOLDEN_TYPES_H
#define GOLDEN_TYPES_H
#include "golden.h"

static inline bool golden_is_types(const golden_folder *folder) {
    return folder->golden && golden_has(folder->path, "all_types.gguf");
}

static inline void golden_compare_refused(golden *g, const diti_checkpoint *checkpoint,
                                          const diti_stored_tensor *tensor) {
    dit_error err = DITI_ZERO;
    float out[1];
    bool refused = diti_checkpoint_read_float(checkpoint, tensor, out, diti_stored_tensor_elements(tensor), &err) < 0;
    golden_check(g, refused && strstr(err.message, tensor->type_name), "%s is refused: %s", tensor->name, err.message);
}

static inline void golden_compare_type(golden *g, const golden_folder *folder, const diti_checkpoint *checkpoint,
                                       const diti_stored_tensor *tensor) {
    uint64_t count;
    char name[64];
    float *out;
    if (tensor->type == DIT_TYPE_STORED) {
        golden_compare_refused(g, checkpoint, tensor);
        return;
    }
    diti_format(name, sizeof name, "dequant.%s", tensor->name + 2);
    out = golden_floats(checkpoint, tensor->name, &count);
    golden_compare_with(g, folder, name, out, count, 0);
    free(out);
}

static inline void golden_run_types(golden *g, const golden_folder *folder) {
    diti_checkpoint *checkpoint = golden_open_checkpoint(&g->env, folder->path, "all_types.gguf");
    uint32_t i;
    if (!golden_require(g, checkpoint != NULL, "all_types.gguf opens")) return;
    for (i = 0; i < diti_checkpoint_count(checkpoint); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        if (diti_starts_with(tensor->name, "t.")) golden_compare_type(g, folder, checkpoint, tensor);
    }
    diti_checkpoint_close(checkpoint);
}
#endif
