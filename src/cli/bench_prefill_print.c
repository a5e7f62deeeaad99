#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/bench_prefill.h"
#include "cli/json.h"
#include "cli/table.h"
#include "device/queue.h" /* pl_stream_name */

static const char *const KINDS[PL_PREFILL_KINDS] = {[PL_PREFILL_COLD] = "cold",
                                                    [PL_PREFILL_DEVICE] =
                                                        "device",
                                                    [PL_PREFILL_HOST] = "host"};

static double ns_to_ms(int64_t ns)
{
    return 1e-6 * (double)ns;
}

/* The same prompts with the other ownership, or NULL. */
static const pl_prefill_row_t *replicated(const pl_prefill_report_t *report,
                                          const pl_prefill_row_t *row)
{
    for (int32_t i = 0; i < report->n_rows; i++) {
        const pl_prefill_row_t *other = &report->rows[i];

        if ((other->tokens == row->tokens) &&
            (other->ownership.kind == PL_OWNERSHIP_REPLICATED)) {
            return other;
        }
    }
    return NULL;
}

static bool has_time(const pl_prefill_figure_t *figure, int stream, int work)
{
    for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
        if (figure->profiles[kind].times[stream][work].calls > 0) {
            return true;
        }
    }
    return false;
}

/* What the compute stream was not busy with: the host, or nothing to do. */
static double idle_ms(const pl_prefill_figure_t *figure, int kind)
{
    double ms = figure->ms[kind];

    for (int work = 0; work < PL_WORKS; work++) {
        ms -=
            ns_to_ms(figure->profiles[kind].times[PL_STREAM_COMPUTE][work].ns);
    }
    return ms > 0 ? ms : 0;
}

/* ---- tables ---- */

static void ratio_cell(pl_table_t *table, double a, double b)
{
    if (b > 0) {
        pl_table_cell(table, "%.3f", a / b);
    } else {
        pl_table_cell(table, "%s", "");
    }
}

static void add_row(const pl_prefill_report_t *report,
                    const pl_prefill_row_t *row, pl_table_t *table)
{
    const pl_prefill_figure_t *f  = &row->figure;
    const pl_prefill_row_t *other = replicated(report, row);
    char ownership[PL_OWNERSHIP_TEXT_BYTES];

    pl_ownership_text(row->ownership, ownership);
    pl_table_cell(table, "%" PRId32, row->tokens);
    pl_table_cell(table, "%" PRId64, report->cli->options.ranks);
    pl_table_cell(table, "%s", ownership);
    for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
        pl_table_cell(table, "%.2f", f->ms[kind]);
    }
    ratio_cell(table, f->ms[PL_PREFILL_HOST], f->ms[PL_PREFILL_COLD]);
    pl_table_cell(table, "%.2f", f->handover_ms);
    pl_table_cell(table, "%.2f", f->step_ms);
    pl_table_cell(table, "%.3f", 1e-6 * (double)f->rank_bytes);
    ratio_cell(table, f->ms[PL_PREFILL_COLD],
               other != NULL ? other->figure.ms[PL_PREFILL_COLD] : 0);
    ratio_cell(table, other != NULL ? (double)other->figure.rank_bytes : 0,
               other != NULL ? (double)f->rank_bytes : 0);
}

static pl_status_t print_times(const pl_prefill_report_t *report)
{
    pl_table_t *table = pl_table_open(
        "context>,ranks>,ownership<,cold (ms)>,device (ms)>,host (ms)>,"
        "host/cold>,handover (ms)>,next token (ms)>,KV a rank "
        "(MB)>,cold/replicated>,KV saved (x)>");
    pl_status_t status;

    for (int32_t i = 0; i < report->n_rows; i++) {
        add_row(report, &report->rows[i], table);
    }
    printf("# prefill: %s, %" PRId32 " layers, KV as %s; --comm %s --device "
           "%s, chunks of %" PRId64 ", pages of %" PRId64
           "; time to the first token\n",
           report->model, report->n_layers, report->kv_dtype, report->comm,
           report->device, report->cli->options.chunk,
           report->cli->options.page_size);
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static void time_cells(pl_table_t *table, double ms, double all_ms)
{
    pl_table_cell(table, "%.3f", ms);
    pl_table_cell(table, "%.1f", 100 * ms / all_ms);
}

static void add_work(const pl_prefill_figure_t *f, int stream, int work,
                     pl_table_t *table)
{
    if (!has_time(f, stream, work)) {
        return;
    }
    pl_table_cell(table, "%s", pl_stream_name((pl_stream_t)stream));
    pl_table_cell(table, "%s", pl_work_name((pl_work_t)work));
    for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
        time_cells(table, ns_to_ms(f->profiles[kind].times[stream][work].ns),
                   f->ms[kind]);
    }
}

