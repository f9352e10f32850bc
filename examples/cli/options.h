/* The command line of build/dit: one table drives parsing and help. Not part of dit.h. */
#ifndef OPTIONS_H
#define OPTIONS_H
#include "dit.h"
#include "programs.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LORA_MOST = 16 };

typedef struct options {
    const char *model, *prompt, *negative_prompt, *width, *height, *steps, *guidance, *sampler, *schedule, *seed, *rng,
        *count, *output, *device, *noise, *latent_out, *preview, *preview_path, *preview_interval, *trace, *type,
        *type_rules, *repeat_from, *batch, *grid, *quality, *serve, *completion;
    const char *init_image, *end_image, *mask, *strength, *distilled, *slg_scale, *skip_blocks, *skip_first, *skip_last,
        *low_guidance, *sound_guidance, *stg_scale, *modality_scale, *rescale, *apg_eta, *apg_norm, *guided_first,
        *guided_last, *eta, *shift, *clip_skip, *vae_tile;
    const char *diffusion_model, *high_noise, *uncond, *clip_l, *clip_g, *t5, *clip_vision, *vae, *taesd, *audio_vae,
        *tokenizer;
    const char *weight_budget, *device_memory, *class_name, *info, *info_level, *split;
    const char *references; /* paths with | between them */
    const char *control_net, *high_noise_net, *control_image, *control_video, *control_strength, *control_first,
        *control_last, *control_mode, *length_limit;
    const char *cache;
    bool keep_references;
    const char *frames, *fps, *init_video, *mask_strategy, *loop, *loop_frames, *loop_edit, *conditioning,
        *encode_prompt;
    const char *mask_blur, *mask_crop, *hires_scale, *hires_width, *hires_height, *hires_steps, *hires_upscaler,
        *hires_strength;
    const char *init_hash, *end_hash, *mask_hash, *control_hash, *noise_hash, *noise_picture, *video_hash,
        *conditioning_hash, *device_name, *made_by; /* these come from a PNG's text alone */
    const char *lora, *lora_dir, *loras[LORA_MOST]; /* lora: the last of loras, or all of a PNG's text */
    unsigned lora_count;
    bool hires, resume, resumable, plain_prompt, lora_merge, dynamic, offload, keep_streamed, clip_on_cpu, vae_tiling,
        tune, no_metadata, no_sound, list_devices, list_models, doctor, json, man, verbose, quiet, help, help_all,
        version;
} options;

/* Whether a picture depends on an option, and how its PNG tells the option then. */
typedef enum option_told {
    TOLD_NOT,  /* the picture has the same bytes with and without it */
    TOLD_HERE, /* as "key: value" */
    TOLD_FILE, /* the same, by the name of its file or folder, which --repeat-from looks for */
    TOLD_WITH, /* the text's key tells it together with another option */
    TOLD_FIRST /* the prompts, before all pairs */
} option_told;

typedef struct option_entry {
    const char *name, *letter, *alias; /* several aliases have | between them */
    size_t value;                      /* offset of a const char * in options, 0: a flag */
    size_t flag;
    option_told told;
    const char *key; /* in the PNG's text */
} option_entry;

static const char size_key[] = "Size", larger_key[] = "Hires resize", hires_key[] = "Hires upscaler",
                  tile_key[] = "VAE tile size", device_key[] = "Device";

