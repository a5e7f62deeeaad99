/* cli/sweep_split.h - what `sweep --pd auto` stands for. */
#ifndef PL_CLI_SWEEP_SPLIT_H
#define PL_CLI_SWEEP_SPLIT_H

#include "base/option.h"

/* Every way to part each of `gpus` (cli/fleet_shape.h), with commas between
 * them, for the caller to free.  `gpus`, `cps` and `hardware` are lists like
 * it, as given for --gpus, --cp and --hardware; hardware may be NULL. */
pl_option_result_t pl_sweep_splits(const char *gpus, const char *cps,
                                   const char *hardware, char **text_p);

/* Is it a list for --gpus?  *given_p: its first value that is not `usual`, or
 * else that. */
pl_option_result_t pl_sweep_check_gpus(const char *gpus, int64_t usual,
                                       int64_t *given_p);

#endif /* PL_CLI_SWEEP_SPLIT_H */
