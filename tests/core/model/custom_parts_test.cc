// Compares user-defined layers, losses and metrics with the library's that
// compute the same, and tests the errors for wrong ones.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/base/text.h"
#include "ringlet/ringlet.h"

namespace ringlet {
namespace {

// x W + b, W^T kept in scratch; on all threads where there are any.
class MyDense final : public CustomLayer {
 public:
  explicit MyDense(int64_t units, float l2 = 0) : units_(units), l2_(l2) {}
  const char* class_name() const override { return "MyDense"; }
  std::string Describe() const override { return std::to_string(units_); }

  Status Build(const std::vector<Shape>& inputs,
               LayerPlan* plan) const override {
    if (inputs.size() != 1) return InvalidArgument("takes one input");
    const int64_t width = inputs[0].back();
    plan->output[inputs[0].rank() - 1] = units_;
    plan->weights = {{"kernel", {width, units_}, GlorotUniform(), L2(l2_)},
                     {"bias", {units_}, Zeros(), {}}};
    plan->forward_scratch.fixed = width * units_;
    plan->backward_scratch.per_example = units_;
    plan->backward_reads_output = false;
    return Status();
  }

  Status Forward(const LayerCall& call) const override {
    const int64_t width = call.inputs[0].back();
    for (int64_t i = 0; i < width * units_; ++i) {
      call.scratch[i % units_ * width + i / units_] = call.weights[0][i];
    }
    call.Parallel(Rows(call), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t u = 0; u < units_; ++u) {
          float sum = call.weights[1][u];
          for (int64_t k = 0; k < width; ++k) {
            sum += call.x[0][r * width + k] * call.scratch[u * width + k];
          }
          call.y[r * units_ + u] = sum;
        }
      }
    });
    return Status();
  }

  Status Backward(const LayerCall& call) const override {
    if (call.y != nullptr) return Error(Code::kInternal, "y was kept");
    const int64_t width = call.inputs[0].back();
    // The layer may use its scratch.
    std::copy_n(call.dy, call.batch * units_, call.scratch);
    for (int64_t r = 0; r < Rows(call); ++r) {
      for (int64_t u = 0; u < units_; ++u) {
        const float d = call.dy[r * units_ + u];
        call.d_weights[1][u] += d;
        for (int64_t k = 0; k < width; ++k) {
          call.d_weights[0][k * units_ + u] += d * call.x[0][r * width + k];
          if (call.dx[0] == nullptr) continue;
          call.dx[0][r * width + k] += d * call.weights[0][k * units_ + u];
        }
      }
    }
    return Status();
  }

 private:
  static int64_t Rows(const LayerCall& call) {
    return call.batch * call.output->elements() / call.output->back();
  }
  const int64_t units_;
  const float l2_;
};

// x * y of two inputs. A test may add code to its passes.
class Product final : public CustomLayer {
 public:
  using Pass = std::function<Status(const LayerCall&)>;
  const char* class_name() const override { return "Product"; }
  Status Build(const std::vector<Shape>& inputs,
               LayerPlan* plan) const override {
    if (build) RINGLET_RETURN_IF_ERROR(build(plan));
    return inputs.size() == 2 && inputs[0] == inputs[1]
               ? Status()
               : InvalidArgument("takes two inputs of one shape");
  }
  Status Forward(const LayerCall& call) const override {
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      call.y[i] = call.x[0][i] * call.x[1][i];
    }
    return forward ? forward(call) : Status();
  }
  Status Backward(const LayerCall& call) const override {
    for (int k = 0; k < 2; ++k) {
      if (call.dx[k] == nullptr) continue;
      for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
        call.dx[k][i] = call.dy[i] * call.x[1 - k][i];
      }
    }
    return backward ? backward(call) : Status();
  }
  std::function<Status(LayerPlan*)> build;
  Pass forward, backward;
};

// Keras's Dropout at a half: the same numbers in both passes of a step.
class Noise final : public CustomLayer {
 public:
  const char* class_name() const override { return "Noise"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->backward_reads_input = plan->backward_reads_output = false;
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    Mask(call, call.x[0], call.y);
    return Status();
  }
  Status Backward(const LayerCall& call) const override {
    if (call.x[0] != nullptr) return Error(Code::kInternal, "x was kept");
    if (call.dx[0] != nullptr) Mask(call, call.dy, call.dx[0]);
    return Status();
  }

