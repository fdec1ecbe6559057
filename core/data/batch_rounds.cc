// Part of DatasetLoader: moves to the next part of a step, or of a round of
// steps, which may be skipped or repeated. dataset_loader.cc has the rules for
// threads.

#include <algorithm>

#include "../base/check.h"
#include "dataset_loader.h"

namespace ringlet {

void DatasetLoader::BeginRound() {
  if (rest_ == 0) rest_ = INT64_MAX;  // later parts are not read
  step_ = part_ = 0;
  round_at_ = at_;
  round_ = std::min(options_.round, rest_);
  rest_ -= round_;
}

// First all steps of a round for one part, then those for the next part.
void DatasetLoader::Advance() {
  read_round_at_ = round_at_;
  read_rest_ = rest_ + round_;
  at_ = plan_.next;
  if (++step_ < round_) return;
  if (++part_ == options_.parts) return BeginRound();
  step_ = 0;
  at_ = round_at_;
}

void DatasetLoader::RewindStep() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  RINGLET_CHECK(options_.round == 1);
  at_ = round_at_ = batch_at_;
  part_ = 0;
  result_ = Status();  // a part read in advance is read again later
  wanted_ = options_.background;
  changed_.notify_all();
}

void DatasetLoader::RewindRound() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  at_ = batch_round_at_;
  rest_ = batch_rest_;
  BeginRound();
  result_ = Status();  // as in RewindStep
  wanted_ = options_.background;
  changed_.notify_all();
}

Status DatasetLoader::Skip(int64_t steps, Batch* batch, int64_t* examples) {
  // An error of the read-ahead belongs to a later call.
  if (steps == 0) return Status();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  RINGLET_RETURN_IF_ERROR(result_);
  const Dataset& dataset = options_.dataset;
  for (int64_t i = 0; i < steps; ++i) {
    // In the background the first step's Plan and Advance are done already.
    if (i > 0 || !options_.background) {
      plan_ = dataset.Plan(at_, options_.rank + part_, options_.world);
      Advance();
    }
    *examples += plan_.global_count;
  }
  batch_round_at_ = read_round_at_;
  batch_rest_ = read_rest_;
  *batch = Batch();
  batch->global_count = plan_.global_count;
  batch->next = plan_.next;
  batch->last = plan_.last;
  wanted_ = options_.background;
  changed_.notify_all();
  return Status();
}

}  // namespace ringlet
