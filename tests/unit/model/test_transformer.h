#ifndef PL_TESTS_TRANSFORMER_H
#define PL_TESTS_TRANSFORMER_H

#include <check.h>

TCase *transformer_laws_case(void);
TCase *transformer_reference_case(void);

#endif /* PL_TESTS_TRANSFORMER_H */
