// Availability: which replicas can take part in a round of local updates.
//
// In a job a replica is available while its worker is a member. Tests simulate
// workers that leave and join, in one process.

#ifndef RINGLET_CORE_EXCHANGE_AVAILABILITY_H_
#define RINGLET_CORE_EXCHANGE_AVAILABILITY_H_

#include <cstdint>
#include <functional>

namespace ringlet {

class Model;

enum class Presence : uint8_t {
  kPresent,
  kLate,    // sampled and expected, but too late for the round's mean
  kAbsent,  // not sampled; another replica takes its place
};

// Returns the presence of a replica in the round that begins after `step` steps
// of the run. It returns the same on all ranks and in every call. If no replica
// is present and no quorum is set, the round changes nothing.
using Availability = std::function<Presence(int64_t step, int replica)>;

// For tests. The next fits of `model` sample their rounds from these replicas.
class SimulatedReplicas {
 public:
  static void Set(Availability availability, Model* model);
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_AVAILABILITY_H_
