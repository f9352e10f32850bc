/* Measures of dit-compare: how far two tensors are apart, and how far two pictures are. All sums are doubles; nothing
   here knows of Vulkan. Include it after dit.h. Not part of dit.h. */
#ifndef COMPARE_STATS_H
#define COMPARE_STATS_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

/* Bins of a histogram of |a - b| in units of a's root mean square: equal, below 1e-8, then one for each power of ten,
   then 1 and more. */
enum { STAT_BINS = 11 };

/* Bins of a histogram of a tensor's own numbers in halves of its root mean square, from -4 to 4 times that. */
enum { SPREAD_BINS = 16 };

typedef struct tensor_stats {
    uint64_t count;      /* pairs in which both numbers are finite */
    uint64_t not_finite; /* pairs of which one is not, or both in different ways */
    double max_abs, max_rel, mean_abs;
    double relative_l2;                        /* |a - b| / |a|; 0 where both are zeros, infinite where only a is */
    double cosine;                             /* 1 where both are zeros, 0 where one is */
    double within_1, within_5;                 /* part of the pairs that differ by at most 1, 5 thousandths of |a| */
    double rms[2], least[2], most[2], mean[2]; /* of a, of b */
    uint64_t bins[STAT_BINS];
    double spread[2][SPREAD_BINS];
} tensor_stats;

static int stat_bin(double difference, double unit) {
    double ratio = unit > 0 ? difference / unit : difference;
    int power;
    if (!(difference > 0)) return 0;
    if (ratio >= 1) return STAT_BINS - 1;
    power = (int)floor(log10(ratio)); /* -1: 0.1 to 1 */
    return power < -8 ? 1 : power + STAT_BINS - 1;
}

static bool stat_pair(const float *a, const float *b, size_t i, double *x, double *y) {
    *x = (double)a[i];
    *y = (double)b[i];
    return isfinite(a[i]) && isfinite(b[i]);
}

/* Two numbers that are not finite in one way: both NaN, or the same infinity. */
static bool stat_alike(double x, double y) {
    return (isnan(x) && isnan(y)) || (isinf(x) && isinf(y) && (x > 0) == (y > 0));
}

static void stat_note_range(tensor_stats *s, int which, double value) {
    if (s->count == 1 || value < s->least[which]) s->least[which] = value;
    if (s->count == 1 || value > s->most[which]) s->most[which] = value;
}

/* Adds a number to the histogram of a tensor with that root mean square. */
static void stat_spread(double *spread, double value, double rms) {
    double place = rms > 0 ? (value / rms + 4) * (SPREAD_BINS / 8) : SPREAD_BINS / 2;
    if (place >= 0 && place <= SPREAD_BINS) spread[place < SPREAD_BINS ? (int)place : SPREAD_BINS - 1]++;
}

/* a is what b is held against. */
static tensor_stats compare_tensors(const float *a, const float *b, size_t count) {
    tensor_stats s;
    double aa = 0, bb = 0, ab = 0, dd = 0, sum = 0, sums[2] = {0, 0}, x, y, d;
    uint64_t near[2] = {0, 0};
    size_t i;
    memset(&s, 0, sizeof s);
    for (i = 0; i < count; i++) {
        if (!stat_pair(a, b, i, &x, &y)) {
            s.not_finite += !stat_alike(x, y);
            continue;
        }
        s.count++;
        d = fabs(x - y);
        aa += x * x;
        bb += y * y;
        ab += x * y;
        dd += d * d;
        sum += d;
        sums[0] += x;
        sums[1] += y;
        near[0] += d <= 1e-3 * fabs(x);
        near[1] += d <= 5e-3 * fabs(x);
        if (d > s.max_abs) s.max_abs = d;
        if (d > 0 && d / fabs(x) > s.max_rel) s.max_rel = d / fabs(x);
        stat_note_range(&s, 0, x);
        stat_note_range(&s, 1, y);
    }
    s.relative_l2 = dd > 0 ? sqrt(dd / aa) : 0;
    s.cosine = aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : aa > 0 || bb > 0 ? 0 : 1;
    if (s.count) {
        s.mean_abs = sum / (double)s.count;
        s.within_1 = (double)near[0] / (double)s.count;
        s.within_5 = (double)near[1] / (double)s.count;
        s.rms[0] = sqrt(aa / (double)s.count);
        s.rms[1] = sqrt(bb / (double)s.count);
        s.mean[0] = sums[0] / (double)s.count;
        s.mean[1] = sums[1] / (double)s.count;
    }
    for (i = 0; i < count; i++) {
        if (!stat_pair(a, b, i, &x, &y)) continue;
        s.bins[stat_bin(fabs(x - y), s.rms[0])]++;
        stat_spread(s.spread[0], x, s.rms[0]);
        stat_spread(s.spread[1], y, s.rms[1]);
    }
    return s;
}

