/* Results of a comparison, and how dit-compare tells them: one line, a table, JSON, a page. Include it after
   compare_run.h. Not part of dit.h. */
#ifndef COMPARE_REPORT_H
#define COMPARE_REPORT_H
#include "compare_run.h"
#include "compare_page.inc" /* build/compare_page.inc: the files of tools/compare as arrays */

/* ---- threads ---- */

#ifdef _WIN32
typedef CRITICAL_SECTION mutex;
typedef CONDITION_VARIABLE condition;
typedef HANDLE thread_id;
static void mutex_make(mutex *m) { InitializeCriticalSection(m); }
static void mutex_lock(mutex *m) { EnterCriticalSection(m); }
static void mutex_unlock(mutex *m) { LeaveCriticalSection(m); }
static void condition_make(condition *c) { InitializeConditionVariable(c); }
static void condition_tell(condition *c) { WakeAllConditionVariable(c); }
static void condition_wait(condition *c, mutex *m) { SleepConditionVariableCS(c, m, INFINITE); }
#else
typedef pthread_mutex_t mutex;
typedef pthread_cond_t condition;
typedef pthread_t thread_id;
static void mutex_make(mutex *m) { pthread_mutex_init(m, NULL); }
static void mutex_lock(mutex *m) { pthread_mutex_lock(m); }
static void mutex_unlock(mutex *m) { pthread_mutex_unlock(m); }
static void condition_make(condition *c) { pthread_cond_init(c, NULL); }
static void condition_tell(condition *c) { pthread_cond_broadcast(c); }
static void condition_wait(condition *c, mutex *m) { pthread_cond_wait(c, m); }
#endif

struct comparison;
typedef struct thread_task {
    void (*run)(struct comparison *c);
    struct comparison *c;
} thread_task;

#ifdef _WIN32
static unsigned __stdcall thread_main(void *memory) {
#else
static void *thread_main(void *memory) {
#endif
    thread_task task = *(thread_task *)memory;
    free(memory);
    task.run(task.c);
    return 0;
}

static bool thread_start(thread_id *out, void (*run)(struct comparison *c), struct comparison *c) {
    thread_task *task = malloc(sizeof *task);
    bool good = task != NULL;
    if (task) {
        task->run = run;
        task->c = c;
#ifdef _WIN32
        *out = (HANDLE)_beginthreadex(NULL, 0, thread_main, task, 0, NULL);
        good = *out != NULL;
#else
        good = pthread_create(out, NULL, thread_main, task) == 0;
#endif
    }
    if (!good) free(task);
    return good;
}

static void thread_join(thread_id thread) {
#ifdef _WIN32
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
#else
    pthread_join(thread, NULL);
#endif
}

/* ---- names ---- */

/* Whether a pattern with * and ? stands for the whole name. */
static bool name_matches(const char *pattern, const char *name) {
    for (; *pattern; pattern++, name++) {
        if (*pattern == '*') {
            for (; *name; name++)
                if (name_matches(pattern + 1, name)) return true;
            return name_matches(pattern + 1, name);
        }
        if (!*name || (*pattern != '?' && *pattern != *name)) return false;
    }
    return !*name;
}

/* The name of a result in a file: "step/block 3/attention@2" in the second step. */
static void result_name(const op *o, const moment *at, char *out, size_t size) {
    if (at->phase == 1000 || at->round)
        snprintf(out, size, "%s@%u", o->name, at->round + 1);
    else
        snprintf(out, size, "%s", o->name);
}

/* Metadata of a file of statistics, and of each shape: "dit.shape.step/block 3/attention@2" = "16,128". Each of its
   tensors has TOLD_VALUES floats. tools/compare/hook.py writes such files, too. */
#define STATISTICS_KEY "dit.statistics"
#define STATISTICS_VERSION "1"
#define STATISTICS_SHAPE "dit.shape."

/* ---- dumps: the data goes to a file without a name, behind a header that is known at the end ---- */

typedef struct tensor_dump {
    FILE *file;
    const char *option, *path;
    parameter_text header, shapes; /* shapes: metadata of a dump of statistics */
    uint64_t bytes;
    bool statistics, failed;
} tensor_dump;

static int dump_open(tensor_dump *d, const char *option, const char *path, bool statistics) {
    const char *why = why_not_writable(path);
    if (why) return complain(EXIT_OUTPUT, "%s %s: %s", option, path, why);
    d->option = option;
    d->path = path;
    d->statistics = statistics;
    d->file = tmpfile();
    return d->file ? EXIT_GOOD : complain(EXIT_OUTPUT, "%s %s: no temporary file: %s", option, path, strerror(errno));
}

/* One line of the header, and the numbers. */
static void dump_tensor(tensor_dump *d, const char *name, uint32_t rows, uint32_t columns, const float *values) {
    const uint64_t size = (uint64_t)rows * columns * sizeof *values;
    char text[160];
    json_raw(&d->header, d->header.length ? "," : "{");
    json_quote(&d->header, name);
    snprintf(text, sizeof text, ":{\"dtype\":\"F32\",\"shape\":[%u,%u],\"data_offsets\":[%llu,%llu]}", rows, columns,
             (unsigned long long)d->bytes, (unsigned long long)(d->bytes + size));
    json_raw(&d->header, text);
    d->bytes += size;
    if (fwrite(values, 1, (size_t)size, d->file) != size) d->failed = true;
}

static void dump_add(tensor_dump *d, const op *o, const moment *at, const float *values) {
    float told[TOLD_VALUES];
    char name[200], key[sizeof STATISTICS_SHAPE + 200], shape[32];
    if (!d->file) return;
    result_name(o, at, name, sizeof name);
    if (!d->statistics) {
        dump_tensor(d, name, o->rows, o->columns, values);
        return;
    }
    condense_tensor(values, (size_t)o->rows * o->columns, told);
    dump_tensor(d, name, 1, TOLD_VALUES, told);
    snprintf(key, sizeof key, STATISTICS_SHAPE "%s", name);
    snprintf(shape, sizeof shape, "%u,%u", o->rows, o->columns);
    json_raw(&d->shapes, ",");
    json_quote(&d->shapes, key);
    json_raw(&d->shapes, ":");
    json_quote(&d->shapes, shape);
}

static int dump_close(tensor_dump *d) {
    static char piece[1 << 16];
    unsigned char length[8] = {0};
    output_file out;
    size_t n;
    bool good;
    int i;
    if (d->statistics) {
        json_raw(&d->header, d->header.length ? "," : "{");
        json_raw(&d->header, "\"__metadata__\":{\"" STATISTICS_KEY "\":\"" STATISTICS_VERSION "\"");
        if (d->shapes.length) json_raw(&d->header, d->shapes.at);
        json_raw(&d->header, "}");
        if (d->shapes.length && !d->shapes.at) d->failed = true;
    }
    json_raw(&d->header, d->header.length ? "}" : "{}");
    while (d->header.at && d->header.length % 8) json_raw(&d->header, " ");
    if (!d->header.at) return complain(EXIT_MEMORY, "out of memory for the header of %s", d->path);
    for (i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)d->header.length >> (8 * i));
    if (!output_open(&out, d->path)) return complain(EXIT_OUTPUT, "%s %s: %s", d->option, d->path, strerror(errno));
    rewind(d->file);
    good = !d->failed && fwrite(length, 1, 8, out.file) == 8 &&
           fwrite(d->header.at, 1, d->header.length, out.file) == d->header.length;
    while (good && (n = fread(piece, 1, sizeof piece, d->file)) > 0) good = fwrite(piece, 1, n, out.file) == n;
    good = output_close(&out, good && !ferror(d->file));
    return good ? EXIT_GOOD : complain(EXIT_OUTPUT, "%s %s: %s", d->option, d->path, strerror(errno));
}

