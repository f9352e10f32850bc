/* Blocks that are reused in later steps (dit_job_desc.cache): against the plain pattern, done here by hand in doubles;
   operations counted against their prediction; divided among devices; with streamed weights, in step mode, restarted;
   refusals. build/tests/golden compares diffusers' caches.
   make test runs some; DIT_TEST_ALL=1 all.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "job/auto.c"
#include "model/evaluate.c"
#include "split/split_job.h"
#include "split/stale_model.h"
#include "vulkan_test.h"

static const generated_model flux = {"flux5", "flux", 2, 32, 5, 2, 0, true};
static const generated_model sd3 = {"sd3-24", "sd3", 2, 16, 24, 0, 0, false};
static const generated_model sd3_less = {"sd3-23", "sd3", 2, 16, 23, 0, 0, false};
static const generated_model small = {"sd3-4", "sd3", 2, 16, 4, 0, 0, false};
static const generated_model hunyuan = {"hunyuan8", "hunyuandit", 4, 32, 8, 0, 0, false};

/* Such that some steps are computed and some are not. */
#define EASY "easycache:threshold=1,from=2,to=8"

static maker at;
static const char *cache; /* of the jobs that follow */
static uint32_t reused;   /* steps of the last one */

static dit_result make_cached(const asked *a, const char *split, dit_job **job) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(&at, a, split, &inputs);
    dit_result result;
    desc.cache = cache;
    result = dit_job_create(at.context, &desc, job, &err);
    generated_free_inputs(&inputs);
    return result;
}

static bool run_cached(const asked *a, const char *split, outcome *out) {
    dit_job *job = NULL;
    dit_result result = make_cached(a, split, &job);
    dit_status status = DITI_ZERO;
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) result = wait_for(job, 120);
    if (result == DIT_OK) result = read_latent(job, 0, out);
    if (result == DIT_OK) dit_job_status(job, &status, NULL);
    reused = status.reused;
    dit_job_destroy(job);
    return CHECK_MESSAGE(result == DIT_OK, "%s, %s: %s", cache ? cache : "no cache", split ? split : "one device",
                         err.message);
}

/* budget: bytes of weights that stay on the device; 0: all. */
static bool open_budget(const generated_model *shape, VkDeviceSize budget) {
    dit_model_desc desc = DITI_ZERO;
    close_model(&at);
    desc.weight_budget = budget;
    if (!CHECK_MESSAGE(load_denoiser(&at, shape, DIT_TYPE_STORED, desc) == DIT_OK, "%s", err.message)) return false;
    shorten_texts(at.model);
    return true;
}

static bool open_model(const generated_model *shape) { return open_budget(shape, 0); }

/* ---- the plain pattern ---- */

typedef struct evaluation { /* some of a model's blocks on the host's rows */
    diti_graph graph;
    diti_step_desc step;
    diti_tensor latent, text, pooled, x, out;
} evaluation;

/* Blocks [first, end) of latent, or of rows x where first is not 0; out: their rows, or with an end behind the last
   block the prediction. Returns how many values out has. */
