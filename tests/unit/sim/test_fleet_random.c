/* Fleets and traces drawn from a seed, held against what must always be. */
#include "fleet_rig.h"

#include <string.h>

#include "base/rng.h"
#include "sim/fleet_internal.h"
#include "support/seed.h"

static int32_t draw(pl_rng_t *rng, int32_t first, int32_t last)
{
    return first + (int32_t)pl_rng_below(rng, (uint64_t)(last - first) + 1);
}

enum { LONGEST = 24, MOST_OUTPUTS = 30 }; /* pages, tokens */

static void draw_prefill(pl_rng_t *rng, pl_engine_config_t *config)
{
    static const char *const policies[] = {"lru", "lfu", "s3fifo"};

    config->n_prefill       = draw(rng, 1, 3);
    config->chunk_tokens    = RIG_PAGE_TOKENS * draw(rng, 2, 8);
    config->device_pages    = LONGEST + 1 + draw(rng, 0, 30);
    config->host_pages      = draw(rng, 0, 1) * draw(rng, 10, 60);
    config->write_policy    = (pl_write_policy_t)draw(rng, 0, 2);
    config->ownership.kind  = (pl_ownership_kind_t)draw(rng, 0, 2);
    config->ownership.width = config->ownership.kind == PL_OWNERSHIP_INTERLEAVE;
    config->evict           = pl_policy_find(policies[draw(rng, 0, 2)]);
    config->page_bytes      = draw(rng, 0, 3) * INT64_C(20000000);
    config->storage_pages   = config->host_pages > 0 ? draw(rng, 0, 40) : 0;
    config->prefetch        = (pl_prefetch_t)draw(rng, 0, 2);
    config->max_batch       = draw(rng, 1, 8);
    config->decode_pages    = LONGEST + 10 + draw(rng, 0, 30);
    config->decode_host_pages = draw(rng, 0, 1) * draw(rng, 5, 40);
}

static void draw_fleet(pl_rng_t *rng, rig_t *rig)
{
    pl_fleet_params_t *params = &rig->params;

    draw_prefill(rng, &params->prefill);
    params->decode               = params->prefill;
    params->decode.n_decode      = draw(rng, 1, 3);
    params->router               = (pl_router_t)draw(rng, 0, PL_ROUTERS - 1);
    params->seed                 = pl_rng_next(rng);
    params->send_bytes_per_us    = draw(rng, 1000, 50000);
    params->receive_bytes_per_us = draw(rng, 1000, 50000);
    params->link_latency_ns      = draw(rng, 0, 1) * draw(rng, 0, 1000000);
    /* In long chunks much happens elsewhere: what was sent is decoded, and may
     * come back. */
    params->prefill.costs.prefill[PL_COST_LAUNCH].step_ns +=
        draw(rng, 0, 1) * draw(rng, 1, 20) * 50 * MS;
}

/* after[i]: room for whom request i waits for. */
static void draw_requests(pl_rng_t *rng, rig_t *rig, int32_t *after)
{
    int32_t n     = draw(rng, 1, 60);
    int32_t gap   = draw(rng, 0, 40);
    int64_t at_ns = 0;

    for (int32_t i = 0; i < n; i++) {
        int32_t pages = draw(rng, 1, LONGEST);
        pl_request_t *request;

        at_ns += draw(rng, 0, gap) * MS;
        rig_add_of(rig, at_ns, pages, draw(rng, 1, MOST_OUTPUTS),
                   draw(rng, 0, 3), draw(rng, 0, pages));
        request = &rig->requests[i];
        request->input_tokens -= draw(rng, 0, RIG_PAGE_TOKENS - 1);
        if ((i > 0) && (draw(rng, 0, 3) == 0)) {
            after[i]            = draw(rng, 0, i - 1);
            request->after      = &after[i];
            request->n_after    = 1;
            request->delay_ns   = draw(rng, 0, 30) * MS;
            request->not_before = draw(rng, 0, 1) == 1;
        }
    }
}

/* ---- what must be ---- */

/* Between any two ticks. */
static void check_all(void *context)
{
    const rig_t *rig = context;

    for (int32_t i = 0; i < pl_fleet_n_instances(rig->fleet); i++) {
        ck_assert_int_eq(pl_engine_check(pl_fleet_engine(rig->fleet, i)),
                         PL_OK);
        ck_assert_int_le(pl_engine_now_ns(pl_fleet_engine(rig->fleet, i)),
                         pl_fleet_now_ns(rig->fleet));
    }
}

