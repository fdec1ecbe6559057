// Tests that a C file that trains has the trainer's bits: weights, slots and
// losses after each of several steps, for random models.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"
#include "core/base/byte_order.h"
#include "core/base/text.h"
#include "core/compute/gemm.h"
#include "ringlet/checkpoint.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

const char* const kCcCommand =
    std::getenv("RINGLET_EMULATED") != nullptr          ? ""
    : std::system("cc --version > /dev/null 2>&1") == 0 ? "cc"
                                                        : "";

// The compiler's flag for fused multiply-adds. Without it the C file computes
// them with doubles.
#if defined(__x86_64__)
const char kFused[] = "-mfma ";
#else
const char kFused[] = "";
#endif

// A C file as a library of this process. Undefined behaviour ends it.
// How a library is compiled: with checks, or as fast as the compiler can, when
// it may reorder and fuse the most.
const char kChecked[] =
    "-O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error";
const char kFast[] = "-O3 -march=native";

class CLibrary {
 public:
  CLibrary(const TempFolder& folder, const std::string& flags) {
    const std::string file = folder / "model.c", to = folder / "model.so";
    const std::string command = std::string(kCcCommand) +
                                " -std=c99 -Wall -Wextra -pedantic "
                                "-Wconversion -Werror -fPIC -shared " +
                                flags + " " + file + " -o " + to;
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    library_ = dlopen(to.c_str(), RTLD_NOW);
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  ~CLibrary() {
    if (library_ != nullptr) dlclose(library_);
  }
  template <typename Function>
  Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  int Train(const float* x, const void* y, float* loss) const {
    return Find<int(const float*, const void*, float*)>("model_train")(x, y,
                                                                       loss);
  }
  int Begin(int examples) const {
    return Find<int(int)>("model_begin")(examples);
  }
  int Predict(const float* x, float* y) const {
    return Find<int(const float*, float*)>("model_predict")(x, y);
  }
  std::string Save(size_t bytes) const {
    std::string state(bytes, '\0');
    Find<void(char*)>("model_save")(state.data());
    return state;
  }
  int Load(const std::string& state) const {
    return Find<int(const char*, int)>("model_load")(
        state.data(), static_cast<int>(state.size()));
  }

 private:
  void* library_ = nullptr;
};

// "#define MODEL_STATE 123" of the header file.
int64_t Defined(const TempFolder& folder, const std::string& name) {
  const std::string header = ReadWhole(folder / "model.h");
  const std::string define = "#define MODEL_" + name + " ";
  const size_t at = header.find(define);
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos
             ? 0
             : std::atol(header.c_str() + at + define.size());
}

struct Drawn {
  std::vector<float> x, floats;
  std::vector<int32_t> classes;
};

// A model of layers that train in C, compiled.
class DrawnModel {
 public:
  explicit DrawnModel(uint32_t seed) : random_(seed) { Draw(); }

