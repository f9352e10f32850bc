/* Frames of clips: the decoder's ops, chunk by chunk, and the copies of what it makes to host memory. */
#include "job/job.h"

/* --- devices that decode together --- */

DIT_INTERNAL diti_ranks diti_decode_group(const diti_share *share) {
    diti_ranks group = DITI_ZERO;
    uint32_t i;
    group.count = share->assignment.share_total;
    group.index = share->assignment.share;
    for (i = 0; i < group.count; i++) {
        group.devices[i] = i;
        group.weights[i] = (float)share->job->request.shape.shares[share->assignment.folded ? i / 2 : i];
    }
    return group;
}

DIT_INTERNAL void diti_decode_receive(diti_graph *graph, diti_tensor rgba, diti_tensor rgb, uint32_t first,
                                      uint32_t pixels, uint32_t share) {
    diti_tensor parts[2];
    parts[0] = diti_tensor_view(graph, rgba, 0, 1, first, pixels);
    if (rgb) parts[1] = diti_tensor_view(graph, rgb, 0, 3, first, pixels);
    diti_receive_several(graph, parts, rgb ? 2 : 1, share);
}

/* --- ops: the decoder, chunk by chunk --- */

/* Rotations of a decoder that is a transformer are inputs: of a clip's chunks, and of a first frame alone. */
static void diti_clip_turns(diti_share *share, diti_graph *graph, diti_vae_clip *clip) {
    uint32_t columns = 0, rows = diti_vae_turns(clip->vae, &clip->latent, clip->tile, &columns, NULL), i;
    diti_tensor *turns = share->program.decode_turns[clip->latent.frames == 1];
    for (i = 0; i < 2 && rows; i++) {
        if (!turns[i]) turns[i] = diti_tensor_input(graph, DITI_F32, rows, columns, "rotations in the decoder");
        clip->turns[i] = turns[i];
    }
}

/* The decoder of so many frames; false: the graph has failed. A timestep and noise, where it takes them, are inputs
   that previews and the clip share. */
static bool diti_clip_decoder(diti_share *share, diti_graph *graph, uint32_t frames, diti_vae_clip *clip) {
    const diti_job_request *request = &share->job->request;
    const diti_vae *vae = share->job->model->vae;
    diti_program *program = &share->program;
    diti_video size = {frames, request->shape.height, request->shape.width};
    uint32_t rows = (uint32_t)diti_request_plane(request) * request->shape.image_count;
    if (!diti_vae_clip_begin(clip, vae, graph, false, &size, request->shape.vae_tile, 0)) return false;
    diti_clip_turns(share, graph, clip);
    if (!diti_vae_get_traits(vae)->timed) return true;
    if (!program->decode_timestep) {
        diti_video latent = {request->shape.latent_frames, request->latent_height, request->latent_width};
        uint32_t plane, count, values = 0;
        for (plane = 0; (count = diti_vae_noise_plane(vae, &latent, plane)) != 0; plane++) values += count;
        program->decode_timestep = diti_tensor_input(graph, DITI_F32, 1, DITI_VAE_TIMESTEP, "timestep of the decoder");
        program->decode_noise = diti_tensor_input(graph, DITI_F32, rows, diti_vae_get_traits(vae)->latent_channels,
                                                  "noise before the decoder");
        program->plane_noise = values ? diti_tensor_input(graph, DITI_F32, values, 1, "noise in the decoder") : 0;
    }
    clip->timestep = program->decode_timestep;
    clip->noise = program->plane_noise;
    return !diti_graph_failed(graph);
}

/* Rows of a clip's latents as its decoder reads them, those of `image` from planes; with noise where it is told how
   much there is. */
