/* dit-convert: a diffusers folder becomes one GGUF that dit.h opens by itself: weights of all components,
 * configurations, tokenizer and scheduler files. A single component's folder or file is converted too. See usage(). */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "convert/fit.h"
#include "convert/resume.h"
#include "convert/trajectory.h"
#include <ctype.h>

static const char usage_text[] = "usage: dit-convert [options] INPUT OUTPUT.gguf\n"
                                 "       dit-convert --errors PROMPTS.txt [--steps N] REFERENCE MODEL...\n"
                                 "\n"
                                 "INPUT       diffusers folder, a component's folder, or one safetensors, GGUF or\n"
                                 "            PyTorch file\n"
                                 "--type T    of the matrices: f32 f16 bf16 q8_0 (the default) q6_k q5_k q4_k q5_1\n"
                                 "            q5_0 q4_1 q4_0; i4_group: 4 bit per 128 columns; i8r, i8r+rot,\n"
                                 "            i4r+rot: rows of int8 or int4, plain or rotated, for which\n"
                                 "            activations become int8 too\n"
                                 "--tensor-type-rules GLOB=T,...  for tensors whose COMPONENT.NAME a glob matches,\n"
                                 "            first of all: \"vae.*=f16,transformer.*ff.net.*=i8r+rot\"\n"
                                 "--fit SIZE  a type for each matrix, so that the file is no larger (6GiB, 900MB)\n"
                                 "            and errors are least; tells each choice. --json: as JSON\n"
                                 "--calibrate PROMPTS.txt  runs the model on these prompts, one a line, and uses\n"
                                 "            what its layers read for --fit, --method and --smooth\n"
                                 "--device D, --weight-budget SIZE  where --calibrate and --errors run the model:\n"
                                 "            an index, a part of a name or a UUID; and how much of its weights\n"
                                 "            stays on the device while the rest is read in every step\n"
                                 "--method M  how i4_group rounds: plain, awq, gptq, svd, svd+gptq\n"
                                 "--rank N    of the low-rank parts of svd (32)\n"
                                 "--smooth A  SmoothQuant with this alpha, folded into the layer before\n"
                                 "--expanded  i4_group as the F32 values that it stands for\n"
                                 "--without text, --without vae  leaves these parts out\n"
                                 "--resume    keeps OUTPUT.partial and OUTPUT.journal when interrupted, and goes\n"
                                 "            on from there when run again\n"
                                 "--name NAME, --steps N, --guidance G  what the file says about the model\n"
                                 "--errors    how far models part from REFERENCE on the way to pictures\n"
                                 "--help, --version  show this, or the version\n"
                                 "\n"
                                 "Norms, biases, tables, embedders and final projections keep their stored type.\n"
                                 "Modulation and text-stream weights have 8 bits at least. Rows that do not fill\n"
                                 "blocks get smaller blocks, or f16. docs/quantization.md tells all.\n"
                                 "\n" EXIT_CODES_HELP;

/* --- the program --- */

static void report(const converter *convert) {
    FILE *out = told_to(convert);
    fprintf(out, "%s: %.1f MB, %zu tensors:", convert->output, (double)convert->written / 1e6, convert->tensor_count);
    for (int type = 1; type <= DIT_TYPE_I64; type++) {
        uint64_t size = 0;
        size_t count = 0;
        for (size_t i = 0; i < convert->tensor_count; i++) {
            if (convert->tensors[i].type != (dit_type)type) continue;
            size += convert->tensors[i].size;
            count++;
        }
        if (count) fprintf(out, " %zu %s (%.1f MB)", count, diti_type_name((dit_type)type), (double)size / 1e6);
    }
    fprintf(out, "\n");
}

/* Takes the steps and the guidance that the input was told from it, where the command line does not say them. */
static void inherit_defaults(converter *convert) {
    const diti_checkpoint *from = convert->tensors[0].from;
    const char *steps = diti_checkpoint_text(from, "dit.steps"), *guidance = diti_checkpoint_text(from, "dit.guidance");
    double step_count = steps ? diti_parse_double(steps) : 0, scale = guidance ? diti_parse_double(guidance) : 0;
    if (!convert->steps && step_count >= 1 && step_count <= 1000) convert->steps = (uint32_t)step_count;
    if (convert->guidance <= 0 && scale > 0 && scale <= 1000) convert->guidance = (float)scale;
}

