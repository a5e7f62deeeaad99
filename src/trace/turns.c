#include "trace/turns.h"

#include "base/hash.h"

static const char *const NAME[]    = {"request_id", NULL};
static const char *const WAIT[]    = {"wait_for", NULL};
static const char *const SESSION[] = {"session_id", NULL};
static const char *const DELAY[]   = {"delay", "delay_ms", NULL};
static const char *const TOOL[]    = {"tool_wait_ms", NULL};

void pl_turns_free(pl_turn_names_t *names)
{
    pl_id_map_free(&names->requests);
    pl_id_map_free(&names->sessions);
    PL_ARRAY_FREE(&names->wanted);
}

/* 128 bits for a name: "7" and 7 differ. */
static pl_status_t hash_name(const pl_jsonl_t *jsonl, const char *field,
                             struct json_object *value, pl_hash128_t *hash_p)
{
    uint64_t number = 0;

    if (json_object_is_type(value, json_type_string)) {
        *hash_p = pl_hash128(json_object_get_string(value),
                             (size_t)json_object_get_string_len(value), 1);
        return PL_OK;
    }
    if (!pl_jsonl_unsigned(jsonl, value, &number)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\" is %.40s: expected a string or a whole "
                            "number of at most 64 bits; fix or remove it",
                            field, json_object_to_json_string(value));
    }
    *hash_p = pl_hash128(&number, sizeof(number), 2);
    return PL_OK;
}

static pl_status_t read_name(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                             size_t number)
{
    struct json_object *value = NULL;
    pl_hash128_t name         = {0, 0};
    uint64_t before;

    PL_TRY(pl_jsonl_find(jsonl, NAME, NULL, &value));
    if (value == NULL) {
        return PL_OK;
    }
    PL_TRY(hash_name(jsonl, NAME[0], value, &name));
    if (pl_id_map_find(&names->requests, name.lo, name.hi, &before)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"request_id\" %.40s comes twice: expected a name "
                            "of its own for each request; change it",
                            json_object_to_json_string(value));
    }
    return pl_id_map_put(&names->requests, name.lo, name.hi, number);
}

static pl_status_t read_wait(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                             size_t number, bool *waits_p)
{
    struct json_object *list = NULL;
    size_t n;

    PL_TRY(pl_jsonl_find(jsonl, WAIT, NULL, &list));
    if (list == NULL) {
        return PL_OK;
    }
    if (!json_object_is_type(list, json_type_array)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"wait_for\" is %.40s: expected an array of "
                            "request ids; fix or remove it",
                            json_object_to_json_string(list));
    }
    n = json_object_array_length(list);
    for (size_t i = 0; i < n; i++) {
        pl_hash128_t name = {0, 0};
        pl_turn_name_t wanted;

        PL_TRY(hash_name(jsonl, WAIT[0], json_object_array_get_idx(list, i),
                         &name));
        wanted = (pl_turn_name_t){number, name.lo, name.hi};
        PL_TRY(PL_ARRAY_PUSH(&names->wanted, wanted));
    }
    *waits_p |= n > 0;
    return PL_OK;
}

/* *before_p: the row before it in its session, or `none`. */
static pl_status_t read_session(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                                pl_trace_rows_t *rows, pl_trace_row_t *row,
                                size_t *before_p)
{
    struct json_object *value = NULL;
    uint64_t before           = 0;
    pl_hash128_t name         = {0, 0};

    PL_TRY(pl_jsonl_find(jsonl, SESSION, NULL, &value));
    if (value == NULL) {
        return PL_OK;
    }
    PL_TRY(hash_name(jsonl, SESSION[0], value, &name));
    if (pl_id_map_find(&names->sessions, name.lo, name.hi, &before)) {
        *before_p    = (size_t)before;
        row->session = rows->row.items[before].session;
        PL_TRY(pl_trace_wait_for(rows, row, (size_t)before));
    } else {
        row->session = ++rows->n_sessions;
    }
    return pl_id_map_put(&names->sessions, name.lo, name.hi, rows->row.n);
}

