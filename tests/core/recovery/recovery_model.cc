#include "recovery_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "core/base/fnv1a.h"
#include "core/model/majority_vote.h"
#include "core/recovery/donor.h"
#include "core/recovery/recovery_state.h"

namespace ringlet {
namespace {

constexpr int kMaxWorkers = 4;
using Mask = uint64_t;

Mask BitOf(int worker) { return Mask{1} << worker; }

struct Worker {
  bool alive = true;
  RecoveryState state{/*verifies=*/true};
  bool wrong = false;        // the state has wrong bits
  bool wrong_point = false;  // the verified point has wrong bits
  bool has_trained = false;
  bool checked = false;  // the members need no check before the next step
  Mask view = 0;         // the members of its last view
  int incarnation = 1;
  std::array<int, kMaxWorkers> met = {};
};

struct JobState {
  std::array<Worker, kMaxWorkers> workers;
  Mask part = 0;  // the workers on one side of the network
  int crashes = 0, partitions = 0, restarts = 0;
  bool computes_wrong = false, was_wrong = false;

  uint64_t Hash(int count) const {
    Fnv1a hash;
    const auto add = [&](int64_t number) { hash.Add(&number, sizeof(number)); };
    const auto add_progress = [&](const StateProgress& progress) {
      add(progress.verified_step);
      add(progress.step);
      add(static_cast<int64_t>(progress.contributors));
    };
    for (int w = 0; w < count; ++w) {
      const Worker& worker = workers[static_cast<size_t>(w)];
      add(worker.alive);
      if (!worker.alive) {
        add(worker.incarnation);
        continue;
      }
      add(static_cast<int64_t>(worker.state.validity()));
      add_progress(worker.state.progress());
      add(worker.state.has_point());
      add_progress(worker.state.point());
      add(worker.wrong);
      add(worker.wrong_point);
      add(worker.has_trained);
      add(worker.checked);
      add(static_cast<int64_t>(worker.view));
      add(worker.incarnation);
      for (int k = 0; k < count; ++k) add(worker.met[static_cast<size_t>(k)]);
    }
    add(static_cast<int64_t>(part));
    add(crashes);
    add(partitions);
    add(restarts);
    add(computes_wrong);
    add(was_wrong);
    return hash.value();
  }
};

class Search {
 public:
  explicit Search(const Space& space) : space_(space) {}

  Visit Run() {
    JobState start;
    start.crashes = space_.crashes;
    start.partitions = space_.partitions;
    start.restarts = space_.restarts;
    start.part = All();
    for (int w = space_.workers; w < kMaxWorkers; ++w)
      At(&start, w).alive = false;
    Reach(start);
    const bool stops = space_.mistake != Mistake::kNone;
    while (!todo_.empty() && !(stops && visit_.wrong > 0)) {
      const JobState job = todo_.back();
      todo_.pop_back();
      Expand(job);
    }
    return visit_;
  }

 private:
  static Worker& At(JobState* job, int w) {
    return job->workers[static_cast<size_t>(w)];
  }
  static const Worker& At(const JobState& job, int w) {
    return job.workers[static_cast<size_t>(w)];
  }
  Mask All() const { return BitOf(space_.workers) - 1; }
  std::vector<int> MembersOf(Mask mask) const {
    std::vector<int> members;
    for (int w = 0; w < space_.workers; ++w) {
      if ((mask & BitOf(w)) != 0) members.push_back(w);
    }
    return members;
  }

  void Wrong(const char* what) {
    if (visit_.wrong++ == 0) visit_.first_wrong = what;
  }

  // Visits a state once. These properties hold in every state:
  void Reach(const JobState& job) {
    if (!seen_.insert(job.Hash(space_.workers)).second) return;
    ++visit_.states;
    for (int w = 0; w < space_.workers; ++w) {
      const Worker& worker = At(job, w);
      if (!worker.alive) continue;
      const bool counts =
          (worker.state.progress().contributors & BitOf(space_.faulty)) != 0;
      if (worker.state.has_point() && worker.wrong_point) {
        Wrong("a verified point has a wrong contribution");
      }
      if (worker.state.valid() && worker.wrong && !counts) {
        Wrong("a state has a wrong contribution and not its contributor");
      }
    }
    todo_.push_back(job);
  }

