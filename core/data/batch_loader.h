// BatchLoader: batches of a dataset, converted and in place.
//
// Public. Reads this rank's examples of each global batch into one of two
// caller's buffers, as float32 x and as targets for the loss. In the background
// the next batch is read while the current one is worked on, with the same
// bits. After the first batch nothing is allocated.
//
// Used by one thread.

#ifndef RINGLET_CORE_DATA_BATCH_LOADER_H_
#define RINGLET_CORE_DATA_BATCH_LOADER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "../base/status.h"
#include "../base/thread.h"
#include "dataset.h"

namespace ringlet {

struct Batch {
  int64_t count = 0;         // this rank's examples; may be 0
  int64_t global_count = 0;  // those of all ranks, >= 1
  const float* x = nullptr;  // (count, example shape)
  const void* y = nullptr;   // int32 classes or float targets; see losses.h
  DataPosition next;         // where the batch after this one begins
  bool last = false;         // the data begin anew after this one
};

class BatchLoader {
 public:
  struct Options {
    Dataset dataset;
    DataPosition start;
    int rank = 0;
    int world = 1;
    // Memory for LargestPart(world) examples of x (floats) and of the targets
    // (4 bytes each), twice. Outlives the loader.
    float* x[2] = {};
    void* y[2] = {};
    Shape x_shape;              // what the model takes
    bool read_targets = true;   // false: y stays null, and need not exist
    bool read_examples = true;  // false: x stays null, and need not exist
    int64_t targets = 1;        // for each example
    bool classes = true;        // targets are class numbers
    int64_t num_classes = 0;    // > 0: they are below it
    bool background = true;
    // Held as long as the loader lives, so that the owner of the buffers knows.
    std::shared_ptr<void> lease;
  };

  static Status Open(const Options& options,
                     std::unique_ptr<BatchLoader>* loader);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch, in a buffer that is the caller's until the next call. After
  // a `last` batch the data begin anew. An error stays.
  Status Next(Batch* batch);

 private:
  explicit BatchLoader(const Options& options);
  Status Fill(int slot);
  Status ConvertX(int64_t count, float* x);
  Status ConvertTargets(int64_t count, void* y);
  void Loop();

  const Options options_;
  const ExampleSpec x_spec_, y_spec_;
  DataPosition at_;
  std::vector<int64_t> indices_;
  std::vector<unsigned char> raw_x_;  // empty where x is float32 already
  std::vector<unsigned char> raw_y_;
  Batch batches_[2];
  Status results_[2];
  int current_ = 1;  // the slot the caller has

  // In the background. A slot is `wanted` until it is filled.
  std::mutex mutex_;
  std::condition_variable changed_;
  int wanted_ = -1;
  bool stop_ = false;
  Thread thread_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_BATCH_LOADER_H_
