#include "c_body.h"

#include <cctype>
#include <set>

#include "../../../core/base/text.h"

namespace ringlet {

bool IsWordPart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

namespace {

// Calls each(begin, end) for each name and number of the text.
template <typename Each>
void ForEachWord(const std::string& text, const Each& each) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsWordPart(text[i])) continue;
    const size_t begin = i;
    while (i < text.size() && IsWordPart(text[i])) ++i;
    each(begin, i);
  }
}

// Adds the names that a line declares, if it begins a declaration.
void AddNames(const std::string& line, std::set<std::string>* names) {
  const bool lists = StartsWith(line, "enum ");
  // The name is the last word before one of these.
  const size_t end =
      line.find_first_of(lists                          ? "}"
                         : StartsWith(line, "typedef ") ? ")"
                                                        : "([=;");
  if (end == std::string::npos) return;
  std::string last;
  ForEachWord(line.substr(0, end), [&](size_t begin, size_t stop) {
    last = line.substr(begin, stop - begin);
    if (lists && std::isupper(static_cast<unsigned char>(last[0])) != 0) {
      names->insert(last);
    }
  });
  if (!lists) names->insert(last);
}

}  // namespace

std::string PrefixNames(const std::string& text, const std::string& prefix) {
  std::set<std::string> names;
  for (const std::string& line : SplitAt(text, '\n')) {
    for (const char* const start :
         {"static ", "enum ", "typedef ", "} ", "#define "}) {
      if (StartsWith(line, start)) AddNames(line, &names);
    }
  }
  std::string result;
  size_t copied = 0;
  ForEachWord(text, [&](size_t begin, size_t end) {
    if (names.count(text.substr(begin, end - begin)) == 0) return;
    result += text.substr(copied, begin - copied) + prefix;
    copied = begin;
  });
  return result + text.substr(copied);
}

}  // namespace ringlet
