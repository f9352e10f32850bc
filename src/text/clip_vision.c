#include "text/clip_internal.h"

/* CLIP's encoder of pictures (docs/models.md 5.6): a picture is cut into patches, each of which is a token behind one
   for the whole; layers are those of the texts' encoder, without a mask. SigLIP's has no token for the whole, and its
   last norm is behind all layers. */

struct diti_clip_vision {
    diti_component base;
    diti_clip_config config; /* positions: tokens */
    uint32_t side, patch;    /* patches on a side of the picture, pixels on a side of a patch */
    uint32_t pixels;         /* on a side of the picture, the last of which may fill no patch */
    diti_layer patches;      /* [d, 3 * patch * patch]; SigLIP's has a bias */
    diti_weight whole;       /* F32 [1, d]; SigLIP has none */
    diti_weight position;    /* F32 [positions, d] */
    diti_layer norm;         /* [d]: before all layers; of SigLIP behind them */
    diti_clip_block *blocks; /* CLIP has one more, whose result nobody reads */
};

#define DITI_CLIP_VISION_MOST_SIDE 64u

/* ---- configuration and loading ---- */

static dit_result diti_clip_vision_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                        dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_clip_config, columns), "vision_model.embeddings.patch_embedding.weight", 0},
        {offsetof(diti_clip_config, positions), "vision_model.embeddings.position_embedding.weight", 0},
        {offsetof(diti_clip_config, hidden), "vision_model.encoder.layers.0.mlp.fc1.weight", 0}};
    struct diti_clip_vision *vision = (struct diti_clip_vision *)(void *)component;
    diti_clip_config *config = &vision->config;
    diti_settings settings = diti_settings_of(json, "the image encoder's config.json", err);
    uint32_t whole;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    vision->patch = diti_loader_dimension(loader, "vision_model.embeddings.patch_embedding.weight", 3);
    config->siglip = !diti_loader_find(loader, "vision_model.embeddings.class_embedding");
    config->blocks =
        diti_loader_layers(loader, &settings, "num_hidden_layers", "vision_model.encoder.layers.", ".mlp.fc1.weight");
    config->head = config->siglip ? 72 : 80; /* SigLIP so400m, ViT-H/14 */
    DITI_TRY(diti_clip_read_layers(&settings, config, err));
    whole = !config->siglip;
    while (vision->side <= DITI_CLIP_VISION_MOST_SIDE && vision->side * vision->side + whole < config->positions)
        vision->side++;
    vision->pixels = vision->side * vision->patch;
    if (config->siglip && vision->pixels == 378) vision->pixels = 384;
    vision->pixels = diti_setting_size(&settings, "image_size", vision->pixels, 4096);
    DITI_TRY(settings.result);
    if (config->columns && config->blocks > 1 && config->hidden && vision->patch && vision->patch <= 64 &&
        vision->side && vision->side * vision->side + whole == config->positions &&
        vision->pixels / vision->patch == vision->side && config->columns % config->heads == 0 &&
        config->columns / config->heads <= 512)
        return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "not an image encoder that dit.h knows, a CLIP or SigLIP vision model of two layers or more: %u channels "
        "in %u heads, %u layers, %u tokens, patches of %u of %u pixels",
        (unsigned)config->columns, (unsigned)config->heads, (unsigned)config->blocks, (unsigned)config->positions,
        (unsigned)vision->patch, (unsigned)vision->pixels);
}

static uint32_t diti_clip_vision_layers(const diti_clip_config *config) {
    return config->siglip ? config->blocks : config->blocks - 1;
}

static void diti_clip_vision_load_all(diti_component *component, diti_loader *loader) {
    struct diti_clip_vision *vision = (struct diti_clip_vision *)(void *)component;
    const diti_clip_config *config = &vision->config;
    uint32_t d = config->columns, count = diti_clip_vision_layers(config), i;
    vision->blocks = (diti_clip_block *)diti_component_array(component, loader, count, sizeof *vision->blocks);
    if (!vision->blocks) return;
    diti_load_matrix(loader, &vision->patches.weight, d, 3 * vision->patch * vision->patch, vision->patch,
                     "vision_model.embeddings.patch_embedding.weight");
    vision->patches.weight.kernel = 1; /* used as a matrix on flattened patches */
    if (config->siglip)
        diti_load_vector(loader, &vision->patches.bias, 1, d, "vision_model.embeddings.patch_embedding.bias");
    else
        diti_load_vector(loader, &vision->whole, 1, d, "vision_model.embeddings.class_embedding");
    diti_load_vector(loader, &vision->position, config->positions, d,
                     "vision_model.embeddings.position_embedding.weight");
    diti_load_norm(loader, &vision->norm, d, /* files spell CLIP's in this way */
                   config->siglip ? "vision_model.post_layernorm" : "vision_model.pre_layrnorm");
    for (i = 0; i < count; i++) diti_clip_load_block(loader, config, &vision->blocks[i], "vision_model", i);
    if (config->siglip) return;
    diti_loader_scope(loader, "vision_model.encoder.layers.%u.", (unsigned)count);
    diti_loader_use(loader, diti_loader_find(loader, "mlp.fc1.weight")); /* a layer that is known, and not needed */
    diti_loader_scope_end(loader);
}

