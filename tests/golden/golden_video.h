/* Autoencoders of clips: decoding and encoding whole, in their own chunks. Recorded tensors are [items, C, frames, h,
   w]; the graph has rows of pixels, frame after frame. */
#ifndef GOLDEN_VIDEO_H
#define GOLDEN_VIDEO_H
#include "golden_model.h"

typedef struct golden_video_case {
    golden_graph m;
    const diti_vae *vae;
    char prefix[24];
    uint32_t item, items;
} golden_video_case;

/* Shape of a recorded tensor; false: there is none of that name. */
static inline bool golden_video_shape(const golden_video_case *c, const char *rest, char *name, uint32_t *channels,
                                      diti_video *out) {
    const diti_stored_tensor *stored;
    diti_format(name, 96, "%s.%s", c->prefix, rest);
    stored = diti_checkpoint_find(c->m.folder->golden, name);
    if (!stored || stored->rank != 5) return false;
    *channels = (uint32_t)stored->shape[1];
    out->frames = (uint32_t)stored->shape[2];
    out->height = (uint32_t)stored->shape[3];
    out->width = (uint32_t)stored->shape[4];
    return true;
}

/* One item as rows [frames * h * w, C]. */
static inline float *golden_video_rows(golden_video_case *c, const char *rest, uint32_t *channels, diti_video *size) {
    char name[96];
    uint32_t rows;
    diti_video none = {1, 1, 1};
    *channels = 1;
    *size = none;
    golden_require(c->m.g, golden_video_shape(c, rest, name, channels, size), "%s is recorded", name);
    rows = size->frames * size->height * size->width;
    return golden_transpose(golden_item(&c->m, name, c->item, *channels, rows), *channels, rows);
}

static inline void golden_video_expect(golden_video_case *c, const char *rest, diti_tensor rows, double fp32) {
    char label[96];
    uint32_t channels;
    diti_video size;
    float *reference = golden_video_rows(c, rest, &channels, &size);
    if (!diti_graph_failed(&c->m.graph))
        golden_require(c->m.g,
                       diti_tensor_rows(&c->m.graph, rows) == size.frames * size.height * size.width &&
                           diti_tensor_columns(&c->m.graph, rows) == channels,
                       "%s.%s has %u x %u results", c->prefix, rest, diti_tensor_rows(&c->m.graph, rows),
                       diti_tensor_columns(&c->m.graph, rows));
    diti_format(label, sizeof label, "%s.%s [%u]", c->prefix, rest, c->item);
    golden_expect(&c->m, label, rows, reference, fp32);
}

/* LTX-Video: the timestep of the latent, and the noise that the decoder adds, plane after plane. */
static inline void golden_video_told(golden_video_case *c, diti_vae_clip *clip) {
    const diti_checkpoint *golden = c->m.folder->golden;
    const diti_stored_tensor *stored;
    char name[96];
    float *row, *steps, *noise = (float *)malloc(sizeof(float));
    uint32_t i, count = 0;
    uint64_t items;
    diti_format(name, sizeof name, "%s.in.temb", c->prefix);
    if (diti_checkpoint_find(golden, name)) {
        row = (float *)malloc(DITI_VAE_TIMESTEP * sizeof(float));
        steps = golden_floats(golden, name, &items);
        if (golden_require(c->m.g, steps && c->item < items, "%s has a value for each item", name))
            diti_vae_clip_timestep(c->vae, steps[c->item], row);
        free(steps);
        clip->timestep = golden_give(&c->m, DITI_F32, 1, DITI_VAE_TIMESTEP, row);
    }
    for (i = 0;; i++) {
        diti_format(name, sizeof name, "%s.noise%u", c->prefix, i);
        stored = diti_checkpoint_find(golden, name);
        if (!stored || stored->rank != 2) break;
        row = golden_floats(golden, name, &items);
        noise = (float *)realloc(noise, (count + items) * sizeof(float));
        memcpy(noise + count, row, items * sizeof(float));
        count += (uint32_t)items;
        free(row);
    }
    if (i)
        clip->noise = golden_give(&c->m, DITI_F32, count, 1, noise);
    else
        free(noise);
}

