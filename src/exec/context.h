/* exec/context.h - what the parts of one rank's data plane share.
 *
 * Inside src/exec only.  The tiers of a rank are indexed by pl_freed_tier_t; a
 * tier without slots is not on this rank.
 */
#ifndef PL_EXEC_CONTEXT_H
#define PL_EXEC_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "base/array.h"
#include "cache/storage_table.h"
#include "comm/comm.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "exec/compute.h"
#include "exec/executor.h"
#include "exec/pages.h"
#include "pool/store.h"
#include "verify/guard.h"
#include "verify/inject.h"
#include "verify/violation.h"

#define PL_TIERS (PL_FREED_DECODE_HOST + 1)

/* Regions of the communicator: pages and headers of the device tier. */
enum { PL_REGION_PAGES, PL_REGION_HEADERS };

/* What a rank remembers of a request. */
typedef struct pl_exec_request {
    PL_ARRAY(int32_t)
    generated; /* on the home; on all ranks when it re-enters */
    bool has_digest;
    uint64_t digest; /* of the prompt as first received */

    /* since its last chunk */
    int32_t first_rank;    /* computed its last page; -1 before */
    int32_t first_token;   /* there */
    uint64_t first_digest; /* there: of all rows read */

    /* the transfer to its home, counted alike on all ranks */
    uint32_t attempt;
    bool failed; /* sticky until the next attempt */

    /* on the home */
    bool damaged;          /* a page came in that is not what it must be */
    int32_t n_sends;       /* of this attempt under way */
    int32_t prompt_tokens; /* known once the last send was received, else 0 */
    int32_t token;         /* its first token, from then on */
    uint64_t sent_digest;
    PL_ARRAY(pl_page_t)
    decode_pages;         /* by position; PL_NO_PAGE: nothing came */
    uint64_t digest_held; /* of all rows held */
} pl_exec_request_t;

typedef struct pl_exec {
    int rank, n_ranks, n_prefill, n_decode;
    int n_lanes; /* of the device and host tiers: n_prefill, or 1 */
    int32_t page_tokens, n_layers;
    pl_verify_t verify;
    const pl_log_t *log;
    pl_comm_t *comm;
    pl_device_t *device;
    pl_inject_t *inject;     /* this rank's own */
    pl_storage_door_t *door; /* to storage; NULL: none here */
    pl_store_t stores[PL_TIERS];
    pl_engine_source_t source;
    pl_token_reader_t prompts; /* of the trace: prompt tokens only */
    pl_compute_t *compute;
    pl_exec_request_t *requests; /* [source.count] */
    pl_violations_t *violations; /* of the executor */
    pl_exec_counters_t *counters;
    pl_op_log_t *log_of_ops;
    const pl_plan_t *plan; /* of this tick */
    int64_t tick;
    pl_digests_t digests; /* scratch of whoever is at work, as is: */
    pl_poison_t poison;
} pl_exec_t;

/* Pages of each tier on each rank. */
typedef struct pl_tier_pages {
    int32_t n[PL_TIERS];
} pl_tier_pages_t;

/* Memory of this rank's tiers: the device tier's is shared with peers, decode
 * pools are the device's own, all else is the host's, headers and tags of all
 * of them as well.  Headers say "never", and with verification all bytes are
 * poison.  PL_ERR_MEMORY (the device says what for), PL_ERR_DEVICE; what was
 * made is then freed. */
PL_MUST_CHECK pl_status_t pl_exec_open_tiers(pl_exec_t *exec,
                                             const pl_store_layout_t *layout,
                                             const pl_tier_pages_t *pages);
void pl_exec_close_tiers(pl_exec_t *exec);

static inline bool pl_exec_verifies(const pl_exec_t *exec)
{
    return exec->verify != PL_VERIFY_OFF;
}

static inline int32_t pl_exec_slot(const pl_exec_t *exec, int tier,
                                   pl_page_t page)
{
    bool lanes = (tier == PL_FREED_DEVICE) || (tier == PL_FREED_HOST);

    return pl_page_slot(page, lanes ? exec->n_lanes : 1);
}

/* Does each prefill rank store the pages of all?  Then there is one lane, each
 * has all of it, and a page that one computes is copied by the others. */
static inline bool pl_exec_replicates(const pl_exec_t *exec)
{
    return exec->n_lanes < exec->n_prefill;
}

/* Does this rank keep what lies in that lane of the device and host tiers? */
static inline bool pl_exec_keeps_lane(const pl_exec_t *exec, int lane)
{
    return pl_exec_replicates(exec) ? exec->rank < exec->n_prefill
                                    : lane == exec->rank;
}

