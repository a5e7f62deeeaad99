/* An engine as one instance of several: what it is given, and what it says. */
#include "scene.h"

#include <string.h>

#include "engine/port.h"

enum { PREFILL, DECODE, INSTANCES, REQUESTS = 4, LINK_NS = 7000000 };

/* One instance of each kind, and a link on which all takes the same time. */
typedef struct pair {
    pl_request_t requests[REQUESTS];
    int32_t n;
    int32_t alike[REQUESTS]; /* those of the same are the same prompt; 0: its
                                own */
    int32_t device_pages;    /* 0: plenty */
    bool loads_fail;
    int64_t now_ns;
    pl_engine_port_t ports[INSTANCES];
    pl_engine_t *engines[INSTANCES];
    int64_t sent_op;
    bool all_sent;
    int64_t sent_bytes;
    int32_t refusals, released, prefilled, delivered, reentered, finished;
    pl_handover_t given[REQUESTS]; /* last */
} pair_t;

static const pl_request_t *get_request(void *context, int32_t i)
{
    return &((pair_t *)context)->requests[i];
}

static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    int32_t alike = ((pair_t *)context)->alike[i];

    (void)page_tokens;
    for (int32_t p = 0; p < n; p++) {
        keys[p] =
            (pl_page_key_t){alike > 0 ? (uint64_t)alike << 32 : (uint64_t)i + 1,
                            (uint64_t)(first + p)};
    }
}

static pl_status_t reserve(void *context, int32_t request,
                           int32_t prompt_tokens, bool *ok_p)
{
    pair_t *pair = context;
    pl_status_t status =
        pl_engine_reserve(pair->engines[DECODE], request, prompt_tokens);

    *ok_p = status == PL_OK;
    pair->refusals += !*ok_p;
    return status == PL_REFUSED_SHORT ? PL_OK : status;
}

static pl_status_t release(void *context, int32_t request)
{
    pair_t *pair = context;

    pair->released++;
    return pl_engine_withdraw(pair->engines[DECODE], request,
                              pl_engine_now_ns(pair->engines[PREFILL]));
}

static pl_status_t do_send(void *context, int32_t request, int64_t op,
                           int64_t bytes, bool last)
{
    pair_t *pair = context;

    (void)request;
    pair->all_sent = last;
    pair->sent_op  = op;
    pair->sent_bytes += bytes;
    return PL_OK;
}

static pl_status_t prefilled(void *context, int32_t request)
{
    (void)request;
    ((pair_t *)context)->prefilled++;
    return PL_OK;
}

static pl_status_t delivered(void *context, int32_t request, bool good)
{
    pair_t *pair           = context;
    pl_engine_t *prefill   = pair->engines[PREFILL];
    pl_handover_t handover = pair->given[request];

    ck_assert(good);
    ck_assert(pair->all_sent);
    pair->delivered++;
    handover.first_token_ns =
        pl_engine_record(prefill, request)->first_token_ns;
    return pl_engine_enter(pair->engines[DECODE], &handover,
                           pl_engine_now_ns(prefill));
}

static void give(pair_t *pair, const pl_handover_t *handover, int64_t at_ns)
{
    pair->given[handover->request] = *handover;
    ck_assert_int_eq(pl_engine_give(pair->engines[PREFILL], handover, at_ns),
                     PL_OK);
}

static pl_status_t reentered(void *context, const pl_handover_t *so_far)
{
    pair_t *pair = context;

    pair->reentered++;
    give(pair, so_far, pl_engine_now_ns(pair->engines[DECODE]));
    return PL_OK;
}

static pl_status_t finished(void *context, int32_t request, bool failed)
{
    (void)request;
    ck_assert(!failed);
    ((pair_t *)context)->finished++;
    return PL_OK;
}

static void open_instance(pair_t *pair, int which, pl_engine_config_t config)
{
    pl_engine_source_t source = {pair, pair->n, get_request, get_keys};
    pl_event_sink_t nowhere   = {0};

    pair->ports[which] = (pl_engine_port_t){
        pair,      reserve,   release,  do_send, prefilled,
        delivered, reentered, finished, NULL,
    };
    config.port = &pair->ports[which];
    ck_assert_int_eq(pl_engine_open(&config, &source, NULL, nowhere, NULL,
                                    &pair->engines[which]),
                     PL_OK);
}

