/* Kernels that multiply no matrices, against references computed in double precision: norms, rotations, patches, frames
   of clips, channels that stay apart. Then all kernels: equal bytes in slices, within tiny limits, without the
   optimiser and where dit specializes modules; F16 that is rounded to nearest; races. Products, convolutions and
   attention are in kernels.c.
   test-compiler: quick   test-runs: lavapipe swiftshader sanitize newest races */
#include "kernel_bench.h"

/* --- norms --- */

typedef struct norm_case {
    uint32_t rows, columns, rows_per_group, item_rows, text_rows;
    bool rms, affine, modulate, x_act, out_f32, silu;
    float size, offset;
    uint32_t extra;
} norm_case;

static void check_norm(diti_device *device, const norm_case *c) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation, format = c->x_act ? act : DITI_F32;
    matrix x = matrix_random(c->rows, c->columns, c->size, format), weight = matrix_random(1, c->columns, 1, DITI_F32),
           bias = matrix_random(1, c->columns, 1, DITI_F32);
    uint32_t groups = c->rows_per_group ? (c->rows + c->rows_per_group - 1) / c->rows_per_group : 1,
             kinds = c->item_rows ? 2 : 1;
    matrix scale = matrix_random(kinds * groups, c->columns, 1, DITI_F32),
           shift = matrix_random(kinds * groups, c->columns, 1, DITI_F32);
    weight_values w = bias_weight(&weight), b = bias_weight(&bias);
    double *wanted = malloc((size_t)c->rows * c->columns * sizeof(double));
    diti_norm_desc desc = {0};
    diti_tensor out;
    char what[160];
    for (size_t i = 0; i < (size_t)c->rows * c->columns; i++) x.data[i] += c->offset;
    if (format == DITI_F16)
        for (size_t i = 0; i < (size_t)c->rows * c->columns; i++)
            x.data[i] = diti_half_to_float(diti_float_to_half(x.data[i]));
    desc.rms = c->rms;
    desc.eps = 1e-6f;
    if (c->affine) desc.weight = &w.weight;
    if (c->affine && !c->rms) desc.bias = &b.weight;
    if (c->modulate)
        desc.scale = input(&scale, DITI_F32, c->extra, "scale"),
        desc.shift = input(&shift, DITI_F32, c->extra, "shift");
    desc.rows_per_group = c->rows_per_group;
    desc.item_rows = c->item_rows;
    desc.text_rows = c->text_rows;
    desc.out_f32 = c->out_f32;
    desc.silu = c->silu;
    if (c->item_rows) /* between other rows */
        desc.out = diti_tensor_view(graph, diti_tensor_new(graph, act, c->rows + 2, c->columns + 4, "out"), 1, c->rows,
                                    4, c->columns);
    out = diti_norm(graph, input(&x, format, c->extra, "x"), &desc);
    for (uint32_t r = 0; r < c->rows && !only_bytes; r++) {
        double mean = 0, var = 0;
        uint32_t g = c->rows_per_group ? r / c->rows_per_group : 0;
        if (c->item_rows) g = 2 * g + (r % c->item_rows >= c->text_rows);
        for (uint32_t i = 0; i < c->columns && !c->rms; i++) mean += at(&x, r, i) / (double)c->columns;
        for (uint32_t i = 0; i < c->columns; i++) var += (at(&x, r, i) - mean) * (at(&x, r, i) - mean) / c->columns;
        for (uint32_t i = 0; i < c->columns; i++) {
            double v = (at(&x, r, i) - mean) / sqrt(var + 1e-6f);
            if (desc.weight) v *= weight.data[i];
            if (desc.bias) v += bias.data[i];
            if (c->modulate) v = v * (1 + (double)at(&scale, g, i)) + at(&shift, g, i);
            wanted[(size_t)r * c->columns + i] = c->silu ? activated(DITI_ACTIVATION_SILU, v) : v;
        }
    }
    snprintf(what, sizeof what, "norm %s cpu %d [%u, %u] rms %d affine %d modulate %d size %g offset %g",
             diti_rung_name(device->rung), device->is_cpu, c->rows, c->columns, c->rms, c->affine, c->modulate,
             (double)c->size, (double)c->offset);
    if (run_plan()) {
        matrix got = read_tensor(out);
        /* a value of 1e4 is itself rounded to 5e-4 before anything is computed: x is what the device holds, so that
         * costs nothing here */
        close_to(&got, wanted, tolerance_of(c->out_f32 ? DITI_F32 : act), what);
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(weight.data), free(bias.data), free(scale.data), free(shift.data), free(wanted);
}

static void test_norms(diti_device *device) {
    static const uint32_t columns[] = {1152, 64, 33, 6144, 5};
    for (int i = thorough ? 0 : 1; i < (thorough ? 5 : 3); i++) {
        norm_case c = {.rows = 13, .columns = columns[i], .size = 2, .out_f32 = columns[i] % 2 == 1};
        check_norm(device, &c);
        c.offset = 1e4f;
        check_norm(device, &c);
        c.offset = 0;
        c.size = 0; /* constant rows */
        c.rms = true;
        check_norm(device, &c);
        c.size = 100;
        c.affine = true;
        c.x_act = c.silu = true;
        check_norm(device, &c);
        c.rms = c.silu = false;
        c.modulate = true;
        c.rows_per_group = 5;
        c.extra = 4;
        check_norm(device, &c);
        if (columns[i] % 2) continue;
        c.rows = 30; /* two prompts with three images each, and two rows of text */
        c.rows_per_group = 15;
        c.item_rows = 5;
        c.text_rows = 2;
        check_norm(device, &c);
    }
}

/* --- queries and keys: norm and rotation --- */

enum { QKV_HALF_SPLIT = 1, QKV_TWO_AXES = 2, QKV_ROTATE_FIRST = 4, QKV_SHARED = 8 };

/* form: of the rotation. text: so many rows of an item have weights of their own, and the second half of the heads has
   others than the first */
static void check_qkv(diti_device *device, uint32_t heads, uint32_t dim, diti_qkv_norm norm, bool rotate, uint32_t form,
                      bool affine, uint32_t text) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    enum { TOKENS = 9, ROWS = 18 };
    uint32_t width = heads * dim, kinds = text ? 2 : 1;
    matrix x = matrix_random(ROWS, width, 2, act), weight = matrix_random(1, kinds * kinds * dim, 1, DITI_F32),
           bias = matrix_random(1, dim, 1, DITI_F32);
    uint32_t share = form & QKV_SHARED ? 3 : 1, split = form & QKV_TWO_AXES ? dim / 4 : dim / 2;
    bool half_split = form & (QKV_HALF_SPLIT | QKV_TWO_AXES), late = rotate && form & QKV_ROTATE_FIRST;
    matrix cosines = matrix_random(TOKENS / share, dim / 2, 1, DITI_F32),
           sines = matrix_random(TOKENS / share, dim / 2, 1, DITI_F32);
    weight_values w = bias_weight(&weight), b = bias_weight(&bias);
    double *wanted = malloc((size_t)ROWS * width * sizeof(double)), *v = malloc(dim * sizeof(double));
    diti_qkv_desc desc = {0};
    diti_tensor tensor;
    char what[160];
    desc.heads = heads;
    desc.head_dim = dim;
    desc.norm = norm;
    desc.eps = 1e-6f;
    if (affine) desc.weight = &w.weight, desc.bias = norm == DITI_QKV_LAYER ? &b.weight : NULL;
    if (rotate)
        desc.cosines = input(&cosines, DITI_F32, 0, "cosines"), desc.sines = input(&sines, DITI_F32, 0, "sines");
    desc.half_split = half_split;
    desc.two_axes = (form & QKV_TWO_AXES) != 0;
    desc.rotate_first = (form & QKV_ROTATE_FIRST) != 0;
    desc.rows_per_entry = share > 1 ? share : 0;
    desc.tokens = TOKENS;
    desc.kinds = kinds;
    desc.text_rows = text;
    desc.others = text != 0;
    tensor = input(&x, act, 8, "x");
    diti_qk_norm_rope(graph, tensor, &desc);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < heads; h++) {
            double mean = 0, var = 0, *to = wanted + (size_t)r * width + h * dim;
            uint32_t which = text ? 2 * (r % TOKENS >= text) + (h >= heads / 2) : 0;
            for (uint32_t i = 0; i < dim && norm == DITI_QKV_LAYER; i++) mean += (double)at(&x, r, h * dim + i) / dim;
            for (uint32_t i = 0; i < dim; i++)
                var += (at(&x, r, h * dim + i) - mean) * (at(&x, r, h * dim + i) - mean) / dim;
            for (uint32_t i = 0; i < dim; i++) {
                v[i] = norm == DITI_QKV_NO_NORM ? at(&x, r, h * dim + i)
                                                : (at(&x, r, h * dim + i) - mean) / sqrt(var + 1e-6f);
                if (desc.weight && !late) v[i] *= weight.data[which * dim + i];
                if (desc.bias) v[i] += bias.data[i];
                to[i] = v[i];
            }
            for (uint32_t i = 0; i < dim / 2 && rotate; i++) {
                uint32_t a = half_split ? i / split * 2 * split + i % split : 2 * i, z = half_split ? a + split : a + 1;
                double cosine = at(&cosines, r % TOKENS / share, i), sine = at(&sines, r % TOKENS / share, i);
                to[a] = v[a] * cosine - v[z] * sine;
                to[z] = v[z] * cosine + v[a] * sine;
            }
            for (uint32_t i = 0; i < dim && desc.weight && late; i++) to[i] *= weight.data[which * dim + i];
        }
    snprintf(what, sizeof what, "qkv %s cpu %d %u x %u norm %d rotate %d form %u affine %d",
             diti_rung_name(device->rung), device->is_cpu, heads, dim, (int)norm, rotate, form, affine);
    if (run_plan()) {
        matrix got = read_tensor(tensor);
        close_to(&got, wanted, tolerance_of(act), what);
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(weight.data), free(bias.data), free(cosines.data), free(sines.data), free(wanted), free(v);
}

