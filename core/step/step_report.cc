#include "step_report.h"

#include <algorithm>
#include <cstring>

#include "../base/byte_order.h"

namespace ringlet {

// A MetricState is sent as two doubles.
static_assert(sizeof(MetricState) == 2 * sizeof(double));

namespace {

// The first state of a late replica's row. No other row has a loss without
// examples.
constexpr MetricState kLateReplicaMark = {1, 0};

}  // namespace

void StepReport::Reset() {
  const auto ranks = static_cast<size_t>(config_.collective->size());
  own_states_.assign(config_.first_states.back(), MetricState());
  sums_ = own_states_;
  requests_.assign(ranks, 0);
  replica_nanos_ = 0;
  all_nanos_.assign(ranks, 0);
  const auto rows =
      static_cast<size_t>(config_.job_replicas.assignment().max_per_rank());
  sent_.assign(rows * state_bytes() + sizeof(int64_t) + 1, 0);
  received_.assign(ranks * sent_.size(), 0);
}

Status StepReport::Compute(const Batch& batch, double loss_sum,
                           const std::vector<double>& loss_sums,
                           const Graph& graph, const ModelMemory& memory) {
  own_states_.assign(own_states_.size(), MetricState());
  const auto count = static_cast<double>(batch.count);
  own_states_[0] = {loss_sum, count};
  size_t next = 1;
  for (size_t k = 0; next < config_.first_metric; ++k) {
    if (config_.outputs[k].has_loss)
      own_states_[next++] = {loss_sums[k], count};
  }
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    const Metric& metric = config_.metrics[i];
    const auto k = static_cast<size_t>(config_.metric_outputs[i]);
    RINGLET_RETURN_IF_ERROR(UpdateMetric(
        metric, graph.node(config_.outputs[k].node).output, batch.count,
        memory.output(k), config_.TargetsOf(k, batch),
        &own_states_[config_.first_states[config_.first_metric + i]],
        metric.weighted ? batch.weights : ExampleWeights()));
  }
  return Status();
}

unsigned char* StepReport::RowOf(int replica) {
  return &sent_[static_cast<size_t>(replica) * state_bytes()];
}

void StepReport::StoreResult(int replica) {
  unsigned char* const row = RowOf(replica);
  std::memcpy(row, own_states_.data(), state_bytes());
  SwapToLittle(row, sizeof(double), 2 * own_states_.size());
}

void StepReport::ClearResult(int replica) {
  std::memset(RowOf(replica), 0, state_bytes());
}

void StepReport::MarkLate(int replica) {
  ClearResult(replica);
  unsigned char* const row = RowOf(replica);
  std::memcpy(row, &kLateReplicaMark, sizeof(kLateReplicaMark));
  SwapToLittle(row, sizeof(double), 2);
}

void StepReport::AddResult(int replica) {
  unsigned char* const row = RowOf(replica);
  SwapToLittle(row, sizeof(double), 2 * own_states_.size());
  for (size_t i = 0; i < own_states_.size(); ++i) {
    MetricState state;
    std::memcpy(&state, row + i * sizeof(state), sizeof(state));
    own_states_[i] += state;
  }
  StoreResult(replica);
}

Status StepReport::Send(unsigned char request, GradientExchange* exchange) {
  unsigned char* const nanos = &sent_[sent_.size() - 1 - sizeof(int64_t)];
  std::memcpy(nanos, &replica_nanos_, sizeof(int64_t));
  SwapToLittle(nanos, sizeof(int64_t), 1);
  sent_.back() = request;
  return exchange->StartReport(sent_.data(), sent_.size(), received_.data());
}

Status StepReport::Receive(GradientExchange* exchange) {
  RINGLET_RETURN_IF_ERROR(exchange->FinishReport());
  for (size_t r = 0; r < requests_.size(); ++r) {
    unsigned char* const end = &received_[(r + 1) * sent_.size() - 1];
    requests_[r] = *end;
    SwapToLittle(end - sizeof(int64_t), sizeof(int64_t), 1);
    std::memcpy(&all_nanos_[r], end - sizeof(int64_t), sizeof(int64_t));
    all_nanos_[r] = std::max<int64_t>(all_nanos_[r], 0);
  }
  if (has_request()) return Status();
  sums_.assign(sums_.size(), MetricState());
  late_ = 0;
  examples_.assign(static_cast<size_t>(config_.job_replicas.count()), 0);
  const auto ranks = static_cast<int>(requests_.size());
  for (int r = 0; r < ranks; ++r) {
    const ReplicaRange range = config_.job_replicas.assignment().range(r);
    const auto count = static_cast<size_t>(range.count);
    unsigned char* const rows =
        &received_[static_cast<size_t>(r) * sent_.size()];
    SwapToLittle(rows, sizeof(double), 2 * sums_.size() * count);
    double* const examples = examples_.data() + range.first;
    for (size_t k = 0; k < count; ++k) {
      examples[k] = AddRow(rows + k * state_bytes());
    }
  }
  return Status();
}

double StepReport::AddRow(const unsigned char* row) {
  double examples = 0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    MetricState state;
    std::memcpy(&state, row + i * sizeof(state), sizeof(state));
    if (i == 0 && state.count == kLateReplicaMark.count &&
        state.total == kLateReplicaMark.total) {
      ++late_;
      return 0;
    }
    sums_[i] += state;
    if (i == 0) examples = state.count;
  }
  return examples;
}

bool StepReport::has_request() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [](unsigned char request) { return request != 0; });
}

}  // namespace ringlet
