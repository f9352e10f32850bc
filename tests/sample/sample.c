/* sample: noise, schedules and solvers. The trajectories themselves are compared by golden (tests/fixtures/schedulers).
 */
#include "library.h"
#include "test.h"
#include "files.h"

#define RFLOW "{\"_class_name\":\"rflow\",\"use_timestep_transform\":true}"

/* --- noise --- */
static bool near(const float *out, const double *expected, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (!(fabs((double)out[i] - expected[i]) <= 1e-6)) return false; /* printed to 8 digits */
    }
    return true;
}

static void test_philox(void) {
    static const double zero[] = {-0.92466259, -0.42534415, -2.64384570, 0.14518388,
                                  -0.12086647, -0.57972564, -0.62285122, -0.32838709};
    static const double first[] = {0.19401896, 2.16137393, -0.17205083, 0.84906020},
                        second[] = {0.13913750, -0.10821651, -0.71742228, 0.75664864};
    static const double wide[] = {-0.52246868, -1.51903636};
    float out[8];
    diti_philox_normal(0, 0, out, 8);
    CHECK(near(out, zero, 8));
    diti_philox_normal(42, 0, out, 4);
    CHECK(near(out, first, 4));
    diti_philox_normal(42, 1, out, 4);
    CHECK(near(out, second, 4));
    diti_philox_normal(7 * 4294967296ull + 1, 0, out, 2);
    CHECK(near(out, wide, 2));
}

/* The cached half of a pair outlives a draw of 16 and more, and only the low 32 bits of a seed count. */
static void test_torch_cache(void) {
    diti_random a, b;
    float pair[2], single[1], block[16], rest[1], same[2];
    diti_random_seed(&a, 5);
    diti_random_normal(&a, pair, 2);
    diti_random_seed(&b, 5 + (1ull << 32));
    diti_random_normal(&b, single, 1);
    diti_random_normal(&b, block, 16);
    diti_random_normal(&b, rest, 1);
    CHECK(single[0] == pair[0] && rest[0] == pair[1]);
    diti_random_normal(&b, block, 0);
    diti_random_seed(&b, 5);
    diti_random_normal(&b, same, 2);
    CHECK(memcmp(same, pair, sizeof pair) == 0);
}

static void test_noise_is_normal(void) {
    enum { COUNT = 100000 };
    float *out = (float *)malloc(COUNT * sizeof(float));
    double sum = 0, square = 0;
    int i;
    diti_philox_normal(123, 0, out, COUNT);
    for (i = 0; i < COUNT; i++) sum += (double)out[i], square += (double)out[i] * (double)out[i];
    CHECK(fabs(sum / COUNT) < 0.02 && fabs(square / COUNT - 1) < 0.02); /* six standard deviations */
    free(out);
}

/* --- configs --- */
#define EPSILON                                                                                                        \
    "{\"_class_name\":\"DPMSolverMultistepScheduler\",\"prediction_type\":\"epsilon\",\"lambda_min_clipped\":-Infinity,\"sample_max_value\":NaN}"
#define V_ZERO_SNR                                                                                                     \
    "{\"_class_name\":\"DDIMScheduler\",\"prediction_type\":\"v_prediction\",\"clip_sample\":false,\"beta_schedule\":\"scaled_linear\",\"beta_start\":0.00085,\"beta_end\":0.012,\"timestep_spacing\":\"trailing\",\"rescale_betas_zero_snr\":true}"
#define SAMPLE                                                                                                         \
    "{\"_class_name\":\"DDIMScheduler\",\"prediction_type\":\"sample\",\"clip_sample\":false,\"beta_schedule\":\"squaredcos_cap_v2\"}"
#define SD15                                                                                                           \
    "{\"_class_name\":\"EulerDiscreteScheduler\",\"beta_schedule\":\"scaled_linear\",\"beta_start\":0.00085,\"beta_end\":0.012,\"timestep_spacing\":\"leading\",\"steps_offset\":1}"
#define FLOW_DPM                                                                                                       \
    "{\"_class_name\":\"DPMSolverMultistepScheduler\",\"prediction_type\":\"flow_prediction\",\"use_flow_sigmas\":true,\"flow_shift\":2.0,\"lambda_min_clipped\":-Infinity}"
#define FLOW_EULER "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":2.0}"

static diti_json *parse(const diti_env *env, const char *text) {
    diti_json *root = NULL;
    if (text) CHECK(diti_json_parse(env, text, strlen(text), "config", &root, NULL) == DIT_OK);
    return root;
}

static dit_result make(const diti_env *env, const char *config, const diti_schedule_request *request,
                       diti_schedule *out, dit_error *err) {
    diti_json *root = parse(env, config);
    dit_result result;
    memset(err, 0, sizeof *err);
    result = diti_schedule_make(env, root, request, out, err);
    diti_json_free(env, root);
    return result;
}

static diti_schedule_request request_of(uint32_t steps, const char *sampler, const char *schedule) {
    diti_schedule_request request = DITI_ZERO;
    request.steps = steps;
    request.sampler = sampler;
    request.schedule = schedule;
    return request;
}

/* --- one pixel whose true x0 is known: with a perfect model every sampler must end there, on every schedule --- */
typedef struct perfect {
    const char *config;
    diti_prediction prediction;
    bool flow;
} perfect;

static double perfect_output(const perfect *model, const diti_step *step, double x, double x0) {
    double sigma = (double)step->sigma, alpha = 1 / sqrt(sigma * sigma + 1), noise = sigma * alpha, epsilon;
    if (model->flow) return (x - x0) / sigma;
    if (isinf(sigma)) alpha = 0, noise = 1;
    epsilon = (x * (double)step->input - alpha * x0) / noise; /* the model sees input * x */
    if (model->prediction == DITI_PREDICT_SAMPLE) return x0;
    return model->prediction == DITI_PREDICT_V ? alpha * epsilon - noise * x0 : epsilon;
}

static double perfect_end(const perfect *model, const diti_schedule *schedule, double x0) {
    double x = 0.7 * (double)schedule->initial, y = 0, last, h[4] = {0, 0, 0, 0};
    uint32_t i;
    for (i = 0; i < schedule->count; i++) {
        const diti_step *s = &schedule->steps[i];
        double m = perfect_output(model, s, x, x0);
        h[0] = fmin(fmax((double)s->x0_x * x + (double)s->x0_m * m, -(double)s->clip), (double)s->clip);
        last = x;
        x = (double)s->x_x * x + (double)s->x_m * m + (double)s->x_y * y + (double)s->d0 * h[0] + (double)s->d1 * h[1] +
            (double)s->d2 * h[2] + (double)s->d3 * h[3] + (double)s->noise * exp((double)s->noise_v * 0.2) * 0.3;
        y = (double)s->y_x * last + (double)s->y_y * y + (double)s->e0 * h[0] + (double)s->e1 * h[1] +
            (double)s->e2 * h[2];
        if (s->push != 0) h[3] = h[2], h[2] = h[1], h[1] = h[0];
    }
    return x;
}

static bool is_stochastic(const char *sampler) {
    return strstr(sampler, "sde") || diti_equal(sampler, "euler-a") || diti_equal(sampler, "ddpm") ||
           diti_equal(sampler, "lcm") || diti_equal(sampler, "dpm2-a") || diti_equal(sampler, "res-multistep-a");
}

static bool is_double(const char *sampler) {
    return diti_equal(sampler, "heun") || diti_starts_with(sampler, "dpm2") || diti_equal(sampler, "res-2s");
}

/* Evaluations of the model in so many steps. */
static uint32_t calls_of(const char *sampler, uint32_t steps) {
    if (is_double(sampler)) return 2 * steps - 1;
    return steps + (diti_equal(sampler, "pndm") && steps > 1 ? 1 : 0);
}