  void Expand(const JobState& job) {
    if (!job.was_wrong) {
      JobState next = job;
      next.computes_wrong = next.was_wrong = true;
      Reach(next);
    }
    for (int w = 0; w < space_.workers; ++w) {
      if (At(job, w).alive && job.crashes > 0) Reach(Crashed(job, w));
      if (!At(job, w).alive && job.restarts > 0) Restart(job, w);
    }
    if (job.partitions > 0) {
      for (Mask part = 1; part <= All(); part += 2) {
        if (part == job.part) continue;
        JobState next = job;
        next.part = part;
        --next.partitions;
        Reach(next);
      }
    }
    for (const Mask side : {job.part, All() & ~job.part}) {
      Mask group = 0;
      for (const int w : MembersOf(side)) {
        if (At(job, w).alive) group |= BitOf(w);
      }
      if (group != 0) Advance(job, group);
    }
  }

  static JobState Crashed(const JobState& job, int w) {
    JobState next = job;
    --next.crashes;
    At(&next, w).alive = false;
    return next;
  }

  // A machine that computes wrong may have been repaired meanwhile.
  void Restart(const JobState& job, int w) {
    JobState next = job;
    --next.restarts;
    const int incarnation = At(job, w).incarnation + 1;
    At(&next, w) = Worker();
    At(&next, w).incarnation = incarnation;
    Reach(next);
    if (w != space_.faulty || !next.computes_wrong) return;
    next.computes_wrong = false;
    Reach(next);
  }

  // Applies the next events of a group of workers that reach each other.
  void Advance(const JobState& job, Mask group) {
    const std::vector<int> members = MembersOf(group);
    const bool forms = std::any_of(members.begin(), members.end(), [&](int w) {
      return At(job, w).view != group || !At(job, w).state.valid();
    });
    if (forms) return FormView(job, group);
    if (!At(job, members[0]).checked) return Check(job, members);
    if (At(job, members[0]).state.progress().step < space_.steps) {
      return Step(job, members);
    }
    End(job, members);
  }

  // `apply` makes `next` of `job` for the members in `done`. All members
  // complete the event; or one crashes, and any subset of the other members has
  // completed it.
  template <typename Apply>
  void Branch(const JobState& job, const std::vector<int>& members,
              Apply apply) {
    JobState next = job;
    apply(&next, members);
    Reach(next);
    if (job.crashes == 0) return;
    for (const int lost : members) {
      const Mask others = MaskOf(members) & ~BitOf(lost);
      for (Mask done = others;; done = (done - 1) & others) {
        JobState cut = job;
        apply(&cut, MembersOf(done));
        if (At(cut, lost).alive) Reach(Crashed(cut, lost));
        if (done == 0) break;
      }
    }
  }

  static Mask MaskOf(const std::vector<int>& members) {
    Mask mask = 0;
    for (const int w : members) mask |= BitOf(w);
    return mask;
  }

  StateSummary Summarize(const Worker& worker) const {
    StateSummary summary;
    summary.has_trained = worker.has_trained;
    summary.valid = worker.state.valid();
    summary.progress = worker.state.progress();
    summary.digest = ComputeDigest(summary.progress.step, worker.wrong);
    if (!worker.state.has_point()) return summary;
    summary.point_step = worker.state.point().step;
    summary.point_digest =
        ComputeDigest(summary.point_step, worker.wrong_point);
    return summary;
  }
  static int64_t ComputeDigest(int64_t step, bool wrong) {
    return 2 * step + (wrong ? 1 : 0);
  }

  void EnterView(JobState* job, Mask group, int w) const {
    Worker& worker = At(job, w);
    Mask staying = 0;
    for (int k = 0; k < space_.workers; ++k) {
      const bool member = (group & BitOf(k)) != 0;
      int& met = worker.met[static_cast<size_t>(k)];
      const int incarnation = member ? At(*job, k).incarnation : 0;
      const bool same = space_.mistake == Mistake::kSameNumber
                            ? member
                            : incarnation == met && member;
      if (same) staying |= BitOf(k);
      met = incarnation;
    }
    if (space_.mistake == Mistake::kNoRollback) staying = All();
    Mask seen = group;
    if (space_.mistake == Mistake::kVerifiesAlone) seen |= BitOf(kMaxWorkers);
    if (worker.state.EnterView(seen, staying) == OnViewAction::kRollBack) {
      worker.wrong = worker.wrong_point;
    }
    worker.view = 0;
    worker.checked = false;
  }

