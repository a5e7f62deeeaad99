#include "clock/cost.h"

/* An 8 x H200 node with a 744-billion-parameter sparse model in fp8, in round
 * numbers.  The order of magnitude is what matters here: it decides which
 * completions fall into which tick. */
pl_costs_t pl_costs_builtin(void)
{
    pl_costs_t costs = {
        /* Launches and scheduling of one step. */
        .tick_ns = 2000000,
        /* About 4,000 prompt tokens a second and rank without context. */
        .prefill_token_ns = 250000,
        /* Indexer: a fifth more for 128K tokens of context. */
        .prefill_context_ps = 400000,
        /* Weights read once a step; then rows and experts per request. */
        .decode_step_ns    = 15000000,
        .decode_request_ns = 150000,
        .decode_context_ps = 500000,
        .link_latency_ns =
            {
                [PL_LINK_H2D]     = 20000,
                [PL_LINK_D2H]     = 20000,
                [PL_LINK_PD]      = 100000,
                [PL_LINK_OFFLOAD] = 20000,
                [PL_LINK_STORE]   = 200000,
                [PL_LINK_FETCH]   = 100000,
            },
        /* PCIe gen 5 x16 about 55 GB/s; a 400 Gb/s network card about 45; of
         * a node's NVMe disks a rank has about one: 6 GB/s read, 3 written. */
        .link_bytes_per_us =
            {
                [PL_LINK_H2D]     = 55000,
                [PL_LINK_D2H]     = 55000,
                [PL_LINK_PD]      = 45000,
                [PL_LINK_OFFLOAD] = 55000,
                [PL_LINK_STORE]   = 3000,
                [PL_LINK_FETCH]   = 6000,
            },
    };

    return costs;
}

int64_t pl_cost_chunk_ns(const pl_costs_t *costs, int n_ranks, int32_t n_before,
                         int32_t n_tokens)
{
    /* The busiest rank; context in the middle of the chunk. */
    int64_t share    = (n_tokens + n_ranks - 1) / n_ranks;
    int64_t context  = (int64_t)n_before + n_tokens / 2;
    int64_t token_ns = costs->prefill_token_ns +
                       costs->prefill_context_ps * context / 1024 / 1000;

    return costs->tick_ns + share * token_ns;
}

int64_t pl_cost_decode_ns(const pl_costs_t *costs, int32_t n_running,
                          int64_t context_tokens)
{
    if (n_running == 0) {
        return 0;
    }
    return costs->tick_ns + costs->decode_step_ns +
           n_running * costs->decode_request_ns +
           costs->decode_context_ps * (context_tokens / 1024) / 1000;
}

int64_t pl_cost_link_ns(const pl_costs_t *costs, pl_link_t link, int64_t bytes)
{
    return costs->link_latency_ns[link] +
           bytes * 1000 / costs->link_bytes_per_us[link];
}
