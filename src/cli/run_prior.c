#include "cli/run_prior.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* ---- whose requests ---- */

enum { HASHED_PAGE = 64, HASHED_KEYS = 256 };

static uint64_t fold_prompt(uint64_t h, const pl_engine_source_t *source,
                            const pl_token_reader_t *prompts, int32_t i,
                            int32_t n_tokens)
{
    int32_t n    = n_tokens / HASHED_PAGE;
    int32_t rest = n_tokens % HASHED_PAGE;
    int32_t tokens[HASHED_PAGE];
    pl_page_key_t keys[HASHED_KEYS];

    for (int32_t at = 0; at < n; at += HASHED_KEYS) {
        int32_t some = n - at < HASHED_KEYS ? n - at : HASHED_KEYS;

        source->page_keys(source->context, i, HASHED_PAGE, at, some, keys);
        h = pl_hash64(keys, (size_t)some * sizeof(*keys), h);
    }
    prompts->read(prompts->context, i, n * HASHED_PAGE, rest, tokens);
    return pl_hash64(tokens, (size_t)rest * sizeof(*tokens), h);
}

uint64_t pl_run_requests_hash(const pl_engine_source_t *source,
                              const pl_token_reader_t *prompts)
{
    uint64_t h = pl_fold64(0, (uint64_t)source->count);

    for (int32_t i = 0; i < source->count; i++) {
        const pl_request_t *request = source->request(source->context, i);

        h = pl_fold64(h, (uint64_t)request->input_tokens);
        h = pl_fold64(h, (uint64_t)request->output_tokens);
        h = pl_fold64(h, request->name_space);
        h = fold_prompt(h, source, prompts, i, request->input_tokens);
    }
    return h != 0 ? h : 1; /* 0 says "none" */
}

void pl_run_hash_text(uint64_t hash, char text[PL_RUN_HASH_TEXT])
{
    (void)snprintf(text, PL_RUN_HASH_TEXT, "%016" PRIx64, hash);
}

/* ---- memory ---- */

static void make_view(pl_run_prior_t *prior)
{
    prior->view =
        (pl_run_results_t){.n_requests    = prior->n_requests,
                           .digests       = prior->digests,
                           .has_digest    = prior->digests + prior->n_requests,
                           .token_offsets = prior->offsets,
                           .tokens        = prior->tokens};
}

