/* dit --serve: HTTP by libmicrohttpd. One thread of it takes requests and gives answers; the main thread makes pictures
   (queue.h). Bodies, connections, their time and the queue have limits. Needs libmicrohttpd and jansson (-DDIT_HTTP
   -DDIT_JSON), and the page in build/page.inc. txt2img.c includes it behind batch.h. Not part of dit.h. */
#ifndef SERVER_H
#define SERVER_H
#if defined(DIT_HTTP) && defined(DIT_JSON)
#include "api.h"
#include "sdcpp.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

static const unsigned char page[] = {
#include "page.inc"
};

/* ---- Answers over HTTP ---- */

static enum MHD_Result send_bytes(struct MHD_Connection *connection, unsigned status, const char *type, void *bytes,
                                  size_t size, enum MHD_ResponseMemoryMode mode, const char *allow) {
    struct MHD_Response *response = MHD_create_response_from_buffer(size, bytes, mode);
    enum MHD_Result sent;
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'");
    if (allow) MHD_add_response_header(response, "Allow", allow);
    if (status == 429) MHD_add_response_header(response, "Retry-After", "5");
    if (status == 413) MHD_add_response_header(response, "Connection", "close");
    sent = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, exchange *e) {
    parameter_text answer = e->answer;
    if (!e->status) e->status = 200;
    if (!answer.at) {
        answer_error(e, false, e->status == 200 ? 507 : e->status, "out of memory");
        answer = e->answer;
    }
    if (!answer.at) return MHD_NO;
    memset(&e->answer, 0, sizeof e->answer);
    return send_bytes(connection, e->status, "application/json", answer.at, answer.length, MHD_RESPMEM_MUST_FREE,
                      e->allow);
}

/* ---- Who may ask: a page of another site must not, though it runs in a browser on this machine ---- */

static bool names_this_machine(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(host, names[i], length) == 0 && (!host[length] || host[length] == ':')) return true;
    }
    return false;
}

static bool may_ask(const server *s, struct MHD_Connection *connection) {
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
               *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"), *at;
    if (s->local && host && !names_this_machine(host)) return false; /* a name that was made to lead here */
    if (!origin) return true;
    at = strstr(origin, "://");
    return host && at && strcmp(at + 3, host) == 0;
}

/* ---- Bodies ---- */

/* Whether so many bytes more may come. */
static bool take_bytes(exchange *e, size_t size) {
    server *s = e->server;
    bool good;
    if (e->taken + size > MOST_BODY) return false;
    pthread_mutex_lock(&s->lock);
    good = s->bodies + size <= MOST_BODIES;
    if (good) s->bodies += size;
    pthread_mutex_unlock(&s->lock);
    if (good) e->taken += size;
    return good;
}

static enum MHD_Result take_field(void *user, enum MHD_ValueKind kind, const char *name, const char *file,
                                  const char *type, const char *encoding, const char *data, uint64_t at, size_t size) {
    exchange *e = (exchange *)user;
    (void)kind, (void)file, (void)type, (void)encoding;
    if (at == 0) {
        if (e->field_count == MOST_FIELDS) return MHD_NO;
        snprintf(e->fields[e->field_count++].name, sizeof e->fields[0].name, "%s", name);
    }
    return e->field_count && grow_field(&e->fields[e->field_count - 1], data, size) ? MHD_YES : MHD_NO;
}

/* ---- The queue ---- */

/* Puts the ticket into the queue and lets the connection sleep. */
static enum MHD_Result enqueue(struct MHD_Connection *connection, exchange *e) {
    server *s = e->server;
    ticket *t = e->ticket;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    bool full;
    t->connection = connection;
    t->socket = info ? info->connect_fd : -1;
    pthread_mutex_lock(&s->lock);
    full = s->waiting >= MOST_WAITING || !info || caught_signal;
    if (!full) {
        e->asleep = true;
        MHD_suspend_connection(connection);
        append_ticket(s, t);
    }
    pthread_mutex_unlock(&s->lock);
    if (!full) return MHD_YES;
    answer_error(e, t->openai, 429, "%d requests are waiting already; try again later", MOST_WAITING);
    return send_answer(connection, e);
}

/* ---- Paths ---- */

static bool is_get(const char *method) { return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0; }

