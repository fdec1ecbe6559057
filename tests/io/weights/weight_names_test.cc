// Finds the weight of a model for each array of a file, by the array's name.

#include <gtest/gtest.h>

#include <algorithm>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/python.h"
#include "npz_arrays.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

using Names = std::vector<std::string>;

Sequential Body() {
  Sequential body({Input({3}), Dense(4, kRelu).Name("a"), Dense(2).Name("b")});
  body.set_name("body");
  return body;
}

const Names kBodys = {"body/a/kernel", "body/a/bias", "body/b/kernel",
                      "body/b/bias"};

LoadWeightsOptions ByName(WeightsLayout layout) {
  LoadWeightsOptions options;
  options.layout = layout;
  options.by_name = true;
  options.warn = [](const std::string&) {};
  return options;
}

// The file has the names of the nested model alone, without its own name.
TEST(PartsTest, Load_WeightsOfANestedModelAlone_AreTakenByName) {
  TempFolder folder;
  Sequential body = Body();
  body.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(SaveModel(&body, folder / "body"));
  ASSERT_OK(SaveWeights(&body, folder / "weights"));
  const std::string keras = Arrays(folder, {{"a/kernel:0", {3, 4}},
                                            {"a/bias:0", {4}},
                                            {"some/body/b/kernel:0", {4, 2}},
                                            {"b/bias:0", {2}}});
  for (const std::string& file : {folder / "body", folder / "weights", keras}) {
    SCOPED_TRACE(file);
    CompileOptions options;
    options.seed = 9;
    Sequential model({Input({3}), Body().AsLayer(), Dense(1).Name("head")});
    model.Compile(SGD(0.1f), MeanSquaredError(), {}, options);
    const std::vector<float> drawn = WeightsOf(&model);
    EXPECT_FALSE(LoadWeights(&model, file).ok());  // the head is missing
    EXPECT_EQ(WeightsOf(&model), drawn);
    WeightsReport report;
    ASSERT_OK(
        LoadWeights(&model, file, ByName(WeightsLayout::kKeras), &report));
    EXPECT_EQ(report.loaded, kBodys);
    EXPECT_EQ(report.missing, (Names{"head/kernel", "head/bias"}));
    EXPECT_EQ(report.unexpected, Names());
    if (file != keras) {
      EXPECT_TRUE(std::equal(body.weights(),
                             body.weights() + body.num_weights(),
                             model.weights()));
    }
    // Loads the body again from the whole model's file.
    ASSERT_OK(SaveWeights(&model, folder / "whole"));
    Sequential again = Body();
    again.Compile(SGD(0.1f), MeanSquaredError());
    ASSERT_OK(LoadWeights(&again, folder / "whole",
                          ByName(WeightsLayout::kKeras), &report));
    EXPECT_EQ(report.unexpected, (Names{"head/kernel", "head/bias"}));
    EXPECT_TRUE(std::equal(again.weights(),
                           again.weights() + again.num_weights(),
                           model.weights()));
  }
}

TEST(PartsTest, Load_NameFitsTwoNestedModels_IsNotTaken) {
  TempFolder folder;
  Functional model;
  const auto x = model.Add(Input({3}));
  const auto l = model.Add(Body().AsLayer().Name("l"), {x});
  const auto r = model.Add(Body().AsLayer().Name("r"), {x});
  model.Add(Add(), {l, r});
  model.Compile(SGD(0.1f), MeanSquaredError());
  const std::vector<float> drawn = WeightsOf(&model);
  const Status keras =
      LoadWeights(&model, Arrays(folder, {{"a/kernel", {3, 4}}}),
                  ByName(WeightsLayout::kKeras));
  EXPECT_TRUE(
      Contains(keras, "'a/kernel' may be 'l/a/kernel' or 'r/a/kernel'"));
  WeightsReport report;
  ASSERT_OK(LoadWeights(&model,
                        Arrays(folder, {{"a.weight", {4, 3}},
                                        {"a.bias", {4}},
                                        {"r.b.weight", {2, 4}},
                                        {"r.b.bias", {2}}}),
                        ByName(WeightsLayout::kTorch), &report));
  EXPECT_EQ(report.loaded, (Names{"r/b/kernel", "r/b/bias"}));
  EXPECT_EQ(report.unexpected, (Names{"a.weight", "a.bias"}));
}

