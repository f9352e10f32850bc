/* From latents to pictures: previews on the first share, pictures on all shares of a job together, each a band
   of every picture (vae/band.c), or some of its tiles. */
#include "job/job.h"

static diti_tensor diti_decode_planes(const dit_job *job, diti_graph *graph, diti_tensor latents, uint32_t image) {
    uint32_t channels = job->model->transformer->traits.latent_channels;
    return diti_tensor_view(graph, latents, image * channels, channels, 0,
                            job->request.latent_width * job->request.latent_height);
}

static diti_tensor diti_decode_rows(const dit_job *job, diti_graph *graph, const diti_vae *vae, diti_tensor latent,
                                    const diti_ranks *group) {
    return diti_vae_decode(vae, graph, latent, job->request.latent_height, job->request.latent_width,
                           job->request.shape.vae_tile, group);
}

DIT_INTERNAL bool diti_model_colors(const dit_model *model, diti_colors *out) {
    const diti_latents *latents = &model->transformer->traits.latents;
    const diti_pipeline_class *pipeline = model->pipeline;
    bool clips = model->vae ? diti_vae_get_traits(model->vae)->video : model->transformer->traits.default_frames > 0;
    float scale = pipeline && pipeline->latent_scale > 0 ? pipeline->latent_scale : latents->scale;
    if (model->transformer->traits.pixels_last) return false; /* in another order than those that are published */
    return diti_colors_find(model->transformer->traits.latent_channels, scale, clips, out);
}

/* Colours of the latent's pixels, between which straight lines lead to those of the picture. */
static void diti_decode_emit_colors(diti_share *share, diti_graph *graph, diti_tensor planes) {
    const dit_job *job = share->job;
    uint32_t height = job->request.latent_height, width = job->request.latent_width;
    diti_colors colors;
    diti_tensor rows;
    if (!diti_model_colors(job->model, &colors)) return;
    share->program.preview_colors =
        diti_tensor_input(graph, DITI_F32, colors.channels + 1, DITI_COLOR_COLUMNS, "colors of the latent");
    rows = diti_latent_colors(graph, planes, height, width, colors.patch, share->program.preview_colors);
    diti_enlarge_out(graph, rows, height * colors.patch, width * colors.patch,
                     diti_model_factor(job->model) / colors.patch, share->program.preview, job->request.shape.swap);
}

DIT_INTERNAL dit_result diti_preview_write(diti_share *share, dit_error *err) {
    float table[(DITI_VAE_MAX_CHANNELS + 1) * DITI_COLOR_COLUMNS];
    diti_colors colors;
    uint32_t i;
    if (!share->program.preview_colors || !diti_model_colors(share->job->model, &colors)) return DIT_OK;
    for (i = 0; i <= colors.channels; i++) {
        memcpy(table + (size_t)i * DITI_COLOR_COLUMNS, colors.values + (size_t)i * 3, 3 * sizeof *table);
        table[i * DITI_COLOR_COLUMNS + 3] = 0;
    }
    return diti_plan_write(share->program.plan, share->program.preview_colors, table,
                           (colors.channels + 1) * DITI_COLOR_COLUMNS * sizeof *table, err);
}

/* A preview is the first picture, or the first frame of a clip. */
DIT_INTERNAL void diti_decode_emit_preview(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    const diti_vae *vae = shape->preview == DIT_PREVIEW_TAE && job->model->tae ? job->model->tae : job->model->vae;
    diti_tensor planes = shape->clip ? diti_clip_planes(share, graph, share->program.x0, 0, 1)
                                     : diti_decode_planes(job, graph, share->program.x0, 0);
    diti_tensor rows;
    share->program.preview = diti_tensor_state(graph, DITI_U32, 1, shape->width * shape->height, "preview");
    if (shape->preview == DIT_PREVIEW_PROJ) {
        diti_decode_emit_colors(share, graph, planes);
        return;
    }
    rows = shape->clip && vae == job->model->vae ? diti_clip_emit_first(share, graph)
                                                 : diti_decode_rows(job, graph, vae, planes, NULL);
    diti_image_out(graph, rows, share->program.preview, 0, shape->swap, 0);
}

