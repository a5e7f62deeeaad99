#define _XOPEN_SOURCE 700 /* sync */
#include "store/tier_bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/segment.h"
#include "store/tier.h"
#include "store/tier_folder.h"

enum {
    N_RANKS    = 4,
    RANK_PAGES = 500,
    OP_PAGES   = 25, /* of one write or read */
    IN_FLIGHT  = 8,  /* operations of a rank */
    N_OPS      = RANK_PAGES / OP_PAGES,
    N_TIMES    = 5
};

typedef struct bench bench_t;

/* One rank, its memory, and its way to the disk. */
typedef struct side {
    bench_t *bench;
    int rank;
    uint8_t *bytes; /* OP_PAGES pages, all layers and stores */
    pl_files_t *files;
    pl_storage_door_t *door;
    pl_status_t (*work)(struct side *side);
    pl_status_t status;
    pthread_t thread;
    bool is_running;
} side_t;

struct bench {
    const pl_log_t *log;
    pl_tier_bench_result_t result;
    pl_store_layout_t layout;
    pl_tier_identity_t identity;
    int32_t n_pieces;
    char folder[512];
    side_t sides[N_RANKS];
    double times[4][N_TIMES]; /* write, plain write, read, plain read; s */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static pl_status_t failed_at(const bench_t *bench, const char *what, int failed)
{
    pl_log(bench->log, PL_LOG_ERROR, "bench: cannot %s in %s: %s", what,
           bench->folder, strerror(failed));
    return PL_ERR_IO;
}

/* ---- all ranks at once ---- */

static void *run_side(void *context)
{
    side_t *side = context;

    side->status = side->work(side);
    return NULL;
}

static pl_status_t run_all(bench_t *bench, pl_status_t (*work)(side_t *),
                           double *seconds_p)
{
    double begin       = now();
    pl_status_t status = PL_OK;

    for (int rank = 0; rank < N_RANKS; rank++) {
        side_t *side = &bench->sides[rank];

        side->work = work;
        side->is_running =
            pthread_create(&side->thread, NULL, run_side, side) == 0;
        side->status = side->is_running ? PL_OK : PL_ERR_RESOURCE;
    }
    for (int rank = 0; rank < N_RANKS; rank++) {
        side_t *side = &bench->sides[rank];

        if (side->is_running) {
            (void)pthread_join(side->thread, NULL);
        }
        status = status == PL_OK ? side->status : status;
    }
    *seconds_p = now() - begin;
    return status == PL_ERR_IO ? failed_at(bench, "move pages", EIO) : status;
}

/* ---- through the tier ---- */

typedef struct op {
    pl_storage_place_t places[OP_PAGES];
    pl_storage_header_t headers[OP_PAGES];
    pl_storage_piece_t *pieces;
    int64_t ticket;
} op_t;

/* Operation o of a rank: OP_PAGES slots in a row. */
static pl_storage_io_t prepare(const side_t *side, int o, op_t *op)
{
    const bench_t *bench = side->bench;
    uint8_t *at          = side->bytes;
    int32_t n            = 0;

    for (int i = 0; i < OP_PAGES; i++) {
        op->places[i]  = (pl_storage_place_t){0, side->rank, o * OP_PAGES + i};
        op->headers[i] = (pl_storage_header_t){1 + o, (uint64_t)i, 0};
        for (int which = 0; which < PL_STORES; which++) {
            for (int32_t layer = 0; layer < bench->layout.n_layers; layer++) {
                size_t stride   = pl_store_stride(&bench->layout, which);
                op->pieces[n++] = (pl_storage_piece_t){at, stride};
                at += stride;
            }
        }
    }
    return (pl_storage_io_t){.n_pages  = OP_PAGES,
                             .places   = op->places,
                             .headers  = op->headers,
                             .pieces   = op->pieces,
                             .n_pieces = bench->n_pieces};
}

static pl_status_t end_op(const side_t *side, op_t *op)
{
    pl_storage_end_t end = {0};

    if (op->ticket > 0) {
        PL_TRY(side->door->ops->wait(side->door, op->ticket, &end));
    }
    op->ticket = 0;
    return (end.bad | end.unread) == 0 ? PL_OK
                                       : PL_ERR_IO; /* said by run_all */
}

/* All pages of a rank, some operations ahead. */
static pl_status_t move_all(side_t *side, bool writes)
{
    op_t *ops = calloc(IN_FLIGHT, sizeof(*ops));
    pl_storage_piece_t *pieces =
        calloc((size_t)IN_FLIGHT * OP_PAGES * (size_t)side->bench->n_pieces,
               sizeof(*pieces));
    pl_status_t status =
        (ops == NULL) || (pieces == NULL) ? PL_ERR_MEMORY : PL_OK;

    for (int o = 0; (status == PL_OK) && (o < N_OPS); o++) {
        op_t *op = &ops[o % IN_FLIGHT];
        pl_storage_io_t io;

        status     = end_op(side, op);
        op->pieces = pieces + (size_t)(o % IN_FLIGHT) * OP_PAGES *
                                  (size_t)side->bench->n_pieces;
        io = prepare(side, o, op);
        if (status == PL_OK) {
            status = writes
                         ? side->door->ops->write(side->door, &io, &op->ticket)
                         : side->door->ops->read(side->door, &io, &op->ticket);
        }
    }
    for (int i = 0; (ops != NULL) && (i < IN_FLIGHT); i++) {
        pl_status_t ended = end_op(side, &ops[i]);

        status = status == PL_OK ? ended : status;
    }
    free(pieces);
    free(ops);
    return status;
}

static pl_status_t write_tier(side_t *side)
{
    return move_all(side, true);
}

static pl_status_t read_tier(side_t *side)
{
    return move_all(side, false);
}

/* ---- plainly ---- */

static int open_plain(const side_t *side, int number, int flags)
{
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/plain-%d-%d", side->bench->folder,
                   side->rank, number);
    return open(path, flags | O_CLOEXEC, 0666);
}

