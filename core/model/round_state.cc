#include "round_state.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "../compute/digest.h"
#include "delta_exchange.h"
#include "sparse_delta.h"

namespace ringlet {
namespace {

constexpr char kPendingPrefix[] = "optimizer/pending_change/";
constexpr char kPendingName[] = "optimizer/pending";

}  // namespace

void RoundState::Reset() {
  pending_ = rounds_ = 0;
  whole_ = true;
  const KeptSpans& kept = memory_.kept();
  if (kept.errors != nullptr) {
    std::fill_n(kept.errors, config_.replicas * graph_.num_trained(), 0.0f);
  }
  if (kept.starts == nullptr) return;
  std::fill_n(kept.pending, graph_.num_trained() + graph_.num_changes(), 0.0f);
  std::fill_n(kept.starts, config_.replicas * graph_.num_weights(), 0.0f);
}

float* RoundState::StartOf(int replica) const {
  if (!pending()) return nullptr;
  return memory_.kept().starts + replica * graph_.num_weights();
}

void RoundState::EndEpoch() {
  pending_ = 0;
  if (memory_.kept().errors != nullptr) return;
  whole_ = true;
  rounds_ = 0;
}

Status RoundState::Gather(const ReplicaShares* next) {
  if (whole_) return Status();
  Collective* const collective = config_.collective;
  const KeptSpans& kept = memory_.kept();
  const auto give = [&](float* values, int64_t count, int replica, int rank) {
    return BroadcastNumbers(collective, values + replica * count, sizeof(float),
                            static_cast<size_t>(count), rank);
  };
  for (int rank = 0; rank < collective->size(); ++rank) {
    const ReplicaRange own = config_.shares.of(rank);
    const ReplicaRange stays =
        next == nullptr ? ReplicaRange{0, 0} : next->of(rank);
    for (int r = own.first; r < own.first + own.count; ++r) {
      if (r >= stays.first && r < stays.first + stays.count) continue;
      if (kept.errors != nullptr) {
        RINGLET_RETURN_IF_ERROR(
            give(kept.errors, graph_.num_trained(), r, rank));
      }
      if (pending()) {
        RINGLET_RETURN_IF_ERROR(
            give(kept.starts, graph_.num_weights(), r, rank));
      }
    }
  }
  if (next != nullptr) return Status();
  whole_ = true;
  rounds_ = 0;
  return Status();
}

// Bytes over each link of n workers, both times n / (n - 1).
bool RoundState::GatherIsDue() const {
  const LocalUpdates& local = config_.options.local;
  const int lanes = local.sparse() ? 1 : LanesOf(local.delta, config_.replicas);
  int64_t replica = 0, messages = 0, words = 0;
  for (const Variable& v : graph_.variables()) {
    if (local.overlaps()) replica += v.size();
    if (v.change_offset >= 0) words += v.size();
    if (!v.trained()) continue;
    if (local.sparse()) {
      replica += v.size();
      messages += static_cast<int64_t>(SparseBytesOf(v.size()));
    } else {
      words += WordsOf(v.size(), lanes);
    }
  }
  const int64_t wordsize = sizeof(float);
  return rounds_ * (config_.replicas * messages + 2 * wordsize * words) >=
         4 * config_.replicas * wordsize * replica;
}

uint64_t RoundState::Digest() const {
  const KeptSpans& kept = memory_.kept();
  ThreadPool* const pool = config_.pool.get();
  uint64_t digest = 0;
  if (kept.errors != nullptr) {
    digest =
        DigestOf(kept.errors, config_.replicas * graph_.num_trained(), pool);
  }
  if (!pending()) return digest;
  return digest +
         3 * DigestOf(kept.starts, config_.replicas * graph_.num_weights(),
                      pool) +
         5 * DigestOf(kept.pending, graph_.num_trained() + graph_.num_changes(),
                      pool);
}

void RoundState::AppendState(std::vector<StateSpan>* spans) {
  if (memory_.kept().errors != nullptr) AppendErrors(spans);
  if (memory_.kept().starts == nullptr) return;
  AppendStarts(spans);
  AppendPending(spans);
}

void RoundState::AppendErrors(std::vector<StateSpan>* spans) {
  for (int r = 0; r < config_.replicas; ++r) {
    float* const error = memory_.kept().errors + r * graph_.num_trained();
    const std::string prefix = kErrorPrefix + std::to_string(r) + "/";
    for (const Variable& v : graph_.variables()) {
      if (!v.trained()) continue;
      spans->push_back({prefix + v.path, DType::kFloat32, v.shape,
                        error + v.gradient_offset, /*optional=*/true});
    }
  }
}

void RoundState::AppendStarts(std::vector<StateSpan>* spans) {
  for (int r = 0; r < config_.replicas; ++r) {
    float* const start = memory_.kept().starts + r * graph_.num_weights();
    const std::string prefix = kStartPrefix + std::to_string(r) + "/";
    for (const Variable& v : graph_.variables()) {
      spans->push_back({prefix + v.path, DType::kFloat32, v.shape,
                        start + v.offset, /*optional=*/true});
    }
  }
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
  whole_ = true;
  rounds_ = 0;
  if (pending_ == 0 || (pending_ == 1 && config_.options.local.overlaps())) {
    return Status();
  }
  return Corruption("%s is %" PRId64 ", not 0 or 1", kPendingName, pending_);
}

}  // namespace ringlet
