/* Negative prompts that the originals of models have where nobody gives one: --negative-prompt default. Those of
   diffusers' pipelines are taken by themselves, since their clips are made with them. Include it after telling.h. Not
   part of dit.h. */
#ifndef NEGATIVES_H
#define NEGATIVES_H

typedef struct usual_negative {
    const char *family, *variant; /* how the model's begins */
    bool always;                  /* diffusers' pipeline has it, too */
    const char *source, *text;
} usual_negative;

static const char wan_negative[] =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，丑陋的，"
    "残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，"
    "三条腿，背景人很多，倒着走";

/* The first row that fits counts. */
static const usual_negative usual_negatives[] = {
    {"kandinsky", "5.0-t2v", true, "Kandinsky 5.0's program and diffusers",
     "Static, 2D cartoon, cartoon, 2d animation, paintings, images, worst quality, low quality, ugly, deformed, walking "
     "backwards"},
    {"wan", "skyreels", false, "SkyReels V2's program",
     "Bright tones, overexposed, static, blurred details, subtitles, style, works, paintings, images, static, overall "
     "gray, worst quality, low quality, JPEG compression residue, ugly, incomplete, extra fingers, poorly drawn hands, "
     "poorly drawn faces, deformed, disfigured, misshapen limbs, fused fingers, still picture, messy background, three "
     "legs, many people in the background, walking backwards"},
    {"wan", "", false, "Wan's program", wan_negative},
    {"hunyuanvideo", "", false, "HunyuanVideo's program",
     "Aerial view, aerial view, overexposed, low quality, deformation, a poor composition, bad hands, bad teeth, bad "
     "eyes, bad limbs, distortion"},
    {"ltx", "", false, "LTX-Video's program", "worst quality, inconsistent motion, blurry, jittery, distorted"},
    {"ltx2", "", false, "LTX-2's program",
     "blurry, out of focus, overexposed, underexposed, low contrast, washed out colors, excessive noise, grainy texture, "
     "poor lighting, flickering, motion blur, distorted proportions, unnatural skin tones, deformed facial features, "
     "asymmetrical face, missing facial features, extra limbs, disfigured hands, wrong hand count, artifacts around "
     "text, inconsistent perspective, camera shake, incorrect depth of field, background too sharp, background clutter, "
     "distracting reflections, harsh shadows, inconsistent lighting direction, color banding, cartoonish rendering, 3D "
     "CGI look, unrealistic materials, uncanny valley effect, incorrect ethnicity, wrong gender, exaggerated "
     "expressions, wrong gaze direction, mismatched lip sync, silent or muted audio, distorted voice, robotic voice, "
     "echo, background noise, off-sync audio, incorrect dialogue, added dialogue, repetitive speech, jittery movement, "
     "awkward pauses, incorrect timing, unnatural transitions, inconsistent framing, tilted camera, flat lighting, "
     "inconsistent tone, cinematic oversaturation, stylized filters, or AI artifacts."},
};

/* NULL: the originals of the model have none. */
static const usual_negative *find_negative(const dit_model_info *info) {
    size_t i;
    for (i = 0; i < sizeof usual_negatives / sizeof usual_negatives[0]; i++) {
        const usual_negative *row = &usual_negatives[i];
        if (strcmp(row->family, info->family) == 0 && strncmp(row->variant, info->variant, strlen(row->variant)) == 0)
            return row;
    }
    return NULL;
}

static void tell_negative(const dit_model_info *info) {
    const usual_negative *row = find_negative(info);
    if (row)
        printf("negative prompt of %s (%s--negative-prompt default): %s\n", row->source,
               row->always ? "taken where none is given, or " : "", row->text);
}

/* The word default becomes the original's; and where none is given, one that diffusers' pipeline has. Pictures that are
   repeated have what their text says. The model must be known. */
static int choose_negative(app *a) {
    const usual_negative *row = find_negative(&a->info);
    const char *given = a->o.negative_prompt;
    const float guidance = a->r.guidance > 0 ? a->r.guidance : a->info.default_guidance;
    if (given && strcmp(given, "default") == 0) {
        if (!row)
            return complain(EXIT_USAGE,
                            "--negative-prompt default: the originals of this model (%s %s) have none; leave it out",
                            a->info.family, a->info.variant);
        a->o.negative_prompt = row->text;
    } else if (!given && row && row->always && guidance > 1 && !a->o.repeat_from && !a->o.conditioning) {
        a->o.negative_prompt = row->text;
    }
    return EXIT_GOOD;
}
#endif
