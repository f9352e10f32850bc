/* The graph room: memory shared by liveness, slices within limits, replayed loops, barriers. Runs elementwise ops only.
   test-runs: lavapipe swiftshader sanitize discrete */
#include "library.h"
#include "vulkan_test.h"

static diti_env env;

static diti_device *open_device(const char *overrides, uint32_t max_slice_us) {
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    desc.max_slice_us = max_slice_us;
    CHECK_MESSAGE(diti_device_open(&desc, &env, &device, &err) == DIT_OK, "%s", err.message);
    return device;
}

static uint32_t random_state;
static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

/* --- a random network of additions: every tensor is a sum of earlier ones, some are dropped early --- */

enum { NODES = 60, ROWS = 37, COLUMNS = 44 };

static void host_sum(float *out, const float *a, const float *b, float scale) {
    for (int i = 0; i < ROWS * COLUMNS; i++) out[i] = a[i] * scale + b[i];
}

static float host[NODES][ROWS * COLUMNS], device_out[ROWS * COLUMNS];

static diti_tensor build_network(diti_graph *graph, diti_tensor *input, uint32_t seed) {
    diti_tensor node[NODES];
    diti_elementwise_desc desc = {0};
    random_state = seed;
    node[0] = *input = diti_tensor_input(graph, DITI_F32, ROWS, COLUMNS, "network input");
    for (int i = 0; i < ROWS * COLUMNS; i++) host[0][i] = (float)(i % 97) / 97.0f;
    for (uint32_t i = 1; i < NODES; i++) {
        uint32_t a = i - 1 - random_below(i < 6 ? i : 6), b = i - 1 - random_below(i < 3 ? i : 3);
        desc.scale = 0.5f;
        desc.add = node[b];
        desc.out_f32 = true;
        desc.name = "network node";
        desc.out = i == NODES - 1 ? diti_tensor_state(graph, DITI_F32, ROWS, COLUMNS, "network output") : 0;
        node[i] = diti_elementwise(graph, node[a], &desc);
        host_sum(host[i], host[a], host[b], 0.5f);
    }
    return node[NODES - 1];
}

static void run_network(diti_device *device, uint32_t seed, bool in_secondaries) {
    diti_graph graph;
    diti_plan_memory memory = {0};
    diti_plan *plan = NULL;
    diti_tensor input, output;
    dit_error err = {0};
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "network", false);
    output = build_network(&graph, &input, seed);
    CHECK_MESSAGE(diti_plan_measure(&graph, &memory, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(memory.activations < 16 * sizeof host[0], "%llu bytes for %d nodes",
                  (unsigned long long)memory.activations, NODES);
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message)) {
        CHECK(diti_plan_write(plan, input, host[0], sizeof host[0], &err) == DIT_OK);
        if (in_secondaries) CHECK(diti_plan_prepare_frames(plan, &err) == DIT_OK);
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(plan, output, device_out, sizeof device_out, &err) == DIT_OK);
        CHECK_MESSAGE(!memcmp(device_out, host[NODES - 1], sizeof device_out), "seed %u: %g instead of %g", seed,
                      device_out[5], host[NODES - 1][5]);
    }
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
}

static void test_networks(diti_device *device) {
    for (uint32_t seed = 1; seed <= 6; seed++) run_network(device, seed, false);
}

/* --- a loop with its own counter, a table row per step, and work between the steps that wants memory --- */

enum { STEPS = 50 };

typedef struct loop {
    diti_plan *plan;
    diti_tensor table, addend, x;
} loop;

