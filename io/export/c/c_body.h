// CBody: the frozen layers before the trained ones, as a part of a C file that
// trains. The part has its own functions, such as another conv().

#ifndef RINGLET_IO_EXPORT_C_C_BODY_H_
#define RINGLET_IO_EXPORT_C_C_BODY_H_

#include <cstddef>
#include <string>

namespace ringlet {

struct CBody {
  std::string text;  // see Int8Model::Body
  size_t flash = 0, ram = 0;
};

// True for the characters of names and numbers in C.
bool IsWordPart(char c);

// Puts `prefix` before the names that the lines of a C text declare outside of
// functions, wherever the text has them.
std::string PrefixNames(const std::string& text, const std::string& prefix);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_BODY_H_
