/* trace/unpack.h - files packed by gzip or zstd, told by their first bytes. */
#ifndef PL_TRACE_UNPACK_H
#define PL_TRACE_UNPACK_H

#include "trace/reader.h"

/* If source->text is packed, unpack it: source then says what is inside, and
 * *owned_p is to be freed by the caller; else it is NULL.  PL_OK, PL_ERR_INPUT
 * (damaged, or packed by what this program was built without; reported),
 * PL_ERR_MEMORY. */
pl_status_t pl_trace_unpack(pl_trace_source_t *source, char **owned_p);

#endif /* PL_TRACE_UNPACK_H */
