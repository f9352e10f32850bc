#include "text/text.h"

/* Chat templates: the exact text that pipelines put around a prompt for a decoder language model, and which of its
   hidden states they take (docs/models.md 5.5). A family's file has its own (diti_family.chats). */

DIT_INTERNAL const diti_chat *diti_chat_plain(void) {
    static const diti_chat plain = {"", "", "", NULL, "", "", 512, false, 0, {0, 0, {0}, false}, 0};
    return &plain;
}

DIT_INTERNAL bool diti_chat_has_class(const diti_chat *chat, const char *class_name) {
    const char *at = chat->classes;
    size_t length = strlen(class_name);
    for (; length && (at = strstr(at, class_name)) != NULL; at += length)
        if ((at == chat->classes || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) return true;
    return false;
}

DIT_INTERNAL bool diti_taps_resolve(const diti_taps *taps, uint32_t own, uint32_t *out, uint32_t *count) {
    uint32_t i;
    *count = taps && taps->count ? taps->count : 1;
    out[0] = own;
    if (*count == DITI_TAPS_ALL) {
        *count = own + 1;
        for (i = 0; i <= own && own < DITI_TAPS_ALL; i++) out[i] = i;
        return own < DITI_TAPS_ALL;
    }
    for (i = 0; taps && i < taps->count; i++) {
        int64_t at = taps->at[i] < 0 ? (int64_t)own + 1 + taps->at[i] : taps->at[i];
        bool whole = taps->form & DITI_TAPS_CUT && own > taps->layers;
        if (taps->layers && taps->at[i] >= 0 && taps->layers != own && !whole) {
            if (at * own % taps->layers) return false;
            at = at * own / taps->layers;
        }
        if (at < 0 || at > (int64_t)own || (i && at <= (int64_t)out[i - 1])) return false;
        out[i] = (uint32_t)at;
    }
    return true;
}
