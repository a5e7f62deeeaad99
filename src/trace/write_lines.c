/* Mooncake, Bailian and token JSONL. */
#include <inttypes.h>
#include <stdlib.h>

#include "trace/writing_turns.h"

enum { MS = 6, S = 9 };
#define MOONCAKE_TOKENS 512
#define BAILIAN_TOKENS  16

static void write_list(FILE *file, const uint64_t *items, size_t n)
{
    fputc('[', file);
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "%s%" PRIu64, i == 0 ? "" : ", ", items[i]);
    }
    fputc(']', file);
}

/* ---- turns of JSON lines (turns.h) ---- */

static void write_after(const pl_writing_turns_t *turns, int32_t i)
{
    const pl_request_t *request = &turns->writing->trace->requests[i];
    FILE *file                  = turns->writing->file;

    fprintf(file, "\"wait_for\": [");
    for (int32_t k = 0; k < request->n_after; k++) {
        fprintf(file, "%s%" PRId32, k == 0 ? "" : ", ", request->after[k]);
    }
    fprintf(file, "], ");
}

static pl_status_t write_turn(const pl_writing_turns_t *turns, int32_t i)
{
    pl_writing_t *writing       = turns->writing;
    const pl_request_t *request = &writing->trace->requests[i];
    FILE *file                  = writing->file;
    uint64_t session            = 0;

    if (turns->is_named[i]) {
        fprintf(file, "\"request_id\": %" PRId32 ", ", i);
    }
    if (turns->is_turn[i]) {
        PL_TRY(pl_writing_name(writing, "session",
                               (uint64_t)pl_writing_session(writing, i),
                               &session));
        fprintf(file, "\"session_id\": %" PRIu64 ", ", session);
    } else if (request->n_after > 0) {
        write_after(turns, i);
    }
    if ((request->n_after > 0) && !request->not_before) {
        fprintf(file, "\"delay\": ");
        pl_writing_time(file, request->delay_ns, MS);
        fprintf(file, ", ");
    }
    return PL_OK;
}

/* ---- mooncake ---- */

static pl_status_t write_mooncake_line(const pl_writing_turns_t *turns,
                                       int32_t i)
{
    pl_writing_t *writing       = turns->writing;
    const pl_request_t *request = &writing->trace->requests[i];
    FILE *file                  = writing->file;
    int32_t size                = pl_writing_size(writing, i);

    fprintf(file, "{\"timestamp\": ");
    pl_writing_time(file, request->arrival_ns, MS);
    fprintf(file, ", ");
    PL_TRY(write_turn(turns, i));
    fprintf(file,
            "\"input_length\": %" PRId32 ", \"output_length\": %" PRId32 ", ",
            request->input_tokens, request->output_tokens);
    if (size != MOONCAKE_TOKENS) {
        fprintf(file, "\"block_size\": %" PRId32 ", ", size);
    }
    PL_TRY(pl_writing_ids(writing, i));
    fprintf(file, "\"hash_ids\": ");
    write_list(file, writing->list.items, writing->list.n);
    fprintf(file, "}\n");
    return PL_OK;
}

/* ---- tokens ---- */

enum { SOME = 4096 };

static pl_status_t write_tokens_line(const pl_writing_turns_t *turns, int32_t i)
{
    pl_writing_t *writing       = turns->writing;
    const pl_request_t *request = &writing->trace->requests[i];
    FILE *file                  = writing->file;
    int32_t tokens[SOME];

    if (pl_trace_row(writing->trace, i)->block_tokens > 0) {
        pl_writing_lose(writing, PL_LOSS_WORDS);
    }
    fprintf(file, "{\"timestamp\": ");
    pl_writing_time(file, request->arrival_ns, MS);
    fprintf(file, ", ");
    PL_TRY(write_turn(turns, i));
    if (request->name_space != 0) {
        fprintf(file, "\"namespace\": %" PRIu64 ", ", request->name_space);
    }
    fprintf(file, "\"output_length\": %" PRId32 ", \"prompt_token_ids\": [",
            request->output_tokens);
    for (int32_t at = 0; at < request->input_tokens; at += SOME) {
        int32_t left = request->input_tokens - at;
        int32_t n    = left < SOME ? left : SOME;

        pl_trace_tokens(writing->trace, i, at, n, tokens);
        for (int32_t k = 0; k < n; k++) {
            fprintf(file, "%s%" PRId32, at + k == 0 ? "" : ", ", tokens[k]);
        }
    }
    fprintf(file, "]}\n");
    return PL_OK;
}