static dit_result calibrate_on_file(converter *convert, calibration *c) {
    prompt_list prompts = {0};
    dit_result result = read_prompts(convert, &prompts);
    if (result >= 0) result = calibrate(c, convert->input, &convert->place, prompts.lines, prompts.count, convert->err);
    if (result >= 0)
        fprintf(told_to(convert), "%s: inputs of %zu layers from %zu prompts, %.1f MB\n", convert->input,
                c->layer_count, prompts.count, (double)c->size / 1e6);
    free_prompts(convert, &prompts);
    return result;
}

/* error: NAN where the latents cannot be compared, for which JSON has no number. */
static void tell_error(const char *model, uint64_t bytes, double error) {
    char number[32] = "null";
    if (isfinite(error)) snprintf(number, sizeof number, "%.4g", error);
    printf("{\"model\": ");
    print_json_text(model);
    printf(", \"bytes\": %llu, \"trajectory_error\": %s}\n", (unsigned long long)bytes, number);
}

/* One line for each model behind the first. */
static dit_result tell_errors(converter *convert, char **models, size_t count) {
    prompt_list prompts = {0};
    latents_path reference = {0}, other = {0};
    dit_result result = read_prompts(convert, &prompts);
    for (size_t i = 0; i < count && result >= 0; i++) {
        struct stat info = {0};
        result = trace_model(models[i], &convert->place, prompts.lines, prompts.count, convert->steps,
                             i ? &other : &reference, convert->err);
        stat(models[i], &info);
        if (i > 0 && result >= 0) tell_error(models[i], (uint64_t)info.st_size, trajectory_error(&reference, &other));
    }
    free(reference.values);
    free(other.values);
    free_prompts(convert, &prompts);
    return result;
}

static dit_result open_input(converter *convert) {
    dit_source source = {0};
    source.path = convert->input;
    DITI_TRY(diti_package_open(&convert->env, &source, &convert->package, convert->err));
    DITI_TRY(add_everything(convert));
    widen_parameters(convert);
    return DIT_OK;
}

static void tell_unused_rules(const converter *convert) {
    for (size_t i = 0; i < convert->rule_count; i++) {
        bool used = false;
        for (size_t k = 0; k < convert->tensor_count && !used; k++)
            used = convert->tensors[k].stored && is_weight(convert->tensors[k].stored) &&
                   diti_glob(convert->rules[i].glob, convert->tensors[k].name);
        if (!used)
            fprintf(stderr, "dit-convert: --tensor-type-rules: no matrix has a name as in \"%s\"\n",
                    convert->rules[i].glob);
    }
}

static dit_result convert_model(converter *convert) {
    calibration c = {0};
    dit_result result = DIT_OK;
    c.env = convert->env;
    if (convert->prompts) {
        convert->calibration = &c;
        result = calibrate_on_file(convert, &c);
    }
    if (result >= 0) result = open_input(convert);
    if (result >= 0) tell_unused_rules(convert);
    if (result >= 0) result = check_files(convert);
    if (result >= 0) result = fit_types(convert);
    if (result >= 0) result = fold_scales(convert);
    if (result >= 0) inherit_defaults(convert);
    if (result >= 0) result = write_output(convert);
    if (result >= 0) report(convert);
    calibration_free(&c);
    return result;
}

static void clean_up(converter *convert) {
    for (size_t i = 0; i < convert->tensor_count; i++) {
        diti_free(&convert->env, convert->tensors[i].name);
        diti_free(&convert->env, convert->tensors[i].made);
        diti_free(&convert->env, convert->tensors[i].row_divisors);
        diti_free(&convert->env, convert->tensors[i].column_factors);
    }
    for (size_t i = 0; i < convert->rule_count; i++) diti_free(&convert->env, convert->rules[i].glob);
    diti_free(&convert->env, convert->rules);
    for (size_t i = 0; i < convert->file_count; i++) {
        diti_free(&convert->env, convert->files[i].path);
        diti_free(&convert->env, convert->files[i].data);
    }
    diti_free(&convert->env, convert->tensors);
    diti_free(&convert->env, convert->files);
    diti_package_close(convert->package);
}

