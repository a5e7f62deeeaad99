#include "cli/sweep_split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/fleet_shape.h"
#include "cli/planned.h"

enum { USUAL_CP = 8, USUAL_NODE = 8, MOST_GPUS = 1000000 };

static pl_option_result_t out_of_memory(void)
{
    return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
}

/* ---- numbers ---- */

typedef PL_ARRAY(int32_t) numbers_t;

/* A list of integers from `min` to `most`, each once; 0 stands for `zero`. */
typedef struct list {
    const char *option;
    int32_t min, most, zero;
} list_t;

static const list_t CPS  = {"cp", 0, PL_MAX_RANKS, USUAL_CP};
static const list_t GPUS = {"gpus", 1, MOST_GPUS, 0};

static pl_option_result_t add_number(const list_t *list, int32_t number,
                                     numbers_t *numbers)
{
    number = number == 0 ? list->zero : number;
    for (size_t i = 0; i < numbers->n; i++) {
        if (numbers->items[i] == number) {
            return pl_option_bad(PL_ERR_ARGUMENT,
                                 "option --%s: %" PRId32
                                 " stands there twice; leave one of them out",
                                 list->option, number);
        }
    }
    return PL_ARRAY_PUSH(numbers, number) == PL_OK ? (pl_option_result_t){0}
                                                   : out_of_memory();
}

static pl_option_result_t read_list(const list_t *list, const char *text,
                                    numbers_t *numbers)
{
    const char *item          = text;
    pl_option_result_t result = {0};

    for (;;) {
        char *end   = NULL;
        long number = strtol(item, &end, 10);

        if ((end == item) || ((*end != ',') && (*end != '\0')) ||
            (number < list->min) || (number > list->most)) {
            return pl_option_bad(
                PL_ERR_ARGUMENT,
                "option --%s: cannot use '%.80s'; expected an integer "
                "from %d to %d, or several with commas between them",
                list->option, text, (int)list->min, (int)list->most);
        }
        result = add_number(list, (int32_t)number, numbers);
        if ((result.verdict != PL_OPTION_OKAY) || (*end == '\0')) {
            return result;
        }
        item = end + 1;
    }
}

pl_option_result_t pl_sweep_check_gpus(const char *gpus, int64_t usual,
                                       int64_t *given_p)
{
    numbers_t numbers         = {0};
    pl_option_result_t result = read_list(&GPUS, gpus, &numbers);

    *given_p = usual;
    for (size_t i = 0; (i < numbers.n) && (*given_p == usual); i++) {
        *given_p = numbers.items[i];
    }
    PL_ARRAY_FREE(&numbers);
    return result;
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

/* Of how many GPUs, and how. */
typedef struct parting {
    numbers_t gpus, cps;
    int64_t node;
    pl_text_t text;
} parting_t;

static bool can_be_parted(const parting_t *p, int64_t gpus)
{
    pl_fleet_splits_t splits = {0};
    pl_status_t status =
        pl_fleet_split(gpus, p->cps.items, p->cps.n, p->node, &splits);
    bool can = (status == PL_OK) && (splits.n > 0);

    pl_fleet_splits_free(&splits);
    return can;
}

/* Numbers that can are no further from each other than the smaller of group
 * and node, from both together on. */
static int64_t nearest(const parting_t *p, int64_t gpus, int step)
{
    int64_t most = p->node + p->cps.items[0];

    for (int64_t by = 1; (by <= most) && (gpus + by * step > 0); by++) {
        if (can_be_parted(p, gpus + by * step)) {
            return gpus + by * step;
        }
    }
    return 0;
}

static pl_option_result_t cannot_part(const parting_t *p, int64_t gpus)
{
    int64_t below    = nearest(p, gpus, -1);
    int64_t above    = nearest(p, gpus, 1);
    char remedy[128] = "give other numbers, or --cp";

    if ((below > 0) && (above > 0)) {
        (void)snprintf(remedy, sizeof(remedy),
                       "%" PRId64 " and %" PRId64 " can; or give --cp", below,
                       above);
    } else if (below + above > 0) {
        (void)snprintf(remedy, sizeof(remedy), "%" PRId64 " can; or give --cp",
                       below + above);
    }
    return pl_option_bad(
        PL_ERR_ARGUMENT,
        "option --gpus %" PRId64
        ": cannot be parted into prefill instances of as many GPUs as --cp "
        "says and decode instances of whole nodes of %" PRId64 "; %s",
        gpus, p->node, remedy);
}

static pl_option_result_t part(parting_t *p, int64_t gpus)
{
    pl_fleet_splits_t splits = {0};
    pl_status_t status =
        pl_fleet_split(gpus, p->cps.items, p->cps.n, p->node, &splits);
    bool none = splits.n == 0;

    for (size_t i = 0; i < splits.n; i++) {
        pl_text_add(&p->text, "%s%s", p->text.n == 0 ? "" : ",",
                    splits.items[i]);
    }
    pl_fleet_splits_free(&splits);
    if (status != PL_OK) {
        return out_of_memory();
    }
    return none ? cannot_part(p, gpus) : (pl_option_result_t){0};
}

pl_option_result_t pl_sweep_splits(const char *gpus, const char *cps,
                                   const char *hardware, char **text_p)
{
    parting_t p               = {.node = 0};
    pl_option_result_t result = read_list(&CPS, cps, &p.cps);

    if (result.verdict == PL_OPTION_OKAY) {
        result = read_list(&GPUS, gpus, &p.gpus);
    }
    if (result.verdict == PL_OPTION_OKAY) {
        result = read_nodes(hardware, &p.node);
    }
    for (size_t i = 0; (i < p.gpus.n) && (result.verdict == PL_OPTION_OKAY);
         i++) {
        result = part(&p, p.gpus.items[i]);
    }
    if (result.verdict != PL_OPTION_OKAY) {
        pl_text_free(&p.text);
    } else if (pl_text_take(&p.text, text_p) != PL_OK) {
        result = out_of_memory();
    }
    PL_ARRAY_FREE(&p.gpus);
    PL_ARRAY_FREE(&p.cps);
    return result;
}
