#include "exec/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "Name:   123 kB" of /proc/meminfo. */
static bool read_meminfo(const char *name, uint64_t *bytes_p)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    bool found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && (fgets(line, sizeof(line), file) != NULL)) {
        size_t n      = strlen(name);
        uint64_t kilo = 0;

        if ((strncmp(line, name, n) == 0) &&
            (sscanf(line + n, ": %" SCNu64, &kilo) == 1)) {
            *bytes_p = kilo * 1024;
            found    = true;
        }
    }
    fclose(file);
    return found;
}

static bool read_number(const char *path, uint64_t *number_p)
{
    FILE *file = fopen(path, "r");
    bool ok    = false;

    if (file == NULL) {
        return false;
    }
    ok = fscanf(file, "%" SCNu64, number_p) == 1; /* "max" is no number */
    fclose(file);
    return ok;
}

bool pl_memory_available(uint64_t *bytes_p)
{
    uint64_t limit = 0;
    uint64_t used  = 0;
    bool known     = read_meminfo("MemAvailable", bytes_p);

    if (read_number("/sys/fs/cgroup/memory.max", &limit) &&
        read_number("/sys/fs/cgroup/memory.current", &used)) {
        uint64_t left = limit > used ? limit - used : 0;

        *bytes_p = known && (*bytes_p < left) ? *bytes_p : left;
        known    = true;
    }
    return known;
}

void pl_text_grouped(uint64_t number, char *buffer)
{
    char digits[24];
    int n  = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    int to = 0;

    for (int i = 0; i < n; i++) {
        if ((i > 0) && ((n - i) % 3 == 0)) {
            buffer[to++] = ',';
        }
        buffer[to++] = digits[i];
    }
    buffer[to] = '\0';
}
