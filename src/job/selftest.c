/* Self-tests: every class of kernels above the base rung computes on the device what production has it compute, once
   for a device and its driver, and is left out where that fails. A crash or a hang of the machine is found by the next
   start, from a mark that the application kept. Where the application lends threads, pipelines are compiled side by
   side before the self-tests run one after the other. */
#include "job/job.h"

typedef struct diti_selftest {
    dit_context *context;
    diti_device *device; /* the device; while pipelines are listed a copy of it (diti_device.wanted) */
    bool ahead;          /* pipelines are compiled ahead */
    bool undecided;      /* some kernels are chosen by what the first stage finds; set while it is listed */
    uint32_t layout;     /* coop_layout, where it was found ahead */
    dit_error why;       /* error of the last failure; its result is DIT_OK where something was computed wrong */
} diti_selftest;

/* --- marks: which self-tests have begun and never ended --- */

#define DITI_MARK_MAGIC 0x6d746964u /* "ditm" */

DIT_INTERNAL void diti_marks_read(diti_marks *marks, const dit_context_desc *desc) {
    uint32_t words[2];
    marks->hook = desc->marker;
    marks->count = 0;
    if (!desc->mark || desc->mark_size < sizeof words) return;
    memcpy(words, desc->mark, sizeof words);
    if (words[0] != DITI_MARK_MAGIC || words[1] > DITI_MAX_MARKS ||
        desc->mark_size != sizeof words + words[1] * sizeof *marks->keys)
        return;
    marks->count = words[1];
    memcpy(marks->keys, (const unsigned char *)desc->mark + sizeof words, marks->count * sizeof *marks->keys);
}

static bool diti_marks_have(const diti_marks *marks, uint64_t key) {
    uint32_t i;
    for (i = 0; i < marks->count; i++)
        if (marks->keys[i] == key) return true;
    return false;
}

static void diti_marks_hand_over(const diti_marks *marks) {
    unsigned char mark[8 + DITI_MAX_MARKS * sizeof(uint64_t)];
    uint32_t words[2];
    if (!marks->hook.func) return;
    words[0] = DITI_MARK_MAGIC;
    words[1] = marks->count;
    memcpy(mark, words, sizeof words);
    memcpy(mark + sizeof words, marks->keys, marks->count * sizeof *marks->keys);
    marks->hook.func(marks->count ? mark : NULL, marks->count ? sizeof words + marks->count * sizeof *marks->keys : 0,
                     marks->hook.user);
}

/* The oldest ones are forgotten first. */
static void diti_marks_add(diti_marks *marks, uint64_t key) {
    if (marks->count == DITI_MAX_MARKS) memmove(marks->keys, marks->keys + 1, --marks->count * sizeof *marks->keys);
    marks->keys[marks->count++] = key;
    diti_marks_hand_over(marks);
}

static void diti_marks_remove(diti_marks *marks, uint64_t key) {
    uint32_t i, kept = 0;
    for (i = 0; i < marks->count; i++)
        if (marks->keys[i] != key) marks->keys[kept++] = marks->keys[i];
    marks->count = kept;
    diti_marks_hand_over(marks);
}

/* --- what a class has to compute --- */

/* The class that decides about a rung. */
static diti_class diti_selftest_rung_class(diti_rung rung) {
    return rung == DITI_RUNG_COOP2  ? DITI_CLASS_COOP2
           : rung == DITI_RUNG_COOP ? DITI_CLASS_COOP
           : rung == DITI_RUNG_HALF ? DITI_CLASS_HALF
           : rung == DITI_RUNG_FP16 ? DITI_CLASS_FP16
                                    : DITI_CLASSES;
}

/* On a software driver, which compiles slowly and climbs above the base rung only in tests, one form of each kernel
   will do. */
