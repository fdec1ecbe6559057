// BatchLoader: batches of a dataset, converted and in place.
//
// Public. Reads this rank's parts of each global batch, one after another, into
// the caller's buffer, as float32 x and as targets for the loss. In the
// background the next batch is read while the current one is worked on, in the
// types of the source, and converted when its turn comes, with the same bits.
// After the first batch nothing is allocated.
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
#include "dataset.h"

namespace ringlet {

class Thread;

struct Batch {
  int64_t count = 0;         // the part's examples; may be 0
  int64_t global_count = 0;  // those of all parts, >= 1
  const float* x = nullptr;  // (count, example shape), of each input in turn
  const void* y = nullptr;   // int32 classes or float targets; see losses.h
  const float* weights = nullptr;  // of the examples; null: each is 1
  DataPosition next;  // where the global batch after this one begins
  bool last = false;  // the data begin anew after this one
};

// Of Model::OpenLoader.
struct LoaderOptions {
  DataPosition start;
  bool background = true;  // the next batch is prepared by another thread
  bool targets = true;     // false: labels are not read
  bool examples = true;    // false: only labels are
  bool training = true;    // false: the model will not train on these batches
  // Of local updates: so many steps to a round, whose parts come replica after
  // replica, and the last round ends after `steps` (0: none does).
  int64_t round = 1;
  int64_t steps = 0;
  ClassWeights class_weight;  // see FitOptions
};

class BatchLoader {
 public:
  // Of one output of the model.
  struct TargetsOf {
    int64_t count = 1;        // for each example
    bool classes = true;      // they are class numbers
    int64_t num_classes = 0;  // > 0: these are below it
  };
  struct Options {
    Dataset dataset;
    DataPosition start;
    // Of the `world` parts of each global batch those that are read: so many
    // `parts` from number `rank` on.
    int rank = 0;
    int world = 1;
    int parts = 1;
    // See LoaderOptions.
    int64_t round = 1;
    int64_t steps = 0;
    // Memory for LargestPart(world) examples of x (floats) and of the targets
    // (4 bytes each). Outlives the loader.
    float* x = nullptr;
    void* y = nullptr;
    Shape x_shape;  // what the model takes
    // Of several inputs what each takes, instead of that.
    std::vector<Shape> x_shapes;
    bool read_targets = true;   // false: y stays null, and need not exist
    bool read_examples = true;  // false: x stays null, and need not exist
    int64_t targets = 1;        // for each example
    bool classes = true;        // targets are class numbers
    int64_t num_classes = 0;    // > 0: they are below it
    // Those of each of several outputs, instead of these three.
    std::vector<TargetsOf> outputs;
    // Where not empty: targets are a class number, or one value a class.
    ClassWeights class_weight;
    bool background = true;
    // Held as long as the loader lives, so that the owner of the buffers knows.
    std::shared_ptr<void> lease;
  };

  static Status Open(const Options& options,
                     std::unique_ptr<BatchLoader>* loader);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next part, in a buffer that is the caller's until the next call. After
  // those of a `last` batch the data begin anew. An error stays.
  Status Next(Batch* batch);
  // Passes over the next `steps` parts without their examples: *batch becomes
  // the last of them, with none, and their global counts are added to
  // *examples.
  Status Skip(int64_t steps, Batch* batch, int64_t* examples);
  // With rounds: that of the last part begins anew.
  void RoundAgain();
  // The next part will be the first of the global batch that the last one was
  // of. Not with rounds.
  void StepAgain();

 private:
  explicit BatchLoader(const Options& options);
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
  void BeginRound();
  void Advance();

  const Options options_;
  const ExampleSpec x_spec_, y_spec_;
  DataPosition at_;                   // of what is read next
  int part_ = 0;                      // of the own ones, that too
  DataPosition round_at_;             // where its round begins
  int64_t step_ = 0;                  // of the round, that too …
  int64_t round_ = 1;                 // … of so many
  int64_t rest_ = 0;                  // steps after it
  DataPosition read_at_;              // of what was read last
  DataPosition read_round_at_;        // where its round began,
  int64_t read_rest_ = 0;             // and the steps from there on
  BatchPlan plan_;                    // of that
  std::vector<int64_t> indices_;      // its examples
  std::vector<unsigned char> raw_x_;  // empty where they are read in place
  std::vector<unsigned char> raw_y_;
  std::vector<float> weights_;  // empty where each is 1
  Batch batch_;                 // the caller's
  DataPosition batch_at_;       // of that
  DataPosition batch_round_at_;
  int64_t batch_rest_ = 0;
  Status result_;

  // In the background. What was read is the thread's while a batch is `wanted`.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false;
  bool stop_ = false;
  std::unique_ptr<Thread> thread_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_BATCH_LOADER_H_
