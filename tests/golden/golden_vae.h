/* AutoencoderKL: decoding and encoding whole, and the recorded parts of both, each alone. Recorded tensors are planes
   [C, h, w]; the graph has rows of pixels. */
#ifndef GOLDEN_VAE_H
#define GOLDEN_VAE_H
#include "golden_model.h"

static inline bool golden_is_vae_kl(const golden_folder *folder) {
    const char *name = folder->config ? diti_json_string(folder->config, "_class_name", "") : "AutoencoderKL";
    return folder->golden &&
           (diti_checkpoint_find(folder->golden, "case0.in.latent") ||
            diti_checkpoint_find(folder->golden, "case0.in.packed_latents")) &&
           diti_starts_with(folder->name, "vae_") &&
           (diti_equal(name, "AutoencoderKL") || diti_equal(name, "AutoencoderKLFlux2"));
}

typedef struct golden_vae_case {
    golden_graph m;
    const diti_vae *vae;
    char prefix[16];
    uint32_t item;
    diti_tensor rgba; /* decoding: the picture as bytes */
} golden_vae_case;

typedef struct golden_planes { /* shape of one item of a recorded tensor */
    uint32_t channels;
    diti_row_band size;
} golden_planes;

static inline bool golden_vae_shape(const golden_vae_case *c, const char *rest, char *name, golden_planes *out) {
    const diti_stored_tensor *stored;
    diti_format(name, 96, "%s.%s", c->prefix, rest);
    stored = diti_checkpoint_find(c->m.folder->golden, name);
    if (!stored || stored->rank != 4) return false;
    out->channels = (uint32_t)stored->shape[1];
    out->size.height = (uint32_t)stored->shape[2];
    out->size.width = (uint32_t)stored->shape[3];
    return true;
}

static inline float *golden_vae_planes(golden_vae_case *c, const char *name, golden_planes p) {
    return golden_item(&c->m, name, c->item, p.channels, p.size.height * p.size.width);
}

static inline diti_tensor golden_vae_rows(golden_vae_case *c, const char *rest, diti_row_band *size) {
    char name[96];
    golden_planes p = {1, {NULL, 1, 1, 0, 0, 1, 1}};
    float *planes;
    uint32_t pixels;
    golden_require(c->m.g, golden_vae_shape(c, rest, name, &p), "%s is recorded", name);
    pixels = p.size.height * p.size.width;
    planes = golden_vae_planes(c, name, p);
    *size = p.size;
    return golden_give(&c->m, DITI_F32, pixels, p.channels, golden_transpose(planes, p.channels, pixels));
}

/* rows [pixels, C] against a recorded tensor; false when it was not recorded. */
static inline bool golden_vae_expect(golden_vae_case *c, const char *rest, diti_tensor rows, double fp32) {
    char name[96], label[96];
    golden_planes p;
    float *planes;
    if (!golden_vae_shape(c, rest, name, &p)) return false;
    planes = golden_vae_planes(c, name, p);
    diti_format(label, sizeof label, "%s [%u]", name, c->item);
    golden_expect(&c->m, label, rows, golden_transpose(planes, p.channels, p.size.height * p.size.width), fp32);
    return true;
}

/* --- parts that decoder and encoder share --- */
static inline void golden_vae_mid(golden_vae_case *c, const diti_kl_half *half, const char *input, const char *mid) {
    diti_graph *graph = &c->m.graph;
    diti_row_band size;
    char rest[96];
    diti_tensor x = golden_vae_rows(c, input, &size);
    golden_vae_expect(c, mid, diti_kl_run_mid(graph, c->vae, x, half, &size), GOLDEN_BLOCK);
    diti_format(rest, sizeof rest, "%s.resnets.0", mid);
    if (!golden_vae_expect(c, rest, diti_kl_run_resnet(graph, c->vae, x, &half->mid[0], &size), GOLDEN_BLOCK)) return;
    x = golden_vae_rows(c, rest, &size);
    diti_format(rest, sizeof rest, "%s.attentions.0", mid);
    golden_vae_expect(c, rest, diti_kl_run_attention(graph, c->vae, x, &half->attention, &size), GOLDEN_BLOCK);
    x = golden_vae_rows(c, rest, &size);
    diti_format(rest, sizeof rest, "%s.resnets.1", mid);
    golden_vae_expect(c, rest, diti_kl_run_resnet(graph, c->vae, x, &half->mid[1], &size), GOLDEN_BLOCK);
}

