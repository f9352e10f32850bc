/* Repainting by a mask, so that the rest of the picture keeps its pixels: --mask-blur pastes what is made over the
   picture, with a soft edge, and --padding-mask-crop makes the part alone that the mask shows, in the size of -W and
   -H, as A1111 ("only masked") and diffusers do. Include it after app.h. Not part of dit.h. */
#ifndef INPAINT_H
#define INPAINT_H

static uint32_t grey_at(const picture *p, uint32_t x, uint32_t y) {
    const uint8_t *pixel = p->rgba + 4 * ((size_t)y * p->width + x);
    return (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
}

/* One side of a region, [*from, *to) of `limit` pixels, becomes `more` pixels longer, and moves where it leaves the
   picture. */
static void lengthen(int64_t *from, int64_t *to, int64_t more, int64_t limit) {
    *from -= more / 2;
    *to += more - more / 2;
    if (*to >= limit) *from -= *to - limit, *to = limit;
    if (*from < 0) *to -= *from, *from = 0;
    if (*to > limit) *to = limit;
}

/* The part of a mask that is not black, `pad` pixels wider on each side, and of the shape width x height as far as the
   picture has room (diffusers, VaeImageProcessor.get_crop_region). false: all is black. */
static bool find_region(const picture *mask, uint32_t width, uint32_t height, uint32_t pad, paste *out) {
    int64_t left = mask->width, right = -1, top = mask->height, bottom = -1, more;
    uint32_t x, y;
    for (y = 0; y < mask->height; y++)
        for (x = 0; x < mask->width; x++) {
            if (!grey_at(mask, x, y)) continue;
            left = x < left ? x : left, right = x > right ? x : right;
            top = y < top ? y : top, bottom = y;
        }
    if (bottom < 0) return false;
    left = left > pad ? left - pad : 0;
    top = top > pad ? top - pad : 0;
    right = right + 1 + pad < mask->width ? right + 1 + pad : mask->width;
    bottom = bottom + 1 + pad < mask->height ? bottom + 1 + pad : mask->height;
    if ((double)(right - left) / (double)(bottom - top) > (double)width / height) {
        more = (int64_t)((double)(right - left) / ((double)width / height) - (double)(bottom - top));
        lengthen(&top, &bottom, more, mask->height);
    } else {
        more = (int64_t)((double)(bottom - top) * ((double)width / height) - (double)(right - left));
        lengthen(&left, &right, more, mask->width);
    }
    out->x = (uint32_t)left, out->y = (uint32_t)top;
    out->width = (uint32_t)(right - left), out->height = (uint32_t)(bottom - top);
    return true;
}

/* The part of a picture takes its place; false: no memory. */
static bool cut_out(picture *p, const paste *part) {
    uint8_t *rgba = malloc((size_t)part->width * part->height * 4);
    uint32_t y;
    if (!rgba) return false;
    for (y = 0; y < part->height; y++)
        memcpy(rgba + (size_t)y * part->width * 4, p->rgba + 4 * ((size_t)(part->y + y) * p->width + part->x),
               (size_t)part->width * 4);
    free(p->rgba);
    p->rgba = rgba;
    p->width = part->width;
    p->height = part->height;
    return true;
}

/* Blurs lines of `count` values that lie `step` apart, each by a Gaussian of this deviation; values beyond the ends are
   those at the ends. line: room for count values. */
static void blur_line(float *values, uint32_t count, size_t step, const float *weights, int reach, float *line) {
    int64_t i, k, at;
    for (i = 0; i < count; i++) line[i] = values[(size_t)i * step];
    for (i = 0; i < count; i++) {
        float sum = 0;
        for (k = -reach; k <= reach; k++) {
            at = i + k < 0 ? 0 : i + k < count ? i + k : count - 1;
            sum += weights[k < 0 ? -k : k] * line[at];
        }
        values[(size_t)i * step] = sum;
    }
}

enum { BLUR_MOST = 64, BLUR_REACH = 5 * BLUR_MOST / 2 + 1 };

/* How much of what is made shows in each pixel: the mask's grey, 0..1, blurred. NULL: no memory. Freed with free. */
static float *blurred_mask(const picture *mask, float deviation) {
    const int reach = (int)(2.5f * deviation + 0.5f); /* as A1111's */
    const size_t count = (size_t)mask->width * mask->height;
    const uint32_t longer = mask->width > mask->height ? mask->width : mask->height;
    float weights[BLUR_REACH + 1], sum = 0, *out = malloc((count + longer) * sizeof *out);
    uint32_t x, y;
    int k;
    if (!out) return NULL;
    for (y = 0; y < mask->height; y++)
        for (x = 0; x < mask->width; x++) out[(size_t)y * mask->width + x] = (float)grey_at(mask, x, y) / 255;
    for (k = 0; k <= reach; k++) {
        weights[k] = deviation > 0 ? expf(-0.5f * (float)(k * k) / (deviation * deviation)) : 1;
        sum += k ? 2 * weights[k] : weights[k];
    }
    for (k = 0; k <= reach; k++) weights[k] /= sum;
    for (y = 0; y < mask->height && reach; y++)
        blur_line(out + (size_t)y * mask->width, mask->width, 1, weights, reach, out + count);
    for (x = 0; x < mask->width && reach; x++)
        blur_line(out + x, mask->height, mask->width, weights, reach, out + count);
    return out;
}

/* Keeps the picture and how much of it shows. */
static bool keep_whole(app *a) {
    const picture *start = &a->r.start;
    const size_t size = (size_t)start->width * start->height * 4;
    paste *p = &a->r.paste;
    p->whole = *start;
    p->whole.rgba = malloc(size);
    p->made = malloc(size);
    p->weights = blurred_mask(&a->r.mask, a->r.numbers.mask_blur);
    if (!p->whole.rgba || !p->made || !p->weights) return false;
    memcpy(p->whole.rgba, start->rgba, size);
    return true;
}

/* Before picture and mask, which are of one size, are scaled: the part that is made takes their place. */
static int crop_to_mask(app *a) {
    paste *p = &a->r.paste;
    if (!a->o.mask_crop || !a->r.mask.rgba) return EXIT_GOOD;
    if (!find_region(&a->r.mask, a->r.width, a->r.height, (uint32_t)a->r.numbers.mask_crop, p))
        return complain(EXIT_INPUT, "--padding-mask-crop: nothing is repainted, because nothing in %s is white",
                        a->o.mask);
    if (keep_whole(a) && cut_out(&a->r.start, p) && cut_out(&a->r.mask, p)) return EXIT_GOOD;
    return complain(EXIT_MEMORY, "%s", no_picture_memory);
}

/* After they are scaled: what is made is pasted over all of the picture. */
static int paste_by_mask(app *a) {
    paste *p = &a->r.paste;
    if (!a->o.mask_blur || !a->r.mask.rgba || p->weights) return EXIT_GOOD;
    p->width = a->r.width;
    p->height = a->r.height;
    return keep_whole(a) ? EXIT_GOOD : complain(EXIT_MEMORY, "%s", no_picture_memory);
}

/* The whole picture takes the place of what was made, and its size; or goes back. */
static void swap_made(app *a) {
    paste *p = &a->r.paste;
    unsigned char *rgba = a->rgba;
    const uint32_t width = a->r.width, height = a->r.height;
    a->rgba = p->made, a->r.width = p->whole.width, a->r.height = p->whole.height;
    p->made = rgba, p->whole.width = width, p->whole.height = height;
}

/* Pastes what was made over a copy of the picture, which then stands in a->rgba; swap_made takes that back. */
static int paste_made(app *a) {
    paste *p = &a->r.paste;
    picture part = {NULL, a->r.width, a->r.height};
    const size_t size = (size_t)a->r.width * a->r.height * 4;
    const char *wrong;
    uint32_t x, y, c;
    part.rgba = malloc(size);
    if (!part.rgba) return complain(EXIT_MEMORY, "%s", no_picture_memory);
    memcpy(part.rgba, a->rgba, size);
    wrong = scale_picture(&part, p->width, p->height);
    if (wrong) return free(part.rgba), complain(EXIT_MEMORY, "%s", wrong);
    memcpy(p->made, p->whole.rgba, (size_t)p->whole.width * p->whole.height * 4);
    for (y = 0; y < p->height; y++)
        for (x = 0; x < p->width; x++) {
            const size_t at = (size_t)(p->y + y) * p->whole.width + p->x + x;
            const uint8_t *from = part.rgba + 4 * ((size_t)y * p->width + x);
            for (c = 0; c < 3; c++)
                p->made[4 * at + c] =
                    (uint8_t)(p->weights[at] * from[c] + (1 - p->weights[at]) * p->whole.rgba[4 * at + c] + 0.5f);
            p->made[4 * at + 3] = 255;
        }
    free(part.rgba);
    swap_made(a);
    return EXIT_GOOD;
}

static void free_paste(paste *p) {
    free(p->whole.rgba);
    free(p->weights);
    free(p->made);
}
#endif
