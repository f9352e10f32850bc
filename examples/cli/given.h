/* Pictures, clips and encoded prompts that the user gives: read, and scaled to what the model makes. Include it after
   checks.h. Not part of dit.h. */
#ifndef GIVEN_H
#define GIVEN_H

/* Whether a picture or clip that is given takes part of the steps, as --strength says. */
static bool begins_with(const app *a) {
    if (a->info.takes_control) return false;
    if (a->r.video.count) return !a->o.mask_strategy;
    return a->r.start.rgba && !a->info.wants_image && !a->info.wants_mask && !a->r.frames;
}

/* handed: the picture itself, where it came without a file. */
static int read_picture(const char *option, const char *path, const picture *handed, picture *out) {
    const char *wrong = NULL;
    const size_t size = (size_t)handed->width * handed->height * 4;
    if (handed->rgba) {
        *out = *handed;
        out->rgba = malloc(size);
        if (!out->rgba) return complain(EXIT_MEMORY, "%s", no_picture_memory);
        memcpy(out->rgba, handed->rgba, size);
    } else if (path) {
        wrong = load_picture(path, out);
    }
    if (!wrong) return EXIT_GOOD;
    return complain(wrong == no_picture_memory ? EXIT_MEMORY : EXIT_INPUT, "%s %s: %s", option, path, wrong);
}

/* Whether a clip of the model may end with a picture that begins with none. */
static bool ends_alone(const app *a) {
    return a->info.takes_image && a->info.takes_last_image && !a->info.wants_image && !a->info.takes_control;
}

/* --end-img, as it is in its file. */
static int read_end(app *a) {
    static const picture nothing = {0};
    const options *o = &a->o;
    int code;
    if (!o->end_image) return EXIT_GOOD;
    if (!o->init_image && !ends_alone(a))
        return complain(EXIT_USAGE,
                        "--end-img %s: a clip that ends with a picture begins with one; name it with "
                        "--init-img",
                        o->end_image);
    code = read_picture("--end-img", o->end_image, &nothing, &a->r.end);
    if (code) return code;
    read_hash(o->end_image, a->hashes[6]);
    return check_told_file(a, "--end-img", o->end_image, o->end_hash, a->hashes[6]);
}

/* --mask, as it is in its file. */
static int read_mask(app *a, picture *out) {
    const options *o = &a->o;
    const int code = read_picture("--mask", o->mask, &a->handed[1], out);
    if (code || !o->mask) return code;
    if (!a->handed[1].rgba) read_hash(o->mask, a->hashes[1]);
    return check_told_file(a, "--mask", o->mask, o->mask_hash, a->hashes[1]);
}

/* --init-img and, of a picture, --mask. */
static int read_start(app *a) {
    const options *o = &a->o;
    const char *what = o->mask ? "--mask" : "--strength";
    int code;
    if ((o->mask_blur || o->mask_crop) && (!o->mask || a->info.takes_control))
        return complain(EXIT_USAGE, "%s: %s", o->mask_blur ? "--mask-blur" : "--padding-mask-crop",
                        o->mask ? "it is about pictures, and this mask is a clip's; leave it out"
                                : "there is no mask that it is about; name one with --mask");
    if ((o->mask || o->strength) && !o->init_image && !(o->strength && o->init_video) && !a->info.takes_control)
        return complain(EXIT_USAGE, "%s: there is no %s that it is about; name it with %s", what,
                        a->info.default_frames ? "clip" : "picture",
                        a->info.default_frames ? "--init-video" : "--init-img");
    if (o->init_image && o->init_video && !o->mask_strategy)
        return complain(EXIT_USAGE, "--init-img and --init-video: a clip begins with one of them, unless "
                                    "--mask-strategy says which frames each gives");
    if (!o->init_image) return EXIT_GOOD;
    code = read_picture("--init-img", o->init_image, &a->handed[0], &a->r.start);
    if (code) return code;
    if (!a->handed[0].rgba) read_hash(o->init_image, a->hashes[0]);
    code = check_told_file(a, "--init-img", o->init_image, o->init_hash, a->hashes[0]);
    return code || a->info.takes_control ? code : read_mask(a, &a->r.mask);
}

