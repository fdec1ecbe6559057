#include "round_state.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "../base/collective_numbers.h"
#include "../base/state_names.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

constexpr char kPendingPrefix[] = "optimizer/pending_change/";
constexpr char kPendingName[] = "optimizer/pending";

}  // namespace

void RoundState::Reset() {
  pending_ = 0;
  gathered_ = true;
  const PersistentSpans& spans = memory_.persistent();
  if (spans.errors != nullptr) {
    std::fill_n(spans.errors,
                config_.job_replicas.count() * graph_.num_trained(), 0.0f);
  }
  if (spans.starts == nullptr) return;
  std::fill_n(spans.pending, graph_.num_trained() + graph_.num_changes(), 0.0f);
  std::fill_n(spans.starts, config_.job_replicas.count() * graph_.num_weights(),
              0.0f);
}

float* RoundState::StartWeights(int replica) const {
  if (!pending()) return nullptr;
  return memory_.persistent().starts + replica * graph_.num_weights();
}

Status RoundState::Gather() {
  if (gathered_) return Status();
  Collective* const collective = config_.collective;
  const PersistentSpans& spans = memory_.persistent();
  const auto give = [&](float* values, int64_t count, int replica, int rank) {
    return BroadcastNumbers(collective, values + replica * count, sizeof(float),
                            static_cast<size_t>(count), rank);
  };
  for (int rank = 0; rank < collective->size(); ++rank) {
    const ReplicaRange range = config_.job_replicas.assignment().range(rank);
    for (int r = range.first; r < range.first + range.count; ++r) {
      if (spans.errors != nullptr) {
        RINGLET_RETURN_IF_ERROR(
            give(spans.errors, graph_.num_trained(), r, rank));
      }
      if (pending()) {
        RINGLET_RETURN_IF_ERROR(
            give(spans.starts, graph_.num_weights(), r, rank));
      }
    }
  }
  gathered_ = true;
  return Status();
}

void RoundState::AppendState(std::vector<StateSpan>* spans) {
  if (memory_.persistent().errors != nullptr) AppendErrors(spans);
  if (memory_.persistent().starts == nullptr) return;
  AppendStarts(spans);
  AppendPending(spans);
}

void RoundState::AppendErrors(std::vector<StateSpan>* spans) {
  for (int r = 0; r < config_.job_replicas.count(); ++r) {
    float* const error = memory_.persistent().errors + r * graph_.num_trained();
    const std::string prefix = kErrorPrefix + std::to_string(r) + "/";
    for (const Variable& v : graph_.variables()) {
      if (!v.trained()) continue;
      spans->push_back({prefix + v.path, DType::kFloat32, v.shape,
                        error + v.gradient_offset, /*optional=*/true});
    }
  }
}

void RoundState::AppendStarts(std::vector<StateSpan>* spans) {
  for (int r = 0; r < config_.job_replicas.count(); ++r) {
    float* const start = memory_.persistent().starts + r * graph_.num_weights();
    const std::string prefix = kStartPrefix + std::to_string(r) + "/";
    for (const Variable& v : graph_.variables()) {
      spans->push_back({prefix + v.path, DType::kFloat32, v.shape,
                        start + v.offset, /*optional=*/true});
    }
  }
}

void RoundState::AppendPending(std::vector<StateSpan>* spans) {
  float* const changes = memory_.persistent().pending + graph_.num_trained();
  for (const Variable& v : graph_.variables()) {
    float* const change = v.trained()
                              ? memory_.persistent().pending + v.gradient_offset
                              : changes + v.change_offset;
    if (!v.trained() && v.change_offset < 0) continue;
    spans->push_back({kPendingPrefix + v.path, DType::kFloat32, v.shape, change,
                      /*optional=*/true});
  }
  spans->push_back(
      {kPendingName, DType::kInt64, {}, &pending_, /*optional=*/true});
}

Status RoundState::StateLoaded() {
  gathered_ = true;
  if (pending_ == 0 || (pending_ == 1 && config_.options.local.overlaps())) {
    return Status();
  }
  return Corruption("%s is %" PRId64 ", not 0 or 1", kPendingName, pending_);
}

}  // namespace ringlet
