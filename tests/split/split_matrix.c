/* Every split of a job over several devices, on every family: one evaluation of the denoiser and the latent after some
   steps against the first device alone, bytes that the plans said beforehand against those that were sent, link by
   link, and both against a closed form.

   make test runs the rows of the bundled model and one of a clip; DIT_TEST_ALL=1 the whole table, row by row, and
   remembers in build/all which rows have passed. By hand: build/tests/split_matrix WORD... runs the rows whose line has
   all words in it; an argument with a slash in it is a folder of fixtures that are tested as well; drawn:SEED:ROWS
   draws models, splits, shares and sizes instead: whatever can be asked for is refused with a sentence, or right.
   test-all ends with some of these rows. split_texts.c has splits that depend on the lengths of prompts.
   test-runs: lavapipe */
#include "library.h"
#include "model/hunyuandit.c"
#include "model/sd3.c"
#include "model/wan.c"
#include "split_forms.h"
#include "split_job.h"
#include "split_models.h"
#include "stale_model.h"
#include "vulkan_test.h"
#include <sys/stat.h>

enum { LINKS = DITI_MAX_DEVICES, MOST_STEPS = 8 };

/* Exact splits differ from one device by the order of sums alone, which ring and tensor change: others give its bytes.
 */
#define CALL_TOLERANCE 1e-5
#define LATENT_TOLERANCE 1e-3
/* A row of int8 has a step of 1 / 127 of its largest value. */
#define LOSSY_TOLERANCE 2e-2
/* Drawn rows have up to four exchanges of int8 rows one behind the other, each with such an error. */
#define LOSSY_DRAWN 4e-2

/* ---- rows ---- */

typedef enum kind {
    EXACT,
    LOSSY, /* rows are sent as int8 */
    STALE  /* pipefusion: other strips' keys and values are one step old */
} kind;
typedef struct row {
    const char *model, *split;
    const char *devices;    /* "3": so many of the first driver; "3+": of two drivers by turns */
    uint32_t columns, rows; /* of tokens */
    uint32_t images;
    const char *refused;   /* words of the sentence; NULL: it runs, where the model has as many heads and layers */
    const char *overrides; /* "transport=staged"; NULL: none */
    kind kind;
} row;

/* The bundled model and a clip, in make test. */
static const row quick[] = {
    {"bundled", "cfg2", "3", 5, 3, 1, NULL, NULL, EXACT},
    {"bundled", "ring3", "3", 5, 3, 1, NULL, NULL, EXACT},
    {"bundled", "ulysses3", "3", 5, 3, 1, NULL, NULL, EXACT},
    {"bundled", "cfg3", "3", 5, 3, 1, "two branches", NULL, EXACT},
    {"latte clip", "ulysses3", "3", 3, 2, 1, NULL, NULL, EXACT},
};

