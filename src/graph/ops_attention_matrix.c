/* Attention on cooperative matrices (shaders/attention_coop.comp): the tiles that a device gets. The
   order of sums depends on head_dim and the device alone, never on how many queries a subgroup or a workgroup has. */
#include "graph/ops_internal.h"

#define DITI_ATTENTION_MATRIX_ROUNDS 60000u /* rounds of loops, see DITI_ATTENTION_ROUNDS */

static uint32_t diti_attention_pad(uint32_t count, uint32_t unit) { return (count + unit - 1) / unit * unit; }

typedef struct diti_attention_matrix {
    diti_coop_shape shape; /* fragments of halves; shape8: fragments of int8 */
    diti_coop_shape shape8;
    uint32_t lanes, subgroups, queries, keys, padded; /* queries of a subgroup */
    uint32_t share;                                   /* subgroups that have the same queries */
    bool pairs;     /* registers have room for two matrices of queries, so that one of keys or values serves twice */
    bool registers; /* scores stay in them: attention_coop2.comp */
    bool columns;   /* a thread has whole columns of matrices: attention_columns.comp */
    bool turned;    /* shared memory has values channel by channel */
    bool single, held, ahead; /* attention_coop2.comp: its constants of these names */
    bool direct; /* scores stay in them, too, since the layout of matrices allows it: attention_direct.comp */
} diti_attention_matrix;

static uint32_t diti_attention_larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

DIT_INTERNAL bool diti_attention_is_wide(const diti_device *device, uint32_t head_dim) {
    return head_dim > device->portions->pair_alone;
}

/* Products of int8 have the same m and n, and go 16 bytes deep or more. */
static diti_coop_shape diti_attention_shape8(const diti_device *device) {
    diti_coop_shape i8 = device->coop.subgroup_shape[DITI_COOP_S8], none = DITI_ZERO;
    const diti_coop_shape *f16 = &device->coop.subgroup_shape[DITI_COOP_F16];
    if (i8.k % 16 && device->rung >= DITI_RUNG_COOP2 && device->coop.flexible[DITI_COOP_S8].m)
        i8.k = diti_attention_pad(16, device->coop.flexible[DITI_COOP_S8].k);
    return device->coop_attention_i8 && i8.m && i8.m == f16->m && i8.n == f16->n && i8.k % 16 == 0 ? i8 : none;
}

/* Whether a SIMD unit has the registers that threads of so many subgroups want. AMD's compute units have two, on which
   the subgroups of a workgroup are spread. */
static bool diti_attention_registers_fit(const diti_device *device, uint32_t subgroups) {
    uint32_t wanted = device->portions->registers;
    return device->is_cpu || !wanted || !device->limits.registers || subgroups / 2 * wanted <= device->limits.registers;
}

/* Whether subgroups have two matrices of queries, and how many share them: the fewest that have room for such heads; 0:
   eight have not. */
static void diti_attention_matrix_share(const diti_device *device, uint32_t head_dim, diti_attention_matrix *out) {
    const diti_portions *portions = device->portions;
    out->pairs = out->registers ? head_dim <= 96 && portions->queries >= 16 : head_dim <= portions->pair_heads;
    out->share = 1;
    if (out->registers || device->is_cpu) return;
    if (out->pairs) {
        if (head_dim > portions->pair_alone) out->share = head_dim <= 2 * portions->pair_two ? 2 : 4;
        if (head_dim > portions->pair_channels * out->share && out->share == 4) out->share = 8;
        if (diti_attention_registers_fit(device, out->share)) return;
    }
    out->pairs = false;
    for (out->share = 1; out->share < 8 && head_dim > portions->channels * out->share;) out->share *= 2;
    if (head_dim > portions->channels * out->share) out->share = 0;
}