 private:
  static void Mask(const LayerCall& call, const float* from, float* to) {
    const Philox random(call.seed, call.counter);
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      const bool keep =
          !call.training || random.At(static_cast<uint64_t>(i))[0] % 2 == 0;
      to[i] = keep ? from[i] : 0;
    }
  }
};

class MyCrossentropy final : public CustomLoss {
 public:
  explicit MyCrossentropy(std::string options = "") : options_(options) {}
  const char* class_name() const override { return "MyCrossentropy"; }
  std::string Describe() const override { return options_; }
  bool takes_classes() const override { return true; }
  double Compute(const Shape& output, const float* predictions,
                 const Targets& targets, float* gradient) const override {
    if (throws) throw std::runtime_error("no loss today");
    const int64_t n = output.elements();
    const float top = *std::max_element(predictions, predictions + n);
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum += std::exp(double{predictions[j]} - top);
    }
    const int32_t label = targets.classes[0];
    for (int64_t j = 0; j < n && gradient != nullptr; ++j) {
      gradient[j] = static_cast<float>(
          std::exp(double{predictions[j]} - top) / sum - (j == label));
    }
    return std::log(sum) + top - predictions[label];
  }
  bool throws = false;

 private:
  const std::string options_;
};

class MyAccuracy final : public CustomMetric {
 public:
  const char* class_name() const override { return "MyAccuracy"; }
  void Update(const Shape& output, int64_t count, const float* predictions,
              const Targets& targets, MetricState* state) const override {
    if (throws) throw 42;
    const int64_t n = output.elements();
    for (int64_t i = 0; i < count; ++i) {
      const float* p = predictions + i * n;
      const int64_t best = std::max_element(p, p + n) - p;
      state->Update(best == targets.classes[i] ? 1 : 0);
    }
  }
  bool throws = false;
};

Layer MyDenseLayer(int64_t units) {
  return Custom(std::make_shared<MyDense>(units));
}

Sequential Own(const CompileOptions& options = {},
               const std::string& loss_options = "") {
  Sequential model({Input({2}), MyDenseLayer(16), ReLU(), MyDenseLayer(3)});
  model.Compile(SGD(0.1f),
                Custom(std::make_shared<MyCrossentropy>(loss_options)),
                {Custom(std::make_shared<MyAccuracy>())}, options);
  return model;
}

Sequential Theirs(const CompileOptions& options = {}) {
  Sequential model({Input({2}), Dense(16), ReLU(), Dense(3)});
  model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, options);
  return model;
}

TEST(CustomLayerTest, Gradients_EveryBatchSize_AreRight) {
  for (const int64_t batch : {1, 32, 100, 128}) {
    for (const int threads : {1, 2}) {
      GradientCheck check;
      check.batch = batch;
      check.threads = threads;
      EXPECT_OK(CheckGradients(MyDenseLayer(2), {{3}}, check));
      check.batch = std::min<int64_t>(batch, 40);
      EXPECT_OK(CheckGradients(MyDenseLayer(3), {{2, 3}}, check));
      EXPECT_OK(CheckGradients(Custom(std::make_shared<Product>()), {{4}, {4}},
                               check));
      EXPECT_OK(
          CheckGradients(Custom(std::make_shared<Noise>()), {{5}}, check));
    }
  }
}

// In memory that was planned for a larger batch, as in a short last one.
TEST(CustomLayerTest, Layer_MemoryForALargerBatch_TouchesOnlyItsOwn) {
  for (const int64_t batch : {1, 7, 128}) {
    for (const int threads : {1, 2}) {
      OpRunner runner(MyDenseLayer(5), {{6}});
      ASSERT_OK(runner.status());
      const auto n = static_cast<size_t>(batch);
      const OpRun run =
          runner.Run(batch, {RandomFloats(6 * n, 1)}, runner.RandomWeights(2),
                     RandomFloats(5 * n, 3), threads, /*planned=*/128);
      EXPECT_EQ(run.ready, std::vector<int64_t>{1000});
    }
  }
}

