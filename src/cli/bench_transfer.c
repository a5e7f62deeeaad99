/* pagelane bench transfer: the exchange of pages, beside a yardstick. */
#include "cli/bench_transfer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/exit_status.h"
#include "cli/hardware.h"
#include "cli/json.h"
#include "cli/table.h"
#include "comm/mpi_session.h"
#include "comm/nccl.h"
#include "comm/peer.h"

typedef struct bench {
    const pl_cli_t *cli;
    pl_log_t log;     /* of one or of all virtual ranks: first errors only */
    atomic_flag said; /* there was one */
    int32_t comm;     /* PL_OPT_COMM_; with GPUs AUTO until ranks agree */
    pl_transfer_params_t params;
    pl_transfer_result_t result; /* the same on all ranks */
} bench_t;

/* One rank of this process. */
typedef struct place {
    pl_device_t *device;
    pl_comm_t *base; /* the caller's */
    pl_comm_t *comm; /* that, or what stands on it */
} place_t;

/* Ranks of one process that fail alike say so once. */
static void write_first(void *context, pl_log_level_t level, const char *line)
{
    bench_t *bench = context;

    if ((level != PL_LOG_ERROR) || !atomic_flag_test_and_set(&bench->said)) {
        pl_log(&bench->cli->log, level, "%s", line);
    }
}

/* ---- devices and communicators ---- */

static pl_transfer_yardstick_t yardstick_of(int32_t comm)
{
    switch (comm) {
    case PL_OPT_COMM_NCCL:
        return PL_TRANSFER_ALL_GATHER;
    case PL_OPT_COMM_PEER:
        return PL_TRANSFER_PEERS;
    default:
        return PL_TRANSFER_MEMORY;
    }
}

/* Collective.  All ranks agree. */
static pl_status_t open_place(bench_t *bench, pl_comm_t *base, place_t *place)
{
    place->base = base;
    place->comm = base;
    PL_TRY(pl_comm_agree_status(
        base, pl_cli_open_device(&bench->cli->options, base->rank, &bench->log,
                                 &place->device)));
    if (bench->comm == PL_OPT_COMM_AUTO) { /* this process is one rank */
        PL_TRY(pl_cli_best_comm(base, &bench->comm));
        bench->params.yardstick = yardstick_of(bench->comm);
    }
    switch (bench->comm) {
    case PL_OPT_COMM_PEER:
        return pl_comm_open_peer(base, place->device, &place->comm);
    case PL_OPT_COMM_NCCL:
        return pl_comm_open_nccl(base, place->device, &place->comm);
    default:
        return PL_OK;
    }
}

static void close_place(place_t *place)
{
    if (place->comm != place->base) {
        pl_comm_close(place->comm);
    }
    pl_device_close(place->device);
}

static pl_status_t measure(bench_t *bench, place_t *place)
{
    pl_transfer_result_t result;
    pl_status_t status = pl_transfer_measure(&bench->params, place->comm,
                                             place->device, &result);

    if ((place->comm->rank == 0) || bench->cli->world.launched) {
        bench->result = result; /* virtual ranks share it */
    }
    return status;
}

/* ---- what is printed ---- */

static const char *const YARDSTICKS[] = {
    [PL_TRANSFER_MEMORY]     = "copies within own memory",
    [PL_TRANSFER_PEERS]      = "one copy from each peer",
    [PL_TRANSFER_ALL_GATHER] = "ncclAllGather"};

