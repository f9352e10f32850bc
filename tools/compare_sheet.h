/* dit-compare sheet: rows of prompts, columns of configurations; what each picture took, and how far it is from the
   first column's. Include it after compare_report.h. Not part of dit.h. */
#ifndef COMPARE_SHEET_H
#define COMPARE_SHEET_H
#include "compare_report.h"

enum { MOST_COLUMNS = 24, MOST_ROWS = 64, GLYPH_WIDTH = 6, GLYPH_HEIGHT = 10, CELL_LEAST = 256, CELL_GAP = 8 };

typedef struct cell {
    unsigned char *rgba; /* freed with free */
    float *latent;       /* likewise */
    size_t latent_count;
    uint32_t width, height;
    double seconds, processor; /* processor: seconds of the host's processors, all threads */
    uint32_t reused;           /* steps that did without blocks (--cache) */
    bool compared;
    picture_stats picture; /* to the first column's */
    double latent_l2;      /* NAN: latents of other sizes */
} cell;

typedef struct table_column {
    char name[64];
    const char *flags;
    uint64_t memory, weights;
    char device[128], rung[64];
    bool software; /* the device is a driver on the host's processors, whose time counts then */
} table_column;

typedef struct table {
    table_column columns[MOST_COLUMNS];
    const char *rows[MOST_ROWS];
    uint32_t column_count, row_count;
    cell cells[MOST_ROWS][MOST_COLUMNS];
    const char *output;
    bool json;
    char *common[96];
    int common_count;
} table;

/* ---- options ---- */

/* "NAME: FLAGS", or FLAGS that are their own name. */
static int take_column(table *t, const char *text) {
    const char *colon = strstr(text, ": ");
    table_column *column = &t->columns[t->column_count];
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (t->column_count == MOST_COLUMNS) return complain(EXIT_USAGE, "--column: at most %d", MOST_COLUMNS);
    if (!colon && length && text[length - 1] == ':') length--;
    snprintf(column->name, sizeof column->name, "%.*s", (int)length, length ? text : "default");
    column->flags = colon ? colon + 2 : text[0] && text[strlen(text) - 1] == ':' ? "" : text;
    t->column_count++;
    return EXIT_GOOD;
}

static int take_sheet_options(int argc, char **argv, table *t) {
    int i, code = EXIT_GOOD;
    for (i = 1; i < argc && !code; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        const bool column = !strcmp(word, "--column"), row = !strcmp(word, "--row");
        const bool output = !strcmp(word, "-o") || !strcmp(word, "--output");
        if (!strcmp(word, "--json")) {
            t->json = true;
        } else if (!column && !row && !output) {
            if (t->common_count == (int)DITI_COUNT(t->common)) return complain(EXIT_USAGE, "too many options");
            t->common[t->common_count++] = argv[i];
        } else if (!value) {
            return complain(EXIT_USAGE, "%s needs a value", word);
        } else {
            i++;
            if (column) code = take_column(t, value);
            if (output) t->output = value;
            if (row && t->row_count == MOST_ROWS) return complain(EXIT_USAGE, "--row: at most %d", MOST_ROWS);
            if (row) t->rows[t->row_count++] = value;
        }
    }
    if (!code && (!t->column_count || !t->row_count))
        return complain(EXIT_USAGE, "a sheet needs --column \"NAME: FLAGS\" and --row PROMPT, each once or more often");
    return code ? code : check_page_name(t->output, true);
}

/* ---- pictures ---- */

/* Where the sheet's picture goes: beside FILE.html, or to FILE.png. */
static bool table_picture_path(const table *t, char *out, size_t size) {
    const char *dot = strrchr(base_name(t->output), '.');
    const bool alone = dot && same_word(dot, ".png");
    const int stem = dot && !alone ? (int)(dot - t->output) : (int)strlen(t->output);
    return snprintf(out, size, "%.*s%s", stem, t->output, alone ? "" : ".png") < (int)size;
}

