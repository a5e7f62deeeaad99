/* Messages between virtual ranks: a send leaves a copy in the receiver's
 * mailbox and is done. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/local.h"

static pl_local_mailbox_t *mailbox(pl_local_hub_t *hub, int to, int from)
{
    return &hub->mailboxes[to * hub->n_ranks + from];
}

static pl_status_t no_memory(const pl_local_t *self, const char *call, size_t n)
{
    pl_log(self->comm.log, PL_LOG_ERROR,
           "rank %d: %s: no memory for a message of %zu bytes", self->comm.rank,
           call, n);
    return PL_ERR_MEMORY;
}

pl_status_t pl_local_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                          size_t n, pl_message_t *message_p)
{
    pl_local_t *self     = (pl_local_t *)comm;
    pl_local_hub_t *hub  = self->hub;
    pl_local_mail_t mail = {.tag = tag, .n = n};
    pl_status_t status;

    if (n > 0) {
        mail.bytes = malloc(n);
        if (mail.bytes == NULL) {
            return no_memory(self, "send", n);
        }
        memcpy(mail.bytes, bytes, n);
    }
    pthread_mutex_lock(&hub->mutex);
    status = hub->broken;
    if (status == PL_OK) {
        status = PL_ARRAY_PUSH(mailbox(hub, to, comm->rank), mail);
        if (status == PL_OK) {
            pthread_cond_signal(&hub->wake[to]);
        } else {
            (void)no_memory(self, "send", n);
        }
    }
    pthread_mutex_unlock(&hub->mutex);
    if (status != PL_OK) {
        free(mail.bytes);
        return status;
    }
    *message_p = 0; /* done already */
    /* cppcheck-suppress memleak; the mailbox owns the bytes */
    return PL_OK;
}

pl_status_t pl_local_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                             size_t n, pl_message_t *message_p)
{
    pl_local_t *self           = (pl_local_t *)comm;
    pl_local_receive_t receive = {.message = self->last_message + 1,
                                  .from    = from,
                                  .tag     = tag,
                                  .bytes   = bytes,
                                  .n       = n};

    if (PL_ARRAY_PUSH(&self->receives, receive) != PL_OK) {
        return no_memory(self, "receive", n);
    }
    *message_p = ++self->last_message;
    return PL_OK;
}

/* The oldest mail with the receive's tag, if any, becomes its own. */
static void match(pl_local_hub_t *hub, int rank, pl_local_receive_t *receive)
{
    pl_local_mailbox_t *box = mailbox(hub, rank, receive->from);

    for (size_t i = 0; i < box->n; i++) {
        if (box->items[i].tag == receive->tag) {
            receive->mail    = box->items[i];
            receive->matched = true;
            box->n--;
            memmove(box->items + i, box->items + i + 1,
                    (box->n - i) * sizeof(*box->items));
            return;
        }
    }
}

/* Returns the receive, or NULL if there is none with this handle. */
static pl_local_receive_t *find(pl_local_t *self, pl_message_t message)
{
    for (size_t i = 0; i < self->receives.n; i++) {
        if (self->receives.items[i].message == message) {
            return &self->receives.items[i];
        }
    }
    return NULL;
}

/* Older receives come first, so that order holds per sender and tag. */
static void match_up_to(pl_local_t *self, const pl_local_receive_t *last)
{
    pl_local_receive_t *receive = self->receives.items;

    for (; receive <= last; receive++) {
        if (!receive->matched && (receive->from == last->from) &&
            (receive->tag == last->tag)) {
            match(self->hub, self->comm.rank, receive);
        }
    }
}

static void report_missing(const pl_local_t *self,
                           const pl_local_receive_t *receive, bool in_time)
{
    if (in_time) {
        pl_log(self->comm.log, PL_LOG_ERROR,
               "rank %d: rank %d has ended without sending the message with "
               "tag %d",
               self->comm.rank, receive->from, receive->tag);
    } else {
        pl_log(self->comm.log, PL_LOG_ERROR,
               "rank %d: waited %.6g s for a message with tag %d (%zu bytes) "
               "from rank %d",
               self->comm.rank, self->comm.timeout_s, receive->tag, receive->n,
               receive->from);
    }
}

/* With the mutex held: until the receive has its mail. */
static pl_status_t wait_for_mail(pl_local_t *self,
                                 const pl_local_receive_t *receive)
{
    pl_local_hub_t *hub      = self->hub;
    struct timespec deadline = pl_local_deadline(self->comm.timeout_s);
    bool in_time             = true;

    for (;;) {
        match_up_to(self, receive);
        if (receive->matched) {
            return PL_OK;
        }
        if (hub->broken != PL_OK) {
            return hub->broken;
        }
        if (!in_time || hub->ended[receive->from]) {
            report_missing(self, receive, in_time);
            pl_local_break(hub, PL_ERR_COMM);
            return PL_ERR_COMM;
        }
        in_time = pl_local_sleep(self, &deadline);
    }
}

static void remove_receive(pl_local_t *self, const pl_local_receive_t *receive)
{
    size_t i = (size_t)(receive - self->receives.items);

    free(receive->mail.bytes);
    self->receives.n--;
    memmove(self->receives.items + i, self->receives.items + i + 1,
            (self->receives.n - i) * sizeof(*self->receives.items));
}

pl_status_t pl_local_wait(pl_comm_t *comm, pl_message_t message)
{
    pl_local_t *self            = (pl_local_t *)comm;
    pl_local_receive_t *receive = find(self, message);
    pl_status_t status;

    if (receive == NULL) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: wait: there is no message %" PRIu64
               ", or it was waited for already",
               comm->rank, message);
        return PL_ERR_ARGUMENT;
    }
    pthread_mutex_lock(&self->hub->mutex);
    status = wait_for_mail(self, receive);
    pthread_mutex_unlock(&self->hub->mutex);
    if (status != PL_OK) {
        return status;
    }
    if (receive->mail.n != receive->n) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: a message with tag %d from rank %d has %zu bytes, not "
               "%zu",
               comm->rank, receive->tag, receive->from, receive->mail.n,
               receive->n);
        status = PL_ERR_DISAGREE;
    } else if (receive->n > 0) {
        memcpy(receive->bytes, receive->mail.bytes, receive->n);
    }
    remove_receive(self, receive);
    return status;
}

void pl_local_drop_receives(pl_local_t *self)
{
    if ((self->receives.n > 0) && (self->hub->broken == PL_OK)) {
        pl_log(self->comm.log, PL_LOG_WARN,
               "rank %d: %zu receives were never waited for", self->comm.rank,
               self->receives.n);
    }
    for (size_t i = 0; i < self->receives.n; i++) {
        free(self->receives.items[i].mail.bytes);
    }
    PL_ARRAY_FREE(&self->receives);
}
