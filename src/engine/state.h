/* engine/state.h - the engine's state; for the files of src/engine only.
 *
 *   tick.c      plan and commit: the order of a tick
 *   arrive.c    requests of the trace, or what the port hands in
 *   port.c      as one instance of several (port.h)
 *   admit.c     match, admission, load-back
 *   foresee.c   the trace read ahead, for a policy that asks for it
 *   prefill.c   chunks and their insertion
 *   transfer.c  prefill -> decode
 *   draft.c     multi-token prediction
 *   decode.c    steps, growth, preemption, resume, re-entry
 *   storage.c   fetches for those that wait, stores, publications
 *   ops.c       operations under way, virtual links, the plan under
 *               construction
 *   fit.c       does every prompt fit; what "unlimited" comes to
 *   inspect.c   state hash and self-check
 */
#ifndef PL_ENGINE_STATE_H
#define PL_ENGINE_STATE_H

#include "base/array.h"
#include "engine/engine.h"
#include "engine/port.h"
#include "engine/turns.h"

/* A request's way; see design 4. */
typedef enum pl_phase {
    PL_PHASE_FUTURE,   /* has not arrived */
    PL_PHASE_WAITING,  /* in engine->waiting */
    PL_PHASE_PREFILL,  /* engine->current */
    PL_PHASE_TRANSFER, /* all computed, sends under way */
    PL_PHASE_READY,    /* on its home, waits for a place in the batch */
    PL_PHASE_RUNNING,
    PL_PHASE_OFFLOADING,
    PL_PHASE_OFFLOADED,
    PL_PHASE_RESUMING,
    PL_PHASE_FINISHED,
    PL_PHASES
} pl_phase_t;

typedef PL_ARRAY(pl_page_t) pl_page_list_t;
typedef PL_ARRAY(int32_t) pl_id_list_t;

/* Positions of a prompt: first .. end - 1. */
typedef struct pl_span {
    int32_t first, end;
} pl_span_t;

typedef struct pl_live {
    pl_phase_t phase;
    bool is_known;         /* in engine->known */
    int32_t prompt_tokens; /* grows when it re-enters */
    int32_t generated;     /* tokens known to the home, first one included */

    /* While it prefills. */
    pl_page_key_t *keys;  /* [prompt_tokens / P] */
    pl_match_t match;     /* pinned while a load-back waits for write-backs */
    int32_t cut_pages;    /* of that match */
    bool load_waits;      /* admitted, load-back to be tried again */
    bool extend_waits;    /* a chunk waits for write-backs */
    bool no_load;         /* a load-back failed: host hits are passed over */
    bool was_cut;         /* inserted and sent as a whole, see prefill.c */
    pl_node_t *node;      /* deepest node it locks; NULL: none */
    pl_page_list_t pages; /* device pages of the prompt so far */
    int32_t hit_pages;
    int32_t device_hit_pages;   /* of these; the others were loaded back */
    int32_t bad_first, bad_end; /* positions whose load-back has failed */
    int32_t computed_tokens;
    int32_t chunk_tokens;   /* of the chunk planned in the last tick; 0: none */
    int32_t inserted_pages; /* pages that lie in the tree */
    int64_t load_op;        /* load-back not yet ended */

    /* What storage brings while it waits. */
    int32_t fetch_next; /* position up to which pages were asked for; 0: none */
    int32_t fetch_tokens;            /* in these */
    int64_t fetch_since;             /* when the first was begun */
    int32_t n_fetches;               /* under way */
    PL_ARRAY(pl_owner_t) fetched_to; /* a lane a page: count as prefetched */
    PL_ARRAY(pl_span_t) landed;      /* pages that came into the tree */
    pl_span_t fetch_bad;             /* pages that came to nothing */

    /* Transfer. */
    int32_t sent_pages;
    int32_t sends_under_way;
    bool send_failed;

    /* Decode: pages in the home's pool and in its host buffer. */
    int32_t home_index; /* index of the home among the homes; -1: none */
    pl_page_list_t decode_pages;
    pl_page_list_t decode_host_pages;
    bool no_offload;       /* its home could not reserve: re-enter instead */
    int32_t step_tokens;   /* of the step planned in the last tick; 0: none */
    int32_t unseen_tokens; /* whose KV the draft layer does not have */
    int32_t ended_at;      /* tokens up to its end-of-sequence; 0: none known */
    int64_t age;           /* order of admission: the youngest is preempted */
    int64_t token_ns;      /* when its newest token was made */
} pl_live_t;

