/* engine/plan.h - what the ranks have to do in one tick.
 *
 * The engine plans, every rank reserves what its part needs and waits for what
 * is due, all agree, the engine commits (operations that a rank could not
 * reserve are cancelled everywhere), and the ranks execute what is left:
 *
 *     plan -> reserve, settle -> agree -> commit -> execute
 *
 * Everything a plan points at is borrowed from the engine and stays as it is
 * until the next call of pl_engine_plan; what an executor needs longer it
 * copies.
 */
#ifndef PL_ENGINE_PLAN_H
#define PL_ENGINE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/lanes.h>
#include <pagelane/layout.h>

#include "cache/storage.h"

/* Executed in this order within a tick (the order of plan->ops). */
typedef enum pl_op_kind {
    PL_OP_FETCH,   /* async: storage -> host pages, while the prompt waits */
    PL_OP_LOAD,    /* async: host -> device pages, before the prompt's first
                      chunk, which waits for it layer by layer */
    PL_OP_PREFILL, /* one chunk of one request through all layers */
    PL_OP_DECODE,  /* one token of one running request on its home */
    PL_OP_BACKUP,  /* async: device -> host pages */
    PL_OP_SEND,    /* async: device pages -> pages of the home's decode pool */
    PL_OP_OFFLOAD, /* async: decode pages -> host buffer of the home */
    PL_OP_RESUME,  /* async: host buffer of the home -> decode pages */
    PL_OP_REENTER, /* the home tells all ranks the request's tokens so far */
    PL_OP_STORE,   /* async: host -> storage pages, behind a backup */
    PL_OP_PUBLISH, /* async: rank 0 puts out an index of what storage keeps */
    PL_OP_KINDS
} pl_op_kind_t;

const char *pl_op_kind_text(pl_op_kind_t kind);

typedef struct pl_op {
    int64_t id; /* > 0, ascending over the run */
    pl_op_kind_t kind;
    bool cancelled;  /* set by commit: do not execute */
    int32_t request; /* index in the trace; -1: BACKUP, STORE, PUBLISH */
    int64_t node;    /* BACKUP, STORE: its node, LOAD: the deepest; else -1 */

    /* Positions first_page .. first_page + n_pages - 1 of the prompt.
     *   LOAD, BACKUP: pages = device, other = host pages, owners = what the
     * host copy records: rank r moves the positions with owners[i] == r, from
     * or to slot(other[i]) and slot(pages[i]) of its own stores; every prefill
     * rank moves all if there is one lane. PREFILL: first_page 0, pages = all
     * device pages up to the chunk's end. DECODE: first_page 0, pages = decode
     * pages of the home. SEND: pages = device, other = decode pages of the
     * home: rank pages[i] mod C, which is the page's owner, sends it.
     *   OFFLOAD, RESUME: pages = decode, other = decode host pages.
     *   STORE: pages = host, places = where they go.  Rank places[i].rank
     * writes position i, which is its own lane's (all have it if there is one
     * lane).
     *   FETCH: pages = host, places = where they lie, owners = lanes that they
     * are fetched to: rank owners[i] reads position i; every prefill rank reads
     * all if there is one lane.  At most PL_STORAGE_READ_PAGES.  */
    int32_t first_page;
    int32_t n_pages;
    const pl_page_t *pages;
    const pl_page_t *other;
    const pl_owner_t *owners;
    const pl_storage_place_t *places; /* [n_pages] STORE, FETCH; else NULL */
    const uint64_t *chains; /* [n_pages] STORE, FETCH: of the prefix that ends
                               with each page */
    const int64_t *stamps;  /* [n_pages] STORE: of this write, all the same;
                               FETCH: of the writes that made the pages */
    const pl_owner_t *compute; /* PREFILL: [pages of the chunk] ranks that
                                  compute them: the pages' owners, if they have
                                  any; else NULL */

    int32_t first_token; /* PREFILL: of the chunk.  DECODE: position of the row
                            that this step makes first.  SEND: prompt tokens
                            that lie before its pages */
    int32_t n_tokens;    /* PREFILL: of the chunk.  DECODE: that the step makes
                            (1 without multi-token prediction).  SEND: tokens in
                            its pages.  REENTER: length of the new prompt.
                            OFFLOAD, RESUME: rows held */
    int32_t home;        /* SEND, DECODE, OFFLOAD, RESUME, REENTER: the home's
                            rank in the whole group; else -1 */
    bool last;           /* PREFILL: the prompt ends here.  SEND: the prompt's
                            last pages (possibly none): the compute owner of the
                            last page sends first token and metadata */
    int64_t load; /* PREFILL: operation whose layers it waits for, or 0 */
} pl_op_t;

