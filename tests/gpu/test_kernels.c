/* Each CUDA kernel beside its plain C version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

int main(int argc, char **argv)
{
    const char *required = getenv("PAGELANE_REQUIRE_GPU");
    Suite *suite         = suite_create("kernels");
    SRunner *runner      = srunner_create(suite);
    int failed;

    if ((argc == 3) && (strcmp(argv[1], DEVICE_CHILD) == 0)) {
        srunner_free(runner);
        return device_child(argv[2]);
    }
    if (!gpu_is_there()) {
        srunner_free(runner);
        return (required != NULL) && (required[0] == '1') ? EXIT_FAILURE : 77;
    }
    suite_add_tcase(suite, case_pages());
    suite_add_tcase(suite, case_rows());
    suite_add_tcase(suite, case_scores());
    suite_add_tcase(suite, case_topk());
    suite_add_tcase(suite, case_attend());
    suite_add_tcase(suite, case_layers());
    suite_add_tcase(suite, case_grouped());
    suite_add_tcase(suite, case_products());
    suite_add_tcase(suite, case_device());
    suite_add_tcase(suite, case_profile());
    suite_add_tcase(suite, case_forward());
    srunner_set_fork_status(runner, CK_NOFORK); /* one context for all */
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
