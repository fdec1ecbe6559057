// Everything is computed from (seed, position, replica, replicas) and nothing
// is stored: a resume, another number of replicas and another machine find the
// same batches. Positions come from files, so CheckStart checks them before
// use. Products of counts are below 2^60. replica_streams.h has the policies
// kFile and kOff.

#include "ringlet/dataset.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <utility>

#include "../base/check.h"
#include "permutation.h"
#include "replica_streams.h"
#include "shuffle_blocks.h"

namespace ringlet {
namespace {

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();
// The limit of examples and of passes. One more batch does not overflow.
constexpr int64_t kMaxExamples = int64_t{1} << 60;

Status TooLate(const char* call) {
  return InvalidArgument(
      "call %s before Shuffle, Repeat and Batch: it is of single examples of "
      "the source",
      call);
}

}  // namespace

std::vector<std::string> ValueNames(const std::vector<TableColumn>& columns) {
  std::vector<std::string> names;
  bool named = false;
  for (const TableColumn& column : columns) {
    if (column.role != TableColumn::Role::kValue || column.value < 0) continue;
    const size_t value = static_cast<size_t>(column.value);
    if (value >= names.size()) names.resize(value + 1);
    names[value] = column.name;
    named = named || !column.name.empty();
  }
  return named ? names : std::vector<std::string>();
}

Dataset::Dataset(std::shared_ptr<Source> source)
    : source_(std::move(source)),
      size_(source_->size()),
      files_(std::make_shared<std::vector<int64_t>>(source_->FileStarts())) {
  if (files_->empty()) return;
  if (files_->front() != 0 || files_->back() > size_ ||
      !std::is_sorted(files_->begin(), files_->end())) {
    status_ = InvalidArgument(
        "%s: its FileStarts do not rise from 0 to its %" PRId64 " examples",
        source_->name().c_str(), size_);
  }
}

Dataset Dataset::WithError(const Status& error) const {
  Dataset copy = *this;
  if (copy.status_.ok()) copy.status_ = error;
  return copy;
}

Dataset Dataset::Skip(int64_t count) const {
  if (ordered()) return WithError(TooLate("Skip"));
  if (count < 0) {
    return WithError(InvalidArgument("Skip(%" PRId64 "): must be >= 0", count));
  }
  Dataset d = *this;
  count = std::min(count, size_);
  d.first_ += count * stride_;
  d.size_ -= count;
  return d;
}

Dataset Dataset::Take(int64_t count) const {
  if (ordered()) return WithError(TooLate("Take"));
  if (count < 0) {
    return WithError(InvalidArgument("Take(%" PRId64 "): must be >= 0", count));
  }
  Dataset d = *this;
  d.size_ = std::min(size_, count);
  return d;
}

Dataset Dataset::Shard(int64_t n, int64_t index) const {
  if (ordered()) return WithError(TooLate("Shard"));
  if (n < 1 || index < 0 || index >= n) {
    return WithError(InvalidArgument(
        "Shard(%" PRId64 ", %" PRId64 "): needs 0 <= index < n", n, index));
  }
  Dataset d = *this;
  d.size_ = size_ > index ? (size_ - index - 1) / n + 1 : 0;
  // Only indices in the source are computed, so that none overflows.
  if (d.size_ > 0) d.first_ += index * stride_;
  if (d.size_ > 1) d.stride_ *= n;
  return d;
}

Dataset Dataset::Shuffle(uint64_t seed) const {
  Dataset d = *this;
  d.shuffle_ = true;
  d.seed_ = seed;
  return d;
}

Dataset Dataset::Repeat(int64_t times) const {
  if (times == 0 || times < -1) {
    return WithError(InvalidArgument(
        "Repeat(%" PRId64 "): must be at least 1, or -1 for no end", times));
  }
  if (passes_ != 1) {
    return WithError(InvalidArgument("Repeat was called twice; call it once"));
  }
  if (size_ > 0 && times > kMaxExamples / size_) {
    return WithError(
        InvalidArgument("Repeat(%" PRId64 ") of %" PRId64
                        " examples: more than 2^60 in all; -1 is for "
                        "no end",
                        times, size_));
  }
  Dataset d = *this;
  d.passes_ = times;
  d.batches_cross_passes_ = batch_ == 0;
  return d;
}

Dataset Dataset::Batch(int64_t size, bool drop_remainder) const {
  if (size < 1) {
    return WithError(InvalidArgument(
        "Batch(%" PRId64 "): a batch needs at least one example", size));
  }
  if (size > std::numeric_limits<int32_t>::max()) {
    return WithError(InvalidArgument(
        "Batch(%" PRId64 "): a batch has at most 2^31 - 1 examples", size));
  }
  if (batch_ != 0) {
    return WithError(InvalidArgument("Batch was called twice; call it once"));
  }
  Dataset d = *this;
  d.batch_ = size;
  d.drop_remainder_ = drop_remainder;
  return d;
}

Dataset Dataset::Memory(int64_t bytes) const {
  if (source_ == nullptr) return *this;
  if (bytes < 1) {
    return WithError(
        InvalidArgument("Memory(%" PRId64 "): must be at least 1", bytes));
  }
  Dataset d = *this;
  d.memory_ = bytes;
  d.example_bytes_ =
      static_cast<int64_t>(source_->x().bytes() + source_->y().bytes());
  d.apart_ = source_->size() > 0 && !source_->ExamplePath(0).empty();
  return d;
}

Dataset Dataset::Map(const Scale& scale) const {
  Dataset d = *this;
  d.scale_.factor = scale_.factor * scale.factor;
  d.scale_.offset = scale_.offset * scale.factor + scale.offset;
  return d;
}

Dataset Dataset::SampleWeight(std::vector<float> weights,
                              int64_t weights_per_example) const {
  if (source_ == nullptr) return *this;
  const std::string name = source_->name();
  const auto count = static_cast<int64_t>(weights.size());
  if (weights_per_example < 1 || count % weights_per_example != 0 ||
      count / weights_per_example != source_->size()) {
    return WithError(
        InvalidArgument("%s: %zu sample weights for %" PRId64
                        " examples; give %" PRId64 " for each",
                        name.c_str(), weights.size(), source_->size(),
                        std::max<int64_t>(weights_per_example, 1)));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i])) continue;
    return WithError(InvalidArgument(
        "%s: the sample weight of example %zu is %f; must be a finite number",
        name.c_str(), i / static_cast<size_t>(weights_per_example),
        double{weights[i]}));
  }
  Dataset d = *this;
  d.weights_per_example_ = weights_per_example;
  d.weights_ = std::make_shared<std::vector<float>>(std::move(weights));
  return d;
}

