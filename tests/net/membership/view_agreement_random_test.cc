// Many workers that agree on views while they crash and links break, at random.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../support/random_cases.h"
#include "net/membership/view_agreement.h"
#include "view_agreement_options.h"

namespace ringlet {
namespace {

// Workers that crash and restart, over links with delays, some of which break.
// The class does a small part of a session's work: it ends a view that has lost
// a member, and forms the next one. If there is a joiner, it does so soon.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : random_(seed) {
    const bool large = seed % 200 == 199;
    size_ = large ? 17 + static_cast<int>(Random(48))
                  : 2 + static_cast<int>(Random(7));
    min_ = 1 + static_cast<int>(Random(Chance(2) ? 1 : size_));
    workers_.resize(size_);
    links_.resize(size_ * size_);
    cut_.resize(size_ * size_);
    last_fault_ = 6 * kT;
  }

  std::string Run() {
    for (int w = 0; w < size_; ++w) {
      At(Random(kT), [this, w] { Start(w, 1, 4 * kT); });
    }
    for (int64_t n = Random(12); n > 0; --n) {
      At(Random(last_fault_), [this] { Fault(); });
    }
    At(last_fault_, [this] { Heal(); });
    At(0, [this] { Connect(); });
    const int64_t end = last_fault_ + kBound;
    while (violation_.empty() && now_ < end && !together_) {
      Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.what();
    }
    if (violation_.empty() && !together_) CheckEnd();
    return violation_;
  }
  int views() const { return views_; }

 private:
  // The longest time until all workers are in one view after the last fault.
  static constexpr int64_t kBound = 16 * kT;