static dit_result diti_selftest_products(diti_device *device, bool i8, bool conv, bool *agrees, dit_error *err) {
    const bool all = device->rung > DITI_RUNG_BASE && !device->is_cpu;
    const dit_type type = i8 ? DIT_TYPE_I8_ROW : DIT_TYPE_STORED;
    DITI_TRY(diti_probe_product(device, DITI_PROBE_PLAIN, type, agrees, err));
    if (*agrees && all) DITI_TRY(diti_probe_product(device, DITI_PROBE_HIDDEN, type, agrees, err));
    if (*agrees && all) DITI_TRY(diti_probe_product(device, DITI_PROBE_RESIDUAL, type, agrees, err));
    if (*agrees && all && conv) DITI_TRY(diti_probe_product(device, DITI_PROBE_CONV, DIT_TYPE_STORED, agrees, err));
    return DIT_OK;
}

/* Forms whose input is halves, since others have no pairs of them. */
static dit_result diti_selftest_pairs(diti_device *device, bool *agrees, dit_error *err) {
    const bool all = !device->is_cpu;
    DITI_TRY(diti_probe_product(device, DITI_PROBE_HIDDEN, DIT_TYPE_STORED, agrees, err));
    if (*agrees && all) DITI_TRY(diti_probe_product(device, DITI_PROBE_RESIDUAL, DIT_TYPE_STORED, agrees, err));
    if (*agrees && all && device->coop_convolutions)
        DITI_TRY(diti_probe_product(device, DITI_PROBE_CONV, DIT_TYPE_STORED, agrees, err));
    return DIT_OK;
}

/* Weights of both types; those of E5M2 where the device has matrices for them. */
static dit_result diti_selftest_float8(diti_device *device, bool *agrees, dit_error *err) {
    const bool e5m2 = device->coop_float8 == 2 || device->coop.subgroup_shape[DITI_COOP_E4M3_E5M2].m;
    DITI_TRY(diti_probe_product(device, DITI_PROBE_PLAIN, DIT_TYPE_F8_E4M3, agrees, err));
    if (*agrees && e5m2) DITI_TRY(diti_probe_product(device, DITI_PROBE_PLAIN, DIT_TYPE_F8_E5M2, agrees, err));
    if (device->is_cpu) return DIT_OK;
    if (*agrees) DITI_TRY(diti_probe_product(device, DITI_PROBE_HIDDEN, DIT_TYPE_F8_E4M3, agrees, err));
    if (*agrees) DITI_TRY(diti_probe_product(device, DITI_PROBE_RESIDUAL, DIT_TYPE_F8_E4M3, agrees, err));
    return DIT_OK;
}

/* Blocks of int8 by the integer dot product, although the device may have climbed to matrices that it doubts. */
static dit_result diti_selftest_packed_dot(diti_device *device, bool *agrees, dit_error *err) {
    const bool forced = device->packed_dot_forced;
    dit_result result;
    device->packed_dot_forced = true;
    result = diti_probe_product(device, DITI_PROBE_PLAIN, DIT_TYPE_Q8_0, agrees, err);
    if (result >= 0 && *agrees && !device->is_cpu)
        result = diti_probe_product(device, DITI_PROBE_HIDDEN, DIT_TYPE_Q8_0, agrees, err);
    if (result >= 0 && *agrees && !device->is_cpu)
        result = diti_probe_product(device, DITI_PROBE_RESIDUAL, DIT_TYPE_Q8_0, agrees, err);
    device->packed_dot_forced = forced;
    return result;
}

/* Products of a rung, with that one's kernels although the device may have climbed higher. */
static dit_result diti_selftest_rung(diti_device *device, diti_rung rung, bool *agrees, dit_error *err) {
    const diti_rung used = device->rung;
    const uint32_t team = device->team;
    dit_result result;
    device->rung = rung;
    device->team = 0; /* broadcasts are a class of their own */
    result = diti_selftest_products(device, false, rung == DITI_RUNG_FP16 || rung == DITI_RUNG_HALF, agrees, err);
    device->rung = used;
    device->team = team;
    return result;
}

/* Products and convolutions by broadcasts, although the device may have climbed to matrices. */
static dit_result diti_selftest_broadcast(diti_device *device, bool *agrees, dit_error *err) {
    const diti_rung used = device->rung;
    dit_result result;
    device->rung = DITI_RUNG_HALF;
    result = diti_selftest_products(device, false, true, agrees, err);
    device->rung = used;
    return result;
}

