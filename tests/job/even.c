/* diti_even_first against doubles: the mean and the deviation of a clip's first latent frames go as far to those of the
   next ones as they may, on the kernels of processors and of GPUs; other frames stay, and so do clips that have no next
   ones. test-runs: lavapipe, in test-all swiftshader sanitize */
#include "kernel_bench.h"
#include "vulkan_test.h"

enum { CHANNELS = 16, FIRST = 4, MOST_NEXT = 5 };

typedef struct even_case {
    uint32_t frames, area;
    float mean, deviation; /* of the first frames; the others have about 0 and 1 */
} even_case;

typedef struct moments {
    double mean, deviation;
} moments;

static moments measure(const matrix *x, uint32_t area, uint32_t first, uint32_t frames) {
    double sum = 0, squares = 0, n = (double)CHANNELS * frames * area;
    uint32_t r, c;
    moments m;
    for (r = 0; r < CHANNELS; r++)
        for (c = first * area; c < (first + frames) * area; c++) sum += (double)at(x, r, c);
    m.mean = sum / n;
    for (r = 0; r < CHANNELS; r++)
        for (c = first * area; c < (first + frames) * area; c++)
            squares += ((double)at(x, r, c) - m.mean) * ((double)at(x, r, c) - m.mean);
    m.deviation = sqrt(squares / (n - 1));
    return m;
}

static double clamp(double value, double least, double most) { return fmin(fmax(value, least), most); }

/* normalize_first_frame of Kandinsky5I2VPipeline. */
static double *reference(const matrix *x, uint32_t frames, uint32_t area) {
    double *out = calloc((size_t)CHANNELS * x->columns, sizeof *out);
    uint32_t next = frames <= FIRST ? 0 : frames - FIRST < MOST_NEXT ? frames - FIRST : MOST_NEXT, r, c;
    moments from = measure(x, area, 0, next ? FIRST : frames), to = next ? measure(x, area, FIRST, next) : from;
    to.mean = clamp(to.mean, from.mean - 0.05, from.mean + 0.1);
    to.deviation = clamp(to.deviation, from.deviation - 0.1, from.deviation + 0.25);
    for (r = 0; r < CHANNELS; r++)
        for (c = 0; c < x->columns; c++) {
            double v = (double)at(x, r, c);
            if (next && c < FIRST * area) v = (v - from.mean) / from.deviation * to.deviation + to.mean;
            out[(size_t)r * x->columns + c] = v;
        }
    return out;
}

static void check_case(diti_device *device, const even_case *e) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(CHANNELS, e->frames * e->area, 1.7320508f, DITI_F32);
    double *wanted;
    char what[96];
    uint32_t r, c;
    diti_tensor out;
    for (r = 0; r < CHANNELS; r++)
        for (c = 0; c < FIRST * e->area && c < x.columns; c++) {
            float *v = &x.data[(size_t)r * x.columns + c];
            *v = *v * e->deviation + e->mean;
        }
    wanted = reference(&x, e->frames, e->area);
    out = diti_even_first(graph, input(&x, DITI_F32, 0, "latents"), e->area);
    if (e->frames <= FIRST) {
        CHECK_MESSAGE(out == bench.inputs[0].tensor, "a clip without next frames is changed");
    } else if (run_plan()) {
        matrix got = read_tensor(out);
        snprintf(what, sizeof what, "%u frames of %u, mean %g, deviation %g", e->frames, e->area, (double)e->mean,
                 (double)e->deviation);
        close_to(&got, wanted, 4e-6, what);
        free(got.data);
    }
    end();
    free(x.data);
    free(wanted);
}

static void test_device(const char *overrides) {
    static const even_case cases[] = {
        {5, 24, 0, 1},      {7, 24, 0.3f, 0.7f}, {9, 4, -0.4f, 1.5f}, {12, 60, 0.04f, 1.05f}, {31, 144, -0.02f, 0.9f},
        {6, 24, 40, 0.25f}, {6, 1020, -5, 3},    {4, 24, 0.3f, 0.7f}, {1, 24, 0, 1},          {2, 24, 0, 1},
    };
    diti_device *device = open_device(overrides, 0);
    size_t i;
    for (i = 0; device && i < DITI_COUNT(cases); i++) check_case(device, &cases[i]);
    if (device) diti_device_close(device);
}

int main(void) {
    dit_error err = {0};
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    test_device("cpu=1");
    test_device("cpu=0");
    if (has_rung("rung=fp16")) test_device("rung=fp16,cpu=0");
    test_vulkan_end();
    return TEST_END("even");
}
