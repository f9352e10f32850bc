/* Plans as JSON: {"format": "dit-split-plan", "version": 1, "note": "for the reader", "split": "cfg2,ulysses2",
 * "patches": 1, "warmup": 1, "payload": "f16", "i8" or "i8e", "kept": "f16" or "i8", "shard": false, "shares": [0.5,
 * 0.5, 0.5, 0.5]}. Format, version, split and shares must be there; other keys are ignored. */
#include "io/io.h"
#include "split/split.h"

DIT_INTERNAL dit_result diti_split_write(const diti_env *env, const diti_split_plan *plan, char **text,
                                         dit_error *err) {
    char name[DITI_SPLIT_NAME], share[32];
    size_t size = 512 + sizeof plan->note + DITI_SPLIT_DEVICES * sizeof share, at;
    uint32_t rank, ranks = diti_split_ranks(&plan->split);
    diti_split split = plan->split; /* shard is a key of its own */
    char *out = *text = (char *)diti_alloc(env, size);
    if (!out) return diti_fail_memory(err, "a plan as text");
    split.shard = 0;
    diti_format(out, size,
                "{\n  \"format\": \"dit-split-plan\",\n  \"version\": 1,\n  \"note\": \"%s\",\n  \"split\": \"%s\",\n"
                "  \"patches\": %u,\n  \"warmup\": %u,\n  \"payload\": \"%s\",\n  \"kept\": \"%s\",\n  \"shard\": %s,\n"
                "  \"shares\": [",
                plan->note, diti_split_print(&split, name), (unsigned)plan->strips, (unsigned)plan->warmup,
                plan->feedback ? "i8e"
                : plan->int8   ? "i8"
                               : "f16",
                plan->kept_int8 ? "i8" : "f16", plan->split.shard ? "true" : "false");
    for (rank = 0; rank < ranks; rank++) {
        at = strlen(out);
        diti_print_double(plan->shares[rank], 17, share, sizeof share);
        diti_format(out + at, size - at, "%s%s", rank ? ", " : "", share);
    }
    at = strlen(out);
    diti_format(out + at, size - at, "]\n}\n");
    return DIT_OK;
}

static bool diti_split_read_number(const diti_json *root, const char *key, uint32_t *out) {
    const diti_json *value = diti_json_get(root, key);
    uint64_t number = 1;
    if (value && (!diti_json_u64(value, &number) || number > DITI_SPLIT_LARGEST)) return false;
    *out = (uint32_t)number;
    return true;
}

/* Says what is wrong with the text of a plan; NULL: nothing. */
static const char *diti_split_read_values(const diti_json *root, diti_settings *settings, diti_split_plan *plan) {
    const char *payload = diti_setting_text(settings, "payload", "f16");
    const char *note = diti_setting_text(settings, "note", ""), *kept = diti_setting_text(settings, "kept", "f16");
    double version = diti_setting_number(settings, "version", 0, 0, 1e9);
    if (version < 1 || version > 1) return "its version is not 1, the one that is known";
    plan->feedback = diti_equal(payload, "i8e");
    plan->int8 = plan->feedback || diti_equal(payload, "i8");
    if (!plan->int8 && !diti_equal(payload, "f16")) return "its payload is none of f16, i8 and i8e";
    plan->kept_int8 = diti_equal(kept, "i8");
    if (!plan->kept_int8 && !diti_equal(kept, "f16")) return "what it keeps is neither f16 nor i8";
    if (!diti_split_read_number(root, "patches", &plan->strips) || plan->strips < 1)
        return "patches must be a whole number from 1 to 65536";
    if (!diti_split_read_number(root, "warmup", &plan->warmup)) return "warmup must be a whole number from 0 to 65536";
    if (strpbrk(note, "\"\\\n") || !diti_format(plan->note, sizeof plan->note, "%s", note))
        return "its note must be a line of less than 128 bytes without quotes and backslashes";
    return NULL;
}