static inline void golden_vae_levels(golden_vae_case *c, const diti_kl_half *half, const char *input,
                                     const char *levels, bool up) {
    char before[96], rest[96];
    uint32_t i;
    diti_format(before, sizeof before, "%s", input);
    for (i = 0; i < half->level_count; i++) {
        diti_row_band size;
        diti_tensor x = golden_vae_rows(c, before, &size);
        diti_format(rest, sizeof rest, "%s.%u.resnets.0", levels, i);
        golden_vae_expect(c, rest, diti_kl_run_resnet(&c->m.graph, c->vae, x, &half->levels[i].resnets[0], &size),
                          GOLDEN_BLOCK);
        diti_format(before, sizeof before, "%s.%u", levels, i);
        x = diti_kl_run_level(&c->m.graph, c->vae, x, &half->levels[i], up, &size);
        if (!golden_vae_expect(c, before, x, GOLDEN_BLOCK)) break;
    }
}

/* --- AutoencoderTiny: layer after layer --- */
static inline diti_tensor golden_tiny_layers(golden_vae_case *c, const diti_tiny_half *half, diti_tensor x,
                                             uint32_t first, diti_row_band size) {
    char rest[96];
    uint32_t i;
    for (i = 0; i < half->count; i++) {
        const diti_tiny_layer *layer = &half->layers[i];
        x = diti_tiny_run_layer(&c->m.graph, x, layer, &size, i + 1 == half->count);
        diti_format(rest, sizeof rest, "mid.decoder.layers.%u", layer->number - first);
        if (!layer->relu) golden_vae_expect(c, rest, x, GOLDEN_MODEL); /* the reference was recorded before the ReLU */
    }
    return x;
}

static inline void golden_tiny_decoder(golden_vae_case *c, diti_tensor latent, diti_row_band size) {
    diti_elementwise_desc squash = DITI_ZERO;
    squash.activation = DITI_ACTIVATION_SQUASH;
    squash.name = "golden_squash";
    latent = diti_planar_to_rows(&c->m.graph, latent, 1, c->vae->traits.latent_channels, 1, 0);
    golden_tiny_layers(c, &c->vae->tiny_decoder, diti_elementwise(&c->m.graph, latent, &squash),
                       c->vae->tiny_decoder.layers[0].number, size);
}

/* --- decoding --- */
static inline void golden_vae_image(golden_vae_case *c, diti_tensor rows) {
    if (diti_graph_failed(&c->m.graph)) return;
    c->rgba = diti_tensor_state(&c->m.graph, DITI_U32, 1, diti_tensor_get(&c->m.graph, rows)->rows, "golden rgba");
    diti_image_out(&c->m.graph, rows, c->rgba, 0, false, 0);
}

/* out_u8 of the reference: round(clamp(out / 2 + 0.5, 0, 1) * 255). */
static inline int golden_vae_byte(float out) {
    double value = (double)out / 2 + 0.5;
    return (int)rint((value < 0 ? 0 : value > 1 ? 1 : value) * 255);
}

/* Bytes may differ by one where a value lies at the border of two. */
static inline void golden_vae_compare_bytes(golden_vae_case *c) {
    golden_planes p = {1, {NULL, 1, 1, 0, 0, 1, 1}};
    char name[96];
    size_t pixels, i, channel, wrong = 0, off = 0;
    uint32_t *words;
    float *out;
    if (golden_shared.is_fp16 || !golden_vae_shape(c, "out", name, &p)) return;
    pixels = (size_t)p.size.height * p.size.width;
    words = (uint32_t *)calloc(pixels, sizeof *words);
    out = golden_vae_planes(c, name, p);
    golden_require(c->m.g, diti_plan_read(c->m.plan, c->rgba, words, pixels * sizeof *words, NULL) == DIT_OK,
                   "the picture cannot be read");
    for (channel = 0; channel < 3; channel++)
        for (i = 0; i < pixels; i++) {
            int d = (int)(words[i] >> (8 * channel) & 255) - golden_vae_byte(out[channel * pixels + i]);
            wrong += d < -1 || d > 1;
            off += d != 0;
        }
    golden_check(c->m.g, wrong == 0 && off <= pixels / 100, "%s_u8 [%u]: %u bytes off by one, %u by more", name,
                 c->item, (unsigned)off, (unsigned)wrong);
    free(words);
    free(out);
}

