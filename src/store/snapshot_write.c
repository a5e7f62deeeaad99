/* Skeleton by rank 0, raw data by all ranks, then published whole. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/mpi_comm.h"
#include "store/file.h"
#include "store/h5.h"
#include "store/image.h"
#include "store/seal.h"
#include "store/snapshot_internal.h"

/* A run without a communicator is one process: rank 0, which agrees with
 * itself. */
static int rank_in(const pl_comm_t *comm)
{
    return comm == NULL ? 0 : comm->rank;
}

static pl_status_t agree(pl_comm_t *comm, pl_status_t mine)
{
    return comm == NULL ? mine : pl_comm_agree_status(comm, mine);
}

/* Do all ranks write? */
static bool is_parallel(const pl_comm_t *comm)
{
    return (comm != NULL) && (pl_mpi_comm_of(comm) != MPI_COMM_NULL);
}

/* ---- rank 0 alone ---- */

/* The file with all its data, or with room for it.  The seal of what it will be
 * comes back in `seal`. */
static pl_status_t write_image(const pl_content_t *content, bool with_data,
                               const char *partial, const pl_log_t *log,
                               char seal[PL_SEAL_BYTES])
{
    pl_image_t image = {0};
    pl_status_t status;

    PL_TRY(pl_image_make(content, partial, log, &image));
    pl_seal_text(pl_seal_digest(image.bytes, image.n), image.n, seal);
    status = pl_file_write(partial, image.bytes, image.n, image.raw,
                           with_data ? 0 : image.n_raw, log);
    pl_image_free(&image);
    return status;
}

static pl_status_t close_with_seal(const char *partial,
                                   const char seal[PL_SEAL_BYTES],
                                   const pl_log_t *log)
{
    PL_TRY(pl_file_append(partial, seal, PL_SEAL_BYTES, log));
    return pl_file_sync(partial, log);
}

/* ---- raw data, by all ranks of an MPI communicator ---- */

/* One dataset and this rank's rows of it, open. */
typedef struct share {
    hid_t dataset, type, memory, file;
    const void *data;
} share_t;

static void close_share(share_t *share)
{
    if (share->file >= 0) {
        (void)H5Sclose(share->file);
    }
    if (share->memory >= 0) {
        (void)H5Sclose(share->memory);
    }
    if (share->type >= 0) {
        (void)H5Tclose(share->type);
    }
    if (share->dataset >= 0) {
        (void)H5Dclose(share->dataset);
    }
}

/* Rows [first, first + n), n > 0. */
static herr_t open_share(hid_t file, const pl_dataset_t *dataset,
                         uint64_t first, uint64_t n, share_t *share)
{
    hsize_t start[2] = {first, 0};
    hsize_t count[2] = {n, dataset->dims[1]};
    size_t row_bytes = pl_item_bytes(dataset->item, dataset->text_bytes) *
                       (dataset->n_dims == 1 ? 1 : (size_t)dataset->dims[1]);

    share->file    = -1;
    share->memory  = H5Screate_simple(dataset->n_dims, count, NULL);
    share->type    = pl_h5_memory_type(dataset->item, dataset->text_bytes);
    share->dataset = H5Dopen2(file, dataset->path, H5P_DEFAULT);
    share->data    = (const char *)dataset->data + first * row_bytes;
    if (share->dataset >= 0) {
        share->file = H5Dget_space(share->dataset);
    }
    if ((share->dataset < 0) || (share->type < 0) || (share->memory < 0) ||
        (share->file < 0)) {
        return -1;
    }
    return H5Sselect_hyperslab(share->file, H5S_SELECT_SET, start, NULL, count,
                               NULL);
}

/* The place of the rows is known, so nobody waits for anybody. */
static pl_status_t write_rows(const pl_comm_t *comm, hid_t file, hid_t transfer,
                              const pl_dataset_t *dataset, const char *partial,
                              const pl_log_t *log)
{
    pl_status_t status = PL_OK;
    uint64_t first, n;
    share_t share;

    pl_dataset_rows(dataset, comm->rank, comm->n_ranks, &first, &n);
    if ((n == 0) || (pl_dataset_items(dataset) == 0)) {
        return PL_OK;
    }
    if ((open_share(file, dataset, first, n, &share) < 0) ||
        (H5Dwrite(share.dataset, share.type, share.memory, share.file, transfer,
                  share.data) < 0)) {
        status = pl_h5_failed(log, "write", partial);
    }
    close_share(&share);
    return status;
}