static void test_qkv(diti_device *device) {
    check_qkv(device, 3, 64, DITI_QKV_RMS, true, 0, true, 0);
    check_qkv(device, 2, 88, DITI_QKV_LAYER, true, 0, true, 0);
    check_qkv(device, 2, 72, DITI_QKV_RMS, true, QKV_HALF_SPLIT, false, 0);
    check_qkv(device, 5, 128, DITI_QKV_NO_NORM, true, 0, false, 0);
    check_qkv(device, 4, 16, DITI_QKV_LAYER, false, 0, true, 0);
    check_qkv(device, 6, 24, DITI_QKV_RMS, true, 0, true, 4);
    check_qkv(device, 2, 24, DITI_QKV_RMS, true, QKV_ROTATE_FIRST | QKV_SHARED, true, 0);
    check_qkv(device, 2, 72, DITI_QKV_NO_NORM, true, QKV_HALF_SPLIT | QKV_SHARED, false, 0);
    check_qkv(device, 2, 72, DITI_QKV_NO_NORM, true, QKV_TWO_AXES, false, 0);
    if (device->rung == DITI_RUNG_BASE) check_qkv(device, 3, 36, DITI_QKV_NO_NORM, true, QKV_TWO_AXES, false, 0);
}

/* --- patches, and rows that frames share --- */

enum { THERE, BACK, BACK_PLANAR };

/* Latents that end inside a patch, and patches of more frames than one. */
static void check_patches(diti_device *device, const diti_patches *p, int way) {
    uint32_t deep = p->patch_frames ? p->patch_frames : 1, frames = p->frames ? p->frames : 1, patch = p->patch;
    uint32_t gf = frames / deep, gh = (p->height + patch - 1) / patch, gw = (p->width + patch - 1) / patch;
    uint32_t volume = deep * patch * patch, plane = frames * p->height * p->width, tokens = gf * gh * gw;
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    matrix latent = matrix_random(p->batch * p->channels, plane, 1, act),
           rows = matrix_random(p->batch * tokens, p->channels * volume, 1, DITI_F32);
    double *there = calloc((size_t)rows.rows * rows.columns, sizeof *there),
           *back = calloc((size_t)latent.rows * plane, sizeof *back);
    diti_tensor from = input(way == THERE ? &latent : &rows, DITI_F32, 0, "from"), to;
    char what[120];
    to = way == THERE  ? diti_patchify(graph, from, p, 0)
         : way == BACK ? diti_unpatchify(graph, from, p, p->channels)
                       : diti_unpatchify_planes(graph, from, p);
    for (uint32_t b = 0; b < p->batch; b++)
        for (uint32_t c = 0; c < p->channels; c++)
            for (uint32_t at_pixel = 0; at_pixel < plane; at_pixel++) {
                uint32_t f = at_pixel / (p->height * p->width), y = at_pixel / p->width % p->height,
                         x = at_pixel % p->width;
                uint32_t token = ((b * gf + f / deep) * gh + y / patch) * gw + x / patch;
                uint32_t inside = (f % deep * patch + y % patch) * patch + x % patch, row = b * p->channels + c;
                there[(size_t)token * rows.columns + c * volume + inside] = at(&latent, row, at_pixel);
                back[(size_t)row * plane + at_pixel] =
                    at(&rows, token, way == BACK_PLANAR ? c * volume + inside : inside * p->channels + c);
            }
    CHECK(diti_patches_tokens(p) == tokens);
    snprintf(what, sizeof what, "patches of %u x %u x %u in %u x %u x %u, way %d", deep, patch, patch, frames,
             p->height, p->width, way);
    if (run_plan()) {
        matrix got = read_tensor(to);
        close_to(&got, way == THERE ? there : back, 0, what);
        free(got.data);
    }
    end();
    free(latent.data), free(rows.data), free(there), free(back);
}

/* A row of a table of words picks rows of a table of floats for three frames; frames share rows of what is added; the
   rows of one frame are taken from another tensor. */
static void check_shared_rows(diti_device *device) {
    enum { FRAMES = 3, SHARE = 5, COLUMNS = 12, STEPS = 2 };
    static const uint32_t words[STEPS * FRAMES] = {0, 2, 0, 1, 2, 7}, step[1] = {1};
    diti_graph *graph = begin(device);
    matrix table = matrix_random(STEPS + 1, COLUMNS, 1, DITI_F32),
           x = matrix_random(FRAMES * SHARE, COLUMNS, 1, DITI_F32),
           other = matrix_random(FRAMES * SHARE, COLUMNS, 1, DITI_F32);
    double sums[FRAMES * SHARE * COLUMNS];
    diti_tensor ids, picked, out;
    diti_elementwise_desc add = {0};
    ids = diti_tensor_reshape(graph, input_words(words, STEPS * FRAMES, "ids"), STEPS, FRAMES);
    ids = diti_select_row(graph, ids, input_words(step, 1, "step"), "select");
    picked = diti_gather_tensor(graph, input(&table, DITI_F32, 0, "table"), ids, "pick");
    add.add = picked;
    add.rows_per_add = SHARE;
    add.out_f32 = true;
    out = diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &add);
    diti_copy_chosen(graph, input(&other, DITI_F32, 4, "other"), out, ids, 2, "choose");
    for (uint32_t f = 0; f < FRAMES; f++) /* the third frame's row is none of the table */
        for (uint32_t r = f * SHARE; r < (f + 1) * SHARE; r++)
            for (uint32_t c = 0; c < COLUMNS; c++)
                sums[r * COLUMNS + c] = f == 1   ? at(&other, r, c)
                                        : f == 0 ? at(&x, r, c) + at(&table, words[FRAMES], c)
                                                 : at(&x, r, c);
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, sums, 1e-7, "rows that frames share");
        free(got.data);
    }
    end();
    free(table.data), free(x.data), free(other.data);
}

static void test_patches(diti_device *device) {
    static const diti_patches cases[] = {{2, 3, 4, 7, 9, 2, 2, false},
                                         {1, 4, 0, 6, 4, 2, 0, false},
                                         {1, 2, 3, 5, 5, 4, 1, false},
                                         {2, 7, 1, 1, 1, 1, 0, false}}; /* the last one: planes of one element */
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        check_patches(device, &cases[i], THERE);
        check_patches(device, &cases[i], i % 2 ? BACK : BACK_PLANAR);
    }
    check_patches(device, &cases[0], BACK);
    check_shared_rows(device);
}