static size_t evaluate(const dit_job *job, const generated_inputs *texts, float timestep, uint32_t first, uint32_t end,
                       const float *latent, const float *x, float *out) {
    const diti_transformer *model = at.model->transformer;
    const diti_job_request *request = &job->request;
    evaluation e = DITI_ZERO;
    diti_step_desc *d = &e.step;
    diti_plan *plan = NULL;
    diti_tensor y;
    uint32_t zero = 0, plane = request->latent_width * request->latent_height, rows, i;
    size_t values = 0;
    dit_result result;
    diti_graph_init(&e.graph, at.context->device);
    diti_graph_segment(&e.graph, "all", false);
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = request->latent_height;
    d->width = request->latent_width;
    d->guidance = request->guidance.distilled;
    d->text_tokens = (uint32_t)texts->list[0].shape[0];
    d->latent = diti_tensor_input(&e.graph, DITI_F32, model->traits.latent_channels, plane, "latent");
    d->text = diti_tensor_input(&e.graph, DITI_F32, d->text_tokens, model->traits.text_columns, "text");
    d->pooled = diti_tensor_input(&e.graph, DITI_F32, 1, model->traits.pooled_columns, "pooled");
    d->row = diti_tensor_input(&e.graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(model, &e.graph, d);
    diti_transformer_begin(model, &e.graph, d);
    rows = d->token_range.text + d->token_range.rows;
    e.x = diti_tensor_input(&e.graph, DITI_F32, rows, model->traits.width, "x");
    y = first ? diti_add_rows(&e.graph, e.x, 0, 0, "x") : diti_transformer_embed(model, &e.graph, d);
    for (i = first; i < end && i < model->traits.layers; i++) y = diti_transformer_block(model, &e.graph, d, i, y);
    if (end > model->traits.layers)
        y = diti_evaluate_pixels(model, &e.graph, d, 1, diti_transformer_final(model, &e.graph, d, y));
    if (!diti_graph_failed(&e.graph)) {
        e.out = diti_tensor_state(&e.graph, DITI_F32, diti_tensor_rows(&e.graph, y), diti_tensor_columns(&e.graph, y),
                                  "out");
        values = (size_t)diti_tensor_rows(&e.graph, y) * diti_tensor_columns(&e.graph, y);
        diti_copy(&e.graph, y, e.out, "out");
    }
    result = diti_plan_create(&e.graph, NULL, &plan, &err);
    if (result >= 0) result = model->family->write_inputs(model, plan, d, &timestep, &err);
    if (result >= 0)
        result = diti_plan_write(plan, d->latent, latent, model->traits.latent_channels * plane * sizeof(float), &err);
    if (result >= 0)
        result = diti_plan_write(plan, d->text, texts->list[0].data,
                                 d->text_tokens * model->traits.text_columns * sizeof(float), &err);
    if (result >= 0)
        result = diti_plan_write(plan, d->pooled, texts->list[texts->count - 1].data,
                                 model->traits.pooled_columns * sizeof(float), &err);
    if (result >= 0) result = diti_plan_write(plan, d->row, &zero, sizeof zero, &err);
    if (result >= 0 && first)
        result = diti_plan_write(plan, e.x, x, (size_t)rows * model->traits.width * sizeof(float), &err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, &err);
    if (result >= 0) result = diti_plan_read(plan, e.out, out, values * sizeof(float), &err);
    CHECK_MESSAGE(result >= 0, "blocks %u to %u: %s", first, end, err.message);
    diti_plan_destroy(plan);
    diti_graph_free(&e.graph);
    diti_free(&model->component.env, d->family);
    return values;
}

enum { MOST_ROWS = 128 * 128, PATTERN_STEPS = 8 };
typedef struct pattern {
    uint32_t first, end, order;
    bool computes[PATTERN_STEPS]; /* with a threshold: what it came to */
    bool fits;                    /* spectrum: by ridge regression on all residuals so far, at most six */
    uint32_t begin, gate;         /* both branches of guidance are evaluated from step begin on, before step gate */
    double threshold;             /* above 0: the change of what blocks in front of the range add decides */
    uint32_t warmup, most;
    double apart; /* the least distance of a change from the threshold, relative to it */
} pattern;

/* Values of Chebyshev's polynomials, cos(k arccos x). */
static void polynomials(uint32_t step, uint32_t order, long double *out) {
    for (uint32_t k = 0; k <= order; k++) out[k] = cosl(k * acosl(2.0L * step / 50 - 1));
}

/* Weights of the steps in the value at `at` of the function that is nearest to them all, where each squared coefficient
   costs 1; by Gauss and Jordan, with pivots. */
static void fit(const uint32_t *steps, uint32_t count, uint32_t at, uint32_t order, double *weights) {
    long double a[6][12] = {{0}}, x[6], target[6];
    const uint32_t n = order + 1;
    for (uint32_t s = 0; s < count; s++) {
        polynomials(steps[s], order, x);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++) a[i][j] += x[i] * x[j];
    }
    for (uint32_t i = 0; i < n; i++) a[i][i] += 1, a[i][n + i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t most = i;
        for (uint32_t k = i; k < n; k++)
            if (fabsl(a[k][i]) > fabsl(a[most][i])) most = k;
        for (uint32_t j = 0; j < 2 * n; j++) {
            long double value = a[i][j];
            a[i][j] = a[most][j], a[most][j] = value;
        }
        for (uint32_t k = 0; k < n; k++) {
            long double factor = a[k][i] / a[i][i];
            for (uint32_t j = 0; j < 2 * n && k != i; j++) a[k][j] -= factor * a[i][j];
        }
    }
    polynomials(at, order, target);
    for (uint32_t s = 0; s < count; s++) {
        polynomials(steps[s], order, x);
        weights[s] = 0;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++) weights[s] += (double)(target[i] * a[i][n + j] / a[i][i] * x[j]);
    }
}

/* Newton's form on the steps that were computed last: the derivative of order i is the divided difference of what
   order i - 1 was. */
static double forecast(double factors[3][MOST_ROWS], uint32_t count, uint32_t order, double distance, size_t i) {
    double value = 0, factor = 1;
    uint32_t k;
    for (k = 0; k <= order && k < count; k++, factor *= distance / k) value += factors[k][i] * factor;
    return value;
}

typedef struct branch { /* the emulation of one branch of guidance */
    generated_inputs texts;
    double factors[3][MOST_ROWS], older[3][MOST_ROWS], residuals[PATTERN_STEPS][MOST_ROWS];
    float input[MOST_ROWS], before[MOST_ROWS], after[MOST_ROWS], prediction[MOST_LATENTS];
    double change[MOST_ROWS]; /* what the first blocks added to the image in the newest step that was computed */
} branch;

/* The rows in front of the range; by how much what the blocks before it add has changed, relative to that. */
static double begin_branch(const dit_job *job, const pattern *p, branch *b, float timestep, const float *latent) {
    const size_t rows = evaluate(job, &b->texts, timestep, 0, p->first, latent, NULL, b->before),
                 text = (size_t)job->shares[0]->program.step.text_tokens * at.model->transformer->traits.width;
    double apart = 0, size = 0;
    size_t i;
    if (p->threshold <= 0) return 0;
    evaluate(job, &b->texts, timestep, 0, 0, latent, NULL, b->input);
    for (i = text; i < rows; i++) {
        apart += fabs((double)b->before[i] - b->input[i] - b->change[i]);
        size += fabs(b->change[i]);
    }
    return size > 0 ? apart / size : 0;
}

