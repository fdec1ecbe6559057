// IeeeArithmetic: sets rounding to nearest, and keeps denormal numbers.
//
// A program may have set other modes for its thread, and a library built with
// -ffast-math for all threads. They would change the bits of a training.
//
// Not all CPUs can replace denormals by zero, and not all do it in the same
// way, so the mode is off on all. Formulas with many slow denormals replace
// small numbers by zero themselves (core/objective/optimizer_formulas.cc).

#ifndef RINGLET_CORE_BASE_IEEE_ARITHMETIC_H_
#define RINGLET_CORE_BASE_IEEE_ARITHMETIC_H_

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace ringlet {

// Applies to the calling thread, until the end of the scope.
class IeeeArithmetic {
 public:
  IeeeArithmetic() : saved_(Get()) { Set(saved_ & ~kBits); }
  ~IeeeArithmetic() { Set(saved_); }
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr uint64_t kBits = 0xe040;  // FTZ, RC and DAZ of MXCSR
  static uint64_t Get() { return _mm_getcsr(); }
  static void Set(uint64_t v) { _mm_setcsr(static_cast<unsigned>(v)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kBits = 0x1c00000;  // FZ and RMode of FPCR
  static uint64_t Get() {
    uint64_t v;
    asm volatile("mrs %0, fpcr" : "=r"(v));
    return v;
  }
  static void Set(uint64_t v) { asm volatile("msr fpcr, %0" ::"r"(v)); }
#elif defined(__arm__) && defined(__ARM_FP)
  static constexpr uint64_t kBits = 0x1c00000;  // FZ and RMode of FPSCR
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

#endif  // RINGLET_CORE_BASE_IEEE_ARITHMETIC_H_
