/* dit, dit-convert, dit-plan and dit-bench have this in common: exit codes, whether two paths are one file, and files
   that are written beside their place and renamed, so that a path is the old file or the whole new one at any moment.
   Include it after dit.h. Not part of dit.h. */
#ifndef PROGRAMS_H
#define PROGRAMS_H
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <windows.h>
#define access _access
#define getpid _getpid
#define W_OK 2
#ifndef S_IFIFO /* MSVC has its own name for it */
#define S_IFIFO _S_IFIFO
#endif
#else
#include <fcntl.h>
#include <pthread.h>
#include <termios.h>
#include <unistd.h>
#endif

static inline void sleep_a_millisecond(void) {
#ifdef _WIN32
    Sleep(1);
#else
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
#endif
}

/* ---- Exit codes: what the shell sees; each program's --help lists them ---- */

enum {
    EXIT_GOOD = 0,
    EXIT_OTHER = 1,      /* a failure that should not happen */
    EXIT_USAGE = 2,      /* an option or value that cannot be */
    EXIT_INPUT = 3,      /* the model or another input file */
    EXIT_OUTPUT = 4,     /* a file or stream that cannot be written */
    EXIT_DEVICE = 5,     /* no usable Vulkan device, or it failed */
    EXIT_MEMORY = 6,     /* host or device memory ran out */
    EXIT_CANCELLED = 130 /* Ctrl-C; 143 after SIGTERM */
};

#define EXIT_CODES_HELP                                                                                                \
    "Exit codes: 0 good, 2 wrong usage, 3 model or input file, 4 output, 5 device,\n"                                  \
    "6 out of memory, 130 interrupted, 1 anything else.\n"

static int exit_code_of(dit_result result) {
    switch (result) {
    case DIT_ERROR_INVALID_ARGUMENT: return EXIT_USAGE;
    case DIT_ERROR_IO:
    case DIT_ERROR_BAD_FILE:
    case DIT_ERROR_UNSUPPORTED_MODEL: return EXIT_INPUT;
    case DIT_ERROR_OUT_OF_HOST_MEMORY:
    case DIT_ERROR_OUT_OF_DEVICE_MEMORY: return EXIT_MEMORY;
    case DIT_ERROR_UNSUPPORTED_DEVICE:
    case DIT_ERROR_DEVICE_LOST:
    case DIT_ERROR_VULKAN: return EXIT_DEVICE;
    default: return result >= 0 ? EXIT_GOOD : EXIT_OTHER;
    }
}

/* The value in "--name=value"; NULL: argument has none. name: what stands before it. */
static inline const char *attached_value(const char *argument, char *name, size_t size) {
    const size_t length = strncmp(argument, "--", 2) == 0 ? strcspn(argument, "=") : strlen(argument);
    snprintf(name, size, "%.*s", (int)length, argument);
    return argument[length] ? argument + length + 1 : NULL;
}

/* A path that cannot be written is an output's fault, memory that runs out while it is written is not. */
static int exit_code_of_writing(int why) { return why == ENOMEM ? EXIT_MEMORY : EXIT_OUTPUT; }

/* ---- The version: all programs are of one library's ---- */

static inline void version_text(char *out, size_t size) {
    uint32_t v = dit_version();
    snprintf(out, size, "dit.h %u.%u.%u", v / 10000, v / 100 % 100, v % 100);
}

/* Prints it where an argument asks for it. */
static inline bool tells_version(int count, char **texts, FILE *out) {
    char version[64];
    int i;
    for (i = 1; i < count && strcmp(texts[i], "--version") != 0;) i++;
    if (i >= count) return false;
    version_text(version, sizeof version);
    fprintf(out, "%s\n", version);
    return true;
}

/* ---- Threads that dit may compile kernels with: dit_worker.run, as many as there are processors beside the caller's
 * ---- */

typedef struct lent_task {
    void (*task)(void *arg);
    void *arg;
} lent_task;

