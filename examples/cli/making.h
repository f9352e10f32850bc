/* The loop that makes one picture or clip after the other: steps, previews, files. Include it after prepare.h and
   repeat.h. Not part of dit.h. */
#ifndef MAKING_H
#define MAKING_H

static void write_preview(app *a, const unsigned char *rgba, uint32_t width, uint32_t height) {
    size_t size = 0;
    unsigned char *png = a->o.preview_path ? encode_png(rgba, width, height, NULL, NULL, &size) : NULL;
    if (png && !write_file(a->o.preview_path, png, size)) {
        close_line(a);
        complain(EXIT_OUTPUT, "cannot write %s: %s; going on without previews", a->o.preview_path, strerror(errno));
        a->o.preview_path = NULL;
    }
    free(png);
}

/* Draws over the preview before. */
static void show_picture(app *a, const unsigned char *rgba, uint32_t width, uint32_t height) {
    if (a->screen.kind == SCREEN_NONE) return;
    clear_line(a);
    screen_draw(&a->screen, rgba, width, height);
}

/* A strip of up to eight frames of a clip, spread over it, as they are decoded. rgba is the frame that is number
   `frame` of `all`. */
static void add_to_strip(app *a, uint32_t frame, uint32_t all) {
    const uint32_t tiles = all < STRIP_FRAMES ? all : STRIP_FRAMES, n = a->strip_frames;
    const size_t size = (size_t)a->r.width * a->r.height * 4;
    uint32_t width = a->r.width, height = a->r.height, y;
    unsigned char *tile;
    if ((!a->o.preview_path && a->screen.kind == SCREEN_NONE) || n >= tiles ||
        frame != (tiles > 1 ? (uint64_t)n * (all - 1) / (tiles - 1) : 0))
        return;
    tile = malloc(size);
    if (!tile) return;
    memcpy(tile, a->rgba, size);
    shrink(tile, &width, &height, STRIP_SIDE);
    if (!a->strip) a->strip = calloc((size_t)width * height, 4 * STRIP_FRAMES);
    if (a->strip) { /* as wide as it is filled */
        for (y = height; n && y-- > 1;)
            memmove(a->strip + (size_t)y * (n + 1) * width * 4, a->strip + (size_t)y * n * width * 4,
                    (size_t)n * width * 4);
        for (y = 0; y < height; y++)
            memcpy(a->strip + ((size_t)y * (n + 1) + n) * width * 4, tile + (size_t)y * width * 4, (size_t)width * 4);
        a->strip_frames++;
        write_preview(a, a->strip, (n + 1) * width, height);
        show_picture(a, a->strip, (n + 1) * width, height);
    }
    free(tile);
}

static void refresh_preview(app *a, const dit_status *status) {
    dit_output out;
    unsigned char *rgba;
    size_t size = 0;
    if (!wants_previews(a) || status->preview_id == a->preview_id) return;
    a->preview_id = status->preview_id;
    if (dit_job_preview(a->job, &out) != DIT_OK) return;
    size = (size_t)out.width * out.height * 4;
    rgba = malloc(size);
    if (rgba && dit_job_read(a->job, DIT_READ_PREVIEW, 0, 0, rgba, size, 0, NULL) == DIT_OK) {
        shrink(rgba, &out.width, &out.height, 512);
        show_picture(a, rgba, out.width, out.height);
        if (a->follow.previews) a->follow.preview(a, rgba, out.width, out.height);
        shrink(rgba, &out.width, &out.height, 256);
        write_preview(a, rgba, out.width, out.height);
    }
    free(rgba);
}

/* Writes the frames of a clip that are decoded by now; what continues another clip begins with frames of that one,
   which are left out. */
