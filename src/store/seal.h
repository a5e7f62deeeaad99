/* store/seal.h - a last line behind a finished file that tells if it is whole.
 *
 * HDF5 trusts the structure of a file it opens: damage there can bring down the
 * process that reads it.  So a finished file ends with a seal, PL_SEAL_BYTES of
 * text with the digest of all bytes before, and a reader looks at it first.
 * HDF5 takes no notice of bytes behind its own, and cuts them off when it opens
 * a file for writing: who edits a file breaks the seal by that, and a file
 * without one is read all the same.
 *
 * Not collective.  One line on failure.
 */
#ifndef PL_STORE_SEAL_H
#define PL_STORE_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#define PL_SEAL_BYTES 64

/* Of a file with these bytes. */
uint64_t pl_seal_digest(const void *bytes, uint64_t n);

/* The text of the seal behind n bytes with that digest, final newline and no
 * NUL. */
void pl_seal_text(uint64_t digest, uint64_t n, char text[PL_SEAL_BYTES]);

/* Does what stands at a file's end, text[PL_SEAL_BYTES], begin as a seal does?
 * Whether it is the right one is not looked at. */
bool pl_seal_is(const char text[PL_SEAL_BYTES]);

/* Is it the seal of a file with n bytes before it, whatever these are?  To ask
 * before so many are read. */
bool pl_seal_fits(const char text[PL_SEAL_BYTES], uint64_t n);

/* PL_OK: whole, or without a seal.  PL_ERR_INPUT: not what was written, or it
 * cannot be read.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_seal_check(const char *path, const pl_log_t *log);

/* Do its last bytes read as a seal of those before?  (Whether these are the
 * bytes that were sealed tells pl_seal_check.)  PL_OK; PL_ERR_INPUT: it cannot
 * be read; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_seal_find(const char *path, const pl_log_t *log,
                                       bool *is_there_p);

#endif /* PL_STORE_SEAL_H */
