/* Compiles every kernel that dit.h chooses by default, on the device that is there, and says in one row of a table how
   that went. tools/feigned.sh runs it, for each GPU that it can feign, with the layer tools/feigned_layer.c, which
   writes what the driver says of each pipeline.
     feigned head | feigned NAME STATISTICS
     feigned case CASE   the dispatches of one: gemm:TYPE:TOKENS:OUT:K, attention:HEAD_DIM:HEADS:TOKENS or
                         conv:IN:OUT:KERNEL[:FRAMES], whose pictures are 64 x 64
   Nothing is run and no weight is loaded. First come the kernels of a picture by FLUX.1 of 1024 x 1024, whose time is
   that of a cold start; then whatever other shapes, types and heads need beside them. Below the row stands a line for
   each pipeline that failed or spills to memory, and each module that no case asks for, then `missed` where that breaks
   a budget. Exit codes: 0 the row stands there, 2 anything else. */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "bench_core.h"
#include "bench_shapes.h"
#include "feigned_text.h"

/* The seconds of one core that the pipelines of FLUX.1 may take, and the fewer seconds that RADV may take. */
#define MOST_SECONDS 5.0
#define MOST_SECONDS_RADV 2.0
enum { MOST_KERNELS = 4096, HOT = 5 };

typedef struct kernel {
    VkPipeline pipeline; /* null: it was not compiled */
    diti_kernel kernel;
    char what[48]; /* the first case that wants it */
    uint32_t constants[DITI_MAX_CONSTANTS], stated;
    bool flux;
    double flops; /* in an evaluation of FLUX.1 */
    /* the driver's numbers, the largest of several programs */
    double ms, spills, registers, occupancy;
} kernel;

typedef struct feigned {
    bench b;
    kernel *kernels;
    uint32_t count, failed_cases;
    bool flux;
    char what[48];
} feigned;

/* ---- cases: graphs, whose dispatches name pipelines ---- */

static kernel *find_kernel(feigned *f, const diti_dispatch *dispatch, VkPipeline pipeline) {
    kernel *k;
    uint32_t i;
    for (i = 0; i < f->count; i++) {
        k = &f->kernels[i];
        if (pipeline ? k->pipeline == pipeline
                     : k->kernel == dispatch->kernel && k->stated == dispatch->stated &&
                           !memcmp(k->constants, dispatch->constants, sizeof k->constants))
            return k;
    }
    if (f->count == MOST_KERNELS) return NULL;
    k = &f->kernels[f->count++];
    k->pipeline = pipeline;
    k->kernel = dispatch->kernel;
    memcpy(k->constants, dispatch->constants, sizeof k->constants);
    k->stated = dispatch->stated;
    k->flux = f->flux;
    diti_format(k->what, sizeof k->what, "%s: %s", f->what, dispatch->name ? dispatch->name : "?");
    return k;
}

static void begin(feigned *f, const char *what, const char *detail, dit_type type) {
    bench *b = &f->b;
    char text[32];
    diti_format(f->what, sizeof f->what, "%s %s %s", what, detail, type_text(type, text));
    b->o.type = type;
    b->code = EXIT_GOOD;
    b->no_memory = true;
    diti_graph_init(&b->graph, b->device);
    diti_guard_begin(&b->graph);
    diti_graph_segment(&b->graph, "measured", true);
}

/* times: how often each segment runs in what the case stands for; NULL: it does not count. */
static void end(feigned *f, const shape_run *times) {
    bench *b = &f->b;
    size_t i;
    uint32_t kind;
    diti_guard_judge(&b->graph);
    if (b->code || b->graph.error.result < 0) {
        fprintf(stderr, "%s: %s\n", f->what, b->graph.error.message);
        f->failed_cases++;
    }
    for (i = 0; i < b->graph.dispatch_count && !b->code; i++) {
        const diti_dispatch *dispatch = &b->graph.dispatches[i];
        VkPipeline pipeline = VK_NULL_HANDLE;
        kernel *k;
        if (diti_pipeline_get(b->device, dispatch->kernel, dispatch->constants, dispatch->stated, &pipeline, &b->err) <
            0)
            fprintf(stderr, "%s: %s\n", f->what, b->err.message);
        k = find_kernel(f, dispatch, pipeline);
        for (kind = 0; k && times && kind < SHAPE_KINDS && times->run[kind]; kind++)
            if (times->segments[kind] == dispatch->segment) k->flops += dispatch->flops * times->s->layers[kind].count;
    }
    diti_graph_free(&b->graph);
    free_weights(b);
}

static void add_shape(feigned *f, const shape *s, dit_type type) {
    shape_run run;
    memset(&run, 0, sizeof run);
    run.s = s;
    begin(f, s->name, "", type);
    choose_layers(&run, 1);
    emit_shape(&f->b, &run, true);
    end(f, f->flux && s->in ? &run : NULL);
}