static pl_status_t print_profile(const pl_prefill_report_t *report,
                                 const pl_prefill_row_t *row)
{
    const pl_prefill_figure_t *f = &row->figure;
    pl_table_t *table =
        pl_table_open("stream<,work<,cold (ms)>,%>,device (ms)>,%>,host "
                      "(ms)>,%>");
    char ownership[PL_OWNERSHIP_TEXT_BYTES];
    pl_status_t status;

    for (int stream = 0; stream < PL_STREAMS; stream++) {
        for (int work = 0; work < PL_WORKS; work++) {
            add_work(f, stream, work, table);
        }
        if (stream == PL_STREAM_COMPUTE) {
            pl_table_cell(table, "%s", pl_stream_name(PL_STREAM_COMPUTE));
            pl_table_cell(table, "%s", "nothing");
            for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
                time_cells(table, idle_ms(f, kind), f->ms[kind]);
            }
        }
    }
    pl_ownership_text(row->ownership, ownership);
    printf("# where the time goes: %" PRId32 " tokens, %" PRId64
           " rank%s, %s; means of ranks, %% of the time to the first token\n",
           row->tokens, report->cli->options.ranks,
           pl_text_s(report->cli->options.ranks), ownership);
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

/* ---- JSON ---- */

static void add(json_object *object, const char *key, json_object *value)
{
    if ((object == NULL) || (json_object_object_add(object, key, value) != 0)) {
        json_object_put(value);
    }
}

static json_object *profile_json(const pl_prefill_figure_t *f, int kind)
{
    json_object *all = json_object_new_object();

    for (int stream = 0; stream < PL_STREAMS; stream++) {
        for (int work = 0; work < PL_WORKS; work++) {
            char key[48];

            (void)snprintf(key, sizeof(key), "%s_%s",
                           pl_stream_name((pl_stream_t)stream),
                           pl_work_name((pl_work_t)work));
            if (has_time(f, stream, work)) {
                pl_json_real(
                    all, key,
                    ns_to_ms(f->profiles[kind].times[stream][work].ns));
            }
        }
    }
    return all;
}

static json_object *row_json(const pl_prefill_report_t *report,
                             const pl_prefill_row_t *row)
{
    const pl_prefill_figure_t *f  = &row->figure;
    const pl_prefill_row_t *other = replicated(report, row);
    json_object *object           = json_object_new_object();
    char ownership[PL_OWNERSHIP_TEXT_BYTES];

    pl_ownership_text(row->ownership, ownership);
    pl_json_integer(object, "context", row->tokens);
    pl_json_text(object, "ownership", ownership);
    for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "%s_ms", KINDS[kind]);
        pl_json_real(object, key, f->ms[kind]);
        (void)snprintf(key, sizeof(key), "%s_hit_tokens", KINDS[kind]);
        pl_json_integer(object, key, f->hit_tokens[kind]);
        (void)snprintf(key, sizeof(key), "%s_profile_ms", KINDS[kind]);
        if (f->is_profiled) {
            add(object, key, profile_json(f, kind));
        }
    }
    pl_json_real(object, "handover_ms", f->handover_ms);
    pl_json_real(object, "decode_ms", f->step_ms);
    pl_json_integer(object, "kv_rank_bytes", f->rank_bytes);
    if (other != NULL) {
        pl_json_real(object, "cold_to_replicated",
                     f->ms[PL_PREFILL_COLD] /
                         other->figure.ms[PL_PREFILL_COLD]);
        pl_json_real(object, "kv_saved",
                     (double)other->figure.rank_bytes / (double)f->rank_bytes);
    }
    return object;
}

static pl_status_t print_json(const pl_prefill_report_t *report)
{
    const pl_options_t *o = &report->cli->options;
    json_object *root     = json_object_new_object();
    json_object *rows     = json_object_new_array();

    pl_json_text(root, "bench", "prefill");
    pl_json_text(root, "model", report->model);
    pl_json_integer(root, "layers", report->n_layers);
    pl_json_text(root, "kv_dtype", report->kv_dtype);
    pl_json_text(root, "comm", report->comm);
    pl_json_text(root, "device", report->device);
    pl_json_integer(root, "ranks", o->ranks);
    pl_json_integer(root, "chunk", o->chunk);
    pl_json_integer(root, "page_size", o->page_size);
    pl_json_integer(root, "repeat", o->repeat);
    for (int32_t i = 0; (rows != NULL) && (i < report->n_rows); i++) {
        json_object_array_add(rows, row_json(report, &report->rows[i]));
    }
    add(root, "rows", rows);
    return pl_json_print(root, stdout);
}

pl_status_t pl_prefill_print(const pl_prefill_report_t *report)
{
    if (report->cli->options.json) {
        return print_json(report);
    }
    PL_TRY(print_times(report));
    for (int32_t i = 0; i < report->n_rows; i++) {
        if (report->rows[i].figure.is_profiled) {
            PL_TRY(print_profile(report, &report->rows[i]));
        }
    }
    return PL_OK;
}
