/* Pages through the storage tier, byte for byte, on plans written by hand. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "test_exec.h"

#define MOST_WHOLE ((RIG_PROMPT - 1) / 3)

/* Pages of at least 3 tokens: then one lane has room for them. */
static const rig_point_t grid[] = {{1, 0, 16, "cpu"},   {3, 0, 16, "cpu"},
                                   {4, 0, 3, "cpu"},    {4, 1, 3, "cpu"},
                                   {8, 2, 16, "guard"}, {3, 0, 10, "guard"},
                                   {3, 0, 16, "far"}};

#define N_GRID ((int)(sizeof(grid) / sizeof(grid[0])))

/* What the directory knows of pages on disk. */
typedef struct shelf {
    pl_storage_place_t places[MOST_WHOLE];
    uint64_t chains[MOST_WHOLE];
    int64_t stamps[MOST_WHOLE];
} shelf_t;

static pl_storage_place_t place_of(const rig_t *rig, const rig_pages_t *host,
                                   int32_t i)
{
    int lane = host->owners[i];

    return (pl_storage_place_t){
        .set  = 2,
        .rank = rig->params->replicated ? i % rig->params->n_prefill : lane,
        .slot = 7 + i};
}

static int64_t start_io(rig_t *rig, pl_op_kind_t kind, const rig_pages_t *host,
                        int32_t n, const shelf_t *shelf)
{
    pl_op_t *op = rig_op(rig, kind, kind == PL_OP_FETCH ? 1 : -1);

    op->node    = kind == PL_OP_STORE ? 5 : -1;
    op->pages   = host->pages;
    op->owners  = host->owners;
    op->n_pages = n;
    op->places  = shelf->places;
    op->chains  = shelf->chains;
    op->stamps  = shelf->stamps;
    return op->id;
}

/* Bits of the operations that the last tick said of what was due. */
static bool due_failed(const rig_t *rig)
{
    return pl_plan_bit(rig->outcome, 0);
}

static void store(rig_t *rig, const rig_pages_t *host, int32_t n,
                  shelf_t *shelf)
{
    int64_t id;

    for (int32_t i = 0; i < n; i++) {
        shelf->places[i] = place_of(rig, host, i);
        shelf->chains[i] = UINT64_C(0x9000) + (uint64_t)i;
        shelf->stamps[i] = 40;
    }
    id = start_io(rig, PL_OP_STORE, host, n, shelf);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_STORE);
    rig_tick(rig);
}

/* Cold prompt of request 0 in the host tier and on disk, then nowhere else. */
static int32_t shelve(rig_t *rig, shelf_t *shelf)
{
    int32_t whole    = (RIG_PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, host = {.n = 0};

    rig_prefill_cold(rig, &cold, 0);
    rig_back_up(rig, &cold, &host, whole);
    store(rig, &host, whole, shelf);
    RIG_CHECK(rig, !due_failed(rig));
    rig_free_device(rig, &cold);
    rig_free_host(rig, &host);
    rig_tick(rig);
    return whole;
}

/* Fetched to lanes (first + i) mod C, or all to lane -first - 1. */
static uint64_t fetch(rig_t *rig, int first, const shelf_t *shelf,
                      int32_t whole, rig_pages_t *host)
{
    pl_owner_t owners[MOST_WHOLE];
    int64_t id;

    for (int32_t i = 0; i < whole; i++) {
        owners[i] =
            (pl_owner_t)(first < 0 ? -first - 1 : (first + i) % rig_lanes(rig));
    }
    rig_take(rig->host_lanes, owners, whole, host);
    id = start_io(rig, PL_OP_FETCH, host, whole, shelf);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_FETCH);
    rig_tick(rig);
    RIG_CHECK(rig, !due_failed(rig));
    return rig->outcome[1 + PL_FETCH_BAD]; /* behind the word of the bits */
}

static bool is_never(const rig_t *rig, int32_t slot)
{
    const pl_store_t *store = pl_data_store(rig->executor, PL_FREED_HOST);

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < RIG_LAYERS; layer++) {
            if (pl_store_header(store, which, layer, slot)->guard !=
                PL_GUARD_NEVER) {
                return false;
            }
        }
    }
    return true;
}