static void dump_free(tensor_dump *d) {
    if (d->file) fclose(d->file);
    free(d->header.at);
    free(d->shapes.at);
}

/* ---- a dump as the reference ---- */

typedef char module_name[160];
typedef struct reference_piece { /* rows of an op's result that the file has as part of a module's input */
    uint32_t op, row, rows;
    uint32_t product;     /* op that reads them */
    uint32_t part, parts; /* the module's input has the rows of so many products, one after the other */
    module_name module;
} reference_piece;
typedef struct reference {
    diti_checkpoint *checkpoint; /* NULL: there is none */
    bool statistics;             /* it has statistics in place of tensors */
    module_name *modules;        /* by op: the block whose output is its result; empty: none */
    reference_piece *pieces;
    uint32_t piece_count, found;
    float *values, *input;
    size_t room, input_room;
    dit_error err;
} reference;

/* The row of a result at which a tensor that is part of it begins; UINT32_MAX: it is no part. */
static uint32_t row_in(const diti_tensor_info *made, const diti_tensor_info *part) {
    const uint64_t apart = part->first - made->first;
    if (made->parent != part->parent || made->pitch != part->pitch || made->columns != part->columns ||
        part->first < made->first || apart % made->pitch || apart / made->pitch + part->rows > made->rows)
        return UINT32_MAX;
    return (uint32_t)(apart / made->pitch);
}

/* The op before `before` whose result has a tensor as it is read; op_count: none. */
static uint32_t maker_of(const side *s, uint32_t before, diti_tensor read, uint32_t *row) {
    uint32_t i;
    for (i = before; i-- > 0 && s->ops[i].segment == s->ops[before].segment;) {
        *row = row_in(&s->plan->tensors[s->ops[i].tensor], &s->plan->tensors[read]);
        if (*row != UINT32_MAX) return i;
    }
    return s->op_count;
}

