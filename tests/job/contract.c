/* The contract printed at the top of dit.h, through the public API alone: what a job may ask for, what is refused and
   how, that the same request makes the same bytes however it runs, and what is read of a job. application.c has what a
   program around dit does and lends. test-runs: lavapipe sanitize, in test-all swiftshader */
#include "shared_job.h"
#include "files.h"

/* ---- Without a device ---- */

static void test_versions_and_names(void) {
    uint32_t i;
    int r;
    CHECK(dit_version() == DIT_VERSION);
    for (r = -11; r <= 2; r++) CHECK(strcmp(dit_result_string((dit_result)r), "unknown result") != 0);
    CHECK(strcmp(dit_result_string((dit_result)77), "unknown result") == 0);
    for (i = 0; dit_sampler_name(i); i++) CHECK(dit_sampler_name(i)[0]);
    CHECK(i >= 3 && !dit_sampler_name(i + 100) && !dit_sampler_name(UINT32_MAX));
    for (i = 0; dit_schedule_name(i); i++) CHECK(dit_schedule_name(i)[0]);
    CHECK(i >= 1 && !dit_schedule_name(UINT32_MAX));
}

static void test_null_arguments(void) {
    dit_error err = {0};
    dit_context *ctx = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_job_desc jd = {0};
    dit_status status;
    dit_counters counters;
    dit_output output;
    size_t size = 0;
    dit_context_destroy(NULL);
    dit_model_destroy(NULL);
    dit_job_destroy(NULL);
    dit_job_cancel(NULL);
    dit_job_status(NULL, &status, &err);
    dit_job_get_counters(NULL, &counters);
    CHECK(dit_context_create(NULL, &ctx, &err) == DIT_ERROR_INVALID_ARGUMENT && err.message[0]);
    CHECK(dit_context_create(&cd, NULL, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_model_load(NULL, &md, &model, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_model_load(NULL, NULL, &model, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_create(NULL, &jd, &job, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_memory(NULL, NULL, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_restart(NULL, &jd, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_step(NULL, 0) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_wait(NULL, 0) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_record(NULL, NULL, 0) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_output(NULL, 0, 0, &output) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_preview(NULL, &output) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_read(NULL, DIT_READ_RGBA8, 0, 0, &size, 8, 0, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(refused(dit_encode_prompt(NULL, NULL, "x", NULL, &size, &err), &err, "dit_encode_prompt: ctx is NULL"));
    CHECK(refused(dit_encode_weighted_prompt(NULL, NULL, "x", NULL, NULL, &err), &err,
                  "dit_encode_weighted_prompt: size is NULL"));
    CHECK(dit_context_save_cache(NULL, NULL, &size, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(refused(dit_job_save_state(NULL, NULL, &size, &err), &err, "dit_job_save_state"));
}

static void *never_alloc(size_t size, size_t align, void *user) { return (void)size, (void)align, (void)user, NULL; }
static VkResult never_block(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags preferred, dit_block *out, void *user) {
    (void)device, (void)need, (void)required, (void)preferred, (void)out, (void)user;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
static void never_free_block(uint32_t device, const dit_block *block, void *user) {
    (void)device, (void)block, (void)user;
}

/* Either every function of a hook is set or none; a request that this version cannot serve is refused by name. */
static void test_context_refusals(void) {
    dit_context *ctx = (dit_context *)&ctx;
    dit_error err = {0};
    dit_context_desc d = {0}, zero = {0};
    dit_vulkan vk = {0}, two[2];
    d.allocator.alloc = never_alloc;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "allocator"));
    CHECK_MESSAGE(!ctx, "out must be NULL on failure");
    d = zero;
    d.device_allocator.alloc = never_block;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "device_allocator"));
    d = zero;
    d.device_allocator.free = never_free_block;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "device_allocator"));
    d = zero;
    d.vulkan = &vk;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "vulkan_count"));
    d.vulkan_count = 1;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "get_instance_proc_addr"));
    memset(two, 0, sizeof two);
    d.vulkan = two;
    d.vulkan_count = 17;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "vulkan_count"));
    d.vulkan_count = 2;
    d.devices = "0";
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "not both"));
    d = zero;
    d.devices = "0,,0";
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "a name is missing"));
    d = zero;
    d.transport.rank_count = 2;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "transport"));
    d = zero;
    d.transport.rank = 1;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "rank 1 is not below rank_count 0"));
    d = zero;
    d.overrides = "no_such_key=1";
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "no_such_key"));
    d = zero;
    d.devices = "no such device";
    CHECK(dit_context_create(&d, &ctx, &err) == DIT_ERROR_UNSUPPORTED_DEVICE && strstr(err.message, "no such device"));
    d = zero;
    d.devices = "99";
    CHECK(dit_context_create(&d, &ctx, &err) == DIT_ERROR_UNSUPPORTED_DEVICE && strstr(err.message, "99"));
    CHECK_MESSAGE(dit_context_create(&d, &ctx, NULL) == DIT_ERROR_UNSUPPORTED_DEVICE, "err is optional");
}

