/* Clips with sound, as build/dit writes them: WAV files have the samples that the API gives, beside whatever has no
   place for them; ffmpeg gets them where it is. Then the API in an engine's frames, in batches, without sound, and
   models that lack a part. test-runs: lavapipe */
#define _GNU_SOURCE
#include "command_line.h"
#include "vulkan_test.h"
#include "engine.h"

#define SOUNDS "tests/fixtures/pipe_ltx2"
#define REQUEST "-p", "a fox", "--steps", "1", "-W", "64", "-H", "32", "--frames", "9", "--fps", "24"
#define CLIP "-m", SOUNDS, REQUEST
enum { RATE = 48000, CHANNELS = 2, SAMPLES = 990, FRAMES = 9 };

/* ---- WAV ---- */

static uint32_t number(const unsigned char *p, int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* The file against samples [SAMPLES][CHANNELS], from which it may be `most` away. */
static void check_wav(const char *path, const float *samples, int most) {
    size_t size = 0;
    unsigned char *wav = load(path, &size);
    int worst = 0;
    if (!CHECK_MESSAGE(wav && size == 44 + 2 * SAMPLES * CHANNELS, "%s has %zu bytes", path, size)) {
        free(wav);
        return;
    }
    CHECK(!memcmp(wav, "RIFF", 4) && number(wav + 4, 4) == size - 8 && !memcmp(wav + 8, "WAVEfmt ", 8) &&
          number(wav + 16, 4) == 16 && number(wav + 20, 2) == 1 && number(wav + 22, 2) == CHANNELS &&
          number(wav + 24, 4) == RATE && number(wav + 28, 4) == RATE * CHANNELS * 2 &&
          number(wav + 32, 2) == CHANNELS * 2 && number(wav + 34, 2) == 16 && !memcmp(wav + 36, "data", 4) &&
          number(wav + 40, 4) == size - 44);
    for (size_t i = 0; i < SAMPLES * CHANNELS; i++) {
        int stored = (int16_t)number(wav + 44 + 2 * i, 2), wanted = (int)lrint(32767.0 * (double)samples[i]);
        if (abs(stored - wanted) > worst) worst = abs(stored - wanted);
    }
    CHECK_MESSAGE(worst <= most, "%s is not what the API gives: off by %d", path, worst);
    free(wav);
}

/* ---- The API ---- */

typedef struct api {
    dit_context *context;
    dit_model *model;
    dit_error err;
} api;

static bool open_api(api *a, const char *path, const dit_component *part, dit_model_info *info) {
    dit_context_desc context = {0};
    dit_model_desc model = {0};
    memset(a, 0, sizeof *a);
    model.source.path = path;
    model.components = part;
    model.component_count = part ? 1 : 0;
    if (!CHECK_MESSAGE(dit_context_create(&context, &a->context, &a->err) == DIT_OK, "%s", a->err.message))
        return false;
    if (dit_model_load(a->context, &model, &a->model, &a->err) != DIT_OK) return false;
    dit_model_get_info(a->model, info);
    return true;
}

static void close_api(api *a) {
    dit_model_destroy(a->model);
    dit_context_destroy(a->context);
}

static dit_job_desc request(const api *a) {
    dit_job_desc desc = {0};
    desc.model = a->model;
    desc.prompt = "a fox";
    desc.steps = 1;
    desc.width = 64;
    desc.height = 32;
    desc.frame_count = FRAMES;
    desc.fps = 24;
    desc.seed = 42;
    return desc;
}

/* The sound of a clip of a finished job. */
static void read_sound(api *a, dit_job *job, uint32_t image, float *samples) {
    dit_status status;
    dit_job_status(job, &status, NULL);
    CHECK_MESSAGE(status.sound_samples == SAMPLES, "%u samples", status.sound_samples);
    memset(samples, 0, SAMPLES * CHANNELS * sizeof *samples);
    CHECK_MESSAGE(dit_job_read(job, DIT_READ_SOUND_F32, image, 0, samples, SAMPLES * CHANNELS * sizeof *samples, 0,
                               &a->err) == DIT_OK,
                  "%s", a->err.message);
}

static bool run(api *a, const dit_job_desc *desc, dit_job **job) {
    dit_result result = DIT_WORKING;
    if (!CHECK_MESSAGE(dit_job_create(a->context, desc, job, &a->err) == DIT_OK, "%s", a->err.message)) return false;
    while (result == DIT_WORKING) result = dit_job_wait(*job, UINT64_MAX);
    dit_job_status(*job, NULL, &a->err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", a->err.message);
}

static void test_api(api *a, float *samples) {
    static float other[SAMPLES * CHANNELS], first[SAMPLES * CHANNELS];
    dit_job_desc desc = request(a);
    dit_status status;
    dit_job *job = NULL;
    double loud = 0;
    if (run(a, &desc, &job)) read_sound(a, job, 0, samples);
    for (int i = 0; i < SAMPLES * CHANNELS; i++) loud += fabs((double)samples[i]);
    CHECK_MESSAGE(loud > 1 && loud < SAMPLES * CHANNELS, "the samples' sum is %g", loud);
    CHECK(dit_job_read(job, DIT_READ_SOUND_F32, 1, 0, other, sizeof other, 0, &a->err) == DIT_ERROR_INVALID_ARGUMENT);
    desc.seed = 43; /* again, with another seed, and by restart */
    CHECK(dit_job_restart(job, &desc, &a->err) == DIT_OK);
    dit_job_status(job, &status, NULL);
    CHECK(status.sound_samples == 0 &&
          dit_job_read(job, DIT_READ_SOUND_F32, 0, 0, other, sizeof other, 0, &a->err) == DIT_WORKING);
    while (dit_job_wait(job, UINT64_MAX) == DIT_WORKING) {
    }
    read_sound(a, job, 0, other);
    CHECK_MESSAGE(memcmp(other, samples, sizeof other) != 0, "another seed, another sound");
    desc.no_sound = true;
    CHECK_MESSAGE(dit_job_restart(job, &desc, &a->err) == DIT_ERROR_INVALID_ARGUMENT &&
                      strstr(a->err.message, "no_sound"),
                  "%s", a->err.message);
    dit_job_destroy(job);
    job = NULL;
    if (run(a, &desc, &job)) { /* without it */
        dit_job_status(job, &status, NULL);
        CHECK(status.sound_samples == 0 && dit_job_read(job, DIT_READ_SOUND_F32, 0, 0, other, sizeof other, 0,
                                                        &a->err) == DIT_ERROR_INVALID_ARGUMENT);
        CHECK_MESSAGE(strstr(a->err.message, "there is no sound") != NULL, "%s", a->err.message);
    }
    dit_job_destroy(job);
    job = NULL;
    desc.no_sound = false;
    desc.seed = 42;
    desc.image_count = 2;
    if (run(a, &desc, &job)) { /* a batch: seeds 42 and 43 */
        read_sound(a, job, 0, first);
        CHECK_MESSAGE(memcmp(first, samples, sizeof first) == 0, "a batch's first clip has the sound of one alone");
        read_sound(a, job, 1, first);
        CHECK_MESSAGE(memcmp(first, other, sizeof first) == 0, "and so has its second one");
    }
    dit_job_destroy(job);
}

/* In an application's frames the sound is the same, and there when their commands have run. */
static void test_recording(const float *samples) {
    static float recorded[SAMPLES * CHANNELS];
    engine *e = (engine *)calloc(1, sizeof *e);
    dit_context_desc context = {0};
    dit_model_desc model = {0};
    dit_result result = DIT_WORKING;
    dit_status status;
    dit_job *job = NULL;
    api a = {0};
    if (!engine_make_instance(e) || !engine_make_device(e, true)) return free(e);
    a.context = engine_context(e, &context);
    model.source.path = SOUNDS;
    if (a.context &&
        CHECK_MESSAGE(dit_model_load(a.context, &model, &a.model, &a.err) == DIT_OK, "%s", a.err.message)) {
        dit_job_desc desc = request(&a);
        CHECK_MESSAGE(dit_job_create(a.context, &desc, &job, &a.err) == DIT_OK, "%s", a.err.message);
        while (job && result == DIT_WORKING) {
            VkCommandBuffer commands = engine_begin_commands(e);
            result = dit_job_record(job, commands, 2000);
            dit_job_status(job, &status, NULL);
            CHECK(result != DIT_WORKING || status.sound_samples == 0);
            engine_run(e, commands, VK_NULL_HANDLE, 0);
        }
        CHECK_MESSAGE(result == DIT_OK, "%s", dit_result_string(result));
        if (job) read_sound(&a, job, 0, recorded);
        CHECK_MESSAGE(!memcmp(recorded, samples, sizeof recorded), "the recorded clip has another sound");
        dit_job_destroy(job);
    }
    close_api(&a);
    engine_end(e);
    free(e);
}

/* ---- Files ---- */

static const char *told(const outcome *o, const char *what) { return strstr(o->out, what); }

static void test_files(const float *samples) {
    static const char *const beside[][2] = {{"fox.y4m", "fox.wav"},
                                            {"cat.apng", "cat.wav"},
                                            {"dog.png", "dog.wav"},
                                            {"numbers-%03d.png", "numbers.wav"},
                                            {"folder/%04d.png", "folder/sound.wav"}};
    char line[100];
    mkdir(in_work("folder"), 0700);
    for (size_t i = 0; i < DITI_COUNT(beside); i++) {
        outcome o = RUN(CLIP, "-o", (char *)(uintptr_t)in_work(beside[i][0]));
        CHECK_MESSAGE(o.code == 0, "%s: %s", beside[i][0], o.err);
        snprintf(line, sizeof line, "%s  its sound, 2 channels, 48000 Hz, 0.02 s\n", in_work(beside[i][1]));
        CHECK_MESSAGE(told(&o, line) != NULL, "%s: %s", line, o.out);
        check_wav(in_work(beside[i][1]), samples, 0);
    }
    outcome o = RUN(CLIP, "--no-sound", "-o", (char *)(uintptr_t)in_work("silent.y4m"));
    CHECK_MESSAGE(o.code == 0 && !told(&o, "its sound") && !exists(in_work("silent.wav")), "--no-sound: %s", o.out);
    CHECK_MESSAGE(same_files(in_work("silent.y4m"), in_work("fox.y4m")), "frames do not depend on the sound");
    o = RUN(CLIP, "-q", "-o", "-");
    CHECK_MESSAGE(o.code == 0 && !exists("sound.wav") && !exists("-.wav"), "standard output has frames alone: %s",
                  o.err);
    o = RUN(CLIP, "--json", "-o", (char *)(uintptr_t)in_work("json.y4m"));
    CHECK_MESSAGE(o.code == 0 && told(&o, "{\"event\":\"sound\",\"path\":\"") &&
                      told(&o, "json.wav\",\"rate\":48000,\"channels\":2,\"samples\":990}"),
                  "%s", o.out);
    mkdir(in_work("taken.wav"), 0700);
    o = RUN(CLIP, "-o", (char *)(uintptr_t)in_work("taken.y4m"));
    CHECK_MESSAGE(o.code == 4 && strstr(o.err, "taken.wav") && !exists(in_work("taken.y4m")), "%d: %s", o.code, o.err);
}

/* ffmpeg, or what stands for it here: a script that keeps its arguments, and the WAV file that they name. */
static void test_muxing(const float *samples) {
    static const char script[] =
        "#!/bin/sh\nfor last; do case $last in *.wav) cp \"${last#file:}\" \"$(dirname \"$0\")/seen.wav\";; esac; done\n"
        "echo \"$*\" >\"$(dirname \"$0\")/arguments\"\ncat >\"${last#file:}\"\n";
    static const struct {
        const char *file, *codec;
    } cases[] = {{"a.mp4", "-c:a aac -b:a 192k"}, {"b.webm", "-c:a libopus"}};
    char path[4096];
    size_t size;
    store(in_work("ffmpeg"), script, sizeof script - 1);
    chmod(in_work("ffmpeg"), 0700);
    snprintf(path, sizeof path, "%s:%s", work, getenv("PATH"));
    setenv("PATH", path, 1);
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        outcome o = RUN(CLIP, "-o", (char *)(uintptr_t)in_work(cases[i].file));
        char *arguments = (char *)load(in_work("arguments"), &size), wav[340];
        snprintf(wav, sizeof wav, "%s.wav", in_work(cases[i].file));
        CHECK_MESSAGE(o.code == 0 && !told(&o, "its sound") && !exists(wav), "%s: %s %s", cases[i].file, o.out, o.err);
        CHECK_MESSAGE(arguments && strstr(arguments, "-i - -i file:") && strstr(arguments, cases[i].codec), "%s: %s",
                      cases[i].file, arguments ? arguments : "ffmpeg was not called");
        check_wav(in_work("seen.wav"), samples, 0);
        remove(in_work("seen.wav"));
        free(arguments);
    }
    outcome o = RUN(CLIP, "-o", (char *)(uintptr_t)in_work("e.gif"));
    CHECK_MESSAGE(o.code == 0 && told(&o, "e.wav  its sound") && !exists(in_work("seen.wav")), "a GIF has no sound: %s",
                  o.out);
    check_wav(in_work("e.wav"), samples, 0);
    o = RUN(CLIP, "--no-sound", "-o", (char *)(uintptr_t)in_work("f.mp4"));
    CHECK_MESSAGE(o.code == 0 && !exists(in_work("seen.wav")), "--no-sound: %s", o.err);
}

/* ---- Guidance ---- */

/* An option changes a clip: its frames are other ones. */
static void check_changes(char *const *options, const char *than, const char *made) {
    char *words[32] = {"dit", CLIP, "--steps", "2", "-o", (char *)(uintptr_t)made};
    int n = 0;
    while (words[n]) n++;
    while (*options) words[n++] = *options++;
    outcome o = run_as(STREAMS_PIPES, NO_STOP, words);
    CHECK_MESSAGE(o.code == 0 && other_files(than, made), "%s: %s", words[n - 1], o.err);
}

/* No option about guidance is passed over quietly: it changes the clip, it is refused, or a warning names it. */
static void test_guidance(void) {
    static const struct {
        char *options[3];
        const char *says;
    } idle[] = {{{"--guidance-rescale", "0.7"}, "--guidance-rescale has no effect: guidance is off"},
                {{"--apg-eta", "0"}, "--apg-eta has no effect: guidance is off"},
                {{"--apg-norm", "5"}, "--apg-norm has no effect: guidance is off"},
                {{"--cfg-normalization", "1"}, "--cfg-normalization has no effect: guidance is off"},
                {{"--dynamic-guidance"}, "--dynamic-guidance has no effect: guidance is off"},
                {{"--guidance-end", "0.5"}, "--guidance-start or --guidance-end has no effect: guidance is off"}};
    char usual[320], made[320], whole[320];
    snprintf(usual, sizeof usual, "%s", in_work("usual.y4m"));
    snprintf(made, sizeof made, "%s", in_work("guided.y4m"));
    snprintf(whole, sizeof whole, "%s", in_work("perturbed.y4m"));
    check_changes(LIST(NULL), in_work("fox.y4m"), usual);
    check_changes(LIST("--guidance-rescale", "0.7"), usual, made);
    check_changes(LIST("--modality-scale", "3"), usual, made);
    check_changes(LIST("--no-sound", "--modality-scale", "3"), usual, made);
    check_changes(LIST("--no-sound", "--sound-cfg-scale", "5"), usual, made);
    check_changes(LIST("--stg-scale", "1"), usual, whole);
    check_changes(LIST("--stg-scale", "1", "--skip-layers", "0"), whole, made);
    for (size_t i = 0; i < DITI_COUNT(idle); i++) {
        char *const *options = (char *const *)idle[i].options;
        outcome o = options[1] ? RUN(CLIP, "--cfg-scale", "1", "-o", made, options[0], options[1])
                               : RUN(CLIP, "--cfg-scale", "1", "-o", made, options[0]);
        CHECK_MESSAGE(o.code == 0 && strstr(o.err, idle[i].says), "%d %s, not \"%s\"", o.code, o.err, idle[i].says);
    }
    check_refusal(RUN(CLIP, "-q", "--cfg-scale", "1", "--modality-scale", "3", "-o", made), 2,
                  "--stg-scale and --modality-scale add to guidance, which is off");
    check_refusal(RUN(CLIP, "-q", "--cfg-scale", "1", "--sound-cfg-scale", "5", "-o", made), 2,
                  "--sound-cfg-scale is 5, and guidance is off");
    check_refusal(RUN(CLIP, "-q", "--skip-layers", "0", "-o", made), 2, "--skip-layers: it is about --slg-scale");
    check_refusal(RUN(QUICK, "-q", "--modality-scale", "3"), 2,
                  "--stg-scale and --modality-scale are LTX-2's, and this model is another one");
    check_refusal(RUN(QUICK, "-q", "--sound-cfg-scale", "3"), 2, "clips of this model are made without a sound");
}

/* Names of a job's ops in a text: "guidance|clean latent|", each once. */
typedef struct op_names {
    char text[65536];
} op_names;

static bool note_op(const dit_op_info *op, void *user) {
    op_names *names = (op_names *)user;
    char name[128];
    snprintf(name, sizeof name, "|%s|", op->name);
    if (!strstr(names->text, name) && strlen(names->text) + strlen(name) < sizeof names->text)
        strcat(names->text, *names->text ? name + 1 : name);
    return true;
}

/* Names of ops in traces say what the sums of guidance are for. */
static void test_names(api *a) {
    static op_names names;
    dit_job_desc desc = request(a);
    dit_inspector inspector = {0};
    inspector.op = note_op;
    inspector.user = &names;
    desc.guidance.isolate = 3;
    CHECK_MESSAGE(dit_job_inspect(a->context, &desc, &inspector, &a->err) == DIT_OK, "%s", a->err.message);
    CHECK_MESSAGE(strstr(names.text, "|terms of guidance|") && strstr(names.text, "|guidance|") &&
                      !strstr(names.text, "|mean and deviation|"),
                  "%s", names.text);
    names.text[0] = 0;
    desc.guidance.rescale = 0.7f;
    CHECK_MESSAGE(dit_job_inspect(a->context, &desc, &inspector, &a->err) == DIT_OK, "%s", a->err.message);
    CHECK_MESSAGE(strstr(names.text, "|clean latent|") && strstr(names.text, "|rescaled guidance|") &&
                      strstr(names.text, "|mean and deviation|"),
                  "%s", names.text);
}

/* The sound's weights and its work count where memory is told. */
static void check_counted(api *a, api *silent) {
    dit_job_desc with = request(a), without = with, none = request(silent);
    dit_memory m[3];
    without.no_sound = true;
    CHECK_MESSAGE(dit_job_memory(a->context, &with, &m[0], &a->err) == DIT_OK &&
                      dit_job_memory(a->context, &without, &m[1], &a->err) == DIT_OK &&
                      dit_job_memory(silent->context, &none, &m[2], &a->err) == DIT_OK,
                  "%s", a->err.message);
    CHECK_MESSAGE(m[0].weights == m[1].weights && m[1].weights > m[2].weights + 200000, "weights %.0f, %.0f, %.0f",
                  (double)m[0].weights, (double)m[1].weights, (double)m[2].weights);
    CHECK_MESSAGE(m[0].peak > m[1].peak, "peak %.0f, without sound %.0f", (double)m[0].peak, (double)m[1].peak);
}

static void test_counted(api *silent) {
    dit_model_info info;
    char with[1000];
    api loud, *a = &loud;
    if (CHECK_MESSAGE(open_api(a, SOUNDS, NULL, &info), "%s", a->err.message)) check_counted(a, silent);
    close_api(a);
    outcome o = RUN("--info", (char *)(uintptr_t)SOUNDS, "--frames", "9", "-W", "64", "-H", "32");
    CHECK_MESSAGE(o.code == 0 && told(&o, "\ndecoders (*) "), "%s", o.out);
    snprintf(with, sizeof with, "%s", told(&o, "\ndecoders (*) ") ? told(&o, "\ndecoders (*) ") : "");
    o = RUN("--info", (char *)(uintptr_t)SOUNDS, "--frames", "9", "-W", "64", "-H", "32", "--no-sound");
    CHECK_MESSAGE(o.code == 0 && told(&o, "\ndecoders (*) ") && !told(&o, with), "%s", o.out);
}

/* ---- Parts ---- */

static void copy(const char *from, const char *to) {
    size_t size = 0;
    unsigned char *bytes = load(from, &size);
    CHECK(bytes != NULL);
    store(to, bytes, size);
    free(bytes);
}

/* The pipeline's folder in the work folder, by links, but for those parts. */
static const char *folder_without(const char *name, bool audio, bool vocoder) {
    static char path[340];
    const char *const parts[] = {"model_index.json",
                                 "connectors",
                                 "scheduler",
                                 "text_encoder",
                                 "tokenizer",
                                 "transformer",
                                 "vae",
                                 audio ? "audio_vae" : NULL,
                                 vocoder ? "vocoder" : NULL};
    char link[700], target[4096], *here = getcwd(NULL, 0);
    snprintf(path, sizeof path, "%s", in_work(name));
    mkdir(path, 0700);
    for (size_t i = 0; i < DITI_COUNT(parts); i++) {
        if (!parts[i]) continue;
        snprintf(target, sizeof target, "%s/" SOUNDS "/%s", here, parts[i]);
        snprintf(link, sizeof link, "%s/%s", path, parts[i]);
        CHECK(symlink(target, link) == 0);
    }
    free(here);
    return path;
}

/* dit-convert takes the parts along, and leaves their types. */
static void test_converted(const float *samples) {
    const char *gguf = in_work("converted.gguf");
    program = "build/dit-convert";
    outcome o = RUN("--type", "bf16", (char *)(uintptr_t)SOUNDS, (char *)(uintptr_t)gguf);
    program = "build/dit";
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(REQUEST, "-m", (char *)(uintptr_t)gguf, "-o", (char *)(uintptr_t)in_work("converted.y4m"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_wav(in_work("converted.wav"), samples, 2); /* floats of Gemma have become BF16 */
}

/* --audio-vae counts where a model is loaded already, and where a clip is repeated. Folder "silent" has no such part.
 */
static void test_named_again(const float *samples) {
    char lines[2000], here[4096], made[320], again[320];
    png_file png;
    snprintf(made, sizeof made, "%s", in_work("told.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    outcome o = RUN("-m", (char *)(uintptr_t)in_work("silent"), REQUEST, "--audio-vae", SOUNDS "/", "-o", made);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_wav(in_work("told.wav"), samples, 0);
    png = read_png(made);
    CHECK_MESSAGE(strstr(png.text, ", Audio VAE: "), "%s", png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, "-m", (char *)(uintptr_t)in_work("silent"), "-o", again);
    check_refusal(o, 3, "which is neither here nor beside it; name it with --audio-vae");
    CHECK(getcwd(here, sizeof here - sizeof SOUNDS - 1) != NULL);
    snprintf(here + strlen(here), sizeof SOUNDS + 1, "/%s", SOUNDS);
    CHECK(symlink(here, in_work("pipe_ltx2")) == 0);
    o = RUN("--repeat-from", made, "-m", (char *)(uintptr_t)in_work("silent"), "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_files(made, again), "%s", o.err);
    check_wav(in_work("again.wav"), samples, 0);
    snprintf(lines, sizeof lines,
             "{\"prompt\": \"a fox\", \"output\": \"%s\"}\n"
             "{\"prompt\": \"a fox\", \"output\": \"%s\", \"audio_vae\": \"%s\"}\n"
             "{\"prompt\": \"a fox\", \"output\": \"%s\"}\n",
             in_work("line1.apng"), in_work("line2.apng"), SOUNDS, in_work("line3.apng"));
    store(in_work("lines"), lines, strlen(lines));
    o = RUN("-m", (char *)(uintptr_t)in_work("silent"), "--steps", "1", "-W", "64", "-H", "32", "--frames", "9",
            "--fps", "24", "--batch", (char *)(uintptr_t)in_work("lines"));
    if (strstr(o.err, "built without jansson")) {
        printf("skipped: lines of JSON: build/dit has no jansson\n");
        return;
    }
    CHECK_MESSAGE(o.code == 0 && !exists(in_work("line1.wav")) && !exists(in_work("line3.wav")), "%s", o.err);
    check_wav(in_work("line2.wav"), samples, 0);
}

static void test_parts(const float *samples) {
    static float other[SAMPLES * CHANNELS];
    dit_component part = {0};
    dit_model_info info;
    dit_job *job = NULL;
    api a;
    if (open_api(&a, folder_without("silent", false, false), NULL, &info)) { /* as before sound was known */
        dit_job_desc desc = request(&a);
        CHECK(info.sound_rate == 0 && info.sound_channels == 0 && info.lacks_sound && info.missing == 0);
        if (run(&a, &desc, &job))
            CHECK(dit_job_read(job, DIT_READ_SOUND_F32, 0, 0, other, sizeof other, 0, &a.err) ==
                  DIT_ERROR_INVALID_ARGUMENT);
        dit_job_destroy(job);
        test_counted(&a);
    }
    close_api(&a);
    outcome o = RUN("--info", (char *)(uintptr_t)in_work("silent"));
    CHECK_MESSAGE(told(&o, "clips have no sound: audio_vae or vocoder is missing") != NULL, "%s", o.out);
    o = RUN("--info", (char *)(uintptr_t)SOUNDS);
    CHECK_MESSAGE(told(&o, "clips have sound: 2 channels, 48000 Hz") != NULL, "%s", o.out);
    o = RUN(REQUEST, "-m", (char *)(uintptr_t)in_work("silent"), "-o", (char *)(uintptr_t)in_work("quiet.y4m"));
    CHECK_MESSAGE(o.code == 0 && !exists(in_work("quiet.wav")), "%s", o.err);
    o = RUN(REQUEST, "-m", (char *)(uintptr_t)in_work("silent"), "--audio-vae", (char *)(uintptr_t)SOUNDS, "-o",
            (char *)(uintptr_t)in_work("given.y4m"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_wav(in_work("given.wav"), samples, 0);
    test_named_again(samples);
    part.role = DIT_ROLE_SOUND;
    part.source.path = SOUNDS; /* a component that has both, or the one that is missing */
    job = NULL;
    if (CHECK_MESSAGE(open_api(&a, in_work("silent"), &part, &info), "%s", a.err.message)) {
        dit_job_desc desc = request(&a);
        CHECK(info.sound_rate == RATE && !info.lacks_sound);
        if (run(&a, &desc, &job)) read_sound(&a, job, 0, other);
        CHECK(memcmp(other, samples, sizeof other) == 0);
        dit_job_destroy(job);
    }
    close_api(&a);
    part.source.path = SOUNDS "/vocoder";
    CHECK_MESSAGE(open_api(&a, folder_without("half", true, false), &part, &info) && info.sound_rate == RATE, "%s",
                  a.err.message);
    close_api(&a);
    CHECK_MESSAGE(!open_api(&a, in_work("silent"), &part, &info) &&
                      strstr(a.err.message, "there is a vocoder, but no audio_vae"),
                  "%s", a.err.message);
    close_api(&a);
    part.source.path = SOUNDS "/vae";
    CHECK_MESSAGE(!open_api(&a, in_work("silent"), &part, &info) &&
                      strstr(a.err.message, "sound has an audio_vae and a vocoder"),
                  "%s", a.err.message);
    close_api(&a);
    part.source.path = SOUNDS "/vocoder";
    CHECK_MESSAGE(!open_api(&a, MODEL, &part, &info) && strstr(a.err.message, "serves models that make it with a clip"),
                  "%s", a.err.message);
    close_api(&a);
    copy("tests/fixtures/pipe_ltx2_0/vocoder/diffusion_pytorch_model.safetensors", in_work("other.safetensors"));
    part.source.path = in_work("other.safetensors"); /* a file alone: its factors are told by its taps */
    CHECK_MESSAGE(open_api(&a, in_work("half"), &part, &info) && info.sound_rate == 24000, "%s", a.err.message);
    close_api(&a);
}

int main(void) {
    static float samples[SAMPLES * CHANNELS];
    dit_model_info info;
    api a;
    test_vulkan_begin();
    if (!make_work("sound")) return 1;
    if (CHECK_MESSAGE(open_api(&a, SOUNDS, NULL, &info), "%s", a.err.message)) {
        CHECK(info.sound_rate == RATE && info.sound_channels == CHANNELS && !info.lacks_sound);
        test_api(&a, samples);
        test_names(&a);
    }
    close_api(&a);
    test_recording(samples);
    test_files(samples);
    test_guidance();
    test_muxing(samples);
    test_parts(samples);
    test_converted(samples);
    remove_work();
    test_vulkan_end();
    return TEST_END("sound_files");
}
