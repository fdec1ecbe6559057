#include "number_text.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "text.h"

namespace ringlet {
namespace {

// digits[0].digits[1]... x 10^exponent, for a finite value that is not
// negative.
struct Digits {
  std::string digits;
  int exponent = 0;
};

double Read(const char* text, double) { return std::strtod(text, nullptr); }
float Read(const char* text, float) { return std::strtof(text, nullptr); }

// printf and strtod use the locale's decimal point; the digits have none.
template <typename T>
bool ReadsBack(const Digits& d, T value) {
  char text[40];  // "12345678901234567e-340"
  std::snprintf(text, sizeof(text), "%se%d", d.digits.c_str(),
                d.exponent + 1 - static_cast<int>(d.digits.size()));
  return Read(text, value) == value;
}

// The nearest number of `count` digits, without trailing zeros.
Digits NearestDigits(double value, int count) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*e", count - 1, value);
  const char* e = std::strchr(text, 'e');
  Digits d;
  d.exponent = std::atoi(e + 1);
  for (const char* c = text; c != e; ++c) {
    if (*c >= '0' && *c <= '9') d.digits += *c;
  }
  while (d.digits.size() > 1 && d.digits.back() == '0') d.digits.pop_back();
  return d;
}

// Returns the next greater number with as many digits.
Digits NextGreater(Digits d) {
  while (!d.digits.empty() && d.digits.back() == '9') d.digits.pop_back();
  if (d.digits.empty()) return Digits{"1", d.exponent + 1};
  ++d.digits.back();
  return d;
}

template <typename T>
Digits ShortestDigits(T value) {
  // Numbers below a power of two are twice as dense as above it. So with few
  // digits the second nearest may read back where the nearest does not.
  int exponent;
  const bool power = std::frexp(value, &exponent) == T(0.5);
  Digits best = NearestDigits(value, std::numeric_limits<T>::max_digits10);
  while (best.digits.size() > 1) {
    const int count = static_cast<int>(best.digits.size()) - 1;
    Digits fewer = NearestDigits(value, count);
    if (!ReadsBack(fewer, value)) {
      fewer.digits.resize(static_cast<size_t>(count), '0');
      fewer = NextGreater(fewer);
      if (!power || !ReadsBack(fewer, value)) break;
    }
    best = fewer;
  }
  return best;
}

std::string Scientific(const Digits& d) {
  std::string text = d.digits.substr(0, 1);
  if (d.digits.size() > 1) text += "." + d.digits.substr(1);
  char exponent[8];
  std::snprintf(exponent, sizeof(exponent), "e%+03d", d.exponent);
  return text + exponent;
}

std::string Fixed(const Digits& d, double value) {
  const int digits_before_point = d.exponent + 1;  // digits before the point
  const int count = static_cast<int>(d.digits.size());
  if (digits_before_point >= count) return PrintedText(value, 'f', 0);
  if (digits_before_point <= 0) {
    return "0." + std::string(static_cast<size_t>(-digits_before_point), '0') +
           d.digits;
  }
  return d.digits.substr(0, static_cast<size_t>(digits_before_point)) + "." +
         d.digits.substr(static_cast<size_t>(digits_before_point));
}

size_t FixedLength(const Digits& d) {
  const int count = static_cast<int>(d.digits.size());
  if (d.exponent < 0) return static_cast<size_t>(1 + count - d.exponent);
  return static_cast<size_t>(d.exponent + 1 >= count ? d.exponent + 1
                                                     : count + 1);
}

template <typename T>
std::string Text(T value, NumberForm form) {
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isnan(value)) return sign + "nan";
  if (std::isinf(value)) return sign + "inf";
  const T size = std::fabs(value);
  const Digits d = ShortestDigits(size);
  if (form == NumberForm::kFixed) return sign + Fixed(d, size);
  const std::string scientific = Scientific(d);
  if (form == NumberForm::kScientific || FixedLength(d) > scientific.size()) {
    return sign + scientific;
  }
  return sign + Fixed(d, size);
}

// The text of a finite number that is not negative, read once.
struct Decimal {
  uint64_t leading = 0;     // its first digits, 19 at most
  bool is_whole = true;     // whether the digits dropped from them are zeros
  int64_t exponent = 0;     // the number is about leading x 10^exponent
  std::string_view digits;  // all of them, and perhaps a point
  int64_t scale = 0;        // the number is digits x 10^scale
};

