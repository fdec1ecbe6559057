#include "ringlet/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/memory_backup.h"
#include "../../support/tiny_model.h"

namespace ringlet {
namespace {

// Records every call.
class Recorder : public Callback {
 public:
  const char* name() const override { return "recorder"; }
  Status OnSetup(FitState&) override { return Record("setup"); }
  Status OnTrainBegin(FitState&) override { return Record("train("); }
  Status OnTrainEnd(FitState&, const Logs&) override {
    return Record(")train");
  }
  void OnFitReturn(FitState&, const Status& s) override {
    (void)Record(s.ok() ? "returned" : "failed");
  }
  Status OnEpochBegin(FitState& f) override {
    return Record("epoch(", f.epoch);
  }
  Status OnEpochEnd(FitState& f, Logs*) override {
    return Record(")epoch", f.epoch);
  }
  Status OnTrainBatchBegin(FitState& f) override {
    return Record("batch(", f.step);
  }
  Status OnTrainBatchEnd(FitState& f, const Logs&) override {
    return Record(")batch", f.step);
  }
  Status OnTestBegin(FitState&) override { return Record("test("); }
  Status OnTestEnd(FitState&, const Logs&) override { return Record(")test"); }
  Status OnSavePoint(FitState& f, bool epoch_ended) override {
    return Record(epoch_ended ? "saved epoch" : "saved", f.step);
  }

  std::string events;