#undef TEXT /* windows.h has another one */
#define TEXT(member) offsetof(options, member) + 1, 0
#define FLAG(member) 0, offsetof(options, member)
#define UNTOLD TOLD_NOT, NULL
/* Options that a picture depends on come first, in the order of its text. */
static const option_entry option_table[] = {
    {"--prompt", "-p", NULL, TEXT(prompt), TOLD_FIRST, NULL},
    {"--negative-prompt", "-n", NULL, TEXT(negative_prompt), TOLD_FIRST, NULL},
    {"--class", NULL, NULL, TEXT(class_name), TOLD_HERE, "Class"},
    {"--conditioning", NULL, NULL, TEXT(conditioning), TOLD_FILE, "Conditioning"},
    {"--steps", NULL, "--num-inference-steps", TEXT(steps), TOLD_HERE, "Steps"},
    {"--sampler", NULL, "--sampling-method|--sampler-name", TEXT(sampler), TOLD_HERE, "Sampler"},
    {"--scheduler", NULL, "--schedule", TEXT(schedule), TOLD_HERE, "Schedule type"},
    {"--cfg-scale", NULL, "--true-cfg-scale", TEXT(guidance), TOLD_HERE, "CFG scale"},
    {"--low-noise-cfg-scale", NULL, "--guidance-scale-2", TEXT(low_guidance), TOLD_HERE, "Low noise CFG scale"},
    {"--sound-cfg-scale", NULL, "--audio-cfg-scale|--audio-guidance-scale", TEXT(sound_guidance), TOLD_HERE,
     "Sound CFG scale"},
    {"--stg-scale", NULL, NULL, TEXT(stg_scale), TOLD_HERE, "STG scale"},
    {"--modality-scale", NULL, NULL, TEXT(modality_scale), TOLD_HERE, "Modality scale"},
    {"--seed", "-s", NULL, TEXT(seed), TOLD_HERE, "Seed"},
    {"--width", "-W", NULL, TEXT(width), TOLD_HERE, size_key},
    {"--height", "-H", NULL, TEXT(height), TOLD_WITH, size_key},
    {"--frames", NULL, "--video-frames|--num-frames|--length", TEXT(frames), TOLD_HERE, "Frames"},
    {"--fps", NULL, "--frame-rate", TEXT(fps), TOLD_HERE, "FPS"},
    {"--init-video", NULL, NULL, TEXT(init_video), TOLD_FILE, "Init video"},
    {"--mask-strategy", NULL, NULL, TEXT(mask_strategy), TOLD_HERE, "Mask strategy"},
    {"--loop", NULL, NULL, TEXT(loop), TOLD_HERE, "Loop"},
    {"--loop-frames", NULL, "--condition-frame-length", TEXT(loop_frames), TOLD_HERE, "Loop frames"},
    {"--loop-edit", NULL, "--condition-frame-edit", TEXT(loop_edit), TOLD_HERE, "Loop edit"},
    {"--init-img", "-i", "--init-image", TEXT(init_image), TOLD_FILE, "Init image"},
    {"--end-img", NULL, "--end-image|--last-image", TEXT(end_image), TOLD_FILE, "End image"},
    {"--ref-image", "-r", NULL, TEXT(references), TOLD_HERE, "References"},
    {"--cache", NULL, "--cache-mode", TEXT(cache), TOLD_HERE, "Cache"},
    {"--keep-references", NULL, NULL, FLAG(keep_references), TOLD_HERE, "References kept"},
    {"--mask", NULL, "--mask-image", TEXT(mask), TOLD_FILE, "Mask"},
    {"--mask-blur", NULL, NULL, TEXT(mask_blur), TOLD_HERE, "Mask blur"},
    {"--padding-mask-crop", NULL, "--inpaint-full-res-padding", TEXT(mask_crop), TOLD_HERE, "Masked area padding"},
    {"--control-image", NULL, NULL, TEXT(control_image), TOLD_FILE, "Control image"},
    {"--control-video", NULL, NULL, TEXT(control_video), TOLD_FILE, "Control video"},
    {"--control-net", NULL, NULL, TEXT(control_net), TOLD_FILE, "Control net"},
    {"--high-noise-control-net", NULL, NULL, TEXT(high_noise_net), TOLD_FILE, "High noise control net"},
    {"--control-strength", NULL, "--controlnet-conditioning-scale|--vace-strength|--conditioning-scale",
     TEXT(control_strength), TOLD_HERE, "Control strength"},
    {"--control-start", NULL, "--control-guidance-start", TEXT(control_first), TOLD_HERE, "Control start"},
    {"--control-end", NULL, "--control-guidance-end", TEXT(control_last), TOLD_HERE, "Control end"},
    {"--control-mode", NULL, NULL, TEXT(control_mode), TOLD_HERE, "Control mode"},
    {"--strength", NULL, "--denoising-strength|--denoise", TEXT(strength), TOLD_HERE, "Denoising strength"},
    {"--hires", NULL, "--enable-hr", FLAG(hires), TOLD_WITH, hires_key},
    {"--hires-upscaler", NULL, "--hr-upscaler", TEXT(hires_upscaler), TOLD_HERE, hires_key},
    {"--hires-scale", NULL, "--hr-scale", TEXT(hires_scale), TOLD_HERE, "Hires upscale"},
    {"--hires-width", NULL, "--hr-resize-x", TEXT(hires_width), TOLD_HERE, larger_key},
    {"--hires-height", NULL, "--hr-resize-y", TEXT(hires_height), TOLD_WITH, larger_key},
    {"--hires-steps", NULL, "--hr-second-pass-steps", TEXT(hires_steps), TOLD_HERE, "Hires steps"},
    {"--hires-denoising-strength", NULL, NULL, TEXT(hires_strength), TOLD_HERE, "Hires denoising strength"},
    {"--guidance", NULL, NULL, TEXT(distilled), TOLD_HERE, "Guidance"},
    {"--guidance-start", NULL, NULL, TEXT(guided_first), TOLD_HERE, "Guidance start"},
    {"--guidance-end", NULL, NULL, TEXT(guided_last), TOLD_HERE, "Guidance end"},
    {"--dynamic-guidance", NULL, NULL, FLAG(dynamic), TOLD_HERE, "Dynamic guidance"},
    {"--guidance-rescale", NULL, NULL, TEXT(rescale), TOLD_HERE, "Guidance rescale"},
    {"--apg-eta", NULL, NULL, TEXT(apg_eta), TOLD_HERE, "APG eta"},
    {"--apg-norm", NULL, NULL, TEXT(apg_norm), TOLD_HERE, "APG norm"},
    {"--cfg-normalization", NULL, NULL, TEXT(length_limit), TOLD_HERE, "CFG normalization"},
    {"--slg-scale", NULL, NULL, TEXT(slg_scale), TOLD_HERE, "SLG scale"},
    {"--skip-layers", NULL, NULL, TEXT(skip_blocks), TOLD_HERE, "Skip layers"},
    {"--skip-layer-start", NULL, NULL, TEXT(skip_first), TOLD_HERE, "Skip layer start"},
    {"--skip-layer-end", NULL, NULL, TEXT(skip_last), TOLD_HERE, "Skip layer end"},
    {"--eta", NULL, NULL, TEXT(eta), TOLD_HERE, "Eta"},
    {"--flow-shift", NULL, NULL, TEXT(shift), TOLD_HERE, "Shift"},
    {"--clip-skip", NULL, NULL, TEXT(clip_skip), TOLD_HERE, "Clip skip"},
    {"--plain-prompt", NULL, NULL, FLAG(plain_prompt), TOLD_HERE, "Plain prompt"},
    {"--vae-tile-size", NULL, NULL, TEXT(vae_tile), TOLD_HERE, tile_key},
    {"--vae-tiling", NULL, NULL, FLAG(vae_tiling), TOLD_WITH, tile_key},
    {"--device-memory", NULL, NULL, TEXT(device_memory), TOLD_WITH, tile_key},
    {"--model", "-m", NULL, TEXT(model), TOLD_FILE, "Model"},
    {"--diffusion-model", NULL, NULL, TEXT(diffusion_model), TOLD_FILE, "Diffusion model"},
    {"--high-noise-diffusion-model", NULL, NULL, TEXT(high_noise), TOLD_FILE, "High noise diffusion model"},
    {"--uncond-diffusion-model", NULL, NULL, TEXT(uncond), TOLD_FILE, "Unconditional diffusion model"},
    {"--clip-l", NULL, "--llm|--qwen2vl|--text-encoder", TEXT(clip_l), TOLD_FILE, "CLIP-L"},
    {"--clip-g", NULL, "--text-encoder-2|--embeddings-connectors", TEXT(clip_g), TOLD_FILE, "CLIP-G"},
    {"--t5", NULL, "--t5xxl", TEXT(t5), TOLD_FILE, "T5"},
    {"--clip-vision", NULL, "--image-encoder", TEXT(clip_vision), TOLD_FILE, "CLIP vision"},
    {"--vae", NULL, NULL, TEXT(vae), TOLD_FILE, "VAE"},
    {"--taesd", NULL, "--tae", TEXT(taesd), TOLD_FILE, "TAESD"},
    {"--audio-vae", NULL, NULL, TEXT(audio_vae), TOLD_FILE, "Audio VAE"},
    {"--tokenizer", NULL, NULL, TEXT(tokenizer), TOLD_FILE, "Tokenizer"},
    {"--lora", NULL, NULL, TEXT(lora), TOLD_HERE, "LoRA"},
    {"--lora-merge", NULL, NULL, FLAG(lora_merge), TOLD_HERE, "LoRA merged"},
    {"--type", NULL, NULL, TEXT(type), TOLD_HERE, "Weights"},
    {"--tensor-type-rules", NULL, NULL, TEXT(type_rules), TOLD_HERE, "Weight rules"},
    {"--noise", NULL, NULL, TEXT(noise), TOLD_FILE, "Noise"},
    {"--clip-on-cpu", NULL, NULL, FLAG(clip_on_cpu), TOLD_HERE, "CLIP on CPU"},
    {"--split", NULL, NULL, TEXT(split), TOLD_HERE, "Split"},
    {"--rng", NULL, NULL, TEXT(rng), TOLD_HERE, "RNG"},
    {"--quality", NULL, NULL, TEXT(quality), TOLD_HERE, "Quality"},
    {"--device", NULL, "--devices", TEXT(device), TOLD_WITH, device_key},
    {"--batch-count", "-b", NULL, TEXT(count), UNTOLD},
    {"--repeat-from", NULL, NULL, TEXT(repeat_from), UNTOLD}, /* each of its options is told */
    {"--lora-dir", NULL, "--lora-model-dir", TEXT(lora_dir), UNTOLD},
    {"--output", "-o", NULL, TEXT(output), UNTOLD},
    {"--encode-prompt", NULL, NULL, TEXT(encode_prompt), UNTOLD},
    {"--resume", NULL, NULL, FLAG(resumable), UNTOLD},
    {"--resume-on-loss", NULL, NULL, FLAG(resume), UNTOLD},
    {"--latent-out", NULL, NULL, TEXT(latent_out), UNTOLD},
    {"--batch", NULL, "--from-file", TEXT(batch), UNTOLD},
    {"--grid", NULL, NULL, TEXT(grid), UNTOLD},
    {"--no-sound", NULL, NULL, FLAG(no_sound), UNTOLD},
    {"--no-metadata", NULL, "--disable-metadata|--disable-image-metadata", FLAG(no_metadata), UNTOLD},
    {"--json", NULL, NULL, FLAG(json), UNTOLD},
    {"--preview", NULL, NULL, TEXT(preview), UNTOLD},
    {"--preview-path", NULL, NULL, TEXT(preview_path), UNTOLD},
    {"--preview-interval", NULL, NULL, TEXT(preview_interval), UNTOLD},
    {"--serve", NULL, "--listen", TEXT(serve), UNTOLD},
    {"--trace", NULL, NULL, TEXT(trace), UNTOLD},
    {"--tune", NULL, NULL, FLAG(tune), UNTOLD},
    {"--weight-budget", NULL, NULL, TEXT(weight_budget), UNTOLD},
    {"--offload-to-cpu", NULL, NULL, FLAG(offload), UNTOLD},
    {"--keep-streamed", NULL, NULL, FLAG(keep_streamed), UNTOLD},
    {"--list-devices", NULL, NULL, FLAG(list_devices), UNTOLD},
    {"--list-models", NULL, NULL, FLAG(list_models), UNTOLD},
    {"--doctor", NULL, NULL, FLAG(doctor), UNTOLD},
    {"--completion", NULL, NULL, TEXT(completion), UNTOLD},
    {"--man", NULL, NULL, FLAG(man), UNTOLD},
    {"--info", NULL, NULL, TEXT(info), UNTOLD},
    {"--info-level", NULL, NULL, TEXT(info_level), UNTOLD},
    {"--verbose", "-v", NULL, FLAG(verbose), UNTOLD},
    {"--quiet", "-q", NULL, FLAG(quiet), UNTOLD},
    {"--help", "-h", NULL, FLAG(help), UNTOLD},
    {"--help-all", NULL, NULL, FLAG(help_all), UNTOLD},
    {"--version", NULL, NULL, FLAG(version), UNTOLD},
};
#define OPTION_COUNT (sizeof option_table / sizeof option_table[0])

/* Facts that a PNG's text tells besides options. */
typedef struct fact_entry {
    const char *key;
    size_t text; /* offset in options */
} fact_entry;
static const fact_entry fact_table[] = {
    {"Init image hash", offsetof(options, init_hash)},  {"End image hash", offsetof(options, end_hash)},
    {"Mask hash", offsetof(options, mask_hash)},        {"Control image hash", offsetof(options, control_hash)},
    {"Noise hash", offsetof(options, noise_hash)},      {"Noise picture", offsetof(options, noise_picture)},
    {"Init video hash", offsetof(options, video_hash)}, {"Conditioning hash", offsetof(options, conditioning_hash)},
    {device_key, offsetof(options, device_name)},       {"Version", offsetof(options, made_by)},
};
#define FACT_COUNT (sizeof fact_table / sizeof fact_table[0])

