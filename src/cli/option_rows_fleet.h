/* cli/option_rows_fleet.h - the rows of the option table about several
 * instances of prefill and decode: a part of the array in option_table.c, which
 * includes it there and nowhere else. */
{.group    = "instances",
 .name     = "prefill",
 .kind     = PL_OPTION_STRING,
 .unit     = "NxC",
 .help     = "N instances that prefill, each a context-parallel group of C "
             "GPUs with tiers of its own, in place of --cp. Without --decode "
             "each decodes what it prefilled (docs/fleet.md).",
 .verbs    = SIM,
 .recorded = true,
 AT(prefill)},
    {.group    = "instances",
     .name     = "decode",
     .kind     = PL_OPTION_STRING,
     .unit     = "MxG[:dpK]",
     .help     = "M instances that decode, of G GPUs each, in K homes of G / "
                 "K GPUs that split every product (tensor parallelism). "
                 "Without K each GPU is a home. In place of --decode-ranks.",
     .verbs    = SIM,
     .recorded = true,
     AT(decode)},
    {.group    = "instances",
     .name     = "pd",
     .kind     = PL_OPTION_STRING,
     .unit     = "NxC+MxG[:dpK]",
     .help     = "--prefill and --decode in one. In `sweep`, auto is every "
                 "way to part --gpus: into prefill instances of as many GPUs "
                 "as --cp says (8 without it), and decode instances of a "
                 "node, or two, four, ... that take the rest.",
     .verbs    = SIM,
     .recorded = true,
     AT(pd)},
    {.group    = "instances",
     .name     = "pd-link",
     .kind     = PL_OPTION_STRING,
     .unit     = "rate",
     .help     = "What each GPU sends or receives between instances, as "
                 "50GB/s or 500MB/s. Without it, what --hardware says of the "
                 "network, or the fixed table.",
     .verbs    = SIM,
     .recorded = true,
     AT(pd_link)},
    {.group    = "instances",
     .name     = "router",
     .kind     = PL_OPTION_CHOICE,
     .fallback = "prefix+load",
     .help     = "Which prefill instance gets a request: the next in turn; by "
                 "the seed; the one that has most of the prompt; the one "
                 "whose prompts take least; or least of that and of what the "
                 "prompt itself takes there after its hit.",
     WORDS("round-robin", "random", "best-prefix", "least-loaded",
                 "prefix+load"),
     .verbs    = SIM,
     .recorded = true,
     AT(router)},
