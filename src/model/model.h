/* model: one file per transformer family. It reads its config and key names, loads weights, and emits the ops of one
 * denoiser evaluation. */
#ifndef DITI_MODEL_H
#define DITI_MODEL_H
#include "graph/ops.h"
#include "graph/plan.h"
#include "weights/component.h"
#include "io/io.h"

/* Text encoders that families are made for. */
typedef enum diti_encoder_kind {
    DITI_ENCODER_NONE,
    DITI_ENCODER_T5,
    DITI_ENCODER_BYT5, /* a T5 of bytes, which reads what a prompt has in quotes */
    DITI_ENCODER_CLIP_L,
    DITI_ENCODER_CLIP_G,
    DITI_ENCODER_BERT,
    DITI_ENCODER_CONDITIONER, /* makes the text of T5's tokens and of what the encoder before it says */
    DITI_ENCODER_CONNECTORS,  /* make two texts of all states of the encoder before them */
    DITI_ENCODER_QWEN3,       /* decoder language models from here on */
    DITI_ENCODER_QWEN2,       /* Qwen2.5 */
    DITI_ENCODER_GEMMA2,
    DITI_ENCODER_GEMMA3,
    DITI_ENCODER_MISTRAL,
    DITI_ENCODER_LLAMA,
    DITI_ENCODER_QWEN3_VL, /* from here on kinds that a family may want, each of which is loaded as one of those above:
                              Qwen3, Qwen2.5 or T5 (diti_encoder_loaded_as) */
    DITI_ENCODER_QWEN2_VL,
    DITI_ENCODER_MT5,
    DITI_ENCODER_UMT5
} diti_encoder_kind;
#define DITI_ENCODERS 3u /* most encoders of one model */

/* The latents of a model, where no config.json of an autoencoder tells: latent = (z - shift) * scale (docs/models.md
   4.1). */
typedef struct diti_latents {
    uint32_t channels;
    float scale, shift;
    bool only; /* no other family's autoencoder with as many channels will do */
} diti_latents;

/* A family tells the job these. */
typedef struct diti_model_traits {
    const char *family, *variant; /* "pixart", "sigma": a guess from the transformer alone */
    diti_latents latents;         /* all zero: the family's */
    uint32_t layers;              /* blocks */
    uint32_t single_layers;   /* blocks in which text and image share their weights (FLUX); layers counts them, too */
    uint32_t width, heads;    /* D, attention heads */
    uint32_t feed;            /* columns of the feed-forward; 0: 4D */
    bool gated;               /* the feed-forward has a third matrix */
    uint32_t latent_channels; /* C */
    uint32_t condition_channels; /* channels of a condition (of a given picture) that follow the latent's as an input */
    uint32_t mask_channels; /* the first of them say which frames are given, and those behind are of a whole clip that
                               has the picture first and grey behind it; 0: all are the picture's, or 0 */
    bool marks_given; /* the last of condition_channels is 1 in frames that are given; those before are a latent's, with
                         zeros behind such frames */
    uint32_t repaint_channels; /* the last of condition_channels are a mask's, one for each pixel of a latent element,
                                  and the others are those of the picture without what is repainted; 0: in models of
                                  pictures all are the picture's that is followed */
    bool fixes_first;    /* a picture that a clip is given is its first frame in every evaluation, where frame_steps at
                            timestep 0 */
    float picture_noise; /* such a picture's latent has new noise in every step, so many times the square of the flow's
                            time; all of it, and what the encoder draws, comes behind the clip's own; 0: none */
    bool given_last;     /* noise that the encoder draws of such a picture comes behind the clip's noise, too */
    bool evens_first;    /* before a clip with such a picture is decoded, the mean and the deviation of its first latent
                            frames come close to those of the next ones (docs/models.md 3.23) */
    bool means;          /* a given picture is encoded to the mean that the autoencoder says, and not drawn */
    uint32_t out_channels; /* channels of the transformer's output: C, or 2C with the learned sigma that is dropped */
    uint32_t patch;
    uint32_t default_size;              /* latent height, and width if default_columns is 0 */
    uint32_t default_columns;           /* latent width */
    uint32_t factor;                    /* pixels of a latent element's side, where no autoencoder tells; 0: 8 */
    uint32_t text_tokens, text_columns; /* shape of the encoder output that the family wants; the pipeline's class may
                                           name another number of tokens */
    uint32_t default_steps;
    float default_guidance;
    uint32_t perturbed;   /* the original guides away from a prediction in which this block is perturbed, counted from 1
                             on;   0: diti_step_desc.perturbed and isolated are not understood */
    float sound_guidance; /* guidance of a clip's sound where nobody asks for another; 0: as the pictures' */
    const char *negative; /* the text that the original's program guides away from where nobody says it; NULL: none */
    bool always_negative; /* diffusers' pipeline does so, too */
    uint32_t text2_tokens, text2_columns;      /* shape of a second encoder's output; 0: there is none */
    uint32_t pooled_columns;                   /* columns of the encoders' pooled outputs, joined; 0: not used */
    diti_encoder_kind encoders[DITI_ENCODERS]; /* in the order in which diffusers numbers them */
    const char *encoder_folder;                /* the original's name for text_encoder; NULL: that is its name */
    const struct diti_chat *chat;              /* how a decoder language model among them is asked (text/text.h), where
                                                  model_index.json has no class that says otherwise; NULL: what it says is given */
    bool lacks_encoders;  /* the model was trained to do without some encoders: zeros stand for their outputs */
    uint32_t class_count; /* classes in place of a text, without the one that means none; 0: none */
    bool guides_beyond;   /* the originals count guidance from the conditional prediction on: 1 less than dit.h */
    bool norms_tokens;    /* the guided prediction of each token gets the length of the conditional one */
    bool shortens_tokens; /* longer ones alone get that length, where no picture is referred to */
    bool norms_lines;     /* each line of each channel gets the length of the conditional one, in place of each token */
    uint32_t guided_channels; /* the first so many are guided; 0: all */
    const char *scheduler;    /* the scheduler_config.json of models that come without; NULL: unknown */
    /* The defaults where another expert for low noise stands beside it: guidance of either, and the scheduler. */
    float expert_guidance, expert_low_guidance;
    const char *expert_scheduler;
    const float *distilled_sigmas; /* steps of a job without guidance that has so many, which no shift changes: for
                                      models that nothing in their files tells from distilled ones */
    uint32_t distilled_steps;      /* 0: there are none */
    bool uniform_sigmas;           /* steps are equal before the shift, from 1 to 1 / steps */
    bool quadratic_sigmas; /* half of the steps are equal and small, and the others grow (docs/models.md 3.10) */
    bool causal_frames;    /* positions in time count the first latent frame as one frame */
    float fixed_shift;     /* the shift of timesteps, whatever the scheduler's configuration says; 0: what that says */
    /* The shift, where the scheduler's configuration says that it depends on the size; NULL: by that configuration. */
    double (*measured_shift)(uint32_t image_tokens, uint32_t steps);
    /* Sigmas of the flow before the shift, which fall; NULL: by the schedule. */
    double (*sigma)(uint32_t step, uint32_t steps, uint32_t image_tokens);
    const char *guides_apart; /* another transformer of the same shape evaluates the unconditional branch, without a
                                 text: the folder where pipelines have it; NULL: this one evaluates both */
    const char *sampler;      /* where nobody asks for another one; NULL: by the scheduler's configuration */
    float late_guidance; /* a sixteenth of the steps, the last ones, rounded up, has this guidance where nobody asks for
                            another; 0: all have default_guidance */
    const char *control_by;      /* the tensor by which control nets for the model are told; NULL: it takes none */
    const uint32_t *adds_behind; /* block i of such a net adds behind that block of the model alone; NULL: as below */
    uint32_t control_channels;   /* channels of the clip that the model's branch follows: a latent's where it stays, as
                                    many where it is made anew, and those of a mask, one for each pixel of a latent
                                    element; 0: there is no branch */
    bool spreads_control;   /* blocks of a control net are spread evenly over those of the model, of which the last one
                               gets nothing (SD3); else each serves as many as the quotient, rounded up (FLUX.1) */
    bool unshifted;         /* latents are scaled alone, even where the autoencoder's config.json has a shift */
    bool unshifted_control; /* a control net's picture has a latent that is scaled alone */
    bool draws_control;     /* the original draws the latent of each control net's picture by the seed */
    const char *cache;      /* dit_job_desc.cache "auto"; NULL: as other families */
    bool caches_references; /* diti_step_desc.keeps_references is understood */
    bool prefixes; /* keys and values of the text and of references are made once, whatever keeps_references is */
    bool keeps_references;   /* jobs keep references without being asked, since the model's pipeline does */
    bool edits;              /* the model was made to edit the pictures that it refers to */
    uint32_t references;     /* how many pictures a picture may be made after (diti_step_desc.references) */
    uint32_t reference_area; /* pixels that references are scaled to, with sides that are multiples of 32; 0: they are
                                cut to whole tokens */
    uint32_t reference_unit; /* pixels: sides are rounded up to multiples of these instead; 0: they are not */
    uint32_t reference_limit, reference_limit_alone; /* before that, one of more pixels is scaled down to so many: each
                                                      of several, and one by itself; 0: it is not */
    const uint16_t (*reference_sizes)[2]; /* widths and heights, a 0 behind them: each is scaled to the one of the
                                             nearest proportions instead; NULL: it is not */
    bool floors_references; /* one of more pixels than its limit, or with a side of more than twice the limit's root, is
                               scaled down, and sides are rounded down to multiples of 16, by scaling; so are copies for
                               the language model, whose limit is shown_area (docs/models.md 3.29) */
    uint32_t shown_area;    /* pixels of the copies that the language model sees, with such sides; 0: it sees
                               none */
    bool shown_half;        /* such copies are made of the scaled references, half as wide and as high */
    bool anchors;           /* a clip's first picture and its last one are references of its size, which are drawn by a
                               seed of their own and get anchor_noise (docs/models.md 3.28) */
    float anchor_noise;     /* the noise's part of them */
    const struct diti_chat *picture_chat; /* how it is asked about references, where chat shows none */
    bool wants_guidance;                  /* diti_step_desc.guidance is an input (distilled models) */
    float default_distilled;              /* guidance that distilled models get by default */
    bool attends_padding;    /* every prompt is padded to text_tokens, and the padding is read as well: prompt i is rows
                                [i * text_tokens, (i + 1) * text_tokens) of the text; likewise of text2 */
    bool skips_blocks;       /* diti_step_desc.skipped is understood */
    bool joint;              /* text and image attend together, in one row of tokens */
    bool channels_last;      /* columns of patches are (dt, dy, dx, c) on the way in, too */
    bool planar;             /* columns of patches are (c, dt, dy, dx) on the way out, too; else (dt, dy, dx, c) */
    uint32_t pictures_seen;  /* text2 are tokens that an image encoder makes of so many pictures: of the one that is
                                moved, and of the one that its clip ends with */
    uint32_t seen_columns;   /* the tokens have so many columns and are a text beside text2 (diti_step_desc.seen), the
                                same for all branches, where pictures_seen is not 0; 0: they are text2 */
    bool masks_padding;      /* encoders leave the padding out, and the family wants text_lengths */
    uint32_t text_unit;      /* not 0: texts are of unequal length, and an evaluation has so many rows for each, or a
                                multiple, that the longest one fits: text_tokens */
    bool encodes_padding;    /* encoders read the padding, and the transformer does not */
    bool keeps_case;         /* prompts are not lower-cased */
    bool fixed_tokens;       /* prompts may have text_tokens, though the tokenizer's config allows fewer */
    bool mends_prompts;      /* entities of HTML and curled quotes in prompts become plain signs */
    bool skips;              /* block i < layers / 2 - 1 leaves its result for block layers - 1 - i (diti_skip_leave) */
    uint32_t default_frames; /* latent frames of a clip; 0: the model makes pictures */
    uint32_t least_frames;   /* latent frames of the shortest clip, where the autoencoder makes shorter ones; 0: none */
    uint32_t patch_frames;   /* latent frames of a patch; 0: 1 */
    float default_fps;       /* frames of a second at which clips are shown */
    float sound_rate;     /* tokens of sound for each second of a clip, which are denoised with it and stand in frames
                             of the latent behind the clip's (diti_sound_frames); 0: none */
    uint32_t sound_sides; /* channels of the sound, which have as many tokens each, one channel after the other; 0: 1 */
    uint32_t sound_columns; /* values of a token of sound, the first of a patch, in whose order noise is drawn, token by
                               token; 0: all, and noise is drawn by sound_channels */
    uint32_t sound_channels; /* noise of the sound is drawn in so many planes, which share latent_channels */
    bool draws_frames;       /* every step draws noise for frames that are given, whether there are any or not */
    bool noise_by_frame;     /* noise is drawn [frames, C, h, w]; else [C, frames, h, w] */
    bool noise_by_token;     /* noise is drawn [frames, h, w, C] */
    bool pixels_last;        /* channels of a latent pixel that is 2 x 2 of the autoencoder's are (dy, dx, c), and
                                not (c, dy, dx) */
    const float *latent_means, *latent_deviations; /* such a latent's, by channel, whatever the autoencoder's file says;
                                                       NULL: what that says */
    uint32_t padding_rows; /* rows of padding behind each prompt that are part of its text; the encoder makes them
                              without   attending them, and such prompts are not lower-cased */
    bool crops_text;       /* the unconditional prompt counts as many tokens as the other one, padding among them */
    bool still_pictures;   /* a clip of one frame goes without attention between frames (diti_step_desc.still) */
    bool divided; /* attention is within frames and within positions by turns (diti_sublayer.axis): devices that divide
                     rows have whole frames, and exchange them for positions */
    uint32_t feeds, texts; /* in a block of a divided model: feed-forwards and attentions to the text */
    bool frame_steps;      /* diti_step_desc.frame_steps is understood */
    bool whole_rows;       /* devices do not divide rows: no ulysses, ring or pipefusion */
    bool pads_patches;     /* zeros fill the patches in which a latent's lines and columns end */
    /* Other files of a pipeline tell models apart whose tensors are the same; either may be NULL. NULL: none does. */
    void (*settle)(struct diti_model_traits *traits, const diti_json *index, const diti_json *scheduler);
    void (*see)(struct diti_model_traits *traits); /* an image encoder that a caller names makes it one that moves a
                                                      picture; NULL: it changes nothing */
    const diti_weight *null_text; /* F32 [text_tokens, text_columns], on the device: stands for the absent prompt of
                                     guidance, as many rows of it as the prompt beside it has; NULL: an empty text */
} diti_model_traits;