static diti_tensor diti_clip_rows(diti_share *share, diti_graph *graph, const diti_vae_clip *clip, diti_tensor planes,
                                  uint32_t image) {
    const diti_vae_traits *traits = diti_vae_get_traits(clip->vae);
    diti_tensor rows = diti_vae_clip_latents(clip, planes);
    diti_elementwise_desc mix = DITI_ZERO;
    if (!traits->timed || diti_graph_failed(graph)) return rows;
    mix.scale = 1 - traits->decode_noise;
    mix.add =
        diti_tensor_view(graph, share->program.decode_noise, image * (uint32_t)diti_request_plane(&share->job->request),
                         diti_tensor_rows(graph, rows), 0, traits->latent_channels);
    mix.rows_per_add = 1;
    mix.out_f32 = true;
    mix.name = "noise before the decoder";
    return diti_elementwise(graph, rows, &mix);
}

static dit_result diti_clip_write_turns(diti_share *share, bool alone, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    const diti_env *env = &share->job->env;
    const diti_tensor *turns = share->program.decode_turns[alone];
    diti_video latent = {alone ? 1 : diti_shape_pictures(&request->shape), request->latent_height,
                         request->latent_width};
    uint32_t columns, rows;
    size_t count;
    float *table;
    dit_result result;
    if (!turns[0]) return DIT_OK;
    rows = diti_vae_turns(share->job->model->vae, &latent, request->shape.vae_tile, &columns, NULL);
    count = (size_t)rows * columns;
    table = (float *)diti_alloc_array(env, 2 * count, sizeof *table);
    if (!table) return diti_fail_memory(err, "the rotations in the decoder");
    diti_vae_turns(share->job->model->vae, &latent, request->shape.vae_tile, &columns, table);
    result = diti_plan_write(share->program.plan, turns[0], table, count * sizeof *table, err);
    if (result >= 0) result = diti_plan_write(share->program.plan, turns[1], table + count, count * sizeof *table, err);
    diti_free(env, table);
    return result;
}

DIT_INTERNAL dit_result diti_clip_write(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    const diti_program *program = &share->program;
    const diti_vae *vae = share->job->model->vae;
    float sinusoids[DITI_VAE_TIMESTEP];
    DITI_TRY(diti_clip_write_turns(share, false, err));
    DITI_TRY(diti_clip_write_turns(share, true, err));
    if (!program->decode_timestep) return DIT_OK;
    diti_vae_clip_timestep(vae, diti_vae_get_traits(vae)->decode_timestep, sinusoids);
    DITI_TRY(diti_plan_write(program->plan, program->decode_timestep, sinusoids, sizeof sinusoids, err));
    DITI_TRY(diti_plan_write(program->plan, program->decode_noise, request->decode_noise,
                             diti_job_latent_values(share->job) * sizeof(float), err));
    if (!program->plane_noise) return DIT_OK;
    return diti_plan_write(program->plan, program->plane_noise, request->plane_noise,
                           request->plane_values * sizeof(float), err);
}

DIT_INTERNAL diti_tensor diti_clip_planes(const diti_share *share, diti_graph *graph, diti_tensor latents,
                                          uint32_t image, uint32_t frames) {
    const diti_job_request *request = &share->job->request;
    uint32_t channels = share->job->model->transformer->traits.latent_channels,
             area = request->latent_width * request->latent_height;
    return diti_tensor_view(graph, latents, image * channels, channels, request->shape.extra_frames * area,
                            frames * area);
}

DIT_INTERNAL diti_tensor diti_clip_emit_first(diti_share *share, diti_graph *graph) {
    diti_vae_clip clip;
    diti_tensor rows;
    if (!diti_clip_decoder(share, graph, 1, &clip)) return 0;
    rows = diti_clip_rows(share, graph, &clip, diti_clip_planes(share, graph, share->program.x0, 0, 1), 0);
    return diti_vae_clip_all(&clip, rows);
}

