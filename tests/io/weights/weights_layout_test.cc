// Weights from elsewhere: files that numpy and PyTorch wrote, in their layout.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/python.h"
#include "../../support/temp_folder.h"
#include "io/readers/npz.h"
#include "ringlet/checkpoint.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

LoadWeightsOptions Torch() {
  LoadWeightsOptions options;
  options.layout = WeightsLayout::kTorch;
  options.warn = [](const std::string&) {};
  return options;
}

std::unique_ptr<Model> Compiled(std::initializer_list<Layer> layers) {
  auto model = std::make_unique<Sequential>(layers);
  model->Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_OK(model->status());
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
    ASSERT_OK(model->Forward(in.data(), x.shape[0], false));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(model->output()[i], expected[i], 2e-6) << name << " " << i;
    }
  }

  TempFolder folder_;
};

TEST_F(TorchTest, Load_WeightsOfPyTorch_GiveItsOutputs) {
  if (!Write()) GTEST_SKIP() << "needs python3-torch";
  for (const std::string end : {".npz", ".z.npz", ".safetensors"}) {
    SCOPED_TRACE(end);
    const bool npz = end != ".safetensors";
    const auto expect = [&](std::unique_ptr<Model> model,
                            const std::string& name) {
      SCOPED_TRACE(name);
      WeightsReport report;
      ASSERT_OK(
          LoadWeights(model.get(), folder_ / (name + end), Torch(), &report));
      EXPECT_EQ(report.verified, npz);
      EXPECT_EQ(report.loaded.size(), model->variables().size());
      ExpectOutputs(model.get(), name);
    };
    expect(Cnn(/*named=*/true), "cnn");
    expect(
        Compiled({Input({4}), Dense(4, kRelu).Name("b"), Dense(4).Name("a")}),
        "twins");
    // The numbers in the names give the order.
    expect(Compiled({Input({3}), Dense(3, kTanh), Dense(3, kTanh), Dense(3)}),
           "numbered");
    expect(Compiled({Input({6, 4, 2}),
                     LayerNormalization().Axes({1, 2, 3}).Name("ln1"),
                     Conv2D(3, 3).UseBias(false).Name("conv"),
                     BatchNormalization().Name("bn1"), ReLU(), Flatten(),
                     BatchNormalization().Name("bn2"),
                     LayerNormalization().Name("ln2"), Dense(5).Name("fc"),
                     BatchNormalization(0.9f, 1e-5f)
                         .Center(false)
                         .Scale(false)
                         .Name("bn3")}),
           "normalized");
    if (npz) {
      expect(
          Compiled(
              {Input({6, 4, 2}), LayerNormalization().Axes({1, 2, 3}),
               Conv2D(3, 3).UseBias(false), BatchNormalization(), ReLU(),
               Flatten(), BatchNormalization(), LayerNormalization(), Dense(5),
               BatchNormalization(0.9f, 1e-5f).Center(false).Scale(false)}),
          "normalized");
    }
    expect(Compiled(
               {Input({10, 11, 4}),
                DepthwiseConv2D(3, 2, kRelu)
                    .DepthMultiplier(2)
                    .Strides(2)
                    .Name("depth"),
                Conv2D(6, 1, 2, kTanh).Groups(2).DilationRate(2).Name("groups"),
                Flatten(), Dense(3).Name("fc")}),
           "depthwise");
    const auto separable = [](bool names) {
      return Compiled({Input({6, 5, 3}),
                       SeparableConv2D(5, 3, kRelu)
                           .DepthMultiplier(2)
                           .Name(names ? "s" : ""),
                       Conv2D(2, 1).Name(names ? "last" : ""),
                       GlobalMaxPooling2D()});
    };
    expect(separable(/*names=*/true), "separable");
    if (npz) expect(separable(/*names=*/false), "separable");
    expect(
        Compiled(
            {Input({13, 3}), Conv1D(6, 3, kRelu).DilationRate(2).Name("conv"),
             ZeroPadding1D(2, 0),
             DepthwiseConv1D(4).DepthMultiplier(2).Name("depth"),
             MaxPooling1D(), Dropout(0.5f), Flatten(), Dense(5).Name("fc")}),
        "line");
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
    EXPECT_TRUE(Contains(status, "(classifier.weight), F32 (3, 2, 3, 2)"));
    status = LoadWeights(twins.get(), folder_ / ("twins" + end), Torch());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "'a.weight' and 'b.weight' are of one shape"));
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