typedef struct pl_home {
    int32_t rank;
    pl_lanes_t *pool;
    pl_lanes_t *host;       /* NULL: no host buffer */
    pl_id_list_t ready;     /* oldest first */
    pl_id_list_t running;   /* oldest first */
    pl_id_list_t offloaded; /* oldest first; also while resuming */
    int32_t offloads_under_way;
    int64_t link_free_ns[2]; /* PL_LINK_PD, PL_LINK_OFFLOAD; of a PD link
                                that is shared, when left_ns were reckoned */
} pl_home_t;

/* An asynchronous operation from its start to its end. */
typedef struct pl_pending {
    pl_due_t due;
    int64_t end_ns;
    int64_t tick;       /* started in */
    int32_t extra;      /* ticks still to pass (explore) */
    int32_t shares;     /* the home whose link it shares; -1: it has its own */
    int64_t left_ns;    /* then: on a link of its own it would need that */
    int32_t home;       /* of a transfer: its rank; else -1 */
    int64_t take_in_ns; /* then: see clock/cost.h */
    bool applies_next;  /* stands in the current plan's due list */
    bool failed;        /* agreed with the plan it was due in */
    uint64_t bad;       /* likewise, of a fetch: its pages that are not what was
                           written */
    uint64_t unread;    /* and those that could not be read */
} pl_pending_t;

struct pl_engine {
    pl_engine_config_t config;
    pl_engine_source_t source;
    pl_inject_t *inject;
    pl_event_sink_t events; /* where they go in the end */
    const pl_log_t *log;

    pl_hicache_t *cache;
    pl_future_t *future;       /* NULL: the policy does not foresee */
    pl_storage_t *storage;     /* NULL: there is none */
    uint8_t *finished;         /* [source.count] for a publication */
    int32_t *prefetched;       /* [n_lanes] host pages of prompts that wait */
    int32_t *room;             /* [n_lanes] scratch */
    int64_t queue_changes;     /* of what a look at the queue may find */
    int64_t looked_at;         /* changes then; -1 */
    int64_t publish_op;        /* under way, or 0 */
    int32_t n_finished_out;    /* requests that the last index calls finished */
    int32_t n_finished_on_way; /* and the one under way */
    int32_t n_last_tries;      /* of the publication at the end */
    pl_home_t *homes;          /* [n_homes] */
    int32_t n_homes;
    pl_live_t *live;      /* [source.count] */
    pl_record_t *records; /* [source.count] */
    pl_id_list_t known;   /* whose places in these have been filled: with a port
                             those that came, and no memory is touched for
                             others */
    int32_t n_arrived;    /* one behind the last that has arrived */
    int32_t n_finished, n_transferring;
    int32_t n_inside; /* with a port: handed in and not gone */
    pl_turns_t turns;

    pl_id_list_t waiting; /* first in, first out, from waiting_head on */
    size_t waiting_head;
    int32_t current;         /* prefilling request, -1: none */
    int64_t releases;        /* pages or places given back so far */
    int64_t releases_before; /* this tick */
    int64_t tried_at;        /* releases when the head was last refused; -1 */
    int64_t n_admitted;

    int64_t tick, now_ns, next_ns;
    bool jumps; /* next_ns is when something happens next, not when something
                   computed ends */
    bool rests; /* and nothing will, unless the port hands something in or a
                   page was given back after the plan was made */
    int64_t next_op;
    int64_t link_free_ns[PL_LINKS];
    PL_ARRAY(pl_pending_t) pending; /* ascending ids */
    PL_ARRAY(pl_token_gap_t) gaps;

