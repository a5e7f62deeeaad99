/* exec/memory.h - does a run fit the memory of this machine? */
#ifndef PL_EXEC_MEMORY_H
#define PL_EXEC_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process may still take, as the system (and a memory limit of
 * its control group) says; false if nothing says so. */
bool pl_memory_available(uint64_t *bytes_p);

/* A number with a comma before each three digits: "12,345", NUL-terminated. */
#define PL_GROUPED_BYTES 32
void pl_text_grouped(uint64_t number, char *buffer);

#endif /* PL_EXEC_MEMORY_H */
