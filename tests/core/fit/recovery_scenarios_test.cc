// Scenarios of recovery: fits of workers that are threads. Some workers are
// lost, are cut off or compute wrong numbers at given steps. Each scenario is a
// table of events (when, which worker, what happens), and of the ends of the
// workers. A worker that ends without an error has the bits of the undisturbed
// run.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/one_bit_job.h"
#include "../../support/random_cases.h"
#include "../../support/threads.h"

namespace ringlet {
namespace {

// --- the tables -----------------------------------------------------------

// The events of a worker. `n` is Event::n. Part 0 has all workers that are not
// cut off.
enum class What : uint8_t {
  kBreaks,            // the worker's machine begins to compute wrong numbers
  kIsMended,          // the worker's machine computes right numbers again
  kIsLost,            // the process ends after n more collective calls
  kIsLostInCheck,     // the process ends in its next replica check
  kIsLostInTransfer,  // the process ends in its next broadcast of a state
  kIsLostInView,      // the process ends in call n after each view has formed
  kMissesCheck,       // only the other members get the next check's result
  kIsCutOff,          // the worker leaves its part, and reaches only part n
  kIsCutOffInCheck,   // the same, when the next replica check begins
  kReturns,           // the worker waits for signal n, and moves to part 0
  kMeets,             // the worker gives signal n, and waits for its joiners
  kIsInReach,         // part 0 waits for the worker, which gives signal n
  kWaits,             // the worker waits for signal n
  kSignals,           // the worker gives signal n
  kPasses,            // no event the first time that the worker makes the step
  kStarts,            // a process of the worker starts in part 0 at signal n
  kRestarts,          // a process starts immediately in part 0; gives signal n
};

// When an event happens: before this step of the worker, or at one of the
// following times.
using When = int64_t;
constexpr When kStart = 0;  // the start of the process
// When the fit returns for the first or second time, after a loss or at its
// end.
constexpr When kFirstReturn = -1, kSecondReturn = -2;

struct Event {
  When when;
  int worker;
  What what;
  int n = 0;  // a number of calls, a part or a signal: see What
};

// How a worker's last process ends.
enum class End : uint8_t {
  kRight,    // the bits of the undisturbed run
  kStops,    // a check failed, or histories differ
  kLost,     // the process was ended
  kNoState,  // no member has a valid state
};
constexpr End kRight = End::kRight, kStops = End::kStops, kLost = End::kLost,
              kNoState = End::kNoState;

// The code of the status that such a process returns.
Code CodeOf(End end) {
  switch (end) {
    case End::kRight:
      return Code::kOk;
    case End::kStops:
      return Code::kOutOfSync;
    case End::kLost:
      return Code::kInternal;  // ElasticCollective's error
    case End::kNoState:
      return Code::kCancelled;
  }
  return Code::kUnimplemented;
}

// The step from which a worker continues. After `worker` has made the step
// `after` for the first time, the smallest step that it makes is `step`, or the
// next step, since the members may form a view a step later.
struct ContinuesFrom {
  int worker = -1;  // -1: not checked
  int64_t after = 0;
  int64_t step = 0;

  bool IsRight(int64_t from) const { return from == step || from == step + 1; }
};
// A worker starts in part 0, unless its first event is kStarts. The events of a
// worker happen in their order; kStarts and kRestarts begin a process.
struct Scenario {
  std::vector<Event> events;
  std::vector<End> ends;  // one for each worker
  ContinuesFrom continues_from = {};
  int64_t save_freq = kNeverSave;
  bool checks = true;
  int wrong_bit = 24;
};

// --- the driver -----------------------------------------------------------

class ScenarioRunner {
 public:
  explicit ScenarioRunner(const Scenario& scenario)
      : scenario_(scenario), runs_(workers()) {}

  void Run() {
    for (int w = 0; w < workers(); ++w) {
      const std::vector<Event> mine = EventsOf(w);
      if (mine.empty() || mine[0].what != What::kStarts) parts_[0].Arrive(w);
    }
    // The workers that are cut off to one part wait there for each other.
    for (const Event& e : scenario_.events) {
      const bool leaves =
          e.what == What::kIsCutOff || e.what == What::kIsCutOffInCheck;
      if (leaves) parts_[e.n].Arrive(e.worker);
    }
    RunThreads(workers(), [&](int w) { RunWorker(w); });
    for (int w = 0; w < workers(); ++w) ExpectEndOf(w);
    const ContinuesFrom& expected = scenario_.continues_from;
    if (expected.worker < 0) return;
    EXPECT_TRUE(expected.IsRight(continued_from_)) << continued_from_;
  }

