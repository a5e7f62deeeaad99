/* When rows arrive, and in which order. */
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"

/* Who waits for whom, turned round: those behind row i are
 * behind[first[i] .. first[i + 1]]. */
typedef struct order {
    pl_trace_rows_t *rows;
    size_t *first, *behind;
    size_t *n_left; /* rows it still waits for */
    size_t *queue;  /* rows that wait for none */
    size_t *depth;  /* the longest way to a row that waits for none */
} order_t;

static void close_order(order_t *order)
{
    free(order->first);
    free(order->behind);
    free(order->n_left);
    free(order->queue);
    free(order->depth);
}

static pl_status_t open_order(order_t *order)
{
    size_t n = order->rows->row.n;

    order->first  = calloc(n + 2, sizeof(*order->first));
    order->behind = calloc(order->rows->after.n + 1, sizeof(*order->behind));
    order->n_left = calloc(n + 1, sizeof(*order->n_left));
    order->queue  = calloc(n + 1, sizeof(*order->queue));
    order->depth  = calloc(n + 1, sizeof(*order->depth));
    return (order->first == NULL) || (order->behind == NULL) ||
                   (order->n_left == NULL) || (order->queue == NULL) ||
                   (order->depth == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

static void turn_round(order_t *order)
{
    const pl_trace_rows_t *rows = order->rows;
    size_t sum                  = 0;

    for (size_t i = 0; i < rows->row.n; i++) {
        const pl_trace_row_t *row = &rows->row.items[i];

        order->n_left[i] = row->n_after;
        for (size_t k = 0; k < row->n_after; k++) {
            order->first[rows->after.items[row->first_after + k] + 1]++;
        }
    }
    for (size_t i = 0; i < rows->row.n; i++) {
        size_t n = order->first[i + 1];

        order->first[i + 1] = sum;
        sum += n;
    }
    for (size_t i = 0; i < rows->row.n; i++) {
        const pl_trace_row_t *row = &rows->row.items[i];

        for (size_t k = 0; k < row->n_after; k++) {
            size_t before = rows->after.items[row->first_after + k];

            order->behind[order->first[before + 1]++] = i;
        }
    }
}

/* `row` arrives delay_ns after `before`, or later. */
static pl_status_t follow(const pl_trace_row_t *before, pl_trace_row_t *row,
                          const pl_trace_source_t *source)
{
    if (row->delay_ns > PL_TRACE_MAX_NS - before->time_ns) {
        pl_trace_source_t own = pl_trace_source_of(source, row);

        return pl_trace_bad(&own, row->line,
                            "times and delays add up to more than 285 years: "
                            "expected less; fix or remove the delays");
    }
    if (before->time_ns + row->delay_ns > row->time_ns) {
        row->time_ns = before->time_ns + row->delay_ns;
    }
    return PL_OK;
}

/* From those that wait for none to those behind them. */
static pl_status_t walk(order_t *order, const pl_trace_source_t *source)
{
    pl_trace_row_t *row = order->rows->row.items;
    size_t n            = order->rows->row.n;
    size_t n_queued     = 0;

    for (size_t i = 0; i < n; i++) {
        if (order->n_left[i] == 0) {
            order->queue[n_queued++] = i;
        }
    }
    for (size_t at = 0; at < n_queued; at++) {
        size_t i = order->queue[at];

        for (size_t k = order->first[i]; k < order->first[i + 1]; k++) {
            size_t next = order->behind[k];

            PL_TRY(follow(&row[i], &row[next], source));
            if (order->depth[next] < order->depth[i] + 1) {
                order->depth[next] = order->depth[i] + 1;
            }
            if (--order->n_left[next] == 0) {
                order->queue[n_queued++] = next;
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (order->n_left[i] > 0) {
            pl_trace_source_t own = pl_trace_source_of(source, &row[i]);

            return pl_trace_bad(&own, row[i].line,
                                "waits for itself, by way of those it waits "
                                "for: expected an order in which requests can "
                                "end; fix \"wait_for\" or "
                                "\"parent_chat_id\"");
        }
    }
    return PL_OK;
}

/* By arrival; rows of one time stay in the order of reading, but behind those
 * they wait for. */
typedef struct place {
    int64_t time_ns;
    size_t depth, number;
} place_t;

static int compare_places(const void *a, const void *b)
{
    const place_t *left  = a;
    const place_t *right = b;

    if (left->time_ns != right->time_ns) {
        return left->time_ns < right->time_ns ? -1 : 1;
    }
    if (left->depth != right->depth) {
        return left->depth < right->depth ? -1 : 1;
    }
    return (left->number > right->number) - (left->number < right->number);
}

static pl_status_t sort_rows(const order_t *order)
{
    pl_trace_row_t *row    = order->rows->row.items;
    size_t n               = order->rows->row.n;
    place_t *places        = malloc((n + 1) * sizeof(*places));
    pl_trace_row_t *sorted = malloc((n + 1) * sizeof(*sorted));

    if ((places == NULL) || (sorted == NULL)) {
        free(places);
        free(sorted);
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        places[i] = (place_t){row[i].time_ns, order->depth[i], i};
    }
    qsort(places, n, sizeof(*places), compare_places);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = row[places[i].number];
    }
    memcpy(row, sorted, n * sizeof(*row));
    free(places);
    free(sorted);
    return PL_OK;
}

pl_status_t pl_trace_order(pl_trace_rows_t *rows,
                           const pl_trace_source_t *source)
{
    order_t order = {.rows = rows};
    pl_status_t status;

    for (size_t i = 0; i < rows->row.n; i++) {
        pl_trace_row_t *row = &rows->row.items[i];

        row->number = i;
        if (row->time_ns == PL_TRACE_NO_TIME) {
            row->time_ns = 0;
        }
    }
    PL_TRY_GOTO(status, open_order(&order), out);
    turn_round(&order);
    PL_TRY_GOTO(status, walk(&order, source), out);
    status = sort_rows(&order);

out:
    close_order(&order);
    return status;
}
