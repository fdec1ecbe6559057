// The life of a ring: it is formed, formed anew, and let go of.

#include "ring.h"

#include <utility>

#include "name_lookup.h"
#include "own_addresses.h"
#include "ring_options.h"
#include "socket_address.h"
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
    running_ = closed_ = told_ = visited_ = false;
    failure_ = Status();
    status = Begin();
  } while (elastic() && status.code() == Code::kPeerLost &&
           Since(begin) < options_.start_timeout_seconds);
  if (status.ok()) return status;
  // Nothing is left but the reason why no call can succeed.
  End();
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = status;
  return status;
}

Status Ring::Begin() {
  std::vector<Address> hosts;
  RINGLET_RETURN_IF_ERROR(CheckRingOptions(options_, &hosts));
  if (options_.size() == 1) return Status();
  std::vector<sockaddr_storage> own;
  std::string warning;
  if (options_.relay.empty()) {
    RINGLET_RETURN_IF_ERROR(FindOwnAddresses(hosts, options_.rank,
                                             options_.start_timeout_seconds,
                                             &own, &warning, Say));
  }
  if (!warning.empty()) Say("warning: " + warning);
  RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
  node_.reset(new RingNode(options_, std::move(hosts), std::move(own),
                           generation_, std::exchange(remaining_, 0),
                           loop_.get(), this));
  loop_->Post([this] { node_->Begin(); });
  std::unique_lock<std::mutex> lock(mutex_);
  const auto met = [this] { return running_ || !failure_.ok(); };
  while (!met()) {
    changed_.wait(lock, [&] { return met() || !notices_.empty(); });
    SayNotices(&lock);
  }
  if (!failure_.ok()) return failure_;
  lock.unlock();
  // So that nobody can be done before all have met.
  return Barrier();
}

bool Ring::ToldByOther() {
  if (node_ != nullptr) End();
  return told_by_other_;
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
  // This may be the last that the process does, so the frames should be with
  // the kernel; not for ever, where some other rank does not read.
  changed_.wait_for(lock,
                    std::chrono::duration<double>(options_.timeout_seconds / 4),
                    [this] { return told_; });
}

void Ring::End() {
  Close();
  // Whose thread has ended.
  told_by_other_ = false;
  if (node_ == nullptr) return;
  if (node_->newest() >= generation_) generation_ = node_->newest() + 1;
  remaining_ = node_->remaining();
  told_by_other_ = node_->told_by_other();
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
  const bool others_news = ring->ToldByOther();
  ring.reset();
  if (IsPermanent(status) && !others_news) {
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