static pl_status_t
write_lines(pl_writing_t *writing,
            pl_status_t (*write)(const pl_writing_turns_t *turns, int32_t i))
{
    pl_writing_turns_t turns = {0};
    pl_status_t status       = pl_writing_turns(writing, &turns);

    for (int32_t i = 0; i < writing->trace->count; i++) {
        const pl_request_t *request = &writing->trace->requests[i];

        if (request->not_before && (request->n_after > 0)) {
            pl_writing_lose(writing, PL_LOSS_NOT_BEFORE);
        }
    }
    for (int32_t i = 0; (i < writing->trace->count) && (status == PL_OK); i++) {
        status = write(&turns, i);
    }
    pl_writing_turns_free(&turns);
    return status;
}

static pl_status_t write_mooncake(pl_writing_t *writing)
{
    return write_lines(writing, write_mooncake_line);
}

static pl_status_t write_tokens(pl_writing_t *writing)
{
    if (writing->params->key != NULL) {
        pl_log(writing->log, PL_LOG_ERROR,
               "option --anonymize: tokens are text, and cannot be hashed; use "
               "a --format that has block ids");
        return PL_ERR_ARGUMENT;
    }
    return write_lines(writing, write_tokens_line);
}

/* ---- bailian ---- */

/* The turn before it: of those that request i waits for the newest one of its
 * session; -1: none. */
static int32_t parent_of(pl_writing_t *writing, int32_t i)
{
    const pl_request_t *request = &writing->trace->requests[i];
    int64_t session             = pl_writing_session(writing, i);
    int32_t parent              = -1;

    for (int32_t k = 0; k < request->n_after; k++) {
        if ((session == 0) ||
            (pl_writing_session(writing, request->after[k]) == session)) {
            parent = request->after[k];
        }
    }
    if (request->n_after > (parent >= 0 ? 1 : 0)) {
        pl_writing_lose(writing, PL_LOSS_SOME_WAITS);
    }
    if ((request->n_after > 0) && !request->not_before) {
        pl_writing_lose(writing, PL_LOSS_DELAYS);
    }
    return parent;
}

static pl_status_t write_bailian_line(pl_writing_t *writing, int32_t i,
                                      int32_t *turns)
{
    const pl_request_t *request = &writing->trace->requests[i];
    FILE *file                  = writing->file;
    int32_t parent              = parent_of(writing, i);

    turns[i] = parent < 0 ? 1 : turns[parent] + 1;
    fprintf(file,
            "{\"chat_id\": %" PRId32 ", \"parent_chat_id\": %" PRId32
            ", \"timestamp\": ",
            i, parent);
    pl_writing_time(file, request->arrival_ns, S);
    fprintf(file,
            ", \"input_length\": %" PRId32 ", \"output_length\": %" PRId32
            ", \"type\": \"text\", \"turn\": %" PRId32 ", \"hash_ids\": ",
            request->input_tokens, request->output_tokens, turns[i]);
    PL_TRY(pl_writing_ids(writing, i));
    write_list(file, writing->list.items, writing->list.n);
    fprintf(file, "}\n");
    return PL_OK;
}

static pl_status_t write_bailian(pl_writing_t *writing)
{
    int32_t *turns     = calloc((size_t)writing->trace->count, sizeof(*turns));
    pl_status_t status = turns != NULL ? PL_OK : PL_ERR_MEMORY;

    for (int32_t i = 0; (i < writing->trace->count) && (status == PL_OK); i++) {
        status = write_bailian_line(writing, i, turns);
    }
    free(turns);
    return status;
}

const pl_trace_writer_t pl_trace_writer_mooncake = {
    .name      = "mooncake",
    .id_tokens = MOONCAKE_TOKENS,
    .has_size  = true,
    .has_sizes = true,
    .write     = write_mooncake,
};

const pl_trace_writer_t pl_trace_writer_tokens = {
    .name  = "tokens",
    .write = write_tokens,
};

const pl_trace_writer_t pl_trace_writer_bailian = {
    .name      = "bailian",
    .id_tokens = BAILIAN_TOKENS,
    .write     = write_bailian,
};
