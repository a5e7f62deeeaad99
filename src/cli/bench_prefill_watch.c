#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bench_prefill.h"

/* Words of a profile on their way to the other ranks. */
enum { PROFILE_WORDS = (int)(sizeof(pl_profile_t) / sizeof(uint64_t)) };

/* One rank of this process; its own thread's. */
typedef struct watched {
    pl_device_t *device;
    bool is_profiled;
    pl_status_t status;      /* of the profile */
    int32_t next;            /* request whose first token is waited for */
    double began_s;          /* the tick before it was admitted ended */
    int64_t computed_before; /* tokens, then */
    double *seconds;         /* [n_requests] */
    int64_t steps_before;    /* of decode, when the last tick ended */
    int64_t steps_seen;      /* of the request whose first token came last */
    double steps_s;          /* of those that count */
    int64_t n_steps;
    double token_s; /* the last first token came */
    double handovers_s;
    int64_t n_handovers;
    int64_t most_pages; /* in a lane, at the first token of the first */
    pl_profile_t profiles[PL_PREFILL_KINDS]; /* sums */
} watched_t;

struct pl_prefill_watch {
    const pl_prefill_scene_t *scene;
    const pl_run_params_t *params;
    pl_device_source_t device; /* of the run */
    int n_ranks;
    bool is_alone;    /* no other rank is in this process */
    watched_t *ranks; /* [n_ranks] */
    pl_prefill_figure_t *figure;
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- while it runs ---- */

static pl_status_t open_device(void *context, int rank, const pl_log_t *log,
                               pl_device_t **device_p)
{
    pl_prefill_watch_t *watch = context;
    watched_t *watched        = &watch->ranks[rank];
    pl_device_t *device       = NULL;

    PL_TRY(watch->device.open(watch->device.context, rank, log, &device));
    *device_p = device; /* the run closes it, whatever comes */
    if (device->ops->profile_begin != NULL) {
        PL_TRY(device->ops->profile_begin(device));
        watched->device      = device;
        watched->is_profiled = true;
    }
    return PL_OK;
}

static void read_profile(watched_t *watched, pl_profile_t *profile)
{
    if (watched->is_profiled && (watched->status == PL_OK)) {
        watched->status =
            watched->device->ops->profile_read(watched->device, profile);
    }
}

static int64_t most_in_use(const pl_engine_t *engine)
{
    const pl_lanes_t *lanes = pl_hicache_device(pl_engine_cache(engine));
    int64_t all  = pl_lanes_pages_per_lane(lanes) - pl_lanes_reserved(lanes);
    int64_t most = 0;

    for (int lane = 0; lane < pl_lanes_n(lanes); lane++) {
        int64_t n = all - pl_lanes_free_count(lanes, lane);

        most = n > most ? n : most;
    }
    return most;
}

/* Between requests: what is left of the one before is nobody's time. */
static void begin_next(watched_t *watched, const pl_engine_t *engine)
{
    pl_profile_t unwanted = {0};

    read_profile(watched, &unwanted);
    watched->computed_before = pl_engine_counters(engine)->prefill_tokens;
    watched->began_s         = now_s();
}

/* A tick in which a request was decoded, and nothing else was done; before the
 * first step decode took in its pages. */
static void note_step(const pl_prefill_watch_t *watch, watched_t *watched,
                      double now, const pl_engine_t *engine)
{
    int64_t n_steps = pl_engine_counters(engine)->decode_steps;
    bool counts     = (watched->next > 0) &&
                  (pl_prefill_prompt(watch->scene, watched->next - 1) > 0);

    if (n_steps == watched->steps_before) {
        return;
    }
    watched->steps_before = n_steps;
    if (!counts) {
        return;
    }
    if (watched->steps_seen++ > 0) {
        watched->steps_s += now - watched->began_s;
        watched->n_steps++;
    } else if (pl_prefill_kind(watch->scene, watched->next - 1) ==
               PL_PREFILL_DEVICE) {
        watched->handovers_s += watched->began_s - watched->token_s;
        watched->n_handovers++;
    }
}

static void end_one(const pl_prefill_watch_t *watch, watched_t *watched,
                    const pl_engine_t *engine)
{
    const pl_prefill_scene_t *scene = watch->scene;
    int32_t request                 = watched->next;
    pl_profile_t unwanted           = {0};
    bool counts                     = pl_prefill_prompt(scene, request) > 0;

    if (request == 0) {
        watched->most_pages = most_in_use(engine);
    }
    read_profile(watched,
                 counts ? &watched->profiles[pl_prefill_kind(scene, request)]
                        : &unwanted);
    watched->next++;
    watched->steps_seen = 0;
}

/* The tick that computes a prompt's last token ends with its first token on the
 * host of the rank that made it. */
static void after_tick(void *context, int rank, const pl_engine_t *engine)
{
    pl_prefill_watch_t *watch = context;
    watched_t *watched        = &watch->ranks[rank];
    double now                = now_s();
    const pl_record_t *record;
    int64_t computed;

    if (watched->next >= watch->scene->n_requests) {
        return;
    }
    record = pl_engine_record(engine, watched->next);
    computed =
        pl_engine_counters(engine)->prefill_tokens - watched->computed_before;
    if (record->admitted_tick < 0) {
        note_step(watch, watched, now, engine);
        begin_next(watched, engine);
    } else if (computed + record->device_hit_tokens + record->host_hit_tokens >=
               record->prompt_tokens) {
        watched->seconds[watched->next] = now - watched->began_s;
        watched->token_s                = now;
        end_one(watch, watched, engine);
        begin_next(watched, engine);
    }
}

/* ---- when it is over ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* seconds[request] becomes that of the slowest rank. */
static pl_status_t find_slowest(const pl_prefill_watch_t *watch,
                                pl_comm_t *comm, double *seconds)
{
    size_t n        = (size_t)watch->scene->n_requests;
    size_t n_all    = n * (size_t)watch->n_ranks;
    uint64_t *words = calloc(n_all, sizeof(*words));
    pl_status_t status;

    PL_TRY(pl_comm_agree_status(comm, words == NULL ? PL_ERR_MEMORY : PL_OK));
    memcpy(words + n * (size_t)comm->rank, watch->ranks[comm->rank].seconds,
           n * sizeof(*words));
    status = pl_comm_sum(comm, words, (int64_t)n_all);
    memset(seconds, 0, n * sizeof(*seconds));
    for (size_t i = 0; (status == PL_OK) && (i < n_all); i++) {
        double one;

        memcpy(&one, words + i, sizeof(one));
        seconds[i % n] = one > seconds[i % n] ? one : seconds[i % n];
    }
    free(words);
    return status;
}

/* seconds[n_requests ..] is room to sort in. */
static void find_medians(const pl_prefill_scene_t *scene, double *seconds,
                         pl_prefill_figure_t *figure)
{
    int32_t n = scene->n_prompts - 1;

    for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
        int32_t found = 0;

        for (int32_t i = 0; i < scene->n_requests; i++) {
            if (((int)pl_prefill_kind(scene, i) == kind) &&
                (pl_prefill_prompt(scene, i) > 0)) {
                seconds[scene->n_requests + found++] = seconds[i];
            }
        }
        qsort(seconds + scene->n_requests, (size_t)n, sizeof(*seconds),
              by_size);
        figure->ms[kind] = 500 * (seconds[scene->n_requests + (n - 1) / 2] +
                                  seconds[scene->n_requests + n / 2]);
    }
}