/* ---- statistics in place of a tensor ---- */

/* Floats that stand for a tensor: of its finite numbers the least, the largest, their mean, root mean square and
   largest magnitude; how many are not finite; the histogram of spread; and numbers at fixed places, as they are. */
enum {
    TOLD_LEAST,
    TOLD_MOST,
    TOLD_MEAN,
    TOLD_RMS,
    TOLD_LARGEST,
    TOLD_NOT_FINITE,
    TOLD_SPREAD,
    TOLD_SAMPLES = TOLD_SPREAD + SPREAD_BINS,
    SAMPLES = 128,
    TOLD_VALUES = TOLD_SAMPLES + SAMPLES
};

/* Where the k-th sample of so many numbers is: one in each of 128 stretches of one length, at a place that differs from
   stretch to stretch, so that a column is not all that is seen of a matrix. */
static uint64_t sample_place(uint64_t k, uint64_t count) { return (k << 16 | (k * 40503 & 65535)) * count >> 23; }

static void condense_tensor(const float *values, size_t count, float told[TOLD_VALUES]) {
    tensor_stats s = compare_tensors(values, values, count);
    size_t i;
    told[TOLD_LEAST] = (float)s.least[0];
    told[TOLD_MOST] = (float)s.most[0];
    told[TOLD_MEAN] = (float)s.mean[0];
    told[TOLD_RMS] = (float)s.rms[0];
    told[TOLD_LARGEST] = (float)fmax(-s.least[0], s.most[0]);
    told[TOLD_NOT_FINITE] = (float)(count - s.count);
    for (i = 0; i < SPREAD_BINS; i++) told[TOLD_SPREAD + i] = (float)s.spread[0][i];
    for (i = 0; i < SAMPLES; i++) told[TOLD_SAMPLES + i] = count ? values[sample_place(i, count)] : 0;
}

/* The fault of statistics that a file holds for so many numbers; NULL: there is none. */
static const char *told_wrong(const float told[TOLD_VALUES], uint64_t count) {
    const float slack = told[TOLD_LARGEST] * 1e-3f; /* sums of floats may round */
    double sum = 0;
    int i;
    for (i = 0; i < TOLD_SAMPLES; i++)
        if (!isfinite(told[i])) return "one of them is not finite";
    for (i = 0; i < SPREAD_BINS; i++) {
        if (told[TOLD_SPREAD + i] < 0) return "a bin of the histogram is negative";
        sum += (double)told[TOLD_SPREAD + i];
    }
    if (told[TOLD_NOT_FINITE] < 0 || (double)told[TOLD_NOT_FINITE] > 1.001 * (double)count ||
        sum > 1.001 * (double)count)
        return "they count more numbers than the tensor has";
    if (told[TOLD_LEAST] > told[TOLD_MOST] || told[TOLD_MEAN] < told[TOLD_LEAST] - slack ||
        told[TOLD_MEAN] > told[TOLD_MOST] + slack)
        return "the mean is not between the least and the largest number";
    if (told[TOLD_LARGEST] < fmaxf(-told[TOLD_LEAST], told[TOLD_MOST]) || told[TOLD_RMS] < 0 ||
        told[TOLD_RMS] > told[TOLD_LARGEST] + slack)
        return "the root mean square is not between 0 and the largest magnitude";
    return NULL;
}

static double relative_to(double difference, double size) { return difference > 0 ? fabs(difference) / size : 0; }

/* Holds numbers against what a file tells of a tensor of `all` numbers, of which they are those from `first` on. All
   measures are of the samples among them. Where they are the whole tensor, the relative L2 is no less than what root
   mean squares and largest magnitudes differ by, and max-abs no less than what extremes do. False: no sample is among
   them. */
static bool compare_told(const float told[TOLD_VALUES], uint64_t all, uint64_t first, const float *own, size_t count,
                         tensor_stats *out) {
    float theirs[SAMPLES], ours[SAMPLES], mine[TOLD_VALUES];
    size_t found = 0, i;
    int side;
    for (i = 0; i < SAMPLES && all; i++) {
        const uint64_t place = sample_place(i, all);
        if (place < first || place - first >= count) continue;
        theirs[found] = told[TOLD_SAMPLES + i];
        ours[found++] = own[place - first];
    }
    *out = compare_tensors(theirs, ours, found);
    if (count != all) return found > 0;
    condense_tensor(own, count, mine);
    for (side = 0; side < 2; side++) {
        const float *from = side ? mine : told;
        out->rms[side] = (double)from[TOLD_RMS];
        out->least[side] = (double)from[TOLD_LEAST];
        out->most[side] = (double)from[TOLD_MOST];
        out->mean[side] = (double)from[TOLD_MEAN];
        for (i = 0; i < SPREAD_BINS; i++) out->spread[side][i] = (double)from[TOLD_SPREAD + i];
    }
    out->relative_l2 = fmax(out->relative_l2, relative_to(fabs(out->rms[1] - out->rms[0]), out->rms[0]));
    out->relative_l2 = fmax(out->relative_l2, relative_to(fabs((double)mine[TOLD_LARGEST] - (double)told[TOLD_LARGEST]),
                                                          (double)told[TOLD_LARGEST]));
    out->max_abs = fmax(out->max_abs, fabs(out->least[1] - out->least[0]));
    out->max_abs = fmax(out->max_abs, fabs(out->most[1] - out->most[0]));
    if (!out->not_finite) out->not_finite = (uint64_t)fabsf(mine[TOLD_NOT_FINITE] - told[TOLD_NOT_FINITE]);
    return true;
}