/* The layer that a product applies: named by its own weight or bias, else by the weight that was expanded for it. */
static const char *layer_of(const side *s, const op *o) {
    const diti_dispatch *dispatch = &s->plan->sources[o->source];
    uint32_t i, k, row;
    if (o->weight[0] || dispatch->cost_kind != DITI_COST_GEMM) return o->weight;
    for (i = 0; i < dispatch->binding_count; i++) {
        if (!dispatch->bindings[i].tensor || dispatch->bindings[i].writes) continue;
        k = maker_of(s, (uint32_t)(o - s->ops), dispatch->bindings[i].tensor, &row);
        if (k < s->op_count && s->ops[k].is_weight) return s->ops[k].weight;
    }
    return "";
}

/* "blocks.3" of "transformer.blocks.3.attn.to_q" for the scope "block 3". */
static bool block_module(const char *layer, const char *name, char *out, size_t size) {
    const char *block = strstr(name, "block "), *at = layer;
    char number[24];
    if (!block) return false;
    snprintf(number, sizeof number, ".%.*s.", (int)strcspn(block + 6, "/"), block + 6);
    at = strstr(layer, number);
    if (at) snprintf(out, size, "%.*s", (int)(at - layer + (ptrdiff_t)strlen(number) - 1), layer);
    return at != NULL;
}

/* The product reads rows of an earlier op's result. Streams and branches of guidance that share a layer have a product
   each, and PyTorch one input for all of them. */
static void add_piece(reference *r, const side *s, uint32_t product, const char *layer) {
    reference_piece *piece = &r->pieces[r->piece_count];
    uint32_t i;
    piece->product = product;
    piece->rows = s->plan->tensors[s->ops[product].operand].rows;
    piece->op = maker_of(s, product, s->ops[product].operand, &piece->row);
    piece->part = 0;
    piece->parts = 1;
    snprintf(piece->module, sizeof piece->module, "%s:in", layer);
    for (i = 0; i < r->piece_count; i++) {
        reference_piece *other = &r->pieces[i];
        if (other->op == piece->op && other->row == piece->row) return; /* another layer reads them, too */
    }
    if (piece->op == s->op_count) return;
    for (i = 0; i < r->piece_count; i++) {
        reference_piece *other = &r->pieces[i];
        if (strcmp(other->module, piece->module) != 0 || other->rows != piece->rows ||
            s->ops[other->op].segment != s->ops[piece->op].segment)
            continue;
        other->parts++;
        piece->part++;
        piece->parts = other->parts;
    }
    r->piece_count++;
}

/* An input of a linear layer, as PyTorch has it, is the result of the op that made the product's operand; the output of
   a block is the result of the last op in its scope. Ops that dit.h fuses with a product have no counterpart. */
static void name_modules(reference *r, const side *s) {
    uint32_t i;
    for (i = 0; i < s->op_count; i++) {
        const op *o = &s->ops[i], *next = i + 1 < s->op_count ? &s->ops[i + 1] : NULL;
        const char *layer = o->is_weight ? "" : layer_of(s, o);
        const size_t scope = (size_t)(strrchr(o->name, '/') ? strrchr(o->name, '/') - o->name : 0);
        if (!diti_share_is_step(s->share, o->segment)) continue;
        if (*layer && o->operand) add_piece(r, s, i, layer);
        if (*layer && scope && (!next || strncmp(o->name, next->name, scope + 1)))
            block_module(layer, o->name, r->modules[i], sizeof r->modules[i]);
    }
}

/* Numbers of the tensor that an entry of the file stands for; 0: it does not say. */
static uint64_t told_elements(const reference *r, const diti_stored_tensor *tensor) {
    char key[sizeof STATISTICS_SHAPE + 260], *end;
    const char *shape;
    uint64_t count = 1;
    if (!r->statistics) return diti_stored_tensor_elements(tensor);
    snprintf(key, sizeof key, STATISTICS_SHAPE "%s", tensor->name);
    shape = diti_checkpoint_text(r->checkpoint, key);
    for (end = (char *)(uintptr_t)shape; shape; shape = end + 1) {
        uint64_t side = *shape >= '0' && *shape <= '9' ? strtoull(shape, &end, 10) : 0;
        if (!side || side > UINT32_MAX || (*end && *end != ',') || count > ((uint64_t)1 << 40) / side) return 0;
        count *= side;
        if (!*end) return count;
    }
    return 0;
}

