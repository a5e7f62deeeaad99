/* Ranks that read each other's pages, as threads; and what they do when one of
 * them fails, stalls, leaves or does something else. */
#include "comm/peer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "support/seed.h"
#include "test_comm.h"

enum { MOST_RANKS = 8, STRIDE = 64, SLOTS = 4 };

static log_capture_t said;

static void set_up(void)
{
    log_capture_open(&said);
}

static void tear_down(void)
{
    log_capture_close(&said);
}

/* ---- ranks with devices ---- */

/* Devices, and what they hold, outlive all threads: a peer may read it. */
typedef struct party {
    const char *device;
    pl_status_t (*body)(struct party *party, pl_comm_t *comm);
    pl_device_t *devices[MOST_RANKS];
    uint8_t *stores[MOST_RANKS]; /* SHARED, SLOTS pages */
    uint8_t *views[MOST_RANKS];
    comm_notes_t notes[MOST_RANKS];
    pl_status_t got[MOST_RANKS];
    pl_comm_t *bases[MOST_RANKS];
    int n_ones[MOST_RANKS]; /* gathers in which rank 0's bytes came */
    int call, trouble, bad;
    double patience_s; /* of all calls from the trouble on; 0: as before it */
    atomic_int n_back, n_ready;
} party_t;

static pl_status_t take_part(void *context, pl_comm_t *base)
{
    party_t *party  = context;
    pl_comm_t *comm = NULL;
    pl_status_t status =
        pl_comm_open_peer(base, party->devices[base->rank], &comm);

    if (status != PL_OK) {
        return status;
    }
    party->bases[base->rank] = base;
    status                   = party->body(party, comm);
    pl_comm_close(comm);
    return status;
}

static pl_status_t run_party(party_t *party, int n_ranks, int n_prefill)
{
    pl_status_t status;

    for (int rank = 0; rank < n_ranks; rank++) {
        void *store = NULL;
        void *view  = NULL;

        ck_assert_int_eq(
            pl_device_open(party->device == NULL ? "guard" : party->device,
                           &said.log, &party->devices[rank]),
            PL_OK);
        ck_assert_int_eq(pl_device_alloc(party->devices[rank], PL_MEMORY_SHARED,
                                         SLOTS * STRIDE, "a store", &store),
                         PL_OK);
        ck_assert_int_eq(pl_device_alloc(party->devices[rank], PL_MEMORY_DEVICE,
                                         MOST_RANKS * STRIDE, "a view", &view),
                         PL_OK);
        party->stores[rank] = store;
        party->views[rank]  = view;
    }
    status = pl_comm_run_local(n_ranks, n_prefill, 60.0, &said.log, take_part,
                               party);
    for (int rank = 0; rank < n_ranks; rank++) {
        pl_device_free(party->devices[rank], party->stores[rank]);
        pl_device_free(party->devices[rank], party->views[rank]);
        ck_assert_int_eq(pl_device_check(party->devices[rank]), PL_OK);
        pl_device_close(party->devices[rank]);
    }
    return status;
}

/* Slot 0 of the first n ranks, or n pages of rank `only`. */
static pl_status_t gather_of(party_t *party, pl_comm_t *comm, int n, int only)
{
    pl_page_t pages[MOST_RANKS];
    int32_t rows[MOST_RANKS];
    pl_gather_t gather = {
        .pages = pages, .n_pages = n, .n_parts = 1, .rows = rows};

    for (int i = 0; i < n; i++) {
        pages[i] = only < 0 ? pl_page_at(i, 0, comm->n_prefill)
                            : pl_page_at(only, i, comm->n_prefill);
    }
    gather.parts[0].region = 1;
    gather.parts[0].stride = STRIDE;
    gather.parts[0].view   = party->views[comm->rank];
    return pl_comm_gather(comm, &gather);
}

static pl_status_t show_store(party_t *party, pl_comm_t *comm)
{
    memset(party->stores[comm->rank], comm->rank + 1, SLOTS * STRIDE);
    return pl_comm_expose(comm, 1, PL_MEMORY_SHARED, party->stores[comm->rank],
                          SLOTS * STRIDE);
}

