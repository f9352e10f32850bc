/* job: prompt -> image. The state machine behind the public calls. */
#ifndef DITI_JOB_H
#define DITI_JOB_H
#include "graph/ops.h"
#include "graph/plan.h"
#include "model/model.h"
#include "sample/sample.h"
#include "split/mesh.h"
#include "split/split.h"
#include "text/text.h"
#include "vae/vae.h"
#include "weights/lora.h"

/* Self-tests that have begun (selftest.c): that of the moment, and those that an earlier start, or a device, did not
   survive. */
#define DITI_MAX_MARKS 32u
typedef struct diti_marks {
    dit_marker hook;
    uint32_t count;
    uint64_t keys[DITI_MAX_MARKS]; /* diti_proof_key */
} diti_marks;

struct dit_context {
    diti_env env;
    diti_device *device; /* the first of devices: what one device suffices for */
    diti_device *devices[DITI_MAX_DEVICES];
    uint32_t device_count;
    diti_peers *peers;     /* NULL: one device in one process */
    dit_progress progress; /* by telling, where there are other processes */
    diti_telling telling;
    dit_worker worker;
    diti_trace *trace; /* NULL: none */
    char *overrides;
    diti_marks marks;
    dit_job *retired;              /* under retired_lock, as is collecting: retire.c */
    int retired_lock, any_retired; /* any_retired: atomic */
    uint32_t collecting;           /* threads that destroy retired jobs */
};

/* In the order in which weights are to stay on the device; one for each text encoder. */
typedef enum diti_part {
    DITI_PART_TRANSFORMER,
    DITI_PART_TRANSFORMER_2,
    DITI_PART_CONTROL, /* one for each control net */
    DITI_PART_VAE = DITI_PART_CONTROL + (int)DITI_MAX_CONTROLS,
    DITI_PART_IMAGE_ENCODER,
    DITI_PART_SPECTROGRAM,
    DITI_PART_VOCODER,
    DITI_PART_TEXT,
    DITI_PARTS = DITI_PART_TEXT + (int)DITI_ENCODERS
} diti_part;

/* The prompts as a transformer is given them. */
enum { DITI_TEXT_FIRST, DITI_TEXT_SECOND, DITI_TEXT_POOLED, DITI_TEXTS };
typedef struct diti_text_shape {
    uint32_t tokens, columns; /* 0: the transformer takes no such text */
} diti_text_shape;

/* A text encoder with its tokenizer, and where in the transformer's texts its results belong. */
typedef struct diti_encoder {
    diti_encoder_kind kind; /* kind that the family has in this place */
    const diti_encoder_type *type;
    void *self; /* the encoder of that type; NULL: the model lacks it */
    diti_tokenizer *tokenizer;
    const diti_chat *chat;         /* a decoder's; NULL: prompts stand alone */
    const diti_chat *picture_chat; /* a decoder's that pictures are shown to; NULL: they are not */
    diti_taps taps;                /* states of a decoder that are wanted */
    uint32_t limit;                /* model_max_length of the tokenizer's config; 0: unknown */
    uint32_t tokens;               /* most rows that the encoder makes of a prompt */
    uint32_t padding;              /* rows of padding behind each prompt that are part of the text */
    uint32_t dropped;              /* rows in front of each prompt that are no part of the text */
    uint32_t picture_dropped;      /* rows of picture_chat that are none */
    uint32_t picture_tokens;       /* most tokens of a picture, with the text around it */
    uint32_t text;        /* DITI_TEXT_FIRST or DITI_TEXT_SECOND; DITI_TEXT_POOLED: only its pooled output is used */
    uint32_t row, column; /* place in that text where the results begin */
    uint32_t pooled;      /* column of its pooled output */
    const diti_checkpoint *checkpoint; /* while the model is loaded: where its weights are, behind prefix */
    const char *prefix;
    const char *tokenizer_source; /* path of the component or source that its tokenizer is from */
} diti_encoder;

#define DITI_MAX_COMPONENTS 32u
#define DITI_MAX_LORAS 32u
#define DITI_LOW_RANKS 2u
typedef struct diti_model_lora {
    diti_lora *lora; /* NULL: it is merged */
    dit_lora_info info;
} diti_model_lora;
/* LoRAs in a plan. */
typedef struct diti_lora_uses {
    diti_lora_use list[DITI_MAX_LORAS + DITI_LOW_RANKS];
    uint32_t numbers[DITI_MAX_LORAS + DITI_LOW_RANKS]; /* numbers in the model's list; UINT32_MAX: a low-rank part */
    uint32_t count;
    diti_tensor scales; /* 0: there are none */
} diti_lora_uses;
#define DITI_MAX_SIGMAS 64u
struct dit_model {
    diti_env env;
    diti_device *device;                             /* NULL after a dry run */
    dit_context *context;                            /* NULL after a dry run */
    diti_package *packages[1 + DITI_MAX_COMPONENTS]; /* [0]: desc.source; then the components */
    diti_checkpoint *joined[2];                      /* tensors of two packages, of transformer_2 [1]; NULL: none */
    bool used[1 + DITI_MAX_COMPONENTS];              /* some part was found in the package */
    uint64_t types_used;                             /* bits of dit_model_desc.types that decide about a weight */
    diti_transformer *transformer;
    diti_transformer *low; /* evaluates steps whose timestep is below boundary; NULL: transformer evaluates all */
    float boundary;
    diti_transformer *unconditional; /* evaluates the unconditional branch, without a text; NULL: transformer does */
    bool guides_apart;               /* another transformer does: known while parts are measured, too */
    diti_transformer *controls[DITI_MAX_CONTROLS]; /* control nets */
    uint32_t control_count;
    diti_encoder encoders[DITI_ENCODERS];
    diti_text_shape texts[DITI_TEXTS];
    bool fixed_text; /* every prompt has as many rows as another: see diti_model_traits.attends_padding */
    const diti_pipeline_class *pipeline; /* class in model_index.json; NULL: it tells no more than the transformer */
    diti_vae *vae;
    diti_vae *tae;                 /* for previews; NULL: vae */
    diti_spectrogram *spectrogram; /* makes a clip's sound with vocoder; NULL: that makes it alone, or there is none */
    diti_vocoder *vocoder;         /* NULL: the model makes no sound */
    diti_clip_vision *image_encoder; /* makes the second text of the picture that is moved; NULL: that is given */
    diti_json *scheduler;            /* parsed scheduler_config.json or NULL */
    diti_json *index;                /* parsed model_index.json or NULL */
    float sigmas[DITI_MAX_SIGMAS];   /* model_index.json's own for its default number of steps, before the shift */
    uint32_t sigma_count;            /* 0: it has none */
    dit_model_info info;
    uint32_t parts;      /* dit_model_desc.parts, all ones for 0 */
    bool measuring;      /* parts are asked for their sizes only */
    diti_stream *stream; /* NULL: all weights are resident; else packages stay open */
    diti_weight_sizes sizes[DITI_PARTS];
    uint64_t keep[DITI_PARTS]; /* bytes of matrices that are resident */
    diti_model_lora loras[DITI_MAX_LORAS];
    uint32_t lora_count;
    diti_lora_file *lora_files[DITI_MAX_LORAS]; /* while the model is loaded; none of merged ones */
    dit_role lora_parts[DITI_MAX_LORAS];        /* dit_component.lora_of, while the model is loaded */
    uint64_t lora_bytes;                        /* device memory of these files */
    diti_lora *low_ranks[DITI_LOW_RANKS];       /* beside transformer and low; NULL: nothing */
    uint64_t low_rank_bytes;                    /* device memory of them, as it was measured */
    diti_lora_merges merges;                    /* as long as weights are read */
};

/* A prompt's embedding on the host. */
typedef struct diti_embedding {
    float *rows;                      /* [tokens, columns] */
    uint32_t tokens, columns, length; /* length: valid tokens */
} diti_embedding;
typedef struct diti_conditioning {
    diti_embedding texts[DITI_TEXTS];
} diti_conditioning;

/* The predictions that a step evaluates. */
typedef enum diti_step_kind {
    DITI_STEP_USUAL,    /* all branches */
    DITI_STEP_SKIPPING, /* all branches, and the conditional one again, without some blocks */
    DITI_STEP_ALONE,    /* outside the interval of guidance: the conditional branch */
    DITI_STEP_KINDS
} diti_step_kind;

/* A step's variant is its kind, and which of the sets of control nets works in it: kind + DITI_STEP_KINDS * set. A net
   begins once and ends once. */
#define DITI_CONTROL_SETS (2u * DITI_MAX_CONTROLS + 1u)
#define DITI_STEP_VARIANTS ((uint32_t)DITI_STEP_KINDS * DITI_CONTROL_SETS)

/* The texts that an encoder reads: the prompts of the unconditional and the conditional branch. */
typedef struct diti_prompt_tokens {
    int32_t *ids;        /* [2, tokens of the encoder] */
    float *weights;      /* weight of each token; NULL: brackets in prompts are text */
    uint32_t lengths[2]; /* before the padding, with what the encoder drops */
    bool plain[2]; /* nothing stands around the prompt, and as many rows behind it are dropped (DITI_CHAT_PLAIN_GUIDES)
                    */
} diti_prompt_tokens;

/* The texels of an image: bytes of RGBA or BGRA, linear light in halves, or greys. */
typedef enum diti_texels { DITI_TEXELS_RGBA, DITI_TEXELS_LIGHT, DITI_TEXELS_GREY } diti_texels;

/* Frames that a clip is given: pictures of the caller's, or (continues) the end of the clip before. Chunks in front
   of it that no held frame needs are skipped: so many latent frames, and the frames that they stand for. */
#define DITI_JOB_MAX_REFERENCES 16u
#define DITI_JOB_MAX_GIVEN (DITI_JOB_MAX_REFERENCES + 1u)
#define DITI_JOB_MAX_HOLDS 64u
typedef struct diti_given {
    uint32_t pictures; /* frames that the caller gives: all, or the first one and the last one; others are grey */
    uint32_t frames, latent_frames, skipped, skipped_frames;
    bool floats, continues;
} diti_given;
typedef struct diti_hold { /* count latent frames of a clip are those of something given */
    uint32_t given, from, to, count;
} diti_hold;

