/* build/dit --info: what a model is, what it takes and what it lacks. Nothing is loaded. Not part of dit.h. */
#ifndef INFO_H
#define INFO_H
#include "options.h"

/* ---- Numbers ---- */

/* A number with commas: "1,234,567". */
static const char *grouped(uint64_t value) {
    static char texts[4][32];
    static unsigned next;
    char digits[24], *out = texts[next++ % 4], *p = out;
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value), i;
    for (i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) *p++ = ',';
        *p++ = digits[i];
    }
    *p = 0;
    return out;
}

/* ---- Parts ---- */

static const dit_role weight_roles[] = {
    DIT_ROLE_TEXT_1,        DIT_ROLE_TEXT_2, DIT_ROLE_TEXT_3, DIT_ROLE_IMAGE_ENCODER, DIT_ROLE_TRANSFORMER,
    DIT_ROLE_TRANSFORMER_2, DIT_ROLE_VAE,    DIT_ROLE_TAE,    DIT_ROLE_CONTROL,       DIT_ROLE_SOUND};
enum { WEIGHT_ROLES = sizeof weight_roles / sizeof weight_roles[0] };

static const char *text_name(const dit_model_info *info, int index) {
    static const char *const plain[] = {"text encoder", "text encoder 2", "text encoder 3"};
    return info->encoders[index] ? info->encoders[index] : plain[index];
}

static const char *role_name(const dit_model_info *info, dit_role role) {
    static char name[64];
    switch (role) {
    case DIT_ROLE_TRANSFORMER: return "transformer";
    case DIT_ROLE_TEXT_1: return text_name(info, 0);
    case DIT_ROLE_TEXT_2: return text_name(info, 1);
    case DIT_ROLE_TEXT_3: return text_name(info, 2);
    case DIT_ROLE_VAE: return "autoencoder";
    case DIT_ROLE_TAE: return "tiny autoencoder";
    case DIT_ROLE_CONTROL: return "control net";
    case DIT_ROLE_SOUND: return "sound";
    case DIT_ROLE_TRANSFORMER_2:
        return info->default_frames ? "transformer for low noise" : "unconditional transformer"; /* of Ideogram 4 */
    case DIT_ROLE_IMAGE_ENCODER: return "image encoder";
    case DIT_ROLE_SCHEDULER: return "scheduler";
    case DIT_ROLE_TOKENIZER_1:
    case DIT_ROLE_TOKENIZER_2:
    case DIT_ROLE_TOKENIZER_3:
        snprintf(name, sizeof name, "tokenizer of %s", text_name(info, (int)role - DIT_ROLE_TOKENIZER_1));
        return name;
    default: return "part";
    }
}

/* "missing: autoencoder: REPOSITORY: FILE", a line each. */
static void tell_missing(const dit_model_info *info) {
    int role;
    if (!info->missing) printf("missing: nothing\n");
    for (role = 0; role < 32; role++) {
        const char *place;
        if (!(info->missing & 1u << role)) continue;
        place = role < (int)(sizeof info->places / sizeof info->places[0]) ? info->places[role] : NULL;
        printf("missing: %s%s%s\n", role_name(info, (dit_role)role), place ? ", usually from " : "",
               place ? place : "");
    }
    if (info->absent_bytes)
        printf("cut off: %s bytes at the end of the files are not there; they cannot be loaded\n",
               grouped(info->absent_bytes));
}

/* ---- Level 1: weights ---- */

static const char *sized(uint64_t bytes) {
    static char texts[8][16];
    static unsigned next;
    char *out = texts[next++ % 8];
    if (bytes >= 999950000u)
        snprintf(out, sizeof texts[0], "%.2f GB", (double)bytes / 1e9);
    else if (bytes >= 99950)
        snprintf(out, sizeof texts[0], "%.1f MB", (double)bytes / 1e6);
    else
        snprintf(out, sizeof texts[0], "%.1f kB", (double)bytes / 1e3);
    return out;
}

