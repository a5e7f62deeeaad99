/* pagelane/lanes.h - free pages by owner: the allocator that every rank
 * mirrors.
 *
 * A pool of n_lanes * pages_per_lane logical pages; lane r holds the pages with
 * owner r.  There is no allocation without owners: who asks says in which lane
 * each page must lie (pagelane/layout.h has the compute owners; a host copy's
 * saved owners are the other source).  The same calls in the same order give
 * the same pages on every rank: lowest free page of the lane first; freed pages
 * are staged and come back in ascending order when a lane runs short (so runs
 * stay contiguous).  No clock, address or hash decides.
 *
 * The device tier, the host tier and a decode pool (n_lanes = 1) are all of
 * this type.  Not thread-safe.  Sizes are pages.
 */
#ifndef PAGELANE_LANES_H
#define PAGELANE_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/export.h>
#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_lanes pl_lanes_t; /* opaque */

typedef struct pl_lanes_params {
    int n_lanes;            /* 1 .. PL_MAX_RANKS */
    int32_t pages_per_lane; /* N, reserved slots included, >= reserved + 1;
                               n_lanes * N <= INT32_MAX */
    int32_t reserved_slots; /* first slots of each lane, never handed out: 1 for
                               a device tier (scratch), 0 for a host tier */
    const char *name;       /* "device", "host", ...: in messages; borrowed */
} pl_lanes_params_t;

/* Not collective.  `log` and params->name are borrowed and must outlive the
 * pool.  A huge pool costs memory only for the part it has used.
 * PL_ERR_ARGUMENT or PL_ERR_MEMORY, one line each. */
PL_API PL_MUST_CHECK pl_status_t pl_lanes_open(const pl_lanes_params_t *params,
                                               const pl_log_t *log,
                                               pl_lanes_t **lanes_p);
PL_API void pl_lanes_close(pl_lanes_t *lanes); /* NULL is allowed */

/* Take n pages, page i in lane owners[i], all or nothing:
 * alloc_pages_with_owners.
 *
 * pages[i] is written for all i on PL_OK only; each page's generation goes up
 * by one.  PL_REFUSED_SHORT: a lane is short even with its staged pages.
 * PL_ERR_INTERNAL, one line: an owner is no lane.  In both cases the pool is as
 * it was (not even merged).  n >= 0.  O(n), no memory is allocated. */
PL_API PL_MUST_CHECK pl_status_t pl_lanes_alloc(pl_lanes_t *lanes,
                                                const pl_owner_t *owners,
                                                int32_t n, pl_page_t *pages);

/* alloc_extend_compute_owner: the three parts of an extend.
 *
 * A request holds n_tokens_before tokens (its last page, if partial, has room)
 * and gets tokens up to n_tokens_after; pages are needed for whole and partial
 * pages beyond ceil(before / page_tokens) only, in the compute owners of the
 * chunk [before, after).  `before` must be a multiple of page_tokens or the
 * extend must end within its partial page (chunk ends are page multiples: a
 * page never changes its owner).  n_new_p is the number of pages taken; pages
 * must have room for them.  Statuses as pl_lanes_alloc; PL_ERR_ARGUMENT (one
 * line) for a chunk that starts within a page and leaves it, or goes backwards;
 * PL_ERR_MEMORY.  The pool is as it was unless PL_OK. */
PL_API PL_MUST_CHECK pl_status_t
pl_lanes_alloc_extend(pl_lanes_t *lanes, pl_ownership_t rule, int page_tokens,
                      int32_t n_tokens_before, int32_t n_tokens_after,
                      int64_t request, pl_page_t *pages, int32_t *n_new_p);

/* How many pages each lane lacks for `owners` (lanes, all of them):
 * deficits[n_lanes], 0 if none.  Returns whether any lane is short.  Changes
 * nothing. */
PL_API bool pl_lanes_deficits(const pl_lanes_t *lanes, const pl_owner_t *owners,
                              int32_t n, int32_t *deficits);

/* Give pages back (staged; usable by the next alloc that needs them).
 *
 * `owners` may be NULL; else page i must lie in lane owners[i].  A page that is
 * free already, reserved, out of range or in another lane is an internal
 * error: one line names it, PL_ERR_INTERNAL, and nothing of this call has
 * taken effect.  A page that stands twice in one call is a double free.
 *
 * Inside a free group the ids are checked and copied now (so a page that stands
 * in the group twice is found at once; PL_ERR_MEMORY is possible) and given
 * back at its end. */
PL_API PL_MUST_CHECK pl_status_t pl_lanes_free(pl_lanes_t *lanes,
                                               const pl_page_t *pages,
                                               const pl_owner_t *owners,
                                               int32_t n);

/* A free group defers frees so that a page of the group is not handed out
 * before its end; until then it is neither free nor counted as free.  Groups do
 * not nest, and an end has a begin: else PL_ERR_INTERNAL, nothing changed. */
PL_API PL_MUST_CHECK pl_status_t pl_lanes_group_begin(pl_lanes_t *lanes);
PL_API PL_MUST_CHECK pl_status_t pl_lanes_group_end(pl_lanes_t *lanes);

/* Free pages of a lane, staged ones included. */
PL_API int32_t pl_lanes_free_count(const pl_lanes_t *lanes, int lane);
/* Over all lanes: what leak accounting sums. */
PL_API int64_t pl_lanes_free_total(const pl_lanes_t *lanes);
/* n_lanes * free pages of the tightest lane: what can surely be admitted. */
PL_API int64_t pl_lanes_available(const pl_lanes_t *lanes);

PL_API int pl_lanes_n(const pl_lanes_t *lanes);
PL_API int32_t pl_lanes_pages_per_lane(const pl_lanes_t *lanes);
PL_API int32_t pl_lanes_reserved(const pl_lanes_t *lanes);
/* Free or staged.  False for scratch, pages of an open group, and no page. */
PL_API bool pl_lanes_is_free(const pl_lanes_t *lanes, pl_page_t page);

/* How often the page was handed out, mod 2^32; 0 = never.  With (owner, slot)
 * it names what a guard word must say.  0 for what is no page. */
PL_API uint32_t pl_lanes_generation(const pl_lanes_t *lanes, pl_page_t page);

/* A hash of everything that decides later results (which pages are free or
 * staged, generations); equal on all ranks. */
PL_API uint64_t pl_lanes_state_hash(const pl_lanes_t *lanes);

/* Recount from the bitmaps; PL_ERR_INTERNAL and one line if a counter lies.
 * Reads the part of the pool that was ever used. */
PL_API PL_MUST_CHECK pl_status_t pl_lanes_check(const pl_lanes_t *lanes);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_LANES_H */
