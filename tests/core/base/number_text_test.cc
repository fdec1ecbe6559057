// Compares the texts of numbers with those of std::to_chars, an independent
// implementation.

#include "core/base/number_text.h"

#include <gtest/gtest.h>

#include <charconv>
#include <clocale>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace ringlet {
namespace {

template <typename T, typename... Format>
std::string Expected(T value, Format... format) {
  char text[512];
  return std::string(
      text, std::to_chars(text, text + sizeof(text), value, format...).ptr);
}

void ExpectAllForms(double value) {
  EXPECT_EQ(ShortestText(value), Expected(value));
  EXPECT_EQ(ShortestText(value, NumberForm::kFixed),
            Expected(value, std::chars_format::fixed));
  EXPECT_EQ(ShortestText(value, NumberForm::kScientific),
            Expected(value, std::chars_format::scientific));
}

template <typename T, typename Bits>
T OfBits(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

TEST(NumberTextTest, ShortestText_RandomBits_EqualsToChars) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000 && !HasFailure(); ++i) {
    const uint64_t bits = random();
    ExpectAllForms(OfBits<double>(bits));
    const float value = OfBits<float>(static_cast<uint32_t>(bits));
    EXPECT_EQ(ShortestText(value), Expected(value));
  }
}

TEST(NumberTextTest, ShortestText_DecimalsAndWholeNumbers_EqualsToChars) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000 && !HasFailure(); ++i) {
    const double digits = static_cast<double>(random() >> (1 + random() % 63));
    const double value =
        digits * std::pow(10.0, static_cast<double>(random() % 40) - 20);
    ExpectAllForms(value);
    ExpectAllForms(digits);
    const float narrow = static_cast<float>(value);
    EXPECT_EQ(ShortestText(narrow), Expected(narrow));
  }
}

// The numbers below a power of two are nearer than those above.
TEST(NumberTextTest, ShortestText_PowersOfTwoAndNeighbours_EqualsToChars) {
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    const double power = std::ldexp(1.0, exponent);
    for (const double value : {power, std::nextafter(power, 0.0),
                               std::nextafter(power, 2 * power)}) {
      ExpectAllForms(value);
    }
    const float narrow = std::ldexp(1.0f, exponent);
    EXPECT_EQ(ShortestText(narrow), Expected(narrow));
  }
}

TEST(NumberTextTest, ShortestText_SpecialValues_EqualsToChars) {
  for (const double value : {0.0, -0.0, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(),
                             -std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::denorm_min()}) {
    EXPECT_EQ(ShortestText(value), Expected(value));
    const float narrow = static_cast<float>(value);
    EXPECT_EQ(ShortestText(narrow), Expected(narrow));
  }
}

TEST(NumberTextTest, PrintedText_AnyTypeAndPrecision_EqualsToChars) {
  std::mt19937_64 random(3);
  const std::pair<char, std::chars_format> types[] = {
      {'f', std::chars_format::fixed},
      {'e', std::chars_format::scientific},
      {'g', std::chars_format::general}};
  for (int i = 0; i < 5000; ++i) {
    const double value = OfBits<double>(random());
    if (!std::isfinite(value)) continue;
    const int precision = static_cast<int>(random() % 100);
    for (const auto& [type, format] : types) {
      EXPECT_EQ(PrintedText(value, type, precision),
                Expected(value, format, precision));
    }
  }
}

// Germany writes 0,5.
TEST(NumberTextTest, Text_LocaleHasADecimalComma_HasAPoint) {
  const char* found = nullptr;
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (found == nullptr) found = std::setlocale(LC_NUMERIC, name);
  }
  if (found == nullptr) GTEST_SKIP() << "no locale with a decimal comma";
  EXPECT_EQ(ShortestText(0.1), "0.1");
  EXPECT_EQ(ShortestText(1.5e-7f), "1.5e-07");
  EXPECT_EQ(PrintedText(0.25, 'f', 3), "0.250");
  std::setlocale(LC_NUMERIC, "C");
}

}  // namespace
}  // namespace ringlet
