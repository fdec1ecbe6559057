#include "ringlet/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "../../support/contains.h"
#include "../../support/copy_state.h"
#include "../../support/expect_ok.h"
#include "../../support/tiny_model.h"

namespace ringlet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMissing = -12345;

// Drives one callback through epochs with given watched values, without
// training. The logs of an epoch with the value kMissing lack the value.
class Drive {
 public:
  Drive(std::shared_ptr<Callback> callback, const std::string& watched)
      : model_(TinyModel(SGD(1.0f))),
        callback_(std::move(callback)),
        watched_(watched) {
    fit_.model = model_.get();
    fit_.callbacks = &callbacks_;
    fit_.validation = Validation::kAfterEveryEpoch;
    fit_.epochs = 100;
  }

  // Epochs that ran.
  int64_t Run(const std::vector<double>& values) {
    status = callback_->OnSetup(fit_);
    if (!status.ok()) return 0;
    EXPECT_OK(callback_->OnTrainBegin(fit_));
    for (double value : values) {
      if (fit_.stop_training) break;
      EXPECT_OK(callback_->OnEpochBegin(fit_));
      model_->weights()[0] = static_cast<float>(fit_.epoch);
      Logs logs;
      if (value != kMissing) logs.Set(watched_, value);
      EXPECT_OK(callback_->OnEpochEnd(fit_, &logs));
      rates.push_back(model_->LearningRate());
      ++fit_.epoch;
    }
    EXPECT_OK(callback_->OnTrainEnd(fit_, {}));
    return fit_.epoch;
  }

  Status status;
  std::vector<float> rates;
  Model* model() { return model_.get(); }

 private:
  std::unique_ptr<Sequential> model_;
  std::shared_ptr<Callback> callback_;
  const std::vector<std::shared_ptr<Callback>> callbacks_ = {callback_};
  const std::string watched_;
  FitState fit_;
};

TEST(EarlyStoppingTest, Patience_NoImprovement_StopsAfterThatManyEpochs) {
  EarlyStoppingOptions options;
  options.patience = 2;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({1, .9, .95, .91, .5, .5}), 4);
  options.patience = 0;
  Drive impatient(EarlyStopping(options), "val_loss");
  EXPECT_EQ(impatient.Run({1, .9, .9, .1}), 3);
}

TEST(EarlyStoppingTest, MinDelta_OfALoss_IsWhatMustBeExceeded) {
  EarlyStoppingOptions options;
  options.patience = 1;
  options.min_delta = 0.1;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({1, .95, .2}), 2);
}

TEST(EarlyStoppingTest, Monitor_Accuracy_IsToGrow) {
  EarlyStoppingOptions options;
  options.monitor = "val_accuracy";
  options.patience = 1;
  Drive drive(EarlyStopping(options), "val_accuracy");
  EXPECT_EQ(drive.Run({.1, .2, .3, .25, .9}), 4);
}

TEST(EarlyStoppingTest, MinDelta_OfAMetricThatGrows_IsWhatMustBeExceeded) {
  EarlyStoppingOptions options;
  options.monitor = "val_accuracy";
  options.patience = 1;
  options.min_delta = 0.1;
  Drive drive(EarlyStopping(options), "val_accuracy");
  EXPECT_EQ(drive.Run({.5, .7, .75, .9}), 3);
}

TEST(EarlyStoppingTest, Mode_SetToMin_OverrulesTheMetricsDirection) {
  EarlyStoppingOptions options;
  options.monitor = "val_accuracy";
  options.patience = 1;
  options.mode = MonitorMode::kMin;
  Drive drive(EarlyStopping(options), "val_accuracy");
  EXPECT_EQ(drive.Run({.1, .2, .3}), 2);
}

TEST(EarlyStoppingTest, Baseline_NotReached_DoesNotRestartPatience) {
  EarlyStoppingOptions options;
  options.patience = 3;
  options.baseline = 0.5;
  Drive drive(EarlyStopping(options), "val_loss");
  // 1, .9 and .8 improve without beating the baseline; .85 is the fourth.
  EXPECT_EQ(drive.Run({1, .9, .8, .85, .1}), 4);
}

TEST(EarlyStoppingTest, StartFromEpoch_EarlierEpochs_AreIgnored) {
  EarlyStoppingOptions options;
  options.patience = 1;
  options.start_from_epoch = 3;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({1, 2, 3, 4, 5, 6}), 5);
}

