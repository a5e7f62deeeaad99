#include "cache/policy.h"

#include <stddef.h>
#include <string.h>

/* A new policy is one more file and one line here. */
static const pl_policy_ops_t *const policies[] = {
    &pl_policy_lru,
};

const pl_policy_ops_t *pl_policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}
