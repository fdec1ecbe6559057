// Session: one worker's part in a ring, from its formation to the goodbye.
//
// Internal to net/. Pure: a state machine over a Transport. Every event carries
// the time, in nanoseconds of a monotonic clock. A Session uses no socket,
// timer or thread itself. It forms the connections to all other workers, or in
// a large ring to some (topology.h). The higher rank connects to the lower. A
// Session sends heartbeats, watches those of the others, and carries the frames
// of collective operations.
//
// Within a session, and on the wire, a worker is its number in the job's list.
// This number is also its rank, except in an elastic ring
// (options.min_workers). There the members of the view have the ranks 0, 1 and
// so on, in the order of their numbers. Callers, the schedule and messages use
// these ranks. Views decides the members. Other workers of the list may
// have links, and are never suspected.
//
// While the ring forms for the first time, some errors cannot end by waiting,
// such as a withdrawal or other options. Such an error ends the wait of both
// sides. Later the ranks have a trained state: the error is reported, and ends
// only the rank that has it.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "../cluster/ring_options.h"
#include "../transport/endpoint_list.h"
#include "../transport/framed_link.h"
#include "../transport/transport.h"
#include "../wire/handshake.h"
#include "dialer.h"
#include "duplicate_workers.h"
#include "failure_detector.h"
#include "formation.h"
#include "missing_peer_report.h"
#include "operations.h"
#include "peer_table.h"
#include "probe_schedule.h"
#include "ring_members.h"
#include "session_state.h"
#include "session_trail.h"
#include "views.h"

namespace ringlet {

class Session final : private FramedLink::Owner, private Views::Owner {
 public:
  // Called from inside the events of a Session.
  class Owner {
   public:
    virtual void OnRunning() = 0;
    // All operations up to this one are complete.
    virtual void OnCompleted(uint64_t sequence) = 0;
    // Called once. The session no longer uses the memory of any call.
    virtual void OnFailed(const Status& status) = 0;
    // After Abort: the transport has taken the messages to the others. After
    // BeginWithdrawal: all others have the reason, or the time has passed.
    virtual void OnDelivered() = 0;
    // In a running elastic ring: true if a joining worker waits for the next
    // view. It is false at the beginning.
    virtual void OnJoiner(bool) {}
    // A line for the user.
    virtual void OnNotice(const std::string& line) = 0;
    // For the worker's trail.
    virtual void OnEvent(const TrailEvent&) {}

   protected:
    ~Owner() = default;
  };

  // The ring's generation becomes the greatest that any rank proposes.
  // `incarnation` is random, so two processes of one rank have different ones.
  // `remaining`: remaining_workers() of this worker's previous session.
  Session(const RingOptions& options, uint32_t generation, uint64_t incarnation,
          Transport* transport, Owner* owner, int64_t now,
          uint64_t remaining = 0);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Listens and begins to connect; an error is given to OnFailed.
  void Begin(int64_t now);
  // Instead of Begin: sends every other rank the reason why this one cannot
  // take part, for options.start_timeout_seconds.
  void BeginWithdrawal(const Status& why, int64_t now);

  // Events of the transport.
  void OnAccepted(StreamPtr stream, int64_t now);
  void Tick(int64_t now);
  void TakeTurn(int64_t now);
  // Reads from shared memory. Returns true if bytes have arrived. `wake`: the
  // sender of later bytes must wake this worker; otherwise it polls.
  bool Poll(int64_t now, bool wake) { return links_.Poll(now, wake); }
  // True if the operation is complete, or cannot complete any more.
  bool Ended(uint64_t sequence) const {
    return operations_.completed() >= sequence || !state_.running();
  }
  // True if all links use shared memory.
  bool all_shared() const;

  void Start(const Call* calls, size_t count, int64_t now);
  // Fails with `reason`, which names this rank, and sends it to every other
  // rank. Does nothing after an error.
  void Abort(const Status& reason, int64_t now);
  // Sends a goodbye, and waits until the others have it, at most for the
  // timeout. Then closes all connections, and calls Transport::OnLeft.
  void Leave(int64_t now);

  void SetStep(uint64_t step) {
    operations_.SetStep(step);
    links_.SetStep(step);
    trail_.SetStep(step);
  }
  WaitChain CurrentWait(int64_t now);
  // True while the session makes its first connections.
  bool connecting() const { return state_.connecting(); }
  // The ring's generation; 0 until the ring has formed.
  uint32_t generation() const { return members_.formed(); }
  // The generation of the proposed, acknowledged or formed view; 0: none.
  uint32_t view_generation() const { return members_.generation(); }
  // The greatest generation so far; the next session proposes a greater one.
  uint32_t newest_generation() const {
    return views_.active() ? views_.proposal() - 1 : generation();
  }
  // In an elastic ring that has lost workers because their processes ended: the
  // other members, and the joining workers. 0: not known.
  uint64_t remaining_workers() const { return members_.remaining_workers(); }
  // The worker of each rank, once the ring has formed.
  const std::vector<int>& workers() const { return members_.workers(); }
  // True if another rank reported the failure.
  bool reported_by_other() const { return reported_by_other_; }

 private:
  // A refused connection that may be of a worker of this job. It is of one if
  // its address is that of a missing rank's host.
  struct Refusal {
    Status why;
    sockaddr_storage from;
    int peer = -1;  // its address is being looked up; -1: none
  };

