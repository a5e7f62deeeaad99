/* pagelane inspect: what is in a snapshot. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/table.h"

/* The groups that the summary shows whole. */
static const struct {
    const char *path, *title, *key;
} GROUPS[] = {
    {"/config", "option<,value", "config"},
    {"/layout", "layout<,value", "layout"},
    {"/counters/engine", "engine<,count>", "engine"},
    {"/counters/cache", "cache<,count>", "cache"},
    {"/counters/data", "data plane<,count>", "data"},
};

enum { N_GROUPS = sizeof(GROUPS) / sizeof(GROUPS[0]), FIRST_COUNTERS = 2 };

/* ---- for people ---- */

static pl_status_t add_row(void *context, const char *name, const char *text,
                           bool is_number)
{
    (void)is_number;
    pl_table_cell(context, "%s", name);
    pl_table_cell(context, "%s", text);
    return PL_OK;
}

static pl_status_t print_group(const pl_snapshot_t *snapshot, const char *path,
                               const char *title)
{
    pl_table_t *table  = pl_table_open(title);
    pl_status_t status = pl_snapshot_attributes(snapshot, path, add_row, table);

    if (status == PL_OK) {
        printf("\n");
        status = pl_table_print(table, stdout);
    }
    pl_table_close(table);
    return status;
}

static void fact(pl_table_t *table, const char *name, int64_t value)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, value);
    pl_table_cell(table, "%s", "");
}

static void share(pl_table_t *table, const char *name, int64_t part,
                  int64_t whole)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, part);
    pl_table_cell(table, "%.4f",
                  whole > 0 ? (double)part / (double)whole : 0.0);
}

static void measure(pl_table_t *table, const char *name, double value)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.3f", value);
    pl_table_cell(table, "%s", "");
}

