/* trace/write.h - traces of one format as files of another.
 *
 * What the other format cannot say is told, one warning for each kind.  Block
 * ids stay as they are where the block size does; else an id stands for the
 * same tokens in blocks of another size, which is exact: prompts that share
 * tokens share ids, and no others.
 */
#ifndef PL_TRACE_WRITE_H
#define PL_TRACE_WRITE_H

#include <stdio.h>

#include <pagelane/trace.h>

#include "trace/keyed.h"

typedef struct pl_trace_write_params {
    const char *format;  /* mooncake, bailian, agentic, csv, tokens */
    int32_t id_tokens;   /* that an id stands for; 0: as in the trace, and where
                            it has none as is usual in the format */
    const pl_key_t *key; /* names and ids are hashed with it; NULL: none */
} pl_trace_write_params_t;

/* PL_OK, PL_ERR_ARGUMENT (reported), PL_ERR_IO (not reported), PL_ERR_MEMORY.
 */
PL_MUST_CHECK pl_status_t pl_trace_write(const pl_trace_t *trace,
                                         const pl_trace_write_params_t *params,
                                         FILE *file, const pl_log_t *log);

#endif /* PL_TRACE_WRITE_H */
