// The calls of a ring, and the waits for them.

#include <cstring>
#include <utility>

#include "../../core/base/ieee_arithmetic.h"
#include "ring.h"

namespace ringlet {

Status Ring::StartSum(FrameType type, void* data, size_t count,
                      Ticket* ticket) {
  constexpr size_t kEach = 4;
  if (count > static_cast<size_t>(INT64_MAX) / kEach) {
    return InvalidArgument("an all-reduce of %zu numbers", count);
  }
  SwapToLittle(data, kEach, count);
  RINGLET_RETURN_IF_ERROR(
      Submit({type, static_cast<uint8_t*>(data), count * kEach, 0}, ticket));
  wire_order_.Start(*ticket, data, count);
  return Status();
}

Status Ring::Submit(const Call& call, Ticket* ticket) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  *ticket = ++issued_;
  if (size() == 1) {  // all is done already
    completed_ = issued_;
    return Status();
  }
  submitted_.push_back(call);
  const bool first = submitted_.size() == 1;
  lock.unlock();
  const bool sent = call.bytes <= kShort && Visit(0);
  if (first && !sent) loop_->Post([this] { TakeSubmitted(); });
  return Status();
}

Status Ring::Broadcast(void* data, size_t bytes, int root) {
  if (root < 0 || root >= size()) {
    return InvalidArgument("a broadcast from rank %d of %d", root, size());
  }
  return Run({FrameType::kBroadcast, static_cast<uint8_t*>(data), bytes, root});
}

Status Ring::AllGather(const void* in, size_t bytes, void* out) {
  Ticket ticket = 0;
  RINGLET_RETURN_IF_ERROR(StartAllGather(in, bytes, out, &ticket));
  return Wait(ticket);
}

Status Ring::StartAllGather(const void* in, size_t bytes, void* out,
                            Ticket* ticket) {
  uint8_t* to = static_cast<uint8_t*>(out);
  if (bytes > 0) std::memmove(to + bytes * rank(), in, bytes);
  return Submit({FrameType::kAllGather, to, bytes, 0}, ticket);
}

// Adds as the loop's thread does, whatever mode the caller's thread is in.
bool Ring::Visit(Ticket ticket) {
  if (!loop_->TryEnter()) return false;
  const IeeeArithmetic ieee;
  TakeSubmitted();
  node_->Work(ticket);
  loop_->Leave();
  return true;
}

void Ring::TakeSubmitted() {
  uint64_t step;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    taken_.swap(submitted_);
    step = step_;
  }
  node_->SetStep(step);
  node_->Start(taken_.data(), taken_.size());
  taken_.clear();
}

Status Ring::Run(const Call& call) {
  Ticket ticket = 0;
  RINGLET_RETURN_IF_ERROR(Submit(call, &ticket));
  return Wait(ticket);
}

Status Ring::Wait(Ticket ticket) {
  if (size() > 1 && node_ != nullptr) Visit(ticket);
  std::unique_lock<std::mutex> lock(mutex_);
  if (ticket > issued_) {
    return InvalidArgument("a wait for operation %llu: none such was started",
                           static_cast<unsigned long long>(ticket));
  }
  // The node's heartbeats and timers end this: by completion, or by the loss
  // of whoever it waits for. One that lives and does not come: see below.
  const Steady::time_point begin = Steady::now();
  const bool blocks = completed_ < ticket && failure_.ok();
  if (blocks) NoteEvent(TrailKind::kBlocked, step_, ticket);
  if (!WaitUntil(&lock, begin, options_.timeout_seconds, ticket)) {
    WaitOn(&lock, begin, ticket);
  }
  if (blocks) NoteEvent(TrailKind::kResumed, step_, ticket);
  SayNotices(&lock);
  if (completed_ < ticket) return failure_;
  lock.unlock();
  wire_order_.Done(ticket);
  return Status();
}

bool Ring::WaitUntil(std::unique_lock<std::mutex>* lock,
                     Steady::time_point begin, double seconds, Ticket ticket) {
  const auto ended = [&] { return completed_ >= ticket || !failure_.ok(); };
  const double patience = options_.patience_seconds;
  if (patience > 0) seconds = std::min(seconds, patience);
  const std::chrono::duration<double> time(seconds);
  return changed_.wait_until(
      *lock, begin + std::chrono::duration_cast<Steady::duration>(time), ended);
}

void Ring::WaitOn(std::unique_lock<std::mutex>* lock, Steady::time_point begin,
                  Ticket ticket) {
  const double patience = options_.patience_seconds;
  Reminder reminder(options_.timeout_seconds);
  bool said = false;
  do {
    loop_->Post([this] {
      const Waiting now = node_->WaitsFor();
      Tell([&] { waiting_ = now, asked_ = false; });
    });
    asked_ = true;
    changed_.wait(*lock, [this] { return !asked_; });
    if (completed_ >= ticket || !failure_.ok()) break;
    const std::string text = WaitText(waiting_, Since(begin), Addresses());
    lock->unlock();
    if (patience > 0 && Since(begin) >= patience) {
      Abort(Error(Code::kDeadlineExceeded, "%s; its patience of %g s is over",
                  text.c_str(), patience));
    } else {
      Say("warning: " + text);
      said = true;
      reminder.Said();
    }
    lock->lock();
  } while (!WaitUntil(lock, begin, reminder.next(), ticket));
  if (!said || completed_ < ticket) return;
  lock->unlock();
  Say(WaitedText(rank(), Since(begin)));
  lock->lock();
}

void Ring::SayNotices(std::unique_lock<std::mutex>* lock) {
  while (!notices_.empty()) {
    const std::string line = std::move(notices_.front());
    notices_.pop_front();
    lock->unlock();
    Say(line);
    lock->lock();
  }
}

}  // namespace ringlet