/* Both waits, one after the other; PL_TRACE_NO_TIME: it says none. */
static pl_status_t read_delay(const pl_jsonl_t *jsonl, int64_t *delay_ns_p)
{
    int64_t delay_ns = PL_TRACE_NO_TIME;
    int64_t tool_ns  = PL_TRACE_NO_TIME;

    PL_TRY(pl_jsonl_time(jsonl, DELAY, true, &delay_ns));
    PL_TRY(pl_jsonl_time(jsonl, TOOL, true, &tool_ns));
    if ((delay_ns > 0) && (tool_ns > PL_TRACE_MAX_NS - delay_ns)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"delay\" and \"tool_wait_ms\" add up to more "
                            "than 285 years: expected less; fix them");
    }
    *delay_ns_p = (delay_ns > 0) && (tool_ns > 0) ? delay_ns + tool_ns
                  : tool_ns > delay_ns            ? tool_ns
                                                  : delay_ns;
    return PL_OK;
}

pl_status_t pl_turns_read(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                          pl_trace_rows_t *rows, pl_trace_row_t *row,
                          bool *waits_p)
{
    size_t none      = rows->row.n;
    size_t before    = none;
    bool waits       = false;
    int64_t delay_ns = PL_TRACE_NO_TIME;

    PL_TRY(read_name(names, jsonl, none));
    PL_TRY(read_session(names, jsonl, rows, row, &before));
    PL_TRY(read_wait(names, jsonl, none, &waits));
    PL_TRY(read_delay(jsonl, &delay_ns));
    if ((delay_ns == PL_TRACE_NO_TIME) && (before != none) && !waits) {
        int64_t then = rows->row.items[before].time_ns;

        delay_ns =
            (row->time_ns > then) && (then >= 0) ? row->time_ns - then : 0;
    }
    row->delay_ns = delay_ns > 0 ? delay_ns : 0;
    *waits_p      = waits || (before != none);
    return PL_OK;
}

pl_status_t pl_turns_check_time(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                                const pl_trace_row_t *row)
{
    bool has_time = row->time_ns != PL_TRACE_NO_TIME;

    if (names->free_line == 0) {
        names->free_line = jsonl->number;
        names->has_times = has_time;
        return PL_OK;
    }
    if (has_time == names->has_times) {
        return PL_OK;
    }
    return pl_trace_bad(jsonl->source, jsonl->number,
                        "\"timestamp\" is %s, unlike on line %lld: expected it "
                        "on every line that does not wait for another, or on "
                        "none; add or remove it",
                        has_time ? "there" : "missing",
                        (long long)names->free_line);
}

pl_status_t pl_turns_resolve(pl_turn_names_t *names,
                             const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    for (size_t i = 0; i < names->wanted.n; i++) {
        const pl_turn_name_t *wanted = &names->wanted.items[i];
        pl_trace_row_t *row          = &rows->row.items[wanted->row];
        uint64_t number              = 0;

        if (!pl_id_map_find(&names->requests, wanted->lo, wanted->hi,
                            &number)) {
            return pl_trace_bad(source, row->line,
                                "\"wait_for\" names a request that is not "
                                "there: expected the \"request_id\" of another "
                                "line; fix or remove it");
        }
        if ((row->n_after > 0) &&
            (row->first_after + row->n_after != rows->after.n)) {
            size_t before = rows->after.items[row->first_after];

            /* Its session's, noted when the row was read: keep all together. */
            row->n_after = 0;
            PL_TRY(pl_trace_wait_for(rows, row, before));
        }
        PL_TRY(pl_trace_wait_for(rows, row, (size_t)number));
        if ((i + 1 == names->wanted.n) || (wanted[1].row != wanted->row)) {
            pl_trace_wait_once(rows, row);
        }
    }
    return PL_OK;
}
