/* The proof that attention for F16 or int8 computes right on a device: shapes that leave something over on
   every side, against a reference in double precision. */
#include "job/job.h"

typedef struct diti_attention_probe {
    uint32_t queries, keys, heads, head_dim;
    float scale;
    float *q, *k, *v, *out;
} diti_attention_probe;

/* All keys share a part, so that int8 keys without their mean subtracted would fail. */
static void diti_attention_probe_fill(diti_attention_probe *p, uint16_t *halves) {
    uint32_t width = p->heads * p->head_dim, count = (p->queries + 2 * p->keys) * width, i;
    for (i = 0; i < count; i++) {
        float value = (float)((i * 2654435761u) >> 20) / 1024.0f - 2.0f;
        bool is_key = i >= p->queries * width && i < (p->queries + p->keys) * width;
        if (is_key) value += (float)(i % width % 7) * 2.0f;
        halves[i] = diti_float_to_half(value);
        p->q[i] = diti_half_to_float(halves[i]);
    }
}

/* Queries, keys and values as a job has them: what makes halves of floats guards them, and attention is compiled with
   guards, too. Where activations are floats nothing is guarded. */
static diti_tensor diti_attention_probe_operand(diti_graph *graph, diti_tensor input) {
    diti_elementwise_desc narrow = DITI_ZERO;
    narrow.name = "self-test operand";
    return diti_tensor_get(graph, input)->format == DITI_F32 ? diti_elementwise(graph, input, &narrow) : input;
}

typedef struct diti_attention_tensors {
    diti_tensor inputs[3], out;
    uint32_t rows[3], width; /* sizes of the inputs */
    bool guarded;            /* inputs are floats, which become halves with a guard */
} diti_attention_tensors;

static void diti_attention_probe_emit(const diti_attention_probe *p, bool int8, diti_graph *graph,
                                      diti_attention_tensors *t) {
    diti_attention_desc desc = DITI_ZERO;
    diti_elementwise_desc keep = DITI_ZERO;
    diti_tensor operands[3];
    int i;
    memset(t, 0, sizeof *t);
    t->width = p->heads * p->head_dim;
    t->rows[0] = p->queries;
    t->rows[1] = t->rows[2] = p->keys;
    desc.heads = p->heads;
    desc.head_dim = p->head_dim;
    desc.scale = p->scale;
    desc.int8 = int8;
    desc.name = "self-test";
    keep.name = "self-test";
    diti_guard_begin(graph);
    t->guarded = graph->activation == DITI_F16;
    diti_graph_segment(graph, "self-test", false);
    for (i = 0; i < 3; i++) {
        t->inputs[i] =
            diti_tensor_input(graph, t->guarded ? DITI_F32 : DITI_F16, t->rows[i], t->width, "self-test input");
        operands[i] = diti_attention_probe_operand(graph, t->inputs[i]);
    }
    t->out = keep.out = diti_tensor_state(graph, DITI_F32, p->queries, t->width, "self-test output");
    diti_elementwise(graph, diti_attention(graph, operands[0], operands[1], operands[2], &desc), &keep);
}

static dit_result diti_attention_probe_run(diti_device *device, const diti_attention_probe *p, const uint16_t *halves,
                                           bool int8, dit_error *err) {
    const float *values[3];
    diti_attention_tensors t;
    diti_graph graph;
    diti_plan *plan = NULL;
    dit_result result;
    int i;
    values[0] = p->q;
    values[1] = p->k;
    values[2] = p->v;
    diti_graph_init(&graph, device);
    diti_attention_probe_emit(p, int8, &graph, &t);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_guard_write(plan, 0, err);
    for (i = 0; i < 3 && result >= 0; i++) {
        size_t count = (size_t)t.rows[i] * t.width;
        result = diti_plan_write(plan, t.inputs[i], t.guarded ? (const void *)values[i] : (const void *)halves,
                                 count * (t.guarded ? sizeof(float) : sizeof *halves), err);
        halves += count;
    }
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0) result = diti_plan_read(plan, t.out, p->out, (size_t)p->queries * t.width * sizeof *p->out, err);
    diti_plan_destroy(plan);
    return result;
}

/* Only lists the pipelines. */
static dit_result diti_attention_probe_want(diti_device *device, const diti_attention_probe *p, bool int8,
                                            dit_error *err) {
    diti_attention_tensors t;
    diti_graph graph;
    dit_result result;
    diti_graph_init(&graph, device);
    diti_attention_probe_emit(p, int8, &graph, &t);
    result = diti_graph_want(&graph, err);
    diti_graph_free(&graph);
    return result;
}

