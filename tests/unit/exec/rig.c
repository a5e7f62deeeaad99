#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "comm/peer.h"
#include "support/far_device.h"

#define DEVICE_PAGES 40
#define HOST_PAGES   24
#define DECODE_PAGES 160

void rig_note(rig_t *rig, bool good, const char *file, int line,
              const char *text)
{
    if (!good && (rig->failed[0] == '\0')) {
        snprintf(rig->failed, sizeof(rig->failed), "rank %d, %s:%d: %s",
                 rig->comm->rank, file, line, text);
    }
}

/* ---- requests ---- */

static const pl_request_t *request_of(void *context, int32_t i)
{
    (void)i;
    return &((const rig_t *)context)->request;
}

static void read_prompt(void *context, int32_t request, int32_t first,
                        int32_t n, int32_t *tokens)
{
    const rig_t *rig = context;
    uint64_t stream  = rig->params->same_prompts ? 0 : (uint64_t)request;

    for (int32_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(pl_mix64(stream * 1000 + (uint64_t)(first + i)) %
                              RIG_VOCAB);
    }
}

/* ---- lifecycle ---- */

static pl_lanes_t *open_lanes(int n_lanes, int32_t pages, int32_t reserved,
                              const char *name)
{
    pl_lanes_params_t params = {.n_lanes        = n_lanes,
                                .pages_per_lane = pages,
                                .reserved_slots = reserved,
                                .name           = name};
    pl_lanes_t *lanes        = NULL;

    if (pl_lanes_open(&params, NULL, &lanes) != PL_OK) {
        abort();
    }
    return lanes;
}

static bool is_home(const rig_params_t *params, int rank)
{
    return (params->n_decode == 0) || (rank >= params->n_prefill);
}

int rig_lanes(const rig_t *rig)
{
    return rig->params->replicated ? 1 : rig->params->n_prefill;
}

bool rig_keeps(const rig_t *rig, int lane)
{
    return rig->params->replicated ? rig->comm->rank < rig->params->n_prefill
                                   : lane == rig->comm->rank;
}

/* One lane has room for what all lanes have. */
static int32_t per_rank(const rig_params_t *params, int32_t pages)
{
    return params->replicated ? pages * params->n_prefill : pages;
}

static void open_all_lanes(rig_t *rig)
{
    const rig_params_t *params = rig->params;

    rig->device_lanes =
        open_lanes(rig_lanes(rig), per_rank(params, DEVICE_PAGES), 1, "device");
    rig->host_lanes =
        open_lanes(rig_lanes(rig), per_rank(params, HOST_PAGES), 0, "host");
    for (int rank = 0; rank < params->n_prefill + params->n_decode; rank++) {
        if (is_home(params, rank)) {
            rig->decode_lanes[rank] = open_lanes(1, DECODE_PAGES, 1, "decode");
            rig->decode_host_lanes[rank] =
                open_lanes(1, DECODE_PAGES, 0, "decode host");
        }
    }
    rig->plan.device      = rig->device_lanes;
    rig->plan.host        = rig->host_lanes;
    rig->plan.decode      = (const pl_lanes_t *const *)rig->decode_lanes;
    rig->plan.decode_host = (const pl_lanes_t *const *)rig->decode_host_lanes;
    rig->plan.ops         = rig->ops;
    rig->plan.due         = rig->due;
    rig->plan.freed       = rig->freed;
    rig->next_id          = 1;
}

