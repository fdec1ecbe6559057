// The calls of a ring, and the waits for them.

#include <cstring>
#include <utility>

#include "../../core/base/ieee_arithmetic.h"
#include "../../core/base/time_units.h"
#include "ring.h"

namespace ringlet {

Status Ring::StartSum(FrameType type, void* data, size_t count,
                      Ticket* ticket) {
  constexpr size_t kEach = 4;
  if (count > static_cast<size_t>(INT64_MAX) / kEach) {
    return InvalidArgument(
        "an all-reduce of %zu numbers; at most %zu are possible", count,
        static_cast<size_t>(INT64_MAX) / kEach);
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
  if (size() == 1) {  // nothing to exchange
    completed_ = issued_;
    return Status();
  }
  submitted_.push_back(call);
  const bool first = submitted_.size() == 1;
  lock.unlock();
  const bool sent = call.bytes <= kShort && RunLoop(0);
  if (first && !sent) loop_->Post([this] { StartSubmitted(); });
  return Status();
}

Status Ring::Broadcast(void* data, size_t bytes, int root) {
  if (root < 0 || root >= size()) {
    return InvalidArgument("a broadcast from rank %d; the ranks are 0 to %d",
                           root, size() - 1);
  }
  return RunAndWait(
      {FrameType::kBroadcast, static_cast<uint8_t*>(data), bytes, root});
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

// Adds in the arithmetic mode of the loop's thread, not in the mode of the
// caller's thread.
bool Ring::RunLoop(Ticket ticket) {
  if (!loop_->TryEnter()) return false;
  const IeeeArithmetic ieee;
  StartSubmitted();
  node_->PollUntilEnded(ticket);
  loop_->Leave();
  return true;
}

void Ring::StartSubmitted() {
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

Status Ring::RunAndWait(const Call& call) {
  Ticket ticket = 0;
  RINGLET_RETURN_IF_ERROR(Submit(call, &ticket));
  return Wait(ticket);
}

// Periods of 1 ms or more without progress count as waiting. The rest of the
// time counts as transfer.
Status Ring::Wait(Ticket ticket) {
  if (g_events == nullptr || size() == 1 || node_ == nullptr) {
    return WaitUntimed(ticket);
  }
  const Steady::time_point begin = Steady::now();
  const int64_t idle = node_->idle_nanos();
  const Status status = WaitUntimed(ticket);
  const auto nanos = Nanos(SecondsSince(begin));
  const int64_t waited = std::min(nanos, node_->idle_nanos() - idle);
  AddTime(EventSink::kWait, waited);
  AddTime(EventSink::kTransfer, nanos - waited);
  return status;
}

Status Ring::WaitUntimed(Ticket ticket) {
  if (size() > 1 && node_ != nullptr) RunLoop(ticket);
  std::unique_lock<std::mutex> lock(mutex_);
  if (ticket > issued_) {
    return InvalidArgument("a wait for operation %llu: none such was started",
                           static_cast<unsigned long long>(ticket));
  }
  // The node's heartbeats and timers end this wait, by completion or by the
  // loss of the awaited rank. WaitWithReports bounds the wait for a running
  // rank that does not join the call.
  const Steady::time_point begin = Steady::now();
  if (!WaitUntil(&lock, begin, options_.timeout_seconds, ticket)) {
    WaitWithReports(&lock, begin, ticket);
  }
  PrintNotices(&lock);
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

void Ring::WaitWithReports(std::unique_lock<std::mutex>* lock,
                           Steady::time_point begin, Ticket ticket) {
  const double patience = options_.patience_seconds;
  Reminder reminder(options_.timeout_seconds);
  bool printed = false;
  do {
    loop_->Post([this] {
      const WaitChain now = node_->CurrentWait();
      UpdateAndNotify([&] { waiting_ = now, requested_ = false; });
    });
    requested_ = true;
    changed_.wait(*lock, [this] { return !requested_; });
    if (completed_ >= ticket || !failure_.ok()) break;
    const std::string text =
        WaitMessage(waiting_, SecondsSince(begin), Addresses());
    lock->unlock();
    if (patience > 0 && SecondsSince(begin) >= patience) {
      Abort(Error(Code::kDeadlineExceeded, "%s; it has timed out after %g s",
                  text.c_str(), patience));
    } else {
      PrintLine("warning: " + text);
      printed = true;
      reminder.Advance();
    }
    lock->lock();
  } while (!WaitUntil(lock, begin, reminder.next(), ticket));
  if (!printed || completed_ < ticket) return;
  lock->unlock();
  PrintLine(WaitEndMessage(rank(), SecondsSince(begin)));
  lock->lock();
}

void Ring::PrintNotices(std::unique_lock<std::mutex>* lock) {
  while (!notices_.empty()) {
    const std::string line = std::move(notices_.front());
    notices_.pop_front();
    lock->unlock();
    PrintLine(line);
    lock->lock();
  }
}

}  // namespace ringlet
