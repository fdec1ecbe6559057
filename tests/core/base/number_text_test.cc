// Compares the texts of numbers with the texts of std::to_chars, an independent
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

template <typename T>
void ExpectParsedAsByFromChars(const std::string& text) {
  T value = 0, expected = 0;
  const bool parsed = ParseDecimal(text, &value);
  const char* const end = text.data() + text.size();
  const auto got = std::from_chars(text.data(), end, expected);
  EXPECT_EQ(parsed, got.ptr == end && got.ec != std::errc::invalid_argument)
      << text;
  if (!parsed || got.ec != std::errc()) return;
  EXPECT_EQ(std::memcmp(&value, &expected, sizeof(T)), 0)
      << text << ": " << value << ", not " << expected;
}

void ExpectParsed(const std::string& text) {
  ExpectParsedAsByFromChars<float>(text);
  ExpectParsedAsByFromChars<double>(text);
}

TEST(NumberTextTest, ParseDecimal_RandomDigits_EqualsFromChars) {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 200000; ++i) {
    std::string text = below(3) == 0 ? "-" : "";
    const int digits = 1 + below(i % 10 == 0 ? 60 : 22);
    const int point = below(4) == 0 ? -1 : below(static_cast<unsigned>(digits));
    for (int d = 0; d < digits; ++d) {
      if (d == point) text += '.';
      text += static_cast<char>('0' + (below(5) == 0 ? 0 : below(10)));
    }
    if (below(3) == 0) text += 'e' + std::to_string(below(90) - 50);
    ExpectParsed(text);
  }
}

// A number half way between two floats, and its neighbours as doubles: each as
// text of all digits that it has, and of fewer.
TEST(NumberTextTest, ParseDecimal_NearHalfWay_EqualsFromChars) {
  std::mt19937 random(8);
  for (int i = 0; i < 20000; ++i) {
    const double exact = std::ldexp((random() % (1u << 24)) * 2.0 + 1,
                                    static_cast<int>(random() % 120) - 80);
    for (const double value :
         {exact, std::nextafter(exact, 0), std::nextafter(exact, HUGE_VAL)}) {
      for (const int precision : {7, 15, 16, 17, 19, 25, 60}) {
        ExpectParsed(PrintedText(value, 'e', precision));
      }
    }
  }
}

TEST(NumberTextTest, ParseDecimal_OddTexts_EqualsFromChars) {
  for (const char* text : {"",
                           ".",
                           "-",
                           "-.",
                           "0",
                           "-0",
                           "-0.0",
                           "00012",
                           "1.",
                           ".5",
                           "-.5e1",
                           "1e",
                           "1e+",
                           "1e-",
                           "e5",
                           "1e5x",
                           "1 ",
                           " 1",
                           "+1",
                           "--1",
                           "-+1",
                           "0x1",
                           "1.2.3",
                           "inf",
                           "-INF",
                           "Infinity",
                           "infinit",
                           "nan",
                           "-NaN",
                           "1e+07",
                           "1e400",
                           "-1e400",
                           "1e-400",
                           "1e39",
                           "3.4028235e38",
                           "3.4028236e38",
                           "1e-45",
                           "7e-46",
                           "7.1e-46",
                           "1.17549435e-38",
                           "1.1754942e-38",
                           "1e99999999999999999999",
                           "0e99999999999999999999",
                           "1e-99999999999999999999",
                           "9007199254740993",
                           "9007199254740992.5",
                           "18446744073709551615",
                           "99999999999999999999",
                           "1e22",
                           "1e23"}) {
    ExpectParsed(text);
  }
  ExpectParsed("1" + std::string(400, '0') + "e-400");
  ExpectParsed("0." + std::string(400, '0') + "1e400");
  float value = 0;
  EXPECT_TRUE(ParseDecimal("1e40", &value));
  EXPECT_EQ(value, HUGE_VALF);
}

// In Germany the decimal point is a comma: 0,5.
TEST(NumberTextTest, Text_LocaleHasADecimalComma_HasAPoint) {
  const char* found = nullptr;
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (found == nullptr) found = std::setlocale(LC_NUMERIC, name);
  }
  if (found == nullptr) GTEST_SKIP() << "no locale with a decimal comma";
  EXPECT_EQ(ShortestText(0.1), "0.1");
  EXPECT_EQ(ShortestText(1.5e-7f), "1.5e-07");
  EXPECT_EQ(PrintedText(0.25, 'f', 3), "0.250");
  double value = 0;
  EXPECT_TRUE(ParseDecimal("1.00000000000000000000001", &value));
  EXPECT_EQ(value, 1);
  EXPECT_FALSE(ParseDecimal("1,5", &value));
  std::setlocale(LC_NUMERIC, "C");
}

}  // namespace
}  // namespace ringlet
