// RingCollective: the Collective of several worker processes.
//
// A worker is connected to every other worker, or beyond 16 workers to some of
// them (topology.h). Long vectors travel around the ring, short ones by the
// fewest hops. Workers on one host use a local socket (Linux's abstract AF_UNIX
// namespace, a name derived from the listening address), other workers use TCP.
// A thread of the ring does all network work, also while the caller computes.
//
// After a loss each running and later call returns kPeerLost on all other
// ranks. The message has rank, address, generation, step, phase and cause. A
// slow worker is waited for. Ranks that make different calls get
// kInvalidArgument, with both calls. A rank that has waited for
// RingOptions::patience_seconds aborts with kDeadlineExceeded, and names the
// rank that it waited for. After an error only Reform and the destructor have
// an effect.
//
// Call the methods of Collective from one thread at a time. The destructor
// sends a goodbye, waits until the other workers have it (at most the timeout),
// and stops the thread. So a normal end is never seen as a failure.

#ifndef RINGLET_NET_RING_RING_COLLECTIVE_H_
#define RINGLET_NET_RING_RING_COLLECTIVE_H_

#include <memory>
#include <utility>

#include "../cluster/ring_options.h"
#include "ringlet/collective.h"

namespace ringlet {

class RingCollective : public Collective {
 public:
  // Listens, connects to the other workers, and returns when all are connected.
  //   kInvalidArgument   the options are wrong, or this worker's address is not
  //                      of this host; an elastic ring waits until it is
  //   kAlreadyExists     the port is in use
  //   kDeadlineExceeded  names the workers that are missing, and why
  //   kPeerLost          another worker was lost meanwhile
  // Reform waits up to start_timeout_seconds for the worker's own address: it
  // may be gone with the network, its name may not resolve, or its port may be
  // in use.
  static Status Open(const RingOptions& options,
                     std::unique_ptr<RingCollective>* out);
  static Status Open(const RingOptions& options,
                     std::unique_ptr<Collective>* out) {
    std::unique_ptr<RingCollective> ring;
    RINGLET_RETURN_IF_ERROR(Open(options, &ring));
    *out = std::move(ring);
    return Status();
  }
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_COLLECTIVE_H_
