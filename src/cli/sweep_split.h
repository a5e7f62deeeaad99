/* cli/sweep_split.h - what `sweep --pd auto` stands for. */
#ifndef PL_CLI_SWEEP_SPLIT_H
#define PL_CLI_SWEEP_SPLIT_H

#include "base/option.h"

/* Every way to part `gpus` (cli/fleet_shape.h), with commas between them, for
 * the caller to free.  `cps` and `hardware` are lists like it, as given for
 * --cp and --hardware; hardware may be NULL. */
pl_option_result_t pl_sweep_splits(int64_t gpus, const char *cps,
                                   const char *hardware, char **text_p);

#endif /* PL_CLI_SWEEP_SPLIT_H */