static int put_frames(app *a, uint32_t ready) {
    const size_t size = (size_t)a->r.width * a->r.height * 4;
    const uint32_t known = a->loop ? dit_job_overlap(a->job) : 0;
    dit_result result;
    if (a->shown < known) a->shown = known;
    for (; a->shown < ready; a->shown++) {
        result = dit_job_read(a->job, DIT_READ_RGBA8, 0, a->shown, a->rgba, size, 0, &a->err);
        if (result != DIT_OK) return dit_failed(a, result, NULL);
        if (!clip_put(&a->clip, a->rgba)) return EXIT_OUTPUT; /* clip_close tells why */
        add_to_strip(a, a->clip.written - 1, a->clip.frames);
    }
    return EXIT_GOOD;
}

static int run_job(app *a, uint32_t picture) {
    /* ns between looks at the progress: the times of stages that are told are as exact as this */
    const uint64_t glance = a->o.json || a->o.verbose ? 2000000 : 50000000;
    dit_status status = {0};
    dit_result result;
    int code = EXIT_GOOD;
    double begin = now(), stages[2] = {0, 0}; /* when the first step and the decoding were seen to begin */
    memset(&a->first, 0, sizeof a->first);
    a->shown = 0;
    a->preview_id = 0;
    running_job = a->job;
    if (caught_signal) dit_job_cancel(a->job);
    if (a->o.json) { /* however soon the picture is there, its beginning is told */
        dit_job_status(a->job, &status, NULL);
        tell_step(a, &status, picture);
    }
    dit_job_step(a->job, 0);
    go_ahead(a);
    do {
        result = dit_job_wait(a->job, glance);
        if (result == DIT_WORKING) go_ahead(a);
        dit_job_status(a->job, &status, NULL);
        if (!stages[0] && status.stage >= DIT_STAGE_DENOISE) stages[0] = now();
        if (!stages[1] && status.stage >= DIT_STAGE_DECODE) stages[1] = now();
        if (a->follow.watch && !a->follow.watch(a, &status)) dit_job_cancel(a->job);
        refresh_preview(a, &status);
        if (a->clip.path && result >= 0 && result != DIT_CANCELLED && !code) {
            code = put_frames(a, status.frame);
            if (code) dit_job_cancel(a->job);
        }
        if (result == DIT_WORKING) keep_resume(a, &status, false);
        if (result == DIT_WORKING) show_status(a, &status, picture);
    } while (result == DIT_WORKING);
    running_job = NULL;
    if (!stages[0]) stages[0] = now();
    if (!stages[1]) stages[1] = now();
    a->took.prompt = stages[0] - begin;
    a->took.steps = stages[1] - stages[0];
    a->took.decode = now() - stages[1];
    if (status.reruns && !a->o.quiet) {
        close_line(a);
        fprintf(stderr, "dit: fp16 overflowed in %s; run again, scaled: %u times\n", status.rerun_op, status.reruns);
    }
    if (a->o.cache && strncmp(a->o.cache, "gate", 4) && !a->o.quiet && result == DIT_OK) {
        close_line(a);
        fprintf(stderr, "dit: %u of %u steps reused blocks (--cache)\n", status.reused, status.step_count);
    }
    if (result != DIT_OK && !code) {
        dit_job_status(a->job, NULL, &a->err);
        code = dit_failed(a, result, NULL);
    }
    if (code) keep_resume(a, &status, true);
    return code;
}

/* bytes NULL: memory for them is missing. */
static bool put_picture(const app *a, FILE *file, const unsigned char *bytes, size_t size, const char *text) {
    if (bytes) return fwrite(bytes, 1, size, file) == size;
    return put_stored_png(file, a->rgba, a->r.width, a->r.height, "parameters", text);
}

/* Writes a picture to path, or to standard output where path is NULL. */
static bool write_picture(const app *a, const char *path, const unsigned char *bytes, size_t size, const char *text) {
    output_file out;
    if (path) return output_open(&out, path) && output_close(&out, put_picture(a, out.file, bytes, size, text));
#ifdef _WIN32
    _setmode(1, _O_BINARY);
#endif
    return put_picture(a, stdout, bytes, size, text) && fflush(stdout) == 0;
}

