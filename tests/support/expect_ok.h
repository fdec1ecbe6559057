// EXPECT_OK and ASSERT_OK: a Status or a Result is no error. A failure prints
// its message, and what follows by << as with gtest's macros.

#ifndef RINGLET_TESTS_SUPPORT_EXPECT_OK_H_
#define RINGLET_TESTS_SUPPORT_EXPECT_OK_H_

#include <gtest/gtest.h>

#include "ringlet/status.h"

namespace ringlet {

inline testing::AssertionResult IsOk(const char* expression,
                                     const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << expression << ": " << status.message();
}

template <typename T>
testing::AssertionResult IsOk(const char* expression, const Result<T>& result) {
  return IsOk(expression, result.status());
}

}  // namespace ringlet

#define EXPECT_OK(expression) EXPECT_PRED_FORMAT1(::ringlet::IsOk, expression)
#define ASSERT_OK(expression) ASSERT_PRED_FORMAT1(::ringlet::IsOk, expression)

#endif  // RINGLET_TESTS_SUPPORT_EXPECT_OK_H_
