#include <pagelane/layout.h>

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define SEED UINT64_C(20260801)

enum { MOST_UNITS = 4 * PL_MAX_RANKS + 2 };

static const pl_ownership_t zigzag = {PL_OWNERSHIP_ZIGZAG, 0};

static pl_ownership_t interleave(int32_t width)
{
    pl_ownership_t rule = {PL_OWNERSHIP_INTERLEAVE, width};
    return rule;
}

/* ---- page and slot ---- */

/* 9.1, I1: one pure owner function, bijective; -1 maps to -1 */
START_TEST(page_and_owner_with_slot_are_one_to_one)
{
    static const int lanes[] = {1, 2, 3, 4, 8, 127};

    for (size_t l = 0; l < sizeof(lanes) / sizeof(*lanes); l++) {
        int n_lanes          = lanes[l];
        int32_t n_slots      = 50;
        pl_page_t last       = INT32_MAX / n_lanes * n_lanes - 1;
        unsigned char *taken = calloc((size_t)(n_slots * n_lanes), 1);

        ck_assert_ptr_nonnull(taken);
        for (pl_page_t g = 0; g < n_slots * n_lanes; g++) {
            int owner    = pl_page_owner(g, n_lanes);
            int32_t slot = pl_page_slot(g, n_lanes);

            ck_assert(owner >= 0 && owner < n_lanes);
            ck_assert(slot >= 0 && slot < n_slots);
            ck_assert_int_eq(taken[owner * n_slots + slot]++, 0);
            ck_assert_int_eq(pl_page_at(owner, slot, n_lanes), g);
        }
        ck_assert_int_eq(pl_page_at(pl_page_owner(last, n_lanes),
                                    pl_page_slot(last, n_lanes), n_lanes),
                         last);
        ck_assert_int_eq(pl_page_owner(PL_NO_PAGE, n_lanes), -1);
        ck_assert_int_eq(pl_page_slot(PL_NO_PAGE, n_lanes), -1);
        ck_assert_int_eq(pl_page_at(0, -1, n_lanes), PL_NO_PAGE);
        free(taken);
    }
}
END_TEST

/* 9.2 the dummy page of every rank: slot 0 of lane r is page r */
START_TEST(scratch_is_the_first_page_of_each_lane)
{
    for (int r = 0; r < 8; r++) {
        ck_assert_int_eq(pl_page_at(r, 0, 8), r);
        ck_assert_int_eq(pl_page_slot(r, 8), 0);
    }
    ck_assert_int_eq(pl_page_slot(8, 8), 1);
}
END_TEST

/* 9.1 the published vector: 4 lanes, 64 tokens a page, 8 pages a rank */
START_TEST(rank_major_rows_follow_the_vector)
{
    static const int64_t slots[] = {0, 63, 64, 65, 128, 197, 512, -1};
    static const int64_t rows[]  = {0, 63, 512, 513, 1024, 1541, 128, -1};
    static const int64_t local[] = {0, 63, 0, 1, 0, 5, 128, -1};

    for (int i = 0; i < 8; i++) {
        pl_page_t page = slots[i] < 0 ? PL_NO_PAGE : (pl_page_t)(slots[i] / 64);
        int32_t slot   = pl_page_slot(page, 4);

        ck_assert_int_eq(pl_rank_major_row(slots[i], 64, 4, 8), rows[i]);
        ck_assert_int_eq(slot < 0 ? -1 : slot * 64 + slots[i] % 64, local[i]);
        ck_assert_int_eq(pl_page_owner(page, 4) == 2, i == 4);
    }
}
END_TEST

START_TEST(rank_major_rows_are_a_permutation)
{
    enum { LANES = 3, PAGES = 5, TOKENS = 7, ROWS = LANES * PAGES * TOKENS };
    int seen[ROWS] = {0};

    for (int64_t t = 0; t < ROWS; t++) {
        int64_t row = pl_rank_major_row(t, TOKENS, LANES, PAGES);

        ck_assert(row >= 0 && row < ROWS);
        ck_assert_int_eq(seen[row]++, 0);
        ck_assert_int_eq(row / (PAGES * TOKENS), (t / TOKENS) % LANES);
    }
}
END_TEST