    /* The plan of this tick. */
    pl_plan_t plan;
    PL_ARRAY(pl_op_t) ops;    /* in order of creation */
    PL_ARRAY(pl_op_t) sorted; /* in order of execution */
    PL_ARRAY(pl_due_t) due;
    pl_id_list_t watched;
    PL_ARRAY(pl_freed_t) freed; /* since the last plan was made */
    PL_ARRAY(void *) kept;      /* copies of page lists that the plan borrows */
    const pl_lanes_t **decode_lanes, **decode_host_lanes; /* [C + D] */
    pl_status_t callback_status; /* of the copy callback */

    pl_owner_t *owners; /* scratch: [n_owners] */
    int32_t n_owners;   /* pages of the longest request, and one more */
    int32_t *need;      /* scratch: [n_lanes] */
    int32_t device_pages, host_pages, decode_pages; /* in force */
    int32_t storage_pages;
    pl_engine_counters_t counters;
};

/* ---- small helpers ---- */

static inline int32_t pl_pages_for(const pl_engine_t *engine, int64_t tokens)
{
    return (int32_t)((tokens + engine->config.page_tokens - 1) /
                     engine->config.page_tokens);
}

/* Rows a decoding request holds: its newest token has none yet. */
static inline int32_t pl_rows_held(const pl_engine_t *engine, int32_t request)
{
    return engine->records[request].prompt_tokens +
           engine->live[request].generated - 1;
}

void pl_engine_emit(pl_engine_t *engine, pl_event_t event);
/* Something was given back: the head of the queue may be tried again. */
static inline void pl_engine_released(pl_engine_t *engine)
{
    engine->releases++;
}

/* ---- ops.c ---- */

/* Append an operation to the plan; its page lists are borrowed from the request
 * (stable for the tick) or copied by pl_plan_keep.  Returns its id in *id_p. */
PL_MUST_CHECK pl_status_t pl_plan_add(pl_engine_t *engine, pl_op_t op,
                                      int64_t *id_p);
/* A copy of n bytes that lives as long as the plan; NULL: out of memory. */
void *pl_plan_keep(pl_engine_t *engine, const void *bytes, size_t n);
void pl_plan_clear(pl_engine_t *engine);
/* Sort into the order of execution, list what is due, fill engine->plan. */
PL_MUST_CHECK pl_status_t pl_plan_finish(pl_engine_t *engine);

/* What the longest home does to take in the transfers of the due list. */
int64_t pl_ops_take_in_ns(const pl_engine_t *engine);
/* Start an asynchronous operation that keeps `link` busy for `bytes`. */
PL_MUST_CHECK pl_status_t pl_ops_start(pl_engine_t *engine, const pl_op_t *op,
                                       int64_t id, pl_link_t link,
                                       int64_t bytes);
/* Forget one that has ended or was cancelled. */
void pl_ops_forget(pl_engine_t *engine, int64_t id);
/* Mark and list what is due in this tick. */
PL_MUST_CHECK pl_status_t pl_ops_list_due(pl_engine_t *engine);
/* When the next one ends, INT64_MAX if none is under way. */
int64_t pl_ops_next_end(const pl_engine_t *engine);
/* Bytes that a transfer of these pages to decode counts for. */
int64_t pl_ops_send_bytes(const pl_engine_t *engine, const pl_page_t *pages,
                          int32_t n);
/* The callback of the cache controller. */
int64_t pl_ops_copy(void *context, const pl_hicache_copy_t *copy);
/* Note pages for the plan's `freed` list. */
PL_MUST_CHECK pl_status_t pl_ops_freed(pl_engine_t *engine, int tier,
                                       int32_t home, const pl_page_t *pages,
                                       int32_t n);

/* ---- fit.c ---- */

/* The lanes that a chunk's pages are allocated in: those of their compute
 * owners, or the one there is. */
void pl_fit_lanes(const pl_engine_t *engine, int32_t request,
                  int32_t first_page, int32_t n, pl_owner_t *lanes);
/* need[lane] += pages of all chunks of tokens [first, end) of request r. */
void pl_fit_chunks(const pl_engine_t *engine, int32_t request, int32_t first,
                   int32_t end, int32_t *need);