typedef struct sums {
    int64_t prompts, computed, generated, entered, reentries, sent_pages;
    int64_t until_begun, until_first_token, until_decode, until_end, failed;
    int64_t decoding;
} sums_t;

/* In their order, and added up. */
static void check_record(const rig_t *rig, int32_t i, sums_t *sums)
{
    const pl_record_t *r = rig_record(rig, i);

    ck_assert_int_ge(r->admitted_ns, r->arrival_ns);
    ck_assert_int_gt(r->first_token_ns, r->admitted_ns);
    ck_assert_int_ge(r->decode_ns, r->first_token_ns);
    ck_assert_int_ge(r->finished_ns, r->decode_ns);
    ck_assert(r->failed || (r->generated_tokens == r->output_tokens));
    ck_assert(!r->failed || (r->reentries + r->generated_tokens > 1));
    ck_assert_int_ge(rig_prefill(rig, i), 0);
    ck_assert_int_lt(rig_prefill(rig, i), rig->params.n_prefill);
    sums->prompts += r->prompt_tokens;
    sums->computed += r->prompt_tokens - r->device_hit_tokens -
                      r->host_hit_tokens - r->storage_hit_tokens;
    sums->generated += r->generated_tokens;
    sums->entered += 1 + r->reentries;
    sums->reentries += r->reentries;
    sums->sent_pages +=
        (r->prompt_tokens + RIG_PAGE_TOKENS - 1) / RIG_PAGE_TOKENS;
    sums->until_begun += r->admitted_ns - r->arrival_ns;
    sums->until_first_token += r->first_token_ns - r->arrival_ns;
    sums->until_decode += r->decode_ns - r->first_token_ns;
    sums->decoding += r->finished_ns - r->decode_ns;
    /* one token alone has no gap, and ends when it has come to its home */
    sums->until_end +=
        r->generated_tokens > 1 ? r->finished_ns - r->first_token_ns : 0;
    sums->failed += r->failed;
}

static pl_fleet_usage_t add_usage(const rig_t *rig, int32_t first, int32_t end)
{
    pl_fleet_usage_t sum = {0};

    for (int32_t i = first; i < end; i++) {
        pl_fleet_usage_t usage = pl_fleet_usage(rig->fleet, i);

        sum.requests += usage.requests;
        sum.prompt_tokens += usage.prompt_tokens;
        sum.computed_tokens += usage.computed_tokens;
        sum.steps += usage.steps;
        sum.waiting_ns += usage.waiting_ns;
        sum.sent_bytes += usage.sent_bytes;
        sum.received_bytes += usage.received_bytes;
        ck_assert_int_le(usage.refused_ns, usage.waiting_ns);
        ck_assert_int_le(usage.most_waiting, usage.requests);
        ck_assert_int_le(usage.prefill_ns + usage.decode_ns,
                         pl_fleet_now_ns(rig->fleet));
        ck_assert_int_le(usage.link_ns, pl_fleet_now_ns(rig->fleet));
    }
    return sum;
}

/* What each instance says of itself adds up to what requests say. */
static void check_sums(const rig_t *rig, const sums_t *sums)
{
    const pl_fleet_params_t *params = &rig->params;
    pl_fleet_usage_t prefill        = add_usage(rig, 0, params->n_prefill);
    pl_fleet_usage_t decode =
        add_usage(rig, params->n_prefill, pl_fleet_n_instances(rig->fleet));
    pl_fleet_waits_t waits = pl_fleet_waits(rig->fleet);
    bool is_apart          = params->n_decode > 0;

    ck_assert_int_eq(prefill.steps + decode.steps,
                     sums->generated - sums->entered);
    ck_assert_int_eq(prefill.requests, sums->entered);
    ck_assert_int_le(prefill.computed_tokens, prefill.prompt_tokens);
    ck_assert_int_eq(decode.requests, is_apart ? sums->entered : 0);
    ck_assert_int_ge(prefill.computed_tokens, sums->computed);
    ck_assert_int_ge(prefill.waiting_ns, sums->until_begun);
    ck_assert_int_eq(prefill.sent_bytes, decode.received_bytes);
    ck_assert_int_eq(waits.for_prefill_ns + waits.for_decode_ns,
                     prefill.waiting_ns);
    ck_assert_int_le(waits.for_batch_ns, sums->decoding);
    if (sums->reentries > 0) {
        return; /* they have added to all that follows */
    }
    ck_assert_int_eq(prefill.computed_tokens, sums->computed);
    ck_assert_int_eq(prefill.prompt_tokens, sums->prompts);
    ck_assert_int_lt(prefill.waiting_ns, sums->until_first_token);
    if (is_apart) {
        ck_assert_int_eq(decode.prompt_tokens, sums->prompts);
        ck_assert_int_eq(prefill.sent_bytes,
                         sums->sent_pages * params->prefill.page_bytes);
        ck_assert_int_eq(waits.for_transfer_ns, sums->until_decode);
    }
}

