#include "sim/knockout.h"

#include <stdbool.h>
#include <stdlib.h>

static const pl_knockout_key_t LAST = {INT64_MAX, INT64_MAX};

static bool is_less(const pl_knockout_key_t *a, const pl_knockout_key_t *b)
{
    return a->first != b->first ? a->first < b->first : a->then < b->then;
}

/* Match i: who comes from 2i + 1 must be better to win. */
static void play(pl_knockout_t *knockout, int32_t i)
{
    int32_t left  = knockout->winners[2 * i];
    int32_t right = knockout->winners[2 * i + 1];

    knockout->winners[i] =
        is_less(&knockout->keys[right], &knockout->keys[left]) ? right : left;
}

pl_status_t pl_knockout_open(int32_t n, pl_knockout_t *knockout)
{
    int32_t n_leaves = 1;

    while (n_leaves < n) {
        n_leaves *= 2;
    }
    knockout->n_leaves = n_leaves;
    knockout->keys     = calloc((size_t)n_leaves, sizeof(*knockout->keys));
    knockout->winners =
        calloc(2 * (size_t)n_leaves, sizeof(*knockout->winners));
    if ((knockout->keys == NULL) || (knockout->winners == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t k = 0; k < n_leaves; k++) {
        knockout->keys[k]               = LAST;
        knockout->winners[n_leaves + k] = k;
    }
    for (int32_t i = n_leaves - 1; i > 0; i--) {
        play(knockout, i);
    }
    return PL_OK;
}

void pl_knockout_close(pl_knockout_t *knockout)
{
    free(knockout->keys);
    free(knockout->winners);
    *knockout = (pl_knockout_t){0};
}

void pl_knockout_set(pl_knockout_t *knockout, int32_t number,
                     pl_knockout_key_t key)
{
    pl_knockout_key_t *old = &knockout->keys[number];

    if ((old->first == key.first) && (old->then == key.then)) {
        return;
    }
    *old = key;
    for (int32_t i = (knockout->n_leaves + number) / 2; i > 0; i /= 2) {
        play(knockout, i);
    }
}

int32_t pl_knockout_first(const pl_knockout_t *knockout)
{
    return knockout->winners[1];
}

pl_knockout_key_t pl_knockout_key(const pl_knockout_t *knockout, int32_t number)
{
    return knockout->keys[number];
}
