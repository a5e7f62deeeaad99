#include "sim/calibrate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_tokener.h>

#include <pagelane/layout.h>

#include "model/json.h"

enum { LARGEST_FILE = 16 << 20 };

#define MOST_RATE 1e12 /* per microsecond: no device has that */

static const struct {
    const char *key;
    double unit; /* in FLOP or bytes per microsecond */
    size_t at;
} FIGURES[] = {
#define AT(member) offsetof(pl_measured_t, member)
    {"indexer_tflops", 1e6, AT(index)},
    {"attend_fp8_tflops", 1e6, AT(attend_fp8)},
    {"attend_bf16_tflops", 1e6, AT(attend_bf16)},
    {"grouped_tflops", 1e6, AT(expert)},
    {"grouped_tflops_yardstick", 1e6, AT(product)},
    {"gather_gbs_yardstick", 1e3, AT(memory)},
    {"load_gbs", 1e3, AT(load)},
    {"backup_gbs", 1e3, AT(backup)},
    {"peer_gbs", 1e3, AT(near)},
    {"tier_read_mb_s", 1, AT(fetch)},
    {"tier_write_mb_s", 1, AT(store)},
#undef AT
};

/* A number that a rate can be; false: it is none. */
static bool read_rate(struct json_object *value, double unit, int64_t *rate_p)
{
    double rate = json_object_get_double(value) * unit;

    if ((!json_object_is_type(value, json_type_double) &&
         !json_object_is_type(value, json_type_int)) ||
        !(rate >= 1) || !(rate <= MOST_RATE)) {
        return false;
    }
    *rate_p = (int64_t)(rate + 0.5);
    return true;
}

/* Of `bench transfer`: the largest size, which comes last. */
static bool read_sizes(struct json_object *root, pl_measured_t *measured)
{
    struct json_object *sizes = pl_json_find(root, "sizes");
    size_t n                  = 0;

    if (json_object_is_type(sizes, json_type_array)) {
        n = json_object_array_length(sizes);
    }
    return (n > 0) &&
           read_rate(pl_json_find(json_object_array_get_idx(sizes, n - 1),
                                  "busbw_gb_s"),
                     1e3, &measured->near);
}

/* Where a GPU's time went, by the work that a part of the table is. */
static const struct {
    const char *key;
    pl_cost_part_t part;
} WORKS[] = {{"compute_products", PL_COST_PROJECT},
             {"compute_mlp", PL_COST_PROJECT},
             {"compute_rows", PL_COST_PROJECT},
             {"compute_store", PL_COST_PROJECT},
             {"compute_head", PL_COST_PROJECT},
             {"compute_indexer", PL_COST_INDEX},
             {"compute_top-k", PL_COST_TOPK},
             {"compute_attention", PL_COST_ATTEND},
             {"compute_experts", PL_COST_EXPERT}};

static bool read_count(struct json_object *root, const char *key,
                       int32_t *count_p)
{
    struct json_object *value = pl_json_find(root, key);
    int64_t count             = json_object_get_int64(value);

    *count_p = (int32_t)count;
    return json_object_is_type(value, json_type_int) && (count >= 1) &&
           (count <= INT32_MAX);
}

static void read_profile(struct json_object *profile,
                         pl_measured_prompt_t *prompt)
{
    for (size_t i = 0; i < sizeof(WORKS) / sizeof(*WORKS); i++) {
        int64_t ns = 0;

        if (read_rate(pl_json_find(profile, WORKS[i].key), 1e6, &ns)) {
            prompt->part_ns[WORKS[i].part] += ns;
        }
    }
}

static void add_sample(const pl_measured_prompt_t *sample,
                       pl_measured_t *measured)
{
    if (measured->n_samples < PL_MEASURED_SAMPLES) {
        measured->samples[measured->n_samples++] = *sample;
    }
}

/* The row's prompt once cold, and once as the device tier had most of it. */
static void add_samples(struct json_object *row,
                        const pl_measured_prompt_t *prompt,
                        pl_measured_t *measured)
{
    pl_measured_prompt_t cold = *prompt;
    pl_measured_prompt_t hit  = *prompt;

    (void)read_rate(pl_json_find(row, "decode_ms"), 1e6, &cold.step_ns);
    add_sample(&cold, measured);
    if (read_count(row, "device_hit_tokens", &hit.hit_tokens) &&
        (hit.hit_tokens < hit.tokens) &&
        read_rate(pl_json_find(row, "device_ms"), 1e6, &hit.total_ns)) {
        (void)read_rate(pl_json_find(row, "handover_ms"), 1e6,
                        &hit.handover_ns);
        add_sample(&hit, measured);
    }
}

/* Of `bench prefill`: the longest prompt and the shortest, and all. */
static bool read_rows(struct json_object *root, pl_measured_t *measured)
{
    struct json_object *rows    = pl_json_find(root, "rows");
    pl_measured_prompt_t common = {0};
    size_t n                    = 0;
    bool found                  = false;

    if (json_object_is_type(rows, json_type_array) &&
        read_count(root, "ranks", &common.ranks) &&
        (common.ranks <= PL_MAX_RANKS) &&
        read_count(root, "chunk", &common.chunk_tokens) &&
        read_count(root, "layers", &common.layers)) {
        n = json_object_array_length(rows);
    }
    if ((n > 0) && !read_count(root, "page_size", &common.page_tokens)) {
        common.page_tokens = 0;
    }
    for (size_t i = 0; i < n; i++) {
        struct json_object *row     = json_object_array_get_idx(rows, i);
        pl_measured_prompt_t prompt = common;

        if (!read_count(row, "context", &prompt.tokens) ||
            pl_json_is(pl_json_find(row, "ownership"), "replicated") ||
            !read_rate(pl_json_find(row, "cold_ms"), 1e6, &prompt.total_ns)) {
            continue;
        }
        add_samples(row, &prompt, measured);
        if (!found || (prompt.tokens < measured->shorter.tokens)) {
            measured->shorter = prompt;
        }
        if (!found || (prompt.tokens >= measured->prompt.tokens)) {
            read_profile(pl_json_find(row, "cold_profile_ms"), &prompt);
            measured->prompt = prompt;
        }
        found = true;
    }
    return found;
}

