#include "sim_collective.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/byte_order.h"

namespace ringlet {
namespace sim {

SimCollective::SimCollective(Network* network, const RingOptions* options,
                             int worker, uint64_t seed, Program program,
                             Owner* owner)
    : SimProcess(network, worker, seed, options->keys),
      options_(options),
      program_(std::move(program)),
      owner_(owner) {
  network->StartProcess(rank_);
  owner_->Trace(rank_, "starts");
  fiber_ = std::make_unique<Fiber>([this] { RunProgram(); });
  network->InProcess(rank_, 0, [this] { Resume(); });
}

SimCollective::~SimCollective() { Crash(/*silent=*/false); }

// Called by the simulation.

// From now on the program's calls return errors, until the program has ended.
void SimCollective::Crash(bool silent) {
  if (!alive()) return;
  owner_->Trace(rank_, silent ? "and its host end silently" : "crashes");
  EndProcess(silent);
  killed_ = true;
  while (!fiber_->done()) fiber_->Resume();
  fiber_.reset();
}

void SimCollective::Resume() {
  fiber_->Resume();
  if (!fiber_->done()) return;
  EndProcess(/*silent=*/false);
  fiber_.reset();
  owner_->Exited(rank_, result_);
}

void SimCollective::Wake() {
  if (!waits_ || woken_) return;
  woken_ = true;
  network()->InProcess(rank_, network()->Random(20000), [this] {
    woken_ = false;
    Resume();
  });
}

void SimCollective::OnRunning() {
  members_ = session_->workers();
  std::string names;
  for (const int w : members_) names += " " + std::to_string(w);
  owner_->Trace(rank_, "is in view " +
                           std::to_string(ViewCount(session_->generation())) +
                           " of" + names);
  owner_->OnView(rank_, members_);
  running_ = true;
  Wake();
}

void SimCollective::OnCompleted(uint64_t sequence) {
  completed_ = sequence;
  Wake();
}

void SimCollective::OnFailed(const Status& status) {
  owner_->Trace(rank_, std::string("fails: ") + status.message());
  failure_ = status;
  Wake();
}

void SimCollective::OnDelivered() {
  delivered_ = true;
  Wake();
}

void SimCollective::OnNotice(const std::string& line) {
  owner_->Trace(rank_, line);
}

void SimCollective::Closed() {
  count_ = std::max(count_, session_->newest_generation());
  remaining_mask_ = session_->remaining_workers();
  EndSession();
  closed_ = true;
  Wake();
}

// Called by the program.

template <typename Condition>
void SimCollective::Await(const Condition& condition) {
  waits_ = true;
  while (!killed_ && !condition()) fiber_->Yield();
  waits_ = false;
}

std::shared_ptr<const bool> SimCollective::After(int64_t nanos) {
  const auto over = std::make_shared<bool>(false);
  network()->InProcess(rank_, nanos, [this, over] {
    *over = true;
    Wake();
  });
  return over;
}

void SimCollective::Sleep(int64_t nanos) {
  if (killed_) return;
  const auto over = After(nanos);
  Await([&] { return *over; });
}

void SimCollective::RunProgram() {
  const Status formed = Begin();
  result_ = formed.code() == Code::kPeerLost ? Reform() : formed;
  if (result_.ok()) result_ = program_(this);
  Leave();
}

Status SimCollective::Begin() {
  if (killed_) return Error(Code::kInternal, "killed");
  NewSession();
  RingOptions options = *options_;
  options.worker = rank_;
  running_ = has_joiner_ = delivered_ = closed_ = false;
  failure_ = Status();
  issued_ = completed_ = 0;
  wire_order_.Clear();
  session_ = std::make_unique<Session>(
      options, count_, static_cast<uint64_t>(network()->Random(INT64_MAX)),
      this, this, Now(), std::exchange(remaining_mask_, 0));
  session_->Begin(Now());
  Await([this] { return running_ || !failure_.ok(); });
  if (killed_) return Error(Code::kInternal, "killed");
  if (!failure_.ok()) return failure_;
  return Barrier();
}

void SimCollective::Leave() {
  if (killed_ || closed_) return;
  session_->Leave(Now());
  Await([this] { return closed_; });
}

Status SimCollective::Reform() {
  const int64_t begin = network()->now();
  const auto limit =
      static_cast<int64_t>(options_->start_timeout_seconds * 1e9);
  Status status;
  do {
    Leave();
    if (killed_) return Error(Code::kInternal, "killed");
    ++count_;
    owner_->Trace(rank_, "forms another view");
    status = Begin();
  } while (status.code() == Code::kPeerLost &&
           network()->now() - begin < limit);
  if (!status.ok()) failure_ = status;
  return status;
}

int SimCollective::rank() const {
  return static_cast<int>(std::find(members_.begin(), members_.end(), rank_) -
                          members_.begin());
}

std::string SimCollective::address(int rank) const {
  return options_->addresses[members_[rank]];
}

// The computation of a step takes a random time.
void SimCollective::SetStep(uint64_t step) {
  if (killed_ || step == step_) return;
  step_ = step;
  const int64_t most = network()->Chance(100) ? 6000 * kMs
                       : network()->Chance(8) ? 400 * kMs
                                              : 20 * kMs;
  Sleep(network()->Random(most));
}

Status SimCollective::Submit(const Call& call, Ticket* ticket) {
  if (killed_) return Error(Code::kInternal, "killed");
  if (!failure_.ok()) return failure_;
  *ticket = ++issued_;
  if (size() == 1) {
    completed_ = issued_;
    return Status();
  }
  session_->SetStep(step_);
  session_->Start(&call, 1, Now());
  return Status();
}

Status SimCollective::Wait(Ticket ticket) {
  Await([&] { return completed_ >= ticket || !failure_.ok(); });
  if (killed_) return Error(Code::kInternal, "killed");
  if (completed_ < ticket) return failure_;
  wire_order_.Done(ticket);
  return Status();
}

Status SimCollective::Run(const Call& call) {
  Ticket ticket = 0;
  RINGLET_RETURN_IF_ERROR(Submit(call, &ticket));
  return Wait(ticket);
}

Status SimCollective::StartSum(FrameType type, void* data, size_t count,
                               Ticket* ticket) {
  SwapToLittle(data, 4, count);
  RINGLET_RETURN_IF_ERROR(
      Submit({type, static_cast<uint8_t*>(data), count * 4, 0}, ticket));
  wire_order_.Start(*ticket, data, count);
  return Status();
}

Status SimCollective::Broadcast(void* data, size_t bytes, int root) {
  return Run({FrameType::kBroadcast, static_cast<uint8_t*>(data), bytes, root});
}

Status SimCollective::AllGather(const void* in, size_t bytes, void* out) {
  auto* const to = static_cast<uint8_t*>(out);
  if (bytes > 0) std::memmove(to + bytes * rank(), in, bytes);
  return Run({FrameType::kAllGather, to, bytes, 0});
}

Status SimCollective::StartAllGather(const void* in, size_t bytes, void* out,
                                     Ticket* ticket) {
  auto* const to = static_cast<uint8_t*>(out);
  if (bytes > 0) std::memmove(to + bytes * rank(), in, bytes);
  return Submit({FrameType::kAllGather, to, bytes, 0}, ticket);
}

Status SimCollective::Barrier() {
  return Run({FrameType::kBarrier, nullptr, 0, 0});
}

void SimCollective::Abort(const Status& reason) {
  if (killed_ || !failure_.ok()) return;
  session_->Abort(reason, Now());
  const auto late =
      After(static_cast<int64_t>(options_->timeout_seconds * 1e9) / 4);
  Await([&] { return delivered_ || *late; });
}

}  // namespace sim
}  // namespace ringlet
