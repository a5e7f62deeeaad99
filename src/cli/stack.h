/* cli/stack.h - how many pages a lane would have needed to keep one page.
 *
 * The number is the page's LRU stack distance in the demand of this run: the
 * smallest number of pages with which a lane that evicts single pages, the one
 * that has been out of use longest first, and of one prompt the last first,
 * would still have held the page when it was wanted.  All that the run used
 * stays as it was, owners and ticks included; pages in use stay; a page that
 * comes again counts once, in the lane where it came first.  It says nothing of
 * what a run with that size would do: with other hits come other times, and the
 * real policy evicts suffixes of nodes, with what else they hold.
 */
#ifndef PL_CLI_STACK_H
#define PL_CLI_STACK_H

#include "cli/uses.h"

/* One change of what must be kept besides the page. */
typedef struct pl_stack_entry {
    int32_t lane;
    int32_t change; /* +1, -1 */
    bool copied;    /* it has been copied to the host tier before `until` */
    size_t event;
    int64_t key; /* -1: a partial page, gone when its use ends */
} pl_stack_entry_t;

/* What came after the use `since` and before the event `until`, lane by lane,
 * each in order. */
typedef struct pl_stack {
    PL_ARRAY(pl_stack_entry_t) entries;
} pl_stack_t;

/* The prompt that wants its pages back. */
typedef struct pl_stack_path {
    int64_t n;            /* pages */
    const int64_t *keys;  /* [n] */
    const int32_t *lanes; /* [n] where each was in the use; -1: nowhere */
} pl_stack_path_t;

/* copied: n_copied keys, ascending.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_stack_make(const pl_uses_t *uses,
                                        const pl_sharing_t *sharing,
                                        int64_t page_tokens, size_t since,
                                        size_t until, const int64_t *copied,
                                        size_t n_copied, pl_stack_t *stack);
void pl_stack_free(pl_stack_t *stack);

/* Pages of `lane` that keep page p of the path, itself and those before it
 * included; copied_only: of the host tier, where only pages with copies are. */
int64_t pl_stack_depth(const pl_stack_t *stack, const pl_stack_path_t *path,
                       int64_t p, int32_t lane, bool copied_only);

#endif /* PL_CLI_STACK_H */
