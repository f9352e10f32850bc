/* Weights of blocks that devices have but a part of: each keeps those of every so many-th block, and sends them to the
   others, which have room for two blocks. The matrices of a block that ops read become, where another device keeps
   them, a tensor that is received: from the begin of the block before on, up to that of its own. */
#include "graph/ops_internal.h"

enum { DITI_SHARD_ROWS = 16 }; /* vectors and small tables are everywhere */

typedef struct diti_shard {
    diti_graph *graph;
    uint32_t self, devices, segment;
    diti_tensor end;    /* tensors from here on are made here */
    uint32_t *received; /* the number of the exchange of each tensor before `end` */
} diti_shard;

static bool diti_shard_has(const diti_shard *shard, const diti_mark *mark) {
    return mark->block != DITI_NO_BLOCK && mark->segment >= shard->segment;
}

/* Tensors that were made from a mark on to the next one. */
static diti_tensor diti_shard_end(const diti_shard *shard, const diti_mark *mark) {
    const diti_graph *graph = shard->graph;
    return mark + 1 < graph->marks + graph->mark_count ? mark[1].tensor : shard->end;
}

/* A matrix of a block that ops read, before it becomes a tensor that is received, or after. One that is streamed is
   nobody's: each device reads it from the file. */
static bool diti_shard_is_matrix(const diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = &graph->tensors[tensor];
    return info->part && !diti_part_streams(info->part) && info->parent == tensor && info->rows >= DITI_SHARD_ROWS &&
           info->first_use != DITI_UNUSED_YET;
}

/* Weights that ops of a block read in several places become one tensor. */
static void diti_shard_join(const diti_shard *shard, const diti_mark *mark) {
    diti_tensor_info *tensors = shard->graph->tensors;
    diti_tensor end = diti_shard_end(shard, mark), i, k;
    for (i = mark->tensor; i < end; i++) {
        for (k = mark->tensor; k < i && diti_shard_is_matrix(shard->graph, i); k++) {
            if (tensors[k].part != tensors[i].part || !diti_shard_is_matrix(shard->graph, k)) continue;
            if (tensors[k].last_use < tensors[i].last_use) tensors[k].last_use = tensors[i].last_use;
            tensors[i].parent = k;
        }
    }
    for (i = mark->tensor; i < shard->end; i++) { /* views */
        diti_tensor parent = tensors[i].parent;
        if (parent >= mark->tensor && parent < end) tensors[i].parent = tensors[parent].parent;
    }
}

static diti_exchange_event *diti_shard_note(const diti_shard *shard, const diti_mark *mark,
                                            diti_exchange_event_kind kind, uint32_t exchange) {
    diti_graph *graph = shard->graph;
    diti_exchange_event *event;
    if (!diti_grow(&graph->device->env, (void **)&graph->events, &graph->event_capacity, graph->event_count,
                   sizeof *graph->events)) {
        diti_graph_fail_memory(graph, "exchanges");
        return NULL;
    }
    event = &graph->events[graph->event_count++];
    event->kind = kind;
    event->exchange = exchange;
    event->tensor = graph->exchanges[exchange].tensor;
    event->segment = mark->segment;
    event->place = mark->place;
    return event;
}

static diti_exchange *diti_shard_add(diti_graph *graph, const diti_exchange *exchange) {
    if (!diti_grow(&graph->device->env, (void **)&graph->exchanges, &graph->exchange_capacity, graph->exchange_count,
                   sizeof *graph->exchanges)) {
        diti_graph_fail_memory(graph, "exchanges");
        return NULL;
    }
    graph->exchanges[graph->exchange_count] = *exchange;
    return &graph->exchanges[graph->exchange_count++];
}

/* The bytes of a matrix, as words. */
static diti_tensor diti_shard_words(diti_graph *graph, diti_tensor matrix) {
    diti_tensor words = diti_tensor_view(graph, matrix, 0, 1, 0, 1);
    diti_tensor_info *info;
    if (!words) return 0;
    info = &graph->tensors[words];
    info->format = DITI_U32;
    info->columns = info->pitch = (uint32_t)(graph->tensors[matrix].bytes / 4);
    return words;
}