/* A picture that a picture is made after, as it is encoded: pixels. */
#define DITI_REFERENCE_PIXELS (2048u * 2048u) /* most that are encoded */
#define DITI_REFERENCE_SIDE 16384u            /* pixels of a side of what is given */
#define DITI_REFERENCE_WORDS 8u               /* most tokens of text around one in a prompt */
typedef struct diti_reference_shape {
    uint32_t width, height;
    diti_vision_grid shown; /* tokens that it is to the language model; 0: it is not shown to one */
} diti_reference_shape;

/* Blocks that are reused in later steps (reuse.c): how dit_job_desc.cache has it, then what becomes of that. */
typedef enum diti_reuse_policy {
    DITI_REUSE_NONE,
    DITI_REUSE_DELTA,
    DITI_REUSE_TAYLOR,
    DITI_REUSE_SPECTRUM,
    DITI_REUSE_FIRST_BLOCK,
    DITI_REUSE_EASY,
    DITI_REUSE_MAG
} diti_reuse_policy;
typedef enum diti_reuse_key {
    DITI_REUSE_FIRST,
    DITI_REUSE_BLOCKS,
    DITI_REUSE_FROM,
    DITI_REUSE_TO,
    DITI_REUSE_INTERVAL,
    DITI_REUSE_ORDER,
    DITI_REUSE_THRESHOLD,
    DITI_REUSE_FRONT,
    DITI_REUSE_BACK,
    DITI_REUSE_WARMUP,
    DITI_REUSE_MOST,
    DITI_REUSE_RETAIN,
    DITI_REUSE_GROW,
    DITI_REUSE_BLEND,
    DITI_REUSE_RIDGE,
    DITI_REUSE_RATIOS,
    DITI_REUSE_KEYS
} diti_reuse_key;
typedef struct diti_reuse {
    diti_reuse_policy policy;
    bool references;                                   /* keys and values of references are to be kept */
    uint32_t given;                                    /* bit i: key i */
    float values[DITI_REUSE_KEYS], gate, front_blocks; /* front_blocks: the policy's default of front */
    uint32_t first, end, slots;                        /* range of blocks; residuals that are kept */
    uint32_t gate_step;                                /* from there on the conditional branch alone; 0: no such step */
    uint32_t kinds[2]; /* bit i: some step of kind i reuses blocks, of the model or of the expert for low noise */
} diti_reuse;

/* The shape of a request: everything the shape of a plan depends on. */
typedef struct diti_job_shape {
    uint32_t width, height, image_count, steps;
    bool clip;                      /* frames are made, if only one; else a picture */
    uint32_t frames, latent_frames; /* a clip's, and those of the latent that is denoised; 1 for pictures */
    bool fixes;                     /* the first latent frame is given, and stands in every evaluation */
    bool noisy_first;               /* each of them adds new noise to that frame */
    uint32_t extra_frames;          /* latent frames in front that fill patches or are those of references, and are
                                       not decoded */
    float perturb, isolate;    /* weights of further evaluations (dit_guidance), isolate 1 less; 0: there are none */
    float sound_scale;         /* guidance of the sound as a part of that of the pictures; 0: the same */
    float rescales, scales[2]; /* the guided prediction is made by modal.c, rescaled so far, with these scales of
                                  pictures and sound; rescales 0: the solver makes it */
    uint32_t sound_frames;     /* latent frames behind the clip's that hold its sound, and are not decoded */
    uint32_t sound_tokens;     /* tokens of the sound there */
    uint32_t sound_samples;    /* samples that these become in each channel; 0: they are left */
    bool float_frames;         /* floats of all frames are kept */
    uint32_t loop_count, loop_frames; /* clips that continue each other, and latent frames that two of them share */
    bool moves;                       /* given[0] is the picture that a model moves; where shape.starts, a clip to begin
                                         with; else all of given are for holds */
    diti_given given[DITI_JOB_MAX_GIVEN];
    uint32_t given_count;
    diti_hold holds[DITI_JOB_MAX_HOLDS];
    uint32_t hold_count;
    diti_reference_shape references[DITI_MAX_REFERENCES];
    uint32_t reference_count;
    bool ends;              /* the last of them is a clip's last frame; where diti_model_traits.anchors */
    bool keeps_references;  /* keys and values of references are computed once */
    bool repaints, follows; /* init_image and mask, or control_image, stand beside the latent */
    bool branch;            /* the model's branch follows a clip: given[0] is what stays of it, given[1] what is made
                               anew, and the others are references, each of which is one of extra_frames */
    uint32_t controls;      /* bit i: control net i works in some step */
    uint32_t control_sets[DITI_CONTROL_SETS], control_set_count; /* nets that work together in some step, as bits */
    bool null_text; /* the model's own text stands for the prompt of the unconditional branch */
    bool bare;      /* the unconditional branch has no text: another transformer evaluates it */
    bool guided;
    bool weighted;                     /* some token of the encoded prompts counts more or less than others */
    bool mixed;                        /* guidance with rescale or projection */
    bool norms_tokens;                 /* see diti_model_traits */
    bool has_y, has_h3, learned;       /* see diti_schedule */
    bool encodes[2];                   /* prompt of the unconditional / conditional branch is encoded inside the plan */
    uint32_t encoded_rows, given_rows; /* rows of text, both branches together: diti_conditioning_rows; 0: none */
    uint32_t text_rows;                /* rows of each branch's text in an evaluation: diti_model_traits.text_unit */
    uint32_t text2_rows;               /* rows of its second text, which may have none */
    uint32_t clip_skip;                /* layers of CLIP that are left out */
    bool stochastic;                   /* fresh noise in every step */
    uint32_t preview_interval;
    dit_preview preview; /* never DIT_PREVIEW_DEFAULT where there is an interval */
    uint32_t vae_tile;   /* in latent elements; 0: all at once */
    bool starts, masked; /* a picture is given to begin with; a mask is, too */
    bool start_latents;  /* latents are given to begin with, and no picture is encoded */
    bool draws_start;    /* the start picture's latent is drawn from a distribution */
    bool start_swap;     /* the start picture is BGRA */
    VkImage start_image; /* on the device, or VK_NULL_HANDLE */
    VkImageLayout start_layout;
    diti_reuse reuse;
    uint32_t kinds;                  /* bit i: some steps are of diti_step_kind i */
    uint32_t variants;               /* bit i: some steps are of variant i */
    uint32_t reuse_variants[2];      /* bit i: some of these reuse blocks, as in diti_reuse.kinds */
    bool swap;                       /* BGRA target */
    diti_texels texels;              /* texels of the target */
    bool scaled_input;               /* the model sees input * x */
    diti_split split;                /* division over devices; degrees 0: whatever suits the context's */
    bool resumes;                    /* the job goes on without a device that fails */
    bool keeps;                      /* dit_job_save_state gives what another job needs to go on */
    uint32_t strips, warmup;         /* strips and first whole steps of PipeFusion */
    bool int8_payload;               /* devices send values as int8 */
    bool int8_feedback;              /* devices add the error of int8 values in the next step */
    bool int8_kept;                  /* PipeFusion keeps keys and values of other strips as int8 */
    bool any;                        /* auto may choose PipeFusion */
    uint32_t loras;                  /* bit i: LoRA i of the model is in the plan */
    double shares[DITI_MAX_DEVICES]; /* see diti_split_plan; all 0: equal */
} diti_job_shape;

/* The part of a step that one segment does. Where stages pass strips on (strips.c), the solver's part of a step is
   done by a later segment than its evaluation. */
typedef enum diti_step_form {
    DITI_FORM_WHOLE,  /* the whole step */
    DITI_FORM_STRIPS, /* the whole step strip by strip; between stages, without the solver's part */
    DITI_FORM_NEXT,   /* the solver's part of the step before, and this step's evaluation */
    DITI_FORM_REST,   /* the solver's part of the step before, where no such step follows */
    DITI_STEP_FORMS
} diti_step_form;
enum {
    DITI_PLANES_FIRST,
    DITI_PLANES_LAST,
    DITI_PLANES_BOTH,
    DITI_PLANES_SETS
}; /* branches of guidance: one is the last */

#define DITI_JOB_MAX_IMAGES 64u
#define DITI_LOOP_FRAMES 4u /* latent frames that clips share, where the autoencoder takes them one by one */

typedef struct diti_noise_source { /* a stream of normal numbers */
    bool philox;
    uint64_t seed;
    uint32_t draws;
    diti_random random;
} diti_noise_source;

