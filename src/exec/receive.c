/* What the home does with a prompt that comes in. */
#include <inttypes.h>
#include <string.h>

#include "exec/send_internal.h"

static pl_status_t wait_for(pl_exec_t *exec, pl_message_t *message)
{
    pl_message_t waited = *message;

    *message = 0;
    return waited == 0 ? PL_OK : pl_comm_wait(exec->comm, waited);
}

static pl_exec_site_t transfer_site(const pl_exec_t *exec,
                                    const pl_send_t *send, int32_t i)
{
    pl_exec_site_t site = {.place = PL_PLACE_TRANSFER,
                           .tier  = PL_FREED_DEVICE,
                           .page  = send->pages[i].src,
                           .home  = -1,
                           .position =
                               (send->first_page + i) * exec->page_tokens,
                           .request = send->request,
                           .node    = -1};

    return site;
}

/* ---- pages ---- */

/* One piece of page i: check what came, keep it.  Its bytes are looked at in
 * the message, which the host reaches. */
static pl_status_t take_piece(pl_exec_t *exec, pl_sends_t *sends,
                              const pl_send_t *send, int32_t i, int32_t rows,
                              const pl_piece_t *piece, const uint8_t *at)
{
    const pl_store_t *store  = &exec->stores[PL_FREED_DECODE];
    const send_page_t *page  = &send->pages[i];
    int32_t slot             = pl_exec_slot(exec, PL_FREED_DECODE, page->dst);
    pl_exec_site_t site      = transfer_site(exec, send, i);
    pl_exec_read_t read      = {.guard  = page->src_guard,
                                .hashed = pl_exec_verifies(exec)};
    pl_page_header_t *header = pl_piece_header(store, piece, slot);
    pl_copy_t copy           = {pl_piece_page(store, piece, slot),
                                at + sizeof(pl_page_header_t),
                                store->stride[piece->which]};

    memcpy(&read.header, at, sizeof(read.header));
    if (read.hashed) {
        read.digest =
            pl_exec_digest(&store->form[piece->which], copy.src, piece->layer,
                           piece->which, rows, site.position);
    }
    header->digest = read.header.digest;
    header->guard  = page->dst_guard;
    if (!pl_exec_sound(exec, &site, piece->layer, piece->which, &read)) {
        header->guard                         = PL_GUARD_DAMAGED;
        exec->requests[send->request].damaged = true;
    }
    store->tags[slot].position = site.position;
    store->tags[slot].rows     = rows;
    return PL_ARRAY_PUSH(&sends->copies, copy);
}

/* The place that stands before a page's bytes is one of those this rank owes,
 * and the first of its kind; -1 if not. */
static int32_t index_of(const pl_exec_t *exec, const pl_send_t *send, int rank,
                        const send_place_t *place)
{
    int32_t i = place->position - send->first_page;

    if ((i < 0) || (i >= send->n_pages) || send->pages[i].came ||
        (place->page != send->pages[i].src) ||
        (pl_page_owner(send->pages[i].src, exec->n_prefill) != rank) ||
        (place->rows != pl_exec_rows(exec, place->position,
                                     send->first_token + send->n_tokens))) {
        return -1;
    }
    return i;
}

static pl_status_t unpack(pl_exec_t *exec, pl_sends_t *sends, pl_send_t *send,
                          const send_from_t *from)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    const uint8_t *at       = from->bytes + sizeof(send_head_t);

    for (int32_t n = 0; n < from->n_pages; n++) {
        send_place_t place;
        int32_t i;

        memcpy(&place, at, sizeof(place));
        at += sizeof(place);
        i = index_of(exec, send, from->rank, &place);
        if (i < 0) {
            pl_log(exec->log, PL_LOG_ERROR,
                   "rank %d sent page %" PRId64 " as position %" PRId32
                   " of request %" PRId32
                   ", which is not its to send; please report this",
                   from->rank, place.page, place.position, send->request);
            return PL_ERR_INTERNAL;
        }
        send->pages[i].came = true;
        for (pl_piece_t piece = PL_PIECE_FIRST;
             pl_piece_next(&store->layout, &piece);) {
            PL_TRY(take_piece(exec, sends, send, i, place.rows, &piece, at));
            at += sizeof(pl_page_header_t) + store->stride[piece.which];
        }
        /* its other half; the page itself was counted where it was sent */
        pl_op_log_place(
            exec->log_of_ops, send->id, place.position, -1,
            pl_exec_slot(exec, PL_FREED_DECODE, send->pages[i].dst));
    }
    return PL_OK;
}

