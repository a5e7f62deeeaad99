/* The prefix tree: structure, references, copies, order. */
#include "cache/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/check_main.h"
#include "support/log_capture.h"

enum { N_LANES = 3, PAGE_TOKENS = 4, MOST = 64 };

static log_capture_t said;
static pl_tree_t *tree;
static pl_node_t *root;
static pl_page_t next_page;

static void open_tree(void)
{
    pl_tree_params_t params = {.page_tokens = PAGE_TOKENS,
                               .n_lanes     = N_LANES,
                               .policy      = &pl_policy_lru};

    log_capture_open(&said);
    ck_assert_int_eq(pl_tree_open(&params, &said.log, &tree), PL_OK);
    root      = pl_tree_root(tree);
    next_page = 3;
}

static void check_tree(void)
{
    ck_assert_msg(pl_tree_check(tree) == PL_OK, "%s", said.text);
}

static void close_tree(void)
{
    check_tree();
    pl_tree_close(tree);
    log_capture_close(&said);
}

/* A prompt as text: a letter a page. */
static int keys_of(const char *text, pl_page_key_t *keys)
{
    int n = (int)strlen(text);

    for (int i = 0; i < n; i++) {
        keys[i] = (pl_page_key_t){(uint64_t)text[i], 1};
    }
    return n;
}

/* Insert with the next pages in turn; how many of them were duplicates. */
static int insert_in(uint64_t name_space, pl_node_t *at, const char *text,
                     pl_node_t **last_p)
{
    pl_page_key_t keys[MOST];
    pl_page_t pages[MOST];
    pl_page_t mine[MOST];
    pl_page_t dup[MOST];
    int n     = keys_of(text, keys);
    int n_dup = 0;
    const pl_node_t *node;

    for (int i = 0; i < n; i++) {
        mine[i] = pages[i] = next_page++;
    }
    ck_assert_int_eq(
        pl_tree_insert(tree, at, name_space, keys, n, pages, dup, last_p),
        PL_OK);
    check_tree();
    node = *last_p;
    for (int i = n - 1; i >= 0; i--) {
        int32_t position = at->first_page + at->n_pages + i;

        while (node->first_page > position) {
            node = node->parent;
        }
        /* What is returned is what the tree holds; what is not, the caller's.
         */
        ck_assert_int_eq(pages[i], node->device[position - node->first_page]);
        ck_assert_int_eq(dup[i], pages[i] == mine[i] ? PL_NO_PAGE : mine[i]);
        n_dup += dup[i] != PL_NO_PAGE;
    }
    return n_dup;
}

static pl_node_t *insert(const char *text)
{
    pl_node_t *last;

    (void)insert_in(0, root, text, &last);
    return last;
}

static pl_match_t match_in(uint64_t name_space, const char *text)
{
    pl_page_key_t keys[MOST];
    pl_match_t match;
    int n = keys_of(text, keys);

    ck_assert_int_eq(pl_tree_match(tree, name_space, keys, n, &match), PL_OK);
    check_tree();
    return match;
}

static int peek(const char *text)
{
    pl_page_key_t keys[MOST];
    int n = keys_of(text, keys);
    int32_t n_device;
    int32_t n_total;

    pl_tree_peek(tree, 0, keys, n, &n_device, &n_total);
    ck_assert_int_le(n_device, n_total);
    return n_total;
}

/* A host copy with the owners of its device pages. */
static void back_up(pl_node_t *node)
{
    pl_owner_t owners[MOST];
    pl_meta_t meta;

    for (int32_t i = 0; i < node->n_pages; i++) {
        owners[i] = pl_page_owner(node->device[i], N_LANES);
    }
    ck_assert_int_eq(
        pl_meta_make(PAGE_TOKENS, node->n_pages, owners, node->device, &meta),
        PL_OK);
    pl_tree_set_host(tree, node, meta);
    check_tree();
}

/* ---- structure ---- */