/* Whether a picture's text has a pair for an option. */
static bool is_told(const option_entry *entry) { return entry->told == TOLD_HERE || entry->told == TOLD_FILE; }

/* A width or a height: one pair tells both, and the entry of the height follows that of the width. */
static bool is_size(const option_entry *entry) { return entry->key == size_key || entry->key == larger_key; }

/* Where o has the value of an option that is a text, or of a flag, or a fact. */
static const char **option_text(options *o, const option_entry *entry) {
    return (const char **)(void *)((char *)o + entry->value - 1);
}

static bool *option_flag(options *o, const option_entry *entry) { return (bool *)(void *)((char *)o + entry->flag); }

static const char **fact_text(options *o, const fact_entry *entry) {
    return (const char **)(void *)((char *)o + entry->text);
}

static const char help_text[] =
    "usage: dit --prompt TEXT [options]   makes pictures or clips, on Vulkan\n"
    "       dit [options]                 asks for prompts, on a terminal\n"
    "       dit doctor                    tells what is installed, and what is wrong\n"
    "\n"
    "  -p, --prompt TEXT           what to show\n"
    "  -n, --negative-prompt TEXT  what to keep away from; default: the original's\n"
    "      --class N               models like DiT show a class, no prompt; or a name\n"
    "  -m, --model PATH            file or diffusers folder (default: bundled emoji)\n"
    "      --diffusion-model, --clip-l, --clip-g, --t5, --vae, --taesd, --tokenizer\n"
    "                PATH          parts that lie elsewhere; also --llm (Qwen, Gemma)\n"
    "      --lora FILE:0.8         add a LoRA of that weight; may be repeated\n"
    "  -o, --output FILE           .png .jpg .webp to write (default: output.png), or\n"
    "                              to replace, then output_2.png (or %03d); - a pipe\n"
    "      --frames N, --fps X     of a clip: FILE is .apng .webp .y4m .gif .mp4 .mov\n"
    "                              .webm .mkv, or DIR/%04d.png; - is raw Y4M\n"
    "  -W, --width N, -H, --height N  in pixels (default: the model's own size)\n"
    "      --steps N               denoising steps, 1 to 1000 (default: the model's)\n"
    "      --cfg-scale X           guidance, 1 (off) to 100 (default: the model's)\n"
    "      --sampler NAME, --scheduler NAME   list shows all; also --sampling-method\n"
    "  -s, --seed N                a whole number; -1 or random (default: 42)\n"
    "  -b, --batch-count N         pictures; picture i has seed + i (default: 1)\n"
    "  -i, --init-img FILE         begin with this picture, not with noise\n"
    "  -r, --ref-image FILE        make the picture after this one; may be repeated\n"
    "      --init-video PATH       or with a clip: Y4M, or a folder of pictures\n"
    "      --mask FILE             and repaint it where this one is white\n"
    "      --strength X            0.001 to 1, how much is replaced (default: 0.75)\n"
    "      --batch FILE            a prompt, or options as JSON, a line; - is a pipe\n"
    "      --preview [WHERE]       the picture so far: terminal (default) or FILE.png\n"
    "      --repeat-from FILE      make that picture again; further options change it\n"
    "      --info [PATH]           what a model is and takes; a picture's parameters\n"
    "      --serve [HOST:]PORT     a page, and OpenAI's and A1111's API, over HTTP\n"
    "      --device NAME           index, part of a name, uuid:...\n"
    "      --list-devices, --list-models      show what there is\n"
    "      --weight-budget SIZE    device memory for weights, 4G; streams the rest\n"
    "  -v, --verbose, -q, --quiet  tell more, or nothing but errors\n"
    "  -h, --help, --help-all, --version  show this text, all options, the version\n"
    "\n"
    "Pictures carry all parameters as text. Ctrl-C stops without half a file.\n" EXIT_CODES_HELP;

static const char more_help_text[] =
    "\nRarer options:\n"
    "      --vae-tiling            decode in tiles of 512 pixels (clips: 256)\n"
    "      --quality N             of .jpg and .webp, 1 to 100 (default: 95, of clips\n"
    "                              100); a .webp of 100 loses nothing\n"
    "      --grid FILE             all pictures of a run on one sheet, too\n"
    "      --no-sound              clips of LTX-2 without their sound\n"
    "      --no-metadata           files without the text of their parameters\n"
    "      --json                  tell progress, files, times and errors as lines of\n"
    "                              JSON on standard output (stderr with -o -)\n"
    "      --preview kitty, iterm2, sixel or blocks   does not ask the terminal\n"
    "      --preview HOW[,WHERE]   made by proj (colours of latents), tae (--taesd)\n"
    "                              or vae (the decoder: default without --taesd)\n"
    "      --preview-path FILE     a small PNG of the picture so far, besides\n"
    "      --preview-interval N    steps between them (default: 1; with vae a fifth)\n"
    "      --completion SHELL      a script that completes options: bash, zsh, fish\n"
    "      --man                   this help as a page for man\n"
    "      --high-noise-diffusion-model PATH  the first expert of Wan 2.2 A14B; the\n"
    "                              second one is --diffusion-model\n"
    "      --uncond-diffusion-model PATH  the transformer by which Ideogram 4 guides\n"
    "      --clip-vision PATH      the image encoder of models that move a picture\n"
    "      --embeddings-connectors PATH  LTX-2's, where they are a file of their own\n"
    "      --audio-vae PATH        what makes the sound of clips, likewise\n"
    "      --frames is also called --video-frames, --num-frames, --length\n"
    "      --end-img FILE          the last frame of a clip, beside --init-img\n"
    "                              (MiniMax-H3: alone, too)\n"
    "      --mask-strategy TEXT    frames that --init-img (the first reference) and\n"
    "                              --init-video give, and where they go: Open-Sora's\n"
    "                              loop,reference,from,to,length,edit;...\n"
    "      --loop N                clips that continue each other, joined to one;\n"
    "                              a prompt \"|0|first|2|other\" changes with them\n"
    "      --loop-frames N         latent frames that go from one to the next\n"
    "      --loop-edit X           0 (they stay) to 1 (all new) for these frames\n"
    "      --mask-blur X           keep the pixels of black areas of --mask, and pass\n"
    "                              over to new ones softly in X pixels, 0 to 64\n"
    "      --padding-mask-crop N   make only what --mask shows, and N pixels around\n"
    "                              it, in the size of -W and -H, and paste it back\n"
    "      --hires                 a second pass: the picture scaled up, by\n"
    "      --hires-scale X         (default: 2), or to this size in pixels:\n"
    "      --hires-width N, --hires-height N\n"
    "      --hires-upscaler NAME   Lanczos (default), Latent, ...; list shows all\n"
    "      --hires-denoising-strength X  how much is made anew (default: 0.7)\n"
    "      --hires-steps N         of these so much (default: as many as --steps)\n"
    "      --encode-prompt FILE    write both prompts as data for --conditioning\n"
    "      --conditioning FILE     in place of prompts; needs no text encoder\n"
    "      --lora-dir DIR          <lora:NAME:0.8> in a prompt is a file in DIR\n"
    "      --lora-merge            LoRAs become part of weights: no cost in steps,\n"
    "                              but packed weights become F16\n"
    "      --plain-prompt          brackets are text, not weights as (word:1.3)\n"
    "      --offload-to-cpu        text encoder off the device but while it reads\n"
    "      --clip-on-cpu           encode prompts on a Vulkan device of the CPU, such\n"
    "                              as lavapipe\n";

static const char steering_help_text[] =
    "      --control-image FILE    edges, a depth map, a pose, ... that the picture\n"
    "                              follows: FLUX.1 Canny and Depth, or with\n"
    "      --control-net PATH      a control net of the model (FLUX.1, SD3), or the\n"
    "                              blocks that make a VACE of Wan 2.1 or 2.2\n"
    "      --high-noise-control-net PATH  other ones for Wan 2.2's first expert\n"
    "      --control-video PATH    a clip that the clip follows (Wan VACE): Y4M, or a\n"
    "                              folder of pictures; white of --mask (picture or\n"
    "                              clip) is made anew (default: all of it)\n"
    "      --control-strength X    of a control net or such a clip (default: 1)\n"
    "      --control-start X, --control-end X  part of the steps in which it works\n"
    "      --control-mode N        kind of picture, for nets that know several\n";

