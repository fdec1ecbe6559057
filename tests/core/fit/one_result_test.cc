// Whole trainings end with the same bits for any threads, workers and kernels.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "core/base/ieee_arithmetic.h"
#include "ringlet/compute.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

struct Training {
  const char* name;
  Shape input;
  std::vector<Layer> layers;
  Optimizer optimizer;
  Loss loss;
  // The number of floats in a target. With 0 the target is one of 10 classes.
  int64_t outputs;
};

Optimizer Clipped(Optimizer optimizer) {
  optimizer.global_clipnorm = 0.5f;
  return optimizer;
}

// Makes a layer of self-attention over steps with positions.
Layer Encoder(const Shape& input) {
  Functional model;
  const auto x = model.Add(Input(input));
  const auto placed =
      model.Add(Add(), {x, model.Add(PositionEmbedding(input[0] + 1), {x})});
  const auto seen =
      model.Add(MultiHeadAttention(3, 5).Dropout(0.1f).UseCausalMask(true),
                {placed, placed});
  const auto sum =
      model.Add(LayerNormalization(), {model.Add(Add(), {placed, seen})});
  model.Add(Attention().UseScale(true), {sum, placed, seen});
  return model.AsLayer();
}

const std::vector<Training>& Trainings() {
  static const auto* const trainings = new std::vector<Training>{
      {"regression",
       {13},
       {Dense(70, kTanh), Dense(33, kGelu),
        Dense(17, kSigmoid).KernelRegularizer(L2(1e-4f)), Dense(3)},
       Clipped(Adam(0.01f)),
       LogCosh(),
       3},
      {"norms",
       {40},
       {Dense(48), BatchNormalization(), ActivationLayer(kSilu), Dense(40),
        LayerNormalization(), ActivationLayer(kMish), Dropout(0.2f), Dense(10)},
       RMSprop(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"depthwise",
       {11, 11, 3},
       {DepthwiseConv2D(3), BatchNormalization(), ReLU(6), AveragePooling2D(2),
        DepthwiseConv2D(3), ActivationLayer(kElu), GlobalAveragePooling2D(),
        Dense(10, kSoftmax)},
       SGD(0.05f, 0.9f, /*nesterov=*/true),
       SparseCategoricalCrossentropy(),
       0},
      {"augmented",
       {11, 9, 3},
       {RandomFlip(), RandomTranslation(0.2f, 0.2f), RandomRotation(0.1f),
        RandomZoom(0.2f).FillMode(FillMode::kWrap),
        RandomContrast(0.5f).ValueRange(-1, 1), RandomCrop(9, 8),
        Conv2D(8, 3, kRelu), RandomBrightness(0.1f).ValueRange(0, 2),
        RandomRotation(0.1f), Resizing(5, 4), Flatten(), Dense(10)},
       Adam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"separable",
       {12, 12, 2},
       {SeparableConv2D(24, 3), BatchNormalization(), ActivationLayer(kRelu),
        SeparableConv2D(32, 3), GlobalMaxPooling2D(), Dense(10)},
       Nadam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"recurrent",
       {28, 6},
       {Conv1D(16, 3, kRelu),
        LSTM(24).ReturnSequences(true).Dropout(0.2f).RecurrentDropout(0.1f),
        Bidirectional(GRU(10).ReturnSequences(true)),
        TimeDistributed(Dense(12, kTanh)), GRU(9).ResetAfter(false), Dense(10)},
       Adam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"embedding",
       {30},
       {Sigmoid(), Rescaling(50), Embedding(50, 8), SimpleRNN(20), Dense(10)},
       Adam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"rows of an embedding",
       {30},
       {Sigmoid(), Rescaling(500), Embedding(500, 8), SimpleRNN(20), Dense(10)},
       SGD(0.5f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"lora",
       {30},
       {Sigmoid(), Rescaling(50), Embedding(50, 8).LoraRank(2), Flatten(),
        Dense(150, kGelu).LoraRank(5).LoraAlpha(9), BatchNormalization(),
        Dense(130, kRelu).LoraRank(1).UseBias(false), Dense(10)},
       Adam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"transposed",
       {5, 6, 3},
       {Conv2D(12, 3, kRelu), Conv2DTranspose(9, 3, kTanh).Strides(2),
        Conv2DTranspose(17, 4).Padding(kSame).Strides(1, 2), Reshape({-1, 17}),
        Conv1DTranspose(6, 5).Strides(3), GlobalMaxPooling1D(), Dense(10)},
       Adam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"attention",
       {70, 6},
       {Encoder({70, 6}), Flatten(), Dense(10)},
       Adam(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"tutorials",
       {28, 28, 1},
       {Conv2D(32, 3, kRelu), Flatten(), Dense(128, kRelu), Dense(10)},
       SGD(0.01f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
      {"lenet",
       {28, 28, 1},
       {Conv2D(6, 5, kTanh), AveragePooling2D(2), Conv2D(16, 5, kTanh),
        AveragePooling2D(2), Flatten(), Dense(120, kTanh), Dense(84, kTanh),
        Dense(10)},
       Adam(0.002f),
       SparseCategoricalCrossentropy(kFromLogits),
       0},
  };
  return *trainings;
}

// Trains epochs of 90 examples with a short last batch, and a smaller learning
// rate after the second epoch. Returns the bits of all weights, with
// statistics.
std::string Trained(const Training& training, int threads) {
  constexpr int64_t kExamples = 90;
  const Philox random(11, 12);
  const int64_t inputs = training.input.elements();
  std::vector<float> x, y;
  std::vector<int32_t> classes;
  for (int64_t i = 0; i < kExamples * inputs; ++i) {
    x.push_back(2 * Philox::Unit(random.At(static_cast<uint64_t>(i))[0]) - 1);
  }
  for (int64_t i = 0; i < kExamples; ++i) {
    classes.push_back(static_cast<int32_t>(i % 10));
    for (int64_t j = 0; j < training.outputs; ++j) {
      y.push_back(x[static_cast<size_t>(i * inputs + j)] * 4);
    }
  }
  const bool has_classes = training.outputs == 0;
  const ExampleSpec targets =
      has_classes ? ExampleSpec{DType::kInt32, {}}
                  : ExampleSpec{DType::kFloat32, {training.outputs}};
  const void* const values =
      has_classes ? static_cast<const void*>(classes.data()) : y.data();
  Sequential model;
  model.Add(Input(training.input));
  for (const Layer& layer : training.layers) model.Add(layer);
  CompileOptions options;
  options.threads = threads;
  options.seed = 5;
  model.Compile(training.optimizer, training.loss, {}, options);
  FitOptions fit;
  fit.epochs = 3;
  fit.verbose = Verbose::kSilent;
  ReduceLROnPlateauOptions plateau;
  plateau.monitor = "loss";
  plateau.factor = 0.7;
  plateau.patience = 1;
  plateau.min_delta = 1e9;
  fit.callbacks = {ReduceLROnPlateau(plateau)};
  EXPECT_OK(model
                .Fit(Dataset(MemorySource({DType::kFloat32, training.input},
                                          x.data(), targets, values, kExamples))
                         .Map(Scale(0.7f))
                         .Batch(32),
                     fit)
                .status());
  EXPECT_TRUE(std::isfinite(model.weights()[0]));
  return std::string(reinterpret_cast<const char*>(model.weights()),
                     static_cast<size_t>(model.num_weights()) * sizeof(float));
}

// A slow build tries one number of threads for each training.
TEST(OneResultTest, Training_AnyNumberOfThreads_HasOneResult) {
  // An emulator is slow, and has no other threads than this machine.
  const int most = std::getenv("RINGLET_EMULATED") != nullptr ? 2 : 4;
  int turn = 0;
  for (const Training& training : Trainings()) {
    const int once = 2 + turn++ % (most - 1);
    const std::string one = Trained(training, 1);
    for (int threads = 2; threads <= most; ++threads) {
      if (!RunsAllCases() && threads != once) continue;
      EXPECT_TRUE(Trained(training, threads) == one)
          << training.name << ", " << threads << " threads";
    }
    if (!RunsAllCases() && turn > 1) continue;
    EXPECT_TRUE(Trained(training, 1) == one) << training.name << ", again";
  }
}

#if defined(__SSE2__)
// Rounding upwards, denormals taken for zero, as a program may have set up.
TEST(OneResultTest, Training_AnyArithmeticModeOfCaller_HasOneResult) {
  const Training& training = Trainings()[0];
  const std::string usual = Trained(training, 2);
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0xc040);
  const std::string unusual = Trained(training, 2);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_TRUE(unusual == usual);
  EXPECT_EQ(after & 0xffc0, (saved | 0xc040) & 0xffc0)
      << "the mode is the caller's";
}
#endif

}  // namespace
}  // namespace ringlet