/* Of `sim --validate --fit`. */
static bool read_fit(struct json_object *root, pl_measured_t *measured)
{
    struct json_object *object = pl_json_find(root, "fit");
    pl_fit_t fit               = {0};
    const struct {
        const char *key;
        int32_t *count;
    } COUNTS[]    = {{"requests", &fit.n_requests},
                     {"least_input_tokens", &fit.least_input},
                     {"most_input_tokens", &fit.most_input},
                     {"least_output_tokens", &fit.least_output},
                     {"most_output_tokens", &fit.most_output},
                     {"most_concurrent", &fit.most_concurrent}};
    bool is_whole = read_rate(pl_json_find(object, "prefill_scale"), 1e6,
                              &fit.prefill_millionths) &&
                    read_rate(pl_json_find(object, "decode_scale"), 1e6,
                              &fit.decode_millionths) &&
                    (fit.prefill_millionths >= PL_FIT_LEAST) &&
                    (fit.prefill_millionths <= PL_FIT_MOST) &&
                    (fit.decode_millionths >= PL_FIT_LEAST) &&
                    (fit.decode_millionths <= PL_FIT_MOST);

    for (size_t i = 0; i < sizeof(COUNTS) / sizeof(COUNTS[0]); i++) {
        is_whole &= read_count(object, COUNTS[i].key, COUNTS[i].count);
    }
    if (is_whole) {
        measured->fit = fit;
    }
    return is_whole;
}

static int take_figures(struct json_object *root, pl_measured_t *measured)
{
    int64_t per_us = 0; /* of the whole top-k, in ps: 10^6 in a us */
    int n          = (read_sizes(root, measured) ? 1 : 0) +
            (read_rows(root, measured) ? 1 : 0) +
            (read_fit(root, measured) ? 1 : 0);

    for (size_t i = 0; i < sizeof(FIGURES) / sizeof(*FIGURES); i++) {
        int64_t *rate = (int64_t *)((char *)measured + FIGURES[i].at);

        n +=
            read_rate(pl_json_find(root, FIGURES[i].key), FIGURES[i].unit, rate)
                ? 1
                : 0;
    }
    if (read_rate(pl_json_find(root, "topk_us"), 1e6, &per_us)) {
        measured->topk_ps = per_us / (1024 * 128);
        n++;
    }
    return n;
}

static pl_status_t parse_all(const char *name, const char *text, size_t n_bytes,
                             const pl_log_t *log, struct json_tokener *tokener,
                             pl_measured_t *measured)
{
    size_t at   = 0;
    int n_taken = 0;

    while (at + strspn(text + at, " \t\r\n") < n_bytes) {
        struct json_object *root =
            json_tokener_parse_ex(tokener, text + at, (int)(n_bytes - at));

        if (!json_object_is_type(root, json_type_object)) {
            json_object_put(root);
            return pl_model_bad(log, name,
                                "no JSON object at byte %zu; expected what "
                                "`pagelane bench --json` prints",
                                at);
        }
        at += json_tokener_get_parse_end(tokener);
        n_taken += take_figures(root, measured);
        json_object_put(root);
    }
    if (n_taken == 0) {
        return pl_model_bad(log, name,
                            "holds no figure that a cost table has a place "
                            "for; give what `pagelane bench kernels snapshot "
                            "--json` or `bench transfer --json` prints");
    }
    return PL_OK;
}

pl_status_t pl_calibrate_parse(const char *name, const char *text,
                               size_t n_bytes, const pl_log_t *log,
                               pl_measured_t *measured_p)
{
    struct json_tokener *tokener = json_tokener_new();
    pl_measured_t measured       = {0};
    pl_status_t status;

    if (tokener == NULL) {
        return PL_ERR_MEMORY;
    }
    status = parse_all(name, text, n_bytes, log, tokener, &measured);
    json_tokener_free(tokener);
    if (status == PL_OK) {
        *measured_p = measured;
    }
    return status;
}

pl_status_t pl_calibrate_read(const char *path, const pl_log_t *log,
                              pl_measured_t *measured_p)
{
    FILE *file         = fopen(path, "rb");
    char *text         = file == NULL ? NULL : malloc(LARGEST_FILE + 1);
    pl_status_t status = PL_ERR_MEMORY;
    size_t n           = 0;

    if (file == NULL) {
        return pl_model_bad(log, path,
                            "cannot be read: %s; expected what `pagelane bench "
                            "--json` printed",
                            strerror(errno));
    }
    if (text != NULL) {
        n       = fread(text, 1, LARGEST_FILE, file);
        text[n] = '\0';
        status  = ferror(file) != 0
                      ? pl_model_bad(log, path,
                                     "cannot be read; expected what "
                                      "`pagelane bench --json` printed")
                      : pl_calibrate_parse(path, text, n, log, measured_p);
    }
    free(text);
    (void)fclose(file);
    return status;
}
