/* cli/fleet_limit.h - which side of a fleet limits, and by what: where the time
 * goes of the requests that break a limit of --slo, or what all of them wait
 * for (docs/fleet.md). */
#ifndef PL_CLI_FLEET_LIMIT_H
#define PL_CLI_FLEET_LIMIT_H

#include <stdint.h>

#include "base/text.h"
#include "cli/fleet_sides.h"
#include "cli/json.h"
#include "sim/detail.h"
#include "sim/metrics.h"
#include "sim/outcome.h"

/* Parts of the time from arrival to end, in that order. */
typedef enum pl_fleet_part {
    PL_FLEET_FIRST_CHUNK, /* waiting for it, while a home had room */
    PL_FLEET_HOME,        /* waiting for one with room */
    PL_FLEET_PREFILL,     /* from the first chunk to the first token */
    PL_FLEET_TRANSFER,    /* from there until all pages are at their home */
    PL_FLEET_BATCH,       /* waiting for the first step */
    PL_FLEET_CHUNKS, /* of other prompts, between steps on the same instance */
    PL_FLEET_STEPS,
    PL_FLEET_PARTS
} pl_fleet_part_t;

typedef struct pl_fleet_limit {
    int64_t broke[3]; /* requests, by ttft, tpot, e2e */
    int worst;        /* of these three; -1: no request breaks any, and what
                         follows is of all requests */
    double ns[PL_FLEET_PARTS]; /* of the mean request that breaks it */
    double token_ns;           /* of these: from one token to the next */
    pl_fleet_part_t part;      /* that limits; PL_FLEET_PARTS: none does */
} pl_fleet_limit_t;

/* How long requests waited for a home or a batch, and how long a step takes
 * beside chunks, is known of all of them together: those that break a limit are
 * given the share or the time that all have. */
pl_fleet_limit_t pl_fleet_limit(const pl_outcome_t *outcome,
                                const pl_fleet_sides_t *sides,
                                const pl_slo_t *slo);

/* "Prefill limits"; "" if nothing does. */
const char *pl_fleet_limit_words(const pl_fleet_limit_t *limit);

/* Why, in one sentence without its stop.  slo_text: of --slo, or NULL where no
 * limit is broken. */
void pl_fleet_limit_explain(const pl_fleet_limit_t *limit,
                            const pl_fleet_sides_t *sides,
                            const pl_metrics_t *metrics, const char *slo_text,
                            pl_text_t *text);
/* Both on stdout.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_fleet_limit_print(const pl_fleet_limit_t *limit,
                                               const pl_fleet_sides_t *sides,
                                               const pl_metrics_t *metrics,
                                               const char *slo_text);
/* The same as members of `object`. */
void pl_fleet_limit_json(json_object *object, const pl_fleet_limit_t *limit,
                         const char *slo_text);

#endif /* PL_CLI_FLEET_LIMIT_H */
