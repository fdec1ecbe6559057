// Weights from elsewhere: files that numpy and PyTorch wrote, in their layout.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "../../support/data_files.h"
#include "../../support/python.h"
#include "../../support/temp_folder.h"
#include "io/checkpoint/model_file.h"
#include "io/data/npy.h"
#include "io/data/npz.h"

namespace ringlet {
namespace {

bool Contains(const Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

LoadWeightsOptions Torch() {
  LoadWeightsOptions options;
  options.layout = WeightsLayout::kTorch;
  options.warn = [](const std::string&) {};
  return options;
}

std::unique_ptr<Model> Compiled(std::initializer_list<Layer> layers) {
  auto model = std::make_unique<Sequential>(layers);
  model->Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_TRUE(model->status().ok()) << model->status().message();
  return model;
}

// The class of tests/torch_weights.py; with its names, or Keras's.
std::unique_ptr<Model> Cnn(bool named) {
  const auto name = [named](const char* n) { return named ? n : ""; };
  return Compiled({Input({10, 7, 2}),
                   Conv2D(3, 3, 2, kRelu).Strides(2, 1).Name(name("features")),
                   Conv2D(6, 1, kRelu).UseBias(false).Name(name("more")),
                   MaxPooling2D(2), Flatten(), Dropout(0.5f),
                   Dense(5, kTanh).Name(name("classifier")),
                   Dense(4).Name(name("last"))});
}

class TorchTest : public testing::Test {
 protected:
  // False: there is no PyTorch to write them.
  bool Write() {
    if (!HavePython()) return false;
    const std::vector<std::string> lines =
        RunPython(Script("torch_weights.py") + folder_.path());
    return lines.empty();
  }

  // The model computes what PyTorch's did.
  void ExpectOutputs(Model* model, const std::string& name) {
    NpyArray x, y;
    ASSERT_TRUE(ReadNpy(folder_ / (name + ".x.npy"), &x).ok());
    ASSERT_TRUE(ReadNpy(folder_ / (name + ".y.npy"), &y).ok());
    const std::vector<float> in = Values<float>(x.data),
                             expected = Values<float>(y.data);
    const Status status = model->Forward(in.data(), x.shape[0], false);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(model->output()[i], expected[i], 2e-6) << name << " " << i;
    }
  }

  TempFolder folder_;
};

TEST_F(TorchTest, WeightsGiveTheOutputsThatPyTorchGives) {
  if (!Write()) GTEST_SKIP() << "needs python3-torch";
  for (const std::string end : {".npz", ".z.npz", ".safetensors"}) {
    SCOPED_TRACE(end);
    const bool npz = end != ".safetensors";
    const auto expect = [&](std::unique_ptr<Model> model,
                            const std::string& name) {
      SCOPED_TRACE(name);
      WeightsReport report;
      const Status status =
          LoadWeights(model.get(), folder_ / (name + end), Torch(), &report);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(report.verified, npz);
      EXPECT_EQ(report.loaded.size(), model->variables().size());
      ExpectOutputs(model.get(), name);
    };
    expect(Cnn(/*named=*/true), "cnn");
    expect(
        Compiled({Input({4}), Dense(4, kRelu).Name("b"), Dense(4).Name("a")}),
        "twins");
    // The names' numbers tell the order.
    expect(Compiled({Input({3}), Dense(3, kTanh), Dense(3, kTanh), Dense(3)}),
           "numbered");
    auto cnn = Cnn(/*named=*/false);
    auto twins = Compiled({Input({4}), Dense(4, kRelu), Dense(4)});
    if (npz) {
      expect(std::move(cnn), "cnn");
      expect(std::move(twins), "twins");
      continue;
    }
    // Sorted by name, they are not the layers'.
    Status status = LoadWeights(cnn.get(), folder_ / ("cnn" + end), Torch());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "(classifier.weight), F32 (3, 2, 3, 2)"))
        << status.message();
    status = LoadWeights(twins.get(), folder_ / ("twins" + end), Torch());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "'a.weight' and 'b.weight' are of one shape"))
        << status.message();
  }
}

