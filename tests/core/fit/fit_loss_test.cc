// Fit in elastic jobs that lose a worker in any call.

#include "ringlet/fit.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/fit/fit_details.h"
#include "ringlet/loggers.h"

namespace ringlet {
namespace {

// Rank 0 of 2. Its peer agrees to every call, is lost at the first sum, and
// does not join again.
class LostPeerCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Status StartAllReduce(float*, size_t, Ticket*) override {
    return PeerLost(1, "rank 1 was lost");
  }
  Status Wait(Ticket) override { return Status(); }
  Status Broadcast(void*, size_t, int) override { return Status(); }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    std::memcpy(out, in, bytes);
    std::memcpy(static_cast<char*>(out) + bytes, in, bytes);
    return Status();
  }
  Status Barrier() override { return Status(); }
  Status Reform() override {
    return Error(Code::kDeadlineExceeded, "missing is rank 1");
  }
};

class StateRestorer final : public Callback {
 public:
  const char* name() const override { return "restores"; }
  bool RestoresAfterLoss() const override { return true; }
};

// Rank 0 of 2. Its peer computes the same, is lost now and then, and joins
// again.
class UnstablePeerCollective final : public Collective {
 public:
  explicit UnstablePeerCollective(std::vector<int> losses)
      : losses_(std::move(losses)) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Status StartAllReduce(float* data, size_t count, Ticket*) override {
    RINGLET_RETURN_IF_ERROR(Call());
    for (size_t i = 0; i < count; ++i) data[i] *= 2;
    return Status();
  }
  Status Wait(Ticket) override { return Status(); }
  Status Broadcast(void*, size_t, int) override { return Call(); }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    RINGLET_RETURN_IF_ERROR(Call());
    std::memcpy(out, in, bytes);
    std::memcpy(static_cast<char*>(out) + bytes, in, bytes);
    return Status();
  }
  Status Barrier() override { return Call(); }
  Status Reform() override {
    lost_ = false;
    return Status();
  }
  int calls() const { return calls_; }
  void LoseNow() { lost_ = true; }

 private:
  Status Call() {
    ++calls_;
    lost_ |= std::count(losses_.begin(), losses_.end(), calls_) > 0;
    return lost_ ? PeerLost(1, "rank 1 was lost") : Status();
  }
  const std::vector<int> losses_;  // numbers of calls, from 1 on
  int calls_ = 0;
  bool lost_ = false;
};

// Sums parts of the weights, and adds the sums to the weights at the end of the
// fit. The sums take more than StepSnapshot::kMaxSmallBytes bytes. After a loss
// no part may be added twice.
class WeightAverager final : public Callback {
 public:
  const char* name() const override { return "averages"; }
  Status OnSetup(FitState& fit) override {
    average_.assign(static_cast<size_t>(fit.model->num_weights()) * 20, 0);
    return Status();
  }
  Status OnEpochBegin(FitState& fit) override { return Add(fit, 0.25f); }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    fit.model->weights()[0] *= 0.5f;
    return Add(fit, 0.5f);
  }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    for (int64_t i = 0; i < fit.model->num_weights(); ++i) {
      fit.model->weights()[i] += average_[static_cast<size_t>(i)];
    }
    return Status();
  }
  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back({"callback/averages/average",
                      DType::kFloat32,
                      {static_cast<int64_t>(average_.size())},
                      average_.data()});
  }

 private:
  Status Add(const FitState& fit, float share) {
    for (size_t i = 0; i < average_.size(); ++i) {
      const auto n = static_cast<size_t>(fit.model->num_weights());
      average_[i] += share * fit.model->weights()[i % n];
    }
    return Status();
  }
  std::vector<float> average_;
};

// Calls the collective in the middle of the callbacks.
class ReplicaChecker final : public Callback {
 public:
  const char* name() const override { return "checks"; }
  Status OnEpochBegin(FitState& fit) override {
    return fit.model->CheckReplicas();
  }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    return fit.model->CheckReplicas();
  }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    return fit.model->CheckReplicas();
  }
};