/* The list of chunks, and how large they are at most. */
static void diti_clip_list_chunks(diti_share *share, diti_graph *graph, const diti_vae_clip *clip, uint32_t *frames,
                                  uint32_t *out_frames) {
    diti_program *program = &share->program;
    diti_vae_chunk chunk;
    uint32_t i;
    *frames = *out_frames = 0;
    for (program->chunk_count = 0; diti_vae_clip_chunk(clip, program->chunk_count, &chunk);) program->chunk_count++;
    diti_free(&share->job->env, program->chunks);
    program->chunks =
        (diti_vae_chunk *)diti_alloc_array(&share->job->env, program->chunk_count, sizeof *program->chunks);
    if (!program->chunks) {
        diti_graph_fail_memory(graph, "the chunks of a clip");
        return;
    }
    for (i = 0; i < program->chunk_count; i++) {
        diti_vae_clip_chunk(clip, i, &program->chunks[i]);
        if (program->chunks[i].frames > *frames) *frames = program->chunks[i].frames;
        if (program->chunks[i].out_frames > *out_frames) *out_frames = program->chunks[i].out_frames;
    }
}

/* The texels of a chunk's pixels, where they are not its bytes. */
static void diti_clip_emit_texels(diti_share *share, diti_graph *graph, uint32_t pixels) {
    const diti_job_shape *shape = &share->job->request.shape;
    diti_program *program = &share->program;
    uint32_t words = shape->texels == DITI_TEXELS_GREY ? pixels / 4 : 2 * pixels;
    if (shape->texels == DITI_TEXELS_RGBA) return;
    diti_texels_out(graph, diti_tensor_view(graph, program->rgb[0], 0, 3, 0, pixels),
                    diti_tensor_view(graph, program->texels[0], 0, 1, 0, words), shape->texels == DITI_TEXELS_GREY);
}

/* A chunk's frames, as bytes and, where somebody wants them, as floats and as texels. */
static void diti_clip_emit_frames(diti_share *share, diti_graph *graph, diti_tensor rows, uint32_t frames) {
    const diti_job_shape *shape = &share->job->request.shape;
    diti_program *program = &share->program;
    uint32_t pixels = frames * shape->width * shape->height;
    diti_image_out(graph, rows, diti_tensor_view(graph, program->rgba[0], 0, 1, 0, pixels),
                   program->rgb[0] ? diti_tensor_view(graph, program->rgb[0], 0, 3, 0, pixels) : 0, shape->swap,
                   program->health_words);
    diti_clip_emit_texels(share, graph, pixels);
}

static void diti_clip_emit_states(diti_share *share, diti_graph *graph, uint32_t frames, uint32_t out_frames) {
    const diti_job_request *request = &share->job->request;
    const diti_job_shape *shape = &request->shape;
    diti_program *program = &share->program;
    uint32_t channels = share->job->model->transformer->traits.latent_channels, pixels = shape->width * shape->height,
             area = request->latent_width * request->latent_height, latents = diti_shape_pictures(shape);
    program->clip_latents =
        diti_tensor_state(graph, DITI_F32, shape->image_count * latents * area, channels, "latents of clips");
    program->chunk_latent = diti_tensor_state(graph, DITI_F32, frames * area, channels, "latent of a chunk");
    program->rgba[0] = program->texels[0] = diti_tensor_state(graph, DITI_U32, 1, out_frames * pixels, "frames");
    if (shape->float_frames || shape->texels != DITI_TEXELS_RGBA)
        program->rgb[0] = diti_tensor_state(graph, DITI_F32, 3, out_frames * pixels, "float frames");
    if (shape->texels != DITI_TEXELS_RGBA)
        program->texels[0] = diti_tensor_state(
            graph, DITI_U32, 1, shape->texels == DITI_TEXELS_GREY ? out_frames * pixels / 4 : 2 * out_frames * pixels,
            "texels of frames");
}

/* Devices divide a chunk: its frames where the autoencoder takes them one by one, else its tiles, or the lines of each
   frame. */
DIT_INTERNAL bool diti_clip_is_divided(const diti_share *share) {
    const dit_job *job = share->job;
    return share->assignment.share_total > 1 &&
           (job->request.shape.frames > 1 || !diti_vae_is_of_pictures(job->model->vae));
}