static bool has_second_latent(const char *sampler, uint32_t steps) {
    if (diti_equal(sampler, "unipc") || diti_equal(sampler, "dpm++2s")) return steps > 2;
    return (is_double(sampler) || diti_equal(sampler, "pndm")) && steps > 1;
}

/* Every step must show the known x0, whatever the sampler remembers in its place. */
static bool shows_x0(const perfect *model, const diti_schedule *schedule, double x0) {
    uint32_t i;
    for (i = 0; i < schedule->count; i++) {
        const diti_step *s = &schedule->steps[i];
        double x = 0.3, m = perfect_output(model, s, x, x0), kept = (double)s->x0_x * x + (double)s->x0_m * m;
        double shown = (double)s->shown_x * x + (double)s->shown_x0 * kept;
        if (!(fabs(shown - x0) < 2e-3)) return false; /* sigmas up to 4096, floats */
    }
    return true;
}

static void test_every_sampler_arrives(const diti_env *env) {
    static const perfect models[] = {
        {EPSILON, DITI_PREDICT_EPSILON, false}, {V_ZERO_SNR, DITI_PREDICT_V, false},
        {SAMPLE, DITI_PREDICT_SAMPLE, false},   {SD15, DITI_PREDICT_EPSILON, false},
        {FLOW_DPM, DITI_PREDICT_FLOW, true},    {FLOW_EULER, DITI_PREDICT_FLOW, true},
    };
    static const uint32_t steps[] = {1, 2, 3, 4, 7, 8, 20, 50};
    size_t m, n;
    uint32_t s;
    for (m = 0; m < 6; m++) {
        for (s = 0; dit_sampler_name(s); s++) {
            for (n = 0; n < DITI_COUNT(steps); n++) {
                diti_schedule_request request = request_of(steps[n], dit_sampler_name(s), NULL);
                diti_schedule schedule = DITI_ZERO;
                dit_error err;
                dit_result result;
                double end;
                if (diti_equal(request.sampler, "pndm") && (models[m].flow || m == 1)) continue; /* test_bad_requests */
                if (diti_equal(request.sampler, "scm")) continue;                                /* test_angles */
                if (diti_equal(request.sampler, "ddim") && 1000 % steps[n]) continue; /* it ends a little before x0 */
                if (diti_equal(request.sampler, "ddim") && n > 2) request.eta = 0.5f;
                result = make(env, models[m].config, &request, &schedule, &err);
                CHECK_MESSAGE(result == DIT_OK && schedule.count == calls_of(request.sampler, steps[n]) &&
                                  diti_equal(schedule.sampler, request.sampler),
                              "model %d, %s, %u steps: %s", (int)m, request.sampler, steps[n], err.message);
                if (result < 0) continue;
                end = perfect_end(&models[m], &schedule, -0.4);
                CHECK_MESSAGE(fabs(end + 0.4) < 2e-4, "model %d, %s, %u steps ends at %g", (int)m, request.sampler,
                              steps[n], end); /* float coefficients over 50 steps, sigmas up to 4096 */
                CHECK(schedule.draws == (request.eta > 0 || is_stochastic(request.sampler)) || steps[n] == 1);
                CHECK_MESSAGE(schedule.has_y == has_second_latent(request.sampler, steps[n]), "%s, %u steps",
                              request.sampler, steps[n]);
                CHECK_MESSAGE(shows_x0(&models[m], &schedule, -0.4), "model %d, %s, %u steps shows another picture",
                              (int)m, request.sampler, steps[n]);
                diti_schedule_free(env, &schedule);
            }
        }
    }
}

/* Every schedule name with every sampler: a table or an error that names another choice. */
static void test_every_schedule(const diti_env *env) {
    static const char *const configs[] = {EPSILON, FLOW_DPM};
    uint32_t s, n, c;
    int made = 0;
    for (c = 0; c < 2; c++) {
        for (s = 0; dit_sampler_name(s); s++) {
            for (n = 0; dit_schedule_name(n); n++) {
                diti_schedule_request request = request_of(12, dit_sampler_name(s), dit_schedule_name(n));
                diti_schedule schedule = DITI_ZERO;
                dit_error err;
                dit_result result = make(env, configs[c], &request, &schedule, &err);
                CHECK_MESSAGE(result == DIT_OK || (result == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "use ")),
                              "%s %s: %s", request.sampler, request.schedule, err.message);
                if (result == DIT_OK) made++;
                diti_schedule_free(env, &schedule);
            }
        }
    }
    /* betas: four dpm++ with all but respaced, two euler, heun, two dpm2, two res-multistep, res-2s, er-sde,
       gradient-estimation, dpm++2s, deis, ipndm and unipc without lu, pndm with three spacings, ddim and ddpm with
       respaced, too, lcm with none; flow: six shapes for dpm++, the fourteen and unipc, linspace and trailing for all
       but pndm */
    CHECK_MESSAGE(made == 4 * 10 + 14 * 9 + 3 + 2 * 4 + 18 * 6 + 2 * 21, "%d", made);
}

/* --- trajectories that ComfyUI's own functions made (tests/reference/k_samplers.py) --- */
static double toy_denoise(double x, double sigma) { return tanh(0.7 * x) + 0.3 * cos(x + sigma); }

