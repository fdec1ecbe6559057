// Scenes of recovery: fits of workers that are threads, of which some are lost,
// cut off or compute wrong at given steps. Each scene is a table: before which
// step, which worker, what happens; and how each worker ends. A worker that
// ends without an error has the bits of the undisturbed run.

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

namespace ringlet {
namespace {

// --- the tables -----------------------------------------------------------

// The events of a worker. `n` is the row's number.
enum class What : uint8_t {
  kBreaks,            // its machine computes wrong
  kIsMended,          // its machine computes right again
  kIsLost,            // its process ends in its next collective call but n
  kIsLostInCheck,     // its process ends in its next replica check
  kIsLostInTransfer,  // its process ends in its next broadcast of a state
  kIsLostInView,      // its process ends in call n after each view has formed
  kMissesCheck,       // the next check's result reaches the other members alone
  kIsCutOff,          // it is cut off from its part, and reaches part n
  kIsCutOffInCheck,   // the same as the next replica check begins
  kReturns,           // at signal n it is cut off, and reaches part 0 again
  kReceives,          // it gives signal n, and waits for that signal's workers
  kIsInReach,         // part 0 waits for it; gives signal n
  kWaits,             // it waits for signal n
  kSignals,           // it gives signal n
  kPasses,            // it does nothing, the first time that it makes the step
  kStarts,            // at signal n a process of this worker starts, in part 0
  kRestarts,          // a process starts immediately, in part 0; gives signal n
};

// Before which step of the worker. 0: as its process starts. -1, -2, …: as its
// fit returns for the first time, the second, … by a loss or at its end.
using When = int64_t;

struct Event {
  When when;
  int worker;
  What what;
  int n = 0;
};

// How a worker's last process ends.
constexpr Code kRight = Code::kOk,  // with the bits of the undisturbed run
    kStops = Code::kOutOfSync,      // a check failed, or histories differ
    kLost = Code::kInternal,        // the process was ended
    kNoState = Code::kCancelled;    // no member has a valid state

// The smallest step that `worker` makes after it has made `from` for the first
// time: it continues from there. One step more is right too: the members may
// form a view a step later.
struct Least {
  int worker = -1;
  int64_t from = 0, step = 0;
};

// All workers start in part 0 but those with kStarts as their first event. The
// events of a worker are in their order; kStarts and kRestarts begin a process.
struct Scene {
  std::vector<Event> events;
  std::vector<Code> ends;  // by worker
  Least least = {};
  int64_t save_freq = kNoSaves.save_freq;
  bool checks = true;
  int wrong_bit = 24;
};

// --- the driver -----------------------------------------------------------

class Stage {
 public:
  explicit Stage(const Scene& scene) : scene_(scene), runs_(workers()) {}