// Arrays of 0, 1, 2, … by NpzWriter.
std::string Arrays(const TempFolder& folder,
                   const std::vector<std::pair<std::string, Shape>>& arrays) {
  const std::string path = folder / "w.npz";
  NpzWriter writer;
  EXPECT_TRUE(writer.Open(FileSystem::Posix(), path).ok());
  for (const auto& [name, shape] : arrays) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), 0.f);
    EXPECT_TRUE(writer.Add(name, DType::kFloat32, shape, values.data()).ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
  return path;
}

std::vector<float> WeightsOf(Model* model) {
  return {model->weights(), model->weights() + model->num_weights()};
}

TEST_F(TorchTest, KernelsAreTurnedAsDocumented) {
  auto dense = Compiled({Input({3}), Dense(2)});
  Status status = LoadWeights(
      dense.get(), Arrays(folder_, {{"fc.weight", {2, 3}}, {"fc.bias", {2}}}),
      Torch());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(WeightsOf(dense.get()),
            (std::vector<float>{0, 3, 1, 4, 2, 5, /*bias*/ 0, 1}));

  // (filters, channels, height, width) = (2, 3, 1, 2).
  auto conv =
      Compiled({Input({1, 2, 3}), Conv2D(2, 1, 2).UseBias(false), Flatten()});
  status = LoadWeights(
      conv.get(), Arrays(folder_, {{"conv.weight", {2, 3, 1, 2}}}), Torch());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(WeightsOf(conv.get()),
            (std::vector<float>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));

  // An image of 1 x 2 pixels and 3 channels, flattened, through what leaves
  // its order as it is; PyTorch has channel 0 first.
  Functional model;
  const auto x = model.Add(Input({1, 2, 3}));
  const auto y = model.Add(Flatten(), {x});
  const auto sum =
      model.Add(Add(), {model.Add(Dropout(0.5f), {y}), model.Add(ReLU(), {y})});
  model.Add(Dense(1).UseBias(false), {sum});
  model.Compile(SGD(0.1f), MeanSquaredError());
  status =
      LoadWeights(&model, Arrays(folder_, {{"0.weight", {1, 6}}}), Torch());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(WeightsOf(&model), (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST_F(TorchTest, WhatDoesNotFitIsNamedAndNothingIsOverwritten) {
  const auto expect = [&](Model* model, const LoadWeightsOptions& options,
                          const std::vector<std::pair<std::string, Shape>>& w,
                          const std::string& says) {
    SCOPED_TRACE(says);
    const std::vector<float> before = WeightsOf(model);
    const Status status = LoadWeights(model, Arrays(folder_, w), options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_TRUE(Contains(status, says)) << status.message();
    EXPECT_EQ(WeightsOf(model), before);
  };
  auto model = Compiled({Input({3}), Dense(2)});
  expect(model.get(), Torch(), {{"fc.weight", {3, 2}}, {"fc.bias", {2}}},
         "dense/kernel: F32 (3, 2) in the file (fc.weight), F32 (2, 3) "
         "expected");
  expect(model.get(), Torch(), {{"fc.weight", {2, 3}}},
         "missing in the file 'dense/bias'");
  expect(model.get(), Torch(),
         {{"fc.weight", {2, 3}}, {"fc.bias", {2}}, {"n.weight", {2}}},
         "in the file only 'n.weight'");
  expect(model.get(), Torch(), {{"dense/kernel", {3, 2}}, {"dense/bias", {2}}},
         "missing in the file 'dense/kernel'");
  LoadWeightsOptions keras;
  expect(model.get(), keras, {{"fc.weight", {2, 3}}, {"fc.bias", {2}}},
         "--init-layout torch");
  // Joined after they were flattened, the order in PyTorch is another.
  Functional joined;
  const auto x = joined.Add(Input({2, 2, 2}));
  const auto a = joined.Add(Flatten(), {x}), b = joined.Add(Flatten(), {x});
  joined.Add(Dense(1), {joined.Add(Concatenate(), {a, b})});
  joined.Compile(SGD(0.1f), MeanSquaredError());
  expect(&joined, Torch(), {{"fc.weight", {1, 16}}, {"fc.bias", {1}}},
         "layer 'concatenate'");
}

TEST_F(TorchTest, LayersByNameLeaveTheOthers) {
  auto model = Compiled({Input({3}), Dense(2).Name("fc"), Dense(2)});
  const std::vector<float> before = WeightsOf(model.get());
  LoadWeightsOptions options = Torch();
  options.by_name = true;
  WeightsReport report;
  Status status = LoadWeights(model.get(),
                              Arrays(folder_, {{"head.weight", {9, 9}},
                                               {"fc.weight", {2, 3}},
                                               {"fc.bias", {2}}}),
                              options, &report);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"fc/kernel", "fc/bias"}));
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"head.weight"});
  const std::vector<float> after = WeightsOf(model.get());
  EXPECT_EQ(after[1], 3);
  EXPECT_TRUE(std::equal(before.begin() + 8, before.end(), after.begin() + 8));
}