/* An operation whose modelled end has come: it takes effect now, so a rank
 * where it is not physically done waits for it. */
typedef struct pl_due {
    int64_t id;
    pl_op_kind_t kind;
    int32_t request;
    int32_t word; /* FETCH: of the outcome, the first of its two; else -1 */
} pl_due_t;

/* Pages that became free since the last plan (they may be allocated again in
 * this very plan): what a verifying executor poisons before it executes. */
typedef enum pl_freed_tier {
    PL_FREED_DEVICE,
    PL_FREED_HOST,
    PL_FREED_DECODE,
    PL_FREED_DECODE_HOST
} pl_freed_tier_t;

typedef struct pl_freed {
    pl_freed_tier_t tier;
    int32_t home; /* rank, for the decode tiers; else -1 */
    pl_page_t page;
} pl_freed_t;

typedef struct pl_plan {
    int64_t tick;   /* from 0 */
    int64_t now_ns; /* virtual time at its start */
    int32_t n_ops;
    pl_op_t *ops;
    int32_t n_due;
    const pl_due_t *due;   /* ascending ids */
    int32_t n_due_fetches; /* of these */
    /* Requests that decode, when end-of-sequence tokens count: a home that
     * knows such a token of one says so by its bit, and the request ends with
     * it (a step planned meanwhile is for nothing). */
    int32_t n_watched;
    const int32_t *watched;
    int32_t n_freed;
    const pl_freed_t *freed;
    /* For guard words: the mirrored allocators, generations valid in this tick.
     */
    const pl_lanes_t *device;
    const pl_lanes_t *host;      /* NULL: no host tier */
    const pl_storage_t *storage; /* NULL: no storage tier */
    const uint8_t *finished;     /* [n_requests] for a publication */
    int32_t n_requests;
    const pl_lanes_t *const *decode;      /* [home rank]; NULL where none */
    const pl_lanes_t *const *decode_host; /* [home rank]; NULL where none */
} pl_plan_t;

/* One bit per operation, then one per due operation: who failed; then one per
 * watched request: its text has ended; then, from the next word on, two words
 * per FETCH that is due: which of its pages are not what was written, and which
 * could not be read now (what is good is the run before the first of either;
 * the bit of the operation itself stays 0).  Each rank fills its own; the OR
 * over all ranks is the outcome. */
enum { PL_FETCH_BAD, PL_FETCH_UNREAD, PL_FETCH_WORDS };

static inline int32_t pl_plan_bit_words(const pl_plan_t *plan)
{
    return (plan->n_ops + plan->n_due + plan->n_watched + 63) / 64;
}

static inline int32_t pl_plan_words(const pl_plan_t *plan)
{
    return pl_plan_bit_words(plan) + PL_FETCH_WORDS * plan->n_due_fetches;
}

static inline bool pl_plan_bit(const uint64_t *words, int32_t i)
{
    return ((words[i / 64] >> (i % 64)) & 1U) != 0;
}

static inline void pl_plan_set_bit(uint64_t *words, int32_t i)
{
    words[i / 64] |= UINT64_C(1) << (i % 64);
}

#endif /* PL_ENGINE_PLAN_H */
