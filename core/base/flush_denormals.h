// FlushDenormals: numbers too small for full precision count as zero.
//
// Internal to core/. Moments of weights that get no gradient shrink without
// end, and most CPUs work on denormal numbers tens of times slower. TensorFlow
// sets the same in its threads. A no-op where the CPU has no such mode.

#ifndef RINGLET_CORE_BASE_FLUSH_DENORMALS_H_
#define RINGLET_CORE_BASE_FLUSH_DENORMALS_H_

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace ringlet {

// For the calling thread, until the end of the scope.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(Get()) { Set(saved_ | kBits); }
  ~FlushDenormals() { Set(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr uint64_t kBits = 0x8040;  // FTZ and DAZ of MXCSR
  static uint64_t Get() { return _mm_getcsr(); }
  static void Set(uint64_t v) { _mm_setcsr(static_cast<unsigned>(v)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kBits = uint64_t{1} << 24;  // FZ of FPCR
  static uint64_t Get() {
    uint64_t v;
    asm volatile("mrs %0, fpcr" : "=r"(v));
    return v;
  }
  static void Set(uint64_t v) { asm volatile("msr fpcr, %0" ::"r"(v)); }
#elif defined(__arm__) && defined(__ARM_FP)
  static constexpr uint64_t kBits = uint64_t{1} << 24;  // FZ of FPSCR
  static uint64_t Get() {
    uint32_t v;
    asm volatile("vmrs %0, fpscr" : "=r"(v));
    return v;
  }
  static void Set(uint64_t v) {
    asm volatile("vmsr fpscr, %0" ::"r"(static_cast<uint32_t>(v)));
  }
#else
  static constexpr uint64_t kBits = 0;
  static uint64_t Get() { return 0; }
  static void Set(uint64_t) {}
#endif

  const uint64_t saved_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_FLUSH_DENORMALS_H_
