// What the workers of a job send each other, and how long links take for it.

#ifndef RINGLET_TOOLS_RINGLET_PLAN_WIRE_H_
#define RINGLET_TOOLS_RINGLET_PLAN_WIRE_H_

#include <cstdint>

#include "core/base/json.h"
#include "core/model/model.h"
#include "net/strategy/strategy.h"

namespace ringlet {

struct WireFlags {
  int64_t workers = 1;
  int64_t link = 0;       // bits a second; 0: the usual ones
  double latency_ms = 0;  // of a hop from worker to worker
  double step_ms = 0;     // that a worker computes for a step; 0: not known
};

// Of each worker, on average: around a ring every part but its own is sent
// twice.
struct WirePlan {
  WireFlags flags;
  WireDtype dtype = WireDtype::kFloat32;
  int64_t step_bytes = 0;       // of the gradients of a step …
  int64_t round_steps = 0;      // … and of a round of local updates
  bool measures_steps = false;  // instead: "auto"
  int64_t round_bytes = 0;
  int64_t round_hops = 0;  // from worker to worker, one after another
  bool overlaps = false;   // with the next round's computing
};

// `model` is compiled.
WirePlan PlanWire(const Model& model, const StrategyOptions& strategy,
                  const WireFlags& flags);
// Fields of the object under way.
void WriteWire(const WirePlan& plan, JsonWriter* writer);
void PrintWire(const WirePlan& plan);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_PLAN_WIRE_H_
