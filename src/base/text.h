/* base/text.h - a growable string.
 *
 *   pl_text_t text = {0};
 *   pl_text_add(&text, "%d pages\n", n);    as often as needed
 *   status = pl_text_take(&text, &string);  PL_OK or PL_ERR_MEMORY
 *
 * Zero-initialised means empty.  A failed addition is remembered, so only
 * pl_text_take has to be looked at.
 */
#ifndef PL_BASE_TEXT_H
#define PL_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

typedef struct pl_text {
    char *bytes; /* n bytes and a final NUL; NULL while empty */
    size_t n;
    size_t capacity;
    pl_status_t status; /* PL_ERR_MEMORY once an addition failed */
} pl_text_t;

#if defined(__GNUC__)
#define PL_TEXT_FORMAT(at, first) __attribute__((format(printf, at, first)))
#else
#define PL_TEXT_FORMAT(at, first)
#endif

void pl_text_add(pl_text_t *text, const char *format, ...) PL_TEXT_FORMAT(2, 3);
void pl_text_add_list(pl_text_t *text, const char *format, va_list arguments)
    PL_TEXT_FORMAT(2, 0);

/* Hand the string to the caller, who frees it; the text is empty again.  On
 * failure everything is freed and *string_p is left alone. */
PL_MUST_CHECK pl_status_t pl_text_take(pl_text_t *text, char **string_p);

void pl_text_free(pl_text_t *text); /* empty again, usable again */

/* Behind a noun that is counted, "" for one and "s" for others:
 *   printf("%d page%s", n, pl_text_s(n)); */
const char *pl_text_s(int64_t n);

/* A line without the "rank RANK: " that it begins with, where it does: for who
 * says in another way whose line it is. */
const char *pl_text_without_rank(const char *line, int rank);

#endif /* PL_BASE_TEXT_H */