static const char rarest_help_text[] =
    "      --cache POLICY          steps reuse blocks of earlier ones: auto, delta,\n"
    "                              taylor, spectrum, fbcache, ... (docs/caching.md)\n"
    "      --keep-references       read each --ref-image once, not in every step\n"
    "                              (FLUX.2 klein 9B KV does so by itself)\n"
    "      --low-noise-cfg-scale X  guidance of the second expert (Wan 2.2 A14B)\n"
    "      --sound-cfg-scale X     guidance of a clip's sound (LTX-2: 7)\n"
    "      --stg-scale X, --modality-scale X  LTX-2's further terms of guidance (1\n"
    "                              and 3 in diffusers), an evaluation each\n"
    "      --guidance X            guidance that the model is told (FLUX.1-dev)\n"
    "      --guidance-start X, --guidance-end X  part of the steps, 0 to 1, with\n"
    "                              guidance; others are half the work (default: all)\n"
    "      --dynamic-guidance      the scale changes along a cosine (CogVideoX-5b)\n"
    "      --guidance-rescale X    0 to 1, against colours that are too strong\n"
    "      --apg-eta X, --apg-norm X  adaptive projected guidance: 0 to 1, how much\n"
    "                              along the prediction stays; the longest length\n"
    "      --cfg-normalization X   longest guided prediction, in lengths of the one\n"
    "                              of the prompt (Z-Image: 1)\n"
    "      --slg-scale X           skip-layer guidance (SD3.5: 2.8), without\n"
    "      --skip-layers LIST      blocks (default: 7,8,9), in the steps from\n"
    "      --skip-layer-start X    (default: 0.01) to\n"
    "      --skip-layer-end X      (default: 0.2)\n"
    "      --eta X                 noise of the sampler ddim, 0 to 1 (default: 0)\n"
    "      --flow-shift X          of flow schedules (default: the model's)\n"
    "      --clip-skip N           2 leaves out CLIP's last layer (default: model's)\n"
    "      --vae-tile-size N       as --vae-tiling, with tiles of N pixels\n"
    "      --rng NAME              noise as torch makes it on: cpu (default), cuda\n"
    "      --noise FILE            initial noise: safetensors, noise F32 [B,C,h,w]\n"
    "      --latent-out FILE       last latents: safetensors, latent F32 [B,C,h,w];\n"
    "                              of clips [B,C,frames,h,w], but CogVideoX takes\n"
    "                              noise [B,frames,C,h,w]\n"
    "      --info-level N          of a model, which is not loaded: 1 weights, 2 and\n"
    "                              memory at -W and -H (default), 3 and every op\n"
    "      --type NAME             i8r, i8r+rot or i4r+rot (int8 products), i4_group;\n"
    "                              transformer blocks only (default: as stored)\n"
    "      --tensor-type-rules R   for other tensors: GLOB=NAME,... ahead of --type\n"
    "      --device-memory SIZE    most to take (default: what is free); where that\n"
    "                              runs out: tiles, then offload, then a budget\n"
    "      --keep-streamed         weights that are off the device stay in the host's\n"
    "                              memory: their files are read once\n"
    "      --devices LIST          several, as 0,1,2,3, for\n"
    "      --split NAME            auto; cfg2,ulysses2; ring4,shard; @plan.json; ...\n"
    "      --resume                OUTPUT.resume keeps steps that are finished: after\n"
    "                              an interruption the same command goes on\n"
    "      --resume-on-loss        go on with the others where one fails\n"
    "      --tune                  measure kernels once; kept for later runs\n"
    "      --trace FILE            what ran when, as JSON for ui.perfetto.dev\n";

/* Strings of at most 4095 bytes, which every compiler takes; --help shows the first one. */
static const char *const help_parts[] = {help_text, more_help_text, steering_help_text, rarest_help_text};
enum { HELP_PARTS = sizeof help_parts / sizeof help_parts[0] };

/* ---- Messages ---- */

/* The last error, for those who ask for it in another form: --json and the clients of --serve. */
static struct {
    char text[8192];
    bool silent;       /* not on stderr */
    const char *where; /* on stderr before the text: which request it is about; NULL: there is one */
} complaint;

#ifndef PROGRAM_SAYS /* dit-compare includes this, too */
#define PROGRAM_SAYS "dit: "
#endif

/* Every error is one line on stderr; returns code so that `return complain(...)` reads well. */
static int complain(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(complaint.text, sizeof complaint.text, format, args);
    va_end(args);
    if (!complaint.silent)
        fprintf(stderr, PROGRAM_SAYS "%s%s\n", complaint.where ? complaint.where : "", complaint.text);
    return code;
}

/* ---- Nearest names ---- */

