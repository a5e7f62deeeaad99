#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/bench_prefill.h"

/* Virtual time: nothing is under way when the next request comes. */
#define PAUSE_NS INT64_C(60000000000)

/* Pages in a lane beside those of a prompt: scratch, and for who hits, who
 * computes the last page once more. */
enum { SPARE = 2 };

/* Of decode, behind each first token. */
enum { STEPS = 8 };

/* ---- requests ---- */

pl_prefill_kind_t pl_prefill_kind(const pl_prefill_scene_t *scene,
                                  int32_t request)
{
    if (request >= 2 * scene->n_prompts) {
        return PL_PREFILL_HOST;
    }
    return request % 2 == 0 ? PL_PREFILL_COLD : PL_PREFILL_DEVICE;
}

int32_t pl_prefill_prompt(const pl_prefill_scene_t *scene, int32_t request)
{
    return pl_prefill_kind(scene, request) == PL_PREFILL_HOST
               ? request - 2 * scene->n_prompts
               : request / 2;
}

pl_status_t pl_prefill_scene_open(int32_t tokens, int32_t n_repeats,
                                  int32_t vocab_size, uint64_t seed,
                                  pl_prefill_scene_t *scene)
{
    int32_t n = PL_PREFILL_KINDS * (n_repeats + 1);

    *scene = (pl_prefill_scene_t){
        .tokens     = tokens,
        .n_prompts  = n_repeats + 1,
        .n_requests = n,
        .vocab_size = vocab_size,
        .seed       = seed,
        .requests   = calloc((size_t)n, sizeof(*scene->requests)),
        .after      = calloc((size_t)n, sizeof(*scene->after))};
    if ((scene->requests == NULL) || (scene->after == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        scene->after[i]    = i - 1;
        scene->requests[i] = (pl_request_t){.input_tokens  = tokens,
                                            .output_tokens = 1 + STEPS,
                                            .line          = i + 1,
                                            .after         = &scene->after[i],
                                            .n_after       = i > 0 ? 1 : 0,
                                            .delay_ns      = PAUSE_NS};
    }
    return PL_OK;
}

void pl_prefill_scene_close(pl_prefill_scene_t *scene)
{
    free(scene->requests);
    free(scene->after);
    memset(scene, 0, sizeof(*scene));
}

static const pl_request_t *get_request(void *context, int32_t i)
{
    const pl_prefill_scene_t *scene = context;

    return &scene->requests[i];
}

static void get_page_keys(void *context, int32_t i, int32_t page_tokens,
                          int32_t first, int32_t n, pl_page_key_t *keys)
{
    const pl_prefill_scene_t *scene = context;
    uint64_t prompt                 = (uint64_t)pl_prefill_prompt(scene, i);

    for (int32_t k = 0; k < n; k++) {
        keys[k].lo =
            pl_fold64(scene->seed, prompt << 32 | (uint64_t)(first + k));
        keys[k].hi = prompt << 32 | (uint64_t)(first + k);
    }
    (void)page_tokens;
}

static void read_tokens(void *context, int32_t i, int32_t first, int32_t n,
                        int32_t *tokens)
{
    const pl_prefill_scene_t *scene = context;
    uint64_t prompt                 = (uint64_t)pl_prefill_prompt(scene, i);

    for (int32_t k = 0; k < n; k++) {
        uint64_t word =
            pl_fold64(scene->seed, prompt << 32 | (uint64_t)(first + k));

        tokens[k] = (int32_t)(word % (uint64_t)scene->vocab_size);
    }
}

pl_engine_source_t pl_prefill_source(const pl_prefill_scene_t *scene)
{
    return (pl_engine_source_t){(void *)(uintptr_t)scene, scene->n_requests,
                                get_request, get_page_keys};
}

pl_token_reader_t pl_prefill_tokens(const pl_prefill_scene_t *scene)
{
    return (pl_token_reader_t){(void *)(uintptr_t)scene, read_tokens};
}

/* ---- pools ---- */

/* Pages of a prompt in the lane that gets most of them, computed in chunks. */
static int32_t most_in_a_lane(const pl_engine_config_t *config, int32_t n_pages,
                              int32_t request, pl_owner_t *owners)
{
    int32_t n_chunk             = config->chunk_tokens / config->page_tokens;
    int32_t lanes[PL_MAX_RANKS] = {0};
    int32_t most                = 0;

    if (config->ownership.kind == PL_OWNERSHIP_REPLICATED) {
        return n_pages;
    }
    for (int32_t at = 0; at < n_pages; at += n_chunk) {
        int32_t n = n_pages - at < n_chunk ? n_pages - at : n_chunk;

        pl_compute_owners(config->ownership, config->n_prefill, at, n, request,
                          owners);
        for (int32_t i = 0; i < n; i++) {
            lanes[owners[i]]++;
        }
    }
    for (int r = 0; r < config->n_prefill; r++) {
        most = lanes[r] > most ? lanes[r] : most;
    }
    return most;
}

pl_status_t pl_prefill_engine(const pl_prefill_scene_t *scene,
                              pl_engine_config_t *config)
{
    int32_t n_pages =
        (scene->tokens + config->page_tokens - 1) / config->page_tokens;
    pl_owner_t *owners = malloc((size_t)n_pages * sizeof(*owners));
    int32_t most       = 0;

    if (owners == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < scene->n_requests; i++) {
        int32_t n = most_in_a_lane(config, n_pages, i, owners);

        most = n > most ? n : most;
    }
    free(owners);
    config->device_pages          = most + SPARE;
    config->host_pages            = scene->n_prompts * (most + SPARE);
    config->decode_pages          = n_pages + SPARE;
    config->write_policy          = PL_WRITE_THROUGH;
    config->hot_threshold         = 1;
    config->load_threshold_tokens = 0;
    config->evict                 = pl_policy_at(0);
    config->max_batch             = 1;
    config->costs                 = pl_costs_builtin();
    config->seed                  = scene->seed;
    return PL_OK;
}

/* ---- was it what was meant? ---- */

/* The last page is computed always; of a host hit a twentieth may have stayed
 * on the device, or a page. */
bool pl_prefill_is_as_meant(const pl_prefill_scene_t *scene, int32_t request,
                            int32_t page_tokens, const pl_record_t *record)
{
    int32_t whole = (scene->tokens - 1) / page_tokens * page_tokens;
    int32_t few   = whole / 20 > page_tokens ? whole / 20 : page_tokens;
    int32_t hit   = record->device_hit_tokens + record->host_hit_tokens;

    if (record->failed || (record->readmissions > 0)) {
        return false;
    }
    switch (pl_prefill_kind(scene, request)) {
    case PL_PREFILL_COLD:
        return hit == 0;
    case PL_PREFILL_DEVICE:
        return record->device_hit_tokens == whole;
    default:
        return (hit == whole) && (record->device_hit_tokens <= few);
    }
}
