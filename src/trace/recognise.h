/* trace/recognise.h - which format a text is of. */
#ifndef PL_TRACE_RECOGNISE_H
#define PL_TRACE_RECOGNISE_H

#include "trace/reader.h"

/* By its content.  PL_OK, PL_ERR_INPUT (reported: what it is, or what would be
 * a trace), PL_ERR_MEMORY. */
pl_status_t pl_trace_recognise(const pl_trace_source_t *source,
                               const pl_trace_reader_t **reader_p);

#endif /* PL_TRACE_RECOGNISE_H */
