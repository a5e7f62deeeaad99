#include "trace/make.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "trace/id_map.h"
#include "trace/internal.h"

#define NS_PER_S 1e9

/* Where a text begins that no other prompt has: behind all choices. */
#define OWN_TEXT (UINT64_C(1) << 32)

/* A prompt so far: texts, each a node of the tree of prefixes. */
typedef struct text {
    uint64_t node;
    int64_t end; /* in tokens */
} text_t;

typedef struct make {
    const pl_make_params_t *params;
    const pl_log_t *log;
    pl_trace_rows_t rows;
    pl_rng_t arrivals, shape, lengths, turns; /* streams of their own */
    pl_id_map_t nodes;  /* by the node before it and the choice */
    pl_id_map_t blocks; /* by the node in which it ends and its number */
    uint64_t n_own;
    PL_ARRAY(text_t) prompt;
    double now_s;
} make_t;

/* ---- draws ---- */

static double draw_exponential(pl_rng_t *rng)
{
    return -log(1.0 - pl_rng_unit(rng));
}

static double draw_normal(pl_rng_t *rng)
{
    double radius = sqrt(2.0 * draw_exponential(rng));

    return radius * cos(6.283185307179586 * pl_rng_unit(rng));
}

/* Mean 1 (Marsaglia and Tsang, 2000). */
static double draw_gamma(pl_rng_t *rng, double cv)
{
    double shape = 1.0 / (cv * cv);
    double boost = 1.0;
    double a     = shape;

    if (cv <= 0) {
        return 1.0;
    }
    if (shape < 1.0) {
        boost = pow(1.0 - pl_rng_unit(rng), 1.0 / shape);
        a     = shape + 1.0;
    }
    for (;;) {
        double d = a - 1.0 / 3.0;
        double x = draw_normal(rng);
        double v = 1.0 + x / sqrt(9.0 * d);

        v = v * v * v;
        if ((v > 0) && (log(1.0 - pl_rng_unit(rng)) <
                        0.5 * x * x + d - d * v + d * log(v))) {
            return boost * d * v / shape;
        }
    }
}

/* At least 1 token. */
static int64_t draw_tokens(pl_rng_t *rng, const pl_make_draw_t *draw)
{
    double tokens = floor(draw->mean * draw_gamma(rng, draw->cv) + 0.5);

    return tokens < 1 ? 1 : (tokens > 1e9 ? 1000000000 : (int64_t)tokens);
}

/* ---- prompts ---- */

static pl_status_t add_text(make_t *make, uint64_t choice, int64_t tokens)
{
    size_t n      = make->prompt.n;
    uint64_t node = 0;
    text_t text;

    PL_TRY(pl_id_map_number(&make->nodes,
                            n > 0 ? make->prompt.items[n - 1].node : UINT64_MAX,
                            choice, &node));
    text = (text_t){node, tokens + (n > 0 ? make->prompt.items[n - 1].end : 0)};
    return PL_ARRAY_PUSH(&make->prompt, text);
}

static pl_status_t begin_prompt(make_t *make)
{
    const pl_make_params_t *params = make->params;

    make->prompt.n = 0;
    for (int level = 0; level < params->n_levels; level++) {
        uint64_t choice =
            pl_rng_below(&make->shape, (uint64_t)params->levels[level].n);

        PL_TRY(add_text(make, choice, params->levels[level].tokens));
    }
    return PL_OK;
}

static pl_status_t add_own_text(make_t *make, int64_t tokens)
{
    return add_text(make, OWN_TEXT + make->n_own++, tokens);
}

/* The ids of the prompt: a block is known by the text in which it ends. */
static pl_status_t add_ids(make_t *make, pl_trace_row_t *row)
{
    int64_t size  = row->block_tokens;
    int64_t input = make->prompt.items[make->prompt.n - 1].end;
    size_t at     = 0;

    row->first = make->rows.ids.n;
    for (int64_t begin = 0; begin < input; begin += size) {
        int64_t end = begin + size < input ? begin + size : input;
        uint64_t id = 0;

        while (make->prompt.items[at].end < end) {
            at++;
        }
        PL_TRY(pl_id_map_number(&make->blocks, make->prompt.items[at].node,
                                (uint64_t)(begin / size), &id));
        PL_TRY(PL_ARRAY_PUSH(&make->rows.ids, id));
        row->n++;
    }
    row->input_tokens = (int32_t)input;
    return PL_OK;
}