/* The mean of all ranks and repeats. */
static pl_status_t find_profiles(const pl_prefill_watch_t *watch,
                                 pl_comm_t *comm, pl_prefill_figure_t *figure)
{
    const watched_t *mine = &watch->ranks[comm->rank];
    int64_t n = (int64_t)watch->n_ranks * (watch->scene->n_prompts - 1);

    figure->is_profiled = mine->is_profiled;
    for (int kind = 0; mine->is_profiled && (kind < PL_PREFILL_KINDS); kind++) {
        uint64_t words[PROFILE_WORDS];
        int64_t *times = (int64_t *)(void *)&figure->profiles[kind];

        memcpy(words, &mine->profiles[kind], sizeof(words));
        PL_TRY(pl_comm_sum(comm, words, PROFILE_WORDS));
        for (int i = 0; i < PROFILE_WORDS; i++) {
            times[i] = (int64_t)words[i] / n;
        }
    }
    return PL_OK;
}

static double mean_ms(const uint64_t *words)
{
    return words[1] == 0 ? 0 : 1e-6 * (double)words[0] / (double)words[1];
}

/* Means of all ranks and steps. */
static pl_status_t find_steps(const pl_prefill_watch_t *watch, pl_comm_t *comm,
                              pl_prefill_figure_t *figure)
{
    const watched_t *mine = &watch->ranks[comm->rank];
    uint64_t words[4]     = {
            (uint64_t)(1e9 * mine->steps_s), (uint64_t)mine->n_steps,
            (uint64_t)(1e9 * mine->handovers_s), (uint64_t)mine->n_handovers};

    PL_TRY(pl_comm_sum(comm, words, 4));
    figure->step_ms     = mean_ms(words);
    figure->handover_ms = mean_ms(words + 2);
    return PL_OK;
}