/* The rank whose store holds the page, as violations and guard words name it:
 * the lane's rank (0 if all ranks hold the one lane), or the home. */
int pl_exec_owner(const pl_exec_t *exec, int tier, pl_page_t page,
                  int32_t home);

/* What the guard word of `page` must say in this tick. */
uint64_t pl_exec_guard(const pl_exec_t *exec, int tier, pl_page_t page,
                       int32_t home);

/* Where a page was read: what a violation says besides layer and store. */
typedef struct pl_exec_site {
    pl_place_t place;
    int tier; /* that `page` is of */
    pl_page_t page;
    int32_t home;     /* decode tiers; else -1 */
    int32_t position; /* of its first token */
    int32_t request;
    int64_t node;
} pl_exec_site_t;

void pl_exec_violate(pl_exec_t *exec, int32_t invariant,
                     const pl_exec_site_t *site, int32_t layer, int store,
                     int32_t position);

/* One layer of one store of a page that is read. */
typedef struct pl_exec_read {
    pl_page_header_t header; /* beside the bytes */
    uint64_t guard;          /* what the word must say */
    bool hashed;             /* else the guard word alone is looked at */
    uint64_t digest;         /* of the bytes */
} pl_exec_read_t;

/* With verification: is it what it must be?  Notes a violation if not, unless
 * the page is marked as damaged: that was noted where it happened.  What is
 * made of a page that is not sound must be marked, so that the first place is
 * the one that is named. */
bool pl_exec_sound(pl_exec_t *exec, const pl_exec_site_t *site, int32_t layer,
                   int which, const pl_exec_read_t *read);

/* The tier's memory, as the device names it.  Device pages are shared only
 * where peers open them: shared memory of a CPU counts as a file (`ulimit -f`).
 */
static inline pl_memory_t pl_exec_memory(const pl_comm_t *comm, int tier)
{
    switch (tier) {
    case PL_FREED_DEVICE:
        return comm->queues ? PL_MEMORY_SHARED : PL_MEMORY_DEVICE;
    case PL_FREED_DECODE:
        return PL_MEMORY_DEVICE;
    default:
        return PL_MEMORY_HOST;
    }
}

/* Are digests of rows taken where they are only for the compute? */
static inline bool pl_exec_hashes(const pl_exec_t *exec)
{
    return pl_exec_verifies(exec) || exec->compute->ops->needs_digest;
}

/* The digest of rows 0 .. n_rows-1 of a page in host memory. */
static inline uint64_t pl_exec_digest(const pl_page_form_t *form,
                                      const uint8_t *page, int32_t layer,
                                      int store, int32_t n_rows,
                                      int32_t position)
{
    return pl_digest_rows(form, page, 0, n_rows, position,
                          pl_digest_base(layer, store));
}

/* Rows of page `page` of a request that holds n_tokens. */
static inline int32_t pl_exec_rows(const pl_exec_t *exec, int32_t page,
                                   int32_t n_tokens)
{
    int32_t rest = n_tokens - page * exec->page_tokens;

    return rest < 0 ? 0 : (rest < exec->page_tokens ? rest : exec->page_tokens);
}

/* Pages that n_tokens take. */
static inline int32_t pl_exec_pages(const pl_exec_t *exec, int32_t n_tokens)
{
    return (n_tokens + exec->page_tokens - 1) / exec->page_tokens;
}

int32_t pl_exec_prompt_tokens(const pl_exec_t *exec, int32_t request);

/* Tokens of a request, prompt and generated. */
void pl_exec_read_tokens(void *context, int32_t request, int32_t first,
                         int32_t n, int32_t *tokens);

/* With verification: check and poison what became free (pages of this rank). */
PL_MUST_CHECK pl_status_t pl_exec_poison_freed(pl_exec_t *exec);
/* With verification: check every page that any tier holds. */
PL_MUST_CHECK pl_status_t pl_exec_check_all(pl_exec_t *exec);

/* This rank reaches the point of a fault: does it happen here and now?  A rule
 * that names no rank stands for rank 0 or, where rank 0 never decodes, for the
 * first rank that does (verify/inject.h). */
bool pl_exec_injects(pl_exec_t *exec, pl_inject_point_t point);
/* Flip one bit of a row of a page of one of the tiers.  The host waits. */
PL_MUST_CHECK pl_status_t pl_exec_flip(pl_exec_t *exec, int tier, int32_t slot,
                                       int32_t layer, int32_t rows);

#endif /* PL_EXEC_CONTEXT_H */