/* Edit distance, for short names. */
static size_t distance(const char *a, const char *b) {
    size_t row[64], n = strlen(b), i, j;
    if (n >= 64) return 64;
    for (j = 0; j <= n; j++) row[j] = j;
    for (i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (j = 0; j < n; j++) {
            size_t best = corner + (a[i] != b[j]);
            corner = row[j + 1];
            if (best > row[j] + 1) best = row[j] + 1;
            if (best > corner + 1) best = corner + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

/* ---- Parsing ---- */

/* Whether two names are the same but for case, spaces, '-' and '_'. */
static bool same_word(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a && strchr(" -_", *a)) a++;
        while (*b && strchr(" -_", *b)) b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (!*a) return true;
    }
}

static bool matches_alias(const char *aliases, const char *name) {
    char alias[40];
    const char *end;
    for (; aliases; aliases = *end ? end + 1 : NULL) {
        end = aliases + strcspn(aliases, "|");
        snprintf(alias, sizeof alias, "%.*s", (int)(end - aliases), aliases);
        if (same_word(alias, name)) return true;
    }
    return false;
}

/* Letters are names by themselves: -W and -w differ. Elsewhere people write --cfg_scale, too. */
static bool option_matches(const option_entry *entry, const char *name) {
    if (name[0] != '-' || name[1] != '-' || !name[2]) return entry->letter && strcmp(entry->letter, name) == 0;
    return same_word(entry->name, name) || matches_alias(entry->alias, name);
}

static const option_entry *find_option(const char *name) {
    size_t i;
    for (i = 0; i < OPTION_COUNT; i++) {
        if (option_matches(&option_table[i], name)) return &option_table[i];
    }
    return NULL;
}

/* Options of other programs that have no counterpart here, and what to do without; | between several names. */
static const struct {
    const char *letter, *names, *advice;
} foreign_options[] = {
    {"-t", "--threads", "the device computes, and there are no threads to count; leave it out"},
    {"-M", "--mode",
     "the model and the inputs say what is made; --init-img begins with a picture, --frames are a clip's, --info PICTURE "
     "tells its parameters, and dit-convert converts models"},
    {"-l", "--listen-ip|--listen-port|--port|--host", "--serve HOST:PORT has both"},
    {"", "--serve-html-path|--enable-cors-header|--auto-launch|--disable-auto-launch",
     "--serve has one page of its own"},
    {"",
     "--diffusion-fa|--fa|--xformers|--use-flash-attention|--use-sage-attention|--use-pytorch-cross-attention|"
     "--use-split-cross-attention|--use-quad-cross-attention|--attention-slicing|--enable-attention-slicing",
     "attention always works in parts, without a table of all its weights; leave it out"},
    {"", "--vae-on-cpu|--cpu-vae|--vae-slicing|--enable-vae-slicing|--enable-vae-tiling",
     "--vae-tiling decodes with less device memory"},
    {"", "--max-vram|--auto-fit|--reserve-vram",
     "dit fits into what is free by itself; --device-memory 6G is the most that it takes"},
    {"",
     "--lowvram|--medvram|--novram|--params-backend|--cpu-offload|--model-cpu-offload|--enable-model-cpu-offload|"
     "--sequential-cpu-offload|--enable-sequential-cpu-offload",
     "--offload-to-cpu, --vae-tiling and --weight-budget 4G take less device memory"},
    {"", "--highvram|--normalvram|--gpu-only|--disable-smart-memory|--async-offload",
     "weights stay on the device as far as they fit there; leave it out"},
    {"", "--cpu|--gpu|--gpu-index|--cuda-device|--backend", "--device chooses from --list-devices"},
    {"", "--control-net-cpu", "--weight-budget 4G streams what is beyond it"},
    {"", "--split-mode", "--split says how several --devices share the work"},
    {"", "--rpc-servers", "--devices takes several of this machine; other machines need a program with MPI"},
    {"",
     "--dtype|--torch-dtype|--precision|--fp16|--bf16|--fp8|--half|--force-fp16|--force-fp32|--fp16-unet|--bf16-unet|"
     "--fp32-unet|--fp16-vae|--bf16-vae|--fp32-vae|--variant",
     "the device says how dit computes, and files what weights are; --type makes these smaller"},
    {"", "--compile|--torch-compile", "kernels are compiled once and kept; --tune measures them"},
    {"", "--image", "--init-img begins with a picture, --ref-image shows one to the model"},
    {"", "--ref-image-args|--disable-auto-resize-ref-image|--increase-ref-index",
     "references get the size and the numbers that the model was made for; leave it out"},
    {"", "--ref-video|--ref-video-audio|--ref-audio",
     "no model here is made for it; --init-video begins with a clip, --control-video is followed"},
    {"", "--guidance-scale", "--cfg-scale is the scale of guidance, --guidance what a distilled model is told"},
    {"", "--img-cfg-scale|--image-guidance-scale|--image-cfg-scale|--high-noise-img-cfg-scale",
     "--cfg-scale is the one scale, of the prompt and of pictures that are given"},
    {"", "--batch-size|--n-iter|--num-images-per-prompt|--num-images|--n", "--batch-count is the number of pictures"},
    {"", "--size|--resolution", "-W and -H are the width and the height in pixels"},
    {"", "--prompt-2|--prompt-3|--negative-prompt-2|--negative-prompt-3",
     "all text encoders read --prompt and --negative-prompt"},
    {"", "--max-sequence-length", "prompts are as long as the model can read; leave it out"},
    {"", "--generator|--manual-seed|--noise-seed",
     "--seed is the number, and --rng cuda makes noise as torch does there"},
    {"", "--easycache|--ucache|--cache-dit|--cache-option|--cache-preset|--scm-mask|--scm-policy",
     "--cache has its settings: easycache:threshold=0.2"},
    {"", "--cache-none|--cache-lru|--cache-classic|--cache-ram",
     "--cache is about steps here; what is loaded stays from one picture to the next"},
    {"", "--sigmas|--timesteps", "--steps and --scheduler choose them"},
    {"", "--ckpt|--checkpoint|--model-path|--ckpt-name|--pretrained-model-name-or-path|--pretrained",
     "--model is the file"},
    {"", "--unet|--unet-name|--transformer", "--diffusion-model is the transformer's file"},
    {"", "--hf-repo|--hf-file|--hf-token|--repo-id",
     "nothing is downloaded; --list-models shows what others have downloaded"},
    {"", "--llm-vision|--qwen2vl-vision", "--llm names the encoder's whole folder, which has its vision tower"},
    {"",
     "--high-noise-steps|--high-noise-sampling-method|--high-noise-scheduler|--high-noise-eta|--high-noise-guidance|"
     "--high-noise-slg-scale|--high-noise-skip-layers|--high-noise-skip-layer-start|--high-noise-skip-layer-end|"
     "--moe-boundary|--boundary-ratio",
     "both experts share steps and sampler, and the model knows where they change; leave it out"},
    {"", "--high-noise-cfg-scale", "--cfg-scale is that of the first expert, --low-noise-cfg-scale that of the second"},
    {"", "--extra-sample-args", "--eta, --apg-eta, --apg-norm, --slg-scale and --dynamic-guidance are some of these"},
    {"", "--taesd-preview-only", "--taesd makes previews alone where there is an autoencoder; leave it out"},
    {"", "--preview-noisy", "previews show the picture that a step foresees; leave it out"},
    {"", "--preview-method|--preview-size", "--preview proj, tae or vae chooses how previews are made"},
    {"",
     "--lora-apply-mode|--lora-scale|--lora-weight|--lora-strength|--lora-path|--lora-name|--lora-weights|"
     "--adapter-weights|--strength-model",
     "--lora FILE:0.8 has the weight; --lora-merge adds it to the model's weights"},
    {"", "--upscale-model|--upscale-repeats|--upscale-tile-size|--hires-upscalers-dir|--hires-upscale-tile-size",
     "no network scales up; --hires makes a second pass in a larger size"},
    {"", "--hires-sigmas", "--hires-steps and --hires-denoising-strength choose the steps of the second pass"},
    {"", "--circular|--circularx|--circulary|--tiling|--seamless",
     "pictures have edges, and none is made to be repeated; leave it out"},
    {"", "--canny", "--control-image is the picture of edges itself, which other programs draw"},
    {"", "--ad-model|--ad-prompt|--ad-negative-prompt|--extra-ad-args|--restore-faces",
     "nothing looks for faces; --init-img with --mask repaints the part that you choose"},
    {"",
     "--photo-maker|--pm-id-images-dir|--pm-id-embed-path|--pm-style-strength|--input-id-images-dir|--style-ratio|"
     "--pulid-weights|--pulid-id-embedding|--pulid-id-weight|--ip-adapter|--ip-adapter-image|--ip-adapter-strength",
     "it is read by no model here; --ref-image shows a picture to models that take one"},
    {"", "--motion-module", "it belongs to Stable Diffusion 1.5, which dit does not run"},
    {"", "--embd-dir|--embedding-dir|--embeddings-dir|--textual-inversion",
     "embeddings of textual inversion are not read; a --lora is"},
    {"", "--qwen-image-layers", "Qwen-Image-Layered is a model that dit does not run"},
    {"", "--prompt-file|--negative-prompt-file", "--batch FILE has a prompt a line, --prompt \"$(cat FILE)\" is one"},
    {"", "--output-begin-idx", "numbers begin with 1, where --output DIR/%03d.png has them"},
    {"", "--output-dir|--output-directory|--outdir|--out-dir|--output-path|--output-folder|--filename-prefix",
     "--output is the whole path, such as DIR/%03d.png"},
    {"", "--metadata-format|--metadata-raw|--metadata-brief|--metadata-all",
     "--info PICTURE tells the parameters that are in it"},
    {"", "--stream-layers", "--weight-budget 4G streams what is beyond it"},
    {"", "--color", "messages have no colours; leave it out"},
    {"", "--mmap|--eager-load|--diffusion-conv-direct|--vae-conv-direct|--force-sdxl-vae-conv-scale",
     "dit loads and computes as the device and the model need it; leave it out"},
    {"", "--vae-tile-overlap|--vae-relative-tile-size|--extra-tiling-args|--temporal-tiling",
     "--vae-tile-size N makes tiles of N pixels, which overlap by themselves"},
    {"", "--sampler-rng", "--rng is the sampler's, too"},
    {"",
     "--prediction|--timestep-shift|--vae-format|--model-args|--chroma-disable-dit-mask|--chroma-enable-t5-mask|"
     "--chroma-t5-mask-pad",
     "the model's files tell what it is; --flow-shift moves its steps"},
    {"", "--convert-name", "dit-convert makes model files; leave it out"},
    {"", "--imat-in|--imat-out", "dit-convert --calibrate PROMPTS.txt measures what matrices read"},
};

/* Advice for an option of another program; NULL: it is none that is known. */
static const char *foreign_advice(const char *name) {
    size_t i;
    for (i = 0; i < sizeof foreign_options / sizeof foreign_options[0]; i++)
        if (strcmp(foreign_options[i].letter, name) == 0 || matches_alias(foreign_options[i].names, name))
            return foreign_options[i].advice;
    return NULL;
}

/* A word that stands where an option does. */
static int unexpected_word(const char *word) {
    static const char *const programs[] = {"convert", "plan", "bench", "compare"};
    char option[40];
    size_t i;
    for (i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (strcmp(word, programs[i]) == 0)
            return complain(EXIT_USAGE, "unexpected '%s'; dit-%s is a program of its own", word, word);
    if (snprintf(option, sizeof option, "--%s", word) < (int)sizeof option && find_option(option))
        return complain(EXIT_USAGE, "unexpected '%s'; did you mean %s?", word, option);
    if (strchr(word, ' ')) return complain(EXIT_USAGE, "unexpected '%s'; a prompt stands behind --prompt", word);
    return complain(EXIT_USAGE, "unexpected '%s'; put the whole prompt in quotes: --prompt \"a red heart\"", word);
}

static int unknown_argument(const char *name) {
    const char *nearest = option_table[0].name, *advice;
    const size_t length = strcspn(name, "=");
    char word[64];
    size_t i;
    if (name[0] != '-') return unexpected_word(name);
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), name);
    advice = foreign_advice(word);
    if (advice) return complain(EXIT_USAGE, "%s is no option of dit: %s", word, advice);
    for (i = 0; word[i]; i++) word[i] = word[i] == '_' ? '-' : (char)tolower((unsigned char)word[i]);
    for (i = 1; i < OPTION_COUNT; i++) {
        if (distance(word, option_table[i].name) < distance(word, nearest)) nearest = option_table[i].name;
    }
    for (i = OPTION_COUNT; i-- > 0 && length > 4;) /* the first one that begins so */
        if (strncmp(option_table[i].name, word, length) == 0) nearest = option_table[i].name;
    if (distance(word, nearest) > (length - 1) / 3 && (length <= 4 || strncmp(nearest, word, length) != 0))
        return complain(EXIT_USAGE, "unknown option %s; --help-all lists all", name);
    return complain(EXIT_USAGE, "unknown option %s; did you mean %s? (--help-all lists all)", name, nearest);
}