static pl_status_t open_rig(rig_t *rig)
{
    const rig_params_t *params = rig->params;
    bool prefill               = rig->comm->rank < params->n_prefill;
    bool home                  = is_home(params, rig->comm->rank);
    pl_engine_source_t source  = {
         .context = rig, .count = RIG_REQUESTS, .request = request_of};
    pl_store_layout_t layout =
        pl_store_layout_stamp(params->page_tokens, RIG_LAYERS, RIG_ROW, 0);
    pl_data_params_t data   = {.n_decode   = params->n_decode,
                               .replicated = params->replicated,
                               .layout     = layout,
                               .verify     = params->verify,
                               .source     = source,
                               .prompts = {.context = rig, .read = read_prompt}};
    pl_stamp_params_t stamp = {.layout     = layout,
                               .n_requests = RIG_REQUESTS,
                               .vocab_size = RIG_VOCAB,
                               .expects    = true};
    pl_compute_t *compute   = NULL;

    rig->request.input_tokens = params->prompt_tokens;
    data.pages.n[PL_FREED_DEVICE] =
        prefill ? per_rank(params, DEVICE_PAGES) : 0;
    data.pages.n[PL_FREED_HOST]   = prefill ? per_rank(params, HOST_PAGES) : 0;
    data.pages.n[PL_FREED_DECODE] = home ? DECODE_PAGES : 0;
    data.pages.n[PL_FREED_DECODE_HOST] = home ? DECODE_PAGES : 0;
    open_all_lanes(rig);
    if (prefill && (params->disk != NULL)) {
        pl_storage_opener_t opener = memory_disk_opener(params->disk);

        PL_TRY(opener.open(opener.context, rig->comm->rank, &rig->door));
    }
    data.door = rig->door;
    PL_TRY(far_device_open_named(params->device, NULL, &rig->device));
    if (!rig->device->addressable) {
        PL_TRY(pl_comm_open_peer(rig->comm, rig->device, &rig->comm));
    }
    PL_TRY(pl_data_open(&data, rig->comm, rig->device, &rig->executor));
    stamp.tokens = pl_data_tokens(rig->executor);
    PL_TRY(pl_stamp_open(&stamp, &compute));
    pl_data_set_compute(rig->executor, compute);
    return pl_data_expose(rig->executor);
}

static void close_rig(rig_t *rig)
{
    if (rig->door != NULL) {
        rig->door->ops->close(rig->door);
    }
    if (rig->executor != NULL) {
        rig->executor->ops->close(rig->executor);
    }
    pl_device_close(rig->device);
    pl_lanes_close(rig->device_lanes);
    pl_lanes_close(rig->host_lanes);
    for (int i = 0; i < PL_MAX_RANKS; i++) {
        pl_lanes_close(rig->decode_lanes[i]);
        pl_lanes_close(rig->decode_host_lanes[i]);
    }
}

typedef struct all {
    rig_t *rigs;
    rig_body_t body;
    void *context;
} all_t;

static pl_status_t run_body(void *context, pl_comm_t *comm)
{
    all_t *all = context;
    rig_t *rig = &all->rigs[comm->rank];

    rig->comm = comm;
    PL_TRY(open_rig(rig));
    all->body(rig, all->context);
    rig->executor->ops->stop(rig->executor);
    if (rig->comm != comm) {
        pl_comm_close(rig->comm);
    }
    return PL_OK;
}

const char *rig_run(const rig_params_t *params, rig_body_t body, void *context,
                    char *buffer)
{
    int n       = params->n_prefill + params->n_decode;
    rig_t *rigs = calloc((size_t)n, sizeof(*rigs));
    all_t all   = {.rigs = rigs, .body = body, .context = context};
    pl_status_t status;

    for (int rank = 0; rank < n; rank++) {
        rigs[rank].params = params;
    }
    status =
        pl_comm_run_local(n, params->n_prefill, 20.0, NULL, run_body, &all);
    snprintf(buffer, 512, "%s", status == PL_OK ? "" : pl_status_text(status));
    for (int rank = n - 1; rank >= 0; rank--) {
        if (rigs[rank].failed[0] != '\0') {
            snprintf(buffer, 512, "%s", rigs[rank].failed);
        }
        close_rig(&rigs[rank]);
    }
    free(rigs);
    return buffer;
}

/* ---- pages ---- */

void rig_take(pl_lanes_t *lanes, const pl_owner_t *owners, int32_t n,
              rig_pages_t *pages)
{
    memmove(pages->owners + pages->n, owners, (size_t)n * sizeof(*owners));
    memmove(pages->compute + pages->n, owners, (size_t)n * sizeof(*owners));
    if (pl_lanes_alloc(lanes, owners, n, pages->pages + pages->n) != PL_OK) {
        abort();
    }
    pages->n += n;
}

