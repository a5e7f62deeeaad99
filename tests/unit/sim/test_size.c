/* sim/size.h beside published numbers, beside what the runtime lays in memory,
 * and laws that hold whatever the numbers are. */
#include "sim/size.h"

#include <stdlib.h>
#include <string.h>

#include <pagelane/layout.h>

#include "exec/model.h"
#include "sim/presets.h"
#include "support/check_main.h"

typedef struct rig {
    pl_model_config_t model;
    pl_hardware_t hardware;
    pl_size_params_t params;
    pl_size_t size;
} rig_t;

static rig_t RIG; /* too large for the stack of a test */

/* 8 GPUs as one group, fp8, 64-token pages, sessions of 128K. */
static void prepare(const char *model, const char *hardware)
{
    const pl_preset_t *m = pl_preset_find(PL_PRESET_MODEL, model);
    const pl_preset_t *h = pl_preset_find(PL_PRESET_HARDWARE, hardware);

    ck_assert(m != NULL && h != NULL);
    ck_assert_int_eq(pl_model_config_parse(m->name, (const char *)m->text,
                                           m->n_bytes, NULL, &RIG.model),
                     PL_OK);
    ck_assert_int_eq(pl_hardware_parse(h->name, (const char *)h->text,
                                       h->n_bytes, NULL, &RIG.hardware),
                     PL_OK);
    RIG.params = (pl_size_params_t){.model          = &RIG.model,
                                    .hardware       = &RIG.hardware,
                                    .cp             = 8,
                                    .ep             = 8,
                                    .kv_dtype       = PL_KV_FP8,
                                    .weight_dtype   = PL_F8_E4M3,
                                    .mem_billionths = 880000000,
                                    .host_bytes     = 100000000000,
                                    .context_tokens = 131072,
                                    .page_tokens    = 64};
}

static const pl_size_t *make(void)
{
    ck_assert_int_eq(pl_size_make(&RIG.params, &RIG.size), PL_OK);
    return &RIG.size;
}

static int64_t sum(const int64_t *parts)
{
    int64_t all = 0;

    for (int i = 0; i < PL_PARTS; i++) {
        all += parts[i];
    }
    return all;
}

/* Published bytes a token: 656 or 1,152 a layer, 132 where it has an index. */
START_TEST(bytes_of_a_token)
{
    static const struct {
        const char *model;
        int64_t fp8, bf16;
    } ROWS[] = {{"GLM-5", 61464, 100152},
                {"GLM-5.2", 53940, 92628},
                {"DeepSeek-V3.2", 48068, 78324}};

    for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
        prepare(ROWS[i].model, "H200");
        ck_assert_int_eq(make()->token_bytes, ROWS[i].fp8);
        ck_assert_int_eq(RIG.size.index_token_bytes % 132, 0);
        RIG.params.mtp_layers = 1;
        ck_assert_int_eq(make()->token_bytes, ROWS[i].fp8 + 788);
        RIG.params.mtp_layers = 0;
        RIG.params.kv_dtype   = PL_KV_BF16;
        ck_assert_int_eq(make()->token_bytes, ROWS[i].bf16);
    }
}
END_TEST

/* GLM-5.2's repositories: 59,585 tensors and 1.5067 TB in bf16; 59,044 more of
 * scales and 755.6 GB in fp8.  The papers' sizes of the others. */
START_TEST(weights_of_the_published_checkpoints)
{
    prepare("GLM-5.2", "H200");
    RIG.params.mtp_layers = 1;
    ck_assert_int_eq(make()->census.n_tensors, 59585);
    ck_assert_int_eq(RIG.size.census.n_scales, 59044);
    ck_assert_int_eq((sum(RIG.size.census.bytes) + 50000000) / 100000000, 7556);
    RIG.params.weight_dtype = PL_BF16;
    ck_assert_int_eq((sum(make()->census.bytes) + 50000000) / 100000000, 15067);
    ck_assert_int_eq(RIG.size.census.n_scales, 0);

    prepare("GLM-5", "H200");
    ck_assert_int_eq(sum(make()->census.parameters) / 1000000000, 743);
    /* 671.03 without the indexers */
    prepare("DeepSeek-V3.2", "H200");
    ck_assert_int_eq((sum(make()->census.parameters) -
                      RIG.size.census.parameters[PL_PART_INDEXER]) /
                         10000000,
                     67102);
}
END_TEST