/* Every entry of a file of statistics is looked at before anything runs. */
static int check_statistics(reference *r, const char *version) {
    const char *file = diti_checkpoint_name(r->checkpoint), *wrong;
    float told[TOLD_VALUES];
    uint32_t i;
    if (strcmp(version, STATISTICS_VERSION) != 0)
        return complain(EXIT_INPUT,
                        "--against: %s: holds statistics of version %.20s, and version " STATISTICS_VERSION
                        " is what this program reads; write them anew",
                        file, version);
    for (i = 0; i < diti_checkpoint_count(r->checkpoint); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(r->checkpoint, i);
        const uint64_t count = told_elements(r, tensor);
        if (diti_stored_tensor_elements(tensor) != TOLD_VALUES || !count)
            return complain(EXIT_INPUT,
                            "--against: %s: '%s' is damaged: %d floats and the metadata " STATISTICS_SHAPE
                            "%s with its shape are needed",
                            file, tensor->name, TOLD_VALUES, tensor->name);
        if (diti_checkpoint_read_float(r->checkpoint, tensor, told, TOLD_VALUES, &r->err) < 0)
            return complain(EXIT_INPUT, "--against: %s", r->err.message);
        wrong = told_wrong(told, count);
        if (wrong)
            return complain(EXIT_INPUT, "--against: %s: the statistics of '%s' are damaged: %s", file, tensor->name,
                            wrong);
    }
    return EXIT_GOOD;
}

static int reference_open(reference *r, const char *path, const side *s) {
    dit_source source = {0};
    const char *version;
    source.path = path;
    if (diti_checkpoint_open(&s->a.context->env, &source, &r->checkpoint, &r->err) < 0)
        return complain(EXIT_INPUT, "--against: %s", r->err.message);
    r->modules = calloc(s->op_count + 1, sizeof *r->modules);
    r->pieces = calloc(s->op_count + 1, sizeof *r->pieces);
    if (!r->modules || !r->pieces) return complain(EXIT_MEMORY, "out of memory");
    name_modules(r, s);
    version = diti_checkpoint_text(r->checkpoint, STATISTICS_KEY);
    r->statistics = version != NULL;
    return version ? check_statistics(r, version) : EXIT_GOOD;
}

static const diti_stored_tensor *reference_named(const reference *r, const side *s, const op *o, const moment *at) {
    const diti_stored_tensor *found;
    const char *module = r->modules[o - s->ops];
    char name[240];
    int part;
    result_name(o, at, name, sizeof name);
    found = diti_checkpoint_find(r->checkpoint, name);
    if (!strncmp(module, "transformer.", 12)) module += 12;
    for (part = -1; part < 2 && !found && *module && at->phase == 1000; part++) {
        snprintf(name, sizeof name, part < 0 ? "call.%u.%s" : "call.%u.%s:%d", at->round, module, part);
        found = diti_checkpoint_find(r->checkpoint, name);
        if (found && told_elements(r, found) != (uint64_t)o->rows * o->columns) found = NULL;
    }
    return found && told_elements(r, found) == (uint64_t)o->rows * o->columns ? found : NULL;
}

static bool make_room(float **values, size_t *room, size_t count) {
    if (count > *room) {
        free(*values);
        *values = malloc(count * sizeof **values);
        *room = *values ? count : 0;
    }
    return *values != NULL;
}

/* The module's input that has a piece of a result among its rows; NULL: the file has none of this size. */
static const diti_stored_tensor *piece_named(const reference *r, const reference_piece *piece, const op *o,
                                             const moment *at) {
    const diti_stored_tensor *found;
    const char *module = piece->module;
    char name[240];
    if (!strncmp(module, "transformer.", 12)) module += 12;
    snprintf(name, sizeof name, "call.%u.%s", at->round, module);
    found = diti_checkpoint_find(r->checkpoint, name);
    return found && told_elements(r, found) == (uint64_t)piece->parts * piece->rows * o->columns ? found : NULL;
}

/* Rows of a result, from the part of a module's input that has them. */
static bool read_piece(reference *r, const reference_piece *piece, const op *o, const moment *at) {
    const size_t count = (size_t)piece->rows * o->columns;
    const diti_stored_tensor *found = piece_named(r, piece, o, at);
    if (!found || !make_room(&r->input, &r->input_room, piece->parts * count) ||
        diti_checkpoint_read_float(r->checkpoint, found, r->input, piece->parts * count, &r->err) < 0)
        return false;
    memcpy(r->values + (size_t)piece->row * o->columns, r->input + piece->part * count, count * sizeof *r->values);
    return true;
}

/* The reference's numbers for a result, in r->values, which has the result's own numbers where the file has none;
   false: it has none of that name and size. */
static bool reference_find(reference *r, const side *s, const op *o, const moment *at, const float *own) {
    const size_t count = (size_t)o->rows * o->columns;
    const diti_stored_tensor *found = reference_named(r, s, o, at);
    bool any = false;
    uint32_t i;
    if (!make_room(&r->values, &r->room, count)) return false;
    if (found) {
        any = diti_checkpoint_read_float(r->checkpoint, found, r->values, count, &r->err) >= 0;
    } else if (at->phase == 1000) {
        memcpy(r->values, own, count * sizeof *own);
        for (i = 0; i < r->piece_count; i++)
            if (&s->ops[r->pieces[i].op] == o) any |= read_piece(r, &r->pieces[i], o, at);
    }
    r->found += any;
    return any;
}