TEST(CustomLayerTest, CheckGradients_WrongLayer_NamesTheError) {
  const auto error_of = [](const std::function<void(Product*)>& change) {
    const auto product = std::make_shared<Product>();
    change(product.get());
    const Status status = CheckGradients(Custom(product), {{4}, {4}});
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  const auto expect = [&](const char* part, const auto& change) {
    const std::string message = error_of(change);
    EXPECT_TRUE(Contains(message, part));
  };
  expect("value 2 of dx of input 1 is", [](Product* p) {
    p->backward = [](const LayerCall& call) {
      call.dx[1][2] *= 2;
      return Status();
    };
  });
  expect("wrote outside of the 12 floats of dx of input 0", [](Product* p) {
    p->backward = [](const LayerCall& call) {
      call.dx[0][call.batch * 4] = 1;
      return Status();
    };
  });
  expect("wrote outside of the 12 floats of y", [](Product* p) {
    p->forward = [](const LayerCall& call) {
      call.y[-1] = 1;
      return Status();
    };
  });
  expect("wrote outside of the 2 floats of the gradient of weight 'w'",
         [](Product* p) {
           p->build = [](LayerPlan* plan) {
             plan->weights = {{"w", {2}, Ones(), {}}};
             return Status();
           };
           p->backward = [](const LayerCall& call) {
             call.d_weights[0][2] = 1;
             return Status();
           };
         });
  expect("past the 3 floats of scratch", [](Product* p) {
    p->build = [](LayerPlan* plan) {
      plan->forward_scratch.per_example = 1;
      return Status();
    };
    p->forward = [](const LayerCall& call) {
      call.scratch[3] = 1;
      return Status();
    };
  });
  expect("left value 5 of y", [](Product* p) {
    p->forward = [](const LayerCall& call) {
      call.y[5] = NAN;
      return Status();
    };
  });
  expect("wrote to input 0", [](Product* p) {
    p->forward = [](const LayerCall& call) {
      const_cast<float*>(call.x[0])[0] = 3;
      return Status();
    };
  });
  expect("Forward: sorry", [](Product* p) {
    p->forward = [](const LayerCall&) { return InvalidArgument("sorry"); };
  });
}

TEST(CustomLayerTest, Build_InvalidPlan_IsRefused) {
  const auto status_of = [](const std::function<Status(LayerPlan*)>& build) {
    const auto product = std::make_shared<Product>();
    product->build = build;
    Functional model;
    const auto x = model.Add(Input({4}));
    model.Add(Custom(product), {x, x});
    return model.status();
  };
  ASSERT_OK(status_of([](LayerPlan*) { return Status(); }));
  const Status twice = status_of([](LayerPlan* plan) {
    plan->weights = {{"w", {1}, Ones(), {}}, {"w", {1}, Ones(), {}}};
    return Status();
  });
  EXPECT_STREQ(twice.message(),
               "layer 'product' (Product): two weights are named 'w'");
  EXPECT_TRUE(Contains(status_of([](LayerPlan* plan) {
                         plan->weights = {{"a/b", {1}, Ones(), {}}};
                         return Status();
                       }),
                       "'a/b'"));
  EXPECT_TRUE(Contains(status_of([](LayerPlan* plan) {
                         plan->weights = {{"w", {2}, Zeros(), {}}};
                         plan->weights[0].ones = {1, 3};
                         return Status();
                       }),
                       "`ones` has elements 1 to 3"));
  EXPECT_TRUE(Contains(status_of([](LayerPlan* plan) {
                         plan->backward_scratch.per_example = -1;
                         return Status();
                       }),
                       "-1 floats"));
  EXPECT_TRUE(Contains(status_of([](LayerPlan* plan) {
                         plan->output = {0};
                         return Status();
                       }),
                       "empty or too large"));
  EXPECT_TRUE(Contains(status_of([](LayerPlan*) -> Status {
                         throw std::runtime_error("not built");
                       }),
                       "layer 'product' (Product): an exception: not built"));
  Sequential none({Input({4}), Custom(std::shared_ptr<CustomLayer>())});
  EXPECT_TRUE(Contains(none.status(), "Custom was given no layer"));
  Sequential setter({Input({4}), MyDenseLayer(3).UseBias(false)});
  EXPECT_TRUE(Contains(setter.status(), "MyDense has no use_bias"));
}

TEST(CustomPartsTest, Training_CustomParts_FollowsTheLibrarysParts) {
  for (const int64_t batch : {1, 32, 100, 128}) {
    for (const int threads : {1, 2}) {
      CompileOptions options;
      options.threads = threads;
      Sequential own = Own(options), theirs = Theirs(options);
      FitOptions fit = Quiet(2);
      fit.validation_data = Points(300, 8).Batch(150);  // larger than a batch
      const Dataset data = Points(250).Shuffle(3).Batch(batch);
      for (int again = 0; again < 2; ++again) {
        const History a = own.Fit(data, fit).value();
        const History b = theirs.Fit(data, fit).value();
        for (size_t e = 0; e < 2; ++e) {
          EXPECT_NEAR(*a.logs[e].Find("loss"), *b.logs[e].Find("loss"), 1e-4);
          EXPECT_NEAR(*a.logs[e].Find("val_loss"), *b.logs[e].Find("val_loss"),
                      1e-4);
          EXPECT_NEAR(*a.logs[e].Find("val_my_accuracy"),
                      *b.logs[e].Find("val_accuracy"), 0.011);
        }
      }
      EXPECT_EQ(own.Predict(Points(5).Batch(3)).value().size(), 15u);
      for (int64_t i = 0; i < own.num_weights(); ++i) {
        ASSERT_NEAR(own.weights()[i], theirs.weights()[i], 1e-3) << i;
      }
    }
  }
}

TEST(CustomPartsTest, CustomLayer_RegularizerAndClipping_TrainsAsDense) {
  Sequential own({Input({2}), Custom(std::make_shared<MyDense>(3, 0.1f))});
  Sequential theirs({Input({2}), Dense(3).KernelRegularizer(L2(0.1f))});
  Optimizer optimizer = Adam(0.01f);
  optimizer.clipnorm = 0.5f;
  for (Sequential* model : {&own, &theirs}) {
    model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits));
    ASSERT_OK(model->Fit(Points(100).Batch(32), Quiet(3)).status());
  }
  for (int64_t i = 0; i < own.num_weights(); ++i) {
    EXPECT_NEAR(own.weights()[i], theirs.weights()[i], 1e-4) << i;
  }
}

