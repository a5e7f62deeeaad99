/* verify/violation.h - what did not hold, where, and how it is said.
 *
 * A rank that sees a violation notes it and goes on until the ranks next agree;
 * then all exchange what they noted and take the least in one total order, so
 * that every run of the same input names the same one.  docs/invariants.md has
 * the numbers.
 */
#ifndef PL_VERIFY_VIOLATION_H
#define PL_VERIFY_VIOLATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much is checked (--verify). */
typedef enum pl_verify {
    PL_VERIFY_OFF,
    PL_VERIFY_DIGEST, /* digests and guard words at every later read */
    PL_VERIFY_FULL    /* and each request's digest against a cold computation
                         from its tokens alone */
} pl_verify_t;

/* Numbers of docs/invariants.md that the data plane finds broken. */
enum {
    PL_INVARIANT_WRITTEN  = 6, /* read only where and after it was written */
    PL_INVARIANT_BYTES    = 7, /* the bytes are those of the tokens */
    PL_INVARIANT_TRANSFER = 9, /* one end, each position once, own request */
    PL_INVARIANT_REPEAT   = 10 /* the same request, the same digest */
};

/* Where the page lay that was read. */
typedef enum pl_place {
    PL_PLACE_DEVICE,
    PL_PLACE_HOST,
    PL_PLACE_TRANSFER,
    PL_PLACE_DECODE,
    PL_PLACE_DECODE_HOST,
    PL_PLACES
} pl_place_t;

const char *pl_place_text(pl_place_t place);

typedef struct pl_violation {
    int32_t invariant;
    int64_t tick;
    int32_t layer;
    int32_t store;    /* 0 latent, 1 index */
    int32_t position; /* first token that is wrong, or of the page */
    int32_t reader;   /* rank that saw it */
    int32_t request;  /* index in the trace, or -1 */
    int64_t node;     /* or -1 */
    int32_t page;     /* logical page of its tier, or -1 */
    int32_t owner;
    int32_t slot;
    pl_place_t tier;
} pl_violation_t;

/* The order of the line that is printed: tick, layer, store, position, reader,
 * then the other members, so that it is total.  < 0, 0, > 0. */
int pl_violation_compare(const pl_violation_t *a, const pl_violation_t *b);

/* The least violation so far, and how many there were. */
typedef struct pl_violations {
    int64_t n;
    pl_violation_t least; /* valid if n > 0 */
} pl_violations_t;

void pl_violations_note(pl_violations_t *violations,
                        const pl_violation_t *violation);

/* As words that ranks can exchange; all 0 is "none". */
#define PL_VIOLATION_WORDS 13
void pl_violations_encode(const pl_violations_t *violations, uint64_t *words);
/* Adds what the words say; false if they say "none" or nonsense. */
bool pl_violations_decode(pl_violations_t *violations, const uint64_t *words);

/* The one line of fixed form, NUL-terminated, into a buffer of
 * PL_VIOLATION_LINE_BYTES:
 *   pagelane violation: invariant=I7 req=3 node=-1 pos=128 page=17 owner=1
 *   reader=0 slot=4 layer=1 store=latent tier=device tick=20 seed=0 */
#define PL_VIOLATION_LINE_BYTES 400
void pl_violation_line(const pl_violation_t *violation, uint64_t seed,
                       char *buffer);

#endif /* PL_VERIFY_VIOLATION_H */