/* Measures of a result by what the file tells of it; of several pieces the one that is furthest off. False: the file
   tells nothing of it. */
static bool reference_measure(reference *r, const side *s, const op *o, const moment *at, const float *own,
                              tensor_stats *out) {
    const diti_stored_tensor *found = reference_named(r, s, o, at);
    const size_t count = (size_t)o->rows * o->columns;
    float told[TOLD_VALUES];
    bool any = false;
    uint32_t i;
    if (found && diti_checkpoint_read_float(r->checkpoint, found, told, TOLD_VALUES, &r->err) >= 0)
        any = compare_told(told, count, 0, own, count, out);
    for (i = 0; i < r->piece_count && !found && at->phase == 1000; i++) {
        const reference_piece *piece = &r->pieces[i];
        const size_t part = (size_t)piece->rows * o->columns;
        const diti_stored_tensor *input = &s->ops[piece->op] == o ? piece_named(r, piece, o, at) : NULL;
        tensor_stats stats;
        if (!input || diti_checkpoint_read_float(r->checkpoint, input, told, TOLD_VALUES, &r->err) < 0 ||
            !compare_told(told, part * piece->parts, piece->part * part, own + (size_t)piece->row * o->columns, part,
                          &stats))
            continue;
        if (!any || stats.not_finite > out->not_finite || !(stats.relative_l2 <= out->relative_l2)) *out = stats;
        any = true;
    }
    r->found += any;
    return any;
}

static void reference_close(reference *r) {
    diti_checkpoint_close(r->checkpoint);
    free(r->modules);
    free(r->pieces);
    free(r->values);
    free(r->input);
}

/* ---- the comparison ---- */

typedef struct record {
    moment at;
    tensor_stats stats;
} record;

typedef struct comparison {
    side sides[2];
    uint32_t side_count;
    double limit;
    bool steps[1024];
    record *records;
    size_t record_count, record_room;
    bool lacks_memory;
    tensor_dump dump, statistics;
    reference reference;
    picture_stats picture; /* where there are two */
    bool has_picture;
    tensor_stats latent;
    mutex lock; /* guards all below */
    condition changed;
    bool full, over, drained; /* a value waits; the first side has ended; the second one has */
    moment at;
    const float *values;
    int first_code;
} comparison;

static const op *record_op(const comparison *c, const record *r) { return &c->sides[0].ops[r->at.op]; }

static bool record_parts(const comparison *c, const record *r) {
    return r->stats.not_finite || !(r->stats.relative_l2 <= c->limit);
}

/* The first result past the limit that is no mere weight, or the first weight; NULL: none. */
static const record *first_past(const comparison *c, bool weights) {
    size_t i;
    for (i = 0; i < c->record_count; i++)
        if (record_op(c, &c->records[i])->is_weight == weights && record_parts(c, &c->records[i]))
            return &c->records[i];
    return NULL;
}

static bool comparison_parts(const comparison *c) {
    if (first_past(c, false)) return true;
    return c->side_count == 2 && (c->latent.not_finite || !(c->latent.relative_l2 <= c->limit));
}

/* ---- on the terminal ---- */

/* "step 3, block 7, attention out" of "step/block 7/attention_out". */
static void tell_place(const comparison *c, const record *r, char *out, size_t size) {
    const char *name = record_op(c, r)->name, *from = name;
    size_t used = 0;
    if (r->at.phase == 1000) {
        used = (size_t)snprintf(out, size, "step %u, ", r->at.round + 1);
        from = strchr(name, '/') ? strchr(name, '/') + 1 : name;
    }
    for (; *from && used + 3 < size; from++) {
        if (*from == '/') out[used++] = ',';
        out[used++] = *from == '/' || *from == '_' ? ' ' : *from;
    }
    out[used] = 0;
}

