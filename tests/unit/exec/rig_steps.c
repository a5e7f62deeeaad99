/* What most plans begin with: a cold prompt, its transfer, its backup. */
#include "rig.h"

void rig_prefill_cold(rig_t *rig, rig_pages_t *pages, int32_t request)
{
    int32_t size = rig->params->page_tokens;
    int32_t cut  = RIG_PROMPT / size / 2 * size;

    if (cut > 0) {
        rig_extend(rig, pages, request, 0, cut);
        rig_prefill(rig, pages, request, 0, cut, false, 0);
        rig_tick(rig);
    }
    rig_extend(rig, pages, request, cut, RIG_PROMPT);
    rig_prefill(rig, pages, request, cut, RIG_PROMPT, true, 0);
    rig_tick(rig);
}

void rig_decode_pages(rig_t *rig, rig_pages_t *to, int32_t n)
{
    pl_owner_t owners[RIG_ROOM] = {0};

    rig_take(rig->decode_lanes[rig_home(rig)], owners, n, to);
}

void rig_send_all(rig_t *rig, const rig_pages_t *pages, rig_pages_t *to,
                  int32_t request)
{
    int64_t id;

    rig_decode_pages(rig, to, pages->n + 1);
    id = rig_send(rig, pages, to, request, rig_home(rig), 0, RIG_PROMPT, true);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_SEND);
    rig_tick(rig);
    if (rig->comm->rank == rig_home(rig)) {
        for (int32_t i = 0; i < pages->n; i++) {
            RIG_CHECK(rig, rig_holds(rig, PL_FREED_DECODE, to->pages[i],
                                     request, i, RIG_PROMPT));
        }
    }
}

int64_t rig_start_copy(rig_t *rig, pl_op_kind_t kind, const rig_pages_t *device,
                       const rig_pages_t *host, int32_t n)
{
    pl_op_t *op = rig_op(rig, kind, kind == PL_OP_LOAD ? 1 : -1);

    op->node    = 5;
    op->pages   = device->pages;
    op->other   = host->pages;
    op->owners  = host->owners;
    op->n_pages = n;
    return op->id;
}

void rig_back_up(rig_t *rig, const rig_pages_t *pages, rig_pages_t *host,
                 int32_t n)
{
    int64_t id;

    rig_take(rig->host_lanes, pages->owners, n, host);
    id = rig_start_copy(rig, PL_OP_BACKUP, pages, host, n);
    rig_tick(rig);
    rig_due(rig, id, PL_OP_BACKUP);
    rig_tick(rig);
    for (int32_t i = 0; i < n; i++) {
        if (rig_keeps(rig, host->owners[i])) {
            RIG_CHECK(rig,
                      rig_holds(rig, PL_FREED_HOST,
                                pl_page_slot(host->pages[i], rig_lanes(rig)), 0,
                                i, RIG_PROMPT));
        }
    }
}

rig_params_t rig_params_of(const rig_point_t *point, pl_verify_t verify)
{
    rig_params_t params = {.n_prefill     = point->n_prefill,
                           .n_decode      = point->n_decode,
                           .page_tokens   = point->page_tokens,
                           .prompt_tokens = RIG_PROMPT,
                           .device        = point->device,
                           .verify        = verify,
                           .same_prompts  = true};

    return params;
}
