#include "arena.h"

#include <algorithm>
#include <numeric>

#include "stable_sort.h"

namespace ringlet {

int LifetimePlan::Add(uint64_t bytes, int first, int last) {
  RINGLET_CHECK(first <= last);
  buffers_.push_back({Arena::RoundUp(bytes), first, last, 0});
  return static_cast<int>(buffers_.size()) - 1;
}

// Placing the largest buffer first usually needs the fewest bytes. If gaps
// remain, an order by lifetime, or by bytes times lifetime, may leave fewer.
uint64_t LifetimePlan::Place() {
  const auto time = [](const Buffer& b) {
    return static_cast<uint64_t>(b.last - b.first + 1);
  };
  const uint64_t largest = PlaceBy([](const Buffer& b) { return b.bytes; });
  if (largest == Peak()) return largest;
  const uint64_t longest = PlaceBy([&](const Buffer& b) { return time(b); });
  const uint64_t by_area =
      PlaceBy([&](const Buffer& b) { return b.bytes * time(b); });
  if (by_area < largest && by_area <= longest) return by_area;
  if (longest < largest) {
    return PlaceBy([&](const Buffer& b) { return time(b); });
  }
  return PlaceBy([](const Buffer& b) { return b.bytes; });
}

uint64_t LifetimePlan::Peak() const {
  int end = 0;
  for (const Buffer& b : buffers_) end = std::max(end, b.last + 1);
  // The bytes that begin to live at each time, less the bytes that end then. A
  // sum from the beginning is never negative.
  std::vector<uint64_t> change(static_cast<size_t>(end) + 1, 0);
  for (const Buffer& b : buffers_) {
    change[static_cast<size_t>(b.first)] += b.bytes;
    change[static_cast<size_t>(b.last) + 1] -= b.bytes;
  }
  uint64_t living = 0, peak = 0;
  for (const uint64_t c : change) peak = std::max(peak, living += c);
  return peak;
}

template <typename Key>
uint64_t LifetimePlan::PlaceBy(const Key& key) {
  std::vector<int> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0);
  StableSort(&order,
             [&](int a, int b) { return key(buffers_[a]) > key(buffers_[b]); });
  uint64_t total = 0;
  std::vector<const Buffer*> placed;  // the placed buffers, by offset
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
