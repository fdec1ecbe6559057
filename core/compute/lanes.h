// Vectors of the width for which a file is built.
//
// For files that are built once for each width, on x86-64 with RINGLET_AVX2 and
// RINGLET_AVX512. All definitions are local to the including file, so no two
// builds share a function.

#ifndef RINGLET_CORE_COMPUTE_LANES_H_
#define RINGLET_CORE_COMPUTE_LANES_H_

#include <cstddef>
#include <cstdint>

#if defined(RINGLET_AVX2) || defined(RINGLET_AVX512)
#include <immintrin.h>
#endif

namespace ringlet {
namespace {  // NOLINT: on purpose

#if defined(RINGLET_AVX512)
constexpr int kBytes = 64;  // NOLINT: of each file its own
#elif defined(RINGLET_AVX2)
constexpr int kBytes = 32;                  // NOLINT
#else
constexpr int kBytes = 16;  // NOLINT
#endif
constexpr int64_t kLanes = kBytes / sizeof(float);  // NOLINT

using Lanes = float __attribute__((vector_size(kBytes)));
struct __attribute__((packed, may_alias)) UnalignedLanes {
  Lanes lanes;
};
using Mask = int32_t __attribute__((vector_size(kBytes)));

inline Lanes Load(const float* p) {
  return reinterpret_cast<const UnalignedLanes*>(p)->lanes;
}
inline void Store(Lanes v, float* p) {
  reinterpret_cast<UnalignedLanes*>(p)->lanes = v;
}
inline int64_t MinOf(int64_t a, int64_t b) { return a < b ? a : b; }

// True if a partial store is slow. Loops then store a whole vector and let the
// next store overwrite the rest.
#if defined(RINGLET_AVX2)
constexpr bool kSlowPartialStores = true;  // NOLINT
#else
constexpr bool kSlowPartialStores = false;  // NOLINT
#endif

// The first `count` lanes, or all lanes, for memory that may end there.
class PartialVector {
 public:
#if defined(RINGLET_AVX512)
  explicit PartialVector(int64_t count)
      : mask_(static_cast<__mmask16>((1u << MinOf(count, kLanes)) - 1)) {}
  Lanes Load(const float* p) const {
    return reinterpret_cast<Lanes>(_mm512_maskz_loadu_ps(mask_, p));
  }
  void Store(Lanes v, float* p) const {
    _mm512_mask_storeu_ps(p, mask_, reinterpret_cast<__m512>(v));
  }

 private:
  __mmask16 mask_;
#elif defined(RINGLET_AVX2)
  explicit PartialVector(int64_t count)
      : count_(static_cast<int>(MinOf(count, kLanes))),
        mask_(_mm256_cmpgt_epi32(_mm256_set1_epi32(count_),
                                 _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
  Lanes Load(const float* p) const { return _mm256_maskload_ps(p, mask_); }
  // Stored in pieces: AMD's processors need about 12 cycles for a masked store.
  void Store(Lanes v, float* p) const {
    if (count_ == kLanes) return ringlet::Store(v, p);
    __m128 rest = _mm256_castps256_ps128(v);
    if ((count_ & 4) != 0) {
      _mm_storeu_ps(p, rest);
      rest = _mm256_extractf128_ps(v, 1);
      p += 4;
    }
    if ((count_ & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
      rest = _mm_movehl_ps(rest, rest);
      p += 2;
    }
    if ((count_ & 1) != 0) _mm_store_ss(p, rest);
  }

 private:
  int count_;
  __m256i mask_;
#else
  explicit PartialVector(int64_t count) : count_(MinOf(count, kLanes)) {}
  Lanes Load(const float* p) const {
    if (count_ == kLanes) return ringlet::Load(p);
    Lanes v = {};
    for (int64_t i = 0; i < count_; ++i) v[i] = p[i];
    return v;
  }
  void Store(Lanes v, float* p) const {
    if (count_ == kLanes) return ringlet::Store(v, p);
    for (int64_t i = 0; i < count_; ++i) p[i] = v[i];
  }

 private:
  int64_t count_;
#endif
};

}  // namespace
}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_LANES_H_
