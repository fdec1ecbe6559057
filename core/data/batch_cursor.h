// BatchCursor: the position of a BatchLoader, which moves to the next part of a
// step, or of a round of steps. Pure.
//
// The order in a round: all steps for one part, then all steps for the next
// part.

#ifndef RINGLET_CORE_DATA_BATCH_CURSOR_H_
#define RINGLET_CORE_DATA_BATCH_CURSOR_H_

#include <cstdint>
#include <vector>

#include "dataset_parts.h"

namespace ringlet {

class BatchCursor {
 public:
  struct Options {
    // See DatasetLoader::Options.
    int rank = 0;
    int world = 1;
    int parts = 1;
    // See LoaderOptions.
    int64_t round = 1;
    int64_t steps = 0;
  };

  BatchCursor(const DataPosition& start, const Options& options);

  const DataPosition& at() const { return at_; }
  // True if the position is after all `steps` or, without a number of steps,
  // after the last batch. Later parts need not be read.
  bool at_end() const { return at_end_; }
  // The part at this position.
  BatchPlan Plan(const Dataset& dataset) const;
  // Writes the examples of `plan`, which is the part at this position.
  void Examples(const Dataset& dataset, const BatchPlan& plan,
                int64_t* index) const;
  void Advance(const BatchPlan& plan);
  // Returns to the beginning of its round; without rounds, to the first part of
  // its global batch.
  void Rewind();

 private:
  void BeginRound();

  const Options* options_;  // outlives the cursor
  DataPosition at_;
  int part_ = 0;           // index among this rank's parts
  DataPosition round_at_;  // start of its round
  int64_t step_ = 0;       // index of its step in the round
  int64_t round_ = 1;      // steps of that round
  int64_t rest_ = 0;       // steps after it
  bool at_end_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_BATCH_CURSOR_H_
