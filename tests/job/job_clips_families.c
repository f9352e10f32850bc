/* Jobs of clips of single families: Wan VACE follows a clip, HunyuanVideo has two text encoders, LTX-Video holds a
   picture, CogVideoX 1.5 fills patches of two frames. job_clips.c has what all of them do. test-runs: lavapipe, in
   test-all sanitize */
#include "clip_jobs.h"
#include "files.h"

/* --- Wan VACE: clips that follow a clip --- */

enum { FOLLOWED = 5 };

/* blocks: VACE's, where they are a file of their own. */
static dit_model *load_vace_from(const dit_source *transformer, const dit_source *blocks, uint64_t budget) {
    static const char *const paths[] = {NULL, WAN_PARTS "vae", WAN_PARTS "text_encoder", WAN_PARTS "tokenizer", NULL};
    static const dit_role roles[] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE, DIT_ROLE_TEXT_1, DIT_ROLE_TOKENIZER_1,
                                     DIT_ROLE_CONTROL};
    dit_component components[5];
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    uint32_t i;
    memset(components, 0, sizeof components);
    for (i = 0; i < 5; i++) components[i].source.path = paths[i], components[i].role = roles[i];
    components[0].source = *transformer;
    if (blocks) components[4].source = *blocks;
    desc.components = components;
    desc.component_count = blocks ? 5 : 4;
    desc.weight_budget = budget;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    if (model) model->texts[DITI_TEXT_FIRST].tokens = model->encoders[0].tokens = 32; /* of 512 */
    return model;
}

static dit_model *load_vace(uint64_t budget) {
    dit_source transformer = {0};
    transformer.path = VACE "transformer";
    return load_vace_from(&transformer, NULL, budget);
}

/* A transformer whose blocks that follow a clip have other names, and which has so none. */
static dit_result open_plain_wan(const char *member, dit_source *out, void *user) {
    static const char config[] = "{\"_class_name\": \"WanTransformer3DModel\", \"num_attention_heads\": 2, "
                                 "\"attention_head_dim\": 24}";
    const bytes *file = (const bytes *)user;
    const bool weights = diti_equal(member, "diffusion_pytorch_model.safetensors");
    if (!weights && !diti_equal(member, "config.json")) return DIT_ERROR_IO;
    out->data = weights ? (const void *)file->data : config;
    out->size = weights ? file->size : strlen(config);
    return DIT_OK;
}

/* One expert follows a clip, and the other one does not. */
static void test_unlike_experts(void) {
    bytes file = {0};
    dit_component components[2];
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    size_t i;
    char *text;
    memset(components, 0, sizeof components);
    file.data = (void *)test_read_file(VACE "transformer/diffusion_pytorch_model.safetensors", &file.size);
    text = (char *)file.data;
    for (i = 0; i + 5 < file.size; i++)
        if (!memcmp(text + i, "\"vace_", 6)) text[i + 1] = 'w';
    components[0].role = DIT_ROLE_TRANSFORMER, components[0].source.path = VACE "transformer";
    components[1].role = DIT_ROLE_TRANSFORMER_2, components[1].source.open = open_plain_wan;
    components[1].source.user = &file;
    desc.components = components, desc.component_count = 2;
    desc.dry_run = true;
    CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                      strstr(err.message, "transformer follows a clip, and the other one"),
                  "%s", err.message);
    dit_model_destroy(model);
    bytes_free(&file);
}

/* The file with other names in its header. */
static bytes renamed_vace(const char *const (*names)[2]) {
    bytes file = {0}, out = {0};
    uint64_t length;
    char *header, *at;
    file.data = (void *)test_read_file(VACE "transformer/diffusion_pytorch_model.safetensors", &file.size);
    memcpy(&length, file.data, 8);
    header = calloc(2, (size_t)length);
    memcpy(header, file.data + 8, (size_t)length);
    for (; (*names)[0]; names++) {
        const size_t old = strlen((*names)[0]), now = strlen((*names)[1]);
        for (at = header; (at = strstr(at, (*names)[0])) != NULL; at += now) {
            memmove(at + now, at + old, strlen(at + old) + 1);
            memcpy(at, (*names)[1], now);
        }
    }
    bytes_u64(&out, (strlen(header) + 7) / 8 * 8);
    bytes_add(&out, header, strlen(header));
    while (out.size % 8) bytes_add(&out, " ", 1);
    bytes_add(&out, file.data + 8 + length, file.size - 8 - (size_t)length);
    free(header);
    bytes_free(&file);
    return out;
}

/* VACE's blocks are a file of their own with the original's names, beside a transformer of each naming: the clip is
   that of one file, and experts have blocks of their own or the same ones. */
