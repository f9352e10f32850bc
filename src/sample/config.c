/* Names of samplers and schedules, and how scheduler_config.json, a model's defaults and a request become one setting.
 */
#include "sample/sample.h"

/* --- names --- */
typedef struct diti_sampler_entry {
    const char *name;
    const char *aliases; /* as diffusers, A1111, ComfyUI and sd.cpp spell it, without spaces, '-' and '_' */
    diti_solver_kind solver;
    uint32_t order;
    bool stochastic;
} diti_sampler_entry;

static const diti_sampler_entry diti_samplers[] = {
    {"euler", " euler eulerdiscretescheduler flowmatcheulerdiscretescheduler keuler ", DITI_SOLVER_EULER, 1, false},
    {"euler-a", " eulera eulerancestral eulerancestraldiscretescheduler keulera keulerancestral ", DITI_SOLVER_EULER, 1,
     true},
    {"heun", " heun kheun heundiscretescheduler ", DITI_SOLVER_HEUN, 2, false},
    {"dpm2", " dpm2 kdpm2 kdpm2discretescheduler ", DITI_SOLVER_DPM2, 2, false},
    {"dpm2-a", " dpm2a dpm2ancestral kdpm2a kdpm2ancestral kdpm2ancestraldiscretescheduler ", DITI_SOLVER_DPM2, 2,
     true},
    {"res-multistep", " resmultistep kresmultistep ", DITI_SOLVER_RES, 2, false},
    {"res-multistep-a", " resmultistepa resmultistepancestral kresmultistepancestral ", DITI_SOLVER_RES, 2, true},
    {"res-2s", " res2s kres2s ", DITI_SOLVER_RES_2S, 2, false},
    {"er-sde", " ersde kersde ", DITI_SOLVER_ER_SDE, 3, true},
    {"gradient-estimation", " gradientestimation eulerge kgradientestimation ", DITI_SOLVER_GRADIENT, 2, false},
    {"dpm++2m", " dpm++2m dpmpp2m dpmsolver++ dpmsolvermultistepscheduler kdpmpp2m ", DITI_SOLVER_DPM, 2, false},
    {"dpm++2m-sde", " dpm++2msde dpmpp2msde sdedpmsolver++ kdpmpp2msde ", DITI_SOLVER_DPM, 2, true},
    {"dpm++3m", " dpm++3m dpmpp3m ", DITI_SOLVER_DPM, 3, false},
    {"dpm++3m-sde", " dpm++3msde dpmpp3msde ", DITI_SOLVER_DPM, 3, true},
    {"dpm++2s", " dpm++2s dpmpp2s dpmsolversinglestepscheduler ", DITI_SOLVER_SINGLESTEP, 2, false},
    {"deis", " deis deismultistepscheduler ", DITI_SOLVER_DEIS, 2, false},
    {"ipndm", " ipndm ", DITI_SOLVER_IPNDM, 4, false},
    {"pndm", " pndm plms pndmscheduler ", DITI_SOLVER_PNDM, 4, false},
    {"unipc", " unipc unipcbh2 unipcmultistepscheduler ", DITI_SOLVER_UNIPC, 2, false},
    {"ddim", " ddim ddimscheduler ", DITI_SOLVER_DDIM, 1, false},
    {"ddpm", " ddpm ddpmscheduler ", DITI_SOLVER_DDPM, 1, true},
    {"lcm", " lcm lcmscheduler ", DITI_SOLVER_LCM, 1, true},
    {"scm", " scm scmscheduler ", DITI_SOLVER_SCM, 1, true},
};

/* Classes of configs that mean a sampler and more, and what stands for keys that they leave out. They are known here
   because a scheduler is more than one family's: a config may stand beside any transformer. */
typedef struct diti_class_entry {
    const char *name; /* as diti_plain_name has it */
    const char *sampler;
    double beta_start, beta_end; /* 0: 0.0001 to 0.02 */
    diti_beta_kind betas;
    bool cogvideox, opensora;
} diti_class_entry;

static const diti_class_entry diti_classes[] = {
    {" heundiscretescheduler ", " heun ", 0.00085, 0.012, DITI_BETA_LINEAR, false, false},
    {" kdpm2discretescheduler ", " dpm2 ", 0.00085, 0.012, DITI_BETA_LINEAR, false, false},
    {" kdpm2ancestraldiscretescheduler ", " dpm2a ", 0.00085, 0.012, DITI_BETA_LINEAR, false, false},
    {" cogvideoxddimscheduler ", " ddim ", 0.00085, 0.012, DITI_BETA_SCALED_LINEAR, true, false},
    {" cogvideoxdpmscheduler ", " dpm++2msde ", 0.00085, 0.012, DITI_BETA_SCALED_LINEAR, true, false},
    {" minimaxh3scheduler ", " euler ", 0, 0, DITI_BETA_LINEAR, false, false},
    {" iddpm ", " ddpm ", 0, 0, DITI_BETA_LINEAR, false, true},  /* Open-Sora 1.0 and 1.1 */
    {" rflow ", " euler ", 0, 0, DITI_BETA_LINEAR, false, true}, /* Open-Sora 1.2 */
};

typedef struct diti_schedule_entry {
    const char *name, *aliases;
    bool spaces; /* chooses a spacing, else a shape of the sigmas */
    diti_spacing spacing;
    diti_sigma_shape shape;
} diti_schedule_entry;

