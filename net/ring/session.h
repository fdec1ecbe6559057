// Session: one worker's part in a ring, from meeting the others to goodbye.
//
// Internal to net/. Pure: a state machine over a Transport. Every event carries
// the time, in nanoseconds of a monotonic clock; nothing here knows a socket, a
// timer or a thread. It forms the connections to all other workers (the higher
// rank connects to the lower), sends heartbeats and judges those of others, and
// carries the frames of collective operations.
//
// States: starting -> running -> leaving, with failed in between from any of
// the first two; or withdrawing -> leaving, of a worker that cannot take part
// and tells the others why.
//
// While the ring forms for the first time an error that no wait mends (a
// member's withdrawal, options that differ) ends the wait here and there. While
// it forms anew the ranks hold work that only they have: such an error is told,
// and ends the rank that has it.

#ifndef RINGLET_NET_RING_SESSION_H_
#define RINGLET_NET_RING_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "../wire/handshake.h"
#include "candidates.h"
#include "collective_schedule.h"
#include "failure_detector.h"
#include "framed_link.h"
#include "ring_collective.h"
#include "roll_call.h"
#include "transport.h"

namespace ringlet {

class Session final : private FramedLink::Owner,
                      private CollectiveSchedule::Wire {
 public:
  // Called from inside the events below.
  class Owner {
   public:
    virtual void OnRunning() = 0;
    // All operations up to this one are complete.
    virtual void OnCompleted(uint64_t sequence) = 0;
    // Once. No memory of a call is touched from now on.
    virtual void OnFailed(const Status& status) = 0;
    // After Abort: what the others are told is with the transport. After
    // BeginWithdrawal: all have heard it, or the time is over.
    virtual void OnTold() = 0;
    // A line for the user.
    virtual void OnNotice(const std::string& line) = 0;

   protected:
    ~Owner() = default;
  };

  // The ring's generation becomes the greatest that any rank proposes.
  // `incarnation` is random: it tells two processes of one rank apart.
  Session(const RingOptions& options, uint32_t generation, uint64_t incarnation,
          Transport* transport, Owner* owner, int64_t now);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Listens and begins to connect; an error is given to OnFailed.
  void Begin(int64_t now);
  // Instead of Begin: tells every other rank that this one cannot take part,
  // and why, for as long as options.start_timeout_seconds.
  void BeginWithdrawal(const Status& why, int64_t now);

  // The transport's.
  void OnAccepted(StreamPtr stream, int64_t now);
  void Tick(int64_t now);
  void TakeTurn(int64_t now);

  void Start(const Call* calls, size_t count, int64_t now);
  // Fails with `reason`, as of this rank, and tells every other rank. Nothing
  // after an error.
  void Abort(const Status& reason, int64_t now);
  // Says goodbye, waits for the others to hear it, at most for the timeout,
  // and closes all connections: Transport::OnLeft.
  void Leave(int64_t now);

  void SetStep(uint64_t step) { step_ = step; }
  Waiting WaitsFor(int64_t now);
  // Of the ring; 0 until it has formed.
  uint32_t generation() const { return generation_; }
  // Whether the failure was another rank's news.
  bool told_by_other() const { return told_by_other_; }

 private:
  enum class State : uint8_t {
    kStarting,
    kRunning,
    kFailed,
    kWithdrawing,
    kLeaving
  };

  struct Peer {
    std::unique_ptr<FramedLink> link;  // member, or on the way to be one
    Candidates candidates;
    uint32_t proposal = 0;     // of the ring's generation
    bool left = false;         // it said goodbye
    uint64_t taken_bytes = 0;  // of the link, at the last tick
    int stuck_ticks = 0;       // since then it takes no more
    uint64_t rival = 0;        // incarnation of one that wants its place
    int64_t rival_since = 0;   // and is refused
    bool told = false;         // of the withdrawal
  };

  // A worker was refused that may be one of this job: it is where it comes from
  // the host of a missing rank.
  struct Refusal {
    Status why;
    sockaddr_storage from;
    int peer = -1;  // whose address is being looked up; -1: none
  };

  void OnConnected(FramedLink* link, int64_t now) override;
  void OnHeard(FramedLink* link, int64_t now) override;
  Status OnHeader(FramedLink* link, const FrameHeader& header,
                  Landing* landing) override;
  Status OnFrame(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload) override;
  void OnTurn(FramedLink* link, int64_t now) override;
  void OnSent(FramedLink* link, uint64_t sequence) override;
  void OnDown(FramedLink* link, Cause cause, const Status& why,
              int64_t now) override;
  bool HasRoom(int peer) const override;
  void AwaitRoom(int peer) override;
  void Send(int peer, const FrameHeader& header, const uint8_t* payload,
            bool borrowed) override;

  // session_forming.cc
  void Dial(int peer);
  // `why` is of the endpoint just tried; "" is not worth telling.
  void Redial(int peer, const std::string& why);
  // Drops the link to a peer that was there, or on the way, and tries anew.
  void LoseAndRedial(int peer, const std::string& why);
  void TickStart(const FailureDetector::Suspect& suspect);
  void TickWithdrawal();
  void ExpireHandshakes();
  Status OnHello(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload);
  Status OnWelcome(FramedLink* link, const FrameHeader& header,
                   const uint8_t* payload);
  Status OnWithdraw(FramedLink* link, const FrameHeader& header,
                    const uint8_t* payload);
  Status Withdrawn(FramedLink* link, int peer, const Status& reason);
  Status OnReject(FramedLink* link, const FrameHeader& header,
                  const uint8_t* payload);
  Status HeardOfWithdrawal(FramedLink* link, const FrameHeader& header,
                           const Identity& peer);
  void Join(int peer, uint32_t proposal);
  void CheckFormed();
  void SendWithdraw(FramedLink* link);
  // `told`: of kWelcome that answers kWithdraw, who hears of it from this rank.
  void SendIdentity(FramedLink* link, FrameType type, uint64_t told = 0);

  // session_refusals.cc
  // `final`: with why's code the other need not try again. `quiet`: of somebody
  // who is no worker.
  void Reject(FramedLink* link, const Status& why, bool final,
              bool quiet = false);
  void RefuseOther(FramedLink* link, const Identity& peer, const Status& why);
  void RefuseRival(FramedLink* link, const Identity& peer);
  void RefuseVersion(FramedLink* link, const Status& why);
  void JudgeRefusal();

  // session_frames.cc
  void OnGoodbye(FramedLink* link, uint64_t completed);
  void OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes);
  void MemberDown(int peer, bool was_up, Cause cause, const Status& why);
  void SendTo(FramedLink* link, FrameHeader header, const uint8_t* payload,
              bool borrowed);