START_TEST(match_finds_the_longest_prefix_and_splits_where_it_ends)
{
    pl_node_t *node = insert("abcdef");
    int64_t id      = node->id;
    pl_match_t match;

    ck_assert_int_eq(pl_tree_n_nodes(tree), 1);
    match = match_in(0, "abcxyz");
    ck_assert_int_eq(match.n_device, 3);
    ck_assert_int_eq(match.n_total, 3);
    ck_assert_ptr_eq(match.device, match.last);
    ck_assert_int_eq(pl_tree_n_nodes(tree), 2);

    /* The rest keeps its identity: who held it holds it still. */
    ck_assert_int_eq(node->id, id);
    ck_assert_ptr_eq(node->parent, match.last);
    ck_assert_int_eq(node->first_page, 3);
    ck_assert_int_eq(node->n_pages, 3);
    ck_assert_int_gt(match.last->id, id);

    ck_assert_int_eq(match_in(0, "abcdef").n_total, 6);
    ck_assert_int_eq(match_in(0, "abcdefgh").n_total, 6);
    ck_assert_int_eq(match_in(0, "xbc").n_total, 0);
    ck_assert_ptr_eq(match_in(0, "").last, root);
    ck_assert_int_eq(pl_tree_n_nodes(tree), 2);
}
END_TEST

START_TEST(split_and_join_give_the_node)
{
    for (int at = 1; at < 7; at++) {
        char text[8] = "0bcdefg";
        pl_node_t *node;
        pl_node_t *head;
        pl_page_t pages[7];
        uint64_t chain;

        text[0] = (char)('0' + at);
        node    = insert(text);
        back_up(node);
        pl_tree_lock(tree, node);
        pl_tree_pin(tree, node);
        pl_tree_hit(tree, node);
        memcpy(pages, node->device, sizeof(pages));
        chain = node->chain;
        ck_assert_int_eq(pl_tree_split(tree, node, at, &head), PL_OK);
        check_tree();
        ck_assert_mem_eq(head->device, pages, (size_t)at * sizeof(*pages));
        ck_assert_mem_eq(node->device, pages + at,
                         (size_t)(7 - at) * sizeof(*pages));
        ck_assert_mem_eq(head->host.pages, pages, (size_t)at * sizeof(*pages));
        ck_assert_mem_eq(node->host.pages, pages + at,
                         (size_t)(7 - at) * sizeof(*pages));
        ck_assert_uint_eq(head->keys[0].lo, (uint64_t)text[0]);
        ck_assert_uint_eq(node->keys[0].lo, (uint64_t)text[at]);
        ck_assert(node->chain == chain); /* the prefix's end is where it was */
        ck_assert_int_eq(head->lock_ref, 1);
        ck_assert_int_eq(head->pin_ref, 1);
        ck_assert_int_eq(head->hits, 1);
        ck_assert_int_eq(head->first_page, 0);
        ck_assert_int_eq(node->first_page, at);
        ck_assert_int_eq(peek(text), 7);

        /* Who lets go of the chain lets go of both halves. */
        pl_tree_unpin(tree, node);
        pl_tree_unpin(tree, head);
        pl_tree_unlock(tree, node);
        ck_assert_int_eq(head->lock_ref + node->lock_ref, 0);
        check_tree();
    }
    ck_assert_int_eq(root->lock_ref, 0);
}
END_TEST

START_TEST(peek_leaves_no_trace)
{
    uint64_t before;

    (void)insert("abcdef");
    before = pl_tree_state_hash(tree);
    ck_assert_int_eq(peek("abcx"), 3);
    ck_assert_int_eq(peek("abcdefg"), 6);
    ck_assert_int_eq(peek("zz"), 0);
    ck_assert(pl_tree_state_hash(tree) == before);
    (void)match_in(0, "abcx");
    ck_assert(pl_tree_state_hash(tree) != before);
}
END_TEST

/* I11 */
START_TEST(namespaces_share_nothing)
{
    pl_node_t *a;
    pl_node_t *b;

    ck_assert_int_eq(insert_in(1, root, "abc", &a), 0);
    ck_assert_int_eq(insert_in(2, root, "abc", &b), 0);
    ck_assert_ptr_ne(a, b);
    ck_assert(a->chain != b->chain);
    ck_assert_int_eq(match_in(1, "abc").n_total, 3);
    ck_assert_ptr_eq(match_in(1, "abc").last, a);
    ck_assert_ptr_eq(match_in(2, "abc").last, b);
    ck_assert_int_eq(match_in(3, "abc").n_total, 0);
    ck_assert_int_eq(insert_in(1, root, "abd", &b), 2);
}
END_TEST

