// Tests of C files with a frozen body in int8 and trained layers in float.

#include <gtest/gtest.h>

#include <algorithm>

#include "../../support/c_training.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"

namespace ringlet {
namespace {

// A body and the layers behind it, alone and as one model.
struct Parts {
  Sequential body, head, whole;

  Parts(const std::vector<Layer>& body_layers,
        const std::vector<Layer>& head_layers, const Optimizer& optimizer,
        const Loss& loss) {
    for (Layer layer : body_layers) {
      body.Add(layer);
      whole.Add(layer.Trainable(false));
    }
    CompileOne(&body);
    head.Add(Input(body.output_shape()));
    for (const Layer& layer : head_layers) {
      head.Add(layer);
      whole.Add(layer);
    }
    head.Compile(optimizer, loss);
    whole.Compile(optimizer, loss);
    EXPECT_OK(head.status());
    EXPECT_OK(whole.status());
    for (const Variable& v : body.variables()) {
      float* const from = body.weights() + v.offset;
      if (EndsWith(v.path, "/moving_variance")) std::fill_n(from, v.size(), 2);
      std::copy_n(from, v.size(), WeightIn(&whole, v.path));
    }
    for (const Variable& v : head.variables()) {
      std::copy_n(head.weights() + v.offset, v.size(),
                  WeightIn(&whole, v.path));
    }
  }

  static float* WeightIn(Model* model, const std::string& path) {
    for (const Variable& v : model->variables()) {
      if (v.path == path) return model->weights() + v.offset;
    }
    ADD_FAILURE() << path;
    return model->weights();
  }
};

class CInt8TrainingTest : public CTrainingTest {
 protected:
  // Trains the whole model in C, and the layers behind the body here, with what
  // the int8 file of the body alone computes. Compares after each step.
  void CompareParts(Parts* parts, int64_t batch, const std::string& flags) {
    const Shape &in = parts->body.input_shape(),
                &out = parts->whole.output_shape();
    Examples examples;
    ExportCOptions options;
    options.calibration = examples.Batches(in, out, 40);
    ASSERT_OK(ExportC(&parts->body, body_folder_ / "model.c", options));
    options.train_batch = batch;
    ASSERT_OK(ExportC(&parts->whole, folder_ / "model.c", options));
    const CLibrary body(body_folder_, kChecked), c(folder_, flags);
    const auto state = static_cast<size_t>(Defined(folder_, "STATE"));
    const int64_t targets = Defined(folder_, "TARGETS");
    const bool classes = parts->head.loss().takes_classes();
    int64_t next = 0;
    for (const int64_t count : {batch, batch, (batch + 2) / 3, batch}) {
      ASSERT_EQ(c.Begin(static_cast<int>(count)), 0);
      std::vector<float> features;
      std::vector<int32_t> labels;
      std::vector<float> y;
      double sum = 0;
      for (int64_t i = 0; i < count; ++i, next = (next + 1) % 40) {
        const float* const x = examples.x.data() + next * in.elements();
        const int64_t width = parts->body.output_shape().elements();
        features.resize(features.size() + static_cast<size_t>(width));
        float* const feature = &features[features.size() - width];
        ASSERT_EQ(body.Predict(x, feature), 0);
        ExpectPrediction(&parts->head, feature, c, x);
        for (int64_t t = 0; t < targets; ++t) {
          labels.push_back(static_cast<int32_t>((next + t) % out.back()));
          y.push_back(examples.y[static_cast<size_t>(next)]);
        }
        float loss = 0;
        const void* const target =
            classes ? static_cast<const void*>(&labels[labels.size() - targets])
                    : &y[y.size() - targets];
        ASSERT_EQ(c.Train(x, target, &loss), 0);
        sum += loss;
      }
      Batch step;
      step.count = step.global_count = count;
      step.x = features.data();
      step.y = classes ? static_cast<const void*>(labels.data()) : y.data();
      ASSERT_OK(parts->head.TrainStep(step));
      EXPECT_EQ(parts->head.metric_value(0, parts->head.step_metrics()),
                sum / static_cast<double>(count));
      ExpectNumbers(c.Save(state), NumbersOf(&parts->head));
    }
  }

