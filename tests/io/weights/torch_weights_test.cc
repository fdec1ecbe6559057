// Weights in the layout of PyTorch, from files that it and numpy wrote.

#include <gtest/gtest.h>

#include <algorithm>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/python.h"
#include "npz_arrays.h"
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
    ASSERT_OK(ReadNpy(folder_ / (name + ".x.npy"), &x));
    ASSERT_OK(ReadNpy(folder_ / (name + ".y.npy"), &y));
    const std::vector<float> in = Values<float>(x.data),
                             expected = Values<float>(y.data);
    ASSERT_OK(model->Forward(in.data(), x.shape[0], /*training=*/false));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(model->output()[i], expected[i], 2e-6) << name << " " << i;
    }
  }

  // Loads PyTorch's weights from the file `name` + `end`.
  void ExpectLoads(std::unique_ptr<Model> model, const std::string& name,
                   const std::string& end) {
    SCOPED_TRACE(name);
    WeightsReport report;
    ASSERT_OK(
        LoadWeights(model.get(), folder_ / (name + end), Torch(), &report));
    EXPECT_EQ(report.verified, end != ".safetensors");
    EXPECT_EQ(report.loaded.size(), model->variables().size());
    ExpectOutputs(model.get(), name);
  }

  TempFolder folder_;
};

std::unique_ptr<Model> Separable(bool named) {
  return Compiled(
      {Input({6, 5, 3}),
       SeparableConv2D(5, 3, kRelu).DepthMultiplier(2).Name(named ? "s" : ""),
       Conv2D(2, 1).Name(named ? "last" : ""), GlobalMaxPooling2D()});
}