static void test_blocks_apart(const dit_image *clip) {
    static const char *const plain[][2] = {{"\"vace_", "\"wace_"}, {NULL, NULL}};
    static const char *const original[][2] = {{"attn1.to_out.0", "self_attn.o"},
                                              {"attn1.to_", "self_attn."},
                                              {"attn1.", "self_attn."},
                                              {"attn2.to_out.0", "cross_attn.o"},
                                              {"attn2.to_", "cross_attn."},
                                              {"attn2.", "cross_attn."},
                                              {".norm2", ".norm3"},
                                              {"ffn.net.0.proj", "ffn.0"},
                                              {"ffn.net.2", "ffn.2"},
                                              {".proj_in", ".before_proj"},
                                              {".proj_out", ".after_proj"},
                                              {"condition_embedder.time_embedder.linear_1", "time_embedding.0"},
                                              {"condition_embedder.time_embedder.linear_2", "time_embedding.2"},
                                              {"condition_embedder.time_proj", "time_projection.1"},
                                              {"condition_embedder.text_embedder.linear_1", "text_embedding.0"},
                                              {"condition_embedder.text_embedder.linear_2", "text_embedding.2"},
                                              {"\"proj_out", "\"head.head"},
                                              {"\"scale_shift_table", "\"head.modulation"},
                                              {"scale_shift_table", "modulation"},
                                              {"\"vace_", "\"wace_"},
                                              {NULL, NULL}};
    static const char config[] = "{\"_class_name\": \"%s\", \"num_attention_heads\": 2, \"attention_head_dim\": 24}";
    static uint8_t pixels[2][FOLLOWED * PIXELS * 4];
    const char *const(*names[3])[2] = {plain, original, NULL};
    const char *apart[sizeof original / sizeof *original][2], *const none[][2] = {{NULL, NULL}};
    folder folders[3] = {{{{0}}, 0}, {{{0}}, 0}, {{{0}}, 0}};
    dit_source sources[3], blocks = {0};
    dit_component parts[4];
    dit_model_desc md = {0};
    dit_model_info info[2];
    dit_error err = {0};
    bytes file;
    uint32_t i;
    char text[160];
    memcpy(apart, original, sizeof original);
    apart[sizeof original / sizeof *original - 2][0] = "\"blocks.",
                                               apart[sizeof original / sizeof *original - 2][1] = "\"x.";
    names[2] = none;
    file = renamed_vace((const char *const(*)[2])apart);
    blocks = memory_source(&file);
    for (i = 0; i < 3; i++) {
        snprintf(text, sizeof text, config, i < 2 ? "WanTransformer3DModel" : "WanVACETransformer3DModel");
        folder_add_text(&folders[i], "config.json", text);
        folder_add(&folders[i], "diffusion_pytorch_model.safetensors", renamed_vace(names[i]));
        sources[i] = folder_source(&folders[i]);
    }
    for (i = 3; i-- > 0;) { /* the model of one file first; one of two is streamed */
        dit_model *model = load_vace_from(&sources[i], i < 2 ? &blocks : NULL, i == 1 ? 500000 : 0);
        dit_job_desc desc;
        dit_job *job = NULL;
        if (!model) break;
        desc = describe(model);
        desc.steps = 1;
        desc.frame_count = desc.control_count = FOLLOWED;
        desc.control_image = clip;
        if (run(&job, &desc) && read_all(job, 0, pixels[i < 2], FOLLOWED) && i < 2)
            CHECK_MESSAGE(!memcmp(pixels[0], pixels[1], sizeof pixels[0]), "naming %u", (unsigned)i);
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
    memset(parts, 0, sizeof parts);
    parts[0].role = DIT_ROLE_TRANSFORMER, parts[0].source = sources[0];
    parts[1].role = DIT_ROLE_TRANSFORMER_2, parts[1].source = sources[1];
    parts[2].role = parts[3].role = DIT_ROLE_CONTROL;
    parts[2].source = parts[3].source = blocks;
    md.components = parts;
    md.dry_run = true;
    for (i = 0; i < 2; i++) {
        dit_model *model = NULL;
        md.component_count = 3 + i;
        CHECK_MESSAGE(dit_model_load(NULL, &md, &model, &err) == DIT_OK, "%s", err.message);
        dit_model_get_info(model, &info[i]);
        CHECK(info[i].takes_control && !info[i].control_count &&
              info[i].parameters[DIT_ROLE_TRANSFORMER] == info[i].parameters[DIT_ROLE_TRANSFORMER_2]);
        dit_model_destroy(model);
    }
    parts[0].source = sources[2];
    md.component_count = 3;
    parts[1].role = DIT_ROLE_CONTROL, parts[1].source = blocks;
    for (i = 0; i < 2; i++) { /* blocks for a model that has some, and alone */
        static const char *const words[] = {"takes no control net", "name the model that it is for"};
        dit_model *model = NULL;
        if (i) parts[0].source = blocks, md.component_count = 1;
        CHECK_MESSAGE(dit_model_load(NULL, &md, &model, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                          strstr(err.message, words[i]),
                      "%s", err.message);
        dit_model_destroy(model);
    }
    for (i = 0; i < 3; i++) folder_free(&folders[i]);
    bytes_free(&file);
}

/* The transformer's file alone tells the memory of its job, and a reference takes more. */
static void test_transformer_alone(void) {
    dit_component part = {0};
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_job_desc desc;
    dit_memory alone, more;
    dit_reference reference = {0};
    dit_image *picture = stripes(64, 64, 1);
    dit_error err = {0};
    part.role = DIT_ROLE_TRANSFORMER, part.source.path = VACE "transformer";
    md.components = &part, md.component_count = 1;
    md.dry_run = true;
    if (CHECK_MESSAGE(dit_model_load(NULL, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        desc = describe(model);
        desc.sampler = "euler";
        CHECK_MESSAGE(dit_job_memory(NULL, &desc, &alone, &err) == DIT_OK, "%s", err.message);
        reference.frames = picture;
        desc.references = &reference, desc.reference_count = 1;
        CHECK_MESSAGE(dit_job_memory(NULL, &desc, &more, &err) == DIT_OK, "%s", err.message);
        CHECK(more.activations > alone.activations);
    }
    dit_model_destroy(model);
    free_stripes(picture);
}

/* Wrong requests and their sentences. */
static void test_following_refused(const dit_model *model, const dit_image *clip) {
    dit_reference references[11] = {{NULL, 0}};
    dit_image picture = clip[0];
    dit_job_desc right = describe(model), desc;
    right.frame_count = FOLLOWED;
    desc = right;
    desc.control_image = clip;
    desc.control_count = 4;
    check_refused(&desc, "control_image has 4 frames (control_count), the clip 5");
    desc = right;
    desc.mask = clip;
    check_refused(&desc, "mask is given without control_image");
    desc.control_image = clip, desc.control_count = FOLLOWED;
    desc.mask_count = 3;
    check_refused(&desc, "mask_count is 3; it must be 1, a mask for all frames, or 5");
    desc.mask = &picture, desc.mask_count = 1;
    picture.height--;
    check_refused(&desc, "mask[0]");
    desc = right;
    desc.init_image = clip, desc.init_count = FOLLOWED;
    check_refused(&desc, "A clip that is followed or repainted is control_image");
    desc.init_count = 2, desc.frame_count = 1;
    check_refused(&desc, "init_count is 2");
    desc = right;
    desc.strength = 0.5f;
    check_refused(&desc, "strength is given");
    desc = right;
    desc.loop_count = 2;
    check_refused(&desc, "loop_count is given");
    desc = right;
    desc.control_strength = 1e9f;
    check_refused(&desc, "control_strength is 1e+09");
    desc = right;
    desc.references = references, desc.reference_count = 11;
    check_refused(&desc, "takes at most 10");
    desc.reference_count = 1;
    check_refused(&desc, "references[0]: it must be one picture");
    references[0].frames = &picture;
    picture.height = 15;
    check_refused(&desc, "references[0]: it has 48 x 15 pixels");
    desc = right;
    desc.cache = "references";
    check_refused(&desc, "references");
}

/* The frames between two ends are grey, and made anew: what stays, and the mask, are those of a clip whose mask says
   the same, and what is made anew is nearly so, since no byte is grey. */
static void test_following_ends(const dit_model *model, const dit_image *clip) {
    enum { AREA = 6 * 4, PLANE = 2 * AREA, CHANNELS = 96, VALUES = CHANNELS * PLANE };
    static float read[2][VALUES];
    float most = 0;
    dit_image *grey = stripes(WIDTH, HEIGHT, FOLLOWED), *masks = stripes(WIDTH, HEIGHT, FOLLOWED), ends[2];
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t i, k;
    for (i = 0; i < FOLLOWED; i++) {
        bool end = i == 0 || i + 1 == FOLLOWED;
        for (k = 0; k < PIXELS * 4; k++) {
            *(uint8_t *)(uintptr_t)&masks[i].rgba[k] = end ? 0 : 255;
            *(uint8_t *)(uintptr_t)&grey[i].rgba[k] = end ? clip[i].rgba[k] : 127;
        }
    }
    ends[0] = clip[0], ends[1] = clip[FOLLOWED - 1];
    desc.frame_count = FOLLOWED;
    desc.steps = 1;
    for (i = 0; i < 2; i++) {
        desc.init_image = i == 0 ? ends : NULL, desc.init_count = i == 0 ? 2 : 0;
        desc.control_image = i == 1 ? grey : NULL, desc.control_count = i == 1 ? FOLLOWED : 0;
        desc.mask = i == 1 ? masks : NULL, desc.mask_count = i == 1 ? FOLLOWED : 0;
        if (!CHECK(run(&job, &desc))) break;
        CHECK_MESSAGE(diti_plan_read(job->shares[0]->program.plan, job->shares[0]->program.control, read[i],
                                     sizeof read[i], &err) == DIT_OK,
                      "%s", err.message);
    }
    CHECK(!memcmp(read[0], read[1], 16 * PLANE * sizeof(float)));
    CHECK(!memcmp(read[0] + 32 * PLANE, read[1] + 32 * PLANE, 64 * PLANE * sizeof(float)));
    for (i = 16 * PLANE; i < 32 * PLANE; i++) most = fmaxf(most, fabsf(read[0][i] - read[1][i]));
    CHECK_MESSAGE(most > 0 && most < 0.05f, "what is made anew differs by %g", (double)most);
    for (i = 0; i < 64 * PLANE; i++) /* frames 1 and 3 stand for the latent's, and all but 0 and 4 are white */
        if (!CHECK_MESSAGE(read[0][32 * PLANE + i] == 1, "value %u of the mask", i)) break;
    dit_job_destroy(job);
    free_stripes(grey);
    free_stripes(masks);
}

/* In a sweep clips together, another strength by a restart, streamed weights, and blocks that are reused where nothing
   is near enough: what a new job of its own makes. The mask is one for all frames. */
static void test_following(bool sweep) {
    static uint8_t first[2][FOLLOWED * PIXELS * 4], second[FOLLOWED * PIXELS * 4];
    dit_image *clip = stripes(WIDTH, HEIGHT, FOLLOWED), *other = stripes(90, 41, 1);
    dit_reference reference = {other, 1};
    dit_model *model = load_vace(0);
    dit_model_info info;
    dit_job_desc desc = describe(model);
    dit_job *job = NULL, *again = NULL;
    dit_error err = {0};
    uint64_t bytes;
    if (!model) return;
    dit_model_get_info(model, &info);
    bytes = info.weight_bytes;
    CHECK(info.takes_control && info.takes_image && info.takes_last_image && !info.wants_image && !info.wants_control &&
          !info.holds_frames);
    CHECK(info.default_frames == 81 && info.default_width == 832 && !strcmp(info.variant, "vace-1.3b"));
    CHECK(info.default_steps == 50 && info.default_guidance == 5 &&
          diti_json_number(model->scheduler, "flow_shift", 0) == 16); /* vace_wan_inference.py's */
    test_following_refused(model, clip);
    test_unlike_experts();
    test_blocks_apart(clip);
    test_transformer_alone();
    test_following_ends(model, clip);
    desc.frame_count = FOLLOWED;
    desc.control_image = clip, desc.control_count = FOLLOWED;
    desc.mask = clip;
    desc.references = &reference, desc.reference_count = 1;
    desc.image_count = 2;
    if (!sweep) goto end;
    if (!run(&job, &desc) || !read_all(job, 0, first[0], FOLLOWED) || !read_all(job, 1, first[1], FOLLOWED)) goto end;
    CHECK(memcmp(first[0], first[1], sizeof second));
    dit_job_destroy(job), job = NULL;
    desc.image_count = 1;
    desc.seed++;
    CHECK(run(&job, &desc) && read_all(job, 0, second, FOLLOWED) && !memcmp(first[1], second, sizeof second));
    desc.control_strength = 0.25f;
    CHECK(run(&job, &desc) && read_all(job, 0, first[0], FOLLOWED) && memcmp(first[0], second, sizeof second));
    CHECK(run(&again, &desc) && read_all(again, 0, second, FOLLOWED) && !memcmp(first[0], second, sizeof second));
    desc.reference_count = 0;
    CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "reference_count differs"));
    desc.reference_count = 1;
    dit_job_destroy(again), again = NULL;
    desc.cache = "fbcache:threshold=0.000001";
    CHECK(run(&again, &desc) && read_all(again, 0, second, FOLLOWED) && !memcmp(first[0], second, sizeof second));
    dit_job_destroy(again), again = NULL;
    desc.cache = NULL;
    dit_job_destroy(job), job = NULL;
    dit_model_destroy(model);
    desc.model = model = load_vace(bytes * 3 / 4);
    CHECK(model && run(&again, &desc) && read_all(again, 0, second, FOLLOWED) &&
          !memcmp(first[0], second, sizeof second));
end:
    dit_job_destroy(job);
    dit_job_destroy(again);
    dit_model_destroy(model);
    free_stripes(clip);
    free_stripes(other);
}

/* --- HunyuanVideo, of which no small pipeline is published --- */

static void generated_encoder(folder *out, real_file *file, const char *config) {
    bytes whole = {0};
    dit_source source = real_source(file);
    bytes_add(&whole, NULL, (size_t)source.size);
    CHECK(source.read_at(0, whole.data, (size_t)source.size, source.user) == (int64_t)source.size);
    real_free(file);
    folder_add_text(out, "config.json", config);
    folder_add(out, "model.safetensors", whole);
}

/* Gives what an encoder alone makes of a prompt: rows of the first text, or the pooled one. */
static uint32_t encode_alone(folder *index, const dit_component *parts, uint32_t count, const char *prompt,
                             uint32_t text, float *out, size_t most) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    diti_conditioning made = {0};
    diti_env env = test_env(NULL);
    dit_error err = {0};
    size_t size = 0, values;
    void *blob;
    uint32_t rows = 0;
    desc.source = folder_source(index);
    desc.components = parts;
    desc.component_count = count;
    if (!CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message)) return 0;
    CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, NULL, &size, &err) == DIT_OK, "%s", err.message);
    blob = malloc(size ? size : 1);
    if (CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, blob, &size, &err) == DIT_OK &&
                          diti_conditioning_from_blob(&env, "test", blob, size, &made, &err) == DIT_OK,
                      "%s", err.message)) {
        rows = text ? 1 : made.texts[0].length;
        values = (size_t)rows * made.texts[text].columns;
        if (CHECK(values <= most)) memcpy(out, made.texts[text].rows, values * sizeof *out);
        diti_conditioning_free(&env, &made);
    }
    free(blob);
    dit_model_destroy(model);
    return rows;
}