/* At a mark, the exchanges of a matrix of the next block begin. */
static void diti_shard_begin(const diti_shard *shard, const diti_mark *mark, uint32_t owner, diti_tensor matrix) {
    diti_graph *graph = shard->graph;
    diti_exchange exchange = DITI_ZERO;
    uint32_t i;
    exchange.tensor = diti_shard_words(graph, matrix);
    exchange.segment = mark->segment;
    exchange.sends = owner == shard->self;
    exchange.ended = !exchange.sends;
    for (i = 0; i < shard->devices && !diti_graph_failed(graph); i++) {
        if (i == shard->self || (i != owner && !exchange.sends)) continue;
        exchange.peer = i;
        shard->received[matrix] = (uint32_t)graph->exchange_count;
        if (diti_shard_add(graph, &exchange))
            diti_shard_note(shard, mark, DITI_EXCHANGE_BEGINS, (uint32_t)graph->exchange_count - 1);
    }
    if (exchange.sends) return;
    graph->tensors[matrix].storage = DITI_STORAGE_ARENA;
    graph->tensors[matrix].first_use = mark->place;
}

/* The block that follows a mark: its matrices are fetched while ops behind the mark run. NULL: none. */
static const diti_mark *diti_shard_next(const diti_shard *shard, const diti_mark *mark) {
    const diti_mark *all = shard->graph->marks, *end = all + shard->graph->mark_count, *next;
    bool first = mark == all || mark[-1].segment != mark->segment;
    if (mark->block == DITI_NO_BLOCK && !first) return NULL;
    for (next = mark + 1; next < end && next->segment == mark->segment; next++)
        if (diti_shard_has(shard, next)) return next;
    return NULL;
}

static void diti_shard_meet(const diti_shard *shard, const diti_mark *mark) {
    const diti_mark *next = diti_shard_next(shard, mark);
    diti_graph *graph = shard->graph;
    diti_tensor i;
    if (diti_shard_has(shard, mark) && mark->block % shard->devices != shard->self)
        for (i = mark->tensor; i < diti_shard_end(shard, mark); i++)
            if (diti_shard_is_matrix(graph, i)) diti_shard_note(shard, mark, DITI_EXCHANGE_ENDS, shard->received[i]);
    if (!next) return;
    diti_shard_join(shard, next);
    for (i = next->tensor; i < diti_shard_end(shard, next) && !diti_graph_failed(graph); i++)
        if (diti_shard_is_matrix(graph, i)) diti_shard_begin(shard, mark, next->block % shard->devices, i);
}

/* Exchanges and events so far, with those of weights where they belong between them: all devices begin in one order. */
static void diti_shard_merge(const diti_shard *shard, const diti_exchange *exchanges, diti_exchange_event *events,
                             size_t count, uint32_t *numbers) {
    diti_graph *graph = shard->graph;
    size_t at = 0, mark = 0;
    for (; at <= count && !diti_graph_failed(graph); at++) {
        for (; mark < graph->mark_count && graph->marks[mark].event <= at; mark++)
            diti_shard_meet(shard, &graph->marks[mark]);
        if (at == count || diti_graph_failed(graph)) continue;
        if (events[at].kind == DITI_EXCHANGE_BEGINS) {
            numbers[events[at].exchange] = (uint32_t)graph->exchange_count;
            diti_shard_add(graph, &exchanges[events[at].exchange]);
        }
        if (events[at].kind != DITI_EXCHANGE_JOINS) events[at].exchange = numbers[events[at].exchange];
        if (!diti_grow(&graph->device->env, (void **)&graph->events, &graph->event_capacity, graph->event_count,
                       sizeof *graph->events))
            diti_graph_fail_memory(graph, "exchanges");
        else
            graph->events[graph->event_count++] = events[at];
    }
}

DIT_INTERNAL void diti_shard_blocks(diti_graph *graph, uint32_t self, uint32_t devices, uint32_t segment) {
    const diti_env *env = &graph->device->env;
    diti_exchange *exchanges = graph->exchanges;
    diti_exchange_event *events = graph->events;
    size_t exchange_count = graph->exchange_count, event_count = graph->event_count;
    diti_shard shard;
    uint32_t *numbers;
    if (diti_graph_failed(graph)) return;
    numbers = (uint32_t *)diti_alloc_array(env, exchange_count + graph->tensor_count, sizeof *numbers);
    if (!numbers) {
        diti_graph_fail_memory(graph, "exchanges");
        return;
    }
    shard.graph = graph;
    shard.self = self;
    shard.devices = devices;
    shard.segment = segment;
    shard.end = (diti_tensor)graph->tensor_count;
    shard.received = numbers + exchange_count;
    graph->exchanges = NULL;
    graph->events = NULL;
    graph->exchange_count = graph->exchange_capacity = graph->event_count = graph->event_capacity = 0;
    diti_shard_merge(&shard, exchanges, events, event_count, numbers);
    diti_free(env, exchanges);
    diti_free(env, events);
    diti_free(env, numbers);
}
