// ViewAgreement: decides the members of an elastic ring.
//
// It owns this worker's view, and the lists of the other workers. Views passes
// links and frames to it, and sends the frames in `out`. Two workers in views
// of one generation have the same members.
//
// Pure: each event has a time, in nanoseconds of a monotonic clock, and `out`
// gets the frames to send. A *view* is a generation and its members. A worker
// is named by its number in the job's list, which has at most
// kMaxElasticWorkers workers.
//
// Every worker sends the list of workers that it hears to all of them, and
// again whenever the list changes. The lowest waiting worker proposes a view.
// If all workers of the list hear each other, or all that may still come
// (awaited_mask), it proposes these immediately. Otherwise it proposes a group
// of workers that hear each other. It does so once one of them has waited until
// partial_view_at, and nothing has changed for `quiet`. A member acknowledges a
// proposal of the lowest worker that it hears, if it hears all members;
// otherwise it sends its list again. When all have acknowledged, the proposer
// announces the view. The proposer is then in the view, as is every member that
// gets the announcement.
//
// A generation belongs to one proposal. If a view counts a worker as a member
// that is in another view, or in none, the worker reports that, and the view
// ends. So there are no votes, and no acknowledgement binds a worker.
//
// A worker that hears all members of a view, and is not one of them, is a
// *joining worker* of that view. It waits until the members form a view with
// it. If it hears only some of the members, it and the members ignore each
// other.
//
// After a view's end its members still compute until they form another view.
// Such a *lingering* worker reports a view of its own in which it hears no
// other worker. Waiting workers wait to join it too, since it still runs.

#ifndef RINGLET_NET_MEMBERSHIP_VIEW_AGREEMENT_H_
#define RINGLET_NET_MEMBERSHIP_VIEW_AGREEMENT_H_

#include <cstdint>
#include <vector>

#include "../wire/view_frame.h"
#include "ringlet/collective.h"

namespace ringlet {

// A count of generations that is ahead of a worker's own by more than this is
// taken as damage. The count of a worker that was cut off may lag. A new worker
// (count 1) accepts any count.
constexpr uint32_t kMaxCountsAhead = 1u << 20;

struct View {
  uint32_t generation = 0;  // 0 if there is none
  uint64_t members = 0;
  bool has(int worker) const { return (members >> worker & 1) != 0; }
};

class ViewAgreement {
 public:
  struct Options {
    int worker = 0;
    int size = 1;
    int min_workers = 1;
    uint32_t count = 1;  // the least count of its first proposal
    // The time from which a view without some workers is proposed.
    int64_t partial_view_at = 0;
    // Mask of the workers that may still take part, if all other workers are
    // known to have ended; zero if this is not known.
    uint64_t awaited_mask = 0;
    int64_t quiet = 0;  // a proposal waits for it, at most eight times
    int64_t timeout = 0;
  };
  explicit ViewAgreement(const Options& options, int64_t now);

  // AddPeer: a worker is linked, and has heard of no generation with this count
  // or a greater one. RemovePeer: it is no longer linked.
  void AddPeer(int worker, uint32_t count, int64_t now);
  void RemovePeer(int worker, int64_t now);
  void OnFrame(int from, const ViewFrame& frame, int64_t now);
  void Tick(int64_t now);
  // Call it when the view has ended, before the training thread gets the loss.
  void Linger(int64_t now);

  // The frames to send, in this order. The owner clears them.
  struct Out {
    int to;
    ViewFrame frame;
  };
  std::vector<Out> out;

  // The view that this worker proposes, has acknowledged, or is in.
  const View& view() const { return view_; }
  bool running() const { return state_ == State::kRunning; }
  // If this worker is in a view: true if a joining worker waits, so a larger
  // view could form.
  bool has_joiner() const;
  // If this worker is in a view: a member that takes no part in it, or -1.
  int departed_member() const { return departed_member_; }
  // If this worker is not in a view: true if it waits to join a running view.
  bool join_pending() const;
  // True if this job can have reached a generation with this count. Otherwise a
  // few false counts would leave no greater generation to propose.
  bool IsPlausible(uint32_t count) const {
    return count <= kGreatestViewCount / 2 &&
           (next_count_ == 1 || count <= next_count_ + kMaxCountsAhead);
  }
  // A count greater than the counts of all known generations.
  uint32_t next_count() const { return next_count_; }
  // The number of workers that this one hears, with itself.
  int present() const;

 private:
  enum class State : uint8_t { kOpen, kProposed, kAcknowledged, kRunning };
  struct Peer {
    uint64_t hears = 0;
    bool waited_enough = false;
    bool acknowledges = false;
    View runs;
    ViewFrame sent;
  };

  bool hears(int worker) const { return (heard_ >> worker & 1) != 0; }
  bool HasMinWorkers(uint64_t workers) const;
  int LowestHeard() const;
  uint64_t WorkersHearingEachOther() const;
  // True if this worker or a member waits for no other worker.
  bool HasWaitedEnough(uint64_t members, int64_t now) const;
  bool HasAllAwaited(uint64_t members) const;
  void Open();
  void Propose(int64_t now);
  void Run();
  void OnHeardList(int from, const ViewFrame& frame, int64_t now);
  void OnProposal(int from, const View& view);
  void OnRunningView(int from, const View& view);
  void Refuse(int to, uint32_t generation);
  void Send(int to, ViewMessage message, const View& view);
  void SendMembers(ViewMessage message, bool members);
  void SendAndPropose(int64_t now);
  ViewFrame MakeFrame(int to, int64_t now) const;

  const Options options_;
  State state_ = State::kOpen;
  View view_;
  uint64_t heard_;
  uint64_t acknowledged_ = 0;
  uint64_t refused_ = 0;  // members of a refused proposal, until a change
  uint32_t next_count_;
  int64_t changed_at_;
  int64_t proposed_at_ = 0;
  int64_t quiet_wait_began_ = 0;  // since then only `quiet` delays a proposal
  int departed_member_ = -1;
  int64_t partial_view_at_;
  uint64_t awaited_mask_;
  bool lingering_ = false;
  Peer peers_[kMaxElasticWorkers];
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_VIEW_AGREEMENT_H_
