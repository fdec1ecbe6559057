#include "thread_pool.h"

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

// True once condition() holds; false after kSpins tries.
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
    function_(work_, thread);
    if (running_.fetch_sub(1) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace ringlet
