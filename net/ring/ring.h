// Ring: the implementation of RingCollective.
//
// To change this file, know that:
//   - Two threads: the caller's thread and the loop's thread. The loop's
//     owner (RunLoop) uses the node, and runs the Owner's methods. The threads
//     share what mutex_ guards; other work for the node is posted.
//   - No lock is held while a line is printed (the reader of stderr may be
//     slow) nor while the loop's thread is joined.
//   - The node sets failure_ one time, and uses no memory of a call after that.
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

#include "../../core/base/events.h"
#include "../collective/wait_report.h"
#include "../transport/loop.h"
#include "ring_collective.h"
#include "ring_node.h"
#include "ringlet/status.h"
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

  // A worker that is lost before the ring has formed is left out of the next
  // view.
  Status Form() {
    const Status status = Begin();
    const bool reforms = elastic() && status.code() == Code::kPeerLost;
    return reforms ? Reform() : status;
  }

  // Ends the ring after an error of Begin. True if another rank reported the
  // error.
  bool EndAfterError();

  int rank() const override {
    const auto own_place =
        std::lower_bound(workers_.begin(), workers_.end(), options_.worker);
    return static_cast<int>(own_place - workers_.begin());
  }
  int size() const override { return static_cast<int>(workers_.size()); }
  std::string address(int rank) const override {
    return options_.addresses[workers_[rank]];
  }
  bool elastic() const override { return options_.min_workers > 0; }
  int min_workers() const override { return options_.min_workers; }
  bool has_joiner() const override { return has_joiner_; }
  int worker() const override { return options_.worker; }
  size_t bucket_bytes() const override {
    return static_cast<size_t>(std::max<int64_t>(options_.bytes_per_pack, 4));
  }
  size_t unrounded_bytes() const override {
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
    return RunAndWait({FrameType::kBarrier, nullptr, 0, 0});
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
  static constexpr size_t kMaxNotices = 32;  // not printed yet

  // Waits until `seconds` after `begin`. False if the ticket's operation is
  // then still under way.
  bool WaitUntil(std::unique_lock<std::mutex>* lock, Steady::time_point begin,
                 double seconds, Ticket ticket);

  // Continues a wait of more than timeout_seconds: prints reports, and aborts
  // after patience_seconds. The lock is not held while it prints: the reader of
  // stderr may be slow.
  void WaitWithReports(std::unique_lock<std::mutex>* lock,
                       Steady::time_point begin, Ticket ticket);

  // The lock is not held while it prints.
  void PrintNotices(std::unique_lock<std::mutex>* lock);

  static double SecondsSince(Steady::time_point begin) {
    return std::chrono::duration<double>(Steady::now() - begin).count();
  }
  std::vector<std::string> Addresses() const {  // the address of each rank
    std::vector<std::string> out;
    out.reserve(workers_.size());
    for (int r = 0; r < size(); ++r) out.push_back(address(r));
    return out;
  }
  static void PrintLine(const std::string& text) { Notice("%s", text.c_str()); }

  void End();

  // Sends a goodbye, and joins the loop's thread, the last other user.
  void Close();

  // Starts a sum of numbers of four bytes.
  Status StartSum(FrameType type, void* data, size_t count, Ticket* ticket);
  Status Submit(const Call& call, Ticket* ticket);

  // Does the work of the loop's thread, up to this operation, if it may enter
  // the loop. Returns true if it did.
  bool RunLoop(Ticket ticket);
  Status RunAndWait(const Call& call);
  Status WaitUntimed(Ticket ticket);

  // The methods below are called by the loop's owner.
  void StartSubmitted();

  void SetFlag(bool* flag) {
    UpdateAndNotify([flag] { *flag = true; });
  }
  void OnRunning() override {
    UpdateAndNotify([this] { running_ = true, workers_ = node_->workers(); });
  }
  void OnJoiner(bool has_joiner) override { has_joiner_ = has_joiner; }
  void OnCompleted(uint64_t sequence) override {
    if (node_->all_shared()) loop_->AllowOtherThreads();
    UpdateAndNotify([&] { completed_ = sequence; });
  }
  void OnFailed(const Status& why) override {
    ReportLongWait({});
    UpdateAndNotify([&] { failure_ = why; });
  }
  void OnDelivered() override { SetFlag(&delivered_); }
  void OnClosed() override { SetFlag(&closed_); }
  uint64_t Step() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return step_;
  }
  void OnEvent(const Event& event) override { RecordEvent(event); }
  void OnLongWait(const LongWait& wait) override { ReportLongWait(wait); }
  void OnNotice(const std::string& line) override {
    UpdateAndNotify([&] {
      if (notices_.size() < kMaxNotices) notices_.push_back(line);
    });
  }
  // Notifies after the unlock, so that the woken thread gets the lock
  // immediately.
  template <typename Change>
  void UpdateAndNotify(const Change& change) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  const RingOptions options_;
  uint32_t generation_ = 1;      // this worker proposes it
  uint64_t remaining_mask_ = 0;  // Session::remaining_workers of the last ring
  // The worker of each rank; of the net thread until running_.
  std::vector<int> workers_;
  std::atomic<bool> has_joiner_{false};
  bool reported_by_other_ = false;  // how the last node failed
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<RingNode> node_;
  std::vector<Call> taken_;  // owned by the loop's owner
  WireOrder wire_order_;     // owned by the caller's thread

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Call> submitted_;
  uint64_t issued_ = 0;
  uint64_t completed_ = 0;
  uint64_t step_ = 0;
  Status failure_;
  bool running_ = false, closed_ = false, delivered_ = false;
  std::deque<std::string> notices_;  // the training thread prints them
  WaitChain waiting_;                // the last answer of RingNode::CurrentWait
  bool requested_ = false;           // requested; not yet in waiting_
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_H_
