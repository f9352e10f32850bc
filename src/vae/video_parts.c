#include "vae/vae.h"

/* Parts of autoencoders of clips. A convolution over kt frames needs kt - 1 frames before a chunk. Where chunks are
   independent of each other the kernel takes zeros or the first frame for them (diti_conv_desc). Where the original
   keeps frames of the chunk before, the convolution's input has room in front, which is filled from a cache, a state of
   the plan; the last frames of the input become the cache. Residuals are F32. */

/* ---- loading ---- */

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

/* ---- computing ---- */

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
    const diti_ranks *group = &clip->group;
    uint32_t own = clip->latent.height, columns = diti_tensor_columns(graph, x), i;
    diti_video part = {frames, own, diti_tensor_rows(graph, x) / (frames * own)};
    diti_element format;
    diti_tensor all, parts[DITI_MAX_DEVICES];
    diti_trade trades[DITI_MAX_DEVICES];
    if (!diti_vae_clip_has_bands(clip) || diti_graph_failed(graph)) return x;
    format = diti_tensor_get(graph, x)->format;
    for (i = 0; i < group->count; i++) {
        if (i == group->index) continue;
        parts[i] =
            diti_tensor_new(graph, format, frames * diti_ranks_size(group, i, clip->lines) * part.width, columns, name);
        trades[i] = diti_trade_begin(graph, x, group->devices[i], parts[i], group->devices[i]);
    }
    parts[group->index] = x;
    all = diti_tensor_new(graph, format, frames * clip->lines * part.width, columns, name);
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        part.height = diti_ranks_size(group, i, clip->lines);
        if (i != group->index) diti_trade_end(graph, trades[i]);
        diti_video_move(graph, parts[i], part.height, 0, all, clip->lines, diti_ranks_first(group, i, clip->lines),
                        &part);
    }
    return all;
}

DIT_INTERNAL void diti_video_local_lines(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x,
                                         diti_tensor out) {
    diti_graph *graph = clip->graph;
    const diti_ranks *group = &clip->group;
    uint32_t own = clip->latent.height, width = clip->latent.width, columns = diti_tensor_columns(graph, out), i;
    diti_vae_portion portion = diti_vae_clip_portion(clip, chunk, group->index, false);
    diti_video part = {portion.frames, own, width};
    diti_tensor sent;
    for (i = 0; i < group->count && x && !diti_graph_failed(graph); i++) {
        if (i == group->index) continue;
        part.height = diti_ranks_size(group, i, clip->lines);
        sent = diti_tensor_new(graph, DITI_F32, part.frames * part.height * width, columns, "lines of frames");
        diti_video_move(graph, x, clip->lines, diti_ranks_first(group, i, clip->lines), sent, part.height, 0, &part);
        diti_send(graph, sent, group->devices[i]);
    }
    part.height = own;
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        diti_tensor to;
        portion = diti_vae_clip_portion(clip, chunk, i, false);
        if (!portion.frames) continue;
        to = diti_tensor_view(graph, out, portion.first * own * width, portion.frames * own * width, 0, columns);
        if (i == group->index)
            diti_video_move(graph, x, clip->lines, diti_ranks_first(group, i, clip->lines), to, own, 0, &part);
        else
            diti_receive(graph, to, group->devices[i]);
    }
}

