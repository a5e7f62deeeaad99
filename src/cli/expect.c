#include "cli/expect.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/safetensors.h"

/* Logits may differ by this share of their standard deviation, and keys whose
 * score is so close to the last one kept, relative to the largest, may differ.
 */
static const double LOGIT_TOLERANCE = 1e-4;
static const double TIE_TOLERANCE   = 1e-6;

/* What one process saw; plain integers, so that ranks can exchange it. */
typedef struct tally {
    int64_t n_logits;    /* prompts whose logits were compared */
    int64_t n_rows;      /* selections compared */
    int64_t n_near_ties; /* keys that differ and may */
    int64_t n_bad_keys;  /* keys that differ and may not */
    int64_t n_bad_logits;
    int64_t worst_error; /* logits: error in 1e-12 of their deviation */
    int64_t worst_request, worst_token;
    int64_t bad_request, bad_layer, bad_position, bad_key; /* a bad key */
    int64_t n_bad_tokens, bad_token_request, bad_token_at;
} tally_t;

#define TALLY_WORDS ((int64_t)(sizeof(tally_t) / sizeof(int64_t)))

struct pl_expect {
    pl_safetensors_t *file;
    const pl_log_t *log;
    int32_t n_prompts;
    pthread_mutex_t mutex; /* of tally: virtual ranks are threads */
    tally_t tally;
};

/* ---- the reference ---- */

static const pl_safetensor_t *find(const pl_expect_t *expect, const char *kind,
                                   int32_t prompt)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s_%" PRId32, kind, prompt);
    return pl_safetensors_find(expect->file, name);
}

/* i-th element of a float32 or int32 tensor, whose bytes may be unaligned. */
static float real_at(const pl_safetensor_t *tensor, int64_t i)
{
    float value;

    memcpy(&value, (const uint8_t *)tensor->bytes + 4 * i, sizeof(value));
    return value;
}

static int32_t int_at(const pl_safetensor_t *tensor, int64_t i)
{
    int32_t value;

    memcpy(&value, (const uint8_t *)tensor->bytes + 4 * i, sizeof(value));
    return value;
}

static double deviation(const pl_safetensor_t *logits)
{
    int64_t n   = logits->shape[0];
    double mean = 0;
    double sum  = 0;

    for (int64_t i = 0; i < n; i++) {
        mean += (double)real_at(logits, i) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        double d = (double)real_at(logits, i) - mean;

        sum += d * d;
    }
    return sqrt(sum / (double)(n > 1 ? n - 1 : 1));
}

static bool is_form(const pl_safetensor_t *tensor, const char *dtype,
                    int32_t n_dims)
{
    return (tensor != NULL) && (strcmp(tensor->dtype, dtype) == 0) &&
           (tensor->n_dims == n_dims);
}

static pl_status_t check_prompt(const pl_expect_t *expect, const char *path,
                                int32_t prompt, int32_t vocab_size)
{
    const pl_safetensor_t *logits = find(expect, "logits", prompt);
    const pl_safetensor_t *greedy = find(expect, "greedy", prompt);

    if (!is_form(logits, "F32", 1) || (logits->shape[0] != vocab_size) ||
        !is_form(greedy, "I32", 1)) {
        pl_log(expect->log, PL_LOG_ERROR,
               "%s: prompt %" PRId32 " needs logits_%" PRId32 " (F32, %" PRId32
               " of them as the model's vocab_size) and greedy_%" PRId32
               " (I32); is it the reference of this model?",
               path, prompt, prompt, vocab_size, prompt);
        return PL_ERR_INPUT;
    }
    return PL_OK;
}

pl_status_t pl_expect_open(const char *path, int32_t n_requests,
                           int32_t vocab_size, const pl_log_t *log,
                           pl_expect_t **expect_p)
{
    pl_expect_t *expect = calloc(1, sizeof(*expect));
    pl_status_t status;

    if (expect == NULL) {
        return PL_ERR_MEMORY;
    }
    expect->log = log;
    pthread_mutex_init(&expect->mutex, NULL);
    PL_TRY_GOTO(status, pl_safetensors_open(path, log, &expect->file),
                err_close);
    while ((expect->n_prompts < n_requests) &&
           (find(expect, "logits", expect->n_prompts) != NULL)) {
        PL_TRY_GOTO(status,
                    check_prompt(expect, path, expect->n_prompts, vocab_size),
                    err_close);
        expect->n_prompts++;
    }
    if ((expect->n_prompts == 0) || (n_requests % expect->n_prompts != 0)) {
        pl_log(log, PL_LOG_ERROR,
               "%s: it has a reference for %" PRId32 " prompts, but the trace "
               "%" PRId32 " requests; give the prompts.json beside it",
               path, expect->n_prompts, n_requests);
        status = PL_ERR_INPUT;
        goto err_close;
    }
    *expect_p = expect;
    return PL_OK;

err_close:
    pl_expect_close(expect);
    return status;
}

