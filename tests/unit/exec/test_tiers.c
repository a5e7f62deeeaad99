/* Pages through all tiers, byte for byte, on plans written by hand. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/check_main.h"
#include "test_exec.h"

/* ---- cold, backed up, evicted, loaded, sent ---- */

static const rig_point_t grid[] = {
    {1, 0, 16, "cpu"},   {2, 0, 16, "cpu"}, {4, 0, 16, "cpu"},
    {8, 0, 16, "cpu"},   {3, 1, 16, "cpu"}, {8, 2, 16, "guard"},
    {4, 1, 1, "cpu"},    {4, 1, 3, "cpu"},  {2, 1, 64, "guard"},
    {4, 1, 10, "guard"}, {1, 0, 16, "far"}, {3, 0, 10, "far"},
    {4, 1, 3, "far"},    {8, 2, 16, "far"}};

#define N_GRID ((int)(sizeof(grid) / sizeof(grid[0])))

/* 9.52 what became free is poison */
static void evict(rig_t *rig, rig_pages_t *pages)
{
    rig_pages_t gone = *pages;

    rig_free_device(rig, pages);
    rig_tick(rig);
    for (int32_t i = 0; i < gone.n; i++) {
        if (rig_keeps(rig, gone.owners[i]) &&
            (rig->params->verify != PL_VERIFY_OFF)) {
            RIG_CHECK(rig, rig_is_poison(
                               rig, PL_FREED_DEVICE,
                               pl_page_slot(gone.pages[i], rig_lanes(rig))));
        }
    }
}

/* Whoever keeps a page has its bytes, whoever computed it. */
static void check_kept(rig_t *rig, const rig_pages_t *pages, int32_t request)
{
    for (int32_t i = 0; i < pages->n; i++) {
        if (rig_keeps(rig, pages->owners[i])) {
            RIG_CHECK(rig,
                      rig_holds(rig, PL_FREED_DEVICE,
                                pl_page_slot(pages->pages[i], rig_lanes(rig)),
                                request, i, RIG_PROMPT));
        }
    }
}

typedef struct round_trip {
    uint64_t digest[2];
    int32_t token[2];
    int64_t checks;
} round_trip_t;

/* 9.53 byte oracle in every tier; 9.24 the index travels with the latent rows;
 * 9.27 saved owners; 9.35 each layer's readers wait for that layer
 * (guard); 9.25, 9.29 ranks without pages take part; 9.42 last chunk; 9.54 cold
 * == host hit == received */
static void round_trip(rig_t *rig, void *context)
{
    round_trip_t *out = context;
    int32_t whole     = (RIG_PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, hit = {.n = 0}, other = {.n = 0};
    rig_pages_t host = {.n = 0}, to = {.n = 0}, again = {.n = 0};
    int64_t load;

    rig_prefill_cold(rig, &cold, 0);
    check_kept(rig, &cold, 0);
    rig_send_all(rig, &cold, &to, 0);
    rig_back_up(rig, &cold, &host, whole);
    evict(rig, &cold);
    /* Something else takes the slots, so that the pages come back elsewhere. */
    rig_extend(rig, &other, 2, 0, rig->params->page_tokens);
    rig_take(rig->device_lanes, host.owners, whole, &hit);
    load = rig_start_copy(rig, PL_OP_LOAD, &hit, &host, whole);
    rig_extend(rig, &hit, 1, whole * rig->params->page_tokens, RIG_PROMPT);
    rig_prefill(rig, &hit, 1, whole * rig->params->page_tokens, RIG_PROMPT,
                true, load);
    rig_tick(rig);
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
    check_kept(rig, &hit, 1);
    rig_send_all(rig, &hit, &again, 1);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    RIG_CHECK(rig, rig->executor->ops->finish(rig->executor, 99) == PL_OK);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    if (rig->comm->rank == rig_home(rig)) {
        for (int32_t i = 0; i < 2; i++) {
            pl_exec_result_t result =
                rig->executor->ops->result(rig->executor, i);

            RIG_CHECK(rig, result.has_digest);
            RIG_CHECK(rig, result.n_tokens == 1);
            out->digest[i] = result.digest;
            out->token[i]  = result.n_tokens == 1 ? result.tokens[0] : -1;
        }
        out->checks = rig->executor->counters.page_checks;
    }
}

START_TEST(bytes_are_the_same_in_every_tier)
{
    char failed[512];
    round_trip_t first  = {{0}, {0}, 0};
    round_trip_t here   = {{0}, {0}, 0};
    rig_params_t base   = rig_params_of(&grid[0], PL_VERIFY_DIGEST);
    rig_params_t params = rig_params_of(&grid[_i % N_GRID], PL_VERIFY_DIGEST);

    params.replicated = _i >= N_GRID;
    ck_assert_str_eq(rig_run(&base, round_trip, &first, failed), "");
    ck_assert_str_eq(rig_run(&params, round_trip, &here, failed), "");
    ck_assert_int_gt(here.checks, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_ne(here.digest[i], 0);
        ck_assert_uint_eq(here.digest[i], first.digest[0]);
        ck_assert_int_eq(here.token[i], first.token[0]);
    }
}
END_TEST

/* Without verification the same bytes move, and nothing is checked. */
START_TEST(verification_changes_nothing)
{
    static const pl_verify_t modes[] = {PL_VERIFY_OFF, PL_VERIFY_FULL};
    const pl_verify_t mode           = modes[_i % 2];
    const rig_point_t *point         = &grid[_i < 2 ? 4 : N_GRID - 1];
    char failed[512];
    round_trip_t first  = {{0}, {0}, 0};
    round_trip_t here   = {{0}, {0}, 0};
    rig_params_t base   = rig_params_of(&grid[0], PL_VERIFY_DIGEST);
    rig_params_t params = rig_params_of(point, mode);

    ck_assert_str_eq(rig_run(&base, round_trip, &first, failed), "");
    ck_assert_str_eq(rig_run(&params, round_trip, &here, failed), "");
    ck_assert_uint_eq(here.digest[1], first.digest[1]);
    ck_assert_int_eq(here.token[1], first.token[1]);
    ck_assert_int_eq(here.checks > 0, mode != PL_VERIFY_OFF);
}
END_TEST

static TCase *tiers_case(void)
{
    TCase *tcase = tcase_create("tiers");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, bytes_are_the_same_in_every_tier, 0, 2 * N_GRID);
    tcase_add_loop_test(tcase, verification_changes_nothing, 0, 4);
    return tcase;
}

PL_CHECK_MAIN("exec tiers", tiers_case(), damage_case(), decode_case(),
              storage_case())
