/* Which prefill instance a request goes to. */
#include "fleet_rig.h"

#include <string.h>

#include "base/rng.h"
#include "support/seed.h"

#define LATER (10000 * MS) /* all that came before has ended */

static void expect_prefill(const rig_t *rig, const int32_t *want)
{
    for (int32_t i = 0; i < rig->n; i++) {
        ck_assert_int_eq(rig_prefill(rig, i), want[i]);
    }
}

START_TEST(routers_have_names)
{
    for (int i = 0; i < PL_ROUTERS; i++) {
        ck_assert_str_ne(pl_router_text((pl_router_t)i), "?");
        ck_assert_str_ne(pl_router_words((pl_router_t)i), "?");
    }
    ck_assert_str_eq(pl_router_text(PL_ROUTER_PREFIX_LOAD), "prefix+load");
    ck_assert_str_eq(pl_router_text(PL_ROUTERS), "?");
}
END_TEST

START_TEST(round_robin_takes_turns)
{
    static const int32_t want[] = {0, 1, 2, 0, 1, 2, 0};
    rig_t *rig                  = rig_make(3, 1);

    for (int32_t i = 0; i < 7; i++) {
        rig_add_of(rig, i < 4 ? 0 : LATER, 20, 1, 0, 10);
    }
    rig_run(rig);
    expect_prefill(rig, want);
    rig_free(rig);
}
END_TEST

static void draw(uint64_t seed, int32_t n, int32_t *prefill)
{
    rig_t *rig = rig_make(4, 1);

    rig->params.router = PL_ROUTER_RANDOM;
    rig->params.seed   = seed;
    for (int32_t i = 0; i < n; i++) {
        rig_add(rig, i * MS, 1 + i % 7, 1);
    }
    rig_run(rig);
    for (int32_t i = 0; i < n; i++) {
        prefill[i] = rig_prefill(rig, i);
    }
    rig_free(rig);
}

/* Where a request goes is of its number and the seed: not of who else there
 * is.  Each instance gets about as many. */
START_TEST(random_is_by_seed_and_number)
{
    enum { N = 200 };
    int32_t all[N], some[N], other[N];
    int32_t count[4] = {0};

    draw(7, N, all);
    draw(7, N / 2, some);
    draw(8, N, other);
    ck_assert_mem_eq(all, some, sizeof(all) / 2);
    ck_assert_mem_ne(all, other, sizeof(all));
    for (int32_t i = 0; i < N; i++) {
        count[all[i]]++;
    }
    for (int32_t i = 0; i < 4; i++) {
        ck_assert_int_gt(count[i], 25); /* 50 +- 4 sigma */
        ck_assert_int_lt(count[i], 75);
    }
}
END_TEST

/* Of the instances that got requests 0 .. n-1. */
static int32_t longest_ago(const int32_t *prefill, int32_t n,
                           int32_t n_instances)
{
    bool had[8]   = {false};
    int32_t left  = n_instances;
    int32_t found = 0;

    for (int32_t i = n - 1; (i >= 0) && (left > 0); i--) {
        if (!had[prefill[i]]) {
            had[prefill[i]] = true;
            found           = prefill[i];
            left--;
        }
    }
    return found;
}

/* All at once: no prompt is done before the last has come. */
START_TEST(least_loaded_is_greedy)
{
    enum { N = 40, INSTANCES = 3 };
    uint64_t seed           = pl_test_seed("least_loaded_is_greedy");
    pl_rng_t rng            = pl_rng_seed(seed);
    int64_t load[INSTANCES] = {0};
    int32_t want[N + 1];
    rig_t *rig = rig_make(INSTANCES, 1);

    rig->params.router = PL_ROUTER_LEAST_LOADED;
    for (int32_t i = 0; i < N; i++) {
        int32_t pages = 1 + (int32_t)pl_rng_below(&rng, 200);
        int32_t least = 0;

        for (int32_t k = 1; k < INSTANCES; k++) {
            least = load[k] < load[least] ? k : least;
        }
        load[least] += rig_prefill_ns(rig, pages);
        want[rig_add(rig, 0, pages, 1)] = least;
    }
    /* What is done is no load, and who got one the longest ago is next. */
    want[rig_add(rig, 10 * LATER, 9, 1)] = longest_ago(want, N, INSTANCES);
    rig_run(rig);
    expect_prefill(rig, want);
    rig_free(rig);
}
END_TEST

/* Who arrives the moment a prompt is done comes before that is known; a
 * nanosecond later it is. */
START_TEST(arrivals_come_before_ticks)
{
    static const int32_t want[] = {0, 1, 0};
    rig_t *rig                  = rig_make(2, 1);
    int64_t done_ns             = rig_prefill_ns(rig, 10);

    rig->params.router = PL_ROUTER_LEAST_LOADED;
    rig_add(rig, 0, 10, 1);
    rig_add(rig, done_ns, 10, 1);
    rig_add(rig, done_ns + 1, 10, 1);
    rig_run(rig);
    ck_assert_int_eq(rig_record(rig, 0)->first_token_ns, done_ns);
    expect_prefill(rig, want);
    rig_free(rig);
}
END_TEST

