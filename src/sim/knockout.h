/* sim/knockout.h - which of n has the least key, as keys change: a knockout
 * among them, of which a change replays log2 n matches.  Of equal keys the
 * lowest number.
 */
#ifndef PL_SIM_KNOCKOUT_H
#define PL_SIM_KNOCKOUT_H

#include <stdint.h>

#include <pagelane/status.h>

/* The first counts more. */
typedef struct pl_knockout_key {
    int64_t first, then;
} pl_knockout_key_t;

typedef struct pl_knockout {
    int32_t n_leaves;        /* a power of two; those beyond n never win */
    pl_knockout_key_t *keys; /* [n_leaves] */
    int32_t *winners; /* [2 n_leaves]: of match i those of 2i and 2i + 1 play,
                         number k comes in as that of n_leaves + k */
} pl_knockout_t;

/* Of n >= 1, all of the greatest key.  Into a zeroed one, which is to be closed
 * in any case.  PL_OK; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_knockout_open(int32_t n, pl_knockout_t *knockout);
void pl_knockout_close(pl_knockout_t *knockout);

void pl_knockout_set(pl_knockout_t *knockout, int32_t number,
                     pl_knockout_key_t key);
int32_t pl_knockout_first(const pl_knockout_t *knockout);
pl_knockout_key_t pl_knockout_key(const pl_knockout_t *knockout,
                                  int32_t number);

#endif /* PL_SIM_KNOCKOUT_H */
