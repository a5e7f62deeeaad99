/* Chunks and admission: which pages, how many, and when. */
#include "scene.h"

#include <string.h>

#define N(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

/* ---- one prefix, once ---- */

/* 9.17, with the prefix a cached page: rank r's two blocks end where attention
 * may look to, the prefix counted once. */
static void look_at_blocks(void *context, const pl_engine_t *engine,
                           const pl_plan_t *plan)
{
    static const int32_t ends[] = {1,    460,  919,  1378, 1837,
                                   2296, 2755, 3213, 3671};
    int *seen                   = context;

    (void)engine;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        if ((op->kind != PL_OP_PREFILL) || (op->request != 3)) {
            continue;
        }
        ck_assert_int_eq(op->first_token, 1);
        ck_assert_int_eq(op->n_tokens, 3670);
        ck_assert_int_eq(op->n_pages, 3671);
        for (int block = 0; block < 8; block++) {
            int rank = block < 4 ? block : 7 - block;

            for (int32_t p = ends[block]; p < ends[block + 1]; p++) {
                if (pl_page_owner(op->pages[p], 4) != rank) {
                    ck_abort_msg("position %d is not rank %d's", p, rank);
                }
            }
        }
        (*seen)++;
    }
}

START_TEST(the_prefix_counts_once)
{
    static const drive_request_t script[] = {{0, 2, 1, 0, 1},
                                             {0, 1, 1, 1, 0},
                                             {0, 1, 1, 2, 0},
                                             {SECOND, 3671, 1, 0, 1}};
    drive_params_t params                 = scene(script, N(script));
    drive_result_t result;
    int seen = 0;

    params.config.page_tokens           = 1;
    params.config.chunk_tokens          = 4096;
    params.config.device_pages          = 1000;
    params.config.decode_pages          = 4000;
    params.config.load_threshold_tokens = 1;
    params.context                      = &seen;
    params.plan                         = look_at_blocks;
    drive(&params, 1, &result);
    ck_assert_int_eq(seen, 1);
    ck_assert_int_eq(result.device_hits, 1);
}
END_TEST

/* ---- the tightest lane ---- */

typedef struct order {
    int64_t admitted[8]; /* [request] tick */
    int64_t sent[8];
} order_t;

static void note_order(void *context, const pl_event_t *event)
{
    order_t *order = context;

    if (event->kind == PL_EVENT_ADMIT) {
        order->admitted[event->request] = event->tick;
    } else if (event->kind == PL_EVENT_SENT) {
        order->sent[event->request] = event->tick;
    }
}

/* 9.10, 9.14: who would find room in the sum of the lanes, but not in its own,
 * waits until that lane gains; who needs another lane does not wait for it. */
START_TEST(admission_looks_at_each_lane)
{
    /* All pages of a prompt in one lane: 0, 1, 0. */
    static const drive_request_t script[] = {
        {0, 32, 1, 0, 0}, {0, 32, 1, 1, 0}, {0, 32, 1, 2, 0}};
    drive_params_t params = scene(script, N(script));
    drive_result_t result;
    order_t order;

    params.config.n_prefill = 2;
    params.config.ownership = (pl_ownership_t){PL_OWNERSHIP_INTERLEAVE, 1000};
    params.config.chunk_tokens                      = 32;
    params.config.device_pages                      = 9;
    params.config.host_pages                        = 0;
    params.config.costs.link_latency_ns[PL_LINK_PD] = SECOND;
    params.context                                  = &order;
    params.event                                    = note_order;
    drive(&params, 1, &result);
    ck_assert_int_lt(order.admitted[1], order.sent[0]);
    ck_assert_int_ge(order.admitted[2], order.sent[0]);
    ck_assert_int_lt(order.admitted[2], order.sent[1]);
    ck_assert_int_gt(result.cache.evictions, 0);
}
END_TEST

/* ---- hits that have no room ---- */

typedef struct cut {
    pl_record_t record; /* of request 1 */
    int64_t cuts;
} cut_t;

static void note_record(void *context, const pl_engine_t *engine,
                        const pl_plan_t *plan)
{
    (void)plan;
    ((cut_t *)context)->record = *pl_engine_record(engine, 1);
}

/* 9.8, 9.14: a hit whose lanes leave no room for the rest is cut from its end,
 * no more than needed, and the rest fits: although the tree still has the pages
 * that were cut off, in the lane that is short. */
