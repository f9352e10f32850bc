/* The parameters that a picture carries as text, and --repeat-from, which takes them back. Include it after request.h.
   Not part of dit.h. */
#ifndef REPEAT_H
#define REPEAT_H

/* ---- Parameters as other tools read them ---- */

static void model_name(const char *path, char *out, size_t size) {
    static const char *const endings[] = {".gguf", ".safetensors", ".pth", ".pt", ".ckpt", ".bin", "/"};
    size_t length, i;
    snprintf(out, size, "%s", base_name(path));
    for (i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t cut = strlen(endings[i]);
        length = strlen(out);
        if (length > cut && strcmp(out + length - cut, endings[i]) == 0) out[length - cut] = 0;
    }
}

/* A file that the text of the picture names by its name alone: here, or beside the picture; with one of these endings
   where it is a model. */
static bool find_named(const char *name, const char *picture, char out[PATH_SIZE]);

/* The paths of references by their names alone, or, with a picture that tells these names, the paths where they are;
 *lost becomes the first that is nowhere. false: out is too small, or one is nowhere. */
static bool join_references(const char *paths, const char *picture, char *out, size_t size, char lost[PATH_SIZE]) {
    size_t used = 0;
    while (*paths) {
        const size_t length = strcspn(paths, "|");
        char one[PATH_SIZE], found[PATH_SIZE];
        int n;
        snprintf(one, sizeof one, "%.*s", (int)length, paths);
        if (picture && !find_named(one, picture, found)) return snprintf(lost, PATH_SIZE, "%s", one), false;
        n = snprintf(out + used, size - used, "%s%s", used ? "|" : "", picture ? found : base_name(one));
        if (n < 0 || (size_t)n >= size - used) return false;
        used += (size_t)n;
        paths += length + (paths[length] == '|');
    }
    return true;
}

/* The text of picture i; freed with free, NULL without memory. */
static char *parameters_text(const app *a, uint32_t i) {
    char references[PATH_SIZE];
    char steps[16], guidance[32], seed[24], width[16], height[16], tile[16], model[256], number[16], version[64];
    char frames_text[16], fps[32], low_guidance[32], sound_guidance[32], larger_width[16], larger_height[16];
    dit_device_info device = {0};
    options told = a->o;
    size_t k;
    for (k = 0; k < OPTION_COUNT; k++) {
        const char **path = option_table[k].told == TOLD_FILE ? option_text(&told, &option_table[k]) : NULL;
        if (path && *path) *path = base_name(*path);
    }
    if (told.references && join_references(told.references, NULL, references, sizeof references, NULL))
        told.references = references;
    snprintf(steps, sizeof steps, "%u", a->r.steps);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)(a->r.seed + i));
    snprintf(width, sizeof width, "%u", a->r.asked_width);
    snprintf(height, sizeof height, "%u", a->r.asked_height);
    snprintf(larger_width, sizeof larger_width, "%u", a->r.width);
    snprintf(larger_height, sizeof larger_height, "%u", a->r.height);
    snprintf(tile, sizeof tile, "%u", a->r.vae_tile);
    snprintf(number, sizeof number, "%u", a->noise_first + i + 1);
    shortest_number(a->r.guidance, guidance, sizeof guidance);
    model_name(a->model_path, model, sizeof model);
    version_text(version, sizeof version);
    told.steps = steps;
    told.seed = seed;
    told.width = width;
    told.height = height;
    told.guidance = guidance;
    shortest_number(a->r.numbers.low_guidance, low_guidance, sizeof low_guidance);
    told.low_guidance =
        a->r.numbers.low_guidance > 0 && a->r.numbers.low_guidance != a->r.guidance ? low_guidance : NULL;
    shortest_number(a->r.numbers.sound_guidance, sound_guidance, sizeof sound_guidance);
    told.sound_guidance =
        a->r.numbers.sound_guidance > 0 && a->r.numbers.sound_guidance != a->r.guidance ? sound_guidance : NULL;
    told.model = model;
    told.vae_tile = a->r.vae_tile ? tile : NULL;
    told.rng = a->r.rng == DIT_RNG_PHILOX ? "cuda" : "cpu";
    told.split = a->split;
    if (!told.sampler && *a->info.default_sampler) told.sampler = a->info.default_sampler;
    if (!told.schedule && *a->info.default_schedule) told.schedule = a->info.default_schedule;
    snprintf(frames_text, sizeof frames_text, "%u", a->r.frames);
    shortest_number((float)a->r.fps, fps, sizeof fps);
    told.frames = a->r.frames ? frames_text : NULL;
    told.fps = a->r.frames ? fps : NULL;
    if (begins_with(a) && !told.strength) told.strength = "0.75";
    if (a->r.hires.wanted) {
        told.hires_upscaler = upscaler_name(a->r.hires.upscaler);
        if (!told.hires_strength) told.hires_strength = "0.7";
        if (told.hires_width || told.hires_height)
            told.hires_width = larger_width, told.hires_height = larger_height;
        else if (!told.hires_scale)
            told.hires_scale = "2";
    }
    told.init_hash = told.init_image && *a->hashes[0] ? a->hashes[0] : NULL;
    told.end_hash = told.end_image && *a->hashes[6] ? a->hashes[6] : NULL;
    told.control_hash = told.control_image && *a->hashes[5] ? a->hashes[5] : NULL;
    told.mask_hash = told.mask && *a->hashes[1] ? a->hashes[1] : NULL;
    told.conditioning_hash = told.conditioning && *a->hashes[3] ? a->hashes[3] : NULL;
    told.video_hash = (told.init_video || told.control_video) && *a->hashes[4] ? a->hashes[4] : NULL;
    told.noise_hash = told.noise && *a->hashes[2] ? a->hashes[2] : NULL;
    told.noise_picture = told.noise && a->noise_first + i ? number : NULL;
    if (dit_context_device(a->context, &device, NULL) == DIT_OK) told.device_name = device.name;
    told.made_by = version;
    told.lora = a->loras.told;
    return write_parameters(&told);
}

