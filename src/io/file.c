/* Files as bytes at an offset: mapped, read by a callback of the application, or in its memory. */
#include "base/windows.h"
#include "io/io.h"
#ifndef _WIN32
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

/* Files are read, not mapped: a mapped file that another program cuts off ends the process, a read one is an error. */
struct diti_file {
    diti_env env;
    char *name;
    uint64_t size;
    const unsigned char *data; /* bytes in memory; NULL: read through the callback or from the open file */
    int64_t (*read_at)(uint64_t offset, void *dst, size_t size, void *user);
    void *user;
#ifdef _WIN32
    HANDLE handle;
#else
    int descriptor;
#endif
    bool opened; /* the handle or descriptor is open */
};

#define DITI_FILE_PIECE ((size_t)1 << 30) /* at a time: what every system takes */

/* --- opening and reading a path: the two platforms --- */

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

static bool diti_file_measure(const diti_file *file, uint64_t *out) {
    LARGE_INTEGER size;
    if (!GetFileSizeEx(file->handle, &size)) return false;
    *out = (uint64_t)size.QuadPart;
    return true;
}

static dit_result diti_open_path(diti_file *file, const char *path, bool *absent, dit_error *err) {
    wchar_t wide[DITI_WIDE_PATH];
    if (!diti_wide_path(path, wide)) return diti_fail(err, DIT_ERROR_IO, "%s: too long, or not UTF-8", file->name);
    file->handle = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                               FILE_ATTRIBUTE_NORMAL, NULL);
    if (file->handle == INVALID_HANDLE_VALUE) {
        DWORD error = GetLastError();
        *absent = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
        if (*absent) return diti_fail(err, DIT_ERROR_IO, "%s: no such file", file->name);
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be opened (error %lu)", file->name, error);
    }
    file->opened = true;
    if (GetFileType(file->handle) != FILE_TYPE_DISK)
        return diti_fail(err, DIT_ERROR_IO, "%s: is not a regular file", file->name);
    if (!diti_file_measure(file, &file->size)) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    return DIT_OK;
}

static void diti_close_path(const diti_file *file) { CloseHandle(file->handle); }

/* Returns the number of bytes that were read, 0 at the end of the file, -1 with the system's number in *error. */
static int64_t diti_read_path(const diti_file *file, uint64_t offset, void *out, size_t size, long *error) {
    OVERLAPPED at = DITI_ZERO;
    DWORD got = 0;
    at.Offset = (DWORD)(offset & 0xffffffffu);
    at.OffsetHigh = (DWORD)(offset >> 32);
    if (ReadFile(file->handle, out, (DWORD)size, &got, &at)) return (int64_t)got;
    *error = (long)GetLastError();
    return *error == ERROR_HANDLE_EOF ? 0 : -1;
}
#else
/* glibc hides pread from strict C. */
#if defined(__GLIBC__) && defined(__STRICT_ANSI__) && !defined(__cplusplus)
#ifdef __USE_FILE_OFFSET64
#define DITI_PREAD pread64
#else
#define DITI_PREAD pread
#endif
extern ssize_t DITI_PREAD(int descriptor, void *out, size_t size, off_t offset);
#else
#define DITI_PREAD pread
#endif

static bool diti_path_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool diti_file_measure(const diti_file *file, uint64_t *out) {
    struct stat status;
    if (fstat(file->descriptor, &status) != 0 || status.st_size < 0) return false;
    *out = (uint64_t)status.st_size;
    return true;
}

/* glibc judges the arguments of open where gcc checks its library's calls (_FORTIFY_SOURCE, as Ubuntu does by default).
 */
DITI_OPTIMIZED
static dit_result diti_open_path(diti_file *file, const char *path, bool *absent, dit_error *err) {
    struct stat status;
    int flags = O_RDONLY | O_NONBLOCK; /* a FIFO is refused below, not waited for */
#ifdef O_CLOEXEC
    flags |= O_CLOEXEC;
#endif
    file->descriptor = open(path, flags);
    if (file->descriptor < 0) {
        *absent = errno == ENOENT || errno == ENOTDIR;
        if (*absent) return diti_fail(err, DIT_ERROR_IO, "%s: no such file", file->name);
        if (errno == EACCES) return diti_fail(err, DIT_ERROR_IO, "%s: permission denied", file->name);
        if (errno == EOVERFLOW)
            return diti_fail(err, DIT_ERROR_IO,
                             "%s: is too large for this program; compile it with -D_FILE_OFFSET_BITS=64", file->name);
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be opened (errno %d)", file->name, errno);
    }
    file->opened = true;
#ifndef O_CLOEXEC
    fcntl(file->descriptor, F_SETFD, FD_CLOEXEC);
#endif
    if (fstat(file->descriptor, &status) != 0) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    if (S_ISDIR(status.st_mode)) return diti_fail(err, DIT_ERROR_IO, "%s: is a folder, not a file", file->name);
    if (!S_ISREG(status.st_mode)) return diti_fail(err, DIT_ERROR_IO, "%s: is not a regular file", file->name);
    if (!diti_file_measure(file, &file->size)) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    return DIT_OK;
}

