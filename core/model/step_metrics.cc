#include "step_metrics.h"

#include "../base/byte_order.h"

namespace ringlet {

// A MetricState is two doubles, and so it travels.
static_assert(sizeof(MetricState) == 2 * sizeof(double));

void StepMetrics::Reset() {
  const size_t n = config_.metric_names.size();
  mine_.assign(n, MetricState());
  sums_ = running_ = mine_;
  ranks_.assign(n * static_cast<size_t>(config_.collective->size()),
                MetricState());
}

Status StepMetrics::Compute(const Batch& batch, double loss_sum,
                            const Shape& output, const float* outputs) {
  mine_[0] = {loss_sum, static_cast<double>(batch.count)};
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    mine_[i + 1] = MetricState();
    RINGLET_RETURN_IF_ERROR(UpdateMetric(config_.metrics[i], output,
                                         batch.count, outputs, batch.y,
                                         &mine_[i + 1]));
  }
  for (size_t i = 0; i < mine_.size(); ++i) running_[i] += mine_[i];
  return Status();
}

Status StepMetrics::Start(GradientExchange* exchange) {
  const size_t n = 2 * mine_.size();
  SwapToLittle(mine_.data(), sizeof(double), n);
  const Status status =
      exchange->StartReport(mine_.data(), n * sizeof(double), ranks_.data());
  SwapToLittle(mine_.data(), sizeof(double), n);
  return status;
}

Status StepMetrics::Finish(GradientExchange* exchange) {
  RINGLET_RETURN_IF_ERROR(exchange->FinishReport());
  SwapToLittle(ranks_.data(), sizeof(double), 2 * ranks_.size());
  const size_t n = sums_.size();
  for (size_t i = 0; i < n; ++i) {
    sums_[i] = MetricState();
    for (size_t at = i; at < ranks_.size(); at += n) sums_[i] += ranks_[at];
  }
  return Status();
}

}  // namespace ringlet