  void OnConnected(FramedLink* link, int64_t now) override;
  void OnHeard(FramedLink* link, int64_t now) override;
  Status OnHeader(FramedLink* link, const FrameHeader& header,
                  ReceiveTarget* receive_target) override;
  Status OnFrame(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload) override;
  void OnTurn(FramedLink* link, int64_t now) override;
  void OnSent(FramedLink* link, uint64_t sequence) override;
  void OnDown(FramedLink* link, Cause cause, const Status& why,
              int64_t now) override;

  // session_forming.cc
  // Drops the link to a peer, up or not yet, and tries again. Only a peer that
  // is no member of a running ring. `notice`: the reason for the others, if it
  // is not `why`.
  void LosePeer(int peer, const std::string& why,
                const AbortNotice* notice = nullptr);
  void TickStart(const FailureDetector::Suspect& suspect);
  void TickWithdrawal();
  Status OnHello(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload);
  Status OnWelcome(FramedLink* link, const FrameHeader& header,
                   const uint8_t* payload);
  Status OnWithdraw(FramedLink* link, const FrameHeader& header,
                    const uint8_t* payload);
  Status AnswerWithdraw(FramedLink* link, int peer, const Status& reason);
  Status OnReject(FramedLink* link, const FrameHeader& header,
                  const uint8_t* payload);
  Status OnWithdrawalConfirmed(FramedLink* link, const FrameHeader& header,
                               const Identity& peer);
  void Join(int peer, uint32_t proposal);
  void CheckFormed(const AbortNotice* lowered = nullptr);
  Status OnFormationReport(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload);
  void SendWithdraw(FramedLink* link);
  // `informed`: in a kWelcome that answers kWithdraw, the ranks to which this
  // rank sends the reason.
  void SendIdentity(FramedLink* link, FrameType type, uint64_t informed = 0,
                    uint32_t features = 0);
  void SendShared(FramedLink* link);

  // session_refusals.cc:
  // `final`: the peer gets the code of `why`, and need not try again. `quiet`:
  // the peer is not a worker.
  void Reject(FramedLink* link, const Status& why, bool final,
              bool quiet = false);
  void RefuseOther(FramedLink* link, const Identity& peer, const Status& why);
  void RefuseDuplicate(FramedLink* link, const Identity& peer);
  void RefuseVersion(FramedLink* link, const Status& why);
  void ResolveRefusal();
  void ProbeOne();
  void Probe(int peer, const std::vector<Endpoint>& endpoints);
  void SendProbe(FramedLink* link);
  void AnswerProbe(FramedLink* link, const Identity& peer);
  void ProbeEnded(FramedLink* link, Cause cause, const Status& why);

  // session_frames.cc
  Status FailIfCallsDiffer(const Status& status);
  void OnGoodbye(FramedLink* link, uint64_t completed);
  void OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes);
  AbortNotice NoticeOf(const Status& status, int origin) const;
  void NoteReported(int reporter, const AbortNotice& notice);
  void FailAsReported(int peer, const AbortNotice& notice);
  void OnMemberLinkLost(int peer, bool was_up, Cause cause, const Status& why);

  void OnNewView() override;
  void OnFormed(const std::string& line) override;
  void OnMemberAbsent(int member) override;
  void OnJoiner(bool waits) override;

  void RecordProcessEnd(int peer);
  bool AcceptsHello(int peer) const;

  // session.cc
  // Ends the ring: the suspect is lost.
  void Lose(const FailureDetector::Suspect& suspect, const char* detail);
  void NoteTick();
  void SendHeartbeats();
  int FindStuck();
  void HandleSuspect(const FailureDetector::Suspect& suspect, int stuck);
  void Advance();
  // Sends the error to the others, if the ring had formed. `origin` is the rank
  // that failed first; -1: none.
  void Fail(const Status& status, int origin = -1);
  void CheckDelivered();
  void CheckLeft();
  void Notify(const std::string& line);

  int64_t timeout() const {
    return static_cast<int64_t>(options_.timeout_seconds * 1e9);
  }
  const char* address(int peer) const {
    return options_.addresses[peer].c_str();
  }

  const RingOptions options_;
  Transport* const transport_;
  Owner* const owner_;
  const int rank_;
  const int size_;
  Identity identity_;
  SessionState state_;
  int64_t now_;  // the time of the present event
  int64_t start_deadline_ = 0;
  int64_t leave_deadline_ = 0;
  const bool fully_connected_;  // every pair is linked
  RingMembers members_;         // of the formed, acknowledged or proposed ring
  PeerTable links_;
  MissingPeerReport missing_;
  Dialer dialer_;
  std::vector<bool> informed_;  // they have the reason of the withdrawal
  Refusal refusal_;
  ProbeSchedule probes_;
  DuplicateWorkers duplicates_;
  Status withdrawal_;  // the reason of BeginWithdrawal
  bool reported_by_other_ = false;
  bool delivering_ = false;  // after Abort, until OnDelivered
  bool left_ = false;        // OnLeft was called

  FailureDetector detector_;
  Operations operations_;
  Formation formation_;
  Views views_;
  SessionTrail trail_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_H_