  Model* model() { return &*model_; }
  const Batch& NextBatch(int64_t count) {
    const int64_t inputs = model_->input_shape().elements();
    data_.x.clear();
    for (int64_t i = 0; i < count * inputs; ++i) data_.x.push_back(Number());
    const Loss& loss = model_->loss();
    const int64_t targets = loss.targets(model_->output_shape());
    data_.classes.clear();
    data_.floats.clear();
    for (int64_t i = 0; i < count * targets; ++i) {
      data_.classes.push_back(
          static_cast<int32_t>(Below(model_->output_shape().back())));
      data_.floats.push_back(loss.kind == Loss::Kind::kMeanSquaredError
                                 ? Number()
                                 : static_cast<float>(Below(2)));
    }
    step_ = Batch();
    step_.count = step_.global_count = count;
    step_.x = data_.x.data();
    step_.y = loss.takes_classes()
                  ? static_cast<const void*>(data_.classes.data())
                  : data_.floats.data();
    return step_;
  }
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint32_t>(n));
  }

 private:
  float Number() {
    return static_cast<float>(static_cast<int64_t>(random_() % 4001) - 2000) /
           1000;
  }
  Activation SomeActivation() {
    constexpr Activation kSome[] = {kLinear, kRelu,      kSigmoid, kTanh,
                                    kRelu6,  kLeakyRelu, kElu,     kSoftmax};
    return kSome[Below(std::size(kSome))];
  }

  void AddImageLayers(std::vector<Layer>* layers) {
    for (int64_t i = 1 + Below(3); i > 0; --i) {
      const PaddingMode padding = Below(2) == 0 ? kSame : kValid;
      switch (Below(9)) {
        case 0:
          layers->push_back(MaxPooling2D(2, 1 + Below(2)).Padding(padding));
          break;
        case 1:
          layers->push_back(AveragePooling2D(2, 1 + Below(2)).Padding(padding));
          break;
        case 2:
          layers->push_back(DepthwiseConv2D(3, SomeActivation())
                                .Padding(padding)
                                .Strides(1 + Below(2)));
          break;
        case 4:
          layers->push_back(SeparableConv2D(6, 3).Trainable(false));
          break;
        case 5:
          layers->push_back(Conv2D(8, 3, SomeActivation()));
          layers->push_back(Conv2D(12, 3).Padding(kSame).Groups(4));
          break;
        case 3:
          layers->push_back(BatchNormalization().Trainable(false));
          layers->push_back(ReLU());
          break;
        default:
          layers->push_back(
              Conv2D(4 * (1 + Below(5)), 1 + 2 * Below(2), SomeActivation())
                  .Padding(padding)
                  .Strides(1 + Below(2)));
      }
    }
    layers->push_back(Below(2) == 0 ? GlobalAveragePooling2D() : Flatten());
  }

  void Draw() {
    std::vector<Layer> layers;
    switch (Below(4)) {
      case 2:
        layers = {Input({15, 5}),
                  Conv1D(6 * (1 + Below(3)), 3, SomeActivation())
                      .Padding(kCausal)
                      .DilationRate(1 + Below(2)),
                  MaxPooling1D(3).Strides(2),
                  DepthwiseConv1D(4).Padding(kSame)};
        if (Below(2) == 0) layers.push_back(GlobalAveragePooling1D());
        break;
      case 0:
        layers = {Input({9, 8, 3})};
        AddImageLayers(&layers);
        break;
      case 1:
        layers = {Input({3 + Below(3), 7})};
        layers.push_back(Dense(9, SomeActivation()));
        if (Below(2) == 0) layers.push_back(Flatten());
        break;
      default:
        layers = {Input({20 + Below(200)})};
    }
    if (Below(2) == 0) layers.push_back(Rescaling(0.5f, 0.125f));
    for (int64_t i = Below(3); i > 0; --i) {
      layers.push_back(Dense(1 + Below(180), SomeActivation()));
      if (Below(3) == 0) layers.push_back(LeakyReLU());
      if (Below(3) == 0) layers.push_back(ActivationLayer(kTanh));
    }
    const int64_t frozen =
        Below(3) == 0 ? Below(static_cast<int64_t>(layers.size())) : 0;
    for (int64_t i = 1; i < frozen; ++i) {
      layers[static_cast<size_t>(i)].Trainable(false);
    }
    const int64_t kind = Below(7);
    const int64_t width = kind == 2  ? 1
                          : kind < 2 ? 2 + Below(100)
                                     : 1 + Below(40);
    layers.push_back(
        Dense(std::max<int64_t>(width, kind < 5 && kind != 2 ? 2 : 1),
              kind == 0 || kind == 3   ? kSoftmax
              : kind == 2              ? kSigmoid
              : kind == 5 || kind == 6 ? SomeActivation()
                                       : kLinear));
    const Loss losses[] = {SparseCategoricalCrossentropy(),
                           SparseCategoricalCrossentropy(kFromLogits),
                           BinaryCrossentropy(),
                           CategoricalCrossentropy(),
                           CategoricalCrossentropy(kFromLogits),
                           MeanSquaredError(),
                           BinaryCrossentropy(kFromLogits)};
    const Optimizer optimizers[] = {SGD(0.05f),
                                    SGD(0.05f, 0.9f),
                                    SGD(0.05f, 0.9f, true),
                                    Adam(0.01f),
                                    Adam(0.01f, 0.8f, 0.99f, 1e-5f, true),
                                    AdamW(0.01f, 0.1f)};
    model_ = std::make_unique<Sequential>();
    for (const Layer& layer : layers) model_->Add(layer);
    model_->Compile(optimizers[Below(std::size(optimizers))], losses[kind]);
    if (!model_->status().ok()) return;  // a window larger than the image
    for (int64_t i = 0; i < model_->num_weights(); ++i) {
      model_->weights()[i] = model_->weights()[i] == 0
                                 ? Number() / 8
                                 : model_->weights()[i] * 1.0009765625f;
    }
    for (const Variable& v : model_->variables()) {
      if (!Contains(v.path, "variance")) continue;
      std::fill_n(model_->weights() + v.offset, v.size(), 0.75f);
    }
  }

  std::mt19937 random_;
  std::unique_ptr<Sequential> model_;
  Drawn data_;
  Batch step_;
};

