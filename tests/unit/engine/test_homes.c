/* Decode homes: who is admitted where, how pools grow, who is sent off. */
#include "scene.h"

#include <string.h>

#define N(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

enum { MOST = 32 };

/* What homes hold, as events tell. */
typedef struct homes {
    int32_t first_home, n_homes;
    int32_t n_pages;       /* of a pool */
    int32_t held[MOST];    /* [home] pages */
    int32_t away[MOST];    /* [home] requests in its host buffer */
    int32_t has[MOST];     /* [request] pages */
    int32_t home_of[MOST]; /* [request] */
    int32_t prompt_pages[MOST];
    int32_t n_reservations;
} homes_t;

/* 9.49 the home with the fewest reserved pages, then the lowest rank, has the
 * prompt's pages and one more, and nobody there waits to be resumed. */
static void check_reservation(homes_t *homes, const pl_event_t *event)
{
    int32_t home = (int32_t)event->value;

    ck_assert_int_eq(homes->away[home], 0);
    ck_assert_int_eq(event->n_pages, homes->prompt_pages[event->request] + 1);
    for (int32_t other = homes->first_home;
         other < homes->first_home + homes->n_homes; other++) {
        ck_assert(
            (homes->away[other] > 0) ||
            (homes->held[other] > homes->held[home]) ||
            ((homes->held[other] == homes->held[home]) && (other >= home)));
    }
    homes->n_reservations++;
}

static void follow(void *context, const pl_event_t *event)
{
    homes_t *homes = context;
    int32_t home   = (int32_t)event->value;

    switch (event->kind) {
    case PL_EVENT_ARRIVE:
        homes->prompt_pages[event->request] = (int32_t)(event->value + 3) / 4;
        break;
    case PL_EVENT_REENTER:
        homes->prompt_pages[event->request] = (int32_t)(event->value2 + 3) / 4;
        break;
    case PL_EVENT_DECODE_ALLOC:
        if ((homes->has[event->request] == 0) &&
            (homes->home_of[event->request] >= 0)) {
            check_reservation(homes, event);
        }
        homes->held[home] += event->n_pages;
        homes->has[event->request] += event->n_pages;
        ck_assert_int_le(homes->held[home], homes->n_pages);
        break;
    case PL_EVENT_DECODE_FREE:
        homes->held[home] -= event->n_pages;
        homes->has[event->request] -= event->n_pages;
        break;
    case PL_EVENT_OFFLOAD:
        homes->away[home]++;
        homes->home_of[event->request] = -1; /* what it takes is no admission */
        break;
    case PL_EVENT_RESUMED:
        /* All of these tests have one home then. */
        homes->away[homes->first_home] -= event->value != 0 ? 1 : 0;
        homes->home_of[event->request] = event->value != 0 ? 0 : -1;
        break;
    default:
        break;
    }
}

static homes_t homes_of(drive_params_t *params)
{
    homes_t homes = {.first_home = params->config.n_prefill,
                     .n_homes    = params->config.n_decode,
                     .n_pages    = params->config.decode_pages - 1};

    params->event = follow;
    return homes;
}

START_TEST(the_emptiest_home_is_taken)
{
    drive_request_t script[20] = {{0}};
    drive_params_t params      = scene(script, N(script));
    drive_result_t result;
    homes_t homes;

    for (int32_t i = 0; i < N(script); i++) {
        script[i] =
            (drive_request_t){0, 5 + i * 37 % 50, 3 + i * 11 % 40, i, 0};
    }
    params.config.n_decode = 3;
    homes                  = homes_of(&params);
    params.context         = &homes;
    drive(&params, 1, &result);
    ck_assert_int_eq(homes.n_reservations, N(script));
}
END_TEST

/* ---- growth
 * ------------------------------------------------------------------------ */

static void look_at_growth(void *context, const pl_engine_t *engine,
                           const pl_plan_t *plan)
{
    int *n_steps = context;

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];
        int32_t prompt =
            pl_engine_record(engine, op->request < 0 ? 0 : op->request)
                ->prompt_tokens;
        int32_t reserved = (prompt + 3) / 4 + 1;
        int32_t need     = op->first_token / 4 + 1;

        if (op->kind == PL_OP_DECODE) {
            ck_assert_int_eq(op->n_pages, need > reserved ? need : reserved);
            (*n_steps)++;
        }
    }
}

/* 9.13 the prompt's pages and one; then a page exactly when the next row is the
 * first of one */
START_TEST(decode_grows_a_page_at_a_time)
{
    drive_request_t script[9] = {{0}};
    drive_params_t params     = scene(script, N(script));
    drive_result_t result;
    int n_steps = 0;

    for (int32_t i = 0; i < N(script); i++) {
        script[i] = (drive_request_t){0, 1 + i, 30, i, 0};
    }
    params.context = &n_steps;
    params.plan    = look_at_growth;
    drive(&params, 1, &result);
    ck_assert_int_eq(n_steps, 9 * 29);
    ck_assert_int_eq(result.counters.offloads + result.counters.reentries, 0);
}
END_TEST

