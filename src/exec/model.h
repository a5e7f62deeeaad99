/* exec/model.h - a compute that is a real transformer (model/transformer.h).
 *
 * Each prefill rank computes the tokens of its own pages and reads all rows of
 * the request from their stored form; a decode step is the same forward pass of
 * one token over the decode pool.  So the rows and tokens of a request are the
 * same for every number of ranks, chunk and page size.
 */
#ifndef PL_EXEC_MODEL_H
#define PL_EXEC_MODEL_H

#include <pagelane/log.h>

#include "attn/rows.h"
#include "exec/compute.h"
#include "model/config.h"
#include "model/transformer.h"
#include "model/weights.h"

/* Whoever compares a run with a reference.  Each function may be NULL; they are
 * called on the thread of the rank that computes, and see rows that are
 * computed: not what a hit gave, and twice what is computed twice. */
typedef struct pl_model_observer {
    void *context;
    /* After the last token of a prompt, n_prompt of them: logits [n]. */
    void (*logits)(void *context, int32_t request, int32_t n_prompt,
                   const float *logits, int32_t n);
    /* The positions (ascending) that a prompt's token keeps in a layer with an
     * indexer, and the scores of all its keys. */
    void (*selected)(void *context, int32_t request, int32_t layer,
                     int32_t position, const int32_t *positions, int32_t n,
                     const float *scores, int32_t n_keys);
} pl_model_observer_t;

typedef struct pl_model_params {
    const pl_model_config_t *config; /* borrowed, as are: */
    const pl_weights_t *weights;     /* shared by all ranks' threads */
    pl_device_t *device;             /* where the rows are */
    /* open NULL: the host's forward, whose device must be addressable.  The
     * compute is on_device if it has one. */
    pl_forward_source_t forward;
    pl_kv_dtype_t kv_dtype;
    int32_t page_tokens;
    int32_t max_tokens;       /* of any request, prompt and output */
    pl_token_reader_t tokens; /* borrowed */
    pl_model_observer_t observer;
    const pl_log_t *log;
} pl_model_params_t;

/* How pages of the model lie: rows by dtype, index arrays only where the layer
 * has an indexer.  n_slots is 0; borrows the config. */
pl_store_layout_t pl_model_layout(const pl_model_config_t *config,
                                  pl_kv_dtype_t kv_dtype, int32_t page_tokens);

/* PL_OK, PL_ERR_MEMORY; PL_ERR_ARGUMENT with one line: no forward for this
 * device; what the source says. */
PL_MUST_CHECK pl_status_t pl_model_open(const pl_model_params_t *params,
                                        pl_compute_t **compute_p);

#endif /* PL_EXEC_MODEL_H */