static void tell_picture(app *a, const char *path, uint32_t i) {
    close_line(a);
    if (a->o.json) {
        tell_file(a, path, i, 0);
    } else if (!a->o.quiet) {
        fprintf(to_stdout(&a->o) ? stderr : stdout, "%s%s  seed %llu  %.2f s\n", a->title, path,
                (unsigned long long)(a->r.seed + i), a->took.total);
        fflush(stdout);
    }
    if (a->o.verbose)
        fprintf(stderr, "dit: load %.2f s, encode %.2f s, steps %.2f s, decode %.2f s\n", i ? 0 : a->took.ready,
                a->took.prompt, a->took.steps, a->took.decode);
}

/* Where memory for its compression is missing, a PNG is whole, but larger, and that is told. */
static int save_picture(app *a, uint32_t i) {
    const bool out = to_stdout(&a->o);
    char path[PATH_SIZE] = "standard output", *text = parameters_text(a, i);
    const char *told = a->o.no_metadata ? NULL : text;
    unsigned char *bytes = NULL;
    size_t size = 0;
    still_kind kind = STILL_PNG;
    int code = EXIT_GOOD;
    show_picture(a, a->rgba, a->r.width, a->r.height);
    if (!out && !picture_path(a->o.output, a->first_picture + i, false, path, sizeof path)) {
        errno = ENAMETOOLONG;
        free(text);
        return output_failed(a, a->o.output);
    }
    if (!out) kind = still_kind_of(path);
    if (text) bytes = encode_still(kind, a->rgba, a->r.width, a->r.height, a->r.quality, told, &size);
    if (!bytes && kind != STILL_PNG) {
        close_line(a);
        code = complain(EXIT_MEMORY, "%s: %s", path, no_still_memory);
    } else if (!write_picture(a, out ? NULL : path, bytes, size, told)) {
        code = output_failed(a, path);
    } else {
        a->took.total = now() - a->started;
        tell_picture(a, path, i);
    }
    if (!code && !bytes)
        code = complain(EXIT_MEMORY, "out of memory while %s was compressed: it is written whole, but uncompressed%s",
                        path, text ? "" : " and without its parameters");
    if (!code && a->o.grid && !sheet_add(&a->grid, a->rgba, a->r.width, a->r.height))
        code = complain(EXIT_MEMORY, "--grid: out of memory; make fewer pictures");
    free(bytes);
    free(text);
    return code;
}

/* --grid, when all pictures are made. */
static int save_grid(app *a) {
    uint32_t width, height;
    size_t size = 0;
    unsigned char *rgba, *bytes = NULL;
    int code = EXIT_GOOD;
    if (!a->o.grid || !a->grid.count) return EXIT_GOOD;
    rgba = sheet_draw(&a->grid, &width, &height);
    if (rgba) bytes = encode_still(still_kind_of(a->o.grid), rgba, width, height, STILL_QUALITY, NULL, &size);
    free(rgba);
    if (!bytes)
        code = complain(EXIT_MEMORY, "--grid: out of memory; make fewer pictures");
    else if (!write_file(a->o.grid, bytes, size))
        code = output_failed(a, a->o.grid);
    else if (!a->o.quiet && !a->o.json)
        fprintf(a->o.output && to_stdout(&a->o) ? stderr : stdout, "%s  %u pictures\n", a->o.grid, a->grid.count);
    if (!code && a->grid.left_out && !a->o.quiet)
        fprintf(stderr, "dit: --grid: %u pictures more than %d are left out\n", a->grid.left_out, SHEET_MOST);
    free(bytes);
    return code;
}

/* A latent may have fewer frames than its clip: values that are not written stay NaN, which no latent holds. */
static int read_latent(app *a, uint32_t i) {
    const size_t frame = latent_values(a) / a->latent_frames;
    float *latent;
    dit_result result;
    if (!a->latents) return EXIT_GOOD;
    latent = a->latents + i * a->latent_room;
    memset(latent, 0xff, a->latent_room * sizeof *latent);
    result = dit_job_read(a->job, DIT_READ_LATENT_F32, 0, 0, latent, a->latent_room * sizeof *latent, 0, &a->err);
    if (result != DIT_OK) return dit_failed(a, result, NULL);
    while (a->latent_frames > 1 && latent[a->latent_frames * frame - 1] != latent[a->latent_frames * frame - 1])
        a->latent_frames--;
    return EXIT_GOOD;
}

