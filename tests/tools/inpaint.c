/* Repainting by a mask (examples/cli/inpaint.h): regions beside diffusers' VaeImageProcessor.get_crop_region (0.42.1),
   the blur beside sums in doubles, and pixels that stay. */
#include "library.h"
#include "examples/cli/stills.h"
#include "examples/cli/files.h"
#include "examples/cli/clip.h"
#include "examples/cli/info.h"
#include "examples/cli/lora.h"
#include "examples/cli/parameters.h"
#include "examples/cli/pictures.h"
#include "examples/cli/sheet.h"
#include "examples/cli/wire.h"
#include "examples/cli/screen.h"
#include "examples/cli/app.h"
#include "examples/cli/inpaint.h"
#include "test.h"

static picture make_mask(uint32_t width, uint32_t height, uint32_t left, uint32_t top, uint32_t right, uint32_t bottom,
                         uint8_t white) {
    picture mask = {calloc((size_t)width * height, 4), width, height};
    uint32_t x, y;
    for (y = top; y < bottom && mask.rgba; y++)
        for (x = left; x < right; x++) memset(mask.rgba + 4 * ((size_t)y * width + x), white, 3);
    return mask;
}

static void test_regions(void) {
    static const struct {
        uint32_t width, height, left, top, right, bottom; /* of the mask, and its white part */
        uint32_t to_width, to_height, pad, wanted[4];
    } cases[] = {
        {96, 64, 79, 45, 88, 62, 64, 64, 32, {45, 13, 96, 64}},
        {96, 64, 31, 20, 38, 28, 32, 80, 32, {0, 0, 70, 64}},
        {96, 64, 31, 13, 80, 50, 96, 32, 0, {0, 13, 96, 50}},
        {96, 64, 93, 52, 94, 57, 96, 32, 32, {0, 20, 96, 64}},
        {96, 64, 20, 17, 30, 57, 112, 48, 1, {0, 16, 96, 58}},
        {33, 97, 8, 0, 9, 27, 96, 32, 1, {0, 0, 33, 28}},
        {33, 97, 10, 40, 20, 53, 96, 32, 1, {0, 39, 33, 54}},
        {33, 97, 12, 38, 25, 40, 32, 80, 32, {0, 0, 33, 82}},
        {33, 97, 10, 33, 15, 42, 32, 80, 8, {2, 12, 23, 64}},
        {33, 97, 0, 8, 22, 48, 32, 80, 8, {0, 0, 30, 75}},
        {200, 40, 123, 11, 164, 27, 112, 48, 1, {122, 10, 165, 28}},
        {200, 40, 14, 1, 80, 24, 112, 48, 0, {14, 0, 80, 28}},
        {200, 40, 140, 26, 191, 32, 112, 48, 0, {140, 19, 191, 40}},
        {200, 40, 115, 11, 121, 31, 96, 32, 0, {88, 11, 148, 31}},
        {200, 40, 193, 29, 195, 35, 32, 80, 8, {185, 3, 200, 40}},
        {64, 64, 59, 47, 60, 57, 64, 64, 32, {15, 15, 64, 64}},
        {64, 64, 11, 43, 25, 60, 32, 80, 1, {10, 24, 26, 64}},
        {64, 64, 43, 11, 52, 31, 32, 80, 8, {35, 0, 60, 62}},
        {64, 64, 22, 19, 28, 64, 32, 80, 32, {0, 0, 60, 64}},
        {64, 64, 20, 10, 24, 49, 112, 48, 0, {0, 10, 64, 49}},
    };
    paste found;
    picture mask;
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t *w = cases[i].wanted;
        mask = make_mask(cases[i].width, cases[i].height, cases[i].left, cases[i].top, cases[i].right, cases[i].bottom,
                         i % 2 ? 255 : 1);
        CHECK(find_region(&mask, cases[i].to_width, cases[i].to_height, cases[i].pad, &found));
        CHECK_MESSAGE(
            found.x == w[0] && found.y == w[1] && found.x + found.width == w[2] && found.y + found.height == w[3],
            "case %u: %u, %u to %u, %u", (unsigned)i, found.x, found.y, found.x + found.width, found.y + found.height);
        free(mask.rgba);
    }
    mask = make_mask(5, 7, 0, 0, 0, 0, 255);
    CHECK(!find_region(&mask, 64, 64, 8, &found));
    free(mask.rgba);
}

/* Each value is the sum over both directions of the mask by the weights of a Gaussian, edges repeated. */
static void test_blur(void) {
    enum { WIDTH = 23, HEIGHT = 17 };
    static const float deviations[] = {0, 0.3f, 1, 4, 64};
    picture mask = make_mask(WIDTH, HEIGHT, 5, 0, 12, 9, 200);
    size_t d;
    int x, y, i, k;
    for (d = 0; d < sizeof deviations / sizeof deviations[0]; d++) {
        const int reach = (int)(2.5f * deviations[d] + 0.5f);
        float *blurred = blurred_mask(&mask, deviations[d]);
        double worst = 0;
        for (y = 0; y < HEIGHT && CHECK(blurred); y++)
            for (x = 0; x < WIDTH; x++) {
                double sum = 0, all = 0;
                for (i = -reach; i <= reach; i++)
                    for (k = -reach; k <= reach; k++) {
                        const int u = x + k < 0       ? 0
                                      : x + k < WIDTH ? x + k
                                                      : WIDTH - 1,
                                  v = y + i < 0        ? 0
                                      : y + i < HEIGHT ? y + i
                                                       : HEIGHT - 1;
                        const double s = (double)deviations[d], w = s > 0 ? exp(-(i * i + k * k) / (2 * s * s)) : 1;
                        sum += w * grey_at(&mask, (uint32_t)u, (uint32_t)v) / 255;
                        all += w;
                    }
                worst = fmax(worst, fabs(sum / all - (double)blurred[y * WIDTH + x]));
            }
        CHECK_MESSAGE(worst < 1e-5, "deviation %g: %g", (double)deviations[d], worst);
        free(blurred);
    }
    free(mask.rgba);
}

int main(void) {
    test_regions();
    test_blur();
    return TEST_END("inpaint");
}
