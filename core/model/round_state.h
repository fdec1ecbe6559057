// RoundState: what of local updates is between two rounds besides weights and
// momentum: the error feedback of sparse changes; with overlap a round's change
// that is not applied yet, and the weights with which each replica begins the
// next one.
//
// Internal to core/. Each worker has place for the error feedback and weights
// of all replicas, and keeps those of its own; Gather brings the others' to it,
// and then the state is whole: the same on all ranks. It is whole too as a fit
// begins and, without error feedback, where an epoch has ended. As a Saveable
// it is all of it, by replica and tensor, "optimizer/…".

#ifndef RINGLET_CORE_MODEL_ROUND_STATE_H_
#define RINGLET_CORE_MODEL_ROUND_STATE_H_

#include <cstdint>
#include <vector>

#include "../base/saveable.h"
#include "compile_config.h"
#include "graph.h"
#include "model_memory.h"
#include "replica_shares.h"

namespace ringlet {

class RoundState final : public Saveable {
 public:
  // All outlive it.
  RoundState(const Graph* graph, const CompileConfig* config,
             const ModelMemory* memory)
      : graph_(*graph), config_(*config), memory_(*memory) {}

  // As a fit begins: there is none.
  void Reset();
  // A round's change travels, or lies in KeptSpans::pending.
  bool pending() const { return pending_ != 0; }
  void SetPending(bool pending) { pending_ = pending ? 1 : 0; }
  // Where a replica begins; null: with the weights of all.
  float* StartOf(int replica) const;
  // A round changes what this rank has of its replicas.
  void Scatter() {
    whole_ = false;
    ++rounds_;
  }
  bool whole() const { return whole_; }
  // An epoch has ended, with nothing under way.
  void EndEpoch();
  // Every rank calls it. With `next`, what the replicas are dealt out to from
  // now on, only what these need goes to them, and the state is not whole.
  Status Gather(const ReplicaShares* next = nullptr);
  // So many rounds were made since the state was whole that a Gather adds no
  // more than a quarter to what they have sent; the same on all ranks.
  bool GatherIsDue() const;
  // Of all of it.
  uint64_t Digest() const;

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
  bool whole_ = true;
  int64_t rounds_ = 0;  // since it was whole
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_ROUND_STATE_H_
