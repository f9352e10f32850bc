/* Clips of the sizes that papers and model cards name: the memory of a whole evaluation is told for the clip itself,
   and one block is run, in slices of bounded length and with made-up weights, on as much of the clip as a driver
   without a GPU does in minutes. Some of its rows are computed in double precision and compared. Matrices have few
   values that are not 0, so that the reference, which knows which, takes seconds. */
#ifndef LONG_CLIPS_H
#define LONG_CLIPS_H
#include "files.h"
#include "library.h"
#include "model/cogvideox.c"
#include "model/evaluate.c"
#include "model/latte.c"
#include "model/stdit.c"
#include "model/wan.c"
#include "mesh_run.h"
#include "real_shapes.h"

enum { LONG_SAMPLES = 12, LONG_SLICE_US = 100000, LONG_DEVICES = 2 };

typedef struct long_clip {
    const char *name;
    void (*make)(real_file *file);
    const char *class_name;
    uint32_t frames, height, width;    /* of the latent */
    uint32_t text_tokens, text_length; /* of which so many are no padding */
    uint32_t reduced[3];               /* what is computed of frames, height and width */
    const char *factor;                /* says so */
    uint32_t devices;                  /* that divide its frames by ulysses; 0: 1 */
} long_clip;

/* ---- double precision ---- */

typedef struct sparse { /* a matrix [rows, columns] and a bias: values that are not 0, row by row */
    uint32_t rows, columns;
    uint32_t *first, *at; /* first: [rows + 1] */
    float *values, *bias;
} sparse;

static inline float *long_values(const real_file *file, const char *name, uint64_t *count) {
    size_t i;
    for (i = 0; i < file->count; i++) {
        const real_tensor *t = &file->tensors[i];
        unsigned char *bytes;
        float *out;
        if (strcmp(t->name, name) != 0) continue;
        bytes = (unsigned char *)malloc((size_t)t->bytes);
        out = (float *)malloc((size_t)t->elements * sizeof *out);
        real_fill(file, i, 0, t->bytes, bytes);
        diti_type_to_float(t->type, bytes, t->elements, out);
        free(bytes);
        *count = t->elements;
        return out;
    }
    CHECK_MESSAGE(false, "%s is among the made-up tensors", name);
    *count = 0;
    return NULL;
}

static inline sparse long_sparse(const real_file *file, const char *name) {
    sparse out = DITI_ZERO;
    char full[128];
    uint64_t rows, count, i, used = 0;
    float *all;
    diti_format(full, sizeof full, "%s.bias", name);
    out.bias = long_values(file, full, &rows);
    diti_format(full, sizeof full, "%s.weight", name);
    all = long_values(file, full, &count);
    if (!rows || !count) exit(1);
    out.rows = (uint32_t)rows;
    out.columns = (uint32_t)(count / rows);
    for (i = 0; i < count; i++) used += all[i] != 0;
    out.first = (uint32_t *)malloc((size_t)(rows + 1) * sizeof *out.first);
    out.at = (uint32_t *)malloc((size_t)used * sizeof *out.at);
    out.values = (float *)malloc((size_t)used * sizeof *out.values);
    for (i = used = 0; i < count; i++) {
        if (i % out.columns == 0) out.first[i / out.columns] = (uint32_t)used;
        if (all[i] == 0) continue;
        out.at[used] = (uint32_t)(i % out.columns);
        out.values[used++] = all[i];
    }
    out.first[rows] = (uint32_t)used;
    free(all);
    return out;
}

static inline void long_sparse_free(sparse *m) {
    free(m->first);
    free(m->at);
    free(m->values);
    free(m->bias);
}

/* out: rows [first, first + count) of the product with x. */
static inline void long_apply(const sparse *m, const double *x, uint32_t first, uint32_t count, double *out) {
    uint32_t r, k;
    for (r = first; r < first + count; r++) {
        double sum = (double)m->bias[r];
        for (k = m->first[r]; k < m->first[r + 1]; k++) sum += (double)m->values[k] * x[m->at[k]];
        out[r - first] = sum;
    }
}

/* LayerNorm of one row with an affine, where there is one, then (1 + scale) and shift. */
static inline void long_norm(const double *x, uint32_t count, double eps, const float *weight, const float *bias,
                             const float *shift, const float *scale, double *out) {
    double mean = 0, square = 0;
    uint32_t i;
    for (i = 0; i < count; i++) mean += x[i] / count;
    for (i = 0; i < count; i++) square += (x[i] - mean) * (x[i] - mean) / count;
    for (i = 0; i < count; i++) {
        double v = (x[i] - mean) / sqrt(square + eps);
        if (weight) v = v * (double)weight[i] + (double)bias[i];
        out[i] = shift ? v * (1 + (double)scale[i]) + (double)shift[i] : v;
    }
}

/* Attention of one row to `count` rows k and v, which are `step` floats apart. */
static inline void long_attend(const double *q, const float *k, const float *v, size_t step, uint32_t count,
                               uint32_t heads, uint32_t dim, double *out) {
    double *scores = (double *)malloc(count * sizeof *scores);
    uint32_t h, i, c;
    for (h = 0; h < heads; h++) {
        double most = -1e300, sum = 0;
        for (i = 0; i < count; i++) {
            double score = 0;
            for (c = h * dim; c < (h + 1) * dim; c++) score += q[c] * (double)k[i * step + c];
            scores[i] = score / sqrt((double)dim);
            if (scores[i] > most) most = scores[i];
        }
        for (i = 0; i < count; i++) sum += scores[i] = exp(scores[i] - most);
        for (c = h * dim; c < (h + 1) * dim; c++) out[c] = 0;
        for (i = 0; i < count; i++)
            for (c = h * dim; c < (h + 1) * dim; c++) out[c] += scores[i] / sum * (double)v[i * step + c];
    }
    free(scores);
}

