/* unit/sim/costs_rig.h - a model on some hardware, to derive tables of. */
#ifndef PL_TEST_COSTS_RIG_H
#define PL_TEST_COSTS_RIG_H

#include "sim/costs.h"
#include "sim/presets.h"
#include "support/check_main.h"

typedef struct rig {
    pl_model_config_t model;
    pl_hardware_t hardware;
    pl_costs_params_t params;
} rig_t;

static rig_t RIG; /* too large for the stack of a test */

/* C ranks that decode too, experts over as many, fp8. */
static inline void prepare(const char *model, const char *hardware, int32_t cp)
{
    const pl_preset_t *m = pl_preset_find(PL_PRESET_MODEL, model);
    const pl_preset_t *h = pl_preset_find(PL_PRESET_HARDWARE, hardware);

    ck_assert(m != NULL && h != NULL);
    ck_assert_int_eq(pl_model_config_parse(m->name, (const char *)m->text,
                                           m->n_bytes, NULL, &RIG.model),
                     PL_OK);
    ck_assert_int_eq(pl_hardware_parse(h->name, (const char *)h->text,
                                       h->n_bytes, NULL, &RIG.hardware),
                     PL_OK);
    RIG.params = (pl_costs_params_t){.model        = &RIG.model,
                                     .hardware     = &RIG.hardware,
                                     .n_prefill    = cp,
                                     .prefill_ep   = cp,
                                     .decode_ep    = cp,
                                     .decode_tp    = 1,
                                     .kv_dtype     = PL_KV_FP8,
                                     .weight_dtype = PL_F8_E4M3};
}

static inline void spread_over(int32_t ep)
{
    RIG.params.prefill_ep = ep;
    RIG.params.decode_ep  = ep;
}

static inline pl_costs_t derive(void)
{
    pl_costs_t costs;

    ck_assert_int_eq(pl_costs_derive(&RIG.params, &costs), PL_OK);
    return costs;
}

static inline double seconds(const pl_costs_t *costs, int32_t tokens)
{
    return 1e-9 * (double)pl_cost_prompt_ns(costs, RIG.params.n_prefill, 8192,
                                            0, tokens);
}

#define WITHIN(value, published, factor)                                       \
    do {                                                                       \
        ck_assert_double_le((value), (published) * (factor));                  \
        ck_assert_double_ge((value), (published) / (factor));                  \
    } while (0)

static inline int64_t part_of(pl_cost_part_t part, int32_t before, int32_t n)
{
    pl_costs_t costs = derive();
    int64_t parts[PL_COST_PARTS];

    (void)pl_cost_chunk_ns(&costs, RIG.params.n_prefill, before, n, parts);
    return parts[part];
}

static inline int64_t decode_part(pl_cost_part_t part, int32_t n,
                                  int32_t context)
{
    pl_costs_t costs = derive();
    int64_t parts[PL_COST_PARTS];

    (void)pl_cost_decode_ns(&costs, n, (int64_t)n * context, parts);
    return parts[part];
}

#endif /* PL_TEST_COSTS_RIG_H */
