/* engine/engine.h - the replicated control plane: one pure state machine.
 *
 * (state, arrivals, failures) -> (next state, plan of this tick).  Every rank
 * runs it on the same inputs and gets the same plans, pages and ids.  No I/O,
 * no globals, no wall clock.  Completions are inputs: an operation takes effect
 * in the first later tick that starts at or after its modelled end (plus seeded
 * ticks with `explore`).
 *
 * Not collective; ranks agree between plan and commit (exec/runner.h).
 */
#ifndef PL_ENGINE_ENGINE_H
#define PL_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/event.h>
#include <pagelane/lanes.h>
#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>
#include <pagelane/trace.h>

#include "cache/hicache.h"
#include "clock/cost.h"
#include "engine/plan.h"

typedef struct pl_engine pl_engine_t; /* opaque */

/* Where requests come from; a trace fits as it is. */
typedef struct pl_engine_source {
    void *context;
    int32_t count;
    const pl_request_t *(*request)(void *context, int32_t i);
    void (*page_keys)(void *context, int32_t i, int32_t page_tokens,
                      int32_t first, int32_t n, pl_page_key_t *keys);
} pl_engine_source_t;

#define PL_PAGES_UNLIMITED (-1)

/* Does a prompt at the head of the queue wait for pages on their way from
 * storage?  With PL_PREFETCH_TIMEOUT so long after the fetch was begun:
 * a second and a quarter of one for each 1,024 tokens of it. */
typedef enum pl_prefetch {
    PL_PREFETCH_BEST_EFFORT, /* no: it goes with what is there */
    PL_PREFETCH_WAIT_COMPLETE,
    PL_PREFETCH_TIMEOUT
} pl_prefetch_t;

/* Multi-token prediction: a decode step drafts tokens and keeps those that the
 * model would have said.  Which these are is drawn from the seed: request and
 * position decide, so that the draw is the same wherever it is decoded. */
typedef struct pl_mtp {
    int32_t draft_tokens;      /* K; 0: none, a step makes one token */
    int32_t accept_millionths; /* of a draft, if those before it were kept */
    /* The draft layer's KV is neither sent to decode nor kept in lower tiers,
     * so that the draft sees only a part of the text: what is accepted shrinks
     * as that part does. */
    bool loses_kv;
} pl_mtp_t;

/* Of several engines that share a trace, what one does (engine/port.h). */
typedef enum pl_role {
    PL_ROLE_WHOLE,
    PL_ROLE_PREFILL,
    PL_ROLE_DECODE
} pl_role_t;

struct pl_engine_port;

typedef struct pl_engine_config {
    int n_prefill;        /* C */
    int n_decode;         /* D; 0: decode runs on the prefill ranks */
    int32_t page_tokens;  /* P */
    int32_t chunk_tokens; /* multiple of P */
    pl_ownership_t ownership;
    int32_t device_pages;      /* per rank, scratch included, or unlimited */
    int32_t host_pages;        /* per rank; 0 none; or unlimited */
    int32_t decode_pages;      /* per home, or unlimited */
    int32_t decode_host_pages; /* per home, or unlimited */
    pl_write_policy_t write_policy;
    uint32_t hot_threshold;
    int32_t load_threshold_tokens;
    const pl_policy_ops_t *evict;
    int32_t storage_pages; /* per prefill rank; 0: no storage tier */
    int64_t storage_bound; /* pages of all sets of the folder that are kept at
                              most; 0: no bound but those places */
    bool storage_read_only;
    const pl_storage_start_t *storage_start; /* borrowed for the opening; NULL:
                                                it begins empty */
    pl_prefetch_t prefetch;
    int32_t prefetch_threshold_tokens; /* fewer are not worth a fetch */
    const uint8_t *skip; /* [count] requests that count as finished before the
                            run; borrowed for the opening; may be NULL */
    int32_t max_batch;   /* running requests per home */
    bool stops;          /* end-of-sequence tokens count (plan.h: watched) */
    int32_t explore;     /* 0 .. this many extra ticks per operation */
    uint64_t seed;       /* of explore */
    pl_costs_t costs;
    int64_t page_bytes; /* of one page, all layers and stores: for the costs */
    int64_t rank_page_bytes; /* of these, what a rank keeps; 0: all */
    pl_mtp_t mtp;   /* of an executor that makes no tokens of its own */
    pl_role_t role; /* WHOLE without a port */
    const struct pl_engine_port *port; /* borrowed; NULL: it takes its requests
                                          itself, and nobody is told */
    const pl_engine_t *like; /* one of the same source and configuration: what
                                fits there fits here, and is not looked at
                                again; borrowed for the opening; may be NULL */
} pl_engine_config_t;

/* Why prompt tokens were computed although somebody might have hoped not.  Each
 * page of a prompt that no tier gave has exactly one cause. */
#define PL_MISS_LIST(X)                                                        \
    X(PL_MISS_NEW, "new")             /* never seen before */                  \
    X(PL_MISS_EVICTED, "evicted")     /* was held once and lost */             \
    X(PL_MISS_LANE, "lane")           /* held, but a lane had no room */       \
    X(PL_MISS_THRESHOLD, "threshold") /* too short a hit to load, or to fetch, \
                                         or its copy not complete yet */       \
    X(PL_MISS_FAILED, "failed")   /* a copy could not be made or was bad */    \
    X(PL_MISS_STORAGE, "storage") /* on storage, and not brought in time */    \
    X(PL_MISS_LAST, "last_page")  /* the last token is always computed */

typedef enum pl_miss {
#define PL_MISS_ENUM(name, text) name,
    PL_MISS_LIST(PL_MISS_ENUM)
#undef PL_MISS_ENUM
        PL_MISSES
} pl_miss_t;

