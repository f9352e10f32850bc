/* The state of a run of build/dit: the options as numbers (request), all that is made from them (app), and the signal
   that interrupts it. Include it after dit.h, clip.h, lora.h, pictures.h and screen.h. Not part of dit.h. */
#ifndef APP_H
#define APP_H
#include "clip.h"
#include "lora.h"
#include "options.h"
#include "pictures.h"
#include "screen.h"
#include <signal.h>

typedef struct text_buffer {
    unsigned char *bytes;
    size_t size, room;
} text_buffer;

typedef struct known_text { /* a prompt and what the encoders made of it; prompt NULL: none */
    char *prompt;
    bool plain; /* without weights of words */
    text_buffer blob;
} known_text;

enum { MOST_REFERENCES = 10, HANDED = 2 + MOST_REFERENCES };
typedef struct given_clip { /* frames that were read and scaled; frames NULL: none */
    picture *frames;
    dit_image *images; /* the same for the library, when all are there */
    uint32_t count, room;
} given_clip;

typedef struct hires {      /* --hires: a second pass in a larger size (hires.h) */
    bool wanted, second;    /* second: that pass is made */
    uint32_t width, height; /* of the pass that is not made now */
    uint32_t steps;         /* of the second pass; 0: as many as the first one has */
    uint32_t upscaler;      /* number in upscalers */
    picture picture;        /* it begins with this, scaled up; rgba NULL: with latents */
    dit_image image;        /* the same for the library */
    float *latents;         /* [C, h, w], scaled up; NULL: it begins with the picture */
} hires;

typedef struct paste {            /* how what is made goes back into the picture that is repainted (inpaint.h) */
    picture whole;                /* that picture */
    float *weights;               /* [height][width] of it, how much of what is made shows; NULL: nothing is pasted */
    unsigned char *made;          /* room for the outcome */
    uint32_t x, y, width, height; /* the part of it that is made */
} paste;

typedef struct request { /* the options as numbers */
    uint32_t width, height, steps, count, preview_interval;
    int quality; /* of JPEG and WebP */
    float guidance;
    uint64_t seed, weight_budget, device_memory;
    uint32_t vae_tile; /* 0: none */
    bool offload;
    int32_t class_label;
    dit_rng rng;
    st_tensor noise; /* [count, C, h, w], of clips of rank 5; data NULL: none */
    type_rules types;
    job_numbers numbers;
    uint64_t skip_blocks;
    uint32_t clip_skip;
    picture start, end, mask, control; /* rgba NULL: none */
    dit_image control_image;
    dit_adapter control_net;
    text_buffer texts[2];                  /* prompts that were encoded elsewhere: the negative one, the other one */
    dit_image start_images[2], mask_image; /* --init-img and --end-img; --mask */
    uint32_t frames;                       /* of a clip; 0: the model makes pictures */
    double fps;                            /* of a clip */
    uint32_t loops;                        /* clips that continue each other; 1: one alone */
    uint32_t loop_frames;                  /* latent frames; 0: the model's own number */
    given_clip video;                      /* --init-video or --control-video */
    given_clip masks;                      /* --mask of a clip that is followed: a frame, or as many as it has */
    picture reference_pictures[MOST_REFERENCES]; /* --ref-image */
    dit_image reference_images[MOST_REFERENCES];
    dit_reference references[MOST_REFERENCES];
    char strategy[32]; /* the --mask-strategy that --init-img and --end-img stand for */
    uint32_t reference_count;
    hires hires;
    paste paste;
    uint32_t asked_width, asked_height; /* of the first pass, as a picture's text tells them */
} request;

enum { STRIP_FRAMES = 8, STRIP_SIDE = 128, MOST_REFERENCE_FRAMES = 4096 };

struct app;
typedef struct follower {
    bool (*watch)(struct app *a, const dit_status *status); /* at every look at the progress; false: stop */
    bool (*take)(struct app *a, uint32_t i);                /* a picture, in place of a file; NULL: files */
    void (*preview)(struct app *a, const unsigned char *rgba, uint32_t width, uint32_t height);
    still_kind kind;  /* of what take makes of a picture */
    bool scales_mask; /* as A1111 does: a mask has the picture's place, whatever its size */
    bool previews;    /* are wanted */
    bool edits;       /* the picture to begin with is to be edited: models for that read it as a reference */
    void *user;
} follower;

