#include "trace/write.h"

#include <inttypes.h>
#include <string.h>

#include "trace/prefix.h"
#include "trace/writing.h"

enum { N_WRITERS = 5 };

static const pl_trace_writer_t *const WRITERS[N_WRITERS] = {
    &pl_trace_writer_mooncake, &pl_trace_writer_bailian,
    &pl_trace_writer_agentic,  &pl_trace_writer_csv,
    &pl_trace_writer_tokens,
};

/* ---- ids ---- */

int32_t pl_writing_size(const pl_writing_t *writing, int32_t i)
{
    return writing->id_tokens > 0
               ? writing->id_tokens
               : pl_trace_row_block(writing->trace,
                                    pl_trace_row(writing->trace, i));
}

/* Does the trace have ids, and all of the size they are to have? */
static bool keeps_ids(const pl_writing_t *writing)
{
    const pl_trace_t *trace = writing->trace;

    for (int32_t i = 0; i < trace->n_selected; i++) {
        int32_t own = pl_trace_row_block(trace, pl_trace_row(trace, i));

        if ((own == 0) || (pl_writing_size(writing, i) != own)) {
            return false;
        }
    }
    return trace->has_prefixes;
}

/* The id of the block known by (a, b). */
static pl_status_t id_of(pl_writing_t *writing, uint64_t a, uint64_t b,
                         uint64_t *id_p)
{
    uint64_t number = 0;
    uint64_t other  = 0;

    if (writing->as_is && (writing->params->key == NULL)) {
        *id_p = a;
        return PL_OK;
    }
    PL_TRY(pl_id_map_number(&writing->ids, a, b, &number));
    *id_p = number;
    if (writing->params->key == NULL) {
        return PL_OK;
    }
    if (number < writing->hashes.n) {
        *id_p = writing->hashes.items[number];
        return PL_OK;
    }
    PL_TRY(pl_key_hash(writing->params->key, "block", a, b, id_p));
    PL_TRY(PL_ARRAY_PUSH(&writing->hashes, *id_p));
    if (pl_id_map_find(&writing->hashed, 0, *id_p, &other)) {
        pl_log(writing->log, PL_LOG_ERROR,
               "two blocks become id %" PRIu64 " with this key: expected "
               "distinct ids; use another key",
               *id_p);
        return PL_ERR_ARGUMENT;
    }
    return pl_id_map_put(&writing->hashed, 0, *id_p, number);
}

/* Blocks of tokens, each known by all up to its end. */
static pl_status_t list_tokens(pl_writing_t *writing, int32_t i, int32_t size,
                               int32_t n)
{
    const pl_trace_t *trace = writing->trace;
    pl_page_key_t prefix    = pl_prefix_start(&trace->requests[i]);

    for (int32_t k = 0; k < n; k++) {
        prefix = pl_prefix_block(trace, i, size, k, prefix);
        PL_TRY(id_of(writing, prefix.lo, prefix.hi, &writing->list.items[k]));
    }
    return PL_OK;
}

/* The id in which a block ends tells all before it; with the block's number it
 * tells the block, whatever the two sizes are. */
static pl_status_t list_ids(pl_writing_t *writing, int32_t i, int32_t size,
                            int32_t n)
{
    const pl_trace_t *trace   = writing->trace;
    const pl_trace_row_t *row = pl_trace_row(trace, i);
    const uint64_t *ids       = trace->rows.ids.items + row->first;
    int32_t own               = pl_trace_row_block(trace, row);
    int32_t input             = trace->requests[i].input_tokens;

    for (int32_t k = 0; k < n; k++) {
        int32_t end = k < n - 1 ? (k + 1) * size : input;

        PL_TRY(id_of(writing, ids[(end - 1) / own],
                     writing->as_is ? 0 : (uint64_t)k,
                     &writing->list.items[k]));
    }
    return PL_OK;
}

pl_status_t pl_writing_ids(pl_writing_t *writing, int32_t i)
{
    const pl_trace_t *trace     = writing->trace;
    const pl_request_t *request = &trace->requests[i];
    int32_t size                = pl_writing_size(writing, i);
    int32_t n                   = request->input_tokens / size +
                (request->input_tokens % size > 0 ? 1 : 0);

    PL_TRY(PL_ARRAY_RESERVE(&writing->list, (size_t)n));
    writing->list.n = (size_t)n;
    if (!trace->has_prefixes) {
        pl_writing_lose(writing, PL_LOSS_NO_PREFIXES);
    }
    if (request->name_space != 0) {
        pl_writing_lose(writing, PL_LOSS_SPACES);
    }
    if ((request->input_tokens % size > 0) && trace->has_prefixes &&
        (size > pl_trace_row_block(trace, pl_trace_row(trace, i)))) {
        pl_writing_lose(writing, PL_LOSS_PARTS);
    }
    if (trace->block_tokens > 0) {
        return list_ids(writing, i, size, n);
    }
    pl_writing_lose(writing, PL_LOSS_TOKENS);
    return list_tokens(writing, i, size, n);
}

