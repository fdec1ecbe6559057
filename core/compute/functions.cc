// Functions of doubles. A step calls them rarely, so the code is short rather
// than fast. A Pair is a value as the sum of two doubles, which has more digits
// than one (Dekker, 1971).

#include "functions.h"

#include <limits>

namespace ringlet {
namespace math {
namespace {

using internal::BitCast;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kRound = 0x1.8p+52;  // adding it rounds to a whole number
constexpr double kLn2High = 0x1.62e42fefa2000p-1;  // 42 digits
constexpr double kLn2Low = 0x1.9ef35793c7673p-41;

// The sum of both; |low| is at most half of high's last digit.
struct Pair {
  double high, low;
};

Pair Sum(double a, double b) {
  const double sum = a + b, b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// Returns the upper 26 digits.
double Upper(double a) {
  return BitCast<double>(BitCast<uint64_t>(a) & ~uint64_t{0x7ffffff});
}

Pair Product(double a, double b) {
  const double product = a * b, a1 = Upper(a), b1 = Upper(b);
  const double a2 = a - a1, b2 = b - b1;
  return {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

Pair Product(const Pair& a, const Pair& b) {
  const Pair p = Product(a.high, b.high);
  return Sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

Pair Quotient(const Pair& a, const Pair& b) {
  const double q = a.high / b.high;
  const Pair back = Product(q, b.high);
  const double rest = (a.high - back.high) - back.low + a.low - q * b.low;
  return Sum(q, rest / b.high);
}

double PowerOf2(int64_t n) {
  return BitCast<double>((static_cast<uint64_t>(n) + 1023) << 52);
}

// x = 2^n m with m in [sqrt 1/2, sqrt 2), for x > 0.
struct Decomposed {
  int64_t n;
  double m;
};
Decomposed Decompose(double x) {
  const bool denormal = x < std::numeric_limits<double>::min();
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd;
  const uint64_t moved =
      BitCast<uint64_t>(denormal ? x * 0x1p+54 : x) - kRootHalf;
  return {(BitCast<int64_t>(moved) >> 52) - (denormal ? 54 : 0),
          BitCast<double>((moved & 0x000fffffffffffff) + kRootHalf)};
}

// atanh(s) / s = 1 + s^2 / 3 + s^4 / 5 + ..., from the term of s^first on,
// divided by that power. `square` is s^2, s = (m - 1) / (m + 1).
double AtanhRest(double square, int first) {
  double sum = 0;
  for (int k = 25; k > first; k -= 2) sum = sum * square + 1.0 / k;
  return sum;
}

// log(1 + f) + n ln 2.
double LogOf(double f, int64_t exponent) {
  const double s = f / (2 + f), square = s * s, half = 0.5 * f * f;
  const double rest = 2 * square * AtanhRest(square, 2);
  const auto n = static_cast<double>(exponent);
  return n * kLn2High - ((half - (s * (half + rest) + n * kLn2Low)) - f);
}

// log(x) for a finite x > 0, with an error of 2^-63.
Pair LogPair(double x) {
  const Decomposed d = Decompose(x);
  const auto n = static_cast<double>(d.n);
  const Pair s = Quotient(Sum(d.m, -1), Sum(d.m, 1));
  const Pair square = Product(s, s);
  constexpr Pair kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
  const Pair third =
      Sum(kThird.high, square.high * AtanhRest(square.high, 4) + kThird.low);
  const Pair cube = Product(Product(square, third), s);
  const Pair main_part = Sum(n * kLn2High, 2 * s.high);
  return Sum(
      main_part.high,
      main_part.low + (2 * cube.high + (2 * (s.low + cube.low) + n * kLn2Low)));
}

// e^x = 2^n (1 + expm1) for x = high + low.
struct ScaledExp {
  double expm1;
  int64_t n;
};
ScaledExp ExpOf(const Pair& x) {
  const double shifted = x.high * 0x1.71547652b82fep+0 + kRound;
  const double n = shifted - kRound;
  const Pair r = Sum(x.high - n * kLn2High, x.low - n * kLn2Low);
  double p = 0, factorial = 6227020800;  // 13!
  for (int k = 13; k >= 2; factorial /= k--) p = p * r.high + 1 / factorial;
  const auto bits = BitCast<uint64_t>(shifted) - BitCast<uint64_t>(kRound);
  return {r.high + (r.low + p * (r.high * r.high)), BitCast<int64_t>(bits)};
}

double ExpOfPair(const Pair& x) {
  if (!(x.high < 710)) return x.high * kInfinity;
  if (x.high < -746) return 0;
  const ScaledExp r = ExpOf(x);
  const int64_t half = r.n >> 1;
  return (1 + r.expm1) * PowerOf2(half) * PowerOf2(r.n - half);
}

}  // namespace

double Exp(double x) { return ExpOfPair({x, 0}); }

double Expm1(double x) {
  if (!(x < 710)) return x * kInfinity;
  if (x < -40) return -1;
  if (std::fabs(x) < 0x1p-54) return x;
  const ScaledExp r = ExpOf({x, 0});
  const double half = PowerOf2(r.n - 1);
  return (r.expm1 * half + (half - 0.5)) * 2;
}

double Log(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNan;
  const Decomposed d = Decompose(x);
  return x < kInfinity ? LogOf(d.m - 1, d.n) : x;
}

double Log1p(double x) {
  if (!(x > -1)) return x == -1 ? -kInfinity : kNan;
  if (std::fabs(x) < 0x1p-54 || x == kInfinity) return x;
  const double sum = 1 + x, lost = x - (sum - 1);
  const Decomposed d = Decompose(sum);
  return LogOf(d.m - 1 + 0.5 * lost * PowerOf2(1 - d.n), d.n);
}

// The result of C's pow, except that the sign of a zero has no effect.
double Pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return kNan;
  if (x < 0) {
    if (std::floor(y) != y) return x > -kInfinity ? kNan : Pow(-x, y);
    return std::floor(y / 2) * 2 == y ? Pow(-x, y) : -Pow(-x, y);
  }
  // The product below would be infinite.
  if (x == 0 || x == kInfinity || std::fabs(y) > 0x1p+64) {
    return (x > 1) == (y > 0) ? kInfinity : 0;
  }
  return ExpOfPair(Product(LogPair(x), {y, 0}));
}

double LogWithRest(double x, double* rest) {
  const Pair log = LogPair(x);
  *rest = log.low;
  return log.high;
}

double CosPi(double x) {
  const double a = std::fabs(x) - 2 * std::floor(std::fabs(x) / 2);
  const double shifted = 2 * a + kRound;
  const double r = a - 0.5 * (shifted - kRound);  // r is in [-1/4, 1/4]
  const uint64_t quarters = BitCast<uint64_t>(shifted) & 3;
  const bool is_sine = (quarters & 1) != 0;
  const Pair angle =
      Product({r, 0}, {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53});
  const double square = angle.high * angle.high;
  // 1 - a^2 / (k (k - 1)) (1 - ...) from the last term on.
  double p = 1;
  for (int k = is_sine ? 19 : 18; k > 3; k -= 2) {
    p = 1 - square / (k * (k - 1)) * p;
  }
  const double value =
      is_sine ? angle.high + (angle.low - angle.high * (square / 6 * p))
              : 1 - (square * 0.5 * p + angle.high * angle.low);
  return quarters == 1 || quarters == 2 ? -value : value;
}

// Rotates by pi / 4 if that makes |t| at most tan(pi / 8). The angle of t is
// then t - t^3 / 3 + t^5 / 5 - ...
double Atan2(double y, double x) {
  const double a = std::fabs(y), b = std::fabs(x);
  const bool is_steep = a > b;
  double t = is_steep ? b / a : a == 0 ? 0 : a / b;
  constexpr double kPi = 0x1.921fb54442d18p+1;
  constexpr double kTangent = 0x1.a827999fcef32p-2;  // the tangent of pi / 8
  const double rotation = t > kTangent ? kPi / 4 : 0;
  if (rotation > 0) t = (t - 1) / (t + 1);
  const double square = t * t;
  double rest = 0;
  for (int k = 45; k > 1; k -= 2) rest = (1.0 / k - rest) * square;
  double angle = rotation + (t - t * rest);
  if (is_steep) angle = kPi / 2 - angle;
  if (x < 0) angle = kPi - angle;
  return std::copysign(angle, y);
}

}  // namespace math
}  // namespace ringlet
