#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static pl_status_t reserve(pl_text_t *text, size_t want)
{
    void *bytes = text->bytes;
    pl_status_t status;

    if (want <= text->capacity) {
        return PL_OK;
    }
    status      = pl_array_grow(&bytes, &text->capacity, want, 1);
    text->bytes = bytes;
    return status;
}

void pl_text_add_list(pl_text_t *text, const char *format, va_list arguments)
{
    va_list again;
    int wrote;

    if (text->status != PL_OK) {
        return;
    }
    va_copy(again, arguments);
    wrote = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if ((wrote < 0) || (reserve(text, text->n + (size_t)wrote + 1) != PL_OK)) {
        text->status = PL_ERR_MEMORY;
        return;
    }
    (void)vsnprintf(text->bytes + text->n, (size_t)wrote + 1, format,
                    arguments);
    text->n += (size_t)wrote;
}

void pl_text_add(pl_text_t *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    pl_text_add_list(text, format, arguments);
    va_end(arguments);
}

pl_status_t pl_text_take(pl_text_t *text, char **string_p)
{
    pl_text_add(text, "%s", ""); /* so that an empty text is a string too */
    if (text->status != PL_OK) {
        pl_text_free(text);
        return PL_ERR_MEMORY;
    }
    *string_p = text->bytes;
    *text     = (pl_text_t){0};
    return PL_OK;
}

void pl_text_free(pl_text_t *text)
{
    free(text->bytes);
    *text = (pl_text_t){0};
}

const char *pl_text_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

const char *pl_text_without_rank(const char *line, int rank)
{
    char prefix[24];
    size_t n = (size_t)snprintf(prefix, sizeof(prefix), "rank %d: ", rank);

    while (strncmp(line, prefix, n) == 0) {
        line += n;
    }
    return line;
}
