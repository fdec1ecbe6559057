// GuardedMemory: memory of a given size, and a pattern behind it that a test
// checks.

#ifndef RINGLET_TESTS_SUPPORT_GUARDED_MEMORY_H_
#define RINGLET_TESTS_SUPPORT_GUARDED_MEMORY_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/base/arena.h"

namespace ringlet {

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes)
      : memory_(std::aligned_alloc(Arena::kAlignment,
                                   Arena::RoundUp(bytes) + kGuard),
                std::free),
        guard_(static_cast<unsigned char*>(memory_.get()) + bytes) {
    std::memset(guard_, 0xA5, kGuard);
  }
  void* data() const { return memory_.get(); }
  void ExpectIntact() const {
    for (size_t i = 0; i < kGuard; ++i) ASSERT_EQ(guard_[i], 0xA5) << i;
  }

 private:
  static constexpr size_t kGuard = 4096;
  const std::unique_ptr<void, void (*)(void*)> memory_;
  unsigned char* const guard_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_GUARDED_MEMORY_H_
