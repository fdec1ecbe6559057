#include "arena.h"

#include <algorithm>
#include <numeric>

namespace ringlet {

int LifetimePlan::Add(size_t bytes, int first, int last) {
  RINGLET_CHECK(first <= last);
  buffers_.push_back({Arena::RoundUp(bytes), first, last, 0});
  return static_cast<int>(buffers_.size()) - 1;
}

size_t LifetimePlan::Place() {
  std::vector<int> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
    return buffers_[a].bytes > buffers_[b].bytes;
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
