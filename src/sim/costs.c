#include "sim/costs.h"

#include <string.h>

#include "model/census.h"
#include "sim/costs_rates.h"
#include "sim/costs_reckon.h"

/* What does not depend on sizes, ns. */
enum {
    /* What a kernel takes beside the bytes and FLOP reckoned elsewhere: to
     * start in a graph, to fill the GPU and to drain it.  aiconfigurator,
     * modules of vLLM 0.20 on an H200, at most 8 rows: attention of DeepSeek-V3
     * without its bytes 58 to 96 us of 16 kernels, the indexer on top of it 66
     * to 85 of 16 (campaign_checkpoints/h200_sxm, *_generation_module_perf). */
    KERNEL_NS = 4000,
    /* The scheduler's own part of a step, as in the builtin table; and a guess
     * of what is left of it where the host prepares a step during the one
     * before (it saved 6 of 39 ms; LMSYS, 2025-07-17). */
    SCHEDULE_NS        = 2000000,
    SCHEDULE_DECODE_NS = 1000000,
    /* A small collective; NCCL: 10 to 15 us. */
    COLLECTIVE_NS = 10000,
    /* A sum in one go, each GPU reading all others' values: 4.7 us for up to
     * 2 KB, 6.5 for 32, 8.0 for 64 (aiconfigurator, vLLM 0.20 on 8 H200, in a
     * graph), which is this share of what long transfers reach. */
    QUICK_SUM_NS      = 4700,
    QUICK_SUM_PERCENT = 40,
    /* One way of an exchange, or of a sum, over nodes: what DeepEP's
     * low-latency kernels take beyond the bytes at their rate (its table for
     * H800, 8 to 256 ranks; within a node the same). */
    EXCHANGE_NS = 33000,
    /* Top-k of few rows is bound by one block a row: 5 us at 4K, 41 us at 64K
     * (flashinfer pull request 2461). */
    TOPK_DECODE_NS = 15000,
    /* The scores, float32, are read twice: histogram and collection. */
    TOPK_BYTES = 8,
    K          = 1024,
};

/* Kernels of a layer, as profiles of engines show them (deepseek-ai/
 * profile-data, decode): products and what lies between them. */
enum {
    /* 3 norms, 3 quantisations, down to the latents, up to q, absorb, rope,
     * store, attention and its combination, v, o, residual */
    ATTENTION_KERNELS = 16,
    /* 3 products, norm, 2 ropes, 2 Hadamard, 2 quantisations, store, weights,
     * schedule, logits, top-k, slots of what was chosen */
    INDEXER_KERNELS = 16,
    /* norm, router, its reduction, choice, 2 to sort, 2 quantisations, 2
     * products, sum; shared: 2 products, activation, sum */
    EXPERT_KERNELS = 15,
    DENSE_KERNELS  = 5, /* norm, 2 quantisations, 2 products */
};

typedef struct deriving {
    const pl_costs_params_t *p;
    pl_cost_rates_t rates;
    pl_census_t census;
    int64_t n_layers, n_full, n_sparse;
    int64_t draft_layers;  /* that prompts go through, besides */
    int64_t rows;          /* of a request in a decode step */
    int64_t latent, index; /* bytes of a token in one layer */
    pl_costs_t costs;
} deriving_t;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What `amount` FLOP or bytes take, in ps (up to 2^43 of them). */
static int64_t ps(int64_t amount, int64_t per_us)
{
    return amount * 1000 / per_us * 1000 +
           amount * 1000 % per_us * 1000 / per_us;
}

static int64_t ns(int64_t amount, int64_t per_us)
{
    return amount * 1000 / per_us;
}

/* The longer of both ways out: to ranks of the node, and of others. */
static int64_t apart_ps(const deriving_t *d, int64_t near, int64_t far)
{
    return larger(ps(near, d->rates.near), ps(far, d->rates.network));
}