/* --- GroupNorm --- */

/* Sums as two devices would make them; the first one has so many of the image's parts. */
static diti_tensor moments_of_parts(diti_graph *graph, diti_tensor x, uint32_t first,
                                    const diti_group_norm_desc *desc) {
    diti_tensor_info info = *diti_tensor_get(graph, x);
    uint32_t columns = DITI_GROUP_MOMENTS * desc->groups, rows = info.rows / desc->parts, i;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, desc->parts, columns, "moments");
    diti_group_norm_desc own = *desc;
    for (i = 0; i < 2; i++) {
        own.parts = i ? desc->parts - first : first;
        diti_copy(graph,
                  diti_group_moments(
                      graph, diti_tensor_view(graph, x, i * first * rows, own.parts * rows, 0, info.columns), &own),
                  diti_tensor_view(graph, all, i * first, own.parts, 0, columns), "moments");
    }
    return all;
}

/* parts: that the image is summed in; first: of them, that one of two devices has, whose result has the same bytes as
   that of one device. */
static void check_group_norm(diti_device *device, uint32_t batch, uint32_t pixels, uint32_t columns, uint32_t groups,
                             bool silu, float offset, uint32_t parts, uint32_t first) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    matrix x = matrix_random(batch * pixels, columns, 2, act), weight = matrix_random(1, columns, 1, DITI_F32),
           bias = matrix_random(1, columns, 1, DITI_F32);
    weight_values w = bias_weight(&weight), b = bias_weight(&bias);
    double *wanted = malloc((size_t)batch * pixels * columns * sizeof(double));
    diti_group_norm_desc desc = {
        .batch = batch, .groups = groups, .eps = 1e-6f, .weight = &w.weight, .bias = &b.weight, .silu = silu};
    diti_tensor in, out, alone = 0;
    char what[160];
    uint32_t width = columns / groups;
    for (size_t i = 0; i < (size_t)batch * pixels * columns; i++) {
        x.data[i] += offset;
        if (act == DITI_F16) x.data[i] = diti_half_to_float(diti_float_to_half(x.data[i]));
    }
    in = input(&x, act, 0, "x");
    desc.parts = parts;
    if (first) alone = diti_group_norm(graph, in, &desc);
    if (first) desc.moments = moments_of_parts(graph, in, first, &desc);
    out = diti_group_norm(graph, in, &desc);
    for (uint32_t item = 0; item < batch && !only_bytes; item++)
        for (uint32_t g = 0; g < groups; g++) {
            double mean = 0, var = 0, n = (double)pixels * width;
            for (int pass = 0; pass < 3; pass++)
                for (uint32_t p = 0; p < pixels; p++)
                    for (uint32_t c = g * width; c < (g + 1) * width; c++) {
                        double v = at(&x, item * pixels + p, c);
                        if (pass == 0) mean += v / n;
                        if (pass == 1) var += (v - mean) * (v - mean) / n;
                        v = (v - mean) / sqrt(var + 1e-6f) * weight.data[c] + bias.data[c];
                        if (pass == 2)
                            wanted[((size_t)item * pixels + p) * columns + c] =
                                silu ? activated(DITI_ACTIVATION_SILU, v) : v;
                    }
        }
    snprintf(what, sizeof what, "group norm %s cpu %d %u x [%u, %u] %u groups offset %g, %u of %u parts",
             diti_rung_name(device->rung), device->is_cpu, batch, pixels, columns, groups, (double)offset, first,
             parts);
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, tolerance_of(act), what);
        if (alone) {
            matrix whole = read_tensor(alone);
            CHECK_MESSAGE(!memcmp(whole.data, got.data, (size_t)batch * pixels * columns * sizeof *got.data),
                          "%s: the bytes are not those of one device", what);
            free(whole.data);
        }
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(weight.data), free(bias.data), free(wanted);
}

static void test_group_norm(diti_device *device) {
    check_group_norm(device, 2, 300, 32, 8, true, 0, 0, 0);
    check_group_norm(device, 2, 300, 32, 8, true, 0, 3, 0);
    check_group_norm(device, 1, 65, 96, 32, false, 0, 0, 0);
    check_group_norm(device, 1, 700, 16, 8, true, 1e4f, 0, 0);
    check_group_norm(device, 1, 700, 16, 8, true, 1e4f, 4, 1);
    check_group_norm(device, 1, 1313, 16, 4, false, 100, 13, 6);
    check_group_norm(device, 3, 1, 64, 32, false, 0, 0, 0);
    if (device->rung == DITI_RUNG_BASE) check_group_norm(device, 2, 10, 9, 3, true, 0, 0, 0);
}

/* --- frames of clips: blended, spread, gathered, conditioned, folded and placed; latents that are drawn --- */

static void close_frames(diti_device *device, diti_tensor out, double *wanted, const char *name) {
    char what[160];
    snprintf(what, sizeof what, "%s %s", name, diti_rung_name(device->rung));
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, tolerance_of(bench.graph.activation), what);
        free(got.data);
    }
    end();
    free(wanted);
}

static void check_blend(diti_device *device, diti_blend_kind kind, uint32_t frames, uint32_t first, uint32_t columns,
                        bool more) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    diti_blend_desc desc = {.kind = kind, .clip = {frames, 3, 5}, .first = first, .weight = 0.75f, .more_weight = -2};
    uint32_t count = diti_blended_frames(kind, frames, first), area = 15;
    matrix x = matrix_random(frames * area, columns, 1, act), y = matrix_random(count * area, columns, 1, DITI_F32);
    double *wanted = malloc((size_t)count * area * columns * sizeof(double));
    char what[100];
    if (more) desc.more = input(&y, DITI_F32, 0, "more");
    for (uint32_t f = 0; f < count; f++)
        for (uint32_t i = 0; i < area * columns; i++) {
#define FRAME(F) ((double)x.data[(size_t)(F)*area * columns + i])
            double v = 0, parts[3] = {1, 0, 0};
            uint32_t from[3] = {f, 0, 0}, g = f - first;
            if (f >= first && kind == DITI_BLEND_DOUBLE) from[0] = first + g / 2;
            if (f >= first && kind == DITI_BLEND_HALVES) {
                from[0] = first + 2 * g, from[1] = from[0] + 1;
                parts[0] = parts[1] = 0.5;
            }
            if (kind == DITI_BLEND_THIRDS)
                for (uint32_t k = 0; k < 3; k++) parts[k] = 1.0 / 3, from[k] = 2 * f < k ? 0 : 2 * f - k;
            if (kind == DITI_BLEND_LINEAR && f > 0) { /* half-pixel centres in frames 1, 2, ... */
                double place = ((f - 1) + 0.5) / 2 - 0.5, last = frames - 2;
                if (place < 0) place = 0;
                if (place > last) place = last;
                from[0] = 1 + (uint32_t)place, from[1] = from[0] + 1 < frames ? from[0] + 1 : from[0];
                parts[1] = place - floor(place), parts[0] = 1 - parts[1];
            }
            for (int k = 0; k < 3; k++) v += parts[k] * FRAME(from[k]);
            if (more) v = 0.75 * v - 2.0 * y.data[(size_t)f * area * columns + i];
            wanted[(size_t)f * area * columns + i] = v;
#undef FRAME
        }
    snprintf(what, sizeof what, "blend %d of %u frames, first %u, %u columns%s", (int)kind, frames, first, columns,
             more ? ", more" : "");
    desc.name = "blend";
    close_frames(device, diti_blend_frames(graph, input(&x, act, columns % 4 ? 0 : 4, "x"), &desc), wanted, what);
    free(x.data), free(y.data);
}

