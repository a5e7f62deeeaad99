/* --inject: what a text means, and when a point fires. */
#include "verify/inject.h"

#include <string.h>

#include "support/check_main.h"
#include "support/log_capture.h"

static pl_inject_t parsed(const char *text)
{
    pl_inject_t inject = {0};

    ck_assert_msg(pl_inject_parse(&inject, text, NULL) == PL_OK, "%s", text);
    return inject;
}

static bool hit(pl_inject_t *inject, pl_inject_point_t point, int rank,
                int64_t tick)
{
    return pl_inject_hit(inject, point, rank, tick);
}

START_TEST(every_text_names_its_point)
{
    static const struct {
        const char *text;
        pl_inject_point_t point;
    } cases[] = {
        {"load.alloc=plain", PL_INJECT_LOAD_ALLOC_PLAIN},
        {"load.alloc", PL_INJECT_LOAD_ALLOC_PLAIN},
        {"write.owner=shift", PL_INJECT_WRITE_OWNER_SHIFT},
        {"split.during-write", PL_INJECT_SPLIT_DURING_WRITE},
        {"load.delay", PL_INJECT_LOAD_DELAY},
        {"load.fail", PL_INJECT_LOAD_FAIL},
        {"host.alloc=fail", PL_INJECT_HOST_ALLOC_FAIL},
        {"flip=device", PL_INJECT_FLIP_DEVICE},
        {"flip=host", PL_INJECT_FLIP_HOST},
        {"flip=transfer", PL_INJECT_FLIP_TRANSFER},
        {"transfer.abort", PL_INJECT_TRANSFER_ABORT},
        {"backup.fail", PL_INJECT_BACKUP_FAIL},
        {"store.fail", PL_INJECT_STORE_FAIL},
        {"fetch.fail", PL_INJECT_FETCH_FAIL},
        {"flip=storage", PL_INJECT_FLIP_STORAGE},
        {"die=backup", PL_INJECT_DIE_BACKUP},
        {"die=store", PL_INJECT_DIE_STORE},
        {"die=store-sync", PL_INJECT_DIE_STORE_SYNC},
        {"die=publish", PL_INJECT_DIE_PUBLISH},
        {"die=publish-sync", PL_INJECT_DIE_PUBLISH_SYNC},
        {"die=publish-rename", PL_INJECT_DIE_PUBLISH_RENAME},
        {"die=publish-folder", PL_INJECT_DIE_PUBLISH_FOLDER},
        {"die=published", PL_INJECT_DIE_PUBLISHED},
        {"file=fail", PL_INJECT_FILE_FAIL},
        {"file=short", PL_INJECT_FILE_SHORT},
        {"file=lost", PL_INJECT_FILE_LOST},
        {"disk=full", PL_INJECT_DISK_FULL},
        {"rank.die", PL_INJECT_RANK_DIE},
        {"rank.stall", PL_INJECT_RANK_STALL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pl_inject_t inject = parsed(cases[i].text);

        for (int p = 0; p < PL_INJECT_POINTS; p++) {
            ck_assert_int_eq(inject.rules[p].active, p == (int)cases[i].point);
            ck_assert_int_eq(hit(&inject, (pl_inject_point_t)p, 0, 1),
                             p == (int)cases[i].point);
        }
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = strcspn(cases[i].text, "=");
        char name[32];

        memcpy(name, cases[i].text, n);
        name[n] = '\0';
        ck_assert_msg(strstr(pl_inject_help(), name) != NULL, "%s", name);
    }
}
END_TEST

/* All copies of a rule tell one word. */
START_TEST(what_has_happened_is_known)
{
    atomic_uint_fast64_t happened = 0;
    pl_inject_t inject            = parsed("store.fail@rank:1,count:2");
    pl_inject_t copies[2];

    inject.happened = &happened;
    copies[0]       = inject;
    copies[1]       = inject;
    ck_assert(!hit(&copies[1], PL_INJECT_STORE_FAIL, 1, 0));
    ck_assert(!hit(&copies[0], PL_INJECT_STORE_FAIL, 0, 0));
    ck_assert_uint_eq(atomic_load(&happened), 0);
    ck_assert(hit(&copies[1], PL_INJECT_STORE_FAIL, 1, 0));
    ck_assert_uint_eq(atomic_load(&happened), UINT64_C(1)
                                                  << PL_INJECT_STORE_FAIL);
}
END_TEST

START_TEST(bad_texts_are_refused_with_one_line)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "no such point"},
        {"load", "no such point"},
        {"load.alloc=", "no such point"},
        {"load.alloc=fancy", "no such point"},
        {"flip", "no such point"},
        {"flip=moon", "no such point"},
        {"rank", "no such point"},
        {"load.fail@", "is no time"},
        {"load.fail@soon", "is no time"},
        {"load.fail@count:0", "is no time"},
        {"load.fail@count:", "is no time"},
        {"load.fail@rank:-1", "is no time"},
        {"load.fail@rank:99999999999", "is no time"},
        {"load.fail@tick:1,", "is no time"},
        {"load.fail@tick:99999999999999999999", "is no time"},
        {"write.owner=shift@rank:1", "same on all ranks"},
        {"flip=storage@tick:1", "knows no ticks"},
        {"die=publish@rank:0,tick:7", "knows no ticks"},
        {"file=lost@tick:7", "knows no ticks"},
        {"disk=full@tick:7", "knows no ticks"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pl_inject_t inject = {0};
        log_capture_t said;

        log_capture_open(&said);
        ck_assert_msg(pl_inject_parse(&inject, cases[i].text, &said.log) ==
                          PL_ERR_ARGUMENT,
                      "%s", cases[i].text);
        ck_assert_int_eq(said.n_lines, 1);
        ck_assert_msg(strstr(said.text, cases[i].word) != NULL, "%s",
                      said.text);
        for (int p = 0; p < PL_INJECT_POINTS; p++) {
            ck_assert(!inject.rules[p].active);
        }
        log_capture_close(&said);
    }
}
END_TEST