/* Keeps what the range adds to the rows, or puts the forecast of it there. */
static void run_range(const dit_job *job, const pattern *p, branch *b, float timestep, const float *latent,
                      uint32_t step, const uint32_t *steps, uint32_t count) {
    const size_t rows = (job->shares[0]->program.step.text_tokens + job->shares[0]->program.step.token_range.rows) *
                        (size_t)at.model->transformer->traits.width;
    double weights[PATTERN_STEPS] = {0}, sum;
    uint32_t k;
    size_t i;
    if (p->computes[step]) {
        evaluate(job, &b->texts, timestep, p->first, p->end, latent, b->before, b->after);
        memcpy(b->older, b->factors, sizeof b->older);
        for (i = 0; i < rows; i++) {
            b->factors[0][i] = (double)b->after[i] - b->before[i];
            b->change[i] = (double)b->before[i] - b->input[i];
            for (k = 1; k <= p->order && k <= count && !p->fits; k++)
                b->factors[k][i] = (b->factors[k - 1][i] - b->older[k - 1][i]) / (step - steps[count - 1]);
        }
        memcpy(b->residuals[count], b->factors[0], sizeof b->factors[0]);
        return;
    }
    if (p->fits) {
        k = count > 6 ? count - 6 : 0;
        fit(steps + k, count - k, step, p->order, weights + k);
        for (i = 0; i < count; i++) weights[i] *= i < k ? 0 : 0.4;
        weights[count - 1] += 0.6 * 1.5;
        weights[count - 2] -= 0.6 * 0.5;
    }
    for (i = 0; i < rows; i++) {
        for (k = 0, sum = 0; k < count; k++) sum += weights[k] * b->residuals[k][i];
        if (!p->fits) sum = forecast(b->factors, count, p->order, step - steps[count - 1], i);
        b->after[i] = (float)((double)b->before[i] + sum);
    }
}

static void run_pattern(const dit_job *job, const generated_inputs *texts, pattern *p, float *latent) {
    static branch branches[2];
    const diti_job_request *request = &job->request;
    const uint32_t layers = at.model->transformer->traits.layers, each = texts->count / (p->gate ? 2 : 1);
    uint32_t step, count = 0, k, steps[PATTERN_STEPS], since = 0;
    size_t values = diti_job_latent_values(job), i;
    double changes[2];
    memset(branches, 0, sizeof branches);
    for (k = 0; k < (p->gate ? 2u : 1u); k++) {
        branches[k].texts.count = each;
        memcpy(branches[k].texts.list, texts->list + k * each, each * sizeof *texts->list);
    }
    memcpy(latent, request->noise, values * sizeof *latent);
    p->apart = 1;
    for (step = 0; step < request->shape.steps; step++) {
        float t = request->schedule.steps[step].timestep,
              next = step + 1 < request->shape.steps ? request->schedule.steps[step + 1].timestep : 0;
        const uint32_t used = step >= p->begin && step < p->gate ? 2 : 1;
        for (k = 0; k < used; k++) changes[k] = begin_branch(job, p, &branches[k], t, latent);
        if (p->threshold > 0) {
            p->computes[step] = !count || step < p->warmup || (p->most && since == p->most);
            for (k = 0; k < used && !p->computes[step]; k++)
                p->apart = fmin(p->apart, fabs(changes[k] / p->threshold - 1));
            for (k = 0; k < used; k++) p->computes[step] |= changes[k] > p->threshold;
        }
        since = p->computes[step] ? 0 : since + 1;
        for (k = 0; k < used; k++) {
            branch *b = &branches[k];
            run_range(job, p, b, t, latent, step, steps, count);
            evaluate(job, &b->texts, t, p->end, layers + 1, latent, b->after, b->prediction);
        }
        if (p->computes[step]) steps[count++] = step;
        for (i = 0; i < values; i++) {
            double v = (double)branches[0].prediction[i];
            if (used == 2) v = branches[1].prediction[i] + 3 * (v - branches[1].prediction[i]);
            latent[i] += (float)((double)(next - t) / 1000 * v);
        }
    }
}

/* EasyCache by its definition: sums over the image's rows in front of the first block and behind the last one.
   computes[]: what it does. */
static void run_easy(const dit_job *job, const generated_inputs *texts, double threshold, uint32_t from, uint32_t to,
                     float *latent, bool *computes) {
    static float before[MOST_ROWS], after[MOST_ROWS], input[MOST_ROWS], output[MOST_ROWS], prediction[MOST_LATENTS];
    const diti_job_request *request = &job->request;
    uint32_t layers = at.model->transformer->traits.layers, step;
    size_t values = diti_job_latent_values(job), rows, i,
           text = (size_t)job->shares[0]->program.step.text_tokens * at.model->transformer->traits.width;
    double rate = 0, error = 0, size = 0;
    memcpy(latent, request->noise, values * sizeof *latent);
    for (step = 0; step < request->shape.steps; step++) {
        float t = request->schedule.steps[step].timestep,
              next = step + 1 < request->shape.steps ? request->schedule.steps[step + 1].timestep : 0;
        double change = 0, apart = 0;
        rows = evaluate(job, texts, t, 0, 0, latent, NULL, before);
        for (i = text; i < rows; i++) change += fabs((double)before[i] - input[i]);
        computes[step] = step < from || step >= to || rate == 0;
        if (rate > 0) error += rate * change / size;
        computes[step] |= error >= threshold;
        if (computes[step]) {
            error = 0, size = 0;
            evaluate(job, texts, t, 0, layers, latent, before, after);
            for (i = text; i < rows; i++) apart += fabs((double)after[i] - output[i]), size += fabs((double)after[i]);
            if (step > 0) rate = apart / change;
            memcpy(input, before, sizeof input), memcpy(output, after, sizeof output);
        } else {
            for (i = 0; i < rows; i++) after[i] = (float)((double)before[i] + ((double)output[i] - input[i]));
        }
        evaluate(job, texts, t, layers, layers + 1, latent, after, prediction);
        for (i = 0; i < values; i++) latent[i] += (next - t) / 1000 * prediction[i];
    }
}

