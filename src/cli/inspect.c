/* pagelane inspect: what is in a snapshot. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fleet_file.h"
#include "cli/fleet_limit.h"
#include "cli/fleet_tables.h"
#include "cli/report.h"

/* The groups that the summary shows whole. */
typedef struct group {
    const char *path, *title, *key;
} group_t;

static const group_t GROUPS[] = {
    {"/config", "option<,value", "config"},
    {"/layout", "layout<,value", "layout"},
    {"/counters/engine", "engine<,count>", "engine"},
    {"/counters/cache", "cache<,count>", "cache"},
    {"/counters/storage", "storage<,count>", "storage"},
    {"/counters/data", "data plane<,count>", "data"},
};

enum { N_GROUPS = sizeof(GROUPS) / sizeof(GROUPS[0]), FIRST_COUNTERS = 2 };

/* Files of the first versions have no storage counters. */
static bool is_there(const pl_snapshot_t *snapshot, const group_t *group)
{
    return (strcmp(group->key, "storage") != 0) ||
           pl_snapshot_has(snapshot, group->path);
}

/* ---- several instances ---- */

/* Zeroed, of a file of one engine. */
typedef struct fleet {
    pl_fleet_file_t file;
    pl_outcome_t outcome;
    pl_fleet_sides_t sides;
    pl_fleet_limit_t limit;
    char *slo_text; /* NULL: there is no limit */
} fleet_t;

static pl_status_t read_fleet(const pl_snapshot_t *snapshot,
                              pl_record_t *records, int32_t n,
                              const pl_metrics_t *metrics, fleet_t *fleet)
{
    pl_slo_t slo = {0};

    PL_TRY(pl_fleet_read(snapshot, n, &fleet->file));
    if (fleet->file.n == 0) {
        return PL_OK;
    }
    PL_TRY(pl_snapshot_text(snapshot, "/config", "slo", &fleet->slo_text));
    if (!pl_slo_parse(fleet->slo_text, &slo)) {
        free(fleet->slo_text);
        fleet->slo_text = NULL;
    }
    fleet->outcome = pl_fleet_outcome(&fleet->file, records, n);
    fleet->sides = pl_fleet_sides(&fleet->outcome, metrics, fleet->file.homes);
    fleet->limit = pl_fleet_limit(&fleet->outcome, &fleet->sides, &slo);
    return PL_OK;
}

static void free_fleet(fleet_t *fleet)
{
    pl_fleet_file_free(&fleet->file);
    free(fleet->slo_text);
}

/* ---- for people ---- */

static pl_status_t add_row(void *context, const char *name, const char *text,
                           bool is_number)
{
    (void)is_number;
    pl_table_cell(context, "%s", name);
    pl_table_cell(context, "%s", text);
    return PL_OK;
}

static pl_status_t print_group(const pl_snapshot_t *snapshot,
                               const group_t *group, bool is_last)
{
    pl_table_t *table = pl_table_open(group->title);
    pl_status_t status =
        pl_snapshot_attributes(snapshot, group->path, add_row, table);

    if (status == PL_OK) {
        status = pl_table_print(table, stdout);
        printf("%s", is_last ? "" : "\n");
    }
    pl_table_close(table);
    return status;
}

static void fact(pl_table_t *table, const char *name, int64_t value)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, value);
}

static pl_status_t print_requests(const pl_metrics_t *m)
{
    pl_table_t *table = pl_table_open("requests<,value>");

    fact(table, "all", m->n_requests);
    fact(table, "completed", m->n_completed);
    fact(table, "failed", m->n_failed);
    fact(table, "unfinished", m->n_unfinished);
    if (m->n_skipped > 0) {
        fact(table, "finished before", m->n_skipped);
    }
    fact(table, "tokens generated", m->output_tokens);
    pl_table_cell(table, "virtual time, s");
    pl_table_cell(table, "%.3f", (double)m->duration_ns / 1e9);
    return pl_report_table(table);
}

/* What instances say, for people. */
static pl_status_t print_fleet(const fleet_t *fleet,
                               const pl_metrics_t *metrics)
{
    if (fleet->file.n == 0) {
        return PL_OK;
    }
    PL_TRY(
        pl_fleet_print_instances(&fleet->outcome, metrics, fleet->file.homes));
    PL_TRY(pl_fleet_print_sides(&fleet->sides, metrics));
    PL_TRY(pl_fleet_limit_print(&fleet->limit, &fleet->sides, metrics,
                                fleet->slo_text));
    printf("\n");
    return PL_OK;
}

static pl_status_t print_summary(const pl_snapshot_t *snapshot,
                                 const pl_metrics_t *metrics,
                                 const fleet_t *fleet)
{
    PL_TRY(print_requests(metrics));
    PL_TRY(pl_report_hits(metrics));
    PL_TRY(pl_report_misses(metrics));
    PL_TRY(pl_report_times(metrics));
    PL_TRY(print_fleet(fleet, metrics));
    for (size_t i = 0; i < N_GROUPS; i++) {
        if (is_there(snapshot, &GROUPS[i])) {
            PL_TRY(print_group(snapshot, &GROUPS[i], i + 1 == N_GROUPS));
        }
    }
    return PL_OK;
}

/* ---- for programs ---- */

static pl_status_t add_member(void *context, const char *name, const char *text,
                              bool is_number)
{
    int64_t value = 0;

    if (is_number && (sscanf(text, "%" SCNd64, &value) == 1)) {
        pl_json_integer(context, name, value);
    } else {
        json_object_object_add(context, name, json_object_new_string(text));
    }
    return PL_OK;
}

static json_object *requests_json(const pl_metrics_t *metrics)
{
    json_object *object = json_object_new_object();

    pl_json_integer(object, "requests", metrics->n_requests);
    pl_report_json(object, metrics);
    return object;
}