/* Can its tokens be counted?  Positions are int32, and so are the ends of
 * chunks behind its last one.  PL_ERR_RESOURCE, one line. */
PL_MUST_CHECK pl_status_t pl_fit_length(const pl_engine_t *engine,
                                        const pl_request_t *request);
/* Resolve unlimited pools; check that everything fits alone. */
PL_MUST_CHECK pl_status_t pl_fit_resolve(pl_engine_t *engine);
/* Would one that was preempted fit cold into empty lanes, with the tokens that
 * it has now?  If not, one line of warning. */
bool pl_fit_again(const pl_engine_t *engine, int32_t request, int32_t tokens);

/* port.c: of a prefill instance, whose homes are elsewhere. */
PL_MUST_CHECK pl_status_t pl_port_reserve(pl_engine_t *engine, int32_t request,
                                          bool *ok_p);
PL_MUST_CHECK pl_status_t pl_port_release(pl_engine_t *engine, int32_t request);
PL_MUST_CHECK pl_status_t pl_port_deliver(pl_engine_t *engine, int32_t request);
/* Of a decode instance: what it gave up goes elsewhere. */
PL_MUST_CHECK pl_status_t pl_port_reenter(pl_engine_t *engine, int32_t request);
/* Say that it is to be prefilled once more. */
PL_MUST_CHECK pl_status_t pl_port_reentered(pl_engine_t *engine,
                                            int32_t request);
PL_MUST_CHECK pl_status_t pl_port_prefilled(pl_engine_t *engine,
                                            int32_t request);
PL_MUST_CHECK pl_status_t pl_port_finished(pl_engine_t *engine,
                                           int32_t request);

/* draft.c: tokens that its next step makes, and those it drafts for it. */
int32_t pl_draft_kept(const pl_engine_t *engine, int32_t request,
                      int32_t *n_drafted_p);
/* Of the text that it begins to decode with, what does the draft not see? */
int32_t pl_draft_unseen(const pl_engine_t *engine, int32_t request);
/* Its pages have come back from the host buffer. */
void pl_draft_resumed(pl_engine_t *engine, int32_t request);

/* ---- the steps of a tick ---- */

/* admit.c: match and admit the head of the queue, or retry its load-back. */
PL_MUST_CHECK pl_status_t pl_admit(pl_engine_t *engine);
/* Give back everything an admission took and put it at the head again. */
PL_MUST_CHECK pl_status_t pl_admit_undo(pl_engine_t *engine, int32_t request);
PL_MUST_CHECK pl_status_t pl_admit_load_ended(pl_engine_t *engine,
                                              int32_t request, int64_t op,
                                              bool good);
PL_MUST_CHECK pl_status_t pl_admit_load_cancelled(pl_engine_t *engine,
                                                  int32_t request, int64_t op);
PL_MUST_CHECK pl_status_t pl_admit_enqueue(pl_engine_t *engine, int32_t request,
                                           bool at_head);

/* The page keys of a prompt, until its prefill has ended. */
PL_MUST_CHECK pl_status_t pl_admit_make_keys(pl_engine_t *engine,
                                             int32_t request);

/* storage.c */
PL_MUST_CHECK pl_status_t pl_storage_open_for(pl_engine_t *engine);
/* The callback of the cache controller. */
int64_t pl_storage_take_io(void *context, const pl_hicache_io_t *io);
/* Host pages of a lane that are fetched for prompts that wait, at most. */
int32_t pl_prefetch_most(const pl_engine_t *engine);
/* Fetch for those at the front of the queue. */
PL_MUST_CHECK pl_status_t pl_prefetch(pl_engine_t *engine);
/* Does the head of the queue wait for its pages, and until when at most? */
bool pl_prefetch_waits(const pl_engine_t *engine, int32_t request);
int64_t pl_prefetch_deadline(const pl_engine_t *engine, int32_t request);
/* Were n pages that storage has of the prompt's rest too few to ask for? */
bool pl_prefetch_passed(const pl_engine_t *engine, int32_t request, int32_t n);
/* The prompt is admitted: what was fetched for it is its hit. */
void pl_prefetch_admitted(pl_engine_t *engine, int32_t request);
/* Pages of positions first .. end-1 that were fetched for it. */
int32_t pl_prefetch_landed(const pl_live_t *live, int32_t first, int32_t end);
/* It is computed: nothing of its fetches matters any more. */
void pl_prefetch_forget(pl_live_t *live);
PL_MUST_CHECK pl_status_t pl_fetch_ended(pl_engine_t *engine, int32_t request,
                                         int64_t op, int32_t n_good,
                                         int32_t first_bad);