/* The root of the mean square of a row becomes 1, then its weights. */
static inline void long_rms(double *x, uint32_t count, double eps, const float *weight) {
    double square = 0;
    uint32_t i;
    for (i = 0; i < count; i++) square += x[i] * x[i] / count;
    for (i = 0; i < count; i++) x[i] *= (double)weight[i] / sqrt(square + eps);
}

static inline double long_gelu(double x) { return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }

/* ---- the run ---- */

typedef struct long_member { /* what a device computes: some of the frames, or all */
    diti_axes axes;
    diti_step_desc step;
    diti_graph graph;
    diti_plan *plan;
    diti_tensor kept[4]; /* x behind the block, what modulates it, keys and values of the text; the input x */
} long_member;

typedef struct long_run {
    const long_clip *clip;
    const real_file *file;
    const diti_transformer *model;
    const dit_context *context;
    long_member members[LONG_DEVICES];
    uint32_t count;                                  /* of them */
    uint32_t rows, width, heads, dim, frames, plane; /* rows: of x; plane: tokens of a frame */
    float *x;                                        /* [rows, width], before the block */
    float *after;                                    /* and behind it */
    float *text;                                     /* keys and values of the text */
} long_run;

static inline float long_value(uint64_t i) { return (float)(int32_t)real_random(99, i) * (1.7f / 2147483648.0f); }

static inline diti_tensor long_keep(long_member *m, uint32_t slot, diti_tensor x) {
    diti_elementwise_desc copy = DITI_ZERO;
    if (diti_graph_failed(&m->graph)) return 0;
    copy.out = m->kept[slot] = diti_tensor_state(&m->graph, DITI_F32, diti_tensor_rows(&m->graph, x),
                                                 diti_tensor_columns(&m->graph, x), "kept");
    copy.name = "keep";
    diti_elementwise(&m->graph, x, &copy);
    return copy.out;
}

/* Appends to out, where it is not NULL; the values. */
static inline size_t long_read_member(const long_member *m, uint32_t slot, float *out) {
    const diti_tensor_info *info = &m->plan->tensors[m->kept[slot]];
    size_t count = (size_t)info->rows * info->columns;
    dit_error err = DITI_ZERO;
    if (out)
        CHECK_MESSAGE(diti_plan_read(m->plan, m->kept[slot], out, count * sizeof *out, &err) == DIT_OK, "%s",
                      err.message);
    return count;
}

/* Values of the first device, since all have the same. */
static inline float *long_read(long_run *r, uint32_t slot) {
    float *out = (float *)malloc(long_read_member(&r->members[0], slot, NULL) * sizeof *out);
    long_read_member(&r->members[0], slot, out);
    return out;
}

static inline void long_step_desc(long_run *r, long_member *m, uint32_t frames, uint32_t height, uint32_t width) {
    const diti_model_traits *traits = &r->model->traits;
    uint32_t deep = traits->patch_frames ? traits->patch_frames : 1, plane = frames * height * width;
    diti_step_desc *d = &m->step;
    memset(d, 0, sizeof *d);
    d->batch = d->branches = d->text_batch = d->steps = 1;
    d->frames = frames;
    d->height = height;
    d->width = width;
    d->text_tokens = r->clip->text_tokens;
    d->pixels[0] = 8 * height;
    d->pixels[1] = 8 * width;
    if (r->count > 1) d->axes = &m->axes;
    r->frames = frames / deep;
    r->plane = height / traits->patch * (width / traits->patch);
    r->width = traits->width;
    r->heads = traits->heads;
    r->dim = r->width / r->heads;
    r->rows = r->frames * r->plane + (traits->joint ? d->text_tokens : 0);
    d->latent = diti_tensor_input(&m->graph, DITI_F32, traits->latent_channels, plane, "latent");
    d->text = diti_tensor_input(&m->graph, DITI_F32, d->text_tokens, traits->text_columns, "text");
    d->text_items = diti_tensor_input(&m->graph, DITI_U32, 1, DITI_ITEM_WORDS, "items");
    d->row = diti_tensor_input(&m->graph, DITI_U32, 1, 1, "step");
}

/* Tells the memory of a plan of the whole clip, of the model's one block and its ends, on the first device. */
static inline void long_measure(long_run *r) {
    const long_clip *c = r->clip;
    long_member *m = &r->members[0];
    diti_plan_memory memory;
    dit_error err = DITI_ZERO;
    diti_graph_init(&m->graph, r->context->device);
    diti_graph_segment(&m->graph, "prepare", false);
    long_step_desc(r, m, c->frames, c->height, c->width);
    diti_transformer_prepare(r->model, &m->graph, &m->step);
    diti_graph_segment(&m->graph, "step", true);
    diti_transformer_step(r->model, &m->graph, &m->step);
    if (CHECK_MESSAGE(diti_plan_measure(&m->graph, &memory, &err) == DIT_OK, "%s: %s", c->name, err.message)) {
        uint64_t stream = (uint64_t)r->rows / r->count * r->width * 4;
        printf("%s: %u rows of %u, a residual stream of %.2f GB; activations %.2f GB, inputs %.2f GB%s\n", c->name,
               (unsigned)r->rows, (unsigned)r->width, (double)r->rows * r->width * 4 / 1e9,
               (double)memory.activations / 1e9, (double)memory.inputs / 1e9, r->count > 1 ? " on each device" : "");
        CHECK_MESSAGE(memory.activations >= stream && memory.activations < 16 * stream, "%s: %llu bytes", c->name,
                      (unsigned long long)memory.activations);
    }
    diti_graph_free(&m->graph);
    diti_free(&r->model->component.env, m->step.family);
    m->step.family = NULL;
}

