// The policies kFile and kOff: each replica has its own stream of examples, and
// a step takes one piece of each stream. Each replica's pieces follow from all
// replicas' sizes, so all ranks agree on the number of steps of a pass.

#include <algorithm>
#include <cinttypes>

#include "../base/check.h"
#include "permutation.h"
#include "ringlet/dataset.h"

namespace ringlet {

bool Dataset::ByFile() const {
  return policy_ == AutoShardPolicy::kFile ||
         (policy_ == AutoShardPolicy::kAuto && files_ && files_->size() > 1);
}

bool Dataset::HasReplicaStreams(int replicas) const {
  return replicas > 1 && source_ != nullptr &&
         (ByFile() || policy_ == AutoShardPolicy::kOff);
}

int64_t Dataset::FileBegin(size_t file) const {
  if (file >= files_->size()) return size_;
  const int64_t begin = (*files_)[file];
  if (begin <= first_) return 0;
  return std::min(size_, (begin - first_ + stride_ - 1) / stride_);
}

int64_t Dataset::OwnSize(int replica, int replicas) const {
  if (!own_.empty()) return own_[static_cast<size_t>(replica)];
  if (!ByFile()) return size_;
  int64_t size = 0;
  for (size_t f = replica; f < files_->size(); f += replicas) {
    size += FileBegin(f + 1) - FileBegin(f);
  }
  return size;
}

Status Dataset::CheckOwnExamples(int replica, int parts) const {
  if (own_.empty() ||
      (parts == 1 && own_[static_cast<size_t>(replica)] == size_)) {
    return Status();
  }
  const std::string name = source_->name();
  if (parts > 1) {
    return InvalidArgument(
        "%s: holds the examples of one replica, but this worker computes %d; "
        "start a worker for each",
        name.c_str(), parts);
  }
  return InvalidArgument(
      "%s: has %" PRId64 " examples, but replica %d's are to be %" PRId64
      " by the list of the workers' own examples",
      name.c_str(), size_, replica, own_[static_cast<size_t>(replica)]);
}

// A batch of n is cut into pieces of ceil(n / replicas).
int64_t Dataset::OwnSteps(int replica, int replicas) const {
  const auto pieces = [replicas](int64_t n) {
    const int64_t piece = (n + replicas - 1) / replicas;
    return n == 0 ? 0 : (n + piece - 1) / piece;
  };
  const int64_t size = OwnSize(replica, replicas);
  const int64_t rest = drop_remainder_ ? 0 : size % batch_;
  return size / batch_ * pieces(batch_) + pieces(rest);
}

int64_t Dataset::StepsOfPass(int replicas) const {
  int64_t steps = 0;
  for (int replica = 0; replica < replicas; ++replica) {
    steps = std::max(steps, OwnSteps(replica, replicas));
  }
  return steps;
}

void Dataset::OwnPiece(int64_t step, int replica, int replicas, int64_t* first,
                       int64_t* count) const {
  const int64_t size = OwnSize(replica, replicas);
  int64_t piece = FullPart(replicas);
  const int64_t pieces = (batch_ + piece - 1) / piece;  // of a full batch
  const int64_t batch = std::min(step / pieces, size / batch_);
  const int64_t begin = batch * batch_;
  int64_t length = std::min(batch_, size - begin);
  if (length < batch_) {
    if (drop_remainder_) length = 0;
    piece = (length + replicas - 1) / replicas;
  }
  const int64_t within = std::min(length, (step - batch * pieces) * piece);
  *first = begin + within;
  *count = std::min(piece, length - within);
}

int64_t Dataset::OwnExample(int64_t pass, int64_t i, int replica,
                            int replicas) const {
  // Replica 0 has the order of a single one.
  const uint64_t seed =
      seed_ + static_cast<uint64_t>(replica) * 0x9E3779B97F4A7C15u;
  if (shuffle_) i = Permute(seed, pass, OwnSize(replica, replicas), i);
  if (!ByFile()) return first_ + i * stride_;
  for (size_t f = replica;; f += replicas) {
    RINGLET_CHECK(f < files_->size());
    const int64_t begin = FileBegin(f), size = FileBegin(f + 1) - begin;
    if (i < size) return first_ + (begin + i) * stride_;
    i -= size;
  }
}

BatchPlan Dataset::PlanOfOwn(const DataPosition& at, int replica,
                             int replicas) const {
  const int64_t step = at.used / FullPart(replicas);
  RINGLET_CHECK(at.pass >= 0 && step >= 0);
  BatchPlan plan;
  int64_t longest = 0;
  for (int r = 0; r < replicas; ++r) {
    int64_t first = 0, count = 0;
    OwnPiece(step, r, replicas, &first, &count);
    plan.global_count += count;
    longest = std::max(longest, OwnSteps(r, replicas));
    if (r != replica) continue;
    plan.first = first;
    plan.count = count;
  }
  RINGLET_CHECK(step < longest && plan.global_count > 0);
  const bool over = step + 1 == longest;
  plan.next = over ? DataPosition{at.pass + 1, 0}
                   : DataPosition{at.pass, at.used + FullPart(replicas)};
  plan.last = over && passes_ > 0 && plan.next.pass % passes_ == 0;
  return plan;
}

}  // namespace ringlet
