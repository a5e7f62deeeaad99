/* support/comm_suite_cases.h - inside support/comm_suite*.c. */
#ifndef SUPPORT_COMM_SUITE_CASES_H
#define SUPPORT_COMM_SUITE_CASES_H

#include <stdbool.h>

#include "base/hash.h"
#include "support/comm_suite.h"

/* Is the value the same on the first n ranks?  Collective. */
static inline bool same_on_first(pl_comm_t *comm, int n, uint64_t value)
{
    uint64_t words[2] = {0, 0};

    if (comm->rank < n) {
        words[0] = value;
        words[1] = ~value;
    }
    return (pl_comm_agree(comm, words, 2) == PL_OK) &&
           ((words[0] & words[1]) == 0);
}

static inline uint64_t word_of(uint64_t seed, int rank, int64_t i)
{
    return pl_mix64(seed + (uint64_t)rank * UINT64_C(0x9E3779B97F4A7C15) +
                    (uint64_t)i * UINT64_C(0xD1B54A32D192ED03));
}

void comm_case_gather(pl_comm_t *comm, comm_notes_t *notes);
void comm_case_gather_refuses(pl_comm_t *comm, comm_notes_t *notes);
void comm_case_messages(pl_comm_t *comm, comm_notes_t *notes);
void comm_case_messages_refuse(pl_comm_t *comm, comm_notes_t *notes);

#endif /* SUPPORT_COMM_SUITE_CASES_H */