void pl_expect_close(pl_expect_t *expect)
{
    if (expect != NULL) {
        pl_safetensors_close(expect->file);
        pthread_mutex_destroy(&expect->mutex);
        free(expect);
    }
}

/* ---- while the run goes on ---- */

static void see_logits(void *context, int32_t request, int32_t n_prompt,
                       const float *logits, int32_t n)
{
    pl_expect_t *expect           = context;
    int32_t prompt                = request % expect->n_prompts;
    const pl_safetensor_t *wanted = find(expect, "logits", prompt);
    double spread                 = deviation(wanted);
    double worst                  = -1;
    int32_t at                    = 0;
    tally_t *tally                = &expect->tally;

    (void)n_prompt;
    for (int32_t i = 0; i < n; i++) {
        double error = fabs((double)logits[i] - (double)real_at(wanted, i));

        if (!(error <= worst)) { /* a NaN is the worst */
            worst = error;
            at    = i;
        }
    }
    worst /= spread > 0 ? spread : 1;
    pthread_mutex_lock(&expect->mutex);
    tally->n_logits++;
    tally->n_bad_logits += !(worst <= LOGIT_TOLERANCE);
    worst = (worst < 1e6) ? worst : 1e6;
    if ((int64_t)(worst * 1e12) >= tally->worst_error) {
        tally->worst_error   = (int64_t)(worst * 1e12);
        tally->worst_request = request;
        tally->worst_token   = at;
    }
    pthread_mutex_unlock(&expect->mutex);
}

typedef struct selection {
    const int32_t *positions;
    int32_t n;
    const float *scores;
    double last, tolerance; /* the score of the last key kept */
    int64_t n_near, n_bad;
    int32_t bad_key;
} selection_t;

static void differs(selection_t *s, int32_t key)
{
    if (fabs((double)s->scores[key] - s->last) <= s->tolerance) {
        s->n_near++;
    } else {
        s->n_bad++;
        s->bad_key = key;
    }
}

/* Both lists ascend: walk them side by side. */
static void compare_keys(selection_t *s, const pl_safetensor_t *wanted,
                         int64_t row, int32_t n_keys)
{
    int64_t k   = wanted->shape[1];
    int64_t j   = 0;
    int32_t i   = 0;
    int32_t key = k > 0 ? int_at(wanted, row * k) : -1;

    while ((i < s->n) || (key >= 0)) {
        int32_t mine = i < s->n ? s->positions[i] : INT32_MAX;
        int32_t ref  = key >= 0 ? key : INT32_MAX;

        if ((mine != ref) && ((mine < ref ? mine : ref) < n_keys)) {
            differs(s, mine < ref ? mine : ref);
        }
        i += mine <= ref;
        if (ref <= mine) {
            j++;
            key = j < k ? int_at(wanted, row * k + j) : -1;
        }
    }
}

static void see_selected(void *context, int32_t request, int32_t layer,
                         int32_t position, const int32_t *positions, int32_t n,
                         const float *scores, int32_t n_keys)
{
    pl_expect_t *expect = context;
    int32_t prompt      = request % expect->n_prompts;
    char kind[32];
    const pl_safetensor_t *wanted;
    selection_t s  = {.positions = positions, .n = n, .scores = scores};
    double largest = 0;

    (void)snprintf(kind, sizeof(kind), "topk_%" PRId32, prompt);
    wanted = find(expect, kind, layer);
    if (!is_form(wanted, "I32", 2) || (position >= wanted->shape[0])) {
        return; /* the reference has not kept this one */
    }
    s.last = n > 0 ? (double)scores[positions[0]] : 0;
    for (int32_t i = 0; i < n; i++) {
        double score = (double)scores[positions[i]];

        s.last = score < s.last ? score : s.last;
    }
    for (int32_t i = 0; i < n_keys; i++) {
        largest = fmax(largest, fabs((double)scores[i]));
    }
    s.tolerance = TIE_TOLERANCE * largest;
    compare_keys(&s, wanted, position, n_keys);
    pthread_mutex_lock(&expect->mutex);
    expect->tally.n_rows++;
    expect->tally.n_near_ties += s.n_near;
    if ((s.n_bad > 0) && (expect->tally.n_bad_keys == 0)) {
        expect->tally.bad_request  = request;
        expect->tally.bad_layer    = layer;
        expect->tally.bad_position = position;
        expect->tally.bad_key      = s.bad_key;
    }
    expect->tally.n_bad_keys += s.n_bad;
    pthread_mutex_unlock(&expect->mutex);
}

pl_model_observer_t pl_expect_observer(pl_expect_t *expect)
{
    pl_model_observer_t observer = {expect, see_logits, see_selected};

    return observer;
}

