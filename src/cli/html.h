/* cli/html.h - one HTML page with everything in it: headline, tiles, advice,
 * and sections, each of a table that is drawn as a chart.
 *
 *   pl_html_t *page = pl_html_open("title", "what it is about");
 *   pl_html_headline(page, "...", "...");
 *   pl_html_tile(...);
 *   pl_html_advice(...);
 *   pl_html_table_t *table = pl_html_section(page, &section);
 *   pl_html_column(table, "time_ns", "time", PL_HTML_NS, 0);  // all, then
 *   pl_html_integer(table, ns);                               // row by row
 *   status = pl_html_write(page, file);
 *   pl_html_close(page);
 *
 * A section's numbers stand in the page once, as JSON: charts are drawn and CSV
 * is made from it; the HTML has a table of some of its rows, so that the page
 * can be read where no script runs.  The same calls write the same bytes.
 * In headlines, tiles, advice and what a section says, words between two
 * backquotes are code; pl_html_add_plain adds what others wrote.
 *
 * Failures to get memory are remembered until pl_html_write; NULL pages and
 * tables are allowed and do nothing.  Texts are copied and escaped.
 */
#ifndef PL_CLI_HTML_H
#define PL_CLI_HTML_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <pagelane/status.h>

#include "base/text.h"

typedef struct pl_html pl_html_t;             /* opaque */
typedef struct pl_html_table pl_html_table_t; /* opaque; the page owns it */

pl_html_t *pl_html_open(const char *title, const char *about); /* or NULL */
void pl_html_close(pl_html_t *page);

/* The one sentence that matters, and some that say why and what to do. */
void pl_html_headline(pl_html_t *page, const char *headline, const char *why);

/* A number beside others: "TTFT p50", "867.27 ms", "p99 4452.80 ms". */
void pl_html_tile(pl_html_t *page, const char *name, const char *value,
                  const char *note);

/* A text that may have backquotes, which stay what they are. */
void pl_html_add_plain(pl_text_t *text, const char *plain);

typedef enum pl_html_weight {
    PL_HTML_NOTE,   /* good to know */
    PL_HTML_ADVICE, /* would make it better */
    PL_HTML_WARNING /* something is wrong with the run or its setup */
} pl_html_weight_t;

void pl_html_advice(pl_html_t *page, pl_html_weight_t weight, const char *title,
                    const char *format, ...) PL_TEXT_FORMAT(4, 5);

/* How a section's table is drawn. */
typedef enum pl_html_chart {
    PL_HTML_TABLE,     /* as a table alone */
    PL_HTML_BARS,      /* one bar a row, as long as its column of shares says */
    PL_HTML_LINES,     /* over the first column, one line for each other */
    PL_HTML_STACK,     /* the same, on top of each other */
    PL_HTML_HEAT,      /* over the first column, a strip for each other that is
                          dark where it is near the column's `full` */
    PL_HTML_HISTOGRAM, /* first, end, count */
    PL_HTML_CURVE,     /* lines over a logarithmic first column */
    PL_HTML_SCATTER    /* a point a row, any two columns over each other; the
                          table can be sorted, and its rows are pointed at */
} pl_html_chart_t;

typedef struct pl_html_section {
    const char *id; /* [a-z_]+, unlike the others; names the CSV file */
    const char *title, *text;
    pl_html_chart_t chart;
    bool half; /* two of them fit beside each other */
} pl_html_section_t;

pl_html_table_t *pl_html_section(pl_html_t *page,
                                 const pl_html_section_t *section);

typedef enum pl_html_kind {
    PL_HTML_COUNT, /* integer */
    PL_HTML_NS,    /* integer, shown in ms, as x in s */
    PL_HTML_SHARE, /* real, in percent */
    PL_HTML_REAL,  /* shown with four digits */
    PL_HTML_TEXT
} pl_html_kind_t;

/* `name` is the CSV's, `title` what people read; full > 0: what counts as all
 * of it. */
void pl_html_column(pl_html_table_t *table, const char *name, const char *title,
                    pl_html_kind_t kind, double full);

/* Columns that are added from now on are for the chart and the CSV alone: the
 * table in the HTML goes without them. */
void pl_html_more(pl_html_table_t *table);

/* Of a scatter chart: the columns, by number, that are shown first, and one
 * with 1 for points that are marked as good and 0 for the others. */
typedef struct pl_html_axes {
    size_t x, y, colour, good;
} pl_html_axes_t;
void pl_html_axes(pl_html_table_t *table, pl_html_axes_t axes);

void pl_html_integer(pl_html_table_t *table, int64_t value);
void pl_html_real(pl_html_table_t *table, double value);
void pl_html_text(pl_html_table_t *table, const char *format, ...)
    PL_TEXT_FORMAT(2, 3);

/* A cell without a value, of any kind. */
void pl_html_none(pl_html_table_t *table);

/* A line across the chart at this x. */
void pl_html_mark(pl_html_table_t *table, double at, const char *name);

/* PL_OK, PL_ERR_MEMORY, PL_ERR_IO; says nothing. */
PL_MUST_CHECK pl_status_t pl_html_write(const pl_html_t *page, FILE *file);

#endif /* PL_CLI_HTML_H */
