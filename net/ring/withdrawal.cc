#include "withdrawal.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "../transport/loop.h"
#include "../transport/socket_address.h"
#include "../wire/handshake.h"
#include "check_ring_options.h"
#include "ring_node.h"

namespace ringlet {
namespace {

// A node that only withdraws, on a loop of its own.
class Withdrawing final : public Withdrawal, private RingNode::Owner {
 public:
  Withdrawing(const RingOptions& options, const Status& why)
      : options_(options), why_(why) {}

  ~Withdrawing() override {
    if (loop_ == nullptr) return;
    std::unique_lock<std::mutex> lock(mutex_);
    // Waits for the node's own deadline, and a little longer.
    const std::chrono::duration<double> limit(2 * kWithdrawSeconds);
    changed_.wait_for(lock, limit, [this] { return delivered_; });
    lock.unlock();
    loop_->Post([this] { node_->Leave(); });
    lock.lock();
    changed_.wait(lock, [this] { return closed_; });
    lock.unlock();
    loop_.reset();
  }

  // The node listens only on addresses that need no lookup.
  Status Start() {
    std::vector<Address> hosts;
    RINGLET_RETURN_IF_ERROR(CheckRingOptions(options_, &hosts));
    OwnAddresses own_addresses;
    own_addresses.addresses.resize(1);
    own_addresses.complete = true;
    if (!NumericAddress(hosts[options_.worker], &own_addresses.addresses[0])
             .ok()) {
      own_addresses.addresses.clear();
    }
    RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
    RingNode::Owner* owner = this;
    node_ = std::make_unique<RingNode>(options_, std::move(hosts),
                                       std::move(own_addresses), 1, 0,
                                       loop_.get(), owner);
    loop_->Post([this] { node_->BeginWithdrawal(why_); });
    return Status();
  }

 private:
  void OnRunning() override {}
  void OnCompleted(uint64_t) override {}
  void OnFailed(const Status&) override {}
  void OnNotice(const std::string&) override {}
  void OnDelivered() override { SetAndNotify(&delivered_); }
  void OnClosed() override { SetAndNotify(&closed_); }
  uint64_t Step() override { return 0; }
  void SetAndNotify(bool* flag) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      *flag = true;
    }
    changed_.notify_all();
  }

  const RingOptions options_;
  const Status why_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<RingNode> node_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool delivered_ = false;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<Withdrawal> Withdrawal::Begin(const RingOptions& options,
                                              const Status& why) {
  if (options.addresses.size() < 2) return nullptr;
  RingOptions needed;  // other options may be wrong
  needed.addresses = options.addresses;
  needed.worker = options.worker;
  needed.keys = options.keys;
  needed.insecure = options.insecure;
  needed.relay = options.relay;
  if (options.job.size() <= kMaxJobBytes) {
    needed.job = options.job;
  } else {
    needed.job.clear();
  }
  needed.local_sockets = false;  // any process may answer there
  needed.start_timeout_seconds = kWithdrawSeconds;
  auto withdrawal = std::make_unique<Withdrawing>(needed, why);
  if (!withdrawal->Start().ok()) return nullptr;
  return withdrawal;
}

}  // namespace ringlet