static void test_device_list(void) {
    dit_device_info all[16], one;
    uint32_t count = 0, room = 16;
    dit_error err = {0};
    CHECK(dit_device_list(NULL, &count, &err) == DIT_OK && count >= 1);
    CHECK(dit_device_list(all, &room, &err) == DIT_OK && room == count && all[0].name[0] && all[0].rung[0]);
    room = 1;
    CHECK(dit_device_list(&one, &room, NULL) == DIT_OK && room == 1 && strcmp(one.name, all[0].name) == 0);
    CHECK(dit_device_list(NULL, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
}

/* A list that says "up to coop" promises less than one that says "base". */
static void test_listed_rung(void) {
    dit_device_info all[16], own;
    uint32_t i, count = 16;
    dit_error err = {0};
    CHECK(dit_device_list(all, &count, &err) == DIT_OK && dit_context_device(shared, &own, &err) == DIT_OK);
    for (i = 0; i < count && memcmp(all[i].uuid, own.uuid, sizeof own.uuid) != 0; i++) {
    }
    CHECK(i < count);
    if (i < count && own.type == VK_PHYSICAL_DEVICE_TYPE_CPU)
        CHECK_MESSAGE(strcmp(all[i].rung, own.rung) == 0, "listed is %s, used %s", all[i].rung, own.rung);
}

/* ---- Requests ---- */

/* A desc full of 0xCC, and descs with one guard that is not zero. */
static void test_guards(void) {
    dit_context *ctx = (dit_context *)&ctx; /* what a program has not initialised becomes NULL */
    dit_model *model = (dit_model *)&ctx;
    dit_job *job = (dit_job *)&ctx;
    dit_error err = {0};
    dit_memory memory;
    dit_context_desc cd;
    dit_model_desc md;
    dit_job_desc jd;
    memset(&cd, 0xcc, sizeof cd);
    memset(&md, 0xcc, sizeof md);
    memset(&jd, 0xcc, sizeof jd);
    CHECK(refused(dit_context_create(&cd, &ctx, &err), &err, "zero") && !ctx);
    CHECK(refused(dit_model_load(shared, &md, &model, &err), &err, "zero") && !model);
    CHECK(refused(dit_job_create(shared, &jd, &job, &err), &err, "zero") && !job);
    CHECK(refused(dit_job_memory(shared, &jd, &memory, &err), &err, "zero"));
    memset(&cd, 0, sizeof cd);
    cd._zero_end = 1;
    CHECK(refused(dit_context_create(&cd, &ctx, &err), &err, "zero"));
    memset(&md, 0, sizeof md);
    md.source.path = MODEL;
    md._zero_begin = 1;
    CHECK(refused(dit_model_load(shared, &md, &model, &err), &err, "zero"));
    md._zero_begin = 0;
    md.source.path = "";
    CHECK(dit_model_load(shared, &md, &model, &err) == DIT_ERROR_IO && strstr(err.message, "empty path"));
    jd = describe(shared_model, 7);
    jd._zero_end = 0xcccccccc;
    CHECK(refused(dit_job_create(shared, &jd, &job, &err), &err, "zero"));
}

typedef void (*spoiler)(dit_job_desc *desc);
static void spoil_width(dit_job_desc *d) { d->width = 40; }
static void spoil_height(dit_job_desc *d) { d->height = 20000; }
static void spoil_steps(dit_job_desc *d) { d->steps = 1001; }
static void spoil_images(dit_job_desc *d) { d->image_count = 100000; }
static void spoil_frames(dit_job_desc *d) { d->frame_count = 2; }
static void spoil_sampler(dit_job_desc *d) { d->sampler = "eular"; }
static void spoil_schedule(dit_job_desc *d) { d->schedule = "no such schedule"; }
static void spoil_guidance(dit_job_desc *d) { d->guidance.scale = -1; }
static void spoil_guidance_nan(dit_job_desc *d) { d->guidance.scale = NAN; }
static void spoil_distilled(dit_job_desc *d) { d->guidance.distilled = 3; }
static void spoil_rescale(dit_job_desc *d) { d->guidance.rescale = 1.5f; }
static void spoil_project(dit_job_desc *d) { d->guidance.project = NAN; }
static void spoil_norm_limit(dit_job_desc *d) { d->guidance.norm_limit = -1; }
static void spoil_length_limit(dit_job_desc *d) { d->guidance.length_limit = NAN; }
static void spoil_interval(dit_job_desc *d) { d->guidance.first = 0.5f, d->guidance.last = 0.5f; }
static void spoil_rng(dit_job_desc *d) { d->rng = (dit_rng)9; }
static void spoil_labels(dit_job_desc *d) { d->class_labels = (const int32_t *)d; }
static void spoil_adapters(dit_job_desc *d) { d->adapter_count = 1; }
static void spoil_references(dit_job_desc *d) { d->reference_count = 1; }
static void spoil_init(dit_job_desc *d) { d->init_image = (const dit_image *)d; }
static void spoil_mask(dit_job_desc *d) { d->mask = (const dit_image *)d; }
static void spoil_floats(dit_job_desc *d) {
    static uint8_t bytes[SIDE * SIDE * 4];
    static const float floats[SIDE * SIDE * 3];
    static dit_image image;
    image.width = image.height = SIDE;
    image.rgba = bytes;
    image.rgb = floats;
    d->init_image = &image;
}
static void spoil_split(dit_job_desc *d) { d->split = "cfg2"; }
static void spoil_cache(dit_job_desc *d) { d->cache = "teacache"; }
static void spoil_clip(dit_job_desc *d) { d->clip_skip = 2; }
static void spoil_inputs(dit_job_desc *d) { d->input_count = 1; }
static void spoil_model(dit_job_desc *d) { d->model = NULL; }
static void spoil_blob(dit_job_desc *d) { d->conditioning = "not a blob", d->conditioning_size = 10; }
static void spoil_target(dit_job_desc *d) { d->target.format = VK_FORMAT_R32_SFLOAT; }
static void spoil_layout(dit_job_desc *d) { d->target.final_layout = VK_IMAGE_LAYOUT_PREINITIALIZED; }
static void spoil_layout_unknown(dit_job_desc *d) { d->target.final_layout = 9; }
static void spoil_layout_garbage(dit_job_desc *d) { d->target.final_layout = 0xcccccccc; }
static void spoil_input_name(dit_job_desc *d) {
    static dit_tensor tensor = {"noize", DIT_TYPE_F32, 4, {1, 4, 4, 4, 0}, "x"};
    d->inputs = &tensor, d->input_count = 1;
}
static void spoil_input_shape(dit_job_desc *d) {
    static const float data[16];
    static dit_tensor tensor = {"noise", DIT_TYPE_F32, 4, {1, 4, 2, 2, 0}, data};
    d->inputs = &tensor, d->input_count = 1;
}
static void spoil_input_twice(dit_job_desc *d) {
    static const float data[64];
    static const dit_tensor noise = {"noise", DIT_TYPE_F32, 4, {1, 4, 4, 4, 0}, data};
    static dit_tensor tensors[2];
    tensors[0] = tensors[1] = noise;
    d->inputs = tensors, d->input_count = 2;
}
static void spoil_init_count(dit_job_desc *d) { d->init_count = 1; }
static void spoil_loop_edit(dit_job_desc *d) { d->loop_edit = NAN; }

static void test_job_refusals(void) {
    static const struct {
        spoiler spoil;
        const char *says;
    } cases[] = {
        {spoil_width, "is 48"},
        {spoil_height, "is 16384"},
        {spoil_steps, "1000"},
        {spoil_images, "image_count"},
        {spoil_frames, "frame_count"},
        {spoil_sampler, "eular"},
        {spoil_schedule, "no such schedule"},
        {spoil_guidance, "guidance.scale"},
        {spoil_guidance_nan, "guidance.scale"},
        {spoil_distilled, "distilled"},
        {spoil_rescale, "rescale 1.5"},
        {spoil_project, "project nan"},
        {spoil_norm_limit, "norm_limit -1"},
        {spoil_length_limit, "length_limit nan"},
        {spoil_interval, "first 0.5 and last 0.5"},
        {spoil_rng, "rng"},
        {spoil_labels, "class_labels"},
        {spoil_adapters, "adapter"},
        {spoil_references, "references"},
        {spoil_init, "init_image"},
        {spoil_mask, "mask"},
        {spoil_floats, "init_image.rgb"},
        {spoil_split, "split"},
        {spoil_cache, "cache"},
        {spoil_clip, "clip_skip"},
        {spoil_inputs, "inputs"},
        {spoil_model, "model"},
        {spoil_blob, "conditioning"},
        {spoil_target, "target.format"},
        {spoil_layout, "target.final_layout 8"},
        {spoil_layout_unknown, "target.final_layout 9"},
        {spoil_layout_garbage, "target.final_layout 3435973836"},
        {spoil_input_name, "noize"},
        {spoil_input_shape, "noise"},
        {spoil_input_twice, "noise is given twice"},
        {spoil_init_count, "init_image is NULL, init_count is 1"},
        {spoil_loop_edit, "loop_edit"},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job = (dit_job *)&desc;
        dit_error err = {0};
        cases[i].spoil(&desc);
        CHECK_MESSAGE(refused(dit_job_create(shared, &desc, &job, &err), &err, cases[i].says), "case %zu", i);
        CHECK_MESSAGE(!job, "case %zu leaves something in out", i);
        CHECK_MESSAGE(asks_alike(&desc, cases[i].says), "case %zu", i);
        CHECK(dit_job_create(shared, &desc, &job, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    }
}

/* All zeros but for what is required: the model's own size, steps, guidance, sampler; an empty prompt. */
static void test_zero_job(void) {
    dit_job_desc desc = {0};
    dit_model_info info;
    dit_output output;
    dit_job *job;
    dit_model_get_info(shared_model, &info);
    CHECK(strcmp(info.family, "pixart") == 0 && info.missing == 0 && info.size_multiple == 16);
    CHECK(info.default_width == 64 && info.default_height == 64 && info.latent_channels == 4 &&
          info.latent_factor == 8);
    CHECK_MESSAGE(info.default_sampler[0] && info.default_steps > 0 && info.default_guidance > 1,
                  "defaults are not told");
    CHECK(info.parameters[DIT_ROLE_TRANSFORMER] > 1000 && info.parameters[DIT_ROLE_VAE] > 1000 &&
          info.parameters[DIT_ROLE_TEXT_1] > 1000);
    desc.model = shared_model;
    job = create_job(shared, &desc);
    CHECK(dit_job_output(job, 0, 0, &output) == DIT_WORKING);
    dit_job_cancel(job);
    dit_job_destroy(job);
    desc.steps = 1;
    job = create_job(shared, &desc);
    if (finish(job)) CHECK(dit_job_output(job, 0, 0, &output) == DIT_OK && output.width == 64 && output.height == 64);
    dit_job_destroy(job);
}

static void test_dry_run(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_model_info dry, loaded;
    dit_job_desc jd;
    dit_job *job = NULL;
    dit_memory memory = {0}, real = {0};
    dit_error err = {0};
    desc.source.path = MODEL;
    desc.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &dry);
    dit_model_get_info(shared_model, &loaded);
    CHECK(memcmp(&dry, &loaded, sizeof dry) == 0);
    jd = describe(model, 7);
    CHECK(refused(dit_job_create(shared, &jd, &job, &err), &err, "dry run") && !job);
    CHECK_MESSAGE(dit_job_memory(NULL, &jd, &memory, &err) == DIT_OK, "%s", err.message);
    CHECK(memory.weights > 100000 && memory.activations > 1000 && memory.peak >= memory.weights + memory.activations);
    jd = describe(shared_model, 7);
    CHECK(dit_job_memory(shared, &jd, &real, &err) == DIT_OK && real.weights >= memory.weights / 4 * 3);
    dit_model_destroy(model);
}

/* ---- Prompts and other inputs ---- */

/* Both ends are the prompts themselves; the middle of a prompt and itself is that prompt, whatever is overwritten. */
static void test_mixed_prompts(const unsigned char *blob, size_t size) {
    unsigned char *other = (unsigned char *)malloc(size), *mixed = (unsigned char *)malloc(size);
    dit_error err = {0};
    size_t filled = size;
    CHECK(dit_encode_prompt(shared, shared_model, "a wooden chair on the table", other, &filled, &err) == DIT_OK);
    CHECK(dit_mix_prompts(blob, other, size, 1, mixed, &err) == DIT_OK && !memcmp(mixed, other, size));
    CHECK(dit_mix_prompts(blob, blob, size, 0.5f, mixed, &err) == DIT_OK && !memcmp(mixed, blob, size));
    CHECK(dit_mix_prompts(blob, other, size, 0.25f, mixed, &err) == DIT_OK && memcmp(mixed, blob, size) &&
          dit_mix_prompts(blob, other, size, 0.25f, other, &err) == DIT_OK && !memcmp(mixed, other, size));
    CHECK(refused(dit_mix_prompts(blob, other, size, 1.5f, mixed, &err), &err, "part is 1.5"));
    CHECK(refused(dit_mix_prompts(blob, other, size, NAN, mixed, &err), &err, "it must be 0 (a) to 1 (b)"));
    CHECK(refused(dit_mix_prompts(blob, other, size - 4, 0, mixed, &err), &err, "a: the prompt blob is damaged"));
    CHECK(refused(dit_mix_prompts(blob, NULL, size, 0, mixed, &err), &err, "b: "));
    CHECK(refused(dit_mix_prompts(blob, other, size, 0, NULL, &err), &err, "blob must be given"));
    other[size - 5] ^= 0x10;
    CHECK(refused(dit_mix_prompts(blob, other, size, 0, mixed, &err), &err, "b: the prompt blob is damaged"));
    free(mixed);
    free(other);
}

/* A prompt embedding that is given; its mask may have each of the types. */
static void test_masks(void) {
    static const struct {
        dit_type type;
        uint32_t bytes;
        uint64_t one;
    } types[] = {{DIT_TYPE_STORED, 4, 0x3f800000}, {DIT_TYPE_F32, 4, 0x3f800000}, {DIT_TYPE_F16, 2, 0x3c00},
                 {DIT_TYPE_BF16, 2, 0x3f80},       {DIT_TYPE_I32, 4, 1},          {DIT_TYPE_I64, 8, 1}};
    const diti_text_shape *text = &shared_model->texts[DITI_TEXT_FIRST];
    dit_tensor tensors[2] = {{"prompt_embeds", DIT_TYPE_F32, 3, {1, text->tokens, text->columns, 0, 0}, NULL},
                             {"prompt_attention_mask", DIT_TYPE_STORED, 2, {1, text->tokens, 0, 0, 0}, NULL}};
    float *rows = (float *)calloc((size_t)text->tokens * text->columns, sizeof *rows);
    uint8_t *mask = (uint8_t *)malloc(8 * (size_t)text->tokens);
    dit_job_desc desc = describe(shared_model, 7);
    dit_memory memory;
    dit_error err = {0};
    size_t i, k;
    desc.prompt = NULL;
    desc.inputs = tensors;
    desc.input_count = 2;
    tensors[0].data = rows;
    tensors[1].data = mask;
    for (i = 0; i < sizeof types / sizeof types[0]; i++) {
        tensors[1].type = types[i].type;
        memset(mask, 0, 8 * (size_t)text->tokens);
        for (k = 0; k < 5; k++) memcpy(mask + k * types[i].bytes, &types[i].one, types[i].bytes); /* little-endian */
        CHECK_MESSAGE(dit_job_memory(shared, &desc, &memory, &err) == DIT_OK, "%s: %s", dit_type_name(types[i].type),
                      err.message);
        memcpy(mask + 7 * types[i].bytes, &types[i].one, types[i].bytes);
        CHECK(refused(dit_job_memory(shared, &desc, &memory, &err), &err, "followed by zeros"));
    }
    tensors[1].type = DIT_TYPE_Q8_0;
    CHECK(refused(dit_job_memory(shared, &desc, &memory, &err), &err, "ones and zeros"));
    desc.prompt = "a red heart";
    desc.inputs = &tensors[1];
    desc.input_count = 1;
    CHECK(refused(dit_job_memory(shared, &desc, &memory, &err), &err, "prompt_attention_mask is given without"));
    free(rows);
    free(mask);
}

static void test_inputs(void) {
    float noise[4 * (SIDE / 8) * (SIDE / 8)];
    static diti_random random;
    dit_tensor tensors[2] = {{"noise", DIT_TYPE_F32, 4, {1, 4, SIDE / 8, SIDE / 8, 0}, noise}};
    dit_job_desc desc = describe(shared_model, 99); /* the seed plays no part */
    unsigned char *blob = NULL;
    size_t size = 0, small = 16;
    dit_error err = {0};
    dit_job *job;
    diti_random_seed(&random, 7);
    diti_random_normal(&random, noise, sizeof noise / sizeof noise[0]);
    desc.inputs = tensors;
    desc.input_count = 1;
    job = create_job(shared, &desc);
    if (finish(job)) CHECK_MESSAGE(is_expected(job), "noise by name is not the seed's");
    tensors[0].type = DIT_TYPE_STORED; /* zero: F32 */
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    dit_job_destroy(job);
    CHECK(dit_encode_prompt(shared, shared_model, "a red heart", NULL, &size, &err) == DIT_OK && size > 64);
    blob = (unsigned char *)malloc(size);
    CHECK(refused(dit_encode_prompt(shared, shared_model, "a red heart", blob, &small, &err), &err, "16") &&
          small == size);
    CHECK_MESSAGE(dit_encode_prompt(shared, shared_model, "a red heart", blob, &size, &err) == DIT_OK, "%s",
                  err.message);
    desc = describe(shared_model, 7);
    desc.prompt = NULL;
    desc.conditioning = blob;
    desc.conditioning_size = size;
    job = create_job(shared, &desc);
    if (finish(job)) CHECK_MESSAGE(is_expected(job), "a prompt blob is not its prompt");
    dit_job_destroy(job);
    test_mixed_prompts(blob, size);
    blob[size - 5] ^= 0x10;
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "damaged"));
    desc.conditioning_size = size - 1;
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "damaged"));
    free(blob);
}