/* Gaps between tokens, wherever these were made, are the time from the first
 * token to the last. */
static void check_gaps(const rig_t *rig, const sums_t *sums)
{
    int64_t n  = 0;
    int64_t ns = 0;

    for (int32_t i = 0; i < pl_fleet_n_instances(rig->fleet); i++) {
        size_t n_gaps = 0;
        const pl_token_gap_t *gaps =
            pl_engine_token_gaps(pl_fleet_engine(rig->fleet, i), &n_gaps);

        for (size_t g = 0; g < n_gaps; g++) {
            n += gaps[g].n;
            ns += gaps[g].n * gaps[g].ns;
        }
    }
    ck_assert_int_eq(n, sums->generated - rig->n);
    if (sums->failed == 0) { /* who fails ends later than its last token */
        ck_assert_int_eq(ns, sums->until_end);
    }
}

static void check_turns(const rig_t *rig)
{
    for (int32_t i = 0; i < rig->n; i++) {
        const pl_request_t *request = &rig->requests[i];
        int64_t want_ns             = request->arrival_ns;

        if (request->n_after > 0) {
            int64_t ns = rig_record(rig, request->after[0])->finished_ns +
                         request->delay_ns;

            want_ns = request->not_before && (want_ns > ns) ? want_ns : ns;
        }
        ck_assert_int_eq(rig_record(rig, i)->arrival_ns, want_ns);
    }
}

/* The same again, to the nanosecond. */
static void check_again(rig_t *rig)
{
    pl_fleet_t *first = rig->fleet;

    rig->params.tick = NULL;
    rig_run(rig);
    for (int32_t i = 0; i < rig->n; i++) {
        const pl_fleet_record_t *before = &pl_fleet_records(first)[i];

        rig_expect_same(rig_record(rig, i), &before->record, 0);
        ck_assert_int_eq(rig_prefill(rig, i), before->prefill);
        ck_assert_int_eq(rig_record(rig, i)->home, before->record.home);
    }
    pl_fleet_close(first);
}

static void run_one(uint64_t seed, sums_t *all)
{
    int32_t after[RIG_MOST];
    pl_rng_t rng = pl_rng_seed(seed);
    rig_t *rig   = rig_make(draw(&rng, 1, 4), draw(&rng, 0, 3));
    sums_t sums  = {0};

    draw_fleet(&rng, rig);
    draw_requests(&rng, rig, after);
    rig->params.tick         = check_all;
    rig->params.tick_context = rig;
    rig_run(rig);
    for (int32_t i = 0; i < rig->n; i++) {
        check_record(rig, i, &sums);
    }
    check_sums(rig, &sums);
    check_gaps(rig, &sums);
    check_turns(rig);
    check_again(rig);
    all->reentries += sums.reentries;
    all->prompts += sums.prompts;
    all->computed += sums.computed;
    rig_free(rig);
}

START_TEST(whatever_is_drawn_ends_well)
{
    enum { RUNS = 200 };
    uint64_t seed = pl_test_seed("whatever_is_drawn_ends_well");
    sums_t sums   = {0};

    for (uint64_t i = 0; i < RUNS; i++) {
        run_one(pl_mix64(seed + i), &sums);
    }
    ck_assert_int_gt(sums.reentries, 0); /* else they were not tried */
    ck_assert_int_lt(sums.computed, sums.prompts);
}
END_TEST

/* A link on which something is always under way: memory is that of what is, not
 * of all that ever was. */
START_TEST(what_has_arrived_is_forgotten)
{
    rig_t *rig = rig_make(1, 1);

    rig->params.link_latency_ns = 40 * MS;
    for (int i = 0; i < RIG_MOST; i++) {
        rig_add(rig, i * 10 * MS, 1, 1);
    }
    rig_run(rig);
    ck_assert_uint_ge(rig->fleet->links.flying.capacity, 4);
    ck_assert_uint_le(rig->fleet->links.flying.capacity, 32);
    rig_free(rig);
}
END_TEST

TCase *fleet_random_case(void)
{
    TCase *tcase = tcase_create("random");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, whatever_is_drawn_ends_well);
    tcase_add_test(tcase, what_has_arrived_is_forgotten);
    return tcase;
}
