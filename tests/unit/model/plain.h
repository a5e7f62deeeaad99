/* The forward pass once more, written down plainly: double precision, keys and
 * values expanded per head, every prompt at once, nothing shared with the code
 * under test but the weights. */
#ifndef PL_TESTS_PLAIN_H
#define PL_TESTS_PLAIN_H

#include "model/config.h"
#include "model/weights.h"

/* logits [n][vocab_size] of all positions; the caller frees. */
double *plain_logits(const pl_model_config_t *config,
                     const pl_weights_t *weights, const int32_t *tokens,
                     int32_t n);

#endif /* PL_TESTS_PLAIN_H */