static bool same_letters(const char *a, const char *b) {
    for (; *a && toupper((unsigned char)*a) == toupper((unsigned char)*b); a++, b++) {
    }
    return *a == *b;
}

/* In capitals or small letters: "q8_0". */
static bool type_from_name(const char *name, dit_type *out) {
    static const struct {
        const char *name;
        dit_type type;
    } rows[] = {{"i8r", DIT_TYPE_I8_ROW}, {"i8r+rot", DIT_TYPE_I8_ROW_ROTATED}, {"i4r+rot", DIT_TYPE_I4_ROW_ROTATED}};
    for (size_t i = 0; i < DITI_COUNT(rows); i++) {
        *out = rows[i].type;
        if (same_letters(name, rows[i].name)) return true;
    }
    for (int type = DIT_TYPE_F32; type <= DIT_TYPE_I64; type++) {
        *out = (dit_type)type;
        if (same_letters(name, diti_type_name(*out))) return true;
    }
    return false;
}

static bool writable_type(const char *name, dit_type *out) {
    if (!type_from_name(name, out)) return false;
    return diti_type_is_i8(*out) ||
           (*out >= DIT_TYPE_F32 && *out <= DIT_TYPE_Q5_1 && *out != DIT_TYPE_F8_E4M3 && *out != DIT_TYPE_F8_E5M2) ||
           (*out >= DIT_TYPE_Q4_K && *out <= DIT_TYPE_I4_GROUP);
}

/* The last part of a path: "models/emoji/" gives "emoji". */
static const char *input_name(const char *path, char *out, size_t size) {
    size_t end = strlen(path), start;
    while (end > 0 && is_separator(path[end - 1])) end--;
    for (start = end; start > 0 && !is_separator(path[start - 1]); start--) {
    }
    diti_format(out, size, "%.*s", (int)(end - start), path + start);
    return out;
}

static bool usage(const char *problem, const char *argument) {
    fprintf(stderr, "dit-convert: %s%s; see dit-convert --help\n", problem, argument);
    return false;
}

static bool add_rule(converter *convert, const char *glob, size_t length, dit_type type) {
    type_rule rule = {NULL, type};
    char *text = diti_alloc(&convert->env, length + 1);
    if (!text || !diti_grow(&convert->env, (void **)&convert->rules, &convert->rule_capacity, convert->rule_count,
                            sizeof rule)) {
        diti_free(&convert->env, text);
        convert->no_memory = true;
        return usage("out of memory", "");
    }
    memcpy(text, glob, length);
    text[length] = 0;
    rule.glob = text;
    convert->rules[convert->rule_count++] = rule;
    return true;
}

/* "GLOB=TYPE,GLOB=TYPE" */
static bool parse_rules(converter *convert, const char *text) {
    for (;; text++) {
        size_t length = strcspn(text, ","), name = length;
        char type_name[32];
        dit_type type;
        while (name > 0 && text[name - 1] != '=') name--;
        if (name < 2 || !diti_format(type_name, sizeof type_name, "%.*s", (int)(length - name), text + name) ||
            !writable_type(type_name, &type))
            return usage("GLOB=TYPE is needed, with a type that can be written, not ", text);
        if (!add_rule(convert, text, name - 1, type)) return false;
        text += length;
        if (!*text) return true;
    }
}

/* "6GiB", "1.5GB", "900MB", "12000000", and as dit has them "4G", "800M" */
static bool parse_bytes(const char *text, uint64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"K", 1024}, {"M", 1048576}, {"G", 1073741824}, {"kB", 1e3},
                 {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024},  {"MiB", 1048576},  {"GiB", 1073741824}};
    char *end = NULL;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < DITI_COUNT(units) && end != text && number > 0; i++) {
        if (!same_letters(end, units[i].name) || !(number * units[i].bytes < 1e18)) continue;
        *out = (uint64_t)(number * units[i].bytes);
        return *out > 0;
    }
    return false;
}

