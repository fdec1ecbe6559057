#include "core/fit/callback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../support/tiny_model.h"

namespace ringlet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Drives one callback through epochs whose watched values are given, without
// training: NaN leaves the value out.
class Drive {
 public:
  Drive(std::shared_ptr<Callback> callback, const std::string& watched)
      : model_(TinyModel(SGD(1.0f))),
        callback_(std::move(callback)),
        watched_(watched) {
    fit_.model = model_.get();
    fit_.epochs = 100;
  }

  // Epochs that ran.
  int64_t Run(const std::vector<double>& values) {
    status = callback_->OnSetup(fit_);
    if (!status.ok()) return 0;
    EXPECT_TRUE(callback_->OnTrainBegin(fit_).ok());
    for (double value : values) {
      if (fit_.stop_training) break;
      EXPECT_TRUE(callback_->OnEpochBegin(fit_).ok());
      model_->weights()[0] = static_cast<float>(fit_.epoch);
      Logs logs;
      if (!std::isnan(value)) logs.Set(watched_, value);
      EXPECT_TRUE(callback_->OnEpochEnd(fit_, &logs).ok());
      rates.push_back(model_->LearningRate());
      ++fit_.epoch;
    }
    EXPECT_TRUE(callback_->OnTrainEnd(fit_, {}).ok());
    return fit_.epoch;
  }

  Status status;
  std::vector<float> rates;
  Model* model() { return model_.get(); }

 private:
  std::unique_ptr<Sequential> model_;
  std::shared_ptr<Callback> callback_;
  const std::string watched_;
  FitState fit_;
};

TEST(EarlyStoppingTest, StopsAfterPatienceEpochsWithoutImprovement) {
  EarlyStoppingOptions options;
  options.patience = 2;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({1, .9, .95, .91, .5, .5}), 4);
  options.patience = 0;
  Drive impatient(EarlyStopping(options), "val_loss");
  EXPECT_EQ(impatient.Run({1, .9, .9, .1}), 3);
}

TEST(EarlyStoppingTest, MinDeltaIsWhatMustBeBeaten) {
  EarlyStoppingOptions options;
  options.patience = 1;
  options.min_delta = 0.1;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({1, .95, .2}), 2);
}

TEST(EarlyStoppingTest, AccuracyIsToGrow) {
  EarlyStoppingOptions options;
  options.monitor = "val_accuracy";
  options.patience = 1;
  Drive drive(EarlyStopping(options), "val_accuracy");
  EXPECT_EQ(drive.Run({.1, .2, .3, .25, .9}), 4);
}

TEST(EarlyStoppingTest, ModeOverrulesTheMetricsDirection) {
  EarlyStoppingOptions options;
  options.monitor = "val_accuracy";
  options.patience = 1;
  options.mode = MonitorMode::kMin;
  Drive drive(EarlyStopping(options), "val_accuracy");
  EXPECT_EQ(drive.Run({.1, .2, .3}), 2);
}

TEST(EarlyStoppingTest, BaselineMustBeBeatenForPatienceToRestart) {
  EarlyStoppingOptions options;
  options.patience = 3;
  options.has_baseline = true;
  options.baseline = 0.5;
  Drive drive(EarlyStopping(options), "val_loss");
  // 1, .9 and .8 improve without beating the baseline; .85 is the fourth.
  EXPECT_EQ(drive.Run({1, .9, .8, .85, .1}), 4);
}

TEST(EarlyStoppingTest, StartFromEpochIgnoresTheEarlierOnes) {
  EarlyStoppingOptions options;
  options.patience = 1;
  options.start_from_epoch = 3;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({1, 2, 3, 4, 5, 6}), 5);
}

TEST(EarlyStoppingTest, RestoresTheWeightsOfTheBestEpoch) {
  EarlyStoppingOptions options;
  options.patience = 2;
  options.restore_best_weights = true;
  options.verbose = 1;
  Drive drive(EarlyStopping(options), "val_loss");
  testing::internal::CaptureStdout();
  EXPECT_EQ(drive.Run({1, .5, .7, .6}), 4);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "Epoch 4: early stopping\n"
            "Restoring model weights from the end of the best epoch: 2.\n");
  EXPECT_EQ(drive.model()->weights()[0], 1);  // set in epoch number 1
}

TEST(EarlyStoppingTest, MissingValueWarnsAndGoesOn) {
  Drive drive(EarlyStopping(), "val_loss");
  testing::internal::CaptureStderr();
  EXPECT_EQ(drive.Run({kNaN, kNaN, kNaN}), 3);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("val_loss"),
            std::string::npos);
}

