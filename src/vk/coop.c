#include "vk/vk.h"

/* Cooperative matrices: which shapes a device has, and which rungs follow. Vulkan's own declarations are newer than the
   least headers that dit compiles with. */
enum {
    DITI_COMPONENT_F16 = 0,
    DITI_COMPONENT_F32 = 1,
    DITI_COMPONENT_S8 = 3,
    DITI_COMPONENT_S32 = 5,
    DITI_COMPONENT_BF16 = 1000141000,
    DITI_COMPONENT_E4M3 = 1000491002,
    DITI_COMPONENT_E5M2 = 1000491003,
    DITI_SCOPE_SUBGROUP = 3,
    DITI_STYPE_COOP_PROPERTIES = 1000506001,
    DITI_STYPE_COOP_FLEXIBLE = 1000593001
};
typedef struct diti_coop_types {
    uint32_t a, b, sum;
} diti_coop_types;
static const diti_coop_types diti_coop_type_list[DITI_COOP_TYPES] = {
    {DITI_COMPONENT_F16, DITI_COMPONENT_F16, DITI_COMPONENT_F32},
    {DITI_COMPONENT_S8, DITI_COMPONENT_S8, DITI_COMPONENT_S32},
    {DITI_COMPONENT_BF16, DITI_COMPONENT_BF16, DITI_COMPONENT_F32},
    {DITI_COMPONENT_E4M3, DITI_COMPONENT_E4M3, DITI_COMPONENT_F32},
    {DITI_COMPONENT_E4M3, DITI_COMPONENT_E5M2, DITI_COMPONENT_F32},
};

/* The type that dit computes with, as an index of DITI_COOP_…; -1: something else. */
static int diti_coop_type_of(const diti_vk_coop_property *p) {
    int i;
    for (i = 0; i < DITI_COOP_TYPES; i++) {
        const diti_coop_types *t = &diti_coop_type_list[i];
        if (p->a == t->a && p->b == t->b && p->c == t->sum && p->result == t->sum && !p->saturating) return i;
    }
    return -1;
}

static bool diti_coop_is_power(uint32_t n) { return n && !(n & (n - 1)); }

/* Kernels cut tiles of 64 into fragments, and load 16 bytes at a time. The largest of several shapes is best. */
static void diti_coop_take(diti_coop_shape *shape, const diti_vk_coop_property *p) {
    if (!diti_coop_is_power(p->m) || !diti_coop_is_power(p->n) || !diti_coop_is_power(p->k)) return;
    if (p->m < 4 || p->n < 4 || p->k < 8 || p->m > 32 || p->n > 32 || p->k > 64) return;
    if ((uint64_t)p->m * p->n * p->k <= (uint64_t)shape->m * shape->n * shape->k) return;
    shape->m = p->m;
    shape->n = p->n;
    shape->k = p->k;
}

static void diti_coop_take_property(diti_coop *coop, bool flexible, const diti_vk_coop_property *p) {
    int type = diti_coop_type_of(p);
    if (type < 0 || p->scope != DITI_SCOPE_SUBGROUP) return;
    diti_coop_take(flexible ? &coop->flexible[type] : &coop->subgroup_shape[type], p);
}

/* The list of one of both extensions; they differ in the last member alone. */
static dit_result diti_coop_list(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical, bool flexible,
                                 diti_coop *coop, dit_error *err) {
    diti_vk_coop_list list = flexible ? vk->GetFlexibleProperties : vk->GetCoopProperties;
    diti_vk_coop_property one = DITI_ZERO, *all;
    unsigned char *memory;
    size_t size = flexible ? sizeof one : offsetof(diti_vk_coop_property, invocations);
    uint32_t i, count = 0;
    VkResult vr;
    if (size % sizeof(void *)) size += sizeof(void *) - size % sizeof(void *);
    if (!list || list(physical, &count, NULL) < 0 || !count) return DIT_OK;
    memory = (unsigned char *)diti_alloc_zero(env, (size_t)count * size);
    if (!memory) return diti_fail_memory(err, "a list of %u matrix shapes", count);
    for (i = 0; i < count; i++) {
        all = (diti_vk_coop_property *)(void *)(memory + i * size);
        all->type = (VkStructureType)(flexible ? DITI_STYPE_COOP_FLEXIBLE : DITI_STYPE_COOP_PROPERTIES);
    }
    all = (diti_vk_coop_property *)(void *)memory;
    vr = list(physical, &count, all);
    for (i = 0; i < count && vr >= 0; i++) {
        memcpy(&one, memory + i * size, size < sizeof one ? size : sizeof one);
        diti_coop_take_property(coop, flexible, &one);
    }
    diti_free(env, memory);
    return DIT_OK;
}

