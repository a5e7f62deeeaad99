/* cli/expect.h - does a run agree with a reference file?  (--expect)
 *
 * The file is what datasets of Hugging Face outputs give: safetensors with, for
 * prompt i, logits_i [vocab] after its last token, greedy_i [n] and, for some
 * prompts and layers, topk_i_l [length, k], ascending, -1 where fewer exist.
 * Request r of a run with several passes is prompt r mod the number of prompts.
 *
 * Each rank compares what it computes while it computes it; at the end all
 * ranks bring together what they saw, and rank 0 tells.
 */
#ifndef PL_CLI_EXPECT_H
#define PL_CLI_EXPECT_H

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "comm/comm.h"
#include "exec/run.h"

typedef struct pl_expect pl_expect_t; /* opaque */

/* Not collective; every process opens the file for itself.  PL_ERR_INPUT (one
 * line), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_expect_open(const char *path, int32_t n_requests,
                                         int32_t vocab_size,
                                         const pl_log_t *log,
                                         pl_expect_t **expect_p);
void pl_expect_close(pl_expect_t *expect); /* NULL is allowed */

/* What a run must be given; its functions may be called from many threads. */
pl_model_observer_t pl_expect_observer(pl_expect_t *expect);

/* Collective, after a good run.  Rank 0 writes what was compared, the worst
 * error and its place, and near ties to stderr.  PL_OK, or PL_ERR_VIOLATION on
 * all ranks. */
PL_MUST_CHECK pl_status_t pl_expect_judge(pl_expect_t *expect, pl_comm_t *comm,
                                          const pl_run_results_t *results);

#endif /* PL_CLI_EXPECT_H */