/* Devices among which evaluations are divided, along each axis of their mesh. The devices of `sequence` divide rows:
   its member r * (members of ulysses) + u is number u of a ulysses group and number r of a ring. The devices of
   `tensor` are a grid: member a * (members of tensor_in) + b is number a of a tensor_out and number b of a tensor_in.
 */
typedef struct diti_axes {
    diti_ranks tensor, ulysses, ring, sequence, pipefusion, layers;
    diti_ranks tensor_out, tensor_in; /* divide rows and columns of the first matrix of a pair */
    bool leads;                       /* blocks here are [first_block, end_block): a control net's, where stages have
                                         those that their blocks of the model need */
    uint32_t first_block, end_block;
} diti_axes;
/* The rows at hand: of the `all` tokens of each image those from `first` on, of the all_text tokens of each prompt that
   stand before an image (joint attention) those from first_text on. */
typedef struct diti_token_range {
    uint32_t first, rows, all, first_text, text, all_text;
    uint32_t strip_first, strip_rows, strip_text; /* shares that the devices of a sequence divide: rows of the image, of
                                                     the text all or none */
    uint32_t strip_lead, strip_token, strip_tokens; /* rows of the image: those in front of tokens, then these */
    uint32_t unit; /* rows that stay together: a frame's, where frames have timesteps of their own, or attention is
                      within frames and within positions by turns; else 1 */
} diti_token_range;
/* Rows of the image that member i of a sequence has of `at`, and those before them. */
DIT_INTERNAL uint32_t diti_token_range_size(const diti_ranks *sequence, uint32_t i, const diti_token_range *at);
DIT_INTERNAL uint32_t diti_token_range_before(const diti_ranks *sequence, uint32_t i, const diti_token_range *at);

/* PipeFusion: keys and values of all rows in every block, F16 or F32 [branches * batch * (all_text + all), 2 * heads
   here
   * head_dim], of which an evaluation brings those of its own rows up to date. Then those of attention of the image
   alone, without text. */
#define DITI_MAX_BLOCKS 256u
typedef struct diti_kept_kv {
    diti_tensor kept[2][DITI_MAX_BLOCKS];
    bool int8; /* in kept are the keys as int8 rows with a scale each, here their values */
    diti_tensor values[2][DITI_MAX_BLOCKS];
} diti_kept_kv;
/* A strip comes from the devices that have earlier blocks, or is left by blocks here for later ones. */
typedef struct diti_stage_inbox {
    diti_tensor x, skips[DITI_MAX_BLOCKS / 2];
    uint32_t exchange, exchanges[DITI_MAX_BLOCKS / 2];
} diti_stage_inbox;

/* Keys and values of rows in front, which read nothing of the image and are as at timestep 0: of pictures that are
   referred to, or of a prompt and its pictures. A block has [rows, 2 * heads here * head_dim] in the format of queries,
   keys and values. */
typedef struct diti_reference_kv {
    diti_tensor kept[DITI_MAX_BLOCKS];
    diti_tensor items;    /* input U32 [branches * batch, DITI_ITEM_WORDS]: every prompt has as many of the rows, behind
                             those of an item, which attends some of both; 0: all items attend all rows */
    diti_tensor segments; /* input U32 [any, DITI_ITEM_WORDS]: rows and what they attend; 0: those of an item do all */
    bool fills;           /* the evaluation at hand makes them */
} diti_reference_kv;

/* The latent of a picture that is referred to, as the sampler has latents. */
#define DITI_MAX_REFERENCES 10u
typedef struct diti_reference_latent {
    diti_tensor planes; /* F32 [C, height * width] */
    uint32_t height, width;
} diti_reference_latent;

/* Control nets that add to the blocks of an evaluation. */
#define DITI_MAX_CONTROLS 4u
typedef struct diti_control_use {
    struct diti_step_desc *step;          /* the net's own evaluation, in which it is at its block `done` */
    const struct diti_transformer *model; /* the net */
    diti_tensor scales;                   /* input F32 [1, D]: the strength, in every column */
    diti_tensor x, added;                 /* the residual stream; what block made - 1 of the net adds */
    uint32_t done, made;
    diti_axes axes; /* axes of its evaluation */
    struct {
        diti_tensor x; /* residual stream of the net, which an earlier stage sends */
        uint32_t exchange;
    } inboxes[2]; /* inboxes of even and of odd strips */
} diti_control_use;

/* A range of blocks adds something to the residual stream. It is kept, so that later steps can do without these blocks
   (docs/models.md 7.16). */
typedef enum diti_reuse_use {
    DITI_REUSE_KEEPS,  /* all blocks are computed, and the range leaves what it adds */
    DITI_REUSE_ADDS,   /* a sum of kept residuals stands for them */
    DITI_REUSE_DECIDES /* the device decides which of both, by how blocks in front of the range have changed; or, where
                          there are none, by how the range's input has (EasyCache) */
} diti_reuse_use;
#define DITI_MAX_STRIPS 64u /* strips of PipeFusion, which the manual calls patches of the picture */
typedef struct diti_residual {
    uint32_t first, end; /* range of blocks */
    uint32_t slots;
    diti_reuse_use use;
    diti_tensor row;                                     /* the step's diti_reuse_row */
    diti_tensor kept[DITI_MAX_STRIPS][DITI_REUSE_SLOTS]; /* by strip, states F32 [branches * batch * rows at hand, D];
                                                              of the picture as a whole, the first */
    diti_tensor changes[2], state, gate; /* see diti_decide; changes where the device has the first blocks */
    diti_tensor next;                    /* state behind the step */
    diti_tensor count;                   /* the state's word that says how many steps reused blocks */
    diti_tensor outputs[2], sums[2];     /* EasyCache: outputs of the range where the device has the last blocks */
    uint32_t first_branch;               /* number of the first branch here among those of guidance */
    diti_ranks group;                    /* devices that decide together */
} diti_residual;

/* One denoiser evaluation inside a plan. Rows of the batch: the `branches` (unconditional, then conditional) of `batch`
 * images. */
