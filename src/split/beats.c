/* Signs of life between processes. Every rank of a run sends each rank that it exchanges with a word a second, and its
   last word when the run ends here, so that nobody waits for one that was killed, hangs or has failed. A rank that
   loads a model or makes a job sends its words for the run to come, every five seconds: another one may be in that run.
   No thread helps: words are sent and looked for whenever the mesh is pumped, and sent whenever progress is told. */
#include "split/mesh.h"

#define DITI_BEAT_US 1000000u
#define DITI_BEAT_FAREWELL_US 5000000u
#define DITI_BEAT_UNHEARD 400u /* most words for a rank that is not known to listen: fewer than there are numbers */
#define DITI_BEAT_STEPPED_S 2  /* a run that was pumped so lately shows that this rank lives */
/* ALIVE: with 256 times the terms of the run. ENDED: with 256 times the count of chunks that were sent. FAILED: with
   256 times the rank that is to blame. LOST: a device of the sender failed. PREPARES: the sender comes to the run as
   soon as it can. QUIET: likewise, and it says nothing until then. */
enum { DITI_BEAT_ALIVE = 1, DITI_BEAT_ENDED, DITI_BEAT_FAILED, DITI_BEAT_LOST, DITI_BEAT_PREPARES, DITI_BEAT_QUIET };

typedef struct diti_beat {
    uint32_t rank;
    uint32_t word, last, heard; /* on their way: a usual word, the last one, what comes */
    uint32_t terms;             /* the peer's, once it has joined */
    void *sending, *leaving, *hearing;
    diti_lane_ledger *ledgers; /* this rank's, of lanes to and from the peer, when the run is over; then the peer's */
    uint32_t ledger_count;
    void *telling, *asking;  /* ledgers on their way */
    bool evens;              /* ledgers were sent, and asked for */
    uint64_t sent, received; /* counts of words */
    uint64_t sent_us, silent_us, looked_us;
    bool behind;   /* words of a run that has the same tags are still to come from the peer */
    bool apart;    /* nothing is exchanged with the peer in this run */
    bool alive;    /* the peer was heard, and is to be heard again */
    bool prepares; /* the peer was heard, but is not in the run yet */
    bool joined;   /* the peer was heard in this run */
    bool told;     /* the peer was told that this rank is in the run */
    bool left;     /* the last word was sent to it */
    bool over;     /* the last word of the peer has come */
} diti_beat;

struct diti_beats {
    diti_beats *next; /* the next in diti_peers.deaf, whose words are still on their way, or in diti_peers.coming */
    dit_transport with;
    uint32_t self, job, run; /* job, run: numbers of what the words are for */
    uint32_t count;
    uint32_t terms;  /* this rank's for the run */
    uint32_t blamed; /* the rank that ended the run for all; this one: none did */
    uint32_t lost;   /* see diti_beats_lost */
    uint64_t pumped_us;
    bool awaited; /* the last words of the others were waited for */
    diti_beat list[DITI_MAX_DEVICES];
};

#define DITI_BEAT_NUMBERS 0x1ffu /* words have fewer numbers; ledgers have this one */

static uint64_t diti_beat_tag(const diti_beats *beats, uint32_t sender, uint64_t number) {
    uint64_t lane = (beats->job << 10 | sender << 5 | sender) & ((1u << DITI_LANE_TAG_BITS) - 1); /* no lane's */
    return lane << 14 | (beats->run & 0xfu) << 10 | number; /* letters have the numbers from 0x200 on */
}

/* 1: *request, if there is one, is done; 0: not yet; < 0: it failed. */
static int diti_beat_done(const diti_beats *beats, void **request) {
    int done = *request ? beats->with.poll(*request, beats->with.user) : 1;
    if (done) *request = NULL;
    return done;
}

/* --- words --- */

static dit_result diti_beat_broken(diti_beats *beats, const diti_beat *beat, dit_error *err) {
    if (beats->lost == UINT32_MAX) beats->lost = beats->blamed = beat->rank;
    return diti_fail(err, DIT_ERROR_TRANSPORT, "the application's transport to rank %u failed", beat->rank);
}