  struct Worker {
    std::unique_ptr<ViewAgreement> agreement;
    uint64_t session = 0;      // events of an older one are void
    uint64_t incarnation = 0;  // the process's incarnation
    uint64_t started_by = 0;   // the proposer's incarnation
    bool down = true;          // the process has ended
    bool failed = false;       // the view has ended; the next is not formed
    bool joiner_seen = false;  // the view has a joiner
    uint32_t seen = 0;
    int64_t paused_until = 0;
  };
  struct Direction {    // one direction of a pair, as its receiver sees it
    uint64_t link = 0;  // 0: none
    int64_t last = 0;
    bool lossy = false;
  };
  struct Event {
    int64_t when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  int64_t Random(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  bool Chance(int n) { return Random(n) == 0; }
  void At(int64_t when, std::function<void()> what) {
    events_.push({std::max(when, now_), order_++, std::move(what)});
  }
  // Calls `what` in this session of w, or later if its process is paused.
  void In(int w, int64_t when, std::function<void()> what) {
    const uint64_t session = workers_[w].session;
    At(when, [this, w, session, what = std::move(what)]() mutable {
      if (workers_[w].session != session) return;
      if (now_ < workers_[w].paused_until) {
        return In(w, workers_[w].paused_until, std::move(what));
      }
      what();
    });
  }
  Direction& DirectionOf(int from, int to) { return links_[from * size_ + to]; }
  bool Parted(int a, int b) { return cut_[a * size_ + b]; }

  void Start(int w, uint32_t count, int64_t settle) {
    Worker& worker = workers_[w];
    ++worker.session;
    worker.down = worker.failed = worker.joiner_seen = false;
    ViewAgreement::Options options = MakeOptions(w, size_, min_);
    options.count = count;
    options.partial_view_at = now_ + settle;
    // The worker is right or wrong about the workers that have ended.
    if (count > 1 && Chance(2)) {
      options.awaited_mask = uint64_t{1} << w;
      for (int v = 0; v < size_; ++v) {
        const bool is_running = workers_[v].agreement != nullptr;
        if (is_running != Chance(8)) options.awaited_mask |= uint64_t{1} << v;
      }
    }
    worker.agreement = std::make_unique<ViewAgreement>(options, now_);
    worker.seen = 0;
    Tick(w);
  }
  void Tick(int w) {
    In(w, now_ + kT / 20 + Random(kT / 20), [this, w] {
      workers_[w].agreement->Tick(now_);
      After(w);
      if (workers_[w].agreement != nullptr) Tick(w);
    });
  }
  void Stop(int w) {
    ++workers_[w].session;
    workers_[w].agreement.reset();
    for (int v = 0; v < size_; ++v) {
      if (v == w) continue;
      DirectionOf(v, w).link = 0;
      const uint64_t link = DirectionOf(w, v).link;
      if (link != 0) End(w, v, link, now_ + Random(kT / 4));
    }
  }
  // The end of a link as `to` sees it, behind what was sent before.
  void End(int from, int to, uint64_t link, int64_t when) {
    Direction& direction = DirectionOf(from, to);
    direction.last = std::max(direction.last, when);
    In(to, direction.last, [this, from, to, link] {
      if (DirectionOf(from, to).link != link) return;
      DirectionOf(from, to).link = 0;
      if (workers_[to].agreement == nullptr) return;
      ViewAgreement& agreement = *workers_[to].agreement;
      const bool member = agreement.running() && agreement.view().has(from);
      agreement.RemovePeer(from, now_);
      if (member) Fail(to);
      After(to);
    });
  }
  void Fail(int w) {
    if (workers_[w].failed) return;
    workers_[w].failed = true;
    In(w, now_ + Random(kT / 4), [this, w] {
      const uint32_t count = workers_[w].agreement->next_count();
      Stop(w);
      At(now_ + Random(kT / 20),
         [this, w, session = workers_[w].session, count] {
           if (workers_[w].session == session) Start(w, count, kT / 2);
         });
    });
  }
  bool Free(int w) const {
    return workers_[w].agreement != nullptr && !workers_[w].failed &&
           now_ >= workers_[w].paused_until;
  }
  bool Takes(int w, int v) const {
    const ViewAgreement& agreement = *workers_[w].agreement;
    return !agreement.running() || !agreement.view().has(v);
  }
  void Connect() {
    for (int a = 0; a < size_; ++a) {
      for (int b = a + 1; b < size_; ++b) {
        if (!Free(a) || !Free(b) || Parted(a, b) ||
            DirectionOf(a, b).link != 0 || DirectionOf(b, a).link != 0 ||
            !Takes(a, b) || !Takes(b, a)) {
          continue;
        }
        const bool rarely = workers_[b].agreement->running();
        if (Chance(rarely ? 10 : 2)) Join(a, b);
      }
    }
    if (now_ > last_fault_) {
      CheckEnd();
      together_ = violation_.empty() && AllLive() >= min_;
      violation_.clear();
    }
    At(now_ + kT / 20, [this] { Connect(); });
  }
  void Join(int a, int b) {
    const uint64_t link = ++next_link_;
    const uint32_t counts[] = {workers_[a].agreement->next_count(),
                               workers_[b].agreement->next_count()};
    DirectionOf(b, a) = {link, now_, false};
    DirectionOf(a, b) = {link, now_ + Random(kT / 50), false};
    workers_[a].agreement->AddPeer(b, counts[1], now_);
    const uint64_t session = workers_[b].session;
    In(b, DirectionOf(a, b).last,
       [this, a, b, link, session, count = counts[0]] {
         if (DirectionOf(a, b).link != link || workers_[b].session != session)
           return;
         if (!Takes(b, a)) return Break(a, b, /*silent=*/false);
         workers_[b].agreement->AddPeer(a, count, now_);
         After(b);
       });
    After(a);
  }
  void Break(int a, int b, bool silent) {
    for (int side = 0; side < 2; ++side) {
      const uint64_t link = DirectionOf(a, b).link;
      DirectionOf(a, b).lossy = DirectionOf(a, b).lossy || silent || Chance(2);
      if (link != 0) End(a, b, link, now_ + (silent ? kT : 0) + Random(kT / 4));
      std::swap(a, b);
    }
  }
  void After(int w) {
    Worker& worker = workers_[w];
    if (worker.agreement == nullptr) return;
    std::vector<ViewAgreement::Out> out;
    out.swap(worker.agreement->out);
    for (const ViewAgreement::Out& one : out) SendTo(w, one.to, one.frame);
    const View& view = worker.agreement->view();
    if (!worker.agreement->running()) return;
    if (worker.seen != view.generation) CheckView(w, view);
    worker.seen = view.generation;
    if (worker.agreement->departed_member() >= 0) Fail(w);
    if (!worker.agreement->has_joiner() || worker.joiner_seen) return;
    worker.joiner_seen = true;
    In(w, now_ + Random(kT / 2), [this, w] { Fail(w); });
  }
  void SendTo(int from, int to, const ViewFrame& frame) {
    Direction& direction = DirectionOf(from, to);
    const auto key =
        std::make_pair(frame.generation, workers_[from].incarnation);
    if (frame.message == ViewMessage::kPropose)
      acknowledged_[key] |= uint64_t{1} << from;
    if (frame.message == ViewMessage::kAck) CheckAck(from, to, frame);
    if (direction.lossy) return;
    direction.last =
        std::max(direction.last, now_ + 1 + Random(kT / (Chance(8) ? 4 : 100)));
    const uint64_t link = direction.link;
    const uint64_t incarnation = workers_[from].incarnation;
    In(to, direction.last, [this, from, to, link, frame, incarnation] {
      if (DirectionOf(from, to).link != link || link == 0 ||
          workers_[to].agreement == nullptr || workers_[to].failed) {
        return;
      }
      if (frame.message == ViewMessage::kStart)
        workers_[to].started_by = incarnation;
      workers_[to].agreement->OnFrame(from, frame, now_);
      After(to);
    });
  }

  void Fault() {
    const int a = static_cast<int>(Random(size_));
    const int b = static_cast<int>(Random(size_));
    const int64_t lasts = Random(3 * kT);
    switch (Random(4)) {
      case 0:
        if (workers_[a].down) return;
        ++workers_[a].incarnation;
        Stop(a);
        workers_[a].down = true;
        if (Chance(4)) return;  // permanently
        return At(now_ + lasts, [this, a] {
          if (workers_[a].down) Start(a, 1, 4 * kT);
        });
      case 1:
        if (a != b) Break(a, b, Chance(2));
        return;
      case 2:
        workers_[a].paused_until = now_ + Random(kT / 2);
        return;
      default:  // worker a and other workers no longer hear each other
        for (int v = 0; v < size_; ++v) {
          if (v == a || (b != a && Chance(2))) continue;
          cut_[a * size_ + v] = cut_[v * size_ + a] = true;
          Break(a, v, Chance(2));
        }
    }
  }
  int AllLive() const {
    return static_cast<int>(
        std::count_if(workers_.begin(), workers_.end(),
                      [](const Worker& worker) { return !worker.down; }));
  }
  void Heal() { std::fill(cut_.begin(), cut_.end(), false); }

  void CheckAck(int from, int to, const ViewFrame& frame) {
    acknowledged_[{frame.generation, workers_[to].incarnation}] |= uint64_t{1}
                                                                   << from;
    for (int w = 0; w < size_; ++w) {
      if (w != from && (frame.workers >> w & 1) != 0 &&
          DirectionOf(w, from).link == 0) {
        violation_ = "an ack of one that does not hear all";
      }
    }
  }
  void CheckView(int w, const View& view) {
    ++views_;
    const bool own = ViewProposer(view.generation) == w;
    const auto key =
        std::make_pair(view.generation,
                       own ? workers_[w].incarnation : workers_[w].started_by);
    if (!own && known_.count(key) == 0) {
      violation_ = "a view that its proposer has not started";
    }
    if (own && Members(view) > 1 && acknowledged_[key] != view.members) {
      violation_ = "a view that a member has not acknowledged";
    }
    const uint64_t first = known_.emplace(key, view.members).first->second;
    if (first != view.members) violation_ = "two views of one generation";
    if (!view.has(w)) violation_ = "a view without this worker";
    if (Members(view) < min_) violation_ = "too small a view";
  }
  void CheckEnd() {
    uint64_t live = 0;
    int count = 0;
    for (int w = 0; w < size_; ++w) {
      if (workers_[w].down) continue;
      live |= uint64_t{1} << w;
      ++count;
    }
    if (count < min_) return;
    uint32_t generation = 0;
    for (int w = 0; w < size_; ++w) {
      if (workers_[w].down) continue;
      const ViewAgreement* agreement = workers_[w].agreement.get();
      if (agreement == nullptr || !agreement->running() ||
          agreement->view().members != live ||
          (generation != 0 && agreement->view().generation != generation)) {
        violation_ = "worker " + std::to_string(w) +
                     " is not in one view with all that live";
        return;
      }
      generation = agreement->view().generation;
    }
  }

  std::mt19937_64 random_;
  int size_;
  int min_;
  int64_t now_ = 0;
  int64_t last_fault_;
  uint64_t order_ = 0;
  uint64_t next_link_ = 0;
  int views_ = 0;
  std::priority_queue<Event> events_;
  std::vector<Worker> workers_;
  std::vector<Direction> links_;
  std::vector<char> cut_;
  // By generation, and incarnation of its proposer.
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> known_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> acknowledged_;
  bool together_ = false;
  std::string violation_;
};

TEST(ViewAgreementTest, Agreement_EverySeed_HasNoViolation) {
  RandomCases cases("RINGLET_VIEW");
  int views = 0;
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    RandomNetwork network(cases.number());
    ASSERT_EQ(network.Run(), "");
    views += network.views();
  }
  std::printf("%d views\n", views);
}

}  // namespace
}  // namespace ringlet
