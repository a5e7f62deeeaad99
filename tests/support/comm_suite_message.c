/* send and receive: ordered per sender and tag, in any order otherwise. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/comm_suite_cases.h"

enum { N_TAGS = 3, MOST_MESSAGES = 12 };

static int message_count(uint64_t seed, int from, int to)
{
    return (int)(word_of(seed + 1, from, to) % (MOST_MESSAGES + 1));
}

static int message_tag(uint64_t seed, int from, int to, int i)
{
    return 5 * (int)(word_of(seed + 2, from, to * 1000 + i) % N_TAGS);
}

static size_t message_size(uint64_t seed, int from, int to, int i)
{
    uint64_t w = word_of(seed + 3, from, to * 1000 + i);

    switch (w % 4) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return (size_t)(w >> 8) % 100;
    default:
        return (size_t)(w >> 8) % 20000;
    }
}

static uint8_t message_byte(uint64_t seed, int from, int to, int i, size_t b)
{
    return (uint8_t)(word_of(seed + 4, from, to * 1000 + i) +
                     pl_mix64((uint64_t)b));
}

typedef struct mail {
    int from, index;
    uint8_t *bytes;
    size_t n;
    pl_message_t message;
} mail_t;

/* The index of the k-th message of a sender with this tag. */
static int nth_with_tag(uint64_t seed, int from, int to, int tag, int k)
{
    int i = 0;

    while ((message_tag(seed, from, to, i) != tag) || (k-- > 0)) {
        i++;
    }
    return i;
}

static void shuffle(pl_rng_t *rng, mail_t *mails, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j       = (int)pl_rng_below(rng, (uint64_t)i + 1);
        mail_t mail = mails[i];

        mails[i] = mails[j];
        mails[j] = mail;
    }
}

/* Post receives in any order of senders and tags: the k-th posted for a sender
 * and a tag gets the k-th that was sent. */
static int post_receives(pl_comm_t *comm, comm_notes_t *notes, pl_rng_t *rng,
                         mail_t *mails)
{
    int n                    = 0;
    int(*posted)[5 * N_TAGS] = calloc((size_t)comm->n_ranks, sizeof(*posted));

    for (int from = 0; from < comm->n_ranks; from++) {
        int count = message_count(notes->seed, from, comm->rank);

        for (int i = 0; i < count; i++) {
            mails[n].from    = from;
            mails[n++].index = i;
        }
    }
    shuffle(rng, mails, n);
    for (int i = 0; i < n; i++) {
        mail_t *mail = &mails[i];
        int from     = mail->from;
        int tag      = message_tag(notes->seed, from, comm->rank, mail->index);

        mail->index = nth_with_tag(notes->seed, from, comm->rank, tag,
                                   posted[from][tag]++);
        mail->n     = message_size(notes->seed, from, comm->rank, mail->index);
        mail->bytes = calloc(1, mail->n + 1);
        COMM_CHECK(notes, comm,
                   pl_comm_receive(comm, from, tag, mail->bytes, mail->n,
                                   &mail->message) == PL_OK);
    }
    free(posted);
    return n;
}

static int post_sends(pl_comm_t *comm, comm_notes_t *notes, mail_t *mails)
{
    int n = 0;

    for (int d = 0; d < comm->n_ranks; d++) {
        int to    = (comm->rank + d) % comm->n_ranks;
        int count = message_count(notes->seed, comm->rank, to);

        for (int i = 0; i < count; i++) {
            mail_t *mail = &mails[n++];

            mail->from  = -1;
            mail->n     = message_size(notes->seed, comm->rank, to, i);
            mail->bytes = malloc(mail->n + 1);
            for (size_t b = 0; b < mail->n; b++) {
                mail->bytes[b] =
                    message_byte(notes->seed, comm->rank, to, i, b);
            }
            COMM_CHECK(notes, comm,
                       pl_comm_send(comm, to,
                                    message_tag(notes->seed, comm->rank, to, i),
                                    mail->bytes, mail->n,
                                    &mail->message) == PL_OK);
        }
    }
    return n;
}

static bool mail_is_right(const pl_comm_t *comm, uint64_t seed,
                          const mail_t *mail)
{
    for (size_t b = 0; b < mail->n; b++) {
        if (mail->bytes[b] !=
            message_byte(seed, mail->from, comm->rank, mail->index, b)) {
            return false;
        }
    }
    return mail->bytes[mail->n] == 0;
}