static void test_recorded(const diti_env *env) {
    static const struct {
        const char *sampler;
        bool flow;
        double x[6]; /* behind each of six steps */
    } cases[] = {
        {"res-multistep", false, {18.5232565, 5.64383396, 2.65555836, 1.45827879, -0.497246361, -0.069577169}},
        {"res-multistep", true, {0.682222693, 0.661418849, 0.636532581, 0.60820927, 0.58557359, 0.560304056}},
        {"res-multistep-a", false, {24.8638846, 8.37668885, 1.78897766, 0.106619651, -0.970687141, -0.419294474}},
        {"res-2s", false, {18.8264174, 4.9855647, 2.49973842, 1.2130392, 0.69662837, 0.680507544}},
        {"er-sde", false, {25.7446088, 9.2800429, 3.25614746, 1.70013569, 0.296264847, 0.490502329}},
        {"er-sde", true, {0.814852364, 1.10970996, 0.997072186, 0.701394534, 0.500113061, 0.528718753}},
        {"gradient-estimation", false, {18.5232565, 5.86127059, 2.47021478, 1.39980057, 0.371127103, 0.532571786}},
        {"gradient-estimation", true, {0.682222693, 0.661774543, 0.637270621, 0.609095324, 0.582756631, 0.559320236}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const char *config = cases[c].flow ? "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3}"
                                           : "{\"_class_name\":\"EulerDiscreteScheduler\"}";
        diti_schedule_request request = request_of(6, cases[c].sampler, NULL);
        diti_schedule schedule = DITI_ZERO;
        double x, y = 0, h[4] = {0, 0, 0, 0};
        uint32_t done = 0, drawn = 0;
        dit_error err;
        request.uniform = true;
        if (!CHECK_MESSAGE(make(env, config, &request, &schedule, &err) == DIT_OK, "%s", err.message)) continue;
        x = 0.7 * (cases[c].flow ? 1 : (double)schedule.initial);
        for (uint32_t i = 0; i < schedule.count; i++) {
            const diti_step *s = &schedule.steps[i];
            double sigma = (double)s->sigma, m = (x - toy_denoise(x, sigma)) / sigma, last = x;
            double noise = s->noise != 0 ? sin(++drawn) : 0;
            h[0] = (double)s->x0_x * x + (double)s->x0_m * m;
            x = (double)s->x_x * x + (double)s->x_m * m + (double)s->x_y * y + (double)s->d0 * h[0] +
                (double)s->d1 * h[1] + (double)s->d2 * h[2] + (double)s->noise * noise;
            y = (double)s->y_x * last + (double)s->y_y * y + (double)s->e0 * h[0];
            h[2] = h[1], h[1] = h[0];
            if (schedule.count > 6 && i % 2 == 0 && i + 1 < schedule.count) continue; /* half of a step */
            CHECK_MESSAGE(fabs(x - cases[c].x[done]) < 2e-5 * fmax(1, fabs(x)), "%s%s, step %u: %.9g, not %.9g",
                          cases[c].sampler, cases[c].flow ? ", flow" : "", done + 1, x, cases[c].x[done]);
            done++;
        }
        CHECK(done == 6);
        diti_schedule_free(env, &schedule);
    }
}

/* Schedules of ComfyUI and RES4LYF, from the same script: flows whose sigmas lie between 1 and a quarter. */
static void test_shapes(const diti_env *env) {
    static const struct {
        const char *schedule;
        uint32_t steps;
        double sigmas[12];
    } cases[] = {
        {"kl-optimal", 2, {1, 0.25}},
        {"bong-tangent", 2, {1, 0.5}},
        {"linear-quadratic", 2, {1, 0.975}},
        {"kl-optimal", 3, {1, 0.5661904, 0.25}},
        {"bong-tangent", 3, {1, 0.8619927, 0.5}},
        {"linear-quadratic", 3, {1, 0.975, 0.71875}},
        {"kl-optimal", 7, {1, 0.8343335, 0.6918842, 0.5661904, 0.4527259, 0.3481756, 0.25}},
        {"bong-tangent", 7, {1, 0.9575709, 0.8896536, 0.7663323, 0.5, 0.2002364, 0.06337275}},
        {"linear-quadratic", 7, {1, 0.9916667, 0.9833333, 0.975, 0.9078125, 0.7229167, 0.4203125}},
        {"kl-optimal",
         12,
         {1, 0.9062713, 0.8205394, 0.7414569, 0.6679376, 0.5990938, 0.5341898, 0.472608, 0.4138232, 0.3573828,
          0.3028918, 0.25}},
        {"bong-tangent",
         12,
         {1, 0.9822903, 0.9590834, 0.9274673, 0.8821867, 0.8130339, 0.6989855, 0.5, 0.2896698, 0.1548288, 0.07754489,
          0.03068402}},
        {"linear-quadratic",
         12,
         {1, 0.9958333, 0.9916667, 0.9875, 0.9833333, 0.9791667, 0.975, 0.9444444, 0.8611111, 0.725, 0.5361111,
          0.2944444}},
        {"kl-optimal", 1, {1}},
        {"bong-tangent", 1, {1}},
        {"linear-quadratic", 1, {1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        diti_schedule_request request = request_of(cases[c].steps, "euler", cases[c].schedule);
        diti_schedule schedule = DITI_ZERO;
        float own[12];
        dit_error err;
        for (uint32_t i = 0; i < cases[c].steps; i++) own[i] = 1 - 0.75f * (float)i / (float)(cases[c].steps - 1 + !i);
        request.sigmas = own;
        request.sigma_count = cases[c].steps;
        if (!CHECK_MESSAGE(
                make(env, "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\"}", &request, &schedule, &err) == DIT_OK,
                "%s", err.message))
            continue;
        for (uint32_t i = 0; i < cases[c].steps; i++)
            CHECK_MESSAGE(fabs((double)schedule.steps[i].sigma - cases[c].sigmas[i]) < 1e-6, "%s, %u steps, %u: %.9g",
                          cases[c].schedule, cases[c].steps, i, (double)schedule.steps[i].sigma);
        diti_schedule_free(env, &schedule);
    }
}

/* --- another sampler than the config's --- */
static bool same_schedules(const diti_env *env, const char *config_a, const diti_schedule_request *a,
                           const char *config_b, const diti_schedule_request *b) {
    diti_schedule left = DITI_ZERO, right = DITI_ZERO;
    dit_error err;
    bool same = make(env, config_a, a, &left, &err) == DIT_OK && make(env, config_b, b, &right, &err) == DIT_OK;
    same = same && left.count == right.count && memcmp(left.steps, right.steps, left.count * sizeof *left.steps) == 0;
    diti_schedule_free(env, &left);
    diti_schedule_free(env, &right);
    return same;
}

static void test_other_samplers(const diti_env *env) {
    diti_schedule_request own = request_of(10, NULL, NULL), euler = request_of(10, "euler", NULL),
                          dpm = request_of(10, "dpm++2m", NULL), shifted = euler;
    diti_schedule schedule = DITI_ZERO;
    dit_error err;
    CHECK(same_schedules(env, FLOW_DPM, &euler, FLOW_EULER, &own));
    CHECK(same_schedules(env, FLOW_EULER, &dpm, FLOW_DPM, &own));
    shifted.shift = 2.0f;
    CHECK(same_schedules(env, "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":7.0}", &shifted,
                         FLOW_EULER, &own));
    CHECK(same_schedules(env, NULL, &shifted, FLOW_EULER, &own));
    CHECK(same_schedules(env, NULL, &dpm, "{\"_class_name\":\"DPMSolverMultistepScheduler\"}", &own));
    CHECK(same_schedules(env, "{\"_class_name\":\"PNDMScheduler\",\"skip_prk_steps\":true}", &dpm, EPSILON, &own));
    /* a config that was not written for DDIM does not clip */
    own.sampler = "ddim";
    CHECK(make(env, EPSILON, &own, &schedule, &err) == DIT_OK && isinf(schedule.steps[0].clip));
    diti_schedule_free(env, &schedule);
    own.sampler = NULL;
    CHECK(make(env, "{\"_class_name\":\"DDIMScheduler\"}", &own, &schedule, &err) == DIT_OK &&
          schedule.steps[0].clip == 1);
    diti_schedule_free(env, &schedule);
}

/* The schedule `simple` is the list of sigmas that FLUX's pipelines pass. */
static void test_uniform_flow(const diti_env *env) {
    static const float sigmas[] = {1, 0.8f, 0.6f, 0.4f, 0.2f};
    diti_schedule_request given = request_of(5, NULL, NULL), named = request_of(5, NULL, "simple"),
                          discrete = request_of(5, NULL, "discrete");
    diti_schedule a = DITI_ZERO, b = DITI_ZERO;
    dit_error err;
    uint32_t i;
    CHECK(same_schedules(env, FLOW_EULER, &given, FLOW_EULER, &discrete));
    given.sigmas = sigmas, given.sigma_count = 5;
    CHECK(make(env, FLOW_EULER, &given, &a, &err) == DIT_OK && make(env, FLOW_EULER, &named, &b, &err) == DIT_OK);
    for (i = 0; i < 5 && a.count == 5 && b.count == 5; i++) {
        CHECK(fabsf(a.steps[i].sigma - b.steps[i].sigma) < 1e-7f && fabsf(a.steps[i].x_m - b.steps[i].x_m) < 1e-7f);
    }
    diti_schedule_free(env, &a);
    diti_schedule_free(env, &b);
}

static void test_names(const diti_env *env) {
    static const char *const spellings[][3] = {
        {"euler", "Euler", "euler"},
        {"EulerDiscreteScheduler", NULL, "euler"},
        {"FlowMatchEulerDiscreteScheduler", NULL, "euler"},
        {"dpmpp_2m", NULL, "dpm++2m"},
        {"DPM++ 2M", NULL, "dpm++2m"},
        {"DPMSolverMultistepScheduler", NULL, "dpm++2m"},
        {"DPM++ 2M SDE", NULL, "dpm++2m-sde"},
        {"dpmpp_2m_sde", NULL, "dpm++2m-sde"},
        {"dpm++3m", NULL, "dpm++3m"},
        {"DPM++ 3M SDE", "Exponential", "dpm++3m-sde"},
        {"Euler a", NULL, "euler-a"},
        {"euler_a", NULL, "euler-a"},
        {"k_euler_ancestral", NULL, "euler-a"},
        {"EulerAncestralDiscreteScheduler", NULL, "euler-a"},
        {"UniPC", "beta", "unipc"},
        {"uni_pc_bh2", NULL, "unipc"},
        {"UniPCMultistepScheduler", NULL, "unipc"},
        {"DDPM", "respaced", "ddpm"},
        {"ddim", "respaced", "ddim"},
        {"LCM", NULL, "lcm"},
        {"Heun", NULL, "heun"},
        {"HeunDiscreteScheduler", NULL, "heun"},
        {"dpm_2", NULL, "dpm2"},
        {"DPM2 Karras", NULL, "dpm2"},
        {"dpm_2_ancestral", NULL, "dpm2-a"},
        {"DPM2 a", NULL, "dpm2-a"},
        {"dpmpp_2s", NULL, "dpm++2s"},
        {"DPMSolverSinglestepScheduler", NULL, "dpm++2s"},
        {"DEIS", NULL, "deis"},
        {"ipndm", NULL, "ipndm"},
        {"PLMS", NULL, "pndm"},
        {"PNDMScheduler", NULL, "pndm"},
        {"DPM++ 2M Beta", NULL, "dpm++2m"},
        {"DDIM", "ddim_uniform", "ddim"},
        {"ddim", "SGM Uniform", "ddim"},
        {"ddim_trailing", NULL, "ddim"},
        {"dpm++2m", "Automatic", "dpm++2m"},
        {"dpm++2m", "discrete", "dpm++2m"},
    };
    diti_schedule_request karras = request_of(9, "DPM++ 2M Karras", NULL), both = request_of(9, "dpm++2m", "karras");
    size_t i;
    for (i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        diti_schedule_request request = request_of(5, spellings[i][0], spellings[i][1] && i ? spellings[i][1] : NULL);
        diti_schedule schedule = DITI_ZERO;
        dit_error err;
        CHECK_MESSAGE(make(env, EPSILON, &request, &schedule, &err) == DIT_OK &&
                          diti_equal(schedule.sampler, spellings[i][2]),
                      "%s: %s", spellings[i][0], err.message);
        diti_schedule_free(env, &schedule);
    }
    CHECK(same_schedules(env, EPSILON, &karras, EPSILON, &both));
    CHECK(dit_sampler_name(1000) == NULL && dit_schedule_name(1000) == NULL);
}

/* Names to names, without a schedule being made; those of samplers that are not here lead to the nearest. */
static void test_find_names(void) {
    static const char *const good[][3] = {{"Euler a", "euler-a", NULL},
                                          {"DPM++ 2M Karras", "dpm++2m", "karras"},
                                          {"dpmpp_3m_sde_exponential", "dpm++3m-sde", "exponential"},
                                          {"ddim_trailing", "ddim", "trailing"}};
    static const char *const missing[][2] = {{"TCD", "lcm"}, {"DPM++ SDE", "dpm2-a"}, {"iPNDM_v", "ipndm"},
                                             {"tcd", "lcm"}, {"eular", "euler"},      {"LMS", "dpm++2m"}};
    const char *sampler, *schedule, *kept = "kept";
    char words[80];
    dit_error err;
    size_t i;
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(dit_find_sampler(good[i][0], &sampler, &schedule, &err) == DIT_OK && diti_equal(sampler, good[i][1]));
        CHECK(good[i][2] ? schedule && diti_equal(schedule, good[i][2]) : !schedule);
    }
    for (i = 0; i < sizeof missing / sizeof *missing; i++) {
        diti_format(words, sizeof words, "the nearest is %s; there are euler, ", missing[i][1]);
        sampler = kept;
        CHECK_MESSAGE(dit_find_sampler(missing[i][0], &sampler, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT &&
                          strstr(err.message, words) && sampler == kept,
                      "%s: %s", missing[i][0], err.message);
    }
    CHECK(dit_find_schedule("SGM Uniform", &schedule, NULL) == DIT_OK && diti_equal(schedule, "trailing"));
    CHECK(dit_find_schedule("Automatic", &schedule, NULL) == DIT_OK && !schedule);
    CHECK(dit_find_schedule("AYS", &schedule, &err) < 0 && strstr(err.message, "the nearest is karras; "));
    CHECK(dit_find_schedule("flux2", &schedule, &err) < 0 && strstr(err.message, "the nearest is default; "));
    CHECK(dit_find_schedule("bong_tangent", &schedule, &err) == DIT_OK && diti_equal(schedule, "bong-tangent"));
    CHECK(dit_find_sampler("res_2s", &sampler, NULL, &err) == DIT_OK && diti_equal(sampler, "res-2s"));
    CHECK(dit_find_sampler("euler_ge", &sampler, NULL, &err) == DIT_OK && diti_equal(sampler, "gradient-estimation"));
    CHECK(dit_find_sampler("", &sampler, NULL, &err) < 0 && dit_find_schedule("", &schedule, &err) < 0);
    CHECK(dit_find_sampler(NULL, &sampler, NULL, NULL) < 0 && dit_find_sampler("euler", NULL, NULL, NULL) < 0);
    CHECK(dit_find_schedule(NULL, &schedule, NULL) < 0 && dit_find_schedule("lu", NULL, NULL) < 0);
}

/* docs/samplers.md has a row for each. */
static void test_page(void) {
    size_t size;
    char *page = test_read_file("docs/samplers.md", &size), row[40];
    uint32_t i;
    if (!CHECK(page)) return;
    for (i = 0; dit_sampler_name(i); i++) {
        snprintf(row, sizeof row, "\n| `%s` | ", dit_sampler_name(i));
        CHECK_MESSAGE(strstr(page, row), "%s", dit_sampler_name(i));
    }
    for (i = 0; dit_schedule_name(i); i++) {
        snprintf(row, sizeof row, "\n| `%s` | ", dit_schedule_name(i));
        CHECK_MESSAGE(strstr(page, row), "%s", dit_schedule_name(i));
    }
    free(page);
}

/* --- errors --- */
typedef struct bad {
    const char *config;
    diti_schedule_request request;
    const char *words;
} bad;

static void refuse(const diti_env *env, const char *config, const diti_schedule_request *request, const char *words) {
    diti_schedule schedule = DITI_ZERO;
    dit_error err;
    dit_result result = make(env, config, request, &schedule, &err);
    CHECK_MESSAGE(result < 0 && strstr(err.message, words) && !schedule.steps, "wanted \"%s\", got %d \"%s\"", words,
                  result, err.message);
    diti_schedule_free(env, &schedule);
}

static void test_bad_requests(const diti_env *env) {
    static const float rising[] = {0.5f, 0.6f}, high[] = {1.5f, 0.5f};
    diti_schedule_request request = request_of(0, NULL, NULL);
    refuse(env, EPSILON, &request, "at least 1");
    request.steps = 1001;
    refuse(env, EPSILON, &request, "at most 1000");
    request.steps = 10;
    request.shift = 2;
    refuse(env, EPSILON, &request, "must be 0 for this model");
    request.shift = NAN;
    refuse(env, FLOW_DPM, &request, "nan is outside 0.001..1000");
    request.shift = -1;
    refuse(env, FLOW_DPM, &request, "nearest valid value is 0.001");
    request.shift = INFINITY;
    refuse(env, FLOW_DPM, &request, "nearest valid value is 1000");
    request = request_of(10, "ddim", NULL);
    request.eta = 1.5f;
    refuse(env, EPSILON, &request, "nearest valid value is 1");
    request.eta = -0.5f;
    refuse(env, EPSILON, &request, "nearest valid value is 0");
    request.eta = NAN;
    refuse(env, EPSILON, &request, "outside 0..1");
    request = request_of(10, "euler", NULL);
    request.eta = 0.5f;
    refuse(env, EPSILON, &request, "it must be 0");
    request = request_of(10, "k_lms", NULL);
    refuse(env, EPSILON, &request, "\"k_lms\"; the nearest is dpm++2m; there are euler");
    request = request_of(10, "dpm++2s_a", NULL);
    refuse(env, EPSILON, &request, "the nearest is dpm2-a; there are");
    request = request_of(10, "plms", NULL);
    refuse(env, FLOW_EULER, &request, "pndm needs some signal from the first step on");
    refuse(env, V_ZERO_SNR, &request, "pndm needs some signal from the first step on");
    request = request_of(10, "Eular", NULL);
    refuse(env, EPSILON, &request, "the nearest is euler; there are");
    request = request_of(10, "", NULL);
    refuse(env, EPSILON, &request, "unknown sampler");
    request = request_of(10, NULL, "polyexponential");
    refuse(env, EPSILON, &request, "the nearest is exponential; there are linspace");
    request = request_of(60, "lcm", NULL);
    refuse(env, EPSILON, &request, "use at most 50");
    request = request_of(10, "lcm", "trailing");
    refuse(env, EPSILON, &request, "its own timesteps");
    request = request_of(10, "euler", "respaced");
    refuse(env, EPSILON, &request, "respaced goes only with ddpm and ddim");
    request = request_of(999, "ddim", "respaced");
    refuse(env, EPSILON, &request, "no whole stride");
    request = request_of(10, NULL, NULL);
    refuse(env, NULL, &request, "neither a sampler nor");
    request = request_of(2, NULL, NULL);
    request.sigmas = rising, request.sigma_count = 2;
    refuse(env, FLOW_EULER, &request, "sigma 1 is 0.6");
    request.sigmas = high;
    refuse(env, FLOW_EULER, &request, "sigma 0 is 1.5");
    request.sigma_count = 1;
    refuse(env, FLOW_EULER, &request, "one per step");
}

static void test_bad_configs(const diti_env *env) {
    static const char *const cases[][2] = {
        {"{\"_class_name\":\"LMSDiscreteScheduler\"}",
         "\"LMSDiscreteScheduler\" is not supported; choose a sampler: euler"},
        {"{\"_class_name\":\"DPMSolverSinglestepScheduler\",\"solver_order\":3}", "solver_order: 3"},
        {"{\"_class_name\":\"DPMSolverSinglestepScheduler\",\"algorithm_type\":\"sde-dpmsolver++\"}",
         "algorithm_type: \"sde-dpmsolver++\" is not supported; supported are dpmsolver++"},
        {"{\"_class_name\":\"DEISMultistepScheduler\",\"algorithm_type\":\"tab\"}", "algorithm_type: \"tab\""},
        {"{\"_class_name\":\"DEISMultistepScheduler\",\"solver_order\":4}", "solver_order: 4"},
        {"{\"_class_name\":\"PNDMScheduler\",\"skip_prk_steps\":2}", "skip_prk_steps: 2 is not true or false"},
        {"{\"_class_name\":\"PNDMScheduler\",\"timestep_spacing\":\"half\"}", "timestep_spacing: \"half\""},
        {"{\"_class_name\":\"HeunDiscreteScheduler\",\"beta_schedule\":\"exp\"}", "beta_schedule: \"exp\""},
        {"{\"_class_name\":\"CogVideoXDPMScheduler\",\"snr_shift_scale\":0}", "snr_shift_scale: 0"},
        {"{\"_class_name\":\"CogVideoXDDIMScheduler\",\"prediction_type\":\"w\"}", "prediction_type: \"w\""},
        {RFLOW, "the clip's width and height are needed"},
        {"{\"_class_name\":\"rflow\",\"use_timestep_transform\":7}", "use_timestep_transform: 7"},
        {"{\"_class_name\":\"iddpm\",\"variance_type\":\"learned\"}", "variance_type: \"learned\""},
        {"{\"_class_name\":\"UniPCMultistepScheduler\",\"solver_order\":4}", "solver_order: 4"},
        {"{\"_class_name\":\"UniPCMultistepScheduler\",\"solver_p\":{}}", "solver_p: another predictor"},
        {"{\"_class_name\":\"UniPCMultistepScheduler\",\"disable_corrector\":1}",
         "disable_corrector: 1 is not a list of numbers"},
        {"{\"_class_name\":\"UniPCMultistepScheduler\",\"solver_type\":\"bh3\"}", "solver_type: \"bh3\""},
        {"{\"_class_name\":\"DDPMScheduler\",\"variance_type\":\"learned\"}", "variance_type: \"learned\""},
        {"{\"_class_name\":\"LCMScheduler\",\"original_inference_steps\":0}", "original_inference_steps: 0"},
        {"{\"_class_name\":\"DDIMScheduler\",\"beta_schedule\":\"sigmoid\"}",
         "beta_schedule: \"sigmoid\" is not supported; supported are linear"},
        {"{\"_class_name\":\"DDIMScheduler\",\"prediction_type\":\"x\"}", "prediction_type: \"x\""},
        {"{\"_class_name\":\"DDIMScheduler\",\"timestep_spacing\":\"random\"}", "timestep_spacing: \"random\""},
        {"{\"_class_name\":\"DDIMScheduler\",\"thresholding\":true}", "thresholding: true"},
        {"{\"_class_name\":\"DDIMScheduler\",\"num_train_timesteps\":0}",
         "num_train_timesteps: 0 is not a number from 1"},
        {"{\"_class_name\":\"DDIMScheduler\",\"num_train_timesteps\":1e300}", "num_train_timesteps"},
        {"{\"_class_name\":\"DDIMScheduler\",\"beta_end\":NaN}", "beta_end: NaN"},
        {"{\"_class_name\":\"DDIMScheduler\",\"beta_start\":\"x\"}", "beta_start: \"x\""},
        {"{\"_class_name\":\"DDIMScheduler\",\"trained_betas\":[0.1]}", "trained_betas"},
        {"{\"_class_name\":\"DDIMScheduler\",\"clip_sample\":1}", "clip_sample: 1 is not true or false"},
        {"{\"_class_name\":\"DPMSolverMultistepScheduler\",\"algorithm_type\":\"dpmsolver\"}",
         "algorithm_type: \"dpmsolver\""},
        {"{\"_class_name\":\"DPMSolverMultistepScheduler\",\"solver_order\":4}", "solver_order: 4"},
        {"{\"_class_name\":\"DPMSolverMultistepScheduler\",\"use_flow_sigmas\":true}",
         "flow sigmas need flow_prediction"},
        {"{\"_class_name\":\"DPMSolverMultistepScheduler\",\"final_sigmas_type\":\"half\"}",
         "final_sigmas_type: \"half\""},
        {"{\"_class_name\":\"EulerDiscreteScheduler\",\"interpolation_type\":\"log_linear\"}", "interpolation_type"},
        {"{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":0}", "shift: 0"},
        {"{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"invert_sigmas\":true}", "invert_sigmas"},
        {"{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"use_dynamic_shifting\":true}",
         "number of image tokens"},
        {"{\"_class_name\":\"DDIMScheduler\",\"rescale_betas_zero_snr\":true,\"timestep_spacing\":\"trailing\"}",
         "no finite step 1 of 10"}, /* epsilon says nothing where there is no signal */
        {"{\"_class_name\":7}", "_class_name: 7 is not a text"},
        {"[]", "not an object of settings"},
    };
    diti_schedule_request request = request_of(10, NULL, NULL);
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) refuse(env, cases[i][0], &request, cases[i][1]);
    request.steps = 1000;
    refuse(env, "{\"_class_name\":\"DDIMScheduler\",\"steps_offset\":1}", &request, "use fewer steps");
    request = request_of(10, NULL, NULL);
    request.width = request.height = 64, request.frames = 16;
    refuse(env, RFLOW, &request, "clips of 2 to 16 frames have no timesteps");
}

/* --- clips --- */
#define IDDPM "{\"_class_name\":\"iddpm\"}"

/* Every count of steps from 1 on, and one more than there are: the new classes of configs, first of all the odd ones.
 */
static void test_step_counts(const diti_env *env) {
    static const char *const configs[] = {
        "{\"_class_name\":\"PNDMScheduler\"}",
        "{\"_class_name\":\"PNDMScheduler\",\"skip_prk_steps\":true,\"steps_offset\":1}",
        "{\"_class_name\":\"HeunDiscreteScheduler\"}",
        "{\"_class_name\":\"KDPM2DiscreteScheduler\"}",
        "{\"_class_name\":\"KDPM2AncestralDiscreteScheduler\"}",
        "{\"_class_name\":\"DEISMultistepScheduler\",\"solver_order\":3}",
        "{\"_class_name\":\"DPMSolverSinglestepScheduler\"}",
        "{\"_class_name\":\"CogVideoXDDIMScheduler\",\"prediction_type\":\"v_prediction\",\"timestep_spacing\":\"trailing\","
        "\"rescale_betas_zero_snr\":true}",
        "{\"_class_name\":\"CogVideoXDPMScheduler\",\"prediction_type\":\"v_prediction\",\"timestep_spacing\":\"trailing\","
        "\"rescale_betas_zero_snr\":true}",
        IDDPM,
        RFLOW,
    };
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 15, 29, 333, 501, 999};
    size_t c, n;
    for (c = 0; c < DITI_COUNT(configs); c++) {
        diti_schedule_request request = request_of(1001, NULL, NULL);
        request.width = request.height = 512, request.frames = 17;
        refuse(env, configs[c], &request, "at most 1000");
        request.steps = 0;
        refuse(env, configs[c], &request, "at least 1");
        for (n = 0; n < DITI_COUNT(counts); n++) {
            diti_schedule schedule = DITI_ZERO;
            dit_error err;
            bool falls = true;
            uint32_t i;
            request.steps = counts[n];
            CHECK_MESSAGE(make(env, configs[c], &request, &schedule, &err) == DIT_OK, "%s, %u steps: %s", configs[c],
                          counts[n], err.message);
            for (i = 1; i < schedule.count; i++) {
                float step = schedule.steps[i].timestep - schedule.steps[i - 1].timestep;
                if (!(step <= 0)) falls = false;
            }
            CHECK_MESSAGE(schedule.count >= counts[n] && falls && schedule.steps[0].timestep <= 1000, "%s, %u steps",
                          configs[c], counts[n]);
            diti_schedule_free(env, &schedule);
        }
    }
}

