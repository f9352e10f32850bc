/* --resume: what an interrupted picture or clip had finished is kept in OUTPUT.resume, and the same command goes on
   from there. The file has a sum of all that follows it, the text of the parameters, how many numbered frames are
   written, and what dit_job_save_state gave. Include it after repeat.h. Not part of dit.h. */
#ifndef RESUME_H
#define RESUME_H

static const char resume_magic[] = "dit --resume 1\n";
enum { RESUME_MAGIC = sizeof resume_magic - 1, RESUME_HEAD = RESUME_MAGIC + 16, RESUME_SECONDS = 2 };

static void free_resume(app *a) {
    free(a->resume.text);
    free(a->resume.file);
    memset(&a->resume, 0, sizeof a->resume);
}

/* Which parameter differs, "Steps: 20" of the first text and "Steps: 30" of the second one. */
static void find_difference(const char *one, const char *other, char *first, char *second, size_t size) {
    size_t same = 0, begin;
    while (one[same] && one[same] == other[same]) same++;
    begin = same;
    while (begin && one[begin - 1] != '\n' && strncmp(one + begin - 1, ", ", 2) != 0) begin--;
    while (one[begin] == ' ') begin++;
    snprintf(first, size, "%.*s", (int)strcspn(one + begin, ",\n"), one + begin);
    snprintf(second, size, "%.*s", (int)strcspn(other + begin, ",\n"), other + begin);
}

static int take_resume(app *a, size_t size) {
    unsigned char *file = a->resume.file;
    char *text, was[80], now_is[80];
    uint64_t sum = 0;
    uint32_t length = 0;
    int code = EXIT_GOOD;
    if (size > RESUME_HEAD) {
        memcpy(&sum, file + RESUME_MAGIC, 8);
        memcpy(&a->resume.frames, file + RESUME_MAGIC + 8, 4);
        memcpy(&length, file + RESUME_MAGIC + 12, 4);
    }
    if (size <= RESUME_HEAD || memcmp(file, resume_magic, RESUME_MAGIC) != 0 || length > size - RESUME_HEAD ||
        sum != fnv1a(file + RESUME_MAGIC + 8, size - RESUME_MAGIC - 8))
        return complain(EXIT_INPUT, "--resume %s: it is damaged, or no file of --resume; delete it to begin anew",
                        a->resume.path);
    text = malloc((size_t)length + 1);
    if (!text) return complain(EXIT_MEMORY, "out of memory");
    memcpy(text, file + RESUME_HEAD, length);
    text[length] = 0;
    if (strcmp(text, a->resume.text) != 0) {
        find_difference(text, a->resume.text, was, now_is, sizeof was);
        code = complain(EXIT_INPUT,
                        "--resume %s: it was made with other options, \"%s\" and not \"%s\"; give these, or delete "
                        "it to begin anew",
                        a->resume.path, was, now_is);
    }
    free(text);
    a->resume.state = file + RESUME_HEAD + length;
    a->resume.state_size = size - RESUME_HEAD - length;
    return code;
}

/* Before weights are loaded; the device must be known. */
static int read_resume(app *a) {
    size_t size = 0;
    free_resume(a);
    if (!a->o.resumable) return EXIT_GOOD;
    a->resume.text = parameters_text(a, 0);
    if (!a->resume.text) return complain(EXIT_MEMORY, "out of memory");
    picture_path(a->o.output, a->first_picture, makes_clip(a), a->resume.path, sizeof a->resume.path - 8);
    strcat(a->resume.path, ".resume");
    if (!file_exists(a->resume.path)) return EXIT_GOOD;
    a->resume.file = read_file(a->resume.path, &size);
    if (!a->resume.file)
        return complain(EXIT_INPUT, "--resume %s: %s; delete it to begin anew", a->resume.path, told_reason(errno));
    return take_resume(a, size);
}

static void tell_resume(app *a) {
    dit_status status = {0};
    if (!a->resume.state) return;
    a->resume.kept = true;
    dit_job_status(a->job, &status, NULL);
    a->resume.step = status.step;
    if (a->o.quiet) return;
    close_line(a);
    fprintf(stderr, "dit: going on behind step %u of %u (%s)\n", status.step, status.step_count, a->resume.path);
}

/* The newest state into the file, in place of the one before; false: it cannot be written. */
static bool write_resume(app *a) {
    const uint32_t length = (uint32_t)strlen(a->resume.text), written = a->clip.path ? a->clip.written : 0,
                   frames = written > a->resume.frames ? written : a->resume.frames;
    size_t size = 0, head = RESUME_HEAD + length;
    unsigned char *file = NULL;
    uint64_t sum;
    bool good = true;
    if (dit_job_save_state(a->job, NULL, &size, NULL) == DIT_OK) file = malloc(head + size);
    if (!file) return errno = ENOMEM, false;
    if (dit_job_save_state(a->job, file + head, &size, NULL) == DIT_OK) {
        memcpy(file, resume_magic, RESUME_MAGIC);
        memcpy(file + RESUME_MAGIC + 8, &frames, 4);
        memcpy(file + RESUME_MAGIC + 12, &length, 4);
        memcpy(file + RESUME_HEAD, a->resume.text, length);
        sum = fnv1a(file + RESUME_MAGIC + 8, head + size - RESUME_MAGIC - 8);
        memcpy(file + RESUME_MAGIC, &sum, 8);
        good = write_file(a->resume.path, file, head + size);
        a->resume.kept = a->resume.kept || good;
    }
    free(file);
    return good;
}

/* Behind a step; where steps are short, not behind each. */
static void keep_resume(app *a, const dit_status *status, bool last) {
    if (!a->resume.text || (!last && (status->step <= a->resume.step || now() - a->resume.at < RESUME_SECONDS))) return;
    if (!last || status->step) {
        if (!write_resume(a)) {
            close_line(a);
            complain(EXIT_OUTPUT, "cannot write %s: %s; going on without --resume", a->resume.path, told_reason(errno));
            free_resume(a);
            return;
        }
        a->resume.step = status->step;
        a->resume.at = now();
    }
    if (!last || !a->resume.kept || a->o.quiet) return;
    close_line(a);
    fprintf(stderr, "dit: %s keeps what is finished; the same command goes on\n", a->resume.path);
}

/* The picture or clip is there. */
static void end_resume(app *a) {
    if (a->resume.text) remove(a->resume.path);
    free_resume(a);
}
#endif