/* Pages that the tier has in one file. */
static int32_t pages_of_file(const bench_t *bench, int number)
{
    int32_t slots = pl_segment_slots(bench->result.page_bytes);
    int32_t left  = RANK_PAGES - number * slots;

    return left < slots ? left : slots;
}

/* A file of the same size, with syncs after equal shares. */
static bool write_file(const side_t *side, int fd, int32_t n_pages, int n_syncs)
{
    size_t n  = (size_t)side->bench->result.page_bytes;
    int32_t i = 0;

    if (posix_fallocate(fd, 0, (off_t)((size_t)n_pages * n)) != 0) {
        return false;
    }
    for (int s = 1; s <= n_syncs; s++) {
        int32_t end = (int32_t)((int64_t)n_pages * s / n_syncs);

        while (i < end) {
            int32_t some = end - i < OP_PAGES ? end - i : OP_PAGES;

            if (pwrite(fd, side->bytes, (size_t)some * n,
                       (off_t)((size_t)i * n)) != (ssize_t)((size_t)some * n)) {
                return false;
            }
            i += some;
        }
        if (fdatasync(fd) != 0) {
            return false;
        }
    }
    return true;
}

static pl_status_t write_plain(side_t *side)
{
    int64_t n_files =
        (RANK_PAGES + pl_segment_slots(side->bench->result.page_bytes) - 1) /
        pl_segment_slots(side->bench->result.page_bytes);
    int64_t syncs = side->bench->result.n_syncs / N_RANKS;

    for (int f = 0; f < n_files; f++) {
        int fd    = open_plain(side, f, O_RDWR | O_CREAT | O_TRUNC);
        int share = (int)(syncs * (f + 1) / n_files - syncs * f / n_files);
        bool good =
            (fd >= 0) && write_file(side, fd, pages_of_file(side->bench, f),
                                    share > 0 ? share : 1);

        if (fd >= 0) {
            (void)close(fd);
        }
        if (!good) {
            return PL_ERR_IO;
        }
    }
    return PL_OK;
}