typedef struct diti_step_desc {
    uint32_t batch, branches;
    uint32_t height, width;           /* size of the latent, multiples of the patch unless traits.pads_patches */
    uint32_t frames;                  /* frames of the latent; 0 and 1: a picture */
    uint32_t clip_frames;             /* pictures of the clip that is decoded of them; 0: as many */
    float fps;                        /* pictures of a second, where a model is conditioned on it; 0: its default */
    bool fixed;                       /* the first frame is that of a given picture */
    bool still;                       /* a divided model leaves its attention between frames out */
    uint32_t steps;                   /* rows of the timestep tables */
    uint32_t text_batch, text_tokens; /* prompts: branches (images share one) or branches * batch; tokens that one of
                                         them has at most */
    uint32_t pixels[2];               /* the picture's height and width */
    const float *micro;    /* host, for write_inputs: sizes that a model is conditioned on, in its family's order; NULL:
                              what its pipelines say for a picture of these pixels */
    diti_tensor latent;    /* state, planar F32 [batch * C, frames * height * width] */
    diti_tensor condition; /* planar F32 [batch * condition_channels, frames * height * width], which is not scaled; 0
                              where traits.condition_channels is 0 */
    diti_tensor input_scale;        /* F32 [1, 1], or 0 */
    diti_tensor text;               /* F32 or activation format [rows, text_columns]: the prompts' tokens, of
                                       unequal number, and rows that nothing reads */
    diti_tensor text_items;         /* U32 [text_batch, DITI_ITEM_WORDS]: which rows are each prompt's (as keys) */
    diti_tensor text2, text2_items; /* like text and text_items, for the second encoder; 0 where traits name none */
    uint32_t text2_tokens;          /* rows of text2 that one prompt has at most, where traits.text_unit is not 0 */
    diti_tensor seen;               /* F32 [tokens, seen_columns] of an image encoder; 0 where traits name none */
    const uint32_t *text_lengths,
        *text2_lengths;          /* host, for write_inputs: tokens of each prompt that are no padding */
    const uint32_t *text_firsts; /* host, for write_inputs: the row of text at which each prompt begins; NULL: every
                                    text_tokens rows */
    diti_tensor pooled;          /* F32 [text_batch, pooled_columns], or 0 */
    diti_tensor labels;          /* U32 [1, text_batch]: classes, class_count for none; or 0 */
    float guidance;              /* distilled guidance; read by write_inputs */
    diti_tensor row;             /* U32 [1, 1] state: which row of the tables */
    diti_tensor frame_steps; /* U32 [steps, branches * batch * frames of tokens here (diti_axes_frames)]: for every step
                                the row of the tables that each frame has: the step's, or, of frames that are given,
                                `steps`: the row of timestep 0; 0: all have the step's */
    uint32_t first_branch;   /* the step leaves branches before it out, and predicts for the others alone */
    uint64_t perturbed;      /* rows of these blocks attend themselves alone (bit i: block i), where traits.perturbed */
    bool isolated;           /* pictures and sound do not attend each other; likewise */
    uint64_t skipped;        /* the step leaves these blocks out (bit i: block i), for skip-layer guidance */
    diti_residual *residual; /* NULL: all blocks are computed, and nothing is kept */
    const diti_axes *axes;   /* NULL: all is computed here */
    uint32_t strip, strips;  /* PipeFusion: bands of whole rows of tokens that are evaluated one after the other, the
                                text  with the first of them; strips 0: all at once */
    diti_kept_kv *kept_kv;   /* NULL: attention is exact */
    diti_reference_latent references[DITI_MAX_REFERENCES];
    uint32_t reference_count;                 /* 0 where traits.references is 0 */
    uint32_t shown_rows[DITI_MAX_REFERENCES]; /* host, for write_inputs: the row of each text at which the tokens begin
                                                  that a language model has of a reference */
    uint32_t shown_tokens[DITI_MAX_REFERENCES]; /* how many they are */
    bool ends;                                  /* where traits.anchors: the last reference is the clip's last frame */
    bool keeps_references;                      /* traits.caches_references: the family's prepare makes reference_kv */
    diti_reference_kv *reference_kv; /* every item attends these, too, and has no rows in front; NULL: there are none */
    diti_control_use *controls;
    uint32_t control_count;
    diti_tensor control;   /* F32 [C, height * width]: in a control net's evaluation the latent of its picture; in a
                              branch's [control_channels, frames * height * width] */
    uint32_t control_mode; /* kind of picture, of a net with several; read by write_inputs */
    uint32_t lead; /* rows of every image in front of its tokens, which a family's prepare adds: the filling of a last
                      group of tokens, tokens of pictures that are referred to */
    diti_tensor lead_rows; /* F32 [lead, D]: what the residual stream begins with there; set by embed */
    uint32_t behind_text; /* rows behind each prompt's text_tokens that a family's prepare counts to the text: tokens of
                             pictures that are referred to, which attend as text does */
    diti_token_range token_range; /* from here on set by diti_transformer_step */
    bool same_timestep;           /* begin has been called for this timestep, and only the rows are others */
    uint32_t block;               /* number of the block whose attention is emitted */
    diti_stage_inbox inboxes[2];  /* inboxes of even and of odd strips */
    bool variance;                /* the prediction keeps all 2C channels (traits.out_channels) of every image */
    void *family; /* family's own tensors between prepare and step; freed with diti_free by the caller */
} diti_step_desc;

typedef struct diti_transformer diti_transformer;

/* --- a forward pass: what every op of a block needs besides its operands (sublayer.c) --- */
/* The rows that modulate a sublayer, by the names that DiT's original gave them, in the order in which weights hold
   them: attention's, the feed-forward's, and those of a second attention (SD3.5-medium). A model's last norm has the
   first two alone. */
typedef enum diti_modulator {
    DITI_SHIFT_MSA,
    DITI_SCALE_MSA,
    DITI_GATE_MSA,
    DITI_SHIFT_MLP,
    DITI_SCALE_MLP,
    DITI_GATE_MLP,
    DITI_SHIFT_MSA2,
    DITI_SCALE_MSA2,
    DITI_GATE_MSA2,
    DITI_NO_GATE,
    DITI_SHIFT = DITI_SHIFT_MSA,
    DITI_SCALE = DITI_SCALE_MSA
} diti_modulator;
typedef struct diti_modulation {
    diti_tensor rows; /* F32 [groups, chunks * D], a group for each prompt or one for all; of joint attention [prompts,
                       * 2 chunks * D], text's chunks before the image's */
    uint32_t chunks;  /* chunks of a stream; 0: the image's stand alone */
    diti_tensor lead; /* F32 [1, chunks * D] of the rows that lead the image's tokens, with DITI_STREAMS_TWO, or, with
                         DITI_STREAMS_SHARED, of diti_step_desc.behind_text; 0: they have the image's, or the text's */
} diti_modulation;
typedef struct diti_pass {
    const diti_transformer *model;
    diti_graph *graph;
    diti_step_desc *step;
    uint32_t index;             /* number of the block */
    uint32_t width;             /* D */
    uint32_t items, prompts;    /* pictures of all branches; items / prompts of them share a prompt */
    uint32_t text, image;       /* rows of an item that are at hand: of a joint text, then of the image */
    diti_modulation modulation; /* modulation of the block */
    diti_tensor cosines, sines; /* F32 [rows that attend each other, head_dim / 2] rotate queries and keys; 0: nothing
                                   does */
    uint32_t positions;         /* tokens of a frame */
    diti_tensor latent;         /* planes that patches are made of, so many for each item; embed may take others */
    uint32_t channels;
    uint32_t table_items; /* items whose rows those tables have, one after the other; 0: they are the same for all */
    diti_tensor keys;     /* U32 [items, DITI_ITEM_WORDS]: rows that those of an item attend, counted from its
                             first on; 0: all its own */
} diti_pass;

/* How a family's files are told from others': by a class in config.json, or by tensors that each of them has. */
#define DITI_SIGNATURE 4u
typedef struct diti_signature {
    const char *class_name, *norm_type; /* classes with spaces between; norm_type: with diffusers' older class
                                           Transformer2DModel; NULL: none */
    const char *diffusers[DITI_SIGNATURE], *original[DITI_SIGNATURE]; /* by the names of either code base */
    const char *video[2]; /* tensors that tell video models with the same names; NULL: none. Others have a patch
                             embedding of five dimensions */
} diti_signature;
/* A pipeline's class in model_index.json tells more than its transformer does. */
typedef struct diti_pipeline_class {
    const char *class_name, *variant; /* NULL: the end of a list */
    uint32_t text_tokens;
    float latent_scale;
} diti_pipeline_class;

/* Where a part of a family's models usually is: a repository on Hugging Face, and a folder or file in it. */
typedef struct diti_place {
    const char *variant; /* how it begins; "": all others. NULL: the end of a list */
    dit_role role;       /* DIT_ROLE_NONE: the place is dit_model_distilled's sentence */
    const char *place;
} diti_place;

/* Qwen-Image and Krea 2 ask with this. */
#define DITI_CHAT_DESCRIBE                                                                                             \
    DITI_CHAT_SYSTEM                                                                                                   \
    "Describe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the "   \
    "objects and background:<|im_end|>\n" DITI_CHAT_USER

/* An encoder that several families have. */
#define DITI_T5_PLACE "city96/t5-v1_1-xxl-encoder-gguf: t5-v1_1-xxl-encoder-Q8_0.gguf"

typedef struct diti_family {
    const char *name, *title; /* "sd3", "SD3" */
    diti_signature signature;
    diti_component_kind kind;   /* kind of the family's own struct, which begins with a diti_transformer. Its load sets
                                   the traits */
    const diti_key_table *keys; /* names of original files */
    diti_latents latents;
    const diti_pipeline_class *pipelines; /* NULL: none tells more */
    const struct diti_chat *chats; /* how decoder language models are asked; the last has no classes. NULL: the family
                                      has no such encoder */
    const diti_place *places;
    size_t state_size;             /* bytes that prepare leaves for the steps in step->family, zero at first */
    void (*prepare)(diti_pass *p); /* once per picture: modulation of all steps, text projections */
    /* An evaluation on the rows of step->token_range: begin emits what depends on the timestep, embed the residual
       stream F32 [items * (text + image), D], block changes it, final makes the prediction's rows F32 [items * image, p
       * p * out_channels]. */
    void (*begin)(diti_pass *p);
    diti_tensor (*embed)(diti_pass *p);
    diti_tensor (*block)(diti_pass *p, diti_tensor x);
    diti_tensor (*final)(diti_pass *p, diti_tensor x);
    /* Host inputs that prepare declared; timesteps: one for each of step->steps. */
    dit_result (*write_inputs)(const diti_transformer *transformer, diti_plan *plan, const diti_step_desc *step,
                               const float *timesteps, dit_error *err);
} diti_family;
/* All families. These lines stand before the families' files, since g++ warns of a declaration that follows the
   definition where a region of the header asks for an optimization. */
DIT_INTERNAL const diti_family *diti_pixart_family(void);
DIT_INTERNAL const diti_family *diti_dit_family(void);
DIT_INTERNAL const diti_family *diti_flux_family(void);
DIT_INTERNAL const diti_family *diti_sd3_family(void);
DIT_INTERNAL const diti_family *diti_hunyuandit_family(void);
DIT_INTERNAL const diti_family *diti_stdit_family(void);
DIT_INTERNAL const diti_family *diti_latte_plan_family(void);
DIT_INTERNAL const diti_family *diti_latte_family(void);
DIT_INTERNAL const diti_family *diti_cogvideox_family(void);
DIT_INTERNAL const diti_family *diti_ltx_family(void);
DIT_INTERNAL const diti_family *diti_ltx2_family(void);
DIT_INTERNAL const diti_family *diti_hunyuanvideo_family(void);
DIT_INTERNAL const diti_family *diti_hunyuanvideo15_family(void);
DIT_INTERNAL const diti_family *diti_wan_family(void);
DIT_INTERNAL const diti_family *diti_zimage_family(void);
DIT_INTERNAL const diti_family *diti_flux2_family(void);
DIT_INTERNAL const diti_family *diti_flux3_family(void);
DIT_INTERNAL const diti_family *diti_chroma_family(void);
DIT_INTERNAL const diti_family *diti_longcat_family(void);
DIT_INTERNAL const diti_family *diti_longcat_ovis_family(void);
DIT_INTERNAL const diti_family *diti_qwenimage_family(void);
DIT_INTERNAL const diti_family *diti_qwenimage21_family(void);
DIT_INTERNAL const diti_family *diti_lumina2_family(void);
DIT_INTERNAL const diti_family *diti_lumina2_boogu_family(void);
DIT_INTERNAL const diti_family *diti_sana_family(void);
DIT_INTERNAL const diti_family *diti_krea2_family(void);
DIT_INTERNAL const diti_family *diti_anima_family(void);
DIT_INTERNAL const diti_family *diti_ernie_family(void);
DIT_INTERNAL const diti_family *diti_ideogram4_family(void);
DIT_INTERNAL const diti_family *diti_kandinsky_family(void);
DIT_INTERNAL const diti_family *diti_minimax_family(void);
struct diti_transformer { /* first member of every family's own struct */
    diti_component component;
    const diti_family *family;
    diti_model_traits traits;
    bool int8_attention;
    const diti_layer
        *outlets;   /* a control net's, [D, D] for each block: what it adds to a model's; NULL: no such net */
    uint32_t modes; /* kinds of pictures that such a net tells apart; 0: it has one */
    const struct diti_stream_blocks *stream_blocks; /* blocks of FLUX's two kinds; NULL: it has others */
    struct diti_transformer *branch; /* a control net that is a part of the model, whose component has its memory and
                                        weights; NULL: none */
};
/* A control net for a model: the error names why it does not fit. */
DIT_INTERNAL dit_result diti_control_load(const diti_transformer *model, diti_device *device, const diti_env *env,
                                          const diti_json *config, const diti_checkpoint *checkpoint,
                                          const char *prefix, const diti_load_options *options, diti_transformer **out,
                                          dit_error *err);