static pl_status_t make_room(pl_run_prior_t *prior, int32_t n_requests)
{
    size_t n          = (size_t)n_requests;
    prior->n_requests = n_requests;
    prior->finished   = calloc(n + 1, sizeof(*prior->finished));
    prior->digests    = calloc(2 * n + 1, sizeof(*prior->digests));
    prior->offsets    = calloc(n + 1, sizeof(*prior->offsets));
    return (prior->finished == NULL) || (prior->digests == NULL) ||
                   (prior->offsets == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

static pl_status_t make_tokens(pl_run_prior_t *prior)
{
    size_t n = (size_t)prior->offsets[prior->n_requests];

    prior->tokens = calloc(n + 1, sizeof(*prior->tokens));
    if (prior->tokens == NULL) {
        return PL_ERR_MEMORY;
    }
    make_view(prior);
    return PL_OK;
}

void pl_run_prior_free(pl_run_prior_t *prior)
{
    free(prior->finished);
    free(prior->digests);
    free(prior->offsets);
    free(prior->tokens);
    *prior = (pl_run_prior_t){0};
}

/* ---- from a snapshot ---- */

typedef struct columns {
    pl_snapshot_column_t finished_ns, failed, skipped, digests, offsets, tokens;
} columns_t;

static void free_columns(columns_t *columns)
{
    pl_snapshot_column_free(&columns->finished_ns);
    pl_snapshot_column_free(&columns->failed);
    pl_snapshot_column_free(&columns->skipped);
    pl_snapshot_column_free(&columns->digests);
    pl_snapshot_column_free(&columns->offsets);
    pl_snapshot_column_free(&columns->tokens);
}

static pl_status_t read_columns(const pl_snapshot_t *snapshot, size_t n,
                                columns_t *c)
{
    PL_TRY(pl_snapshot_read(snapshot, "/requests/finished_ns", PL_ITEM_I64, n,
                            0, &c->finished_ns));
    PL_TRY(pl_snapshot_read(snapshot, "/requests/failed", PL_ITEM_U8, n, 0,
                            &c->failed));
    PL_TRY(pl_snapshot_read(snapshot, "/requests/skipped", PL_ITEM_U8, n, 0,
                            &c->skipped));
    PL_TRY(pl_snapshot_read(snapshot, "/requests/digest", PL_ITEM_U64, n, 0,
                            &c->digests));
    PL_TRY(pl_snapshot_read(snapshot, "/requests/tokens", PL_ITEM_I32,
                            PL_ANY_ROWS, 0, &c->tokens));
    return pl_snapshot_read_offsets(snapshot, "/requests/tokens_offset", n,
                                    c->tokens.rows, &c->offsets);
}

static pl_status_t take_columns(const columns_t *c, int32_t n_requests,
                                pl_run_prior_t *prior)
{
    PL_TRY(make_room(prior, n_requests));
    for (int32_t i = 0; i < n_requests; i++) {
        bool finished =
            (c->skipped.items[i] != 0) ||
            ((c->finished_ns.items[i] >= 0) && (c->failed.items[i] == 0));
        int64_t n = c->offsets.items[i + 1] - c->offsets.items[i];

        prior->finished[i]    = finished ? 1 : 0;
        prior->offsets[i + 1] = prior->offsets[i] + (finished ? n : 0);
        if (finished && (c->digests.items[i] != 0)) {
            prior->has_results             = true;
            prior->digests[i]              = (uint64_t)c->digests.items[i];
            prior->digests[n_requests + i] = 1;
        }
    }
    PL_TRY(make_tokens(prior));
    for (int32_t i = 0; i < n_requests; i++) {
        int64_t from = c->offsets.items[i];

        for (int64_t t = prior->offsets[i]; t < prior->offsets[i + 1]; t++) {
            prior->tokens[t] =
                (int32_t)c->tokens.items[from + t - prior->offsets[i]];
        }
    }
    return PL_OK;
}

static pl_status_t check_requests(const pl_snapshot_t *snapshot,
                                  const char *requests)
{
    char *of = NULL;
    bool same;

    PL_TRY(pl_snapshot_text(snapshot, "/timing", "requests", &of));
    same = strcmp(of, requests) == 0;
    free(of);
    return same ? PL_OK
                : pl_snapshot_refuse(
                      snapshot, "/timing",
                      "--resume: it is of other requests; give the same trace, "
                      "limits and seed, or leave --resume out");
}

static size_t part_length(const char *part)
{
    const char *end = strstr(part, "; ");

    return end == NULL ? strlen(part) : (size_t)(end - part);
}

/* Where the first part begins in which two texts differ. */
static size_t first_difference(const char *a, const char *b)
{
    size_t part = 0;

    for (size_t i = 0; (a[i] != '\0') && (a[i] == b[i]); i++) {
        if ((a[i] == ';') && (a[i + 1] == ' ')) {
            part = i + 2;
        }
    }
    return part;
}

static pl_status_t check_computation(const pl_snapshot_t *snapshot,
                                     const char *computation)
{
    char *of           = NULL;
    pl_status_t status = PL_OK;

    PL_TRY(pl_snapshot_text(snapshot, "/timing", "computation", &of));
    if (strcmp(of, computation) != 0) {
        size_t at          = first_difference(of, computation);
        const char *theirs = of + at;
        const char *ours   = computation + at;

        status = pl_snapshot_refuse(
            snapshot, "/timing",
            "--resume: its results are not what this run computes (%.*s, here "
            "%.*s); give the same options, or leave --resume out",
            (int)part_length(theirs), theirs, (int)part_length(ours), ours);
    }
    free(of);
    return status;
}

pl_status_t pl_run_prior_read(const pl_snapshot_t *snapshot,
                              const pl_run_work_t *work, pl_run_prior_t *prior)
{
    columns_t columns = {0};
    pl_status_t status;

    PL_TRY(check_requests(snapshot, work->requests));
    PL_TRY(check_computation(snapshot, work->computation));
    status = read_columns(snapshot, (size_t)work->n_requests, &columns);
    if (status == PL_OK) {
        status = take_columns(&columns, work->n_requests, prior);
    }
    free_columns(&columns);
    return status;
}

pl_status_t pl_run_prior_take(const uint8_t *finished, int32_t n_requests,
                              pl_run_prior_t *prior)
{
    PL_TRY(make_room(prior, n_requests));
    for (int32_t i = 0; i < n_requests; i++) {
        prior->finished[i] = finished[i] != 0 ? 1 : 0;
    }
    return make_tokens(prior);
}

/* ---- to all ranks ---- */

typedef struct told {
    int64_t n_tokens;
    int32_t n_requests; /* -1: there is nothing */
    int32_t has_results;
} told_t;

pl_status_t pl_run_prior_tell(pl_run_prior_t *prior, pl_comm_t *comm)
{
    bool mine   = (comm == NULL) || (comm->rank == 0);
    told_t told = {.n_requests = -1};
    size_t n;

    if (mine && (prior->finished != NULL)) {
        told = (told_t){.n_tokens    = prior->offsets[prior->n_requests],
                        .n_requests  = prior->n_requests,
                        .has_results = prior->has_results ? 1 : 0};
    }
    if (comm == NULL) {
        return PL_OK;
    }
    PL_TRY(pl_comm_broadcast(comm, 0, &told, sizeof(told)));
    if (told.n_requests < 0) {
        return PL_OK;
    }
    n = (size_t)told.n_requests;
    PL_TRY(pl_comm_agree_status(
        comm, mine ? PL_OK : make_room(prior, told.n_requests)));
    PL_TRY(pl_comm_broadcast(comm, 0, prior->finished, n));
    PL_TRY(pl_comm_broadcast(comm, 0, prior->digests,
                             2 * n * sizeof(*prior->digests)));
    PL_TRY(pl_comm_broadcast(comm, 0, prior->offsets,
                             (n + 1) * sizeof(*prior->offsets)));
    prior->has_results = told.has_results != 0;
    PL_TRY(pl_comm_agree_status(comm, mine ? PL_OK : make_tokens(prior)));
    return pl_comm_broadcast(comm, 0, prior->tokens,
                             (size_t)told.n_tokens * sizeof(*prior->tokens));
}
