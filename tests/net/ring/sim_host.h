// What the simulation of a job that trains knows of its workers: their
// machines, and the one that computes wrong.

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
  bool done = false;  // it has trained to the end
  int due = 0;        // processes that are still to begin
  // Its present process, or the last one.
  std::unique_ptr<SimCollective> process;
  bool alive() const { return process != nullptr && process->alive(); }
  // Of the process: whom it has met last; whether it has trained, and with
  // these; whether what it goes back to was compared with the wrong one; and
  // whether it has heard of that one then, or was with one that has.
  std::vector<int> view;
  bool lived = false, trains = false, witness = false, knows = false;
  bool with_knower = false;
  // It has the wrong one's numbers, and has met nobody who knows since; nor had
  // it as it saved (docs/membership.md).
  bool spoiled = false, with_spoiled = false, saved_spoiled = false;
  void Starts() { lived = trains = witness = knows = spoiled = false; }
  void Met(const std::vector<int>& members, int wrong, bool knower,
           bool spoils) {
    view = members;
    with_knower = knower;
    with_spoiled = spoils;
    trains = false;
    witness &= Meets(wrong);  // they compare first
  }
  void Trains(int wrong) {
    knows |= with_knower;
    spoiled = !knows && (spoiled || with_spoiled);
    if (!trains) witness = Meets(wrong);
    lived = trains = true;
  }
  bool Meets(int worker) const {
    return std::find(view.begin(), view.end(), worker) != view.end();
  }
};

// The worker whose arithmetic is wrong from a step on, until its machine is
// exchanged. With three or more in a view it alone is named.
struct Wrong {
  int worker = -1;  // none
  int64_t from = 0;
  bool broken = false, was = false;
  int lives = 0;  // when it was named in so many, it is exchanged
  // It has added to a step, and nobody has compared since.
  bool unproven = false;
  // It was gone before anybody did, or all stopped with it, but for those who
  // were elsewhere: its numbers may stay (docs/membership.md).
  bool unnoticed = false;
  int64_t last = 0, steps = 0;  // it has made in a row, broken
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_HOST_H_