typedef struct weight_table {
    dit_weight_info *rows;
    uint32_t count;
} weight_table;

static uint64_t role_bytes(const weight_table *table, dit_role role) {
    uint64_t bytes = 0;
    uint32_t i;
    for (i = 0; i < table->count; i++) bytes += table->rows[i].role == role ? table->rows[i].device_bytes : 0;
    return bytes;
}

static uint64_t role_parameters(const dit_model_info *info, const weight_table *table, dit_role role) {
    uint64_t count = 0;
    uint32_t i;
    if (role < (dit_role)(sizeof info->parameters / sizeof info->parameters[0])) return info->parameters[role];
    for (i = 0; i < table->count; i++) count += table->rows[i].role == role ? table->rows[i].parameters : 0;
    return count;
}

/* "Q8_0 14.9 MB in 199 tensors, F32 ..." */
static void tell_types(const weight_table *table, dit_role role) {
    const char *between = "";
    uint32_t i;
    for (i = 0; i < table->count; i++) {
        const dit_weight_info *row = &table->rows[i];
        if (row->role != role) continue;
        printf("%s%s %s in %u", between, dit_type_name(row->type), sized(row->file_bytes), row->tensor_count);
        between = ", ";
    }
}

static void tell_weights(const dit_model_info *info, const weight_table *table) {
    uint64_t all = 0, parameters = 0;
    int i;
    printf("%-17s%16s%12s  %s\n", "part", "parameters", "device", "types: bytes in the files, in tensors");
    for (i = 0; i < WEIGHT_ROLES; i++) {
        dit_role role = weight_roles[i];
        uint64_t bytes = role_bytes(table, role), count = role_parameters(info, table, role);
        if (!count) continue;
        printf("%-17s%16s%12s  ", role_name(info, role), grouped(count), sized(bytes));
        tell_types(table, role);
        printf("\n");
        all += bytes;
        parameters += count;
    }
    printf("%-17s%16s%12s\n", "all", grouped(parameters), sized(all));
    if (info->streamed_bytes)
        printf("resident: %s, streamed: %s\n", sized(info->weight_bytes), sized(info->streamed_bytes));
}

/* Clips' sizes and frames are those of the latent times what the autoencoder makes of it. */
static bool lacks_sizes(const dit_model_info *info) {
    return info->default_frames && !info->parameters[DIT_ROLE_VAE] && info->missing & 1u << DIT_ROLE_VAE;
}

/* "ERNIE-Image-Turbo looks alike and wants 8 steps and guidance 1"; NULL: the model's files tell what it is, or say
   steps of their own, as dit-convert writes them. */
static const char *distilled_advice(const dit_model *model, const dit_model_info *info) {
    return info->default_steps > 8 ? dit_model_distilled(model) : NULL;
}

static void tell_family(const char *path, const dit_model *model, const dit_model_info *info) {
    const char *advice = distilled_advice(model, info);
    printf("%s: %s%s%s\n", path, info->family[0] ? info->family : "no transformer", info->variant[0] ? " " : "",
           info->variant);
    if (!info->layers) return;
    printf("%u layers", info->layers);
    if (info->single_layers) printf(" (%u double, %u single)", info->layers - info->single_layers, info->single_layers);
    printf(", hidden %u, %u heads, patch %u, %u latent channels", info->hidden, info->heads, info->patch,
           info->latent_channels);
    if (info->class_count) printf(", %u classes", info->class_count);
    printf("\n");
    if (!lacks_sizes(info)) printf("%ux%u pixels, ", info->default_width, info->default_height);
    printf("%u steps, guidance %g", info->default_steps, (double)info->default_guidance);
    if (info->default_low_guidance > 0 && info->default_low_guidance != info->default_guidance)
        printf(", then %g", (double)info->default_low_guidance);
    if (info->default_sound_guidance > 0) printf(", of sound %g", (double)info->default_sound_guidance);
    printf("%s%s unless told otherwise\n", info->default_sampler[0] ? ", sampler " : "", info->default_sampler);
    if (advice) printf("%s (--steps, --cfg-scale)\n", advice);
    if (info->sound_rate)
        printf("clips have sound: %u channels, %u Hz\n", info->sound_channels, info->sound_rate);
    else if (info->lacks_sound)
        printf("clips have no sound: audio_vae or vocoder is missing (--audio-vae names their file)\n");
}