static void *diti_beat_send(const diti_beats *beats, diti_beat *beat, const uint32_t *word) {
    return beats->with.send(beat->rank, word, sizeof *word,
                            diti_beat_tag(beats, beats->self, beat->sent++ % DITI_BEAT_NUMBERS), beats->with.user);
}

/* A word has come, which tells this of its sender. */
static void diti_beat_hear(diti_beat *beat) {
    beat->silent_us = 0;
    beat->alive = beat->heard != DITI_BEAT_QUIET;
    beat->prepares = beat->heard == DITI_BEAT_PREPARES;
    beat->over = beat->alive && !beat->prepares && beat->heard % 256 != DITI_BEAT_ALIVE;
    if (beat->heard % 256 != DITI_BEAT_ALIVE) return;
    beat->joined = true;
    beat->terms = beat->heard / 256;
}

/* Words that have come; the next one is asked for. */
static dit_result diti_beat_listen(diti_beats *beats, diti_beat *beat, dit_error *err) {
    int done = beat->hearing ? diti_beat_done(beats, &beat->hearing) : 0;
    if (done < 0) return diti_beat_broken(beats, beat, err);
    if (done) {
        diti_beat_hear(beat);
        if (beat->heard % 256 == DITI_BEAT_FAILED) beats->blamed = beat->heard / 256;
        if (beat->heard == DITI_BEAT_LOST) beats->lost = beats->blamed = beat->rank;
        if (beat->heard == DITI_BEAT_LOST || (beat->heard % 256 == DITI_BEAT_FAILED && beats->blamed == beat->rank))
            return diti_fail(err, DIT_ERROR_TRANSPORT,
                             "rank %u ended its run early: it failed, and its error says why, or was cancelled",
                             beat->rank);
        if (beat->heard % 256 == DITI_BEAT_FAILED) {
            beats->lost = beats->blamed;
            return diti_fail(err, DIT_ERROR_TRANSPORT, "rank %u is gone, says rank %u", beats->blamed, beat->rank);
        }
    }
    if (beat->hearing || beat->over) return DIT_OK;
    beat->hearing =
        beats->with.receive(beat->rank, &beat->heard, sizeof beat->heard,
                            diti_beat_tag(beats, beat->rank, beat->received++ % DITI_BEAT_NUMBERS), beats->with.user);
    return beat->hearing ? DIT_OK : diti_beat_broken(beats, beat, err);
}

static dit_result diti_beat_say(diti_beats *beats, diti_beat *beat, uint64_t now, dit_error *err) {
    int done = diti_beat_done(beats, &beat->sending);
    if (done < 0) return diti_beat_broken(beats, beat, err);
    if (!done || beat->left || (beat->told && now - beat->sent_us < DITI_BEAT_US) ||
        (beat->sent >= DITI_BEAT_UNHEARD && !beat->joined))
        return DIT_OK;
    beat->word = DITI_BEAT_ALIVE + 256 * beats->terms;
    beat->told = true;
    beat->sent_us = now;
    beat->sending = diti_beat_send(beats, beat, &beat->word);
    if (beat->sending) return DIT_OK;
    diti_beat_broken(beats, beat, NULL);
    return diti_fail(err, DIT_ERROR_TRANSPORT, "the application's transport could not send to rank %u", beat->rank);
}

/* Terms are what a restart may change of that which shapes exchanges. */
static dit_result diti_beat_differs(const diti_beats *beats, const diti_beat *beat, dit_error *err) {
    uint32_t theirs = beat->terms & DITI_TERMS_TOKENS, own = beats->terms & DITI_TERMS_TOKENS;
    char what[80] = "its guidance, its cache or which pictures are given";
    if (theirs != own) diti_format(what, sizeof what, "the number of tokens of its prompts (%u and %u)", theirs, own);
    return diti_fail(err, DIT_ERROR_TRANSPORT,
                     "rank %u differs from rank %u in %s: what they exchange does not fit; every rank must make the "
                     "same calls",
                     beat->rank, beats->self, what);
}