TEST_F(TorchTest, Load_Kernels_AreTransposedAsDocumented) {
  auto dense = Compiled({Input({3}), Dense(2)});
  Status status = LoadWeights(
      dense.get(), Arrays(folder_, {{"fc.weight", {2, 3}}, {"fc.bias", {2}}}),
      Torch());
  ASSERT_OK(status);
  EXPECT_EQ(WeightsOf(dense.get()),
            (std::vector<float>{0, 3, 1, 4, 2, 5, /*bias*/ 0, 1}));

  // (filters, channels, height, width) = (2, 3, 1, 2).
  auto conv =
      Compiled({Input({1, 2, 3}), Conv2D(2, 1, 2).UseBias(false), Flatten()});
  status = LoadWeights(
      conv.get(), Arrays(folder_, {{"conv.weight", {2, 3, 1, 2}}}), Torch());
  ASSERT_OK(status);
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
  ASSERT_OK(status);
  EXPECT_EQ(WeightsOf(&model), (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST_F(TorchTest, Load_Mismatch_IsNamedAndOverwritesNothing) {
  const auto expect = [&](Model* model, const LoadWeightsOptions& options,
                          const std::vector<std::pair<std::string, Shape>>& w,
                          const std::string& says) {
    SCOPED_TRACE(says);
    const std::vector<float> before = WeightsOf(model);
    const Status status = LoadWeights(model, Arrays(folder_, w), options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_TRUE(Contains(status, says));
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
  // Permuted before.
  auto permuted = Compiled({Input({2, 2, 2}), Permute({2, 1, 3}), Flatten(),
                            Dense(1).UseBias(false)});
  expect(permuted.get(), Torch(), {{"fc.weight", {1, 8}}}, "permute");
  // Joined after they were flattened, the order in PyTorch is another.
  Functional joined;
  const auto x = joined.Add(Input({2, 2, 2}));
  const auto a = joined.Add(Flatten(), {x}), b = joined.Add(Flatten(), {x});
  joined.Add(Dense(1), {joined.Add(Concatenate(), {a, b})});
  joined.Compile(SGD(0.1f), MeanSquaredError());
  expect(&joined, Torch(), {{"fc.weight", {1, 16}}, {"fc.bias", {1}}},
         "layer 'concatenate'");
  // A Dense's outputs are in the order of what PyTorch adds them to.
  for (const bool first : {false, true}) {
    Functional added;
    const auto image = added.Add(Input({2, 1, 2}));
    const auto flat = added.Add(Flatten(), {image});
    const auto dense = added.Add(Dense(4).UseBias(false), {flat});
    added.Add(Dense(1).UseBias(false),
              {first ? added.Add(Add(), {dense, flat})
                     : added.Add(Add(), {flat, dense})});
    added.Compile(SGD(0.1f), MeanSquaredError());
    expect(&added, Torch(), {{"a.weight", {4, 4}}, {"b.weight", {1, 4}}},
           "layer 'add': merges flattened images");
  }
}

// 0, 1, ... in the order (steps, channels), where the file has them in
// PyTorch's order (channels, steps).
std::vector<float> ToStepsFirst(int64_t steps, int64_t channels) {
  std::vector<float> turned;
  for (int64_t s = 0; s < steps; ++s) {
    for (int64_t c = 0; c < channels; ++c) {
      turned.push_back(static_cast<float>(c * steps + s));
    }
  }
  return turned;
}

TEST_F(TorchTest, Load_FlattenedAfterAnyMerge_IsTransposed) {
  const auto loaded = [&](Functional* model, Functional::Node flattened) {
    model->Add(Dense(1).UseBias(false).Name("fc"), {flattened});
    model->Compile(SGD(0.1f), MeanSquaredError());
    const int64_t rows = model->variables().back().shape[0];
    LoadWeightsOptions options = Torch();
    options.by_name = true;
    EXPECT_OK(LoadWeights(model, Arrays(folder_, {{"fc.weight", {1, rows}}}),
                          options));
    const std::vector<float> all = WeightsOf(model);
    return std::vector<float>(all.end() - rows, all.end());
  };
  {
    Functional model;
    const auto x = model.Add(Input({3, 2}));
    const auto a = model.Add(Conv1D(2, 1), {x}),
               b = model.Add(Conv1D(3, 1), {x});
    const auto both = model.Add(Concatenate(), {a, b});
    EXPECT_EQ(loaded(&model, model.Add(Flatten(), {both})), ToStepsFirst(3, 5));
  }
  {
    Functional model;
    const auto x = model.Add(Input({3, 2}));
    const auto a = model.Add(Conv1D(1, 1), {x}),
               b = model.Add(Conv1D(4, 1), {x});
    const auto both = model.Add(Multiply(), {a, b});
    EXPECT_EQ(loaded(&model, model.Add(Flatten(), {both})), ToStepsFirst(3, 4));
  }
  {
    Functional model;
    const auto x = model.Add(Conv1D(2, 1), {model.Add(Input({3, 2}))});
    const auto flat = model.Add(Flatten(), {x});
    const auto gate = model.Add(Dense(1), {flat});
    EXPECT_EQ(loaded(&model, model.Add(Multiply(), {gate, flat})),
              ToStepsFirst(3, 2));
  }
  {
    Functional model;  // as many ways as 2^60
    auto y = model.Add(Input({3}));
    for (int i = 0; i < 60; ++i)
      y = model.Add(Add(), {y, model.Add(ReLU(), {y})});
    EXPECT_EQ(loaded(&model, y), (std::vector<float>{0, 1, 2}));
  }
}

TEST_F(TorchTest, Load_NormalizationOverALine_IsTransposed) {
  auto model =
      Compiled({Input({3, 2}), Conv1D(3, 1).UseBias(false).Name("conv"),
                LayerNormalization().Axes({1, 2}).Center(false)});
  ASSERT_OK(LoadWeights(
      model.get(),
      Arrays(folder_, {{"a.weight", {3, 2, 1}}, {"b.weight", {3, 3}}}),
      Torch()));
  const std::vector<float> all = WeightsOf(model.get());
  EXPECT_EQ(std::vector<float>(all.end() - 9, all.end()), ToStepsFirst(3, 3));
}

TEST_F(TorchTest, Load_EqualNormalizationsWithoutWeights_AreRefused) {
  auto model =
      Compiled({Input({2}), BatchNormalization().Center(false).Scale(false),
                BatchNormalization().Center(false).Scale(false)});
  const std::string path = folder_ / "w.safetensors";
  std::string header, data(4 * 2 * sizeof(float), '\0');
  for (const char* name :
       {"a.running_mean", "a.running_var", "b.running_mean", "b.running_var"}) {
    const size_t at = std::count(header.begin(), header.end(), '}') * 8;
    header += (header.empty() ? "{\"" : ",\"") + std::string(name) +
              R"(":{"dtype":"F32","shape":[2],"data_offsets":[)" +
              std::to_string(at) + "," + std::to_string(at + 8) + "]}";
  }
  header += "}";
  std::string size(8, '\0');
  size[0] = static_cast<char>(header.size() & 0xFF);
  size[1] = static_cast<char>(header.size() >> 8);
  WriteWhole(path, size + header + data);
  const Status status = LoadWeights(model.get(), path, Torch());
  EXPECT_TRUE(Contains(status, "are of one shape"));
}

// Modules, and the number that fills each one's weights.
using Kernels = std::vector<std::pair<std::string, float>>;

// A file of them in this order, all of one shape.
std::string Filled(const TempFolder& folder, const Kernels& kernels,
                   bool biases) {
  const std::string path = folder / "w.npz";
  NpzWriter writer;
  EXPECT_TRUE(writer.Open(FileSystem::Posix(), path).ok());
  for (const auto& [name, number] : kernels) {
    const std::vector<float> values(4, number);
    EXPECT_TRUE(
        writer.Add(name + ".weight", DType::kFloat32, {2, 2}, values.data())
            .ok());
    if (!biases) continue;
    EXPECT_TRUE(
        writer.Add(name + ".bias", DType::kFloat32, {2}, values.data()).ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
  return path;
}

std::unique_ptr<Model> Denses(size_t layers, bool biases) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  for (size_t i = 0; i < layers; ++i) model->Add(Dense(2).UseBias(biases));
  model->Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_OK(model->status());
  return model;
}

TEST_F(TorchTest, PutInOrder_NamesSortedAsText_TakesTheirNumbersOrder) {
  auto model = Denses(3, /*biases=*/false);
  ASSERT_OK(LoadWeights(
      model.get(),
      Filled(folder_, {{"net.0", 0}, {"net.10", 2}, {"net.2", 1}}, false),
      Torch()));
  EXPECT_EQ(WeightsOf(model.get()),
            (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST_F(TorchTest, PutInOrder_OrderThatNothingTells_Refuses) {
  const auto expect = [&](const Kernels& kernels, bool biases,
                          const std::string& says) {
    SCOPED_TRACE(says);
    auto model = Denses(kernels.size(), biases);
    const Status status =
        LoadWeights(model.get(), Filled(folder_, kernels, biases), Torch());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, says));
  };
  expect({{"net.in", 0}, {"net.out", 1}}, false,
         "'net.in.weight' and 'net.out.weight' are of one shape, and names "
         "sorted as text do not keep the modules' order");
  expect({{"net.0", 0}, {"net.10", 1}, {"net.2", 2}}, true,
         "'net.10.weight' and 'net.2.weight' are of one shape, and their order "
         "in the file is not that of their numbers");
}

TEST_F(TorchTest, PutInOrder_NamesInTheModulesOrder_AreTaken) {
  for (const Kernels& kernels : {Kernels{{"encode", 0}, {"decode", 1}},
                                 Kernels{{"decode", 0}, {"encode", 1}}}) {
    auto model = Denses(2, /*biases=*/true);
    ASSERT_OK(LoadWeights(model.get(),
                          Filled(folder_, kernels, /*biases=*/true), Torch()));
    EXPECT_EQ(model->weights()[0], 0);
    EXPECT_EQ(model->weights()[6], 1);
  }
}

// An Input of the model has the name of a module with weights.
TEST_F(TorchTest, ModulesByName_LayerWithoutWeightsHasAModulesName_IsSkipped) {
  auto model = Compiled({Input({2}).Name("input_layer"), Dense(2).Name("d"),
                         Flatten().Name("head"), Dense(2)});
  ASSERT_OK(LoadWeights(
      model.get(),
      Filled(folder_, {{"input_layer", 0}, {"head", 1}}, /*biases=*/true),
      Torch()));
  EXPECT_EQ(model->weights()[0], 0);
  EXPECT_EQ(model->weights()[6], 1);
}

TEST_F(TorchTest, ModulesByName_CommonPrefix_IsLeftOut) {
  for (const std::string prefix : {"", "module.", "module._orig_mod."}) {
    SCOPED_TRACE(prefix);
    auto model = Compiled({Input({2}), Dense(2).Name("layer2.0.fc"),
                           Dense(2).Name("layer1/0/fc")});
    ASSERT_OK(LoadWeights(
        model.get(),
        Filled(folder_,
               {{prefix + "layer1.0.fc", 1}, {prefix + "layer2.0.fc", 2}},
               /*biases=*/true),
        Torch()));
    EXPECT_EQ(model->weights()[0], 2);
    EXPECT_EQ(model->weights()[6], 1);
  }
}

// The prefix "body." of all names is the name of the nested model, so no name
// is that of a layer outside of it.
TEST_F(TorchTest, ModulesByName_PrefixThatIsAModelsName_IsOfItAlone) {
  Sequential body({Input({2}), Dense(2).Name("fc")});
  body.set_name("body");
  Sequential model({Input({2}), body.AsLayer(), Dense(2).Name("fc")});
  model.Compile(SGD(0.1f), MeanSquaredError());
  const std::vector<float> before = WeightsOf(&model);
  LoadWeightsOptions options = Torch();
  options.by_name = true;
  WeightsReport report;
  ASSERT_OK(LoadWeights(&model,
                        Filled(folder_, {{"body.fc", 7}}, /*biases=*/true),
                        options, &report));
  EXPECT_EQ(report.loaded,
            (std::vector<std::string>{"body/fc/kernel", "body/fc/bias"}));
  EXPECT_EQ(model.weights()[0], 7);
  EXPECT_EQ(model.weights()[6], before[6]);
}

// PyTorch's view has (channels, height, width) of the same outputs.
TEST_F(TorchTest, Load_OutputsReshapedToImages_AreRefused) {
  const std::string path =
      Arrays(folder_, {{"fc.weight", {12, 5}}, {"fc.bias", {12}}});
  const auto load = [&](const Shape& shape, const Layer& behind) {
    auto model = Compiled({Input({5}), Dense(12).Name("fc"), ReLU(),
                           Reshape(shape), Dropout(0.5f), behind});
    LoadWeightsOptions options = Torch();
    options.by_name = true;
    return LoadWeights(model.get(), path, options);
  };
  for (const Layer& behind : {Conv2D(2, 1), UpSampling2D(2)}) {
    const Status status = load({2, 2, 3}, behind);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "layer 'fc': its outputs are reshaped"));
    EXPECT_OK(load({3, 4, 1}, behind));
    EXPECT_OK(load({1, 1, 12}, behind));
  }
  EXPECT_FALSE(load({4, 3}, Conv1D(2, 1)).ok());
  EXPECT_OK(load({4, 3}, Softmax()));
  EXPECT_OK(load({2, 2, 3}, Flatten()));
}

// A row that is multiplied with an image has a number for each channel, in any
// order of axes. A Permute says how PyTorch's order becomes Keras's.
TEST_F(TorchTest, Load_OutputsThatKeepPyTorchsOrder_AreTaken) {
  const std::string path =
      Arrays(folder_, {{"fc.weight", {12, 5}}, {"fc.bias", {12}}});
  LoadWeightsOptions options = Torch();
  options.by_name = true;
  Functional excited;
  const auto image = excited.Add(Input({4, 4, 12}));
  const auto row = excited.Add(Input({5}));
  const auto gate = excited.Add(Dense(12).Name("fc"), {row});
  excited.Add(Conv2D(2, 1), {excited.Add(Multiply(), {image, gate})});
  excited.Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_OK(LoadWeights(&excited, path, options));
  auto permuted =
      Compiled({Input({5}), Dense(12).Name("fc"), Reshape({3, 2, 2}),
                Permute({2, 3, 1}), Conv2D(2, 1)});
  EXPECT_OK(LoadWeights(permuted.get(), path, options));
  auto steps = Compiled({Input({5}), Dense(12).Name("fc"), Reshape({4, 3}),
                         Dense(7).Name("each"), Conv1D(2, 1)});
  EXPECT_OK(LoadWeights(steps.get(), path, options));
}

// The other weights lie behind the slope in memory.
TEST_F(TorchTest, Load_OneSlopeOfAFlattenedImage_LeavesTheOtherWeights) {
  auto model = Compiled({Input({2, 2, 3}), Flatten(), PReLU({1}).Name("act"),
                         Dense(2).Name("fc")});
  const std::vector<float> before = WeightsOf(model.get());
  LoadWeightsOptions options = Torch();
  options.by_name = true;
  WeightsReport report;
  ASSERT_OK(LoadWeights(model.get(), Arrays(folder_, {{"act.weight", {1}}}),
                        options, &report));
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"act/alpha"}));
  EXPECT_EQ(WeightsOf(model.get()), before);
}

// Gates of a GRU are reset, update, new in PyTorch. An LSTM's biases are added.
TEST_F(TorchTest, Load_RecurrentLayers_TakeGatesAndBothBiases) {
  for (const bool named : {true, false}) {
    const auto name = [named](const std::string& n) {
      return named ? n : "my_" + n;
    };
    auto model =
        Compiled({Input({4, 2}), GRU(1).ReturnSequences(true).Name(name("gru")),
                  Bidirectional(LSTM(1)).Name(name("lstm"))});
    ASSERT_OK(
        LoadWeights(model.get(),
                    Arrays(folder_, {{"gru.weight_ih_l0", {3, 2}},
                                     {"gru.weight_hh_l0", {3, 1}},
                                     {"gru.bias_ih_l0", {3}},
                                     {"gru.bias_hh_l0", {3}},
                                     {"lstm.weight_ih_l0", {4, 1}},
                                     {"lstm.weight_hh_l0", {4, 1}},
                                     {"lstm.bias_ih_l0", {4}},
                                     {"lstm.bias_hh_l0", {4}},
                                     {"lstm.weight_ih_l0_reverse", {4, 1}},
                                     {"lstm.weight_hh_l0_reverse", {4, 1}},
                                     {"lstm.bias_ih_l0_reverse", {4}},
                                     {"lstm.bias_hh_l0_reverse", {4}}}),
                    Torch()));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{2, 0, 4, 3, 1, 5,           // kernel, z r n
                                  1, 0, 2, 1, 0, 2, 1, 0, 2,  //
                                  0, 1, 2, 3, 0, 1, 2, 3, 0, 2, 4, 6,
                                  0, 1, 2, 3, 0, 1, 2, 3, 0, 2, 4, 6}));
  }
}

TEST_F(TorchTest, Load_ByName_LeavesTheOtherLayers) {
  auto model = Compiled({Input({3}), Dense(2).Name("fc"), Dense(2)});
  const std::vector<float> before = WeightsOf(model.get());
  LoadWeightsOptions options = Torch();
  options.by_name = true;
  WeightsReport report;
  ASSERT_OK(LoadWeights(model.get(),
                        Arrays(folder_, {{"head.weight", {9, 9}},
                                         {"fc.weight", {2, 3}},
                                         {"fc.bias", {2}}}),
                        options, &report));
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"fc/kernel", "fc/bias"}));
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"head.weight"});
  const std::vector<float> after = WeightsOf(model.get());
  EXPECT_EQ(after[1], 3);
  EXPECT_TRUE(std::equal(before.begin() + 8, before.end(), after.begin() + 8));
}

