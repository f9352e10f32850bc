#include "vae/vae.h"

/* Pictures, whole, in tiles that fade into each other, or in bands on several devices. */

/* ---- tiles ---- */

typedef struct diti_vae_cut { /* a side of `length` in `count` pieces of `size`, neighbours overlap */
    uint32_t length, count, size;
} diti_vae_cut;

/* Cuts a side into the fewest pieces of at most `most` that overlap by a quarter of that, all equally small. */
static diti_vae_cut diti_vae_cut_side(uint32_t length, uint32_t most) {
    diti_vae_cut cut;
    uint32_t overlap = most / 4;
    cut.length = cut.size = length;
    cut.count = 1;
    if (!most || length <= most) return cut;
    cut.count = (length - overlap + most - overlap - 1) / (most - overlap);
    cut.size = (length + (cut.count - 1) * overlap + cut.count - 1) / cut.count;
    return cut;
}

static uint32_t diti_vae_cut_first(const diti_vae_cut *cut, uint32_t i) {
    return cut->count > 1 ? (uint32_t)((uint64_t)i * (cut->length - cut->size) / (cut->count - 1)) : 0;
}

/* The overlap of piece i with the one before it; 0 at both ends. */
static uint32_t diti_vae_cut_overlap(const diti_vae_cut *cut, uint32_t i) {
    if (i == 0 || i == cut->count) return 0;
    return diti_vae_cut_first(cut, i - 1) + cut->size - diti_vae_cut_first(cut, i);
}

DIT_INTERNAL diti_tensor diti_vae_run(const diti_vae *vae, diti_graph *graph, diti_tensor x, bool decode,
                                      diti_row_band row_band) {
    if (vae->dc) return decode ? diti_dc_decode(vae, graph, x, row_band) : diti_dc_encode(vae, graph, x, row_band);
    if (vae->traits.tiny)
        return decode ? diti_tiny_decode(vae, graph, x, row_band) : diti_tiny_encode(vae, graph, x, row_band);
    return decode ? diti_kl_decode(vae, graph, x, row_band) : diti_kl_encode(vae, graph, x, row_band);
}

typedef struct diti_vae_tiles {
    const diti_vae *vae;
    bool decode;
    diti_vae_cut cuts[2];
    diti_tensor x, out;
} diti_vae_tiles;

static diti_vae_tiles diti_vae_cut_tiles(const diti_vae *vae, bool decode, uint32_t height, uint32_t width,
                                         uint32_t tile) {
    diti_vae_tiles tiles = DITI_ZERO;
    tiles.vae = vae;
    tiles.decode = decode;
    tiles.cuts[0] = diti_vae_cut_side(height, tile);
    tiles.cuts[1] = diti_vae_cut_side(width, tile);
    return tiles;
}

static uint32_t diti_vae_count_tiles(const diti_vae_tiles *tiles) {
    return tiles->cuts[0].count * tiles->cuts[1].count;
}

/* Piece (i, j) of x, run. */
static diti_tensor diti_vae_run_tile(const diti_vae_tiles *tiles, diti_graph *graph, uint32_t i, uint32_t j) {
    const diti_vae_cut *cuts = tiles->cuts;
    uint32_t in = tiles->decode ? 1 : tiles->vae->traits.factor;
    diti_tensor_info info = *diti_tensor_get(graph, tiles->x);
    diti_tile tile = DITI_ZERO;
    diti_tensor piece;
    tile.height = in * cuts[0].size;
    tile.width = tile.out_width = in * cuts[1].size;
    tile.from_y = in * diti_vae_cut_first(&cuts[0], i);
    tile.from_x = in * diti_vae_cut_first(&cuts[1], j);
    tile.from_width = in * cuts[1].length;
    piece = diti_tensor_new(graph, info.format, tile.height * tile.width, info.columns, "tile");
    diti_move_tile(graph, tiles->x, piece, &tile);
    return diti_vae_run(tiles->vae, graph, piece, tiles->decode, diti_row_band_whole(tile.height, tile.width));
}

