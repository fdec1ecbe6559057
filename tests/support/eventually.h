// Eventually: waits for an event in another thread or process.

#ifndef RINGLET_TESTS_SUPPORT_EVENTUALLY_H_
#define RINGLET_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <functional>
#include <thread>

namespace ringlet {

// Waits until `condition` is true. Returns false after five minutes.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_EVENTUALLY_H_