static void add_vae(feigned *f, uint32_t size, dit_type type) {
    char text[16];
    diti_format(text, sizeof text, "%u", size);
    begin(f, "vae", text, type);
    f->b.o.size = size;
    emit_vae(&f->b);
    end(f, NULL);
}

static void add_products(feigned *f, dit_type type) {
    static const uint32_t rows[] = {1, 2, 4, 8, 77, 300, 4096}, columns[] = {1152, 3072};
    uint32_t r, c;
    for (r = 0; r < DITI_COUNT(rows); r++)
        for (c = 0; c < DITI_COUNT(columns); c++) {
            diti_linear_desc desc = DITI_ZERO;
            const diti_weight *weight;
            char text[16];
            diti_format(text, sizeof text, "%u x %u", rows[r], columns[c]);
            begin(f, "product", text, type);
            desc.name = "linear";
            weight = random_weight(&f->b, fitting_type(&f->b, columns[c]), 3072, columns[c], 1);
            diti_graph_scope(&f->b.graph, "block", 0);
            diti_linear(&f->b.graph, input(&f->b, rows[r], columns[c], "x"), weight, &desc);
            end(f, NULL);
        }
}

/* A product whose weight has a factor for each row. */
static void add_factors(feigned *f, dit_type type) {
    diti_linear_desc desc = DITI_ZERO;
    diti_weight weight;
    begin(f, "product", "300 x 3072, factors", type);
    weight = *random_weight(&f->b, type, 3072, 3072, 1);
    weight.factor = weight.parts[0]; /* some values, which nobody reads */
    weight.factor.rows = 3072;
    desc.name = "linear";
    diti_graph_scope(&f->b.graph, "block", 0);
    diti_linear(&f->b.graph, input(&f->b, 300, 3072, "x"), &weight, &desc);
    end(f, NULL);
}

/* An attention may have more: members of diti_attention_desc that change its kernel. */
typedef struct extra {
    const char *name;
    bool int8, items, packed, bias, lse, cap;
    uint32_t share; /* heads of queries to one of keys; 0: 1 */
} extra;

static void add_attention(feigned *f, uint32_t head_dim, uint32_t keys, const extra *with) {
    diti_attention_desc desc = DITI_ZERO;
    uint32_t queries = with->packed ? 4093 : 4096, kv_heads = 16 / (with->share ? with->share : 1);
    diti_graph *graph = &f->b.graph;
    diti_tensor q, k, v;
    char text[48];
    diti_format(text, sizeof text, "of %u, %u keys%s", head_dim, keys, with->name);
    begin(f, "attention", text, DIT_TYPE_F16);
    desc.batch = with->items ? 2 : 1;
    desc.heads = 16;
    desc.kv_heads = kv_heads;
    desc.head_dim = head_dim;
    desc.scale = 0.1f;
    desc.int8 = with->int8;
    desc.packed = with->packed;
    desc.key_limit = with->items ? keys / 2 : 0;
    desc.cap = with->cap ? 50.0f : 0.0f;
    if (with->items) desc.items = diti_tensor_input(graph, DITI_U32, desc.batch, DITI_ITEM_WORDS, "items");
    if (with->bias) desc.bias = diti_tensor_input(graph, DITI_F32, 16, 2 * desc.key_limit - 1, "bias");
    if (with->lse) desc.lse = diti_tensor_new(graph, DITI_F32, queries, 16, "lse");
    q = input(&f->b, queries, 16 * head_dim, "q");
    k = input(&f->b, keys, kv_heads * head_dim, "k");
    v = input(&f->b, keys, kv_heads * head_dim, "v");
    diti_attention(graph, q, k, v, &desc);
    end(f, NULL);
}

static const extra plain = {"", false, false, false, false, false, false, 0};

/* Long and short rows of keys; prompts that items name, each alone (cross attention) or packed; the sums that Ring
   merges; what language models have. int8 is used only where a user asks for it. */
static void add_attentions(feigned *f, uint32_t head_dim) {
    static const extra int8 = {" of int8", true, false, false, false, false, false, 0},
                       more[] = {{", items", false, true, false, false, false, false, 0},
                                 {", lse", false, false, false, false, true, false, 0},
                                 {", items, lse", false, true, false, false, true, false, 0},
                                 {", packed", false, true, true, false, false, false, 0},
                                 {", masked", false, true, true, true, false, false, 2},
                                 {", masked, cap", false, true, true, true, false, true, 2}};
    uint32_t i;
    add_attention(f, head_dim, 4096, &plain);
    add_attention(f, head_dim, 300, &plain);
    if (head_dim == 64 || head_dim == 128) add_attention(f, head_dim, 4096, &int8);
    for (i = 0; i < DITI_COUNT(more); i++) {
        if (more[i].bias && head_dim != 64 && head_dim != 128 && head_dim != 256) continue; /* those of text encoders */
        add_attention(f, head_dim, 4096, &more[i]);
        add_attention(f, head_dim, 600, &more[i]);
    }
}