/* The clip of a blob that a model makes of a prompt: the whole one, or its encoders without a transformer. */
static void check_blob(const dit_model *encodes, const dit_job_desc *whole, const char *prompt, const uint8_t *wanted,
                       const char *what) {
    enum { CLIP = 9 };
    static uint8_t got[CLIP * PIXELS * 4];
    dit_job_desc desc = *whole;
    dit_error err = {0};
    dit_job *job = NULL;
    size_t size = 0;
    void *blob;
    CHECK_MESSAGE(dit_encode_prompt(context, encodes, prompt, NULL, &size, &err) == DIT_OK, "%s", err.message);
    blob = malloc(size ? size : 1);
    CHECK_MESSAGE(dit_encode_prompt(context, encodes, prompt, blob, &size, &err) == DIT_OK, "%s", err.message);
    desc.prompt = NULL;
    desc.conditioning = blob, desc.conditioning_size = size;
    if (CHECK_MESSAGE(run(&job, &desc), "a job takes the blob of %s", what)) {
        CHECK(read_all(job, 0, got, CLIP));
        CHECK_MESSAGE(!memcmp(got, wanted, sizeof got), "a prompt and its blob of %s make different clips", what);
    }
    dit_job_destroy(job);
    free(blob);
}

/* A prompt becomes the clip that its two encoders' results become, whatever the prompt before it was. */
static void test_hunyuanvideo(void) {
    enum { COLUMNS = 40, POOLED = 24, CLIP = 9 };
    static const real_decoder_shape llama = {"model.", 1024, COLUMNS, 64, 4, 2, 1, 20, false, false, false};
    static const char first[] = "a fox runs through snow", second[] = "rain on a tin roof at night, and nobody there";
    static float rows[64 * COLUMNS], pooled[POOLED];
    static uint8_t asked[CLIP * PIXELS * 4], given[CLIP * PIXELS * 4], other[CLIP * PIXELS * 4];
    size_t size = 0;
    folder index = {0}, words = {0}, encoders[2] = {0};
    char *tokenizer = test_read_file("tests/fixtures/tokenizers/scripts/llama3.json", &size);
    real_file files[2] = {{0}};
    dit_component parts[7];
    dit_model_desc md = {0};
    dit_job_desc desc = {0};
    dit_model *model = NULL, *encodes = NULL;
    dit_tensor inputs[2];
    dit_error err = {0};
    dit_job *job = NULL;
    uint32_t i, length;
    memset(parts, 0, sizeof parts);
    memset(inputs, 0, sizeof inputs);
    for (i = 0; i < 2; i++) files[i].container = REAL_SAFETENSORS, files[i].type = DIT_TYPE_F32;
    real_decoder(&files[0], &llama);
    real_clip(&files[1], POOLED, 2, false);
    generated_encoder(&encoders[0], &files[0],
                      "{\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 20}");
    generated_encoder(&encoders[1], &files[1], "{\"num_attention_heads\": 2}");
    folder_add_text(&words, "tokenizer.json", tokenizer ? tokenizer : "");
    free(tokenizer);
    folder_add_text(&index, "model_index.json", "{\"_class_name\": \"HunyuanVideoPipeline\"}");
    parts[0].role = DIT_ROLE_TEXT_1, parts[0].source = folder_source(&encoders[0]);
    parts[1].role = DIT_ROLE_TOKENIZER_1, parts[1].source = folder_source(&words);
    parts[2].role = DIT_ROLE_TEXT_2, parts[2].source = folder_source(&encoders[1]);
    parts[3].role = DIT_ROLE_TOKENIZER_2, parts[3].source.path = "models/clip";
    parts[4].role = DIT_ROLE_TRANSFORMER, parts[4].source.path = "tests/fixtures/hunyuanvideo";
    parts[5].role = DIT_ROLE_VAE, parts[5].source.path = "tests/fixtures/vae_hunyuanvideo";
    length = encode_alone(&index, parts, 2, first, 0, rows, DITI_COUNT(rows));
    parts[2].role = DIT_ROLE_TEXT_1, parts[3].role = DIT_ROLE_TOKENIZER_1;
    CHECK(length > 4 && encode_alone(&index, parts + 2, 2, first, 2, pooled, POOLED));
    parts[2].role = DIT_ROLE_TEXT_2, parts[3].role = DIT_ROLE_TOKENIZER_2;
    md.source = folder_source(&index);
    md.components = parts;
    md.component_count = 6;
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        desc = describe(model);
        desc.prompt = second;
        desc.frame_count = CLIP;
        CHECK(run(&job, &desc) && read_all(job, 0, other, CLIP));
        desc.prompt = first;
        CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK, "%s",
                      err.message);
        CHECK(read_all(job, 0, asked, CLIP) && memcmp(asked, other, sizeof asked));
        check_blob(model, &desc, first, asked, "the model");
        md.component_count = 4;
        if (CHECK_MESSAGE(dit_model_load(context, &md, &encodes, &err) == DIT_OK, "%s", err.message))
            check_blob(encodes, &desc, first, asked, "the encoders alone");
        dit_model_destroy(encodes);
        inputs[0].name = "prompt_embeds", inputs[0].rank = 3, inputs[0].shape[1] = length, inputs[0].shape[2] = COLUMNS;
        inputs[1].name = "pooled_prompt_embeds", inputs[1].rank = 2, inputs[1].shape[1] = POOLED;
        inputs[0].data = rows, inputs[1].data = pooled;
        for (i = 0; i < 2; i++) inputs[i].type = DIT_TYPE_F32, inputs[i].shape[0] = 1;
        desc.prompt = NULL;
        desc.inputs = inputs, desc.input_count = 2;
        dit_job_destroy(job);
        job = NULL;
        CHECK(run(&job, &desc) && read_all(job, 0, given, CLIP));
        CHECK_MESSAGE(!memcmp(asked, given, sizeof asked), "a prompt and its embeddings make different clips");
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    for (i = 0; i < 2; i++) folder_free(&encoders[i]);
    folder_free(&words);
    folder_free(&index);
}

