#include "cli/stack.h"

#include <stdlib.h>

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_key(const void *a, const void *b)
{
    const pl_stack_entry_t *x = a;
    const pl_stack_entry_t *y = b;
    int order                 = compare_numbers(x->key, y->key);

    return order != 0 ? order : (x->event > y->event) - (x->event < y->event);
}

/* In each lane in time; what comes before what goes. */
static int by_lane(const void *a, const void *b)
{
    const pl_stack_entry_t *x = a;
    const pl_stack_entry_t *y = b;

    if (x->lane != y->lane) {
        return compare_numbers(x->lane, y->lane);
    }
    if (x->event != y->event) {
        return (x->event > y->event) - (x->event < y->event);
    }
    return x->change != y->change ? compare_numbers(y->change, x->change)
                                  : compare_numbers(x->key, y->key);
}

static int by_number(const void *a, const void *b)
{
    return compare_numbers(*(const int64_t *)a, *(const int64_t *)b);
}

static bool is_whole(const pl_use_t *use, int64_t page, int64_t page_tokens)
{
    return (page + 1) * page_tokens <= use->prompt_tokens;
}

/* A page that is used after the page we look at. */
static pl_status_t add_touch(pl_stack_t *stack, const pl_use_t *use,
                             const pl_touch_t *touch, int64_t key, size_t after,
                             size_t until)
{
    pl_stack_entry_t entry = {
        .lane   = touch->lane,
        .change = 1,
        .event  = touch->event > after ? touch->event : after,
        .key    = key,
    };

    PL_TRY(PL_ARRAY_PUSH(&stack->entries, entry));
    if ((key < 0) && (use->end < until)) {
        entry.change = -1;
        entry.event  = use->end;
        PL_TRY(PL_ARRAY_PUSH(&stack->entries, entry));
    }
    return PL_OK;
}

static pl_status_t add_use(pl_stack_t *stack, const pl_uses_t *uses,
                           const pl_sharing_t *sharing, const pl_use_t *use,
                           int64_t page_tokens, size_t after, size_t until)
{
    for (size_t t = use->first; t != PL_NO_EVENT;
         t        = uses->touches.items[t].next) {
        const pl_touch_t *touch = &uses->touches.items[t];
        int64_t key             = -1;

        if (touch->event >= until) {
            continue;
        }
        if (is_whole(use, touch->page, page_tokens)) {
            key = pl_sharing_key(sharing, use->request, touch->page);
        }
        PL_TRY(add_touch(stack, use, touch, key, after, until));
    }
    return PL_OK;
}

/* Of entries of one key the first stays; partial pages have none in common. */
static void drop_repeated(pl_stack_t *stack)
{
    pl_stack_entry_t *entries = stack->entries.items;
    size_t kept               = 0;

    for (size_t i = 0; i < stack->entries.n; i++) {
        if ((kept > 0) && (entries[i].key >= 0) &&
            (entries[kept - 1].key == entries[i].key)) {
            continue;
        }
        entries[kept++] = entries[i];
    }
    stack->entries.n = kept;
}

pl_status_t pl_stack_make(const pl_uses_t *uses, const pl_sharing_t *sharing,
                          int64_t page_tokens, size_t since, size_t until,
                          const int64_t *copied, size_t n_copied,
                          pl_stack_t *stack)
{
    size_t after = uses->uses.items[since].end;

    for (size_t u = 0; u < uses->uses.n; u++) {
        const pl_use_t *use = &uses->uses.items[u];

        if ((u != since) && (use->begin < until) && (use->end > after)) {
            PL_TRY(
                add_use(stack, uses, sharing, use, page_tokens, after, until));
        }
    }
    if (stack->entries.n == 0) {
        return PL_OK;
    }
    qsort(stack->entries.items, stack->entries.n, sizeof(pl_stack_entry_t),
          by_key);
    drop_repeated(stack);
    for (size_t i = 0; i < stack->entries.n; i++) {
        pl_stack_entry_t *entry = &stack->entries.items[i];

        entry->copied = (entry->key >= 0) && (n_copied > 0) &&
                        (bsearch(&entry->key, copied, n_copied, sizeof(*copied),
                                 by_number) != NULL);
    }
    qsort(stack->entries.items, stack->entries.n, sizeof(pl_stack_entry_t),
          by_lane);
    return PL_OK;
}

void pl_stack_free(pl_stack_t *stack)
{
    PL_ARRAY_FREE(&stack->entries);
}

/* Is it a page before p of the path?  Those are counted from the start. */
static bool is_before(const pl_stack_path_t *path, int64_t p, int64_t key)
{
    int64_t page = pl_key_page(key);

    return (key >= 0) && (page < p) && (path->keys[page] == key);
}

static size_t first_of_lane(const pl_stack_t *stack, int32_t lane)
{
    size_t low  = 0;
    size_t high = stack->entries.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (stack->entries.items[middle].lane < lane) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t pl_stack_depth(const pl_stack_t *stack, const pl_stack_path_t *path,
                       int64_t p, int32_t lane, bool copied_only)
{
    int64_t before = 0;
    int64_t now    = 0;
    int64_t most   = 0;

    for (int64_t q = 0; q < p; q++) {
        before += path->lanes[q] == lane ? 1 : 0;
    }
    for (size_t i = first_of_lane(stack, lane);
         (i < stack->entries.n) && (stack->entries.items[i].lane == lane);
         i++) {
        const pl_stack_entry_t *entry = &stack->entries.items[i];

        if ((copied_only && !entry->copied) || is_before(path, p, entry->key)) {
            continue;
        }
        now += entry->change;
        most = now > most ? now : most;
    }
    return 1 + before + most;
}