static void tell_first_past(const comparison *c, FILE *out) {
    const record *r = first_past(c, false);
    const char *layer = r ? layer_of(&c->sides[0], record_op(c, r)) : "";
    char place[400];
    size_t i, worst = 0;
    if (!c->record_count) {
        fputs("nothing to compare op by op: the two have no op in common, or their step counts differ\n", out);
        return;
    }
    if (c->reference.statistics)
        fprintf(out, "held against statistics: the root mean square, the extremes and %d numbers of each result\n",
                SAMPLES);
    if (r) {
        tell_place(c, r, place, sizeof place);
        fprintf(out, "first past %.3g: %s: relative L2 %.3g (max-abs %.3g, cosine %.6f%s%s%s)\n", c->limit, place,
                r->stats.relative_l2, r->stats.max_abs, r->stats.cosine, r->stats.not_finite ? ", not finite" : "",
                *layer ? "; " : "", layer);
        return;
    }
    for (i = 1; i < c->record_count; i++)
        if (c->records[i].stats.relative_l2 > c->records[worst].stats.relative_l2) worst = i;
    tell_place(c, &c->records[worst], place, sizeof place);
    fprintf(out, "%s %.3g: %llu results; the furthest is %s: relative L2 %.3g\n",
            comparison_parts(c) ? "the latent at the end parts, but no op that both have is past" : "the same within",
            c->limit, (unsigned long long)c->record_count, place, c->records[worst].stats.relative_l2);
}

static void tell_other_weights(const comparison *c, FILE *out) {
    const record *first = first_past(c, true);
    double most = 0;
    size_t i, count = 0;
    for (i = 0; i < c->record_count; i++) {
        const record *r = &c->records[i];
        if (!record_op(c, r)->is_weight || !record_parts(c, r) || r->at.round != first->at.round) continue;
        count++;
        if (r->stats.relative_l2 > most) most = r->stats.relative_l2;
    }
    if (count)
        fprintf(out, "weights that differ: %llu matrices, relative L2 up to %.3g; the first is %s\n",
                (unsigned long long)count, most, record_op(c, first)->weight);
}

static int compare_by_error(const void *a, const void *b) {
    const record *x = *(const record *const *)a, *y = *(const record *const *)b;
    return (x->stats.relative_l2 < y->stats.relative_l2) - (x->stats.relative_l2 > y->stats.relative_l2);
}

enum { TABLE_ROWS = 8 };

/* The ops that are furthest apart, each in its worst step. */
static void tell_worst(const comparison *c, FILE *out) {
    const record **order = malloc((c->record_count + 1) * sizeof *order);
    bool *told = calloc(c->sides[0].op_count + 1, 1);
    char place[400];
    size_t i, rows = 0;
    for (i = 0; order && i < c->record_count; i++) order[i] = &c->records[i];
    if (order) qsort(order, c->record_count, sizeof *order, compare_by_error);
    for (i = 0; order && told && i < c->record_count && rows < TABLE_ROWS; i++) {
        const tensor_stats *s = &order[i]->stats;
        if (told[order[i]->at.op] || !(s->relative_l2 > 0)) continue;
        told[order[i]->at.op] = true;
        if (!rows++) fprintf(out, "%-44s %11s %10s %10s\n", "furthest apart", "relative L2", "max-abs", "cosine");
        tell_place(c, order[i], place, sizeof place);
        fprintf(out, "%-44.44s %11.3g %10.3g %10.6f\n", place, s->relative_l2, s->max_abs, s->cosine);
    }
    free(order);
    free(told);
}

static uint32_t unpaired(const side *s) {
    uint32_t i, count = 0;
    for (i = 0; i < s->op_count; i++) count += s->ops[i].pair == UINT32_MAX;
    return count;
}

static void tell_comparison(const comparison *c, FILE *out) {
    tell_first_past(c, out);
    tell_other_weights(c, out);
    tell_worst(c, out);
    if (c->side_count < 2) return;
    fprintf(out, "latent at the end: relative L2 %.3g, cosine %.6f\n", c->latent.relative_l2, c->latent.cosine);
    if (c->has_picture)
        fprintf(out, "picture: PSNR %.2f dB, SSIM %.4f, GMSD %.4f, mean dE*ab %.2f\n", c->picture.psnr, c->picture.ssim,
                c->picture.gmsd, c->picture.delta_e);
    if (unpaired(&c->sides[0]) || unpaired(&c->sides[1]))
        fprintf(out, "ops that only one has, or in another shape: %u and %u\n", unpaired(&c->sides[0]),
                unpaired(&c->sides[1]));
    fprintf(out, "device memory at most: %.1f MB and %.1f MB\n", (double)c->sides[0].memory.peak / 1e6,
            (double)c->sides[1].memory.peak / 1e6);
}

/* ---- JSON ---- */

/* JSON has no number that is not finite. */
static void json_value(parameter_text *out, double value) {
    char digits[32];
    snprintf(digits, sizeof digits, isfinite(value) ? "%.7g" : "null", value);
    json_raw(out, digits);
}

static void json_measure(parameter_text *out, const char *key, double value) {
    json_key(out, key);
    json_value(out, value);
}

static void json_side(parameter_text *out, const char *key, const side *s) {
    json_key(out, key);
    json_raw(out, "{");
    json_text(out, "flags", s->title);
    json_text(out, "device", s->device->info.name);
    json_text(out, "rung", s->device->info.rung);
    json_text(out, "model", s->a.model_path);
    json_text(out, "split", s->memory.split);
    json_count(out, "steps", s->a.r.steps);
    json_count(out, "memory", s->memory.peak);
    json_count(out, "ops", s->op_count);
    json_count(out, "unpaired", unpaired(s));
    json_raw(out, "}");
}

