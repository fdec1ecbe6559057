// Built once for any CPU and, on x86-64, again for AVX2 and for AVX-512. So it
// may not call functions that another file could inline and share. The pixels
// of a window are processed in the order of memory: of equal values, also 0 and
// -0, the first wins.

#include "pool_loops.h"

#include "lanes.h"

#if defined(RINGLET_AVX512) && !defined(__clang__)
// gcc 12's own header uses registers that gcc calls undefined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_POOL_LOOPS kPoolLoopsAvx512
#elif defined(RINGLET_AVX2)
#define RINGLET_POOL_LOOPS kPoolLoopsAvx2
#else
#define RINGLET_POOL_LOOPS kPoolLoops
#endif

#define RINGLET_INLINE __attribute__((always_inline))

// All lanes of a vector.
struct Whole {
  Lanes Load(const float* p) const { return ringlet::Load(p); }
  void Store(Lanes v, float* p) const { ringlet::Store(v, p); }
};

// Calls body(offset) for the pixels of a window. If kSide is not 0, the window
// has kSide rows and columns, and the loop is unrolled.
template <int kSide, typename Body>
inline RINGLET_INLINE void ForEachPixel(const PoolWindows& w,
                                        const Body& body) {
  if constexpr (kSide > 0) {
#pragma GCC unroll 2
    for (int64_t y = 0; y < kSide; ++y) {
#pragma GCC unroll 2
      for (int64_t x = 0; x < kSide; ++x) {
        body(y * w.row_floats + x * w.channels);
      }
    }
  } else {
    for (int64_t y = 0; y < w.height; ++y) {
      for (int64_t x = 0; x < w.width; ++x) {
        body(y * w.row_floats + x * w.channels);
      }
    }
  }
}

// Calls body(p, c, part, its lanes) for each position and vector of channels.
// If one vector has all channels, and the memory after a pixel is always
// written later, a part is a whole vector except at the last positions.
template <typename Body>
inline RINGLET_INLINE void ForEachWindow(const PoolWindows& w, bool writes_next,
                                         const Body& body) {
  for (int64_t c = 0; c < w.channels; c += kLanes) {
    int64_t p = 0;
    if (kSlowPartialStores && writes_next && w.channels < kLanes) {
      const int64_t last = (kLanes + w.channels - 1) / w.channels;
      for (; p < w.positions - last; ++p) body(p, c, Whole(), kLanes);
    }
    const int64_t count = MinOf(kLanes, w.channels - c);
    const PartialVector part(count);
    for (; p < w.positions; ++p) body(p, c, part, count);
  }
}

template <int kSide>
void ComputeMaxima(const PoolWindows w, const float* x, float* y) {
  ForEachWindow(w, /*writes_next=*/true,
                [&](int64_t p, int64_t c, auto part, int64_t) RINGLET_INLINE {
                  const float* const from = x + p * w.step + c;
                  Lanes max = part.Load(from);
                  ForEachPixel<kSide>(w, [&](int64_t at) RINGLET_INLINE {
                    const Lanes v = part.Load(from + at);
                    max = ((v > max) | (v != v)) ? v : max;  // NOLINT: of NaN
                  });
                  part.Store(max, y + p * w.channels + c);
                });
}

template <int kSide>
void ComputeGradient(const PoolWindows w, const float* x, const float* y,
                     const float* dy, float* dx) {
  const bool meets_next = w.step == w.width * w.channels;
  ForEachWindow(w, meets_next,
                [&](int64_t p, int64_t c, auto part, int64_t) RINGLET_INLINE {
                  const int64_t first = p * w.step + c;
                  const Lanes max = part.Load(y + p * w.channels + c);
                  Lanes rest = part.Load(dy + p * w.channels + c);
                  ForEachPixel<kSide>(w, [&](int64_t at) RINGLET_INLINE {
                    const Lanes v = part.Load(x + first + at);
                    part.Store(v == max ? rest : Lanes{}, dx + first + at);
                    rest = v == max ? Lanes{} : rest;  // assigned
                  });
                });
}

void Maxima(const PoolWindows& w, const float* x, float* y) {
  if (w.height == 2 && w.width == 2) return ComputeMaxima<2>(w, x, y);
  ComputeMaxima<0>(w, x, y);
}

void Gradient(const PoolWindows& w, const float* x, const float* y,
              const float* dy, float* dx) {
  if (w.height == 2 && w.width == 2) return ComputeGradient<2>(w, x, y, dy, dx);
  ComputeGradient<0>(w, x, y, dy, dx);
}

#if defined(RINGLET_AVX2) || defined(RINGLET_AVX512)

// A vector's lanes as bytes.
using Bytes = uint8_t __attribute__((vector_size(kLanes)));

inline Mask Widened(Bytes bytes) {
#if defined(RINGLET_AVX512)
  return reinterpret_cast<Mask>(
      _mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(bytes)));
#else
  return reinterpret_cast<Mask>(_mm256_cvtepu8_epi32(
      _mm_cvtsi64_si128(reinterpret_cast<int64_t>(bytes))));
