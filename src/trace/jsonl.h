/* trace/jsonl.h - a text of one JSON object a line, field by field.
 *
 * Open -> next (the lines that are not blank, in order) -> close.  The fields
 * are those of the current line.  Whatever is wrong is reported with file,
 * line, what was expected and the remedy, and is PL_ERR_INPUT.  A field may go
 * by several names (`names`, NULL at the end; the first is the usual one); a
 * line with two of them is refused.  Unknown fields are passed over; null is
 * absent. Lengths may be written with a point (600.0), ids may not: 64 bits of
 * them do not pass through a float.  One of more than 64 bits is refused, which
 * json-c would cut to the largest.
 */
#ifndef PL_TRACE_JSONL_H
#define PL_TRACE_JSONL_H

#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <json-c/json_util.h>

#include "trace/reader.h"

typedef struct pl_jsonl {
    const pl_trace_source_t *source;
    struct json_tokener *tokener;
    const char *next;           /* the text not yet read */
    const char *line;           /* the current line */
    size_t n_bytes;             /* of it */
    int64_t number;             /* of it, from 1 */
    struct json_object *object; /* what stands on it */
    bool has_overflow;          /* an integer on it passes 64 bits */
} pl_jsonl_t;

pl_status_t pl_jsonl_open(const pl_trace_source_t *source, pl_jsonl_t *jsonl);
void pl_jsonl_close(pl_jsonl_t *jsonl);

/* Go to the next line that is not blank; *more_p is false at the end. */
pl_status_t pl_jsonl_next(pl_jsonl_t *jsonl, bool *more_p);

/* Read one row; `context` is the reader's. */
typedef pl_status_t (*pl_jsonl_row_t)(const pl_jsonl_t *jsonl, void *context);

/* Call read_row on every line that is not blank until one fails. */
pl_status_t pl_jsonl_each(const pl_trace_source_t *source,
                          pl_jsonl_row_t read_row, void *context);

/* The field's value, borrowed, or NULL if there is none.  `wanted` says what
 * it should be if it must be there, else it is NULL. */
pl_status_t pl_jsonl_find(const pl_jsonl_t *jsonl, const char *const *names,
                          const char *wanted, struct json_object **value_p);

/* A value as messages show it. */
const char *pl_jsonl_shown(const pl_jsonl_t *jsonl, struct json_object *value);

/* A whole number least .. INT32_MAX; if it is absent *value_p stays as it is
 * where `optional`, else that is an error. */
pl_status_t pl_jsonl_count(const pl_jsonl_t *jsonl, const char *const *names,
                           int32_t least, bool optional, int32_t *value_p);

/* A time in ms, whole or not, in ns; absent as above. */
pl_status_t pl_jsonl_time(const pl_jsonl_t *jsonl, const char *const *names,
                          bool optional, int64_t *time_ns_p);

/* The same in s. */
pl_status_t pl_jsonl_seconds(const pl_jsonl_t *jsonl, const char *const *names,
                             bool optional, int64_t *time_ns_p);

/* An array with at least one item. */
pl_status_t pl_jsonl_array(const pl_jsonl_t *jsonl, const char *const *names,
                           struct json_object **array_p, size_t *n_p);

/* The whole text as one JSON object, instead of lines; number is 0, so that
 * messages name no line. */
pl_status_t pl_jsonl_whole(pl_jsonl_t *jsonl);

/* The tokens of `array` (at least one) as a prompt: appended to rows->tokens,
 * noted in `row`.  `name` is the array's, for messages. */
pl_status_t pl_jsonl_tokens(const pl_jsonl_t *jsonl, struct json_object *array,
                            const char *name, pl_trace_row_t *row,
                            pl_trace_rows_t *rows);

/* The block ids of the row, whole numbers or strings of 16 hexadecimal digits,
 * appended to rows->ids and noted in `row`, whose length and block size they
 * must fit. */
pl_status_t pl_jsonl_ids(const pl_jsonl_t *jsonl, const char *const *names,
                         pl_trace_row_t *row, pl_trace_rows_t *rows);

/* Is `value` a whole number 0 .. UINT64_MAX? */
bool pl_jsonl_unsigned(const pl_jsonl_t *jsonl, struct json_object *value,
                       uint64_t *value_p);

#endif /* PL_TRACE_JSONL_H */
