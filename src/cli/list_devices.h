/* cli/list_devices.h - the table of `pagelane --list-devices`. */
#ifndef PL_CLI_LIST_DEVICES_H
#define PL_CLI_LIST_DEVICES_H

/* The exit status. */
int pl_cli_list_devices(void);

#endif /* PL_CLI_LIST_DEVICES_H */
