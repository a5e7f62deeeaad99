/* sim/costs.h - a cost table (clock/cost.h) of a model on some hardware.
 *
 * Each coefficient is FLOP over a rate or bytes over a bandwidth, both the
 * share of the data sheet's peak that good kernels reach; docs/sim.md has the
 * formulas, the sources of the shares, and what is left out.  Integers only:
 * the same on every machine.
 *
 * The layout reckoned with: C prefill ranks compute a zigzag share of each
 * chunk; D decode ranks (or the C, if D is 0) each decode requests of their
 * own.  All weights but the routed experts are on every rank; the experts are
 * spread over `ep` ranks, of prefill and of decode alike.
 */
#ifndef PL_SIM_COSTS_H
#define PL_SIM_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "attn/rows.h"
#include "clock/cost.h"
#include "model/config.h"
#include "model/weights.h"
#include "sim/calibrate.h"
#include "sim/hardware.h"

typedef struct pl_costs_params {
    const pl_model_config_t *model;
    const pl_hardware_t *hardware;
    const pl_measured_t *measured; /* wins over it; NULL: nothing was */
    int32_t n_prefill;             /* C */
    int32_t n_decode;              /* D */
    int32_t ep;                    /* 1 .. n_experts */
    bool replicated;               /* every prefill rank keeps all pages */
    bool ahead;                    /* see pl_costs_t */
    pl_kv_dtype_t kv_dtype;        /* of the cache */
    pl_dtype_t weight_dtype;       /* PL_BF16 or PL_F8_E4M3 */
} pl_costs_params_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_costs_derive(const pl_costs_params_t *params,
                                          pl_costs_t *costs_p);

#endif /* PL_SIM_COSTS_H */
