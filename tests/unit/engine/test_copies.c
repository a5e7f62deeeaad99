/* Copies that one rank cannot make: what becomes of their request. */
#include "scene.h"

#include <string.h>

#define N(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

/* What fails, and what is seen of it. */
typedef struct fault {
    pl_op_kind_t kind;
    int32_t request;
    bool at_end;
    int n; /* that many times */

    int64_t failed_op;
    int n_sends; /* of the request */
    int n_loads;
    bool known; /* one of them has failed, and all ranks have agreed on it */
    pl_record_t records[8];
    int32_t admitted[16]; /* in this order */
    int n_admitted;
} fault_t;

static bool fails(void *context, const pl_op_t *op, bool at_end)
{
    fault_t *fault = context;

    if ((fault->n == 0) || (op->kind != fault->kind) ||
        (op->request != fault->request) || (at_end != fault->at_end)) {
        return false;
    }
    fault->n--;
    fault->failed_op = op->id;
    return true;
}

static void look(void *context, const pl_engine_t *engine,
                 const pl_plan_t *plan)
{
    fault_t *fault = context;

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        /* 9.30 a chunk does not go on without its load-back, on any rank */
        ck_assert((op->kind != PL_OP_PREFILL) || (op->load == 0) ||
                  fault->at_end || (op->load != fault->failed_op) ||
                  op->cancelled);
        if ((op->kind == PL_OP_SEND) && (op->request == fault->request)) {
            ck_assert(!fault->known || op->cancelled);
            fault->n_sends++;
        }
        fault->n_loads +=
            (op->kind == PL_OP_LOAD) && (op->request == fault->request);
    }
    for (int32_t i = 0; i < pl_engine_n_requests(engine); i++) {
        fault->records[i] = *pl_engine_record(engine, i);
    }
}

static void note_end(void *context, const pl_event_t *event)
{
    fault_t *fault = context;

    if (event->kind == PL_EVENT_ADMIT) {
        ck_assert_int_lt(fault->n_admitted, 16);
        fault->admitted[fault->n_admitted++] = event->request;
    }
    fault->known =
        fault->known || ((event->kind == PL_EVENT_SENT) && (event->value == 0));
}

/* ---- load-back ---- */

/* 9.27, 9.30: one rank cannot reserve its part of a load-back, or fails at it:
 * on no rank is it done, the prompt is computed, and its misses have that
 * cause.  It comes first again.  A copy that was only refused is still good for
 * the next prompt; one that failed is not. */
START_TEST(a_failed_load_back_is_computed)
{
    static const drive_request_t script[] = {
        {0 * SECOND, 33, 1, 0, 8},  {1 * SECOND, 173, 1, 1, 0},
        {2 * SECOND, 33, 1, 0, 8},  {2 * SECOND, 5, 1, 3, 0},
        {3 * SECOND, 173, 1, 2, 0}, {4 * SECOND, 33, 1, 0, 8}};
    static const int32_t in_turn[] = {0, 1, 2, 2, 3, 4, 5};
    drive_params_t params          = scene(script, N(script));
    fault_t fault                  = {
                         .kind = PL_OP_LOAD, .request = 2, .at_end = _i == 1, .n = 1};
    drive_result_t result;

    params.config.device_pages = 12;
    params.context             = &fault;
    params.plan                = look;
    params.fails               = fails;
    params.event               = note_end;
    drive(&params, 1, &result);
    ck_assert_int_eq(fault.n, 0);
    ck_assert_int_eq(result.n_failed, 0);
    ck_assert_int_eq(result.cache.loads_failed, 1);
    ck_assert_int_eq(fault.records[2].readmissions, 1);
    ck_assert_int_eq(fault.records[2].host_hit_tokens, 0);
    ck_assert_mem_eq(fault.admitted, in_turn, sizeof(in_turn));
    /* Whether the copies are still there or gone because they were bad. */
    ck_assert_int_eq(fault.records[2].miss_pages[PL_MISS_FAILED], 8);
    ck_assert_int_eq(fault.records[2].miss_pages[PL_MISS_EVICTED], 0);
    ck_assert_int_eq(fault.records[5].host_hit_tokens, 32);
}
END_TEST

/* Host copies are passed over this once: the prompt that comes back with its
 * tokens, after its pages were evicted, is loaded. */
START_TEST(host_copies_are_passed_over_once)
{
    static const drive_request_t script[] = {
        {0, 33, 1, 0, 8},
        {SECOND, 173, 200, 1, 0}, /* runs on, and takes page after page */
        {2 * SECOND, 33, 150, 0, 8},
        {5 * SECOND / 2, 173, 1, 2, 0}};
    drive_params_t params = scene(script, N(script));
    fault_t fault         = {.kind = PL_OP_LOAD, .request = 2, .n = 1};
    drive_result_t result;

    params.config.device_pages = 12;
    params.config.decode_pages = 136;
    params.context             = &fault;
    params.plan                = look;
    params.fails               = fails;
    params.event               = note_end;
    drive(&params, 1, &result);
    ck_assert_int_eq(fault.records[2].readmissions, 1);
    ck_assert_int_eq(fault.records[2].reentries, 1);
    ck_assert_int_eq(fault.n_loads, 2);
}
END_TEST

/* ---- transfer ---- */

/* 9.44, 9.45, 9.47: a send that cannot be reserved, or fails, fails its request
 * for good, also if all later ones go well; nothing more is sent once that is
 * known; its pages serve the cache. */
START_TEST(a_failed_send_fails_its_request)
{
    static const drive_request_t script[] = {{0, 90, 9, 0, 22},
                                             {5 * SECOND, 90, 9, 0, 22}};
    drive_params_t params                 = scene(script, N(script));
    fault_t fault                         = {
                                .kind = PL_OP_SEND, .request = 0, .at_end = _i == 1, .n = 1};
    drive_result_t result;

    params.context = &fault;
    params.plan    = look;
    params.fails   = fails;
    params.event   = note_end;
    /* Its end comes when the second send is under way. */
    params.config.costs.link_latency_ns[PL_LINK_PD] = 8000000;
    drive(&params, 1, &result);
    ck_assert_int_eq(fault.n, 0);
    ck_assert_int_eq(result.n_failed, 1);
    ck_assert_int_eq(result.n_unfit, 0);
    ck_assert(fault.known);
    ck_assert_int_ge(fault.n_sends, 1 + _i); /* of six */
    ck_assert_int_lt(fault.n_sends, 6);
    ck_assert_int_eq(result.counters.sends_failed, 1);
    ck_assert(fault.records[0].failed);
    ck_assert_int_eq(fault.records[0].generated_tokens, 0);
    ck_assert(!fault.records[1].failed);
    ck_assert_int_eq(fault.records[1].device_hit_tokens, 88);
}
END_TEST

TCase *copies_case(void)
{
    TCase *tcase = tcase_create("copies");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_failed_load_back_is_computed, 0, 2);
    tcase_add_test(tcase, host_copies_are_passed_over_once);
    tcase_add_loop_test(tcase, a_failed_send_fails_its_request, 0, 2);
    return tcase;
}