#endif
}

inline Bytes Narrowed(Mask indices) {
#if defined(RINGLET_AVX512)
  return reinterpret_cast<Bytes>(
      _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(indices)));
#else
  const auto all = reinterpret_cast<__m256i>(indices);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(all),
                                         _mm256_extracti128_si256(all, 1));
  return reinterpret_cast<Bytes>(
      _mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
#endif
}

inline Mask LoadIndices(const uint8_t* p, int64_t count) {
  Bytes bytes = {};
  if (count >= kLanes) {
    __builtin_memcpy(&bytes, p, sizeof(bytes));
  } else {
    for (int64_t i = 0; i < count; ++i) bytes[i] = p[i];
  }
  return Widened(bytes);
}

inline void StoreIndices(Mask indices, int64_t count, uint8_t* p) {
  const Bytes bytes = Narrowed(indices);
  if (count >= kLanes) {
    __builtin_memcpy(p, &bytes, sizeof(bytes));
  } else {
    for (int64_t i = 0; i < count; ++i) p[i] = bytes[i];
  }
}

template <int kSide>
void ComputeIndexedMaxima(const PoolWindows w, const float* x, bool above_zero,
                          float* y, uint8_t* indices) {
  ForEachWindow(
      w, /*writes_next=*/true,
      [&](int64_t p, int64_t c, auto part, int64_t count) RINGLET_INLINE {
        const float* const from = x + p * w.step + c;
        Lanes max = part.Load(from);
        Mask index = {};
        int32_t pixel = 0;
        ForEachPixel<kSide>(w, [&](int64_t at) RINGLET_INLINE {
          const Lanes v = part.Load(from + at);
          const Mask wins = (v > max) | (v != v);  // NOLINT: of NaN
          max = wins ? v : max;
          index = wins ? pixel - Mask{} : index;
          ++pixel;
        });
        const Mask holds = above_zero ? max > 0.0f : max == max;  // NOLINT
        part.Store(max, y + p * w.channels + c);
        StoreIndices(holds ? index : kNoIndex - Mask{}, count,
                     indices + p * w.channels + c);
      });
}

template <int kSide>
void ComputeIndexedGradient(const PoolWindows w, const uint8_t* indices,
                            const float* dy, float* dx) {
  const bool meets_next = w.step == w.width * w.channels;
  ForEachWindow(
      w, meets_next,
      [&](int64_t p, int64_t c, auto part, int64_t count) RINGLET_INLINE {
        const int64_t first = p * w.step + c, from = p * w.channels + c;
        const Mask index = LoadIndices(indices + from, count);
        const Lanes d = part.Load(dy + from);
        int32_t pixel = 0;
        ForEachPixel<kSide>(w, [&](int64_t at) RINGLET_INLINE {
          part.Store(index == pixel ? d : Lanes{}, dx + first + at);
          ++pixel;
        });
      });
}

void IndexedMaxima(const PoolWindows& w, const float* x, bool above_zero,
                   float* y, uint8_t* indices) {
  const bool square = w.height == 2 && w.width == 2;
  (square ? ComputeIndexedMaxima<2> : ComputeIndexedMaxima<0>)(w, x, above_zero,
                                                               y, indices);
}

void IndexedGradient(const PoolWindows& w, const uint8_t* indices,
                     const float* dy, float* dx) {
  const bool square = w.height == 2 && w.width == 2;
  (square ? ComputeIndexedGradient<2> : ComputeIndexedGradient<0>)(w, indices,
                                                                   dy, dx);
}

#else  // bytes count for more than what a pool takes beside its convolution

void IndexedMaxima(const PoolWindows& w, const float* x, bool above_zero,
                   float* y, uint8_t* indices) {
  for (int64_t p = 0; p < w.positions; ++p) {
    for (int64_t c = 0; c < w.channels; ++c, ++y, ++indices) {
      const float* const from = x + p * w.step + c;
      float max = *from;
      int index = 0, pixel = 0;
      ForEachPixel<0>(w, [&](int64_t at) {
        const float v = from[at];
        if (v > max || v != v) max = v, index = pixel;  // NOLINT: of NaN
        ++pixel;
      });
      const bool holds = above_zero ? max > 0 : max == max;  // NOLINT
      *y = max;
      *indices = static_cast<uint8_t>(holds ? index : kNoIndex);
    }
  }
}

void IndexedGradient(const PoolWindows& w, const uint8_t* indices,
                     const float* dy, float* dx) {
  for (int64_t p = 0; p < w.positions; ++p) {
    for (int64_t c = 0; c < w.channels; ++c, ++dy, ++indices) {
      float* const to = dx + p * w.step + c;
      int pixel = 0;
      ForEachPixel<0>(
          w, [&](int64_t at) { to[at] = *indices == pixel++ ? *dy : 0; });
    }
  }
}

#endif

}  // namespace

extern const PoolLoops RINGLET_POOL_LOOPS = {Maxima, Gradient, IndexedMaxima,
                                             IndexedGradient};

}  // namespace ringlet
