/* trace/internal.h - a trace in memory; for this module and its tests. */
#ifndef PL_TRACE_INTERNAL_H
#define PL_TRACE_INTERNAL_H

#include <pagelane/trace.h>

#include "trace/reader.h"

struct pl_trace {
    const pl_trace_reader_t *reader; /* of the first file */
    bool is_mixed;                   /* another file had another one */
    bool has_prefixes;               /* prompts that begin alike can be told */
    bool has_times;                  /* a row has one */
    pl_trace_rows_t rows;            /* of all files, in order of arrival */
    int32_t block_tokens; /* tokens of a block id: those that were asked for,
                             else the most of any row; 0 = rows hold tokens */
    bool is_scaled;       /* those that were asked for */

    /* Requests are rows selected .. selected+n_selected-1, passes times over:
     * request i stands for row selected + i % n_selected. */
    size_t selected;
    int32_t n_selected;
    pl_request_t *requests;
    int64_t *times_ns; /* arrivals as if paced */
    int32_t *after;    /* what requests[].after points into */
    int32_t count;

    /* Expansion of ids: vocabulary entries that may come, and the ids left
     * out of it, ascending. */
    uint64_t seed;
    uint64_t n_vocab;
    int32_t *banned;
    size_t n_banned;
};

/* The row that request i repeats. */
static inline const pl_trace_row_t *pl_trace_row(const pl_trace_t *trace,
                                                 int32_t i)
{
    return &trace->rows.row
                .items[trace->selected + (size_t)(i % trace->n_selected)];
}

/* Tokens that an id of the row stands for here; 0: it has tokens. */
static inline int32_t pl_trace_row_block(const pl_trace_t *trace,
                                         const pl_trace_row_t *row)
{
    return trace->is_scaled ? trace->block_tokens : row->block_tokens;
}

/* As pl_trace_open() of a file `name` with this content (borrowed during the
 * call); params->path is not looked at. */
pl_status_t pl_trace_open_memory(const pl_trace_params_t *params,
                                 const char *name, const char *text,
                                 size_t n_bytes, const pl_log_t *log,
                                 pl_trace_t **trace_p);

/* A trace from rows that are there already, which it takes over, whether it
 * can be opened or not. */
pl_status_t pl_trace_open_rows(const pl_trace_params_t *params,
                               const char *name,
                               const pl_trace_reader_t *reader,
                               pl_trace_rows_t *rows, const pl_log_t *log,
                               pl_trace_t **trace_p);

/* order.c: give every row the time at which it arrives if requests take no
 * time, and sort by that; those that others wait for come first. */
pl_status_t pl_trace_order(pl_trace_rows_t *rows,
                           const pl_trace_source_t *source);

/* select.c: from the rows of trace->rows, in order of arrival, to requests:
 * skip and take, scale, cap and repeat. */
pl_status_t pl_trace_select(pl_trace_t *trace, const pl_trace_params_t *params,
                            const pl_trace_source_t *source);

/* expand.c: prepare the expansion of ids (seed, n_vocab, banned). */
pl_status_t pl_trace_set_vocabulary(pl_trace_t *trace,
                                    const pl_trace_params_t *params,
                                    const pl_log_t *log);

#endif /* PL_TRACE_INTERNAL_H */