/* Of n ranks, those of a node. */
static int64_t near_ranks(const deriving_t *d, int64_t n)
{
    return smaller(n, d->p->hardware->devices_per_node);
}

/* ---- parts ---- */

/* The indexer's kernels run even where there is nothing to choose. */
static int64_t launches_ns(const deriving_t *d)
{
    int64_t kernels = ATTENTION_KERNELS * d->n_layers +
                      INDEXER_KERNELS * d->n_full +
                      EXPERT_KERNELS * d->n_sparse +
                      DENSE_KERNELS * (d->n_layers - d->n_sparse);

    return d->p->hardware->is_gpu ? KERNEL_NS * kernels : 0;
}

static void add_launches(deriving_t *d)
{
    int64_t kernels = launches_ns(d);

    d->costs.prefill[PL_COST_LAUNCH].step_ns = SCHEDULE_NS + kernels;
    d->costs.decode[PL_COST_LAUNCH].step_ns  = SCHEDULE_DECODE_NS + kernels;
}

/* Every matrix that every row goes through: two FLOP a parameter, or its bytes
 * read once.  MLA's kv_b is absorbed, which is as many FLOP.  Of a prompt one
 * row goes through the head, in decode each. */
static pl_cost_rate_t projections(const deriving_t *d, int32_t tp,
                                  int64_t head_rows)
{
    static const pl_part_t PARTS[] = {PL_PART_ATTENTION, PL_PART_INDEXER,
                                      PL_PART_SHARED, PL_PART_LAYER,
                                      PL_PART_MTP};
    int64_t head =
        (int64_t)d->p->model->vocab_size * (int64_t)d->p->model->hidden / tp;
    int64_t parameters = 0;
    int64_t bytes      = 2 * head;

    for (size_t i = 0; i < sizeof(PARTS) / sizeof(*PARTS); i++) {
        parameters += pl_census_parameters(&d->census, PARTS[i], tp);
        bytes += pl_census_bytes(&d->census, PARTS[i], tp);
    }
    return (pl_cost_rate_t){.floor_ns = ns(bytes, d->rates.memory),
                            .row_ps   = ps(2 * parameters, d->rates.product) +
                                      ps(2 * head_rows * head, d->rates.head)};
}

static void add_projections(deriving_t *d)
{
    d->costs.prefill[PL_COST_PROJECT] = projections(d, 1, 0);
    d->costs.decode[PL_COST_PROJECT]  = projections(d, d->p->decode_tp, 1);
}

/* 2 * index_heads * index_dim FLOP a key, on full layers; in decode a request's
 * keys are read for its rows alone, once for all.  Each GPU of a home does all
 * of it. */
static void add_indexer(deriving_t *d)
{
    const pl_model_config_t *m = d->p->model;
    int64_t flop    = 2 * K * d->n_full * m->index_heads * m->index_dim;
    int64_t compute = ps(flop, d->rates.index);
    int64_t read    = ps(K * d->n_full * d->index, d->rates.memory) / d->rows;

    d->costs.prefill[PL_COST_INDEX].context_ps = compute;
    d->costs.decode[PL_COST_INDEX].context_ps  = larger(compute, read);
}

static void add_topk(deriving_t *d)
{
    int64_t once = d->p->measured == NULL ? 0 : d->p->measured->topk_ps;
    int64_t read =
        d->n_full * (once > 0 ? once : ps(K * TOPK_BYTES, d->rates.memory));

    d->costs.topk                             = d->p->model->index_topk;
    d->costs.prefill[PL_COST_TOPK].context_ps = read;
    d->costs.decode[PL_COST_TOPK].context_ps  = read;
    d->costs.decode[PL_COST_TOPK].step_ns     = d->n_full * TOPK_DECODE_NS;
}

/* Absorbed MLA: scores over latent and rope, output over latent.  GPUs of a
 * home split the heads, and each reads the latents. */
