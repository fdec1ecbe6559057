// RingCollective: the Collective of several worker processes.
//
// Internal to net/. Every worker has a direct connection to every other, or
// beyond 16 workers to the few that it exchanges data with (topology.h); long
// vectors travel around the ring, short ones by the fewest hops. Workers on one
// host talk over a local socket (Linux's abstract AF_UNIX namespace, a name
// derived from the listening address), others over TCP. One thread of its own
// does the network and keeps the connections alive while the caller computes.
//
// A worker that is lost makes every call under way, and every later one, return
// kPeerLost on all the others; the message names rank, address, generation,
// step, phase and cause. A slow worker is waited for. Ranks that make different
// calls get kInvalidArgument, naming both; a rank that loses its patience
// (RingOptions::patience_seconds) aborts with kDeadlineExceeded, naming whom it
// waited for. After any error only Reform and destruction are of use.
//
// The calls of Collective come from one thread at a time. The destructor says
// goodbye, waits for the others to hear it (at most the timeout), and stops the
// thread: a normal end is never seen as a failure.

#ifndef RINGLET_NET_RING_RING_COLLECTIVE_H_
#define RINGLET_NET_RING_RING_COLLECTIVE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../core/base/collective.h"
#include "../../core/base/job_key.h"
#include "../wire/wire_dtype.h"

namespace ringlet {

enum class RingImplementation {
  kAuto,  // by size: up to 8 KiB as kTree, above as kRing
  kRing,  // the fewest bytes
  kTree,  // the fewest hops (recursive doubling)
};

struct RingOptions {
  // Of every worker by rank: "host:port", "1.2.3.4:port" or "[v6]:port". The
  // same list on every worker. This worker listens on its own address only; of
  // a name, on every address that it has here, and where these are loopback
  // addresses and others on another host, on the one by which this host reaches
  // them too, with a warning on stderr.
  std::vector<std::string> addresses;
  int size() const { return static_cast<int>(addresses.size()); }
  int rank = 0;
  // Workers of different jobs refuse each other; at most 256 bytes.
  std::string job = "ringlet";
  // A worker that is silent for longer is lost. Seconds, 0.1 to 3600, the same
  // on every worker.
  double timeout_seconds = 5;
  // How long Open waits for the others.
  double start_timeout_seconds = 120;
  // 0: all workers of the list take part, or none. Else the ring is elastic, of
  // a list of at most 64: so many of them suffice where others are missing, at
  // Open after start_timeout_seconds, at Reform after half of timeout_seconds.
  // The same on every worker.
  int min_workers = 0;
  // How long a call waits for a rank that is there and does not come, say for
  // its callback to return. A wait of more than timeout_seconds is told on
  // stderr, with what that rank does, again and again. 0: for ever.
  double patience_seconds = 3600;
  // All-reduce by; the same on every worker.
  RingImplementation implementation = RingImplementation::kAuto;
  // Collective::bucket_bytes(); the same on every worker.
  int64_t bytes_per_pack = 1 << 20;
  // Not with kTree; the same on every worker.
  WireDtype wire_dtype = WireDtype::kFloat32;
  // Whether workers on one host use a local socket instead of TCP.
  bool local_sockets = true;
  // Whether those share memory, where the system lets them: the socket then
  // only wakes. RINGLET_SHM=0 says no too. Each worker may say what it likes.
  bool shared_memory = true;
  // Of the job; null: none. With keys every connection by TCP is sealed, also
  // of loopback addresses, and only who has one of them takes part. Without,
  // an address that is not loopback is refused.
  std::shared_ptr<const JobKeys> keys;
  // "host:port" of a relay (net/relay), by which alone workers then reach each
  // other: each dials out to it, and none listens. With keys only. "": none.
  std::string relay;
  // Such addresses are taken, and whoever reaches a port may take part.
  bool insecure = false;
};

class RingCollective : public Collective {
 public:
  // Listens, connects to the others and returns when all are there.
  //   kInvalidArgument   the options make no sense, or an address is not of
  //                      this host
  //   kAlreadyExists     the port is in use
  //   kDeadlineExceeded  names the workers that are missing, and why
  //   kPeerLost          another worker was lost meanwhile
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