/* A start picture takes the last steps: of each, all evaluations. */
static void test_strength(const diti_env *env) {
    static const char *const samplers[] = {"heun", "dpm2", "dpm2-a", "dpm++2s", "deis", "ipndm", "pndm"};
    static const perfect model = {EPSILON, DITI_PREDICT_EPSILON, false};
    size_t s;
    for (s = 0; s < DITI_COUNT(samplers); s++) {
        diti_schedule_request request = request_of(20, samplers[s], NULL);
        diti_schedule part = DITI_ZERO, whole = DITI_ZERO;
        dit_error err;
        CHECK(make(env, EPSILON, &request, &whole, &err) == DIT_OK);
        request.strength = 0.25f;
        CHECK(make(env, EPSILON, &request, &part, &err) == DIT_OK && part.count == calls_of(samplers[s], 5));
        if (part.count == calls_of(samplers[s], 5)) {
            uint32_t first = is_double(samplers[s]) ? 30 : diti_equal(samplers[s], "pndm") ? 16 : 15;
            CHECK_MESSAGE(part.steps[0].timestep == whole.steps[first].timestep &&
                              part.steps[part.count - 1].timestep == whole.steps[whole.count - 1].timestep,
                          "%s begins at %g", samplers[s], (double)part.steps[0].timestep);
            CHECK(part.start_noise > 0 && fabs(perfect_end(&model, &part, -0.4) + 0.4) < 2e-4);
        }
        diti_schedule_free(env, &part);
        diti_schedule_free(env, &whole);
    }
}