#ifdef _WIN32
static volatile LONG lent_threads;
static int count_lent(int change) { return (int)InterlockedExchangeAdd(&lent_threads, change) + change; }
static int count_processors(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}
static unsigned __stdcall run_lent(void *memory) {
#else
static int lent_threads;
static int count_lent(int change) { return __atomic_add_fetch(&lent_threads, change, __ATOMIC_ACQ_REL); }
static int count_processors(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
static void *run_lent(void *memory) {
#endif
    lent_task lent = *(lent_task *)memory;
    free(memory);
    lent.task(lent.arg);
    count_lent(-1);
    return 0;
}

static bool start_thread(lent_task *lent) {
#ifdef _WIN32
    uintptr_t thread = _beginthreadex(NULL, 0, run_lent, lent, 0, NULL);
    return thread && CloseHandle((HANDLE)thread);
#else
    pthread_t thread;
    return pthread_create(&thread, NULL, run_lent, lent) == 0 && pthread_detach(thread) == 0;
#endif
}

static inline bool lend_thread(void (*task)(void *arg), void *arg, void *user) {
    lent_task *lent = (lent_task *)malloc(sizeof *lent);
    bool lends = count_lent(1) < count_processors() && lent;
    (void)user;
    if (lends) {
        lent->task = task;
        lent->arg = arg;
        lends = start_thread(lent);
    }
    if (lends) return true;
    count_lent(-1);
    free(lent);
    return false;
}

/* ---- Paths ---- */

#define PATH_SIZE 4096

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == S_IFDIR;
}

static bool is_separator(char c) {
#ifdef _WIN32
    return c == '/' || c == '\\';
#else
    return c == '/'; /* elsewhere a backslash is a letter like others */
#endif
}

static const char *base_name(const char *path) {
    const char *name = path, *p;
    for (p = path; *p; p++) {
        if (is_separator(*p) && p[1]) name = p + 1;
    }
    return name;
}

/* The folder part of path, "." when it has none. */
static bool folder_of(const char *path, char *out, size_t size) {
    size_t length = (size_t)(base_name(path) - path);
    if (length == 0) return snprintf(out, size, ".") < (int)size;
    if (length >= size) return false;
    memcpy(out, path, length);
    out[length] = 0;
    return true;
}

/* Where symbolic links lead, also when there is no file yet; false with errno when that cannot be told. */
static bool resolve_links(const char *path, char *out, size_t size) {
#ifndef _WIN32
    char link[PATH_SIZE], folder[PATH_SIZE];
    ssize_t length;
    int hops;
#endif
    if (snprintf(out, size, "%s", path) >= (int)size) return errno = ENAMETOOLONG, false;
#ifndef _WIN32
    for (hops = 0; hops < 40 && (length = readlink(out, link, sizeof link - 1)) >= 0; hops++) {
        int n;
        link[length] = 0;
        if (link[0] == '/')
            n = snprintf(out, size, "%s", link);
        else if (folder_of(out, folder, sizeof folder))
            n = snprintf(out, size, "%s/%s", folder, link);
        else
            n = (int)size;
        if (n >= (int)size) return errno = ENAMETOOLONG, false;
    }
    if (hops == 40) return errno = ELOOP, false;
#endif
    return true;
}

/* ---- Whether two paths are one file ---- */

typedef struct file_id {
    uint64_t device, file; /* numbers of the file, or of the folder in which it would be made */
    char name[260];        /* the name of a file that does not exist yet; else empty */
} file_id;

/* The numbers by which the system knows an existing file or folder. */
static bool read_file_id(const char *path, file_id *out) {
#ifdef _WIN32
    BY_HANDLE_FILE_INFORMATION info;
    HANDLE handle = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS, NULL);
    bool good = handle != INVALID_HANDLE_VALUE && GetFileInformationByHandle(handle, &info);
    if (handle != INVALID_HANDLE_VALUE) CloseHandle(handle);
    if (!good) return false;
    out->device = info.dwVolumeSerialNumber;
    out->file = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
#else
    struct stat info;
    if (stat(path, &info) != 0) return false;
    out->device = (uint64_t)info.st_dev;
    out->file = (uint64_t)info.st_ino;
#endif
    out->name[0] = 0;
    return true;
}

