#include "round_state.h"

#include <algorithm>
#include <cinttypes>
#include <string>

namespace ringlet {
namespace {

constexpr char kErrorPrefix[] = "optimizer/error_feedback/";
constexpr char kPendingPrefix[] = "optimizer/pending_change/";
constexpr char kPendingName[] = "optimizer/pending";

}  // namespace

void RoundState::Reset() {
  pending_ = 0;
  gathered_ = true;
  const KeptSpans& kept = memory_.kept();
  const LocalUpdates& local = config_.options.local;
  if (local.sparse()) {
    std::fill_n(kept.errors, config_.replicas * graph_.num_trained(), 0.0f);
  }
  if (local.overlaps()) {
    std::fill_n(kept.pending, graph_.num_trained() + graph_.num_changes(),
                0.0f);
  }
}

Status RoundState::Gather() {
  Collective* const collective = config_.collective;
  if (!config_.options.local.sparse() || gathered_) return Status();
  gathered_ = true;
  const int64_t trained = graph_.num_trained();
  for (int rank = 0; rank < collective->size(); ++rank) {
    const ReplicaRange own = config_.shares.of(rank);
    for (int r = own.first; r < own.first + own.count; ++r) {
      RINGLET_RETURN_IF_ERROR(
          BroadcastNumbers(collective, memory_.kept().errors + r * trained,
                           sizeof(float), static_cast<size_t>(trained), rank));
    }
  }
  return Status();
}

void RoundState::AppendState(std::vector<StateSpan>* spans) {
  const LocalUpdates& local = config_.options.local;
  for (int r = 0; local.sparse() && r < config_.replicas; ++r) {
    float* const error = memory_.kept().errors + r * graph_.num_trained();
    const std::string prefix = kErrorPrefix + std::to_string(r) + "/";
    for (const Variable& v : graph_.variables()) {
      if (!v.trained()) continue;
      spans->push_back({prefix + v.path, DType::kFloat32, v.shape,
                        error + v.gradient_offset, /*optional=*/true});
    }
  }
  if (local.overlaps()) AppendPending(spans);
}

void RoundState::AppendPending(std::vector<StateSpan>* spans) {
  float* const changes = memory_.kept().pending + graph_.num_trained();
  for (const Variable& v : graph_.variables()) {
    float* const change = v.trained()
                              ? memory_.kept().pending + v.gradient_offset
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
