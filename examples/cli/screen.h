/* Pictures on a terminal: by Kitty's protocol, iTerm2's or Sixel (-DDIT_SIXEL, by libsixel), else as half blocks in
   colours. The terminal is asked what it can do. A picture stands above the line of the cursor, and the next one is
   drawn over it until screen_leave. Include it after sheet.h and wire.h. Not part of dit.h. */
#ifndef SCREEN_H
#define SCREEN_H
#include "sheet.h"
#include "wire.h"
#ifndef _WIN32
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#endif
#ifdef DIT_SIXEL
#include <sixel.h>
#endif

typedef enum screen_kind {
    SCREEN_NONE,
    SCREEN_ASKED,
    SCREEN_KITTY,
    SCREEN_ITERM2,
    SCREEN_SIXEL,
    SCREEN_BLOCKS
} screen_kind;

/* As --preview calls them; the first one has the terminal asked. */
static const char *const screen_names[] = {"terminal", "kitty", "iterm2", "sixel", "blocks"};

static screen_kind screen_named(const char *name) {
    size_t i;
    for (i = 0; name && i < sizeof screen_names / sizeof screen_names[0]; i++)
        if (same_word(name, screen_names[i])) return (screen_kind)(SCREEN_ASKED + i);
    return SCREEN_NONE;
}

typedef struct screen {
    screen_kind kind;
    int fd;                      /* the terminal */
    int columns, lines;          /* of the terminal */
    int cell_width, cell_height; /* pixels of a letter */
    int rows;                    /* of the picture above the cursor's line; 0: none */
    bool colours, deep, utf8;    /* NO_COLOR is not set; 24 bits; half blocks can be written */
    uint32_t number;             /* Kitty's, of the picture */
} screen;

#ifdef _WIN32
static const char screen_needs[] = "previews on a terminal are not made on Windows; name a FILE.png";

static const char *screen_open(screen *s, int fd, screen_kind kind) {
    (void)fd, (void)kind;
    s->kind = SCREEN_NONE;
    return screen_needs;
}
static void screen_draw(screen *s, const unsigned char *rgba, uint32_t width, uint32_t height) {
    (void)s, (void)rgba, (void)width, (void)height;
}
static void screen_leave(screen *s) { s->rows = 0; }
#else

/* ---- Asking the terminal ---- */

/* Kitty's test of a picture; iTerm2's size of a letter; the usual size of a letter in pixels; the terminal's kind,
   which every terminal answers, so that no answer that comes before is waited for longer. */
