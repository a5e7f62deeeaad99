/* sim/hardware.h: the files that ship, and what a file must have. */
#include "sim/hardware.h"

#include <stdio.h>
#include <string.h>

#include "sim/presets.h"
#include "support/check_main.h"
#include "support/log_capture.h"

static const char *const FIELDS[] = {
    "devices_per_node",
    "memory_bytes",
    "memory_bandwidth_bytes_per_s",
    "bf16_dense_flop_per_s",
    "fp8_dense_flop_per_s",
    "nvlink_bytes_per_s",
    "pcie_bytes_per_s",
    "network_bytes_per_s",
};

enum { N_FIELDS = sizeof(FIELDS) / sizeof(*FIELDS) };

/* A sound file, but for what stands for the pair of one field. */
static void write_file(char *text, size_t n, const char *name_and_kind,
                       int field, const char *pair)
{
    size_t at = (size_t)snprintf(text, n, "{%s", name_and_kind);

    for (int i = 0; i < N_FIELDS; i++) {
        at += (size_t)snprintf(
            text + at, n - at, ", \"%s\": %s", FIELDS[i],
            i == field ? pair
                       : "{\"value\": 70000000000, \"source\": \"here\"}");
    }
    (void)snprintf(text + at, n - at, "}");
}

#define SOUND "\"name\": \"X\", \"kind\": \"gpu\""

static pl_status_t parse(const char *text, log_capture_t *said,
                         pl_hardware_t *hardware)
{
    return pl_hardware_parse("x.json", text, strlen(text), &said->log,
                             hardware);
}

START_TEST(shipped_files_are_sound)
{
    log_capture_t said;
    size_t n = 0;

    log_capture_open(&said);
    for (const pl_preset_t *p;
         (p = pl_preset_at(PL_PRESET_HARDWARE, n)) != NULL; n++) {
        pl_hardware_t h;

        ck_assert_int_eq(pl_hardware_parse(p->name, (const char *)p->text,
                                           p->n_bytes, &said.log, &h),
                         PL_OK);
        ck_assert_str_eq(h.name, p->name);
        ck_assert_msg(h.is_gpu == (h.nvlink_bytes_per_s > 0), "%s", h.name);
        ck_assert_msg(
            (h.fp8_dense_flop_per_s == 0) ||
                (h.fp8_dense_flop_per_s == 2 * h.bf16_dense_flop_per_s),
            "%s: fp8 runs twice as fast as bf16", h.name);
        ck_assert(h.memory_bandwidth_bytes_per_s > h.nvlink_bytes_per_s);
        ck_assert(h.pcie_bytes_per_s >= h.network_bytes_per_s);
    }
    ck_assert_uint_eq(n, 7);
    ck_assert_str_eq(said.text, "");
    log_capture_close(&said);
}
END_TEST

START_TEST(names_have_no_case)
{
    ck_assert_str_eq(pl_preset_find(PL_PRESET_HARDWARE, "h20-3E")->name,
                     "H20-3e");
    ck_assert_ptr_null(pl_preset_find(PL_PRESET_MODEL, "H200"));
    ck_assert_ptr_null(pl_preset_find(PL_PRESET_HARDWARE, "H20-"));
}
END_TEST

START_TEST(every_number_needs_value_and_source)
{
    static const char *const BAD[] = {
        "7",
        "null",
        "{\"value\": 7}",
        "{\"value\": 7, \"source\": \"\"}",
        "{\"source\": \"here\"}",
        "{\"value\": -1, \"source\": \"here\"}",
        "{\"value\": 70000000000.5, \"source\": \"here\"}",
        "{\"value\": \"70000000000\", \"source\": \"here\"}",
        "{\"value\": 9007199254740993, \"source\": \"here\"}",
        "{\"value\": 9.1e15, \"source\": \"here\"}",
        "{\"value\": 1e300, \"source\": \"here\"}",
        "{\"value\": -7e10, \"source\": \"here\"}",
    };
    char text[2048];
    pl_hardware_t h;

    for (int field = 0; field < N_FIELDS; field++) {
        for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
            log_capture_t said;

            log_capture_open(&said);
            write_file(text, sizeof(text), SOUND, field, BAD[i]);
            ck_assert_msg(parse(text, &said, &h) == PL_ERR_INPUT, "%s", text);
            ck_assert_int_eq(said.n_lines, 1);
            ck_assert_ptr_nonnull(strstr(said.text, FIELDS[field]));
            log_capture_close(&said);
        }
    }
}
END_TEST