static dit_result diti_beat_silent(const diti_beat *beat, uint64_t us, dit_error *err) {
    return diti_fail(err, DIT_ERROR_TRANSPORT, "rank %u has given no sign of life for %u s: it was killed, hangs or %s",
                     beat->rank, (uint32_t)(us / 1000000u),
                     beat->joined ? "is not stepped" : "does not come to its run");
}

/* chunks: those that were sent to the peer in the run. */
static void diti_beat_leave(diti_beats *beats, diti_beat *beat, diti_leaving how, uint32_t chunks) {
    if (beat->left) return;
    beat->left = true;
    beat->last = how == DITI_LEAVING_DONE   ? DITI_BEAT_ENDED + 256 * chunks
                 : how == DITI_LEAVING_LOST ? (uint32_t)DITI_BEAT_LOST
                                            : DITI_BEAT_FAILED + 256 * beats->blamed;
    beat->leaving = diti_beat_send(beats, beat, &beat->last);
}

/* Goes on with the words to and from a rank, up to the last ones; whether some are still on their way. */
static bool diti_beat_tend(diti_beats *beats, diti_beat *beat) {
    bool busy = diti_beat_done(beats, &beat->sending) == 0;
    busy = diti_beat_done(beats, &beat->leaving) == 0 || busy;
    if (!beat->over && beat->rank != beats->lost && diti_beat_listen(beats, beat, NULL) < 0) beat->over = true;
    return busy || beat->hearing;
}

static bool diti_beat_ended(uint32_t word) { return word % 256 == DITI_BEAT_ENDED; }

/* Two ranks that were both in a run, which ended early in one of them, tell each other what they handed over, and even
   it out. Whether the peer's ledgers are still to come. */
static bool diti_beat_even(diti_peers *peers, diti_beats *beats, diti_beat *beat) {
    size_t size = beat->ledger_count * sizeof *beat->ledgers;
    diti_lane_ledger *others;
    uint32_t i;
    if (!size || !beat->joined) return false;
    if (diti_beat_ended(beat->last) && (!beat->over || diti_beat_ended(beat->heard))) return false;
    others = beat->ledgers + beat->ledger_count;
    if (!beat->evens) {
        beat->telling = beats->with.send(beat->rank, beat->ledgers, size,
                                         diti_beat_tag(beats, beats->self, DITI_BEAT_NUMBERS), beats->with.user);
        beat->asking = beats->with.receive(beat->rank, others, size,
                                           diti_beat_tag(beats, beat->rank, DITI_BEAT_NUMBERS), beats->with.user);
        beat->evens = true;
    }
    diti_beat_done(beats, &beat->telling);
    if (beat->asking && diti_beat_done(beats, &beat->asking) > 0)
        for (i = 0; i < beat->ledger_count; i++) diti_lane_even(peers, beat->rank, &beat->ledgers[i], &others[i]);
    return beat->telling || beat->asking;
}

/* all: also with ranks that are lost, or apart, and ledgers of those that have come to the end: they may keep their job
   for long. */
static bool diti_beats_busy(diti_peers *peers, diti_beats *beats, bool all) {
    bool busy = false;
    uint32_t i;
    for (i = 0; i < beats->count; i++) {
        diti_beat *beat = &beats->list[i];
        if (!all && (beat->apart || beat->rank == beats->lost)) continue;
        busy = diti_beat_tend(beats, beat) || busy;
        busy = (diti_beat_even(peers, beats, beat) && (all || !diti_beat_ended(beat->heard))) || busy;
    }
    return busy;
}

static void diti_beats_free_one(const diti_env *env, diti_beats *beats) {
    uint32_t i;
    for (i = 0; i < beats->count; i++) diti_free(env, beats->list[i].ledgers);
    diti_free(env, beats);
}

/* Words of runs that are over here, up to their last ones: else a later run with the same tags would get them. */
static void diti_beats_tend(diti_peers *peers) {
    diti_beats **at = &peers->deaf;
    while (*at) {
        diti_beats *beats = *at;
        if (diti_beats_busy(peers, beats, true)) {
            at = &beats->next;
            continue;
        }
        *at = beats->next;
        diti_beats_free_one(&peers->env, beats);
    }
}

