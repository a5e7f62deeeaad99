#include "cli/sweep_split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/fleet_shape.h"
#include "cli/planned.h"

enum { USUAL_CP = 8, USUAL_NODE = 8 };

static pl_option_result_t out_of_memory(void)
{
    return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
}

/* ---- groups ---- */

typedef PL_ARRAY(int32_t) numbers_t;

static pl_option_result_t read_cps(const char *list, numbers_t *cps)
{
    const char *item = list;

    for (;;) {
        char *end = NULL;
        long cp   = strtol(item, &end, 10);

        if ((end == item) || ((*end != ',') && (*end != '\0')) || (cp < 0) ||
            (cp > PL_MAX_RANKS)) {
            return pl_option_bad(
                PL_ERR_ARGUMENT,
                "option --cp: cannot use '%.80s'; expected an integer "
                "from 0 to %d, or several with commas between them",
                list, PL_MAX_RANKS);
        }
        if (PL_ARRAY_PUSH(cps, cp == 0 ? USUAL_CP : (int32_t)cp) != PL_OK) {
            return out_of_memory();
        }
        if (*end == '\0') {
            return (pl_option_result_t){0};
        }
        item = end + 1;
    }
}

/* ---- nodes ---- */

typedef struct first_line {
    char text[400];
} first_line_t;

static void keep_line(void *context, pl_log_level_t level, const char *line)
{
    first_line_t *first = context;

    if ((level == PL_LOG_ERROR) && (first->text[0] == '\0')) {
        (void)snprintf(first->text, sizeof(first->text), "%s", line);
    }
}

static pl_option_result_t read_node(const char *name, int64_t *node_p)
{
    first_line_t first = {""};
    const pl_log_t log = {
        .write = keep_line, .context = &first, .level = PL_LOG_ERROR};
    pl_hardware_t hardware = {0};
    pl_status_t status     = pl_cli_read_hardware(name, &log, &hardware);

    if (status != PL_OK) {
        return pl_option_bad(status, "%s", first.text);
    }
    if ((*node_p != 0) && (*node_p != hardware.devices_per_node)) {
        return pl_option_bad(
            PL_ERR_ARGUMENT,
            "option --pd auto: nodes of --hardware have %" PRId64
            " devices and %" PRId64 "; sweep them one by one",
            *node_p, hardware.devices_per_node);
    }
    *node_p = hardware.devices_per_node;
    return (pl_option_result_t){0};
}

static pl_option_result_t read_nodes(const char *list, int64_t *node_p)
{
    pl_option_result_t result = {0};
    char *copy                = list == NULL ? NULL : strdup(list);

    *node_p = 0;
    if ((list != NULL) && (copy == NULL)) {
        return out_of_memory();
    }
    for (char *item = copy;
         (item != NULL) && (result.verdict == PL_OPTION_OKAY);) {
        char *comma = strchr(item, ',');

        if (comma != NULL) {
            *comma = '\0';
        }
        result = read_node(item, node_p);
        item   = comma == NULL ? NULL : comma + 1;
    }
    free(copy);
    *node_p = *node_p == 0 ? USUAL_NODE : *node_p;
    return result;
}

/* ---- all of it ---- */

static pl_option_result_t join(int64_t gpus, int64_t node,
                               const pl_fleet_splits_t *splits, char **text_p)
{
    pl_text_t text = {0};

    if (splits->n == 0) {
        return pl_option_bad(
            PL_ERR_ARGUMENT,
            "option --gpus %" PRId64
            ": cannot be parted into prefill instances of as many GPUs "
            "as --cp says and decode instances of whole nodes of %" PRId64
            "; give more, or --cp",
            gpus, node);
    }
    for (size_t i = 0; i < splits->n; i++) {
        pl_text_add(&text, "%s%s", i == 0 ? "" : ",", splits->items[i]);
    }
    return pl_text_take(&text, text_p) == PL_OK ? (pl_option_result_t){0}
                                                : out_of_memory();
}

pl_option_result_t pl_sweep_splits(int64_t gpus, const char *cps,
                                   const char *hardware, char **text_p)
{
    numbers_t numbers         = {0};
    pl_fleet_splits_t splits  = {0};
    int64_t node              = 0;
    pl_option_result_t result = read_cps(cps, &numbers);

    if (result.verdict == PL_OPTION_OKAY) {
        result = read_nodes(hardware, &node);
    }
    if ((result.verdict == PL_OPTION_OKAY) &&
        (pl_fleet_split(gpus, numbers.items, numbers.n, node, &splits) !=
         PL_OK)) {
        result = out_of_memory();
    }
    if (result.verdict == PL_OPTION_OKAY) {
        result = join(gpus, node, &splits, text_p);
    }
    pl_fleet_splits_free(&splits);
    PL_ARRAY_FREE(&numbers);
    return result;
}
