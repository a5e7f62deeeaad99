/* model/transformer.h - the forward pass, layer by layer, over rows that lie
 * elsewhere.
 *
 * A pl_forward_t holds the hidden states of the tokens that are computed in one
 * step (a rank's share of a chunk, or the next token of a request).  Who drives
 * it does, for each layer in order: kv (rows to store), then, when all rows of
 * the request can be read, mix.  Positions need not be adjacent.  One forward
 * belongs to one thread; config and weights are borrowed and shared.
 */
#ifndef PL_MODEL_TRANSFORMER_H
#define PL_MODEL_TRANSFORMER_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "attn/attention.h"
#include "model/config.h"
#include "model/weights.h"

typedef struct pl_forward pl_forward_t; /* opaque */

/* For at most max_tokens at a time and requests of at most max_positions. */
PL_MUST_CHECK pl_status_t pl_forward_open(const pl_model_config_t *config,
                                          const pl_weights_t *weights,
                                          pl_kv_dtype_t dtype,
                                          const pl_log_t *log,
                                          pl_forward_t **forward_p);
void pl_forward_close(pl_forward_t *forward); /* NULL is allowed */

const pl_row_layout_t *pl_forward_rows(const pl_forward_t *forward);

/* Room for n tokens of requests of up to n_positions tokens.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_forward_reserve(pl_forward_t *forward, int32_t n,
                                             int32_t n_positions);

/* Start: hidden states = embeddings of tokens[i] at positions[i], n reserved.
 */
void pl_forward_begin(pl_forward_t *forward, const int32_t *tokens,
                      const int32_t *positions, int32_t n);

/* The KV of token i in this layer, as it is stored: latent row, and index key
 * and scale if the layer has an indexer (else they may be NULL).  The first
 * call for a layer computes them for all tokens. */
void pl_forward_kv(pl_forward_t *forward, int32_t layer, int32_t i,
                   uint8_t *latent, uint8_t *index_key, uint8_t *index_scale);

/* Attention and MLP of this layer for all tokens, over the request's rows.
 * `index` has no bytes on layers without an indexer; they reuse the selection
 * of the last layer that had one. */
void pl_forward_mix(pl_forward_t *forward, int32_t layer,
                    const pl_view_t *latent, const pl_view_t *index);

/* Logits of token i after the last layer: [vocab_size]. */
void pl_forward_logits(pl_forward_t *forward, int32_t i, float *logits);

/* The largest logit's token; the lowest id among equals. */
int32_t pl_greedy(const float *logits, int32_t n);

/* The positions token i selected in the last layer with an indexer that was
 * mixed: borrowed, ascending, until the next mix. */
const int32_t *pl_forward_selected(const pl_forward_t *forward, int32_t i,
                                   int32_t *n_p);
/* Called after each selection (for --expect): scores are of all n_keys. */
typedef void (*pl_selected_t)(void *context, int32_t layer, int32_t position,
                              const int32_t *positions, int32_t n,
                              const float *scores, int32_t n_keys);
void pl_forward_watch(pl_forward_t *forward, pl_selected_t selected,
                      void *context);

#endif /* PL_MODEL_TRANSFORMER_H */