static void json_op(parameter_text *out, const op *o) {
    json_raw(out, "{");
    json_text(out, "name", o->name);
    json_text(out, "weight", o->weight);
    json_text(out, "reads", o->reads);
    json_count(out, "rows", o->rows);
    json_count(out, "columns", o->columns);
    json_count(out, "is_weight", o->is_weight);
    json_raw(out, "}");
}

static void json_numbers(parameter_text *out, const double *values, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (i) json_raw(out, ",");
        json_value(out, values[i]);
    }
}

/* A row: the names stand in "columns". */
static void json_record(parameter_text *out, const record *r) {
    const tensor_stats *s = &r->stats;
    const double values[] = {r->at.op,
                             r->at.phase == 1000 ? r->at.round + 1.0 : 0.0,
                             s->relative_l2,
                             s->max_abs,
                             s->cosine,
                             s->mean_abs,
                             s->within_1,
                             s->within_5,
                             s->rms[0],
                             s->rms[1],
                             s->least[0],
                             s->least[1],
                             s->most[0],
                             s->most[1],
                             s->mean[0],
                             s->mean[1],
                             (double)s->not_finite,
                             msprobe_fails(s)};
    double bins[STAT_BINS];
    int i;
    for (i = 0; i < STAT_BINS; i++) bins[i] = (double)s->bins[i];
    json_raw(out, "[");
    json_numbers(out, values, DITI_COUNT(values));
    json_raw(out, ",[");
    json_numbers(out, bins, STAT_BINS);
    for (i = 0; i < 2; i++) {
        json_raw(out, "],[");
        json_numbers(out, s->spread[i], SPREAD_BINS);
    }
    json_raw(out, "]]");
}

static void json_first(parameter_text *out, const comparison *c) {
    const record *r = first_past(c, false);
    char place[400];
    json_key(out, "first");
    if (!r) {
        json_raw(out, "null");
        return;
    }
    tell_place(c, r, place, sizeof place);
    json_raw(out, "{");
    json_text(out, "place", place);
    json_text(out, "name", record_op(c, r)->name);
    json_text(out, "layer", layer_of(&c->sides[0], record_op(c, r)));
    json_count(out, "step", r->at.phase == 1000 ? r->at.round + 1 : 0);
    json_measure(out, "relative_l2", r->stats.relative_l2);
    json_measure(out, "max_abs", r->stats.max_abs);
    json_measure(out, "cosine", r->stats.cosine);
    json_raw(out, "}");
}

static void json_picture(parameter_text *out, const comparison *c) {
    if (!c->has_picture) return;
    json_key(out, "picture");
    json_raw(out, "{");
    json_measure(out, "psnr", c->picture.psnr);
    json_measure(out, "ssim", c->picture.ssim);
    json_measure(out, "gmsd", c->picture.gmsd);
    json_measure(out, "delta_e", c->picture.delta_e);
    json_raw(out, "}");
}

/* All but a last brace, so that the page may add pictures. */
static void json_comparison(parameter_text *out, const comparison *c) {
    size_t i;
    json_raw(out, "{");
    json_measure(out, "limit", c->limit);
    json_count(out, "parted", comparison_parts(c));
    json_count(out, "statistics", c->reference.statistics);
    json_side(out, "a", &c->sides[0]);
    if (c->side_count == 2) json_side(out, "b", &c->sides[1]);
    json_first(out, c);
    json_measure(out, "latent_relative_l2", c->side_count == 2 ? c->latent.relative_l2 : NAN);
    json_picture(out, c);
    json_key(out, "columns");
    json_raw(out, "[\"op\",\"step\",\"relative_l2\",\"max_abs\",\"cosine\",\"mean_abs\",\"within_1\",\"within_5\","
                  "\"rms_a\",\"rms_b\",\"least_a\",\"least_b\",\"most_a\",\"most_b\",\"mean_a\",\"mean_b\","
                  "\"not_finite\",\"msprobe_fails\",\"histogram\",\"spread_a\",\"spread_b\"]");
    json_key(out, "ops");
    for (i = 0; i < c->sides[0].op_count; i++) {
        json_raw(out, i ? "," : "[");
        json_op(out, &c->sides[0].ops[i]);
    }
    json_raw(out, c->sides[0].op_count ? "]" : "[]");
    json_key(out, "results");
    json_raw(out, "[");
    for (i = 0; i < c->record_count; i++) {
        if (i) json_raw(out, ",");
        json_record(out, &c->records[i]);
    }
    json_raw(out, "]");
}

/* ---- the page ---- */