Dataset Dataset::OwnExamples(std::vector<int64_t> counts) const {
  Dataset d = *this;
  if (!counts.empty() && policy_ != AutoShardPolicy::kOff) {
    return d.WithError(InvalidArgument(
        "own examples: each worker goes through its own, so call "
        "AutoShard(kOff) before OwnExamples"));
  }
  for (const int64_t count : counts) {
    if (count >= 0 && count <= kMaxExamples) continue;
    return d.WithError(
        InvalidArgument("own examples: a worker has %" PRId64, count));
  }
  d.own_ = std::move(counts);
  return d;
}

Dataset Dataset::AutoShard(AutoShardPolicy policy) const {
  Dataset d = *this;
  d.policy_ = policy;
  if (policy != AutoShardPolicy::kOff) d.own_.clear();
  return d;
}

Status Dataset::status() const {
  RINGLET_RETURN_IF_ERROR(status_);
  if (source_ == nullptr) {
    return InvalidArgument(
        "the dataset has no source; make it by a reader, such as NpyDataset, "
        "or from a Source");
  }
  const std::string name = source_->name();
  if (batch_ == 0) {
    return InvalidArgument("%s: call Batch on the dataset", name.c_str());
  }
  if (size_ == 0) {
    return InvalidArgument("%s: no examples are left; give at least one",
                           name.c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckMemory());
  const bool enough = batches_cross_passes_ && passes_ < 0
                          ? true
                          : Remaining({0, 0}, !batches_cross_passes_) >= batch_;
  if (drop_remainder_ && !enough) {
    return InvalidArgument("%s: a batch of %" PRId64
                           " is never full with %" PRId64 " examples",
                           name.c_str(), batch_, size_);
  }
  return Status();
}

Status Dataset::CheckMemory() const {
  if (memory_ == 0) return Status();
  const int64_t num_examples = ShuffleBlocks(*this, 1).examples();
  const int64_t batch = std::min(batch_, size_);
  if (num_examples >= batch) return Status();
  const int64_t bytes_per_example = example_bytes_ + ShuffleBlocks::kListBytes;
  return InvalidArgument(
      "%s: a memory of %" PRId64 " bytes holds %" PRId64 " examples of %" PRId64
      " bytes, and a batch has %" PRId64 "; give at least %" PRId64
      " bytes, or a smaller batch",
      source_->name().c_str(), memory_, num_examples, bytes_per_example, batch,
      bytes_per_example * batch);
}

bool Dataset::HasReplicaStreams(int replicas) const {
  return replicas > 1 && source_ != nullptr &&
         (policy_ == AutoShardPolicy::kOff ||
          ReplicaStreams(*this, replicas).by_file());
}

int64_t Dataset::Remaining(const DataPosition& at, bool of_pass) const {
  const int64_t left = size_ - at.used;
  if (of_pass) return left;
  if (passes_ < 0) return kEndless;
  return left + (passes_ - 1 - at.pass % passes_) * size_;
}

int64_t Dataset::steps(int replicas) const {
  if (passes_ < 0 || batch_ == 0) return -1;
  if (HasReplicaStreams(replicas)) {
    return ReplicaStreams(*this, replicas).StepsOfPass() * passes_;
  }
  const int64_t examples = batches_cross_passes_ ? size_ * passes_ : size_;
  const int64_t steps =
      drop_remainder_ ? examples / batch_ : (examples + batch_ - 1) / batch_;
  return batches_cross_passes_ ? steps : steps * passes_;
}

Status Dataset::CheckStart(const DataPosition& at, int replicas) const {
  RINGLET_RETURN_IF_ERROR(status());
  const std::string name = source_->name();
  if (!HasReplicaStreams(replicas)) {
    if (at.pass >= 0 && at.pass < kMaxExamples && at.used >= 0 &&
        at.used < size_) {
      return Status();
    }
    return InvalidArgument("%s: position %" PRId64 " of pass %" PRId64
                           " is outside of %" PRId64 " examples",
                           name.c_str(), at.used, at.pass, size_);
  }
  if (!own_.empty() && own_.size() != static_cast<size_t>(replicas)) {
    return InvalidArgument(
        "%s: the own examples of %zu workers for %d replicas; give a number "
        "for each",
        name.c_str(), own_.size(), replicas);
  }
  const ReplicaStreams streams(*this, replicas);
  if (streams.by_file() && files_->size() < static_cast<size_t>(replicas)) {
    const std::string files = files_->size() <= 1
                                  ? "one file"
                                  : std::to_string(files_->size()) + " files";
    return InvalidArgument(
        "%s: %s cannot be divided among %d replicas; give at least one file "
        "for each, or take the policy DATA (auto_shard_policy), which divides "
        "the examples",
        name.c_str(), files.c_str(), replicas);
  }
  const int64_t steps = streams.StepsOfPass();
  if (steps == 0) {
    return InvalidArgument(
        "%s: a batch of %" PRId64
        " is never full: each of %d replicas has too few examples",
        name.c_str(), batch_, replicas);
  }
  const int64_t part = FullPart(replicas);
  if (at.pass < 0 || at.pass >= kMaxExamples || at.used < 0 ||
      at.used % part != 0 || at.used / part >= steps) {
    return InvalidArgument(
        "%s: no step of pass %" PRId64 " begins at position %" PRId64
        " for %d replicas; with the policies FILE and OFF a run continues only "
        "with the same number of replicas and the same batch size",
        name.c_str(), at.pass, at.used, replicas);
  }
  return Status();
}

int64_t Dataset::LargestPart(int replicas) const {
  int64_t max_examples = size_;
  if (HasReplicaStreams(replicas)) {
    max_examples = 0;
    const int streams = own_.empty() ? replicas : static_cast<int>(own_.size());
    for (int r = 0; r < streams; ++r) {
      max_examples =
          std::max(max_examples, ReplicaStreams(*this, replicas).Size(r));
    }
  } else if (batches_cross_passes_) {
    max_examples = passes_ < 0 ? kEndless : size_ * passes_;
  }
  return (std::min(batch_, max_examples) + replicas - 1) / replicas;
}

DataPosition Dataset::Advance(const DataPosition& at, int64_t examples) const {
  const int64_t used = at.used + examples;
  return {at.pass + used / size_, used % size_};
}

BatchPlan Dataset::Plan(const DataPosition& at, int replica,
                        int replicas) const {
  if (HasReplicaStreams(replicas)) {
    return ReplicaStreams(*this, replicas).Plan(at, replica);
  }
  RINGLET_CHECK(at.pass >= 0 && at.used >= 0 && at.used < size_);
  BatchPlan plan;
  plan.global_count = std::min(batch_, Remaining(at, !batches_cross_passes_));
  const int64_t piece = (plan.global_count + replicas - 1) / replicas;
  plan.first = std::min(plan.global_count, piece * replica);
  plan.count = std::min(piece, plan.global_count - plan.first);
  // With drop_remainder, a rest without a whole batch is skipped.
  const int64_t remaining = Remaining(at, !batches_cross_passes_);
  const int64_t after =
      remaining == kEndless ? kEndless : remaining - plan.global_count;
  const bool over = after == 0 || (drop_remainder_ && after < batch_);
  plan.next = Advance(at, over ? remaining : plan.global_count);
  plan.last = over && passes_ > 0 && plan.next.pass % passes_ == 0;
  return plan;
}

int64_t Dataset::ShuffledAt(uint64_t seed, int64_t pass, int64_t n, int64_t i,
                            int replicas) const {
  if (!shuffle_) return i;
  return memory_ == 0
             ? Permute(seed, pass, n, i)
             : ShuffleBlocks(*this, replicas).ExampleAt(seed, pass, n, i);
}

int64_t Dataset::ExampleAt(const DataPosition& at, int64_t k, int replica,
                           int replicas) const {
  if (HasReplicaStreams(replicas)) {
    return ReplicaStreams(*this, replicas).ExampleAt(at.pass, k, replica);
  }
  const DataPosition p = Advance(at, k);
  return first_ + ShuffledAt(seed_, p.pass, size_, p.used, replicas) * stride_;
}

int64_t Dataset::files_checksum() const {
  uint64_t sum = 0;
  if (files_) {
    for (const int64_t start : *files_) {
      sum = Mix(sum + static_cast<uint64_t>(start) + 1);
    }
  }
  return static_cast<int64_t>(sum >> 1);
}

}  // namespace ringlet
