/* What the tests of the trace module share. */
#ifndef PL_TEST_TRACE_SUPPORT_H
#define PL_TEST_TRACE_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/trace.h>

/* A log that remembers: how many lines of a level, and the last of each. */
typedef struct heard {
    int n_errors, n_warnings;
    char error[1024], warning[1024];
} heard_t;

pl_log_t log_of(heard_t *heard);

/* Open `text` as the file "t.jsonl"; NULL = default parameters. */
pl_status_t open_text(const char *text, const pl_trace_params_t *params,
                      heard_t *heard, pl_trace_t **trace_p);

/* The same; fails the test if it does not open without an error line. */
pl_trace_t *must_open_text(const char *text, const pl_trace_params_t *params);
pl_trace_t *must_open_file(const char *path, const pl_trace_params_t *params);

/* Mooncake JSONL of n_rows random prompts whose ids form a trie of 64-bit
 * ids; the caller frees it. */
char *random_trie(uint64_t seed, int n_rows, int max_blocks);

#endif /* PL_TEST_TRACE_SUPPORT_H */