static pl_status_t check_length(const make_t *make)
{
    if (make->prompt.items[make->prompt.n - 1].end > INT32_MAX) {
        pl_log(
            make->log, PL_LOG_ERROR,
            "a prompt has more than %d tokens: expected fewer; make --shape, "
            "--words, --answer or --turns smaller",
            (int)INT32_MAX);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

/* ---- arrivals ---- */

/* In s after the arrival before it. */
static double next_gap(make_t *make, int32_t i)
{
    const pl_make_params_t *params = make->params;
    const pl_trace_t *like         = params->like;

    switch (params->arrivals) {
    case PL_MAKE_POISSON:
        return draw_exponential(&make->arrivals) / params->rate;
    case PL_MAKE_GAMMA:
        return draw_gamma(&make->arrivals, params->cv) / params->rate;
    case PL_MAKE_LIKE:
        if (like->count < 2) {
            return 0;
        }
        i = i % (like->count - 1);
        return (double)(like->times_ns[i + 1] - like->times_ns[i]) / NS_PER_S;
    case PL_MAKE_AT_ONCE:
        break;
    }
    return 0;
}

static pl_status_t next_arrival(make_t *make, int32_t i, int64_t *time_ns_p)
{
    if (i > 0) {
        make->now_s += next_gap(make, i - 1);
    }
    if (make->now_s * NS_PER_S > (double)PL_TRACE_MAX_NS) {
        pl_log(make->log, PL_LOG_ERROR,
               "option --arrivals: the trace lasts more than 285 years; "
               "expected a larger rate");
        return PL_ERR_ARGUMENT;
    }
    *time_ns_p = (int64_t)(make->now_s * NS_PER_S + 0.5);
    return PL_OK;
}

/* ---- rows ---- */

static pl_trace_row_t new_row(const make_t *make)
{
    pl_trace_row_t row = {.line         = (int64_t)make->rows.row.n + 1,
                          .block_tokens = make->params->block_tokens,
                          .time_ns      = PL_TRACE_NO_TIME};

    return row;
}

/* A further turn with these odds, so that their number is `turns` on average.
 */
static bool goes_on(make_t *make)
{
    return pl_rng_unit(&make->turns) < 1.0 - 1.0 / make->params->turns;
}

static pl_status_t add_session(make_t *make, int32_t i)
{
    const pl_make_params_t *params = make->params;
    bool more                      = true;

    PL_TRY(begin_prompt(make));
    for (int turn = 0; more; turn++) {
        pl_trace_row_t row = new_row(make);

        row.session = i + 1;
        if (turn == 0) {
            PL_TRY(next_arrival(make, i, &row.time_ns));
        } else {
            double think = params->think_s * draw_exponential(&make->turns);

            row.delay_ns = (int64_t)(think * NS_PER_S + 0.5);
            PL_TRY(pl_trace_wait_for(&make->rows, &row, make->rows.row.n - 1));
        }
        PL_TRY(add_own_text(make, draw_tokens(&make->lengths, &params->words)));
        PL_TRY(check_length(make));
        PL_TRY(add_ids(make, &row));
        row.output_tokens =
            (int32_t)draw_tokens(&make->lengths, &params->answer);
        PL_TRY(PL_ARRAY_PUSH(&make->rows.row, row));
        PL_TRY(add_own_text(make, row.output_tokens));
        more = goes_on(make);
    }
    return PL_OK;
}

/* The prompt of row `first` once more. */
static pl_status_t add_replay(make_t *make, size_t first, int32_t i)
{
    pl_trace_row_t row;

    assert(first < make->rows.row.n);
    row      = make->rows.row.items[first];
    row.line = (int64_t)make->rows.row.n + 1;
    PL_TRY(next_arrival(make, i, &row.time_ns));
    return PL_ARRAY_PUSH(&make->rows.row, row);
}

static pl_status_t add_churn(make_t *make)
{
    const pl_make_params_t *params = make->params;
    int32_t i                      = 0;

    for (; i < params->fill + params->pressure; i++) {
        pl_trace_row_t row = new_row(make);

        PL_TRY(next_arrival(make, i, &row.time_ns));
        PL_TRY(begin_prompt(make));
        PL_TRY(add_own_text(make, draw_tokens(&make->lengths, &params->words)));
        PL_TRY(check_length(make));
        PL_TRY(add_ids(make, &row));
        row.output_tokens =
            (int32_t)draw_tokens(&make->lengths, &params->answer);
        PL_TRY(PL_ARRAY_PUSH(&make->rows.row, row));
    }
    for (int32_t k = 0; k < params->fill; k++) {
        PL_TRY(add_replay(make, (size_t)k, i + k));
    }
    return PL_OK;
}

static pl_status_t add_rows(make_t *make)
{
    const pl_make_params_t *params = make->params;

    if (params->fill > 0) {
        return add_churn(make);
    }
    make->rows.n_sessions = params->n_sessions;
    for (int32_t i = 0; i < params->n_sessions; i++) {
        PL_TRY(add_session(make, i));
    }
    return PL_OK;
}

pl_status_t pl_trace_make(const pl_make_params_t *params, const pl_log_t *log,
                          pl_trace_t **trace_p)
{
    pl_trace_params_t open = pl_trace_params_default();
    make_t make            = {
                   .params   = params,
                   .log      = log,
                   .arrivals = pl_rng_seed(params->seed),
                   .shape    = pl_rng_seed(params->seed ^ UINT64_C(0x5a)),
                   .lengths  = pl_rng_seed(params->seed ^ UINT64_C(0xa500)),
                   .turns    = pl_rng_seed(params->seed ^ UINT64_C(0x3c0000)),
    };
    pl_status_t status = add_rows(&make);

    open.paced = true;
    if (status == PL_OK) {
        status =
            pl_trace_open_rows(&open, "the trace", &pl_trace_reader_mooncake,
                               &make.rows, log, trace_p);
    } else {
        pl_trace_rows_free(&make.rows);
    }
    pl_id_map_free(&make.nodes);
    pl_id_map_free(&make.blocks);
    PL_ARRAY_FREE(&make.prompt);
    return status;
}