DIT_INTERNAL diti_tensor diti_video_keys(diti_vae_clip *clip, const diti_video *size, diti_tensor qkv,
                                         uint32_t channels) {
    diti_graph *graph = clip->graph;
    uint32_t rows = size->frames * size->height * size->width;
    diti_tensor own = diti_tensor_view(graph, qkv, 0, rows, channels, 2 * channels), part;
    if (!diti_vae_clip_has_bands(clip) || diti_graph_failed(graph)) return own;
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
    const diti_ranks *group = &clip->group;
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
    if (diti_vae_clip_has_bands(clip))
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

DIT_INTERNAL diti_tensor diti_video_cache(diti_vae_clip *clip, const diti_video *size, diti_tensor like,
                                          uint32_t before) {
    diti_tensor *cache = &clip->caches[clip->cache_next++];
    diti_element format;
    uint32_t rows = before * size->height * size->width, columns;
    if (*cache || diti_graph_failed(clip->graph)) return *cache;
    format = diti_tensor_get(clip->graph, like)->format;
    columns = diti_tensor_columns(clip->graph, like);
    *cache = clip->of_tile ? diti_tensor_new(clip->graph, format, rows, columns, "frames before")
                           : diti_tensor_state(clip->graph, format, rows, columns, "frames before");
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

/* Frames with a line and a column more at edges that are padded, which have what stands on the other side of the edge's
   own; where another device has the line beyond, it is there. */
static diti_tensor diti_video_mirror(diti_vae_clip *clip, const diti_video *lines, diti_tensor x,
                                     diti_conv_desc *desc) {
    diti_graph *graph = clip->graph;
    uint32_t columns = diti_tensor_columns(graph, x), height = desc->height, width = desc->width, i,
             before = desc->pad_before, after = desc->pad_after;
    diti_place_desc place = DITI_ZERO;
    if (diti_graph_failed(graph)) return 0;
    place.from = place.part = *lines;
    place.to.frames = lines->frames;
    place.to.height = height + before + after;
    place.to.width = width + before + after;
    place.y = before - desc->above;
    place.x = before;
    place.out = diti_tensor_new(graph, diti_tensor_get(graph, x)->format,
                                place.to.frames * place.to.height * place.to.width, columns, "mirrored frames");
    diti_place_frames(graph, x, &place);
    place.from = place.to;
    for (i = 0; i < 4; i++) { /* above, below, then the whole lines' left and right */
        if (!(i % 2 ? after : before) || (i == 0 && desc->above) || (i == 1 && desc->below)) continue;
        place.part.height = i < 2 ? 1 : place.to.height;
        place.part.width = i < 2 ? width : 1;
        place.from_y = i == 0   ? (height > 1 || desc->below ? 2 : 1)
                       : i == 1 ? (height > 1 || desc->above ? before + height - 2 : before)
                                : 0;
        place.from_x = i < 2 ? before : i == 2 ? (width > 1 ? 2 : 1) : (width > 1 ? before + width - 2 : before);
        place.y = i == 1 ? before + height : 0;
        place.x = i < 2 ? before : i == 2 ? 0 : before + width;
        diti_place_frames(graph, place.out, &place);
    }
    desc->height = place.to.height;
    desc->width = place.to.width;
    desc->above = desc->below = desc->pad_before = desc->pad_after = 0;
    return place.out;
}

DIT_INTERNAL diti_tensor diti_video_conv(diti_vae_clip *clip, const diti_video *size, diti_video_input in,
                                         const diti_layer *layer, const diti_conv_desc *more, const char *name) {
    const diti_video_style *style = &clip->vae->style;
    uint32_t missing = diti_video_taps(layer) - 1;
    bool both = style->both && !clip->encode;
    diti_conv_desc desc = DITI_ZERO;
    diti_video lines = *size; /* size of the input, with lines next to the band */
    if (more) desc = *more;
    if (diti_vae_clip_has_bands(clip) && layer->weight.kernel > 1) in = diti_video_edges(clip, &lines, in, &desc);
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
    if ((clip->encode ? style->mirrors_encoder : style->mirrored) && layer->weight.kernel > 1)
        in.all = diti_video_mirror(clip, &lines, in.all, &desc);
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

DIT_INTERNAL diti_tensor diti_video_attend_before(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                                  const diti_kl_attention *attention) {
    diti_graph *graph = clip->graph;
    uint32_t channels = attention->out.weight.rows, area = size->height * size->width, frame;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor h = diti_video_norm(clip, size, x, &attention->norm, false, false, NULL).own, keys, out;
    linear.name = "vae_qkv";
    h = diti_linear_fused(graph, h, &attention->qkv, &linear);
    keys = diti_video_keys(clip, size, h, channels);
    out = diti_tensor_new(graph, graph->activation, size->frames * area, channels, "vae_attention");
    desc.batch = desc.heads = 1;
    desc.head_dim = channels;
    desc.scale = 1.0f / sqrtf((float)channels);
    desc.name = "vae_attention";
    for (frame = 0; frame < size->frames && !diti_graph_failed(graph); frame++) {
        uint32_t count = diti_tensor_rows(graph, keys) / size->frames * (frame + 1);
        desc.out = diti_tensor_view(graph, out, frame * area, area, 0, channels);
        diti_attention(graph, diti_tensor_view(graph, h, frame * area, area, 0, channels),
                       diti_tensor_view(graph, keys, 0, count, 0, channels),
                       diti_tensor_view(graph, keys, 0, count, channels, channels), &desc);
    }
    linear.bias = &attention->out.bias;
    linear.residual = x;
    linear.out_f32 = true;
    linear.name = "vae_attention_out";
    return diti_linear(graph, out, &attention->out.weight, &linear);
}
