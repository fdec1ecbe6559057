// RingOptions: the workers of a ring, and how they are connected.

#ifndef RINGLET_NET_CLUSTER_RING_OPTIONS_H_
#define RINGLET_NET_CLUSTER_RING_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/job_key.h"
#include "ringlet/collective.h"

namespace ringlet {

enum class RingImplementation {
  kAuto,  // by size: up to 8 KiB as kTree, above as kRing
  kRing,  // the fewest bytes
  kTree,  // the fewest hops (recursive doubling)
};

// The range of RingOptions::timeout_seconds.
constexpr double kMinTimeoutSeconds = 0.1, kMaxTimeoutSeconds = 3600;

struct RingOptions {
  // The address of every worker, in the order of the list: "host:port",
  // "1.2.3.4:port" or
  // "[v6]:port". The same list on every worker. This worker listens only on its
  // own address. If that is a name, it listens on every address of the name on
  // this host. These may be loopback addresses while other workers are on other
  // hosts. Then it also listens on this host's address on the route to them,
  // and prints a warning. It tries again until there is such a route.
  std::vector<std::string> addresses;
  int size() const { return static_cast<int>(addresses.size()); }
  int worker = 0;
  // Workers of different jobs refuse each other; at most 256 bytes.
  std::string job = "ringlet";
  // A worker that is silent for longer is lost. Seconds, 0.1 to 3600, the same
  // on every worker.
  double timeout_seconds = 5;
  // How long Open waits for the other workers.
  double start_timeout_seconds = 120;
  // If zero, the ring needs all workers of the list. Otherwise the ring is
  // elastic, with a list of at most 64, and needs this many workers. It forms
  // without missing workers in Open after start_timeout_seconds, and in Reform
  // after half of timeout_seconds. The same on every worker.
  int min_workers = 0;
  // The longest wait of a call for a connected rank that has not made the same
  // call, for example because its callback has not returned. During a wait of
  // more than timeout_seconds, lines on stderr report that rank's activity. 0:
  // no limit.
  double patience_seconds = 3600;
  // The algorithm of all-reduce; the same on every worker.
  RingImplementation implementation = RingImplementation::kAuto;
  // Collective::bucket_bytes(); the same on every worker.
  int64_t bytes_per_pack = 1 << 20;
  // The type of floats in messages; the same on every worker. Not with kTree.
  WireDtype wire_dtype = WireDtype::kFloat32;
  // Workers on one host use a local socket instead of TCP.
  bool local_sockets = true;
  // Workers on one host share memory if the system allows it. The socket then
  // only wakes the other worker. RINGLET_SHM=0 turns this off too. Workers may
  // differ in this option.
  bool shared_memory = true;
  // The job's keys; null if there are none. With keys every connection by TCP
  // is sealed, also between loopback addresses, and a worker needs one of the
  // keys. Without keys, an address that is not loopback is refused.
  std::shared_ptr<const JobKeys> keys;
  // "host:port" of a relay (net/relay). All workers then connect to it and
  // reach each other only through it, and none listens. Needs keys. Empty
  // without a relay.
  std::string relay;
  // Allows addresses that are not loopback without keys. Any program that
  // reaches a port may then take part.
  bool insecure = false;
};

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_RING_OPTIONS_H_
