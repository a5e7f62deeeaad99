#include "store/tier_columns.h"

#include <stdlib.h>
#include <string.h>

const pl_tier_column_about_t pl_tier_columns[PL_TIER_COLUMNS] = {
    [PL_TIER_HAS_INDEX]  = {"/identity/has_index", PL_ITEM_U8, "layer", "1",
                            "1: the layer has index rows"},
    [PL_TIER_FINISHED]   = {"/run/finished", PL_ITEM_U8, "request", "1",
                            "1: the request had finished"},
    [PL_TIER_SET_NUMBER] = {"/sets/number", PL_ITEM_I32, "set", "1",
                            "as in the names of its segments"},
    [PL_TIER_SET_RANKS]  = {"/sets/ranks", PL_ITEM_I32, "set", "1",
                            "ranks that wrote it, each a share"},
    [PL_TIER_SET_SLOTS]  = {"/sets/slots", PL_ITEM_I32, "set", "page",
                            "of a share"},
    [PL_TIER_SET_LANES]  = {"/sets/lanes", PL_ITEM_I32, "set", "1",
                            "lanes of the ranks that wrote it"},
    [PL_TIER_CHAIN]      = {"/entries/chain", PL_ITEM_U64, "entry", "1",
                            "hash of the prefix that ends with the page"},
    [PL_TIER_PARENT]     = {"/entries/parent", PL_ITEM_U64, "entry", "1",
                            "chain of the page before; of a first page: the "
                                "namespace's"},
    [PL_TIER_KEY_LO]     = {"/entries/key_lo", PL_ITEM_U64, "entry", "1",
                            "key of the page's tokens, low half"},
    [PL_TIER_KEY_HI]     = {"/entries/key_hi", PL_ITEM_U64, "entry", "1",
                            "key of the page's tokens, high half"},
    [PL_TIER_POSITION]   = {"/entries/position", PL_ITEM_I32, "entry", "page",
                            "pages before it"},
    [PL_TIER_OWNER]      = {"/entries/owner", PL_ITEM_I8, "entry", "1",
                            "lane it is fetched to"},
    [PL_TIER_SET]        = {"/entries/set", PL_ITEM_I32, "entry", "1",
                            "number of the set it lies in"},
    [PL_TIER_RANK]       = {"/entries/rank", PL_ITEM_I32, "entry", "1",
                            "whose share of the set"},
    [PL_TIER_SLOT]       = {"/entries/slot", PL_ITEM_I32, "entry", "1",
                            "place in the share"},
    [PL_TIER_STAMP]      = {"/entries/stamp", PL_ITEM_I64, "entry", "1",
                            "the write that made it"},
    [PL_TIER_DIGEST]     = {"/entries/digest", PL_ITEM_U64, "entry", "1",
                            "sum of the hashes of its rows"},
};

int32_t pl_tier_column_rows(const pl_tier_index_t *index,
                            pl_tier_column_t column)
{
    switch (column) {
    case PL_TIER_HAS_INDEX:
        return index->n_layers;
    case PL_TIER_FINISHED:
        return index->n_requests;
    case PL_TIER_SET_NUMBER:
    case PL_TIER_SET_RANKS:
    case PL_TIER_SET_SLOTS:
    case PL_TIER_SET_LANES:
        return index->n_sets;
    default:
        return index->n_entries;
    }
}

static uint64_t get_of_entry(const pl_storage_entry_t *entry,
                             pl_tier_column_t column)
{
    switch (column) {
    case PL_TIER_CHAIN:
        return entry->chain;
    case PL_TIER_PARENT:
        return entry->parent;
    case PL_TIER_KEY_LO:
        return entry->key.lo;
    case PL_TIER_KEY_HI:
        return entry->key.hi;
    case PL_TIER_POSITION:
        return (uint64_t)(int64_t)entry->position;
    case PL_TIER_OWNER:
        return (uint64_t)(int64_t)entry->owner;
    case PL_TIER_SET:
        return (uint64_t)(int64_t)entry->place.set;
    case PL_TIER_RANK:
        return (uint64_t)(int64_t)entry->place.rank;
    case PL_TIER_SLOT:
        return (uint64_t)(int64_t)entry->place.slot;
    default:
        return (uint64_t)entry->stamp;
    }
}