// Three workers, with short last batches, some of them empty on a rank.
TEST(CustomPartsTest, Training_ThreeWorkers_EqualsOneWorker) {
  for (const int64_t batch : {1, 32, 100}) {
    const Dataset data = Points(130).Shuffle(3).Batch(batch);
    FitOptions fit = Quiet(2);
    fit.validation_data = Points(50, 9).Batch(64);
    Sequential alone = Own();
    const History expected = alone.Fit(data, fit).value();
    RunRanks(3, [&](Collective* collective) {
      Sequential model = Own(CompileOptions(collective));
      FitOptions mine = fit;
      const auto actual = model.Fit(data, mine);
      ASSERT_OK(actual.status());
      for (int64_t i = 0; i < model.num_weights(); ++i) {
        ASSERT_NEAR(model.weights()[i], alone.weights()[i], 1e-4) << i;
      }
      for (const char* name : {"loss", "my_accuracy", "val_my_accuracy"}) {
        EXPECT_NEAR(actual->Values(name)[1], expected.Values(name)[1], 1e-4)
            << name;
      }
    });
  }
}

TEST(CustomPartsTest, Compile_OtherClassOrOptionsOnARank_ErrorNamesIt) {
  RunRanks(2, [&](Collective* collective) {
    const int rank = collective->rank();
    const Sequential loss =
        Own(CompileOptions(collective), rank == 0 ? "margin 1" : "margin 2");
    EXPECT_TRUE(Contains(loss.status(),
                         "the loss's options is margin 2 on rank 1, but margin "
                         "1 on rank 0"));
  });
  RunRanks(2, [&](Collective* collective) {
    Sequential model({Input({2}), collective->rank() == 0
                                      ? MyDenseLayer(2)
                                      : Dense(2).Name("my_dense")});
    model.Compile(SGD(0.1f), MeanSquaredError(), {},
                  CompileOptions(collective));
    EXPECT_TRUE(Contains(model.status(), "MyDense 'my_dense' giving (2,)"));
  });
}