static const diti_schedule_entry diti_schedules[] = {
    {"linspace", " linspace normal discrete uniform ", true, DITI_SPACING_LINSPACE, DITI_SIGMAS_OWN},
    {"leading", " leading ddimuniform ", true, DITI_SPACING_LEADING, DITI_SIGMAS_OWN},
    {"trailing", " trailing sgmuniform simple ", true, DITI_SPACING_TRAILING, DITI_SIGMAS_OWN},
    {"respaced", " respaced iddpm ", true, DITI_SPACING_RESPACED, DITI_SIGMAS_OWN},
    {"karras", " karras ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_KARRAS},
    {"exponential", " exponential ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_EXPONENTIAL},
    {"lu", " lu lulambdas ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_LU},
    {"beta", " beta ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_BETA},
    {"kl-optimal", " kloptimal ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_KL_OPTIMAL},
    {"bong-tangent", " bongtangent ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_TANGENT},
    {"linear-quadratic", " linearquadratic ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_QUADRATIC},
};

DIT_API const char *dit_sampler_name(uint32_t index) {
    return index < DITI_COUNT(diti_samplers) ? diti_samplers[index].name : NULL;
}

DIT_API const char *dit_schedule_name(uint32_t index) {
    return index < DITI_COUNT(diti_schedules) ? diti_schedules[index].name : NULL;
}

/* " dpm++2mkarras " for "DPM++ 2M Karras"; empty when it is too long to be a name. */
static void diti_plain_name(const char *name, char *out, size_t size) {
    size_t length = 0;
    out[length++] = ' ';
    for (; *name && length + 2 < size; name++) {
        char c = *name;
        if (c == ' ' || c == '_' || c == '-') continue;
        out[length++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[length++] = ' ';
    out[*name ? 0 : length] = 0;
}

static const diti_sampler_entry *diti_sampler_find(const char *plain) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_samplers) && strlen(plain) > 2; i++) {
        if (strstr(diti_samplers[i].aliases, plain)) return &diti_samplers[i];
    }
    return NULL;
}

static const diti_class_entry *diti_class_find(const char *plain) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_classes); i++)
        if (diti_equal(diti_classes[i].name, plain)) return &diti_classes[i];
    return NULL;
}

/* The sampler that a config's class stands for; NULL: none of these. */
static const diti_sampler_entry *diti_class_sampler(const char *plain) {
    const diti_class_entry *entry = diti_class_find(plain);
    return diti_sampler_find(entry ? entry->sampler : plain);
}

static const diti_schedule_entry *diti_schedule_find(const char *plain) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_schedules) && strlen(plain) > 2; i++) {
        if (strstr(diti_schedules[i].aliases, plain)) return &diti_schedules[i];
    }
    return NULL;
}

/* "dpm++2mkarras" and "ddimtrailing" name a sampler and a schedule at once. */
static const diti_sampler_entry *diti_sampler_find_both(const char *plain, const diti_schedule_entry **schedule) {
    size_t length = strlen(plain), i;
    const diti_sampler_entry *found = diti_sampler_find(plain);
    for (i = 2; !found && i + 2 < length; i++) {
        char tail[64], head[64];
        diti_format(tail, sizeof tail, " %s", plain + i);
        diti_format(head, sizeof head, "%.*s ", (int)i, plain);
        *schedule = diti_schedule_find(tail);
        if (*schedule) found = diti_sampler_find(head);
    }
    return found;
}

static void diti_name_list(const char *(*name)(uint32_t), char *out, size_t size) {
    uint32_t i;
    *out = 0;
    for (i = 0; name(i); i++) {
        size_t used = strlen(out);
        diti_format(out + used, size - used, "%s%s", i ? ", " : "", name(i));
    }
}

/* How many characters must be put in, taken out or changed to make b of a (Levenshtein). */
static uint32_t diti_name_distance(const char *a, const char *b) {
    uint32_t row[64], length = (uint32_t)strlen(b), i, j;
    if (length >= DITI_COUNT(row)) return UINT32_MAX;
    for (j = 0; j <= length; j++) row[j] = j;
    for (i = 0; a[i]; i++) {
        uint32_t diagonal = row[0];
        row[0] = i + 1;
        for (j = 0; j < length; j++) {
            uint32_t changed = diagonal + (a[i] != b[j]), inserted = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = changed < inserted ? changed : inserted;
        }
    }
    return row[length];
}

/* The name most like what was typed, when it is like it at all; else NULL. */
static const char *diti_nearest_name(const char *name, const char *(*names)(uint32_t)) {
    const char *nearest = NULL;
    uint32_t least = UINT32_MAX, i;
    char plain[64], candidate[64];
    diti_plain_name(name, plain, sizeof plain);
    for (i = 0; strlen(plain) > 2 && names(i); i++) {
        uint32_t distance;
        diti_plain_name(names(i), candidate, sizeof candidate);
        distance = diti_name_distance(plain, candidate);
        if (distance >= least || distance * 2 > strlen(plain) - 2) continue;
        least = distance;
        nearest = names(i);
    }
    return nearest;
}

