/* pagelane/layout.h - who owns a page, and who computes it.
 *
 * Pure functions; no state, no allocation.  A *logical page* g is an id all
 * ranks agree on, 0 <= g < n_lanes * N with N = pages per rank:
 *
 *     owner = g mod n_lanes      slot = g div n_lanes      g = slot * n_lanes
 *                                                              + owner
 *
 * Slot 0 of each lane (logical pages 0 .. n_lanes-1) is scratch: padded rows
 * are written there and nobody reads them.  -1 is no page and maps to -1.
 * The owner of a page says nothing about who computes which page of a chunk:
 * that is pl_compute_owners, and pages are then *allocated* in that lane.
 */
#ifndef PAGELANE_LAYOUT_H
#define PAGELANE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/export.h>
#include <pagelane/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PL_MAX_RANKS       127 /* owners are int8 */
#define PL_MAX_PAGE_TOKENS 1024
#define PL_NO_PAGE         (-1)

typedef int32_t pl_page_t; /* a logical page, or PL_NO_PAGE */
typedef int8_t pl_owner_t; /* a lane, or -1 */

static inline pl_owner_t pl_page_owner(pl_page_t page, int n_lanes)
{
    return (pl_owner_t)(page < 0 ? -1 : page % n_lanes);
}

static inline int32_t pl_page_slot(pl_page_t page, int n_lanes)
{
    return page < 0 ? -1 : page / n_lanes;
}

static inline pl_page_t pl_page_at(int owner, int32_t slot, int n_lanes)
{
    return slot < 0 ? PL_NO_PAGE : (pl_page_t)(slot * n_lanes + owner);
}

/* Row of a token in the rank-major concatenation of all lanes' stores
 * (pages_per_rank slots each): the view that a gather of whole lanes gives.
 * `token_slot` is page * page_tokens + offset, page < n_lanes * pages_per_rank;
 * negative maps to -1. */
PL_API int64_t pl_rank_major_row(int64_t token_slot, int page_tokens,
                                 int n_lanes, int64_t pages_per_rank);

/* How the pages of a chunk are spread over the ranks that compute them. */
typedef enum pl_ownership_kind {
    PL_OWNERSHIP_ZIGZAG,     /* balances causal attention; the default */
    PL_OWNERSHIP_INTERLEAVE, /* runs of `width` pages in turn; width 1 is
                               round-robin */
    PL_OWNERSHIP_REPLICATED, /* computed as zigzag, stored by every rank: one
                                lane, slot = page */
    PL_OWNERSHIP_LAYER       /* computed as zigzag; every rank stores a run of
                                layers of every page: one lane, slot = page */
} pl_ownership_kind_t;

typedef struct pl_ownership {
    pl_ownership_kind_t kind;
    int32_t width; /* INTERLEAVE: pages per turn, >= 1; else 0 */
} pl_ownership_t;

/* "zigzag", "round-robin", "replicated", "layer", "interleave:K" with K = 1 ..
 * INT32_MAX in plain digits.  PL_ERR_ARGUMENT for others (not printed: the
 * option parser names the option), and *rule_p is left as it was. */
PL_API PL_MUST_CHECK pl_status_t pl_ownership_parse(const char *text,
                                                    pl_ownership_t *rule_p);
/* The text that parses to `rule`, into buffer (PL_OWNERSHIP_TEXT_BYTES);
 * interleave of width 1 is called "round-robin". */
#define PL_OWNERSHIP_TEXT_BYTES 32
PL_API void pl_ownership_text(pl_ownership_t rule, char *buffer);

/* Lanes of the device and host tiers of n_ranks ranks: theirs, or one that all
 * hold alike. */
static inline int pl_ownership_lanes(pl_ownership_t rule, int n_ranks)
{
    return (rule.kind == PL_OWNERSHIP_REPLICATED) ||
                   (rule.kind == PL_OWNERSHIP_LAYER)
               ? 1
               : n_ranks;
}

/* Shares that the pages of storage are spread over: the ranks', or one that all
 * of them have alike, each with its layers. */
static inline int pl_ownership_shares(pl_ownership_t rule, int n_ranks)
{
    return rule.kind == PL_OWNERSHIP_LAYER ? 1 : n_ranks;
}

/* layer: rank r stores the layers pl_first_layer(n, C, r) up to, without it,
 * pl_first_layer(n, C, r + 1): n div C of them, and one more on the first n mod
 * C ranks.  0 <= rank <= n_ranks. */
static inline int32_t pl_first_layer(int32_t n_layers, int n_ranks, int rank)
{
    int32_t n_longer = n_layers % n_ranks;

    return rank * (n_layers / n_ranks) + (rank < n_longer ? rank : n_longer);
}

/* Compute owners of a chunk's pages 0 .. n_pages-1 (the last may be partial).
 *
 * zigzag: the n_pages pages are cut into 2C blocks, the first n_pages mod 2C of
 * them one page longer; block b belongs to k = min(b, 2C-1-b); owner =
 * (k + r) mod C with r = (first_page + request) mod C.  With r = 0 these are
 * the published vectors: 20 pages on 4 ranks are 0 0 0 1 1 1 2 2 2 3 3 3 3 3 2
 * 2 1 1 0 0; 3 pages are 0 1 2. Within a chunk two ranks differ by at most one
 * page, so after m chunks the lanes differ by at most m; the rotation makes the
 * differences cancel. replicated, layer: as zigzag.  interleave:K: owner =
 * ((first_page + i) div K + request) mod C, a function of the absolute page
 * index, whatever the chunks are.
 *
 * first_page: index of the chunk's first page in its request; request: the
 * request's number.  Both >= 0. */
PL_API void pl_compute_owners(pl_ownership_t rule, int n_ranks,
                              int32_t first_page, int32_t n_pages,
                              int64_t request, pl_owner_t *owners);

/* The zigzag's 2C block lengths in units (pages or tokens): base or base + 1.
 * They sum to n_units; those after the first n_units may be 0. */
PL_API void pl_zigzag_blocks(int32_t n_units, int n_ranks, int32_t *lengths);

/* A rank's share of a chunk: the i with owners[i] == rank, ascending (for a
 * zigzag chunk at most two runs, possibly none).  Returns how many; positions
 * (relative to owners) has room for n_pages. */
PL_API int32_t pl_owned_positions(const pl_owner_t *owners, int32_t n_pages,
                                  int rank, int32_t *positions);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_LAYOUT_H */