START_TEST(a_point_fires_when_it_is_told_to)
{
    pl_inject_t inject = parsed("backup.fail@rank:2,count:3,tick:10");
    int n              = 0;

    for (int i = 0; i < 5; i++) {
        ck_assert(!hit(&inject, PL_INJECT_BACKUP_FAIL, 2, 9)); /* too early */
        ck_assert(!hit(&inject, PL_INJECT_BACKUP_FAIL, 1, 10));
    }
    for (int i = 1; i <= 5; i++) {
        ck_assert_int_eq(hit(&inject, PL_INJECT_BACKUP_FAIL, 2, 10), i == 3);
    }
    inject = parsed("load.alloc=plain"); /* every time, by default */
    for (int i = 0; i < 4; i++) {
        n += hit(&inject, PL_INJECT_LOAD_ALLOC_PLAIN, 0, i);
    }
    ck_assert_int_eq(n, 4);
    inject = parsed("load.alloc=plain@count:2"); /* once, the second time */
    for (int i = 1; i <= 4; i++) {
        ck_assert_int_eq(hit(&inject, PL_INJECT_LOAD_ALLOC_PLAIN, 0, i),
                         i == 2);
    }
    inject = parsed("flip=host"); /* once, on the first rank that can */
    ck_assert(!hit(&inject, PL_INJECT_FLIP_HOST, 1, 1));
    ck_assert(hit(&inject, PL_INJECT_FLIP_HOST, 0, 1));
    ck_assert(!hit(&inject, PL_INJECT_FLIP_HOST, 0, 1));
    ck_assert(!pl_inject_hit(NULL, PL_INJECT_FLIP_HOST, 0, 1));
}
END_TEST

static TCase *inject_case(void)
{
    TCase *tcase = tcase_create("inject");

    tcase_add_test(tcase, every_text_names_its_point);
    tcase_add_test(tcase, what_has_happened_is_known);
    tcase_add_test(tcase, bad_texts_are_refused_with_one_line);
    tcase_add_test(tcase, a_point_fires_when_it_is_told_to);
    return tcase;
}

PL_CHECK_MAIN("inject", inject_case())