/* What is sound is there, byte for byte, on whoever was to have it. */
static void check_fetched(rig_t *rig, const rig_pages_t *host, int32_t whole,
                          uint64_t bad)
{
    for (int32_t i = 0; i < whole; i++) {
        int32_t slot = pl_page_slot(host->pages[i], rig_lanes(rig));

        if (!rig_keeps(rig, host->owners[i])) {
            continue;
        }
        if (((bad >> i) & 1) != 0) {
            RIG_CHECK(rig, is_never(rig, slot));
        } else {
            RIG_CHECK(rig,
                      rig_holds(rig, PL_FREED_HOST, slot, 0, i, RIG_PROMPT));
        }
    }
}

/* ---- there and back ---- */

typedef struct trip {
    int first; /* lanes that they are fetched to */
    uint64_t digest;
    int32_t token;
    int64_t stored, fetched; /* pages, by all ranks */
} trip_t;

static void hit(rig_t *rig, const rig_pages_t *host, int32_t whole)
{
    int32_t size      = rig->params->page_tokens;
    rig_pages_t pages = {.n = 0}, to = {.n = 0};
    int64_t load;

    rig_take(rig->device_lanes, host->owners, whole, &pages);
    load = rig_start_copy(rig, PL_OP_LOAD, &pages, host, whole);
    rig_extend(rig, &pages, 1, whole * size, RIG_PROMPT);
    rig_prefill(rig, &pages, 1, whole * size, RIG_PROMPT, true, load);
    rig_tick(rig);
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
    rig_send_all(rig, &pages, &to, 1);
}

static void count_moves(rig_t *rig, trip_t *out)
{
    const pl_exec_counters_t *counters = &rig->executor->counters;
    uint64_t words[2] = {(uint64_t)counters->pages[PL_OP_STORE],
                         (uint64_t)counters->pages[PL_OP_FETCH]};

    RIG_CHECK(rig, pl_comm_sum(rig->comm, words, 2) == PL_OK);
    if (rig->comm->rank == rig_home(rig)) {
        out->stored  = (int64_t)words[0];
        out->fetched = (int64_t)words[1];
    }
}

static void there_and_back(rig_t *rig, void *context)
{
    trip_t *out      = context;
    rig_pages_t host = {.n = 0}, other = {.n = 0};
    shelf_t shelf;
    int32_t whole   = shelve(rig, &shelf);
    pl_owner_t lane = 0;

    /* Something else takes a slot, so that the pages come back elsewhere. */
    rig_take(rig->host_lanes, &lane, 1, &other);
    RIG_CHECK(rig, fetch(rig, out->first, &shelf, whole, &host) == 0);
    check_fetched(rig, &host, whole, 0);
    hit(rig, &host, whole);
    RIG_CHECK(rig, rig->executor->counters.bad_storage_pages == 0);
    RIG_CHECK(rig, rig->executor->ops->finish(rig->executor, 99) == PL_OK);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    count_moves(rig, out);
    if (rig->comm->rank == rig_home(rig)) {
        pl_exec_result_t result = rig->executor->ops->result(rig->executor, 1);

        RIG_CHECK(rig, result.has_digest && (result.n_tokens == 1));
        out->digest = result.digest;
        out->token  = result.n_tokens == 1 ? result.tokens[0] : -1;
    }
}

static void cold_only(rig_t *rig, void *context)
{
    trip_t *out       = context;
    rig_pages_t pages = {.n = 0}, to = {.n = 0};

    rig_prefill_cold(rig, &pages, 0);
    rig_send_all(rig, &pages, &to, 0);
    if (rig->comm->rank == rig_home(rig)) {
        pl_exec_result_t result = rig->executor->ops->result(rig->executor, 0);

        out->digest = result.digest;
        out->token  = result.n_tokens == 1 ? result.tokens[0] : -1;
    }
}

/* All pages come back with the bytes that were stored, in the lanes that wrote
 * them or in others, some ranks having none, with and without verification. */
