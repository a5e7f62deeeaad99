#include "trace/played.h"

#include "trace/internal.h"

/* Made from numbers: no text is ever looked at. */
static const pl_trace_reader_t PLAYED = {.name = "played"};

/* A prompt of its own: one block, whose id is nobody else's. */
static pl_status_t add_lone(pl_trace_rows_t *rows, pl_trace_row_t *row)
{
    row->block_tokens = row->input_tokens;
    row->first        = rows->ids.n;
    row->n            = 1;
    return PL_ARRAY_PUSH(&rows->ids, (uint64_t)rows->row.n);
}

/* The prompt of a request that another trace has, as long as it is there. */
static pl_status_t add_copy(pl_trace_rows_t *rows, const pl_trace_t *prompts,
                            int32_t prompt, pl_trace_row_t *row)
{
    const pl_trace_row_t *of = pl_trace_row(prompts, prompt);
    bool has_tokens          = prompts->reader->has_tokens;

    row->block_tokens = pl_trace_row_block(prompts, of);
    row->name_space   = of->name_space;
    row->input_tokens = prompts->requests[prompt].input_tokens;
    row->first        = has_tokens ? rows->tokens.n : rows->ids.n;
    row->n            = of->n;
    for (size_t i = of->first; i < of->first + of->n; i++) {
        PL_TRY(has_tokens
                   ? PL_ARRAY_PUSH(&rows->tokens, prompts->rows.tokens.items[i])
                   : PL_ARRAY_PUSH(&rows->ids, prompts->rows.ids.items[i]));
    }
    return PL_OK;
}

static pl_status_t add_all(pl_trace_rows_t *rows,
                           const pl_trace_played_t *played, size_t n,
                           const pl_trace_t *prompts)
{
    for (size_t i = 0; i < n; i++) {
        pl_trace_row_t row = {.time_ns       = played[i].time_ns,
                              .line          = played[i].line,
                              .input_tokens  = played[i].input_tokens,
                              .output_tokens = played[i].output_tokens,
                              .number        = i};

        PL_TRY(prompts == NULL
                   ? add_lone(rows, &row)
                   : add_copy(rows, prompts, played[i].prompt, &row));
        PL_TRY(PL_ARRAY_PUSH(&rows->row, row));
    }
    return PL_OK;
}

pl_status_t pl_trace_open_played(const pl_trace_params_t *params,
                                 const char *name,
                                 const pl_trace_played_t *played, size_t n,
                                 const pl_trace_t *prompts, const pl_log_t *log,
                                 pl_trace_t **trace_p)
{
    pl_trace_params_t all = pl_trace_params_default();
    pl_trace_rows_t rows  = {0};
    pl_status_t status    = add_all(&rows, played, n, prompts);

    if (status != PL_OK) {
        pl_trace_rows_free(&rows);
        return status;
    }
    all.paced       = true;
    all.vocab_size  = params->vocab_size;
    all.banned      = params->banned;
    all.n_banned    = params->n_banned;
    all.seed        = params->seed;
    all.token_limit = params->token_limit;
    return pl_trace_open_rows(&all, name,
                              prompts == NULL ? &PLAYED : prompts->reader,
                              &rows, log, trace_p);
}
