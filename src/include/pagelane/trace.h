/* pagelane/trace.h - request traces: who asks what, and when.
 *
 * A trace is opened once, read whole, checked, and then only read: any number
 * of threads may use it.  A request's prompt is given in two forms that agree:
 * tokens (for executors that compute) and page keys (for the prefix tree, which
 * never touches a token).  Equal page keys mean equal tokens; the tree makes
 * prefixes of them.
 *
 * Formats, recognised by content (one reader file each in src/trace/; their
 * fields are in docs/traces.md):
 *   mooncake  JSONL {timestamp ms, input_length, output_length, hash_ids[]};
 *             an id stands for a block of 512 tokens (or block_size) and all
 *             before it; with sessions, delays and wait_for
 *   bailian   JSONL {chat_id, parent_chat_id, timestamp s, ..., hash_ids[]} of
 *             16 tokens
 *   agentic   sessions {requests: [{t s, in, out, hash_ids[], think_time}]}
 *   lengths   JSONL {timestamp ms, input_length, output_length}; no prefixes
 *   csv       named columns: Azure's, BurstGPT's, Vidur's; no prefixes
 *   tokens    JSONL {prompt_token_ids[], [output_length or output_tokens or
 *             max_tokens, else 1], [timestamp ms], [namespace]}
 *   prompts   one object {"prompts": [[token, ...], ...]}: all arrive at time 0
 *             and generate as many tokens as max_new says, 16 if it says none
 * Any of them may be packed by gzip or zstd.
 * Lines are sorted by arrival (a warning tells if they were not), an output
 * length of 0 counts as 1, unknown fields are passed over.
 */
#ifndef PAGELANE_TRACE_H
#define PAGELANE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/export.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_trace pl_trace_t; /* opaque */

/* What identifies the tokens of one whole page, without what is before it.
 * 128 bits of XXH3 over the page's tokens, or over the block ids and offsets
 * that make it: within one trace and page size equal exactly when the page's
 * tokens are (tokens of different ids that are equal by chance are not seen).
 * The namespace is no part of it.  Keys of traces have the top bit of `hi`
 * clear; with it, a page is known by something else than its tokens, within one
 * run. */
typedef struct pl_page_key {
    uint64_t lo, hi;
} pl_page_key_t;
#define PL_PAGE_KEY_OTHER (UINT64_C(1) << 63)

/* A request that waits for others (n_after > 0) arrives delay_ns after the last
 * of them has ended, well or not, with `not_before` also not before arrival_ns.
 * Its arrival_ns is when that would be if every request took no time, or what
 * the file says if that is later.  Those before it that are passed over do not
 * count; if none is left it arrives at arrival_ns, as all others do. */
typedef struct pl_request {
    int64_t arrival_ns;    /* virtual time, >= 0, ascending over the trace,
                              from the first request taken */
    int32_t input_tokens;  /* prompt length, >= 1 */
    int32_t output_tokens; /* tokens to generate, >= 1 */
    uint64_t name_space;   /* prompts share pages only within one; 0 = none */
    int64_t line;          /* line of the file it stands on, from 1; of the
                              prompts and agentic formats: its number, from 1 */
    const int32_t *after;  /* [n_after] requests it waits for: ascending, all
                              less than its own index; borrowed */
    int32_t n_after;
    bool not_before;
    int64_t delay_ns; /* >= 0 */
} pl_request_t;

typedef struct pl_trace_params {
    const char *path;
    const char *const *more; /* [n_more] files whose requests join them by
                                time; borrowed during open.  The ids of one file
                                are not those of another */
    int32_t n_more;
    double speedup;        /* > 0: times and delays are divided by it */
    int64_t offset;        /* requests to skip at the start */
    int64_t limit;         /* requests to take after that; -1 = all */
    int32_t block_tokens;  /* tokens a block id stands for; 0 = the file's own.
                              A smaller one scales lengths down by
                              block_tokens/own, rounding up; a prompt keeps its
                              last partial block */
    int32_t id_tokens;     /* what an id of the file stands for where it does
                              not say so itself; 0 = as is usual in its format
                              (512, 16, 64) */
    int32_t passes;        /* >= 1: the requests again, from 1 ms after the
                              last arrival */
    bool paced;            /* false: all arrive at time 0, or at once when those
                              they wait for have ended */
    int32_t max_new;       /* cap of output_tokens, once scaled; 0 = none */
    int32_t vocab_size;    /* tokens of expanded ids are 0 .. vocab_size-1 */
    const int32_t *banned; /* ids never expanded to (end of sequence), borrowed
                              during open */
    int32_t n_banned;
    uint64_t seed;       /* of the expansion of ids to tokens */
    int32_t token_limit; /* a token file's ids must be below it (a model's
                            vocabulary); 0 = any */
} pl_trace_params_t;

/* params as the command line has them without options; path is NULL. */
PL_API pl_trace_params_t pl_trace_params_default(void);

/* Open and check a trace.  Not collective.
 *
 * A line that cannot be used is named with file, line, what was expected and
 * the remedy.  Returns PL_OK, PL_ERR_ARGUMENT (a parameter), PL_ERR_INPUT (the
 * file), PL_ERR_MEMORY. */
PL_API PL_MUST_CHECK pl_status_t pl_trace_open(const pl_trace_params_t *params,
                                               const pl_log_t *log,
                                               pl_trace_t **trace_p);
PL_API void pl_trace_close(pl_trace_t *trace); /* NULL is allowed */

/* The name of the format; "mixed" of files of several. */
PL_API const char *pl_trace_format(const pl_trace_t *trace);

/* What a block id stands for at most; 0: the file has tokens. */
PL_API int32_t pl_trace_block_tokens(const pl_trace_t *trace);

/* Does the file tell which prompts begin alike?  If not (csv), every prompt is
 * another one, and no hit rate says anything. */
PL_API bool pl_trace_has_prefixes(const pl_trace_t *trace);
PL_API int32_t pl_trace_count(const pl_trace_t *trace);

/* Request i of 0 .. count-1, in order of arrival; borrowed. */
PL_API const pl_request_t *pl_trace_request(const pl_trace_t *trace, int32_t i);

/* Tokens first .. first+n-1 of request i's prompt (within it). */
PL_API void pl_trace_tokens(const pl_trace_t *trace, int32_t i, int32_t first,
                            int32_t n, int32_t *tokens);

/* Keys of whole pages first .. first+n-1 of page_size tokens each; all of them
 * must lie within the prompt.  No token is expanded for block-id formats. */
PL_API void pl_trace_page_keys(const pl_trace_t *trace, int32_t i,
                               int32_t page_size, int32_t first, int32_t n,
                               pl_page_key_t *keys);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_TRACE_H */