TEST(CustomPartsTest, Summary_CustomParts_NamesThemAsKeras) {
  const Sequential model = Own();
  const std::string table = model.Summary();
  EXPECT_TRUE(Contains(table, "my_dense (MyDense)"));
  EXPECT_TRUE(Contains(table, "my_dense_1 (MyDense)"));
  EXPECT_EQ(model.metric_name(1), "my_accuracy");
  EXPECT_EQ(SnakeCase("MaxPooling2D"), "max_pooling2d");
  EXPECT_EQ(SnakeCase("MyReLULayer"), "my_re_lu_layer");
  EXPECT_EQ(SnakeCase("A"), "a");
  EXPECT_EQ(SnakeCase(""), "");
}

TEST(CustomPartsTest, Save_CustomParts_WritesWeightsAndRefusesTheModel) {
  const TempFolder folder;
  Sequential model = Own();
  ASSERT_OK(model.Fit(Points(64).Batch(32), Quiet(1)).status());
  ASSERT_OK(SaveWeights(&model, folder / "w.safetensors"));
  Sequential loaded = Own();
  ASSERT_OK(LoadWeights(&loaded, folder / "w.safetensors"));
  EXPECT_EQ(WeightsOf(&loaded), WeightsOf(&model));

  const Status refused = SaveModel(&model, folder / "m.safetensors");
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(refused, "layer 'my_dense' is a MyDense"));
  EXPECT_TRUE(Contains(refused, "SaveWeights"));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.safetensors"));
  std::unique_ptr<Model> read;
  EXPECT_TRUE(Contains(ModelFromJson(ToJson(model), &read), "MyDense"));

  // A checkpoint of whole models is refused before a step was made.
  FitOptions options = Quiet(1);
  options.callbacks = {ModelCheckpoint(folder / "c.safetensors")};
  const int64_t before = model.iterations();
  EXPECT_TRUE(
      Contains(model.Fit(Points(64).Batch(32), options).status(), "my_dense"));
  EXPECT_EQ(model.iterations(), before);

  // A model with a user-defined loss is not compiled by the file.
  Sequential plain({Input({2}), Dense(3)});
  plain.Compile(SGD(0.1f), Custom(std::make_shared<MyCrossentropy>()));
  EXPECT_TRUE(
      Contains(SaveModel(&plain, folder / "p.safetensors"), "MyCrossentropy"));
  SaveModelOptions uncompiled;
  uncompiled.include_optimizer = false;
  ASSERT_OK(SaveModel(&plain, folder / "p.safetensors", uncompiled));
}

// A callback that throws where a run would have been killed.
class Bomb final : public Callback {
 public:
  explicit Bomb(int64_t step) : step_(step) {}
  const char* name() const override { return "bomb"; }
  Status OnTrainBatchBegin(FitState&) override {
    if (--step_ == 0) throw std::runtime_error("boom");
    return Status();
  }

 private:
  int64_t step_;
};

TEST(CustomPartsTest, Backup_OfAStoppedRun_ContinuesWithTheSameBits) {
  const TempFolder folder;
  const Dataset data = Points(100).Shuffle(3).Batch(32);
  Sequential undisturbed = Own();
  ASSERT_OK(undisturbed.Fit(data, Quiet(4)).status());
  BackupAndRestoreOptions every;
  every.save_freq = 3;
  for (const bool stopped : {true, false}) {
    Sequential model = Own();
    FitOptions options = Quiet(4);
    options.callbacks = {BackupAndRestore(folder / "backup", every)};
    if (stopped) options.callbacks.push_back(std::make_shared<Bomb>(9));
    const Status status = model.Fit(data, options).status();
    EXPECT_EQ(status.ok(), !stopped) << status.message();
    if (!stopped) {
      EXPECT_EQ(WeightsOf(&model), WeightsOf(&undisturbed));
    }
  }
}

