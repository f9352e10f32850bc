/* Frames that a clip is given: a picture that it moves, a clip to begin with, references that stand in for some of its
   latent frames, the end of the clip that it continues. Checks of a request, ops, and what the host writes. */
#include "job/job.h"

/* --- requests: what is given --- */

/* Pixels in memory, of the size that is made. floats: whether they are floats; the first frame decides for all. */
static dit_result diti_given_check_frame(const char *name, uint32_t index, const dit_image *image,
                                         const diti_job_shape *shape, bool floats, dit_error *err) {
    size_t line = (size_t)image->width * (floats ? 3 * sizeof(float) : 4);
    if (image->width != shape->width || image->height != shape->height)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s, frame %u: it has %u x %u pixels, the clip %u x %u: scale it to that size, or ask for "
                         "another",
                         name, index, image->width, image->height, shape->width, shape->height);
    if (image->image)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s, frame %u: this version reads frames of clips from memory only; give rgba or rgb", name,
                         index);
    if ((image->rgba != NULL) == (image->rgb != NULL))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s, frame %u: it needs either rgba or rgb", name, index);
    if ((image->rgb != NULL) != floats)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s, frame %u: frames that belong together are bytes, all of them, or floats", name, index);
    if (!diti_request_has_rows(image, line))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s, frame %u: row_pitch %llu does not suit %u x %u pixels",
                         name, index, (unsigned long long)image->row_pitch, image->width, image->height);
    return DIT_OK;
}

static dit_result diti_given_add(const dit_model *model, const char *name, const dit_image *images, uint32_t frames,
                                 diti_job_request *out, dit_error *err) {
    diti_given *given = &out->shape.given[out->shape.given_count];
    uint32_t i, nearest;
    if (!images) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: frames is NULL", name);
    if (frames > DITI_CLIP_MOST_FRAMES)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: it has %u frames; at most %u are possible", name, frames,
                         DITI_CLIP_MOST_FRAMES);
    given->frames = given->pictures = frames ? frames : 1;
    given->floats = images[0].rgb != NULL;
    for (i = 0; i < given->frames; i++)
        DITI_TRY(diti_given_check_frame(name, i, &images[i], &out->shape, given->floats, err));
    if (model->transformer->traits.mask_channels) { /* grey is between two bytes */
        given->frames = out->shape.frames;
        given->floats = true;
    }
    given->latent_frames = diti_vae_latent_frames(model->vae, given->frames, true, &nearest);
    if (!given->latent_frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: the autoencoder takes no clip of %u frames; the nearest that it takes has %u", name,
                         given->frames, nearest);
    out->given_images[out->shape.given_count++] = images;
    return DIT_OK;
}

/* A model moves the clip's first frame, and may take the last one where a mask tells which frames are given. */
static dit_result diti_given_check_moved(const dit_model *model, uint32_t count, uint32_t latent_frames,
                                         dit_error *err) {
    const dit_model_info *info = &model->info;
    bool both = count == 2 && info->takes_last_image;
    if (info->wants_last_image && count != 2)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model (%s %s) goes from one picture to another; init_image must be the "
                         "first frame and the last one, and init_count 2",
                         info->family, info->variant);
    if (both && latent_frames == 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: init_image has two pictures, and the clip a single latent frame; ask for more "
                         "frames");
    if (count == 1 || both) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: this model moves one picture; init_count must be %s",
                     info->takes_last_image ? "1, or 2 with the clip's last frame" : "1");
}

/* The pictures at the ends of a clip, of which the first of two may be missing. */
static dit_result diti_given_anchors(const dit_model *model, const dit_job_desc *desc, uint32_t count,
                                     diti_job_request *out, dit_error *err) {
    static const char *const names[] = {"init_image", "init_image, the last frame"};
    const dit_image *images = desc->init_image;
    uint32_t first = count == 2 && !images[0].rgba && !images[0].rgb && !images[0].image, i;
    DITI_TRY(diti_given_check_moved(model, count, out->shape.latent_frames - out->shape.sound_frames, err));
    if (desc->strength > 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model begins with a picture as it is; strength must be 0");
    DITI_TRY(diti_job_needs_encoder(model, "init_image", err));
    for (i = first; i < count; i++) {
        if (images[i].rgb)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "%s: this model's pictures are bytes; give rgba in place of rgb", names[i]);
        DITI_TRY(diti_given_check_frame(names[i], 0, &images[i], &out->shape, false, err));
        DITI_TRY(diti_reference_anchor(model, names[i], &images[i], out, err));
    }
    out->shape.ends = count == 2;
    return DIT_OK;
}

