/* The safetensors reader: files as they should be, and files that lie. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "checkpoint_support.h"
#include "model/safetensors_internal.h"
#include "support/check_main.h"
#include "support/seed.h"

/* A header and n_data bytes 0, 1, 2, ... as a file; the caller frees it. */
static uint8_t *file_of(const char *header, size_t n_data, size_t *n_bytes_p)
{
    size_t n       = strlen(header);
    uint8_t *bytes = calloc(8 + n + n_data + 1, 1);

    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)n >> 8 * i);
    }
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++) {
        bytes[8 + n + i] = (uint8_t)i;
    }
    *n_bytes_p = 8 + n + n_data;
    return bytes;
}

#define GOOD                                                                   \
    "{\"__metadata__\": {\"format\": \"pt\"}, "                                \
    "\"b\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [4, "    \
    "28]}, "                                                                   \
    "\"a\": {\"dtype\": \"I32\", \"shape\": [], \"data_offsets\": [0, 4]}, "   \
    "\"none\": {\"dtype\": \"BF16\", \"shape\": [0, 64], \"data_offsets\": "   \
    "[28, 28]}}   "

START_TEST(tensors_are_found)
{
    size_t n_bytes         = 0;
    uint8_t *bytes         = file_of(GOOD, 28, &n_bytes);
    char *folder           = make_folder();
    pl_safetensors_t *file = NULL;
    const pl_safetensor_t *tensor;
    char path[4096];
    heard_t heard;
    pl_log_t log = log_of(&heard);

    write_file(folder, "x.safetensors", bytes, n_bytes);
    ck_assert_msg(pl_safetensors_open(path_in(folder, "x.safetensors", path),
                                      &log, &file) == PL_OK,
                  "%s", heard.error);
    ck_assert_int_eq(heard.n_errors + heard.n_warnings, 0);
    ck_assert_uint_eq(pl_safetensors_count(file), 3);
    ck_assert_str_eq(pl_safetensors_at(file, 0)->name, "a");
    ck_assert_str_eq(pl_safetensors_at(file, 1)->name, "b");
    ck_assert_str_eq(pl_safetensors_at(file, 2)->name, "none");

    tensor = pl_safetensors_find(file, "a");
    ck_assert_str_eq(tensor->dtype, "I32");
    ck_assert_int_eq(tensor->n_dims, 0);
    ck_assert_uint_eq(tensor->n_bytes, 4);
    ck_assert_mem_eq(tensor->bytes, "\0\1\2\3", 4);
    tensor = pl_safetensors_find(file, "b");
    ck_assert_int_eq(tensor->n_dims, 2);
    ck_assert_int_eq(tensor->shape[0], 2);
    ck_assert_int_eq(tensor->shape[1], 3);
    ck_assert_uint_eq(tensor->n_bytes, 24);
    ck_assert_mem_eq(tensor->bytes, "\4\5\6\7", 4);
    ck_assert_uint_eq(pl_safetensors_find(file, "none")->n_bytes, 0);
    ck_assert_ptr_null(pl_safetensors_find(file, "c"));
    ck_assert_ptr_null(pl_safetensors_find(file, ""));
    ck_assert_ptr_null(pl_safetensors_find(file, "__metadata__"));
    pl_safetensors_close(file);
    remove_folder(folder);
    free(bytes);
}
END_TEST

/* One tensor "t", with these fields. */
#define T(dtype, shape, offsets)                                               \
    "{\"t\": {\"dtype\": " dtype ", \"shape\": " shape                         \
    ", \"data_offsets\": " offsets "}}"
#define TWO(first, second)                                                     \
    "{\"t\": {\"dtype\": \"U8\", \"shape\": [8], \"data_offsets\": " first     \
    "}, \"u\": {\"dtype\": \"U8\", \"shape\": [8], \"data_offsets\": " second  \
    "}}"
#define HUGE "9223372036854775807"