/* The value of an option that is given without one; NULL: it needs one. */
static const char *value_left_out(const option_entry *entry) {
    if (strcmp(entry->name, "--info") == 0) return "";
    if (strcmp(entry->name, "--preview") == 0) return "terminal";
    return strcmp(entry->name, "--serve") == 0 ? "7860" : NULL;
}

/* One more path behind those that are there. */
static int add_reference(const char *path, options *o) {
    static char paths[16384];
    const size_t length = strlen(o->references);
    if (length + strlen(path) + 2 > sizeof paths) return complain(EXIT_USAGE, "--ref-image: too many paths");
    if (o->references != paths) memcpy(paths, o->references, length);
    snprintf(paths + length, sizeof paths - length, "|%s", path);
    o->references = paths;
    return EXIT_GOOD;
}

/* One option at argv[*i]; its value may follow as the next argument, after '=', or right behind a letter (-s7). */
static int parse_option(int argc, char **argv, int *i, options *o) {
    char name[32] = "";
    const char *text = argv[*i], *attached = NULL;
    bool is_long = strncmp(text, "--", 2) == 0;
    size_t length = is_long ? strcspn(text, "=") : strlen(text);
    const option_entry *entry = NULL;
    if (length < sizeof name) {
        memcpy(name, text, length);
        entry = find_option(name);
    }
    if (is_long && text[length]) attached = text + length + 1;
    if (!entry && !is_long && text[0] == '-' && text[1]) {
        snprintf(name, sizeof name, "%.2s", text);
        entry = find_option(name);
        if (entry && !entry->value) entry = NULL;
        attached = text + 2;
    }
    if (!entry) return unknown_argument(text);
    if (!entry->value) {
        if (attached) return complain(EXIT_USAGE, "%s takes no value", entry->name);
        *option_flag(o, entry) = true;
        return EXIT_GOOD;
    }
    if (!attached && (*i + 1 >= argc || find_option(argv[*i + 1]))) {
        const char *usual = value_left_out(entry);
        if (usual) return *option_text(o, entry) = usual, EXIT_GOOD;
        return complain(EXIT_USAGE, "%s needs a value; write %s=VALUE for one that begins as an option does", text,
                        is_long ? text : entry->name);
    }
    if (!attached) attached = argv[++*i];
    if (entry->value == offsetof(options, references) + 1 && o->references) return add_reference(attached, o);
    *option_text(o, entry) = attached;
    if (option_text(o, entry) != &o->lora) return EXIT_GOOD;
    if (o->lora_count == LORA_MOST) return complain(EXIT_USAGE, "--lora: more than %d LoRAs", LORA_MOST);
    o->loras[o->lora_count++] = o->lora;
    return EXIT_GOOD;
}

/* Reads the arguments into o, over what o has already. */
static int parse_options(int argc, char **argv, options *o) {
    int i, code = EXIT_GOOD;
    for (i = 1; i < argc && code == EXIT_GOOD; i++) {
        if (strcmp(argv[i], "doctor") == 0)
            o->doctor = true;
        else
            code = parse_option(argc, argv, &i, o);
    }
    return code;
}

/* ---- The library's sentences ---- */

/* Members of dit.h's structures in them, and the options that stand for them here; ^: where a sentence begins, also
   behind the name of a structure. */
static const char *const member_words[][2] = {
    {"dit_guidance: guidance is no input of this model; distilled must be 0",
     "--guidance: this model is told none; leave it out"},
    {"dit_job_desc: this model uses no layers of a CLIP encoder; clip_skip must be 0",
     "--clip-skip: this model uses no layers of a CLIP encoder; leave it out"},
    {"dit_job_desc: strength is given without init_image, the clip",
     "--strength is given without --init-video, the clip"},
    {"dit_job_desc: this model moves a picture as it is; strength must be 0",
     "--strength: this model moves a picture as it is; leave it out"},
    {"device_memory_limit in the context's desc", "--device-memory"},
    {"dit_job_desc: references are given, and this model", "--ref-image: this model"},
    {" takes none; leave them out", " takes no references; leave them out"},
    {"dit_model_desc: types has a rule for", "--tensor-type-rules or --type has a rule for"},
    {"dit_guidance: ", ""},
    {"dit_job_desc: ", ""},
    {"dit_model_desc: ", ""},
    {"dit_context_desc: ", ""},
    {"guidance.scale", "--cfg-scale"},
    {"guidance.distilled", "--guidance"},
    {"guidance.skip_layer", "--slg-scale"},
    {"guidance.rescale has", "--guidance-rescale has"},
    {"guidance.project has", "--apg-eta has"},
    {"guidance.norm_limit", "--apg-norm"},
    {"guidance.length_limit", "--cfg-normalization"},
    {"guidance.dynamic has", "--dynamic-guidance has"},
    {"guidance.first or last has", "--guidance-start or --guidance-end has"},
    {"guidance.skip_blocks", "--skip-layers"},
    {"skip_first", "--skip-layer-start"},
    {"skip_last", "--skip-layer-end"},
    {"norm_limit", "--apg-norm"},
    {"length_limit", "--cfg-normalization"},
    {"clip_skip is", "--clip-skip leaves out"},
    {"clip_skip", "--clip-skip"},
    {"weight_budget", "--weight-budget"},
    {"release_text_encoders", "--offload-to-cpu"},
    {"keep_streamed", "--keep-streamed"},
    {"image_count", "--batch-count"},
    {"frame_count", "--frames"},
    {"mask_strategy", "--mask-strategy"},
    {"loop_count", "--loop"},
    {"loop_frames", "--loop-frames"},
    {"loop_edit", "--loop-edit"},
    {"init_count", "frames of --init-video"},
    {"reference_count is ", "the number of --ref-image, --init-img and --init-video is "},
    {"^devices '", "'"},
    {"^input noise has ", "--noise has "},
    {"^fps ", "--fps "},
    {"negative_conditioning: ", "--conditioning: its second half: "},
    {"^conditioning: ", "--conditioning: "},
    {"make it again with dit_encode_prompt", "make it again with --encode-prompt"},
    {"give init_image, and mask, which", "name it with --init-img, and --mask, which"},
    {"init_image is missing", "--init-img is missing"},
    {"mask is missing", "--mask is missing"},
    {"init_image", "--init-img"},
    {"give control_image", "name it with --control-image"},
    {"this file as a component with the role DIT_ROLE_CONTROL", "this file with --control-net"},
    {"control_image", "--control-image"},
    {"adapters[0].image", "--control-image"},
    {"adapters[0].mode", "--control-mode"},
    {"add one as a component with the role DIT_ROLE_CONTROL when it is loaded", "name one with --control-net"},
    {"cache \"references\" is about references, and there are none; it must be NULL",
     "--keep-references is about --ref-image, which is not there; leave it out"},
    {"cache \"references\"", "--keep-references"},
    {"; it must be NULL", "; leave it out"},
    {"^preview wants ", "--preview wants "},
    {"add its file as a component with the role DIT_ROLE_TAE", "name its file with --taesd"},
    {"add the component (image_encoder, DIT_ROLE_IMAGE_ENCODER)", "name its file with --clip-vision"},
    {"add it as a component with the role DIT_ROLE_TRANSFORMER_2", "name its file with --uncond-diffusion-model"},
    {"take DIT_PREVIEW_TAE or DIT_PREVIEW_VAE", "take tae or vae in place of proj"},
    {"^cache \"", "--cache \""},
    {"^cache: ", "--cache: "},
    {"vae_tile", "--vae-tile-size"},
    {"guidance.sound_scale is ", "--sound-cfg-scale is "},
    {"guidance.perturb and guidance.isolate ", "--stg-scale and --modality-scale "},
    {"guidance.skip_blocks ", "--skip-layers "},
    {"give guidance.scale another value than 1", "give --cfg-scale another value than 1"},
    {"keep_state and state are", "--resume is"},
    {"keep_state and state hold", "--resume keeps"},
    {"dit_job_desc.state: ", "--resume: "},
    {"resume_on_loss", "--resume-on-loss"},
    {"class_labels", "--class"},
    {"^eta ", "--eta "},
    {"^shift ", "--flow-shift "},
    {"^strength is", "--strength is"},
    {"^steps is", "--steps is"},
    {"^unknown sampler", "--sampler: unknown"},
    {"^unknown schedule", "--scheduler: unknown"},
    {"^schedule ", "--scheduler "},
    {"^split ", "--split "},
};

