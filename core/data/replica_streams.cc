#include "replica_streams.h"

#include <algorithm>
#include <cinttypes>

#include "../base/check.h"
#include "dataset_parts.h"

namespace ringlet {

bool ReplicaStreams::by_file() const {
  return data_.policy == AutoShardPolicy::kFile ||
         (data_.policy == AutoShardPolicy::kAuto && data_.files &&
          data_.files->size() > 1);
}

int64_t ReplicaStreams::FileBegin(size_t file) const {
  if (file >= data_.files->size()) return data_.size;
  const int64_t begin = (*data_.files)[file];
  if (begin <= data_.first) return 0;
  return std::min(data_.size,
                  (begin - data_.first + data_.stride - 1) / data_.stride);
}

int64_t ReplicaStreams::Size(int replica) const {
  if (!data_.own_example_counts.empty())
    return data_.own_example_counts[static_cast<size_t>(replica)];
  if (!by_file()) return data_.size;
  int64_t size = 0;
  for (size_t f = replica; f < data_.files->size(); f += replicas_) {
    size += FileBegin(f + 1) - FileBegin(f);
  }
  return size;
}

Status ReplicaStreams::CheckOwnExamples(int replica, int parts) const {
  if (data_.own_example_counts.empty() ||
      (parts == 1 && Size(replica) == data_.size)) {
    return Status();
  }
  const std::string name = data_.source->name();
  if (parts > 1) {
    return InvalidArgument(
        "%s: holds the examples of one replica, but this worker computes %d; "
        "start a worker for each",
        name.c_str(), parts);
  }
  return InvalidArgument("%s: has %" PRId64
                         " examples, but replica %d's are to be %" PRId64
                         " by the list of the workers' own examples",
                         name.c_str(), data_.size, replica, Size(replica));
}

// A batch of n is cut into pieces of ceil(n / replicas).
int64_t ReplicaStreams::Steps(int replica) const {
  const auto pieces = [this](int64_t n) {
    const int64_t piece = (n + replicas_ - 1) / replicas_;
    return n == 0 ? 0 : (n + piece - 1) / piece;
  };
  const int64_t size = Size(replica);
  const int64_t rest = data_.drop_remainder ? 0 : size % data_.batch;
  return size / data_.batch * pieces(data_.batch) + pieces(rest);
}

int64_t ReplicaStreams::StepsOfPass() const {
  int64_t steps = 0;
  for (int replica = 0; replica < replicas_; ++replica) {
    steps = std::max(steps, Steps(replica));
  }
  return steps;
}

void ReplicaStreams::Piece(int64_t step, int replica, int64_t* first,
                           int64_t* count) const {
  const int64_t size = Size(replica), full = data_.batch;
  int64_t piece = data_.FullPart(replicas_);
  // The pieces of a full batch.
  const int64_t pieces = (full + piece - 1) / piece;
  const int64_t batch = std::min(step / pieces, size / full);
  const int64_t begin = batch * full;
  int64_t length = std::min(full, size - begin);
  if (length < full) {
    if (data_.drop_remainder) length = 0;
    piece = (length + replicas_ - 1) / replicas_;
  }
  const int64_t offset = std::min(length, (step - batch * pieces) * piece);
  *first = begin + offset;
  *count = std::min(piece, length - offset);
}

int64_t ReplicaStreams::ExampleAt(int64_t pass, int64_t i, int replica) const {
  const int64_t first = data_.first, stride = data_.stride;
  // Replica 0 has the order of a single one.
  const uint64_t seed =
      data_.seed + static_cast<uint64_t>(replica) * 0x9E3779B97F4A7C15u;
  i = data_.ShuffledAt(seed, pass, Size(replica), i, replicas_);
  if (!by_file()) return first + i * stride;
  for (size_t f = replica;; f += replicas_) {
    RINGLET_CHECK(f < data_.files->size());
    const int64_t begin = FileBegin(f), size = FileBegin(f + 1) - begin;
    if (i < size) return first + (begin + i) * stride;
    i -= size;
  }
}

BatchPlan ReplicaStreams::Plan(const DataPosition& position,
                               int replica) const {
  const int64_t step = position.used / data_.FullPart(replicas_);
  RINGLET_CHECK(position.pass >= 0 && step >= 0);
  BatchPlan plan;
  for (int r = 0; r < replicas_; ++r) {
    int64_t first = 0, count = 0;
    Piece(step, r, &first, &count);
    plan.global_count += count;
    if (r != replica) continue;
    plan.first = first;
    plan.count = count;
  }
  const int64_t longest = StepsOfPass();
  RINGLET_CHECK(step < longest && plan.global_count > 0);
  const bool is_last_step = step + 1 == longest;
  plan.next = is_last_step
                  ? DataPosition{position.pass + 1, 0}
                  : DataPosition{position.pass,
                                 position.used + data_.FullPart(replicas_)};
  plan.last =
      is_last_step && data_.passes > 0 && plan.next.pass % data_.passes == 0;
  return plan;
}

}  // namespace ringlet