/* The picture that a model moves, or the clip to begin with. */
static dit_result diti_given_init(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                  dit_error *err) {
    uint32_t count = desc->init_count ? desc->init_count : 1, frames = out->shape.frames;
    bool moves = model->transformer->traits.condition_channels > 0;
    bool fixes = !moves && count == 1 && model->transformer->traits.fixes_first;
    if (moves && !desc->init_image)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model (%s %s) moves a picture; give init_image", model->info.family,
                         model->info.variant);
    if (desc->mask)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: clips are not repainted in part; mask must be NULL");
    if (!desc->init_image) return DIT_OK;
    if (model->transformer->traits.anchors && count != frames) return diti_given_anchors(model, desc, count, out, err);
    if (moves || fixes) DITI_TRY(diti_given_check_moved(model, count, out->shape.latent_frames, err));
    if ((moves || fixes) && desc->strength > 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model moves a picture as it is; strength must be 0");
    if (!moves && !fixes && count != frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: init_image has %u frames, the clip %u: a clip to begin with is as long as what "
                         "is made of it%s",
                         count, frames,
                         model->info.holds_frames ? "; give pictures that it goes on from as references" : "");
    if (!moves && !fixes && out->shape.sound_frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: a clip of this model has a sound, which no clip to begin with has%s",
                         model->info.takes_image ? "; give one picture" : "");
    if (out->shape.extra_frames && !moves)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model begins with no clip of %u latent frames, which are not whole "
                         "patches; use another frame_count",
                         out->shape.latent_frames - out->shape.extra_frames);
    DITI_TRY(diti_job_needs_encoder(model, "init_image", err));
    DITI_TRY(diti_given_add(model, "init_image", desc->init_image, count, out, err));
    out->shape.moves = moves;
    out->shape.starts = !moves && !fixes;
    out->shape.fixes = fixes;
    if (out->shape.starts) out->strength = desc->strength > 0 ? desc->strength : 0.75f;
    return DIT_OK;
}

static dit_result diti_given_references(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                        dit_error *err) {
    char name[32];
    uint32_t i;
    if (!desc->reference_count) return DIT_OK;
    if (!desc->references)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: references is NULL, reference_count is %u",
                         desc->reference_count);
    if (desc->reference_count > DITI_JOB_MAX_REFERENCES)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "reference_count is %u; at most %u are possible",
                         desc->reference_count, DITI_JOB_MAX_REFERENCES);
    if (!desc->mask_strategy || !desc->mask_strategy[0])
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: references are given without mask_strategy, which says what they are for");
    DITI_TRY(diti_job_needs_encoder(model, "references", err));
    for (i = 0; i < desc->reference_count; i++) {
        diti_format(name, sizeof name, "references[%u]", (unsigned)i);
        DITI_TRY(diti_given_add(model, name, desc->references[i].frames, desc->references[i].frame_count, out, err));
    }
    return DIT_OK;
}

/* --- requests: mask_strategy (docs/models.md 7.11) --- */

enum { DITI_GROUP_LOOP, DITI_GROUP_REFERENCE, DITI_GROUP_FROM, DITI_GROUP_TO, DITI_GROUP_LENGTH, DITI_GROUP_EDIT };
#define DITI_GROUP_NUMBERS 6u

static bool diti_given_is_number(const char *text, bool whole) {
    const char *at = text;
    bool digits = false;
    if (*at == '-') at++;
    for (; *at; at++) {
        if (*at == '.' && !whole) {
            whole = true; /* one point at most */
            continue;
        }
        if (*at < '0' || *at > '9') return false;
        digits = true;
    }
    return digits && at - text < 10;
}

/* The next group of a strategy; *at moves behind it. */
static bool diti_given_read_group(const char **at, double numbers[DITI_GROUP_NUMBERS]) {
    static const double usual[DITI_GROUP_NUMBERS] = {0, 0, 0, 0, 1, 0};
    char number[16];
    uint32_t i = 0, length = 0;
    memcpy(numbers, usual, sizeof usual);
    for (;; (*at)++) {
        char c = **at;
        if (c == ' ') continue;
        if (c != ',' && c != ';' && c != '\0') {
            if (length + 1 >= sizeof number) return false;
            number[length++] = c;
            continue;
        }
        number[length] = '\0';
        if (i == DITI_GROUP_NUMBERS || !diti_given_is_number(number, i != DITI_GROUP_EDIT)) return false;
        numbers[i++] = diti_parse_double(number);
        length = 0;
        if (c == ',') continue;
        if (c == ';') (*at)++;
        return true;
    }
}

/* Where chunks of a clip are encoded by themselves, places snap to their beginnings: the nearest one, but not beyond
   the last chunk's. */
static int64_t diti_given_snap(int64_t place, uint32_t size, uint32_t align) {
    int64_t chunk = place / align;
    if (2 * (place % align) > align && chunk < (int64_t)(size / align) - 1) chunk++;
    return chunk * align;
}