TEST(NpzWeightsTest, NumpysArchivesInKerasLayoutAreTaken) {
  TempFolder folder;
  auto model = Compiled({Input({3}), Dense(2)});
  for (const std::string prefix : {"", "model/"}) {
    const Status status = LoadWeights(
        model.get(), Arrays(folder, {{prefix + "dense/bias", {2}},
                                     {prefix + "dense/kernel", {3, 2}}}));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1}));
  }
}

// Keras 3's order of get_weights() does not depend on what is trained.
TEST(NpzWeightsTest, ArraysWithoutNamesAreInTheOrderOfTheLayers) {
  TempFolder folder;
  for (const bool trainable : {true, false}) {
    auto model =
        Compiled({Input({3}), Dense(2).Trainable(trainable), Dense(1)});
    const Status status =
        LoadWeights(model.get(), Arrays(folder, {{"arr_0", {3, 2}},
                                                 {"arr_1", {2}},
                                                 {"arr_2", {2, 1}},
                                                 {"arr_3", {1}}}));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 0}));
  }
}

// --- names as Keras and TensorFlow have them ---

// Two layers whose weights differ in shape, and the file's arrays, each of
// values from 0 on.
struct Named {
  std::vector<std::pair<std::string, Shape>> arrays;
  const char* says;  // "": the four are loaded
};

LoadWeightsOptions Silent() {
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return options;
}

TEST(KerasNamesTest, WeightsAreFoundByTheNamesThatKerasGives) {
  TempFolder folder;
  const Shape k0 = {3, 2}, b0 = {2}, k1 = {2, 1}, b1 = {1};
  const auto named = [&](const std::string& before, const std::string& after) {
    return Named{{{before + "dense_1/bias" + after, b1},
                  {before + "dense/kernel" + after, k0},
                  {before + "dense/bias" + after, b0},
                  {before + "dense_1/kernel" + after, k1}},
                 ""};
  };
  std::vector<Named> cases = {
      named("", ""),
      named("", ":0"),
      named("sequential/", ""),
      named("sequential_3/", ":0"),
      named("model_weights/sequential/", ":0"),
      named("model/", ""),
      // As .h5 files have groups: the layer's, then the variable's own.
      {{{"dense/dense/kernel:0", k0},
        {"dense/dense/bias:0", b0},
        {"dense_1/dense_1/kernel:0", k1},
        {"dense_1/dense_1/bias:0", b1}},
       ""},
      {{{"dense/sequential/dense/kernel", k0},
        {"dense/sequential/dense/bias", b0},
        {"dense_1/sequential/dense_1/kernel", k1},
        {"dense_1/sequential/dense_1/bias", b1}},
       ""},
      // numpy.savez(file, *model.get_weights()).
      {{{"arr_0", k0}, {"arr_1", b0}, {"arr_2", k1}, {"arr_3", b1}}, ""},
      {{{"arr_3", b1}, {"arr_1", b0}, {"arr_2", k1}, {"arr_0", k0}}, ""},
      // An optimizer's are nobody's, nor is what ends alike beside the weight.
      {{{"dense/kernel", k0},
        {"ema/dense/kernel", k0},
        {"dense/bias", b0},
        {"dense_1/kernel", k1},
        {"optimizer/adam/dense_1/bias", b1}},
       "missing in the file 'dense_1/bias'"},
      {{{"arr_0", k0}, {"arr_1", b0}, {"arr_2", k1}},
       "holds 3 arrays without names (arr_0 and so on), but the model has 4"},
      {{{"arr_0", k0}, {"arr_1", b0}, {"arr_2", b1}, {"arr_3", k1}},
       "dense_1/kernel: F32 (1,) in the file (arr_2), F32 (2, 1) here"},
      {{{"arr_0", k0}, {"arr_1", b0}, {"arr_2", k1}, {"arr_4", b1}},
       "in the file only 'arr_0'"},
      {{{"a/dense/kernel", k0},
        {"b/dense/kernel", k0},
        {"dense/bias", b0},
        {"dense_1/kernel", k1},
        {"dense_1/bias", b1}},
       "weight 'dense/kernel' may be 'a/dense/kernel' or 'b/dense/kernel'"},
      {{{"kernel:0", k0}, {"bias:0", b0}},
       "'kernel:0' may be 'dense/kernel' or 'dense_1/kernel'"},
      {{{"xdense/kernel", k0},
        {"dense/bias", b0},
        {"dense_1/kernel", k1},
        {"dense_1/bias", b1}},
       "missing in the file 'dense/kernel'"},
      {{{"dense/kernel:x", k0},
        {"dense/bias", b0},
        {"dense_1/kernel", k1},
        {"dense_1/bias", b1}},
       "missing in the file 'dense/kernel'"},
  };
  for (const Named& c : cases) {
    SCOPED_TRACE(c.arrays[0].first + ", " + c.arrays[1].first);
    auto model = Compiled({Input({3}), Dense(2), Dense(1)});
    const std::vector<float> before = WeightsOf(model.get());
    const Status status =
        LoadWeights(model.get(), Arrays(folder, c.arrays), Silent());
    if (*c.says != '\0') {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_TRUE(Contains(status, c.says)) << status.message();
      EXPECT_EQ(WeightsOf(model.get()), before);
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 0}));
  }
}

