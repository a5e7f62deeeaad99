/* Columns of a snapshot, checked; and what all its tables use. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/inspect.h"

/* ---- layout ---- */

pl_status_t pl_inspect_layout(const pl_snapshot_t *snapshot,
                              pl_inspect_layout_t *layout_p)
{
    pl_inspect_layout_t layout;
    const struct {
        const char *name;
        int64_t *value;
        int64_t min, max;
    } facts[] = {
        {"n_lanes", &layout.n_lanes, 1,
         pl_snapshot_has(snapshot, "/instances") ? INT32_MAX : 127},
        {"n_homes", &layout.n_homes, 1, INT32_MAX},
        {"first_home", &layout.first_home, 0, INT32_MAX},
        {"n_decode_ranks", &layout.n_decode_ranks, 0, INT32_MAX},
        {"page_tokens", &layout.page_tokens, 1, INT32_MAX},
        {"chunk_tokens", &layout.chunk_tokens, 1, INT32_MAX},
        {"device_pages", &layout.device_pages, 1, INT32_MAX},
        {"host_pages", &layout.host_pages, 0, INT32_MAX},
        {"decode_pages", &layout.decode_pages, 0, INT32_MAX},
        {"decode_host_pages", &layout.decode_host_pages, 0, INT32_MAX},
        {"device_reserved", &layout.device_reserved, 0, INT32_MAX},
        {"host_reserved", &layout.host_reserved, 0, INT32_MAX},
        {"decode_reserved", &layout.decode_reserved, 0, INT32_MAX},
        {"decode_host_reserved", &layout.decode_host_reserved, 0, INT32_MAX},
    };

    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        PL_TRY(pl_snapshot_integer(snapshot, "/layout", facts[i].name,
                                   facts[i].min, facts[i].max, facts[i].value));
    }
    *layout_p = layout;
    return PL_OK;
}

/* ---- columns ---- */

pl_status_t pl_inspect_columns(const pl_snapshot_t *snapshot, const char *group,
                               const pl_inspect_spec_t *specs, size_t n,
                               pl_snapshot_column_t *columns, size_t *rows_p)
{
    size_t rows = PL_ANY_ROWS;

    for (size_t i = 0; i < n; i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s", group, specs[i].name);
        PL_TRY(pl_snapshot_read(snapshot, path, specs[i].item, rows, 0,
                                &columns[i]));
        rows = columns[i].rows;
    }
    *rows_p = rows;
    return PL_OK;
}

void pl_inspect_free(pl_snapshot_column_t *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pl_snapshot_column_free(&columns[i]);
    }
}

/* ---- owners ---- */

static size_t run_length(const int64_t *owners, size_t n)
{
    size_t length = 1;

    while ((length < n) && (owners[length] == owners[0])) {
        length++;
    }
    return length;
}

/* The next group of runs: equal lengths, owners going up or down by one. */
static size_t add_group(pl_text_t *text, const int64_t *owners, size_t n)
{
    size_t length = run_length(owners, n);
    size_t end    = length;
    int64_t step  = 0;

    while (end < n) {
        int64_t change = owners[end] - owners[end - 1];

        if ((run_length(owners + end, n - end) != length) ||
            ((change != 1) && (change != -1)) ||
            ((step != 0) && (change != step))) {
            break;
        }
        step = change;
        end += length;
    }
    pl_text_add(text, "%" PRId64, owners[0]);
    if (end > length) {
        pl_text_add(text, "-%" PRId64, owners[end - 1]);
    }
    if (length > 1) {
        pl_text_add(text, "x%zu", length);
    }
    return end;
}

void pl_inspect_owners(pl_text_t *text, const int64_t *owners, size_t n,
                       size_t most_runs)
{
    size_t at = 0;

    for (size_t runs = 0; at < n; runs++) {
        if ((most_runs > 0) && (runs == most_runs)) {
            pl_text_add(text, " +%zu", n - at);
            return;
        }
        pl_text_add(text, "%s", at > 0 ? " " : "");
        at += add_group(text, owners + at, n - at);
    }
}