typedef struct diti_job_request {
    diti_job_shape shape;
    double predicted_seconds; /* seconds of a picture where the planner chose the split; else 0 */
    diti_schedule schedule;
    dit_guidance guidance; /* the model's default stands in place of a scale of 0 */
    uint32_t late_steps;   /* steps at the end that are guided by low_scale, as an expert's for low noise are */
    uint64_t seed;
    dit_rng rng;
    uint32_t latent_width, latent_height;
    float *noise_input;         /* noise that the desc gives, until noise has it; NULL: none */
    float *noise;               /* [image_count, C, frames, h, w], unit normal */
    diti_noise_source *sources; /* [image_count], as they are when all noise is drawn */
    float fps;                  /* 0: the model's default */
    float lora_weights[DITI_MAX_LORAS];
    uint32_t loop;                /* number of the clip among those that continue each other */
    float *frame_mask;            /* [latent frames], see diti_schedule_frames; NULL: no frames are held */
    diti_frame_step *frame_steps; /* [steps, latent frames] where frames are held */
    float *renoise;               /* [steps, C, frames, h, w] where frames are held */
    float first_scale;            /* diti_model_traits.picture_noise, or what the desc says */
    float *first_noise;           /* [steps, C, padded h * w] that the given first frame gets; NULL: none */
    float *decode_noise;          /* [image_count, latent rows of a clip, C] where the decoder is told a timestep */
    float *plane_noise;           /* planes that the decoder adds, one after the other */
    size_t plane_values;          /* values of all of them */
    float *given_noise;           /* drawn by encoders for all that is given (noise.c); for each picture at an end of a
                                     clip of diti_model_traits.anchors that of its latent, then its own */
    float *previous;              /* the end of the clip before, [frames, height, width, 3] in -1..1 */
    /* pictures of the desc, while it is there, or copies; NULL: there is none, or it is written */
    const dit_image *reference_images[DITI_MAX_REFERENCES], *control_image, *net_images[DITI_MAX_CONTROLS], *start,
        *mask, *given_images[DITI_JOB_MAX_GIVEN];
    uint32_t start_count,
        mask_count;      /* entries of start and mask; 0: 1. control_image has one for each frame of a clip */
    bool keeps_pictures; /* copies stand in place of the desc's pictures */
    dit_adapter net_adapters[DITI_MAX_CONTROLS]; /* by control net; their images are in net_images */
    float *start_latents;                        /* [image_count, C, h, w] to begin with; NULL: a picture, or noise */
    float *start_noise;                       /* noise of the start picture's latents, unit normal; NULL: not drawn */
    float strength;                           /* 0: there is no start picture */
    diti_reuse_row *reuse_rows;               /* [steps]; NULL: no blocks are reused */
    uint8_t *reuses;                          /* [steps]: whether the host knows that the step reuses blocks */
    float *step_noise;                        /* [steps, image_count, C, frames, h, w] when stochastic */
    diti_prompt_tokens tokens[DITI_ENCODERS]; /* tokens of the branches that are encoded in the plan */
    uint32_t lengths[2][2];               /* tokens of each branch that are read, in the first and the second text */
    uint32_t encoded[2];                  /* rows of each branch that are encoded, where lengths are not fixed */
    uint32_t labels[DITI_JOB_MAX_IMAGES]; /* classes of class-conditional models, one per picture */
    diti_conditioning conditioning[2];    /* embeddings of the branches that are given */
} diti_job_request;

/* Where a run is: the next slice to submit. repeat counts steps. */
typedef struct diti_job_cursor {
    uint32_t segment, repeat, slice;
    uint32_t chunk; /* chunks of clips that are decoded */
} diti_job_cursor;

typedef struct diti_job_flight { /* a slice that was submitted and not yet seen finished */
    uint64_t value;              /* value of the plan's timeline when the slice is finished */
    float us;                    /* predicted */
    double done_us;              /* predicted work of the run when the slice is finished */
    uint32_t steps_done;
    uint32_t frames; /* decoded behind it, of the last clip; 0: it brings none */
    dit_stage stage;
    bool preview; /* brings a new preview */
} diti_job_flight;

/* The state that a call of dit_job_record changes, as it was before the newest one, whose commands have changed nothing
   on the device if they never run. */
typedef struct diti_job_before {
    bool known;     /* the newest call can be taken back */
    bool recorded;  /* the newest call has recorded something */
    bool went_back; /* since then a report has sent the run back, or ended it */
    diti_job_cursor cursor;
    uint32_t last_segment, judged_chunk;
    bool unjudged, restores;
    double submitted_us;
    uint64_t dispatches;
    dit_status status;
} diti_job_before;

/* With resume_on_loss or keep_state: what the solver remembers behind a step, copied to the host. */
typedef struct diti_snapshot {
    diti_buffer buffer; /* two places, in turn: the host reads one while the device writes the other */
    uint64_t values[2]; /* values of the plan's timeline when a place is filled; 0: the place has nothing new */
    uint32_t steps[2];  /* steps that were finished then */
    unsigned char *states;
    size_t bytes;  /* bytes of states */
    uint32_t step; /* steps that are finished in states */
    bool valid;    /* false: states hold nothing yet */
} diti_snapshot;

typedef struct diti_job_image { /* a picture on the device, filled by a copy from the plan's buffers */
    VkImage image;
    VkImageView view;   /* view of dit's own images */
    diti_buffer memory; /* memory of dit's own images */
    VkFormat format;
    VkImageLayout layout; /* layout that the image is left in */
    uint32_t mip, layer;  /* level and layer of an application's image that are written */
    bool owned;           /* dit made it */
    bool exported;        /* dit_job_export gives its memory away */
} diti_job_image;

#define DITI_JOB_MAX_FLIGHT 64u

/* Prompts in a plan (prompt.c): what is asked for, then what is there. Where the model's prompts have a fixed length,
   every branch has a place in each text; else prompts stand one after the other in the first text alone, those that
   are encoded before those that are given. */
typedef struct diti_text_use {
    uint32_t branches; /* branches of guidance: unconditional, conditional */
    bool encodes[2];   /* encoded here; else given */
    bool weighted;
    uint32_t clip_skip;
    diti_vision_grid pictures[DITI_MAX_PICTURES]; /* stand in all prompts that are encoded */
    uint32_t picture_count;
    uint32_t encoded_rows, given_rows; /* rows of the first text, where lengths are not fixed */
    const diti_weight *null_text;      /* behind those: the model's own, for the unconditional branch; NULL: none */
    diti_encoder_use encoders[DITI_ENCODERS];
    diti_tensor kept[DITI_ENCODERS]; /* U32 [1, rows]: rows of an encoder that are the text, where some are dropped */
    diti_tensor given[DITI_TEXTS];   /* inputs F32, of the branches that are given, one after the other */
    diti_tensor texts[DITI_TEXTS];   /* F32 [branches * tokens, columns], or [rows, columns]; 0: none */
    diti_tensor patches[2]; /* inputs of the image encoder, whose tokens of one or two pictures are the second text
                               (diti_clip_vision_input); 0: none */
    diti_tensor seen;       /* diti_step_desc.seen: in models with a second text the tokens stand here instead */
} diti_text_use;
typedef struct diti_prompts {         /* the host writes these */
    const diti_prompt_tokens *tokens; /* tokens of each encoder */
    const uint32_t *rows;             /* rows of each branch in the first text, where lengths are not fixed */
    const diti_conditioning *given;   /* embeddings of each branch */
} diti_prompts;

/* Which part of a job's work one device does (assign.c). */
typedef struct diti_assignment {
    uint32_t share, share_total;     /* the number of this share, and how many there are */
    bool folded;                     /* every device has two stages (diti_job_folds) */
    diti_ranks all;                  /* all shares */
    diti_axes axes;                  /* groups that divide every evaluation */
    diti_ranks guidance;             /* shares that evaluate other branches of the same rows */
    uint32_t first_branch, branches; /* range of guidance's branches that are evaluated here */
} diti_assignment;

/* The plan and what the host exchanges with it: all of it is made anew by a restart that needs another plan. */
typedef struct diti_program {
    diti_plan *plan;
    diti_lora_uses loras;
    diti_text_use text;
    diti_step_desc step;
    uint32_t encode_segment, start_segment, step_segment, preview_segment,
        decode_segment;    /* the run: every segment in order, steps repeated; start and preview: UINT32_MAX if none */
    uint32_t last_segment; /* decode_segment, or of clips the last one of chunk_segments */
    uint32_t chunk_segments[DITI_VAE_CHUNK_KINDS]; /* by kind; UINT32_MAX: there are no such chunks */
    diti_vae_chunk *chunks;                        /* a clip's, in order */
    uint32_t chunk_count;
    VkCommandBuffer *chunk_commands; /* copies before and behind every chunk of every clip */
    diti_tensor first;               /* F32 [C, area]: the latent frame that is given, or 0 */
    diti_step_desc unconditional;    /* evaluations by model->unconditional, where this share has both branches */
    diti_step_desc low;              /* evaluations by model->low */
    uint32_t low_prepare;            /* segment before the first of them; UINT32_MAX: there is none */
    bool is_low;                     /* steps that are emitted now are those of model->low */
    uint32_t low_segments[DITI_STEP_VARIANTS];                       /* steps of model->low; UINT32_MAX: none */
    uint32_t step_segments[DITI_STEP_FORMS][DITI_STEP_VARIANTS];     /* step_segment is the first; UINT32_MAX: none */
    uint32_t reuse_segments[2][DITI_STEP_FORMS][DITI_STEP_VARIANTS]; /* steps that reuse blocks, of either expert */
    diti_residual residuals[2];                                      /* residuals that they reuse, of either */
    diti_tensor reuse_table;                                         /* 0: nothing */
    diti_kept_kv kept_kv, net_kept_kv[DITI_MAX_CONTROLS];
    diti_tensor strips[DITI_MAX_STRIPS + 1][DITI_PLANES_SETS]; /* see strips.c */
    diti_tensor reference_pixels[DITI_MAX_REFERENCES];
    diti_tensor condition_pixels, condition_mask;     /* where a picture stands beside the latent */
    diti_tensor control, branch_parts;                /* inputs of the model's branch: branch.c */
    diti_control_use nets[DITI_MAX_CONTROLS];         /* nets that work in some step */
    diti_control_use nets_at_work[DITI_MAX_CONTROLS]; /* nets of the steps that are emitted now */
    diti_step_desc net_steps[DITI_MAX_CONTROLS];      /* by control net */
    diti_tensor net_pixels[DITI_MAX_CONTROLS], net_scales[DITI_MAX_CONTROLS];
    uint32_t text_firsts[2]; /* rows at which the texts of the branches here begin */
    diti_tensor text_items, labels, noise, step_noise, coefficients, input_scales, latent, x0, health_words, step_row,
        preview, preview_colors, start_rgba, start_coefficients, start_noise, start_latents, mask, history[2];
    diti_tensor given_pixels[DITI_JOB_MAX_GIVEN], given_noise[DITI_JOB_MAX_GIVEN][2], condition, renoise, first_noise,
        decode_turns[2][2], frame_steps, times, decode_timestep, decode_noise,
        plane_noise,                /* where a decoder of clips is told a timestep */
        clip_latents, chunk_latent; /* clips'. rgba[0], rgb[0] and texels[0] are those of a chunk there */
    diti_tensor rgba[DITI_JOB_MAX_IMAGES], rgb[DITI_JOB_MAX_IMAGES], texels[DITI_JOB_MAX_IMAGES],
        latents[DITI_JOB_MAX_IMAGES], /* one picture each; texels: what its image takes, which may be rgba */
        sounds[DITI_JOB_MAX_IMAGES];  /* F32 [samples, channels], a clip's each, where there is sound */
    VkCommandPool command_pool;
    VkCommandBuffer finish, preview_copy, start_copy; /* start_copy: of an image of the application's, else NULL */
    VkCommandBuffer snapshot_copies[2], states_copy;  /* copies of the job's first share; copy of a resumed share */
} diti_program;