START_TEST(pages_come_back_as_they_were_stored)
{
    static const pl_verify_t modes[] = {PL_VERIFY_DIGEST, PL_VERIFY_OFF};
    rig_params_t params =
        rig_params_of(&grid[_i % N_GRID], modes[_i / N_GRID % 2]);
    int32_t whole = (RIG_PROMPT - 1) / params.page_tokens;
    int copies;
    char failed[512];
    trip_t cold = {0};

    params.replicated = _i >= 2 * N_GRID;
    copies            = params.replicated ? params.n_prefill : 1;
    ck_assert_str_eq(rig_run(&params, cold_only, &cold, failed), "");
    for (int first = -2; first < 3; first++) {
        trip_t trip = {.first = first};

        if ((first == -2) && ((params.n_prefill == 1) || params.replicated)) {
            continue;
        }
        params.disk = memory_disk_make();
        ck_assert_str_eq(rig_run(&params, there_and_back, &trip, failed), "");
        ck_assert_uint_eq(trip.digest, cold.digest);
        ck_assert_int_eq(trip.token, cold.token);
        ck_assert_int_eq(trip.stored, whole);
        ck_assert_int_eq(trip.fetched, whole * copies);
        ck_assert_int_eq(memory_disk_pages(params.disk), whole);
        memory_disk_free(params.disk);
    }
}
END_TEST

/* ---- bad pages ---- */

typedef struct bad {
    int32_t flipped, lost, hidden; /* pages */
    size_t at;                     /* byte that is flipped */
} bad_t;

static void bad_pages(rig_t *rig, void *context)
{
    const bad_t *bad = context;
    rig_pages_t host = {.n = 0};
    shelf_t shelf;
    int32_t whole  = shelve(rig, &shelf);
    uint64_t wrong = (UINT64_C(1) << bad->flipped) | (UINT64_C(1) << bad->lost);
    uint64_t unread = UINT64_C(1) << bad->hidden;
    uint64_t n[2];

    RIG_CHECK(rig, pl_comm_barrier(rig->comm) == PL_OK);
    if (rig->comm->rank == 0) {
        memory_disk_flip(rig->params->disk, shelf.places[bad->flipped],
                         bad->at);
        memory_disk_lose(rig->params->disk, shelf.places[bad->lost]);
        memory_disk_hide(rig->params->disk, shelf.places[bad->hidden], true);
    }
    RIG_CHECK(rig, pl_comm_barrier(rig->comm) == PL_OK);
    /* All ranks learn the same of it, wherever it was read. */
    RIG_CHECK(rig, fetch(rig, 1, &shelf, whole, &host) == wrong);
    RIG_CHECK(rig, rig->outcome[1 + PL_FETCH_UNREAD] == unread);
    check_fetched(rig, &host, whole, wrong | unread);
    n[0] = (uint64_t)rig->executor->counters.bad_storage_pages;
    n[1] = (uint64_t)rig->executor->counters.unread_storage_pages;
    RIG_CHECK(rig, pl_comm_sum(rig->comm, n, 2) == PL_OK);
    RIG_CHECK(rig, n[1] == (rig->params->replicated
                                ? (uint64_t)rig->params->n_prefill
                                : 1));
    RIG_CHECK(rig, n[0] == 2 * n[1]);
    rig_free_host(rig, &host);
    rig_tick(rig);
    RIG_CHECK(rig, rig->executor->ops->finish(rig->executor, 99) == PL_OK);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
}

/* A flipped bit, in latent or index bytes, and a page that is not there are
 * bits of the fetch's first word, one that cannot be read now is one of its
 * second: no violation, nothing left behind. */
START_TEST(bad_pages_are_told_by_their_place)
{
    static const pl_verify_t modes[] = {PL_VERIFY_DIGEST, PL_VERIFY_OFF};
    rig_params_t params = rig_params_of(&grid[1 + _i % 3], modes[_i / 3 % 2]);
    char failed[512];
    int32_t size = params.page_tokens;

    params.replicated = _i >= 6;
    for (int k = 0; k < 2; k++) {
        /* Behind the latent pages of all layers lie those of the index. */
        bad_t bad = {.flipped = 1,
                     .lost    = size == 3 ? 9 : 2,
                     .hidden  = 0,
                     .at      = (size_t)(k * RIG_LAYERS * RIG_ROW * size) +
                           (size_t)(k * 64)};

        params.disk = memory_disk_make();
        ck_assert_str_eq(rig_run(&params, bad_pages, &bad, failed), "");
        memory_disk_free(params.disk);
    }
}
END_TEST

/* ---- disks that do not take what is written ---- */

