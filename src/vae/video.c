#include "vae/vae.h"

/* Clips: rows are pixels, line by line and frame after frame. An autoencoder of pictures takes some frames at a time as
   so many pictures. Autoencoders of clips each have a rule into which chunks a clip falls (diti_video_kind), and share
   what is here for convolutions over time.

   A convolution over kt frames needs kt - 1 frames before a chunk. Where chunks are independent of each other the
   kernel takes zeros or the first frame for them (diti_conv_desc). Where the original keeps frames of the chunk before,
   the convolution's input has room in front, which is filled from a cache, a state of the plan; the last frames of the
   input become the cache. Residuals are F32.

   Devices that decode or encode a clip together have a band of lines of each frame, as of a picture (band.c): a 3x3
   convolution gets the line of each frame next to the band, a GroupNorm the moments of every frame's lines of the
   latent, attention the keys and values of all bands. Where chunks are in tiles, they have some tiles of each. */

/* ---- pictures ---- */

static bool diti_pictures_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    uint32_t most = clip->tile ? diti_group_count(&clip->group) : DITI_VAE_PICTURES, first = index * most;
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

DIT_INTERNAL bool diti_vae_draws_inside(const diti_vae *vae) { return vae->opensora != NULL; }

DIT_INTERNAL uint32_t diti_vae_independent_frames(const diti_vae *vae) {
    if (!vae->kind) return 1;
    return vae->opensora ? (vae->chunk_frames + vae->frame_factor - 1) / vae->frame_factor : 0;
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
    clip->tile = tile;
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
static bool diti_video_has_bands(const diti_vae_clip *clip) {
    return clip->vae->kind && diti_group_count(&clip->group) > 1 && !clip->tiled;
}

DIT_INTERNAL bool diti_vae_clip_divide(diti_vae_clip *clip, const diti_group *group) {
    uint32_t index = group->index, height = clip->latent.height, factor = clip->vae->traits.factor;
    clip->group = *group;
    if (!clip->vae->kind || clip->tiled) return true;
    if (clip->group.count > height) clip->group.count = height;
    if (index >= diti_group_count(&clip->group)) return false;
    clip->latent.height = diti_group_size(&clip->group, index, height);
    clip->pixels.height = factor * clip->latent.height;
    return true;
}

DIT_INTERNAL diti_vae_portion diti_vae_clip_portion(const diti_vae_clip *clip, const diti_vae_chunk *chunk,
                                                    uint32_t member, bool made) {
    uint32_t frames = made ? chunk->out_frames : chunk->frames,
             factor = made != clip->encode ? clip->vae->traits.factor : 1;
    bool bands = diti_video_has_bands(clip), divides = !bands || (made != clip->encode && clip->vae->opensora);
    diti_group group = clip->group;
    diti_vae_portion out = DITI_ZERO;
    out.frames = frames;
    out.lines = bands ? clip->lines : (made != clip->encode ? clip->pixels : clip->latent).height;
    if (clip->tiled) {
        if (made && member) out.frames = 0;
        return out;
    }
    if (divides && diti_group_count(&group) > 1) {
        if (group.count > frames) group.count = frames;
        out.first = diti_group_first(&group, member, frames);
        out.frames = member < group.count ? diti_group_size(&group, member, frames) : 0;
    }
    if (!bands) return out;
    if (divides) {
        out.lines *= factor;
    } else if (member < group.count) {
        out.line = factor * diti_group_first(&group, member, clip->lines);
        out.lines = factor * diti_group_size(&group, member, clip->lines);
    } else {
        out.frames = 0;
    }
    return out;
}

DIT_INTERNAL bool diti_vae_clip_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    memset(out, 0, sizeof *out);
    return clip->vae->kind ? clip->vae->kind->chunk(clip, index, out) : diti_pictures_chunk(clip, index, out);
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
    return clip->vae->kind ? clip->vae->kind->run(clip, chunk, x) : diti_pictures_run(clip, chunk, x);
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

/* ---- parts of video autoencoders ---- */

DIT_INTERNAL uint32_t diti_video_load_conv(diti_loader *loader, diti_layer *out, uint32_t channels, const char *name) {
    char full[120], weight[160], bias[160];
    const diti_stored_tensor *stored;
    uint32_t rows, frames = 1, kernel = 1;
    diti_format(weight, sizeof weight, "%s.conv.weight", name);
    diti_format(full, sizeof full, "%s%s", name, diti_loader_find(loader, weight) ? ".conv" : "");
    diti_format(weight, sizeof weight, "%s.weight", full);
    diti_format(bias, sizeof bias, "%s.bias", full);
    stored = diti_loader_find(loader, weight);
    rows = diti_loader_dimension(loader, weight, 0);
    if (stored && stored->rank == 5) frames = diti_loader_dimension(loader, weight, 2);
    if (stored && stored->rank >= 4) kernel = diti_loader_dimension(loader, weight, stored->rank - 1);
    if (!rows || frames < 1 || frames > 3 || (kernel != 1 && kernel != 3)) {
        if (!loader->error.result)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                      "%s: %.100s%.100s must be a convolution over at most 3 frames of 3 x 3",
                      diti_checkpoint_name(loader->checkpoint), loader->scope, weight);
        return 0;
    }
    diti_load_conv(loader, out, rows, channels, frames, kernel, diti_loader_find(loader, bias) != NULL, full);
    return rows;
}

