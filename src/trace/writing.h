/* trace/writing.h - what writers share; one file each. */
#ifndef PL_TRACE_WRITING_H
#define PL_TRACE_WRITING_H

#include "trace/id_map.h"
#include "trace/internal.h"
#include "trace/write.h"

/* What a file of the format does not say of a trace.  Each is told once. */
#define PL_LOSS_LIST(X)                                                        \
    X(PL_LOSS_PREFIXES, "which prompts begin alike")                           \
    X(PL_LOSS_NO_PREFIXES,                                                     \
      "which prompts begin alike, which the trace does not tell: each gets "   \
      "blocks of its own")                                                     \
    X(PL_LOSS_TOKENS,                                                          \
      "tokens: ids tell which blocks are equal, and of beginnings shorter "    \
      "than a block nothing (--id-tokens makes blocks smaller)")               \
    X(PL_LOSS_WORDS, "block ids: tokens are drawn for them from --seed")       \
    X(PL_LOSS_SPACES, "namespaces: ids of one are not those of another")       \
    X(PL_LOSS_SOME_WAITS,                                                      \
      "waits for requests that are not the turn before: such requests come "   \
      "at their time, or behind that turn")                                    \
    X(PL_LOSS_DELAYS,                                                          \
      "delays after other requests: turns come at the time that was expected") \
    X(PL_LOSS_NOT_BEFORE,                                                      \
      "that a turn comes at its time however early the turn before it ends: "  \
      "it comes as long after that as lies between the two times")             \
    X(PL_LOSS_THREADS, "which requests a session has started beside itself")   \
    X(PL_LOSS_TAILS, "ids of partial blocks at the ends of prompts")           \
    X(PL_LOSS_PARTS,                                                           \
      "that a partial block at the end of a prompt begins a whole one")        \
    X(PL_LOSS_TIME, "times finer than 100 ns")

typedef enum pl_loss {
#define PL_LOSS_ENUM(name, text) name,
    PL_LOSS_LIST(PL_LOSS_ENUM)
#undef PL_LOSS_ENUM
        PL_LOSSES
} pl_loss_t;

typedef struct pl_writing {
    const pl_trace_t *trace;
    const pl_trace_write_params_t *params;
    FILE *file;
    int32_t id_tokens; /* of every prompt; 0: of each what it is there */
    bool as_is;        /* ids stay as they are */
    pl_id_map_t ids;   /* numbers of blocks */
    PL_ARRAY(uint64_t) hashes; /* of these numbers, with a key */
    pl_id_map_t hashed;        /* and back */
    PL_ARRAY(uint64_t) list;   /* ids of one request */
    bool is_lost[PL_LOSSES];
    const pl_log_t *log;
} pl_writing_t;

typedef struct pl_trace_writer {
    const char *name;
    int32_t id_tokens; /* usual; 0: it has no ids */
    bool has_size;     /* a file says what its ids stand for */
    bool has_sizes;    /* of each line */
    pl_status_t (*write)(pl_writing_t *writing);
} pl_trace_writer_t;

extern const pl_trace_writer_t pl_trace_writer_mooncake;
extern const pl_trace_writer_t pl_trace_writer_bailian;
extern const pl_trace_writer_t pl_trace_writer_agentic;
extern const pl_trace_writer_t pl_trace_writer_csv;
extern const pl_trace_writer_t pl_trace_writer_tokens;

static inline void pl_writing_lose(pl_writing_t *writing, pl_loss_t loss)
{
    writing->is_lost[loss] = true;
}

/* Tokens that an id of request i stands for in the file. */
int32_t pl_writing_size(const pl_writing_t *writing, int32_t i);

/* The ids of request i, its last partial block included, in writing->list. */
pl_status_t pl_writing_ids(pl_writing_t *writing, int32_t i);

/* `ns` in units of 10^digits ns, without needless zeros: "12.5". */
void pl_writing_time(FILE *file, int64_t ns, int digits);

/* The names of a session or namespace in the file. */
pl_status_t pl_writing_name(const pl_writing_t *writing, const char *domain,
                            uint64_t name, uint64_t *written_p);

/* The conversation of request i, from 1; 0: none.  Each pass has its own. */
int64_t pl_writing_session(const pl_writing_t *writing, int32_t i);

#endif /* PL_TRACE_WRITING_H */