static void test_easy(void) {
    static const asked a = {3, 2, 1, PATTERN_STEPS, 0, 0, 0, "euler", false, 0, NULL};
    static float latent[MOST_LATENTS];
    static outcome all, got;
    generated_inputs texts;
    bool computes[PATTERN_STEPS];
    dit_job *job = NULL;
    dit_status status;
    uint32_t wanted = 0, step;
    double off, apart;
    if (!open_model(&flux)) return;
    cache = NULL;
    run_cached(&a, NULL, &all);
    cache = "easycache:threshold=1.25,from=2,to=7";
    generated_texts(&texts, at.model, GENERATED_TOKENS2, false);
    if (CHECK_MESSAGE(make_cached(&a, NULL, &job) == DIT_OK && wait_for(job, 120) == DIT_OK, "%s", err.message) &&
        CHECK(read_latent(job, 0, &got) == DIT_OK)) {
        run_easy(job, &texts, 1.25, 2, 7, latent, computes);
        for (step = 0; step < PATTERN_STEPS; step++) wanted += !computes[step];
        dit_job_status(job, &status, NULL);
        CHECK_MESSAGE(status.reused == wanted && wanted > 1 && wanted < 5, "%u steps reused, not %u", status.reused,
                      wanted);
        off = relative_l2(got.latent, latent, NULL, got.count);
        apart = relative_l2(got.latent, all.latent, NULL, got.count);
        CHECK_MESSAGE(off <= 1e-5 && apart > 10 * off, "easycache: off by %.3g, and %.3g from no cache", off, apart);
    }
    generated_free_inputs(&texts);
    dit_job_destroy(job);
}

/* Steps that reused blocks are those of the pattern. */
static void check_steps(const dit_job *job, const char *named, const pattern *p) {
    const diti_program *program = &job->shares[0]->program;
    float state[DITI_REUSE_STATE + PATTERN_STEPS] = {0};
    char said[2][PATTERN_STEPS + 1] = {"", ""};
    uint32_t step;
    if (!job->request.reuses) return; /* a gate alone */
    if (program->residuals[0].state)
        CHECK(diti_plan_read(program->plan, program->residuals[0].state, state, sizeof state, &err) == DIT_OK);
    for (step = 0; step < PATTERN_STEPS; step++) {
        bool reuses = program->residuals[0].state ? state[DITI_REUSE_STATE + step] > 0 : job->request.reuses[step] > 0;
        said[0][step] = reuses ? '-' : '#';
        said[1][step] = p->computes[step] ? '#' : '-';
    }
    CHECK_MESSAGE(!strcmp(said[0], said[1]), "%s: computed %s instead of %s", named, said[0], said[1]);
    CHECK_MESSAGE(strchr(said[1], '-'), "%s: no step reuses blocks", named);
}

static void test_pattern(const char *named, pattern *p) {
    const asked a = {3,       2,     1, PATTERN_STEPS, 0, (float)p->begin / PATTERN_STEPS, p->begin ? 1.0f : 0,
                     "euler", false, 0, NULL};
    static float latent[MOST_LATENTS];
    static outcome all;
    generated_inputs texts;
    outcome *got = (outcome *)calloc(1, sizeof *got);
    dit_job *job = NULL;
    double off, apart;
    cache = NULL;
    run_cached(&a, NULL, &all);
    cache = named;
    generated_texts(&texts, at.model, GENERATED_TOKENS2, p->gate > 0);
    if (CHECK_MESSAGE(make_cached(&a, NULL, &job) == DIT_OK && wait_for(job, 120) == DIT_OK, "%s: %s", named,
                      err.message) &&
        CHECK(read_latent(job, 0, got) == DIT_OK)) {
        run_pattern(job, &texts, p, latent);
        check_steps(job, named, p);
        off = relative_l2(got->latent, latent, NULL, got->count);
        apart = relative_l2(got->latent, all.latent, NULL, got->count);
        CHECK_MESSAGE(off <= 1e-5 && apart > 10 * off, "%s: off by %.3g, and %.3g from no cache", named, off, apart);
        CHECK_MESSAGE(p->apart > 0.01, "%s: a change is within %.2g of the threshold, which either may cross", named,
                      p->apart);
    }
    generated_free_inputs(&texts);
    dit_job_destroy(job);
    free(got);
}

