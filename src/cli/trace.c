/* pagelane trace stats: what is in a trace, and what any cache could hit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pagelane/trace.h>

#include "base/array.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/trace_file.h"
#include "trace/lru.h"
#include "trace/stats.h"

/* What is known of a trace. */
typedef struct facts {
    const pl_trace_stats_t *stats;
    const char *format;
    const char *unit; /* of capacities: "blocks" or "pages" */
    pl_lru_curve_t lru;
    PL_ARRAY(int64_t) capacities; /* to print */
} facts_t;

/* One way to count hits: part / whole, or a mean that has no such parts. */
typedef struct ceiling {
    const char *name; /* for people */
    const char *key;  /* in JSON */
    int64_t part, whole;
    double ratio;
} ceiling_t;

enum { N_CEILINGS = 6 };

static void list_ceilings(const pl_trace_stats_t *s, ceiling_t *list)
{
    const ceiling_t all[N_CEILINGS] = {
        {"blocks", "block_ratio", s->hit_blocks, s->n_blocks, s->block_ratio},
        {"tokens", "token_ratio", s->hit_tokens, s->input.total,
         s->token_ratio},
        {"full blocks", "full_block_ratio", s->hit_blocks, s->n_full_blocks,
         s->full_block_ratio},
        {"mean of requests", "request_ratio", 0, 0, s->request_ratio},
        {"pages of an engine, tokens", "page_token_ratio", s->page_hit_tokens,
         s->input.total, s->page_token_ratio},
        {"pages of an engine, mean of requests", "page_request_ratio", 0, 0,
         s->page_request_ratio},
    };

    memcpy(list, all, sizeof(all));
}

static void fact(pl_table_t *table, const char *name, int64_t value)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, value);
}

