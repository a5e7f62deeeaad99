/* sim/costs_rates.h - how fast the parts of a step work on some hardware. */
#ifndef PL_SIM_COSTS_RATES_H
#define PL_SIM_COSTS_RATES_H

#include <stdint.h>

#include "sim/costs.h"

/* FLOP or bytes per microsecond, each at least 1. */
typedef struct pl_cost_rates {
    int64_t product, expert, head, index, attend, attend_decode; /* FLOP */
    int64_t memory, near, network, load, backup, fetch, store;   /* bytes */
} pl_cost_rates_t;

/* Shares of the data sheet's peaks; what was measured wins.  Storage is that of
 * the builtin table: hardware files say nothing of it. */
pl_cost_rates_t pl_cost_rates_of(const pl_costs_params_t *params);

#endif /* PL_SIM_COSTS_RATES_H */