/* How far a run of the program is; all zeros at its start, but for total_us. */
typedef struct diti_run {
    diti_job_cursor cursor;
    bool all_submitted;
    /* what guards want (graph/guard.c): segments are run again */
    diti_health health;    /* the newest that was seen */
    uint32_t last_segment; /* newest segment that was wholly submitted */
    uint32_t judged_chunk; /* chunk that it decoded, if it is one of chunks */
    bool unjudged;         /* the guards' verdict on that segment is not known yet */
    bool careful;          /* strips overflowed: no share goes on before the others have come as far */
    uint32_t again_segment, again_step, tries; /* segment and step that ran again last, and how often */
    bool restores;                             /* record mode: the guards, before anything else */
    double total_us, submitted_us;
    uint32_t cuts; /* how often work was cut anew since the segment began */
    diti_job_flight flight[DITI_JOB_MAX_FLIGHT];
    uint32_t flight_first, flight_count;
    uint64_t finish_value;
} diti_run;

/* One device's part of a job: which part of the work it is, the program that does it, and how far the program is. */
typedef struct diti_share {
    dit_job *job;
    uint32_t member; /* index of this share in job->shares, and of its plan in job->mesh */
    diti_device *device;
    diti_assignment assignment;
    diti_program program;
    diti_run run;
    diti_buffer states; /* a resumed share begins its steps with these, which program.states_copy puts in place */
    bool states_due;    /* the copy of states is not submitted yet */
} diti_share;

typedef struct diti_rerun { /* a name that the status tells until the next run, when its plan may be gone */
    struct diti_rerun *before;
    char op[64];
} diti_rerun;

/* A job: the request, the device or devices that share it, and the pictures. Its first share makes the pictures, and
   its status tells how far that one is. */
struct dit_job {
    diti_env env;
    dit_context *context;
    const dit_model *model;
    dit_target target;
    diti_job_request request;
    diti_share *shares[DITI_MAX_DEVICES]; /* shares of this process */
    uint32_t share_count;
    uint32_t device_of_share[DITI_MAX_DEVICES]; /* index of the context's device that each share is on */
    diti_mesh *mesh;                            /* connects the plans of all shares; NULL: one device */
    uint32_t number, runs;                      /* jobs with a split before this one, and runs before */
    bool joins;                                 /* the mesh is for that run */
    bool begun, recording;                      /* recording: by dit_job_record, not dit_job_step */
    bool loading;                               /* weights can be loaded without waiting for anything */
    uint64_t watched_us;                        /* the host's clock when diti_run_watch looked */
    uint64_t still_us;                          /* how long nothing was seen to go on */
    diti_job_before before;
    bool resumed;                         /* the job has gone on without a device */
    bool agrees;                          /* other processes have to tell their terms before the first run (agree.c) */
    diti_letter *terms[DITI_MAX_DEVICES]; /* letters of the others, by rank */
    diti_letter *states_letter; /* brings what the solver remembers from the first rank; NULL: nothing is awaited */
    uint64_t states_looked_us, states_waited_us;
    uint32_t begins_at; /* steps that were finished before: their outcome is in states */
    diti_snapshot snapshot;
    diti_buffer health_readback; /* report of the first share, copied at the end: diti_health, then the states of what
                                    decides about reuse (diti_decide) */
    diti_buffer frames, float_frames; /* frames of clips in host memory: words of pixels; three planes of each */
    diti_job_image images[DITI_JOB_MAX_IMAGES], preview_image;
    dit_job *next_retired;
    VkSemaphore retired_by; /* comes to retired_at when nothing uses the job any more */
    uint64_t retired_at;
    uint32_t previews_lost; /* number of the newest preview that went with the plan that it was in */
    diti_rerun *reruns;     /* the newest one; NULL: none */
    int cancel;             /* atomic */
    int status_lock;        /* guards what any thread may ask for: all that follows, and recording */
    dit_status status;
    dit_error error;
    dit_counters counters; /* as they were when the job's own thread last left a call */
    dit_share told[DITI_MAX_DEVICES];
    uint32_t told_count;
    dit_counters gone;  /* counts of other shares that are gone; the job's own thread's, as what follows */
    bool plans_changed; /* told is of plans that are gone */
};

/* parts.c: where the parts of a pipeline are */
typedef struct diti_model_part { /* files of one component, for its loader */
    diti_package *package;
    const diti_checkpoint *checkpoint; /* NULL: there is none */
    const char *prefix;
    diti_json *config;
} diti_model_part;
typedef struct diti_model_want {
    dit_role role;
    const char *folder;     /* folder of a diffusers repository */
    diti_encoder_kind kind; /* kind of a text encoder; DITI_ENCODER_NONE: any */
} diti_model_want;
/* Whether the file has the tensor of that name behind the prefix. */
DIT_INTERNAL bool diti_part_has(const diti_checkpoint *checkpoint, const char *prefix, const char *name);
DIT_INTERNAL dit_result diti_model_locate(dit_model *model, const dit_model_desc *desc, const diti_model_want *want,
                                          diti_model_part *part, dit_error *err);
/* Whatever of tokenizers there is for encoder `index`. */
DIT_INTERNAL dit_result diti_model_locate_tokenizer(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                                    dit_error *err);
/* A small file of a role's component, else of the source, parsed; *out stays NULL where there is none. */
DIT_INTERNAL dit_result diti_model_locate_json(dit_model *model, const dit_model_desc *desc, dit_role role,
                                               const char *folder, const char *file, diti_json **out, dit_error *err);
/* Components that nothing was found in are mistakes. */
DIT_INTERNAL dit_result diti_model_check_used(const dit_model *model, const dit_model_desc *desc, dit_error *err);
/* Connectors of LTX-2.3 are in the transformer's file, and what stands in front of them may be a file of its own: part
   becomes both. */
DIT_INTERNAL dit_result diti_model_join_connectors(dit_model *model, const dit_model_desc *desc, diti_model_part *part,
                                                   dit_error *err);
/* VACE's blocks are in the transformer's file, or in files of their own, which are control nets: the first one is
   transformer's, the last one transformer_2's. part becomes both. */
DIT_INTERNAL dit_result diti_model_join_vace(dit_model *model, const dit_model_desc *desc, bool second,
                                             diti_model_part *part, dit_error *err);
/* Whether a control net's file holds VACE's blocks. */
DIT_INTERNAL bool diti_part_is_vace(const diti_model_part *part);
/* The part that component `index` alone is. */
DIT_INTERNAL dit_result diti_model_locate_component(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                                    const diti_model_want *want, diti_model_part *part, dit_error *err);
DIT_INTERNAL diti_encoder_kind diti_encoder_kind_of(const diti_checkpoint *checkpoint, const char *prefix);
/* Whether a part's weights are loaded: dit_model_desc.parts. */
DIT_INTERNAL bool diti_model_wants(const dit_model *model, dit_role role);
/* encoders.c: text encoders of all kinds */
DIT_INTERNAL const char *diti_encoder_name(diti_encoder_kind kind);
/* The folder of a diffusers repository that it lies in. */
DIT_INTERNAL const char *diti_encoder_folder(uint32_t index);
/* The kind whose loader reads a kind, and the kind that the transformer was made for. */
DIT_INTERNAL diti_encoder_kind diti_encoder_loaded_as(diti_encoder_kind kind);
DIT_INTERNAL diti_encoder_kind diti_encoder_wanted(const dit_model *model, uint32_t index);
/* A text encoder that is named, or lies in the folder of one, may be of another kind than the wanted one. */
DIT_INTERNAL dit_result diti_encoder_check_kind(const diti_model_part *part, uint32_t index, diti_encoder_kind wanted,
                                                dit_error *err);
DIT_INTERNAL const diti_weights *diti_encoder_weights(const diti_encoder *encoder); /* NULL: the model lacks it */
/* Rows in front of a prompt that are no part of the text, without or with pictures, and the most rows of either. */
DIT_INTERNAL uint32_t diti_encoder_dropped(const diti_encoder *encoder, bool shown);
/* Rows that a prompt of so many tokens has, with the padding that is part of its text (diti_chat.padded or unit, or
   diti_model_traits.padding_rows). pictures: diti_references_rows. */
DIT_INTERNAL uint32_t diti_encoder_rows(const diti_encoder *encoder, uint32_t tokens, uint32_t pictures);
/* The encoder makes no text, but what the encoder behind it reads. */
/* A text that is what the image encoder makes of a picture. */
DIT_INTERNAL bool diti_text_is_seen(const dit_model *model, uint32_t text);
DIT_INTERNAL bool diti_encoder_feeds(const dit_model *model, const diti_encoder *encoder);
DIT_INTERNAL uint32_t diti_encoder_room(const diti_encoder *encoder);
/* All zeros where the model lacks it. */
DIT_INTERNAL const diti_encoder_traits *diti_encoder_get_traits(const diti_encoder *encoder);
DIT_INTERNAL bool diti_encoder_is_clip(const diti_encoder *encoder); /* false for one that is not there */
DIT_INTERNAL bool diti_kind_is_decoder(diti_encoder_kind kind);
/* Which chat template and which states the model's decoder gets, before it is loaded. */
DIT_INTERNAL dit_result diti_encoder_ask(const dit_model *model, diti_encoder *encoder, dit_error *err);
DIT_INTERNAL dit_result diti_encoder_load(diti_encoder *encoder, diti_device *device, const diti_env *env,
                                          const diti_model_part *part, const diti_load_options *options,
                                          dit_error *err);
