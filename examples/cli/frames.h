/* Clips that are read, frame by frame: raw Y4M, also from the standard input, and folders of PNGs or JPEGs in the order
   of their numbers. Limits are checked before memory is asked for, and no more than a frame is held. Include it after
   pictures.h. Not part of dit.h. */
#ifndef FRAMES_H
#define FRAMES_H
#include "pictures.h"
#include <ctype.h>
#include <stdarg.h>
#ifndef _WIN32
#include <dirent.h>
#endif

enum { FRAMES_MOST = 99999, FRAMES_HEADER = 1024 };

/* A clip that is being read: frames_open, then frames_next until it gives no more, then frames_close. */
typedef struct frame_reader {
    uint32_t width, height; /* pixels; of a folder known with its first frame */
    uint32_t rate, scale;   /* rate / scale frames a second; 0, 0: the clip does not say */
    uint32_t read;          /* frames that were given */
    uint64_t sum;           /* a sum of all pixels so far */
    FILE *file;             /* Y4M, or NULL */
    bool full_range;
    uint32_t across, down; /* pixels that share a sample of chroma; 0, 0: there is none */
    uint32_t alpha;        /* 1: a plane of alpha follows, which is left out */
    unsigned char *planes;
    char **names, folder[PATH_SIZE]; /* of a folder, in order */
    uint32_t count;
    char why[PATH_SIZE + 300]; /* what is wrong, as a sentence without the path */
} frame_reader;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static const char *
frames_fail(frame_reader *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->why, sizeof f->why, format, arguments);
    va_end(arguments);
    return f->why;
}

/* ---- Y4M: a line with words, then for each frame a line that begins with FRAME, and planes ---- */

/* A line up to 1023 bytes without its end; *ended: there is none, since the file ends. */
static bool frames_line(FILE *file, char *out, bool *ended) {
    size_t n = 0;
    int c;
    *ended = false;
    while ((c = getc(file)) != EOF && c != '\n') {
        if (n + 1 == FRAMES_HEADER || !c) return false;
        out[n++] = (char)c;
    }
    out[n] = 0;
    *ended = c == EOF && n == 0;
    return c != EOF;
}

/* Letters of a file are for no terminal. */
static const char *frames_plain(char *word) {
    char *p;
    for (p = word; *p; p++)
        if (*p < ' ' || *p > '~') *p = '?';
    return word;
}

/* Y4M does not say by which matrix colours were made; that of most cameras, BT.709, would shift them. */
#define FRAMES_MATRIX "-vf scale=out_color_matrix=bt601"

/* How chroma is sampled, by the word behind C. */
static const struct {
    const char *name;
    uint32_t across, down, alpha;
} frames_samplings[] = {{"420jpeg", 2, 2, 0}, {"420mpeg2", 2, 2, 0}, {"420paldv", 2, 2, 0},
                        {"420", 2, 2, 0},     {"422", 2, 1, 0},      {"411", 4, 1, 0},
                        {"444", 1, 1, 0},     {"444alpha", 1, 1, 1}, {"mono", 0, 0, 0}};

static const char *frames_take_sampling(frame_reader *f, char *word) {
    size_t i;
    for (i = 0; i < sizeof frames_samplings / sizeof frames_samplings[0]; i++) {
        if (strcmp(frames_samplings[i].name, word) != 0) continue;
        f->across = frames_samplings[i].across;
        f->down = frames_samplings[i].down;
        f->alpha = frames_samplings[i].alpha;
        return NULL;
    }
    return frames_fail(
        f, "its colours are %.40s; 8 bits are read, as `ffmpeg -i CLIP " FRAMES_MATRIX " -pix_fmt yuv444p` writes them",
        frames_plain(word));
}

