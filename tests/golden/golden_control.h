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

/* --- what the blocks of a net add in the first step --- */

/* The first step's evaluation of a net: its inputs, recorded or of the pipeline beside it, items of them. */
static inline void golden_control_inputs(golden_case *c, const diti_transformer *net, const diti_checkpoint *texts,
                                         uint32_t items) {
    static const char *const names[2][2] = {{"negative_prompt_embeds", "negative_pooled"}, {"prompt_embeds", "pooled"}};
    const diti_model_traits *traits = &net->traits;
    diti_step_desc *d = &c->step;
    uint64_t count, width;
    uint32_t i, k, plane, size = traits->latent_channels * 96;
    float *values[2] = {NULL, NULL}, *sigmas, *latent, *picture;
    d->batch = d->steps = 1;
    d->branches = d->text_batch = items;
    d->height = 8;
    d->width = 12;
    d->guidance = 3.5f;
    for (k = 0; k < 2; k++)
        for (i = 0; i < items; i++) {
            float *one = golden_floats(texts, names[items == 1 ? 1 : i][k], &count);
            values[k] = (float *)realloc(values[k], (i + 1) * (size_t)count * sizeof(float));
            memcpy(values[k] + i * count, one, (size_t)count * sizeof(float));
            free(one);
            if (!k) d->text_tokens = (uint32_t)count / traits->text_columns;
        }
    d->text = golden_give(&c->m, DITI_F32, items * d->text_tokens, traits->text_columns, values[0]);
    d->pooled = golden_give(&c->m, DITI_F32, items, traits->pooled_columns, values[1]);
    latent = golden_floats(c->m.folder->golden, "case0.in.latents", &count);
    picture = golden_floats(c->m.folder->golden, "case0.controlnet_cond", &width);
    if (!golden_control_sd3(c->m.folder)) {
        latent = golden_pipe_unpack(latent, count, d->height, d->width, 2);
        picture = golden_pipe_unpack(picture, width, d->height, d->width, 2);
    }
    plane = size / traits->latent_channels;
    d->latent = golden_give(&c->m, DITI_F32, traits->latent_channels, plane, latent);
    d->control = golden_give(&c->m, DITI_F32, traits->latent_channels, plane, picture);
    d->row = golden_give_u32(&c->m, 0);
    sigmas = golden_floats(c->m.folder->golden, "case0.sigmas", &count);
    c->timestep = sigmas[0] * 1000;
    free(sigmas);
}

static inline void golden_control_net(golden *g, const golden_folder *folder, const diti_transformer *net,
                                      const diti_checkpoint *texts) {
    golden_case c = DITI_ZERO;
    diti_control_use use = DITI_ZERO;
    uint32_t i, width = net->traits.width, doubles = net->traits.layers - net->traits.single_layers;
    float *scales = (float *)malloc(width * sizeof *scales);
    golden_graph_begin(&c.m, g, folder);
    golden_control_inputs(&c, net, texts, golden_control_sd3(folder) ? 2 : 1);
    for (i = 0; i < width; i++) scales[i] = 0.7f;
    use.step = &c.step;
    use.model = net;
    use.scales = golden_give(&c.m, DITI_F32, 1, width, scales);
    diti_transformer_prepare(net, &c.m.graph, &c.step);
    diti_graph_segment(&c.m.graph, "step", true);
    diti_control_begin(&c.m.graph, &c.step, &use);
    use.x = diti_transformer_embed(net, &c.m.graph, &c.step);
    for (i = 0; i < net->traits.layers && !diti_graph_failed(&c.m.graph); i++) {
        diti_pass p = diti_pass_make(net, &c.m.graph, &c.step);
        char name[48];
        use.x = diti_transformer_block(net, &c.m.graph, &c.step, i, use.x);
        use.done = i + 1;
        diti_control_make(&p, &use);
        diti_format(name, sizeof name, i < doubles ? "call0.block_samples.%u" : "call0.single_block_samples.%u",
                    (unsigned)(i < doubles ? i : i - doubles));
        golden_case_expect(&c, name, use.added, GOLDEN_BLOCK);
    }
    golden_case_run(&c, net);
}

static inline void golden_control_blocks(golden *g, const golden_folder *folder, const char *base) {
    char path[2][1100];
    diti_checkpoint *files[2], *texts = golden_open_checkpoint(&g->env, base, "golden.safetensors");
    diti_json *configs[2];
    diti_transformer *model = NULL, *net = NULL;
    diti_load_options options = DITI_ZERO;
    dit_error err = DITI_ZERO;
    int i;
    diti_format(path[0], sizeof path[0], "%s/transformer", base);
    diti_format(path[1], sizeof path[1], "%s/controlnet", folder->path);
    for (i = 0; i < 2; i++) {
        files[i] = golden_open_checkpoint(&g->env, path[i], "diffusion_pytorch_model.safetensors");
        configs[i] = golden_open_json(&g->env, path[i], "config.json");
    }
    if (golden_require(g, texts && files[0] && files[1] && configs[0] && configs[1], "%s and %s are whole", base,
                       folder->path) &&
        golden_open_device(g) &&
        golden_require(g,
                       diti_transformer_load(golden_shared.device, &g->env, configs[0], files[0], "", NULL, &model,
                                             &err) == DIT_OK &&
                           diti_control_load(model, golden_shared.device, &g->env, configs[1], files[1], "", &options,
                                             &net, &err) == DIT_OK,
                       "loads %s", err.message))
        golden_control_net(g, folder, net, texts);
    diti_transformer_destroy(net);
    diti_transformer_destroy(model);
    for (i = 0; i < 2; i++) {
        diti_checkpoint_close(files[i]);
        diti_json_free(&g->env, configs[i]);
    }
    diti_checkpoint_close(texts);
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
    if (net) golden_control_blocks(g, folder, base);
    if (golden_pipe_open_with(&p, g, folder, base, &component)) golden_control_call(&p, base);
    golden_pipe_close(&p);
}
#endif
