/* Bytes that a member of a group sends for a decode in bands: the closed form of src/vae/band.c. */
#ifndef VAE_BYTES_H
#define VAE_BYTES_H

/* Values in a line of what a 3x3 convolution reads. */
static inline uint64_t vae_line(const diti_layer *layer, uint32_t width) {
    return (uint64_t)width * (layer->weight.columns / 9);
}

static inline uint64_t vae_resnet_lines(const diti_kl_resnet *resnet, uint32_t width) {
    return vae_line(&resnet->conv1, width) + vae_line(&resnet->conv2, width);
}

static inline uint64_t vae_kl_lines(const diti_vae *vae, uint32_t width, uint32_t *norms) {
    const diti_kl_half *half = &vae->decoder;
    uint64_t values = vae_resnet_lines(&half->mid[0], width) + vae_resnet_lines(&half->mid[1], width);
    uint32_t i, k;
    *norms = 5u + half->attention.present;
    for (i = 0; i < half->level_count; i++) {
        for (k = 0; k < half->levels[i].count; k++, *norms += 2)
            values += vae_resnet_lines(&half->levels[i].resnets[k], width);
        if (!half->levels[i].resample.weight.part_count) continue;
        values += vae_line(&half->levels[i].resample, width);
        width *= 2;
    }
    return values + vae_line(&half->conv_out, width);
}

static inline uint64_t vae_tiny_lines(const diti_vae *vae, uint32_t width) {
    uint64_t values = 0;
    uint32_t i, k;
    for (i = 0; i < vae->tiny_decoder.count; i++) {
        const diti_tiny_layer *layer = &vae->tiny_decoder.layers[i];
        for (k = 0; k < (layer->block ? 3u : 1u); k++)
            if (i || k) values += vae_line(&layer->convs[k], width);
        width <<= layer->up;
    }
    return values;
}

/* element: bytes of an activation. members: how many have lines of the latent, which is height x width. */
static inline uint64_t vae_strip_bytes(const diti_vae *vae, uint32_t element, const diti_ranks *group, uint32_t member,
                                       uint32_t height, uint32_t width) {
    diti_ranks all = *group;
    uint32_t members = all.count = group->count < height ? group->count : height, norms = 0;
    uint32_t neighbours = (member > 0 ? 1u : 0u) + (member + 1 < members ? 1u : 0u);
    uint64_t lines = vae->traits.tiny ? vae_tiny_lines(vae, width) : vae_kl_lines(vae, width, &norms), others;
    if (member >= members || members == 1) return 0;
    others = (uint64_t)norms * 16 * vae->groups;
    if (vae->decoder.attention.present)
        others += (uint64_t)width * 2 * element * vae->decoder.attention.out.weight.rows;
    others *= diti_ranks_size(&all, member, height);
    return neighbours * (vae->wide ? 4 : element) * lines + (members - 1) * others;
}

/* Bytes of a member's pixels, which it sends to the first member. */
static inline uint64_t vae_picture_bytes(const diti_vae *vae, const diti_ranks *group, uint32_t member, uint32_t height,
                                         uint32_t width) {
    uint32_t first, lines = diti_vae_lines(vae, group, member, height, width, 0, &first);
    return member ? 16 * (uint64_t)lines * width * vae->traits.factor : 0;
}

/* A side of `length` of a latent in pieces of at most `most` that overlap by a quarter of that: how many, how long. */
static inline uint64_t vae_pieces(uint64_t length, uint64_t most, uint64_t *size) {
    uint64_t overlap = most / 4, count = 1;
    while (count * (most - overlap) + overlap < length) count++;
    *size = length <= most ? length : (length + (count - 1) * overlap + count - 1) / count;
    return count;
}

/* Bytes of the tiles that a member makes and sends to the first one; a pixel's three floats take the room of four. */
static inline uint64_t vae_tile_bytes(const diti_vae *vae, const diti_ranks *group, uint32_t member, uint32_t height,
                                      uint32_t width, uint32_t tile) {
    uint64_t factor = vae->traits.factor, size[2], count = vae_pieces(height, tile, &size[0]);
    count *= vae_pieces(width, tile, &size[1]);
    return member ? diti_ranks_size(group, member, (uint32_t)count) * factor * size[0] * factor * size[1] * 16 : 0;
}
#endif