/* ---- Repeating a picture ---- */

static bool find_named(const char *name, const char *picture, char out[PATH_SIZE]) {
    static const char *const endings[] = {"", ".gguf", ".safetensors", ".pth", ".pt", ".ckpt", ".bin"};
    char folder[PATH_SIZE];
    size_t i;
    name = base_name(name);
    if (!*name || snprintf(folder, sizeof folder, "%.*s", (int)(base_name(picture) - picture), picture) >= PATH_SIZE)
        return false;
    for (i = 0; i < 2 * sizeof endings / sizeof endings[0]; i++) {
        const char *ending = endings[i / 2];
        int n = snprintf(out, PATH_SIZE, "%s%s%s", i % 2 ? folder : "", name, ending);
        if (n < PATH_SIZE && file_exists(out)) return true;
    }
    return false;
}

/* Whether a path is one that find_repeated_files found. */
static bool was_repeated(const app *a, const char *path) {
    size_t i;
    for (i = 0; i < OPTION_COUNT; i++)
        if (path == a->repeated_paths[i]) return true;
    return false;
}

/* Files that are named on the command line are what the user says; the others must be found. */
static int find_repeated_files(app *a) {
    char bundled[PATH_SIZE], name[256] = "";
    options *from = &a->repeated;
    size_t i;
    if (from->diffusion_model && from->model) { /* it stood for the model */
        model_name(from->diffusion_model, name, sizeof name);
        if (a->o.model == from->model && strcmp(name, from->model) == 0) a->o.model = NULL;
    }
    if (find_bundled("emoji-q8_0.gguf", bundled)) model_name(bundled, name, sizeof name);
    if (a->o.model && a->o.model == from->model && strcmp(a->o.model, name) == 0) a->o.model = NULL;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        const char **path = entry->told == TOLD_FILE ? option_text(&a->o, entry) : NULL;
        if (!path || !*path || *path != *option_text(from, entry)) continue;
        if (!find_named(*path, a->o.repeat_from, a->repeated_paths[i]))
            return complain(EXIT_INPUT, "%s was made with %s, which is neither here nor beside it; name it with %s",
                            a->o.repeat_from, *path, entry->name);
        *path = a->repeated_paths[i];
    }
    if (a->o.references && a->o.references == from->references) {
        static char found[4 * PATH_SIZE];
        char lost[PATH_SIZE] = "";
        if (!join_references(a->o.references, a->o.repeat_from, found, sizeof found, lost))
            return complain(EXIT_INPUT,
                            "%s was made after %s, which is neither here nor beside it; name it with --ref-image",
                            a->o.repeat_from, lost);
        a->o.references = found;
    }
    if (!was_repeated(a, a->o.init_image)) a->o.init_hash = NULL;
    if (!was_repeated(a, a->o.end_image)) a->o.end_hash = NULL;
    if (!was_repeated(a, a->o.mask)) a->o.mask_hash = NULL;
    if (!was_repeated(a, a->o.control_image)) a->o.control_hash = NULL;
    if (!was_repeated(a, a->o.noise)) a->o.noise_hash = a->o.noise_picture = NULL;
    if (!was_repeated(a, a->o.init_video) && !was_repeated(a, a->o.control_video)) a->o.video_hash = NULL;
    if (!was_repeated(a, a->o.conditioning)) a->o.conditioning_hash = NULL;
    return EXIT_GOOD;
}