TEST(NpzWeightsTest, Load_KerasLayout_IsTaken) {
  TempFolder folder;
  auto model = Compiled({Input({3}), Dense(2)});
  for (const std::string prefix : {"", "model/"}) {
    ASSERT_OK(LoadWeights(model.get(),
                          Arrays(folder, {{prefix + "dense/bias", {2}},
                                          {prefix + "dense/kernel", {3, 2}}})));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1}));
  }
}

TEST(NpzWeightsTest, Load_DepthwiseKernelNameOfKeras2_IsFound) {
  TempFolder folder;
  for (const std::string kernel :
       {"d/depthwise_kernel:0", "m/d/depthwise_kernel", "d/kernel:0",
        "depthwise_kernel:0"}) {
    auto model = Compiled(
        {Input({2, 2, 3}), DepthwiseConv2D(1, 2).Name("d").UseBias(false)});
    ASSERT_OK(
        LoadWeights(model.get(), Arrays(folder, {{kernel, {1, 2, 3, 1}}})));
    EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(NpzWeightsTest, Load_NestedKernelNameOfKeras2_IsFound) {
  TempFolder folder;
  for (const std::string kernel :
       {"body/d/depthwise_kernel:0", "m/body/d/depthwise_kernel",
        "d/depthwise_kernel:0", "body/d/kernel:0"}) {
    SCOPED_TRACE(kernel);
    const Sequential body(
        {Input({2, 2, 3}), DepthwiseConv2D(1, 2).Name("d").UseBias(false)});
    auto model = Compiled({Input({2, 2, 3}), body.AsLayer().Name("body")});
    ASSERT_OK(
        LoadWeights(model.get(), Arrays(folder, {{kernel, {1, 2, 3, 1}}})));
    EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

// Keras names the cell within a recurrent layer, and Keras 2 also numbers it.
TEST(NpzWeightsTest, Load_WeightsOfKerasCells_AreFound) {
  TempFolder folder;
  for (const std::string before :
       {"b/forward_g/", "b/forward_g/gru_cell/", "m/b/forward_g/gru_cell_12/",
        "b/m/b/forward_g/gru_cell/"}) {
    SCOPED_TRACE(before);
    auto model =
        Compiled({Input({2, 2}), Bidirectional(GRU(1).Name("g")).Name("b")});
    std::string after = before;
    after.replace(after.rfind("forward"), 7, "backward");
    std::vector<std::pair<std::string, Shape>> arrays;
    for (const std::string& prefix : {before, after}) {
      arrays.push_back({prefix + "kernel:0", {2, 3}});
      arrays.push_back({prefix + "recurrent_kernel:0", {1, 3}});
      arrays.push_back({prefix + "bias:0", {2, 3}});
    }
    ASSERT_OK(LoadWeights(model.get(), Arrays(folder, arrays)));
    EXPECT_EQ(
        WeightsOf(model.get()),
        (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5,
                            0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5}));
  }
  auto model = Compiled({Input({2, 2}), TimeDistributed(Dense(1)).Name("t")});
  ASSERT_OK(LoadWeights(model.get(), Arrays(folder, {{"t/dense/kernel", {2, 1}},
                                                     {"t/dense/bias", {1}}})));
  EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 0}));
}

