/* build/dit-compare: where two configurations of `dit` part, or one and a dump of PyTorch. docs/compare.md describes
   it.

   Both configurations are prepared as `dit` would (compare_run.h), with a job each whose slices have one op each. The
   first one runs in a thread of its own and hands over the result of each op that both have; the second one, when it
   comes to that op, compares (compare_stats.h) and lets the first go on. No more than one result of each is held. */
#define PROGRAM_SAYS "dit-compare: "
#include "compare_stats.h"
#include "compare_run.h"
#include "compare_report.h"
#include "compare_sheet.h"

static const char compare_help[] = "usage: dit-compare --a \"FLAGS\" --b \"FLAGS\" [FLAGS of both] [options]\n"
                                   "       dit-compare --against FILE [FLAGS] [options]\n"
                                   "       dit-compare sheet --column \"NAME: FLAGS\" ... --row PROMPT ... [FLAGS]\n"
                                   "\n"
                                   "FLAGS are those of `dit`: -p, -m, -W, -H, --class, --seed, --steps, --type,\n"
                                   "--cache, --split, --device, --device-memory, --weight-budget, ...; and\n"
                                   "      --rung R            base fp16 half coop coop2, for this configuration alone\n"
                                   "      --override K=V      as in dit_context_desc.overrides; may be repeated\n"
                                   "\n"
                                   "Options:\n"
                                   "      --limit X           relative L2 past which results part (default: 1e-3)\n"
                                   "      --only-steps LIST   steps to look at, as 1,5-7 (default: all)\n"
                                   "      --ops GLOB          ops to look at, as \"*block 7/*\" (default: all)\n"
                                   "      --against FILE      a dump of tools/compare/hook.py, or of the next two\n"
                                   "      --dump FILE         whole tensors of the ops looked at, as safetensors\n"
                                   "      --dump-statistics FILE  600 bytes for each of them in place of the tensor\n"
                                   "      --list              name the ops, and compare nothing\n"
                                   "  -o, --output FILE.html  the page (default: none; of sheet: also FILE.png)\n"
                                   "      --json              all results as JSON on standard output\n"
                                   "  -h, --help, --version   show this, or the version\n"
                                   "\n"
                                   "Exit codes: 0 the same within the limit, 10 they part, 2 wrong usage, 3 model or\n"
                                   "input file, 4 output, 5 device, 6 out of memory, 1 anything else.\n";

enum { EXIT_PARTED = 10, MOST_STEPS = 1024 };

/* ---- options ---- */

typedef struct compare_options {
    const char *a, *b, *against, *limit_text, *steps, *ops, *dump, *statistics, *output;
    double limit;
    bool json, list, help;
    char *common[96]; /* words for both */
    int common_count;
} compare_options;

static const struct compare_option {
    const char *name, *letter;
    size_t text, flag; /* offsets; flag 0: it is a text */
} compare_table[] = {
    {"--a", NULL, offsetof(compare_options, a), 0},
    {"--b", NULL, offsetof(compare_options, b), 0},
    {"--against", NULL, offsetof(compare_options, against), 0},
    {"--limit", NULL, offsetof(compare_options, limit_text), 0},
    {"--only-steps", NULL, offsetof(compare_options, steps), 0},
    {"--ops", NULL, offsetof(compare_options, ops), 0},
    {"--dump", NULL, offsetof(compare_options, dump), 0},
    {"--dump-statistics", NULL, offsetof(compare_options, statistics), 0},
    {"--output", "-o", offsetof(compare_options, output), 0},
    {"--json", NULL, 0, offsetof(compare_options, json)},
    {"--list", NULL, 0, offsetof(compare_options, list)},
    {"--help", "-h", 0, offsetof(compare_options, help)},
};