DIT_INTERNAL uint32_t diti_video_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels,
                                             const char *shortcut, const char *name) {
    char scope[128];
    diti_format(scope, sizeof scope, "%s", loader->scope);
    diti_loader_scope(loader, "%s%s.", scope, name);
    diti_load_norm(loader, &out->norm1, channels, "norm1");
    out->channels = diti_video_load_conv(loader, &out->conv1, channels, "conv1");
    diti_load_norm(loader, &out->norm2, out->channels, "norm2");
    diti_video_load_conv(loader, &out->conv2, out->channels, "conv2");
    if (channels != out->channels) diti_video_load_conv(loader, &out->shortcut, channels, shortcut);
    diti_loader_scope(loader, "%s", scope);
    return out->channels;
}

DIT_INTERNAL uint32_t diti_video_load_resnets(diti_loader *loader, diti_kl_level *level, uint32_t channels,
                                              const char *shortcut, const char *list) {
    char name[80];
    uint32_t i;
    level->count = diti_loader_count(loader, list, ".norm1.weight");
    if (!level->count || level->count > DITI_KL_MAX_RESNETS) {
        if (!loader->error.result)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s%s must hold 1 to %u blocks",
                      diti_checkpoint_name(loader->checkpoint), loader->scope, list, DITI_KL_MAX_RESNETS);
        level->count = 0;
    }
    for (i = 0; i < level->count; i++) {
        diti_format(name, sizeof name, "%s%u", list, (unsigned)i);
        channels = diti_video_load_resnet(loader, &level->resnets[i], channels, shortcut, name);
    }
    return channels;
}

DIT_INTERNAL diti_kl_level *diti_video_load_levels(diti_vae *vae, diti_loader *loader, diti_kl_half *half,
                                                   const char *before, const char *after, uint32_t more) {
    uint32_t count = diti_loader_count(loader, before, after);
    if (!count || count > DITI_KL_MAX_LEVELS) {
        if (!loader->error.result)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                      "%s: the autoencoder's %s%s has %u levels, not 1 to %u", diti_checkpoint_name(loader->checkpoint),
                      loader->scope, before, (unsigned)count, DITI_KL_MAX_LEVELS);
        return NULL;
    }
    half->levels = (diti_kl_level *)diti_component_array(&vae->base, loader, count + more, sizeof *half->levels);
    if (!half->levels) return NULL;
    half->present = true;
    half->level_count = count + more;
    return half->levels;
}

DIT_INTERNAL void diti_video_read_list(diti_settings *settings, const char *key, uint32_t count, float *out) {
    const diti_json *list = diti_setting_numbers(settings, key), *item;
    uint32_t i = 0;
    if (!list) return;
    if (list->count != count) {
        diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, key,
                             "a list of another length than the latent has channels");
        return;
    }
    for (item = list->first; item; item = item->next) out[i++] = (float)item->number;
}

static uint32_t diti_video_taps(const diti_layer *layer) { return layer->weight.frames > 1 ? layer->weight.frames : 1; }

DIT_INTERNAL uint32_t diti_video_before(const diti_vae_clip *clip, const diti_layer *reader) {
    return clip->vae->style.cached && reader ? diti_video_taps(reader) - 1 : 0;
}

DIT_INTERNAL diti_video_input diti_video_room(diti_vae_clip *clip, const diti_video *size, uint32_t columns,
                                              diti_element format, uint32_t before) {
    uint32_t area = size->height * size->width;
    diti_video_input in;
    in.before = before;
    in.all = diti_tensor_new(clip->graph, format, (before + size->frames) * area, columns, "frames");
    in.own = diti_tensor_view(clip->graph, in.all, before * area, size->frames * area, 0, columns);
    return in;
}