static int read_picture_made(app *a) {
    dit_result result =
        dit_job_read(a->job, DIT_READ_RGBA8, 0, 0, a->rgba, (size_t)a->r.width * a->r.height * 4, 0, &a->err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

/* The job for picture i, or for the clip that continues the one before. */
static int restart_job(app *a, uint32_t i) {
    dit_job_desc desc;
    dit_tensor noise;
    dit_result result;
    describe_job(a, i, &desc, &noise);
    result = dit_job_restart(a->job, &desc, &a->err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

/* The clip's sound as a WAV file; *samples: of each channel. */
static int save_sound(app *a, const char *path, uint32_t *samples) {
    dit_status status;
    dit_result result;
    unsigned char *wav = NULL;
    size_t size = 0, values;
    float *sound;
    int code = EXIT_GOOD;
    dit_job_status(a->job, &status, NULL);
    *samples = status.sound_samples;
    values = (size_t)status.sound_samples * a->info.sound_channels;
    sound = malloc(values * sizeof *sound + 1);
    if (!sound) return complain(EXIT_MEMORY, "out of memory for the clip's sound; --no-sound leaves it out");
    result = dit_job_read(a->job, DIT_READ_SOUND_F32, 0, 0, sound, values * sizeof *sound, 0, &a->err);
    if (result != DIT_OK)
        code = dit_failed(a, result, NULL);
    else
        wav = encode_wav(sound, status.sound_samples, a->info.sound_channels, a->info.sound_rate, &size);
    free(sound);
    if (code) return code;
    if (!wav) return complain(EXIT_MEMORY, "out of memory for the clip's sound; --no-sound leaves it out");
    if (!write_file(path, wav, size)) code = output_failed(a, path);
    free(wav);
    return code;
}

/* Opens the file of a clip. wav: its sound; NULL: it has none, or it comes later. */
static int begin_clip(app *a, const char *path, uint32_t frames, const char *text, const char *wav) {
    if (!clip_open(&a->clip, path, a->r.width, a->r.height, frames, a->r.fps, a->o.no_metadata ? NULL : text, wav))
        return EXIT_OUTPUT;
    if (a->o.quality) a->clip.quality = a->r.quality;
    a->clip.kept = a->resume.frames;
    return EXIT_GOOD;
}

/* A clip that is made, with its sound: ffmpeg reads that first. */
static int put_clip_with_sound(app *a, const char *path, uint32_t frames, const char *text, const char *wav,
                               uint32_t *samples) {
    int code = save_sound(a, wav, samples);
    if (!code) code = begin_clip(a, path, frames, text, wav);
    return code ? code : put_frames(a, frames);
}

static void tell_sound_file(app *a, const char *path, uint32_t samples) {
    if (a->o.json)
        tell_sound(a, path, samples);
    else if (!a->o.quiet)
        printf("%s%s  its sound, %u channel%s, %u Hz, %.2f s\n", a->title, path, a->info.sound_channels,
               a->info.sound_channels > 1 ? "s" : "", a->info.sound_rate, (double)samples / a->info.sound_rate);
}

/* Makes a clip, or several that continue each other, into one file. */
static int make_clip(app *a, uint32_t i) {
    const bool sounds = makes_sound(a);
    uint32_t samples = 0;
    char wav[PATH_SIZE + 8] = "";
    const uint32_t frames = a->r.loops * (a->r.frames - dit_job_overlap(a->job)) + dit_job_overlap(a->job);
    const char *told = to_stdout(&a->o) ? "standard output" : a->o.output;
    char path[PATH_SIZE], begin[PATH_SIZE], end[PATH_SIZE], *text = parameters_text(a, i);
    int code = EXIT_GOOD, first;
    bool numbered;
    if (!text) return complain(EXIT_MEMORY, "out of memory");
    picture_path(a->o.output, a->first_picture + i, true, path, sizeof path);
    if (!to_stdout(&a->o)) told = path;
    a->strip_frames = 0;
    memset(&a->clip, 0, sizeof a->clip);
    if (!sounds) code = begin_clip(a, path, frames, text, NULL);
    if (clip_holds_sound(path))
        snprintf(wav, sizeof wav, "%s.wav", path); /* until ffmpeg has read it */
    else if (sounds && !clip_sound_path(path, wav, sizeof wav))
        code =
            complain(EXIT_OUTPUT, "%s: the name of a file for its sound is too long; --no-sound leaves it out", path);
    for (a->loop = 0; a->loop < a->r.loops && !code; a->loop++) {
        if (i || a->loop) {
            code = choose_prompt(a);
            if (!code) code = restart_job(a, i);
        }
        if (!code) code = run_job(a, i);
    }
    a->loop = 0;
    if (sounds && !code) code = put_clip_with_sound(a, path, frames, text, wav, &samples);
    first = code;
    if (!clip_close(&a->clip) && (!code || (code == EXIT_OUTPUT && !caught_signal))) {
        close_line(a);
        code = complain(strstr(a->clip.why, "memory") ? EXIT_MEMORY : EXIT_OUTPUT, "cannot write %s: %s", told,
                        a->clip.why);
    }
    if (sounds && (code || first || clip_holds_sound(path))) remove(wav);
    numbered = a->clip.kind == CLIP_PNGS && clip_number_path(path, 0, begin, sizeof begin) &&
               clip_number_path(path, frames - 1, end, sizeof end);
    if (numbered && frames == 1) told = begin, numbered = false;
    a->clip.path = NULL;
    free(text);
    if (first || code) return code;
    close_line(a);
    a->took.total = now() - a->started;
    if (a->o.json)
        tell_file(a, told, i, frames);
    else if (!a->o.quiet)
        fprintf(to_stdout(&a->o) ? stderr : stdout, "%s%s%s%s  %u frame%s, %g a second  seed %llu  %.2f s\n", a->title,
                numbered ? begin : told, numbered ? " to " : "", numbered ? base_name(end) : "", frames,
                frames > 1 ? "s" : "", a->r.fps, (unsigned long long)(a->r.seed + i), a->took.total);
    if (sounds && !clip_holds_sound(path)) tell_sound_file(a, wav, samples);
    fflush(stdout);
    return EXIT_GOOD;
}

/* The job of this pass for picture i; it is planned where the other pass had its memory. */
static int aim_job(app *a, uint32_t i) {
    int code = i && a->job ? EXIT_GOOD : load_and_plan(a);
    return code || !i ? code : restart_job(a, i);
}

/* The second pass of --hires. Afterwards sizes and job are those of that pass. */
static int make_larger(app *a, uint32_t i) {
    hires *h = &a->r.hires;
    const uint32_t width = a->r.width, height = a->r.height, factor = a->info.latent_factor;
    const size_t plane = (size_t)(width / factor) * (height / factor);
    const double prompt = a->took.prompt, steps = a->took.steps, decode = a->took.decode;
    float *latent = h->latents ? malloc(plane * a->info.latent_channels * sizeof *latent) : NULL;
    dit_result result = DIT_OK;
    bool good = !h->latents || latent;
    uint32_t c;
    int code;
    if (latent)
        result = dit_job_read(a->job, DIT_READ_LATENT_F32, 0, 0, latent,
                              plane * a->info.latent_channels * sizeof *latent, 0, &a->err);
    for (c = 0; c < a->info.latent_channels && good && latent && result == DIT_OK; c++)
        good = upscale_floats(upscalers[h->upscaler].kernel, latent + c * plane, width / factor, height / factor,
                              h->latents + (size_t)c * (h->width / factor) * (h->height / factor), h->width / factor,
                              h->height / factor, 1);
    if (!h->latents) good = upscale_picture(h, a->rgba, width, height, &h->picture);
    free(latent);
    if (result != DIT_OK) return dit_failed(a, result, NULL);
    if (!good) return complain(EXIT_MEMORY, "out of memory; try a smaller --hires-scale");
    show_picture(a, a->rgba, width, height);
    use_pass(a, true);
    a->told_step = UINT32_MAX;
    code = aim_job(a, i);
    if (!code) code = run_job(a, i);
    if (!code) code = read_picture_made(a);
    a->took.prompt += prompt;
    a->took.steps += steps;
    a->took.decode += decode;
    return code;
}

static int make_picture(app *a, uint32_t i) {
    uint64_t range = dit_trace_begin(a->context, a->r.frames ? "clip" : "picture");
    bool pasted = false; /* the whole picture stands in the place of what was made */
    int code = EXIT_GOOD;
    a->told_step = UINT32_MAX;
    a->started = now();
    if (makes_clip(a)) {
        code = make_clip(a, i);
    } else {
        use_pass(a, false);
        if (i) code = aim_job(a, i);
        if (!code) code = run_job(a, i);
        if (!code) code = read_picture_made(a);
        if (!code && a->r.hires.wanted) code = make_larger(a, i);
        pasted = !code && a->r.paste.weights;
        if (pasted) code = paste_made(a);
        pasted = pasted && !code;
        if (!code && a->follow.take)
            code = a->follow.take(a, i) ? EXIT_GOOD : complain(EXIT_MEMORY, "%s", no_still_memory);
        else if (!code)
            code = save_picture(a, i);
        if (pasted) swap_made(a);
    }
    if (!code) code = read_latent(a, i);
    if (!code) end_resume(a);
    dit_trace_end(a->context, range);
    return code;
}

static bool append_bytes(const void *data, size_t size, void *user) {
    text_buffer *b = user;
    if (size > b->room - b->size) {
        size_t room = 2 * b->room + size;
        unsigned char *more = realloc(b->bytes, room);
        if (!more) return false;
        b->bytes = more;
        b->room = room;
    }
    memcpy(b->bytes + b->size, data, size);
    b->size += size;
    return true;
}

/* Writes the trace of a failed run, too: it tells how far the run came. */
static int save_trace(app *a) {
    text_buffer text = {0};
    dit_result result;
    int code = EXIT_GOOD;
    if (!a->o.trace || !a->context) return EXIT_GOOD;
    result = dit_trace_write(a->context, append_bytes, &text, &a->err);
    if (result != DIT_OK)
        code = complain(EXIT_MEMORY, "out of memory while writing the trace");
    else if (!write_file(a->o.trace, text.bytes, text.size))
        code = output_failed(a, a->o.trace);
    free(text.bytes);
    return code;
}

static int save_latents(app *a) {
    uint64_t shape[5];
    uint32_t rank = 0, i;
    if (!a->latents) return EXIT_GOOD;
    for (i = 1; i < a->r.count; i++)
        memmove(a->latents + i * latent_values(a), a->latents + i * a->latent_room, latent_values(a) * sizeof(float));
    shape[rank++] = a->r.count;
    shape[rank++] = a->info.latent_channels;
    if (a->r.frames) shape[rank++] = a->latent_frames;
    shape[rank++] = a->r.height / a->info.latent_factor;
    shape[rank++] = a->r.width / a->info.latent_factor;
    return st_save(a->o.latent_out, "latent", shape, (int)rank, a->latents) ? EXIT_GOOD
                                                                            : output_failed(a, a->o.latent_out);
}

static void tell_counters(const app *a) {
    dit_counters c;
    dit_job_get_counters(a->job, &c);
    fprintf(stderr,
            "dit: %llu dispatches in %llu submits, %llu command buffers, %llu pipelines compiled, %llu allocations\n",
            (unsigned long long)c.dispatches, (unsigned long long)c.submits, (unsigned long long)c.recordings,
            (unsigned long long)c.pipelines, (unsigned long long)c.allocations);
}
#endif