DIT_INTERNAL void diti_encoder_unload(diti_encoder *encoder); /* frees its weights */
/* Where the results of all encoders belong, and whether they belong together. */
DIT_INTERNAL dit_result diti_encoders_place(dit_model *model, dit_error *err);
/* The parts that a prompt needs and the files lack: bits of roles, as in dit_model_info.missing. */
DIT_INTERNAL uint32_t diti_encoders_missing(const dit_model *model);
/* The parts that are there, but not loaded: dit_model_desc.parts. */
DIT_INTERNAL uint32_t diti_encoders_left_out(const dit_model *model);
/* Encoders that a prompt needs and the model lacks are an error that names them. member: of dit_job_desc, which would
   do instead; NULL: none would. */
DIT_INTERNAL dit_result diti_model_check_encoders(const dit_model *model, const char *member, dit_error *err);
/* Whether padding is left out by encoders of prompts of fixed length, which then need to know the lengths. */
DIT_INTERNAL bool diti_encoders_mask(const dit_model *model);
/* model.c */
DIT_INTERNAL void diti_model_free(dit_model *model); /* NULL is fine */
/* Pixels per latent element; those of the usual VAE where the model has none. */
DIT_INTERNAL uint32_t diti_model_factor(const dit_model *model);
/* Device memory of the weights. streamed: bytes that are not resident; may be NULL. */
DIT_INTERNAL uint64_t diti_model_weight_bytes(const dit_model *model, uint64_t *streamed);
/* Staging buffers that stay. loading: what others took besides the weights at most. */
DIT_INTERNAL uint64_t diti_model_staging_bytes(const dit_model *model, uint64_t *loading);
/* An init_image, mask or control picture needs the autoencoder's encoder; name: of the member. */
DIT_INTERNAL dit_result diti_job_needs_encoder(const dit_model *model, const char *name, dit_error *err);
/* clip.c */
#define DITI_CLIP_MOST_FRAMES 65536u
DIT_INTERNAL bool diti_model_makes_clips(const dit_model *model);
DIT_INTERNAL void diti_model_describe_frames(dit_model *model);
DIT_INTERNAL dit_result diti_job_request_clip(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                              dit_error *err);
DIT_INTERNAL VkDeviceSize diti_clip_host_bytes(const diti_job_shape *shape); /* frames in host memory */
/* Latent frames that are decoded. */
DIT_INTERNAL uint32_t diti_shape_pictures(const diti_job_shape *shape);
DIT_INTERNAL size_t diti_request_plane(const diti_job_request *request); /* values of a plane: frames * h * w */
DIT_INTERNAL uint32_t diti_request_positions(const dit_model *model,
                                             const diti_job_request *request); /* tokens of a frame */
/* named.c */
DIT_INTERNAL dit_result diti_request_check_inputs(const dit_job_desc *desc, dit_error *err);
DIT_INTERNAL const dit_tensor *diti_request_input(const dit_job_desc *desc, const char *name); /* NULL: not given */
/* The input's values as float, count of them expected; *out freed with diti_free. */
DIT_INTERNAL dit_result diti_request_floats(const diti_env *env, const dit_tensor *input, size_t count, float **out,
                                            dit_error *err);
/* Whether row_pitch leads from row to row; row: bytes of one. */
DIT_INTERNAL bool diti_request_has_rows(const dit_image *image, size_t row);
DIT_INTERNAL dit_result diti_request_check_finite(const char *name, const float *values, size_t count, dit_error *err);
/* moments.c: numbers that the device computes are rows of DITI_ROW_WIDTH equal columns, F32 [1, DITI_ROW_WIDTH] */
#define DITI_ROW_WIDTH 8u
/* A block of latents. */
typedef struct diti_moments {
    diti_tensor centred; /* F32 [rows + 2, DITI_ROW_WIDTH]: without its mean; two rows of something else behind it */
    diti_tensor mean, deviation, inverse; /* inverse: of deviation, which divides by one value less */
    uint32_t rows;
} diti_moments;
/* scale * x + offset + add, F32, where out is; add 0: none, out 0: a new tensor. name: what the sum is for, in traces.
 */
DIT_INTERNAL diti_tensor diti_scaled_sum(diti_graph *graph, const char *name, diti_tensor x, float scale, float offset,
                                         diti_tensor add, diti_tensor out);
/* Frames [first, first + frames) of planes F32 [C, any * area]; C * frames * area is a multiple of DITI_ROW_WIDTH. */
DIT_INTERNAL diti_moments diti_moments_measure(diti_graph *graph, diti_tensor planes, uint32_t area, uint32_t first,
                                               uint32_t frames);
/* even.c: planes F32 [C, latent frames * area] of a clip whose first frames are brought close to the others
   (traits.evens_first); a clip of 4 latent frames or fewer stays as it is. */
DIT_INTERNAL diti_tensor diti_even_first(diti_graph *graph, diti_tensor planes, uint32_t area);
/* frames.c: devices that decode together, and pixels that another share makes, for which the first one waits; rgb may
   be 0. */
DIT_INTERNAL diti_ranks diti_decode_group(const diti_share *share);
DIT_INTERNAL void diti_decode_receive(diti_graph *graph, diti_tensor rgba, diti_tensor rgb, uint32_t first,
                                      uint32_t pixels, uint32_t share);
/* Rows of the clip's first frame, of planes of x0, as its decoder makes them: a preview. */
DIT_INTERNAL diti_tensor diti_clip_emit_first(diti_share *share, diti_graph *graph);
/* The planes of a clip that are decoded. */
DIT_INTERNAL diti_tensor diti_clip_planes(const diti_share *share, diti_graph *graph, diti_tensor latents,
                                          uint32_t image, uint32_t frames);
DIT_INTERNAL void diti_clip_emit(diti_share *share, diti_graph *graph);
/* Devices divide each chunk of the clip; else the first one makes them alone. */
DIT_INTERNAL bool diti_clip_is_divided(const diti_share *share);
DIT_INTERNAL dit_result diti_clip_write(diti_share *share, dit_error *err); /* timestep and noise of the decoder */
DIT_INTERNAL uint32_t diti_clip_segment(const diti_share *share,
                                        uint32_t chunk); /* decodes the chunk of that number in a run */
/* A chunk's latents to where its ops read them; its frames to the host, and to layers of an application's image. */
DIT_INTERNAL void diti_clip_record_input(const dit_job *job, VkCommandBuffer commands, uint32_t index);
DIT_INTERNAL void diti_clip_record_output(const dit_job *job, VkCommandBuffer commands, uint32_t index);
DIT_INTERNAL const uint8_t *diti_clip_bytes(const dit_job *job, uint32_t image, uint32_t frame);
DIT_INTERNAL const float *diti_clip_floats(const dit_job *job, uint32_t image, uint32_t frame);
DIT_INTERNAL dit_result diti_clip_keep_end(const dit_job *job, diti_job_request *request, dit_error *err);
/* given.c: before: of the run that this one continues; NULL: none. */
DIT_INTERNAL dit_result diti_job_request_given(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               const diti_job_request *before, diti_job_request *out, dit_error *err);
DIT_INTERNAL dit_result diti_job_request_frames(const diti_env *env, diti_job_request *out, dit_error *err);
/* Declares what the host writes of given[index], and encodes it on all devices together: planes as the sampler has
   them, on the first one; 0: on others. */
DIT_INTERNAL diti_tensor diti_given_encode(diti_share *share, diti_graph *graph, uint32_t index);
DIT_INTERNAL void diti_given_emit(diti_share *share, diti_graph *graph, const diti_solver_desc *states);
DIT_INTERNAL dit_result diti_given_write(diti_share *share, dit_error *err);
DIT_INTERNAL dit_result diti_given_write_frame_steps(diti_share *share, dit_error *err);
/* Puts the given first frame into a latent of all clips. noise: a row of program.first_noise, which it gets; 0: none.
 */
DIT_INTERNAL void diti_given_fix(const diti_share *share, diti_graph *graph, diti_tensor latent, diti_tensor noise);
/* --- control.c: pictures that steer a picture --- */
DIT_INTERNAL dit_result diti_job_request_repaint(const dit_model *model, const dit_job_desc *desc,
                                                 diti_job_request *out, dit_error *err);
DIT_INTERNAL dit_result diti_job_request_control(const dit_model *model, const dit_job_desc *desc,
                                                 diti_job_request *out, dit_error *err);
DIT_INTERNAL void diti_control_emit(diti_share *share, diti_graph *graph); /* in the segment that encodes prompts */
/* share->program.low is there, and not prepared yet. low: that expert's nets, else the other's. */
DIT_INTERNAL void diti_control_prepare(diti_share *share, diti_graph *graph, bool low);
DIT_INTERNAL void diti_control_request_sets(diti_job_request *request); /* when the number of steps is known */
DIT_INTERNAL void diti_control_choose(diti_share *share, uint32_t set); /* nets that work in the steps emitted next */
DIT_INTERNAL dit_result diti_control_write(diti_share *share, const float *timesteps, dit_error *err);
/* --- branch.c: a clip that the model's own net follows --- */
DIT_INTERNAL dit_result diti_job_request_branch(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                                dit_error *err);
DIT_INTERNAL void diti_branch_emit(diti_share *share, diti_graph *graph);
DIT_INTERNAL dit_result diti_branch_write(diti_share *share, dit_error *err); /* where the job has a branch */
/* --- references.c: pictures that a picture is made after --- */
/* Planes F32 [C, h * w] as the sampler has latents, of the mean that the encoder says of pixels, rows in -1..1.
   shifted: false: they are scaled alone. */
DIT_INTERNAL diti_tensor diti_encode_mean(const diti_share *share, diti_graph *graph, diti_tensor pixels,
                                          uint32_t width, uint32_t height, bool shifted);
DIT_INTERNAL dit_result diti_job_request_references(const dit_model *model, const dit_job_desc *desc,
                                                    diti_job_request *out, dit_error *err);
