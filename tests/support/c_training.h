// Helpers of the tests of C files that train: such a file as a library, models
// that it can train, and the comparison with the trainer.

#ifndef RINGLET_TESTS_SUPPORT_C_TRAINING_H_
#define RINGLET_TESTS_SUPPORT_C_TRAINING_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "contains.h"
#include "core/base/byte_order.h"
#include "core/base/text.h"
#include "core/compute/gemm.h"
#include "expect_ok.h"
#include "ringlet/checkpoint.h"
#include "ringlet/export.h"
#include "ringlet/model.h"
#include "temp_folder.h"

namespace ringlet {

// The compiler of C files; "" if there is none.
inline const std::string& CcCommand() {
  static const std::string command =
      std::getenv("RINGLET_EMULATED") != nullptr ? ""
      : std::system("cc --version > /dev/null 2>&1") == 0
          ? EnvironmentOr("CC", "cc")
          : "";
  return command;
}

// The compiler's flag for fused multiply-adds. Without it the C file computes
// them with doubles.
#if defined(__x86_64__)
constexpr char kFused[] = "-mfma ";
#else
constexpr char kFused[] = "";
#endif

// How a library is compiled: with checks, or as fast as the compiler can, when
// it may reorder and fuse the most.
constexpr char kChecked[] =
    "-O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error";
constexpr char kFast[] = "-O3 -march=native";

// A C file as a library of this process. Undefined behaviour ends it.
class CLibrary {
 public:
  CLibrary(const TempFolder& folder, const std::string& flags) {
    const std::string file = folder / "model.c", to = folder / "model.so";
    const std::string command = CcCommand() +
                                " -std=c99 -Wall -Wextra -pedantic "
                                "-Wconversion -Wshadow -Werror -fPIC -shared " +
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
inline int64_t Defined(const TempFolder& folder, const std::string& name) {
  const std::string header = ReadWhole(folder / "model.h");
  const std::string define = "#define MODEL_" + name + " ";
  const size_t at = header.find(define);
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos
             ? 0
             : std::atol(header.c_str() + at + define.size());
}

// A model of layers that train in C, compiled.
class DrawnModel {
 public:
  explicit DrawnModel(uint32_t seed) : random_(seed) { Draw(); }

  Model* model() { return &*model_; }
  // Weights that C does not train, of layers that are trained.
  const std::vector<std::string>& frozen() const { return frozen_; }
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

  Layer SomeDense(int64_t units, Activation activation) {
    Layer dense = Dense(units, activation);
    if (Below(3) > 0) return dense;
    return dense.LoraRank(Below(8) == 0 ? 130 : 1 + Below(9))
        .LoraAlpha(1 + Below(9));
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

  // Freezes nothing, the kernels, or any weights but one.
  void FreezeSome() {
    const int64_t kind = Below(4);
    for (const Variable& v : model_->variables()) {
      if (v.trained() &&
          (kind == 0 ? EndsWith(v.path, "/kernel") : kind == 1 && Below(2))) {
        frozen_.push_back(v.path);
      }
    }
    const auto trained =
        std::count_if(model_->variables().begin(), model_->variables().end(),
                      [](const Variable& v) { return v.trained(); });
    if (trained == static_cast<int64_t>(frozen_.size())) frozen_.clear();
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
        layers.push_back(SomeDense(9, SomeActivation()));
        if (Below(2) == 0) layers.push_back(Flatten());
        break;
      default:
        layers = {Input({20 + Below(200)})};
    }
    if (Below(2) == 0) layers.push_back(Rescaling(0.5f, 0.125f));
    for (int64_t i = Below(3); i > 0; --i) {
      layers.push_back(SomeDense(1 + Below(180), SomeActivation()));
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
        SomeDense(std::max<int64_t>(width, kind < 5 && kind != 2 ? 2 : 1),
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
    FreezeSome();
  }

  std::mt19937 random_;
  std::unique_ptr<Sequential> model_;
  struct {
    std::vector<float> x, floats;
    std::vector<int32_t> classes;
  } data_;
  std::vector<std::string> frozen_;
  Batch step_;
};

// The weights that C trains and their slots, as the state has them.
inline std::string NumbersOf(Model* model,
                             const std::vector<std::string>& frozen = {}) {
  std::string bytes;
  const auto append = [&](const float* from, int64_t n) {
    bytes.append(reinterpret_cast<const char*>(from),
                 static_cast<size_t>(n) * sizeof(float));
  };
  const auto is_frozen = [&](const std::string& name) {
    return std::any_of(frozen.begin(), frozen.end(),
                       [&](const std::string& path) {
                         return EndsWith("/" + name, "/" + path);
                       });
  };
  for (const Variable& v : model->variables()) {
    if (v.trained() && !is_frozen(v.path)) {
      append(model->weights() + v.offset, v.size());
    }
  }
  std::vector<StateSpan> spans;
  model->optimizer_state()->AppendState(&spans);
  for (const StateSpan& span : spans) {
    if (span.dtype == DType::kFloat32 &&
        !Contains(span.name, "learning_rate") && !is_frozen(span.name)) {
      append(static_cast<const float*>(span.data), span.shape.elements());
    }
  }
  return bytes;
}

// Compares the numbers behind a state's header.
inline void ExpectNumbers(const std::string& state,
                          const std::string& numbers) {
  const auto begin =
      static_cast<size_t>(LoadLittle<uint64_t>(
          reinterpret_cast<const unsigned char*>(state.data()))) +
      8;
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
    if (CcCommand().empty()) GTEST_SKIP() << "needs a compiler of this machine";
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
      const std::vector<float> before(model->weights(),
                                      model->weights() + model->num_weights());
      ASSERT_OK(model->TrainStep(step));
      for (const Variable& v : model->variables()) {
        if (std::count(drawn->frozen().begin(), drawn->frozen().end(),
                       v.path)) {
          std::copy_n(before.begin() + v.offset, v.size(),
                      model->weights() + v.offset);
        }
      }
      EXPECT_EQ(model->metric_value(0, model->step_metrics()),
                sum / static_cast<double>(count))
          << "step " << s;
      SCOPED_TRACE("after step " + std::to_string(s));
      ExpectNumbers(c.Save(state), NumbersOf(model, drawn->frozen()));
    }
  }

  Status Export(Model* model, int64_t batch,
                const std::vector<std::string>& frozen = {}) {
    ExportCOptions options;
    options.train_batch = batch;
    options.frozen_weights = frozen;
    return ExportC(model, folder_ / "model.c", options);
  }

  TempFolder folder_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_C_TRAINING_H_
