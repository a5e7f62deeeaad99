/* exec/compute.h - what makes KV rows and tokens out of tokens, behind a table.
 *
 * The data plane (exec/data.h) says when and where: it allocates, copies,
 * waits, gathers and checks.  A compute says what the bytes are.  `stamp` is
 * one; a real model is another.  One compute belongs to one rank and one
 * thread.
 *
 * A chunk, on every prefill rank:
 *     reserve, begin, then for each layer: write (once per run of own pages),
 *     read; then end
 * A decode step, on the request's home:
 *     for each layer: step_write, step_read; then step_end
 * A row may be read only from its stored form.
 *
 * Where the rows are: a compute on the host is given memory that the host
 * reaches, and all is done when a call returns.  One that is `on_device` is
 * given memory that its device reaches, perhaps it alone, and what it does is
 * queued on PL_STREAM_COMPUTE, but for end and step_end, which return tokens.
 */
#ifndef PL_EXEC_COMPUTE_H
#define PL_EXEC_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "attn/view.h"
#include "model/transformer.h"
#include "pool/store.h"

typedef struct pl_compute pl_compute_t;

/* Tokens first .. first + n - 1 of a request: its prompt, then what it has said
 * so far. */
typedef struct pl_token_reader {
    void *context;
    void (*read)(void *context, int32_t request, int32_t first, int32_t n,
                 int32_t *tokens);
} pl_token_reader_t;

typedef struct pl_chunk {
    int32_t request;
    int32_t first_token; /* a multiple of the page size */
    int32_t n_tokens;
    bool last; /* the prompt ends here */
    /* Pages of the request, by position, that are in this chunk and that this
     * rank computes: ascending; may be none.  Borrowed. */
    const int32_t *own_pages;
    int32_t n_own_pages;
} pl_chunk_t;

/* Rows to be written in one layer, a run of positions: token t is row t mod P
 * of the page in slot slots[t div P - first_token div P], which lies at
 * to[store].pages + slot * to[store].stride. */
typedef struct pl_rows {
    pl_forward_pages_t to[PL_STORES]; /* pages NULL: not in this layer */
    const int32_t *slots;             /* one per page */
    int32_t first_token; /* of a chunk: a multiple of the page size */
    int32_t n_tokens;
} pl_rows_t;

typedef struct pl_step {
    int32_t request;
    int32_t position; /* of the row to be made */
    int32_t token;    /* the token at that position */
} pl_step_t;

/* A request once more: from its tokens alone, on this rank alone, in pieces.
 * n_done == 0 begins; each call computes a piece and adds to n_done until that
 * is n_prompt + n_new - 1 (the last token's row is not made).  Then the
 * outcome is there. */
typedef struct pl_cold {
    int32_t request;
    int32_t n_prompt; /* > 0 */
    int32_t n_new;    /* tokens to be made, > 0 */
    int32_t n_done;   /* rows made */
    uint64_t digest;  /* of the prompt's rows, all layers and stores */
    int32_t *tokens;  /* [n_new], the caller's */
} pl_cold_t;

static inline bool pl_cold_is_done(const pl_cold_t *cold)
{
    return cold->n_done >= cold->n_prompt + cold->n_new - 1;
}

typedef struct pl_compute_ops {
    const char *name;
    /* end and step_end look at the digest; else it is 0 there unless it was
     * taken for another reason. */
    bool needs_digest;

    /* PL_ERR_MEMORY: the chunk is refused and nothing else happens with it. */
    pl_status_t (*reserve)(pl_compute_t *self, const pl_chunk_t *chunk);
    pl_status_t (*begin)(pl_compute_t *self, const pl_chunk_t *chunk);
    pl_status_t (*write)(pl_compute_t *self, const pl_chunk_t *chunk,
                         int32_t layer, const pl_rows_t *rows);
    /* views[store] */
    pl_status_t (*read)(pl_compute_t *self, const pl_chunk_t *chunk,
                        int32_t layer, const pl_view_t *views);
    /* Called where the last page of the prompt is computed, after the last
     * chunk; `digest` is that of all rows read. */
    pl_status_t (*end)(pl_compute_t *self, const pl_chunk_t *chunk,
                       uint64_t digest, int32_t *token_p);

    pl_status_t (*step_write)(pl_compute_t *self, const pl_step_t *step,
                              int32_t layer, const pl_rows_t *row);
    /* views[store]: of all rows up to the one that was written */
    pl_status_t (*step_read)(pl_compute_t *self, const pl_step_t *step,
                             int32_t layer, const pl_view_t *views);
    /* `digest` is that of all rows held, the new one included. */
    pl_status_t (*step_end)(pl_compute_t *self, const pl_step_t *step,
                            uint64_t digest, int32_t *token_p);
    void (*close)(pl_compute_t *self);

    /* optional, all or none: what the bytes must be, from tokens alone */
    /* Digest of page `page` of the chunk's request (its rows up to the chunk's
     * end); between begin and end. */
    uint64_t (*expect_page)(pl_compute_t *self, const pl_chunk_t *chunk,
                            int32_t layer, int store, int32_t page);
    uint64_t (*expect_row)(pl_compute_t *self, const pl_chunk_t *chunk,
                           int32_t layer, int store, int32_t position);
    /* Digest of the first n_tokens rows of a request, all layers and stores. */
    uint64_t (*expect_all)(pl_compute_t *self, int32_t request,
                           int32_t n_tokens);

    /* optional, where no expectation is: after the last tick */
    pl_status_t (*cold)(pl_compute_t *self, pl_cold_t *cold);
} pl_compute_ops_t;

struct pl_compute {
    const pl_compute_ops_t *ops; /* first member of every compute */
    bool on_device;              /* see above */
};

#endif /* PL_EXEC_COMPUTE_H */