static void diti_close_path(const diti_file *file) { close(file->descriptor); }

/* Returns the number of bytes that were read, 0 at the end of the file, -1 with the system's number in *error. */
static int64_t diti_read_path(const diti_file *file, uint64_t offset, void *out, size_t size, long *error) {
    unsigned char some[4096];
    ssize_t got;
    do got = DITI_PREAD(file->descriptor, out, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EFAULT) { /* some file systems cannot read into memory that a driver has mapped */
        do got = DITI_PREAD(file->descriptor, some, size < sizeof some ? size : sizeof some, (off_t)offset);
        while (got < 0 && errno == EINTR);
        if (got > 0) memcpy(out, some, (size_t)got);
    }
    *error = got < 0 ? errno : 0;
    return (int64_t)got;
}
#endif

/* --- opening --- */

DIT_INTERNAL dit_result diti_no_memory(const char *name, dit_error *err) { return diti_fail_memory(err, "%s", name); }

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
    if (source->path) return diti_open_path(file, source->path, absent, err);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the source has neither path, data nor read_at", file->name);
}

/* *absent tells a missing file from every other failure. */
static dit_result diti_file_create(const diti_env *env, const dit_source *source, const char *name, bool *absent,
                                   diti_file **out, dit_error *err) {
    diti_file *file = (diti_file *)diti_alloc_zero(env, sizeof *file);
    dit_result result;
    *out = NULL;
    *absent = false;
    if (!name) name = !source->path ? "(memory)" : *source->path ? source->path : "(empty path)";
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
    if (file->opened) diti_close_path(file);
    diti_free(&env, file->name);
    diti_free(&env, file);
}

/* --- reading --- */

DIT_INTERNAL uint64_t diti_file_size(const diti_file *file) { return file->size; }
DIT_INTERNAL const char *diti_file_name(const diti_file *file) { return file->name; }

static bool diti_file_holds(const diti_file *file, uint64_t offset, uint64_t size) {
    return offset <= file->size && size <= file->size - offset;
}

/* A file that another program made shorter is damaged from then on, even where what is wanted is still there. */
static dit_result diti_file_check_size(const diti_file *file, dit_error *err) {
    uint64_t now;
    if (!diti_file_measure(file, &now)) return diti_fail(err, DIT_ERROR_IO, "%s: has no size any more", file->name);
    if (now >= file->size) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "%s: was cut off from %llu to %llu bytes while it was in use; restore the file, then load the "
                     "model again",
                     file->name, (unsigned long long)file->size, (unsigned long long)now);
}

/* Some of the bytes, at least one; the callback's or the system's failure. */
static dit_result diti_file_read_some(const diti_file *file, uint64_t offset, void *out, size_t size, size_t *got,
                                      dit_error *err) {
    int64_t count;
    long error = 0;
    if (file->opened) {
        if (size > DITI_FILE_PIECE) size = DITI_FILE_PIECE;
        count = diti_read_path(file, offset, out, size, &error);
    } else {
        count = file->read_at(offset, out, size, file->user);
    }
    *got = (size_t)count;
    if (count > 0 && (uint64_t)count <= size) return DIT_OK;
    if (count == 0 && file->opened) { /* the end came early */
        DITI_TRY(diti_file_check_size(file, err));
    }
    if (error)
        return diti_fail(err, DIT_ERROR_IO, "%s: reading at %llu failed (error %ld)", file->name,
                         (unsigned long long)offset, error);
    return diti_fail(err, DIT_ERROR_IO, "%s: reading at %llu failed", file->name, (unsigned long long)offset);
}

DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err) {
    unsigned char *bytes = (unsigned char *)out;
    size_t done = 0, got;
    dit_result result = DIT_OK;
    if (!diti_file_holds(file, offset, size)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %llu bytes at %llu are past the end", file->name,
                         (unsigned long long)size, (unsigned long long)offset);
    }
    if (file->data) {
        if (size) memcpy(bytes, file->data + offset, size);
        return DIT_OK;
    }
    if (file->opened) result = diti_file_check_size(file, err);
    for (; done < size && result >= 0; done += got)
        result = diti_file_read_some(file, offset + done, bytes + done, size - done, &got, err);
    return result;
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
