/* store/check.h - is what lies on disk whole, and does it agree with itself?
 *
 * A storage tier: the index, its segments and every page's bytes, which are
 * read once and must have the digest that their writer took.  A snapshot, or
 * the file of a sweep: its seal, the digests of its datasets, and what its
 * tables say of each other. Nothing is needed but the files: no trace, no
 * model.
 *
 * Not collective; one thread.
 */
#ifndef PL_STORE_CHECK_H
#define PL_STORE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* What can be found; docs/storage.md says what each means. */
#define PL_CHECK_LIST(X)                                                       \
    X(PL_CHECK_UNFINISHED, "unfinished_publications",                          \
      "unfinished publications")                                               \
    X(PL_CHECK_INDEX, "bad_index", "index that is missing or not whole")       \
    X(PL_CHECK_ORPHAN, "orphan_bytes", "slots with bytes of no page")          \
    X(PL_CHECK_OVERLAP, "overlapping_slots", "overlapping slots")              \
    X(PL_CHECK_DOUBLED, "doubled_pages", "doubled pages")                      \
    X(PL_CHECK_MISSING, "missing_pages", "missing pages")                      \
    X(PL_CHECK_OWNERS, "owners_disagree", "owners that disagree")              \
    X(PL_CHECK_CHAIN, "broken_chains",                                         \
      "pages whose hash is not their prefix's")                                \
    X(PL_CHECK_DIGEST, "digest_mismatches", "digests that do not match")       \
    X(PL_CHECK_TORN, "torn_segments", "torn segments")                         \
    X(PL_CHECK_LANES, "lane_counts", "lanes that do not add up")               \
    X(PL_CHECK_FILE, "bad_file", "file that is not as it was written")

typedef enum pl_check_kind {
#define PL_CHECK_ENUM(kind, key, text) kind,
    PL_CHECK_LIST(PL_CHECK_ENUM)
#undef PL_CHECK_ENUM
        PL_CHECK_KINDS
} pl_check_kind_t;

const char *pl_check_key(pl_check_kind_t kind);  /* for JSON */
const char *pl_check_text(pl_check_kind_t kind); /* for people */

typedef struct pl_check_report {
    struct {
        int64_t count;
        char first[200]; /* where the first is, in words */
    } found[PL_CHECK_KINDS];
    bool is_snapshot;
    bool is_sweep;     /* the file of one; it has no pages */
    int64_t points;    /* of a sweep */
    int64_t instances; /* of a snapshot of several; it has no pages */
    int64_t pages;     /* that are named: by the index, or by the tree */
    int64_t good;      /* of them, proven good with all that they need; of a
                          snapshot: those that nothing was found about */
    int64_t behind;    /* of a tier: not good for a page before them alone */
    int64_t bytes;     /* read */
    bool is_repaired;  /* what was found is no more */
} pl_check_report_t;

/* How many findings there are in all. */
int64_t pl_check_total(const pl_check_report_t *report);

/* `path`: the folder of a tier, or a file: a snapshot or a sweep.
 *
 * repair: of a tier, keep exactly what is proven good.  A new index is put out
 * like any publication; then segments of nothing go.  A file is never
 * changed.  Another run that writes the tier is an error.
 *
 * PL_OK: looked through, whatever was found.  Else one line says why:
 * PL_ERR_INPUT: it is neither (a folder with a file of something else is no
 * tier), or of a later version, or in use; PL_ERR_IO: it cannot be read, or
 * repaired; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_check(const char *path, bool repair,
                                   const pl_log_t *log,
                                   pl_check_report_t *report_p);

#endif /* PL_STORE_CHECK_H */