/* Encoders in prompts' usual lengths. */
static void add_encoders(feigned *f, dit_type type) {
    static const uint32_t tokens[] = {77, 512};
    uint32_t i, k;
    for (i = 0; i < DITI_COUNT(languages); i++)
        for (k = 0; k < DITI_COUNT(tokens); k++) {
            begin(f, languages[i].name, "", type);
            emit_language(&f->b, &languages[i], tokens[k]);
            end(f, NULL);
        }
    begin(f, "clip vision", "", type);
    emit_clip_vision(&f->b);
    end(f, NULL);
    begin(f, "bert", "", type);
    emit_bert(&f->b);
    end(f, NULL);
    begin(f, "conditioner", "", type);
    emit_conditioner(&f->b);
    end(f, NULL);
}

/* The thin products that a LoRA adds beside every layer. */
static void add_lora_shapes(feigned *f) {
    static const uint32_t ranks[] = {4, 16, 20, 64, 128};
    uint32_t i;
    for (i = 0; i < DITI_COUNT(ranks); i++) {
        f->b.o.lora = ranks[i];
        add_shape(f, find_shape("flux"), DIT_TYPE_Q8_0);
        add_shape(f, find_shape("pixart-sigma-1024"), DIT_TYPE_F16);
    }
    f->b.o.lora = 0;
}

static void add_conv(feigned *f, uint32_t in, uint32_t out, uint32_t kernel_size, uint32_t stride, bool upsample,
                     dit_type type) {
    diti_conv_desc desc = DITI_ZERO;
    const diti_weight *weight;
    uint32_t in_all;
    char text[32];
    diti_format(text, sizeof text, "%u to %u by %u", in, out, kernel_size);
    begin(f, "convolution", text, type);
    in_all = in * kernel_size * kernel_size;
    weight = random_weight(&f->b, fitting_type(&f->b, in_all), out, in_all, kernel_size);
    desc.batch = 1;
    desc.height = desc.width = 64;
    desc.stride = stride;
    desc.pad_before = stride > 1 ? 0 : kernel_size / 2;
    desc.pad_after = kernel_size / 2;
    desc.upsample = upsample;
    desc.name = "conv";
    diti_conv(&f->b.graph, input(&f->b, 64 * 64, in, "x"), weight, &desc);
    end(f, NULL);
}

/* A convolution over frames, and ops between them. */
static void add_clip(feigned *f, uint32_t in, uint32_t out, uint32_t frames, uint32_t kernel_size, bool edges,
                     dit_type type) {
    diti_conv_desc desc = DITI_ZERO;
    diti_blend_desc blend = DITI_ZERO;
    diti_block_desc block = DITI_ZERO;
    const diti_weight *weight;
    uint32_t in_all = in * frames * kernel_size * kernel_size;
    diti_tensor x;
    char text[48];
    diti_format(text, sizeof text, "%u to %u by %u x %u", in, out, frames, kernel_size);
    begin(f, "clip", text, type);
    weight = random_weight(&f->b, fitting_type(&f->b, in_all), out, in_all, kernel_size);
    if (f->b.weights) f->b.weights->weight.frames = frames;
    desc.batch = 5;
    desc.height = desc.width = 32;
    desc.pad_before = desc.pad_after = kernel_size / 2;
    desc.frames_before = frames - 1;
    desc.ends = desc.edges = edges;
    desc.name = "conv";
    x = diti_conv(&f->b.graph, input(&f->b, 5 * 32 * 32, in, "x"), weight, &desc);
    blend.kind = edges ? DITI_BLEND_THIRDS : DITI_BLEND_LINEAR;
    blend.clip.frames = 5;
    blend.clip.height = blend.clip.width = 32;
    diti_blend_frames(&f->b.graph, x, &blend);
    block.clip = blend.clip;
    block.columns = out / 8;
    block.time = block.side = 2;
    block.channel_step = 8;
    block.time_step = 4;
    block.line_step = 2;
    block.pixel_step = block.first = 1;
    diti_spread_frames(&f->b.graph, x, &block);
    block.columns = 8 * out;
    diti_gather_frames(&f->b.graph, x, &block);
    end(f, NULL);
}

