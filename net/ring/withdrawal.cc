#include "withdrawal.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "../wire/handshake.h"
#include "loop.h"
#include "ring_node.h"
#include "ring_options.h"
#include "socket_address.h"

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
    // The node's own deadline, or a little later.
    const std::chrono::duration<double> most(2 * kWithdrawSeconds);
    changed_.wait_for(lock, most, [this] { return told_; });
    lock.unlock();
    loop_->Post([this] { node_->Leave(); });
    lock.lock();
    changed_.wait(lock, [this] { return closed_; });
    lock.unlock();
    loop_.reset();
  }

  // The node needs to listen only for what it can find at once.
  Status Start() {
    std::vector<Address> hosts;
    RINGLET_RETURN_IF_ERROR(CheckRingOptions(options_, &hosts));
    std::vector<sockaddr_storage> own(1);
    if (!NumericAddress(hosts[options_.rank], &own[0]).ok()) own.clear();
    RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
    RingNode::Owner* owner = this;
    node_ = std::make_unique<RingNode>(
        options_, std::move(hosts), std::move(own), 1, 0, loop_.get(), owner);
    loop_->Post([this] { node_->BeginWithdrawal(why_); });
    return Status();
  }

 private:
  void OnRunning() override {}
  void OnCompleted(uint64_t) override {}
  void OnFailed(const Status&) override {}
  void OnNotice(const std::string&) override {}
  void OnTold() override { Tell(&told_); }
  void OnClosed() override { Tell(&closed_); }
  uint64_t Step() override { return 0; }
  void Tell(bool* what) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      *what = true;
    }
    changed_.notify_all();
  }

  const RingOptions options_;
  const Status why_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<RingNode> node_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool told_ = false;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<Withdrawal> Withdrawal::Begin(const RingOptions& options,
                                              const Status& why) {
  if (options.addresses.size() < 2) return nullptr;
  RingOptions telling;  // whatever is wrong with the others
  telling.addresses = options.addresses;
  telling.rank = options.rank;
  telling.keys = options.keys;
  telling.insecure = options.insecure;
  telling.relay = options.relay;
  if (options.job.size() <= kMaxJobBytes) {
    telling.job = options.job;
  } else {
    telling.job.clear();
  }
  telling.local_sockets = false;  // nobody vouches for who answers there
  telling.start_timeout_seconds = kWithdrawSeconds;
  auto withdrawal = std::make_unique<Withdrawing>(telling, why);
  if (!withdrawal->Start().ok()) return nullptr;
  return withdrawal;
}

}  // namespace ringlet