TEST(PartsTest, Load_ModulesOfPyTorch_AreFoundWithinModels) {
  TempFolder folder;
  for (const std::string prefix : {"body.", ""}) {
    Sequential model({Input({3}), Body().AsLayer(), Dense(1).Name("head")});
    model.Compile(SGD(0.1f), MeanSquaredError());
    WeightsReport report;
    ASSERT_OK(LoadWeights(&model,
                          Arrays(folder, {{prefix + "a.weight", {4, 3}},
                                          {prefix + "a.bias", {4}},
                                          {prefix + "b.weight", {2, 4}},
                                          {prefix + "b.bias", {2}}}),
                          ByName(WeightsLayout::kTorch), &report));
    EXPECT_EQ(report.loaded, kBodys);
    EXPECT_EQ(model.weights()[1], 3);  // (units, inputs) here
  }
}

TEST(PartsTest, Load_ArraysWithoutNames_AreTakenFromTheFirst) {
  TempFolder folder;
  const Shape shapes[] = {{3, 4}, {4}, {4, 2}, {2}, {2, 1}, {1}, {7}};
  for (const size_t count : {3, 4, 7}) {
    std::vector<std::pair<std::string, Shape>> arrays;
    for (size_t i = 0; i < count; ++i) {
      arrays.emplace_back("arr_" + std::to_string(i), shapes[i]);
    }
    const std::string file = Arrays(folder, arrays);
    Sequential model({Input({3}), Body().AsLayer(), Dense(1).Name("head")});
    model.Compile(SGD(0.1f), MeanSquaredError());
    EXPECT_FALSE(LoadWeights(&model, file).ok());
    LoadWeightsOptions options = ByName(WeightsLayout::kKeras);
    options.skip_mismatch = true;
    WeightsReport report;
    ASSERT_OK(LoadWeights(&model, file, options, &report));
    EXPECT_EQ(report.loaded.size(), count == 3 ? 2u : count == 4 ? 4u : 6u);
    EXPECT_EQ(report.skipped, count == 3 ? Names{"body/b/kernel"} : Names());
    EXPECT_EQ(report.unexpected, count == 7 ? Names{"arr_6"} : Names());
  }
}

// --- names as Keras and TensorFlow have them ---------------------------------

// The arrays of a file, each of values from 0 on.
using NamedArrays = std::vector<std::pair<std::string, Shape>>;

// The shapes of the weights of OfTwoLayers.
const Shape kKernel = {3, 2}, kBias = {2}, kKernel1 = {2, 1}, kBias1 = {1};

std::unique_ptr<Model> OfTwoLayers() {
  return Compiled({Input({3}), Dense(2), Dense(1)});
}

LoadWeightsOptions Silent() {
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return options;
}

TEST(KerasNamesTest, Load_NamesThatKerasGives_AreFound) {
  const auto named = [](const std::string& before, const std::string& after) {
    return NamedArrays{{before + "dense_1/bias" + after, kBias1},
                       {before + "dense/kernel" + after, kKernel},
                       {before + "dense/bias" + after, kBias},
                       {before + "dense_1/kernel" + after, kKernel1}};
  };
  const NamedArrays cases[] = {
      named("", ""),
      named("", ":0"),
      named("sequential/", ""),
      named("sequential_3/", ":0"),
      named("model_weights/sequential/", ":0"),
      named("model/", ""),
      // .h5 files have two groups: the layer's name, then the variable's own.
      {{"dense/dense/kernel:0", kKernel},
       {"dense/dense/bias:0", kBias},
       {"dense_1/dense_1/kernel:0", kKernel1},
       {"dense_1/dense_1/bias:0", kBias1}},
      {{"dense/sequential/dense/kernel", kKernel},
       {"dense/sequential/dense/bias", kBias},
       {"dense_1/sequential/dense_1/kernel", kKernel1},
       {"dense_1/sequential/dense_1/bias", kBias1}},
      // numpy.savez(file, *model.get_weights()).
      {{"arr_0", kKernel},
       {"arr_1", kBias},
       {"arr_2", kKernel1},
       {"arr_3", kBias1}},
      {{"arr_3", kBias1},
       {"arr_1", kBias},
       {"arr_2", kKernel1},
       {"arr_0", kKernel}},
  };
  TempFolder folder;
  for (const NamedArrays& arrays : cases) {
    SCOPED_TRACE(arrays[0].first + ", " + arrays[1].first);
    auto model = OfTwoLayers();
    ASSERT_OK(LoadWeights(model.get(), Arrays(folder, arrays), Silent()));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 0}));
  }
}

