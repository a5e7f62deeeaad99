#include "test_model_ops.h"

#include "support/check_main.h"

PL_CHECK_MAIN("model_ops", linear_case(), norms_case(), rope_case(), moe_case())
