// Waits of a thread for another thread of its test.

#ifndef RINGLET_TESTS_SUPPORT_AWAIT_H_
#define RINGLET_TESTS_SUPPORT_AWAIT_H_

#include <atomic>
#include <thread>

#include "elastic_collective.h"

namespace ringlet {

inline void Await(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

// Returns when a worker waits to join the job.
inline void AwaitJoiner(ElasticJob* job) {
  while (!job->has_joiner()) std::this_thread::yield();
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_AWAIT_H_
