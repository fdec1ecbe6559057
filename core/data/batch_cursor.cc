#include "batch_cursor.h"

#include <algorithm>

#include "dataset_parts.h"

namespace ringlet {

BatchCursor::BatchCursor(const DataPosition& start, const Options& options)
    : options_(&options),
      at_(start),
      rest_(options.steps > 0 ? options.steps : INT64_MAX) {
  BeginRound();
}

BatchPlan BatchCursor::Plan(const Dataset& dataset) const {
  return dataset.parts().Plan(at_, options_->rank + part_, options_->world);
}

void BatchCursor::Examples(const Dataset& dataset, const BatchPlan& plan,
                           int64_t* index) const {
  for (int64_t i = 0; i < plan.count; ++i) {
    index[i] = dataset.parts().ExampleAt(
        at_, plan.first + i, options_->rank + part_, options_->world);
  }
}

void BatchCursor::BeginRound() {
  if (rest_ == 0) rest_ = INT64_MAX;
  step_ = part_ = 0;
  round_at_ = at_;
  round_ = std::min(options_->round, rest_);
  rest_ -= round_;
}

void BatchCursor::Advance(const BatchPlan& plan) {
  at_end_ = false;
  at_ = plan.next;
  if (++step_ < round_) return;
  if (++part_ == options_->parts) {
    at_end_ = rest_ == 0 || (options_->steps == 0 && plan.last);
    return BeginRound();
  }
  step_ = 0;
  at_ = round_at_;
}

void BatchCursor::Rewind() {
  at_end_ = false;
  at_ = round_at_;
  step_ = part_ = 0;
}

}  // namespace ringlet
