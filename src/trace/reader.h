/* trace/reader.h - what stands between a trace file and the rest.
 *
 * A reader turns the text of one format into rows; everything after that
 * (order, selection, scaling, tokens, keys, statistics) knows rows alone.  A
 * format is one file with one pl_trace_reader_t, named in the table of
 * recognise.c.
 */
#ifndef PL_TRACE_READER_H
#define PL_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include <pagelane/log.h>
#include <pagelane/status.h>

struct json_object;

/* The whole text of a trace, borrowed. */
typedef struct pl_trace_source {
    const char *name; /* the file, for messages */
    const char *text; /* without a byte order mark */
    size_t n_bytes;
    int32_t token_limit; /* tokens in the text must be below; 0 = any */
    int32_t id_tokens;   /* that an id stands for where the text does not say
                            it; 0 = as is usual in the format */
    int32_t max_new;     /* the cap of output lengths, which the caller applies;
                            0 = none */
    const pl_log_t *log;
} pl_trace_source_t;

#define PL_TRACE_NO_TIME INT64_C(-1)

/* Times beyond it (285 years) are refused. */
#define PL_TRACE_MAX_NS INT64_C(9000000000000000000)

/* Lengths and times as in the file. */
typedef struct pl_trace_row {
    int64_t time_ns;       /* PL_TRACE_NO_TIME: the row has none */
    const char *file;      /* where it stands, for messages; borrowed while
                              the trace is opened */
    int64_t line;          /* from 1; the number of the request where the
                              format has no lines */
    int32_t input_tokens;  /* >= 1 */
    int32_t output_tokens; /* >= 0 */
    int32_t block_tokens; /* what one of its ids stands for; 0: it has tokens */
    uint64_t name_space;  /* 0 = none */
    size_t first;         /* its first id or token in ids or tokens */
    size_t n;             /* how many, >= 1 */

    /* Rows it waits for (pagelane/trace.h), by their number in the order of
     * reading. */
    size_t first_after, n_after; /* in after */
    int64_t delay_ns;
    bool not_before;

    size_t number;   /* its own, from 0; set when all are read */
    int32_t session; /* its conversation, from 1; 0 = none */
    int32_t thread;  /* of a session: 0, and from 1 those it started */
} pl_trace_row_t;

typedef struct pl_trace_rows {
    PL_ARRAY(pl_trace_row_t) row;
    PL_ARRAY(uint64_t) ids;   /* formats with block ids */
    PL_ARRAY(int32_t) tokens; /* formats with tokens */
    PL_ARRAY(size_t) after;
    int32_t n_sessions;
} pl_trace_rows_t;

typedef struct pl_trace_reader {
    const char *name;  /* what pl_trace_format() says */
    const char *marks; /* how it is recognised, for messages */
    bool has_tokens;   /* rows hold tokens, not block ids */
    bool has_prefixes; /* prompts that begin alike can be told */

    /* Is it this format?  `first` is the first line that is not blank if that
     * is a JSON object, else the whole text if that is one, else NULL. */
    bool (*recognises)(const pl_trace_source_t *source,
                       const struct json_object *first);

    /* Append every request of the source to `rows`, in the file's order, and
     * check what a single row, or the ids of all rows, must satisfy.
     * PL_OK, PL_ERR_INPUT (reported), PL_ERR_MEMORY. */
    pl_status_t (*read)(const pl_trace_source_t *source, pl_trace_rows_t *rows);
} pl_trace_reader_t;

extern const pl_trace_reader_t pl_trace_reader_mooncake;
extern const pl_trace_reader_t pl_trace_reader_lengths;
extern const pl_trace_reader_t pl_trace_reader_bailian;
extern const pl_trace_reader_t pl_trace_reader_agentic;
extern const pl_trace_reader_t pl_trace_reader_csv;
extern const pl_trace_reader_t pl_trace_reader_tokens;
extern const pl_trace_reader_t pl_trace_reader_prompts;

void pl_trace_rows_free(pl_trace_rows_t *rows);

/* The row waits for `number`, besides what it waits for already; its own are
 * the last in rows->after. */
pl_status_t pl_trace_wait_for(pl_trace_rows_t *rows, pl_trace_row_t *row,
                              size_t number);

/* None of them twice. */
void pl_trace_wait_once(pl_trace_rows_t *rows, pl_trace_row_t *row);

/* What an id stands for where the file does not say it. */
static inline int32_t pl_trace_id_tokens(const pl_trace_source_t *source,
                                         int32_t usual)
{
    return source->id_tokens > 0 ? source->id_tokens : usual;
}

/* The source of which a row is one, once all files are read. */
static inline pl_trace_source_t
pl_trace_source_of(const pl_trace_source_t *source, const pl_trace_row_t *row)
{
    pl_trace_source_t own = *source;

    own.name = row->file;
    return own;
}

/* Report "<file>:<line>: <what>" (without the line if it is 0).  Returns
 * PL_ERR_INPUT. */
pl_status_t pl_trace_bad(const pl_trace_source_t *source, int64_t line,
                         const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#endif /* PL_TRACE_READER_H */