static inline void golden_video_decoder(golden_video_case *c, uint32_t tile, uint32_t tile_frames) {
    char name[96];
    uint32_t channels;
    diti_video latent, pixels;
    diti_vae_clip clip;
    float *z = golden_video_rows(c, "in.z", &channels, &latent);
    diti_tensor x;
    golden_require(c->m.g, golden_video_shape(c, "out", name, &channels, &pixels), "%s is recorded", name);
    channels = c->vae->traits.latent_channels;
    if (!diti_vae_clip_begin(&clip, c->vae, &c->m.graph, false, &pixels, tile, tile_frames)) return;
    if (diti_equal(c->vae->kind->name, "VideoAutoencoderPipeline")) { /* in.z are latents there */
        uint32_t rows = latent.frames * latent.height * latent.width;
        x = golden_give(&c->m, DITI_F32, channels, rows, golden_transpose(z, rows, channels));
        x = diti_vae_clip_latents(&clip, x);
    } else {
        x = golden_give(&c->m, DITI_F32, latent.frames * latent.height * latent.width, channels, z);
    }
    golden_video_told(c, &clip);
    golden_video_expect(c, "out", diti_vae_clip_all(&clip, x), GOLDEN_MODEL);
}

/* Noise of all pictures of the item, as it was drawn: for up to four of all items' pictures at a time. */
static inline diti_tensor golden_video_noise(golden_video_case *c, const diti_vae_clip *clip, uint32_t *next) {
    uint32_t channels = c->vae->traits.latent_channels, area = clip->latent.height * clip->latent.width;
    uint32_t frames = clip->pixels.frames, frame;
    float *out = (float *)malloc((size_t)frames * area * channels * sizeof(float));
    char name[96];
    for (frame = 0; frame < frames; frame++) {
        uint32_t number = c->item * frames + frame, i, k;
        float *one;
        diti_format(name, sizeof name, "%s.noise%u", c->prefix, number / 4);
        one = golden_item(&c->m, name, number % 4, channels, area);
        for (i = 0; i < area; i++)
            for (k = 0; k < channels; k++) out[((size_t)frame * area + i) * channels + k] = one[k * area + i];
        free(one);
    }
    *next = (c->items * frames + 3) / 4;
    return golden_give(&c->m, DITI_F32, frames * area, channels, out);
}

/* Noise of the chunks over time, one after the other. */
static inline diti_tensor golden_video_later_noise(golden_video_case *c, const diti_vae_clip *clip, uint32_t next) {
    uint32_t channels = c->vae->traits.latent_channels, area = clip->latent.height * clip->latent.width, index;
    float *out = (float *)malloc((size_t)clip->latent.frames * area * channels * sizeof(float));
    diti_vae_chunk chunk;
    for (index = 0; diti_vae_clip_chunk(clip, index, &chunk); index++) {
        uint32_t rows = chunk.out_frames * area;
        char name[96];
        float *one;
        diti_format(name, sizeof name, "%s.noise%u", c->prefix, next + index);
        one = golden_transpose(golden_item(&c->m, name, c->item, channels, rows), channels, rows);
        memcpy(out + (size_t)chunk.out_first * area * channels, one, (size_t)rows * channels * sizeof(float));
        free(one);
    }
    return golden_give(&c->m, DITI_F32, clip->latent.frames * area, channels, out);
}

static inline void golden_video_encoder(golden_video_case *c, uint32_t tile, uint32_t tile_frames) {
    char name[96];
    uint32_t channels, rows, next, latent = c->vae->traits.latent_channels, i;
    diti_video pixels, size;
    diti_vae_clip clip;
    float *video = golden_video_rows(c, "in.video", &channels, &pixels);
    diti_tensor moments, x = golden_give(&c->m, DITI_F32, pixels.frames * pixels.height * pixels.width, 3, video);
    diti_format(name, sizeof name, "%s.noise0", c->prefix);
    if (!diti_vae_clip_begin(&clip, c->vae, &c->m.graph, true, &pixels, tile, tile_frames)) return;
    if (diti_checkpoint_find(c->m.folder->golden, name)) {
        float *reference = golden_video_rows(c, "out", &channels, &size);
        for (i = 0; i < size.frames * size.height * size.width * channels; i++)
            reference[i] = reference[i] / c->vae->traits.scales[i % channels] + c->vae->traits.shifts[i % channels];
        clip.noise = golden_video_noise(c, &clip, &next);
        moments = diti_vae_clip_all(&clip, x);
        x = diti_draw(&c->m.graph, moments, golden_video_later_noise(c, &clip, next), 1, "golden_draw");
        diti_format(name, sizeof name, "%s.out [%u]", c->prefix, c->item);
        golden_expect(&c->m, name, x, reference, GOLDEN_MODEL);
        return;
    }
    moments = diti_vae_clip_all(&clip, x);
    rows = diti_tensor_rows(&c->m.graph, moments);
    golden_video_expect(c, "out.mean", diti_tensor_view(&c->m.graph, moments, 0, rows, 0, latent), GOLDEN_MODEL);
    if (golden_video_shape(c, "out.logvar", name, &channels, &size))
        golden_video_expect(c, "out.logvar", diti_tensor_view(&c->m.graph, moments, 0, rows, latent, latent),
                            GOLDEN_MODEL);
}