// Names of layers are PyTorch's names of modules.
TEST_F(TorchTest, Load_WeightsOfPyTorchByName_GiveItsOutputs) {
  if (!Write()) GTEST_SKIP() << "needs python3-torch";
  for (const char* const end : {".npz", ".z.npz", ".safetensors"}) {
    SCOPED_TRACE(end);
    const auto expect = [&](std::unique_ptr<Model> model,
                            const std::string& name) {
      ExpectLoads(std::move(model), name, end);
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
    expect(Compiled(
               {Input({10, 11, 4}),
                DepthwiseConv2D(3, 2, kRelu)
                    .DepthMultiplier(2)
                    .Strides(2)
                    .Name("depth"),
                Conv2D(6, 1, 2, kTanh).Groups(2).DilationRate(2).Name("groups"),
                Flatten(), Dense(3).Name("fc")}),
           "depthwise");
    expect(Separable(/*named=*/true), "separable");
    expect(
        Compiled(
            {Input({13, 3}), Conv1D(6, 3, kRelu).DilationRate(2).Name("conv"),
             ZeroPadding1D(2, 0),
             DepthwiseConv1D(4).DepthMultiplier(2).Name("depth"),
             MaxPooling1D(), Dropout(0.5f), Flatten(), Dense(5).Name("fc")}),
        "line");
  }
}

// The tensors of an npz file have the order of PyTorch's state_dict.
TEST_F(TorchTest, Load_NpzWithoutNamesOfLayers_GivesTheOutputs) {
  if (!Write()) GTEST_SKIP() << "needs python3-torch";
  for (const char* const end : {".npz", ".z.npz"}) {
    SCOPED_TRACE(end);
    ExpectLoads(Cnn(/*named=*/false), "cnn", end);
    ExpectLoads(Compiled({Input({4}), Dense(4, kRelu), Dense(4)}), "twins",
                end);
    ExpectLoads(
        Compiled({Input({6, 4, 2}), LayerNormalization().Axes({1, 2, 3}),
                  Conv2D(3, 3).UseBias(false), BatchNormalization(), ReLU(),
                  Flatten(), BatchNormalization(), LayerNormalization(),
                  Dense(5),
                  BatchNormalization(0.9f, 1e-5f).Center(false).Scale(false)}),
        "normalized", end);
    ExpectLoads(Separable(/*named=*/false), "separable", end);
  }
}

// The tensors of a safetensors file are sorted by name, which is not the order
// of the layers.
TEST_F(TorchTest, Load_SafetensorsWithoutNamesOfLayers_IsRefused) {
  if (!Write()) GTEST_SKIP() << "needs python3-torch";
  const auto cnn = Cnn(/*named=*/false);
  Status status = LoadWeights(cnn.get(), folder_ / "cnn.safetensors", Torch());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "(classifier.weight), F32 (3, 2, 3, 2)"));
  const auto twins = Compiled({Input({4}), Dense(4, kRelu), Dense(4)});
  status = LoadWeights(twins.get(), folder_ / "twins.safetensors", Torch());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "'a.weight' and 'b.weight' are of one shape"));
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

  // An image of 1 x 2 pixels and 3 channels, flattened, through layers that
  // keep its order; PyTorch has channel 0 first.
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
                          const std::string& message) {
    SCOPED_TRACE(message);
    const std::vector<float> before = WeightsOf(model);
    const Status status = LoadWeights(model, Arrays(folder_, w), options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_TRUE(Contains(status, message));
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
  // A Dense's outputs are in the order of the values to which PyTorch adds
  // them.
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
  std::vector<float> transposed;
  for (int64_t s = 0; s < steps; ++s) {
    for (int64_t c = 0; c < channels; ++c) {
      transposed.push_back(static_cast<float>(c * steps + s));
    }
  }
  return transposed;
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
    Functional model;  // a graph of 2^60 ways
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

// Modules, and for each the number that fills its weights.
using Kernels = std::vector<std::pair<std::string, float>>;

// A file of them in this order, all of one shape.
std::string Filled(const TempFolder& folder, const Kernels& kernels,
                   bool biases) {
  const std::string path = folder / "w.npz";
  NpzWriter writer;
  EXPECT_OK(writer.Open(PosixFiles(), path));
  for (const auto& [name, number] : kernels) {
    const std::vector<float> values(4, number);
    EXPECT_OK(
        writer.Add(name + ".weight", DType::kFloat32, {2, 2}, values.data()));
    if (!biases) continue;
    EXPECT_OK(writer.Add(name + ".bias", DType::kFloat32, {2}, values.data()));
  }
  EXPECT_OK(writer.Finish());
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
  ASSERT_OK(
      LoadWeights(model.get(),
                  Filled(folder_, {{"net.0", 0}, {"net.10", 2}, {"net.2", 1}},
                         /*biases=*/false),
                  Torch()));
  EXPECT_EQ(WeightsOf(model.get()),
            (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST_F(TorchTest, PutInOrder_OrderThatNothingTells_Refuses) {
  const auto expect = [&](const Kernels& kernels, bool biases,
                          const std::string& message) {
    SCOPED_TRACE(message);
    auto model = Denses(kernels.size(), biases);
    const Status status =
        LoadWeights(model.get(), Filled(folder_, kernels, biases), Torch());
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, message));
  };
  expect({{"net.in", 0}, {"net.out", 1}}, /*biases=*/false,
         "'net.in.weight' and 'net.out.weight' are of one shape, and names "
         "sorted as text do not keep the modules' order");
  expect({{"net.0", 0}, {"net.10", 1}, {"net.2", 2}}, /*biases=*/true,
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
// means a layer outside of it.
TEST_F(TorchTest, ModulesByName_PrefixThatIsAModelsName_MeansOnlyIt) {
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
// order of axes. A Permute defines how PyTorch's order becomes Keras's.
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

TEST_F(TorchTest, Load_Embedding_IsTaken) {
  auto model = Compiled({Input({2}), Embedding(3, 2)});
  ASSERT_OK(LoadWeights(model.get(), Arrays(folder_, {{"emb.weight", {3, 2}}}),
                        Torch()));
  EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

std::unique_ptr<Model> Heads(const std::string& name, bool use_bias) {
  auto model = std::make_unique<Functional>();
  const auto x = model->Add(Input({3, 2}));
  model->Add(MultiHeadAttention(2, 1).UseBias(use_bias).Name(name), {x, x});
  model->Compile(SGD(), MeanSquaredError());
  EXPECT_OK(model->status());
  return model;
}

// One tensor has query, key and value, as rows of (outputs, inputs).
TEST_F(TorchTest, Load_MultiheadAttention_IsTakenApart) {
  for (const std::string name : {"mha", "other"}) {
    SCOPED_TRACE(name);
    const auto model = Heads(name, /*use_bias=*/true);
    ASSERT_OK(LoadWeights(model.get(),
                          Arrays(folder_, {{"mha.in_proj_weight", {6, 2}},
                                           {"mha.in_proj_bias", {6}},
                                           {"mha.out_proj.weight", {2, 2}},
                                           {"mha.out_proj.bias", {2}}}),
                          Torch()));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 2,  1, 3,  0, 1,  // query
                                  4, 6,  5, 7,  2, 3,  // key
                                  8, 10, 9, 11, 4, 5,  // value
                                  0, 2,  1, 3,  0, 1}));
  }
}

TEST_F(TorchTest, Load_AttentionOfOtherModules_IsFoundByName) {
  for (const std::string part : {"q_proj_weight", "query.weight"}) {
    const bool own = part == "q_proj_weight";
    const auto model = Heads("mha", /*use_bias=*/false);
    ASSERT_OK(LoadWeights(
        model.get(),
        Arrays(folder_,
               {{"mha." + part, {2, 2}},
                {own ? "mha.k_proj_weight" : "mha.key.weight", {2, 2}},
                {own ? "mha.v_proj_weight" : "mha.value.weight", {2, 2}},
                {own ? "mha.out_proj.weight" : "mha.attention_output.weight",
                 {2, 2}}}),
        Torch()));
    EXPECT_EQ(
        WeightsOf(model.get()),
        (std::vector<float>{0, 2, 1, 3, 0, 2, 1, 3, 0, 2, 1, 3, 0, 2, 1, 3}));
  }
}

// (inputs, outputs, taps) of PyTorch is (taps, outputs, inputs).
TEST_F(TorchTest, Load_ConvTranspose_IsTransposed) {
  auto model = Compiled(
      {Input({2, 2}), Conv1DTranspose(3, 2).UseBias(false).Name("up")});
  ASSERT_OK(LoadWeights(model.get(),
                        Arrays(folder_, {{"up.weight", {2, 3, 2}}}), Torch()));
  EXPECT_EQ(WeightsOf(model.get()),
            (std::vector<float>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

TEST(NpzWeightsTest, Load_HeadsOfKeras_AreFound) {
  TempFolder folder;
  for (const std::string prefix : {"heads/", "m/heads/"}) {
    const auto model = Heads("heads", /*use_bias=*/true);
    ASSERT_OK(LoadWeights(
        model.get(),
        Arrays(folder, {{prefix + "query/kernel:0", {2, 2, 1}},
                        {prefix + "query/bias:0", {2, 1}},
                        {prefix + "key/kernel:0", {2, 2, 1}},
                        {prefix + "key/bias:0", {2, 1}},
                        {prefix + "value/kernel:0", {2, 2, 1}},
                        {prefix + "value/bias:0", {2, 1}},
                        {prefix + "attention_output/kernel:0", {2, 1, 2}},
                        {prefix + "attention_output/bias:0", {2}}})));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0, 1,
                                  0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0, 1}));
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
}  // namespace
}  // namespace ringlet
