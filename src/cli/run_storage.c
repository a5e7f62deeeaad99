#define _XOPEN_SOURCE 700 /* realpath */

#include "cli/run_storage.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/text.h"
#include "model/fingerprint.h"

/* ---- sizes ---- */

/* The pages of `bytes` per rank. */
static pl_status_t pages_in(const pl_run_storage_t *storage, const char *option,
                            int64_t bytes, int64_t page_bytes, int lanes,
                            int32_t *pages_p)
{
    int64_t pages = bytes / page_bytes;

    if ((pages < 1) || (pages > INT32_MAX / lanes)) {
        pl_log(storage->log, PL_LOG_ERROR,
               "option --%s: %" PRId64 " bytes are %" PRId64
               " pages of %" PRId64 " bytes; a rank can have 1 to %d",
               option, bytes, pages, page_bytes, INT32_MAX / lanes);
        return PL_ERR_ARGUMENT;
    }
    *pages_p = (int32_t)pages;
    return PL_OK;
}

/* What all prompts together can fill of one share, lanes being a little uneven:
 * a power of two, so that runs of traces alike have shares alike. */
static int32_t pages_of_trace(const pl_run_params_t *params)
{
    const pl_engine_source_t *source = &params->source;
    int64_t shares =
        pl_ownership_shares(params->engine.ownership, params->engine.n_prefill);
    int64_t total = 0;
    int64_t pages = 256;

    for (int32_t i = 0; i < source->count; i++) {
        total += source->request(source->context, i)->input_tokens /
                 params->engine.page_tokens;
    }
    total = total / shares + total / shares / 4;
    while ((pages < total) && (pages * 2 <= INT32_MAX / shares)) {
        pages *= 2;
    }
    return (int32_t)pages;
}

static bool is_sized(const pl_options_t *o)
{
    return (o->storage_gb > 0) || (o->storage_pages > 0);
}

pl_status_t pl_run_storage_sizes(pl_run_storage_t *storage,
                                 pl_run_params_t *params)
{
    const pl_options_t *o      = &storage->cli->options;
    pl_engine_config_t *engine = &params->engine;
    pl_engine_config_t counted = *engine;
    bool cost                  = o->executor == PL_OPT_EXECUTOR_COST;
    int64_t page_bytes;

    /* A run's memory holds its own pages, whatever a model's are. */
    pl_run_settle_bytes(params, &counted);
    page_bytes = cost ? counted.rank_page_bytes : pl_run_page_bytes(params);
    engine->prefetch                  = (pl_prefetch_t)o->prefetch_policy;
    engine->prefetch_threshold_tokens = (int32_t)o->prefetch_threshold;
    if (o->host_gb > 0) {
        PL_TRY(pages_in(storage, "host-gb", o->host_gb, page_bytes,
                        engine->n_prefill, &engine->host_pages));
    }
    storage->n_slots = pages_of_trace(params);
    if (o->storage_gb > 0) {
        PL_TRY(pages_in(storage, "storage-gb", o->storage_gb, page_bytes,
                        engine->n_prefill, &storage->n_slots));
    } else if (o->storage_pages > INT32_MAX / engine->n_prefill) {
        pl_log(storage->log, PL_LOG_ERROR,
               "option --storage-pages %" PRId64 ": a rank can have %d",
               o->storage_pages, INT32_MAX / engine->n_prefill);
        return PL_ERR_ARGUMENT;
    } else if (o->storage_pages > 0) {
        storage->n_slots = (int32_t)o->storage_pages;
    }
    if (cost && (is_sized(o) || (o->storage_pages == PL_OPTION_UNLIMITED))) {
        engine->storage_pages = storage->n_slots;
    }
    return PL_OK;
}

/* ---- whose pages ---- */

static const char *dtype_of(const pl_options_t *o)
{
    static const char *const DTYPES[] = {[PL_OPT_KV_F32]  = "f32",
                                         [PL_OPT_KV_BF16] = "bf16",
                                         [PL_OPT_KV_FP8]  = "fp8"};

    return o->executor == PL_OPT_EXECUTOR_MODEL ? DTYPES[o->kv_dtype] : "stamp";
}

/* Block ids become tokens by seed and vocabulary: keys are of ids.  Keys of
 * token files are of the tokens. */
