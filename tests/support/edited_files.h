/* Files of a fixture some of whose values are changed as they are opened: tensors of safetensors whose names hold
   `name` times `factor`, or one value in the middle put there. */
#ifndef EDITED_FILES_H
#define EDITED_FILES_H
#include "files.h"

typedef struct edit { /* a list of them ends with one without a member */
    const char *member, *name;
    float factor, value; /* factor 0: one value */
} edit;

typedef struct edited_member {
    char name[96];
    char *bytes;
    size_t size;
} edited_member;

static struct {
    const edit *edits;
    edited_member members[16];
    size_t count, changed; /* tensors that were, since edited_free */
} edited;

/* F32, or BF16, which is the upper half of it: factors are powers of two there. */
static inline void edited_tensor(char *data, const edit *e, const char *entry) {
    const char *offsets = strstr(entry, "\"data_offsets\":["), *type = strstr(entry, "\"dtype\":\"");
    unsigned long begin = 0, end = 0, i, size = !strncmp(type + 9, "BF16", 4) ? 2 : 4;
    CHECK(size == 2 || !strncmp(type + 9, "F32", 3));
    if (!CHECK(offsets && sscanf(offsets + 16, "%lu,%lu", &begin, &end) == 2)) return;
    for (i = begin; i < end; i += size) {
        float value = 0;
        memcpy((char *)&value + 4 - size, data + i, size);
        if (e->factor != 0) value *= e->factor;
        if (e->factor == 0 && i == (begin + end) / 2 / size * size) value = e->value;
        memcpy(data + i, (char *)&value + 4 - size, size);
    }
}

/* Safetensors: length, then "name":{"dtype":...,"shape":...,"data_offsets":[begin,end]}, then data. */
static inline void edited_change(edited_member *m) {
    const edit *e;
    for (e = edited.edits; e->member; e++) {
        uint64_t length;
        char *at, *header = m->bytes + 8;
        int found = 0;
        if (strcmp(e->member, m->name)) continue;
        memcpy(&length, m->bytes, 8);
        for (at = strstr(header, e->name); at && at < header + length; at = strstr(at + 1, e->name)) {
            edited_tensor(header + length, e, at);
            found++;
        }
        edited.changed += (size_t)found;
        CHECK_MESSAGE(found > 0, "%s is not in %s", e->name, m->name);
    }
}

/* The member of that name, which edits are for; its bytes stay until edited_free. */
static inline dit_result edited_open(const char *name, const char *path, dit_source *out) {
    edited_member *m = &edited.members[edited.count];
    if (!CHECK(edited.count < 16)) return DIT_ERROR_IO;
    m->bytes = test_read_file(path, &m->size);
    if (!m->bytes) return DIT_ERROR_IO;
    snprintf(m->name, sizeof m->name, "%s", name);
    edited_change(m);
    edited.count++;
    memset(out, 0, sizeof *out);
    out->data = m->bytes;
    out->size = m->size;
    return DIT_OK;
}

static inline void edited_free(void) {
    while (edited.count) free(edited.members[--edited.count].bytes);
    edited.changed = 0;
}
#endif
