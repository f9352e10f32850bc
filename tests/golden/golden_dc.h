/* AutoencoderDC: recorded latents decoded, whole and in tiles that are as large as all of it. Nothing is recorded of
   the encoder: a reference in doubles, which must decode what is recorded, too, encodes pictures beside it. */
#ifndef GOLDEN_DC_H
#define GOLDEN_DC_H
#include "golden_vae.h"

static inline bool golden_is_vae_dc(const golden_folder *folder) {
    return folder->golden && folder->config &&
           diti_equal(diti_json_string(folder->config, "_class_name", ""), "AutoencoderDC");
}

/* --- the reference: planes [channels, height, width] of doubles --- */
typedef struct golden_planes_dc {
    uint32_t channels, height, width;
    double *at;
} golden_planes_dc;

typedef struct golden_dc {
    golden *g;
    const diti_checkpoint *weights;
    uint32_t head_dim;
} golden_dc;

static inline golden_planes_dc golden_dc_new(uint32_t channels, uint32_t height, uint32_t width) {
    golden_planes_dc p = {channels, height, width, NULL};
    p.at = (double *)calloc((size_t)channels * height * width + 1, sizeof *p.at);
    return p;
}

static inline float *golden_dc_values(const golden_dc *dc, const char *name, uint64_t *count) {
    return golden_floats(dc->weights, name, count);
}

/* A convolution of `groups` groups; the kernel's side follows from the weight. NAME.weight, NAME.bias. */
static inline golden_planes_dc golden_dc_conv(const golden_dc *dc, const golden_planes_dc *x, const char *name,
                                              uint32_t stride, uint32_t groups) {
    char full[160];
    uint64_t count, biases;
    float *w, *bias;
    golden_planes_dc y;
    uint32_t out, own = x->channels / groups, side = 1;
    diti_format(full, sizeof full, "%s.weight", name);
    out = (uint32_t)diti_checkpoint_find(dc->weights, full)->shape[0];
    w = golden_dc_values(dc, full, &count);
    diti_format(full, sizeof full, "%s.bias", name);
    bias = golden_dc_values(dc, full, &biases);
    while (side * side * own * out < count) side++;
    y = golden_dc_new(out, x->height / stride, x->width / stride);
    for (uint32_t o = 0; o < out; o++)
        for (uint32_t py = 0; py < y.height; py++)
            for (uint32_t px = 0; px < y.width; px++) {
                double sum = bias ? (double)bias[o] : 0;
                for (uint32_t i = 0; i < own; i++)
                    for (uint32_t k = 0; k < side * side; k++) {
                        int at_y = (int)(py * stride + k / side) - (int)(side / 2),
                            at_x = (int)(px * stride + k % side) - (int)(side / 2);
                        uint32_t c = o / (out / groups) * own + i;
                        if (at_y < 0 || at_x < 0 || at_y >= (int)x->height || at_x >= (int)x->width) continue;
                        sum += (double)w[((size_t)o * own + i) * side * side + k] *
                               x->at[((size_t)c * x->height + (uint32_t)at_y) * x->width + (uint32_t)at_x];
                    }
                y.at[((size_t)o * y.height + py) * y.width + px] = sum;
            }
    free(w);
    free(bias);
    return y;
}

static inline void golden_dc_silu(golden_planes_dc *x) {
    for (size_t i = 0; i < (size_t)x->channels * x->height * x->width; i++) x->at[i] /= 1 + exp(-x->at[i]);
}

/* RMS norm of every pixel, plus residual where there is one, which is freed. */
static inline void golden_dc_norm(const golden_dc *dc, golden_planes_dc *x, const char *name,
                                  const golden_planes_dc *residual) {
    char full[160];
    uint64_t count;
    size_t area = (size_t)x->height * x->width;
    float *w, *bias;
    diti_format(full, sizeof full, "%s.weight", name);
    w = golden_dc_values(dc, full, &count);
    diti_format(full, sizeof full, "%s.bias", name);
    bias = golden_dc_values(dc, full, &count);
    for (size_t p = 0; p < area; p++) {
        double squares = 0;
        for (uint32_t c = 0; c < x->channels; c++) squares += x->at[c * area + p] * x->at[c * area + p];
        for (uint32_t c = 0; c < x->channels; c++)
            x->at[c * area + p] = x->at[c * area + p] / sqrt(squares / x->channels + 1e-5) * (double)w[c] +
                                  (double)bias[c] + (residual ? residual->at[c * area + p] : 0);
    }
    if (residual) free(residual->at);
    free(w);
    free(bias);
}

static inline golden_planes_dc golden_dc_join(golden_planes_dc a, golden_planes_dc b) {
    size_t area = (size_t)a.height * a.width;
    golden_planes_dc y = golden_dc_new(a.channels + b.channels, a.height, a.width);
    memcpy(y.at, a.at, a.channels * area * sizeof *y.at);
    memcpy(y.at + a.channels * area, b.at, b.channels * area * sizeof *y.at);
    free(a.at);
    free(b.at);
    return y;
}