typedef struct app {
    options o;
    request r;
    char model_path[PATH_SIZE];              /* or that of the transformer, where it stands for all */
    dit_component parts[14 + 2 * LORA_MOST]; /* two experts have a part each for a LoRA */
    lora_list loras;
    char tokenizer_paths[2][PATH_SIZE]; /* paths of the bundled tokenizers, CLIP's and T5's, where they are needed */
    uint32_t part_count;
    dit_model_info info;
    dit_context *context;
    dit_model *headers; /* of the model, for questions before it is loaded */
    dit_model *model;
    dit_job *job;
    dit_job *other_job; /* that of the other pass of --hires; NULL: none */
    dit_error err;
    unsigned char *rgba, *cache, *mark;
    size_t cache_size, mark_size;
    options repeated;                                             /* of --repeat-from */
    char *repeated_text, repeated_paths[OPTION_COUNT][PATH_SIZE]; /* of options that are TOLD_FILE */
    char hashes[7][16];   /* sums of the files of --init-img, --mask, --noise and --conditioning, of the frames of
                             --init-video or --control-video, of --control-image, of --end-img; empty: they cannot be read
                             twice */
    uint32_t noise_first; /* the first picture in --noise's file that is used */
    char *split;          /* as the PNG tells it: only where it changes the picture; freed with free */
    float *latents;       /* [count, C, h, w], of clips [count, C, frames, h, w] */
    size_t latent_room;   /* values that one may have */
    uint32_t latent_frames;
    clip clip;            /* that is being written; path NULL: none */
    uint32_t loop, shown; /* number of the clip that continues others, and its frames that were taken */
    unsigned char *strip; /* frames of a clip, for --preview; freed with free */
    uint32_t strip_width, strip_height, strip_frames;
    char *loop_prompt;       /* freed with free */
    char *loaded;            /* the options that context and model were made with (loading_text); freed with free */
    known_text known[2];     /* prompts that were encoded apart from a job: a negative one, another one */
    dit_encoding *ahead;     /* makes known[1]; NULL: it is there, or there is none */
    const char *next_prompt; /* of a batch: the line behind this one; NULL: it is not known */
    struct {                 /* what relieve() had to change for this model */
        uint32_t vae_tile;
        uint64_t weight_budget;
        bool offload;
    } relief;
    struct { /* seconds of this picture */
        double ready, prompt, steps, decode, total;
    } took;
    struct {                         /* of --resume; text NULL: it is not asked for */
        char path[PATH_SIZE], *text; /* the parameters, which must be those in the file; freed with free */
        unsigned char *file;         /* as it was found, freed with free; state is in it, NULL: there is none */
        const unsigned char *state;
        size_t state_size;
        uint32_t frames, step; /* numbered frames that are written; step of the newest state */
        double at;             /* when that was written */
        bool kept;
    } resume;
    follower follow;        /* who hears of the request besides the terminal */
    picture handed[HANDED]; /* --init-img, --mask, --ref-image that came as bytes, not as files; rgba NULL: none */
    sheet grid;             /* of --grid */
    screen screen;          /* where --preview draws */
    uint32_t first_picture; /* pictures that this run has made in requests before */
    const char *entry;      /* of a batch: members that begin each line of its JSON; NULL: none */
    uint32_t line;          /* likewise; 0: none */
    named_path *made;       /* what lines of the batch have made: path and "--output of line 3" (remember_outputs) */
    size_t made_count;
    char title[16];           /* stands before a picture's name when it is told: "$3  " */
    uint32_t told_step;       /* of the last line in JSON */
    bool terminal, line_open; /* stderr is a terminal; a progress line stands there */
    bool open_out;            /* standard output is open */
    double started, told;     /* seconds: begin of this picture, last progress */
    double first_at;          /* when the first step was seen finished, and how far the picture was then */
    dit_status first;
    uint32_t preview_id;
    dit_preview preview_maker;
} app;

/* ---- Interruption: the only global state, because signal handlers have no other ---- */

static volatile sig_atomic_t caught_signal;
static dit_job *volatile running_job;

static void on_signal(int number) {
    caught_signal = number;
    dit_job_cancel(running_job);
    signal(number, end_by_signal); /* a second Ctrl-C ends the program at once */
}

/* A signal ends the reading of a pipe that gives nothing. */
static inline void end_reading_by_signals(void) {
#ifndef _WIN32
    struct sigaction action;
    memset(&action, 0, sizeof action); /* without SA_RESTART */
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
#endif
}
#endif