/* Pixels of a side of `length` in the result. */
static uint32_t diti_vae_scaled(const diti_vae_tiles *tiles, uint32_t length) {
    return tiles->decode ? tiles->vae->traits.factor * length : length;
}

/* Fades piece (i, j), decoded, into out. */
static void diti_vae_put_tile(const diti_vae_tiles *tiles, diti_graph *graph, diti_tensor piece, uint32_t i,
                              uint32_t j) {
    const diti_vae_cut *cuts = tiles->cuts;
    diti_tile tile = DITI_ZERO;
    tile.height = diti_vae_scaled(tiles, cuts[0].size);
    tile.width = tile.from_width = diti_vae_scaled(tiles, cuts[1].size);
    tile.out_y = diti_vae_scaled(tiles, diti_vae_cut_first(&cuts[0], i));
    tile.out_x = diti_vae_scaled(tiles, diti_vae_cut_first(&cuts[1], j));
    tile.out_width = diti_vae_scaled(tiles, cuts[1].length);
    tile.top = diti_vae_scaled(tiles, diti_vae_cut_overlap(&cuts[0], i));
    tile.bottom = diti_vae_scaled(tiles, diti_vae_cut_overlap(&cuts[0], i + 1));
    tile.left = diti_vae_scaled(tiles, diti_vae_cut_overlap(&cuts[1], j));
    tile.right = diti_vae_scaled(tiles, diti_vae_cut_overlap(&cuts[1], j + 1));
    diti_move_tile(graph, piece, tiles->out, &tile);
}

/* The tile that a member runs comes to the first one, which puts all together in their order. */
static void diti_vae_pass_tile(const diti_vae_tiles *tiles, diti_graph *graph, const diti_ranks *group, uint32_t member,
                               uint32_t number) {
    uint32_t columns = tiles->cuts[1].count, i = number / columns, j = number % columns,
             self = group ? group->index : 0;
    uint32_t pixels = diti_vae_scaled(tiles, tiles->cuts[0].size) * diti_vae_scaled(tiles, tiles->cuts[1].size);
    diti_tensor piece = 0;
    if (self == member) piece = diti_vae_run_tile(tiles, graph, i, j);
    if (self == member && member) diti_send(graph, diti_tensor_padded(graph, piece), group->devices[0]);
    if (self) return;
    if (member) {
        piece = diti_tensor_new(graph, DITI_F32, pixels, 3, "tile of another device");
        diti_receive(graph, diti_tensor_padded(graph, piece), group->devices[member]);
    }
    diti_vae_put_tile(tiles, graph, piece, i, j);
}

/* Each member runs some tiles after the other, and all but the first send 16 bytes for each pixel of theirs, overlaps
   too. group NULL: all are run here. */
static diti_tensor diti_vae_run_tiles(diti_vae_tiles *tiles, diti_graph *graph, const diti_ranks *group) {
    const diti_vae_traits *traits = &tiles->vae->traits;
    uint32_t channels = tiles->decode ? 3 : traits->exact ? traits->latent_channels : 2 * traits->latent_channels;
    uint32_t member, i, end, count = diti_vae_count_tiles(tiles);
    if (!group || group->index == 0)
        tiles->out = diti_tensor_new(graph, DITI_F32,
                                     diti_vae_scaled(tiles, tiles->cuts[0].length) *
                                         diti_vae_scaled(tiles, tiles->cuts[1].length),
                                     channels, "tiles");
    for (member = 0; member < diti_ranks_count(group); member++) {
        end = diti_ranks_first(group, member + 1, count);
        for (i = diti_ranks_first(group, member, count); i < end && !diti_graph_failed(graph); i++)
            diti_vae_pass_tile(tiles, graph, group, member, i);
    }
    return tiles->out;
}

