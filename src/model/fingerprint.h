/* model/fingerprint.h - do two models make the same KV rows?
 *
 * A hash over what the config says of the computation, and over every tensor:
 * its type, shape and samples of its bytes.  A tensor of an expert gives one
 * sample of 64 bytes from its middle, any other one eight that are spread over
 * it, so that a few megabytes are hashed whatever the model's size; two
 * checkpoints that differ in bytes that no sample meets look the same.  Where
 * the file lies, and the length that the model was made for, do not count.
 *
 * A pure function; the same on every machine.
 */
#ifndef PL_MODEL_FINGERPRINT_H
#define PL_MODEL_FINGERPRINT_H

#include <stdint.h>

#include "model/config.h"
#include "model/weights.h"

uint64_t pl_model_fingerprint(const pl_model_config_t *config,
                              const pl_weights_t *weights);

#endif /* PL_MODEL_FINGERPRINT_H */
