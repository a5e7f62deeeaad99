#include "cache/policy.h"

#include <stddef.h>
#include <string.h>

/* A new policy is one more file and one line here. */
static const pl_policy_ops_t *const policies[] = {
    &pl_policy_lru,        &pl_policy_lfu,    &pl_policy_slru,
    &pl_policy_fifo,       &pl_policy_s3fifo, &pl_policy_sieve,
    &pl_policy_lane_aware, &pl_policy_belady,
};

enum { N_POLICIES = sizeof(policies) / sizeof(policies[0]) };

const pl_policy_ops_t *pl_policy_at(int i)
{
    return (i >= 0) && (i < N_POLICIES) ? policies[i] : NULL;
}

const pl_policy_ops_t *pl_policy_find(const char *name)
{
    for (int i = 0; i < N_POLICIES; i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}
