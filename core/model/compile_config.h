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
#include "graph.h"
#include "losses.h"
#include "metrics.h"
#include "model.h"
#include "optimizers.h"

namespace ringlet {

struct CompileConfig {
  CompileConfig() = default;
  CompileConfig(const CompileConfig&) = delete;
  CompileConfig& operator=(const CompileConfig&) = delete;

  // Takes the arguments of Compile as they are.
  void Set(const Optimizer& optimizer, const Loss& loss,
           const CompileOptions& options);
  // The arguments are well formed, and the loss fits the graph's output, which
  // is complete.
  Status Check(const Graph& graph) const;
  // Makes the pool of options.threads.
  Status MakePool(const std::string& model);
  // Chooses step_loss and output_loss.
  void ChooseLoss(const Graph& graph);
  // Sets metrics and metric_names.
  Status ResolveMetrics(const std::vector<Metric>& asked, const Shape& output);

  Optimizer optimizer;
  Loss loss;         // as asked for
  Loss step_loss;    // as computed: on logits where the last activation allows
  Loss output_loss;  // of what Model::output() holds
  bool loss_takes_logits = false;
  std::vector<Metric> metrics;            // resolved
  std::vector<std::string> metric_names;  // "loss" first; each once
  CompileOptions options;
  std::unique_ptr<ThreadPool> pool;
  SoloCollective solo;
  Collective* collective = &solo;  // never null
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_COMPILE_CONFIG_H_
