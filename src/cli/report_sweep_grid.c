/* Points by the values of their options. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/report_sweep.h"

/* ---- values ---- */

/* Which of the values is it?  `slots` is a table of 1 + their numbers, by hash;
 * 0: free. */
static size_t find_value(const pl_snapshot_texts_t *texts,
                         pl_sweep_values_t *values, size_t *slots, size_t mask,
                         size_t point)
{
    const char *text = pl_snapshot_text_at(texts, point);
    size_t slot      = (size_t)pl_hash64(text, strlen(text), 0) & mask;

    while (slots[slot] != 0) {
        size_t value = slots[slot] - 1;

        if (strcmp(pl_snapshot_text_at(texts, values->first[value]), text) ==
            0) {
            return value;
        }
        slot = (slot + 1) & mask;
    }
    values->first[values->n] = point;
    slots[slot]              = ++values->n;
    return values->n - 1;
}

static pl_status_t fill_values(const pl_snapshot_texts_t *texts,
                               pl_sweep_values_t *values)
{
    size_t n    = texts->n;
    size_t mask = 1;
    size_t *slots;

    while (mask < 2 * n) {
        mask *= 2;
    }
    slots         = calloc(mask, sizeof(*slots));
    values->first = calloc(n, sizeof(*values->first));
    values->of    = calloc(n, sizeof(*values->of));
    if ((slots == NULL) || (values->first == NULL) || (values->of == NULL)) {
        free(slots);
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        values->of[i] = find_value(texts, values, slots, mask - 1, i);
    }
    free(slots);
    return PL_OK;
}

/* ---- points ---- */

/* Of a point, or of what it would be with another value of `option`. */
static size_t place_of(const pl_sweep_view_t *view, size_t point, size_t option,
                       size_t value)
{
    size_t place = 0;

    for (size_t k = 0; k < view->table.options.n; k++) {
        const pl_sweep_values_t *values = &view->values[k];

        place = place * values->n + (k == option ? value : values->of[point]);
    }
    return place;
}

/* A file may say anything: a table for all values is made only if the points
 * fill some of it. */
static pl_status_t fill_at(pl_sweep_view_t *view)
{
    size_t n    = view->table.n;
    size_t most = 16 * n;
    size_t all  = 1;

    for (size_t k = 0; k < view->table.options.n; k++) {
        if (view->values[k].n > most / all) {
            return PL_OK;
        }
        all *= view->values[k].n;
    }
    view->at = calloc(all, sizeof(*view->at));
    if (view->at == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < all; i++) {
        view->at[i] = n;
    }
    for (size_t i = 0; i < n; i++) {
        size_t *at = &view->at[place_of(view, i, SIZE_MAX, 0)];

        *at = *at == n ? i : *at;
    }
    return PL_OK;
}

size_t pl_sweep_other(const pl_sweep_view_t *view, size_t point, size_t option,
                      size_t value)
{
    return view->at == NULL ? view->table.n
                            : view->at[place_of(view, point, option, value)];
}

/* ---- effects ---- */

static bool is_alike(const pl_sweep_view_t *view, size_t a, size_t b)
{
    const pl_snapshot_texts_t *lacks = &view->table.lacks;

    if ((lacks->n > 0) && (strcmp(pl_snapshot_text_at(lacks, a),
                                  pl_snapshot_text_at(lacks, b)) != 0)) {
        return false;
    }
    for (size_t m = 0; m < view->table.metrics.n; m++) {
        const int64_t *means = view->table.metrics.items[m].means.items;

        if (means[a] != means[b]) {
            return false;
        }
    }
    return true;
}

/* The points that differ from this one in the option alone. */
static void add_group(pl_sweep_view_t *view, size_t point, size_t option)
{
    pl_sweep_effect_t *effect = &view->effects[option];
    double low                = pl_sweep_score_at(view, point);
    const int64_t *meets      = view->table.meets.items;
    double high               = low;
    size_t others             = 0;

    for (size_t v = 0; v < view->values[option].n; v++) {
        size_t other = pl_sweep_other(view, point, option, v);

        if ((other != point) && (other < view->table.n) &&
            pl_sweep_ran(&view->table, other)) {
            others++;
            effect->matters = effect->matters || !is_alike(view, point, other);
            effect->decides = effect->decides || (meets[point] != meets[other]);
            low             = fmin(low, pl_sweep_score_at(view, other));
            high            = fmax(high, pl_sweep_score_at(view, other));
        }
    }
    effect->n_groups += others > 0;
    if (high > low) {
        effect->spread =
            fmax(effect->spread, (high - low) / fmax(fabs(low), fabs(high)));
    }
}

/* Is it the first of its group that ran? */
static bool leads(const pl_sweep_view_t *view, size_t point, size_t option)
{
    if (!pl_sweep_ran(&view->table, point) ||
        (pl_sweep_other(view, point, option, view->values[option].of[point]) !=
         point)) {
        return false;
    }
    for (size_t v = 0; v < view->values[option].of[point]; v++) {
        size_t other = pl_sweep_other(view, point, option, v);

        if ((other < view->table.n) && pl_sweep_ran(&view->table, other)) {
            return false;
        }
    }
    return true;
}

pl_status_t pl_sweep_view_grid(pl_sweep_view_t *view)
{
    size_t n = view->table.options.n;

    view->values  = calloc(n + 1, sizeof(*view->values));
    view->effects = calloc(n + 1, sizeof(*view->effects));
    if ((view->values == NULL) || (view->effects == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t k = 0; k < n; k++) {
        PL_TRY(fill_values(&view->table.options.items[k].values,
                           &view->values[k]));
    }
    PL_TRY(fill_at(view));
    for (size_t k = 0; (k < n) && (view->at != NULL); k++) {
        for (size_t i = 0; i < view->table.n; i++) {
            if (leads(view, i, k)) {
                add_group(view, i, k);
            }
        }
    }
    return PL_OK;
}

void pl_sweep_view_grid_free(pl_sweep_view_t *view)
{
    for (size_t k = 0; (view->values != NULL) && (k < view->table.options.n);
         k++) {
        free(view->values[k].first);
        free(view->values[k].of);
    }
    free(view->values);
    free(view->effects);
    free(view->at);
}
