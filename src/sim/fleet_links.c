/* Transfers that share links. */
#include <stdlib.h>
#include <string.h>

#include "sim/fleet_internal.h"

#define MILLI 1000

pl_status_t pl_links_open(pl_fleet_t *fleet)
{
    const pl_fleet_params_t *params = &fleet->params;
    pl_links_t *links               = &fleet->links;
    size_t n_homes = (size_t)params->n_decode * (size_t)params->decode.n_decode;

    links->first_end_ns = INT64_MAX;
    links->n_sent = calloc((size_t)params->n_prefill, sizeof(*links->n_sent));
    links->n_received = calloc(n_homes + 1, sizeof(*links->n_received));
    return (links->n_sent == NULL) || (links->n_received == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

void pl_links_close(pl_links_t *links)
{
    PL_ARRAY_FREE(&links->sharing);
    PL_ARRAY_FREE(&links->flying);
    free(links->n_sent);
    free(links->n_received);
}

int64_t pl_links_next_ns(const pl_links_t *links)
{
    int64_t next = links->first_end_ns;

    if (links->flying_head < links->flying.n) {
        int64_t at_ns = links->flying.items[links->flying_head].at_ns;

        next = at_ns < next ? at_ns : next;
    }
    return next;
}

/* ---- shares ---- */

/* The narrower of both sides, and among how many it is divided. */
static void find_share(const pl_fleet_t *fleet, const pl_transfer_t *transfer,
                       int64_t *bytes_per_us_p, int32_t *shares_p)
{
    int64_t send       = fleet->params.send_bytes_per_us;
    int64_t receive    = fleet->params.receive_bytes_per_us;
    int32_t n_sent     = fleet->links.n_sent[transfer->from];
    int32_t n_received = fleet->links.n_received[transfer->home];
    bool by_sender     = send * n_received <= receive * n_sent;

    *bytes_per_us_p = by_sender ? send : receive;
    *shares_p       = by_sender ? n_sent : n_received;
}

static void settle(pl_transfer_t *transfer, int64_t now_ns)
{
    if (transfer->shares > 0) {
        transfer->left -= transfer->bytes_per_us *
                          (now_ns - transfer->since_ns) / transfer->shares;
    }
    transfer->since_ns = now_ns;
}

/* One to or from these has started or ended.  Whose share stays as it was is
 * not reckoned anew: nothing is rounded but where something changed. */
static void share_out(pl_fleet_t *fleet, int32_t from, int32_t home)
{
    pl_links_t *links = &fleet->links;

    links->first_end_ns = INT64_MAX;
    for (size_t i = 0; i < links->sharing.n; i++) {
        pl_transfer_t *transfer = &links->sharing.items[i];
        int64_t bytes_per_us    = transfer->bytes_per_us;
        int32_t shares          = transfer->shares;

        if ((transfer->from == from) || (transfer->home == home)) {
            find_share(fleet, transfer, &bytes_per_us, &shares);
        }
        if ((bytes_per_us != transfer->bytes_per_us) ||
            (shares != transfer->shares)) {
            settle(transfer, fleet->now_ns);
            transfer->bytes_per_us = bytes_per_us;
            transfer->shares       = shares;
            transfer->end_ns =
                fleet->now_ns +
                (transfer->left * shares + bytes_per_us - 1) / bytes_per_us;
        }
        if (transfer->end_ns < links->first_end_ns) {
            links->first_end_ns = transfer->end_ns;
        }
    }
}

/* One more (1) or one less (-1). */
static void count(pl_fleet_t *fleet, const pl_transfer_t *transfer, int change)
{
    const int32_t ends[] = {transfer->from, transfer->to};

    fleet->links.n_sent[transfer->from] += change;
    fleet->links.n_received[transfer->home] += change;
    for (int i = 0; i < 2; i++) {
        pl_fleet_instance_t *instance = &fleet->instances[ends[i]];

        if (instance->n_transfers > 0) {
            instance->usage.link_ns +=
                fleet->now_ns - instance->transfers_since_ns;
        }
        instance->transfers_since_ns = fleet->now_ns;
        instance->n_transfers += change;
    }
}

/* ---- from start to arrival ---- */

static pl_status_t fly(pl_fleet_t *fleet, const pl_transfer_t *transfer)
{
    pl_links_t *links  = &fleet->links;
    pl_flying_t flying = {.op      = transfer->op,
                          .request = transfer->request,
                          .at_ns =
                              fleet->now_ns + fleet->params.link_latency_ns,
                          .from = transfer->from};

    /* All fly equally long, so that they arrive in this order. */
    return PL_ARRAY_PUSH(&links->flying, flying);
}

/* Those that have arrived go when they are the most: there is always one on its
 * way where a link is busy, and each is moved less than once. */
static void drop_arrived(pl_links_t *links)
{
    size_t n_left = links->flying.n - links->flying_head;

    if (links->flying_head > n_left) {
        memmove(links->flying.items, links->flying.items + links->flying_head,
                n_left * sizeof(*links->flying.items));
        links->flying_head = 0;
        links->flying.n    = n_left;
    }
}

pl_status_t pl_links_start(pl_fleet_t *fleet, int32_t from, int32_t request,
                           int64_t op, int64_t bytes)
{
    const pl_fleet_record_t *record = &fleet->records[request];
    int32_t to                      = record->decode;
    int32_t homes_before =
        (to - fleet->params.n_prefill) * fleet->params.decode.n_decode;
    pl_transfer_t transfer = {.op       = op,
                              .request  = request,
                              .from     = from,
                              .to       = to,
                              .home     = homes_before + record->record.home,
                              .left     = bytes * MILLI,
                              .since_ns = fleet->now_ns,
                              .end_ns   = INT64_MAX};

    fleet->instances[from].usage.sent_bytes += bytes;
    fleet->instances[to].usage.received_bytes += bytes;
    if (bytes == 0) {
        return fly(fleet, &transfer);
    }
    PL_TRY(PL_ARRAY_PUSH(&fleet->links.sharing, transfer));
    count(fleet, &transfer, 1);
    share_out(fleet, transfer.from, transfer.home);
    return PL_OK;
}

static pl_status_t end_share(pl_fleet_t *fleet, size_t i)
{
    pl_links_t *links      = &fleet->links;
    pl_transfer_t transfer = links->sharing.items[i];

    links->sharing.n--;
    memmove(links->sharing.items + i, links->sharing.items + i + 1,
            (links->sharing.n - i) * sizeof(*links->sharing.items));
    count(fleet, &transfer, -1);
    share_out(fleet, transfer.from, transfer.home);
    return fly(fleet, &transfer);
}

pl_status_t pl_links_advance(pl_fleet_t *fleet)
{
    pl_links_t *links = &fleet->links;

    for (size_t i = 0; i < links->sharing.n;) {
        if (links->sharing.items[i].end_ns <= fleet->now_ns) {
            PL_TRY(end_share(fleet, i));
        } else {
            i++;
        }
    }
    while (links->flying_head < links->flying.n) {
        pl_flying_t flying = links->flying.items[links->flying_head];

        if (flying.at_ns > fleet->now_ns) {
            break;
        }
        links->flying_head++;
        pl_engine_sent(fleet->instances[flying.from].engine, flying.op,
                       fleet->now_ns);
        pl_fleet_changed(fleet, flying.from);
        PL_TRY(pl_fleet_sent(fleet, flying.request));
    }
    drop_arrived(links);
    return PL_OK;
}