/* Text encoders run in one context and the rest in another: a prompt crosses as a blob. */
static void test_parts(void) {
    const uint32_t texts = 1u << DIT_ROLE_TEXT_1 | 1u << DIT_ROLE_TEXT_2 | 1u << DIT_ROLE_TEXT_3;
    dit_model_desc desc = {0};
    dit_model *encoder = NULL, *painter = NULL;
    dit_model_info whole, parts[2];
    dit_job_desc request;
    dit_error err = {0};
    unsigned char blob[65536];
    size_t size = sizeof blob;
    dit_job *job;
    desc.source.path = MODEL;
    desc.parts = texts | 1u << DIT_ROLE_SCHEDULER;
    CHECK(refused(dit_model_load(shared, &desc, &encoder, &err), &err, "parts has the bits 0x400") && !encoder);
    desc.parts = DIT_ROLE_TRANSFORMER; /* a role is no bit */
    CHECK(refused(dit_model_load(shared, &desc, &encoder, &err), &err, "parts has the bits 0x1"));
    desc.parts = texts;
    CHECK_MESSAGE(dit_model_load(shared, &desc, &encoder, &err) == DIT_OK, "%s", err.message);
    desc.parts = ~texts;
    CHECK_MESSAGE(dit_model_load(shared, &desc, &painter, &err) == DIT_OK, "%s", err.message);
    if (!encoder || !painter) return;
    dit_model_get_info(shared_model, &whole);
    dit_model_get_info(encoder, &parts[0]);
    dit_model_get_info(painter, &parts[1]);
    CHECK(parts[0].missing == (1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE) &&
          parts[1].missing == 1u << DIT_ROLE_TEXT_1);
    CHECK(parts[0].weight_bytes && parts[1].weight_bytes &&
          parts[0].weight_bytes + parts[1].weight_bytes == whole.weight_bytes);
    CHECK_MESSAGE(dit_encode_prompt(shared, encoder, "a red heart", blob, &size, &err) == DIT_OK, "%s", err.message);
    CHECK(refused(dit_encode_prompt(shared, painter, "a red heart", blob, &size, &err), &err, "parts"));
    request = describe(encoder, 7);
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "parts"));
    request = describe(painter, 7);
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "parts"));
    request.prompt = NULL;
    request.conditioning = blob;
    request.conditioning_size = size;
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "negative_conditioning is missing"));
    request.conditioning = NULL;
    request.negative_conditioning = blob;
    request.negative_conditioning_size = size;
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "conditioning is missing") &&
          !strstr(err.message, "negative_"));
    request.conditioning = blob;
    request.negative_conditioning_size = size - 1;
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "negative_conditioning: "));
    request.negative_conditioning = NULL;
    request.guidance.scale = 1;
    job = create_job(shared, &request);
    CHECK(finish(job));
    dit_job_destroy(job);
    dit_model_destroy(encoder);
    dit_model_destroy(painter);
}

