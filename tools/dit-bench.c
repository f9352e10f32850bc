/* dit-bench: how fast dit.h is on a device. One JSON line per case on stdout, messages on stderr. See usage_cases.

   The way of a case: it appends its ops to a graph (case_gemm, case_attention), the graph becomes a plan as it does in
   a job, and the plan's segment runs several times (measure). Times are the device's own, the sum over the segment's
   command buffers, where its queue has timestamps; else the clock's. A time never fails anything. */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "bench_core.h"
#include "bench_report.h"
#include "bench_shapes.h"
#ifndef _WIN32
#include <unistd.h>
#endif

static const char usage_cases[] =
    "usage: dit-bench CASE [options]      one JSON line per case; times are medians\n"
    "\n"
    "gemm, gemv     x [m, k] times weights [n, k]: --m 1024 (gemv: 1) --n 1024 --k 1024 --type f32[,q8_0...]\n"
    "               --sweep: of 1, 2, 4, ... rows up to --m; a last line says from how many on f16 is as fast\n"
    "attention      --tokens 1024 --heads 8 --head-dim 64 [--keys TOKENS] [--batch 1]\n"
    "               --strided: items of the batch lie between each other, as frames of a position do\n"
    "conv           --size 64 (height and width) --in 128 --out 128 --kernel 3 (or 1)\n"
    "norm, copy     m rows of k numbers: --m 1024 --k 1024\n"
    "expand         packed weights [n, k] to the format that kernels compute with: --type q8_0\n"
    "vae            the decoder of an AutoencoderKL: --size 64 (of the latent)\n"
    "encoder        a text encoder: --shape t5-xxl, clip-l or clip-g\n"
    "model --shape  one evaluation of a known transformer, random weights: dit-xl-2 pixart-sigma-1024 sd3-medium sd35-large\n"
    "               flux flux-tiny hunyuandit stdit stdit3 latte latte-t2v cogvideox-2b cogvideox-5b cogvideox15-5b ltx-2b\n"
    "               ltx-13b ltx2-19b hunyuanvideo hunyuanvideo15 minimax-h3 wan-1.3b wan-ti2v-5b wan-14b.\n"
    "               --layers N runs N and extrapolates; --no-fusion: epilogues as passes of their own; --no-replay: commands recorded anew each run\n"
    "block --shape  one layer of each kind. --lora N, for model and block: a LoRA of rank N beside every layer\n"
    "               clips, of both: --frames F --tokens N of a frame; --full: stdit's tokens of all frames attend each other\n"
    "model          a picture, from the start of this process to its pixels: [--model PATH] [--prompt TEXT] [--steps N]\n"
    "               [--width W --height H] [--cfg-scale S]. Mesa keeps compiled kernels in MESA_SHADER_CACHE_DIR,\n"
    "               other drivers in the file of --cache. --runs N: N more in the same process.\n"
    "               --split S: on the devices of --device, as dit understands both. hash is of the pixels\n"
    "frames         a picture in frames, as an engine has it made by dit_job_record: [--model PATH] [--width W --height H]\n"
    "               [--steps N] [--budget-us N] (2000). What the frames took from the second step on, the decoder included:\n"
    "               half of them no longer than p50_ms, 99 in 100 no longer than p99_ms; dit_job_record on the host, and\n"
    "               from the start to the end of the first frame. --runs N: N pictures of one job.\n"
    "               --by-cpu: processor times, for a busy machine\n"
    "ceilings       what the device can do at best: copies (by the driver or a kernel, bytes read and written), and sums of\n"
    "               products in registers, by kind\n"
    "all            a bit of everything, sized for the device\n"
    "report         one Markdown page about a device: rungs that pass their self-tests, pictures, speeds.\n"
    "               -o FILE: else to stdout; --seconds N: begins nothing new then (300); --parts P: only these of\n"
    "               device,rungs,pictures,steps,kernels\n"
    "\n";
static const char usage_options[] =
    "--type T       of the weights, or several with commas: f32 f16 bf16 f8_e4m3 f8_e5m2 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k\n"
    "               q4_k q5_k q6_k mxfp4 nvfp4 i4_group, i8r i8r+rot i4r+rot (with int8 activations, quantized while running).\n"
    "               Else f32, for expand and shapes q8_0\n"
    "--device D     an index, a part of a name or a UUID, as dit understands it; else the best one\n"
    "--rung R       base fp16 half coop coop2; else the best that works  --form F  kernels for a cpu or a gpu; else as it is\n"
    "--no-ceilings  without the device's ceilings, which take a second or two of a GPU\n"
    "--runs N       timed runs, after some that warm a GPU up (7)   --slice-us N  longest command buffer (50000)\n"
    "--profile      then one more line per op: each dispatch alone between timestamps   --help, --version  show this\n"
    "--report FILE  writes the lines as a Markdown table, too\n"
    "--cache FILE   read at the start and written at the end: what self-tests found, and kernels of drivers that keep none\n"
    "\n"
    "gflops comes from seconds: the device's time where it has timestamps, else the clock's (wall_seconds). cold_seconds: of\n"
    "the first run. cpu_seconds: this process's; on a busy machine compare gflops_per_core.\n"
    "fraction is the share of what the device can do at best, measured first: bytes copied (bound: copy), or products in\n"
    "registers, of the kind that the kernels in use are made of.\n" EXIT_CODES_HELP;

/* ---- options ---- */

typedef struct option {
    const char *name;
    size_t offset;
    uint32_t most; /* 0: a text */
} option;

