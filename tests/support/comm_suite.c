#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/comm_suite_cases.h"

void comm_note(comm_notes_t *notes, const pl_comm_t *comm, int good,
               const char *file, int line, const char *text)
{
    if (!good && (notes->n_failed++ == 0)) {
        snprintf(notes->first, sizeof(notes->first),
                 "%s:%d: rank %d of %d (%d prefill): %s", file, line,
                 comm->rank, comm->n_ranks, comm->n_prefill, text);
    }
}

double comm_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void comm_pause_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

    nanosleep(&t, NULL);
}

/* ---- reductions ---- */

static void agree_is_or(pl_comm_t *comm, comm_notes_t *notes)
{
    uint64_t words[70];
    bool good = true;

    for (int32_t n = 0; n <= 70; n++) {
        for (int32_t i = 0; i < n; i++) {
            uint64_t w = word_of(notes->seed + (uint64_t)n, comm->rank, i);

            words[i] = w & (w >> 7) & (w << 9); /* few bits */
        }
        good = good && (pl_comm_agree(comm, words, n) == PL_OK);
        for (int32_t i = 0; i < n; i++) {
            uint64_t all = 0;

            for (int rank = 0; rank < comm->n_ranks; rank++) {
                uint64_t w = word_of(notes->seed + (uint64_t)n, rank, i);

                all |= w & (w >> 7) & (w << 9);
            }
            good = good && (words[i] == all);
        }
    }
    COMM_CHECK(notes, comm, good);
}

/* Nobody goes on alone, whoever failed. */
static void agree_status_tells_all(pl_comm_t *comm, comm_notes_t *notes)
{
    COMM_CHECK(notes, comm, pl_comm_agree_status(comm, PL_OK) == PL_OK);
    for (int bad = 0; bad < comm->n_ranks; bad++) {
        pl_status_t mine = comm->rank == bad ? PL_ERR_IO : PL_OK;
        pl_status_t got  = pl_comm_agree_status(comm, mine);

        COMM_CHECK(notes, comm,
                   got == (comm->rank == bad ? PL_ERR_IO : PL_ERR_PEER));
    }
    COMM_CHECK(notes, comm,
               pl_comm_agree_status(comm, PL_REFUSED_SHORT) ==
                   PL_REFUSED_SHORT);
    COMM_CHECK(notes, comm, pl_comm_agree_status(comm, PL_OK) == PL_OK);
}

static void sum_wraps(pl_comm_t *comm, comm_notes_t *notes)
{
    static const int64_t sizes[] = {0, 1, 2, 1000, 3001};
    uint64_t values[3001];

    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        bool good = true;

        for (int64_t i = 0; i < sizes[s]; i++) {
            values[i] = word_of(notes->seed, comm->rank, i);
        }
        COMM_CHECK(notes, comm, pl_comm_sum(comm, values, sizes[s]) == PL_OK);
        for (int64_t i = 0; i < sizes[s]; i++) {
            uint64_t all = 0;

            for (int rank = 0; rank < comm->n_ranks; rank++) {
                all += word_of(notes->seed, rank, i);
            }
            good = good && (values[i] == all);
        }
        COMM_CHECK(notes, comm, good);
    }
}

static void broadcast_from_each(pl_comm_t *comm, comm_notes_t *notes)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 4096, 40001};
    static const size_t most    = 40001;
    uint8_t *bytes              = malloc(most + 1);

    for (int root = 0; root < comm->n_ranks; root++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
            bool good = true;

            memset(bytes, comm->rank == root ? root + 1 : 0xEE, most + 1);
            COMM_CHECK(notes, comm,
                       pl_comm_broadcast(comm, root, bytes, sizes[s]) == PL_OK);
            for (size_t i = 0; i <= most; i++) {
                bool mine = (i < sizes[s]) || (comm->rank == root);

                good = good && (bytes[i] == (mine ? root + 1 : 0xEE));
            }
            COMM_CHECK(notes, comm, good);
        }
    }
    free(bytes);
}

