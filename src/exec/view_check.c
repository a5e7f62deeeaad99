/* What a view shows, against everything that is known of it. */
#include "exec/prefill_internal.h"

static const uint8_t *page_at(const pl_exec_t *exec, const pl_shown_t *shown,
                              int which, int32_t page)
{
    return shown->bytes + (size_t)shown->rows[page] *
                              exec->stores[PL_FREED_DEVICE].stride[which];
}

/* The first row of a bad page that is not what its tokens say; its first row if
 * that cannot be told. */
static pl_status_t locate(pl_exec_t *exec, const pl_shown_t *shown,
                          const pl_pass_t *pass, const pl_piece_t *at,
                          int32_t page, int32_t *position_p)
{
    const pl_page_form_t *form = &exec->stores[PL_FREED_DEVICE].form[at->which];
    const pl_compute_ops_t *ops = exec->compute->ops;
    int32_t first               = page * exec->page_tokens;
    int32_t rows                = pl_pass_rows(exec, pass, page);
    pl_digests_t digests        = {0};
    pl_status_t status          = PL_OK;

    *position_p = first;
    if (ops->expect_row == NULL) {
        return PL_OK;
    }
    for (int32_t i = 0; (status == PL_OK) && (i < rows); i++) {
        status = pl_digests_add(&digests, form,
                                page_at(exec, shown, at->which, page), i, 1,
                                first, at);
    }
    if (status == PL_OK) {
        status = pl_digests_take(&digests, exec->device);
    }
    for (int32_t i = 0; (status == PL_OK) && (i < rows); i++) {
        if (pl_digests_next(&digests) !=
            ops->expect_row(exec->compute, &pass->chunk, at->layer, at->which,
                            first + i)) {
            *position_p = first + i;
            break;
        }
    }
    pl_digests_free(&digests);
    return status;
}

/* Out of line: what is wrong with a page of a view. */
static void __attribute__((noinline))
complain(pl_exec_t *exec, const pl_pass_t *pass, const pl_piece_t *at,
         int32_t page, int32_t invariant, int32_t position)
{
    pl_exec_site_t site = {.place    = PL_PLACE_DEVICE,
                           .tier     = PL_FREED_DEVICE,
                           .page     = pass->op->pages[page],
                           .home     = -1,
                           .position = page * exec->page_tokens,
                           .request  = pass->op->request,
                           .node     = -1};

    pl_exec_violate(exec, invariant, &site, at->layer, at->which, position);
}

static pl_status_t check_page(pl_exec_t *exec, const pl_prefill_t *prefill,
                              const pl_shown_t *shown, const pl_pass_t *pass,
                              const pl_piece_t *at, int32_t page,
                              uint64_t digest)
{
    const pl_compute_ops_t *ops   = exec->compute->ops;
    const pl_page_header_t header = shown->headers[shown->rows[page]];
    int32_t position              = 0;

    if (header.guard == PL_GUARD_DAMAGED) {
        return PL_OK; /* noted where it happened */
    }
    if (header.guard != prefill->guards[page]) {
        complain(exec, pass, at, page, PL_INVARIANT_WRITTEN,
                 page * exec->page_tokens);
    } else if ((header.digest != digest) ||
               ((ops->expect_page != NULL) &&
                (ops->expect_page(exec->compute, &pass->chunk, at->layer,
                                  at->which, page) != digest))) {
        PL_TRY(locate(exec, shown, pass, at, page, &position));
        complain(exec, pass, at, page, PL_INVARIANT_BYTES, position);
    }
    return PL_OK;
}

pl_status_t pl_view_check(pl_exec_t *exec, const pl_prefill_t *prefill,
                          const pl_shown_t *shown, pl_pass_t *pass,
                          int32_t layer, int which)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    pl_piece_t at           = {layer, which};

    pl_digests_clear(&exec->digests);
    for (int32_t page = 0; page < pass->op->n_pages; page++) {
        PL_TRY(pl_digests_add(&exec->digests, &store->form[which],
                              page_at(exec, shown, which, page), 0,
                              pl_pass_rows(exec, pass, page),
                              page * exec->page_tokens, &at));
    }
    PL_TRY(pl_digests_take(&exec->digests, exec->device));
    for (int32_t page = 0; page < pass->op->n_pages; page++) {
        uint64_t digest = pl_digests_next(&exec->digests);

        pass->digest += digest;
        if (pl_exec_verifies(exec)) {
            PL_TRY(check_page(exec, prefill, shown, pass, &at, page, digest));
        }
    }
    exec->counters->page_checks +=
        pl_exec_verifies(exec) ? pass->op->n_pages : 0;
    return PL_OK;
}