/* Convolutions that keep channels apart, and attention without a softmax: Sana's, and its autoencoder's. */
static void add_channels(feigned *f, uint32_t head_dim, uint32_t heads, uint32_t group) {
    uint32_t width = head_dim * heads, side = 32, step = group ? 3 * head_dim : head_dim;
    diti_linear_attention_desc attention = DITI_ZERO;
    diti_depthwise_desc desc = DITI_ZERO;
    diti_graph *graph = &f->b.graph;
    diti_tensor x, both;
    char text[32];
    diti_format(text, sizeof text, "%u x %u", heads, head_dim);
    begin(f, "channels", text, DIT_TYPE_F16);
    desc.height = desc.width = side;
    desc.weight = random_weight(&f->b, DIT_TYPE_F32, 2 * width, 9, 1);
    desc.bias = group ? NULL : random_weight(&f->b, DIT_TYPE_F32, 1, 2 * width, 1);
    both = input(&f->b, side * side, 2 * width, "x");
    x = diti_tensor_view(graph, both, 0, side * side, 0, width);
    desc.gate = diti_tensor_view(graph, both, 0, side * side, width, width);
    desc.gate_first = width;
    diti_depthwise(graph, x, &desc);
    desc.gate = 0;
    diti_depthwise(graph, x, &desc);
    x = input(&f->b, side * side, 3 * width, "qkv");
    if (group) {
        diti_tensor mixed = diti_tensor_new(graph, graph->activation, side * side, 3 * width, "mixed");
        diti_grouped(graph, x, random_weight(&f->b, DIT_TYPE_F32, 3 * width, group, 1), mixed, "grouped");
        x = mixed;
    }
    attention.items = 1;
    attention.heads = heads;
    attention.head_dim = head_dim;
    attention.step = step;
    attention.key_offset = group ? head_dim : width;
    attention.value_offset = 2 * attention.key_offset;
    diti_linear_attention(graph, x, &attention);
    end(f, NULL);
}

/* Kept residuals of up to so many slots, and the decision on the device. */
static void add_reuse(feigned *f) {
    diti_graph *graph = &f->b.graph;
    diti_tensor slots[DITI_REUSE_SLOTS], row, x, state;
    diti_decide_desc desc = DITI_ZERO;
    uint32_t i;
    begin(f, "reuse", "", DIT_TYPE_F32);
    x = diti_tensor_input(graph, DITI_F32, 1024, 1152, "x");
    row = diti_tensor_input(graph, DITI_F32, 1, DITI_REUSE_WORDS, "row");
    state = diti_tensor_input(graph, DITI_F32, 1, DITI_REUSE_STATE + 8, "state");
    for (i = 0; i < DITI_REUSE_SLOTS; i++) slots[i] = diti_tensor_new(graph, DITI_F32, 1024, 1152, "slot");
    for (i = 0; i < DITI_REUSE_SLOTS; i++) {
        diti_residual_do(graph, DITI_RESIDUAL_PUT, x, &slots[i], 1, row);
        diti_residual_do(graph, DITI_RESIDUAL_TAKE, x, &slots[i], 1, row);
    }
    for (i = 1; i <= DITI_REUSE_SLOTS; i++) diti_residual_do(graph, DITI_RESIDUAL_ADD, x, slots, i, row);
    desc.change = x;
    desc.changes[0] = slots[0];
    desc.changes[1] = slots[1];
    desc.state = state;
    desc.next = diti_tensor_new(graph, DITI_F32, 1, DITI_REUSE_STATE + 8, "next state");
    desc.row = row;
    desc.gate = diti_tensor_new(graph, DITI_U32, 2 * DITI_GATE_ENTRIES, 4, "gate");
    desc.items = desc.branches = 1;
    desc.image = 1024;
    diti_decide(graph, &desc);
    end(f, NULL);
}

