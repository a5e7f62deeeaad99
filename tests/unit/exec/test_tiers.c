/* Pages through all tiers, byte for byte, on plans written by hand. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/check_main.h"

/* ---- cold, backed up, evicted, loaded, sent
 * ----------------------------------------- */

typedef struct grid {
    int n_prefill, n_decode;
    int32_t page_tokens;
    const char *device;
} grid_t;

static const grid_t grid[] = {{1, 0, 16, "cpu"},   {2, 0, 16, "cpu"},
                              {4, 0, 16, "cpu"},   {8, 0, 16, "cpu"},
                              {3, 1, 16, "cpu"},   {8, 2, 16, "guard"},
                              {4, 1, 1, "cpu"},    {4, 1, 3, "cpu"},
                              {2, 1, 64, "guard"}, {4, 1, 10, "guard"}};

#define N_GRID ((int)(sizeof(grid) / sizeof(grid[0])))

#define PROMPT 49 /* tokens */

static void prefill_cold(rig_t *rig, rig_pages_t *pages, int32_t request)
{
    int32_t size = rig->params->page_tokens;
    int32_t cut  = PROMPT / size / 2 * size;

    if (cut > 0) {
        rig_extend(rig, pages, request, 0, cut);
        rig_prefill(rig, pages, request, 0, cut, false, 0);
        rig_tick(rig);
    }
    rig_extend(rig, pages, request, cut, PROMPT);
    rig_prefill(rig, pages, request, cut, PROMPT, true, 0);
    rig_tick(rig);
}

static void decode_pages(rig_t *rig, rig_pages_t *to, int32_t n)
{
    pl_owner_t owners[RIG_ROOM] = {0};

    rig_take(rig->decode_lanes[rig_home(rig)], owners, n, to);
}

static void send_all(rig_t *rig, const rig_pages_t *pages, rig_pages_t *to,
                     int32_t request)
{
    int64_t id;

    decode_pages(rig, to, pages->n + 1);
    id = rig_send(rig, pages, to, request, rig_home(rig), 0, PROMPT, true);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_SEND);
    rig_tick(rig);
    if (rig->comm->rank == rig_home(rig)) {
        for (int32_t i = 0; i < pages->n; i++) {
            RIG_CHECK(rig, rig_holds(rig, PL_FREED_DECODE, to->pages[i],
                                     request, i, PROMPT));
        }
    }
}

static int64_t start_copy(rig_t *rig, pl_op_kind_t kind,
                          const rig_pages_t *device, const rig_pages_t *host,
                          int32_t n)
{
    pl_op_t *op = rig_op(rig, kind, kind == PL_OP_LOAD ? 1 : -1);

    op->node    = 5;
    op->pages   = device->pages;
    op->other   = host->pages;
    op->owners  = host->owners;
    op->n_pages = n;
    return op->id;
}

static void back_up(rig_t *rig, const rig_pages_t *pages, rig_pages_t *host,
                    int32_t n)
{
    int64_t id;

    rig_take(rig->host_lanes, pages->owners, n, host);
    id = start_copy(rig, PL_OP_BACKUP, pages, host, n);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_BACKUP);
    rig_tick(rig);
    for (int32_t i = 0; i < n; i++) {
        if (host->owners[i] == rig->comm->rank) {
            RIG_CHECK(rig, rig_holds(rig, PL_FREED_HOST,
                                     pl_page_slot(host->pages[i],
                                                  rig->params->n_prefill),
                                     0, i, PROMPT));
        }
    }
}

/* 9.52 what became free is poison */
static void evict(rig_t *rig, rig_pages_t *pages)
{
    rig_pages_t gone = *pages;

    rig_free_device(rig, pages);
    rig_tick(rig);
    for (int32_t i = 0; i < gone.n; i++) {
        if ((gone.owners[i] == rig->comm->rank) &&
            (rig->params->verify != PL_VERIFY_OFF)) {
            RIG_CHECK(rig, rig_is_poison(rig, PL_FREED_DEVICE,
                                         pl_page_slot(gone.pages[i],
                                                      rig->params->n_prefill)));
        }
    }
}

typedef struct round_trip {
    uint64_t digest[2];
    int32_t token[2];
    int64_t checks;
} round_trip_t;

/* 9.53 byte oracle in every tier; 9.24 the index travels with the latent rows;
 * 9.27 saved owners; 9.25, 9.29 ranks without pages take part; 9.42 last chunk;
 * 9.54 cold == host hit == received */