static loop build_loop(diti_device *device) {
    loop result = {0};
    diti_graph graph;
    diti_tensor prepared, step, row, big;
    diti_elementwise_desc desc = {0};
    dit_error err = {0};
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    result.table = diti_tensor_input(&graph, DITI_F32, STEPS, COLUMNS, "table");
    result.addend = diti_tensor_input(&graph, DITI_F32, ROWS, COLUMNS, "addend");
    result.x = diti_tensor_state(&graph, DITI_F32, ROWS, COLUMNS, "x");
    step = diti_tensor_state(&graph, DITI_U32, 1, 1, "step");
    desc.scale = 2;
    desc.out_f32 = true;
    desc.name = "prepared";
    prepared = diti_elementwise(&graph, result.addend, &desc);
    diti_graph_segment(&graph, "step", true);
    row = diti_select_row(&graph, result.table, step, "row");
    desc.scale = 0.5f;
    desc.add = row;
    desc.out = result.x;
    diti_elementwise(&graph, result.x, &desc);
    desc.scale = 1;
    desc.add = prepared;
    diti_elementwise(&graph, result.x, &desc);
    diti_advance_step(&graph, step);
    diti_graph_segment(&graph, "between", true);
    desc.add = 0;
    desc.out = 0;
    desc.scale = -1;
    big = diti_elementwise(&graph, result.x, &desc); /* would overwrite `prepared` if its life ended with the step */
    diti_elementwise(&graph, big, &desc);
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &result.plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
    return result;
}

static void host_loop(const float *table, const float *addend, float *x) {
    memset(x, 0, ROWS * COLUMNS * sizeof *x);
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            x[i] = x[i] * 0.5f + table[s * COLUMNS + i % COLUMNS];
            x[i] = x[i] + addend[i] * 2;
        }
    }
}

static void test_loop(diti_device *device) {
    static float table[STEPS * COLUMNS], addend[ROWS * COLUMNS], expected[ROWS * COLUMNS];
    loop l = build_loop(device);
    dit_counters first = {0}, last = {0};
    dit_error err = {0};
    if (!l.plan) return;
    for (int i = 0; i < STEPS * COLUMNS; i++) table[i] = (float)(i % 31) - 15;
    for (int i = 0; i < ROWS * COLUMNS; i++) addend[i] = (float)(i % 13) * 0.25f;
    host_loop(table, addend, expected);
    CHECK(diti_plan_write(l.plan, l.table, table, sizeof table, &err) == DIT_OK);
    CHECK(diti_plan_write(l.plan, l.addend, addend, sizeof addend, &err) == DIT_OK);
    first = l.plan->counters;
    for (int run = 0; run < 2; run++) { /* the second run starts from zeroed states again */
        CHECK(diti_plan_run(l.plan, 0, 1, &err) == DIT_OK);
        for (int s = 0; s < STEPS; s++) CHECK(diti_plan_run(l.plan, 1, 2, &err) == DIT_OK);
        CHECK(diti_plan_read(l.plan, l.x, device_out, sizeof device_out, &err) == DIT_OK);
        CHECK_MESSAGE(!memcmp(device_out, expected, sizeof expected), "run %d: %g instead of %g", run, device_out[3],
                      expected[3]);
    }
    last = l.plan->counters;
    CHECK(last.recordings == first.recordings && last.allocations == first.allocations &&
          last.pipelines == first.pipelines);
    CHECK(last.submits > first.submits && last.dispatches > first.dispatches);
    diti_plan_destroy(l.plan);
}

/* --- the solver step: a few steps with random coefficients, against the formulas of sample/sample.h in double --- */

enum {
    IMAGES = 2,
    CHANNELS = 4,
    PLANES = IMAGES * CHANNELS,
    PIXELS = 36,
    FRAMES = 4,
    SOLVES = 5,
    VALUES = PLANES * PIXELS
};

typedef struct solver_case {
    bool guided, mixed, has_y, learned, noisy;
    float guided_channels;
    bool has_h3, holds, keeps; /* holds: four frames of nine pixels */
    uint32_t side;             /* diti_solver_desc.token_side, on planes of 4 lines of 9 or 6 of 6; 0: none */
} solver_case;