/* The way between planes, tokens and pixels: every op of pixels.comp with every choice that it has. */
static void add_pixels(feigned *f) {
    diti_graph *graph = &f->b.graph;
    diti_tensor planes, rows, factor, health, words;
    diti_patches patches = DITI_ZERO;
    diti_tile tile = DITI_ZERO;
    uint32_t i;
    begin(f, "pixels", "", DIT_TYPE_F32);
    patches.batch = 1;
    patches.channels = 16;
    patches.height = patches.width = 64;
    patches.patch = 2;
    planes = diti_tensor_input(graph, DITI_F32, 16, 64 * 64, "planes");
    factor = diti_tensor_input(graph, DITI_F32, 1, 1, "factor");
    health = diti_tensor_input(graph, DITI_U32, 1, 4, "health");
    for (i = 0; i < 4; i++) {
        patches.channels_last = i & 1;
        diti_unpatchify(graph, diti_patchify(graph, planes, &patches, i & 2 ? factor : 0), &patches, 16);
    }
    diti_unpatchify_planes(graph, diti_patchify(graph, planes, &patches, 0), &patches);
    rows = diti_planar_to_rows(graph, planes, 1, 16, 2.0f, 1.0f);
    tile.from_width = tile.out_width = tile.height = tile.width = 64;
    diti_move_tile(graph, rows, diti_tensor_new(graph, graph->activation, 64 * 64, 16, "tiled"), &tile);
    tile.top = tile.left = tile.bottom = tile.right = 8;
    diti_move_tile(graph, rows, diti_tensor_new(graph, DITI_F32, 64 * 64, 16, "tiled"), &tile);
    for (i = 0; i < 16; i++) {
        diti_tensor colours = i & 8 ? diti_tensor_input(graph, DITI_F32, 64 * 64, 3, "colours") : rows;
        diti_tensor rgb = diti_tensor_new(graph, DITI_F32, 3, 64 * 64, "rgb");
        words = diti_tensor_new(graph, DITI_U32, 1, 64 * 64, "words");
        diti_image_out(graph, colours, i & 3 ? words : 0, i & 3 ? 0 : rgb, i & 1, i & 4 ? health : 0);
        if (i & 3) diti_image_in(graph, words, i & 1 ? 3 : 4, i & 2);
        if (i & 3) continue;
        diti_texels_out(graph, rgb, diti_tensor_new(graph, DITI_U32, 1, 2 * 64 * 64, "texels"), false);
        diti_texels_out(graph, rgb, diti_tensor_new(graph, DITI_U32, 1, 64 * 16, "greys"), true);
    }
    rows = diti_latent_colors(graph, planes, 64, 64, 1,
                              diti_tensor_input(graph, DITI_F32, 17, DITI_COLOR_COLUMNS, "table"));
    for (i = 0; i < 2; i++)
        diti_enlarge_out(graph, rows, 64, 64, 2, diti_tensor_new(graph, DITI_U32, 1, 128 * 128, "enlarged"), i);
    end(f, NULL);
}

/* All else: attention in turns, weighted tokens, guidance that is mixed, and solvers with all that they may have.
 */
static void add_rest(feigned *f) {
    diti_graph *graph = &f->b.graph;
    diti_tensor o, lse, planes, twice, words;
    uint32_t i;
    begin(f, "rest", "", DIT_TYPE_F32);
    o = diti_tensor_input(graph, DITI_F32, 1024, 16 * 64, "o");
    lse = diti_tensor_input(graph, DITI_F32, 1024, 16, "lse");
    diti_merge_attention(graph, o, lse, o, lse, 64);
    words = diti_tensor_input(graph, DITI_U32, 1024, sizeof(diti_row_weight) / 4, "row weights");
    diti_weigh_rows(graph, o, words, "weigh");
    planes = diti_tensor_input(graph, DITI_F32, 16, 64 * 64, "latent");
    twice = diti_tensor_input(graph, DITI_F32, 4 * 16, 64 * 64, "prediction");
    for (i = 0; i < 256; i++) {
        diti_solver_desc desc = DITI_ZERO;
        desc.x = desc.h1 = planes;
        desc.guided = i & 1;
        desc.mixed = i & 2;
        desc.learned = i & 4;
        desc.has_y = i & 8;
        desc.has_h3 = i & 8 && i & 16;
        desc.keeps = i & 32;
        desc.noise = i & 64 ? planes : 0;
        desc.x0 = i & 128 ? planes : 0;
        desc.frames = i & 16 ? 4 : 0;
        desc.token_side = i & 64 ? 2 : 0;
        desc.width = 64;
        desc.channels = 16;
        desc.h2 = diti_tensor_new(graph, DITI_F32, 16 * diti_solver_planes(&desc), 64 * 64, "h2");
        desc.coefficients = diti_tensor_input(graph, DITI_F32, 1, DITI_COEFFICIENTS + 2 + 12, "coefficients");
        desc.health = diti_tensor_input(graph, DITI_U32, 1, 4, "health");
        if (desc.noise && desc.frames) diti_solver_renoise(graph, &desc);
        diti_solver_step(
            graph, diti_tensor_view(graph, twice, 0, 16 * (desc.guided ? 2 : 1) * (desc.learned ? 2 : 1), 0, 64 * 64),
            &desc);
    }
    end(f, NULL);
}