/* The first `count` of these: heads that leave something over, those of most models, and the widest that go on
   matrices, as autoencoders or text encoders have them. */
static dit_result diti_selftest_attention(diti_device *device, bool int8, uint32_t count, bool *agrees,
                                          dit_error *err) {
    uint32_t dims[] = {72, 64, 128, 512}, i;
    if (device->is_cpu) return diti_probe_attention(device, int8, 24, agrees, err);
    if (!diti_attention_has_matrices(device, dims[3])) dims[3] = 256;
    for (i = 0, *agrees = true; i < count && *agrees; i++)
        DITI_TRY(diti_probe_attention(device, int8, dims[i], agrees, err));
    return DIT_OK;
}

/* Attention as one of three classes has it, although the device may use another: on the matrices of
   VK_KHR_cooperative_matrix, with attention_half.comp, or with halves in memory alone. */
static dit_result diti_selftest_attention_of(diti_device *device, diti_class which, bool *agrees, dit_error *err) {
    const bool matrices = which == DITI_CLASS_COOP_ATTENTION, plain = which == DITI_CLASS_FP16;
    const bool half = device->half_attention, khr = device->coop_attention_khr;
    const uint32_t used = device->coop_attention, team = device->attention_team;
    dit_result result;
    if (plain) device->half_attention = false;
    device->coop_attention = device->coop_attention_khr = matrices;
    device->attention_team = 0; /* broadcasts are a class of their own */
    result = diti_selftest_attention(device, false, matrices ? 4 : plain ? 1 : 3, agrees, err);
    device->half_attention = half;
    device->coop_attention_khr = khr;
    device->coop_attention = used;
    device->attention_team = team;
    return result;
}

/* Products and attention that compute with halves in memory and without matrices. */
static dit_result diti_selftest_fp16(diti_device *device, bool *agrees, dit_error *err) {
    DITI_TRY(diti_selftest_rung(device, DITI_RUNG_FP16, agrees, err));
    return *agrees ? diti_selftest_attention_of(device, DITI_CLASS_FP16, agrees, err) : DIT_OK;
}

static uint64_t diti_selftest_layout_key(const diti_device *device) {
    const uint64_t parts[2] = {device->proof_key, diti_hash("layout of matrices", 18)};
    return diti_hash(parts, sizeof parts);
}

/* Takes over the layout that the cache blob tells; false: the matrices cannot have it. */
static bool diti_selftest_take_layout(diti_device *device) {
    const diti_coop_shape *shape = &device->coop.subgroup_shape[DITI_COOP_F16];
    uint32_t layout = 0;
    if (!diti_tuned_find(device, diti_selftest_layout_key(device), &layout)) return true;
    if (!diti_coop_layout_fits(layout, device->coop.subgroup, shape)) return false;
    device->coop_layout = layout;
    return true;
}

static bool diti_selftest_layout_is_told(const diti_selftest *test) {
    char told[16];
    return diti_override_text(test->context->overrides, "layout", told, sizeof told);
}

/* Attention on the matrices of VK_KHR_cooperative_matrix: as the layout of matrices allows it where the results are
   right, else through shared memory. The cache blob keeps the layout beside the proof. */
static dit_result diti_selftest_coop_attention(const diti_selftest *test, bool *agrees, dit_error *err) {
    diti_device *device = test->device;
    if (!diti_selftest_layout_is_told(test)) {
        if (!device->wanted) DITI_TRY(diti_probe_layout(device, &device->coop_layout, err));
        if (device->wanted) device->coop_layout = test->layout;
    }
    DITI_TRY(diti_selftest_attention_of(device, DITI_CLASS_COOP_ATTENTION, agrees, err));
    if (!*agrees && device->coop_layout) {
        diti_log(&device->env, DITI_LOG_WARNING, "device %s computes attention wrong by the layout of its matrices",
                 device->info.name);
        device->coop_layout = 0;
        DITI_TRY(diti_selftest_attention_of(device, DITI_CLASS_COOP_ATTENTION, agrees, err));
    }
    if (!device->wanted && !diti_tuned_put(device, diti_selftest_layout_key(device), device->coop_layout))
        return diti_fail_memory(err, "the device self-test");
    return DIT_OK;
}