/* The reference begins with the rows that modulate the block, and with keys and values of the text. */
static inline void long_keep_state(const long_run *r, long_member *m) {
    diti_graph *graph = &m->graph;
    if (diti_graph_failed(graph)) return;
    if (r->model->family == diti_stdit_family()) {
        const diti_stdit_state *state = diti_stdit_state_of(&m->step);
        long_keep(m, 1, diti_tensor_view(graph, state->row, 0, 1, 0, 6 * r->width));
        long_keep(m, 2, state->text[0][DITI_STDIT_SPATIAL]);
    } else if (r->model->family == diti_wan_family()) {
        const diti_wan_state *state = diti_wan_state_of(&m->step);
        long_keep(m, 1, diti_tensor_view(graph, state->rows, 0, 1, 0, 6 * r->width));
        long_keep(m, 2, state->text[0]);
    } else if (r->model->traits.joint) {
        diti_pass p = diti_pass_make(r->model, graph, &m->step);
        long_keep(m, 1,
                  diti_joint_modulation_rows(&p, &diti_cogvideox_state_of(&m->step)->modulation, 0,
                                             diti_cogvideox_modulation));
    } else {
        const diti_latte_state *state = diti_latte_state_of(&m->step);
        long_keep(m, 1, diti_tensor_view(graph, state->row, 0, 1, 0, 6 * r->width));
        long_keep(m, 2, state->text[0]);
    }
}

/* The block of a device's rows, which are whole frames. */
static inline bool long_emit(long_run *r, uint32_t index) {
    const long_clip *c = r->clip;
    long_member *m = &r->members[index];
    const diti_token_range *at = &m->step.token_range;
    dit_error err = DITI_ZERO;
    diti_tensor x, input;
    diti_graph_init(&m->graph, r->context->devices[index]);
    diti_graph_segment(&m->graph, "prepare", false);
    long_step_desc(r, m, c->reduced[0], c->reduced[1], c->reduced[2]);
    input = m->kept[3] = diti_tensor_input(&m->graph, DITI_F32, r->rows, r->width, "x");
    diti_transformer_prepare(r->model, &m->graph, &m->step);
    diti_graph_segment(&m->graph, "step", true);
    diti_transformer_begin(r->model, &m->graph, &m->step);
    x = diti_add_rows(&m->graph, diti_tensor_view(&m->graph, input, at->first, at->text + at->rows, 0, r->width), 0, 0,
                      "residual");
    diti_transformer_block(r->model, &m->graph, &m->step, 0, x);
    long_keep(m, 0, x);
    long_keep_state(r, m);
    return CHECK_MESSAGE(!diti_graph_failed(&m->graph), "%s: %s", c->name, m->graph.error.message) &&
           CHECK_MESSAGE(diti_plan_create(&m->graph, NULL, &m->plan, &err) == DIT_OK, "%s: %s", c->name, err.message);
}

static inline dit_result long_write(const long_run *r, const long_member *m, const float *text, dit_error *err) {
    const diti_model_traits *traits = &r->model->traits;
    const float timestep = 321;
    const uint32_t item[DITI_ITEM_WORDS] = {0, 0, 0, r->clip->text_length}, step = 0;
    size_t texts = (size_t)r->clip->text_tokens * traits->text_columns;
    DITI_TRY(diti_plan_write(m->plan, m->kept[3], r->x, (size_t)r->rows * r->width * sizeof *r->x, err));
    DITI_TRY(diti_plan_write(m->plan, m->step.text, text, texts * sizeof *text, err));
    if (!traits->joint && !traits->attends_padding)
        DITI_TRY(diti_plan_write(m->plan, m->step.text_items, item, sizeof item, err));
    DITI_TRY(diti_plan_write(m->plan, m->step.row, &step, sizeof step, err));
    return r->model->family->write_inputs(r->model, m->plan, &m->step, &timestep, err);
}

static inline dit_result long_execute_plans(const long_run *r, dit_error *err) {
    diti_plan *plans[LONG_DEVICES];
    diti_mesh *mesh = NULL;
    dit_result result;
    uint32_t i;
    if (r->count == 1) return diti_plan_run(r->members[0].plan, 0, 2, err);
    for (i = 0; i < r->count; i++) plans[i] = r->members[i].plan;
    result = diti_mesh_create(r->context->peers, plans, NULL, r->count, &mesh, err);
    for (i = 0; i < 2 && result == DIT_OK; i++) result = run_plans(mesh, plans, r->count, i, err);
    if (result == DIT_OK)
        printf("%s: a device sends %llu bytes\n", r->clip->name,
               (unsigned long long)diti_mesh_bytes(mesh, 0, UINT32_MAX));
    diti_mesh_destroy(mesh);
    return result;
}

/* Writes the inputs, runs, and reads what the reference needs. false: something failed. */
static inline bool long_execute(long_run *r) {
    const long_clip *c = r->clip;
    uint32_t i, k, slices = 0;
    size_t count = (size_t)r->rows * r->width, texts = (size_t)c->text_tokens * r->model->traits.text_columns, at;
    float *text = (float *)malloc(texts * sizeof *text), longest = 0;
    dit_error err = DITI_ZERO;
    dit_result result = text ? DIT_OK : DIT_ERROR_OUT_OF_HOST_MEMORY;
    r->x = (float *)malloc(count * sizeof *r->x);
    for (at = 0; at < count; at++) r->x[at] = long_value(at);
    for (at = 0; at < texts; at++) text[at] = long_value((1u << 30) + at);
    for (i = 0; i < r->count && result == DIT_OK; i++) result = long_write(r, &r->members[i], text, &err);
    if (result == DIT_OK) result = long_execute_plans(r, &err);
    free(text);
    if (!CHECK_MESSAGE(result == DIT_OK, "%s: %s", c->name, err.message)) return false;
    for (k = 0; k < r->count; k++) {
        slices = diti_plan_slice_count(r->members[k].plan, 1);
        for (i = 0; i < slices; i++) longest = fmaxf(longest, diti_plan_slice_us(r->members[k].plan, 1, i));
    }
    printf("%s: %s: %u rows, %u slices, the longest %.0f ms\n", c->name, c->factor, (unsigned)r->rows, (unsigned)slices,
           (double)longest / 1e3);
    CHECK_MESSAGE(slices > 1, "%s runs in %u slices", c->name, (unsigned)slices);
    r->after = (float *)malloc(count * sizeof *r->after);
    for (k = 0, at = 0; k < r->count; k++) at += long_read_member(&r->members[k], 0, r->after + at);
    return CHECK_MESSAGE(at == count, "%s: devices have %zu values of %zu", c->name, at, count);
}

