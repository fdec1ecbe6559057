// Session: one worker's part in a ring, from its formation to the goodbye.
//
// It owns the session's state and its parts, and decides when the ring has
// formed, has ended, and why. RingNode gives it calls, connections and ticks;
// its parts report what changes the ring. OnRunning is called at most once.
// After OnFailed or OnLeft no call's memory is used.
//
// Pure: a state machine over a Transport (states: session_state.h), without
// socket, timer or thread. Every event carries the time, in nanoseconds of a
// monotonic clock. A Session has links with all other workers, or in a large
// ring with some (topology.h). The higher number connects to the lower.
//
// Within a session, and on the wire, a worker is named by its number in the
// job's list. It is also its rank, except in an elastic ring
// (options.min_workers). There the members of the view (views.h) have the ranks
// 0, 1 and so on, in the order of their numbers. Callers, the schedule and
// messages use these ranks. Other workers of the list may have links, and are
// never suspected.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../../core/base/long_wait.h"
#include "../cluster/ring_options.h"
#include "../transport/framed_link.h"
#include "../transport/transport.h"
#include "../wire/handshake.h"
#include "dialer.h"
#include "failure_detector.h"
#include "formation.h"
#include "handshakes.h"
#include "missing_peer_report.h"
#include "operations.h"
#include "peer_table.h"
#include "ring_members.h"
#include "session_events.h"
#include "session_state.h"
#include "shutdown.h"
#include "strangers.h"
#include "views.h"
#include "withdrawals.h"