static pl_status_t print_facts(const pl_trace_stats_t *s, const char *format)
{
    pl_table_t *table = pl_table_open("trace<,value>");
    pl_status_t status;

    pl_table_cell(table, "format");
    pl_table_cell(table, "%s", format);
    fact(table, "requests", s->n_requests);
    if (s->n_waiting > 0) {
        fact(table, "requests that wait for others", s->n_waiting);
    }
    fact(table, "namespaces", s->n_name_spaces);
    pl_table_cell(table, "seconds from first to last arrival");
    pl_table_cell(table, "%" PRId64 ".%03" PRId64, s->duration_ns / 1000000000,
                  s->duration_ns % 1000000000 / 1000000);
    pl_table_cell(table, "requests per second");
    pl_table_cell(table, "%.3f", s->requests_per_s);
    fact(table, "distinct arrival times", s->n_arrivals);
    fact(table, "most requests at one time", s->max_at_once);
    if (s->has_prefixes) {
        fact(table, "tokens of a block", s->block_tokens);
        fact(table, "blocks", s->n_blocks);
        fact(table, "full blocks", s->n_full_blocks);
        fact(table, "distinct blocks", s->n_unique_blocks);
        fact(table, "blocks used once", s->n_once_blocks);
        fact(table, "distinct first blocks", s->n_first_blocks);
        fact(table, "requests hit whole", s->n_full_hits);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_lengths(const pl_trace_stats_t *s)
{
    static const char *const NAMES[]    = {"input", "output"};
    const pl_trace_lengths_t *lengths[] = {&s->input, &s->output};
    pl_table_t *table =
        pl_table_open("tokens<,total>,mean>,min>,p50>,p90>,p99>,max>");
    pl_status_t status;

    for (size_t i = 0; i < 2; i++) {
        const pl_trace_lengths_t *l = lengths[i];

        pl_table_cell(table, "%s", NAMES[i]);
        pl_table_cell(table, "%" PRId64, l->total);
        pl_table_cell(table, "%.1f", l->mean);
        pl_table_cell(table, "%" PRId32, l->min);
        pl_table_cell(table, "%" PRId32, l->p50);
        pl_table_cell(table, "%" PRId32, l->p90);
        pl_table_cell(table, "%" PRId32, l->p99);
        pl_table_cell(table, "%" PRId32, l->max);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_ceilings(const pl_trace_stats_t *s)
{
    pl_table_t *table =
        pl_table_open("hits of an endless cache<,hit>,of>,ratio>");
    ceiling_t list[N_CEILINGS];
    pl_status_t status;

    list_ceilings(s, list);
    for (size_t i = 0; i < N_CEILINGS; i++) {
        pl_table_cell(table, "%s", list[i].name);
        if (list[i].whole > 0) {
            pl_table_cell(table, "%" PRId64, list[i].part);
            pl_table_cell(table, "%" PRId64, list[i].whole);
        } else {
            pl_table_cell(table, "%s", "");
            pl_table_cell(table, "%s", "");
        }
        pl_table_cell(table, "%.4f", list[i].ratio);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static pl_status_t print_lru(const facts_t *facts)
{
    const pl_lru_curve_t *lru = &facts->lru;
    pl_table_t *table = pl_table_open("blocks of an LRU cache>,hit>,ratio>,"
                                      "tokens>,ratio>");
    pl_status_t status;

    if (strcmp(facts->unit, "pages") == 0) {
        pl_table_close(table);
        table = pl_table_open("pages of an LRU cache>,hit>,ratio>,tokens>,"
                              "ratio>");
    }
    for (size_t i = 0; i < facts->capacities.n; i++) {
        int64_t capacity = facts->capacities.items[i];
        int64_t at       = pl_lru_curve_at(lru, capacity);

        pl_table_cell(table, "%" PRId64, capacity);
        pl_table_cell(table, "%" PRId64, lru->hit_blocks[at]);
        pl_table_cell(table, "%.4f", ratio(lru->hit_blocks[at], lru->n_blocks));
        pl_table_cell(table, "%" PRId64, lru->hit_tokens[at]);
        pl_table_cell(table, "%.4f", ratio(lru->hit_tokens[at], lru->n_tokens));
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_tables(const facts_t *facts)
{
    const pl_trace_stats_t *s = facts->stats;

    PL_TRY(print_facts(s, facts->format));
    printf("\n");
    PL_TRY(print_lengths(s));
    printf("\n");
    if (!s->has_prefixes) {
        printf(
            "The trace does not tell which prompts begin alike: what a cache "
            "hits of it is\nundefined.\n");
        return PL_OK;
    }
    PL_TRY(print_ceilings(s));
    printf("\nAn engine hits whole pages, here of %" PRId32
           " tokens, and computes at least one\n"
           "token of each prompt: %" PRId64 " tokens, %" PRId64
           " full blocks.\n",
           s->page_size, s->page_hit_tokens, s->page_hit_blocks);
    printf("\n");
    PL_TRY(print_lru(facts));
    printf("\nA request hits the run of cached %s that it begins with, and is "
           "then taken in\nwhole; more than %" PRId64 " %s do not help.\n",
           facts->unit, facts->lru.most, facts->unit);
    return PL_OK;
}

/* JSON. */

static void add_lengths(json_object *object, const char *key,
                        const pl_trace_lengths_t *l)
{
    json_object *lengths = json_object_new_object();

    pl_json_integer(lengths, "total", l->total);
    pl_json_real(lengths, "mean", l->mean);
    pl_json_integer(lengths, "min", l->min);
    pl_json_integer(lengths, "p50", l->p50);
    pl_json_integer(lengths, "p90", l->p90);
    pl_json_integer(lengths, "p99", l->p99);
    pl_json_integer(lengths, "max", l->max);
    json_object_object_add(object, key, lengths);
}

/* Arrays by capacity, and where each begins and ends. */
static void add_lru(json_object *object, const facts_t *facts)
{
    const pl_lru_curve_t *lru = &facts->lru;
    json_object *curve        = json_object_new_object();
    json_object *capacities   = json_object_new_array();
    json_object *blocks       = json_object_new_array();
    json_object *tokens       = json_object_new_array();

    for (size_t i = 0; i < facts->capacities.n; i++) {
        int64_t capacity = facts->capacities.items[i];
        int64_t at       = pl_lru_curve_at(lru, capacity);

        json_object_array_add(capacities, json_object_new_int64(capacity));
        json_object_array_add(blocks,
                              json_object_new_int64(lru->hit_blocks[at]));
        json_object_array_add(tokens,
                              json_object_new_int64(lru->hit_tokens[at]));
    }
    pl_json_text(curve, "unit", facts->unit);
    pl_json_integer(curve, "of", lru->n_blocks);
    pl_json_integer(curve, "of_tokens", lru->n_tokens);
    pl_json_integer(curve, "most", lru->most);
    json_object_object_add(curve, "capacity", capacities);
    json_object_object_add(curve, "hit", blocks);
    json_object_object_add(curve, "hit_tokens", tokens);
    json_object_object_add(object, "lru", curve);
}

static void add_hits(json_object *object, const facts_t *facts)
{
    const pl_trace_stats_t *s = facts->stats;
    ceiling_t list[N_CEILINGS];

    pl_json_integer(object, "block_tokens", s->block_tokens);
    pl_json_integer(object, "blocks", s->n_blocks);
    pl_json_integer(object, "full_blocks", s->n_full_blocks);
    pl_json_integer(object, "unique_blocks", s->n_unique_blocks);
    pl_json_integer(object, "once_blocks", s->n_once_blocks);
    pl_json_integer(object, "first_blocks", s->n_first_blocks);
    pl_json_integer(object, "hit_blocks", s->hit_blocks);
    pl_json_integer(object, "hit_full_blocks", s->hit_full_blocks);
    pl_json_integer(object, "hit_tokens", s->hit_tokens);
    pl_json_integer(object, "full_hits", s->n_full_hits);
    pl_json_integer(object, "page_size", s->page_size);
    pl_json_integer(object, "page_hit_tokens", s->page_hit_tokens);
    pl_json_integer(object, "page_hit_blocks", s->page_hit_blocks);
    list_ceilings(s, list);
    for (size_t i = 0; i < N_CEILINGS; i++) {
        pl_json_real(object, list[i].key, list[i].ratio);
    }
    add_lru(object, facts);
}

static pl_status_t print_json(const facts_t *facts)
{
    const pl_trace_stats_t *s = facts->stats;
    json_object *object       = json_object_new_object();

    pl_json_text(object, "format", facts->format);
    pl_json_integer(object, "requests", s->n_requests);
    pl_json_integer(object, "waiting", s->n_waiting);
    pl_json_integer(object, "namespaces", s->n_name_spaces);
    pl_json_integer(object, "duration_ns", s->duration_ns);
    pl_json_real(object, "requests_per_s", s->requests_per_s);
    pl_json_integer(object, "arrivals", s->n_arrivals);
    pl_json_integer(object, "max_at_once", s->max_at_once);
    add_lengths(object, "input_tokens", &s->input);
    add_lengths(object, "output_tokens", &s->output);
    if (s->has_prefixes) {
        add_hits(object, facts);
    }
    return pl_json_print(object, stdout);
}

/* The file: one word, or --trace. */
static const char *trace_path(const pl_cli_t *cli)
{
    if ((cli->n_words == 1) && (cli->options.trace != NULL)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --trace %s: the trace %s is named too; leave one out",
               cli->options.trace, cli->words[0]);
        return NULL;
    }
    if ((cli->n_words == 0) && (cli->options.trace == NULL)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "trace stats: a trace is missing; give a file of requests, as "
               "in pagelane trace stats FILE, or with --trace FILE");
        return NULL;
    }
    return cli->n_words == 1 ? cli->words[0] : cli->options.trace;
}

/* Those that were asked for, or 1, 2, 5, 10, ... and where it ends. */
static pl_status_t list_capacities(const pl_cli_t *cli, facts_t *facts)
{
    static const int64_t STEPS[]      = {1, 2, 5};
    const pl_option_integers_t *asked = &cli->options.capacity;
    int64_t most                      = facts->lru.most;

    for (size_t i = 0; i < asked->n; i++) {
        PL_TRY(PL_ARRAY_PUSH(&facts->capacities, asked->items[i]));
    }
    for (int64_t ten = 1; (asked->n == 0) && (ten < most); ten *= 10) {
        for (size_t i = 0; (i < 3) && (STEPS[i] * ten < most); i++) {
            PL_TRY(PL_ARRAY_PUSH(&facts->capacities, STEPS[i] * ten));
        }
    }
    return asked->n == 0 ? PL_ARRAY_PUSH(&facts->capacities, most) : PL_OK;
}

static pl_status_t print(const pl_cli_t *cli, const pl_trace_t *trace)
{
    bool pages             = cli->options.lru == PL_OPT_LRU_PAGES;
    int32_t page_size      = (int32_t)cli->options.page_size;
    pl_trace_stats_t stats = {0};
    facts_t facts          = {.stats  = &stats,
                              .format = pl_trace_format(trace),
                              .unit   = pages ? "pages" : "blocks"};
    pl_status_t status;

    PL_TRY(pl_trace_stats(trace, page_size, &cli->log, &stats));
    if (stats.has_prefixes) {
        PL_TRY(pl_lru_curve(trace, page_size, pages, &cli->log, &facts.lru));
    }
    status = list_capacities(cli, &facts);
    if (status == PL_OK) {
        status = cli->options.json ? print_json(&facts) : print_tables(&facts);
    }
    PL_ARRAY_FREE(&facts.capacities);
    pl_lru_curve_free(&facts.lru);
    return status;
}

int pl_cli_trace_stats(const pl_cli_t *cli)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    pl_status_t status;

    params.paced = true;
    params.path  = trace_path(cli);
    if (params.path == NULL) {
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    PL_TRY_GOTO(status, pl_cli_trace_params(&cli->options, &cli->log, &params),
                out);
    PL_TRY_GOTO(status, pl_trace_open(&params, &cli->log, &trace), out);
    status = print(cli, trace);
    pl_trace_close(trace);

out:
    return pl_status_exit(status);
}
