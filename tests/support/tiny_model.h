// A small problem that trains in a blink: three classes of points in a plane.

#ifndef RINGLET_TESTS_SUPPORT_TINY_MODEL_H_
#define RINGLET_TESTS_SUPPORT_TINY_MODEL_H_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "model_weights.h"
#include "ringlet/compute.h"
#include "ringlet/custom_layer.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {

// `count` points (2 floats) with their class (int32) by sector. The points are
// static, so they exist until the process ends. Any thread may read them: ranks
// are threads in some tests.
inline Dataset Points(int64_t count, uint64_t seed = 7) {
  struct Data {
    std::vector<float> x;
    std::vector<int32_t> y;
  };
  static std::mutex mutex;
  static std::map<std::pair<int64_t, uint64_t>, Data> made;
  const std::lock_guard<std::mutex> lock(mutex);
  Data& data = made[{count, seed}];
  const Philox random(seed, 0);
  for (int64_t i = static_cast<int64_t>(data.y.size()); i < count; ++i) {
    const auto bits = random.At(static_cast<uint64_t>(i));
    const float turn = Philox::Unit(bits[0]);
    data.x.push_back(std::cos(turn * 6.2831853f));
    data.x.push_back(std::sin(turn * 6.2831853f));
    data.y.push_back(static_cast<int32_t>(turn * 3));
  }
  return Dataset(MemorySource({DType::kFloat32, {2}}, data.x.data(),
                              {DType::kInt32, {}}, data.y.data(), count));
}

inline std::unique_ptr<Sequential> TinyModel(
    const Optimizer& optimizer = SGD(0.1f), float dropout = 0,
    const CompileOptions& options = {}, int64_t units = 16) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(units, kRelu));
  // Dropout depends on the step, and BatchNormalization has state.
  if (dropout > 0) {
    model->Add(Dropout(dropout));
    model->Add(BatchNormalization(0.9f));
  }
  model->Add(Dense(3));
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

// TinyModel with dropout, state, and `layer` before its last layer.
inline std::unique_ptr<Sequential> TinyModelWith(
    std::shared_ptr<const CustomLayer> layer, const CompileOptions& options) {
  auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
      Input({2}), Dense(16, kRelu), Dropout(0.2f), BatchNormalization(0.9f),
      Custom(std::move(layer)), Dense(3)});
  model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

// Options by which the bits do not depend on the number of workers. With
// `local_steps` the workers train in rounds of this number of steps.
inline CompileOptions ExactSums(Collective* collective, int replicas,
                                int64_t local_steps = 0) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = replicas;
  options.local.steps = local_steps;
  return options;
}

inline FitOptions Quiet(int64_t epochs) {
  FitOptions options;
  options.epochs = epochs;
  options.verbose = Verbose::kSilent;
  return options;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_TINY_MODEL_H_
