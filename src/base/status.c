#include <pagelane/status.h>

const char *pl_status_text(pl_status_t status)
{
    switch (status) {
#define PL_STATUS_TEXT(name, value, text, exit_status)                         \
    case name:                                                                 \
        return text;
        PL_STATUS_LIST(PL_STATUS_TEXT)
#undef PL_STATUS_TEXT
    }
    return "unknown status";
}

int pl_status_exit(pl_status_t status)
{
    switch (status) {
#define PL_STATUS_EXIT(name, value, text, exit_status)                         \
    case name:                                                                 \
        return exit_status;
        PL_STATUS_LIST(PL_STATUS_EXIT)
#undef PL_STATUS_EXIT
    }
    return 5;
}