static const char screen_question[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\"
                                      "\033]1337;ReportCellSize\033\\"
                                      "\033[16t"
                                      "\033[c";

/* Whether the answers end with the terminal's kind: ESC [ ? numbers c. */
static const char *screen_attributes(const char *answers) {
    const char *p = answers;
    while ((p = strstr(p, "\033[?")) != NULL) {
        p += 3;
        if (p[strspn(p, "0123456789;")] == 'c') return p;
    }
    return NULL;
}

/* All that the terminal says until it has told its kind; nothing where it says nothing for a second. */
static void screen_listen(int fd, char *answers, size_t size) {
    struct pollfd ready = {fd, POLLIN, 0};
    size_t length = 0;
    ssize_t n;
    while (!screen_attributes(answers) && length + 1 < size && poll(&ready, 1, 1000) > 0) {
        n = read(fd, answers + length, size - 1 - length);
        if (n <= 0) break;
        length += (size_t)n;
        answers[length] = 0;
    }
}

static bool screen_put(const screen *s, const char *text, size_t length) {
    while (length) {
        const ssize_t n = write(s->fd, text, length);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

static void screen_ask(screen *s) {
    char name[256], answers[1024] = "";
    const char *kind, *cell;
    struct termios before, raw;
    int fd = -1, width, height;
    s->kind = SCREEN_BLOCKS;
    /* A program in the background would be stopped, because the terminal is another's. */
    if (tcgetpgrp(s->fd) >= 0 && tcgetpgrp(s->fd) != getpgrp()) return;
    if (ttyname_r(s->fd, name, sizeof name) == 0) fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || tcgetattr(fd, &before) != 0) {
        if (fd >= 0) close(fd);
        return;
    }
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(fd, TCSANOW, &raw) == 0) {
        if (screen_put(s, screen_question, sizeof screen_question - 1)) screen_listen(fd, answers, sizeof answers);
        tcsetattr(fd, TCSANOW, &before);
    }
    close(fd);
    kind = screen_attributes(answers);
    cell = strstr(answers, "\033[6;");
    if (cell && sscanf(cell, "\033[6;%d;%dt", &height, &width) == 2 && width > 0 && height > 0 && width < 200 &&
        height < 400)
        s->cell_width = width, s->cell_height = height;
    if (strstr(answers, "\033_Gi=31;OK"))
        s->kind = SCREEN_KITTY;
    else if (strstr(answers, "\033]1337;ReportCellSize="))
        s->kind = SCREEN_ITERM2;
#ifdef DIT_SIXEL
    else if (kind && (strstr(kind, ";4;") || strstr(kind, ";4c")))
        s->kind = SCREEN_SIXEL;
#endif
    (void)kind;
}

static void screen_measure(screen *s) {
    struct winsize size;
    s->columns = 80;
    s->lines = 24;
    if (ioctl(s->fd, TIOCGWINSZ, &size) != 0) return;
    if (size.ws_col > 0) s->columns = size.ws_col;
    if (size.ws_row > 0) s->lines = size.ws_row;
    if (size.ws_col > 0 && size.ws_row > 0 && size.ws_xpixel >= size.ws_col && size.ws_ypixel >= size.ws_row)
        s->cell_width = size.ws_xpixel / size.ws_col, s->cell_height = size.ws_ypixel / size.ws_row;
}

/* NULL, or why nothing can be drawn. */
static const char *screen_open(screen *s, int fd, screen_kind kind) {
    const char *depth = getenv("COLORTERM"), *none = getenv("NO_COLOR");
    memset(s, 0, sizeof *s);
    if (!isatty(fd)) return "standard error is no terminal; name a FILE.png";
#ifndef DIT_SIXEL
    if (kind == SCREEN_SIXEL) return "this program was built without libsixel; say kitty, iterm2 or blocks";
#endif
    s->fd = fd;
    s->kind = kind;
    s->cell_width = 10;
    s->cell_height = 20;
    s->colours = !none || !*none;
    s->deep = depth && (strstr(depth, "truecolor") || strstr(depth, "24bit"));
    s->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    s->number = ((uint32_t)getpid() & 0xffffu) << 8;
    if (kind == SCREEN_ASKED) screen_ask(s);
    screen_measure(s);
    return NULL;
}

/* ---- Drawing ---- */

/* rgb [to_height][to_width][3], the mean of what each pixel covers; freed with free, NULL without memory. Neither side
   is longer than before. */
static unsigned char *screen_scale(const unsigned char *rgba, uint32_t width, uint32_t height, uint32_t to_width,
                                   uint32_t to_height) {
    unsigned char *rgb = malloc((size_t)to_width * to_height * 3), *to = rgb;
    uint32_t x, y, i, k, c;
    for (y = 0; rgb && y < to_height; y++)
        for (x = 0; x < to_width; x++) {
            const uint32_t left = (uint32_t)((uint64_t)x * width / to_width),
                           top = (uint32_t)((uint64_t)y * height / to_height);
            uint32_t right = (uint32_t)((uint64_t)(x + 1) * width / to_width),
                     bottom = (uint32_t)((uint64_t)(y + 1) * height / to_height);
            for (c = 0; c < 3; c++) {
                uint64_t sum = 0;
                for (k = top; k < bottom; k++)
                    for (i = left; i < right; i++) sum += rgba[((size_t)k * width + i) * 4 + c];
                *to++ = (unsigned char)(sum / ((uint64_t)(right - left) * (bottom - top)));
            }
        }
    return rgb;
}

/* The largest size of the picture's shape, not larger than the picture, in so many pixels. */
static void screen_fit(uint32_t width, uint32_t height, uint32_t most_width, uint32_t most_height, uint32_t *to_width,
                       uint32_t *to_height) {
    *to_width = width;
    *to_height = height;
    if (*to_width > most_width) *to_height = (uint32_t)((uint64_t)height * most_width / width), *to_width = most_width;
    if (*to_height > most_height)
        *to_width = (uint32_t)((uint64_t)width * most_height / height), *to_height = most_height;
    if (*to_width < 1) *to_width = 1;
    if (*to_height < 1) *to_height = 1;
}

/* https://sw.kovidgoyal.net/kitty/graphics-protocol: a PNG in parts of 4096 letters; C=1: the cursor stays; q=2: no
 * answer. */
static void screen_kitty(screen *s, parameter_text *out, const unsigned char *png, size_t size, int rows, bool shrunk) {
    enum { PART = 4096 / 4 * 3 };
    char head[96], fit[24] = "";
    size_t at;
    if (shrunk) snprintf(fit, sizeof fit, ",r=%d", rows);
    for (at = 0; at < size; at += PART) {
        const size_t part = size - at < PART ? size - at : PART;
        if (at == 0)
            snprintf(head, sizeof head, "\033_Ga=T,f=100,i=%u,p=1,C=1,q=2%s,m=%d;", s->number + 1, fit, part < size);
        else
            snprintf(head, sizeof head, "\033_Gm=%d;", at + part < size);
        json_raw(out, head);
        base64_append(out, png + at, part);
        json_raw(out, "\033\\");
    }
}

/* https://iterm2.com/documentation-images.html */
static void screen_iterm2(parameter_text *out, const unsigned char *png, size_t size, int rows, bool shrunk) {
    char head[128], fit[40] = "";
    if (shrunk) snprintf(fit, sizeof fit, ";height=%d;preserveAspectRatio=1", rows);
    snprintf(head, sizeof head, "\033]1337;File=inline=1;doNotMoveCursor=1;size=%lu%s:", (unsigned long)size, fit);
    json_raw(out, head);
    base64_append(out, png, size);
    json_raw(out, "\007");
}

#ifdef DIT_SIXEL
static int screen_sixel_part(char *data, int size, void *user) {
    text_append(user, data, (size_t)size);
    return size;
}

/* 256 colours that the picture is made of, each pixel in the nearest one: what is drawn over while it changes must not
   flicker, as dithering does. */
static bool screen_sixel(parameter_text *out, unsigned char *rgb, uint32_t width, uint32_t height) {
    sixel_output_t *to = NULL;
    sixel_dither_t *colours = NULL;
    bool good = SIXEL_SUCCEEDED(sixel_output_new(&to, screen_sixel_part, out, NULL)) &&
                SIXEL_SUCCEEDED(sixel_dither_new(&colours, 256, NULL)) &&
                SIXEL_SUCCEEDED(sixel_dither_initialize(colours, rgb, (int)width, (int)height, SIXEL_PIXELFORMAT_RGB888,
                                                        SIXEL_LARGE_AUTO, SIXEL_REP_AUTO, SIXEL_QUALITY_HIGH));
    if (good) {
        sixel_dither_set_diffusion_type(colours, SIXEL_DIFFUSE_NONE);
        good = SIXEL_SUCCEEDED(sixel_encode(rgb, (int)width, (int)height, 3, colours, to));
    }
    if (colours) sixel_dither_unref(colours);
    if (to) sixel_output_unref(to);
    return good;
}
#endif

static void screen_colour(const screen *s, parameter_text *out, int ground, const unsigned char *c) {
    char code[40];
    if (s->deep)
        snprintf(code, sizeof code, "\033[%d;2;%d;%d;%dm", ground, c[0], c[1], c[2]);
    else /* a cube of six levels: 0, 95, 135, 175, 215, 255 */
        snprintf(code, sizeof code, "\033[%d;5;%dm", ground,
                 16 +
                     36 * (c[0] < 48    ? 0
                           : c[0] < 115 ? 1
                                        : (c[0] - 35) / 40) +
                     6 * (c[1] < 48    ? 0
                          : c[1] < 115 ? 1
                                       : (c[1] - 35) / 40) +
                     (c[2] < 48    ? 0
                      : c[2] < 115 ? 1
                                   : (c[2] - 35) / 40));
    json_raw(out, code);
}

/* Each letter is two pixels, one above the other; without UTF-8 a blank of their mean colour; without colours a letter
   as bright as they are. */
static void screen_blocks(const screen *s, parameter_text *out, const unsigned char *rgb, uint32_t width, int rows) {
    static const char bright[] = " .:-=+*#%@";
    uint32_t x, c;
    int y;
    for (y = 0; y < rows; y++) {
        for (x = 0; x < width; x++) {
            const unsigned char *upper = rgb + ((size_t)(2 * y) * width + x) * 3, *lower = upper + (size_t)width * 3;
            unsigned char mean[3];
            for (c = 0; c < 3; c++) mean[c] = (unsigned char)((upper[c] + lower[c]) / 2);
            if (!s->colours) {
                text_append(out, bright + (mean[0] * 2 + mean[1] * 5 + mean[2]) * 9 / (8 * 255), 1);
            } else if (s->utf8) {
                screen_colour(s, out, 38, upper);
                screen_colour(s, out, 48, lower);
                json_raw(out, "\xe2\x96\x80");
            } else {
                screen_colour(s, out, 48, mean);
                json_raw(out, " ");
            }
        }
        json_raw(out, s->colours ? "\033[0m" : "");
        if (y + 1 < rows) json_raw(out, "\r\n");
    }
}

/* Draws a picture over the one before. The cursor stands at the beginning of an empty line, before and after. */
static void screen_draw(screen *s, const unsigned char *rgba, uint32_t width, uint32_t height) {
    parameter_text out = {0}, body = {0};
    unsigned char *png = NULL, *rgb = NULL;
    uint32_t most_width, most_height, w, h;
    size_t size = 0;
    char move[64];
    int rows, i;
    if (s->kind < SCREEN_KITTY) return;
    screen_measure(s);
    if (s->columns < 8 || s->lines < 6) return;
    most_width = (uint32_t)(s->columns - 1) * (s->kind == SCREEN_BLOCKS ? 1 : (uint32_t)s->cell_width);
    most_height = (uint32_t)(s->lines - 3) * (s->kind == SCREEN_BLOCKS ? 2 : (uint32_t)s->cell_height);
    screen_fit(width, height, most_width, most_height, &w, &h);
    if (s->kind == SCREEN_BLOCKS) {
        h = h > 1 ? h / 2 * 2 : 2;
        if (height < 2) return;
    }
    rows = s->kind == SCREEN_BLOCKS ? (int)h / 2 : (int)((h + (uint32_t)s->cell_height - 1) / (uint32_t)s->cell_height);
    if (s->kind == SCREEN_KITTY || s->kind == SCREEN_ITERM2)
        png = encode_png(rgba, width, height, NULL, NULL, &size);
    else
        rgb = screen_scale(rgba, width, height, w, h);
    if (png && s->kind == SCREEN_KITTY) screen_kitty(s, &body, png, size, rows, w < width);
    if (png && s->kind == SCREEN_ITERM2) screen_iterm2(&body, png, size, rows, w < width);
#ifdef DIT_SIXEL
    if (rgb && s->kind == SCREEN_SIXEL && !screen_sixel(&body, rgb, w, h)) body.length = 0;
#endif
    if (rgb && s->kind == SCREEN_BLOCKS) screen_blocks(s, &body, rgb, w, rows);
    if (body.at && body.length) {
        json_raw(&out, "\r");
        if (s->rows) {
            snprintf(move, sizeof move, "\033[%dA", s->rows);
            json_raw(&out, move);
        }
        for (i = 0; i < rows; i++) json_raw(&out, "\r\n"); /* the screen scrolls before, not while it is drawn */
        snprintf(move, sizeof move, "\033[%dA\0337", rows);
        json_raw(&out, move);
        text_append(&out, body.at, body.length);
        snprintf(move, sizeof move, "\0338\033[%dB\r", rows);
        json_raw(&out, move);
        if (out.at) screen_put(s, out.at, out.length);
        s->rows = rows;
    }
    free(png);
    free(rgb);
    free(body.at);
    free(out.at);
}

/* The picture stays where it is; the next one is drawn below it. */
static void screen_leave(screen *s) {
    s->number += s->rows != 0;
    s->rows = 0;
}
#endif
#endif
