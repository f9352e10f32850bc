/* Latents as an autoencoder has them, and constants that its file says about them. */
#include "vae/vae.h"

DIT_INTERNAL void diti_vae_read_values(diti_loader *loader, const char *name, float *out, uint32_t count) {
    const diti_stored_tensor *stored = diti_loader_find(loader, name);
    if (!stored || diti_stored_tensor_elements(stored) != count || loader->error.result) return;
    diti_loader_use(loader, stored);
    diti_checkpoint_read_float(loader->checkpoint, stored, out, count, &loader->error);
}

DIT_INTERNAL diti_tensor diti_vae_unscale(const diti_vae *vae, diti_graph *graph, diti_tensor latents) {
    const diti_vae_traits *traits = &vae->traits;
    uint32_t c, columns = diti_tensor_columns(graph, latents);
    diti_elementwise_desc one = DITI_ZERO;
    diti_tensor scaled;
    if (!traits->by_channel)
        return diti_planar_to_rows(graph, latents, 1, traits->latent_channels, 1.0f / traits->scale, traits->shift);
    scaled = diti_tensor_new(graph, DITI_F32, traits->latent_channels, columns, "scaled latents");
    one.name = "scale latents";
    for (c = 0; c < traits->latent_channels && !diti_graph_failed(graph); c++) {
        one.scale = 1.0f / traits->scales[c];
        one.offset = traits->shifts[c];
        one.out = diti_tensor_view(graph, scaled, c, 1, 0, columns);
        diti_elementwise(graph, diti_tensor_view(graph, latents, c, 1, 0, columns), &one);
    }
    return diti_planar_to_rows(graph, scaled, 1, traits->latent_channels, 1, 0);
}