static const option option_table[] = {
    {"--device", offsetof(options, device), 0},
    {"--rung", offsetof(options, rung), 0},
    {"--form", offsetof(options, form), 0},
    {"--type", offsetof(options, types), 0},
    {"--model", offsetof(options, model), 0},
    {"--prompt", offsetof(options, prompt), 0},
    {"--shape", offsetof(options, shape), 0},
    {"--report", offsetof(options, report), 0},
    {"--cache", offsetof(options, cache), 0},
    {"--split", offsetof(options, split), 0},
    {"--parts", offsetof(options, parts), 0},
    {"-o", offsetof(options, page), 0},
    {"--m", offsetof(options, m), 1u << 24},
    {"--n", offsetof(options, n), 1u << 20},
    {"--k", offsetof(options, k), 1u << 20},
    {"--tokens", offsetof(options, tokens), 1u << 22},
    {"--keys", offsetof(options, keys), 1u << 22},
    {"--heads", offsetof(options, heads), 1024},
    {"--head-dim", offsetof(options, head_dim), 512},
    {"--batch", offsetof(options, batch), 65536},
    {"--size", offsetof(options, size), 8192},
    {"--in", offsetof(options, in), 65536},
    {"--out", offsetof(options, out), 65536},
    {"--kernel", offsetof(options, kernel), 3},
    {"--layers", offsetof(options, layers), 1000},
    {"--frames", offsetof(options, frames), 4096},
    {"--lora", offsetof(options, lora), 1024},
    {"--steps", offsetof(options, steps), 1000},
    {"--width", offsetof(options, width), 16384},
    {"--height", offsetof(options, height), 16384},
    {"--cfg-scale", offsetof(options, cfg_scale), 100},
    {"--runs", offsetof(options, runs), MOST_RUNS},
    {"--slice-us", offsetof(options, slice_us), 600000000},
    {"--budget-us", offsetof(options, budget_us), 600000000},
    {"--seconds", offsetof(options, seconds), 86400},
};

static int take_number(const option *known, const char *text, uint32_t *out) {
    char *end;
    unsigned long long value;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > known->most)
        return complain(EXIT_USAGE, "%s %s: give a whole number from 1 to %u", known->name, text, known->most);
    *out = (uint32_t)value;
    return EXIT_GOOD;
}

static int take_option(options *o, const char *name, const char *value) {
    size_t i;
    for (i = 0; i < DITI_COUNT(option_table); i++) {
        const option *known = &option_table[i];
        if (strcmp(known->name, name) != 0) continue;
        if (!value) return complain(EXIT_USAGE, "%s: a value is missing after it", name);
        if (known->most) return take_number(known, value, (uint32_t *)(void *)((char *)o + known->offset));
        *(const char **)(void *)((char *)o + known->offset) = value;
        return EXIT_GOOD;
    }
    return complain(EXIT_USAGE, "%s: there is no such option; dit-bench --help lists them", name);
}

static void default_number(uint32_t *value, uint32_t otherwise) {
    if (!*value) *value = otherwise;
}

static bool take_flag(options *o, const char *name) {
    if (strcmp(name, "--profile") == 0) return o->profile = true;
    if (strcmp(name, "--no-fusion") == 0) return o->no_fusion = true;
    if (strcmp(name, "--no-replay") == 0) return o->no_replay = true;
    if (strcmp(name, "--no-ceilings") == 0) return o->no_ceilings = true;
    if (strcmp(name, "--strided") == 0) return o->strided = true;
    if (strcmp(name, "--sweep") == 0) return o->sweep = true;
    if (strcmp(name, "--full") == 0) return o->full = true;
    if (strcmp(name, "--by-cpu") == 0) return o->by_cpu = true;
    return false;
}

/* Sets the options of a case that the command line leaves open. */
static void default_options(options *o) {
    bool packed = o->shape || strcmp(o->op, "expand") == 0 || strcmp(o->op, "encoder") == 0;
    if (strcmp(o->op, "frames") != 0 && (strcmp(o->op, "model") != 0 || o->shape)) default_number(&o->runs, 7);
    default_number(&o->m, strcmp(o->op, "gemv") == 0 ? 1 : 1024);
    default_number(&o->n, 1024);
    default_number(&o->k, 1024);
    if (strcmp(o->op, "attention") == 0) default_number(&o->tokens, 1024);
    default_number(&o->keys, o->tokens);
    default_number(&o->heads, 8);
    default_number(&o->head_dim, 64);
    default_number(&o->batch, 1);
    default_number(&o->size, 64);
    default_number(&o->in, 128);
    default_number(&o->out, 128);
    default_number(&o->kernel, 3);
    if (!o->types) o->types = packed ? "q8_0" : "f32";
}

static int take_options(options *o, int count, char **texts) {
    int i, code;
    o->op = texts[1];
    if (o->op[0] == '-')
        return complain(EXIT_USAGE,
                        "%s: the case stands before its options, as in dit-bench gemm %s; dit-bench --help "
                        "lists them",
                        o->op, o->op);
    for (i = 2; i < count; i++) {
        char name[64];
        const char *value = attached_value(texts[i], name, sizeof name);
        if (take_flag(o, texts[i])) continue;
        if (!value && i + 1 < count) value = texts[++i];
        code = take_option(o, name, value);
        if (code) return code;
    }
    return EXIT_GOOD;
}

/* ---- cases of one op ---- */

static int case_gemm(bench *b) {
    const options *o = &b->o;
    diti_linear_desc desc = DITI_ZERO;
    const diti_weight *weight = random_weight(b, o->type, o->n, o->k, 1);
    b->line.m = o->m;
    b->line.n = o->n;
    b->line.k = o->k;
    desc.name = "gemm";
    diti_graph_scope(&b->graph, "block", 0); /* as most products of a model */
    diti_linear(&b->graph, input(b, o->m, o->k, "x"), weight, &desc);
    return finish_case(b);
}