/* The pixels of a picture that a share makes; 0: none. */
static uint32_t diti_decode_pixels(const dit_job *job, const diti_ranks *group, uint32_t share, uint32_t *first) {
    const diti_job_request *request = &job->request;
    uint32_t lines = diti_vae_lines(job->model->vae, group, share, request->latent_height, request->latent_width,
                                    request->shape.vae_tile, first);
    *first *= request->shape.width;
    return lines * request->shape.width;
}

/* The first share's own pixels come last: who reads the picture waits for that op alone. */
static void diti_decode_emit_picture(const diti_share *share, diti_graph *graph, diti_tensor rgba, diti_tensor rgb,
                                     diti_tensor latent) {
    const dit_job *job = share->job;
    diti_ranks group = diti_decode_group(share);
    diti_tensor rows = diti_decode_rows(job, graph, job->model->vae, latent, &group);
    uint32_t i, first, pixels = diti_decode_pixels(job, &group, share->assignment.share, &first);
    for (i = 1; i < share->assignment.share_total && share->assignment.share == 0; i++) {
        uint32_t other, count = diti_decode_pixels(job, &group, i, &other);
        if (count) diti_decode_receive(graph, rgba, rgb, other, count, i);
    }
    if (!pixels || diti_graph_failed(graph)) return;
    if (share->assignment.share) {
        first = 0;
        rgba = diti_tensor_new(graph, DITI_U32, 1, pixels, "band of a picture");
        rgb = diti_tensor_new(graph, DITI_F32, 3, pixels, "band of a float picture");
    }
    diti_image_out(graph, rows, diti_tensor_view(graph, rgba, 0, 1, first, pixels),
                   diti_tensor_view(graph, rgb, 0, 3, first, pixels), job->request.shape.swap,
                   share->program.health_words);
    if (!share->assignment.share) return;
    diti_send(graph, rgba, 0);
    diti_send(graph, rgb, 0);
}

/* The texels of the pictures' images have a place of their own unless they are rgba. */
static void diti_decode_emit_texels(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    diti_texels kind = job->request.shape.texels;
    uint32_t count = job->request.shape.image_count, pixels = job->request.shape.width * job->request.shape.height,
             words = kind == DITI_TEXELS_GREY ? pixels / 4 : 2 * pixels, image;
    diti_tensor all = kind == DITI_TEXELS_RGBA ? 0 : diti_tensor_state(graph, DITI_U32, count, words, "texels");
    for (image = 0; image < count; image++) {
        share->program.texels[image] =
            all ? diti_tensor_view(graph, all, image, 1, 0, words) : share->program.rgba[image];
        if (all)
            diti_texels_out(graph, share->program.rgb[image], share->program.texels[image], kind == DITI_TEXELS_GREY);
    }
}

DIT_INTERNAL void diti_decode_emit(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    uint32_t count = job->request.shape.image_count, pixels = job->request.shape.width * job->request.shape.height,
             image;
    diti_tensor rgba = 0, rgb = 0;
    if (share->assignment.share == 0) {
        rgba = diti_tensor_state(graph, DITI_U32, count, pixels, "pictures");
        rgb = diti_tensor_state(graph, DITI_F32, 3 * count, pixels, "float pictures");
    }
    for (image = 0; image < count && job->model->vae; image++) {
        if (share->assignment.share == 0) {
            share->program.rgba[image] = diti_tensor_view(graph, rgba, image, 1, 0, pixels);
            share->program.rgb[image] = diti_tensor_view(graph, rgb, 3 * image, 3, 0, pixels);
        }
        share->program.latents[image] = diti_decode_planes(job, graph, share->program.latent, image);
        diti_decode_emit_picture(share, graph, share->program.rgba[image], share->program.rgb[image],
                                 share->program.latents[image]);
    }
    if (share->assignment.share == 0 && job->model->vae) diti_decode_emit_texels(share, graph);
}
