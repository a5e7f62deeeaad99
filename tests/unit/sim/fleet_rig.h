/* unit/sim/fleet_rig.h - small traces and fleets to run them. */
#ifndef PL_TESTS_UNIT_SIM_FLEET_RIG_H
#define PL_TESTS_UNIT_SIM_FLEET_RIG_H

#include <check.h>

#include "engine/port.h"
#include "sim/fleet.h"

#define RIG_MOST 256
#define MS       INT64_C(1000000)

/* Prompts of a family begin alike for so many pages; the rest is their own. */
typedef struct rig_prompt {
    int32_t family, shared_pages;
} rig_prompt_t;

typedef struct rig {
    pl_request_t requests[RIG_MOST];
    rig_prompt_t prompts[RIG_MOST];
    int32_t n;
    pl_fleet_params_t params;
    pl_fleet_t *fleet;
} rig_t;

/* Pages of 4 tokens and 2 prefill ranks, one chunk a prompt; one home a decode
 * instance; plenty of room; a page takes 10 ms to send or to receive. */
enum { RIG_PAGE_TOKENS = 4 };
#define RIG_PAGE_NS    (10 * MS)
#define RIG_LATENCY_NS INT64_C(100000)
rig_t *rig_make(int32_t n_prefill, int32_t n_decode);
void rig_free(rig_t *rig); /* and its fleet */

/* One more request, with a prompt of its own.  Returns its number. */
int32_t rig_add(rig_t *rig, int64_t arrival_ns, int32_t pages, int32_t outputs);
/* The same, of a family. */
int32_t rig_add_of(rig_t *rig, int64_t arrival_ns, int32_t pages,
                   int32_t outputs, int32_t family, int32_t shared_pages);

pl_engine_source_t rig_source(rig_t *rig);

/* To the end; every request finishes, every instance is sound and empty. */
void rig_run(rig_t *rig);
/* After it. */
const pl_record_t *rig_record(const rig_t *rig, int32_t request);
int32_t rig_prefill(const rig_t *rig, int32_t request); /* instance */
int32_t rig_decode(const rig_t *rig, int32_t request);  /* from 0 */

/* What a prompt of so many pages takes to prefill, cold. */
int64_t rig_prefill_ns(const rig_t *rig, int32_t pages);

/* All that does not differ by who writes it down. */
void rig_expect_same(const pl_record_t *a, const pl_record_t *b,
                     int64_t most_apart_ns);

TCase *fleet_case(void);
TCase *fleet_route_case(void);
TCase *fleet_random_case(void);

#endif /* PL_TESTS_UNIT_SIM_FLEET_RIG_H */
