#include "exec/send.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "exec/send_internal.h"

size_t pl_send_bytes(const pl_store_layout_t *layout, int32_t n_pages)
{
    size_t page = sizeof(send_place_t) + pl_store_page_bytes(layout);

    for (int which = 0; which < PL_STORES; which++) {
        page +=
            (size_t)pl_store_n_arrays(layout, which) * sizeof(pl_page_header_t);
    }
    return sizeof(send_head_t) + (size_t)n_pages * page;
}

static int32_t pages_of(const pl_exec_t *exec, const pl_op_t *op, int rank)
{
    int32_t n = 0;

    for (int32_t i = 0; i < op->n_pages; i++) {
        n += pl_page_owner(op->pages[i], exec->n_prefill) == rank ? 1 : 0;
    }
    return n;
}

/* ---- memory ---- */

static void free_send(pl_exec_t *exec, pl_sends_t *sends, pl_send_t *send)
{
    for (int i = 0; i < send->n_from; i++) {
        pl_buffer_give(&sends->buffers, exec->device, send->from[i].bytes);
    }
    pl_buffer_give(&sends->buffers, exec->device, send->out);
    free(send->from);
    free(send->pages);
    free(send);
}

static size_t find(const pl_sends_t *sends, int64_t id)
{
    for (size_t i = 0; i < sends->items.n; i++) {
        if (sends->items.items[i]->id == id) {
            return i;
        }
    }
    return sends->items.n;
}

static void forget(pl_exec_t *exec, pl_sends_t *sends, size_t i)
{
    pl_send_t *send = sends->items.items[i];

    if (send->slot != NULL) {
        pl_handover_give(send->slot);
    }
    free_send(exec, sends, send);
    memmove(&sends->items.items[i], &sends->items.items[i + 1],
            (sends->items.n - i - 1) * sizeof(*sends->items.items));
    sends->items.n--;
}