START_TEST(insert_returns_what_the_tree_holds)
{
    pl_node_t *node = insert("abcd");
    pl_node_t *other;
    pl_node_t *last;

    ck_assert_int_eq(insert_in(0, root, "abcd", &last), 4); /* all there */
    ck_assert_ptr_eq(last, node);
    ck_assert_int_eq(insert_in(0, root, "abxy", &other), 2); /* split */
    ck_assert_int_eq(other->first_page, 2);
    ck_assert_ptr_eq(other->parent, node->parent);
    ck_assert_int_eq(insert_in(0, root, "ab", &last), 2); /* nothing new */
    ck_assert_ptr_eq(last, other->parent);
    ck_assert_int_eq(insert_in(0, other, "efg", &last), 0); /* below a node */
    ck_assert_int_eq(last->first_page, 4);
    ck_assert_int_eq(peek("abxyefg"), 7);
}
END_TEST

/* 9.28 insert over an evicted node: it adopts the caller's pages, which are no
 * duplicates, and keeps its host copy as it was. */
START_TEST(insert_over_an_evicted_node_adopts)
{
    pl_node_t *node = insert("abcd");
    pl_node_t *last;
    pl_page_t saved[4];

    back_up(node);
    memcpy(saved, node->host.pages, sizeof(saved));
    pl_tree_drop_device(tree, node);
    check_tree();
    ck_assert_int_eq(match_in(0, "abcd").n_device, 0);
    ck_assert_int_eq(match_in(0, "abcd").n_total, 4);

    ck_assert_int_eq(insert_in(0, root, "abxy", &last), 0); /* half of it */
    ck_assert_int_eq(match_in(0, "abcd").n_device, 2);
    ck_assert_int_eq(match_in(0, "abcd").n_total, 4);
    ck_assert_mem_eq(node->host.pages, saved + 2, 2 * sizeof(*saved));
    ck_assert_mem_eq(node->parent->host.pages, saved, 2 * sizeof(*saved));
    ck_assert_ptr_eq(node->device, NULL);
}
END_TEST

START_TEST(a_node_without_copies_leaves)
{
    pl_node_t *a = insert("ab");
    pl_node_t *b;

    (void)insert_in(0, a, "cd", &b);
    back_up(a);
    back_up(b);
    pl_tree_drop_device(tree, b);
    pl_tree_drop_device(tree, a);
    pl_tree_drop_host(tree, b);
    check_tree();
    ck_assert_int_eq(pl_tree_n_nodes(tree), 1);
    ck_assert_int_eq(peek("abcd"), 2);
    pl_tree_drop_host(tree, a);
    ck_assert_int_eq(pl_tree_n_nodes(tree), 0);
    ck_assert_int_eq(peek("abcd"), 0);
}
END_TEST

/* ---- references ---- */

static void expect_lanes(int64_t unlocked, int64_t locked)
{
    int64_t u = 0;
    int64_t l = 0;

    for (int lane = 0; lane < N_LANES; lane++) {
        u += pl_tree_unlocked(tree, lane);
        l += pl_tree_locked(tree, lane);
    }
    ck_assert_int_eq(u, unlocked);
    ck_assert_int_eq(l, locked);
}

START_TEST(a_lock_covers_the_path_and_moves_its_pages)
{
    pl_node_t *trunk = insert("abc");
    pl_node_t *left;
    pl_node_t *right;

    (void)insert_in(0, trunk, "de", &left);
    (void)insert_in(0, trunk, "fghi", &right);
    expect_lanes(9, 0);
    pl_tree_lock(tree, left);
    expect_lanes(4, 5);
    pl_tree_lock(tree, right);
    pl_tree_lock(tree, right);
    expect_lanes(0, 9);
    check_tree();
    (void)match_in(0, "abcfg"); /* a split moves nothing */
    expect_lanes(0, 9);
    pl_tree_unlock(tree, left);
    expect_lanes(2, 7);
    pl_tree_unlock(tree, right);
    expect_lanes(2, 7);
    pl_tree_unlock(tree, right);
    expect_lanes(9, 0);
    check_tree();
    ck_assert_int_eq(root->lock_ref, 0);
}
END_TEST