/* Whether a rank is so many runs behind that words of one with the same tags are still to come from it. */
static bool diti_beats_behind(const diti_peers *peers, const diti_beats *beats, uint32_t rank) {
    const diti_beats *before;
    uint32_t i;
    for (before = peers->deaf; before; before = before->next)
        for (i = 0; i < before->count && (before->job - beats->job) % 16 == 0 && (before->run - beats->run) % 16 == 0;
             i++)
            if (before->list[i].rank == rank && (before->list[i].hearing || before->list[i].asking)) return true;
    return false;
}

/* A transfer cannot be taken back, and may still come to where it was asked for: its memory stays until it has come,
   or as long as the context. */
static void diti_beats_drop(diti_peers *peers, diti_beats *beats) {
    diti_beats_tend(peers);
    beats->next = peers->deaf;
    peers->deaf = beats;
    diti_beats_tend(peers);
}

/* --- before a run --- */

/* Words for a run that has no mesh yet; NULL: there is no memory. */
static diti_beats *diti_beats_coming(diti_peers *peers, uint32_t job, uint32_t run) {
    diti_beats *beats = peers->coming;
    uint32_t i;
    while (beats && (beats->job != job || beats->run != run)) beats = beats->next;
    if (beats) return beats;
    beats = (diti_beats *)diti_alloc_zero(&peers->env, sizeof *beats);
    if (!beats) return NULL;
    beats->next = peers->coming;
    peers->coming = beats;
    beats->with = peers->application;
    beats->self = beats->blamed = peers->application.rank;
    beats->lost = UINT32_MAX;
    beats->job = job;
    beats->run = run;
    for (i = 0; i < peers->rank_count; i++)
        if (peers->ranks[i] != beats->self) beats->list[beats->count++].rank = peers->ranks[i];
    return beats;
}

/* Takes them out of the list. A rank that comes to a run sends words for the next job then. */
static diti_beats *diti_beats_take(diti_peers *peers, uint32_t job, uint32_t run) {
    diti_beats *beats = diti_beats_coming(peers, job, run), **at = &peers->coming;
    if (peers->job == job && peers->run == run) {
        peers->job = peers->jobs;
        peers->run = 0;
    }
    if (!beats) return NULL;
    while (*at != beats) at = &(*at)->next;
    *at = beats->next;
    beats->next = NULL;
    return beats;
}

/* The last word for which there is a number says that no more come. */
static void diti_beat_prepare(const diti_beats *beats, diti_beat *beat, uint64_t now, uint64_t pause_us) {
    if (!diti_beat_done(beats, &beat->sending) || beat->sent == DITI_BEAT_UNHEARD ||
        (beat->sent && now - beat->sent_us < pause_us))
        return;
    beat->word = beat->sent + 1 == DITI_BEAT_UNHEARD ? DITI_BEAT_QUIET : DITI_BEAT_PREPARES;
    beat->sent_us = now;
    beat->sending = diti_beat_send(beats, beat, &beat->word); /* a transport that fails is met in the run */
}

static bool diti_beats_prepares(diti_peers *peers, uint64_t now) {
    return peers && peers->application.rank_count > 1 &&
           (uint32_t)(now / 1000000u) - (uint32_t)diti_atomic_load(&peers->stepped_s) >= DITI_BEAT_STEPPED_S;
}

/* Under coming_lock. */
static void diti_beats_prepare_run(diti_peers *peers, uint32_t job, uint32_t run, uint64_t now) {
    diti_beats *beats = diti_beats_coming(peers, job, run);
    uint32_t i;
    for (i = 0; beats && i < beats->count; i++)
        if (!diti_beats_behind(peers, beats, beats->list[i].rank))
            diti_beat_prepare(beats, &beats->list[i], now, peers->silence_us / 5);
}

DIT_INTERNAL void diti_beats_prepare(diti_peers *peers) {
    uint64_t now = diti_clock_us();
    if (!diti_beats_prepares(peers, now)) return;
    diti_lock(&peers->coming_lock);
    diti_beats_prepare_run(peers, peers->job, peers->run, now);
    diti_unlock(&peers->coming_lock);
}