/* A job by the bundled model, with all that stands around a transformer: samplers, guidance, pixels. */
static void add_picture(feigned *f) {
    dit_model_desc model_desc = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    dit_model *model = NULL;
    dit_job *job = NULL;
    diti_device *device = f->b.device;
    dit_error err = DITI_ZERO;
    size_t i, before = device->pipeline_count;
    diti_format(f->what, sizeof f->what, "picture");
    model_desc.source.path = "models/emoji-q8_0.gguf";
    desc.width = desc.height = 64;
    desc.steps = 2;
    desc.prompt = "a fox";
    if (dit_model_load(f->b.context, &model_desc, &model, &err) >= 0) desc.model = model;
    if (!model || dit_job_create(f->b.context, &desc, &job, &err) < 0) {
        fprintf(stderr, "%s: %s\n", f->what, err.message);
        f->failed_cases++;
    }
    for (i = before; i < device->pipeline_count; i++) {
        diti_dispatch dispatch;
        memset(&dispatch, 0, sizeof dispatch);
        dispatch.kernel = device->pipelines[i]->kernel;
        dispatch.stated = device->pipelines[i]->stated;
        memcpy(dispatch.constants, device->pipelines[i]->constants, sizeof dispatch.constants);
        find_kernel(f, &dispatch, device->pipelines[i]->pipeline);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void add_all(feigned *f) {
    static const uint32_t heads[] = {64, 72, 80, 88, 96, 112, 128, 144, 160, 192, 224, 256};
    static const uint32_t single[] = {320, 384, 512, 1024, 1152}; /* the only head of autoencoders */
    static const dit_type convolved[] = {DIT_TYPE_F32, DIT_TYPE_F16, DIT_TYPE_Q8_0};
    uint32_t i;
    f->flux = true;
    add_shape(f, find_shape("flux"), DIT_TYPE_Q8_0);
    add_shape(f, find_shape("t5-xxl"), DIT_TYPE_Q8_0);
    add_shape(f, find_shape("clip-l"), DIT_TYPE_F16);
    add_vae(f, 128, DIT_TYPE_F16);
    f->flux = false;
    for (i = 0; i < DITI_COUNT(shapes); i++) {
        add_shape(f, &shapes[i], DIT_TYPE_Q8_0);
        add_shape(f, &shapes[i], DIT_TYPE_F16);
    }
    add_shape(f, find_shape("flux"), DIT_TYPE_I8_ROW);
    add_shape(f, find_shape("flux"), DIT_TYPE_I8_ROW_ROTATED);
    add_shape(f, find_shape("pixart-sigma-1024"), DIT_TYPE_I8_ROW);
    add_shape(f, find_shape("flux"), DIT_TYPE_I4_GROUP);
    add_shape(f, find_shape("flux"), DIT_TYPE_I4_ROW_ROTATED);
    for (i = DIT_TYPE_F32; i <= DIT_TYPE_I4_ROW_ROTATED; i++) add_products(f, (dit_type)i);
    add_factors(f, DIT_TYPE_F8_E4M3);
    add_factors(f, DIT_TYPE_NVFP4);
    f->b.device->int4_activations = true;
    add_products(f, DIT_TYPE_I4_ROW_ROTATED);
    f->b.device->int4_activations = false;
    for (i = 0; i < DITI_COUNT(heads); i++) add_attentions(f, heads[i]);
    for (i = 0; i < DITI_COUNT(single); i++) add_attention(f, single[i], 4096, &plain);
    add_encoders(f, DIT_TYPE_Q8_0);
    add_encoders(f, DIT_TYPE_F16);
    add_lora_shapes(f);
    for (i = 0; i < DITI_COUNT(convolved); i++) {
        add_vae(f, 64, convolved[i]);
        add_conv(f, 128, 128, 3, 2, false, convolved[i]);
        add_conv(f, 512, 512, 3, 1, true, convolved[i]);
        add_conv(f, 3, 128, 3, 1, false, convolved[i]);
        add_conv(f, 64, 64, 3, 1, false, convolved[i]); /* TAESD's width */
        add_clip(f, 256, 256, 3, 3, false, convolved[i]);
        add_clip(f, 128, 128, 3, 3, true, convolved[i]);
        add_clip(f, 384, 768, 3, 1, false, convolved[i]);
    }
    add_channels(f, 32, 70, 0);  /* Sana 1.6B */
    add_channels(f, 128, 8, 0);  /* the widest head */
    add_channels(f, 32, 16, 32); /* its autoencoder */
    add_reuse(f);
    add_pixels(f);
    add_rest(f);
    add_picture(f);
}

/* ---- what the driver said ---- */

/* Names by driver: RADV, ANV, NVK, Turnip, Honeykrisp. Values that NVK spills to other registers are not counted; ANV
   counts registers that hold 8 or 16 lanes, Turnip registers of four floats for each thread and stores to a thread's
   own memory, Honeykrisp registers of 16 bits for each thread and, as occupancy, the threads of a core; its spills have
   ANV's name. PanVK's names are ANV's, Turnip's and Honeykrisp's; its registers have 32 bits, its occupancy is 2 where
   a thread takes no more than half of them, else 1. Scratch, NVK's SLM, is memory in bytes, with arrays that stand
   there. */
static const char *const spill_names[] = {"Spilled VGPRs", "Spills", "Spills to memory", "STP Count"};
static const char *const scratch_names[] = {"Scratch size", "Scratch Memory Size", "Scratch", "SLM size"};
static const char *const register_names[] = {"VGPRs", "Max live registers", "Number of GPRs", "Registers used", "GPRs"};
static const char *const occupancy_names[] = {"Subgroups per SIMD", "Max warps/SM", "Max Waves Per Core", "Threads"};

static double number_of(const char *line, const char *const *names, size_t count) {
    double most = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        char wanted[48];
        const char *at;
        diti_format(wanted, sizeof wanted, "\t%s=", names[i]);
        at = strstr(line, wanted);
        if (at && strtod(at + strlen(wanted), NULL) > most) most = strtod(at + strlen(wanted), NULL);
    }
    return most;
}

static int read_statistics(feigned *f, const char *path) {
    FILE *in = fopen(path, "r");
    char line[4096];
    if (!in) return complain(2, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, in)) {
        unsigned long long handle;
        int result;
        double ms, spills = number_of(line, spill_names, DITI_COUNT(spill_names));
        uint32_t i;
        if (!(spills > 0)) spills = number_of(line, scratch_names, DITI_COUNT(scratch_names));
        if (sscanf(line, "pipeline %llx %d %lf", &handle, &result, &ms) != 3) continue;
        for (i = 0; i < f->count; i++) {
            kernel *k = &f->kernels[i];
            if (!k->pipeline || (unsigned long long)(uintptr_t)k->pipeline != handle) continue;
            k->ms += ms;
            if (spills > k->spills) k->spills = spills;
            k->registers = number_of(line, register_names, DITI_COUNT(register_names));
            k->occupancy = number_of(line, occupancy_names, DITI_COUNT(occupancy_names));
        }
    }
    fclose(in);
    return EXIT_GOOD;
}