static int case_attention(bench *b) {
    const options *o = &b->o;
    diti_attention_desc desc = DITI_ZERO;
    uint32_t width = o->heads * o->head_dim;
    diti_tensor q, k, v;
    desc.batch = o->batch;
    desc.heads = o->heads;
    desc.head_dim = o->head_dim;
    desc.scale = 1.0f / sqrtf((float)o->head_dim);
    if (o->strided) desc.row_step = o->batch;
    q = input(b, o->batch * o->tokens, width, "q");
    k = input(b, o->batch * o->keys, width, "k");
    v = input(b, o->batch * o->keys, width, "v");
    diti_attention(&b->graph, q, k, v, &desc);
    b->line.m = o->tokens;
    b->line.n = o->keys;
    b->line.k = o->head_dim;
    b->line.type = b->graph.activation == DITI_F16 ? "f16" : "f32";
    diti_format(b->line.title, sizeof b->line.title, "%u × %u, %u heads of %u", o->tokens, o->keys, o->heads,
                o->head_dim);
    add_key(b, "tokens", o->tokens, "%.0f");
    add_key(b, "keys", o->keys, "%.0f");
    add_key(b, "heads", o->heads, "%.0f");
    add_key(b, "head_dim", o->head_dim, "%.0f");
    add_key(b, "batch", o->batch, "%.0f");
    add_bool(b, "strided", o->strided);
    return finish_case(b);
}

static int case_conv(bench *b) {
    const options *o = &b->o;
    diti_conv_desc desc = DITI_ZERO;
    const diti_weight *weight = random_weight(b, o->type, o->out, o->in * o->kernel * o->kernel, o->kernel);
    desc.batch = 1;
    desc.height = desc.width = o->size;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = o->kernel / 2;
    b->line.m = o->size * o->size;
    b->line.n = o->out;
    b->line.k = o->in * o->kernel * o->kernel;
    add_key(b, "size", o->size, "%.0f");
    add_key(b, "kernel", o->kernel, "%.0f");
    diti_conv(&b->graph, input(b, o->size * o->size, o->in, "x"), weight, &desc);
    return finish_case(b);
}

/* LayerNorm with scale and shift, as every block has it: m rows of k columns, F32 in, activations out. */
static int case_norm(bench *b) {
    const options *o = &b->o;
    diti_norm_desc desc = DITI_ZERO;
    diti_tensor table = diti_tensor_input(&b->graph, DITI_F32, 2, o->k, "modulation");
    desc.eps = 1e-6f;
    desc.scale = diti_tensor_view(&b->graph, table, 0, 1, 0, o->k);
    desc.shift = diti_tensor_view(&b->graph, table, 1, 1, 0, o->k);
    b->line.m = o->m;
    b->line.k = o->k;
    b->line.type = "f32";
    diti_norm(&b->graph, diti_tensor_input(&b->graph, DITI_F32, o->m, o->k, "x"), &desc);
    return finish_case(b);
}

/* Packed weights [n, k] to the format that the kernels compute with. */
static int case_expand(bench *b) {
    const options *o = &b->o;
    const diti_weight *weight = random_weight(b, o->type, o->n, o->k, 1);
    uint32_t part, first;
    for (part = 0; part < weight->part_count; part++) {
        uint32_t rows = weight->parts[part].rows, most = diti_op_dequantize_rows(&b->graph, weight, part, false);
        for (first = 0; first < rows; first += most)
            diti_op_dequantize(&b->graph, weight, part, first, rows - first < most ? rows - first : most, false,
                               "expanded");
    }
    if (!b->code && !b->graph.dispatch_count)
        return complain(EXIT_USAGE, "expand: the kernels read %s as it is; give a --type that is packed, such as q8_0",
                        b->line.type);
    b->line.n = o->n;
    b->line.k = o->k;
    return finish_case(b);
}

static int case_ceilings(bench *b) {
    int r;
    for (r = 0; r <= RATES; r++) {
        double peak = r == RATES ? b->peak_bytes : b->peaks[r];
        if (!(peak > 0)) continue;
        fprintf(b->out, "{\"op\": \"ceiling\", \"type\": \"%s\", \"%s\": %.3f, \"device\": ",
                r == RATES ? "copy" : rates[r].name, r == RATES ? "gbytes_per_s" : "gflops", peak * 1e-9);
        print_text(b->out, b->device->info.name);
        fprintf(b->out, "}\n");
    }
    return EXIT_GOOD;
}

/* m rows of k numbers from one tensor to another, by a kernel. */
static int case_copy(bench *b) {
    const options *o = &b->o;
    diti_elementwise_desc desc = DITI_ZERO;
    b->line.m = o->m;
    b->line.k = o->k;
    b->line.type = b->graph.activation == DITI_F16 ? "f16" : "f32";
    desc.name = "copy";
    diti_elementwise(&b->graph, input(b, o->m, o->k, "x"), &desc);
    return finish_case(b);
}

/* ---- a whole picture ---- */

static const char *find_model(const bench *b, char *out, size_t size) {
    if (b->o.model) return b->o.model;
    char *slash;
#ifdef _WIN32
    DWORD length = GetModuleFileNameA(NULL, out, (DWORD)size - 64);
    out[length] = 0;
    slash = strrchr(out, '\\');
#else
    ssize_t length = readlink("/proc/self/exe", out, size - 64);
    out[length > 0 ? length : 0] = 0;
    slash = strrchr(out, '/');
#endif
    if (slash) {
        FILE *file;
        strcpy(slash, "/../models/emoji-q8_0.gguf");
        file = fopen(out, "rb");
        if (file) return fclose(file), out;
    }
    return "models/emoji-q8_0.gguf";
}

typedef struct picture {
    dit_model *model;
    dit_job *job;
    dit_job_desc desc;
    unsigned char *pixels;
    size_t size;
    double first_step, last_step; /* when a step was first seen finished, and the last one */
    uint32_t seen;                /* steps that were finished then: a fast device finishes several between two looks */
    double memory;
    double load, plan, run; /* seconds */
    times again;            /* times of the same job run once more; zero: it ran once */
    double steps_per_s;
    bool whole; /* that is of whole runs: their steps were too short to be told apart */
} picture;