/* Names that other programs know and this version does not, as aliases are written, and what is nearest in method. */
static const char *const diti_missing_samplers[][2] = {
    {" dpm++2mv2 dpmpp2mv2 lms klms lmsdiscretescheduler dpmpp2mcfgpp ", "dpm++2m"},
    {" sasolver sasolverpece ", "unipc"},
    {" expheun2x0 resmultistepcfgpp ", "res-multistep"},
    {" seeds2 seeds3 expheun2x0sde resmultistepancestralcfgpp ", "res-multistep-a"},
    {" dpmfast dpmadaptive ", "dpm++3m"},
    {" dpm++2sa dpmpp2sa dpmpp2sancestral dpm++sde dpmppsde ", "dpm2-a"},
    {" heunpp2 flowmatchheundiscretescheduler ", "heun"},
    {" ipndmv ipndmscheduler ", "ipndm"},
    {" tcd tcdscheduler ", "lcm"},
    {" eulercfgpp eulercfg++ restart gradientestimationcfgpp ", "euler"},
    {" eulerancestralcfgpp eulerancestralcfg++ ", "euler-a"},
};
static const char *const diti_missing_schedules[][2] = {
    {" ays alignyoursteps gits ", "karras"},
    {" polyexponential ", "exponential"},
    {" turbo smoothstep lcm ", "trailing"},
    {" flux flux2 ltx2 logitnormal ", "default"}, /* sd.cpp's names for the models' own */
};

/* NULL: nobody knows it. */
static const char *diti_find_missing(const char *const (*list)[2], size_t count, const char *plain) {
    size_t i;
    for (i = 0; i < count && strlen(plain) > 2; i++)
        if (strstr(list[i][0], plain)) return list[i][1];
    return NULL;
}

static dit_result diti_unknown_name(bool sampler, const char *name, dit_error *err) {
    const char *(*names)(uint32_t) = sampler ? dit_sampler_name : dit_schedule_name;
    const char *what = sampler ? "sampler" : "schedule", *nearest;
    char plain[64], list[320];
    diti_plain_name(name, plain, sizeof plain);
    diti_name_list(names, list, sizeof list);
    nearest = sampler ? diti_find_missing(diti_missing_samplers, DITI_COUNT(diti_missing_samplers), plain)
                      : diti_find_missing(diti_missing_schedules, DITI_COUNT(diti_missing_schedules), plain);
    if (nearest)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "this version does not have the %s \"%.60s\"; the nearest is %s; there are %s", what, name,
                         nearest, list);
    nearest = diti_nearest_name(name, names);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "unknown %s \"%.60s\"%s%s; there are %s", what, name,
                     nearest ? ", the nearest is " : "", nearest ? nearest : "", list);
}

DIT_API dit_result dit_find_sampler(const char *text, const char **sampler, const char **schedule, dit_error *err) {
    const diti_schedule_entry *other = NULL;
    const diti_sampler_entry *found;
    char plain[64];
    if (!text || !sampler)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_find_sampler: text and sampler must be given");
    diti_plain_name(text, plain, sizeof plain);
    found = diti_sampler_find_both(plain, &other);
    if (!found) return diti_unknown_name(true, text, err);
    *sampler = found->name;
    if (schedule) *schedule = other ? other->name : NULL;
    return DIT_OK;
}

DIT_API dit_result dit_find_schedule(const char *text, const char **schedule, dit_error *err) {
    const diti_schedule_entry *found;
    char plain[64];
    if (!text || !schedule)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_find_schedule: text and schedule must be given");
    diti_plain_name(text, plain, sizeof plain);
    found = diti_schedule_find(plain);
    if (!found && !diti_equal(plain, " automatic ") && !diti_equal(plain, " default "))
        return diti_unknown_name(false, text, err);
    *schedule = found ? found->name : NULL;
    return DIT_OK;
}

/* --- scheduler_config.json --- */

static uint32_t diti_config_choice(diti_settings *settings, const char *key, const char *const *names, uint32_t count,
                                   uint32_t otherwise) {
    const char *text = diti_setting_text(settings, key, NULL);
    char problem[300];
    uint32_t i;
    if (!text) return otherwise;
    diti_format(problem, sizeof problem, "\"%.60s\" is not supported; supported are", text);
    for (i = 0; i < count; i++) {
        size_t used = strlen(problem);
        if (diti_equal(text, names[i])) return i;
        diti_format(problem + used, sizeof problem - used, "%s %s", i ? "," : "", names[i]);
    }
    diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, problem);
    return otherwise;
}

static void diti_config_must_be_off(diti_settings *settings, const char *key) {
    if (diti_setting_bool(settings, key, false))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key, "true is not supported");
}

/* own: what is particular about the config's class; NULL: nothing. */
static void diti_config_read_betas(diti_settings *settings, const diti_class_entry *own, diti_sampling *out) {
    static const char *const kinds[] = {"linear", "scaled_linear", "squaredcos_cap_v2"};
    bool other = own && own->beta_end > 0;
    out->betas = (diti_beta_kind)diti_config_choice(settings, "beta_schedule", kinds, 3,
                                                    other ? (uint32_t)own->betas : (uint32_t)DITI_BETA_LINEAR);
    out->beta_start = diti_setting_number(settings, "beta_start", other ? own->beta_start : 0.0001, 0, 0.999);
    out->beta_end = diti_setting_number(settings, "beta_end", other ? own->beta_end : 0.02, 0, 0.999);
    out->double_alphas = own && own->cogvideox;
    if (out->double_alphas) out->snr_shift = diti_setting_number(settings, "snr_shift_scale", 3, 1e-3, 1e3);
    out->zero_snr = diti_setting_bool(settings, "rescale_betas_zero_snr", false);
    out->trained_betas = diti_setting_numbers(settings, "trained_betas");
    if (out->trained_betas && out->trained_betas->count != out->train_steps) {
        diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, "trained_betas", "not as many as num_train_timesteps says");
    }
}

