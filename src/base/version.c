#include <pagelane/version.h>

#include "pl_build.h"  /* generated when configured */
#include "pl_commit.h" /* generated when built */

const char *pl_version(void)
{
    return PL_BUILD_VERSION;
}

const char *pl_version_commit(void)
{
    return PL_BUILD_COMMIT;
}

const char *pl_version_built_with(void)
{
    return PL_BUILD_WITH;
}