 private:
  Status Record(const std::string& what, int64_t number = -1) {
    events += (events.empty() ? "" : " ") + what;
    if (number >= 0) events += std::to_string(number);
    return Status();
  }
};

TEST(FitTest, Callbacks_TwoEpochs_AreCalledInKerasOrder) {
  auto model = TinyModel();
  auto recorder = std::make_shared<Recorder>();
  FitOptions options = Quiet(2);
  options.callbacks = {recorder};
  options.validation_data = Points(4).Batch(4);
  options.validation_freq = 2;
  ASSERT_OK(model->Fit(Points(8).Batch(4), options));
  EXPECT_EQ(recorder->events,
            "setup train( "
            "epoch(0 batch(0 )batch0 saved1 batch(1 )batch1 saved2 "
            ")epoch0 saved epoch0 "
            "epoch(1 batch(0 )batch0 saved1 batch(1 )batch1 saved2 "
            "test( )test )epoch1 saved epoch0 "
            ")train returned");
}

TEST(FitTest, History_SomeEpochsValidated_HoldsTheLogsOfEach) {
  auto model = TinyModel();
  FitOptions options = Quiet(5);
  options.initial_epoch = 2;
  options.validation_data = Points(30, 8).Batch(30);
  options.validation_epochs = {4};
  auto history = model->Fit(Points(60).Shuffle(1).Batch(10), options);
  ASSERT_OK(history.status());
  EXPECT_EQ(history->epoch, (std::vector<int64_t>{2, 3, 4}));
  const auto loss = history->Values("loss");
  ASSERT_EQ(loss.size(), 3u);
  EXPECT_LT(loss[2], loss[0]);
  const auto val = history->Values("val_accuracy");
  EXPECT_TRUE(std::isnan(val[0]));
  EXPECT_FALSE(std::isnan(val[1]));  // epoch number 4, counted from one
  EXPECT_TRUE(std::isnan(val[2]));
}

TEST(FitTest, Loss_ShortLastBatch_IsTheMeanOverTheExamples) {
  // With a learning rate of 0 every epoch has the same weights, so Fit,
  // Evaluate and a mean over single examples must agree, a short last batch
  // included.
  auto model = TinyModel(SGD(0.0f));
  auto history = model->Fit(Points(10).Batch(4), Quiet(1));
  ASSERT_OK(history);
  EvaluateOptions silent;
  silent.verbose = Verbose::kSilent;
  auto whole = model->Evaluate(Points(10).Batch(10), silent);
  auto single = model->Evaluate(Points(10).Batch(1), silent);
  ASSERT_OK(whole);
  ASSERT_OK(single);
  EXPECT_NEAR(history->Values("loss")[0], *whole->Find("loss"), 1e-6);
  EXPECT_NEAR(*single->Find("loss"), *whole->Find("loss"), 1e-6);
  EXPECT_DOUBLE_EQ(history->Values("accuracy")[0], *whole->Find("accuracy"));
  EXPECT_DOUBLE_EQ(*single->Find("accuracy"), *whole->Find("accuracy"));
}

TEST(FitTest, Evaluate_DataRunOut_Warns) {
  auto model = TinyModel();
  EvaluateOptions options;
  options.steps = 5;
  options.verbose = Verbose::kLine;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ASSERT_OK(model->Evaluate(Points(8).Batch(4), options));
  EXPECT_TRUE(Contains(testing::internal::GetCapturedStderr(), "2 of 5 steps"));
  EXPECT_EQ(testing::internal::GetCapturedStdout().substr(0, 4), "2/5 ");
}

TEST(FitTest, StepsPerEpoch_EndlessDataset_CutsIt) {
  auto model = TinyModel();
  FitOptions options = Quiet(3);
  EXPECT_EQ(model->Fit(Points(10).Repeat().Batch(4), options).status().code(),
            Code::kInvalidArgument);
  options.steps_per_epoch = 5;
  ASSERT_OK(model->Fit(Points(10).Repeat().Batch(4), options));
  EXPECT_EQ(model->iterations(), 15);
}

TEST(FitTest, Fit_DataRunOut_EndsWithKerasWarning) {
  auto model = TinyModel();
  FitOptions options = Quiet(3);
  options.steps_per_epoch = 4;
  testing::internal::CaptureStderr();
  auto history = model->Fit(Points(24).Batch(4), options);
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_OK(history);
  EXPECT_EQ(model->iterations(), 6);
  EXPECT_EQ(history->epoch.size(), 2u);
  EXPECT_TRUE(
      Contains(printed, "Your input ran out of data; interrupting training"));
}

TEST(FitTest, Fit_DataEndWithAnEpoch_BeginsNoEmptyEpoch) {
  auto model = TinyModel();
  auto recorder = std::make_shared<Recorder>();
  FitOptions options = Quiet(3);
  options.steps_per_epoch = 2;
  options.callbacks = {recorder};
  testing::internal::CaptureStderr();
  auto history = model->Fit(Points(8).Batch(4), options);
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_OK(history);
  EXPECT_EQ(history->epoch, (std::vector<int64_t>{0}));
  EXPECT_FALSE(Contains(recorder->events, "epoch(1"));
  EXPECT_TRUE(Contains(recorder->events, ")train"));
  EXPECT_TRUE(Contains(printed, "Your input ran out of data"));
}

TEST(FitTest, InitialEpoch_LaterThanZero_BeginsWithNewData) {
  auto model = TinyModel();
  FitOptions options = Quiet(4);
  options.initial_epoch = 2;
  options.steps_per_epoch = 3;
  testing::internal::CaptureStderr();
  auto history = model->Fit(Points(24).Batch(4), options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_OK(history);
  EXPECT_EQ(model->iterations(), 6);
  EXPECT_EQ(history->epoch, (std::vector<int64_t>{2, 3}));
}

TEST(FitTest, Fit_SameSeed_GivesTheSameBits) {
  auto run = [](uint64_t seed, bool prefetch) {
    CompileOptions compile;
    compile.seed = seed;
    compile.threads = 2;
    auto model = TinyModel(Adam(), /*dropout=*/0.3f, compile);
    FitOptions options = Quiet(3);
    options.prefetch = prefetch;
    EXPECT_OK(model->Fit(Points(50).Shuffle(seed).Batch(8), options));
    return WeightsOf(model.get());
  };
  const auto first = run(3, /*prefetch=*/true);
  EXPECT_EQ(first, run(3, /*prefetch=*/true));
  EXPECT_EQ(first, run(3, /*prefetch=*/false));
  EXPECT_NE(first, run(4, /*prefetch=*/true));
}

TEST(FitTest, TrainStep_InPieces_GivesTheSameBits) {
  const Dataset data = Points(64).Shuffle(5).Batch(8);
  auto whole = TinyModel(RMSprop(), 0.2f);
  auto pieces = TinyModel(RMSprop(), 0.2f);
  for (Model* model :
       {static_cast<Model*>(whole.get()), static_cast<Model*>(pieces.get())}) {
    std::unique_ptr<BatchLoader> loader;
    ASSERT_OK(model->OpenLoader(data, {}, &loader));
    Batch batch;
    while (!batch.last) {
      ASSERT_OK(loader->Next(&batch));
      if (model == whole.get()) {
        ASSERT_OK(model->TrainStep(batch));
        continue;
      }
      double loss = 0;
      ASSERT_OK(model->Forward(batch.x, batch.count, /*training=*/true));
      ASSERT_OK(model->ComputeLoss(batch, &loss));
      ASSERT_OK(model->Backward());
      ASSERT_OK(model->ApplyGradients());
    }
  }
  EXPECT_EQ(WeightsOf(whole.get()), WeightsOf(pieces.get()));
}

// A layer with rows in several blocks. TrainStep applies each block's gradients
// when they are final; the parts of a step apply all at the end.
TEST(FitTest, TrainStep_ManyBlocksInPieces_GivesTheSameBits) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<std::vector<float>> ends;
    for (const bool whole : {true, false}) {
      CompileOptions compile;
      compile.threads = threads;
      Sequential model({Input({2}), Dense(2500, kRelu),
                        Dense(20, kTanh).KernelRegularizer(L2(0.01f)),
                        Dense(3)});
      model.Compile(Adam(), SparseCategoricalCrossentropy(kFromLogits), {},
                    compile);
      std::unique_ptr<BatchLoader> loader;
      ASSERT_OK(model.OpenLoader(Points(40).Batch(8), {}, &loader));
      for (Batch batch; !batch.last;) {
        ASSERT_OK(loader->Next(&batch));
        if (whole) {
          ASSERT_OK(model.TrainStep(batch));
          continue;
        }
        double loss = 0;
        ASSERT_OK(model.Forward(batch.x, batch.count, /*training=*/true));
        ASSERT_OK(model.ComputeLoss(batch, &loss));
        ASSERT_OK(model.Backward());
        ASSERT_OK(model.ApplyGradients());
      }
      ends.push_back(WeightsOf(&model));
    }
    EXPECT_EQ(ends[0], ends[1]) << threads << " threads";
  }
}

TEST(FitTest, Pieces_OutOfOrder_AreErrors) {
  auto model = TinyModel();
  EXPECT_FALSE(model->Backward().ok());
  EXPECT_FALSE(model->ApplyGradients().ok());
  Batch batch;
  double loss;
  EXPECT_FALSE(model->ComputeLoss(batch, &loss).ok());
}

TEST(FitTest, ComputeLoss_ForwardWithoutTraining_EqualsTestStep) {
  Sequential model({Input({2}), Dense(3, kSoftmax)});
  model.Compile(SGD(), SparseCategoricalCrossentropy());
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(model.OpenLoader(Points(8).Batch(8), {}, &loader));
  Batch batch;
  ASSERT_OK(loader->Next(&batch));
  ASSERT_OK(model.TestStep(batch));
  double loss = 0;
  ASSERT_OK(model.Forward(batch.x, batch.count, /*training=*/false));
  ASSERT_OK(model.ComputeLoss(batch, &loss));
  EXPECT_NEAR(loss, model.rank_metrics()[0].Result(), 1e-5);
  EXPECT_FALSE(model.Backward().ok());

  ASSERT_OK(model.Forward(batch.x, batch.count, /*training=*/true));
  ASSERT_OK(model.ComputeLoss(batch, &loss));
  EXPECT_NEAR(loss, model.rank_metrics()[0].Result(), 1e-5);
  EXPECT_FALSE(model.ComputeLoss(batch, &loss).ok());  // a second one
  EXPECT_OK(model.Backward());
}

TEST(FitTest, Fit_RestoredAtAnyStep_EndsWithTheUndisturbedBits) {
  const Dataset data = Points(40).Shuffle(2).Repeat().Batch(6);
  FitOptions options = Quiet(3);
  options.steps_per_epoch = 5;
  options.validation_data = Points(20, 9).Batch(7);
  auto undisturbed = TinyModel(SGD(0.1f, 0.9f), 0.25f);
  auto expected = undisturbed->Fit(data, options);
  ASSERT_OK(expected);
  for (int64_t step = 1; step <= 15; ++step) {
    auto backup = std::make_shared<MemoryBackup>();
    backup->save_after_step = step;
    backup->fail_after_step = std::min<int64_t>(15, step + 2);
    options.callbacks = {backup};
    auto killed = TinyModel(SGD(0.1f, 0.9f), 0.25f);
    ASSERT_FALSE(killed->Fit(data, options).ok());
    backup->fail_after_step.reset();
    CompileOptions other;
    other.seed = 1;
    auto resumed = TinyModel(SGD(0.1f, 0.9f), 0.25f, other);
    for (float& w : WeightsOf(resumed.get())) w = 0;
    auto history = resumed->Fit(data, options);
    ASSERT_OK(history.status());
    EXPECT_EQ(WeightsOf(resumed.get()), WeightsOf(undisturbed.get())) << step;
    for (const char* name : {"loss", "accuracy", "val_loss"}) {
      EXPECT_EQ(history->Values(name).back(), expected->Values(name).back())
          << step << " " << name;
    }
  }
}

TEST(FitTest, Callback_ReturnsAnError_EndsTheFitAndIsNamed) {
  class Failing : public Callback {
   public:
    const char* name() const override { return "failing"; }
    Status OnTrainBatchEnd(FitState&, const Logs&) override {
      return NotFound("nothing here");
    }
  };
  auto recorder = std::make_shared<Recorder>();
  FitOptions options = Quiet(1);
  options.callbacks = {std::make_shared<Failing>(), recorder};
  auto model = TinyModel();
  const auto history = model->Fit(Points(8).Batch(4), options);
  EXPECT_EQ(history.status().code(), Code::kNotFound);
  EXPECT_TRUE(Contains(history.status(), "failing"));
  EXPECT_EQ(recorder->events.substr(recorder->events.rfind(' ') + 1), "failed");
}

TEST(FitTest, CompileOrFit_InACallback_IsRefused) {
  for (const bool compiles : {true, false}) {
    class ModelChanger final : public Callback {
     public:
      explicit ModelChanger(bool compiles) : compiles_(compiles) {}
      const char* name() const override { return "meddles"; }
      Status OnEpochEnd(FitState& fit, Logs*) override {
        if (!compiles_) {
          return fit.model->Fit(Points(8).Batch(4), Quiet(1)).status();
        }
        fit.model->Compile(SGD(0.1f),
                           SparseCategoricalCrossentropy(kFromLogits), {});
        return Status();
      }

     private:
      const bool compiles_;
    };
    auto model = TinyModel();
    FitOptions options = Quiet(2);
    options.callbacks = {std::make_shared<ModelChanger>(compiles)};
    const Status status = model->Fit(Points(8).Batch(4), options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, compiles ? "Compile while Fit" : "calls Fit"));
  }
}