/* Compares some rows behind the block with what they should be. */
static inline void long_compare(const long_run *r, const uint32_t *rows, uint32_t count, const double *expected) {
    double error = 0, square = 0, change = 0;
    uint32_t i, c;
    for (i = 0; i < count; i++) {
        for (c = 0; c < r->width; c++) {
            size_t at = (size_t)rows[i] * r->width + c;
            double wanted = expected[(size_t)i * r->width + c], e = (double)r->after[at] - wanted;
            error += e * e;
            square += wanted * wanted;
            change += (wanted - (double)r->x[at]) * (wanted - (double)r->x[at]);
        }
    }
    printf("%s: %u rows in double precision: relative L2 %.2g; the block changes them by %.2g\n", r->clip->name,
           (unsigned)count, sqrt(error / square), sqrt(change / square));
    CHECK_MESSAGE(sqrt(error / square) <= 1e-5 && sqrt(change / square) > 0.1, "%s: relative L2 %g, a change of %g",
                  r->clip->name, sqrt(error / square), sqrt(change / square));
}

static inline double *long_row(const long_run *r, uint32_t row) {
    double *out = (double *)malloc(r->width * sizeof *out);
    uint32_t c;
    for (c = 0; c < r->width; c++) out[c] = (double)r->x[(size_t)row * r->width + c];
    return out;
}

/* x += gate * y */
static inline void long_add(const long_run *r, double *x, const float *gate, const double *y) {
    uint32_t c;
    for (c = 0; c < r->width; c++) x[c] += (gate ? (double)gate[c] : 1) * y[c];
}

/* --- attention within frames, then within positions: Open-Sora v1.0 and Latte's LatteT2V --- */

typedef struct long_part { /* matrices of a block by the names of its family */
    sparse qkv[3], out, text_q, text_out, ff_in, ff_out;
    bool text, feed;
    const float *modulation; /* [6, width] */
} long_part;

/* x += Attn2(x, text); x += gate * FF(mod(LN(x))) */
static inline void long_finish(const long_run *r, const long_part *w, double *x) {
    uint32_t width = r->width, i, length = r->clip->text_length;
    double *h = (double *)malloc(8 * (size_t)width * sizeof *h), *y = h + width, *wide = y + width;
    if (w->text) {
        long_apply(&w->text_q, x, 0, width, h);
        long_attend(h, r->text, r->text + width, 2 * (size_t)width, length, r->heads, r->dim, y);
        long_apply(&w->text_out, y, 0, width, h);
        long_add(r, x, NULL, h);
    }
    if (w->feed) {
        long_norm(x, width, 1e-6, NULL, NULL, w->modulation + 3 * width, w->modulation + 4 * width, h);
        long_apply(&w->ff_in, h, 0, 4 * width, wide);
        for (i = 0; i < 4 * width; i++) wide[i] = long_gelu(wide[i]);
        long_apply(&w->ff_out, wide, 0, width, h);
        long_add(r, x, w->modulation + 5 * width, h);
    }
    free(h);
}

/* q, k and v of a row, each [width]; mod: the norm is modulated, else the row is read as it is. */
static inline void long_qkv(const long_run *r, const long_part *w, const double *x, bool mod, double *q, float *k,
                            float *v) {
    uint32_t width = r->width, c;
    double *h = (double *)malloc(2 * (size_t)width * sizeof *h), *one = h + width;
    if (mod)
        long_norm(x, width, 1e-6, NULL, NULL, w->modulation, w->modulation + width, h);
    else
        memcpy(h, x, width * sizeof *h);
    if (q) long_apply(&w->qkv[0], h, 0, width, q);
    if (k) {
        long_apply(&w->qkv[1], h, 0, width, one);
        for (c = 0; c < width; c++) k[c] = (float)one[c];
        long_apply(&w->qkv[2], h, 0, width, one);
        for (c = 0; c < width; c++) v[c] = (float)one[c];
    }
    free(h);
}

/* times: rows that are added to frames before attention within positions, for good or, plainly, for the attention
   alone; between: what a row passes between the two; last: behind them. */