static void note_memory(bench *b, picture *p) {
    if ((double)b->device->memory_used > p->memory) p->memory = (double)b->device->memory_used;
}

/* Runs the job to its end and reads the pixels. */
static int run_picture(bench *b, picture *p) {
    dit_status status = DITI_ZERO;
    dit_result result;
    p->first_step = p->last_step = 0;
    do {
        result = dit_job_wait(p->job, 20000000);
        dit_job_status(p->job, &status, &b->err);
        if (!p->first_step && status.step > 0) p->first_step = now(), p->seen = status.step;
        if (!p->last_step && status.step == status.step_count) p->last_step = now();
        note_memory(b, p);
    } while (result == DIT_WORKING);
    if (result < 0) return failed(b);
    result = dit_job_read(p->job, DIT_READ_RGBA8, 0, 0, p->pixels, p->size, 0, &b->err);
    return result < 0 ? failed(b) : EXIT_GOOD;
}

/* Steps per second of a run that took so long: between the first and the last sight of a finished step if most steps
   lie between them, else of the whole run, which has a prompt and a decoder, too. */
static double picture_rate(picture *p, double run) {
    uint32_t steps = p->desc.steps, between = steps > p->seen ? steps - p->seen : 0;
    p->whole = between == 0 || between * 2 + 1 < steps || p->last_step - p->first_step < 1e-3;
    return p->whole ? steps / run : between / (p->last_step - p->first_step);
}

static int load_picture(bench *b, picture *p) {
    dit_model_desc desc = DITI_ZERO;
    dit_model_info info;
    char path[1024];
    desc.source.path = find_model(b, path, sizeof path);
    if (dit_model_load(b->context, &desc, &p->model, &b->err) < 0) return failed(b);
    dit_model_get_info(p->model, &info);
    p->desc.model = p->model;
    p->desc.prompt = b->o.prompt ? b->o.prompt : "fox, fluent style on a purple background";
    p->desc.width = b->o.width ? b->o.width : info.default_width;
    p->desc.height = b->o.height ? b->o.height : info.default_height;
    p->desc.steps = b->o.steps ? b->o.steps : info.default_steps;
    p->desc.guidance.scale = (float)b->o.cfg_scale;
    p->desc.split = b->o.split;
    p->desc.seed = 42;
    p->size = (size_t)p->desc.width * p->desc.height * 4;
    p->pixels = malloc(p->size);
    return p->pixels ? EXIT_GOOD : complain(EXIT_MEMORY, "out of memory for the picture");
}

/* More runs of the same job: its prompt, sizes and steps stay. */
static int repeat_picture(bench *b, picture *p) {
    double wall[MOST_RUNS], cpu[MOST_RUNS], rate[MOST_RUNS];
    uint32_t i;
    int code;
    for (i = 0; i < b->o.runs; i++) {
        double wall_begin = now(), cpu_begin = cpu_now();
        if (dit_job_restart(p->job, &p->desc, &b->err) < 0) return failed(b);
        code = run_picture(b, p);
        if (code) return code;
        wall[i] = now() - wall_begin;
        cpu[i] = cpu_now() - cpu_begin;
        rate[i] = picture_rate(p, wall[i]);
    }
    p->again.wall = median(wall, b->o.runs);
    p->again.cpu = median(cpu, b->o.runs);
    p->steps_per_s = median(rate, b->o.runs);
    return EXIT_GOOD;
}

/* The operations of a whole run: every segment once, the steps as often as there are steps. */
static void count_picture(bench *b, const picture *p) {
    double flops, bytes;
    uint32_t segment;
    for (segment = 0; segment < p->job->shares[0]->program.plan->segment_count; segment++) {
        uint32_t times = segment == p->job->shares[0]->program.step_segment ? p->desc.steps : 1;
        count_work(p->job->shares[0]->program.plan, segment, &flops, &bytes);
        b->line.flops += flops * times;
        b->line.bytes += bytes * times;
    }
}

/* Loads, plans and draws, and draws again as often as --runs says. */
static int time_picture(bench *b, picture *p) {
    double begun = now(), loaded, planned;
    int code = load_picture(b, p);
    if (code) return code;
    loaded = now();
    if (dit_job_create(b->context, &p->desc, &p->job, &b->err) < 0) return failed(b);
    note_memory(b, p);
    planned = now();
    code = run_picture(b, p);
    if (code) return code;
    p->load = loaded - begun;
    p->plan = planned - loaded;
    p->run = now() - planned;
    p->steps_per_s = picture_rate(p, p->run);
    b->line.t.wall = now() - b->started;
    b->line.t.cpu = cpu_now();
    return b->o.runs ? repeat_picture(b, p) : EXIT_GOOD;
}

static void free_picture(picture *p) {
    dit_job_destroy(p->job);
    dit_model_destroy(p->model);
    free(p->pixels);
    memset(p, 0, sizeof *p);
}

static int draw_picture(bench *b, picture *p) {
    double opened;
    char hash[17];
    int code = open_context(b);
    opened = now();
    if (!code) code = time_picture(b, p);
    if (code) return code;
    count_picture(b, p);
    add_key(b, "width", p->desc.width, "%.0f");
    add_key(b, "height", p->desc.height, "%.0f");
    add_key(b, "steps", p->desc.steps, "%.0f");
    add_key(b, "context_seconds", opened - b->started, "%.3f");
    add_key(b, "load_seconds", p->load, "%.3f");
    add_key(b, "plan_seconds", p->plan, "%.3f");
    add_key(b, "run_seconds", p->run, "%.3f");
    add_key(b, "pipelines", (double)b->device->pipelines_compiled, "%.0f");
    if (b->o.runs) {
        add_key(b, "again_seconds", p->again.wall, "%.3f");
        add_key(b, "again_cpu_seconds", p->again.cpu, "%.3f");
    }
    add_key(b, "steps_per_s", p->steps_per_s, "%.3f");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)diti_hash(p->pixels, p->size));
    add_text(b, "hash", hash);
    add_memory(b, p->memory);
    count_waits(p->job->shares[0]->program.plan, p->job->shares[0]->program.step_segment, &b->line.expanded,
                &b->line.barriers);
    add_waits(b);
    b->line.type = "stored";
    print_line(b);
    return b->o.profile
               ? profile(b, p->job->shares[0]->program.plan, p->job->shares[0]->program.step_segment, p->desc.steps)
               : EXIT_GOOD;
}