/* ---- preemption
 * -------------------------------------------------------------------- */

/* 9.49, 9.50: the youngest goes to the host buffer (its partial page too) and
 * comes back before anybody new is let in; the oldest of them grows to the
 * pool's last page. */
START_TEST(the_youngest_goes_and_resumes_come_first)
{
    drive_request_t script[12] = {{0}};
    drive_params_t params      = scene(script, N(script));
    drive_result_t result;
    homes_t homes;

    for (int32_t i = 0; i < N(script); i++) {
        script[i] = (drive_request_t){i * SECOND / 10, 9 + i, 40, i, 0};
    }
    script[0].output_tokens         = 72; /* 9 + 71 rows: 20 pages */
    params.config.decode_pages      = 21;
    params.config.decode_host_pages = 100;
    homes                           = homes_of(&params);
    params.context                  = &homes;
    drive(&params, 1, &result);
    ck_assert_int_eq(result.n_failed, 0);
    ck_assert_int_gt(result.counters.offloads, 3);
    ck_assert_int_eq(result.counters.offloads, result.counters.resumes);
    ck_assert_int_eq(result.counters.reentries, 0);
    ck_assert_int_gt(result.partial_moves, 0);
}
END_TEST

/* 9.49 without a buffer it comes back as a new prompt; the same if its rank
 * cannot reserve the way there. */
static bool offloads_fail(void *context, const pl_op_t *op, bool at_end)
{
    (void)context;
    return (op->kind == PL_OP_OFFLOAD) && !at_end;
}

START_TEST(without_a_buffer_it_comes_back_as_a_prompt)
{
    drive_request_t script[6] = {{0}};
    drive_params_t params     = scene(script, N(script));
    drive_result_t result;

    for (int32_t i = 0; i < N(script); i++) {
        script[i] = (drive_request_t){0, 9 + i, 40, i, 0};
    }
    params.config.decode_pages      = 21;
    params.config.decode_host_pages = _i == 0 ? 0 : 100;
    params.fails                    = _i == 0 ? NULL : offloads_fail;
    drive(&params, 1, &result);
    ck_assert_int_eq(result.n_failed, 0);
    ck_assert_int_gt(result.counters.reentries, 0);
    ck_assert_int_eq(result.counters.resumes, 0);
    ck_assert_int_eq(result.counters.offloads > 0, _i == 1);
}
END_TEST

/* 9.49 what was preempted and no longer fits the lanes is a failed request, no
 * assertion, and the others go on. */
START_TEST(what_no_longer_fits_fails_alone)
{
    static const drive_request_t script[] = {
        {0, 16, 20, 0, 0}, {0, 16, 20, 1, 0}, {9 * SECOND, 16, 20, 2, 0}};
    drive_params_t params = scene(script, N(script));
    drive_result_t result;

    params.config.n_prefill    = 1;
    params.config.device_pages = 5; /* the prompt, not a token more */
    params.config.decode_pages = 11;
    drive(&params, 1, &result);
    ck_assert_int_eq(result.n_failed, 1);
    ck_assert_int_eq(result.n_unfit, 1);
    ck_assert_int_eq(result.counters.reentries, 0);
}
END_TEST

/* The same when it is the only one that runs, and nothing else is under way:
 * who is next starts in the next tick. */
START_TEST(the_next_one_starts_when_the_last_one_fails)
{
    static const drive_request_t script[] = {{0, 16, 20, 0, 0},
                                             {0, 16, 20, 1, 0}};
    drive_params_t params                 = scene(script, N(script));
    drive_result_t result;

    params.config.n_prefill    = 1;
    params.config.device_pages = 5;
    params.config.decode_pages = 11;
    params.config.max_batch    = 1;
    drive(&params, 1, &result);
    ck_assert_int_eq(result.n_failed, 1);
    ck_assert_int_eq(result.n_unfit, 1);
}
END_TEST

TCase *homes_case(void)
{
    TCase *tcase = tcase_create("homes");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_emptiest_home_is_taken);
    tcase_add_test(tcase, decode_grows_a_page_at_a_time);
    tcase_add_test(tcase, the_youngest_goes_and_resumes_come_first);
    tcase_add_loop_test(tcase, without_a_buffer_it_comes_back_as_a_prompt, 0,
                        2);
    tcase_add_test(tcase, what_no_longer_fits_fails_alone);
    tcase_add_test(tcase, the_next_one_starts_when_the_last_one_fails);
    return tcase;
}