static const struct compare_option *find_compare_option(const char *word, size_t length) {
    size_t i;
    for (i = 0; i < DITI_COUNT(compare_table); i++)
        if ((strlen(compare_table[i].name) == length && !strncmp(word, compare_table[i].name, length)) ||
            (compare_table[i].letter && !strcmp(word, compare_table[i].letter)))
            return &compare_table[i];
    return NULL;
}

/* Words that this program does not know are options of `dit`, for both configurations. */
static int take_compare_options(int argc, char **argv, compare_options *o) {
    int i;
    for (i = 1; i < argc; i++) {
        const size_t length = argv[i][0] == '-' && argv[i][1] == '-' ? strcspn(argv[i], "=") : strlen(argv[i]);
        const struct compare_option *known = find_compare_option(argv[i], length);
        if (!known) {
            if (o->common_count == (int)DITI_COUNT(o->common)) return complain(EXIT_USAGE, "too many options");
            o->common[o->common_count++] = argv[i];
        } else if (known->flag) {
            *(bool *)(void *)((char *)o + known->flag) = true;
        } else {
            const char *value = argv[i][length] ? argv[i] + length + 1 : i + 1 < argc ? argv[++i] : NULL;
            const char **text = (const char **)(void *)((char *)o + known->text);
            if (!value) return complain(EXIT_USAGE, "%s needs a value", argv[i]);
            if (*text) return complain(EXIT_USAGE, "%s: it is given twice; leave one of them out", known->name);
            *text = value;
        }
    }
    return EXIT_GOOD;
}

/* "1,5-7" into marks by step, counted from 0. */
static bool take_steps(const char *text, bool *marks) {
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text) return false;
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text) return false;
        }
        if (!first || last < first || last > MOST_STEPS || (*end && *end != ',')) return false;
        for (; first <= last; first++) marks[first - 1] = true;
        text = *end ? end + 1 : end;
    }
    return true;
}

static int check_compare_options(compare_options *o, bool *steps) {
    char *end;
    size_t i;
    o->limit = 1e-3;
    if (o->limit_text) {
        o->limit = strtod(o->limit_text, &end);
        if (end == o->limit_text || *end || !(o->limit >= 0) || !isfinite(o->limit))
            return complain(EXIT_USAGE, "--limit %s: must be a number from 0 on, such as 1e-3", o->limit_text);
    }
    if (o->output && why_not_writable(o->output)) /* before anything runs */
        return complain(EXIT_OUTPUT, "--output %s: %s", o->output, why_not_writable(o->output));
    for (i = 0; i < MOST_STEPS; i++) steps[i] = !o->steps;
    if (o->steps && !take_steps(o->steps, steps))
        return complain(EXIT_USAGE, "--only-steps %s: must be steps from 1 to %d, such as 1,5-7", o->steps, MOST_STEPS);
    if (o->against && (o->a || o->b))
        return complain(EXIT_USAGE, "--against: one configuration is held against a file; leave out --a and --b");
    if (!o->against && !o->a && !o->b && !o->dump && !o->statistics && !o->list)
        return complain(
            EXIT_USAGE,
            "what shall be compared? Say --a \"...\" and --b \"...\", or --against FILE; --help shows more");
    if (o->b && !o->a)
        return complain(EXIT_USAGE,
                        "--b \"%s\": there is nothing to compare it with; say --a, too (--a \"\" adds nothing)", o->b);
    if (o->a && !o->b && !o->dump && !o->statistics && !o->list)
        return complain(EXIT_USAGE,
                        "--a \"%s\": there is nothing to compare it with; say --b, too (--b \"\" adds nothing)", o->a);
    return check_page_name(o->output, false);
}

/* ---- comparing ---- */

static bool wants_moment(const comparison *c, const op *o, const moment *at) {
    return (at->phase != 1000 || at->round >= MOST_STEPS || c->steps[at->round]) && o->wanted;
}

