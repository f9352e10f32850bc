/* Inputs of a request by their names in diffusers: which there are, and their values. */
#include "job/job.h"

DIT_INTERNAL const dit_tensor *diti_request_input(const dit_job_desc *desc, const char *name) {
    uint32_t i;
    for (i = 0; i < desc->input_count; i++) {
        if (diti_equal(desc->inputs[i].name, name)) return &desc->inputs[i];
    }
    return NULL;
}

DIT_INTERNAL dit_result diti_request_check_inputs(const dit_job_desc *desc, dit_error *err) {
    static const char *const known[] = {"noise",
                                        "image_latents",
                                        "image_cond_noise_scale",
                                        "negative_prompt_embeds",
                                        "negative_prompt_attention_mask",
                                        "negative_prompt_embeds_2",
                                        "negative_prompt_attention_mask_2",
                                        "negative_pooled_prompt_embeds"};
    uint32_t i, k;
    for (i = 0; i < desc->input_count; i++) {
        const dit_tensor *input = &desc->inputs[i];
        for (k = 0; k < DITI_COUNT(known) && !diti_equal(input->name, known[k]); k++)
            if (k > 2 && diti_equal(input->name, known[k] + 9)) break; /* without negative_ */
        if (k == DITI_COUNT(known)) {
            return diti_fail(
                err, DIT_ERROR_INVALID_ARGUMENT,
                "input \"%s\" is unknown; there are noise, image_latents, image_cond_noise_scale, prompt_embeds, prompt_attention_mask, prompt_embeds_2, prompt_attention_mask_2, pooled_prompt_embeds, and negative_ before these",
                input->name ? input->name : "(NULL)");
        }
        if (!input->data || input->rank > 5)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has no data or more than 5 dimensions",
                             input->name);
        if (diti_request_input(desc, input->name) != input)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s is given twice", input->name);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_request_floats(const diti_env *env, const dit_tensor *input, size_t count, float **out,
                                            dit_error *err) {
    dit_type type = input->type == DIT_TYPE_STORED ? DIT_TYPE_F32 : input->type;
    uint64_t have = 1, bytes;
    uint32_t d;
    for (d = 0; d < input->rank; d++) {
        if (!diti_mul_u64(have, input->shape[d], &have))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has an impossible shape", input->name);
    }
    if (have != count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has %llu values, %llu are needed", input->name,
                         (unsigned long long)have, (unsigned long long)count);
    if ((type != DIT_TYPE_F32 && type != DIT_TYPE_F16 && type != DIT_TYPE_BF16) ||
        !diti_type_bytes(type, 1, have, &bytes)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must be F32, F16 or BF16", input->name);
    }
    *out = (float *)diti_alloc_array(env, count, sizeof(float));
    if (!*out) return diti_fail_memory(err, "input %s", input->name);
    diti_type_to_float(type, input->data, have, *out);
    return DIT_OK;
}

/* Whether row_pitch leads from row to row; that of a picture from its last row up, which is negative, does not. */
DIT_INTERNAL bool diti_request_has_rows(const dit_image *image, size_t row) {
    size_t size;
    return !image->row_pitch || (image->row_pitch >= row && diti_mul_size(image->row_pitch, image->height, &size));
}

DIT_INTERNAL dit_result diti_request_check_finite(const char *name, const float *values, size_t count, dit_error *err) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (!(values[i] - values[i] == 0))
            return diti_fail(err, DIT_ERROR_NOT_FINITE, "input %s holds a value that is not finite, at position %llu",
                             name, (unsigned long long)i);
    }
    return DIT_OK;
}
