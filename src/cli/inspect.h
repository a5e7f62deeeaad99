/* cli/inspect.h - the parts of `pagelane inspect`:
 *   inspect.c           the verb and its summary
 *   inspect_load.c  inspect_records.c   columns of a snapshot, checked
 *   inspect_requests.c  inspect_nodes.c  inspect_lanes.c   one table each
 *
 * A print function writes a table for people, or with `json` one JSON object,
 * to stdout.  Statuses: those of store/reader.h, PL_ERR_IO when stdout is full.
 */
#ifndef PL_CLI_INSPECT_H
#define PL_CLI_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "engine/engine.h"
#include "store/reader.h"

/* /layout */
typedef struct pl_inspect_layout {
    int64_t n_lanes, n_homes, first_home, n_decode_ranks;
    int64_t page_tokens, chunk_tokens;
    int64_t device_pages, host_pages, decode_pages, decode_host_pages;
    int64_t device_reserved, host_reserved, decode_reserved,
        decode_host_reserved;
} pl_inspect_layout_t;

PL_MUST_CHECK pl_status_t pl_inspect_layout(const pl_snapshot_t *snapshot,
                                            pl_inspect_layout_t *layout_p);

/* Some datasets of one group that have the same number of rows. */
typedef struct pl_inspect_spec {
    const char *name;
    pl_item_t item;
} pl_inspect_spec_t;

/* Reads n of them into columns[n] (zeroed before); *rows_p is their length.
 * After any status pl_inspect_free releases them. */
PL_MUST_CHECK pl_status_t pl_inspect_columns(const pl_snapshot_t *snapshot,
                                             const char *group,
                                             const pl_inspect_spec_t *specs,
                                             size_t n,
                                             pl_snapshot_column_t *columns,
                                             size_t *rows_p);
void pl_inspect_free(pl_snapshot_column_t *columns, size_t n);

/* What a view is given. */
typedef struct pl_inspect {
    const pl_cli_t *cli;
    const pl_snapshot_t *snapshot;
    bool json;
} pl_inspect_t;

PL_MUST_CHECK pl_status_t pl_inspect_requests(const pl_inspect_t *inspect);
PL_MUST_CHECK pl_status_t pl_inspect_nodes(const pl_inspect_t *inspect);
PL_MUST_CHECK pl_status_t pl_inspect_lanes(const pl_inspect_t *inspect);
PL_MUST_CHECK pl_status_t pl_inspect_page(const pl_inspect_t *inspect);
PL_MUST_CHECK pl_status_t pl_inspect_why(const pl_inspect_t *inspect);
/* PL_ERR_VIOLATION: they differ (told). */
PL_MUST_CHECK pl_status_t pl_inspect_diff(const pl_inspect_t *inspect);

/* Word i of the command line as a whole number from 0 to `most`; one line that
 * says what it is, else, and PL_ERR_ARGUMENT. */
PL_MUST_CHECK pl_status_t pl_inspect_number(const pl_inspect_t *inspect,
                                            size_t i, const char *what,
                                            int64_t most, int64_t *number_p);

/* /requests; the caller frees *records_p.  Prompts have a token or more, and
 * times are -1 or small enough to be subtracted. */
PL_MUST_CHECK pl_status_t pl_inspect_records(const pl_snapshot_t *snapshot,
                                             pl_record_t **records_p,
                                             int32_t *n_p);
/* All members of a record under the names of their columns. */
void pl_inspect_record_json(json_object *object, const pl_record_t *record);

/* Owners as runs: `0-2x3` is 0 0 0 1 1 1 2 2 2, `3x5` is 3 3 3 3 3, `2-0` is
 * 2 1 0.  After most_runs runs (0: no limit) it says how many pages are left.
 */
void pl_inspect_owners(pl_text_t *text, const int64_t *owners, size_t n,
                       size_t most_runs);

#endif /* PL_CLI_INSPECT_H */
