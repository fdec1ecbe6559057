// A whole job in one thread: sessions, failure detectors and schedules of all
// ranks over real frames, in virtual time, with faults drawn from a seed.
//
// Every rank makes the same list of calls. A rank that fails leaves the ring
// and forms it again. A killed rank restarts, and a rank that had finished
// starts again with it. The job ends when a ring has carried the whole list.
// The properties that must hold for every seed are in simulator.cc, at each
// call of Violated.

#ifndef RINGLET_TESTS_NET_RING_SIMULATOR_H_
#define RINGLET_TESTS_NET_RING_SIMULATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/membership/session.h"
#include "sim_network.h"

namespace ringlet {
namespace sim {

enum class Scenario {
  kCalm,      // nothing goes wrong
  kSlow,      // high latency, short stalls, slow callers: no rank is lost
  kFaults,    // cuts, crashes, partitions, stalls; the ring forms again
  kForming,   // faults when the first ranks are in a ring
  kAbort,     // one rank aborts: all get the reason
  kWithdraw,  // one rank cannot take part: all get the reason
};
const char* ScenarioName(Scenario scenario);

struct Options {
  uint64_t seed = 0;
  Scenario scenario = Scenario::kCalm;
  int size = 3;
  bool all_calls = false;  // also barriers, gathers and broadcasts
  bool at_once = false;    // all ranks start within a few milliseconds
  bool sealed = false;     // the job has a key, except on local sockets
  bool trace = false;      // prints the events to stdout
};
// Draws all options from the seed.
Options OptionsOfSeed(uint64_t seed);
// The same for 17 to 100 ranks, of which not every pair is linked.
Options LargeOptionsOfSeed(uint64_t seed);

struct Report {
  std::string violation;  // "": all properties held
  int64_t events = 0;
  int64_t virtual_nanos = 0;
  uint32_t trace_digest = 0;  // see Network
  int64_t formed_nanos = 0;   // the last time that a rank entered a ring
  int faults = 0;
  int failures = 0;  // calls that ended with an error, as they should
  int reforms = 0;
};
Report Simulate(const Options& options);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIMULATOR_H_
