// Numbers as text: the same on every machine and in every locale.
//
// The shortest texts equal std::to_chars's. The tables of std::to_chars need
// 111 kB of a static program, so this code reads back printf's digits instead.

#ifndef RINGLET_CORE_BASE_NUMBER_TEXT_H_
#define RINGLET_CORE_BASE_NUMBER_TEXT_H_

#include <string>

namespace ringlet {

enum class NumberForm {
  kShorter,     // the shorter of the others; fixed if equal
  kFixed,       // 0.001, 1500
  kScientific,  // 1e-03, 1.5e+03
};

// The fewest digits that read back the same value; among these the nearest. In
// fixed form a whole number has all its digits. Also "inf", "nan" and "-nan".
std::string ShortestText(double value, NumberForm form = NumberForm::kShorter);
std::string ShortestText(float value);

// As printf's %.*f, %.*e or %.*g in the C locale; 0 <= precision <= 99.
std::string PrintedText(double value, char type, int precision);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_NUMBER_TEXT_H_
