// Part of DatasetLoader: parts that are skipped, read again, or read ahead into
// the buffer. dataset_loader.cc has the rules for threads.

#include <algorithm>
#include <utility>

#include "../base/check.h"
#include "../base/guarded.h"
#include "dataset_loader.h"
#include "dataset_parts.h"
#include "shuffle_blocks.h"

namespace ringlet {

void DatasetLoader::Continue() {
  result_ = Status();  // a part read in advance is read again later
  at_end_ = false;
  wanted_ = options_.background;
  changed_.notify_all();
}

void DatasetLoader::RewindStep() {
  RINGLET_CHECK(options_.cursor.round == 1);
  RewindRound();
}

void DatasetLoader::RewindRound() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  cursor_ = batch_cursor_;
  cursor_.Rewind();
  has_rewound_ = true;
  Continue();
}

Status DatasetLoader::Skip(int64_t steps, Batch* batch, int64_t* examples) {
  // An error of the read-ahead belongs to a later call.
  if (steps == 0) return Status();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
  RINGLET_RETURN_IF_ERROR(result_);
  for (int64_t i = 0; i < steps; ++i) {
    // In the background the first step's part is read already.
    if (i > 0 || !options_.background || at_end_) {
      read_cursor_ = cursor_;
      plan_ = cursor_.Plan(options_.dataset);
      cursor_.Advance(plan_);
      skipped_ += plan_.count;
    }
    *examples += plan_.global_count;
  }
  batch_cursor_ = read_cursor_;
  *batch = Batch();
  batch->global_count = plan_.global_count;
  batch->next = plan_.next;
  batch->last = plan_.last;
  Continue();
  return Status();
}

Status DatasetLoader::MakeBuffer() {
  const Dataset& dataset = options_.dataset;
  const BatchCursor::Options& cursor = options_.cursor;
  const ShuffleBlocks blocks(dataset.parts(), cursor.world);
  const bool shuffled = dataset.parts().shuffle_seed() >= 0;
  ExampleBuffer::Options buffer;
  buffer.source = dataset.source();
  buffer.read_targets = options_.read_targets;
  buffer.block = blocks.block();
  buffer.threads = options_.threads;
  buffer.by_index = shuffled && blocks.block() > 1;
  const int64_t max_examples = shuffled
                                   ? dataset.size() * cursor.parts
                                   : 2 * static_cast<int64_t>(indices_.size());
  buffer.slots = std::min(blocks.examples(), max_examples + buffer.block);
  buffer.next_group = [this, max_examples = buffer.slots](
                          bool needed, std::vector<int64_t>* index) {
    NextGroup(max_examples, needed, index);
  };
  return ExampleBuffer::Make(std::move(buffer), &buffer_);
}

// A group of the buffer has this worker's examples of the batches that begin in
// one group of blocks, up to `max_examples`. If `needed`, it has at least one
// batch: a worker may have no example of many batches.
void DatasetLoader::NextGroup(int64_t max_examples, bool needed,
                              std::vector<int64_t>* index) {
  if (ahead_.at_end() && !needed) return;
  const Dataset& dataset = options_.dataset;
  const ShuffleBlocks blocks(dataset.parts(), options_.cursor.world);
  const auto number_of_group = [&] {
    const DataPosition& position = ahead_.at();
    const bool divides = blocks.divides(dataset.size());
    return std::pair(position.pass,
                     divides ? position.used / blocks.group() : 0);
  };
  auto number = number_of_group();
  do {
    const BatchPlan plan = ahead_.Plan(dataset);
    const auto count = static_cast<int64_t>(index->size());
    const bool full = count > 0 && count + plan.count > max_examples;
    const bool ended = number_of_group() != number && (count > 0 || !needed);
    if (full || ended) return;
    index->resize(static_cast<size_t>(count + plan.count));
    ahead_.Examples(dataset, plan, index->data() + count);
    ahead_.Advance(plan);
    // The last batch of a group may have been too much for it.
    if (count == 0 && plan.count > 0) number = number_of_group();
  } while (!ahead_.at_end() || (needed && index->empty()));
}

Status DatasetLoader::ReadExamples(void* x, void* y) {
  const auto count = static_cast<int>(plan_.count);
  if (x == nullptr || options_.dataset.parts().memory == 0) {
    return CallRead(options_.dataset.source().get(), indices_.data(), count, x,
                    y);
  }
  if (buffer_ == nullptr || has_rewound_) {
    buffer_.reset();
    RINGLET_RETURN_IF_ERROR(MakeBuffer());
    ahead_ = cursor_;
  } else {
    buffer_->Skip(skipped_);
  }
  has_rewound_ = false;
  skipped_ = 0;
  return buffer_->Read(indices_.data(), count, x, y);
}

}  // namespace ringlet