// Keras 3's order of get_weights() does not depend on what is trained.
TEST(NpzWeightsTest, Load_ArraysWithoutNames_FollowTheOrderOfTheLayers) {
  TempFolder folder;
  for (const bool trainable : {true, false}) {
    auto model =
        Compiled({Input({3}), Dense(2).Trainable(trainable), Dense(1)});
    ASSERT_OK(LoadWeights(model.get(), Arrays(folder, {{"arr_0", {3, 2}},
                                                       {"arr_1", {2}},
                                                       {"arr_2", {2, 1}},
                                                       {"arr_3", {1}}})));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 0}));
  }
}

// Keras sorts the layers of a functional model by their depth, in whatever
// order they were made. A shared layer has the depth of its deepest call.
TEST(NpzWeightsTest, Load_ArraysWithoutNames_FollowTheDepthOfTheLayers) {
  TempFolder folder;
  const auto load = [&](Functional* model, const std::vector<Shape>& shapes) {
    model->Compile(SGD(0.1f), MeanSquaredError());
    ASSERT_OK(model->status());
    std::vector<std::pair<std::string, Shape>> arrays;
    for (size_t i = 0; i < shapes.size(); ++i) {
      arrays.emplace_back("arr_" + std::to_string(i), shapes[i]);
    }
    ASSERT_OK(LoadWeights(model, Arrays(folder, arrays)));
  };
  const auto dense = [](int64_t units) { return Dense(units).UseBias(false); };
  Functional branches;
  {
    const auto x = branches.Add(Input({3}));
    const auto shallow = branches.Add(dense(2), {x});
    const auto deep = branches.Add(dense(4), {x});
    branches.Add(Add(), {shallow, branches.Add(dense(2), {deep})});
  }
  load(&branches, {{3, 4}, {3, 2}, {4, 2}});
  Functional shared;
  {
    const auto x = shared.Add(Input({3}));
    const auto before = shared.Add(dense(3), {x});
    const auto shallow = shared.Add(Dense(3), {before});
    const auto deep = shared.CallAgain(shallow, {x});
    const auto behind = shared.Add(dense(5), {deep});
    shared.Add(Add(), {shared.Add(dense(3), {behind}), shallow});
  }
  load(&shared, {{3, 3}, {3}, {3, 5}, {3, 3}, {5, 3}});
}