static void test_patterns(bool sweeps) {
    pattern delta = {1, 4, 0, {1, 1, 1, 0, 1, 0, 1, 1}, false, 0, 0, 0, 0, 0, 0};
    pattern taylor = {2, 0, 2, {1, 1, 1, 0, 1, 0, 0, 1}, false, 0, 0, 0, 0, 0, 0};
    pattern spectrum = {1, 0, 3, {1, 1, 1, 0, 1, 0, 1, 1}, true, 0, 0, 0, 0, 0, 0};
    pattern first = {2, 0, 0, {0}, false, 0, 0, 1.2, 2, 2, 0};
    if (!open_model(&flux)) return;
    taylor.end = spectrum.end = at.model->transformer->traits.layers;
    first.end = taylor.end - 1;
    if (sweeps) test_pattern("delta:first=1,blocks=3,from=3,to=7,interval=2", &delta);
    test_pattern("taylor:first=2,order=2,from=3,interval=3", &taylor);
    test_pattern("spectrum:first=1,warmup=3", &spectrum);
    test_pattern("dbcache:front=2,back=1,threshold=1.2,warmup=2,most=2", &first);
}

/* The unconditional branch is dropped late, alone and beside a cache; guidance that begins late has residuals of both
   branches from then on alone. */
static void test_gates(bool sweeps) {
    pattern gate = {1, 4, 0, {1, 1, 1, 1, 1, 1, 1, 1}, false, 0, 5, 0, 0, 0, 0};
    pattern delta = {1, 3, 0, {1, 1, 1, 0, 1, 0, 1, 0}, false, 0, 5, 0, 0, 0, 0};
    pattern taylor = {1, 3, 1, {1, 1, 1, 0, 1, 1, 1, 0}, false, 5, 7, 0, 0, 0, 0};
    pattern first = {1, 3, 0, {0}, false, 0, 5, 1.2, 0, 0, 0};
    if (!open_model(&small)) return;
    test_pattern("delta:first=1,blocks=2,from=3,interval=2+gate:5", &delta);
    test_pattern("fbcache:front=1,back=1,threshold=1.2+gate:5", &first);
    if (!sweeps) return;
    test_pattern("gate:5", &gate);
    test_pattern("taylor:first=1,blocks=2,order=1,from=3,interval=2+gate:7", &taylor);
}

/* ---- presets ---- */

/* Policy of "auto", steps that the host knows to reuse blocks, and the step of the gate. */
static void test_preset(const generated_model *shape, uint32_t steps, diti_reuse_policy policy, uint32_t reuses,
                        uint32_t gate) {
    const asked a = {2, 2, 1, steps, 0, 0, 0, NULL, false, 0, NULL};
    dit_job *job = NULL;
    uint32_t count = 0, step;
    if (shape && !open_model(shape)) return;
    cache = "auto";
    if (CHECK_MESSAGE(make_cached(&a, NULL, &job) == DIT_OK, "%s", err.message)) {
        const diti_reuse *reuse = &job->request.shape.reuse;
        for (step = 0; job->request.reuses && step < steps; step++) count += job->request.reuses[step];
        CHECK_MESSAGE(reuse->policy == policy && count == reuses && reuse->gate_step == gate,
                      "auto, %u steps: policy %d instead of %d, %u steps reuse and not %u, gate at %u and not at %u",
                      steps, (int)reuse->policy, (int)policy, count, reuses, reuse->gate_step, gate);
    }
    dit_job_destroy(job);
}

/* Few steps have nothing to spare; some have every second one. */
static void test_presets(void) {
    test_preset(&hunyuan, 4, DITI_REUSE_NONE, 0, 0);
    test_preset(NULL, 9, DITI_REUSE_NONE, 0, 0);
    test_preset(NULL, 10, DITI_REUSE_DELTA, 4, 0);
    test_preset(NULL, 15, DITI_REUSE_DELTA, 6, 0);
    test_preset(NULL, 16, DITI_REUSE_TAYLOR, 9, 0);
    test_preset(NULL, 20, DITI_REUSE_TAYLOR, 11, 0);
    test_preset(&flux, 9, DITI_REUSE_NONE, 0, 0);
    test_preset(NULL, 10, DITI_REUSE_FIRST_BLOCK, 0, 0);
    test_preset(&sd3, 9, DITI_REUSE_NONE, 0, 0);
    test_preset(NULL, 28, DITI_REUSE_DELTA, 9, 20);
}

/* ---- schedules ---- */

/* Steps that reuse blocks are those marked with '-'; the gate is at step `gate`, and then auto takes no split whose
   devices keep parts of the weights, which needs both branches of guidance in every step. */
static void test_schedule(const char *named, const char *steps, uint32_t gate) {
    const asked a = {2, 2, 1, (uint32_t)strlen(steps), 0, 0, 0, NULL, false, 0, NULL};
    generated_inputs inputs;
    dit_job_desc desc = request_asked(&at, &a, NULL, &inputs);
    diti_job_request request;
    char got[32] = "";
    uint32_t step;
    desc.cache = named;
    if (CHECK_MESSAGE(diti_job_request_make(at.model, &at.model->env, &desc, NULL, &request, &err) == DIT_OK, "%s: %s",
                      named, err.message)) {
        for (step = 0; step < a.steps; step++) got[step] = request.reuses && request.reuses[step] ? '-' : '#';
        CHECK_MESSAGE(!strcmp(got, steps) && request.shape.reuse.gate_step == gate, "%s: %s, not %s; gate at %u", named,
                      got, steps, request.shape.reuse.gate_step);
        CHECK_MESSAGE(!(diti_auto_methods(at.model, &request) & DITI_SPLIT_SHARDS) == (gate > 0),
                      "%s: auto may divide weights, although cfg2,shard is refused with a gate", named);
        diti_job_request_free(&at.model->env, &request);
    }
    generated_free_inputs(&inputs);
}