static void describe_tokens(pl_run_storage_t *storage, const pl_trace_t *trace,
                            const pl_cli_model_t *model,
                            const pl_run_params_t *params)
{
    const pl_options_t *o           = &storage->cli->options;
    const pl_model_config_t *config = &model->config;
    size_t room                     = sizeof(storage->tokens);

    if (pl_trace_block_tokens(trace) == 0) {
        (void)snprintf(storage->tokens, room, "tokens");
    } else if (o->executor != PL_OPT_EXECUTOR_MODEL) {
        (void)snprintf(storage->tokens, room,
                       "blocks, seed %" PRId64 ", vocabulary %" PRId32, o->seed,
                       params->vocab_size);
    } else {
        uint64_t banned = pl_hash64(
            config->eos, (size_t)config->n_eos * sizeof(*config->eos), 0);

        (void)snprintf(storage->tokens, room,
                       "blocks, seed %" PRId64 ", vocabulary %" PRId32
                       " without %016" PRIx64,
                       o->seed, config->vocab_size, banned);
    }
}

/* Whatever digests and tokens come from besides the requests.  Where pages lie,
 * how large they are and who computes them is no part of it. */
static void describe_computation(pl_run_storage_t *storage,
                                 const pl_cli_model_t *model,
                                 const pl_run_params_t *params)
{
    const pl_model_config_t *config = &model->config;
    const pl_store_layout_t *layout = &storage->layout;
    const pl_tier_identity_t *pages = &storage->identity;
    char ends[PL_RUN_HASH_TEXT]     = "none";
    int32_t vocab_size              = params->vocab_size;

    if (storage->cli->options.executor == PL_OPT_EXECUTOR_MODEL) {
        vocab_size = config->vocab_size;
    }
    if (params->engine.stops) {
        pl_run_hash_text(pl_hash64(config->eos,
                                   (size_t)config->n_eos * sizeof(*config->eos),
                                   0),
                         ends);
    }
    (void)snprintf(storage->computation, sizeof(storage->computation),
                   "executor %s; model %s; dtype %s; %" PRId32
                   " layers; rows of %" PRId32 ", %" PRId32 " and %" PRId32
                   " bytes; prompts of %s; vocabulary of %" PRId32
                   " tokens; ends of sequence: %s",
                   params->executor, pages->model, pages->dtype,
                   layout->n_layers, layout->latent_row_bytes,
                   layout->index_key_bytes, layout->index_scale_bytes,
                   pages->tokens, vocab_size, ends);
}

static void describe(pl_run_storage_t *storage, const pl_trace_t *trace,
                     const pl_cli_model_t *model, const pl_run_params_t *params)
{
    const pl_options_t *o = &storage->cli->options;

    (void)snprintf(storage->model, sizeof(storage->model), "stamp");
    if (o->executor == PL_OPT_EXECUTOR_MODEL) {
        (void)snprintf(storage->model, sizeof(storage->model), "%s %016" PRIx64,
                       model->config.family == PL_FAMILY_GLM_MOE_DSA
                           ? "glm_moe_dsa"
                           : "deepseek_v32",
                       pl_model_fingerprint(&model->config, model->weights));
    }
    describe_tokens(storage, trace, model, params);
    storage->layout          = pl_run_layout(params);
    storage->identity.model  = storage->model;
    storage->identity.tokens = storage->tokens;
    storage->identity.dtype  = dtype_of(o);
    pl_tier_identity_layout(&storage->identity, &storage->layout);
    describe_computation(storage, model, params);
}

/* ---- rank 0: folders ---- */

static bool is_same(const char *a, const char *b)
{
    struct stat about_a, about_b;

    return (strcmp(a, b) == 0) ||
           ((stat(a, &about_a) == 0) && (stat(b, &about_b) == 0) &&
            (about_a.st_ino == about_b.st_ino) &&
            (about_a.st_dev == about_b.st_dev));
}

static pl_status_t copy_text(const char *text, char **copy_p)
{
    free(*copy_p);
    *copy_p = strdup(text);
    return *copy_p == NULL ? PL_ERR_MEMORY : PL_OK;
}

