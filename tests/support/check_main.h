/* support/check_main.h - the main() of a Check program.
 *
 * PL_CHECK_MAIN("name", case_a(), case_b()) runs the test cases; the exit
 * status is 0 if all passed.
 */
#ifndef PL_TESTS_CHECK_MAIN_H
#define PL_TESTS_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

#define PL_CHECK_MAIN(name, ...)                                               \
    int main(void)                                                             \
    {                                                                          \
        TCase *cases[]  = {__VA_ARGS__};                                       \
        Suite *suite    = suite_create(name);                                  \
        SRunner *runner = NULL;                                                \
        int failed      = 0;                                                   \
                                                                               \
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {        \
            suite_add_tcase(suite, cases[i]);                                  \
        }                                                                      \
        runner = srunner_create(suite);                                        \
        srunner_run_all(runner, CK_NORMAL);                                    \
        failed = srunner_ntests_failed(runner);                                \
        srunner_free(runner);                                                  \
        return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;                      \
    }

#endif /* PL_TESTS_CHECK_MAIN_H */