/* A page of the pool may still be on its way to poison, or have been read by
 * the forward pass; from now on that reads what came. */
static pl_status_t keep_pages(pl_exec_t *exec, const pl_sends_t *sends)
{
    PL_TRY(pl_device_order(exec->device, PL_STREAM_SEND, PL_STREAM_COMPUTE));
    PL_TRY(pl_device_copy(exec->device, PL_STREAM_SEND, sends->copies.items,
                          (int32_t)sends->copies.n, false));
    return pl_device_order(exec->device, PL_STREAM_COMPUTE, PL_STREAM_SEND);
}

/* The decode pages of a request, by position; what did not come is no page. */
static pl_status_t keep_places(pl_exec_t *exec, const pl_send_t *send)
{
    pl_exec_request_t *request = &exec->requests[send->request];
    size_t end = (size_t)send->first_page + (size_t)send->n_pages;

    if (send->attempt != request->attempt) {
        return PL_OK;
    }
    PL_TRY(PL_ARRAY_RESERVE(&request->decode_pages, end + 1));
    while (request->decode_pages.n < end) {
        request->decode_pages.items[request->decode_pages.n++] = PL_NO_PAGE;
    }
    for (int32_t i = 0; i < send->n_pages; i++) {
        if (send->pages[i].came) {
            request->decode_pages.items[send->first_page + i] =
                send->pages[i].dst;
        }
    }
    return PL_OK;
}

/* Flip one bit of the first row of the first page that the first message
 * brings. */
static void flip(const pl_send_t *send)
{
    send->from[0].bytes[sizeof(send_head_t) + sizeof(send_place_t) +
                        sizeof(pl_page_header_t)] ^= 0x10;
}

pl_status_t pl_receive_pages(pl_exec_t *exec, pl_sends_t *sends,
                             pl_send_t *send)
{
    sends->copies.n = 0;
    pl_transfer_open(&send->transfer, exec->n_prefill);
    for (int i = 0; i < send->n_from; i++) {
        send_from_t *from = &send->from[i];
        send_head_t head;

        PL_TRY(wait_for(exec, &from->message));
        if ((i == 0) && pl_exec_injects(exec, PL_INJECT_FLIP_TRANSFER)) {
            flip(send);
        }
        memcpy(&head, from->bytes, sizeof(head));
        if ((head.op != send->id) || (head.n_pages != from->n_pages)) {
            pl_log(exec->log, PL_LOG_ERROR,
                   "rank %d sent %" PRId32 " pages of operation %" PRId64
                   ", but %" PRId32 " of %" PRId64
                   " were expected; please report this",
                   from->rank, head.n_pages, head.op, from->n_pages, send->id);
            return PL_ERR_INTERNAL;
        }
        if (head.aborted == 0) {
            PL_TRY(unpack(exec, sends, send, from));
        }
        pl_transfer_report(&send->transfer, from->rank, head.aborted == 0);
    }
    /* The plan says for ranks without pages that they have nothing to send. */
    for (int rank = 0; rank < exec->n_prefill; rank++) {
        if (!send->transfer.reported[rank]) {
            pl_transfer_report(&send->transfer, rank, true);
        }
    }
    PL_TRY(keep_pages(exec, sends));
    return keep_places(exec, send);
}

/* ---- first token ---- */

pl_status_t pl_receive_handover(pl_exec_t *exec, pl_send_t *send)
{
    pl_exec_request_t *request = &exec->requests[send->request];
    const pl_handover_t *message;

    if (!send->last) {
        return PL_OK;
    }
    PL_TRY(wait_for(exec, &send->slot_message));
    if (!pl_handover_is_for(send->slot, send->request, send->attempt)) {
        pl_exec_site_t site = {.place    = PL_PLACE_TRANSFER,
                               .page     = -1,
                               .home     = -1,
                               .position = send->first_token,
                               .request  = send->request,
                               .node     = -1};

        pl_exec_violate(exec, PL_INVARIANT_TRANSFER, &site, 0, 0,
                        site.position);
        return PL_OK;
    }
    message = &send->slot->message;
    if (send->attempt == request->attempt) {
        request->prompt_tokens = send->first_token + send->n_tokens;
        request->token         = (int32_t)message->token;
        request->sent_digest   = message->digest;
    }
    return PL_OK;
}