/* ---- Steps that a repository names ---- */

/* A folder whose model_index.json has sigmas, too. */
static dit_result open_sigmas(const char *member, dit_source *out, void *user) {
    static char path[256];
    const char *sigmas = (const char *)user;
    FILE *file;
    memset(out, 0, sizeof *out);
    if (!strcmp(member, "model_index.json")) {
        out->data = sigmas;
        out->size = strlen(sigmas);
        return DIT_OK;
    }
    snprintf(path, sizeof path, "tests/fixtures/pipe_flux/%s", member);
    file = fopen(path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = path;
    return DIT_OK;
}

static dit_result load_sigmas(const char *list, dit_model **out, dit_error *err) {
    static char index[256];
    dit_model_desc desc = {0};
    snprintf(index, sizeof index, "{\"_class_name\": \"FluxPipeline\", \"sample_sigmas\": %s}", list);
    desc.source.open = open_sigmas;
    desc.source.user = index;
    desc.dry_run = true;
    return dit_model_load(NULL, &desc, out, err);
}

/* The timestep of each of some steps. */
static bool timesteps_of(const dit_model *model, uint32_t steps, const char *schedule, double *out) {
    const diti_env env = test_env(NULL);
    dit_job_desc desc = {0};
    dit_error err = {0};
    diti_job_request request;
    uint32_t i;
    desc.model = model;
    desc.width = 96;
    desc.height = 64;
    desc.steps = steps;
    desc.schedule = schedule;
    if (!CHECK_MESSAGE(diti_job_request_make(model, &env, &desc, NULL, &request, &err) == DIT_OK, "%s", err.message))
        return false;
    for (i = 0; i < request.schedule.count; i++) out[i] = (double)request.schedule.steps[i].timestep;
    diti_job_request_free(&env, &request);
    return true;
}

/* Sigmas that a repository has for its own number of steps; diffusers' scheduler shifts them by 1.6579 here. */
static void test_sample_sigmas(void) {
    static const char *const wrong[] = {"[1, 0.5, 0.6]", "[1.5]", "[0]", "[1, \"x\"]", "3"};
    static const double sigmas[] = {1, 0.9, 0.6};
    double own[3], equal[3], named[3], four[4], shift;
    dit_error err = {0};
    dit_model_info info;
    dit_model *model = NULL;
    size_t i;
    if (CHECK_MESSAGE(load_sigmas("[1, 0.9, 0.6]", &model, &err) == DIT_OK, "%s", err.message)) {
        dit_model_get_info(model, &info);
        CHECK(info.default_steps == 3);
        if (timesteps_of(model, 0, NULL, own) && timesteps_of(model, 3, "simple", named) &&
            timesteps_of(model, 4, NULL, four)) {
            shift = named[1] / 1000 * (1 / 3.0) / (2 / 3.0 * (1 - named[1] / 1000));
            for (i = 0; i < 3; i++)
                CHECK_MESSAGE(fabs(own[i] - 1000 * shift * sigmas[i] / (1 + (shift - 1) * sigmas[i])) < 1e-2,
                              "step %d is at %g", (int)i, own[i]);
            CHECK_MESSAGE(fabs(four[2] - 1000 * shift * 0.5 / (1 + (shift - 1) * 0.5)) < 1e-2, "%g", four[2]);
        }
    }
    dit_model_destroy(model);
    model = NULL;
    if (CHECK(load_sigmas("null", &model, &err) == DIT_OK) && timesteps_of(model, 3, NULL, equal))
        CHECK_MESSAGE(fabs(equal[1] - named[1]) < 1e-3, "%g, %g", equal[1], named[1]);
    dit_model_destroy(model);
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        model = NULL;
        CHECK_MESSAGE(load_sigmas(wrong[i], &model, &err) < 0 && strstr(err.message, "sample_sigmas") && !model,
                      "%s: %s", wrong[i], err.message);
    }
}