/* --control-image, and what goes with it. */
static int read_control(app *a) {
    static const picture nothing = {0};
    const options *o = &a->o;
    const char *lone = o->control_strength && !a->info.takes_control ? "--control-strength"
                       : o->control_first                            ? "--control-start"
                       : o->control_last                             ? "--control-end"
                       : o->control_mode                             ? "--control-mode"
                                                                     : NULL;
    int code;
    if (lone && a->info.takes_control)
        return complain(EXIT_USAGE, "%s: this model follows a clip in all steps; leave it out", lone);
    if (lone && !o->control_net)
        return complain(EXIT_USAGE, "%s: there is no control net that it is about; name one with --control-net", lone);
    if (o->high_noise_net && !(a->info.takes_control && a->info.parameters[DIT_ROLE_TRANSFORMER_2]))
        return complain(EXIT_USAGE,
                        "--high-noise-control-net %s: it is VACE's of the first of two experts, which this model does "
                        "not have; leave it out",
                        o->high_noise_net);
    if (o->control_net && !o->control_image && !a->info.takes_control && !o->info)
        return complain(EXIT_USAGE, "--control-net %s: it follows a picture; name it with --control-image",
                        o->control_net);
    if (a->info.wants_control && !o->control_image && !o->info)
        return complain(EXIT_USAGE, "--control-image: this model follows edges or a depth map; name a picture of them");
    if (a->info.wants_mask && !o->info && !(o->init_image && o->mask))
        return complain(EXIT_USAGE,
                        "%s: this model repaints a part of a picture; name the picture with --init-img and the "
                        "part, which is white, with --mask",
                        o->init_image ? "--mask" : "--init-img");
    if (!o->control_image) return EXIT_GOOD;
    if (a->info.takes_control)
        return complain(EXIT_USAGE, "--control-image %s: this model follows a clip; name it with --control-video",
                        o->control_image);
    if (!a->info.wants_control && !o->control_net)
        return complain(EXIT_USAGE,
                        "--control-image %s: this model follows no picture by itself; name a control net for it "
                        "with --control-net, or leave it out",
                        o->control_image);
    code = read_picture("--control-image", o->control_image, &nothing, &a->r.control);
    if (code) return code;
    read_hash(o->control_image, a->hashes[5]);
    return check_told_file(a, "--control-image", o->control_image, o->control_hash, a->hashes[5]);
}

static dit_image image_of(const picture *p) {
    dit_image image = {0};
    image.width = p->width;
    image.height = p->height;
    image.rgba = p->rgba;
    return image;
}

static int scale_given(const app *a, const char *name, picture *p) {
    const char *wrong;
    if (!a->o.quiet && (p->width != a->r.width || p->height != a->r.height))
        fprintf(stderr, "dit: %s is %ux%u pixels, scaled to %ux%u\n", name, p->width, p->height, a->r.width,
                a->r.height);
    wrong = scale_picture(p, a->r.width, a->r.height);
    return wrong ? complain(EXIT_MEMORY, "%s", wrong) : EXIT_GOOD;
}

/* Tells what a mask has that does not count: transparency, in which other programs keep masks, and white where no
   latent element begins, which are a side of so many pixels; models that repaint look at every pixel. scaled: to the
   size that is made. */
static void tell_mask(const app *a, bool scaled) {
    const picture *mask = &a->r.mask;
    const uint32_t side = scaled && !a->info.wants_mask ? a->info.latent_factor : 1;
    bool clear = false, differs = false, white = false, shows = false;
    uint32_t x, y;
    for (y = 0; y < mask->height; y++)
        for (x = 0; x < mask->width; x++) {
            const uint8_t *pixel = mask->rgba + 4 * ((size_t)y * mask->width + x);
            const bool is_white = pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u >= 128u << 16;
            clear = clear || pixel[3] < 128;
            differs = differs || (pixel[3] < 128) == is_white;
            white = white || is_white;
            shows = shows || (is_white && x % side == 0 && y % side == 0);
        }
    if (!scaled && clear && differs)
        fprintf(stderr, "dit: --mask %s: its transparency does not count; white is repainted, and black stays\n",
                a->o.mask);
    if (scaled && white && !shows)
        fprintf(stderr,
                "dit: --mask %s: nothing is repainted; its white is in no pixel that counts, which are the first ones "
                "of squares of %u x %u\n",
                a->o.mask, side, side);
    if (scaled && !white)
        fprintf(stderr, "dit: --mask %s: nothing is repainted, because nothing in it is white\n", a->o.mask);
}

