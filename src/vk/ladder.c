/* Classes of kernels: which ones a device uses, what it uses without one of them, and what is remembered of each. */
#include "vk/vk.h"

DIT_INTERNAL const char *diti_class_name(diti_class which) {
    static const char *const names[] = {"coop2",
                                        "coop",
                                        "half",
                                        "fp16",
                                        "coop_conv",
                                        "coop_pairs",
                                        "coop_i8",
                                        "coop_float8",
                                        "dot",
                                        "packed_dot",
                                        "broadcast",
                                        "coop2_attention",
                                        "coop_attention",
                                        "half_attention",
                                        "broadcast_attention",
                                        "coop_attention_i8",
                                        "dot_attention",
                                        "base"};
    return (size_t)which < DITI_COUNT(names) ? names[which] : "none";
}

DIT_INTERNAL bool diti_device_packs(const diti_device *device) {
    return device->packed_dot &&
           (device->packed_dot_forced || device->rung == DITI_RUNG_HALF || device->rung == DITI_RUNG_FP16);
}

DIT_INTERNAL bool diti_device_dots_attention(const diti_device *device) {
    return device->dot_attention && !(device->coop_attention && device->portions->channels);
}

DIT_INTERNAL bool diti_class_is_used(const diti_device *device, diti_class which) {
    const bool matrices = device->rung >= DITI_RUNG_COOP;
    switch (which) {
    case DITI_CLASS_COOP2: return device->rung == DITI_RUNG_COOP2;
    case DITI_CLASS_COOP: return device->rung == DITI_RUNG_COOP;
    case DITI_CLASS_HALF:
        return device->half_products &&
               (device->rung == DITI_RUNG_HALF || (device->rung > DITI_RUNG_HALF && !device->is_cpu));
    case DITI_CLASS_FP16: return device->rung >= DITI_RUNG_FP16;
    case DITI_CLASS_COOP_CONV: return matrices && device->coop_convolutions;
    case DITI_CLASS_COOP_PAIRS: return matrices && device->coop_pairs && (device->coop_layout & DITI_LAYOUT_PAIRS);
    case DITI_CLASS_COOP_I8: return matrices && device->coop_i8;
    case DITI_CLASS_COOP_FLOAT8: return matrices && device->coop_float8;
    case DITI_CLASS_DOT: return device->dot;
    case DITI_CLASS_PACKED_DOT: return diti_device_packs(device) || (device->packed_dot && device->doubts_matrices);
    case DITI_CLASS_BROADCAST: return device->team && diti_class_is_used(device, DITI_CLASS_HALF);
    case DITI_CLASS_COOP2_ATTENTION: return matrices && device->coop_attention == 2;
    case DITI_CLASS_COOP_ATTENTION: return matrices && device->coop_attention_khr;
    case DITI_CLASS_HALF_ATTENTION: return device->half_attention;
    case DITI_CLASS_BROADCAST_ATTENTION: return device->attention_team && device->rung >= DITI_RUNG_FP16;
    case DITI_CLASS_COOP_ATTENTION_I8: return matrices && device->coop_attention && device->coop_attention_i8;
    case DITI_CLASS_DOT_ATTENTION: return diti_device_dots_attention(device);
    case DITI_CLASSES: break;
    }
    return false;
}

static void diti_class_leave_matrices(diti_device *device) {
    device->rung = DITI_RUNG_HALF;
    device->coop_convolutions = device->coop_i8 = device->coop_attention_khr = device->coop_attention_i8 = false;
    device->coop_attention = device->coop_float8 = 0;
    if (!device->half_products) diti_class_drop(device, DITI_CLASS_HALF);
}

