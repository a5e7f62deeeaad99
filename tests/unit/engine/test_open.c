/* What an engine refuses, most of it before anything runs. */
#include <string.h>

#include "base/rng.h"
#include "scene.h"
#include "support/log_capture.h"
#include "support/seed.h"

/* ---- a trace of equal requests ---- */

static pl_request_t request;

static const pl_request_t *get_request(void *context, int32_t i)
{
    (void)context;
    (void)i;
    return &request;
}

static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    (void)context;
    (void)page_tokens;
    for (int32_t p = 0; p < n; p++) {
        keys[p] = (pl_page_key_t){(uint64_t)i + 1, (uint64_t)(first + p)};
    }
}

static pl_status_t open_of(const pl_engine_config_t *config, int32_t n,
                           log_capture_t *said)
{
    pl_engine_source_t source = {NULL, n, get_request, get_keys};
    pl_event_sink_t events    = {NULL, NULL};
    pl_engine_t *engine       = NULL;
    pl_status_t status;

    log_capture_open(said);
    status = pl_engine_open(config, &source, NULL, events, &said->log, &engine);
    log_capture_close(said);
    ck_assert((status == PL_OK) == (engine != NULL));
    pl_engine_close(engine);
    return status;
}

/* The number behind "raise --OPTION to ". */
static int32_t remedy(const log_capture_t *said, const char *option)
{
    char before[64];
    const char *at;

    (void)snprintf(before, sizeof(before), "raise --%s to ", option);
    at = strstr(said->text, before);
    ck_assert_msg(at != NULL, "%s", said->text);
    ck_assert_int_eq(said->n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said->text, "line 77 of the trace"));
    return (int32_t)strtol(at + strlen(before), NULL, 10);
}

/* ---- configuration ---- */

static const struct {
    const char *what;
    size_t offset;
    int32_t value;
} unsound[] = {
    {"no prefill rank", offsetof(pl_engine_config_t, n_prefill), 0},
    {"owners do not fit int8", offsetof(pl_engine_config_t, n_prefill), 128},
    {"fewer than no decode rank", offsetof(pl_engine_config_t, n_decode), -1},
    {"no page", offsetof(pl_engine_config_t, page_tokens), 0},
    {"too large a page", offsetof(pl_engine_config_t, page_tokens), 1025},
    {"a chunk within a page", offsetof(pl_engine_config_t, chunk_tokens), 3},
    {"a chunk of 2.5 pages", offsetof(pl_engine_config_t, chunk_tokens), 10},
    {"nobody runs", offsetof(pl_engine_config_t, max_batch), 0},
    {"less than no ticks", offsetof(pl_engine_config_t, explore), -1},
    {"fewer than no places", offsetof(pl_engine_config_t, storage_pages), -2},
    {"a fetch of less than none",
     offsetof(pl_engine_config_t, prefetch_threshold_tokens), -1},
};

#define N_UNSOUND ((int)(sizeof(unsound) / sizeof(unsound[0])))

/* 9.20 what cannot work is refused, also when it comes past the options */
START_TEST(unsound_configurations_are_refused)
{
    pl_engine_config_t config = scene(NULL, 0).config;
    log_capture_t said;

    ck_assert_int_eq(open_of(&config, 0, &said), PL_OK);
    memcpy((char *)&config + unsound[_i].offset, &unsound[_i].value,
           sizeof(unsound[_i].value));
    ck_assert_msg(open_of(&config, 0, &said) == PL_ERR_ARGUMENT, "%s",
                  unsound[_i].what);
    ck_assert_int_eq(said.n_lines, 1);
    config       = scene(NULL, 0).config;
    config.evict = NULL;
    ck_assert_int_eq(open_of(&config, 0, &said), PL_ERR_ARGUMENT);
    config               = scene(NULL, 0).config;
    config.storage_pages = 8; /* storage rides behind the host tier */
    ck_assert_int_eq(open_of(&config, 0, &said), PL_OK);
    config.host_pages = 0;
    ck_assert_int_eq(open_of(&config, 0, &said), PL_ERR_ARGUMENT);
}
END_TEST

/* ---- what does not fit ---- */

static int32_t pages_of(const pl_engine_config_t *config, int32_t tokens)
{
    return (tokens + config->page_tokens - 1) / config->page_tokens;
}