/* Scales all to the size that is made; a mask of another size than its picture has lost its place, unless it is known
   to have the same. */
static int scale_start(app *a) {
    picture *start = &a->r.start, *mask = &a->r.mask, *end = &a->r.end;
    const char *wrong;
    int code;
    if (!start->rgba && !end->rgba) return EXIT_GOOD;
    if (mask->rgba && !a->follow.scales_mask && (mask->width != start->width || mask->height != start->height))
        return complain(EXIT_USAGE, "--mask %s: it is %ux%u pixels, %s is %ux%u; they must have the same size",
                        a->o.mask, mask->width, mask->height, a->o.init_image, start->width, start->height);
    if (mask->rgba && a->o.mask && !a->o.quiet) tell_mask(a, false);
    if (mask->rgba && a->o.mask_crop) {
        wrong = scale_picture(mask, start->width, start->height);
        code = wrong ? complain(EXIT_MEMORY, "%s", wrong) : crop_to_mask(a);
        if (code) return code;
    }
    code = start->rgba ? scale_given(a, a->o.init_image, start) : EXIT_GOOD;
    if (!code && end->rgba) code = scale_given(a, a->o.end_image, end);
    if (code) return code;
    wrong = mask->rgba ? scale_picture(mask, a->r.width, a->r.height) : NULL;
    if (wrong) return complain(EXIT_MEMORY, "%s", wrong);
    if (mask->rgba && a->o.mask && !a->o.quiet) tell_mask(a, true);
    a->r.start_images[0] = image_of(start);
    a->r.start_images[1] = image_of(end);
    a->r.mask_image = image_of(mask);
    return paste_by_mask(a);
}

static int scale_control(app *a) {
    picture *control = &a->r.control;
    int code;
    if (!control->rgba) return EXIT_GOOD;
    code = scale_given(a, a->o.control_image, control);
    if (code) return code;
    a->r.control_image = a->r.control_net.image = image_of(control);
    a->r.control_net.weight = a->r.numbers.control_strength;
    a->r.control_net.first = a->r.numbers.control_first;
    a->r.control_net.last = a->r.numbers.control_last;
    a->r.control_net.mode = (uint32_t)a->r.numbers.control_mode;
    return EXIT_GOOD;
}

/* ---- clips: each frame is scaled when it has been read ---- */

static void free_clip(given_clip *clip) {
    uint32_t i;
    for (i = 0; i < clip->count; i++) free(clip->frames[i].rgba);
    free(clip->frames);
    free(clip->images);
    memset(clip, 0, sizeof *clip);
}

static int add_frame(const char *option, given_clip *clip, picture *frame) {
    if (clip->count == clip->room) {
        const uint32_t room = 2 * clip->room + 16;
        picture *more = realloc(clip->frames, room * sizeof *more);
        if (!more) return free(frame->rgba), complain(EXIT_MEMORY, "%s: %s", option, no_picture_memory);
        clip->frames = more;
        clip->room = room;
    }
    clip->frames[clip->count++] = *frame;
    return EXIT_GOOD;
}

static int clip_failed(const char *option, const char *path, const char *why) {
    return complain(why == no_picture_memory ? EXIT_MEMORY : EXIT_INPUT, "%s %s: %s", option, path, why);
}

