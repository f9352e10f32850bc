/* The next prompt of --batch, which is encoded while this picture is made: where text encoders are read from the file
   for every prompt (--offload-to-cpu), that takes longer than the encoding itself, and denoising has the device
   meanwhile. Resident encoders are asked by the job, which has their memory in its plan. Include it after given.h. Not
   part of dit.h. */

static dit_result encode_prompt(app *a, dit_context *cpu, const dit_model *texts, const char *prompt,
                                text_buffer *out) {
    dit_result (*encode)(dit_context *, const dit_model *, const char *, void *, size_t *, dit_error *) =
        a->o.plain_prompt ? dit_encode_prompt : dit_encode_weighted_prompt;
    dit_result result;
    if (!prompt) prompt = "";
    result = encode(cpu, texts, prompt, NULL, &out->size, &a->err);
    if (result != DIT_OK) return result;
    out->bytes = malloc(out->size);
    if (!out->bytes) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    return encode(cpu, texts, prompt, out->bytes, &out->size, &a->err);
}

/* Whether prompts are encoded beside jobs. Clips and pictures after references ask for more than a prompt. */
static bool encodes_ahead(const app *a) {
    return a->o.batch && a->r.offload && !a->info.class_count && !a->o.conditioning && !a->o.clip_on_cpu &&
           !a->r.frames && !a->r.reference_count;
}

static void forget_text(known_text *text) {
    free(text->prompt);
    free(text->blob.bytes);
    memset(text, 0, sizeof *text);
}

/* Lets go of the prompts that are known, before the model goes. */
static void forget_texts(app *a) {
    dit_encoding_destroy(a->ahead);
    a->ahead = NULL;
    forget_text(&a->known[0]);
    forget_text(&a->known[1]);
}

static bool is_known(const app *a, const known_text *text, const char *prompt) {
    return text->prompt && text->plain == a->o.plain_prompt && !strcmp(text->prompt, prompt ? prompt : "");
}

/* Begins the next prompt, or goes on with it. The request itself says what is wrong with a prompt that fails here. */
static void go_ahead(app *a) {
    const uint32_t budget_us = 100000;
    known_text *text = &a->known[1];
    dit_result result;
    if (!encodes_ahead(a) || !a->next_prompt) return;
    if (!is_known(a, text, a->next_prompt)) {
        dit_encoding_destroy(a->ahead);
        a->ahead = NULL;
        forget_text(text);
        text->plain = a->o.plain_prompt;
        text->prompt = strdup(a->next_prompt);
        result = dit_encode_prompt(a->context, a->model, "", NULL, &text->blob.size, NULL);
        if (result == DIT_OK) text->blob.bytes = malloc(text->blob.size);
        if (!text->prompt || !text->blob.bytes ||
            dit_encoding_create(a->context, a->model, a->next_prompt, !a->o.plain_prompt, &a->ahead, NULL) != DIT_OK) {
            forget_text(text);
            return;
        }
    }
    result = a->ahead ? dit_encoding_step(a->ahead, budget_us, text->blob.bytes, &text->blob.size, NULL) : DIT_OK;
    if (result == DIT_WORKING) return;
    dit_encoding_destroy(a->ahead);
    a->ahead = NULL;
    if (result < 0) forget_text(text);
}

/* The text of a prompt of this request: one that is known, or encoded now. */
static bool take_text(app *a, known_text *text, const char *prompt, text_buffer *out) {
    if (!is_known(a, text, prompt)) {
        forget_text(text);
        text->plain = a->o.plain_prompt;
        text->prompt = strdup(prompt ? prompt : "");
        if (!text->prompt || encode_prompt(a, a->context, a->model, prompt, &text->blob) != DIT_OK) forget_text(text);
    } else if (a->o.verbose && text == &a->known[1]) {
        fprintf(stderr, "dit: the prompt was encoded while the picture before was made\n");
    }
    out->bytes = text->blob.size ? malloc(text->blob.size) : NULL;
    out->size = text->blob.size;
    if (out->bytes) memcpy(out->bytes, text->blob.bytes, out->size);
    return out->bytes != NULL;
}

/* Encoded in a job or beside it, prompts give the same picture. Where this fails, the job encodes them, and says why it
   cannot. */
static void take_texts(app *a) {
    const char *next = a->next_prompt;
    if (!encodes_ahead(a) || a->r.texts[1].bytes) return;
    a->next_prompt = a->o.prompt;
    while (a->ahead && !caught_signal && is_known(a, &a->known[1], a->o.prompt)) {
        go_ahead(a);
        if (a->ahead) sleep_a_millisecond();
    }
    a->next_prompt = next;
    if (take_text(a, &a->known[0], a->o.negative_prompt, &a->r.texts[0]) &&
        take_text(a, &a->known[1], a->o.prompt, &a->r.texts[1]))
        return;
    free(a->r.texts[0].bytes);
    memset(a->r.texts, 0, sizeof a->r.texts);
    memset(&a->err, 0, sizeof a->err);
}