/* A snapshot names the folder of its run, if that had one. */
static pl_status_t find_folder_of(pl_run_storage_t *storage,
                                  const pl_snapshot_t *snapshot)
{
    const char *file = storage->cli->options.from;
    char *folder     = NULL;
    struct stat about;

    PL_TRY(pl_snapshot_text(snapshot, "/timing", "storage", &folder));
    if (*folder == '\0') {
        pl_log(storage->log, PL_LOG_WARN,
               "option --from %s: its run had no storage tier; there are no "
               "pages to start with",
               file);
    } else if ((stat(folder, &about) != 0) || !S_ISDIR(about.st_mode)) {
        pl_log(storage->log, PL_LOG_WARN,
               "option --from %s: its storage folder %s is gone; there are no "
               "pages to start with",
               file, folder);
    } else {
        storage->from = folder;
        return PL_OK;
    }
    free(folder);
    return PL_OK;
}

static pl_status_t open_snapshot(pl_run_storage_t *storage, int32_t n_requests)
{
    const pl_options_t *o   = &storage->cli->options;
    pl_snapshot_t *snapshot = NULL;
    pl_status_t status;

    PL_TRY(pl_snapshot_open(o->from, storage->log, &snapshot));
    status = find_folder_of(storage, snapshot);
    if ((status == PL_OK) && o->resume) {
        pl_run_work_t work = {storage->hash, storage->computation, n_requests};

        status = pl_run_prior_read(snapshot, &work, &storage->prior);
    }
    pl_snapshot_close(snapshot);
    return status;
}

static pl_status_t find_from(pl_run_storage_t *storage, int32_t n_requests)
{
    const char *from = storage->cli->options.from;
    struct stat about;

    if (from == NULL) {
        return PL_OK;
    }
    if (stat(from, &about) != 0) {
        pl_log(storage->log, PL_LOG_ERROR,
               "option --from %s: there is no such folder or snapshot", from);
        return PL_ERR_INPUT;
    }
    return S_ISDIR(about.st_mode) ? copy_text(from, &storage->from)
                                  : open_snapshot(storage, n_requests);
}

