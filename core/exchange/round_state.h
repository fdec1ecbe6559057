// RoundState: the state of local updates between two rounds, besides weights
// and momentum. With sparse changes it has the error feedback. With overlap it
// has a round's change that is not applied yet, and each replica's first
// weights for the next round.
//
// Each worker has memory for the states of all replicas, and computes the
// states of its own replicas. Gather collects the other states. As a Saveable
// it has all states, by replica and tensor, "optimizer/…".

#ifndef RINGLET_CORE_EXCHANGE_ROUND_STATE_H_
#define RINGLET_CORE_EXCHANGE_ROUND_STATE_H_

#include <cstdint>
#include <vector>

#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "compile_config.h"
#include "ringlet/shape.h"

namespace ringlet {

class RoundState final : public Saveable {
 public:
  // All arguments outlive the RoundState.
  RoundState(const Graph* graph, const CompileConfig* config,
             const ModelMemory* memory)
      : graph_(*graph), config_(*config), memory_(*memory) {}

  // Clears the state at the start of a fit.
  void Reset();
  // True if a round's change is being sent, or is in PersistentSpans::pending.
  bool pending() const { return pending_ != 0; }
  void SetPending(bool pending) { pending_ = pending ? 1 : 0; }
  // The weights from which a replica starts a round; null if no change is
  // pending.
  float* StartWeights(int replica) const;
  // A round has changed this rank's part of the state.
  void MarkChanged() { gathered_ = false; }
  // Brings the state of all replicas to all ranks. Every rank calls it.
  Status Gather();

  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;

 private:
  void AppendErrors(std::vector<StateSpan>* spans);
  void AppendPending(std::vector<StateSpan>* spans);
  void AppendStarts(std::vector<StateSpan>* spans);

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  int64_t pending_ = 0;
  bool gathered_ = true;  // no round since the last Gather, which need not send
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_ROUND_STATE_H_
