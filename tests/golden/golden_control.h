/* Pictures that steer a picture: FLUX.1 Fill, Canny and Depth, control nets of FLUX.1 and SD3, on the pipeline that
   stands beside the folder and with its recorded embeddings. */
#ifndef GOLDEN_CONTROL_H
#define GOLDEN_CONTROL_H
#include "golden_calls.h"

static inline bool golden_is_control(const golden_folder *folder) {
    return folder->golden && (diti_checkpoint_find(folder->golden, "case0.in.control_u8") ||
                              diti_checkpoint_find(folder->golden, "case0.in.mask_u8"));
}

static inline bool golden_control_sd3(const golden_folder *folder) { return diti_starts_with(folder->name, "sd3"); }

/* The recorded embeddings of the pipeline, by the names that jobs have for them. */
static inline void golden_control_texts(golden_pipe *p, const diti_checkpoint *golden) {
    static const char *const names[][2] = {{"prompt_embeds", "prompt_embeds"},
                                           {"pooled", "pooled_prompt_embeds"},
                                           {"negative_prompt_embeds", "negative_prompt_embeds"},
                                           {"negative_pooled", "negative_pooled_prompt_embeds"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(names); i++) {
        const diti_stored_tensor *stored = diti_checkpoint_find(golden, names[i][0]);
        dit_tensor *text = &p->texts[p->text_count];
        uint64_t count;
        if (!stored) continue;
        text->name = names[i][1];
        text->type = DIT_TYPE_F32;
        text->rank = stored->rank;
        memcpy(text->shape, stored->shape, sizeof text->shape);
        text->data = golden_floats(golden, names[i][0], &count);
        p->text_count++;
    }
}

static inline void golden_control_call(golden_pipe *p, const char *base) {
    char arguments[160];
    dit_image pictures[3] = DITI_ZERO;
    diti_checkpoint *golden = golden_open_checkpoint(&p->g->env, base, "golden.safetensors");
    diti_json *call = NULL;
    float guidance = golden_control_sd3(p->folder) ? 5.0f : 3.5f;
    size_t i;
    if (diti_equal(p->folder->name, "flux_control")) guidance = 10;
    if (diti_equal(p->folder->name, "flux_fill")) guidance = 30;
    diti_format(arguments, sizeof arguments,
                "{\"width\": 96, \"height\": 64, \"num_inference_steps\": 3, \"guidance_scale\": %g}",
                (double)guidance);
    golden_control_texts(p, golden);
    if (p->text_count) golden_calls_crop(p->model, (uint32_t)p->texts[0].shape[1]);
    if (golden_picture(p->folder, "case0.in.image_u8", &pictures[0])) p->init = &pictures[0];
    if (golden_picture(p->folder, "case0.in.mask_u8", &pictures[1])) p->mask = &pictures[1];
    if (golden_picture(p->folder, "case0.in.control_u8", &pictures[2])) p->control = &pictures[2];
    if (p->model->info.control_count) { /* as the call had them */
        p->adapter.image = pictures[2];
        p->adapter.weight = 0.7f;
        if (!golden_control_sd3(p->folder)) p->adapter.last = 0.7f;
        p->control = NULL;
    }
    if (golden_require(p->g,
                       diti_json_parse(&p->g->env, arguments, strlen(arguments), "arguments", &call, NULL) == DIT_OK,
                       "arguments"))
        golden_pipe_call(p, call, "case0.in.latents", "case0.step2.latents", "case0.out.image01");
    diti_json_free(&p->g->env, call);
    for (i = 0; i < DITI_COUNT(pictures); i++) free((void *)(uintptr_t)pictures[i].rgba);
    for (i = 0; i < p->text_count; i++) free((void *)(uintptr_t)p->texts[i].data);
    diti_checkpoint_close(golden);
}

static inline void golden_run_control(golden *g, const golden_folder *folder) {
    golden_pipe p = DITI_ZERO;
    dit_component component = DITI_ZERO;
    char base[1024], part[1024];
    bool net = golden_has(folder->path, "controlnet/config.json");
    diti_format(base, sizeof base, "%.*s%s", (int)(strlen(folder->path) - strlen(folder->name)), folder->path,
                golden_control_sd3(folder) ? "pipe_sd3" : "pipe_flux");
    diti_format(part, sizeof part, "%s/%s", folder->path, net ? "controlnet" : "transformer");
    component.source.path = part;
    component.role = net ? DIT_ROLE_CONTROL : DIT_ROLE_TRANSFORMER;
    if (golden_pipe_open_with(&p, g, folder, base, &component)) golden_control_call(&p, base);
    golden_pipe_close(&p);
}
#endif
