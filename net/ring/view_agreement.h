// ViewAgreement: which of the workers of an elastic ring take part in it.
//
// Internal to net/. Pure: events come in with a time, in nanoseconds of a
// monotonic clock, what is to be sent comes out in `out`. A *view* is a
// generation and its members; a worker is its number in the job's list, of at
// most kMostElastic.
//
// Every worker says whom it hears, to all that it hears and whenever that
// changes. Of those that wait the lowest proposes: all of the list at once
// where all hear each other, or all that are `expected`, else, when one of them
// has waited for `settle` and nothing has changed for `quiet`, as many as hear
// each other. A member acknowledges what the lowest proposes whom it hears, if
// it hears all members; else it says anew whom it hears. When all have
// acknowledged the proposer says so, and is in the view, as is every member
// that hears of it.
//
// A generation is of one proposal: a worker that takes part in another view, or
// none, tells those who count it among theirs, and theirs ends. So there are no
// votes, and nobody is bound by what it acknowledged.
//
// Who is in a view is *visited* by a worker that hears all of its members: they
// can be in one view, and are, once they form it anew. That worker waits for it
// meanwhile. One that hears some of them only is let alone, and lets them.
//
// A view that has ended leaves its members computing, until they come to form
// another: one that *stands* says that it runs in a view of its own, and hears
// nobody. Who waits visits it too, for it lives.

#ifndef RINGLET_NET_RING_VIEW_AGREEMENT_H_
#define RINGLET_NET_RING_VIEW_AGREEMENT_H_

#include <cstdint>
#include <vector>

#include "../wire/view.h"

namespace ringlet {

// Counts of generations: a worker knows less than those that it has not heard
// for long, but not by more than this. One that is new has heard nobody.
constexpr uint32_t kMostCountsAhead = 1u << 20;

struct View {
  uint32_t generation = 0;  // 0: none
  uint64_t members = 0;
  bool has(int worker) const { return (members >> worker & 1) != 0; }
};

class ViewAgreement {
 public:
  struct Options {
    int worker = 0;
    int size = 1;
    int min_workers = 1;
    uint32_t count = 1;     // of its first proposal, at least
    int64_t settle_at = 0;  // a time
    uint64_t expected = 0;  // others are known to have ended; 0: not known
    int64_t quiet = 0;      // eight times as much is waited for at most
    int64_t timeout = 0;
  };
  explicit ViewAgreement(const Options& options, int64_t now);

  // A worker is linked, and has not heard of a generation of this count or a
  // greater one; or it is no longer there.
  void Joined(int worker, uint32_t count, int64_t now);
  void Lost(int worker, int64_t now);
  void Take(int from, const ViewFrame& frame, int64_t now);
  void Tick(int64_t now);
  // After it has run: its view has ended, and its worker does not know.
  void Stand(int64_t now);

  // What is to be sent, in this order; for its reader to clear.
  struct Out {
    int to;
    ViewFrame frame;
  };
  std::vector<Out> out;

  // The one that it proposes, has acknowledged, or is in.
  const View& view() const { return view_; }
  bool running() const { return state_ == State::kRunning; }
  // While it runs: a worker is there with which it could form a larger view.
  bool visited() const;
  // While it runs: a member that takes no part in this view; -1: none.
  int deserter() const { return deserter_; }
  // While it does not run: somebody does whom it visits.
  bool visits() const;
  // Whether somebody of this job can have heard of a generation of this count:
  // else nobody could propose a greater one after a few such words.
  bool Plausible(uint32_t count) const {
    return count <= kGreatestViewCount / 2 &&
           (next_count_ == 1 || count <= next_count_ + kMostCountsAhead);
  }
  // Greater than of all generations heard of.
  uint32_t next_count() const { return next_count_; }
  // Itself and those it hears.
  int present() const;

 private:
  enum class State : uint8_t { kOpen, kProposed, kAcknowledged, kRunning };
  struct Peer {
    uint64_t hears = 0;
    bool settled = false;
    bool follows = false;
    View runs;
    ViewFrame told;
  };

  bool hears(int worker) const { return (heard_ >> worker & 1) != 0; }
  bool Viable(uint64_t hears) const;
  int Lowest() const;
  uint64_t Circle() const;
  bool Settled(uint64_t members, int64_t now) const;
  bool AllExpected(uint64_t members) const;
  void Open();
  void Propose(int64_t now);
  void Run();
  void TakeHears(int from, const ViewFrame& frame, int64_t now);
  void TakeProposal(int from, const View& view);
  void TakeRuns(int from, const View& view);
  void Refuse(int to, uint32_t generation);
  void Send(int to, ViewWord word, const View& view);
  void SendMembers(ViewWord word, bool members);
  void After(int64_t now);
  ViewFrame Word(int to, int64_t now) const;

  const Options options_;
  State state_ = State::kOpen;
  View view_;
  uint64_t heard_;
  uint64_t acknowledged_ = 0;
  uint64_t refused_ = 0;  // a proposal of these, until something changes
  uint32_t next_count_;
  int64_t changed_at_;
  int64_t proposed_at_ = 0;
  int64_t due_at_ = 0;  // it could have proposed some, but for `quiet`
  int deserter_ = -1;
  int64_t settle_at_;
  uint64_t expected_;
  bool stands_ = false;
  Peer peers_[kMostElastic];
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_VIEW_AGREEMENT_H_
