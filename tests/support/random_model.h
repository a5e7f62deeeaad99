/* support/random_model.h - small random models of odd sizes, for laws. */
#ifndef PL_TESTS_RANDOM_MODEL_H
#define PL_TESTS_RANDOM_MODEL_H

#include "base/rng.h"
#include "model/config.h"
#include "model/weights.h"

/* Sizes, families, layer kinds and routing at random; every size may be odd
 * (the rope is even).  index_topk is small, so that selections matter. */
pl_model_config_t pl_test_config(pl_rng_t *rng);

/* Random weights; aborts if there is no memory. */
pl_weights_t *pl_test_weights(const pl_model_config_t *config, uint64_t seed);

#endif /* PL_TESTS_RANDOM_MODEL_H */
