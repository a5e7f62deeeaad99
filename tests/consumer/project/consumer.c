/* Needs nothing but the installed package: neither MPI nor HDF5. */
#include <stdio.h>

#include <pagelane/layout.h>
#include <pagelane/version.h>

int main(void)
{
    pl_owner_t owners[3];
    pl_ownership_t rule = {PL_OWNERSHIP_ZIGZAG, 0};

    pl_compute_owners(rule, 4, 0, 3, 0, owners);
    printf("pagelane %s: %d %d %d\n", pl_version(), owners[0], owners[1],
           owners[2]);
    return (owners[0] == 0) && (owners[1] == 1) && (owners[2] == 2) ? 0 : 1;
}
