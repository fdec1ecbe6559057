// The machines of a simulated job that trains, and the faulty machine.

#ifndef RINGLET_TESTS_NET_RING_SIM_HOST_H_
#define RINGLET_TESTS_NET_RING_SIM_HOST_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "../../support/one_bit_layer.h"
#include "sim_collective.h"
#include "sim_disk.h"

namespace ringlet {
namespace sim {

// A worker's machine, which outlives its processes.
struct Host {
  Host(Network* network, int worker, int bit)
      : disk(network),
        clock(network, worker),
        layer(std::make_shared<OneBitLayer>(bit)) {}
  SimDisk disk;
  SimClock clock;
  std::shared_ptr<OneBitLayer> layer;
  bool done = false;  // the worker has trained to the end
  int due = 0;        // processes that will start later
  // The worker's present process, or its last one.
  std::unique_ptr<SimCollective> process;
  bool alive() const { return process != nullptr && process->alive(); }
  std::vector<int> view;  // the members of the worker's last view
  bool HasInView(int worker) const {
    return std::find(view.begin(), view.end(), worker) != view.end();
  }
};

// The worker with wrong arithmetic from a step on, until its machine is
// replaced. In a view of three or more members only this worker is reported as
// faulty.
struct Wrong {
  int worker = -1;  // -1: no worker is faulty
  int64_t from = 0;
  bool broken = false, was = false;
  // The machine is replaced when this number of its processes were faulty.
  int processes = 0;
  bool alone = false;  // the faulty worker has made a step without the others
  // The last step of the faulty worker, and its number of steps in a row.
  int64_t last = 0, steps = 0;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_HOST_H_
