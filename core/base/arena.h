// Arena and LifetimePlan: the placement of tensors in memory.
//
// The caller owns the memory, and the library computes the size. The same
// placement code runs on a counting arena (no memory, addresses are null) and
// on a real one. Objects in an arena are not destroyed.
//
// Sizes have 64 bits everywhere, so that sizes beyond a 32-bit process are
// found. Single-threaded.

#ifndef RINGLET_CORE_BASE_ARENA_H_
#define RINGLET_CORE_BASE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "check.h"

namespace ringlet {

class Arena {
 public:
  static constexpr size_t kAlignment = 64;  // bytes: a cache line

  // An arena that only counts: every allocation returns null and adds to
  // used().
  Arena() = default;
  // `memory` is aligned to kAlignment and outlives the allocations.
  Arena(void* memory, size_t bytes)
      : base_(static_cast<unsigned char*>(memory)), capacity_(bytes) {
    RINGLET_CHECK(reinterpret_cast<uintptr_t>(memory) % kAlignment == 0);
  }

  bool counting() const { return base_ == nullptr; }
  // A counting arena may count more than a process can have.
  uint64_t used() const { return used_; }
  size_t capacity() const { return capacity_; }

  // Allocates `count` Ts at a multiple of kAlignment, not initialised. A caller
  // first computes the size with a counting arena. Aborts if the memory does
  // not suffice.
  template <typename T>
  T* Allocate(uint64_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    const uint64_t bytes = RoundUp(count * sizeof(T));
    const uint64_t begin = used_;
    used_ += bytes;
    RINGLET_CHECK(base_ == nullptr || used_ <= capacity_);
    unsigned char* const place =
        base_ == nullptr ? nullptr : base_ + static_cast<size_t>(begin);
    return reinterpret_cast<T*>(place);
  }

  static uint64_t RoundUp(uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  unsigned char* base_ = nullptr;
  size_t capacity_ = 0;
  uint64_t used_ = 0;
};

// Places buffers with known lifetimes. Buffers that live at different times may
// share bytes. Greedy: each buffer gets the lowest offset that is free for its
// whole lifetime. The largest buffer is placed first (Pisarchyk and Lee,
// "Efficient memory management for deep neural net inference", 2020), unless
// another order needs fewer bytes.
class LifetimePlan {
 public:
  // Adds a buffer that lives from time `first` to time `last`, both inclusive.
  // Returns its index, from 0.
  int Add(uint64_t bytes, int first, int last);
  // Places all buffers; returns their total bytes.
  uint64_t Place();
  // The most bytes that live at one time, which no placement undercuts.
  uint64_t Peak() const;
  // The bytes that a buffer takes: a multiple of Arena::kAlignment.
  uint64_t bytes(int buffer) const { return buffers_[buffer].bytes; }
  // The first and last time at which the buffer lives.
  int first(int buffer) const { return buffers_[buffer].first; }
  int last(int buffer) const { return buffers_[buffer].last; }
  // Only after Place(). A multiple of Arena::kAlignment.
  uint64_t offset(int buffer) const { return buffers_[buffer].offset; }

 private:
  struct Buffer {
    uint64_t bytes;
    int first, last;  // times, from 0
    uint64_t offset;
  };
  template <typename Key>
  uint64_t PlaceBy(const Key& key);
  std::vector<Buffer> buffers_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_ARENA_H_
