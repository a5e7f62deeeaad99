/* cli/inspect.h - the parts of `pagelane inspect`:
 *   inspect.c           the verb and its summary
 *   inspect_load.c      columns of a snapshot, checked
 *   inspect_requests.c  inspect_nodes.c  inspect_lanes.c   one table each
 *
 * A print function writes a table for people, or with `json` one JSON object,
 * to stdout.  Statuses: those of store/reader.h, PL_ERR_IO when stdout is full.
 */
#ifndef PL_CLI_INSPECT_H
#define PL_CLI_INSPECT_H

#include <json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/text.h"
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

PL_MUST_CHECK pl_status_t pl_inspect_requests(const pl_snapshot_t *snapshot,
                                              bool json);
PL_MUST_CHECK pl_status_t pl_inspect_nodes(const pl_snapshot_t *snapshot,
                                           bool json);
PL_MUST_CHECK pl_status_t pl_inspect_lanes(const pl_snapshot_t *snapshot,
                                           bool json);

/* What the summary says of /requests. */
typedef struct pl_inspect_requests {
    int64_t n, n_finished, n_failed;
    int64_t prompt_tokens, generated_tokens, device_hit_tokens, host_hit_tokens;
    int64_t end_ns; /* of the last to finish */
    double mean_ttft_ms, median_ttft_ms, p99_ttft_ms;
    double mean_e2el_ms, median_e2el_ms, p99_e2el_ms;
} pl_inspect_requests_t;
PL_MUST_CHECK pl_status_t pl_inspect_request_totals(
    const pl_snapshot_t *snapshot, pl_inspect_requests_t *totals_p);

/* Owners as runs: `0-2x3` is 0 0 0 1 1 1 2 2 2, `3x5` is 3 3 3 3 3, `2-0` is
 * 2 1 0.  After most_runs runs (0: no limit) it says how many pages are left.
 */
void pl_inspect_owners(pl_text_t *text, const int64_t *owners, size_t n,
                       size_t most_runs);

/* JSON.  The object belongs to the caller until it is printed, which also
 * releases it. */
void pl_inspect_add_integer(json_object *object, const char *key,
                            int64_t value);
void pl_inspect_add_real(json_object *object, const char *key, double value);
json_object *pl_inspect_array(const int64_t *items, size_t n);
PL_MUST_CHECK pl_status_t pl_inspect_print(json_object *object);

#endif /* PL_CLI_INSPECT_H */