static inline void golden_vae_decoder(golden_vae_case *c) {
    const diti_kl_half *half = &c->vae->decoder;
    diti_graph *graph = &c->m.graph;
    golden_planes p = {1, {NULL, 1, 1, 0, 0, 1, 1}};
    diti_row_band size;
    char name[96];
    diti_tensor x, latent;
    golden_vae_shape(c, c->vae->packs ? "in.packed_latents" : "in.latent", name, &p);
    latent = golden_give(&c->m, DITI_F32, p.channels, p.size.height * p.size.width, golden_vae_planes(c, name, p));
    x = diti_vae_decode(c->vae, graph, latent, p.size.height, p.size.width, 0, NULL);
    golden_vae_expect(c, "out", x, GOLDEN_MODEL);
    golden_vae_image(c, x);
    if (c->vae->traits.tiny) {
        golden_tiny_decoder(c, latent, p.size);
        return;
    }
    x = golden_vae_rows(c, "in.z", &size);
    if (c->vae->post_quant.weight.part_count) {
        x = diti_kl_conv(graph, x, &c->vae->post_quant, &size, 0, false, true, "golden_post_quant");
        golden_vae_expect(c, "mid.post_quant_conv", x, GOLDEN_BLOCK);
        x = golden_vae_rows(c, "mid.post_quant_conv", &size);
    }
    x = diti_kl_conv(graph, x, &half->conv_in, &size, 0, false, true, "golden_conv_in");
    if (golden_vae_expect(c, "mid.decoder.conv_in", x, GOLDEN_BLOCK))
        golden_vae_mid(c, half, "mid.decoder.conv_in", "mid.decoder.mid_block");
    else
        golden_vae_expect(c, "mid.decoder.mid_block", diti_kl_run_mid(graph, c->vae, x, half, &size), GOLDEN_BLOCK);
    golden_vae_levels(c, half, "mid.decoder.mid_block", "mid.decoder.up_blocks", true);
}

/* --- encoding --- */
static inline void golden_vae_moments(golden_vae_case *c, diti_tensor moments) {
    uint32_t latent = c->vae->traits.latent_channels, rows = 1;
    diti_elementwise_desc scale = DITI_ZERO;
    if (!diti_graph_failed(&c->m.graph)) rows = diti_tensor_get(&c->m.graph, moments)->rows;
    golden_vae_expect(c, "out.mean", diti_tensor_view(&c->m.graph, moments, 0, rows, 0, latent), GOLDEN_MODEL);
    golden_vae_expect(c, "out.logvar", diti_tensor_view(&c->m.graph, moments, 0, rows, latent, latent), GOLDEN_MODEL);
    scale.scale = c->vae->traits.scale;
    scale.offset = -c->vae->traits.shift * c->vae->traits.scale;
    scale.out_f32 = true;
    scale.name = "golden_scale";
    moments = diti_elementwise(&c->m.graph, diti_tensor_view(&c->m.graph, moments, 0, rows, 0, latent), &scale);
    golden_vae_expect(c, "out.latent_mode", moments, GOLDEN_MODEL);
}

static inline void golden_vae_encoder(golden_vae_case *c) {
    const diti_kl_half *half = &c->vae->encoder;
    char last[96];
    diti_row_band size;
    diti_tensor x = golden_vae_rows(c, "in.image", &size);
    if (c->vae->traits.tiny) {
        golden_vae_expect(c, "out.latent", diti_vae_encode(c->vae, &c->m.graph, x, size.height, size.width, 0),
                          GOLDEN_MODEL);
        return;
    }
    golden_vae_moments(c, diti_vae_encode(c->vae, &c->m.graph, x, size.height, size.width, 0));
    x = diti_kl_conv(&c->m.graph, x, &half->conv_in, &size, 0, false, true, "golden_conv_in");
    golden_vae_expect(c, "mid.encoder.conv_in", x, GOLDEN_BLOCK);
    golden_vae_levels(c, half, "mid.encoder.conv_in", "mid.encoder.down_blocks", false);
    diti_format(last, sizeof last, "mid.encoder.down_blocks.%u", half->level_count - 1);
    golden_vae_mid(c, half, last, "mid.encoder.mid_block");
}

