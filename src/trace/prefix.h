/* trace/prefix.h - what identifies a prompt up to the end of one of its blocks,
 * for counting.  Equal keys of one trace mean equal tokens up to there. */
#ifndef PL_TRACE_PREFIX_H
#define PL_TRACE_PREFIX_H

#include "trace/internal.h"

pl_page_key_t pl_prefix_start(const pl_request_t *request);
pl_page_key_t pl_prefix_chain(pl_page_key_t before, pl_page_key_t key);

/* Tokens of a block of request i: what its ids stand for, or page_tokens where
 * it has tokens. */
int32_t pl_prefix_block_tokens(const pl_trace_t *trace, int32_t i,
                               int32_t page_tokens);

/* The prefix that ends with block k (the last one may be partial), `before`
 * being the one that ends before it. */
pl_page_key_t pl_prefix_block(const pl_trace_t *trace, int32_t i,
                              int32_t page_tokens, int32_t k,
                              pl_page_key_t before);

#endif /* PL_TRACE_PREFIX_H */