/* x: the coarser clip where it is spread, the finer one where it is gathered. */
static void check_block(diti_device *device, diti_block_desc desc, uint32_t from_columns, bool spread, bool more) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t repeats = desc.repeats ? desc.repeats : 1, modulus = desc.modulus ? desc.modulus : desc.columns;
    diti_video from = desc.clip, to = from;
    matrix x = matrix_random(from.frames * from.height * from.width, from_columns, 1, act), y;
    double *wanted;
    char what[100];
    if (spread)
        to.frames = from.frames * desc.time - desc.first, to.height *= desc.side, to.width *= desc.side;
    else
        to.frames = (from.frames + desc.first) / desc.time, to.height /= desc.side, to.width /= desc.side;
    y = matrix_random(to.frames * to.height * to.width, desc.columns, 1, DITI_F32);
    wanted = calloc((size_t)y.rows * y.columns, sizeof(double));
    /* every element of the finer clip, and where it stands in the coarser one */
    for (uint32_t f = 0; f < (spread ? from.frames * desc.time : from.frames + desc.first); f++)
        for (uint32_t h = 0; h < (spread ? to.height : from.height); h++)
            for (uint32_t w = 0; w < (spread ? to.width : from.width); w++)
                for (uint32_t c = 0; c < (spread ? desc.columns : from_columns); c++) {
                    uint32_t number = (spread ? c % modulus : c) * desc.channel_step + f % desc.time * desc.time_step +
                                      h % desc.side * desc.line_step + w % desc.side * desc.pixel_step;
                    const diti_video *coarse = spread ? &from : &to;
                    uint32_t place = (f / desc.time * coarse->height + h / desc.side) * coarse->width + w / desc.side;
                    uint32_t fine = f < desc.first ? 0 : f - desc.first;
                    if (spread && f >= desc.first)
                        wanted[(size_t)((fine * to.height + h) * to.width + w) * desc.columns + c] =
                            at(&x, place, number / repeats);
                    if (!spread && (f >= desc.first || desc.edge) && number / repeats < desc.columns)
                        wanted[(size_t)place * desc.columns + number / repeats] +=
                            (double)at(&x, (fine * from.height + h) * from.width + w, c) / repeats;
                }
    if (more) {
        desc.more = input(&y, DITI_F32, 0, "more");
        for (size_t i = 0; i < (size_t)y.rows * y.columns; i++) wanted[i] += (double)y.data[i];
    }
    snprintf(what, sizeof what, "%s %u of %u columns, %u x %u, first %u", spread ? "spread" : "gather", desc.columns,
             from_columns, desc.time, desc.side, desc.first);
    desc.name = what;
    close_frames(device,
                 spread ? diti_spread_frames(graph, input(&x, act, 0, "x"), &desc)
                        : diti_gather_frames(graph, input(&x, act, 0, "x"), &desc),
                 wanted, what);
    free(x.data), free(y.data);
}

static void check_condition(diti_device *device, diti_video clip, diti_video coarse, uint32_t first, uint32_t columns) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t area = coarse.height * coarse.width;
    matrix x = matrix_random(clip.frames * clip.height * clip.width, columns, 1, act),
           tables = matrix_random(coarse.frames * area, 2 * columns, 1, DITI_F32);
    double *wanted = malloc((size_t)x.rows * columns * sizeof(double));
    diti_condition_desc desc = {.clip = clip, .coarse = coarse, .first = first, .silu = true, .name = "condition"};
    diti_tensor both = input(&tables, DITI_F32, 0, "tables");
    desc.scale = diti_tensor_view(graph, both, 0, tables.rows, 0, columns);
    desc.shift = diti_tensor_view(graph, both, 0, tables.rows, columns, columns);
    for (uint32_t r = 0; r < x.rows; r++) {
        uint32_t f = r / (clip.height * clip.width), h = r / clip.width % clip.height, w = r % clip.width;
        uint32_t t = f < first ? f : first + (f - first) * (coarse.frames - first) / (clip.frames - first);
        uint32_t row = t * area + h * coarse.height / clip.height * coarse.width + w * coarse.width / clip.width;
        for (uint32_t c = 0; c < columns; c++)
            wanted[(size_t)r * columns + c] = activated(
                DITI_ACTIVATION_SILU, (double)at(&x, r, c) * at(&tables, row, c) + at(&tables, row, columns + c));
    }
    close_frames(device, diti_condition_frames(graph, input(&x, act, 0, "x"), &desc), wanted, "condition");
    free(x.data), free(tables.data);
}

/* [C, T, area] read as [T, C, area], and back. */
static void check_fold(diti_device *device, uint32_t frames, uint32_t columns) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    diti_video clip = {frames, 2, 3};
    matrix x = matrix_random(frames * 6, columns, 1, act);
    double *wanted = malloc((size_t)x.rows * columns * sizeof(double));
    diti_tensor folded = diti_fold_frames(graph, input(&x, act, 0, "x"), &clip, false);
    diti_tensor back = diti_fold_frames(graph, folded, &clip, true);
    for (uint32_t n = 0; n < frames * columns; n++)
        for (uint32_t p = 0; p < 6; p++)
            wanted[(size_t)(n / columns * 6 + p) * columns + n % columns] = at(&x, n % frames * 6 + p, n / frames);
    if (run_plan()) {
        matrix got = read_tensor(folded), again = read_tensor(back);
        close_to(&got, wanted, 1e-7, "folded");
        CHECK(!memcmp(again.data, x.data, (size_t)x.rows * columns * sizeof(float)));
        free(got.data), free(again.data);
    }
    end();
    free(wanted), free(x.data);
}

static void check_draw(diti_device *device, uint32_t rows, uint32_t columns) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(rows, 2 * columns, 40, DITI_F32), noise = matrix_random(rows, columns, 2, DITI_F32);
    double *wanted = malloc((size_t)rows * columns * sizeof(double));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double spread = (double)at(&x, r, columns + c);
            spread = spread < -30 ? -30 : spread > 20 ? 20 : spread;
            wanted[(size_t)r * columns + c] = (at(&x, r, c) + exp(spread / 2) * (double)at(&noise, r, c)) * 0.25;
        }
    close_frames(
        device, diti_draw(graph, input(&x, DITI_F32, 0, "moments"), input(&noise, DITI_F32, 0, "noise"), 0.25f, "draw"),
        wanted, "draw");
    free(x.data), free(noise.data);
}

/* A rectangle of frames 1 and 2 into a larger clip, plain, and faded in place. */
static void check_place(diti_device *device, bool right) {
    diti_graph *graph = begin(device);
    diti_video from = {3, 4, 5}, other = {3, 6, 7}, to = {2, 6, 8};
    matrix x = matrix_random(3 * 20, 3, 1, DITI_F32), y = matrix_random(3 * 42, 3, 1, DITI_F32);
    double *wanted = calloc(2 * 48 * 3, sizeof(double));
    diti_tensor all = diti_tensor_new(graph, DITI_F32, 2 * 48, 3, "all");
    diti_tensor tile = diti_tensor_new(graph, DITI_F32, 3 * 20, 3, "tile");
    diti_place_desc fade = {
        .from = from, .to = from, .part = {3, 3, 5}, .other_size = other, .other_y = 2, .other_x = 1};
    diti_place_desc move = {
        .from = from, .to = to, .part = {2, 3, 4}, .first = 1, .from_y = 1, .from_x = 1, .y = 2, .x = 3, .out = all};
    if (right) fade.part = (diti_video){3, 4, 2}, fade.right = true;
    fade.other = input(&y, DITI_F32, 0, "other");
    fade.out = tile;
    diti_copy(graph, input(&x, DITI_F32, 0, "x"), tile, "copy");
    diti_fill_zeros(graph, all);
    diti_place_frames(graph, tile, &fade);
    diti_place_frames(graph, tile, &move);
    for (uint32_t f = 0; f < 2; f++)
        for (uint32_t h = 1; h < 4; h++)
            for (uint32_t w = 1; w < 5; w++)
                for (uint32_t c = 0; c < 3; c++) {
                    double v = at(&x, ((f + 1) * 4 + h) * 5 + w, c), a = right ? w / 2.0 : h / 3.0;
                    if (a < 1) v = at(&y, ((f + 1) * 6 + h + 2) * 7 + w + 1, c) * (1 - a) + v * a;
                    wanted[((f * 6 + h + 1) * 8 + w + 2) * 3 + c] = v;
                }
    close_frames(device, all, wanted, "place");
    free(x.data), free(y.data);
}