/* Rows of the latents that a member reads. */
static diti_tensor diti_clip_cut(const diti_share *share, diti_graph *graph, const diti_vae_chunk *chunk,
                                 const diti_vae_portion *portion) {
    const diti_job_request *request = &share->job->request;
    uint32_t channels = share->job->model->transformer->traits.latent_channels,
             rows = chunk->frames * request->latent_height * request->latent_width;
    diti_place_desc cut = DITI_ZERO;
    cut.from.frames = chunk->frames;
    cut.from.height = request->latent_height;
    cut.from.width = request->latent_width;
    cut.to = cut.from;
    cut.to.frames = portion->frames;
    cut.to.height = portion->lines;
    cut.part = cut.to;
    cut.first = portion->first;
    cut.from_y = portion->line;
    cut.out = diti_tensor_new(graph, DITI_F32, portion->frames * portion->lines * cut.to.width, channels,
                              "latents to decode");
    if (!share->assignment.share)
        diti_place_frames(graph, diti_tensor_view(graph, share->program.chunk_latent, 0, rows, 0, channels), &cut);
    return cut.out;
}

/* The latents that a share reads, which the first one sends to the others. */
static diti_tensor diti_clip_hand_out(const diti_share *share, diti_graph *graph, const diti_vae_clip *clip,
                                      const diti_vae_chunk *chunk) {
    uint32_t self = share->assignment.share, i;
    diti_vae_portion portion;
    diti_tensor part;
    for (i = 1; i < clip->group.count && !self && !diti_graph_failed(graph); i++) {
        portion = diti_vae_clip_portion(clip, chunk, i, false);
        if (portion.frames) diti_send(graph, diti_clip_cut(share, graph, chunk, &portion), i);
    }
    portion = diti_vae_clip_portion(clip, chunk, self, false);
    if (!portion.frames || diti_graph_failed(graph)) return 0;
    part = diti_clip_cut(share, graph, chunk, &portion);
    if (self) diti_receive(graph, part, 0);
    return part;
}

/* Pixels of a frame that is member's, as all pixels of the chunk number them. */
static uint32_t diti_clip_pixel(const diti_share *share, const diti_vae_portion *made, uint32_t frame) {
    const diti_job_shape *shape = &share->job->request.shape;
    return ((made->first + frame) * shape->height + made->line) * shape->width;
}

/* Runs of pixels that a member makes: its frames where they are whole, else its lines of each frame. */
static uint32_t diti_clip_runs(const diti_share *share, const diti_vae_portion *made, uint32_t *pixels) {
    const diti_job_shape *shape = &share->job->request.shape;
    bool whole = made->lines == shape->height;
    *pixels = (whole ? made->frames : 1) * made->lines * shape->width;
    return whole && made->frames ? 1 : made->frames;
}

/* A share's part of a chunk. All others' come to the first one, whose own comes last, so that who reads the frames
   waits for them all. */
static void diti_clip_emit_share(diti_share *share, diti_graph *graph, diti_vae_clip *clip,
                                 const diti_vae_chunk *chunk) {
    const diti_job_shape *shape = &share->job->request.shape;
    diti_program *program = &share->program;
    uint32_t all = chunk->out_frames * shape->width * shape->height, self = share->assignment.share, i, k, runs, pixels;
    bool floats = shape->float_frames || shape->texels != DITI_TEXELS_RGBA;
    diti_tensor rows = diti_vae_clip_run(clip, chunk, diti_clip_hand_out(share, graph, clip, chunk)), rgba, rgb = 0;
    diti_vae_portion made;
    for (i = 1; i < clip->group.count && !self; i++) {
        made = diti_vae_clip_portion(clip, chunk, i, true);
        runs = diti_clip_runs(share, &made, &pixels);
        for (k = 0; k < runs && !diti_graph_failed(graph); k++)
            diti_decode_receive(graph, program->rgba[0], floats ? program->rgb[0] : 0, diti_clip_pixel(share, &made, k),
                                pixels, i);
    }
    made = diti_vae_clip_portion(clip, chunk, self, true);
    runs = diti_clip_runs(share, &made, &pixels);
    for (k = 0; k < runs && !diti_graph_failed(graph); k++) {
        diti_tensor part = diti_tensor_view(graph, rows, k * pixels, pixels, 0, 3);
        uint32_t first = diti_clip_pixel(share, &made, k);
        rgba = self ? diti_tensor_new(graph, DITI_U32, 1, pixels, "pixels of frames")
                    : diti_tensor_view(graph, program->rgba[0], 0, 1, first, pixels);
        if (floats)
            rgb = self ? diti_tensor_new(graph, DITI_F32, 3, pixels, "pixels of float frames")
                       : diti_tensor_view(graph, program->rgb[0], 0, 3, first, pixels);
        diti_image_out(graph, part, rgba, rgb, shape->swap, program->health_words);
        if (!self) continue;
        diti_send(graph, rgba, 0);
        if (floats) diti_send(graph, rgb, 0);
    }
    if (!self) diti_clip_emit_texels(share, graph, all);
}