/* ---- what writers say ---- */

void pl_writing_time(FILE *file, int64_t ns, int digits)
{
    int64_t unit = 1;
    int64_t rest;

    for (int k = 0; k < digits; k++) {
        unit *= 10;
    }
    rest = ns % unit;
    fprintf(file, "%" PRId64 "%s", ns / unit, rest > 0 ? "." : "");
    while (rest > 0) {
        unit /= 10;
        fprintf(file, "%d", (int)(rest / unit));
        rest %= unit;
    }
}

pl_status_t pl_writing_name(const pl_writing_t *writing, const char *domain,
                            uint64_t name, uint64_t *written_p)
{
    if (writing->params->key == NULL) {
        *written_p = name;
        return PL_OK;
    }
    return pl_key_hash(writing->params->key, domain, name, 0, written_p);
}

int64_t pl_writing_session(const pl_writing_t *writing, int32_t i)
{
    const pl_trace_t *trace = writing->trace;
    int64_t session         = pl_trace_row(trace, i)->session;

    return session == 0 ? 0
                        : session + (int64_t)(i / trace->n_selected) *
                                        trace->rows.n_sessions;
}

/* ---- all of it ---- */

static pl_status_t find_writer(const char *name, const pl_log_t *log,
                               const pl_trace_writer_t **writer_p)
{
    for (size_t i = 0; i < N_WRITERS; i++) {
        if (strcmp(WRITERS[i]->name, name) == 0) {
            *writer_p = WRITERS[i];
            return PL_OK;
        }
    }
    pl_log(log, PL_LOG_ERROR,
           "option --format %s: expected mooncake, bailian, agentic, csv or "
           "tokens",
           name);
    return PL_ERR_ARGUMENT;
}

/* One size for all prompts, or 0. */
static int32_t common_size(const pl_trace_t *trace)
{
    int32_t size = trace->block_tokens;

    for (int32_t i = 0; i < trace->n_selected; i++) {
        if (pl_trace_row_block(trace, pl_trace_row(trace, i)) != size) {
            return 0;
        }
    }
    return trace->has_prefixes ? size : 0;
}

static pl_status_t choose_size(pl_writing_t *writing,
                               const pl_trace_writer_t *writer)
{
    const pl_trace_t *trace = writing->trace;
    int32_t wanted          = writing->params->id_tokens;
    bool has_ids            = trace->has_prefixes && (trace->block_tokens > 0);

    if ((wanted > 0) && (writer->id_tokens != wanted) && !writer->has_size) {
        pl_log(writing->log, PL_LOG_ERROR,
               "option --id-tokens %d: %s; leave the option out", (int)wanted,
               writer->id_tokens == 0 ? "the format has no ids"
                                      : "ids of the format stand for 16 "
                                        "tokens");
        return PL_ERR_ARGUMENT;
    }
    writing->id_tokens = writer->id_tokens;
    if (wanted > 0) {
        writing->id_tokens = wanted;
    } else if (writer->has_sizes && has_ids) {
        writing->id_tokens = 0;
    } else if (writer->has_size && (common_size(trace) > 0)) {
        writing->id_tokens = common_size(trace);
    }
    writing->as_is = (writer->id_tokens > 0) && keeps_ids(writing);
    return PL_OK;
}

static void tell_losses(const pl_writing_t *writing)
{
    static const char *const TEXTS[PL_LOSSES] = {
#define PL_LOSS_TEXT(name, text) text,
        PL_LOSS_LIST(PL_LOSS_TEXT)
#undef PL_LOSS_TEXT
    };

    for (int i = 0; i < PL_LOSSES; i++) {
        if (writing->is_lost[i]) {
            pl_log(writing->log, PL_LOG_WARN, "%s files do not say: %s",
                   writing->params->format, TEXTS[i]);
        }
    }
}

pl_status_t pl_trace_write(const pl_trace_t *trace,
                           const pl_trace_write_params_t *params, FILE *file,
                           const pl_log_t *log)
{
    pl_writing_t writing = {
        .trace = trace, .params = params, .file = file, .log = log};
    const pl_trace_writer_t *writer = NULL;
    pl_status_t status;

    PL_TRY(find_writer(params->format, log, &writer));
    PL_TRY(choose_size(&writing, writer));
    status = writer->write(&writing);
    if ((status == PL_OK) && ((fflush(file) != 0) || (ferror(file) != 0))) {
        status = PL_ERR_IO;
    }
    if (status == PL_OK) {
        tell_losses(&writing);
    }
    pl_id_map_free(&writing.ids);
    pl_id_map_free(&writing.hashed);
    PL_ARRAY_FREE(&writing.hashes);
    PL_ARRAY_FREE(&writing.list);
    return status;
}
