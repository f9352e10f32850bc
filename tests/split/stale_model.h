/* PipeFusion's arithmetic in doubles, on one processor and without any of the library's graphs: generated models of
   PixArt and of SD3 (without norms of queries and keys, each block attending once) whose evaluations may be cut into
   strips, bands of whole rows of tokens. In the first steps, the warm-up, a picture is evaluated whole; behind
   it a strip attends to its own keys and values and those of strips before it of this step, and to all others' of the
   step before. The text's rows of SD3 are computed once per step, with the first strip. (docs/models.md 3.2, 3.3;
   docs/parallel.md 1.1)

   Steps may reuse what a range of blocks added to the same strip when it was computed last (docs/models.md 7.16).

   With one strip, or where all steps are warm-up, this is the exact result.

   Include it after generated_model.h. */
#ifndef STALE_MODEL_H
#define STALE_MODEL_H

typedef struct stale_layer {
    uint64_t rows, columns;
    float *weight, *bias;
} stale_layer;

enum { STALE_BLOCKS = 16, STALE_STREAMS = 2 }; /* streams: of the image, of the text */

typedef struct stale_stream {
    stale_layer modulation; /* SD3 */
    stale_layer q, k, v, out, ff_in, ff_out;
} stale_stream;
typedef struct stale_block {
    float *table; /* PixArt: [6, D] */
    stale_stream streams[STALE_STREAMS];
    stale_layer text_q, text_k, text_v, text_out; /* PixArt's second attention */
} stale_block;

typedef struct stale_model {
    const generated_model *shape;
    bool joint; /* SD3 */
    uint64_t width, channels, out_channels;
    stale_layer patch, time_in, time_out, modulation, pooled_in, pooled_out, caption_in, caption_out, final, proj_out;
    float *final_table, *positions; /* PixArt; SD3 */
    stale_block blocks[STALE_BLOCKS];
} stale_model;

typedef struct stale_request {
    uint32_t columns, rows, steps; /* rows and columns of tokens */
    uint32_t strips, warmup;
    float scale; /* of guidance */
    const diti_step *schedule;
    const generated_inputs *inputs;
    const float *start; /* planar [C, h, w], as the first step sees it */
    uint32_t range, range_end;
    const bool *reuses; /* [steps]: blocks [range, range_end) are reused; NULL: in none */
} stale_request;

/* ---- weights ---- */

static inline stale_layer stale_load_layer(const generated_model *m, const char *format, uint32_t block) {
    char base[112], name[128];
    uint64_t count = 0;
    stale_layer out = {0, 0, NULL, NULL};
    diti_format(base, sizeof base, format, block);
    diti_format(name, sizeof name, "%s.bias", base);
    out.bias = generated_values(m, name, &out.rows);
    diti_format(name, sizeof name, "%s.weight", base);
    out.weight = generated_values(m, name, &count);
    out.columns = count / out.rows;
    return out;
}

static inline void stale_load_stream(const generated_model *m, uint32_t i, const char *const *names,
                                     stale_stream *out) {
    out->q = stale_load_layer(m, names[0], i);
    out->k = stale_load_layer(m, names[1], i);
    out->v = stale_load_layer(m, names[2], i);
    if (names[3]) out->out = stale_load_layer(m, names[3], i);
    if (names[4]) out->ff_in = stale_load_layer(m, names[4], i);
    if (names[5]) out->ff_out = stale_load_layer(m, names[5], i);
    if (names[6]) out->modulation = stale_load_layer(m, names[6], i);
}

#define STALE_BLOCK "transformer_blocks.%u."

