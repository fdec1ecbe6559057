// Ring: what RingCollective::Open makes.
//
// Internal to net/.
//
// What must be known to change this:
//   - Two threads: the caller's, and the loop's. The node is of the one that
//     has the loop (Visit), who is in the Owner's methods too. They meet in
//     what mutex_ guards; whatever else the node is to do is posted.
//   - No lock is held while a line is said (whoever reads stderr may be slow)
//     nor while the loop's thread is joined.
//   - The node tells failure_ once, and touches no memory of a call after it.
//   - Every wait ends: by the node's own timers, or by patience_seconds.

#ifndef RINGLET_NET_RING_RING_H_
#define RINGLET_NET_RING_RING_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "../../core/base/message.h"
#include "../../core/base/trail.h"
#include "loop.h"
#include "ring_collective.h"
#include "ring_node.h"
#include "wait_report.h"
#include "wire_order.h"

namespace ringlet {

class Ring final : public RingCollective, private RingNode::Owner {
 public:
  explicit Ring(const RingOptions& options)
      : options_(options), workers_(options.addresses.size()) {
    std::iota(workers_.begin(), workers_.end(), 0);
  }

  ~Ring() override { Close(); }

  Status Reform() override;
  Status Begin();

  // One that is lost before all have met is left out of the next view.
  Status Form() {
    const Status status = Begin();
    const bool again = elastic() && status.code() == Code::kPeerLost;
    return again ? Reform() : status;
  }

  // After an error of Begin, ends the ring: whether another rank told of it.
  bool ToldByOther();

  int rank() const override {
    const auto own =
        std::lower_bound(workers_.begin(), workers_.end(), options_.rank);
    return static_cast<int>(own - workers_.begin());
  }
  int size() const override { return static_cast<int>(workers_.size()); }
  std::string address(int rank) const override {
    return options_.addresses[workers_[rank]];
  }
  bool elastic() const override { return options_.min_workers > 0; }
  int min_workers() const override { return options_.min_workers; }
  bool visited() const override { return visited_; }
  int worker() const override { return options_.rank; }
  size_t bucket_bytes() const override {
    return static_cast<size_t>(std::max<int64_t>(options_.bytes_per_pack, 4));
  }
  size_t exact_bytes() const override {
    return options_.wire_dtype == WireDtype::kFloat32 ? SIZE_MAX : kEagerBytes;
  }
  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    return StartSum(FrameType::kAllReduce, data, count, ticket);
  }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return StartSum(FrameType::kAllReduceInts, data, count, ticket);
  }

  Status Wait(Ticket ticket) override;
  Status Broadcast(void* data, size_t bytes, int root) override;
  Status AllGather(const void* in, size_t bytes, void* out) override;
  Status StartAllGather(const void* in, size_t bytes, void* out,
                        Ticket* ticket) override;
  Status Barrier() override {
    return Run({FrameType::kBarrier, nullptr, 0, 0});
  }

  void Abort(const Status& reason) override;
  void SetStep(uint64_t step) override {
    if (node_ == nullptr) return;
    std::lock_guard<std::mutex> lock(mutex_);
    step_ = step;
  }

 private:
  using Steady = std::chrono::steady_clock;
  // A caller sends as much itself rather than wake the loop's thread.
  static constexpr uint64_t kShort = 64 << 10;
  static constexpr size_t kMostNotices = 32;  // that nobody has said yet

  // Until `seconds` after `begin`; false where the ticket's operation is then
  // still under way.
  bool WaitUntil(std::unique_lock<std::mutex>* lock, Steady::time_point begin,
                 double seconds, Ticket ticket);

  // Goes on waiting, and says so; gives up in the end. The lock is not held
  // while it speaks: whoever reads stderr may be slow.
  void WaitOn(std::unique_lock<std::mutex>* lock, Steady::time_point begin,
              Ticket ticket);

  // The lock is not held while it speaks.
  void SayNotices(std::unique_lock<std::mutex>* lock);

  static double Since(Steady::time_point begin) {
    return std::chrono::duration<double>(Steady::now() - begin).count();
  }
  std::vector<std::string> Addresses() const {  // by rank
    std::vector<std::string> out;
    out.reserve(workers_.size());
    for (int r = 0; r < size(); ++r) out.push_back(address(r));
    return out;
  }
  static void Say(const std::string& text) { Notice("%s", text.c_str()); }

  void End();

  // Says goodbye, and joins the loop's thread: nobody else is left then.
  void Close();

  // Of numbers of four bytes.
  Status StartSum(FrameType type, void* data, size_t count, Ticket* ticket);
  Status Submit(const Call& call, Ticket* ticket);

  // Does what the loop's thread has to, up to this operation, if it may.
  bool Visit(Ticket ticket);
  Status Run(const Call& call);

  // Of who has the loop, as all that follows.
  void TakeSubmitted();

  void Set(bool* what) {
    Tell([what] { *what = true; });
  }
  void OnRunning() override {
    Tell([this] { running_ = true, workers_ = node_->workers(); });
  }
  void OnVisited(bool visited) override { visited_ = visited; }
  void OnCompleted(uint64_t sequence) override {
    if (node_->all_shared()) loop_->AdmitGuests();
    Tell([&] { completed_ = sequence; });
  }
  void OnFailed(const Status& why) override {
    Tell([&] { failure_ = why; });
  }
  void OnTold() override { Set(&told_); }
  void OnClosed() override { Set(&closed_); }
  uint64_t Step() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return step_;
  }
  void OnEvent(const TrailEvent& event) override { NoteEvent(event); }
  void OnNotice(const std::string& line) override {
    Tell([&] {
      if (notices_.size() < kMostNotices) notices_.push_back(line);
    });
  }
  // Wakes whoever waits once the lock is free: woken before, it would only
  // wait for the lock. This lives until the loop's thread was joined.
  template <typename Change>
  void Tell(const Change& change) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  const RingOptions options_;
  uint32_t generation_ = 1;   // proposed to the others
  uint64_t remaining_ = 0;    // Session::remaining of the ring before
  std::vector<int> workers_;  // by rank; of the net thread until running_
  std::atomic<bool> visited_{false};
  bool told_by_other_ = false;  // how the last node failed
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<RingNode> node_;
  std::vector<Call> taken_;  // of who has the loop
  WireOrder wire_order_;     // of the caller's thread

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Call> submitted_;
  uint64_t issued_ = 0;
  uint64_t completed_ = 0;
  uint64_t step_ = 0;
  Status failure_;
  bool running_ = false, closed_ = false, told_ = false;
  std::deque<std::string> notices_;  // for the training thread to say
  Waiting waiting_;                  // as of the last question
  bool asked_ = false;               // and no answer yet
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_H_