static void add_attention(deriving_t *d)
{
    const pl_model_config_t *m = d->p->model;
    int64_t flop =
        2 * K * (2 * (int64_t)m->kv_lora + m->rope) * m->n_heads * d->n_layers;
    int64_t read = ps(K * d->n_layers * d->latent, d->rates.memory);

    d->costs.prefill[PL_COST_ATTEND].key_ps = ps(flop, d->rates.attend);
    d->costs.decode[PL_COST_ATTEND].key_ps =
        larger(ps(flop / d->p->decode_tp, d->rates.attend_decode), read);
}

/* A row goes through experts_per_token of them, wherever they are: with as many
 * rows on each rank, each computes as many.  The rows of a home are shared out
 * to its GPUs. */
static pl_cost_rate_t experts(const deriving_t *d, int32_t ep, int32_t tp)
{
    const pl_model_config_t *m = d->p->model;
    int64_t here               = (m->n_experts + ep - 1) / ep;

    return (pl_cost_rate_t){
        .floor_ns = ns(d->census.bytes[PL_PART_EXPERTS] / m->n_experts * here,
                       d->rates.memory),
        .row_ps =
            ps(2 * (d->census.parameters[PL_PART_EXPERTS] / m->n_experts) *
                   m->experts_per_token / tp,
               d->rates.expert)};
}

static void add_experts(deriving_t *d)
{
    const pl_costs_params_t *p = d->p;

    if (d->n_sparse == 0) {
        return;
    }
    d->costs.prefill[PL_COST_EXPERT] = experts(d, p->prefill_ep, 1);
    d->costs.decode[PL_COST_EXPERT]  = experts(d, p->decode_ep, p->decode_tp);
    d->costs.n_experts               = p->model->n_experts;
    d->costs.row_experts             = p->model->experts_per_token;
    d->costs.prefill_ep              = p->prefill_ep;
    d->costs.decode_ep               = p->decode_ep;
    d->costs.decode_tp               = p->decode_tp;
}

/* `bytes` to each of n places that a row's experts are in. */
static int64_t chosen(int64_t bytes, int64_t n_places, int64_t n_others,
                      int64_t per_row)
{
    return (bytes * n_others * (pl_cost_taken(n_places, 1, per_row) >> 12)) >>
           20;
}

/* A row goes to the ranks that have its experts, and comes back in bf16.  A
 * prompt's goes once to each rank, comes back summed, and to other nodes goes
 * once a node and is handed on there; decode's, which cannot wait, once for
 * each expert (the two kinds of kernel that DeepEP has). */
static pl_cost_rate_t exchange(const deriving_t *d, int64_t ep, bool in_decode)
{
    const pl_model_config_t *m = d->p->model;
    int64_t near               = near_ranks(d, ep);
    int64_t nodes              = (ep + near - 1) / near;
    int64_t sent               = d->p->weight_dtype == PL_F8_E4M3 ? 1 : 2;
    int64_t bytes              = d->n_sparse * m->hidden * (sent + 2);
    int64_t k                  = m->experts_per_token;
    int64_t row_ps             = apart_ps(d, chosen(bytes, ep, near - 1, k),
                                          chosen(bytes, nodes, nodes - 1, k));

    if (in_decode) {
        row_ps = apart_ps(d, bytes * k * (near - 1) / ep,
                          bytes * k * (ep - near) / ep);
    }
    return (pl_cost_rate_t){.step_ns = d->n_sparse * 2 * EXCHANGE_NS,
                            .row_ps  = row_ps};
}

/* A GPU of a home sends its share of the home's rows.  Where the home has all
 * the experts, all its GPUs have the rows already, and the sum over it is the
 * way back. */
static void add_exchange(deriving_t *d)
{
    const pl_costs_params_t *p = d->p;

    if (d->n_sparse == 0) {
        return;
    }
    if (p->prefill_ep > 1) {
        d->costs.prefill[PL_COST_EXCHANGE] = exchange(d, p->prefill_ep, false);
    }
    if (p->decode_ep > p->decode_tp) {
        d->costs.decode[PL_COST_EXCHANGE] = exchange(d, p->decode_ep, true);
        d->costs.decode[PL_COST_EXCHANGE].row_ps /= p->decode_tp;
    }
}

