// ThreadPool of ringlet/compute.h.

#include "ringlet/compute.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

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

// Each call of Run is a generation. A thread claims a part in the generation,
// so no part of an earlier one remains, and a late thread finds all taken.
class ThreadPool::Team {
 public:
  explicit Team(int threads);
  ~Team();
  Status Start();
  void Run(Function function, const void* work);

 private:
  void Loop(int thread);
  bool Claim(int part, uint64_t generation);
  void RunParts(int first, uint64_t generation);

  const int threads_;
  Function function_ = nullptr;
  const void* work_ = nullptr;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> running_{0};  // parts except 0 that have not returned
  // The last generation that has claimed each part.
  std::unique_ptr<std::atomic<uint64_t>[]> claimed_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::unique_ptr<Thread[]> workers_;  // threads_ - 1, started in order
};

ThreadPool::Team::Team(int threads)
    : threads_(threads),
      claimed_(new std::atomic<uint64_t>[threads]()),
      workers_(new Thread[threads - 1]) {}

Status ThreadPool::Team::Start() {
  for (int t = 1; t < threads_; ++t) {
    RINGLET_RETURN_IF_ERROR(
        workers_[t - 1].Start("to compute with", [this, t] { Loop(t); }));
  }
  return Status();
}

ThreadPool::Team::~Team() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  start_.notify_all();
  for (int t = 1; t < threads_; ++t) workers_[t - 1].Join();
}

bool ThreadPool::Team::Claim(int part, uint64_t generation) {
  uint64_t before = generation - 1;
  return claimed_[part].compare_exchange_strong(before, generation);
}

// Runs the parts that no thread has begun, from `first` on. The caller runs
// part 0.
void ThreadPool::Team::RunParts(int first, uint64_t generation) {
  for (int i = 1; i < threads_; ++i, first = first % (threads_ - 1) + 1) {
    if (!Claim(first, generation)) continue;
    function_(work_, first);
    if (running_.fetch_sub(1) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.notify_one();
    }
  }
}

void ThreadPool::Team::Run(Function function, const void* work) {
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

void ThreadPool::Team::Loop(int thread) {
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

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  RINGLET_CHECK(threads >= 1);
  team_ = std::make_unique<Team>(threads);
  status_ = team_->Start();
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::RunAll(Function function, const void* work) {
  RINGLET_CHECK(status_.ok());
  team_->Run(function, work);
}

}  // namespace ringlet
