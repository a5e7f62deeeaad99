/* The handover, decode, preemption, and operations that are cancelled. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "test_exec.h"

static const rig_point_t points[] = {
    {3, 1, 16, "cpu"}, {8, 2, 16, "guard"}, {3, 0, 16, "far"}};

/* ---- one handover, positions ---- */

static struct {
    const pl_comm_ops_t *inner;
    pl_comm_ops_t ops;
} counting; /* the table is the same on all ranks; set before they start */

typedef struct traffic {
    int handovers, page_messages;
} traffic_t;

static traffic_t sent[PL_MAX_RANKS]; /* by each rank */

static pl_status_t count_send(pl_comm_t *self, int to, int tag,
                              const void *bytes, size_t n,
                              pl_message_t *message_p)
{
    sent[self->rank].handovers += tag == 2 ? 1 : 0;
    sent[self->rank].page_messages += tag == 1 ? 1 : 0;
    return counting.inner->send(self, to, tag, bytes, n, message_p);
}

/* 9.40 each owner sends its pages with their positions; 9.41 exactly one rank
 * hands the first token over; ranks without pages send nothing and the transfer
 * ends all the same */
static void few_pages(rig_t *rig, void *context)
{
    traffic_t *total  = context;
    rig_pages_t cold  = {.n = 0};
    rig_pages_t to    = {.n = 0};
    uint64_t words[3] = {0};
    bool owns         = false;

    memset(&sent[rig->comm->rank], 0, sizeof(*sent));
    RIG_CHECK(rig, pl_comm_barrier(rig->comm) == PL_OK);
    if (rig->comm->rank == 0) {
        counting.inner    = rig->comm->ops;
        counting.ops      = *rig->comm->ops;
        counting.ops.send = count_send;
    }
    RIG_CHECK(rig, pl_comm_barrier(rig->comm) == PL_OK);
    rig->comm->ops = &counting.ops;
    rig_prefill_cold(rig, &cold, 0);
    rig_send_all(rig, &cold, &to, 0);
    rig->comm->ops = counting.inner;

    for (int32_t i = 0; i < cold.n; i++) {
        owns = owns || (cold.owners[i] == rig->comm->rank);
    }
    RIG_CHECK(rig, sent[rig->comm->rank].page_messages == (owns ? 1 : 0));
    words[0] = (uint64_t)sent[rig->comm->rank].handovers;
    words[1] = (uint64_t)sent[rig->comm->rank].page_messages;
    words[2] = owns ? 0 : 1;
    RIG_CHECK(rig, pl_comm_sum(rig->comm, words, 3) == PL_OK);
    RIG_CHECK(rig, words[0] == 1);
    RIG_CHECK(rig, words[2] > 0);
    if (rig->comm->rank == 0) {
        total->handovers     = (int)words[0];
        total->page_messages = (int)words[1];
    }
}

START_TEST(one_rank_hands_over)
{
    char failed[512];
    rig_point_t point   = {8, 1, 16, "cpu"};
    rig_params_t params = rig_params_of(&point, PL_VERIFY_DIGEST);
    traffic_t total     = {0, 0};

    ck_assert_str_eq(rig_run(&params, few_pages, &total, failed), "");
    ck_assert_int_eq(total.handovers, 1);
    ck_assert_int_le(total.page_messages, 4);
}
END_TEST

/* 9.42 a last send without pages still ends the transfer; sends may end in any
 * order (--explore) */
static void empty_last_send(rig_t *rig, void *context)
{
    const bool *last_first = context;
    rig_pages_t cold       = {.n = 0};
    rig_pages_t to         = {.n = 0};
    int64_t pages, last;
    bool has_digest;

    rig_prefill_cold(rig, &cold, 0);
    rig_decode_pages(rig, &to, cold.n + 1);
    pages = rig_send(rig, &cold, &to, 0, rig_home(rig), 0, RIG_PROMPT, false);
    rig_tick(rig);
    last =
        rig_send(rig, &cold, &to, 0, rig_home(rig), cold.n, RIG_PROMPT, true);
    rig->ops[0].first_token = RIG_PROMPT;
    rig->ops[0].n_tokens    = 0;
    rig_tick(rig);
    rig_due(rig, *last_first ? last : pages, PL_OP_SEND);
    rig_tick(rig);
    has_digest = rig->executor->ops->result(rig->executor, 0).has_digest;
    RIG_CHECK(rig, !has_digest);
    rig_due(rig, *last_first ? pages : last, PL_OP_SEND);
    rig_tick(rig);
    has_digest = rig->executor->ops->result(rig->executor, 0).has_digest;
    RIG_CHECK(rig, has_digest == (rig->comm->rank == rig_home(rig)));
    RIG_CHECK(rig, rig_violations(rig).n == 0);
}

START_TEST(last_send_may_be_empty)
{
    char failed[512];
    bool last_first     = _i % 2 == 1;
    rig_params_t params = rig_params_of(&points[_i / 2], PL_VERIFY_DIGEST);

    ck_assert_str_eq(rig_run(&params, empty_last_send, &last_first, failed),
                     "");
}
END_TEST