/* Pixels of a line, where lines or tokens matter. */
static uint32_t solver_width(const solver_case *c) { return c->side == DITI_SOLVER_LINES ? 9 : 6; }

typedef struct solver_run {
    diti_plan *plan;
    diti_tensor predictions, noise, coefficients, x, x0;
    float *prediction_values, noise_values[SOLVES * VALUES];
    struct {
        diti_solver_row row;
        float images[2 * IMAGES], frames[3 * FRAMES];
    } table[SOLVES];
    size_t prediction_count; /* of one step */
} solver_run;

static float random_value(void) { return (float)random_below(2001) / 1000.0f - 1.0f; }

static void fill_solver(solver_run *run, const solver_case *c) {
    run->prediction_count = (size_t)VALUES * (c->guided ? 2 : 1) * (c->learned ? 2 : 1);
    run->prediction_values = malloc(SOLVES * run->prediction_count * sizeof(float));
    for (size_t i = 0; i < SOLVES * run->prediction_count; i++) run->prediction_values[i] = random_value() + 0.25f;
    for (int i = 0; i < SOLVES * VALUES; i++) run->noise_values[i] = random_value();
    for (int s = 0; s < SOLVES; s++) {
        diti_solver_row *row = &run->table[s].row;
        for (size_t i = 0; i <= offsetof(diti_solver_row, e2) / sizeof(float); i++) ((float *)row)[i] = random_value();
        row->d3 = random_value(), row->shown_x = random_value(), row->shown_x0 = random_value();
        row->kept_x0 = random_value(), row->kept_noise = random_value();
        row->push = s == 1 ? 0.0f : 1.0f;
        for (int f = 0; f < FRAMES; f++) {
            float *frame = run->table[s].frames + 3 * f;
            frame[0] = random_value(), frame[1] = f % 3 ? random_value() : 0, frame[2] = (f + s) % 2 ? 1.0f : 0.0f;
        }
        row->clip = s % 2 ? 0.75f : INFINITY;
        row->guidance = s == 1 ? 1.0f : 4.5f;
        row->number = (float)(s + 1);
        row->rescale = 0.7f;
        row->project = s == 2 ? 0 : 0.8f;
        row->norm_limit = s == 3 ? 3e38f : 3.0f;
        row->length_limit = s == 2 ? 3e38f : 0.9f;
        row->guided_channels = c->guided_channels;
    }
}

static void build_solver(diti_device *device, solver_run *run, const solver_case *c) {
    diti_solver_desc desc = {0};
    diti_tensor step, prediction;
    uint32_t rows = (uint32_t)(run->prediction_count / PIXELS);
    dit_error err = {0};
    diti_graph graph;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "prepare", false);
    run->predictions = diti_tensor_input(&graph, DITI_F32, SOLVES, rows * PIXELS, "predictions");
    run->noise = diti_tensor_input(&graph, DITI_F32, SOLVES, VALUES, "noises");
    run->coefficients =
        diti_tensor_input(&graph, DITI_F32, SOLVES, DITI_COEFFICIENTS + 2 * IMAGES + 3 * FRAMES, "coefficients");
    run->x = diti_tensor_state(&graph, DITI_F32, PLANES, PIXELS, "x");
    run->x0 = diti_tensor_state(&graph, DITI_F32, PLANES, PIXELS, "x0");
    step = diti_tensor_state(&graph, DITI_U32, 1, 1, "step");
    desc.x = run->x, desc.x0 = run->x0;
    desc.h1 = diti_tensor_state(&graph, DITI_F32, PLANES, PIXELS, "h1");
    desc.has_y = c->has_y, desc.has_h3 = c->has_h3, desc.frames = c->holds ? FRAMES : 0, desc.keeps = c->keeps;
    desc.h2 = diti_tensor_state(&graph, DITI_F32, PLANES * diti_solver_planes(&desc), PIXELS, "h2");
    desc.health = diti_tensor_state(&graph, DITI_U32, 1, 4, "health");
    if (c->keeps) { /* the picture's latent, its noise and the mask are the first three rows of noises */
        for (uint32_t k = 0; k < 3; k++)
            diti_copy(
                &graph,
                diti_tensor_reshape(&graph, diti_tensor_view(&graph, run->noise, k, 1, 0, VALUES), PLANES, PIXELS),
                diti_tensor_view(&graph, desc.h2, (diti_solver_kept(&desc) + k) * PLANES, PLANES, 0, PIXELS), "kept");
    }
    diti_graph_segment(&graph, "step", true);
    prediction = diti_tensor_reshape(&graph, diti_select_row(&graph, run->predictions, step, "m"), rows, PIXELS);
    desc.coefficients = diti_select_row(&graph, run->coefficients, step, "coefficients");
    if (c->noisy) {
        desc.noise = diti_tensor_reshape(&graph, diti_select_row(&graph, run->noise, step, "n"), PLANES, PIXELS);
    }
    desc.channels = CHANNELS;
    desc.guided = c->guided, desc.mixed = c->mixed, desc.learned = c->learned;
    desc.token_side = c->side, desc.width = solver_width(c);
    if (c->holds) diti_solver_renoise(&graph, &desc);
    diti_solver_step(&graph, prediction, &desc);
    diti_advance_step(&graph, step);
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &run->plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
}