static pl_status_t write_datasets(const pl_comm_t *comm, hid_t file,
                                  const pl_content_t *content,
                                  const char *partial, const pl_log_t *log)
{
    hid_t transfer     = H5Pcreate(H5P_DATASET_XFER);
    pl_status_t status = PL_OK;

    if ((transfer < 0) ||
        (H5Pset_dxpl_mpio(transfer, H5FD_MPIO_INDEPENDENT) < 0)) {
        status = pl_h5_failed(log, "get a transfer list for", partial);
    }
    for (size_t i = 0; (status == PL_OK) && (i < content->datasets.n); i++) {
        status = write_rows(comm, file, transfer, &content->datasets.items[i],
                            partial, log);
    }
    if (transfer >= 0) {
        (void)H5Pclose(transfer);
    }
    return status;
}

/* Each rank sees the file that rank 0 has made: else its folder is not shared,
 * and the collective open would not be one. */
static pl_status_t check_shared(const char *partial, const pl_log_t *log)
{
    if (access(partial, R_OK | W_OK) != 0) {
        pl_log(log, PL_LOG_ERROR,
               "cannot find %s, which rank 0 has made; the folder of the "
               "snapshot must be one that all ranks see",
               partial);
        return PL_ERR_IO;
    }
    return PL_OK;
}

static hid_t open_together(MPI_Comm mpi, const char *partial)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file = -1;

    if (list >= 0) {
        if (H5Pset_fapl_mpio(list, mpi, MPI_INFO_NULL) >= 0) {
            file = H5Fopen(partial, H5F_ACC_RDWR, list);
        }
        (void)H5Pclose(list);
    }
    return file;
}

/* Prepare locally, agree, and only then call what is collective. */
static pl_status_t write_raw(const pl_content_t *content, pl_comm_t *comm,
                             const char *partial, const pl_log_t *log)
{
    pl_status_t status;
    hid_t file;

    PL_TRY(agree(comm, check_shared(partial, log)));
    file = open_together(pl_mpi_comm_of(comm), partial);
    PL_TRY(agree(comm, file < 0 ? pl_h5_failed(log, "open", partial) : PL_OK));
    status = write_datasets(comm, file, content, partial, log);
    if ((H5Fclose(file) < 0) && (status == PL_OK)) {
        status = pl_h5_failed(log, "write", partial);
    }
    if (status == PL_OK) {
        status = pl_file_sync(partial, log); /* what this rank has written */
    }
    return agree(comm, status);
}

pl_status_t pl_snapshot_write_partial(const pl_content_t *content,
                                      pl_comm_t *comm, const char *partial,
                                      const pl_log_t *log)
{
    bool together            = is_parallel(comm);
    bool is_first            = rank_in(comm) == 0;
    pl_status_t status       = PL_OK;
    pl_h5_quiet_t quiet      = {NULL, NULL};
    char seal[PL_SEAL_BYTES] = "";

    if (together || is_first) {
        quiet = pl_h5_quiet();
    }
    if (is_first) {
        status = write_image(content, !together, partial, log, seal);
    }
    status = agree(comm, status);
    if ((status == PL_OK) && together) {
        status = write_raw(content, comm, partial, log);
    }
    if ((status == PL_OK) && is_first) {
        status = close_with_seal(partial, seal, log);
    }
    if (together || is_first) {
        pl_h5_loud(quiet);
    }
    return agree(comm, status);
}

/* ---- from input to file ---- */

pl_status_t pl_snapshot_check_path(const char *path, const pl_log_t *log)
{
    return pl_file_check(path, "option --snapshot", log);
}

/* Rank 0's part of the last step. */
static pl_status_t publish(pl_comm_t *comm, const char *partial,
                           const char *path, const pl_log_t *log)
{
    pl_status_t status = PL_OK;

    if (rank_in(comm) == 0) {
        status = pl_file_publish(partial, path, log);
    }
    return agree(comm, status);
}

pl_status_t pl_snapshot_write(const pl_snapshot_input_t *input, pl_comm_t *comm,
                              const char *path, const pl_log_t *log)
{
    pl_content_t content = {0};
    char *partial        = NULL;
    int lock             = -1;
    pl_status_t status   = pl_file_partial(path, log, &partial);

    if ((status == PL_OK) && (rank_in(comm) == 0)) {
        status = pl_file_lock(partial, log, &lock);
    }
    if ((status == PL_OK) && ((rank_in(comm) == 0) || is_parallel(comm))) {
        status = pl_snapshot_content(input, log, &content);
    }
    status = agree(comm, status);
    if (status == PL_OK) {
        status = pl_snapshot_write_partial(&content, comm, partial, log);
        if (status == PL_OK) {
            status = publish(comm, partial, path, log);
        }
    }
    if ((status != PL_OK) && (lock >= 0)) {
        pl_file_discard(partial);
    }
    pl_file_unlock(lock);
    free(partial);
    pl_content_free(&content);
    return status;
}
