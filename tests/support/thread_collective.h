// A Collective without a network, for tests of core: the ranks are threads of
// one process.

#ifndef RINGLET_TESTS_SUPPORT_THREAD_COLLECTIVE_H_
#define RINGLET_TESTS_SUPPORT_THREAD_COLLECTIVE_H_

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/collective.h"
#include "threads.h"

namespace ringlet {

// The state that the ranks share. After a rank has left, every call returns
// kPeerLost. After an abort every call returns the reason of the rank that
// aborted.
class ThreadJob {
 public:
  explicit ThreadJob(int size) : size_(size), spans_(size) {}

  int size() const { return size_; }
  void Leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end_.ok()) end_ = Error(Code::kPeerLost, "a rank has left");
    changed_.notify_all();
  }
  void Abort(int rank, const Status& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!aborted_) end_ = reason.Annotate("rank %d (a thread) failed", rank);
    aborted_ = true;
    changed_.notify_all();
  }

  // Waits until all ranks have called it; the last one calls `combine` on their
  // spans. `what` encodes operation and size: ranks that make different calls
  // get an error.
  Status Combine(
      int rank, void* span, uint64_t what,
      const std::function<void(const std::vector<void*>&)>& combine) {
    std::unique_lock<std::mutex> lock(mutex_);
    // The spans of ranks that called earlier may have ended.
    if (!end_.ok()) return end_;
    if (arrived_ > 0 && what != what_) {
      end_ = InvalidArgument("the ranks' calls differ");
      changed_.notify_all();
      return end_;
    }
    what_ = what;
    spans_[rank] = span;
    if (++arrived_ == size_) {
      combine(spans_);
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return Status();
    }
    const int round = round_;
    changed_.wait(lock, [&] { return round_ != round || !end_.ok(); });
    return round_ != round ? Status() : end_;
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void*> spans_;
  int arrived_ = 0, round_ = 0;
  uint64_t what_ = 0;  // an id of the call under way
  Status end_;         // why all later calls fail
  bool aborted_ = false;
};

class ThreadCollective final : public Collective {
 public:
  ThreadCollective(ThreadJob* job, int rank) : job_(job), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return job_->size(); }
  size_t bucket_bytes() const override { return 4096; }

  // A sum is computed when the caller waits for it or makes another call.
  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    return Start<float>(data, count, 0, ticket);
  }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return Start<int32_t>(data, count, 3, ticket);
  }
  Status Wait(Ticket ticket) override {
    while (done_ < ticket) {
      const Status status = started_.front()();
      started_.pop_front();
      ++done_;
      if (!status.ok()) end_ = status;
    }
    return end_;
  }
  Status Broadcast(void* data, size_t bytes, int root) override {
    broadcast_ += static_cast<int64_t>(bytes);
    return Combine(data, 4 * bytes + 1, [&](const std::vector<void*>& spans) {
      for (void* span : spans) {
        if (span != spans[root]) std::memcpy(span, spans[root], bytes);
      }
    });
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    std::memcpy(static_cast<char*>(out) + rank_ * bytes, in, bytes);
    return Combine(out, 4 * bytes + 2, [&](const std::vector<void*>& outs) {
      for (size_t r = 0; r < outs.size(); ++r) {
        for (void* to : outs) {
          if (to == outs[r]) continue;
          std::memcpy(static_cast<char*>(to) + r * bytes,
                      static_cast<char*>(outs[r]) + r * bytes, bytes);
        }
      }
    });
  }
  Status Barrier() override {
    return Combine(nullptr, UINT64_MAX, [](const std::vector<void*>&) {});
  }
  void Abort(const Status& reason) override { job_->Abort(rank_, reason); }

  int64_t calls() const { return calls_; }  // the calls of this rank
  int64_t broadcast_bytes() const { return broadcast_; }

 private:
  static float Added(float a, float b) { return a + b; }
  static int32_t Added(int32_t a, int32_t b) {  // modulo 2^32
    return static_cast<int32_t>(static_cast<uint32_t>(a) +
                                static_cast<uint32_t>(b));
  }
  // Tests are not optimised, and most of their time is here.
  template <typename T>
  static void Add(const T* span, size_t count, T* sums) {
    for (size_t i = 0; i < count; ++i) sums[i] = Added(sums[i], span[i]);
  }
  template <typename T>
  Status Start(T* data, size_t count, uint64_t what, Ticket* ticket) {
    *ticket = done_ + started_.size() + 1;
    started_.push_back([this, data, count, what] {
      ++calls_;
      return job_->Combine(rank_, data, 4 * count + what,
                           [count](const std::vector<void*>& spans) {
                             std::vector<T> sums(count);
                             for (void* span : spans)
                               Add(static_cast<T*>(span), count, sums.data());
                             for (void* span : spans)
                               std::copy(sums.begin(), sums.end(),
                                         static_cast<T*>(span));
                           });
    });
    return end_;
  }

  template <typename Function>
  Status Combine(void* span, uint64_t what, const Function& combine) {
    RINGLET_RETURN_IF_ERROR(Wait(done_ + started_.size()));
    ++calls_;
    return job_->Combine(rank_, span, what, combine);
  }

  ThreadJob* const job_;
  const int rank_;
  int64_t calls_ = 0;
  int64_t broadcast_ = 0;
  std::deque<std::function<Status()>> started_;  // the oldest first
  Ticket done_ = 0;
  Status end_;  // the first error
};

// Runs `body` as every rank of a job, each on a thread.
inline void RunRanks(int size,
                     const std::function<void(Collective* collective)>& body) {
  ThreadJob job(size);
  RunThreads(size, [&](int rank) {
    ThreadCollective collective(&job, rank);
    body(&collective);
    job.Leave();
  });
}

// Returns the result of `work` on each rank.
template <typename Work>
auto ResultsOfRanks(int size, const Work& work) {
  std::vector<decltype(work(nullptr))> results(static_cast<size_t>(size));
  RunRanks(size, [&](Collective* collective) {
    results[static_cast<size_t>(collective->rank())] = work(collective);
  });
  return results;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_THREAD_COLLECTIVE_H_