static const struct {
    const char *header;
    size_t n_data;
    const char *says;
} BAD[] = {
    {"", 0, "not one JSON object"},
    {"{", 0, "not one JSON object"},
    {"[]", 0, "not one JSON object"},
    {"{} {}", 0, "not one JSON object"},
    {"{\"t\": 1,}", 0, "not one JSON object"},
    {"{\"\xFF\": 1}", 0, "not one JSON object"},
    {"{}", 1, "1 bytes after the last tensor"},
    {"{\"__metadata__\": 7}", 0, "\"__metadata__\" is 7"},
    {"{\"t\": 7}", 0, "tensor \"t\" is 7"},
    {"{\"t\": null}", 0, "tensor \"t\" is null"},
    {"{\"t\": {}}", 0, "dtype is null"},
    {T("\"F31\"", "[1]", "[0, 4]"), 4, "dtype is \"F31\""},
    {T("7", "[1]", "[0, 4]"), 4, "dtype is 7"},
    {T("\"F32\"", "7", "[0, 4]"), 4, "shape is 7"},
    {T("\"F32\"", "[-1]", "[0, 4]"), 4, "shape is"},
    {T("\"F32\"", "[1.0]", "[0, 4]"), 4, "shape is"},
    {T("\"F32\"", "[\"1\"]", "[0, 4]"), 4, "shape is"},
    {T("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, "at most 8 sizes"},
    {T("\"F32\"", "[18446744073709551617]", "[0, 4]"), 4, "shape is"},
    {T("\"F32\"", "[9223372036854775808]", "[0, 4]"), 4, "shape is"},
    {T("\"F32\"", "[" HUGE "]", "[0, 4]"), 4, "has 4 bytes"},
    {T("\"F32\"", "[" HUGE "," HUGE "]", "[0, 4]"), 4, "has 4 bytes"},
    {T("\"F32\"", "[4611686018427387905]", "[0, 4]"), 4, "has 4 bytes"},
    {T("\"F32\"", "[0, " HUGE "]", "[0, 4]"), 4, "has 4 bytes"},
    {T("\"F4\"", "[3]", "[0, 1]"), 1, "has 1 bytes"},
    {T("\"F32\"", "[1]", "null"), 4, "data_offsets is null"},
    {T("\"F32\"", "[1]", "[0]"), 4, "data_offsets is"},
    {T("\"F32\"", "[1]", "[0, 4, 8]"), 4, "data_offsets is"},
    {T("\"F32\"", "[1]", "[0, \"4\"]"), 4, "data_offsets is"},
    {T("\"F32\"", "[1]", "[-4, 0]"), 4, "data_offsets is"},
    {T("\"F32\"", "[1]", "[4, 0]"), 4, "data_offsets is"},
    {T("\"F32\"", "[1]", "[0, 99999999999999999999]"), 4, "data_offsets is"},
    {T("\"F32\"", "[1]", "[0, 8]"), 4, "expected at most 4"},
    {T("\"F32\"", "[1]", "[" HUGE ", " HUGE "]"), 4, "expected at most 4"},
    {T("\"F32\"", "[1]", "[0, 4]"), 3, "expected at most 3"},
    {T("\"F32\"", "[1]", "[0, 4]"), 5, "1 bytes after the last tensor"},
    {T("\"F32\"", "[1]", "[0, 3]"), 4, "has 3 bytes"},
    {T("\"F32\"", "[2]", "[0, 4]"), 4, "has 4 bytes"},
    {T("\"F32\"", "[1]", "[4, 8]"), 8, "bytes 0 to 4"},
    {TWO("[0, 8]", "[4, 12]"), 12, "overlap"},
    {TWO("[4, 12]", "[0, 8]"), 12, "overlap"},
    {TWO("[0, 8]", "[0, 8]"), 8, "overlap"},
    {TWO("[0, 8]", "[9, 17]"), 17, "bytes 8 to 9"},
};

START_TEST(bad_headers_are_refused)
{
    size_t n_bytes         = 0;
    uint8_t *bytes         = file_of(BAD[_i].header, BAD[_i].n_data, &n_bytes);
    pl_safetensors_t *file = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_msg(pl_safetensors_open_memory("f", bytes, n_bytes, &log,
                                             &file) == PL_ERR_INPUT,
                  "taken: %s", BAD[_i].header);
    ck_assert_ptr_null(file);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strncmp(heard.error, "f: ", 3) == 0, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, BAD[_i].says) != NULL, "%s", heard.error);
    free(bytes);
}
END_TEST

