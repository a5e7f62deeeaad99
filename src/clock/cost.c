#include "clock/cost.h"

#include <stddef.h>

#define ONE (UINT64_C(1) << 32) /* of pl_cost_taken */

/* Of a nanosecond, and of one for each 1,024 tokens. */
enum { PS = 1000, K_PS = 1024 * PS };

const char *pl_cost_part_text(pl_cost_part_t part)
{
    static const char *const TEXTS[PL_COST_PARTS] = {
#define PL_COST_TEXT(name, text, words) [name] = text,
        PL_COST_LIST(PL_COST_TEXT)
#undef PL_COST_TEXT
    };

    return TEXTS[part];
}

const char *pl_cost_part_words(pl_cost_part_t part)
{
    static const char *const WORDS[PL_COST_PARTS] = {
#define PL_COST_WORDS(name, text, words) [name] = words,
        PL_COST_LIST(PL_COST_WORDS)
#undef PL_COST_WORDS
    };

    return WORDS[part];
}

const char *pl_link_text(pl_link_t link)
{
    static const char *const TEXTS[PL_LINKS] = {
        [PL_LINK_H2D] = "h2d",     [PL_LINK_D2H] = "d2h",
        [PL_LINK_PD] = "pd",       [PL_LINK_OFFLOAD] = "offload",
        [PL_LINK_STORE] = "store", [PL_LINK_FETCH] = "fetch",
    };

    return TEXTS[link];
}

/* An 8 x H200 node with a 744-billion-parameter sparse model in fp8, in round
 * numbers.  The order of magnitude is what matters here: it decides which
 * completions fall into which tick. */
