/* The weights that a plan reads: cut for its device, and brought there where they are not yet (weights/replica.c). */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

static const diti_weight *diti_cut_find(const diti_graph *graph, const diti_weight *weight, const diti_cut *cut) {
    size_t i;
    for (i = 0; i < graph->cut_count; i++)
        if (graph->cuts[i]->source == weight && !memcmp(&graph->cuts[i]->cut, cut, sizeof *cut))
            return &graph->cuts[i]->weight;
    return NULL;
}

DIT_INTERNAL const diti_weight *diti_weight_cut(diti_graph *graph, const diti_weight *weight, const diti_cut *cut) {
    const diti_weight *known = diti_cut_find(graph, weight, cut);
    diti_cut_weight *made;
    if (known || (!cut->rows && !cut->columns[0].count) || diti_graph_failed(graph)) return known ? known : weight;
    made = (diti_cut_weight *)diti_alloc_zero(&graph->device->env, sizeof *made);
    if (!made || !diti_grow(&graph->device->env, (void **)&graph->cuts, &graph->cut_capacity, graph->cut_count,
                            sizeof *graph->cuts)) {
        diti_free(&graph->device->env, made);
        diti_graph_fail_memory(graph, "the plan");
        return weight;
    }
    graph->cuts[graph->cut_count++] = made;
    if (diti_cut_make(made, weight, cut)) {
        diti_cut columns = *cut;
        columns.row = columns.rows = 0;
        if (weight->smooth) made->weight.smooth = diti_weight_cut(graph, weight->smooth, &columns);
        return &made->weight;
    }
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "weight %s [%u, %u] of %s cannot be cut at such places",
                    weight->name ? weight->name : "", weight->rows, weight->columns, diti_type_name(weight->type));
    return weight;
}

#define DITI_REPLICA_PIECE ((uint64_t)4 << 20) /* copied at a time */

/* Bytes that are copied as a whole: a row of which some columns are wanted, a row that may be converted when it is read
   from the file, a word. */
static uint64_t diti_fetch_row(const diti_tensor_info *weight) {
    if (weight->part->pieces) return weight->part->pieces->from_pitch;
    return weight->part->streamed ? weight->bytes / weight->rows : 4;
}

static bool diti_fetch_wants(const diti_tensor_info *tensor) {
    return tensor->storage == DITI_STORAGE_WEIGHT && tensor->part && tensor->first_use != DITI_UNUSED_YET &&
           !diti_part_streams(tensor->part);
}

static dit_result diti_fetch_list(diti_fetch *fetch, const diti_plan *plan, dit_error *err) {
    size_t i;
    fetch->first = fetch->replicas->count;
    fetch->first_block = fetch->replicas->block_count;
    for (i = 1; i < plan->tensor_count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[i];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || diti_replica_needless(plan->device, tensor->part) ||
            diti_replicas_of(tensor->part) != fetch->replicas ||
            diti_replica_find(fetch->replicas, plan->device, tensor->part, tensor->bytes))
            continue;
        if (!diti_fetch_note(fetch, tensor->part, tensor->bytes, diti_fetch_row(tensor)))
            return diti_fail_memory(err, "weights on another device");
    }
    return DIT_OK;
}

/* Blocks of this fetch are filled in the order of its replicas: offset 0 is the next one's first. */
static dit_result diti_fetch_fill(diti_fetch *fetch, const diti_plan *plan, diti_replica_copy *copy, uint64_t most,
                                  dit_error *err) {
    diti_replicas *replicas = fetch->replicas;
    size_t block = fetch->first_block, next = fetch->first, i;
    for (i = 1; i < plan->tensor_count && next < replicas->count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[i];
        diti_replica *replica = &replicas->list[next];
        if (tensor->parent != i || !diti_fetch_wants(tensor) ||
            !diti_replica_same(replica, plan->device, tensor->part, tensor->bytes))
            continue;
        if (replica->offset == 0 && next > fetch->first) block++;
        copy->target = &replicas->blocks[block]->buffer;
        copy->offset = replica->offset;
        replica->buffer = copy->target->buffer;
        DITI_TRY(diti_replica_move(copy, tensor->part, diti_fetch_row(tensor), tensor->bytes, most, err));
        next++;
    }
    return DIT_OK;
}

