#include "participation.h"

#include <algorithm>
#include <cinttypes>

#include "ringlet/compute.h"

namespace ringlet {
namespace {

// Separates the random numbers of participation from the other random numbers
// of this seed.
constexpr uint64_t kStream = 0x726f756e64730000;

// The higher bits are random, the lower ones are the replica's index.
constexpr uint64_t kNumber = kMaxReplicas - 1;
static_assert((kMaxReplicas & kNumber) == 0, "a power of two");

}  // namespace

int MaxSampled(const LocalUpdates& options, int replicas) {
  return options.participation > 0 ? std::min(options.participation, replicas)
                                   : replicas;
}

Status CheckSampled(const LocalUpdates& options, int replicas) {
  const bool samples_too_many = options.participation > replicas;
  if (!samples_too_many && options.quorum <= replicas) return Status();
  return InvalidArgument(
      "%s %d of %d replica%s; give at most %d, or more %s",
      samples_too_many ? "participation" : "quorum",
      samples_too_many ? options.participation : options.quorum, replicas,
      replicas == 1 ? "" : "s", replicas,
      options.quorum == 0 ? "replicas" : "workers: each has one replica");
}

std::vector<uint8_t> Participation::AssignedReplicas() const {
  std::vector<uint8_t> assigned(
      static_cast<size_t>(config_.job_replicas.count()), 0);
  for (int rank = 0; rank < config_.job_replicas.assignment().workers();
       ++rank) {
    const ReplicaRange range = config_.job_replicas.assignment().range(rank);
    std::fill_n(assigned.begin() + range.first, range.count, uint8_t{1});
  }
  return assigned;
}

Status Participation::Sample(int64_t step) {
  const LocalUpdates& options = config_.options.local;
  const int replicas = config_.job_replicas.count();
  const Philox random(config_.options.seed, kStream);
  const std::vector<uint8_t> assigned = AssignedReplicas();
  roles_.assign(static_cast<size_t>(replicas), kNotSampled);
  std::vector<uint64_t> candidates;
  for (int r = 0; r < replicas; ++r) {
    const Presence presence = config_.availability == nullptr
                                  ? Presence::kPresent
                                  : config_.availability(step, r);
    if (assigned[r] == 0 || presence == Presence::kAbsent) continue;
    const Philox::Block block =
        random.At(static_cast<uint64_t>(step) * replicas + r);
    const uint64_t sampled = uint64_t{block[0]} << 32 | block[1];
    candidates.push_back((sampled & ~kNumber) | static_cast<uint64_t>(r));
    roles_[r] = presence == Presence::kLate ? kLate : kSampled;
  }
  const auto max_sampled = static_cast<size_t>(MaxSampled(options, replicas));
  count_ = static_cast<int>(std::min(max_sampled, candidates.size()));
  // Only with simulated availability may a round have no replicas.
  const int min_replicas = config_.availability != nullptr
                               ? options.quorum
                               : std::max(options.quorum, 1);
  if (count_ < min_replicas) {
    return InvalidArgument(
        "the round after step %" PRId64
        ": %d of %d replicas are present, and the quorum is %d",
        step, count_, replicas, min_replicas);
  }
  if (candidates.size() <= max_sampled) return Status();
  std::sort(candidates.begin(), candidates.end());
  for (size_t i = max_sampled; i < candidates.size(); ++i)
    roles_[candidates[i] & kNumber] = kNotSampled;
  return Status();
}

}  // namespace ringlet