TEST(KerasNamesTest, ANameWithoutALayerIsEnoughWhereOneHasIt) {
  TempFolder folder;
  auto model = Compiled({Input({3}), Flatten(), Dense(2)});
  for (const char* after : {"", ":0"}) {
    const Status status = LoadWeights(
        model.get(), Arrays(folder, {{std::string("bias") + after, {2}},
                                     {std::string("kernel") + after, {3, 2}}}));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1}));
  }
}

TEST(KerasNamesTest, NumbersOfOtherTypesAreRoundedAndNeverOverflow) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  const DataFiles files;
  files.Write("make.py", R"(
import sys, numpy
f = sys.argv[1] + "/"
for kind in ("f2", "f4", "f8", ">f8", "i1", "u1", "i8", "u4", "b1"):
    for order in "CF":
        k = numpy.array(numpy.array([[0, 1, 0], [1, 1, 0]]).T / (3 if "f" in kind else 1),
                        dtype=kind, order=order)
        b = numpy.ones(2, kind)
        name = f + kind.replace(">", "b") + order
        numpy.savez(name + ".npz", k, b)
        k.astype("f4").tofile(name + ".raw")
numpy.savez(f + "over.npz", numpy.full((3, 2), 1e39), numpy.ones(2))
numpy.savez(f + "inf.npz", numpy.full((3, 2), numpy.inf), numpy.ones(2))
numpy.savez(f + "text.npz", numpy.full((3, 2), "a"), numpy.ones(2))
)");
  RunPython(files.Path("make.py") + " " + files.root());
  auto model = Compiled({Input({3}), Dense(2)});
  for (const std::string kind :
       {"f2", "f4", "f8", "bf8", "i1", "u1", "i8", "u4", "b1"}) {
    for (const char* order : {"C", "F"}) {
      SCOPED_TRACE(kind + order);
      std::fill_n(model->weights(), model->num_weights(), -1.f);
      const Status status =
          LoadWeights(model.get(), files.Path(kind + order + ".npz"));
      ASSERT_TRUE(status.ok()) << status.message();
      const std::string raw = ReadWhole(files.Path(kind + order + ".raw"));
      EXPECT_EQ(std::string(reinterpret_cast<char*>(model->weights()), 24),
                raw);
      EXPECT_EQ(model->weights()[7], 1);
    }
  }
  const std::vector<float> before = WeightsOf(model.get());
  for (const char* name : {"over", "text"}) {
    const Status status =
        LoadWeights(model.get(), files.Path(name + std::string(".npz")));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "'arr_0'")) << status.message();
    EXPECT_EQ(WeightsOf(model.get()), before);
  }
  EXPECT_TRUE(LoadWeights(model.get(), files.Path("inf.npz")).ok());
}

}  // namespace
}  // namespace ringlet
