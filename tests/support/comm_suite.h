/* support/comm_suite.h - what every communicator does alike.
 *
 * A case is run by all ranks at once, each with its own note-book; it never
 * leaves early, so a rank whose check fails does not leave the others waiting.
 */
#ifndef SUPPORT_COMM_SUITE_H
#define SUPPORT_COMM_SUITE_H

#include <stdint.h>

#include "comm/comm.h"

typedef struct comm_notes {
    uint64_t seed;       /* equal on all ranks */
    pl_device_t *device; /* this rank's, addressable: pages lie in its memory,
                            HOST or SHARED; NULL: HOST, of malloc */
    int n_failed;
    char first[256]; /* what failed first */
} comm_notes_t;

void comm_note(comm_notes_t *notes, const pl_comm_t *comm, int good,
               const char *file, int line, const char *text);

#define COMM_CHECK(notes, comm, condition)                                     \
    comm_note((notes), (comm), (condition) ? 1 : 0, __FILE__, __LINE__,        \
              #condition)

typedef struct comm_case {
    const char *name;
    void (*run)(pl_comm_t *comm, comm_notes_t *notes);
} comm_case_t;

extern const comm_case_t comm_cases[];
extern const int n_comm_cases;

/* Megabytes: not for each of many communicators. */
void comm_case_large(pl_comm_t *comm, comm_notes_t *notes);

/* CLOCK_MONOTONIC, which all processes of a machine share. */
double comm_now_s(void);
void comm_pause_s(double s);

#endif /* SUPPORT_COMM_SUITE_H */