TEST(FitTest, Fit_LossNotANumber_WarnsOnceAndAtTheEnd) {
  const auto printed_by = [](bool terminates) {
    auto model = TinyModel(SGD(1e30f));
    FitOptions options = Quiet(4);
    if (terminates) options.callbacks = {TerminateOnNaN()};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_OK(model->Fit(Points(40).Batch(4), options));
    testing::internal::GetCapturedStdout();
    return testing::internal::GetCapturedStderr();
  };
  const std::string all = printed_by(/*terminates=*/false);
  const size_t hint = all.find(
      "warning: the loss is not a number at the end of "
      "epoch 1: ");
  ASSERT_EQ(hint, 0u) << all;
  EXPECT_EQ(all.find("TerminateOnNaN"), all.rfind("TerminateOnNaN")) << all;
  EXPECT_TRUE(
      Contains(all, "\nwarning: the training has diverged in epoch 1: "));
  EXPECT_EQ(printed_by(/*terminates=*/true), "");
}

// Points from -1 to 1. If `states_range`, the source knows this range, so that
// no batch is needed to find it.
class RangedPoints final : public Source {
 public:
  explicit RangedPoints(bool states_range) : states_range_(states_range) {}
  int64_t size() const override { return points_->size(); }
  ExampleSpec x() const override { return points_->x(); }
  ExampleSpec y() const override { return points_->y(); }
  Status Read(const int64_t* index, int n, void* x, void* y) override {
    return points_->Read(index, n, x, y);
  }
  bool XRange(double* least, double* largest) const override {
    *least = -1;
    *largest = 1;
    return states_range_;
  }
  std::string name() const override { return "ranged"; }

