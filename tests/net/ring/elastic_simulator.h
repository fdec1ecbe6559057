// A whole elastic job in one thread, like the job of simulator.h, with faults
// drawn from a seed. The workers sum integers over the members of their view,
// step by step. They form the next view when a member is lost or a worker
// joins. The properties that must hold are in elastic_simulator.cc, at each
// call of Violated.

#ifndef RINGLET_TESTS_NET_RING_ELASTIC_SIMULATOR_H_
#define RINGLET_TESTS_NET_RING_ELASTIC_SIMULATOR_H_

#include <cstdint>
#include <string>

#include "sim_faults.h"

namespace ringlet {
namespace sim {

struct ElasticReport {
  std::string violation;  // "": all properties held
  int64_t events = 0;
  int64_t virtual_nanos = 0;
  uint32_t trace_digest = 0;  // see Network
  int size = 0;
  FaultCounts faults;
  int views = 0;  // views entered, summed over the workers
  int sums = 0;
  int partial = 0;  // the sums in views without all workers
};
// `large` means 17 to 64 workers.
ElasticReport SimulateElastic(uint64_t seed, bool trace, bool large = false);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_ELASTIC_SIMULATOR_H_
