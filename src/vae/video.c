#include "vae/vae.h"

/* Clips: rows are pixels, line by line and frame after frame. An autoencoder of pictures takes some frames at a time as
   so many pictures. Autoencoders of clips each have a rule into which chunks a clip falls (diti_video_kind), and share
   convolutions over time (video_parts.c).

   Tiles are parts of a chunk, or of the whole clip, that overlap by a quarter and fade into each other (docs/models.md
   4.11.1). Where a chunk needs frames of the one before, a tile goes through all chunks before the next tile begins:
   what is kept for the next chunk is then as small as a tile, and the clip is one chunk.

   Devices that decode or encode a clip together have a band of lines of each frame, as of a picture (band.c): a 3x3
   convolution gets the line of each frame next to the band, a GroupNorm the moments of every frame's lines of the
   latent, attention the keys and values of all bands. Where chunks are in tiles, they have some tiles of each. */

#define DITI_VIDEO_MAX_TILES 256u /* in a row of tiles */

/* ---- pictures ---- */

static bool diti_pictures_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    uint32_t most = clip->tile ? diti_ranks_count(&clip->group) : DITI_VAE_PICTURES, first = index * most;
    if (index > clip->pixels.frames / most || first >= clip->pixels.frames) return false;
    out->first = out->out_first = first;
    out->frames = out->out_frames = clip->pixels.frames - first < most ? clip->pixels.frames - first : most;
    out->kind = out->frames < most && index ? 2 : 0;
    return true;
}

static diti_tensor diti_pictures_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const diti_video *size = clip->encode ? &clip->pixels : &clip->latent;
    diti_row_band row_band = diti_row_band_whole(size->height, size->width);
    row_band.images = diti_vae_clip_portion(clip, chunk, clip->group.index, false).frames;
    if (!row_band.images) return 0;
    if (clip->tile) return diti_vae_run_tiled(clip->vae, clip->graph, x, !clip->encode, size, clip->tile);
    return diti_vae_run(clip->vae, clip->graph, x, !clip->encode, row_band);
}

/* ---- clips ---- */

static uint32_t diti_video_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    return vae->kind ? vae->kind->latent_frames(vae, frames, encode) : frames;
}

DIT_INTERNAL uint32_t diti_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode, uint32_t *nearest) {
    uint32_t latent = frames ? diti_video_latent_frames(vae, frames, encode) : 0, near_by = frames ? frames : 1;
    while (nearest && near_by > 1 && !diti_video_latent_frames(vae, near_by, encode)) near_by--;
    while (nearest && !diti_video_latent_frames(vae, near_by, encode)) near_by++;
    if (nearest) *nearest = near_by;
    return latent;
}

DIT_INTERNAL uint32_t diti_vae_frame_factor(const diti_vae *vae) { return vae->kind ? vae->frame_factor : 1; }

DIT_INTERNAL bool diti_vae_is_of_pictures(const diti_vae *vae) { return !vae->kind; }

DIT_INTERNAL bool diti_vae_draws_inside(const diti_vae *vae) { return vae->kind && vae->kind->of_two; }

DIT_INTERNAL uint32_t diti_vae_independent_frames(const diti_vae *vae) {
    if (!vae->kind) return 1;
    return vae->kind->of_two ? (vae->chunk_frames + vae->frame_factor - 1) / vae->frame_factor : 0;
}

DIT_INTERNAL bool diti_vae_clip_begin(diti_vae_clip *clip, const diti_vae *vae, diti_graph *graph, bool encode,
                                      const diti_video *pixels, uint32_t tile, uint32_t tile_frames) {
    uint32_t factor = vae->traits.factor, nearest;
    diti_vae_chunk chunk;
    memset(clip, 0, sizeof *clip);
    clip->vae = vae;
    clip->graph = graph;
    clip->encode = encode;
    clip->pixels = clip->latent = *pixels;
    clip->tile = tile ? tile : vae->own_tile;
    clip->tile_frames = tile_frames;
    if (diti_graph_failed(graph)) return false;
    if (!(encode ? vae->traits.has_encoder : vae->traits.has_decoder)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "this autoencoder has no %s",
                        encode ? "encoder" : "decoder");
        return false;
    }
    clip->latent.frames = diti_vae_latent_frames(vae, pixels->frames, encode, &nearest);
    if (!clip->latent.frames) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "the autoencoder makes no clip of %u frames; the nearest that it makes has %u", pixels->frames,
                        nearest);
        return false;
    }
    if (!pixels->height || !pixels->width || pixels->height % factor || pixels->width % factor) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "frames of %u x %u are not multiples of %u", pixels->height,
                        pixels->width, factor);
        return false;
    }
    clip->latent.height /= factor;
    clip->latent.width /= factor;
    clip->tiled = vae->kind && diti_vae_clip_chunk(clip, 0, &chunk) && chunk.tiled;
    clip->lines = clip->tiled ? 0 : clip->latent.height;
    return true;
}

