/* cli/bench_prefill.h - the time to the first token: of a prompt that is new,
 * that lies in the device tier, that lies in the host tier.
 *
 *   bench_prefill.c        options, model, runs
 *   bench_prefill_print.c  tables and JSON
 *   bench_prefill_scene.c  the requests, and pools that force what is measured
 *   bench_prefill_watch.c  clocks of one run
 *
 * Requests come one at a time through the engine and executor of a run, each
 * when the one before has long ended.  A few tokens more of each are decoded.
 * Prompt 0 is there to warm up and is not counted.
 */
#ifndef PL_CLI_BENCH_PREFILL_H
#define PL_CLI_BENCH_PREFILL_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/status.h>

#include "cli/cli.h"
#include "comm/comm.h"
#include "device/device.h"
#include "engine/engine.h"
#include "exec/compute.h"
#include "exec/run.h"

typedef enum pl_prefill_kind {
    PL_PREFILL_COLD,
    PL_PREFILL_DEVICE, /* the same prompt at once again */
    PL_PREFILL_HOST,   /* when others have pushed it off the device */
    PL_PREFILL_KINDS
} pl_prefill_kind_t;

/* ---- bench_prefill_scene.c ---- */

/* First each prompt cold and again, then each once more: the device tier holds
 * one prompt, the host tier holds all. */
typedef struct pl_prefill_scene {
    int32_t tokens;    /* of each prompt */
    int32_t n_prompts; /* with the one that is not counted; >= 3, so that two
                          others lie between the uses of each */
    int32_t n_requests;
    int32_t vocab_size;
    uint64_t seed;
    pl_request_t *requests; /* [n_requests] */
    int32_t *after;         /* [n_requests] the one before each */
} pl_prefill_scene_t;

/* n_repeats >= 2.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_prefill_scene_open(int32_t tokens,
                                                int32_t n_repeats,
                                                int32_t vocab_size,
                                                uint64_t seed,
                                                pl_prefill_scene_t *scene);
void pl_prefill_scene_close(pl_prefill_scene_t *scene);

pl_prefill_kind_t pl_prefill_kind(const pl_prefill_scene_t *scene,
                                  int32_t request);
int32_t pl_prefill_prompt(const pl_prefill_scene_t *scene, int32_t request);

/* Both borrow the scene. */
pl_engine_source_t pl_prefill_source(const pl_prefill_scene_t *scene);
pl_token_reader_t pl_prefill_tokens(const pl_prefill_scene_t *scene);

/* The pools, and all else that the scene asks of the engine; n_prefill,
 * page_tokens, chunk_tokens and ownership are set.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_prefill_engine(const pl_prefill_scene_t *scene,
                                            pl_engine_config_t *config);

/* Did the request take its pages from where its kind says? */
bool pl_prefill_is_as_meant(const pl_prefill_scene_t *scene, int32_t request,
                            int32_t page_tokens, const pl_record_t *record);

/* ---- bench_prefill_watch.c ---- */

/* What came of one run: the same on all ranks. */
typedef struct pl_prefill_figure {
    double ms[PL_PREFILL_KINDS]; /* of the slowest rank; of repeats the median
                                  */
    double step_ms;              /* from a token to the next one; mean */
    double handover_ms; /* of kind device, whose pages all go at once: from the
                           first token until decode has it all; mean */
    int64_t hit_tokens[PL_PREFILL_KINDS]; /* of one request */
    int64_t rank_bytes;                   /* KV of a prompt on one rank: of the
                                             rank that has most */
    bool is_profiled;
    pl_profile_t profiles[PL_PREFILL_KINDS]; /* of a request, mean of ranks */
    int32_t odd;      /* a request that did not hit what was meant; -1: none */
    pl_record_t seen; /* what became of it */
} pl_prefill_figure_t;

typedef struct pl_prefill_watch pl_prefill_watch_t; /* opaque */

/* Takes its place in `params`, whose engine, source and device are set: device,
 * observer and done.  Borrows both.  The figure is there after a good run.
 * is_alone: no other rank of the run is in this process.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_prefill_watch_open(const pl_prefill_scene_t *scene,
                                                bool is_alone,
                                                pl_run_params_t *params,
                                                pl_prefill_figure_t *figure,
                                                pl_prefill_watch_t **watch_p);
void pl_prefill_watch_close(pl_prefill_watch_t *watch); /* NULL is allowed */

/* ---- bench_prefill_print.c ---- */

typedef struct pl_prefill_row {
    int32_t tokens;
    pl_ownership_t ownership;
    pl_prefill_figure_t figure;
} pl_prefill_row_t;

typedef struct pl_prefill_report {
    const pl_cli_t *cli;
    const char *model;
    const char *comm, *device, *kv_dtype; /* as the options name them */
    int32_t n_layers;
    pl_prefill_row_t *rows; /* [n_rows] */
    int32_t n_rows;
} pl_prefill_report_t;

/* On stdout.  PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t pl_prefill_print(const pl_prefill_report_t *report);

#endif /* PL_CLI_BENCH_PREFILL_H */
