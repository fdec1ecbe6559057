// A whole job in one thread: sessions, failure detectors and schedules of all
// ranks over real frames, in virtual time, with faults drawn from a seed.
//
// Every rank makes the same list of calls. Whoever fails lets go of the
// ring and forms it anew, whoever was killed starts again, and whoever had
// finished goes again with them, until a ring has carried the whole list. What
// must hold on every seed is in simulator.cc, at each call of Violated.

#ifndef RINGLET_TESTS_NET_RING_SIMULATOR_H_
#define RINGLET_TESTS_NET_RING_SIMULATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/ring/session.h"
#include "sim_network.h"

namespace ringlet {
namespace sim {

enum class Scenario {
  kCalm,      // nothing goes wrong
  kSlow,      // long ways, short stalls, slow callers: nobody may be lost
  kFaults,    // cuts, crashes, partitions, stalls; the ring forms anew
  kForming,   // the same, just when the first ranks are in a ring
  kAbort,     // one rank gives up: all hear of it
  kWithdraw,  // one rank cannot take part: all hear of it
};
const char* ScenarioName(Scenario scenario);

struct Options {
  uint64_t seed = 0;
  Scenario scenario = Scenario::kCalm;
  int size = 3;
  bool all_calls = false;  // not only all-reduces
  bool at_once = false;    // all start within a few milliseconds
  bool sealed = false;     // by a key, but for local sockets
  bool trace = false;      // to stdout
};
// All of it drawn from the seed.
Options OptionsOfSeed(uint64_t seed);
// The same in rings where not every pair is linked.
Options LargeOptionsOfSeed(uint64_t seed);

struct Report {
  std::string violation;  // "": all properties held
  int64_t events = 0;
  int64_t virtual_nanos = 0;
  uint32_t trace_digest = 0;  // see Network
  int64_t formed_nanos = 0;   // when the last rank was in its last ring
  int faults = 0;
  int failures = 0;  // calls that ended with an error, as they should
  int reforms = 0;
};
Report Simulate(const Options& options);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIMULATOR_H_
