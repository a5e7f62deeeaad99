#include "exec/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const tier_texts[PL_TIERS] = {
    "device pages", "host pages", "decode pages", "decode host pages"};

static const pl_place_t tier_places[PL_TIERS] = {
    PL_PLACE_DEVICE, PL_PLACE_HOST, PL_PLACE_DECODE, PL_PLACE_DECODE_HOST};

/* ---- memory ---- */

static pl_status_t open_tier(pl_exec_t *exec, const pl_store_layout_t *layout,
                             int tier)
{
    size_t bytes        = pl_store_bytes(layout);
    size_t header_bytes = pl_store_n_headers(layout) * sizeof(pl_page_header_t);
    pl_store_t *store   = &exec->stores[tier];
    void *pages         = NULL;
    void *headers       = NULL;
    pl_page_tag_t *tags = calloc((size_t)layout->n_slots, sizeof(*tags));
    pl_status_t status  = PL_ERR_MEMORY;

    if (tags == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY_GOTO(status,
                pl_device_alloc(exec->device, PL_MEMORY_HOST, bytes,
                                tier_texts[tier], &pages),
                err_tags);
    PL_TRY_GOTO(status,
                pl_device_alloc(exec->device, PL_MEMORY_HOST, header_bytes,
                                "page headers", &headers),
                err_pages);
    memset(headers, 0, header_bytes);
    if (pl_exec_verifies(exec)) {
        pl_span_t all = {pages, bytes};

        PL_TRY_GOTO(status,
                    pl_device_fill(exec->device, PL_STREAM_COMPUTE, &all, 1,
                                   PL_POISON_BYTE),
                    err_headers);
    }
    *store = pl_store_make(layout, pages, headers, tags);
    return PL_OK;

err_headers:
    pl_device_free(exec->device, headers);
err_pages:
    pl_device_free(exec->device, pages);
err_tags:
    free(tags);
    return status;
}

pl_status_t pl_exec_open_tiers(pl_exec_t *exec, const pl_store_layout_t *layout,
                               const pl_tier_pages_t *pages)
{
    for (int tier = 0; tier < PL_TIERS; tier++) {
        pl_store_layout_t own = *layout;
        pl_status_t status    = PL_OK;

        own.n_slots = pages->n[tier];
        if (own.n_slots > 0) {
            status = open_tier(exec, &own, tier);
        }
        if (status != PL_OK) {
            pl_exec_close_tiers(exec);
            return status;
        }
    }
    return PL_OK;
}

void pl_exec_close_tiers(pl_exec_t *exec)
{
    for (int tier = 0; tier < PL_TIERS; tier++) {
        pl_store_t *store = &exec->stores[tier];

        pl_device_free(exec->device, store->bytes);
        pl_device_free(exec->device, store->headers);
        free(store->tags);
        memset(store, 0, sizeof(*store));
    }
}

/* ---- who and where ---- */

int pl_exec_owner(const pl_exec_t *exec, int tier, pl_page_t page, int32_t home)
{
    bool lanes = (tier == PL_FREED_DEVICE) || (tier == PL_FREED_HOST);

    return lanes ? pl_page_owner(page, exec->n_lanes) : (int)home;
}

static bool is_here(const pl_exec_t *exec, const pl_freed_t *freed)
{
    int tier  = (int)freed->tier;
    int owner = pl_exec_owner(exec, tier, freed->page, freed->home);
    bool mine = (tier == PL_FREED_DEVICE) || (tier == PL_FREED_HOST)
                    ? pl_exec_keeps_lane(exec, owner)
                    : owner == exec->rank;

    return mine && (exec->stores[tier].layout.n_slots > 0);
}

static const pl_lanes_t *lanes_of(const pl_exec_t *exec, int tier, int32_t home)
{
    switch (tier) {
    case PL_FREED_DEVICE:
        return exec->plan->device;
    case PL_FREED_HOST:
        return exec->plan->host;
    case PL_FREED_DECODE:
        return exec->plan->decode[home];
    default:
        return exec->plan->decode_host[home];
    }
}

uint64_t pl_exec_guard(const pl_exec_t *exec, int tier, pl_page_t page,
                       int32_t home)
{
    const pl_lanes_t *lanes = lanes_of(exec, tier, home);

    assert(lanes != NULL);
    return pl_guard_pack(pl_exec_owner(exec, tier, page, home),
                         pl_exec_slot(exec, tier, page),
                         pl_lanes_generation(lanes, page));
}

void pl_exec_violate(pl_exec_t *exec, int32_t invariant,
                     const pl_exec_site_t *site, int32_t layer, int store,
                     int32_t position)
{
    pl_violation_t violation = {.invariant = invariant,
                                .tick      = exec->tick,
                                .layer     = layer,
                                .store     = store,
                                .position  = position,
                                .reader    = exec->rank,
                                .request   = site->request,
                                .node      = site->node,
                                .page      = site->page,
                                .owner     = -1,
                                .slot      = -1,
                                .tier      = site->place};

    if (site->page >= 0) {
        violation.owner =
            pl_exec_owner(exec, site->tier, site->page, site->home);
        violation.slot = pl_exec_slot(exec, site->tier, site->page);
    }
    pl_violations_note(exec->violations, &violation);
}

bool pl_exec_sound(pl_exec_t *exec, const pl_exec_site_t *site, int32_t layer,
                   int which, const pl_exec_read_t *read)
{
    if (!pl_exec_verifies(exec)) {
        return true;
    }
    exec->counters->page_checks += read->bytes != NULL ? 1 : 0;
    if (read->header.guard == PL_GUARD_DAMAGED) {
        return false;
    }
    if (read->header.guard != read->guard) {
        pl_exec_violate(exec, PL_INVARIANT_WRITTEN, site, layer, which,
                        site->position);
        return false;
    }
    if ((read->bytes != NULL) &&
        (pl_exec_digest(read->form, read->bytes, layer, which, read->rows,
                        site->position) != read->header.digest)) {
        pl_exec_violate(exec, PL_INVARIANT_BYTES, site, layer, which,
                        site->position);
        return false;
    }
    return true;
}

/* ---- tokens ---- */

int32_t pl_exec_prompt_tokens(const pl_exec_t *exec, int32_t request)
{
    return exec->source.request(exec->source.context, request)->input_tokens;
}

void pl_exec_read_tokens(void *context, int32_t request, int32_t first,
                         int32_t n, int32_t *tokens)
{
    const pl_exec_t *exec         = context;
    const pl_exec_request_t *mine = &exec->requests[request];
    int32_t prompt                = pl_exec_prompt_tokens(exec, request);
    int32_t of_prompt             = prompt - first;

    of_prompt = of_prompt < 0 ? 0 : (of_prompt < n ? of_prompt : n);
    if (of_prompt > 0) {
        exec->prompts.read(exec->prompts.context, request, first, of_prompt,
                           tokens);
    }
    for (int32_t i = of_prompt; i < n; i++) {
        size_t said = (size_t)(first + i - prompt);

        assert(said < mine->generated.n);
        tokens[i] = mine->generated.items[said];
    }
}

/* ---- pages at rest ---- */

/* What a slot holds, if anything, must still be what was put there. */
static void check_slot(pl_exec_t *exec, int tier, int32_t slot)
{
    const pl_store_t *store = &exec->stores[tier];
    const pl_page_tag_t tag = store->tags[slot];
    bool lanes          = (tier == PL_FREED_DEVICE) || (tier == PL_FREED_HOST);
    int n               = lanes ? exec->n_lanes : 1;
    pl_exec_site_t site = {.place = tier_places[tier],
                           .tier  = tier,
                           .page  = pl_page_at(n > 1 ? exec->rank : 0, slot, n),
                           .home  = exec->rank,
                           .position = tag.position,
                           .request  = -1,
                           .node     = -1};

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            pl_exec_read_t read = {.form = &store->form[which],
                                   .rows = tag.rows};

            if (!pl_store_has(&store->layout, which, layer)) {
                continue;
            }
            read.header = *pl_store_header(store, which, layer, slot);
            read.guard  = read.header.guard;
            read.bytes  = pl_store_page(store, which, layer, slot);
            if (read.guard != PL_GUARD_NEVER) {
                (void)pl_exec_sound(exec, &site, layer, which, &read);
            }
        }
    }
}