/* Element i of the unconditional (0) or conditional (1) half; variance: what the model says about it. */
static double solver_prediction(const solver_run *run, const solver_case *c, int step, int half, int i, bool variance) {
    int image = i / (CHANNELS * PIXELS), inside = i % (CHANNELS * PIXELS), times = c->learned ? 2 : 1;
    size_t at = ((size_t)half * IMAGES + (size_t)image) * CHANNELS * PIXELS * times + (size_t)inside;
    return run->prediction_values[step * run->prediction_count + at + (variance ? CHANNELS * PIXELS : 0)];
}

/* (a, b) of a * c + b * d for one image: adaptive projected guidance, then rescaled, and shortened by what was too
 * long. */
static void host_guide(const solver_run *run, const solver_case *c, int step, int image, double *a, double *b) {
    const diti_solver_row *row = &run->table[step].row;
    double n = CHANNELS * PIXELS, sum[2] = {0, 0}, cc = 0, dd = 0, cd = 0, variance = 0, mixed = 0, mean, length;
    for (int i = image * (int)n; i < (image + 1) * (int)n; i++) {
        double v = solver_prediction(run, c, step, 1, i, false), d = v - solver_prediction(run, c, step, 0, i, false);
        sum[0] += v, sum[1] += d, cc += v * v, dd += d * d, cd += v * d;
    }
    *b = (row->guidance - 1.0) * fmin(1, (double)row->norm_limit / sqrt(dd));
    *a = 1 - (double)row->project * *b * cd / cc;
    mean = (*a * sum[0] + *b * sum[1]) / n;
    for (int i = image * (int)n; i < (image + 1) * (int)n; i++) {
        double v = solver_prediction(run, c, step, 1, i, false), d = v - solver_prediction(run, c, step, 0, i, false);
        variance += (v - sum[0] / n) * (v - sum[0] / n);
        mixed += (*a * v + *b * d - mean) * (*a * v + *b * d - mean);
    }
    length = sqrt(*a * *a * cc + 2 * *a * *b * cd + *b * *b * dd);
    mean = row->rescale * sqrt(variance / mixed) + 1 - row->rescale;
    if (row->guidance != 1) mean *= fmin(1, (double)row->length_limit * sqrt(cc) / length);
    *a *= mean, *b *= mean;
}

/* A factor that makes the guided prediction of element i's token, or of the line, as long as the conditional one, but
   grow no more than it may. */
