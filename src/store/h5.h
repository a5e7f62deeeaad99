/* store/h5.h - HDF5 calls with our statuses; inside store.
 *
 * HDF5 keeps its own stack of errors and prints it on every rank unless told
 * not to.  Here it is silent (pl_h5_quiet ... pl_h5_loud around all calls), and
 * the first place that sees a failure says one line with the reason that HDF5
 * gives.
 *
 * HDF5 is not thread-safe.  pl_h5_quiet waits until no other thread of the
 * process is between the two, so wait in between for nobody who may come here;
 * a thread may nest them.
 */
#ifndef PL_STORE_H5_H
#define PL_STORE_H5_H

#include <hdf5.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "store/content.h"

typedef struct pl_h5_quiet {
    H5E_auto2_t print;
    void *context;
} pl_h5_quiet_t;

pl_h5_quiet_t pl_h5_quiet(void);
void pl_h5_loud(pl_h5_quiet_t quiet);

/* The innermost reason of the last failure, into text. */
void pl_h5_reason(char *text, size_t n);

/* One line "cannot WHAT FILE: reason"; returns PL_ERR_IO. */
pl_status_t pl_h5_failed(const pl_log_t *log, const char *what,
                         const char *file);

/* The type of an item in the file (little-endian), for the caller to close;
 * negative: failed. */
hid_t pl_h5_file_type(pl_item_t item, size_t text_bytes);
/* The same in memory. */
hid_t pl_h5_memory_type(pl_item_t item, size_t text_bytes);

/* Attributes of an object.  Negative: failed. */
herr_t pl_h5_put_text(hid_t object, const char *name, const char *text);
herr_t pl_h5_put_integers(hid_t object, const char *name,
                          const int64_t *integers, int n); /* 0: a scalar */
herr_t pl_h5_put_unsigned(hid_t object, const char *name, uint64_t value);
/* DIMENSION_LABELS as H5DSset_label writes it. */
herr_t pl_h5_put_labels(hid_t dataset, const char *const *labels, int n);

#endif /* PL_STORE_H5_H */