static int case_model(bench *b) {
    picture p;
    int code;
    memset(&p, 0, sizeof p);
    memset(&b->line, 0, sizeof b->line);
    b->line.op = "model";
    code = draw_picture(b, &p);
    free_picture(&p);
    return code;
}

/* ---- frames ---- */

enum { MOST_FRAMES = 1 << 20 };

typedef struct frames {
    VkCommandPool pool;
    VkSemaphore timeline;
    uint64_t value;
    double *ms, *record_us; /* of each frame from the second step on: its time, and the host's in dit_job_record */
    uint32_t count, all, slow;
    double begun, first_ms; /* the start of the process or of the restart; from there to the end of the first frame */
    double expected;        /* the time that dit expected of these frames, in all */
} frames;

static VkResult frame_submit(bench *b, frames *f, dit_job *job, dit_result *result) {
    const diti_device *device = b->device;
    VkCommandBufferAllocateInfo allocate = DITI_ZERO;
    VkCommandBufferBeginInfo begin = DITI_ZERO;
    VkCommandBuffer commands = NULL;
    dit_status status;
    bool counts = job->shares[0]->run.cursor.repeat > 0;
    double started, ms, record_us;
    VkCommandPoolCreateInfo pool = DITI_ZERO;
    VkResult vk;
    if (f->pool) device->vk.DestroyCommandPool(device->device, f->pool, NULL); /* of the frame before, which is over */
    f->pool = VK_NULL_HANDLE;
    pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool.queueFamilyIndex = device->queue_family;
    vk = device->vk.CreateCommandPool(device->device, &pool, NULL, &f->pool);
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = f->pool;
    allocate.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    if (vk >= 0) vk = device->vk.AllocateCommandBuffers(device->device, &allocate, &commands);
    if (vk >= 0) vk = device->vk.BeginCommandBuffer(commands, &begin);
    if (vk < 0) return vk;
    started = b->o.by_cpu ? cpu_now() : now();
    *result = dit_job_record(job, commands, b->o.budget_us);
    record_us = 1e6 * ((b->o.by_cpu ? cpu_now() : now()) - started);
    vk = device->vk.EndCommandBuffer(commands);
    if (vk < 0 || *result < 0) return vk;
    started = b->o.by_cpu ? cpu_now() : now();
    if (diti_submit(b->device, &commands, 1, f->timeline, ++f->value, &b->err) < 0 ||
        diti_timeline_wait(b->device, f->timeline, f->value, UINT64_MAX, &b->err) < 0)
        return VK_ERROR_UNKNOWN;
    ms = 1e3 * ((b->o.by_cpu ? cpu_now() : now()) - started);
    if (!b->device->stamps_frames) dit_job_record_took(job, (uint32_t)(ms * 1e3));
    if (!f->all++) f->first_ms = 1e3 * (now() - f->begun);
    if (!counts || f->count == MOST_FRAMES) return vk;
    dit_job_status(job, &status, NULL);
    f->expected += status.recorded_us;
    f->slow += ms * 1e3 > b->o.budget_us;
    f->record_us[f->count] = record_us;
    f->ms[f->count++] = ms;
    return vk;
}

static int run_frames(bench *b, picture *p, frames *f) {
    dit_result result = DIT_WORKING;
    dit_status status;
    while (result == DIT_WORKING) {
        if (frame_submit(b, f, p->job, &result) < 0) return failed(b);
    }
    dit_job_status(p->job, &status, &b->err);
    if (result < 0) return failed(b);
    result = dit_job_read(p->job, DIT_READ_RGBA8, 0, 0, p->pixels, p->size, 0, &b->err);
    return result < 0 ? failed(b) : EXIT_GOOD;
}

/* A picture that took no frame beyond its first step has nothing measured, and zeros. */
static void print_frames(bench *b, const picture *p, frames *f, uint32_t run) {
    uint32_t measured = f->count ? f->count : 1;
    if (!f->count) f->ms[0] = f->record_us[0] = 0;
    qsort(f->ms, f->count, sizeof *f->ms, compare_doubles);
    qsort(f->record_us, f->count, sizeof *f->record_us, compare_doubles);
    fprintf(b->out,
            "{\"op\": \"frames\", \"run\": %u, \"width\": %u, \"height\": %u, \"budget_us\": %u, \"device\": ", run,
            p->desc.width, p->desc.height, b->o.budget_us);
    print_text(b->out, b->device->info.name);
    fprintf(b->out,
            ", \"frames\": %u, \"measured\": %u, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, "
            "\"record_p50_us\": %.1f, \"record_p99_us\": %.1f, \"record_max_us\": %.1f, \"first_ms\": %.1f, "
            "\"over_budget\": %.4f, \"expected_ms\": %.3f, \"slices\": %u, \"cuts\": %u, \"picture\": \"%016llx\"}\n",
            f->all, f->count, f->ms[f->count / 2], f->ms[measured - 1 - measured / 100], f->ms[measured - 1],
            f->record_us[f->count / 2], f->record_us[measured - 1 - measured / 100], f->record_us[measured - 1],
            f->first_ms, (double)f->slow / measured, f->expected * 1e-3 / measured,
            (unsigned)p->job->shares[0]->program.plan->slice_count, p->job->shares[0]->program.plan->recuts,
            (unsigned long long)diti_hash(p->pixels, p->size));
    fflush(b->out);
}

