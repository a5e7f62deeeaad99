/* Preloaded (LD_PRELOAD): the n-th allocation by libpagelane finds no memory.
 *
 *   PL_TEST_NO_MEMORY=n   which one, from 1; 0: none
 *
 * At the end the number of them all goes to stderr, "allocations: N".  What
 * other libraries allocate is theirs.  For glibc. */
#define _GNU_SOURCE /* dladdr */

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *mem, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static long wanted; /* 0 before begin(), too: the loader allocates */
static atomic_long n_so_far;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("PL_TEST_NO_MEMORY");

    wanted = text != NULL ? strtol(text, NULL, 10) : 0;
}

__attribute__((destructor)) static void end(void)
{
    (void)fprintf(stderr, "allocations: %ld\n", atomic_load(&n_so_far));
}

/* Does the call that returns to `caller` find none? */
static bool finds_none(void *caller)
{
    Dl_info whose;

    if ((dladdr(caller, &whose) == 0) || (whose.dli_fname == NULL) ||
        (strstr(whose.dli_fname, "/libpagelane.so") == NULL)) {
        return false;
    }
    return atomic_fetch_add(&n_so_far, 1) + 1 == wanted;
}

void *malloc(size_t bytes)
{
    return finds_none(__builtin_return_address(0)) ? NULL
                                                   : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return finds_none(__builtin_return_address(0)) ? NULL
                                                   : __libc_calloc(n, bytes);
}

void *realloc(void *mem, size_t bytes)
{
    return finds_none(__builtin_return_address(0)) ? NULL
                                                   : __libc_realloc(mem, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return finds_none(__builtin_return_address(0))
               ? NULL
               : __libc_memalign(alignment, bytes);
}