static void test_frames(diti_device *device) {
    uint32_t odd = device->rung >= DITI_RUNG_FP16 ? 6 : 5; /* F16 rows begin at even elements */
    check_blend(device, DITI_BLEND_LINEAR, 4, 1, 8, true);
    check_block(device,
                (diti_block_desc){.clip = {2, 3, 2},
                                  .columns = 6,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                12, true, true);
    check_block(device,
                (diti_block_desc){.clip = {5, 4, 6},
                                  .columns = 12,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                6, false, true);
    check_condition(device, (diti_video){5, 4, 6}, (diti_video){3, 2, 3}, 1, 8);
    check_fold(device, 3, 8);
    check_draw(device, 37, 5);
    check_place(device, false);
    check_place(device, true);
    if (!thorough) return;
    check_blend(device, DITI_BLEND_DOUBLE, 3, 1, odd, false);
    check_blend(device, DITI_BLEND_DOUBLE, 2, 0, 8, false);
    check_blend(device, DITI_BLEND_LINEAR, 2, 1, odd, false);
    check_blend(device, DITI_BLEND_THIRDS, 5, 0, 8, true);
    check_blend(device, DITI_BLEND_THIRDS, 4, 0, odd, false);
    check_blend(device, DITI_BLEND_THIRDS, 1, 0, 4, false);
    check_blend(device, DITI_BLEND_HALVES, 5, 1, odd, false);
    check_blend(device, DITI_BLEND_HALVES, 4, 0, 8, false);
    check_block(
        device,
        (diti_block_desc){.clip = {3, 2, 3}, .columns = odd, .time = 2, .side = 1, .channel_step = 2, .time_step = 1},
        2 * odd, true, false);
    check_block(device,
                (diti_block_desc){.clip = {2, 3, 4},
                                  .columns = odd,
                                  .time = 2,
                                  .side = 1,
                                  .channel_step = 1,
                                  .time_step = odd,
                                  .line_step = 1,
                                  .pixel_step = 1,
                                  .first = 1},
                2 * odd, true, false);
    check_block(device,
                (diti_block_desc){.clip = {2, 3, 2},
                                  .columns = 8,
                                  .time = 1,
                                  .side = 2,
                                  .channel_step = 4,
                                  .line_step = 1,
                                  .pixel_step = 2,
                                  .modulus = 2},
                8, true, false);
    check_block(
        device,
        (diti_block_desc){
            .clip = {1, 4, 6}, .columns = 12, .time = 1, .side = 2, .channel_step = 4, .line_step = 1, .pixel_step = 2},
        3, false, false);
    check_block(device,
                (diti_block_desc){.clip = {3, 2, 4},
                                  .columns = 8,
                                  .time = 2,
                                  .side = 1,
                                  .channel_step = 2,
                                  .time_step = 1,
                                  .repeats = 1,
                                  .first = 1,
                                  .edge = true},
                4, false, false);
    check_condition(device, (diti_video){4, 4, 6}, (diti_video){2, 2, 3}, 0, odd);
    check_fold(device, 4, odd);
}

/* --- rows of texts that have weights --- */

/* Items have `tokens` rows, and two rows of no item stand behind them. The mean is far from 0, where sums that cancel
   are only as good as float sums are. */
static void check_weigh(diti_device *device, uint32_t batch, uint32_t tokens, uint32_t columns, bool ones) {
    diti_graph *graph = begin(device);
    uint32_t rows = batch * tokens + 2;
    matrix x = matrix_random(rows, columns, 1, DITI_F32);
    diti_row_weight *table = calloc(rows, sizeof *table);
    double *wanted = malloc((size_t)rows * columns * sizeof(double));
    diti_elementwise_desc copy = {.out_f32 = true, .name = "copy"};
    diti_tensor out, weights;
    char what[120];
    for (uint32_t i = 0; i < rows; i++) {
        table[i].weight = ones ? 1 : random_float() + 1;
        table[i].rows = i < batch * tokens ? tokens : 0;
        table[i].first = i < batch * tokens ? i / tokens * tokens : 0;
    }
    for (size_t i = 0; i < (size_t)rows * columns; i++) x.data[i] += 0.3f;
    for (uint32_t i = 0; i < rows; i++) {
        double before = 0, after = 0, ratio;
        for (uint32_t r = table[i].first; r < table[i].first + table[i].rows; r++)
            for (uint32_t c = 0; c < columns; c++)
                before += at(&x, r, c), after += (double)at(&x, r, c) * table[r].weight;
        ratio = ones || table[i].rows == 0 ? 1 : before / after;
        for (uint32_t c = 0; c < columns; c++)
            wanted[(size_t)i * columns + c] = (double)at(&x, i, c) * table[i].weight * ratio;
    }
    out = diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &copy);
    weights =
        diti_tensor_reshape(graph, input_words((const uint32_t *)(const void *)table, rows * 4, "weights"), rows, 4);
    diti_weigh_rows(graph, out, weights, "weigh");
    snprintf(what, sizeof what, "weigh %u x [%u, %u]", batch, tokens, columns);
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, ones ? 0 : 1e-5, what);
        free(got.data);
    }
    end();
    free(x.data), free(table), free(wanted);
}

static void test_weigh(diti_device *device) {
    check_weigh(device, 2, 77, 40, false);
    check_weigh(device, 1, 5, 3, false);
    check_weigh(device, 1, 298, 130, true);
}

/* --- convolutions that keep channels apart, and attention without a softmax --- */

/* extra: columns that x, gate and the result have besides. */
static void check_depthwise(diti_device *device, uint32_t batch, uint32_t height, uint32_t width, uint32_t columns,
                            uint32_t side, bool gated, bool bias, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t rows = batch * height * width, channels = (gated ? 2 * columns : columns) + 3;
    matrix x = matrix_random(rows, columns, 1, act), gate = matrix_random(rows, columns, 2, act);
    weight_values w = weight_random(DIT_TYPE_F32, channels, side * side, 1, 1),
                  b = weight_random(DIT_TYPE_F32, 1, channels, 1, 1);
    double *wanted = calloc((size_t)rows * columns, sizeof(double));
    diti_depthwise_desc desc = {.height = height, .width = width, .weight = &w.weight, .first = 3};
    diti_tensor in = input(&x, act, extra, "x");
    char what[120];
    desc.bias = bias ? &b.weight : NULL;
    desc.gate_first = 3 + columns;
    if (gated) desc.gate = input(&gate, act, extra, "gate");
    if (!gated) desc.gate_first = 0;
    for (uint32_t r = 0; r < rows && !only_bytes; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double parts[2] = {0, 0};
            for (uint32_t p = 0; p < (gated ? 2u : 1u); p++) {
                uint32_t channel = 3 + (p ? columns : 0) + c;
                for (int dy = -(int)(side / 2); dy <= (int)(side / 2); dy++)
                    for (int dx = -(int)(side / 2); dx <= (int)(side / 2); dx++) {
                        int y = (int)(r / width % height) + dy, at_x = (int)(r % width) + dx;
                        uint32_t tap = (uint32_t)((dy + (int)(side / 2)) * (int)side + dx + (int)(side / 2));
                        if (y < 0 || at_x < 0 || y >= (int)height || at_x >= (int)width) continue;
                        parts[p] += (double)w.values[channel * side * side + tap] *
                                    (double)at(p ? &gate : &x, (uint32_t)((int)r + dy * (int)width + dx), c);
                    }
                if (bias) parts[p] += (double)b.values[channel];
            }
            wanted[(size_t)r * columns + c] = gated ? parts[0] * activated(DITI_ACTIVATION_SILU, parts[1]) : parts[0];
        }
    snprintf(what, sizeof what, "depthwise %u x %u of %u pictures %u x %u, %u channels%s%s", side, side, batch, height,
             width, columns, gated ? ", gated" : "", bias ? ", bias" : "");
    desc.name = "depthwise";
    close_frames(device, diti_depthwise(graph, in, &desc), wanted, what);
    free(x.data), free(gate.data);
    weight_free(&w), weight_free(&b);
}

static void check_grouped(diti_device *device, uint32_t rows, uint32_t groups, uint32_t size, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t columns = groups * size;
    matrix x = matrix_random(rows, columns, 1, act);
    weight_values w = weight_random(DIT_TYPE_F32, columns, size, 1, 1);
    double *wanted = calloc((size_t)rows * columns, sizeof(double));
    diti_tensor out = diti_tensor_state(graph, act, rows, columns, "out");
    char what[100];
    for (uint32_t r = 0; r < rows && !only_bytes; r++)
        for (uint32_t c = 0; c < columns; c++)
            for (uint32_t i = 0; i < size; i++)
                wanted[(size_t)r * columns + c] +=
                    (double)w.values[c * size + i] * (double)at(&x, r, c / size * size + i);
    snprintf(what, sizeof what, "grouped, %u rows of %u groups of %u", rows, groups, size);
    diti_grouped(graph, input(&x, act, extra, "x"), &w.weight, out, "grouped");
    close_frames(device, out, wanted, what);
    free(x.data);
    weight_free(&w);
}