static inline void stale_load_block(const generated_model *m, bool joint, uint32_t i, stale_block *out) {
    const char *image[] = {STALE_BLOCK "attn1.to_q",
                           STALE_BLOCK "attn1.to_k",
                           STALE_BLOCK "attn1.to_v",
                           STALE_BLOCK "attn1.to_out.0",
                           STALE_BLOCK "ff.net.0.proj",
                           STALE_BLOCK "ff.net.2",
                           NULL};
    const char *joint_image[] = {STALE_BLOCK "attn.to_q",     STALE_BLOCK "attn.to_k",     STALE_BLOCK "attn.to_v",
                                 STALE_BLOCK "attn.to_out.0", STALE_BLOCK "ff.net.0.proj", STALE_BLOCK "ff.net.2",
                                 STALE_BLOCK "norm1.linear"};
    const char *joint_text[] = {STALE_BLOCK "attn.add_q_proj",       STALE_BLOCK "attn.add_k_proj",
                                STALE_BLOCK "attn.add_v_proj",       STALE_BLOCK "attn.to_add_out",
                                STALE_BLOCK "ff_context.net.0.proj", STALE_BLOCK "ff_context.net.2",
                                STALE_BLOCK "norm1_context.linear"};
    char name[64];
    if (joint) {
        if (i + 1 == m->layers) joint_text[3] = joint_text[4] = joint_text[5] = NULL;
        stale_load_stream(m, i, joint_image, &out->streams[0]);
        stale_load_stream(m, i, joint_text, &out->streams[1]);
        return;
    }
    stale_load_stream(m, i, image, &out->streams[0]);
    out->text_q = stale_load_layer(m, STALE_BLOCK "attn2.to_q", i);
    out->text_k = stale_load_layer(m, STALE_BLOCK "attn2.to_k", i);
    out->text_v = stale_load_layer(m, STALE_BLOCK "attn2.to_v", i);
    out->text_out = stale_load_layer(m, STALE_BLOCK "attn2.to_out.0", i);
    diti_format(name, sizeof name, STALE_BLOCK "scale_shift_table", i);
    out->table = generated_values(m, name, NULL);
}

static inline void stale_load(stale_model *out, const generated_model *m) {
    uint32_t i;
    memset(out, 0, sizeof *out);
    out->shape = m;
    out->joint = diti_equal(m->family, "sd3");
    out->width = m->heads * m->head_dim;
    out->channels = generated_family_of(m)->channels;
    out->patch = stale_load_layer(m, "pos_embed.proj", 0);
    out->proj_out = stale_load_layer(m, "proj_out", 0);
    out->out_channels = out->proj_out.rows / 4;
    if (out->joint) {
        out->time_in = stale_load_layer(m, "time_text_embed.timestep_embedder.linear_1", 0);
        out->time_out = stale_load_layer(m, "time_text_embed.timestep_embedder.linear_2", 0);
        out->pooled_in = stale_load_layer(m, "time_text_embed.text_embedder.linear_1", 0);
        out->pooled_out = stale_load_layer(m, "time_text_embed.text_embedder.linear_2", 0);
        out->caption_in = stale_load_layer(m, "context_embedder", 0);
        out->final = stale_load_layer(m, "norm_out.linear", 0);
        out->positions = generated_values(m, "pos_embed.pos_embed", NULL);
    } else {
        out->time_in = stale_load_layer(m, "adaln_single.emb.timestep_embedder.linear_1", 0);
        out->time_out = stale_load_layer(m, "adaln_single.emb.timestep_embedder.linear_2", 0);
        out->modulation = stale_load_layer(m, "adaln_single.linear", 0);
        out->caption_in = stale_load_layer(m, "caption_projection.linear_1", 0);
        out->caption_out = stale_load_layer(m, "caption_projection.linear_2", 0);
        out->final_table = generated_values(m, "scale_shift_table", NULL);
    }
    for (i = 0; i < m->layers; i++) stale_load_block(m, out->joint, i, &out->blocks[i]);
}

static inline void stale_free_layer(stale_layer *layer) {
    free(layer->weight);
    free(layer->bias);
}

static inline void stale_free(stale_model *m) {
    stale_layer *const layers[] = {&m->patch,      &m->time_in,    &m->time_out,    &m->modulation, &m->pooled_in,
                                   &m->pooled_out, &m->caption_in, &m->caption_out, &m->final,      &m->proj_out};
    size_t i, k, s;
    for (i = 0; i < DITI_COUNT(layers); i++) stale_free_layer(layers[i]);
    free(m->final_table);
    free(m->positions);
    for (i = 0; i < STALE_BLOCKS; i++) {
        stale_block *b = &m->blocks[i];
        stale_layer *const second[] = {&b->text_q, &b->text_k, &b->text_v, &b->text_out};
        for (k = 0; k < 4; k++) stale_free_layer(second[k]);
        for (s = 0; s < STALE_STREAMS; s++) {
            stale_stream *t = &b->streams[s];
            stale_layer *const own[] = {&t->modulation, &t->q, &t->k, &t->v, &t->out, &t->ff_in, &t->ff_out};
            for (k = 0; k < 7; k++) stale_free_layer(own[k]);
        }
        free(b->table);
    }
}

