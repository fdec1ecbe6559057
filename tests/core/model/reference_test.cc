// Holds the layers, losses and training steps against cases computed with
// PyTorch in float64 (tests/reference, generate.py there).

#include "../../support/reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "core/objective/batch_loss.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/losses.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

constexpr double kTolerance = 2e-5;

Activation ActivationOf(const std::string& name) {
  for (Activation a : {kLinear, kRelu, kSigmoid, kTanh, kSoftmax}) {
    if (name == ActivationName(a)) return a;
  }
  ADD_FAILURE() << "unknown activation " << name;
  return kLinear;
}

Layer LayerOf(const Json& about) {
  const std::string kind = about["layer"].text();
  const Activation activation = ActivationOf(about["activation"].text());
  if (kind == "Dense") {
    return Dense(static_cast<int64_t>(about["units"].number()), activation);
  }
  EXPECT_EQ(kind, "Conv2D");
  const Json size = about["kernel_size"];
  return Conv2D(static_cast<int64_t>(about["filters"].number()),
                static_cast<int64_t>(At(size, 0).number()),
                static_cast<int64_t>(At(size, 1).number()), activation)
      .Strides(static_cast<int64_t>(about["strides"].number()))
      .Padding(about["padding"].text() == "same" ? kSame : kValid);
}

void CheckLayer(const std::string& path, int threads) {
  SCOPED_TRACE(path + ", threads " + std::to_string(threads));
  const Reference r = LoadReference(path);
  const Shape& x = r.tensors.at("x").shape;
  const int rank =
      std::min(x.rank(), Shape::kMaxRank);  // the compiler sees the bound
  Shape example;
  for (int i = 1; i < rank; ++i) example.Append(x[i]);
  OpRunner runner(LayerOf(r.about), {example});
  ASSERT_OK(runner.status());
  const OpRun run =
      runner.Run(x[0], {r.floats("x")}, {r.floats("kernel"), r.floats("bias")},
                 r.floats("dy"), threads);
  EXPECT_LT(RelativeError(run.y, r.floats("y")), kTolerance);
  EXPECT_LT(RelativeError(run.dx[0], r.floats("dx")), kTolerance);
  EXPECT_LT(RelativeError(run.d_weights[0], r.floats("d_kernel")), kTolerance);
  EXPECT_LT(RelativeError(run.d_weights[1], r.floats("d_bias")), kTolerance);
}

TEST(ReferenceTest, Layers_EachReferenceCase_AgreeForwardAndBackward) {
  std::vector<std::string> cases = ReferenceCases("dense_");
  for (const std::string& path : ReferenceCases("conv2d_")) {
    cases.push_back(path);
  }
  ASSERT_FALSE(cases.empty()) << "none in " << ReferenceFolder();
  for (const std::string& path : cases) {
    for (int threads : {1, 2, 3}) CheckLayer(path, threads);
  }
}

TEST(ReferenceTest, Losses_EachReferenceCase_AgreeWithGradients) {
  const std::vector<std::string> cases =
      ReferenceCases("loss_sparse_categorical_crossentropy");
  ASSERT_FALSE(cases.empty()) << "none in " << ReferenceFolder();
  for (const std::string& path : cases) {
    SCOPED_TRACE(path);
    const Reference r = LoadReference(path);
    const Shape& shape = r.tensors.at("logits").shape;
    const Loss loss = SparseCategoricalCrossentropy(
        r.about["from_logits"].as_bool() ? kFromLogits : kFromProbabilities);
    std::vector<float> per(static_cast<size_t>(shape[0]));
    std::vector<float> d(static_cast<size_t>(shape.elements()));
    ASSERT_OK(ComputeLoss(loss, {shape[1]}, shape[0], r.floats("logits").data(),
                          r.tensors.at("labels").ints.data(),
                          1.0f / static_cast<float>(shape[0]), per.data(),
                          d.data()));
    EXPECT_LT(RelativeError(per, r.floats("per_example")), kTolerance);
    EXPECT_LT(RelativeError(d, r.floats("d_logits")), kTolerance);
  }
}

Optimizer OptimizerOf(const Json& o) {
  const std::string kind = o["kind"].text();
  const auto value = [&](const char* key) {
    return static_cast<float>(o[key].number());
  };
  if (kind == "SGD") {
    return SGD(value("lr"), value("momentum"), o["nesterov"].as_bool());
  }
  if (kind == "RMSprop") {
    return RMSprop(value("lr"), value("rho"), 0, value("epsilon"));
  }
  EXPECT_EQ(kind, "Adam");
  return Adam(value("lr"), value("beta_1"), value("beta_2"), value("epsilon"));
}

Dataset Images(const std::string& part) {
  const char* source = std::getenv("RINGLET_SOURCE");
  const std::string begin = std::string(source == nullptr ? "." : source) +
                            "/data/fashion-mnist-mini/" + part + "-";
  return IdxDataset(begin + "images-idx3-ubyte.gz",
                    begin + "labels-idx1-ubyte.gz")
      .Map(Scale(1 / 255.f));
}

