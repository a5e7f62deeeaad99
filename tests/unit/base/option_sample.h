/* A small table with one option of every kind, for the tests of options. */
#ifndef PL_TESTS_OPTION_SAMPLE_H
#define PL_TESTS_OPTION_SAMPLE_H

#include <stddef.h>

#include "base/option.h"

enum { COOK = 1, EAT = 2 };

typedef struct sample {
    bool hot;
    int64_t count;
    int64_t any;
    int64_t size;
    int64_t room;
    int64_t share;
    int64_t wait;
    int64_t pages;
    char *name;
    int32_t color;
    pl_option_integers_t widths;
    pl_option_strings_t faults;
    int64_t spoons;
} sample_t;

extern const pl_option_table_t SAMPLE_TABLE;

#endif /* PL_TESTS_OPTION_SAMPLE_H */