/* ---- the whole prompt ---- */

/* Digest of the first `end` rows held, all layers and stores; the host waits.
 * PL_ERR_INTERNAL if a page never came. */
static pl_status_t held_digest(pl_exec_t *exec, int32_t index, int32_t end,
                               uint64_t *digest_p)
{
    const pl_exec_request_t *request = &exec->requests[index];

    pl_digests_clear(&exec->digests);
    for (int32_t i = 0; i < pl_exec_pages(exec, end); i++) {
        if (((size_t)i >= request->decode_pages.n) ||
            (request->decode_pages.items[i] == PL_NO_PAGE)) {
            pl_log(exec->log, PL_LOG_ERROR,
                   "request %" PRId32 " was handed over with pages missing; "
                   "please report this",
                   index);
            return PL_ERR_INTERNAL;
        }
        PL_TRY(pl_digests_add_page(
            &exec->digests, &exec->stores[PL_FREED_DECODE],
            pl_exec_slot(exec, PL_FREED_DECODE, request->decode_pages.items[i]),
            pl_exec_rows(exec, i, end), i * exec->page_tokens));
    }
    PL_TRY(pl_digests_take(&exec->digests, exec->device));
    *digest_p = pl_digests_sum(&exec->digests);
    return PL_OK;
}

/* Of the prompt alone, which is part of the result, and of all rows held, if
 * the compute or verification looks at that. */
static pl_status_t take_digests(pl_exec_t *exec, int32_t index,
                                uint64_t *digest_p)
{
    pl_exec_request_t *request = &exec->requests[index];
    int32_t original           = pl_exec_prompt_tokens(exec, index);

    PL_TRY(held_digest(exec, index, original, digest_p));
    request->digest_held = *digest_p;
    return (request->prompt_tokens != original) && pl_exec_hashes(exec)
               ? held_digest(exec, index, request->prompt_tokens,
                             &request->digest_held)
               : PL_OK;
}

static void compare(pl_exec_t *exec, int32_t index, int32_t home,
                    int32_t invariant)
{
    const pl_exec_request_t *request = &exec->requests[index];
    pl_exec_site_t site              = {.place   = PL_PLACE_DECODE,
                                        .tier    = PL_FREED_DECODE,
                                        .page    = request->decode_pages.items[0],
                                        .home    = home,
                                        .request = index,
                                        .node    = -1};

    pl_exec_violate(exec, invariant, &site, 0, 0, 0);
}

pl_status_t pl_receive_prompt(pl_exec_t *exec, int32_t index, int32_t home)
{
    pl_exec_request_t *request = &exec->requests[index];
    int32_t original           = pl_exec_prompt_tokens(exec, index);
    uint64_t digest            = 0;

    if (request->failed || (request->n_sends > 0) ||
        (request->prompt_tokens == 0)) {
        return PL_OK;
    }
    PL_TRY(take_digests(exec, index, &digest));
    if (pl_exec_verifies(exec) && !request->damaged &&
        (request->digest_held != request->sent_digest)) {
        compare(exec, index, home, PL_INVARIANT_BYTES);
    }
    if (request->has_digest && !request->damaged &&
        (request->digest != digest)) {
        compare(exec, index, home, PL_INVARIANT_REPEAT);
    }
    if ((exec->verify == PL_VERIFY_FULL) && !request->damaged &&
        (exec->compute->ops->expect_all != NULL) &&
        (exec->compute->ops->expect_all(exec->compute, index, original) !=
         digest)) {
        compare(exec, index, home, PL_INVARIANT_BYTES);
    }
    if (!request->has_digest) {
        request->has_digest = true;
        request->digest     = digest;
    }
    request->prompt_tokens = 0;
    return PL_ARRAY_PUSH(&request->generated, request->token);
}
