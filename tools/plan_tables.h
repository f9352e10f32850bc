/* Everything that dit-plan knows by name: denoisers, devices, machines, systems. Times come from published measurements
   of xDiT and cache-dit in PyTorch (their documentation's performance pages), one table per card; a value that nobody
   measured is marked as assumed. Not part of dit.h. */
#ifndef PLAN_TABLES_H
#define PLAN_TABLES_H
#include "dit.h"
#include <ctype.h>

/* ---- denoisers (docs/models.md names the originals) ---- */

typedef struct known_model {
    const char *name;
    diti_split_shape shape;          /* at the default size */
    uint32_t width, height, frames;  /* pixels, pictures of a clip */
    uint32_t row_pixels, row_frames; /* pixels and frames of one row: the autoencoder's factor times the patch's side;
                                        row_frames 0: 17 frames are five rows', as in Open-Sora 1.2 and MiniMax-H3 */
    uint32_t steps;
    double
        launch; /* seconds in which PyTorch submits a layer on a host of 1; 0: never the limit in what was measured */
} known_model;

/* layers hidden heads feed rows text text_width row_values skips joint gated guided weights, at two bytes each; of
 * clips whose attention is by turns frames, feed-forwards and attentions to the text of a layer. HunyuanDiT's launch:
 * the mean of 7.41 s (8 L40), 6.08 s (8 L20) and 7.13 s (8 A100) for 50 steps of 40 layers, which no further card
 * shortens, as the host submits every layer to its card one by one: how long that takes is the machine's (its host).
 * Layers of Z-Image, Lumina-Image 2 and Boogu-Image count those that refine the noise. An A14B's two experts and
 * Ideogram 4's two transformers have their weights apart, which all are in memory. Sana's attention is linear: its term
 * is counted as if it were not. FLUX's: 4.24 s for 28 steps of 57 layers on four H100, of which torch.compile
 * leaves 1.63 s. */
