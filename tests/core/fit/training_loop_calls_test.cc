// Calls of a training loop in any order, and the state of the model after a
// loop that fails or is destroyed early.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/thread_collective.h"
#include "../../support/threads.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

Dataset Data() { return Points(203).Shuffle(3).Batch(40); }

TEST(TrainingLoopCallsTest, Calls_OutOfOrder_AreErrors) {
  const auto model = TinyModel();
  TrainingLoop loop(model.get(), Data(), Quiet(1));
  EXPECT_FALSE(loop.HasEpoch());
  EXPECT_FALSE(loop.HasStep());
  EXPECT_EQ(loop.Step().code(), Code::kInvalidArgument);
  EXPECT_EQ(loop.EndEpoch().code(), Code::kInvalidArgument);
  EXPECT_EQ(loop.End().code(), Code::kInvalidArgument);
  ASSERT_OK(loop.Begin());
  EXPECT_EQ(loop.EndEpoch().code(), Code::kInvalidArgument);  // steps are left
  // A model is in one loop at a time.
  EXPECT_EQ(model->Fit(Data(), Quiet(1)).status().code(),
            Code::kInvalidArgument);
  TrainingLoop second(model.get(), Data(), Quiet(1));
  EXPECT_EQ(second.Begin().code(), Code::kInvalidArgument);
  while (loop.HasStep()) ASSERT_OK(loop.Step());
  EXPECT_EQ(loop.Step().code(), Code::kInvalidArgument);
  ASSERT_OK(loop.EndEpoch());
  EXPECT_FALSE(loop.HasEpoch());
  Status ended = loop.End();
  ASSERT_OK(ended);
  EXPECT_FALSE(loop.Recover(&ended));
  EXPECT_OK(ended);
  EXPECT_OK(model->Fit(Data(), Quiet(1)).status());
}

// A loop left in the middle leaves a model that can be trained.
TEST(TrainingLoopCallsTest, Loop_LeftInTheMiddle_FreesTheModel) {
  const auto model = TinyModel();
  {
    TrainingLoop loop(model.get(), Data(), Quiet(2));
    ASSERT_OK(loop.Begin());
    ASSERT_TRUE(loop.HasEpoch());
    ASSERT_OK(loop.Step());
    EXPECT_EQ(loop.step(), 1);
  }
  EXPECT_OK(model->Fit(Data(), Quiet(1)).status());
  model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  EXPECT_OK(model->status());
}

// Records the events of a run in their order. Event number `fails` returns an
// error.
class EventRecorder final : public Callback {
 public:
  explicit EventRecorder(int fails = 0) : fails_(fails) {}
  const char* name() const override { return "recorder"; }
  Status OnTrainBegin(FitState&) override { return Record("begin"); }
  Status OnTrainEnd(FitState&, const Logs&) override { return Record("end"); }
  void OnFitReturn(FitState&, const Status&) override { ++returns; }
  Status OnEpochBegin(FitState&) override { return Record("epoch"); }
  Status OnEpochEnd(FitState&, Logs*) override { return Record("epoch end"); }
  Status OnTrainBatchBegin(FitState&) override { return Record("step"); }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    return Record(fit.model->DigestWeights());
  }
  Status OnTestEnd(FitState&, const Logs&) override { return Record("test"); }
  Status OnSavePoint(FitState&, bool) override { return Record("save"); }

  std::vector<std::string> events;
  int returns = 0;

 private:
  Status Record(uint64_t digest) { return Record(std::to_string(digest)); }
  Status Record(const std::string& what) {
    events.push_back(what);
    return --fails_ == 0 ? Error(Code::kOutOfSync, "an event that fails")
                         : Status();
  }
  int fails_;
};

// Makes random calls of a loop, most of them in a legal order.
class RandomCaller {
 public:
  // All arguments outlive the RandomCaller.
  RandomCaller(TrainingLoop* loop, const EventRecorder* recorder,
               std::mt19937* random)
      : loop_(*loop), recorder_(*recorder), random_(*random) {}

  // Makes up to `count` calls; none after Recover.
  void MakeCalls(int count) {
    for (int i = 0; i < count && !recovered_; ++i) {
      const Row& row = PickRow();
      const bool is_legal = row.is_legal(this);
      if (!is_legal && random_() % row.illegal_odds != 0) continue;
      const Status status = row.call(this);
      if (status.code() == Code::kOutOfSync) ++failed_calls_;
    }
  }

  bool ended() const { return ended_; }             // End succeeded
  bool recovered() const { return recovered_; }     // Recover was called
  const Status& status() const { return status_; }  // Recover's result
  // The number of calls that returned the error of an event.
  int failed_calls() const { return failed_calls_; }