/* The sound of a clip, whose tokens stand in the latent behind the frames of pictures. */
static void diti_clip_emit_sound(diti_share *share, diti_graph *graph, uint32_t image) {
    const dit_model *model = share->job->model;
    const diti_job_request *request = &share->job->request;
    const diti_job_shape *shape = &request->shape;
    uint32_t channels = model->transformer->traits.latent_channels,
             area = request->latent_width * request->latent_height;
    diti_element activation = graph->activation;
    const diti_model_traits *own = &model->transformer->traits;
    diti_sound_traits traits;
    diti_patches patches = DITI_ZERO;
    diti_tensor tokens = diti_tensor_view(graph, share->program.latent, image * channels, channels,
                                          (shape->latent_frames - shape->sound_frames) * area,
                                          own->sound_columns ? shape->sound_frames * area : shape->sound_tokens);
    diti_sound_traits_of(model->spectrogram, model->vocoder, &traits);
    share->program.sounds[image] =
        diti_tensor_state(graph, DITI_F32, shape->sound_samples, traits.channels, "sound of a clip");
    graph->activation = DITI_F32;
    if (own->sound_columns) { /* a token is the first columns of a patch */
        patches.batch = 1;
        patches.channels = channels;
        patches.frames = shape->sound_frames;
        patches.height = request->latent_height;
        patches.width = request->latent_width;
        patches.patch = own->patch;
        tokens = diti_tensor_view(graph, diti_patchify(graph, tokens, &patches, 0), 0, shape->sound_tokens, 0,
                                  own->sound_columns);
    } else {
        tokens = diti_planar_to_rows(graph, tokens, 1, channels, 1, 0);
    }
    graph->activation = activation;
    if (diti_graph_failed(graph)) return;
    diti_sound_decode(model->spectrogram, model->vocoder, graph, tokens, 0, share->program.sounds[image]);
}

/* Behind the segment "decode", which makes rows of the latents, a segment for each kind of chunk, in the order in which
   a run first comes to them. */
