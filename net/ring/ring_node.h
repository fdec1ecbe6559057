// RingNode: one worker of a ring, on the loop's thread.
//
// Internal to net/. Holds the connections to all other workers, forms them at
// start (the higher rank connects to the lower), beats and watches hearts, and
// carries the operations' frames. All methods are called on the loop's thread;
// so are the owner's. States: starting -> running -> leaving -> closed, with
// failed in between from any of the first two; or withdrawing -> leaving, of a
// worker that cannot take part and tells the others why.
//
// While the ring forms for the first time an error that no wait mends (a
// member's withdrawal, options that differ) ends the wait here and there. While
// it forms anew the ranks hold work that only they have: such an error is told,
// and ends the rank that has it.

#ifndef RINGLET_NET_RING_RING_NODE_H_
#define RINGLET_NET_RING_RING_NODE_H_

#include <uv.h>

#include <memory>
#include <string>
#include <vector>

#include "../wire/handshake.h"
#include "collective_schedule.h"
#include "failure_detector.h"
#include "framed_link.h"
#include "loop.h"
#include "name_lookup.h"
#include "ring_collective.h"
#include "roll_call.h"
#include "socket_address.h"
#include "uv_stream.h"

namespace ringlet {

class RingNode final : private FramedLink::Owner,
                       private UvListener::Owner,
                       private CollectiveSchedule::Wire {
 public:
  class Owner {
   public:
    virtual void OnRunning() = 0;
    virtual void OnCompleted(uint64_t sequence) = 0;
    // Once. No memory of a call is touched from now on.
    virtual void OnFailed(const Status& status) = 0;
    // After Abort: what the others are told is with the kernel. After
    // Withdraw: all have heard it, or the time is over.
    virtual void OnTold() = 0;
    // A line for the user.
    virtual void OnNotice(const std::string& line) = 0;
    // All handles are closed.
    virtual void OnClosed() = 0;

   protected:
    ~Owner() = default;
  };

  // `hosts` are the parsed addresses, `own` those where this rank listens. The
  // ring's generation becomes the greatest that any rank proposes.
  RingNode(const RingOptions& options, std::vector<Address> hosts,
           std::vector<sockaddr_storage> own, uint32_t generation, Loop* loop,
           Owner* owner);
  RingNode(const RingNode&) = delete;
  RingNode& operator=(const RingNode&) = delete;

  // Listens and begins to connect; an error is also given to OnFailed.
  void Begin();
  // Instead of Begin: tells every other rank that this one cannot take part,
  // and why, for as long as options.start_timeout_seconds.
  void BeginWithdrawal(const Status& why);
  // Whether the failure was another rank's news; on the loop's thread, or once
  // that has ended.
  bool told_by_other() const { return told_by_other_; }
  void Start(const Call* calls, size_t count);
  // Fails with `reason`, as of this rank, and tells every other rank. Nothing
  // after an error.
  void Abort(const Status& reason);
  void SetStep(uint64_t step) { step_ = step; }
  Waiting WaitsFor();
  // Of the ring; 0 until it has formed.
  uint32_t generation() const { return generation_; }
  // Says goodbye, waits for the others to hear it, and closes everything.
  void Leave();

 private:
  enum class State : uint8_t {
    kStarting,
    kRunning,
    kFailed,
    kWithdrawing,
    kLeaving
  };

  // One way to reach a peer.
  struct Way {
    sockaddr_storage address;
    bool local;  // by the local socket
  };

  struct Peer {
    std::unique_ptr<FramedLink> link;    // member, or on the way to be one
    std::unique_ptr<NameLookup> lookup;  // of its address
    uint32_t proposal = 0;               // of the ring's generation
    bool left = false;
    uint64_t taken_bytes = 0;  // of the link, at the last tick
    int stuck_ticks = 0;       // since then it takes no more
    std::vector<Way> ways;     // to be tried in turn
    size_t next_way = 0;       // the one before is under way, or has failed
    std::string failed;        // of the ways tried in this turn
    int64_t next_dial = 0;
    int64_t backoff = 0;
    uint64_t rival = 0;       // incarnation of one that wants its place
    int64_t rival_since = 0;  // and is refused
    bool told = false;        // of the withdrawal
  };

  // A worker was refused that may be one of this job: it is where it comes from
  // the host of a missing rank.
  struct Refusal {
    Status why;
    sockaddr_storage from;
    std::unique_ptr<NameLookup> lookup;  // of that rank's address; null: none
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
  void OnConnection(UvListener* listener) override;
  bool HasRoom(int peer) const override;
  void AwaitRoom(int peer) override;
  void Send(int peer, const FrameHeader& header, const uint8_t* payload,
            bool borrowed) override;

  Status OnHello(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload);
  Status OnWelcome(FramedLink* link, const FrameHeader& header,
                   const uint8_t* payload);
  Status OnWithdraw(FramedLink* link, const FrameHeader& header,
                    const uint8_t* payload);
  Status OnReject(FramedLink* link, const FrameHeader& header,
                  const uint8_t* payload);
  void Join(int peer, uint32_t proposal);
  void SendWithdraw(FramedLink* link);
  void OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes);
  void OnGoodbye(FramedLink* link, uint64_t completed);
  // `told`: of kWelcome that answers kWithdraw, who hears of it from this rank.
  void SendIdentity(FramedLink* link, FrameType type, uint64_t told = 0);
  // `final`: with why's code the other need not try again. `quiet`: of somebody
  // who is no worker.
  void Reject(FramedLink* link, const Status& why, bool final,
              bool quiet = false);
  void RefuseOther(FramedLink* link, const Identity& peer, const Status& why);
  void RefuseRival(FramedLink* link, const Identity& peer);
  void RefuseVersion(FramedLink* link, const Status& why);
  void JudgeRefusal();
  void Say(const std::string& line);
  void SendTo(FramedLink* link, FrameHeader header, const uint8_t* payload,
              bool borrowed);

  Status Listen();
  Status ListenTcp(const sockaddr_storage& address);
  void ListenLocal(const sockaddr_storage& address);
  void Dial(int peer);
  void FindWays(int peer, const std::vector<sockaddr_storage>& addresses);
  void Redial(int peer, const std::string& why);
  void CheckFormed();
  void TickStart(int64_t now, const FailureDetector::Suspect& suspect);
  void TickWithdrawal(int64_t now);
  void Tick();
  void ExpireHandshakes(int64_t now);
  int FindStuck();
  void DropLink(std::unique_ptr<FramedLink>* link);
  void Advance();
  void NextTurn();
  void UpdateActivity();
  // Tells the others, where the ring had formed. `origin` is the rank that
  // gave up of its own accord, -1 where it is nobody's decision.
  void Fail(const Status& status, int origin = -1);
  Status FailedAt(int origin, const Status& reason) const;
  void CheckTold();
  void CheckClosed();
  int64_t Now() const { return static_cast<int64_t>(uv_hrtime()); }
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

  const RingOptions options_;
  const std::vector<Address> hosts_;
  const std::vector<sockaddr_storage> own_;
  Loop* const loop_;
  Owner* const owner_;
  const int rank_;
  const int size_;
  Identity identity_;
  State state_ = State::kStarting;
  const uint32_t proposal_;  // of a generation
  uint32_t generation_ = 0;
  uint64_t step_ = 0;
  uint64_t stale_frames_ = 0;  // of another generation, dropped
  uint64_t completed_ = 0;
  RollCall roll_;
  Refusal refusal_;
  Status withdrawal_;  // why
  bool told_by_other_ = false;

  std::vector<Peer> peers_;  // by rank; this rank's own stays empty
  std::vector<std::unique_ptr<FramedLink>> strangers_;  // no handshake yet
  // Closed; deleted at the next event, when no call of theirs is on the stack.
  std::vector<std::unique_ptr<FramedLink>> dropped_;
  std::vector<std::unique_ptr<UvListener>> listeners_;
  uv_timer_t timer_ = {};
  uv_idle_t turn_;
  UvHandles handles_;
  bool ended_ = false;    // they are closing
  bool telling_ = false;  // after Abort, until OnTold
  int64_t start_deadline_ = 0;
  int64_t leave_deadline_ = 0;
  FailureDetector detector_;
  CollectiveSchedule schedule_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_NODE_H_
