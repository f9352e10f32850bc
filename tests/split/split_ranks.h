/* A transport between contexts of one process that know of each other by it alone, as ranks do. Include it after the
   library and test.h. */
#ifndef SPLIT_RANKS_H
#define SPLIT_RANKS_H

enum { LETTERS = 256 };
typedef struct letter {
    uint32_t from, to;
    uint64_t tag;
    size_t size;
    const void *data; /* of a send */
    void *room;       /* of a receive */
    int used, done, lost, failed;
} letter;
static letter letters[LETTERS];
static uint32_t broken_sends, broken_rows; /* not 0: the n-th, or the n-th poll of rows, fails */

/* Meets the other half, or waits for it. */
static inline void *post(uint32_t from, uint32_t to, uint64_t tag, const void *data, void *room, size_t size) {
    int i, mine = -1;
    for (i = 0; i < LETTERS; i++) {
        letter *l = &letters[i];
        if (!l->used && mine < 0) mine = i;
        if (!l->used || l->done || l->lost || l->from != from || l->to != to || l->tag != tag || !l->data == !data)
            continue;
        CHECK(l->size == size);
        memcpy(room ? room : l->room, data ? data : l->data, size);
        l->done = 1;
        mine = mine < 0 ? LETTERS - 1 : mine;
        memset(&letters[mine], 0, sizeof letters[mine]);
        letters[mine].used = letters[mine].done = 1;
        return &letters[mine];
    }
    if (!CHECK(mine >= 0)) return NULL;
    letters[mine].from = from;
    letters[mine].to = to;
    letters[mine].tag = tag;
    letters[mine].size = size;
    letters[mine].data = data;
    letters[mine].room = room;
    letters[mine].used = 1;
    letters[mine].done = letters[mine].lost = letters[mine].failed = 0;
    return &letters[mine];
}

/* All that is on its way never comes, though it may still be polled. */
static inline void lose_letters(void) {
    int i;
    for (i = 0; i < LETTERS; i++) letters[i].lost = letters[i].used && !letters[i].done;
}

static inline void *rank_send(uint32_t to, const void *data, size_t size, uint64_t tag, void *user) {
    if (broken_sends && --broken_sends == 0) return NULL;
    return post(*(uint32_t *)user, to, tag, data, NULL, size);
}

static inline void *rank_receive(uint32_t from, void *data, size_t size, uint64_t tag, void *user) {
    return post(from, *(uint32_t *)user, tag, NULL, data, size);
}

static inline int rank_poll(void *request_, void *user) {
    letter *l = (letter *)request_;
    bool rows = (l->tag >> 14 & 31) != (l->tag >> 19 & 31); /* other messages have their sender's rank twice */
    (void)user;
    if (l->failed) CHECK_MESSAGE(!l->failed, "a request is polled after it has failed"); /* polls are millions */
    if (broken_rows && rows && --broken_rows == 0) {
        l->lost = l->failed = 1; /* its place is not used again */
        return -1;
    }
    if (!l->done) return 0;
    l->used = 0;
    return 1;
}

static inline dit_transport rank_transport(uint32_t *rank, uint32_t count) {
    dit_transport out;
    memset(&out, 0, sizeof out);
    out.rank = *rank;
    out.rank_count = count;
    out.send = rank_send;
    out.receive = rank_receive;
    out.poll = rank_poll;
    out.user = rank;
    return out;
}
#endif
