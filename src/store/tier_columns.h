/* store/tier_columns.h - the columns of an index, for who writes and who reads
 * them; inside store. */
#ifndef PL_STORE_TIER_COLUMNS_H
#define PL_STORE_TIER_COLUMNS_H

#include "store/content.h"
#include "store/tier_index.h"

typedef enum pl_tier_column {
    PL_TIER_HAS_INDEX,
    PL_TIER_FINISHED,
    PL_TIER_SET_NUMBER,
    PL_TIER_SET_RANKS,
    PL_TIER_SET_SLOTS,
    PL_TIER_SET_LANES,
    PL_TIER_CHAIN,
    PL_TIER_PARENT,
    PL_TIER_KEY_LO,
    PL_TIER_KEY_HI,
    PL_TIER_POSITION,
    PL_TIER_OWNER,
    PL_TIER_SET,
    PL_TIER_RANK,
    PL_TIER_SLOT,
    PL_TIER_STAMP,
    PL_TIER_DIGEST,
    PL_TIER_COLUMNS
} pl_tier_column_t;

typedef struct pl_tier_column_about {
    const char *path;
    pl_item_t item;
    const char *label, *unit, *description;
} pl_tier_column_about_t;

extern const pl_tier_column_about_t pl_tier_columns[PL_TIER_COLUMNS];

int32_t pl_tier_column_rows(const pl_tier_index_t *index,
                            pl_tier_column_t column);
/* One item, as 64 bits; signed ones extended. */
uint64_t pl_tier_column_get(const pl_tier_index_t *index,
                            pl_tier_column_t column, int32_t row);
void pl_tier_column_set(pl_tier_index_t *index, pl_tier_column_t column,
                        int32_t row, uint64_t value);

/* Marks of the contents: the last line before the seal, and the first line. */
#define PL_TIER_LAST_BYTES 40 /* "pagelane-contents <20 digits>\n", padded */

#endif /* PL_STORE_TIER_COLUMNS_H */