static int draw_frames(bench *b, picture *p, frames *f) {
    uint32_t run;
    int code = open_context(b);
    if (!code) code = load_picture(b, p);
    if (code) return code;
    f->ms = malloc(MOST_FRAMES * sizeof *f->ms);
    f->record_us = malloc(MOST_FRAMES * sizeof *f->record_us);
    if (!f->ms || !f->record_us) return complain(EXIT_MEMORY, "out of memory for the times of frames");
    if (dit_job_create(b->context, &p->desc, &p->job, &b->err) < 0) return failed(b);
    if (diti_timeline_create(b->device, &f->timeline, &b->err) < 0) return failed(b);
    for (run = 0; run <= b->o.runs && !code; run++) {
        f->begun = run ? now() : b->started;
        if (run && dit_job_restart(p->job, &p->desc, &b->err) < 0) return failed(b);
        f->count = f->all = f->slow = 0;
        f->expected = 0;
        code = run_frames(b, p, f);
        if (!code) print_frames(b, p, f, run);
    }
    return code;
}

/* The device is one of dit's own here: what an application would submit, this submits in its place. */
static int case_frames(bench *b) {
    frames f;
    picture p;
    int code;
    memset(&p, 0, sizeof p);
    memset(&f, 0, sizeof f);
    default_number(&b->o.budget_us, 2000);
    code = draw_frames(b, &p, &f);
    dit_job_destroy(p.job);
    dit_model_destroy(p.model);
    if (f.timeline) b->device->vk.DestroySemaphore(b->device->device, f.timeline, NULL);
    if (f.pool) b->device->vk.DestroyCommandPool(b->device->device, f.pool, NULL);
    free(p.pixels);
    free(f.ms);
    free(f.record_us);
    return code;
}

/* ---- running cases ---- */

static int case_transformer(bench *b) { return case_shape(b, "flux-tiny", false); }
static int case_encoder(bench *b) { return case_shape(b, "t5-xxl", true); }

typedef struct kind {
    const char *name;
    int (*run)(bench *b);
    bool segments; /* makes its own, as many as it measures */
} kind;

static const kind kinds[] = {
    {"gemm", case_gemm, false},        {"gemv", case_gemm, false},        {"attention", case_attention, false},
    {"conv", case_conv, false},        {"norm", case_norm, false},        {"expand", case_expand, false},
    {"copy", case_copy, false},        {"vae", case_vae, false},          {"encoder", case_encoder, true},
    {"block", case_transformer, true}, {"model", case_transformer, true}, {"ceilings", case_ceilings, false},
};

static int run_kind(bench *b, const kind *kind) {
    char type[32];
    int code;
    if (diti_type_is_i8(b->o.type) && (kind->run == case_conv || kind->run == case_vae))
        return complain(EXIT_USAGE, "--type i8r: only linear layers have int8 rows; %s has none", kind->name);
    code = begin_case(b);
    if (!code) code = open_report(b);
    if (code) return code;
    b->line.op = kind->name;
    b->line.type = type_text(b->o.type, type);
    if (!kind->segments) diti_graph_segment(&b->graph, "measured", true);
    code = kind->run(b);
    end_case(b);
    return code;
}

static int check_types(const char *text) {
    dit_type type;
    size_t length;
    for (;; text += length + 1) {
        length = strcspn(text, ",");
        if (!find_type(text, length, &type))
            return complain(EXIT_USAGE, "--type %.*s: there is no such type; dit-bench --help lists them", (int)length,
                            text);
        if (!text[length]) return EXIT_GOOD;
    }
}

/* A type beside F16 by rows: few are limited by reading weights, which small types win, many by arithmetic, where
   decoding is work on top. */
static int run_sweep(bench *b, const kind *kind) {
    const dit_type type = b->o.type;
    const uint32_t most = b->o.m;
    uint32_t m, from = 1;
    char name[32];
    int code = EXIT_GOOD;
    for (m = 1; m <= most && !code; m *= 2) {
        double half;
        b->o.m = m;
        b->o.type = DIT_TYPE_F16;
        code = run_kind(b, kind);
        half = line_seconds(b);
        b->o.type = type;
        if (!code) code = run_kind(b, kind);
        if (line_seconds(b) < half) from = 2 * m;
    }
    b->o.m = most;
    if (code) return code;
    if (!b->out) return EXIT_GOOD;
    fprintf(b->out, "{\"op\":\"gemm rows\",\"type\":\"%s\",\"n\":%u,\"k\":%u,\"most_rows\":%u,\"f16_as_fast_from\":",
            type_text(type, name), b->o.n, b->o.k, most);
    if (from > most)
        fprintf(b->out, "null}\n");
    else
        fprintf(b->out, "%u}\n", from);
    return EXIT_GOOD;
}

/* Once for each type of the list. */
static int run_types(bench *b, const kind *kind) {
    const char *text = b->o.types;
    int code = check_types(text);
    while (!code) {
        size_t length = strcspn(text, ",");
        find_type(text, length, &b->o.type);
        code = b->o.sweep && kind->run == case_gemm ? run_sweep(b, kind) : run_kind(b, kind);
        if (!text[length]) break;
        text += length + 1;
    }
    return code;
}

static int run_op(bench *b) {
    size_t i;
    default_options(&b->o);
    if (strcmp(b->o.op, "model") == 0 && !b->o.shape) return case_model(b);
    if (strcmp(b->o.op, "frames") == 0) return case_frames(b);
    for (i = 0; i < DITI_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, b->o.op) == 0) return run_types(b, &kinds[i]);
    }
    return complain(EXIT_USAGE, "%s: there is no such case; dit-bench --help lists them", b->o.op);
}