/* ---- arithmetic on rows ---- */

static inline double *stale_new(uint64_t count) { return (double *)calloc((size_t)count, sizeof(double)); }

static inline void stale_apply(const stale_layer *layer, const double *x, double *y) {
    uint64_t r, c;
    for (r = 0; r < layer->rows; r++) {
        double sum = layer->bias[r];
        for (c = 0; c < layer->columns; c++) sum += layer->weight[r * layer->columns + c] * x[c];
        y[r] = sum;
    }
}

static inline void stale_silu(double *x, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++) x[i] /= 1 + exp(-x[i]);
}

static inline void stale_gelu(double *x, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++)
        x[i] *= 0.5 * (1 + tanh(0.79788456080286535588 * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
}

static inline void stale_norm(const double *x, const double *shift, const double *scale, uint64_t width, double *y) {
    double mean = 0, variance = 0;
    uint64_t i;
    for (i = 0; i < width; i++) mean += x[i] / (double)width;
    for (i = 0; i < width; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)width;
    for (i = 0; i < width; i++) y[i] = (x[i] - mean) / sqrt(variance + 1e-6) * (1 + scale[i]) + shift[i];
}

typedef struct stale_keys { /* of one stream */
    double *k, *v;
    uint64_t rows;
} stale_keys;

/* Attends with one query to the keys of some streams. */
static inline void stale_attend(const generated_model *m, const double *q, const stale_keys *keys, uint32_t streams,
                                double *out) {
    uint64_t width = m->heads * m->head_dim, head, row, c;
    uint32_t s, pass;
    memset(out, 0, (size_t)width * sizeof *out);
    for (head = 0; head < m->heads; head++) {
        const uint64_t at = head * m->head_dim;
        double most = -INFINITY, sum = 0;
        for (pass = 0; pass < 2; pass++) {
            for (s = 0; s < streams; s++) {
                for (row = 0; row < keys[s].rows; row++) {
                    double logit = 0, weight;
                    for (c = at; c < at + m->head_dim; c++) logit += q[c] * keys[s].k[row * width + c];
                    logit /= sqrt((double)m->head_dim);
                    if (pass == 0) most = logit > most ? logit : most;
                    if (pass == 0) continue;
                    weight = exp(logit - most);
                    sum += weight;
                    for (c = at; c < at + m->head_dim; c++) out[c] += weight * keys[s].v[row * width + c];
                }
            }
        }
        for (c = at; c < at + m->head_dim; c++) out[c] /= sum;
    }
}

/* ---- one branch of guidance ---- */

typedef struct stale_branch {
    stale_keys keys[STALE_BLOCKS][STALE_STREAMS]; /* the image's are kept from step to step */
    double *pooled;                               /* SD3: what is added to the time */
    double *text, *x;                             /* rows of the text before the blocks; of both streams */
    double *added;                                /* by a range of blocks, like x */
    uint64_t text_rows;
} stale_branch;

static inline const dit_tensor *stale_input(const generated_inputs *in, const char *name) {
    uint32_t i;
    for (i = 0; i < in->count; i++)
        if (!strcmp(in->list[i].name, name)) return &in->list[i];
    return NULL;
}

static inline void stale_begin_text(const stale_model *m, const stale_request *r, bool conditional,
                                    stale_branch *branch) {
    const dit_tensor *text = stale_input(r->inputs, conditional ? "prompt_embeds" : "negative_prompt_embeds");
    const dit_tensor *mask =
        stale_input(r->inputs, conditional ? "prompt_attention_mask" : "negative_prompt_attention_mask");
    const dit_tensor *pooled =
        stale_input(r->inputs, conditional ? "pooled_prompt_embeds" : "negative_pooled_prompt_embeds");
    double in[GENERATED_TEXT], *h = stale_new(m->width);
    uint64_t row, i, k;
    for (row = 0; row < text->shape[0]; row++)
        if (!mask || ((const float *)mask->data)[row] > 0) branch->text_rows = row + 1;
    branch->text = stale_new(branch->text_rows * m->width);
    for (row = 0; row < branch->text_rows; row++) {
        for (i = 0; i < GENERATED_TEXT; i++) in[i] = ((const float *)text->data)[row * GENERATED_TEXT + i];
        stale_apply(&m->caption_in, in, m->joint ? branch->text + row * m->width : h);
        if (m->joint) continue;
        stale_gelu(h, m->width);
        stale_apply(&m->caption_out, h, branch->text + row * m->width);
    }
    if (m->joint) {
        for (i = 0; i < GENERATED_POOLED; i++) in[i] = ((const float *)pooled->data)[i];
        branch->pooled = stale_new(m->width);
        stale_apply(&m->pooled_in, in, h);
        stale_silu(h, m->width);
        stale_apply(&m->pooled_out, h, branch->pooled);
    }
    for (k = 0; k < m->shape->layers; k++) {
        stale_keys *keys = branch->keys[k];
        keys[0].rows = (uint64_t)r->columns * r->rows;
        keys[1].rows = branch->text_rows;
        for (i = 0; i < STALE_STREAMS; i++) {
            keys[i].k = stale_new(keys[i].rows * m->width);
            keys[i].v = stale_new(keys[i].rows * m->width);
        }
        for (row = 0; row < branch->text_rows && !m->joint; row++) { /* the same in all steps */
            stale_apply(&m->blocks[k].text_k, branch->text + row * m->width, keys[1].k + row * m->width);
            stale_apply(&m->blocks[k].text_v, branch->text + row * m->width, keys[1].v + row * m->width);
        }
    }
    branch->x = stale_new(((uint64_t)r->columns * r->rows + branch->text_rows) * m->width);
    branch->added = stale_new(((uint64_t)r->columns * r->rows + branch->text_rows) * m->width);
    free(h);
}

static inline void stale_free_branch(stale_branch *branch) {
    uint32_t i, k;
    for (i = 0; i < STALE_BLOCKS; i++)
        for (k = 0; k < STALE_STREAMS; k++) free(branch->keys[i][k].k), free(branch->keys[i][k].v);
    free(branch->pooled);
    free(branch->text);
    free(branch->x);
    free(branch->added);
}

/* Shifts, scales, gates of a block, by stream [6, D]: shift, scale, gate of the attention, then of the feed-forward. */
static inline void stale_modulation(const stale_model *m, const stale_branch *branch, const double *time,
                                    uint32_t index, double *out[STALE_STREAMS]) {
    const stale_block *block = &m->blocks[index];
    double *active = stale_new(m->width), *all;
    uint64_t i, width = m->width;
    uint32_t s;
    for (i = 0; i < width; i++) active[i] = time[i] + (m->joint ? branch->pooled[i] : 0);
    stale_silu(active, width);
    if (!m->joint) {
        stale_apply(&m->modulation, active, out[0]);
        for (i = 0; i < 6 * width; i++) out[0][i] += block->table[i];
    }
    for (s = 0; s < STALE_STREAMS && m->joint; s++) {
        stale_apply(&block->streams[s].modulation, active, out[s]);
        if (s == 0 || index + 1 < m->shape->layers) continue;
        all = stale_new(width); /* in the last block the scale of the text comes first */
        memcpy(all, out[s], (size_t)width * sizeof *all);
        memcpy(out[s], out[s] + width, (size_t)width * sizeof *all);
        memcpy(out[s] + width, all, (size_t)width * sizeof *all);
        free(all);
    }
    free(active);
}

/* Rows [first, end) of the image, and the text's where `text` says so. */
static inline void stale_run_block(const stale_model *m, stale_branch *branch, const double *time, uint32_t index,
                                   uint64_t first, uint64_t end, bool text) {
    const stale_block *block = &m->blocks[index];
    const uint64_t width = m->width, count[STALE_STREAMS] = {end, text ? branch->text_rows : 0};
    stale_keys *keys = branch->keys[index];
    double *h = stale_new(4 * width), *o = stale_new(width), *f = stale_new(4 * width), *q[STALE_STREAMS],
           *modulation[STALE_STREAMS], *x[STALE_STREAMS];
    uint64_t row, i;
    uint32_t s;
    for (s = 0; s < STALE_STREAMS; s++) {
        modulation[s] = stale_new(6 * width);
        q[s] = stale_new((keys[s].rows + 1) * width);
        x[s] = branch->x + (s ? keys[0].rows * width : 0);
    }
    stale_modulation(m, branch, time, index, modulation);
    for (s = 0; s < (m->joint ? 2u : 1u); s++) {
        const stale_stream *stream = &block->streams[s];
        for (row = s ? 0 : first; row < count[s]; row++) {
            stale_norm(x[s] + row * width, modulation[s], modulation[s] + width, width, h);
            stale_apply(&stream->q, h, q[s] + row * width);
            stale_apply(&stream->k, h, keys[s].k + row * width);
            stale_apply(&stream->v, h, keys[s].v + row * width);
        }
    }
    for (s = 0; s < (m->joint ? 2u : 1u); s++) {
        const stale_stream *stream = &block->streams[s];
        const double *gate = modulation[s] + 2 * width, *gate2 = modulation[s] + 5 * width;
        for (row = s ? 0 : first; row < count[s] && stream->out.rows; row++) {
            double *own = x[s] + row * width;
            stale_attend(m->shape, q[s] + row * width, keys, m->joint ? 2 : 1, o);
            stale_apply(&stream->out, o, h);
            for (i = 0; i < width; i++) own[i] += gate[i] * h[i];
            if (!m->joint) {
                stale_apply(&block->text_q, own, h);
                stale_attend(m->shape, h, keys + 1, 1, o);
                stale_apply(&block->text_out, o, h);
                for (i = 0; i < width; i++) own[i] += h[i];
            }
            stale_norm(own, modulation[s] + 3 * width, modulation[s] + 4 * width, width, h);
            stale_apply(&stream->ff_in, h, f);
            stale_gelu(f, 4 * width);
            stale_apply(&stream->ff_out, f, h);
            for (i = 0; i < width; i++) own[i] += gate2[i] * h[i];
        }
    }
    for (s = 0; s < STALE_STREAMS; s++) free(modulation[s]), free(q[s]);
    free(h);
    free(o);
    free(f);
}

static inline void stale_embed(const stale_model *m, const stale_request *r, const double *latent, float input,
                               stale_branch *branch, uint64_t first, uint64_t end, bool text) {
    const uint64_t width = m->width, pixels = 4 * (uint64_t)r->columns * r->rows;
    float *table = (float *)malloc((size_t)(pixels / 4 * width) * sizeof *table);
    const diti_grid grid = {(uint32_t)r->rows, (uint32_t)r->columns, (float)(r->rows / 8.0), (float)(r->columns / 8.0),
                            1};
    double in[64];
    uint64_t row, i, c;
    if (!m->joint) /* sample_size 16 */
        diti_position_table(&grid, (uint32_t)width, table);
    for (row = first; row < end; row++) {
        const uint64_t y = row / r->columns, x = row % r->columns;
        const float *position = table + row * width;
        if (m->joint) /* the middle of a table of 20 x 20 */
            position = m->positions + (((20 - r->rows) / 2 + y) * 20 + (20 - r->columns) / 2 + x) * width;
        for (c = 0; c < m->channels; c++)
            for (i = 0; i < 4; i++)
                in[4 * c + i] = (double)input * latent[c * pixels + (2 * y + i / 2) * 2 * r->columns + 2 * x + i % 2];
        stale_apply(&m->patch, in, branch->x + row * width);
        for (i = 0; i < width; i++) branch->x[row * width + i] += position[i];
    }
    if (text && m->joint)
        memcpy(branch->x + pixels / 4 * width, branch->text, (size_t)(branch->text_rows * width) * sizeof(double));
    free(table);
}

/* The prediction for rows [first, end), planar in its place. */
static inline void stale_finish(const stale_model *m, const stale_request *r, const double *time, stale_branch *branch,
                                uint64_t first, uint64_t end, double *prediction) {
    const uint64_t width = m->width, pixels = 4 * (uint64_t)r->columns * r->rows;
    double *modulation = stale_new(2 * width), *active = stale_new(width), *h = stale_new(width),
           *out = stale_new(m->proj_out.rows), *shift = modulation, *scale = modulation + width;
    uint64_t row, i, c;
    if (m->joint) {
        for (i = 0; i < width; i++) active[i] = time[i] + branch->pooled[i];
        stale_silu(active, width);
        stale_apply(&m->final, active, modulation);
        scale = modulation;
        shift = modulation + width;
    } else {
        for (i = 0; i < 2 * width; i++) modulation[i] = time[i % width] + m->final_table[i];
    }
    for (row = first; row < end; row++) {
        const uint64_t y = row / r->columns, x = row % r->columns;
        stale_norm(branch->x + row * width, shift, scale, width, h);
        stale_apply(&m->proj_out, h, out);
        for (c = 0; c < m->channels; c++)
            for (i = 0; i < 4; i++)
                prediction[c * pixels + (2 * y + i / 2) * 2 * r->columns + 2 * x + i % 2] =
                    out[i * m->out_channels + c];
    }
    free(modulation);
    free(active);
    free(h);
    free(out);
}

static inline double *stale_time(const stale_model *m, float timestep) {
    float sinusoid[256];
    double in[256], *h = stale_new(m->width), *out = stale_new(m->width);
    uint32_t i;
    diti_sinusoid(&timestep, 1, 256, 0, sinusoid);
    for (i = 0; i < 256; i++) in[i] = sinusoid[i];
    stale_apply(&m->time_in, in, h);
    stale_silu(h, m->width);
    stale_apply(&m->time_out, h, out);
    free(h);
    return out;
}

/* Euler's steps, whose solver needs nothing of steps before. */
static inline void stale_solve(const diti_step *step, const double *prediction, double *latent, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++) {
        double x0 = (double)step->x0_x * latent[i] + (double)step->x0_m * prediction[i];
        latent[i] = (double)step->x_x * latent[i] + (double)step->x_m * prediction[i] + (double)step->d0 * x0;
    }
}

