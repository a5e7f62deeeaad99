/* trace/other.h - files that are no traces, or none that can be read, and what
 * to do with them. */
#ifndef PL_TRACE_OTHER_H
#define PL_TRACE_OTHER_H

#include "trace/reader.h"

/* No reader knows the text: report what it is, if that can be told.  `first` is
 * as for pl_trace_reader_t.recognises.  PL_OK: nothing is known, and nothing
 * was reported; PL_ERR_INPUT. */
pl_status_t pl_trace_other(const pl_trace_source_t *source,
                           const struct json_object *first);

#endif /* PL_TRACE_OTHER_H */
