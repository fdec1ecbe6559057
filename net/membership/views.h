// Views: the views of an elastic ring, and the waits for them.
//
// It owns the ViewAgreement, which decides, and carries out its decisions: it
// sends the frames and sets the members. The Session passes links, frames and
// ticks to it. OnFormed is called once for a session. Workers outside of the
// view are dialled, and their links are kept.
//
// The operations belong to a view from its proposal or acknowledgement on. So
// frames of members that started earlier are kept, as in any ring. A running
// session keeps links to workers that are not members, makes new ones, and
// ignores their other frames.

#ifndef RINGLET_NET_MEMBERSHIP_VIEWS_H_
#define RINGLET_NET_MEMBERSHIP_VIEWS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../../core/base/time_units.h"
#include "session_parts.h"
#include "view_agreement.h"

namespace ringlet {

class Views : private SessionParts {
 public:
  class Owner {
   public:
    // The members belong to another view, which has not formed yet.
    virtual void OnNewView() = 0;
    // The view has formed. `line` is for the user; empty if it has all workers.
    virtual void OnFormed(const std::string& line) = 0;
    // A member takes no part in the formed view.
    virtual void OnMemberAbsent(int member) = 0;
    // A joining worker waits for the next view.
    virtual void OnJoiner(bool waits) = 0;

   protected:
    ~Owner() = default;
  };

  // This worker proposes at least the generation `proposal`. `awaited_mask` has
  // the workers that may still come, and is zero if they are not known.
  Views(const SessionParts& parts, uint32_t proposal, uint64_t awaited_mask,
        Owner* owner)
      : SessionParts(parts),
        proposal_(proposal),
        awaited_mask_(awaited_mask),
        timeout_(Nanos(options_.timeout_seconds)),
        owner_(owner) {}

  // Begins the wait for a view. Without Begin the ring has none: no other
  // method that needs a view may be called.
  Status Begin(int64_t deadline, int64_t now);
  bool active() const { return agreement_ != nullptr; }

  // Adds a worker that has connected, and proposes a generation.
  void AddPeer(int peer, uint32_t proposal, int64_t now);
  // Drops the link of a peer outside of the view, and tries again.
  void DropPeer(int peer, const std::string& why, int64_t now);
  Status OnFrame(int peer, const FrameHeader& header, const uint8_t* payload,
                 int64_t now);
  void Tick(int64_t now);
  // Call it when the view has ended by a loss. Announces to joining workers
  // that this worker still computes, and that it will form the next view.
  void Linger(int64_t now);

  // Returns an error if this worker has waited long enough for a view.
  Status CheckWait(int64_t now);
  bool join_pending() const { return agreement_->join_pending(); }

  // The generation that this worker proposes.
  uint32_t proposal() const {
    return active() ? agreement_->next_count() : proposal_;
  }
  // Returns an error if the proposed generation cannot be a generation of this
  // job.
  Status CheckProposal(uint32_t generation) const;

 private:
  bool WaitIsOver(int64_t now) const;
  void SetView(const View& view);
  void CarryOutDecisions();
  void Form();

  const uint32_t proposal_;
  const uint64_t awaited_mask_;
  const int64_t timeout_;
  Owner* const owner_;
  std::unique_ptr<ViewAgreement> agreement_;  // null if the ring has no views
  int64_t deadline_ = 0;
  // The last time at which a join was pending.
  int64_t join_pending_at_ = INT64_MIN / 2;
  bool has_joiner_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_VIEWS_H_
