// Calls of a training loop in any order, and what one that fails, or is left,
// leaves behind.

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
  EXPECT_EQ(loop.EndEpoch().code(), Code::kInvalidArgument);  // it has steps
  // A model is in one loop at a time.
  EXPECT_EQ(model->Fit(Data(), Quiet(1)).status().code(),
            Code::kInvalidArgument);
  TrainingLoop second(model.get(), Data(), Quiet(1));
  EXPECT_EQ(second.Begin().code(), Code::kInvalidArgument);
  while (loop.HasStep()) ASSERT_TRUE(loop.Step().ok());
  EXPECT_EQ(loop.Step().code(), Code::kInvalidArgument);
  ASSERT_TRUE(loop.EndEpoch().ok());
  EXPECT_FALSE(loop.HasEpoch());
  Status ended = loop.End();
  ASSERT_TRUE(ended.ok());
  EXPECT_FALSE(loop.Recover(&ended));
  EXPECT_TRUE(ended.ok());
  EXPECT_TRUE(model->Fit(Data(), Quiet(1)).status().ok());
}

// A loop left in the middle leaves a model that can be trained.
TEST(TrainingLoopCallsTest, Loop_LeftInTheMiddle_FreesTheModel) {
  const auto model = TinyModel();
  {
    TrainingLoop loop(model.get(), Data(), Quiet(2));
    ASSERT_TRUE(loop.Begin().ok());
    ASSERT_TRUE(loop.HasEpoch());
    ASSERT_TRUE(loop.Step().ok());
    EXPECT_EQ(loop.step(), 1);
  }
  EXPECT_TRUE(model->Fit(Data(), Quiet(1)).status().ok());
  model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  EXPECT_OK(model->status());
}

// Records the events of a run in their order. Event number `fails` returns an
// error.
class Notes final : public Callback {
 public:
  explicit Notes(int fails = 0) : fails_(fails) {}
  const char* name() const override { return "notes"; }
  Status OnTrainBegin(FitState&) override { return Note("begin"); }
  Status OnTrainEnd(FitState&, const Logs&) override { return Note("end"); }
  void OnFitReturn(FitState&, const Status&) override { ++returns; }
  Status OnEpochBegin(FitState&) override { return Note("epoch"); }
  Status OnEpochEnd(FitState&, Logs*) override { return Note("epoch end"); }
  Status OnTrainBatchBegin(FitState&) override { return Note("step"); }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    return Note(fit.model->weights_digest());
  }
  Status OnTestEnd(FitState&, const Logs&) override { return Note("test"); }
  Status OnSavePoint(FitState&, bool) override { return Note("save"); }

  std::vector<std::string> said;
  int returns = 0;

 private:
  Status Note(uint64_t digest) { return Note(std::to_string(digest)); }
  Status Note(const std::string& what) {
    said.push_back(what);
    return --fails_ == 0 ? Error(Code::kOutOfSync, "call of a note") : Status();
  }
  int fails_;
};