/* Pairs of single steps are those of all steps, also where a start picture leaves the first step of one out. */
static void test_pairs(const diti_env *env) {
    static const struct {
        uint32_t steps;
        float strength;
        const char *seconds;
    } cases[] = {{7, 0.5f, "0010"}, {6, 0.5f, "000"}, {10, 0.75f, "01010100"}};
    size_t c, i;
    for (c = 0; c < DITI_COUNT(cases); c++) {
        diti_schedule_request request = request_of(cases[c].steps, "dpm++2s", NULL);
        diti_schedule part = DITI_ZERO;
        dit_error err;
        request.strength = cases[c].strength;
        if (CHECK(make(env, EPSILON, &request, &part, &err) == DIT_OK && part.count == strlen(cases[c].seconds)))
            for (i = 0; i < part.count; i++)
                CHECK_MESSAGE((part.steps[i].x_y != 0) == (cases[c].seconds[i] == '1'), "step %u of %u", (unsigned)i,
                              cases[c].steps);
        diti_schedule_free(env, &part);
    }
}

/* Pipelines of clips take whole steps alone, one at least; those of pictures leave whole steps out. */
static void test_whole_strength(const diti_env *env) {
    static const struct {
        uint32_t steps, whole, part;
        float strength;
    } cases[] = {{7, 2, 3, 0.3f},      {8, 7, 8, 0.99f}, {20, 1, 1, 0.01f},
                 {100, 28, 29, 0.29f}, {10, 3, 3, 0.3f}, {5, 5, 5, 1}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_schedule_request request = request_of(cases[i].steps, NULL, NULL);
        diti_schedule whole = DITI_ZERO, part = DITI_ZERO;
        dit_error err;
        request.strength = cases[i].strength;
        CHECK(make(env, "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\"}", &request, &part, &err) == DIT_OK);
        request.takes_whole = true;
        CHECK(make(env, "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\"}", &request, &whole, &err) == DIT_OK);
        CHECK_MESSAGE(whole.count == cases[i].whole && part.count == cases[i].part, "%g of %u: %u and %u steps",
                      (double)cases[i].strength, cases[i].steps, whole.count, part.count);
        diti_schedule_free(env, &whole);
        diti_schedule_free(env, &part);
    }
}