PL_MUST_CHECK pl_status_t pl_fetch_cancelled(pl_engine_t *engine,
                                             int32_t request, int64_t op);
PL_MUST_CHECK pl_status_t pl_store_ended(pl_engine_t *engine, int64_t op,
                                         bool good);
PL_MUST_CHECK pl_status_t pl_publish_plan(pl_engine_t *engine);
PL_MUST_CHECK pl_status_t pl_publish_ended(pl_engine_t *engine, bool good);
/* All requests are finished, and the last index does not say so yet. */
bool pl_publish_wants_last(const pl_engine_t *engine);

/* foresee.c: what a policy that knows the future is told. */
PL_MUST_CHECK pl_status_t pl_foresee_open(pl_engine_t *engine);
void pl_foresee_admitted(pl_engine_t *engine, int32_t request);

/* prefill.c */
PL_MUST_CHECK pl_status_t pl_prefill_apply(pl_engine_t *engine);
PL_MUST_CHECK pl_status_t pl_prefill_plan(pl_engine_t *engine);
PL_MUST_CHECK pl_status_t pl_prefill_cancelled(pl_engine_t *engine,
                                               const pl_op_t *op);

/* transfer.c */
PL_MUST_CHECK pl_status_t pl_transfer_send(pl_engine_t *engine, int32_t request,
                                           bool last);
PL_MUST_CHECK pl_status_t pl_transfer_sent(pl_engine_t *engine, int32_t request,
                                           int64_t op, bool good);
/* The request's prefill is done and no send is under way any more? */
PL_MUST_CHECK pl_status_t pl_transfer_settle(pl_engine_t *engine,
                                             int32_t request);

/* decode.c */
PL_MUST_CHECK pl_status_t pl_decode_reserve(pl_engine_t *engine,
                                            int32_t request, bool *ok_p);
PL_MUST_CHECK pl_status_t pl_decode_release(pl_engine_t *engine,
                                            int32_t request);
PL_MUST_CHECK pl_status_t pl_decode_arrived(pl_engine_t *engine,
                                            int32_t request);
/* Pages that the roomiest home has left after those for such a prompt; below
 * 0: none has room. */
int32_t pl_decode_room(const pl_engine_t *engine, int32_t prompt_tokens);
PL_MUST_CHECK pl_status_t pl_decode_apply(pl_engine_t *engine);
PL_MUST_CHECK pl_status_t pl_decode_plan(pl_engine_t *engine);
PL_MUST_CHECK pl_status_t pl_decode_offloaded(pl_engine_t *engine,
                                              int32_t request, int64_t op,
                                              bool good);
PL_MUST_CHECK pl_status_t pl_decode_resumed(pl_engine_t *engine,
                                            int32_t request, int64_t op,
                                            bool good);
/* arrive.c */

/* After open_requests has marked who is skipped. */
PL_MUST_CHECK pl_status_t pl_arrive_open(pl_engine_t *engine);
/* A request has ended: those behind it may come now. */
PL_MUST_CHECK pl_status_t pl_arrive_behind(pl_engine_t *engine,
                                           int32_t request);
/* Take in whoever has arrived by now. */
PL_MUST_CHECK pl_status_t pl_arrive(pl_engine_t *engine);

/* engine.c: it has come, for the first time or again: its record begins anew.
 */
PL_MUST_CHECK pl_status_t pl_request_begin(pl_engine_t *engine,
                                           int32_t request);

/* tick.c */
PL_MUST_CHECK pl_status_t pl_request_finish(pl_engine_t *engine,
                                            int32_t request, bool failed);

#endif /* PL_ENGINE_STATE_H */