/* A picture of two passes tells no --hires, but what it scaled up by. A1111 tells the strength of either pass by one
   word. */
static void repeat_hires(options *o) {
    o->hires = o->hires_upscaler || o->hires_scale || o->hires_width;
    if (!o->hires || o->init_image || o->hires_strength) return;
    o->hires_strength = o->strength;
    o->strength = NULL;
}

/* The options of the picture, and over them those of the command line. */
static int repeat_options(app *a, int argc, char **argv) {
    const char *picture = a->o.repeat_from, *wrong = NULL;
    bool quiet = a->o.quiet;
    parameter_text unknown = {0};
    char version[64];
    size_t size = 0;
    const char *unreadable = why_not_readable(picture);
    unsigned char *file = unreadable ? NULL : read_file(picture, &size);
    if (!file)
        return complain(EXIT_INPUT, "--repeat-from %s: %s", picture, unreadable ? unreadable : told_reason(errno));
    a->repeated_text = find_picture_text(file, size, &wrong);
    free(file);
    if (!a->repeated_text) return complain(EXIT_INPUT, "--repeat-from %s: %s", picture, wrong);
    if (!read_parameters(a->repeated_text, &a->repeated, &unknown)) {
        free(unknown.at);
        return complain(EXIT_INPUT, "--repeat-from %s: its text is not one of parameters", picture);
    }
    version_text(version, sizeof version);
    if (!quiet && unknown.at)
        fprintf(stderr, "dit: %s: left out, since dit does not know it: %s\n", picture, unknown.at);
    if (!quiet && (!a->repeated.made_by || strcmp(a->repeated.made_by, version) != 0))
        fprintf(stderr, "dit: %s was made by %s, this is %s: the picture may differ\n", picture,
                a->repeated.made_by ? a->repeated.made_by : "another program", version);
    free(unknown.at);
    if (a->repeated.split && a->repeated.split[0] == '@') a->repeated.split = NULL; /* no file that a picture names */
    repeat_hires(&a->repeated);
    a->o = a->repeated;
    a->o.references = NULL; /* those of the command line replace them all */
    parse_options(argc, argv, &a->o);
    if (!a->o.references) a->o.references = a->repeated.references;
    return find_repeated_files(a);
}

/* Pictures of another driver or device have other last bits. */
static void tell_other_device(app *a) {
    dit_device_info device = {0};
    const char *then = a->repeated.device_name;
    if (a->o.quiet || !then || dit_context_device(a->context, &device, NULL) != DIT_OK || !strcmp(then, device.name))
        return;
    close_line(a);
    fprintf(stderr, "dit: %s was made on %s: bytes may differ here\n", a->o.repeat_from, then);
}
#endif
