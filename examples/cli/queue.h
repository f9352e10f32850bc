/* The queue of dit --serve: requests wait for the main thread, which makes their pictures one after the other with the
   loaded model; the gallery keeps the newest. api.h says what requests mean, server.h carries them over HTTP. server.h
   includes it. Not part of dit.h. */
#ifndef QUEUE_H
#define QUEUE_H
#include <microhttpd.h>
#include <pthread.h>
#include <sys/socket.h>

enum {
    MOST_BODY = 64 << 20,    /* bytes of a request */
    MOST_BODIES = 256 << 20, /* bytes of all requests that are there at a time */
    MOST_WAITING = 32,       /* requests in the queue; further ones are told to come later */
    MOST_CONNECTIONS = 256,
    MOST_JOBS = 64,     /* of stable-diffusion.cpp's API that are kept: more than wait */
    MOST_FIELDS = 64,   /* of a form */
    MOST_PICTURES = 64, /* of a request, and of the gallery */
    IDLE_SECONDS = 30,  /* without a byte from the client */
    BODY_SECONDS = 120  /* for a whole request */
};

/* Bytes that grow, as they come. */
typedef struct field {
    char name[64];
    unsigned char *bytes; /* freed with free; a NUL stands behind them */
    size_t size, room;
} field;

typedef struct made_picture {
    unsigned char *bytes; /* of its file; freed with free */
    char *text;           /* its parameters; freed with free */
    size_t size;
    uint64_t seed;
} made_picture;

typedef enum job_state { JOB_QUEUED, JOB_GENERATING, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED } job_state;

/* A request for pictures, in the queue or being made; a job also when it is over. */
typedef struct ticket {
    struct ticket *next;
    struct exchange *exchange;
    struct MHD_Connection *connection; /* it sleeps until the answer is there */
    int socket;
    options o;
    char *texts[48]; /* that o points to; freed with free */
    uint32_t text_count;
    field start, mask, references[MOST_REFERENCES]; /* files of pictures; start begins the picture */
    uint32_t reference_count;
    bool mask_inverted; /* A1111's: what is black or transparent is repainted */
    bool previews, as_url, openai;
    still_kind kind;
    uint32_t count;
    made_picture made[MOST_PICTURES];
    uint32_t made_count;
    bool interrupted; /* by a request of somebody, not by its own client */
    uint64_t job;     /* number of a job, which no connection waits for; 0: it is none. Its other members, under the
                         server's lock: */
    job_state state;
    time_t created, started, completed; /* 0: not yet */
    char why[512];                      /* it failed */
} ticket;

/* A connection's request and answer. */
typedef struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    field body, fields[MOST_FIELDS]; /* of JSON; of a form */
    uint32_t field_count;
    struct MHD_PostProcessor *form;
    size_t taken; /* bytes that count in server.bodies */
    double begun;
    ticket *ticket; /* NULL: none */
    bool was_form, asleep;
    unsigned status;   /* of the answer; 0: there is none yet */
    const char *allow; /* methods of the path, where the status is 405 */
    parameter_text answer;
} exchange;

typedef struct kept_picture {
    unsigned char *bytes;
    size_t size;
    char *text;
    uint64_t number;
    still_kind kind;
} kept_picture;

typedef struct server {
    app *a;
    options usual; /* as the program was called, but for the model */
    struct MHD_Daemon *daemon;
    catalogue models;
    bool local;           /* only this machine reaches it */
    pthread_mutex_t lock; /* around all that follows, and usual.model */
    pthread_cond_t work;
    ticket *first, **last, *running;
    uint32_t waiting;
    size_t bodies;
    bool interrupt;
    dit_status status; /* of the running request */
    double begun;
    uint32_t pictures_done;
    unsigned char *preview; /* a PNG; freed with free */
    size_t preview_size;
    kept_picture gallery[MOST_PICTURES];
    uint64_t kept; /* pictures that ever were in the gallery */
    ticket *jobs[MOST_JOBS];
    uint64_t job_count; /* jobs that ever were */
} server;

/* ---- Memory ---- */

static void free_field(field *f) {
    free(f->bytes);
    memset(f, 0, sizeof *f);
}