/* The length in front of the header, from none at all to the largest. */
START_TEST(bad_lengths_are_refused)
{
    static const struct {
        uint64_t n;
        const char *says;
    } LENGTHS[] = {
        {UINT64_MAX, "expected at most 100000000"},
        {INT64_MAX, "expected at most 100000000"},
        {100000001, "expected at most 100000000"},
        {100000000, "the file is cut"},
        {9, "the file is cut"},
        {1, "not one JSON object"},
        {0, "not one JSON object"},
    };
    uint8_t bytes[16]      = {[8] = '{', '}', ' ', ' ', ' ', ' ', ' ', ' '};
    pl_safetensors_t *file = NULL;
    heard_t heard;
    pl_log_t log;

    for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(*LENGTHS); i++) {
        log = log_of(&heard);
        for (int b = 0; b < 8; b++) {
            bytes[b] = (uint8_t)(LENGTHS[i].n >> 8 * b);
        }
        ck_assert_int_eq(
            pl_safetensors_open_memory("f", bytes, 16, &log, &file),
            PL_ERR_INPUT);
        ck_assert_int_eq(heard.n_errors, 1);
        ck_assert_msg(strstr(heard.error, LENGTHS[i].says) != NULL, "%s",
                      heard.error);
    }
    /* and one without a tensor, which is a file */
    memset(bytes, 0, 8);
    bytes[0] = 8;
    log      = log_of(&heard);
    ck_assert_int_eq(pl_safetensors_open_memory("f", bytes, 16, &log, &file),
                     PL_OK);
    ck_assert_uint_eq(pl_safetensors_count(file), 0);
    ck_assert_ptr_null(pl_safetensors_find(file, "t"));
    pl_safetensors_close(file);
}
END_TEST

START_TEST(cut_files_are_refused)
{
    size_t n_bytes         = 0;
    uint8_t *bytes         = file_of(GOOD, 28, &n_bytes);
    pl_safetensors_t *file = NULL;
    heard_t heard;
    pl_log_t log;

    for (size_t n = 0; n < n_bytes; n++) {
        /* a copy of that length, so that a sanitizer sees what lies beyond */
        uint8_t *cut = malloc(n + 1);

        ck_assert_ptr_nonnull(cut);
        memcpy(cut, bytes, n);
        log = log_of(&heard);
        ck_assert_msg(pl_safetensors_open_memory("f", cut, n, &log, &file) ==
                          PL_ERR_INPUT,
                      "%zu of %zu bytes", n, n_bytes);
        ck_assert_int_eq(heard.n_errors, 1);
        free(cut);
    }
    free(bytes);
}
END_TEST

/* What opens satisfies the laws, whatever was done to the file. */
static void check_laws(const pl_safetensors_t *file, const uint8_t *bytes,
                       size_t n_bytes)
{
    size_t n             = pl_safetensors_count(file);
    const uint8_t *begin = NULL;

    for (size_t i = 0; i < n; i++) {
        const pl_safetensor_t *tensor = pl_safetensors_at(file, i);
        const uint8_t *data           = tensor->bytes;

        ck_assert_ptr_eq(pl_safetensors_find(file, tensor->name), tensor);
        ck_assert((data >= bytes) &&
                  (tensor->n_bytes <= (size_t)(bytes + n_bytes - data)));
        ck_assert((begin == NULL) || (data == begin));
        begin = data + tensor->n_bytes;
    }
    ck_assert((n == 0) || (begin == bytes + n_bytes));
}