 private:
  struct Row {
    unsigned weight;
    bool (*is_legal)(RandomCaller*);
    unsigned illegal_odds;  // one illegal call is made in this many cases
    Status (*call)(RandomCaller*);
  };
  static constexpr unsigned kWeights = 16;  // the sum

  static bool Always(RandomCaller*) { return true; }
  static bool AfterLastEpoch(RandomCaller* c) {
    return !c->begun_ || !c->loop_.HasEpoch();
  }
  static bool WithinEpoch(RandomCaller* c) {
    return !c->begun_ || c->loop_.HasStep();
  }
  static bool AfterEnd(RandomCaller* c) { return c->ended_; }

  static Status Begin(RandomCaller* c) {
    const Status status = c->loop_.Begin();
    c->begun_ = !c->recorder_.events.empty();
    return status;
  }
  static Status Step(RandomCaller* c) { return c->loop_.Step(); }
  static Status EndEpoch(RandomCaller* c) { return c->loop_.EndEpoch(); }
  static Status End(RandomCaller* c) {
    const Status status = c->loop_.End();
    c->ended_ = c->ended_ || status.ok();
    return status;
  }
  static Status CloseData(RandomCaller* c) {
    c->loop_.CloseData();
    return Status();
  }
  static Status Recover(RandomCaller* c) {
    c->recovered_ = c->begun_;
    EXPECT_FALSE(c->loop_.Recover(&c->status_));
    return Status();
  }

  const Row& PickRow() {
    static constexpr Row kRows[] = {
        {1, Always, 1, Begin},     {10, WithinEpoch, 4, Step},
        {2, Always, 1, EndEpoch},  {1, AfterLastEpoch, 8, End},
        {1, Always, 1, CloseData}, {1, AfterEnd, 8, Recover},
    };
    unsigned at = static_cast<unsigned>(random_() % kWeights);
    const Row* row = kRows;
    while (at >= row->weight) at -= (row++)->weight;
    return *row;
  }

  TrainingLoop& loop_;
  const EventRecorder& recorder_;
  std::mt19937& random_;
  bool begun_ = false, ended_ = false, recovered_ = false;
  Status status_;
  int failed_calls_ = 0;
};

// Calls are made in any order, and any of them fails. The events of the loop
// are a prefix of Fit's events, an error is not lost, and the model can be
// trained again.
TEST(TrainingLoopCallsTest, Calls_InAnyOrder_GiveAPrefixOfTheEventsOfFit) {
  const Dataset data = Points(70).Batch(32);  // the last batch is short
  const auto fit_recorder = std::make_shared<EventRecorder>();
  FitOptions options = Quiet(2);
  options.validation_data = Points(150).Batch(128);
  options.callbacks = {fit_recorder};
  ASSERT_OK(TinyModel()->Fit(data, options).status());
  const std::vector<std::string>& fit_events = fit_recorder->events;
  int complete_runs = 0, failed_calls = 0;
  for (unsigned seed = 1; seed <= 600 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int fails =
        random() % 2 == 0 ? 0 : 1 + static_cast<int>(random() % 30);
    const auto recorder = std::make_shared<EventRecorder>(fails);
    options.callbacks = {recorder};
    const auto model = TinyModel();
    auto loop = std::make_unique<TrainingLoop>(model.get(), data, options);
    RandomCaller caller(loop.get(), recorder.get(), &random);
    caller.MakeCalls(60);
    loop.reset();
    failed_calls += caller.failed_calls();
    const bool any_failed =
        fails > 0 && static_cast<int>(recorder->events.size()) >= fails;
    if (caller.recovered()) {
      const Status& status = caller.status();
      EXPECT_EQ(status.ok(), caller.ended()) << status.message();
      EXPECT_EQ(status.code() == Code::kOutOfSync, any_failed);
    }
    std::vector<std::string> events = recorder->events;
    EXPECT_EQ(recorder->returns, events.empty() ? 0 : 1);
    if (events == fit_events) ++complete_runs;
    // The loop may end before Fit does.
    if (!events.empty() && events.back() == "end") events.pop_back();
    ASSERT_LE(events.size(), fit_events.size());
    EXPECT_TRUE(std::equal(events.begin(), events.end(), fit_events.begin()));
    options.callbacks.clear();
    EXPECT_OK(model->Fit(data, options).status());
  }
  EXPECT_GT(complete_runs, 20);
  EXPECT_GT(failed_calls, 50);
}