/* The first frame. */
static int open_clip(const char *option, const char *path, frame_reader *reader, given_clip *clip) {
    picture frame;
    const char *why = frames_open(reader, path);
    if (!why) why = frames_next(reader, &frame);
    if (why) return clip_failed(option, path, why);
    if (!frame.rgba) return clip_failed(option, path, "it has no frame");
    return add_frame(option, clip, &frame);
}

/* The other frames, up to so many in all. */
static int read_clip(app *a, const char *option, const char *path, uint32_t most, frame_reader *reader,
                     given_clip *clip) {
    picture frame = {NULL, 0, 0};
    const char *why;
    int code = EXIT_GOOD;
    if (!a->o.quiet && (reader->width != a->r.width || reader->height != a->r.height))
        fprintf(stderr, "dit: %s is %ux%u pixels, scaled to %ux%u\n", path, reader->width, reader->height, a->r.width,
                a->r.height);
    why = scale_picture(&clip->frames[0], a->r.width, a->r.height);
    while (!why && !code && clip->count < most) {
        why = frames_next(reader, &frame);
        if (why || !frame.rgba) break;
        why = scale_picture(&frame, a->r.width, a->r.height);
        if (why)
            free(frame.rgba);
        else
            code = add_frame(option, clip, &frame);
        if (caught_signal) return dit_failed(a, DIT_CANCELLED, NULL);
    }
    if (code) return code;
    return why ? clip_failed(option, path, why) : EXIT_GOOD;
}

static int name_images(given_clip *clip) {
    uint32_t i;
    if (!clip->count) return EXIT_GOOD;
    clip->images = calloc(clip->count, sizeof *clip->images);
    if (!clip->images) return complain(EXIT_MEMORY, "out of memory");
    for (i = 0; i < clip->count; i++) clip->images[i] = image_of(&clip->frames[i]);
    return EXIT_GOOD;
}

/* A clip to begin with, or one that is followed: a model takes either. */
static const char *video_option(const app *a) { return a->o.control_video ? "--control-video" : "--init-video"; }
static const char *video_path(const app *a) { return a->o.control_video ? a->o.control_video : a->o.init_video; }

/* The first frame, whose shape the clip gets. */
static int open_video(app *a, frame_reader *reader) {
    int code;
    if (!video_path(a)) return EXIT_GOOD;
    code = open_clip(video_option(a), video_path(a), reader, &a->r.video);
    if (code) return code;
    if (!a->o.fps && reader->rate) a->r.fps = (double)reader->rate / reader->scale;
    if (!(a->r.fps >= 0.001 && a->r.fps <= 1000))
        return clip_failed(video_option(a), video_path(a), "its frames a second are not 0.001 to 1000");
    return EXIT_GOOD;
}

/* The other frames: as many as the clip has, or of a reference all. */
static int read_video(app *a, frame_reader *reader) {
    const bool reference = a->o.mask_strategy != NULL;
    const uint32_t most = reference ? MOST_REFERENCE_FRAMES : a->r.frames;
    int code;
    if (!video_path(a)) return EXIT_GOOD;
    code = read_clip(a, video_option(a), video_path(a), most, reader, &a->r.video);
    if (code) return code;
    if (reference && a->r.video.count == most)
        return clip_failed(video_option(a), video_path(a), "more than 4095 frames; cut it");
    if (!reference && !a->o.frames && !a->o.quiet && a->r.video.count == most && frames_go_on(reader))
        fprintf(stderr, "dit: %s has more than the usual %u frames, the first of them are taken; --frames takes more\n",
                video_path(a), most);
    snprintf(a->hashes[4], sizeof a->hashes[4], "%08x", (unsigned)(reader->sum ^ reader->sum >> 32));
    if (a->o.video_hash && strcmp(a->o.video_hash, a->hashes[4]) != 0)
        return complain(EXIT_INPUT, "%s was made from another clip than this %s; name it with %s", a->o.repeat_from,
                        video_path(a), video_option(a));
    return EXIT_GOOD;
}

/* A clip to begin with, or that is followed, has all frames that are made. Without --frames it may be shorter than the
   model's own. */
