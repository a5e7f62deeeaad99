#include "sim/hardware.h"

#include <stdio.h>
#include <string.h>

#include "model/json.h"

/* The largest whole number that JSON readers agree on. */
#define LARGEST (INT64_C(1) << 53)

/* No device has less: such a number is of MB, GB/s or TFLOP.  With more, no
 * time of a prompt leaves 64 bits. */
#define LEAST_BYTES 1000000
#define LEAST_RATE  100000000
#define LEAST_FLOP  10000000000

static const struct {
    const char *field;
    size_t at;
    int64_t least;
    bool or_none; /* 0: it has no such unit or link */
} NUMBERS[] = {
#define AT(member) offsetof(pl_hardware_t, member)
    {"devices_per_node", AT(devices_per_node), 1, false},
    {"memory_bytes", AT(memory_bytes), LEAST_BYTES, false},
    {"memory_bandwidth_bytes_per_s", AT(memory_bandwidth_bytes_per_s),
     LEAST_RATE, false},
    {"bf16_dense_flop_per_s", AT(bf16_dense_flop_per_s), LEAST_FLOP, false},
    {"fp8_dense_flop_per_s", AT(fp8_dense_flop_per_s), LEAST_FLOP, true},
    {"nvlink_bytes_per_s", AT(nvlink_bytes_per_s), LEAST_RATE, true},
    {"pcie_bytes_per_s", AT(pcie_bytes_per_s), LEAST_RATE, false},
    {"network_bytes_per_s", AT(network_bytes_per_s), LEAST_RATE, false},
#undef AT
};

/* 4800000000000 or 4.8e12. */
static bool is_whole(struct json_object *value, int64_t *number_p)
{
    double real = json_object_get_double(value);

    *number_p = json_object_get_int64(value);
    return json_object_is_type(value, json_type_int) ||
           (json_object_is_type(value, json_type_double) && (real >= 0) &&
            (real <= LARGEST) && (real == (double)*number_p));
}

static bool is_possible(size_t i, int64_t number)
{
    return (NUMBERS[i].or_none && (number == 0)) ||
           ((number >= NUMBERS[i].least) && (number <= LARGEST));
}

static pl_status_t read_number(const char *path, struct json_object *root,
                               size_t i, const pl_log_t *log, int64_t *number_p)
{
    struct json_object *pair   = pl_json_find(root, NUMBERS[i].field);
    struct json_object *value  = NULL;
    struct json_object *source = NULL;
    int64_t number             = 0;

    if (json_object_is_type(pair, json_type_object)) {
        value  = pl_json_find(pair, "value");
        source = pl_json_find(pair, "source");
    }
    if (!is_whole(value, &number) || !is_possible(i, number)) {
        return pl_model_bad(log, path,
                            "\"%s\" is %.80s: expected {\"value\": N, "
                            "\"source\": \"...\"} with a whole number from "
                            "%lld to 2^53%s; write it in the unit that the "
                            "name says",
                            NUMBERS[i].field,
                            pair == NULL ? "missing"
                                         : json_object_to_json_string(
                                               value == NULL ? pair : value),
                            (long long)NUMBERS[i].least,
                            NUMBERS[i].or_none ? ", or 0 for none" : "");
    }
    if (!json_object_is_type(source, json_type_string) ||
        (json_object_get_string_len(source) == 0)) {
        return pl_model_bad(log, path,
                            "\"%s\" has no \"source\": expected a text; say "
                            "where the number comes from",
                            NUMBERS[i].field);
    }
    *number_p = number;
    return PL_OK;
}

static pl_status_t read_name(const char *path, struct json_object *root,
                             const pl_log_t *log, pl_hardware_t *hardware)
{
    struct json_object *name = pl_json_find(root, "name");
    struct json_object *kind = pl_json_find(root, "kind");
    const char *text         = json_object_get_string(name);

    if (!json_object_is_type(name, json_type_string) || (*text == '\0') ||
        (strlen(text) >= sizeof(hardware->name))) {
        return pl_model_bad(log, path,
                            "\"name\" is %.80s: expected a text of 1 to %zu "
                            "bytes",
                            json_object_to_json_string(name),
                            sizeof(hardware->name) - 1);
    }
    (void)snprintf(hardware->name, sizeof(hardware->name), "%s", text);
    hardware->is_gpu = pl_json_is(kind, "gpu");
    if (!hardware->is_gpu && !pl_json_is(kind, "cpu")) {
        return pl_model_bad(log, path,
                            "\"kind\" is %.40s: expected \"gpu\" or \"cpu\"",
                            json_object_to_json_string(kind));
    }
    return PL_OK;
}

static pl_status_t read_hardware(const char *path, struct json_object *root,
                                 const pl_log_t *log, pl_hardware_t *hardware_p)
{
    pl_hardware_t hardware = {0};

    PL_TRY(read_name(path, root, log, &hardware));
    for (size_t i = 0; i < sizeof(NUMBERS) / sizeof(*NUMBERS); i++) {
        int64_t *number_p = (int64_t *)((char *)&hardware + NUMBERS[i].at);

        PL_TRY(read_number(path, root, i, log, number_p));
    }
    *hardware_p = hardware;
    return PL_OK;
}

pl_status_t pl_hardware_read(const char *path, const pl_log_t *log,
                             pl_hardware_t *hardware_p)
{
    struct json_object *root = NULL;
    pl_status_t status;

    PL_TRY(pl_json_read(path, log, &root));
    status = read_hardware(path, root, log, hardware_p);
    json_object_put(root);
    return status;
}

pl_status_t pl_hardware_parse(const char *name, const char *text,
                              size_t n_bytes, const pl_log_t *log,
                              pl_hardware_t *hardware_p)
{
    struct json_object *root = NULL;
    pl_status_t status;

    PL_TRY(pl_json_parse(name, text, n_bytes, log, &root));
    status = read_hardware(name, root, log, hardware_p);
    json_object_put(root);
    return status;
}