/* ---- zigzag ---- */

static void assert_owners(pl_ownership_t rule, int n_ranks, int32_t first,
                          int64_t request, int32_t n, const int *want)
{
    pl_owner_t owners[64];

    ck_assert_int_le(n, 64);
    pl_compute_owners(rule, n_ranks, first, n, request, owners);
    for (int32_t i = 0; i < n; i++) {
        ck_assert_msg(owners[i] == want[i], "page %" PRId32 ": %d, not %d", i,
                      owners[i], want[i]);
    }
}

/* 9.4 page-granular zigzag: the published vectors, and rotated ones */
START_TEST(zigzag_follows_the_vectors)
{
    static const int twenty[]  = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3,
                                  3, 3, 3, 3, 2, 2, 1, 1, 0, 0};
    static const int three[]   = {0, 1, 2};
    static const int rotated[] = {1, 1, 1, 2, 2, 2, 3, 3, 3, 0,
                                  0, 0, 0, 0, 3, 3, 2, 2, 1, 1};
    static const int two[]     = {3, 0};

    assert_owners(zigzag, 4, 0, 0, 20, twenty);
    assert_owners(zigzag, 4, 0, 0, 3, three);
    assert_owners(zigzag, 4, 8, 0, 20, twenty); /* r = 8 mod 4 = 0 */
    assert_owners(zigzag, 4, 0, 1, 20, rotated);
    assert_owners(zigzag, 4, 1, 0, 20, rotated);
    assert_owners(zigzag, 4, 10, INT64_C(4000000000003), 20, rotated);
    assert_owners(zigzag, 4, 3, 0, 2, two);
    assert_owners(zigzag, 1, 5, 7, 3, (const int[]){0, 0, 0});
}
END_TEST

/* The laws that hold for any number of units on n_ranks. */
static void assert_zigzag_laws(int32_t n, int n_ranks)
{
    int32_t lengths[2 * PL_MAX_RANKS];
    pl_owner_t owners[MOST_UNITS];
    int32_t positions[MOST_UNITS];
    int seen[MOST_UNITS] = {0};
    int32_t sum          = 0;
    int32_t longest      = 0;

    pl_zigzag_blocks(n, n_ranks, lengths);
    for (int b = 0; b < 2 * n_ranks; b++) {
        ck_assert_int_eq(lengths[b],
                         n / (2 * n_ranks) + (b < n % (2 * n_ranks) ? 1 : 0));
        sum += lengths[b];
    }
    ck_assert_int_eq(sum, n);

    pl_compute_owners(zigzag, n_ranks, 0, n, 0, owners);
    sum = 0;
    for (int r = 0; r < n_ranks; r++) {
        int32_t mine   = pl_owned_positions(owners, n, r, positions);
        int32_t n_runs = 0;

        /* a rank's pages: its early block, then its late one */
        ck_assert_int_eq(mine, lengths[r] + lengths[2 * n_ranks - 1 - r]);
        ck_assert_int_eq(lengths[r], (mine + 1) / 2);
        for (int32_t i = 0; i < mine; i++) {
            ck_assert(positions[i] >= 0 && positions[i] < n);
            ck_assert_int_eq(seen[positions[i]]++, 0);
            if ((i == 0) || (positions[i] != positions[i - 1] + 1)) {
                n_runs++;
            }
        }
        ck_assert_int_le(n_runs, 2);
        ck_assert_int_ge(mine, n / n_ranks);
        longest = mine > longest ? mine : longest;
        sum += mine;
    }
    ck_assert_int_eq(sum, n); /* all positions, each once: a permutation */
    ck_assert_int_eq(longest, (n + n_ranks - 1) / n_ranks);
}

/* 9.15 blocks by base and remainder; permutation and sum; 0..4C+1 units, so
 * 2C-1, 2C and 2C+1 too.  9.4, 9.16, I12: short chunks: ranks with nothing */