/* added += sign * x in rows [first, end) of the image and in those of the text; into x where `back` says so. */
static inline void stale_add(const stale_model *m, const stale_request *r, stale_branch *branch, uint64_t first,
                             uint64_t end, bool text, double sign, bool back) {
    uint64_t all = (uint64_t)r->columns * r->rows, i;
    for (i = first * m->width; i < end * m->width; i++)
        if (back)
            branch->x[i] += branch->added[i];
        else
            branch->added[i] = (sign > 0 ? branch->added[i] : 0) + sign * branch->x[i];
    if (text && first < all) stale_add(m, r, branch, all, all + branch->text_rows, false, sign, back);
}

static inline void stale_run_blocks(const stale_model *m, const stale_request *r, uint32_t step, stale_branch *branch,
                                    const double *time, uint64_t first, uint64_t end, bool text) {
    bool reuses = r->reuses && r->reuses[step];
    uint32_t k;
    for (k = 0; k < m->shape->layers; k++) {
        if (r->reuses && k == r->range) stale_add(m, r, branch, first, end, text && m->joint, -1, reuses);
        if (!reuses || k < r->range || k >= r->range_end)
            stale_run_block(m, branch, time, k, first, end, text && m->joint);
        if (r->reuses && k + 1 == r->range_end && !reuses)
            stale_add(m, r, branch, first, end, text && m->joint, 1, false);
    }
}

