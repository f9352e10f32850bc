/* Modules as glslang writes them, compiled by `build/spirv raw`, in place of the embedded ones. */
#ifndef TESTS_PLAIN_H
#define TESTS_PLAIN_H
#include "test.h"

static void *plain_read(const char *folder, const char *name, size_t *size) {
    char path[256];
    FILE *file;
    void *data = NULL;
    snprintf(path, sizeof path, "%s/%s.spv", folder, name);
    file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    data = malloc(*size);
    if (fread(data, 1, *size, file) != *size) *size = 0;
    fclose(file);
    return data;
}

/* Puts the pipelines of all dispatches of the graph, made from those modules, where the plan will look for them. */
static void plain_insert(diti_device *device, const char *folder, const diti_graph *graph) {
    for (size_t i = 0; i < graph->dispatch_count; i++) {
        const diti_dispatch *dispatch = &graph->dispatches[i];
        diti_pipeline *made = diti_alloc_zero(&device->env, sizeof *made);
        size_t size = 0, count;
        void *file = plain_read(folder, diti_kernel_name(dispatch->kernel), &size);
        uint32_t *words = diti_alloc_zero(&device->env, size + 4);
        dit_error err = {0};
        diti_pipeline_constants constants;
        *made = diti_pipeline_key(dispatch->kernel, dispatch->constants, dispatch->stated);
        diti_pipeline_specialize(device, made, &constants);
        if (file) memcpy(words, file, size);
        free(file);
        count = size / 4;
        if (diti_pipeline_find(device, made) ||
            !CHECK_MESSAGE(size, "no module %s", diti_kernel_name(dispatch->kernel)) ||
            !CHECK(diti_spirv_variant(&device->env, dispatch->kernel, &words, &count, &err) == DIT_OK) ||
            !CHECK(diti_pipeline_from_words(device, words, count, made, &constants.info, &made->pipeline) ==
                   VK_SUCCESS)) {
            diti_free(&device->env, made);
        } else {
            CHECK(diti_pipeline_insert(device, made) == made);
        }
        diti_free(&device->env, words);
    }
}

#endif
