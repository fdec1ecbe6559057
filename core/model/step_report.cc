#include "step_report.h"

#include <algorithm>
#include <cstring>

#include "../base/byte_order.h"

namespace ringlet {

// A MetricState is two doubles, and so it travels.
static_assert(sizeof(MetricState) == 2 * sizeof(double));

void StepReport::Reset() {
  const auto ranks = static_cast<size_t>(config_.collective->size());
  mine_.assign(config_.metric_names.size(), MetricState());
  sums_ = mine_;
  notes_.assign(ranks, 0);
  sent_.assign(state_bytes() + 1, 0);
  received_.assign(ranks * sent_.size(), 0);
}

Status StepReport::Compute(const Batch& batch, double loss_sum,
                           const Shape& output, const float* outputs) {
  mine_[0] = {loss_sum, static_cast<double>(batch.count)};
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    mine_[i + 1] = MetricState();
    RINGLET_RETURN_IF_ERROR(UpdateMetric(config_.metrics[i], output,
                                         batch.count, outputs, batch.y,
                                         &mine_[i + 1]));
  }
  return Status();
}

Status StepReport::Send(unsigned char note, GradientExchange* exchange) {
  std::memcpy(sent_.data(), mine_.data(), state_bytes());
  SwapToLittle(sent_.data(), sizeof(double), 2 * mine_.size());
  sent_.back() = note;
  return exchange->StartReport(sent_.data(), sent_.size(), received_.data());
}

Status StepReport::Receive(GradientExchange* exchange) {
  RINGLET_RETURN_IF_ERROR(exchange->FinishReport());
  for (size_t r = 0; r < notes_.size(); ++r) {
    notes_[r] = received_[(r + 1) * sent_.size() - 1];
  }
  if (has_note()) return Status();
  sums_.assign(sums_.size(), MetricState());
  for (size_t r = 0; r < notes_.size(); ++r) {
    unsigned char* const theirs = &received_[r * sent_.size()];
    SwapToLittle(theirs, sizeof(double), 2 * sums_.size());
    for (size_t i = 0; i < sums_.size(); ++i) {
      MetricState state;
      std::memcpy(&state, theirs + i * sizeof(state), sizeof(state));
      sums_[i] += state;
    }
  }
  return Status();
}

bool StepReport::has_note() const {
  return std::any_of(notes_.begin(), notes_.end(),
                     [](unsigned char note) { return note != 0; });
}

}  // namespace ringlet