/* --- LTX-Video --- */

/* LTX-Video holds the picture as its first latent frame: the same after any number of steps, and another picture's
   another. Its decoder adds noise of the clip's own seed. */
static void test_first_frame(void) {
    enum { WIDE = 96, HIGH = 64, FRAME = 2 * 3, CHANNELS = 16, VALUES = 2 * FRAME * CHANNELS };
    static float two[VALUES], three[VALUES], other[VALUES];
    static unsigned char blob[1 << 16];
    size_t size = sizeof blob;
    float worst = 0;
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_model_info info;
    dit_image *image = stripes(WIDE, HIGH, 2);
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t i, same = 0, moved = 0, others = 0;
    md.source.path = "tests/fixtures/pipe_ltx";
    if (!CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(info.takes_image && !info.wants_image && info.holds_frames);
    desc.model = model;
    desc.prompt = "a fox";
    desc.width = WIDE;
    desc.height = HIGH;
    desc.frame_count = 9;
    desc.steps = 2;
    desc.init_image = image;
    desc.preview_interval = 1;
    CHECK(run(&job, &desc) && dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, two, sizeof two, 0, &err) == DIT_OK);
    desc.init_image = image + 1;
    CHECK(run(&job, &desc) && dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, other, sizeof other, 0, &err) == DIT_OK);
    dit_job_destroy(job);
    job = NULL;
    desc.init_image = image;
    CHECK(dit_encode_prompt(context, model, desc.prompt, blob, &size, &err) == DIT_OK);
    desc.conditioning = blob; /* padding is read by the encoder there, too */
    desc.conditioning_size = size;
    CHECK(run(&job, &desc) && dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, three, sizeof three, 0, &err) == DIT_OK);
    for (i = 0; i < VALUES; i++) worst = fmaxf(worst, fabsf(three[i] - two[i]));
    CHECK_MESSAGE(worst < 1e-5f, "the encoded prompt moves a latent by %g", (double)worst);
    dit_job_destroy(job);
    job = NULL;
    desc.conditioning = NULL;
    desc.conditioning_size = 0;
    desc.steps = 3;
    CHECK(run(&job, &desc) && dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, three, sizeof three, 0, &err) == DIT_OK);
    for (i = 0; i < VALUES; i++) {
        bool first = i % (2 * FRAME) < FRAME;
        same += first && memcmp(&two[i], &three[i], sizeof two[i]) == 0;
        moved += !first && memcmp(&two[i], &three[i], sizeof two[i]) != 0;
        others += first && memcmp(&two[i], &other[i], sizeof two[i]) != 0;
    }
    CHECK_MESSAGE(same == FRAME * CHANNELS, "%u of %u values of the given frame stay", same, FRAME * CHANNELS);
    CHECK_MESSAGE(moved > FRAME * CHANNELS / 2 && others > FRAME * CHANNELS / 2, "%u values move, %u are others", moved,
                  others);
    desc.init_image = NULL;
    desc.image_count = 2; /* the noise would be the first one's */
    check_refused(&desc, "clips whose decoder draws noise are made one by one; image_count must be 1");
    desc.image_count = 1;
    desc.width = desc.height = 32;
    desc.frame_count = 1;
    check_refused(&desc, "the latent would be a single pixel");
    dit_job_destroy(job);
    dit_model_destroy(model);
    free_stripes(image);
}

