#include "base/option.h"

#include <string.h>

enum { LONGEST = 64 };

/* Edits (change, insert, delete one byte) from a to b; words over
 * LONGEST count as far away. */
static size_t edits(const char *a, const char *b)
{
    size_t row[LONGEST + 1];
    size_t n = strlen(b);

    if ((n > LONGEST) || (strlen(a) > LONGEST)) {
        return LONGEST;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            size_t step   = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            diagonal = row[j];
            row[j]   = change < step ? change : step;
        }
    }
    return row[n];
}

const char *pl_option_nearest(const char *word, const char *const *candidates,
                              size_t n)
{
    const char *nearest = NULL;
    size_t fewest       = strlen(word) / 3 + 2; /* beyond it is another word */

    for (size_t i = 0; i < n; i++) {
        size_t count = edits(word, candidates[i]);

        if (count < fewest) {
            fewest  = count;
            nearest = candidates[i];
        }
    }
    return nearest;
}