/* Numbers at the ends of what is allowed, and few steps. */
static void test_schedules(void) {
    if (!open_model(&small)) return;
    test_schedule("delta:interval=4294967296", "##-#--", 0);
    test_schedule("taylor:interval=4294967296", "##-#--", 0);
    test_schedule("spectrum:interval=4294967296,warmup=2,to=6", "##----", 0);
    test_schedule("spectrum:grow=4294967295,warmup=1,to=6", "##----", 0);
    test_schedule("delta:from=0,interval=1", "####", 0);
    test_schedule("delta", "#", 0);
    test_schedule("taylor", "#-", 0);
    test_schedule("mag:ratios=1/1", "##---#---#", 0);
    test_schedule("mag:ratios=1/1,retain=0", "#---#---#-", 0);
    test_schedule("mag:ratios=1/1,retain=0.04", "#---#---#-", 0);
    test_schedule("mag:ratios=1/1,retain=3", "###---#---", 0);
    test_schedule("gate:0.01", "######", 1);
    test_schedule("gate:0.3", "######", 2);
    test_schedule("gate:0.3", "#", 1);
}

/* ---- operations ---- */

/* Counts those of one run of a segment. */
static double operations(const dit_job *job, uint32_t segment) {
    const diti_plan *plan = job->shares[0]->program.plan;
    double sum = 0;
    size_t i;
    for (i = 0; i < plan->source_count; i++)
        if (plan->sources[i].segment == segment) sum += plan->sources[i].flops;
    return sum;
}

static double operations_of_steps(const dit_job *job) {
    const diti_share *share = job->shares[0];
    uint32_t segment;
    double sum = 0;
    for (segment = share->program.step_segment; segment < share->program.decode_segment; segment++)
        if (diti_share_is_step(share, segment))
            sum += diti_share_runs(share, segment, UINT32_MAX) * operations(job, segment);
    return sum;
}

/* Operations of all steps, and of the first one. */
static double count_operations(const char *named, double *step) {
    static const asked a = {4, 4, 1, 28, 0, 0, 0, NULL, false, 0, NULL};
    dit_job *job = NULL;
    double sum = 0;
    cache = named;
    if (CHECK_MESSAGE(make_cached(&a, NULL, &job) == DIT_OK, "%s", err.message)) {
        sum = operations_of_steps(job);
        if (step) *step = operations(job, job->shares[0]->program.step_segment);
    }
    dit_job_destroy(job);
    return sum;
}

/* The published schedule of SD3: 20 of 24 blocks in nine of 28 steps, guidance in the first 20. */
static void test_operations(void) {
    double all, step, less, block, cached, gated, alone;
    if (!open_model(&sd3_less)) return;
    count_operations(NULL, &less);
    if (!open_model(&sd3)) return;
    all = count_operations(NULL, &step);
    block = step - less;
    cached = count_operations("delta:first=1,blocks=20,from=10,interval=2", NULL);
    gated = count_operations("delta:first=1,blocks=20,from=10,interval=2+gate:20", NULL);
    alone = step / 2; /* one of two branches */
    CHECK_MESSAGE(fabs(all - 28 * step) <= 1e-9 * all, "28 steps have %.6g operations, one %.6g", all, step);
    CHECK_MESSAGE(fabs(cached - (28 * step - 9 * 20 * block)) <= 1e-9 * all, "%.6g operations, predicted %.6g", cached,
                  28 * step - 9 * 20 * block);
    CHECK_MESSAGE(fabs(gated - (20 * step - 5 * 20 * block + 8 * alone - 4 * 10 * block)) <= 1e-9 * all,
                  "%.6g operations, predicted %.6g", gated, 20 * step - 5 * 20 * block + 8 * alone - 4 * 10 * block);
    printf("SD3's schedule: %.1f %% fewer operations in all steps, with the gate %.1f %%\n", 100 - 100 * cached / all,
           100 - 100 * gated / all);
}

/* ---- other ways to run ---- */

static void test_split(const asked *a, const char *const *splits, uint32_t count, const char *named) {
    outcome *one = (outcome *)calloc(2, sizeof *one), *other = one + 1;
    uint32_t i, alone;
    cache = named;
    if (run_cached(a, NULL, one))
        for (i = 0, alone = reused; i < count; i++)
            if (run_cached(a, splits[i], other))
                CHECK_MESSAGE(difference(other, one) <= 1e-4 && reused == alone,
                              "%s, %s: off by %.3g, %u steps reused, alone %u", named, splits[i],
                              difference(other, one), reused, alone);
    free(one);
}