static int fit_frames(app *a) {
    uint32_t frames = a->r.video.count, i;
    if (!frames) return EXIT_GOOD;
    if (!a->o.mask_strategy && frames < a->r.frames) {
        while (frames > 1 && dit_model_frames(a->headers, frames) != frames) frames--;
        if (a->o.frames || dit_model_frames(a->headers, frames) != frames)
            return complain(EXIT_USAGE, "--frames %u: %s has %u; the nearest valid value is %u", a->r.frames,
                            video_path(a), a->r.video.count, dit_model_frames(a->headers, frames));
        if (!a->o.quiet)
            fprintf(stderr, "dit: %s has %u of the usual %u frames, %u of them are taken\n", video_path(a),
                    a->r.video.count, a->r.frames, frames);
        a->r.frames = frames;
        for (i = frames; i < a->r.video.count; i++) free(a->r.video.frames[i].rgba);
        a->r.video.count = frames;
    }
    return name_images(&a->r.video);
}

/* --mask of a clip that is followed: a folder or a Y4M file has a mask for each frame, and a picture one for all. */
static int read_masks(app *a) {
    static frame_reader reader;
    const char *path = a->o.mask;
    const clip_ending *ending = path ? clip_find_ending(path) : NULL;
    const bool clip = path && !a->handed[1].rgba && (is_folder(path) || (ending && ending->kind == CLIP_Y4M));
    const char *wrong;
    picture mask;
    int code;
    if (!a->info.takes_control || !path) return EXIT_GOOD;
    if (clip) {
        code = open_clip("--mask", path, &reader, &a->r.masks);
        if (!code) code = read_clip(a, "--mask", path, a->r.frames, &reader, &a->r.masks);
        if (!code && a->r.masks.count < a->r.frames)
            code =
                complain(EXIT_USAGE, "--mask %s: it has %u frames, the clip %u; give as many, or one picture for all",
                         path, a->r.masks.count, a->r.frames);
        snprintf(a->hashes[1], sizeof a->hashes[1], "%08x", (unsigned)(reader.sum ^ reader.sum >> 32));
        frames_close(&reader);
        if (!code) code = check_told_file(a, "--mask", path, a->o.mask_hash, a->hashes[1]);
    } else {
        code = read_mask(a, &mask);
        wrong = code ? NULL : scale_picture(&mask, a->r.width, a->r.height);
        if (wrong) free(mask.rgba), code = complain(EXIT_MEMORY, "%s", wrong);
        if (!code) code = add_frame("--mask", &a->r.masks, &mask);
    }
    return code ? code : name_images(&a->r.masks);
}

/* Whether --init-img is a clip's first frame by the model's own rules for one (init_image). */
static bool begins_with_picture(const app *a) {
    return a->r.start.rgba && !a->r.end.rgba && !a->r.video.count && !a->o.mask_strategy && a->r.loops < 2 &&
           a->info.takes_image;
}

/* The references of models that hold frames: --init-img, then --init-video or --end-img. */
static void name_references(app *a) {
    dit_reference *next = a->r.references;
    if (!a->info.holds_frames || (a->r.video.count && !a->o.mask_strategy) || begins_with_picture(a)) return;
    if (a->r.start.rgba) next->frames = &a->r.start_images[0], next++->frame_count = 1;
    if (a->r.end.rgba) next->frames = &a->r.start_images[1], next++->frame_count = 1;
    if (a->r.video.count) next->frames = a->r.video.images, next++->frame_count = a->r.video.count;
    a->r.reference_count = (uint32_t)(next - a->r.references);
    if (a->r.end.rgba)
        snprintf(a->r.strategy, sizeof a->r.strategy, "0;%u,1,0,-1", a->r.loops > 1 ? a->r.loops - 1 : 0);
    else
        snprintf(a->r.strategy, sizeof a->r.strategy, "0");
}