/* Frames of a clip that become those of something given. */
static dit_result diti_given_hold(const dit_model *model, const char *what, const double numbers[DITI_GROUP_NUMBERS],
                                  diti_job_request *out, dit_error *err) {
    const diti_given *given = &out->shape.given[(uint32_t)numbers[DITI_GROUP_REFERENCE]];
    uint32_t size = given->skipped + given->latent_frames, i, align = diti_vae_independent_frames(model->vae),
             frames = out->shape.latent_frames - out->shape.sound_frames;
    int64_t from = (int64_t)numbers[DITI_GROUP_FROM], to = (int64_t)numbers[DITI_GROUP_TO],
            count = (int64_t)numbers[DITI_GROUP_LENGTH];
    diti_hold *hold = &out->shape.holds[out->shape.hold_count];
    if (from < 0) from += size;
    if (to < 0) to += frames;
    if (from < 0 || from >= size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: reference_start is %g; the reference has %u latent frames", what,
                         numbers[DITI_GROUP_FROM], size);
    if (to < 0 || to >= frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: start is %g; the clip has %u latent frames", what,
                         numbers[DITI_GROUP_TO], frames);
    if (count < 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: length is %g; it must be 1 or more", what,
                         numbers[DITI_GROUP_LENGTH]);
    if (!(numbers[DITI_GROUP_EDIT] >= 0 && numbers[DITI_GROUP_EDIT] <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: edit is %g; it must be 0 (frames stay) to 1 (all of them is made anew)", what,
                         numbers[DITI_GROUP_EDIT]);
    if (out->shape.hold_count == DITI_JOB_MAX_HOLDS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "mask_strategy has more than %u groups for a clip",
                         DITI_JOB_MAX_HOLDS);
    if (align > 1) {
        from = diti_given_snap(from, size, align);
        to = diti_given_snap(to, frames, align);
    }
    if (count > size - from) count = size - from;
    if (count > frames - to) count = frames - to;
    hold->given = (uint32_t)numbers[DITI_GROUP_REFERENCE];
    hold->from = (uint32_t)from - given->skipped;
    hold->to = (uint32_t)to;
    hold->count = (uint32_t)count;
    for (i = 0; i < hold->count; i++) out->frame_mask[hold->to + i] = (float)numbers[DITI_GROUP_EDIT];
    out->shape.hold_count++;
    return DIT_OK;
}

static dit_result diti_given_strategy(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                      dit_error *err) {
    const char *at = desc->mask_strategy;
    uint32_t group = 0;
    while (at && *at) {
        double numbers[DITI_GROUP_NUMBERS];
        char what[64];
        const char *begin = at;
        bool read = diti_given_read_group(&at, numbers);
        diti_format(what, sizeof what, "mask_strategy, group %u", (unsigned)++group);
        if (!read)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "%s (\"%.40s\"): groups between \";\" are \"loop,reference,reference_start,start,length,"
                             "edit\", whole numbers but for the last one, the end of which may be missing",
                             what, begin);
        if (numbers[DITI_GROUP_LOOP] < 0 || numbers[DITI_GROUP_LOOP] >= out->shape.loop_count)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: loop is %g; loop_count is %u", what,
                             numbers[DITI_GROUP_LOOP], out->shape.loop_count);
        if (numbers[DITI_GROUP_REFERENCE] < 0 || numbers[DITI_GROUP_REFERENCE] >= desc->reference_count)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: reference is %g; reference_count is %u", what,
                             numbers[DITI_GROUP_REFERENCE], desc->reference_count);
        if (numbers[DITI_GROUP_LOOP] == out->loop) DITI_TRY(diti_given_hold(model, what, numbers, out, err));
    }
    return DIT_OK;
}

/* --- requests: loops --- */

static dit_result diti_given_check_loops(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                         dit_error *err) {
    uint32_t align, most = out->shape.latent_frames - out->shape.sound_frames;
    out->shape.loop_count = desc->loop_count ? desc->loop_count : 1;
    out->loop = desc->loop;
    if (desc->loop >= out->shape.loop_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "loop is %u; it must be below loop_count, which is %u",
                         desc->loop, out->shape.loop_count);
    if (out->shape.loop_count == 1 && (desc->loop_frames || desc->loop_edit != 0))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: loop_frames and loop_edit are about clips that continue each other; give "
                         "loop_count");
    if (out->shape.loop_count == 1) return DIT_OK;
    DITI_TRY(diti_job_needs_encoder(model, "loop_count", err));
    align = diti_vae_independent_frames(model->vae);
    if (!align)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: the model's autoencoder encodes no end of a clip by itself; loop_count must be "
                         "1");
    out->shape.loop_frames = desc->loop_frames ? desc->loop_frames : align > 1 ? align : DITI_LOOP_FRAMES;
    if (out->shape.loop_frames < most && out->shape.loop_frames % align == 0) {
        if (desc->loop_edit >= 0 && desc->loop_edit <= 1) return DIT_OK;
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "loop_edit is %g; it must be 0 to 1",
                         (double)desc->loop_edit);
    }
    if (align == 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "loop_frames is %u; it must be less than the clip's %u latent frames", out->shape.loop_frames,
                         most);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "loop_frames is %u; it must be a multiple of %u below the clip's %u latent frames",
                     out->shape.loop_frames, align, most);
}