DIT_INTERNAL void diti_clip_emit(diti_share *share, diti_graph *graph) {
    const diti_job_request *request = &share->job->request;
    diti_program *program = &share->program;
    uint32_t channels = share->job->model->transformer->traits.latent_channels, i, frames, out_frames,
             area = request->latent_width * request->latent_height, latents = diti_shape_pictures(&request->shape);
    diti_vae_clip clip;
    diti_tensor planes;
    bool divided = share->job->model->vae && diti_clip_is_divided(share), takes_part = true;
    program->chunk_count = 0;
    if ((share->assignment.share && !divided) || !share->job->model->vae || diti_graph_failed(graph)) {
        diti_guard_judge(graph);
        return;
    }
    if (!diti_clip_decoder(share, graph, request->shape.frames, &clip)) return;
    if (divided) {
        diti_ranks group = diti_decode_group(share);
        takes_part = diti_vae_clip_divide(&clip, &group);
    }
    diti_clip_list_chunks(share, graph, &clip, &frames, &out_frames);
    if (!share->assignment.share) diti_clip_emit_states(share, graph, frames, out_frames);
    for (i = 0; i < request->shape.image_count && !share->assignment.share && !diti_graph_failed(graph); i++) {
        program->latents[i] =
            diti_tensor_view(graph, program->latent, i * channels, channels, 0, (uint32_t)diti_request_plane(request));
        planes = diti_clip_planes(share, graph, program->latent, i, latents);
        if (request->shape.fixes && share->job->model->transformer->traits.evens_first)
            planes = diti_even_first(graph, planes, area);
        diti_copy(graph, diti_clip_rows(share, graph, &clip, planes, i),
                  diti_tensor_view(graph, program->clip_latents, i * latents * area, latents * area, 0, channels),
                  "latents of a clip");
    }
    for (i = 0; i < request->shape.image_count && !share->assignment.share && request->shape.sound_samples; i++)
        diti_clip_emit_sound(share, graph, i);
    diti_guard_judge(graph);
    graph->guard_apart = !divided;
    for (i = 0; i < DITI_VAE_CHUNK_KINDS; i++) program->chunk_segments[i] = UINT32_MAX;
    for (i = 0; i < program->chunk_count && !diti_graph_failed(graph); i++) {
        const diti_vae_chunk *chunk = &program->chunks[i];
        diti_tensor rows;
        if (program->chunk_segments[chunk->kind] != UINT32_MAX) continue;
        program->chunk_segments[chunk->kind] = program->last_segment = diti_graph_segment(graph, "decode", true);
        if (divided) {
            if (takes_part) diti_clip_emit_share(share, graph, &clip, chunk);
            diti_guard_judge(graph);
            continue;
        }
        rows = diti_tensor_view(graph, program->chunk_latent, 0, chunk->frames * area, 0, channels);
        rows = diti_vae_clip_run(&clip, chunk, rows);
        if (diti_graph_failed(graph)) return;
        diti_clip_emit_frames(share, graph, rows, chunk->out_frames);
        diti_guard_judge(graph);
    }
}

/* --- the order of chunks --- */

DIT_INTERNAL uint32_t diti_clip_segment(const diti_share *share, uint32_t chunk) {
    const diti_program *program = &share->program;
    if (chunk >= program->chunk_count * share->job->request.shape.image_count) return program->last_segment + 1;
    return program->chunk_segments[program->chunks[chunk % program->chunk_count].kind];
}

/* --- copies beside the plan's ops --- */