static bool diti_attention_matrix_begin(const diti_device *device, uint32_t head_dim, bool int8,
                                        diti_attention_matrix *out) {
    const diti_coop *coop = &device->coop;
    diti_coop_shape *s = &out->shape;
    memset(out, 0, sizeof *out);
    if (!device->coop_attention || device->rung < DITI_RUNG_COOP || head_dim % 8 || head_dim > (int8 ? 256 : 512))
        return false;
    if (int8 && !device->portions->int8 && !device->is_cpu) return false;
    out->registers = device->coop_attention == 2 && !int8 && head_dim <= 256 &&
                     !(device->coop_attention_khr && device->khr_is_faster[diti_attention_is_wide(device, head_dim)]);
    if (!out->registers && !int8 && !device->coop_attention_khr) return false;
    *s = out->registers ? coop->flexible[DITI_COOP_F16] : coop->subgroup_shape[DITI_COOP_F16];
    if (out->registers)
        s->n = s->k = diti_attention_larger(s->n, s->k); /* weights become a first operand as they are */
    out->shape8 = diti_attention_shape8(device);
    out->lanes = coop->subgroup;
    diti_attention_matrix_share(device, head_dim, out);
    if (!out->share) return false;
    out->direct = device->coop_layout & DITI_LAYOUT_DIRECT && out->lanes && !out->registers && !int8 && s->n == s->k &&
                  out->share == 1 &&
                  s->m * s->n % (2 * out->lanes) == 0; /* the elements of a thread are an even number */
    out->padded =
        s->m ? diti_attention_pad(head_dim, out->share * diti_attention_larger(diti_attention_larger(s->n, s->k), 8))
             : 0;
    out->turned = !out->registers && !out->direct && !device->is_cpu && out->padded % 16 == 0 &&
                  out->padded <= out->share * device->portions->turned;
    return s->m && out->lanes && (out->registers || (s->n >= 8 && s->k >= 8));
}

DIT_INTERNAL uint32_t diti_attention_int8_head(const diti_device *device, uint32_t head_dim) {
    diti_attention_matrix a;
    uint32_t bytes;
    if (diti_device_dots_attention(device))
        return head_dim % 8 || head_dim > 512 ? 0 : diti_attention_pad(head_dim, 16) + 16;
    if (!diti_attention_matrix_begin(device, head_dim, true, &a) || !a.shape8.m) return 0;
    bytes = diti_attention_pad(head_dim, a.shape8.k) + 16;
    return bytes <= 2 * a.padded ? bytes : 0; /* int8 shares tiles with halves */
}

static uint32_t diti_attention_matrix_bytes(const diti_attention_matrix *a) {
    uint32_t rows = a->subgroups / a->share * a->queries, row = (a->padded / 8 + 1) * 16;
    uint32_t by_keys = a->keys * row, by_channels = a->padded * (a->keys / 8 + 1) * 16;
    uint32_t bytes = by_keys + (a->turned ? diti_attention_larger(by_keys, by_channels) : by_keys);
    if (a->columns) return bytes + rows * (row + (a->keys / 8 + 1) * 16 + a->share * 4);
    if (a->direct) return bytes + (a->keys + rows) * 4;
    if (a->registers) return (a->single ? bytes / 2 : bytes) + (a->held ? 16 : rows * row);
    return bytes + a->share * rows * (a->keys / 4 + 1) * 16 + rows * 4;
}

/* The most queries of a subgroup, where there are many. */
static uint32_t diti_attention_query_limit(const diti_device *device, const diti_attention_matrix *a) {
    if (device->is_cpu) return a->shape.m;
    return (a->pairs ? 2 : 1) * diti_attention_larger(a->shape.m, device->portions->queries);
}

/* As many queries as one workgroup should have: keys and values pass by once for all of them. Candidates: the other
   size of workgroup, or of a subgroup's part. */
static void diti_attention_matrix_rows(const diti_device *device, uint32_t queries, uint32_t candidate,
                                       diti_attention_matrix *a) {
    bool wide = a->registers && a->padded > 128; /* such heads leave registers for half as many */
    uint32_t wanted = (queries > 512 && !wide) != (candidate == 1) ? 128 : 64, m = a->shape.m;
    uint32_t least = device->portions->queries;
    bool pairs = (a->pairs && queries > 512) != (candidate == 2);
    a->queries = device->is_cpu ? m : pairs ? 2 * diti_attention_larger(m, least) : diti_attention_larger(m, least);
    a->subgroups = device->is_cpu ? 1 : diti_attention_larger(wanted / a->queries, 1) * a->share;
    while (a->subgroups > a->share && a->subgroups * a->lanes > device->limits.group_invocations) a->subgroups /= 2;
    while (a->subgroups > a->share && !diti_attention_registers_fit(device, a->subgroups)) a->subgroups /= 2;
}

/* Takes away sets of queries, all but one, as long as shared memory has no room for them. */
static void diti_attention_matrix_fit(const diti_device *device, diti_attention_matrix *a) {
    while (a->subgroups > a->share && diti_attention_matrix_bytes(a) > device->limits.shared_bytes) a->subgroups /= 2;
}

