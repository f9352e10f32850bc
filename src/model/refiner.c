/* The refiner of HunyuanVideo's text, 1.0 and 1.5: docs/models.md 3.11 step 2. Blocks of the text alone, which depend
   on the timestep and on the mean of the text; a prompt's rows attend those of them that are kept. */
#include "model/model.h"

/* ---- loading ---- */

static void diti_refiner_load_block(diti_loader *loader, diti_refiner_block *block, uint32_t width, uint32_t index) {
    static const diti_fused qkv = {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3};
    diti_loader_scope(loader, DITI_REFINER "%u.", (unsigned)index);
    diti_load_norm(loader, &block->norm1, width, "norm1");
    diti_load_fused(loader, &block->qkv, &qkv, width, width);
    diti_load_layer(loader, &block->out, width, width, 1, "attn.to_out.0");
    diti_load_norm(loader, &block->norm2, width, "norm2");
    diti_load_layer(loader, &block->ff_in, 4 * width, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, 4 * width, 1, "ff.net.2");
    diti_load_layer(loader, &block->gates, 2 * width, width, 1, "norm_out.linear");
    diti_loader_scope_end(loader);
}

DIT_INTERNAL void diti_refiner_load(diti_loader *loader, diti_refiner *refiner, uint32_t count, uint32_t width,
                                    uint32_t text, uint32_t head_dim) {
    uint32_t i;
    refiner->count = count;
    refiner->text = text;
    refiner->head_dim = head_dim;
    diti_load_layer(loader, &refiner->in, width, text, 1, "context_embedder.proj_in");
    diti_load_embedder(loader, &refiner->time, width, width, 256, "context_embedder.time_text_embed.timestep_embedder");
    diti_load_embedder(loader, &refiner->average, width, width, text, "context_embedder.time_text_embed.text_embedder");
    for (i = 0; i < count; i++) diti_refiner_load_block(loader, &refiner->blocks[i], width, i);
}

/* ---- once per clip ---- */

/* The mean of each prompt's rows: attention of which every score is 0. F32 or activation format [prompts, text]. */
static diti_tensor diti_refiner_average(const diti_pass *p, const diti_refiner *refiner, diti_tensor text,
                                        diti_tensor items) {
    uint32_t prompts = p->step->text_batch;
    diti_attention_desc desc = DITI_ZERO;
    desc.batch = prompts;
    for (desc.head_dim = refiner->head_dim; refiner->text % desc.head_dim;) desc.head_dim -= 4;
    desc.heads = refiner->text / desc.head_dim;
    desc.items = items;
    desc.key_limit = p->step->text_tokens;
    desc.name = "text_mean";
    return diti_attention(p->graph, diti_tensor_view(p->graph, text, 0, prompts, 0, refiner->text), text, text, &desc);
}

/* Gates of the blocks for all steps: F32 [steps, prompts * 2D * blocks]. */
static diti_tensor diti_refiner_gates(const diti_pass *p, const diti_refiner *refiner, diti_tensor time,
                                      diti_tensor average) {
    uint32_t prompts = p->step->text_batch, steps = p->step->steps, rows = steps * prompts, i;
    uint32_t columns = 2 * p->width * refiner->count;
    diti_tensor active, all = diti_tensor_new(p->graph, DITI_F32, rows, columns, "refiner_gates");
    average = diti_embed(p->graph, &refiner->average, average, 0);
    time = diti_embed(p->graph, &refiner->time, time, 0);
    active = diti_tensor_reshape(p->graph, diti_joint_condition(p->graph, time, average, prompts), rows, p->width);
    for (i = 0; i < refiner->count; i++)
        diti_layer_f32(p->graph, active, &refiner->blocks[i].gates, DITI_ACTIVATION_NONE,
                       diti_tensor_view(p->graph, all, 0, rows, 2 * i * p->width, 2 * p->width), "refiner_gates");
    return diti_tensor_reshape(p->graph, all, steps, prompts * columns);
}