static void open_pair(pair_t *pair, int32_t decode_pages)
{
    drive_params_t params     = scene(NULL, 0);
    pl_engine_config_t config = params.config;

    config.role     = PL_ROLE_PREFILL;
    config.n_decode = 0;
    if (pair->device_pages > 0) {
        config.device_pages = pair->device_pages;
    }
    open_instance(pair, PREFILL, config);
    config.role         = PL_ROLE_DECODE;
    config.n_decode     = 1;
    config.decode_pages = decode_pages;
    open_instance(pair, DECODE, config);
}

static void add_request(pair_t *pair, int32_t input, int32_t output)
{
    pair->requests[pair->n++] = (pl_request_t){
        .input_tokens = input, .output_tokens = output, .line = pair->n + 1};
}

static void arrive(pair_t *pair, int32_t request, int64_t at_ns)
{
    pl_handover_t handover = pl_handover_of(&pair->requests[request], request);

    give(pair, &handover, at_ns);
}

/* Of instances whose next tick is the earliest, the first; -1: all rest. */
static int soonest(const pair_t *pair)
{
    int64_t next[INSTANCES] = {pl_engine_next_ns(pair->engines[PREFILL]),
                               pl_engine_next_ns(pair->engines[DECODE])};

    if ((next[PREFILL] == INT64_MAX) && (next[DECODE] == INT64_MAX)) {
        return -1;
    }
    return next[PREFILL] <= next[DECODE] ? PREFILL : DECODE;
}