// A loop that calls only HasStep ends after its epochs.
TEST(TrainingLoopCallsTest, HasStep_AfterTheLastEpoch_IsFalse) {
  const auto model = TinyModel();
  TrainingLoop loop(model.get(), Data(), Quiet(2));
  ASSERT_OK(loop.Begin());
  while (loop.HasStep() && model->iterations() < 100) {
    ASSERT_OK(loop.Step());
    if (loop.HasStep()) continue;
    ASSERT_OK(loop.EndEpoch());
  }
  EXPECT_EQ(model->iterations(), 2 * 6);
  EXPECT_EQ(loop.EndEpoch().code(), Code::kInvalidArgument);
  EXPECT_EQ(loop.epoch(), 2);
  EXPECT_OK(loop.End());
}

// The ranks are threads that run `program`, then Fit if it succeeded, and then
// leave. Returns the status of each.
std::vector<Status> Ranks(
    const std::function<Status(Model*, TrainingLoop*, int)>& program) {
  constexpr int kRanks = 2;
  ThreadJob job(kRanks);
  std::vector<Status> ended(kRanks);
  RunThreads(kRanks, [&](int r) {
    ThreadCollective collective(&job, r);
    const auto model = TinyModel(SGD(0.1f), 0, CompileOptions(&collective));
    Status* const status = &ended[static_cast<size_t>(r)];
    {
      TrainingLoop loop(model.get(), Data(), Quiet(1));
      *status = program(model.get(), &loop, r);
    }
    if (status->ok()) *status = model->Fit(Data(), Quiet(1)).status();
    job.Leave();
  });
  return ended;
}

Status TrainOnce(TrainingLoop* loop) {
  RINGLET_RETURN_IF_ERROR(loop->Begin());
  while (loop->HasStep()) RINGLET_RETURN_IF_ERROR(loop->Step());
  RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
  return loop->End();
}

// After a successful End a loop needs no call of Recover.
TEST(TrainingLoopCallsTest, Loop_EndedWithoutRecovers_IsNoError) {
  for (const Status& status : Ranks([](Model*, TrainingLoop*loop, int rank) {
         Status trained = TrainOnce(loop);
         EXPECT_FALSE(rank == 0 && loop->Recover(&trained));
         return trained;
       })) {
    EXPECT_OK(status);
  }
}

// A rank that leaves without an error ends the other ranks too, with an error.
TEST(TrainingLoopCallsTest, Recovers_OkBeforeTheEnd_IsAnError) {
  Status results[2];
  Ranks([&](Model*, TrainingLoop* loop, int rank) {
    Status trained = loop->Begin();
    if (trained.ok()) trained = loop->Step();
    while (rank == 0 && trained.ok() && loop->HasStep()) trained = loop->Step();
    EXPECT_FALSE(loop->Recover(&trained));
    results[rank] = trained;
    return Error(Code::kCancelled, "has seen enough");
  });
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  }
}

// The messages and results of a second run are its own.
TEST(TrainingLoopCallsTest, Loop_RunTwice_TrainsAsFitTwice) {
  const auto twice = TinyModel();
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(twice->Fit(Data(), Quiet(1)).status());
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> printed(std::tmpfile(), fclose);
  FitOptions options = Quiet(1);
  options.verbose = Verbose::kLine;
  options.out = printed.get();
  for (const Status& status : Ranks([&](Model*model, TrainingLoop*, int) {
         TrainingLoop loop(model, Data(), options);
         for (int i = 0; i < 2; ++i) {
           Status trained = TrainOnce(&loop);
           EXPECT_FALSE(loop.Recover(&trained));
           RINGLET_RETURN_IF_ERROR(trained);
         }
         return Status();
       })) {
    EXPECT_OK(status);
  }
  std::rewind(printed.get());
  int lines = 0;
  char line[256];
  while (std::fgets(line, sizeof(line), printed.get()) != nullptr) {
    if (std::strstr(line, "done: ") == nullptr) continue;
    ++lines;
    EXPECT_NE(std::strstr(line, "done: 1 epoch,"), nullptr) << line;
  }
  EXPECT_EQ(lines, 2);
  const auto model = TinyModel();
  TrainingLoop loop(model.get(), Data(), Quiet(1));
  for (int i = 0; i < 2; ++i) {
    Status trained = TrainOnce(&loop);
    EXPECT_FALSE(loop.Recover(&trained));
    EXPECT_OK(trained);
  }
  EXPECT_EQ(model->DigestWeights(), twice->DigestWeights());
}

}  // namespace
}  // namespace ringlet
