// Numbers as texts: the same on every machine and in every locale.
//
// Internal. The shortest texts are those of std::to_chars, whose tables take
// 111 kB of a static program; here printf's digits are read back.

#ifndef RINGLET_CORE_BASE_NUMBER_TEXT_H_
#define RINGLET_CORE_BASE_NUMBER_TEXT_H_

#include <string>

namespace ringlet {

enum class NumberForm {
  kShorter,     // of the other two; fixed where they are as long
  kFixed,       // 0.001, 1500
  kScientific,  // 1e-03, 1.5e+03
};

// The fewest digits that read back the same value, and of those the nearest;
// whole numbers in fixed form with all digits that they have. "inf", "nan" and
// "-nan" too.
std::string ShortestText(double value, NumberForm form = NumberForm::kShorter);
std::string ShortestText(float value);

// As printf's %.*f, %.*e or %.*g does in the C locale; 0 <= precision <= 99.
std::string PrintedText(double value, char type, int precision);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_NUMBER_TEXT_H_