TEST(EarlyStoppingTest, RestoreBestWeights_Stopped_TakesThoseOfTheBestEpoch) {
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

TEST(EarlyStoppingTest, Monitor_ValueMissing_WarnsAndContinues) {
  Drive drive(EarlyStopping(), "val_loss");
  testing::internal::CaptureStderr();
  EXPECT_EQ(drive.Run({kMissing, kMissing, kMissing}), 3);
  EXPECT_TRUE(Contains(testing::internal::GetCapturedStderr(), "val_loss"));
}

// The best value begins as the worst infinity, as in Keras. NaN and that
// infinity are no improvement.
TEST(EarlyStoppingTest, Values_NotANumberOrWorstInfinity_AreNoImprovement) {
  EarlyStoppingOptions options;
  options.patience = 2;
  for (const double worst : {kNaN, kInfinity}) {
    Drive never(EarlyStopping(options), "val_loss");
    EXPECT_EQ(never.Run({worst, worst, worst, worst}), 2) << worst;
    Drive later(EarlyStopping(options), "val_loss");
    EXPECT_EQ(later.Run({worst, 1, worst, worst, .5}), 4) << worst;
  }
  options.monitor = "val_accuracy";
  Drive accuracy(EarlyStopping(options), "val_accuracy");
  EXPECT_EQ(accuracy.Run({-kInfinity, kNaN, .5}), 2);
}

TEST(EarlyStoppingTest, RestoreBestWeights_FirstValueNaN_RestoresALaterEpoch) {
  EarlyStoppingOptions options;
  options.patience = 2;
  options.restore_best_weights = true;
  Drive drive(EarlyStopping(options), "val_loss");
  EXPECT_EQ(drive.Run({kNaN, .5, kNaN, .7}), 4);
  EXPECT_EQ(drive.model()->weights()[0], 1);  // set in epoch number 1
}

// Adds values to the logs of an epoch. If `names`, NamesInLogs reports the
// names of the values.
class LogAdder final : public Callback {
 public:
  explicit LogAdder(bool names) : names_(names) {}
  const char* name() const override { return "adds"; }
  bool NamesInLogs(std::vector<std::string>* names) const override {
    if (names_) names->push_back("glory");
    return names_;
  }
  Status OnEpochEnd(FitState&, Logs* logs) override {
    logs->Set("glory", 1);
    return Status();
  }

 private:
  const bool names_;
};

// The error of a fit with EarlyStopping or ReduceLROnPlateau, which monitors
// `monitor` and comes after the callback `before`. "": both fits began.
std::string Refusal(const std::string& monitor, MonitorMode mode,
                    const std::shared_ptr<Callback>& before = nullptr,
                    bool validates = true) {
  EarlyStoppingOptions stopping;
  stopping.monitor = monitor;
  stopping.mode = mode;
  ReduceLROnPlateauOptions reducing;
  reducing.monitor = monitor;
  reducing.mode = mode;
  std::string printed;
  for (const auto& callback :
       {EarlyStopping(stopping), ReduceLROnPlateau(reducing)}) {
    const auto model = TinyModel();
    FitOptions fit = Quiet(1);
    if (validates) fit.validation_data = Points(8).Batch(8);
    if (before != nullptr) fit.callbacks.push_back(before);
    fit.callbacks.push_back(callback);
    const Status status = model->Fit(Points(8).Batch(8), fit).status();
    if (status.ok()) {
      EXPECT_EQ(printed, "") << callback->name();
      continue;
    }
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(model->iterations(), 0);
    const std::string message = status.message();
    EXPECT_EQ(message.find(std::string(callback->name()) + ": "), 0u);
    printed = message.substr(message.find(": ") + 2);
  }
  return printed;
}

TEST(MonitorTest, UnknownName_InAnyMode_IsRefusedBeforeTheFirstStep) {
  for (const MonitorMode mode :
       {MonitorMode::kAuto, MonitorMode::kMin, MonitorMode::kMax}) {
    EXPECT_EQ(Refusal("val_mae", mode),
              "monitor='val_mae': the logs of this fit have no such value; "
              "they have loss, accuracy, val_loss, val_accuracy");
    EXPECT_EQ(Refusal("val_accuracy", mode), "");
    EXPECT_EQ(Refusal("val_loss", mode, nullptr, /*validates=*/false),
              "monitor='val_loss': the logs of this fit have no such value, "
              "because the fit has no validation data; they have loss, "
              "accuracy");
  }
}

TEST(MonitorTest, NameOfACallback_NamedBeforehandOrNot_IsTakenWithAMode) {
  for (const bool named : {true, false}) {
    const auto adder = std::make_shared<LogAdder>(named);
    EXPECT_EQ(Refusal("glory", MonitorMode::kMax, adder), "");
    EXPECT_TRUE(
        Contains(Refusal("glory", MonitorMode::kAuto, adder), "mode to min"));
  }
  EXPECT_NE(Refusal("glory", MonitorMode::kMax), "");
}

TEST(ReduceLROnPlateauTest, Rate_PatienceAndCooldown_IsReducedAsInKeras) {
  ReduceLROnPlateauOptions options;
  options.factor = 0.5;
  options.patience = 2;
  options.cooldown = 2;
  options.min_lr = 0.2;
  Drive drive(ReduceLROnPlateau(options), "val_loss");
  drive.Run({1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  // Keras's counting: the wait starts again when the cooldown has run out.
  EXPECT_EQ(drive.rates, (std::vector<float>{1, 1, .5f, .5f, .5f, .25f, .25f,
                                             .25f, .2f, .2f}));
}

TEST(ReduceLROnPlateauTest, State_SavedInACooldown_ContinuesIt) {
  ReduceLROnPlateauOptions options;
  options.factor = 0.5;
  options.patience = 1;
  options.cooldown = 3;
  const auto before = ReduceLROnPlateau(options);
  const auto after = ReduceLROnPlateau(options);
  const std::vector<std::shared_ptr<Callback>> callbacks = {before};
  const auto model = TinyModel(SGD(1.0f));
  FitState fit;
  fit.model = model.get();
  fit.callbacks = &callbacks;
  fit.validation = Validation::kAfterEveryEpoch;
  std::vector<float> rates;
  Callback* callback = before.get();
  ASSERT_OK(before->OnSetup(fit));
  ASSERT_OK(after->OnSetup(fit));
  for (fit.epoch = 0; fit.epoch < 6; ++fit.epoch) {
    if (fit.epoch == 2) {  // resumed
      CopyState(before.get(), after.get());
      callback = after.get();
    }
    Logs logs;
    logs.Set("val_loss", 1);
    ASSERT_OK(callback->OnEpochEnd(fit, &logs));
    rates.push_back(model->LearningRate());
  }
  EXPECT_EQ(rates, (std::vector<float>{1, .5f, .5f, .5f, .25f, .25f}));
}

TEST(ReduceLROnPlateauTest, Message_AtTheSmallestRate_IsNotPrinted) {
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

TEST(ReduceLROnPlateauTest, ValuesNaN_FromTheFirstEpoch_ReduceTheRate) {
  ReduceLROnPlateauOptions options;
  options.factor = 0.5;
  options.patience = 2;
  Drive drive(ReduceLROnPlateau(options), "val_loss");
  drive.Run({kNaN, kNaN, kNaN, kNaN});
  EXPECT_EQ(drive.rates, (std::vector<float>{1, .5f, .5f, .25f}));
}

TEST(ReduceLROnPlateauTest, Factor_NotBelowOne_IsRefused) {
  ReduceLROnPlateauOptions options;
  options.factor = 1;
  Drive drive(ReduceLROnPlateau(options), "val_loss");
  drive.Run({1});
  EXPECT_EQ(drive.status.code(), Code::kInvalidArgument);
}

TEST(LearningRateSchedulerTest, Rate_EachEpoch_IsSetAndLogged) {
  auto model = TinyModel(SGD(1.0f));
  FitOptions options = Quiet(3);
  options.callbacks = {LearningRateScheduler(
      [](int64_t epoch, float rate) { return epoch == 0 ? rate : rate / 2; })};
  auto history = model->Fit(Points(8).Batch(4), options);
  ASSERT_OK(history);
  EXPECT_EQ(history->Values("learning_rate"),
            (std::vector<double>{1, .5, .25}));
}

TEST(LearningRateSchedulerTest, Rate_Negative_IsAnError) {
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.callbacks = {
      LearningRateScheduler([](int64_t, float) { return -1.0f; })};
  EXPECT_FALSE(model->Fit(Points(8).Batch(4), options).ok());
}

TEST(LearningRateSchedulerTest, Rate_OptimizerHasASchedule_IsRefused) {
  for (const auto& callback :
       {ReduceLROnPlateau(),
        LearningRateScheduler([](int64_t, float rate) { return rate; })}) {
    auto model = TinyModel(SGD(ExponentialDecay(0.1f, 3, 0.5f)));
    FitOptions options = Quiet(1);
    options.callbacks = {callback};
    const auto history = model->Fit(Points(8).Batch(4), options);
    EXPECT_EQ(history.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(history.status(), "a schedule"));
    EXPECT_EQ(model->iterations(), 0);
  }
}

TEST(TerminateOnNaNTest, Loss_NotANumber_StopsOrRaises) {
  for (bool raise : {false, true}) {
    auto model = TinyModel(SGD(1e30f));
    FitOptions options = Quiet(50);
    options.callbacks = {TerminateOnNaN(raise)};
    testing::internal::CaptureStdout();
    const auto history = model->Fit(Points(32).Batch(4), options);
    const std::string printed = testing::internal::GetCapturedStdout();
    EXPECT_EQ(history.ok(), !raise);
    EXPECT_EQ(
        printed.find("Invalid loss, terminating training") != std::string::npos,
        !raise)
        << printed;
    EXPECT_LT(model->iterations(), 50 * 8);
  }
}

TEST(LambdaCallbackTest, Functions_DuringFit_AreCalled) {
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
  ASSERT_OK(model->Fit(Points(8).Batch(4), options));
  EXPECT_EQ(calls, "(..0..1)");
}

}  // namespace
}  // namespace ringlet