/* The transformer of pipe_ltx with the metadata that original files of 0.9.5 have. */
static void original_ltx(folder *out) {
    static const char begin[] = "{\"__metadata__\":{",
                      more[] = "\"config\":\"{\\\"transformer\\\":{\\\"causal_temporal_positioning\\\":true}}\",";
    const size_t at = 8 + sizeof begin - 1;
    size_t size = 0, config = 0;
    char *file = test_read_file("tests/fixtures/pipe_ltx/transformer/diffusion_pytorch_model.safetensors", &size);
    char *text = test_read_file("tests/fixtures/pipe_ltx/transformer/config.json", &config);
    bytes whole = {0};
    if (CHECK(file && text && size > at && !memcmp(file + 8, begin, at - 8))) {
        bytes_u64(&whole, *(const uint64_t *)(const void *)file + sizeof more - 1);
        bytes_add(&whole, file + 8, at - 8);
        bytes_add(&whole, more, sizeof more - 1);
        bytes_add(&whole, file + at, size - at);
        folder_add(out, "diffusion_pytorch_model.safetensors", whole);
        folder_add_text(out, "config.json", text);
    }
    free(file);
    free(text);
}

/* LTX-Video's pipeline from 0.9.5 on: other steps, positions that count the first latent frame as one frame, an encoder
   that does not see padding, and noise on a picture in every step, unless the job says that there is none. Every 16th
   value from the sixth on of what diffusers 0.42.1 makes in float32: from noise, from a picture, and without that
   noise. original: no model_index.json says so, nor is there a scheduler. */