// Calls are made in any order, and any of them fails. The events of the loop
// are a prefix of those of Fit, an error is not lost, and the model can be
// trained again.
TEST(TrainingLoopCallsTest, Calls_InAnyOrder_GiveAPrefixOfTheEventsOfFit) {
  const Dataset data = Points(70).Batch(32);  // the last batch is short
  const auto fit_notes = std::make_shared<Notes>();
  FitOptions options = Quiet(2);
  options.validation_data = Points(150).Batch(128);
  options.callbacks = {fit_notes};
  ASSERT_TRUE(TinyModel()->Fit(data, options).status().ok());
  const std::vector<std::string>& all = fit_notes->said;
  int whole = 0, failed = 0;
  for (unsigned seed = 1; seed <= 600 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int fails =
        random() % 2 == 0 ? 0 : 1 + static_cast<int>(random() % 30);
    const auto notes = std::make_shared<Notes>(fails);
    options.callbacks = {notes};
    const auto model = TinyModel();
    Status status;
    bool begun = false, ended = false, recovered = false;
    {
      TrainingLoop loop(model.get(), data, options);
      for (int call = 0; call < 60 && !recovered; ++call) {
        Status said;
        switch (random() % 16) {
          case 0:
            said = loop.Begin();
            begun = !notes->said.empty();
            break;
          case 1:
            if (begun && loop.HasEpoch() && random() % 8 != 0) break;
            said = loop.End();
            ended = ended || said.ok();
            break;
          case 2:
            if (random() % 8 != 0 && !ended) break;
            recovered = begun;
            EXPECT_FALSE(loop.Recover(&status));
            break;
          case 3:
            loop.CloseData();
            break;
          case 4:
          case 5:
            said = loop.EndEpoch();
            break;
          default:
            if (begun && !loop.HasStep() && random() % 4 != 0) break;
            said = loop.Step();
        }
        failed += said.code() == Code::kOutOfSync ? 1 : 0;
      }
    }
    const bool was_told =
        fails > 0 && static_cast<int>(notes->said.size()) >= fails;
    if (recovered) {
      EXPECT_EQ(status.ok(), ended) << status.message();
      EXPECT_EQ(status.code() == Code::kOutOfSync, was_told);
    }
    EXPECT_EQ(notes->returns, notes->said.empty() ? 0 : 1);
    std::vector<std::string> told = notes->said;
    whole += told == all ? 1 : 0;
    if (!told.empty() && told.back() == "end") told.pop_back();
    ASSERT_LE(told.size(), all.size());
    EXPECT_TRUE(std::equal(told.begin(), told.end(), all.begin()));
    options.callbacks.clear();
    EXPECT_TRUE(model->Fit(data, options).status().ok());
  }
  EXPECT_GT(whole, 20);
  EXPECT_GT(failed, 50);
}

// A loop that calls only HasStep ends after its epochs.
TEST(TrainingLoopCallsTest, HasStep_AfterTheLastEpoch_IsFalse) {
  const auto model = TinyModel();
  TrainingLoop loop(model.get(), Data(), Quiet(2));
  ASSERT_TRUE(loop.Begin().ok());
  while (loop.HasStep() && model->iterations() < 100) {
    ASSERT_TRUE(loop.Step().ok());
    if (loop.HasStep()) continue;
    ASSERT_TRUE(loop.EndEpoch().ok());
  }
  EXPECT_EQ(model->iterations(), 2 * 6);
  EXPECT_EQ(loop.EndEpoch().code(), Code::kInvalidArgument);
  EXPECT_EQ(loop.epoch(), 2);
  EXPECT_TRUE(loop.End().ok());
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

// A loop that ends without a call of Recover has ended all the same.
TEST(TrainingLoopCallsTest, Loop_EndedWithoutRecovers_IsNoError) {
  for (const Status& status : Ranks([](Model*, TrainingLoop*loop, int rank) {
         Status trained = TrainOnce(loop);
         EXPECT_FALSE(rank == 0 && loop->Recover(&trained));
         return trained;
       })) {
    EXPECT_OK(status);
  }
}

// A rank that leaves without an error ends the others too, with an error.
TEST(TrainingLoopCallsTest, Recovers_OkBeforeTheEnd_IsAnError) {
  Status said[2];
  Ranks([&](Model*, TrainingLoop* loop, int rank) {
    Status trained = loop->Begin();
    if (trained.ok()) trained = loop->Step();
    while (rank == 0 && trained.ok() && loop->HasStep()) trained = loop->Step();
    EXPECT_FALSE(loop->Recover(&trained));
    said[rank] = trained;
    return Error(Code::kCancelled, "has seen enough");
  });
  for (const Status& status : said) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  }
}

// The messages and results of a second run are its own.
TEST(TrainingLoopCallsTest, Loop_RunTwice_TrainsAsFitTwice) {
  const auto twice = TinyModel();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(twice->Fit(Data(), Quiet(1)).status().ok());
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> said(std::tmpfile(), fclose);
  FitOptions options = Quiet(1);
  options.verbose = Verbose::kLine;
  options.out = said.get();
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
  std::rewind(said.get());
  int lines = 0;
  char line[256];
  while (std::fgets(line, sizeof(line), said.get()) != nullptr) {
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
  EXPECT_EQ(model->weights_digest(), twice->weights_digest());
}

}  // namespace
}  // namespace ringlet