/* As many as the split has devices; those of a branch of guidance sum to 1. */
static const char *diti_split_read_shares(const diti_json *root, diti_split_plan *plan) {
    const diti_json *shares = diti_json_get(root, "shares"), *share;
    uint32_t count = diti_split_ranks(&plan->split), rank = 0;
    double sum = 0;
    if (!count) return "its split is auto; a plan names one";
    if (!shares || shares->kind != DITI_JSON_ARRAY || shares->count != count)
        return "its split needs as many shares as it has devices";
    for (share = shares->first; share; share = share->next) {
        if (share->kind != DITI_JSON_NUMBER || !(share->number > 0 && share->number <= 1))
            return "a share is not above 0 and at most 1";
        plan->shares[rank++] = share->number;
        sum += share->number;
        if (rank % (count / plan->split.degree[DITI_SPLIT_CFG])) continue;
        if (sum < 0.999 || sum > 1.001) return "the shares of a branch of guidance do not sum to 1";
        sum = 0;
    }
    return NULL;
}

DIT_INTERNAL dit_result diti_split_read(const diti_env *env, const char *text, size_t size, const char *what,
                                        diti_split_plan *out, dit_error *err) {
    diti_json *root = NULL;
    dit_error inner = DITI_ZERO;
    dit_result result = diti_json_parse(env, text, size, what, &root, err);
    bool foreign;
    diti_settings settings;
    const char *wrong, *split;
    memset(out, 0, sizeof *out);
    DITI_TRY(result);
    foreign = !diti_equal(diti_json_string(root, "format", ""), "dit-split-plan");
    settings = diti_settings_of(foreign ? NULL : root, what, err);
    split = diti_setting_text(&settings, "split", "");
    wrong = foreign ? "it does not say \"format\": \"dit-split-plan\", so dit-plan did not write it"
                    : diti_split_read_values(root, &settings, out);
    if (!wrong && diti_split_parse(split, &out->split, &inner) < 0) wrong = inner.message;
    out->split.shard = diti_setting_bool(&settings, "shard", false) ? 1 : 0;
    if (!wrong) wrong = diti_split_read_shares(root, out);
    if (settings.result < 0)
        result = settings.result;
    else if (wrong)
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s", what, wrong);
    diti_json_free(env, root);
    return result;
}

/* --- wherever it stands --- */

static dit_result diti_split_read_file(const diti_env *env, const char *path, diti_split_plan *out, dit_error *err) {
    dit_source source = DITI_ZERO;
    diti_file *file = NULL;
    char *text = NULL;
    size_t size = 0;
    dit_result result = DIT_OK;
    source.path = path;
    DITI_TRY(diti_file_open(env, &source, NULL, &file, err));
    if (diti_file_size(file) > 1u << 20)
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: too large for a plan of a split", path);
    if (result >= 0) result = diti_file_read_all(env, file, &text, &size, err);
    if (result >= 0) result = diti_split_read(env, text, size, path, out, err);
    diti_free(env, text);
    diti_file_close(file);
    return result;
}

DIT_INTERNAL dit_result diti_split_take(const diti_env *env, const char *text, diti_split_plan *out, dit_error *err) {
    if (text[0] == '@') return diti_split_read_file(env, text + 1, out, err);
    if (text[strspn(text, " \t\r\n")] == '{') return diti_split_read(env, text, strlen(text), "split", out, err);
    return diti_split_parse_plan(text, out, err);
}

DIT_INTERNAL void diti_split_weights(const diti_split *split, const double *shares, uint32_t rank, uint32_t first,
                                     uint32_t end, float *weights) {
    uint32_t stride = diti_split_stride(split, (diti_split_axis)first);
    uint32_t count = diti_split_stride(split, (diti_split_axis)end) / stride;
    uint32_t each = diti_split_stride(split, DITI_SPLIT_CFG), begin = rank / each * each, i;
    double sums[DITI_SPLIT_DEVICES] = DITI_ZERO;
    for (i = begin; i < begin + each; i++) sums[i / stride % count] += shares[i];
    for (i = 0; i < count; i++) weights[i] = shares[0] > 0 ? (float)sums[i] : 1.0f / (float)count;
}