/* Attention of all pixels by its quadratic form: out = sum of v (k . q) / sum of k . q. */
static inline golden_planes_dc golden_dc_attend(const golden_dc *dc, const golden_planes_dc *all) {
    uint32_t dim = dc->head_dim, heads = all->channels / 3 / dim;
    size_t area = (size_t)all->height * all->width;
    golden_planes_dc y = golden_dc_new(heads * dim, all->height, all->width);
    for (uint32_t h = 0; h < heads; h++) {
        const double *q = all->at + (size_t)h * 3 * dim * area, *k = q + dim * area, *v = k + dim * area;
        for (size_t n = 0; n < area; n++) {
            double sum = 1e-15;
            for (size_t m = 0; m < area; m++) {
                double score = 0;
                for (uint32_t d = 0; d < dim; d++) score += fmax(q[d * area + n], 0) * fmax(k[d * area + m], 0);
                sum += score;
                for (uint32_t d = 0; d < dim; d++) y.at[(h * dim + d) * area + n] += score * v[d * area + m];
            }
            for (uint32_t d = 0; d < dim; d++) y.at[(h * dim + d) * area + n] /= sum;
        }
    }
    return y;
}

/* The block of that name; x is taken. */
static inline golden_planes_dc golden_dc_block(const golden_dc *dc, golden_planes_dc x, const char *name) {
    char full[160];
    golden_planes_dc h, more, own;
    size_t area = (size_t)x.height * x.width;
    diti_format(full, sizeof full, "%s.conv1.weight", name);
    if (diti_checkpoint_find(dc->weights, full)) {
        diti_format(full, sizeof full, "%s.conv1", name);
        h = golden_dc_conv(dc, &x, full, 1, 1);
        golden_dc_silu(&h);
        diti_format(full, sizeof full, "%s.conv2", name);
        more = golden_dc_conv(dc, &h, full, 1, 1);
        free(h.at);
        diti_format(full, sizeof full, "%s.norm", name);
        golden_dc_norm(dc, &more, full, &x);
        return more;
    }
    diti_format(full, sizeof full, "%s.attn.to_q", name);
    own = golden_dc_conv(dc, &x, full, 1, 1);
    diti_format(full, sizeof full, "%s.attn.to_k", name);
    own = golden_dc_join(own, golden_dc_conv(dc, &x, full, 1, 1));
    diti_format(full, sizeof full, "%s.attn.to_v", name);
    own = golden_dc_join(own, golden_dc_conv(dc, &x, full, 1, 1));
    diti_format(full, sizeof full, "%s.attn.to_qkv_multiscale.0.proj_in", name);
    h = golden_dc_conv(dc, &own, full, 1, own.channels);
    diti_format(full, sizeof full, "%s.attn.to_qkv_multiscale.0.proj_out", name);
    more = golden_dc_conv(dc, &h, full, 1, own.channels / dc->head_dim);
    free(h.at);
    own = golden_dc_join(own, more);
    h = golden_dc_attend(dc, &own);
    free(own.at);
    diti_format(full, sizeof full, "%s.attn.to_out", name);
    own = golden_dc_conv(dc, &h, full, 1, 1);
    free(h.at);
    diti_format(full, sizeof full, "%s.attn.norm_out", name);
    golden_dc_norm(dc, &own, full, &x);
    diti_format(full, sizeof full, "%s.conv_out.conv_inverted", name);
    h = golden_dc_conv(dc, &own, full, 1, 1);
    golden_dc_silu(&h);
    diti_format(full, sizeof full, "%s.conv_out.conv_depth", name);
    more = golden_dc_conv(dc, &h, full, 1, h.channels);
    free(h.at);
    h = golden_dc_new(more.channels / 2, more.height, more.width);
    for (size_t i = 0; i < h.channels * area; i++) {
        double gate = more.at[h.channels * area + i];
        h.at[i] = more.at[i] * gate / (1 + exp(-gate));
    }
    free(more.at);
    diti_format(full, sizeof full, "%s.conv_out.conv_point", name);
    more = golden_dc_conv(dc, &h, full, 1, 1);
    free(h.at);
    diti_format(full, sizeof full, "%s.conv_out.norm", name);
    golden_dc_norm(dc, &more, full, &own);
    return more;
}

/* Adds means of neighbouring channels of x, whose blocks of side x side pixels have become channels, to y. */
static inline void golden_dc_average(const golden_planes_dc *x, uint32_t side, golden_planes_dc *y) {
    uint32_t each = x->channels * side * side / y->channels;
    for (uint32_t c = 0; c < y->channels; c++)
        for (uint32_t i = 0; i < each; i++)
            for (uint32_t py = 0; py < y->height; py++)
                for (uint32_t px = 0; px < y->width; px++) {
                    uint32_t n = c * each + i, from = n / (side * side), dy = n % (side * side) / side, dx = n % side;
                    y->at[((size_t)c * y->height + py) * y->width + px] +=
                        x->at[((size_t)from * x->height + py * side + dy) * x->width + px * side + dx] / each;
                }
}