  static void ExpectPrediction(Model* head, const float* feature,
                               const CLibrary& c, const float* x) {
    std::vector<float> out(
        static_cast<size_t>(head->output_shape().elements()));
    ASSERT_OK(head->Forward(feature, 1, /*training=*/false));
    ASSERT_EQ(c.Predict(x, out.data()), 0);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), head->output()));
  }

  TempFolder body_folder_;
};

std::vector<Layer> ImageBody() {
  return {Input({12, 10, 2}),
          Conv2D(6, 3).UseBias(false).Name("a"),
          BatchNormalization().Name("b"),
          ReLU(),
          DepthwiseConv2D(3, kRelu).Padding(kSame).Name("c"),
          MaxPooling2D(2),
          GlobalAveragePooling2D()};
}

TEST_F(CInt8TrainingTest, Steps_FrozenBody_HaveTheBitsOfTheHeadAlone) {
  for (const int64_t batch : {1, 8, 100}) {
    SCOPED_TRACE(batch);
    Parts dense(ImageBody(), {Dense(5).Name("head")}, Adam(0.01f),
                SparseCategoricalCrossentropy(kFromLogits));
    CompareParts(&dense, batch, std::string(kFused) + kChecked);
    Parts two(ImageBody(),
              {Dense(9, kTanh).Name("hidden"), Dense(3).Name("head")},
              SGD(0.05f, 0.9f), MeanSquaredError());
    CompareParts(&two, batch, kFast);
  }
}

TEST_F(CInt8TrainingTest, Steps_OtherBodies_HaveTheBitsOfTheHeadAlone) {
  Parts recurrent({Input({9, 4}), GRU(6).ReturnSequences(true).Name("g"),
                   LSTM(5).Name("l"), Dropout(0.5f)},
                  {Dense(3, kSoftmax).Name("head")}, AdamW(0.01f, 0.1f),
                  SparseCategoricalCrossentropy());
  CompareParts(&recurrent, 8, kChecked);
  Parts conv({Input({9, 8, 3}), Conv2D(4, 3, kRelu).Name("a"),
              Conv2D(4, 1, kSigmoid).Name("b")},
             {Conv2D(5, 3, kRelu).Name("c"), Flatten(), Dense(2).Name("head")},
             SGD(0.05f), SparseCategoricalCrossentropy(kFromLogits));
  CompareParts(&conv, 3, kChecked);
  Parts lora({Input({20}), Dense(7, kTanh).LoraRank(2).Name("a"), Flatten()},
             {Dense(6).LoraRank(2).Name("head")}, SGD(0.05f),
             MeanSquaredError());
  CompareParts(&lora, 1, kChecked);
  EXPECT_TRUE(Contains(ReadWhole(folder_ / "model.c"), "have the bits of"));
  // The cut is behind a softmax, and the head begins with a frozen layer.
  Parts softmax(
      {Input({20}), Dense(7, kSoftmax).Name("a"), Rescaling(2.0f)},
      {Dense(6, kRelu).Name("hidden"), Dense(6).Trainable(false).Name("fixed"),
       Dense(2).Name("head")},
      Adam(0.01f), MeanSquaredError());
  CompareParts(&softmax, 8, kChecked);
}