static pl_status_t print_requests(const pl_inspect_requests_t *r)
{
    pl_table_t *table = pl_table_open("requests<,value>,of prompt tokens>");
    pl_status_t status;

    fact(table, "requests", r->n);
    fact(table, "finished", r->n_finished);
    fact(table, "failed", r->n_failed);
    fact(table, "prompt tokens", r->prompt_tokens);
    share(table, "hit on device, tokens", r->device_hit_tokens,
          r->prompt_tokens);
    share(table, "hit on host, tokens", r->host_hit_tokens, r->prompt_tokens);
    fact(table, "generated tokens", r->generated_tokens);
    measure(table, "last end, virtual s", (double)r->end_ns / 1e9);
    measure(table, "first token after, mean ms", r->mean_ttft_ms);
    measure(table, "first token after, median ms", r->median_ttft_ms);
    measure(table, "first token after, p99 ms", r->p99_ttft_ms);
    measure(table, "end after, mean ms", r->mean_e2el_ms);
    measure(table, "end after, median ms", r->median_e2el_ms);
    measure(table, "end after, p99 ms", r->p99_e2el_ms);
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_summary(const pl_snapshot_t *snapshot,
                                 const pl_inspect_requests_t *totals)
{
    PL_TRY(print_requests(totals));
    for (size_t i = 0; i < N_GROUPS; i++) {
        PL_TRY(print_group(snapshot, GROUPS[i].path, GROUPS[i].title));
    }
    return PL_OK;
}

/* ---- for programs ---- */

static pl_status_t add_member(void *context, const char *name, const char *text,
                              bool is_number)
{
    int64_t value = 0;

    if (is_number && (sscanf(text, "%" SCNd64, &value) == 1)) {
        pl_inspect_add_integer(context, name, value);
    } else {
        json_object_object_add(context, name, json_object_new_string(text));
    }
    return PL_OK;
}

static json_object *requests_json(const pl_inspect_requests_t *r)
{
    json_object *object = json_object_new_object();

    pl_inspect_add_integer(object, "requests", r->n);
    pl_inspect_add_integer(object, "finished", r->n_finished);
    pl_inspect_add_integer(object, "failed", r->n_failed);
    pl_inspect_add_integer(object, "total_input_tokens", r->prompt_tokens);
    pl_inspect_add_integer(object, "total_output_tokens", r->generated_tokens);
    pl_inspect_add_integer(object, "device_hit_tokens", r->device_hit_tokens);
    pl_inspect_add_integer(object, "host_hit_tokens", r->host_hit_tokens);
    pl_inspect_add_integer(object, "end_ns", r->end_ns);
    pl_inspect_add_real(object, "mean_ttft_ms", r->mean_ttft_ms);
    pl_inspect_add_real(object, "median_ttft_ms", r->median_ttft_ms);
    pl_inspect_add_real(object, "p99_ttft_ms", r->p99_ttft_ms);
    pl_inspect_add_real(object, "mean_e2el_ms", r->mean_e2el_ms);
    pl_inspect_add_real(object, "median_e2el_ms", r->median_e2el_ms);
    pl_inspect_add_real(object, "p99_e2el_ms", r->p99_e2el_ms);
    return object;
}

static pl_status_t print_json(const pl_snapshot_t *snapshot,
                              const pl_inspect_requests_t *totals)
{
    json_object *object   = json_object_new_object();
    json_object *counters = json_object_new_object();
    char version[32];

    (void)snprintf(version, sizeof(version), "1.%" PRId64,
                   pl_snapshot_minor(snapshot));
    json_object_object_add(object, "schema_version",
                           json_object_new_string(version));
    json_object_object_add(object, "requests", requests_json(totals));
    for (size_t i = 0; i < N_GROUPS; i++) {
        json_object *group = json_object_new_object();
        pl_status_t status;

        json_object_object_add(i < FIRST_COUNTERS ? object : counters,
                               GROUPS[i].key, group);
        status =
            pl_snapshot_attributes(snapshot, GROUPS[i].path, add_member, group);
        if (status != PL_OK) {
            json_object_put(counters);
            json_object_put(object);
            return status;
        }
    }
    json_object_object_add(object, "counters", counters);
    return pl_inspect_print(object);
}

static pl_status_t inspect_summary(const pl_snapshot_t *snapshot, bool json)
{
    pl_inspect_requests_t totals;
    pl_inspect_layout_t layout;

    PL_TRY(pl_inspect_layout(snapshot, &layout)); /* what a reader relies on */
    PL_TRY(pl_inspect_request_totals(snapshot, &totals));
    return json ? print_json(snapshot, &totals)
                : print_summary(snapshot, &totals);
}

/* ---- the verb ---- */

typedef struct view {
    const char *name;
    pl_status_t (*print)(const pl_snapshot_t *snapshot, bool json);
} view_t;

static const view_t VIEWS[] = {
    {"requests", pl_inspect_requests},
    {"nodes", pl_inspect_nodes},
    {"lanes", pl_inspect_lanes},
};

static const view_t *find_view(const pl_cli_t *cli)
{
    static const view_t SUMMARY = {"", inspect_summary};

    if (cli->n_words < 2) {
        return &SUMMARY;
    }
    for (size_t i = 0; i < sizeof(VIEWS) / sizeof(VIEWS[0]); i++) {
        if (strcmp(cli->words[1], VIEWS[i].name) == 0) {
            return &VIEWS[i];
        }
    }
    pl_log(&cli->log, PL_LOG_ERROR,
           "cannot inspect '%.64s'; expected requests, nodes or lanes (see "
           "pagelane inspect --help)",
           cli->words[1]);
    return NULL;
}

int pl_cli_inspect(const pl_cli_t *cli)
{
    const view_t *view      = find_view(cli);
    pl_snapshot_t *snapshot = NULL;
    pl_status_t status;

    if (view == NULL) {
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    PL_TRY_GOTO(status, pl_snapshot_open(cli->words[0], &cli->log, &snapshot),
                out);
    status = view->print(snapshot, cli->options.json);
    pl_snapshot_close(snapshot);

out:
    return pl_status_exit(status);
}
