// DatasetLoader: the BatchLoader that Model::OpenLoader opens.

#ifndef RINGLET_CORE_DATA_DATASET_LOADER_H_
#define RINGLET_CORE_DATA_DATASET_LOADER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "../base/thread.h"
#include "batch_cursor.h"
#include "example_buffer.h"
#include "ringlet/dataset.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

class DatasetLoader final : public BatchLoader {
 public:
  // The targets of one output of the model with a loss.
  struct TargetsOf {
    int64_t count = 1;                // targets of each example
    bool classes = true;              // they are class numbers
    int64_t num_classes = 0;          // if positive, classes are below it
    std::optional<int> ignore_class;  // may be any number
    int64_t rows = 1;                 // see ExampleWeights
  };
  struct Options {
    Dataset dataset;
    DataPosition start;
    // The loader reads cursor.parts of the cursor.world parts of each global
    // batch, from part cursor.rank on.
    BatchCursor::Options cursor;
    // Memory for LargestPart(replicas) examples of x (floats) and of the
    // targets (4 bytes each). Outlives the loader.
    float* x = nullptr;
    void* y = nullptr;
    std::vector<Shape> x_shapes;     // the shapes of the model's inputs
    bool read_targets = true;        // if false, y is null
    bool read_examples = true;       // if false, x is null
    std::vector<TargetsOf> outputs;  // the outputs with a loss
    // If not empty, targets are class numbers, or have one value for each
    // class.
    ClassWeights class_weight;
    bool background = true;
    int threads = 1;  // they read examples with a file each, with memory()
    bool augments = false;  // examples are for training
    // The loader releases it at its end, so that the owner of the buffers can
    // use them again.
    std::shared_ptr<void> lease;
  };

  static Status Open(const Options& options,
                     std::unique_ptr<BatchLoader>* loader);
  ~DatasetLoader() override;
  DatasetLoader(const DatasetLoader&) = delete;
  DatasetLoader& operator=(const DatasetLoader&) = delete;

  Status Next(Batch* batch) override;
  Status Skip(int64_t steps, Batch* batch, int64_t* examples) override;
  void RewindRound() override;
  void RewindStep() override;

 private:
  explicit DatasetLoader(const Options& options);
  Status Read();
  Status Convert();
  Status ConvertX(int64_t count, float* x);
  Status ConvertInputs(int64_t count, float* x);
  Status ConvertTargets(int64_t count, void* y);
  Status ConvertTargets(const TargetsOf& targets, int64_t first, int64_t count,
                        void* y);
  Status CheckValue(double value, float scaled, int64_t example,
                    int64_t number) const;
  void FillWeights(int64_t count, const void* y);
  int64_t ClassOf(const void* y, int64_t i) const;
  void Loop();
  // Reads the batch at cursor_, which the caller has moved.
  void Continue();
  Status ReadExamples(void* x, void* y);
  Status MakeBuffer();
  void NextGroup(int64_t max_examples, bool needed,
                 std::vector<int64_t>* index);

  const Options options_;
  const ExampleSpec x_spec_, y_spec_;
  BatchCursor cursor_;                // the cursor of the next read
  BatchCursor read_cursor_;           // the cursor of the last read
  BatchPlan plan_;                    // the plan of the last read
  std::vector<int64_t> indices_;      // examples of the last read
  std::vector<unsigned char> raw_x_;  // empty if read in place
  std::vector<unsigned char> raw_y_;
  std::vector<float> weights_;  // empty if each is 1
  Batch batch_;                 // the caller's batch
  BatchCursor batch_cursor_;    // the cursor of the caller's batch
  Status result_;

  // With Dataset::Memory(). Only the thread that reads uses both.
  std::unique_ptr<ExampleBuffer> buffer_;
  BatchCursor ahead_;         // it is after the examples given to the buffer
  bool has_rewound_ = false;  // true if it rewound since the last read
  int64_t skipped_ = 0;       // examples skipped since the last read

  // For the background thread. It owns the read data while wanted_ is true.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false;
  bool at_end_ = false;  // no batch is read ahead of the next call
  bool stop_ = false;
  std::unique_ptr<Thread> thread_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_DATASET_LOADER_H_