DIT_INTERNAL void diti_refiner_prepare(const diti_pass *p, const diti_refiner *refiner, const diti_text_order *order,
                                       diti_tensor sinusoids, diti_refiner_state *state) {
    diti_graph *graph = p->graph;
    diti_tensor text = diti_text_columns(p, refiner->text);
    text = diti_text_order_rows(p, order, diti_add_rows(graph, text, 0, 0, "text"));
    state->gates = diti_refiner_gates(p, refiner, sinusoids, diti_refiner_average(p, refiner, text, order->items));
    state->text = diti_layer_f32(graph, text, &refiner->in, DITI_ACTIVATION_NONE, 0, "context");
}

/* ---- one evaluation ---- */

/* x += gate * layer(h), with a gate for each prompt. */
static void diti_refiner_add(const diti_pass *p, diti_tensor x, diti_tensor h, const diti_layer *layer,
                             diti_tensor gate) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.gate = gate;
    desc.rows_per_gate = p->step->text_tokens;
    desc.residual = desc.out = x;
    desc.name = "refiner_out";
    diti_linear(p->graph, h, &layer->weight, &desc);
}

DIT_INTERNAL void diti_refiner_turns(const diti_transformer *transformer, const diti_step_desc *step,
                                     const uint32_t *axes, float theta, float *cosines, float *sines) {
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t plane = grid.rows * grid.columns, texts = step->text_tokens + step->behind_text, token, axis, i;
    for (token = 0; token < texts + grid.frames * plane; token++) {
        uint32_t place = token < texts ? 0 : token - texts, position[DITI_REFINER_AXES];
        position[0] = place / plane;
        position[1] = place % plane / grid.columns;
        position[2] = place % grid.columns;
        for (axis = 0; axis < DITI_REFINER_AXES; axis++) {
            for (i = 0; i < axes[axis] / 2; i++) {
                float exponent = (float)(2 * i) / (float)axes[axis];
                float angle = (float)position[axis] * (1.0f / powf(theta, exponent));
                *cosines++ = cosf(angle);
                *sines++ = sinf(angle);
            }
        }
    }
}

DIT_INTERNAL diti_tensor diti_refiner_run(const diti_pass *p, const diti_refiner *refiner, const diti_text_order *order,
                                          const diti_refiner_state *state) {
    diti_graph *graph = p->graph;
    uint32_t prompts = p->step->text_batch, rows = prompts * p->step->text_tokens, width = p->width, i;
    diti_tensor x = diti_add_rows(graph, state->text, 0, 0, "refiner"), gates, h;
    gates = diti_select_row(graph, state->gates, p->step->row, "select_gates");
    gates = diti_tensor_reshape(graph, gates, prompts, 2 * width * refiner->count);
    for (i = 0; i < refiner->count; i++) {
        const diti_refiner_block *w = &refiner->blocks[i];
        diti_attention_desc desc = DITI_ZERO;
        diti_linear_desc fused = DITI_ZERO;
        fused.name = "refiner_qkv";
        h = diti_linear_fused(graph, diti_layer_norm(graph, x, &w->norm1, 1e-6f, "refiner_norm"), &w->qkv, &fused);
        desc.batch = prompts;
        desc.heads = width / refiner->head_dim;
        desc.head_dim = refiner->head_dim;
        desc.scale = 1.0f / sqrtf((float)desc.head_dim);
        desc.items = order->items;
        desc.key_limit = p->step->text_tokens;
        desc.name = "refiner_attention";
        h = diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, width),
                           diti_tensor_view(graph, h, 0, rows, width, width),
                           diti_tensor_view(graph, h, 0, rows, 2 * width, width), &desc);
        diti_refiner_add(p, x, h, &w->out, diti_tensor_view(graph, gates, 0, prompts, 2 * i * width, width));
        h = diti_layer_run(graph, diti_layer_norm(graph, x, &w->norm2, 1e-6f, "refiner_norm"), &w->ff_in,
                           DITI_ACTIVATION_SILU, "refiner_in");
        diti_refiner_add(p, x, h, &w->ff_out, diti_tensor_view(graph, gates, 0, prompts, (2 * i + 1) * width, width));
    }
    return x;
}