static int check_row(const table *t, side *s, uint32_t row) {
    char picture[PATH_SIZE] = "";
    const named_path outputs[] = {{"--output", t->output}, {"the picture of --output", t->output ? picture : NULL}};
    if (s->a.o.class_name)
        s->a.o.class_name = t->rows[row];
    else
        s->a.o.prompt = t->rows[row];
    if (t->output && !table_picture_path(t, picture, sizeof picture))
        return complain(EXIT_OUTPUT, "%s: the name is too long", t->output);
    return side_check(s, outputs, t->output && !strcmp(picture, t->output) ? 1 : 2);
}

/* Checks all requests of a column before anything runs. */
static int check_column(table *t, uint32_t k) {
    side s;
    uint32_t r;
    int code;
    memset(&s, 0, sizeof s);
    code = side_options(&s, t->columns[k].flags, t->common, t->common_count);
    for (r = 0; r < t->row_count && !code; r++) {
        code = check_row(t, &s, r);
        end_request(&s.a);
    }
    side_close(&s);
    return code;
}

static int fill_cell(side *s, cell *out) {
    const clock_t begin = clock();
    int code = side_run(s);
    dit_status status = {0};
    if (!code) dit_job_status(s->a.job, &status, NULL);
    out->reused = status.reused;
    out->processor = (double)(clock() - begin) / CLOCKS_PER_SEC;
    out->rgba = s->rgba;
    out->latent = s->latent;
    out->latent_count = s->latent_count;
    out->width = s->a.r.width;
    out->height = s->a.r.height;
    out->seconds = s->seconds;
    s->rgba = NULL;
    s->latent = NULL;
    return code;
}

static int fill_column(table *t, uint32_t k) {
    table_column *column = &t->columns[k];
    side s;
    uint32_t r;
    int code;
    memset(&s, 0, sizeof s);
    code = side_options(&s, column->flags, t->common, t->common_count);
    for (r = 0; r < t->row_count && !code; r++) { /* context and model stay, and the plan where it fits */
        if (r) end_request(&s.a);
        code = check_row(t, &s, r);
        if (!code) code = r ? prepare(&s.a) : side_open(&s, false);
        if (!code) code = fill_cell(&s, &t->cells[r][k]);
    }
    if (!code) {
        column->memory = s.memory.peak;
        column->weights = s.memory.weights;
        snprintf(column->device, sizeof column->device, "%.127s", s.device->info.name);
        column->software = s.device->software;
        snprintf(column->rung, sizeof column->rung, "%.63s", s.device->info.rung);
    }
    side_close(&s);
    return code;
}

static void compare_cells(table *t) {
    uint32_t r, k;
    for (r = 0; r < t->row_count; r++)
        for (k = 1; k < t->column_count; k++) {
            const cell *a = &t->cells[r][0];
            cell *b = &t->cells[r][k];
            b->latent_l2 = a->latent_count == b->latent_count
                               ? compare_tensors(a->latent, b->latent, a->latent_count).relative_l2
                               : NAN;
            b->compared = a->width == b->width && a->height == b->height &&
                          compare_pictures(a->rgba, b->rgba, a->width, a->height, &b->picture);
        }
}

/* ---- the sheet as a picture ---- */