static void diti_config_read_spacing(diti_settings *settings, const diti_class_entry *own, diti_sampling *out) {
    static const char *const spacings[] = {"linspace", "leading", "trailing", "respaced"};
    static const char *const finals[] = {"zero", "sigma_min"};
    bool leads = out->solver == DITI_SOLVER_DDIM || out->solver == DITI_SOLVER_DDPM ||
                 out->solver == DITI_SOLVER_PNDM || (own && own->cogvideox);
    diti_spacing otherwise = leads ? DITI_SPACING_LEADING : DITI_SPACING_LINSPACE;
    if (own && own->opensora && out->solver == DITI_SOLVER_DDPM) otherwise = DITI_SPACING_RESPACED;
    out->spacing = (diti_spacing)diti_config_choice(settings, "timestep_spacing", spacings, 4, otherwise);
    out->steps_offset = (uint32_t)diti_setting_number(settings, "steps_offset", 0, 0, 1000);
    out->final_sigma_zero = diti_config_choice(settings, "final_sigmas_type", finals, 2, 0) == 0;
    if (diti_setting_bool(settings, "use_karras_sigmas", false)) out->shape = DITI_SIGMAS_KARRAS;
    if (diti_setting_bool(settings, "use_exponential_sigmas", false)) out->shape = DITI_SIGMAS_EXPONENTIAL;
    if (diti_setting_bool(settings, "use_lu_lambdas", false)) out->shape = DITI_SIGMAS_LU;
    if (diti_setting_bool(settings, "use_beta_sigmas", false)) out->shape = DITI_SIGMAS_BETA;
    out->sigma_min = diti_setting_number(settings, "sigma_min", 0, 0, 1e6);
    out->sigma_max = diti_setting_number(settings, "sigma_max", 0, 0, 1e6);
    if (out->sigma_max > 0 && out->sigma_max <= out->sigma_min)
        diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, "sigma_max", "not above sigma_min");
}

/* Written as -Infinity, which is no JSON, or as the text "-Infinity". */
static double diti_config_lambda_min(diti_settings *settings) {
    const diti_json *value = diti_setting(settings, "lambda_min_clipped");
    if (value && value->kind == DITI_JSON_STRING && diti_equal(value->text, "-Infinity")) return -(double)INFINITY;
    return diti_setting_number(settings, "lambda_min_clipped", -(double)INFINITY, -(double)INFINITY, 1000);
}

/* For DPM-Solver++ multistep and singlestep. own_class: the config was written for this sampler, else what it says
   about orders is meant for another. own: as for the betas. diffusers' singlestep turns lower_order_final on where the
   last sigma is 0, and where the steps are no multiple of the order. */
static void diti_config_read_dpm(diti_settings *settings, const diti_class_entry *own, diti_sampling *out,
                                 bool own_class) {
    static const char *const algorithms[] = {"dpmsolver++", "sde-dpmsolver++"};
    static const char *const types[] = {"midpoint", "heun", "logrho", "bh1",
                                        "bh2"}; /* diffusers takes the last three for midpoint */
    bool single = out->solver == DITI_SOLVER_SINGLESTEP;
    out->order = 2;
    out->lower_order_final = true;
    out->lambda_min = diti_config_lambda_min(settings);
    if (!own_class) return;
    if (own && own->cogvideox) {
        out->stochastic = out->strides = true;
        out->lower_order_final = false;
        out->final_alpha_one = diti_setting_bool(settings, "set_alpha_to_one", true);
        return;
    }
    out->order = (uint32_t)diti_setting_number(settings, "solver_order", 2, 1, single ? 2 : 3);
    out->stochastic = diti_config_choice(settings, "algorithm_type", algorithms, single ? 1 : 2, 0) == 1;
    out->heun = diti_config_choice(settings, "solver_type", types, 5, 0) == 1;
    out->lower_order_final = diti_setting_bool(settings, "lower_order_final", !single);
    out->euler_at_final = !single && diti_setting_bool(settings, "euler_at_final", false);
}

/* diffusers' class ends at the first sigma of training, which no key says. */
static void diti_config_read_deis(diti_settings *settings, diti_sampling *out, bool own_class) {
    /* diffusers takes the others for the first */
    static const char *const algorithms[] = {"deis", "dpmsolver", "dpmsolver++"};
    static const char *const types[] = {"logrho", "midpoint", "heun", "bh1", "bh2"};
    out->order = 2;
    out->lower_order_final = true;
    if (!own_class) return;
    out->order = (uint32_t)diti_setting_number(settings, "solver_order", 2, 1, 3);
    diti_config_choice(settings, "algorithm_type", algorithms, 3, 0);
    diti_config_choice(settings, "solver_type", types, 5, 0);
    out->lower_order_final = diti_setting_bool(settings, "lower_order_final", true);
    out->final_sigma_zero = false;
}

/* Chosen by name it begins with the multistep formulas at once, as A1111's PLMS, and ends without noise. */
static void diti_config_read_pndm(diti_settings *settings, diti_sampling *out, bool own_class) {
    out->final_alpha_one = out->skips_runge_kutta = true;
    if (!own_class) return;
    out->skips_runge_kutta = diti_setting_bool(settings, "skip_prk_steps", false);
    out->final_alpha_one = diti_setting_bool(settings, "set_alpha_to_one", false);
    out->remembers_output = out->prediction == DITI_PREDICT_V;
}