static void keep_record(comparison *c, const moment *at, const tensor_stats *stats) {
    record *r;
    if (c->record_count == c->record_room) {
        record *more = realloc(c->records, (2 * c->record_room + 1024) * sizeof *more);
        if (!more) {
            c->lacks_memory = true;
            return;
        }
        c->records = more;
        c->record_room = 2 * c->record_room + 1024;
    }
    r = &c->records[c->record_count++];
    r->at = *at;
    r->stats = *stats;
}

static void compare_values(comparison *c, const op *o, const moment *at, const float *a, const float *b) {
    const tensor_stats stats = compare_tensors(a, b, (size_t)o->rows * o->columns);
    keep_record(c, at, &stats);
}

static int compare_moments(const moment *a, const moment *b) {
    if (a->phase != b->phase) return a->phase < b->phase ? -1 : 1;
    if (a->round != b->round) return a->round < b->round ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

/* ---- two configurations, one of them in a thread of its own ---- */

/* The first configuration has a result, and waits until it is taken. */
static void hand_over(side *s, const op *o, const moment *at, const float *values, void *user) {
    comparison *c = user;
    (void)s;
    if (!wants_moment(c, o, at)) return;
    dump_add(&c->dump, o, at, values);
    dump_add(&c->statistics, o, at, values);
    mutex_lock(&c->lock);
    if (!c->drained) {
        c->at = *at;
        c->values = values;
        c->full = true;
        condition_tell(&c->changed);
    }
    while (c->full && !c->drained) condition_wait(&c->changed, &c->lock);
    c->full = false;
    mutex_unlock(&c->lock);
}

/* The second one has a result: those of the first that come before it have no counterpart (a step that runs again). */
static void take_over(side *s, const op *o, const moment *at, const float *values, void *user) {
    comparison *c = user;
    (void)s;
    if (!wants_moment(c, o, at)) return;
    mutex_lock(&c->lock);
    for (;;) {
        int order;
        while (!c->full && !c->over) condition_wait(&c->changed, &c->lock);
        order = c->full ? compare_moments(&c->at, at) : 1;
        if (order == 0) compare_values(c, o, at, c->values, values);
        if (order > 0) break;
        c->full = false;
        condition_tell(&c->changed);
        if (order == 0) break;
    }
    mutex_unlock(&c->lock);
}

static void run_first(comparison *c) {
    c->first_code = side_run(&c->sides[0]);
    mutex_lock(&c->lock);
    c->over = true;
    condition_tell(&c->changed);
    mutex_unlock(&c->lock);
}

static int run_both(comparison *c) {
    thread_id thread;
    int code;
    mutex_make(&c->lock);
    condition_make(&c->changed);
    side_watch(&c->sides[0], 0, hand_over, c);
    side_watch(&c->sides[1], 1, take_over, c);
    if (!thread_start(&thread, run_first, c)) return complain(EXIT_OTHER, "no thread could be started");
    code = side_run(&c->sides[1]);
    mutex_lock(&c->lock);
    c->drained = true;
    condition_tell(&c->changed);
    mutex_unlock(&c->lock);
    if (code) dit_job_cancel(c->sides[0].a.job);
    thread_join(thread);
    return code ? code : c->first_code;
}

/* ---- one configuration, and a file or nothing ---- */

static void hold_against(side *s, const op *o, const moment *at, const float *values, void *user) {
    comparison *c = user;
    tensor_stats stats;
    (void)s;
    if (!wants_moment(c, o, at)) return;
    dump_add(&c->dump, o, at, values);
    dump_add(&c->statistics, o, at, values);
    if (!c->reference.checkpoint) return;
    if (c->reference.statistics) {
        if (reference_measure(&c->reference, s, o, at, values, &stats)) keep_record(c, at, &stats);
        return;
    }
    if (reference_find(&c->reference, s, o, at, values)) compare_values(c, o, at, c->reference.values, values);
}

static int run_alone(comparison *c) {
    side_watch(&c->sides[0], 0, hold_against, c);
    return side_run(&c->sides[0]);
}

/* ---- the whole ---- */

/* Ops that are looked at: all of one name pattern, in pairs where there are two configurations. */
static int choose_ops(comparison *c, const compare_options *o) {
    uint32_t k, i, chosen = 0;
    for (k = 0; k < c->side_count; k++) {
        side *s = &c->sides[k];
        for (i = 0; i < s->op_count; i++) {
            op *x = &s->ops[i];
            x->wanted = (c->side_count == 1 || x->pair != UINT32_MAX) && (!o->ops || name_matches(o->ops, x->name));
            chosen += x->wanted;
        }
    }
    if (!chosen && o->ops)
        return complain(EXIT_USAGE, "--ops %s: no op of that name is looked at; --list shows them", o->ops);
    return EXIT_GOOD;
}

static void list_ops(const side *s) {
    uint32_t i;
    for (i = 0; i < s->op_count; i++)
        printf("%s  [%u, %u]%s%s\n", s->ops[i].name, s->ops[i].rows, s->ops[i].columns, s->ops[i].weight[0] ? "  " : "",
               s->ops[i].weight);
}

/* Steps of other numbers or tables cannot be held against each other. */
static bool steps_differ(const comparison *c) {
    const diti_job_request *a = &c->sides[0].a.job->request, *b = &c->sides[1].a.job->request;
    return a->shape.steps != b->shape.steps;
}

/* Latents and pictures can be compared where they have as many numbers. */
static int check_sizes_alike(const app *a, const app *b) {
    if (a->r.width != b->r.width || a->r.height != b->r.height)
        return complain(EXIT_USAGE,
                        "--a makes %ux%u pixels and --b %ux%u, which cannot be compared; give both one size",
                        a->r.width, a->r.height, b->r.width, b->r.height);
    if (a->r.frames != b->r.frames)
        return complain(EXIT_USAGE, "--a makes %u frames and --b %u, which cannot be compared; give both as many",
                        a->r.frames, b->r.frames);
    if (a->info.latent_channels != b->info.latent_channels || a->info.latent_factor != b->info.latent_factor)
        return complain(EXIT_USAGE,
                        "--a's latent has %u channels of %ux%u pixels and --b's %u of %ux%u, which cannot be "
                        "compared; name models with one kind of VAE",
                        a->info.latent_channels, a->info.latent_factor, a->info.latent_factor, b->info.latent_channels,
                        b->info.latent_factor, b->info.latent_factor);
    return EXIT_GOOD;
}

static uint32_t step_count(const app *a) { return a->r.steps ? a->r.steps : a->info.default_steps; }

/* Steps that are named must be there in each configuration. */
static int check_only_steps(const comparison *c, const char *named) {
    const uint32_t count = step_count(&c->sides[0].a), other = step_count(&c->sides[c->side_count - 1].a);
    uint32_t i;
    if (named && count != other)
        return complain(EXIT_USAGE,
                        "--only-steps %s: --a has %u steps and --b %u, and no step of other numbers is compared; "
                        "give both as many",
                        named, count, other);
    for (i = count; named && i < MOST_STEPS; i++)
        if (c->steps[i])
            return complain(EXIT_USAGE, "--only-steps %s: there is no step %u, but 1 to %u", named, i + 1, count);
    return EXIT_GOOD;
}

/* All is checked before the first configuration is loaded. */
static int check_sides(comparison *c, compare_options *o) {
    const named_path outputs[] = {{"--dump", o->dump}, {"--dump-statistics", o->statistics}, {"--output", o->output}},
                     against = {"--against", o->against};
    const char *flags[2];
    char why[2 * PATH_SIZE];
    uint32_t k;
    int code = EXIT_GOOD;
    flags[0] = o->a ? o->a : "";
    flags[1] = o->b ? o->b : "";
    for (k = 0; k < c->side_count && !code; k++) {
        c->sides[k].title = flags[k];
        code = side_options(&c->sides[k], flags[k], o->common, o->common_count);
        if (!code) code = side_check(&c->sides[k], outputs, DITI_COUNT(outputs));
    }
    if (!code && find_overwritten(outputs, DITI_COUNT(outputs), &against, 1, why, sizeof why))
        code = complain(EXIT_USAGE, "%s", why);
    if (!code && c->side_count == 2) code = check_sizes_alike(&c->sides[0].a, &c->sides[1].a);
    if (!code) code = check_only_steps(c, o->steps);
    return code;
}

static int open_sides(comparison *c) {
    uint32_t k, i;
    int code = EXIT_GOOD;
    for (k = 0; k < c->side_count && !code; k++) {
        code = side_open(&c->sides[k], true);
        if (!code) code = side_list(&c->sides[k]);
    }
    if (code || c->side_count < 2) return code;
    if (c->sides[0].a.r.seed != c->sides[1].a.r.seed)
        fprintf(stderr, "dit-compare: the seeds differ, and so do the pictures\n");
    code = pair_ops(&c->sides[0], &c->sides[1]);
    for (i = 0; i < c->sides[0].op_count && !code; i++)
        if (steps_differ(c) && c->sides[0].ops[i].pair != UINT32_MAX &&
            phase_of(&c->sides[0], c->sides[0].ops[i].segment) >= 1000) {
            c->sides[1].ops[c->sides[0].ops[i].pair].pair = UINT32_MAX;
            c->sides[0].ops[i].pair = UINT32_MAX;
        }
    return code;
}

static int compare_runs(comparison *c, compare_options *o) {
    int code = check_sides(c, o);
    if (!code) code = open_sides(c);
    if (!code && o->list) return list_ops(&c->sides[0]), finish_output(true);
    if (!code) code = choose_ops(c, o);
    if (!code && o->against) code = reference_open(&c->reference, o->against, &c->sides[0]);
    if (!code && o->dump) code = dump_open(&c->dump, "--dump", o->dump, false);
    if (!code && o->statistics) code = dump_open(&c->statistics, "--dump-statistics", o->statistics, true);
    if (!code) code = c->side_count == 2 ? run_both(c) : run_alone(c);
    if (!code && c->lacks_memory) code = complain(EXIT_MEMORY, "out of memory for the results");
    if (!code && o->against && !c->record_count)
        code = complain(EXIT_INPUT,
                        "--against %s: it has no result of the names and sizes that are looked at; --list shows them",
                        o->against);
    if (!code && o->dump) code = dump_close(&c->dump);
    if (!code && o->statistics) code = dump_close(&c->statistics);
    if (!code) code = report(c, o->output, o->json);
    if (!code) code = finish_output(true);
    if (!code && comparison_parts(c)) code = EXIT_PARTED;
    return code;
}

static void comparison_free(comparison *c) {
    uint32_t k;
    reference_close(&c->reference);
    dump_free(&c->dump);
    dump_free(&c->statistics);
    for (k = 0; k < 2; k++)
        if (c->sides[k].text) side_close(&c->sides[k]);
    free(c->records);
}

int main(int argc, char **argv) {
    static compare_options o; /* zeros */
    static comparison c;
    int code;
    end_cleanly_by_signals();
    if (tells_version(argc, argv, stdout)) return end_printing("dit-compare", EXIT_GOOD);
    if (argc > 1 && !strcmp(argv[1], "sheet")) {
        const bool help = argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"));
        if (!help) return end_printing("dit-compare", sheet_main(argc - 1, argv + 1));
        argc--, argv++; /* one text helps with sheets, too */
    }
    code = take_compare_options(argc, argv, &o);
    if (!code && (o.help || argc < 2)) return fputs(compare_help, stdout), end_printing("dit-compare", EXIT_GOOD);
    if (!code) code = check_compare_options(&o, c.steps);
    c.side_count = o.b && !o.list ? 2 : 1;
    c.limit = o.limit;
    if (!code) code = compare_runs(&c, &o);
    comparison_free(&c);
    return code;
}
