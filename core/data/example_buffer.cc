// Invariant: a slot of memory is in free_, or has one example of present_ or
// next_ that was read and is not yet used. Read itself reads only what its next
// example needs; all other reads are calls of ReadAhead.

#include "example_buffer.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "../base/check.h"
#include "../base/guarded.h"
#include "../base/ieee_arithmetic.h"

namespace ringlet {

ExampleBuffer::ExampleBuffer(Options options)
    : options_(std::move(options)),
      x_bytes_(options_.source->x().bytes()),
      y_bytes_(options_.read_targets ? options_.source->y().bytes() : 0) {
  const auto slots = static_cast<size_t>(options_.slots);
  if (slots > SIZE_MAX / 2 / std::max<size_t>(x_bytes_ + y_bytes_, 1)) return;
  const auto block = static_cast<size_t>(options_.block);
  x_.reset(new (std::nothrow) unsigned char[slots * x_bytes_]);
  y_.reset(new (std::nothrow) unsigned char[slots * y_bytes_]);
  free_.resize(slots);
  // The first slots are taken first, so that few slots touch little memory.
  std::iota(free_.rbegin(), free_.rend(), 0);
  block_x_.resize(block * x_bytes_);
  block_y_.resize(block * y_bytes_);
}

Status ExampleBuffer::Make(Options options,
                           std::unique_ptr<ExampleBuffer>* buffer) {
  buffer->reset(new ExampleBuffer(std::move(options)));
  ExampleBuffer& new_buffer = **buffer;
  if (new_buffer.options_.threads > 1 && new_buffer.options_.block == 1) {
    new_buffer.threads_ =
        std::make_unique<ThreadPool>(new_buffer.options_.threads);
    RINGLET_RETURN_IF_ERROR(new_buffer.threads_->status());
  }
  if (new_buffer.x_ != nullptr && new_buffer.y_ != nullptr) return Status();
  return ResourceExhausted(
      "%s: no memory for %" PRId64
      " examples of %zu bytes; give the data less \"memory\"",
      new_buffer.options_.source->name().c_str(), new_buffer.options_.slots,
      new_buffer.x_bytes_ + new_buffer.y_bytes_);
}

void ExampleBuffer::Load(bool needed, Group* group) {
  group->index.clear();
  group->order.clear();
  group->read = group->used = 0;
  options_.next_group(needed, &group->index);
  const size_t count = group->index.size();
  RINGLET_CHECK(count <= static_cast<size_t>(options_.slots));
  group->slot.assign(count, -1);
  if (!options_.by_index) return;
  group->order.resize(count);
  std::iota(group->order.begin(), group->order.end(), 0);
  std::sort(group->order.begin(), group->order.end(),
            [&index = group->index](int32_t a, int32_t b) {
              return index[static_cast<size_t>(a)] <
                     index[static_cast<size_t>(b)];
            });
}

void ExampleBuffer::BeginNextGroup() {
  if (next_.index.empty()) Load(/*needed=*/true, &next_);
  std::swap(present_, next_);
  next_.index.clear();
  RINGLET_CHECK(!present_.index.empty());
}

ExampleBuffer::Group* ExampleBuffer::GroupToRead() {
  if (!present_.all_read()) return &present_;
  if (next_.index.empty()) Load(/*needed=*/false, &next_);
  return next_.index.empty() || next_.all_read() ? nullptr : &next_;
}

Status ExampleBuffer::ReadBlock(Group* group, size_t count) {
  block_index_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    block_index_[i] = group->index[group->PlaceOfRead(group->read + i)];
  }
  RINGLET_RETURN_IF_ERROR(CallRead(
      options_.source.get(), block_index_.data(), static_cast<int>(count),
      block_x_.data(), options_.read_targets ? block_y_.data() : nullptr));
  for (size_t i = 0; i < count; ++i) {
    const size_t place = group->PlaceOfRead(group->read++);
    if (place < group->used) continue;  // it was skipped
    const int32_t slot = free_.back();
    free_.pop_back();
    group->slot[place] = slot;
    const auto stored = static_cast<size_t>(slot);
    std::copy_n(block_x_.data() + i * x_bytes_, x_bytes_,
                x_.get() + stored * x_bytes_);
    std::copy_n(block_y_.data() + i * y_bytes_, y_bytes_,
                y_.get() + stored * y_bytes_);
  }
  return Status();
}

// Reads the next `count` examples into slots that are free. The threads take
// one after another.
Status ExampleBuffer::ReadInParallel(Group* group, size_t count) {
  read_.assign(count, Status());
  std::atomic<size_t> next{0};
  const auto read = [&](int) {
    const IeeeArithmetic ieee;
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      const auto slot = static_cast<size_t>(free_[free_.size() - 1 - i]);
      read_[i] = CallRead(
          options_.source.get(), &group->index[group->read + i], 1,
          x_.get() + slot * x_bytes_,
          options_.read_targets ? y_.get() + slot * y_bytes_ : nullptr);
    }
  };
  threads_->Run(read);
  for (const Status& status : read_) {
    RINGLET_RETURN_IF_ERROR(status);
    group->slot[group->read++] = free_.back();
    free_.pop_back();
  }
  return Status();
}

bool ExampleBuffer::ReadAhead() {
  if (!error_.ok()) return false;
  Group* const group = GroupToRead();
  if (group == nullptr) return false;
  const size_t count = std::min(static_cast<size_t>(options_.block),
                                group->index.size() - group->read);
  // A block is read whole, unless the present group waits for it.
  if (free_.size() < count && group != &present_) return false;
  const size_t skipped = group->used - std::min(group->used, group->read);
  if (threads_ != nullptr && skipped == 0) {
    // Each thread gets several examples, so that a large picture does not make
    // the other threads wait.
    constexpr size_t kOfThread = 4;
    const size_t at_once = kOfThread * static_cast<size_t>(options_.threads);
    error_ = ReadInParallel(group, std::min({group->index.size() - group->read,
                                             free_.size(), at_once}));
  } else {
    error_ = ReadBlock(group, std::min(count, free_.size()));
  }
  return error_.ok();
}

void ExampleBuffer::Skip(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (present_.used == present_.index.size()) BeginNextGroup();
    const int32_t slot = present_.slot[present_.used++];
    if (slot >= 0) free_.push_back(slot);
  }
}

Status ExampleBuffer::Read(const int64_t* index, int64_t count, void* x,
                           void* y) {
  auto* to_x = static_cast<unsigned char*>(x);
  auto* to_y = static_cast<unsigned char*>(y);
  for (int64_t i = 0; i < count; ++i) {
    if (present_.used == present_.index.size()) BeginNextGroup();
    const size_t used = present_.used;
    RINGLET_CHECK(present_.index[used] == index[i]);
    const size_t needed = options_.by_index ? present_.index.size() : used + 1;
    while (present_.read < needed) {
      RINGLET_RETURN_IF_ERROR(error_);
      ReadAhead();
    }
    const int32_t slot = present_.slot[used];
    const auto stored = static_cast<size_t>(slot);
    std::copy_n(x_.get() + stored * x_bytes_, x_bytes_, to_x);
    to_x += x_bytes_;
    if (y != nullptr) {
      std::copy_n(y_.get() + stored * y_bytes_, y_bytes_, to_y);
      to_y += y_bytes_;
    }
    Skip(1);
  }
  return Status();
}

}  // namespace ringlet