static inline golden_planes_dc golden_dc_encode(const golden_dc *dc, const golden_planes_dc *image) {
    golden_planes_dc x = golden_dc_conv(dc, image, "encoder.conv_in", 1, 1), y;
    char name[96], full[128];
    for (uint32_t level = 0;; level++) {
        bool there = false;
        for (uint32_t i = 0;; i++) {
            diti_format(name, sizeof name, "encoder.down_blocks.%u.%u", (unsigned)level, (unsigned)i);
            diti_format(full, sizeof full, "%s.conv.weight", name);
            if (diti_checkpoint_find(dc->weights, full)) {
                diti_format(full, sizeof full, "%s.conv", name);
                y = golden_dc_conv(dc, &x, full, 2, 1);
                golden_dc_average(&x, 2, &y);
                free(x.at);
                x = y;
                there = true;
                continue;
            }
            diti_format(full, sizeof full, "%s.conv1.weight", name);
            if (!diti_checkpoint_find(dc->weights, full)) {
                diti_format(full, sizeof full, "%s.attn.to_q.weight", name);
                if (!diti_checkpoint_find(dc->weights, full)) break;
            }
            x = golden_dc_block(dc, x, name);
            there = true;
        }
        if (!there) break;
    }
    y = golden_dc_conv(dc, &x, "encoder.conv_out", 1, 1);
    golden_dc_average(&x, 1, &y);
    free(x.at);
    return y;
}

/* --- dit.h --- */
static inline void golden_dc_plan(golden *g, golden_vae_case *c, const char *what) {
    dit_error err = DITI_ZERO;
    if (golden_require(g, golden_graph_create(&c->m, &err) == DIT_OK, "%s is planned %s", what, err.message))
        golden_graph_run(&c->m);
    golden_graph_end(&c->m);
}

static inline bool golden_run_dc_case(golden *g, const golden_folder *folder, const diti_vae *vae, uint32_t index) {
    golden_vae_case c = DITI_ZERO;
    golden_planes p = {1, {NULL, 1, 1, 0, 0, 1, 1}};
    char name[96];
    diti_tensor latent;
    c.m.folder = folder;
    c.vae = vae;
    diti_format(c.prefix, sizeof c.prefix, "case%u", (unsigned)index);
    if (!golden_vae_shape(&c, "in.latents", name, &p)) return false;
    golden_graph_begin(&c.m, g, folder);
    latent = golden_give(&c.m, DITI_F32, p.channels, p.size.height * p.size.width, golden_vae_planes(&c, name, p));
    golden_vae_expect(&c, "out", diti_vae_decode(vae, &c.m.graph, latent, p.size.height, p.size.width, 0, NULL),
                      GOLDEN_MODEL);
    golden_dc_plan(g, &c, "decoding");
    return true;
}

/* A picture of noise, encoded. */
static inline void golden_run_dc_encode(golden *g, const golden_folder *folder, const diti_vae *vae,
                                        const diti_checkpoint *weights, uint32_t height, uint32_t width) {
    golden_dc dc = {g, weights, vae->dc->head_dim};
    golden_planes_dc image = golden_dc_new(3, height, width), wanted;
    golden_vae_case c = DITI_ZERO;
    float *rows = (float *)calloc((size_t)3 * height * width, sizeof *rows), *reference;
    diti_random random;
    size_t i, area = (size_t)height * width;
    uint32_t values, latent;
    char label[96];
    diti_random_seed(&random, height * 1000 + width);
    diti_random_normal(&random, rows, 3 * area);
    for (i = 0; i < 3 * area; i++) image.at[i % 3 * area + i / 3] = (double)rows[i];
    wanted = golden_dc_encode(&dc, &image);
    latent = wanted.height * wanted.width;
    values = latent * wanted.channels;
    reference = (float *)calloc(values, sizeof *reference);
    for (i = 0; i < values; i++) reference[i % latent * wanted.channels + i / latent] = (float)wanted.at[i];
    golden_graph_begin(&c.m, g, folder);
    diti_format(label, sizeof label, "a picture of %u x %u encoded", (unsigned)height, (unsigned)width);
    golden_expect(
        &c.m, label,
        diti_vae_encode(vae, &c.m.graph, golden_give(&c.m, DITI_F32, (uint32_t)area, 3, rows), height, width, 0),
        reference, GOLDEN_MODEL);
    golden_dc_plan(g, &c, "encoding");
    free(image.at);
    free(wanted.at);
}

static inline void golden_run_vae_dc(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    diti_vae *vae = NULL;
    dit_error err = DITI_ZERO;
    uint32_t i = 0;
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(
            g, diti_vae_load(golden_shared.device, &g->env, folder->config, weights, "", NULL, &vae, &err) == DIT_OK,
            "loads %s", err.message)) {
        while (golden_run_dc_case(g, folder, vae, i)) i++;
        golden_require(g, i > 0, "no latents");
        golden_run_dc_encode(g, folder, vae, weights, 8, 8);
        golden_run_dc_encode(g, folder, vae, weights, 6, 10);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(weights);
}
#endif
