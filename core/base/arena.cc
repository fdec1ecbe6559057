#include "arena.h"

#include <algorithm>
#include <numeric>

namespace ringlet {

int LifetimePlan::Add(size_t bytes, int first, int last) {
  RINGLET_CHECK(first <= last);
  buffers_.push_back({Arena::RoundUp(bytes), first, last, 0});
  return static_cast<int>(buffers_.size()) - 1;
}

// The largest first fits best mostly; where it leaves gaps, those that live
// longest first, or that take the most of bytes times time, may leave fewer.
size_t LifetimePlan::Place() {
  const auto time = [](const Buffer& b) {
    return static_cast<size_t>(b.last - b.first + 1);
  };
  const size_t largest = PlaceBy([](const Buffer& b) { return b.bytes; });
  if (largest == Peak()) return largest;
  const size_t longest = PlaceBy([&](const Buffer& b) { return time(b); });
  const size_t most =
      PlaceBy([&](const Buffer& b) { return b.bytes * time(b); });
  if (most < largest && most <= longest) return most;
  if (longest < largest) {
    return PlaceBy([&](const Buffer& b) { return time(b); });
  }
  return PlaceBy([](const Buffer& b) { return b.bytes; });
}

size_t LifetimePlan::Peak() const {
  int end = 0;
  for (const Buffer& b : buffers_) end = std::max(end, b.last + 1);
  // What comes and what goes; a sum from the beginning is never negative.
  std::vector<size_t> change(static_cast<size_t>(end) + 1, 0);
  for (const Buffer& b : buffers_) {
    change[static_cast<size_t>(b.first)] += b.bytes;
    change[static_cast<size_t>(b.last) + 1] -= b.bytes;
  }
  size_t sum = 0, most = 0;
  for (const size_t c : change) most = std::max(most, sum += c);
  return most;
}

template <typename Key>
size_t LifetimePlan::PlaceBy(const Key& key) {
  std::vector<int> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return key(buffers_[a]) > key(buffers_[b]);
  });
  size_t total = 0;
  std::vector<const Buffer*> placed;  // by offset
  for (int i : order) {
    Buffer& buffer = buffers_[i];
    buffer.offset = 0;
    for (const Buffer* other : placed) {
      const bool alive_together =
          other->first <= buffer.last && buffer.first <= other->last;
      if (!alive_together) continue;
      if (buffer.offset + buffer.bytes <= other->offset) break;
      buffer.offset = std::max(buffer.offset, other->offset + other->bytes);
    }
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &buffer,
                                   [](const Buffer* a, const Buffer* b) {
                                     return a->offset < b->offset;
                                   }),
                  &buffer);
    total = std::max(total, buffer.offset + buffer.bytes);
  }
  return total;
}

}  // namespace ringlet