static pl_status_t read_plain(side_t *side)
{
    size_t n = (size_t)side->bench->result.page_bytes;

    for (int f = 0; pages_of_file(side->bench, f) > 0; f++) {
        int32_t n_pages = pages_of_file(side->bench, f);
        int fd          = open_plain(side, f, O_RDONLY);
        bool good       = fd >= 0;

        for (int32_t i = 0; good && (i < n_pages); i += OP_PAGES) {
            int32_t some = n_pages - i < OP_PAGES ? n_pages - i : OP_PAGES;

            good = pread(fd, side->bytes, (size_t)some * n,
                         (off_t)((size_t)i * n)) == (ssize_t)((size_t)some * n);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
        if (!good) {
            return PL_ERR_IO;
        }
    }
    return PL_OK;
}

/* ---- the folder ---- */

/* The kernel lets go of what it holds of all files, or they are removed. */
static void each_file(const bench_t *bench, bool removes)
{
    DIR *open_folder = opendir(bench->folder);
    struct dirent *entry;

    while ((open_folder != NULL) && ((entry = readdir(open_folder)) != NULL)) {
        char *path = pl_tier_path(bench->folder, entry->d_name);
        int fd =
            path == NULL || removes ? -1 : open(path, O_RDONLY | O_CLOEXEC);

        if ((path != NULL) && removes && (entry->d_name[0] != '.')) {
            (void)pl_files_unlink(NULL, path);
        }
        if (fd >= 0) {
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            (void)close(fd);
        }
        free(path);
    }
    if (open_folder != NULL) {
        (void)closedir(open_folder);
    }
}

static pl_status_t open_door(side_t *side)
{
    bench_t *bench                = side->bench;
    const pl_tier_params_t params = {.folder   = bench->folder,
                                     .identity = bench->identity,
                                     .n_ranks  = N_RANKS,
                                     .n_slots  = RANK_PAGES,
                                     .rank     = side->rank,
                                     .files    = side->files,
                                     .log      = bench->log};

    return pl_tier_open(&params, &side->door);
}

static void close_side(side_t *side)
{
    if (side->door != NULL) {
        side->door->ops->close(side->door);
        side->door = NULL;
    }
    pl_files_close(side->files);
    side->files = NULL;
}

/* ---- the whole ---- */

/* Doors are opened anew, so that what they hold open is opened in the time. */
static pl_status_t open_sides(bench_t *bench)
{
    for (int rank = 0; rank < N_RANKS; rank++) {
        side_t *side = &bench->sides[rank];

        PL_TRY(pl_files_open(NULL, rank, NULL, &side->files));
        PL_TRY(open_door(side));
    }
    return PL_OK;
}

static int64_t count_syncs(const bench_t *bench)
{
    int64_t n = 0;

    for (int rank = 0; rank < N_RANKS; rank++) {
        n += pl_files_syncs(bench->sides[rank].files);
    }
    return n;
}

/* Tier and plain files in turn, so that neither is always the first; each
 * begins when the disk has nothing to do. */
static pl_status_t time_both(bench_t *bench, int i, int first,
                             pl_status_t (*tier)(side_t *),
                             pl_status_t (*plain)(side_t *))
{
    for (int k = 0; k < 2; k++) {
        bool is_plain = (i + k) % 2 != 0;

        sync();
        PL_TRY(run_all(bench, is_plain ? plain : tier,
                       &bench->times[first + (is_plain ? 1 : 0)][i]));
        if (!is_plain && (first == 0)) {
            bench->result.n_syncs = count_syncs(bench);
        }
    }
    return PL_OK;
}

static pl_status_t once(bench_t *bench, int i)
{
    each_file(bench, true);
    PL_TRY(open_sides(bench));
    PL_TRY(time_both(bench, i, 0, write_tier, write_plain));
    each_file(bench, false);
    PL_TRY(time_both(bench, i, 2, read_tier, read_plain));
    for (int rank = 0; rank < N_RANKS; rank++) {
        close_side(&bench->sides[rank]);
    }
    return PL_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_mb_s(const bench_t *bench, int which)
{
    double times[N_TIMES];

    memcpy(times, bench->times[which], sizeof(times));
    qsort(times, N_TIMES, sizeof(*times), by_value);
    return (double)(bench->result.n_pages * bench->result.page_bytes) / 1e6 /
           times[N_TIMES / 2];
}

/* DeepSeek-V3.2's rows in fp8, four layers. */
static pl_status_t set_up(bench_t *bench)
{
    const char *where = getenv("TMPDIR");

    bench->layout   = (pl_store_layout_t){.page_tokens       = 64,
                                          .n_layers          = 4,
                                          .latent_row_bytes  = 656,
                                          .index_key_bytes   = 128,
                                          .index_scale_bytes = 4,
                                          .n_slots           = 1};
    bench->identity = (pl_tier_identity_t){
        .model = "bench", .tokens = "none", .dtype = "fp8"};
    pl_tier_identity_layout(&bench->identity, &bench->layout);
    bench->n_pieces          = 2 * bench->layout.n_layers;
    bench->result.n_ranks    = N_RANKS;
    bench->result.n_pages    = (int64_t)N_RANKS * RANK_PAGES;
    bench->result.page_bytes = bench->identity.page_bytes;
    (void)snprintf(
        bench->folder, sizeof(bench->folder), "%s/pagelane-bench-%ld",
        (where != NULL) && (where[0] != '\0') ? where : ".", (long)getpid());
    for (int rank = 0; rank < N_RANKS; rank++) {
        side_t *side = &bench->sides[rank];
        size_t n     = OP_PAGES * (size_t)bench->result.page_bytes;

        side->bench = bench;
        side->rank  = rank;
        side->bytes = malloc(n);
        if (side->bytes == NULL) {
            pl_log(bench->log, PL_LOG_ERROR, "bench: out of memory");
            return PL_ERR_MEMORY;
        }
        memset(side->bytes, 1 + rank, n);
    }
    return PL_OK;
}

pl_status_t pl_tier_bench(const pl_log_t *log, pl_tier_bench_result_t *result_p)
{
    bench_t *bench = calloc(1, sizeof(*bench));
    pl_status_t status;
    int failed;

    if (bench == NULL) {
        pl_log(log, PL_LOG_ERROR, "bench: out of memory");
        return PL_ERR_MEMORY;
    }
    bench->log = log;
    PL_TRY_GOTO(status, set_up(bench), out);
    failed = pl_files_mkdir(NULL, bench->folder);
    if (failed != 0) {
        status = failed_at(bench, "make a folder", failed);
        goto out;
    }
    for (int i = 0; (status == PL_OK) && (i < N_TIMES); i++) {
        status = once(bench, i);
    }
    if (status == PL_OK) {
        bench->result.write_mb_s       = median_mb_s(bench, 0);
        bench->result.plain_write_mb_s = median_mb_s(bench, 1);
        bench->result.read_mb_s        = median_mb_s(bench, 2);
        bench->result.plain_read_mb_s  = median_mb_s(bench, 3);
        *result_p                      = bench->result;
    }
    for (int rank = 0; rank < N_RANKS; rank++) {
        close_side(&bench->sides[rank]);
    }
    each_file(bench, true);
    (void)rmdir(bench->folder);

out:
    for (int rank = 0; rank < N_RANKS; rank++) {
        free(bench->sides[rank].bytes);
    }
    free(bench);
    return status;
}