TEST(KerasNamesTest, Load_NamesOfOtherWeights_AreRefused) {
  const struct {
    NamedArrays arrays;
    const char* message;
  } cases[] = {
      // An optimizer's array belongs to no weight, and neither does a name with
      // a weight's ending beside that weight.
      {{{"dense/kernel", kKernel},
        {"ema/dense/kernel", kKernel},
        {"dense/bias", kBias},
        {"dense_1/kernel", kKernel1},
        {"optimizer/adam/dense_1/bias", kBias1}},
       "missing in the file 'dense_1/bias'"},
      {{{"arr_0", kKernel}, {"arr_1", kBias}, {"arr_2", kKernel1}},
       "holds 3 arrays without names (arr_0 and so on), but the model has 4"},
      {{{"arr_0", kKernel},
        {"arr_1", kBias},
        {"arr_2", kBias1},
        {"arr_3", kKernel1}},
       "dense_1/kernel: F32 (1,) in the file (arr_2), F32 (2, 1) here"},
      {{{"arr_0", kKernel},
        {"arr_1", kBias},
        {"arr_2", kKernel1},
        {"arr_4", kBias1}},
       "in the file only 'arr_0'"},
      {{{"a/dense/kernel", kKernel},
        {"b/dense/kernel", kKernel},
        {"dense/bias", kBias},
        {"dense_1/kernel", kKernel1},
        {"dense_1/bias", kBias1}},
       "weight 'dense/kernel' may be 'a/dense/kernel' or 'b/dense/kernel'"},
      {{{"kernel:0", kKernel}, {"bias:0", kBias}},
       "'kernel:0' may be 'dense/kernel' or 'dense_1/kernel'"},
      {{{"xdense/kernel", kKernel},
        {"dense/bias", kBias},
        {"dense_1/kernel", kKernel1},
        {"dense_1/bias", kBias1}},
       "missing in the file 'dense/kernel'"},
      {{{"dense/kernel:x", kKernel},
        {"dense/bias", kBias},
        {"dense_1/kernel", kKernel1},
        {"dense_1/bias", kBias1}},
       "missing in the file 'dense/kernel'"},
  };
  TempFolder folder;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.arrays[0].first + ", " + c.arrays[1].first);
    auto model = OfTwoLayers();
    const std::vector<float> before = WeightsOf(model.get());
    const Status status =
        LoadWeights(model.get(), Arrays(folder, c.arrays), Silent());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, c.message));
    EXPECT_EQ(WeightsOf(model.get()), before);
  }
}

TEST(KerasNamesTest, Load_NameWithoutALayer_IsEnoughIfOneLayerHasIt) {
  TempFolder folder;
  auto model = Compiled({Input({3}), Flatten(), Dense(2)});
  for (const char* after : {"", ":0"}) {
    ASSERT_OK(
        LoadWeights(model.get(),
                    Arrays(folder, {{std::string("bias") + after, {2}},
                                    {std::string("kernel") + after, {3, 2}}})));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1}));
  }
}

TEST(KerasNamesTest, Load_OtherNumberTypes_AreRoundedAndNeverOverflow) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  const DataFiles files;
  files.Write("make.py", std::string("byte_order = '") + kByteOrder + "'" + R"(
import sys, numpy
f = sys.argv[1] + "/"
for kind in ("f2", "f4", "f8", ">f8", "i1", "u1", "i8", "u4", "b1"):
    for order in "CF":
        k = numpy.array(numpy.array([[0, 1, 0], [1, 1, 0]]).T / (3 if "f" in kind else 1),
                        dtype=kind, order=order)
        b = numpy.ones(2, kind)
        name = f + kind.replace(">", "b") + order
        numpy.savez(name + ".npz", k, b)
        k.astype(byte_order + "f4").tofile(name + ".raw")
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
      ASSERT_OK(LoadWeights(model.get(), files.Path(kind + order + ".npz")));
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
    EXPECT_TRUE(Contains(status, "'arr_0'"));
    EXPECT_EQ(WeightsOf(model.get()), before);
  }
  EXPECT_OK(LoadWeights(model.get(), files.Path("inf.npz")));
}

}  // namespace
}  // namespace ringlet