static inline void golden_run_vae_item(golden *g, const golden_folder *folder, golden_vae_case *c, bool encode) {
    dit_error err = DITI_ZERO;
    golden_graph_begin(&c->m, g, folder);
    if (encode)
        golden_vae_encoder(c);
    else
        golden_vae_decoder(c);
    if (golden_require(g, golden_graph_create(&c->m, &err) == DIT_OK, "%s [%u] is planned %s", c->prefix, c->item,
                       err.message)) {
        golden_graph_run(&c->m);
        if (!encode) golden_vae_compare_bytes(c);
    }
    golden_graph_end(&c->m);
}

static inline bool golden_run_vae_case(golden *g, const golden_folder *folder, const diti_vae *vae, const char *kind,
                                       int index) {
    bool encode = diti_equal(kind, "enc");
    const diti_stored_tensor *stored;
    golden_vae_case c;
    char name[96];
    uint32_t item;
    diti_format(name, sizeof name, "%s%d.in.%s", kind, index,
                encode       ? "image"
                : vae->packs ? "packed_latents"
                             : "latent");
    stored = diti_checkpoint_find(folder->golden, name);
    if (!stored || stored->rank != 4) return false;
    for (item = 0; item < stored->shape[0]; item++) {
        memset(&c, 0, sizeof c);
        c.vae = vae;
        c.item = item;
        diti_format(c.prefix, sizeof c.prefix, "%s%d", kind, index);
        golden_run_vae_item(g, folder, &c, encode);
    }
    return true;
}

static inline void golden_run_vae_kl(golden *g, const golden_folder *folder) {
    /* LDM files don't store the scale of the latents; dit.h takes that of SD or FLUX then. */
    bool flux = golden_count(folder->golden, "case0.in.latent") &&
                diti_checkpoint_find(folder->golden, "case0.in.latent")->shape[1] == 16;
    diti_json *instead = flux ? NULL : golden_config(g, folder, "{\"scaling_factor\": 0.13025}");
    const diti_json *config = folder->config ? folder->config : instead;
    diti_checkpoint *weights = golden_open_weights(g, folder);
    diti_vae *vae = NULL;
    dit_error err = DITI_ZERO;
    int i = 0, j = 0;
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(g, diti_vae_load(golden_shared.device, &g->env, config, weights, "", NULL, &vae, &err) == DIT_OK,
                       "loads %s", err.message)) {
        while (golden_run_vae_case(g, folder, vae, "case", i)) i++;
        while (golden_run_vae_case(g, folder, vae, "enc", j)) j++;
        golden_require(g, i > 0 && (j > 0 || vae->packs), "%d pictures decoded, %d encoded", i, j);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, instead);
}

static inline bool golden_is_vae_tiny(const golden_folder *folder) {
    return folder->golden && folder->config &&
           diti_equal(diti_json_string(folder->config, "_class_name", ""), "AutoencoderTiny");
}

/* One file of a folder: all of the model, or half of it under its original names. */
static inline void golden_run_tiny_file(golden *g, const golden_folder *folder, const char *file, bool decoder,
                                        bool encoder) {
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, file);
    const diti_json *config = decoder && encoder ? folder->config : NULL;
    diti_vae *vae = NULL;
    dit_error err = DITI_ZERO;
    int i = 0, j = 0;
    if (golden_require(g, weights != NULL, "%s can be opened", file) && golden_open_device(g) &&
        golden_require(g, diti_vae_load(golden_shared.device, &g->env, config, weights, "", NULL, &vae, &err) == DIT_OK,
                       "%s loads %s", file, err.message)) {
        golden_require(g, vae->traits.has_decoder == decoder && vae->traits.has_encoder == encoder, "halves of %s",
                       file);
        while (decoder && golden_run_vae_case(g, folder, vae, "case", i)) i++;
        while (encoder && golden_run_vae_case(g, folder, vae, "enc", j)) j++;
        golden_require(g, (i > 0) == decoder && (j > 0) == encoder, "%s: %d pictures decoded, %d encoded", file, i, j);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(weights);
}

static inline void golden_run_vae_tiny(golden *g, const golden_folder *folder) {
    golden_run_tiny_file(g, folder, "model.safetensors", true, true);
    if (golden_has(folder->path, "taesd_decoder.safetensors"))
        golden_run_tiny_file(g, folder, "taesd_decoder.safetensors", true, false);
    if (golden_has(folder->path, "taesd_encoder.safetensors"))
        golden_run_tiny_file(g, folder, "taesd_encoder.safetensors", false, true);
}
#endif
