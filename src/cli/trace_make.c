/* pagelane trace make: a trace drawn from a seed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_file.h"
#include "trace/make.h"

/* Usual for --id-tokens 0. */
#define BLOCK_TOKENS 512

static pl_status_t bad(const pl_cli_t *cli, const char *option,
                       const char *text, const char *expected)
{
    pl_log(&cli->log, PL_LOG_ERROR, "option --%s %s: expected %s", option, text,
           expected);
    return PL_ERR_ARGUMENT;
}

/* A whole number 1 .. INT32_MAX at *text_p, which moves on. */
static bool take_count(const char **text_p, int32_t *value_p)
{
    char *end = NULL;
    long value;

    if ((**text_p < '0') || (**text_p > '9')) {
        return false;
    }
    value    = strtol(*text_p, &end, 10);
    *text_p  = end;
    *value_p = (int32_t)value;
    return (value >= 1) && (value <= INT32_MAX);
}

static pl_status_t read_shape(const pl_cli_t *cli, pl_make_params_t *params)
{
    static const char EXPECTED[] =
        "at most 16 levels TOKENSxN, as 512x1,2048x8, "
        "or none";
    const char *text = cli->options.shape;

    if (strcmp(text, "none") == 0) {
        return PL_OK;
    }
    for (;;) {
        int32_t tokens = 0;
        int32_t n      = 0;

        if ((params->n_levels == PL_MAKE_MOST_LEVELS) ||
            !take_count(&text, &tokens) || (*text++ != 'x') ||
            !take_count(&text, &n) || ((*text != ',') && (*text != '\0'))) {
            return bad(cli, "shape", cli->options.shape, EXPECTED);
        }
        params->levels[params->n_levels].tokens = tokens;
        params->levels[params->n_levels].n      = n;
        params->n_levels++;
        if (*text++ == '\0') {
            return PL_OK;
        }
    }
}

/* Numbers between colons: n_most at most, n_least at least. */
static bool read_numbers(const char *text, int n_least, int n_most,
                         double *values)
{
    for (int i = 0; i < n_most; i++) {
        char *end = NULL;

        values[i] = strtod(text, &end);
        if ((end == text) || !(values[i] >= 0) || (values[i] > 1e12)) {
            return false;
        }
        if (*end == '\0') {
            return i + 1 >= n_least;
        }
        if (*end != ':') {
            return false;
        }
        text = end + 1;
    }
    return false;
}

static pl_status_t read_draw(const pl_cli_t *cli, const char *option,
                             const char *text, pl_make_draw_t *draw)
{
    double values[2] = {0, 0};

    if (!read_numbers(text, 1, 2, values) || (values[0] < 1) ||
        (values[0] > 1e8) || (values[1] > 100)) {
        return bad(cli, option, text,
                   "MEAN or MEAN:CV, a mean from 1 to 1e8 and a CV up to 100");
    }
    *draw = (pl_make_draw_t){values[0], values[1]};
    return PL_OK;
}

static pl_status_t read_arrivals(const pl_cli_t *cli, pl_make_params_t *params,
                                 pl_trace_t **like_p)
{
    const char *text       = cli->options.arrivals;
    pl_trace_params_t like = pl_trace_params_default();
    double values[2]       = {0, 1};

    if (strcmp(text, "none") == 0) {
        params->arrivals = PL_MAKE_AT_ONCE;
        return PL_OK;
    }
    if (strncmp(text, "like:", 5) == 0) {
        params->arrivals = PL_MAKE_LIKE;
        like.path        = text + 5;
        return pl_trace_open(&like, &cli->log, like_p);
    }
    if ((strncmp(text, "poisson:", 8) == 0) &&
        read_numbers(text + 8, 1, 1, values) && (values[0] > 0)) {
        params->arrivals = PL_MAKE_POISSON;
    } else if ((strncmp(text, "gamma:", 6) == 0) &&
               read_numbers(text + 6, 2, 2, values) && (values[0] > 0) &&
               (values[1] > 0) && (values[1] <= 100)) {
        params->arrivals = PL_MAKE_GAMMA;
    } else {
        return bad(
            cli, "arrivals", text,
            "poisson:RATE, gamma:RATE:CV (up to 100), like:FILE or none");
    }
    params->rate = values[0];
    params->cv   = values[1];
    return PL_OK;
}

static pl_status_t read_churn(const pl_cli_t *cli, pl_make_params_t *params)
{
    const pl_option_integers_t *churn = &cli->options.churn;

    if (churn->n == 0) {
        return PL_OK;
    }
    if ((churn->n != 2) || (params->turns > 1)) {
        pl_log(&cli->log, PL_LOG_ERROR, "option --churn: expected %s",
               churn->n != 2 ? "two numbers, as 100,200"
                             : "--turns 1: its prompts are no sessions");
        return PL_ERR_ARGUMENT;
    }
    params->fill     = (int32_t)churn->items[0];
    params->pressure = (int32_t)churn->items[1];
    return PL_OK;
}

static pl_status_t read_options(const pl_cli_t *cli, pl_make_params_t *params,
                                pl_trace_t **like_p)
{
    const pl_options_t *o = &cli->options;

    params->n_sessions = (int32_t)o->sessions;
    params->think_s    = (double)o->think_ns / 1e9;
    params->seed       = (uint64_t)o->seed;
    params->block_tokens =
        o->id_tokens > 0 ? (int32_t)o->id_tokens : BLOCK_TOKENS;
    PL_TRY(pl_cli_number("turns", o->turns_text, false, &cli->log,
                         &params->turns));
    if ((params->turns < 1) || (params->turns > 1e4)) {
        return bad(cli, "turns", o->turns_text, "a mean from 1 to 10000");
    }
    PL_TRY(read_shape(cli, params));
    PL_TRY(read_draw(cli, "words", o->words_text, &params->words));
    PL_TRY(read_draw(cli, "answer", o->answer_text, &params->answer));
    PL_TRY(read_churn(cli, params));
    return read_arrivals(cli, params, like_p);
}

int pl_cli_trace_make(const pl_cli_t *cli)
{
    pl_make_params_t params = {0};
    pl_trace_t *like        = NULL;
    pl_trace_t *trace       = NULL;
    pl_status_t status      = read_options(cli, &params, &like);

    if (status == PL_OK) {
        params.like = like;
        status      = pl_trace_make(&params, &cli->log, &trace);
    }
    if (status == PL_OK) {
        status = pl_cli_trace_write(cli, trace);
    }
    pl_trace_close(trace);
    pl_trace_close(like);
    return pl_status_exit(status);
}