void rig_extend(rig_t *rig, rig_pages_t *pages, int32_t request, int32_t from,
                int32_t to)
{
    pl_ownership_t rule = {.kind = PL_OWNERSHIP_ZIGZAG};
    int32_t size        = rig->params->page_tokens;
    int32_t at          = pages->n;
    int32_t n           = (to + size - 1) / size - from / size;
    pl_owner_t owners[RIG_ROOM];
    pl_owner_t lanes[RIG_ROOM] = {0};

    pl_compute_owners(rule, rig->params->n_prefill, from / size, n, request,
                      owners);
    rig_take(rig->device_lanes, rig->params->replicated ? lanes : owners, n,
             pages);
    memcpy(pages->compute + at, owners, (size_t)n * sizeof(*owners));
}

void rig_freed(rig_t *rig, pl_freed_tier_t tier, int32_t home, pl_page_t page)
{
    rig->freed[rig->plan.n_freed++] = (pl_freed_t){tier, home, page};
}

static void give_back(rig_t *rig, pl_freed_tier_t tier, pl_lanes_t *lanes,
                      rig_pages_t *pages)
{
    if (pl_lanes_free(lanes, pages->pages, NULL, pages->n) != PL_OK) {
        abort();
    }
    for (int32_t i = 0; i < pages->n; i++) {
        rig_freed(rig, tier, -1, pages->pages[i]);
    }
    pages->n = 0;
}

void rig_free_device(rig_t *rig, rig_pages_t *pages)
{
    give_back(rig, PL_FREED_DEVICE, rig->device_lanes, pages);
}

void rig_free_host(rig_t *rig, rig_pages_t *pages)
{
    give_back(rig, PL_FREED_HOST, rig->host_lanes, pages);
}

/* ---- plans ---- */

pl_op_t *rig_op(rig_t *rig, pl_op_kind_t kind, int32_t request)
{
    pl_op_t *op = &rig->ops[rig->plan.n_ops++];

    memset(op, 0, sizeof(*op));
    op->id      = rig->next_id++;
    op->kind    = kind;
    op->request = request;
    op->node    = -1;
    op->home    = -1;
    return op;
}

int64_t rig_prefill(rig_t *rig, const rig_pages_t *pages, int32_t request,
                    int32_t from, int32_t to, bool last, int64_t load)
{
    pl_op_t *op = rig_op(rig, PL_OP_PREFILL, request);

    op->compute     = pages->compute + from / rig->params->page_tokens;
    op->pages       = pages->pages;
    op->n_pages     = pages->n;
    op->first_token = from;
    op->n_tokens    = to - from;
    op->last        = last;
    op->load        = load;
    return op->id;
}

int64_t rig_send(rig_t *rig, const rig_pages_t *pages, const rig_pages_t *to,
                 int32_t request, int32_t home, int32_t first_page, int32_t end,
                 bool last)
{
    pl_op_t *op = rig_op(rig, PL_OP_SEND, request);

    op->pages       = pages->pages + first_page;
    op->other       = to->pages + first_page;
    op->n_pages     = pages->n - first_page;
    op->first_page  = first_page;
    op->first_token = first_page * rig->params->page_tokens;
    op->n_tokens    = end - op->first_token;
    op->home        = home;
    op->last        = last;
    return op->id;
}

void rig_due(rig_t *rig, int64_t id, pl_op_kind_t kind)
{
    rig->due[rig->plan.n_due++] =
        (pl_due_t){.id = id, .kind = kind, .word = -1};
}