// One worker takes at each step the examples of all workers of the case
// together.
void CheckTrajectory(const std::string& path, int threads) {
  SCOPED_TRACE(path);
  const Reference r = LoadReference(path);
  const float l2 = static_cast<float>(r.about["l2"].number());
  Sequential model({Input({28, 28}), Reshape({28, 28, 1}),
                    Conv2D(4, 3, kRelu).KernelRegularizer(L2(l2)), Flatten(),
                    Dense(16, kRelu).KernelRegularizer(L2(l2)),
                    Dense(10).KernelRegularizer(L2(l2))});
  CompileOptions options;
  options.threads = threads;
  model.Compile(OptimizerOf(r.about["optimizer"]),
                SparseCategoricalCrossentropy(kFromLogits), {Accuracy()},
                options);
  ASSERT_OK(model.status());
  for (const Variable& v : model.variables()) {
    const std::vector<float>& init = r.floats("init/" + v.path);
    ASSERT_EQ(static_cast<int64_t>(init.size()), v.size());
    std::copy(init.begin(), init.end(), model.weights() + v.offset);
  }
  const int64_t batch_size = static_cast<int64_t>(
      r.about["batch_per_worker"].number() * r.about["workers"].number());
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(model.OpenLoader(Images("train").Repeat().Batch(batch_size), {},
                             &loader));
  const std::vector<float>& losses = r.floats("loss");
  for (size_t step = 0; step < losses.size(); ++step) {
    Batch batch;
    ASSERT_OK(loader->Next(&batch));
    ASSERT_OK(model.TrainStep(batch));
    EXPECT_NEAR(model.step_metrics()[0].Result(), losses[step],
                1e-4 * losses[step])
        << "step " << step;
    EXPECT_NEAR(model.step_metrics()[1].Result(), r.floats("accuracy")[step],
                1e-6);
  }
  for (const Variable& v : model.variables()) {
    const std::vector<float> final(model.weights() + v.offset,
                                   model.weights() + v.offset + v.size());
    EXPECT_LT(RelativeError(final, r.floats("final/" + v.path)), 1e-3)
        << v.path;
  }
}

TEST(ReferenceTest, Training_EachReferenceCase_FollowsItsTrajectory) {
  const std::vector<std::string> cases = ReferenceCases("trajectory_");
  ASSERT_FALSE(cases.empty()) << "none in " << ReferenceFolder();
  for (const std::string& path : cases) {
    for (int threads : {1, 2}) CheckTrajectory(path, threads);
  }
}

// Fills the weights like hashed() in generate.py.
void FillHashed(const Json& about, const Variable& v, float* weights) {
  const uint64_t seed = static_cast<uint64_t>(At(about, 0).number()) << 32;
  const float limit = static_cast<float>(At(about, 1).number());
  const float base = static_cast<float>(At(about, 2).number());
  for (uint64_t i = 0; i < static_cast<uint64_t>(v.size()); ++i) {
    uint64_t h = seed + i;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
    const float unit = static_cast<float>(h >> 40) * 0x1p-23f - 1;
    weights[v.offset + static_cast<int64_t>(i)] = base + unit * limit;
  }
}

// Every `stride`-th value.
std::vector<float> Sample(const float* values, int64_t n, int64_t stride) {
  std::vector<float> sample;
  for (int64_t i = 0; i < n; i += stride) sample.push_back(values[i]);
  return sample;
}

// A whole model, with a short last batch, and evaluated after training in
// batches of another size.
void CheckFit(const std::string& path, int threads) {
  SCOPED_TRACE(path + ", threads " + std::to_string(threads));
  const Reference r = LoadReference(path);
  const auto number = [&](const char* key) {
    return static_cast<int64_t>(r.about[key].number());
  };
  std::unique_ptr<Model> model;
  JsonWriter json;
  WriteJson(r.about["model"], &json);
  ASSERT_OK(ModelFromJson(json.text(), &model));
  CompileOptions options;
  options.threads = threads;
  model->Compile(OptimizerOf(r.about["optimizer"]),
                 SparseCategoricalCrossentropy(kFromLogits), {Accuracy()},
                 options);
  ASSERT_OK(model->status());
  for (const Variable& v : model->variables()) {
    FillHashed(r.about["init"][v.path.c_str()], v, model->weights());
  }
  const std::vector<float>& losses = r.floats("loss");
  {
    std::unique_ptr<BatchLoader> loader;
    ASSERT_OK(model->OpenLoader(Images("train")
                                    .Take(number("examples"))
                                    .Batch(number("batch"))
                                    .Repeat(number("epochs")),
                                {}, &loader));
    Batch batch;
    for (size_t step = 0; step < losses.size(); ++step) {
      ASSERT_OK(loader->Next(&batch));
      ASSERT_OK(model->TrainStep(batch));
      EXPECT_NEAR(model->step_metrics()[0].Result(), losses[step],
                  1e-4 * losses[step])
          << "step " << step;
      EXPECT_NEAR(model->step_metrics()[1].Result(), r.floats("accuracy")[step],
                  1e-6);
    }
    EXPECT_TRUE(batch.last);
  }
  EvaluateOptions quiet;
  quiet.verbose = Verbose::kSilent;
  const auto logs =
      model->Evaluate(Images("t10k").Batch(number("validation_batch")), quiet);
  ASSERT_OK(logs.status());
  const std::vector<float>& expected = r.floats("validation");
  EXPECT_NEAR(*logs->Find("loss"), expected[0], 1e-4 * expected[0]);
  EXPECT_NEAR(*logs->Find("accuracy"), expected[1], 1e-6);
  for (const Variable& v : model->variables()) {
    EXPECT_LT(RelativeError(Sample(model->weights() + v.offset, v.size(),
                                   number("sample")),
                            r.floats("final/" + v.path)),
              1e-3)
        << v.path;
  }
}

TEST(ReferenceTest, Fit_ShortLastBatch_FollowsTheReference) {
  const std::vector<std::string> cases = ReferenceCases("fit_");
  ASSERT_FALSE(cases.empty()) << "none in " << ReferenceFolder();
  for (const std::string& path : cases) {
    for (int threads : {1, 2}) CheckFit(path, threads);
  }
}

}  // namespace
}  // namespace ringlet
