/* The end of loading: all blocks get their memory, and what was asked for is read into them piece by piece. */
#include "weights/lora.h"

typedef struct diti_upload_run {
    diti_loader *loader;
    diti_stage *stage; /* where device memory is not mapped */
    uint64_t most;     /* bytes at a time */
    uint64_t done;
} diti_upload_run;

static dit_result diti_upload_progress(diti_upload_run *run, uint64_t bytes) {
    diti_loader *loader = run->loader;
    run->done += bytes;
    if (!loader->progress) return DIT_OK;
    if (loader->progress->func(loader->what, run->done, loader->weights.bytes, loader->progress->user)) return DIT_OK;
    return diti_fail(&loader->error, DIT_CANCELLED, "loading of the %s was cancelled", loader->what);
}

/* One piece: straight into mapped memory, else by way of the stage. */
static dit_result diti_upload_one(diti_upload_run *run, const diti_upload *upload, uint64_t done, uint64_t size) {
    diti_loader *loader = run->loader;
    diti_buffer *buffer = &upload->block->buffer;
    VkDeviceSize target = upload->target + done;
    void *out = buffer->block.mapped ? (unsigned char *)buffer->block.mapped + target : NULL;
    dit_result result = out ? DIT_OK : diti_stage_room(run->stage, size, true, &out, &loader->error);
    if (result == DIT_OK && upload->halves)
        result = diti_upload_read_halves(loader->env, loader->checkpoint, upload, done, size, (uint16_t *)out,
                                         loader->wide, &loader->error);
    else if (result == DIT_OK)
        result = diti_upload_read(loader->env, loader->checkpoint, upload, done, size, out, &loader->error);
    if (result == DIT_OK && !buffer->block.mapped) diti_stage_put(run->stage, buffer->buffer, target, size);
    return result;
}

static dit_result diti_upload_all(diti_upload_run *run, const diti_upload *upload) {
    uint64_t done, size, all = diti_upload_bytes(upload);
    dit_result result = DIT_OK;
    for (done = 0; done < all && result == DIT_OK; done += size) {
        size = diti_upload_piece(upload, done, run->most);
        result = diti_upload_one(run, upload, done, size);
        if (result == DIT_OK) result = diti_upload_progress(run, size);
    }
    return result;
}

/* Makes all blocks, and the stage when one of them is not mapped. */
static dit_result diti_upload_begin(diti_upload_run *run) {
    diti_loader *loader = run->loader;
    uint64_t least = DITI_STAGING_MIN;
    bool mapped = true;
    size_t i;
    for (i = 0; i < loader->weights.block_count; i++) {
        diti_weight_block *block = loader->weights.blocks[i];
        dit_result result =
            diti_buffer_create_shared(loader->device, block->used, loader->what, &block->buffer, &loader->error);
        DITI_TRY(result);
        if (!block->buffer.block.mapped) mapped = false;
    }
    run->most = loader->device->staging_bytes;
    if (mapped) return DIT_OK;
    if (loader->device->unified && run->most > loader->weights.bytes / 64) { /* all of them 5 % of the weights */
        run->most = (loader->weights.bytes / 64 + 0xffffu) & ~(uint64_t)0xffff;
        if (run->most < loader->device->staging_slot) run->most = loader->device->staging_slot;
    }
    if (least > run->most) least = run->most;
    for (i = 0; i < loader->upload_count; i++) {
        uint64_t one = diti_upload_minimum(&loader->uploads[i]);
        if (one > least) least = one;
    }
    run->most = diti_stage_bytes(loader->device, least, run->most);
    loader->weights.staged = DITI_STAGE_BUFFERS * run->most;
    return diti_stage_create(loader->device, run->most, NULL, &run->stage, &loader->error);
}

static dit_result diti_loader_upload(diti_loader *loader) {
    diti_upload_run run = DITI_ZERO;
    dit_result result;
    size_t i;
    run.loader = loader;
    result = diti_upload_begin(&run);
    for (i = 0; i < loader->upload_count && result == DIT_OK; i++) result = diti_upload_all(&run, &loader->uploads[i]);
    for (i = 0; i < loader->weights.block_count && result == DIT_OK; i++) {
        const diti_buffer *buffer = &loader->weights.blocks[i]->buffer;
        if (buffer->block.mapped) diti_buffer_flush(loader->device, buffer);
    }
    if (result == DIT_OK && run.stage) {
        result = diti_stage_submit(run.stage, &loader->error);
        if (result == DIT_OK) result = diti_stage_wait(run.stage, run.stage->submitted, true, &loader->error);
    }
    diti_stage_destroy(run.stage);
    return result;
}