static void diti_config_check_euler(diti_settings *settings) {
    static const char *const interpolations[] = {"linear"}, *const types[] = {"discrete"};
    diti_config_choice(settings, "interpolation_type", interpolations, 1, 0);
    diti_config_choice(settings, "timestep_type", types, 1, 0);
}

static void diti_config_read_unipc(diti_settings *settings, const diti_schedule_request *request, diti_sampling *out,
                                   bool own_class) {
    static const char *const types[] = {"bh2", "bh1", "midpoint", "heun",
                                        "logrho"}; /* diffusers takes the last three for bh2 */
    out->order = 2;
    out->lower_order_final = true;
    if (!own_class) return;
    out->order = (uint32_t)diti_setting_number(settings, "solver_order", 2, 1, 3);
    out->bh1 = diti_config_choice(settings, "solver_type", types, 5, 0) == 1;
    out->predicts_noise = !diti_setting_bool(settings, "predict_x0", true);
    out->lower_order_final = diti_setting_bool(settings, "lower_order_final", true);
    out->uncorrected = diti_setting_numbers(settings, "disable_corrector");
    out->karras_of_betas = out->flow && out->shape == DITI_SIGMAS_KARRAS && !request->schedule && !request->uniform &&
                           !request->quadratic && !request->sigmas && request->shift == 0;
    if (diti_setting(settings, "solver_p"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "solver_p", "another predictor is not supported");
}

/* Without clip_sample in it only a config of DDIM or DDPM means diffusers' default, which is to clip. */
static void diti_config_read_clip(diti_settings *settings, diti_sampling *out, bool otherwise) {
    if (diti_setting_bool(settings, "clip_sample", otherwise))
        out->clip = diti_setting_number(settings, "clip_sample_range", 1, 1e-6, 1e6);
}

/* CogVideoX's class has keys for clipping and does not clip. */
static void diti_config_read_ddim(diti_settings *settings, const diti_class_entry *own, diti_sampling *out,
                                  bool own_class) {
    out->final_alpha_one = diti_setting_bool(settings, "set_alpha_to_one", true);
    if (!own || !own->cogvideox) diti_config_read_clip(settings, out, own_class);
}

static void diti_config_read_ddpm(diti_settings *settings, const diti_class_entry *own, diti_sampling *out,
                                  bool own_class) {
    static const char *const variances[] = {"fixed_small", "fixed_large", "learned_range", "fixed_small_log"};
    bool opensora = own && own->opensora;
    uint32_t choice = own_class ? diti_config_choice(settings, "variance_type", variances, 4, opensora ? 2 : 0) : 0;
    out->variance = choice == 1 ? DITI_VARIANCE_LARGE : choice == 2 ? DITI_VARIANCE_LEARNED : DITI_VARIANCE_SMALL;
    out->float_betas = opensora;
    diti_config_read_clip(settings, out, own_class && !opensora);
}

static void diti_config_read_lcm(diti_settings *settings, diti_sampling *out) {
    double steps =
        diti_setting_number(settings, "original_inference_steps", fmin(50, out->train_steps), 1, out->train_steps);
    out->distilled_steps = (uint32_t)steps;
    out->timestep_scaling = diti_setting_number(settings, "timestep_scaling", 10, 0, 1e6);
    diti_config_read_clip(settings, out, false);
}

/* mu is linear in the number of image tokens; shifting by e^mu is what diffusers calls exponential
 * (docs/models.md 7.7). */
static double diti_config_dynamic_shift(diti_settings *settings, uint32_t image_tokens) {
    static const char *const types[] = {"exponential", "linear"};
    double low = diti_setting_number(settings, "base_image_seq_len", 256, 1, 1e9),
           high = diti_setting_number(settings, "max_image_seq_len", 4096, 1, 1e9);
    double base = diti_setting_number(settings, "base_shift", 0.5, -100, 100),
           most = diti_setting_number(settings, "max_shift", 1.15, -100, 100);
    double slope = high > low ? (most - base) / (high - low) : 0, mu = base + slope * ((double)image_tokens - low);
    if (image_tokens == 0)
        diti_settings_refuse(settings, DIT_ERROR_INVALID_ARGUMENT, "use_dynamic_shifting",
                             "the number of image tokens is needed");
    return diti_config_choice(settings, "time_shift_type", types, 2, 0) == 1 ? mu : exp(mu);
}

/* Larger and longer clips need more noise (docs/models.md 7.8). */
static double diti_config_transform(diti_settings *settings, const diti_schedule_request *request) {
    double frames = request->frames > 1 ? request->frames / 17 * 5 : 1;
    double ratio = sqrt((double)request->width * request->height / (512.0 * 512.0)) * sqrt(frames);
    if (ratio <= 0)
        diti_settings_refuse(settings, DIT_ERROR_INVALID_ARGUMENT, "use_timestep_transform",
                             frames > 0 ? "the clip's width and height are needed"
                                        : "clips of 2 to 16 frames have no timesteps; ask for 1 frame, for at least "
                                          "17, or give a shift");
    return ratio;
}

static void diti_config_read_flow(diti_settings *settings, const diti_schedule_request *request,
                                  const diti_class_entry *own, diti_sampling *out) {
    const char *key = diti_setting(settings, "flow_shift") ? "flow_shift" : "shift";
    out->shift = diti_setting_number(settings, key, 1, 1e-3, 1e3);
    out->shift_terminal = diti_setting_number(settings, "shift_terminal", 0, 0, 0.999);
    diti_config_must_be_off(settings, "invert_sigmas");
    diti_config_must_be_off(settings, "stochastic_sampling");
    out->dynamic_shift = diti_setting_bool(settings, "use_dynamic_shifting", false);
    if (request->shift != 0)
        out->shift = (double)request->shift;
    else if (out->dynamic_shift && request->measured_shift)
        out->shift = request->measured_shift(request->image_tokens, request->steps);
    else if (out->dynamic_shift)
        out->shift = diti_config_dynamic_shift(settings, request->image_tokens);
    else if (own && own->opensora && diti_setting_bool(settings, "use_timestep_transform", false))
        out->shift = diti_config_transform(settings, request);
    out->transforms = own && own->opensora && out->solver == DITI_SOLVER_EULER;
    out->sigmas = request->sigmas;
    out->sigma = request->sigma;
    out->image_tokens = request->image_tokens;
    if (!request->exact) return;
    out->shift = 1;
    out->shift_terminal = 0;
}

static void diti_config_read_prediction(diti_settings *settings, const char *class_name, diti_sampling *out) {
    static const char *const predictions[] = {"epsilon", "v_prediction", "sample", "flow_prediction"};
    bool matches =
        class_name && (diti_starts_with(class_name, "FlowMatch") || diti_equal(class_name, "MiniMaxH3Scheduler"));
    if (class_name && diti_equal(class_name, "SCMScheduler")) {
        const char *word = diti_setting_text(settings, "prediction_type", "trigflow");
        out->prediction = DITI_PREDICT_TRIGFLOW;
        out->first_angle = diti_setting_number(settings, "max_timesteps", 1.5708, 1e-3, 1.5708);
        out->second_angle = diti_setting_number(settings, "intermediate_timesteps", 1.3, 0, 1.5708);
        if (!diti_equal(word, "trigflow"))
            diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "prediction_type", "only trigflow is known");
        return;
    }
    if (class_name && diti_equal(class_name, "rflow")) {
        out->prediction = DITI_PREDICT_RECTIFIED;
        out->flow = true;
        return;
    }
    out->prediction = (diti_prediction)diti_config_choice(settings, "prediction_type", predictions, 4,
                                                          matches ? DITI_PREDICT_FLOW : DITI_PREDICT_EPSILON);
    out->flow =
        matches || out->prediction == DITI_PREDICT_FLOW || diti_setting_bool(settings, "use_flow_sigmas", false);
    if (out->flow && out->prediction != DITI_PREDICT_FLOW)
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "prediction_type",
                             "flow sigmas need flow_prediction");
}