/* The latent behind all steps; freed with free. */
static inline double *stale_picture(const stale_model *m, const stale_request *r) {
    const uint64_t rows = (uint64_t)r->columns * r->rows, values = m->channels * 4 * rows;
    double *latent = stale_new(values), *predictions[2], *time;
    stale_branch *branches = (stale_branch *)calloc(2, sizeof *branches);
    uint32_t step, strip, strips, b;
    uint64_t i;
    for (i = 0; i < values; i++) latent[i] = r->start[i];
    for (b = 0; b < 2; b++) {
        stale_begin_text(m, r, b == 1, &branches[b]);
        predictions[b] = stale_new(values);
    }
    for (step = 0; step < r->steps; step++) {
        time = stale_time(m, r->schedule[step].timestep);
        strips = step < r->warmup ? 1 : r->strips;
        for (strip = 0; strip < strips; strip++) {
            uint64_t first = (uint64_t)r->rows * strip / strips * r->columns,
                     end = (uint64_t)r->rows * (strip + 1) / strips * r->columns;
            for (b = 0; b < 2; b++) {
                stale_embed(m, r, latent, r->schedule[step].input, &branches[b], first, end, strip == 0);
                stale_run_blocks(m, r, step, &branches[b], time, first, end, strip == 0);
                stale_finish(m, r, time, &branches[b], first, end, predictions[b]);
            }
        }
        for (i = 0; i < values; i++) predictions[0][i] += (double)r->scale * (predictions[1][i] - predictions[0][i]);
        stale_solve(&r->schedule[step], predictions[0], latent, values);
        free(time);
    }
    for (b = 0; b < 2; b++) {
        stale_free_branch(&branches[b]);
        free(predictions[b]);
    }
    free(branches);
    return latent;
}
#endif
