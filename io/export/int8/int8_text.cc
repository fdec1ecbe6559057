#include "int8_text.h"

#include <cstddef>
#include <cstring>

namespace ringlet {
namespace int8 {
namespace {

// The length of the rest of a statement after a brace: ";" or " name;".
size_t RestOfStatement(const char* text) {
  const size_t length = std::strspn(text, " abcdefghijklmnopqrstuvwxyz_");
  return text[length] == ';' ? length + 1 : 0;
}

}  // namespace

void AppendLines(const char* text, std::string* out) {
  int depth = 0, parentheses = 0;
  bool begins = true;
  for (const char* c = text; *c != '\0'; ++c) {
    if (begins && *c == ' ') continue;
    if (begins) {
      const bool closes = *c == '}';
      if (depth == 0) *out += '\n';
      out->append(static_cast<size_t>(2 * (closes ? depth - 1 : depth)), ' ');
      begins = false;
    }
    *out += *c;
    parentheses += (*c == '(') - (*c == ')');
    // In "= {" and "enum {".
    if (*c == '{' && c[-1] == ' ' && (c[-2] == '=' || c[-2] == 'm')) {
      while (*c != '}') *out += *++c;
      continue;
    }
    depth += (*c == '{') - (*c == '}');
    if (*c == '}' && depth == 0) {
      const size_t rest = RestOfStatement(c + 1);
      out->append(c + 1, rest);
      c += rest;
    }
    if (*c == '{' || *c == '}' || (*c == ';' && parentheses == 0)) {
      *out += '\n';
      begins = true;
    }
  }
}

}  // namespace int8
}  // namespace ringlet