#define EVERY(model, columns, rows)                                                                                    \
    {model, "ulysses2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                     \
        {model, "ulysses4", "4", columns, rows, 1, NULL, NULL, EXACT},                                                 \
        {model, "ring2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                    \
        {model, "ring3", "3", columns, rows, 1, NULL, NULL, EXACT},                                                    \
        {model, "ring4", "4", columns, rows, 1, NULL, NULL, EXACT},                                                    \
        {model, "ulysses2,ring2", "4", columns, rows, 1, NULL, NULL, EXACT},                                           \
        {model, "tensor2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "tensor4", "4", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "tensor2,ulysses2", "4", columns, rows, 1, NULL, NULL, EXACT},                                         \
        {model, "tensor2x2", "4", columns, rows, 1, NULL, NULL, EXACT},                                                \
        {model, "layers2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "layers3", "3", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "layers4", "4", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "pipefusion2", "2", columns, rows, 1, NULL, NULL, STALE}, {                                            \
        model, "pipefusion4", "4", columns, rows, 1, NULL, NULL, STALE                                                 \
    }

#define GUIDED(model, columns, rows)                                                                                   \
    {model, "cfg2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                         \
        {model, "cfg2,ulysses2", "4", columns, rows, 1, NULL, NULL, EXACT},                                            \
        {model, "cfg2,ring2", "4", columns, rows, 1, NULL, NULL, EXACT},                                               \
        {model, "cfg2,tensor2", "4", columns, rows, 1, NULL, NULL, EXACT},                                             \
        {model, "cfg2,layers2", "4", columns, rows, 1, NULL, NULL, EXACT}, {                                           \
        model, "cfg2,pipefusion2", "4", columns, rows, 1, NULL, NULL, STALE                                            \
    }

/* Cases that only some degrees bring up: devices that do not divide heads or tokens, eight of them, pictures that are
   no squares, several pictures, other transports and drivers. */
#define CORNERS(model)                                                                                                 \
    {model, "ulysses3", "3", 8, 8, 1, NULL, NULL, EXACT}, {model, "ulysses8", "8", 8, 8, 1, NULL, NULL, EXACT},        \
        {model, "ring8", "8", 8, 8, 1, NULL, NULL, EXACT}, {model, "tensor3", "3", 8, 8, 1, NULL, NULL, EXACT},        \
        {model, "ulysses2,ring4", "8", 8, 8, 1, NULL, NULL, EXACT},                                                    \
        {model, "ulysses4,ring2", "8", 8, 8, 1, NULL, NULL, EXACT},                                                    \
        {model, "tensor8", "8", 8, 8, 1, NULL, NULL, EXACT}, {model, "layers8", "8", 8, 8, 1, NULL, NULL, EXACT},      \
        {model, "pipefusion8", "8", 8, 8, 1, NULL, NULL, STALE},                                                       \
        {model, "pipefusion3", "3", 8, 8, 1, NULL, NULL, STALE},                                                       \
        {model, "ulysses2", "2", 11, 13, 1, NULL, NULL, EXACT}, {model, "ulysses3", "3", 9, 7, 1, NULL, NULL, EXACT},  \
        {model, "ring3", "3", 11, 13, 1, NULL, NULL, EXACT}, {model, "ring4", "4", 9, 7, 1, NULL, NULL, EXACT},        \
        {model, "ulysses2,ring2", "4", 9, 7, 1, NULL, NULL, EXACT},                                                    \
        {model, "tensor2", "2", 9, 7, 1, NULL, NULL, EXACT}, {model, "pipefusion2", "2", 9, 7, 1, NULL, NULL, STALE},  \
        {model, "layers2", "2", 9, 7, 1, NULL, NULL, EXACT}, {model, "ulysses2", "2", 8, 8, 2, NULL, NULL, EXACT},     \
        {model, "ring2", "2", 8, 8, 2, NULL, NULL, EXACT}, {model, "tensor2", "2", 8, 8, 2, NULL, NULL, EXACT},        \
        {model, "layers2", "2", 8, 8, 2, NULL, NULL, EXACT}, {model, "pipefusion2", "2", 8, 8, 2, NULL, NULL, STALE},  \
        {model, "pipefusion2,ulysses2", "4", 8, 8, 1, NULL, NULL, STALE},                                              \
        {model, "pipefusion2,ring2", "4", 8, 8, 1, NULL, NULL, STALE},                                                 \
        {model, "pipefusion2,tensor2", "4", 8, 8, 1, NULL, NULL, STALE},                                               \
        {model, "layers2,ulysses2", "4", 8, 8, 1, NULL, NULL, EXACT},                                                  \
        {model, "layers2,tensor2", "4", 8, 8, 1, NULL, NULL, EXACT},                                                   \
        {model, "layers2,ulysses2,ring2", "8", 8, 8, 1, NULL, NULL, EXACT},                                            \
        {model, "ulysses2", "2+", 8, 8, 1, NULL, NULL, EXACT}, {model, "ring3", "3+", 8, 8, 1, NULL, NULL, EXACT},     \
        {model, "tensor2", "2+", 8, 8, 1, NULL, NULL, EXACT}, {model, "layers2", "2+", 8, 8, 1, NULL, NULL, EXACT},    \
        {model, "pipefusion2", "2+", 8, 8, 1, NULL, NULL, STALE},                                                      \
        {model, "ulysses9", "9", 8, 8, 1, "heads", NULL, EXACT},                                                       \
        {model, "layers9", "9", 8, 8, 1, "layers", NULL, EXACT},                                                       \
        {model, "pipefusion9", "9", 8, 8, 1, "layers", NULL, STALE},                                                   \
        {model, "tensor9", "9", 8, 8, 1, "heads", NULL, EXACT}, {model, "tensor2x3", "6", 9, 7, 1, NULL, NULL, EXACT}, \
        {model, "tensor4x2", "8", 8, 8, 2, NULL, NULL, EXACT},                                                         \
        {model, "tensor2x2,ulysses2", "8", 8, 8, 1, NULL, NULL, EXACT},                                                \
        {model, "tensor2x2,layers2", "8", 8, 8, 1, NULL, NULL, EXACT},                                                 \
        {model, "tensor9x1", "9", 8, 8, 1, "heads", NULL, EXACT}, {                                                    \
        model, "ulysses2", "1", 8, 8, 1, "needs 2 devices, the context has 1", NULL, EXACT                             \
    }

#define CORNERS_GUIDED(model)                                                                                          \
    {model, "cfg2", "2", 11, 13, 1, NULL, NULL, EXACT}, {model, "cfg2", "2", 8, 8, 2, NULL, NULL, EXACT},              \
        {model, "cfg2,ulysses4", "8", 8, 8, 1, NULL, NULL, EXACT},                                                     \
        {model, "cfg2,ring4", "8", 8, 8, 1, NULL, NULL, EXACT},                                                        \
        {model, "cfg2,ulysses2,ring2", "8", 8, 8, 1, NULL, NULL, EXACT},                                               \
        {model, "cfg2,tensor2,ulysses2", "8", 8, 8, 1, NULL, NULL, EXACT},                                             \
        {model, "cfg2,pipefusion4", "8", 8, 8, 1, NULL, NULL, STALE},                                                  \
        {model, "cfg2,pipefusion2,ring2", "8", 8, 8, 1, NULL, NULL, STALE},                                            \
        {model, "cfg2,layers4", "8", 8, 8, 1, NULL, NULL, EXACT},                                                      \
        {model, "cfg2,tensor2x2", "8", 8, 8, 1, NULL, NULL, EXACT},                                                    \
        {model, "cfg2,ulysses3", "6", 9, 7, 1, NULL, NULL, EXACT}, {model, "cfg2", "2+", 8, 8, 1, NULL, NULL, EXACT},  \
        {model, "cfg2,ulysses2", "4+", 9, 7, 1, NULL, NULL, EXACT}, {                                                  \
        model, "cfg3", "3", 8, 8, 1, "two branches", NULL, EXACT                                                       \
    }

#define TRANSPORTS(model, split, devices, kind)                                                                        \
    {model, split, devices, 8, 8, 1, NULL, "transport=fd", kind},                                                      \
        {model, split, devices, 8, 8, 1, NULL, "transport=dma_buf", kind},                                             \
        {model, split, devices, 8, 8, 1, NULL, "transport=host", kind}, {                                              \
        model, split, devices, 8, 8, 1, NULL, "transport=staged,chunk=4K", kind                                        \
    }

#define PLAN(split, values, shares)                                                                                    \
    "{\"format\": \"dit-split-plan\", \"version\": 1, \"split\": \"" split "\"" values ", \"shares\": [" shares "]}"
#define UNEQUAL(model)                                                                                                 \
    {model, PLAN("ulysses3", "", "0.47, 0.31, 0.22"), "3", 9, 7, 1, NULL, NULL, EXACT},                                \
        {model, PLAN("ring3", "", "0.45, 0.35, 0.2"), "3", 8, 8, 1, NULL, NULL, EXACT},                                \
        {model, PLAN("tensor3", "", "0.47, 0.31, 0.22"), "3", 8, 8, 1, NULL, NULL, EXACT},                             \
        {model, PLAN("layers3", "", "0.2, 0.3, 0.5"), "3", 8, 8, 1, NULL, NULL, EXACT},                                \
        {model, PLAN("ulysses2,ring2", "", "0.1, 0.2, 0.32, 0.38"), "4", 9, 7, 1, NULL, NULL, EXACT},                  \
        {model, PLAN("tensor2x2", "", "0.15, 0.2, 0.25, 0.4"), "4", 8, 8, 1, NULL, NULL, EXACT}, {                     \
        model, PLAN("pipefusion2,ring2", ", \"patches\": 3", "0.1, 0.2, 0.32, 0.38"), "4", 8, 8, 1, NULL, NULL, STALE  \
    }

/* Clips: more frames than devices, which divide neither frames nor tokens. */
#define CLIP(model)                                                                                                    \
    {model, "cfg2", "2", 3, 2, 1, NULL, NULL, EXACT}, {model, "ulysses2", "2", 3, 2, 1, NULL, NULL, EXACT},            \
        {model, "ulysses3", "3", 3, 2, 1, NULL, NULL, EXACT},                                                          \
        {model, "cfg2,ulysses2", "4", 3, 2, 1, NULL, NULL, EXACT},                                                     \
        {model, "tensor2", "2", 3, 2, 1, NULL, NULL, EXACT},                                                           \
        {model, "tensor2,ulysses2", "4", 3, 2, 1, NULL, NULL, EXACT},                                                  \
        {model, "layers2", "2", 3, 2, 1, NULL, NULL, EXACT}, {                                                         \
        model, "ulysses2,int8", "2", 3, 2, 1, NULL, NULL, LOSSY                                                        \
    }
#define CLIP_BY_TURNS(model)                                                                                           \
    CLIP(model), {model, "ring2", "2", 3, 2, 1, "exchange frames for positions", NULL, EXACT}, {                       \
        model, "pipefusion2", "2", 3, 2, 1, "exchange frames for positions", NULL, STALE                               \
    }
#define CLIP_WHOLE(model)                                                                                              \
    CLIP(model), {model, "ring2", "2", 3, 2, 1, NULL, NULL, EXACT}, {model, "ring3", "3", 3, 2, 1, NULL, NULL, EXACT}, \
        {model, "ulysses2,ring2", "4", 3, 2, 1, NULL, NULL, EXACT}, {                                                  \
        model, "pipefusion2", "2", 3, 2, 1, NULL, NULL, STALE                                                          \
    }

/* Models of three heads or fewer, and of as few blocks. */
#define DIVIDED(model, columns, rows)                                                                                  \
    {model, "ulysses2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                     \
        {model, "ulysses3", "3", columns, rows, 1, NULL, NULL, EXACT},                                                 \
        {model, "ring2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                    \
        {model, "ring3", "3", columns, rows, 1, NULL, NULL, EXACT},                                                    \
        {model, "ring4", "4", columns, rows, 1, NULL, NULL, EXACT},                                                    \
        {model, "ulysses2,ring2", "4", columns, rows, 1, NULL, NULL, EXACT},                                           \
        {model, "tensor2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "tensor2", "2", columns, rows, 2, NULL, NULL, EXACT},                                                  \
        {model, "tensor3", "3", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "tensor2x2", "4", columns, rows, 1, NULL, NULL, EXACT},                                                \
        {model, "tensor2,ulysses2", "4", columns, rows, 1, NULL, NULL, EXACT},                                         \
        {model, "layers2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "layers2,ulysses2", "4", columns, rows, 1, NULL, NULL, EXACT}, {                                       \
        model, "ulysses2,int8", "2", columns, rows, 1, NULL, NULL, LOSSY                                               \
    }

/* Models whose devices do not divide rows. */
#define UNDIVIDED(model, columns, rows)                                                                                \
    {model, "cfg2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                         \
        {model, "cfg2", "2", columns, rows, 2, NULL, NULL, EXACT},                                                     \
        {model, "tensor2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "tensor2", "2", columns, rows, 2, NULL, NULL, EXACT},                                                  \
        {model, "cfg2,tensor2", "4", columns, rows, 1, NULL, NULL, EXACT},                                             \
        {model, "layers2", "2", columns, rows, 1, NULL, NULL, EXACT},                                                  \
        {model, "cfg2,layers2", "4", columns, rows, 1, NULL, NULL, EXACT},                                             \
        {model, "layers2,tensor2", "4", columns, rows, 1, NULL, NULL, EXACT},                                          \
        {model, "ulysses2", "2", columns, rows, 1, "all rows of a picture", NULL, EXACT},                              \
        {model, "ring2", "2", columns, rows, 1, "all rows of a picture", NULL, EXACT}, {                               \
        model, "pipefusion2", "2", columns, rows, 1, "all rows of a picture", NULL, STALE                              \
    }

static const row table[] = {
    UNDIVIDED("sana", 7, 5),
    UNDIVIDED("lumina2", 7, 5),
    UNDIVIDED("boogu", 7, 5),
    CLIP_BY_TURNS("stdit1 clip"),
    CLIP_BY_TURNS("stdit2 clip"),
    CLIP_BY_TURNS("stdit3 clip"),
    CLIP_BY_TURNS("latte clip"),
    CLIP_BY_TURNS("plan clip"),
    {"latte clip", "ulysses2", "2", 3, 2, 2, NULL, NULL, EXACT},
    {"latte clip", PLAN("ulysses3", "", "0.47, 0.31, 0.22"), "3", 3, 3, 1, NULL, NULL, EXACT},
    {"short clip", "ulysses3", "3", 3, 2, 1, "fewer than devices", NULL, EXACT},
    {"stdit1 clip", "ulysses3", "3", 2, 1, 1, "fewer than devices", NULL, EXACT},
    CLIP_WHOLE("cogvideox clip"),
    {"cogvideox from a picture", "cfg2", "2", 11, 2, 1, NULL, NULL, EXACT}, /* 66 learned places beside the text */
    {"cogvideox from a picture", "ulysses2", "2", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "ulysses3", "3", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "cfg2,ulysses2", "4", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "tensor2", "2", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "ring2", "2", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "ring3", "3", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "ulysses2,ring2", "4", 11, 2, 1, NULL, NULL, EXACT},
    {"cogvideox from a picture", "ulysses2,int8", "2", 11, 2, 1, NULL, NULL, LOSSY},
    CLIP_WHOLE("cogvideox 1.5 clip"),
    CLIP_WHOLE("wan clip"),
    CLIP_WHOLE("wan 2.2 clip"),
    {"wan 2.2 from a picture", "cfg2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"wan 2.2 from a picture", "ulysses2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"wan 2.2 from a picture", "ulysses3", "3", 3, 2, 1, "fewer than devices", NULL, EXACT},
    {"wan 2.2 from a picture", "cfg2,ulysses2", "4", 3, 2, 1, NULL, NULL, EXACT},
    {"wan 2.2 from a picture", "ring2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"wan 2.2 from a picture", "tensor2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"wan 2.2 from a picture", "layers2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"wan 2.2 from a picture", "ulysses2,int8", "2", 3, 2, 1, NULL, NULL, LOSSY},
    {"wan 2.2 from a picture", "pipefusion2", "2", 3, 2, 1, "no whole frames", NULL, STALE},
    {"vace from a picture", "cfg2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"vace from a picture", "ulysses2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"vace from a picture", "ring3", "3", 3, 2, 1, NULL, NULL, EXACT},
    {"vace from a picture", "tensor2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"vace from a picture", "layers3", "3", 3, 2, 1, NULL, NULL, EXACT},
    {"vace from a picture", "pipefusion2", "2", 3, 2, 1, NULL, NULL, STALE},
    CLIP("wan from a picture"),
    {"wan from a picture", "ring2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"wan from a picture", "ring3", "3", 3, 2, 1, NULL, NULL, EXACT},
    {"wan from a picture", "ulysses2,ring2", "4", 3, 2, 1, NULL, NULL, EXACT},
    {"wan from a picture", "pipefusion2", "2", 3, 2, 1, "two experts", NULL, STALE},
    {"hunyuanvideo clip", "cfg2", "2", 3, 2, 1, "without", NULL, EXACT},
    {"hunyuanvideo clip", "ulysses2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo clip", "ring2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo clip", "ring3", "3", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo clip", "tensor2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo clip", "layers2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo clip", "layers2,ulysses2", "4", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo clip", "ulysses2,int8", "2", 3, 2, 1, NULL, NULL, LOSSY},
    {"hunyuanvideo clip", "pipefusion2", "2", 3, 2, 1, NULL, NULL, STALE},
    {"kandinsky clip", "cfg2", "2", 4, 3, 1, NULL, NULL, EXACT},
    {"kandinsky clip", "ulysses2", "2", 4, 3, 2, NULL, NULL, EXACT},
    {"kandinsky clip", "ring2", "2", 4, 3, 1, NULL, NULL, EXACT},
    {"kandinsky clip", "tensor2", "2", 4, 3, 1, NULL, NULL, EXACT},
    {"kandinsky clip", "layers2", "2", 4, 3, 1, NULL, NULL, EXACT},
    {"kandinsky clip", "pipefusion2", "2", 4, 3, 1, NULL, NULL, STALE},
    {"hunyuanvideo 1.5 clip", "cfg2", "2", 3, 2, 1, NULL, NULL, EXACT}, /* its prompts have unequal lengths */
    {"hunyuanvideo 1.5 clip", "tensor2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo 1.5 clip", "layers2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo 1.5 clip", "cfg2,tensor2", "4", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo 1.5 clip", "ulysses2", "2", 3, 2, 1, "rows of text", NULL, EXACT},
    {"hunyuanvideo 1.5 clip", "pipefusion2", "2", 3, 2, 1, "no multiple of four", NULL, STALE},
    {"hunyuanvideo 1.5 unguided", "ulysses2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo 1.5 unguided", "ring3", "3", 3, 2, 1, NULL, NULL, EXACT},
    {"hunyuanvideo 1.5 unguided", "pipefusion2", "2", 4, 4, 1, NULL, NULL, STALE},
    CLIP("ltx clip"),
    {"ltx clip", "ring2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx clip", "ring3", "3", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx clip", "ulysses2,ring2", "4", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx clip", "pipefusion2", "2", 3, 2, 1, "no multiple of four", NULL, STALE},
    {"ltx clip", "pipefusion2", "2", 4, 1, 1, NULL, NULL, STALE},
    {"ltx from a picture", "ulysses2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx from a picture", "ulysses3", "3", 3, 2, 1, "fewer than devices", NULL, EXACT},
    {"ltx from a picture", "ring2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx from a picture", "cfg2,ulysses2", "4", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx from a picture", "pipefusion2", "2", 3, 2, 1, "no whole frames", NULL, STALE},
    {"ltx from a picture", "ulysses4", "4", 3, 2, 1, "fewer than devices", NULL, EXACT},
    UNDIVIDED("ltx2 clip", 3, 2),
    {"minimax clip", "tensor2", "2", 5, 3, 1, NULL, NULL, EXACT},
    {"minimax clip", "tensor2", "2", 5, 3, 2, NULL, NULL, EXACT},
    {"minimax clip", "layers2", "2", 5, 3, 1, NULL, NULL, EXACT},
    {"minimax clip", "ulysses2", "2", 5, 3, 1, "all rows of a picture", NULL, EXACT},
    {"minimax clip", "ring2", "2", 5, 3, 1, "all rows of a picture", NULL, EXACT},
    {"minimax clip", "pipefusion2", "2", 5, 3, 1, "all rows of a picture", NULL, STALE},
    {"ltx2 mirrored", "layers2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx2 from a picture", "cfg2", "2", 3, 2, 1, NULL, NULL, EXACT},
    {"ltx2 from a picture", "layers2", "2", 3, 2, 1, NULL, NULL, EXACT},
    GUIDED("pixart8", 8, 8),
    EVERY("pixart8", 8, 8),
    GUIDED("sd3-8", 8, 8),
    EVERY("sd3-8", 8, 8),
    EVERY("flux8", 8, 8),
    {"flux8", "cfg2", "2", 8, 8, 1, "without", NULL, EXACT},
    GUIDED("hunyuan8", 8, 8),
    EVERY("hunyuan8", 8, 8),
    GUIDED("dit8", 8, 8),
    EVERY("dit8", 8, 8),
    TRANSPORTS("pixart8", "cfg2", "2", EXACT),
    TRANSPORTS("pixart8", "ulysses2,ring2", "4", EXACT),
    TRANSPORTS("pixart8", "tensor2", "2", EXACT),
    TRANSPORTS("pixart8", "layers2", "2", EXACT),
    TRANSPORTS("pixart8", "pipefusion2", "2", STALE),
    CORNERS_GUIDED("pixart8"),
    CORNERS("pixart8"),
    CORNERS_GUIDED("sd3-8"),
    CORNERS("sd3-8"),
    CORNERS("flux8"),
    CORNERS_GUIDED("hunyuan8"),
    CORNERS("hunyuan8"),
    CORNERS_GUIDED("dit8"),
    CORNERS("dit8"),
    GUIDED("sd35-24", 14, 14),
    EVERY("sd35-24", 14, 14),
    {"sd35-24", "ulysses8", "8", 10, 13, 1, NULL, NULL, EXACT},
    {"sd35-24", "ulysses3", "3", 10, 13, 1, NULL, NULL, EXACT},
    {"sd35-24", "tensor3", "3", 10, 13, 1, NULL, NULL, EXACT},
    EVERY("flux24", 14, 14),
    {"flux24", "ulysses8", "8", 10, 13, 1, NULL, NULL, EXACT},
    {"flux24", "ulysses3", "3", 10, 13, 1, NULL, NULL, EXACT},
    {"flux24", "ring3", "3", 10, 13, 1, NULL, NULL, EXACT},
    GUIDED("pixart30", 14, 14),
    EVERY("pixart30", 14, 14),
    {"pixart30", "ulysses8", "8", 10, 13, 1, NULL, NULL, EXACT},
    {"pixart30", "ulysses3", "3", 10, 13, 1, NULL, NULL, EXACT},
    {"pixart8", "pipefusion2:m4", "2", 8, 8, 1, NULL, NULL, STALE},
    {"pixart8", "pipefusion2:m3w2", "2", 9, 7, 1, NULL, NULL, STALE},
    {"pixart8", "pipefusion4:m4w2", "4", 8, 8, 1, NULL, NULL, STALE},
    {"sd3-8", "pipefusion2:m4", "2", 8, 8, 1, NULL, NULL, STALE},
    {"sd3-8", "pipefusion2:m3w2", "2", 9, 7, 1, NULL, NULL, STALE},
    {"pixart8", "ulysses2,int8", "2", 8, 8, 1, NULL, NULL, LOSSY},
    {"pixart8", "ring3,int8", "3", 9, 7, 1, NULL, NULL, LOSSY},
    {"pixart8", "ulysses2,ring2,int8", "4", 8, 8, 2, NULL, NULL, LOSSY},
    {"sd3-8", "ulysses3,int8", "3", 9, 7, 1, NULL, NULL, LOSSY},
    {"sd3-8", "cfg2,ring2,int8", "4", 8, 8, 1, NULL, NULL, LOSSY},
    {"flux8", "ulysses2,int8", "2", 8, 8, 1, NULL, NULL, LOSSY},
    {"hunyuan8", "ring2,int8", "2", 8, 8, 1, NULL, NULL, LOSSY},
    {"hunyuan8", "layers3,int8", "3", 8, 8, 1, NULL, NULL, LOSSY},
    {"sd3-8", "ulysses2,layers2,int8", "4", 8, 8, 1, NULL, NULL, LOSSY},
    UNEQUAL("pixart8"),
    {"pixart8", PLAN("cfg2,ulysses2", "", "0.6, 0.4, 0.3, 0.7"), "4", 8, 8, 1, NULL, NULL, EXACT},
    UNEQUAL("dit8"),
    UNEQUAL("sd3-8"),
    UNEQUAL("flux8"),
    UNEQUAL("hunyuan8"),
    {"hunyuan8", PLAN("pipefusion2", "", "0.9, 0.1"), "2", 8, 8, 1, NULL, NULL, STALE},
    {"hunyuan8", PLAN("pipefusion3", "", "0.9, 0.02, 0.08"), "3", 8, 8, 1, NULL, NULL, STALE},
    {"pixart30", "cfg2,ulysses4", "8", 10, 13, 1, NULL, NULL, EXACT},
    {"pixart30", "tensor4,ulysses2", "8", 10, 13, 1, NULL, NULL, EXACT},
    {"pixart30", "tensor8", "8", 10, 13, 1, NULL, NULL, EXACT},
    GUIDED("hunyuan16", 14, 14),
    EVERY("hunyuan16", 14, 14),
    {"hunyuan16", "cfg2,pipefusion2,ulysses2", "8", 10, 13, 1, NULL, NULL, STALE},
    {"hunyuan16", "ulysses8", "8", 10, 13, 1, NULL, NULL, EXACT},
    {"pixart-sigma", "cfg2", "2+", 7, 5, 1, NULL, NULL, EXACT},
    {"pixart-sigma", "ulysses2", "2+", 7, 5, 1, NULL, NULL, EXACT},
    GUIDED("pixart-sigma", 7, 5),
    EVERY("pixart-sigma", 7, 5),
    GUIDED("dit", 6, 5),
    EVERY("dit", 6, 5),
    GUIDED("sd35-odd", 7, 5),
    EVERY("sd35-odd", 7, 5),
    {"sd35-odd", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"sd35-odd", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"sd35-odd", "pipefusion3", "3", 7, 5, 1, NULL, NULL, STALE},
    EVERY("flux-sdcpp", 7, 5),
    {"flux-sdcpp", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"flux-sdcpp", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"flux-sdcpp", "pipefusion3", "3", 7, 5, 1, NULL, NULL, STALE},
    GUIDED("hunyuandit", 7, 5),
    EVERY("hunyuandit", 7, 5),
    GUIDED("wan", 7, 5),
    EVERY("wan", 7, 5),
    {"wan", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"wan", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"wan", "tensor3", "3", 7, 5, 2, NULL, NULL, EXACT},
    DIVIDED("zimage", 7, 5),
    DIVIDED("zimage", 8, 4),
    EVERY("z-image30", 8, 6),
    {"z-image30", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"z-image30", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    UNEQUAL("z-image30"),
    {"z-image30", PLAN("ulysses2", "", "0.62, 0.38"), "2", 7, 5, 1, NULL, NULL, EXACT},
    {"z-image30", PLAN("ulysses4", "", "0.1, 0.2, 0.32, 0.38"), "4", 7, 5, 1, NULL, NULL, EXACT},
    {"z-image30", PLAN("tensor4", "", "0.1, 0.2, 0.32, 0.38"), "4", 8, 8, 1, NULL, NULL, EXACT},
    DIVIDED("klein", 7, 5),
    {"klein", "pipefusion2", "2", 8, 4, 1, NULL, NULL, STALE},
    GUIDED("anima", 7, 5),
    EVERY("anima", 7, 5),
    {"anima", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"anima", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"anima", "ulysses3,int8", "3", 7, 5, 1, NULL, NULL, LOSSY},
    {"qwen-image of even prompts", "cfg2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image of even prompts", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image of even prompts", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image of even prompts", "ulysses2,ring2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image of even prompts", "pipefusion2", "2", 8, 4, 1, "look at whole pictures", NULL, STALE},
    {"qwen-image unguided", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image unguided", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image unguided", "pipefusion2", "2", 8, 4, 1, NULL, NULL, STALE},
    {"qwen-image", "ulysses2", "2", 7, 5, 1, "rows of text", NULL, EXACT},
    {"qwen-image", "tensor2", "2", 7, 5, 1, NULL, NULL, EXACT}, /* its prompts have unequal lengths */
    {"qwen-image", "tensor2", "2", 7, 5, 2, NULL, NULL, EXACT},
    {"qwen-image", "tensor2x2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image", "ulysses3", "3", 7, 5, 1, "heads", NULL, EXACT},
    {"qwen-image-21", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "ring3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "ulysses2,ring2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "tensor2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "tensor2", "2", 7, 5, 2, NULL, NULL, EXACT},
    {"qwen-image-21", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "layers2,ulysses2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"qwen-image-21", "ulysses2,int8", "2", 7, 5, 1, NULL, NULL, LOSSY},
    {"qwen-image-21", "ulysses3", "3", 7, 5, 1, "heads", NULL, EXACT},
    {"qwen-image-21", "pipefusion2", "2", 7, 5, 1, "those of the text besides", NULL, STALE},
    {"krea2", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2", "ulysses2,ring2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2", "tensor2", "2", 7, 5, 2, NULL, NULL, EXACT},
    {"krea2", "tensor2x2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2", "pipefusion2", "2", 7, 5, 1, NULL, NULL, STALE},
    EVERY("krea2-48", 8, 6),
    {"krea2-48", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2-48", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    UNEQUAL("krea2-48"),
    {"krea2-48", PLAN("ulysses2", "", "0.62, 0.38"), "2", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2-48", PLAN("ulysses4", "", "0.1, 0.2, 0.32, 0.38"), "4", 7, 5, 1, NULL, NULL, EXACT},
    {"krea2-48", PLAN("tensor4", "", "0.1, 0.2, 0.32, 0.38"), "4", 8, 8, 1, NULL, NULL, EXACT},
    {"chroma", "cfg2", "2", 7, 5, 1, NULL, NULL, EXACT}, /* its prompts have unequal lengths */
    {"chroma", "tensor2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"chroma", "tensor3", "3", 7, 5, 2, NULL, NULL, EXACT},
    {"chroma", "tensor2x2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"chroma", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"chroma", "cfg2,tensor2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"chroma", "cfg2,ring2", "4", 7, 5, 1, "rows of text", NULL, EXACT},
    {"chroma", "ulysses3", "3", 7, 5, 1, "rows of text", NULL, EXACT},
    {"chroma", "pipefusion2", "2", 7, 5, 1, "rows of text", NULL, STALE},
    {"chroma", "pipefusion1:m2w1", "1", 8, 4, 1, "rows of text", NULL, STALE},
    {"ernie", "cfg2", "2", 7, 5, 1, NULL, NULL, EXACT}, /* its prompts have unequal lengths */
    {"ernie", "tensor2", "2", 7, 5, 2, NULL, NULL, EXACT},
    {"ernie", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"ernie", "ulysses2", "2", 7, 5, 1, "rows of text", NULL, EXACT},
    {"ernie of even prompts", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"ernie of even prompts", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"ernie of even prompts", "cfg2,ulysses2", "4", 7, 5, 1, NULL, NULL, EXACT},
    EVERY("ernie12", 8, 6),
    {"ernie12", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"ernie12", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    UNEQUAL("ernie12"),
    {"longcat", "cfg2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"longcat", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"longcat", "cfg2,ring2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"longcat", "tensor3", "3", 7, 5, 2, NULL, NULL, EXACT},
    {"longcat", "tensor2x2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"longcat", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"longcat", "pipefusion2", "2", 7, 5, 1, "this model's guidance must look at whole pictures", NULL, STALE},
    {"ovis", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT}, /* zeros fill its texts */
    {"ovis", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"ovis", "tensor3", "3", 7, 5, 2, NULL, NULL, EXACT},
    {"ovis", "tensor2x2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"ovis", "cfg2,layers2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"ovis", "pipefusion2", "2", 7, 5, 1, NULL, NULL, STALE},
    {"ideogram4", "cfg2", "2", 7, 5, 1, NULL, NULL, EXACT}, /* a transformer for each branch */
    {"ideogram4", "tensor3", "3", 7, 5, 2, NULL, NULL, EXACT},
    {"ideogram4", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"ideogram4", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"ideogram4", "cfg2,ring2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"ideogram4", "cfg2,tensor3", "6", 7, 5, 1, NULL, NULL, EXACT},
    {"ideogram4", "pipefusion2", "2", 7, 5, 1, "guides by another one", NULL, STALE},
    GUIDED("kandinsky", 7, 5), /* its prompts have unequal lengths */
    {"kandinsky", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"kandinsky", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"kandinsky", "tensor2", "2", 7, 5, 2, NULL, NULL, EXACT},
    {"kandinsky", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    EVERY("kandinsky12", 8, 6),
    {"kandinsky12", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"kandinsky12", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    UNEQUAL("kandinsky12"),
    {"flux3", "ulysses3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "ring2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "ring3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "tensor2", "2", 7, 5, 2, NULL, NULL, EXACT},
    {"flux3", "tensor3", "3", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "tensor2x2", "4", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "layers2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "ulysses3,int8", "3", 7, 5, 1, NULL, NULL, LOSSY},
    {"flux3", "ulysses2", "2", 7, 5, 1, NULL, NULL, EXACT},
    {"flux3", "pipefusion2", "2", 8, 4, 1, NULL, NULL, STALE},
    GUIDED("pixart-alpha", 8, 7),
    EVERY("pixart-alpha", 8, 7),
    GUIDED("sd35-medium", 6, 7),
    EVERY("sd35-medium", 6, 7),
    EVERY("flux-schnell", 6, 7),
    {"flux-schnell", "ulysses3", "3", 6, 7, 1, NULL, NULL, EXACT},
    GUIDED("hunyuandit-pipe", 6, 7),
    EVERY("hunyuandit-pipe", 6, 7),
};

/* ---- devices: what is open now ---- */

static bool full;               /* the sweep of make test-all */
static uint32_t some_steps = 2; /* behind which latents are compared */
static char drivers[2][300];    /* a device of each of two drivers, the one that tests are quicker on first */
static uint32_t driver_count;

static void find_drivers(void) {
    dit_device_info list[8];
    uint32_t count = 8, i;
    if (!CHECK_MESSAGE(dit_device_list(list, &count, &err) >= 0 && count, "%s", err.message)) return;
    driver_count = 1;
    snprintf(drivers[0], sizeof drivers[0], "%s", list[0].name);
    for (i = 1; i < count && driver_count == 1; i++)
        if (strcmp(list[i].name, list[0].name))
            snprintf(drivers[driver_count++], sizeof drivers[1], "%s", list[i].name);
    if (driver_count == 2 && strncmp(drivers[0], "llvmpipe", 8)) {
        char swap[300];
        memcpy(swap, drivers[0], sizeof swap);
        memcpy(drivers[0], drivers[1], sizeof swap);
        memcpy(drivers[1], swap, sizeof swap);
    }
}

static maker at;
static struct { /* the row that opened it */
    const char *model, *devices, *overrides;
} opened;

static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static bool open_context(const row *r) {
    char devices[LINKS * 300] = "", overrides[128];
    dit_context_desc desc = DITI_ZERO;
    uint32_t count = (uint32_t)atoi(r->devices), i;
    if (at.context && same_text(opened.devices, r->devices) && same_text(opened.overrides, r->overrides)) return true;
    close_maker(&at);
    for (i = 0; i < count; i++) {
        strcat(devices, i ? "," : "");
        strcat(devices, drivers[strchr(r->devices, '+') ? i % 2 : 0]);
    }
    snprintf(overrides, sizeof overrides, "rung=base%s%s", r->overrides ? "," : "", r->overrides ? r->overrides : "");
    desc.devices = devices;
    desc.overrides = overrides;
    opened.devices = r->devices;
    opened.overrides = r->overrides;
    return dit_context_create(&desc, &at.context, &err) == DIT_OK;
}

static bool open_model(const row *r) {
    if (at.model && same_text(opened.model, r->model)) return true;
    close_model(&at);
    opened.model = r->model;
    dit_model_desc how = DITI_ZERO;
    return load_listed(&at, r->model, how);
}

/* ---- runs ---- */

typedef struct observed {
    outcome made;
    float start[MOST_LATENTS];                          /* the noise */
    uint64_t planned[LINKS][LINKS], sent[LINKS][LINKS]; /* bytes */
    uint64_t in_steps[LINKS], before[LINKS];            /* planned by each device for all steps; before them */
    uint32_t devices, given_rows;
    double shares[LINKS]; /* 0: equal ones */
    bool folded;          /* two shares on each device */
    diti_step schedule[MOST_STEPS];
} observed;

static void sum_planned(const dit_job *job, observed *out) {
    uint32_t i, to;
    for (i = 0; i < job->share_count; i++) {
        const diti_share *share = job->shares[i];
        for (to = 0; to < LINKS; to++)
            out->planned[i][to] = share_bytes(share, 0, share->program.plan->segment_count, to);
        out->before[i] = share_bytes(share, 0, share->program.step_segment, UINT32_MAX);
        out->in_steps[i] = share_bytes(share, share->program.step_segment, share->program.decode_segment, UINT32_MAX);
    }
    for (i = 0; i < job->request.schedule.count && i < MOST_STEPS; i++)
        out->schedule[i] = job->request.schedule.steps[i];
    for (i = 0; i < job->share_count; i++) out->shares[i] = job->request.shape.shares[i];
    out->devices = job->share_count;
    out->folded = job->shares[0]->assignment.folded;
    out->given_rows = job->request.shape.given_rows;
}

static bool read_outcome(dit_job *job, observed *out) {
    uint32_t image;
    for (image = 0; image < job->request.shape.image_count; image++)
        if (!CHECK_MESSAGE(read_latent(job, image, &out->made) == DIT_OK, "%s", err.message)) return false;
    memcpy(out->start, job->request.noise, out->made.count * sizeof *out->start); /* scaled, once the job has begun */
    return CHECK_MESSAGE(read_picture(job, &out->made) == DIT_OK, "%s", err.message);
}

/* Masks the negative prompt as the other one. */
static void make_even(generated_inputs *inputs) {
    const float *mask = NULL;
    uint32_t i;
    for (i = 0; i < inputs->count; i++) {
        if (diti_equal(inputs->list[i].name, "prompt_attention_mask")) mask = inputs->memory[i];
        if (mask && diti_equal(inputs->list[i].name, "negative_prompt_attention_mask"))
            memcpy(inputs->memory[i], mask, (size_t)inputs->list[i].shape[1] * sizeof *mask);
    }
}

static dit_result make_row(const row *r, uint32_t steps, const char *split, dit_job **job) {
    const fixture *f = find_fixture(r->model);
    asked a = ask_listed(&at, r->model, r->columns, r->rows, r->images, steps);
    generated_inputs inputs;
    dit_job_desc desc = request_asked(&at, &a, split, &inputs);
    dit_result result;
    if (f && f->even) make_even(&inputs);
    result = dit_job_create(at.context, &desc, job, &err);
    generated_free_inputs(&inputs);
    return result;
}

/* The latents, or the error in err. */
static dit_result run(const row *r, const char *split, uint32_t steps, observed *out) {
    dit_job *job = NULL;
    dit_result result = make_row(r, steps, split, &job);
    uint32_t i, to;
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) {
        sum_planned(job, out);
        result = wait_for(job, 300);
        if (result == DIT_WORKING) result = diti_fail(&err, DIT_ERROR_TRANSPORT, "not finished after 300 s");
    }
    if (result == DIT_OK && !read_outcome(job, out)) result = err.result;
    for (i = 0; result == DIT_OK && job->mesh && i < job->share_count; i++)
        for (to = 0; to < LINKS; to++)
            if (to != i && to < job->share_count) out->sent[i][to] = diti_mesh_bytes(job->mesh, i, to);
    dit_job_destroy(job);
    return result;
}

/* The error relative to how far the reference went, which is the prediction itself in one step of Euler. */
static double call_difference(const observed *a, const observed *b) {
    if (a->made.count != b->made.count) return INFINITY;
    return relative_l2(a->made.latent, b->made.latent, b->start, b->made.count);
}

/* ---- what one device makes, kept as long as rows ask for the same ---- */

static struct { /* after one step, after some */
    const char *model;
    uint32_t columns, rows, images;
    observed alone[2];
} reference;

static bool find_reference(const row *r) {
    uint32_t i;
    if (reference.alone[1].made.count && same_text(reference.model, r->model) && reference.columns == r->columns &&
        reference.rows == r->rows && reference.images == r->images)
        return true;
    for (i = 0; i < 2; i++) {
        if (!CHECK_MESSAGE(run(r, NULL, i ? some_steps : 1, &reference.alone[i]) == DIT_OK, "%s alone: %s", r->model,
                           err.message))
            return false;
    }
    reference.model = r->model;
    reference.columns = r->columns;
    reference.rows = r->rows;
    reference.images = r->images;
    return true;
}

static struct {
    uint32_t run, refused, absent, before; /* rows */
    uint32_t forms, documents;             /* closed forms, and formulas of the document, that were compared */
} counts;

/* ---- bytes ---- */

static uint64_t total(const uint64_t links[LINKS][LINKS]) {
    uint64_t sum = 0;
    uint32_t i, to;
    for (i = 0; i < LINKS; i++)
        for (to = 0; to < LINKS; to++) sum += links[i][to];
    return sum;
}

static bool is_begun(const row *r) {
    const fixture *f = find_fixture(r->model);
    return f && f->begins;
}

/* Open-Sora 1.2 has text and feed-forward behind either attention, Latte the feed-forward, versions before neither. */
static uint64_t sums_by_turns(const diti_model_traits *traits) {
    if (diti_equal(traits->family, "latte")) return 5;
    return diti_equal(traits->variant, "v1.2") ? 6 : 4;
}

/* Frames of tokens. */
static uint32_t frames_of(const row *r) {
    const fixture *f = find_fixture(r->model);
    uint32_t deep = at.model->transformer->traits.patch_frames ? at.model->transformer->traits.patch_frames : 1;
    if (!f || !f->frames) return 1;
    return (diti_vae_latent_frames(at.model->vae, f->frames, false, NULL) + deep - 1) / deep;
}

static form_shape shape_of(const row *r) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    uint64_t volume = (uint64_t)traits->patch * traits->patch * (traits->patch_frames ? traits->patch_frames : 1);
    form_shape shape = DITI_ZERO;
    shape.heads = traits->heads;
    shape.head_dim = traits->width / traits->heads;
    shape.feed = 4 * (uint64_t)traits->width;
    if (diti_equal(traits->family, "hunyuandit")) shape.feed = diti_hunyuandit_of(at.model->transformer)->config.inner;
    if (diti_equal(traits->family, "wan")) shape.feed = diti_wan_of(at.model->transformer)->config.feed;
    if (diti_equal(traits->family, "wan") || diti_equal(traits->family, "ltx"))
        shape.whole_norms = 3; /* of queries and keys, and of queries of the text */
    shape.image = (uint64_t)r->columns * r->rows * frames_of(r);
    if (traits->divided || (is_begun(r) && traits->frame_steps)) shape.unit = (uint64_t)r->columns * r->rows;
    shape.turns = traits->divided;
    shape.text = traits->joint ? at.model->texts[DITI_TEXT_FIRST].tokens : 0;
    if (traits->text_unit && at.model->fixed_text) shape.text--; /* generated_texts masks a row */
    shape.layers = traits->layers;
    shape.skips = traits->skips;
    if (diti_equal(traits->family, "sd3")) shape.dual = diti_sd3_of(at.model->transformer)->config.dual;
    shape.sums = traits->joint || traits->class_count ? 2 : 3; /* the third: attention to a text of its own */
    if (traits->divided) shape.sums = sums_by_turns(traits);
    shape.singles = traits->single_layers;
    shape.last_image = diti_equal(traits->family, "sd3");
    shape.items = r->images;
    shape.branches = traits->default_guidance != 1.0f ? 2 : 1;
    shape.out_columns = traits->out_channels * volume;
    shape.latent = r->images * traits->latent_channels * volume * shape.image;
    return shape;
}

/* Bytes of texts, which the first device sends to all others: the rows of their branches, or all rows where they are
   packed. */
static uint64_t text_form(const row *r, const diti_split *split, const observed *out) {
    uint64_t values = 0, branches = shape_of(r).branches / split->degree[DITI_SPLIT_CFG];
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) {
        const diti_text_shape *text = &at.model->texts[i];
        values += (at.model->fixed_text   ? branches * text->tokens
                   : i == DITI_TEXT_FIRST ? out->given_rows
                                          : 0) *
                  text->columns;
    }
    if (at.model->transformer->traits.class_count) values = 0;
    return values * FORM_ELEMENT * (diti_split_ranks(split) - 1);
}

/* Devices that divide matrices make some columns of each modulation for all steps, and send them to each other. */
static uint64_t modulation_form(const row *r, const diti_split *split, const form_rank *rank, uint32_t steps) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    form_shape shape = shape_of(r);
    uint64_t sum = 0, i, width = traits->width, doubles = shape.layers - shape.singles;
    uint64_t rows = steps * shape.branches / split->degree[DITI_SPLIT_CFG];
    uint64_t end = form_first(shape.layers, rank->stage + 1, &rank->stages);
    bool adaln = traits->class_count || diti_equal(traits->family, "hunyuandit");
    if (rank->matrices.members == 1 || diti_equal(traits->family, "anima")) return 0; /* Anima's are whole */
#define COLUMNS(count) form_columns((count)*width, rank->tensor, &rank->matrices)
    if (diti_equal(traits->family, "stdit") && diti_equal(traits->variant, "v1.1"))
        return steps * (COLUMNS(6) + COLUMNS(3)) * FORM_ELEMENT;
    if (is_begun(r)) steps++; /* timestep 0 */
    if (diti_equal(traits->family, "pixart") || diti_equal(traits->family, "wan") || traits->divided ||
        diti_equal(traits->family, "ltx"))
        return steps * COLUMNS(6) * FORM_ELEMENT; /* for all blocks, branches */
    for (i = form_first(shape.layers, rank->stage, &rank->stages); i < end; i++) {
        if (adaln) {
            sum += COLUMNS(traits->class_count ? 6 : 1);
        } else if (diti_equal(traits->family, "cogvideox")) {
            sum += 2 * COLUMNS(6) + (i + 1 < shape.layers ? 0 : 2 * COLUMNS(1));
        } else if (diti_equal(traits->family, "flux") || diti_equal(traits->family, "hunyuanvideo")) {
            sum += i < doubles ? 2 * COLUMNS(6) : COLUMNS(3);
        } else {
            sum += COLUMNS(shape.dual >> i & 1 ? 9 : 6);
            sum += i + 1 < shape.layers ? COLUMNS(6) : 2 * COLUMNS(1);
        }
    }
    if (adaln) sum += COLUMNS(2);
#undef COLUMNS
    return sum * rows * (traits->class_count ? r->images : 1) * FORM_ELEMENT;
}

/* Bytes that a rank sends for keys and values of a text that has an attention of its own: in a grid to sum them, and
   keys for the norm of all heads together. */
static uint64_t text_keys_form(const row *r, const diti_split *split, const form_rank *rank, const observed *out) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    uint64_t rows = out->given_rows, norms = 0;
    form_shape shape = shape_of(r);
    if (diti_equal(traits->family, "wan")) rows = shape.branches / split->degree[DITI_SPLIT_CFG] * traits->text_tokens;
    if (shape.whole_norms) norms = rows * rank->own_heads * shape.head_dim * (rank->out.members - 1);
    norms *= form_part(shape.layers, rank->stage, &rank->stages) * FORM_ELEMENT;
    if (rank->in.members == 1 || traits->joint || traits->class_count) return norms;
    if (diti_equal(traits->family, "hunyuandit"))
        rows = shape.branches / split->degree[DITI_SPLIT_CFG] * (at.model->texts[0].tokens + at.model->texts[1].tokens);
    return norms +
           form_part(shape.layers, rank->stage, &rank->stages) *
               form_reduce(rows, 2 * rank->own_heads * shape.head_dim, rank->tensor % rank->in.members, &rank->in) *
               FORM_ELEMENT;
}

/* Bytes of the picture that a clip begins with, encoded, which the first device sends to all others. */
static uint64_t begun_form(const row *r, uint32_t devices) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    uint64_t area = (uint64_t)traits->patch * traits->patch * r->columns * r->rows;
    return is_begun(r) ? traits->latent_channels * area * FORM_ELEMENT * (devices - 1) : 0;
}

/* The closed forms count FLUX's feed-forward, texts of one length, and no net that is a part of the model. */
static bool has_forms(void) {
    static const char *const without[] = {
        "boogu", "zimage", "flux2",   "qwenimage", "qwenimage21", "sana",           "lumina2", "krea2",     "chroma",
        "flux3", "ernie",  "longcat", "ovis",      "ideogram4",   "hunyuanvideo15", "ltx2",    "kandinsky", "minimax"};
    size_t i;
    for (i = 0; i < DITI_COUNT(without); i++)
        if (diti_equal(at.model->transformer->traits.family, without[i])) return false;
    return !at.model->transformer->branch;
}

static void check_forms(const row *r, const diti_split_plan *plan, const observed *out, uint32_t steps) {
    const diti_split *split = &plan->split;
    const double *shares = out->shares[0] > 0 ? out->shares : NULL;
    form_shape shape = shape_of(r), layers = shape;
    uint64_t bytes, before;
    double document;
    uint32_t i;
    layers.out_columns = layers.latent = 0;
    for (i = 0;
         i < out->devices && form_steps(&shape, plan, shares, i, r->columns, r->rows * frames_of(r), steps, &bytes);
         i++) {
        form_rank rank = form_rank_of(&shape, plan, shares, i);
        CHECK_MESSAGE(out->in_steps[i] == bytes, "device %u sends %llu bytes in %u steps, the closed form says %llu", i,
                      (unsigned long long)out->in_steps[i], steps, (unsigned long long)bytes);
        before = (i ? 0 : text_form(r, split, out)) + modulation_form(r, split, &rank, steps) +
                 text_keys_form(r, split, &rank, out) + (i ? 0 : begun_form(r, out->devices));
        /* devices also exchange lines while they encode a picture: split_clips.c has those bytes */
        CHECK_MESSAGE(is_begun(r) ? out->before[i] >= before : out->before[i] == before,
                      "device %u sends %llu bytes before, not %llu", i, (unsigned long long)out->before[i],
                      (unsigned long long)before);
        if (shares || plan->int8 || !form_document(&shape, split, &document)) continue;
        form_step(&layers, plan, NULL, i, &bytes);
        CHECK_MESSAGE((double)bytes == document, "%llu bytes in a step, %g by the document's formula",
                      (unsigned long long)bytes, document);
        counts.documents++;
    }
    counts.forms += i > 0;
}

static void check_bytes(const row *r, const diti_split_plan *plan, const observed *out, uint32_t steps) {
    uint32_t i, to;
    for (i = 0; i < LINKS; i++)
        for (to = 0; to < LINKS; to++)
            if (out->planned[i][to] != out->sent[i][to])
                CHECK_MESSAGE(false, "%llu bytes were planned from %u to %u, %llu sent",
                              (unsigned long long)out->planned[i][to], i, to, (unsigned long long)out->sent[i][to]);
    CHECK_MESSAGE(total(out->planned) > 0 && out->devices == (out->folded ? 2 : 1) * diti_split_ranks(&plan->split),
                  "%u shares", out->devices);
    if (!out->folded && !drawn && has_forms()) check_forms(r, plan, out, steps); /* those: split_pipe.c */
}

/* ---- pipefusion: against doubles ---- */

static bool has_emulation(const row *r) {
    const generated_model *m = find_shape(r->model);
    return m && r->images == 1 && (diti_equal(m->family, "pixart") || diti_equal(m->family, "sd3")) && !m->dual &&
           !m->normed;
}

/* The latent behind so many steps of a split; freed with free. */
static double *emulate(const row *r, const observed *from, uint32_t steps, uint32_t strips, uint32_t warmup) {
    stale_model model;
    stale_request request_ = DITI_ZERO;
    generated_inputs inputs;
    double *latent;
    generated_texts(&inputs, at.model, GENERATED_TOKENS2, true);
    request_.columns = r->columns;
    request_.rows = r->rows;
    request_.steps = steps;
    request_.strips = strips;
    request_.warmup = warmup;
    request_.scale = 3;
    request_.schedule = from->schedule;
    request_.inputs = &inputs;
    request_.start = from->start;
    stale_load(&model, find_shape(r->model));
    latent = stale_picture(&model, &request_);
    stale_free(&model);
    generated_free_inputs(&inputs);
    return latent;
}

/* Relative to how far `to` is from another latent, or from nothing. */
static double distance(const observed *a, const double *to, const float *start, const double *before) {
    double error = 0, norm = 0, from;
    size_t i;
    for (i = 0; i < a->made.count; i++) {
        from = before ? before[i] : start ? (double)start[i] : 0;
        error += (a->made.latent[i] - to[i]) * (a->made.latent[i] - to[i]);
        norm += (to[i] - from) * (to[i] - from);
    }
    return norm > 0 ? sqrt(error / norm) : INFINITY;
}

/* The emulation itself: without strips it is what one device makes; with them it is something else. */
static void check_emulation(const char *model) {
    row r = DITI_ZERO;
    double *exact, *stale, calls, latents, apart;
    r.model = model;
    r.split = "cfg1";
    r.devices = "1";
    r.columns = r.rows = 8;
    r.images = 1;
    if (!open_context(&r) || !open_model(&r) || !find_reference(&r)) return;
    exact = emulate(&r, &reference.alone[0], 1, 1, 0);
    calls = distance(&reference.alone[0], exact, reference.alone[0].start, NULL);
    free(exact);
    exact = emulate(&r, &reference.alone[1], some_steps, 1, 0);
    stale = emulate(&r, &reference.alone[1], some_steps, 2, 1);
    latents = distance(&reference.alone[1], exact, NULL, NULL);
    apart = distance(&reference.alone[1], stale, NULL, NULL);
    printf("%s in doubles: call %.2g, latent %.2g; with two patches %.2g from that\n", model, calls, latents, apart);
    CHECK_MESSAGE(calls <= CALL_TOLERANCE && latents <= LATENT_TOLERANCE, "%s: %g, %g", model, calls, latents);
    CHECK_MESSAGE(apart > 10 * latents, "%s: patches make no difference", model);
    free(exact);
    free(stale);
}

/* Computes the latent of PipeFusion's strips on one device: in doubles where there is an emulation, else in the
   library's own graphs. */
static double *strips_alone(const row *r, const observed *from, uint32_t steps, const diti_split_plan *plan) {
    char split[64];
    static observed one;
    double *out = NULL;
    size_t i;
    if (has_emulation(r)) return emulate(r, from, steps, plan->strips, plan->warmup);
    snprintf(split, sizeof split, "pipefusion1:m%uw%u", (unsigned)plan->strips, (unsigned)plan->warmup);
    if (!CHECK_MESSAGE(run(r, split, steps, &one) == DIT_OK, "%s: %s", split, err.message)) return NULL;
    out = stale_new(one.made.count);
    for (i = 0; i < one.made.count; i++) out[i] = one.made.latent[i];
    return out;
}

/* Behind the warm-up by one step, relative to how far that went (on one device: from the start); and after all steps.
 */
static void check_stale(const row *r, const char *name, const diti_split_plan *plan, const observed *all) {
    double *alone = strips_alone(r, all, some_steps, plan), *before = NULL, call = INFINITY, latent;
    static observed one;
    if (!alone) return;
    latent = distance(all, alone, NULL, NULL);
    free(alone);
    if (CHECK_MESSAGE(run(r, r->split, plan->warmup + 1, &one) == DIT_OK, "%s: %s", name, err.message)) {
        alone = strips_alone(r, &one, plan->warmup + 1, plan);
        if (has_emulation(r)) before = emulate(r, &one, plan->warmup, 1, 1);
        if (alone) call = distance(&one, alone, one.start, before);
        free(alone);
        free(before);
    }
    printf("    from the same patches %s: call %.2g, latent %.2g\n", has_emulation(r) ? "in doubles" : "on one device",
           call, latent);
    CHECK_MESSAGE(call <= CALL_TOLERANCE, "%s: the first patches differ by %g from their emulation", name, call);
    CHECK_MESSAGE(latent <= LATENT_TOLERANCE, "%s: the latent differs by %g from its emulation", name, latent);
}

/* ---- a row ---- */

static void name_row(const row *r, char *out, size_t size) {
    snprintf(out, size, "%s, %u x %u tokens%s: %s on %s%s%s", r->model, r->columns, r->rows,
             r->images > 1 ? ", two pictures" : "", r->split, r->devices, r->overrides ? ", " : "",
             r->overrides ? r->overrides : "");
}

/* Names what the model has too little of for a split; NULL: the split is possible. */
static const char *find_limit(const row *r) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    const uint32_t *degree;
    diti_split_plan plan;
    if (diti_split_take(&at.model->env, r->split, &plan, &err) != DIT_OK) return NULL;
    degree = plan.split.degree;
    if (degree[DITI_SPLIT_TENSOR] / (plan.split.inputs ? plan.split.inputs : 1) *
            (traits->divided ? 1 : degree[DITI_SPLIT_ULYSSES]) >
        traits->heads)
        return "heads";
    return degree[DITI_SPLIT_LAYERS] * degree[DITI_SPLIT_PIPEFUSION] > traits->layers ? "layers" : NULL;
}

static void check_refused(const row *r, const char *name, const char *words) {
    dit_job *job = NULL;
    dit_result result = make_row(r, 1, r->split, &job);
    dit_job_destroy(job);
    CHECK_MESSAGE(result < 0 && strstr(err.message, words) && !strchr(err.message, '\n'), "%s: '%s' does not say %s",
                  name, result < 0 ? err.message : "it was made", words);
    counts.refused++;
    printf("%s: refused, %s\n", name, err.message);
}

/* Every sum is that of one device, and so are the bytes. Keys of a joint attention come device by device from Ulysses,
   text and image of each, so that sums over them have another order. */
static bool keeps_sums(const row *r, const diti_split *split) {
    bool moved = at.model->transformer->traits.joint && split->degree[DITI_SPLIT_ULYSSES] > 1;
    return r->kind == EXACT && !moved && !strchr(r->devices, '+') && split->degree[DITI_SPLIT_RING] == 1 &&
           split->degree[DITI_SPLIT_TENSOR] == 1;
}

static void check_run(const row *r, const char *name) {
    uint64_t begin = diti_clock_us();
    double call, latent, picture, lossy = drawn ? LOSSY_DRAWN : LOSSY_TOLERANCE;
    diti_split_plan plan;
    static observed one, some;
    dit_result result;
    if (!CHECK_MESSAGE(diti_split_take(&at.model->env, r->split, &plan, &err) == DIT_OK, "%s", err.message)) return;
    result = run(r, r->split, 1, &one);
    if (!CHECK_MESSAGE(result == DIT_OK, "%s: %s", name, err.message) || !find_reference(r)) return;
    call = call_difference(&one, &reference.alone[0]);
    check_bytes(r, &plan, &one, 1);
    if (CHECK_MESSAGE(run(r, r->split, some_steps, &some) == DIT_OK, "%s: %s", name, err.message)) {
        latent = difference(&some.made, &reference.alone[1].made);
        check_bytes(r, &plan, &some, some_steps);
        counts.run++;
        picture = picture_difference(&some.made, &reference.alone[1].made);
        printf("%s: call %.2g, latent %.2g, picture %.2g, %llu bytes as planned, %.1f s\n", name, call, latent, picture,
               (unsigned long long)total(some.sent), (double)(diti_clock_us() - begin) / 1e6);
        CHECK_MESSAGE(call <= (r->kind == LOSSY ? lossy : CALL_TOLERANCE), "%s: one call differs by %g", name, call);
        if (keeps_sums(r, &plan.split))
            CHECK_MESSAGE(!(call + latent + picture > 0), "%s: not the bytes of one device", name);
        if (r->kind == LOSSY)
            CHECK_MESSAGE(call > 10 * CALL_TOLERANCE, "%s: nothing was lost, so nothing was sent as int8", name);
        else if (r->kind == EXACT)
            CHECK_MESSAGE(latent <= LATENT_TOLERANCE && picture <= LATENT_TOLERANCE,
                          "%s: the latent differs by %g, the picture by %g", name, latent, picture);
        else
            check_stale(r, name, &plan, &some);
    }
}

static void check_row(const row *r, const char *name) {
    const char *refused;
    dit_result result;
    if (is_absent(r->model) || (strchr(r->devices, '+') && driver_count < 2)) {
        counts.absent++;
        return;
    }
    if (!open_context(r)) {
        result = err.result;
        if (CHECK_MESSAGE(result == DIT_ERROR_TRANSPORT && r->overrides, "%s: %s", name, err.message))
            printf("%s: no such transport here\n", name);
        counts.absent++;
        return;
    }
    if (!open_model(r)) return;
    refused = r->refused ? r->refused : find_limit(r);
    if (refused)
        check_refused(r, name, refused);
    else
        check_run(r, name);
    fflush(stdout);
}

/* ---- drawn rows ---- */

/* Some of cfg, stages, ring, ulysses and tensor, for 2 to 8 devices; returns how many. */
static uint32_t draw_axes(char *out, size_t size, bool *staged) {
    static const char *const names[] = {"cfg", "pipefusion", "layers", "ring", "ulysses", "tensor"};
    uint32_t product, degree, i;
    for (product = 1; product < 2;) {
        out[0] = 0;
        *staged = false;
        for (i = 0, product = 1; i < DITI_COUNT(names); i++) {
            degree = draw(3) ? 1 : 2 + draw(3);
            if (i == 0 && degree > 2) degree = 2;
            if (degree == 1 || product * degree > 8 || (i == 2 && *staged)) continue;
            product *= degree;
            if (i == 1) *staged = true;
            snprintf(out + strlen(out), size - strlen(out), "%s%s%u", out[0] ? "," : "", names[i], degree);
            if (i == 5 && degree == 4 && draw(2)) out[strlen(out) - 1] = 0, strcat(out, "2x2");
        }
    }
    return product;
}

/* Shares of the devices, those of each branch of guidance of sum 1, from alike to very unlike. */
static void draw_shares(char *out, size_t size, uint32_t count, uint32_t branches) {
    uint32_t i, each = count / branches, sum = 0, of[8], power = draw(4), k;
    for (i = 0; i < each; i++) {
        for (k = 0, of[i] = 1; k < power; k++) of[i] *= 1 + draw(6);
        sum += of[i];
    }
    for (i = 0; i < count; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%.6f", i ? ", " : "", (double)of[i % each] / sum);
}

static void draw_row(row *r, char *split, size_t size) {
    char axes[80], shares[120] = "";
    bool staged, named = draw(2) == 0;
    uint32_t count = draw_axes(axes, sizeof axes, &staged), patches = staged ? 1 + draw(8) : 1, warmup = draw(4) % 3;
    bool int8 = !staged && !draw(4), shard = !draw(6);
    if (named) {
        char *at = strstr(axes, "pipefusion"), rest[80];
        if (at) { /* its options follow its degree */
            at += strlen("pipefusion") + 1;
            snprintf(rest, sizeof rest, "%s", at);
            snprintf(at, sizeof axes - (size_t)(at - axes), ":m%uw%u%s", patches, warmup, rest);
        }
        snprintf(split, size, "%s%s%s", axes, shard ? ",shard" : "", int8 ? ",int8" : "");
    } else {
        draw_shares(shares, sizeof shares, count, strstr(axes, "cfg2") ? 2 : 1);
        snprintf(split, size,
                 "{\"format\": \"dit-split-plan\", \"version\": 1, \"split\": \"%s\", \"patches\": %u, \"warmup\": %u, "
                 "\"payload\": \"%s\", \"shard\": %s, \"shares\": [%s]}",
                 axes, patches, warmup, int8 ? "i8" : "f16", shard ? "true" : "false", shares);
    }
    r->split = split;
    r->columns = 1 + draw(12);
    r->rows = 1 + draw(12);
    r->images = 1 + (draw(4) == 0);
    if (!strstr(axes, "layers") && !strstr(axes, "ring") && !strstr(axes, "ulysses")) int8 = false; /* sums stay F32 */
    r->kind = staged ? STALE : int8 ? LOSSY : EXACT;
}

/* Draws until something is not refused. */
static void check_drawn_row(const char *model, const char *overrides) {
    static char split[400];
    char name[500];
    uint32_t tries;
    for (tries = 0; tries < 20; tries++) {
        row r = DITI_ZERO;
        dit_job *job = NULL;
        dit_result result;
        bool fits;
        r.model = model;
        r.overrides = overrides;
        r.devices = "8";
        draw_row(&r, split, sizeof split);
        name_row(&r, name, sizeof name);
        if (!open_context(&r) || !open_model(&r)) {
            CHECK_MESSAGE(false, "%s: %s", name, err.message);
            return;
        }
        result = make_row(&r, 1, r.split, &job);
        fits = result == DIT_OK && fits_outcome(job);
        dit_job_destroy(job);
        if (result == DIT_OK && !fits) continue;
        if (result != DIT_ERROR_INVALID_ARGUMENT) {
            check_run(&r, name);
            return;
        }
        CHECK_MESSAGE(err.message[0] && !strchr(err.message, '\n'), "%s: '%s'", name, err.message);
        counts.refused++;
    }
}

static void check_drawn(uint64_t seed, uint32_t count) {
    const char *model = NULL, *overrides = NULL;
    uint32_t i;
    drawn = seed + 1;
    for (i = 0; i < count; i++) {
        if (i % 8 == 0) {
            model = draw_model();
            overrides = draw(3) ? NULL : "transport=staged,chunk=4K";
        }
        check_drawn_row(model, overrides);
        fflush(stdout);
    }
    close_maker(&at);
    memset(&reference, 0, sizeof reference);
    drawn = 0;
}

/* ---- which rows have passed, as long as the program is the same ---- */

static char passed_path[64];
static char *passed_rows;

static void read_passed(void) {
    struct stat program, list;
    size_t size;
    snprintf(passed_path, sizeof passed_path, "build/all/split_matrix%s.rows", driver_count > 1 ? ".devices" : "");
    if (stat("/proc/self/exe", &program) || stat(passed_path, &list)) return;
    if (list.st_mtime < program.st_mtime)
        remove(passed_path);
    else
        passed_rows = test_read_file(passed_path, &size);
}

static bool has_passed(const char *name) {
    const char *found = passed_rows;
    size_t length = strlen(name);
    for (; (found = strstr(found, name)); found += length)
        if ((found == passed_rows || found[-1] == '\n') && found[length] == '\n') return true;
    return false;
}

static void note_passed(const char *name) {
    FILE *file = fopen(passed_path, "ab");
    if (!file) return;
    fprintf(file, "%s\n", name);
    fclose(file);
}

/* ---- all ---- */

static void check_rows(const row *rows, size_t count, const char *const *words, int word_count) {
    char name[200];
    size_t i;
    int w, failed;
    for (i = 0; i < count; i++) {
        name_row(&rows[i], name, sizeof name);
        for (w = 0; w < word_count && strstr(name, words[w]); w++) {
        }
        if (w < word_count) continue;
        if (driver_count > 1 && !word_count && !strchr(rows[i].devices, '+')) continue; /* done on one driver */
        if (passed_rows && has_passed(name)) {
            counts.before++;
            test_passed++;
            continue;
        }
        failed = test_failed;
        check_row(&rows[i], name);
        if (full && !word_count && test_failed == failed) note_passed(name);
    }
    close_maker(&at);
    memset(&reference, 0, sizeof reference);
}

static void check_emulations(const char *const *words, int count) {
    static const char *const models[] = {"pixart8", "sd3-8"};
    size_t i;
    for (i = 0; i < DITI_COUNT(models) && driver_count == 1; i++)
        if (!count || (count == 1 && !strcmp(words[0], "emulation"))) check_emulation(models[i]);
    close_maker(&at);
}

int main(int argc, char **argv) {
    const char *words[16];
    int i, count = 0;
    unsigned seed = 1, rows = 0;
    full = whole_sweep() && is_usual_way();
    for (i = 1; i < argc && count < 16; i++) {
        if (sscanf(argv[i], "drawn:%u:%u", &seed, &rows) == 2) continue;
        if (strchr(argv[i], '/'))
            fixture_folder = argv[i];
        else
            words[count++] = argv[i];
    }
    if (full || count || rows) some_steps = 4;
    test_vulkan_begin();
    find_drivers();
    if (!rows) {
        if (full && !count) read_passed();
        check_rows(quick, DITI_COUNT(quick), words, count);
        if (full || count) check_emulations(words, count);
        if (full || count) check_rows(table, DITI_COUNT(table), words, count);
        if (full && !count && driver_count == 1) rows = 64;
    }
    if (rows) check_drawn(seed, rows);
    printf("%u rows ran, %u were refused, %u passed before, %u need what is not here\n", counts.run, counts.refused,
           counts.before, counts.absent);
    printf("closed forms of the bytes held in %u runs, the document's own in %u\n", counts.forms, counts.documents);
    free(passed_rows);
    test_vulkan_end();
    return TEST_END("split_matrix");
}