static dit_result diti_selftest_compute(const diti_selftest *test, diti_class which, bool *agrees, dit_error *err) {
    diti_device *device = test->device;
    switch (which) {
    case DITI_CLASS_COOP2: return diti_selftest_rung(device, DITI_RUNG_COOP2, agrees, err);
    case DITI_CLASS_COOP: return diti_selftest_rung(device, DITI_RUNG_COOP, agrees, err);
    case DITI_CLASS_HALF: return diti_selftest_rung(device, DITI_RUNG_HALF, agrees, err);
    case DITI_CLASS_FP16: return diti_selftest_fp16(device, agrees, err);
    case DITI_CLASS_COOP_CONV: return diti_probe_product(device, DITI_PROBE_CONV, DIT_TYPE_STORED, agrees, err);
    case DITI_CLASS_COOP_PAIRS: return diti_selftest_pairs(device, agrees, err);
    case DITI_CLASS_COOP_I8:
    case DITI_CLASS_DOT: return diti_selftest_products(device, true, false, agrees, err);
    case DITI_CLASS_PACKED_DOT: return diti_selftest_packed_dot(device, agrees, err);
    case DITI_CLASS_COOP_FLOAT8: return diti_selftest_float8(device, agrees, err);
    case DITI_CLASS_BROADCAST: return diti_selftest_broadcast(device, agrees, err);
    case DITI_CLASS_COOP2_ATTENTION: return diti_selftest_attention(device, false, 3, agrees, err);
    case DITI_CLASS_COOP_ATTENTION: return diti_selftest_coop_attention(test, agrees, err);
    case DITI_CLASS_HALF_ATTENTION: return diti_selftest_attention_of(device, which, agrees, err);
    case DITI_CLASS_BROADCAST_ATTENTION: return diti_selftest_attention(device, false, 3, agrees, err);
    case DITI_CLASS_COOP_ATTENTION_I8:
    case DITI_CLASS_DOT_ATTENTION:
        *agrees = true;
        return diti_attention_int8_head(device, 64) ? diti_selftest_attention(device, true, 3, agrees, err) : DIT_OK;
    case DITI_CLASSES: break;
    }
    return diti_selftest_rung(device, DITI_RUNG_BASE, agrees, err);
}

/* Products on pairs of halves have to prove themselves in their own class. Other classes are tested without them, since
   the override `layout` would allow them from the start. */
static dit_result diti_selftest_run(const diti_selftest *test, diti_class which, bool *agrees, dit_error *err) {
    diti_device *device = test->device;
    const bool pairs = device->coop_pairs;
    dit_result result;
    if (which == DITI_CLASS_COOP_PAIRS) return diti_selftest_compute(test, which, agrees, err);
    device->coop_pairs = false;
    result = diti_selftest_compute(test, which, agrees, err);
    device->coop_pairs = pairs;
    return result;
}

/* --- one class --- */

