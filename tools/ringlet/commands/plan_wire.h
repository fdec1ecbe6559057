// Estimates the bytes between a job's workers, and the time of links for them.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_PLAN_WIRE_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_PLAN_WIRE_H_

#include <cstdint>

#include "core/base/json.h"
#include "ringlet/model.h"
#include "ringlet/strategy.h"

namespace ringlet {

struct WireFlags {
  int64_t workers = 1;
  int64_t link = 0;       // bits a second, 0 for the usual ones
  double latency_ms = 0;  // the latency of a hop between two workers
  double step_ms = 0;     // computing time of a step, 0 if not known
};

// The bytes are what a worker sends on average: in an all-reduce over n workers
// 2 (n - 1) / n of the vector.
struct WirePlan {
  WireFlags flags;
  WireDtype dtype = WireDtype::kFloat32;
  int64_t step_bytes = 0;       // the bytes of a step's gradients
  int64_t round_steps = 0;      // the local steps of a round, 0 without rounds
  bool measures_steps = false;  // instead: "auto"
  int64_t round_bytes = 0;
  int64_t round_hops = 0;  // hops between workers, one after another
  bool overlaps = false;   // it overlaps with the next round's computing
};

// `model` must be compiled.
WirePlan PlanWire(const Model& model, const StrategyOptions& strategy,
                  const WireFlags& flags);
// Writes fields into the open object.
void WriteWire(const WirePlan& plan, JsonWriter* writer);
void PrintWire(const WirePlan& plan);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_PLAN_WIRE_H_
