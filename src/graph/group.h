/* group: several devices at one kind of work. Exchanges of rows between two devices, and what is made of them: sending,
   gathering, summing, heads for rows, blocks of which each device keeps a part. Other rooms call the second kind. */
#ifndef DITI_GROUP_H
#define DITI_GROUP_H
#include "graph/graph.h"

DIT_INTERNAL uint64_t diti_exchange_row_bytes(const diti_tensor_info *tensor); /* bytes of a row that are copied */

/* --- weights of blocks that devices keep a part of (shard.c) --- */
/* The last thing done to a graph: in segments from `segment` on, matrices of block i (diti_graph_scope) are kept by
   device i modulo `devices` alone, which sends them to all others in every run of a segment, one block ahead of their
   use: (devices - 1) * the bytes of its matrices, each in whole words. All devices' graphs must have the same blocks.
 */
DIT_INTERNAL void diti_shard_blocks(diti_graph *graph, uint32_t self, uint32_t devices, uint32_t segment);

/* --- several devices at one kind of work (collective.c) --- */
typedef struct diti_ranks {
    uint32_t count, index; /* count 0 and 1: this device alone; index: number of this device in the group */
    uint32_t devices[DITI_MAX_DEVICES]; /* numbers of the members, as exchanges have them */
    bool mirrored;                      /* the last has as much as the first, the last but one as the second, … */
    float weights[DITI_MAX_DEVICES];    /* how much of the work each is to have; all 0: equal parts */
} diti_ranks;
DIT_INTERNAL uint32_t diti_ranks_count(const diti_ranks *group); /* at least 1; NULL is fine */
/* Members divide `total` rows, heads or layers into consecutive ones: each has those from its first to the next one's,
   which for index count is total. None is left without where there are enough. */
DIT_INTERNAL uint32_t diti_ranks_first(const diti_ranks *group, uint32_t index, uint32_t total);
DIT_INTERNAL uint32_t diti_ranks_size(const diti_ranks *group, uint32_t index, uint32_t total);
/* x goes to a device; it may change when the segment ends. */
DIT_INTERNAL void diti_send(diti_graph *graph, diti_tensor x, uint32_t device);
/* x comes from a device; the next op finds it there. */
DIT_INTERNAL void diti_receive(diti_graph *graph, diti_tensor x, uint32_t device);
/* Several come at the same time. */
DIT_INTERNAL void diti_receive_several(diti_graph *graph, const diti_tensor *x, uint32_t count, uint32_t device);
/* x is there when the segment ends, and no op of the segment reads it. */
DIT_INTERNAL void diti_receive_by_end(diti_graph *graph, diti_tensor x, uint32_t device);
/* x, a state or an input, may come in a later segment: diti_receive_join waits for it. */
DIT_INTERNAL void diti_receive_carried(diti_graph *graph, diti_tensor x, uint32_t device);
DIT_INTERNAL void diti_receive_join(diti_graph *graph, diti_tensor x);
/* x comes while the ops that follow run: a ticket for diti_payload_take, which waits for it. */
DIT_INTERNAL uint32_t diti_receive_begin(diti_graph *graph, diti_tensor x, uint32_t device);
/* `from` goes to a device, and `to` comes from it or from another one, while the ops that follow run. */
typedef struct diti_trade {
    uint32_t sent, received;
} diti_trade;
DIT_INTERNAL diti_trade diti_trade_begin(diti_graph *graph, diti_tensor from, uint32_t next, diti_tensor to,
                                         uint32_t before);
DIT_INTERNAL void diti_trade_end(diti_graph *graph, diti_trade trade);
/* Ends it: the payload that has come, in that format. */
DIT_INTERNAL diti_tensor diti_trade_take(diti_graph *graph, diti_trade trade, diti_tensor payload, diti_element format);
/* `from` goes to a device, and `to` comes from it, at the same time; both are through before the next op. */
DIT_INTERNAL void diti_swap(diti_graph *graph, diti_tensor from, diti_tensor to, uint32_t device);
/* x of member `root` goes to all others, who find it there with the next op. Sends all of x to each. */
DIT_INTERNAL void diti_broadcast(diti_graph *graph, const diti_ranks *group, uint32_t root, diti_tensor x);
/* Every member has its rows of each of `items` items, part [items * own, columns]; all come to have all of them, a new
   tensor [items * total, columns] of the same format. Sends items * own * columns elements to every other member. */
