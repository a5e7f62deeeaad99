#include "trace/trie.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"

void pl_trie_free(pl_trie_t *trie)
{
    free(trie->places);
    trie->places   = NULL;
    trie->capacity = 0;
    trie->n        = 0;
}

/* The entry of `id`, or the free one where it belongs. */
static pl_id_place_t *place_of(pl_id_place_t *places, size_t capacity,
                               uint64_t id)
{
    size_t i = (size_t)pl_mix64(id) & (capacity - 1);

    while ((places[i].depth > 0) && (places[i].id != id)) {
        i = (i + 1) & (capacity - 1);
    }
    return &places[i];
}

/* Room for one more id, a quarter of the table free. */
static pl_status_t make_room(pl_trie_t *trie)
{
    size_t capacity = trie->capacity > 0 ? 2 * trie->capacity : 1024;
    pl_id_place_t *places;

    if (4 * (trie->n + 1) <= 3 * trie->capacity) {
        return PL_OK;
    }
    places = calloc(capacity, sizeof(*places));
    if (places == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < trie->capacity; i++) {
        if (trie->places[i].depth > 0) {
            *place_of(places, capacity, trie->places[i].id) = trie->places[i];
        }
    }
    free(trie->places);
    trie->places   = places;
    trie->capacity = capacity;
    return PL_OK;
}

static pl_status_t contradiction(const pl_trace_source_t *source, int64_t line,
                                 const pl_id_place_t *known,
                                 const uint64_t *ids, size_t i)
{
    static const char REMEDY[] = "an id stands for a block and all before it; "
                                 "number different prefixes differently";

    if ((known->line == line) && (known->depth != i + 1)) {
        return pl_trace_bad(source, line,
                            "hash id %" PRIu64 " comes twice, as block %zu and "
                            "as block %zu: expected distinct ids; %s",
                            ids[i], known->depth, i + 1, REMEDY);
    }
    if (known->depth != i + 1) {
        return pl_trace_bad(source, line,
                            "hash id %" PRIu64 " is block %zu: expected block "
                            "%zu as on line %lld; %s",
                            ids[i], i + 1, known->depth, (long long)known->line,
                            REMEDY);
    }
    return pl_trace_bad(source, line,
                        "hash id %" PRIu64 " follows id %" PRIu64
                        ": expected id %" PRIu64 " before it as on line %lld; "
                        "%s",
                        ids[i], ids[i - 1], known->parent,
                        (long long)known->line, REMEDY);
}

static pl_status_t other_size(const pl_trace_source_t *source,
                              const pl_trace_row_t *row,
                              const pl_id_place_t *known)
{
    return pl_trace_bad(source, row->line,
                        "hash id %" PRIu64 " stands for %d tokens: expected %d "
                        "as on line %lld; fix \"block_size\", or number blocks "
                        "of another size differently",
                        known->id, (int)row->block_tokens, (int)known->size,
                        (long long)known->line);
}

pl_status_t pl_trie_add(pl_trie_t *trie, const pl_trace_source_t *source,
                        const pl_trace_row_t *row, const uint64_t *ids)
{
    for (size_t i = 0; i < row->n; i++) {
        uint64_t parent = i > 0 ? ids[i - 1] : 0;
        pl_id_place_t *place;

        PL_TRY(make_room(trie));
        place = place_of(trie->places, trie->capacity, ids[i]);
        if (place->depth == 0) {
            *place = (pl_id_place_t){ids[i], parent, row->line, i + 1,
                                     row->block_tokens};
            trie->n++;
        } else if ((place->depth != i + 1) || (place->parent != parent)) {
            return contradiction(source, row->line, place, ids, i);
        } else if (place->size != row->block_tokens) {
            return other_size(source, row, place);
        }
    }
    return PL_OK;
}