static double host_length(const solver_run *run, const solver_case *c, int step, int i) {
    int width = (int)solver_width(c), side = (int)c->side, image = i / (CHANNELS * PIXELS) * CHANNELS * PIXELS;
    double own = 0, all = 0;
    for (int k = image; k < image + CHANNELS * PIXELS; k++) {
        int at = k % PIXELS, here = i % PIXELS;
        double u = solver_prediction(run, c, step, 0, k, false), v = solver_prediction(run, c, step, 1, k, false);
        bool same = c->side == DITI_SOLVER_LINES
                        ? k / width == i / width
                        : at / width / side == here / width / side && at % width / side == here % width / side;
        if (!same) continue;
        own += v * v;
        all += pow(u + run->table[step].row.guidance * (v - u), 2);
    }
    return fmin((double)run->table[step].row.length_limit, sqrt(own / all));
}

static double host_guided(const solver_run *run, const solver_case *c, int step, int i) {
    double u = solver_prediction(run, c, step, 0, i, false), v, a, b;
    if (!c->guided) return u;
    v = solver_prediction(run, c, step, 1, i, false);
    if (!c->mixed)
        return i / PIXELS % CHANNELS < (int)c->guided_channels ? u + run->table[step].row.guidance * (v - u) : v;
    if (c->side) return (u + run->table[step].row.guidance * (v - u)) * host_length(run, c, step, i);
    host_guide(run, c, step, i / (CHANNELS * PIXELS), &a, &b);
    return a * v + b * (v - u);
}

static void host_solver(const solver_run *run, const solver_case *c, double *x, double *x0) {
    double y[VALUES] = {0}, h1[VALUES] = {0}, h2[VALUES] = {0}, h3[VALUES] = {0};
    const float *picture = run->noise_values;
    memset(x, 0, VALUES * sizeof *x);
    for (int s = 0; s < SOLVES; s++) {
        const diti_solver_row *k = &run->table[s].row;
        for (int i = 0; i < VALUES; i++) {
            const float *frame = run->table[s].frames + 3 * (i % PIXELS / (PIXELS / FRAMES));
            double m = host_guided(run, c, s, i), before, noise = k->noise * run->noise_values[s * VALUES + i], q;
            if (c->holds) x[i] = frame[0] * x[i] + frame[1] * run->noise_values[s * VALUES + i];
            before = x[i];
            if (c->learned) noise *= exp(k->noise_v * solver_prediction(run, c, s, c->guided, i, true));
            q = fmin(fmax(k->x0_x * x[i] + k->x0_m * m, -k->clip), k->clip);
            x0[i] = k->shown_x * before + k->shown_x0 * q;
            x[i] = k->x_x * before + k->x_m * m + k->d0 * q + k->d1 * h1[i] + k->d2 * h2[i];
            if (c->has_h3) x[i] += k->d3 * h3[i];
            if (c->noisy) x[i] += noise;
            if (c->has_y) x[i] += k->x_y * y[i];
            y[i] = k->y_x * before + k->y_y * y[i] + k->e0 * q + k->e1 * h1[i] + k->e2 * h2[i];
            if (c->keeps)
                x[i] = x[i] * picture[2 * VALUES + i] +
                       (1 - picture[2 * VALUES + i]) * (k->kept_x0 * picture[i] + k->kept_noise * picture[VALUES + i]);
            if (c->holds && frame[2] == 0) x[i] = before;
            if (k->push != 0) h3[i] = h2[i], h2[i] = h1[i], h1[i] = q;
        }
    }
}