/* As `sim --json` says them. */
static void add_fleet(json_object *object, const fleet_t *fleet,
                      const pl_metrics_t *metrics)
{
    if (fleet->file.n > 0) {
        pl_fleet_sides_json(object, &fleet->sides);
        pl_fleet_limit_json(object, &fleet->limit, fleet->slo_text);
        pl_fleet_instances_json(object, &fleet->outcome, metrics,
                                fleet->file.homes);
    }
}

static pl_status_t print_json(const pl_snapshot_t *snapshot,
                              const pl_metrics_t *metrics, const fleet_t *fleet)
{
    json_object *object   = json_object_new_object();
    json_object *counters = json_object_new_object();
    char version[32];

    (void)snprintf(version, sizeof(version), "1.%" PRId64,
                   pl_snapshot_minor(snapshot));
    json_object_object_add(object, "schema_version",
                           json_object_new_string(version));
    json_object_object_add(object, "requests", requests_json(metrics));
    add_fleet(object, fleet, metrics);
    for (size_t i = 0; i < N_GROUPS; i++) {
        json_object *group;
        pl_status_t status;

        if (!is_there(snapshot, &GROUPS[i])) {
            continue;
        }
        group = json_object_new_object();
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
    return pl_json_print(object, stdout);
}

static pl_status_t inspect_summary(const pl_inspect_t *inspect)
{
    const pl_snapshot_t *snapshot = inspect->snapshot;
    pl_record_t *records          = NULL;
    int32_t n                     = 0;
    pl_inspect_layout_t layout;
    pl_metrics_t metrics;
    fleet_t fleet = {0};
    pl_status_t status;

    PL_TRY(pl_inspect_layout(snapshot, &layout)); /* what a reader relies on */
    PL_TRY(pl_inspect_records(snapshot, &records, &n));
    status = pl_metrics_of(records, n, &metrics);
    if (status == PL_OK) {
        status = read_fleet(snapshot, records, n, &metrics, &fleet);
    }
    if (status == PL_OK) {
        status = inspect->json ? print_json(snapshot, &metrics, &fleet)
                               : print_summary(snapshot, &metrics, &fleet);
    }
    free_fleet(&fleet);
    free(records);
    return status;
}

/* ---- the verb ---- */

typedef struct view {
    const char *name, *operand; /* operand: what stands behind the name */
    pl_status_t (*print)(const pl_inspect_t *inspect);
    bool of_one; /* engine: it reads what several instances do not have */
} view_t;

static const view_t VIEWS[] = {
    {"requests", NULL, pl_inspect_requests, false},
    {"nodes", NULL, pl_inspect_nodes, true},
    {"lanes", NULL, pl_inspect_lanes, false},
    {"page", "the number of a page", pl_inspect_page, true},
    {"why", "the number of a request", pl_inspect_why, true},
    {"diff", "another snapshot", pl_inspect_diff, false},
};

static const view_t *find_view(const pl_cli_t *cli)
{
    static const view_t SUMMARY = {"", NULL, inspect_summary, false};

    if (cli->n_words < 2) {
        return &SUMMARY;
    }
    for (size_t i = 0; i < sizeof(VIEWS) / sizeof(VIEWS[0]); i++) {
        if (strcmp(cli->words[1], VIEWS[i].name) == 0) {
            return &VIEWS[i];
        }
    }
    pl_log(&cli->log, PL_LOG_ERROR,
           "cannot inspect '%.64s'; expected requests, nodes, lanes, page G, "
           "why R or diff FILE (see pagelane inspect --help)",
           cli->words[1]);
    return NULL;
}

/* One word behind the view if it takes one, none if not. */
static pl_status_t check_operand(const pl_cli_t *cli, const view_t *view)
{
    if ((view->operand != NULL) && (cli->n_words < 3)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "inspect %s: what is missing behind it is %s (see pagelane "
               "inspect --help)",
               view->name, view->operand);
        return PL_ERR_ARGUMENT;
    }
    if ((view->operand == NULL) && (cli->n_words > 2)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "unexpected word '%.64s' (see pagelane inspect --help)",
               cli->words[2]);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_inspect_number(const pl_inspect_t *inspect, size_t i,
                              const char *what, int64_t most, int64_t *number_p)
{
    const char *word = inspect->cli->words[i];
    int64_t number   = 0;
    int end          = 0;

    if ((word[0] >= '0') && (word[0] <= '9') && (strlen(word) <= 18) &&
        (sscanf(word, "%" SCNd64 "%n", &number, &end) == 1) &&
        (word[end] == '\0') && (number <= most)) {
        *number_p = number;
        return PL_OK;
    }
    pl_log(&inspect->cli->log, PL_LOG_ERROR,
           "inspect: there is no %s '%.64s'; expected 0 to %" PRId64, what,
           word, most);
    return PL_ERR_ARGUMENT;
}

int pl_cli_inspect(const pl_cli_t *cli)
{
    const view_t *view      = find_view(cli);
    pl_snapshot_t *snapshot = NULL;
    pl_inspect_t inspect    = {.cli = cli, .json = cli->options.json};
    pl_status_t status;

    if (view == NULL) {
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    PL_TRY_GOTO(status, check_operand(cli, view), out);
    PL_TRY_GOTO(status, pl_snapshot_open(cli->words[0], &cli->log, &snapshot),
                out);
    inspect.snapshot = snapshot;
    status = view->of_one ? pl_fleet_refuse(snapshot, view->name) : PL_OK;
    if (status == PL_OK) {
        status = view->print(&inspect);
    }
    pl_snapshot_close(snapshot);

out:
    return pl_status_exit(status);
}