DIT_INTERNAL diti_tensor diti_all_gather(diti_graph *graph, const diti_ranks *group, diti_tensor part, uint32_t items,
                                         uint32_t total, const char *name);
/* x F32 becomes the sum of all members' x, added in the order of members, so that all have the same bytes. Each sends
   to each other one the rows that are that one's, of x and of the sum its own: of N equal parts 2 (N - 1) / N of x. */
DIT_INTERNAL void diti_all_reduce(diti_graph *graph, const diti_ranks *group, diti_tensor x, const char *name);
/* Stores values received from a device of the sequence with the exponent of this device's own values. */
DIT_INTERNAL void diti_guard_alike(diti_graph *graph, diti_tensor own, diti_tensor received);
/* Stores values received with the exponent of the op of that name, in the scope at hand, on the device that makes them:
   for a device that has no such op. */
DIT_INTERNAL void diti_guard_expect(diti_graph *graph, diti_tensor received, const char *name);
/* x as it is sent, and from where it came to where it belongs. As int8 a row of c columns has c bytes, zeros up to a
   multiple of 16, and 16 for its scale. */
DIT_INTERNAL diti_tensor diti_payload(diti_graph *graph, diti_tensor x);
DIT_INTERNAL void diti_payload_unpack(diti_graph *graph, diti_tensor payload, diti_tensor out);
/* Ends diti_receive_begin: the payload that has come, in that format. */
DIT_INTERNAL diti_tensor diti_payload_take(diti_graph *graph, uint32_t exchange, diti_tensor payload,
                                           diti_element format);
/* The format that payloads of a tensor have. */
DIT_INTERNAL diti_element diti_payload_format(const diti_graph *graph, diti_tensor x);
/* Columns of so many that are a member's, in whole fours: those from its first on. */
DIT_INTERNAL uint32_t diti_ranks_column(const diti_ranks *group, uint32_t index, uint32_t columns);
/* Every member has made its columns of x, which then go to all: each sends rows * own columns to every other one. */
DIT_INTERNAL void diti_gather_columns(diti_graph *graph, const diti_ranks *group, diti_tensor x);
/* Member i's columns are those from first[i] on; first[count]: the number of all. */
DIT_INTERNAL void diti_gather_stretches(diti_graph *graph, const diti_ranks *group, diti_tensor x,
                                        const uint32_t *first);
/* Ulysses: from some rows of all heads to all rows of some heads, and back. kinds: what stands side by side, each of
   heads * head_dim columns (q, k, v). rows[i]: of each item with member i; own heads: diti_ranks_size of heads. */
typedef struct diti_exchange_heads {
    const diti_ranks *group;
    const uint32_t *rows;
    uint32_t items, heads, head_dim;
} diti_exchange_heads;
/* [items * own rows, kinds * heads * head_dim] -> [items * all rows, kinds * own heads * head_dim] */
DIT_INTERNAL diti_tensor diti_gather_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                           uint32_t kinds);
/* Heads are exchanged kind by kind: each is on its way as soon as x has its columns, while the next one is computed. */
typedef struct diti_heads_flow {
    diti_tensor x, out;
    size_t begun;
    uint32_t kinds;
    diti_tensor payloads[DITI_MAX_DEVICES][4];
} diti_heads_flow;
DIT_INTERNAL void diti_heads_flow_begin(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                        uint32_t kinds, diti_heads_flow *flow);
DIT_INTERNAL void diti_heads_flow_send(diti_graph *graph, const diti_exchange_heads *desc, diti_heads_flow *flow,
                                       uint32_t kind);
DIT_INTERNAL diti_tensor diti_heads_flow_end(diti_graph *graph, const diti_exchange_heads *desc, diti_heads_flow *flow);
/* [items * all rows, own heads * head_dim] -> [items * own rows, heads * head_dim], out or a new tensor */
DIT_INTERNAL diti_tensor diti_scatter_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                            diti_tensor out);
#endif