static inline void long_reference_divided(long_run *r, const long_part *spatial, const long_part *temporal,
                                          const float *times, bool plainly) {
    static const double places[3] = {0, 0.37, 0.999};
    uint32_t width = r->width, frames = r->frames, plane = r->plane, f, i, k, c;
    uint32_t rows[LONG_SAMPLES], count = 0;
    double *within = (double *)malloc(3 * (size_t)frames * width * sizeof *within);
    double *expected = (double *)malloc(LONG_SAMPLES * (size_t)width * sizeof *expected);
    double *q = (double *)malloc(2 * (size_t)width * sizeof *q), *y = q + width;
    float *kv = (float *)malloc(2 * (size_t)plane * width * sizeof *kv);
    float *across = (float *)malloc(2 * (size_t)frames * width * sizeof *across);
    for (f = 0; f < frames; f++) { /* rows of three positions, behind attention within their frames */
        for (i = 0; i < plane; i++) {
            double *x = long_row(r, f * plane + i);
            long_qkv(r, spatial, x, true, NULL, kv + 2 * (size_t)i * width, kv + (2 * (size_t)i + 1) * width);
            free(x);
        }
        for (k = 0; k < 3; k++) {
            double *x = long_row(r, f * plane + (uint32_t)(places[k] * plane)), *to = within + (k * frames + f) * width;
            long_qkv(r, spatial, x, true, q, NULL, NULL);
            long_attend(q, kv, kv + width, 2 * (size_t)width, plane, r->heads, r->dim, y);
            long_apply(&spatial->out, y, 0, width, q);
            long_add(r, x, spatial->modulation + 2 * width, q);
            if (!plainly) long_finish(r, spatial, x);
            for (c = 0; c < width; c++) to[c] = x[c] + (plainly ? 0 : (double)times[(size_t)f * width + c]);
            free(x);
        }
    }
    for (k = 0; k < 3; k++) {
        double *own = within + (size_t)k * frames * width, *x = (double *)malloc(width * sizeof *x);
        uint32_t chosen[3] = {0, frames / 2, frames - 1};
        for (f = 0; f < frames; f++) {
            for (c = 0; c < width; c++)
                x[c] = own[f * width + c] + (plainly ? (double)times[(size_t)f * width + c] : 0);
            long_qkv(r, temporal, x, !plainly, NULL, across + 2 * (size_t)f * width,
                     across + (2 * (size_t)f + 1) * width);
        }
        for (i = 0; i < 3; i++) {
            double *to = expected + (size_t)count * width;
            f = chosen[i];
            for (c = 0; c < width; c++)
                x[c] = own[f * width + c] + (plainly ? (double)times[(size_t)f * width + c] : 0);
            long_qkv(r, temporal, x, !plainly, q, NULL, NULL);
            long_attend(q, across, across + width, 2 * (size_t)width, frames, r->heads, r->dim, y);
            long_apply(&temporal->out, y, 0, width, q);
            memcpy(to, own + f * width, width * sizeof *to);
            long_add(r, to, temporal->modulation + 2 * width, q);
            long_finish(r, temporal, to);
            rows[count++] = f * plane + (uint32_t)(places[k] * plane);
        }
        free(x);
    }
    long_compare(r, rows, count, expected);
    free(within);
    free(expected);
    free(q);
    free(kv);
    free(across);
}

static inline void long_part_free(long_part *w) {
    uint32_t i;
    for (i = 0; i < 3; i++) long_sparse_free(&w->qkv[i]);
    long_sparse_free(&w->out);
    long_sparse_free(&w->text_q);
    long_sparse_free(&w->text_out);
    long_sparse_free(&w->ff_in);
    long_sparse_free(&w->ff_out);
}

/* q, k and v that the file has as one, [3 * width]. */
static inline void long_split_qkv(const real_file *file, const char *name, sparse out[3]) {
    uint32_t i, r;
    for (i = 0; i < 3; i++) {
        sparse all = long_sparse(file, name);
        uint32_t width = all.rows / 3;
        out[i] = all;
        out[i].rows = width;
        for (r = 0; r <= width; r++) all.first[r] = all.first[r + i * width];
        memmove(all.bias, all.bias + i * width, width * sizeof *all.bias);
    }
}

/* A block's table plus the rows of the timestep. */
static inline float *long_modulation(const long_run *r, const char *table, const float *rows) {
    uint64_t count, i;
    float *out = long_values(r->file, table, &count);
    for (i = 0; i < 6u * r->width; i++) out[i] += rows[i];
    return out;
}

static inline float *long_times(const long_run *r, double divide) {
    float *out = (float *)malloc((size_t)r->frames * r->width * sizeof *out);
    diti_position_rows(r->frames, divide, r->width, out);
    return out;
}

static inline void long_reference_stdit(long_run *r) {
    const real_file *file = r->file;
    float *rows = long_read(r, 1), *times = long_times(r, diti_stdit_of(r->model)->config.time_scale), *modulation;
    long_part spatial = DITI_ZERO, temporal = DITI_ZERO;
    r->text = long_read(r, 2);
    modulation = long_modulation(r, "blocks.0.scale_shift_table", rows);
    spatial.modulation = temporal.modulation = modulation;
    long_split_qkv(file, "blocks.0.attn.qkv", spatial.qkv);
    spatial.out = long_sparse(file, "blocks.0.attn.proj");
    long_split_qkv(file, "blocks.0.attn_temp.qkv", temporal.qkv);
    temporal.out = long_sparse(file, "blocks.0.attn_temp.proj");
    temporal.text = temporal.feed = true;
    temporal.text_q = long_sparse(file, "blocks.0.cross_attn.q_linear");
    temporal.text_out = long_sparse(file, "blocks.0.cross_attn.proj");
    temporal.ff_in = long_sparse(file, "blocks.0.mlp.fc1");
    temporal.ff_out = long_sparse(file, "blocks.0.mlp.fc2");
    long_reference_divided(r, &spatial, &temporal, times, true);
    long_part_free(&spatial);
    long_part_free(&temporal);
    free(rows);
    free(times);
    free(modulation);
}

static inline void long_reference_latte(long_run *r) {
    static const char *const blocks[] = {"transformer_blocks.0", "temporal_transformer_blocks.0"};
    static const char *const letters[] = {"q", "k", "v"};
    float *rows = long_read(r, 1), *times = long_times(r, diti_latte_of(r->model)->config.time), *modulation[2];
    long_part parts[2];
    char name[128];
    uint32_t i, k;
    memset(parts, 0, sizeof parts);
    r->text = long_read(r, 2);
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "%s.scale_shift_table", blocks[i]);
        parts[i].modulation = modulation[i] = long_modulation(r, name, rows);
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "%s.attn1.to_%s", blocks[i], letters[k]);
            parts[i].qkv[k] = long_sparse(r->file, name);
        }
        diti_format(name, sizeof name, "%s.attn1.to_out.0", blocks[i]);
        parts[i].out = long_sparse(r->file, name);
        diti_format(name, sizeof name, "%s.ff.net.0.proj", blocks[i]);
        parts[i].ff_in = long_sparse(r->file, name);
        diti_format(name, sizeof name, "%s.ff.net.2", blocks[i]);
        parts[i].ff_out = long_sparse(r->file, name);
        parts[i].feed = true;
    }
    parts[0].text = true;
    parts[0].text_q = long_sparse(r->file, "transformer_blocks.0.attn2.to_q");
    parts[0].text_out = long_sparse(r->file, "transformer_blocks.0.attn2.to_out.0");
    long_reference_divided(r, &parts[0], &parts[1], times, false);
    for (i = 0; i < 2; i++) {
        long_part_free(&parts[i]);
        free(modulation[i]);
    }
    free(rows);
    free(times);
}