/* ---- all is well ---- */

static pl_status_t pass_suite(party_t *party, pl_comm_t *comm)
{
    comm_notes_t *notes = &party->notes[comm->rank];

    notes->device = party->devices[comm->rank];
    for (int i = 0; i < n_comm_cases; i++) {
        comm_cases[i].run(comm, notes);
    }
    return PL_OK;
}

static void run_suite(const char *device, int n_ranks, int n_prefill,
                      uint64_t seed)
{
    party_t party = {.device = device, .body = pass_suite};

    for (int rank = 0; rank < n_ranks; rank++) {
        party.notes[rank].seed = seed;
    }
    ck_assert_int_eq(run_party(&party, n_ranks, n_prefill), PL_OK);
    for (int rank = 0; rank < n_ranks; rank++) {
        ck_assert_msg(party.notes[rank].n_failed == 0, "%d failed, first %s",
                      party.notes[rank].n_failed, party.notes[rank].first);
    }
}

START_TEST(peers_pass_the_suite)
{
    uint64_t seed = pl_test_seed("peers_pass_the_suite");

    for (int n_prefill = 1; n_prefill <= _i; n_prefill++) {
        run_suite(n_prefill % 2 == 0 ? "cpu" : "guard", _i, n_prefill,
                  seed + (uint64_t)n_prefill);
    }
}
END_TEST

/* Who owns all pages waits for nobody: it may be any number of gathers ahead,
 * and who comes later reads what was there. */
static pl_status_t run_ahead(party_t *party, pl_comm_t *comm)
{
    uint64_t word = 0;

    PL_TRY(show_store(party, comm));
    if (comm->rank != 0) {
        while (atomic_load(&party->n_ready) == 0) {
            comm_pause_s(0.001);
        }
    }
    for (int i = 0; i < 200; i++) {
        PL_TRY(gather_of(party, comm, 1 + i % SLOTS, 0));
        party->n_ones[comm->rank] += party->views[comm->rank][0] == 1;
    }
    atomic_fetch_add(&party->n_ready, 1);
    return pl_comm_agree(comm, &word, 1);
}

