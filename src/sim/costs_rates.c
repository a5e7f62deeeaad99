#include "sim/costs_rates.h"

#include <stddef.h>

/* Shares of a data sheet's peak, in percent, that published kernels reach. */
enum {
    /* Dense fp8 products reach 1,550 of 1,979 TFLOP/s at their best
     * (DeepGEMM); a layer's mix of shapes, with quantisation and norms between
     * them, about three quarters of that. */
    PRODUCT_PERCENT = 60,
    /* Indexer logits: 1,126 of 1,979 at 16K keys (sglang issue 11989). */
    INDEX_PERCENT = 55,
    /* Sparse MLA, bf16: 640 of 989 prefill, 410 decode (FlashMLA). */
    ATTEND_PERCENT        = 60,
    ATTEND_DECODE_PERCENT = 41,
    /* A copy on an H200 runs at 4.3 of 4.8 TB/s. */
    MEMORY_PERCENT = 90,
    /* An all-gather over 8 GPUs without NVLink SHARP: 330 to 370 of 450 GB/s;
     * DeepEP within a node 726 of 900 (B200). */
    NVLINK_PERCENT = 80,
    /* 45 of 50 GB/s (DeepEP over RDMA: 43 to 58 with NVLink's share). */
    NETWORK_PERCENT = 90,
    /* 55 of 64 GB/s. */
    PCIE_PERCENT = 86,
};

/* Per microsecond; at least 1, so that it divides. */
static int64_t share(int64_t per_s, int64_t percent)
{
    int64_t rate = per_s / 1000000 * percent / 100;

    return rate > 1 ? rate : 1;
}

static int64_t either(int64_t measured, int64_t reckoned)
{
    return measured > 0 ? measured : reckoned;
}

/* What was measured wins. */
static void calibrate(const pl_costs_params_t *p, pl_cost_rates_t *rates)
{
    const pl_measured_t *m = p->measured;
    int64_t attend;

    if (m == NULL) {
        return;
    }
    attend         = p->kv_dtype == PL_KV_FP8 ? m->attend_fp8 : m->attend_bf16;
    rates->product = either(m->product, rates->product);
    rates->head    = either(m->product, rates->head);
    rates->expert  = either(m->expert, rates->expert);
    rates->index   = either(m->index, rates->index);
    rates->attend  = either(attend, rates->attend);
    rates->attend_decode = either(
        attend / ATTEND_PERCENT * ATTEND_DECODE_PERCENT, rates->attend_decode);
    rates->memory = either(m->memory, rates->memory);
    rates->near   = either(m->near, rates->near);
    rates->load   = either(m->load, rates->load);
    rates->backup = either(m->backup, rates->backup);
    rates->fetch  = either(m->fetch, rates->fetch);
    rates->store  = either(m->store, rates->store);
}

pl_cost_rates_t pl_cost_rates_of(const pl_costs_params_t *p)
{
    pl_costs_t builtin     = pl_costs_builtin();
    const pl_hardware_t *h = p->hardware;
    int64_t bf16           = h->bf16_dense_flop_per_s;
    /* Without an fp8 unit fp8 numbers are computed as bf16. */
    int64_t fp8 = h->fp8_dense_flop_per_s > 0 ? h->fp8_dense_flop_per_s : bf16;
    int64_t product       = p->weight_dtype == PL_F8_E4M3 ? fp8 : bf16;
    bool linked           = h->nvlink_bytes_per_s > 0;
    pl_cost_rates_t rates = {
        .product       = share(product, PRODUCT_PERCENT),
        .expert        = share(product, PRODUCT_PERCENT),
        .head          = share(bf16, PRODUCT_PERCENT),
        .index         = share(fp8, INDEX_PERCENT),
        .attend        = share(bf16, ATTEND_PERCENT),
        .attend_decode = share(bf16, ATTEND_DECODE_PERCENT),
        .memory        = share(h->memory_bandwidth_bytes_per_s, MEMORY_PERCENT),
        .network       = share(h->network_bytes_per_s, NETWORK_PERCENT),
        .load          = share(h->pcie_bytes_per_s, PCIE_PERCENT),
        .backup        = share(h->pcie_bytes_per_s, PCIE_PERCENT),
        .fetch         = builtin.link_bytes_per_us[PL_LINK_FETCH],
        .store         = builtin.link_bytes_per_us[PL_LINK_STORE],
    };

    rates.near =
        linked ? share(h->nvlink_bytes_per_s, NVLINK_PERCENT) : rates.load;
    calibrate(p, &rates);
    return rates;
}