/* message in the words of the command line. */
static const char *in_options(const char *message, char *out, size_t size) {
    const char *p = message;
    size_t length = 0, i;
    while (*p && length + 1 < size) {
        const char *from = NULL, *to = NULL;
        for (i = 0; i < sizeof member_words / sizeof member_words[0] && !to; i++) {
            from = member_words[i][0];
            if (*from == '^' && length > 0) continue;
            from += *from == '^';
            if (strncmp(p, from, strlen(from)) == 0) to = member_words[i][1];
        }
        if (!to) {
            out[length++] = *p++;
            continue;
        }
        p += strlen(from);
        snprintf(out + length, size - length, "%s", to);
        length += strlen(out + length);
    }
    out[length] = 0;
    return out;
}

/* ---- Numbers: every refusal names the nearest value that would do ---- */

/* A number in as few digits as give it again. */
static void shortest_number(float value, char *out, size_t size) {
    int digits = 6;
    do snprintf(out, size, "%.*g", digits, (double)value);
    while (strtof(out, NULL) != value && ++digits < 10);
}

/* text as a number in any notation, clamped to 0 .. limit; -1 when it does not begin with one. */
static double loose_number(const char *text, double limit) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || value != value) return -1;
    return value < 0 ? 0 : value > limit ? limit : value;
}

static bool strict_count(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == 0 && errno == 0;
}

/* A whole number that is a multiple of `multiple` in multiple .. most. usual is named when text is no number at all. */
static int take_count(const char *option, const char *text, uint32_t multiple, uint32_t most, uint32_t usual,
                      const char *unit, uint32_t *out) {
    uint64_t value;
    double loose, nearest;
    most -= most % multiple;
    if (strict_count(text, &value) && value >= multiple && value <= most && value % multiple == 0) {
        *out = (uint32_t)value;
        return EXIT_GOOD;
    }
    loose = loose_number(text, most);
    nearest = loose < 0 ? usual : (double)((uint32_t)(loose / multiple + 0.5) * multiple);
    if (nearest < multiple) nearest = multiple;
    if (nearest > most) nearest = most;
    if (multiple > 1) {
        return complain(EXIT_USAGE,
                        "%s '%s': must be a multiple of %u from %u to %u%s; the nearest valid value is %.0f", option,
                        text, multiple, multiple, most, unit, nearest);
    }
    return complain(EXIT_USAGE, "%s '%s': must be a whole number from 1 to %u%s; the nearest valid value is %.0f",
                    option, text, most, unit, nearest);
}

/* A1111, ComfyUI and stable-diffusion.cpp count the layer that CLIP stops at from the end: 1 is the last one, and 0 and
   -1 leave it to the model. *out: the layers that are left out. */
static int take_clip_skip(const char *text, uint32_t *out) {
    int code;
    *out = 0;
    if (strcmp(text, "0") == 0 || strcmp(text, "-1") == 0) return EXIT_GOOD;
    code = take_count("--clip-skip", text, 1, 33, 2, "", out);
    if (code || --*out) return code;
    return complain(EXIT_USAGE,
                    "--clip-skip 1: models that read layers of CLIP leave out one at least, and this leaves "
                    "out none; 2 leaves out the last one");
}

static int take_guidance(const char *text, float usual, float *out) {
    const double most = 100;
    char *end;
    double value = strtod(text, &end), nearest = loose_number(text, most);
    if (end != text && *end == 0 && value >= 1 && value <= most) {
        *out = (float)value;
        return EXIT_GOOD;
    }
    nearest = nearest < 0 ? usual : nearest < 1 ? 1 : nearest;
    return complain(EXIT_USAGE,
                    "--cfg-scale '%s': must be a number from 1 (no guidance) to 100; the nearest valid value is %g",
                    text, nearest);
}

/* Options that are numbers of a job, 0 where they are not given; a control net's strength is 1 then. */
typedef struct job_numbers {
    float control_strength, control_first, control_last, control_mode, length_limit;
    float mask_blur, mask_crop, hires_scale, hires_strength, strength, distilled, slg_scale, skip_first, skip_last,
        low_guidance, sound_guidance, stg_scale, modality_scale, rescale, apg_eta, apg_norm, guided_first, guided_last,
        eta, shift, fps, loop_edit;
} job_numbers;

typedef struct number_entry {
    const char *option;
    size_t text, value; /* offsets in options and job_numbers */
    double least, most, usual;
} number_entry;

#define NUMBER(member) offsetof(options, member), offsetof(job_numbers, member)
static const number_entry number_table[] = {
    {"--strength", NUMBER(strength), 0.001, 1, 0.75},
    {"--mask-blur", NUMBER(mask_blur), 0, 64, 4},
    {"--padding-mask-crop", NUMBER(mask_crop), 0, 16384, 32},
    {"--hires-scale", NUMBER(hires_scale), 1, 8, 2},
    {"--hires-denoising-strength", NUMBER(hires_strength), 0.001, 1, 0.7},
    {"--guidance", NUMBER(distilled), 0.001, 1000, 3.5},
    {"--guidance-start", NUMBER(guided_first), 0, 1, 0},
    {"--guidance-end", NUMBER(guided_last), 0.001, 1, 1},
    {"--low-noise-cfg-scale", NUMBER(low_guidance), 1, 100, 3},
    {"--sound-cfg-scale", NUMBER(sound_guidance), 1, 100, 7},
    {"--stg-scale", NUMBER(stg_scale), 0, 100, 1},
    {"--modality-scale", NUMBER(modality_scale), 1, 100, 3},
    {"--guidance-rescale", NUMBER(rescale), 0, 1, 0.7},
    {"--apg-eta", NUMBER(apg_eta), 0, 1, 0},
    {"--apg-norm", NUMBER(apg_norm), 0.001, 1e6, 15},
    {"--cfg-normalization", NUMBER(length_limit), 0.001, 1e6, 1},
    {"--slg-scale", NUMBER(slg_scale), 0, 100, 2.8},
    {"--skip-layer-start", NUMBER(skip_first), 0, 1, 0.01},
    {"--skip-layer-end", NUMBER(skip_last), 0.001, 1, 0.2},
    {"--eta", NUMBER(eta), 0, 1, 0},
    {"--flow-shift", NUMBER(shift), 0.001, 1000, 3},
    {"--fps", NUMBER(fps), 0.001, 1000, 24},
    {"--loop-edit", NUMBER(loop_edit), 0, 1, 0},
    {"--control-strength", NUMBER(control_strength), 0, 100, 1},
    {"--control-start", NUMBER(control_first), 0, 1, 0},
    {"--control-end", NUMBER(control_last), 0.001, 1, 1},
    {"--control-mode", NUMBER(control_mode), 0, 63, 0},
};
#define NUMBER_COUNT (sizeof number_table / sizeof number_table[0])

static const char *number_text(const options *o, const number_entry *entry) {
    return *(const char *const *)(const void *)((const char *)o + entry->text);
}

static int take_number(const number_entry *entry, const char *text, float *out) {
    char *end;
    double value = strtod(text, &end), nearest = value < entry->least ? entry->least : entry->most;
    if (end != text && *end == 0 && value >= entry->least && value <= entry->most) {
        *out = (float)value;
        return EXIT_GOOD;
    }
    if (end == text || value != value || (value >= entry->least && value <= entry->most)) nearest = entry->usual;
    return complain(EXIT_USAGE, "%s '%s': must be a number from %g to %g; the nearest valid value is %g", entry->option,
                    text, entry->least, entry->most, nearest);
}

static int take_numbers(const options *o, job_numbers *out) {
    size_t i;
    int code = EXIT_GOOD;
    for (i = 0; i < NUMBER_COUNT && !code; i++) {
        const char *text = number_text(o, &number_table[i]);
        if (text) code = take_number(&number_table[i], text, (float *)(void *)((char *)out + number_table[i].value));
    }
    if (!o->control_strength) out->control_strength = 1;
    if (o->guided_first && !o->guided_last) out->guided_last = 1;
    if (o->control_first && !o->control_last) out->control_last = 1;
    if (o->skip_first && !o->skip_last) out->skip_last = 0.2f;
    if (o->skip_last && !o->skip_first) out->skip_first = 0.01f;
    return code;
}