 private:
  static constexpr int kMax = 5;  // workers, parts, signals

  int workers() const { return static_cast<int>(scenario_.ends.size()); }
  std::vector<Event> EventsOf(int w) const {
    std::vector<Event> mine;
    for (const Event& e : scenario_.events) {
      if (e.worker == w) mine.push_back(e);
    }
    return mine;
  }

  // Runs all processes of a worker, one after another.
  void RunWorker(int w) {
    const std::vector<Event> mine = EventsOf(w);
    const auto begins_process = [](const Event& e) {
      return e.what == What::kStarts || e.what == What::kRestarts;
    };
    for (auto at = mine.begin(), end = at;; at = end) {
      if (at != mine.end() && begins_process(*at)) DoEvent(nullptr, *at++);
      end = std::find_if(at, mine.end(), begins_process);
      runs_[static_cast<size_t>(w)] = RunProcess(w, {at, end});
      if (end == mine.end()) break;
      ExpectEnd(runs_, w, CodeOf(kLost));
    }
    // No other worker waits for this one.
    ended_[w] = true;
    for (const Event& e : mine) {
      if (GivesSignal(e.what)) signals_[e.n] = true;
    }
  }
  Trained RunProcess(int w, const std::vector<Event>& events) {
    ElasticCollective collective(&parts_[0], w);
    WorkerScript script(w, &collective);
    script.layer = std::make_shared<OneBitLayer>(scenario_.wrong_bit);
    script.settings.save_freq = scenario_.save_freq;
    script.settings.cross_check = scenario_.checks;
    const auto do_events = [&](When when) {
      for (const Event& e : events) {
        if (e.when == when) DoEvent(&script, e);
      }
    };
    do_events(kStart);
    for (const Event& e : events) {
      if (e.when <= kStart) continue;
      if (e.what == What::kPasses) {
        script.Passes(e.when);
      } else {
        script.At(e.when, [this, &script, e] { DoEvent(&script, e); });
      }
    }
    script.returned = [&](int times) { do_events(-times); };
    bool counts = false;
    script.before_step = [&](int64_t step) {
      if (w != scenario_.continues_from.worker) return;
      if (counts) continued_from_ = std::min(continued_from_, step);
      counts |= step >= scenario_.continues_from.after;
    };
    return script.Run();
  }

  static bool GivesSignal(What what) {
    return what == What::kMeets || what == What::kIsInReach ||
           what == What::kSignals || what == What::kRestarts;
  }
  void DoEvent(WorkerScript* script, const Event& e) {
    ElasticCollective* const collective = script ? script->collective : nullptr;
    const bool arrives = e.what == What::kIsInReach ||
                         e.what == What::kStarts || e.what == What::kRestarts;
    if (e.what == What::kWaits || e.what == What::kStarts ||
        e.what == What::kReturns) {
      Await(signals_[e.n]);
    }
    if (arrives) parts_[0].Arrive(e.worker);
    if (GivesSignal(e.what) && e.what != What::kMeets) {
      signals_[e.n] = true;
    }
    switch (e.what) {
      case What::kBreaks:
        return script->layer->Break();
      case What::kIsMended:
        return script->layer->Mend();
      case What::kIsLost:
        return collective->EndInNextCall(e.n);
      case What::kIsLostInCheck:
        return collective->EndInGather(kCheckBytes);
      case What::kIsLostInTransfer:
        return collective->EndInBroadcast(1);
      case What::kIsLostInView:
        return collective->EndAfterReform(e.n);
      case What::kMissesCheck:
        return collective->LoseGather(kCheckBytes);
      case What::kIsCutOff:
        return collective->MoveTo(&parts_[e.n]);
      case What::kIsCutOffInCheck:
        return collective->MoveInGather(kCheckBytes, &parts_[e.n]);
      case What::kReturns:
        return collective->MoveTo(&parts_[0]);
      case What::kMeets:
        return Receive(e.n);
      default:
        return;
    }
  }
  // Lets all workers of the signal join the next view of part 0, and waits
  // until one of them does, or all have ended.
  void Receive(int signal) {
    std::vector<int> joiners;
    for (const Event& e : scenario_.events) {
      const bool joins = e.what == What::kReturns || e.what == What::kStarts;
      if (joins && e.n == signal) joiners.push_back(e.worker);
    }
    for (const int w : joiners) parts_[0].Arrive(w);
    signals_[signal] = true;
    const auto ended = [this](int w) { return ended_[w].load(); };
    while (!parts_[0].has_joiner() &&
           !std::all_of(joiners.begin(), joiners.end(), ended)) {
      std::this_thread::yield();
    }
  }

