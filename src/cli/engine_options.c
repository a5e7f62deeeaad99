#include "cli/engine_options.h"

static int32_t pages_of(int64_t option)
{
    return option == PL_OPTION_UNLIMITED ? PL_PAGES_UNLIMITED : (int32_t)option;
}

pl_engine_config_t pl_cli_engine_config(const pl_options_t *o)
{
    pl_engine_config_t config = {
        .n_prefill             = (int)(o->ranks - o->decode_ranks),
        .n_decode              = (int)o->decode_ranks,
        .page_tokens           = (int32_t)o->page_size,
        .chunk_tokens          = (int32_t)o->chunk,
        .ownership             = o->ownership,
        .device_pages          = pages_of(o->device_pages),
        .host_pages            = pages_of(o->host_pages),
        .decode_pages          = pages_of(o->decode_pages),
        .decode_host_pages     = pages_of(o->decode_host_pages),
        .write_policy          = (pl_write_policy_t)o->write_policy,
        .hot_threshold         = (uint32_t)o->hot_threshold,
        .load_threshold_tokens = (int32_t)o->load_threshold,
        .evict                 = pl_policy_at(o->evict),
        .max_batch             = (int32_t)o->max_batch,
        .explore               = (int32_t)o->explore,
        .seed                  = (uint64_t)o->seed,
        .costs                 = pl_costs_builtin(),
        .mtp                   = {.draft_tokens      = o->mtp_tokens,
                                  .accept_millionths = o->mtp_millionths,
                                  .loses_kv          = o->mtp_kv == PL_OPT_MTP_LOST},
    };

    config.costs.draft_tokens = o->mtp_tokens;
    return config;
}

static const pl_request_t *get_request(void *context, int32_t i)
{
    return pl_trace_request(context, i);
}

static void get_page_keys(void *context, int32_t i, int32_t page_tokens,
                          int32_t first, int32_t n, pl_page_key_t *keys)
{
    pl_trace_page_keys(context, i, page_tokens, first, n, keys);
}

pl_engine_source_t pl_cli_engine_source(pl_trace_t *trace)
{
    return (pl_engine_source_t){trace, pl_trace_count(trace), get_request,
                                get_page_keys};
}
