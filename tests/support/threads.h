// RunThreads: calls a function on several threads at the same time.

#ifndef RINGLET_TESTS_SUPPORT_THREADS_H_
#define RINGLET_TESTS_SUPPORT_THREADS_H_

#include <thread>
#include <vector>

namespace ringlet {

// Calls body(0) to body(count - 1), each on a thread. Waits for all.
template <typename Body>
void RunThreads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_THREADS_H_
