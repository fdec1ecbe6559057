// ThreadPool: a fixed number of threads that work on one thing at a time.
//
// Public. Work is cut by (part, threads) alone, so for a given number of
// threads every sum has the same order and a run repeats bit for bit; which
// thread computes a part is of no matter, and one that is done takes what
// another has not begun, as where other programs have its processor. A waiting
// thread spins for some microseconds, then sleeps. No allocation after the
// construction.

#ifndef RINGLET_CORE_BASE_THREAD_POOL_H_
#define RINGLET_CORE_BASE_THREAD_POOL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "status.h"

namespace ringlet {

class Thread;

// How many threads of this process can compute at once, >= 1: the processors
// that it may run on (sched_getaffinity), fewer where a cgroup has a quota
// (cpu.max, cpu.cfs_quota_us; a fraction counts as one).
int UsableCores();

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// Part `index` of `parts` of [0, n), cut at multiples of `grain`.
inline Range Split(int64_t n, int parts, int index, int64_t grain = 1) {
  const int64_t grains = (n + grain - 1) / grain;
  return {std::min(n, grains * index / parts * grain),
          std::min(n, grains * (index + 1) / parts * grain)};
}

class ThreadPool {
 public:
  // `threads` >= 1, the caller's own thread included. Where the system refuses
  // one, status() says so, and nothing can be run.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  const Status& status() const { return status_; }
  int threads() const { return threads_; }

  // Calls work(t) once for each t in [0, threads()), work(0) on the calling
  // thread, and returns when all have returned. One may be called once another
  // has returned, so none may wait for another. Not re-entrant.
  template <typename Work>
  void Run(const Work& work) {
    if (threads_ == 1) return work(0);
    RunAll([](const void* w, int t) { (*static_cast<const Work*>(w))(t); },
           &work);
  }

 private:
  using Function = void (*)(const void* work, int thread);
  void RunAll(Function function, const void* work);
  void Loop(int thread);
  bool Claim(int part, uint64_t generation);
  void RunParts(int first, uint64_t generation);

  const int threads_;
  Function function_ = nullptr;
  const void* work_ = nullptr;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> running_{0};  // parts but for 0 that have not returned
  // The last generation whose part it was.
  std::unique_ptr<std::atomic<uint64_t>[]> claimed_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  Status status_;
  std::unique_ptr<Thread[]> workers_;  // threads_ - 1, started in order
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_THREAD_POOL_H_