/* 9.10, 9.14, 9.20: pools too small for one request are refused with the line,
 * the option and the number that is just enough. */
START_TEST(too_small_pools_name_what_is_enough)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("too_small_pools"));

    for (int round = 0; round < 300; round++) {
        pl_engine_config_t config = scene(NULL, 0).config;
        log_capture_t said;
        int32_t lane, decode, rows, reserved;

        config.n_prefill   = 1 + (int)pl_rng_below(&rng, 8);
        config.page_tokens = 1 + (int32_t)pl_rng_below(&rng, 20);
        config.chunk_tokens =
            config.page_tokens * (1 + (int32_t)pl_rng_below(&rng, 30));
        request.line          = 77;
        request.input_tokens  = 1 + (int32_t)pl_rng_below(&rng, 900);
        request.output_tokens = 1 + (int32_t)pl_rng_below(&rng, 100);

        config.device_pages = 1;
        config.decode_pages = 2000;
        ck_assert_int_eq(open_of(&config, 3, &said), PL_ERR_RESOURCE);
        lane                = remedy(&said, "device-pages");
        config.device_pages = lane - 1;
        if (lane > 2) {
            ck_assert_int_eq(open_of(&config, 3, &said), PL_ERR_RESOURCE);
            ck_assert_int_eq(remedy(&said, "device-pages"), lane);
        }
        config.device_pages = lane;
        config.decode_pages = 2;
        ck_assert_int_eq(open_of(&config, 1, &said), PL_ERR_RESOURCE);
        decode              = remedy(&said, "decode-pages");
        config.decode_pages = decode - 1;
        ck_assert_int_eq(open_of(&config, 1, &said), PL_ERR_RESOURCE);
        config.decode_pages = decode;
        ck_assert_int_eq(open_of(&config, 1, &said), PL_OK);

        /* Its rows, or what an admission reserves: the prompt's pages and one
         * to grow into; and its scratch page. */
        rows =
            pages_of(&config, request.input_tokens + request.output_tokens - 1);
        reserved = pages_of(&config, request.input_tokens) + 1;
        ck_assert_int_eq(decode, (rows > reserved ? rows : reserved) + 1);
    }
}
END_TEST

/* Three prompts that do not fit: the remedy for the largest serves all. */
static const pl_request_t *get_growing(void *context, int32_t i)
{
    static const int32_t tokens[] = {40, 400, 120};
    pl_request_t *of_index        = context;

    of_index[i]              = request;
    of_index[i].input_tokens = tokens[i];
    of_index[i].line         = i + 1;
    return &of_index[i];
}

START_TEST(the_largest_need_is_named)
{
    pl_engine_config_t config = scene(NULL, 0).config;
    pl_request_t requests[3]  = {0};
    pl_engine_source_t source = {requests, 3, get_growing, get_keys};
    pl_engine_t *engine       = NULL;
    log_capture_t said;
    char *at;

    request.output_tokens = 1;
    config.device_pages   = 2;
    config.decode_pages   = 2000;
    log_capture_open(&said);
    ck_assert_int_eq(pl_engine_open(&config, &source, NULL,
                                    (pl_event_sink_t){NULL, NULL}, &said.log,
                                    &engine),
                     PL_ERR_RESOURCE);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "line 2 of the trace"));
    at = strstr(said.text, "raise --device-pages to ");
    ck_assert_ptr_nonnull(at);
    config.device_pages =
        (int32_t)strtol(at + strlen("raise --device-pages to "), NULL, 10);
    ck_assert_int_eq(pl_engine_open(&config, &source, NULL,
                                    (pl_event_sink_t){NULL, NULL}, &said.log,
                                    &engine),
                     PL_OK);
    pl_engine_close(engine);
    log_capture_close(&said);
}
END_TEST