/* beside: q, k and v of a head side by side; else all q, all k, all v. */
static void check_linear_attention(diti_device *device, uint32_t items, uint32_t rows, uint32_t heads, uint32_t dim,
                                   bool beside, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t width = heads * dim;
    matrix x = matrix_random(items * rows, 3 * width, 1, act);
    double *wanted = calloc((size_t)items * rows * width, sizeof(double)), *scores = calloc(rows, sizeof(double));
    diti_linear_attention_desc desc = {.items = items, .heads = heads, .head_dim = dim};
    char what[120];
    desc.step = beside ? 3 * dim : dim;
    desc.key_offset = beside ? dim : width;
    desc.value_offset = 2 * desc.key_offset;
    for (uint32_t i = 0; i < items && !only_bytes; i++)
        for (uint32_t h = 0; h < heads; h++)
            for (uint32_t r = 0; r < rows; r++) {
                double all = 1e-15;
                for (uint32_t k = 0; k < rows; k++) {
                    scores[k] = 0;
                    for (uint32_t d = 0; d < dim; d++)
                        scores[k] += fmax(0, (double)at(&x, i * rows + r, h * desc.step + d)) *
                                     fmax(0, (double)at(&x, i * rows + k, h * desc.step + desc.key_offset + d));
                    all += scores[k];
                }
                for (uint32_t d = 0; d < dim; d++) {
                    double sum = 0;
                    for (uint32_t k = 0; k < rows; k++)
                        sum += scores[k] * (double)at(&x, i * rows + k, h * desc.step + desc.value_offset + d);
                    wanted[(size_t)(i * rows + r) * width + h * dim + d] = sum / all;
                }
            }
    snprintf(what, sizeof what, "linear attention, %u items of %u rows, %u heads of %u%s", items, rows, heads, dim,
             beside ? ", side by side" : "");
    desc.name = "linear_attention";
    close_frames(device, diti_linear_attention(graph, input(&x, act, extra, "x"), &desc), wanted, what);
    free(x.data), free(scores);
}

/* Values cut off below 0, by an op of their own. */
static void check_relu(diti_device *device, uint32_t rows, uint32_t columns) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(rows, columns, 1, graph->activation);
    diti_elementwise_desc desc = {.activation = DITI_ACTIVATION_RELU, .scale = 2, .offset = 0.25f, .name = "relu"};
    double *wanted = calloc((size_t)rows * columns, sizeof(double));
    for (size_t i = 0; i < (size_t)rows * columns; i++) wanted[i] = fmax(0, 2 * (double)x.data[i] + 0.25);
    close_frames(device, diti_elementwise(graph, input(&x, graph->activation, 0, "x"), &desc), wanted, "relu");
    free(x.data);
}

static void test_channels(diti_device *device) {
    check_relu(device, 9, 21);
    check_depthwise(device, 1, 5, 9, 20, 3, true, true, 0);
    check_depthwise(device, 2, 7, 3, 13, 5, false, false, 0);
    check_grouped(device, 7, 3, 8, 4);
    check_linear_attention(device, 2, 45, 4, 16, false, 4);
    check_linear_attention(device, 1, 300, 2, 8, true, 0);
    if (!thorough) return;
    check_depthwise(device, 3, 1, 1, 4, 3, false, true, 0);
    check_depthwise(device, 1, 1, 7, 6, 5, true, false, 2);
    check_depthwise(device, 2, 6, 5, 30, 1, true, true, 0);
    check_depthwise(device, 1, 4, 4, 8, 7, false, true, 4);
    check_grouped(device, 5, 5, 3, 0);
    check_grouped(device, 1, 2, 1, 0);
    check_linear_attention(device, 3, 1, 1, 4, false, 0);
    check_linear_attention(device, 1, 257, 3, 12, false, 1);
    check_linear_attention(device, 2, 515, 1, 64, true, 0);
}

/* --- equal bytes: again, in slices, within tiny limits, without the optimiser --- */

static uint64_t few_hash; /* of the first part of run_kernels */