START_TEST(zigzag_laws_hold_at_every_small_length)
{
    for (int c = 1; c <= 16; c++) {
        for (int32_t n = 0; n <= 4 * c + 1; n++) {
            assert_zigzag_laws(n, c);
        }
    }
    for (int32_t n = 0; n < MOST_UNITS; n++) {
        assert_zigzag_laws(n, PL_MAX_RANKS);
    }
}
END_TEST

/* 9.15 the gathered stream is rank-major (rank 0 early, rank 0 late, rank 1
 * early, ...); on 4 ranks block b stands there at 0 2 4 6 7 5 3 1. */
START_TEST(the_rank_major_stream_is_put_back_in_order)
{
    static const int want[] = {0, 2, 4, 6, 7, 5, 3, 1};
    pl_owner_t owners[8];
    int at[8];
    int n = 0;

    pl_compute_owners(zigzag, 4, 0, 8, 0, owners);
    for (int r = 0; r < 4; r++) {
        int32_t positions[8];
        int32_t mine = pl_owned_positions(owners, 8, r, positions);

        for (int32_t i = 0; i < mine; i++) {
            at[positions[i]] = n++;
        }
    }
    for (int b = 0; b < 8; b++) {
        ck_assert_int_eq(at[b], want[b]);
    }
}
END_TEST

/* 9.17 what a block may attend to: prefix once, then all blocks up to it */
START_TEST(kv_lengths_count_the_prefix_once)
{
    static const int32_t early[] = {460, 919, 1378, 1837};
    static const int32_t late[]  = {3671, 3213, 2755, 2296};
    int32_t lengths[8];
    int32_t end = 1; /* tokens of the prefix */
    int32_t ends[8];

    pl_zigzag_blocks(3670, 4, lengths);
    for (int b = 0; b < 8; b++) {
        end += lengths[b];
        ends[b] = end;
    }
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(ends[r], early[r]);
        ck_assert_int_eq(ends[7 - r], late[r]);
    }
}
END_TEST

/* ---- rotation and interleaving ---- */

/* Lengths in tokens like a chat trace's: log-uniform from 1 k to 120 k. */
static int32_t trace_like_tokens(pl_rng_t *rng)
{
    int32_t octave = (int32_t)pl_rng_below(rng, 7);

    return (1000 << octave) +
           (int32_t)pl_rng_below(rng, (uint64_t)(1000 << octave));
}

/* Pages a lane of requests 0.. computed cold, in chunks of chunk_pages. */
static void fill_lanes(pl_rng_t *rng, int n_ranks, int32_t chunk_pages,
                       int64_t *pages, int64_t *n_chunks_p)
{
    pl_owner_t owners[128];

    *n_chunks_p = 0;
    for (int64_t request = 0; request < 12000; request++) {
        int32_t n_pages = (trace_like_tokens(rng) + 63) / 64;

        for (int32_t first = 0; first < n_pages; first += chunk_pages) {
            int32_t n = n_pages - first;

            n = n < chunk_pages ? n : chunk_pages;
            pl_compute_owners(zigzag, n_ranks, first, n, request, owners);
            for (int32_t i = 0; i < n; i++) {
                pages[owners[i]]++;
            }
            (*n_chunks_p)++;
        }
    }
}

START_TEST(rotation_keeps_the_lanes_even)
{
    static const int ranks[]      = {2, 3, 4, 5, 7, 8, 16};
    static const int32_t chunks[] = {1, 4, 6, 8, 12, 128};
    pl_rng_t rng                  = pl_rng_seed(SEED);

    printf("rotation: seed %" PRIu64 "\n", SEED);
    for (size_t c = 0; c < sizeof(ranks) / sizeof(*ranks); c++) {
        for (size_t k = 0; k < sizeof(chunks) / sizeof(*chunks); k++) {
            int64_t pages[16] = {0};
            int64_t least     = INT64_MAX;
            int64_t most      = 0;
            int64_t n_chunks;

            fill_lanes(&rng, ranks[c], chunks[k], pages, &n_chunks);
            for (int r = 0; r < ranks[c]; r++) {
                least = pages[r] < least ? pages[r] : least;
                most  = pages[r] > most ? pages[r] : most;
            }
            ck_assert_int_le(most - least, n_chunks); /* provable */
            ck_assert_msg((most - least) * 1000 <= 2 * least,
                          "C %d, chunk %" PRId32 ": %" PRId64 " to %" PRId64
                          " pages a lane",
                          ranks[c], chunks[k], least, most);
        }
    }
}
END_TEST