/* The end of the clip before is encoded from the chunk on that its last latent frames begin in. */
static dit_result diti_given_continue(const dit_model *model, const dit_job_desc *desc, const diti_job_request *before,
                                      diti_job_request *out, dit_error *err) {
    diti_given *given = &out->shape.given[out->shape.given_count];
    uint32_t all = diti_vae_latent_frames(model->vae, out->shape.frames, true, NULL), index = 0, from;
    double numbers[DITI_GROUP_NUMBERS] = {0, 0, 0, 0, 0, 0};
    diti_vae_clip clip;
    diti_vae_chunk chunk;
    if (!out->loop) return DIT_OK;
    if (!before || before->loop + 1 != out->loop)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "loop is %u; dit_job_restart takes it when the run of loop %u has finished, and no other call "
                         "does",
                         out->loop, out->loop - 1);
    memset(&clip, 0, sizeof clip);
    clip.vae = model->vae;
    clip.encode = true;
    clip.pixels.frames = out->shape.frames;
    clip.latent.frames = all;
    from = all - out->shape.loop_frames;
    while (diti_vae_clip_chunk(&clip, index, &chunk) && chunk.out_first + chunk.out_frames <= from) index++;
    given->continues = given->floats = true;
    given->skipped = chunk.out_first;
    given->skipped_frames = chunk.first;
    given->latent_frames = all - chunk.out_first;
    given->frames = out->shape.frames - chunk.first;
    numbers[DITI_GROUP_REFERENCE] = out->shape.given_count++;
    numbers[DITI_GROUP_FROM] = from;
    numbers[DITI_GROUP_LENGTH] = out->shape.loop_frames;
    numbers[DITI_GROUP_EDIT] = (double)desc->loop_edit;
    return diti_given_hold(model, "loop", numbers, out, err);
}

/* The member that is about frames which the model holds; NULL: none is there. */
static const char *diti_given_wants_holds(const dit_job_desc *desc) {
    if (desc->reference_count) return "reference_count";
    if (desc->mask_strategy) return "mask_strategy";
    if (desc->loop_count > 1) return "loop_count";
    if (desc->loop) return "loop";
    if (desc->loop_frames) return "loop_frames";
    return desc->loop_edit == 0 ? NULL : "loop_edit";
}