/* n_measured: requests whose first token was seen. */
static void look_at_hits(const pl_prefill_watch_t *watch, int32_t n_measured,
                         const pl_engine_t *engine, pl_prefill_figure_t *figure)
{
    const pl_prefill_scene_t *scene = watch->scene;
    int32_t page                    = watch->params->engine.page_tokens;

    figure->odd = -1;
    for (int32_t i = 0; (i < scene->n_requests) && (figure->odd < 0); i++) {
        const pl_record_t *record = pl_engine_record(engine, i);
        pl_prefill_kind_t kind    = pl_prefill_kind(scene, i);

        figure->hit_tokens[kind] = kind == PL_PREFILL_HOST
                                       ? record->host_hit_tokens
                                       : record->device_hit_tokens;
        if ((i >= n_measured) ||
            !pl_prefill_is_as_meant(scene, i, page, record)) {
            figure->odd  = i;
            figure->seen = *record;
        }
    }
}

static pl_status_t run_done(void *context, pl_comm_t *comm,
                            const pl_engine_t *engine,
                            const pl_run_results_t *results)
{
    const pl_prefill_watch_t *watch = context;
    const watched_t *mine           = &watch->ranks[comm->rank];
    size_t n                        = (size_t)watch->scene->n_requests;
    pl_prefill_figure_t figure      = {0};
    double *seconds                 = malloc(2 * n * sizeof(*seconds));
    pl_status_t status = seconds == NULL ? PL_ERR_MEMORY : mine->status;

    (void)results;
    status = pl_comm_agree_status(comm, status);
    if (status == PL_OK) {
        status = find_slowest(watch, comm, seconds);
    }
    if (status == PL_OK) {
        status = find_profiles(watch, comm, &figure);
    }
    if (status == PL_OK) {
        status = find_steps(watch, comm, &figure);
    }
    if (status == PL_OK) {
        find_medians(watch->scene, seconds, &figure);
        figure.rank_bytes = mine->most_pages * pl_run_page_bytes(watch->params);
        look_at_hits(watch, mine->next, engine, &figure);
    }
    if ((status == PL_OK) && ((comm->rank == 0) || watch->is_alone)) {
        *watch->figure = figure;
    }
    free(seconds);
    return status;
}

/* ---- open and close ---- */

void pl_prefill_watch_close(pl_prefill_watch_t *watch)
{
    if (watch == NULL) {
        return;
    }
    for (int r = 0; (watch->ranks != NULL) && (r < watch->n_ranks); r++) {
        free(watch->ranks[r].seconds);
    }
    free(watch->ranks);
    free(watch);
}

pl_status_t pl_prefill_watch_open(const pl_prefill_scene_t *scene,
                                  bool is_alone, pl_run_params_t *params,
                                  pl_prefill_figure_t *figure,
                                  pl_prefill_watch_t **watch_p)
{
    pl_prefill_watch_t *watch = calloc(1, sizeof(*watch));
    int n                     = params->engine.n_prefill;

    if (watch == NULL) {
        return PL_ERR_MEMORY;
    }
    *watch = (pl_prefill_watch_t){.scene    = scene,
                                  .is_alone = is_alone,
                                  .params   = params,
                                  .device   = params->device,
                                  .n_ranks  = n,
                                  .ranks = calloc((size_t)n, sizeof(watched_t)),
                                  .figure = figure};
    for (int r = 0; (watch->ranks != NULL) && (r < n); r++) {
        watch->ranks[r].seconds =
            calloc((size_t)scene->n_requests, sizeof(double));
        if (watch->ranks[r].seconds == NULL) {
            pl_prefill_watch_close(watch);
            return PL_ERR_MEMORY;
        }
    }
    if (watch->ranks == NULL) {
        pl_prefill_watch_close(watch);
        return PL_ERR_MEMORY;
    }
    params->device = (pl_device_source_t){open_device, watch};
    params->observer =
        (pl_tick_observer_t){.tick = after_tick, .context = watch};
    params->done         = run_done;
    params->done_context = watch;
    *watch_p             = watch;
    return PL_OK;
}