START_TEST(one_chunk_differs_by_at_most_a_page)
{
    for (int c = 1; c <= 16; c++) {
        for (int32_t n = 0; n <= 6 * c + 1; n++) {
            pl_owner_t owners[128];
            int32_t positions[128];

            pl_compute_owners(zigzag, c, 3, n, 5, owners);
            for (int r = 0; r < c; r++) {
                int32_t mine = pl_owned_positions(owners, n, r, positions);

                ck_assert(mine >= n / c && mine <= (n + c - 1) / c);
            }
        }
    }
}
END_TEST

START_TEST(interleave_follows_the_page_index)
{
    assert_owners(interleave(1), 3, 0, 0, 7,
                  (const int[]){0, 1, 2, 0, 1, 2, 0});
    assert_owners(interleave(2), 3, 0, 0, 7,
                  (const int[]){0, 0, 1, 1, 2, 2, 0});
    assert_owners(interleave(2), 3, 5, 0, 4, (const int[]){2, 0, 0, 1});
    assert_owners(interleave(2), 3, 5, 1, 4, (const int[]){0, 1, 1, 2});
    assert_owners(interleave(INT32_MAX), 3, 5, 2, 3, (const int[]){2, 2, 2});
}
END_TEST

/* However a prompt is cut into chunks, the interleaved owners are the same. */
START_TEST(interleave_does_not_depend_on_the_chunks)
{
    pl_rng_t rng = pl_rng_seed(SEED);

    for (int round = 0; round < 500; round++) {
        int c               = 1 + (int)pl_rng_below(&rng, PL_MAX_RANKS);
        pl_ownership_t rule = interleave(1 + (int32_t)pl_rng_below(&rng, 9));
        int64_t request     = (int64_t)pl_rng_below(&rng, 1000);
        pl_owner_t whole[300];
        pl_owner_t parts[300];
        int32_t n;

        pl_compute_owners(rule, c, 0, 300, request, whole);
        for (int32_t first = 0; first < 300; first += n) {
            n = 1 + (int32_t)pl_rng_below(&rng, (uint64_t)(300 - first));
            pl_compute_owners(rule, c, first, n, request, parts + first);
        }
        ck_assert_int_eq(memcmp(whole, parts, sizeof(whole)), 0);
        for (int32_t i = 0; i < 300; i++) {
            ck_assert_int_eq(whole[i], (i / rule.width + request) % c);
        }
    }
}
END_TEST

/* One lane, whoever computes; and who computes is what it is with zigzag. */
START_TEST(one_lane_is_computed_as_zigzag)
{
    const pl_ownership_t replicated = {PL_OWNERSHIP_REPLICATED, 0};
    const pl_ownership_t layer      = {PL_OWNERSHIP_LAYER, 0};

    for (int c = 1; c <= 9; c++) {
        pl_owner_t a[40], b[40];

        ck_assert_int_eq(pl_ownership_lanes(zigzag, c), c);
        ck_assert_int_eq(pl_ownership_lanes(interleave(2), c), c);
        ck_assert_int_eq(pl_ownership_lanes(replicated, c), 1);
        ck_assert_int_eq(pl_ownership_lanes(layer, c), 1);
        ck_assert_int_eq(pl_ownership_shares(zigzag, c), c);
        ck_assert_int_eq(pl_ownership_shares(replicated, c), c);
        ck_assert_int_eq(pl_ownership_shares(layer, c), 1);
        for (int32_t n = 0; n <= 40; n++) {
            pl_compute_owners(zigzag, c, 7, n, 5, a);
            pl_compute_owners(replicated, c, 7, n, 5, b);
            ck_assert_int_eq(memcmp(a, b, (size_t)n), 0);
            pl_compute_owners(layer, c, 7, n, 5, b);
            ck_assert_int_eq(memcmp(a, b, (size_t)n), 0);
        }
    }
}
END_TEST