/* Devices have whole frames where an autoencoder takes them one by one, tiles where it has them, and else a band of
   lines of every frame. */
DIT_INTERNAL bool diti_vae_clip_has_bands(const diti_vae_clip *clip) {
    return clip->vae->kind && diti_ranks_count(&clip->group) > 1 && !clip->tiled;
}

DIT_INTERNAL bool diti_vae_clip_divide(diti_vae_clip *clip, const diti_ranks *group) {
    uint32_t index = group->index, height = clip->latent.height, factor = clip->vae->traits.factor;
    clip->group = *group;
    if (!clip->vae->kind || clip->tiled) return true;
    if (clip->group.count > height) clip->group.count = height;
    if (index >= diti_ranks_count(&clip->group)) return false;
    clip->latent.height = diti_ranks_size(&clip->group, index, height);
    clip->pixels.height = factor * clip->latent.height;
    return true;
}

DIT_INTERNAL diti_vae_portion diti_vae_clip_portion(const diti_vae_clip *clip, const diti_vae_chunk *chunk,
                                                    uint32_t member, bool made) {
    uint32_t frames = made ? chunk->out_frames : chunk->frames,
             factor = made != clip->encode ? clip->vae->traits.factor : 1;
    bool bands = diti_vae_clip_has_bands(clip), divides = !bands || (made != clip->encode && clip->vae->kind->of_two);
    diti_ranks group = clip->group;
    diti_vae_portion out = DITI_ZERO;
    out.frames = frames;
    out.lines = bands ? clip->lines : (made != clip->encode ? clip->pixels : clip->latent).height;
    if (clip->tiled) {
        if (made && member) out.frames = 0;
        return out;
    }
    if (divides && diti_ranks_count(&group) > 1) {
        if (group.count > frames) group.count = frames;
        out.first = diti_ranks_first(&group, member, frames);
        out.frames = member < group.count ? diti_ranks_size(&group, member, frames) : 0;
    }
    if (!bands) return out;
    if (divides) {
        out.lines *= factor;
    } else if (member < group.count) {
        out.line = factor * diti_ranks_first(&group, member, clip->lines);
        out.lines = factor * diti_ranks_size(&group, member, clip->lines);
    } else {
        out.frames = 0;
    }
    return out;
}

/* The clip is one chunk, whose tiles go through all frames. */
static bool diti_video_tiles_clip(const diti_vae_clip *clip) {
    return clip->tile && clip->vae->tiles_clip && (clip->latent.height > clip->tile || clip->latent.width > clip->tile);
}

DIT_INTERNAL bool diti_vae_clip_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    memset(out, 0, sizeof *out);
    if (!clip->vae->kind) return diti_pictures_chunk(clip, index, out);
    if (!diti_video_tiles_clip(clip)) return clip->vae->kind->chunk(clip, index, out);
    out->frames = clip->encode ? clip->pixels.frames : clip->latent.frames;
    out->out_frames = clip->encode ? clip->latent.frames : clip->pixels.frames;
    out->tiled = true;
    return index == 0;
}

DIT_INTERNAL diti_tensor diti_vae_clip_latents(const diti_vae_clip *clip, diti_tensor latents) {
    diti_elementwise_desc floats = DITI_ZERO;
    floats.out_f32 = true;
    floats.name = "latents of a clip";
    return diti_elementwise(clip->graph, diti_vae_unscale(clip->vae, clip->graph, latents), &floats);
}