// The trained weights and the slots, as the state has them.
std::string NumbersOf(Model* model) {
  std::string bytes;
  const auto append = [&](const float* from, int64_t n) {
    bytes.append(reinterpret_cast<const char*>(from),
                 static_cast<size_t>(n) * sizeof(float));
  };
  for (const Variable& v : model->variables()) {
    if (v.trained()) append(model->weights() + v.offset, v.size());
  }
  std::vector<StateSpan> spans;
  model->optimizer_state()->AppendState(&spans);
  for (const StateSpan& span : spans) {
    if (span.dtype != DType::kFloat32 || Contains(span.name, "learning_rate")) {
      continue;
    }
    append(static_cast<const float*>(span.data), span.shape.elements());
  }
  return bytes;
}

// Compares the numbers behind a state's header.
void ExpectNumbers(const std::string& state, Model* model) {
  const auto begin =
      static_cast<size_t>(LoadLittle<uint64_t>(
          reinterpret_cast<const unsigned char*>(state.data()))) +
      8;
  const std::string numbers = NumbersOf(model);
  ASSERT_LE(begin + numbers.size(), state.size());
  size_t different = 0, first = 0;
  for (size_t i = numbers.size(); i >= 4; i -= 4) {
    if (state.compare(begin + i - 4, 4, numbers, i - 4, 4) == 0) continue;
    ++different;
    first = i / 4 - 1;
  }
  EXPECT_EQ(different, 0u) << "of " << numbers.size() / 4 << " numbers, from "
                           << first;
}

class CTrainingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (*kCcCommand == '\0') GTEST_SKIP() << "needs a compiler of this machine";
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) {
      GTEST_SKIP() << "compares bytes of little-endian states";
    }
    if (!UsesFusedMultiplyAdd()) {
      GTEST_SKIP() << "needs kernels with fused multiply-adds";
    }
  }

  // Trains in C and here, and compares after each step.
  void Compare(DrawnModel* drawn, const CLibrary& c, int64_t batch, int steps) {
    Model* const model = drawn->model();
    const auto state = static_cast<size_t>(Defined(folder_, "STATE"));
    const int64_t targets = Defined(folder_, "TARGETS"),
                  outputs = model->output_shape().elements(),
                  inputs = model->input_shape().elements();
    for (int s = 0; s < steps && !HasFailure(); ++s) {
      const bool is_short = s % 3 == 2 && batch > 1;
      const int64_t count = is_short ? 1 + drawn->Below(batch) : batch;
      ASSERT_EQ(c.Begin(static_cast<int>(count)), 0);
      const Batch& step = drawn->NextBatch(count);
      std::vector<float> out(static_cast<size_t>(outputs));
      ASSERT_OK(model->Forward(step.x, count, false));
      const std::vector<float> predicted(model->output(),
                                         model->output() + outputs);
      ASSERT_EQ(c.Predict(step.x, out.data()), 0);
      for (size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out[i], predicted[i]) << i;
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        float loss = 0;
        ASSERT_EQ(
            c.Train(step.x + i * inputs,
                    static_cast<const char*>(step.y) + 4 * i * targets, &loss),
            0);
        sum += loss;
      }
      ASSERT_OK(model->TrainStep(step));
      EXPECT_EQ(model->metric_value(0, model->step_metrics()),
                sum / static_cast<double>(count))
          << "step " << s;
      SCOPED_TRACE("after step " + std::to_string(s));
      ExpectNumbers(c.Save(state), model);
    }
  }

  Status Export(Model* model, int64_t batch) {
    ExportCOptions options;
    options.train_batch = batch;
    return ExportC(model, folder_ / "model.c", options);
  }

  TempFolder folder_;
};