static bool parse_method(converter *convert, const char *value) {
    static const char *const names[] = {"plain", "awq", "gptq", "svd", "svd+gptq"}; /* as rounding_method */
    for (size_t i = 0; i < DITI_COUNT(names); i++) {
        convert->method = (rounding_method)i;
        if (strcmp(value, names[i]) == 0) return true;
    }
    return usage("--method is plain, awq, gptq, svd or svd+gptq, not ", value);
}

static bool parse_value(converter *convert, const char *option, const char *value) {
    char *end = NULL;
    double number = strtod(value, &end);
    if (strcmp(option, "--name") == 0) {
        convert->name = value;
        return true;
    }
    if (strcmp(option, "--tensor-type-rules") == 0) return parse_rules(convert, value);
    if (strcmp(option, "--without") == 0) {
        bool text = strcmp(value, "text") == 0, vae = strcmp(value, "vae") == 0;
        convert->without_text |= text;
        convert->without_vae |= vae;
        return text || vae || usage("text or vae can be left out, not ", value);
    }
    if (strcmp(option, "--calibrate") == 0 || strcmp(option, "--errors") == 0) {
        convert->tells_errors |= strcmp(option, "--errors") == 0;
        convert->prompts = value;
        return true;
    }
    if (strcmp(option, "--fit") == 0)
        return parse_bytes(value, &convert->budget) || usage("--fit takes a size such as 6GiB or 900MB, not ", value);
    if (strcmp(option, "--device") == 0) {
        convert->place.device = value;
        return true;
    }
    if (strcmp(option, "--weight-budget") == 0)
        return parse_bytes(value, &convert->place.weight_budget) ||
               usage("--weight-budget takes a size such as 4G or 900MB, not ", value);
    if (strcmp(option, "--method") == 0) return parse_method(convert, value);
    if (strcmp(option, "--type") == 0)
        return writable_type(value, &convert->type) || usage("cannot write the type ", value);
    if (strcmp(option, "--smooth") == 0) {
        convert->smoothing = number;
        return (!*end && end != value && number > 0 && number < 1) ||
               usage("--smooth takes a number between 0 and 1, not ", value);
    }
    if (strcmp(option, "--rank") == 0) {
        convert->rank = (uint32_t)number;
        return (!*end && number >= 1 && number <= 1024 && floor(number) == number) ||
               usage("--rank takes a number from 1 to 1024, not ", value);
    }
    if (*end || end == value || !(number > 0 && number <= 1000)) number = 0;
    if (strcmp(option, "--steps") == 0) {
        convert->steps = (uint32_t)number;
        return (number >= 1 && floor(number) == number) ||
               usage("--steps takes a whole number from 1 to 1000, not ", value);
    }
    convert->guidance = (float)number;
    return number > 0 || usage("--guidance takes a number above 0, up to 1000, not ", value);
}

static bool takes_value(const char *option) {
    static const char *const options[] = {
        "--type",    "--name",      "--steps",  "--guidance",     "--tensor-type-rules",
        "--without", "--calibrate", "--method", "--rank",         "--smooth",
        "--errors",  "--fit",       "--device", "--weight-budget"};
    for (size_t i = 0; i < DITI_COUNT(options); i++)
        if (strcmp(option, options[i]) == 0) return true;
    return false;
}

static bool takes_none(converter *convert, const char *option) {
    if (strcmp(option, "--resume") == 0) return convert->resumes = true;
    if (strcmp(option, "--json") == 0) return convert->json = true;
    if (strcmp(option, "--expanded") == 0) return convert->expanded = true;
    return false;
}

/* Whether options ask for i4_group by name. Matrices to which --fit gives that type are rounded plainly. */
static bool asks_for_i4_group(const converter *convert) {
    bool asks = convert->type == DIT_TYPE_I4_GROUP && !convert->budget;
    for (size_t i = 0; i < convert->rule_count; i++) asks |= convert->rules[i].type == DIT_TYPE_I4_GROUP;
    return asks;
}