static void test_ltx_condition(bool original) {
    enum { VALUES = 16 * 2 * 2 * 3 };
    static const float wanted[3][12] = {{-2.954008f, 0.493468f, -0.298092f, 0.974927f, 1.699131f, -0.530329f, 3.973044f,
                                         0.348235f, 0.057207f, -2.374082f, 1.623624f, -3.366470f},
                                        {0.727313f, 1.358007f, -0.349192f, -0.289209f, 1.344727f, -0.954511f,
                                         -0.262495f, 0.489783f, -1.505756f, -0.443417f, 1.214188f, 1.444919f},
                                        {0.774797f, 1.371714f, -0.413695f, -0.294546f, 1.314322f, -0.965140f,
                                         -0.258020f, 0.477499f, -1.526839f, -0.387369f, 1.201269f, 1.484479f}};
    static const float none = 0, most = -1;
    static const char *const parts[] = {"transformer", "vae", "text_encoder", "tokenizer"};
    static const dit_role roles[] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE, DIT_ROLE_TEXT_1, DIT_ROLE_TOKENIZER_1};
    static float latent[VALUES];
    char paths[4][64];
    folder index = {0}, scheduler = {0}, transformer = {0};
    dit_component components[5];
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    dit_image *image = stripes(96, 64, 1);
    dit_tensor scale = {"image_cond_noise_scale", DIT_TYPE_F32, 1, {1, 0, 0, 0, 0}, &none};
    uint32_t i, kind;
    memset(components, 0, sizeof components);
    folder_add_text(&index, "model_index.json", "{\"_class_name\": \"LTXConditionPipeline\"}");
    folder_add_text(&scheduler, "scheduler_config.json", "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\"}");
    for (i = 0; i < 4; i++) {
        diti_format(paths[i], sizeof paths[i], "tests/fixtures/pipe_ltx/%s", parts[i]);
        components[i].role = roles[i], components[i].source.path = paths[i];
    }
    components[4].role = DIT_ROLE_SCHEDULER, components[4].source = folder_source(&scheduler);
    md.components = components;
    md.component_count = original ? 4 : 5;
    if (original) {
        original_ltx(&transformer);
        components[0].source = folder_source(&transformer);
    } else {
        md.source = folder_source(&index);
    }
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        CHECK_MESSAGE(model->texts[DITI_TEXT_FIRST].tokens == 256, "prompts have %u tokens",
                      model->texts[DITI_TEXT_FIRST].tokens);
        desc.model = model;
        desc.prompt = "A fox runs through SNOW";
        desc.width = 96, desc.height = 64;
        desc.frame_count = 9;
        desc.steps = 5;
        desc.guidance.scale = 3;
        desc.seed = 42;
        for (kind = 0; kind < 3; kind++) {
            float worst = 0;
            desc.init_image = kind ? image : NULL;
            desc.inputs = &scale, desc.input_count = kind == 2;
            if (run(&job, &desc) &&
                CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latent, sizeof latent, 0, &err) == DIT_OK))
                for (i = 0; i < 12; i++) worst = fmaxf(worst, fabsf(latent[5 + 16 * i] - wanted[kind][i]));
            CHECK_MESSAGE(worst < (kind ? 0.01f : 0.05f), "latents %u differ by %g", kind,
                          (double)worst); /* on F32 by 4e-5 */
        }
        scale.data = &most;
        CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "is -1"));
        desc.init_image = NULL;
        CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "leave it out"));
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    free_stripes(image);
    folder_free(&transformer);
    folder_free(&scheduler);
    folder_free(&index);
}