static enum MHD_Result send_kept(struct MHD_Connection *connection, exchange *e, const char *digits) {
    static const char *const types[] = {"image/png", "image/jpeg", "image/webp"};
    server *s = e->server;
    const uint64_t number = strtoull(digits, NULL, 10);
    unsigned char *copy = NULL;
    size_t size = 0;
    still_kind kind = STILL_PNG;
    pthread_mutex_lock(&s->lock);
    if (number >= 1 && number <= s->kept && s->kept - number < MOST_PICTURES) {
        const kept_picture *p = &s->gallery[(number - 1) % MOST_PICTURES];
        copy = malloc(p->size);
        if (copy) memcpy(copy, p->bytes, size = p->size);
        kind = p->kind;
    }
    pthread_mutex_unlock(&s->lock);
    if (copy) return send_bytes(connection, 200, types[kind], copy, size, MHD_RESPMEM_MUST_FREE, NULL);
    answer_error(e, false, 404, "this picture is not kept; the newest %d are", MOST_PICTURES);
    return send_answer(connection, e);
}

static void get_progress(exchange *e) {
    const char *skip = MHD_lookup_connection_value(e->connection, MHD_GET_ARGUMENT_KIND, "skip_current_image");
    answer_progress(e, !skip || strcmp(skip, "true") != 0);
}

static void get_samplers(exchange *e) { answer_names(e, dit_sampler_name, true); }
static void get_schedulers(exchange *e) { answer_names(e, dit_schedule_name, false); }
static bool post_generations(exchange *e) { return take_generations(e) && take_extra_args(e); }
static bool post_txt2img(exchange *e) { return take_txt2img(e, false) && take_extra_args(e); }
static bool post_img2img(exchange *e) { return take_txt2img(e, true) && take_extra_args(e); }

static bool post_edits(exchange *e) {
    if (e->was_form) return take_edits(e) && take_extra_args(e);
    answer_error(e, true, 400, "the body must be a form: multipart/form-data");
    return false;
}

static bool post_options(exchange *e) {
    change_options(e);
    return false;
}

static bool post_interrupt(exchange *e) {
    pthread_mutex_lock(&e->server->lock);
    e->server->interrupt = e->server->running != NULL;
    pthread_mutex_unlock(&e->server->lock);
    json_raw(&e->answer, "{}");
    return false;
}

/* All paths but those of the page and its pictures. */
static const struct {
    const char *path;
    void (*get)(exchange *e);
    bool (*post)(exchange *e); /* true: a ticket goes into the queue; false: the answer is there */
} paths[] = {
    {"/v1/models", answer_models, NULL},
    {"/v1/images/generations", NULL, post_generations},
    {"/v1/images/edits", NULL, post_edits},
    {"/sdapi/v1/txt2img", NULL, post_txt2img},
    {"/sdapi/v1/img2img", NULL, post_img2img},
    {"/sdapi/v1/progress", get_progress, NULL},
    {"/sdapi/v1/interrupt", NULL, post_interrupt},
    {"/sdapi/v1/options", answer_options, post_options},
    {"/sdapi/v1/sd-models", answer_sd_models, NULL},
    {"/sdapi/v1/samplers", get_samplers, NULL},
    {"/sdapi/v1/schedulers", get_schedulers, NULL},
    {"/sdapi/v1/loras", answer_loras, NULL},
    {"/sdapi/v1/upscalers", answer_upscalers, NULL},
    {"/sdapi/v1/latent-upscale-modes", answer_latent_modes, NULL},
    {"/sdapi/v1/sd-vae", answer_none, NULL},
    {"/sdapi/v1/prompt-styles", answer_none, NULL},
    {"/sdcpp/v1/capabilities", answer_capabilities, NULL},
    {"/sdcpp/v1/img_gen", NULL, post_img_gen},
    {"/sdcpp/v1/vid_gen", NULL, post_vid_gen},
    {"/pictures", answer_gallery, NULL},
};
enum { PATHS = sizeof paths / sizeof paths[0] };

static enum MHD_Result refuse_method(exchange *e, const char *allow, const char *method, const char *path) {
    e->allow = allow;
    answer_error(e, strncmp(path, "/v1/", 4) == 0, 405, "%s is not understood at %s; %s is", method, path, allow);
    return send_answer(e->connection, e);
}

