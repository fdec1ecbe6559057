#include "participation.h"

#include <algorithm>
#include <cinttypes>

#include "../base/random.h"
#include "attendance.h"

namespace ringlet {
namespace {

constexpr uint64_t kStream = 0x726f756e64730000;  // of its own

// The higher bits are drawn, the lower ones are the replica's number.
constexpr uint64_t kNumber = kMostReplicas - 1;
static_assert((kMostReplicas & kNumber) == 0, "a power of two");

}  // namespace

int MostDrawn(const LocalUpdates& options, int replicas) {
  return options.participation > 0 ? std::min(options.participation, replicas)
                                   : replicas;
}

Status CheckDrawn(const LocalUpdates& options, int replicas) {
  const bool draws = options.participation > replicas;
  if (!draws && options.quorum <= replicas) return Status();
  return InvalidArgument(
      "%s %d of %d replica%s; give at most %d, or more %s",
      draws ? "participation" : "quorum",
      draws ? options.participation : options.quorum, replicas,
      replicas == 1 ? "" : "s", replicas,
      options.quorum == 0 ? "replicas" : "workers: each has one replica");
}

std::vector<uint8_t> Participation::Owned() const {
  std::vector<uint8_t> owned(static_cast<size_t>(config_.replicas), 0);
  for (int rank = 0; rank < config_.shares.workers(); ++rank) {
    const ReplicaRange range = config_.shares.of(rank);
    std::fill_n(owned.begin() + range.first, range.count, uint8_t{1});
  }
  return owned;
}

Status Participation::Draw(int64_t step, int64_t steps) {
  const LocalUpdates& options = config_.options.local;
  const int replicas = config_.replicas;
  if (options.attendance != nullptr) {
    RINGLET_RETURN_IF_ERROR(
        options.attendance->Check(step, step + steps, replicas));
  }
  const Philox random(config_.options.seed, kStream);
  const std::vector<uint8_t> owned = Owned();
  of_.assign(static_cast<size_t>(replicas), kNot);
  std::vector<uint64_t> there;
  for (int r = 0; r < replicas; ++r) {
    const Presence presence = options.attendance == nullptr
                                  ? Presence::kThere
                                  : options.attendance->Of(step, r);
    if (owned[r] == 0 || presence == Presence::kAway) continue;
    const Philox::Block block =
        random.At(static_cast<uint64_t>(step) * replicas + r);
    const uint64_t drawn = uint64_t{block[0]} << 32 | block[1];
    there.push_back((drawn & ~kNumber) | static_cast<uint64_t>(r));
    of_[r] = presence == Presence::kLate ? kLate : kDrawn;
  }
  const auto most = static_cast<size_t>(MostDrawn(options, replicas));
  count_ = static_cast<int>(std::min(most, there.size()));
  // Of those that were in a round it may be known that none had examples.
  const int least = options.attendance != nullptr ? options.quorum
                                                  : std::max(options.quorum, 1);
  if (count_ < least) {
    return InvalidArgument(
        "the round after step %" PRId64
        ": %d of %d replicas are there, and the quorum is %d",
        step, count_, replicas, least);
  }
  if (there.size() <= most) return Status();
  std::sort(there.begin(), there.end());
  for (size_t i = most; i < there.size(); ++i) of_[there[i] & kNumber] = kNot;
  return Status();
}

}  // namespace ringlet
