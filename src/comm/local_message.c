/* Messages between virtual ranks.  A send is done when it returns: its bytes
 * are where the posted receive wants them, or, if there is none yet, a copy of
 * them waits in the receiver's mailbox. */
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

void pl_local_settle(pl_local_t *self)
{
    for (size_t i = 0; i < self->receives.n; i++) {
        while (self->receives.items[i].filling) {
            pthread_cond_wait(&self->hub->wake[self->comm.rank],
                              &self->hub->mutex);
        }
    }
}

/* ---- sending ---- */

/* The oldest receive of `to` that waits for such a message, or NULL. */
static pl_local_receive_t *find_waiting(pl_local_t *to, int from, int tag)
{
    for (size_t i = 0; i < to->receives.n; i++) {
        pl_local_receive_t *receive = &to->receives.items[i];

        if (!receive->matched && (receive->from == from) &&
            (receive->tag == tag)) {
            return receive;
        }
    }
    return NULL;
}

/* With the mutex held, which is let go for the copy: the others need not wait
 * for that, and the receive stays until it is filled. */
static void fill(pl_local_hub_t *hub, pl_local_t *to,
                 pl_local_receive_t *receive, const void *bytes, size_t n)
{
    pl_message_t message = receive->message;
    uint8_t *place       = receive->bytes;

    receive->matched = true;
    receive->mail    = (pl_local_mail_t){.tag = receive->tag, .n = n};
    if ((n > 0) && (n == receive->n)) {
        receive->filling = true;
        pthread_mutex_unlock(&hub->mutex);
        memcpy(place, bytes, n);
        pthread_mutex_lock(&hub->mutex);
        find(to, message)->filling = false;
    }
    pthread_cond_signal(&hub->wake[to->comm.rank]);
}

/* With the mutex held: for the receive that was posted meanwhile, or the
 * mailbox. */
static pl_status_t put(const pl_local_t *self, int to,
                       const pl_local_mail_t *mail)
{
    pl_local_hub_t *hub = self->hub;
    pl_local_receive_t *receive =
        find_waiting(hub->ranks[to], self->comm.rank, mail->tag);

    if (hub->broken != PL_OK) {
        return hub->broken;
    }
    if (receive == NULL) {
        return PL_ARRAY_PUSH(mailbox(hub, to, self->comm.rank), *mail) == PL_OK
                   ? PL_OK
                   : no_memory(self, "send", mail->n);
    }
    receive->matched = true;
    receive->mail    = *mail;
    pthread_cond_signal(&hub->wake[to]);
    return PL_OK;
}

static pl_status_t leave(pl_local_t *self, int to, int tag, const void *bytes,
                         size_t n)
{
    pl_local_mail_t mail = {.tag = tag, .n = n};
    pl_status_t status;

    if (n > 0) {
        mail.bytes = malloc(n);
        if (mail.bytes == NULL) {
            return no_memory(self, "send", n);
        }
        memcpy(mail.bytes, bytes, n);
    }
    pthread_mutex_lock(&self->hub->mutex);
    status = put(self, to, &mail);
    if (status != PL_OK) {
        pl_local_settle(self);
    }
    pthread_mutex_unlock(&self->hub->mutex);
    if (status != PL_OK) {
        free(mail.bytes);
    }
    /* cppcheck-suppress memleak; the mailbox or the receive owns the bytes */
    return status;
}

pl_status_t pl_local_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                          size_t n, pl_message_t *message_p)
{
    pl_local_t *self            = (pl_local_t *)comm;
    pl_local_hub_t *hub         = self->hub;
    pl_local_receive_t *receive = NULL;
    pl_status_t status;

    *message_p = 0; /* done when this returns */
    pthread_mutex_lock(&hub->mutex);
    status = hub->broken;
    if (status == PL_OK) {
        receive = find_waiting(hub->ranks[to], comm->rank, tag);
    }
    if (status != PL_OK) {
        pl_local_settle(self);
    } else if (receive != NULL) {
        fill(hub, hub->ranks[to], receive, bytes, n);
    }
    pthread_mutex_unlock(&hub->mutex);
    return (status != PL_OK) || (receive != NULL)
               ? status
               : leave(self, to, tag, bytes, n);
}

/* ---- receiving ---- */

/* With the mutex held: the oldest mail with the receive's tag, if any, becomes
 * its own. */
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

pl_status_t pl_local_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                             size_t n, pl_message_t *message_p)
{
    pl_local_t *self           = (pl_local_t *)comm;
    pl_local_receive_t receive = {.message = self->last_message + 1,
                                  .from    = from,
                                  .tag     = tag,
                                  .bytes   = bytes,
                                  .n       = n};
    pl_status_t status;

    pthread_mutex_lock(&self->hub->mutex);
    status = PL_ARRAY_PUSH(&self->receives, receive);
    if (status == PL_OK) {
        match(self->hub, comm->rank,
              &self->receives.items[self->receives.n - 1]);
    }
    pthread_mutex_unlock(&self->hub->mutex);
    if (status != PL_OK) {
        return no_memory(self, "receive", n);
    }
    *message_p = ++self->last_message;
    return PL_OK;
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

/* With the mutex held: until the receive has its mail.  What a sender copies
 * is waited for in any case: the place belongs to the message so long. */
static pl_status_t wait_for_mail(pl_local_t *self,
                                 const pl_local_receive_t *receive)
{
    pl_local_hub_t *hub      = self->hub;
    struct timespec deadline = pl_local_deadline(self->comm.timeout_s);
    bool in_time             = true;

    while (!receive->matched || receive->filling) {
        if (receive->filling) {
            pthread_cond_wait(&hub->wake[self->comm.rank], &hub->mutex);
            continue;
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
    return PL_OK;
}

static void remove_receive(pl_local_t *self, const pl_local_receive_t *receive)
{
    size_t i = (size_t)(receive - self->receives.items);

    free(receive->mail.bytes);
    pthread_mutex_lock(&self->hub->mutex);
    self->receives.n--;
    memmove(self->receives.items + i, self->receives.items + i + 1,
            (self->receives.n - i) * sizeof(*self->receives.items));
    pthread_mutex_unlock(&self->hub->mutex);
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
    if (status != PL_OK) {
        pl_local_settle(self);
    }
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
    } else if (receive->mail.bytes != NULL) {
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
