/* --negative-prompt default: the text that a model's own program guides away from. One that diffusers' pipeline has,
   too, is taken where none is given, since its clips are made so. Include it after telling.h. Not part of dit.h. */
#ifndef NEGATIVES_H
#define NEGATIVES_H

static void tell_negative(const dit_model_info *info) {
    if (info->negative_prompt)
        printf("negative prompt of the original's program (--negative-prompt default%s): %s\n",
               info->negative_always ? ", and where none is given" : "", info->negative_prompt);
}

/* Pictures that are repeated have what their text says. The model must be known. */
static int choose_negative(app *a) {
    const char *given = a->o.negative_prompt;
    const float guidance = a->r.guidance > 0 ? a->r.guidance : a->info.default_guidance;
    const bool asked = given && strcmp(given, "default") == 0,
               always = !given && a->info.negative_always && guidance > 1 && !a->o.repeat_from && !a->o.conditioning;
    if (asked && !a->info.negative_prompt)
        return complain(EXIT_USAGE,
                        "--negative-prompt default: the program of this model (%s %s) has none; leave it out",
                        a->info.family, a->info.variant);
    if (asked || always) a->o.negative_prompt = a->info.negative_prompt;
    return EXIT_GOOD;
}
#endif