// Any call of the collective fails: in a step, at an epoch's end, or while a
// view forms. The fit ends with the weights, the history's last epoch and the
// callbacks' state of the undisturbed fit.
TEST(FitTest, Loss_InAnyCollectiveCall_EndsAsTheUndisturbedFit) {
  struct End {
    std::vector<float> weights;
    std::vector<double> loss, val_loss;
    std::string log, steps;
    int calls = 0;
  };
  const auto run = [](const std::vector<int>& losses) {
    UnstablePeerCollective collective(losses);
    CompileOptions compile;
    compile.collective = &collective;
    auto model = TinyModel(Adam(0.05f), 0.2f, compile);
    EXPECT_OK(model->status());
    FitOptions options = Quiet(4);
    options.validation_data = Points(10, 9).Batch(4);
    options.check_replicas_every = 2;
    EarlyStoppingOptions stopping;
    stopping.monitor = "loss";
    stopping.restore_best_weights = true;
    ReduceLROnPlateauOptions plateau;
    plateau.patience = 1;
    plateau.min_delta = 10;  // never better
    const TempFolder folder;
    options.callbacks = {EarlyStopping(stopping),
                         ReduceLROnPlateau(plateau),
                         CSVLogger(folder / "log.csv"),
                         StepLogger(folder / "steps.csv"),
                         std::make_shared<WeightAverager>(),
                         std::make_shared<ReplicaChecker>(),
                         std::make_shared<StateRestorer>()};
    const auto history = model->Fit(Points(20).Shuffle(3).Batch(6), options);
    EXPECT_OK(history.status());
    if (!history.ok()) return End();
    return End{WeightsOf(model.get()),          history->Values("loss"),
               history->Values("val_loss"),     ReadWhole(folder / "log.csv"),
               ReadWhole(folder / "steps.csv"), collective.calls()};
  };
  // A loss during Compile ends the program, so those calls are left out.
  UnstablePeerCollective compiled({});
  CompileOptions compile;
  compile.collective = &compiled;
  TinyModel(Adam(0.05f), 0.2f, compile);
  const End expected = run({});
  ASSERT_EQ(expected.loss.size(), 4u);
  // 0: no second loss. Otherwise it comes while a view forms, or soon after
  // that.
  constexpr int kCallsToSecondLoss[] = {0, 1, 2, 3, 5, 8, 13, 21};
  uint64_t number = 0;
  for (int first = compiled.calls() + 1; first <= expected.calls; ++first) {
    for (const int more : kCallsToSecondLoss) {
      if (!RunsCase(number++)) continue;
      std::vector<int> losses = {first};
      if (more > 0) losses.push_back(first + more);
      const End end = run(losses);
      ASSERT_EQ(end.weights, expected.weights) << first << " + " << more;
      ASSERT_EQ(end.loss, expected.loss) << first << " + " << more;
      ASSERT_EQ(end.val_loss, expected.val_loss) << first << " + " << more;
      ASSERT_EQ(end.log, expected.log) << first << " + " << more;
      ASSERT_EQ(end.steps, expected.steps) << first << " + " << more;
    }
  }
}

TEST(FitTest, Loss_StopWasRequested_DoesNotWaitForThePeer) {
  class IsInterrupted final : public Callback {
   public:
    explicit IsInterrupted(UnstablePeerCollective* peer) : peer_(peer) {}
    const char* name() const override { return "interrupted"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      fit.interrupted = true;
      peer_->LoseNow();
      return Status();
    }

   private:
    UnstablePeerCollective* const peer_;
  };
  UnstablePeerCollective collective({});
  CompileOptions compile;
  compile.collective = &collective;
  auto model = TinyModel(SGD(0.1f), 0, compile);
  FitOptions options = Quiet(2);
  options.callbacks = {std::make_shared<IsInterrupted>(&collective),
                       std::make_shared<StateRestorer>()};
  const auto history = model->Fit(Points(16).Batch(4), options);
  EXPECT_EQ(history.status().code(), Code::kPeerLost);
  EXPECT_EQ(model->iterations(), 1);
}

TEST(FitTest, Loss_NoRankHasTheState_IsAnErrorAndNoStartFromZero) {
  class LostWhileLoading final : public Callback {
   public:
    const char* name() const override { return "lost while loading"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (fit.model->iterations() != 3) return Status();
      fit.details->source = RestoreSource::kLoading;
      return PeerLost(1, "rank 1 was lost");
    }
  };
  UnstablePeerCollective collective({});
  CompileOptions compile;
  compile.collective = &collective;
  auto model = TinyModel(SGD(0.1f), 0, compile);
  FitOptions options = Quiet(2);
  options.callbacks = {std::make_shared<LostWhileLoading>(),
                       std::make_shared<StateRestorer>()};
  const auto history = model->Fit(Points(16).Batch(4), options);
  EXPECT_EQ(history.status().code(), Code::kInternal);
  EXPECT_TRUE(Contains(history.status(), "has a valid state of the run"));
}

TEST(FitTest, Peer_DoesNotReturn_IsLost) {
  LostPeerCollective collective;
  CompileOptions compile;
  compile.collective = &collective;
  auto model = TinyModel(SGD(0.1f), 0, compile);
  FitOptions options = Quiet(1);
  options.callbacks = {std::make_shared<StateRestorer>()};
  const auto history = model->Fit(Points(16).Batch(8), options);
  EXPECT_EQ(history.status().code(), Code::kPeerLost);
  EXPECT_EQ(history.status().rank(), 1);
  EXPECT_STREQ(history.status().message(), "missing is rank 1");
  EXPECT_EQ(ExitCode(history.status()), 75);
}

}  // namespace
}  // namespace ringlet