/* Tiles of keys: the same for all shapes with such heads. Drivers of processors compile each product apart, and slowly.
   The figures for attention_coop2 are those that an H100 was fastest with (BENCHMARKS.md). */
static bool diti_attention_matrix_keys(const diti_device *device, diti_attention_matrix *a) {
    uint32_t fewest = diti_attention_larger(a->shape.m, diti_attention_larger(a->shape.n, a->shape.k)), least = fewest;
    diti_attention_matrix one;
    if (fewest < 8) fewest = 8;
    if (a->registers) {
        least = diti_attention_larger(least, device->is_cpu ? a->queries : 32);
    } else {
        least = diti_attention_larger(least, a->lanes > a->shape.m ? 8 * a->lanes / a->shape.m : 8);
    }
    a->keys = diti_attention_larger(least, device->is_cpu ? 8 : 32);
    if (a->registers && !a->pairs && a->padded <= 128 && !device->is_cpu) a->keys = diti_attention_larger(least, 64);
    a->held = true;
    a->ahead = a->padded <= 128;
    a->single = !a->ahead;
    if (device->portions->queries < 16 && !a->registers && !device->is_cpu)
        a->keys = a->padded / a->share > 32 || a->padded > 128 ? 16 : 32;
    one = *a;
    one.subgroups = a->share;
    one.queries = diti_attention_query_limit(device, a);
    while (!a->registers && one.keys >= 2 * fewest && diti_attention_matrix_bytes(&one) > device->limits.shared_bytes)
        a->keys = one.keys /= 2; /* not even one set of queries fits beside so many */
    if (a->keys % 16) a->turned = false;
    one = *a;
    one.turned = false; /* less memory: more queries beside a tile than one set weigh more than how values lie */
    diti_attention_matrix_fit(device, a);
    diti_attention_matrix_fit(device, &one);
    if (a->subgroups == a->share && one.subgroups > a->share) *a = one;
    return diti_attention_matrix_bytes(a) <= device->limits.shared_bytes;
}

/* attention_columns.comp, where the layout of matrices, the width of heads and shared memory allow it. Matrices of sums
   must have eight rows, as Intel's have, so that a thread has 16 bytes of halves of each. A thread has the sums of some
   channels and of some of a tile's keys. Workgroups are as large as they may be, since a thread of smaller ones keeps a
   larger part of each tile in its registers: more than four units of 16 bytes would be too much. A candidate has half
   as many threads, with the same tiles. */
static bool diti_attention_matrix_columns(const diti_device *device, uint32_t head_dim, uint32_t candidate,
                                          diti_attention_matrix *out) {
    const diti_portions *portions = device->portions;
    const diti_coop_shape *s = &out->shape;
    uint32_t channels = portions->column_channels, fewest, keys;
    memset(out, 0, sizeof *out);
    out->shape = device->coop.subgroup_shape[DITI_COOP_F16];
    out->lanes = device->coop.subgroup;
    if (!channels || !device->coop_attention_khr || !(device->coop_layout & DITI_LAYOUT_COLUMNS)) return false;
    if (head_dim % 8 || s->n != out->lanes || s->m != 8 || s->k % 8) return false;
    for (out->share = 1; out->share < 8 && head_dim > channels * out->share;) out->share *= 2;
    if (head_dim > channels * out->share) return false;
    out->columns = out->turned = true;
    out->padded = diti_attention_pad(head_dim, diti_attention_larger(out->share * s->m, s->k > 16 ? s->k : 16));
    out->queries = s->n;
    out->subgroups = diti_attention_larger(portions->column_threads / out->lanes / out->share, 1) * out->share;
    while (out->subgroups > out->share && out->subgroups * out->lanes > device->limits.group_invocations)
        out->subgroups /= 2;
    fewest = diti_attention_larger(diti_attention_larger(s->m * out->share, s->k), 16);
    for (keys = 16; keys > 1 && out->padded / out->share + keys > portions->column_sums;) keys /= 2;
    out->keys = diti_attention_larger(keys * out->share, fewest);
    while (out->keys > fewest && diti_attention_matrix_bytes(out) > device->limits.shared_bytes) out->keys /= 2;
    diti_attention_matrix_fit(device, out);
    if (diti_attention_matrix_bytes(out) > device->limits.shared_bytes ||
        out->keys * (out->padded / 8) > 4 * out->subgroups * out->lanes)
        return false;
    if (candidate == 1 && out->subgroups > out->share) out->subgroups /= 2;
    return true;
}

