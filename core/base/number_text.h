// Numbers as text: the same on every machine and in every locale.
//
// The shortest texts equal the texts of std::to_chars, and texts are read as by
// std::from_chars. The tables of these functions need 111 kB and 31 kB of a
// static program. So this code reads back printf's digits instead, and leaves
// to strtod what one operation does not read exactly.

#ifndef RINGLET_CORE_BASE_NUMBER_TEXT_H_
#define RINGLET_CORE_BASE_NUMBER_TEXT_H_

#include <string>
#include <string_view>

namespace ringlet {

enum class NumberForm {
  kShorter,     // the shorter of the next two; if equal, kFixed
  kFixed,       // 0.001, 1500
  kScientific,  // 1e-03, 1.5e+03
};

// The fewest digits that read back the same value; among these the nearest. In
// fixed form a whole number has all its digits. Also "inf", "nan" and "-nan".
std::string ShortestText(double value, NumberForm form = NumberForm::kShorter);
std::string ShortestText(float value);

// As printf's %.*f, %.*e or %.*g in the C locale; 0 <= precision <= 99.
std::string PrintedText(double value, char type, int precision);

// The nearest number to the whole of a text such as "-1.5e3", ".5", "inf" or
// "nan"; infinite where it is too large. False for any other text, also one
// with a space or a plus before the number.
bool ParseDecimal(std::string_view text, double* value);
bool ParseDecimal(std::string_view text, float* value);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_NUMBER_TEXT_H_