/* One case of every kernel, large enough that 128 KiB bindings cut it; few: without other forms of the same kernels. */
static void run_kernels(diti_device *device, bool few) {
    linear_case linear = {.m = 300,
                          .n = 200,
                          .k = 160,
                          .type = DIT_TYPE_F32,
                          .bias = true,
                          .multiply = true,
                          .gate = true,
                          .residual = true,
                          .rows_per_gate = 150};
    conv_case conv = {2,    40,   36, 16, 20, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                      true, true, 0,  0,  1,  1, false, 0, 0, false};
    attention_case attention = {
        .batch = 2, .heads = 2, .head_dim = 72, .queries = 150, .keys = 100, .lengths = true, .lse = true};
    norm_case norm = {.rows = 200, .columns = 320, .modulate = true, .size = 1};
    random_state = 7;
    result_hash = 1;
    check_linear(device, &linear);
    linear = (linear_case){
        .m = 70, .n = 700, .k = 96, .type = DIT_TYPE_Q8_0, .parts = 2, .activation = DITI_ACTIVATION_GELU_TANH};
    check_linear(device, &linear);
    check_conv(device, &conv);
    check_attention(device, &attention);
    check_norm(device, &norm);
    check_group_norm(device, 2, 1000, 32, 8, true, 0, 0, 0);
    check_qkv(device, 3, 64, DITI_QKV_RMS, true, 0, true, 0);
    few_hash = result_hash;
    if (few) return;
    linear.m = 3; /* few rows */
    check_linear(device, &linear);
    conv = (conv_case){1,     30,    24, 64, 16, 3, 1,     1, 1, DIT_TYPE_Q8_0, true, true,
                       false, false, 0,  0,  1,  1, false, 0, 0, false};
    check_conv(device, &conv);
    conv = (conv_case){1,     60,    66, 12, 36, 3, 2,     0, 1, DIT_TYPE_F32, false, true,
                       false, false, 0,  0,  1,  1, false, 0, 0, false};
    check_conv(device, &conv);
    conv = (conv_case){8,     10,    33, 12, 20, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                       false, false, 0,  0,  3,  1, false, 2, 0, false};
    check_conv(device, &conv);
    conv = (conv_case){9,     8,     33, 12, 20, 1, 1,     0, 0, DIT_TYPE_F16, false, true,
                       false, false, 0,  0,  3,  2, false, 1, 1, true};
    check_conv(device, &conv);
    check_blend(device, DITI_BLEND_LINEAR, 40, 1, 20, true);
    check_blend(device, DITI_BLEND_THIRDS, 41, 0, 20, false);
    check_block(device,
                (diti_block_desc){.clip = {5, 9, 30},
                                  .columns = 12,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                24, true, true);
    check_block(device,
                (diti_block_desc){.clip = {5, 20, 30},
                                  .columns = 12,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                6, false, true);
    check_condition(device, (diti_video){5, 20, 30}, (diti_video){3, 10, 15}, 1, 16);
    check_depthwise(device, 2, 20, 30, 24, 3, true, true, 0);
    check_grouped(device, 300, 3, 8, 0);
    check_linear_attention(device, 2, 300, 2, 16, false,
                           0); /* a part of 256 rows fits the small range of test_same_bytes */
}

static void run_everything(diti_device *device) { run_kernels(device, false); }

/* Returns the bytes' hash. */
static uint64_t test_same_bytes(const char *form, diti_rung rung) {
    char overrides[160];
    diti_device *device;
    uint64_t whole, again, sliced;
    snprintf(overrides, sizeof overrides, "cpu=%s,shared=16K", form);
    device = open_rung(overrides, rung);
    if (!device) return 0;
    run_everything(device);
    whole = result_hash;
    only_bytes = true;
    run_everything(device);
    again = result_hash;
    CHECK_MESSAGE(whole == again, "cpu=%s: the same work twice gives other bytes", form);
    for (device->candidate = 2; device->candidate <= DITI_TUNE_CANDIDATES && sweep; device->candidate++) {
        run_everything(device); /* each is a set of kernels to compile */
        CHECK_MESSAGE(whole == result_hash, "cpu=%s: candidate %u gives other bytes", form, device->candidate);
    }
    device->candidate = 0;
    /* The partial sums of a tile must fit: its columns are as many as a subgroup's threads ask for. */
    device->limits.storage_range = (device->limits.subgroup_size > 8 ? 256 : 128) << 10;
    device->limits.allocation = 16 << 20;
    cut_small(device, 8);
    run_everything(device);
    sliced = result_hash;
    diti_device_close(device);
    CHECK_MESSAGE(whole == sliced, "cpu=%s: slices give other bytes", form);
    only_bytes = false;
    return whole;
}

static void test_unoptimised(const char *form, diti_rung rung, uint64_t optimised) {
    char overrides[64], command[] = "mkdir -p build/plain && build/spirv raw shaders build/plain >build/plain/log 2>&1";
    diti_device *device;
    if (system(command) != 0) {
        printf("skipped: unoptimised shaders (needs glslang-tools, and build/spirv from make)\n");
        return;
    }
    only_bytes = true;
    snprintf(overrides, sizeof overrides, "cpu=%s,shared=16K", form);
    device = open_rung(overrides, rung);
    if (!device) return;
    plain_modules = "build/plain";
    run_everything(device);
    plain_modules = NULL;
    only_bytes = false;
    diti_device_close(device);
    CHECK_MESSAGE(optimised == result_hash, "cpu=%s: unoptimised shaders give other bytes", form);
}

/* --- dit specializes modules as drivers do: the same bytes --- */

/* Attention on matrices takes a driver of the newest Mesa 11 seconds to compile, folded or not: the full run has it. */
static void test_folded(const char *overrides, bool attends) {
    linear_case linear = {.m = 70, .n = 96, .k = 96, .type = DIT_TYPE_F16, .bias = true, .gate = true};
    attention_case attention = {
        .batch = 2, .heads = 2, .head_dim = 72, .queries = 50, .keys = 33, .lengths = true, .lse = true};
    uint64_t hashes[2] = {0, 0};
    only_bytes = true;
    for (int i = 0; i < 2; i++) {
        char both[80];
        diti_device *device;
        snprintf(both, sizeof both, "%s,fold=%d", overrides, i ? DITI_FOLDING_ALL : DITI_FOLDING_NONE);
        device = open_device(both, 0);
        if (!device) break;
        CHECK(device->folding == (i ? DITI_FOLDING_ALL : DITI_FOLDING_NONE));
        random_state = 7;
        result_hash = 1;
        if (sweep)
            run_everything(device);
        else
            check_linear(device, &linear);
        if (attends && !sweep) check_attention(device, &attention);
        hashes[i] = result_hash;
        diti_device_close(device);
    }
    only_bytes = false;
    CHECK_MESSAGE(hashes[0] == hashes[1] && hashes[0], "%s: other bytes when dit specializes modules", overrides);
}

/* --- F16 is rounded to nearest, ties to even, by drivers that truncate, too --- */

/* Every half, then values between it and the next one: a quarter of the way, the middle and both neighbours of the
   middle. Infinities, NaNs, the largest float and a subnormal one follow. */
static matrix rounding_edges(uint32_t columns) {
    static const uint32_t others[] = {0x7f800000, 0x7fc00000, 0x7fffffff, 0x7f800001,
                                      0x7f7fffff, 0x47800000, 0x00000001, 0x0a000000};
    uint32_t halves = 0x7c00, count = halves * 5 + DITI_COUNT(others), i;
    matrix m = matrix_new((2 * count + columns - 1) / columns, columns);
    for (i = 0; i < count; i++) {
        uint32_t half = i / 5;
        float v, lower = diti_half_to_float((uint16_t)half), middle;
        middle = (lower + (half + 1 < halves ? diti_half_to_float((uint16_t)(half + 1)) : 65536)) / 2;
        switch (i % 5) {
        case 0: v = lower; break;
        case 1: v = (lower + middle) / 2; break;
        case 2: v = nextafterf(middle, 0); break;
        case 3: v = middle; break;
        default: v = nextafterf(middle, 1e9f);
        }
        if (half >= halves) memcpy(&v, &others[i - 5 * halves], sizeof v);
        m.data[2 * i] = v;
        m.data[2 * i + 1] = -v;
    }
    return m;
}

static bool infinity_is_nan; /* packHalf2x16 of this driver makes a NaN of infinity */

/* signs: whether those of results that are 0 count; subnormal floats may have been taken for 0 before */
static void check_rounded(const matrix *x, const matrix *got, bool signs, const char *what) {
    uint32_t wrong = 0, first = 0;
    for (uint32_t i = 0; got->data && i < x->rows * x->columns; i++) {
        float wanted = diti_half_to_float(diti_float_to_half(x->data[i])), v = got->data[i];
        bool same = isnan(wanted) || (isinf(wanted) && infinity_is_nan) ? isnan(v) : wanted == v;
        if (same && signs && v == 0 && fabsf(x->data[i]) >= 1e-37f) same = signbit(wanted) == signbit(v);
        if (!same && !wrong++) first = i;
    }
    CHECK_MESSAGE(got->data && wrong == 0, "%s: %u of %u values are not rounded to nearest; %.9g became %.9g", what,
                  wrong, x->rows * x->columns, (double)x->data[first], (double)(got->data ? got->data[first] : 0));
}

static void check_rounded_copy(diti_device *device, const char *what) {
    diti_graph *graph = begin(device);
    diti_elementwise_desc copy = {.name = "copy"};
    matrix x = rounding_edges(1024), got = {0};
    diti_tensor out = diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &copy);
    if (run_plan()) got = read_tensor(out);
    end();
    for (uint32_t i = 0; got.data && i < x.rows * x.columns; i++)
        if (x.data[i] == INFINITY) infinity_is_nan = isnan(got.data[i]);
    check_rounded(&x, &got, true, what);
    free(x.data), free(got.data);
}

/* Products with 1 show how operands and results are rounded. Sums have no signs of zeros. */
static void check_rounded_product(diti_device *device, const char *what) {
    enum { SIZE = 64 };
    diti_graph *graph = begin(device);
    diti_linear_desc desc = {0};
    weight_values w = weight_random(DIT_TYPE_F16, SIZE, SIZE, 1, 1);
    matrix x = rounding_edges(SIZE), got = {0};
    dit_error err = {0};
    diti_tensor out;
    for (uint32_t i = 0; i < x.rows * SIZE; i++) /* times 0 that is not 0 */
        if (!isfinite(x.data[i]) || (device->rung >= DITI_RUNG_HALF && fabsf(x.data[i]) >= 65520)) x.data[i] = 1;
    for (uint32_t i = 0; i < SIZE * SIZE; i++) memcpy(w.bytes + 2 * i, i % SIZE == i / SIZE ? "\0\x3c" : "\0\0", 2);
    CHECK(diti_buffer_write(device, &bench.blocks[0].buffer, w.weight.parts[0].offset, w.bytes, 2 * SIZE * SIZE,
                            &err) >= 0);
    out = diti_linear(graph, input(&x, DITI_F32, 0, "x"), &w.weight, &desc);
    if (run_plan()) got = read_tensor(out);
    end();
    weight_free(&w);
    check_rounded(&x, &got, false, what);
    free(x.data), free(got.data);
}

/* A picture whose halves overflow is reported. */
static void check_overflow_is_seen(diti_device *device, const char *what) {
    const uint32_t no_health[DITI_HEALTH_WORDS] = {0};
    diti_graph *graph = begin(device);
    diti_elementwise_desc copy = {.name = "copy"};
    matrix x = matrix_new(4, 4), got;
    diti_tensor rgba = diti_tensor_new(graph, DITI_U32, 1, 4, "rgba"), health;
    float seen = 0;
    x.data[5] = 7e4f;
    health = input_words(no_health, DITI_HEALTH_WORDS, "health");
    diti_image_out(graph, diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &copy), rgba, 0, false, health);
    if (run_plan()) {
        got = read_tensor(health);
        seen = got.data[2];
        free(got.data);
    }
    CHECK_MESSAGE(memcmp(&seen, no_health, sizeof seen), "%s: nobody sees that a picture overflows", what);
    end();
    free(x.data);
}