 private:
  const std::shared_ptr<Source> points_ = Points(64).source();
  const bool states_range_;
};

// Returns the text that one model writes to stderr in `fits` fits.
std::string PrintedByFits(int fits, bool states_range, const Scale& scale) {
  auto model = TinyModel(SGD(0.f));
  testing::internal::CaptureStderr();
  for (int i = 0; i < fits; ++i) {
    const Dataset data(std::make_shared<RangedPoints>(states_range));
    EXPECT_OK(model->Fit(data.Map(scale).Batch(64), Quiet(2)).status());
  }
  return testing::internal::GetCapturedStderr();
}

// The limit holds for x * scale + offset.
TEST(FitTest, Scale_DataBecomeLarge_WarnsOncePerModel) {
  for (const bool states_range : {false, true}) {
    SCOPED_TRACE(states_range);
    EXPECT_EQ(PrintedByFits(1, states_range, Scale(90, 0)), "");
    EXPECT_EQ(PrintedByFits(1, states_range, Scale(-90, 5)), "");
    EXPECT_NE(PrintedByFits(1, states_range, Scale(1, 200)), "");
    const std::string large = PrintedByFits(2, states_range, Scale(-255, 0));
    EXPECT_EQ(large.find("warning: the training data reach 25"), 0u) << large;
    EXPECT_EQ(large.find("warning"), large.rfind("warning")) << large;
    EXPECT_TRUE(Contains(large, "scale -255 and offset 0"));
  }
}