/* A trace without requests runs, in pools of any size. */
START_TEST(no_request_is_no_trouble)
{
    static const int32_t pages[] = {PL_PAGES_UNLIMITED, 2, 65};
    pl_engine_config_t config    = scene(NULL, 0).config;
    log_capture_t said;

    config.device_pages = pages[_i];
    config.host_pages   = pages[_i];
    config.decode_pages = pages[_i];
    ck_assert_int_eq(open_of(&config, 0, &said), PL_OK);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* A pool without limit that page ids cannot name. */
START_TEST(too_long_a_trace_for_unlimited_pools)
{
    pl_engine_config_t config = scene(NULL, 0).config;
    log_capture_t said;

    config.page_tokens    = 1;
    config.chunk_tokens   = 1024;
    config.decode_pages   = PL_PAGES_UNLIMITED;
    request.line          = 77;
    request.input_tokens  = 1;
    request.output_tokens = 500000;
    ck_assert_int_eq(open_of(&config, 5000, &said), PL_ERR_RESOURCE);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(
        strstr(said.text, "--decode-pages: the trace needs 2500000000 pages"));
    ck_assert_int_eq(open_of(&config, 50, &said), PL_OK);
}
END_TEST

/* Tokens that an int32 cannot name, or whose last chunk would end behind it. */
START_TEST(a_request_too_long_to_be_counted_is_refused)
{
    static const int32_t lengths[][2] = {{INT32_MAX, 1},
                                         {INT32_MAX, INT32_MAX},
                                         {1, INT32_MAX},
                                         {INT32_MAX - 8192, 1}};
    pl_engine_config_t config         = scene(NULL, 0).config;
    log_capture_t said;

    config.page_tokens  = _i % 2 == 0 ? 1 : 1024;
    config.chunk_tokens = 8192;
    config.device_pages = _i < 2 ? PL_PAGES_UNLIMITED : 50;
    config.decode_pages = config.device_pages;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        request = (pl_request_t){.line          = 77,
                                 .input_tokens  = lengths[i][0],
                                 .output_tokens = lengths[i][1]};
        ck_assert_int_eq(open_of(&config, 1, &said), PL_ERR_RESOURCE);
        ck_assert_int_eq(said.n_lines, 1);
        ck_assert_ptr_nonnull(strstr(said.text, "line 77"));
        ck_assert_ptr_nonnull(strstr(said.text, "can be counted"));
    }
    if (config.page_tokens == 1024 && config.device_pages == 50) {
        request.input_tokens--; /* this one only needs pages */
        ck_assert_int_eq(open_of(&config, 1, &said), PL_ERR_RESOURCE);
        ck_assert_ptr_nonnull(strstr(said.text, "raise --device-pages"));
    }
}
END_TEST

/* What takes longer than clocks can say ends with a line. */
START_TEST(time_ends_before_the_clock_does)
{
    pl_engine_config_t config = scene(NULL, 0).config;
    pl_engine_source_t source = {NULL, 9, get_request, get_keys};
    pl_event_sink_t events    = {NULL, NULL};
    uint64_t outcome[64]      = {0};
    pl_engine_t *engine       = NULL;
    pl_plan_t *plan           = NULL;
    pl_status_t status        = PL_OK;
    log_capture_t said;

    request = (pl_request_t){.input_tokens = 16, .output_tokens = 1};
    config.costs.prefill[PL_COST_PROJECT].step_ns = INT64_MAX / 4;
    log_capture_open(&said);
    ck_assert_int_eq(
        pl_engine_open(&config, &source, NULL, events, &said.log, &engine),
        PL_OK);
    while (status == PL_OK) {
        int64_t now_ns = pl_engine_now_ns(engine);

        status = pl_engine_plan(engine, &plan);
        ck_assert_int_ge(pl_engine_now_ns(engine), now_ns);
        if (status == PL_OK) {
            ck_assert_int_le(pl_plan_words(plan), 64);
            status = pl_engine_commit(engine, outcome);
        }
    }
    ck_assert_int_eq(status, PL_ERR_INPUT);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "--hardware"));
    ck_assert_int_gt(pl_engine_n_finished(engine), 0);
    pl_engine_close(engine);
    log_capture_close(&said);
}
END_TEST

TCase *open_case(void)
{
    TCase *tcase = tcase_create("open");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, unsound_configurations_are_refused, 0,
                        N_UNSOUND);
    tcase_add_loop_test(tcase, no_request_is_no_trouble, 0, 3);
    tcase_add_test(tcase, too_small_pools_name_what_is_enough);
    tcase_add_test(tcase, the_largest_need_is_named);
    tcase_add_test(tcase, too_long_a_trace_for_unlimited_pools);
    tcase_add_loop_test(tcase, a_request_too_long_to_be_counted_is_refused, 0,
                        4);
    tcase_add_test(tcase, time_ends_before_the_clock_does);
    return tcase;
}
