#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/event_log.h"
#include "sim/detail.h"

enum { LARGEST_CONFIG = 1 << 20 };

static pl_option_result_t bad_config(pl_status_t status, const char *file,
                                     const char *why)
{
    return pl_option_bad(status, "option --config: cannot read %.200s: %s",
                         file, why);
}

/* The whole file as a string; the caller frees it. */
static pl_option_result_t read_config(const char *path, char **text_p)
{
    pl_option_result_t result = {0};
    FILE *file                = fopen(path, "rb");
    char *text                = NULL;
    size_t n;

    if (file == NULL) {
        return bad_config(PL_ERR_INPUT, path, strerror(errno));
    }
    text = malloc(LARGEST_CONFIG + 1);
    if (text == NULL) {
        result = bad_config(PL_ERR_MEMORY, path, "out of memory");
        goto close_file;
    }
    n = fread(text, 1, LARGEST_CONFIG + 1, file);
    if (ferror(file)) {
        result = bad_config(PL_ERR_INPUT, path, strerror(errno));
        goto free_text;
    }
    if ((n > LARGEST_CONFIG) || (memchr(text, '\0', n) != NULL)) {
        result =
            bad_config(PL_ERR_INPUT, path, "expected a text of at most 1 MiB");
        goto free_text;
    }
    text[n] = '\0';
    *text_p = text;
    text    = NULL;

free_text:
    free(text);
close_file:
    (void)fclose(file);
    return result;
}

/* Every layer; the file's only if config_text is given. */
static pl_option_result_t
apply(uint32_t verb, int argc, const char *const *argv,
      const char *const *environment, const char *config_path,
      const char *config_text, pl_options_t *options, pl_option_words_t *words)
{
    const pl_option_table_t *table = pl_options_table();
    pl_option_result_t result      = pl_option_defaults(table, options);
    pl_option_result_t arguments;

    if ((result.verdict == PL_OPTION_OKAY) && (config_text != NULL)) {
        result = pl_option_config(table, config_path, config_text, options);
    }
    if (result.verdict == PL_OPTION_OKAY) {
        result = pl_option_environment(table, verb, environment, options);
    }
    if (result.verdict == PL_OPTION_OKAY) {
        words->n = 0;
        arguments =
            pl_option_arguments(table, verb, argc, argv, options, words);
        if (arguments.verdict != PL_OPTION_OKAY) {
            return arguments;
        }
    }
    return result; /* okay, with the environment's warning */
}

pl_option_result_t pl_options_load(uint32_t verb, int argc,
                                   const char *const *argv,
                                   const char *const *environment,
                                   pl_options_t *options,
                                   pl_option_words_t *words)
{
    char *path = NULL;
    char *text = NULL;
    pl_option_result_t result;

    /* Once without the file, to learn its name. */
    result = apply(verb, argc, argv, environment, NULL, NULL, options, words);
    if ((result.verdict != PL_OPTION_OKAY) || (options->config == NULL)) {
        return result;
    }
    path = strdup(options->config);
    if (path == NULL) {
        return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
    }
    result = read_config(path, &text);
    if (result.verdict == PL_OPTION_OKAY) {
        result =
            apply(verb, argc, argv, environment, path, text, options, words);
    }
    free(text);
    free(path);
    return result;
}

void pl_options_free(pl_options_t *options)
{
    pl_option_free(pl_options_table(), options);
}

/* Checks that need more than one option. */

