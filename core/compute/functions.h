// Exponentials, logarithms and related functions, without libm.
//
// Releases of libm differ in the last bits, and so would trainings. These
// functions use +, -, *, / and sqrt in a fixed order. All IEEE 754
// implementations agree on that if the compiler keeps the order, with
// -ffp-contract=off and without -ffast-math. Special values are the values of
// libm, except for the bits of a NaN.
//
// The functions of floats have no branches and no calls, so that compilers
// vectorize loops over them, with the same bits. Their polynomials are minimax
// polynomials (Remez's exchange, relative to the function), rounded to float.
// Each function's comment has its largest error in units of the last place,
// over all floats against float64 (`make long RUN=functions`).

#ifndef RINGLET_CORE_COMPUTE_FUNCTIONS_H_
#define RINGLET_CORE_COMPUTE_FUNCTIONS_H_

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#if FLT_EVAL_METHOD == 2
#error "registers of 80 bits round twice: build with -msse2 -mfpmath=sse"
#endif

namespace ringlet {
namespace math {

namespace internal {

template <typename To, typename From>
inline To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// 2^n for n in [-126, 127]. Undefined for other n, without an error.
inline float PowerOf2(int32_t n) {
  return BitCast<float>((static_cast<uint32_t>(n) + 127) << 23);
}

// x = n ln 2 + rest + low, by Cody and Waite. The larger part of n ln 2 has so
// few digits that it is subtracted exactly, for |n| < 512. NaN stays NaN.
struct Reduced {
  int32_t n;
  float rest, low;
};
inline Reduced Reduce(float x) {
  constexpr float kOneOverLn2 = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  constexpr float kRound = 0x1.8p+23f;  // adding it rounds to a whole number
  const float shifted = x * kOneOverLn2 + kRound, n = shifted - kRound;
  const float high = x - n * kLn2High, low = n * kLn2Low;
  const float rest = high - low;
  const auto bits = BitCast<uint32_t>(shifted) - BitCast<uint32_t>(kRound);
  return {BitCast<int32_t>(bits), rest, (high - rest) - low};
}

// e^r - 1 - r for |r| <= ln 2 / 2. The error is 5e-10 of e^r - 1.
inline float ExpRest(float r) {
  float p = 0x1.a18852p-13f;
  p = p * r + 0x1.6db302p-10f;
  p = p * r + 0x1.1110a6p-7f;
  p = p * r + 0x1.555464p-5f;
  p = p * r + 0x1.555556p-3f;
  p = p * r + 0.5f;
  return p * (r * r);
}

// x = 2^exponent m with m in [sqrt 1/2, sqrt 2), for a normal x > 0.
struct Decomposed {
  int32_t exponent;
  float m;
};
inline Decomposed Decompose(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3;
  const uint32_t moved = BitCast<uint32_t>(x) - kRootHalf;
  return {BitCast<int32_t>(moved) >> 23,
          BitCast<float>((moved & 0x007fffff) + kRootHalf)};
}

// log(1 + f) + exponent ln 2 for 1 + f in [sqrt 1/2, sqrt 2]. The polynomial's
// error is 8e-10 of log(1 + f).
inline float LogOf(float f, float exponent) {
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  float p = 0x1.14ca48p-4f;
  p = p * f - 0x1.defffep-4f;
  p = p * f + 0x1.e72882p-4f;
  p = p * f - 0x1.fc07c2p-4f;
  p = p * f + 0x1.23322cp-3f;
  p = p * f - 0x1.555cccp-3f;
  p = p * f + 0x1.99a4f6p-3f;
  p = p * f - 0x1.000006p-2f;
  p = p * f + 0x1.555546p-2f;
  const float square = f * f;
  const float rest = f * square * p + exponent * kLn2Low;
  return (rest - 0.5f * square) + f + exponent * kLn2High;
}

}  // namespace internal

// Largest error: 1.0.
inline float Exp(float x) {
  // Outside, the result is 0 or infinite.
  const float at_least = x < -104 ? -104 : x;
  const internal::Reduced r = internal::Reduce(at_least > 89 ? 89 : at_least);
  const float sum = 1 + r.rest, lost = r.rest - (sum - 1);
  const float y = sum + (internal::ExpRest(r.rest) + (r.low + lost));
  // In two steps, for results beyond 2^127 and denormal ones. Only one step
  // rounds.
  const int32_t half = r.n >> 1;
  return y * internal::PowerOf2(half) * internal::PowerOf2(r.n - half);
}

inline float Expm1(float x) {
  const float at_least = x < -18 ? -18 : x;  // -1 to the last bit
  const internal::Reduced r = internal::Reduce(at_least > 89 ? 89 : at_least);
  const float rise = r.rest + (internal::ExpRest(r.rest) + r.low);
  const float half = internal::PowerOf2(r.n - 1);
  const float y = (rise * half + (half - 0.5f)) * 2;
  return std::fabs(x) < 0x1p-25f ? x : y;  // denormals, and -0
}

inline float Log(float x) {
  const bool denormal = x < FLT_MIN;
  const internal::Decomposed d =
      internal::Decompose(denormal ? x * 0x1p+23f : x);
  const float y = internal::LogOf(
      d.m - 1, static_cast<float>(denormal ? d.exponent - 23 : d.exponent));
  // Zero gives minus infinity; a negative x and NaN give NaN.
  const float outside = x == 0 ? -HUGE_VALF : NAN;
  return x > 0 ? x <= FLT_MAX ? y : x : outside;
}

inline float Log1p(float x) {
  const float sum = 1 + x;
  const internal::Decomposed d = internal::Decompose(sum);
  // The rounding error of the sum, over 2^exponent, which may be 2^128.
  const float lost =
      0.5f * (x - (sum - 1)) * internal::PowerOf2(1 - d.exponent);
  const float y =
      internal::LogOf(d.m - 1 + lost, static_cast<float>(d.exponent));
  const float outside = x == -1 ? -HUGE_VALF : NAN;
  const float all = x > -1 ? x <= FLT_MAX ? y : x : outside;
  return std::fabs(x) < 0x1p-25f ? x : all;
}

inline float Tanh(float x) {
  const float a = std::fabs(x), square = x * x;
  float p = -0x1.93dfb8p-8f;
  p = p * square + 0x1.582048p-6f;
  p = p * square - 0x1.b90e42p-5f;
  p = p * square + 0x1.110cd4p-3f;
  p = p * square - 0x1.55554cp-2f;
  const float small = a + a * square * p;
  const float large = 1 - 2 / (Exp(2 * a) + 1);
  return std::copysign(a < 0.55f ? small : large, x);
}

inline float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x)), sum = 1 + e, lost = e - (sum - 1);
  const float y = (x < 0 ? e : 1) / sum;
  return y - y * (lost * (1 - 0.5f * e));  // about y (1 - lost / sum)
}