TEST(FitTest, TargetsOfBytes_LossOfValues_WarnsOfTheirScale) {
  const auto printed_by = [](unsigned char most, bool scaled) {
    static std::vector<float> x(8, 0.5f);
    static std::vector<unsigned char> y;
    y.assign(16, most);
    const Dataset examples(MemorySource({DType::kFloat32, {2}}, x.data(),
                                        {DType::kUint8, {4}}, y.data(), 4));
    const Dataset targets(
        MemorySource({DType::kUint8, {4}}, y.data(), {}, nullptr, 4));
    Sequential model({Input({2}), Dense(4)});
    model.Compile(SGD(), MeanSquaredError());
    testing::internal::CaptureStderr();
    EXPECT_OK(model.Fit(
        (scaled ? Zip({examples}, {targets.Map(Scale(1 / 255.f))}) : examples)
            .Batch(4),
        Quiet(1)));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed_by(255, /*scaled=*/false).find("warning: the targets in "),
            0u);
  EXPECT_TRUE(Contains(printed_by(255, /*scaled=*/false), "reach 255"));
  EXPECT_EQ(printed_by(9, false), "");
  EXPECT_EQ(printed_by(255, /*scaled=*/true), "");
}

TEST(FitTest, SecondFit_DataInTheSameOrder_IsNotedOnce) {
  const auto printed_by = [](const std::vector<Dataset>& fits) {
    auto model = TinyModel();
    testing::internal::CaptureStderr();
    for (const Dataset& data : fits) {
      EXPECT_OK(model->Fit(data.Batch(8), Quiet(1)));
    }
    return testing::internal::GetCapturedStderr();
  };
  const Dataset data = Points(16);
  const std::string note =
      printed_by({data.Shuffle(1), data.Shuffle(1), data.Shuffle(1)});
  EXPECT_EQ(note.find("note: this fit shuffles the data in the same orders"),
            0u)
      << note;
  EXPECT_EQ(note.find("note"), note.rfind("note")) << note;
  EXPECT_EQ(printed_by({data.Shuffle(1), data.Shuffle(2)}), "");
  EXPECT_EQ(printed_by({data, data}), "");
  EXPECT_EQ(printed_by({data.Shuffle(1), Points(24).Shuffle(1)}), "");
}