/* Finds the family; the error names what the file looks like. */
DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const diti_load_options *options, diti_transformer **out, dit_error *err);
DIT_INTERNAL bool diti_transformer_known(const diti_json *config, const diti_checkpoint *checkpoint,
                                         const char *prefix);
/* A message about an unknown model tells what left families out: "; this build was made with DIT_NO_FLUX,
 * ...". */
#define DITI_FAMILIES_TEXT 512u
DIT_INTERNAL const char *diti_families_left_out(char out[DITI_FAMILIES_TEXT]);
/* The pipeline of any family that a class in model_index.json names; NULL: it tells nothing. */
DIT_INTERNAL const diti_pipeline_class *diti_families_pipeline(const char *class_name);
/* How a pipeline of that class asks a decoder language model; NULL: no family says. */
DIT_INTERNAL const struct diti_chat *diti_families_chat(const char *class_name);
/* Where that part of such a model usually is; NULL: nobody knows. */
DIT_INTERNAL const char *diti_family_place(const diti_family *family, const char *variant, dit_role role);
/* Latents of the family whose transformer is in a file of several parts; NULL: there is none. */
DIT_INTERNAL const diti_latents *diti_families_latents(const diti_checkpoint *checkpoint);
/* The title of another family, whose autoencoder has that scale, where the transformer wants its own; NULL: none. */
DIT_INTERNAL const char *diti_families_foreign(const diti_transformer *transformer, float scale);
DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer); /* NULL is fine */
/* The blocks that are computed here: [*first, *end). */
DIT_INTERNAL void diti_axes_blocks(const diti_axes *axes, uint32_t layers, uint32_t *first, uint32_t *end);
/* Frames whose rows are computed here, where rows are divided by whole frames, and the first of them. */
DIT_INTERNAL uint32_t diti_axes_frames(const diti_axes *axes, uint32_t frames, uint32_t *first);
/* Devices that divide the blocks, the first of which embeds and the last of which predicts; NULL: there are none. */
DIT_INTERNAL const diti_ranks *diti_axes_stages(const diti_axes *axes);
/* Tokens of the sound of a clip of so many pictures, and the frames of `plane` tokens that they take behind the clip's,
   of which the last may have places that nothing reads. fps 0: the model's default. */
DIT_INTERNAL uint32_t diti_sound_tokens(const diti_model_traits *traits, uint32_t pictures, float fps);
DIT_INTERNAL uint32_t diti_sound_frames(const diti_model_traits *traits, uint32_t pictures, float fps, uint32_t plane);
/* The grid of tokens. */
typedef struct diti_token_grid {
    uint32_t frames, rows, columns;
} diti_token_grid;
DIT_INTERNAL diti_token_grid diti_transformer_grid(const diti_transformer *transformer, const diti_step_desc *step);
/* A strip's pixels in every plane: their number, and the first. */
DIT_INTERNAL uint32_t diti_transformer_strip_pixels(const diti_transformer *transformer, const diti_step_desc *step,
                                                    uint32_t strip, uint32_t strips, uint32_t *first);
/* Each family's function of the same name; diti_transformer_prepare makes its state, too. */
DIT_INTERNAL void diti_transformer_prepare(const diti_transformer *transformer, diti_graph *graph,
                                           diti_step_desc *step);
DIT_INTERNAL diti_tensor diti_transformer_embed(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step);
DIT_INTERNAL diti_tensor diti_transformer_block(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step, uint32_t index, diti_tensor x);
/* Before a net's diti_transformer_prepare: which of its blocks are computed here. */
DIT_INTERNAL void diti_control_divide(const diti_transformer *transformer, const diti_axes *axes,
                                      diti_control_use *use);
DIT_INTERNAL diti_tensor diti_transformer_final(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step, diti_tensor x);
/* The prediction of strip step->strip alone, behind those before it: planar, of the strip; 0 on stages before the
 * last. */
DIT_INTERNAL diti_tensor diti_transformer_strip(const diti_transformer *transformer, diti_graph *graph,
                                                diti_step_desc *step);
/* An evaluation: prediction planar F32 [branches * batch * C, frames * height * width], on every device that computes
   a part. */
DIT_INTERNAL diti_tensor diti_transformer_step(const diti_transformer *transformer, diti_graph *graph,
                                               diti_step_desc *step);

/* --- for the families --- */
/* axes[0 .. count): how many channels of a head rotate with each coordinate, as config.json lists them by `key`; where
   it does not, `first` and `others`, whose shares of a head are the published ones. They are even and add up to
   head_dim. */
DIT_INTERNAL dit_result diti_setting_axes(diti_settings *settings, const char *family, const char *key,
                                          uint32_t head_dim, uint32_t first, uint32_t others, uint32_t count,
                                          uint32_t *axes, dit_error *err);
/* Sizes that every transformer has; out_channels is `channels`, too, unless the family says more. */
DIT_INTERNAL DITI_UNUSED void diti_traits_sizes(diti_model_traits *traits, uint32_t layers, uint32_t width,
                                                uint32_t heads, uint32_t channels, uint32_t patch);
/* The first encoder, a language model that is asked with that chat, which knows how many tokens there are; columns and
   unit: text_columns, text_unit. */
DIT_INTERNAL DITI_UNUSED void diti_traits_chat(diti_model_traits *traits, diti_encoder_kind encoder,
                                               const struct diti_chat *chat, uint32_t columns, uint32_t unit);
/* The tensor prefix + name, NULL when absent. */
DIT_INTERNAL const diti_stored_tensor *diti_model_find(const diti_checkpoint *checkpoint, const char *prefix,
                                                       const char *name);
/* Refuses what config.json says by two keys, unless it is what is known. title: of the model. */
DIT_INTERNAL DITI_UNUSED dit_result diti_settings_check_known(diti_settings *settings, const char *title,
                                                              const char *const known[2][2], dit_error *err);
/* Refuses patches and latents that no model has. */
DIT_INTERNAL DITI_UNUSED dit_result diti_check_patches(const diti_loader *loader, const char *title, uint32_t patch,
                                                       uint32_t channels, dit_error *err);
/* Refuses models that are not the family's, though they have all of its tensors and classes: others are tensors of
   theirs, by a name in either naming, each with the model that has it. instead: models to use. */
DIT_INTERNAL DITI_UNUSED dit_result diti_refuse_others(diti_loader *loader, const char *const (*others)[2],
                                                       size_t count, const char *instead, dit_error *err);
/* An original file's table of positions (docs/models.md 2.4), pos_embed [1, grid * grid, width], tells the grid of the
   training, and the interpolation where it is not zeros. A file without one leaves both as they are. */
DIT_INTERNAL DITI_UNUSED dit_result diti_read_position_table(const diti_loader *loader, uint32_t width, uint32_t *grid,
                                                             float *interpolation, dit_error *err);
/* docs/models.md 2.1: rows [count, dim] of scaled timesteps, cosines first, in float32 as the references round. dim is
   even. shift: 1 where the last frequency is exactly 1/10000, else 0. */
DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, uint32_t shift, float *out);
/* docs/models.md 2.4: rows [rows * columns, dim] of sines and cosines. A token's coordinate is y / divide_y /
   interpolation in float32, as the references round. dim is a multiple of 4. */
typedef struct diti_grid {
    uint32_t rows, columns;
    float divide_y, divide_x, interpolation;
} diti_grid;
DIT_INTERNAL void diti_position_table(const diti_grid *grid, uint32_t dim, float *out);
/* docs/models.md 3.5: the places of tokens along a side of a grid that is fitted into the grid of the training, whole
   and in the middle: equal steps from the first one on, or, with linspace, as numpy's between ends that diffusers cuts
   short since 0.32. The two are one where first is 0. */
typedef struct diti_grid_axis {
    uint32_t count;
    double first, length; /* in the base grid */
} diti_grid_axis;
DIT_INTERNAL void diti_grid_fit(double base_rows, double base_columns, uint32_t rows, uint32_t columns,
                                diti_grid_axis *y, diti_grid_axis *x);
DIT_INTERNAL float diti_grid_place(const diti_grid_axis *axis, uint32_t i, bool linspace);
/* docs/models.md 2.3: rows [count, dim] of sines, then cosines, of i / divide. dim is even. */
DIT_INTERNAL void diti_position_rows(uint32_t count, double divide, uint32_t dim, float *out);
/* docs/models.md 2.5: cosines and sines [count, dim / 2] of i * 10000^(-2 j / dim) for positions i / divide, cut to
   whole numbers where `whole`, in float32 as the references round. */
DIT_INTERNAL void diti_rotation_rows(uint32_t count, double divide, bool whole, uint32_t dim, float *cosines,
                                     float *sines);

/* docs/models.md 2.5: cosines and sines, sum of axes / 2 each, of a token at that position: of axis a the angles
   position[a] * theta^(-2 i / axes[a]), those of all axes in a row, in float64. */
DIT_INTERNAL DITI_UNUSED void diti_rotate_axes(const uint32_t *axes, uint32_t count, double theta,
                                               const int32_t *position, float *cosines, float *sines);
/* Positions are counted in parts of one: a half. */
DIT_INTERNAL DITI_UNUSED void diti_rotate_parts(const uint32_t *axes, uint32_t count, double theta, double part,
                                                const int32_t *position, float *cosines, float *sines);

/* Sinusoids -> linear -> silu -> linear (docs/models.md 2.2): NAME.linear_1 [width, columns], NAME.linear_2 [rows,
 * width].
 */
typedef struct diti_embedder {
    diti_layer in, out;
} diti_embedder;
DIT_INTERNAL void diti_load_embedder(diti_loader *loader, diti_embedder *out, uint32_t rows, uint32_t width,
                                     uint32_t columns, const char *name);
/* An embedder without biases, of sinusoids of 256 columns: NAME.linear_1 [width, 256], NAME.linear_2 [width, width]. */
DIT_INTERNAL DITI_UNUSED void diti_load_bare_embedder(diti_loader *loader, diti_embedder *out, uint32_t width,
                                                      const char *name);
/* F32 [rows of x, rows], written to out where it is not 0. */
DIT_INTERNAL diti_tensor diti_embed(diti_graph *graph, const diti_embedder *embedder, diti_tensor x, diti_tensor out);
/* Sinusoids of values as an input's content, F32 [count, columns]. shift: docs/models.md 2.1. */
DIT_INTERNAL dit_result diti_write_sinusoids(diti_plan *plan, diti_tensor input, const float *values, uint32_t count,
                                             uint32_t shift, dit_error *err);
