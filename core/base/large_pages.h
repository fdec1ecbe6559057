// Large pages for large blocks of memory, where the system has them on request.
//
// The kernel then makes new memory in pieces of 2 MB in place of 4 KiB, and the
// processor translates fewer addresses.

#ifndef RINGLET_CORE_BASE_LARGE_PAGES_H_
#define RINGLET_CORE_BASE_LARGE_PAGES_H_

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>

namespace ringlet {

// Asks the system for large pages within a block. Call it before the first
// write to the block.
inline void AdviseLargePages([[maybe_unused]] void* block,
                             [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 64 << 10;  // a multiple of every system's page
  const auto begin =
      (reinterpret_cast<uintptr_t>(block) + kPage - 1) & ~(kPage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(block) + bytes) & ~(kPage - 1);
  constexpr size_t kLargePage = 2 << 20;
  if (block == nullptr || bytes < kLargePage) return;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): within `block`
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_LARGE_PAGES_H_