/* A failure that the device cannot help, such as too little memory, says nothing about a class. */
static bool diti_selftest_says_nothing(dit_result result) {
    return result == DIT_ERROR_OUT_OF_HOST_MEMORY || result == DIT_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* The base rung cannot be left out: it is tried again by every start. A copy of the device says and keeps nothing. */
static void diti_selftest_leave_out(const diti_selftest *test, diti_class which, const char *why) {
    diti_device *device = test->device;
    if (device->wanted) return;
    diti_log(&test->context->env, DITI_LOG_WARNING, "device %s fails the self-test of %s: %s", device->info.name,
             diti_class_name(which), why);
    if (which == DITI_CLASSES) return;
    diti_proof_put(device, which, DITI_PROOF_BAD); /* without memory for it, the next start finds out again */
    device->dropped |= DITI_CLASS_BIT(which);
}

/* Lists the pipelines of a class, and takes it for good. A failure is left to the class to find. */
static dit_result diti_selftest_list(const diti_selftest *test, diti_class which, bool *good) {
    diti_selftest_run(test, which, good, NULL);
    *good = true;
    return DIT_OK;
}

/* Runs what a class has to compute; what it means is in *good. An error ends everything. */
static dit_result diti_selftest_prove(diti_selftest *test, diti_class which, bool *good) {
    const char *overrides = test->context->overrides, *name = diti_class_name(which);
    diti_device *device = test->device;
    diti_marks *marks = &test->context->marks;
    uint64_t key = diti_proof_key(device, which);
    dit_result result;
    if (which != DITI_CLASSES) diti_marks_add(marks, key);
    result = diti_selftest_run(test, which, good, &test->why);
    if (result >= 0 && diti_override_is(overrides, "selftest_lose", name))
        result = diti_device_fail(device, VK_ERROR_DEVICE_LOST, "the override selftest_lose", &test->why);
    if (diti_override_is(overrides, "selftest_fail", name)) *good = false;
    if (result == DIT_ERROR_DEVICE_LOST) { /* the mark stays */
        diti_selftest_leave_out(test, which, "it lost the device");
        return result;
    }
    if (which != DITI_CLASSES) diti_marks_remove(marks, key);
    if (diti_selftest_says_nothing(result)) return result;
    if (*good && !diti_proof_put(device, which, DITI_PROOF_GOOD))
        return diti_fail_memory(&test->why, "the device self-test");
    if (!*good) diti_selftest_leave_out(test, which, result < 0 ? test->why.message : "it computes wrong");
    return DIT_OK;
}

/* Whether a class may be used: what is known of it, else what it computes. The rung in use is also run for its time,
   where no cache told it. */
static dit_result diti_selftest_class(diti_selftest *test, diti_class which, bool *good) {
    diti_device *device = test->device;
    diti_proof known = diti_proof_find(device, which);
    *good = known == DITI_PROOF_GOOD;
    memset(&test->why, 0, sizeof test->why);
    if (known != DITI_PROOF_BAD && diti_marks_have(&test->context->marks, diti_proof_key(device, which))) {
        diti_selftest_leave_out(test, which, "an earlier start did not survive it");
        *good = false;
        return DIT_OK;
    }
    if (which == DITI_CLASS_COOP_ATTENTION && *good && !diti_selftest_take_layout(device)) known = DITI_PROOF_UNKNOWN;
    if (known == DITI_PROOF_BAD || known == DITI_PROOF_GOOD) return DIT_OK;
    return device->wanted ? diti_selftest_list(test, which, good) : diti_selftest_prove(test, which, good);
}

/* --- all of them, in two stages --- */

/* All but the rung's: an attention before what takes its place, and before what wants the layout of matrices,
   which the one on them finds. */
static const diti_class diti_selftest_classes[] = {DITI_CLASS_HALF,
                                                   DITI_CLASS_FP16,
                                                   DITI_CLASS_COOP_CONV,
                                                   DITI_CLASS_COOP_I8,
                                                   DITI_CLASS_COOP_FLOAT8,
                                                   DITI_CLASS_DOT,
                                                   DITI_CLASS_PACKED_DOT,
                                                   DITI_CLASS_BROADCAST,
                                                   DITI_CLASS_COOP2_ATTENTION,
                                                   DITI_CLASS_COOP_ATTENTION,
                                                   DITI_CLASS_COOP_PAIRS,
                                                   DITI_CLASS_HALF_ATTENTION,
                                                   DITI_CLASS_BROADCAST_ATTENTION,
                                                   DITI_CLASS_COOP_ATTENTION_I8,
                                                   DITI_CLASS_DOT_ATTENTION};

#define DITI_SELFTEST_PARTS (DITI_COUNT(diti_selftest_classes) + 2) /* the rung, the other classes, and measuring */

/* DIT_CANCELLED: the application has had enough. */
static dit_result diti_selftest_report(const diti_selftest *test, size_t done) {
    const dit_progress *progress = &test->context->progress;
    if (test->device->wanted || !progress->func ||
        progress->func("testing kernels", done, DITI_SELFTEST_PARTS, progress->user))
        return DIT_OK;
    return DIT_CANCELLED;
}

typedef dit_result diti_selftest_stage(diti_selftest *test, dit_error *err);

/* Climbs down from the device's rung until one computes right. */
static dit_result diti_selftest_climb(diti_selftest *test, dit_error *err) {
    diti_device *device = test->device;
    for (;;) {
        diti_class which = diti_selftest_rung_class(device->rung);
        bool good = false;
        dit_result result = diti_selftest_class(test, which, &good);
        if (result >= 0 && good) return DIT_OK;
        if (result >= 0 && which == DITI_CLASSES && !test->why.result)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                             "device %s computes a matrix product wrong even on the base rung; update its driver",
                             device->info.name);
        if (result < 0 || which == DITI_CLASSES) {
            if (err) *err = test->why;
            return test->why.result;
        }
        diti_class_drop(device, which);
        device->dropped |= DITI_CLASS_BIT(which);
    }
}

