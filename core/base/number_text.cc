#include "number_text.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

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

}  // namespace

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