/* ---- decode, preemption ---- */

static void step(rig_t *rig, const rig_pages_t *to, int32_t request,
                 int32_t position)
{
    pl_op_t *op = rig_op(rig, PL_OP_DECODE, request);

    op->pages       = to->pages;
    op->n_pages     = position / rig->params->page_tokens + 1;
    op->first_token = position;
    op->n_tokens    = 1;
    op->home        = rig_home(rig);
    rig_tick(rig);
}

static void pool_copy(rig_t *rig, pl_op_kind_t kind, const rig_pages_t *pool,
                      const rig_pages_t *buffer, int32_t request, int32_t rows)
{
    pl_op_t *op = rig_op(rig, kind, request);
    int64_t id  = op->id;

    op->pages = pool->pages;
    op->other = buffer->pages;
    op->n_pages =
        (rows + rig->params->page_tokens - 1) / rig->params->page_tokens;
    op->n_tokens = rows;
    op->home     = rig_home(rig);
    rig_tick(rig);
    rig_due(rig, id, kind);
    rig_tick(rig);
}

/* To the host buffer and back, into other pages than before; `damages` one bit
 * of the index store on the way. */
static void preempt(rig_t *rig, rig_pages_t *to, int32_t request, int32_t rows,
                    bool damages)
{
    pl_owner_t owners[RIG_ROOM] = {0};
    int32_t home                = rig_home(rig);
    rig_pages_t buffer          = {.n = 0};
    rig_pages_t old             = *to;
    rig_pages_t hole            = {.n = 0};

    rig_take(rig->decode_host_lanes[home], owners, old.n, &buffer);
    pool_copy(rig, PL_OP_OFFLOAD, to, &buffer, request, rows);
    if (damages && (rig->comm->rank == home)) {
        pl_store_page(pl_data_store(rig->executor, PL_FREED_DECODE_HOST),
                      PL_STORE_INDEX, 1, buffer.pages[0])[0] ^= 1;
    }
    RIG_CHECK(rig, pl_lanes_free(rig->decode_lanes[home], old.pages, NULL,
                                 old.n) == PL_OK);
    for (int32_t i = 0; i < old.n; i++) {
        rig_freed(rig, PL_FREED_DECODE, home, old.pages[i]);
    }
    rig_tick(rig);
    rig_take(rig->decode_lanes[home], owners, 1, &hole);
    to->n = 0;
    rig_take(rig->decode_lanes[home], owners, old.n, to);
    pool_copy(rig, PL_OP_RESUME, to, &buffer, request, rows);
}

/* As a new prompt: asked, and said so far. */
static void reenter(rig_t *rig, rig_pages_t *to, int32_t request, int32_t end)
{
    pl_op_t *op       = rig_op(rig, PL_OP_REENTER, request);
    rig_pages_t pages = {.n = 0};
    int32_t home      = rig_home(rig);
    int64_t id;

    op->n_tokens = end;
    op->home     = home;
    rig_tick(rig);
    rig_extend(rig, &pages, request, 0, end);
    rig_prefill(rig, &pages, request, 0, end, true, 0);
    rig_tick(rig);
    to->n = 0;
    rig_decode_pages(rig, to, pages.n + 1);
    id = rig_send(rig, &pages, to, request, home, 0, end, true);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_SEND);
    rig_tick(rig);
}

#define STEPS 20

/* 9.50 the way to the host buffer and back keeps index pages and the partial
 * page; a request that comes back as a new prompt says the same */
static void decoding(rig_t *rig, void *context)
{
    int32_t *tokens = context; /* [3][STEPS + 1] */
    rig_pages_t pages[3];
    rig_pages_t to[3];

    memset(pages, 0, sizeof(pages));
    memset(to, 0, sizeof(to));
    for (int32_t r = 0; r < 3; r++) {
        rig_prefill_cold(rig, &pages[r], r);
        rig_send_all(rig, &pages[r], &to[r], r);
        rig_decode_pages(rig, &to[r], 2);
        rig_free_device(rig, &pages[r]);
        for (int32_t s = 0; s < STEPS; s++) {
            if ((r == 1) && (s % 7 == 3)) {
                preempt(rig, &to[r], r, RIG_PROMPT + s, false);
            } else if ((r == 2) && (s % 9 == 4)) {
                /* The first token of the new prompt is this step's. */
                reenter(rig, &to[r], r, RIG_PROMPT + s + 1);
                rig_decode_pages(rig, &to[r], 2);
                continue;
            }
            step(rig, &to[r], r, RIG_PROMPT + s);
        }
    }
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    if (rig->comm->rank != rig_home(rig)) {
        return;
    }
    for (int32_t r = 0; r < 3; r++) {
        pl_exec_result_t result = rig->executor->ops->result(rig->executor, r);

        RIG_CHECK(rig, result.n_tokens == STEPS + 1);
        for (int32_t i = 0; i < result.n_tokens && i <= STEPS; i++) {
            tokens[r * (STEPS + 1) + i] = result.tokens[i];
        }
        for (int32_t i = 0; i * rig->params->page_tokens < RIG_PROMPT + STEPS;
             i++) {
            RIG_CHECK(rig, rig_holds(rig, PL_FREED_DECODE, to[r].pages[i], r, i,
                                     RIG_PROMPT + STEPS));
        }
    }
}