/* ---- Determinism ---- */

/* Whatever the budget, the bytes are the same. */
static void test_budgets(void) {
    static const uint32_t budgets[] = {0, 1, 500, 20000, UINT32_MAX};
    dit_job_desc desc = describe(shared_model, 7);
    dit_job *job = create_job(shared, &desc);
    size_t i;
    for (i = 0; job && i < sizeof budgets / sizeof budgets[0]; i++) {
        dit_result result;
        dit_error err = {0};
        dit_status status;
        float before = 0;
        bool rises = true;
        do {
            result = dit_job_step(job, budgets[i]);
            dit_job_status(job, &status, NULL);
            rises = rises && status.fraction >= before && status.fraction <= 1 && status.result == result;
            before = status.fraction;
        } while (result == DIT_WORKING);
        dit_job_status(job, &status, &err);
        CHECK_MESSAGE(result == DIT_OK && err.result == DIT_OK && !err.message[0], "%s", err.message);
        CHECK(rises && status.fraction == 1 && status.step == STEPS && status.step_count == STEPS &&
              status.stage == DIT_STAGE_DONE);
        CHECK_MESSAGE(is_expected(job), "budget %u gives another picture", budgets[i]);
        CHECK(dit_job_step(job, 0) == DIT_OK && dit_job_wait(job, 0) == DIT_OK);
        CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    }
    dit_job_destroy(job);
}

static void test_batch(void) {
    dit_job_desc desc = describe(shared_model, 6);
    unsigned char rgba[BYTES];
    float latent[4 * (SIDE / 8) * (SIDE / 8)];
    dit_job *job;
    desc.image_count = 3;
    job = create_job(shared, &desc);
    if (finish(job)) {
        CHECK_MESSAGE(read_picture(job, 1, rgba, sizeof rgba) && memcmp(rgba, expected, BYTES) == 0,
                      "image 1 of seed 6 is not seed 7's");
        CHECK(read_picture(job, 2, rgba, sizeof rgba) && memcmp(rgba, expected, BYTES) != 0);
        CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 2, 0, latent, sizeof latent, 0, NULL) == DIT_OK);
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 3, 0, rgba, sizeof rgba, 0, NULL) == DIT_ERROR_INVALID_ARGUMENT);
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 1, rgba, sizeof rgba, 0, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    }
    dit_job_destroy(job);
}

