// DatasetParts: the source and the settings of a Dataset, and its plans of
// batches.

#ifndef RINGLET_CORE_DATA_DATASET_PARTS_H_
#define RINGLET_CORE_DATA_DATASET_PARTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/status.h"

namespace ringlet {

// One replica's part of one step's batch.
struct BatchPlan {
  int64_t global_count = 0;  // examples of all replicas, >= 1
  int64_t first = 0;         // this replica's first, for ExampleAt
  int64_t count = 0;         // this replica's examples; may be 0
  DataPosition next;         // the position after this batch
  bool last = false;         // no batch follows before the data begin again
};

struct DatasetParts {
  // Returns the first error. No source and no Batch are errors too.
  Status Check() const;
  // Check(), or an error if `replicas` cannot divide the dataset from
  // `position` on.
  Status CheckStart(const DataPosition& position, int replicas) const;

  bool endless() const { return passes < 0; }
  bool ordered() const { return shuffle || passes != 1 || batch != 0; }
  int64_t shuffle_seed() const {  // -1 if not shuffled
    return shuffle ? static_cast<int64_t>(seed & INT64_MAX) : -1;
  }
  // A checksum of the numbers of examples in the files.
  int64_t FilesChecksum() const;
  // True if each replica has its own stream of examples: kFile and kOff.
  bool HasReplicaStreams(int replicas) const;
  // Batches in all passes; -1 if endless.
  int64_t Steps(int replicas) const;

  // A replica's examples of a full batch; the last replicas may get fewer.
  int64_t FullPart(int replicas) const {
    return (batch + replicas - 1) / replicas;
  }
  // FullPart, or less if the data have fewer examples than a batch.
  int64_t LargestPart(int replicas) const;
  // The part of a replica; the last ones may be smaller or empty. Requires that
  // CheckStart(position, replicas) is OK.
  BatchPlan Plan(const DataPosition& position, int replica, int replicas) const;
  // The index in the source of example k of the batch at `position`, with k in
  // [first, first + count) of the plan.
  int64_t ExampleAt(const DataPosition& position, int64_t k, int replica,
                    int replicas) const;
  // Number i of n examples in the order of a pass.
  int64_t ShuffledAt(uint64_t order_seed, int64_t pass, int64_t n, int64_t i,
                     int replicas) const;

  Status status;
  std::shared_ptr<Source> source;
  // The first of the source's examples, after Skip and Shard, and the distance
  // to the next.
  int64_t first = 0, stride = 1;
  int64_t size = 0;  // examples of one pass
  bool shuffle = false;
  uint64_t seed = 0;
  int64_t passes = 1;  // negative means endless
  bool batches_cross_passes = false;
  int64_t batch = 0;
  bool drop_remainder = false;
  Scale scale;
  int64_t memory = 0;         // zero if Memory was not called
  int64_t example_bytes = 0;  // with memory: bytes of x and y in the source
  bool has_file_per_example =
      false;  // with memory: each example has its own file
  std::shared_ptr<const std::vector<float>> weights;  // null if all are 1
  int64_t weights_per_example = 1;
  AutoShardPolicy policy = AutoShardPolicy::kData;
  std::shared_ptr<const std::vector<int64_t>> files;  // FileStarts
  std::vector<int64_t> own_example_counts;            // OwnExamples

 private:
  Status CheckMemory() const;
  DataPosition Advance(const DataPosition& position, int64_t examples) const;
  // Examples from `position` to the end of the passes, or of its pass if
  // batches do not cross passes. INT64_MAX if endless.
  int64_t Remaining(const DataPosition& position, bool of_pass) const;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_DATASET_PARTS_H_
