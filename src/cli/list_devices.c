/* pagelane --list-devices: what can be opened here and, where not, why. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/list_devices.h"
#include "cli/table.h"
#include "device/cuda.h"
#include "device/device.h"

static void add(pl_table_t *table, const char *name, const char *state,
                const char *about)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%s", state);
    pl_table_cell(table, "%s", about);
}

static void add_gpus(pl_table_t *table)
{
    char why[256]                  = "";
    const pl_cuda_module_t *module = pl_cuda_open(why, sizeof(why));
    int n = module != NULL ? module->count(why, sizeof(why)) : 0;

    if (n == 0) {
        add(table, "cuda", "no", why);
    }
    for (int i = 0; i < n; i++) {
        pl_cuda_about_t about;
        char name[32], line[160];

        (void)snprintf(name, sizeof(name), "cuda:%d", i);
        if (module->describe(i, &about) == PL_OK) {
            (void)snprintf(line, sizeof(line),
                           "%.63s, %" PRIu64
                           " MiB, compute capability %d.%d",
                           about.name, about.bytes >> 20, about.major,
                           about.minor);
            add(table, name, "yes", line);
        } else {
            add(table, name, "no", "the driver says nothing of it");
        }
    }
}

int pl_cli_list_devices(void)
{
    pl_table_t *table = pl_table_open("device<,can be opened<,about<");
    pl_status_t status;

    add(table, "cpu", "yes", "host memory");
    add(table, "guard", "yes", "cpu with poison, red zones and late copies");
    add_gpus(table);
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return pl_status_exit(status);
}