/* The sinusoids of all steps' timesteps, F32 [steps, columns], and, where the input has one more row, of timestep 0. */
DIT_INTERNAL dit_result diti_write_timesteps(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                             const float *timesteps, dit_error *err);
/* Sinusoids of the step behind each one, and of timestep 0 behind the last. */
DIT_INTERNAL DITI_UNUSED dit_result diti_write_next_timesteps(diti_plan *plan, diti_tensor input,
                                                              const diti_step_desc *step, const float *timesteps,
                                                              dit_error *err);
/* Distilled guidance: config.json agrees whether the weights have its embedder; what it says is added to x F32 [any,
   D], by way of an input F32 [1, 256]; and that input's content, where there is one. */
DIT_INTERNAL DITI_UNUSED dit_result diti_setting_guided(diti_settings *settings, bool guided, dit_error *err);
DIT_INTERNAL DITI_UNUSED diti_tensor diti_embed_guidance(diti_graph *graph, const diti_embedder *embedder,
                                                         diti_tensor *input, diti_tensor x);
DIT_INTERNAL DITI_UNUSED dit_result diti_write_guidance(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                                        dit_error *err);
/* Rows of the texts that each prompt has in its text_tokens places, and a row that is not there, which gives zeros:
   U32 [1, prompts * text_tokens]. */
DIT_INTERNAL DITI_UNUSED dit_result diti_write_text_rows(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                                         dit_error *err);
/* The position table of a grid as an input's content, F32 [rows * columns, D]: see diti_position_table. */
DIT_INTERNAL dit_result diti_write_positions(diti_plan *plan, diti_tensor input, const diti_grid *grid, dit_error *err);
/* The position table of a training's base x base grid, stretched over that of the tokens. */
DIT_INTERNAL dit_result diti_write_stretched(diti_plan *plan, diti_tensor input, const diti_token_grid *tokens,
                                             uint32_t base, double interpolation, dit_error *err);
/* The rows of diti_position_rows as an input's content, F32 [frames, dim]; those of diti_rotation_rows as two inputs',
   F32 [frames, head_dim / 2]. */
DIT_INTERNAL dit_result diti_write_times(diti_plan *plan, diti_tensor input, double divide, dit_error *err);
DIT_INTERNAL dit_result diti_write_rotation(diti_plan *plan, diti_tensor cosines, diti_tensor sines, double divide,
                                            bool whole, dit_error *err);
/* activation(layer(x)) in the format of activations. */
DIT_INTERNAL diti_tensor diti_layer_run(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                        diti_activation activation, const char *name);
/* activation(layer(x)) as F32, written to out where it is not 0. */
DIT_INTERNAL diti_tensor diti_layer_f32(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                        diti_activation activation, diti_tensor out, const char *name);

/* --- the pass --- */
DIT_INTERNAL diti_pass diti_pass_make(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step);
/* The ops that follow are of that block. */
DIT_INTERNAL void diti_pass_enter(diti_pass *p, uint32_t index);
/* The devices of a tensor split; NULL: there are none. */
DIT_INTERNAL const diti_ranks *diti_pass_tensor(const diti_pass *p);
/* A tensor has as many rows for each of step->text_batch prompts: those of the prompts that the pass evaluates. */
DIT_INTERNAL diti_tensor diti_pass_last(const diti_pass *p, diti_tensor all);
/* The row of a table F32 [steps, columns] that modulates the step at hand: F32 [1, columns]. */
DIT_INTERNAL diti_tensor diti_select_modulation(const diti_pass *p, diti_tensor table);
/* The first columns of the text, all rows. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_text_columns(const diti_pass *p, uint32_t columns);
/* Every item, a picture of a branch, is a run of rows in every tensor: its text's where text and image attend each
   other (docs/models.md 3.3, 3.4), then its image's. */
enum { DITI_JOINT_TEXT, DITI_JOINT_IMAGE, DITI_JOINT_STREAMS };
/* The rows of an item that a stream has: rows for diti_linear_desc. */
DIT_INTERNAL diti_rows diti_pass_rows(const diti_pass *p, uint32_t stream);

/* --- sublayers (sublayer.c): attention and feed-forward, each two layers with heads or an activation between them.
   Pairs are fixed when a model is loaded. The ops below know from a pair which columns a device computes, whether the
   norm before it writes int8, and which rows it is about. --- */
typedef enum diti_streams {
    DITI_STREAMS_ONE,    /* all rows have the same weights */
    DITI_STREAMS_TWO,    /* layers are pairs, text's and the image's; text's second one may be missing */
    DITI_STREAMS_SHARED, /* all rows have the same weights, but text and image a modulation each */
    DITI_STREAMS_IMAGE   /* image rows alone are meant of a residual stream that has text, too */
} diti_streams;
/* The rows that attend each other: all of an item, the tokens of a frame, which lie side by side, or those of a
   position in all frames, which are as far apart as a frame is long, and stay there. */
typedef enum diti_attend_axis { DITI_ATTEND_ALL, DITI_ATTEND_SPATIAL, DITI_ATTEND_TEMPORAL } diti_attend_axis;
typedef struct diti_sublayer {
    diti_streams streams;
    const diti_fused_linear *qkv; /* first layer: queries, keys, values; or */
    const diti_layer *in;         /* one layer and an activation */
    diti_activation activation;
    const diti_layer
        *gate; /* the activation is its own, and the result is multiplied with that of in; NULL: in has it */
    const diti_layer *out; /* second layer */
    uint32_t columns;      /* between the two, heads' or a feed-forward's; 0: there is no second one */
    uint32_t head_dim;     /* 0: a feed-forward */
    diti_attend_axis axis;
    bool half_split, two_axes, rotate_first; /* how the pass's tables rotate: diti_qkv_desc */
    const diti_weight *norms;      /* RMS norms of each head of q and k, F32 [2, head_dim], text's first where it
                                      has some of its own, [4, head_dim]; NULL: none */
    const diti_weight *readers[3]; /* all that reads such columns, or shares their heads: devices part columns */
    uint32_t reader_count;         /* where all types of these allow it */
    /* norm and rotation of heads of q (kind 0) or k (1), in place; NULL: norms, and the pass's tables */
    void (*heads)(const struct diti_pass *p, diti_tensor x, uint32_t kind);
    const struct diti_sublayer
        *beside;                     /* reads the same norm, and stands beside this one in the second layer's input */
    float norm_eps;                  /* eps of norms; 0: 1e-6 */
    float eps;                       /* eps of the norm before the sublayer */
    bool rms;                        /* the norm is an RMS norm */
    const diti_layer *norm;          /* weight and bias of that norm; NULL: none */
    const diti_layer *head_norms[2]; /* LayerNorms of each head of q and of k, in place of norms; NULL: none */
    const char *norm_name, *in_name, *out_name; /* names of the ops */
} diti_sublayer;
/* Attention of heads of head_dim channels, width in all. With two streams qkv and out are arrays of two. */
DIT_INTERNAL void diti_make_attention(diti_sublayer *sublayer, diti_streams streams, const diti_fused_linear *qkv,
                                      const diti_layer *out, uint32_t width, uint32_t head_dim);
/* Attention to a text: q of the stream, and keys and values of the text, with the heads of the attention beside it. */
DIT_INTERNAL DITI_UNUSED void diti_make_text_attention(diti_sublayer *cross, diti_sublayer *beside, const diti_layer *q,
                                                       const diti_layer *out, uint32_t width, uint32_t head_dim);
/* A feed-forward: out(gelu(in(x))). */
DIT_INTERNAL void diti_make_feed(diti_sublayer *sublayer, diti_streams streams, const diti_layer *in,
                                 const diti_layer *out);
/* The last layer, which has no second one. */
DIT_INTERNAL void diti_make_output(diti_sublayer *sublayer, diti_streams streams, const diti_layer *in);
/* Devices have the same heads of both. */
DIT_INTERNAL void diti_sublayers_share_heads(diti_sublayer *a, diti_sublayer *b);
/* LN(x) * (1 + scale) + shift, for the sublayer to read: the pass's modulation. For the image alone [items * image, D].
 */
DIT_INTERNAL diti_tensor diti_modulate(const diti_pass *p, diti_tensor x, diti_modulator shift, diti_modulator scale,
                                       const diti_sublayer *sublayer);
/* Any other norm for it; eps, reader and name are the sublayer's. */
DIT_INTERNAL diti_tensor diti_sublayer_norm(const diti_pass *p, diti_tensor x, diti_norm_desc *desc,
                                            const diti_sublayer *sublayer);
/* The first layer: q, k and v of this device's heads, side by side, or activation(in(h)); out or a new tensor. */
DIT_INTERNAL diti_tensor diti_sublayer_in(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                          diti_tensor out);
/* The columns of the sublayer's heads of each of `kinds` that fused has side by side (keys and values of a text). */
DIT_INTERNAL diti_tensor diti_sublayer_fused(const diti_pass *p, diti_tensor x, const diti_fused_linear *fused,
                                             uint32_t kinds, const diti_sublayer *sublayer, const char *name);
/* Queries, keys and values of h, norm of q and k, rotation, then attention of every item to itself: out or a new
   tensor. */
DIT_INTERNAL diti_tensor diti_sublayer_attend(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                              diti_tensor out);
/* Room for the columns of a sublayer and of the one beside it; parts: of either. */
#define DITI_BESIDE 2u
DIT_INTERNAL diti_tensor diti_sublayer_beside(const diti_pass *p, const diti_sublayer *sublayer,
                                              diti_tensor parts[DITI_BESIDE]);
/* x += gate * out(h), in place. */
DIT_INTERNAL void diti_sublayer_add(const diti_pass *p, diti_tensor x, diti_modulator gate,
                                    const diti_sublayer *sublayer, diti_tensor h);
/* out(h), F32, all its columns: of the rows at hand, of either stream by its layer, or with DITI_STREAMS_IMAGE of the
   image alone. */
DIT_INTERNAL diti_tensor diti_sublayer_out(const diti_pass *p, const diti_sublayer *sublayer, diti_tensor h);
/* x += gate * RMS(h) * weight, in place; gate F32 [1, D], 0: 1. */
DIT_INTERNAL void diti_norm_behind(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_weight *weight,
                                   float eps, diti_tensor gate);
/* x += gate * RMS(out(h)) * weight, in place: of all rows, or with DITI_STREAMS_IMAGE of the image's, item by item. */
DIT_INTERNAL void diti_sublayer_add_normed(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                           diti_tensor h, const diti_weight *weight, diti_tensor gate);
/* x += gate * feed(LN(x) * (1 + scale) + shift), in place, in bands of rows where what lies between its two layers
   would be very large. feed: of DITI_STREAMS_ONE. */
DIT_INTERNAL void diti_sublayer_feed(const diti_pass *p, diti_tensor x, diti_modulator shift, diti_modulator scale,
                                     diti_modulator gate, const diti_sublayer *feed);