/* --- request and config together --- */
static dit_result diti_sampling_choose(const diti_schedule_request *request, const char *class_name, diti_sampling *out,
                                       const diti_sampler_entry **chosen, const diti_schedule_entry **schedule,
                                       dit_error *err) {
    const char *wanted = request->sampler ? request->sampler : class_name;
    char plain[64];
    if (!wanted)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "neither a sampler nor a scheduler_config.json with a _class_name is given");
    diti_plain_name(wanted, plain, sizeof plain);
    *chosen = request->sampler ? NULL : diti_class_sampler(plain);
    if (!*chosen) *chosen = diti_sampler_find_both(plain, schedule);
    if (!*chosen && request->sampler) return diti_unknown_name(true, wanted, err);
    if (!*chosen) {
        char list[320];
        diti_name_list(dit_sampler_name, list, sizeof list);
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "scheduler_config.json: _class_name: \"%.60s\" is not supported; choose a sampler: %s", wanted,
                         list);
    }
    out->solver = (*chosen)->solver;
    out->sampler = (*chosen)->name;
    out->order = (*chosen)->order;
    out->stochastic = (out->solver == DITI_SOLVER_EULER || out->solver == DITI_SOLVER_DPM2) && (*chosen)->stochastic;
    return DIT_OK;
}

/* A sampler chosen by name brings its own order; one that the config names keeps the config's. */
static void diti_sampling_apply_name(const diti_sampler_entry *chosen, const diti_schedule_request *request,
                                     diti_sampling *out) {
    size_t i;
    if (request->sampler) {
        out->order = chosen->order;
        out->stochastic = chosen->stochastic;
        return;
    }
    for (i = 0; i < DITI_COUNT(diti_samplers); i++) {
        const diti_sampler_entry *entry = &diti_samplers[i];
        if (entry->solver == out->solver && entry->order == out->order && entry->stochastic == out->stochastic)
            out->sampler = entry->name;
    }
}