  void FormView(const JobState& before, Mask group) {
    JobState job = before;
    const std::vector<int> members = MembersOf(group);
    std::vector<StateSummary> all;
    if (space_.mistake == Mistake::kLateRollback) {
      for (const int w : members) all.push_back(Summarize(At(job, w)));
    }
    for (const int w : members) EnterView(&job, group, w);
    if (all.empty()) {
      for (const int w : members) all.push_back(Summarize(At(job, w)));
    }
    int first, second;
    if (FindConflict(all, &first, &second)) return Stop();
    const int donor = ChooseDonor(all);
    if (donor < 0) return StartOrStop(job, members, group);
    Transfer(job, group, members, all, donor);
  }

  void StartOrStop(JobState job, const std::vector<int>& members, Mask group) {
    for (const int w : members) {
      if (At(job, w).has_trained) return Stop();
    }
    for (const int w : members) {
      Worker& worker = At(&job, w);
      worker.state.Start(0);
      worker.wrong = false;
      worker.has_trained = true;
      worker.view = group;
    }
    Reach(job);
  }

  void Transfer(const JobState& job, Mask group,
                const std::vector<int>& members,
                const std::vector<StateSummary>& all, int donor) {
    const StateSummary& given = all[static_cast<size_t>(donor)];
    const bool wrong = (given.digest & 1) != 0;
    Branch(job, members, [&](JobState* next, const std::vector<int>& done) {
      for (size_t r = 0; r < members.size(); ++r) {
        const int w = members[r];
        Worker& worker = At(next, w);
        worker.has_trained = true;
        if (!HoldsStateOf(given, all[r])) worker.state.BeginChange();
        if (std::find(done.begin(), done.end(), w) == done.end()) continue;
        StateProgress progress = given.progress;
        if (space_.mistake == Mistake::kForgetsInTransfer &&
            static_cast<int>(r) != donor) {
          progress.contributors = 0;
        }
        worker.state.EndTransfer(progress);
        worker.wrong = wrong;
        worker.view = group;
        worker.checked = space_.mistake == Mistake::kNoFirstCheck;
      }
    });
  }

  void Check(const JobState& job, const std::vector<int>& members) {
    std::vector<CheckDigests> all;
    for (const int w : members) {
      const Worker& worker = At(job, w);
      const bool computes_wrong = w == space_.faulty && job.computes_wrong;
      all.push_back({ComputeDigest(worker.state.progress().step, worker.wrong),
                     computes_wrong ? 1 : 0});
    }
    const Vote vote = CountVotes(all);
    Branch(job, members, [&](JobState* next, const std::vector<int>& done) {
      for (const int w : done) {
        Worker& worker = At(next, w);
        const auto rank =
            std::find(members.begin(), members.end(), w) - members.begin();
        if (vote.faulty.empty()) {
          if (worker.state.PassCheck()) worker.wrong_point = worker.wrong;
          worker.checked = true;
        } else if (std::count(vote.faulty.begin(), vote.faulty.end(), rank)) {
          worker.alive = false;  // the worker ends with exit code 3
        }
      }
    });
  }

  void Step(const JobState& job, const std::vector<int>& members) {
    const bool wrong =
        job.computes_wrong && (MaskOf(members) & BitOf(space_.faulty)) != 0;
    Branch(job, members, [&](JobState* next, const std::vector<int>& done) {
      for (const int w : done) {
        Worker& worker = At(next, w);
        const int64_t step = worker.state.progress().step + 1;
        worker.state.BeginChange();
        worker.state.ReachBoundary(step);
        worker.wrong |= wrong;
        worker.checked = step % space_.check_every != 0;
      }
    });
  }

  void End(const JobState& job, const std::vector<int>& members) {
    if (!At(job, members[0]).wrong) {
      ++visit_.right_ends;
    } else if (members.size() == 1 && members[0] == space_.faulty) {
      ++visit_.faulty_alone;
    } else {
      Wrong("a job ends with a wrong contribution and exit code 0");
    }
  }

  void Stop() { ++visit_.stopped; }

  const Space space_;
  std::vector<JobState> todo_;
  std::unordered_set<uint64_t> seen_;
  Visit visit_;
};

}  // namespace

Visit VisitAll(const Space& space) { return Search(space).Run(); }

}  // namespace ringlet