/* The timesteps that KDPM2 of diffusers 0.42.1 has for Karras' sigmas: whole numbers where a step begins. The sampler
   chosen by name has none but by chance. */
static void test_whole_karras(const diti_env *env) {
    static const float wanted[] = {999, 900.589539f, 786, 621.756348f, 427, 195.958649f, 59, 7.317745f, 0};
    static const char config[] =
        "{\"_class_name\":\"KDPM2DiscreteScheduler\",\"beta_schedule\":\"scaled_linear\",\"use_karras_sigmas\":true}";
    diti_schedule_request request = request_of(5, NULL, NULL), named = request_of(5, "dpm2", "karras");
    diti_schedule schedule = DITI_ZERO, other = DITI_ZERO;
    dit_error err;
    uint32_t i;
    if (CHECK(make(env, config, &request, &schedule, &err) == DIT_OK && schedule.count == DITI_COUNT(wanted)))
        for (i = 0; i < schedule.count; i++)
            CHECK_MESSAGE(fabsf(schedule.steps[i].timestep - wanted[i]) < (i % 2 ? 2e-3f : 1e-6f), "%u: %g", i,
                          (double)schedule.steps[i].timestep);
    CHECK(make(env, SD15, &named, &other, &err) == DIT_OK && other.steps[2].timestep != rintf(other.steps[2].timestep));
    diti_schedule_free(env, &schedule);
    diti_schedule_free(env, &other);
}

/* Karras' sigmas of a flow's config are those of diffusers 0.42.1 for UniPC; a schedule or a shift asked for has the
   flow's own. */
