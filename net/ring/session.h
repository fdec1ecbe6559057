// Session: one worker's part in a ring, from meeting the others to goodbye.
//
// Internal to net/. Pure: a state machine over a Transport. Every event carries
// the time, in nanoseconds of a monotonic clock; nothing here knows a socket, a
// timer or a thread. It forms the connections to all other workers, or in a
// large ring to some (topology.h); the higher rank connects to the lower. It
// sends heartbeats and judges those of others, and carries the frames of
// collective operations.
//
// States: starting -> running -> leaving, with failed in between from any of
// the first two; or withdrawing -> leaving, of a worker that cannot take part
// and tells the others why. One that has failed by a loss in an elastic ring
// *stands*: until its caller knows, and leaves, it keeps and seeks links, so
// that those who come hear that this worker lives, and wait for it.
//
// Within a session, and on the wire, a worker is its number in the job's list.
// So is its rank, but in an elastic ring (options.min_workers), where those in
// the view have the ranks 0, 1, … in the order of their numbers: callers, the
// schedule and messages see these. ViewAgreement says who is in the view; the
// others of the list are linked, or not, and judged by nobody.
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

#include "../../core/base/trail.h"
#include "../wire/handshake.h"
#include "candidates.h"
#include "collective_schedule.h"
#include "failure_detector.h"
#include "framed_link.h"
#include "meeting.h"
#include "ring_collective.h"
#include "roll_call.h"
#include "transport.h"
#include "view_agreement.h"

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
    // Of an elastic ring that runs: whether another worker is there that could
    // be in it, were it formed anew. False at the beginning.
    virtual void OnVisited(bool) {}
    // A line for the user.
    virtual void OnNotice(const std::string& line) = 0;
    // For the worker's trail.
    virtual void OnEvent(const TrailEvent&) {}

   protected:
    ~Owner() = default;
  };

  // The ring's generation becomes the greatest that any rank proposes.
  // `incarnation` is random: it tells two processes of one rank apart.
  // `remaining`: of this worker's session before.
  Session(const RingOptions& options, uint32_t generation, uint64_t incarnation,
          Transport* transport, Owner* owner, int64_t now,
          uint64_t remaining = 0);
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
  // Looks for what has come through shared memory; `wake`: who sends more is to
  // wake this worker, which until then looks by itself. Whether something has.
  bool Poll(int64_t now, bool wake);
  // Whether an operation is complete, or cannot be.
  bool Ended(uint64_t sequence) const {
    return completed_ >= sequence || state_ != State::kRunning;
  }
  // Whether all its links are of shared memory.
  bool all_shared() const;

  void Start(const Call* calls, size_t count, int64_t now);
  // Fails with `reason`, as of this rank, and tells every other rank. Nothing
  // after an error.
  void Abort(const Status& reason, int64_t now);
  // Says goodbye, waits for the others to hear it, at most for the timeout,
  // and closes all connections: Transport::OnLeft.
  void Leave(int64_t now);

  void SetStep(uint64_t step) { step_ = step; }
  Waiting WaitsFor(int64_t now);
  // Whether it waits for connections.
  bool forms() const { return meets(); }
  // Of the ring; 0 until it has formed.
  uint32_t generation() const { return generation_; }
  // Of the view that is proposed, acknowledged or formed; 0: none.
  uint32_t agreed() const { return view_generation_; }
  // What the next session is to propose more than.
  uint32_t newest() const {
    return agreement_ == nullptr ? generation_ : agreement_->next_count() - 1;
  }
  // Of an elastic ring that has run and lost workers whose processes have
  // ended: the other members, and who waits to take part. Else 0: not known.
  uint64_t remaining() const;
  // Who has which rank, once the ring has formed.
  const std::vector<int>& workers() const { return workers_; }
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
    bool failed = false;       // it said so
    uint64_t taken_bytes = 0;  // of the link, at the last tick
    int stuck_ticks = 0;       // since then it takes no more
    uint64_t rival = 0;        // incarnation of one that wants its place
    int64_t rival_since = 0;   // and is refused
    bool told = false;         // of the withdrawal
    int64_t dial_at = 0;       // while it takes no part in the ring that runs
    bool quiet = false;        // and the trail says so
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
  bool HasRoom(int rank) const override;
  void AwaitRoom(int rank) override;
  void Send(int rank, const FrameHeader& header, const uint8_t* payload,
            bool borrowed) override;

  // session_forming.cc
  void Dial(int peer);
  // `why` is of the endpoint just tried; "" is not worth telling.
  void Redial(int peer, const std::string& why);
  // Drops the link to a peer that was there, or on the way, and tries anew.
  void LoseAndRedial(int peer, const std::string& why);
  void LoseAndRedial(int peer, const std::string& why,
                     const AbortNotice& notice);
  void TickStart(const FailureDetector::Suspect& suspect);
  void TickWithdrawal();
  void ExpireHandshakes();
  void DropStranger();
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
  // A member that was there is gone, for this reason, or the links it had.
  void Fall(int peer, const AbortNotice& why);
  void CheckFormed(const AbortNotice* fell = nullptr);
  void TellMet(int peer, const Met& met);
  void TellMet(const Met& met);
  Status OnMet(FramedLink* link, const FrameHeader& header,
               const uint8_t* payload);
  void SendWithdraw(FramedLink* link);
  // `told`: of kWelcome that answers kWithdraw, who hears of it from this rank.
  void SendIdentity(FramedLink* link, FrameType type, uint64_t told = 0,
                    uint32_t features = 0);
  void Share(FramedLink* link);

  // session_refusals.cc
  // `final`: with why's code the other need not try again. `quiet`: of somebody
  // who is no worker.
  void Reject(FramedLink* link, const Status& why, bool final,
              bool quiet = false);
  void RefuseOther(FramedLink* link, const Identity& peer, const Status& why);
  void RefuseRival(FramedLink* link, const Identity& peer);
  void ExcuseRivals();
  void RefuseVersion(FramedLink* link, const Status& why);
  void JudgeRefusal();

  // session_frames.cc
  Status FailWhereCallsDiffer(const Status& status);
  void OnGoodbye(FramedLink* link, uint64_t completed);
  void OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes);
  AbortNotice NoticeOf(const Status& status, int origin) const;
  void FailAsTold(int peer, const AbortNotice& notice);
  void MemberDown(int peer, bool was_up, Cause cause, const Status& why);
  void SendTo(FramedLink* link, FrameHeader header, const uint8_t* payload,
              bool borrowed);

  // session_views.cc
  void BeginViews();
  void TickViews();
  void Stand();
  void NoteGone(int peer);
  void SetView(const View& view);
  void Agree();
  void RunInView();
  bool Welcomes(int peer) const;
  Status CheckProposal(const FrameHeader& header) const;
  void LoseVisitor(int peer, const std::string& why);
  bool WaitIsOver();
  Status TooFew();
  Status OnView(FramedLink* link, const FrameHeader& header,
                const uint8_t* payload);
  // With the rank that the caller knows instead of the worker's number, or the
  // other way round.
  Status ForCaller(const Status& status) const;
  Status FromCaller(const Status& status) const;

  // session_trail.cc
  // Ends the ring: the suspect is lost.
  void Lose(const FailureDetector::Suspect& suspect, const char* detail);
  void Note(TrailEvent event);
  void Note(TrailKind kind, int peer, const char* text = "");
  void NoteTold(int teller, const AbortNotice& notice);
  void NoteFormed();
  // To be called at every tick.
  void NoteWaits();

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
  bool stale(int peer, const FrameHeader& header) const {
    const bool operation =
        IsData(header.type) || header.type == FrameType::kReady;
    if (agreement_ != nullptr && (operation || stands() || !member(peer))) {
      return operation &&
             !(member(peer) && header.generation == view_generation_);
    }
    return header.type != FrameType::kView && generation_ != 0 &&
           header.generation != generation_ &&
           (header.generation != 0 || operation);
  }
  bool stands() const { return state_ == State::kFailed && stands_; }
  // It has a view, or had one, and links with those who are not in it.
  bool serves() const {
    return stands() || (state_ == State::kRunning && agreement_ != nullptr);
  }
  // It is in the view, or in the one that is agreed on.
  bool member(int peer) const { return rank_of_[peer] >= 0; }
  // In an elastic ring: its process has ended.
  bool gone(int peer) const { return some_ended_ && (gone_ >> peer & 1) != 0; }
  // For messages.
  int RankOf(int worker) const {
    return rank_of_[worker] < 0 ? worker : rank_of_[worker];
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
  State state_ = State::kStarting;
  const uint32_t proposal_;  // of a generation
  uint32_t generation_ = 0;
  uint64_t step_ = 0;
  uint64_t completed_ = 0;
  int64_t now_;  // of the event under way
  int64_t start_deadline_ = 0;
  int64_t leave_deadline_ = 0;
  const bool every_pair_;                     // is linked
  std::vector<int> links_;                    // the ranks to talk to
  std::unique_ptr<ViewAgreement> agreement_;  // of an elastic ring that forms
  uint32_t view_generation_ = 0;              // that workers_ are of
  std::vector<int> workers_;                  // in the view, by rank
  std::vector<int> rank_of_;                  // by worker; -1: not in it
  bool some_ended_ = false;                   // of the members' processes
  uint64_t gone_ = 0;                         // and have not come back
  uint64_t came_ = 0;                         // who waits to take part
  bool missed_ = false;      // the others go on without this worker
  const uint64_t expected_;  // in the first view
  bool visited_ = false;
  int64_t visits_at_ = INT64_MIN / 2;  // when it last did, while it starts
  bool stands_ = false;                // where it has failed
  bool noted_end_ = false;             // why it fails
  TrailEvent waits_;                   // of the last tick: kWaits, or none
  Meeting meeting_;
  Met told_;  // to the meeting's audience
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
