// Everything is computed from (seed, position, replica, replicas) and nothing
// is stored: a resume, another number of replicas and another machine find the
// same batches. Positions come from files, so CheckStart checks them before
// use. Products of counts are below 2^60. replica_streams.h has the policies
// kFile and kOff.

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <utility>

#include "../base/check.h"
#include "dataset_parts.h"
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

Dataset::Dataset(std::shared_ptr<Source> source) {
  DatasetParts d;
  d.size = source->size();
  d.files = std::make_shared<std::vector<int64_t>>(source->FileStarts());
  d.source = std::move(source);
  if (!d.files->empty() &&
      (d.files->front() != 0 || d.files->back() > d.size ||
       !std::is_sorted(d.files->begin(), d.files->end()))) {
    d.status = InvalidArgument(
        "%s: its FileStarts do not rise from 0 to its %" PRId64 " examples",
        d.source->name().c_str(), d.size);
  }
  *this = Dataset(d);
}

Dataset::Dataset(const DatasetParts& parts)
    : parts_(std::make_shared<const DatasetParts>(parts)) {}

Dataset::Dataset(const Status& error) { *this = WithError(error); }

const DatasetParts& Dataset::parts() const {
  static const DatasetParts* const none = new DatasetParts;  // never destroyed
  return parts_ ? *parts_ : *none;
}

Dataset Dataset::WithError(const Status& error) const {
  DatasetParts d = parts();
  if (d.status.ok()) d.status = error;
  return Dataset(d);
}

bool Dataset::empty() const {
  return source() == nullptr && parts().status.ok();
}
Status Dataset::status() const { return parts().Check(); }
const std::shared_ptr<Source>& Dataset::source() const {
  return parts().source;
}
int64_t Dataset::size() const { return parts().size; }
int64_t Dataset::batch_size() const { return parts().batch; }
const Scale& Dataset::scale() const { return parts().scale; }
int64_t Dataset::steps(int replicas) const { return parts().Steps(replicas); }

Dataset Dataset::Skip(int64_t count) const {
  if (parts().ordered()) return WithError(TooLate("Skip"));
  if (count < 0) {
    return WithError(InvalidArgument("Skip(%" PRId64 "): must be >= 0", count));
  }
  DatasetParts d = parts();
  count = std::min(count, d.size);
  d.first += count * d.stride;
  d.size -= count;
  return Dataset(d);
}

Dataset Dataset::Take(int64_t count) const {
  if (parts().ordered()) return WithError(TooLate("Take"));
  if (count < 0) {
    return WithError(InvalidArgument("Take(%" PRId64 "): must be >= 0", count));
  }
  DatasetParts d = parts();
  d.size = std::min(d.size, count);
  return Dataset(d);
}

Dataset Dataset::Shard(int64_t n, int64_t index) const {
  if (parts().ordered()) return WithError(TooLate("Shard"));
  if (n < 1 || index < 0 || index >= n) {
    return WithError(InvalidArgument(
        "Shard(%" PRId64 ", %" PRId64 "): needs 0 <= index < n", n, index));
  }
  DatasetParts d = parts();
  d.size = d.size > index ? (d.size - index - 1) / n + 1 : 0;
  // Only indices in the source are computed, so that none overflows.
  if (d.size > 0) d.first += index * d.stride;
  if (d.size > 1) d.stride *= n;
  return Dataset(d);
}

Dataset Dataset::Shuffle(uint64_t seed) const {
  DatasetParts d = parts();
  d.shuffle = true;
  d.seed = seed;
  return Dataset(d);
}

Dataset Dataset::Repeat(int64_t times) const {
  if (times == 0 || times < -1) {
    return WithError(InvalidArgument(
        "Repeat(%" PRId64 "): must be at least 1, or -1 for no end", times));
  }
  if (parts().passes != 1) {
    return WithError(InvalidArgument("Repeat was called twice; call it once"));
  }
  if (parts().size > 0 && times > kMaxExamples / parts().size) {
    return WithError(
        InvalidArgument("Repeat(%" PRId64 ") of %" PRId64
                        " examples: more than 2^60 in all; -1 is for "
                        "no end",
                        times, parts().size));
  }
  DatasetParts d = parts();
  d.passes = times;
  d.batches_cross_passes = d.batch == 0;
  return Dataset(d);
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
  if (parts().batch != 0) {
    return WithError(InvalidArgument("Batch was called twice; call it once"));
  }
  DatasetParts d = parts();
  d.batch = size;
  d.drop_remainder = drop_remainder;
  return Dataset(d);
}

Dataset Dataset::Memory(int64_t bytes) const {
  if (parts().source == nullptr) return *this;
  if (bytes < 1) {
    return WithError(
        InvalidArgument("Memory(%" PRId64 "): must be at least 1", bytes));
  }
  DatasetParts d = parts();
  d.memory = bytes;
  d.example_bytes =
      static_cast<int64_t>(d.source->x().bytes() + d.source->y().bytes());
  d.has_file_per_example =
      d.source->size() > 0 && !d.source->ExamplePath(0).empty();
  return Dataset(d);
}