/* Newer transformers leave the beginning of names out where there is no projection. */
static const diti_key_table diti_clip_vision_bare_names[DITI_KEY_TABLES] = {{"vision_model.", "", NULL, 0}};

DIT_INTERNAL bool diti_clip_vision_is(const diti_checkpoint *checkpoint, const char *prefix) {
    char name[200];
    return (diti_format(name, sizeof name, "%svision_model.embeddings.patch_embedding.weight", prefix) &&
            diti_checkpoint_find(checkpoint, name)) ||
           (diti_format(name, sizeof name, "%sembeddings.patch_embedding.weight", prefix) &&
            diti_checkpoint_find(checkpoint, name));
}

DIT_INTERNAL dit_result diti_clip_vision_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const diti_load_options *options, diti_clip_vision **out,
                                              dit_error *err) {
    static const diti_component_kind kind = {
        "image encoder",       "image_encoder",           sizeof(struct diti_clip_vision),
        diti_clip_vision_read, diti_clip_vision_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component;
    dit_result result;
    if (diti_component_has(&from, "embeddings.patch_embedding.weight")) from.keys = diti_clip_vision_bare_names;
    result = diti_component_load(&kind, &from, &component, err);
    *out = (diti_clip_vision *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_clip_vision_destroy(diti_clip_vision *vision) {
    if (vision) diti_component_free(&vision->base);
}

DIT_INTERNAL const diti_weights *diti_clip_vision_weights(const diti_clip_vision *vision) {
    return &vision->base.weights;
}

DIT_INTERNAL uint32_t diti_clip_vision_tokens(const diti_clip_vision *vision) { return vision->config.positions; }

DIT_INTERNAL uint32_t diti_clip_vision_columns(const diti_clip_vision *vision) { return vision->config.columns; }

/* ---- the graph ---- */

DIT_INTERNAL diti_tensor diti_clip_vision_input(const diti_clip_vision *vision, diti_graph *graph) {
    return diti_tensor_input(graph, DITI_F32, vision->side * vision->side, 3 * vision->patch * vision->patch,
                             "patches of a picture");
}

DIT_INTERNAL diti_tensor diti_clip_vision_encode(const diti_clip_vision *vision, diti_graph *graph,
                                                 diti_tensor patches) {
    const diti_clip_config *config = &vision->config;
    uint32_t rows = config->positions, whole = !config->siglip, d = config->columns, i;
    diti_tensor x = diti_tensor_new(graph, DITI_F32, rows, d, "clip_vision");
    diti_linear_desc linear = DITI_ZERO;
    diti_elementwise_desc add = DITI_ZERO;
    linear.out = diti_tensor_view(graph, x, whole, rows - whole, 0, d);
    linear.bias = &vision->patches.bias;
    linear.name = "clip_vision_patches";
    diti_linear(graph, patches, &vision->patches.weight, &linear);
    if (diti_graph_failed(graph)) return 0;
    if (whole)
        diti_copy(graph, diti_tensor_weight(graph, &vision->whole, 0), diti_tensor_view(graph, x, 0, 1, 0, d),
                  "clip_vision_whole");
    add.add = diti_tensor_weight(graph, &vision->position, 0);
    add.out_f32 = true;
    add.name = "clip_vision_position";
    x = diti_elementwise(graph, x, &add);
    if (whole) x = diti_clip_norm(config, graph, x, &vision->norm, NULL, true, "clip_vision_norm");
    for (i = 0; i < diti_clip_vision_layers(config) && !diti_graph_failed(graph); i++) {
        diti_graph_scope(graph, "block", i);
        diti_clip_run_block(config, &vision->blocks[i], graph, 1, 0, x);
    }
    diti_graph_scope(graph, NULL, 0);
    return whole ? x : diti_clip_norm(config, graph, x, &vision->norm, NULL, true, "clip_vision_norm");
}

/* ---- the picture, on the host ---- */

/* Keys' cubic with a = -1/2. */
static double diti_clip_vision_cubic(double x) {
    x = fabs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* A line of `from` values, step apart, becomes one of `to`, of which those from `skip` on are kept; smaller ones are
   made of as many as lie below the widened cubic. bytes: results are whole and from 0 to 255, and weights have 22 bits
   behind the point, as in Pillow, so that halves are rounded alike. */
static void diti_clip_vision_scale(const float *in, size_t step, uint32_t from, uint32_t to, uint32_t skip,
                                   uint32_t count, bool bytes, float *out, size_t out_step) {
    double scale = (double)from / to, wide = scale > 1 ? scale : 1;
    uint32_t i;
    for (i = 0; i < count; i++) {
        double center = (skip + i + 0.5) * scale, sum = 0, weights = 0, last = center + 2 * wide + 0.5;
        double begin = center - 2 * wide + 0.5;
        uint32_t k = begin > 0 ? (uint32_t)begin : 0, end = last < from ? (uint32_t)last : from;
        uint32_t first = k;
        for (; k < end; k++) weights += diti_clip_vision_cubic((k - center + 0.5) / wide);
        for (k = first; k < end; k++) {
            double weight = diti_clip_vision_cubic((k - center + 0.5) / wide) / weights;
            if (bytes) weight = floor(fabs(weight) * 4194304 + 0.5) / (weight < 0 ? -4194304 : 4194304);
            sum += weight * (double)in[k * step];
        }
        if (bytes) sum = sum < 0 ? 0 : sum > 255 ? 255 : floor(sum + 0.5);
        out[i * out_step] = (float)sum;
    }
}

/* Pixel values from 0 to 255, three planes. */
static void diti_clip_vision_planes(const dit_image *image, float *out) {
    size_t area = (size_t)image->width * image->height, x, y, c,
           pitch = image->row_pitch ? image->row_pitch : image->width * (image->rgb ? 3 * sizeof(float) : 4);
    for (y = 0; y < image->height; y++)
        for (x = 0; x < image->width; x++)
            for (c = 0; c < 3; c++) {
                const uint8_t *line =
                    (image->rgb ? (const uint8_t *)(const void *)image->rgb : image->rgba) + y * pitch;
                float value;
                if (image->rgb) {
                    memcpy(&value, line + (3 * x + c) * sizeof value, sizeof value);
                    value *= 255;
                } else {
                    value = line[4 * x + c];
                }
                out[c * area + y * image->width + x] = value;
            }
}

/* The shorter side becomes as long as the square's, which is cut from the middle, or both do (SigLIP); first along
   lines, then across. The square's last pixels, which fill no patch, are not made. */
DIT_INTERNAL dit_result diti_clip_vision_write(const diti_clip_vision *vision, diti_plan *plan, diti_tensor patches,
                                               const dit_image *image, dit_error *err) {
    static const double means[2][3] = {{0.48145466, 0.4578275, 0.40821073}, {0.5, 0.5, 0.5}},
                        deviations[2][3] = {{0.26862954, 0.26130258, 0.27577711}, {0.5, 0.5, 0.5}};
    const diti_env *env = &vision->base.env;
    uint32_t side = vision->side * vision->patch, width = image->width, height = image->height, c, y, x,
             p = vision->patch, pixels = vision->pixels;
    uint32_t kind = vision->config.siglip,
             wide = kind || width < height ? pixels : (uint32_t)((uint64_t)pixels * width / height),
             high = !kind && width < height ? (uint32_t)((uint64_t)pixels * height / width) : pixels;
    size_t area = (size_t)width * height, lines = (size_t)side * height, square = (size_t)side * side;
    float *planes = (float *)diti_alloc_array(env, 3 * area + lines + 4 * square, sizeof *planes), *rows;
    bool bytes = !image->rgb;
    dit_result result;
    if (!planes) return diti_fail_memory(err, "a picture for the image encoder");
    rows = planes + 3 * area + lines + square;
    diti_clip_vision_planes(image, planes);
    for (c = 0; c < 3; c++) {
        float *line = planes + 3 * area, *made = line + lines;
        for (y = 0; y < height; y++)
            diti_clip_vision_scale(planes + c * area + (size_t)y * width, 1, width, wide, (wide - pixels) / 2, side,
                                   bytes, line + (size_t)y * side, 1);
        for (x = 0; x < side; x++)
            diti_clip_vision_scale(line + x, side, height, high, (high - pixels) / 2, side, bytes, made + x, side);
        for (y = 0; y < side; y++)
            for (x = 0; x < side; x++)
                rows[((size_t)(y / p * vision->side + x / p) * 3 + c) * p * p + y % p * p + x % p] =
                    (float)(((double)made[(size_t)y * side + x] / 255 - means[kind][c]) / deviations[kind][c]);
    }
    result = diti_plan_write(plan, patches, rows, 3 * square * sizeof *rows, err);
    diti_free(env, planes);
    return result;
}
