#include "verify/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *pl_place_text(pl_place_t place)
{
    static const char *const texts[PL_PLACES] = {"device", "host", "transfer",
                                                 "decode", "decode_host"};

    return (unsigned)place < PL_PLACES ? texts[place] : "?";
}

/* The members in the order that decides. */
static void to_fields(const pl_violation_t *v, int64_t *fields)
{
    fields[0]  = v->tick;
    fields[1]  = v->layer;
    fields[2]  = v->store;
    fields[3]  = v->position;
    fields[4]  = v->reader;
    fields[5]  = v->invariant;
    fields[6]  = v->request;
    fields[7]  = v->node;
    fields[8]  = v->page;
    fields[9]  = v->owner;
    fields[10] = v->slot;
    fields[11] = (int64_t)v->tier;
}

int pl_violation_compare(const pl_violation_t *a, const pl_violation_t *b)
{
    int64_t left[PL_VIOLATION_WORDS - 1];
    int64_t right[PL_VIOLATION_WORDS - 1];

    to_fields(a, left);
    to_fields(b, right);
    for (int i = 0; i < PL_VIOLATION_WORDS - 1; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

void pl_violations_note(pl_violations_t *violations,
                        const pl_violation_t *violation)
{
    if ((violations->n == 0) ||
        (pl_violation_compare(violation, &violations->least) < 0)) {
        violations->least = *violation;
    }
    violations->n++;
}

void pl_violations_encode(const pl_violations_t *violations, uint64_t *words)
{
    int64_t fields[PL_VIOLATION_WORDS - 1];

    memset(words, 0, PL_VIOLATION_WORDS * sizeof(*words));
    if (violations->n == 0) {
        return;
    }
    to_fields(&violations->least, fields);
    words[0] = (uint64_t)violations->n;
    for (int i = 1; i < PL_VIOLATION_WORDS; i++) {
        words[i] = (uint64_t)fields[i - 1];
    }
}

bool pl_violations_decode(pl_violations_t *violations, const uint64_t *words)
{
    pl_violation_t v;
    int64_t before = violations->n;

    if ((words[0] == 0) || (words[12] >= PL_PLACES)) {
        return false;
    }
    v.tick      = (int64_t)words[1];
    v.layer     = (int32_t)(int64_t)words[2];
    v.store     = (int32_t)(int64_t)words[3];
    v.position  = (int32_t)(int64_t)words[4];
    v.reader    = (int32_t)(int64_t)words[5];
    v.invariant = (int32_t)(int64_t)words[6];
    v.request   = (int32_t)(int64_t)words[7];
    v.node      = (int64_t)words[8];
    v.page      = (int32_t)(int64_t)words[9];
    v.owner     = (int32_t)(int64_t)words[10];
    v.slot      = (int32_t)(int64_t)words[11];
    v.tier      = (pl_place_t)words[12];
    pl_violations_note(violations, &v);
    violations->n = before + (int64_t)words[0];
    return true;
}

void pl_violation_line(const pl_violation_t *v, uint64_t seed, char *buffer)
{
    snprintf(buffer, PL_VIOLATION_LINE_BYTES,
             "pagelane violation: invariant=I%" PRId32 " req=%" PRId32
             " node=%" PRId64 " pos=%" PRId32 " page=%" PRId32 " owner=%" PRId32
             " reader=%" PRId32 " slot=%" PRId32 " layer=%" PRId32
             " store=%s tier=%s tick=%" PRId64 " seed=%" PRIu64,
             v->invariant, v->request, v->node, v->position, v->page, v->owner,
             v->reader, v->slot, v->layer, v->store == 0 ? "latent" : "index",
             pl_place_text(v->tier), v->tick, seed);
}