/* Tells what would be loaded. */
static void diti_loader_describe(diti_loader *loader) {
    const diti_streamed *streamed = loader->weights.streamed;
    size_t i;
    loader->sizes->resident = loader->weights.bytes;
    if (!streamed) return;
    loader->sizes->matrices = streamed->bytes;
    for (i = 0; i < streamed->count; i++) {
        const diti_upload *upload = &streamed->uploads[i];
        uint64_t least = diti_upload_minimum(upload), row = upload->rows ? diti_upload_bytes(upload) / upload->rows : 0;
        if (row > least) least = row; /* devices that have some of its columns read whole rows */
        if (least > loader->sizes->piece) loader->sizes->piece = least;
    }
}

static dit_result diti_loader_add_replicas(diti_loader *loader) {
    diti_weights *weights = &loader->weights;
    size_t i;
    weights->replicas = diti_replicas_create(loader->env, loader->device);
    if (!weights->replicas) return diti_fail_memory(&loader->error, "loading %s", loader->what);
    for (i = 0; i < weights->block_count; i++) weights->blocks[i]->replicas = weights->replicas;
    if (weights->streamed) weights->streamed->replicas = weights->replicas;
    if (weights->expert) weights->expert->replicas = weights->replicas;
    return DIT_OK;
}

/* Room for all that will be read, since a running job allocates nothing. */
static dit_result diti_loader_keep(diti_loader *loader, diti_streamed *streamed) {
    uint64_t pieces = 0;
    size_t i;
    if (!streamed || !streamed->stream || !streamed->stream->keeps) return DIT_OK;
    for (i = 0; i < streamed->count; i++) {
        diti_upload *upload = &streamed->uploads[i];
        uint64_t piece = diti_upload_kept_piece(upload);
        upload->first_piece = pieces;
        pieces += (diti_upload_bytes(upload) + piece - 1) / piece;
    }
    if (streamed->bytes <= SIZE_MAX) {
        streamed->kept = (unsigned char *)diti_alloc_array(loader->env, 1, (size_t)streamed->bytes);
        streamed->kept_pieces = (unsigned char *)diti_alloc_zero(loader->env, (size_t)(pieces / 8 + 1));
    }
    if (streamed->kept && streamed->kept_pieces) return DIT_OK;
    return diti_fail(&loader->error, DIT_ERROR_OUT_OF_HOST_MEMORY,
                     "%s: no %.1f MB of host memory for what is streamed; load the model without keep_streamed",
                     loader->what, (double)streamed->bytes / 1e6);
}

DIT_INTERNAL dit_result diti_loader_finish(diti_loader *loader, diti_weights *out, dit_error *err) {
    size_t i;
    dit_result result = loader->error.result;
    if (result == DIT_OK) result = diti_loader_check_unused(loader);
    diti_free(loader->env, loader->used);
    loader->used = NULL;
    for (i = 0; i < loader->weights.block_count; i++) loader->weights.bytes += loader->weights.blocks[i]->used;
    if (result == DIT_OK && loader->unrotated) {
        diti_log(loader->env, DITI_LOG_INFO, "%s: %u weights have rows that no groups of %u fill; they are not rotated",
                 loader->what, loader->unrotated, DITI_ROTATION_GROUP);
    }
    if (result == DIT_OK && loader->sizes)
        diti_loader_describe(loader);
    else if (result == DIT_OK && loader->device)
        result = diti_loader_upload(loader);
    if (result == DIT_OK && loader->device && !loader->sizes)
        result = diti_loader_keep(loader, loader->weights.streamed);
    if (result == DIT_OK && loader->device && !loader->sizes) result = diti_loader_keep(loader, loader->weights.expert);
    if (result == DIT_OK && loader->device && !loader->sizes) result = diti_loader_add_replicas(loader);
    diti_free(loader->env, loader->uploads);
    loader->uploads = NULL;
    if (result != DIT_OK) {
        diti_weights_free(loader->device, loader->env, &loader->weights);
        if (err) *err = loader->error;
        return result;
    }
    *out = loader->weights;
    return DIT_OK;
}

static void diti_streamed_free(const diti_env *env, diti_streamed *streamed) {
    if (streamed) diti_free(env, streamed->uploads);
    if (streamed) diti_free(env, streamed->kept);
    if (streamed) diti_free(env, streamed->kept_pieces);
    diti_free(env, streamed);
}

DIT_INTERNAL void diti_weights_free(diti_device *device, const diti_env *env, diti_weights *weights) {
    size_t i;
    for (i = 0; i < weights->block_count; i++) {
        if (device) diti_buffer_destroy(device, &weights->blocks[i]->buffer);
        diti_free(env, weights->blocks[i]);
    }
    diti_replicas_free(weights->replicas);
    for (i = 0; i < weights->name_count; i++) diti_free(env, weights->names[i]);
    for (i = 0; i < weights->smooth_count; i++) diti_free(env, weights->smooths[i]);
    diti_free(env, weights->smooths);
    for (i = 0; i < weights->target_count; i++) diti_free(env, weights->targets[i].module);
    diti_free(env, weights->targets);
    diti_streamed_free(env, weights->streamed);
    diti_streamed_free(env, weights->expert);
    diti_free(env, weights->blocks);
    diti_free(env, weights->names);
    memset(weights, 0, sizeof *weights);
}