static void tick(pair_t *pair, int which)
{
    uint64_t outcome[64] = {0};
    pl_engine_t *engine  = pair->engines[which];
    pl_plan_t *plan      = NULL;

    ck_assert_int_eq(pl_engine_plan(engine, &plan), PL_OK);
    ck_assert_int_le(pl_plan_words(plan), 64);
    ck_assert_int_ge(pl_engine_now_ns(engine), pair->now_ns);
    pair->now_ns = pl_engine_now_ns(engine);
    for (int32_t i = 0; pair->loads_fail && (i < plan->n_ops); i++) {
        if (plan->ops[i].kind == PL_OP_LOAD) {
            outcome[i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
    ck_assert_int_eq(pl_engine_commit(engine, outcome), PL_OK);
    ck_assert_int_eq(pl_engine_check(engine), PL_OK);
    if (pair->sent_op != 0) {
        int64_t op    = pair->sent_op;
        pair->sent_op = 0;
        pl_engine_sent(engine, op, pl_engine_now_ns(engine) + LINK_NS);
    }
}

static void run(pair_t *pair)
{
    for (int which; (which = soonest(pair)) >= 0;) {
        int32_t before = pair->finished;

        tick(pair, which);
        if (pair->finished > before) {
            pl_engine_nudge(pair->engines[PREFILL],
                            pl_engine_now_ns(pair->engines[DECODE]));
        }
    }
}

static void close_pair(pair_t *pair)
{
    for (int i = 0; i < INSTANCES; i++) {
        ck_assert(pl_engine_done(pair->engines[i]));
        pl_engine_close(pair->engines[i]);
    }
}

/* Nothing but what is given happens, and when it does is told by the table of
 * costs and the link. */
START_TEST(a_request_goes_from_one_to_the_other)
{
    pair_t pair = {0};
    const pl_record_t *at_prefill, *at_decode;
    const pl_costs_t *costs;
    int64_t step_ns;

    add_request(&pair, 30, 3);
    open_pair(&pair, 257);
    run(&pair);
    ck_assert_int_eq(pair.finished, 0);
    arrive(&pair, 0, SECOND);
    run(&pair);

    costs      = &pl_engine_config(pair.engines[PREFILL])->costs;
    at_prefill = pl_engine_record(pair.engines[PREFILL], 0);
    at_decode  = pl_engine_record(pair.engines[DECODE], 0);
    ck_assert_int_eq(at_prefill->arrival_ns, SECOND);
    ck_assert_int_eq(at_prefill->admitted_ns, SECOND);
    ck_assert_int_eq(at_prefill->first_token_ns,
                     SECOND + pl_cost_prompt_ns(costs, 4, 16, 0, 30));
    ck_assert_int_eq(at_decode->decode_ns,
                     at_prefill->first_token_ns + LINK_NS);
    step_ns = pl_cost_decode_ns(costs, 1, 30, NULL) +
              pl_cost_decode_ns(costs, 1, 31, NULL);
    ck_assert_int_eq(at_decode->finished_ns, at_decode->decode_ns + step_ns);
    ck_assert_int_eq(at_decode->generated_tokens, 3);
    ck_assert_int_eq(pair.sent_bytes, 8 * 4000); /* of 8 pages */
    ck_assert_int_eq(pair.prefilled, 1);
    ck_assert_int_eq(pair.delivered, 1);
    ck_assert_int_eq(pair.finished, 1);
    close_pair(&pair);
}
END_TEST

/* Room for one: the other is admitted when the first has ended. */
START_TEST(who_finds_no_home_waits)
{
    pair_t pair = {0};

    add_request(&pair, 30, 3);
    add_request(&pair, 30, 3);
    open_pair(&pair, 1 + 10);
    arrive(&pair, 0, 0);
    arrive(&pair, 1, 0);
    run(&pair);
    ck_assert_int_gt(pair.refusals, 0);
    ck_assert_int_eq(pair.finished, 2);
    ck_assert_int_ge(pl_engine_record(pair.engines[PREFILL], 1)->admitted_ns,
                     pl_engine_record(pair.engines[DECODE], 0)->finished_ns);
    close_pair(&pair);
}
END_TEST

/* Two that outgrow the pool together: the younger goes back to prefill with
 * what it has said, and ends with all its tokens. */
START_TEST(who_gives_up_its_pages_comes_back)
{
    pair_t pair = {0};

    add_request(&pair, 30, 12);
    add_request(&pair, 30, 12);
    open_pair(&pair, 1 + 18);
    arrive(&pair, 0, 0);
    arrive(&pair, 1, 0);
    run(&pair);
    ck_assert_int_eq(pair.reentered, 1);
    ck_assert_int_eq(pair.finished, 2);
    ck_assert_int_eq(pair.delivered, 3);
    ck_assert_int_gt(pair.given[1].generated, 1);
    ck_assert_int_eq(pair.given[1].prompt_tokens, 30 + pair.given[1].generated);
    ck_assert_int_eq(
        pl_engine_record(pair.engines[DECODE], 1)->generated_tokens, 12);
    close_pair(&pair);
}
END_TEST

/* A load-back that some rank has no room for: the place to decode is given back
 * to an instance that rests, then found again. */
START_TEST(who_is_admitted_anew_lets_its_place_go)
{
    pair_t pair = {.device_pages = 9, .loads_fail = true};

    add_request(&pair, 64, 2);
    add_request(&pair, 120, 2);
    add_request(&pair, 64, 2);
    pair.alike[0] = pair.alike[2] = 1;
    open_pair(&pair, 257);
    for (int32_t i = 0; i < 3; i++) {
        arrive(&pair, i, i * SECOND);
        run(&pair);
        ck_assert_int_eq(pair.finished, i + 1);
    }
    ck_assert_int_eq(pair.released, 1);
    ck_assert_int_eq(pl_engine_record(pair.engines[PREFILL], 2)->readmissions,
                     1);
    ck_assert_int_eq(pair.delivered, 3);
    close_pair(&pair);
}
END_TEST

/* A router asks without leaving a trace. */
START_TEST(peeking_changes_nothing)
{
    pair_t pair = {0};
    pl_page_key_t keys[8];
    uint64_t before;

    add_request(&pair, 32, 1);
    open_pair(&pair, 257);
    get_keys(&pair, 0, 4, 0, 8, keys);
    ck_assert_int_eq(pl_engine_peek(pair.engines[PREFILL], 0, keys, 8), 0);
    arrive(&pair, 0, 0);
    run(&pair);
    before = pl_engine_state_hash(pair.engines[PREFILL]);
    /* Its last token is always computed. */
    ck_assert_int_eq(pl_engine_peek(pair.engines[PREFILL], 0, keys, 8), 28);
    ck_assert_int_eq(pl_engine_peek(pair.engines[PREFILL], 0, keys, 3), 12);
    ck_assert_uint_eq(pl_engine_state_hash(pair.engines[PREFILL]), before);
    close_pair(&pair);
}
END_TEST

TCase *port_case(void)
{
    TCase *tcase = tcase_create("port");

    tcase_add_test(tcase, a_request_goes_from_one_to_the_other);
    tcase_add_test(tcase, who_finds_no_home_waits);
    tcase_add_test(tcase, who_gives_up_its_pages_comes_back);
    tcase_add_test(tcase, who_is_admitted_anew_lets_its_place_go);
    tcase_add_test(tcase, peeking_changes_nothing);
    return tcase;
}