static void test_unipc_karras_flow(const diti_env *env) {
    static const float wanted[][5] = {{0.9936872f, 0.9736212f, 0.8553095f, 0.3294525f, 0.0099023f},
                                      {0.9359576f, 0.8274834f, 0.5602666f, 0.1986869f, 0.0283409f}};
    static const char *const configs[] = {
        "{\"_class_name\":\"UniPCMultistepScheduler\",\"prediction_type\":\"flow_prediction\",\"use_flow_sigmas\":true,"
        "\"use_karras_sigmas\":true,\"flow_shift\":3.0}",
        "{\"_class_name\":\"UniPCMultistepScheduler\",\"prediction_type\":\"flow_prediction\",\"use_flow_sigmas\":true,"
        "\"use_karras_sigmas\":true,\"beta_schedule\":\"scaled_linear\",\"beta_start\":0.00085,\"beta_end\":0.012}"};
    uint32_t c, i;
    for (c = 0; c < 2; c++) {
        diti_schedule_request request = request_of(5, NULL, NULL), asked = request_of(5, NULL, "karras");
        diti_schedule schedule = DITI_ZERO, other = DITI_ZERO, shifted = DITI_ZERO;
        dit_error err;
        CHECK(make(env, configs[c], &request, &schedule, &err) == DIT_OK && schedule.count == 5);
        for (i = 0; i < schedule.count; i++)
            CHECK_MESSAGE(fabsf(schedule.steps[i].sigma - wanted[c][i]) < 1e-6f &&
                              schedule.steps[i].timestep == floorf(1000 * wanted[c][i]),
                          "config %u, step %u: %.7f", c, i, (double)schedule.steps[i].sigma);
        CHECK(make(env, configs[c], &asked, &other, &err) == DIT_OK && other.steps[0].sigma > 0.998f);
        request.shift = 3;
        CHECK(make(env, configs[c], &request, &shifted, &err) == DIT_OK && shifted.steps[0].sigma > 0.999f);
        diti_schedule_free(env, &schedule);
        diti_schedule_free(env, &other);
        diti_schedule_free(env, &shifted);
    }
}

/* Frames of a flow: given, made, and in part; one too many and one that is no number are refused. */
static void test_frames(const diti_env *env) {
    static const float mask[] = {0, 1, 0.4f, 0.95f};
    diti_schedule_request request = request_of(10, NULL, NULL), other = request_of(10, "dpm++2m", NULL);
    diti_schedule schedule = DITI_ZERO;
    diti_frame_step frames[10][4];
    float bad[] = {1.5f, -0.1f, NAN};
    dit_error err;
    uint32_t i, k;
    request.width = request.height = 512, request.frames = 1;
    CHECK(make(env, RFLOW, &request, &schedule, &err) == DIT_OK && schedule.count == 10);
    CHECK(diti_schedule_frames(&schedule, mask, 4, frames[0], &err) == DIT_OK);
    for (i = 0; i < 10; i++) {
        CHECK(frames[i][0].x == 1 && frames[i][0].noise == 0 && frames[i][0].moves == 0 && frames[i][0].fresh == 0);
        CHECK(frames[i][1].x == 1 && frames[i][1].noise == 0 && frames[i][1].moves == 1 && frames[i][1].fresh == 1);
        CHECK(frames[i][2].moves == (i >= 6) && frames[i][2].fresh == (i >= 6));
        CHECK(fabsf(frames[i][2].noise - (i == 6 ? 0.4f : 0)) < 1e-6f &&
              fabsf(frames[i][2].x - (i == 6 ? 0.6f : 1)) < 1e-6f);
        CHECK(frames[i][3].moves == (i >= 1) && (frames[i][3].noise > 0.89f) == (i == 1));
    }
    for (k = 0; k < 3; k++)
        CHECK(diti_schedule_frames(&schedule, &bad[k], 1, frames[0], &err) == DIT_ERROR_INVALID_ARGUMENT &&
              strstr(err.message, "frame 0 is to be made anew to the part"));
    diti_schedule_free(env, &schedule);
    CHECK(make(env, EPSILON, &other, &schedule, &err) == DIT_OK);
    CHECK(diti_schedule_frames(&schedule, mask, 4, frames[0], &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "sampler dpm++2m remembers earlier steps"));
    diti_schedule_free(env, &schedule);
}

/* CogVideoX's second order draws two noises a step and uses the second one. */
static void test_draws(const diti_env *env) {
    diti_schedule_request request = request_of(4, NULL, NULL), plain = request_of(4, "dpm2-a", NULL);
    static const uint32_t cogvideox[] = {1, 2, 2, 1}, ancestral[] = {0, 1, 0, 1, 0, 1, 0};
    diti_schedule schedule = DITI_ZERO;
    dit_error err;
    uint32_t i;
    CHECK(make(env,
               "{\"_class_name\":\"CogVideoXDPMScheduler\",\"prediction_type\":\"v_prediction\",\"timestep_spacing\":"
               "\"trailing\",\"rescale_betas_zero_snr\":true}",
               &request, &schedule, &err) == DIT_OK &&
          schedule.count == 4);
    for (i = 0; i < schedule.count; i++) CHECK(schedule.steps[i].draws == cogvideox[i]);
    diti_schedule_free(env, &schedule);
    CHECK(make(env, EPSILON, &plain, &schedule, &err) == DIT_OK && schedule.count == 7);
    for (i = 0; i < schedule.count; i++) CHECK(schedule.steps[i].draws == ancestral[i]);
    diti_schedule_free(env, &schedule);
    CHECK(diti_dynamic_guidance(6, 50, 50) == 1 && fabs(diti_dynamic_guidance(6, 50, 0) - 7) < 1e-12);
    /* what diffusers' pipe_cogvideox_5b shows: its first latent solved for the scale, in double from floats */
    CHECK(fabs(diti_dynamic_guidance(6, 4, 999) - 4.7558802) < 1e-6);
}

/* Sana-Sprint: a trajectory as its pipeline and SCMScheduler compute it, on latents that are half as long as dit.h's.
 */
static void test_angles(const diti_env *env) {
    static const uint32_t steps[] = {1, 2, 3, 8};
    static const char config[] = "{\"_class_name\":\"SCMScheduler\",\"clip_sample\":true}";
    size_t n;
    uint32_t i;
    for (n = 0; n < DITI_COUNT(steps); n++) {
        diti_schedule_request request = request_of(steps[n], NULL, NULL), other = request_of(steps[n], "euler", NULL),
                              chosen = request_of(steps[n], "scm", NULL);
        diti_schedule schedule = DITI_ZERO, wrong = DITI_ZERO;
        dit_error err;
        double x = 0.7, latent = 0.35, x0 = 0;
        CHECK(same_schedules(env, config, &request, config, &chosen));
        CHECK(make(env, config, &other, &wrong, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "use scm"));
        CHECK(make(env, EPSILON, &chosen, &wrong, &err) == DIT_ERROR_INVALID_ARGUMENT &&
              strstr(err.message, "use any other"));
        if (!CHECK_MESSAGE(make(env, config, &request, &schedule, &err) == DIT_OK, "%s", err.message)) return;
        CHECK(schedule.count == steps[n] && schedule.initial == 1 && diti_equal(schedule.sampler, "scm"));
        for (i = 0; i < schedule.count; i++) {
            const diti_step *s = &schedule.steps[i];
            double angle = 1.5708 * (1 - (double)i / steps[n]), next = 1.5708 * (1 - (i + 1.0) / steps[n]), t, shown, m,
                   v, noise = 0.3 - 0.1 * i;
            if (steps[n] == 2) angle = i ? 1.3 : 1.5708, next = i ? 0 : 1.3;
            t = sin(angle) / (cos(angle) + sin(angle));
            shown = latent / 0.5 * sqrt(t * t + (1 - t) * (1 - t));
            m = 0.9 * shown - 0.2 * i; /* what some model makes of it */
            v = ((1 - 2 * t) * shown + (1 - 2 * t + 2 * t * t) * m) / sqrt(t * t + (1 - t) * (1 - t)) * 0.5;
            x0 = cos(angle) * latent - sin(angle) * v;
            latent = cos(next) * x0 + sin(next) * noise * 0.5;
            CHECK_MESSAGE(fabs((double)s->timestep - t) < 1e-6 && fabs((double)s->input * x - shown) < 1e-6 &&
                              s->draws == 1,
                          "%u steps: step %u is told %g", steps[n], i, (double)s->timestep);
            CHECK(fabs((double)s->shown_x * x + (double)s->shown_x0 * ((double)s->x0_x * x + (double)s->x0_m * m) -
                       2 * x0) < 1e-5);
            x = (double)s->x_x * x + (double)s->x_m * m + (double)s->d0 * ((double)s->x0_x * x + (double)s->x0_m * m) +
                (double)s->noise * noise;
            CHECK_MESSAGE(fabs(x - 2 * latent) < 1e-5, "%u steps: %g behind step %u, not %g", steps[n], x, i,
                          2 * latent);
        }
        CHECK(fabs(x - x0 / 0.5) < 1e-5 && schedule.draws == (steps[n] > 1));
        diti_schedule_free(env, &schedule);
    }
}

