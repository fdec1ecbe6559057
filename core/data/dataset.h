// Dataset: which examples, in which order, in which batches.
//
// Public. A cheap value over a Source, refined as tf.data is:
//
//   IdxDataset(images, labels).Map(Scale(1 / 255.f))
//       .Shuffle(/*seed=*/1).Repeat().Batch(64)
//
// The order of a pass is a keyed permutation of (seed, pass), so the batch a
// rank sees is a pure function of (dataset, position, rank, world): nothing
// has to be remembered but the position. The first error is kept and reported
// by status() and by whoever takes the dataset.

#ifndef RINGLET_CORE_DATA_DATASET_H_
#define RINGLET_CORE_DATA_DATASET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "../base/status.h"
#include "source.h"

namespace ringlet {

// How a job's workers share a dataset; as tf.data.experimental.AutoShardPolicy.
// Here ranks of a world, and workers, are those of replicas, whoever computes
// them. One alone has all of it, whatever the policy.
enum class AutoShardPolicy : uint8_t {
  kAuto,  // kFile for a source of several files, else kData
  kFile,  // file i goes to worker i % world; at least one file each
  kData,  // each global batch is cut into a piece for every worker
  kOff,   // every worker goes through all the data, in an order of its own
};

// Where the whole job is in its data: the pass, counted from 0, and how much of
// it is used. With kData `used` counts examples of the whole job, and goes for
// any number of workers. With kFile and kOff it counts steps, each as
// LargestPart(world) examples of one worker, and goes for that world only.
struct DataPosition {
  int64_t pass = 0;
  int64_t used = 0;
  bool operator==(const DataPosition& o) const {
    return pass == o.pass && used == o.used;
  }
};

// x becomes x * factor + offset.
struct Scale {
  Scale() = default;
  explicit Scale(float f, float o = 0) : factor(f), offset(o) {}
  float factor = 1;
  float offset = 0;
};

// One step's batch, as one rank sees it.
struct BatchPlan {
  int64_t global_count = 0;  // examples of all ranks, >= 1
  int64_t first = 0;         // this rank's first, for ExampleAt
  int64_t count = 0;         // this rank's examples; may be 0
  DataPosition next;         // after this batch
  bool last = false;         // no batch follows before the data begin anew
};

// What an example of a class counts; of one that is not named, 1.
using ClassWeights = std::map<int64_t, float>;

class Dataset {
 public:
  Dataset() = default;  // none
  explicit Dataset(std::shared_ptr<Source> source);
  explicit Dataset(const Status& error) : status_(error) {}

  // Of the source's examples, in their order; before Shuffle, Repeat and Batch.
  Dataset Skip(int64_t count) const;
  Dataset Take(int64_t count) const;
  // Every n-th, from number `index` on; before them too.
  Dataset Shard(int64_t n, int64_t index) const;
  // Another order on every pass.
  Dataset Shuffle(uint64_t seed) const;
  // `times` passes (of up to 2^60 examples in all), or without end. Before
  // Batch, batches run across the border of two passes; after it, a pass ends
  // with a short batch.
  Dataset Repeat(int64_t times = -1) const;
  // Batches of `size` examples of the whole job, whatever the number of its
  // replicas: one step, one update of the weights. N replicas (unless said
  // otherwise, one for each worker) get size / N each, rounded up, the last
  // ones less (some none, where the batch is short or size < N); so they follow
  // one with this batch, and an epoch has as many steps (with kFile and kOff:
  // see AutoShard). For `b` examples each:
  // Batch(b * strategy.num_replicas_in_sync()), and a learning rate for that.
  //
  // The same number is meant by Keras's batch_size in fit and by
  // experimental_distribute_dataset. Other: distribute_datasets_from_function,
  // where it is one worker's. gradient_accumulation_steps make an update of as
  // many batches.
  //
  // Without `drop_remainder` the last batch of a pass may be shorter; its mean
  // is over the examples that it has.
  Dataset Batch(int64_t size, bool drop_remainder = false) const;
  Dataset Map(const Scale& scale) const;
  // What each example of the source counts in the loss and in weighted metrics,
  // as Keras's sample_weight: one finite number an example of the source, in
  // its order, whatever Skip, Take and Shard leave. The loss is still divided
  // by the number of examples.
  Dataset SampleWeight(std::vector<float> weights) const;
  // kData where it is not called. With kFile and kOff each worker batches its
  // own examples by the global size and cuts each batch into `world` pieces,
  // rounded up, of which it trains on one a step; empty ones are left out.
  // A worker whose examples are used up has empty parts until the longest ends
  // its pass, so batches do not run across the border of two passes. Every
  // worker opens all the files; Skip, Take and Shard count over all of them.
  Dataset AutoShard(AutoShardPolicy policy) const;
  // The source has the examples of this worker alone, which nobody else can
  // read; counts[r] are those of replica r's. After AutoShard(kOff), and with a
  // worker for each replica.
  Dataset OwnExamples(std::vector<int64_t> counts) const;

  bool empty() const { return source_ == nullptr && status_.ok(); }
  // What is wrong, the lack of a source or of Batch included.
  Status status() const;

