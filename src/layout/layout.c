#include <pagelane/layout.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t pl_rank_major_row(int64_t token_slot, int page_tokens, int n_lanes,
                          int64_t pages_per_rank)
{
    int64_t page;

    assert((page_tokens > 0) && (n_lanes > 0));
    if (token_slot < 0) {
        return -1;
    }
    page = token_slot / page_tokens;
    return ((page % n_lanes) * pages_per_rank + page / n_lanes) * page_tokens +
           token_slot % page_tokens;
}

/* The K of "interleave:K": digits only, no sign, no blank, 1 .. INT32_MAX. */
static bool parse_width(const char *text, int32_t *width_p)
{
    int64_t width = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if ((*text < '0') || (*text > '9')) {
            return false;
        }
        width = width * 10 + (*text - '0');
        if (width > INT32_MAX) {
            return false;
        }
    }
    *width_p = (int32_t)width;
    return width > 0;
}

pl_status_t pl_ownership_parse(const char *text, pl_ownership_t *rule_p)
{
    static const char prefix[] = "interleave:";
    pl_ownership_t rule        = {PL_OWNERSHIP_INTERLEAVE, 1};

    if (text == NULL) {
        return PL_ERR_ARGUMENT;
    }
    if (strcmp(text, "zigzag") == 0) {
        rule.kind  = PL_OWNERSHIP_ZIGZAG;
        rule.width = 0;
    } else if (strcmp(text, "replicated") == 0) {
        rule.kind  = PL_OWNERSHIP_REPLICATED;
        rule.width = 0;
    } else if (strcmp(text, "layer") == 0) {
        rule.kind  = PL_OWNERSHIP_LAYER;
        rule.width = 0;
    } else if (strncmp(text, prefix, sizeof(prefix) - 1) == 0) {
        if (!parse_width(text + sizeof(prefix) - 1, &rule.width)) {
            return PL_ERR_ARGUMENT;
        }
    } else if (strcmp(text, "round-robin") != 0) {
        return PL_ERR_ARGUMENT;
    }
    *rule_p = rule;
    return PL_OK;
}

void pl_ownership_text(pl_ownership_t rule, char *buffer)
{
    if (rule.kind == PL_OWNERSHIP_ZIGZAG) {
        snprintf(buffer, PL_OWNERSHIP_TEXT_BYTES, "zigzag");
    } else if (rule.kind == PL_OWNERSHIP_REPLICATED) {
        snprintf(buffer, PL_OWNERSHIP_TEXT_BYTES, "replicated");
    } else if (rule.kind == PL_OWNERSHIP_LAYER) {
        snprintf(buffer, PL_OWNERSHIP_TEXT_BYTES, "layer");
    } else if (rule.width == 1) {
        snprintf(buffer, PL_OWNERSHIP_TEXT_BYTES, "round-robin");
    } else {
        snprintf(buffer, PL_OWNERSHIP_TEXT_BYTES, "interleave:%" PRId32,
                 rule.width);
    }
}

void pl_zigzag_blocks(int32_t n_units, int n_ranks, int32_t *lengths)
{
    int32_t n_blocks = 2 * n_ranks;
    int32_t base     = n_units / n_blocks;
    int32_t n_longer = n_units % n_blocks;

    assert((n_units >= 0) && (n_ranks > 0));
    for (int32_t b = 0; b < n_blocks; b++) {
        lengths[b] = base + (b < n_longer ? 1 : 0);
    }
}

static void zigzag_owners(int n_ranks, int32_t n_pages, int rotation,
                          pl_owner_t *owners)
{
    int32_t n_blocks = 2 * n_ranks;
    int32_t base     = n_pages / n_blocks;
    int32_t n_longer = n_pages % n_blocks;
    int32_t i        = 0;

    for (int32_t b = 0; (b < n_blocks) && (i < n_pages); b++) {
        int32_t length = base + (b < n_longer ? 1 : 0);
        int32_t owner  = (b < n_ranks ? b : n_blocks - 1 - b) + rotation;

        if (owner >= n_ranks) {
            owner -= n_ranks;
        }
        memset(owners + i, owner, (size_t)length);
        i += length;
    }
    assert(i == n_pages);
}

static void interleaved_owners(int32_t width, int n_ranks, int32_t first_page,
                               int32_t n_pages, int64_t request,
                               pl_owner_t *owners)
{
    int owner    = (int)((first_page / width + request % n_ranks) % n_ranks);
    int32_t left = width - first_page % width; /* pages of this turn */

    for (int32_t i = 0; i < n_pages; i++) {
        owners[i] = (pl_owner_t)owner;
        if (--left == 0) {
            left  = width;
            owner = owner + 1 == n_ranks ? 0 : owner + 1;
        }
    }
}

void pl_compute_owners(pl_ownership_t rule, int n_ranks, int32_t first_page,
                       int32_t n_pages, int64_t request, pl_owner_t *owners)
{
    assert((n_ranks > 0) && (n_ranks <= PL_MAX_RANKS));
    assert((first_page >= 0) && (n_pages >= 0) && (request >= 0));
    if (rule.kind != PL_OWNERSHIP_INTERLEAVE) {
        zigzag_owners(n_ranks, n_pages,
                      (int)((first_page + request % n_ranks) % n_ranks),
                      owners);
    } else {
        assert(rule.width > 0);
        interleaved_owners(rule.width, n_ranks, first_page, n_pages, request,
                           owners);
    }
}

int32_t pl_owned_positions(const pl_owner_t *owners, int32_t n_pages, int rank,
                           int32_t *positions)
{
    int32_t n = 0;

    for (int32_t i = 0; i < n_pages; i++) {
        if (owners[i] == rank) {
            positions[n++] = i;
        }
    }
    return n;
}