// The training loop checks the request after a step, as in Keras.
TEST(FitTest, StopInOnEpochBegin_AnyEpoch_EndsAfterOneStepWithItsLogs) {
  class EpochStopper final : public Callback {
   public:
    explicit EpochStopper(int64_t epoch) : epoch_(epoch) {}
    const char* name() const override { return "stops"; }
    Status OnEpochBegin(FitState& fit) override {
      if (fit.epoch == epoch_) fit.stop_training = 1;
      return Status();
    }

   private:
    const int64_t epoch_;
  };
  for (const int64_t epoch : {0, 1}) {
    auto model = TinyModel();
    FitOptions options = Quiet(3);
    options.validation_data = Points(8).Batch(8);
    options.callbacks = {std::make_shared<EpochStopper>(epoch)};
    const auto history = model->Fit(Points(24).Batch(8), options);
    ASSERT_OK(history.status());
    EXPECT_EQ(model->iterations(), 3 * epoch + 1);
    ASSERT_EQ(history->epoch.size(), static_cast<size_t>(epoch + 1));
    EXPECT_TRUE(std::isfinite(history->Values("loss").back()));
    EXPECT_TRUE(std::isfinite(history->Values("val_loss").back()));
  }
}

TEST(FitTest, Predict_AnyBatchSize_IsInTheOrderOfTheDataset) {
  auto model = TinyModel();
  auto all = model->Predict(Points(11).Batch(11));
  auto parts = model->Predict(Points(11).Batch(4));
  ASSERT_OK(all);
  ASSERT_OK(parts);
  ASSERT_EQ(all->size(), 33u);
  ASSERT_EQ(parts->size(), 33u);
  for (size_t i = 0; i < 33; ++i) {
    EXPECT_NEAR(all.value()[i], parts.value()[i], 1e-6) << i;
  }
  EXPECT_FALSE(model->Predict(Points(11).Repeat().Batch(4)).ok());
}

// 100 examples of 6 values and of 3 classes.
class SixValues {
 public:
  SixValues() {
    for (int32_t i = 0; i < kExamples; ++i) {
      y_.push_back(i % 3);
      for (int32_t k = 0; k < 6; ++k) {
        x_.push_back(static_cast<float>((i * 7 + k * 5) % 11));
      }
    }
  }
  // Valid while this is.
  Dataset InShape(const Shape& shape) const {
    return Dataset(MemorySource({DType::kFloat32, shape}, x_.data(),
                                {DType::kInt32, {}}, y_.data(), kExamples));
  }

 private:
  static constexpr int32_t kExamples = 100;
  std::vector<float> x_;
  std::vector<int32_t> y_;
};

struct Answers {
  double loss = 0;
  std::vector<float> outputs;
};