/* "24:1"; both 0 where it is unknown. */
static bool frames_take_rate(frame_reader *f, const char *word) {
    unsigned long rate, scale;
    char *end;
    rate = strtoul(word, &end, 10);
    if (*word < '0' || *word > '9' || *end != ':' || end[1] < '0' || end[1] > '9') return false;
    scale = strtoul(end + 1, &end, 10);
    if (*end || rate > 1000000000 || scale > 1000000000) return false;
    f->rate = rate && scale ? (uint32_t)rate : 0;
    f->scale = rate && scale ? (uint32_t)scale : 0;
    return true;
}

static bool frames_take_side(const char *word, uint32_t *out) {
    unsigned long side;
    char *end;
    if (*word < '0' || *word > '9') return false;
    side = strtoul(word, &end, 10);
    *out = side > PICTURE_SIDE ? PICTURE_SIDE + 1 : (uint32_t)side;
    return !*end && side > 0;
}

static const char *frames_take_word(frame_reader *f, char *word) {
    bool good = true;
    switch (*word) {
    case 'W': good = frames_take_side(word + 1, &f->width); break;
    case 'H': good = frames_take_side(word + 1, &f->height); break;
    case 'F': good = frames_take_rate(f, word + 1); break;
    case 'C': return frames_take_sampling(f, word + 1);
    case 'I':
        if (strchr("tbm", word[1]) && word[1])
            return frames_fail(f, "its frames are interlaced; make them whole, as `ffmpeg -i CLIP -vf yadif` does");
        break;
    case 'X': f->full_range = f->full_range || strcmp(word, "XCOLORRANGE=FULL") == 0; break;
    default: break; /* the shape of pixels, and what later versions add */
    }
    return good ? NULL : frames_fail(f, "the Y4M file is damaged (%.60s in its first line)", frames_plain(word));
}

static size_t frames_chroma(const frame_reader *f) {
    if (!f->across) return 0;
    return (size_t)((f->width + f->across - 1) / f->across) * ((f->height + f->down - 1) / f->down);
}

static size_t frames_bytes(const frame_reader *f) {
    return (size_t)f->width * f->height * (1 + f->alpha) + 2 * frames_chroma(f);
}

static const char *frames_open_y4m(frame_reader *f) {
    char line[FRAMES_HEADER], *word, *next;
    const char *why = NULL;
    bool ended;
    f->across = f->down = 2;
    if (!frames_line(f->file, line, &ended) || strncmp(line, "YUV4MPEG2", 9) != 0 || (line[9] && line[9] != ' '))
        return frames_fail(f, "this is no Y4M file; `ffmpeg -i CLIP " FRAMES_MATRIX " clip.y4m` makes one of any clip");
    for (word = line + 9; *word && !why; word = next) {
        word += *word == ' ';
        next = word + strcspn(word, " ");
        if (*next) *next++ = 0;
        if (*word) why = frames_take_word(f, word);
    }
    if (why) return why;
    if (!f->width || !f->height) return frames_fail(f, "the Y4M file is damaged (its first line states no size)");
    if (f->width > PICTURE_SIDE || f->height > PICTURE_SIDE || (uint64_t)f->width * f->height > PICTURE_PIXELS)
        return frames_fail(f, "its frames are larger than %d pixels a side or %u in all; scale it down", PICTURE_SIDE,
                           (unsigned)PICTURE_PIXELS);
    f->planes = (unsigned char *)malloc(frames_bytes(f));
    return f->planes ? NULL : no_picture_memory;
}

static uint8_t frames_byte(double value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value + 0.5); }