/* Arguments as one text of words. */
static int run_words(bench *b, const options *common, const char *text) {
    char copy[256], *words[32], *word;
    int count = 1, code;
    snprintf(copy, sizeof copy, "%s", text);
    for (word = strtok(copy, " "); word && count < 32; word = strtok(NULL, " ")) words[count++] = word;
    b->o = *common;
    code = take_options(&b->o, count, words);
    return code ? code : run_op(b);
}

/* Small sizes for a processor; for a GPU those of the models that it would run. */
static const char *const small_cases[] = {"ceilings",
                                          "gemm --type f32,f16,q8_0,q4_k,i8r",
                                          "gemm --n 256 --type f32,f16,q8_0,q4_k",
                                          "gemv --type f32,q8_0",
                                          "attention",
                                          "attention --tokens 512 --head-dim 128",
                                          "conv",
                                          "norm",
                                          "expand --type q8_0,q4_0,q4_k,bf16",
                                          "copy",
                                          "vae --size 8",
                                          "encoder --shape clip-l",
                                          "block --shape flux-tiny",
                                          "model --shape flux-tiny",
                                          "model --shape dit-xl-2 --layers 2"};
/* A report may end early: what tells most comes first. */
static const char *const large_cases[] = {"ceilings",
                                          "gemm --m 4608 --n 12288 --k 3072 --type f16,q8_0,q4_k,i8r",
                                          "attention --tokens 4608 --heads 24 --head-dim 64",
                                          "attention --tokens 4608 --heads 16 --head-dim 72",
                                          "attention --tokens 4608 --heads 24 --head-dim 128",
                                          "conv --size 256 --in 256 --out 256 --type f16",
                                          "norm --m 4608 --k 3072",
                                          "expand --n 12288 --k 3072 --type q8_0,q4_k",
                                          "copy --m 16384 --k 4096",
                                          "gemv --n 18432 --k 3072 --type f16,q8_0",
                                          "gemm --m 4608 --n 3072 --k 3072 --type f16,q8_0,i8r,i8r+rot",
                                          "gemm --m 4608 --n 3072 --k 12288 --type f16,q8_0,i8r",
                                          "gemm --m 4608 --n 21504 --k 3072 --type f16,q8_0,i8r",
                                          "attention --tokens 17776 --heads 30 --head-dim 64",
                                          "model --shape flux --layers 6 --type q8_0,i8r",
                                          "vae --size 128 --type f16",
                                          "model --shape pixart-sigma-1024 --type q8_0,i8r",
                                          "encoder --shape t5-xxl",
                                          "model --shape dit-xl-2",
                                          "model --shape sd3-medium"};

static const char *const *all_cases(const bench *b, size_t *count) {
    *count = b->device->is_cpu ? DITI_COUNT(small_cases) : DITI_COUNT(large_cases);
    return b->device->is_cpu ? small_cases : large_cases;
}

static int run_all(bench *b) {
    const char *const *cases;
    options common = b->o;
    size_t i, count;
    int code = open_context(b);
    if (code) return code;
    cases = all_cases(b, &count);
    for (i = 0; i < count && !code; i++) code = run_words(b, &common, cases[i]);
    return code;
}

/* ---- the page of report ---- */

/* The bundled model's picture on a rung, on one device or divided among several. */
static int report_picture(bench *b, const char *rung, const char *devices, const char *split) {
    options common = b->o;
    picture p;
    int code;
    memset(&p, 0, sizeof p);
    memset(&b->line, 0, sizeof b->line);
    close_context(b);
    b->o.rung = rung;
    b->o.device = devices;
    b->o.split = split;
    code = open_context(b);
    b->o.runs = !code && b->device->is_cpu ? 0 : 1;
    if (!code) code = time_picture(b, &p);
    fprintf(b->page, "| %s | %s | ", rung ? rung : "best", split ? split : "one");
    if (code) {
        fputs("failed: ", b->page);
        report_text(b->page, b->err.message);
        fputs(" | | | | |\n", b->page);
    } else {
        fprintf(b->page, "%.2f | %.2f | %.2f | %s%.2f | %016llx |\n", p.load, p.plan, p.run, p.whole ? "over " : "",
                p.steps_per_s, (unsigned long long)diti_hash(p.pixels, p.size));
    }
    fflush(b->page);
    free_picture(&p);
    close_context(b);
    b->o = common;
    return code;
}

/* On the best rung, on all others, then as two devices on this one: that a way of dividing it gives the same bytes
   shows in the hash. Each compiles kernels of its own, so that what matters most comes first. */
static int report_pictures(bench *b) {
    static const char *const splits[] = {"cfg2", "ulysses2", "tensor2"};
    char one[48], two[2 * sizeof one], path[1024];
    bool slow;
    size_t i, used = 0;
    int rung, best, code = open_context(b);
    if (code) return code;
    slow = b->device->is_cpu;
    best = (int)b->device->rung;
    for (i = 0; i < sizeof b->device->info.uuid; i++)
        used += (size_t)snprintf(one + used, sizeof one - used, "%s%02x", i ? "" : "uuid:", b->device->info.uuid[i]);
    snprintf(two, sizeof two, "%s,%s", one, one);
    if (slow) { /* halves and matrices are emulated there */
        default_number(&b->o.steps, 2);
        default_number(&b->o.width, 32);
        default_number(&b->o.height, 32);
    }
    fprintf(b->page, "\n## Pictures\n\n%s, seed 42", base_name(find_model(b, path, sizeof path)));
    if (b->o.steps) fprintf(b->page, ", %u steps", b->o.steps);
    if (b->o.width && b->o.height) fprintf(b->page, ", %u × %u pixels", b->o.width, b->o.height);
    fputs(". The hash is FNV-1a of the RGBA pixels.\n", b->page);
    fputs(
        "Below the rungs: as two devices on this one. \"over\": steps too short to be told apart, so that the time of the\n"
        "whole picture counts.\n\n"
        "| rung | devices | s to load | s to plan | s to draw | steps/s | hash |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n",
        b->page);
    report_picture(b, diti_rung_name((diti_rung)best), one, NULL);
    for (rung = 0; rung < DITI_RUNG_COUNT && !report_is_late(b); rung++)
        if (rung != best) report_picture(b, diti_rung_name((diti_rung)rung), one, NULL);
    for (i = 0; i < DITI_COUNT(splits) && !report_is_late(b); i++) report_picture(b, NULL, two, splits[i]);
    return EXIT_GOOD;
}