DIT_INTERNAL bool diti_attention_tiles_matrix(const diti_device *device, uint32_t head_dim, uint32_t queries,
                                              uint32_t keys, bool int8, uint32_t candidate, diti_attention_tiles *out) {
    diti_attention_matrix a;
    uint32_t *c = out->constants;
    if (int8 || !diti_attention_matrix_columns(device, head_dim, candidate, &a)) {
        if (!diti_attention_matrix_begin(device, head_dim, int8, &a)) return false;
        diti_attention_matrix_rows(device, queries, candidate, &a);
        if (!diti_attention_matrix_keys(device, &a)) return false;
    }
    if (device->is_cpu && keys / a.keys > DITI_ATTENTION_MATRIX_ROUNDS) return false;
    out->kernel = a.registers ? DITI_KERNEL_ATTENTION_COOP2
                  : a.columns ? DITI_KERNEL_ATTENTION_COLUMNS
                  : a.direct  ? DITI_KERNEL_ATTENTION_DIRECT
                              : DITI_KERNEL_ATTENTION_COOP;
    out->group = a.subgroups * a.lanes;
    out->block = a.subgroups / a.share * a.queries;
    out->quads = a.padded / 4;
    c[0] = a.lanes;
    c[1] = a.shape.m;
    c[2] = a.shape.n;
    c[3] = a.shape.k;
    c[4] = a.queries / (a.columns ? a.shape.n : a.shape.m);
    c[5] = a.keys;
    c[6] = int8 ? a.shape8.k : a.shape.k;
    c[7] = int8 ? diti_attention_int8_head(device, head_dim) : 0;
    c[8] = a.share;
    c[9] = a.keys / a.shape.n;
    if (!device->is_cpu && a.queries * (a.padded / a.share) > device->portions->unrolled) c[9] = 1;
    if (a.columns) c[9] = (device->coop_layout & DITI_LAYOUT_PAIRS) != 0;
    c[10] = a.turned;
    c[11] = a.share > 1 && a.padded <= a.share * device->portions->apart;
    out->constant_count = a.columns ? 10 : 12;
    if (a.registers) {
        c[9] = a.single;
        c[10] = a.held;
        c[11] = a.ahead;
    }
    if (a.direct) {
        c[9] = device->coop_layout & 255u;
        c[10] = device->coop_layout >> 8 & 255u;
        c[11] = device->scattered_sums;
    }
    return true;
}

DIT_INTERNAL bool diti_attention_has_matrices(const diti_device *device, uint32_t head_dim) {
    diti_attention_tiles tiles;
    memset(&tiles, 0, sizeof tiles);
    return diti_attention_tiles_matrix(device, head_dim, 1, 1, false, 0, &tiles);
}

/* --- the layout of matrices --- */

DIT_INTERNAL size_t diti_coop_layout_count(const diti_coop_shape *s) {
    return (size_t)s->m * s->n + (size_t)s->m * s->k + 2;
}

DIT_INTERNAL diti_tensor diti_coop_layout(diti_graph *graph) {
    const diti_coop *coop = &graph->device->coop;
    const diti_coop_shape *shape = &coop->subgroup_shape[DITI_COOP_F16];
    diti_tensor found = diti_tensor_state(graph, DITI_F32, 1, (uint32_t)diti_coop_layout_count(shape), "layout");
    diti_dispatch dispatch;
    if (!diti_op_begin(graph, &dispatch, "layout", DITI_KERNEL_COOP_LAYOUT, coop->subgroup)) return 0;
    dispatch.constants[6] = coop->subgroup;
    dispatch.constants[7] = shape->m;
    dispatch.constants[8] = shape->n;
    dispatch.constants[9] = shape->k;
    dispatch.stated = DITI_STATED(10);
    diti_op_bind(graph, &dispatch, 3, found, 1, false, true);
    diti_op_emit(graph, &dispatch, 1, 2);
    return found;
}

/* Whether the lower bits of a layout choose the columns of an m x n matrix. */
static bool diti_coop_direct_fits(uint32_t direct, uint32_t lanes, uint32_t m, uint32_t n) {
    uint32_t elements = lanes ? m * n / lanes : 0, bit, columns = 1;
    for (bit = 1; bit < 65536; bit *= 2)
        if (direct & bit) columns *= 2;
    return (direct & 255u) < lanes && direct >> 8 < elements && columns == n;
}