  const std::shared_ptr<Source>& source() const { return source_; }
  int64_t size() const { return size_; }  // examples of one pass
  int64_t batch_size() const { return batch_; }
  const Scale& scale() const { return scale_; }
  // Of each example of the source; null: each is 1.
  const std::vector<float>* sample_weight() const { return weights_.get(); }
  int64_t shuffle_seed() const {  // -1: not shuffled
    return shuffle_ ? static_cast<int64_t>(seed_ & INT64_MAX) : -1;
  }
  // Of the source's examples: the first, and from each to the next.
  int64_t first() const { return first_; }
  int64_t stride() const { return stride_; }
  int64_t passes() const { return passes_; }  // < 0: endless
  bool endless() const { return passes_ < 0; }
  // Batches run across the border of two passes.
  bool crosses() const { return crosses_; }
  bool drop_remainder() const { return drop_remainder_; }
  AutoShardPolicy policy() const { return policy_; }
  // OwnExamples; empty: all workers can read all.
  const std::vector<int64_t>& own_examples() const { return own_; }
  // Whether the source is that of replica `rank` alone, where it is to be.
  Status CheckOwn(int rank, int parts) const;
  // Alike where the files of two sources hold as many examples each.
  int64_t files_checksum() const;
  // Whether each worker has a stream of examples of its own: kFile and kOff.
  bool HasOwn(int world) const;
  // Batches from a beginning to the end; -1 where endless.
  int64_t steps(int world) const;
  // Whether `world` workers can share the dataset so, beginning at `at`;
  // includes status().
  Status CheckStart(const DataPosition& at, int world) const;

  // The largest count that a rank of `world` may get.
  int64_t LargestPart(int world) const { return (batch_ + world - 1) / world; }
  // With kData global batches are cut into pieces of equal size, rounded up, in
  // the order of the ranks; the last ranks may get less. Only where
  // CheckStart(at, world) is OK.
  BatchPlan Plan(const DataPosition& at, int rank, int world) const;
  // The source's number of an example of the batch at `at`; k is from the
  // plan's `first` up to `first + count`.
  int64_t ExampleAt(const DataPosition& at, int64_t k, int rank,
                    int world) const;

 private:
  Dataset With(const Status& error) const;
  bool ordered() const { return shuffle_ || passes_ != 1 || batch_ != 0; }
  DataPosition Advance(const DataPosition& at, int64_t examples) const;
  // Examples from `at` to the end of its round of passes; of its pass where
  // batches do not cross. INT64_MAX where endless.
  int64_t Remaining(const DataPosition& at, bool of_pass) const;
  BatchPlan PlanOfOwn(const DataPosition& at, int rank, int world) const;

  bool ByFile() const;
  int64_t OwnSize(int rank, int world) const;  // of one pass
  int64_t OwnSteps(int rank, int world) const;
  int64_t StepsOfPass(int world) const;  // of the longest
  // This rank's piece number `step` of its pass: where it begins, and its size.
  void OwnPiece(int64_t step, int rank, int world, int64_t* first,
                int64_t* count) const;
  int64_t OwnExample(int64_t pass, int64_t i, int rank, int world) const;
  // The dataset's first example, before Shuffle, of file `file` or a later one.
  int64_t FileBegin(size_t file) const;

  Status status_;
  std::shared_ptr<Source> source_;
  int64_t first_ = 0;   // of the source's examples, after Skip and Shard
  int64_t stride_ = 1;  // Shard
  int64_t size_ = 0;
  bool shuffle_ = false;
  uint64_t seed_ = 0;
  int64_t passes_ = 1;  // < 0: endless
  bool crosses_ = false;
  int64_t batch_ = 0;
  bool drop_remainder_ = false;
  Scale scale_;
  std::shared_ptr<const std::vector<float>> weights_;
  AutoShardPolicy policy_ = AutoShardPolicy::kData;
  std::shared_ptr<const std::vector<int64_t>> files_;  // FileStarts
  std::vector<int64_t> own_;                           // OwnExamples
};

// Number i of a permutation of [0, n) that depends on (seed, pass).
int64_t Permute(uint64_t seed, int64_t pass, int64_t n, int64_t i);

// Examples in memory: x and y hold `count` of them, one after another. Borrowed
// spans outlive the source. `y` may be null.
std::shared_ptr<Source> MemorySource(const ExampleSpec& x_spec, const void* x,
                                     const ExampleSpec& y_spec, const void* y,
                                     int64_t count);
// The sources' examples one after another; all of one type and shape.
Dataset Concatenate(const std::vector<std::shared_ptr<Source>>& sources);
// For models of several inputs or outputs: the x of number i of these datasets
// is input i, and the x of number i of `y` what the model's i-th output with a
// loss is to give. All have as many examples, in one order; each one's Map
// scales it. What else is refined is the result.
//
//   Zip({images.Map(Scale(1 / 255.f)), numbers}, {kinds, ages}).Shuffle(1)
Dataset Zip(const std::vector<Dataset>& x, const std::vector<Dataset>& y);

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_DATASET_H_
