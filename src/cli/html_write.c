/* A page as HTML. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <pagelane/version.h>

#include "cli/html_assets.h"
#include "cli/html_internal.h"

/* Rows of a chart's table that stand in the HTML, and of one whose rows are the
 * points of the chart; the JSON has all. */
enum { SHOWN_ROWS = 24, SHOWN_POINTS = 2000 };

static const char *const CHART_NAMES[] = {
    [PL_HTML_TABLE] = "table",         [PL_HTML_BARS] = "bars",
    [PL_HTML_LINES] = "lines",         [PL_HTML_STACK] = "stack",
    [PL_HTML_HEAT] = "heat",           [PL_HTML_CURVE] = "curve",
    [PL_HTML_HISTOGRAM] = "histogram", [PL_HTML_SCATTER] = "scatter",
};

static const char *const KIND_NAMES[] = {
    [PL_HTML_COUNT] = "count", [PL_HTML_NS] = "ns",
    [PL_HTML_SHARE] = "share", [PL_HTML_REAL] = "real",
    [PL_HTML_TEXT] = "text",
};

/* ---- escaping ---- */

static void put_html(FILE *file, const char *text)
{
    for (; (text != NULL) && (*text != '\0'); text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
}

/* The same, with what stands between backquotes as code; two of them in a row
 * are one. */
static void put_prose(FILE *file, const char *text)
{
    bool code = false;

    for (; *text != '\0'; text++) {
        char one[2] = {*text, '\0'};

        if ((*text == '`') && (text[1] == '`')) {
            fputc('`', file);
            text++;
        } else if (*text == '`') {
            fputs(code ? "</code>" : "<code>", file);
            code = !code;
        } else {
            put_html(file, one);
        }
    }
    fputs(code ? "</code>" : "", file);
}

/* Within a script element, which ends at the first "</script". */
static void put_json(FILE *file, const char *text)
{
    fputc('"', file);
    for (; (text != NULL) && (*text != '\0'); text++) {
        unsigned char c = (unsigned char)*text;

        if ((c < 0x20) || (c == '<') || (c == '"') || (c == '\\')) {
            fprintf(file, "\\u%04x", (unsigned)c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

static void put_asset(FILE *file, const pl_html_asset_t *asset)
{
    (void)fwrite(asset->bytes, 1, asset->n, file);
}

static void put_element(FILE *file, const char *name, const char *class,
                        const char *text)
{
    if ((text != NULL) && (*text != '\0')) {
        fprintf(file, "<%s class=\"%s\">", name, class);
        put_prose(file, text);
        fprintf(file, "</%s>\n", name);
    }
}

/* ---- a table for people ---- */

static size_t rows_of(const pl_html_table_t *table)
{
    return table->columns.n == 0 ? 0 : table->cells.n / table->columns.n;
}

/* 1234567 as 1 234 567, with a thin blank that breaks no line. */
static void put_count(FILE *file, int64_t value)
{
    char digits[32];
    size_t n;

    (void)snprintf(digits, sizeof(digits), "%" PRId64, value);
    n = strlen(digits);
    for (size_t i = 0; i < n; i++) {
        fputc(digits[i], file);
        if ((digits[i] != '-') && (n - i > 1) && ((n - i - 1) % 3 == 0)) {
            fputs("&#8239;", file);
        }
    }
}

/* Four digits, unless there are more before the point. */
static void put_real(FILE *file, double value)
{
    if ((fabs(value) >= 1000) && (fabs(value) < 1e15)) {
        put_count(file, llround(value));
    } else {
        fprintf(file, "%.4g", value);
    }
}

static void put_cell(FILE *file, const page_column_t *column, page_cell_t cell)
{
    if (cell.is_none) {
        fputs("&#8211;", file);
        return;
    }
    switch (column->kind) {
    case PL_HTML_COUNT:
        put_count(file, cell.integer);
        break;
    case PL_HTML_NS:
        fprintf(file, "%.2f", (double)cell.integer / 1e6);
        break;
    case PL_HTML_SHARE:
        fprintf(file, "%.2f&#8239;%%", cell.real);
        break;
    case PL_HTML_REAL:
        put_real(file, cell.real);
        break;
    case PL_HTML_TEXT:
        put_html(file, cell.text);
        break;
    }
}

static size_t columns_shown(const pl_html_table_t *table)
{
    return table->has_more ? table->n_shown : table->columns.n;
}

/* A share's cell carries a bar of that length. */
static bool is_bar(const pl_html_table_t *table, const page_column_t *column)
{
    return (table->chart == PL_HTML_BARS) && (column->kind == PL_HTML_SHARE);
}

static const char *class_of(const pl_html_table_t *table,
                            const page_column_t *column)
{
    return column->kind == PL_HTML_TEXT ? " class=\"text\""
           : is_bar(table, column)      ? " class=\"bar\""
                                        : "";
}

static void put_heads(FILE *file, const pl_html_table_t *table)
{
    fputs("<thead><tr>", file);
    for (size_t c = 0; c < columns_shown(table); c++) {
        const page_column_t *column = &table->columns.items[c];

        fprintf(file, "<th%s>", class_of(table, column));
        put_html(file, column->title);
        fputs(column->kind == PL_HTML_NS ? ", ms</th>" : "</th>", file);
    }
    fputs("</tr></thead>\n", file);
}

static void put_row(FILE *file, const pl_html_table_t *table, size_t row)
{
    const page_cell_t *cells = table->cells.items + row * table->columns.n;

    fputs("<tr>", file);
    for (size_t c = 0; c < columns_shown(table); c++) {
        const page_column_t *column = &table->columns.items[c];

        fprintf(file, "<td%s>", class_of(table, column));
        if (is_bar(table, column)) {
            fprintf(file, "<i style=\"width:%.2f%%\"></i><b>", cells[c].real);
        }
        put_cell(file, column, cells[c]);
        fputs(is_bar(table, column) ? "</b></td>" : "</td>", file);
    }
    fputs("</tr>\n", file);
}

static bool is_drawn(const pl_html_table_t *table)
{
    return (table->chart != PL_HTML_TABLE) && (table->chart != PL_HTML_BARS);
}

static void put_table(FILE *file, const pl_html_table_t *table)
{
    size_t n     = rows_of(table);
    size_t most  = table->chart == PL_HTML_SCATTER ? SHOWN_POINTS : SHOWN_ROWS;
    size_t shown = is_drawn(table) && (n > most) ? most : n;
    bool sample  = (shown < n) && (table->chart != PL_HTML_SCATTER);

    fputs("<div class=\"scroll\"><table>\n", file);
    put_heads(file, table);
    fputs("<tbody>\n", file);
    for (size_t i = 0; i < shown; i++) {
        put_row(file, table, sample ? i * (n - 1) / (shown - 1) : i);
    }
    fputs("</tbody></table></div>\n", file);
    if (shown < n) {
        fprintf(file,
                "<p class=\"few\">%s%zu of %zu rows; the CSV has all.</p>\n",
                sample ? "" : "The first ", shown, n);
    }
}

/* ---- sections ---- */

/* Long tables, and those behind charts, fold away where a script runs. */
static bool is_folded(const pl_html_table_t *table)
{
    return (table->chart != PL_HTML_SCATTER) &&
           (is_drawn(table) || (rows_of(table) > SHOWN_ROWS));
}

static void put_section(FILE *file, const pl_html_table_t *table)
{
    fprintf(file, "<section id=\"%s\" class=\"%s%s\">\n", table->id,
            CHART_NAMES[table->chart], table->half ? " half" : "");
    put_element(file, "h2", "title", table->title);
    put_element(file, "p", "says", table->text);
    if (is_drawn(table)) {
        fprintf(file, "<figure data-table=\"%s\"></figure>\n", table->id);
    }
    if (is_folded(table)) {
        /* open where no script closes it */
        fputs("<details open><summary>Table</summary>\n", file);
        put_table(file, table);
        fputs("</details>\n", file);
    } else {
        put_table(file, table);
    }
    fputs("</section>\n", file);
}

static void put_words(FILE *file, const pl_html_t *page)
{
    static const char *const WEIGHTS[] = {[PL_HTML_NOTE]    = "note",
                                          [PL_HTML_ADVICE]  = "advice",
                                          [PL_HTML_WARNING] = "warning"};

    fputs("<header>\n", file);
    fputs("<p class=\"name\">", file);
    put_html(file, page->title); /* it names a file */
    fputs("</p>\n", file);
    put_element(file, "h1", "headline", page->headline);
    put_element(file, "p", "why", page->why);
    put_element(file, "p", "about", page->about);
    fputs("</header>\n<div class=\"tiles\">\n", file);
    for (size_t i = 0; i < page->tiles.n; i++) {
        const page_words_t *tile = &page->tiles.items[i];

        fputs("<div class=\"tile\">", file);
        put_element(file, "span", "name", tile->name);
        put_element(file, "strong", "value", tile->value);
        put_element(file, "span", "note", tile->note);
        fputs("</div>\n", file);
    }
    fputs("</div>\n<ul class=\"todo\">\n", file);
    for (size_t i = 0; i < page->advice.n; i++) {
        const page_words_t *words = &page->advice.items[i];

        fprintf(file, "<li class=\"%s\">", WEIGHTS[words->weight]);
        put_element(file, "strong", "title", words->name);
        put_element(file, "span", "text", words->value);
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

/* ---- numbers for charts and CSV ---- */

static void put_value(FILE *file, const page_column_t *column, page_cell_t cell)
{
    if (cell.is_none) {
        fputs("null", file);
    } else if (column->kind == PL_HTML_TEXT) {
        put_json(file, cell.text);
    } else if ((column->kind == PL_HTML_SHARE) ||
               (column->kind == PL_HTML_REAL)) {
        fprintf(file, "%.6f", cell.real);
    } else {
        fprintf(file, "%" PRId64, cell.integer);
    }
}

static void put_columns(FILE *file, const pl_html_table_t *table)
{
    size_t n = rows_of(table);

    for (size_t c = 0; c < table->columns.n; c++) {
        const page_column_t *column = &table->columns.items[c];

        fprintf(file, "%s{\"name\":", c == 0 ? "" : ",\n");
        put_json(file, column->name);
        fputs(",\"title\":", file);
        put_json(file, column->title);
        fprintf(file, ",\"kind\":\"%s\",\"full\":%.0f,\"values\":[",
                KIND_NAMES[column->kind], column->full);
        for (size_t i = 0; i < n; i++) {
            fputs(i == 0 ? "" : ",", file);
            put_value(file, column,
                      table->cells.items[i * table->columns.n + c]);
        }
        fputs("]}", file);
    }
}

static void put_numbers(FILE *file, const pl_html_t *page)
{
    fputs("<script type=\"application/json\" id=\"numbers\">{", file);
    for (size_t i = 0; i < page->tables.n; i++) {
        const pl_html_table_t *table = page->tables.items[i];

        fprintf(file, "%s\"%s\":{\"chart\":\"%s\",\"marks\":[",
                i == 0 ? "" : ",\n", table->id, CHART_NAMES[table->chart]);
        for (size_t m = 0; m < table->marks.n; m++) {
            fprintf(file, "%s{\"at\":%.6f,\"name\":", m == 0 ? "" : ",",
                    table->marks.items[m].at);
            put_json(file, table->marks.items[m].name);
            fputc('}', file);
        }
        fputs("],", file);
        if (table->chart == PL_HTML_SCATTER) {
            fprintf(file,
                    "\"axes\":{\"x\":%zu,\"y\":%zu,\"colour\":%zu,"
                    "\"good\":%zu},\"shown\":%zu,",
                    table->axes.x, table->axes.y, table->axes.colour,
                    table->axes.good, columns_shown(table));
        }
        fputs("\"columns\":[", file);
        put_columns(file, table);
        fputs("]}", file);
    }
    fputs("}</script>\n", file);
}

/* ---- the whole ---- */

static void put_head(FILE *file, const pl_html_t *page)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          /* nothing is asked of anybody: not even by mistake */
          "<meta http-equiv=\"Content-Security-Policy\" content=\""
          "default-src 'none'; style-src 'unsafe-inline'; script-src "
          "'unsafe-inline'; img-src data:\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          /* an icon of nothing, which else is asked for */
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          file);
    put_html(file, page->title);
    fputs("</title>\n<style>\n", file);
    put_asset(file, &PL_HTML_UPLOT_MIN_CSS);
    fputc('\n', file);
    put_asset(file, &PL_HTML_PAGE_CSS);
    fputs("</style>\n</head>\n<body>\n<main>\n", file);
}

static void put_scripts(FILE *file)
{
    fputs("<script>\n", file);
    put_asset(file, &PL_HTML_UPLOT_IIFE_MIN_JS);
    fputs("\n/* uPlot:\n\n", file);
    put_asset(file, &PL_HTML_LICENSE_UPLOT);
    fputs("*/\n</script>\n<script>\n", file);
    put_asset(file, &PL_HTML_PAGE_JS);
    fputs("</script>\n</body>\n</html>\n", file);
}

pl_status_t pl_html_write(const pl_html_t *page, FILE *file)
{
    if ((page == NULL) || (page->status != PL_OK)) {
        return PL_ERR_MEMORY;
    }
    put_head(file, page);
    put_words(file, page);
    fputs("<div class=\"sections\">\n", file);
    for (size_t i = 0; i < page->tables.n; i++) {
        put_section(file, page->tables.items[i]);
    }
    fprintf(file, "</div>\n<footer>pagelane %s</footer>\n</main>\n",
            pl_version());
    put_numbers(file, page);
    put_scripts(file);
    return ferror(file) ? PL_ERR_IO : PL_OK;
}
