// Built once for any CPU and, on x86-64, once more for AVX2 and FMA: so it may
// call nothing that another file could have inlined and share.

#include "direct_conv.h"

namespace ringlet {
namespace {

#ifdef RINGLET_AVX2
#define RINGLET_DIRECT_CONV kDirectConvAvx2
constexpr int kBytes = 32;
#else
#define RINGLET_DIRECT_CONV kDirectConv
constexpr int kBytes = 16;
#endif
constexpr int64_t kLanes = kBytes / sizeof(float);

using Lanes = float __attribute__((vector_size(kBytes)));
struct __attribute__((packed, may_alias)) UnalignedLanes {
  Lanes lanes;
};
using Mask = int32_t __attribute__((vector_size(kBytes)));

// As many filters as a pass works on.
struct Filters {
  Lanes low, high;
};
constexpr int64_t kFilters = 2 * kLanes;

inline Filters Load(const float* p) {
  return {reinterpret_cast<const UnalignedLanes*>(p)->lanes,
          reinterpret_cast<const UnalignedLanes*>(p + kLanes)->lanes};
}

inline void Store(const Filters& v, float* p) {
  reinterpret_cast<UnalignedLanes*>(p)->lanes = v.low;
  reinterpret_cast<UnalignedLanes*>(p + kLanes)->lanes = v.high;
}

inline void AddTimes(float x, const Filters& v, Filters* sum) {
  sum->low += x * v.low;
  sum->high += x * v.high;
}

inline Lanes Relu(Lanes z) {
  return reinterpret_cast<Lanes>(reinterpret_cast<Mask>(z) & ~(z <= 0.0f));
}

inline void Finish(Filters sum, bool relu, float* y) {
  if (relu) sum = {Relu(sum.low), Relu(sum.high)};
  Store(sum, y);
}

// Sums are named one by one: the compiler keeps those in registers.
void Forward(const ConvRow& row, const float* weights, const float* bias,
             bool relu, float* out) {
  const int64_t filters = row.filters, stride = row.stride;
  for (int64_t f = 0; f < filters; f += kFilters) {
    const float* const w = weights + f;
    float* y = out + f;
    const Filters first = bias != nullptr ? Load(bias + f) : Filters{};
    int64_t p = 0;
    for (; p + 4 <= row.positions; p += 4, y += 4 * filters) {
      Filters s0 = first, s1 = first, s2 = first, s3 = first;
      for (int64_t k = 0; k < row.taps; ++k) {
        const Filters v = Load(w + k * filters);
        const float* const x = row.x + p * stride + row.offset[k];
        AddTimes(x[0], v, &s0);
        AddTimes(x[stride], v, &s1);
        AddTimes(x[2 * stride], v, &s2);
        AddTimes(x[3 * stride], v, &s3);
      }
      Finish(s0, relu, y);
      Finish(s1, relu, y + filters);
      Finish(s2, relu, y + 2 * filters);
      Finish(s3, relu, y + 3 * filters);
    }
    for (; p < row.positions; ++p, y += filters) {
      Filters sum = first;
      for (int64_t k = 0; k < row.taps; ++k) {
        AddTimes(row.x[p * stride + row.offset[k]], Load(w + k * filters),
                 &sum);
      }
      Finish(sum, relu, y);
    }
  }
}

void Gradient(const ConvRow& row, const float* gradient, float* dw,
              float* d_bias) {
  const int64_t filters = row.filters, stride = row.stride;
  for (int64_t f = 0; f < filters; f += kFilters) {
    const float* const dy = gradient + f;
    int64_t k = 0;
    for (; k + 4 <= row.taps; k += 4) {
      float* const to = dw + k * filters + f;
      const float* const x0 = row.x + row.offset[k];
      const float* const x1 = row.x + row.offset[k + 1];
      const float* const x2 = row.x + row.offset[k + 2];
      const float* const x3 = row.x + row.offset[k + 3];
      Filters s0 = Load(to), s1 = Load(to + filters);
      Filters s2 = Load(to + 2 * filters), s3 = Load(to + 3 * filters);
      for (int64_t p = 0; p < row.positions; ++p) {
        const Filters d = Load(dy + p * filters);
        AddTimes(x0[p * stride], d, &s0);
        AddTimes(x1[p * stride], d, &s1);
        AddTimes(x2[p * stride], d, &s2);
        AddTimes(x3[p * stride], d, &s3);
      }
      Store(s0, to);
      Store(s1, to + filters);
      Store(s2, to + 2 * filters);
      Store(s3, to + 3 * filters);
    }
    for (; k < row.taps; ++k) {
      Filters sum = Load(dw + k * filters + f);
      for (int64_t p = 0; p < row.positions; ++p) {
        AddTimes(row.x[p * stride + row.offset[k]], Load(dy + p * filters),
                 &sum);
      }
      Store(sum, dw + k * filters + f);
    }
    if (d_bias == nullptr) continue;
    Filters sum = Load(d_bias + f);
    for (int64_t p = 0; p < row.positions; ++p) {
      AddTimes(1, Load(dy + p * filters), &sum);
    }
    Store(sum, d_bias + f);
  }
}

}  // namespace

extern const DirectConv RINGLET_DIRECT_CONV = {kFilters, Forward, Gradient};

#ifndef RINGLET_AVX2
const DirectConv& BestDirectConv() {
#if defined(__x86_64__)
  static const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) return kDirectConvAvx2;
#endif
  return kDirectConv;
}
#endif

}  // namespace ringlet