/* Adds what one query of one head is off by, squared, and what it should be. weights: room for all keys. */
static void diti_attention_probe_row(const diti_attention_probe *p, uint32_t query, uint32_t head, float *weights,
                                     double *error, double *norm) {
    const uint32_t width = p->heads * p->head_dim, at = head * p->head_dim;
    double top = -1e300, sum = 0;
    uint32_t j, d;
    for (j = 0; j < p->keys; j++) {
        double score = 0;
        for (d = 0; d < p->head_dim; d++) score += (double)p->q[query * width + at + d] * p->k[j * width + at + d];
        weights[j] = (float)(score * (double)p->scale);
        if (weights[j] > top) top = weights[j];
    }
    for (j = 0; j < p->keys; j++) sum += exp(weights[j] - top);
    for (d = 0; d < p->head_dim; d++) {
        double exact = 0, got = p->out[query * width + at + d];
        for (j = 0; j < p->keys; j++) exact += exp(weights[j] - top) / sum * p->v[j * width + at + d];
        *error += (got - exact) * (got - exact);
        *norm += exact * exact;
    }
}

/* Relative L2: halves are off by 1e-3, int8 by 2e-2 with such scores. */
static bool diti_attention_probe_agrees(const diti_attention_probe *p, bool int8, float *weights) {
    double error = 0, norm = 0;
    uint32_t query, head;
    for (head = 0; head < p->heads; head++)
        for (query = head; query < p->queries; query += 1 + p->queries / 40)
            diti_attention_probe_row(p, query, head, weights, &error, &norm);
    return error <= norm * (int8 ? 2.5e-3 : 1e-4); /* also false for NaN */
}

DIT_INTERNAL dit_result diti_probe_attention(diti_device *device, bool int8, uint32_t head_dim, bool *agrees,
                                             dit_error *err) {
    diti_attention_probe p = DITI_ZERO;
    uint32_t width, inputs;
    float *values;
    uint16_t *halves;
    dit_result result;
    p.heads = 2;
    p.head_dim = head_dim;
    p.queries = device->is_cpu ? 37 : 605; /* enough for the tiles of long sequences */
    p.keys = 77;
    p.scale = device->coop_attention || int8 ? 0.25f : 0.015625f; /* attention_half.comp computes these in F16 */
    *agrees = true;
    if (device->wanted) return diti_attention_probe_want(device, &p, int8, err);
    width = p.heads * p.head_dim;
    inputs = (p.queries + 2 * p.keys) * width;
    values = (float *)diti_alloc_array(&device->env, inputs + p.queries * width + p.keys, sizeof *values);
    halves = (uint16_t *)diti_alloc_array(&device->env, inputs, sizeof *halves);
    *agrees = false;
    if (values && halves) {
        p.q = values;
        p.k = p.q + p.queries * width;
        p.v = p.k + p.keys * width;
        p.out = p.v + p.keys * width;
        diti_attention_probe_fill(&p, halves);
        result = diti_attention_probe_run(device, &p, halves, int8, err);
        *agrees = result >= 0 && diti_attention_probe_agrees(&p, int8, p.out + p.queries * width);
    } else {
        result = diti_fail_memory(err, "the device self-test");
    }
    diti_free(&device->env, values);
    diti_free(&device->env, halves);
    return result;
}

DIT_INTERNAL dit_result diti_probe_layout(diti_device *device, uint32_t *layout, dit_error *err) {
    const diti_coop_shape *shape = &device->coop.subgroup_shape[DITI_COOP_F16];
    const size_t count = diti_coop_layout_count(shape);
    float *found = (float *)diti_alloc_array(&device->env, count, sizeof *found);
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor tensor;
    dit_result result;
    *layout = 0;
    if (!found) return diti_fail_memory(err, "the device self-test");
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "self-test", false);
    tensor = diti_coop_layout(&graph);
    result = device->wanted ? diti_graph_want(&graph, err) : diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0 && plan) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0 && plan) result = diti_plan_read(plan, tensor, found, count * sizeof *found, err);
    if (result >= 0 && plan) *layout = diti_coop_layout_of(found, device->coop.subgroup, shape);
    diti_plan_destroy(plan);
    diti_free(&device->env, found);
    return result;
}