START_TEST(changed_files_are_refused_or_whole)
{
    uint64_t seed  = pl_test_seed("safetensors");
    pl_rng_t rng   = pl_rng_seed(seed);
    size_t n_bytes = 0;
    uint8_t *good  = file_of(GOOD, 28, &n_bytes);
    int n_opened   = 0;

    for (int round = 0; round < 20000; round++) {
        uint8_t *bytes         = malloc(n_bytes);
        int n_changes          = 1 + (int)pl_rng_below(&rng, 3);
        pl_safetensors_t *file = NULL;
        heard_t heard;
        pl_log_t log = log_of(&heard);
        pl_status_t status;

        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes, good, n_bytes);
        for (int i = 0; i < n_changes; i++) {
            /* digits and brackets more often than any byte */
            static const char LIKELY[] = "0123456789[]{},:\" -e";
            size_t at                  = (size_t)pl_rng_below(&rng, n_bytes);
            uint64_t pick              = pl_rng_below(&rng, 30);

            bytes[at] = pick < sizeof(LIKELY) - 1 ? (uint8_t)LIKELY[pick]
                                                  : (uint8_t)pl_rng_next(&rng);
        }
        status = pl_safetensors_open_memory("f", bytes, n_bytes, &log, &file);
        ck_assert_int_eq(heard.n_errors, status == PL_OK ? 0 : 1);
        if (status == PL_OK) {
            n_opened++;
            check_laws(file, bytes, n_bytes);
        }
        pl_safetensors_close(file);
        free(bytes);
    }
    ck_assert_int_gt(n_opened, 0);
    free(good);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    char *folder           = make_folder();
    pl_safetensors_t *file = NULL;
    char path[4096];
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_safetensors_open("no/such/file", &log, &file),
                     PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "no/such/file: cannot be read"));
    ck_assert_int_eq(pl_safetensors_open(folder, &log, &file), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "not a regular file"));
    ck_assert_int_eq(mkfifo(path_in(folder, "pipe", path), 0600), 0);
    ck_assert_int_eq(pl_safetensors_open(path, &log, &file), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "not a regular file"));
    write_file(folder, "empty", "", 0);
    ck_assert_int_eq(
        pl_safetensors_open(path_in(folder, "empty", path), &log, &file),
        PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "0 bytes long"));
    ck_assert_int_eq(heard.n_errors, 4);
    ck_assert_ptr_null(file);
    pl_safetensors_close(NULL);
    remove_folder(folder);
}
END_TEST

/* What --expect reads. */
START_TEST(expected_values_of_glm_tiny)
{
    pl_safetensors_t *file = NULL;
    const pl_safetensor_t *tensor;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_msg(pl_safetensors_open(PAGELANE_SOURCE
                                      "/examples/glm-tiny/expected.safetensors",
                                      &log, &file) == PL_OK,
                  "%s", heard.error);
    /* logits, argmax, greedy of six prompts; top-k of two, two layers each */
    ck_assert_uint_eq(pl_safetensors_count(file), 22);
    tensor = pl_safetensors_find(file, "logits_5");
    ck_assert_str_eq(tensor->dtype, "F32");
    ck_assert_int_eq(tensor->n_dims, 1);
    ck_assert_int_eq(tensor->shape[0], 512);
    tensor = pl_safetensors_find(file, "topk_5_2");
    ck_assert_str_eq(tensor->dtype, "I32");
    ck_assert_int_eq(tensor->shape[0], 777);
    ck_assert_int_eq(tensor->shape[1], 48);
    ck_assert_int_eq(pl_safetensors_find(file, "greedy_0")->shape[0], 16);
    pl_safetensors_close(file);
}
END_TEST

static TCase *files(void)
{
    TCase *tcase = tcase_create("files");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, tensors_are_found);
    tcase_add_loop_test(tcase, bad_headers_are_refused, 0,
                        (int)(sizeof(BAD) / sizeof(*BAD)));
    tcase_add_test(tcase, bad_lengths_are_refused);
    tcase_add_test(tcase, cut_files_are_refused);
    tcase_add_test(tcase, changed_files_are_refused_or_whole);
    tcase_add_test(tcase, what_is_no_file_is_refused);
    tcase_add_test(tcase, expected_values_of_glm_tiny);
    return tcase;
}

PL_CHECK_MAIN("safetensors", files())
