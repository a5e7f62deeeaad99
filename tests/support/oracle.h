/* support/oracle.h - checkpoints with prompts, and what Hugging Face
 * transformers computed from them: examples/glm-tiny, tests/data/dsv32-fp8, and
 * more where PAGELANE_SHARED (a folder with oracle/) is at hand. */
#ifndef PL_TESTS_ORACLE_H
#define PL_TESTS_ORACLE_H

#include <stdbool.h>

#include "model/config.h"
#include "model/safetensors.h"
#include "model/weights.h"

#define ORACLES        4
#define ORACLE_PROMPTS 16
#define ORACLE_TOKENS  4096 /* of a prompt */

typedef struct oracle {
    pl_model_config_t config;
    pl_weights_t *weights;
    pl_safetensors_t *expected;
    int32_t n_prompts;
    int32_t *prompts[ORACLE_PROMPTS];
    int32_t lengths[ORACLE_PROMPTS];
} oracle_t;

/* NULL: checkpoint i is not here (it says so).  Fails the test if it is and
 * cannot be read. */
oracle_t *oracle_open(int i);
void oracle_close(oracle_t *oracle);

/* WHAT_<prompt>, or WHAT_<prompt>_<layer> with layer >= 0; NULL: none. */
const pl_safetensor_t *oracle_find(const oracle_t *oracle, const char *what,
                                   int prompt, int layer);

#endif /* PL_TESTS_ORACLE_H */
