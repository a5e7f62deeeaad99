/* cli/options.h - every option of the pagelane program, and its value.
 *
 * One struct for all verbs; a verb reads the members of its own options.
 * base/option.h says where the values come from.  Capacities are per rank.
 */
#ifndef PL_CLI_OPTIONS_H
#define PL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#include "base/option.h"

/* The bit of a verb in the table; PL_VERB_NAMES has the names. */
enum {
    PL_VERB_RUN         = 1 << 0,
    PL_VERB_TRACE_STATS = 1 << 1,
    PL_VERB_DOCTOR      = 1 << 2,
    PL_VERB_INSPECT     = 1 << 3,
    PL_VERB_BENCH       = 1 << 4,
    PL_VERB_COMPARE     = 1 << 5,
    PL_VERB_EXPORT      = 1 << 6,
    PL_VERB_CHECK       = 1 << 7,
    PL_VERB_SIZE        = 1 << 8,

    PL_VERB_BENCH_TRANSFER = 1 << 9,
    PL_VERB_TRACE_CONVERT  = 1 << 10,
    PL_VERB_TRACE_MAKE     = 1 << 11,
    PL_VERB_BENCH_PREFILL  = 1 << 12,
    PL_VERB_SIM            = 1 << 13,
    PL_VERB_SWEEP          = 1 << 14,
    PL_VERB_REPORT         = 1 << 15
};

/* Values of choices: indices into the words of the table. */
enum { PL_OPT_PACE_TRACE, PL_OPT_PACE_NONE };
enum { PL_OPT_LRU_BLOCKS, PL_OPT_LRU_PAGES };
enum {
    PL_OPT_EXECUTOR_AUTO,
    PL_OPT_EXECUTOR_MODEL,
    PL_OPT_EXECUTOR_STAMP,
    PL_OPT_EXECUTOR_COST
};
enum { PL_OPT_DEVICE_CPU, PL_OPT_DEVICE_GUARD, PL_OPT_DEVICE_CUDA };
enum { PL_OPT_KV_F32, PL_OPT_KV_BF16, PL_OPT_KV_FP8 };
enum {
    PL_OPT_COMM_AUTO,
    PL_OPT_COMM_LOCAL,
    PL_OPT_COMM_MPI,
    PL_OPT_COMM_PEER,
    PL_OPT_COMM_NCCL
};
enum {
    PL_OPT_WRITE_THROUGH,
    PL_OPT_WRITE_THROUGH_SELECTIVE,
    PL_OPT_WRITE_BACK
};
enum {
    PL_OPT_PREFETCH_BEST_EFFORT,
    PL_OPT_PREFETCH_WAIT_COMPLETE,
    PL_OPT_PREFETCH_TIMEOUT
};
enum { PL_OPT_TIER_DEVICE, PL_OPT_TIER_HOST };
enum { PL_OPT_WEIGHTS_FP8, PL_OPT_WEIGHTS_BF16 };
enum { PL_OPT_MATERIALIZE_FIRST, PL_OPT_MATERIALIZE_AHEAD };
enum { PL_OPT_MTP_KEPT, PL_OPT_MTP_LOST };
enum { PL_OPT_VERIFY_OFF, PL_OPT_VERIFY_DIGEST, PL_OPT_VERIFY_FULL };