static void round_trip(rig_t *rig, void *context)
{
    round_trip_t *out = context;
    int32_t whole     = (PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, hit = {.n = 0}, other = {.n = 0};
    rig_pages_t host = {.n = 0}, to = {.n = 0}, again = {.n = 0};
    int64_t load;

    prefill_cold(rig, &cold, 0);
    send_all(rig, &cold, &to, 0);
    back_up(rig, &cold, &host, whole);
    evict(rig, &cold);
    /* Something else takes the slots, so that the pages come back elsewhere. */
    rig_extend(rig, &other, 2, 0, rig->params->page_tokens);
    rig_take(rig->device_lanes, host.owners, whole, &hit);
    load = start_copy(rig, PL_OP_LOAD, &hit, &host, whole);
    rig_extend(rig, &hit, 1, whole * rig->params->page_tokens, PROMPT);
    rig_prefill(rig, &hit, 1, whole * rig->params->page_tokens, PROMPT, true,
                load);
    rig_tick(rig);
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
    send_all(rig, &hit, &again, 1);
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

static rig_params_t params_of(const grid_t *point, pl_verify_t verify)
{
    rig_params_t params = {.n_prefill     = point->n_prefill,
                           .n_decode      = point->n_decode,
                           .page_tokens   = point->page_tokens,
                           .prompt_tokens = PROMPT,
                           .device        = point->device,
                           .verify        = verify,
                           .same_prompts  = true};

    return params;
}

START_TEST(bytes_are_the_same_in_every_tier)
{
    char failed[512];
    round_trip_t first  = {{0}, {0}, 0};
    round_trip_t here   = {{0}, {0}, 0};
    rig_params_t base   = params_of(&grid[0], PL_VERIFY_DIGEST);
    rig_params_t params = params_of(&grid[_i], PL_VERIFY_DIGEST);

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
    char failed[512];
    round_trip_t first  = {{0}, {0}, 0};
    round_trip_t here   = {{0}, {0}, 0};
    rig_params_t base   = params_of(&grid[0], PL_VERIFY_DIGEST);
    rig_params_t params = params_of(&grid[4], modes[_i]);

    ck_assert_str_eq(rig_run(&base, round_trip, &first, failed), "");
    ck_assert_str_eq(rig_run(&params, round_trip, &here, failed), "");
    ck_assert_uint_eq(here.digest[1], first.digest[1]);
    ck_assert_int_eq(here.token[1], first.token[1]);
    ck_assert_int_eq(here.checks > 0, modes[_i] != PL_VERIFY_OFF);
}
END_TEST

/* ---- what goes wrong is seen, where it is
 * ------------------------------------------- */

typedef enum damage {
    HOST_BIT,       /* a bit of a host page */
    HOST_INDEX_BIT, /* the same in the index store: 9.24 */
    DEVICE_BIT,
    HOST_STALE,   /* another page was written over it */
    WRONG_OWNERS, /* load-back allocates elsewhere: the historical bug */
    NEVER_WRITTEN,
    LATE_OVERWRITE, /* the source changes under a late copy */
    DECODE_BIT,
    DAMAGES
} damage_t;

static void flip(rig_t *rig, int tier, int which, pl_page_t page, int n_lanes)
{
    if ((n_lanes == 1) || (pl_page_owner(page, n_lanes) == rig->comm->rank)) {
        uint8_t *bytes = pl_store_page(pl_data_store(rig->executor, tier),
                                       which, 1, pl_page_slot(page, n_lanes));

        bytes[3] ^= 1;
    }
}

typedef struct damaged {
    damage_t damage;
    pl_violations_t seen;
    pl_page_t page; /* that must be named */
} damaged_t;

static void load_and_read(rig_t *rig, rig_pages_t *host, int32_t whole,
                          damaged_t *out)
{
    int32_t size    = rig->params->page_tokens;
    rig_pages_t hit = {.n = 0};
    pl_owner_t owners[RIG_ROOM];
    int64_t load;

    memcpy(owners, host->owners, sizeof(owners));
    if (out->damage == WRONG_OWNERS) {
        owners[1] = (pl_owner_t)((owners[1] + 1) % rig->params->n_prefill);
    }
    rig_take(rig->device_lanes, owners, whole, &hit);
    load = start_copy(rig, PL_OP_LOAD, &hit, host, whole);
    rig_extend(rig, &hit, 1, whole * size, PROMPT);
    rig_prefill(rig, &hit, 1, whole * size, PROMPT, true, load);
    rig_tick(rig);
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
    if (out->damage == WRONG_OWNERS) {
        out->page = hit.pages[1];
    }
}

static void late_overwrite(rig_t *rig, rig_pages_t *host, damaged_t *out)
{
    rig_pages_t hit = {.n = 0};
    int64_t load;

    rig_take(rig->device_lanes, host->owners, 2, &hit);
    load = start_copy(rig, PL_OP_LOAD, &hit, host, 2);
    rig_tick(rig);
    flip(rig, PL_FREED_HOST, PL_STORE_LATENT, host->pages[1],
         rig->params->n_prefill);
    out->page = host->pages[1];
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
}

static void decode_bit(rig_t *rig, const rig_pages_t *cold, damaged_t *out)
{
    rig_pages_t to = {.n = 0};

    send_all(rig, cold, &to, 0);
    if (rig->comm->rank == rig_home(rig)) {
        flip(rig, PL_FREED_DECODE, PL_STORE_INDEX, to.pages[1], 1);
    }
    out->page = to.pages[1];
    RIG_CHECK(rig, rig->executor->ops->finish(rig->executor, 9) == PL_OK);
}

static void damaged(rig_t *rig, void *context)
{
    damaged_t *shared = context;
    damaged_t mine    = *shared;
    damaged_t *out    = rig->comm->rank == 0 ? shared : &mine;
    int n             = rig->params->n_prefill;
    int32_t whole     = (PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, host = {.n = 0};

    prefill_cold(rig, &cold, 0);
    back_up(rig, &cold, &host, whole);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    out->page = host.pages[1];
    switch (out->damage) {
    case HOST_BIT:
        flip(rig, PL_FREED_HOST, PL_STORE_LATENT, host.pages[1], n);
        load_and_read(rig, &host, whole, out);
        break;
    case HOST_INDEX_BIT:
        flip(rig, PL_FREED_HOST, PL_STORE_INDEX, host.pages[1], n);
        load_and_read(rig, &host, whole, out);
        break;
    case HOST_STALE:
        RIG_CHECK(rig, pl_lanes_free(rig->host_lanes, &host.pages[1], NULL,
                                     1) == PL_OK);
        host.n = 1;
        rig_take(rig->host_lanes, host.owners + 1, 1, &host);
        host.n    = whole;
        out->page = host.pages[1];
        load_and_read(rig, &host, whole, out);
        break;
    case WRONG_OWNERS:
        load_and_read(rig, &host, whole, out);
        break;
    case LATE_OVERWRITE:
        late_overwrite(rig, &host, out);
        break;
    case DECODE_BIT:
        decode_bit(rig, &cold, out);
        break;
    case DEVICE_BIT:
        flip(rig, PL_FREED_DEVICE, PL_STORE_LATENT, cold.pages[1], n);
        out->page = cold.pages[1];
        rig_prefill(rig, &cold, 0, PROMPT / 16 * 16, PROMPT, true, 0);
        rig_tick(rig);
        break;
    default: /* NEVER_WRITTEN: a page that was taken and not filled */
        cold.n = whole;
        rig_extend(rig, &cold, 0, whole * rig->params->page_tokens,
                   (whole + 1) * rig->params->page_tokens);
        out->page = cold.pages[whole];
        rig_extend(rig, &cold, 0, (whole + 1) * rig->params->page_tokens,
                   (whole + 1) * rig->params->page_tokens + 1);
        rig->request.input_tokens = (whole + 1) * rig->params->page_tokens + 1;
        rig_prefill(rig, &cold, 0, (whole + 1) * rig->params->page_tokens,
                    (whole + 1) * rig->params->page_tokens + 1, true, 0);
        rig_tick(rig);
        break;
    }
    out->seen = rig_violations(rig);
}

START_TEST(damage_is_seen_where_it_is)
{
    static const struct {
        int invariant;
        pl_place_t tier;
        int store;
    } want[DAMAGES] = {[HOST_BIT]       = {7, PL_PLACE_HOST, 0},
                       [HOST_INDEX_BIT] = {7, PL_PLACE_HOST, 1},
                       [DEVICE_BIT]     = {7, PL_PLACE_DEVICE, 0},
                       [HOST_STALE]     = {6, PL_PLACE_HOST, 0},
                       [WRONG_OWNERS]   = {6, PL_PLACE_DEVICE, 0},
                       [NEVER_WRITTEN]  = {6, PL_PLACE_DEVICE, 0},
                       [LATE_OVERWRITE] = {7, PL_PLACE_HOST, 0},
                       [DECODE_BIT]     = {7, PL_PLACE_DECODE, 1}};
    char failed[512];
    grid_t point        = {4, 1, 16, _i == LATE_OVERWRITE ? "guard" : "cpu"};
    rig_params_t params = params_of(&point, PL_VERIFY_DIGEST);
    damaged_t out       = {.damage = (damage_t)_i};
    const pl_violation_t *seen = &out.seen.least;

    ck_assert_str_eq(rig_run(&params, damaged, &out, failed), "");
    ck_assert_int_gt(out.seen.n, 0);
    ck_assert_int_eq(seen->invariant, want[_i].invariant);
    ck_assert_int_eq(seen->tier, want[_i].tier);
    ck_assert_int_eq(seen->store, want[_i].store);
    ck_assert_int_eq(seen->page, out.page);
}
END_TEST

/* ---- one handover, positions
 * ----------------------------------------------------------- */

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
    prefill_cold(rig, &cold, 0);
    send_all(rig, &cold, &to, 0);
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
    grid_t point        = {8, 1, 16, "cpu"};
    rig_params_t params = params_of(&point, PL_VERIFY_DIGEST);
    traffic_t total     = {0, 0};

    ck_assert_str_eq(rig_run(&params, few_pages, &total, failed), "");
    ck_assert_int_eq(total.handovers, 1);
    ck_assert_int_le(total.page_messages, 4);
}
END_TEST

/* ---- decode, preemption
 * ------------------------------------------------------------------- */

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

/* To the host buffer and back, into other pages than before. */
static void preempt(rig_t *rig, rig_pages_t *to, int32_t request, int32_t rows)
{
    pl_owner_t owners[RIG_ROOM] = {0};
    int32_t home                = rig_home(rig);
    rig_pages_t buffer          = {.n = 0};
    rig_pages_t old             = *to;
    rig_pages_t hole            = {.n = 0};

    rig_take(rig->decode_host_lanes[home], owners, old.n, &buffer);
    pool_copy(rig, PL_OP_OFFLOAD, to, &buffer, request, rows);
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
    decode_pages(rig, to, pages.n + 1);
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
        prefill_cold(rig, &pages[r], r);
        send_all(rig, &pages[r], &to[r], r);
        decode_pages(rig, &to[r], 2);
        rig_free_device(rig, &pages[r]);
        for (int32_t s = 0; s < STEPS; s++) {
            if ((r == 1) && (s % 7 == 3)) {
                preempt(rig, &to[r], r, PROMPT + s);
            } else if ((r == 2) && (s % 9 == 4)) {
                /* The first token of the new prompt is this step's. */
                reenter(rig, &to[r], r, PROMPT + s + 1);
                decode_pages(rig, &to[r], 2);
                continue;
            }
            step(rig, &to[r], r, PROMPT + s);
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
        for (int32_t i = 0; i * rig->params->page_tokens < PROMPT + STEPS;
             i++) {
            RIG_CHECK(rig, rig_holds(rig, PL_FREED_DECODE, to[r].pages[i], r, i,
                                     PROMPT + STEPS));
        }
    }
}

START_TEST(preempted_requests_say_the_same)
{
    char failed[512];
    int32_t tokens[3 * (STEPS + 1)] = {0};
    rig_params_t params = params_of(&grid[4 + _i], PL_VERIFY_DIGEST);

    params.page_tokens = 16;
    ck_assert_str_eq(rig_run(&params, decoding, tokens, failed), "");
    for (int r = 1; r < 3; r++) {
        ck_assert_mem_eq(tokens + r * (STEPS + 1), tokens,
                         (STEPS + 1) * sizeof(*tokens));
    }
}
END_TEST

/* ---- cancelled
 * ------------------------------------------------------------------------- */

/* An operation that a rank could not reserve leaves no trace on any. */
static void cancelled(rig_t *rig, void *context)
{
    rig_pages_t cold = {.n = 0}, host = {.n = 0}, to = {.n = 0};
    int32_t whole = (PROMPT - 1) / rig->params->page_tokens;

    (void)context;
    prefill_cold(rig, &cold, 0);
    rig_take(rig->host_lanes, cold.owners, whole, &host);
    decode_pages(rig, &to, cold.n + 1);
    start_copy(rig, PL_OP_BACKUP, &cold, &host, whole);
    rig->ops[0].cancelled = true;
    rig_send(rig, &cold, &to, 0, rig_home(rig), 0, PROMPT, true);
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
    send_all(rig, &cold, &to, 0);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    RIG_CHECK(rig, rig->executor->ops->result(rig->executor, 0).has_digest ==
                       (rig->comm->rank == rig_home(rig)));
}

START_TEST(cancelled_operations_leave_no_trace)
{
    char failed[512];
    rig_params_t params = params_of(&grid[4 + _i], PL_VERIFY_DIGEST);

    ck_assert_str_eq(rig_run(&params, cancelled, NULL, failed), "");
}
END_TEST

static TCase *tiers_case(void)
{
    TCase *tcase = tcase_create("tiers");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, bytes_are_the_same_in_every_tier, 0, N_GRID);
    tcase_add_loop_test(tcase, verification_changes_nothing, 0, 2);
    tcase_add_loop_test(tcase, damage_is_seen_where_it_is, 0, DAMAGES);
    tcase_add_test(tcase, one_rank_hands_over);
    tcase_add_loop_test(tcase, preempted_requests_say_the_same, 0, 2);
    tcase_add_loop_test(tcase, cancelled_operations_leave_no_trace, 0, 2);
    return tcase;
}

PL_CHECK_MAIN("exec tiers", tiers_case())