DIT_INTERNAL dit_result diti_job_request_given(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               const diti_job_request *before, diti_job_request *out, dit_error *err) {
    const diti_video latent = {out->shape.latent_frames, out->latent_height, out->latent_width};
    const char *wanted, *lone;
    uint32_t i;
    out->shape.loop_count = 1;
    if (!out->shape.clip && model->transformer->traits.references)
        return diti_job_request_references(model, desc, out, err);
    if (out->shape.reuse.references)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: cache \"references\" is about references, which this model (%s %s) does not take; it "
            "must be NULL",
            model->info.family, model->info.variant);
    wanted = diti_given_wants_holds(desc);
    if (wanted && !out->shape.clip && desc->reference_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: references are given, and this model (%s %s) takes none; leave them out",
                         model->info.family, model->info.variant);
    if (wanted && !(out->shape.clip && model->info.holds_frames))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: %s is given, and this model (%s %s) holds no frames; leave it out", wanted,
                         model->info.family, model->info.variant);
    if (!out->shape.clip) return DIT_OK;
    if (!(desc->strength >= 0 && desc->strength <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "strength is %g; it must be 0 (0.75) to 1 (all is replaced)",
                         (double)desc->strength);
    if (!desc->init_image && desc->strength > 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: strength is given without init_image, the clip that it is about");
    DITI_TRY(diti_given_init(model, desc, out, err));
    if (diti_given_wants_holds(desc)) {
        if (desc->init_image)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_job_desc: a clip begins with init_image, or has frames of references; not both");
        out->frame_mask = (float *)diti_alloc_array(env, out->shape.latent_frames, sizeof *out->frame_mask);
        if (!out->frame_mask) return diti_fail_memory(err, "the mask of frames");
        for (i = 0; i < out->shape.latent_frames; i++) out->frame_mask[i] = 1;
        DITI_TRY(diti_given_check_loops(model, desc, out, err));
        DITI_TRY(diti_given_references(model, desc, out, err));
        DITI_TRY(diti_given_strategy(model, desc, out, err));
        DITI_TRY(diti_given_continue(model, desc, before, out, err));
    }
    lone = out->shape.given_count || out->shape.reference_count             ? "with frames that are given"
           : out->shape.loop_count > 1                                      ? "that continue each other"
           : model->vae && diti_vae_noise_plane(model->vae, &latent, 0) > 0 ? "whose decoder draws noise"
                                                                            : NULL;
    if (!lone || out->shape.image_count == 1) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: clips %s are made one by one; image_count must be 1", lone);
}

/* For the schedule's steps. */
DIT_INTERNAL dit_result diti_job_request_frames(const diti_env *env, diti_job_request *out, dit_error *err) {
    uint32_t frames = out->shape.latent_frames;
    if (!out->shape.hold_count) return DIT_OK;
    out->frame_steps =
        (diti_frame_step *)diti_alloc_array(env, (size_t)out->schedule.count * frames, sizeof *out->frame_steps);
    if (!out->frame_steps) return diti_fail_memory(err, "the steps of frames");
    return diti_schedule_frames(&out->schedule, out->frame_mask, frames, out->frame_steps, err);
}

/* --- ops --- */

/* Rows of a clip that is followed, from `first` on: those that stay, or those that are made anew. The others become 0,
   which is grey: branch.c writes bytes of 0, 255, and 127 where a pixel is on neither side. */
static diti_tensor diti_given_part_rows(const diti_share *share, diti_graph *graph, diti_tensor rows, uint32_t first,
                                        bool anew) {
    diti_tensor words =
        diti_tensor_view(graph, share->program.branch_parts, 0, 1, first, diti_tensor_rows(graph, rows));
    diti_elementwise_desc desc = DITI_ZERO;
    desc.activation = DITI_ACTIVATION_RELU;
    desc.scale = anew ? 2 : -2;
    desc.offset = -1;
    desc.out_f32 = true;
    desc.name = "part of the followed clip";
    return diti_multiply(graph, rows, diti_elementwise(graph, diti_image_in(graph, words, 3, false), &desc), 0,
                         desc.name);
}

/* Pixels of a chunk as rows in -1..1; of a clip that is followed, one part of them. */
static diti_tensor diti_given_rows(const diti_share *share, diti_graph *graph, uint32_t index,
                                   const diti_vae_chunk *chunk) {
    const diti_job_shape *shape = &share->job->request.shape;
    uint32_t pixels = shape->width * shape->height;
    diti_tensor all = share->program.given_pixels[index], rows;
    if (shape->given[index].floats)
        return diti_tensor_view(graph, all, chunk->first * pixels, chunk->frames * pixels, 0, 3);
    rows = diti_image_in(graph, diti_tensor_view(graph, all, 0, 1, chunk->first * pixels, chunk->frames * pixels), 3,
                         false);
    return shape->branch ? diti_given_part_rows(share, graph, rows, chunk->first * pixels, index > 0) : rows;
}

/* Both parts of a clip that is followed have the same pixels. */
static diti_tensor diti_given_input(const diti_share *share, diti_graph *graph, uint32_t index) {
    const diti_job_shape *shape = &share->job->request.shape;
    const diti_given *given = &shape->given[index];
    uint32_t pixels = given->frames * shape->width * shape->height;
    if (given->floats) return diti_tensor_input(graph, DITI_F32, pixels, 3, "given frames");
    if (shape->branch && index) return share->program.given_pixels[0];
    return diti_tensor_input(graph, DITI_U32, 1, pixels, "given frames");
}

/* Rows of some lines of some frames, between a share and the first one's whole. */
static diti_place_desc diti_given_part(const diti_vae_portion *portion, uint32_t frames, const diti_video *size) {
    diti_place_desc cut = DITI_ZERO;
    cut.from.frames = frames;
    cut.from.height = size->height;
    cut.from.width = size->width;
    cut.to = cut.from;
    cut.to.frames = portion->frames;
    cut.to.height = portion->lines;
    cut.part = cut.to;
    cut.first = portion->first;
    cut.from_y = portion->line;
    return cut;
}

static diti_tensor diti_given_new(diti_graph *graph, const diti_vae_portion *portion, uint32_t width,
                                  uint32_t columns) {
    return diti_tensor_new(graph, DITI_F32, portion->frames * portion->lines * width, columns, "part of given frames");
}

/* Encodes a share's part of a chunk: the first one sends pixels to all others, and puts the moments that come back to
   their lines. rows, moments: of the chunk, on the first one. */
static void diti_given_encode_part(const diti_share *share, diti_graph *graph, diti_vae_clip *clip,
                                   const diti_vae_chunk *chunk, diti_tensor rows, diti_tensor moments,
                                   uint32_t columns) {
    const diti_job_request *request = &share->job->request;
    diti_video pixels = {0, request->shape.height, request->shape.width},
               latent = {0, request->latent_height, request->latent_width};
    uint32_t self = share->assignment.share, i;
    diti_tensor parts[DITI_MAX_DEVICES];
    diti_vae_portion portion;
    diti_place_desc place;
    if (diti_ranks_count(&clip->group) == 1) {
        diti_copy(graph, diti_vae_clip_run(clip, chunk, rows), moments, "moments");
        return;
    }
    for (i = clip->group.count; i-- > 0 && !diti_graph_failed(graph);) {
        portion = diti_vae_clip_portion(clip, chunk, i, false);
        parts[i] = (i == self || !self) && portion.frames ? diti_given_new(graph, &portion, pixels.width, 3) : 0;
        if (self || !parts[i] || diti_graph_failed(graph)) continue;
        place = diti_given_part(&portion, chunk->frames, &pixels);
        place.out = parts[i];
        diti_place_frames(graph, rows, &place);
        if (i) diti_send(graph, parts[i], i);
    }
    if (self && parts[self]) diti_receive(graph, parts[self], 0);
    parts[self] = diti_vae_clip_run(clip, chunk, parts[self]);
    for (i = 0; i < clip->group.count && !diti_graph_failed(graph); i++) {
        portion = diti_vae_clip_portion(clip, chunk, i, true);
        if (!portion.frames || (self && i != self)) continue;
        if (self) {
            diti_send(graph, parts[self], 0);
            continue;
        }
        if (i) {
            parts[i] = diti_given_new(graph, &portion, latent.width, columns);
            diti_receive(graph, parts[i], i);
        }
        place = diti_given_part(&portion, chunk->out_frames, &latent);
        place.to = place.from;
        place.to.frames = portion.frames;
        place.from = place.part;
        place.first = place.from_y = 0;
        place.y = portion.line;
        place.out = diti_tensor_view(graph, moments, portion.first * latent.height * latent.width,
                                     portion.frames * latent.height * latent.width, 0, columns);
        diti_place_frames(graph, parts[i], &place);
    }
}

DIT_INTERNAL diti_tensor diti_given_encode(diti_share *share, diti_graph *graph, uint32_t index) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    const diti_given *given = &request->shape.given[index];
    uint32_t channels = job->model->vae->traits.latent_channels, area = request->latent_width * request->latent_height,
             rows = given->latent_frames * area, i;
    diti_video size = {given->frames, request->shape.height, request->shape.width};
    diti_ranks group = diti_decode_group(share);
    bool first = share->assignment.share == 0;
    diti_tensor moments = 0, noise = 0;
    diti_vae_clip clip;
    diti_vae_chunk chunk;
    if (!diti_vae_clip_begin(&clip, job->model->vae, graph, true, &size, request->shape.vae_tile, 0)) return 0;
    if (!diti_vae_clip_divide(&clip, &group)) return 0;
    if (first) {
        share->program.given_pixels[index] = diti_given_input(share, graph, index);
        noise = diti_tensor_input(graph, DITI_F32, rows, channels, "given noise");
        share->program.given_noise[index][1] = noise;
        moments = diti_tensor_new(graph, DITI_F32, rows, 2 * channels, "moments");
    }
    if (diti_vae_draws_inside(job->model->vae))
        clip.noise = share->program.given_noise[index][0] =
            diti_tensor_input(graph, DITI_F32, given->frames * area, channels, "given noise of pictures");
    for (i = 0; diti_vae_clip_chunk(&clip, i, &chunk) && !diti_graph_failed(graph); i++)
        diti_given_encode_part(
            share, graph, &clip, &chunk, first ? diti_given_rows(share, graph, index, &chunk) : 0,
            first ? diti_tensor_view(graph, moments, chunk.out_first * area, chunk.out_frames * area, 0, 2 * channels)
                  : 0,
            2 * channels);
    if (!first || diti_graph_failed(graph)) return 0;
    size.frames = given->latent_frames;
    size.height = request->latent_height;
    size.width = request->latent_width;
    return diti_latent_planes(job->model->vae, graph, diti_draw(graph, moments, noise, 1, "draw given latents"), &size,
                              request->shape.moves);
}