/* x += gate * attention(LN(x) * (1 + scale) + shift). */
DIT_INTERNAL void diti_block_attend(const diti_pass *p, diti_tensor x, const diti_sublayer *attention);
/* A block with adaLN-Zero: that, then x += gate * FF(LN(x) * (1 + scale) + shift). */
DIT_INTERNAL DITI_UNUSED void diti_block_run(const diti_pass *p, diti_tensor x, const diti_sublayer *attention,
                                             const diti_sublayer *feed);
/* Attention and feed-forward at once (diti_sublayer.beside): x += gate * out(attention(h), activation(in(h))), h =
   LN(x) * (1 + scale) + shift. */
DIT_INTERNAL DITI_UNUSED void diti_parallel_block_run(const diti_pass *p, diti_tensor x, const diti_sublayer *attention,
                                                      const diti_sublayer *feed);
/* in(h) of the last layer, F32. */
DIT_INTERNAL diti_tensor diti_output(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer);
/* A last layer: layer(LN(x) * (1 + scale) + shift), by the pass's modulation. */
DIT_INTERNAL diti_tensor diti_output_modulated(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer);

/* --- matrices that devices divide (tensor.c) --- */
/* The columns between the two layers of a sublayer that this device computes; it alone: all. */
typedef struct diti_column_shard {
    uint32_t first, count, all;
    const diti_ranks *in; /* devices that divide what these are made of; NULL: this one has it all */
} diti_column_shard;
DIT_INTERNAL diti_column_shard diti_column_shard_of(const diti_pass *p, const diti_sublayer *sublayer);
/* x has the columns of the sublayer that this device has: F32 [rows, all] of every device's, and `own` the view of x's
   in it. This device alone has all: x, and 0. */
DIT_INTERNAL diti_tensor diti_column_shard_gather(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                                  diti_tensor *own);
/* RMS norm of queries or keys over all heads, in place: devices that have some heads each bring all of them together.
 */
DIT_INTERNAL DITI_UNUSED void diti_all_heads_norm(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                                  const diti_weight *weight, float eps, const char *name);
/* Before a product that makes a column shard by any of layers, which read the same: what this device reads of x, and
   desc becomes that of its part of the sum, in F32 where there are others. Behind it, of x, that part: the whole. */
DIT_INTERNAL diti_tensor diti_column_shard_begin(diti_graph *graph, diti_tensor x, const diti_layer *layers,
                                                 uint32_t count, const diti_column_shard *column_shard,
                                                 diti_linear_desc *desc);
DIT_INTERNAL diti_tensor diti_column_shard_end(diti_graph *graph, const diti_column_shard *column_shard, diti_tensor x,
                                               diti_activation activation, diti_tensor out, const char *name);
/* h, which has column shards of whole rows, quantized where reader wants that. */
DIT_INTERNAL diti_tensor diti_column_shard_input(const diti_pass *p, diti_tensor h, const diti_weight *reader);
/* This device's part of desc->out += gate * layer(h); h has the columns of the sublayer and of those beside it. All
   that was written of desc->out must go through diti_column_shard_sum. */
DIT_INTERNAL void diti_column_shard_add(const diti_pass *p, diti_tensor h, const diti_layer *layer,
                                        const diti_sublayer *sublayer, diti_linear_desc *desc);
/* This device's part of desc->out = gate * layer(h), which goes through diti_column_shard_sum, too. */
DIT_INTERNAL void diti_column_shard_make(const diti_pass *p, diti_tensor h, const diti_layer *layer,
                                         const diti_sublayer *sublayer, diti_linear_desc *desc);
DIT_INTERNAL void diti_column_shard_sum(const diti_pass *p, diti_tensor x);
/* layer(x), F32: every member of the group makes some columns, which then go to all. */
DIT_INTERNAL diti_tensor diti_layer_spread(diti_graph *graph, const diti_ranks *group, diti_tensor x,
                                           const diti_layer *layer, diti_tensor out, const char *name);
/* x + add, F32; add's rows are repeated, 0: a copy. */
DIT_INTERNAL diti_tensor diti_add_rows(diti_graph *graph, diti_tensor x, diti_tensor add, diti_tensor out,
                                       const char *name);
/* RMS(x) * weight. reader: diti_norm_desc. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_rms_norm(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                                   float eps, const diti_weight *reader, const char *name);
/* LN(x) * weight + bias. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_layer_norm(diti_graph *graph, diti_tensor x, const diti_layer *norm,
                                                     float eps, const char *name);
/* silu(x), F32: what modulations are linear in. */
DIT_INTERNAL diti_tensor diti_silu(diti_graph *graph, diti_tensor x, const char *name);
/* Layers make shifts, scales and gates of silu(c), of which there is one vector for each of `items` conditions in every
   step. They do so for all steps at once in prepare, so that weights are read once per picture, or in each step where
   the table would be too large. */
#define DITI_ADALN_LAYERS 130u
typedef struct diti_adaln {
    const diti_layer *layers[DITI_ADALN_LAYERS];
    uint32_t first, count, items, columns; /* first: its number among all layers; columns: of all here together */
    const diti_ranks *group;               /* devices that divide the layers; NULL: none */
    diti_tensor active;                    /* F32 [steps, items * D]: silu(c) */
    diti_tensor table;                     /* F32 [steps, items * columns]; 0: too large */
    diti_tensor row;                       /* row of the step at hand, [items, columns] or [items, D] */
    diti_tensor gates;                     /* tanh of it; 0: each layer's are made by diti_adaln_gates */
} diti_adaln;
DIT_INTERNAL void diti_adaln_add(diti_adaln *adaln, const diti_layer *layer);
/* c F32 [steps * text_batch, D]: a step's conditions one after the other. */
DIT_INTERNAL void diti_adaln_prepare(const diti_pass *p, diti_adaln *adaln, diti_tensor c);
/* Takes the vector that layers are linear in: F32 [steps * items, columns]. */
DIT_INTERNAL void diti_adaln_prepare_active(const diti_pass *p, diti_adaln *adaln, diti_tensor active, uint32_t items);
DIT_INTERNAL void diti_adaln_select(const diti_pass *p, diti_adaln *adaln);
/* Selects the step's rows, and makes the tanh of all layers' gates from them. */
DIT_INTERNAL DITI_UNUSED void diti_adaln_select_gates(const diti_pass *p, diti_adaln *adaln);
/* The rows of layer `index`, F32 [items, its rows]. */
DIT_INTERNAL diti_tensor diti_adaln_get(diti_graph *graph, const diti_adaln *adaln, uint32_t index);
/* tanh of rows of modulation that gate (Z-Image, Lumina-Image 2): F32. */
DIT_INTERNAL diti_tensor diti_adaln_tanh(diti_graph *graph, diti_tensor x);
/* The gates of layer p->index, F32 [1, its rows], where these are the pass's modulation. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_adaln_gates(const diti_pass *p, const diti_adaln *adaln);
DIT_INTERNAL diti_tensor diti_adaln_last(diti_graph *graph, const diti_adaln *adaln);
/* Sinusoids of all timesteps, each once per item, as an input's content, F32 [steps * items, 256]. */
DIT_INTERNAL dit_result diti_adaln_write(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                         const float *timesteps, uint32_t shift, dit_error *err);
/* The words of step->frame_steps for the step and the items at hand: U32 [1, items * frames]; 0: there are none. */
DIT_INTERNAL diti_tensor diti_pass_frame_steps(const diti_pass *p);
/* The rows of the frames at hand in a table [frames, columns]. */
DIT_INTERNAL diti_tensor diti_pass_frames_table(const diti_pass *p, diti_tensor table);
/* The rows of a table F32 [steps + 1, columns], whose last one is for timestep 0, that modulate the step at hand: one
   of each frame of each item, or one of all where frame_steps is 0. Then the last row may be missing. */
DIT_INTERNAL diti_tensor diti_pass_frame_rows(const diti_pass *p, diti_tensor table, diti_tensor frame_steps,
                                              const char *name);
/* Attention of every item to itself, over the rows of all devices: qkv [items * rows at hand, 3 * heads * head_dim], q,
   k, v side by side, to [items * rows at hand, heads * head_dim]. */
typedef struct diti_attend_desc {
    uint32_t items, heads, head_dim;
    uint32_t kv_heads; /* heads of k and v, whose columns of qkv are as many fewer; 0: heads, as where devices divide
                          rows or keep keys */
    uint32_t row_step; /* diti_attention_desc.row_step */
    bool text;         /* an item's rows are its text's, then its image's */
    bool int8;
    diti_tensor keys; /* diti_pass.keys */
    diti_tensor out;  /* 0: a new tensor */
} diti_attend_desc;
DIT_INTERNAL diti_tensor diti_attend(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                     diti_tensor qkv);
/* Where Ulysses exchanges heads: values, keys and queries (kinds 2, 1, 0), each on its way as soon as qkv has it. */
DIT_INTERNAL bool diti_attend_flows(const diti_step_desc *step);
DIT_INTERNAL void diti_attend_begin(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                    diti_tensor qkv, diti_heads_flow *flow);
DIT_INTERNAL void diti_attend_send(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                   diti_heads_flow *flow, uint32_t kind);
DIT_INTERNAL diti_tensor diti_attend_end(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                         diti_heads_flow *flow);
/* In prepare: x F32 [rows, D], equal shares of so many prompts, goes through the blocks, whose keys and values of it
   are kept from here on; every device makes those of its blocks and heads. The state has what block reads. */
DIT_INTERNAL DITI_UNUSED void diti_reference_kv_fill(const diti_pass *p, diti_reference_kv *kv, uint32_t prompts,
                                                     diti_tensor x, diti_tensor (*block)(diti_pass *p, diti_tensor x));
/* Writes kv->items: how many of each prompt's rows its items attend, the first ones. */
DIT_INTERNAL DITI_UNUSED dit_result diti_reference_kv_write(diti_plan *plan, const diti_step_desc *step,
                                                            const diti_env *env, const uint32_t *counts,
                                                            dit_error *err);
/* Attention of the rows q [items * image, heads * head_dim here] to the tokens of their prompts: text [rows of
   step->text, 2 * heads * head_dim here], keys and values (diti_sublayer_fused). */
DIT_INTERNAL diti_tensor diti_attend_text(const diti_pass *p, const diti_sublayer *cross, diti_tensor q,
                                          diti_tensor text);
/* A block leaves a copy of the residual stream [items * image, D], which later blocks change, for block layers - 1 -
   index, wherever that is computed, which takes it: in the format of activations, since there are many. */
DIT_INTERNAL void diti_skip_leave(const diti_pass *p, diti_tensor x);
DIT_INTERNAL diti_tensor diti_skip_take(const diti_pass *p);
/* Rows of a table F32 [all_text + all, columns] for the rows at hand: [text + rows, columns]. */
DIT_INTERNAL diti_tensor diti_token_range_table(const diti_pass *p, diti_tensor table, const char *name);
/* Rotary position embedding: cosines and sines that queries and keys are rotated by (docs/models.md 2.5). */
typedef struct diti_rotation {
    diti_tensor cosines, sines;           /* inputs F32 [rows, half], of all tokens */
    diti_tensor here_cosines, here_sines; /* tables of the rows at hand */
    uint32_t table_items;                 /* diti_pass.table_items */
} diti_rotation;
/* Makes the inputs. half: half as many as the channels that rotate. */
DIT_INTERNAL DITI_UNUSED void diti_rotation_prepare(diti_graph *graph, diti_rotation *out, uint32_t rows,
                                                    uint32_t half);