START_TEST(an_owner_waits_for_nobody)
{
    party_t party = {.body = run_ahead};

    ck_assert_int_eq(run_party(&party, 3, 3), PL_OK);
    for (int rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(party.n_ones[rank], 200);
    }
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* What was shown before is closed: a device tells of what is not. */
static pl_status_t replace_store(party_t *party, pl_comm_t *comm)
{
    uint64_t word = 0;

    for (int i = 0; i < 3; i++) {
        PL_TRY(show_store(party, comm));
        PL_TRY(gather_of(party, comm, comm->n_prefill, -1));
        PL_TRY(pl_comm_agree(comm, &word, 1));
    }
    PL_TRY(pl_comm_expose(comm, 1, PL_MEMORY_SHARED, NULL, 0));
    return pl_comm_barrier(comm);
}

START_TEST(memory_may_be_shown_again)
{
    party_t party = {.body = replace_store};

    ck_assert_int_eq(run_party(&party, 3, 3), PL_OK);
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* ---- trouble ---- */

enum { GATHER, EXPOSE, AGREE, BARRIER, CALLS };
enum { FAIL, LEAVE, STALL };

static pl_status_t do_call(party_t *party, pl_comm_t *comm)
{
    uint64_t word = 0;

    switch (party->call) {
    case GATHER:
        return gather_of(party, comm, comm->n_prefill, -1);
    case EXPOSE:
        return show_store(party, comm);
    case AGREE:
        return pl_comm_agree(comm, &word, 1);
    default:
        return pl_comm_barrier(comm);
    }
}

static pl_status_t make_trouble(party_t *party, pl_comm_t *comm)
{
    switch (party->trouble) {
    case FAIL:
        pl_comm_fail(comm, PL_ERR_IO);
        comm_pause_s(0.05);
        return PL_ERR_IO;
    case LEAVE:
        comm_pause_s(0.05);
        return PL_OK;
    default:
        break;
    }
    while (atomic_load(&party->n_back) < comm->n_ranks - 1) {
        comm_pause_s(0.01);
    }
    return do_call(party, comm);
}

static pl_status_t have_trouble(party_t *party, pl_comm_t *comm)
{
    PL_TRY(show_store(party, comm));
    PL_TRY(gather_of(party, comm, comm->n_prefill, -1));
    PL_TRY(pl_comm_barrier(comm)); /* all was well so far */
    if (party->patience_s > 0) {
        comm->timeout_s                     = party->patience_s;
        party->bases[comm->rank]->timeout_s = party->patience_s;
    }
    party->got[comm->rank] = comm->rank == party->bad
                                 ? make_trouble(party, comm)
                                 : do_call(party, comm);
    atomic_fetch_add(&party->n_back, 1);
    return party->got[comm->rank];
}

START_TEST(a_rank_that_fails_wakes_all_others)
{
    for (int n_ranks = 2; n_ranks <= MOST_RANKS; n_ranks += 3) {
        party_t party = {.body    = have_trouble,
                         .call    = _i,
                         .trouble = FAIL,
                         .bad     = n_ranks - 1};

        ck_assert_int_eq(run_party(&party, n_ranks, n_ranks), PL_ERR_IO);
        for (int rank = 0; rank < n_ranks; rank++) {
            ck_assert_int_eq(party.got[rank],
                             rank == party.bad ? PL_ERR_IO : PL_ERR_PEER);
        }
    }
    ck_assert_str_eq(said.text, ""); /* who failed has said why */
}
END_TEST

START_TEST(a_rank_that_has_left_is_not_waited_for)
{
    party_t party = {
        .body = have_trouble, .call = _i, .trouble = LEAVE, .bad = 1};

    ck_assert_int_eq(run_party(&party, 4, 4), PL_ERR_COMM);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(party.got[rank],
                         rank == party.bad ? PL_OK : PL_ERR_COMM);
    }
    ck_assert_int_ge(said.n_lines, 1);
    ck_assert_int_le(said.n_lines, 3);
    ck_assert_ptr_nonnull(strstr(said.text, "ended: 1"));
}
END_TEST

START_TEST(a_rank_that_stalls_ends_in_a_timeout_everywhere)
{
    for (int n_ranks = 2; n_ranks <= MOST_RANKS; n_ranks += 3) {
        party_t party = {.body       = have_trouble,
                         .call       = _i,
                         .trouble    = STALL,
                         .bad        = n_ranks - 1,
                         .patience_s = 0.2};
        char last[16];

        said.n       = 0;
        said.n_lines = 0;
        (void)snprintf(last, sizeof(last), " %d\n", party.bad);
        ck_assert_int_eq(run_party(&party, n_ranks, n_ranks), PL_ERR_COMM);
        for (int rank = 0; rank < n_ranks; rank++) {
            ck_assert_int_eq(party.got[rank], PL_ERR_COMM);
        }
        ck_assert_int_ge(said.n_lines, 1);
        ck_assert_int_lt(said.n_lines, n_ranks);
        ck_assert_ptr_nonnull(strstr(said.text, "waited 0.2 s"));
        /* others may be late, too; that one is the last of all */
        ck_assert_ptr_nonnull(strstr(said.text, last));
    }
}
END_TEST

/* 9.33 rank 1 is at other pages, at another call, or was at one before */
static pl_status_t differ(party_t *party, pl_comm_t *comm)
{
    bool odd      = comm->rank == 1;
    uint64_t word = 0;

    PL_TRY(show_store(party, comm));
    switch (party->call) {
    case 0:
        return gather_of(party, comm, odd ? 3 : 4, -1);
    case 1: /* it is one gather ahead */
        if (odd) {
            PL_TRY(gather_of(party, comm, 1, 1));
        }
        return gather_of(party, comm, 4, -1);
    case 2: /* nobody has to wait there: agree finds it */
        PL_TRY(gather_of(party, comm, 1, comm->rank));
        return pl_comm_agree(comm, &word, 1);
    case 3:
        return pl_comm_expose(comm, odd ? 2 : 3, PL_MEMORY_SHARED,
                              party->stores[comm->rank], STRIDE);
    default:
        return odd ? pl_comm_barrier(comm) : pl_comm_agree(comm, &word, 1);
    }
}

START_TEST(calls_that_differ_are_found)
{
    party_t party = {.body = differ, .call = _i};

    ck_assert_int_eq(run_party(&party, 4, 4), PL_ERR_DISAGREE);
    ck_assert_int_ge(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "ranks disagree: rank "));
}
END_TEST