TEST(EarlyStoppingTest, UnknownMetricMustHaveAMode) {
  EarlyStoppingOptions options;
  options.monitor = "val_glory";
  Drive drive(EarlyStopping(options), "val_glory");
  drive.Run({1});
  EXPECT_EQ(drive.status.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(drive.status.message()).find("mode"),
            std::string::npos);
}

TEST(ReduceLROnPlateauTest, ReducesAtPatienceAndRestsInCooldown) {
  ReduceLROnPlateauOptions options;
  options.factor = 0.5;
  options.patience = 2;
  options.cooldown = 2;
  options.min_lr = 0.2;
  Drive drive(ReduceLROnPlateau(options), "val_loss");
  drive.Run({1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  // Keras's counting: the wait begins anew when the cooldown has run out.
  EXPECT_EQ(drive.rates, (std::vector<float>{1, 1, .5f, .5f, .5f, .25f, .25f,
                                             .25f, .2f, .2f}));
}

TEST(ReduceLROnPlateauTest, AtTheSmallestRateItIsSilent) {
  ReduceLROnPlateauOptions options;
  options.patience = 1;
  options.verbose = 1;
  options.min_lr = 0.1;  // a little less than the float
  Drive drive(ReduceLROnPlateau(options), "val_loss");
  testing::internal::CaptureStdout();
  drive.Run({1, 1, 1, 1});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "\nEpoch 2: ReduceLROnPlateau reducing learning rate to "
            "0.100000001.\n");
}

TEST(ReduceLROnPlateauTest, FactorMustBeBelowOne) {
  ReduceLROnPlateauOptions options;
  options.factor = 1;
  Drive drive(ReduceLROnPlateau(options), "val_loss");
  drive.Run({1});
  EXPECT_EQ(drive.status.code(), Code::kInvalidArgument);
}

TEST(LearningRateSchedulerTest, SetsTheRateOfEachEpochAndLogsIt) {
  auto model = TinyModel(SGD(1.0f));
  FitOptions options = Quiet(3);
  options.callbacks = {LearningRateScheduler(
      [](int64_t epoch, float rate) { return epoch == 0 ? rate : rate / 2; })};
  auto history = model->Fit(Points(8).Batch(4), options);
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->Values("learning_rate"),
            (std::vector<double>{1, .5, .25}));
}

TEST(LearningRateSchedulerTest, NegativeRateIsAnError) {
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {
      LearningRateScheduler([](int64_t, float) { return -1.0f; })};
  EXPECT_FALSE(model->Fit(Points(8).Batch(4), options).ok());
}

TEST(LearningRateSchedulerTest, ScheduleOfTheOptimizerIsNotOverridden) {
  for (const auto& callback :
       {ReduceLROnPlateau(),
        LearningRateScheduler([](int64_t, float rate) { return rate; })}) {
    auto model = TinyModel(SGD(ExponentialDecay(0.1f, 3, 0.5f)));
    FitOptions options = Quiet(1);
    options.callbacks = {callback};
    const auto history = model->Fit(Points(8).Batch(4), options);
    EXPECT_EQ(history.status().code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(history.status().message()).find("a schedule"),
              std::string::npos)
        << history.status().message();
    EXPECT_EQ(model->iterations(), 0);
  }
}

TEST(TerminateOnNaNTest, StopsOrRaises) {
  for (bool raise : {false, true}) {
    auto model = TinyModel(SGD(1e30f));
    FitOptions options = Quiet(50);
    options.callbacks = {TerminateOnNaN(raise)};
    testing::internal::CaptureStdout();
    const auto history = model->Fit(Points(32).Batch(4), options);
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_EQ(history.ok(), !raise);
    EXPECT_EQ(
        said.find("Invalid loss, terminating training") != std::string::npos,
        !raise)
        << said;
    EXPECT_LT(model->iterations(), 50 * 8);
  }
}

TEST(LambdaCallbackTest, CallsWhatItWasGiven) {
  std::string calls;
  LambdaCallbackOptions lambda;
  lambda.on_train_begin = [&] { calls += "("; };
  lambda.on_epoch_end = [&](int64_t epoch, const Logs& logs) {
    calls += std::to_string(epoch);
    EXPECT_NE(logs.Find("loss"), nullptr);
  };
  lambda.on_train_batch_end = [&](int64_t, const Logs&) { calls += "."; };
  lambda.on_train_end = [&](const Logs&) { calls += ")"; };
  auto model = TinyModel();
  FitOptions options = Quiet(2);
  options.callbacks = {LambdaCallback(lambda)};
  ASSERT_TRUE(model->Fit(Points(8).Batch(4), options).ok());
  EXPECT_EQ(calls, "(..0..1)");
}

}  // namespace
}  // namespace ringlet