TEST_F(CTrainingTest, Steps_DrawnModels_HaveTheTrainersBits) {
  const int first = std::atoi(EnvironmentOr("RINGLET_FIRST_SEED", "1").c_str());
  const int last = std::atoi(EnvironmentOr("RINGLET_LAST_SEED", "9").c_str());
  constexpr int64_t kBatches[] = {1, 5, 32, 150};
  int compared = 0;
  for (int seed = first; seed < last && !HasFailure(); ++seed) {
    const int64_t batch = kBatches[seed % 4];
    DrawnModel drawn(static_cast<uint32_t>(seed));
    Model* const model = drawn.model();
    if (!model->status().ok() || model->num_trained() == 0) continue;
    SCOPED_TRACE(FormatText("seed %d, batch %d, %s, %s\n%s", seed,
                            static_cast<int>(batch), model->optimizer().name(),
                            model->loss().class_name(),
                            model->Summary().c_str()));
    ASSERT_OK(Export(model, batch));
    const std::string flags[] = {std::string(kFused) + kChecked, kChecked,
                                 kFast};
    const CLibrary c(folder_, flags[seed / 4 % 3]);
    Compare(&drawn, c, batch, 7);
    ++compared;
  }
  std::printf("%d models\n", compared);
}

// A model of which the head is trained.
Sequential SomeHead() {
  return Sequential({Input({6, 5, 2}),
                     Conv2D(4, 3, kRelu).Trainable(false).Name("body"),
                     Flatten(), Dense(7, kSoftmax).Name("head")});
}

TEST_F(CTrainingTest, Export_NamesWithCommentMarks_AreCompiled) {
  Sequential model(
      {Input({4}), Dropout(0.5f).Name("a/*b"), Dense(3).Name("c*/int d;/*")});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(Export(&model, 1));
  EXPECT_TRUE(Contains(ReadWhole(folder_ / "model.c"), "c_/int d;/_/kernel"));
  const CLibrary c(folder_, kChecked);
}

TEST_F(CTrainingTest, Load_SavedState_ContinuesWithTheSameBits) {
  Sequential model = SomeHead();
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy());
  ASSERT_OK(Export(&model, 3));
  const CLibrary c(folder_, kChecked);
  const auto bytes = static_cast<size_t>(Defined(folder_, "STATE"));
  Examples examples;
  std::vector<float> x = SomeNumbers(60 * 9);
  const auto train = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const int32_t y = i % 7;
      ASSERT_EQ(c.Train(x.data() + 60 * i, &y, nullptr), 0);
    }
  };
  train(0, 3);
  const std::string first = c.Save(bytes);
  train(3, 9);
  const std::string last = c.Save(bytes);
  train(0, 2);  // dropped
  ASSERT_EQ(c.Load(first), 0);
  EXPECT_EQ(c.Save(bytes), first);
  train(3, 9);
  EXPECT_EQ(c.Save(bytes), last);
  EXPECT_NE(first, last);

  // The model takes it back.
  WriteWhole(folder_ / "board.safetensors", last);
  EXPECT_OK(VerifyCheckpoint(folder_ / "board.safetensors"));
  LoadWeightsOptions options;
  options.by_name = true;
  options.warn = [](const std::string&) {};
  WeightsReport report;
  ASSERT_OK(
      LoadWeights(&model, folder_ / "board.safetensors", options, &report));
  EXPECT_EQ(report.loaded,
            (std::vector<std::string>{"head/kernel", "head/bias"}));
  EXPECT_TRUE(report.unexpected.empty());
  const std::string weights = NumbersOf(&model).substr(0, 4 * (12 * 4 * 7 + 7));
  EXPECT_TRUE(Contains(last, weights));
}

TEST_F(CTrainingTest, Load_WrongBytes_AreRefusedWithoutAChange) {
  Sequential model = SomeHead();
  model.Compile(SGD(0.1f, 0.9f), SparseCategoricalCrossentropy());
  ASSERT_OK(Export(&model, 1));
  const CLibrary c(folder_, kChecked);
  const std::string state =
      c.Save(static_cast<size_t>(Defined(folder_, "STATE")));
  for (size_t i = 0; i < state.size(); ++i) {
    std::string wrong = state;
    wrong[i] = static_cast<char>(wrong[i] ^ (1 << i % 8));
    ASSERT_NE(c.Load(wrong), 0) << i;
  }
  EXPECT_EQ(c.Load(state.substr(0, state.size() - 1)), 1);
  EXPECT_EQ(c.Load(state + '\0'), 1);
  EXPECT_EQ(c.Load(""), 1);
  EXPECT_EQ(c.Save(state.size()), state);
  const int32_t wrong_class[] = {7}, negative[] = {-1};
  const std::vector<float> x(60);
  EXPECT_EQ(c.Train(x.data(), wrong_class, nullptr), 1);
  EXPECT_EQ(c.Train(x.data(), negative, nullptr), 1);
  EXPECT_EQ(c.Begin(0), 1);
  EXPECT_EQ(c.Begin(2), 1);
  EXPECT_EQ(c.Save(state.size()), state);
}