/* --ref-image: as they are, since the model says how they are scaled. */
static int read_references(app *a) {
    const char *at = a->o.references;
    char path[PATH_SIZE];
    while (next_reference(&at, path)) {
        picture *p = &a->r.reference_pictures[a->r.reference_count];
        int code;
        if (a->r.reference_count == MOST_REFERENCES)
            return complain(EXIT_USAGE, "--ref-image: more than %d pictures", MOST_REFERENCES);
        code = read_picture("--ref-image", path, &a->handed[2 + a->r.reference_count], p);
        if (code) return code;
        a->r.reference_images[a->r.reference_count] = image_of(p);
        a->r.references[a->r.reference_count].frames = &a->r.reference_images[a->r.reference_count];
        a->r.reference_count++;
    }
    return EXIT_GOOD;
}

/* Whether a name has a word in it, in whatever case. */
static bool has_word(const char *name, const char *word) {
    size_t i = 0;
    for (; name && *name && word[i]; name++) {
        for (i = 0; word[i] && tolower((unsigned char)name[i]) == word[i];) i++;
    }
    return name && !word[i];
}

/* Whether the model was made to edit what it reads as a reference: by its files, or, where these are those of one that
   was not, by their names. */
static bool is_editor(const app *a) {
    const char *names[] = {a->o.diffusion_model, a->o.model};
    const int edits = dit_model_edits(a->headers);
    bool named = false;
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *name = names[i] ? base_name(names[i]) : NULL;
        named = named || has_word(name, "kontext") || has_word(name, "edit");
    }
    return edits > 0 || (edits < 0 && named);
}

/* A picture that is to be edited is a reference of such a model; where a mask says what is made anew, it stays what the
   picture begins with, too. */
static int refer_to_edited(app *a) {
    options *o = &a->o;
    int code;
    if (!a->follow.edits || !o->init_image || !is_editor(a)) return EXIT_GOOD;
    code = read_picture("--init-img", NULL, &a->handed[0], &a->handed[2]);
    o->references = o->init_image;
    if (o->mask) return code;
    o->init_image = o->strength = NULL;
    a->r.numbers.strength = 0;
    return code;
}

/* Everything that is given as pixels, and the size that is made. */
static int read_given(app *a) {
    static frame_reader reader;
    int code = refer_to_edited(a);
    if (!code) code = read_start(a);
    if (!code) code = read_end(a);
    if (!code) code = read_control(a);
    if (!code) code = open_video(a, &reader);
    if (!code) code = read_references(a);
    if (!code) code = check_sizes(a);
    if (!code) code = scale_start(a);
    if (!code) code = scale_control(a);
    if (!code) code = read_video(a, &reader);
    frames_close(&reader);
    if (!code) code = fit_frames(a);
    if (!code) code = read_masks(a);
    if (!code && !a->o.references) name_references(a);
    return code;
}

/* ---- Prompts as data ---- */

/* A file of --encode-prompt: the blobs of both prompts, which have one size. */
static int read_conditioning(app *a) {
    const char *path = a->o.conditioning, *why = path ? why_not_readable(path) : NULL;
    unsigned char *file;
    size_t size = 0;
    int i;
    if (!path) return EXIT_GOOD;
    if (why) return complain(EXIT_INPUT, "--conditioning %s: %s", path, why);
    file = read_file(path, &size);
    if (!file) return complain(EXIT_INPUT, "--conditioning %s: %s", path, told_reason(errno));
    snprintf(a->hashes[3], sizeof a->hashes[3], "%08x", (unsigned)crc32_of(0, file, size));
    for (i = 0; i < 2 && size && size % 2 == 0; i++) {
        a->r.texts[i].size = size / 2;
        a->r.texts[i].bytes = malloc(size / 2);
        if (a->r.texts[i].bytes) memcpy(a->r.texts[i].bytes, file + (1 - i) * (size / 2), size / 2);
    }
    free(file);
    if (!size || size % 2 || memcmp(a->r.texts[1].bytes, "DITC", 4))
        return complain(EXIT_INPUT, "--conditioning %s: this is no file that --encode-prompt wrote", path);
    if (!a->r.texts[0].bytes || !a->r.texts[1].bytes) return complain(EXIT_MEMORY, "out of memory");
    return check_told_file(a, "--conditioning", path, a->o.conditioning_hash, a->hashes[3]);
}
#endif
