/* cli/html_internal.h - what a page is made of: html.c collects it,
 * html_write.c writes it. */
#ifndef PL_CLI_HTML_INTERNAL_H
#define PL_CLI_HTML_INTERNAL_H

#include "base/array.h"
#include "cli/html.h"

typedef struct page_cell {
    bool is_none; /* else: */
    union {
        int64_t integer; /* PL_HTML_COUNT, PL_HTML_NS */
        double real;     /* PL_HTML_SHARE, PL_HTML_REAL */
        char *text;      /* PL_HTML_TEXT; owned */
    };
} page_cell_t;

typedef struct page_column {
    char *name, *title; /* owned */
    pl_html_kind_t kind;
    double full;
} page_column_t;

typedef struct page_mark {
    double at;
    char *name; /* owned */
} page_mark_t;

struct pl_html_table {
    pl_html_t *page;
    char *id, *title, *text; /* owned */
    pl_html_chart_t chart;
    bool half;
    PL_ARRAY(page_column_t) columns;
    size_t n_shown; /* columns in the HTML, if has_more; else all */
    bool has_more;
    pl_html_axes_t axes;         /* of a scatter chart */
    PL_ARRAY(page_cell_t) cells; /* row by row */
    PL_ARRAY(page_mark_t) marks;
};

/* A tile (name, value, note) or an advice (name, value). */
typedef struct page_words {
    char *name, *value, *note; /* owned */
    pl_html_weight_t weight;
} page_words_t;

struct pl_html {
    char *title, *about, *headline, *why; /* owned; "" or text */
    PL_ARRAY(page_words_t) tiles, advice;
    PL_ARRAY(pl_html_table_t *) tables;
    pl_status_t status;
};

#endif /* PL_CLI_HTML_INTERNAL_H */