// Returns the answers of a new model with this shape of inputs, after a fit.
Answers AnswersOf(const Shape& input, const Dataset& batches) {
  Sequential model({Input(input), Flatten(), Dense(3)});
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits));
  EXPECT_OK(model.Fit(batches, Quiet(1)).status());
  EvaluateOptions quiet;
  quiet.verbose = Verbose::kSilent;
  const auto logs = model.Evaluate(batches, quiet);
  const auto predicted = model.Predict(batches);
  EXPECT_OK(logs.status());
  EXPECT_OK(predicted.status());
  if (!logs.ok() || !predicted.ok()) return {};
  return {*logs->Find("loss"), predicted.value()};
}

// As in Keras 3, a last axis of 1 may be missing or too many in Fit, Evaluate
// and Predict. The values are the same.
TEST(FitTest, Data_LastAxisOfOneMissingOrTooMany_Fits) {
  const SixValues values;
  const Shape without = {2, 3}, with = {2, 3, 1};
  for (const int64_t batch : {1, 32, 100}) {
    SCOPED_TRACE(batch);
    const Dataset data = values.InShape(without).Batch(batch),
                  data_with = values.InShape(with).Batch(batch);
    const Answers expected = AnswersOf(without, data);
    for (const Answers& same :
         {AnswersOf(without, data_with), AnswersOf(with, data),
          AnswersOf(with, data_with)}) {
      EXPECT_EQ(same.loss, expected.loss);
      EXPECT_EQ(same.outputs, expected.outputs);
    }
  }
}

TEST(FitTest, Data_AnotherShape_IsRefused) {
  const SixValues values;
  Sequential model({Input({2, 3}), Flatten(), Dense(3)});
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits));
  for (const Shape& other :
       {Shape{6}, Shape{3, 2}, Shape{3, 2, 1}, Shape{1, 2, 3},
        Shape{2, 3, 1, 1}, Shape{2, 1, 3}}) {
    const Status status =
        model.Predict(values.InShape(other).Batch(4)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << other.ToString();
  }
}

TEST(FitTest, Fit_WrongArguments_AreRefused) {
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.validation_freq = 0;
  EXPECT_FALSE(model->Fit(Points(8).Batch(4), options).ok());
  options = Quiet(-1);
  EXPECT_FALSE(model->Fit(Points(8).Batch(4), options).ok());
  options = Quiet(1);
  options.validation_data = Points(8);  // no Batch
  const auto no_batch = model->Fit(Points(8).Batch(4), options);
  EXPECT_TRUE(Contains(no_batch.status(), "validation_data"));
  EXPECT_FALSE(model->Fit(Points(8).Batch(0), Quiet(1)).ok());
  EXPECT_FALSE(model->Fit(Points(8), Quiet(1)).ok());
  Sequential raw({Input({2}), Dense(3)});
  EXPECT_FALSE(raw.Fit(Points(8).Batch(4), Quiet(1)).ok());
  EXPECT_FALSE(raw.Evaluate(Points(8).Batch(4)).ok());
}

TEST(FitTest, Fit_OutputOfManyRows_TakesAClassForEach) {
  // Two classes a pixel: is its value above a half?
  std::vector<float> x;
  std::vector<int32_t> y;
  const Philox random(3, 0);
  for (uint64_t i = 0; i < 40 * 12 * 12; ++i) {
    x.push_back(Philox::Unit(random.At(i)[0]));
    y.push_back(x.back() > 0.5f);
  }
  const Dataset pixels(MemorySource({DType::kFloat32, {12, 12, 1}}, x.data(),
                                    {DType::kInt32, {12, 12}}, y.data(), 40));
  Sequential model({Input({12, 12, 1}), Conv2D(2, 1)});
  model.Compile(Adam(0.05f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});
  const size_t needed = model.BytesNeeded(20);
  const auto history = model.Fit(pixels.Batch(20), Quiet(60));
  ASSERT_OK(history.status());
  EXPECT_GT(history->Values("accuracy").back(), 0.9);
  EXPECT_EQ(model.BytesUsed(), needed);
}