static void no_writes(rig_t *rig, void *context)
{
    int32_t whole    = (RIG_PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, host = {.n = 0};
    shelf_t shelf;

    (void)context;
    rig_prefill_cold(rig, &cold, 0);
    rig_back_up(rig, &cold, &host, whole);
    for (int32_t i = 0; i < whole; i++) {
        shelf.places[i] = place_of(rig, &host, i);
        shelf.chains[i] = (uint64_t)i;
        shelf.stamps[i] = 1;
    }
    (void)start_io(rig, PL_OP_STORE, &host, whole, &shelf);
    rig_tick(rig);
    RIG_CHECK(rig, pl_plan_bit(rig->outcome, 0)); /* refused: cancelled */
    RIG_CHECK(rig, rig->executor->counters.pages[PL_OP_STORE] == 0);
    (void)rig_op(rig, PL_OP_PUBLISH, -1);
    rig_tick(rig); /* rank 0 can */
    RIG_CHECK(rig, !pl_plan_bit(rig->outcome, 0));
    rig_due(rig, rig->next_id - 1, PL_OP_PUBLISH);
    rig_tick(rig);
    RIG_CHECK(rig, !due_failed(rig));
}

static void broken_writes(rig_t *rig, void *context)
{
    int32_t whole    = (RIG_PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, host = {.n = 0};
    shelf_t shelf;

    (void)context;
    rig_prefill_cold(rig, &cold, 0);
    rig_back_up(rig, &cold, &host, whole);
    store(rig, &host, whole, &shelf);
    RIG_CHECK(rig, due_failed(rig));
    RIG_CHECK(rig, rig_violations(rig).n == 0);
}

/* One rank that cannot write is heard by all before anything is begun, and a
 * write that fails when it ends; a publication is rank 0's alone. */
START_TEST(a_rank_that_cannot_write_is_heard_by_all)
{
    rig_params_t params = rig_params_of(&grid[2], PL_VERIFY_DIGEST);
    char failed[512];

    params.disk = memory_disk_make();
    memory_disk_refuse(params.disk, 2);
    ck_assert_str_eq(rig_run(&params, no_writes, NULL, failed), "");
    ck_assert_int_eq(memory_disk_publications(params.disk), 1);
    memory_disk_refuse(params.disk, -1);
    memory_disk_break(params.disk, 2);
    ck_assert_str_eq(rig_run(&params, broken_writes, NULL, failed), "");
    memory_disk_free(params.disk);
}
END_TEST

/* ---- what lies in the host tier is looked at before it is stored ---- */

static void store_damaged(rig_t *rig, void *context)
{
    pl_violations_t *seen = context;
    int32_t whole         = (RIG_PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, host = {.n = 0};
    shelf_t shelf;
    pl_violations_t all;

    rig_prefill_cold(rig, &cold, 0);
    rig_back_up(rig, &cold, &host, whole);
    if (rig_keeps(rig, host.owners[1])) {
        pl_store_page(pl_data_store(rig->executor, PL_FREED_HOST),
                      PL_STORE_INDEX, 1,
                      pl_page_slot(host.pages[1], rig_lanes(rig)))[5] ^= 1;
    }
    store(rig, &host, whole, &shelf);
    RIG_CHECK(rig, due_failed(rig));
    all = rig_violations(rig);
    if (rig->comm->rank == 0) {
        *seen = all;
    }
}

START_TEST(damage_on_the_host_is_not_stored)
{
    rig_params_t params  = rig_params_of(&grid[1], PL_VERIFY_DIGEST);
    pl_violations_t seen = {0};
    char failed[512];

    params.disk = memory_disk_make();
    ck_assert_str_eq(rig_run(&params, store_damaged, &seen, failed), "");
    ck_assert_int_eq(seen.n, 1);
    ck_assert_int_eq(seen.least.invariant, PL_INVARIANT_BYTES);
    ck_assert_int_eq(seen.least.tier, PL_PLACE_HOST);
    ck_assert_int_eq(seen.least.position, params.page_tokens);
    ck_assert_int_eq(seen.least.node, 5);
    memory_disk_free(params.disk);
}
END_TEST

TCase *storage_case(void)
{
    TCase *tcase = tcase_create("storage");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, pages_come_back_as_they_were_stored, 0,
                        4 * N_GRID);
    tcase_add_loop_test(tcase, bad_pages_are_told_by_their_place, 0, 12);
    tcase_add_test(tcase, a_rank_that_cannot_write_is_heard_by_all);
    tcase_add_test(tcase, damage_on_the_host_is_not_stored);
    return tcase;
}
