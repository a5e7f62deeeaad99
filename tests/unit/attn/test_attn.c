#include "test_attn.h"

#include "support/check_main.h"

PL_CHECK_MAIN("attn", rows_case(), topk_case(), kernels_case(), scores_case(),
              attend_case())
