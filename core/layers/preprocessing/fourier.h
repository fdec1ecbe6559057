// The Fourier transform of a frame of sound, in double and in a fixed order.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_FOURIER_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_FOURIER_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "frame_plan.h"

namespace ringlet {

// Puts complex number i of `count`, a power of 2, at the place with the bits of
// i in reverse.
inline void ReverseBits(double* z, int64_t count) {
  for (int64_t i = 1, j = 0; i < count; ++i) {
    int64_t bit = count / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j ^= bit;
    if (i >= j) continue;
    std::swap(z[2 * i], z[2 * j]);
    std::swap(z[2 * i + 1], z[2 * j + 1]);
  }
}

// Computes the Fourier transform of fft_length / 2 complex numbers, in place.
inline void TransformComplex(const FramePlan& plan, double* z) {
  const int64_t count = plan.fft_length / 2;
  ReverseBits(z, count);
  for (int64_t half = 1; half < count; half *= 2) {
    const int64_t step = count / half;  // the step on the circle
    for (int64_t begin = 0; begin < count; begin += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const double c = plan.cosines[static_cast<size_t>(k * step)],
                     s = plan.sines[static_cast<size_t>(k * step)];
        double* const a = z + 2 * (begin + k);
        double* const b = a + 2 * half;
        const double real = b[0] * c + b[1] * s, imag = b[1] * c - b[0] * s;
        b[0] = a[0] - real;
        b[1] = a[1] - imag;
        a[0] += real;
        a[1] += imag;
      }
    }
  }
}

// Calls body(k, real, imaginary) for each frequency k of the transform of
// fft_length numbers: pairs of them are taken as complex numbers, and the
// transform of these is divided.
template <typename Body>
void FastTransform(const FramePlan& plan, double* x, const Body& body) {
  const int64_t count = plan.fft_length / 2;
  TransformComplex(plan, x);
  for (int64_t k = 0; k <= count; ++k) {
    const double* const p = x + 2 * (k % count);
    const double* const q = x + 2 * ((count - k) % count);
    const double even_r = 0.5 * (p[0] + q[0]), even_i = 0.5 * (p[1] - q[1]),
                 odd_r = 0.5 * (p[1] + q[1]), odd_i = 0.5 * (q[0] - p[0]);
    const double c = plan.cosines[static_cast<size_t>(k)],
                 s = plan.sines[static_cast<size_t>(k)];
    body(k, even_r + (odd_r * c + odd_i * s), even_i + (odd_i * c - odd_r * s));
  }
}

// Calls body(k, real, imaginary) for each frequency k, by the definition of the
// transform: for lengths that FastTransform does not know.
template <typename Body>
void DirectTransform(const FramePlan& plan, const double* x, const Body& body) {
  const auto window = static_cast<int64_t>(plan.window.size());
  for (int64_t k = 0; k < plan.frequencies(); ++k) {
    double real = 0, imag = 0;
    // The place on the circle.
    int64_t at = plan.window_begin * k % plan.fft_length;
    for (int64_t i = plan.window_begin; i < plan.window_begin + window; ++i) {
      real += x[i] * plan.cosines[static_cast<size_t>(at)];
      imag -= x[i] * plan.sines[static_cast<size_t>(at)];
      at += k;
      if (at >= plan.fft_length) at -= plan.fft_length;
    }
    body(k, real, imag);
  }
}

// Calls body(k, real, imaginary) for each frequency of a frame. Sample i is
// x[i * step]. `scratch` has fft_length doubles.
template <typename Body>
void TransformFrame(const FramePlan& plan, const float* x, int64_t step,
                    int64_t frame, double* scratch, const Body& body) {
  std::fill_n(scratch, plan.fft_length, 0.0);
  const int64_t begin = frame * plan.stride + plan.window_begin;
  for (size_t i = 0; i < plan.window.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const int64_t at = plan.SampleAt(begin + place);
    if (at < 0) continue;
    scratch[plan.window_begin + place] = plan.window[i] * double{x[at * step]};
  }
  if (plan.is_fast()) {
    FastTransform(plan, scratch, body);
  } else {
    DirectTransform(plan, scratch, body);
  }
}

// The first place for a double.
inline double* FirstDouble(float* floats) {
  const bool fits = reinterpret_cast<uintptr_t>(floats) % sizeof(double) == 0;
  return reinterpret_cast<double*>(fits ? floats : floats + 1);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_FOURIER_H_