static dit_result diti_sampling_apply_schedule(const diti_schedule_request *request,
                                               const diti_schedule_entry *schedule, diti_sampling *out,
                                               dit_error *err) {
    const char *name = NULL;
    char plain[64];
    out->uniform = request->uniform && out->flow;
    out->quadratic = request->quadratic && out->flow;
    if (request->schedule) {
        dit_result result = dit_find_schedule(request->schedule, &name, err);
        if (result < 0 || !name) return result;
        diti_plain_name(name, plain, sizeof plain);
        schedule = diti_schedule_find(plain);
    }
    if (!schedule) return DIT_OK;
    if (schedule->spaces && out->flow && schedule->spacing == DITI_SPACING_LINSPACE) return DIT_OK; /* own spacing */
    if (schedule->spaces && out->flow && schedule->spacing != DITI_SPACING_TRAILING)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "schedule %s spaces the timesteps of models with betas, and this is a flow model: leave it out, or use trailing, karras, exponential, beta, kl-optimal, bong-tangent or linear-quadratic",
            schedule->name);
    out->uniform = out->uniform || (schedule->spaces && out->flow);
    if (out->solver == DITI_SOLVER_LCM && schedule->spaces && !out->flow)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "schedule %s does not go with lcm: use none, it has its own timesteps", schedule->name);
    out->spacing = schedule->spacing;
    out->shape = schedule->shape;
    return DIT_OK;
}

static dit_result diti_sampling_check_request(const diti_schedule_request *request, const diti_sampling *sampling,
                                              dit_error *err) {
    uint32_t i;
    if (request->steps == 0) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "0 steps: at least 1 is needed");
    if (request->steps > sampling->train_steps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%u steps are more than the %u that the model was trained with: use at most %u",
                         request->steps, sampling->train_steps, sampling->train_steps);
    if (!(request->eta >= 0 && request->eta <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "eta %g is outside 0..1: the nearest valid value is %d",
                         (double)request->eta, request->eta > 1 ? 1 : 0);
    if (request->eta > 0 && sampling->solver != DITI_SOLVER_DDIM)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "eta %g: only the sampler ddim adds noise by it; with %s it must be 0", (double)request->eta,
                         sampling->sampler);
    if (request->shift != 0 && !sampling->flow)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "shift %g: only flow models have one; it must be 0 for this model", (double)request->shift);
    if (request->shift != 0 && !(request->shift >= 1e-3f && request->shift <= 1e3f))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "shift %g is outside 0.001..1000: the nearest valid value is %s", (double)request->shift,
                         request->shift > 1e3f ? "1000" : "0.001 (or 0: the model's own)");
    if (!request->sigmas) return DIT_OK;
    if (!sampling->flow || request->sigma_count != request->steps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "explicit sigmas need a flow model and one per step: %u for %u steps", request->sigma_count,
                         request->steps);
    for (i = 0; i < request->sigma_count; i++) {
        if (!(request->sigmas[i] > 0 && request->sigmas[i] <= (i ? request->sigmas[i - 1] : 1)))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "sigma %u is %g: sigmas fall from 1 to above 0", i,
                             (double)request->sigmas[i]);
    }
    return DIT_OK;
}

static const char *diti_shape_name(diti_sigma_shape shape) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_schedules); i++) {
        if (!diti_schedules[i].spaces && diti_schedules[i].shape == shape) return diti_schedules[i].name;
    }
    return "";
}

DIT_INTERNAL bool diti_sampling_multistep(const diti_sampling *sampling) {
    return sampling->solver == DITI_SOLVER_DPM || sampling->solver == DITI_SOLVER_SINGLESTEP ||
           sampling->solver == DITI_SOLVER_DEIS || sampling->solver == DITI_SOLVER_UNIPC;
}

DIT_INTERNAL bool diti_sampling_differential(const diti_sampling *sampling) {
    return sampling->solver == DITI_SOLVER_EULER || sampling->solver == DITI_SOLVER_HEUN ||
           sampling->solver == DITI_SOLVER_DPM2 || sampling->solver == DITI_SOLVER_IPNDM ||
           sampling->solver == DITI_SOLVER_RES || sampling->solver == DITI_SOLVER_RES_2S ||
           sampling->solver == DITI_SOLVER_ER_SDE || sampling->solver == DITI_SOLVER_GRADIENT;
}

DIT_INTERNAL bool diti_sampling_double(const diti_sampling *sampling) {
    return sampling->solver == DITI_SOLVER_HEUN || sampling->solver == DITI_SOLVER_DPM2 ||
           sampling->solver == DITI_SOLVER_RES_2S;
}

static dit_result diti_sampling_check(const diti_sampling *out, dit_error *err) {
    bool shapes = diti_sampling_multistep(out) || diti_sampling_differential(out);
    if ((out->solver == DITI_SOLVER_SCM) != (out->prediction == DITI_PREDICT_TRIGFLOW))
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT, "sampler %s does not go with this model: use %s", out->sampler,
            out->prediction == DITI_PREDICT_TRIGFLOW ? "scm, which it is distilled for"
                                                     : "any other, since scm needs a model that is distilled for it");
    if (out->solver == DITI_SOLVER_PNDM && (out->flow || out->zero_snr))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "sampler pndm needs some signal from the first step on, which %s: use ipndm",
                         out->flow ? "flow models do not have" : "rescale_betas_zero_snr takes away");
    if (out->shape != DITI_SIGMAS_OWN && !shapes)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "schedule %s does not go with %s: use %s",
                         diti_shape_name(out->shape), out->sampler,
                         out->flow || out->solver == DITI_SOLVER_LCM ? "none" : "linspace, leading or trailing");
    if (out->shape == DITI_SIGMAS_LU && (out->flow || out->solver != DITI_SOLVER_DPM))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "schedule lu goes only with dpm++ on models with betas: use karras or exponential");
    if (out->spacing == DITI_SPACING_RESPACED && !out->flow && out->solver != DITI_SOLVER_DDIM &&
        out->solver != DITI_SOLVER_DDPM)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "schedule respaced goes only with ddpm and ddim: use linspace, leading or trailing with %s",
                         out->sampler);
    return DIT_OK;
}