/* count latent frames of one set of planes become those of another. */
static void diti_given_copy(const diti_share *share, diti_graph *graph, diti_tensor from, uint32_t from_frame,
                            diti_tensor to, uint32_t to_frame, uint32_t count) {
    uint32_t area = share->job->request.latent_width * share->job->request.latent_height,
             rows = diti_tensor_rows(graph, from);
    diti_copy(graph, diti_tensor_view(graph, from, 0, rows, from_frame * area, count * area),
              diti_tensor_view(graph, to, 0, rows, to_frame * area, count * area), "given frames");
}

/* Ones in one frame of some of the mask's channels. */
static void diti_given_mark(const diti_share *share, diti_graph *graph, uint32_t channel, uint32_t count,
                            uint32_t frame) {
    uint32_t area = share->job->request.latent_width * share->job->request.latent_height;
    diti_elementwise_desc ones = DITI_ZERO;
    ones.offset = 1;
    ones.out = diti_tensor_view(graph, share->program.condition, channel, count, frame * area, area);
    ones.name = "mask of given frames";
    diti_elementwise(graph, ones.out, &ones);
}

/* The mask tells which frames are given, as many as it has channels in a latent frame, but for the first one, which is
   one frame. Behind it stands the latent of the whole clip. */
static void diti_given_emit_mask(const diti_share *share, diti_graph *graph, diti_tensor clip) {
    const diti_job_request *request = &share->job->request;
    uint32_t masks = share->job->model->transformer->traits.mask_channels,
             plane = (uint32_t)diti_request_plane(request);
    diti_fill_zeros(graph, share->program.condition);
    diti_given_mark(share, graph, 0, masks, 0);
    if (request->shape.given[0].pictures > 1)
        diti_given_mark(share, graph, masks - 1, 1, request->shape.latent_frames - 1);
    diti_copy(graph, clip,
              diti_tensor_view(graph, share->program.condition, masks, diti_tensor_rows(graph, clip), 0, plane),
              "given frames");
}

