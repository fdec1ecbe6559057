// A whole elastic job that trains, in virtual time, with faults drawn from a
// seed. Several workers run the shipped Fit over the shipped sessions, views
// and schedule (sim_collective.h), on the simulated network. The shipped
// backups are on simulated disks. The properties that must hold are in
// training_simulator.cc, at each call of Violated.

#ifndef RINGLET_TESTS_NET_RING_TRAINING_SIMULATOR_H_
#define RINGLET_TESTS_NET_RING_TRAINING_SIMULATOR_H_

#include <cstdint>
#include <string>

#include "sim_faults.h"

namespace ringlet {
namespace sim {

struct TrainingReport {
  std::string violation;  // "": all properties held
  uint64_t trace = 0;     // a digest of all lines of the trace
  int64_t events = 0;
  int64_t virtual_nanos = 0;
  int workers = 0;
  FaultCounts faults;
  int views = 0;     // views entered, summed over the workers
  int steps = 0;     // the steps of all workers, with repeated ones
  int finished = 0;  // workers that have trained to the end
  int resumed = 0;   // times that a worker resumed from a backup
  int named = 0;     // times that a check found the faulty worker
  int alone = 0;     // 1: the faulty worker has trained alone
};
TrainingReport SimulateTraining(uint64_t seed, bool trace);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_TRAINING_SIMULATOR_H_