/* The inverse of ITU-R BT.601, whose luma has 16..235 and chroma 16..240, or all of 0..255. */
static void frames_to_rgba(const frame_reader *f, uint8_t *rgba) {
    const size_t pixels = (size_t)f->width * f->height, chroma = frames_chroma(f);
    const uint32_t columns = f->across ? (f->width + f->across - 1) / f->across : 0;
    const unsigned char *u = f->planes + pixels, *v = u + chroma;
    const double luma = f->full_range ? 1 : 255.0 / 219, black = f->full_range ? 0 : 16;
    const double colour = f->full_range ? 1 : 255.0 / 224;
    uint32_t x, y;
    for (y = 0; y < f->height; y++) {
        for (x = 0; x < f->width; x++, rgba += 4) {
            const double l = luma * (f->planes[(size_t)y * f->width + x] - black);
            const size_t at = f->across ? (size_t)(y / f->down) * columns + x / f->across : 0;
            const double cb = f->across ? colour * (u[at] - 128.0) : 0, cr = f->across ? colour * (v[at] - 128.0) : 0;
            rgba[0] = frames_byte(l + 1.402 * cr);
            rgba[1] = frames_byte(l - 0.344136 * cb - 0.714136 * cr);
            rgba[2] = frames_byte(l + 1.772 * cb);
            rgba[3] = 255;
        }
    }
}

static const char *frames_next_y4m(frame_reader *f, picture *out) {
    char line[FRAMES_HEADER];
    bool ended;
    if (!frames_line(f->file, line, &ended)) {
        if (ended && !ferror(f->file)) return NULL;
        return frames_fail(f, "the Y4M file is damaged or cut off behind frame %u", f->read);
    }
    if (strncmp(line, "FRAME", 5) != 0 || (line[5] && line[5] != ' '))
        return frames_fail(f, "the Y4M file is damaged behind frame %u, where no frame begins", f->read);
    if (fread(f->planes, 1, frames_bytes(f), f->file) != frames_bytes(f))
        return frames_fail(f, "the Y4M file ends within frame %u", f->read + 1);
    out->rgba = (uint8_t *)malloc((size_t)f->width * f->height * 4);
    if (!out->rgba) return no_picture_memory;
    out->width = f->width;
    out->height = f->height;
    frames_to_rgba(f, out->rgba);
    return NULL;
}

/* ---- Folders ---- */

/* Numbers in names count as numbers: 2.png comes before 10.png. */
static int frames_by_number(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    while (*x && *y) {
        if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
            size_t n, m;
            int order;
            while (*x == '0' && isdigit((unsigned char)x[1])) x++;
            while (*y == '0' && isdigit((unsigned char)y[1])) y++;
            n = strspn(x, "0123456789"), m = strspn(y, "0123456789");
            order = n != m ? (n < m ? -1 : 1) : strncmp(x, y, n);
            if (order) return order;
            x += n, y += m;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++, y++;
        }
    }
    if (*x != *y) return *x ? 1 : -1;
    return strcmp(*(const char *const *)a, *(const char *const *)b); /* 1.png and 01.png */
}

static bool frames_is_picture(const char *name) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg"};
    const char *dot = strrchr(name, '.'), *p, *q;
    size_t i;
    for (i = 0; dot && *name != '.' && i < sizeof endings / sizeof endings[0]; i++) {
        for (p = dot, q = endings[i]; *p && tolower((unsigned char)*p) == *q; p++) q++;
        if (!*p && !*q) return true;
    }
    return false;
}

static const char *frames_add_name(frame_reader *f, const char *name) {
    char **more;
    if (!frames_is_picture(name)) return NULL;
    if (f->count == FRAMES_MOST) return frames_fail(f, "more than %d pictures are in this folder", FRAMES_MOST);
    if (f->count % 64 == 0) {
        more = (char **)realloc(f->names, (f->count + 64) * sizeof *more);
        if (!more) return no_picture_memory;
        f->names = more;
    }
    f->names[f->count] = (char *)malloc(strlen(name) + 1);
    if (!f->names[f->count]) return no_picture_memory;
    memcpy(f->names[f->count++], name, strlen(name) + 1);
    return NULL;
}