DIT_INTERNAL void diti_class_drop(diti_device *device, diti_class which) {
    switch (which) {
    case DITI_CLASS_COOP2:
        if (device->rung < DITI_RUNG_COOP2) break;
        device->rung = DITI_RUNG_COOP;
        if (device->coop_attention == 2) device->coop_attention = device->coop_attention_khr ? 1 : 0;
        if (!device->coop.subgroup_shape[DITI_COOP_F16].m) diti_class_leave_matrices(device);
        break;
    case DITI_CLASS_COOP:
        if (device->rung >= DITI_RUNG_COOP) diti_class_leave_matrices(device);
        break;
    case DITI_CLASS_HALF:
        device->half_products = false;
        if (device->rung != DITI_RUNG_HALF) break;
        device->rung = DITI_RUNG_FP16;
        device->half_attention = false;
        break;
    case DITI_CLASS_FP16:
        diti_class_drop(device, DITI_CLASS_COOP);
        diti_class_drop(device, DITI_CLASS_HALF);
        device->rung = DITI_RUNG_BASE;
        device->half_attention = false;
        break;
    case DITI_CLASS_COOP_CONV: device->coop_convolutions = false; break;
    case DITI_CLASS_COOP_PAIRS: device->coop_pairs = false; break;
    case DITI_CLASS_COOP_I8: device->coop_i8 = false; break;
    case DITI_CLASS_COOP_FLOAT8: device->coop_float8 = 0; break;
    case DITI_CLASS_DOT: device->dot = device->dot_attention = device->packed_dot = false; break;
    case DITI_CLASS_PACKED_DOT: device->packed_dot = false; break;
    case DITI_CLASS_BROADCAST: device->team = 0; break;
    case DITI_CLASS_COOP2_ATTENTION:
        if (device->coop_attention == 2) device->coop_attention = device->coop_attention_khr ? 1 : 0;
        break;
    case DITI_CLASS_COOP_ATTENTION:
        device->coop_attention_khr = false;
        if (device->coop_attention == 1) device->coop_attention = 0;
        break;
    case DITI_CLASS_HALF_ATTENTION: device->half_attention = false; break;
    case DITI_CLASS_BROADCAST_ATTENTION: device->attention_team = 0; break;
    case DITI_CLASS_COOP_ATTENTION_I8: device->coop_attention_i8 = false; break;
    case DITI_CLASS_DOT_ATTENTION: device->dot_attention = false; break;
    case DITI_CLASSES: break;
    }
}

DIT_INTERNAL void diti_class_describe(diti_device *device, uint32_t dropped) {
    char *text = device->info.rung;
    size_t room = sizeof device->info.rung, used = strlen(diti_rung_name(device->rung));
    uint32_t i;
    diti_format(text, room, "%s", diti_rung_name(device->rung));
    for (i = 0; i < DITI_CLASSES; i++) {
        const char *name = diti_class_name((diti_class)i);
        if (!(dropped & DITI_CLASS_BIT(i)) || used + strlen(name) + 6 > room) continue;
        diti_format(text + used, room - used, ", no %s", name);
        used += strlen(text + used);
    }
}

/* --- what is remembered --- */

DIT_INTERNAL uint64_t diti_proof_key(const diti_device *device, diti_class which) {
    const char *name = diti_class_name(which);
    uint64_t parts[2];
    parts[0] = device->proof_key;
    parts[1] = diti_hash(name, strlen(name));
    return diti_hash(parts, sizeof parts);
}

/* Among the tuned choices of the cache blob: 0 stands for good, 1 for bad. */
DIT_INTERNAL diti_proof diti_proof_find(diti_device *device, diti_class which) {
    uint32_t choice;
    if (!diti_tuned_find(device, diti_proof_key(device, which), &choice)) return DITI_PROOF_UNKNOWN;
    return choice ? DITI_PROOF_BAD : DITI_PROOF_GOOD;
}

DIT_INTERNAL bool diti_proof_put(diti_device *device, diti_class which, diti_proof proof) {
    return diti_tuned_put(device, diti_proof_key(device, which), proof == DITI_PROOF_BAD);
}
