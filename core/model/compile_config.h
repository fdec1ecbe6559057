// CompileConfig: what Compile was asked for and chose, until the next Compile.
//
// Internal to core/.

#ifndef RINGLET_CORE_MODEL_COMPILE_CONFIG_H_
#define RINGLET_CORE_MODEL_COMPILE_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "../base/collective.h"
#include "../base/thread_pool.h"
#include "arrivals.h"
#include "graph.h"
#include "known_speeds.h"
#include "losses.h"
#include "metrics.h"
#include "model.h"
#include "optimizers.h"
#include "replica_range.h"
#include "replica_shares.h"

namespace ringlet {

struct CompileConfig {
  CompileConfig() = default;
  CompileConfig(const CompileConfig&) = delete;
  CompileConfig& operator=(const CompileConfig&) = delete;

  // What is computed of an output.
  struct Output {
    int node = 0;
    bool has_loss = true;
    float weight = 1;
    Loss loss;         // as asked for
    Loss step_loss;    // as computed: on logits where the activation allows
    Loss output_loss;  // of what Model::output() holds
    bool takes_logits = false;
    int64_t first_target = 0, targets = 0;  // of an example's
  };

  // Takes the arguments of Compile as they are.
  void Set(const Optimizer& optimizer, const CompileOptions& options);
  // Sets `replicas`, `shares` and `own`: as this rank asks for, or where that
  // is 0 as the others do, or as many as workers. Every rank calls it, with the
  // nanoseconds that a replica takes it (KnownSpeeds::Of). Elastic jobs
  // deal by these; one who has measured nothing sets `measures_soon`, and
  // counts as it did when it was here before, or as the median of those whose
  // time is known. Where none is known shares are even.
  Status AgreeReplicas(int asked, int64_t nanos = 0);
  // What is not trained is dealt out to all that are there, whoever has which
  // replica.
  ReplicaShares TestShares() const {
    return shares.own() ? ReplicaShares(shares.workers(), replicas) : shares;
  }
  // `asked` by the outputs of the graph: each has its name and its own loss.
  Status SetOutputs(const std::vector<OutputLoss>& asked, const Graph& graph);
  std::vector<bool> Losses() const;  // which outputs have one
  // The arguments are well formed, and the losses fit the graph's outputs, it
  // being complete.
  Status Check(const Graph& graph) const;
  // Makes the pool of options.threads.
  Status MakePool(const std::string& model);
  // Chooses step_loss and output_loss of each.
  void ChooseLosses(const Graph& graph);
  // Sets metrics, metric_names and first_states.
  Status ResolveMetrics(const Graph& graph);
  // Gradients are summed on the integer grid, where there is something to sum.
  bool exact() const {
    return options.reduction == Reduction::kExact && !local();
  }
  // Gradients are not summed, but what rounds of steps have changed.
  bool local() const { return options.local.on(); }
  bool chooses_steps() const {
    return options.local.steps == LocalUpdates::kAutoSteps;
  }
  // A replica is its worker's, and away with it.
  bool owns_replicas() const {
    return options.local.on() && options.local.quorum > 0 &&
           collective->elastic();
  }
  int64_t targets() const {
    return outputs.back().first_target + outputs.back().targets;
  }
  // Those of all the batch's examples for output k.
  const void* TargetsOf(size_t k, const Batch& batch) const {
    const int64_t before = outputs[k].first_target * batch.count;
    return before == 0 ? batch.y : static_cast<const float*>(batch.y) + before;
  }

  // Where each worker has a replica of its own: by its number in the list.
  Status OwnReplicas();
  // By rank: its number in the list, and what it has measured.
  Status DealReplicas(std::vector<int64_t> numbers, std::vector<int64_t> nanos);

  Optimizer optimizer;
  std::vector<OutputLoss> losses;  // by output; metrics as they were resolved
  std::vector<Output> outputs;
  bool takes_logits = false;  // a loss
  // Of all outputs, the weighted ones behind the others; and whose each is.
  std::vector<Metric> metrics;
  std::vector<int> metric_outputs;
  // "loss" first, then those of the outputs where several have one, then the
  // metrics from number `first_metric` on; each name once.
  std::vector<std::string> metric_names;
  size_t first_metric = 1;
  // Where each one's states begin, and behind the last how many there are.
  std::vector<size_t> first_states;
  CompileOptions options;
  std::unique_ptr<ThreadPool> pool;
  SoloCollective solo;
  Collective* collective = &solo;  // never null
  int replicas = 1;                // of the job
  ReplicaShares shares;            // of these, each rank's
  ReplicaRange own;                // and this one's
  KnownSpeeds speeds;              // of the job's workers
  bool dealt_by_speed = false;     // as the ranks met
  bool measures_soon = false;      // how long a replica takes
  Arrivals arrivals;
  int64_t number = 0;        // of this Compile with the collective, from 1
  int64_t chosen_steps = 0;  // of a round; 0: not yet
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_COMPILE_CONFIG_H_