static void check_solver(diti_device *device, const solver_case *c) {
    static solver_run run;
    static double x[VALUES], x0[VALUES];
    static float got[2][VALUES];
    double worst = 0;
    dit_error err = {0};
    memset(&run, 0, sizeof run);
    fill_solver(&run, c);
    build_solver(device, &run, c);
    if (run.plan) {
        CHECK(diti_plan_write(run.plan, run.predictions, run.prediction_values,
                              SOLVES * run.prediction_count * sizeof(float), &err) == DIT_OK);
        if (c->noisy || c->keeps)
            CHECK(diti_plan_write(run.plan, run.noise, run.noise_values, sizeof run.noise_values, &err) == DIT_OK);
        CHECK(diti_plan_write(run.plan, run.coefficients, run.table, sizeof run.table, &err) == DIT_OK);
        CHECK(diti_plan_run(run.plan, 0, 1, &err) == DIT_OK);
        for (int s = 0; s < SOLVES; s++) CHECK(diti_plan_run(run.plan, 1, 1, &err) == DIT_OK);
        CHECK(diti_plan_read(run.plan, run.x, got[0], sizeof got[0], &err) == DIT_OK);
        CHECK(diti_plan_read(run.plan, run.x0, got[1], sizeof got[1], &err) == DIT_OK);
        host_solver(&run, c, x, x0);
        for (int i = 0; i < VALUES; i++) {
            double error = fmax(fabs(got[0][i] - x[i]), fabs(got[1][i] - x0[i]));
            if (!(error <= worst)) worst = error;
        }
        CHECK_MESSAGE(worst < 2e-5,
                      "guided %d mixed %d y %d learned %d noisy %d h3 %d holds %d keeps %d side %u: off by %g",
                      c->guided, c->mixed, c->has_y, c->learned, c->noisy, c->has_h3, c->holds, c->keeps, c->side,
                      worst); /* float, values of about 10 over five steps */
    }
    diti_plan_destroy(run.plan);
    free(run.prediction_values);
}

static void test_solver(diti_device *device) {
    static const solver_case cases[] = {
        {false, false, false, false, false, 65536, false, false, false, 0},
        {true, false, false, false, true, 65536, false, false, false, 0},
        {true, false, false, true, true, 3, false, false, false, 0},
        {false, false, false, true, true, 65536, false, false, false, 0},
        {true, false, true, false, false, 65536, false, false, false, 0},
        {true, true, false, false, false, 65536, false, false, false, 0},
        {true, true, true, true, true, 65536, false, false, false, 0},
        {false, false, true, false, false, 65536, true, false, false, 0},
        {true, false, false, false, false, 65536, true, false, true, 0},
        {false, false, true, false, false, 65536, true, false, true, 0},
        {true, false, false, true, true, 65536, false, true, false, 0},
        {true, true, true, false, true, 65536, true, true, true, 0},
        {true, true, false, false, false, 65536, false, false, false, 2},
        {true, true, false, false, true, 65536, false, false, false, DITI_SOLVER_LINES},
        {true, true, false, true, true, 65536, false, false, false, DITI_SOLVER_LINES},
    };
    random_state = 5;
    for (size_t i = 0; i < DITI_COUNT(cases); i++) check_solver(device, &cases[i]);
}

/* --- the application's command buffer --- */

typedef struct execution {
    diti_plan *plan;
} execution;

static void execute_all(diti_device *device, VkCommandBuffer commands, void *user) {
    diti_plan *plan = ((execution *)user)->plan;
    (void)device;
    for (uint32_t i = 0; i < diti_plan_slice_count(plan, 0); i++)
        CHECK(diti_plan_execute(plan, 0, i, commands, NULL) == DIT_OK);
}

static void test_secondaries(diti_device *device) {
    diti_graph graph;
    execution e = {0};
    diti_tensor input, output;
    dit_error err = {0};
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "network", false);
    output = build_network(&graph, &input, 77);
    CHECK(diti_plan_create(&graph, NULL, &e.plan, &err) == DIT_OK);
    diti_graph_free(&graph);
    if (!e.plan) return;
    CHECK(diti_plan_prepare_frames(e.plan, &err) == DIT_OK);
    CHECK(diti_plan_write(e.plan, input, host[0], sizeof host[0], &err) == DIT_OK);
    CHECK_MESSAGE(diti_run_now(device, execute_all, &e, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_plan_read(e.plan, output, device_out, sizeof device_out, &err) == DIT_OK);
    CHECK(!memcmp(device_out, host[NODES - 1], sizeof device_out));
    diti_plan_destroy(e.plan);
}