/* Thresholds such that some steps are computed and some are not. */
static void test_splits(bool sweeps) {
    static const asked few = {2, 2, 1, 5, 0, 0, 0, NULL, false, 0, NULL},
                       gated = {2, 2, 1, 6, 0, 0, 0.5f, NULL, false, 0, NULL};
    static const asked guided = {2, 2, 1, 8, 0, 0, 0, NULL, false, 0, NULL};
    static const char *const splits[] = {"layers2", "ulysses2", "cfg2", "ring2", "tensor2", "cfg2,layers2"},
                             *const deeper[] = {"layers3", "layers4"};
    uint32_t count = sweeps ? DITI_COUNT(splits) : 1;
    if (!open_model(&small)) return;
    test_split(&few, splits, count, "fbcache:threshold=1.5");
    test_split(&guided, splits, count, EASY);
    CHECK_MESSAGE(reused > 0 && reused < 6, EASY ": %u of 8 steps reused blocks", reused);
    test_split(&gated, sweeps ? splits : splits + 2, count, "fbcache:threshold=1.5,front=1,back=1");
    if (!sweeps) return;
    test_split(&few, splits, count, "delta:first=1,blocks=2,from=2");
    if (!open_model(&hunyuan)) return;
    test_split(&few, splits, 5, "taylor:first=1,blocks=6,order=2,from=2");
    test_split(&few, splits, count, "fbcache:threshold=1.5");
    test_split(&few, deeper, 2, "fbcache:threshold=1.5,front=2");
    test_split(&guided, deeper, 2, EASY);
}

/* ---- strips of PipeFusion, each with residuals of its own ---- */

/* The latent in doubles of steps that reuse blocks [1, 3) of the small model. */
static void check_emulated(const asked *a, const bool *reuses, const outcome *got) {
    static float start[MOST_LATENTS];
    stale_model model;
    stale_request r = DITI_ZERO;
    generated_inputs inputs;
    dit_job *job = NULL;
    double *latent, error = 0, norm = 0;
    size_t i;
    generated_texts(&inputs, at.model, GENERATED_TOKENS2, true);
    stale_load(&model, &small);
    if (CHECK_MESSAGE(make_cached(a, "pipefusion1:m2w1", &job) == DIT_OK, "%s", err.message)) {
        r.columns = a->columns;
        r.rows = a->rows;
        r.steps = a->steps;
        r.strips = 2;
        r.warmup = r.range = 1;
        r.range_end = 3;
        r.reuses = reuses;
        r.scale = 3;
        r.schedule = job->request.schedule.steps;
        r.inputs = &inputs;
        for (i = 0; i < got->count; i++) start[i] = job->request.noise[i];
        r.start = start;
        latent = stale_picture(&model, &r);
        for (i = 0; i < got->count; i++) {
            error += (got->latent[i] - latent[i]) * (got->latent[i] - latent[i]);
            norm += latent[i] * latent[i];
        }
        CHECK_MESSAGE(sqrt(error / norm) <= 1e-5, "%s: off by %.3g from doubles", cache, sqrt(error / norm));
        free(latent);
    }
    dit_job_destroy(job);
    stale_free(&model);
    generated_free_inputs(&inputs);
}

/* The first step is evaluated whole, the second one computes the strips' first residuals. */
static void test_strips(bool sweeps) {
    static const asked few = {4, 4, 1, 7, 0, 0, 0, "euler", false, 0, NULL},
                       apart = {4, 5, 2, 8, 3, 0.2f, 0.8f, "dpm++2m", false, 0, NULL};
    static const bool reuses[] = {false, false, true, false, true, false, false};
    static const char *const named[] = {"delta:first=1,blocks=2,from=2,to=5", "taylor:first=1,blocks=2,order=2,from=2",
                                        "spectrum:first=1,blocks=2,warmup=3", "delta:first=1,blocks=2,from=2+gate:4",
                                        "mag:ratios=1/1.01/0.99"};
    static const char *const splits[] = {"pipefusion2:m2w1", "cfg2,pipefusion2:m2w1", "pipefusion2,ulysses2:m2w1"};
    outcome *one = (outcome *)calloc(3, sizeof *one), *other = one + 1, *all = one + 2;
    size_t i, k;
    cache = NULL;
    run_cached(&few, "pipefusion1:m2w1", all);
    for (i = 0; i < (sweeps ? DITI_COUNT(named) : 1); i++) {
        cache = named[i];
        if (!run_cached(&few, "pipefusion1:m2w1", one)) continue;
        CHECK_MESSAGE(reused > 1 && reused < 6 && difference(one, all) > 1e-4,
                      "%s: %u steps reused, %.3g from no cache", cache, reused, difference(one, all));
        if (!i) check_emulated(&few, reuses, one);
        for (k = 0; k < (sweeps ? 2 : 1); k++)
            if (run_cached(&few, splits[k], other))
                CHECK_MESSAGE(difference(other, one) <= 1e-5, "%s, %s: off by %.3g", cache, splits[k],
                              difference(other, one));
        if (sweeps && run_cached(&apart, "pipefusion1:m5w2", one) && run_cached(&apart, "pipefusion2:m5w2", other))
            CHECK_MESSAGE(difference(other, one) <= 1e-4, "%s, m5w2: off by %.3g", cache, difference(other, one));
    }
    free(one);
}