TEST(CustomPartsTest, Compile_TargetsDoNotFit_IsRefused) {
  class Odd final : public CustomLoss {
   public:
    const char* class_name() const override { return "Odd"; }
    int64_t targets(const Shape&) const override { return 7; }
    double Compute(const Shape&, const float*, const Targets&,
                   float*) const override {
      return 0;
    }
  };
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(0.1f), Custom(std::make_shared<Odd>()),
                {MeanSquaredErrorMetric()});
  EXPECT_TRUE(Contains(model.status(), "Odd takes 7 an example"));
  Sequential none({Input({2}), Dense(3)});
  none.Compile(SGD(0.1f), Custom(std::shared_ptr<CustomLoss>()));
  EXPECT_TRUE(Contains(none.status(), "Custom was given no loss"));
  Sequential nothing({Input({2}), Dense(3)});
  nothing.Compile(SGD(0.1f), MeanSquaredError(),
                  {Custom(std::shared_ptr<CustomMetric>())});
  EXPECT_TRUE(Contains(nothing.status(), "Custom was given no metric"));
}

// --- exceptions -----------------------------------------------------------

class ThrowingSource final : public Source {
 public:
  explicit ThrowingSource(std::shared_ptr<Source> inner) : inner_(inner) {}
  int64_t size() const override { return inner_->size(); }
  ExampleSpec x() const override { return inner_->x(); }
  ExampleSpec y() const override { return inner_->y(); }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    if (--left == 0) throw std::out_of_range("no such row");
    return inner_->Read(index, count, x, y);
  }
  std::string name() const override { return "rows"; }
  std::atomic<int> left{0};

 private:
  std::shared_ptr<Source> inner_;
};

TEST(ExceptionTest, Exception_OfASource_EndsTheFit) {
  for (const bool joined : {false, true}) {
    for (const bool background : {true, false}) {
      const auto source = std::make_shared<ThrowingSource>(Points(64).source());
      const Dataset data = (joined ? Concatenate({Points(10).source(), source})
                                   : Dataset(source))
                               .Batch(8);
      Sequential model = Theirs();
      FitOptions options = Quiet(1);
      options.prefetch = background;
      source->left = 4;
      const Status status = model.Fit(data, options).status();
      EXPECT_EQ(status.code(), Code::kInternal);
      EXPECT_STREQ(status.message(), "rows: an exception: no such row");
      // The model is as before the step, and trains on.
      source->left = 0;
      EXPECT_OK(model.Fit(data, options));
      source->left = 2;
      EXPECT_TRUE(Contains(model.Predict(data).status(), "no such row"));
      source->left = 2;
      EXPECT_TRUE(Contains(model.Evaluate(data).status(), "no such row"));
    }
  }
}

// Throws in the hook of that name.
class Thrower final : public Callback {
 public:
  explicit Thrower(std::string hook) : hook_(hook) {}
  const char* name() const override { return "thrower"; }
  Status OnSetup(FitState&) override { return At("OnSetup"); }
  Status OnTrainBegin(FitState&) override { return At("OnTrainBegin"); }
  Status OnTrainEnd(FitState&, const Logs&) override {
    return At("OnTrainEnd");
  }
  void OnFitReturn(FitState&, const Status&) override {
    (void)At("OnFitReturn");
  }
  Status OnEpochBegin(FitState&) override { return At("OnEpochBegin"); }
  Status OnEpochEnd(FitState&, Logs*) override { return At("OnEpochEnd"); }
  Status OnTrainBatchBegin(FitState&) override {
    return At("OnTrainBatchBegin");
  }
  Status OnTrainBatchEnd(FitState&, const Logs&) override {
    return At("OnTrainBatchEnd");
  }
  Status OnTestBegin(FitState&) override { return At("OnTestBegin"); }
  Status OnTestEnd(FitState&, const Logs&) override { return At("OnTestEnd"); }
  Status OnSavePoint(FitState&, bool) override { return At("OnSavePoint"); }

 private:
  Status At(const std::string& hook) const {
    if (hook == hook_) throw std::logic_error("in " + hook);
    return Status();
  }
  const std::string hook_;
};