// The numbers of the first comment are those that the compiler reports.
TEST_F(CTrainingTest, Comment_StaticMemory_IsThatOfTheFile) {
  Sequential model = SomeHead();
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy());
  ASSERT_OK(Export(&model, 200));
  const std::string text = ReadWhole(folder_ / "model.c");
  EXPECT_TRUE(Contains(text, "have the bits of `ringlet train`"));
  const size_t at = text.find("RAM:   ");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::system(
                ("cd " + folder_.path() +
                 " && cc -std=c99 -O2 -c model.c && size model.o | tail -n 1 > "
                 "size")
                    .c_str()),
            0);
  long code = 0, data = 0, bss = 0;
  ASSERT_EQ(std::sscanf(ReadWhole(folder_ / "size").c_str(), "%ld %ld %ld",
                        &code, &data, &bss),
            3);
  const long ram = std::atol(text.c_str() + at + 7);
  EXPECT_NEAR(static_cast<double>(ram), static_cast<double>(data + bss),
              64 + 0.01 * static_cast<double>(ram));
}

// Each class of layer, frozen before a trained one, has the trainer's bits if
// the file's comment says so.
TEST_F(CTrainingTest, FrozenLayers_NamedAsExact_HaveTheTrainersBits) {
  int exact = 0;
  for (const LayerClass& row : AllLayers()) {
    if (row.make == nullptr || row.inputs == LayerInputs::kNone) continue;
    SCOPED_TRACE(row.name);
    Layer layer = row.make().Name("it").Trainable(false);
    if (layer.kind == Layer::Kind::kReshape) layer.shape = {-1, 4};
    if (layer.kind == Layer::Kind::kPermute) layer.shape = {3, 1, 2};
    if (layer.kind == Layer::Kind::kNormalization) {
      layer.means = {0.3f};
      layer.variances = {1.7f};
    }
    Functional model;
    const auto x =
        model.Add(Input(row.axes == 1 ? Shape{8, 4} : Shape{8, 6, 4}));
    std::vector<int> inputs = {x};
    if (row.inputs == LayerInputs::kList || row.inputs == LayerInputs::kQuery) {
      inputs.push_back(model.Add(ActivationLayer(kTanh), {x}));
    }
    const auto y = model.Add(layer, inputs);
    model.Add(Dense(3), {model.Add(Flatten(), {y})});
    model.Compile(SGD(), MeanSquaredError());
    if (!model.status().ok() || !Export(&model, 1).ok() ||
        !Contains(ReadWhole(folder_ / "model.c"), "have the bits of")) {
      continue;
    }
    const std::vector<float> in =
        SomeNumbers(static_cast<size_t>(model.input_shape().elements()));
    if (!model.Forward(in.data(), 1, false).ok()) continue;  // not tokens
    for (const char* flags : {"-O0", kFast}) {
      SCOPED_TRACE(flags);
      const CLibrary c(folder_, flags);
      float out[3];
      ASSERT_EQ(c.Predict(in.data(), out), 0);
      EXPECT_TRUE(std::equal(out, out + 3, model.output()));
    }
    ++exact;
  }
  EXPECT_GE(exact, 30) << "of all classes";
  std::printf("%d classes\n", exact);
}

