// Replicas: that all ranks have the same model, and whose state they begin
// with.
//
// Internal to core/. Every rank calls the same function.

#ifndef RINGLET_CORE_MODEL_REPLICAS_H_
#define RINGLET_CORE_MODEL_REPLICAS_H_

#include <cstdint>

#include "../base/status.h"
#include "compile_config.h"
#include "fingerprint.h"
#include "graph.h"
#include "model_memory.h"
#include "updater.h"

namespace ringlet {

class Replicas {
 public:
  // All outlive it.
  Replicas(const Graph* graph, const CompileConfig* config,
           const ModelMemory* memory, Updater* updater)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater) {}

  // Compares the ranks' models, and gives all of them the state of one: of
  // those that `lived` through a loss the one that has made most steps, else
  // rank 0's.
  Status Join(bool lived);
  // kOutOfSync where the ranks' states differ.
  Status Check() const;

 private:
  Fingerprint MakeFingerprint() const;
  Status CompareArithmetic() const;
  int64_t Age(bool lived) const;
  Status CheckWhole(int64_t oldest) const;
  uint32_t SlotsDigest(uint32_t digest) const;
  Status TakeStateOf(int root, bool with_optimizer);

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  Updater& updater_;
  bool torn_ = false;  // another rank's state has arrived in part only
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICAS_H_
