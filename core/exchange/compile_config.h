// CompileConfig: the arguments of Compile and the choices that follow from
// them.
//
// Each Compile replaces it.

#ifndef RINGLET_CORE_EXCHANGE_COMPILE_CONFIG_H_
#define RINGLET_CORE_EXCHANGE_COMPILE_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "../base/solo_collective.h"
#include "../graph/graph.h"
#include "availability.h"
#include "job_replicas.h"
#include "joining_members.h"
#include "ringlet/collective.h"
#include "ringlet/compute.h"
#include "ringlet/losses.h"
#include "ringlet/metrics.h"
#include "ringlet/model.h"
#include "ringlet/optimizers.h"

namespace ringlet {

struct CompileConfig {
  CompileConfig() = default;
  CompileConfig(const CompileConfig&) = delete;
  CompileConfig& operator=(const CompileConfig&) = delete;

  // One output of the model, and its loss.
  struct Output {
    int node = 0;
    bool has_loss = true;
    float weight = 1;
    Loss loss;                  // the loss as given to Compile
    Loss step_loss;             // the loss in a step; on logits if possible
    Loss output_loss;           // the loss of the values of Model::output()
    bool takes_logits = false;  // step_loss takes logits
    int64_t first_target = 0, targets = 0;  // targets in one example
  };

  // Stores the arguments of Compile unchanged.
  void Set(const Optimizer& optimizer, const CompileOptions& options);
  // Agrees with the other ranks on the number of replicas and assigns them.
  // Every rank calls it.
  Status AgreeReplicas(int requested, int64_t nanos = 0);
  // Matches `output_losses` to the graph's outputs. Each then has its name and
  // its own loss.
  Status SetOutputs(const std::vector<OutputLoss>& output_losses,
                    const Graph& graph);
  std::vector<bool> Losses() const;  // true for each output that has a loss
  // Checks that the arguments are well formed, and that the losses fit the
  // outputs of the complete graph.
  Status Check(const Graph& graph) const;
  // Makes the thread pool of options.threads.
  Status MakePool(const std::string& model);
  // Chooses step_loss and output_loss of each output.
  void ChooseLosses(const Graph& graph);
  // Warns once in a process, when the model begins to train.
  void WarnOfLinearOutputs(const Graph& graph) const;
  // Sets metrics, metric_names and first_states.
  Status ResolveMetrics(const Graph& graph);
  // True if sums of gradients are made on the integer grid.
  bool exact() const {
    return options.reduction == Reduction::kExact && !local();
  }
  // True if the job averages the changes of rounds in the place of gradients.
  bool local() const { return options.local.enabled(); }
  bool chooses_steps() const {
    return options.local.steps == LocalUpdates::kAutoSteps;
  }
  // True if each worker owns a replica, which is absent while the worker is
  // lost.
  bool owns_replicas() const {
    return options.local.enabled() && options.local.quorum > 0 &&
           collective->elastic();
  }
  int64_t targets() const {
    return outputs.back().first_target + outputs.back().targets;
  }
  // The targets of all examples of the batch for output k.
  const void* TargetsOf(size_t k, const Batch& batch) const {
    const int64_t before = outputs[k].first_target * batch.count;
    return before == 0 ? batch.y : static_cast<const float*>(batch.y) + before;
  }

  Optimizer optimizer;
  // The loss of each output, with resolved metrics.
  std::vector<OutputLoss> losses;
  std::vector<Output> outputs;
  bool takes_logits = false;  // a step_loss takes logits
  // The metrics of all outputs, with the weighted metrics last, and the output
  // of each metric.
  std::vector<Metric> metrics;
  std::vector<int> metric_outputs;
  // "loss" first, then the losses of the outputs if several have one, then the
  // metrics, from index `first_metric` on. Names are unique.
  std::vector<std::string> metric_names;
  size_t first_metric = 1;
  // The index of each metric's first state. The last element is the number of
  // states.
  std::vector<size_t> first_states;
  CompileOptions options;
  Availability availability;  // null if all take part
  std::unique_ptr<ThreadPool> pool;
  SoloCollective solo;
  Collective* collective = &solo;  // never null
  JobReplicas job_replicas;
  JoiningMembers joining;
  int64_t number = 0;  // the number of this Compile with the collective, from 1
  int64_t chosen_steps = 0;  // steps of a round; zero if not chosen yet
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_COMPILE_CONFIG_H_