/* The layout of matrices decides which kernel attention has. Where pipelines are compiled ahead it is found ahead, too,
   with the mark of the class that will find it again, and any failure but a lost device. */
static dit_result diti_selftest_find_layout(diti_selftest *test, dit_error *err) {
    const diti_class which = DITI_CLASS_COOP_ATTENTION;
    diti_device *device = test->device;
    diti_marks *marks = &test->context->marks;
    uint64_t key = diti_proof_key(device, which);
    if (!test->ahead || !diti_class_is_used(device, which) || diti_selftest_layout_is_told(test) ||
        diti_proof_find(device, which) != DITI_PROOF_UNKNOWN || diti_marks_have(marks, key))
        return DIT_OK;
    if (!device->wanted) diti_marks_add(marks, key);
    if (diti_probe_layout(device, &test->layout, err) == DIT_ERROR_DEVICE_LOST) {
        diti_selftest_leave_out(test, which, "it lost the device");
        return DIT_ERROR_DEVICE_LOST;
    }
    if (!device->wanted) diti_marks_remove(marks, key);
    return DIT_OK;
}

/* First what decides about the kernels of the other classes. */
static dit_result diti_selftest_first(diti_selftest *test, dit_error *err) {
    const diti_wanted *wanted = test->device->wanted;
    size_t before;
    dit_result result = diti_selftest_report(test, 0);
    if (result != DIT_OK) return result;
    DITI_TRY(diti_selftest_climb(test, err));
    before = wanted ? wanted->count : 0;
    DITI_TRY(diti_selftest_find_layout(test, err));
    test->undecided = wanted && wanted->count > before;
    return DIT_OK;
}

static dit_result diti_selftest_second(diti_selftest *test, dit_error *err) {
    diti_device *device = test->device;
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_selftest_classes) && result >= 0; i++) {
        diti_class which = diti_selftest_classes[i];
        diti_rung rung = device->rung;
        bool good = true;
        if (!diti_class_is_used(device, which) || which == diti_selftest_rung_class(device->rung)) continue;
        if (device->is_cpu && (which == DITI_CLASS_FP16 || which == DITI_CLASS_COOP_CONV)) continue;
        if (which == DITI_CLASS_DOT && device->coop_i8) continue;
        result = diti_selftest_report(test, i + 1);
        if (result != DIT_OK) return result;
        result = diti_selftest_class(test, which, &good);
        if (result < 0 && err) *err = test->why;
        if (good) continue;
        diti_class_drop(device, which);
        device->dropped |= DITI_CLASS_BIT(which);
        if (result >= 0 && device->rung != rung) result = diti_selftest_climb(test, err);
    }
    DITI_TRY(result);
    diti_class_describe(device, device->dropped);
    if (!device->wanted)
        diti_log(&test->context->env, DITI_LOG_INFO, "device %s, rung %s", device->info.name, device->info.rung);
    result = diti_selftest_report(test, DITI_COUNT(diti_selftest_classes) + 1);
    if (result != DIT_OK) return result;
    result = diti_device_choose_matrices(device, err);
    if (result >= 0) result = diti_device_measure(device, err);
    return result < 0 ? result : diti_device_choose_attention(device, err);
}

/* --- compiling ahead --- */

#define DITI_SELFTEST_AHEAD "ahead" /* in place of the name of a class, for the mark and the override selftest_lose */

