/* Tensors that a file holds and nobody asks for: blocks that the model's config does not count are refused, since the
   picture would be another one, and whatever else there is (tables that are computed here, losses) is told. */
#include "weights/weights.h"

DIT_INTERNAL void diti_loader_use(diti_loader *loader, const diti_stored_tensor *tensor) {
    const diti_checkpoint *checkpoint = loader->checkpoint;
    if (!loader->used) loader->used = (bool *)diti_alloc_array(loader->env, diti_checkpoint_count(checkpoint), 1);
    if (loader->used)
        loader->used[tensor - diti_checkpoint_tensor(checkpoint, 0)] = true;
    else
        diti_fail_memory(&loader->error, "loading %s", loader->what);
}

DIT_INTERNAL void diti_loader_use_low_rank(diti_loader *loader, const diti_stored_tensor *tensor) {
    const diti_stored_tensor *down = diti_stored_sibling(loader->checkpoint, tensor, "", DITI_LOW_RANK_DOWN),
                             *up = diti_stored_sibling(loader->checkpoint, tensor, "", DITI_LOW_RANK_UP);
    if (down) diti_loader_use(loader, down);
    if (up) diti_loader_use(loader, up);
}

static bool diti_loader_uses_prefix(const diti_loader *loader, const char *prefix) {
    uint32_t i, count = diti_checkpoint_count(loader->checkpoint);
    for (i = 0; i < count; i++) {
        if (loader->used[i] && diti_starts_with(diti_checkpoint_tensor(loader->checkpoint, i)->name, prefix))
            return true;
    }
    return false;
}

/* Whether a name differs from that of a tensor in use by a number between dots, "blocks.7." for "blocks.0.", and
   nothing with this number is in use: a block too many. Such blocks are counted from 0 or 1. block: up to the number's
   dot. */
static bool diti_loader_is_beyond(const diti_loader *loader, const char *name, char *block, size_t size) {
    const diti_checkpoint *checkpoint = loader->checkpoint;
    const char *at = name + strlen(loader->prefix), *end;
    char other[512];
    for (; (end = strchr(at, '.')) != NULL; at = end + 1) {
        uint32_t lowest;
        if (end == at || strspn(at, "0123456789") != (size_t)(end - at)) continue;
        for (lowest = 0; lowest < 2; lowest++) {
            const diti_stored_tensor *same;
            if (!diti_format(other, sizeof other, "%.*s%u%s", (int)(at - name), name, (unsigned)lowest, end)) continue;
            same = diti_checkpoint_find(checkpoint, other);
            if (!same || !loader->used[same - diti_checkpoint_tensor(checkpoint, 0)]) continue;
            if (!diti_format(block, size, "%.*s", (int)(end + 1 - name), name)) continue;
            if (!diti_loader_uses_prefix(loader, block)) return true;
        }
    }
    return false;
}

DIT_INTERNAL dit_result diti_loader_check_unused(diti_loader *loader) {
    const diti_checkpoint *checkpoint = loader->checkpoint;
    uint32_t i, unused = 0, count = diti_checkpoint_count(checkpoint);
    char block[512], names[400] = "";
    for (i = 0; i < count && loader->used; i++) {
        const char *name = diti_checkpoint_tensor(checkpoint, i)->name;
        size_t length = strlen(names);
        if (loader->used[i] || !diti_starts_with(name, loader->prefix)) continue;
        if (diti_loader_is_beyond(loader, name, block, sizeof block))
            return diti_fail(&loader->error, DIT_ERROR_BAD_FILE,
                             "%s: tensor '%.200s' would be left out: the %s has no block '%.200s'; the file is "
                             "incomplete, or its config.json counts too few",
                             diti_checkpoint_name(checkpoint), name, loader->what, block);
        if (unused++ < 3) diti_format(names + length, sizeof names - length, "%s%.120s", length ? ", " : "", name);
    }
    if (unused && !loader->sizes)
        diti_log(loader->env, DITI_LOG_INFO, "%s: %u tensors are not used for the %s: %s%s",
                 diti_checkpoint_name(checkpoint), (unsigned)unused, loader->what, names, unused > 3 ? ", ..." : "");
    return DIT_OK;
}
