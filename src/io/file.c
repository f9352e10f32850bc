#include "io/io.h"
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

struct diti_file {
    diti_env env;
    char *name;
    uint64_t size;
    const unsigned char *data; /* NULL: read through the callback */
    bool mapped;
    int64_t (*read_at)(uint64_t offset, void *dst, size_t size, void *user);
    void *user;
};

/* --- mapping a path: the two platforms --- */

#ifdef _WIN32
enum { DITI_WIDE_PATH = 4096 };

static bool diti_wide_path(const char *path, wchar_t *out) {
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, DITI_WIDE_PATH) > 0;
}

static bool diti_path_is_folder(const char *path) {
    wchar_t wide[DITI_WIDE_PATH];
    DWORD attributes = diti_wide_path(path, wide) ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

static dit_result diti_map_handle(diti_file *file, HANDLE handle, dit_error *err) {
    LARGE_INTEGER size;
    HANDLE mapping;
    if (!GetFileSizeEx(handle, &size)) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    file->size = (uint64_t)size.QuadPart;
    if (file->size == 0) return DIT_OK;
    mapping = CreateFileMappingW(handle, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping) return diti_fail(err, DIT_ERROR_IO, "%s: cannot be mapped (error %lu)", file->name, GetLastError());
    file->data = (const unsigned char *)MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    CloseHandle(mapping);
    if (!file->data)
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be mapped (error %lu)", file->name, GetLastError());
    file->mapped = true;
    return DIT_OK;
}

static dit_result diti_map_path(diti_file *file, const char *path, bool *absent, dit_error *err) {
    wchar_t wide[DITI_WIDE_PATH];
    HANDLE handle;
    dit_result result;
    if (!diti_wide_path(path, wide)) return diti_fail(err, DIT_ERROR_IO, "%s: too long, or not UTF-8", file->name);
    handle = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        DWORD error = GetLastError();
        *absent = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
        if (*absent) return diti_fail(err, DIT_ERROR_IO, "%s: no such file", file->name);
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be opened (error %lu)", file->name, error);
    }
    result = diti_map_handle(file, handle, err);
    CloseHandle(handle);
    return result;
}

static void diti_unmap(diti_file *file) { UnmapViewOfFile(file->data); }
#else
static bool diti_path_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static dit_result diti_map_descriptor(diti_file *file, int descriptor, dit_error *err) {
    struct stat status;
    void *data;
    if (fstat(descriptor, &status) != 0) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    if (S_ISDIR(status.st_mode)) return diti_fail(err, DIT_ERROR_IO, "%s: is a folder, not a file", file->name);
    if (!S_ISREG(status.st_mode)) return diti_fail(err, DIT_ERROR_IO, "%s: is not a regular file", file->name);
    file->size = (uint64_t)status.st_size;
    if (file->size == 0) return DIT_OK;
    if (file->size > SIZE_MAX) return diti_fail(err, DIT_ERROR_IO, "%s: too large to map", file->name);
    data = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED && errno == ENOMEM)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory, or of addresses, to map it",
                         file->name);
    if (data == MAP_FAILED) return diti_fail(err, DIT_ERROR_IO, "%s: cannot be mapped (errno %d)", file->name, errno);
    file->data = (const unsigned char *)data;
    file->mapped = true;
    return DIT_OK;
}

static dit_result diti_map_path(diti_file *file, const char *path, bool *absent, dit_error *err) {
    dit_result result;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK); /* a FIFO is refused below, not waited for */
    if (descriptor < 0) {
        *absent = errno == ENOENT || errno == ENOTDIR;
        if (*absent) return diti_fail(err, DIT_ERROR_IO, "%s: no such file", file->name);
        if (errno == EACCES) return diti_fail(err, DIT_ERROR_IO, "%s: permission denied", file->name);
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be opened (errno %d)", file->name, errno);
    }
    result = diti_map_descriptor(file, descriptor, err);
    close(descriptor);
    return result;
}

static void diti_unmap(diti_file *file) { munmap((void *)(size_t)file->data, (size_t)file->size); }
#endif

/* --- opening --- */

DIT_INTERNAL dit_result diti_no_memory(const char *name, dit_error *err) {
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", name);
}

static dit_result diti_file_attach(diti_file *file, const dit_source *source, bool *absent, dit_error *err) {
    if (source->data) {
        file->data = (const unsigned char *)source->data;
        file->size = source->size;
        if (file->size <= SIZE_MAX) return DIT_OK;
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: size is beyond the address space", file->name);
    }
    if (source->read_at) {
        file->read_at = source->read_at;
        file->user = source->user;
        file->size = source->size;
        return DIT_OK;
    }
    if (source->path) return diti_map_path(file, source->path, absent, err);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the source has neither path, data nor read_at", file->name);
}

/* *absent tells a missing file from every other failure. */
static dit_result diti_file_create(const diti_env *env, const dit_source *source, const char *name, bool *absent,
                                   diti_file **out, dit_error *err) {
    diti_file *file = (diti_file *)diti_alloc_zero(env, sizeof *file);
    dit_result result;
    *out = NULL;
    *absent = false;
    if (!name) name = source->path ? source->path : "(memory)";
    if (!file) return diti_no_memory(name, err);
    file->env = *env;
    file->name = diti_copy_string(env, name);
    result = file->name ? diti_file_attach(file, source, absent, err) : diti_no_memory(name, err);
    if (result < 0)
        diti_file_close(file);
    else
        *out = file;
    return result;
}

