// Poison: marks memory as unusable for AddressSanitizer. In other builds it
// does nothing.
//
// A span begins or ends at a multiple of 8 bytes, where ASan is exact to the
// byte.

#ifndef RINGLET_CORE_BASE_POISON_H_
#define RINGLET_CORE_BASE_POISON_H_

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define RINGLET_POISONS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RINGLET_POISONS
#endif
#endif

#ifdef RINGLET_POISONS
#include <sanitizer/asan_interface.h>
#endif

namespace ringlet {

#ifdef RINGLET_POISONS
constexpr bool kPoisons = true;
inline void Poison(const void* p, size_t bytes) {
  __asan_poison_memory_region(p, bytes);
}
inline void Unpoison(const void* p, size_t bytes) {
  __asan_unpoison_memory_region(p, bytes);
}
// True if any byte is poisoned.
inline bool IsPoisoned(const void* p, size_t bytes) {
  return __asan_region_is_poisoned(const_cast<void*>(p), bytes) != nullptr;
}
#else
constexpr bool kPoisons = false;
inline void Poison(const void*, size_t) {}
inline void Unpoison(const void*, size_t) {}
inline bool IsPoisoned(const void*, size_t) { return false; }
#endif

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_POISON_H_
