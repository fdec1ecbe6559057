// Parts of texts: to look for one, to count it, or to replace it.

#ifndef RINGLET_TESTS_SUPPORT_CONTAINS_H_
#define RINGLET_TESTS_SUPPORT_CONTAINS_H_

#include <gtest/gtest.h>

#include <string>

#include "ringlet/status.h"

namespace ringlet {

// For EXPECT_TRUE and EXPECT_FALSE. A failure prints the text and the part.
inline testing::AssertionResult Contains(const std::string& text,
                                         const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  return testing::AssertionResult(found)
         << "\"" << text << "\" has " << (found ? "" : "not ") << "the part \""
         << part << "\"";
}

// Searches the message of a Status.
inline testing::AssertionResult Contains(const Status& status,
                                         const std::string& part) {
  return Contains(std::string(status.message()), part);
}

// Returns the text with its first `from` replaced, which must exist.
inline std::string Replaced(std::string text, const std::string& from,
                            const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Counts the places where a text has a part.
inline int CountOccurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_CONTAINS_H_