/* --- limits and budgets change the slices, never the result --- */

static void run_large(diti_device *device, uint32_t least_slices, float *out, size_t size, uint32_t rows,
                      uint32_t columns) {
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor input, output;
    diti_elementwise_desc desc = {0};
    dit_error err = {0};
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "large", false);
    input = diti_tensor_input(&graph, DITI_F32, rows, columns, "large input");
    desc.activation = DITI_ACTIVATION_SILU;
    desc.out = output = diti_tensor_state(&graph, DITI_F32, rows, columns, "large output");
    diti_elementwise(&graph, input, &desc);
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message)) {
        for (size_t i = 0; i < size / sizeof *out; i++) out[i] = (float)(i % 1009) / 100.0f - 5;
        CHECK(diti_plan_write(plan, input, out, size, &err) == DIT_OK);
        memset(out, 0, size);
        CHECK_MESSAGE(plan->dispatch_count >= least_slices, "%u slices", (unsigned)plan->dispatch_count);
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(plan, output, out, size, &err) == DIT_OK);
    }
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
}

static void test_limits(diti_device *whole) {
    static const struct {
        const char *overrides;
        uint32_t max_slice_us, slices;
    } cases[] = {
        {"storage_range=64K", 0, 16},
        {"groups=8", 0, 100},
        {"storage_range=64K,groups=3", 0, 100},
        {"cores=1", 20, 2} /* a GPU with more of them may need all workgroups to be filled */
    };
    enum { LARGE_ROWS = 512, LARGE_COLUMNS = 512 };
    static float reference[LARGE_ROWS * LARGE_COLUMNS], sliced[LARGE_ROWS * LARGE_COLUMNS];
    run_large(whole, 1, reference, sizeof reference, LARGE_ROWS, LARGE_COLUMNS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        diti_device *device = open_device(cases[i].overrides, cases[i].max_slice_us);
        if (!device) continue;
        run_large(device, cases[i].slices, sliced, sizeof sliced, LARGE_ROWS, LARGE_COLUMNS);
        CHECK_MESSAGE(!memcmp(sliced, reference, sizeof sliced), "%s", cases[i].overrides);
        diti_device_close(device);
    }
}

/* --- errors name the culprit and stick --- */

static void expect_failure(diti_graph *graph, const char *word) {
    diti_plan *plan = NULL;
    dit_error err = {0};
    CHECK(diti_plan_create(graph, NULL, &plan, &err) < 0 && !plan);
    CHECK_MESSAGE(strstr(err.message, word), "\"%s\" does not name %s", err.message, word);
    diti_graph_free(graph);
}

static void test_errors(diti_device *device) {
    diti_graph graph;
    diti_tensor a;
    diti_elementwise_desc desc = {0};
    diti_device *small = open_device("allocation=64K", 0);
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "errors", false);
    a = diti_tensor_input(&graph, DITI_F32, 4, 8, "alpha");
    CHECK(diti_tensor_view(&graph, a, 2, 3, 0, 8) == 0);
    CHECK(diti_graph_failed(&graph) && diti_elementwise(&graph, a, &desc) == 0);
    expect_failure(&graph, "alpha");
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "errors", false);
    diti_tensor_new(&graph, DITI_F32, 0, 8, "empty");
    expect_failure(&graph, "empty");
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "errors", false);
    diti_tensor_new(&graph, DITI_F32, 1u << 20, 1u << 20, "huge");
    expect_failure(&graph, "huge");
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "errors", false);
    desc.add = diti_tensor_input(&graph, DITI_F32, 1, 12, "beta");
    diti_elementwise(&graph, diti_tensor_input(&graph, DITI_F32, 4, 8, "gamma"), &desc);
    expect_failure(&graph, "gamma");
    if (!small) return;
    diti_graph_init(&graph, small);
    diti_graph_segment(&graph, "errors", false);
    desc.add = 0;
    desc.name = "delta";
    desc.out_f32 = true;
    diti_elementwise(&graph, diti_tensor_input(&graph, DITI_F32, 512, 512, "delta"), &desc);
    expect_failure(&graph, "delta");
    diti_device_close(small);
}