TEST(ExceptionTest, Exception_OfACallback_EndsTheFitAndNamesIt) {
  for (const std::string hook :
       {"OnSetup", "OnTrainBegin", "OnTrainEnd", "OnEpochBegin", "OnEpochEnd",
        "OnTrainBatchBegin", "OnTrainBatchEnd", "OnTestBegin", "OnTestEnd",
        "OnSavePoint"}) {
    Sequential model = Theirs();
    FitOptions options = Quiet(1);
    options.validation_data = Points(8, 9).Batch(8);
    options.callbacks = {std::make_shared<Thrower>(hook)};
    const Status status = model.Fit(Points(32).Batch(8), options).status();
    EXPECT_STREQ(status.message(),
                 ("thrower: an exception: in " + hook).c_str());
    options.callbacks.clear();
    EXPECT_OK(model.Fit(Points(32).Batch(8), options)) << hook;
  }
  // An exception in OnFitReturn does not change the result of the fit.
  Sequential model = Theirs();
  FitOptions options = Quiet(1);
  options.callbacks = {std::make_shared<Thrower>("OnFitReturn")};
  testing::internal::CaptureStderr();
  EXPECT_OK(model.Fit(Points(32).Batch(8), options));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: thrower: an exception: in OnFitReturn\n");
}

// A step happens whole or not at all, for a failure of any part.
TEST(ExceptionTest, Exception_OfALayerLossOrMetric_EndsTheStep) {
  const auto product = std::make_shared<Product>();
  const auto loss = std::make_shared<MyCrossentropy>();
  const auto metric = std::make_shared<MyAccuracy>();
  Functional model;
  const auto x = model.Add(Input({2}));
  const auto h = model.Add(Dense(4, kTanh), {x});
  const auto p = model.Add(Custom(product), {h, h});
  model.Add(Dense(3), {p});
  model.Compile(Adam(), Custom(loss), {Custom(metric)});
  const Dataset data = Points(64).Batch(16);
  const auto expect_failure = [&](const char* part) {
    const std::vector<float> before = WeightsOf(&model);
    const Status status = model.Fit(data, Quiet(1)).status();
    EXPECT_TRUE(Contains(status, part));
    EXPECT_EQ(WeightsOf(&model), before);
  };
  const auto thrown = [](const LayerCall&) -> Status {
    throw std::runtime_error("no");
  };
  product->forward = thrown;
  expect_failure(
      "epoch 1, step 1: layer 'product' (Product): an exception: no");
  product->forward = nullptr;
  product->backward = thrown;
  expect_failure("layer 'product' (Product): an exception: no");
  product->backward = [](const LayerCall&) {
    return InvalidArgument("by a Status");
  };
  expect_failure("layer 'product' (Product): by a Status");
  product->backward = nullptr;
  loss->throws = true;
  expect_failure("loss MyCrossentropy: an exception: no loss today");
  loss->throws = false;
  metric->throws = true;
  expect_failure(
      "metric MyAccuracy: an exception that is not a std::exception");
  metric->throws = false;
  EXPECT_OK(model.Fit(data, Quiet(1)));
}

// The exception cannot leave the threads, and is not lost either.
TEST(ExceptionDeathTest, Exception_InParallel_EndsTheProgram) {
  const auto product = std::make_shared<Product>();
  product->forward = [](const LayerCall& call) {
    call.Parallel(call.batch, [](int64_t, int64_t) {
      throw std::runtime_error("in parallel");
    });
    return Status();
  };
  EXPECT_DEATH((void)CheckGradients(Custom(product), {{4}, {4}}),
               "in parallel");
}

// The other ranks do not wait for the rank with the exception.
TEST(ExceptionTest, Exception_OnOneRank_ReachesTheOthers) {
  RunRanks(3, [&](Collective* collective) {
    Sequential model = Theirs(CompileOptions(collective));
    FitOptions options = Quiet(2);
    options.callbacks = {
        std::make_shared<Bomb>(collective->rank() == 1 ? 2 : -1)};
    const Status status = model.Fit(Points(64).Batch(16), options).status();
    EXPECT_TRUE(Contains(status, "boom"));
  });
}

}  // namespace
}  // namespace ringlet