/* lambda_min_clipped keeps the noisiest training steps out: the first step is the last one whose ln(alpha / noise) is
 * not below. */
static void test_clipped_lambda(const diti_env *env) {
    static const char clipped[] =
        "{\"_class_name\":\"DPMSolverMultistepScheduler\",\"beta_schedule\":\"squaredcos_cap_v2\",\"lambda_min_clipped\":-5.1}";
    static const char whole[] =
        "{\"_class_name\":\"DPMSolverMultistepScheduler\",\"beta_schedule\":\"squaredcos_cap_v2\",\"lambda_min_clipped\":\"-Infinity\"}";
    diti_schedule_request request = request_of(10, NULL, NULL), every = request_of(999, NULL, NULL);
    diti_schedule schedule = DITI_ZERO;
    dit_error err;
    float first = 0, before = 0;
    uint32_t i;
    CHECK(make(env, clipped, &request, &schedule, &err) == DIT_OK);
    if (schedule.count) first = schedule.steps[0].timestep;
    CHECK(first > 900 && first < 999 && -log((double)schedule.steps[0].sigma) >= -5.1);
    diti_schedule_free(env, &schedule);
    CHECK(make(env, whole, &every, &schedule, &err) == DIT_OK);
    for (i = 0; i < schedule.count && schedule.steps[i].timestep > first; i++) before = schedule.steps[i].sigma;
    CHECK(schedule.count && schedule.steps[0].timestep == 999 && -log((double)before) < -5.1);
    diti_schedule_free(env, &schedule);
}

/* sigma_min and sigma_max, as diffusers 0.42.1 takes them where sigmas have a shape; without one they mean nothing. */
static void test_sigma_extremes(const diti_env *env) {
    static const struct {
        const char *config;
        float sigmas[4], timesteps[4];
    } cases[] = {
        {"{\"_class_name\":\"EulerDiscreteScheduler\",\"sigma_min\":0.03,\"sigma_max\":14,\"use_karras_sigmas\":true}",
         {14, 3.0725567f, 0.44212976f, 0.03f},
         {721.0467f, 479.0154f, 128.38692f, 5.0036182f}},
        {"{\"_class_name\":\"EulerDiscreteScheduler\",\"sigma_min\":0.03,\"sigma_max\":14,\"use_exponential_sigmas\":true}",
         {14, 1.8049247f, 0.23269668f, 0.03f},
         {721.0467f, 375.411f, 67.36692f, 5.0036182f}},
        {"{\"_class_name\":\"UniPCMultistepScheduler\",\"sigma_min\":0.03,\"sigma_max\":14,\"use_karras_sigmas\":true}",
         {14, 3.0725567f, 0.44212976f, 0.03f},
         {721, 479, 128, 5}},
    };
    diti_schedule_request request = request_of(4, NULL, NULL);
    size_t c;
    uint32_t i;
    for (c = 0; c < DITI_COUNT(cases); c++) {
        diti_schedule schedule = DITI_ZERO;
        dit_error err;
        if (!CHECK(make(env, cases[c].config, &request, &schedule, &err) == DIT_OK && schedule.count == 4)) continue;
        for (i = 0; i < 4; i++)
            CHECK_MESSAGE(fabsf(schedule.steps[i].sigma - cases[c].sigmas[i]) < 1e-5f &&
                              fabsf(schedule.steps[i].timestep - cases[c].timesteps[i]) < 1e-2f,
                          "%s: step %u has sigma %g at %g", cases[c].config, i, (double)schedule.steps[i].sigma,
                          (double)schedule.steps[i].timestep);
        diti_schedule_free(env, &schedule);
    }
    CHECK(same_schedules(env, "{\"_class_name\":\"EulerDiscreteScheduler\",\"sigma_min\":0.03,\"sigma_max\":14}",
                         &request, "{\"_class_name\":\"EulerDiscreteScheduler\",\"sigma_min\":null}", &request));
    refuse(env, "{\"_class_name\":\"EulerDiscreteScheduler\",\"sigma_min\":14,\"sigma_max\":14}", &request,
           "sigma_max: not above sigma_min");
}

static void test_trained_betas(const diti_env *env) {
    diti_schedule_request request = request_of(4, NULL, NULL);
    refuse(env, "{\"_class_name\":\"DDIMScheduler\",\"num_train_timesteps\":3,\"trained_betas\":[0.1,0.2,0.3]}",
           &request, "at most 3");
    request.steps = 3;
    diti_schedule schedule = DITI_ZERO;
    dit_error err;
    CHECK(make(env, "{\"_class_name\":\"DDIMScheduler\",\"num_train_timesteps\":3,\"trained_betas\":[0.1,0.2,0.3]}",
               &request, &schedule, &err) == DIT_OK);
    CHECK(schedule.count == 3 && fabs((double)schedule.steps[0].sigma - sqrt(1 / (0.9 * 0.8 * 0.7) - 1)) < 1e-6);
    diti_schedule_free(env, &schedule);
}

static void test_out_of_memory(void) {
    test_memory memory = {0, 0, 0};
    diti_env plain = test_env(NULL), env = test_env(&memory);
    diti_json *config = parse(&plain, EPSILON);
    diti_schedule_request request = request_of(10, NULL, NULL);
    dit_result result = DIT_ERROR_IO;
    for (memory.fail_at = 1; memory.fail_at < 20 && result != DIT_OK; memory.fail_at++) {
        diti_schedule schedule = DITI_ZERO;
        dit_error err = DITI_ZERO;
        memory.calls = 0;
        result = diti_schedule_make(&env, config, &request, &schedule, &err);
        CHECK(result == DIT_OK || (result == DIT_ERROR_OUT_OF_HOST_MEMORY && err.message[0]));
        diti_schedule_free(&env, &schedule);
        CHECK(memory.alive == 0);
    }
    CHECK(result == DIT_OK && memory.fail_at > 3);
    diti_json_free(&plain, config);
}

int main(void) {
    diti_env env = test_env(NULL);
    test_philox();
    test_torch_cache();
    test_noise_is_normal();
    test_every_sampler_arrives(&env);
    test_every_schedule(&env);
    test_recorded(&env);
    test_shapes(&env);
    test_other_samplers(&env);
    test_uniform_flow(&env);
    test_names(&env);
    test_find_names();
    test_page();
    test_bad_requests(&env);
    test_bad_configs(&env);
    test_step_counts(&env);
    test_strength(&env);
    test_pairs(&env);
    test_whole_strength(&env);
    test_whole_karras(&env);
    test_unipc_karras_flow(&env);
    test_frames(&env);
    test_draws(&env);
    test_angles(&env);
    test_clipped_lambda(&env);
    test_sigma_extremes(&env);
    test_trained_betas(&env);
    test_out_of_memory();
    return TEST_END("sample");
}