/* Pairs of every head of row number `row` turn by its angles; tables [rows, dim / 2]. */
static inline void long_turn(const long_run *r, const float *cosines, const float *sines, uint32_t row, double *x) {
    uint32_t i, half = r->dim / 2;
    for (i = 0; i < r->heads * half; i++) {
        double c = (double)cosines[(size_t)row * half + i % half], s = (double)sines[(size_t)row * half + i % half];
        double a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c - b * s;
        x[2 * i + 1] = a * s + b * c;
    }
}

/* --- all rows attend each other: CogVideoX --- */

typedef struct long_expert {
    sparse q, k, v, out, ff_in, ff_out;
    float *norms[8];         /* weight and bias: before attention, of heads of q, of k, before the feed-forward */
    const float *modulation; /* [2 streams, 6, width], the text's first */
    float *cosines, *sines;  /* [rows, dim / 2] */
} long_expert;

static inline const float *long_expert_row(const long_run *r, const long_expert *w, uint32_t row, uint32_t chunk) {
    uint32_t stream = row < r->clip->text_tokens ? 0 : 1;
    return w->modulation + (stream * 6 + chunk) * r->width;
}

/* Heads of q or k: their LayerNorm, then rotation. */
static inline void long_expert_heads(const long_run *r, const long_expert *w, uint32_t row, const float *weight,
                                     const float *bias, double *x) {
    uint32_t h;
    for (h = 0; h < r->heads; h++) {
        double *own = x + h * r->dim;
        long_norm(own, r->dim, 1e-6, weight, bias, NULL, NULL, own);
    }
    long_turn(r, w->cosines, w->sines, row, x);
}

static inline void long_reference_expert(long_run *r, const long_expert *w) {
    const double eps = (double)diti_cogvideox_of(r->model)->config.eps;
    uint32_t width = r->width, texts = r->clip->text_tokens, video = r->rows - texts, i, k, c;
    const uint32_t rows[LONG_SAMPLES / 2] = {
        0, texts - 1, texts, texts + video / 3, texts + 2 * (video / 3) + 5, r->rows - 1};
    double *h = (double *)malloc(7 * (size_t)width * sizeof *h), *y = h + width, *wide = y + width;
    double *expected = (double *)malloc(LONG_SAMPLES * (size_t)width * sizeof *expected);
    float *kv = (float *)malloc(2 * (size_t)r->rows * width * sizeof *kv);
    for (i = 0; i < r->rows; i++) {
        double *x = long_row(r, i);
        long_norm(x, width, eps, w->norms[0], w->norms[1], long_expert_row(r, w, i, 0), long_expert_row(r, w, i, 1), h);
        long_apply(&w->k, h, 0, width, y);
        long_expert_heads(r, w, i, w->norms[4], w->norms[5], y);
        for (c = 0; c < width; c++) kv[2 * (size_t)i * width + c] = (float)y[c];
        long_apply(&w->v, h, 0, width, y);
        for (c = 0; c < width; c++) kv[(2 * (size_t)i + 1) * width + c] = (float)y[c];
        free(x);
    }
    for (k = 0; k < LONG_SAMPLES / 2; k++) {
        double *x = long_row(r, rows[k]);
        i = rows[k];
        long_norm(x, width, eps, w->norms[0], w->norms[1], long_expert_row(r, w, i, 0), long_expert_row(r, w, i, 1), h);
        long_apply(&w->q, h, 0, width, y);
        long_expert_heads(r, w, i, w->norms[2], w->norms[3], y);
        long_attend(y, kv, kv + width, 2 * (size_t)width, r->rows, r->heads, r->dim, h);
        long_apply(&w->out, h, 0, width, y);
        long_add(r, x, long_expert_row(r, w, i, 2), y);
        long_norm(x, width, eps, w->norms[6], w->norms[7], long_expert_row(r, w, i, 3), long_expert_row(r, w, i, 4), h);
        long_apply(&w->ff_in, h, 0, 4 * width, wide);
        for (c = 0; c < 4 * width; c++) wide[c] = long_gelu(wide[c]);
        long_apply(&w->ff_out, wide, 0, width, h);
        long_add(r, x, long_expert_row(r, w, i, 5), h);
        memcpy(expected + (size_t)k * width, x, width * sizeof *x);
        free(x);
    }
    long_compare(r, rows, LONG_SAMPLES / 2, expected);
    free(h);
    free(expected);
    free(kv);
}

static inline void long_reference_cogvideox(long_run *r) {
    static const char *const norms[] = {"norm1.norm", "attn1.norm_q", "attn1.norm_k", "norm2.norm"};
    long_expert w = DITI_ZERO;
    float *modulation = long_read(r, 1);
    char name[128];
    uint64_t count;
    uint32_t i;
    w.modulation = modulation;
    w.q = long_sparse(r->file, "transformer_blocks.0.attn1.to_q");
    w.k = long_sparse(r->file, "transformer_blocks.0.attn1.to_k");
    w.v = long_sparse(r->file, "transformer_blocks.0.attn1.to_v");
    w.out = long_sparse(r->file, "transformer_blocks.0.attn1.to_out.0");
    w.ff_in = long_sparse(r->file, "transformer_blocks.0.ff.net.0.proj");
    w.ff_out = long_sparse(r->file, "transformer_blocks.0.ff.net.2");
    for (i = 0; i < 8; i++) {
        diti_format(name, sizeof name, "transformer_blocks.0.%s.%s", norms[i / 2], i % 2 ? "bias" : "weight");
        w.norms[i] = long_values(r->file, name, &count);
    }
    w.cosines = (float *)malloc((size_t)r->rows * r->dim * sizeof *w.cosines);
    w.sines = w.cosines + (size_t)r->rows * (r->dim / 2);
    diti_cogvideox_place(r->model, &r->members[0].step, 0, w.cosines, w.sines);
    long_reference_expert(r, &w);
    for (i = 0; i < 8; i++) free(w.norms[i]);
    long_sparse_free(&w.q);
    long_sparse_free(&w.k);
    long_sparse_free(&w.v);
    long_sparse_free(&w.out);
    long_sparse_free(&w.ff_in);
    long_sparse_free(&w.ff_out);
    free(w.cosines);
    free(modulation);
}