/* Room for what each rank with pages will send to this home. */
static pl_status_t reserve_home(pl_exec_t *exec, pl_sends_t *sends,
                                const pl_op_t *op, pl_send_t *send)
{
    const pl_store_layout_t *layout = &exec->stores[PL_FREED_DECODE].layout;

    send->from  = calloc((size_t)exec->n_prefill, sizeof(*send->from));
    send->pages = calloc((size_t)op->n_pages + 1, sizeof(*send->pages));
    if ((send->from == NULL) || (send->pages == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int rank = 0; rank < exec->n_prefill; rank++) {
        int32_t n         = pages_of(exec, op, rank);
        send_from_t *from = &send->from[send->n_from];

        if (n == 0) {
            continue;
        }
        from->rank    = rank;
        from->n_pages = n;
        from->n_bytes = pl_send_bytes(layout, n);
        PL_TRY(pl_buffer_take(&sends->buffers, exec->device, from->n_bytes,
                              &from->bytes));
        send->n_from++;
    }
    return op->last
               ? pl_handover_take(&sends->handovers, op->request, &send->slot)
               : PL_OK;
}

static pl_send_t *make_send(const pl_op_t *op)
{
    pl_send_t *send = calloc(1, sizeof(*send));

    if (send != NULL) {
        send->id          = op->id;
        send->request     = op->request;
        send->home        = op->home;
        send->first_page  = op->first_page;
        send->n_pages     = op->n_pages;
        send->first_token = op->first_token;
        send->n_tokens    = op->n_tokens;
        send->last        = op->last;
    }
    return send;
}

pl_status_t pl_send_reserve(pl_exec_t *exec, pl_sends_t *sends,
                            const pl_op_t *op)
{
    const pl_exec_request_t *request = &exec->requests[op->request];
    bool hands_over = op->last && (request->first_rank == exec->rank);
    int32_t n_out   = pages_of(exec, op, exec->rank);
    pl_send_t *send;
    pl_status_t status;

    if ((n_out == 0) && !hands_over && (op->home != exec->rank)) {
        return PL_OK;
    }
    send = make_send(op);
    if (send == NULL) {
        return PL_ERR_MEMORY;
    }
    send->n_out = n_out;
    if (n_out > 0) {
        send->out_bytes =
            pl_send_bytes(&exec->stores[PL_FREED_DEVICE].layout, n_out);
        PL_TRY_GOTO(status,
                    pl_buffer_take(&sends->buffers, exec->device,
                                   send->out_bytes, &send->out),
                    err);
    }
    if (op->home == exec->rank) {
        PL_TRY_GOTO(status, reserve_home(exec, sends, op, send), err);
    }
    PL_TRY_GOTO(status, PL_ARRAY_PUSH(&sends->items, send), err);
    return PL_OK;

err:
    if (send->slot != NULL) {
        pl_handover_give(send->slot);
    }
    free_send(exec, sends, send);
    return status;
}

/* ---- sending ---- */

/* With verification: the digests of all pages that are to be sent. */
static pl_status_t hash_pages(pl_exec_t *exec, const pl_op_t *op)
{
    pl_digests_clear(&exec->digests);
    for (int32_t i = 0; pl_exec_verifies(exec) && (i < op->n_pages); i++) {
        int32_t position = op->first_page + i;

        if (pl_page_owner(op->pages[i], exec->n_prefill) == exec->rank) {
            PL_TRY(pl_digests_add_page(
                &exec->digests, &exec->stores[PL_FREED_DEVICE],
                pl_exec_slot(exec, PL_FREED_DEVICE, op->pages[i]),
                pl_exec_rows(exec, position, op->first_token + op->n_tokens),
                position * exec->page_tokens));
        }
    }
    return pl_digests_take(&exec->digests, exec->device);
}

/* One page with all layers and stores: its headers, and copies of its bytes. */
static pl_status_t pack_page(pl_exec_t *exec, pl_sends_t *sends,
                             const pl_op_t *op, int32_t i, uint8_t **at_p)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    pl_page_t page          = op->pages[i];
    int32_t slot            = pl_exec_slot(exec, PL_FREED_DEVICE, page);
    send_place_t place      = {.position = op->first_page + i,
                               .rows     = pl_exec_rows(exec, op->first_page + i,
                                                        op->first_token + op->n_tokens),
                               .page     = page};
    pl_exec_site_t site     = {.place    = PL_PLACE_DEVICE,
                               .tier     = PL_FREED_DEVICE,
                               .page     = page,
                               .home     = -1,
                               .position = place.position * exec->page_tokens,
                               .request  = op->request,
                               .node     = -1};
    pl_exec_read_t read     = {.guard =
                                   pl_exec_guard(exec, PL_FREED_DEVICE, page, -1),
                               .hashed = pl_exec_verifies(exec)};

    memcpy(*at_p, &place, sizeof(place));
    *at_p += sizeof(place);
    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        pl_copy_t copy = {*at_p + sizeof(read.header),
                          pl_piece_page(store, &at, slot),
                          store->stride[at.which]};

        read.header = *pl_piece_header(store, &at, slot);
        read.digest = read.hashed ? pl_digests_next(&exec->digests) : 0;
        if (!pl_exec_sound(exec, &site, at.layer, at.which, &read)) {
            read.header.guard = PL_GUARD_DAMAGED;
        }
        memcpy(*at_p, &read.header, sizeof(read.header));
        PL_TRY(PL_ARRAY_PUSH(&sends->copies, copy));
        pl_op_log_bytes(exec->log_of_ops, op->id, copy.bytes);
        *at_p += sizeof(read.header) + copy.bytes;
    }
    pl_op_log_page(exec->log_of_ops, op->id, place.position, slot, -1);
    return PL_OK;
}

