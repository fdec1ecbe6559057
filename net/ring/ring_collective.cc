// A ring forms, forms again, and closes.

#include "ring.h"

#include <utility>

#include "../transport/name_lookup.h"
#include "../transport/own_addresses.h"
#include "../transport/socket_address.h"
#include "check_ring_options.h"
#include "withdrawal.h"

namespace ringlet {

Status Ring::Reform() {
  const Steady::time_point begin = Steady::now();
  Status status;
  do {
    if (options_.size() > 1) ++generation_;
    End();
    submitted_.clear();
    taken_.clear();
    wire_order_.Clear();
    issued_ = completed_ = 0;
    running_ = closed_ = delivered_ = has_joiner_ = false;
    failure_ = Status();
    status = Begin();
  } while (elastic() && status.code() == Code::kPeerLost &&
           SecondsSince(begin) < options_.start_timeout_seconds);
  if (status.ok()) return status;
  // Later calls return the reason.
  End();
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = status;
  return status;
}

Status Ring::Begin() {
  std::vector<Address> hosts;
  RINGLET_RETURN_IF_ERROR(CheckRingOptions(options_, &hosts));
  if (options_.size() == 1) return Status();
  // Empty in later generations: the node finds them.
  OwnAddresses own_addresses;
  if (options_.relay.empty() && generation_ == 1) {
    RINGLET_RETURN_IF_ERROR(FindOwnAddresses(hosts, options_.worker,
                                             options_.start_timeout_seconds,
                                             &own_addresses, PrintLine));
  }
  if (!own_addresses.warning.empty())
    PrintLine("warning: " + own_addresses.warning);
  RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
  node_.reset(new RingNode(options_, std::move(hosts), std::move(own_addresses),
                           generation_, std::exchange(remaining_mask_, 0),
                           loop_.get(), this));
  loop_->Post([this] { node_->Begin(); });
  std::unique_lock<std::mutex> lock(mutex_);
  const auto formed = [this] { return running_ || !failure_.ok(); };
  while (!formed()) {
    changed_.wait(lock, [&] { return formed() || !notices_.empty(); });
    PrintNotices(&lock);
  }
  if (!failure_.ok()) return failure_;
  lock.unlock();
  // No rank returns before all are connected.
  return Barrier();
}

bool Ring::EndAfterError() {
  if (node_ != nullptr) End();
  return reported_by_other_;
}

void Ring::Abort(const Status& reason) {
  const Status why =
      reason.ok() ? Error(Code::kInternal, "it gave no reason") : reason;
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  if (node_ == nullptr) {
    failure_ = why;
    return;
  }
  lock.unlock();
  loop_->Post([this, why] { node_->Abort(why); });
  lock.lock();
  changed_.wait(lock, [this] { return !failure_.ok(); });
  // The process may end after this. Waits until the kernel has the frames, at
  // most for a quarter of the timeout: a rank may not read.
  changed_.wait_for(lock,
                    std::chrono::duration<double>(options_.timeout_seconds / 4),
                    [this] { return delivered_; });
}

void Ring::End() {
  Close();
  // The loop's thread has ended.
  reported_by_other_ = false;
  if (node_ == nullptr) return;
  if (node_->newest_generation() >= generation_)
    generation_ = node_->newest_generation() + 1;
  remaining_mask_ = node_->remaining_workers();
  reported_by_other_ = node_->reported_by_other();
  node_.reset();
}

void Ring::Close() {
  if (node_ == nullptr || loop_ == nullptr) return;
  loop_->Post([this] { node_->Leave(); });
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return closed_; });  // bounded by the timeout
  lock.unlock();
  loop_.reset();
}

Status OpenRing(const RingOptions& options, std::unique_ptr<Collective>* out,
                std::unique_ptr<Withdrawal>* withdrawal) {
  auto ring = std::make_unique<Ring>(options);
  const Status status = ring->Form();
  if (status.ok()) {
    *out = std::move(ring);
    return status;
  }
  const bool reported_by_other = ring->EndAfterError();
  ring.reset();
  if (IsPermanent(status) && !reported_by_other) {
    *withdrawal = Withdrawal::Begin(options, status);
  }
  return status;
}

Status RingCollective::Open(const RingOptions& options,
                            std::unique_ptr<RingCollective>* out) {
  auto ring = std::make_unique<Ring>(options);
  RINGLET_RETURN_IF_ERROR(ring->Form());
  *out = std::move(ring);
  return Status();
}

}  // namespace ringlet