/* An instance that decodes as well prefills again what it had to give up: that
 * is no load that anybody gave it. */
START_TEST(re_entry_takes_no_load_off)
{
    static const int32_t want[] = {0, 1, 0, 1, 0, 1, 0};
    rig_t *rig                  = rig_make(2, 0);

    rig->params.router               = PL_ROUTER_LEAST_LOADED;
    rig->params.prefill.n_prefill    = 1;
    rig->params.prefill.decode_pages = 1 + 2 * 6 + 2;
    for (int32_t i = 0; i < 4; i++) {
        rig_add(rig, 0, 5, i % 2 == 0 ? 30 : 1);
    }
    for (int32_t i = 0; i < 3; i++) {
        rig_add(rig, LATER, 5, 1);
    }
    rig_run(rig);
    ck_assert_int_eq(rig_record(rig, 2)->reentries, 1);
    expect_prefill(rig, want);
    rig_free(rig);
}
END_TEST

/* Load counts what is left after a hit: of two of a family, known at 0, less
 * than of a stranger at 1. */
START_TEST(load_is_after_the_hit)
{
    static const int32_t want[] = {0, 1, 0, 1, 0};
    rig_t *rig                  = rig_make(2, 1);

    rig->params.router = PL_ROUTER_LEAST_LOADED;
    rig_add_of(rig, 0, 200, 1, 0, 190);
    rig_add(rig, LATER / 2, 1, 1);
    rig_add_of(rig, LATER, 200, 1, 0, 190);
    rig_add(rig, LATER, 150, 1);
    rig_add(rig, LATER, 10, 1);
    rig_run(rig);
    ck_assert_int_gt(rig_record(rig, 2)->device_hit_tokens, 0);
    expect_prefill(rig, want);
    rig_free(rig);
}
END_TEST

START_TEST(best_prefix_goes_where_the_prefix_is)
{
    static const int32_t want[] = {0, 1, 1, 0, 1, 0};
    rig_t *rig                  = rig_make(2, 1);

    rig->params.router = PL_ROUTER_BEST_PREFIX;
    rig_add_of(rig, 0, 20, 1, 0, 10); /* none is known: the least loaded */
    rig_add_of(rig, 0, 10, 1, 1, 5);
    rig_add_of(rig, LATER, 20, 1, 1, 5);
    rig_add_of(rig, LATER, 20, 1, 0, 10);
    rig_add_of(rig, LATER, 20, 1, 1, 5); /* whatever the load */
    rig_add(rig, 2 * LATER, 20, 1);      /* all are alike: the longest ago */
    rig_run(rig);
    expect_prefill(rig, want);
    ck_assert_int_eq(rig_record(rig, 2)->device_hit_tokens,
                     5 * RIG_PAGE_TOKENS);
    ck_assert_int_eq(rig_record(rig, 3)->device_hit_tokens,
                     10 * RIG_PAGE_TOKENS);
    rig_free(rig);
}
END_TEST

static void run_alike(rig_t *rig, pl_router_t router, int64_t *requests)
{
    rig->params.router = router;
    rig_add_of(rig, 0, 100, 1, 0, 1);
    for (int32_t i = 0; i < 60; i++) {
        rig_add_of(rig, LATER, 100, 1, 0, 1);
    }
    rig_run(rig);
    for (int32_t i = 0; i < rig->params.n_prefill; i++) {
        requests[i] = pl_fleet_usage(rig->fleet, i).requests;
    }
}

/* One first page that all prompts share draws all of them to the instance that
 * had it first; a router that weighs the load against it does not fall for
 * that. */
START_TEST(a_page_that_all_share_traps_best_prefix)
{
    enum { INSTANCES = 4 };
    rig_t *trapped = rig_make(INSTANCES, 1);
    rig_t *spread  = rig_make(INSTANCES, 1);
    int64_t requests[INSTANCES];

    run_alike(trapped, PL_ROUTER_BEST_PREFIX, requests);
    ck_assert_int_eq(requests[0], 61);
    run_alike(spread, PL_ROUTER_PREFIX_LOAD, requests);
    for (int i = 0; i < INSTANCES; i++) {
        ck_assert_int_ge(requests[i], 15);
        ck_assert_int_le(requests[i], 16);
    }
    ck_assert_int_gt(pl_fleet_waits(trapped->fleet).for_prefill_ns,
                     3 * pl_fleet_waits(spread->fleet).for_prefill_ns);
    rig_free(trapped);
    rig_free(spread);
}
END_TEST

