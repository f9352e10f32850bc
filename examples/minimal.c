/* One picture: minimal MODEL "a prompt" picture.ppm     cc -O2 -I. examples/minimal.c -o minimal -lm -ldl */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include <stdio.h>

enum { SIDE = 128 }; /* pixels; a multiple of dit_model_info.size_multiple */

int main(int argc, char **argv) {
    static unsigned char rgba[SIDE * SIDE * 4];
    dit_context_desc context_desc = {0}; /* zeros: the best device, no logging, malloc */
    dit_model_desc model_desc = {0};
    dit_job_desc job_desc = {0};
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = {0};
    FILE *file = NULL;
    size_t i;
    if (argc != 4) return fprintf(stderr, "usage: minimal MODEL PROMPT PICTURE.ppm\n"), 2;

    model_desc.source.path = argv[1];
    dit_context_create(&context_desc, &context, &err);
    if (context) dit_model_load(context, &model_desc, &model, &err);

    job_desc.model = model;
    job_desc.prompt = argv[2];
    job_desc.width = job_desc.height = SIDE;
    if (model) dit_job_create(context, &job_desc, &job, &err);
    if (job && dit_job_wait(job, UINT64_MAX) < 0) dit_job_status(job, NULL, &err);
    if (job && err.result == DIT_OK) dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, sizeof rgba, 0, &err);

    dit_job_destroy(job); /* each takes NULL, too */
    dit_model_destroy(model);
    dit_context_destroy(context);
    if (err.result < 0) return fprintf(stderr, "minimal: %s\n", err.message), 1;

    file = fopen(argv[3], "wb");
    if (file) fprintf(file, "P6 %d %d 255\n", SIDE, SIDE);
    for (i = 0; file && i < sizeof rgba; i += 4) fwrite(rgba + i, 1, 3, file);
    if (!file || fclose(file) != 0) return perror(argv[3]), 1;
    return 0;
}
