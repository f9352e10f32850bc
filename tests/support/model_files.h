/* Model files made in memory, and a folder behind dit_source's open hook.
 * Include it after dit.h's implementation. */
#ifndef MODEL_FILES_H
#define MODEL_FILES_H

/* --- bytes that grow --- */

typedef struct bytes {
    unsigned char *data;
    size_t size, capacity;
} bytes;

static inline void bytes_add(bytes *out, const void *data, size_t size) {
    if (out->size + size > out->capacity) {
        out->capacity = 2 * (out->size + size);
        out->data = realloc(out->data, out->capacity);
    }
    if (size && data) memcpy(out->data + out->size, data, size);
    if (size && !data) memset(out->data + out->size, 0, size);
    out->size += size;
}

static inline void bytes_u32(bytes *out, uint32_t value) { bytes_add(out, &value, 4); }
static inline void bytes_u64(bytes *out, uint64_t value) { bytes_add(out, &value, 8); }
static inline void bytes_text(bytes *out, const char *text) { /* as GGUF writes it */
    bytes_u64(out, strlen(text));
    bytes_add(out, text, strlen(text));
}
static inline void bytes_pad(bytes *out, size_t alignment) {
    bytes_add(out, NULL, (alignment - out->size % alignment) % alignment);
}
static inline void bytes_free(bytes *out) {
    free(out->data);
    memset(out, 0, sizeof *out);
}

static inline bytes safetensors_bytes(const char *header, size_t data_size) {
    bytes out = {0};
    bytes_u64(&out, strlen(header));
    bytes_add(&out, header, strlen(header));
    bytes_add(&out, NULL, data_size);
    return out;
}

static inline void gguf_head(bytes *out, uint32_t version, uint64_t tensors, uint64_t keys) {
    bytes_add(out, "GGUF", 4);
    bytes_u32(out, version);
    bytes_u64(out, tensors);
    bytes_u64(out, keys);
}
static inline void gguf_key(bytes *out, const char *key, uint32_t type) {
    bytes_text(out, key);
    bytes_u32(out, type);
}
static inline void gguf_key_u32(bytes *out, const char *key, uint32_t value) {
    gguf_key(out, key, DITI_GGUF_U32);
    bytes_u32(out, value);
}
static inline void gguf_tensor(bytes *out, const char *name, uint64_t columns, uint64_t rows, uint32_t type,
                               uint64_t offset) {
    bytes_text(out, name);
    bytes_u32(out, 2);
    bytes_u64(out, columns);
    bytes_u64(out, rows);
    bytes_u32(out, type);
    bytes_u64(out, offset);
}

/* --- zip archives --- */

typedef struct archive {
    bytes file, directory;
    uint32_t count;
} archive;

static inline void bytes_u16(bytes *out, uint32_t value) { bytes_add(out, &value, 2); }

static inline void archive_name(bytes *out, const char *name, uint32_t size, uint32_t method) {
    bytes_u16(out, 0);
    bytes_u16(out, method);
    bytes_add(out, NULL, 8);
    bytes_u32(out, size);
    bytes_u32(out, size);
    bytes_u16(out, (uint32_t)strlen(name));
    bytes_u16(out, 0);
}

static inline void archive_add(archive *a, const char *name, const void *data, size_t size, uint32_t method) {
    uint32_t at = (uint32_t)a->file.size;
    bytes_add(&a->file, "PK\3\4\0\0", 6);
    archive_name(&a->file, name, (uint32_t)size, method);
    bytes_add(&a->file, name, strlen(name));
    bytes_add(&a->file, data, size);
    bytes_add(&a->directory, "PK\1\2\0\0\0\0", 8);
    archive_name(&a->directory, name, (uint32_t)size, method);
    bytes_add(&a->directory, NULL, 10);
    bytes_u32(&a->directory, at);
    bytes_add(&a->directory, name, strlen(name));
    a->count++;
}

static inline bytes archive_end(archive *a) {
    uint32_t at = (uint32_t)a->file.size;
    bytes_add(&a->file, a->directory.data, a->directory.size);
    bytes_add(&a->file, "PK\5\6\0\0\0\0", 8);
    bytes_u16(&a->file, a->count);
    bytes_u16(&a->file, a->count);
    bytes_u32(&a->file, (uint32_t)a->directory.size);
    bytes_u32(&a->file, at);
    bytes_u16(&a->file, 0);
    bytes_free(&a->directory);
    return a->file;
}

/* --- sources --- */

static inline dit_source memory_source(const bytes *file) {
    dit_source source = {0};
    source.data = file->data;
    source.size = file->size;
    return source;
}

/* Gives at most 7 bytes a call, so that short reads are met. */
static inline int64_t bytes_read_at(uint64_t offset, void *out, size_t size, void *user) {
    const bytes *file = user;
    if (size > 7) size = 7;
    memcpy(out, file->data + offset, size);
    return (int64_t)size;
}
static inline dit_source callback_source(bytes *file) {
    dit_source source = {0};
    source.read_at = bytes_read_at;
    source.size = file->size;
    source.user = file;
    return source;
}

typedef struct folder_member {
    const char *name;
    bytes file;
} folder_member;
typedef struct folder {
    folder_member members[8];
    size_t count;
} folder;

static inline dit_result folder_open(const char *member, dit_source *out, void *user) {
    folder *all = user;
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->members[i].name, member) != 0) continue;
        *out = memory_source(&all->members[i].file);
        return DIT_OK;
    }
    return DIT_ERROR_IO;
}
static inline dit_source folder_source(folder *all) {
    dit_source source = {0};
    source.open = folder_open;
    source.user = all;
    return source;
}
static inline void folder_add(folder *all, const char *name, bytes file) {
    all->members[all->count].name = name;
    all->members[all->count++].file = file;
}
static inline void folder_add_text(folder *all, const char *name, const char *text) {
    bytes file = {0};
    bytes_add(&file, text, strlen(text));
    folder_add(all, name, file);
}
static inline void folder_free(folder *all) {
    for (size_t i = 0; i < all->count; i++) bytes_free(&all->members[i].file);
    all->count = 0;
}
#endif
