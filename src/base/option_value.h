/* base/option_value.h - one value as text and back; inside base/option*.c. */
#ifndef PL_BASE_OPTION_VALUE_H
#define PL_BASE_OPTION_VALUE_H

#include "base/option.h"
#include "base/text.h"

/* Read `text` (NULL or empty is refused) into the member at `slot`, replacing
 * what it owned (a list of strings is appended to).  Returns PL_OK,
 * PL_ERR_ARGUMENT (the member is as it was) or PL_ERR_MEMORY.  Prints nothing:
 * pl_option_expected says what was wanted. */
PL_MUST_CHECK pl_status_t pl_option_read(const pl_option_t *option,
                                         const char *text, void *slot);

/* Append what a value of this option looks like: "an integer from 1 to 8". */
void pl_option_expected(const pl_option_t *option, pl_text_t *text);

/* Free what the member owns and zero it. */
void pl_option_clear(const pl_option_t *option, void *slot);

static inline void *pl_option_slot(const pl_option_t *option, void *values)
{
    return (char *)values + option->offset;
}

#endif /* PL_BASE_OPTION_VALUE_H */