/* /sdcpp/v1/jobs/job_7, and /cancel behind it. */
static enum MHD_Result route_job(exchange *e, const char *method, const char *path) {
    server *s = e->server;
    char rest[16] = "", more;
    unsigned long long number = 0;
    const int parts = sscanf(path, "/sdcpp/v1/jobs/job_%19llu%15s%c", &number, rest, &more);
    const bool cancels = strcmp(rest, "/cancel") == 0, known = number >= 1 && (parts == 1 || (parts == 2 && cancels));
    ticket *t;
    if (known && !(cancels ? strcmp(method, "POST") == 0 : is_get(method)))
        return refuse_method(e, cancels ? "POST" : "GET, HEAD", method, path);
    pthread_mutex_lock(&s->lock);
    t = known && number <= s->job_count ? s->jobs[(number - 1) % MOST_JOBS] : NULL;
    if (t && t->job == number) {
        if (cancels) cancel_job(s, t);
        answer_job(e, t);
    } else if (known && number <= s->job_count) {
        answer_error(e, false, 410, "job_%llu is over, and its pictures have made room for those of newer jobs",
                     number);
    } else {
        answer_error(e, false, 404, "there is no job at %s", path);
    }
    pthread_mutex_unlock(&s->lock);
    return send_answer(e->connection, e);
}

static enum MHD_Result route(exchange *e, const char *method, const char *path) {
    const bool gets = is_get(method), posts = strcmp(method, "POST") == 0, kept = strncmp(path, "/pictures/", 10) == 0;
    size_t i = 0;
    if (strcmp(path, "/") == 0 || kept) {
        if (!gets) return refuse_method(e, "GET, HEAD", method, path);
        if (kept) return send_kept(e->connection, e, path + 10);
        return send_bytes(e->connection, 200, "text/html; charset=utf-8", (void *)(uintptr_t)page, sizeof page,
                          MHD_RESPMEM_PERSISTENT, NULL);
    }
    if (strncmp(path, "/sdcpp/v1/jobs/", 15) == 0) return route_job(e, method, path);
    while (i < PATHS && strcmp(paths[i].path, path) != 0) i++;
    if (i == PATHS) {
        answer_error(e, strncmp(path, "/v1/", 4) == 0, 404,
                     "there is nothing at %s; / is a page, /v1/images/ has OpenAI's API, /sdapi/v1/ A1111's and "
                     "/sdcpp/v1/ stable-diffusion.cpp's",
                     path);
        return send_answer(e->connection, e);
    }
    if (gets && paths[i].get) {
        paths[i].get(e);
    } else if (posts && paths[i].post) {
        if (paths[i].post(e)) return enqueue(e->connection, e);
    } else {
        return refuse_method(e, !paths[i].get ? "POST" : paths[i].post ? "GET, HEAD, POST" : "GET, HEAD", method, path);
    }
    return send_answer(e->connection, e);
}

/* ---- Connections ---- */

static exchange *begin_exchange(server *s, struct MHD_Connection *connection, const char *method) {
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type");
    exchange *e = (exchange *)calloc(1, sizeof *e);
    if (!e) return NULL;
    e->server = s;
    e->connection = connection;
    e->begun = now();
    if (!is_get(method) && type && strncasecmp(type, "multipart/form-data", 19) == 0)
        e->form = MHD_create_post_processor(connection, 65536, take_field, e);
    return e;
}

/* libmicrohttpd calls this when the headers are there, for each part of the body, at its end, and when a connection
   wakes up. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **state) {
    server *s = (server *)user;
    exchange *e = (exchange *)*state;
    (void)version;
    if (!e) {
        const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        *state = e = begin_exchange(s, connection, method);
        if (!e) return MHD_NO;
        if (!may_ask(s, connection)) {
            answer_error(e, false, 403, "a page of another site asks; open this server's own page");
            return send_answer(connection, e);
        }
        if (length && strtoull(length, NULL, 10) > MOST_BODY) {
            answer_error(e, strncmp(path, "/v1/", 4) == 0, 413, "the body is larger than %d MB", MOST_BODY >> 20);
            return send_answer(connection, e);
        }
        return MHD_YES;
    }
    if (*size) {
        const size_t part = *size;
        *size = 0;
        if (now() - e->begun > BODY_SECONDS || !take_bytes(e, part)) return MHD_NO;
        if (e->status) return MHD_YES; /* what is refused is read to its end */
        if (e->form && MHD_post_process(e->form, data, part) != MHD_YES)
            answer_error(e, strncmp(path, "/v1/", 4) == 0, 400, "the form is malformed, or has more than %d fields",
                         MOST_FIELDS);
        if (e->form) return MHD_YES;
        return grow_field(&e->body, data, part) ? MHD_YES : MHD_NO;
    }
    if (e->status) return send_answer(connection, e);
    if (e->form) { /* its last field is told when it ends */
        MHD_destroy_post_processor(e->form);
        e->form = NULL;
        e->was_form = true;
    }
    return route(e, method, path);
}

