/* pagelane sim: a run in virtual time, in one process, whatever its ranks. */
#include "cli/sim.h"

#include <inttypes.h>

#include "cli/exit_status.h"
#include "cli/fleet.h"
#include "cli/validate.h"

/* The run that it is: the engine of every run, with the executor that moves
 * nothing, --cp prefill ranks and --decode-ranks besides. */
static void make_run(pl_cli_t *run)
{
    pl_options_t *o = &run->options;

    o->executor  = PL_OPT_EXECUTOR_COST;
    o->simulates = true;
    o->comm      = PL_OPT_COMM_LOCAL;
    o->ranks     = (o->cp == 0 ? 1 : o->cp) + o->decode_ranks;
    run->world   = (pl_cli_world_t){.size = 1};
}

static pl_status_t check(pl_options_t *o, const pl_log_t *log)
{
    if ((o->hardware != NULL) && (o->model != NULL) &&
        (o->kv_dtype == PL_OPT_KV_F32)) {
        pl_log(log, PL_LOG_ERROR,
               "option --kv-dtype f32: engines keep KV in fewer bytes; give "
               "bf16 or fp8");
        return PL_ERR_ARGUMENT;
    }
    if ((o->fit != NULL) && (o->validate == NULL)) {
        pl_log(log, PL_LOG_ERROR,
               "option --fit: to what? name what was measured with --validate");
        return PL_ERR_ARGUMENT;
    }
    if (pl_fleet_is_asked(o)) {
        PL_TRY(pl_cli_fleet_check(o, log));
    }
    return pl_options_check(o, log);
}

pl_status_t pl_cli_sim_with(const pl_cli_t *cli, const pl_run_hooks_t *hooks)
{
    pl_cli_t run = *cli;

    make_run(&run);
    PL_TRY(check(&run.options, &run.log));
    return pl_fleet_is_asked(&run.options) ? pl_cli_fleet(&run, hooks)
                                           : pl_cli_run_with(&run, hooks);
}

/* Ticks are of all ranks of an engine. */
static void note_rhythm(const pl_cli_t *run)
{
    const pl_options_t *o = &run->options;

    if (o->decode_ranks > 0) {
        pl_log(&run->log, PL_LOG_INFO,
               "with --decode-ranks a decode step lasts as long as the chunk "
               "beside it; for decode at its own pace give --pd 1x%" PRId64
               "+1x%" PRId64,
               o->ranks - o->decode_ranks, o->decode_ranks);
    }
}

int pl_cli_sim(const pl_cli_t *cli)
{
    pl_cli_t run = *cli;
    pl_status_t status;
    int exit_status;

    make_run(&run);
    status = check(&run.options, &run.log);
    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    if (pl_fleet_is_asked(&run.options)) {
        return pl_status_exit(pl_cli_fleet(&run, NULL));
    }
    if (run.options.validate != NULL) {
        return pl_cli_validate(&run);
    }
    exit_status = pl_cli_run(&run);
    if (exit_status == 0) {
        note_rhythm(&run);
    }
    return exit_status;
}