static bool grow_field(field *f, const void *bytes, size_t size) {
    if (f->size + size + 1 > f->room) {
        const size_t room = 2 * (f->size + size) + 256;
        unsigned char *more = realloc(f->bytes, room);
        if (!more) return false;
        f->bytes = more;
        f->room = room;
    }
    memcpy(f->bytes + f->size, bytes, size);
    f->size += size;
    f->bytes[f->size] = 0;
    return true;
}

static void free_ticket(ticket *t) {
    uint32_t i;
    if (!t) return;
    for (i = 0; i < t->text_count; i++) free(t->texts[i]);
    for (i = 0; i < t->made_count; i++) free(t->made[i].bytes), free(t->made[i].text);
    for (i = 0; i < MOST_REFERENCES; i++) free_field(&t->references[i]);
    free_field(&t->start);
    free_field(&t->mask);
    free(t);
}

static void free_exchange(exchange *e) {
    uint32_t i;
    if (e->form) MHD_destroy_post_processor(e->form);
    for (i = 0; i < e->field_count; i++) free_field(&e->fields[i]);
    free_field(&e->body);
    free_ticket(e->ticket);
    free(e->answer.at);
    free(e);
}

/* A copy of text for an option of a ticket; false without memory. */
static bool set_text(ticket *t, const char **option, const char *text) {
    char *copy = t->text_count < sizeof t->texts / sizeof t->texts[0] ? strdup(text) : NULL;
    if (!copy) return false;
    t->texts[t->text_count++] = copy;
    *option = copy;
    return true;
}

/* ---- Waiting ---- */

/* Whether the client has closed its side. */
static bool client_left(int socket) {
    char byte;
    const ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Gives an answer to a sleeping connection, whose thread owns the ticket from here on. The lock is held. */
static void wake(ticket *t) {
    t->exchange->asleep = false;
    MHD_resume_connection(t->connection);
}

/* The lock is held. */
static void append_ticket(server *s, ticket *t) {
    t->next = NULL;
    *s->last = t;
    s->last = &t->next;
    s->waiting++;
    pthread_cond_signal(&s->work);
}

/* Requests whose clients have gone leave the queue. The lock is held. */
static void forget_gone(server *s) {
    ticket **link = &s->first;
    while (*link) {
        ticket *t = *link;
        if (t->job || !client_left(t->socket)) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        s->waiting--;
        t->exchange->status = 499;
        wake(t);
    }
    s->last = link;
}

/* The next request, or NULL after a moment without one. */
static ticket *next_ticket(server *s) {
    struct timespec until;
    ticket *t;
    pthread_mutex_lock(&s->lock);
    forget_gone(s);
    if (!s->first) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->work, &s->lock, &until);
    }
    t = s->first;
    if (t) {
        s->first = t->next;
        if (!s->first) s->last = &s->first;
        s->waiting--;
        s->running = t;
        t->state = JOB_GENERATING;
        t->started = time(NULL);
        s->interrupt = false;
        memset(&s->status, 0, sizeof s->status);
        s->begun = now();
        s->pictures_done = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return t;
}

/* ---- Making: hooks of a request, in the main thread ---- */