/* Step by step with a small budget, and once more, gives the same bytes; how many steps reused blocks is told. */
static void test_steps(const char *named) {
    static const asked a = {2, 2, 2, 5, 0, 0, 0, NULL, false, 0, NULL};
    outcome *one = (outcome *)calloc(2, sizeof *one), *other = one + 1;
    generated_inputs inputs;
    dit_status status;
    dit_job_desc desc = request_asked(&at, &a, NULL, &inputs);
    dit_job *job = NULL;
    dit_result result;
    dit_counters begun, ended;
    int run;
    cache = desc.cache = named;
    run_cached(&a, NULL, one);
    result = dit_job_create(at.context, &desc, &job, &err);
    dit_job_get_counters(job, &begun);
    for (run = 0; run < 2 && result >= 0; run++) {
        memset(other, 0, sizeof *other);
        do result = dit_job_step(job, 500);
        while (result == DIT_WORKING);
        if (result == DIT_OK) result = read_latent(job, 0, other);
        CHECK_MESSAGE(result >= 0 && !memcmp(one->latent, other->latent, one->count * sizeof(float)), "%s, run %d: %s",
                      named, run, result < 0 ? err.message : "other bytes");
        dit_job_status(job, &status, NULL);
        CHECK_MESSAGE(status.reused > 0 && status.reused < 4, "%s: %u of 5 steps reused blocks", named, status.reused);
        if (result >= 0 && !run) result = dit_job_restart(job, &desc, &err);
    }
    dit_job_get_counters(job, &ended);
    CHECK(ended.allocations == begun.allocations && ended.pipelines == begun.pipelines);
    dit_job_destroy(job);
    generated_free_inputs(&inputs);
    free(one);
}

/* Weights that come while the job runs. */
static void test_streamed(void) {
    static const asked a = {2, 2, 1, 5, 0, 0, 0, NULL, false, 0, NULL};
    static const char *const named[] = {"fbcache:threshold=1.5", "taylor:first=1,order=2,from=2"};
    outcome *one = (outcome *)calloc(3, sizeof *one);
    dit_model_desc desc = DITI_ZERO;
    const char *least;
    size_t i;
    if (open_model(&small))
        for (i = 0; i < 2; i++) cache = named[i], run_cached(&a, NULL, &one[i]);
    close_model(&at);
    desc.weight_budget = 1;
    CHECK(load_denoiser(&at, &small, DIT_TYPE_STORED, desc) == DIT_ERROR_INVALID_ARGUMENT);
    least = strstr(err.message, "at least ");
    if (CHECK_MESSAGE(least != NULL, "%s", err.message) &&
        open_budget(&small, strtoull(least + strlen("at least "), NULL, 10))) {
        CHECK(at.model->stream != NULL);
        for (i = 0; i < 2; i++) {
            cache = named[i];
            if (run_cached(&a, NULL, &one[2]))
                CHECK_MESSAGE(difference(&one[2], &one[i]) <= 1e-6, "%s, streamed: off by %.3g", named[i],
                              difference(&one[2], &one[i]));
        }
    }
    free(one);
}

/* ---- refusals ---- */

static void refused(const generated_model *shape, const char *split, const char *named, const char *said) {
    static const asked a = {4, 4, 1, 4, 0, 0, 0, NULL, false, 0, NULL};
    dit_job *job = NULL;
    if (shape && !open_model(shape)) return;
    cache = named;
    CHECK_MESSAGE(make_cached(&a, split, &job) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, said),
                  "\"%s\": \"%s\" should say \"%s\"", named, err.message, said);
    dit_job_destroy(job);
}

static void test_refusals(void) {
    static const char *const unknown[] = {"",
                                          "delt",
                                          "delta:",
                                          "delta:first",
                                          "delta:first=",
                                          "delta:first=1.2.3",
                                          "delta:first=.5",
                                          "delta:first=1,",
                                          "delta:first=1,first=2",
                                          "delta:order=1",
                                          "delta+taylor",
                                          "gate",
                                          "gate:",
                                          "gate:0",
                                          "gate:3+gate:4",
                                          "delta:interval=1x",
                                          "deltas",
                                          "fbcache:threshold=1+",
                                          "mag:ratios=1/",
                                          "delta:first=-1"};
    size_t i;
    if (!open_model(&hunyuan)) return;
    for (i = 0; i < DITI_COUNT(unknown); i++) refused(NULL, NULL, unknown[i], "is unknown");
    refused(NULL, NULL, "taylor:order=3", "order above 2");
    refused(NULL, NULL, "delta:interval=0", "interval below 1");
    refused(NULL, NULL, "spectrum:order=6", "spectrum: 5");
    refused(NULL, NULL, "spectrum:ridge=0", "ridge");
    refused(NULL, NULL, "mag", "ratios");
    refused(NULL, NULL, "easycache:first=1", "is unknown");
    refused(NULL, NULL, "delta:first=8", "no block");
    refused(NULL, NULL, "delta:first=2,blocks=7", "beyond");
    refused(NULL, NULL, "delta:first=1,blocks=4", "mirrored");
    refused(NULL, NULL, "fbcache:front=1,back=2", "mirrored");
    refused(NULL, NULL, "fbcache:front=0", "none before");
    refused(NULL, "pipefusion2", "fbcache", "stages see a patch at a time");
    refused(NULL, NULL, "references", "references");
}

int main(void) {
    bool sweeps = whole_sweep();
    test_vulkan_begin();
    if (CHECK_MESSAGE(open_devices(&at, 4, "rung=base", 0) == DIT_OK, "%s", err.message)) {
        test_refusals();
        test_patterns(sweeps);
        test_gates(sweeps);
        test_presets();
        test_schedules();
        test_easy();
        test_operations();
        test_splits(sweeps);
        if (open_model(&small)) test_strips(sweeps);
        test_steps("fbcache:threshold=1.5");
        if (sweeps) test_steps("taylor:order=1,from=2");
        if (sweeps) test_steps("easycache:threshold=1.25,from=2,to=5");
        if (sweeps) test_streamed();
    }
    close_maker(&at);
    test_vulkan_end();
    return TEST_END("reuse");
}
