/* pagelane/version.h - which libpagelane this is. */
#ifndef PAGELANE_VERSION_H
#define PAGELANE_VERSION_H

#include <pagelane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0"; static storage, like all that follows. */
PL_API const char *pl_version(void);

/* The commit it was built from: "1a2b3c4", "1a2b3c4-dirty" or "unknown". */
PL_API const char *pl_version_commit(void);

/* What it was built with, one "name version" a line. */
PL_API const char *pl_version_built_with(void);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_VERSION_H */
