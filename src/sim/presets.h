/* sim/presets.h - the files of datasets/models and datasets/hardware, built in,
 * so that a name is enough wherever the program is installed. */
#ifndef PL_SIM_PRESETS_H
#define PL_SIM_PRESETS_H

#include <stddef.h>
#include <stdint.h>

typedef enum pl_preset_kind {
    PL_PRESET_MODEL,   /* config.json of a model */
    PL_PRESET_HARDWARE /* sim/hardware.h */
} pl_preset_kind_t;

typedef struct pl_preset {
    pl_preset_kind_t kind;
    const char *name; /* of the file, without .json */
    const uint8_t *text;
    size_t n_bytes;
} pl_preset_t;

/* By name, whatever the case of its letters; NULL: there is none. */
const pl_preset_t *pl_preset_find(pl_preset_kind_t kind, const char *name);

/* The i-th of the kind, by name; NULL behind the last. */
const pl_preset_t *pl_preset_at(pl_preset_kind_t kind, size_t i);

#endif /* PL_SIM_PRESETS_H */