/* Pages are those of the runtime, for every page size and dtype. */
START_TEST(pages_are_those_of_the_pool)
{
    static const int32_t PAGES[] = {1, 3, 16, 64, 1024};

    prepare("GLM-5.2", "B300");
    for (size_t i = 0; i < sizeof(PAGES) / sizeof(*PAGES); i++) {
        for (pl_kv_dtype_t dtype = PL_KV_F32; dtype <= PL_KV_FP8; dtype++) {
            pl_store_layout_t layout =
                pl_model_layout(&RIG.model, dtype, PAGES[i]);

            RIG.params.kv_dtype    = dtype;
            RIG.params.page_tokens = PAGES[i];
            ck_assert_uint_eq(
                (size_t)make()->ownership[PL_SIZE_SHARED].page_bytes,
                pl_store_page_bytes(&layout));
            ck_assert_uint_eq(
                (size_t)pl_size_page_bytes(&RIG.model, dtype, PAGES[i], 0),
                pl_store_page_bytes(&layout));
            /* a layer of multi-token prediction has both stores */
            layout.n_layers  = 1;
            layout.has_index = NULL;
            ck_assert_uint_eq(
                (size_t)(pl_size_page_bytes(&RIG.model, dtype, PAGES[i], 1) -
                         pl_size_page_bytes(&RIG.model, dtype, PAGES[i], 0)),
                pl_store_page_bytes(&layout));
        }
    }
}
END_TEST

/* "Base CP8 fits about 380K tokens" (sgl-project/sglang pull request 31435):
 * GLM-5.2-FP8 on 8 H20-3e, fp8 KV, 64-token pages, memory fraction 0.88. */
START_TEST(replicated_on_h20_3e)
{
    int64_t tokens;

    prepare("GLM-5.2", "H20-3e");
    tokens = make()->ownership[PL_SIZE_REPLICATED].device.tokens;
    ck_assert_int_ge(tokens, 380000 * 95 / 100);
    ck_assert_int_le(tokens, 380000 * 105 / 100);
}
END_TEST

/* 457,920 tokens replicated are 3,247,296 split by layers, in the same memory
 * (sglang pull request 29930: 78 layers of 788 bytes over 8 ranks, a copy of
 * one more layer on each). */
START_TEST(layer_split_as_published)
{
    int64_t page = INT64_C(64) * 61464;

    prepare("GLM-5", "H200");
    RIG.params.mem_billionths = PL_SIZE_WHOLE;
    RIG.params.context_tokens = 64;
    RIG.hardware.memory_bytes = make()->weight_bytes + (457920 / 64 + 1) * page;
    ck_assert_int_eq(make()->ownership[PL_SIZE_REPLICATED].device.tokens,
                     457920);
    ck_assert_int_le(
        labs(RIG.size.ownership[PL_SIZE_LAYER_SPLIT].device.tokens - 3247296),
        2 * 64);
}
END_TEST

/* Views and pages of each ownership fill the memory up to less than a page. */
static void check_full(int which, int64_t page_and_view, int64_t view)
{
    const pl_size_t *size = &RIG.size;
    int64_t pages         = size->ownership[which].device.pages;

    ck_assert_int_le(pages * page_and_view + view, size->kv_bytes);
    ck_assert_int_gt((pages + 1) * page_and_view + view, size->kv_bytes);
    pages = size->ownership[which].host.pages;
    ck_assert_int_eq(pages,
                     RIG.params.host_bytes / size->ownership[which].page_bytes);
}