static const known_model known_models[] = {
    {"dit-xl-2",
     {28, 1152, 16, 4608, 256, 0, 0, 16, 0, false, false, true, 1.35e9, 0, 0, 0, 0},
     256,
     256,
     1,
     16,
     1,
     250,
     0},
    {"pixart-alpha",
     {28, 1152, 16, 4608, 4096, 120, 1152, 16, 0, false, false, true, 1.22e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     20,
     0},
    {"pixart-sigma",
     {28, 1152, 16, 4608, 4096, 300, 1152, 16, 0, false, false, true, 1.22e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     20,
     0},
    {"hunyuandit",
     {40, 1408, 16, 6144, 4096, 333, 1024, 16, 19, false, false, true, 3.0e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     3.44e-3},
    {"sd3-medium",
     {24, 1536, 24, 6144, 4096, 333, 0, 64, 0, true, false, true, 4.06e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     28,
     0},
    {"sd35-large",
     {38, 2432, 38, 9728, 4096, 333, 0, 64, 0, true, false, true, 16.1e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     28,
     0},
    {"flux",
     {57, 3072, 24, 12288, 4096, 512, 0, 64, 0, true, false, false, 23.8e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     28,
     2.66e-3},
    {"flux2-klein-4b",
     {25, 3072, 24, 9216, 4096, 512, 0, 128, 0, true, true, false, 7.75e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     4,
     0},
    {"z-image",
     {32, 3840, 30, 10240, 4096, 128, 0, 64, 0, true, true, false, 12.3e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     9,
     0},
    {"flux2-klein-9b",
     {32, 4096, 32, 12288, 4096, 512, 0, 128, 0, true, true, false, 18.16e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     4,
     0},
    {"flux2-dev",
     {56, 6144, 48, 18432, 4096, 512, 0, 128, 0, true, true, false, 64.4e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     28,
     0},
    {"qwen-image",
     {60, 3072, 24, 12288, 4096, 128, 0, 64, 0, true, false, true, 40.9e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"qwen-image-21",
     {32, 4096, 32, 12288, 4096, 128, 0, 64, 0, true, true, false, 14.2e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"chroma",
     {57, 3072, 24, 12288, 4096, 512, 0, 64, 0, true, false, true, 17.8e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     35,
     0},
    {"longcat-image",
     {30, 3072, 24, 12288, 4096, 512, 0, 64, 0, true, false, true, 12.54e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"ovis-image",
     {33, 3072, 24, 12288, 4096, 256, 0, 64, 0, true, true, true, 14.74e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"flux3-klein",
     {33, 3072, 24, 9216, 4096, 512, 0, 128, 0, true, true, false, 11.1e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     16,
     0},
    {"krea-2",
     {28, 6144, 48, 16384, 4096, 512, 0, 64, 0, true, true, false, 25.6e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     8,
     0},
    {"ernie-image",
     {36, 4096, 32, 12288, 4096, 128, 0, 128, 0, true, true, true, 16.07e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"kandinsky-5",
     {50, 2560, 20, 10240, 4096, 512, 2560, 64, 0, false, false, true, 12.04e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"kandinsky-5-t2v",
     {32, 1792, 28, 7168, 47616, 512, 1792, 64, 0, false, false, true, 4.0e9, 0, 0, 0, 0},
     768,
     512,
     121,
     16,
     4,
     50,
     0},
    {"kandinsky-5-t2v-pro",
     {60, 4096, 32, 16384, 47616, 512, 4096, 64, 0, false, false, true, 38.6e9, 0, 0, 0, 0},
     768,
     512,
     121,
     16,
     4,
     50,
     0},
    {"ideogram-4",
     {34, 4608, 18, 12288, 4096, 128, 0, 128, 0, true, true, true, 18.56e9, 0, 0, 0, 18.56e9},
     1024,
     1024,
     1,
     16,
     1,
     48,
     0},
    {"anima",
     {28, 2048, 16, 8192, 4096, 512, 1024, 64, 0, false, false, true, 3.91e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     30,
     0},
    {"sana-600m",
     {28, 1152, 36, 2880, 1024, 300, 1152, 32, 0, false, true, true, 1.18e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     32,
     1,
     20,
     0},
    {"sana-1600m",
     {20, 2240, 70, 5600, 1024, 300, 2240, 32, 0, false, true, true, 3.21e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     32,
     1,
     20,
     0},
    {"lumina-image-2",
     {28, 2304, 24, 9216, 4096, 256, 0, 64, 0, true, true, true, 5.22e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     30,
     0},
    {"boogu-image",
     {42, 3360, 28, 13568, 4096, 128, 0, 64, 0, true, true, true, 20.59e9, 0, 0, 0, 0},
     1024,
     1024,
     1,
     16,
     1,
     50,
     0},
    {"cogvideox-2b",
     {30, 1920, 30, 7680, 17550, 226, 0, 64, 0, true, false, true, 3.4e9, 0, 0, 0, 0},
     720,
     480,
     49,
     16,
     4,
     50,
     0},
    {"cogvideox-5b",
     {42, 3072, 48, 12288, 17550, 226, 0, 64, 0, true, false, true, 11.1e9, 0, 0, 0, 0},
     720,
     480,
     49,
     16,
     4,
     50,
     0},
    {"stdit",
     {28, 1152, 16, 4608, 16384, 200, 1152, 16, 0, false, false, true, 1.53e9, 16, 1, 1, 0},
     512,
     512,
     16,
     16,
     1,
     100,
     0},
    {"latte-1",
     {28, 1152, 16, 4608, 16384, 120, 1152, 16, 0, false, false, true, 2.12e9, 16, 2, 1, 0},
     512,
     512,
     16,
     16,
     1,
     50,
     0},
    {"latte-t2v",
     {28, 1152, 16, 4608, 17408, 300, 1152, 16, 0, false, false, true, 2.12e9, 17, 2, 1, 0},
     512,
     512,
     65,
     16,
     4,
     50,
     0},
    {"cogvideox15-5b",
     {42, 3072, 48, 12288, 44880, 224, 0, 128, 0, true, false, true, 11.1e9, 0, 0, 0, 0},
     1360,
     768,
     81,
     16,
     8,
     50,
     0},
    {"wan21-1.3b",
     {30, 1536, 12, 8960, 32760, 512, 1536, 64, 0, false, false, true, 2.84e9, 0, 0, 0, 0},
     832,
     480,
     81,
     16,
     4,
     50,
     0},
    {"wan21-14b",
     {40, 5120, 40, 13824, 32760, 512, 5120, 64, 0, false, false, true, 28.6e9, 0, 0, 0, 0},
     832,
     480,
     81,
     16,
     4,
     50,
     0},
    {"wan22-ti2v-5b",
     {30, 3072, 24, 14336, 27280, 512, 3072, 192, 0, false, false, true, 10e9, 0, 0, 0, 0},
     1280,
     704,
     121,
     32,
     4,
     50,
     0},
    {"wan22-a14b",
     {40, 5120, 40, 13824, 75600, 512, 5120, 64, 0, false, false, true, 28.6e9, 0, 0, 0, 28.6e9},
     1280,
     720,
     81,
     16,
     4,
     40,
     0},
    {"ltx-2b",
     {28, 2048, 32, 8192, 7392, 128, 2048, 128, 0, false, false, true, 3.85e9, 0, 0, 0, 0},
     704,
     512,
     161,
     32,
     8,
     50,
     0},
    {"ltx-13b",
     {48, 4096, 32, 16384, 7392, 128, 4096, 128, 0, false, false, true, 26.1e9, 0, 0, 0, 0},
     704,
     512,
     161,
     32,
     8,
     50,
     0},
    {"hunyuanvideo",
     {60, 3072, 24, 12288, 118800, 256, 0, 64, 0, true, false, false, 25.6e9, 0, 0, 0, 0},
     1280,
     720,
     129,
     16,
     4,
     50,
     0},
    {"hunyuanvideo15",
     {54, 2048, 16, 8192, 49290, 256, 0, 32, 0, true, false, true, 16.65e9, 0, 0, 0, 0},
     848,
     480,
     121,
     16,
     4,
     50,
     0},
    {"minimax-h3", /* attention has 7168 columns, and is counted as if it had 5376 */
     {50, 5376, 56, 14336, 38304, 512, 0, 96, 0, true, true, false, 66.2e9, 0, 0, 0, 0},
     1344,
     768,
     124,
     32,
     0,
     49,
     0},
    {"open-sora-1.2",
     {28, 1152, 16, 4608, 54000, 300, 1152, 16, 0, false, false, true, 2.42e9, 15, 2, 2, 0},
     1280,
     720,
     51,
     16,
     0,
     30,
     0},
};

/* ---- machines: what arrives per device and second, in 1e9 bytes ---- */

typedef struct known_machine {
    const char *name;
    diti_split_rates inside, across;
    uint32_t per_socket;
    double uplink, latency_us;
    double host;         /* time that its processor needs to submit a layer, against that of the model's launch */
    const char *assumed; /* which of these nobody measured; "": none */
} known_machine;

/* The measured ones solve a published time for the bandwidth: 4 T4 from HunyuanDiT cfg2,ulysses2 15.46 s and PixArt
 * ulysses4 6.04 s; L40 from CogVideoX ulysses2, ulysses3 and ring3, two sockets from FLUX ulysses4 16.8 s; L20 from
 * FLUX ulysses2 13.80 s, ulysses4 8.28 s and ring4 9.16 s; V100 from HunyuanDiT cfg2,ulysses2 17.01 s, its all to all
 * in L20's ratio to pairs; A100 from HunyuanDiT ulysses2 12.45 s at 1024 pixels, its ring from ring4 35.5 s at 2048;
 * H100's latency from compiled FLUX ulysses2 2.68 s. An exchange on A100 costs more with its bytes, whatever
 * NVLink could do: 69 ms of a step at 1024 pixels are 290 at 2048, with four times the rows and as many exchanges.
 * Twelve L40 are six of each of two machines with eight (xDiT's page on FLUX tells of both), one branch of guidance in
 * each; what connects them is not told: 10 Gbit/s is assumed. pcie3 and pcie4: host-staged copies at half the link's
 * rate. Hosts: 7.41, 6.08 and 7.13 s of eager HunyuanDiT on 8 L40, L20 and A100 over their mean; that of L40 also gives
 * the 7.45 s of 4 L40, which are no fit. */
static const known_machine known_machines[] = {
    {"t4-pcie3", {7.9, 7.9, 6.2}, {0, 0, 0}, 0, 0, 40, 1, "ring"},
    {"l40-pcie4", {20, 26, 14}, {0, 0, 0}, 0, 0, 40, 1.0779, ""},
    {"l40-two-sockets", {20, 26, 14}, {20, 26, 2.8}, 2, 26, 40, 1.0779, "across, uplink"},
    {"l40-two-machines", {20, 26, 14}, {1.2, 1.2, 1.2}, 6, 1.2, 40, 1.0779, "across, uplink"},
    {"l20-pcie4", {22, 25, 14.5}, {0, 0, 0}, 0, 0, 40, 0.8844, ""},
    {"v100-nvlink", {11.1, 11.1, 7.3}, {0, 0, 0}, 0, 0, 40, 1, "ring, all to all"},
    {"a100-nvlink", {13.9, 22, 13.9}, {0, 0, 0}, 0, 0, 40, 1.0372, ""},
    {"h100-nvlink", {300, 300, 300}, {0, 0, 0}, 0, 0, 120, 1, "pair, ring, all to all"},
    {"pcie4", {12, 12, 8}, {0, 0, 0}, 0, 0, 40, 1, "all"},
    {"pcie3", {6, 6, 4}, {0, 0, 0}, 0, 0, 40, 1, "all"},
    {"slow-host", {2, 2, 2}, {0, 0, 0}, 0, 0, 40, 1, "all"},
};

/* ---- devices ---- */

typedef struct known_device {
    const char *name;
    double peak, rate;     /* 1e12 operations per second: of fp16 products with fp32 sums; what a denoiser attains */
    double stream, memory; /* 1e9 bytes per second, 1e9 bytes */
    const char *machine;
    bool assumed; /* rate: a share of the peak as cards of its kind attain it */
} known_device;

/* rate: operations over seconds on one card; PixArt on T4 (19.0 s for 20 steps), HunyuanDiT on V100 (45.83 s for 50, of
 * which 4.63 s are not the denoiser), FLUX on the others (18.36, 23.56, 12.77, 6.71 s for 28). */
static const known_device known_devices[] = {
    {"T4", 65, 13.7, 320, 16, "t4-pcie3", false},       {"V100", 125, 34.8, 900, 32, "v100-nvlink", false},
    {"A100", 312, 163, 2039, 80, "a100-nvlink", false}, {"L20", 119.5, 88, 864, 48, "l20-pcie4", false},
    {"L40", 181, 113, 864, 48, "l40-pcie4", false},     {"H100", 989, 310, 3350, 80, "h100-nvlink", false},
    {"H200", 989, 310, 4800, 141, "h100-nvlink", true}, {"RTX3090", 71, 40, 936, 24, "pcie4", true},
    {"RTX4090", 165, 95, 1008, 24, "pcie4", true},      {"7900XTX", 123, 45, 960, 24, "pcie4", true},
    {"ArcA770", 138, 35, 560, 16, "pcie4", true},       {"ArcB580", 117, 40, 456, 12, "pcie4", true},
};

/* ---- systems ---- */

static diti_split_system system_dit(void) {
    diti_split_system system;
    diti_split_usual_system(&system);
    return system;
}

/* xDiT as measured, in PyTorch without torch.compile. overlap and merge (passes that read and write fp32: 38 bytes) fit
 * the rings of FLUX on L20 and CogVideoX on L40; strip_rows FLUX pipefusion4 on L40. */
static diti_split_system system_xdit(const known_model *model) {
    diti_split_system system = system_dit();
    system.overlap = 0.1;
    system.merge = 38;
    system.text_per_strip = true;
    system.text_whole = true;
    system.skips_wait = true;
    system.heads_flow = false;
    system.launch = model->launch;
    return system;
}

/* Whether two names differ in nothing but capitals. */
static bool same_letters(const char *a, const char *b) {
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) a++, b++;
    return !*a && !*b;
}

#define FIND(kind)                                                                                                     \
    static const known_##kind *find_##kind(const char *name) {                                                         \
        for (size_t i = 0; i < sizeof known_##kind##s / sizeof *known_##kind##s; i++)                                  \
            if (same_letters(known_##kind##s[i].name, name)) return &known_##kind##s[i];                               \
        return NULL;                                                                                                   \
    }
FIND(model)
FIND(machine)
FIND(device)
#undef FIND

static diti_split_rates in_bytes(diti_split_rates rates) {
    rates.pair *= 1e9, rates.ring *= 1e9, rates.all_to_all *= 1e9;
    return rates;
}

static void use_machine(diti_split_request *q, const known_machine *machine) {
    diti_split_box *box = &q->box;
    q->system.launch *= machine->host;
    box->inside = in_bytes(machine->inside);
    box->across = in_bytes(machine->per_socket ? machine->across : machine->inside);
    box->per_socket = machine->per_socket;
    box->uplink = machine->uplink * 1e9;
    box->latency = machine->latency_us * 1e-6;
}

/* Frames of rows; the first stands alone where an autoencoder joins several. */
static uint32_t model_times(const known_model *model, uint32_t frames) {
    if (!model->row_frames) return frames / 17 * 5 + (frames % 17 + 3) / 4;
    return (frames - 1 + model->row_frames - 1) / model->row_frames + 1;
}

/* Methods that a family allows, as diti_split_request.methods: some need all rows of a picture on each device. A14B and
   Ideogram 4 have two transformers, of which PipeFusion would keep one's keys and values; guidance of others looks at
   whole pictures, and Qwen-Image-2.1 keeps the text's keys, too. */
static uint32_t model_methods(const known_model *model) {
    static const char *const unpiped[] = {"wan22-a14b", "ideogram-4", "longcat-image", "qwen-image", "qwen-image-21"};
    const uint32_t pipefusion = 1u << DITI_SPLIT_PIPEFUSION, all = ((1u << DITI_SPLIT_AXES) - 1) | DITI_SPLIT_SHARDS,
                   rows = 1u << DITI_SPLIT_ULYSSES | 1u << DITI_SPLIT_RING | pipefusion;
    if (diti_starts_with(model->name, "sana") || diti_equal(model->name, "lumina-image-2") ||
        diti_equal(model->name, "boogu-image") || diti_equal(model->name, "minimax-h3"))
        return all & ~rows;
    for (size_t i = 0; i < sizeof unpiped / sizeof unpiped[0]; i++)
        if (diti_equal(model->name, unpiped[i])) return all & ~pipefusion;
    return all;
}

/* Takes a size of picture or clip. */
static void set_size(diti_split_shape *shape, const known_model *model, uint32_t width, uint32_t height,
                     uint32_t frames) {
    uint32_t plane = (width / model->row_pixels) * (height / model->row_pixels), sound = 0;
    if (diti_equal(model->name, "minimax-h3")) sound = 2 * (uint32_t)(frames / 24.0 * 40 + 0.5);
    shape->rows = plane * (model_times(model, frames) + (sound + plane - 1) / plane);
    if (shape->frames) shape->frames = model_times(model, frames);
}

/* One card needs `seconds` for all steps but the serial part: what it attains. */
static double rate_of(const diti_split_request *q, double seconds) {
    return diti_split_flops(&q->shape) * (q->shape.guided ? 2 : 1) * q->system.steps / (seconds - q->system.serial);
}
#endif