/* --- all rows attend each other, then the text: Wan --- */

enum { LONG_WAN_NORMS = 5 };
typedef struct long_wan {
    sparse q, k, v, out, text_q, text_out, ff_in, ff_out;
    float *norms[LONG_WAN_NORMS]; /* of q, of k, of the text's q; before the text: weight and bias */
    float *modulation;            /* [6, width] */
    float *cosines, *sines;       /* [rows, dim / 2] */
} long_wan;

static inline void long_wan_read(const long_run *r, long_wan *w, const float *rows) {
    static const char *const norms[LONG_WAN_NORMS] = {"attn1.norm_q.weight", "attn1.norm_k.weight",
                                                      "attn2.norm_q.weight", "norm2.weight", "norm2.bias"};
    static const char *const names[] = {"attn1.to_q", "attn1.to_k",     "attn1.to_v",     "attn1.to_out.0",
                                        "attn2.to_q", "attn2.to_out.0", "ffn.net.0.proj", "ffn.net.2"};
    sparse *matrices[] = {&w->q, &w->k, &w->v, &w->out, &w->text_q, &w->text_out, &w->ff_in, &w->ff_out};
    diti_token_grid grid = diti_transformer_grid(r->model, &r->members[0].step);
    size_t longest = 2 * (size_t)(grid.frames + grid.rows + grid.columns) * r->dim;
    char name[64];
    uint64_t count;
    uint32_t i;
    for (i = 0; i < DITI_COUNT(matrices); i++) {
        diti_format(name, sizeof name, "blocks.0.%s", names[i]);
        *matrices[i] = long_sparse(r->file, name);
    }
    for (i = 0; i < LONG_WAN_NORMS; i++) {
        diti_format(name, sizeof name, "blocks.0.%s", norms[i]);
        w->norms[i] = long_values(r->file, name, &count);
    }
    w->modulation = long_modulation(r, "blocks.0.scale_shift_table", rows);
    w->cosines = (float *)malloc(((size_t)r->rows * r->dim + longest) * sizeof *w->cosines);
    w->sines = w->cosines + (size_t)r->rows * (r->dim / 2);
    diti_wan_turn(&diti_wan_of(r->model)->config, &grid, w->cosines, w->sines, w->cosines + (size_t)r->rows * r->dim);
}

static inline void long_wan_free(long_wan *w) {
    sparse *matrices[] = {&w->q, &w->k, &w->v, &w->out, &w->text_q, &w->text_out, &w->ff_in, &w->ff_out};
    uint32_t i;
    for (i = 0; i < DITI_COUNT(matrices); i++) long_sparse_free(matrices[i]);
    for (i = 0; i < LONG_WAN_NORMS; i++) free(w->norms[i]);
    free(w->modulation);
    free(w->cosines);
}

/* A row's part of the block behind its attention to all rows: to the text, and the feed-forward. */
static inline void long_wan_finish(const long_run *r, const long_wan *w, double eps, double *x) {
    uint32_t width = r->width, feed = w->ff_in.rows, i;
    double *h = (double *)malloc((2 * (size_t)width + feed) * sizeof *h), *y = h + width, *wide = y + width;
    long_norm(x, width, eps, w->norms[3], w->norms[4], NULL, NULL, h);
    long_apply(&w->text_q, h, 0, width, y);
    long_rms(y, width, eps, w->norms[2]);
    long_attend(y, r->text, r->text + width, 2 * (size_t)width, r->clip->text_length, r->heads, r->dim, h);
    long_apply(&w->text_out, h, 0, width, y);
    long_add(r, x, NULL, y);
    long_norm(x, width, eps, NULL, NULL, w->modulation + 3 * width, w->modulation + 4 * width, h);
    long_apply(&w->ff_in, h, 0, feed, wide);
    for (i = 0; i < feed; i++) wide[i] = long_gelu(wide[i]);
    long_apply(&w->ff_out, wide, 0, width, h);
    long_add(r, x, w->modulation + 5 * width, h);
    free(h);
}

