// Which part a loader reads next: those of a step, or of a round of steps; what
// is passed over, or read again. See batch_loader.cc for who may touch what.

#include <algorithm>

#include "../base/check.h"
#include "batch_loader.h"

namespace ringlet {

void BatchLoader::BeginRound() {
  if (rest_ == 0) rest_ = INT64_MAX;  // nobody asks for what follows
  step_ = part_ = 0;
  round_at_ = at_;
  round_ = std::min(options_.round, rest_);
  rest_ -= round_;
}

// All steps of a round for a part, and then the next part's.
void BatchLoader::Advance() {
  read_round_at_ = round_at_;
  read_rest_ = rest_ + round_;
  at_ = plan_.next;
  if (++step_ < round_) return;
  if (++part_ == options_.parts) return BeginRound();
  step_ = 0;
  at_ = round_at_;
}

void BatchLoader::StepAgain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  RINGLET_CHECK(options_.round == 1);
  at_ = round_at_ = batch_at_;
  part_ = 0;
  result_ = Status();  // of what was read ahead, and is again in its turn
  wanted_ = options_.background;
  changed_.notify_all();
}

void BatchLoader::RoundAgain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  at_ = batch_round_at_;
  rest_ = batch_rest_;
  BeginRound();
  result_ = Status();  // as in StepAgain
  wanted_ = options_.background;
  changed_.notify_all();
}

Status BatchLoader::Skip(int64_t steps, Batch* batch, int64_t* examples) {
  // What is read ahead is nobody's error yet.
  if (steps == 0) return Status();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  RINGLET_RETURN_IF_ERROR(result_);
  const Dataset& dataset = options_.dataset;
  for (int64_t i = 0; i < steps; ++i) {
    // Of the first, in the background, this and Advance are done.
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