pl_status_t pl_options_check_ranks(const pl_options_t *o, const pl_log_t *log)
{
    int64_t prefill = o->ranks - o->decode_ranks;

    if (o->decode_ranks >= o->ranks) {
        pl_log(log, PL_LOG_ERROR,
               "option --decode-ranks %" PRId64 ": of %" PRId64
               " rank%s at least one must be left for prefill; use fewer, or "
               "--ranks %" PRId64 " or more",
               o->decode_ranks, o->ranks, pl_text_s(o->ranks),
               o->decode_ranks + 1);
        return PL_ERR_ARGUMENT;
    }
    if (o->decode_ranks > PL_MAX_RANKS) {
        pl_log(log, PL_LOG_ERROR,
               "option --decode-ranks %" PRId64
               ": at most %d are possible; use fewer",
               o->decode_ranks, PL_MAX_RANKS);
        return PL_ERR_ARGUMENT;
    }
    if (prefill > PL_MAX_RANKS) {
        pl_log(log, PL_LOG_ERROR,
               "option --ranks %" PRId64 ": %" PRId64
               " prefill ranks are more than %d; use --ranks %" PRId64
               ", or set more apart with --decode-ranks",
               o->ranks, prefill, PL_MAX_RANKS, o->decode_ranks + PL_MAX_RANKS);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t check_chunk(const pl_options_t *o, const pl_log_t *log)
{
    int64_t below = o->chunk - o->chunk % o->page_size;

    if (below == o->chunk) {
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --chunk %" PRId64
           ": must be a multiple of the page size, %" PRId64
           " tokens; use --chunk %" PRId64 ", or another --page-size",
           o->chunk, o->page_size, below == 0 ? o->page_size : below);
    return PL_ERR_ARGUMENT;
}

/* Pages of one tier over all its lanes are numbered by an int32. */
static pl_status_t check_pool(const pl_options_t *o, const char *name,
                              int64_t pages, int64_t lanes, const pl_log_t *log)
{
    if ((pages == PL_OPTION_UNLIMITED) &&
        (o->executor != PL_OPT_EXECUTOR_COST)) {
        pl_log(log, PL_LOG_ERROR,
               "option --%s unlimited: only --executor cost, which stores no "
               "bytes, has pools without end; give a number of pages",
               name);
        return PL_ERR_ARGUMENT;
    }
    if ((pages == PL_OPTION_FIT) &&
        ((o->hardware == NULL) || (o->executor != PL_OPT_EXECUTOR_COST))) {
        pl_log(log, PL_LOG_ERROR,
               "option --%s fit: into which memory? it takes --hardware and "
               "--model, and an executor without bytes (`sim`, --executor "
               "cost); give a number of pages",
               name);
        return PL_ERR_ARGUMENT;
    }
    if (pages > INT32_MAX / lanes) {
        pl_log(log, PL_LOG_ERROR,
               "option --%s %" PRId64 ": %" PRId64
               " ranks together may have %d pages; use %" PRId64 " or fewer",
               name, pages, lanes, INT32_MAX, INT32_MAX / lanes);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_options_check_ownership(pl_options_t *o, const pl_log_t *log)
{
    if (pl_ownership_parse(o->ownership_text, &o->ownership) != PL_OK) {
        pl_log(log, PL_LOG_ERROR,
               "option --ownership: cannot use '%.80s'; expected zigzag, "
               "round-robin, interleave:K with K of at least 1, replicated, or "
               "layer",
               o->ownership_text);
        return PL_ERR_ARGUMENT;
    }
    if ((o->ownership.kind == PL_OWNERSHIP_LAYER) && !o->simulates) {
        pl_log(log, PL_LOG_ERROR,
               "option --ownership layer: a run moves whole pages; simulate it "
               "with pagelane sim, or give another rule");
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t check_events(pl_options_t *o, const pl_log_t *log)
{
    static const char RING[] = "ring:";
    const char *text         = o->events_text;
    const char *digits       = text + strlen(RING);
    int64_t n                = 0;
    int end                  = 0;

    if (strcmp(text, "off") == 0) {
        o->most_events = 0;
        return PL_OK;
    }
    if (strcmp(text, "all") == 0) {
        o->most_events = PL_EVENTS_ALL;
        return PL_OK;
    }
    if ((strncmp(text, RING, strlen(RING)) == 0) && (*digits >= '0') &&
        (*digits <= '9') &&
        (sscanf(digits, "%10" SCNd64 "%n", &n, &end) == 1) &&
        (digits[end] == '\0') && (n >= 1) && (n <= INT32_MAX)) {
        o->most_events = n;
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --events: cannot use '%.80s'; expected off, all or ring:N "
           "with N from 1 to %d events",
           text, INT32_MAX);
    return PL_ERR_ARGUMENT;
}

/* "1000req", "30s", "500ms". */
static bool read_period(const char *text, int64_t *requests_p, int64_t *ns_p)
{
    static const struct {
        const char *name;
        int64_t requests, ns;
    } UNITS[] = {{"req", 1, 0}, {"ms", 0, 1000000}, {"s", 0, 1000000000}};
    int64_t n = 0;
    int end   = 0;

    if ((*text < '0') || (*text > '9') ||
        (sscanf(text, "%9" SCNd64 "%n", &n, &end) != 1) || (n < 1)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (strcmp(text + end, UNITS[i].name) == 0) {
            *requests_p = n * UNITS[i].requests;
            *ns_p       = n * UNITS[i].ns;
            return true;
        }
    }
    return false;
}

static pl_status_t check_snapshots(pl_options_t *o, const pl_log_t *log)
{
    if (o->snapshot_every == NULL) {
        return PL_OK;
    }
    if (!read_period(o->snapshot_every, &o->snapshot_every_requests,
                     &o->snapshot_every_ns)) {
        pl_log(log, PL_LOG_ERROR,
               "option --snapshot-every: cannot use '%.80s'; expected finished "
               "requests or a time, as 1000req, 30s or 500ms",
               o->snapshot_every);
        return PL_ERR_ARGUMENT;
    }
    if (o->snapshot == NULL) {
        pl_log(log, PL_LOG_ERROR,
               "option --snapshot-every %s: where to? name the last snapshot "
               "with --snapshot, the others stand beside it",
               o->snapshot_every);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

/* Which executor, and what only a model can be given. */
static pl_status_t check_executor(pl_options_t *o, const pl_log_t *log)
{
    bool model;

    if (o->executor == PL_OPT_EXECUTOR_AUTO) {
        o->executor =
            o->model != NULL ? PL_OPT_EXECUTOR_MODEL : PL_OPT_EXECUTOR_STAMP;
    }
    model = o->executor == PL_OPT_EXECUTOR_MODEL;
    if (model && (o->model == NULL)) {
        pl_log(log, PL_LOG_ERROR,
               "option --executor model: which one? name its folder with "
               "--model");
        return PL_ERR_ARGUMENT;
    }
    if ((o->executor == PL_OPT_EXECUTOR_STAMP) && (o->model != NULL) &&
        (o->hardware == NULL)) {
        pl_log(log, PL_LOG_ERROR,
               "option --model: --executor stamp computes none; leave one of "
               "them out");
        return PL_ERR_ARGUMENT;
    }
    if (!model && ((o->weights != NULL) || (o->expect != NULL))) {
        pl_log(log, PL_LOG_ERROR,
               "option --%s: only a model has use for it; add --model, or "
               "leave it out",
               o->weights != NULL ? "weights" : "expect");
        return PL_ERR_ARGUMENT;
    }
    if (o->stamp_row_bytes % 4 != 0) {
        pl_log(log, PL_LOG_ERROR,
               "option --stamp-row-bytes %" PRId64
               ": must be a multiple of 4; use %" PRId64,
               o->stamp_row_bytes, o->stamp_row_bytes / 4 * 4 + 4);
        return PL_ERR_ARGUMENT;
    }
    if ((o->expect != NULL) && (o->kv_dtype != PL_OPT_KV_F32)) {
        pl_log(log, PL_LOG_ERROR,
               "option --expect: the reference is float32; use --kv-dtype f32");
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

/* Is the option as if it had not been given? */
static bool is_default(const pl_options_t *o, const char *name)
{
    const pl_option_table_t *table = pl_options_table();
    bool same                      = false;

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];
        char *text                = NULL;

        if ((strcmp(option->name, name) == 0) &&
            (pl_option_value_text(option, o, &text) == PL_OK)) {
            same = strcmp(text, option->fallback) == 0;
            free(text);
        }
    }
    return same;
}

/* Both ways to say how large a tier is. */
static pl_status_t check_size(const pl_options_t *o, const char *name,
                              int64_t bytes, const pl_log_t *log)
{
    char pages[32];

    (void)snprintf(pages, sizeof(pages), "%s-pages", name);
    if ((bytes > 0) && !is_default(o, pages)) {
        pl_log(
            log, PL_LOG_ERROR,
            "options --%s-pages and --%s-gb: both say how large the tier is; "
            "leave one of them out",
            name, name);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t refuse(const pl_log_t *log, const char *text)
{
    pl_log(log, PL_LOG_ERROR, "%s", text);
    return PL_ERR_ARGUMENT;
}

static pl_status_t check_storage(const pl_options_t *o, const pl_log_t *log)
{
    bool sized = (o->storage_pages != 0) || (o->storage_gb > 0);
    bool cost  = o->executor == PL_OPT_EXECUTOR_COST;
    bool host  = (o->host_pages != 0) || (o->host_gb > 0);

    PL_TRY(check_size(o, "host", o->host_gb, log));
    PL_TRY(check_size(o, "storage", o->storage_gb, log));
    if (cost && ((o->storage != NULL) || (o->from != NULL))) {
        return refuse(log, "options --storage and --from: --executor cost "
                           "moves no bytes; give --storage-pages or "
                           "--storage-gb alone");
    }
    if (!cost && sized && (o->storage == NULL)) {
        return refuse(log, "options --storage-pages and --storage-gb: where "
                           "to? name a folder with --storage");
    }
    if (!host && (sized || (o->storage != NULL) || (o->from != NULL))) {
        return refuse(log, "option --host-pages 0: pages go to storage and "
                           "back through the host tier; give it some, or leave "
                           "the storage options out");
    }
    if (o->resume && (o->from == NULL)) {
        return refuse(log, "option --resume: go on with what? name a storage "
                           "folder or a snapshot with --from");
    }
    return PL_OK;
}

static pl_status_t check_hardware(const pl_options_t *o, const pl_log_t *log)
{
    bool is_cuda = o->device == PL_OPT_DEVICE_CUDA;

    if (is_cuda &&
        ((o->comm == PL_OPT_COMM_LOCAL) || (o->comm == PL_OPT_COMM_MPI))) {
        return refuse(log, "option --device cuda: --comm local and mpi move "
                           "host memory; use --comm auto, peer or nccl");
    }
    if (!is_cuda && (o->comm == PL_OPT_COMM_NCCL)) {
        return refuse(log, "option --comm nccl: it moves memory of GPUs; give "
                           "--device cuda, or use --comm peer");
    }
    return PL_OK;
}

pl_status_t pl_options_read_slo(pl_options_t *o, const pl_log_t *log)
{
    pl_slo_t slo = {0};

    if ((o->slo_text != NULL) && !pl_slo_parse(o->slo_text, &slo)) {
        pl_log(log, PL_LOG_ERROR,
               "option --slo: cannot use '%.80s'; expected limits of ttft, "
               "tpot or e2e in ms, s or min, such as ttft:2s,tpot:50ms",
               o->slo_text);
        return PL_ERR_ARGUMENT;
    }
    o->slo_ttft_ns = slo.ttft_ns;
    o->slo_tpot_ns = slo.tpot_ns;
    o->slo_e2e_ns  = slo.e2e_ns;
    return PL_OK;
}

/* Whose time is taken, and what it is held against. */
static pl_status_t check_times(pl_options_t *o, const pl_log_t *log)
{
    if ((o->hardware != NULL) && (o->model == NULL)) {
        return refuse(log, "option --hardware: what does it compute? name the "
                           "model with --model, or leave it out");
    }
    if ((o->hardware == NULL) && (o->calibrate != NULL)) {
        return refuse(log, "option --calibrate: of which device? name it with "
                           "--hardware");
    }
    return pl_options_read_slo(o, log);
}

/* "2:0.8" */
static bool read_mtp(const char *text, int32_t *tokens_p, int32_t *millionths_p)
{
    enum { MOST_TOKENS = 16, WHOLE = 1000000 };
    int32_t tokens = 0;
    int32_t share  = 0;
    int32_t place  = WHOLE;
    int end        = 0;

    if ((*text < '1') || (*text > '9') ||
        (sscanf(text, "%2" SCNd32 ":%n", &tokens, &end) != 1) || (end == 0) ||
        (tokens > MOST_TOKENS)) {
        return false;
    }
    text += end;
    if ((*text != '0') && (*text != '1')) {
        return false;
    }
    share = (*text++ - '0') * WHOLE;
    if ((*text == '.') && (text[1] != '\0')) {
        for (text++; (*text >= '0') && (*text <= '9'); text++) {
            place /= 10;
            share += (*text - '0') * place;
        }
    }
    *tokens_p     = tokens;
    *millionths_p = share;
    return (*text == '\0') && (share <= WHOLE);
}

static pl_status_t check_mtp(pl_options_t *o, const pl_log_t *log)
{
    if ((o->mtp == NULL) ||
        read_mtp(o->mtp, &o->mtp_tokens, &o->mtp_millionths)) {
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --mtp: cannot use '%.80s'; expected 1 to 16 drafted tokens "
           "and the share of them that is right, from 0 to 1, such as 2:0.8",
           o->mtp);
    return PL_ERR_ARGUMENT;
}

pl_status_t pl_options_check(pl_options_t *options, const pl_log_t *log)
{
    const pl_options_t *o = options;
    int64_t lanes;

    PL_TRY(check_executor(options, log));
    PL_TRY(check_times(options, log));
    PL_TRY(check_mtp(options, log));
    PL_TRY(pl_options_check_ranks(o, log));
    PL_TRY(check_hardware(o, log));
    lanes = o->ranks - o->decode_ranks;
    PL_TRY(check_chunk(o, log));
    PL_TRY(check_pool(o, "device-pages", o->device_pages, lanes, log));
    PL_TRY(check_pool(o, "host-pages", o->host_pages, lanes, log));
    PL_TRY(check_pool(o, "decode-pages", o->decode_pages, 1, log));
    PL_TRY(check_pool(o, "decode-host-pages", o->decode_host_pages, 1, log));
    PL_TRY(check_events(options, log));
    PL_TRY(check_snapshots(options, log));
    PL_TRY(check_storage(o, log));
    return pl_options_check_ownership(options, log);
}