/* Begins an evaluation: all prompts share the tables; or, by diti_text_order_table, each prompt has its own. */
DIT_INTERNAL DITI_UNUSED void diti_rotation_begin(const diti_pass *p, diti_rotation *rotation);
DIT_INTERNAL DITI_UNUSED void diti_rotation_begin_order(const diti_pass *p, diti_rotation *rotation, uint32_t stream);
/* Tables for blocks of all rows, and for blocks of the image's alone. */
DIT_INTERNAL DITI_UNUSED void diti_rotation_begin_both(const diti_pass *p, diti_rotation rotations[DITI_JOINT_STREAMS]);
/* Rows [first, first + count) of each of so many prompts' part of a table, one prompt's behind the other's. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_rotation_rows_of(const diti_pass *p, diti_tensor table, uint32_t prompts,
                                                           uint32_t first, uint32_t count);
/* Queries and keys of the block at hand rotate by it. */
DIT_INTERNAL DITI_UNUSED void diti_rotation_apply(diti_pass *p, const diti_rotation *rotation);
/* Rows of an item behind its text, where patches have a side of 2: those in front of its tokens, and these. */
DIT_INTERNAL DITI_UNUSED uint32_t diti_image_rows(const diti_step_desc *step);
/* The row at which an image's own tokens begin, among those that the devices of a sequence divide. */
DIT_INTERNAL uint32_t diti_token_range_first(const diti_step_desc *step, uint32_t image);
/* How many of an item's text rows at hand are diti_step_desc.behind_text's. */
DIT_INTERNAL uint32_t diti_token_range_behind(const diti_step_desc *step);
/* How many of an image's rows at hand stand in front of its tokens. */
DIT_INTERNAL uint32_t diti_token_range_lead(const diti_step_desc *step);
/* The residual stream, F32 [items * (text + image), D]: the latent's patches through layer, plus positions (F32 [all
   tokens, D], or of one frame's tokens for all frames, 0: none), behind their text (F32 [prompts * all text tokens,
   D], 0: none). */
DIT_INTERNAL diti_tensor diti_patch_embed(const diti_pass *p, diti_tensor text, const diti_layer *layer,
                                          diti_tensor positions);

/* Patches of a control net's picture, or of the clip that a branch follows, [tokens, C * p * p]. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_control_patches(const diti_pass *p);
/* Tokens of all references, and, in prepare, their patches through layer, F32 [tokens, D], as such, and as rows that
   lead each image's. */
DIT_INTERNAL DITI_UNUSED uint32_t diti_reference_tokens(const diti_pass *p);
DIT_INTERNAL DITI_UNUSED diti_tensor diti_reference_rows(const diti_pass *p, const diti_layer *layer);
DIT_INTERNAL DITI_UNUSED void diti_reference_lead(const diti_pass *p, const diti_layer *layer);
/* The reference that leading row belongs to, and its place there. */
DIT_INTERNAL DITI_UNUSED uint32_t diti_reference_position(const diti_step_desc *step, uint32_t patch, uint32_t row,
                                                          uint32_t *y, uint32_t *x);

/* --- blocks that modulate by a table of their own plus what the timestep says (tables.c) --- */
typedef struct diti_table_block {
    diti_fused_linear qkv;     /* [3D, D] */
    diti_layer out;            /* [D, D] */
    diti_weight norms;         /* F32 [2, head_dim]: of queries, of keys; PixArt and Latte have none */
    diti_layer text_q;         /* [D, D] */
    diti_fused_linear text_kv; /* [2D, D] */
    diti_layer text_out;       /* [D, D]; some blocks have no text, some no feed-forward */
    diti_layer ff_in, ff_out;  /* [4D, D], [D, 4D] */
    diti_weight table;         /* F32 [6, D]: shift, scale and gate of attention, of the feed-forward */
    diti_sublayer attention, cross, feed;
} diti_table_block;
/* Pairs the layers that are there. */
DIT_INTERNAL void diti_table_block_pair(diti_table_block *block, uint32_t width, uint32_t head_dim, float eps);
/* All but norms and table, by diffusers' names in the loader's scope. */
DIT_INTERNAL void diti_table_block_load(diti_loader *loader, diti_table_block *block, uint32_t width, uint32_t head_dim,
                                        float eps, bool text);
/* F32 [rows of time, 8D]: layer(silu(time)), six rows for all blocks, and final_table + time, two for the last norm. */
DIT_INTERNAL diti_tensor diti_table_rows(const diti_pass *p, diti_tensor time, const diti_layer *layer,
                                         const diti_weight *final_table);
/* The text as blocks read it: out(gelu(in(text))). */
DIT_INTERNAL diti_tensor diti_table_text(const diti_pass *p, const diti_layer *in, const diti_layer *out);
/* The pass's modulation becomes table F32 [chunks, D] + columns [first * D, (first + chunks) * D) of rows, F32 [groups,
   chunks * D]. */
DIT_INTERNAL void diti_table_modulate(diti_pass *p, const diti_weight *table, diti_tensor rows, uint32_t first);
/* x += cross(x), which has neither norm nor gate, where the block has it; x += gate * FF(LN(x) * (1 + scale) + shift).
 */
DIT_INTERNAL void diti_table_finish(const diti_pass *p, diti_tensor x, const diti_table_block *w, diti_tensor text);

/* --- joint attention (joint.c) --- */
typedef struct diti_pair { /* one layer for text and one for the image; text may be missing */
    diti_layer streams[DITI_JOINT_STREAMS];
} diti_pair;
typedef struct diti_fused_linear_pair {
    diti_fused_linear streams[DITI_JOINT_STREAMS];
} diti_fused_linear_pair;
/* silu(time[step] + pooled[prompt]), F32 [steps, prompts * columns], of time [steps, columns] and pooled [prompts,
   columns]; pooled 0: silu(time[step]). */
DIT_INTERNAL diti_tensor diti_joint_condition(diti_graph *graph, diti_tensor time, diti_tensor pooled,
                                              uint32_t prompts);
/* A block's modulation for each row of active (F32 [rows, D]): [rows, 2 * chunks * D]. */
DIT_INTERNAL diti_tensor diti_joint_modulate(const diti_pass *p, diti_tensor active,
                                             const diti_fused_linear_pair *layers, uint32_t chunks);
/* Modulations of all blocks and of the last norm, which counts as block `layers`: for all steps at once, where that is
   not too much to keep, else made in each step. */
typedef struct diti_joint_modulation {
    diti_tensor active;                   /* F32 [steps, prompts * D]: what modulations are linear in */
    bool shared;                          /* set before: all prompts have the same, and count as one here */
    bool kept;                            /* rows of all steps are kept, in `all` */
    diti_tensor all[DITI_MAX_BLOCKS + 1]; /* F32 [steps, prompts * columns] */
    diti_tensor step_active;              /* row of the step at hand: F32 [prompts, D], where none are kept */
    diti_tensor step[DITI_MAX_BLOCKS];    /* F32 [prompts, columns], where they are */
} diti_joint_modulation;
/* A block's for each row of active (F32 [rows, D]): F32 [rows, columns]. */
typedef diti_tensor diti_joint_make(const diti_pass *p, diti_tensor active, uint32_t index);
/* In prepare, with state->active set. columns: of all modulations together. */
DIT_INTERNAL void diti_joint_prepare(const diti_pass *p, diti_joint_modulation *state, uint64_t columns,
                                     diti_joint_make *make);
DIT_INTERNAL void diti_joint_begin(const diti_pass *p, diti_joint_modulation *state); /* begins a step */
DIT_INTERNAL diti_tensor diti_joint_modulation_rows(const diti_pass *p, const diti_joint_modulation *state,
                                                    uint32_t index, diti_joint_make *make);
/* A layer of shift and scale, [2D, D], in this order; swapped: the file has scale first. */
DIT_INTERNAL void diti_load_shift_scale(diti_loader *loader, diti_fused_linear *out, uint32_t width, const char *name,
                                        bool swapped, bool bias);
/* F32 [rows of x, 2D] of such a layer: a last norm's modulation. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_shift_scale(diti_graph *graph, diti_tensor x, const diti_fused_linear *layer);
/* Matrices that text and image both have, by names of either (diti_load_fused). */
DIT_INTERNAL void diti_load_fused_pair(diti_loader *loader, diti_fused_linear_pair *out,
                                       const diti_fused names[DITI_JOINT_STREAMS], uint32_t rows, uint32_t columns);
/* A layer that text and image both have. text NULL: it has none. */
DIT_INTERNAL void diti_load_pair(diti_loader *loader, diti_pair *out, uint32_t rows, uint32_t columns, const char *text,
                                 const char *image);
/* Texts of unequal length in places of text_tokens rows: each at the end of its place, so that items attend the rows
   from there on. */
typedef struct diti_text_order {
    diti_tensor items; /* input U32 [prompts, DITI_ITEM_WORDS]: the rows of all places that each text fills */
    diti_tensor order; /* input U32 [1, prompts * text_tokens]: rows of what is put in order */
    diti_tensor keys;  /* input U32 [branches * batch, DITI_ITEM_WORDS]; 0: texts fill their places */
} diti_text_order;
DIT_INTERNAL DITI_UNUSED void diti_text_order_prepare(const diti_pass *p, diti_text_order *out);
/* F32 [prompts * text_tokens, columns] of table F32 [any, columns], which has the text's rows, then a filler. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_text_order_rows(const diti_pass *p, const diti_text_order *order,
                                                          diti_tensor table);
/* Rows of layer(text), where zeros fill places. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_text_order_embed(const diti_pass *p, const diti_text_order *order,
                                                           const diti_layer *layer, uint32_t columns);
/* diti_pass.keys of the items at hand. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_text_order_keys(const diti_pass *p, const diti_text_order *order);
/* Rows of a table F32 [prompts * (text_tokens + image rows), columns] that are at hand: of text and image, or with
   DITI_JOINT_IMAGE of the image alone; of `items` items one after the other, or with items 0 of the first prompt. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_text_order_table(const diti_pass *p, diti_tensor table, uint32_t stream,
                                                           uint32_t items);
/* Rows that a text fills: a multiple of unit. */
DIT_INTERNAL DITI_UNUSED uint32_t diti_text_order_length(const diti_step_desc *step, uint32_t prompt, uint32_t unit);
/* image: rows of an item behind its text. */
DIT_INTERNAL DITI_UNUSED dit_result diti_text_order_write(diti_plan *plan, const diti_step_desc *step,
                                                          const diti_text_order *order, const diti_env *env,
                                                          uint32_t unit, uint32_t image, dit_error *err);
/* Rotations of FLUX.1's tokens (docs/models.md 3.4), cosines and sines F32 [tokens, half of a head], inputs: text
   stands at the origin, so that nothing rotates, a token of the image at (0, y, x), and one of reference i at (1 + i,
   y, x). axes: channels of a head that rotate with each coordinate. */
DIT_INTERNAL DITI_UNUSED dit_result diti_write_image_rotations(diti_plan *plan, const diti_step_desc *step,
                                                               const uint32_t axes[3], diti_tensor cosines,
                                                               diti_tensor sines, dit_error *err);
/* Writes the rows of one prompt in both tables, F32 [prompts * (text_tokens + image rows), head_dim / 2]; or all rows,
   of tables that prompts share. */
