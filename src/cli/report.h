/* cli/report.h - what a run came to, as tables and JSON: the same words whether
 * the run has just ended (run) or stands in a snapshot (inspect).
 *
 * Tables go to stdout with an empty line behind each.  PL_OK, PL_ERR_MEMORY,
 * PL_ERR_IO.
 */
#ifndef PL_CLI_REPORT_H
#define PL_CLI_REPORT_H

#include "cli/json.h"
#include "cli/table.h"
#include "sim/metrics.h"

PL_MUST_CHECK pl_status_t pl_report_hits(const pl_metrics_t *metrics);
PL_MUST_CHECK pl_status_t pl_report_misses(const pl_metrics_t *metrics);
PL_MUST_CHECK pl_status_t pl_report_times(const pl_metrics_t *metrics);

/* Print a table, an empty line behind it, and close it. */
PL_MUST_CHECK pl_status_t pl_report_table(pl_table_t *table);

/* Why pages were missed, in words. */
const char *pl_report_miss_text(pl_miss_t miss);

/* The members that say the same as the tables, with vLLM's names where it has
 * one. */
void pl_report_json(json_object *object, const pl_metrics_t *metrics);

#endif /* PL_CLI_REPORT_H */