/* Megabytes and megaflops of fast devices where bytes and FLOP belong: the line
 * says the unit and what was found. */
START_TEST(numbers_of_another_unit_are_refused)
{
    char text[2048];
    pl_hardware_t h;

    for (int field = 1; field < N_FIELDS; field++) {
        bool is_flop       = strstr(FIELDS[field], "flop") != NULL;
        bool is_rate       = strstr(FIELDS[field], "per_s") != NULL;
        const char *number = is_flop   ? "989500000" /* MFLOP */
                             : is_rate ? "4800000"
                                       : "143771"; /* MB */
        char pair[64];
        log_capture_t said;

        log_capture_open(&said);
        (void)snprintf(pair, sizeof(pair),
                       "{\"value\": %s, \"source\": \"here\"}", number);
        write_file(text, sizeof(text), SOUND, field, pair);
        ck_assert_msg(parse(text, &said, &h) == PL_ERR_INPUT, "%s", text);
        ck_assert_int_eq(said.n_lines, 1);
        ck_assert_ptr_nonnull(strstr(said.text, FIELDS[field]));
        ck_assert_ptr_nonnull(strstr(said.text, number));
        log_capture_close(&said);
    }
}
END_TEST

/* As people write large numbers. */
START_TEST(a_whole_number_may_have_an_exponent)
{
    log_capture_t said;
    char text[2048];
    pl_hardware_t h;

    log_capture_open(&said);
    write_file(text, sizeof(text), SOUND, 2,
               "{\"value\": 4.8e12, \"source\": \"here\"}");
    ck_assert_int_eq(parse(text, &said, &h), PL_OK);
    ck_assert_int_eq(h.memory_bandwidth_bytes_per_s, 4800000000000);
    log_capture_close(&said);
}
END_TEST

/* A device may lack fp8 and NVLink, and nothing else. */
START_TEST(only_fp8_and_nvlink_may_be_absent)
{
    log_capture_t said;
    char text[2048];
    pl_hardware_t h;

    log_capture_open(&said);
    for (int field = 0; field < N_FIELDS; field++) {
        bool may = (strncmp(FIELDS[field], "fp8", 3) == 0) ||
                   (strncmp(FIELDS[field], "nvlink", 6) == 0);

        write_file(text, sizeof(text), SOUND, field,
                   "{\"value\": 0, \"source\": \"here\"}");
        ck_assert_msg((parse(text, &said, &h) == PL_OK) == may, "%s", text);
    }
    log_capture_close(&said);
}
END_TEST

START_TEST(name_and_kind_are_checked)
{
    static const char *const BAD[] = {
        "\"kind\": \"gpu\"",
        "\"name\": \"\", \"kind\": \"gpu\"",
        "\"name\": 5, \"kind\": \"gpu\"",
        "\"name\": \"X\"",
        "\"name\": \"X\", \"kind\": \"tpu\"",
        "\"name\": \"0123456789012345678901234567890123456789012345678901234567"
        "890123\", \"kind\": \"gpu\"",
    };
    char text[2048];
    pl_hardware_t h;

    for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
        log_capture_t said;

        log_capture_open(&said);
        write_file(text, sizeof(text), BAD[i], -1, "");
        ck_assert_msg(parse(text, &said, &h) == PL_ERR_INPUT, "%s", BAD[i]);
        ck_assert_int_eq(said.n_lines, 1);
        log_capture_close(&said);
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("hardware");

    tcase_add_test(tcase, shipped_files_are_sound);
    tcase_add_test(tcase, names_have_no_case);
    tcase_add_test(tcase, every_number_needs_value_and_source);
    tcase_add_test(tcase, numbers_of_another_unit_are_refused);
    tcase_add_test(tcase, a_whole_number_may_have_an_exponent);
    tcase_add_test(tcase, only_fp8_and_nvlink_may_be_absent);
    tcase_add_test(tcase, name_and_kind_are_checked);
    return tcase;
}

PL_CHECK_MAIN("hardware", all())