static void diti_clip_barrier(const dit_job *job, VkCommandBuffer commands, VkPipelineStageFlags from,
                              VkAccessFlags wrote, VkPipelineStageFlags to, VkAccessFlags touches) {
    VkMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = wrote;
    barrier.dstAccessMask = touches;
    job->shares[0]->device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

DIT_INTERNAL void diti_clip_record_input(const dit_job *job, VkCommandBuffer commands, uint32_t index) {
    const diti_share *first = job->shares[0];
    const diti_program *program = &first->program;
    const diti_vae_chunk *chunk = &program->chunks[index % program->chunk_count];
    const diti_tensor_info *all = &program->plan->tensors[program->clip_latents];
    uint32_t rows = all->rows / job->request.shape.image_count,
             area = job->request.latent_width * job->request.latent_height;
    VkDeviceSize size, pitch = (VkDeviceSize)all->pitch * sizeof(float), at;
    VkBuffer from, to;
    VkBufferCopy copy;
    from = diti_plan_buffer(program->plan, program->clip_latents, &copy.srcOffset, &size);
    to = diti_plan_buffer(program->plan, program->chunk_latent, &copy.dstOffset, &size);
    at = (VkDeviceSize)(index / program->chunk_count) * rows + (VkDeviceSize)chunk->first * area;
    copy.srcOffset += at * pitch;
    copy.size = (VkDeviceSize)chunk->frames * area * pitch;
    diti_clip_barrier(job, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                      VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    first->device->vk.CmdCopyBuffer(commands, from, to, 1, &copy);
    diti_clip_barrier(job, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT);
}

static VkDeviceSize diti_clip_pixels(const dit_job *job) {
    return (VkDeviceSize)job->request.shape.width * job->request.shape.height;
}

/* Planes of all frames of the chunk become three planes of each frame. */
static void diti_clip_record_floats(const dit_job *job, VkCommandBuffer commands, const diti_vae_chunk *chunk,
                                    uint32_t place) {
    const diti_share *first = job->shares[0];
    const diti_tensor_info *rgb = &first->program.plan->tensors[first->program.rgb[0]];
    VkDeviceSize size, offset, pixels = diti_clip_pixels(job);
    VkBuffer from = diti_plan_buffer(first->program.plan, first->program.rgb[0], &offset, &size);
    uint32_t frame, c;
    for (frame = 0; frame < chunk->out_frames; frame++) {
        for (c = 0; c < 3; c++) {
            VkBufferCopy copy;
            copy.srcOffset = offset + ((VkDeviceSize)c * rgb->pitch + frame * pixels) * sizeof(float);
            copy.dstOffset = ((VkDeviceSize)(place + frame) * 3 + c) * pixels * sizeof(float);
            copy.size = pixels * sizeof(float);
            first->device->vk.CmdCopyBuffer(commands, from, job->float_frames.buffer, 1, &copy);
        }
    }
}

DIT_INTERNAL void diti_clip_record_output(const dit_job *job, VkCommandBuffer commands, uint32_t index) {
    const diti_share *first = job->shares[0];
    const diti_program *program = &first->program;
    const diti_vae_chunk *chunk = &program->chunks[index % program->chunk_count];
    uint32_t place = index / program->chunk_count * job->request.shape.frames + chunk->out_first, frame;
    VkDeviceSize size, pixels = diti_clip_pixels(job);
    VkBufferCopy copy;
    VkBuffer from = diti_plan_buffer(program->plan, program->rgba[0], &copy.srcOffset, &size);
    copy.dstOffset = place * pixels * 4;
    copy.size = chunk->out_frames * pixels * 4;
    diti_clip_barrier(job, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                      VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    first->device->vk.CmdCopyBuffer(commands, from, job->frames.buffer, 1, &copy);
    if (job->request.shape.float_frames) diti_clip_record_floats(job, commands, chunk, place);
    for (frame = 0; frame < chunk->out_frames && diti_image_count(job); frame++)
        diti_image_record_frame(job, commands, index / program->chunk_count, frame, chunk->out_first + frame);
    diti_clip_barrier(job, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                      VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                      VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

/* --- frames in host memory --- */

DIT_INTERNAL const uint8_t *diti_clip_bytes(const dit_job *job, uint32_t image, uint32_t frame) {
    diti_buffer_invalidate(job->shares[0]->device, &job->frames);
    return (const uint8_t *)job->frames.block.mapped +
           (size_t)(image * job->request.shape.frames + frame) * (size_t)diti_clip_pixels(job) * 4;
}

DIT_INTERNAL const float *diti_clip_floats(const dit_job *job, uint32_t image, uint32_t frame) {
    diti_buffer_invalidate(job->shares[0]->device, &job->float_frames);
    return (const float *)job->float_frames.block.mapped +
           (size_t)(image * job->request.shape.frames + frame) * (size_t)diti_clip_pixels(job) * 3;
}

/* The end of the clip that the job has made before, as rows in -1..1, for the request that continues it. */
DIT_INTERNAL dit_result diti_clip_keep_end(const dit_job *job, diti_job_request *request, dit_error *err) {
    const diti_given *given = request->shape.given;
    size_t pixels = (size_t)diti_clip_pixels(job), i;
    uint32_t frame, c;
    float *to;
    for (i = 0; i < request->shape.given_count && !given->continues; i++) given++;
    if (i == request->shape.given_count) return DIT_OK;
    to = request->previous = (float *)diti_alloc_array(&job->env, given->frames * pixels, 3 * sizeof(float));
    if (!to) return diti_fail_memory(err, "the end of the clip before");
    for (frame = 0; frame < given->frames; frame++, to += 3 * pixels) {
        const float *from = diti_clip_floats(job, 0, given->skipped_frames + frame);
        for (i = 0; i < pixels; i++)
            for (c = 0; c < 3; c++) to[3 * i + c] = 2 * from[c * pixels + i] - 1;
    }
    return DIT_OK;
}
