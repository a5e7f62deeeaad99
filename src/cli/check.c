/* pagelane check: are snapshots and storage tiers whole? */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "store/check.h"

static pl_status_t print_table(const char *path,
                               const pl_check_report_t *report)
{
    pl_table_t *table;
    pl_status_t status;

    if (report->is_sweep) {
        printf("# %s: sweep, %" PRId64 " point%s", path, report->points,
               pl_text_s(report->points));
    } else if (report->instances > 0) {
        printf("# %s: snapshot, %" PRId64 " instance%s", path,
               report->instances, pl_text_s(report->instances));
    } else {
        printf("# %s: %s, %" PRId64 " page%s, %" PRId64 " of them good", path,
               report->is_snapshot ? "snapshot" : "storage tier", report->pages,
               pl_text_s(report->pages), report->good);
    }
    if (report->behind > 0) {
        printf(", %" PRId64 " behind one that is not", report->behind);
    }
    printf("\n");
    if (pl_check_total(report) == 0) {
        printf("nothing is wrong\n");
        return PL_OK;
    }
    table = pl_table_open("found<,count>,first<");
    for (int i = 0; i < PL_CHECK_KINDS; i++) {
        if (report->found[i].count > 0) {
            pl_table_cell(table, "%s", pl_check_text((pl_check_kind_t)i));
            pl_table_cell(table, "%" PRId64, report->found[i].count);
            pl_table_cell(table, "%s", report->found[i].first);
        }
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    if (report->is_repaired) {
        printf("repaired: kept %" PRId64 " good page%s\n", report->good,
               pl_text_s(report->good));
    }
    return status;
}

static pl_status_t print_json(const char *path, const pl_check_report_t *report)
{
    json_object *root  = json_object_new_object();
    json_object *found = json_object_new_object();

    pl_json_text(root, "path", path);
    pl_json_text(root, "kind",
                 report->is_sweep      ? "sweep"
                 : report->is_snapshot ? "snapshot"
                                       : "tier");
    if (report->is_sweep) {
        pl_json_integer(root, "points", report->points);
    }
    if (report->instances > 0) {
        pl_json_integer(root, "instances", report->instances);
    }
    pl_json_integer(root, "pages", report->pages);
    pl_json_integer(root, "good_pages", report->good);
    pl_json_integer(root, "pages_behind", report->behind);
    pl_json_integer(root, "findings", pl_check_total(report));
    pl_json_integer(root, "repaired", report->is_repaired ? 1 : 0);
    for (int i = 0; i < PL_CHECK_KINDS; i++) {
        json_object *one = json_object_new_object();

        pl_json_integer(one, "count", report->found[i].count);
        if (report->found[i].count > 0) {
            pl_json_text(one, "first", report->found[i].first);
        }
        json_object_object_add(found, pl_check_key((pl_check_kind_t)i), one);
    }
    json_object_object_add(root, "found", found);
    return pl_json_print(root, stdout);
}

/* A repair that could not be made is an error; what is found and repaired was
 * found. */
static pl_status_t check_path(const pl_cli_t *cli, const char *path)
{
    pl_check_report_t report;

    PL_TRY(pl_check(path, cli->options.repair, &cli->log, &report));
    PL_TRY(cli->options.json ? print_json(path, &report)
                             : print_table(path, &report));
    if (pl_check_total(&report) == 0) {
        return PL_OK;
    }
    if (cli->options.repair && (report.is_snapshot || report.is_sweep)) {
        pl_log(&cli->log, PL_LOG_WARN,
               "%s: a file is never changed; take another copy, or write "
               "it anew",
               path);
    }
    return PL_ERR_VIOLATION;
}

/* All of them are looked at; the worst says how it ends. */
int pl_cli_check(const pl_cli_t *cli)
{
    int exit_status = 0;

    for (size_t i = 0; i < cli->n_words; i++) {
        int of_path = pl_status_exit(check_path(cli, cli->words[i]));

        exit_status = of_path > exit_status ? of_path : exit_status;
    }
    return exit_status;
}