/* The picture that a model moves is its condition's first frame, also where frames in front only fill patches. */
static void diti_given_emit_condition(diti_share *share, diti_graph *graph) {
    const diti_job_request *request = &share->job->request;
    diti_tensor first;
    uint32_t plane = (uint32_t)diti_request_plane(request),
             channels = share->job->model->transformer->traits.condition_channels,
             masks = share->job->model->transformer->traits.mask_channels;
    bool marks = share->job->model->transformer->traits.marks_given;
    share->program.condition = diti_tensor_state(graph, DITI_F32, channels, plane, "condition");
    first = diti_given_encode(share, graph, 0);
    if (first) {
        if (masks)
            diti_given_emit_mask(share, graph, first);
        else
            diti_given_copy(share, graph, first, 0, share->program.condition, 0, 1);
        if (marks) diti_given_mark(share, graph, channels - 1, 1, 0);
    }
    diti_broadcast(graph, &share->assignment.all, 0, share->program.condition);
}

/* The picture that is the first latent frame of every clip. */
static void diti_given_emit_first(diti_share *share, diti_graph *graph) {
    const diti_job_request *request = &share->job->request;
    diti_tensor first;
    share->program.first = diti_tensor_state(graph, DITI_F32, share->job->model->transformer->traits.latent_channels,
                                             request->latent_width * request->latent_height, "given frame");
    first = diti_given_encode(share, graph, 0);
    if (first) diti_copy(graph, first, share->program.first, "given frame");
    diti_broadcast(graph, &share->assignment.all, 0, share->program.first);
}

DIT_INTERNAL void diti_given_fix(const diti_share *share, diti_graph *graph, diti_tensor latent, diti_tensor noise) {
    uint32_t channels = diti_tensor_rows(graph, share->program.first), image,
             area = diti_tensor_columns(graph, share->program.first);
    diti_elementwise_desc desc = DITI_ZERO;
    desc.name = "given frame";
    if (noise)
        desc.add = diti_tensor_view(graph, diti_tensor_reshape(graph, noise, channels, diti_padded(area)), 0, channels,
                                    0, area);
    for (image = 0; image < share->job->request.shape.image_count && !diti_graph_failed(graph); image++) {
        desc.out = diti_tensor_view(graph, latent, image * channels, channels, 0, area);
        diti_elementwise(graph, share->program.first, &desc);
    }
}

DIT_INTERNAL void diti_given_emit(diti_share *share, diti_graph *graph, const diti_solver_desc *states) {
    const diti_job_shape *shape = &share->job->request.shape;
    diti_tensor latents[DITI_JOB_MAX_GIVEN], first;
    uint32_t i;
    if (shape->moves) {
        diti_given_emit_condition(share, graph);
        return;
    }
    if (shape->fixes) {
        diti_given_emit_first(share, graph);
        return;
    }
    if (shape->starts) {
        latents[0] = diti_tensor_new(graph, DITI_F32, diti_tensor_rows(graph, states->x),
                                     diti_tensor_columns(graph, states->x), "start latent");
        first = diti_given_encode(share, graph, 0);
        if (first) diti_copy(graph, first, latents[0], "start latent");
        diti_broadcast(graph, &share->assignment.all, 0, latents[0]);
        diti_start_begin(share, graph, states, latents[0]);
        return;
    }
    diti_copy(graph, share->program.noise, states->x, "start from noise");
    for (i = 0; i < shape->given_count && !diti_graph_failed(graph); i++)
        latents[i] = diti_given_encode(share, graph, i);
    if (share->assignment.share == 0) {
        for (i = 0; i < shape->hold_count && !diti_graph_failed(graph); i++)
            diti_given_copy(share, graph, latents[shape->holds[i].given], shape->holds[i].from, states->x,
                            shape->holds[i].to, shape->holds[i].count);
    }
    diti_broadcast(graph, &share->assignment.all, 0, states->x);
}

/* --- host inputs --- */

static void diti_given_pack_bytes(const dit_image *images, uint32_t frames, uint8_t *out) {
    uint32_t frame, y;
    for (frame = 0; frame < frames; frame++) {
        size_t line = (size_t)images[frame].width * 4, pitch = images[frame].row_pitch ? images[frame].row_pitch : line;
        for (y = 0; y < images[frame].height; y++, out += line) memcpy(out, images[frame].rgba + y * pitch, line);
    }
}