static pl_status_t print_table(const bench_t *bench)
{
    const pl_options_t *o = &bench->cli->options;
    pl_table_t *table =
        pl_table_open("size (B)>,pages>,time (us)>,algbw (GB/s)>,busbw "
                      "(GB/s)>,#wrong>,beside it (us)>,algbw (GB/s)>,busbw "
                      "(GB/s)>,ratio>");
    pl_status_t status;

    for (int i = 0; i < bench->result.n; i++) {
        const pl_transfer_figure_t *f = &bench->result.figures[i];
        int n                         = (int)o->ranks;

        pl_table_cell(table, "%" PRId64, f->bytes);
        pl_table_cell(table, "%" PRId64, f->pages);
        pl_table_cell(table, "%.1f", f->us);
        pl_table_cell(table, "%.2f", pl_transfer_algbw(f, f->us));
        pl_table_cell(table, "%.2f", pl_transfer_busbw(f, f->us, n));
        pl_table_cell(table, "%" PRIu64, f->n_wrong);
        pl_table_cell(table, "%.1f", f->yardstick_us);
        pl_table_cell(table, "%.2f", pl_transfer_algbw(f, f->yardstick_us));
        pl_table_cell(table, "%.2f", pl_transfer_busbw(f, f->yardstick_us, n));
        pl_table_cell(table, "%.2f", f->yardstick_us / f->us);
    }
    printf("# transfer: --comm %s --device %s, %" PRId64
           " rank%s, pages of %" PRId64 " x %d bytes; beside it: %s\n",
           pl_cli_comm_name(bench->comm), pl_cli_device_name(o->device),
           o->ranks, pl_text_s(o->ranks), o->page_size, PL_TRANSFER_ROW_BYTES,
           YARDSTICKS[bench->params.yardstick]);
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static json_object *figure_json(const pl_transfer_figure_t *f, int n_ranks)
{
    json_object *object = json_object_new_object();

    pl_json_integer(object, "bytes", f->bytes);
    pl_json_integer(object, "pages", f->pages);
    pl_json_real(object, "time_us", f->us);
    pl_json_real(object, "algbw_gb_s", pl_transfer_algbw(f, f->us));
    pl_json_real(object, "busbw_gb_s", pl_transfer_busbw(f, f->us, n_ranks));
    pl_json_integer(object, "wrong", (int64_t)f->n_wrong);
    pl_json_real(object, "yardstick_time_us", f->yardstick_us);
    pl_json_real(object, "yardstick_busbw_gb_s",
                 pl_transfer_busbw(f, f->yardstick_us, n_ranks));
    return object;
}

static pl_status_t print_json(const bench_t *bench)
{
    const pl_options_t *o = &bench->cli->options;
    json_object *root     = json_object_new_object();
    json_object *sizes    = json_object_new_array();

    pl_json_text(root, "bench", "transfer");
    pl_json_text(root, "comm", pl_cli_comm_name(bench->comm));
    pl_json_text(root, "device", pl_cli_device_name(o->device));
    pl_json_integer(root, "ranks", o->ranks);
    pl_json_integer(root, "page_tokens", o->page_size);
    pl_json_integer(root, "row_bytes", PL_TRANSFER_ROW_BYTES);
    pl_json_text(root, "yardstick", YARDSTICKS[bench->params.yardstick]);
    for (int i = 0; (i < bench->result.n) && (sizes != NULL); i++) {
        (void)json_object_array_add(
            sizes, figure_json(&bench->result.figures[i], (int)o->ranks));
    }
    if ((root == NULL) || (sizes == NULL) ||
        (json_object_object_add(root, "sizes", sizes) != 0)) {
        json_object_put(sizes);
        json_object_put(root);
        return PL_ERR_MEMORY;
    }
    return pl_json_print(root, stdout);
}

/* After all ranks are done; rank 0 speaks. */
static pl_status_t tell(const bench_t *bench)
{
    const pl_cli_t *cli = bench->cli;
    uint64_t n_wrong    = 0;

    if (cli->world.rank == 0) {
        PL_TRY(cli->options.json ? print_json(bench) : print_table(bench));
    }
    for (int i = 0; i < bench->result.n; i++) {
        n_wrong += bench->result.figures[i].n_wrong;
    }
    if (n_wrong == 0) {
        return PL_OK;
    }
    pl_log(cli->world.rank == 0 ? &cli->log : NULL, PL_LOG_ERROR,
           "bench transfer: %" PRIu64 " bytes are not what their owner wrote",
           n_wrong);
    return PL_ERR_VIOLATION;
}

/* ---- ranks ---- */

static pl_status_t run_rank(void *context, pl_comm_t *base)
{
    bench_t *bench     = context;
    place_t place      = {0};
    pl_status_t status = open_place(bench, base, &place);

    if (status == PL_OK) {
        status = measure(bench, &place);
    }
    if (status != PL_OK) {
        pl_comm_fail(place.comm, status); /* nobody waits for this rank */
    }
    close_place(&place);
    return status;
}

static pl_status_t run_local(bench_t *bench)
{
    const pl_options_t *o = &bench->cli->options;
    int n                 = (int)o->ranks;

    PL_TRY(pl_comm_run_local(n, n, 1e-9 * (double)o->timeout_ns, &bench->log,
                             run_rank, bench));
    return tell(bench);
}

static int run_mpi(bench_t *bench)
{
    const pl_cli_t *cli      = bench->cli;
    place_t place            = {0};
    pl_mpi_session_t session = {0};
    pl_comm_t *base          = NULL;
    pl_status_t status;
    int exit_status;

    status = pl_mpi_session_open(NULL, NULL, &cli->log, &session);
    if (status == PL_OK) {
        status = pl_mpi_comm_open(&session, (int)cli->options.ranks,
                                  1e-9 * (double)cli->options.timeout_ns,
                                  &cli->log, &base);
    }
    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    status = open_place(bench, base, &place);
    if (status == PL_OK) {
        status = measure(bench, &place);
    }
    if (status == PL_OK) {
        status = tell(bench);
    }
    exit_status =
        pl_cli_agree_on_exit(bench->cli, &session, place.comm, status);
    close_place(&place);
    pl_comm_close(base);
    pl_mpi_session_close(&session);
    return exit_status;
}

/* ---- options ---- */

static pl_status_t refuse(const bench_t *bench, const char *text)
{
    pl_log(bench->cli->world.rank == 0 ? &bench->cli->log : NULL, PL_LOG_ERROR,
           "%s", text);
    return PL_ERR_ARGUMENT;
}

static pl_status_t fill_params(bench_t *bench)
{
    const pl_options_t *o = &bench->cli->options;
    bool is_cuda          = o->device == PL_OPT_DEVICE_CUDA;

    bench->comm = o->comm;
    if (o->comm == PL_OPT_COMM_AUTO) {
        bench->comm = is_cuda                      ? PL_OPT_COMM_AUTO
                      : bench->cli->world.launched ? PL_OPT_COMM_MPI
                                                   : PL_OPT_COMM_LOCAL;
    }
    if ((bench->comm == PL_OPT_COMM_NCCL) && !is_cuda) {
        return refuse(bench, "option --comm nccl: it is for GPUs; add --device "
                             "cuda, or use --comm peer");
    }
    if (is_cuda && ((bench->comm == PL_OPT_COMM_LOCAL) ||
                    (bench->comm == PL_OPT_COMM_MPI))) {
        return refuse(bench, "option --device cuda: local and mpi move host "
                             "memory alone; use --comm nccl or peer");
    }
    bench->params =
        (pl_transfer_params_t){.page_tokens = (int32_t)o->page_size,
                               .seed        = (uint64_t)o->seed,
                               .min         = (size_t)o->min_bytes,
                               .max         = (size_t)o->max_bytes,
                               .yardstick   = yardstick_of(bench->comm)};
    return PL_OK;
}

int pl_cli_bench_transfer(const pl_cli_t *cli)
{
    bench_t bench      = {.cli  = cli,
                          .said = ATOMIC_FLAG_INIT,
                          .log  = {write_first, &bench, cli->log.level}};
    pl_status_t status = fill_params(&bench);

    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    return cli->world.launched ? run_mpi(&bench)
                               : pl_status_exit(run_local(&bench));
}
