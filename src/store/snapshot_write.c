/* All by rank 0 but what ranks have for themselves; then published whole. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/mpi_comm.h"
#include "store/file.h"
#include "store/h5.h"
#include "store/image.h"
#include "store/pack.h"
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

pl_status_t pl_snapshot_image(const pl_content_t *content, const char *name,
                              const pl_log_t *log, pl_image_t *image_p)
{
    pl_pack_t pack = {0};
    pl_status_t status;

    status = pl_pack_open(content, &pack);
    if (status == PL_OK) {
        status = pl_pack_step(&pack, SIZE_MAX, pl_pack_threads());
    }
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", name);
    } else {
        status = pl_image_make(&pack, name, log, image_p);
    }
    pl_pack_close(&pack);
    return status;
}

/* The file with all its data, or with room for what ranks have for themselves.
 * The seal of what it will be comes back in `seal`. */
static pl_status_t write_image(pl_files_t *files, const pl_content_t *content,
                               bool with_data, const char *partial,
                               const pl_log_t *log, char seal[PL_SEAL_BYTES])
{
    pl_image_t image = {0};
    pl_status_t status;

    PL_TRY(pl_snapshot_image(content, partial, log, &image));
    pl_seal_text(pl_seal_digest(image.bytes, image.n), image.n, seal);
    status = pl_files_put(files, partial, image.bytes, image.n, image.raw,
                          with_data ? 0 : image.n_raw, log);
    pl_image_free(&image);
    return status;
}

static pl_status_t close_with_seal(pl_files_t *files, const char *partial,
                                   const char seal[PL_SEAL_BYTES],
                                   const pl_log_t *log)
{
    PL_TRY(pl_files_append(files, partial, seal, PL_SEAL_BYTES, log));
    return pl_files_sync_path(files, partial, log);
}

/* ---- raw data, by all ranks of an MPI communicator ---- */

/* Its place is known, so nobody waits for anybody. */
static herr_t write_whole(hid_t file, hid_t transfer,
                          const pl_dataset_t *dataset)
{
    hid_t id      = H5Dopen2(file, dataset->path, H5P_DEFAULT);
    hid_t type    = pl_h5_memory_type(dataset->item, dataset->text_bytes);
    herr_t failed = -1;

    if ((id >= 0) && (type >= 0)) {
        failed = H5Dwrite(id, type, H5S_ALL, H5S_ALL, transfer, dataset->data);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    if (id >= 0) {
        (void)H5Dclose(id);
    }
    return failed;
}

static bool is_mine(const pl_comm_t *comm, const pl_dataset_t *dataset)
{
    return (dataset->writer != PL_REPLICATED) &&
           (dataset->writer % comm->n_ranks == comm->rank) &&
           (pl_dataset_bytes(dataset) > 0);
}

static pl_status_t write_mine(pl_files_t *files, hid_t file, hid_t transfer,
                              const pl_dataset_t *dataset, const char *partial,
                              const pl_log_t *log)
{
    int failed = pl_files_foreign_write(files);

    if (failed != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot write %s: %s", partial,
               strerror(failed));
        return PL_ERR_IO;
    }
    return write_whole(file, transfer, dataset) < 0
               ? pl_h5_failed(log, "write", partial)
               : PL_OK;
}

static pl_status_t write_datasets(pl_files_t *files, const pl_comm_t *comm,
                                  hid_t file, const pl_content_t *content,
                                  const char *partial, const pl_log_t *log)
{
    hid_t transfer     = H5Pcreate(H5P_DATASET_XFER);
    pl_status_t status = PL_OK;

    if ((transfer < 0) ||
        (H5Pset_dxpl_mpio(transfer, H5FD_MPIO_INDEPENDENT) < 0)) {
        status = pl_h5_failed(log, "get a transfer list for", partial);
    }
    for (size_t i = 0; (status == PL_OK) && (i < content->datasets.n); i++) {
        const pl_dataset_t *dataset = &content->datasets.items[i];

        if (is_mine(comm, dataset)) {
            status = write_mine(files, file, transfer, dataset, partial, log);
        }
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
static pl_status_t write_raw(pl_files_t *files, const pl_content_t *content,
                             pl_comm_t *comm, const char *partial,
                             const pl_log_t *log)
{
    pl_status_t status;
    hid_t file;

    PL_TRY(agree(comm, check_shared(partial, log)));
    file = open_together(pl_mpi_comm_of(comm), partial);
    PL_TRY(agree(comm, file < 0 ? pl_h5_failed(log, "open", partial) : PL_OK));
    status = write_datasets(files, comm, file, content, partial, log);
    if ((H5Fclose(file) < 0) && (status == PL_OK)) {
        status = pl_h5_failed(log, "write", partial);
    }
    if (status == PL_OK) {
        status = pl_files_sync_path(files, partial,
                                    log); /* what this rank has written */
    }
    return agree(comm, status);
}

static pl_status_t write_partial(pl_files_t *files, const pl_content_t *content,
                                 pl_comm_t *comm, const char *partial,
                                 const pl_log_t *log)
{
    bool together            = is_parallel(comm);
    bool is_first            = rank_in(comm) == 0;
    pl_status_t status       = PL_OK;
    char seal[PL_SEAL_BYTES] = "";
    pl_h5_quiet_t quiet;

    if (is_first) {
        quiet  = pl_h5_quiet();
        status = write_image(files, content, !together, partial, log, seal);
        pl_h5_loud(quiet);
    }
    status = agree(comm, status);
    if ((status == PL_OK) && together) {
        quiet  = pl_h5_quiet(); /* the others are processes of their own */
        status = write_raw(files, content, comm, partial, log);
        pl_h5_loud(quiet);
    }
    if ((status == PL_OK) && is_first) {
        status = close_with_seal(files, partial, seal, log);
    }
    return agree(comm, status);
}

pl_status_t pl_snapshot_write_partial(const pl_content_t *content,
                                      pl_comm_t *comm, const char *partial,
                                      const pl_log_t *log)
{
    return write_partial(NULL, content, comm, partial, log);
}

/* ---- from input to file ---- */

pl_status_t pl_snapshot_check_path(const char *path, const pl_log_t *log)
{
    return pl_file_check(path, "option --snapshot", log);
}

/* Rank 0's part of the last step. */
static pl_status_t publish(pl_files_t *files, pl_comm_t *comm,
                           const char *partial, const char *path,
                           const pl_log_t *log)
{
    pl_status_t status = PL_OK;

    if (rank_in(comm) == 0) {
        status = pl_files_publish(files, partial, path, log);
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
        status = write_partial(input->files, &content, comm, partial, log);
        if (status == PL_OK) {
            status = publish(input->files, comm, partial, path, log);
        }
    }
    if ((status != PL_OK) && (lock >= 0)) {
        pl_files_discard(input->files, partial);
    }
    pl_file_unlock(lock);
    free(partial);
    pl_content_free(&content);
    return status;
}
