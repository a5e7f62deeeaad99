/* pagelane trace convert: a trace in another format. */
#include "cli/trace_file.h"

int pl_cli_trace_convert(const pl_cli_t *cli)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    pl_status_t status;

    PL_TRY_GOTO(status, pl_cli_trace_params(&cli->options, &cli->log, &params),
                out);
    params.path    = cli->words[0];
    params.paced   = true;
    params.max_new = (int32_t)cli->options.max_new;
    params.seed    = (uint64_t)cli->options.seed;
    PL_TRY_GOTO(status, pl_trace_open(&params, &cli->log, &trace), out);
    status = pl_cli_trace_write(cli, trace);
    pl_trace_close(trace);

out:
    return pl_status_exit(status);
}
