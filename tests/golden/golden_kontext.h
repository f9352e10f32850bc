/* FLUX.1 Kontext: a picture made after another one, on the pipeline that stands beside the folder, with its recorded
   embeddings; where the pipeline has no text encoders, the sizes of references alone. */
#ifndef GOLDEN_KONTEXT_H
#define GOLDEN_KONTEXT_H
#include "golden_calls.h"

static inline bool golden_is_kontext(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.image_u8") &&
           diti_checkpoint_find(folder->golden, "case0.model_in");
}

/* row: a picture's sides, and those that it is scaled to. */
static inline void golden_kontext_size(golden *g, const diti_model_traits *traits, const float *row) {
    dit_image image = DITI_ZERO;
    uint32_t width, height;
    image.width = (uint32_t)row[0];
    image.height = (uint32_t)row[1];
    diti_reference_scaled(traits, &image, 1, &width, &height);
    golden_check(g, width == row[2] && height == row[3],
                 "a reference of %u x %u becomes %u x %u, and is recorded as %u x %u", image.width, image.height, width,
                 height, (unsigned)row[2], (unsigned)row[3]);
}

/* Sizes that the pipeline of diffusers 0.42.1 chooses: recorded ones, and two for pictures that are no whole tokens. */
static inline void golden_kontext_sizes(golden *g, const golden_folder *folder, const diti_model_traits *traits) {
    static const float floored[2][4] = {{64, 69, 1024, 1024}, {69, 64, 1024, 1024}};
    uint64_t count = 0, sizes = 0, i;
    float *rows = golden_floats(folder->golden, "auto_resize_examples", &count);
    float *known = golden_floats(folder->golden, "preferred_resolutions_wh", &sizes);
    golden_check(g, rows && known && count == 24 && sizes == 34, "sizes of references are recorded");
    for (i = 0; known && i < sizes; i++)
        golden_check(g, traits->reference_sizes[i / 2][i % 2] == known[i], "size %u of the model is the recorded one",
                     (unsigned)(i / 2));
    for (i = 0; rows && i + 3 < count; i += 4) golden_kontext_size(g, traits, rows + i);
    for (i = 0; i < 2; i++) golden_kontext_size(g, traits, floored[i]);
    free(rows);
    free(known);
}

static inline void golden_run_kontext(golden *g, const golden_folder *folder) {
    static const char arguments[] = "{\"width\": 96, \"height\": 64, \"num_inference_steps\": 3, "
                                    "\"guidance_scale\": 2.5, \"prompt\": \"a photo of an astronaut riding a horse on "
                                    "mars, highly detailed\"}";
    golden_pipe p = DITI_ZERO;
    diti_json *call = NULL;
    char path[1024];
    diti_format(path, sizeof path, "%.*s%s", (int)(strlen(folder->path) - strlen(folder->name)), folder->path,
                "pipe_flux");
    if (golden_pipe_open(&p, g, folder, path) &&
        golden_require(g, diti_json_parse(&g->env, arguments, sizeof arguments - 1, "arguments", &call, NULL) == DIT_OK,
                       "arguments")) {
        golden_kontext_sizes(g, folder, &p.model->transformer->traits);
        p.model->transformer->traits.reference_sizes = NULL; /* recorded with _auto_resize = False */
        p.reference_count = golden_calls_pictures(&p, "case0.in.image_u8", 0);
        if (p.model->encoders[0].self)
            golden_pipe_call(&p, call, "case0.in.latents", "case0.step2.latents", "case0.out.image01");
        while (p.reference_count) free((void *)(uintptr_t)p.pictures[--p.reference_count].rgba);
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, call);
}
#endif