/* The rules of MindStudio's msprobe: cosine below 0.99 with a difference above 0.001, cosine below 0.9, or a difference
   above 1. A number that one side alone lacks fails, too. */
static bool msprobe_fails(const tensor_stats *s) {
    return s->not_finite || (s->cosine < 0.99 && s->max_abs > 0.001) || s->cosine < 0.9 || s->max_abs > 1;
}

/* ---- pictures ---- */

typedef struct picture_stats {
    double psnr;    /* dB over R, G and B of 0 to 255; infinite where they are equal */
    double ssim;    /* 1: the same */
    double gmsd;    /* 0: the same */
    double delta_e; /* mean distance in CIELAB; about 2 is just seen */
} picture_stats;

/* Luma of BT.601, 0 to 255. */
static float luma_of(const unsigned char *rgba) {
    return 0.299f * (float)rgba[0] + 0.587f * (float)rgba[1] + 0.114f * (float)rgba[2];
}

static float *luma_plane(const unsigned char *rgba, uint32_t width, uint32_t height) {
    size_t count = (size_t)width * height, i;
    float *out = (float *)malloc((count + 1) * sizeof *out);
    for (i = 0; out && i < count; i++) out[i] = luma_of(rgba + 4 * i);
    return out;
}

static double picture_psnr(const unsigned char *a, const unsigned char *b, size_t pixels) {
    double sum = 0;
    size_t i;
    for (i = 0; i < 4 * pixels; i++) {
        double d = (double)a[i] - (double)b[i];
        if (i % 4 != 3) sum += d * d;
    }
    return sum > 0 ? 10 * log10(255.0 * 255.0 * 3 * (double)pixels / sum) : INFINITY;
}

enum { SSIM_SIDE = 11 };

/* Weighted means around (x, y) of a, b, aa, bb, ab. */
static void ssim_window(const float *a, const float *b, uint32_t width, const double *gauss, uint32_t x, uint32_t y,
                        double out[5]) {
    uint32_t dx, dy;
    memset(out, 0, 5 * sizeof *out);
    for (dy = 0; dy < SSIM_SIDE; dy++)
        for (dx = 0; dx < SSIM_SIDE; dx++) {
            size_t at = (size_t)(y + dy) * width + x + dx;
            double w = gauss[dx] * gauss[dy], p = (double)a[at], q = (double)b[at];
            out[0] += w * p;
            out[1] += w * q;
            out[2] += w * p * p;
            out[3] += w * q * q;
            out[4] += w * p * q;
        }
}

/* Mean SSIM of luma: Wang, Bovik, Sheikh, Simoncelli 2004, "Image quality assessment: from error visibility to
   structural similarity", equation 13, with its window (11 x 11, Gaussian of 1.5) and constants (0.01, 0.03), where the
   window fits into the picture. NAN where it never does. */
static double picture_ssim(const float *a, const float *b, uint32_t width, uint32_t height) {
    const double c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255;
    double gauss[SSIM_SIDE], total = 0, sum = 0, m[5];
    uint32_t x, y, i;
    if (width < SSIM_SIDE || height < SSIM_SIDE) return NAN;
    for (i = 0; i < SSIM_SIDE; i++) total += gauss[i] = exp(-((double)i - 5) * ((double)i - 5) / (2 * 1.5 * 1.5));
    for (i = 0; i < SSIM_SIDE; i++) gauss[i] /= total;
    for (y = 0; y + SSIM_SIDE <= height; y++)
        for (x = 0; x + SSIM_SIDE <= width; x++) {
            ssim_window(a, b, width, gauss, x, y, m);
            sum += (2 * m[0] * m[1] + c1) * (2 * (m[4] - m[0] * m[1]) + c2) /
                   ((m[0] * m[0] + m[1] * m[1] + c1) * (m[2] - m[0] * m[0] + m[3] - m[1] * m[1] + c2));
        }
    return sum / ((double)(width - SSIM_SIDE + 1) * (double)(height - SSIM_SIDE + 1));
}

