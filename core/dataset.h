// Dataset: which examples, in which order, in which batches.
//
// Public. A cheap value over a Source, refined as tf.data is:
//
//   IdxDataset(images, labels).Map(Scale(1 / 255.f))
//       .Shuffle(/*seed=*/1).Repeat().Batch(64)
//
// The order of a pass is a keyed permutation of (seed, pass), so the batch a
// worker sees is a pure function of (dataset, position, rank, world): nothing
// has to be remembered but the position. The first error is kept and reported
// by status() and by whoever takes the dataset.

#ifndef RINGLET_CORE_DATASET_H_
#define RINGLET_CORE_DATASET_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "source.h"
#include "status.h"

namespace ringlet {

// Where the whole job is in its data: the pass, counted from 0, and how many of
// its examples are used.
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
  int64_t first = 0;         // this rank's first, counted from the position
  int64_t count = 0;         // this rank's examples; may be 0
  DataPosition next;         // after this batch
  bool last = false;         // no batch follows before the data begin anew
};

class Dataset {
 public:
  Dataset() = default;  // none
  explicit Dataset(std::shared_ptr<Source> source);
  explicit Dataset(const Status& error) : status_(error) {}

  // Of the source's examples, in their order; before Shuffle.
  Dataset Skip(int64_t count) const;
  Dataset Take(int64_t count) const;
  // Every n-th, from number `index` on; before Shuffle.
  Dataset Shard(int64_t n, int64_t index) const;
  // Another order on every pass.
  Dataset Shuffle(uint64_t seed) const;
  // `times` passes, or without end. Before Batch, batches run across the
  // border of two passes; after it, a pass ends with a short batch.
  Dataset Repeat(int64_t times = -1) const;
  // Batches of `size` examples of the whole job. Without `drop_remainder` the
  // last one may be shorter.
  Dataset Batch(int64_t size, bool drop_remainder = false) const;
  Dataset Map(const Scale& scale) const;

  bool empty() const { return source_ == nullptr && status_.ok(); }
  // What is wrong, the lack of a source or of Batch included.
  Status status() const;

  const std::shared_ptr<Source>& source() const { return source_; }
  int64_t size() const { return size_; }  // examples of one pass
  int64_t batch_size() const { return batch_; }
  const Scale& scale() const { return scale_; }
  int64_t shuffle_seed() const {  // -1: not shuffled
    return shuffle_ ? static_cast<int64_t>(seed_ >> 1) : -1;
  }
  bool endless() const { return passes_ < 0; }
  // Batches from a beginning to the end; -1 where endless.
  int64_t steps() const;

  // The largest count that a rank of `world` may get.
  int64_t LargestPart(int world) const {
    return (batch_ + world - 1) / world;
  }
  // Global batches are cut into pieces of equal size, rounded up, in the order
  // of the ranks; the last ranks may get less. Only where status() is OK.
  BatchPlan Plan(const DataPosition& at, int rank, int world) const;
  // The source's number of the k-th example from `at` on.
  int64_t ExampleAt(const DataPosition& at, int64_t k) const;

 private:
  Dataset With(const Status& error) const;
  DataPosition Advance(const DataPosition& at, int64_t examples) const;
  // Examples from `at` to the end of its round of passes; of its pass where
  // batches do not cross. INT64_MAX where endless.
  int64_t Remaining(const DataPosition& at, bool of_pass) const;

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

}  // namespace ringlet

#endif  // RINGLET_CORE_DATASET_H_
