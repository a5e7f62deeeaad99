#include "exec/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const tier_texts[PL_TIERS] = {
    "device pages", "host pages", "decode pages", "decode host pages"};

static const pl_place_t tier_places[PL_TIERS] = {
    PL_PLACE_DEVICE, PL_PLACE_HOST, PL_PLACE_DECODE, PL_PLACE_DECODE_HOST};

/* ---- memory ---- */

static pl_status_t poison_all(pl_exec_t *exec, const pl_store_t *store,
                              pl_memory_t kind)
{
    pl_span_t all = {store->bytes, pl_store_bytes(&store->layout)};

    if (!pl_exec_verifies(exec)) {
        return PL_OK;
    }
    if (kind == PL_MEMORY_HOST) {
        memset(all.mem, PL_POISON_BYTE, all.bytes);
        return PL_OK;
    }
    return pl_device_fill(exec->device, PL_STREAM_COMPUTE, &all, 1,
                          PL_POISON_BYTE);
}

/* What was made is in the store, also on failure. */
static pl_status_t open_tier(pl_exec_t *exec, const pl_store_layout_t *layout,
                             int tier)
{
    size_t header_bytes = pl_store_n_headers(layout) * sizeof(pl_page_header_t);
    pl_memory_t kind    = pl_exec_memory(exec->comm, tier);
    pl_store_t *store   = &exec->stores[tier];
    void *mem           = NULL;

    *store      = pl_store_make(layout, NULL, NULL, NULL);
    store->tags = calloc((size_t)layout->n_slots, sizeof(*store->tags));
    if (store->tags == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(pl_device_alloc(exec->device, kind, pl_store_bytes(layout),
                           tier_texts[tier], &mem));
    store->bytes = mem;
    PL_TRY(pl_device_alloc(exec->device, PL_MEMORY_HOST, header_bytes,
                           "page headers", &mem));
    store->headers = mem;
    memset(store->headers, 0, header_bytes);
    return poison_all(exec, store, kind);
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
    exec->counters->page_checks += read->hashed ? 1 : 0;
    if (read->header.guard == PL_GUARD_DAMAGED) {
        return false;
    }
    if (read->header.guard != read->guard) {
        pl_exec_violate(exec, PL_INVARIANT_WRITTEN, site, layer, which,
                        site->position);
        return false;
    }
    if (read->hashed && (read->digest != read->header.digest)) {
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

/* So many are hashed, and become poison, at once. */
#define GROUP 64

typedef struct place {
    int tier;
    int32_t slot;
} place_t;

static pl_status_t hash_slot(pl_exec_t *exec, const place_t *place)
{
    const pl_store_t *store = &exec->stores[place->tier];
    pl_page_tag_t tag       = store->tags[place->slot];

    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        if (pl_piece_header(store, &at, place->slot)->guard != PL_GUARD_NEVER) {
            PL_TRY(pl_digests_add(&exec->digests, &store->form[at.which],
                                  pl_piece_page(store, &at, place->slot), 0,
                                  tag.rows, tag.position, &at));
        }
    }
    return PL_OK;
}

/* What a slot holds, if anything, must still be what was put there. */
static void check_slot(pl_exec_t *exec, const place_t *place)
{
    int tier                = place->tier;
    const pl_store_t *store = &exec->stores[tier];
    bool lanes          = (tier == PL_FREED_DEVICE) || (tier == PL_FREED_HOST);
    int n               = lanes ? exec->n_lanes : 1;
    pl_exec_site_t site = {
        .place    = tier_places[tier],
        .tier     = tier,
        .page     = pl_page_at(n > 1 ? exec->rank : 0, place->slot, n),
        .home     = exec->rank,
        .position = store->tags[place->slot].position,
        .request  = -1,
        .node     = -1};

    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        pl_exec_read_t read = {.hashed = true};

        read.header = *pl_piece_header(store, &at, place->slot);
        read.guard  = read.header.guard;
        if (read.guard != PL_GUARD_NEVER) {
            read.digest = pl_digests_next(&exec->digests);
            (void)pl_exec_sound(exec, &site, at.layer, at.which, &read);
        }
    }
}

static pl_status_t check_places(pl_exec_t *exec, const place_t *places, int n)
{
    pl_digests_clear(&exec->digests);
    for (int i = 0; i < n; i++) {
        PL_TRY(hash_slot(exec, &places[i]));
    }
    PL_TRY(pl_digests_take(&exec->digests, exec->device));
    for (int i = 0; i < n; i++) {
        check_slot(exec, &places[i]);
    }
    return PL_OK;
}

/* Who read the page last comes first: gathers of all ranks by the agreement
 * (comm/comm.h), the forward pass because it is on the same stream, copies
 * because their operations have been waited for. */
static pl_status_t poison_places(pl_exec_t *exec, const place_t *places, int n)
{
    for (int i = 0; i < n; i++) {
        const pl_store_t *store = &exec->stores[places[i].tier];
        int32_t slot            = places[i].slot;
        bool host =
            pl_exec_memory(exec->comm, places[i].tier) == PL_MEMORY_HOST;

        for (pl_piece_t at = PL_PIECE_FIRST;
             pl_piece_next(&store->layout, &at);) {
            *pl_piece_header(store, &at, slot) = (pl_page_header_t){0};
            if (host) {
                memset(pl_piece_page(store, &at, slot), PL_POISON_BYTE,
                       store->stride[at.which]);
            }
        }
        if (!host) {
            PL_TRY(pl_poison_add_page(&exec->poison, store, slot));
        }
    }
    exec->counters->poisoned_pages += n;
    return pl_poison_fill(&exec->poison, exec->device);
}

static pl_status_t free_places(pl_exec_t *exec, const place_t *places, int n)
{
    PL_TRY(check_places(exec, places, n));
    return poison_places(exec, places, n);
}

pl_status_t pl_exec_poison_freed(pl_exec_t *exec)
{
    place_t places[GROUP];
    int n = 0;

    if (!pl_exec_verifies(exec)) {
        return PL_OK;
    }
    for (int32_t i = 0; i < exec->plan->n_freed; i++) {
        const pl_freed_t *freed = &exec->plan->freed[i];
        int tier                = (int)freed->tier;

        if (!is_here(exec, freed)) {
            continue;
        }
        places[n++] = (place_t){tier, pl_exec_slot(exec, tier, freed->page)};
        if (n == GROUP) {
            PL_TRY(free_places(exec, places, n));
            n = 0;
        }
    }
    return free_places(exec, places, n);
}

pl_status_t pl_exec_check_all(pl_exec_t *exec)
{
    place_t places[GROUP];

    for (int tier = 0; pl_exec_verifies(exec) && (tier < PL_TIERS); tier++) {
        int32_t n_slots = exec->stores[tier].layout.n_slots;

        for (int32_t slot = 0; slot < n_slots; slot += GROUP) {
            int n = 0;

            while ((n < GROUP) && (slot + n < n_slots)) {
                places[n] = (place_t){tier, slot + n};
                n++;
            }
            PL_TRY(check_places(exec, places, n));
        }
    }
    return PL_OK;
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

pl_status_t pl_exec_flip(pl_exec_t *exec, int tier, int32_t slot, int32_t layer,
                         int32_t rows)
{
    const pl_store_t *store = &exec->stores[tier];
    int which               = (exec->tick % 2 != 0) &&
                        pl_store_has(&store->layout, PL_STORE_INDEX, layer)
                                  ? PL_STORE_INDEX
                                  : PL_STORE_LATENT;
    uint8_t *page           = pl_store_page(store, which, layer, slot);

    return pl_pages_flip(exec->device,
                         page + pl_row_key(&store->form[which], rows / 2));
}