DIT_INTERNAL diti_tensor diti_vae_run_tiled(const diti_vae *vae, diti_graph *graph, diti_tensor x, bool decode,
                                            const diti_video *size, uint32_t tile) {
    uint32_t factor = decode ? 1 : vae->traits.factor;
    diti_vae_tiles tiles = diti_vae_cut_tiles(vae, decode, size->height / factor, size->width / factor, tile);
    tiles.x = x;
    if (diti_vae_count_tiles(&tiles) > 1) return diti_vae_run_tiles(&tiles, graph, NULL);
    return diti_vae_run(vae, graph, x, decode, diti_row_band_whole(size->height, size->width));
}

/* ---- bands ---- */

/* The members that have lines of the latent: all, or as many as there are lines; the first alone where frames remember
   each other. */
static diti_ranks diti_vae_members(const diti_vae *vae, const diti_ranks *group, uint32_t height) {
    diti_ranks members = DITI_ZERO;
    if (group) members = *group;
    if (members.count > height) members.count = height;
    if (members.count > 1 && diti_vae_remembers(vae)) members.count = 1;
    return members;
}

DIT_INTERNAL uint32_t diti_vae_lines(const diti_vae *vae, const diti_ranks *group, uint32_t member, uint32_t height,
                                     uint32_t width, uint32_t tile, uint32_t *first) {
    diti_vae_tiles tiles = diti_vae_cut_tiles(vae, true, height, width, tile);
    diti_ranks members = diti_vae_members(vae, group, height);
    uint32_t factor = vae->traits.factor;
    *first = 0;
    if (diti_vae_count_tiles(&tiles) > 1 || vae->traits.video || vae->dc) return member ? 0 : factor * height;
    if (member >= diti_ranks_count(&members)) return 0;
    *first = factor * diti_ranks_first(&members, member, height);
    return factor * diti_ranks_size(&members, member, height);
}

/* The lines of x that this member has of a latent, with room. */
static diti_tensor diti_vae_run_strip(const diti_vae *vae, diti_graph *graph, diti_tensor x, uint32_t height,
                                      uint32_t width, const diti_ranks *group) {
    diti_ranks members = diti_vae_members(vae, group, height);
    uint32_t first, columns = vae->traits.latent_channels;
    diti_row_band row_band;
    if (vae->dc) /* attention at several sizes reads all lines: the first device alone computes */
        return group && group->index ? 0 : diti_vae_run(vae, graph, x, true, diti_row_band_whole(height, width));
    if (group && group->index >= diti_ranks_count(&members)) return 0;
    row_band = diti_row_band_of(&members, height, width, &first);
    if (row_band.group)
        x = diti_tensor_view(graph, x, (first - row_band.above) * width,
                             (row_band.above + row_band.height + row_band.below) * width, 0, columns);
    return diti_vae_run(vae, graph, x, true, row_band);
}

DIT_INTERNAL diti_tensor diti_vae_decode_picture(const diti_vae *vae, diti_graph *graph, diti_tensor latent,
                                                 uint32_t height, uint32_t width, uint32_t tile,
                                                 const diti_ranks *group) {
    diti_vae_tiles tiles = diti_vae_cut_tiles(vae, true, height, width, tile);
    latent = diti_vae_unscale(vae, graph, latent);
    tiles.x = latent;
    if (diti_vae_count_tiles(&tiles) > 1) return diti_vae_run_tiles(&tiles, graph, group);
    return diti_vae_run_strip(vae, graph, latent, height, width, group);
}

DIT_INTERNAL diti_tensor diti_vae_encode_picture(const diti_vae *vae, diti_graph *graph, diti_tensor image,
                                                 uint32_t height, uint32_t width, uint32_t tile) {
    uint32_t factor = vae->traits.factor;
    diti_vae_tiles tiles = diti_vae_cut_tiles(vae, false, height / factor, width / factor, tile);
    tiles.x = image;
    if (diti_vae_count_tiles(&tiles) > 1) return diti_vae_run_tiles(&tiles, graph, NULL);
    return diti_vae_run(vae, graph, image, false, diti_row_band_whole(height, width));
}
