#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ringlet/compute.h"

namespace ringlet {
namespace {

// The threads claim the parts in any order: some runs end before a thread has
// begun, and some parts take longer than others.
TEST(ThreadPoolTest, Run_AnyNumberOfThreads_CallsEachPartOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<int> calls(static_cast<size_t>(threads));
    for (int run = 0; run < 2000; ++run) {
      const auto caller = std::this_thread::get_id();
      pool.Run([&](int t) {
        for (volatile int i = 0; i < (run + t) % 7 * 100;) i = i + 1;
        if (run % 500 == 499) std::this_thread::yield();
        ++calls[static_cast<size_t>(t)];
        if (t == 0) {
          EXPECT_EQ(std::this_thread::get_id(), caller);
        }
      });
      for (const int count : calls) ASSERT_EQ(count, run + 1);
    }
  }
}

}  // namespace
}  // namespace ringlet