/* Kernels that compute with F16: F32 operands, heads whose weights are halves, and scores that want F32. */
static uint64_t run_halves(diti_device *device, bool bytes_alone) {
    linear_case linear = {.m = 70, .n = 96, .k = 72, .type = DIT_TYPE_F32, .x_f32 = true, .bias = true};
    attention_case attention = {.batch = 1, .heads = 2, .head_dim = 72, .queries = 40, .keys = 150};
    random_state = 7;
    result_hash = 1;
    only_bytes = bytes_alone;
    check_linear(device, &linear);
    check_attention(device, &attention);
    attention.size = 6;
    check_attention(device, &attention);
    only_bytes = false;
    return result_hash;
}

/* form: override of the kernels; bytes: what run_kernels gave on the driver as it is, of everything in a sweep. */
static void test_rounding(const char *form, uint64_t bytes) {
    char overrides[64];
    unsigned sites = truncating_sites;
    diti_device *device;
    snprintf(overrides, sizeof overrides, "cpu=%s,shared=16K", form);
    for (int i = 0; i < 2; i++) {
        const char *what = i ? "a driver that truncates" : "this driver";
        truncates = i;
        device = open_rung(overrides, DITI_RUNG_FP16);
        if (!device) break;
        check_rounded_copy(device, what);
        check_rounded_product(device, what);
        check_overflow_is_seen(device, what);
        only_bytes = true;
        if (truncates) run_kernels(device, !sweep);
        only_bytes = false;
        diti_device_close(device);
    }
    truncates = false;
    CHECK_MESSAGE(truncating_sites > sites, "no shader has a conversion that could truncate");
    CHECK_MESSAGE(result_hash == bytes, "cpu=%s: a driver that truncates gives other bytes", form);
}

/* The newest lavapipe does not round matrices of floats that become halves where the module says how (its errors of
   attention are 2.1e-4 then, 2.9e-4 where attention_coop2 rounds the weights itself), so that either way of rounding
   has bytes of its own on rung coop2, and results are compared with the reference. */
static void test_rounding_of_halves(const char *rung) {
    uint64_t bytes[4] = {0};
    char overrides[64];
    bool own_bytes = !strcmp(rung, "coop2");
    for (int i = 0; i < 4; i++) { /* bit 0: truncates; bit 1: cannot be told how to round */
        dit_context_desc desc = {.overrides = overrides};
        diti_device *device = NULL;
        snprintf(overrides, sizeof overrides, "rung=%s%s", rung, i & 2 ? ",rounding=0" : "");
        if (i == 0 && diti_device_open(&desc, &env, &device, NULL) < 0) return; /* the device has not the rung */
        diti_device_close(device);
        truncates = i & 1;
        device = open_device(overrides, 0);
        if (!device) break;
        CHECK_MESSAGE(!(i & 2) || !device->rounds_halves, "it can be told how to round");
        check_rounded_product(device, overrides);
        bytes[i] = run_halves(device, !own_bytes);
        CHECK_MESSAGE(bytes[i] == bytes[own_bytes ? i & 2 : 0], "%s%s: other bytes", overrides,
                      truncates ? ", on a driver that truncates" : "");
        diti_device_close(device);
    }
    truncates = false;
}
/* --- all of it --- */

static void test_device(const char *overrides, diti_rung rung) {
    diti_device *device = open_rung(overrides, rung);
    if (device && (rung < DITI_RUNG_FP16 || device->has_fp16 || sweep)) { /* no job of other drivers is on rung fp16 */
        test_norms(device);
        test_qkv(device);
        test_patches(device);
        test_frames(device);
        test_channels(device);
        test_group_norm(device);
        test_weigh(device);
    }
    diti_device_close(device);
}

/* Way races: the layers tell where threads use shared memory without a barrier between them, which drivers that run
   one subgroup after the other do not show. The kernels of GPUs, with the portions of each kind of GPU; what they
   compute is compared with references elsewhere. */
static void test_races(void) {
    static const char *const rungs[] = {"coop", "coop2", "half", "base"};
    static const int lines = 9; /* of diti_portions_table */
    char overrides[80];
    diti_device *device;
    only_bytes = true;
    test_layers.printed = 0;
    test_barriers(0); /* else silence would prove nothing */
    device = open_rung("cpu=0", DITI_RUNG_BASE);
    check_group_norm(device, 2, 1000, 32, 8, true, 0, 0, 0);
    diti_device_close(device);
    test_barriers(1);
    CHECK_MESSAGE(test_layer_messages() > 0, "a kernel without barriers has no races");
    test_layers.printed = 8;
    for (int i = 0; i < (sweep ? lines * (int)DITI_COUNT(rungs) : 1); i++) { /* LLVM takes a minute for most lines */
        snprintf(overrides, sizeof overrides, "rung=%s,cpu=0,portions=%d", rungs[i % (int)DITI_COUNT(rungs)],
                 sweep ? i / (int)DITI_COUNT(rungs) : 1);
        device = open_device(overrides, 0);
        if (!device) continue;
        check_linear(device, &(linear_case){.m = 70, .n = 96, .k = 72, .type = DIT_TYPE_F16, .bias = true});
        check_attention(device, &(attention_case){.batch = 1, .heads = 2, .head_dim = 128, .queries = 77, .keys = 300});
        check_norm(device, &(norm_case){.rows = 200, .columns = 320, .modulate = true, .size = 1});
        check_qkv(device, 3, 64, DITI_QKV_RMS, true, 0, true, 0);
        if (sweep) run_everything(device), test_attention(device);
        diti_device_close(device);
        CHECK_MESSAGE(test_layer_messages() == 0, "%s: races, or accesses beyond a binding", overrides);
    }
    only_bytes = false;
}

static void test_drivers(void) {
    uint64_t hashes[2] = {0, 0};
    bool units = has_rung("rung=coop"), halves = (!units || sweep) && has_rung("rung=half");
    if (units) test_folded("rung=coop", false);
    if (units && sweep) test_folded("rung=coop2", false);
    if (units && !sweep) return; /* all else has been seen on other drivers */
    thorough = test_first_driver();
    test_device("cpu=1", DITI_RUNG_BASE);
    if (test_quick_way("sanitize")) return; /* the host's part has been seen */
    if (halves && test_first_driver()) {    /* SwiftShader is left to specialize by itself (vk/device.c) */
        test_folded("rung=base,cpu=1", true);
        if (sweep) test_folded("rung=base,cpu=0", true);
        if (sweep) test_folded("rung=half,cpu=0", true);
    }
    thorough = sweep;
    if (sweep || !test_first_driver()) test_device("cpu=1", DITI_RUNG_FP16); /* in make test SwiftShader has it */
    if (sweep) test_device("cpu=0", DITI_RUNG_BASE); /* one case of each kernel of GPUs is in run_everything */
    if (sweep) test_device("cpu=0", DITI_RUNG_FP16);
    if (sweep || !test_first_driver()) hashes[0] = test_same_bytes("1", DITI_RUNG_BASE);
    if (test_first_driver()) hashes[1] = test_same_bytes("0", DITI_RUNG_FP16);
    if (test_first_driver()) test_rounding("0", sweep ? hashes[1] : few_hash);
    if (sweep) test_rounding_of_halves("half"); /* make test has seen a driver that truncates on rung fp16 */
    for (int i = DITI_RUNG_COOP; i < DITI_RUNG_COUNT && units; i++)
        test_rounding_of_halves(diti_rung_name((diti_rung)i));
    for (int i = 0; i < 2 && sweep && !units; i++) /* those drivers fuse what the optimizer joins */
        test_unoptimised(i ? "0" : "1", i ? DITI_RUNG_FP16 : DITI_RUNG_BASE, hashes[i]);
}

int main(void) {
    dit_error err = {0};
    const char *way = getenv("DIT_TEST_WAY");
    sweep = test_sweeps();
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    if (way && !strcmp(way, "races"))
        test_races();
    else
        test_drivers();
    test_vulkan_end();
    return TEST_END("kernels_rows");
}