/* Identifies a file, or the place where it would be made. False for devices and pipes, which may serve twice, and for
   nonsense. */
static bool identify(const char *path, file_id *out) {
    char target[PATH_SIZE], folder[PATH_SIZE];
    struct stat info;
    if (stat(path, &info) == 0) return (info.st_mode & S_IFMT) == S_IFREG && read_file_id(path, out);
    if (!resolve_links(path, target, sizeof target) || !folder_of(target, folder, sizeof folder) ||
        !read_file_id(folder, out))
        return false;
    return snprintf(out->name, sizeof out->name, "%s", base_name(target)) < (int)sizeof out->name;
}

static bool same_name(const char *a, const char *b) {
#if defined(_WIN32) || defined(__APPLE__) /* file systems fold case there */
    for (; *a && ((unsigned char)*a | 32) == ((unsigned char)*b | 32); a++, b++) {
    }
    return *a == *b;
#else
    return strcmp(a, b) == 0;
#endif
}

static bool same_file(const file_id *a, const file_id *b) {
    return a->device == b->device && a->file == b->file && same_name(a->name, b->name);
}

static bool is_below(const char *path, const file_id *folder) {
    char target[PATH_SIZE], above[PATH_SIZE];
    file_id at, before = {0, 0, ""};
    if (!resolve_links(path, target, sizeof target) || !folder_of(target, above, sizeof above)) return false;
    while (read_file_id(above, &at) && !same_file(&at, &before)) {
        size_t length = strlen(above);
        if (same_file(&at, folder)) return true;
        if (length + 4 > sizeof above) break;
        memcpy(above + length, "/..", 4);
        before = at;
    }
    return false;
}

/* Whether a path ends as the files of a model's folder do. */
static bool is_model_file(const char *path) {
    static const char *const endings[] = {".safetensors", ".gguf", ".bin", ".pt",   ".pth",
                                          ".ckpt",        ".json", ".txt", ".model"};
    const char *dot = strrchr(base_name(path), '.');
    size_t i;
    for (i = 0; dot && i < sizeof endings / sizeof endings[0]; i++) {
        if (strcmp(dot, endings[i]) == 0) return true;
    }
    return false;
}

typedef struct named_path {
    const char *option, *path; /* path NULL: not given */
} named_path;

/* Whether writing the outputs would destroy one of them or an input; a sentence in out says which. */
static bool find_overwritten(const named_path *outputs, size_t output_count, const named_path *inputs,
                             size_t input_count, char *out, size_t size) {
    file_id *ids = (file_id *)calloc(output_count + 1, sizeof *ids), input;
    size_t i, k;
    bool found = false;
    for (i = 0; ids && i < output_count && !found; i++) {
        if (!outputs[i].path || !identify(outputs[i].path, &ids[i])) continue;
        for (k = 0; k < i && !found; k++) {
            if (!(ids[k].device | ids[k].file) || !same_file(&ids[i], &ids[k])) continue;
            found = true;
            snprintf(out, size, "%s and %s are the same file, %s; name another one", outputs[k].option,
                     outputs[i].option, outputs[i].path);
        }
        for (k = 0; k < input_count && !found; k++) {
            if (!inputs[k].path || ids[i].name[0] || !read_file_id(inputs[k].path, &input)) continue;
            if (is_folder(inputs[k].path))
                found = is_model_file(outputs[i].path) && is_below(outputs[i].path, &input);
            else
                found = same_file(&ids[i], &input);
            if (found)
                snprintf(out, size, "%s %s: it is %s %s, which would be lost; name another file", outputs[i].option,
                         outputs[i].path, is_folder(inputs[k].path) ? "a file of" : "the same file as",
                         inputs[k].option);
        }
    }
    free(ids);
    return found;
}

/* ---- Why the system refuses, and what to do about it ---- */

