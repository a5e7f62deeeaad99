/* model/transformer.h - the forward pass, layer by layer, over rows that lie
 * elsewhere.
 *
 * A pl_forward_t holds the hidden states of the tokens that are computed in one
 * step (a rank's share of a chunk, or the next token of a request).  Who drives
 * it does, for each layer in order: store (rows into pages), then, when all
 * rows of the request can be read, mix.  Positions need not be adjacent.  One
 * forward belongs to one thread; config and weights are borrowed and shared.
 *
 *   the host's   model/transformer.c, the reference
 *   a GPU's      kernels/forward.cu: pages are device memory, and all is queued
 *                on PL_STREAM_COMPUTE of its device, but for what is returned
 */
#ifndef PL_MODEL_TRANSFORMER_H
#define PL_MODEL_TRANSFORMER_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "attn/attention.h"
#include "device/device.h"
#include "model/config.h"
#include "model/weights.h"

typedef struct pl_forward pl_forward_t;

/* One layer of one store: pages of that form, slot s at pages + s * stride. */
typedef struct pl_forward_pages {
    uint8_t *pages; /* NULL: the layer has no such store */
    size_t stride;
    pl_page_form_t form;
} pl_forward_pages_t;

/* Called after each selection (for --expect): scores are of all n_keys; host
 * memory. */
typedef void (*pl_selected_t)(void *context, int32_t layer, int32_t position,
                              const int32_t *positions, int32_t n,
                              const float *scores, int32_t n_keys);

typedef struct pl_forward_ops {
    /* Room for n tokens of requests of up to n_positions tokens.
     * PL_ERR_MEMORY. */
    pl_status_t (*reserve)(pl_forward_t *self, int32_t n, int32_t n_positions);
    /* Start: hidden states = embeddings of tokens[i] at positions[i], n
     * reserved; both are host memory, not kept. */
    pl_status_t (*begin)(pl_forward_t *self, const int32_t *tokens,
                         const int32_t *positions, int32_t n);
    /* Store the KV of tokens first .. first + n - 1 of the step in this layer:
     * token first + i becomes row rows[i] % P of the page in slot rows[i] / P;
     * rows is host memory, not kept.  The first call for a layer computes them
     * for all tokens.  index->pages is NULL if the layer has no indexer. */
    pl_status_t (*store)(pl_forward_t *self, int32_t layer, int32_t first,
                         int32_t n, const int32_t *rows,
                         const pl_forward_pages_t *latent,
                         const pl_forward_pages_t *index);
    /* Attention and MLP of this layer for all tokens, over the request's rows.
     * view->rows is host memory, not kept.  `index` has no bytes on layers
     * without an indexer; they reuse the selection of the last layer that had
     * one. */
    pl_status_t (*mix)(pl_forward_t *self, int32_t layer,
                       const pl_view_t *latent, const pl_view_t *index);
    /* After the last layer: the greedy token of token i, and unless it is NULL
     * logits[vocab_size] (host memory).  The host waits. */
    pl_status_t (*end)(pl_forward_t *self, int32_t i, float *logits,
                       int32_t *token_p);
    /* From now on; NULL: nobody.  Makes a GPU's forward wait in every layer. */
    void (*watch)(pl_forward_t *self, pl_selected_t selected, void *context);
    void (*close)(pl_forward_t *self);
} pl_forward_ops_t;

struct pl_forward {
    const pl_forward_ops_t *ops; /* first member of every forward */
};

/* How a run opens the forward of one of its ranks. */
typedef struct pl_forward_source {
    pl_status_t (*open)(void *context, pl_device_t *device,
                        const pl_model_config_t *config,
                        const pl_weights_t *weights, pl_kv_dtype_t dtype,
                        const pl_log_t *log, pl_forward_t **forward_p);
    void *context;
} pl_forward_source_t;

/* The host's. */
PL_MUST_CHECK pl_status_t pl_forward_open(const pl_model_config_t *config,
                                          const pl_weights_t *weights,
                                          pl_kv_dtype_t dtype,
                                          const pl_log_t *log,
                                          pl_forward_t **forward_p);
void pl_forward_close(pl_forward_t *forward); /* NULL is allowed */

/* The largest logit's token; the lowest id among equals. */
int32_t pl_greedy(const float *logits, int32_t n);

#endif /* PL_MODEL_TRANSFORMER_H */
