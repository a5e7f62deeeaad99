/* exec/stamp.h - a compute without weights: bytes that anyone can predict.
 *
 * The KV row of a token is a pure function of (all tokens up to it, its
 * position, layer, store): c(t) folds token t into c(t-1), and the row is the
 * output of a counter-based generator seeded by c(t), position, layer and
 * store.  So any byte of any page can be told anywhere from tokens alone, and a
 * page that is stale, foreign, moved or damaged shows.  The next token is a
 * function of the digest of all rows held: a missed byte changes the output.
 */
#ifndef PL_EXEC_STAMP_H
#define PL_EXEC_STAMP_H

#include "exec/compute.h"

typedef struct pl_stamp_params {
    pl_store_layout_t layout; /* sizes of rows and pages; n_slots not used */
    int32_t n_requests;
    int32_t vocab_size;       /* tokens made are 0 .. vocab_size - 1; > 0 */
    bool expects;             /* keep what views must show (verification) */
    pl_token_reader_t tokens; /* borrowed */
} pl_stamp_params_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_stamp_open(const pl_stamp_params_t *params,
                                        pl_compute_t **compute_p);

/* c of a prompt's start; c of one more token. */
uint64_t pl_stamp_start(void);
uint64_t pl_stamp_fold(uint64_t chain, int32_t token);

/* The content of a row, n_bytes (a multiple of 4). */
void pl_stamp_row(uint64_t chain, int32_t position, int32_t layer, int store,
                  uint8_t *content, size_t n_bytes);

/* The token that follows rows of this digest. */
int32_t pl_stamp_token(uint64_t digest, int32_t vocab_size);

#endif /* PL_EXEC_STAMP_H */
