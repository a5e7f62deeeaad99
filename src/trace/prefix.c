#include "trace/prefix.h"

#include "base/hash.h"

pl_page_key_t pl_prefix_chain(pl_page_key_t before, pl_page_key_t key)
{
    uint64_t words[4] = {before.lo, before.hi, key.lo, key.hi};
    pl_hash128_t h    = pl_hash128(words, sizeof(words), 0);

    return (pl_page_key_t){h.lo, h.hi};
}

pl_page_key_t pl_prefix_start(const pl_request_t *request)
{
    return (pl_page_key_t){request->name_space, 0};
}

int32_t pl_prefix_block_tokens(const pl_trace_t *trace, int32_t i,
                               int32_t page_tokens)
{
    int32_t own = pl_trace_row_block(trace, pl_trace_row(trace, i));

    return own > 0 ? own : page_tokens;
}

pl_page_key_t pl_prefix_block(const pl_trace_t *trace, int32_t i,
                              int32_t page_tokens, int32_t k,
                              pl_page_key_t before)
{
    const pl_trace_row_t *row = pl_trace_row(trace, i);
    int32_t begin             = k * page_tokens;
    int32_t n                 = row->input_tokens - begin;
    pl_hash128_t h;

    if (row->block_tokens > 0) { /* an id is a prefix already */
        return (pl_page_key_t){trace->rows.ids.items[row->first + (size_t)k],
                               0};
    }
    h = pl_hash128(
        &trace->rows.tokens.items[row->first + (size_t)begin],
        (size_t)(n < page_tokens ? n : page_tokens) * sizeof(int32_t), 0);
    return pl_prefix_chain(before, (pl_page_key_t){h.lo, h.hi});
}