TEST(CTrainingFileTest, Export_WhatCDoesNotTrain_IsRefusedByName) {
  ExportCOptions options;
  options.train_batch = 1;
  const auto expect_refused = [&](Model* model,
                                  const std::vector<std::string>& parts) {
    ASSERT_OK(model->status());
    ExpectRefused(
        [&](const std::string& path) { return ExportC(model, path, options); },
        parts);
  };
  const auto expect_layer = [&](const Layer& layer, const char* why) {
    Sequential model(
        {Input({6, 6, 2}), Conv2D(4, 3), layer, Flatten(), Dense(3)});
    model.Compile(SGD(), MeanSquaredError());
    expect_refused(&model, {"it", why, "train only layers that follow it"});
  };
  expect_layer(LayerNormalization().Trainable(false).Name("it"),
               "has no gradient");
  expect_layer(SeparableConv2D(3, 3).Name("it"), "has a depthwise part");
  expect_layer(
      DepthwiseConv2D(3).DepthMultiplier(2).Trainable(false).Name("it"),
      "has a depth_multiplier");
  expect_layer(ActivationLayer(kSilu).Name("it"), "without a gradient in C");
  expect_layer(GlobalMaxPooling2D().KeepDims(true).Name("it"), "maxima");
  Sequential normalized(
      {Input({4}), Dense(4), BatchNormalization().Name("it")});
  normalized.Compile(SGD(), MeanSquaredError());
  expect_refused(&normalized, {"C cannot train weight 'it/gamma'"});
  const auto expect_compile = [&](const Optimizer& optimizer, const Loss& loss,
                                  const char* why) {
    Sequential model({Input({4}), Dense(4)});
    model.Compile(optimizer, loss);
    expect_refused(&model, {why});
  };
  expect_compile(Lion(), MeanSquaredError(), "Lion: it is not SGD");
  expect_compile(SGD(ExponentialDecay(0.1f, 10, 0.5f)), MeanSquaredError(),
                 "give --learning-rate");
  expect_compile(SGD().ClipNorm(1), MeanSquaredError(), "clips");
  expect_compile(SGD(), Huber(), "the loss Huber");
  expect_compile(SGD(), CategoricalCrossentropy(kFromLogits, 0.1f),
                 "label_smoothing");
  Sequential masked({Input({5, 4}), Masking(),
                     LSTM(3).Trainable(false).ReturnSequences(true), Dense(2)});
  masked.Compile(SGD(), MeanSquaredError());
  expect_refused(&masked, {"masks, which C does not"});
  Sequential frozen({Input({4}), Dense(4).Trainable(false)});
  frozen.Compile(SGD(), MeanSquaredError());
  expect_refused(&frozen, {"no weights to train"});
}

TEST(CTrainingFileTest, Comment_LayersWithOtherBits_AreNamed) {
  TempFolder folder;
  Sequential model({Input({5, 4}), LSTM(3).Name("memory").Trainable(false),
                    Dropout(0.5f).Name("drop"), Dense(3)});
  model.Compile(SGD(), MeanSquaredError());
  ExportCOptions options;
  options.train_batch = 1;
  ASSERT_OK(ExportC(&model, folder / "model.c", options));
  const std::string text = ReadWhole(folder / "model.c");
  EXPECT_TRUE(Contains(text, "Not with the bits of `ringlet train`"));
  EXPECT_TRUE(Contains(text, "layer 'drop' (Dropout) is left out"));
  EXPECT_TRUE(Contains(text, "layer 'memory' (LSTM) is computed"));
}

TEST(CTrainingFileTest, Comment_LayersOfMixedBFloat16_AreNamedOnce) {
  TempFolder folder;
  const auto mixed = DTypePolicy::kMixedBFloat16;
  Sequential model(
      {Input({5, 4}),
       TimeDistributed(Dense(3).DType(mixed)).Name("a").Trainable(false),
       TimeDistributed(Dense(3)).DType(mixed).Name("b").Trainable(false),
       TimeDistributed(Dense(3)).Name("c").Trainable(false),
       Flatten().DType(mixed), Dense(3).DType(mixed).Name("output")});
  model.Compile(SGD(), MeanSquaredError());
  ExportCOptions options;
  options.train_batch = 1;
  ASSERT_OK(ExportC(&model, folder / "model.c", options));
  const std::string text = ReadWhole(folder / "model.c");
  EXPECT_TRUE(Contains(
      text,
      "Not with the bits of `ringlet train`:\n"
      "     layer 'a' (TimeDistributed) is not rounded to bfloat16\n"
      "     layer 'b' (TimeDistributed) is not rounded to bfloat16\n\n"))
      << text.substr(0, 2000);
}

}  // namespace
}  // namespace ringlet