/* Planes [C, latent frames * h * w] as the sampler has them, of rows that the encoder gives. inverts: as some models
   want a picture that they move. */
DIT_INTERNAL diti_tensor diti_latent_planes(const diti_vae *model, diti_graph *graph, diti_tensor rows,
                                            const diti_video *latent, bool inverts);
/* The latent of a picture at an end of a clip, planes [C, h * w], of which noise is a part; pixels: rows in -1..1;
   noise: of the encoder, [h * w, C], and that part, [C, h * w]. */
DIT_INTERNAL diti_tensor diti_anchor_latent(const diti_vae *vae, diti_graph *graph, diti_tensor pixels,
                                            const diti_video *latent, uint32_t tile, const diti_tensor noise[2],
                                            float part);
/* A picture at an end of a clip becomes the next reference; name: of the member that has it. */
DIT_INTERNAL dit_result diti_reference_anchor(const dit_model *model, const char *name, const dit_image *image,
                                              diti_job_request *out, dit_error *err);
DIT_INTERNAL void diti_references_emit(diti_share *share, diti_graph *graph); /* in the segment that encodes prompts */
DIT_INTERNAL dit_result diti_references_write(diti_share *share, dit_error *err);
/* Sides to which one of so many references is scaled before it is cut to whole tokens. */
DIT_INTERNAL void diti_reference_scaled(const diti_model_traits *traits, const dit_image *image, uint32_t count,
                                        uint32_t *width, uint32_t *height);
/* Tokens of all references in a prompt, with the text around them; 0: none is shown. */
DIT_INTERNAL uint32_t diti_references_tokens(const diti_job_shape *shape);
/* Rows of a text that they are, with a mark before and behind each. */
DIT_INTERNAL uint32_t diti_references_rows(const diti_job_shape *shape);
/* resize.c: RGBA of one size as RGBA of another one, which the caller frees with diti_free. */
typedef enum diti_window { DITI_WINDOW_LANCZOS, DITI_WINDOW_CUBIC } diti_window;
typedef struct diti_picture { /* in rows without gaps unless pitch says so */
    const uint8_t *rgba;
    size_t pitch;
    uint32_t width, height;
} diti_picture;
DIT_INTERNAL dit_result diti_resize(const diti_env *env, const diti_picture *from, uint32_t width, uint32_t height,
                                    diti_window window, uint8_t **out, dit_error *err);
/* noise.c */
/* Values of given_noise for one thing given: those that are drawn inside the encoder, or those at its end. */
DIT_INTERNAL size_t diti_given_noise_values(const dit_model *model, const diti_job_request *request,
                                            const diti_given *given, bool inside);
DIT_INTERNAL uint32_t diti_padded(uint32_t columns); /* elements from row to row of a tensor with so many columns */
/* Values of a step's noise for the given first frame, with the room between rows. */
DIT_INTERNAL size_t diti_first_noise_columns(const dit_model *model, const diti_job_request *request);
/* The noise, which is drawn for jobs that run, and not for questions about them. before: as above. */
DIT_INTERNAL dit_result diti_job_request_noise(const dit_model *model, const diti_env *env,
                                               const diti_job_request *before, diti_job_request *out, dit_error *err);
/* conditioning.c: the blob of dit_encode_prompt */
DIT_INTERNAL dit_result diti_conditioning_from_blob(const diti_env *env, const char *member, const void *blob,
                                                    size_t size, diti_conditioning *out, dit_error *err);
DIT_INTERNAL void diti_conditioning_free(const diti_env *env, diti_conditioning *conditioning);
/* lora.c: whether adapters may call an encoder the third one, which it is not. */
DIT_INTERNAL bool diti_encoder_is_third(const dit_model *model, uint32_t index);
/* LoRAs of a model. Files are opened before its parts are measured and loaded, and added behind that. */
DIT_INTERNAL dit_result diti_loras_open(dit_model *model, const dit_model_desc *desc, dit_error *err);
/* Bytes on the device, by the parts as they are measured. */
DIT_INTERNAL dit_result diti_loras_measure(dit_model *model, dit_error *err);
DIT_INTERNAL dit_result diti_loras_load(dit_model *model, dit_error *err);
DIT_INTERNAL uint64_t diti_loras_bytes(const dit_model *model);
/* The low-rank parts in the file of a transformer that has been loaded or measured. */
DIT_INTERNAL dit_result diti_loras_low_rank(dit_model *model, const diti_checkpoint *checkpoint, bool low,
                                            dit_error *err);
DIT_INTERNAL void diti_loras_free(dit_model *model);
/* Strengths, and which LoRAs are not 0. */
DIT_INTERNAL dit_result diti_loras_request(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                           dit_error *err);
/* Before the first op of a graph: those LoRAs are beside its layers. */
DIT_INTERNAL void diti_loras_emit(const dit_model *model, uint32_t which, diti_graph *graph, diti_lora_uses *out);
DIT_INTERNAL dit_result diti_loras_write(const dit_model *model, const float *weights, const diti_lora_uses *uses,
                                         diti_plan *plan, dit_error *err);
/* prompt.c: from a prompt to the rows that the transformer reads, whatever the encoders */
DIT_INTERNAL bool diti_prompts_read_padding(const dit_model *model); /* diti_model_traits.encodes_padding */
/* The tokens of a prompt, for every encoder as branch `branch`; what does not fit is logged. shape: of the job, whose
   references are shown with the prompt; NULL: none are. negative: guidance leads away from it. */
DIT_INTERNAL dit_result diti_prompt_tokens_make(const dit_model *model, const diti_env *env,
                                                const diti_job_shape *shape, const char *prompt, uint32_t branch,
                                                bool negative, diti_prompt_tokens *tokens, dit_error *err);
DIT_INTERNAL dit_result diti_prompt_tokens_alloc(const dit_model *model, const diti_env *env, bool weighted,
                                                 diti_prompt_tokens *tokens, dit_error *err);
/* Whether some token of a branch counts more or less than others. */
DIT_INTERNAL bool diti_prompt_tokens_weighted(const dit_model *model, uint32_t branch,
                                              const diti_prompt_tokens *tokens);
DIT_INTERNAL void diti_prompt_tokens_free(const diti_env *env, diti_prompt_tokens *tokens);
/* The rows of a text at which the tokens of references begin. */
DIT_INTERNAL dit_result diti_prompts_shown(const dit_model *model, const diti_job_shape *shape,
                                           const diti_prompt_tokens *tokens, uint32_t rows[DITI_MAX_REFERENCES],
                                           dit_error *err);
/* Rows of a plan for so many tokens, at most `most`: a granule's multiple, so that most new prompts fit the old plan.
 */
DIT_INTERNAL uint32_t diti_conditioning_rows(uint32_t tokens, uint32_t most);
/* In a graph: what is encoded and what is given becomes use->texts. */
DIT_INTERNAL void diti_prompts_emit(const dit_model *model, diti_graph *graph, diti_text_use *use);
DIT_INTERNAL dit_result diti_prompts_write(const dit_model *model, const diti_env *env, diti_plan *plan,
                                           const diti_text_use *use, const diti_prompts *prompts, dit_error *err);
/* The first row of a branch in a text without fixed places; rows: of each branch. */
DIT_INTERNAL uint32_t diti_prompts_first(const diti_text_use *use, const uint32_t *rows, uint32_t branch);
/* classes.c: what stands in place of prompts */
DIT_INTERNAL dit_result diti_job_request_classes(const dit_model *model, const dit_job_desc *desc,
                                                 diti_job_request *out, dit_error *err);
/* request.c: a desc checked and resolved, all but its noise. before: the request of the run that this one continues;
   NULL: none. */
DIT_INTERNAL dit_result diti_job_request_make(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                              const diti_job_request *before, diti_job_request *out, dit_error *err);
DIT_INTERNAL void diti_job_request_free(const diti_env *env, diti_job_request *request);
/* Puts copies in place of the pictures of the desc, for a plan that is made after the desc is gone. */
DIT_INTERNAL dit_result diti_request_keep_pictures(const diti_env *env, diti_job_request *request, dit_error *err);
DIT_INTERNAL void diti_request_drop_pictures(const diti_env *env, diti_job_request *request);
/* Says what keeps a job from being split as the request says; NULL: nothing, as far as its prompts are read. */
DIT_INTERNAL const char *diti_job_unsplit(const dit_model *model, const diti_job_request *request);
/* Why patches on one device cannot be; NULL: they can, or there are none. */
DIT_INTERNAL const char *diti_job_strips_uneven(const dit_model *model, const diti_job_request *request);
DIT_INTERNAL dit_result diti_job_check_strips(const dit_model *model, const diti_job_request *request,
                                              dit_error *err); /* for PipeFusion, where there are strips */