/* A rectangle of lines of every frame of x to one of out. */
static void diti_video_move(diti_graph *graph, diti_tensor x, uint32_t lines, uint32_t line, diti_tensor out,
                            uint32_t out_lines, uint32_t out_line, const diti_video *part) {
    diti_place_desc move = DITI_ZERO;
    move.from = move.to = move.part = *part;
    move.from.height = lines;
    move.to.height = out_lines;
    move.from_y = line;
    move.y = out_line;
    move.out = out;
    diti_place_frames(graph, x, &move);
}

DIT_INTERNAL diti_tensor diti_video_all_lines(diti_vae_clip *clip, uint32_t frames, diti_tensor x, const char *name) {
    diti_graph *graph = clip->graph;
    const diti_group *group = &clip->group;
    uint32_t own = clip->latent.height, columns = diti_tensor_columns(graph, x), i;
    diti_video part = {frames, own, diti_tensor_rows(graph, x) / (frames * own)};
    diti_element format;
    diti_tensor all, parts[DITI_MAX_DEVICES];
    diti_trade trades[DITI_MAX_DEVICES];
    if (!diti_video_has_bands(clip) || diti_graph_failed(graph)) return x;
    format = diti_tensor_get(graph, x)->format;
    for (i = 0; i < group->count; i++) {
        if (i == group->index) continue;
        parts[i] =
            diti_tensor_new(graph, format, frames * diti_group_size(group, i, clip->lines) * part.width, columns, name);
        trades[i] = diti_trade_begin(graph, x, group->devices[i], parts[i], group->devices[i]);
    }
    parts[group->index] = x;
    all = diti_tensor_new(graph, format, frames * clip->lines * part.width, columns, name);
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        part.height = diti_group_size(group, i, clip->lines);
        if (i != group->index) diti_trade_end(graph, trades[i]);
        diti_video_move(graph, parts[i], part.height, 0, all, clip->lines, diti_group_first(group, i, clip->lines),
                        &part);
    }
    return all;
}

DIT_INTERNAL void diti_video_own_lines(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x,
                                       diti_tensor out) {
    diti_graph *graph = clip->graph;
    const diti_group *group = &clip->group;
    uint32_t own = clip->latent.height, width = clip->latent.width, columns = diti_tensor_columns(graph, out), i;
    diti_vae_portion portion = diti_vae_clip_portion(clip, chunk, group->index, false);
    diti_video part = {portion.frames, own, width};
    diti_tensor sent;
    for (i = 0; i < group->count && x && !diti_graph_failed(graph); i++) {
        if (i == group->index) continue;
        part.height = diti_group_size(group, i, clip->lines);
        sent = diti_tensor_new(graph, DITI_F32, part.frames * part.height * width, columns, "lines of frames");
        diti_video_move(graph, x, clip->lines, diti_group_first(group, i, clip->lines), sent, part.height, 0, &part);
        diti_send(graph, sent, group->devices[i]);
    }
    part.height = own;
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        diti_tensor to;
        portion = diti_vae_clip_portion(clip, chunk, i, false);
        if (!portion.frames) continue;
        to = diti_tensor_view(graph, out, portion.first * own * width, portion.frames * own * width, 0, columns);
        if (i == group->index)
            diti_video_move(graph, x, clip->lines, diti_group_first(group, i, clip->lines), to, own, 0, &part);
        else
            diti_receive(graph, to, group->devices[i]);
    }
}

DIT_INTERNAL diti_tensor diti_video_keys(diti_vae_clip *clip, const diti_video *size, diti_tensor qkv,
                                         uint32_t channels) {
    diti_graph *graph = clip->graph;
    uint32_t rows = size->frames * size->height * size->width;
    diti_tensor own = diti_tensor_view(graph, qkv, 0, rows, channels, 2 * channels), part;
    if (!diti_video_has_bands(clip) || diti_graph_failed(graph)) return own;
    part = diti_tensor_new(graph, diti_tensor_get(graph, own)->format, rows, 2 * channels, "keys and values");
    diti_copy(graph, own, part, "keys and values");
    return diti_video_all_lines(clip, size->frames, part, "keys and values of all bands");
}