typedef struct pl_options {
    /* trace */
    char *trace;
    int64_t limit;            /* requests; -1 = all */
    int64_t offset;           /* requests */
    int64_t block_tokens;     /* 0 = the file's own */
    int64_t trace_block_size; /* 0 = as usual */
    int64_t passes;
    int32_t pace; /* PL_OPT_PACE_ */
    int32_t lru;  /* PL_OPT_LRU_ */
    int64_t max_new;
    int64_t seed;
    pl_option_strings_t merge; /* files */
    char *speedup;             /* a number */

    /* trace stats, convert and make */
    pl_option_integers_t capacity; /* blocks or pages; none: usual ones */
    char *trace_format;            /* to write */
    int64_t id_tokens;             /* 0: as it comes */
    char *anonymize;               /* key file */
    int64_t sessions;
    char *shape, *words_text, *answer_text, *turns_text, *arrivals;
    int64_t think_ns;
    pl_option_integers_t churn; /* prompts: fill, pressure */

    /* ranks and hardware */
    int64_t ranks;        /* 0 = as started; pl_cli_main sets the number */
    int64_t decode_ranks; /* D */
    int32_t comm;         /* PL_OPT_COMM_ */
    int32_t device;       /* PL_OPT_DEVICE_ */
    int64_t timeout_ns;

    /* executor */
    int32_t executor; /* PL_OPT_EXECUTOR_; never AUTO after the check */
    char *model;      /* folder, or config.json with weights */
    char *weights;    /* random:SEED, or NULL: those of the folder */
    int32_t kv_dtype; /* PL_OPT_KV_ */
    int64_t stamp_layers;
    int64_t stamp_row_bytes;

    /* pages and batches */
    int64_t page_size;         /* tokens */
    int64_t chunk;             /* tokens */
    int64_t device_pages;      /* or PL_OPTION_UNLIMITED; scratch included */
    int64_t host_pages;        /* or PL_OPTION_UNLIMITED */
    int64_t host_gb;           /* bytes; 0: host_pages counts */
    int64_t decode_pages;      /* or PL_OPTION_UNLIMITED; scratch included */
    int64_t decode_host_pages; /* or PL_OPTION_UNLIMITED */
    int64_t max_batch;         /* requests */

    /* storage tier */
    char *storage;              /* folder */
    int64_t storage_pages;      /* or PL_OPTION_UNLIMITED; 0: not given */
    int64_t storage_gb;         /* bytes; 0: storage_pages counts */
    int32_t prefetch_policy;    /* PL_OPT_PREFETCH_ */
    int64_t prefetch_threshold; /* tokens */
    char *from;                 /* folder, or snapshot */
    bool resume;

    /* size, sim */
    char *hardware;      /* a name, or a file */
    char *calibrate;     /* file */
    char *validate;      /* file */
    char *fit;           /* file */
    int32_t materialize; /* PL_OPT_MATERIALIZE_ */
    int64_t gpus;
    int64_t cp;             /* GPUs of a group; 0: all */
    int64_t ep;             /* GPUs that share the experts; 0: all */
    int64_t mem_billionths; /* of a GPU's memory */
    int32_t weight_dtype;   /* PL_OPT_WEIGHTS_ */
    int64_t mtp_layers;
    char *mtp;       /* drafted tokens, and the share that is right */
    int32_t mtp_kv;  /* PL_OPT_MTP_ */
    int64_t context; /* tokens */

    /* instances */
    char *prefill, *decode, *pd; /* cli/fleet_shape.h */
    char *pd_link;               /* a rate, of each GPU */
    int32_t router;              /* pl_router_t */

    /* bench transfer */
    int64_t min_bytes, max_bytes; /* of a rank */

    /* bench prefill */
    pl_option_integers_t contexts; /* tokens */
    int64_t layers;                /* 0: all */
    int64_t repeat;                /* and sweep: seeds of a point */

    /* sweep */
    char *objective;
    int64_t attain_billionths; /* of requests */
    char *gpu_hour_cost;       /* a number, or NULL */

    /* policies */
    char *ownership_text;
    int32_t evict; /* as pl_policy_at */
    int32_t write_policy;
    int64_t hot_threshold;  /* hits */
    int64_t load_threshold; /* tokens */

    char *slo_text;

    /* checks */
    int32_t verify; /* PL_OPT_VERIFY_ */
    pl_option_strings_t inject;
    int64_t explore; /* ticks */

    /* output */
    char *snapshot;
    char *snapshot_every;
    int64_t snapshot_keep; /* files */
    char *expect;          /* reference file */
    char *tokens_out;      /* JSON lines */
    char *events_text;
    int32_t tier; /* PL_OPT_TIER_; of inspect page */
    pl_option_strings_t fail_if;
    bool csv;
    char *output;
    char *perfetto; /* file */
    bool json;
    bool repair;
    int32_t log_level; /* pl_log_level_t */
    char *config;

    /* Not an option: no bytes are to be moved.  Set before the check. */
    bool simulates;
    /* Not options: what pl_options_check made of ownership_text and
     * events_text. */
    pl_ownership_t ownership;
    int64_t most_events;                          /* 0 none; PL_EVENTS_ALL */
    int64_t slo_ttft_ns, slo_tpot_ns, slo_e2e_ns; /* of slo_text; 0: no limit */
    /* The same of snapshot_every: one of them is > 0 if it is given. */
    int64_t snapshot_every_requests, snapshot_every_ns;
    int32_t mtp_tokens, mtp_millionths; /* of mtp; 0: none */
    /* In place of those of --calibrate, while they are looked for; 0: not. */
    int64_t prefill_millionths, decode_millionths;
    /* The line was simulated before, and what there is to say of it was said.
     */
    bool is_again;
} pl_options_t;

const pl_option_table_t *pl_options_table(void);

/* All layers for one verb: defaults, the file that --config or PAGELANE_CONFIG
 * names, `environment`, the arguments behind the verb.  Reads that file and
 * nothing else; prints nothing.  *options starts zeroed; pl_options_free it
 * after any verdict.  Words that are no options go to *words. */
pl_option_result_t pl_options_load(uint32_t verb, int argc,
                                   const char *const *argv,
                                   const char *const *environment,
                                   pl_options_t *options,
                                   pl_option_words_t *words);
void pl_options_free(pl_options_t *options);

/* What one option alone cannot tell, for a run on options->ranks ranks (>= 1).
 * Fills the members that are no options.  PL_OK, or PL_ERR_ARGUMENT with one
 * line in `log` that names option and remedy.  Needs no file. */
PL_MUST_CHECK pl_status_t pl_options_check(pl_options_t *options,
                                           const pl_log_t *log);
/* Of that, the rule alone: fills options->ownership. */
PL_MUST_CHECK pl_status_t pl_options_check_ownership(pl_options_t *options,
                                                     const pl_log_t *log);
/* Of that, the limits of --slo alone: fills options->slo_*_ns. */
PL_MUST_CHECK pl_status_t pl_options_read_slo(pl_options_t *options,
                                              const pl_log_t *log);
/* Of that, the ranks alone: for other verbs on ranks. */
PL_MUST_CHECK pl_status_t pl_options_check_ranks(const pl_options_t *options,
                                                 const pl_log_t *log);

#endif /* PL_CLI_OPTIONS_H */