/* ---- Level 2: memory ---- */

typedef struct part_peak { /* the peak of the ops between two places of a plan */
    const char *name;
    uint64_t live;
    double flops;
} part_peak;

typedef struct plan_view { /* the numbers that the inspector told */
    part_peak parts[3];    /* text, transformer, autoencoder */
    uint64_t peak;         /* most bytes of the arena that live at once */
    uint32_t peak_op, ops;
    const char *segment; /* the segment of the op told last, for headings */
    int level;
} plan_view;

static part_peak *part_of(plan_view *view, const char *segment) {
    return &view->parts[strcmp(segment, "encode") == 0                                      ? 0
                        : strcmp(segment, "decode") == 0 || strcmp(segment, "preview") == 0 ? 2
                                                                                            : 1];
}

static bool measure_op(const dit_op_info *op, void *user) {
    plan_view *view = user;
    part_peak *part = part_of(view, op->segment);
    if (op->live > part->live) part->live = op->live;
    part->flops += op->flops * op->runs;
    if (op->live > view->peak) view->peak = op->live, view->peak_op = op->index;
    view->ops++;
    return true;
}

static void tell_memory(bool clip, const weight_table *table, const plan_view *view, const dit_memory *memory) {
    uint64_t texts =
        role_bytes(table, DIT_ROLE_TEXT_1) + role_bytes(table, DIT_ROLE_TEXT_2) + role_bytes(table, DIT_ROLE_TEXT_3);
    const uint64_t sound = role_bytes(table, DIT_ROLE_SOUND);
    const uint64_t weights[3] = {texts, role_bytes(table, DIT_ROLE_TRANSFORMER),
                                 role_bytes(table, DIT_ROLE_VAE) + role_bytes(table, DIT_ROLE_TAE) + sound};
    const char *const names[3] = {"text", "transformer",
                                  !clip   ? "autoencoder"
                                  : sound ? "decoders (*)"
                                          : "autoencoder (*)"};
    int i;
    printf("%-17s%12s%16s%14s\n", "while it works", "weights", "activations", "GFLOP");
    for (i = 0; i < 3; i++) {
        if (!view->parts[i].live) continue;
        printf("%-17s%12s%16s%14.1f\n", names[i], sized(weights[i]), sized(view->parts[i].live),
               view->parts[i].flops * 1e-9);
    }
    printf("device memory: %s = weights %s + the job's %s; host memory: %s\n", sized(memory->peak),
           sized(memory->weights), sized(memory->activations), sized(memory->host));
    if (strcmp(memory->split, "cfg1") != 0) printf("split over devices: %s", memory->split);
    if (strcmp(memory->split, "cfg1") != 0 && memory->seconds > 0)
        printf(", %.3g s a picture predicted", memory->seconds);
    if (strcmp(memory->split, "cfg1") != 0) printf("\n");
    if (memory->streamed) printf("read from the file while it runs: %s of weights\n", sized(memory->streamed));
    if (clip) printf("(*) a chunk of frames at a time; decoded frames go to the host's memory\n");
}

/* ---- Level 3: ops, and tensors over time ---- */

static void shape_text(const dit_op_info *op, char *out, size_t size) {
    const uint32_t *s = op->shape;
    switch (op->kind) {
    case DIT_OP_PRODUCT: snprintf(out, size, "[%u,%u]x[%u]", s[0], s[1], s[2]); break;
    case DIT_OP_CONVOLUTION: snprintf(out, size, "[%u,%u]x[%u] %ux%u", s[0], s[1], s[2], s[3], s[3]); break;
    case DIT_OP_ATTENTION: snprintf(out, size, "%ux%u, %u of %u, batch %u", s[0], s[1], s[2], s[3], s[4]); break;
    default: snprintf(out, size, "[%u,%u]", s[0], s[1]); break;
    }
}