// Reads the digits and the point; returns what follows them.
std::string_view ReadDigits(std::string_view text, Decimal* number) {
  constexpr uint64_t kRoom = 1000000000000000000;  // for one more digit
  bool fraction = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (!IsDigit(c)) break;
    number->scale -= fraction;
    if (number->leading < kRoom) {
      number->leading = number->leading * 10 + static_cast<uint64_t>(c - '0');
    } else {
      number->is_whole = number->is_whole && c == '0';
      ++number->exponent;
    }
  }
  number->digits = text.substr(0, at);
  number->exponent += number->scale;
  return text.substr(at);
}

// Reads "e-12" to the end of the text.
bool ReadExponent(std::string_view text, Decimal* number) {
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  int64_t exponent = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return false;
    exponent = std::min<int64_t>(exponent * 10 + (c - '0'), 1000000000);
  }
  if (negative) exponent = -exponent;
  number->exponent += exponent;
  number->scale += exponent;
  return !text.empty();
}

// True if a double rounds to the same float even if the double is off by less
// than 8 of its last places. The last place of a float is 2^29 last places of a
// double.
bool HasOneFloat(double value) {
  if (!(value > 2 * FLT_MIN && value < FLT_MAX / 2)) return false;
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const int64_t rest = static_cast<int64_t>(bits % (1u << 29));
  return std::abs(rest - (1 << 28)) >= 8;
}

// Reads the number with one operation of doubles, where that is exact.
bool ReadFast(const Decimal& number, double* value, bool is_float) {
  static constexpr double kPowers[] = {
      1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  constexpr int64_t kLargest = 22;
  if (FLT_EVAL_METHOD != 0 || number.exponent < -kLargest ||
      number.exponent > kLargest) {
    return false;
  }
  const double leading = static_cast<double>(number.leading);
  *value = number.exponent < 0 ? leading / kPowers[-number.exponent]
                               : leading * kPowers[number.exponent];
  const bool exact = number.is_whole && number.leading <= uint64_t{1} << 53;
  if (is_float) return number.leading == 0 || HasOneFloat(*value);
  return exact;
}

// Gives strtod the digits without the point, since strtod expects the point of
// the locale.
template <typename T>
T ReadSlowly(const Decimal& number) {
  std::string text(number.digits);
  text.erase(std::remove(text.begin(), text.end(), '.'), text.end());
  text += 'e' + std::to_string(number.scale);
  return Read(text.c_str(), T());
}

// True if `text` is `word` in any case of letters. `word` is in small letters.
bool IsWord(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a | 0x20) == b; });
}

template <typename T>
bool Parse(std::string_view text, T* value) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  Decimal number;
  const std::string_view rest = ReadDigits(text, &number);
  double fast = 0;
  if (number.digits.empty() || number.digits == ".") {
    const bool infinite = IsWord(text, "inf") || IsWord(text, "infinity");
    if (!infinite && !IsWord(text, "nan")) return false;
    *value = infinite ? std::numeric_limits<T>::infinity()
                      : std::numeric_limits<T>::quiet_NaN();
  } else if (!ReadExponent(rest, &number)) {
    return false;
  } else if (ReadFast(number, &fast, sizeof(T) == sizeof(float))) {
    *value = static_cast<T>(fast);
  } else {
    *value = ReadSlowly<T>(number);
  }
  if (negative) *value = -*value;
  return true;
}

}  // namespace

bool ParseDecimal(std::string_view text, double* value) {
  return Parse(text, value);
}

bool ParseDecimal(std::string_view text, float* value) {
  return Parse(text, value);
}

std::string ShortestText(double value, NumberForm form) {
  return Text(value, form);
}

std::string ShortestText(float value) {
  return Text(value, NumberForm::kShorter);
}

std::string PrintedText(double value, char type, int precision) {
  const char format[] = {'%', '.', '*', type, '\0'};
  char text[512];  // 1.8e308 takes 309, and 99 more after the point
  std::snprintf(text, sizeof(text), format, precision, value);
  std::string printed;
  for (const char* c = text; *c != '\0'; ++c) {
    // Any byte but a digit, sign or letter is part of the locale's point.
    const bool point = std::strchr("0123456789+-einfa", *c) == nullptr;
    if (!point) {
      printed += *c;
    } else if (printed.empty() || printed.back() != '.') {
      printed += '.';
    }
  }
  return printed;
}

}  // namespace ringlet