START_TEST(preempted_requests_say_the_same)
{
    char failed[512];
    int32_t tokens[3 * (STEPS + 1)] = {0};
    rig_params_t params = rig_params_of(&points[_i], PL_VERIFY_DIGEST);

    params.page_tokens = 16;
    ck_assert_str_eq(rig_run(&params, decoding, tokens, failed), "");
    for (int r = 1; r < 3; r++) {
        ck_assert_mem_eq(tokens + r * (STEPS + 1), tokens,
                         (STEPS + 1) * sizeof(*tokens));
    }
}
END_TEST

/* Nobody verifies, but a byte that got lost on the way changes what is said. */
static void damaged_buffer(rig_t *rig, void *context)
{
    int32_t *tokens = context; /* [2] */

    for (int32_t r = 0; r < 2; r++) {
        rig_pages_t pages = {.n = 0};
        rig_pages_t to    = {.n = 0};
        pl_exec_result_t result;

        rig_prefill_cold(rig, &pages, r);
        rig_send_all(rig, &pages, &to, r);
        rig_decode_pages(rig, &to, 1);
        rig_free_device(rig, &pages);
        preempt(rig, &to, r, RIG_PROMPT, r == 1);
        step(rig, &to, r, RIG_PROMPT);
        result = rig->executor->ops->result(rig->executor, r);
        if (rig->comm->rank == rig_home(rig)) {
            RIG_CHECK(rig, result.n_tokens == 2);
            tokens[r] = result.n_tokens == 2 ? result.tokens[1] : -1;
        }
    }
}

START_TEST(lost_byte_changes_what_is_said)
{
    char failed[512];
    int32_t tokens[2]   = {0, 0};
    rig_params_t params = rig_params_of(&points[0], PL_VERIFY_OFF);

    ck_assert_str_eq(rig_run(&params, damaged_buffer, tokens, failed), "");
    ck_assert_int_ne(tokens[0], tokens[1]);
}
END_TEST

/* ---- cancelled ---- */

/* An operation that a rank could not reserve leaves no trace on any. */
static void cancelled(rig_t *rig, void *context)
{
    rig_pages_t cold = {.n = 0}, host = {.n = 0}, to = {.n = 0};
    int32_t whole = (RIG_PROMPT - 1) / rig->params->page_tokens;

    (void)context;
    rig_prefill_cold(rig, &cold, 0);
    rig_take(rig->host_lanes, cold.owners, whole, &host);
    rig_decode_pages(rig, &to, cold.n + 1);
    rig_start_copy(rig, PL_OP_BACKUP, &cold, &host, whole);
    rig->ops[0].cancelled = true;
    rig_send(rig, &cold, &to, 0, rig_home(rig), 0, RIG_PROMPT, true);
    rig->ops[1].cancelled = true;
    rig_tick(rig);
    for (int32_t i = 0; i < whole; i++) {
        if (host.owners[i] == rig->comm->rank) {
            RIG_CHECK(rig, rig_is_poison(rig, PL_FREED_HOST,
                                         pl_page_slot(host.pages[i],
                                                      rig->params->n_prefill)));
        }
    }
    for (int32_t i = 0; (rig->comm->rank == rig_home(rig)) && (i < cold.n);
         i++) {
        RIG_CHECK(rig, rig_is_poison(rig, PL_FREED_DECODE, to.pages[i]));
    }
    RIG_CHECK(rig, !rig->executor->ops->result(rig->executor, 0).has_digest);
    /* The next attempt goes well. */
    to.n = 0;
    rig_send_all(rig, &cold, &to, 0);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    RIG_CHECK(rig, rig->executor->ops->result(rig->executor, 0).has_digest ==
                       (rig->comm->rank == rig_home(rig)));
}

START_TEST(cancelled_operations_leave_no_trace)
{
    char failed[512];
    rig_params_t params = rig_params_of(&points[_i], PL_VERIFY_DIGEST);

    ck_assert_str_eq(rig_run(&params, cancelled, NULL, failed), "");
}
END_TEST

TCase *decode_case(void)
{
    TCase *tcase = tcase_create("decode");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, one_rank_hands_over);
    tcase_add_loop_test(tcase, last_send_may_be_empty, 0, 6);
    tcase_add_loop_test(tcase, preempted_requests_say_the_same, 0, 3);
    tcase_add_test(tcase, lost_byte_changes_what_is_said);
    tcase_add_loop_test(tcase, cancelled_operations_leave_no_trace, 0, 3);
    return tcase;
}