  void ExpectEndOf(int w) const {
    SCOPED_TRACE("worker " + std::to_string(w));
    const End end = scenario_.ends[static_cast<size_t>(w)];
    ExpectEnd(runs_, w, CodeOf(end));
    if (end == kRight) ExpectRight(runs_, {w});
    // A faulty worker that is alone saves a state that no other worker has
    // verified.
    const std::vector<Event> mine = EventsOf(w);
    const bool breaks =
        std::any_of(mine.begin(), mine.end(),
                    [](const Event& e) { return e.what == What::kBreaks; });
    if (!breaks) ExpectSavedIsRight(runs_[static_cast<size_t>(w)], {});
  }

  const Scenario scenario_;
  ElasticJob parts_[kMax];
  std::atomic<bool> signals_[kMax] = {}, ended_[kMax] = {};
  std::vector<Trained> runs_;
  int64_t continued_from_ = INT64_MAX;
};

void RunScenario(const Scenario& scenario) { ScenarioRunner(scenario).Run(); }

using W = What;

// A row of the tables: {when, worker, what, n}. Then come the ends of workers
// 0, 1 and so on, and where a worker continues.

// --- a loss ---------------------------------------------------------------

// A save is written after a passed check, so it is a verified point.
TEST(RecoveryScenariosTest, Member_LostInStep_OthersRollBackToVerifiedPoint) {
  const std::vector<Event> lost = {{150, 2, W::kIsLost}};
  const std::vector<End> ends = {kRight, kRight, kLost};
  RunScenario(
      {lost, ends, ContinuesFrom{/*worker=*/0, /*after=*/150, /*step=*/110}});
  RunScenario({lost, ends,
               ContinuesFrom{/*worker=*/0, /*after=*/150, /*step=*/140},
               /*save_freq=*/20});
  RunScenario({{{120, 2, W::kBreaks}, lost[0]},
               ends,
               ContinuesFrom{/*worker=*/0, /*after=*/150, /*step=*/110}});
}

// The contributions of the earlier process count as a lost worker's.
TEST(RecoveryScenariosTest,
     FaultyWorker_RestartsWithSameNumber_OthersRollBack) {
  for (const bool still_faulty : {false, true}) {
    Scenario scenario = {
        {{kFirstReturn, 0, W::kWaits, 0},
         {kFirstReturn, 1, W::kWaits, 0},
         {120, 2, W::kBreaks},
         {150, 2, W::kIsLost},
         {kStart, 2, W::kRestarts, 0}},
        {kRight, kRight, still_faulty ? kStops : kRight},
        ContinuesFrom{/*worker=*/0, /*after=*/150, /*step=*/110}};
    if (still_faulty) scenario.events.push_back({kStart, 2, W::kBreaks});
    RunScenario(scenario);
  }
}

// The faulty worker is lost in each call of the view up to its check. Worker 3
// may have received its contributions, which no check has verified.
TEST(RecoveryScenariosTest, FaultyWorker_LostAsJoinersViewForms_AllRollBack) {
  for (int call = 1; call <= 10; ++call) {
    if (!RunsCase(call)) continue;
    SCOPED_TRACE(call);
    RunScenario({{{150, 0, W::kMeets, 0},
                  {120, 2, W::kBreaks},
                  {150, 2, W::kIsLostInView, call},
                  {kStart, 3, W::kStarts, 0}},
                 {kRight, kRight, kLost, kRight},
                 ContinuesFrom{/*worker=*/0, /*after=*/150, /*step=*/110}});
  }
}

// A huge gradient makes the scales of exact sums coarser. The other workers
// stay at the step boundary, and make the step again with the scales of that
// boundary.
TEST(RecoveryScenariosTest,
     FaultyWorker_LostAfterHugeGradient_ScalesAreRestored) {
  for (const bool checks : {false, true}) {
    // A step has 19 calls. Without the check a complete step stays.
    for (int call = 0; call < (checks ? 25 : 19); ++call) {
      if (!RunsCase(call)) continue;
      SCOPED_TRACE(call);
      Scenario scenario = {{{200, 2, W::kBreaks}, {200, 2, W::kIsLost, call}},
                           {kRight, kRight, kLost}};
      scenario.checks = checks;
      scenario.wrong_bit = 30;
      RunScenario(scenario);
    }
  }
}

// --- a check --------------------------------------------------------------

TEST(RecoveryScenariosTest, FaultyRank_FoundOrLostInCheck_OthersRollBack) {
  const Event breaks = {170, 2, W::kBreaks};
  RunScenario({{breaks},
               {kRight, kRight, kStops},
               ContinuesFrom{/*worker=*/0, /*after=*/199, /*step=*/165}});
  RunScenario({{breaks, {199, 2, W::kIsLostInCheck}},
               {kRight, kRight, kLost},
               ContinuesFrom{/*worker=*/0, /*after=*/199, /*step=*/165}});
}

TEST(RecoveryScenariosTest, CheckResult_MissedByOneRank_OthersRollBack) {
  for (const int misses : {0, 1, 2}) {
    SCOPED_TRACE(misses);
    RunScenario({{{170, 2, W::kBreaks}, {199, misses, W::kMissesCheck}},
                 {kRight, kRight, kStops}});
  }
}

TEST(RecoveryScenariosTest,
     CheckResult_WithoutMajorityMissedByOneRank_AllStop) {
  for (const int misses : {0, 1}) {
    SCOPED_TRACE(misses);
    RunScenario({{{170, 1, W::kBreaks}, {199, misses, W::kMissesCheck}},
                 {kStops, kStops}});
  }
}

// A failed check makes no verified point. Worker 2 is cut off after it, and
// makes the steps again alone.
TEST(RecoveryScenariosTest, FailedCheck_ThenWorkerCutOff_IsNoConflict) {
  RunScenario({{{230, 0, W::kMeets, 0},
                {kFirstReturn, 2, W::kIsCutOff, 1},
                {250, 2, W::kReturns, 0},
                {170, 3, W::kBreaks}},
               {kRight, kRight, kRight, kStops}});
}

// The check that begins the view finds the faulty rank before its first step.
TEST(RecoveryScenariosTest, FaultyJoiner_FoundByFirstCheck_CostsNoSteps) {
  RunScenario({{{230, 1, W::kMeets, 0},
                {150, 3, W::kIsLost},
                {kStart, 3, W::kStarts, 0},
                {kStart, 3, W::kBreaks},
                {kStart, 4, W::kStarts, 0}},
               {kRight, kRight, kRight, kStops, kRight},
               ContinuesFrom{/*worker=*/1, /*after=*/230, /*step=*/230}});
}

// --- a transfer -----------------------------------------------------------

// The donor is lost in each call of the view. Worker 0 has made steps alone.
// Its state is invalid from the transfer's first byte on.
TEST(RecoveryScenariosTest, Donor_LostAsViewForms_OthersRollBack) {
  for (const bool alone : {false, true}) {
    for (int call = 1; call <= 12; ++call) {
      if (!RunsCase(call)) continue;
      SCOPED_TRACE(call);
      Scenario scenario = {{{120, 0, W::kIsCutOff, 1},
                            {160, 0, W::kReturns, 0},
                            {230, 1, W::kMeets, 0},
                            {230, 1, W::kIsLostInView, call}},
                           {kRight, kLost}};
      if (!alone) scenario.ends.push_back(kRight);
      RunScenario(scenario);
    }
  }
}

TEST(RecoveryScenariosTest, Donor_LostInTransferToJoiner_JoinerHasNoState) {
  RunScenario({{{150, 0, W::kMeets, 0},
                {150, 0, W::kIsLostInTransfer},
                {kStart, 1, W::kStarts, 0}},
               {kLost, kNoState}});
}

// The check that begins the view is the joiner's verified point.
TEST(RecoveryScenariosTest,
     Donor_LostAfterTransfer_JoinerRollsBackToFirstCheck) {
  RunScenario({{{150, 0, W::kMeets, 0},
                {160, 0, W::kIsLost},
                {kStart, 1, W::kStarts, 0}},
               {kLost, kRight},
               ContinuesFrom{/*worker=*/1, /*after=*/160, /*step=*/150}});
}

TEST(RecoveryScenariosTest, Joiner_LostBeforeItsFirstStep_CostsNoSteps) {
  for (const Event& lost : {Event{kStart, 0, W::kIsLostInCheck},
                            Event{kStart, 0, W::kIsLostInTransfer}}) {
    for (const bool alone : {false, true}) {
      SCOPED_TRACE(alone);
      Scenario scenario = {
          {{5, 0, W::kIsLost},
           {kStart, 0, W::kStarts, 0},
           lost,
           {320, 1, W::kMeets, 0}},
          {kLost, kRight},
          ContinuesFrom{/*worker=*/1, /*after=*/320, /*step=*/320}};
      if (!alone) scenario.ends.push_back(kRight);
      RunScenario(scenario);
    }
  }
}

// --- parts ----------------------------------------------------------------

// Worker 0 has the faulty rank's contributions as it is cut off.
TEST(RecoveryScenariosTest, CutOffWorker_ReturnsAfterFailedCheck_AllAreRight) {
  RunScenario({{{150, 0, W::kIsCutOff, 1},
                {250, 0, W::kReturns, 0},
                {230, 1, W::kMeets, 0},
                {120, 3, W::kBreaks}},
               {kRight, kRight, kRight, kStops}});
}

// The other workers have rolled back for worker 0, and make these steps a
// second time.
TEST(RecoveryScenariosTest, CutOffWorker_HasMoreStepsThanOthers_IsDonor) {
  RunScenario({{{150, 0, W::kIsCutOff, 1},
                {190, 0, W::kReturns, 0},
                {130, 1, W::kPasses},
                {130, 1, W::kMeets, 0},
                {120, 3, W::kBreaks}},
               {kRight, kRight, kRight, kStops},
               ContinuesFrom{/*worker=*/0, /*after=*/190, /*step=*/190}});
}

// The other workers lose the check at step 200, and worker 0 returns. The
// faulty worker is found, or lost before that.
TEST(RecoveryScenariosTest, CutOffWorker_ReturnsAfterLostCheck_AllAreRight) {
  for (int call = 0; call <= 10; ++call) {
    SCOPED_TRACE(call);
    Scenario scenario = {{{150, 0, W::kIsCutOff, 1},
                          {155, 0, W::kReturns, 1},
                          {kSecondReturn, 0, W::kIsInReach, 0},
                          {199, 1, W::kSignals, 1},
                          {kSecondReturn, 1, W::kWaits, 0},
                          {kSecondReturn, 2, W::kWaits, 0},
                          {kSecondReturn, 3, W::kWaits, 0},
                          {170, 3, W::kBreaks},
                          {199, 1, W::kIsCutOffInCheck, 0}},
                         {kRight, kRight, kRight, call == 0 ? kStops : kLost}};
    if (call > 0) scenario.events.push_back({199, 3, W::kIsLostInView, call});
    RunScenario(scenario);
  }
}

// A worker alone verifies nothing, so its state has fewer verified steps than
// the states of the other workers. These have passed the check at step 200, or
// not yet.
TEST(RecoveryScenariosTest, CutOffWorker_WrongWhileAlone_TakesOthersState) {
  for (const Event& cut :
       {Event{120, 3, W::kIsCutOff, 1}, Event{99, 3, W::kIsCutOffInCheck, 1}}) {
    for (const int64_t step : {190, 210}) {
      RunScenario({{{step, 0, W::kMeets, 0},
                    cut,
                    {120, 3, W::kBreaks},
                    {215, 3, W::kIsMended},
                    {215, 3, W::kReturns, 0}},
                   {kRight, kRight, kRight, kRight},
                   ContinuesFrom{/*worker=*/0, /*after=*/step, /*step=*/step}});
    }
  }
}

// Worker 4 is cut off together with worker 3, which computes wrong there.
TEST(RecoveryScenariosTest, CutOffWorker_WasWithFaultyOne_TakesOthersState) {
  RunScenario({{{230, 1, W::kMeets, 0},
                {240, 1, W::kMeets, 1},
                {200, 3, W::kIsCutOff, 1},
                {205, 3, W::kBreaks},
                {215, 3, W::kReturns, 0},
                {200, 4, W::kIsCutOff, 1},
                {290, 4, W::kReturns, 1}},
               {kRight, kRight, kRight, kStops, kRight},
               ContinuesFrom{/*worker=*/1, /*after=*/230, /*step=*/230}});
}

// Two machines computed the same wrong numbers, and verified each other.
TEST(RecoveryScenariosTest, Parts_VerifiedOtherPointsOfOneStep_AllStop) {
  Scenario scenario = {{{230, 0, W::kMeets, 0}},
                       {kStops, kStops, kStops, kStops}};
  for (const int w : {2, 3}) {
    scenario.events.push_back({120, w, W::kBreaks});
    scenario.events.push_back({120, w, W::kIsCutOff, 1});
    scenario.events.push_back({230, w, W::kIsMended});
    scenario.events.push_back({230, w, W::kReturns, 0});
  }
  RunScenario(scenario);
}

}  // namespace
}  // namespace ringlet
