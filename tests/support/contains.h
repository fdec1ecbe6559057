// Contains: whether a text, or the message of a Status, has a part. For
// EXPECT_TRUE and EXPECT_FALSE, which then print the text and the part.

#ifndef RINGLET_TESTS_SUPPORT_CONTAINS_H_
#define RINGLET_TESTS_SUPPORT_CONTAINS_H_

#include <gtest/gtest.h>

#include <string>

#include "ringlet/status.h"

namespace ringlet {

inline testing::AssertionResult Contains(const std::string& text,
                                         const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  return testing::AssertionResult(found)
         << "\"" << text << "\" has " << (found ? "" : "not ") << "the part \""
         << part << "\"";
}

inline testing::AssertionResult Contains(const Status& status,
                                         const std::string& part) {
  return Contains(std::string(status.message()), part);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_CONTAINS_H_
