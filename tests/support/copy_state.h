// CopyState: copies the spans of one Saveable into another with the same spans.

#ifndef RINGLET_TESTS_SUPPORT_COPY_STATE_H_
#define RINGLET_TESTS_SUPPORT_COPY_STATE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "expect_ok.h"
#include "ringlet/shape.h"

namespace ringlet {

inline void CopyState(Saveable* from, Saveable* to) {
  std::vector<StateSpan> a, b;
  from->AppendState(&a);
  to->AppendState(&b);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].name, b[i].name);
    ASSERT_EQ(a[i].bytes(), b[i].bytes());
    std::memcpy(b[i].data, a[i].data, a[i].bytes());
  }
  ASSERT_OK(to->StateLoaded());
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_COPY_STATE_H_
