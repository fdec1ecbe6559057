#include "ringlet/compute.h"

#include "check.h"
#include "thread.h"

namespace ringlet {
namespace {

constexpr int kSpins = 2000;  // some tens of microseconds

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns true when condition() holds, false after kSpins tries.
template <typename Condition>
bool SpinUntil(const Condition& condition) {
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    Pause();
  }
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  RINGLET_CHECK(threads >= 1);
  claimed_.reset(new std::atomic<uint64_t>[threads]());
  workers_.reset(new Thread[threads - 1]);
  for (int t = 1; t < threads && status_.ok(); ++t) {
    status_ = workers_[t - 1].Start("to compute with", [this, t] { Loop(t); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  start_.notify_all();
  for (int t = 1; t < threads_; ++t) workers_[t - 1].Join();
}

// Each part is claimed in each generation, so no part of an earlier generation
// remains. A late thread finds all parts taken.
bool ThreadPool::Claim(int part, uint64_t generation) {
  uint64_t before = generation - 1;
  return claimed_[part].compare_exchange_strong(before, generation);
}

// Runs the parts that no thread has begun, from `first` on. The caller runs
// part 0.
void ThreadPool::RunParts(int first, uint64_t generation) {
  for (int i = 1; i < threads_; ++i, first = first % (threads_ - 1) + 1) {
    if (!Claim(first, generation)) continue;
    function_(work_, first);
    if (running_.fetch_sub(1) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.notify_one();
    }
  }
}

void ThreadPool::RunAll(Function function, const void* work) {
  RINGLET_CHECK(status_.ok());
  function_ = function;
  work_ = work;
  running_ = threads_ - 1;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++generation_;
  }
  start_.notify_all();
  function(work, 0);
  RunParts(1, generation_);
  const auto finished = [this] { return running_ == 0; };
  if (SpinUntil(finished)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, finished);
}

void ThreadPool::Loop(int thread) {
  uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return generation_ != seen; };
    if (!SpinUntil(called)) {
      std::unique_lock<std::mutex> lock(mutex_);
      start_.wait(lock, called);
    }
    seen = generation_;
    if (stop_) return;
    RunParts(thread, seen);
  }
}

}  // namespace ringlet