static int64_t cost_ns(const rig_t *rig, int32_t hit_pages, int32_t pages)
{
    const pl_engine_config_t *config = &rig->params.prefill;

    return pl_cost_prompt_ns(&config->costs, config->n_prefill,
                             config->chunk_tokens, hit_pages * RIG_PAGE_TOKENS,
                             pages * RIG_PAGE_TOKENS);
}

/* A prompt whose prefix instance 0 has comes while a stranger keeps that busy:
 * what is saved must be more than what is waited for. */
static int32_t choose(int32_t stranger_pages, bool *is_worth_p)
{
    enum { PAGES = 200, HIT = 190 };
    rig_t *rig = rig_make(2, 1);
    int32_t chosen;

    rig->params.router = PL_ROUTER_PREFIX_LOAD;
    rig_add_of(rig, 0, PAGES, 1, 0, HIT);
    rig_add(rig, LATER / 2, 1, 1); /* at 1: the stranger's turn is 0's */
    rig_add(rig, LATER, stranger_pages, 1);
    rig_add_of(rig, LATER, PAGES, 1, 0, HIT);
    rig_run(rig);
    ck_assert_int_eq(rig_prefill(rig, 2), 0);
    chosen      = rig_prefill(rig, 3);
    *is_worth_p = cost_ns(rig, 0, stranger_pages) + cost_ns(rig, HIT, PAGES) <=
                  cost_ns(rig, 0, PAGES);
    rig_free(rig);
    return chosen;
}

START_TEST(prefix_and_load_weigh_both)
{
    int32_t n_worth = 0;
    enum { N = 20 };

    for (int32_t i = 0; i < N; i++) {
        bool is_worth  = false;
        int32_t chosen = choose(1 + 15 * i, &is_worth);

        ck_assert_int_eq(chosen, is_worth ? 0 : 1);
        n_worth += is_worth;
    }
    ck_assert_int_gt(n_worth, 0); /* else the sizes show nothing */
    ck_assert_int_lt(n_worth, N);
}
END_TEST

/* Where nobody is busy and nobody has anything of a prompt, all instances get
 * one in turn, those that decode too; one that just got a request that only it
 * could take is passed over then. */
START_TEST(of_equals_the_longest_ago)
{
    static const pl_router_t routers[] = {
        PL_ROUTER_BEST_PREFIX, PL_ROUTER_LEAST_LOADED, PL_ROUTER_PREFIX_LOAD};
    enum { INSTANCES = 3, N = 7 };

    for (size_t r = 0; r < sizeof(routers) / sizeof(routers[0]); r++) {
        rig_t *rig = rig_make(INSTANCES, INSTANCES);

        rig->params.router = routers[r];
        for (int32_t i = 0; i < N; i++) {
            rig_add(rig, i * LATER, 9, 3);
        }
        rig_run(rig);
        for (int32_t i = 0; i < N; i++) {
            ck_assert_int_eq(rig_prefill(rig, i), i % INSTANCES);
            ck_assert_int_eq(rig_decode(rig, i), i % INSTANCES);
        }
        rig_free(rig);
    }
}
END_TEST

START_TEST(who_was_chosen_for_a_hit_has_had_its_turn)
{
    static const int32_t want[] = {0, 1, 0, 2, 1, 0};
    rig_t *rig                  = rig_make(3, 1);

    rig->params.router = PL_ROUTER_PREFIX_LOAD;
    rig_add_of(rig, 0, 20, 1, 0, 19);
    rig_add(rig, LATER, 20, 1);
    rig_add_of(rig, 2 * LATER, 20, 1, 0, 19);
    for (int32_t i = 3; i < 6; i++) {
        rig_add(rig, i * LATER, 20, 1);
    }
    rig_run(rig);
    ck_assert_int_gt(rig_record(rig, 2)->device_hit_tokens, 0);
    expect_prefill(rig, want);
    rig_free(rig);
}
END_TEST

TCase *fleet_route_case(void)
{
    TCase *tcase = tcase_create("route");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, routers_have_names);
    tcase_add_test(tcase, round_robin_takes_turns);
    tcase_add_test(tcase, random_is_by_seed_and_number);
    tcase_add_test(tcase, least_loaded_is_greedy);
    tcase_add_test(tcase, arrivals_come_before_ticks);
    tcase_add_test(tcase, re_entry_takes_no_load_off);
    tcase_add_test(tcase, load_is_after_the_hit);
    tcase_add_test(tcase, best_prefix_goes_where_the_prefix_is);
    tcase_add_test(tcase, a_page_that_all_share_traps_best_prefix);
    tcase_add_test(tcase, prefix_and_load_weigh_both);
    tcase_add_test(tcase, of_equals_the_longest_ago);
    tcase_add_test(tcase, who_was_chosen_for_a_hit_has_had_its_turn);
    return tcase;
}