static bool diti_beats_tell(const char *what, uint64_t done, uint64_t total, void *user) {
    const diti_telling *telling = (const diti_telling *)user;
    diti_beats_prepare(telling->peers);
    return !telling->progress.func || telling->progress.func(what, done, total, telling->progress.user);
}

DIT_INTERNAL dit_progress diti_beats_progress(diti_peers *peers, const dit_progress *own, diti_telling *telling) {
    dit_progress out = *own;
    if (!peers || peers->application.rank_count <= 1) return out;
    diti_beats_prepare(peers);
    telling->peers = peers;
    telling->progress = *own;
    out.func = diti_beats_tell;
    out.user = telling;
    return out;
}

DIT_INTERNAL uint32_t diti_beats_number(diti_peers *peers) {
    uint32_t number;
    diti_lock(&peers->coming_lock);
    number = peers->jobs++;
    diti_unlock(&peers->coming_lock);
    return number;
}

DIT_INTERNAL void diti_beats_aim(diti_peers *peers, uint32_t job, uint32_t run) {
    diti_lock(&peers->coming_lock);
    peers->job = job;
    peers->run = run;
    diti_unlock(&peers->coming_lock);
}

DIT_INTERNAL void diti_beats_made(diti_peers *peers, uint32_t job, uint32_t run, bool joins, diti_leaving how) {
    diti_beats *beats;
    uint32_t i;
    if (joins || peers->application.rank_count <= 1) return;
    diti_lock(&peers->coming_lock);
    beats = diti_beats_take(peers, job, run);
    for (i = 0; beats && i < beats->count; i++) diti_beat_leave(beats, &beats->list[i], how, 0);
    if (beats) diti_beats_drop(peers, beats);
    diti_unlock(&peers->coming_lock);
}

DIT_INTERNAL dit_result diti_beats_await(diti_peers *peers, uint32_t job, uint32_t rank, dit_error *err) {
    uint64_t now = diti_clock_us();
    diti_beats *beats;
    diti_beat *beat;
    dit_result result;
    diti_lock(&peers->coming_lock);
    if (diti_beats_prepares(peers, now)) diti_beats_prepare_run(peers, job, 0, now);
    beats = diti_beats_coming(peers, job, 0);
    for (beat = beats ? beats->list : NULL; beat && beat->rank != rank; beat++) {
    }
    if (beat) beat->silent_us += diti_clock_passed(&beat->looked_us);
    result = beat ? diti_beat_listen(beats, beat, err) : diti_fail_memory(err, "words to other processes");
    if (result >= 0 && beat->silent_us >= (beat->alive ? peers->silence_us : peers->limit_us))
        result = diti_beat_silent(beat, beat->silent_us, err);
    diti_unlock(&peers->coming_lock);
    return result;
}

/* Whether a rank that was heard has not said its last word, though it is listened to. */
static bool diti_beats_listens(diti_beats *beats) {
    bool listens = false;
    uint32_t i;
    for (i = 0; i < beats->count; i++) {
        diti_beat *beat = &beats->list[i];
        if (beat->hearing) diti_beat_tend(beats, beat);
        listens = listens || (beat->hearing && beat->alive);
    }
    return listens;
}

DIT_INTERNAL void diti_beats_part(diti_peers *peers) {
    uint64_t looked_us = 0, waited_us = 0;
    diti_beats *beats;
    bool listens = true;
    uint32_t i;
    for (beats = peers->coming; beats; beats = beats->next)
        for (i = 0; i < beats->count; i++)
            if (beats->list[i].hearing) diti_beat_leave(beats, &beats->list[i], DITI_LEAVING_DONE, 0);
    while (listens && (waited_us += diti_clock_passed(&looked_us)) < DITI_BEAT_FAREWELL_US) {
        listens = false;
        for (beats = peers->coming; beats; beats = beats->next) listens = diti_beats_listens(beats) || listens;
        for (beats = peers->deaf; beats; beats = beats->next)
            listens = (diti_beats_listens(beats) && !beats->awaited) || listens;
    }
}

/* --- in a run --- */