static void test_interleaved(void) {
    dit_job_desc a = describe(shared_model, 7), b = describe(shared_model, 8);
    dit_result ra = DIT_WORKING, rb = DIT_WORKING;
    dit_job *ja, *jb;
    b.width = 48;
    b.prompt = "another one";
    ja = create_job(shared, &a);
    jb = create_job(shared, &b);
    while (ra == DIT_WORKING || rb == DIT_WORKING) {
        if (ra == DIT_WORKING) ra = dit_job_step(ja, 300);
        if (rb == DIT_WORKING) rb = dit_job_step(jb, 700);
    }
    CHECK(ra == DIT_OK && rb == DIT_OK && is_expected(ja));
    dit_job_destroy(ja); /* in the order of creation, the other is done afterwards */
    CHECK(dit_job_restart(jb, &b, NULL) == DIT_OK && finish(jb));
    dit_job_destroy(jb);
}

/* ---- Counters: restart and new sizes ---- */

static void test_restart(void) {
    dit_job_desc desc = describe(shared_model, 3), other = describe(shared_model, 7);
    dit_counters created, first, second;
    dit_error err = {0};
    dit_job *job = create_job(shared, &desc);
    dit_job_get_counters(job, &created);
    CHECK(created.recordings > 0 && created.allocations > 0 && created.submits == 0 && created.dispatches == 0);
    if (!finish(job)) return dit_job_destroy(job);
    CHECK(!is_expected(job));
    dit_job_get_counters(job, &first);
    desc.prompt = "something else that is rather longer";
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && !is_expected(job));
    CHECK_MESSAGE(dit_job_restart(job, &other, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(finish(job) && is_expected(job), "a restarted job is not a new one");
    dit_job_get_counters(job, &second);
    CHECK(first.recordings == created.recordings && second.recordings == created.recordings);
    CHECK(first.allocations == created.allocations && second.allocations == created.allocations);
    CHECK(first.pipelines == created.pipelines && second.pipelines == created.pipelines);
    CHECK(second.dispatches == 3 * first.dispatches);
    other.width = SIDE + 16;
    CHECK(refused(dit_job_restart(job, &other, &err), &err, "width"));
    CHECK_MESSAGE(is_expected(job), "a refused restart changes the job");
    other = describe(shared_model, 7);
    other.steps = STEPS + 1;
    CHECK(refused(dit_job_restart(job, &other, &err), &err, "steps"));
    other = describe(shared_model, 7);
    other.guidance.scale = 1;
    CHECK(refused(dit_job_restart(job, &other, &err), &err, "guidance"));
    other.guidance.scale = 9;
    CHECK(dit_job_restart(job, &other, &err) == DIT_OK && finish(job) && !is_expected(job));
    dit_job_destroy(job);
}

/* Weights of 1 change nothing; others do, in a restarted job as in a new one; without the flag brackets are text. */
static void test_prompt_weights(void) {
    unsigned char fresh[BYTES], again[BYTES];
    dit_job_desc desc = describe(shared_model, 7), weighted;
    dit_error err = {0};
    dit_job *job, *reference;
    desc.prompt_weights = true;
    weighted = desc;
    weighted.prompt = "a (red:1.6) heart";
    reference = create_job(shared, &weighted);
    if (finish(reference)) read_picture(reference, 0, fresh, BYTES);
    dit_job_destroy(reference);
    desc.prompt = "a (red:1.0) heart";
    job = create_job(shared, &desc);
    if (finish(job)) CHECK(is_expected(job) && memcmp(fresh, expected, BYTES) != 0);
    CHECK_MESSAGE(dit_job_restart(job, &weighted, &err) == DIT_OK, "%s", err.message);
    if (finish(job) && read_picture(job, 0, again, BYTES)) CHECK(!memcmp(fresh, again, BYTES));
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    weighted.prompt_weights = false;
    CHECK(dit_job_restart(job, &weighted, &err) == DIT_OK && finish(job));
    if (read_picture(job, 0, again, BYTES)) CHECK(memcmp(fresh, again, BYTES) && memcmp(expected, again, BYTES));
    dit_job_destroy(job);
}

/* A prompt of many more tokens than the plan has rows for is planned anew, and the picture is that of a new job. */
static void test_restart_longer(void) {
    static char longer[6 * 50 + 1];
    unsigned char fresh[BYTES], again[BYTES];
    dit_job_desc desc = describe(shared_model, 7), other;
    dit_counters before, after;
    dit_output output, then;
    dit_error err = {0};
    dit_job *job = create_job(shared, &desc), *reference;
    int i;
    for (i = 0; i < 50; i++) memcpy(longer + 6 * i, "a cat ", 7);
    other = desc;
    other.prompt = other.negative_prompt = longer;
    reference = create_job(shared, &other);
    if (finish(reference)) read_picture(reference, 0, fresh, BYTES);
    if (finish(job)) CHECK(is_expected(job) && dit_job_output(job, 0, 0, &output) == DIT_OK);
    dit_job_get_counters(job, &before);
    CHECK_MESSAGE(dit_job_restart(job, &other, &err) == DIT_OK, "%s", err.message);
    if (finish(job) && read_picture(job, 0, again, BYTES)) CHECK(!memcmp(fresh, again, BYTES) && !is_expected(job));
    dit_job_get_counters(job, &after);
    CHECK(after.recordings > before.recordings && after.allocations > before.allocations);
    CHECK_MESSAGE(after.pipelines == before.pipelines, "%llu pipelines for a prompt's length",
                  (unsigned long long)(after.pipelines - before.pipelines));
    CHECK(dit_job_output(job, 0, 0, &then) == DIT_OK && then.timeline == output.timeline && then.value > output.value);
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    dit_job_destroy(reference);
    dit_job_destroy(job);
}

/* A plan for a size that was planned before compiles nothing, and a new size only what it needs beyond. */
static void test_new_sizes(void) {
    static const uint32_t sides[] = {32, 48, 32, 48, 80};
    dit_counters counters;
    size_t i;
    for (i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job;
        desc.width = desc.height = sides[i];
        job = create_job(shared, &desc);
        dit_job_get_counters(job, &counters);
        if (i == 0 || i == 2 || i == 3)
            CHECK_MESSAGE(counters.pipelines == 0, "%llu pipelines for a size that was planned before",
                          (unsigned long long)counters.pipelines);
        CHECK(counters.recordings > 0);
        dit_job_destroy(job);
    }
}

/* ---- Guidance and samplers ---- */

/* Guidance from 0 to 1 is guidance; from the last step on it is another picture, and so are those that are rescaled or
   projected. */
static void test_guidance(void) {
    const dit_guidance none = {0};
    dit_guidance guidances[4] = {none, none, none, none};
    dit_error err = {0};
    guidances[0].last = 1;
    guidances[1].first = 0.9f, guidances[1].last = 1;
    guidances[2].rescale = 0.7f;
    guidances[3].project = 1, guidances[3].norm_limit = 2;
    for (int i = 0; i < 4; i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job;
        guidances[i].scale = desc.guidance.scale;
        desc.guidance = guidances[i];
        job = create_job(shared, &desc);
        CHECK_MESSAGE(job && finish(job) && is_expected(job) == (i == 0), "guidance %d", i);
        if (i < 2) {
            desc.guidance.rescale = 0.5f;
            CHECK(refused(dit_job_restart(job, &desc, &err), &err, "rescale"));
        }
        dit_job_destroy(job);
    }
}

static dit_result open_scheduler(const char *member, dit_source *out, void *user) {
    if (strcmp(member, "scheduler_config.json") != 0) return DIT_ERROR_IO;
    out->data = user;
    out->size = strlen((const char *)user);
    return DIT_OK;
}

/* DDPM with the variance that the model predicts beside the noise: another picture than with a fixed one. */
static void test_learned_variance(void) {
    static char configs[2][100] = {
        "{\"_class_name\":\"DDPMScheduler\",\"clip_sample\":false,\"variance_type\":\"learned_range\"}",
        "{\"_class_name\":\"DDPMScheduler\",\"clip_sample\":false}"};
    static unsigned char pictures[2][BYTES];
    for (int i = 0; i < 2; i++) {
        dit_component scheduler = {{0}, DIT_ROLE_SCHEDULER, 0, false, DIT_ROLE_NONE};
        dit_model_desc md = {0};
        dit_job_desc jd;
        dit_model *model = NULL;
        dit_job *job;
        dit_error err = {0};
        scheduler.source.open = open_scheduler;
        scheduler.source.user = configs[i];
        md.source.path = MODEL;
        md.components = &scheduler, md.component_count = 1;
        CHECK_MESSAGE(dit_model_load(shared, &md, &model, &err) == DIT_OK, "%s", err.message);
        jd = describe(model, 7);
        job = create_job(shared, &jd);
        CHECK(job && finish(job) && read_picture(job, 0, pictures[i], BYTES));
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
    CHECK(memcmp(pictures[0], pictures[1], BYTES) != 0);
}

/* Every sampler makes a picture. */
static void test_samplers(void) {
    dit_error err = {0};
    uint32_t i;
    for (i = 0; dit_sampler_name(i); i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job = NULL;
        dit_result result;
        desc.sampler = dit_sampler_name(i);
        result = dit_job_create(shared, &desc, &job, &err);
        if (!strcmp(desc.sampler, "scm"))
            CHECK_MESSAGE(result < 0 && strstr(err.message, "use any other"), "scm is for Sana-Sprint: %s",
                          err.message);
        else if (CHECK_MESSAGE(result == DIT_OK, "%s: %s", desc.sampler, err.message))
            finish(job);
        dit_job_destroy(job);
    }
}

/* ---- Results ---- */

static void test_reading(void) {
    dit_job_desc desc = describe(shared_model, 7);
    dit_job *job = create_job(shared, &desc);
    static float rgb[SIDE * SIDE * 3], latent[4 * (SIDE / 8) * (SIDE / 8)];
    static unsigned char wide[SIDE * (SIDE * 4 + 12)];
    dit_error err = {0};
    int i, far = 0;
    if (!finish(job)) return dit_job_destroy(job);
    CHECK(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, rgb, sizeof rgb, 0, &err) == DIT_OK);
    for (i = 0; i < SIDE * SIDE * 3; i++) {
        float value = rgb[i] < 0 ? 0 : rgb[i] > 1 ? 1 : rgb[i];
        if (fabsf(value * 255 - (float)expected[i / 3 * 4 + i % 3]) > 0.51f) far++;
    }
    CHECK_MESSAGE(far == 0, "%d values differ between RGB_F32 and RGBA8", far);
    for (i = 3; i < BYTES; i += 4) far += expected[i] != 255;
    CHECK(far == 0);
    CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latent, sizeof latent, 0, &err) == DIT_OK);
    for (i = 0; i < (int)(sizeof latent / sizeof latent[0]); i++) far += !isfinite(latent[i]);
    CHECK(far == 0);
    memset(wide, 0xab, sizeof wide);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, sizeof wide, SIDE * 4 + 12, &err) == DIT_OK);
    for (i = 0; i < SIDE; i++) {
        far += memcmp(wide + i * (SIDE * 4 + 12), expected + i * SIDE * 4, SIDE * 4) != 0;
        far += i + 1 < SIDE && wide[i * (SIDE * 4 + 12) + SIDE * 4 + 3] != 0xab;
    }
    CHECK_MESSAGE(far == 0, "a row pitch is not kept");
    CHECK(refused(dit_job_read(job, DIT_READ_RGBA8, 0, 0, NULL, sizeof wide, 0, &err), &err, "dst"));
    CHECK(refused(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, BYTES - 1, 0, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, sizeof wide, SIDE * 4 - 1, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, rgb, sizeof rgb - 1, 0, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latent, sizeof latent - 1, 0, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_PREVIEW, 0, 0, wide, sizeof wide, 0, &err), &err, "preview"));
    CHECK(dit_job_read(job, (dit_read)9, 0, 0, wide, sizeof wide, 0, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, sizeof wide, 0, NULL) == DIT_OK);
    dit_job_destroy(job);
}