// Mean, variance and count of each, and no weights between them.
TEST(NpzWeightsTest, Load_ArraysOfTwoNormalizations_GoToEach) {
  TempFolder folder;
  Functional model;
  const auto x = model.Add(Input({2})), y = model.Add(Input({3}));
  const auto of_x = model.Add(Normalization(), {x});
  const auto of_y = model.Add(Normalization(), {y});
  model.Add(Dense(1), {model.Add(Concatenate(), {of_x, of_y})});
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(LoadWeights(&model, Arrays(folder, {{"arr_0", {2}},
                                                {"arr_1", {2}},
                                                {"arr_2", {}},
                                                {"arr_3", {3}},
                                                {"arr_4", {3}},
                                                {"arr_5", {}},
                                                {"arr_6", {5, 1}},
                                                {"arr_7", {1}}})));
  EXPECT_EQ(model.layer(2).means, (std::vector<float>{0, 1}));
  EXPECT_EQ(model.layer(3).variances, (std::vector<float>{0, 1, 2}));
}

// As in Keras, the mean and variance belong to the weights.
TEST(NormalizationTest, Load_OwnWeights_HaveTheirStatistics) {
  using Floats = std::vector<float>;
  TempFolder folder;
  const std::string file = folder / "w.safetensors";
  const Layer initial = Normalization({0}, {1}).Name("norm");
  auto trained = Compiled({Input({2}), Rescaling(1), initial, Dense(1)});
  ASSERT_OK(trained->SetNormalization("norm", {1, 2}, {3, 4}));
  ASSERT_OK(SaveWeights(trained.get(), file));
  const auto means = [&](const Layer& layer) {
    auto model = Compiled({Input({2}), Rescaling(1), layer, Dense(1)});
    EXPECT_OK(LoadWeights(model.get(), file));
    return model->layer(2).means;
  };
  EXPECT_EQ(means(initial), Floats({1, 2}));
  EXPECT_EQ(means(Normalization().Name("norm")), Floats({1, 2}));
  EXPECT_EQ(means(Normalization({5}, {6}).Name("norm")), Floats({5}));
  EXPECT_EQ(means(Normalization().Name("other")), Floats());
  auto within = Compiled(
      {Input({2}), Sequential({Input({2}), initial, Dense(1).Name("dense")})
                       .AsLayer()
                       .Name("body")});
  ASSERT_OK(LoadWeights(within.get(), file));
  EXPECT_EQ(within->layer(1).means, Floats({1, 2}));
}