DIT_INTERNAL diti_tensor diti_vae_clip_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const diti_video *from = clip->encode ? &clip->pixels : &clip->latent,
                     *to = clip->encode ? &clip->latent : &clip->pixels;
    diti_vae_portion own = diti_vae_clip_portion(clip, chunk, clip->group.index, false);
    clip->cache_next = 0;
    clip->first = chunk->first == 0;
    clip->last = chunk->out_first + chunk->out_frames == to->frames;
    if (diti_graph_failed(clip->graph)) return 0;
    if (own.frames && diti_tensor_rows(clip->graph, x) != (uint64_t)own.frames * own.lines * from->width)
        return diti_graph_fail(clip->graph, DIT_ERROR_INVALID_ARGUMENT, "a chunk of %u frames of %u x %u has %u rows",
                               own.frames, own.lines, from->width, diti_tensor_rows(clip->graph, x));
    if (!clip->vae->kind) return diti_pictures_run(clip, chunk, x);
    if (diti_video_tiles_clip(clip)) return diti_video_tiled(clip, chunk->frames, chunk->out_frames, 0, x);
    return clip->vae->kind->run(clip, chunk, x);
}

/* docs/models.md 2.1: cosines first. */
DIT_INTERNAL void diti_vae_clip_timestep(const diti_vae *vae, float timestep, float *out) {
    uint32_t i, half = DITI_VAE_TIMESTEP / 2;
    for (i = 0; i < half; i++) {
        double angle = (double)(timestep * vae->timestep_multiplier) * exp(-log(10000.0) * i / half);
        out[i] = (float)cos(angle);
        out[half + i] = (float)sin(angle);
    }
}

DIT_INTERNAL diti_tensor diti_vae_clip_all(diti_vae_clip *clip, diti_tensor x) {
    const diti_video *from = clip->encode ? &clip->pixels : &clip->latent,
                     *to = clip->encode ? &clip->latent : &clip->pixels;
    uint32_t in_area = from->height * from->width, area = to->height * to->width, index;
    uint32_t columns =
        clip->encode ? (clip->vae->traits.tiny ? 1 : 2) * clip->vae->traits.latent_channels : clip->vae->traits.colors;
    diti_graph *graph = clip->graph;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, to->frames * area, columns, "clip"), part;
    diti_vae_chunk chunk;
    for (index = 0; diti_vae_clip_chunk(clip, index, &chunk) && !diti_graph_failed(graph); index++) {
        part =
            diti_tensor_view(graph, x, chunk.first * in_area, chunk.frames * in_area, 0, diti_tensor_columns(graph, x));
        part = diti_vae_clip_run(clip, &chunk, part);
        if (diti_graph_failed(graph)) return 0;
        diti_copy(graph, part,
                  diti_tensor_view(graph, out, chunk.out_first * area, chunk.out_frames * area, 0, columns), "frames");
    }
    return out;
}

/* ---- tiles ---- */

typedef struct diti_video_tile {
    diti_tensor x; /* the result, faded into its neighbours */
    diti_video size;
} diti_video_tile;

static uint32_t diti_video_smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Fades the tile into the one above it, or into the one on its left. */
static void diti_video_fade(diti_vae_clip *clip, const diti_video_tile *tile, const diti_video_tile *other,
                            uint32_t overlap, bool right) {
    diti_place_desc fade = DITI_ZERO;
    fade.from = fade.to = fade.part = tile->size;
    fade.other = other->x;
    fade.other_size = other->size;
    fade.right = right;
    fade.out = tile->x;
    if (right) {
        fade.part.width = diti_video_smaller(overlap, diti_video_smaller(other->size.width, tile->size.width));
        fade.other_x = other->size.width - fade.part.width;
    } else {
        fade.part.height = diti_video_smaller(overlap, diti_video_smaller(other->size.height, tile->size.height));
        fade.other_y = other->size.height - fade.part.height;
    }
    diti_place_frames(clip->graph, tile->x, &fade);
}

/* The tile that a member of the group runs comes to the first one, which has all neighbours. */
static void diti_video_pass_tile(diti_vae_clip *clip, diti_video_tile *tile, uint32_t member) {
    const diti_ranks *group = &clip->group;
    diti_graph *graph = clip->graph;
    uint32_t rows = tile->size.frames * tile->size.height * tile->size.width,
             columns = clip->encode ? 2 * clip->vae->traits.latent_channels : clip->vae->traits.colors;
    if (!member || diti_graph_failed(graph)) return;
    if (group->index == member) {
        diti_send(graph, diti_tensor_padded(graph, tile->x), group->devices[0]);
        return;
    }
    tile->x = diti_tensor_new(graph, DITI_F32, rows, columns, "tile of another device");
    diti_receive(graph, diti_tensor_padded(graph, tile->x), group->devices[member]);
}