static pl_status_t check_folders(const pl_run_storage_t *storage)
{
    const char *folder = storage->cli->options.storage;

    if (folder == NULL) {
        return PL_OK;
    }
    if ((storage->from != NULL) && !is_same(folder, storage->from)) {
        pl_log(storage->log, PL_LOG_ERROR,
               "option --storage %s: a tier goes on in its own folder, and "
               "--from is %s; copy the folder first, and name the copy twice",
               folder, storage->from);
        return PL_ERR_ARGUMENT;
    }
    if ((storage->from == NULL) && pl_tier_exists(folder)) {
        pl_log(storage->log, PL_LOG_ERROR,
               "option --storage %s: the folder holds a storage tier; add "
               "--from %s to start with it, or name an empty folder",
               folder, folder);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

/* ---- rank 0: what a folder holds ---- */

static pl_status_t read_folder(pl_run_storage_t *storage, const char *folder,
                               int32_t n_prefill)
{
    bool free_size             = !is_sized(&storage->cli->options);
    pl_tier_content_t *content = &storage->content;

    PL_TRY(pl_tier_read(folder, &storage->identity, n_prefill, storage->n_slots,
                        storage->log, content));
    if (!free_size || (content->mismatch != NULL) ||
        (content->n_ranks != n_prefill) ||
        (content->n_slots == storage->n_slots) ||
        ((content->n_slots < storage->n_slots) && !storage->read_only)) {
        return PL_OK;
    }
    /* No size was asked for: go on with the set that is there. */
    storage->n_slots = content->n_slots;
    pl_tier_content_free(content);
    *content = (pl_tier_content_t){0};
    return pl_tier_read(folder, &storage->identity, n_prefill, storage->n_slots,
                        storage->log, content);
}

/* Pages of all sets that the tier may keep; 0: as many as there are places. */
static int64_t bound_of(const pl_run_storage_t *storage, int n_prefill)
{
    return is_sized(&storage->cli->options) && !storage->read_only
               ? (int64_t)storage->n_slots * n_prefill
               : 0;
}

static void say_dropped(const pl_run_storage_t *storage, const char *folder,
                        int64_t bound)
{
    int64_t n = storage->content.start.n_entries;

    if (storage->in_use && (bound > 0) && (n > bound)) {
        pl_log(storage->log, PL_LOG_WARN,
               "storage %s: it holds %" PRId64 " page%s, %" PRId64
               " fit: the %" PRId64 " least recently used are dropped",
               folder, n, pl_text_s(n), bound, n - bound);
    }
}

/* Says what cannot be used; is there a tier at all? */
static bool judge(const pl_run_storage_t *storage, const char *folder)
{
    const pl_tier_content_t *content = &storage->content;

    if (content->is_foreign) {
        pl_log(storage->log, PL_LOG_WARN,
               "storage %s: %s; the run goes on without it%s", folder,
               content->mismatch,
               storage->read_only ? "" : ", and stores nothing");
        return false;
    }
    if ((content->mismatch != NULL) && (storage->from != NULL)) {
        pl_log(storage->log, PL_LOG_WARN,
               "storage %s: %s; there are no pages to start with", folder,
               content->mismatch);
    }
    return !storage->read_only || (content->start.n_entries > 0);
}

/* --resume with a folder: requests that its last publication names. */
static pl_status_t resume(pl_run_storage_t *storage, int32_t n_requests)
{
    const pl_tier_content_t *content = &storage->content;
    const char *from                 = storage->cli->options.from;

    if (!storage->cli->options.resume || (storage->prior.finished != NULL)) {
        return PL_OK;
    }
    if (content->mismatch != NULL) {
        pl_log(storage->log, PL_LOG_ERROR,
               "options --from %s --resume: %s; leave --resume out", from,
               content->mismatch);
        return PL_ERR_INPUT;
    }
    if ((content->trace != storage->trace) ||
        (content->n_requests != n_requests)) {
        pl_log(storage->log, PL_LOG_ERROR,
               "options --from %s --resume: it is of other requests, or what "
               "answers them is another; give the same trace, limits, seed, "
               "executor and model, or leave --resume out",
               from);
        return PL_ERR_INPUT;
    }
    return pl_run_prior_take(content->finished, n_requests, &storage->prior);
}

/* A disk that fails now is one that fails later: what is there can be read. */
static pl_status_t prepare(pl_run_storage_t *storage, const char *folder)
{
    pl_status_t status = PL_OK;

    if (!storage->read_only) {
        status = pl_tier_prepare(folder, storage->files->ranks[0], storage->log,
                                 &storage->lock);
        storage->read_only = status == PL_ERR_IO;
    }
    return status == PL_ERR_IO ? PL_OK : status;
}

static pl_status_t open_folder(pl_run_storage_t *storage,
                               const pl_run_params_t *params)
{
    const char *folder = storage->cli->options.storage;

    PL_TRY(find_from(storage, params->source.count));
    PL_TRY(check_folders(storage));
    storage->read_only = folder == NULL;
    folder             = folder != NULL ? folder : storage->from;
    if (folder == NULL) {
        return PL_OK;
    }
    PL_TRY(prepare(storage, folder));
    PL_TRY(read_folder(storage, folder, params->engine.n_prefill));
    PL_TRY(resume(storage, params->source.count));
    storage->in_use = judge(storage, folder);
    say_dropped(storage, folder, bound_of(storage, params->engine.n_prefill));
    storage->absolute = realpath(folder, NULL);
    storage->place    = storage->in_use ? storage->absolute : NULL;
    return storage->absolute == NULL ? PL_ERR_MEMORY : PL_OK;
}

/* ---- to all ranks ---- */

typedef struct told {
    int64_t next_stamp;
    int32_t in_use, read_only;
    int32_t n_entries, own_set, n_slots;
    char folder[PATH_MAX];
} told_t;

static pl_status_t make_room(pl_run_storage_t *storage, const told_t *told)
{
    pl_storage_entry_t *entries =
        calloc((size_t)told->n_entries + 1, sizeof(*entries));

    if (entries == NULL) {
        return PL_ERR_MEMORY;
    }
    storage->content.start.entries = entries;
    return copy_text(told->folder, &storage->absolute);
}

static pl_status_t tell(pl_run_storage_t *storage, pl_comm_t *comm)
{
    pl_storage_start_t *start = &storage->content.start;
    told_t told               = {.next_stamp = start->next_stamp,
                                 .in_use     = storage->in_use ? 1 : 0,
                                 .read_only  = storage->read_only ? 1 : 0,
                                 .n_entries  = start->n_entries,
                                 .own_set    = start->own_set,
                                 .n_slots    = storage->n_slots};

    if (comm == NULL) {
        return PL_OK;
    }
    if (storage->absolute != NULL) {
        (void)snprintf(told.folder, sizeof(told.folder), "%s",
                       storage->absolute);
    }
    PL_TRY(pl_comm_broadcast(comm, 0, &told, sizeof(told)));
    PL_TRY(pl_run_prior_tell(&storage->prior, comm));
    if (told.in_use == 0) {
        return PL_OK;
    }
    PL_TRY(pl_comm_agree_status(
        comm, comm->rank == 0 ? PL_OK : make_room(storage, &told)));
    start->n_entries   = told.n_entries;
    start->own_set     = told.own_set;
    start->next_stamp  = told.next_stamp;
    storage->in_use    = true;
    storage->read_only = told.read_only != 0;
    storage->n_slots   = told.n_slots;
    return pl_comm_broadcast(comm, 0, (void *)(uintptr_t)start->entries,
                             (size_t)told.n_entries * sizeof(*start->entries));
}

/* ---- doors ---- */

static pl_status_t open_door(void *context, int rank,
                             pl_storage_door_t **door_p)
{
    pl_run_storage_t *storage = context;
    pl_tier_params_t params   = {.folder    = storage->absolute,
                                 .identity  = storage->identity,
                                 .own_set   = storage->content.start.own_set,
                                 .n_ranks   = storage->n_prefill,
                                 .n_slots   = storage->n_slots,
                                 .read_only = storage->read_only,
                                 .rank      = rank,
                                 .trace     = storage->trace,
                                 .files     = storage->files->ranks[rank],
                                 .inject    = &storage->inject,
                                 .log       = &storage->cli->log};

    return pl_tier_open(&params, door_p);
}

static void fill_params(pl_run_storage_t *storage, pl_run_params_t *params)
{
    if (storage->prior.finished != NULL) {
        params->engine.skip = storage->prior.finished;
        params->prior =
            storage->prior.has_results ? &storage->prior.view : NULL;
    }
    if (!storage->in_use) {
        return;
    }
    storage->opener              = (pl_storage_opener_t){open_door, storage};
    params->storage              = &storage->opener;
    params->engine.storage_pages = storage->n_slots;
    params->engine.storage_bound = bound_of(storage, storage->n_prefill);
    params->engine.storage_read_only = storage->read_only;
    params->engine.storage_start     = &storage->content.start;
}

/* Rank 0: which requests, and what answers them, for whoever resumes. */
static void name_work(pl_run_storage_t *storage, const pl_run_params_t *params)
{
    uint64_t requests = pl_run_requests_hash(&params->source, &params->prompts);

    pl_run_hash_text(requests, storage->hash);
    storage->requests = storage->hash;
    storage->trace =
        pl_hash64(storage->computation, strlen(storage->computation), requests);
    if (storage->trace == 0) {
        storage->trace = 1; /* 0 says "none" */
    }
}

pl_status_t pl_run_storage_open(pl_run_storage_t *storage,
                                const pl_trace_t *trace,
                                const pl_cli_model_t *model, pl_comm_t *comm,
                                pl_run_params_t *params)
{
    const pl_options_t *o = &storage->cli->options;
    int rank              = comm == NULL ? 0 : comm->rank;
    pl_status_t status    = PL_OK;

    if ((o->snapshot == NULL) && (o->storage == NULL) && (o->from == NULL)) {
        return PL_OK;
    }
    describe(storage, trace, model, params);
    if (rank == 0) {
        name_work(storage, params);
    }
    if ((o->storage == NULL) && (o->from == NULL)) {
        return PL_OK;
    }
    storage->inject    = params->inject;
    storage->n_prefill = params->engine.n_prefill;
    if (rank == 0) {
        status = open_folder(storage, params);
    }
    if (comm != NULL) {
        status = pl_comm_agree_status(comm, status);
    }
    PL_TRY(status);
    PL_TRY(tell(storage, comm));
    fill_params(storage, params);
    return PL_OK;
}

int64_t pl_run_storage_started(const pl_run_storage_t *storage)
{
    return storage->in_use ? storage->content.start.n_entries : 0;
}

void pl_run_storage_close(pl_run_storage_t *storage)
{
    pl_tier_content_free(&storage->content);
    pl_run_prior_free(&storage->prior);
    pl_tier_release(storage->lock);
    free(storage->from);
    free(storage->absolute);
}