/* ---- at the end ---- */

/* Every rank has all tokens. */
static void compare_tokens(pl_expect_t *expect, const pl_run_results_t *results,
                           tally_t *tally)
{
    for (int32_t r = 0; r < results->n_requests; r++) {
        const pl_safetensor_t *wanted =
            find(expect, "greedy", r % expect->n_prompts);
        int64_t from = results->token_offsets[r];
        int64_t n    = results->token_offsets[r + 1] - from;

        n = n < wanted->shape[0] ? n : wanted->shape[0];
        for (int64_t i = 0; i < n; i++) {
            if (results->tokens[from + i] != int_at(wanted, i)) {
                if (tally->n_bad_tokens == 0) {
                    tally->bad_token_request = r;
                    tally->bad_token_at      = i;
                }
                tally->n_bad_tokens++;
                break; /* what follows a wrong token is another text */
            }
        }
    }
}

static void add_tally(tally_t *all, const tally_t *one)
{
    all->n_logits += one->n_logits;
    all->n_rows += one->n_rows;
    all->n_near_ties += one->n_near_ties;
    all->n_bad_logits += one->n_bad_logits;
    if ((one->n_logits > 0) && (one->worst_error >= all->worst_error)) {
        all->worst_error   = one->worst_error;
        all->worst_request = one->worst_request;
        all->worst_token   = one->worst_token;
    }
    if ((one->n_bad_keys > 0) && (all->n_bad_keys == 0)) {
        all->bad_request  = one->bad_request;
        all->bad_layer    = one->bad_layer;
        all->bad_position = one->bad_position;
        all->bad_key      = one->bad_key;
    }
    all->n_bad_keys += one->n_bad_keys;
}

/* Processes each have a tally of their own; virtual ranks share one. */
static pl_status_t bring_together(pl_expect_t *expect, pl_comm_t *comm,
                                  tally_t *all)
{
    size_t n        = comm == NULL ? 1 : (size_t)comm->n_ranks;
    size_t rank     = comm == NULL ? 0 : (size_t)comm->rank;
    bool shared     = (comm != NULL) && (strcmp(comm->ops->name, "local") == 0);
    tally_t *places = calloc(n, sizeof(*places));
    pl_status_t status = PL_OK;

    if (places == NULL) {
        return PL_ERR_MEMORY;
    }
    if (!shared || (rank == 0)) {
        places[rank] = expect->tally;
    }
    if (comm != NULL) {
        status = pl_comm_sum(comm, (uint64_t *)(void *)places,
                             (int64_t)n * TALLY_WORDS);
    }
    for (size_t i = 0; (status == PL_OK) && (i < n); i++) {
        add_tally(all, &places[i]);
    }
    free(places);
    return status;
}

static void tell(const pl_expect_t *expect, const tally_t *t)
{
    pl_log(expect->log, PL_LOG_INFO,
           "reference: logits of %" PRId64 " prompt%s, worst error %.2e of "
           "their deviation (request %" PRId64 ", token %" PRId64 "); %" PRId64
           " selection%s, of near ties differ %" PRId64,
           t->n_logits, pl_text_s(t->n_logits), (double)t->worst_error * 1e-12,
           t->worst_request, t->worst_token, t->n_rows, pl_text_s(t->n_rows),
           t->n_near_ties);
    if (t->n_bad_logits > 0) {
        pl_log(expect->log, PL_LOG_ERROR,
               "reference: logits of %" PRId64 " prompts differ by more than "
               "%.0e of their deviation",
               t->n_bad_logits, LOGIT_TOLERANCE);
    }
    if (t->n_bad_keys > 0) {
        pl_log(expect->log, PL_LOG_ERROR,
               "reference: %" PRId64 " selected keys differ, one in request "
               "%" PRId64 ", layer %" PRId64 ", position %" PRId64
               ", key %" PRId64,
               t->n_bad_keys, t->bad_request, t->bad_layer, t->bad_position,
               t->bad_key);
    }
    if (t->n_bad_tokens > 0) {
        pl_log(expect->log, PL_LOG_ERROR,
               "reference: greedy tokens of %" PRId64 " requests differ, first "
               "in request %" PRId64 " at token %" PRId64,
               t->n_bad_tokens, t->bad_token_request, t->bad_token_at);
    }
}

pl_status_t pl_expect_judge(pl_expect_t *expect, pl_comm_t *comm,
                            const pl_run_results_t *results)
{
    tally_t all = {0};

    PL_TRY(bring_together(expect, comm, &all));
    compare_tokens(expect, results, &all);
    if ((comm == NULL) || (comm->rank == 0)) {
        tell(expect, &all);
    }
    return all.n_bad_logits + all.n_bad_keys + all.n_bad_tokens > 0
               ? PL_ERR_VIOLATION
               : PL_OK;
}