/* job.c: before anything that a desc points to is touched: it may never have been initialised. */
DIT_INTERNAL dit_result diti_job_check_guards(const dit_job_desc *desc, dit_error *err);
/* guidance.c */
DIT_INTERNAL uint32_t diti_job_branches(const diti_job_shape *shape); /* branches of guidance: 1 without guidance */
/* Columns of a row of diti_solver_desc.coefficients. */
DIT_INTERNAL uint32_t diti_job_solver_columns(const diti_job_shape *shape);
/* Once it is known whether there is guidance. */
DIT_INTERNAL dit_result diti_job_request_skipping(const dit_model *model, diti_job_request *out, dit_error *err);
/* Counts the kinds of all steps, and warns where what is wanted works in none. */
DIT_INTERNAL void diti_job_request_kinds(const diti_env *env, diti_job_request *request);
DIT_INTERNAL diti_step_kind diti_job_step_kind(const diti_job_request *request, uint32_t step);
DIT_INTERNAL uint32_t diti_job_step_variant(const diti_job_request *request, uint32_t step);
/* PipeFusion evaluates steps strip by strip. */
DIT_INTERNAL bool diti_strips_used(const diti_job_shape *shape);
/* The step is evaluated all at once, in a run that begins with step `begins`. */
DIT_INTERNAL bool diti_strips_whole(const diti_job_request *request, uint32_t begins, uint32_t step);
/* The other transformer of models with two; NULL: there is one. */
DIT_INTERNAL diti_transformer *diti_model_second(const dit_model *model);
/* Whether a share has both branches, and a transformer for each. */
DIT_INTERNAL bool diti_share_guides_apart(const diti_share *share);
/* The transformer that program.step is for, where no expert for low noise is at work. */
DIT_INTERNAL const diti_transformer *diti_share_transformer(const diti_share *share);
/* Whether model->low evaluates the step. */
DIT_INTERNAL bool diti_job_is_low(const dit_job *job, uint32_t step);
DIT_INTERNAL uint32_t diti_control_working(const diti_job_request *request, uint32_t step); /* bit i: control net i */
DIT_INTERNAL bool diti_job_preview_due(const dit_job *job, uint32_t steps_done);
/* The prediction that the solver is given: branches as diti_solver_desc wants them. */
DIT_INTERNAL diti_tensor diti_guidance_emit(diti_share *share, diti_graph *graph, diti_step_kind kind);
/* modal.c: of both branches' predictions F32 [2 * C, columns], those of a clip with a sound, which has a guidance of
   its own: for the solver to guide, or (shape.rescales) the guided one, F32 [C, columns]. */
DIT_INTERNAL dit_result diti_modal_request(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                           dit_error *err);
DIT_INTERNAL void diti_modal_emit_inputs(diti_share *share, diti_graph *graph);
DIT_INTERNAL diti_tensor diti_modal_guide(diti_share *share, diti_graph *graph, diti_tensor both);
/* The conditional branch once more, otherwise: diti_step_desc.perturbed and isolated. */
DIT_INTERNAL diti_tensor diti_guidance_other(diti_share *share, diti_graph *graph, uint64_t perturbed, bool isolated);
DIT_INTERNAL dit_result diti_modal_write(diti_share *share, dit_error *err);
/* strips.c */
DIT_INTERNAL bool diti_strips_has(const diti_share *share, uint32_t variant, diti_step_form form);
/* The segment that must follow after so many steps; UINT32_MAX: nothing particular. */
DIT_INTERNAL uint32_t diti_strips_after(const diti_share *share, uint32_t segment, uint32_t steps);
DIT_INTERNAL bool diti_strips_is(const diti_share *share, uint32_t segment, diti_step_form form);
DIT_INTERNAL void diti_strips_begin(diti_share *share, diti_graph *graph); /* share->program.step is there */
/* false: it is done as steps usually are. */
DIT_INTERNAL bool diti_strips_emit(diti_share *share, diti_graph *graph, diti_step_kind kind, diti_step_form form,
                                   bool reuses, const diti_solver_desc *states);
DIT_INTERNAL void diti_strips_share_latent(diti_share *share, diti_graph *graph); /* the first stages' latent */
/* reuse.c: dit_job_desc.cache; then, when steps and split are known, the table of its steps */
DIT_INTERNAL dit_result diti_job_request_cache(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                               dit_error *err);
DIT_INTERNAL dit_result diti_job_request_reuse(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               diti_job_request *out, dit_error *err);
#define DITI_REPORT_BYTES (sizeof(diti_health) + 2 * DITI_REUSE_STATE * sizeof(float))
DIT_INTERNAL bool diti_job_reuses(const dit_job *job, uint32_t step);     /* the host knows that it does */
DIT_INTERNAL uint32_t diti_job_reused(dit_job *job);                      /* dit_status.reused */
DIT_INTERNAL void diti_reuse_begin(diti_share *share, diti_graph *graph); /* share->program.step is there */
/* In a step's segment, before its evaluation. */
DIT_INTERNAL void diti_reuse_select(diti_share *share, diti_graph *graph, diti_step_kind kind, bool reuses);
DIT_INTERNAL dit_result diti_reuse_write(diti_share *share, dit_error *err);
/* start.c */
/* Whether an image can be in a layout, and be left in it. Numbers from 1000000000 on are those of extensions, which may
   be newer than dit. */
DIT_INTERNAL bool diti_is_layout(uint32_t layout);
/* A picture in memory, of the size that is made. */
DIT_INTERNAL dit_result diti_job_check_memory(const char *name, const dit_image *image, const diti_job_shape *shape,
                                              dit_error *err);
DIT_INTERNAL dit_result diti_job_write_pixels(diti_share *share, diti_tensor pixels, const dit_image *image,
                                              dit_error *err);
/* How white a mask is, 0..255; and 1 where it is more so than black, else 0. */
DIT_INTERNAL uint32_t diti_mask_grey(const dit_image *mask, uint32_t x, uint32_t y);
DIT_INTERNAL float diti_mask_at(const dit_image *mask, uint32_t x, uint32_t y);
DIT_INTERNAL dit_result diti_job_request_start(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               diti_job_request *out, dit_error *err);
/* states: of the solver, share->program.latent among them, all zeros: the latents to begin with, and what a mask needs.
 */
DIT_INTERNAL void diti_start_emit(diti_share *share, diti_graph *graph, const diti_solver_desc *states);
/* The latents to begin with become those of a picture or clip, with noise. */
DIT_INTERNAL void diti_start_begin(diti_share *share, diti_graph *graph, const diti_solver_desc *states,
                                   diti_tensor latents);
DIT_INTERNAL dit_result diti_start_write(diti_share *share, dit_error *err);
DIT_INTERNAL void diti_job_record_start(const dit_job *job, VkCommandBuffer commands);
DIT_INTERNAL size_t diti_job_latent_values(const dit_job *job); /* values of all pictures */
/* decode.c */
/* Colours of the model's latents; false: none are known. */
DIT_INTERNAL bool diti_model_colors(const dit_model *model, diti_colors *out);
DIT_INTERNAL void diti_decode_emit_preview(diti_share *share, diti_graph *graph);
DIT_INTERNAL dit_result diti_preview_write(diti_share *share, dit_error *err);
DIT_INTERNAL void diti_decode_emit(diti_share *share, diti_graph *graph); /* all pictures */
/* emit.c: the whole picture as one graph */
DIT_INTERNAL void diti_share_emit(diti_share *share, diti_graph *graph);
/* Whether all devices of a split job compute with F16, as far as other processes have told. */
DIT_INTERNAL bool diti_job_has_halves(const dit_job *job);
/* inputs.c */
DIT_INTERNAL dit_result diti_job_write_inputs(dit_job *job, dit_error *err);
/* probe_attention.c: whether the attention that the device is set to is right; int8: with queries and keys of int8 */
DIT_INTERNAL dit_result diti_probe_attention(diti_device *device, bool int8, uint32_t head_dim, bool *agrees,
                                             dit_error *err);
/* Finds coop_layout of a device, which has matrices of halves. */
DIT_INTERNAL dit_result diti_probe_layout(diti_device *device, uint32_t *layout, dit_error *err);
/* probe_product.c: whether a product on the rung that the device is set to is right; type: of
   its weights (int8 rows, 8-bit floats), else DIT_TYPE_STORED */
typedef enum diti_probe {
    DITI_PROBE_PLAIN,    /* F32, nothing fused */
    DITI_PROBE_HIDDEN,   /* F16: activation(x W + b) * multiplier */
    DITI_PROBE_RESIDUAL, /* from F16 to F32: residual + gate * (x W + b) */
    DITI_PROBE_CONV      /* F16: 3 x 3 with bias and residual */
} diti_probe;
DIT_INTERNAL dit_result diti_probe_product(diti_device *device, diti_probe which, dit_type type, bool *agrees,
                                           dit_error *err);
/* selftest.c: a device that computes wrong with some class of kernels does without it from now on. DEVICE_LOST with a
   new bit in device->dropped: the device is of no use any more, but would be without that class. DEVICE_LOST after
   which it does not compile ahead any more: the same, of compiling ahead. */
DIT_INTERNAL dit_result diti_selftest_device(dit_context *context, diti_device *device, dit_error *err);
/* Whether it compiles pipelines side by side first: threads are lent, and no start is known that did not survive it. */
DIT_INTERNAL bool diti_selftest_compiles_ahead(const dit_context *context, const diti_device *device);
DIT_INTERNAL void diti_marks_read(diti_marks *marks, const dit_context_desc *desc);
/* order.c: how a run comes to the segments of its plan */
DIT_INTERNAL bool diti_share_is_step(const diti_share *share, uint32_t segment);
DIT_INTERNAL bool diti_share_counts(const diti_share *share, uint32_t segment);       /* as one step more */
DIT_INTERNAL void diti_run_advance(const diti_share *share, diti_job_cursor *cursor); /* behind a slice */
/* How often a run comes to a segment before it has counted so many steps; UINT32_MAX: in all. */
DIT_INTERNAL uint32_t diti_share_runs(const diti_share *share, uint32_t segment, uint32_t steps);
/* Steps of a run that is over, or a new one; all of a run. */
DIT_INTERNAL double diti_share_steps_us(const diti_share *share, uint32_t steps);
DIT_INTERNAL double diti_share_predict_us(const diti_share *share);
/* The bytes of streamed weights that one call may read: as many as a processor copies in about the time that the caller
   gives the GPU. */
DIT_INTERNAL uint64_t diti_job_load_bytes(uint32_t budget_us);
/* In record mode: whether segments that have run must run again. */
DIT_INTERNAL bool diti_job_must_repeat(const dit_job *job);
/* run.c: whether segments must run again, going back to the first of them, or an error where that does not help. */
DIT_INTERNAL dit_result diti_job_verdict(dit_job *job, dit_error *err);
/* Ends the job's run. why: of an error, else NULL. */
DIT_INTERNAL void diti_run_end(dit_job *job, dit_result result, const dit_error *why);
/* Ends the job with this error, and returns its result. */
DIT_INTERNAL dit_result diti_run_fail(dit_job *job, const dit_error *why);
/* A last look at the latent and the picture, of which every share has made some. */
DIT_INTERNAL dit_result diti_run_check_health(dit_job *job);
/* assign.c */
/* Whether every device has two stages: a first and its mirrored one. */
DIT_INTERNAL bool diti_job_folds(const dit_job *job, const dit_context *context);
/* Assigns share `share` of so many its part of the work. */
DIT_INTERNAL void diti_assign(const diti_job_shape *shape, bool folded, uint32_t share, uint32_t total,
                              diti_assignment *out);