Dataset Dataset::Map(const Scale& scale) const {
  DatasetParts d = parts();
  d.scale.factor = d.scale.factor * scale.factor;
  d.scale.offset = d.scale.offset * scale.factor + scale.offset;
  return Dataset(d);
}

Dataset Dataset::SampleWeight(std::vector<float> weights,
                              int64_t weights_per_example) const {
  if (parts().source == nullptr) return *this;
  const std::string name = parts().source->name();
  const auto count = static_cast<int64_t>(weights.size());
  if (weights_per_example < 1 || count % weights_per_example != 0 ||
      count / weights_per_example != parts().source->size()) {
    return WithError(
        InvalidArgument("%s: %zu sample weights for %" PRId64
                        " examples; give %" PRId64 " for each",
                        name.c_str(), weights.size(), parts().source->size(),
                        std::max<int64_t>(weights_per_example, 1)));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i])) continue;
    return WithError(InvalidArgument(
        "%s: the sample weight of example %zu is %f; must be a finite number",
        name.c_str(), i / static_cast<size_t>(weights_per_example),
        double{weights[i]}));
  }
  DatasetParts d = parts();
  d.weights_per_example = weights_per_example;
  d.weights = std::make_shared<std::vector<float>>(std::move(weights));
  return Dataset(d);
}

Dataset Dataset::OwnExamples(std::vector<int64_t> counts) const {
  DatasetParts d = parts();
  if (!counts.empty() && d.policy != AutoShardPolicy::kOff) {
    return WithError(InvalidArgument(
        "own examples: each worker goes through its own, so call "
        "AutoShard(kOff) before OwnExamples"));
  }
  for (const int64_t count : counts) {
    if (count >= 0 && count <= kMaxExamples) continue;
    return WithError(InvalidArgument("own examples: a worker has %" PRId64
                                     "; give a count from 0 to %" PRId64,
                                     count, kMaxExamples));
  }
  d.own_example_counts = std::move(counts);
  return Dataset(d);
}

Dataset Dataset::AutoShard(AutoShardPolicy policy) const {
  DatasetParts d = parts();
  d.policy = policy;
  if (policy != AutoShardPolicy::kOff) d.own_example_counts.clear();
  return Dataset(d);
}