/* Whether each thread can have whole units of 16 bytes of an m x k operand, in pairs of neighbours. */
static bool diti_coop_parts_fit(uint32_t lanes, const diti_coop_shape *s) {
    uint32_t pairs = s->k / 2;
    return s->k % 8 == 0 && lanes % pairs == 0 && s->m % (lanes / pairs) == 0 && s->m * pairs % (4 * lanes) == 0;
}

DIT_INTERNAL bool diti_coop_layout_fits(uint32_t layout, uint32_t lanes, const diti_coop_shape *s) {
    uint32_t direct = layout & DITI_LAYOUT_DIRECT;
    if (layout & ~(DITI_LAYOUT_DIRECT | DITI_LAYOUT_COLUMNS | DITI_LAYOUT_PAIRS)) return false;
    if (layout & DITI_LAYOUT_COLUMNS && lanes != s->n) return false;
    if (layout & DITI_LAYOUT_PAIRS && !diti_coop_parts_fit(lanes, s)) return false;
    return !direct || (s->n == s->k && diti_coop_direct_fits(direct, lanes, s->m, s->n));
}

/* The bits that choose a column, where sums and operand lie alike; 0: they do not. */
static uint32_t diti_coop_direct_of(const float *sums, const float *operand, uint32_t lanes, uint32_t m, uint32_t n) {
    uint32_t elements = m * n / lanes, threads = 0, columns = 0, bit, i, place, row;
    uint8_t seen[1024] = DITI_ZERO; /* no side of a matrix is longer than 32, see coop.c */
    if (elements > 256 || m * n > sizeof seen) return 0;
    for (i = 0; i < m * n; i++) {
        if (!(sums[i] >= 0) || sums[i] >= (float)(m * n) || sums[i] != operand[i]) return 0;
        place = (uint32_t)sums[i];
        if (seen[place]++) return 0;
    }
    row = (uint32_t)sums[0] / n;
    for (bit = 1; bit < lanes; bit *= 2)
        if ((uint32_t)sums[bit * elements] / n == row) threads |= bit;
    for (bit = 1; bit < elements; bit *= 2)
        if ((uint32_t)sums[bit] / n == row) columns |= bit;
    for (i = 0; i < m * n; i++) { /* elements that differ in these bits alone make up a row */
        uint32_t from = (i / elements & ~threads) * elements + (i % elements & ~columns);
        if ((uint32_t)sums[i] / n != (uint32_t)sums[from] / n) return 0;
    }
    threads |= columns << 8;
    return diti_coop_direct_fits(threads, lanes, m, n) ? threads : 0;
}

/* Whether thread t holds column t of an m x n matrix of sums, from above. */
static bool diti_coop_is_by_columns(const float *sums, uint32_t m, uint32_t n) {
    uint32_t i;
    for (i = 0; i < m * n; i++)
        if (sums[i] != (float)(i % m * n + i / m)) return false;
    return true;
}

/* Whether pair i of thread t is pair t mod k/2 of row i * lanes / (k/2) + t / (k/2), as the kernels have it that use
   DITI_LAYOUT_PAIRS. */
static bool diti_coop_is_by_parts(const float *operand, uint32_t lanes, const diti_coop_shape *s) {
    uint32_t pairs = s->k / 2, each = s->m * pairs / lanes, t, i;
    for (t = 0; t < lanes; t++)
        for (i = 0; i < each; i++) {
            uint32_t place = (i * (lanes / pairs) + t / pairs) * s->k + t % pairs * 2;
            const float *pair = operand + 2 * (t * each + i);
            if (pair[0] != (float)place || pair[1] != (float)(place + 1)) return false;
        }
    return true;
}

DIT_INTERNAL uint32_t diti_coop_layout_of(const float *found, uint32_t lanes, const diti_coop_shape *s) {
    const float *operand = found + s->m * s->n, *held = operand + s->m * s->k;
    uint32_t layout = 0;
    if (!lanes || lanes > 256 || s->m * s->n < lanes || held[0] != (float)(s->m * s->n / lanes)) return 0;
    if (s->n == s->k && held[1] == held[0]) layout = diti_coop_direct_of(found, operand, lanes, s->m, s->n);
    if (s->n == lanes && diti_coop_is_by_columns(found, s->m, s->n)) layout |= DITI_LAYOUT_COLUMNS;
    if (diti_coop_parts_fit(lanes, s) && held[1] == (float)(s->m * s->k / lanes) &&
        diti_coop_is_by_parts(operand, lanes, s))
        layout |= DITI_LAYOUT_PAIRS;
    return layout;
}
