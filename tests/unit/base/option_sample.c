#include "unit/base/option_sample.h"

static const char *const COLORS[] = {"red", "green", "blue", NULL};

static const pl_option_t OPTIONS[] = {
    {"heat", "hot", 0, PL_OPTION_FLAG, "false", NULL, "Hot or not.", NULL, 0, 0,
     false, COOK, true, offsetof(sample_t, hot)},
    {"heat", "count", 'c', PL_OPTION_INTEGER, "3", "pots", "How many pots.",
     NULL, -5, 100, false, COOK, true, offsetof(sample_t, count)},
    {"heat", "any-number", 0, PL_OPTION_INTEGER, "0", NULL, "Any number.", NULL,
     INT64_MIN, INT64_MAX, false, COOK, true, offsetof(sample_t, any)},
    {"heat", "size", 0, PL_OPTION_BYTES, "64KiB", "bytes", "How large.", NULL,
     0, INT64_MAX, false, COOK, true, offsetof(sample_t, size)},
    {"heat", "room", 0, PL_OPTION_GIGABYTES, "0.5", "GB", "How much room.",
     NULL, 1, INT64_C(8000000000), false, COOK, true, offsetof(sample_t, room)},
    {"heat", "share", 0, PL_OPTION_FRACTION, "0.88", NULL, "How much of it.",
     NULL, 1, 1000000000, false, COOK, false, offsetof(sample_t, share)},
    {"heat", "wait", 0, PL_OPTION_DURATION, "5ms", "ms", "How long.", NULL, 0,
     INT64_C(3600000000000), false, COOK, true, offsetof(sample_t, wait)},
    {"heat", "page-count", 0, PL_OPTION_PAGES, "unlimited", "pages",
     "How many pages.", NULL, 2, 1000, true, COOK, true,
     offsetof(sample_t, pages)},
    {"taste", "name", 0, PL_OPTION_STRING, NULL, "name",
     "What the dish is called, which may take more than one line of a terminal "
     "to explain to everybody.",
     NULL, 0, 0, false, COOK, false, offsetof(sample_t, name)},
    {"taste", "color", 0, PL_OPTION_CHOICE, "green", NULL, "Which color.",
     COLORS, 0, 0, false, COOK | EAT, true, offsetof(sample_t, color)},
    {"taste", "widths", 0, PL_OPTION_INTEGERS, "1,2", "widths", "Widths.", NULL,
     1, 64, false, COOK, true, offsetof(sample_t, widths)},
    {"taste", "fault", 'f', PL_OPTION_STRINGS, NULL, "burn|spill:N", "A fault.",
     NULL, 0, 0, false, COOK, true, offsetof(sample_t, faults)},
    {"taste", "spoons", 0, PL_OPTION_INTEGER, "1", "spoons", "Spoons.", NULL, 0,
     9, false, EAT, true, offsetof(sample_t, spoons)},
};

static const char *const RESERVED[]   = {"KIT_DEBUG", NULL};
static const char *const VERB_NAMES[] = {"cook", "eat", NULL};

const pl_option_table_t SAMPLE_TABLE = {
    .prefix     = "KIT_",
    .options    = OPTIONS,
    .n          = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
    .reserved   = RESERVED,
    .verb_names = VERB_NAMES,
};
