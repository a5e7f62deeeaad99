#include "engine/sharing.h"

#include <stdlib.h>

/* The first request that had a prefix, by the prefix's chain hash.  The order
 * of the table is never seen. */
typedef struct place {
    uint64_t chain;
    int32_t request; /* + 1; 0: the place is free */
} place_t;

typedef struct prefixes {
    place_t *places;
    size_t n, n_places; /* a power of two */
} prefixes_t;

static place_t *find(const prefixes_t *prefixes, uint64_t chain)
{
    size_t i = (size_t)chain & (prefixes->n_places - 1);

    while ((prefixes->places[i].request != 0) &&
           (prefixes->places[i].chain != chain)) {
        i = (i + 1) & (prefixes->n_places - 1);
    }
    return &prefixes->places[i];
}

/* Keep the table at most two thirds full. */
static pl_status_t reserve(prefixes_t *prefixes, size_t n_more)
{
    prefixes_t larger = {.n = prefixes->n, .n_places = prefixes->n_places};

    while (larger.n_places / 3 * 2 < larger.n + n_more) {
        larger.n_places *= 2;
    }
    if ((prefixes->places != NULL) && (larger.n_places == prefixes->n_places)) {
        return PL_OK;
    }
    larger.places = calloc(larger.n_places, sizeof(*larger.places));
    if (larger.places == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; (prefixes->places != NULL) && (i < prefixes->n_places);
         i++) {
        if (prefixes->places[i].request != 0) {
            *find(&larger, prefixes->places[i].chain) = prefixes->places[i];
        }
    }
    free(prefixes->places);
    *prefixes = larger;
    return PL_OK;
}

/* Look up the prefixes of one prompt, and enter those that are new. */
static pl_status_t add_prompt(prefixes_t *prefixes, uint64_t name_space,
                              const pl_page_key_t *keys, int32_t n,
                              int32_t request, int32_t *with_p,
                              int32_t *pages_p)
{
    uint64_t chain = pl_tree_chain_start(name_space);

    *with_p  = -1;
    *pages_p = 0;
    PL_TRY(reserve(prefixes, (size_t)n));
    for (int32_t i = 0; i < n; i++) {
        place_t *place;

        chain = pl_tree_chain_next(chain, keys[i]);
        place = find(prefixes, chain);
        if (place->request != 0) {
            *with_p  = place->request - 1;
            *pages_p = i + 1;
            continue;
        }
        *place = (place_t){chain, request + 1};
        prefixes->n++;
    }
    return PL_OK;
}

pl_status_t pl_sharing_find(const pl_engine_source_t *source,
                            int32_t page_tokens, int32_t *shared_with,
                            int32_t *shared_pages)
{
    prefixes_t prefixes = {.n_places = 64};
    pl_page_key_t *keys = NULL;
    int32_t longest     = 0;
    pl_status_t status  = PL_OK;

    for (int32_t i = 0; i < source->count; i++) {
        int32_t n = source->request(source->context, i)->input_tokens;

        longest = n > longest ? n : longest;
    }
    keys = malloc(((size_t)(longest / page_tokens) + 1) * sizeof(*keys));
    if (keys == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; (status == PL_OK) && (i < source->count); i++) {
        const pl_request_t *request = source->request(source->context, i);
        int32_t n                   = request->input_tokens / page_tokens;

        source->page_keys(source->context, i, page_tokens, 0, n, keys);
        status = add_prompt(&prefixes, request->name_space, keys, n, i,
                            &shared_with[i], &shared_pages[i]);
    }
    free(prefixes.places);
    free(keys);
    return status;
}