/* The rows of a tile, of all its frames. size becomes that of the result. */
static diti_tensor diti_video_whole(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    uint32_t factor = clip->vae->traits.factor;
    diti_vae_clip part = *clip;
    if (clip->vae->kind->whole) return clip->vae->kind->whole(clip, size, x);
    part.tile = part.lines = 0;
    part.tiled = false;
    part.of_tile = true;
    memset(part.caches, 0, sizeof part.caches);
    memset(&part.group, 0, sizeof part.group);
    part.latent.height = clip->encode ? size->height / factor : size->height;
    part.latent.width = clip->encode ? size->width / factor : size->width;
    part.pixels.height = part.latent.height * factor;
    part.pixels.width = part.latent.width * factor;
    *size = clip->encode ? part.latent : part.pixels;
    return diti_vae_clip_all(&part, x);
}

/* Cuts a tile, and runs it where it is this device's. frames: as many as it makes. */
static diti_video_tile diti_video_run_tile(diti_vae_clip *clip, const diti_video *size, diti_tensor x, uint32_t y,
                                           uint32_t column, uint32_t edge, uint32_t member, uint32_t frames) {
    uint32_t factor = clip->vae->traits.factor;
    diti_place_desc cut = DITI_ZERO;
    diti_video_tile tile;
    uint32_t columns = diti_tensor_columns(clip->graph, x);
    cut.from = cut.part = *size;
    cut.part.height = diti_video_smaller(edge, size->height - y);
    cut.part.width = diti_video_smaller(edge, size->width - column);
    cut.to = cut.part;
    cut.from_y = y;
    cut.from_x = column;
    tile.size = cut.part;
    tile.x = 0;
    if (member != clip->group.index) {
        tile.size.frames = frames;
        tile.size.height = clip->encode ? cut.part.height / factor : cut.part.height * factor;
        tile.size.width = clip->encode ? cut.part.width / factor : cut.part.width * factor;
        return tile;
    }
    cut.out = diti_tensor_new(clip->graph, DITI_F32, cut.to.frames * cut.to.height * cut.to.width, columns, "tile");
    diti_place_frames(clip->graph, x, &cut);
    tile.x = diti_video_whole(clip, &tile.size, cut.out);
    return tile;
}

/* Where tiles begin along a side of the latent, and how much each has in common with the one before it. */
typedef struct diti_video_axis {
    uint32_t count, side, first[DITI_VIDEO_MAX_TILES], overlap[DITI_VIDEO_MAX_TILES];
} diti_video_axis;

/* Tiles overlap by a quarter, and the last one has what is left; or all are as large, as few as overlap by that at
   least, and what they have too much is spread over the overlaps, from the first one on. false: there would be too
   many. */
static bool diti_video_lay(diti_video_axis *axis, uint32_t length, uint32_t side, bool spreads) {
    uint32_t overlap = side / 4, step = side - overlap, i, spare;
    if (!step || length / step >= DITI_VIDEO_MAX_TILES) return false;
    axis->side = side;
    axis->count = spreads ? length <= side ? 1 : (length - overlap + step - 1) / step : (length + step - 1) / step;
    for (i = 0; i < axis->count; i++) axis->overlap[i] = overlap;
    spare = spreads && axis->count > 1 ? side * axis->count - overlap * (axis->count - 1) - length : 0;
    for (i = 0; i < spare; i++) axis->overlap[1 + i % (axis->count - 1)]++;
    for (axis->first[0] = 0, i = 1; i < axis->count; i++) axis->first[i] = axis->first[i - 1] + side - axis->overlap[i];
    return true;
}

/* Lines or columns of a tile that no later one replaces. */
static uint32_t diti_video_kept(const diti_video_axis *axis, uint32_t i) {
    return i + 1 < axis->count ? axis->first[i + 1] - axis->first[i] : axis->side;
}