static void expect_order(int which, const char *text)
{
    const pl_node_t *node = pl_tree_first(tree, which);

    for (; *text != '\0'; text++) {
        ck_assert(node != NULL);
        ck_assert_uint_eq(node->keys[0].lo, (uint64_t)*text);
        node = pl_tree_next(tree, which, node);
    }
    ck_assert(node == NULL);
}

/* 9.34 logical clock; ties by id. */
START_TEST(leaves_stand_in_the_order_of_use)
{
    pl_node_t *a = insert("a");
    pl_node_t *b = insert("b");
    pl_node_t *c;

    (void)insert_in(0, b, "c", &c);
    (void)insert("d");
    expect_order(PL_TREE_DEVICE, "acd"); /* b has a child */
    (void)match_in(0, "a");
    expect_order(PL_TREE_DEVICE, "cda");
    pl_tree_lock(tree, c);
    expect_order(PL_TREE_DEVICE, "da");
    pl_tree_unlock(tree, c);
    expect_order(PL_TREE_DEVICE, "cda");

    back_up(a);
    back_up(b);
    back_up(c);
    expect_order(PL_TREE_HOST, "ca"); /* b's copy has one below it */
    pl_tree_pin(tree, c);
    expect_order(PL_TREE_HOST, "a");
    pl_tree_unpin(tree, c);
    pl_tree_drop_device(tree, c);
    expect_order(PL_TREE_DEVICE, "bda"); /* b is a leaf of the device now */
    expect_order(PL_TREE_HOST, "ca");
    pl_tree_drop_host(tree, c);
    expect_order(PL_TREE_HOST, "ba");
    check_tree();
}
END_TEST

START_TEST(use_of_a_prompt_is_use_of_its_whole_path)
{
    pl_node_t *trunk = insert("abc");
    pl_node_t *below;
    uint64_t clock;

    (void)insert_in(0, trunk, "de", &below);
    (void)insert("xyz");
    clock = pl_tree_clock(tree);
    (void)match_in(0, "abcd"); /* splits what is below */
    ck_assert_uint_eq(pl_tree_clock(tree), clock + 1);
    ck_assert_uint_eq(trunk->last_access, clock + 1);
    ck_assert_uint_eq(below->parent->last_access, clock + 1);
    ck_assert_uint_lt(below->last_access, clock); /* not matched */
    (void)insert_in(0, below, "f", &below);
    for (const pl_node_t *node = below; node != root; node = node->parent) {
        ck_assert_uint_eq(node->last_access, clock + 2);
    }
}
END_TEST

START_TEST(after_goes_on_where_a_leaf_was)
{
    uint64_t value = 0;
    int64_t id     = -1;
    int n          = 0;

    for (char c = 'a'; c <= 'z'; c++) {
        char text[2] = {c, '\0'};

        (void)insert(text);
    }
    for (pl_node_t *node = pl_tree_first(tree, PL_TREE_DEVICE); node != NULL;
         node            = pl_tree_after(tree, PL_TREE_DEVICE, value, id)) {
        ck_assert_uint_eq(node->keys[0].lo, (uint64_t)('a' + n));
        value = node->link[PL_TREE_DEVICE].value;
        id    = node->id;
        pl_tree_drop_device(tree, node); /* it is gone */
        n++;
    }
    ck_assert_int_eq(n, 26);
    ck_assert_int_eq(pl_tree_n_nodes(tree), 0);
}
END_TEST

