/* engine/sharing.h: what it says of random prompts is what comparing each with
 * each says. */
#include "engine/sharing.h"

#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"

enum { PAGE_TOKENS = 4, MOST_REQUESTS = 40, MOST_PAGES = 12 };

typedef struct prompts {
    int32_t n;
    pl_request_t requests[MOST_REQUESTS];
    uint64_t pages[MOST_REQUESTS][MOST_PAGES];
} prompts_t;

static const pl_request_t *get_request(void *context, int32_t i)
{
    return &((const prompts_t *)context)->requests[i];
}

static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    const prompts_t *prompts = context;

    ck_assert_int_eq(page_tokens, PAGE_TOKENS);
    for (int32_t p = 0; p < n; p++) {
        keys[p] = (pl_page_key_t){prompts->pages[i][first + p], 1};
    }
}

/* Few different pages, so that prefixes meet. */
static void draw(pl_rng_t *rng, prompts_t *prompts)
{
    prompts->n = (int32_t)pl_rng_below(rng, MOST_REQUESTS + 1);
    for (int32_t i = 0; i < prompts->n; i++) {
        prompts->requests[i] = (pl_request_t){
            .input_tokens =
                1 + (int32_t)pl_rng_below(rng, PAGE_TOKENS * MOST_PAGES),
            .name_space = pl_rng_below(rng, 2),
        };
        for (int32_t p = 0; p < MOST_PAGES; p++) {
            prompts->pages[i][p] = pl_rng_below(rng, 2);
        }
    }
}

static int32_t common(const prompts_t *prompts, int32_t a, int32_t b)
{
    int32_t n_a = prompts->requests[a].input_tokens / PAGE_TOKENS;
    int32_t n_b = prompts->requests[b].input_tokens / PAGE_TOKENS;
    int32_t n   = 0;

    if (prompts->requests[a].name_space != prompts->requests[b].name_space) {
        return 0;
    }
    while ((n < n_a) && (n < n_b) &&
           (prompts->pages[a][n] == prompts->pages[b][n])) {
        n++;
    }
    return n;
}

START_TEST(it_is_what_comparing_says)
{
    pl_rng_t rng      = pl_rng_seed(pl_test_seed("sharing"));
    prompts_t prompts = {0};
    int32_t with[MOST_REQUESTS], pages[MOST_REQUESTS];

    for (int round = 0; round < 2000; round++) {
        pl_engine_source_t source;

        draw(&rng, &prompts);
        source =
            (pl_engine_source_t){&prompts, prompts.n, get_request, get_keys};
        ck_assert_int_eq(pl_sharing_find(&source, PAGE_TOKENS, with, pages),
                         PL_OK);
        for (int32_t i = 0; i < prompts.n; i++) {
            int32_t most  = 0;
            int32_t first = -1;

            for (int32_t j = 0; j < i; j++) {
                int32_t n = common(&prompts, i, j);

                first = n > most ? j : first;
                most  = n > most ? n : most;
            }
            ck_assert_int_eq(pages[i], most);
            ck_assert_int_eq(with[i], first);
        }
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("sharing");

    tcase_add_test(tcase, it_is_what_comparing_says);
    return tcase;
}

PL_CHECK_MAIN("sharing", all())
