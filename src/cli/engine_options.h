/* cli/engine_options.h - what options and a trace are to an engine. */
#ifndef PL_CLI_ENGINE_OPTIONS_H
#define PL_CLI_ENGINE_OPTIONS_H

#include <pagelane/trace.h>

#include "cli/options.h"
#include "engine/engine.h"

/* Of options that have been checked; the costs are those of the fixed table. */
pl_engine_config_t pl_cli_engine_config(const pl_options_t *options);

/* The requests of a trace, which is borrowed. */
pl_engine_source_t pl_cli_engine_source(pl_trace_t *trace);

#endif /* PL_CLI_ENGINE_OPTIONS_H */
