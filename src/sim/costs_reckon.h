/* sim/costs_reckon.h - the cost table before any measured prompt scales it. */
#ifndef PL_SIM_COSTS_RECKON_H
#define PL_SIM_COSTS_RECKON_H

#include "sim/costs.h"

/* By data sheets and by the rates in params->measured.  PL_OK, PL_ERR_MEMORY.
 */
PL_MUST_CHECK pl_status_t pl_costs_reckon(const pl_costs_params_t *params,
                                          pl_costs_t *costs_p);

#endif /* PL_SIM_COSTS_RECKON_H */