/* A line of each frame next to the band: the own one at the edge goes to the member that has it, whose comes. */
static void diti_video_meet(diti_vae_clip *clip, const diti_video *size, diti_tensor all, uint32_t own, uint32_t beyond,
                            uint32_t lines, uint32_t member) {
    diti_graph *graph = clip->graph;
    uint32_t columns = diti_tensor_columns(graph, all), device = clip->group.devices[member];
    diti_video line = {size->frames, 1, size->width};
    diti_tensor sent, received;
    if (diti_graph_failed(graph)) return;
    sent = diti_tensor_new(graph, diti_tensor_get(graph, all)->format, line.frames * line.width, columns, "edge");
    received = diti_tensor_new(graph, diti_tensor_get(graph, all)->format, line.frames * line.width, columns, "edge");
    diti_video_move(graph, all, lines, own, sent, 1, 0, &line);
    diti_swap(graph, sent, received, device);
    diti_video_move(graph, received, 1, 0, all, lines, beyond, &line);
}

/* The frames of a convolution's input with the lines next to the band, for which size has room then. */
static diti_video_input diti_video_edges(diti_vae_clip *clip, diti_video *size, diti_video_input in,
                                         diti_conv_desc *desc) {
    const diti_group *group = &clip->group;
    diti_video band = *size;
    diti_video_input out;
    if (diti_graph_failed(clip->graph)) return in;
    desc->above = group->index > 0;
    desc->below = group->index + 1 < group->count;
    size->height += desc->above + desc->below;
    out = diti_video_room(clip, size, diti_tensor_columns(clip->graph, in.own),
                          diti_tensor_get(clip->graph, in.own)->format, in.before);
    diti_video_move(clip->graph, in.own, band.height, 0, out.own, size->height, desc->above, &band);
    if (desc->above) diti_video_meet(clip, &band, out.own, 1, 0, size->height, group->index - 1);
    if (desc->below)
        diti_video_meet(clip, &band, out.own, size->height - 2, size->height - 1, size->height, group->index + 1);
    return out;
}

DIT_INTERNAL diti_video_input diti_video_norm(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                              const diti_layer *norm, bool silu, bool alone, const diti_layer *reader) {
    const diti_video_style *style = &clip->vae->style;
    diti_video_input in = diti_video_room(clip, size, diti_tensor_columns(clip->graph, x), clip->graph->activation,
                                          diti_video_before(clip, reader));
    diti_group_norm_desc desc = DITI_ZERO;
    diti_norm_desc rms = DITI_ZERO;
    if (!style->groups) {
        rms.rms = true;
        rms.eps = style->eps;
        if (norm && norm->weight.part_count) rms.weight = &norm->weight;
        rms.silu = silu;
        rms.out = in.own;
        rms.name = "vae_norm";
        diti_norm(clip->graph, x, &rms);
        return in;
    }
    desc.batch = alone ? size->frames : 1;
    desc.parts = clip->lines ? size->frames * clip->latent.height / desc.batch : 0;
    desc.groups = style->groups;
    desc.eps = style->eps;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.silu = silu;
    desc.out = in.own;
    desc.name = "vae_norm";
    if (diti_video_has_bands(clip))
        desc.moments =
            diti_video_all_lines(clip, size->frames, diti_group_moments(clip->graph, x, &desc), "moments of all lines");
    diti_group_norm(clip->graph, x, &desc);
    return in;
}

DIT_INTERNAL diti_video_input diti_video_behind(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                                uint32_t before) {
    diti_video_input in;
    in.all = in.own = x;
    in.before = 0;
    if (!before || diti_graph_failed(clip->graph)) return in;
    in = diti_video_room(clip, size, diti_tensor_columns(clip->graph, x), diti_tensor_get(clip->graph, x)->format,
                         before);
    diti_copy(clip->graph, x, in.own, "frames");
    return in;
}

DIT_INTERNAL diti_video_input diti_video_plain(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                               const diti_layer *reader) {
    return diti_video_behind(clip, size, x, diti_video_before(clip, reader));
}

/* Fills the room in front of a convolution's input. */
static void diti_video_fill(diti_vae_clip *clip, const diti_video *size, diti_video_input in) {
    diti_graph *graph = clip->graph;
    uint32_t area = size->height * size->width, columns = diti_tensor_columns(graph, in.all), before = in.before, i;
    diti_tensor room = diti_tensor_view(graph, in.all, 0, before * area, 0, columns);
    if (!clip->first)
        diti_copy(graph, clip->caches[clip->cache_next], room, "frames before");
    else if (!clip->vae->style.ends)
        diti_fill_zeros(graph, room);
    for (i = 0; i < before && clip->first && clip->vae->style.ends; i++)
        diti_copy(graph, diti_tensor_view(graph, in.own, 0, area, 0, columns),
                  diti_tensor_view(graph, room, i * area, area, 0, columns), "frames before");
}