START_TEST(memory_is_filled_and_no_more)
{
    static const char *const MODELS[] = {"GLM-5", "GLM-5.2", "DeepSeek-V3.2"};

    for (int i = 0; i < 3 * 7; i++) {
        const pl_size_ownership_t *own = RIG.size.ownership;
        int64_t view_page;

        prepare(MODELS[i % 3], "B200");
        RIG.params.cp          = i / 3 + 2;
        RIG.params.mtp_layers  = i % 2;
        RIG.params.page_tokens = 16 + i;
        (void)make();
        view_page = (int64_t)pl_store_page_bytes(&(pl_store_layout_t){
            .page_tokens       = RIG.params.page_tokens,
            .n_layers          = 1,
            .latent_row_bytes  = 656,
            .index_key_bytes   = 128,
            .index_scale_bytes = 4,
        });
        check_full(PL_SIZE_REPLICATED, own[0].page_bytes, 0);
        check_full(PL_SIZE_SHARED, own[1].page_bytes, own[1].view_bytes);
        check_full(PL_SIZE_LAYER_SPLIT, own[2].page_bytes + view_page, 0);
        ck_assert_int_eq(own[1].device.tokens, RIG.params.cp *
                                                   (own[1].device.pages - 1) *
                                                   RIG.params.page_tokens);
        ck_assert_int_ge(own[1].device.tokens, own[0].device.tokens);
    }
}
END_TEST

/* Ranks hold runs of layers; together all of a page. */
START_TEST(layers_are_split_in_runs)
{
    prepare("GLM-5", "B300");
    RIG.params.cp = 1;
    ck_assert_int_eq(make()->ownership[PL_SIZE_LAYER_SPLIT].page_bytes,
                     RIG.size.ownership[PL_SIZE_REPLICATED].page_bytes);
    RIG.params.cp = 78;
    ck_assert_int_eq(make()->ownership[PL_SIZE_LAYER_SPLIT].page_bytes,
                     64 * 788);
    RIG.params.cp = 100; /* some have none */
    ck_assert_int_eq(make()->ownership[PL_SIZE_LAYER_SPLIT].page_bytes,
                     64 * 788);
    /* full layers of GLM-5.2 are 0, 1, 2, 6, 10 ...: with 9 to 10 layers a
     * rank the first run has the most index */
    prepare("GLM-5.2", "B300");
    ck_assert_int_eq(make()->ownership[PL_SIZE_LAYER_SPLIT].page_bytes,
                     64 * (10 * 656 + 4 * 132));
}
END_TEST

START_TEST(one_rank_shares_nothing)
{
    const pl_size_ownership_t *own = RIG.size.ownership;

    prepare("GLM-5.2", "B300");
    RIG.params.cp = 1;
    (void)make();
    for (int i = 1; i < PL_SIZE_OWNERSHIPS; i++) {
        ck_assert_int_eq(own[i].view_bytes, 0);
        ck_assert_mem_eq(&own[i].device, &own[0].device, sizeof(own[0].device));
        ck_assert_mem_eq(&own[i].host, &own[0].host, sizeof(own[0].host));
    }
}
END_TEST

/* Does a prompt of n pages fit, laid by the zigzag in one chunk, with a view of
 * its own length beside the lanes? */
static bool fits_shared(int64_t n_pages, int64_t view_page)
{
    pl_ownership_t zigzag       = {.kind = PL_OWNERSHIP_ZIGZAG};
    pl_owner_t *owners          = calloc((size_t)n_pages, sizeof(*owners));
    int64_t lanes[PL_MAX_RANKS] = {0};
    int64_t most                = 0;

    ck_assert_ptr_nonnull(owners);
    pl_compute_owners(zigzag, RIG.params.cp, 0, (int32_t)n_pages, 0, owners);
    for (int64_t i = 0; i < n_pages; i++) {
        most = ++lanes[owners[i]] > most ? lanes[owners[i]] : most;
    }
    free(owners);
    return (most + 1) * RIG.size.ownership[PL_SIZE_SHARED].page_bytes +
               2 * n_pages * view_page <=
           RIG.size.kv_bytes;
}