static pl_status_t pack_pages(pl_exec_t *exec, pl_sends_t *sends,
                              const pl_op_t *op, pl_send_t *send)
{
    uint8_t *at = send->out + sizeof(send_head_t);

    sends->copies.n = 0;
    PL_TRY(hash_pages(exec, op));
    for (int32_t i = 0; i < op->n_pages; i++) {
        if (pl_page_owner(op->pages[i], exec->n_prefill) == exec->rank) {
            PL_TRY(pack_page(exec, sends, op, i, &at));
        }
    }
    assert(at == send->out + send->out_bytes);
    /* The pages were written on COMPUTE, or read there since they came back. */
    PL_TRY(pl_device_order(exec->device, PL_STREAM_SEND, PL_STREAM_COMPUTE));
    PL_TRY(pl_device_copy(exec->device, PL_STREAM_SEND, sends->copies.items,
                          (int32_t)sends->copies.n, false));
    return pl_device_record(exec->device, PL_STREAM_SEND, &send->out_fence);
}

static pl_status_t post(pl_exec_t *exec, pl_send_t *send)
{
    PL_TRY(pl_device_wait(exec->device, PL_STREAM_SEND, send->out_fence));
    send->is_packed = false;
    return pl_comm_send(exec->comm, send->home, PL_TAG_PAGES, send->out,
                        send->out_bytes, &send->out_message);
}

pl_status_t pl_sends_post(pl_exec_t *exec, pl_sends_t *sends, int64_t id)
{
    /* In the order in which their receives were posted. */
    for (size_t i = 0; i < sends->items.n; i++) {
        pl_send_t *send = sends->items.items[i];

        if (send->is_packed && (send->id <= id)) {
            PL_TRY(post(exec, send));
        }
    }
    return PL_OK;
}

static pl_status_t send_pages(pl_exec_t *exec, pl_sends_t *sends,
                              const pl_op_t *op, pl_send_t *send)
{
    send_head_t head = {.op = op->id, .n_pages = send->n_out};

    send->aborted = pl_exec_injects(exec, PL_INJECT_TRANSFER_ABORT);
    head.aborted  = send->aborted ? 1 : 0;
    if (send->aborted) {
        memset(send->out, PL_POISON_BYTE, send->out_bytes);
    } else {
        PL_TRY(pack_pages(exec, sends, op, send));
    }
    memcpy(send->out, &head, sizeof(head));
    exec->counters->pages[PL_OP_SEND] += send->n_out;
    exec->counters->bytes[PL_OP_SEND] +=
        send->n_out *
        (int64_t)pl_store_page_bytes(&exec->stores[PL_FREED_DEVICE].layout);
    send->is_packed = true;
    /* Where the host does the copies itself there is nothing to wait for. */
    return exec->device->addressable ? post(exec, send) : PL_OK;
}

static pl_status_t post_receives(pl_exec_t *exec, const pl_op_t *op,
                                 pl_send_t *send)
{
    for (int32_t i = 0; i < op->n_pages; i++) {
        send_page_t *page = &send->pages[i];

        page->src       = op->pages[i];
        page->dst       = op->other[i];
        page->src_guard = pl_exec_guard(exec, PL_FREED_DEVICE, page->src, -1);
        page->dst_guard =
            pl_exec_guard(exec, PL_FREED_DECODE, page->dst, op->home);
    }
    for (int i = 0; i < send->n_from; i++) {
        send_from_t *from = &send->from[i];

        PL_TRY(pl_comm_receive(exec->comm, from->rank, PL_TAG_PAGES,
                               from->bytes, from->n_bytes, &from->message));
    }
    if (!op->last) {
        return PL_OK;
    }
    return pl_comm_receive(exec->comm, exec->requests[op->request].first_rank,
                           PL_TAG_HANDOVER, &send->slot->message,
                           sizeof(send->slot->message), &send->slot_message);
}