DIT_INTERNAL dit_result diti_file_open(const diti_env *env, const dit_source *source, const char *name, diti_file **out,
                                       dit_error *err) {
    bool absent;
    return diti_file_create(env, source, name, &absent, out, err);
}

/* A missing file is no failure here: *out stays NULL, and err is left alone. */
static dit_result diti_file_create_if_there(const diti_env *env, const dit_source *source, const char *name,
                                            diti_file **out, dit_error *err) {
    dit_error why = DITI_ZERO;
    bool absent = false;
    dit_result result = diti_file_create(env, source, name, &absent, out, &why);
    if (absent) return DIT_OK;
    if (result < 0 && err) *err = why;
    return result;
}

/* Plain names between single slashes only: nothing that leaves the folder on any system. */
static bool diti_member_is_safe(const char *member) {
    const char *part = member;
    if (!*member) return false;
    for (;;) {
        size_t length = strcspn(part, "/");
        if (length == 0 || strcspn(part, "\\:") < length) return false;
        if ((length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.')) return false;
        if (!part[length]) return true;
        part += length + 1;
    }
}

static dit_result diti_file_open_hooked(const diti_env *env, const dit_source *root, const char *member,
                                        diti_file **out, dit_error *err) {
    dit_source source = DITI_ZERO;
    dit_result result = root->open(member, &source, root->user);
    if (result == DIT_ERROR_IO || (result >= 0 && !source.path && !source.data && !source.read_at)) return DIT_OK;
    if (result < 0) return diti_fail(err, result, "%s: the open hook failed: %s", member, dit_result_string(result));
    return diti_file_create_if_there(env, &source, member, out, err);
}

static dit_result diti_file_open_below(const diti_env *env, const char *folder, const char *member, diti_file **out,
                                       dit_error *err) {
    dit_source source = DITI_ZERO;
    size_t size = strlen(folder) + strlen(member) + 2;
    dit_result result;
    char *path = (char *)diti_alloc(env, size);
    if (!path) return diti_no_memory(member, err);
    diti_format(path, size, *folder && !diti_ends_with(folder, "/") ? "%s/%s" : "%s%s", folder, member);
    source.path = path;
    result = diti_file_create_if_there(env, &source, NULL, out, err);
    diti_free(env, path);
    return result;
}

DIT_INTERNAL dit_result diti_file_open_member(const diti_env *env, const dit_source *root, const char *member,
                                              diti_file **out, dit_error *err) {
    *out = NULL;
    if (!diti_member_is_safe(member)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "'%s': not a name inside the model's folder", member);
    }
    if (root->open) return diti_file_open_hooked(env, root, member, out, err);
    if (root->path) return diti_file_open_below(env, root->path, member, out, err);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the source has no open hook for its other files", member);
}

DIT_INTERNAL void diti_file_close(diti_file *file) {
    diti_env env;
    if (!file) return;
    env = file->env;
    if (file->mapped) diti_unmap(file);
    diti_free(&env, file->name);
    diti_free(&env, file);
}

/* --- reading --- */

DIT_INTERNAL uint64_t diti_file_size(const diti_file *file) { return file->size; }
DIT_INTERNAL const char *diti_file_name(const diti_file *file) { return file->name; }

static bool diti_file_holds(const diti_file *file, uint64_t offset, uint64_t size) {
    return offset <= file->size && size <= file->size - offset;
}

DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err) {
    unsigned char *bytes = (unsigned char *)out;
    size_t done = 0;
    if (!diti_file_holds(file, offset, size)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %llu bytes at %llu are past the end", file->name,
                         (unsigned long long)size, (unsigned long long)offset);
    }
    if (!file->read_at) {
        if (size) memcpy(bytes, file->data + offset, size);
        return DIT_OK;
    }
    while (done < size) {
        int64_t got = file->read_at(offset + done, bytes + done, size - done, file->user);
        if (got <= 0 || (uint64_t)got > size - done) {
            return diti_fail(err, DIT_ERROR_IO, "%s: reading at %llu failed", file->name,
                             (unsigned long long)(offset + done));
        }
        done += (size_t)got;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_file_read_all(const diti_env *env, const diti_file *file, char **out, size_t *size,
                                           dit_error *err) {
    uint64_t bytes = diti_file_size(file);
    char *text = bytes < SIZE_MAX ? (char *)diti_alloc(env, (size_t)bytes + 1) : NULL;
    dit_result result;
    if (!text) return diti_no_memory(diti_file_name(file), err);
    text[bytes] = 0;
    result = diti_file_read(file, 0, text, (size_t)bytes, err);
    if (result < 0) {
        diti_free(env, text);
        return result;
    }
    *out = text;
    *size = (size_t)bytes;
    return DIT_OK;
}

DIT_INTERNAL bool diti_source_is_folder(const dit_source *source) {
    if (source->data || source->read_at) return false;
    if (source->path) return diti_path_is_folder(source->path);
    return source->open != NULL;
}