static void test_previews(void) {
    dit_job_desc desc = describe(shared_model, 7);
    dit_output output;
    unsigned char rgba[BYTES];
    uint32_t seen = 0, id = 0;
    dit_result result;
    dit_status status;
    dit_error err = {0};
    dit_job *job;
    desc.preview_interval = 1;
    desc.preview = (dit_preview)9;
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "preview 9"));
    desc.preview = DIT_PREVIEW_DEFAULT;
    job = create_job(shared, &desc);
    CHECK(dit_job_preview(job, &output) == DIT_WORKING);
    do {
        result = dit_job_step(job, 1);
        dit_job_status(job, &status, NULL);
        if (status.preview_id == id) continue;
        id = status.preview_id;
        seen++;
        CHECK(dit_job_preview(job, &output) == DIT_OK && output.image && output.width && output.width <= SIDE &&
              output.height <= SIDE);
        CHECK(dit_job_read(job, DIT_READ_PREVIEW, 0, 0, rgba, (size_t)output.width * output.height * 4, 0, NULL) ==
              DIT_OK);
    } while (result == DIT_WORKING);
    CHECK(result == DIT_OK && seen == STEPS - 1);
    CHECK_MESSAGE(is_expected(job), "previews change the picture");
    CHECK(dit_job_restart(job, &desc, NULL) == DIT_OK && dit_job_preview(job, &output) == DIT_WORKING);
    CHECK(finish(job) && is_expected(job));
    dit_job_destroy(job);
}

