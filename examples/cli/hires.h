/* --hires: a second pass. The picture is made in the size of -W and -H, scaled up, and denoised again in the larger
   size, as A1111's hires fix and stable-diffusion.cpp do: pixels that the encoder reads again, or the latent itself.
   Include it after given.h and upscale.h. Not part of dit.h. */
#ifndef HIRES_H
#define HIRES_H

/* ---- Scaling up ---- */

/* rgba, of the first pass, becomes the picture that the second one begins with. */
static bool upscale_picture(const hires *h, const unsigned char *rgba, uint32_t width, uint32_t height,
                            const picture *to) {
    const size_t before = (size_t)width * height * 4, after = (size_t)to->width * to->height * 4;
    float *from = malloc((before + after) * sizeof *from), *larger = from ? from + before : NULL;
    bool good = from != NULL;
    size_t i;
    for (i = 0; good && i < before; i++) from[i] = rgba[i];
    good = good && upscale_floats(upscalers[h->upscaler].kernel, from, width, height, larger, to->width, to->height, 4);
    for (i = 0; good && i < after; i++)
        to->rgba[i] = (uint8_t)(larger[i] < 0 ? 0 : larger[i] > 255 ? 255 : larger[i] + 0.5f);
    free(from);
    return good;
}

/* ---- Passes ---- */

/* Sizes and job of pass 0 or 1 take their places; those of the other one wait. */
static void use_pass(app *a, bool second) {
    hires *h = &a->r.hires;
    const uint32_t width = a->r.width, height = a->r.height;
    dit_job *job = a->job;
    if (h->second == second) return;
    h->second = second;
    a->r.width = h->width, a->r.height = h->height, a->job = a->other_job;
    h->width = width, h->height = height, a->other_job = job;
}

/* The second pass asks for other things than the first one. latents: room for their description. */
static void describe_second(const app *a, dit_job_desc *desc, dit_tensor *latents) {
    const hires *h = &a->r.hires;
    desc->steps = h->steps ? h->steps : a->r.steps;
    desc->strength = a->r.numbers.hires_strength;
    desc->init_image = h->latents ? NULL : &h->image;
    desc->init_count = 0;
    desc->inputs = NULL;
    desc->input_count = 0;
    if (!h->latents) return;
    memset(latents, 0, sizeof *latents);
    latents->name = "image_latents";
    latents->type = DIT_TYPE_F32;
    latents->rank = 4;
    latents->shape[0] = 1;
    latents->shape[1] = a->info.latent_channels;
    latents->shape[2] = a->r.height / a->info.latent_factor;
    latents->shape[3] = a->r.width / a->info.latent_factor;
    latents->data = h->latents;
    desc->inputs = latents;
    desc->input_count = 1;
}

/* Room for what the second pass begins with, zeros; false: no memory. */
static bool make_pass_room(app *a) {
    hires *h = &a->r.hires;
    const dit_model_info *m = &a->info;
    free(h->picture.rgba);
    free(h->latents);
    h->picture.rgba = NULL;
    h->latents = NULL;
    if (upscalers[h->upscaler].latent) {
        h->latents = calloc((size_t)(h->width / m->latent_factor) * (h->height / m->latent_factor),
                            m->latent_channels * sizeof *h->latents);
        return h->latents != NULL;
    }
    h->picture.width = h->width;
    h->picture.height = h->height;
    h->picture.rgba = calloc((size_t)h->width * h->height, 4);
    h->image = image_of(&h->picture);
    return h->picture.rgba != NULL;
}

/* ---- Checks ---- */

/* The larger size: --hires-width and --hires-height, either of which gives the other one by the picture's shape, or
   --hires-scale. */
static int take_larger_size(app *a) {
    const uint32_t multiple = a->info.size_multiple ? a->info.size_multiple : 1;
    const options *o = &a->o;
    hires *h = &a->r.hires;
    double scale = o->hires_scale ? (double)a->r.numbers.hires_scale : 2;
    int code = EXIT_GOOD;
    if (o->hires_width) code = take_count("--hires-width", o->hires_width, multiple, 16384, 2048, " pixels", &h->width);
    if (!code && o->hires_height)
        code = take_count("--hires-height", o->hires_height, multiple, 16384, 2048, " pixels", &h->height);
    if (code) return code;
    if (o->hires_scale && (o->hires_width || o->hires_height))
        return complain(EXIT_USAGE, "--hires-scale: --hires-width and --hires-height say the size; leave it out");
    if (o->hires_width) scale = (double)h->width / a->r.width;
    if (o->hires_height && !o->hires_width) scale = (double)h->height / a->r.height;
    if (!o->hires_width) h->width = (uint32_t)(a->r.width * scale / multiple + 0.5) * multiple;
    if (!o->hires_height) h->height = (uint32_t)(a->r.height * scale / multiple + 0.5) * multiple;
    if (h->width < a->r.width || h->height < a->r.height)
        return complain(EXIT_USAGE, "--hires: %ux%u is smaller than the first pass, %ux%u; ask for a larger size",
                        h->width, h->height, a->r.width, a->r.height);
    if (h->width <= 16384 && h->height <= 16384) return EXIT_GOOD;
    return complain(EXIT_USAGE, "--hires: %ux%u is more than 16384 pixels; ask for a smaller size", h->width,
                    h->height);
}

/* An option of the second pass that stands alone, and what is given that has one size. */
static int check_hires_options(const app *a) {
    const options *o = &a->o;
    const char *lone = o->hires_scale      ? "--hires-scale"
                       : o->hires_width    ? "--hires-width"
                       : o->hires_height   ? "--hires-height"
                       : o->hires_steps    ? "--hires-steps"
                       : o->hires_upscaler ? "--hires-upscaler"
                       : o->hires_strength ? "--hires-denoising-strength"
                                           : NULL;
    const char *sized = o->mask            ? "--mask"
                        : o->control_image ? "--control-image"
                        : o->encode_prompt ? "--encode-prompt"
                                           : NULL;
    if (!o->hires && lone)
        return complain(EXIT_USAGE,
                        "%s: it is about --hires, the second pass, which is not asked for; say --hires, too", lone);
    if (!o->hires) return EXIT_GOOD;
    if (a->info.default_frames)
        return complain(EXIT_USAGE, "--hires: clips have one pass; ask for their size with -W and -H");
    if (sized) return complain(EXIT_USAGE, "--hires: it does not go together with %s; leave one of them out", sized);
    return EXIT_GOOD;
}

/* The numbers of the second pass; sizes of the first one are known. Whether the model can do it is asked later
   (check_second_pass). */
static int check_hires(app *a) {
    const options *o = &a->o;
    hires *h = &a->r.hires;
    const char *name = NULL;
    int code = check_hires_options(a);
    if (code || !o->hires) return code;
    code = take_larger_size(a);
    if (!code && o->hires_steps) code = take_count("--hires-steps", o->hires_steps, 1, 1000, 20, "", &h->steps);
    if (!code) code = take_name("--hires-upscaler", o->hires_upscaler, upscaler_name, &name);
    if (code) return code;
    while (name && upscaler_name(h->upscaler) != name) h->upscaler++;
    if (!o->hires_strength) a->r.numbers.hires_strength = 0.7f;
    h->wanted = true;
    return make_pass_room(a) ? EXIT_GOOD : complain(EXIT_MEMORY, "out of memory; try a smaller --hires-scale");
}
#endif