/* status NULL: context, model or plan are made. */
static bool watch_ticket(app *a, const dit_status *status) {
    server *s = (server *)a->follow.user;
    bool go_on;
    pthread_mutex_lock(&s->lock);
    if (status) s->status = *status;
    if (s->interrupt) s->running->interrupted = true;
    go_on = !s->interrupt && (s->running->job || !client_left(s->running->socket));
    forget_gone(s);
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void keep_preview(app *a, const unsigned char *rgba, uint32_t width, uint32_t height) {
    server *s = (server *)a->follow.user;
    size_t size = 0;
    unsigned char *png = encode_png(rgba, width, height, NULL, NULL, &size), *before;
    if (!png) return;
    pthread_mutex_lock(&s->lock);
    before = s->preview;
    s->preview = png;
    s->preview_size = size;
    pthread_mutex_unlock(&s->lock);
    free(before);
}

/* A copy for the gallery, in which the newest takes the oldest one's place. */
static void keep_picture(server *s, const made_picture *p, still_kind kind) {
    kept_picture kept = {NULL, 0, NULL, 0, STILL_PNG}, *place, before;
    kept.bytes = malloc(p->size);
    kept.text = strdup(p->text);
    kept.size = p->size;
    kept.kind = kind;
    if (!kept.bytes || !kept.text) {
        free(kept.bytes);
        free(kept.text);
        return;
    }
    memcpy(kept.bytes, p->bytes, p->size);
    pthread_mutex_lock(&s->lock);
    place = &s->gallery[s->kept % MOST_PICTURES];
    before = *place;
    kept.number = ++s->kept;
    *place = kept;
    pthread_mutex_unlock(&s->lock);
    free(before.bytes);
    free(before.text);
}

static bool take_made(app *a, uint32_t i) {
    server *s = (server *)a->follow.user;
    ticket *t = s->running;
    made_picture p = {NULL, NULL, 0, 0};
    if (t->made_count == MOST_PICTURES) return true;
    p.seed = a->r.seed + i;
    p.text = parameters_text(a, i);
    if (p.text)
        p.bytes = encode_still(t->kind, a->rgba, a->r.width, a->r.height, a->r.quality,
                               a->o.no_metadata ? NULL : p.text, &p.size);
    if (!p.bytes) {
        free(p.text);
        return false;
    }
    keep_picture(s, &p, t->kind);
    t->made[t->made_count++] = p;
    pthread_mutex_lock(&s->lock);
    s->pictures_done = t->made_count;
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* The picture in a field, if there is one. NULL, or why not. */
static const char *decode_field(const field *f, picture *out) {
    return f->size ? decode_picture(f->bytes, f->size, out) : NULL;
}

/* White becomes what is to be repainted: of OpenAI's masks the transparent part; of A1111's, where a part is
   transparent, the other one. NULL, or why not. */
static const char *whiten_mask(const ticket *t, picture *mask) {
    const size_t count = (size_t)mask->width * mask->height;
    bool by_alpha = t->openai, repaints = !t->openai;
    size_t i, c;
    for (i = 0; i < count; i++) {
        by_alpha = by_alpha || mask->rgba[4 * i + 3] < 255;
        repaints = repaints || mask->rgba[4 * i + 3] < 128;
    }
    for (i = 0; i < count; i++) {
        unsigned char *pixel = mask->rgba + 4 * i;
        if (by_alpha) memset(pixel, (pixel[3] < 128) == t->openai ? 255 : 0, 3);
        for (c = 0; c < 3 && t->mask_inverted; c++) pixel[c] = (unsigned char)(255 - pixel[c]);
        pixel[3] = 255;
    }
    return repaints ? NULL : "nothing of it is transparent, and the transparent part is what is repainted";
}

/* Makes the pictures of a ticket; gives the exit code that the command line would have, and its sentence. */
static int make_ticket(server *s, ticket *t) {
    app *a = s->a;
    char what[40] = "the mask";
    const char *why = decode_field(&t->mask, &a->handed[1]);
    uint32_t i;
    int code;
    if (!why && a->handed[1].rgba) why = whiten_mask(t, &a->handed[1]);
    if (!why) {
        why = decode_field(&t->start, &a->handed[0]);
        snprintf(what, sizeof what, "the picture to begin with");
    }
    for (i = 0; i < t->reference_count && !why; i++) {
        why = decode_field(&t->references[i], &a->handed[2 + i]);
        snprintf(what, sizeof what, "image %u", i + 1);
    }
    a->o = t->o;
    a->follow.watch = watch_ticket;
    a->follow.take = take_made;
    a->follow.preview = keep_preview;
    a->follow.kind = t->kind;
    a->follow.scales_mask = !t->openai;
    a->follow.previews = t->previews;
    a->follow.edits = t->openai && t->start.size;
    a->follow.user = s;
    a->first_picture = 0;
    complaint.text[0] = 0;
    complaint.silent = true;
    code = why ? complain(EXIT_USAGE, "%s: %s", what, why) : make_request(a);
    complaint.silent = false;
    memset(&a->follow, 0, sizeof a->follow);
    for (i = 0; i < HANDED; i++) free(a->handed[i].rgba);
    memset(a->handed, 0, sizeof a->handed);
    return code;
}
#endif