Status DatasetParts::Check() const {
  RINGLET_RETURN_IF_ERROR(status);
  if (source == nullptr) {
    return InvalidArgument(
        "the dataset has no source; make it by a reader, such as NpyDataset, "
        "or from a Source");
  }
  const std::string name = source->name();
  if (batch == 0) {
    return InvalidArgument("%s: call Batch on the dataset", name.c_str());
  }
  if (size == 0) {
    return InvalidArgument("%s: no examples are left; give at least one",
                           name.c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckMemory());
  const bool enough = batches_cross_passes && passes < 0
                          ? true
                          : Remaining({0, 0}, !batches_cross_passes) >= batch;
  if (drop_remainder && !enough) {
    return InvalidArgument("%s: a batch of %" PRId64
                           " is never full with %" PRId64 " examples",
                           name.c_str(), batch, size);
  }
  return Status();
}

Status DatasetParts::CheckMemory() const {
  if (memory == 0) return Status();
  const int64_t num_examples = ShuffleBlocks(*this, 1).examples();
  const int64_t full_batch = std::min(batch, size);
  if (num_examples >= full_batch) return Status();
  const int64_t bytes_per_example = example_bytes + ShuffleBlocks::kListBytes;
  return InvalidArgument(
      "%s: a memory of %" PRId64 " bytes holds %" PRId64 " examples of %" PRId64
      " bytes, and a batch has %" PRId64 "; give at least %" PRId64
      " bytes, or a smaller batch",
      source->name().c_str(), memory, num_examples, bytes_per_example,
      full_batch, bytes_per_example * full_batch);
}

bool DatasetParts::HasReplicaStreams(int replicas) const {
  return replicas > 1 && source != nullptr &&
         (policy == AutoShardPolicy::kOff ||
          ReplicaStreams(*this, replicas).by_file());
}

int64_t DatasetParts::Remaining(const DataPosition& position,
                                bool of_pass) const {
  const int64_t pass_remaining = size - position.used;
  if (of_pass) return pass_remaining;
  if (passes < 0) return kEndless;
  return pass_remaining + (passes - 1 - position.pass % passes) * size;
}

int64_t DatasetParts::Steps(int replicas) const {
  if (passes < 0 || batch == 0) return -1;
  if (HasReplicaStreams(replicas)) {
    return ReplicaStreams(*this, replicas).StepsOfPass() * passes;
  }
  const int64_t examples = batches_cross_passes ? size * passes : size;
  const int64_t steps =
      drop_remainder ? examples / batch : (examples + batch - 1) / batch;
  return batches_cross_passes ? steps : steps * passes;
}

Status DatasetParts::CheckStart(const DataPosition& position,
                                int replicas) const {
  RINGLET_RETURN_IF_ERROR(Check());
  const std::string name = source->name();
  if (!HasReplicaStreams(replicas)) {
    if (position.pass >= 0 && position.pass < kMaxExamples &&
        position.used >= 0 && position.used < size) {
      return Status();
    }
    return InvalidArgument("%s: position %" PRId64 " of pass %" PRId64
                           " is outside of %" PRId64 " examples",
                           name.c_str(), position.used, position.pass, size);
  }
  if (!own_example_counts.empty() &&
      own_example_counts.size() != static_cast<size_t>(replicas)) {
    return InvalidArgument(
        "%s: the own examples of %zu workers for %d replicas; give a number "
        "for each",
        name.c_str(), own_example_counts.size(), replicas);
  }
  const ReplicaStreams streams(*this, replicas);
  if (streams.by_file() && files->size() < static_cast<size_t>(replicas)) {
    const std::string file_count =
        files->size() <= 1 ? "one file"
                           : std::to_string(files->size()) + " files";
    return InvalidArgument(
        "%s: %s cannot be divided among %d replicas; give at least one file "
        "for each, or take the policy DATA (auto_shard_policy), which divides "
        "the examples",
        name.c_str(), file_count.c_str(), replicas);
  }
  const int64_t steps = streams.StepsOfPass();
  if (steps == 0) {
    return InvalidArgument(
        "%s: a batch of %" PRId64
        " is never full: each of %d replicas has too few examples",
        name.c_str(), batch, replicas);
  }
  const int64_t part = FullPart(replicas);
  if (position.pass < 0 || position.pass >= kMaxExamples || position.used < 0 ||
      position.used % part != 0 || position.used / part >= steps) {
    return InvalidArgument(
        "%s: no step of pass %" PRId64 " begins at position %" PRId64
        " for %d replicas; with the policies FILE and OFF a run continues only "
        "with the same number of replicas and the same batch size",
        name.c_str(), position.pass, position.used, replicas);
  }
  return Status();
}

int64_t DatasetParts::LargestPart(int replicas) const {
  int64_t max_examples = size;
  if (HasReplicaStreams(replicas)) {
    max_examples = 0;
    const int streams = own_example_counts.empty()
                            ? replicas
                            : static_cast<int>(own_example_counts.size());
    for (int r = 0; r < streams; ++r) {
      max_examples =
          std::max(max_examples, ReplicaStreams(*this, replicas).Size(r));
    }
  } else if (batches_cross_passes) {
    max_examples = passes < 0 ? kEndless : size * passes;
  }
  return (std::min(batch, max_examples) + replicas - 1) / replicas;
}

DataPosition DatasetParts::Advance(const DataPosition& position,
                                   int64_t examples) const {
  const int64_t used = position.used + examples;
  return {position.pass + used / size, used % size};
}

BatchPlan DatasetParts::Plan(const DataPosition& position, int replica,
                             int replicas) const {
  if (HasReplicaStreams(replicas)) {
    return ReplicaStreams(*this, replicas).Plan(position, replica);
  }
  RINGLET_CHECK(position.pass >= 0 && position.used >= 0 &&
                position.used < size);
  BatchPlan plan;
  plan.global_count =
      std::min(batch, Remaining(position, !batches_cross_passes));
  const int64_t piece = (plan.global_count + replicas - 1) / replicas;
  plan.first = std::min(plan.global_count, piece * replica);
  plan.count = std::min(piece, plan.global_count - plan.first);
  // With drop_remainder, a rest without a whole batch is skipped.
  const int64_t remaining = Remaining(position, !batches_cross_passes);
  const int64_t after =
      remaining == kEndless ? kEndless : remaining - plan.global_count;
  const bool ends_pass = after == 0 || (drop_remainder && after < batch);
  plan.next = Advance(position, ends_pass ? remaining : plan.global_count);
  plan.last = ends_pass && passes > 0 && plan.next.pass % passes == 0;
  return plan;
}

int64_t DatasetParts::ShuffledAt(uint64_t order_seed, int64_t pass, int64_t n,
                                 int64_t i, int replicas) const {
  if (!shuffle) return i;
  return memory == 0
             ? Permute(order_seed, pass, n, i)
             : ShuffleBlocks(*this, replicas).ExampleAt(order_seed, pass, n, i);
}

int64_t DatasetParts::ExampleAt(const DataPosition& position, int64_t k,
                                int replica, int replicas) const {
  if (HasReplicaStreams(replicas)) {
    return ReplicaStreams(*this, replicas).ExampleAt(position.pass, k, replica);
  }
  const DataPosition p = Advance(position, k);
  return first + ShuffledAt(seed, p.pass, size, p.used, replicas) * stride;
}

int64_t DatasetParts::FilesChecksum() const {
  uint64_t sum = 0;
  if (files) {
    for (const int64_t start : *files) {
      sum = Mix(sum + static_cast<uint64_t>(start) + 1);
    }
  }
  return static_cast<int64_t>(sum >> 1);
}

}  // namespace ringlet