/* Ranks 0 and 7 of eight own layers 0 to 9 and 69 to 77 of 78 (sglang pull
 * request 29930).  Runs cover all layers, and differ by one at most. */
START_TEST(layers_are_cut_into_even_runs)
{
    ck_assert_int_eq(pl_first_layer(78, 8, 0), 0);
    ck_assert_int_eq(pl_first_layer(78, 8, 1), 10);
    ck_assert_int_eq(pl_first_layer(78, 8, 7), 69);
    for (int32_t n = 0; n <= 40; n++) {
        for (int c = 1; c <= 9; c++) {
            ck_assert_int_eq(pl_first_layer(n, c, 0), 0);
            ck_assert_int_eq(pl_first_layer(n, c, c), n);
            for (int r = 0; r < c; r++) {
                int32_t run =
                    pl_first_layer(n, c, r + 1) - pl_first_layer(n, c, r);

                ck_assert_int_eq(run, n / c + (r < n % c ? 1 : 0));
            }
        }
    }
}
END_TEST

/* ---- texts ---- */

START_TEST(rules_have_texts)
{
    static const char *const texts[] = {
        "zigzag", "round-robin",  "replicated",
        "layer",  "interleave:2", "interleave:2147483647"};
    char buffer[PL_OWNERSHIP_TEXT_BYTES];
    pl_ownership_t rule;

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        ck_assert_int_eq(pl_ownership_parse(texts[i], &rule), PL_OK);
        pl_ownership_text(rule, buffer);
        ck_assert_str_eq(buffer, texts[i]);
    }
    ck_assert_int_eq(pl_ownership_parse("interleave:1", &rule), PL_OK);
    ck_assert_int_eq(rule.kind, PL_OWNERSHIP_INTERLEAVE);
    ck_assert_int_eq(rule.width, 1);
    ck_assert_int_eq(pl_ownership_parse("zigzag", &rule), PL_OK);
    ck_assert_int_eq(rule.kind, PL_OWNERSHIP_ZIGZAG);
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const char *const texts[] = {"",
                                        "Zigzag",
                                        "zigzag ",
                                        "interleave",
                                        "roundrobin",
                                        "replicate",
                                        "layers",
                                        "layer:1",
                                        "interleave:",
                                        "interleave:0",
                                        "interleave:-1",
                                        "interleave:+1",
                                        "interleave: 1",
                                        "interleave:2x",
                                        "interleave:2147483648",
                                        "interleave:99999999999999999999999"};
    pl_ownership_t rule              = {PL_OWNERSHIP_INTERLEAVE, 77};

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        ck_assert_int_eq(pl_ownership_parse(texts[i], &rule), PL_ERR_ARGUMENT);
    }
    ck_assert_int_eq(pl_ownership_parse(NULL, &rule), PL_ERR_ARGUMENT);
    ck_assert_int_eq(rule.width, 77);
}
END_TEST

int main(void)
{
    Suite *suite    = suite_create("layout");
    TCase *tcase    = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, page_and_owner_with_slot_are_one_to_one);
    tcase_add_test(tcase, scratch_is_the_first_page_of_each_lane);
    tcase_add_test(tcase, rank_major_rows_follow_the_vector);
    tcase_add_test(tcase, rank_major_rows_are_a_permutation);
    tcase_add_test(tcase, zigzag_follows_the_vectors);
    tcase_add_test(tcase, zigzag_laws_hold_at_every_small_length);
    tcase_add_test(tcase, the_rank_major_stream_is_put_back_in_order);
    tcase_add_test(tcase, kv_lengths_count_the_prefix_once);
    tcase_add_test(tcase, rotation_keeps_the_lanes_even);
    tcase_add_test(tcase, one_chunk_differs_by_at_most_a_page);
    tcase_add_test(tcase, interleave_follows_the_page_index);
    tcase_add_test(tcase, interleave_does_not_depend_on_the_chunks);
    tcase_add_test(tcase, one_lane_is_computed_as_zigzag);
    tcase_add_test(tcase, layers_are_cut_into_even_runs);
    tcase_add_test(tcase, rules_have_texts);
    tcase_add_test(tcase, other_texts_are_refused);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