/* Reports whole networks, or single kernels. A case that fails gets a line that says so, and the next case a new
   device. */
static int report_cases(bench *b, bool networks) {
    options common = b->o;
    const char *const *cases;
    size_t i, count;
    int code = open_context(b);
    if (!code) code = measure_ceilings(b);
    if (code) return code;
    cases = all_cases(b, &count);
    fprintf(b->page, "\n## %s\n\n", networks ? "Networks: one evaluation" : "Kernels");
    print_ceilings(b);
    begin_table(b);
    for (i = 1; i < count; i++) { /* the first are the ceilings */
        bool network = !strncmp(cases[i], "model", 5) || !strncmp(cases[i], "block", 5) ||
                       !strncmp(cases[i], "encoder", 7) || !strncmp(cases[i], "vae", 3);
        if (network != networks) continue;
        if (report_is_late(b)) {
            fprintf(b->page, "| %s | | the time was over | | | |\n", cases[i]);
            continue;
        }
        memset(&b->err, 0, sizeof b->err);
        if (run_words(b, &common, cases[i])) {
            fprintf(b->page, "| %s | | failed: ", cases[i]);
            report_text(b->page, b->err.message);
            fputs(" | | | |\n", b->page);
            fflush(b->page);
            close_context(b);
        }
    }
    b->o = common;
    return EXIT_GOOD;
}

static int run_report(bench *b, FILE *out) {
    int code = check_parts(b->o.parts);
    default_number(&b->o.seconds, 300);
    if (!code && b->o.page && !output_open(&b->report, b->o.page))
        code = complain(exit_code_of_writing(errno), "-o %s: %s", b->o.page, told_reason(errno));
    b->page = b->o.page ? b->report.file : out;
    b->out = NULL;
    if (!code) code = open_context(b);
    if (!code) code = write_cache(b); /* a part that never ends leaves it */
    if (code) return code;
    fputs("# ", b->page);
    report_text(b->page, b->device->info.name);
    fprintf(b->page, "\n\nMade by `build/dit-bench report` of dit.h %d.%d.%d.\n", DIT_VERSION / 10000,
            DIT_VERSION / 100 % 100, DIT_VERSION % 100);
    if (report_wants(&b->o, "device")) code = report_device(b);
    if (!code && report_wants(&b->o, "rungs")) code = report_rungs(b);
    if (!code && report_wants(&b->o, "pictures")) code = report_pictures(b);
    if (!code) code = write_cache(b);
    if (!code && report_wants(&b->o, "steps")) code = report_cases(b, true);
    if (!code && report_wants(&b->o, "kernels")) code = report_cases(b, false);
    return code;
}

/* Checks before any work that all outputs can be written, and that none is another one or the model. */
static int check_outputs(const options *o) {
    const named_path outputs[] = {{"--report", o->report}, {"--cache", o->cache}, {"-o", o->page}},
                     model = {"--model", o->model};
    char why[2 * PATH_SIZE];
    size_t i;
    for (i = 0; i < DITI_COUNT(outputs); i++) {
        const char *wrong = outputs[i].path ? why_not_writable(outputs[i].path) : NULL;
        if (wrong) return complain(EXIT_OUTPUT, "%s %s: %s", outputs[i].option, outputs[i].path, wrong);
    }
    if (!find_overwritten(outputs, DITI_COUNT(outputs), &model, 1, why, sizeof why)) return EXIT_GOOD;
    return complain(EXIT_USAGE, "%s", why);
}

static int bench_run(int count, char **texts, FILE *out) {
    bench b;
    int code;
    memset(&b, 0, sizeof b);
    b.started = now();
    b.out = out;
    if (tells_version(count, texts, out)) return EXIT_GOOD;
    if (count < 2)
        return complain(EXIT_USAGE, "which case? Say dit-bench gemm, for example; dit-bench --help lists them");
    if (strcmp(texts[1], "--help") == 0 || strcmp(texts[1], "-h") == 0)
        return fputs(usage_cases, out), fputs(usage_options, out), EXIT_GOOD;
    code = take_options(&b.o, count, texts);
    if (!code) code = check_outputs(&b.o);
    if (!code && (b.o.page || b.o.parts || b.o.seconds) && strcmp(b.o.op, "report") != 0)
        code =
            complain(EXIT_USAGE, "-o, --parts and --seconds belong to report; a table of other cases is --report FILE");
    if (!code) read_cache(&b);
    if (!code)
        code = strcmp(b.o.op, "all") == 0      ? run_all(&b)
               : strcmp(b.o.op, "report") == 0 ? run_report(&b, out)
                                               : run_op(&b);
    if (!code) code = write_cache(&b);
    dit_context_destroy(b.context);
    free(b.blob);
    if (b.report.file && !output_close(&b.report, true) && !code)
        code = complain(exit_code_of_writing(errno), "%s: %s", b.o.page ? b.o.page : b.o.report, told_reason(errno));
    return code;
}

#ifndef BENCH_NO_MAIN
int main(int count, char **texts) {
    end_cleanly_by_signals();
    return end_printing("dit-bench", bench_run(count, texts, stdout));
}
#endif
