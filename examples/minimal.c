/* The smallest whole program: minimal MODEL PROMPT OUT.ppm makes one picture in the model's own size.
   cc -std=c99 -O2 -I. -o minimal examples/minimal.c -lm -ldl */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_job_desc jd = {0}; /* zeros mean defaults */
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_model_info info;
    dit_error err = {0};
    unsigned char *rgba = NULL;
    FILE *out = NULL;
    size_t size = 0, i;
    if (argc != 4) return fprintf(stderr, "usage: minimal MODEL PROMPT OUT.ppm\n"), 2;
    md.source.path = argv[1];
    jd.prompt = argv[2];
    jd.seed = 42;
    if (dit_context_create(&cd, &context, &err) < 0) goto done;
    if (dit_model_load(context, &md, &model, &err) < 0) goto done;
    jd.model = model;
    if (dit_job_create(context, &jd, &job, &err) < 0) goto done;
    if (dit_job_wait(job, UINT64_MAX) < 0) {
        dit_job_status(job, NULL, &err);
        goto done;
    }
    dit_model_get_info(model, &info);
    size = (size_t)info.default_width * info.default_height * 4;
    rgba = malloc(size);
    if (!rgba || dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, size, 0, &err) < 0) goto done;
    out = fopen(argv[3], "wb");
    if (!out) {
        perror(argv[3]);
        goto done;
    }
    fprintf(out, "P6 %u %u 255\n", info.default_width, info.default_height);
    for (i = 0; i < size; i += 4) fwrite(rgba + i, 1, 3, out);
done:
    if (err.result < 0) fprintf(stderr, "minimal: %s\n", err.message);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    free(rgba);
    return out && fclose(out) == 0 ? 0 : 1;
}