static void on_end(void *user, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why) {
    server *s = (server *)user;
    exchange *e = (exchange *)*state;
    (void)connection, (void)why;
    if (!e) return;
    pthread_mutex_lock(&s->lock);
    s->bodies -= e->taken;
    pthread_mutex_unlock(&s->lock);
    free_exchange(e);
    *state = NULL;
}

/* ---- The program ---- */

/* [HOST:]PORT as an address; 0, or an exit code. */
static int find_address(server *s, const char *where, struct sockaddr_storage *out) {
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
    struct addrinfo hints, *found = NULL;
    uint64_t number;
    size_t length = colon ? (size_t)(colon - where) : 0;
    int wrong;
    if (!strict_count(port, &number) || number > 65535 || length >= sizeof host || (colon && !length))
        return complain(EXIT_USAGE, "--serve '%s': must be [HOST:]PORT, such as 7860 or 127.0.0.1:7860", where);
    if (colon) snprintf(host, sizeof host, "%.*s", (int)length, where);
    if (host[0] == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length);
        host[length - 2] = 0;
    }
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    wrong = getaddrinfo(host, port, &hints, &found);
    if (wrong) return complain(EXIT_USAGE, "--serve '%s': %s", where, gai_strerror(wrong));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    s->local = found->ai_family == AF_INET
                   ? ntohl(((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr.s_addr) >> 24 == 127
                   : IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)(void *)found->ai_addr)->sin6_addr);
    freeaddrinfo(found);
    return EXIT_GOOD;
}

/* The thread of libmicrohttpd gets no signals: they are the main thread's. */
static int start_daemon(server *s, const char *where) {
    struct sockaddr_storage address;
    const union MHD_DaemonInfo *info;
    char host[256];
    sigset_t all, before;
    const char *colon = strrchr(where, ':');
    int code = find_address(s, where, &address);
    if (code) return code;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    s->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0), 0,
        NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_NOTIFY_COMPLETED,
        on_end, s, MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)MOST_CONNECTIONS, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->daemon)
        return complain(EXIT_OUTPUT, "--serve %s: %s; another program may use this port, choose another one", where,
                        strerror(errno));
    info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - where) : 9, colon ? where : "127.0.0.1");
    if (!s->a->o.quiet) {
        fprintf(stderr,
                "dit: http://%s:%u/ has a page, OpenAI's images under /v1 and A1111's API under /sdapi/v1; Ctrl-C "
                "ends it\n",
                host, info ? (unsigned)info->port : 0);
        if (!s->local)
            fprintf(stderr,
                    "dit: everybody who reaches %s may make pictures here; say --serve PORT for this machine alone\n",
                    host);
    }
    return EXIT_GOOD;
}

/* The lock is held. */
static void forget_running(server *s) {
    s->running = NULL;
    free(s->preview);
    s->preview = NULL;
}