/* Letters of 5 x 7 pixels for the characters from space to ~: seven rows of five bits, the first in the highest. */
static const uint64_t glyphs[95] = {
    0x000000000ull, 0x108421004ull, 0x294000000ull, 0x295f57d4aull, 0x3a2131004ull, 0x674222173ull, 0x324caca4dull,
    0x108000000ull, 0x088842082ull, 0x208210888ull, 0x02aefbaa0ull, 0x0084f9080ull, 0x000001088ull, 0x0000f8000ull,
    0x00000018cull, 0x042222210ull, 0x3a33ae62eull, 0x11842108eull, 0x3a213221full, 0x78217043eull, 0x08ca97c42ull,
    0x7e1e0862eull, 0x3a10f462eull, 0x7c2221108ull, 0x3a317462eull, 0x3a317842eull, 0x018c03180ull, 0x008401088ull,
    0x088882082ull, 0x001f07c00ull, 0x208208888ull, 0x3a2131004ull, 0x3a37ade0eull, 0x3a31fc631ull, 0x7a31f463eull,
    0x3a308422eull, 0x7a318c63eull, 0x7e10f421full, 0x7e10f4210ull, 0x3a30bc62full, 0x4631fc631ull, 0x38842108eull,
    0x1c4210a4cull, 0x4654c5251ull, 0x42108421full, 0x4775ac631ull, 0x4735ace31ull, 0x3a318c62eull, 0x7a31f4210ull,
    0x3a318d64dull, 0x7a31f5251ull, 0x3e107043eull, 0x7c8421084ull, 0x46318c62eull, 0x46318c544ull, 0x4631ad771ull,
    0x462a22a31ull, 0x462a21084ull, 0x7c222221full, 0x39084210eull, 0x3a2131004ull, 0x38421084eull, 0x3a2131004ull,
    0x00000001full, 0x3a2131004ull, 0x000e0be2full, 0x421e8c63eull, 0x000f8420full, 0x042f8c62full, 0x000e8fe0eull,
    0x191e42108ull, 0x01f18bc2eull, 0x421e8c631ull, 0x100c2108eull, 0x080610a4cull, 0x4212a6292ull, 0x30842108eull,
    0x001aad6b5ull, 0x001e8c631ull, 0x000e8c62eull, 0x03d18fa10ull, 0x01f18bc21ull, 0x0016c4210ull, 0x000f8383eull,
    0x211e42106ull, 0x00118c62full, 0x00118c544ull, 0x0011ad6aaull, 0x001151151ull, 0x02318bc2eull, 0x001f1111full,
    0x3a2131004ull, 0x3a2131004ull, 0x3a2131004ull, 0x3a2131004ull,
};

typedef struct canvas {
    unsigned char *rgba;
    uint32_t width, height;
} canvas;

static void draw_text(canvas *c, uint32_t x, uint32_t y, const char *text, uint32_t most) {
    uint32_t row, bit, i;
    for (i = 0; text[i] && i < most; i++) {
        const unsigned char letter = (unsigned char)text[i];
        const uint64_t glyph = glyphs[(letter < 32 || letter > 126 ? '?' : letter) - 32];
        for (row = 0; row < 7; row++)
            for (bit = 0; bit < 5; bit++) {
                const uint32_t u = x + i * GLYPH_WIDTH + bit, v = y + row + (strchr("gpqy", letter) != NULL);
                if (glyph >> (34 - 5 * row - bit) & 1 && u < c->width && v < c->height)
                    memset(c->rgba + ((size_t)v * c->width + u) * 4, 0, 3);
            }
    }
}

/* A picture, each pixel as a square of `scale`. */
static void draw_cell(canvas *c, uint32_t x, uint32_t y, const cell *p, uint32_t scale) {
    uint32_t u, v;
    for (v = 0; v < p->height * scale; v++)
        for (u = 0; u < p->width * scale; u++)
            memcpy(c->rgba + ((size_t)(y + v) * c->width + x + u) * 4,
                   p->rgba + ((size_t)(v / scale) * p->width + u / scale) * 4, 4);
}

static void caption_of(const cell *p, bool software, char *out, size_t size) {
    size_t used =
        (size_t)snprintf(out, size, software ? "%.2f processor s" : "%.2f s", software ? p->processor : p->seconds);
    if (p->compared && isinf(p->picture.psnr))
        snprintf(out + used, size - used, "  equal");
    else if (p->compared)
        snprintf(out + used, size - used, "  PSNR %.1f  dE %.1f", p->picture.psnr, p->picture.delta_e);
}