/* Means of 2 x 2 pixels, every second one. */
static void halve_plane(float *plane, uint32_t *width, uint32_t *height) {
    uint32_t w = *width / 2, h = *height / 2, x, y;
    for (y = 0; y < h; y++)
        for (x = 0; x < w; x++) {
            const float *p = plane + (size_t)2 * y * *width + 2 * x;
            plane[(size_t)y * w + x] = (p[0] + p[1] + p[*width] + p[*width + 1]) / 4;
        }
    *width = w;
    *height = h;
}

/* Prewitt's gradient at (x, y), a third of the sums, as the paper has it; pixels beyond the border are zeros. */
static double gradient_at(const float *p, uint32_t width, uint32_t height, uint32_t x, uint32_t y) {
    double gx = 0, gy = 0;
    int dx, dy;
    for (dy = -1; dy <= 1; dy++)
        for (dx = -1; dx <= 1; dx++) {
            int64_t u = (int64_t)x + dx, v = (int64_t)y + dy;
            double value = u < 0 || v < 0 || u >= (int64_t)width || v >= (int64_t)height
                               ? 0
                               : (double)p[(size_t)v * width + (size_t)u];
            gx -= dx * value / 3;
            gy -= dy * value / 3;
        }
    return sqrt(gx * gx + gy * gy);
}

/* Gradient magnitude similarity deviation of luma: Xue, Zhang, Mou, Bovik 2014, "Gradient Magnitude Similarity
   Deviation: A Highly Efficient Perceptual Image Quality Index", equations 3 to 6, c = 170, after one halving. Changes
   the planes. NAN where nothing is left. */
static double picture_gmsd(float *a, float *b, uint32_t width, uint32_t height) {
    uint32_t w = width, h = height, x, y;
    double sum = 0, squares = 0, mean, n;
    halve_plane(a, &w, &h);
    w = width, h = height;
    halve_plane(b, &w, &h);
    n = (double)w * (double)h;
    if (!(n > 0)) return NAN;
    for (y = 0; y < h; y++)
        for (x = 0; x < w; x++) {
            double p = gradient_at(a, w, h, x, y), q = gradient_at(b, w, h, x, y);
            double similarity = (2 * p * q + 170) / (p * p + q * q + 170);
            sum += similarity;
            squares += similarity * similarity;
        }
    mean = sum / n;
    return sqrt(squares / n > mean * mean ? squares / n - mean * mean : 0);
}

static double lab_curve(double t) { return t > 216.0 / 24389 ? cbrt(t) : (24389.0 / 27 * t + 16) / 116; }

/* sRGB (IEC 61966-2-1) to CIELAB (CIE 15) under D65. */
static void lab_of(const unsigned char *rgba, double lab[3]) {
    static const double matrix[3][3] = {
        {0.4124564, 0.3575761, 0.1804375}, {0.2126729, 0.7151522, 0.0721750}, {0.0193339, 0.1191920, 0.9503041}};
    static const double white[3] = {0.95047, 1, 1.08883};
    double linear[3], f[3];
    int i;
    for (i = 0; i < 3; i++) {
        double v = (double)rgba[i] / 255;
        linear[i] = v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
    }
    for (i = 0; i < 3; i++)
        f[i] = lab_curve((matrix[i][0] * linear[0] + matrix[i][1] * linear[1] + matrix[i][2] * linear[2]) / white[i]);
    lab[0] = 116 * f[1] - 16;
    lab[1] = 500 * (f[0] - f[1]);
    lab[2] = 200 * (f[1] - f[2]);
}

/* Mean of CIE 1976's colour difference. */
static double picture_delta_e(const unsigned char *a, const unsigned char *b, size_t pixels) {
    double p[3], q[3], sum = 0;
    size_t i;
    for (i = 0; i < pixels; i++) {
        if (!memcmp(a + 4 * i, b + 4 * i, 3)) continue;
        lab_of(a + 4 * i, p);
        lab_of(b + 4 * i, q);
        sum += sqrt((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1]) + (p[2] - q[2]) * (p[2] - q[2]));
    }
    return sum / (double)pixels;
}

/* RGBA of one size. False without memory. */
static bool compare_pictures(const unsigned char *a, const unsigned char *b, uint32_t width, uint32_t height,
                             picture_stats *out) {
    size_t pixels = (size_t)width * height;
    float *first = luma_plane(a, width, height), *second = luma_plane(b, width, height);
    if (first && second) {
        out->psnr = picture_psnr(a, b, pixels);
        out->delta_e = picture_delta_e(a, b, pixels);
        out->ssim = picture_ssim(first, second, width, height);
        out->gmsd = picture_gmsd(first, second, width, height);
    }
    free(first);
    free(second);
    return first && second;
}
#endif
