/* sim/costs.h - a cost table (clock/cost.h) of a model on some hardware.
 *
 * Each coefficient is FLOP over a rate or bytes over a bandwidth, both the
 * share of the data sheet's peak that good kernels reach; docs/sim.md has the
 * formulas, the sources of the shares, and what is left out.  Integers only:
 * the same on every machine.
 *
 * The layout reckoned with: C prefill ranks compute a zigzag share of each
 * chunk; D decode homes (or the C ranks, if D is 0) each decode requests of
 * their own.  A home is decode_tp GPUs that split each product among them and
 * all keep the KV of all its requests.  The weights are on every rank, or home;
 * but the experts are spread over prefill_ep, or decode_ep, GPUs.
 */
#ifndef PL_SIM_COSTS_H
#define PL_SIM_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/layout.h>
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
    int32_t prefill_ep, decode_ep; /* GPUs; 1 .. n_experts */
    int32_t decode_tp;             /* GPUs of a home, >= 1; with D = 0: 1 */
    int32_t draft_tokens;          /* K of multi-token prediction; 0: none */
    bool draft_prompts; /* prompts go through the layer that drafts too, whose
                           KV the prefill ranks keep (K > 0) */
    pl_ownership_kind_t ownership; /* of the prefill ranks */
    int32_t page_tokens;           /* as the runtime has them */
    bool ahead;                    /* see pl_costs_t */
    pl_kv_dtype_t kv_dtype;        /* of the cache */
    pl_dtype_t weight_dtype;       /* PL_BF16 or PL_F8_E4M3 */
} pl_costs_params_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_costs_derive(const pl_costs_params_t *params,
                                          pl_costs_t *costs_p);

#endif /* PL_SIM_COSTS_H */
