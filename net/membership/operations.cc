#include "operations.h"

namespace ringlet {
namespace {

Algorithm AlgorithmOf(RingImplementation implementation) {
  switch (implementation) {
    case RingImplementation::kRing:
      return Algorithm::kRing;
    case RingImplementation::kTree:
      return Algorithm::kTree;
    case RingImplementation::kAuto:
      break;
  }
  return Algorithm::kAuto;
}

}  // namespace

Operations::Operations(const RingOptions& options, const SessionState* state,
                       const RingMembers* members, Transport* transport,
                       PeerTable* links, FailureDetector* detector)
    : worker_(options.worker),
      state_(state),
      members_(members),
      transport_(transport),
      links_(links),
      detector_(detector),
      schedule_(options.worker, options.size(),
                AlgorithmOf(options.implementation), options.wire_dtype, this) {
}

void Operations::DropUnexpected(int worker) {
  if (members_->is_member(worker))
    schedule_.DropUnexpected(members_->rank(worker));
}

Status Operations::Progress(bool* completed) {
  RINGLET_RETURN_IF_ERROR(schedule_.Progress());
  *completed = schedule_.completed() != completed_;
  completed_ = schedule_.completed();
  if (!*completed && schedule_.moved_bytes() == moved_bytes_) return Status();
  constexpr int64_t kShort = 1000000;
  if (now_ - progress_at_ >= kShort) idle_nanos_ += now_ - progress_at_;
  moved_bytes_ = schedule_.moved_bytes();
  progress_at_ = now_;
  return Status();
}

int Operations::waiting_on() const {
  const int rank = schedule_.idle() ? -1 : schedule_.waiting_on();
  return rank < 0 ? -1 : members_->worker(rank);
}

void Operations::UpdateActivity(int64_t now) {
  Activity activity;
  activity.step = step_;
  activity.sequence = completed_;
  if (state_->live() && !schedule_.idle()) {
    activity.sequence = completed_ + 1;
    activity.type = schedule_.waiting_type();
    activity.waiting_on = waiting_on();
  }
  detector_->SetActivity(activity, schedule_.moved_bytes(), now);
}

WaitChain Operations::CurrentWait(int64_t now) {
  UpdateActivity(now);
  const auto by_rank = [this](Activity activity) {
    const int worker = activity.waiting_on;
    activity.waiting_on = worker < 0 ? -1 : members_->rank(worker);
    return activity;
  };
  WaitChain out;
  out.rank = members_->rank(worker_);
  out.activity = by_rank(detector_->activity());
  for (const auto& awaited : detector_->AwaitedWorkers(now)) {
    out.entries.push_back({members_->rank(awaited.worker),
                           by_rank(awaited.activity), awaited.seconds,
                           awaited.silent});
  }
  return out;
}

// Calls of the schedule.

bool Operations::HasRoom(int rank) const {
  const FramedLink* const link = links_->up_link(members_->worker(rank));
  return link != nullptr && link->has_room() && !link->turn_is_used_up();
}

// A full queue needs no request: OnTurn reports that it has room.
void Operations::RequestRoomEvent(int rank) {
  const FramedLink* const link = links_->link(members_->worker(rank));
  if (link != nullptr && link->turn_is_used_up()) transport_->RequestTurn();
}

void Operations::Send(int rank, const FrameHeader& header,
                      const uint8_t* payload, bool borrowed) {
  links_->Send(members_->worker(rank), header, payload, borrowed);
}

}  // namespace ringlet