/* --- CogVideoX 1.5 --- */

static void small_cogvideox15_i2v(real_file *file) { real_cogvideox(file, 128, 1, 2, 32); }

/* Nine frames are three of the latent, and one in front fills a patch of two. The picture is the first of these four,
   and zeros stand behind it: so CogVideoX 1.5's own pipeline has it. */
static void test_filled_patches(void) {
    static const clip_model i2v = {"CogVideoX 1.5 I2V",
                                   NULL,
                                   COGVIDEOX "/vae",
                                   COGVIDEOX "/scheduler",
                                   small_cogvideox15_i2v,
                                   NULL,
                                   224,
                                   4096,
                                   0,
                                   true,
                                   false};
    enum { SIDE = 16, FRAMES = 4, PLANE = 2 * 2, CHANNELS = 16, VALUES = CHANNELS * FRAMES * PLANE };
    static float embeds[224 * 4096], condition[VALUES];
    uint32_t i, first = 0, behind = 0;
    real_file files[2] = {{0}};
    dit_model *model = load_parts(&i2v, files);
    dit_image *image = stripes(SIDE, SIDE, 1);
    dit_job_desc desc = {0};
    dit_tensor input = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    input.name = "prompt_embeds";
    input.type = DIT_TYPE_F32;
    input.rank = 3;
    input.shape[0] = 1, input.shape[1] = 224, input.shape[2] = 4096;
    input.data = embeds;
    desc.model = model;
    desc.inputs = &input, desc.input_count = 1;
    desc.guidance.scale = 1;
    desc.width = desc.height = SIDE;
    desc.frame_count = 9;
    desc.steps = 1;
    desc.init_image = image;
    if (model && run(&job, &desc)) {
        const diti_program *program = &job->shares[0]->program;
        CHECK_MESSAGE(diti_plan_read(program->plan, program->condition, condition, sizeof condition, &err) == DIT_OK,
                      "%s", err.message);
        for (i = 0; i < VALUES; i++) *(i % (FRAMES * PLANE) < PLANE ? &first : &behind) += condition[i] != 0;
        CHECK_MESSAGE(first == CHANNELS * PLANE && behind == 0, "%u values of the picture, %u behind it", first,
                      behind);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    real_free(&files[0]);
    free_stripes(image);
}

int main(void) {
    test_vulkan_begin();
    if (open_context(NULL, STEADY)) {
        test_following(test_sweeps());
        test_hunyuanvideo();
        test_first_frame();
        test_ltx_condition(false);
        test_ltx_condition(true);
        test_filled_patches();
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("job_clips_families");
}