/* Two sums of all rows, in bf16, a layer: behind attention and behind the MLP.
 * A GPU sends its share of a row's values to be summed and then the sums.  Over
 * nodes that is three steps: sums within each, of these between nodes, and
 * back.  Within a node few rows are summed in one go, by all. */
static void add_reduce(deriving_t *d)
{
    int64_t tp    = d->p->decode_tp;
    int64_t near  = near_ranks(d, tp);
    int64_t nodes = (tp + near - 1) / near;
    int64_t step  = nodes > 1 ? 2 * COLLECTIVE_NS + EXCHANGE_NS : COLLECTIVE_NS;
    int64_t sums  = 2 * d->n_layers;
    int64_t sent  = sums * 2 * 2 * d->p->model->hidden; /* there and back */

    if (tp == 1) {
        return;
    }
    d->costs.decode[PL_COST_REDUCE] = (pl_cost_rate_t){
        .step_ns = sums * step,
        .row_ps  = ps(sent * (near - 1) / near, d->rates.near) +
                  ps(sent * (nodes - 1) / (nodes * near), d->rates.network)};
    if (nodes == 1) {
        d->costs.decode[PL_COST_REDUCE].quick_ns = sums * QUICK_SUM_NS;
        d->costs.decode[PL_COST_REDUCE].quick_ps =
            ps(sent / 2 * (tp - 1),
               larger(d->rates.near * QUICK_SUM_PERCENT / 100, 1));
    }
}

/* Of each token of the request a rank receives what others own, in every layer,
 * for every chunk anew; where all keep all, the tokens of the chunk alone.
 * Where a rank keeps a layer of all pages: these (the keeper is one of those
 * who get them), and what was there before from the keeper.  All of that leaves
 * one rank, so a layer takes its bytes over one link at least; a chain or tree
 * whose ranks hand on pieces as they come takes no longer, and is as slow as
 * its slowest link. */
static void add_materialize(deriving_t *d)
{
    pl_cost_rate_t *rate = &d->costs.prefill[PL_COST_MATERIALIZE];
    int64_t c            = d->p->n_prefill;
    int64_t near         = near_ranks(d, c);
    int64_t layers       = d->n_layers + d->draft_layers;
    int64_t full         = d->n_full + d->draft_layers;
    int64_t token        = layers * d->latent + full * d->index;
    int64_t step         = (layers + full) * COLLECTIVE_NS;
    /* c rows a row: the others' of the chunk are as many each. */
    int64_t row_ps = apart_ps(d, token * (near - 1), token * (c - near));

    if (c == 1) {
        return;
    }
    if (d->p->ownership == PL_OWNERSHIP_REPLICATED) {
        *rate = (pl_cost_rate_t){.step_ns = step, .row_ps = row_ps};
    } else if (d->p->ownership == PL_OWNERSHIP_LAYER) {
        *rate = (pl_cost_rate_t){
            .step_ns   = 2 * step,
            .row_ps    = row_ps,
            .before_ps = apart_ps(d, K * token, c > near ? K * token : 0)};
    } else {
        *rate =
            (pl_cost_rate_t){.step_ns = step,
                             .view_ps = apart_ps(d, K * token * (near - 1) / c,
                                                 K * token * (c - near) / c)};
    }
    d->costs.ahead_layers = d->p->ahead ? (int32_t)layers : 0;
}

/* Latencies are those of the builtin table. */
static void set_links(deriving_t *d)
{
    int64_t *rate = d->costs.link_bytes_per_us;

    rate[PL_LINK_H2D]     = d->rates.load;
    rate[PL_LINK_D2H]     = d->rates.backup;
    rate[PL_LINK_OFFLOAD] = d->rates.backup;
    rate[PL_LINK_FETCH]   = d->rates.fetch;
    rate[PL_LINK_STORE]   = d->rates.store;
    /* Ranks that decode themselves are reached within the group. */
    rate[PL_LINK_PD] =
        (d->p->n_decode == 0) &&
                (near_ranks(d, d->p->n_prefill) == d->p->n_prefill)
            ? d->rates.near
            : d->rates.network;
    d->costs.pd_shares = true;
}

