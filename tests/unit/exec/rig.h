/* The data executor on virtual ranks, driven by hand-written plans.
 *
 * Each rank has the executor, its own mirror of all lanes, and a plan that the
 * test fills operation by operation; rig_tick does what the runner does. Checks
 * are noted, not asserted: they run on the ranks' threads.
 */
#ifndef PL_TESTS_EXEC_RIG_H
#define PL_TESTS_EXEC_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/data.h"
#include "exec/stamp.h"
#include "support/memory_disk.h"

#define RIG_ROOM     64 /* operations, pages of a request, ... */
#define RIG_REQUESTS 4
#define RIG_VOCAB    997
#define RIG_LAYERS   2
#define RIG_ROW      24

typedef struct rig_params {
    int n_prefill, n_decode;
    int32_t page_tokens;
    int32_t prompt_tokens; /* of every request */
    const char *device;    /* "far": by peer as well */
    pl_verify_t verify;
    bool same_prompts;   /* all requests ask the same */
    bool replicated;     /* one lane that all prefill ranks hold */
    memory_disk_t *disk; /* NULL: no storage */
} rig_params_t;

typedef struct rig {
    const rig_params_t *params;
    pl_comm_t *comm;
    pl_device_t *device;
    pl_storage_door_t *door;
    pl_executor_t *executor;
    pl_request_t request;
    pl_lanes_t *device_lanes, *host_lanes;
    pl_lanes_t *decode_lanes[PL_MAX_RANKS];
    pl_lanes_t *decode_host_lanes[PL_MAX_RANKS];
    int32_t counts[RIG_ROOM];

    pl_plan_t plan;
    pl_op_t ops[RIG_ROOM];
    pl_due_t due[RIG_ROOM];
    pl_freed_t freed[RIG_ROOM];
    int64_t next_id;
    uint64_t outcome[8]; /* of the last tick */

    char failed[256]; /* what failed first, or empty */
} rig_t;

/* Pages of one request as the test keeps them; room for RIG_ROOM. */
typedef struct rig_pages {
    pl_page_t pages[RIG_ROOM];
    pl_owner_t owners[RIG_ROOM];  /* lanes */
    pl_owner_t compute[RIG_ROOM]; /* ranks that compute them */
    int32_t n;
} rig_pages_t;

/* Lanes of the device and host tiers; does this rank hold that lane's pages? */
int rig_lanes(const rig_t *rig);
bool rig_keeps(const rig_t *rig, int lane);

#define RIG_CHECK(rig, condition)                                              \
    rig_note((rig), (condition), __FILE__, __LINE__, #condition)
void rig_note(rig_t *rig, bool good, const char *file, int line,
              const char *text);

/* Run body(rig) on all ranks; returns what failed first on any, or "".  The
 * text lies in `buffer` (512 bytes). */
typedef void (*rig_body_t)(rig_t *rig, void *context);
const char *rig_run(const rig_params_t *params, rig_body_t body, void *context,
                    char *buffer);

/* Allocate pages for tokens [from, to) of a request, in their compute owners'
 * lanes; with `owners` in those instead. */
void rig_extend(rig_t *rig, rig_pages_t *pages, int32_t request, int32_t from,
                int32_t to);
void rig_take(pl_lanes_t *lanes, const pl_owner_t *owners, int32_t n,
              rig_pages_t *pages);
/* Give device or host pages back, to be poisoned in the next tick. */
void rig_free_device(rig_t *rig, rig_pages_t *pages);
void rig_free_host(rig_t *rig, rig_pages_t *pages);
void rig_freed(rig_t *rig, pl_freed_tier_t tier, int32_t home, pl_page_t page);

/* Add an operation to the next plan; its id is filled in. */
pl_op_t *rig_op(rig_t *rig, pl_op_kind_t kind, int32_t request);
int64_t rig_prefill(rig_t *rig, const rig_pages_t *pages, int32_t request,
                    int32_t from, int32_t to, bool last, int64_t load);
int64_t rig_send(rig_t *rig, const rig_pages_t *pages, const rig_pages_t *to,
                 int32_t request, int32_t home, int32_t first_page, int32_t end,
                 bool last);
void rig_due(rig_t *rig, int64_t id, pl_op_kind_t kind);
/* Plan -> reserve, settle -> agree -> cancel -> execute; collective. */
void rig_tick(rig_t *rig);

/* The rank that decodes everything here: the last one. */
int32_t rig_home(const rig_t *rig);

/* A page of this rank as the host reaches it: all that the forward pass has
 * queued is done. */
uint8_t *rig_page(const rig_t *rig, int tier, int which, int32_t layer,
                  int32_t slot);

/* Row content that the stamp must have made. */
void rig_row(const rig_t *rig, int32_t request, int32_t position, int32_t layer,
             int store, uint8_t *content);
/* Does a page of this rank hold rows of the request, byte for byte, in all
 * layers and stores?  `page` is the index in the request. */
bool rig_holds(const rig_t *rig, int tier, int32_t slot, int32_t request,
               int32_t page, int32_t n_tokens);
/* Are all of its bytes poison and its guard words zero? */
bool rig_is_poison(const rig_t *rig, int tier, int32_t slot);

/* Violations seen by all ranks so far; the least.  Collective. */
pl_violations_t rig_violations(rig_t *rig);

/* ---- rig_steps.c: what most plans begin with ---- */

#define RIG_PROMPT 49 /* tokens */

typedef struct rig_point {
    int n_prefill, n_decode;
    int32_t page_tokens;
    const char *device;
} rig_point_t;

/* All requests ask the same RIG_PROMPT tokens. */
rig_params_t rig_params_of(const rig_point_t *point, pl_verify_t verify);

/* A request's prompt in two chunks, the second one the last. */
void rig_prefill_cold(rig_t *rig, rig_pages_t *pages, int32_t request);
/* n more pages of the home's pool. */
void rig_decode_pages(rig_t *rig, rig_pages_t *to, int32_t n);
/* All pages to the home, which holds the request's rows byte for byte then. */
void rig_send_all(rig_t *rig, const rig_pages_t *pages, rig_pages_t *to,
                  int32_t request);
/* The first n pages between device and host; LOAD is for request 1. */
int64_t rig_start_copy(rig_t *rig, pl_op_kind_t kind, const rig_pages_t *device,
                       const rig_pages_t *host, int32_t n);
/* The first n pages to the host tier, which then holds them. */
void rig_back_up(rig_t *rig, const rig_pages_t *pages, rig_pages_t *host,
                 int32_t n);

#endif /* PL_TESTS_EXEC_RIG_H */