// log(1 + e^x)
inline float Softplus(float x) {
  return (x < 0 ? 0 : x) + Log1p(Exp(-std::fabs(x)));
}

// e^(-x^2 / 2), and the probability that a unit normal number is less than x.
// x^2 has twice the digits of x, so it is computed in double.
struct Normal {
  float bell, below;
};
inline Normal NormalAt(float x) {
  constexpr double kOneOverLn2 = 0x1.71547652b82fep+0;
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kRound = 0x1.8p+52;
  // Outside, both are less than any float.
  const float magnitude = std::fabs(x),
              limited = magnitude > 15 ? 15 : magnitude;
  const double a = limited, power = -0.5 * a * a;
  const double shifted = power * kOneOverLn2 + kRound;
  const double r = power - (shifted - kRound) * kLn2;
  double e = 1.0 / 40320;  // terms to the 8th power, error 2e-10
  e = e * r + 1.0 / 5040;
  e = e * r + 1.0 / 720;
  e = e * r + 1.0 / 120;
  e = e * r + 1.0 / 24;
  e = e * r + 1.0 / 6;
  e = e * r + 0.5;
  e = e * r + 1;
  e = e * r + 1;
  const uint64_t n = internal::BitCast<uint64_t>(shifted) -
                     internal::BitCast<uint64_t>(kRound) + 1023;
  e *= internal::BitCast<double>(n << 52);
  // The part above a, divided by e and t; the error is 4e-9.
  const double t = 1 / (1 + 0.3 * a);
  double p = -0x1.51fac455e76f7p-6;
  p = p * t + 0x1.cca7b9b4ddaa0p-4;
  p = p * t - 0x1.d386c81dee531p-3;
  p = p * t + 0x1.88f9d7bd2e8abp-3;
  p = p * t - 0x1.45aaf59d8207bp-4;
  p = p * t + 0x1.8a0df11610368p-4;
  p = p * t + 0x1.41034ebf6f0c6p-4;
  p = p * t + 0x1.c38a518f3fdfep-4;
  p = p * t + 0x1.e9c39d8a19ad2p-4;
  p = p * t + 0x1.ea3c9e59a8a25p-4;
  const double above = e * t * p;
  return {static_cast<float>(e), static_cast<float>(x > 0 ? 1 - above : above)};
}

// Only for a few values per step, or outside training. Their error is at most 2
// units of float64's last place. The error is 1 for Log, and for Pow if the
// result is not a double with full precision.
double Exp(double x);
double Expm1(double x);
double Log(double x);
double Log1p(double x);
double Pow(double x, double y);
double CosPi(double x);  // cos(pi x)
// log(x) and the part of it beyond a double, for a finite x > 0. Pow(x, y) is
// the exponential of their product with y.
double LogWithRest(double x, double* rest);
double Atan2(double y, double x);  // its error is at most 4 units

}  // namespace math
}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_FUNCTIONS_H_