START_TEST(a_hit_is_cut_where_its_lane_has_no_room)
{
    /* Request 0 leaves pages in lanes 0 1 0.  Request 1 goes on from there with
     * 0 1 0 1 0: five in lane 0, which has four.  From 0 1 it goes on with
     * 1 0 1 0 1 0. */
    static const drive_request_t script[] = {{0, 13, 1, 0, 3},
                                             {SECOND, 29, 1, 0, 3}};
    drive_params_t params                 = scene(script, N(script));
    drive_result_t result;
    cut_t cut;

    params.config.n_prefill    = 2;
    params.config.chunk_tokens = 4;
    params.config.device_pages = 5;
    params.config.host_pages   = _i * 64;
    params.context             = &cut;
    params.plan                = note_record;
    drive(&params, 1, &result);
    ck_assert_int_eq(result.counters.hit_cuts, 1);
    ck_assert_int_eq(cut.record.cut_pages, 1);
    ck_assert_int_eq(cut.record.device_hit_tokens, 8);
    ck_assert_int_eq(cut.record.miss_pages[PL_MISS_LANE], 1);
    ck_assert_int_eq(cut.record.miss_pages[PL_MISS_NEW], 4);
    ck_assert_int_eq(cut.record.miss_pages[PL_MISS_LAST], 1);
}
END_TEST

/* ---- evict, recompute, evict, load ---- */

typedef struct adoption {
    pl_owner_t copied[8]; /* owners of the first copy, by position */
    pl_owner_t adopted[8];
    int64_t n_adopted, n_loaded;
} adoption_t;

static void note_adoption(void *context, const pl_event_t *event)
{
    adoption_t *seen = context;

    for (int32_t i = 0; i < event->n_pages; i++) {
        if (event->kind == PL_EVENT_ADOPT) {
            int64_t at = event->value2 + i;

            ck_assert_int_lt(at, 8);
            seen->adopted[at] = pl_page_owner(event->pages[i], 4);
            seen->n_adopted++;
        }
    }
}

static void look_at_copies(void *context, const pl_engine_t *engine,
                           const pl_plan_t *plan)
{
    adoption_t *seen = context;

    (void)engine;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        for (int32_t p = 0; p < op->n_pages; p++) {
            if ((op->kind == PL_OP_BACKUP) && (op->first_page + p < 8) &&
                (plan->now_ns < SECOND)) {
                seen->copied[op->first_page + p] = op->owners[p];
            } else if ((op->kind == PL_OP_LOAD) && (op->request == 5)) {
                ck_assert_int_eq(op->owners[p],
                                 seen->copied[op->first_page + p]);
                seen->n_loaded++;
            }
        }
    }
}

/* 9.28, 9.36: a node that was evicted, computed anew in other lanes (its host
 * hit is below the threshold) and evicted again comes back as its host copy
 * says, not as it lay on device. */
START_TEST(a_copy_keeps_its_owners_through_recomputation)
{
    static const drive_request_t script[] = {
        {0 * SECOND, 33, 1, 0, 8},  {1 * SECOND, 173, 1, 1, 0},
        {2 * SECOND, 173, 1, 2, 0}, {3 * SECOND, 13, 1, 0, 3},
        {4 * SECOND, 173, 1, 3, 0}, {5 * SECOND, 33, 1, 0, 8}};
    drive_params_t params = scene(script, N(script));
    drive_result_t result;
    adoption_t seen;

    memset(&seen, 0, sizeof(seen));
    params.config.device_pages          = 12;
    params.config.load_threshold_tokens = 16;
    params.context                      = &seen;
    params.event                        = note_adoption;
    params.plan                         = look_at_copies;
    drive(&params, 1, &result);
    ck_assert_int_eq(seen.n_adopted, 3);
    ck_assert_int_eq(seen.n_loaded, 8);
    ck_assert_int_eq(result.cache.loads, 1);
    ck_assert_mem_ne(seen.adopted, seen.copied, 3);
}
END_TEST

TCase *lanes_case(void)
{
    TCase *tcase = tcase_create("lanes");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_prefix_counts_once);
    tcase_add_test(tcase, admission_looks_at_each_lane);
    tcase_add_loop_test(tcase, a_hit_is_cut_where_its_lane_has_no_room, 0, 2);
    tcase_add_test(tcase, a_copy_keeps_its_owners_through_recomputation);
    return tcase;
}