void comm_case_messages(pl_comm_t *comm, comm_notes_t *notes)
{
    size_t most   = (size_t)(2 * MOST_MESSAGES * comm->n_ranks);
    mail_t *mails = calloc(most, sizeof(*mails));
    pl_rng_t rng  = pl_rng_seed(notes->seed + (uint64_t)comm->rank);
    bool good     = true;
    int n;

    if (pl_rng_below(&rng, 2) == 0) { /* sends may come first */
        n = post_sends(comm, notes, mails);
        n += post_receives(comm, notes, &rng, mails + n);
    } else {
        n = post_receives(comm, notes, &rng, mails);
        n += post_sends(comm, notes, mails + n);
    }
    shuffle(&rng, mails, n); /* wait in any order */
    for (int i = 0; i < n; i++) {
        COMM_CHECK(notes, comm, pl_comm_wait(comm, mails[i].message) == PL_OK);
        good = good && ((mails[i].from < 0) ||
                        mail_is_right(comm, notes->seed, &mails[i]));
        free(mails[i].bytes);
    }
    COMM_CHECK(notes, comm, good);
    COMM_CHECK(notes, comm, pl_comm_barrier(comm) == PL_OK);
    free(mails);
}

void comm_case_messages_refuse(pl_comm_t *comm, comm_notes_t *notes)
{
    uint8_t byte         = 0;
    pl_message_t message = 0;

    COMM_CHECK(notes, comm,
               pl_comm_send(comm, comm->n_ranks, 0, &byte, 1, &message) ==
                   PL_ERR_ARGUMENT);
    COMM_CHECK(notes, comm,
               pl_comm_receive(comm, 0, -1, &byte, 1, &message) ==
                   PL_ERR_ARGUMENT);
    COMM_CHECK(notes, comm,
               pl_comm_send(comm, 0, 0, NULL, 1, &message) == PL_ERR_ARGUMENT);
    COMM_CHECK(notes, comm, message == 0);
    COMM_CHECK(notes, comm, pl_comm_wait(comm, 0) == PL_OK);
    COMM_CHECK(notes, comm,
               pl_comm_wait(comm, UINT64_C(1) << 40 | 77) == PL_ERR_ARGUMENT);
    /* a message to oneself, waited for twice */
    COMM_CHECK(notes, comm,
               pl_comm_receive(comm, comm->rank, 1, NULL, 0, &message) ==
                   PL_OK);
    COMM_CHECK(notes, comm, message != 0);
    {
        pl_message_t sent = 0;

        COMM_CHECK(notes, comm,
                   pl_comm_send(comm, comm->rank, 1, NULL, 0, &sent) == PL_OK);
        COMM_CHECK(notes, comm, pl_comm_wait(comm, message) == PL_OK);
        COMM_CHECK(notes, comm, pl_comm_wait(comm, sent) == PL_OK);
    }
    COMM_CHECK(notes, comm, pl_comm_wait(comm, message) == PL_ERR_ARGUMENT);
}

void comm_case_large(pl_comm_t *comm, comm_notes_t *notes)
{
    const size_t n    = ((size_t)8 << 20) + 12345;
    int next          = (comm->rank + 1) % comm->n_ranks;
    int before        = (comm->rank + comm->n_ranks - 1) % comm->n_ranks;
    uint8_t *to       = malloc(n);
    uint8_t *from     = malloc(n);
    pl_message_t send = 0, receive = 0;
    bool good = true;

    memset(to, comm->rank + 1, n);
    memset(from, 0, n);
    COMM_CHECK(notes, comm,
               pl_comm_receive(comm, before, 9, from, n, &receive) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_send(comm, next, 9, to, n, &send) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_wait(comm, send) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_wait(comm, receive) == PL_OK);
    for (size_t i = 0; i < n; i++) {
        good = good && (from[i] == before + 1);
    }
    COMM_CHECK(notes, comm, good);
    COMM_CHECK(notes, comm,
               pl_comm_broadcast(comm, comm->n_ranks - 1, to, n) == PL_OK);
    COMM_CHECK(notes, comm, to[0] == comm->n_ranks);
    COMM_CHECK(notes, comm, to[n - 1] == comm->n_ranks);
    free(to);
    free(from);
}
