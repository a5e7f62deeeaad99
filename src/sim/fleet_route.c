/* Which prefill instance a request goes to. */
#include "base/rng.h"
#include "sim/fleet_internal.h"

/* Less is better; what stands before counts more. */
typedef struct bid {
    int64_t missing_tokens, ns;
    int64_t given_at; /* caches of instances that are alike are all used */
} bid_t;

static bool is_less(const bid_t *a, const bid_t *b)
{
    if (a->missing_tokens != b->missing_tokens) {
        return a->missing_tokens < b->missing_tokens;
    }
    return a->ns != b->ns ? a->ns < b->ns : a->given_at < b->given_at;
}

static bool looks(pl_router_t router)
{
    return (router == PL_ROUTER_BEST_PREFIX) ||
           (router == PL_ROUTER_LEAST_LOADED) ||
           (router == PL_ROUTER_PREFIX_LOAD);
}

/* What a router can know of a prompt are the tokens that the trace has. */
static pl_status_t make_keys(pl_fleet_t *fleet, int32_t request)
{
    const pl_engine_source_t *source = &fleet->params.source;
    int32_t page                     = fleet->params.prefill.page_tokens;
    int32_t n = source->request(source->context, request)->input_tokens / page;

    PL_TRY(PL_ARRAY_RESERVE(&fleet->keys, (size_t)n + 1));
    source->page_keys(source->context, request, page, 0, n, fleet->keys.items);
    fleet->keys.n = (size_t)n;
    return PL_OK;
}

static int32_t hit_at(const pl_fleet_t *fleet, int32_t request,
                      int32_t instance)
{
    return pl_engine_peek(fleet->instances[instance].engine, request,
                          fleet->keys.items, (int32_t)fleet->keys.n);
}

/* What the prompt takes alone, after a hit. */
static int64_t cost_ns(const pl_fleet_t *fleet, const pl_handover_t *handover,
                       int32_t hit)
{
    const pl_engine_config_t *config = &fleet->params.prefill;

    return pl_cost_prompt_ns(&config->costs, config->n_prefill,
                             config->chunk_tokens, hit,
                             handover->prompt_tokens);
}

static int32_t drawn(const pl_fleet_t *fleet, int32_t request)
{
    pl_rng_t rng =
        pl_rng_seed(pl_fold64(fleet->params.seed, (uint64_t)request));

    return (int32_t)pl_rng_below(&rng, (uint64_t)fleet->params.n_prefill);
}

static bid_t bid_of(const pl_fleet_t *fleet, const pl_handover_t *handover,
                    int32_t instance)
{
    int64_t load_ns = fleet->instances[instance].load_ns;
    int32_t n       = fleet->params.n_prefill;
    bid_t bid       = {.given_at = fleet->instances[instance].given_at};

    switch (fleet->params.router) {
    case PL_ROUTER_ROUND_ROBIN:
        bid.ns = (instance + n - fleet->next) % n;
        break;
    case PL_ROUTER_RANDOM:
        bid.ns = instance != drawn(fleet, handover->request);
        break;
    case PL_ROUTER_BEST_PREFIX:
        bid.missing_tokens = handover->prompt_tokens -
                             hit_at(fleet, handover->request, instance);
        bid.ns = load_ns;
        break;
    case PL_ROUTER_LEAST_LOADED:
        bid.ns = load_ns;
        break;
    case PL_ROUTER_PREFIX_LOAD:
        bid.ns = load_ns + cost_ns(fleet, handover,
                                   hit_at(fleet, handover->request, instance));
        break;
    case PL_ROUTERS:
        break;
    }
    return bid;
}

pl_status_t pl_fleet_route(pl_fleet_t *fleet, const pl_handover_t *handover,
                           int32_t *instance_p, int64_t *load_ns_p)
{
    bool does_look = looks(fleet->params.router);
    int32_t best   = 0;
    bid_t least;

    if (does_look) {
        PL_TRY(make_keys(fleet, handover->request));
    }
    least = bid_of(fleet, handover, 0);
    for (int32_t i = 1; i < fleet->params.n_prefill; i++) {
        bid_t bid = bid_of(fleet, handover, i);

        if (is_less(&bid, &least)) {
            least = bid;
            best  = i;
        }
    }
    fleet->next = (best + 1) % fleet->params.n_prefill;
    *instance_p = best;
    *load_ns_p  = does_look ? cost_ns(fleet, handover,
                                      hit_at(fleet, handover->request, best))
                            : 0;
    return PL_OK;
}
