// BOTH: functions that are compiled here and kept as text for a C file.

#ifndef RINGLET_IO_EXPORT_INT8_INT8_TEXT_H_
#define RINGLET_IO_EXPORT_INT8_INT8_TEXT_H_

#include <string>

// Compiles the functions, and keeps them as text without comments and line
// ends; AppendLines restores line ends. So they are both C99 and C++: with C
// casts, and without `//`, directives and strings.
#define BOTH(name, ...) \
  __VA_ARGS__           \
  constexpr char name[] = #__VA_ARGS__;

namespace ringlet {
namespace int8 {

// Appends the text in lines, indented by their braces. An initializer or an
// enum stays in its line.
void AppendLines(const char* text, std::string* out);

}  // namespace int8
}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_INT8_TEXT_H_