/* What became of a request.  Times are virtual; -1: has not happened.  Hits and
 * misses are those of its first admission that ended well. */
typedef struct pl_record {
    int64_t arrival_ns, admitted_ns, first_token_ns, decode_ns, finished_ns;
    int64_t admitted_tick, finished_tick;
    int32_t prompt_tokens, output_tokens; /* wanted */
    int32_t generated_tokens;
    int32_t device_hit_tokens, host_hit_tokens;
    int32_t storage_hit_tokens; /* fetched for it; not among host_hit_tokens */
    int32_t miss_pages[PL_MISSES];
    int32_t cut_pages;
    int32_t home;         /* rank that decoded it last */
    int32_t preemptions;  /* to the host buffer */
    int32_t reentries;    /* as a new prompt */
    int32_t readmissions; /* after a failed load */
    bool failed;
    bool skipped; /* finished before this run */
} pl_record_t;

typedef struct pl_engine_counters {
    int64_t ticks, idle_ticks;
    int64_t chunks, decode_steps;            /* operations */
    int64_t drafted_tokens, accepted_tokens; /* of these steps, by mtp */
    int64_t prefill_tokens;                  /* computed, re-entries included */
    int64_t sends, send_pages, sends_failed;
    int64_t offloads, offload_pages, resumes, reentries;
    int64_t link_bytes[PL_LINKS];
    /* Where virtual time went: of chunks, and of the longest decode step of
     * each tick. */
    int64_t prefill_ns[PL_COST_PARTS], decode_ns[PL_COST_PARTS];
    int64_t stepping_ns; /* of these decode steps, times the requests of all
                            homes that took part */
    /* Pages by rank: computed, and by lane: loaded back, backed up. */
    int64_t rank_pages[PL_MAX_RANKS], load_pages[PL_MAX_RANKS],
        backup_pages[PL_MAX_RANKS];
    int64_t hit_cuts, waits_for_write_back;
    int64_t reservations_failed, operations_failed;
} pl_engine_counters_t;

/* So many tokens came so long after the one before of the same request. */
typedef struct pl_token_gap {
    int64_t ns, n;
} pl_token_gap_t;

/* Open.  `config` is copied; source, log and what they point at are borrowed.
 *
 * Checked here: every prompt fits cold in every lane, and prompt + output fits
 * a decode pool alone: PL_ERR_RESOURCE with one line that names the request's
 * line, the pool, what is needed and the option to raise.  `inject` may be
 * NULL. */
PL_MUST_CHECK pl_status_t pl_engine_open(const pl_engine_config_t *config,
                                         const pl_engine_source_t *source,
                                         pl_inject_t *inject,
                                         pl_event_sink_t events,
                                         const pl_log_t *log,
                                         pl_engine_t **engine_p);
void pl_engine_close(pl_engine_t *engine); /* NULL is allowed */

/* All requests are finished, no operation is under way, and the storage tier
 * has put out its last index. */
bool pl_engine_done(const pl_engine_t *engine);

/* Apply what was due, take arrivals, match, admit, and plan one tick. */
PL_MUST_CHECK pl_status_t pl_engine_plan(pl_engine_t *engine,
                                         pl_plan_t **plan_p);

/* The agreed outcome of the plan (pl_plan_words words; see plan.h): cancels
 * operations that a rank could not reserve and remembers which due ones failed.
 * PREFILL and DECODE cannot be refused: PL_ERR_RESOURCE. */
PL_MUST_CHECK pl_status_t pl_engine_commit(pl_engine_t *engine,
                                           const uint64_t *outcome);

const pl_engine_config_t *pl_engine_config(const pl_engine_t *engine);
int32_t pl_engine_n_requests(const pl_engine_t *engine);
const pl_record_t *pl_engine_record(const pl_engine_t *engine, int32_t i);
int32_t pl_engine_n_finished(const pl_engine_t *engine);
const pl_hicache_t *pl_engine_cache(const pl_engine_t *engine);
const pl_engine_counters_t *pl_engine_counters(const pl_engine_t *engine);
int64_t pl_engine_now_ns(const pl_engine_t *engine);
/* In no order; the same gap may come several times.  Borrowed until the next
 * plan. */
const pl_token_gap_t *pl_engine_token_gaps(const pl_engine_t *engine,
                                           size_t *n_p);

/* Lanes of the device and host tiers: the prefill ranks, or one that all of
 * them hold alike (replicated). */
int pl_engine_lanes(const pl_engine_t *engine);

/* Pages per rank in force: those of the configuration, but never more than all
 * requests together could hold (which is what unlimited comes to); of storage,
 * besides what it held at the start, and some to evict ahead of need. */
int32_t pl_engine_device_pages(const pl_engine_t *engine);
int32_t pl_engine_host_pages(const pl_engine_t *engine);
int32_t pl_engine_decode_pages(const pl_engine_t *engine);
int32_t
pl_engine_storage_pages(const pl_engine_t *engine); /* slots of a share */
const pl_storage_t *pl_engine_storage(const pl_engine_t *engine); /* or NULL */

/* Of a request that has just come: nothing has happened to it. */
pl_record_t pl_record_of(const pl_request_t *request);

/* A hash of everything that decides later plans; and the same by field, for
 * naming the first that differs.  names_p[i] is static text. */
uint64_t pl_engine_state_hash(const pl_engine_t *engine);
int pl_engine_state_fields(const pl_engine_t *engine, const char **names,
                           uint64_t *hashes, int room);

/* At the end of a run, and between ticks in debug mode: lanes conserve, locks
 * and pins are those of live requests and operations (zero when done), tree
 * invariants.  PL_ERR_INTERNAL with one line. */
PL_MUST_CHECK pl_status_t pl_engine_check(const pl_engine_t *engine);

#endif /* PL_ENGINE_ENGINE_H */