namespace ringlet {

// Returns the identity that this worker sends in a hello.
Identity MakeIdentity(const RingOptions& options, uint64_t incarnation);

class Session final : private FramedLink::Owner,
                      private Views::Owner,
                      private Handshakes::Owner {
 public:
  // Called from inside the events of a Session.
  class Owner {
   public:
    virtual void OnRunning() = 0;
    // All operations up to this one are complete.
    virtual void OnCompleted(uint64_t sequence) = 0;
    // Called once. The session no longer uses the memory of any call.
    virtual void OnFailed(const Status& status) = 0;
    // After Abort: the transport has taken the messages to the other workers.
    // After BeginWithdrawal: all other workers have the reason, or the time has
    // passed.
    virtual void OnDelivered() = 0;
    // If true, a joining worker of a running elastic ring waits for the next
    // view.
    virtual void OnJoiner(bool) {}
    // A line for the user.
    virtual void OnNotice(const std::string& line) = 0;
    // An event for the worker's event log.
    virtual void OnEvent(const Event&) {}
    // The session waits long for other workers, or no longer.
    virtual void OnLongWait(const LongWait&) {}

   protected:
    ~Owner() = default;
  };

  // The ring's generation becomes the greatest that any worker proposes.
  // `incarnation` is random, so two processes of one worker have different
  // ones. `remaining_mask` is remaining_workers() of this worker's previous
  // session.
  Session(const RingOptions& options, uint32_t generation, uint64_t incarnation,
          Transport* transport, Owner* owner, int64_t now,
          uint64_t remaining_mask = 0);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Listens and begins to connect; an error is given to OnFailed.
  void Begin(int64_t now);
  // Instead of Begin: sends all other workers the reason why this worker cannot
  // take part, for options.start_timeout_seconds.
  void BeginWithdrawal(const Status& why, int64_t now);

  // Events of the transport.
  void OnAccepted(StreamPtr stream, int64_t now);
  void Tick(int64_t now);
  void RunTurn(int64_t now);
  // Reads from shared memory. Returns true if bytes have arrived. With `wake`
  // the sender of later bytes must wake this worker. Otherwise this worker
  // polls.
  bool Poll(int64_t now, bool wake) { return links_.Poll(now, wake); }
  // True if the operation is complete, or cannot complete any more.
  bool Ended(uint64_t sequence) const {
    return operations_.completed() >= sequence || !state_.running();
  }
  // True if all links use shared memory.
  bool all_shared() const;

  void Start(const Call* calls, size_t count, int64_t now);
  // Fails with `reason`, which names this worker, and sends it to all other
  // workers. Does nothing after an error.
  void Abort(const Status& reason, int64_t now);
  // Sends a goodbye, and waits until the other workers have it, at most for the
  // timeout. Then closes all connections, and calls Transport::OnLeft.
  void Leave(int64_t now);

  void SetStep(uint64_t step);
  WaitChain CurrentWait(int64_t now);
  int64_t idle_nanos() const { return operations_.idle_nanos(); }
  // True while the session makes its first connections.
  bool connecting() const { return state_.connecting(); }
  // The ring's generation; 0 until the ring has formed.
  uint32_t generation() const { return members_.formed(); }
  // The generation of the proposed, acknowledged or formed view; 0 if there is
  // none.
  uint32_t view_generation() const { return members_.generation(); }
  // The greatest generation so far; the next session proposes a greater one.
  uint32_t newest_generation() const;
  // In an elastic ring that has lost workers because their processes ended: the
  // other members, and the joining workers. Zero if not known.
  uint64_t remaining_workers() const { return members_.remaining_workers(); }
  // The worker of each rank, once the ring has formed.
  const std::vector<int>& workers() const { return members_.workers(); }
  // True if another worker reported the failure.
  bool reported_by_other() const { return reported_by_other_; }

 private:
  void OnConnected(FramedLink* link, int64_t now) override;
  void OnHeard(FramedLink* link, int64_t now) override;
  Status OnHeader(FramedLink* link, const FrameHeader& header,
                  ReceiveTarget* receive_target) override;
  Status OnFrame(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload) override;
  void OnTurn(FramedLink* link, int64_t now) override;
  void OnSent(FramedLink* link, uint64_t sequence) override;
  void OnDown(FramedLink* link, LossCause cause, const Status& why,
              int64_t now) override;

  // From Views, Handshakes and Strangers. In a ring that is not elastic,
  // CheckFormed calls OnFormed.
  void OnNewView() override;
  void OnFormed(const std::string& line) override;
  void OnMemberAbsent(int member) override;
  void OnJoiner(bool waits) override;
  void OnJoined(int peer, uint32_t proposal) override;
  void OnCannotForm(const Status& why, int withdrawn) override;

  // Reports `wait`, unless the last reported wait was for the same workers.
  void SetLongWait(const LongWait& wait);
  void TickStart(const FailureDetector::Suspect& suspect);
  void HandleSuspect(const FailureDetector::Suspect& suspect, int stuck);
  // `lowered` is null, or the reason why fewer workers may be connected than
  // before.
  void CheckFormed(const AbortNotice* lowered = nullptr);
  void Advance();
  Status OnFormationReport(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload);
  void OnGoodbye(FramedLink* link, uint64_t completed);
  void OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes);
  // The kind of connection that has ended.
  enum class DownKind : uint8_t {
    kProbe,
    kVersionOfStranger,   // no worker yet; it sends frames of another version
    kProtocolOfStranger,  // the same, with any other bytes
    kEndOfStranger,
    kVersionOfPeer,  // a dialled worker of another version: no ring can form
    kPeer,
  };
  DownKind ClassifyDown(const FramedLink& link, LossCause cause,
                        const Status& why) const;
  void OnPeerDown(const FramedLink& link, LossCause cause, const Status& why);
  void OnLinkLost(int peer, bool was_up, LossCause cause, const Status& why);
  // Drops the link to a peer that is not a member of a running ring, and tries
  // again. `notice` is the reason for the other workers, if it is not `why`.
  void DropPeer(int peer, const std::string& why,
                const AbortNotice* notice = nullptr);
  // Fails because the suspect is lost.
  void FailByLoss(const FailureDetector::Suspect& suspect, const char* detail);
  // Fails with the reason that `reporter` has sent.
  void FailAsReported(int reporter, const AbortNotice& notice,
                      const Status& why);
  // Fails, and reports the error to the other workers if the ring had formed.
  // `origin` is the worker that failed first, or -1.
  void Fail(const Status& status, int origin = -1);

  const RingOptions options_;
  Transport* const transport_;
  Owner* const owner_;
  const int worker_;
  const Identity identity_;
  const std::function<void(const std::string&)> notify_;  // ignores ""
  SessionState state_;
  int64_t now_;  // the time of the present event
  int64_t start_deadline_ = 0;
  bool reported_by_other_ = false;
  // The members of the formed, acknowledged or proposed ring.
  RingMembers members_;
  PeerTable links_;
  MissingPeerReport missing_report_;
  Dialer dialer_;
  FailureDetector detector_;
  Operations operations_;
  Formation formation_;
  const SessionParts parts_;
  Views views_;
  Strangers strangers_;
  Handshakes handshakes_;
  Withdrawals withdrawals_;
  Shutdown shutdown_;
  SessionEvents events_;
  LongWait long_wait_;  // the last reported one
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_H_