static dit_result diti_fetch_missing(diti_fetch *fetch, const diti_plan *plan, dit_error *err) {
    diti_replicas *replicas = fetch->replicas;
    diti_replica_copy copy = DITI_ZERO;
    dit_result result;
    uint64_t most;
    diti_lock(&replicas->lock);
    result = diti_fetch_list(fetch, plan, err);
    diti_unlock(&replicas->lock);
    most = fetch->most > DITI_REPLICA_PIECE ? fetch->most : DITI_REPLICA_PIECE;
    if (result >= 0 && replicas->count > fetch->first) {
        diti_trace_scope scope = diti_trace_open(replicas->home->trace, DITI_TRACK_LOAD, "weights to a device");
        copy.device = fetch->device;
        copy.read = (unsigned char *)diti_alloc_array(&replicas->env, 2, (size_t)most);
        if (copy.read)
            copy.picked = copy.read + most;
        else
            result = diti_fail_memory(err, "copies of weights");
        if (result >= 0) result = diti_fetch_make(fetch, err);
        if (result >= 0) result = diti_fetch_fill(fetch, plan, &copy, most, err);
        diti_free(&replicas->env, copy.read);
        diti_trace_close(&scope, 0);
    }
    if (result < 0) diti_fetch_undo(fetch);
    return result;
}

/* Weights of one component at a time. */
static dit_result diti_fetch_component(diti_plan *plan, diti_replicas *replicas, dit_error *err) {
    diti_fetch fetch = DITI_ZERO;
    dit_result result;
    size_t i;
    fetch.device = plan->device;
    fetch.replicas = replicas;
    DITI_TRY(diti_replicas_enter(plan->device, replicas, err));
    result = diti_fetch_missing(&fetch, plan, err);
    for (i = 1; i < plan->tensor_count && result >= 0; i++) {
        diti_tensor_info *tensor = &plan->tensors[i];
        const diti_replica *replica;
        if (tensor->parent != i || !diti_fetch_wants(tensor) || diti_replica_needless(plan->device, tensor->part) ||
            diti_replicas_of(tensor->part) != replicas)
            continue;
        replica = diti_replica_find(replicas, plan->device, tensor->part, tensor->bytes);
        tensor->buffer = replica->buffer;
        tensor->offset = replica->offset;
    }
    diti_replicas_leave(replicas);
    return result;
}

DIT_INTERNAL uint64_t diti_graph_fetches(const diti_graph *graph) {
    uint64_t bytes = 0;
    size_t i, j;
    for (i = 1; i < graph->tensor_count; i++) {
        const diti_tensor_info *tensor = &graph->tensors[i];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || diti_replica_needless(graph->device, tensor->part))
            continue;
        for (j = 1; j < i; j++) { /* steps of several kinds read the same */
            const diti_tensor_info *other = &graph->tensors[j];
            if (other->storage == DITI_STORAGE_WEIGHT && other->parent == j && other->bytes == tensor->bytes &&
                other->part->offset == tensor->part->offset && other->part->pieces == tensor->part->pieces &&
                diti_replica_source(other->part) == diti_replica_source(tensor->part))
                break;
        }
        if (j == i) bytes += diti_align_up(tensor->bytes, 16);
    }
    return bytes;
}

DIT_INTERNAL dit_result diti_plan_fetch_weights(diti_plan *plan, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 1; i < plan->tensor_count && result >= 0; i++) {
        diti_tensor_info *tensor = &plan->tensors[i];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || tensor->buffer) continue;
        if (diti_replica_needless(plan->device, tensor->part)) {
            tensor->buffer = tensor->part->block->buffer.buffer;
            tensor->offset = tensor->part->offset;
        } else {
            result = diti_fetch_component(plan, diti_replicas_of(tensor->part), err);
        }
    }
    return result;
}
