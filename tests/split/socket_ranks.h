/* A transport between processes on one machine, over sockets: what rank_transport of split_ranks.h is to contexts of
   one process. Make the sockets, then fork the ranks. */
#ifndef SOCKET_RANKS_H
#define SOCKET_RANKS_H
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKET_RANKS = 4 };
typedef struct socket_head {
    uint64_t tag, size;
} socket_head;
typedef struct socket_transfer { /* what was asked for, or a message that has come */
    struct socket_transfer *next;
    uint32_t peer;
    socket_head head;
    const unsigned char *sent;
    unsigned char *room;
    size_t done; /* bytes, with those of the head */
    bool over;
} socket_transfer;
typedef struct socket_peer {
    int socket;                                           /* -1: gone */
    socket_transfer *sends, *arriving, *arrived, *posted; /* arrived, posted: in order, as in MPI */
} socket_peer;
static int socket_pairs[SOCKET_RANKS][SOCKET_RANKS]; /* the end of one rank towards another */
static socket_peer socket_peers[SOCKET_RANKS];

static inline bool sockets_make(uint32_t ranks) {
    uint32_t a, b;
    int ends[2];
    for (a = 0; a < ranks; a++)
        for (b = a + 1; b < ranks; b++) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return false;
            socket_pairs[a][b] = ends[0];
            socket_pairs[b][a] = ends[1];
        }
    return true;
}

/* Leaves a rank its own ends, and the parent (rank SOCKET_RANKS) none: else no end would be seen. */
static inline void sockets_keep(uint32_t rank, uint32_t ranks) {
    uint32_t a, b;
    for (a = 0; a < ranks; a++)
        for (b = 0; b < ranks; b++) {
            if (a == b) continue;
            if (a != rank) close(socket_pairs[a][b]);
            if (a != rank) continue;
            fcntl(socket_pairs[a][b], F_SETFL, O_NONBLOCK);
            socket_peers[b].socket = socket_pairs[a][b];
        }
}

static inline void socket_write(socket_peer *peer) {
    while (peer->sends && peer->socket >= 0) {
        socket_transfer *t = peer->sends;
        size_t head = sizeof t->head;
        ssize_t wrote = t->done < head ? send(peer->socket, (char *)&t->head + t->done, head - t->done, MSG_NOSIGNAL)
                                       : send(peer->socket, t->sent + t->done - head,
                                              (size_t)t->head.size + head - t->done, MSG_NOSIGNAL);
        if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (wrote < 0) return; /* what has come is still read */
        t->done += (size_t)wrote;
        if (t->done < head + t->head.size) continue;
        t->over = true;
        peer->sends = t->next;
    }
}

/* The last of a list, in which no other transfer has this tag: tags differ for all that is on its way. */
static inline socket_transfer **socket_end(socket_transfer **list, uint64_t tag) {
    for (; *list; list = &(*list)->next) CHECK_MESSAGE((*list)->head.tag != tag, "tag %llx", (unsigned long long)tag);
    return list;
}

static inline void socket_read(socket_peer *peer) {
    while (peer->socket >= 0) {
        socket_transfer *t = peer->arriving;
        size_t head = sizeof t->head;
        ssize_t came;
        if (!t) t = peer->arriving = (socket_transfer *)calloc(1, sizeof *t);
        came = t->done < head ? recv(peer->socket, (char *)&t->head + t->done, head - t->done, 0)
                              : recv(peer->socket, t->room + t->done - head, (size_t)t->head.size + head - t->done, 0);
        if (came < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (came <= 0) {
            close(peer->socket);
            peer->socket = -1;
            return;
        }
        t->done += (size_t)came;
        if (t->done == head) t->room = (unsigned char *)malloc((size_t)t->head.size + 1);
        if (t->done < head + t->head.size) continue;
        *socket_end(&peer->arrived, t->head.tag) = t;
        peer->arriving = NULL;
    }
}

static inline void *socket_ask(uint32_t peer, uint64_t tag, const void *sent, void *room, size_t size) {
    socket_transfer *t = (socket_transfer *)calloc(1, sizeof *t), **last = &socket_peers[peer].sends;
    t->peer = peer;
    t->head.tag = tag;
    t->head.size = size;
    t->sent = (const unsigned char *)sent;
    t->room = (unsigned char *)room;
    if (!sent) last = socket_end(&socket_peers[peer].posted, tag);
    while (*last) last = &(*last)->next;
    *last = t;
    return t;
}

static inline void *socket_send(uint32_t to, const void *data, size_t size, uint64_t tag, void *user) {
    (void)user;
    return socket_ask(to, tag, data, NULL, size);
}

static inline void *socket_receive(uint32_t from, void *data, size_t size, uint64_t tag, void *user) {
    (void)user;
    return socket_ask(from, tag, NULL, data, size);
}

/* A message that has come goes to the receive of its tag that was asked for first. */
static inline void socket_match(socket_peer *peer) {
    socket_transfer **at = &peer->arrived;
    while (*at) {
        socket_transfer *found = *at, **to = &peer->posted, *t;
        while (*to && (*to)->head.tag != found->head.tag) to = &(*to)->next;
        t = *to;
        if (!t) {
            at = &found->next;
            continue;
        }
        CHECK(found->head.size == t->head.size);
        memcpy(t->room, found->room, (size_t)t->head.size);
        t->over = true;
        *to = t->next;
        *at = found->next;
        free(found->room);
        free(found);
    }
}

static inline int socket_poll(void *request, void *user) {
    socket_transfer *t = (socket_transfer *)request;
    socket_peer *peer = &socket_peers[t->peer];
    (void)user;
    socket_write(peer);
    socket_read(peer);
    socket_match(peer);
    if (!t->over) return peer->socket < 0 ? -1 : 0;
    free(t);
    return 1;
}

static inline dit_transport socket_transport(uint32_t rank, uint32_t ranks) {
    dit_transport out;
    memset(&out, 0, sizeof out);
    out.rank = rank;
    out.rank_count = ranks;
    out.send = socket_send;
    out.receive = socket_receive;
    out.poll = socket_poll;
    return out;
}
#endif
