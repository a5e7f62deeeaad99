/* property/engine/drive_internal.h - what the driver's two files share. */
#ifndef PL_TESTS_ENGINE_DRIVE_INTERNAL_H
#define PL_TESTS_ENGINE_DRIVE_INTERNAL_H

#include <check.h>

#include "base/array.h"
#include "property/engine/drive.h"

/* Check writes a file at every assertion; millions of them want a plain test.
 */
#define MUST(condition, ...)                                                   \
    do {                                                                       \
        if (!(condition)) {                                                    \
            ck_abort_msg(__VA_ARGS__);                                         \
        }                                                                      \
    } while (0)

/* The slots of one tier, or of one home's.  A slot holds the chain of page keys
 * down to its page; 0: nothing; even: something that nobody may take for good.
 */
typedef struct pool {
    uint64_t *bytes;            /* [page] */
    int32_t *readers, *writers; /* [page] copies under way */
    pl_page_t n_scratch;
} pool_t;

/* A copy under way: what it will have brought when it ends. */
typedef struct flight {
    int64_t id, tick, end_ns;
    pl_op_kind_t kind;
    int32_t request, home, n;
    int32_t late; /* ticks that it could have ended in */
    bool fails, last;
    int32_t end_token; /* SEND: tokens of the prompt up to its end */
    pool_t *source, *target;
    pl_page_t *from, *to;
    uint64_t *bytes;
    uint64_t bad, unread; /* FETCH: pages that are not what was written, or
                             cannot be read */
} flight_t;

/* The folder: slots of all sets in one pool, and what an index says.  A set
 * that has other ranks or another size is another one. */
#define MAX_SETS 64

struct drive_disk {
    struct disk_set {
        int n_ranks;
        int32_t n_slots, asked;
        pl_page_t base; /* in the pool */
    } sets[MAX_SETS];
    int n_sets;
    pool_t pool;
    int64_t n_places;
    int64_t next_stamp;

    PL_ARRAY(pl_storage_entry_t) index;  /* the last that is out */
    PL_ARRAY(pl_storage_entry_t) naming; /* the one under way */
    uint8_t *named; /* [place] by it or any begun since: bits as below */
    uint8_t *finished, *finishing;
    int32_t n_requests;
};

#define NAMED_OUT 1 /* by the index that is out */
#define NAMED_NEW 2 /* by one that was begun later: it may be out */

#define MAX_FLIGHTS 4096
#define MAX_HOMES   PL_MAX_RANKS

/* How far a request has come, as its plans tell. */
typedef struct way {
    int32_t prompt;     /* tokens; grows when it re-enters */
    int32_t sent_pages; /* of this prompt */
    bool sent_last, send_failed;
    int64_t age;                       /* order of admission, from 1 */
    int32_t rows;                      /* that its home has */
    int32_t tokens;                    /* that it has said */
    int64_t bad_load;                  /* a load-back that failed */
    int n_fetches;                     /* under way, for it */
    int n_refused;                     /* in this tick */
    int64_t fetch_since, fetch_tokens; /* begun for this prompt */
    int64_t deadline_ns; /* it waits for its pages no longer; or INT64_MAX */
    bool is_waiting;
} way_t;

typedef struct driver {
    const drive_params_t *params;
    pl_log_t log;
    pl_engine_t *engine;
    const pl_plan_t *last;
    pl_request_t *requests;
    int64_t *arrivals; /* [n_requests] INT64_MAX: waits for others */
    bool *arrived;     /* [n_requests] */
    bool *ended;       /* [n_requests] in this run or before it */
    way_t *ways;
    pool_t device, host, decode[MAX_HOMES], buffer[MAX_HOMES];
    drive_disk_t *disk;
    pl_storage_start_t start;
    uint8_t *skip;
    flight_t flights[MAX_FLIGHTS];
    int n_flights;
    int64_t link_free_ns[PL_LINKS][MAX_HOMES];
    int64_t next_ns;     /* when the next tick must begin */
    int64_t earliest_ns; /* end of what has left this tick otherwise */
    int64_t n_admitted;
    int32_t short_request; /* found a lane short and has not tried again; -1 */
    int64_t short_tick;
    pl_owner_t *owners; /* scratch: a chunk's */
    int n_lanes;        /* of the device and host tiers */
    uint64_t decisions;
    pl_rng_t rng; /* of failures: the same on every rank, drawn by bit */
    drive_result_t *result;
} driver_t;

/* drive.c */
uint64_t drive_expected(const driver_t *driver, int32_t request, int32_t page);
bool drive_fails(driver_t *driver, const pl_op_t *op, bool at_end);

/* drive_arrive.c: requests behind others; who arrives when. */
void drive_draw_turns(driver_t *driver);
void drive_note_turns(driver_t *driver, const pl_event_t *event);
/* The first arrival to come; INT64_MAX: none is known. */
int64_t drive_next_arrival(const driver_t *driver);
void drive_open_turns(driver_t *driver);
void drive_close_turns(driver_t *driver);

/* drive_plan.c: what write-backs are for; before anything is carried out, and
 * after. */
void drive_note_shortage(driver_t *driver, const pl_event_t *event);
void drive_check_plan(driver_t *driver, const pl_plan_t *plan);
void drive_pass_time(driver_t *driver, const pl_plan_t *plan);
/* When an operation ends; asked once of each, in order. */
int64_t drive_end_of(driver_t *driver, const pl_plan_t *plan,
                     const pl_op_t *op);

/* drive_storage.c */

/* Start and skip of a run that begins from the folder; and its set. */
void drive_start_from(driver_t *driver, pl_engine_config_t *config);
void drive_open_set(driver_t *driver);
void drive_close_storage(driver_t *driver);
/* Where a place lies in the disk's pool. */
pl_page_t drive_place(const driver_t *driver, const pl_storage_place_t *place);
void drive_check_store(driver_t *driver, const pl_op_t *op);
void drive_check_fetch(driver_t *driver, const pl_plan_t *plan,
                       const pl_op_t *op);
void drive_publish(driver_t *driver, const pl_plan_t *plan);
void drive_published(driver_t *driver, bool good);
void drive_bad_pages(driver_t *driver, const pl_op_t *op, flight_t *flight);

/* drive_memory.c */
void drive_open_memory(driver_t *driver);
void drive_close_memory(driver_t *driver);
pool_t *drive_pool(driver_t *driver, pl_freed_tier_t tier, int32_t home);
flight_t *drive_flight(driver_t *driver, int64_t id); /* NULL: none */
/* An operation's end: the bytes are there from now on, or never. */
void drive_land(driver_t *driver, int64_t id);
void drive_execute(driver_t *driver, const pl_plan_t *plan);

#endif /* PL_TESTS_ENGINE_DRIVE_INTERNAL_H */
