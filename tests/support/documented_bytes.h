// DocumentedBytes: the example in hex that a page of docs/ ends with.

#ifndef RINGLET_TESTS_SUPPORT_DOCUMENTED_BYTES_H_
#define RINGLET_TESTS_SUPPORT_DOCUMENTED_BYTES_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "temp_folder.h"

namespace ringlet {

// Reads the lines "0a0: 00 ff ..." after the heading "Example".
inline std::string DocumentedBytes(const std::string& page) {
  const std::string text =
      ReadWhole(EnvironmentOr("RINGLET_SOURCE", ".") + "/docs/" + page);
  const size_t example = text.find("## Example");
  EXPECT_NE(example, std::string::npos) << page;
  std::string bytes;
  if (example == std::string::npos) return bytes;
  std::istringstream lines(text.substr(example));
  for (std::string line; std::getline(lines, line);) {
    unsigned offset = 0;
    char colon = 0;
    if (std::sscanf(line.c_str(), "%3x%c", &offset, &colon) != 2 ||
        colon != ':') {
      continue;
    }
    EXPECT_EQ(offset, bytes.size()) << line;
    std::istringstream hex(line.substr(5, 3 * 16));
    for (std::string pair; hex >> pair;) {
      bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
    }
  }
  return bytes;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_DOCUMENTED_BYTES_H_