static inline void long_reference_wan(long_run *r) {
    const double eps = (double)diti_wan_of(r->model)->config.eps;
    const uint32_t width = r->width, last = r->rows - 1,
                   rows[LONG_SAMPLES / 2] = {0, 1, r->plane, last / 3, 2 * (last / 3) + 5, last};
    float *given = long_read(r, 1), *kv = (float *)malloc(2 * (size_t)r->rows * width * sizeof *kv);
    double *h = (double *)malloc(2 * (size_t)width * sizeof *h), *y = h + width;
    double *expected = (double *)malloc(LONG_SAMPLES * (size_t)width * sizeof *expected);
    long_wan w = DITI_ZERO;
    uint32_t i, k, c;
    r->text = long_read(r, 2);
    long_wan_read(r, &w, given);
    for (i = 0; i < r->rows; i++) {
        double *x = long_row(r, i);
        long_norm(x, width, eps, NULL, NULL, w.modulation, w.modulation + width, h);
        long_apply(&w.k, h, 0, width, y);
        long_rms(y, width, eps, w.norms[1]);
        long_turn(r, w.cosines, w.sines, i, y);
        for (c = 0; c < width; c++) kv[2 * (size_t)i * width + c] = (float)y[c];
        long_apply(&w.v, h, 0, width, y);
        for (c = 0; c < width; c++) kv[(2 * (size_t)i + 1) * width + c] = (float)y[c];
        free(x);
    }
    for (k = 0; k < LONG_SAMPLES / 2; k++) {
        double *x = long_row(r, rows[k]);
        long_norm(x, width, eps, NULL, NULL, w.modulation, w.modulation + width, h);
        long_apply(&w.q, h, 0, width, y);
        long_rms(y, width, eps, w.norms[0]);
        long_turn(r, w.cosines, w.sines, rows[k], y);
        long_attend(y, kv, kv + width, 2 * (size_t)width, r->rows, r->heads, r->dim, h);
        long_apply(&w.out, h, 0, width, y);
        long_add(r, x, w.modulation + 2 * width, y);
        long_wan_finish(r, &w, eps, x);
        memcpy(expected + (size_t)k * width, x, width * sizeof *x);
        free(x);
    }
    long_compare(r, rows, LONG_SAMPLES / 2, expected);
    long_wan_free(&w);
    free(given);
    free(kv);
    free(h);
    free(expected);
}

/* ---- the clips ---- */

static inline void long_stdit(real_file *file) { real_stdit(file, 1, 120, 1); }
static inline void long_latte(real_file *file) { real_latte(file, true, 1); }
static inline void long_cogvideox_5b(real_file *file) { real_cogvideox(file, 3072, 1, 1, 16); }
static inline void long_wan_14b(real_file *file) { real_wan(file, 5120, 1, 13824, 16, 16, 0); }

static const long_clip long_clips[] = {
    {"STDiT 360x512x512",
     long_stdit,
     "STDiT",
     360,
     64,
     64,
     120,
     37,
     {36, 16, 16},
     "a tenth of its frames, a sixteenth of its places",
     1},
    {"STDiT 360x512x512 on 2 devices",
     long_stdit,
     "STDiT",
     360,
     64,
     64,
     120,
     37,
     {36, 16, 16},
     "a tenth of its frames, a sixteenth of its places",
     2},
    {"LatteT2V 65 frames", long_latte, "LatteT2V", 17, 64, 64, 300, 37, {17, 64, 64}, "all of it", 1},
    {"LatteT2V 221 frames", long_latte, "LatteT2V", 56, 64, 64, 300, 37, {56, 16, 16}, "a sixteenth of its places", 1},
    {"LatteT2V 513 frames",
     long_latte,
     "LatteT2V",
     129,
     64,
     64,
     300,
     37,
     {129, 16, 16},
     "a sixteenth of its places",
     1},
    {"CogVideoX-5b 49x480x720",
     long_cogvideox_5b,
     "CogVideoXTransformer3DModel",
     13,
     60,
     90,
     226,
     226,
     {13, 16, 24},
     "a fourteenth of its places",
     1},
    {"Wan 14B 81x720x1280",
     long_wan_14b,
     "WanTransformer3DModel",
     21,
     90,
     160,
     512,
     512,
     {21, 8, 8},
     "one of 225 of its places",
     1},
};

/* Devices divide frames, and exchange them for places where attention is within these. */
static inline void long_divide(long_run *r) {
    uint32_t i, k;
    r->count = r->clip->devices;
    for (i = 0; i < r->count && r->count > 1; i++) {
        diti_ranks *group = &r->members[i].axes.ulysses;
        group->count = r->count;
        group->index = i;
        for (k = 0; k < r->count; k++) group->devices[k] = k;
        r->members[i].axes.sequence = *group;
    }
}

static inline void long_run_block(long_run *r) {
    uint32_t i;
    for (i = 0; i < r->count; i++)
        if (!long_emit(r, i)) return;
    if (!long_execute(r)) return;
    if (r->model->family == diti_stdit_family())
        long_reference_stdit(r);
    else if (r->model->family == diti_wan_family())
        long_reference_wan(r);
    else if (r->model->traits.joint)
        long_reference_cogvideox(r);
    else
        long_reference_latte(r);
}

static inline void long_run_clip(const long_clip *clip, const dit_context *context, const diti_env *env) {
    real_file file = DITI_ZERO;
    long_run r = DITI_ZERO;
    diti_transformer *model = NULL;
    diti_checkpoint *checkpoint = NULL;
    diti_json *json = NULL;
    dit_source source;
    dit_error err = DITI_ZERO;
    char config[64];
    uint32_t i;
    diti_format(config, sizeof config, "{\"_class_name\":\"%s\"%s}", clip->class_name,
                clip->make == long_cogvideox_5b ? ",\"num_layers\":1" : "");
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_F32;
    file.sparse = true;
    clip->make(&file);
    source = real_source(&file);
    r.clip = clip;
    r.file = &file;
    r.context = context;
    if (CHECK_MESSAGE(diti_json_parse(env, config, strlen(config), "config.json", &json, &err) == DIT_OK &&
                          diti_checkpoint_open(env, &source, &checkpoint, &err) == DIT_OK &&
                          diti_transformer_load(context->device, env, json, checkpoint, "", NULL, &model, &err) ==
                              DIT_OK,
                      "%s: %s", clip->name, err.message)) {
        r.model = model;
        long_divide(&r);
        long_measure(&r);
        long_run_block(&r);
    }
    for (i = 0; i < r.count; i++) {
        diti_plan_destroy(r.members[i].plan);
        diti_graph_free(&r.members[i].graph);
        if (model) diti_free(&model->component.env, r.members[i].step.family);
    }
    free(r.x);
    free(r.after);
    free(r.text);
    diti_transformer_destroy(model);
    diti_checkpoint_close(checkpoint);
    diti_json_free(env, json);
    real_free(&file);
    fflush(stdout);
}
#endif