uint64_t pl_tier_column_get(const pl_tier_index_t *index,
                            pl_tier_column_t column, int32_t row)
{
    switch (column) {
    case PL_TIER_HAS_INDEX:
        return index->has_index[row];
    case PL_TIER_FINISHED:
        return index->finished[row];
    case PL_TIER_SET_NUMBER:
        return (uint64_t)(int64_t)index->sets[row].number;
    case PL_TIER_SET_RANKS:
        return (uint64_t)(int64_t)index->sets[row].ranks;
    case PL_TIER_SET_SLOTS:
        return (uint64_t)(int64_t)index->sets[row].slots;
    case PL_TIER_SET_LANES:
        return (uint64_t)(int64_t)index->sets[row].lanes;
    case PL_TIER_DIGEST:
        return index->digests[row];
    default:
        return get_of_entry(&index->entries[row], column);
    }
}

static void set_of_entry(pl_storage_entry_t *entry, pl_tier_column_t column,
                         uint64_t value)
{
    switch (column) {
    case PL_TIER_CHAIN:
        entry->chain = value;
        break;
    case PL_TIER_PARENT:
        entry->parent = value;
        break;
    case PL_TIER_KEY_LO:
        entry->key.lo = value;
        break;
    case PL_TIER_KEY_HI:
        entry->key.hi = value;
        break;
    case PL_TIER_POSITION:
        entry->position = (int32_t)value;
        break;
    case PL_TIER_OWNER:
        entry->owner = (pl_owner_t)value;
        break;
    case PL_TIER_SET:
        entry->place.set = (int32_t)value;
        break;
    case PL_TIER_RANK:
        entry->place.rank = (int32_t)value;
        break;
    case PL_TIER_SLOT:
        entry->place.slot = (int32_t)value;
        break;
    default:
        entry->stamp = (int64_t)value;
    }
}

void pl_tier_column_set(pl_tier_index_t *index, pl_tier_column_t column,
                        int32_t row, uint64_t value)
{
    switch (column) {
    case PL_TIER_HAS_INDEX:
        index->has_index[row] = (uint8_t)value;
        break;
    case PL_TIER_FINISHED:
        index->finished[row] = (uint8_t)value;
        break;
    case PL_TIER_SET_NUMBER:
        index->sets[row].number = (int32_t)value;
        break;
    case PL_TIER_SET_RANKS:
        index->sets[row].ranks = (int32_t)value;
        break;
    case PL_TIER_SET_SLOTS:
        index->sets[row].slots = (int32_t)value;
        break;
    case PL_TIER_SET_LANES:
        index->sets[row].lanes = (int32_t)value;
        break;
    case PL_TIER_DIGEST:
        index->digests[row] = value;
        break;
    default:
        set_of_entry(&index->entries[row], column, value);
    }
}

/* ---- the whole ---- */

void pl_tier_index_free(pl_tier_index_t *index)
{
    free(index->model);
    free(index->tokens);
    free(index->dtype);
    free(index->has_index);
    free(index->finished);
    free(index->sets);
    free(index->entries);
    free(index->digests);
    *index = (pl_tier_index_t){0};
}

const pl_tier_set_t *pl_tier_index_set(const pl_tier_index_t *index,
                                       int32_t number)
{
    int32_t low  = 0;
    int32_t high = index->n_sets;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (index->sets[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < index->n_sets) && (index->sets[low].number == number)
               ? &index->sets[low]
               : NULL;
}

pl_tier_identity_t pl_tier_index_identity(const pl_tier_index_t *index)
{
    return (pl_tier_identity_t){
        .model             = index->model,
        .tokens            = index->tokens,
        .dtype             = index->dtype,
        .page_tokens       = index->page_tokens,
        .n_layers          = index->n_layers,
        .page_bytes        = index->page_bytes,
        .layout            = index->layout,
        .latent_row_bytes  = index->latent_row_bytes,
        .index_key_bytes   = index->index_key_bytes,
        .index_scale_bytes = index->index_scale_bytes,
        .has_index         = index->has_index,
    };
}

pl_status_t pl_tier_index_identify(pl_tier_index_t *index,
                                   const pl_tier_identity_t *identity)
{
    size_t n = (size_t)identity->n_layers;

    index->model             = strdup(identity->model);
    index->tokens            = strdup(identity->tokens);
    index->dtype             = strdup(identity->dtype);
    index->has_index         = malloc(n > 0 ? n : 1);
    index->page_tokens       = identity->page_tokens;
    index->n_layers          = identity->n_layers;
    index->page_bytes        = identity->page_bytes;
    index->layout            = identity->layout;
    index->latent_row_bytes  = identity->latent_row_bytes;
    index->index_key_bytes   = identity->index_key_bytes;
    index->index_scale_bytes = identity->index_scale_bytes;
    if ((index->model == NULL) || (index->tokens == NULL) ||
        (index->dtype == NULL) || (index->has_index == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        index->has_index[i] =
            (identity->has_index == NULL) || (identity->has_index[i] != 0);
    }
    return PL_OK;
}