  void Play() {
    for (int w = 0; w < workers(); ++w) {
      const std::vector<Event> mine = Of(w);
      if (mine.empty() || mine[0].what != What::kStarts) parts_[0].Arrive(w);
    }
    // The workers that are cut off to one part wait there for each other.
    for (const Event& e : scene_.events) {
      const bool leaves =
          e.what == What::kIsCutOff || e.what == What::kIsCutOffInCheck;
      if (leaves) parts_[e.n].Arrive(e.worker);
    }
    std::vector<std::thread> threads;
    for (int w = 0; w < workers(); ++w) {
      threads.emplace_back([this, w] { RunWorker(w); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int w = 0; w < workers(); ++w) ExpectEndOf(w);
    if (scene_.least.worker < 0) return;
    EXPECT_GE(least_, scene_.least.step);
    EXPECT_LE(least_, scene_.least.step + 1);
  }

 private:
  static constexpr int kMost = 5;  // workers, parts, signals

  int workers() const { return static_cast<int>(scene_.ends.size()); }
  std::vector<Event> Of(int w) const {
    std::vector<Event> mine;
    for (const Event& e : scene_.events) {
      if (e.worker == w) mine.push_back(e);
    }
    return mine;
  }

  // All processes of a worker, one after another.
  void RunWorker(int w) {
    const std::vector<Event> mine = Of(w);
    const auto begins = [](const Event& e) {
      return e.what == What::kStarts || e.what == What::kRestarts;
    };
    for (auto at = mine.begin(), end = at;; at = end) {
      if (at != mine.end() && begins(*at)) Act(nullptr, *at++);
      end = std::find_if(at, mine.end(), begins);
      runs_[static_cast<size_t>(w)] = LiveOnce(w, {at, end});
      if (end == mine.end()) break;
      ExpectEnd(runs_, w, Code::kInternal);
    }
    // No other worker waits for this one.
    ended_[w] = true;
    for (const Event& e : mine) {
      if (GivesSignal(e.what)) signals_[e.n] = true;
    }
  }
  Trained LiveOnce(int w, const std::vector<Event>& events) {
    ElasticCollective collective(&parts_[0], w, 1 << 30);
    Actor actor(w, &collective);
    actor.layer = std::make_shared<OneBitLayer>(scene_.wrong_bit);
    actor.way.save_freq = scene_.save_freq;
    actor.way.cross_check = scene_.checks;
    const auto act = [&](When when) {
      for (const Event& e : events) {
        if (e.when == when) Act(&actor, e);
      }
    };
    act(0);
    for (const Event& e : events) {
      if (e.when <= 0) continue;
      if (e.what == What::kPasses) {
        actor.Passes(e.when);
      } else {
        actor.At(e.when, [this, &actor, e] { Act(&actor, e); });
      }
    }
    actor.returned = [&](int times) { act(-times); };
    bool counts = false;
    actor.sees = [&](int64_t step) {
      if (w != scene_.least.worker) return;
      if (counts) least_ = std::min(least_, step);
      counts |= step >= scene_.least.from;
    };
    return actor.Run();
  }

  static bool GivesSignal(What what) {
    return what == What::kReceives || what == What::kIsInReach ||
           what == What::kSignals || what == What::kRestarts;
  }
  void Act(Actor* a, const Event& e) {
    ElasticCollective* const collective = a ? a->collective : nullptr;
    const bool arrives = e.what == What::kIsInReach ||
                         e.what == What::kStarts || e.what == What::kRestarts;
    if (e.what == What::kWaits || e.what == What::kStarts ||
        e.what == What::kReturns) {
      Await(signals_[e.n]);
    }
    if (arrives) parts_[0].Arrive(e.worker);
    if (GivesSignal(e.what) && e.what != What::kReceives) {
      signals_[e.n] = true;
    }
    switch (e.what) {
      case What::kBreaks:
        return a->layer->Break();
      case What::kIsMended:
        return a->layer->Mend();
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
      case What::kReceives:
        return Receive(e.n);
      default:
        return;
    }
  }
  // All workers of the signal are in the next view of part 0.
  void Receive(int signal) {
    std::vector<int> joiners;
    for (const Event& e : scene_.events) {
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
    const Code end = scene_.ends[static_cast<size_t>(w)];
    ExpectEnd(runs_, w, end);
    if (end == kRight) ExpectRight(runs_, {w});
    // A faulty worker alone saves what no other worker has verified.
    const std::vector<Event> mine = Of(w);
    const bool breaks =
        std::any_of(mine.begin(), mine.end(),
                    [](const Event& e) { return e.what == What::kBreaks; });
    if (!breaks) ExpectSavedIsRight(runs_[static_cast<size_t>(w)], {});
  }

  const Scene scene_;
  ElasticJob parts_[kMost];
  std::atomic<bool> signals_[kMost] = {}, ended_[kMost] = {};
  std::vector<Trained> runs_;
  int64_t least_ = INT64_MAX;
};

void Play(const Scene& scene) { Stage(scene).Play(); }

using W = What;

// --- a loss ---------------------------------------------------------------

// A save is written after a passed check, so it is a verified point.
TEST(RecoveryScenesTest, Member_LostInStep_OthersRollBackToVerifiedPoint) {
  const std::vector<Event> lost = {{150, 2, W::kIsLost}};
  const std::vector<Code> ends = {kRight, kRight, kLost};
  Play({lost, ends, {0, 150, 110}});
  Play({lost, ends, {0, 150, 140}, /*save_freq=*/20});
  Play({{{120, 2, W::kBreaks}, lost[0]}, ends, {0, 150, 110}});
}

// The contributions of the earlier process are those of a lost worker.
TEST(RecoveryScenesTest, FaultyWorker_RestartsWithSameNumber_OthersRollBack) {
  for (const bool still_faulty : {false, true}) {
    Scene scene = {{{-1, 0, W::kWaits, 0},
                    {-1, 1, W::kWaits, 0},
                    {120, 2, W::kBreaks},
                    {150, 2, W::kIsLost},
                    {0, 2, W::kRestarts, 0}},
                   {kRight, kRight, still_faulty ? kStops : kRight},
                   {0, 150, 110}};
    if (still_faulty) scene.events.push_back({0, 2, W::kBreaks});
    Play(scene);
  }
}

// The faulty worker is lost in each call of the view up to its check. Worker 3
// may have received its contributions, which no check has verified.
TEST(RecoveryScenesTest, FaultyWorker_LostAsJoinersViewForms_AllRollBack) {
  for (int call = 1; call <= 10; ++call) {
    if (!RunsCase(call)) continue;
    SCOPED_TRACE(call);
    Play({{{150, 0, W::kReceives, 0},
           {120, 2, W::kBreaks},
           {150, 2, W::kIsLostInView, call},
           {0, 3, W::kStarts, 0}},
          {kRight, kRight, kLost, kRight},
          {0, 150, 110}});
  }
}

// A huge gradient makes the scales of exact sums coarser. The others stay at
// the step boundary, and make the step again with that boundary's scales.
TEST(RecoveryScenesTest, FaultyWorker_LostAfterHugeGradient_ScalesAreRestored) {
  for (const bool checks : {false, true}) {
    // A step has 19 calls. Without the check a complete one stays.
    for (int call = 0; call < (checks ? 25 : 19); ++call) {
      if (!RunsCase(call)) continue;
      SCOPED_TRACE(call);
      Scene scene = {{{200, 2, W::kBreaks}, {200, 2, W::kIsLost, call}},
                     {kRight, kRight, kLost}};
      scene.checks = checks;
      scene.wrong_bit = 30;
      Play(scene);
    }
  }
}

// --- a check --------------------------------------------------------------

TEST(RecoveryScenesTest, FaultyRank_FoundOrLostInCheck_OthersRollBack) {
  const Event breaks = {170, 2, W::kBreaks};
  Play({{breaks}, {kRight, kRight, kStops}, {0, 199, 165}});
  Play({{breaks, {199, 2, W::kIsLostInCheck}},
        {kRight, kRight, kLost},
        {0, 199, 165}});
}

TEST(RecoveryScenesTest, CheckResult_MissedByOneRank_OthersRollBack) {
  for (const int misses : {0, 1, 2}) {
    SCOPED_TRACE(misses);
    Play({{{170, 2, W::kBreaks}, {199, misses, W::kMissesCheck}},
          {kRight, kRight, kStops}});
  }
}

TEST(RecoveryScenesTest, CheckResult_WithoutMajorityMissedByOneRank_AllStop) {
  for (const int misses : {0, 1}) {
    SCOPED_TRACE(misses);
    Play({{{170, 1, W::kBreaks}, {199, misses, W::kMissesCheck}},
          {kStops, kStops}});
  }
}

// A failed check makes no verified point. Worker 2 is cut off after it, and
// makes the steps again alone.
TEST(RecoveryScenesTest, FailedCheck_ThenWorkerCutOff_IsNoConflict) {
  Play({{{230, 0, W::kReceives, 0},
         {-1, 2, W::kIsCutOff, 1},
         {250, 2, W::kReturns, 0},
         {170, 3, W::kBreaks}},
        {kRight, kRight, kRight, kStops}});
}

// The check that begins the view finds the faulty rank before its first step.
TEST(RecoveryScenesTest, FaultyJoiner_FoundByFirstCheck_CostsNoSteps) {
  Play({{{230, 1, W::kReceives, 0},
         {150, 3, W::kIsLost},
         {0, 3, W::kStarts, 0},
         {0, 3, W::kBreaks},
         {0, 4, W::kStarts, 0}},
        {kRight, kRight, kRight, kStops, kRight},
        {1, 230, 230}});
}

// --- a transfer -----------------------------------------------------------

// The donor is lost in each call of the view. Worker 0 has made steps alone.
// Its state is invalid from the transfer's first byte on.
TEST(RecoveryScenesTest, Donor_LostAsViewForms_OthersRollBack) {
  for (const bool alone : {false, true}) {
    for (int call = 1; call <= 12; ++call) {
      if (!RunsCase(call)) continue;
      SCOPED_TRACE(call);
      Scene scene = {{{120, 0, W::kIsCutOff, 1},
                      {160, 0, W::kReturns, 0},
                      {230, 1, W::kReceives, 0},
                      {230, 1, W::kIsLostInView, call}},
                     {kRight, kLost}};
      if (!alone) scene.ends.push_back(kRight);
      Play(scene);
    }
  }
}

TEST(RecoveryScenesTest, Donor_LostInTransferToJoiner_JoinerHasNoState) {
  Play({{{150, 0, W::kReceives, 0},
         {150, 0, W::kIsLostInTransfer},
         {0, 1, W::kStarts, 0}},
        {kLost, kNoState}});
}

// The check that begins the view is the joiner's verified point.
TEST(RecoveryScenesTest, Donor_LostAfterTransfer_JoinerRollsBackToFirstCheck) {
  Play(
      {{{150, 0, W::kReceives, 0}, {160, 0, W::kIsLost}, {0, 1, W::kStarts, 0}},
       {kLost, kRight},
       {1, 160, 150}});
}

TEST(RecoveryScenesTest, Joiner_LostBeforeItsFirstStep_CostsNoSteps) {
  for (const Event& lost :
       {Event{0, 0, W::kIsLostInCheck}, Event{0, 0, W::kIsLostInTransfer}}) {
    for (const bool alone : {false, true}) {
      SCOPED_TRACE(alone);
      Scene scene = {{{5, 0, W::kIsLost},
                      {0, 0, W::kStarts, 0},
                      lost,
                      {320, 1, W::kReceives, 0}},
                     {kLost, kRight},
                     {1, 320, 320}};
      if (!alone) scene.ends.push_back(kRight);
      Play(scene);
    }
  }
}

// --- parts ----------------------------------------------------------------

// Worker 0 has the faulty rank's contributions as it is cut off.
TEST(RecoveryScenesTest, CutOffWorker_ReturnsAfterFailedCheck_AllAreRight) {
  Play({{{150, 0, W::kIsCutOff, 1},
         {250, 0, W::kReturns, 0},
         {230, 1, W::kReceives, 0},
         {120, 3, W::kBreaks}},
        {kRight, kRight, kRight, kStops}});
}

// The others have rolled back for worker 0, and make these steps a second time.
TEST(RecoveryScenesTest, CutOffWorker_HasMoreStepsThanOthers_IsDonor) {
  Play({{{150, 0, W::kIsCutOff, 1},
         {190, 0, W::kReturns, 0},
         {130, 1, W::kPasses},
         {130, 1, W::kReceives, 0},
         {120, 3, W::kBreaks}},
        {kRight, kRight, kRight, kStops},
        {0, 190, 190}});
}

// The others lose the check at step 200, and worker 0 returns. The faulty
// worker is found, or lost before that.
TEST(RecoveryScenesTest, CutOffWorker_ReturnsAfterLostCheck_AllAreRight) {
  for (int call = 0; call <= 10; ++call) {
    SCOPED_TRACE(call);
    Scene scene = {{{150, 0, W::kIsCutOff, 1},
                    {155, 0, W::kReturns, 1},
                    {-2, 0, W::kIsInReach, 0},
                    {199, 1, W::kSignals, 1},
                    {-2, 1, W::kWaits, 0},
                    {-2, 2, W::kWaits, 0},
                    {-2, 3, W::kWaits, 0},
                    {170, 3, W::kBreaks},
                    {199, 1, W::kIsCutOffInCheck, 0}},
                   {kRight, kRight, kRight, call == 0 ? kStops : kLost}};
    if (call > 0) scene.events.push_back({199, 3, W::kIsLostInView, call});
    Play(scene);
  }
}

// A worker alone verifies nothing, so its state has fewer verified steps than
// the others'. They have passed the check at step 200, or not yet.
TEST(RecoveryScenesTest, CutOffWorker_WrongWhileAlone_TakesOthersState) {
  for (const Event& cut :
       {Event{120, 3, W::kIsCutOff, 1}, Event{99, 3, W::kIsCutOffInCheck, 1}}) {
    for (const int64_t step : {190, 210}) {
      Play({{{step, 0, W::kReceives, 0},
             cut,
             {120, 3, W::kBreaks},
             {215, 3, W::kIsMended},
             {215, 3, W::kReturns, 0}},
            {kRight, kRight, kRight, kRight},
            {0, step, step}});
    }
  }
}

// Worker 4 is cut off together with worker 3, which computes wrong there.
TEST(RecoveryScenesTest, CutOffWorker_WasWithFaultyOne_TakesOthersState) {
  Play({{{230, 1, W::kReceives, 0},
         {240, 1, W::kReceives, 1},
         {200, 3, W::kIsCutOff, 1},
         {205, 3, W::kBreaks},
         {215, 3, W::kReturns, 0},
         {200, 4, W::kIsCutOff, 1},
         {290, 4, W::kReturns, 1}},
        {kRight, kRight, kRight, kStops, kRight},
        {1, 230, 230}});
}

// Two machines were wrong alike, and verified each other.
TEST(RecoveryScenesTest, Parts_VerifiedOtherPointsOfOneStep_AllStop) {
  Scene scene = {{{230, 0, W::kReceives, 0}}, {kStops, kStops, kStops, kStops}};
  for (const int w : {2, 3}) {
    scene.events.push_back({120, w, W::kBreaks});
    scene.events.push_back({120, w, W::kIsCutOff, 1});
    scene.events.push_back({230, w, W::kIsMended});
    scene.events.push_back({230, w, W::kReturns, 0});
  }
  Play(scene);
}

}  // namespace
}  // namespace ringlet
