// StepMetrics: the loss and the metrics of one step.
//
// Internal to core/.

#ifndef RINGLET_CORE_MODEL_STEP_METRICS_H_
#define RINGLET_CORE_MODEL_STEP_METRICS_H_

#include <vector>

#include "../base/status.h"
#include "compile_config.h"
#include "gradient_exchange.h"
#include "metrics.h"

namespace ringlet {

class StepMetrics {
 public:
  // `config` outlives it.
  explicit StepMetrics(const CompileConfig* config) : config_(*config) {}

  // After the metrics were resolved.
  void Reset();

  // This rank's part of a step: its examples' mean loss, and their outputs.
  Status Compute(const Batch& batch, double loss_sum, const Shape& output,
                 const float* outputs);
  // All ranks' parts: they come while the gradients are computed.
  Status Start(GradientExchange* exchange);
  Status Finish(GradientExchange* exchange);

  // Of the last Finish, added in the order of the ranks.
  const MetricState* sums() const { return sums_.data(); }

  // This rank's parts, added up since the last clear.
  std::vector<MetricState>& running() { return running_; }

 private:
  const CompileConfig& config_;
  std::vector<MetricState> mine_;
  std::vector<MetricState> ranks_;  // rank after rank
  std::vector<MetricState> sums_;
  std::vector<MetricState> running_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_METRICS_H_