pl_costs_t pl_costs_builtin(void)
{
    pl_costs_t costs = {
        .prefill =
            {
                /* Launches and scheduling of one step. */
                [PL_COST_LAUNCH] = {.step_ns = 2000000},
                /* About 4,000 prompt tokens a second and rank without context,
                 * experts and attention included. */
                [PL_COST_PROJECT] = {.row_ps = 250000000},
                /* A fifth more for 128K tokens of context. */
                [PL_COST_INDEX] = {.context_ps = 400000},
            },
        .decode =
            {
                [PL_COST_LAUNCH] = {.step_ns = 2000000},
                /* Weights read once a step; then rows and experts per request.
                 */
                [PL_COST_PROJECT] = {.step_ns = 15000000, .row_ps = 150000000},
                [PL_COST_INDEX]   = {.context_ps = 500000},
            },
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

/* ---- a step ---- */

/* What a step has to do on its busiest rank. */
typedef struct load {
    int64_t rows;
    int64_t expert_rows;  /* of all GPUs that share the experts */
    int64_t expert_ranks; /* these GPUs */
    /* so many times so many tokens to look back on, and to attend to */
    int64_t times, context, keys;
    int64_t view, before; /* tokens */
    bool is_scored;       /* is there more context than top-k takes anyway? */
} load_t;

/* (1 - take/n)^tries in 2^32nds, by squaring. */
static uint64_t untaken(int64_t n, int64_t take, int64_t tries)
{
    uint64_t power = ((uint64_t)(n - take) << 32) / (uint64_t)n;
    uint64_t rest  = ONE;

    if (take == 0) {
        return ONE;
    }
    for (; tries > 0; tries >>= 1) {
        if ((tries & 1) != 0) {
            rest = rest * power >> 32;
        }
        power = power * power >> 32;
    }
    return rest;
}

int64_t pl_cost_taken(int64_t n, int64_t take, int64_t tries)
{
    return (int64_t)(ONE - untaken(n, take, tries));
}

/* The largest whole number whose square is at most `square`. */
static uint64_t root(uint64_t square)
{
    uint64_t found = 0;

    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1) {
        if ((found + bit) * (found + bit) <= square) {
            found += bit;
        }
    }
    return found;
}

int64_t pl_cost_most_taken(int64_t n, int64_t take, int64_t tries,
                           int64_t ranks)
{
    /* What is expected of the largest of 1, 2, 4, ... standard normal numbers,
     * in thousandths. */
    static const uint64_t LARGEST[] = {0,    564,  1029, 1424, 1766,
                                       2070, 2344, 2594, 2826, 3043};
    uint64_t taken                  = ONE - untaken(n, take, tries);
    uint64_t here                   = (uint64_t)((n + ranks - 1) / ranks);
    uint64_t most                   = taken;
    size_t i                        = 0;

    while ((i + 1 < sizeof(LARGEST) / sizeof(*LARGEST)) &&
           (ranks >> (i + 1) > 0)) {
        i++;
    }
    most += LARGEST[i] * root((ONE - taken) * taken / here) / 1000;
    return (int64_t)(most < ONE ? most : ONE);
}

/* Of a slow memory all experts may take more than 2^32 ns: by halves. */
static int64_t floor_ns(const pl_costs_t *costs, const load_t *load,
                        pl_cost_part_t part, int64_t all_ns)
{
    uint64_t all = (uint64_t)all_ns;
    uint64_t taken;

    if ((part != PL_COST_EXPERT) || (costs->n_experts == 0)) {
        return all_ns;
    }
    taken = (uint64_t)pl_cost_most_taken(costs->n_experts, costs->row_experts,
                                         load->expert_rows, load->expert_ranks);
    return (int64_t)((all >> 32) * taken + ((all & (ONE - 1)) * taken >> 32));
}

/* n * rate / unit, where slow hardware has rates with which the product is no
 * number of 64 bits. */
static int64_t of_rate(int64_t n, int64_t rate, int64_t unit)
{
    return n * (rate / unit) + n * (rate % unit) / unit;
}

static int64_t part_ns(const pl_costs_t *costs, const pl_cost_rate_t *rate,
                       pl_cost_part_t part, const load_t *load)
{
    bool scores   = (part == PL_COST_INDEX) || (part == PL_COST_TOPK);
    int64_t least = floor_ns(costs, load, part, rate->floor_ns);
    int64_t ns;

    if (scores && !load->is_scored) {
        return 0;
    }
    ns = of_rate(load->rows, rate->row_ps, PS) +
         load->times * of_rate(load->context, rate->context_ps, K_PS) +
         load->times * of_rate(load->keys, rate->key_ps, K_PS) +
         of_rate(load->view, rate->view_ps, K_PS) +
         of_rate(load->before, rate->before_ps, K_PS);
    ns = rate->step_ns + (ns > least ? ns : least);
    if (rate->quick_ps > 0) {
        int64_t quick =
            rate->quick_ns + of_rate(load->rows, rate->quick_ps, PS);

        ns = quick < ns ? quick : ns;
    }
    return ns;
}

/* What of it is seen when a layer's view is made while the layer before it
 * computes: the first layer's, and what takes longer than to compute. */
static int64_t seen_ns(int64_t ns, int64_t compute_ns, int32_t n_layers)
{
    int64_t first = ns / n_layers;

    return ns - compute_ns > first ? ns - compute_ns : first;
}

/* One pass through the layer that drafts. */
static int64_t draft_ns(const pl_costs_t *costs, const pl_cost_rate_t *rates,
                        const load_t *load)
{
    int64_t pass = 0;

    for (int i = 0; (costs->draft_tokens > 0) && (i < PL_COST_PARTS); i++) {
        pass += part_ns(costs, &rates[i], (pl_cost_part_t)i, load);
    }
    return pass;
}

/* `drafts_ns` besides, of what drafts. */
static int64_t sum_parts(const pl_costs_t *costs, const pl_cost_rate_t *rates,
                         const load_t *load, int64_t drafts_ns,
                         int64_t *parts_ns)
{
    int64_t unused[PL_COST_PARTS];
    int64_t *ns     = parts_ns != NULL ? parts_ns : unused;
    int64_t compute = drafts_ns;

    for (int i = 0; i < PL_COST_PARTS; i++) {
        ns[i] = part_ns(costs, &rates[i], (pl_cost_part_t)i, load);
        compute += i != PL_COST_MATERIALIZE ? ns[i] : 0;
    }
    ns[PL_COST_DRAFT] += drafts_ns;
    if (costs->ahead_layers > 0) {
        ns[PL_COST_MATERIALIZE] =
            seen_ns(ns[PL_COST_MATERIALIZE], compute, costs->ahead_layers);
    }
    return compute + ns[PL_COST_MATERIALIZE];
}

/* The mean over rows with n_before, n_before + 1, ... tokens before them of
 * what they attend to, which is at most `most`. */
static int64_t mean_keys(int64_t n_before, int64_t n, int64_t most)
{
    int64_t short_rows = most - n_before;

    if ((most == 0) || (short_rows > n)) {
        short_rows = n;
    }
    if (short_rows <= 0) {
        return most;
    }
    return (short_rows * n_before + short_rows * (short_rows - 1) / 2 +
            (n - short_rows) * most) /
           n;
}

/* Rows of the busiest rank. */
static int64_t busiest(const pl_costs_t *costs, int n_ranks, int64_t n_tokens)
{
    int64_t unit  = costs->page_tokens > 0 ? costs->page_tokens : 1;
    int64_t pages = (n_tokens + unit - 1) / unit;
    int64_t share = (pages + n_ranks - 1) / n_ranks * unit;

    return share < n_tokens ? share : n_tokens;
}

int64_t pl_cost_chunk_ns(const pl_costs_t *costs, int n_ranks, int32_t n_before,
                         int32_t n_tokens, int64_t parts_ns[PL_COST_PARTS])
{
    /* The busiest rank; context in the middle of the chunk. */
    int64_t view  = (int64_t)n_before + n_tokens;
    int64_t share = busiest(costs, n_ranks, n_tokens);
    load_t load   = {.rows         = share,
                     .expert_rows  = share * costs->prefill_ep,
                     .expert_ranks = costs->prefill_ep,
                     .times        = share,
                     .context      = (int64_t)n_before + n_tokens / 2,
                     .keys         = mean_keys(n_before, n_tokens, costs->topk),
                     .view         = view,
                     .before       = n_before,
                     .is_scored    = view > costs->topk};

    return sum_parts(costs, costs->prefill, &load,
                     draft_ns(costs, costs->draft_prompt, &load), parts_ns);
}

int64_t pl_cost_prompt_ns(const pl_costs_t *costs, int n_ranks,
                          int32_t chunk_tokens, int32_t first, int32_t end)
{
    int64_t ns = 0;

    while (first < end) {
        int32_t n = end - first < chunk_tokens ? end - first : chunk_tokens;

        ns += pl_cost_chunk_ns(costs, n_ranks, first, n, NULL);
        first += n;
    }
    return ns;
}

/* `each` rows of n_running requests. */
static load_t decode_load(const pl_costs_t *costs, int32_t n_running,
                          int64_t context_tokens, int64_t each)
{
    int64_t mean = context_tokens / n_running;
    int64_t keys = mean < costs->topk ? mean : costs->topk;
    int64_t tp   = costs->decode_tp > 0 ? costs->decode_tp : 1;
    int64_t rows = each * n_running;

    return (load_t){.rows         = rows,
                    .expert_rows  = (rows * costs->decode_ep + tp - 1) / tp,
                    .expert_ranks = costs->decode_ep,
                    .times        = each,
                    .context      = context_tokens / 1024 * 1024,
                    .keys         = keys * n_running,
                    .is_scored    = mean > costs->topk};
}

int64_t pl_cost_decode_ns(const pl_costs_t *costs, int32_t n_running,
                          int64_t context_tokens,
                          int64_t parts_ns[PL_COST_PARTS])
{
    load_t load, draft;

    if (n_running == 0) {
        for (int i = 0; (parts_ns != NULL) && (i < PL_COST_PARTS); i++) {
            parts_ns[i] = 0;
        }
        return 0;
    }
    load  = decode_load(costs, n_running, context_tokens,
                        1 + (int64_t)costs->draft_tokens);
    draft = decode_load(costs, n_running, context_tokens, 1);
    return sum_parts(
        costs, costs->decode, &load,
        costs->draft_tokens * draft_ns(costs, costs->draft, &draft), parts_ns);
}

/* ---- links ---- */

int64_t pl_cost_link_ns(const pl_costs_t *costs, pl_link_t link, int64_t bytes)
{
    return costs->link_latency_ns[link] +
           bytes * 1000 / costs->link_bytes_per_us[link];
}

int64_t pl_cost_take_in_ns(const pl_costs_t *costs, int64_t n_tokens)
{
    return costs->take_in_ns + n_tokens * costs->take_in_ps / 1000;
}