TEST(FitTest, Fit_LabelOutsideTheClassesOrNan_ErrorNamesIt) {
  const float x[4] = {1, 2, 3, 4};
  const int32_t y[2] = {0, 3};
  auto model = TinyModel();
  const auto label = model->Fit(Dataset(MemorySource({DType::kFloat32, {2}}, x,
                                                     {DType::kInt32, {}}, y, 2))
                                    .Batch(2),
                                Quiet(1));
  EXPECT_EQ(label.status().code(), Code::kCorruption);
  const std::string message = label.status().message();
  EXPECT_NE(message.find('3'), std::string::npos) << message;
  EXPECT_NE(message.find('1'), std::string::npos) << message;

  const float nan[4] = {1, 2, std::nanf(""), 4};
  const int32_t fine[2] = {0, 1};
  const auto bad =
      model->Fit(Dataset(MemorySource({DType::kFloat32, {2}}, nan,
                                      {DType::kInt32, {}}, fine, 2))
                     .Batch(2),
                 Quiet(1));
  EXPECT_EQ(bad.status().code(), Code::kCorruption) << bad.status().message();
  EXPECT_TRUE(Contains(bad.status(), "example 1"));
}

// The error that one pass over x and y, in examples of one value, ends with.
template <typename X, typename Y>
std::string ErrorOfData(DType x_type, const std::vector<X>& x, DType y_type,
                        const std::vector<Y>& y, const Scale& scale) {
  Sequential model({Input({1}), Dense(1)});
  model.Compile(SGD(), MeanSquaredError());
  const Dataset data(MemorySource({x_type, {1}}, x.data(), {y_type, {1}},
                                  y.data(), static_cast<int64_t>(x.size())));
  const auto fitted = model.Fit(data.Map(scale).Batch(2), Quiet(1));
  if (!fitted.ok()) {
    EXPECT_EQ(fitted.status().code(), Code::kCorruption);
  }
  return fitted.status().message();
}

TEST(FitTest, Fit_ValueBeyondFloat32_ErrorNamesIt) {
  const std::vector<float> one = {1, 1, 1};
  const std::string target = ErrorOfData<float, double>(
      DType::kFloat32, one, DType::kFloat64, {0, 0, -1e300}, Scale());
  EXPECT_TRUE(Contains(target, "example 2: target -1e+300"));
  const std::string converted = ErrorOfData<double, float>(
      DType::kFloat64, {1, 1e39, 1}, DType::kFloat32, one, Scale());
  EXPECT_TRUE(Contains(converted, "example 1, value 0 is 1e+39"));
  const std::string scaled = ErrorOfData<float, float>(
      DType::kFloat32, {1, 1, 3e38f}, DType::kFloat32, one, Scale(10));
  EXPECT_TRUE(Contains(scaled, "example 2, value 0 is 3e+38, which times 10"));
  const std::string bytes = ErrorOfData<unsigned char, float>(
      DType::kUint8, {0, 2, 0}, DType::kFloat32, one, Scale(3e38f));
  EXPECT_TRUE(Contains(bytes, "example 1, value 0 is 2, which times 3e+38"));
  // A value in range after scaling is accepted, though a larger byte would not
  // be.
  EXPECT_EQ((ErrorOfData<unsigned char, float>(DType::kUint8, {1, 0, 1},
                                               DType::kFloat32, one,
                                               Scale(3e38f, -3e38f))),
            "");
}

TEST(FitTest, EpochLine_OneEpochOnly_IsNotPrinted) {
  for (int epochs : {1, 2}) {
    FILE* out = std::tmpfile();
    FitOptions options;
    options.epochs = epochs;
    options.out = out;
    auto model = TinyModel();
    ASSERT_OK(model->Fit(Points(8).Batch(4), options));
    std::string text(static_cast<size_t>(std::ftell(out)), '\0');
    std::rewind(out);
    ASSERT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
    std::fclose(out);
    EXPECT_EQ(text.find("Epoch 1/2\n2/2 - ") == 0, epochs == 2) << text;
    EXPECT_EQ(text.find("Epoch") == std::string::npos, epochs == 1) << text;
  }
}

}  // namespace
}  // namespace ringlet