typedef void diti_place_rows(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                             float *cosines, float *sines);
/* Writes both tables for so many prompts; 1: they share them. */
DIT_INTERNAL DITI_UNUSED dit_result diti_write_places(const diti_transformer *transformer, diti_plan *plan,
                                                      const diti_step_desc *step, diti_tensor cosines,
                                                      diti_tensor sines, uint32_t prompts, diti_place_rows *place,
                                                      dit_error *err);
/* FLUX's blocks, which HunyuanVideo has, too: with weights of either stream, or with the same for both. */
typedef struct diti_double_block {
    diti_fused_linear_pair modulation; /* [6D, D] */
    diti_fused_linear_pair qkv;        /* [3D, D] */
    diti_weight norms;                 /* F32 [4, head_dim]: text's q and k, the image's */
    diti_pair out;                     /* [D, D] */
    diti_pair ff_gate, ff_in;          /* [4D, D] each; without DITI_STREAM_GATED ff_in alone */
    diti_pair ff_out;                  /* [D, 4D] */
    diti_sublayer attention, feed;
} diti_double_block;
typedef struct diti_single_block {
    diti_layer modulation;     /* [3D, D] */
    diti_fused_linear qkv;     /* [3D, D] */
    diti_layer ff_gate, ff_in; /* [4D, D] each; without DITI_STREAM_GATED ff_in alone */
    diti_weight norms;         /* F32 [2, head_dim]: q, k */
    diti_layer out;            /* [D, 5D]: attention's columns, then the feed-forward's */
    diti_sublayer attention, feed;
} diti_single_block;
/* Names of the original code base for parts of blocks that FLUX.1 and Chroma share. Rows of a fused matrix are q, k, v,
   then, of a single block, the feed-forward's: matrices of their own in diffusers. */
#define DITI_DOUBLE_KEYS                                                                                               \
    {"attn.qkv", "img_attn.qkv"}, {"attn.added_qkv", "txt_attn.qkv"},                                                  \
        {"attn.norm_q.weight", "img_attn.norm.query_norm.scale"},                                                      \
        {"attn.norm_k.weight", "img_attn.norm.key_norm.scale"},                                                        \
        {"attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"},                                                \
        {"attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"}, {"attn.to_out.0", "img_attn.proj"},              \
        {"attn.to_add_out", "txt_attn.proj"}, {"ff.net.0.proj", "img_mlp.0"}, {"ff.net.2", "img_mlp.2"},               \
        {"ff_context.net.0.proj", "txt_mlp.0"}, {                                                                      \
        "ff_context.net.2", "txt_mlp.2"                                                                                \
    }
#define DITI_SINGLE_KEYS                                                                                               \
    {"qkv_mlp", "linear1"}, {"qkv", "qkv"}, {"attn.norm_q.weight", "norm.query_norm.scale"},                           \
        {"attn.norm_k.weight", "norm.key_norm.scale"}, {                                                               \
        "proj_out", "linear2"                                                                                          \
    }
/* Parts of such blocks. Matrices of a gated feed-forward are one in diffusers, first the one without activation. */
enum {
    DITI_STREAM_MODULATED = 1, /* layers of modulation; else it comes from elsewhere */
    DITI_STREAM_GATED = 2      /* a feed-forward that is gated by silu, as in Ovis-Image; else GELU's */
};
/* A transformer of such blocks, double ones before single ones, with its last norm and layer. */
typedef struct diti_stream_blocks {
    diti_double_block *doubles;
    diti_single_block *singles;
    uint32_t double_count, single_count;
    diti_fused_linear final_modulation; /* [2D, D]: shift, scale; Chroma has none */
    diti_layer proj_out;                /* [columns of patches, D] */
    diti_sublayer last;
} diti_stream_blocks;
/* Memory for so many blocks, which are the transformer's from now on; false: the loader has failed. */
DIT_INTERNAL DITI_UNUSED bool diti_stream_blocks_make(diti_transformer *transformer, diti_loader *loader,
                                                      diti_stream_blocks *out, uint32_t doubles, uint32_t singles);
DIT_INTERNAL DITI_UNUSED void diti_stream_blocks_load(diti_loader *loader, diti_stream_blocks *blocks, uint32_t width,
                                                      uint32_t head_dim, uint32_t has);
/* The last norm's modulation, unless modulation comes from elsewhere, and the last layer, of so many columns. */
DIT_INTERNAL DITI_UNUSED void diti_stream_final_load(diti_loader *loader, diti_stream_blocks *blocks, uint32_t width,
                                                     uint32_t columns, uint32_t has);
/* Makes the modulation of all blocks and of the last norm, in prepare, with state->active set (diti_joint_prepare). */
DIT_INTERNAL DITI_UNUSED void diti_stream_prepare(const diti_pass *p, diti_joint_modulation *state);
/* The pass gets the modulation of block `index`, or, where that is the number of all blocks, of the last norm. */
DIT_INTERNAL DITI_UNUSED void diti_stream_modulate(diti_pass *p, const diti_joint_modulation *state, uint32_t index);
/* Runs the block at hand with the pass's modulation on x F32 [items * (text + image), D], in place. */
DIT_INTERNAL DITI_UNUSED void diti_stream_block_run(diti_pass *p, diti_tensor x);
/* The prediction, with the pass's modulation. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_stream_final(diti_pass *p, diti_tensor x);
/* --- blocks of one stream with a gated feed-forward (gated.c) --- */
typedef struct diti_gated_block {
    diti_layer modulation;           /* [4D, time]: scale and gate of attention, of the feed-forward */
    diti_fused_linear qkv;           /* [3D, D] */
    diti_weight norms;               /* F32 [2, head_dim]: of queries, of keys */
    diti_layer out;                  /* [D, D] */
    diti_layer ff_gate, ff_in;       /* [feed, D] each */
    diti_layer ff_out;               /* [D, feed] */
    diti_layer before[2], behind[2]; /* [D]: RMS norms around attention and feed-forward */
    diti_sublayer attention, feed;
} diti_gated_block;
typedef struct diti_gated_names { /* NULL: blocks have no such layer */
    const char *modulation;
    diti_fused qkv; /* fused NULL: no file has them as one */
    const char *norms[2], *out, *gate, *in, *down, *before[2], *behind[2];
} diti_gated_names;
/* Z-Image's names, which Ideogram 4 has, too. */
#define DITI_GATED_NAMES(MODULATION)                                                                                   \
    {                                                                                                                  \
        MODULATION, {"attention.qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}, 3},                      \
            {"attention.norm_q.weight", "attention.norm_k.weight"}, "attention.to_out.0", "feed_forward.w1",           \
            "feed_forward.w3", "feed_forward.w2", {"attention_norm1.weight", "ffn_norm1.weight"}, {                    \
            "attention_norm2.weight", "ffn_norm2.weight"                                                               \
        }                                                                                                              \
    }
typedef struct diti_gated_kind {
    uint32_t width, head_dim, feed, time; /* width: D; time: columns of the vector that modulates */
    float eps;                            /* norms in front have it */
    diti_activation activation;           /* the gate has it; DITI_ACTIVATION_NONE: silu */
} diti_gated_kind;
/* Blocks LIST0, LIST1 and so on. */
DIT_INTERNAL DITI_UNUSED void diti_gated_blocks_load(diti_loader *loader, diti_gated_block *blocks, uint32_t count,
                                                     const char *list, const diti_gated_names *names,
                                                     const diti_gated_kind *kind, diti_streams streams);
/* Modulation of blocks [first, end) here, and scales of a last norm for all steps, F32 [steps, D], which is returned;
   all layers are linear in active F32 [steps, time], the last one in its silu. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_gated_prepare(const diti_pass *p, diti_adaln *adaln,
                                                        const diti_gated_block *blocks, diti_tensor active,
                                                        const diti_layer *last);
/* A block with all of these layers: x += tanh(gate) * RMS(f(RMS(x) * (1 + scale))), of attention, then of the
   feed-forward; x F32 [items * (text + image), D] in place. */
DIT_INTERNAL DITI_UNUSED void diti_gated_block_run(diti_pass *p, const diti_gated_block *w, const diti_adaln *adaln,
                                                   diti_tensor x);
/* The prediction against the flow: -last(LN(x) * (1 + scale)), by the step's row of scales F32 [steps, D]. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_gated_final(diti_pass *p, diti_tensor x, diti_tensor scales,
                                                      const diti_sublayer *last);
/* --- the refiner of HunyuanVideo's text (refiner.c, docs/models.md 3.11) --- */
#define DITI_MAX_REFINERS 8u
#define DITI_REFINER "context_embedder.token_refiner.refiner_blocks."
/* Names of the original code base. */
#define DITI_REFINER_PAIRS                                                                                             \
    {"norm1", "norm1"}, {"norm2", "norm2"}, {"attn.qkv", "self_attn_qkv"}, {"attn.to_out.0", "self_attn_proj"},        \
        {"ff.net.0.proj", "mlp.fc1"}, {"ff.net.2", "mlp.fc2"}, {                                                       \
        "norm_out.linear", "adaLN_modulation.1"                                                                        \
    }
typedef struct diti_refiner_block {
    diti_layer norm1, norm2;  /* [D] */
    diti_fused_linear qkv;    /* [3D, D] */
    diti_layer out;           /* [D, D] */
    diti_layer ff_in, ff_out; /* [4D, D], [D, 4D] */
    diti_layer gates;         /* [2D, D]: of attention, of the feed-forward */
} diti_refiner_block;
typedef struct diti_refiner {
    diti_layer in;               /* [D, text] */
    diti_embedder time, average; /* [D, 256 or text], [D, D] */
    diti_refiner_block blocks[DITI_MAX_REFINERS];
    uint32_t count, text, head_dim; /* text: columns of the language model's states */
} diti_refiner;
typedef struct diti_refiner_state { /* prepare leaves these for the steps */
    diti_tensor text;               /* F32 [prompts * text tokens, D], before the blocks */
    diti_tensor gates;              /* F32 [steps, prompts * 2D * blocks] */
} diti_refiner_state;
/* Cosines and sines [text + clip tokens, half a head]: the text stands at the origin, so that nothing rotates; angles
   are float32, as the originals round them. */
#define DITI_REFINER_AXES 3u
DIT_INTERNAL DITI_UNUSED void diti_refiner_turns(const diti_transformer *transformer, const diti_step_desc *step,
                                                 const uint32_t *axes, float theta, float *cosines, float *sines);
DIT_INTERNAL DITI_UNUSED void diti_refiner_load(diti_loader *loader, diti_refiner *refiner, uint32_t count,
                                                uint32_t width, uint32_t text, uint32_t head_dim);
DIT_INTERNAL DITI_UNUSED void diti_refiner_prepare(const diti_pass *p, const diti_refiner *refiner,
                                                   const diti_text_order *order, diti_tensor sinusoids,
                                                   diti_refiner_state *state);
/* F32 [prompts * text tokens, D], padding in front. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_refiner_run(const diti_pass *p, const diti_refiner *refiner,
                                                      const diti_text_order *order, const diti_refiner_state *state);
/* The most bytes of modulations of all blocks and steps together that are made beforehand. */
#define DITI_MODULATION_BYTES ((uint64_t)384 << 20)
#endif
