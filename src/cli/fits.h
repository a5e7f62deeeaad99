/* cli/fits.h - do the weights and the pages of a simulation fit into the memory
 * of its GPUs?  (docs/size.md)  Both sides are asked: GPUs that prefill, and,
 * if there are ranks for it, those that decode.
 */
#ifndef PL_CLI_FITS_H
#define PL_CLI_FITS_H

#include "cli/options.h"
#include "engine/engine.h"
#include "sim/costs.h"
#include "sim/size.h"

/* Of the layout that `costs` is for.  Pages that were asked for with `fit`
 * become a number in *engine; one line of warning if others do not fit.
 * PL_ERR_RESOURCE (one line: by how much, and what would help) if the weights
 * do not, or, with `fit`, no pages; PL_ERR_ARGUMENT, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_cli_fit(const pl_options_t *options,
                                     const pl_log_t *log,
                                     const pl_costs_params_t *costs,
                                     pl_engine_config_t *engine);

/* The line: by how much the weights on `where`, "a GPU", do not fit, and what
 * would help, which `options` are for: the experts over `ep` GPUs (0: not). */
void pl_cli_say_missing(const pl_log_t *log, const char *where,
                        const char *options, int32_t ep,
                        const pl_size_params_t *params, const pl_size_t *size);
/* Likewise, that they leave room for no pages; of one ownership. */
void pl_cli_say_no_pages(const pl_log_t *log, const char *where,
                         const char *options, const pl_size_t *size,
                         int ownership);

#endif /* PL_CLI_FITS_H */
