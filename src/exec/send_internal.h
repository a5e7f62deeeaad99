/* exec/send_internal.h - shared by send.c (messages) and receive.c (the home).
 */
#ifndef PL_EXEC_SEND_INTERNAL_H
#define PL_EXEC_SEND_INTERNAL_H

#include "exec/send.h"

/* First in a message of pages. */
typedef struct send_head {
    int64_t op;
    int32_t n_pages;
    int32_t aborted; /* 1: the pages are not there */
} send_head_t;

/* Before the bytes of each page. */
typedef struct send_place {
    int32_t position; /* page of the request */
    int32_t rows;
    int64_t page; /* logical, on the sender's device */
} send_place_t;

/* What the home expects of one prefill rank. */
typedef struct send_from {
    int rank;
    int32_t n_pages;
    uint8_t *bytes;
    size_t n_bytes;
    pl_message_t message;
} send_from_t;

/* What the home knows of one page. */
typedef struct send_page {
    pl_page_t src, dst;
    uint64_t src_guard, dst_guard;
    bool came;
} send_page_t;

struct pl_send {
    int64_t id;
    int32_t request, home;
    int32_t first_page, n_pages;
    int32_t first_token, n_tokens;
    bool last;
    uint32_t attempt;

    /* on a rank with pages */
    int32_t n_out;
    uint8_t *out;
    size_t out_bytes;
    pl_fence_t out_fence; /* of PL_STREAM_SEND: it is packed */
    bool is_packed;       /* and not sent yet */
    pl_message_t out_message;
    bool aborted;

    /* on the rank that computed the last page */
    pl_handover_t handover;
    pl_message_t handover_message;

    /* on the home */
    send_from_t *from; /* [n_from], ascending ranks */
    int n_from;
    send_page_t *pages; /* [n_pages] */
    pl_transfer_t transfer;
    pl_handover_slot_t *slot; /* last */
    pl_message_t slot_message;
};

/* Bytes of a message of n pages. */
size_t pl_send_bytes(const pl_store_layout_t *layout, int32_t n_pages);

/* On the home: wait for what was posted, put it into the decode store. */
PL_MUST_CHECK pl_status_t pl_receive_pages(pl_exec_t *exec, pl_sends_t *sends,
                                           pl_send_t *send);
/* The first token of a prompt, after its last send's pages. */
PL_MUST_CHECK pl_status_t pl_receive_handover(pl_exec_t *exec, pl_send_t *send);
/* All sends of the attempt are in: take the digest from stored bytes. */
PL_MUST_CHECK pl_status_t pl_receive_prompt(pl_exec_t *exec, int32_t request,
                                            int32_t home);

#endif /* PL_EXEC_SEND_INTERNAL_H */