/* The tile faded into those above it and on its left: in place, or where these fade as they were made, in a copy. */
static diti_video_tile diti_video_faded(diti_vae_clip *clip, const diti_video_tile *tile, const diti_video_tile *above,
                                        uint32_t lines, const diti_video_tile *left, uint32_t columns) {
    diti_video_tile out = *tile;
    if (clip->vae->spreads_tiles && (lines || columns) && !diti_graph_failed(clip->graph)) {
        out.x = diti_tensor_new(clip->graph, DITI_F32, diti_tensor_rows(clip->graph, tile->x),
                                diti_tensor_columns(clip->graph, tile->x), "faded tile");
        diti_copy(clip->graph, tile->x, out.x, "faded tile");
    }
    if (lines) diti_video_fade(clip, &out, above, lines, false);
    if (columns) diti_video_fade(clip, &out, left, columns, true);
    return out;
}

DIT_INTERNAL diti_tensor diti_video_tiled(diti_vae_clip *clip, uint32_t frames, uint32_t made_frames, uint32_t dropped,
                                          diti_tensor x) {
    diti_video size = clip->encode ? clip->pixels : clip->latent, out_size = clip->encode ? clip->latent : clip->pixels;
    uint32_t side = clip->tile / 4 * 4; /* in latent elements, so that steps and overlaps are whole ones */
    uint32_t factor = clip->vae->traits.factor, in = clip->encode ? factor : 1, made = clip->encode ? 1 : factor,
             self = clip->group.index, member = 0, number = 0, i, j;
    bool spreads = clip->vae->spreads_tiles;
    diti_video_tile tiles[2][DITI_VIDEO_MAX_TILES], shown;
    diti_video_axis rows, columns;
    diti_graph *graph = clip->graph;
    diti_place_desc move = DITI_ZERO;
    size.frames = frames;
    out_size.frames = made_frames;
    if (!diti_video_lay(&rows, clip->latent.height, side, spreads) ||
        !diti_video_lay(&columns, clip->latent.width, side, spreads))
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tiles of %u are too small for frames of %u x %u",
                               clip->tile, clip->latent.height, clip->latent.width);
    if (!self)
        move.out =
            diti_tensor_new(graph, DITI_F32, out_size.frames * out_size.height * out_size.width,
                            clip->encode ? 2 * clip->vae->traits.latent_channels : clip->vae->traits.colors, "tiles");
    move.to = out_size;
    move.first = dropped;
    for (i = 0; i < rows.count; i++)
        for (j = 0; j < columns.count && !diti_graph_failed(graph); j++, number++) {
            diti_video_tile *tile = &tiles[i % 2][j];
            while (number >= diti_ranks_first(&clip->group, member + 1, rows.count * columns.count)) member++;
            if (self && self != member) continue;
            *tile = diti_video_run_tile(clip, &size, x, in * rows.first[i], in * columns.first[j], in * side, member,
                                        out_size.frames + move.first);
            diti_video_pass_tile(clip, tile, member);
            if (self) continue;
            shown = diti_video_faded(clip, tile, &tiles[(i + 1) % 2][j], i ? made * rows.overlap[i] : 0,
                                     j ? tile - 1 : tile, j ? made * columns.overlap[j] : 0);
            move.from = move.part = shown.size;
            move.part.frames = out_size.frames;
            move.part.height = diti_video_smaller(made * diti_video_kept(&rows, i), shown.size.height);
            move.part.width = diti_video_smaller(made * diti_video_kept(&columns, j), shown.size.width);
            move.y = made * rows.first[i];
            move.x = made * columns.first[j];
            diti_place_frames(graph, shown.x, &move);
        }
    return move.out;
}

DIT_INTERNAL uint32_t diti_vae_turns(const diti_vae *vae, const diti_video *latent, uint32_t tile, uint32_t *columns,
                                     float *table) {
    uint32_t side = (tile ? tile : vae->own_tile) / 4 * 4;
    diti_video size = *latent;
    diti_vae_chunk chunk;
    diti_vae_clip clip = DITI_ZERO;
    if (!vae->kind || !vae->kind->turns) return 0;
    clip.vae = vae;
    clip.latent = *latent;
    size.frames = vae->kind->chunk(&clip, 0, &chunk) ? chunk.frames : latent->frames;
    size.height = diti_video_smaller(size.height, side);
    size.width = diti_video_smaller(size.width, side);
    return vae->kind->turns(vae, &size, columns, table);
}