static const char *frames_open_folder(frame_reader *f, const char *path) {
    const char *why = NULL;
#ifdef _WIN32
    WIN32_FIND_DATAA entry;
    HANDLE list;
#else
    struct dirent *entry;
    DIR *list;
#endif
    if (snprintf(f->folder, sizeof f->folder - 4, "%s", path) >= (int)sizeof f->folder - 4)
        return frames_fail(f, "the path is too long");
#ifdef _WIN32
    strcat(f->folder, "\\*");
    list = FindFirstFileA(f->folder, &entry);
    f->folder[strlen(path)] = 0;
    if (list != INVALID_HANDLE_VALUE) {
        do why = frames_add_name(f, entry.cFileName);
        while (!why && FindNextFileA(list, &entry));
        FindClose(list);
    }
#else
    list = opendir(path);
    if (!list) return frames_fail(f, "%s", told_reason(errno));
    while (!why && (entry = readdir(list)) != NULL) why = frames_add_name(f, entry->d_name);
    closedir(list);
#endif
    if (why) return why;
    if (!f->count) return frames_fail(f, "no PNG or JPEG is in this folder");
    qsort(f->names, f->count, sizeof *f->names, frames_by_number);
    return NULL;
}

static const char *frames_next_picture(frame_reader *f, picture *out) {
    char path[PATH_SIZE + 300];
    const char *name, *why;
    if (f->read == f->count) return NULL;
    name = f->names[f->read];
    if (snprintf(path, sizeof path, "%s/%s", f->folder, name) >= (int)sizeof path)
        return frames_fail(f, "the path of a picture in it is too long");
    why = load_picture(path, out);
    if (why == no_picture_memory) return why;
    if (why) return frames_fail(f, "%s: %s", name, why);
    if (!f->read) f->width = out->width, f->height = out->height;
    if (out->width == f->width && out->height == f->height) return NULL;
    frames_fail(f, "%s is %ux%u pixels, the first picture is %ux%u; they must have the same size", name, out->width,
                out->height, f->width, f->height);
    free(out->rgba);
    out->rgba = NULL;
    return f->why;
}

/* ---- Both ---- */

/* Begins to read a clip: a folder, a Y4M file, or "-" for Y4M from the standard input. NULL, or why not. frames_close
   is due after a failure, too. */
static const char *frames_open(frame_reader *f, const char *path) {
    const char *why;
    memset(f, 0, sizeof *f);
    f->sum = 14695981039346656037u;
    if (is_folder(path)) return frames_open_folder(f, path);
    if (strcmp(path, "-") == 0) {
#ifdef _WIN32
        _setmode(_fileno(stdin), _O_BINARY);
#endif
        f->file = stdin;
    } else {
        why = why_not_readable(path);
        if (why) return frames_fail(f, "%s", why);
        f->file = fopen(path, "rb");
        if (!f->file) return frames_fail(f, "%s", told_reason(errno));
    }
    return frames_open_y4m(f);
}

/* The next frame, its rgba freed with free; rgba NULL: there is none. NULL, or why not. */
static const char *frames_next(frame_reader *f, picture *out) {
    const char *why;
    memset(out, 0, sizeof *out);
    why = f->file ? frames_next_y4m(f, out) : frames_next_picture(f, out);
    if (why || !out->rgba) return why;
    f->sum = (f->sum ^ fnv1a(out->rgba, (size_t)out->width * out->height * 4)) * 1099511628211u;
    f->read++;
    return NULL;
}

/* Whether a frame is left behind those that were read; nothing can be read then. Who writes to the standard input is
   not waited for. */
static bool frames_go_on(frame_reader *f) {
    if (f->file) return f->file != stdin && getc(f->file) != EOF;
    return f->read < f->count;
}

static void frames_close(frame_reader *f) {
    uint32_t i;
    for (i = 0; i < f->count; i++) free(f->names[i]);
    free(f->names);
    free(f->planes);
    if (f->file && f->file != stdin) fclose(f->file);
    f->names = NULL;
    f->planes = NULL;
    f->file = NULL;
    f->count = 0;
}
#endif