static void diti_sampling_read(diti_settings *settings, const diti_schedule_request *request,
                               const diti_class_entry *own, bool own_class, diti_sampling *out) {
    diti_config_read_spacing(settings, own, out);
    switch (out->solver) {
    case DITI_SOLVER_DPM:
    case DITI_SOLVER_SINGLESTEP: diti_config_read_dpm(settings, own, out, own_class); break;
    case DITI_SOLVER_DEIS: diti_config_read_deis(settings, out, own_class); break;
    case DITI_SOLVER_UNIPC: diti_config_read_unipc(settings, request, out, own_class); break;
    case DITI_SOLVER_PNDM: diti_config_read_pndm(settings, out, own_class); break;
    case DITI_SOLVER_DDIM: diti_config_read_ddim(settings, own, out, own_class); break;
    case DITI_SOLVER_DDPM: diti_config_read_ddpm(settings, own, out, own_class); break;
    case DITI_SOLVER_LCM: diti_config_read_lcm(settings, out); break;
    case DITI_SOLVER_SCM: break;
    case DITI_SOLVER_HEUN: diti_config_read_clip(settings, out, false); break;
    case DITI_SOLVER_EULER:
        if (own_class) diti_config_check_euler(settings);
        break;
    case DITI_SOLVER_DPM2: out->whole_karras = own_class; break;
    case DITI_SOLVER_RES:
    case DITI_SOLVER_RES_2S:
    case DITI_SOLVER_ER_SDE:
    case DITI_SOLVER_GRADIENT:
    case DITI_SOLVER_IPNDM: break;
    }
    if (diti_sampling_double(out)) out->final_sigma_zero = true; /* steps of two evaluations end where noise is gone */
    if (out->flow) diti_config_read_flow(settings, request, own, out);
    if (!out->flow || out->karras_of_betas) diti_config_read_betas(settings, own, out);
}

/* diffusers' get_timesteps, in double as Python has it, of the few decimal digits that strength was written with.
   Pipelines of clips round the steps that are taken down, those of pictures the steps that are left out. */
static uint32_t diti_sampling_begin(const diti_schedule_request *request) {
    double strength = rint((double)request->strength * 1e6) / 1e6, taken = request->steps * strength;
    if (!(request->strength > 0 && request->strength < 1) || taken >= request->steps) return 0;
    if (request->takes_whole) taken = taken < 1 ? 1 : floor(taken);
    return taken > 0 ? (uint32_t)(request->steps - taken) : request->steps - 1;
}

/* Evaluations of the model, and the first of them: Heun, DPM2 and RES 2S need two for each step but the last, PNDM one
   more for its second step or 12 for its first three. */
static void diti_sampling_count(diti_sampling *out) {
    uint32_t left = out->steps - out->begin;
    out->calls = out->steps;
    out->first = out->begin;
    if (diti_sampling_double(out)) {
        out->calls = 2 * out->steps - 1;
        out->first = 2 * out->begin;
    }
    if (out->solver != DITI_SOLVER_PNDM) return;
    if (left < 4) out->skips_runge_kutta = true; /* Runge-Kutta has no room */
    out->calls = out->skips_runge_kutta ? left + (left > 1 ? 1 : 0) : left + 9;
    out->first = 0;
}

DIT_INTERNAL dit_result diti_sampling_resolve(const diti_json *config, const diti_schedule_request *request,
                                              diti_sampling *out, dit_error *err) {
    diti_settings settings = diti_settings_of(config, "scheduler_config.json", err);
    const char *class_name = diti_setting_text(&settings, "_class_name", NULL);
    const diti_sampler_entry *chosen = NULL;
    const diti_schedule_entry *schedule = NULL;
    const diti_sampler_entry *own;
    char plain[64];
    memset(out, 0, sizeof *out);
    if (settings.result >= 0) settings.result = diti_sampling_choose(request, class_name, out, &chosen, &schedule, err);
    DITI_TRY(settings.result);
    if (!config && out->solver == DITI_SOLVER_EULER) class_name = "FlowMatchEulerDiscreteScheduler";
    out->steps = request->steps;
    out->begin = diti_sampling_begin(request);
    out->clip = (double)INFINITY;
    out->lambda_min = -(double)INFINITY;
    out->eta = (double)request->eta;
    out->use_clipped_model_output = request->use_clipped_model_output;
    out->train_steps = (uint32_t)diti_setting_number(&settings, "num_train_timesteps", 1000, 1, 100000);
    diti_config_must_be_off(&settings, "thresholding");
    diti_config_read_prediction(&settings, class_name, out);
    if (settings.result >= 0) settings.result = diti_sampling_check_request(request, out, err);
    diti_plain_name(class_name ? class_name : "", plain, sizeof plain);
    own = config ? diti_class_sampler(plain) : NULL;
    diti_sampling_read(&settings, request, config ? diti_class_find(plain) : NULL, own && own->solver == out->solver,
                       out);
    diti_sampling_apply_name(chosen, request, out);
    if (settings.result >= 0) settings.result = diti_sampling_apply_schedule(request, schedule, out, err);
    diti_sampling_count(out);
    return settings.result < 0 ? settings.result : diti_sampling_check(out, err);
}