/* ---- the row ---- */

static int compare_kernels(const void *a, const void *b) {
    double d = ((const kernel *)b)->flops - ((const kernel *)a)->flops;
    return (d > 0) - (d < 0);
}

static void print_kernel(const char *how, const kernel *k) {
    uint32_t i;
    printf("%s %s [", how, diti_kernel_name(k->kernel));
    for (i = 0; k->stated >> i; i++)
        if (k->stated >> i & 1u) printf("%s%u:%u", i ? "," : "", i, k->constants[i]);
    printf("] %s: %.0f registers, %.0f spilled, occupancy %.0f, %.0f ms\n", k->what, k->registers, k->spills,
           k->occupancy, k->ms);
}

/* Modules that do what no other does; of those that multiply or attend, the device chooses. */
static bool is_needed(diti_kernel kernel) {
    const char *name = diti_kernel_name(kernel);
    return strncmp(name, "gemm", 4) && strncmp(name, "attention", 9) && kernel != DITI_KERNEL_COOP_LAYOUT;
}

static uint32_t print_never(const feigned *f) {
    uint32_t kernel, i, never = 0;
    for (kernel = 0; kernel < DITI_KERNELS; kernel++) {
        for (i = 0; i < f->count && (uint32_t)f->kernels[i].kernel != kernel;) i++;
        if (i < f->count || !is_needed((diti_kernel)kernel)) continue;
        printf("never %s: no case asks for it\n", diti_kernel_name((diti_kernel)kernel));
        never++;
    }
    return never;
}

static void print_row(feigned *f, const char *name) {
    const diti_device *device = f->b.device;
    bool radv = strstr(device->info.name, "RADV") != NULL;
    uint32_t failed = f->failed_cases, spilled = 0, i;
    double flux = 0, total = 0, slowest = 0;
    qsort(f->kernels, f->count, sizeof *f->kernels, compare_kernels);
    for (i = 0; i < f->count; i++) {
        const kernel *k = &f->kernels[i];
        failed += !k->pipeline;
        spilled += k->spills > 0;
        total += k->ms;
        if (k->flux) flux += k->ms;
        if (k->ms > slowest) slowest = k->ms;
    }
    printf("| %s | %s | %u | %u | %u | %.1f | %.1f | %.0f |", name, diti_rung_name(device->rung), f->count, failed,
           spilled, flux * 1e-3, total * 1e-3, slowest);
    for (i = 0; i < HOT && i < f->count; i++) {
        if (f->kernels[i].occupancy > 0)
            printf(" %.0f:%.0f", f->kernels[i].registers, f->kernels[i].occupancy);
        else
            printf(" %.0f", f->kernels[i].registers);
    }
    printf(" |\n");
    for (i = 0; i < f->count; i++) {
        if (!f->kernels[i].pipeline) print_kernel("fails", &f->kernels[i]);
        if (f->kernels[i].spills > 0) print_kernel("spills", &f->kernels[i]);
    }
    for (i = 0; i < HOT && i < f->count; i++) print_kernel("hot", &f->kernels[i]);
    if (getenv("FEIGNED_EMULATED")) flux = 0; /* those seconds are the emulator's */
    if (print_never(f) || failed || spilled || flux * 1e-3 > (radv ? MOST_SECONDS_RADV : MOST_SECONDS))
        printf("missed\n");
}