static bool tell_op(const dit_op_info *op, void *user) {
    plan_view *view = user;
    char shape[80];
    if (!view->segment || strcmp(view->segment, op->segment) != 0)
        printf("%s%s%s\n", op->segment, op->runs > 1 ? ", each step" : "", op->runs == 0 ? ", never" : "");
    view->segment = op->segment;
    shape_text(op, shape, sizeof shape);
    printf("%6u  %-22s %-26s %10.3f %10.3f %10.1f%c  %s%s%s\n", op->index, op->name, shape, op->flops * 1e-9,
           op->bytes * 1e-6, (double)op->live * 1e-6, op->index == view->peak_op ? '*' : ' ', op->weight,
           op->weight[0] ? " -> " : "", op->output);
    return true;
}

static bool tell_tensor(const dit_tensor_info *t, void *user) {
    const plan_view *view = user;
    bool at_peak = t->first_op <= view->peak_op && view->peak_op <= t->last_op;
    printf("%6u %6u%c %12llu  %u+%-12llu %-7s[%u,%u] %s%s\n", t->first_op, t->last_op, at_peak && t->arena ? '*' : ' ',
           (unsigned long long)t->bytes, t->block, (unsigned long long)t->offset, dit_type_name(t->type), t->rows,
           t->columns, t->name, t->arena ? "" : " (kept)");
    return true;
}

static dit_result tell_plan(const dit_context *context, const dit_job_desc *desc, plan_view *view, dit_error *err) {
    dit_inspector inspector = {0};
    dit_result result;
    inspector.op = tell_op;
    inspector.user = view;
    printf("ops: number, name, shape, GFLOP, MB moved, MB of the arena alive (* most of all), what of\n");
    result = dit_job_inspect(context, desc, &inspector, err);
    if (result != DIT_OK) return result;
    inspector.op = NULL;
    inspector.tensor = tell_tensor;
    printf("tensors: first and last op (* alive at the peak, op %u: %s), bytes, block+offset, type, shape, name\n",
           view->peak_op, sized(view->peak));
    return dit_job_inspect(context, desc, &inspector, err);
}

/* ---- All of it ---- */

/* Tells what a job of the model would take; desc is complete. */
static dit_result tell_job(const dit_context *context, const weight_table *table, const dit_job_desc *desc, int level,
                           dit_error *err) {
    dit_inspector inspector = {0};
    plan_view view = {0};
    dit_memory memory;
    dit_result result = dit_job_memory(context, desc, &memory, err);
    inspector.op = measure_op;
    inspector.user = &view;
    if (result == DIT_OK) result = dit_job_inspect(context, desc, &inspector, err);
    if (result != DIT_OK) return result;
    printf("\n%ux%u pixels, ", desc->width, desc->height);
    if (desc->frame_count) printf("%u frames, ", desc->frame_count);
    printf("%u steps%s", desc->steps, desc->image_count > 1 ? ", " : "\n");
    if (desc->image_count > 1) printf("%u %s at a time\n", desc->image_count, desc->frame_count ? "clips" : "pictures");
    tell_memory(desc->frame_count > 1, table, &view, &memory);
    if (level < 3) return DIT_OK;
    printf("\n");
    return tell_plan(context, desc, &view, err);
}

static dit_result read_weights(const dit_model *model, weight_table *out, dit_error *err) {
    dit_result result = dit_model_weights(model, NULL, &out->count, err);
    if (result != DIT_OK) return result;
    out->rows = calloc(out->count + 1, sizeof *out->rows);
    if (!out->rows) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    return dit_model_weights(model, out->rows, &out->count, err);
}
#endif