static pl_status_t poison_slot(pl_exec_t *exec, int tier, int32_t slot)
{
    const pl_store_t *store = &exec->stores[tier];
    pl_span_t page;

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            if (!pl_store_has(&store->layout, which, layer)) {
                continue;
            }
            memset(pl_store_header(store, which, layer, slot), 0,
                   sizeof(pl_page_header_t));
            page.mem   = pl_store_page(store, which, layer, slot);
            page.bytes = store->stride[which];
            PL_TRY(pl_device_fill(exec->device, PL_STREAM_COMPUTE, &page, 1,
                                  PL_POISON_BYTE));
        }
    }
    exec->counters->poisoned_pages++;
    return PL_OK;
}

pl_status_t pl_exec_poison_freed(pl_exec_t *exec)
{
    if (!pl_exec_verifies(exec)) {
        return PL_OK;
    }
    for (int32_t i = 0; i < exec->plan->n_freed; i++) {
        const pl_freed_t *freed = &exec->plan->freed[i];
        int tier                = (int)freed->tier;
        int32_t slot            = pl_exec_slot(exec, tier, freed->page);

        if (!is_here(exec, freed)) {
            continue;
        }
        check_slot(exec, tier, slot);
        PL_TRY(poison_slot(exec, tier, slot));
    }
    return PL_OK;
}

void pl_exec_check_all(pl_exec_t *exec)
{
    if (!pl_exec_verifies(exec)) {
        return;
    }
    for (int tier = 0; tier < PL_TIERS; tier++) {
        for (int32_t slot = 0; slot < exec->stores[tier].layout.n_slots;
             slot++) {
            check_slot(exec, tier, slot);
        }
    }
}

/* ---- faults on purpose ---- */

bool pl_exec_injects(pl_exec_t *exec, pl_inject_point_t point)
{
    int first_home = exec->n_decode > 0 ? exec->n_prefill : 0;
    int rank       = exec->rank;

    if (exec->inject == NULL) {
        return false;
    }
    if ((point == PL_INJECT_FLIP_TRANSFER) && (rank == first_home) &&
        (exec->inject->rules[point].rank == 0)) {
        rank = 0;
    }
    return pl_inject_hit(exec->inject, point, rank, exec->tick);
}

void pl_exec_flip(pl_exec_t *exec, int tier, int32_t slot, int32_t layer,
                  int32_t rows)
{
    const pl_store_t *store = &exec->stores[tier];
    int which               = (exec->tick % 2 != 0) &&
                        pl_store_has(&store->layout, PL_STORE_INDEX, layer)
                                  ? PL_STORE_INDEX
                                  : PL_STORE_LATENT;
    uint8_t *page           = pl_store_page(store, which, layer, slot);

    page[pl_row_key(&store->form[which], rows / 2)] ^= 0x10;
}