/* ---- one case, as tools/versus_ggml.c understands it ---- */

/* Prints a line for each dispatch, as the layer writes it, and what it computes. */
static int add_case(feigned *f, const char *text) {
    uint32_t tokens, a, k, c, frames = 1;
    char name[16];
    size_t i;
    if (sscanf(text, "gemm:%15[^:]:%u:%u:%u", name, &tokens, &a, &k) == 4) {
        diti_linear_desc desc = DITI_ZERO;
        const diti_weight *weight;
        dit_type type;
        if (!find_type(name, strlen(name), &type)) return complain(2, "%s: no such type", name);
        begin(f, text, "", type);
        desc.name = "product";
        weight = random_weight(&f->b, type, a, k, 1);
        diti_graph_scope(&f->b.graph, "block", 0);
        diti_linear(&f->b.graph, input(&f->b, tokens, k, "x"), weight, &desc);
    } else if (sscanf(text, "attention:%u:%u:%u", &k, &a, &tokens) == 3) {
        diti_attention_desc desc = DITI_ZERO;
        diti_tensor q, kk, v;
        begin(f, text, "", DIT_TYPE_F16);
        desc.batch = 1;
        desc.heads = a;
        desc.head_dim = k;
        desc.scale = 0.1f;
        q = input(&f->b, tokens, a * k, "q");
        kk = input(&f->b, tokens, a * k, "k");
        v = input(&f->b, tokens, a * k, "v");
        diti_attention(&f->b.graph, q, kk, v, &desc);
    } else if (sscanf(text, "conv:%u:%u:%u:%u", &c, &a, &k, &frames) >= 3) {
        diti_conv_desc desc = DITI_ZERO;
        const diti_weight *weight;
        begin(f, text, "", DIT_TYPE_F16);
        weight = random_weight(&f->b, DIT_TYPE_F16, a, c * frames * k * k, k);
        if (f->b.weights) f->b.weights->weight.frames = frames;
        desc.batch = frames;
        desc.stride = 1;
        desc.height = desc.width = 64;
        desc.pad_before = desc.pad_after = k / 2;
        desc.frames_before = frames - 1;
        desc.name = "conv";
        diti_conv(&f->b.graph, input(&f->b, frames * 64 * 64, c, "x"), weight, &desc);
    } else {
        return complain(2, "%s: no such case", text);
    }
    for (i = 0; i < f->b.graph.dispatch_count; i++) {
        const diti_dispatch *d = &f->b.graph.dispatches[i];
        VkPipeline pipeline = VK_NULL_HANDLE;
        if (diti_pipeline_get(f->b.device, d->kernel, d->constants, d->stated, &pipeline, &f->b.err) < 0)
            return complain(2, "%s", f->b.err.message);
        printf("constants %llx", (unsigned long long)(uintptr_t)pipeline); /* which no driver sees, see vk/fold.c */
        for (c = 0; d->stated >> c; c++)
            if (d->stated >> c & 1u) printf(" %u:%u", c, d->constants[c]);
        printf("\ndispatch %llx %u 1 1 %s\n", (unsigned long long)(uintptr_t)pipeline, d->groups,
               diti_kernel_name(d->kernel));
    }
    end(f, NULL);
    return f->failed_cases ? 2 : EXIT_GOOD;
}

int main(int count, char **texts) {
    static feigned f;
    dit_context_desc desc = DITI_ZERO;
    const char *more = getenv("FEIGNED_OVERRIDES");
    char overrides[256];
    int code;
    if (count == 2 && strcmp(texts[1], "head") == 0) {
        printf(
            "| GPU | rung | pipelines | failed | spill | FLUX.1, s | all, s | slowest, ms | registers:occupancy of the five hottest |\n"
            "|---|---|---|---|---|---|---|---|---|\n");
        return EXIT_GOOD;
    }
    if (count != 3) return complain(2, "feigned head, or feigned NAME STATISTICS");
    f.kernels = calloc(MOST_KERNELS, sizeof *f.kernels);
    f.b.out = stdout;
    diti_format(overrides, sizeof overrides, "selftest=skip%s%s", more ? "," : "", more ? more : "");
    desc.overrides = overrides;
    if (!f.kernels) return complain(2, "out of memory");
    if (dit_context_create(&desc, &f.b.context, &f.b.err) < 0) return failed(&f.b), 2;
    f.b.device = f.b.context->device;
    f.b.env = f.b.context->env;
    if (strcmp(texts[1], "case") == 0) return add_case(&f, texts[2]);
    add_all(&f);
    code = read_statistics(&f, texts[2]);
    if (!code) print_row(&f, texts[1]);
    dit_context_destroy(f.b.context);
    free(f.kernels);
    return code;
}