static void draw_rows(const table *t, canvas *c, uint32_t scale, uint32_t cell_width, uint32_t cell_height) {
    const uint32_t most = (cell_width - 2) / GLYPH_WIDTH;
    char text[160];
    uint32_t r, k, y;
    for (k = 0; k < t->column_count; k++) {
        const uint32_t x = CELL_GAP + k * (cell_width + CELL_GAP);
        snprintf(text, sizeof text, "%s  (%.1f MB)", t->columns[k].name, (double)t->columns[k].memory / 1e6);
        draw_text(c, x, CELL_GAP, text, most);
        for (r = 0; r < t->row_count; r++) {
            y = CELL_GAP + GLYPH_HEIGHT + r * (cell_height + 2 * GLYPH_HEIGHT + CELL_GAP);
            if (!k) draw_text(c, x, y + 2, t->rows[r], (c->width - 2 * CELL_GAP) / GLYPH_WIDTH);
            draw_cell(c, x, y + GLYPH_HEIGHT + 2, &t->cells[r][k], scale);
            caption_of(&t->cells[r][k], t->columns[k].software, text, sizeof text);
            draw_text(c, x, y + GLYPH_HEIGHT + 4 + t->cells[r][k].height * scale, text, most);
        }
    }
}

static int write_table_picture(const table *t, const char *path) {
    uint32_t scale = 1, width = 0, height = 0, cell_width, cell_height, r, k;
    size_t size = 0, i;
    unsigned char *png;
    canvas c;
    bool good;
    for (r = 0; r < t->row_count; r++)
        for (k = 0; k < t->column_count; k++) {
            if (t->cells[r][k].width > width) width = t->cells[r][k].width;
            if (t->cells[r][k].height > height) height = t->cells[r][k].height;
        }
    while (width * scale < CELL_LEAST) scale++;
    cell_width = width * scale;
    cell_height = height * scale;
    c.width = CELL_GAP + t->column_count * (cell_width + CELL_GAP);
    c.height = 2 * CELL_GAP + GLYPH_HEIGHT + t->row_count * (cell_height + 2 * GLYPH_HEIGHT + CELL_GAP);
    c.rgba = malloc((size_t)c.width * c.height * 4);
    if (!c.rgba) return complain(EXIT_MEMORY, "out of memory for the sheet's picture");
    for (i = 0; i < (size_t)c.width * c.height * 4; i++) c.rgba[i] = 255;
    draw_rows(t, &c, scale, cell_width, cell_height);
    png = encode_png(c.rgba, c.width, c.height, NULL, NULL, &size);
    good = png && write_file(path, png, size);
    free(png);
    free(c.rgba);
    return good ? EXIT_GOOD : complain(EXIT_OUTPUT, "cannot write %s: %s", path, strerror(errno));
}

/* ---- the sheet as a table ---- */

static double column_mean(const table *t, uint32_t k, double (*of)(const cell *c)) {
    double sum = 0;
    uint32_t r;
    for (r = 0; r < t->row_count; r++) sum += of(&t->cells[r][k]);
    return sum / t->row_count;
}

static double cell_seconds(const cell *c) { return c->seconds; }
static double cell_processor(const cell *c) { return c->processor; }
static double cell_reused(const cell *c) { return c->reused; }
static double cell_latent(const cell *c) { return c->latent_l2; }
static double cell_psnr(const cell *c) { return c->picture.psnr; }
static double cell_ssim(const cell *c) { return c->picture.ssim; }
static double cell_gmsd(const cell *c) { return c->picture.gmsd; }
static double cell_delta_e(const cell *c) { return c->picture.delta_e; }

