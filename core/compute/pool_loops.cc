// Built once for any CPU and, on x86-64, again for AVX2 and for AVX-512: so it
// may call nothing that another file could have inlined and share. Pixels of a
// window are taken in the order of memory: of equal ones the first is taken,
// 0 and -0 among them.

#include "pool_loops.h"

#include "lanes.h"

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_POOL_LOOPS kPoolLoopsAvx512
#elif defined(RINGLET_AVX2)
#define RINGLET_POOL_LOOPS kPoolLoopsAvx2
#else
#define RINGLET_POOL_LOOPS kPoolLoops
#endif

// body(offset) for the pixels of a window: of kSide rows and columns, and
// unrolled then, where that is not 0.
template <int kSide, typename Body>
inline __attribute__((always_inline)) void ForEachPixel(const PoolWindows& w,
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

// body(p, c, part) for each position and vector of channels. Where one vector
// has all of them, and those that follow a pixel are always written after it, a
// part is a whole vector but at the last positions.
template <typename Body>
inline __attribute__((always_inline)) void ForEachWindow(const PoolWindows& w,
                                                         bool writes_next,
                                                         const Body& body) {
  for (int64_t c = 0; c < w.channels; c += kLanes) {
    int64_t p = 0;
    if (kPartsCost && writes_next && w.channels < kLanes) {
      const int64_t last = (kLanes + w.channels - 1) / w.channels;
      for (; p < w.positions - last; ++p) body(p, c, Part(kLanes));
    }
    const Part here(w.channels - c);
    for (; p < w.positions; ++p) body(p, c, here);
  }
}

template <int kSide>
void MaximaOf(const PoolWindows w, const float* x, float* y) {
  ForEachWindow(w, true, [&](int64_t p, int64_t c, Part here) {
    const float* const from = x + p * w.step + c;
    Lanes most = here.Load(from);
    ForEachPixel<kSide>(w, [&](int64_t at) {
      const Lanes v = here.Load(from + at);
      most = ((v > most) | (v != v)) ? v : most;  // NOLINT: of NaN
    });
    here.Store(most, y + p * w.channels + c);
  });
}

template <int kSide>
void GradientOf(const PoolWindows w, const float* x, const float* y,
                const float* dy, float* dx) {
  const bool meets_next = w.step == w.width * w.channels;
  ForEachWindow(w, meets_next, [&](int64_t p, int64_t c, Part here) {
    const int64_t first = p * w.step + c;
    const Lanes most = here.Load(y + p * w.channels + c);
    Lanes rest = here.Load(dy + p * w.channels + c);
    ForEachPixel<kSide>(w, [&](int64_t at) {
      const Lanes v = here.Load(x + first + at);
      here.Store(v == most ? rest : Lanes{}, dx + first + at);
      rest = v == most ? Lanes{} : rest;  // given away
    });
  });
}

void Maxima(const PoolWindows& w, const float* x, float* y) {
  if (w.height == 2 && w.width == 2) return MaximaOf<2>(w, x, y);
  MaximaOf<0>(w, x, y);
}

void Gradient(const PoolWindows& w, const float* x, const float* y,
              const float* dy, float* dx) {
  if (w.height == 2 && w.width == 2) return GradientOf<2>(w, x, y, dy, dx);
  GradientOf<0>(w, x, y, dy, dx);
}

}  // namespace

extern const PoolLoops RINGLET_POOL_LOOPS = {Maxima, Gradient};

}  // namespace ringlet