TEST(NormalizationTest, Load_StatisticsOfOtherChannels_AreSkippedIfAsked) {
  TempFolder folder;
  const std::string file = folder / "w.safetensors";
  const auto make = [](int64_t width) {
    return Compiled({Input({width}), Normalization().Name("norm"),
                     Dense(4).Name("a"), Dense(1).Name("b")});
  };
  auto trained = make(2);
  ASSERT_OK(trained->SetNormalization("norm", {1, 2}, {3, 4}));
  ASSERT_OK(SaveWeights(trained.get(), file));
  auto wider = make(3);
  EXPECT_FALSE(LoadWeights(wider.get(), file).ok());
  LoadWeightsOptions options;
  options.skip_mismatch = true;
  std::string warnings;
  options.warn = [&](const std::string& text) { warnings += text + "\n"; };
  ASSERT_OK(LoadWeights(wider.get(), file, options));
  EXPECT_TRUE(Contains(warnings, "layer 'norm': mean has 2 values"));
  EXPECT_TRUE(wider->layer(1).means.empty());
}

TEST(NormalizationTest, Load_SecondLayerDoesNotFit_ChangesNone) {
  TempFolder folder;
  const std::string file = folder / "w.safetensors";
  const auto make = [](int64_t width) {
    return Compiled({Input({2}), Normalization().Name("a"),
                     Dense(width).Name("x"), Normalization().Name("b"),
                     Dense(1).Name("y")});
  };
  auto trained = make(3);
  ASSERT_OK(trained->SetNormalization("a", {1, 2}, {3, 4}));
  ASSERT_OK(trained->SetNormalization("b", {1, 2, 3}, {4, 5, 6}));
  ASSERT_OK(SaveWeights(trained.get(), file));
  const auto model =
      Compiled({Input({2}), Normalization().Name("a"), Dense(3).Name("x"),
                Reshape({1, 3}), Permute({2, 1}), Normalization().Name("b"),
                Flatten(), Dense(1).Name("y")});
  const std::vector<float> before(model->weights(),
                                  model->weights() + model->num_weights());
  const Status status = LoadWeights(model.get(), file);
  EXPECT_TRUE(Contains(status, "layer 'b'")) << status.message();
  EXPECT_TRUE(model->layer(1).means.empty());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), model->weights()));
}

// --- parts of a model ---

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
  ASSERT_TRUE(SaveModel(&body, folder / "body").ok());
  ASSERT_TRUE(SaveWeights(&body, folder / "weights").ok());
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
    ASSERT_TRUE(SaveWeights(&model, folder / "whole").ok());
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

// --- names as Keras and TensorFlow have them ---

// Two layers with weights of different shapes, and the file's arrays, each of
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

TEST(KerasNamesTest, Load_NamesThatKerasGives_AreFound) {
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
      // .h5 files have two groups: the layer's name, then the variable's own.
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
      // An optimizer's belong to no weight, nor does a like ending beside the
      // weight.
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
      EXPECT_TRUE(Contains(status, c.says));
      EXPECT_EQ(WeightsOf(model.get()), before);
      continue;
    }
    ASSERT_OK(status);
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 0}));
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
  EXPECT_TRUE(LoadWeights(model.get(), files.Path("inf.npz")).ok());
}

}  // namespace
}  // namespace ringlet
