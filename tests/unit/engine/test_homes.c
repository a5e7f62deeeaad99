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

typedef struct places {
    int64_t admitted, finished; /* ticks of request 1 and 0 */
} places_t;

static void note_places(void *context, const pl_event_t *event)
{
    places_t *places = context;

    if ((event->kind == PL_EVENT_ADMIT) && (event->request == 1)) {
        places->admitted = event->tick;
    } else if ((event->kind == PL_EVENT_FINISH) && (event->request == 0)) {
        places->finished = event->tick;
    }
}

/* What decode gave back can be reserved in the same tick. */
START_TEST(a_place_is_taken_when_it_comes_free)
{
    static const drive_request_t script[] = {{0, 16, 4, 0, 0},
                                             {0, 16, 4, 1, 0}};
    drive_params_t params                 = scene(script, N(script));
    drive_result_t result;
    places_t places = {-1, -1};

    params.config.decode_pages = 6;
    params.context             = &places;
    params.event               = note_places;
    drive(&params, 1, &result);
    ck_assert_int_gt(places.finished, 0);
    ck_assert_int_eq(places.admitted, places.finished);
}
END_TEST

/* ---- growth ---- */

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

/* ---- preemption ---- */

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

/* ---- on the way to the buffer and back ---- */

static const struct {
    pl_op_kind_t kind;
    bool at_end;
} moves[] = {{PL_OP_OFFLOAD, false},
             {PL_OP_OFFLOAD, true},
             {PL_OP_RESUME, false},
             {PL_OP_RESUME, true}};

typedef struct bad_moves {
    int which;
    int n_left; /* that many times */
} bad_moves_t;

static bool move_fails(void *context, const pl_op_t *op, bool at_end)
{
    bad_moves_t *bad = context;

    if ((op->kind != moves[bad->which].kind) ||
        (at_end != moves[bad->which].at_end) || (bad->n_left == 0)) {
        return false;
    }
    bad->n_left--;
    return true;
}

/* 9.50 a rank that cannot reserve the way, or fails at it: nothing is lost. Who
 * could not be sent off goes on and, next time, comes back as a new prompt; who
 * could not be resumed is tried again. */
START_TEST(a_failed_move_loses_nothing)
{
    drive_request_t script[6] = {{0}};
    drive_params_t params     = scene(script, N(script));
    bad_moves_t bad           = {.which = _i, .n_left = 2};
    drive_result_t result;

    for (int32_t i = 0; i < N(script); i++) {
        script[i] = (drive_request_t){0, 9 + i, 40, i, 0};
    }
    params.config.decode_pages      = 21;
    params.config.decode_host_pages = 100;
    params.context                  = &bad;
    params.fails                    = move_fails;
    drive(&params, 1, &result);
    ck_assert_int_eq(bad.n_left, 0);
    ck_assert_int_eq(result.n_failed, 0);
    if (moves[_i].kind == PL_OP_RESUME) {
        ck_assert_int_eq(result.counters.reentries, 0);
        ck_assert_int_eq(result.counters.resumes, result.counters.offloads + 2);
    } else {
        ck_assert_int_eq(result.counters.resumes + 2, result.counters.offloads);
    }
}
END_TEST

/* 9.49 what was preempted and no longer fits the lanes is a failed request, no
 * assertion, and the others go on; lanes that are large enough are not cut down
 * to what the prompts alone would need. */
START_TEST(what_no_longer_fits_fails_alone)
{
    static const drive_request_t script[2][2] = {
        {{0, 16, 20, 0, 0}, {0, 16, 20, 1, 0}},
        {{0, 1, 40, 0, 0}, {0, 1, 40, 1, 0}}};
    drive_params_t params = scene(script[_i], 2);
    drive_result_t result;

    params.config.n_prefill = 1;
    /* The prompt, not a token more; or much more. */
    params.config.device_pages = _i == 0 ? 5 : 65;
    params.config.decode_pages = 11;
    drive(&params, 1, &result);
    ck_assert_int_eq(result.n_failed, _i == 0 ? 1 : 0);
    ck_assert_int_eq(result.n_unfit, result.n_failed);
    ck_assert_int_eq(result.counters.reentries > 0, _i == 1);
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
    tcase_add_loop_test(tcase, a_failed_move_loses_nothing, 0, 4);
    tcase_add_loop_test(tcase, what_no_longer_fits_fails_alone, 0, 2);
    tcase_add_test(tcase, a_place_is_taken_when_it_comes_free);
    tcase_add_test(tcase, the_next_one_starts_when_the_last_one_fails);
    return tcase;
}