/* A picture of floats, in -1..1. */
static void diti_given_pack_floats(const dit_image *image, float *out) {
    size_t values = (size_t)image->width * 3, pitch = image->row_pitch ? image->row_pitch : values * sizeof *out, y, x;
    for (y = 0; y < image->height; y++, out += values) {
        memcpy(out, (const uint8_t *)(const void *)image->rgb + y * pitch, values * sizeof *out);
        for (x = 0; x < values; x++) out[x] = 2 * out[x] - 1;
    }
}

/* Bytes of a picture as floats in -1..1. */
static void diti_given_spread_bytes(const dit_image *image, float *out) {
    size_t pitch = image->row_pitch ? image->row_pitch : (size_t)image->width * 4, x, y, c;
    for (y = 0; y < image->height; y++)
        for (x = 0; x < image->width; x++)
            for (c = 0; c < 3; c++) *out++ = (float)image->rgba[y * pitch + 4 * x + c] / 127.5f - 1;
}

/* Pictures as floats in the frames of a clip [frames, height, width, 3] that is grey otherwise. */
static void diti_given_pack_frames(const diti_given *given, const dit_image *images, float *out) {
    size_t frame = (size_t)images[0].width * images[0].height * 3;
    uint32_t i;
    for (i = 0; i < given->pictures; i++) {
        float *to = out + (i ? given->frames - given->pictures + i : 0) * frame;
        if (images[i].rgb)
            diti_given_pack_floats(&images[i], to);
        else
            diti_given_spread_bytes(&images[i], to);
    }
}

static dit_result diti_given_write_pixels(diti_share *share, uint32_t index, dit_error *err) {
    const dit_job *job = share->job;
    const diti_given *given = &job->request.shape.given[index];
    const dit_image *images = job->request.given_images[index];
    size_t pixels = (size_t)job->request.shape.width * job->request.shape.height * given->frames,
           bytes = pixels * (given->floats ? 3 * sizeof(float) : 4);
    void *packed;
    dit_result result;
    if (given->continues)
        return diti_plan_write(share->program.plan, share->program.given_pixels[index], job->request.previous, bytes,
                               err);
    packed = diti_alloc(&job->env, bytes);
    if (!packed) return diti_fail_memory(err, "given frames");
    memset(packed, 0, bytes);
    if (given->floats)
        diti_given_pack_frames(given, images, (float *)packed);
    else
        diti_given_pack_bytes(images, given->frames, (uint8_t *)packed);
    result = diti_plan_write(share->program.plan, share->program.given_pixels[index], packed, bytes, err);
    diti_free(&job->env, packed);
    return result;
}

DIT_INTERNAL dit_result diti_given_write(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    const diti_tensor *patches = share->program.text.patches;
    bool first = share->assignment.share == 0;
    size_t at = 0;
    uint32_t i;
    for (i = 0; first && i < DITI_COUNT(share->program.text.patches) && patches[i]; i++)
        DITI_TRY(diti_clip_vision_write(job->model->image_encoder, share->program.plan, patches[i],
                                        &request->given_images[0][i], err));
    for (i = 0; i < request->shape.given_count; i++) {
        const diti_given *given = &request->shape.given[i];
        size_t inside = diti_given_noise_values(job->model, request, given, true),
               last = diti_given_noise_values(job->model, request, given, false);
        if (share->program.given_noise[i][0]) /* all who encode pictures draw */
            DITI_TRY(diti_plan_write(share->program.plan, share->program.given_noise[i][0], request->given_noise + at,
                                     inside * sizeof(float), err));
        if (first) {
            if (!request->shape.branch) DITI_TRY(diti_given_write_pixels(share, i, err)); /* branch.c writes those */
            DITI_TRY(diti_plan_write(share->program.plan, share->program.given_noise[i][1],
                                     request->given_noise + at + inside, last * sizeof(float), err));
        }
        at += inside + last;
    }
    return DIT_OK;
}

/* A row for each step: for every frame of every evaluated clip the row of the timestep's table. */
DIT_INTERNAL dit_result diti_given_write_frame_steps(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    uint32_t frames = request->shape.latent_frames, steps = request->shape.steps, step, i, first,
             own = diti_axes_frames(&share->assignment.axes, frames, &first),
             columns = share->assignment.branches * request->shape.image_count * own;
    uint32_t *rows = (uint32_t *)diti_alloc_array(&share->job->env, (size_t)steps * columns, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the steps of frames");
    for (step = 0; step < steps; step++)
        for (i = 0; i < columns; i++) {
            uint32_t frame = first + i % own;
            bool fresh =
                request->frame_steps ? request->frame_steps[(size_t)step * frames + frame].fresh > 0 : frame > 0;
            rows[(size_t)step * columns + i] = fresh ? step : steps;
        }
    result = diti_plan_write(share->program.plan, share->program.frame_steps, rows,
                             (size_t)steps * columns * sizeof *rows, err);
    diti_free(&share->job->env, rows);
    return result;
}