static uint64_t diti_selftest_ahead_key(const diti_device *device) {
    const uint64_t parts[2] = {device->proof_key, diti_hash(DITI_SELFTEST_AHEAD, strlen(DITI_SELFTEST_AHEAD))};
    return diti_hash(parts, sizeof parts);
}

/* An override that counts pipelines means the order in which self-tests ask for them. */
DIT_INTERNAL bool diti_selftest_compiles_ahead(const dit_context *context, const diti_device *device) {
    return context->worker.run && !device->fail_pipeline_after &&
           !diti_marks_have(&context->marks, diti_selftest_ahead_key(device));
}

/* Lists what a stage will compile, and the first one what both will where nothing is undecided: the stage passes over a
   copy of the device, which takes every class for good that is not known to be bad. */
static dit_result diti_selftest_want(const diti_selftest *test, diti_selftest_stage *stage, diti_wanted *wanted,
                                     dit_error *err) {
    diti_selftest listing = *test;
    listing.device = (diti_device *)diti_alloc(&test->context->env, sizeof *listing.device);
    if (!listing.device) return diti_fail_memory(err, "the device self-test");
    *listing.device = *test->device;
    listing.device->wanted = wanted;
    stage(&listing, NULL);
    if (stage == diti_selftest_first && !listing.undecided) diti_selftest_second(&listing, NULL);
    diti_free(&test->context->env, listing.device);
    return DIT_OK;
}

/* Compiles the list on all threads that the application lends. A pipeline that the driver cannot compile is left to its
   class to find, and so is a crash: its mark makes the next start compile one after the other. */
static dit_result diti_selftest_compile(const diti_selftest *test, diti_wanted *wanted, dit_error *err) {
    diti_device *device = test->device;
    diti_marks *marks = &test->context->marks;
    const uint64_t key = diti_selftest_ahead_key(device), before = diti_pipelines_compiled(device),
                   start_us = diti_clock_us();
    dit_result result;
    diti_marks_add(marks, key);
    wanted->goes_on = true;
    result = diti_wanted_compile(device, wanted, &test->context->worker, &test->context->progress, NULL);
    if (diti_override_is(test->context->overrides, "selftest_lose", DITI_SELFTEST_AHEAD))
        diti_device_fail(device, VK_ERROR_DEVICE_LOST, "the override selftest_lose", NULL);
    DITI_TRY(diti_device_check(device, err)); /* the mark stays */
    diti_marks_remove(marks, key);
    diti_log(&test->context->env, DITI_LOG_INFO, "device %s: %u of %u pipelines compiled ahead of self-tests in %.2f s",
             device->info.name, (unsigned)(diti_pipelines_compiled(device) - before), (unsigned)wanted->count,
             (double)(diti_clock_us() - start_us) * 1e-6);
    return result == DIT_CANCELLED ? result : DIT_OK;
}

static dit_result diti_selftest_compile_ahead(const diti_selftest *test, diti_selftest_stage *stage, dit_error *err) {
    diti_wanted wanted = DITI_ZERO;
    dit_result result = diti_selftest_want(test, stage, &wanted, err);
    if (result >= 0 && wanted.count > 1) result = diti_selftest_compile(test, &wanted, err);
    diti_wanted_free(&test->context->env, &wanted);
    return result;
}

static dit_result diti_selftest_pass(diti_selftest *test, diti_selftest_stage *stage, dit_error *err) {
    dit_result result = test->ahead ? diti_selftest_compile_ahead(test, stage, err) : DIT_OK;
    return result == DIT_OK ? stage(test, err) : result;
}

DIT_INTERNAL dit_result diti_selftest_device(dit_context *context, diti_device *device, dit_error *err) {
    diti_selftest test;
    dit_result result;
    if (diti_override_is(context->overrides, "selftest", "skip")) return DIT_OK;
    memset(&test, 0, sizeof test);
    test.context = context;
    test.device = device;
    test.ahead = diti_selftest_compiles_ahead(context, device);
    result = diti_selftest_pass(&test, diti_selftest_first, err);
    return result == DIT_OK ? diti_selftest_pass(&test, diti_selftest_second, err) : result;
}