static bool parse_arguments(converter *convert, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        char name[64];
        const char *value = attached_value(argument, name, sizeof name);
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            convert->help = true;
            return true;
        }
        if (takes_none(convert, argument)) {
            continue;
        } else if (takes_value(name)) {
            if (!value && i + 1 < argc) value = argv[++i];
            if (!value) return usage("a value is missing after ", argument);
            if (!parse_value(convert, name, value)) return false;
        } else if (convert->tells_errors && argument[0] != '-') {
            convert->models = argv + i;
            convert->model_count = (size_t)(argc - i);
            return convert->model_count > 1 || usage("--errors needs two models at least", "");
        } else if (argument[0] == '-') {
            return usage("unknown option ", argument);
        } else if (!convert->input) {
            convert->input = argument;
        } else if (!convert->output) {
            convert->output = argument;
        } else {
            return usage("one argument too many: ", argument);
        }
    }
    if ((convert->method == ROUND_AWQ || convert->method == ROUND_GPTQ || convert->smoothing > 0) && !convert->prompts)
        return usage("--calibrate PROMPTS.txt is needed for this method", "");
    if ((convert->place.device || convert->place.weight_budget) && !convert->prompts)
        return usage(
            "--device and --weight-budget say where --calibrate and --errors run the model, and neither is there", "");
    if (convert->rank && convert->method != ROUND_SVD && convert->method != ROUND_SVD_GPTQ)
        return usage("--rank is that of --method svd or svd+gptq, and neither is there", "");
    if (convert->method != ROUND_PLAIN && !asks_for_i4_group(convert))
        return usage("--method rounds i4_group where --tensor-type-rules, or --type without --fit, asks for it, and "
                     "neither does",
                     "");
    if (convert->prompts && !convert->tells_errors && !convert->budget && convert->method == ROUND_PLAIN &&
        !(convert->smoothing > 0))
        return usage("--calibrate is for --fit, --method and --smooth, and none of them is there", "");
    if (convert->expanded && convert->budget)
        return usage("--expanded writes values that take more room than --fit counts; leave one of them out", "");
    if (convert->expanded && !asks_for_i4_group(convert))
        return usage("--expanded is about i4_group, which neither --type nor --tensor-type-rules asks for", "");
    if (!convert->rank) convert->rank = 32;
    if (!convert->output) return usage("INPUT and OUTPUT.gguf are needed", "");
    if (!diti_ends_with(convert->output, ".gguf"))
        return usage("the output's name must end in .gguf: ", convert->output);
    return true;
}

/* A value that does not fit its type is the input's fault. */
static int exit_code(const converter *convert, dit_result result) {
    if (convert->output_failed) return exit_code_of_writing(errno);
    return result == DIT_ERROR_NOT_FINITE ? EXIT_INPUT : exit_code_of(result);
}

int main(int argc, char **argv) {
    converter convert = {0};
    dit_error err = {0};
    char name[256];
    const char *why;
    dit_result result = DIT_OK;
    int code = EXIT_GOOD;
    if (tells_version(argc, argv, stdout)) return end_printing("dit-convert", EXIT_GOOD);
    convert.type = DIT_TYPE_Q8_0;
    convert.journal_step = JOURNAL_STEP;
    convert.err = &err;
    diti_env_init(&convert.env, NULL, NULL, &err);
    end_cleanly_by_signals();
    if (!parse_arguments(&convert, argc, argv)) {
        code = convert.no_memory ? EXIT_MEMORY : EXIT_USAGE;
    } else if (convert.help) {
        fputs(usage_text, stdout);
    } else if (convert.tells_errors) {
        result = tell_errors(&convert, convert.models, convert.model_count);
        if (result < 0) code = exit_code(&convert, result);
        if (result < 0) fprintf(stderr, "dit-convert: %s\n", err.message);
    } else if ((why = why_not_writable(convert.output)) != NULL) {
        fprintf(stderr, "dit-convert: %s: %s\n", convert.output, why);
        code = EXIT_OUTPUT;
    } else {
        if (!convert.name) convert.name = input_name(convert.input, name, sizeof name);
        result = convert_model(&convert);
        if (result < 0) code = exit_code(&convert, result);
        if (result < 0) fprintf(stderr, "dit-convert: %s\n", err.message);
    }
    clean_up(&convert);
    return end_printing("dit-convert", code);
}