static bool diti_beats_exchange(const diti_mesh *mesh, uint32_t rank) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++)
        if (mesh->lanes[i]->ranks[DITI_LANE_OUT] == rank || mesh->lanes[i]->ranks[DITI_LANE_IN] == rank) return true;
    return false;
}

DIT_INTERNAL dit_result diti_beats_create(diti_mesh *mesh, dit_error *err) {
    diti_peers *peers = mesh->peers;
    diti_beats *beats;
    uint32_t i;
    if (peers->application.rank_count <= 1 || mesh->beats) return DIT_OK;
    mesh->silence_us = peers->silence_us;
    diti_lock(&peers->coming_lock);
    mesh->beats = beats = diti_beats_take(peers, mesh->job, mesh->run);
    diti_unlock(&peers->coming_lock);
    if (!beats) return diti_fail_memory(err, "a mesh of devices");
    beats->terms = mesh->terms;
    for (i = 0; i < beats->count; i++) {
        diti_beat *beat = &beats->list[i];
        beat->apart = !diti_beats_exchange(mesh, beat->rank);
        beat->silent_us = 0;
        if (beat->apart) diti_beat_leave(beats, beat, DITI_LEAVING_DONE, 0);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_beats_return(diti_mesh *mesh) {
    diti_peers *peers = mesh->peers;
    diti_lock(&peers->coming_lock);
    mesh->beats->next = peers->coming;
    peers->coming = mesh->beats;
    peers->job = mesh->beats->job;
    peers->run = mesh->beats->run;
    mesh->beats = NULL;
    diti_unlock(&peers->coming_lock);
}

/* Chunks that came from a rank in the run, or went to it, by the side that is there. */
static uint32_t diti_beats_chunks(const diti_mesh *mesh, uint32_t rank, uint32_t side) {
    uint32_t chunks = 0;
    size_t i;
    for (i = 0; i < mesh->lane_count; i++) {
        const diti_lane *lane = mesh->lanes[i];
        if (lane->ledger && lane->ranks[side] == rank) chunks += lane->ledger->count;
    }
    return chunks & 0xffffffu;
}

/* Keeps the ledgers of the run, which are still of use when it is over and the mesh is gone. */
static void diti_beat_note(const diti_mesh *mesh, diti_beat *beat) {
    size_t i;
    beat->ledgers = (diti_lane_ledger *)diti_alloc_array(&mesh->env, 2 * mesh->lane_count, sizeof *beat->ledgers);
    for (i = 0; i < mesh->lane_count && beat->ledgers; i++) {
        const diti_lane *lane = mesh->lanes[i];
        if (lane->ledger && (lane->ranks[DITI_LANE_OUT] == beat->rank || lane->ranks[DITI_LANE_IN] == beat->rank))
            beat->ledgers[beat->ledger_count++] = *lane->ledger;
    }
}

/* Where the dead rank is known, nothing that it owes is waited for. */
static void diti_beats_give_up(diti_mesh *mesh, uint32_t rank) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++)
        if (mesh->lanes[i]->ranks[DITI_LANE_OUT] == rank || mesh->lanes[i]->ranks[DITI_LANE_IN] == rank)
            mesh->lanes[i]->limit_us = 0;
}

/* A rank that loads or compiles, and says so, may take as long as it needs. */
static void diti_beats_excuse(diti_mesh *mesh, uint32_t rank) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++)
        if (mesh->lanes[i]->ranks[DITI_LANE_OUT] == rank || mesh->lanes[i]->ranks[DITI_LANE_IN] == rank)
            mesh->lanes[i]->idle_us = 0;
    mesh->still_us = 0;
}

