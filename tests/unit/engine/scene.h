/* unit/engine/scene.h - small traces written by hand, driven by
 * property/engine/drive.h, which holds every plan against its laws. */
#ifndef PL_TESTS_UNIT_ENGINE_SCENE_H
#define PL_TESTS_UNIT_ENGINE_SCENE_H

#include <check.h>

#include "property/engine/drive.h"

#define SECOND INT64_C(1000000000)

/* 4 + 1 ranks, pages of 4 tokens, chunks of 4 pages, plenty of room. */
static inline drive_params_t scene(const drive_request_t *script, int32_t n)
{
    drive_params_t params      = {.script = script, .n_requests = n};
    pl_engine_config_t *config = &params.config;

    config->n_prefill             = 4;
    config->n_decode              = 1;
    config->page_tokens           = 4;
    config->chunk_tokens          = 16;
    config->device_pages          = 65;
    config->host_pages            = 64;
    config->decode_pages          = 257;
    config->load_threshold_tokens = 4;
    config->hot_threshold         = 2;
    config->evict                 = pl_policy_find("lru");
    config->max_batch             = 8;
    config->costs                 = pl_costs_builtin();
    config->page_bytes            = 4000;
    return params;
}

TCase *open_case(void);
TCase *lanes_case(void);
TCase *copies_case(void);
TCase *homes_case(void);
TCase *storage_case(void);
TCase *links_case(void);
TCase *draft_case(void);
TCase *port_case(void);
TCase *turns_case(void);

#endif /* PL_TESTS_UNIT_ENGINE_SCENE_H */