static void add_parts(deriving_t *d)
{
    add_launches(d);
    add_projections(d);
    add_indexer(d);
    add_topk(d);
    add_attention(d);
    add_experts(d);
    add_exchange(d);
    add_reduce(d);
    add_materialize(d);
}

/* What the layer of multi-token prediction has and the model without it has
 * not. */
static pl_status_t count_draft(const deriving_t *d, pl_census_t *census)
{
    PL_TRY(pl_model_census(d->p->model, 1, d->p->weight_dtype, census));
    for (int i = 0; i < PL_PARTS; i++) {
        census->parameters[i] -= d->census.parameters[i];
        census->bytes[i] -= d->census.bytes[i];
        census->split_parameters[i] -= d->census.split_parameters[i];
        census->split_bytes[i] -= d->census.split_bytes[i];
    }
    return PL_OK;
}

/* A pass is a decode step of a model of that one layer, which has an indexer
 * and experts of its own, with the model's head; a prompt's is a chunk of that
 * model, whose views are made with all others. */
static pl_status_t add_draft(deriving_t *d)
{
    deriving_t draft = {.p        = d->p,
                        .rates    = d->rates,
                        .n_layers = 1,
                        .n_full   = 1,
                        .n_sparse = d->p->model->n_experts > 0 ? 1 : 0,
                        .rows     = 1,
                        .latent   = d->latent,
                        .index    = d->index};

    if (d->p->draft_tokens == 0) {
        return PL_OK;
    }
    PL_TRY(count_draft(d, &draft.census));
    add_parts(&draft);
    draft.costs.decode[PL_COST_LAUNCH].step_ns  = launches_ns(&draft);
    draft.costs.prefill[PL_COST_LAUNCH].step_ns = launches_ns(&draft);
    draft.costs.prefill[PL_COST_MATERIALIZE]    = (pl_cost_rate_t){0};
    memcpy(d->costs.draft, draft.costs.decode, sizeof(d->costs.draft));
    if (d->draft_layers > 0) {
        memcpy(d->costs.draft_prompt, draft.costs.prefill,
               sizeof(d->costs.draft_prompt));
    }
    d->costs.draft_tokens = d->p->draft_tokens;
    return PL_OK;
}

pl_status_t pl_costs_reckon(const pl_costs_params_t *params,
                            pl_costs_t *costs_p)
{
    const pl_model_config_t *m = params->model;
    pl_costs_t builtin         = pl_costs_builtin();
    deriving_t d               = {.p            = params,
                                  .rates        = pl_cost_rates_of(params),
                                  .n_layers     = m->n_layers,
                                  .rows         = 1 + (int64_t)params->draft_tokens,
                                  .draft_layers = params->draft_prompts ? 1 : 0};
    pl_row_layout_t row =
        pl_row_layout_make(params->kv_dtype, m->kv_lora, m->rope, m->index_dim);

    PL_TRY(pl_model_census(m, 0, params->weight_dtype, &d.census));
    d.latent = row.latent_bytes;
    d.index  = row.index_key_bytes + row.index_scale_bytes;
    for (int32_t i = 0; i < m->n_layers; i++) {
        d.n_full += m->full_indexer[i] ? 1 : 0;
        d.n_sparse += m->sparse_mlp[i] ? 1 : 0;
    }
    for (int i = 0; i < PL_LINKS; i++) {
        d.costs.link_latency_ns[i] = builtin.link_latency_ns[i];
    }
    add_parts(&d);
    PL_TRY(add_draft(&d));
    set_links(&d);
    *costs_p = d.costs;
    return PL_OK;
}