static const char *told_reason(int number) {
    switch (number) {
    case ENOENT: return "No such file or directory; check the path";
    case ENOTDIR: return "Not a directory: a part of the path is a file; check the path";
    case EISDIR: return "Is a directory; name a file in it";
    case EACCES: return "Permission denied; choose a place that is yours, or change its permissions";
    case ENOSPC: return "No space left on device; make room, or choose another place";
    case EFBIG: return "File too large for this file system, or for the limit of this shell (ulimit -f); raise that";
    case EROFS: return "Read-only file system; choose another place";
    case EMFILE: return "Too many open files; raise the limit (ulimit -n)";
    case ENAMETOOLONG: return "File name too long; choose a shorter one";
    case ENOMEM: return "Cannot allocate memory; close other programs";
    default: return strerror(number);
    }
}

/* ---- Files that are written ---- */

typedef struct output_file {
    FILE *file;
    char target[PATH_SIZE], part[PATH_SIZE]; /* part is written, then renamed; empty for devices and pipes */
    bool stays;                              /* the part, where it does not become the target */
} output_file;

/* Files that a signal must remove. */
static output_file *volatile half_written[4];

#ifndef _WIN32
/* How the terminal read before this program changed that, for whoever uses it next. */
static struct termios terminal_before;
static volatile sig_atomic_t terminal_changed;
#endif

/* Ctrl-C and SIGTERM: nothing half-written stays. Calls only what a signal handler may. */
static void end_by_signal(int number) {
    size_t i;
    for (i = 0; i < sizeof half_written / sizeof half_written[0]; i++) {
#ifdef _WIN32
        if (half_written[i]) DeleteFileA(half_written[i]->part);
#else
        if (half_written[i]) unlink(half_written[i]->part);
#endif
    }
#ifndef _WIN32
    if (terminal_changed) tcsetattr(0, TCSANOW, &terminal_before);
#endif
    _exit(128 + number);
}

static void end_cleanly_by_signals(void) {
    if (signal(SIGINT, end_by_signal) == SIG_IGN) signal(SIGINT, SIG_IGN);
    if (signal(SIGTERM, end_by_signal) == SIG_IGN) signal(SIGTERM, SIG_IGN);
#ifdef SIGHUP
    if (signal(SIGHUP, end_by_signal) == SIG_IGN) signal(SIGHUP, SIG_IGN);
#endif
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* writes fail with EFBIG */
#endif
}

static void remember_part(const output_file *before, output_file *after) {
    size_t i;
    for (i = 0; i < sizeof half_written / sizeof half_written[0]; i++) {
        if (half_written[i] != before) continue;
        half_written[i] = after;
        break;
    }
}

/* A pipe is opened only where somebody reads it, because opening waits for that else. */
static FILE *open_stream(const char *path) {
#ifdef _WIN32
    return fopen(path, "wb");
#else
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    FILE *file;
    if (fd < 0) return NULL;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    file = fdopen(fd, "wb");
    if (!file) close(fd);
    return file;
#endif
}

/* On Windows such that it can be deleted while it is open, by end_by_signal. */
static FILE *open_part(const char *path) {
#ifdef _WIN32
    HANDLE handle = CreateFileA(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_ALWAYS,
                                FILE_ATTRIBUTE_NORMAL, NULL);
    int fd = handle == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle((intptr_t)handle, _O_BINARY);
    if (fd < 0) errno = GetLastError() == ERROR_DISK_FULL ? ENOSPC : EACCES;
    return fd < 0 ? NULL : _fdopen(fd, "wb");
#else
    return fopen(path, "wb");
#endif
}

/* FOLDER/NAME.PID.part with at most 64 bytes of the name, so that it is never too long; whole characters of UTF-8. */
static bool name_part(const char *target, char *out, size_t size) {
    const char *name = base_name(target);
    size_t length = strlen(name);
    if (length > 64) {
        for (length = 64; ((unsigned char)name[length] & 0xc0) == 0x80; length--) {
        }
    }
    if (snprintf(out, size, "%.*s%.*s.%ld.part", (int)(name - target), target, (int)length, name, (long)getpid()) <
        (int)size)
        return true;
    return errno = ENAMETOOLONG, false;
}