/* The next cache of the chunk, which the first chunk makes. */
static diti_tensor diti_video_cache(diti_vae_clip *clip, const diti_video *size, diti_tensor like, uint32_t before) {
    diti_tensor *cache = &clip->caches[clip->cache_next++];
    if (!*cache && !diti_graph_failed(clip->graph))
        *cache = diti_tensor_state(clip->graph, diti_tensor_get(clip->graph, like)->format,
                                   before * size->height * size->width, diti_tensor_columns(clip->graph, like),
                                   "frames before");
    return *cache;
}

static void diti_video_keep(diti_vae_clip *clip, const diti_video *size, diti_tensor all, uint32_t frames,
                            uint32_t before) {
    uint32_t area = size->height * size->width;
    diti_tensor cache;
    if (clip->last) {
        clip->cache_next++;
        return;
    }
    cache = diti_video_cache(clip, size, all, before);
    if (diti_graph_failed(clip->graph)) return;
    diti_copy(clip->graph,
              diti_tensor_view(clip->graph, all, (frames - before) * area, before * area, 0,
                               diti_tensor_columns(clip->graph, all)),
              cache, "keep frames");
}

DIT_INTERNAL void diti_video_skip(diti_vae_clip *clip, const diti_video *size, diti_tensor x, uint32_t before,
                                  bool zeros) {
    if (zeros && !clip->last)
        diti_fill_zeros(clip->graph, diti_video_cache(clip, size, x, before));
    else
        diti_video_keep(clip, size, x, size->frames, before);
}

DIT_INTERNAL diti_tensor diti_video_conv(diti_vae_clip *clip, const diti_video *size, diti_video_input in,
                                         const diti_layer *layer, const diti_conv_desc *more, const char *name) {
    const diti_video_style *style = &clip->vae->style;
    uint32_t missing = diti_video_taps(layer) - 1;
    bool both = style->both && !clip->encode;
    diti_conv_desc desc = DITI_ZERO;
    diti_video lines = *size; /* size of the input, with lines next to the band */
    if (more) desc = *more;
    if (diti_video_has_bands(clip) && layer->weight.kernel > 1) in = diti_video_edges(clip, &lines, in, &desc);
    desc.batch = size->frames + in.before;
    desc.height = size->height;
    desc.width = size->width;
    if (desc.stride <= 1) desc.pad_before = desc.pad_after = layer->weight.kernel / 2;
    if (!in.before && !desc.frames_before) desc.frames_before = both ? missing / 2 : missing;
    if (both) desc.frames_after = missing - desc.frames_before;
    desc.ends = style->ends;
    desc.edges = style->edges;
    desc.bias = &layer->bias;
    desc.out_f32 = true;
    desc.name = name;
    if (clip->cache_next >= DITI_VAE_CACHES)
        return diti_graph_fail(clip->graph, DIT_ERROR_UNSUPPORTED_MODEL,
                               "the autoencoder has more than %u convolutions "
                               "over time",
                               DITI_VAE_CACHES);
    if (in.before) {
        desc.frames_before = 0;
        diti_video_fill(clip, &lines, in);
        diti_video_keep(clip, &lines, in.all, in.before + size->frames, in.before);
    }
    return diti_conv(clip->graph, in.all, &layer->weight, &desc);
}

DIT_INTERNAL diti_tensor diti_video_resnet(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                           const diti_kl_resnet *resnet) {
    bool alone = resnet->conv1.weight.frames <= 1;
    diti_conv_desc more = DITI_ZERO;
    diti_tensor h;
    diti_video_input in = diti_video_norm(clip, size, x, &resnet->norm1, true, alone, &resnet->conv1);
    h = diti_video_conv(clip, size, in, &resnet->conv1, NULL, "vae_conv1");
    in = diti_video_norm(clip, size, h, &resnet->norm2, true, alone, &resnet->conv2);
    if (resnet->shortcut.weight.part_count)
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &resnet->shortcut, NULL, "vae_shortcut");
    more.residual = x;
    return diti_video_conv(clip, size, in, &resnet->conv2, &more, "vae_conv2");
}