static void append_base64(parameter_text *out, const unsigned char *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i;
    char four[5] = "";
    for (i = 0; i < size; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16 | (i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (i + 2 < size ? bytes[i + 2] : 0);
        four[0] = digits[word >> 18];
        four[1] = digits[word >> 12 & 63];
        four[2] = i + 1 < size ? digits[word >> 6 & 63] : '=';
        four[3] = i + 2 < size ? digits[word & 63] : '=';
        json_raw(out, four);
    }
}

static void json_png(parameter_text *out, const char *key, const unsigned char *rgba, uint32_t width, uint32_t height) {
    size_t size = 0;
    unsigned char *png = encode_png(rgba, width, height, NULL, NULL, &size);
    json_key(out, key);
    json_raw(out, "\"data:image/png;base64,");
    if (png) append_base64(out, png, size);
    json_raw(out, "\"");
    free(png);
}

/* Eight times the difference, around grey. */
static unsigned char *difference_picture(const unsigned char *a, const unsigned char *b, size_t pixels) {
    unsigned char *out = malloc(pixels * 4);
    size_t i;
    for (i = 0; out && i < pixels * 4; i++) {
        int value = 128 + 8 * ((int)b[i] - (int)a[i]);
        out[i] = i % 4 == 3 ? 255 : (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
    return out;
}

static void json_pictures(parameter_text *out, const comparison *c) {
    const app *a = &c->sides[0].a, *b = &c->sides[1].a;
    unsigned char *difference = NULL;
    json_png(out, "picture_a", c->sides[0].rgba, a->r.width, a->r.height);
    if (c->side_count == 2) json_png(out, "picture_b", c->sides[1].rgba, b->r.width, b->r.height);
    if (c->has_picture)
        difference = difference_picture(c->sides[0].rgba, c->sides[1].rgba, (size_t)a->r.width * a->r.height);
    if (difference) json_png(out, "picture_difference", difference, a->r.width, a->r.height);
    free(difference);
}

/* A page's text up to a mark, then what stands there; returns what is behind the mark. */
static const char *put_part(FILE *out, const char *page, const char *mark, const char *part) {
    const char *at = strstr(page, mark);
    if (!at) return page;
    fwrite(page, 1, (size_t)(at - page), out);
    for (; *part; part++) { /* "</" would end a script */
        fputc(*part, out);
        if (part[0] == '<' && part[1] == '/') fputc('\\', out);
    }
    return at + strlen(mark);
}

/* A page's name must not promise something else. or_png: a picture may stand in its place. */
static int check_page_name(const char *path, bool or_png) {
    const char *name = path ? base_name(path) : "", *dot = strrchr(name, '.');
    if (!dot || dot == name || same_word(dot, ".html") || same_word(dot, ".htm") || (or_png && same_word(dot, ".png")))
        return EXIT_GOOD;
    return complain(EXIT_USAGE, "--output %s: the page is written as HTML%s; use %.*s.html", path,
                    or_png ? ", a sheet alone as PNG" : "", (int)(dot - path), path);
}

static int write_page(const char *path, const char *page, const char *data) {
    output_file out;
    if (!output_open(&out, path)) return complain(EXIT_OUTPUT, "cannot write %s: %s", path, strerror(errno));
    page = put_part(out.file, page, "%PLOT_LICENSE%", (const char *)compare_license);
    page = put_part(out.file, page, "%PLOT_STYLE%", (const char *)compare_plot_style);
    page = put_part(out.file, page, "%PLOT_SCRIPT%", (const char *)compare_plot_script);
    page = put_part(out.file, page, "%DATA%", data);
    fputs(page, out.file);
    if (!output_close(&out, !ferror(out.file)))
        return complain(EXIT_OUTPUT, "cannot write %s: %s", path, strerror(errno));
    return EXIT_GOOD;
}

/* ---- the whole ---- */

static void compare_results(comparison *c) {
    const side *a = &c->sides[0], *b = &c->sides[1];
    if (c->side_count < 2) return;
    c->latent = compare_tensors(a->latent, b->latent, a->latent_count);
    c->has_picture = compare_pictures(a->rgba, b->rgba, a->a.r.width, a->a.r.height, &c->picture);
}

static int report(comparison *c, const char *page, bool json) {
    parameter_text text = {0};
    int code = EXIT_GOOD;
    compare_results(c);
    if (c->side_count == 2 || c->reference.checkpoint) tell_comparison(c, json ? stderr : stdout);
    if (!json && !page) return EXIT_GOOD;
    json_comparison(&text, c);
    if (json && text.at) printf("%s}\n", text.at);
    if (page) json_pictures(&text, c);
    json_raw(&text, "}");
    if (!text.at) code = complain(EXIT_MEMORY, "out of memory for the report");
    if (!code && page) code = write_page(page, (const char *)compare_page, text.at);
    free(text.at);
    return code;
}
#endif