/* Markdown: a line for each column, means over the rows. */
static void print_table(const table *t, FILE *out) {
    uint32_t k, r;
    fprintf(out, "%s, rung %s; means of %u pictures, errors to the first line\n\n", t->columns[0].device,
            t->columns[0].rung, t->row_count);
    fputs(
        "| configuration | seconds | processor s | MB | steps reused | latent, relative L2 | PSNR, dB | SSIM | GMSD | "
        "dE*ab |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        out);
    for (k = 0; k < t->column_count; k++) {
        bool compared = k > 0;
        for (r = 0; r < t->row_count; r++) compared = compared && t->cells[r][k].compared;
        fprintf(out, "| %s | %.2f | %.2f | %.1f | %.3g |", t->columns[k].name, column_mean(t, k, cell_seconds),
                column_mean(t, k, cell_processor), (double)t->columns[k].memory / 1e6, column_mean(t, k, cell_reused));
        if (compared)
            fprintf(out, " %.3g | %.1f | %.4f | %.4f | %.2f |\n", column_mean(t, k, cell_latent),
                    column_mean(t, k, cell_psnr), column_mean(t, k, cell_ssim), column_mean(t, k, cell_gmsd),
                    column_mean(t, k, cell_delta_e));
        else
            fputs(" | | | | |\n", out);
    }
}

static void json_cell(parameter_text *out, const cell *c, bool picture) {
    json_raw(out, "{");
    json_measure(out, "seconds", c->seconds);
    json_measure(out, "processor_seconds", c->processor);
    json_count(out, "reused", c->reused);
    if (c->compared) {
        json_measure(out, "latent_relative_l2", c->latent_l2);
        json_measure(out, "psnr", c->picture.psnr);
        json_measure(out, "ssim", c->picture.ssim);
        json_measure(out, "gmsd", c->picture.gmsd);
        json_measure(out, "delta_e", c->picture.delta_e);
    }
    if (picture) json_png(out, "picture", c->rgba, c->width, c->height);
    json_raw(out, "}");
}

static void json_table(parameter_text *out, const table *t, bool pictures) {
    uint32_t r, k;
    json_raw(out, "{\"columns\":[");
    for (k = 0; k < t->column_count; k++) {
        json_raw(out, k ? ",{" : "{");
        json_text(out, "name", t->columns[k].name);
        json_text(out, "flags", t->columns[k].flags);
        json_count(out, "memory", t->columns[k].memory);
        json_count(out, "weights", t->columns[k].weights);
        json_text(out, "device", t->columns[k].device);
        json_text(out, "rung", t->columns[k].rung);
        json_raw(out, "}");
    }
    json_raw(out, "],\"rows\":[");
    for (r = 0; r < t->row_count; r++) {
        json_raw(out, r ? ",{" : "{");
        json_text(out, "prompt", t->rows[r]);
        json_key(out, "cells");
        for (k = 0; k < t->column_count; k++) {
            json_raw(out, k ? "," : "[");
            json_cell(out, &t->cells[r][k], pictures);
        }
        json_raw(out, "]}");
    }
    json_raw(out, "]}");
}

/* FILE.html, and FILE.png beside it. */
static int write_sheet(const table *t) {
    parameter_text text = {0};
    char path[PATH_SIZE];
    int code;
    table_picture_path(t, path, sizeof path);
    code = write_table_picture(t, path);
    if (code || !strcmp(path, t->output)) return code;
    json_table(&text, t, true);
    if (!text.at) return complain(EXIT_MEMORY, "out of memory for the sheet");
    code = write_page(t->output, (const char *)compare_sheet_page, text.at);
    free(text.at);
    return code;
}

static int sheet_main(int argc, char **argv) {
    static table t; /* zeros */
    parameter_text text = {0};
    uint32_t r, k;
    int code = take_sheet_options(argc, argv, &t);
    for (k = 0; k < t.column_count && !code; k++) code = check_column(&t, k);
    if (!code && t.output && why_not_writable(t.output))
        code = complain(EXIT_OUTPUT, "--output %s: %s", t.output, why_not_writable(t.output));
    for (k = 0; k < t.column_count && !code; k++) code = fill_column(&t, k);
    if (!code) compare_cells(&t);
    if (!code && t.output) code = write_sheet(&t);
    if (!code && !t.json) print_table(&t, stdout);
    if (!code && t.json) {
        json_table(&text, &t, false);
        printf("%s\n", text.at ? text.at : "null");
        free(text.at);
    }
    for (r = 0; r < t.row_count; r++)
        for (k = 0; k < t.column_count; k++) {
            free(t.cells[r][k].rgba);
            free(t.cells[r][k].latent);
        }
    return code;
}
#endif