/* No rank leaves before the last one has come. */
static void barrier_waits(pl_comm_t *comm, comm_notes_t *notes)
{
    for (int late = 0; late < comm->n_ranks; late++) {
        double came = 0;
        double left;

        if (comm->rank == late) {
            comm_pause_s(0.01);
            came = comm_now_s();
        }
        COMM_CHECK(notes, comm, pl_comm_barrier(comm) == PL_OK);
        left = comm_now_s();
        COMM_CHECK(notes, comm,
                   pl_comm_broadcast(comm, late, &came, sizeof(came)) == PL_OK);
        COMM_CHECK(notes, comm, left >= came);
    }
}

/* A result never mixes with the next call's, however fast some ranks are. */
static void many_calls_in_a_row(pl_comm_t *comm, comm_notes_t *notes)
{
    bool good = true;

    for (uint64_t i = 0; i < 150; i++) {
        uint64_t value = i + (uint64_t)comm->rank;
        uint64_t n     = (uint64_t)comm->n_ranks;
        uint64_t word  = UINT64_C(1) << ((uint64_t)comm->rank % 8 + i % 50);
        uint64_t any   = 0;
        uint8_t byte   = (uint8_t)(i + (uint64_t)comm->rank);
        int root       = (int)(i % n);

        for (uint64_t rank = 0; rank < n; rank++) {
            any |= UINT64_C(1) << (rank % 8 + i % 50);
        }
        good = good && (pl_comm_sum(comm, &value, 1) == PL_OK) &&
               (value == n * i + n * (n - 1) / 2);
        good =
            good && (pl_comm_agree(comm, &word, 1) == PL_OK) && (word == any);
        good = good && (pl_comm_broadcast(comm, root, &byte, 1) == PL_OK) &&
               (byte == (uint8_t)(i + (uint64_t)root));
    }
    COMM_CHECK(notes, comm, good);
}

/* 9.33 the same collective calls on every rank, whatever each has to say */
static void the_trace_is_equal_and_sees_each_call(pl_comm_t *comm,
                                                  comm_notes_t *notes)
{
    uint64_t words[3] = {0, 0, 0};
    uint64_t before   = comm->trace;
    uint64_t after_1, after_2;
    uint8_t byte = 0;

    COMM_CHECK(notes, comm, same_on_first(comm, comm->n_ranks, before));
    after_1 = comm->trace;
    COMM_CHECK(notes, comm, after_1 != before);
    COMM_CHECK(notes, comm, pl_comm_agree(comm, words, 3) == PL_OK);
    after_2 = comm->trace;
    COMM_CHECK(notes, comm, after_2 != after_1);
    COMM_CHECK(notes, comm, pl_comm_barrier(comm) == PL_OK);
    COMM_CHECK(notes, comm, comm->trace != after_2);
    COMM_CHECK(notes, comm, pl_comm_broadcast(comm, 0, &byte, 1) == PL_OK);
    if (comm->rank < comm->n_prefill) {
        before = comm->prefill_trace;
        COMM_CHECK(notes, comm,
                   pl_comm_expose(comm, 0, PL_MEMORY_HOST, NULL, 0) == PL_OK);
        COMM_CHECK(notes, comm, comm->prefill_trace != before);
    }
    COMM_CHECK(notes, comm, same_on_first(comm, comm->n_ranks, comm->trace));
    COMM_CHECK(notes, comm,
               same_on_first(comm, comm->n_prefill, comm->prefill_trace));
}

const comm_case_t comm_cases[] = {
    {"agree is or", agree_is_or},
    {"agree_status tells all", agree_status_tells_all},
    {"sum wraps", sum_wraps},
    {"broadcast from each", broadcast_from_each},
    {"barrier waits", barrier_waits},
    {"many calls in a row", many_calls_in_a_row},
    {"trace", the_trace_is_equal_and_sees_each_call},
    {"gather", comm_case_gather},
    {"gather refuses", comm_case_gather_refuses},
    {"messages", comm_case_messages},
    {"messages refuse", comm_case_messages_refuse},
};

const int n_comm_cases = (int)(sizeof(comm_cases) / sizeof(comm_cases[0]));