/* Paths are long, and nothing recurses along them. */
START_TEST(deep_paths_are_no_trouble)
{
    enum { DEPTH = 6000 };
    pl_page_key_t *keys = calloc(DEPTH, sizeof(*keys));
    pl_node_t *last     = root;
    pl_match_t match;

    ck_assert(keys != NULL);
    for (int i = 0; i < DEPTH; i++) {
        pl_page_t page = i + 3;
        pl_page_t dup;

        keys[i] = (pl_page_key_t){(uint64_t)i, 5};
        ck_assert_int_eq(
            pl_tree_insert(tree, last, 0, &keys[i], 1, &page, &dup, &last),
            PL_OK);
    }
    ck_assert_int_eq(pl_tree_match(tree, 0, keys, DEPTH, &match), PL_OK);
    ck_assert_int_eq(match.n_device, DEPTH);
    pl_tree_lock(tree, match.last);
    pl_tree_hit(tree, match.last);
    expect_lanes(0, DEPTH);
    pl_tree_unlock(tree, match.last);
    check_tree();
    while (last != root) {
        pl_node_t *parent = last->parent;

        pl_tree_drop_device(tree, last);
        last = parent;
    }
    ck_assert_int_eq(pl_tree_n_nodes(tree), 0);
    free(keys);
}
END_TEST

static pl_status_t count_up(void *context, const pl_node_t *node)
{
    int64_t *last = context;

    ck_assert_int_gt(node->id, *last);
    *last = node->id;
    return node->id == 4 ? PL_REFUSED_SHORT : PL_OK;
}

START_TEST(visit_goes_by_id_and_stops_when_told)
{
    int64_t last = 0;

    (void)insert("abcdef");
    (void)insert("abx");
    (void)insert("q");
    (void)insert("z");
    ck_assert_int_eq(pl_tree_visit(tree, count_up, &last), PL_REFUSED_SHORT);
    ck_assert_int_eq(last, 4);
}
END_TEST

/* The recount is no rubber stamp. */
START_TEST(check_finds_what_is_wrong)
{
    pl_node_t *node = insert("abc");
    pl_node_t *below;

    (void)insert_in(0, node, "de", &below);
    node->n_children++;
    ck_assert_int_eq(pl_tree_check(tree), PL_ERR_INTERNAL);
    node->n_children--;
    below->lock_ref = 1;
    ck_assert_int_eq(pl_tree_check(tree), PL_ERR_INTERNAL);
    below->lock_ref = 0;
    node->device[1] += 1;
    ck_assert_int_eq(pl_tree_check(tree), PL_ERR_INTERNAL);
    node->device[1] -= 1;
    node->keys[1].lo++;
    ck_assert_int_eq(pl_tree_check(tree), PL_ERR_INTERNAL);
    node->keys[1].lo--;
    below->last_access += 5;
    ck_assert_int_eq(pl_tree_check(tree), PL_ERR_INTERNAL);
    below->last_access -= 5;
    node->first_page = 1;
    ck_assert_int_eq(pl_tree_check(tree), PL_ERR_INTERNAL);
    node->first_page = 0;
    ck_assert_int_eq(said.n_lines, 6);
}
END_TEST

static TCase *tree_case(void)
{
    TCase *tcase = tcase_create("tree");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_tree, close_tree);
    tcase_add_test(tcase,
                   match_finds_the_longest_prefix_and_splits_where_it_ends);
    tcase_add_test(tcase, split_and_join_give_the_node);
    tcase_add_test(tcase, peek_leaves_no_trace);
    tcase_add_test(tcase, namespaces_share_nothing);
    tcase_add_test(tcase, insert_returns_what_the_tree_holds);
    tcase_add_test(tcase, insert_over_an_evicted_node_adopts);
    tcase_add_test(tcase, a_node_without_copies_leaves);
    tcase_add_test(tcase, a_lock_covers_the_path_and_moves_its_pages);
    tcase_add_test(tcase, leaves_stand_in_the_order_of_use);
    tcase_add_test(tcase, use_of_a_prompt_is_use_of_its_whole_path);
    tcase_add_test(tcase, after_goes_on_where_a_leaf_was);
    tcase_add_test(tcase, deep_paths_are_no_trouble);
    tcase_add_test(tcase, visit_goes_by_id_and_stops_when_told);
    tcase_add_test(tcase, check_finds_what_is_wrong);
    return tcase;
}

PL_CHECK_MAIN("cache tree", tree_case())