void rig_tick(rig_t *rig)
{
    pl_plan_t *plan = &rig->plan;

    for (int32_t i = 0; i < plan->n_due; i++) {
        if (rig->due[i].kind == PL_OP_FETCH) {
            rig->due[i].word = pl_plan_bit_words(plan) +
                               PL_FETCH_WORDS * plan->n_due_fetches++;
        }
    }
    memset(rig->outcome, 0, sizeof(rig->outcome));
    RIG_CHECK(rig, rig->executor->ops->reserve(rig->executor, plan,
                                               rig->outcome) == PL_OK);
    RIG_CHECK(rig, rig->executor->ops->settle(rig->executor, plan,
                                              rig->outcome) == PL_OK);
    RIG_CHECK(rig, pl_comm_agree(rig->comm, rig->outcome, 8) == PL_OK);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        plan->ops[i].cancelled =
            plan->ops[i].cancelled || pl_plan_bit(rig->outcome, i);
    }
    RIG_CHECK(rig, rig->executor->ops->execute(rig->executor, plan) == PL_OK);
    plan->tick++;
    plan->n_ops         = 0;
    plan->n_due         = 0;
    plan->n_due_fetches = 0;
    plan->n_freed       = 0;
}

int32_t rig_home(const rig_t *rig)
{
    return rig->comm->n_ranks - 1;
}

/* ---- bytes ---- */

uint8_t *rig_page(const rig_t *rig, int tier, int which, int32_t layer,
                  int32_t slot)
{
    const pl_store_t *store = pl_data_store(rig->executor, tier);

    return far_device_reach(rig->device, PL_STREAM_COMPUTE,
                            pl_store_page(store, which, layer, slot));
}

void rig_row(const rig_t *rig, int32_t request, int32_t position, int32_t layer,
             int store, uint8_t *content)
{
    pl_token_reader_t tokens = pl_data_tokens(rig->executor);
    uint64_t chain           = pl_stamp_start();

    for (int32_t t = 0; t <= position; t++) {
        int32_t token;

        tokens.read(tokens.context, request, t, 1, &token);
        chain = pl_stamp_fold(chain, token);
    }
    pl_stamp_row(chain, position, layer, store, content, RIG_ROW);
}

bool rig_holds(const rig_t *rig, int tier, int32_t slot, int32_t request,
               int32_t page, int32_t n_tokens)
{
    const pl_store_t *store = pl_data_store(rig->executor, tier);
    int32_t size            = rig->params->page_tokens;

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < RIG_LAYERS; layer++) {
            const uint8_t *bytes = rig_page(rig, tier, which, layer, slot);

            for (int32_t i = 0; (i < size) && (page * size + i < n_tokens);
                 i++) {
                uint8_t want[RIG_ROW], is[RIG_ROW];

                rig_row(rig, request, page * size + i, layer, which, want);
                pl_row_get(&store->form[which], bytes, i, is);
                if (memcmp(want, is, RIG_ROW) != 0) {
                    return false;
                }
            }
        }
    }
    return true;
}

bool rig_is_poison(const rig_t *rig, int tier, int32_t slot)
{
    const pl_store_t *store = pl_data_store(rig->executor, tier);

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < RIG_LAYERS; layer++) {
            const uint8_t *bytes = rig_page(rig, tier, which, layer, slot);

            for (size_t i = 0; i < store->stride[which]; i++) {
                if (bytes[i] != PL_POISON_BYTE) {
                    return false;
                }
            }
            if (pl_store_header(store, which, layer, slot)->guard !=
                PL_GUARD_NEVER) {
                return false;
            }
        }
    }
    return true;
}

pl_violations_t rig_violations(rig_t *rig)
{
    uint64_t words[PL_MAX_RANKS * PL_VIOLATION_WORDS] = {0};
    pl_violations_t all                               = {0};

    pl_violations_encode(&rig->executor->violations,
                         words + rig->comm->rank * PL_VIOLATION_WORDS);
    RIG_CHECK(rig,
              pl_comm_sum(rig->comm, words,
                          rig->comm->n_ranks * PL_VIOLATION_WORDS) == PL_OK);
    for (int rank = 0; rank < rig->comm->n_ranks; rank++) {
        (void)pl_violations_decode(&all, words + rank * PL_VIOLATION_WORDS);
    }
    return all;
}