/* The host's copy of the inputs is more than the budget of its heap leaves; what is small is made in any case. */
static void test_host_budget(void) {
    diti_device *device = open_device("host_budget=1", 0);
    uint32_t rows;
    if (!device) return;
    for (rows = 256; rows <= 512; rows += 256) {
        diti_elementwise_desc desc = {0};
        diti_graph graph;
        diti_plan *plan = NULL;
        dit_error err = {0};
        diti_graph_init(&graph, device);
        diti_graph_segment(&graph, "inputs", false);
        desc.name = "inputs";
        desc.out_f32 = true;
        diti_elementwise(&graph, diti_tensor_input(&graph, DITI_F32, rows, 240, "inputs"), &desc);
        CHECK(diti_plan_create(&graph, NULL, &plan, &err) == (rows == 256 ? DIT_OK : DIT_ERROR_OUT_OF_HOST_MEMORY));
        CHECK_MESSAGE(plan || (strstr(err.message, "0.5 MB of host memory") && strstr(err.message, "smaller picture")),
                      "%s", err.message);
        diti_plan_destroy(plan);
        diti_graph_free(&graph);
    }
    diti_device_close(device);
}

/* --- how members of a group divide rows or blocks --- */

/* The members' parts follow one another from 0 to total, and none is empty where there are enough. Mirrored members
   have as much as each other, but for what an odd total has in its middle. */
static bool divides_all(const diti_ranks *group, uint32_t total) {
    uint32_t i, end = 0;
    for (i = 0; i < group->count; i++) {
        uint32_t first = diti_ranks_first(group, i, total), own = end;
        end = diti_ranks_first(group, i + 1, total);
        if (first != own || end < first || (end == first && total >= group->count)) return false;
        if (group->mirrored && 2 * i + 2 < group->count &&
            diti_ranks_size(group, group->count - 1 - i, total) != end - first)
            return false;
    }
    return end == total;
}

static void test_division(void) {
    static const float shares[] = {0.9f, 0.05f, 0.001f, 0.3f, 0.7f, 1.0f};
    uint32_t count, total, i, draw, wrong = 0;
    random_state = 7;
    for (count = 2; count <= 8; count++) {
        for (total = 1; total <= 60; total++) {
            for (draw = 0; draw < 40; draw++) {
                diti_ranks group = {0};
                group.count = count;
                group.mirrored = count % 2 == 0 && total >= count && draw % 2;
                for (i = 0; i < count && draw > 1; i++)
                    group.weights[i] =
                        group.mirrored && 2 * i >= count ? group.weights[count - 1 - i] : shares[random_below(6)];
                wrong += !divides_all(&group, total);
            }
        }
    }
    CHECK_MESSAGE(wrong == 0, "%u groups leave something out, or have it twice", (unsigned)wrong);
}

int main(void) {
    diti_device *device;
    dit_error err = {0};
    test_vulkan_begin();
    test_division();
    CHECK(diti_env_init(&env, NULL, NULL, &err) == DIT_OK);
    device = open_device(NULL, 0);
    if (device) {
        test_networks(device);
        test_loop(device);
        test_solver(device);
        test_secondaries(device);
        test_limits(device);
        test_errors(device);
        test_host_budget();
        diti_device_close(device);
    }
    test_vulkan_end();
    return TEST_END("graph");
}