/* ---- Inspecting a job that does not run ---- */

typedef struct inspected {
    uint32_t ops, tensors, last_first, stop_at;
    uint64_t live, arena;
    bool good;
} inspected;

static bool inspect_op(const dit_op_info *op, void *user) {
    inspected *seen = (inspected *)user;
    seen->good = seen->good && op->index == seen->ops && op->name[0] && op->segment[0] && op->bytes > 0 &&
                 op->shape[0] > 0 && op->runs == (strcmp(op->segment, "step") == 0 ? 3u : 1u);
    if (op->live > seen->live) seen->live = op->live;
    return ++seen->ops != seen->stop_at;
}

static bool inspect_tensor(const dit_tensor_info *tensor, void *user) {
    inspected *seen = (inspected *)user;
    seen->good = seen->good && tensor->name[0] && tensor->rows && tensor->columns && tensor->bytes &&
                 tensor->first_op <= tensor->last_op && tensor->last_op < seen->ops &&
                 tensor->first_op >= seen->last_first;
    seen->last_first = tensor->first_op;
    if (tensor->arena && tensor->offset + tensor->bytes > seen->arena) seen->arena = tensor->offset + tensor->bytes;
    seen->tensors++;
    return true;
}

/* Every part that a model has is among its weights: an expert for low noise and a control net, too. */
static void check_weights(const char *path, const char *net) {
    dit_model_desc desc = {0};
    dit_component component = {0};
    dit_weight_info weights[32];
    uint32_t count = sizeof weights / sizeof weights[0], role, i;
    uint64_t bytes = 0;
    dit_model *model = NULL;
    dit_model_info info;
    dit_error err = {0};
    component.source.path = net;
    component.role = DIT_ROLE_CONTROL;
    desc.source.path = path;
    desc.components = &component;
    desc.component_count = net != NULL;
    desc.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(dit_model_weights(model, weights, &count, &err) == DIT_OK);
    for (role = 0; role < sizeof info.parameters / sizeof info.parameters[0]; role++) {
        uint64_t parameters = 0;
        for (i = 0; i < count; i++) parameters += weights[i].role == (dit_role)role ? weights[i].parameters : 0;
        CHECK_MESSAGE(parameters == info.parameters[role], "%s, role %u: %llu parameters, not %llu", path, role,
                      (unsigned long long)parameters, (unsigned long long)info.parameters[role]);
    }
    for (i = 0; i < count; i++) bytes += weights[i].device_bytes;
    CHECK(bytes == info.weight_bytes && info.parameters[net ? DIT_ROLE_CONTROL : DIT_ROLE_TRANSFORMER_2] > 0);
    dit_model_destroy(model);
}

static void test_inspection(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_job_desc request;
    dit_inspector inspector = {inspect_op, inspect_tensor, NULL};
    dit_weight_info weights[16];
    inspected seen = {0};
    dit_memory memory;
    dit_model_info info;
    dit_error err = {0};
    uint32_t count = 0, i;
    uint64_t bytes = 0, parameters = 0;
    desc.source.path = MODEL;
    desc.dry_run = true;
    CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message);
    if (!model) return;
    request = describe(model, 7);
    request.steps = 3;
    seen.good = true;
    inspector.user = &seen;
    CHECK_MESSAGE(dit_job_inspect(NULL, &request, &inspector, &err) == DIT_OK && seen.good, "%s", err.message);
    CHECK(seen.ops > 50 && seen.tensors > 50 && seen.live > 0 && seen.live <= seen.arena);
    CHECK(dit_job_memory(NULL, &request, &memory, &err) == DIT_OK && seen.arena <= memory.activations);
    seen.ops = 0;
    seen.stop_at = 5;
    CHECK(dit_job_inspect(NULL, &request, &inspector, &err) == DIT_CANCELLED && seen.ops == 5);
    CHECK(refused(dit_job_inspect(NULL, &request, NULL, &err), &err, "inspector"));
    request.width = 7;
    CHECK(refused(dit_job_inspect(NULL, &request, &inspector, &err), &err, "width"));
    dit_model_get_info(model, &info);
    CHECK(info.layers == 2 && info.hidden == 48 && info.heads == 2 && info.patch == 2 && info.absent_bytes == 0);
    CHECK(dit_model_weights(model, NULL, &count, &err) == DIT_OK && count == 3);
    CHECK(refused(dit_model_weights(model, NULL, NULL, &err), &err, "count"));
    count = 16;
    CHECK(dit_model_weights(model, weights, &count, &err) == DIT_OK && count == 3);
    for (i = 0; i < count; i++) {
        CHECK(weights[i].type == DIT_TYPE_F32 && weights[i].file_bytes == 4 * weights[i].parameters);
        CHECK(weights[i].parameters == info.parameters[weights[i].role]);
        bytes += weights[i].device_bytes;
        parameters += weights[i].tensor_count;
    }
    CHECK(bytes == info.weight_bytes && parameters > 200 && strcmp(dit_type_name(DIT_TYPE_Q8_0), "Q8_0") == 0);
    count = 1;
    CHECK(dit_model_weights(model, weights, &count, &err) == DIT_OK && count == 1);
    dit_model_destroy(model);
    check_weights("tests/fixtures/pipe_wan22_i2v_a14b", NULL);
    check_weights("tests/fixtures/pipe_flux", "tests/fixtures/flux_controlnet/controlnet");
}

int main(void) {
    test_vulkan_begin();
    test_versions_and_names();
    test_null_arguments();
    test_context_refusals();
    test_device_list();
    if (begin_shared()) {
        test_listed_rung();
        if (test_first_driver()) test_guards();
        test_job_refusals();
        test_zero_job();
        test_dry_run();
        test_masks();
        test_inputs();
        test_parts();
        test_sample_sigmas();
        test_budgets();
        test_batch();
        test_interleaved();
        test_restart();
        test_prompt_weights();
        test_restart_longer();
        test_new_sizes();
        test_guidance();
        test_learned_variance();
        test_samplers();
        test_reading();
        test_previews();
        test_inspection();
    }
    end_shared();
    test_vulkan_end();
    return TEST_END("contract");
}
