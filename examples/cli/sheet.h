/* A contact sheet of --grid: all pictures of a run, side by side in about a square. Include it after stills.h. Not part
   of dit.h. */
#ifndef SHEET_H
#define SHEET_H
#include "stills.h"

enum { SHEET_TILE = 512, SHEET_MOST = 400 }; /* pixels of a side, and pictures, so that memory stays below 400 MB */

typedef struct sheet {
    picture *tiles; /* freed with sheet_free */
    uint32_t count, room, left_out;
} sheet;

/* Averages blocks of pixels in place until no side is longer than limit. A side that is shorter than a block becomes
   one pixel. */
static void shrink(unsigned char *rgba, uint32_t *width, uint32_t *height, uint32_t limit) {
    uint32_t longest = *width > *height ? *width : *height, n = (longest + limit - 1) / limit;
    uint32_t columns = n < *width ? n : *width, lines = n < *height ? n : *height; /* of a block */
    uint32_t w = *width / columns, h = *height / lines, x, y, dx, dy, c;
    for (y = 0; y < h; y++) {
        for (x = 0; x < w * 4; x++) {
            uint32_t sum = 0;
            c = x % 4;
            for (dy = 0; dy < lines; dy++) {
                for (dx = 0; dx < columns; dx++)
                    sum += rgba[((size_t)(y * lines + dy) * *width + x / 4 * columns + dx) * 4 + c];
            }
            rgba[(size_t)y * w * 4 + x] = (unsigned char)(sum / (columns * lines));
        }
    }
    *width = w;
    *height = h;
}

/* False without memory. Pictures beyond the most are counted alone. */
static bool sheet_add(sheet *s, const unsigned char *rgba, uint32_t width, uint32_t height) {
    const size_t size = (size_t)width * height * 4;
    picture tile = {NULL, 0, 0};
    if (s->count == SHEET_MOST) return s->left_out++, true;
    if (s->count == s->room) {
        picture *more = realloc(s->tiles, (2 * s->room + 16) * sizeof *more);
        if (!more) return false;
        s->tiles = more;
        s->room = 2 * s->room + 16;
    }
    tile.rgba = malloc(size);
    if (!tile.rgba) return false;
    memcpy(tile.rgba, rgba, size);
    tile.width = width;
    tile.height = height;
    shrink(tile.rgba, &tile.width, &tile.height, SHEET_TILE);
    s->tiles[s->count++] = tile;
    return true;
}

/* rgba of the whole, freed with free; NULL without memory. Cells are as large as the largest picture; what is not
   covered is white. */
static unsigned char *sheet_draw(const sheet *s, uint32_t *width, uint32_t *height) {
    uint32_t cell_width = 0, cell_height = 0, columns = 1, rows, i, y;
    unsigned char *rgba;
    while (columns * columns < s->count) columns++;
    rows = (s->count + columns - 1) / columns;
    for (i = 0; i < s->count; i++) {
        if (s->tiles[i].width > cell_width) cell_width = s->tiles[i].width;
        if (s->tiles[i].height > cell_height) cell_height = s->tiles[i].height;
    }
    *width = columns * cell_width;
    *height = rows * cell_height;
    rgba = malloc((size_t)*width * *height * 4);
    if (!rgba) return NULL;
    memset(rgba, 255, (size_t)*width * *height * 4);
    for (i = 0; i < s->count; i++)
        for (y = 0; y < s->tiles[i].height; y++)
            memcpy(rgba + (((size_t)(i / columns) * cell_height + y) * *width + (size_t)(i % columns) * cell_width) * 4,
                   s->tiles[i].rgba + (size_t)y * s->tiles[i].width * 4, (size_t)s->tiles[i].width * 4);
    return rgba;
}

static void sheet_free(sheet *s) {
    uint32_t i;
    for (i = 0; i < s->count; i++) free(s->tiles[i].rgba);
    free(s->tiles);
    memset(s, 0, sizeof *s);
}
#endif