/* On every rank: a prompt's first pages begin a new attempt. */
static void count_attempt(pl_exec_request_t *request, const pl_op_t *op)
{
    if (op->cancelled) {
        request->failed = true;
        return;
    }
    if (op->first_page == 0) {
        request->attempt++;
        request->failed         = false;
        request->damaged        = false;
        request->n_sends        = 0;
        request->prompt_tokens  = 0;
        request->decode_pages.n = 0;
    }
}

pl_status_t pl_send_execute(pl_exec_t *exec, pl_sends_t *sends,
                            const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];
    size_t at                  = find(sends, op->id);
    pl_send_t *send;

    count_attempt(request, op);
    if (at == sends->items.n) {
        return PL_OK;
    }
    if (op->cancelled) {
        forget(exec, sends, at);
        return PL_OK;
    }
    send          = sends->items.items[at];
    send->attempt = request->attempt;
    if (op->home == exec->rank) {
        request->n_sends++;
        PL_TRY(post_receives(exec, op, send));
    }
    if (send->n_out > 0) {
        PL_TRY(send_pages(exec, sends, op, send));
    }
    if (op->last && (request->first_rank == exec->rank)) {
        send->handover.tag     = (uint64_t)op->request + 1;
        send->handover.attempt = request->attempt;
        send->handover.token   = (uint64_t)(uint32_t)request->first_token;
        send->handover.digest  = request->first_digest;
        PL_TRY(pl_comm_send(exec->comm, op->home, PL_TAG_HANDOVER,
                            &send->handover, sizeof(send->handover),
                            &send->handover_message));
    }
    return PL_OK;
}

/* ---- end ---- */

static pl_status_t wait_for(pl_exec_t *exec, pl_message_t *message)
{
    pl_message_t waited = *message;

    *message = 0;
    return waited == 0 ? PL_OK : pl_comm_wait(exec->comm, waited);
}

pl_status_t pl_send_settle(pl_exec_t *exec, pl_sends_t *sends, int64_t id,
                           bool *failed_p)
{
    size_t at = find(sends, id);
    pl_exec_request_t *request;
    pl_send_t *send;

    *failed_p = false;
    if (at == sends->items.n) {
        return PL_OK;
    }
    send    = sends->items.items[at];
    request = &exec->requests[send->request];
    if (send->home == exec->rank) {
        PL_TRY(pl_receive_pages(exec, sends, send));
        PL_TRY(pl_receive_handover(exec, send));
    }
    PL_TRY(wait_for(exec, &send->out_message));
    PL_TRY(wait_for(exec, &send->handover_message));
    *failed_p = send->aborted;
    if (send->home == exec->rank) {
        bool bad = pl_transfer_state(&send->transfer) != PL_TRANSFER_GOOD;

        *failed_p = *failed_p || bad;
        if (send->attempt == request->attempt) {
            request->failed = request->failed || bad;
            request->n_sends--;
            PL_TRY(pl_receive_prompt(exec, send->request, send->home));
        }
    }
    forget(exec, sends, at);
    return PL_OK;
}

void pl_sends_drain(pl_exec_t *exec, pl_sends_t *sends)
{
    /* Others wait for what they have posted receives for, here as well. */
    (void)pl_sends_post(exec, sends, INT64_MAX);
    for (size_t i = 0; i < sends->items.n; i++) {
        pl_send_t *send = sends->items.items[i];

        for (int j = 0; j < send->n_from; j++) {
            (void)wait_for(exec, &send->from[j].message);
        }
        (void)wait_for(exec, &send->slot_message);
        (void)wait_for(exec, &send->out_message);
        (void)wait_for(exec, &send->handover_message);
    }
}

void pl_sends_free(pl_exec_t *exec, pl_sends_t *sends)
{
    for (size_t i = 0; i < sends->items.n; i++) {
        free_send(exec, sends, sends->items.items[i]);
    }
    PL_ARRAY_FREE(&sends->items);
    PL_ARRAY_FREE(&sends->copies);
    pl_buffers_free(&sends->buffers, exec->device);
    pl_handovers_free(&sends->handovers);
}