/* The answer to a ticket whose pictures are made, or are not. */
static void answer_ticket(server *s, ticket *t, int code) {
    exchange *e = t->exchange;
    const char *host = t->job ? NULL : MHD_lookup_connection_value(t->connection, MHD_HEADER_KIND, "Host");
    if (t->job) {
        pthread_mutex_lock(&s->lock);
        end_job(s, t,
                !code            ? JOB_COMPLETED
                : t->interrupted ? JOB_CANCELLED
                                 : JOB_FAILED,
                t->interrupted ? "the job was cancelled by a client" : complaint.text);
        forget_running(s);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    if (code && !(t->interrupted && !t->openai))
        answer_error(e, t->openai, status_of(code), "%s", t->interrupted ? "interrupted" : complaint.text);
    else if (t->openai)
        answer_openai(e, host ? host : "localhost");
    else
        answer_a1111(e);
    if (!e->status) e->status = 200;
    pthread_mutex_lock(&s->lock);
    forget_running(s);
    wake(t);
    pthread_mutex_unlock(&s->lock);
}

static void tell_ticket(const app *a, const ticket *t, int code, double seconds) {
    if (a->o.quiet) return;
    if (code)
        fprintf(stderr, "dit: refused: %s\n", complaint.text);
    else
        fprintf(stderr, "dit: %u picture%s in %.2f s\n", t->made_count, t->made_count == 1 ? "" : "s", seconds);
}

/* Clients that wait are told that it is over, and have two seconds to hear it. */
static void end_server(server *s) {
    const struct timespec moment = {0, 10000000};
    const double begun = now();
    const union MHD_DaemonInfo *info;
    uint32_t i;
    const MHD_socket door = MHD_quiesce_daemon(s->daemon);
    if (door != MHD_INVALID_SOCKET) close(door);
    pthread_mutex_lock(&s->lock);
    while (s->first) {
        ticket *t = s->first;
        s->first = t->next;
        if (t->job) continue;
        answer_error(t->exchange, t->openai, 503, "the server ends");
        wake(t);
    }
    pthread_mutex_unlock(&s->lock);
    while (now() - begun < 2 && (info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)) != NULL &&
           info->num_connections > 0)
        nanosleep(&moment, NULL);
    MHD_stop_daemon(s->daemon);
    for (i = 0; i < MOST_JOBS; i++) free_ticket(s->jobs[i]);
    for (i = 0; i < MOST_PICTURES; i++) free(s->gallery[i].bytes), free(s->gallery[i].text);
    free(s->preview);
    free(s->models.models);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
}

static int serve(app *a) {
    static server s;
    char bundled[PATH_SIZE] = "";
    ticket *t;
    int code = EXIT_GOOD;
    if (a->o.output || a->o.batch || a->o.init_image || a->o.prompt || a->o.count || a->o.loop)
        return complain(EXIT_USAGE, "--serve: clients say what is made; leave out %s",
                        a->o.output       ? "--output"
                        : a->o.batch      ? "--batch"
                        : a->o.init_image ? "--init-img"
                        : a->o.prompt     ? "--prompt"
                        : a->o.count      ? "--batch-count"
                                          : "--loop");
    s.a = a;
    s.last = &s.first;
    a->o.quiet = a->o.quiet || a->o.json;
    code = check_numbers(a); /* what no request could have */
    if (!code) code = take_loras(&a->o, &a->loras);
    a->loaded = loading_text(&a->o, &a->loras); /* a model that cannot be is told at once */
    if (!code) code = check_model_path(a);
    if (!code) code = open_headers(a, NULL);
    if (code) return code;
    a->o.frames = "1"; /* stills of models of clips, which a request may choose */
    if (!find_bundled("emoji-q8_0.gguf", bundled)) bundled[0] = 0;
    find_models(&s.models, bundled);
    if (a->o.model) add_model(&s.models, a->o.model, base_name(a->o.model));
    s.usual = a->o;
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.work, NULL);
    signal(SIGPIPE, SIG_IGN); /* whoever reads what is told may leave */
    code = start_daemon(&s, a->o.serve);
    if (code) return code;
    while (!caught_signal) {
        const double begun = now();
        t = next_ticket(&s);
        if (!t) continue;
        code = make_ticket(&s, t);
        pthread_mutex_lock(&s.lock);
        a->o = s.usual;
        pthread_mutex_unlock(&s.lock);
        tell_ticket(a, t, code, now() - begun);
        answer_ticket(&s, t, code);
    }
    end_server(&s);
    if (!a->o.quiet) fprintf(stderr, "dit: the server ended\n");
    return 128 + caught_signal;
}
#else
static int serve(app *a) {
    return complain(EXIT_USAGE,
                    "--serve %s: this program was built without libmicrohttpd or jansson, which a server "
                    "needs; dit doctor tells how to get them",
                    a->o.serve);
}
#endif
#endif
