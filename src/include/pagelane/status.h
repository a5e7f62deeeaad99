/* pagelane/status.h - what a call says of itself.
 *
 * Every fallible function returns a pl_status_t.  The sign tells what the
 * caller may still do:
 *   0         done.
 *   positive  refused: the object is as it was before the call; ask again
 *             later, with less, or do without.
 *   negative  failed: one line has been printed by the first function that
 *             knew the cause (callers pass the status up silently); the object
 *             may only be closed unless its header says otherwise.
 * Outputs (`_p` arguments) are written only on PL_OK unless a header says so.
 */
#ifndef PAGELANE_STATUS_H
#define PAGELANE_STATUS_H

#include <pagelane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text, exit status of a program that ends with it. */
#define PL_STATUS_LIST(X)                                                      \
    X(PL_OK, 0, "success", 0)                                                  \
    X(PL_REFUSED_SHORT, 1, "not enough free pages", 4)                         \
    X(PL_REFUSED_UNSUPPORTED, 2, "not supported here", 2)                      \
    X(PL_ERR_ARGUMENT, -1, "invalid argument or option", 2)                    \
    X(PL_ERR_INPUT, -2, "a file or its content is bad", 3)                     \
    X(PL_ERR_IO, -3, "input/output error", 3)                                  \
    X(PL_ERR_MEMORY, -4, "out of memory", 4)                                   \
    X(PL_ERR_RESOURCE, -5, "a resource is too small", 4)                       \
    X(PL_ERR_VIOLATION, -6, "an invariant does not hold", 1)                   \
    X(PL_ERR_DISAGREE, -7, "ranks disagree", 5)                                \
    X(PL_ERR_DEVICE, -8, "device error", 5)                                    \
    X(PL_ERR_COMM, -9, "communication error", 5)                               \
    X(PL_ERR_PEER, -10, "another rank failed", 5)                              \
    X(PL_ERR_INTERNAL, -11, "internal error", 5)

typedef enum pl_status {
#define PL_STATUS_ENUM(name, value, text, exit_status) name = (value),
    PL_STATUS_LIST(PL_STATUS_ENUM)
#undef PL_STATUS_ENUM
} pl_status_t;

/* The exit status of a skipped test (ctest's SKIP_RETURN_CODE). */
#define PL_EXIT_SKIPPED 77

/* The text of a status; never NULL, static storage. */
PL_API const char *pl_status_text(pl_status_t status);

/* The exit status (0..5) a program ends with after `status`. */
PL_API int pl_status_exit(pl_status_t status);

/* Marks a function whose status must be looked at. */
#if defined(__GNUC__)
#define PL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PL_MUST_CHECK
#endif

/* Return early: only where nothing is held yet. */
#define PL_TRY(call)                                                           \
    do {                                                                       \
        pl_status_t pl_try_ = (call);                                          \
        if (pl_try_ != PL_OK) {                                                \
            return pl_try_;                                                    \
        }                                                                      \
    } while (0)

/* Jump to the label that undoes what is held so far. */
#define PL_TRY_GOTO(status, call, label)                                       \
    do {                                                                       \
        (status) = (call);                                                     \
        if ((status) != PL_OK) {                                               \
            goto label;                                                        \
        }                                                                      \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_STATUS_H */