/* Begins a file that replaces path when it is whole; a symbolic link stays one. Devices and pipes are written directly.
   False with errno. out stays where it is until output_close. */
static bool output_open(output_file *out, const char *path) {
    struct stat info;
    out->part[0] = 0;
    out->file = NULL;
    out->stays = false;
    if (stat(path, &info) == 0 && (info.st_mode & S_IFMT) != S_IFREG) return (out->file = open_stream(path)) != NULL;
    if (!resolve_links(path, out->target, sizeof out->target) || !name_part(out->target, out->part, sizeof out->part))
        return false;
    remember_part(NULL, out);
    out->file = open_part(out->part);
    if (!out->file) remember_part(out, NULL);
    return out->file != NULL;
}

/* Ends a file: renames it when good and everything arrived, else removes it. False with errno. */
static bool output_close(output_file *out, bool good) {
    int why = errno; /* of what failed last */
    if (ferror(out->file)) good = false;
    if (good) why = 0;
    if (fclose(out->file) != 0 && good) good = false, why = errno;
    if (good && out->part[0]) {
#ifdef _WIN32
        good = MoveFileExA(out->part, out->target, MOVEFILE_REPLACE_EXISTING) != 0;
        if (!good) errno = EACCES;
#else
        good = rename(out->part, out->target) == 0;
#endif
        why = errno;
    }
    if (!good && out->part[0] && !out->stays) remove(out->part);
    if (out->part[0]) remember_part(out, NULL);
    out->file = NULL;
    errno = why ? why : EIO;
    return good;
}

/* Why path cannot be written, NULL when it can: asked before any work is done. */
static const char *why_not_writable(const char *path) {
    static char why[128];
    char folder[PATH_SIZE];
    output_file trial;
    struct stat info;
    bool exists = stat(path, &info) == 0;
    unsigned kind = exists ? (unsigned)info.st_mode & S_IFMT : S_IFREG;
    if (!*path) return "the file name is empty";
    if (!exists && errno == ENAMETOOLONG) return "the name is too long";
    if (kind == S_IFDIR) return "this is a folder; give a file name";
    /* Streams of this process are below /dev and /proc; opening any other pipe would wait for a reader. */
    if (kind == S_IFIFO && strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0)
        return "this is a named pipe; give a file name, or /dev/stdout and redirect that";
    if (kind != S_IFREG && kind != S_IFCHR && kind != S_IFIFO) return "this is neither a file nor a stream";
    if (exists && access(path, W_OK) != 0) return "the file exists and is not writable";
    if (kind != S_IFREG) return NULL;
    if (!resolve_links(path, trial.target, sizeof trial.target)) return told_reason(errno);
    if (!folder_of(trial.target, folder, sizeof folder)) return "the path is too long";
    if (!is_folder(folder)) return "its folder does not exist; create it first";
    if (access(folder, W_OK) != 0) return "its folder is not writable";
    if (output_open(&trial, path)) return output_close(&trial, false), NULL;
    snprintf(why, sizeof why, "a file cannot be made there: %s", told_reason(errno));
    return why;
}

/* ---- Standard output ---- */

/* Why standard output has not got all that was printed; NULL when it has. */
static const char *why_not_printed(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return NULL;
    return errno ? told_reason(errno) : "not all of it arrived; make room, or send it elsewhere";
}

/* The exit code of a program whose work ended with code: what was printed must have arrived, too. */
static inline int end_printing(const char *program, int code) {
    const char *why = why_not_printed();
    if (!why || code) return code;
    fprintf(stderr, "%s: cannot write to standard output: %s\n", program, why);
    return EXIT_OUTPUT;
}

/* ---- Files that are read ---- */

/* Why path cannot be read as a whole file, NULL when it can. Opening a pipe would wait for ever where nobody writes. */
static const char *why_not_readable(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return told_reason(errno);
    if ((info.st_mode & S_IFMT) == S_IFDIR) return "this is a folder, not a file";
    if ((info.st_mode & S_IFMT) != S_IFREG) return "this is a pipe or a device; save what it gives to a file first";
    return NULL;
}
#endif