  void Beat();
  int FindStuck();
  void Suspects(const FailureDetector::Suspect& suspect, int stuck);
  void Advance();
  void UpdateActivity();
  // Tells the others, where the ring had formed. `origin` is the rank that
  // gave up of its own accord, -1 where it is nobody's decision.
  void Fail(const Status& status, int origin = -1);
  void CheckTold();
  void CheckLeft();
  void Say(const std::string& line);
  void DropLink(std::unique_ptr<FramedLink>* link);
  void DropUnauthenticated(FramedLink* link);

  // Of another ring. Where one end's ring has formed already and the other's
  // has not, both mean the same one.
  bool stale(const FrameHeader& header) const {
    const bool operation =
        IsData(header.type) || header.type == FrameType::kReady;
    return generation_ != 0 && header.generation != generation_ &&
           (header.generation != 0 || operation);
  }
  bool live() const {
    return state_ == State::kStarting || state_ == State::kRunning;
  }
  // Forms connections.
  bool meets() const {
    return state_ == State::kStarting || state_ == State::kWithdrawing;
  }
  // No member holds work of a ring before this one.
  bool first_time() const { return proposal_ == 1; }
  bool Missing(int peer) const {
    const FramedLink* link = peers_[peer].link.get();
    return peer != rank_ && (link == nullptr || !link->up());
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
  State state_ = State::kStarting;
  const uint32_t proposal_;  // of a generation
  uint32_t generation_ = 0;
  uint64_t step_ = 0;
  uint64_t completed_ = 0;
  int64_t now_;  // of the event under way
  int64_t start_deadline_ = 0;
  int64_t leave_deadline_ = 0;
  RollCall roll_;
  Refusal refusal_;
  Status withdrawal_;  // why
  bool told_by_other_ = false;
  bool telling_ = false;  // after Abort, until OnTold
  bool left_ = false;     // OnLeft was called

  std::vector<Peer> peers_;  // by rank; this rank's own stays empty
  // No handshake yet; the oldest first.
  std::vector<std::unique_ptr<FramedLink>> unauthenticated_;
  // Closed; deleted at the next event, when no call of theirs is on the stack.
  std::vector<std::unique_ptr<FramedLink>> dropped_;
  FailureDetector detector_;
  CollectiveSchedule schedule_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_SESSION_H_
