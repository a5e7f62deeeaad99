/* comm/peer.h - a communicator whose ranks read each other's pages.
 *
 * It stands on another (local, mpi), which carries all that is said between
 * hosts; only `gather` of regions of kind SHARED is its own: handles to the
 * regions are exchanged once, by expose, and from then on each rank's device
 * reads the pages of its peers straight into its view: pack, exchange and
 * unpack in one pass.  With the cpu device that is shared memory.  Ranks may
 * share a GPU.
 *
 * How a rank knows that its peers' pages are written: each has a word in memory
 * that all can see, the number of gathers that it has come to, and, where work
 * is done beside the host, events (device.h).  A rank marks its event on
 * PL_STREAM_GATHER, then raises its word; a reader waits on the host (with a
 * deadline, asleep, never on the device) until the words of all peers are
 * there, then lets its stream wait for their events.  With `agree` each rank
 * marks that its reading is done, and what it queues afterwards begins after
 * the marks of all.
 */
#ifndef PL_COMM_PEER_H
#define PL_COMM_PEER_H

#include "comm/comm.h"

/* Collective over `base`.  Base and `device`, this rank's, are borrowed: close
 * them after the new communicator, which alone is used until then.
 * PL_ERR_MEMORY, PL_ERR_DEVICE (the device cannot share memory): all ranks
 * agree, and base can still be used; or what base says. */
PL_MUST_CHECK pl_status_t pl_comm_open_peer(pl_comm_t *base,
                                            pl_device_t *device,
                                            pl_comm_t **comm_p);

#endif /* PL_COMM_PEER_H */
