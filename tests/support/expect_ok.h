// EXPECT_OK and ASSERT_OK: a Status is no error. A failure prints its message.

#ifndef RINGLET_TESTS_SUPPORT_EXPECT_OK_H_
#define RINGLET_TESTS_SUPPORT_EXPECT_OK_H_

#include <gtest/gtest.h>

#include "ringlet/status.h"

#define RINGLET_TEST_OK(expect_true, expression)        \
  do {                                                  \
    const ::ringlet::Status ok_status = (expression);   \
    expect_true(ok_status.ok()) << ok_status.message(); \
  } while (0)

#define EXPECT_OK(expression) RINGLET_TEST_OK(EXPECT_TRUE, expression)
#define ASSERT_OK(expression) RINGLET_TEST_OK(ASSERT_TRUE, expression)

#endif  // RINGLET_TESTS_SUPPORT_EXPECT_OK_H_