START_TEST(the_longest_prompt_fits_and_no_longer_one)
{
    prepare("GLM-5.2", "H20-3e");
    RIG.model.max_positions = INT32_MAX;
    for (int32_t cp = 2; cp <= 16; cp++) {
        int64_t pages;

        RIG.params.cp = cp;
        pages = make()->ownership[PL_SIZE_SHARED].device.longest_tokens / 64;
        ck_assert_int_gt(pages, 0);
        ck_assert_msg(fits_shared(pages, 64 * 788), "%d ranks", (int)cp);
        ck_assert_msg(!fits_shared(pages + cp, 64 * 788), "%d ranks", (int)cp);
    }
    RIG.model.max_positions = 1000;
    for (int i = 0; i < PL_SIZE_OWNERSHIPS; i++) {
        RIG.params.context_tokens = 1000;
        ck_assert_int_eq(make()->ownership[i].device.longest_tokens, 1000);
        ck_assert_int_eq(RIG.size.ownership[i].host.longest_tokens, 1000);
    }
}
END_TEST

START_TEST(sessions_take_whole_pages)
{
    const pl_size_ownership_t *own = RIG.size.ownership;

    prepare("GLM-5.2", "H200");
    RIG.params.context_tokens = 65; /* two pages */
    (void)make();
    ck_assert_int_eq(own[0].device.sessions, (own[0].device.pages - 1) / 2);
    ck_assert_int_eq(own[1].device.sessions, 8 * (own[1].device.pages - 1) / 2);
    ck_assert_int_eq(own[1].host.sessions, 8 * own[1].host.pages / 2);
}
END_TEST

/* What does not fit says by how much; the way out is the smallest. */
START_TEST(too_little_memory)
{
    int32_t ep;

    prepare("GLM-5.2", "H100");
    ck_assert_int_lt(make()->kv_bytes, 0);
    ck_assert_int_eq(RIG.size.kv_bytes,
                     RIG.size.budget_bytes - RIG.size.weight_bytes);
    for (int i = 0; i < PL_SIZE_OWNERSHIPS; i++) {
        ck_assert_int_eq(RIG.size.ownership[i].device.pages, 0);
        ck_assert_int_eq(RIG.size.ownership[i].host.pages, 0);
    }
    ep = pl_size_least_ep(&RIG.params, &RIG.size);
    ck_assert_int_gt(ep, 8);
    ck_assert_int_eq(ep % 8, 0);
    RIG.params.ep = ep;
    ck_assert_int_gt(make()->kv_bytes, 0);
    RIG.params.ep = ep - 8;
    ck_assert_int_le(make()->kv_bytes, 0);
    RIG.hardware.memory_bytes = INT64_C(10000000000);
    (void)make();
    ck_assert_int_eq(pl_size_least_ep(&RIG.params, &RIG.size), 0);
}
END_TEST

/* Experts that do not divide are rounded up on the GPU that has most. */
START_TEST(experts_are_spread)
{
    prepare("GLM-5", "B300");
    RIG.params.ep = 5; /* 52 of 256 */
    ck_assert_int_eq(make()->gpu_weights[PL_PART_EXPERTS],
                     RIG.size.census.bytes[PL_PART_EXPERTS] / 256 * 52);
    ck_assert_int_eq(RIG.size.gpu_weights[PL_PART_ATTENTION],
                     RIG.size.census.bytes[PL_PART_ATTENTION]);
    ck_assert_int_eq(RIG.size.weight_bytes, sum(RIG.size.gpu_weights));
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("size");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, bytes_of_a_token);
    tcase_add_test(tcase, weights_of_the_published_checkpoints);
    tcase_add_test(tcase, pages_are_those_of_the_pool);
    tcase_add_test(tcase, replicated_on_h20_3e);
    tcase_add_test(tcase, layer_split_as_published);
    tcase_add_test(tcase, memory_is_filled_and_no_more);
    tcase_add_test(tcase, layers_are_split_in_runs);
    tcase_add_test(tcase, one_rank_shares_nothing);
    tcase_add_test(tcase, the_longest_prompt_fits_and_no_longer_one);
    tcase_add_test(tcase, sessions_take_whole_pages);
    tcase_add_test(tcase, too_little_memory);
    tcase_add_test(tcase, experts_are_spread);
    return tcase;
}

PL_CHECK_MAIN("size", all())
