// Random numbers and threads for the computations of a layer.

#ifndef RINGLET_COMPUTE_H_
#define RINGLET_COMPUTE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "status.h"

namespace ringlet {

// --- random numbers ----------------------------------------------------------

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): four 32-bit words of a 128-bit counter and a 64-bit key.
class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  Philox(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  // The four words at `position` of this stream.
  Block At(uint64_t position) const {
    Block c = {Low(position), High(position), Low(stream_), High(stream_)};
    uint32_t k0 = Low(seed_), k1 = High(seed_);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
      c = {High(p1) ^ c[1] ^ k0, Low(p1), High(p0) ^ c[3] ^ k1, Low(p0)};
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return c;
  }

  // A number in [0, 1) with 24 bits, which a float holds exactly.
  static float Unit(uint32_t word) {
    return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
  }

 private:
  static uint32_t Low(uint64_t v) { return static_cast<uint32_t>(v); }
  static uint32_t High(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

  uint64_t seed_;
  uint64_t stream_;
};

// --- threads -----------------------------------------------------------------

// The processors that this process may use, by its cgroup's quota too, >= 1.
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

// ThreadPool: a fixed number of threads that do one task at a time.
//
// A task is cut by (part, threads) only, so sums have one order. A waiting
// thread spins for microseconds, then sleeps. Only the constructor allocates.
class ThreadPool {
 public:
  // `threads` >= 1 includes the caller's thread. If status() is an error, Run
  // must not be called.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  const Status& status() const { return status_; }
  int threads() const { return threads_; }

  // Calls work(t) on each thread t, with work(0) on the caller's thread.
  // Returns when all calls have returned. The calls must not wait for each
  // other, and `work` must not call Run.
  template <typename Work>
  void Run(const Work& work) {
    if (threads_ == 1) return work(0);
    RunAll([](const void* w, int t) { (*static_cast<const Work*>(w))(t); },
           &work);
  }

 private:
  class Team;  // the threads, and the work that they share
  using Function = void (*)(const void* work, int thread);
  void RunAll(Function function, const void* work);

  const int threads_;
  Status status_;
  std::unique_ptr<Team> team_;
};

}  // namespace ringlet

#endif  // RINGLET_COMPUTE_H_
