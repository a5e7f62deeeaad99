#include "fleet_rig.h"

#include <stdlib.h>

static const pl_request_t *get(void *context, int32_t i)
{
    return &((rig_t *)context)->requests[i];
}

static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    const rig_prompt_t *prompt = &((rig_t *)context)->prompts[i];

    (void)page_tokens;
    for (int32_t p = 0; p < n; p++) {
        bool is_shared = first + p < prompt->shared_pages;

        keys[p].lo =
            is_shared ? 1000 + (uint64_t)prompt->family : 1000000 + (uint64_t)i;
        keys[p].hi = (uint64_t)(first + p);
    }
}

pl_engine_source_t rig_source(rig_t *rig)
{
    return (pl_engine_source_t){rig, rig->n, get, get_keys};
}

rig_t *rig_make(int32_t n_prefill, int32_t n_decode)
{
    rig_t *rig                 = calloc(1, sizeof(*rig));
    pl_engine_config_t *config = &rig->params.prefill;

    ck_assert_ptr_nonnull(rig);
    config->n_prefill             = 2;
    config->page_tokens           = RIG_PAGE_TOKENS;
    config->chunk_tokens          = 1024;
    config->device_pages          = 500;
    config->decode_pages          = 500;
    config->load_threshold_tokens = RIG_PAGE_TOKENS;
    config->hot_threshold         = 2;
    config->evict                 = pl_policy_find("lru");
    config->max_batch             = 8;
    config->costs                 = pl_costs_builtin();
    config->costs.pd_shares       = true;
    config->page_bytes            = 450000000;

    rig->params.decode                          = *config;
    rig->params.decode.n_decode                 = 1;
    rig->params.n_prefill                       = n_prefill;
    rig->params.n_decode                        = n_decode;
    rig->params.send_bytes_per_us               = 45000;
    rig->params.receive_bytes_per_us            = 45000;
    rig->params.link_latency_ns                 = RIG_LATENCY_NS;
    config->costs.link_bytes_per_us[PL_LINK_PD] = 45000;
    config->costs.link_latency_ns[PL_LINK_PD]   = RIG_LATENCY_NS;
    return rig;
}

void rig_free(rig_t *rig)
{
    pl_fleet_close(rig->fleet);
    free(rig);
}

int32_t rig_add_of(rig_t *rig, int64_t arrival_ns, int32_t pages,
                   int32_t outputs, int32_t family, int32_t shared_pages)
{
    ck_assert_int_lt(rig->n, RIG_MOST);
    rig->requests[rig->n] =
        (pl_request_t){.arrival_ns    = arrival_ns,
                       .input_tokens  = pages * RIG_PAGE_TOKENS,
                       .output_tokens = outputs};
    rig->prompts[rig->n] = (rig_prompt_t){family, shared_pages};
    return rig->n++;
}

int32_t rig_add(rig_t *rig, int64_t arrival_ns, int32_t pages, int32_t outputs)
{
    return rig_add_of(rig, arrival_ns, pages, outputs, 0, 0);
}

/* ---- running ---- */

static void expect_empty(const rig_t *rig, int32_t instance)
{
    const pl_engine_t *engine = pl_fleet_engine(rig->fleet, instance);

    ck_assert_int_eq(pl_engine_check(engine), PL_OK);
    if (instance >= rig->params.n_prefill) {
        /* one page of each home's pool is scratch */
        ck_assert_int_eq(pl_engine_room(engine, 0),
                         pl_engine_decode_pages(engine) - 2);
    }
}

void rig_run(rig_t *rig)
{
    rig->params.source = rig_source(rig);
    ck_assert_int_eq(pl_fleet_open(&rig->params, NULL, &rig->fleet), PL_OK);
    ck_assert_int_eq(pl_fleet_run(rig->fleet), PL_OK);
    ck_assert_int_eq(pl_fleet_n_finished(rig->fleet), rig->n);
    for (int32_t i = 0; i < pl_fleet_n_instances(rig->fleet); i++) {
        expect_empty(rig, i);
    }
    for (int32_t i = 0; i < rig->n; i++) {
        ck_assert_int_ge(rig_record(rig, i)->finished_ns, 0);
    }
}

const pl_record_t *rig_record(const rig_t *rig, int32_t request)
{
    return &pl_fleet_records(rig->fleet)[request].record;
}

int32_t rig_prefill(const rig_t *rig, int32_t request)
{
    return pl_fleet_records(rig->fleet)[request].prefill;
}

int32_t rig_decode(const rig_t *rig, int32_t request)
{
    return pl_fleet_records(rig->fleet)[request].decode - rig->params.n_prefill;
}

int64_t rig_prefill_ns(const rig_t *rig, int32_t pages)
{
    const pl_engine_config_t *config = &rig->params.prefill;

    return pl_cost_prompt_ns(&config->costs, config->n_prefill,
                             config->chunk_tokens, 0, pages * RIG_PAGE_TOKENS);
}

static void expect_near(int64_t a, int64_t b, int64_t most_apart)
{
    ck_assert_int_le(a, b + most_apart);
    ck_assert_int_ge(a, b - most_apart);
}

void rig_expect_same(const pl_record_t *a, const pl_record_t *b,
                     int64_t most_apart_ns)
{
    expect_near(a->arrival_ns, b->arrival_ns, most_apart_ns);
    expect_near(a->admitted_ns, b->admitted_ns, most_apart_ns);
    expect_near(a->first_token_ns, b->first_token_ns, most_apart_ns);
    expect_near(a->decode_ns, b->decode_ns, most_apart_ns);
    expect_near(a->finished_ns, b->finished_ns, most_apart_ns);
    ck_assert_int_eq(a->generated_tokens, b->generated_tokens);
    ck_assert_int_eq(a->device_hit_tokens, b->device_hit_tokens);
    ck_assert_int_eq(a->host_hit_tokens, b->host_hit_tokens);
    ck_assert_int_eq(a->cut_pages, b->cut_pages);
    for (int i = 0; i < PL_MISSES; i++) {
        ck_assert_int_eq(a->miss_pages[i], b->miss_pages[i]);
    }
    ck_assert_int_eq(a->preemptions, b->preemptions);
    ck_assert_int_eq(a->reentries, b->reentries);
    ck_assert_int_eq(a->readmissions, b->readmissions);
    ck_assert_int_eq(a->failed, b->failed);
}