/* ---- what cannot be shared ---- */

static pl_status_t show_what_is_not_shared(party_t *party, pl_comm_t *comm)
{
    uint8_t *mine =
        comm->rank == 2 ? party->views[comm->rank] : party->stores[comm->rank];
    pl_status_t *got = &party->got[comm->rank];

    if (comm->rank == 3) {
        return pl_comm_barrier(comm); /* they fail before they come there */
    }
    *got = pl_comm_expose(comm, 1, PL_MEMORY_DEVICE, mine, STRIDE);
    PL_TRY(*got == PL_ERR_ARGUMENT ? PL_OK : PL_ERR_INTERNAL);
    *got = pl_comm_expose(comm, 1, PL_MEMORY_SHARED, mine, STRIDE);
    return *got;
}

START_TEST(memory_that_is_not_shared_is_refused_on_all_ranks)
{
    party_t party = {.body = show_what_is_not_shared};

    ck_assert_int_eq(run_party(&party, 4, 3), PL_ERR_DEVICE);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert_int_eq(party.got[rank], PL_ERR_PEER);
    }
    ck_assert_int_eq(party.got[2], PL_ERR_DEVICE);
    ck_assert_ptr_nonnull(
        strstr(said.text, "not an allocation of kind SHARED"));
}
END_TEST

/* On rank 1 there is a device that cannot share: nothing is opened, and the
 * communicator below is as it was. */
static pl_status_t open_in_vain(void *context, pl_comm_t *base)
{
    pl_device_t *device = NULL;
    pl_comm_t *comm     = NULL;
    pl_device_ops_t ops;
    const pl_device_ops_t *before;
    pl_status_t *got = context;

    PL_TRY(pl_device_open("cpu", base->log, &device));
    before    = device->ops;
    ops       = *before;
    ops.name  = "lonely";
    ops.share = NULL;
    if (base->rank == 1) {
        device->ops = &ops;
    }
    got[base->rank] = pl_comm_open_peer(base, device, &comm);
    device->ops     = before;
    pl_device_close(device);
    PL_TRY(comm == NULL ? PL_OK : PL_ERR_INTERNAL);
    return pl_comm_barrier(base);
}

START_TEST(a_device_that_cannot_share_is_refused_on_all_ranks)
{
    pl_status_t got[4] = {0};

    ck_assert_int_eq(
        pl_comm_run_local(4, 2, 60.0, &said.log, open_in_vain, got), PL_OK);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(got[rank], rank == 1 ? PL_ERR_DEVICE : PL_ERR_PEER);
    }
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "device lonely cannot share"));
}
END_TEST

TCase *peer_case(void)
{
    TCase *tcase = tcase_create("peer");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, peers_pass_the_suite, 1, MOST_RANKS + 1);
    tcase_add_test(tcase, an_owner_waits_for_nobody);
    tcase_add_test(tcase, memory_may_be_shown_again);
    tcase_add_loop_test(tcase, a_rank_that_fails_wakes_all_others, 0, CALLS);
    tcase_add_loop_test(tcase, a_rank_that_has_left_is_not_waited_for, 0,
                        CALLS);
    tcase_add_loop_test(tcase, a_rank_that_stalls_ends_in_a_timeout_everywhere,
                        0, CALLS);
    tcase_add_loop_test(tcase, calls_that_differ_are_found, 0, 5);
    tcase_add_test(tcase, memory_that_is_not_shared_is_refused_on_all_ranks);
    tcase_add_test(tcase, a_device_that_cannot_share_is_refused_on_all_ranks);
    return tcase;
}