/* Parts of the steps begin before they end. */
static int check_ranges(const options *o, const job_numbers *n) {
    if (o->guided_first && n->guided_first >= n->guided_last)
        return complain(EXIT_USAGE, "--guidance-start %g: must be less than --guidance-end, which is %g",
                        (double)n->guided_first, (double)n->guided_last);
    if (n->control_mode != floorf(n->control_mode))
        return complain(EXIT_USAGE, "--control-mode %g: must be a whole number, as the net's page numbers its kinds",
                        (double)n->control_mode);
    if (o->control_first && n->control_first >= n->control_last)
        return complain(EXIT_USAGE, "--control-start %g: must be less than --control-end, which is %g",
                        (double)n->control_first, (double)n->control_last);
    if (o->skip_first && n->skip_first >= n->skip_last)
        return complain(EXIT_USAGE, "--skip-layer-start %g: must be less than --skip-layer-end, which is %g",
                        (double)n->skip_first, (double)n->skip_last);
    return EXIT_GOOD;
}

/* "7,8,9", as sd.cpp writes it also in brackets: bit i for block i. */
static int take_blocks(const char *text, uint64_t *out) {
    const char *p = text + (*text == '[');
    char *end = NULL;
    for (; *p && *p != ']'; p = end + (*end == ',')) {
        unsigned long block = strtoul(p, &end, 10);
        if (*p < '0' || *p > '9' || block > 63 || !strchr(",]", *end)) break;
        *out |= (uint64_t)1 << block;
    }
    if (*out && (*p == 0 || strcmp(p, "]") == 0)) return EXIT_GOOD;
    return complain(EXIT_USAGE, "--skip-layers '%s': must be numbers of blocks from 0 to 63, such as 7,8,9", text);
}

/* Any negative number is a random seed, as stable-diffusion.cpp and A1111 have it; *random says so. */
static int take_seed(const char *text, uint64_t *out, bool *random) {
    const double most = 18446744073709549568.0; /* the largest float below 2^64 */
    double loose = loose_number(text, most);
    uint64_t below;
    *random = same_word(text, "random") || (*text == '-' && strict_count(text + 1, &below));
    if (*random || strict_count(text, out)) return EXIT_GOOD;
    return complain(EXIT_USAGE,
                    "--seed '%s': must be a whole number from 0 to 18446744073709551615, or -1 or random; the nearest "
                    "valid value is %llu",
                    text,
                    loose < 0       ? 42ull
                    : loose >= most ? 18446744073709551615ull
                                    : (unsigned long long)loose);
}

/* A name out of a list that name_at enumerates, its spelling folded; NULL stays NULL, what is usual. */
static int take_name(const char *option, const char *text, const char *(*name_at)(uint32_t), const char **out) {
    const char *nearest = name_at(0), *name;
    uint32_t i;
    *out = text;
    if (!text) return EXIT_GOOD;
    for (i = 0; (name = name_at(i)) != NULL; i++) {
        *out = name;
        if (same_word(name, text)) return EXIT_GOOD;
        if (distance(text, name) < distance(text, nearest)) nearest = name;
    }
    return complain(EXIT_USAGE, "%s '%s': there is none of this name; the nearest is %s, '%s list' shows all", option,
                    text, nearest ? nearest : "none", option);
}

/* Sampler and schedule as people write them anywhere: "Euler a", "dpm++2m", "DPM++ 2M Karras". */
static int take_sampler(options *o) {
    dit_error err;
    const char *both = NULL;
    if (o->sampler && dit_find_sampler(o->sampler, &o->sampler, &both, &err) != DIT_OK)
        return complain(EXIT_USAGE, "--sampler '%s': %s", o->sampler, err.message);
    if (o->schedule && dit_find_schedule(o->schedule, &o->schedule, &err) != DIT_OK)
        return complain(EXIT_USAGE, "--scheduler '%s': %s", o->schedule, err.message);
    if (!o->schedule) o->schedule = both;
    return EXIT_GOOD;
}

static const char *rng_name(uint32_t index) {
    return index == 0 ? "cpu" : index == 1 ? "cuda" : index == 2 ? "philox" : NULL;
}

static int take_rng(const char *text, dit_rng *out) {
    const char *name;
    int code = take_name("--rng", text, rng_name, &name);
    *out = !name || strcmp(name, "cpu") == 0 ? DIT_RNG_TORCH_CPU : DIT_RNG_PHILOX;
    return code;
}

/* Bytes, with K, M or G behind a number for powers of 1024. */
static int take_size(const char *option, const char *text, uint64_t *out) {
    static const char units[] = "KMG";
    char *end;
    double value = strtod(text, &end);
    const char *unit = end != text && *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
    if (unit) value *= (double)((uint64_t)1024 << 10 * (unit - units)), end++;
    if (end == text || *end || !(value >= 1) || value >= 1e18) {
        return complain(EXIT_USAGE, "%s '%s': must be a size such as 800M or 4G", option, text);
    }
    *out = (uint64_t)value;
    return EXIT_GOOD;
}

/* ---- Types of weights ---- */

enum { MOST_TYPE_RULES = 16 };
typedef struct type_rules {
    dit_type_rule rules[MOST_TYPE_RULES];
    uint32_t count;
    char globs[1024];
} type_rules;

static const char *type_name(uint32_t index) {
    static const char *const names[] = {"stored", "i8r", "i8r+rot", "i4r+rot", "i4_group"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

static int take_type_rule(const char *option, const char *glob, const char *type, size_t length, type_rules *out) {
    static const dit_type types[] = {DIT_TYPE_STORED, DIT_TYPE_I8_ROW, DIT_TYPE_I8_ROW_ROTATED, DIT_TYPE_I4_ROW_ROTATED,
                                     DIT_TYPE_I4_GROUP};
    dit_type_rule *rule = &out->rules[out->count];
    char name[64];
    uint32_t i;
    snprintf(name, sizeof name, "%.*s", (int)length, type);
    for (i = 0; type_name(i); i++) {
        if (!same_word(type_name(i), name)) continue;
        if (out->count++ == MOST_TYPE_RULES)
            return complain(EXIT_USAGE, "%s: more than %d rules", option, MOST_TYPE_RULES - 1);
        rule->tensors = glob;
        rule->type = types[i];
        return EXIT_GOOD;
    }
    return complain(
        EXIT_USAGE,
        "%s '%.*s': weights are used as stored, i8r, i8r+rot, i4r+rot or i4_group; dit-convert makes files of other types",
        option, (int)length, type);
}

/* "GLOB=TYPE,GLOB=TYPE" */
static int take_type_list(const char *text, type_rules *out) {
    static const char option[] = "--tensor-type-rules";
    char *glob = out->globs, *end, *type;
    int code = EXIT_GOOD;
    if (snprintf(glob, sizeof out->globs, "%s", text) >= (int)sizeof out->globs)
        return complain(EXIT_USAGE, "%s: longer than %u bytes", option, (unsigned)sizeof out->globs - 1);
    for (; glob && !code; glob = end) {
        end = strchr(glob, ',');
        if (end) *end++ = 0;
        type = strrchr(glob, '=');
        if (!type || type == glob) {
            return complain(EXIT_USAGE, "%s '%s': GLOB=NAME is needed, such as \"text_encoder.*=i8r\"", option, glob);
        }
        *type++ = 0;
        code = take_type_rule(option, glob, type, strlen(type), out);
    }
    return code;
}

/* int8 suits the blocks of a transformer: with them alone the latents keep to the accuracy that tests/graph/w8a8.c asks
   for. */
static int take_types(const options *o, type_rules *out) {
    int code = o->type_rules ? take_type_list(o->type_rules, out) : EXIT_GOOD;
    if (code || !o->type) return code;
    return take_type_rule("--type", "transformer.*blocks.*", o->type, strlen(o->type), out);
}

/* The offset of the first byte that is not well-formed UTF-8, or -1. */
static long broken_utf8(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
        unsigned more = *p < 0x80             ? 0
                        : (*p & 0xe0) == 0xc0 ? 1
                        : (*p & 0xf0) == 0xe0 ? 2
                        : (*p & 0xf8) == 0xf0 ? 3
                                              : 9,
                 i;
        uint32_t code = more == 0 ? *p : *p & (0x3fu >> more);
        if (more == 9) break;
        for (i = 1; i <= more && (p[i] & 0xc0) == 0x80; i++) code = code << 6 | (p[i] & 0x3fu);
        if (i <= more || code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) break;
        p += more + 1;
    }
    return *p ? (long)(p - (const unsigned char *)text) : -1;
}

static int check_text(const char *option, const char *text) {
    long at = text ? broken_utf8(text) : -1;
    if (at < 0) return EXIT_GOOD;
    return complain(EXIT_USAGE, "%s: byte %ld (0x%02x) is not valid UTF-8; use a UTF-8 terminal or script", option,
                    at + 1, (unsigned char)text[at]);
}
#endif