DIT_INTERNAL dit_result diti_beats_pump(diti_mesh *mesh, dit_error *err) {
    diti_beats *beats = mesh->beats;
    uint64_t now = diti_clock_us(), passed_us;
    dit_result result = DIT_OK;
    uint32_t i;
    if (!beats) return DIT_OK;
    passed_us = diti_clock_passed(&beats->pumped_us);
    diti_atomic_store(&mesh->peers->stepped_s, (int)(now / 1000000u));
    diti_lock(&mesh->peers->coming_lock);
    diti_beats_tend(mesh->peers);
    for (i = 0; i < beats->count; i++)
        beats->list[i].behind = diti_beats_behind(mesh->peers, beats, beats->list[i].rank);
    diti_unlock(&mesh->peers->coming_lock);
    for (i = 0; i < beats->count && result >= 0; i++) {
        diti_beat *beat = &beats->list[i];
        if (beat->apart || beat->behind) continue;
        if (beat->over) { /* nobody listens there; it may still wait for this rank's last word */
            if (beat->heard == DITI_BEAT_ENDED + 256 * diti_beats_chunks(mesh, beat->rank, DITI_LANE_OUT))
                diti_beat_leave(beats, beat, DITI_LEAVING_DONE, diti_beats_chunks(mesh, beat->rank, DITI_LANE_IN));
            continue;
        }
        if (beat->alive) beat->silent_us += passed_us;
        result = diti_beat_listen(beats, beat, err);
        if (result >= 0) result = diti_beat_say(beats, beat, now, err);
        if (result >= 0 && beat->joined && beat->terms != beats->terms) result = diti_beat_differs(beats, beat, err);
        if (beat->prepares) diti_beats_excuse(mesh, beat->rank);
        if (result >= 0 && !beat->over && beat->silent_us > mesh->silence_us) {
            beats->lost = beats->blamed = beat->rank;
            result = diti_beat_silent(beat, mesh->silence_us, err);
        }
        if (result < 0) diti_beats_give_up(mesh, beat->rank);
    }
    return result;
}

DIT_INTERNAL void diti_beats_leave(diti_mesh *mesh, diti_leaving how) {
    uint32_t i;
    diti_beats *beats = mesh->beats;
    for (i = 0; beats && i < beats->count; i++) {
        diti_beat *beat = &beats->list[i];
        if (beat->left) continue;
        if (beat->told) diti_beat_note(mesh, beat);
        diti_beat_leave(beats, beat, how, diti_beats_chunks(mesh, beat->rank, DITI_LANE_IN));
        diti_beat_even(mesh->peers, beats, beat);
    }
}

DIT_INTERNAL bool diti_beats_joined(const diti_mesh *mesh, uint32_t rank) {
    const diti_beat *beat = mesh->beats ? mesh->beats->list : NULL;
    while (beat && beat->rank != rank) beat++;
    return !beat || (beat->joined && beat->terms == mesh->terms);
}

DIT_INTERNAL uint32_t diti_beats_lost(const diti_mesh *mesh) { return mesh->beats ? mesh->beats->lost : UINT32_MAX; }

DIT_INTERNAL void diti_beats_lose(diti_mesh *mesh, uint32_t rank) {
    if (!mesh->beats || mesh->beats->lost != UINT32_MAX || mesh->beats->blamed != mesh->beats->self) return;
    mesh->beats->lost = mesh->beats->blamed = rank;
    diti_beats_give_up(mesh, rank);
}

DIT_INTERNAL void diti_beats_settle(diti_mesh *mesh, diti_peers *peers) {
    diti_beats *beats = mesh->beats;
    uint64_t looked_us = 0, waited_us = 0;
    bool heard = false;
    uint32_t i;
    if (!beats) return;
    diti_beats_leave(mesh, DITI_LEAVING_FAILED); /* a run that was not left before ends in its middle */
    for (i = 0; i < beats->count; i++)
        heard = heard || (beats->list[i].joined && beats->list[i].silent_us < mesh->silence_us);
    while (diti_beats_busy(peers, beats, false) && heard &&
           (waited_us += diti_clock_passed(&looked_us)) < DITI_BEAT_FAREWELL_US)
        diti_plan_pause(mesh->members[0].plan, NULL);
    beats->awaited = heard;
    mesh->beats = NULL;
    diti_lock(&peers->coming_lock);
    diti_beats_drop(peers, beats);
    diti_unlock(&peers->coming_lock);
}

DIT_INTERNAL void diti_beats_free(const diti_env *env, diti_beats *beats) {
    while (beats) {
        diti_beats *next = beats->next;
        diti_beats_free_one(env, beats);
        beats = next;
    }
}