/* The size of the subgroups that share a matrix; 0: it is not known. Where the driver lets dit choose, that is its
   usual size, on Intel's GPUs the least one, which is that of their matrix units. Where subgroups have one size,
   nothing has to be chosen. */
static uint32_t diti_coop_subgroup(const diti_identity *id, const diti_features *features, bool *chosen) {
    *chosen = features->has[DITI_FEATURE_SUBGROUP_SIZE] && id->chooses_subgroup;
    if (*chosen) return id->vendor == 0x8086 ? id->min_subgroup : id->subgroup;
    return id->min_subgroup == id->max_subgroup ? id->max_subgroup : 0;
}

/* No matrices of that type, DITI_COOP_…. */
static void diti_coop_leave(diti_coop *coop, int type) { coop->subgroup_shape[type].m = coop->flexible[type].m = 0; }

DIT_INTERNAL void diti_coop_override(const diti_vk_api *vk, VkPhysicalDevice physical, const char *overrides,
                                     diti_coop *coop) {
    uint64_t lanes = diti_override_number(overrides, "subgroup", coop->subgroup);
    diti_identity id = DITI_ZERO;
    if (!diti_override_number(overrides, "int8_matrices", 1)) diti_coop_leave(coop, DITI_COOP_S8);
    if (!diti_override_number(overrides, "half_matrices", 1)) diti_coop_leave(coop, DITI_COOP_F16);
    diti_identify(vk, physical, &id);
    if (coop->chooses_subgroup && lanes >= id.min_subgroup && lanes <= id.max_subgroup && !(lanes & (lanes - 1)))
        coop->subgroup = (uint32_t)lanes;
}

DIT_INTERNAL dit_result diti_coop_find(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                       const diti_features *features, bool quirks, diti_coop *out, dit_error *err) {
    diti_identity id = DITI_ZERO;
    bool flexible = features->has[DITI_FEATURE_COOP_FLEXIBLE];
    memset(out, 0, sizeof *out);
    if (!features->has[DITI_FEATURE_COOP]) return DIT_OK;
    diti_identify(vk, physical, &id);
    if (quirks) diti_quirks(&id, DITI_QUIRK_NO_MATRICES, &out->ban);
    out->subgroup = diti_coop_subgroup(&id, features, &out->chooses_subgroup);
    if (!out->ban && !features->has[DITI_FEATURE_FULL_SUBGROUPS])
        out->ban = "computeFullSubgroups, without which subgroups may have idle threads, is not enabled";
    if (!out->ban && !out->subgroup) out->ban = "subgroups have no fixed size";
    if (out->ban) {
        diti_log(env, DITI_LOG_INFO, "no cooperative matrices: %s", out->ban);
        out->subgroup = 0;
        return DIT_OK;
    }
    DITI_TRY(diti_coop_list(env, vk, physical, false, out, err));
    if (flexible) DITI_TRY(diti_coop_list(env, vk, physical, true, out, err));
    if (!features->has[DITI_FEATURE_INT8]) diti_coop_leave(out, DITI_COOP_S8);
    if (!features->has[DITI_FEATURE_BF16]) diti_coop_leave(out, DITI_COOP_BF16);
    if (!features->has[DITI_FEATURE_FLOAT8]) diti_coop_leave(out, DITI_COOP_E4M3);
    if (!features->has[DITI_FEATURE_FLOAT8]) diti_coop_leave(out, DITI_COOP_E4M3_E5M2);
    out->reductions = features->has[DITI_FEATURE_COOP_REDUCTIONS];
    out->conversions = features->has[DITI_FEATURE_COOP_CONVERSIONS];
    out->per_element = features->has[DITI_FEATURE_COOP_PER_ELEMENT];
    return DIT_OK;
}

DIT_INTERNAL diti_rung diti_rung_highest(const diti_features *features, const diti_coop *coop, uint32_t quirks) {
    if (coop->subgroup_shape[DITI_COOP_F16].m)
        return coop->flexible[DITI_COOP_F16].m ? DITI_RUNG_COOP2 : DITI_RUNG_COOP;
    if (coop->subgroup_shape[DITI_COOP_BF16].m) return DITI_RUNG_COOP;
    if (!features->has[DITI_FEATURE_FP16]) return DITI_RUNG_BASE;
    return quirks & DITI_QUIRK_SLOW_HALF ? DITI_RUNG_FP16 : DITI_RUNG_HALF;
}