TEST_F(CInt8TrainingTest, Files_SoundTokensAndSeveralInputs_AreCompiled) {
  Functional two;
  const auto a = two.Add(Input({8}).Name("in one")), b = two.Add(Input({8}));
  const auto x = two.Add(Concatenate(), {two.Add(Dense(4, kRelu), {a}), b});
  two.Add(Dense(3).Name("head"), {two.Add(Dense(6, kSelu), {x})});
  Layer features = MFCC();
  features.num_mel_bins = 20;
  Sequential sound({Input({4000}), features, Flatten(), Dense(8, kRelu),
                    Dense(3).Name("head")});
  Sequential tokens({Input({12}), Embedding(50, 8), LayerNormalization(),
                     Flatten(), Dense(3).Name("head")});
  Examples examples;
  for (Model* const model :
       {static_cast<Model*>(&two), static_cast<Model*>(&sound),
        static_cast<Model*>(&tokens)}) {
    CompileOne(model);
    for (int n = 0; n < model->num_nodes(); ++n) {
      const std::string name = model->layer(n).name;
      if (name == "head" || model->layer(n).kind == Layer::Kind::kInput)
        continue;
      ASSERT_OK(model->SetTrainable(name, false));
    }
    model->Compile(Adam(0.01f), MeanSquaredError());
    ExportCOptions options;
    options.calibration = examples.Batches(
        model == &two ? Shape{16} : model->input_shape(), {3}, 8);
    if (model == &tokens) std::fill(examples.x.begin(), examples.x.end(), 7);
    options.train_batch = 2;
    ASSERT_OK(ExportC(model, folder_ / "model.c", options));
    const CLibrary c(folder_, kChecked);
  }
}

TEST_F(CInt8TrainingTest, Comment_Body_IsNamedWithItsMemory) {
  Parts parts(ImageBody(), {Dense(5).Name("head")}, Adam(0.01f),
              SparseCategoricalCrossentropy(kFromLogits));
  Examples examples;
  ExportCOptions options;
  options.train_batch = 8;
  ASSERT_OK(ExportC(&parts.whole, folder_ / "model.c", options));
  const auto number_of = [&](const std::string& label) {
    const std::string text = ReadWhole(folder_ / "model.c");
    return std::atol(text.c_str() + text.find(label) + label.size());
  };
  const long ram = number_of("RAM:   "), flash = number_of("flash: ");
  options.calibration = examples.Batches({12, 10, 2}, {5}, 8);
  ASSERT_OK(ExportC(&parts.whole, folder_ / "model.c", options));
  EXPECT_LT(number_of("RAM:   "), ram / 2);
  EXPECT_LT(number_of("flash: "), flash);
  const std::string text = ReadWhole(folder_ / "model.c");
  EXPECT_TRUE(Contains(text, "In int8 up to layer 'global_average_pooling2d'"));
  EXPECT_TRUE(Contains(text, "have the bits of `ringlet train`"));
  EXPECT_FALSE(Contains(ReadWhole(folder_ / "model.h"), "predict_int8"));
}

TEST_F(CInt8TrainingTest, Export_WithoutAFrozenBody_IsRefused) {
  Examples examples;
  ExportCOptions options;
  options.train_batch = 1;
  options.calibration = examples.Batches({6, 4}, {3}, 8);
  const auto expect_refused = [&](Model* model, const char* why) {
    model->Compile(SGD(), MeanSquaredError());
    ASSERT_OK(model->status());
    ExpectRefused(
        [&](const std::string& path) { return ExportC(model, path, options); },
        {why});
  };
  Sequential all({Input({6, 4}), Flatten(), Dense(4).Name("first"), Dense(3)});
  expect_refused(
      &all, "no whole layer computes before the first trained one, 'first'");
  Functional branch;
  const auto x =
      branch.Add(Dense(4).Trainable(false),
                 {branch.Add(Flatten(), {branch.Add(Input({6, 4}))})});
  const auto y = branch.Add(Dense(4).Name("side"), {x});
  branch.Add(Dense(3), {branch.Add(Add().Name("sum"), {x, y})});
  expect_refused(&branch, "layer 'sum' (Add) has several inputs");
  Sequential within({Input({6, 4}), SeparableConv1D(3, 3).Name("it"), Flatten(),
                     Dense(3).Trainable(false)});
  options.frozen_weights = {"it/depthwise_kernel"};
  expect_refused(&within, "no whole layer computes before");
  options.frozen_weights.clear();
  Sequential masked(
      {Input({6, 4}), Masking(), LSTM(3).Trainable(false), Dense(3)});
  expect_refused(&masked, "int8 has none");
}

}  // namespace
}  // namespace ringlet