/* Describes the model and the request to the planner. */
DIT_INTERNAL void diti_job_split_shape(const dit_model *model, const diti_job_request *request, diti_split_shape *out);
/* share.c */
DIT_INTERNAL const char *diti_job_print_split(const diti_job_shape *shape, char out[DITI_SPLIT_NAME]);
/* auto.c: a split where the request leaves it to the devices, and shares where they are unequal. made: other
   processes make the job now, too, and are asked what they have; NULL: they count as what this one is. */
DIT_INTERNAL dit_result diti_job_choose(const dit_model *model, const dit_context *context, const dit_job *made,
                                        diti_job_request *request, dit_error *err);
/* Where a call has failed before its job's split could be chosen: letters that others send for that are taken, and
   those that they wait for are sent. */
DIT_INTERNAL void diti_job_choose_nothing(const dit_job *job);
/* split.c */
DIT_INTERNAL dit_result diti_job_divide(dit_job *job, const dit_context *context, dit_error *err);
/* Makes the other shares and connects them with job, whose own plan exists. */
DIT_INTERNAL dit_result diti_job_add_shares(dit_job *job, const dit_progress *progress, dit_error *err);
DIT_INTERNAL dit_result diti_job_join(dit_job *job, dit_error *err); /* makes the mesh, if any, that of the job's run */
DIT_INTERNAL void diti_job_drop_shares(dit_job *job);                /* waits */
/* Divides the job anew over other devices, in the order of ranks, without asking what is possible. */
DIT_INTERNAL void diti_job_redivide(dit_job *job, const uint32_t *devices);
DIT_INTERNAL void diti_job_settle(dit_job *job); /* waits for all that shares have submitted */
/* replan.c: the plan of the first share is made anew for the request; on failure the job keeps its old program. */
DIT_INTERNAL dit_result diti_job_replace_program(dit_job *job, dit_error *err);
/* program.c */
/* Appends a share to the job, without an assignment; NULL: no memory. device: NULL where the share is only measured. */
DIT_INTERNAL diti_share *diti_share_create(dit_job *job, diti_device *device);
DIT_INTERNAL void diti_share_destroy(diti_share *share);
DIT_INTERNAL dit_result diti_share_plan(diti_share *share, const dit_progress *progress, dit_error *err);
/* Frees what families made for their evaluations. */
DIT_INTERNAL void diti_program_free_families(const diti_env *env, diti_program *program);
DIT_INTERNAL void diti_program_destroy(diti_device *device, diti_program *program);
/* Allocates commands of the share's own, in a pool that is made with the first of them; they are open until they are
 * ended.
 */
DIT_INTERNAL dit_result diti_share_allocate_commands(diti_share *share, VkCommandBuffer *out, dit_error *err);
DIT_INTERNAL dit_result diti_share_end_commands(diti_share *share, VkCommandBuffer commands, dit_error *err);
/* The copies into pictures and out of them. */
DIT_INTERNAL dit_result diti_job_record_copies(dit_job *job, dit_error *err);
/* status.c: the answers to dit_job_get_counters and dit_job_shares, at the end of every call of the job's own thread: a
   call may replace the plans. */
DIT_INTERNAL void diti_job_publish(dit_job *job);
/* Frees what dit_status.rerun_op may point to. */
DIT_INTERNAL void diti_reruns_free(dit_job *job);
/* Adds the counts of all shares but the first, and what all have sent. */
DIT_INTERNAL void diti_job_count_others(const dit_job *job, dit_counters *out);
/* share.c */
DIT_INTERNAL void diti_share_describe(const diti_share *share, dit_share *out);
/* terms.c: what a job over several processes must have in common */
typedef enum diti_term {
    DITI_TERM_DEVICES,
    DITI_TERM_CHUNK,
    DITI_TERM_MODEL,
    DITI_TERM_MATRICES,
    DITI_TERM_SPLIT,
    DITI_TERM_WIDTH,
    DITI_TERM_HEIGHT,
    DITI_TERM_IMAGES,
    DITI_TERM_FRAMES,
    DITI_TERM_STEPS,
    DITI_TERM_TEXT,
    DITI_TERM_GUIDANCE,
    DITI_TERM_CACHE,
    DITI_TERM_PICTURES,
    DITI_TERM_TILE,
    DITI_TERMS
} diti_term;

/* A rank's letter. */
typedef struct diti_terms {
    uint32_t made;  /* 0: the call has failed before a plan was made, as the rank's last word says */
    uint32_t lacks; /* bit i: device i of the process computes without halves */
    uint64_t values[DITI_TERMS];
} diti_terms;
DIT_INTERNAL const char *diti_term_name(uint32_t term);
DIT_INTERNAL void diti_terms_write(const dit_job *job, diti_terms *out);
/* The terms of the run at hand, for diti_mesh_begin. */
DIT_INTERNAL uint32_t diti_job_run_terms(const dit_job *job);
/* agree.c: to be called once for a job, when its split is chosen, or (made is false) when its call has failed. */
DIT_INTERNAL dit_result diti_job_tell_terms(dit_job *job, bool made, dit_error *err);
/* DIT_OK: all ranks have told theirs, which fit, and the job is planned for F32 if some device has no F16; DIT_WORKING:
   they are awaited. */
DIT_INTERNAL dit_result diti_job_agree(dit_job *job, dit_error *err);
DIT_INTERNAL void diti_job_drop_terms(dit_job *job);
/* snapshot.c: what the solver remembers behind a step, on the host */
DIT_INTERNAL dit_result diti_snapshot_create(dit_job *job, dit_error *err); /* a place for it, where it is wanted */
DIT_INTERNAL dit_result diti_snapshot_record(dit_job *job, dit_error *err); /* for a new plan */
DIT_INTERNAL void diti_snapshot_destroy(dit_job *job);
DIT_INTERNAL void diti_snapshot_forget(dit_job *job); /* a run begins */
/* Whether the slice at the cursor ends something whose outcome is kept, and has no place for it yet. */
DIT_INTERNAL bool diti_snapshot_busy(const diti_share *share);
/* After a slice of `segment` at the end of which the cursor has moved on to another one. */
DIT_INTERNAL dit_result diti_snapshot_submit(diti_share *share, uint32_t segment, uint64_t *value, dit_error *err);
DIT_INTERNAL void diti_snapshot_poll(diti_share *share, uint64_t done);
/* A share begins its steps with the states, and the number of those that are over. */
DIT_INTERNAL dit_result diti_resume_write_states(diti_share *share, const diti_snapshot *snapshot, dit_error *err);
/* Before the first step of a resumed share. */
DIT_INTERNAL dit_result diti_share_submit_states(diti_share *share, uint64_t *value, dit_error *err);
/* A share begins, at that step where it is not 0. */
DIT_INTERNAL void diti_resume_set_out(diti_share *share, uint32_t step, double total_us);
/* Takes dit_job_desc.state, if it is given, before the inputs are written. */
DIT_INTERNAL dit_result diti_state_take(dit_job *job, const dit_job_desc *desc, dit_error *err);
DIT_INTERNAL void diti_state_set_out(dit_job *job); /* a run that begins with it, behind diti_job_rewind */
/* resume.c: split jobs that go on without a device */
/* Loads what that needs on the second device, before there are other shares. */
DIT_INTERNAL dit_result diti_snapshot_stand_in(const dit_job *job, const dit_progress *progress, dit_error *err);
/* DIT_OK: the run goes on without the device that why names; else why says how it ended. */
DIT_INTERNAL dit_result diti_job_resume(dit_job *job, dit_error *why);
/* DIT_OK once a resumed job has what the first rank remembers: then its run begins. */
DIT_INTERNAL dit_result diti_resume_take_states(dit_job *job, dit_error *err);
/* retire.c */
DIT_INTERNAL void diti_retired_collect(dit_context *context); /* destroys retired jobs that nothing uses any more */
/* All of them, of a model or (NULL) of all: nothing uses them. */
DIT_INTERNAL void diti_retired_end(dit_context *context, const dit_model *model);
/* image.c: pictures on the device */
DIT_INTERNAL dit_result diti_image_check(const diti_device *device, const dit_target *target, uint32_t width,
                                         uint32_t height, uint32_t layers, dit_error *err);
/* Whether pictures can go to another target without other images of dit's; then they do. */
DIT_INTERNAL bool diti_job_may_aim(const dit_job *job, const dit_target *target);
DIT_INTERNAL void diti_job_aim(dit_job *job, const dit_target *target);
DIT_INTERNAL dit_result diti_job_images_create(dit_job *job, dit_error *err);
DIT_INTERNAL void diti_job_images_destroy(dit_job *job);
#define DITI_NO_REPORT UINT32_MAX /* in diti_health.step, until the last commands of a run have written it */
/* Before the commands of a run, or of the rest of one, whose report diti_run_check_health or diti_job_reported awaits.
 */
DIT_INTERNAL void diti_job_await_report(dit_job *job);
DIT_INTERNAL bool diti_job_reported(const dit_job *job); /* the picture is there, and nothing was out of fp16's range */
DIT_INTERNAL void diti_job_record_finish(const dit_job *job, VkCommandBuffer commands);
DIT_INTERNAL void diti_job_record_preview(const dit_job *job, VkCommandBuffer commands);
/* Frame `frame` of the newest chunk to the application's image, behind its layer by `place` layers. */
DIT_INTERNAL void diti_image_record_frame(const dit_job *job, VkCommandBuffer commands, uint32_t image, uint32_t frame,
                                          uint32_t place);
DIT_INTERNAL uint32_t diti_image_count(const dit_job *job); /* images with pictures; a clip's has layers */
#endif
