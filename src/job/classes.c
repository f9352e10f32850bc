/* Class-conditional models: classes in place of prompts. */
#include "job/job.h"

/* Class-conditional models take neither prompts nor what stands for them. */
static dit_result diti_classes_check_unprompted(const dit_job_desc *desc, dit_error *err) {
    const char *what = NULL;
    uint32_t i;
    if ((desc->prompt && *desc->prompt) || (desc->negative_prompt && *desc->negative_prompt)) what = "prompts";
    if (desc->conditioning || desc->negative_conditioning) what = "conditioning";
    for (i = 0; i < desc->input_count; i++) {
        if (!diti_equal(desc->inputs[i].name, "noise")) what = desc->inputs[i].name;
    }
    return what ? diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                            "dit_job_desc: this model shows classes and takes no %s; say class_labels instead", what)
                : DIT_OK;
}

DIT_INTERNAL dit_result diti_job_request_classes(const dit_model *model, const dit_job_desc *desc,
                                                 diti_job_request *out, dit_error *err) {
    uint32_t i, count = model->transformer->traits.class_count;
    DITI_TRY(diti_classes_check_unprompted(desc, err));
    if (!desc->class_labels)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model shows classes; class_labels must name one from 0 to %u for each of "
                         "%u pictures",
                         count - 1, out->shape.image_count);
    for (i = 0; i < out->shape.image_count; i++) {
        if (desc->class_labels[i] < 0 || (uint32_t)desc->class_labels[i] >= count)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_job_desc: class_labels[%u] is %d; the model's classes are 0 to %u", i,
                             (int)desc->class_labels[i], count - 1);
        out->labels[i] = (uint32_t)desc->class_labels[i];
    }
    return DIT_OK;
}

/* --- names: a diffusers folder's model_index.json may have them, "id2label": {"207": "golden retriever, retriever"}
 * ---
 */

static char diti_classes_small_letter(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* ASCII letters may be large or small. */
static bool diti_classes_same(const char *a, const char *b, size_t length) {
    size_t i;
    for (i = 0; i < length; i++) {
        if (diti_classes_small_letter(a[i]) != diti_classes_small_letter(b[i])) return false;
    }
    return true;
}

/* Whether name is list, or one of the names in it, which are separated by commas. */
static bool diti_classes_lists(const char *list, const char *name) {
    size_t length = strlen(name);
    if (strlen(list) == length && diti_classes_same(list, name, length)) return true;
    while (*list) {
        size_t size;
        while (*list == ' ') list++;
        size = strcspn(list, ",");
        if (size == length && diti_classes_same(list, name, length)) return true;
        list += size + (list[size] == ',' ? 1u : 0u);
    }
    return false;
}

/* A number below count in digits alone, else count. */
static uint32_t diti_classes_number(const char *digits, uint32_t count) {
    uint64_t number = 0;
    if (!*digits) return count;
    for (; *digits >= '0' && *digits <= '9' && number < count; digits++)
        number = number * 10 + (uint64_t)(*digits - '0');
    return *digits || number > count ? count : (uint32_t)number;
}

DIT_API int32_t dit_model_class(const dit_model *model, const char *name) {
    const diti_json *names, *entry;
    uint32_t number;
    if (!model || !name || !*name) return -1;
    number = diti_classes_number(name, model->info.class_count);
    if (number < model->info.class_count) return (int32_t)number;
    names = diti_json_get(model->index, "id2label");
    for (entry = names ? names->first : NULL; entry; entry = entry->next) {
        if (entry->kind != DITI_JSON_STRING || !entry->key || !diti_classes_lists(entry->text, name)) continue;
        number = diti_classes_number(entry->key, model->info.class_count);
        if (number < model->info.class_count) return (int32_t)number;
    }
    return -1;
}