static inline bool golden_run_video_case(golden *g, const golden_folder *folder, const diti_vae *vae,
                                         const char *prefix, bool encode, uint32_t tile, uint32_t tile_frames) {
    const diti_stored_tensor *stored;
    golden_video_case c;
    char name[96];
    uint32_t item;
    dit_error err = DITI_ZERO;
    diti_format(name, sizeof name, "%s.in.%s", prefix, encode ? "video" : "z");
    stored = diti_checkpoint_find(folder->golden, name);
    if (!stored || stored->rank != 5) return false;
    for (item = 0; item < stored->shape[0]; item++) {
        memset(&c, 0, sizeof c);
        c.vae = vae;
        c.item = item;
        c.items = (uint32_t)stored->shape[0];
        diti_format(c.prefix, sizeof c.prefix, "%s", prefix);
        golden_graph_begin(&c.m, g, folder);
        if (encode)
            golden_video_encoder(&c, tile, tile_frames);
        else
            golden_video_decoder(&c, tile, tile_frames);
        if (golden_require(g, golden_graph_create(&c.m, &err) == DIT_OK, "%s [%u] is planned %s", prefix, item,
                           err.message))
            golden_graph_run(&c.m);
        golden_graph_end(&c.m);
    }
    return true;
}

static inline bool golden_is_video(const golden_folder *folder) {
    return folder->golden && diti_starts_with(folder->name, "vae_") &&
           diti_checkpoint_find(folder->golden, "case0.in.z") &&
           diti_checkpoint_find(folder->golden, "case0.in.z")->rank == 5;
}

static inline void golden_run_video(golden *g, const golden_folder *folder) {
    /* The config of Open-Sora's small model lacks that of the pictures' autoencoder, which lies beside it. */
    static const char small[] =
        "{\"micro_frame_size\": 17, \"scale\": [3.85, 2.32, 2.33, 3.06], \"shift\": [-0.1, 0.34, 0.27, 0.98],"
        " \"vae_2d\": {\"norm_num_groups\": 4}, \"vae_temporal\": {\"num_groups\": 4}}";
    diti_json *instead = NULL;
    diti_checkpoint *weights = golden_open_weights(g, folder);
    diti_vae *vae = NULL;
    dit_error err = DITI_ZERO;
    int i, j;
    char name[16];
    if (diti_checkpoint_find(folder->golden, "enc0.noise0"))
        golden_require(g, diti_json_parse(&g->env, small, strlen(small), "config", &instead, &err) == DIT_OK, "%s",
                       err.message);
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(g,
                       diti_vae_load(golden_shared.device, &g->env, instead ? instead : folder->config, weights, "",
                                     NULL, &vae, &err) == DIT_OK,
                       "loads %s", err.message)) {
        for (i = 0;; i++) {
            diti_format(name, sizeof name, "case%d", i);
            if (!golden_run_video_case(g, folder, vae, name, false, 0, 0)) break;
        }
        for (j = 0;; j++) {
            diti_format(name, sizeof name, "enc%d", j);
            if (!golden_run_video_case(g, folder, vae, name, true, 0, 0)) break;
        }
        golden_run_video_case(g, folder, vae, "tiled", false, 4, 3);
        golden_run_video_case(g, folder, vae, "tiled_enc", true, 4, 3);
        golden_require(g, i > 0 && j > 0, "%d clips decoded, %d encoded", i, j);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, instead);
}
#endif
