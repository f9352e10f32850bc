/* FLUX.1 Kontext: a picture made after another one, on the pipeline that stands beside the folder, with its recorded
   embeddings. */
#ifndef GOLDEN_KONTEXT_H
#define GOLDEN_KONTEXT_H
#include "golden_calls.h"

static inline bool golden_is_kontext(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.image_u8") &&
           diti_checkpoint_find(folder->golden, "case0.model_in");
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
        p.reference_count = golden_calls_pictures(&p, "case0.in.image_u8", 0);
        golden_pipe_call(&p, call, "case0.in.latents", "case0.step2.latents", "case0.out.image01");
        while (p.reference_count) free((void *)(uintptr_t)p.pictures[--p.reference_count].rgba);
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, call);
}
#endif
