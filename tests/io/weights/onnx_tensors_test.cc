// The places in which an ONNX model may keep its weights (its own bytes, in
// several ways, other files, nodes), and the ways in which its graph may use
// them. The files are written here, field by field.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../../support/temp_folder.h"
#include "core/base/byte_order.h"
#include "core/base/float16.h"
#include "io/files/file_system.h"
#include "io/files/onnx_format.h"
#include "io/files/protobuf.h"
#include "io/weights/onnx_weights.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

using namespace onnx_format;  // NOLINT: numbers alone
using Ints = std::vector<int64_t>;

// 1, 2, ...
std::vector<float> Counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::string BytesOf(const std::vector<float>& values, Storage storage) {
  std::string bytes(values.size() * SizeOf(storage), '\0');
  EncodeElements(storage, values.data(), values.size(),
                 reinterpret_cast<unsigned char*>(&bytes[0]));
  return bytes;
}

int TypeOf(Storage storage) {
  return storage == Storage::kF16    ? kFloat16
         : storage == Storage::kBF16 ? kBFloat16
         : storage == Storage::kF64  ? kFloat64
                                     : kFloat32;
}

// A TensorProto; `data` has the fields of its elements.
std::string Tensor(const std::string& name, const Ints& dims,
                   const std::string& data, Storage storage = Storage::kF32) {
  std::string tensor;
  for (const int64_t dim : dims) PutInt(&tensor, kDims, dim);
  PutInt(&tensor, kDataType, TypeOf(storage));
  PutBytes(&tensor, kTensorName, name);
  return tensor + data;
}

std::string Raw(const std::vector<float>& values,
                Storage storage = Storage::kF32) {
  std::string data;
  PutBytes(&data, kRawData, BytesOf(values, storage));
  return data;
}

// The bits of 16-bit numbers as int32_data.
std::string Int32Data(const std::vector<float>& values, Storage storage) {
  const std::string bytes = BytesOf(values, storage);
  std::string numbers, data;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    PutVarint(&numbers,
              LoadLittle<uint16_t>(
                  reinterpret_cast<const unsigned char*>(bytes.data()) + i));
  }
  PutBytes(&data, kInt32Data, numbers);
  return data;
}

// Fields of a tensor in another file. Without a text there is no entry.
std::string External(const std::string& location, const std::string& offset,
                     const std::string& length) {
  std::string data;
  PutInt(&data, kDataLocation, 1);
  const std::pair<const char*, std::string> entries[] = {
      {"location", location}, {"offset", offset}, {"length", length}};
  for (const auto& [key, value] : entries) {
    if (value.empty()) continue;
    std::string entry;
    PutBytes(&entry, kMetadataKey, key);
    PutBytes(&entry, kMetadataValue, value);
    PutBytes(&data, kExternalData, entry);
  }
  return data;
}

std::string IntsAttribute(const std::string& name, const Ints& values) {
  std::string attribute, field;
  PutBytes(&attribute, kAttributeName, name);
  for (const int64_t value : values) PutInt(&attribute, kInts, value);
  PutInt(&attribute, kAttributeType, 7);
  PutBytes(&field, kAttribute, attribute);
  return field;
}

std::string Perm(const Ints& perm) { return IntsAttribute("perm", perm); }

// A graph, field by field.
class Graph {
 public:
  Graph& Add(const std::string& tensor) {
    PutBytes(&graph_, kInitializer, tensor);
    return *this;
  }
  Graph& Node(const std::string& op, const std::vector<std::string>& inputs,
              const std::string& output, const std::string& attributes = "") {
    std::string node;
    for (const std::string& input : inputs) PutBytes(&node, kNodeInput, input);
    PutBytes(&node, kNodeOutput, output);
    PutBytes(&node, kNodeName, "node_" + output);
    PutBytes(&node, kOpType, op);
    PutBytes(&graph_, kNode, node + attributes);
    return *this;
  }
  Graph& Constant(const std::string& output, const std::string& tensor) {
    std::string attribute, field;
    PutBytes(&attribute, kAttributeTensor, tensor);
    PutBytes(&attribute, kAttributeName, "value");
    PutBytes(&field, kAttribute, attribute);
    return Node("Constant", {}, output, field);
  }
  // `attribute` is a whole AttributeProto without its name.
  Graph& Constant(const std::string& output, const std::string& name,
                  std::string attribute) {
    std::string field;
    PutBytes(&attribute, kAttributeName, name);
    PutBytes(&field, kAttribute, attribute);
    return Node("Constant", {}, output, field);
  }
  std::string Model() const {
    std::string model;
    PutInt(&model, kIrVersion, 10);
    PutBytes(&model, kProducerName, "pytorch");
    PutBytes(&model, kGraph, graph_);
    return model;
  }

 private:
  std::string graph_;
};

// A product d of two inputs and three units, with a bias.
std::string Product(const std::string& kernel, const std::string& bias) {
  return Graph()
      .Add(kernel)
      .Add(bias)
      .Node("MatMul", {"x", "d.weight"}, "p")
      .Node("Add", {"p", "d.bias"}, "y")
      .Model();
}

Sequential ADense(bool use_bias = true) {
  return Sequential({Input({2}), Dense(3).UseBias(use_bias).Name("d")});
}
Sequential AConvolution(bool use_bias = true) {
  return Sequential(
      {Input({4, 5, 2}), Conv2D(3, 1, 2, kLinear).UseBias(use_bias).Name("c")});
}

// Loads a file in the folder into the model; the error, or "".
std::string Load(const std::string& path, Sequential model,
                 std::vector<float>* weights) {
  model.Compile(SGD(), MeanSquaredError());
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  const Status status = LoadWeights(&model, path, options);
  weights->assign(model.weights(), model.weights() + model.num_weights());
  if (!status.ok()) {
    EXPECT_EQ(std::string(status.message()).find(path), 0u) << status.message();
  }
  return status.message();
}

std::string LoadBytes(const std::string& bytes, Sequential model,
                      std::vector<float>* weights) {
  TempFolder folder;
  WriteWhole(folder / "m.onnx", bytes);
  return Load(folder / "m.onnx", std::move(model), weights);
}

void ExpectHas(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << " lacks " << part;
}

// --- other files -------------------------------------------------------------

// As PyTorch 2.9 writes them, and in each other way that the format allows.
TEST(OnnxTensorsTest, Load_ElementsInOtherFiles_AreRead) {
  const std::string kernel = BytesOf(Counted(6), Storage::kF32),
                    bias = BytesOf({7, 8, 9}, Storage::kF32);
  TempFolder folder;
  std::filesystem::create_directory(folder / "sub");
  WriteWhole(folder / "m.onnx.data", "junk" + kernel + bias);
  WriteWhole(folder / "sub/k", kernel);
  const std::string both[][2] = {
      {External("m.onnx.data", "4", "24"), External("m.onnx.data", "28", "12")},
      {External("m.onnx.data", "4", ""), External("m.onnx.data", "28", "")},
      {External("sub/k", "", ""), Raw({7, 8, 9})},
      {External("./sub/k", "0", "24"), External("m.onnx.data", "28", "12")},
  };
  for (const auto& [k, b] : both) {
    WriteWhole(folder / "m.onnx", Product(Tensor("d.weight", {2, 3}, k),
                                          Tensor("d.bias", {3}, b)));
    std::vector<float> weights;
    ASSERT_EQ(Load(folder / "m.onnx", ADense(), &weights), "");
    EXPECT_EQ(weights, Counted(9));
  }
}

TEST(OnnxTensorsTest, Load_ElementsElsewhere_AreRefused) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "in");
  const std::string kernel = BytesOf(Counted(6), Storage::kF32);
  WriteWhole(folder / "in/k", kernel);
  WriteWhole(folder / "k", kernel);
  const auto error = [&](const std::string& data, const Ints& dims = {2, 3}) {
    WriteWhole(folder / "in/m.onnx",
               Product(Tensor("d.weight", dims, data),
                       Tensor("d.bias", {3}, Raw({7, 8, 9}))));
    std::vector<float> weights;
    return Load(folder / "in/m.onnx", ADense(), &weights);
  };
  EXPECT_EQ(error(External("k", "0", "24")), "");
  for (const std::string& path :
       {std::string("../k"), folder / "k", std::string("a/../../k"),
        std::string("in/.."), std::string("k\0", 2),
        std::string("/dev/zero")}) {
    ExpectHas(error(External(path, "0", "24")),
              "'d.weight' are said to be in '");
    ExpectHas(error(External(path, "0", "24")),
              "outside of the model's folder");
  }
  ExpectHas(error(External("", "0", "24")),
            "'d.weight' is in another file, without its name");
  ExpectHas(error(External(".", "0", "24")), "not a regular file");
  // Beyond the file, or not as long as the shape.
  ExpectHas(error(External("k", "1", "24")),
            "'d.weight' has 24 bytes from offset 1 of " + folder / "in/k" +
                ", which has 24");
  ExpectHas(error(External("k", "4611686018427387904", "24")), "which has 24");
  ExpectHas(error(External("k", "0", "20")), "has 20 bytes in one piece");
  ExpectHas(error(External("k", "0", ""), {1 << 30, 1 << 20}),
            "4503599627370496 bytes from offset 0");
  ExpectHas(error(External("k", "", ""), {int64_t{1} << 40, 1 << 30}),
            "in one piece");
  for (const char* wrong : {"-1", "x", "1.5", "99999999999999999999"}) {
    ExpectHas(error(External("k", wrong, "24")),
              std::string("external data of offset '") + wrong + "'");
    ExpectHas(error(External("k", "0", wrong)), "external data of length '");
  }
}

TEST(OnnxTensorsTest, Load_FileOfElementsIsMissing_ErrorNamesIt) {
  TempFolder folder;
  const std::string path = folder / "m.onnx";
  const std::string data = External("m.onnx.data", "0", "24");
  WriteWhole(path, Product(Tensor("d.weight", {2, 3}, data),
                           Tensor("d.bias", {3}, Raw({7, 8, 9}))));
  std::vector<float> weights;
  const std::string error = Load(path, ADense(), &weights);
  ExpectHas(error, "the data of 'd.weight' are in another file: " + path +
                       ".data: No such file");
  ExpectHas(error, "external_data=False of torch.onnx.export");
  // A file of a tensor that is no weight is not opened.
  WriteWhole(path, Graph()
                       .Add(Tensor("table", {2, 3}, data))
                       .Add(Tensor("d.weight", {2, 3}, Raw(Counted(6))))
                       .Node("Sub", {"x", "table"}, "g")
                       .Node("MatMul", {"g", "d.weight"}, "y")
                       .Model());
  EXPECT_EQ(Load(path, ADense(/*use_bias=*/false), &weights), "");
  EXPECT_EQ(weights, Counted(6));
}

// --- the model's file --------------------------------------------------------

TEST(OnnxTensorsTest, Load_Halves_AreReadAsRawDataAndAsNumbers) {
  const std::vector<float> kernel = {0, 1, -2, 0.5f, 100, -0.25f};
  for (const Storage storage : {Storage::kF16, Storage::kBF16}) {
    for (const std::string& data :
         {Raw(kernel, storage), Int32Data(kernel, storage)}) {
      std::vector<float> weights;
      ASSERT_EQ(
          LoadBytes(Product(Tensor("d.weight", {2, 3}, data, storage),
                            Tensor("d.bias", {3}, Int32Data({7, 8, 9}, storage),
                                   storage)),
                    ADense(), &weights),
          "");
      EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 6),
                kernel);
      EXPECT_EQ(weights[8], 9);
    }
    std::vector<float> weights;
    const auto error = [&](const std::string& data) {
      return LoadBytes(Product(Tensor("d.weight", {2, 3}, data, storage),
                               Tensor("d.bias", {3}, Raw({7, 8, 9}))),
                       ADense(), &weights);
    };
    // Too few, too many, and a number that does not end.
    for (const std::vector<float>& others :
         {Counted(5), Counted(7), std::vector<float>()}) {
      ExpectHas(error(Int32Data(others, storage)),
                "'d.weight' of shape (2, 3) has " +
                    std::to_string(2 * others.size()) + " bytes");
    }
    std::string open;
    PutBytes(&open, kInt32Data, "\1\1\1\1\1\xff");
    ExpectHas(error(open), "goes beyond its message");
    // Ten bytes of a number, of which the last 16 bits count.
    std::string wide;
    PutBytes(
        &wide, kInt32Data,
        "\1\1\1\1\1" + std::string("\x81\x80\x84\xff\xff\xff\xff\xff\xff\1"));
    EXPECT_EQ(error(wide), "");
    EXPECT_EQ(weights[5], weights[0]);
  }
  // Numbers of int32_data are no float32.
  std::vector<float> weights;
  ExpectHas(LoadBytes(Product(Tensor("d.weight", {2, 3},
                                     Int32Data(Counted(6), Storage::kF16)),
                              Tensor("d.bias", {3}, Raw({7, 8, 9}))),
                      ADense(), &weights),
            "has 0 bytes in one piece");
}

TEST(OnnxTensorsTest, Load_ConstantNodes_AreWeights) {
  std::vector<float> weights;
  const std::string model =
      Graph()
          .Constant("d.weight", Tensor("", {2, 3}, Raw(Counted(6))))
          .Constant("b", Tensor("b", {3}, Int32Data({7, 8, 9}, Storage::kF16),
                                Storage::kF16))
          .Node("Gemm", {"x", "d.weight", "b"}, "y")
          .Model();
  ASSERT_EQ(LoadBytes(model, ADense(), &weights), "");
  EXPECT_EQ(weights, Counted(9));
  const std::string twice =
      Graph()
          .Add(Tensor("d.weight", {2, 3}, Raw(Counted(6))))
          .Constant("d.weight", Tensor("", {2, 3}, Raw(Counted(6))))
          .Model();
  ExpectHas(LoadBytes(twice, ADense(), &weights),
            "two tensors are called 'd.weight'");
}

// Floats in fields of their own, as onnx.proto has them, or packed.
std::string FloatsAttribute(const std::vector<float>& values, bool packed) {
  std::string attribute;
  if (packed) {
    PutBytes(&attribute, kFloats, BytesOf(values, Storage::kF32));
    return attribute;
  }
  for (const float value : values) PutFloat(&attribute, kFloats, value);
  return attribute;
}

TEST(OnnxTensorsTest, Load_FloatsOfConstantNodes_AreWeights) {
  const auto model = [](const std::string& name, const std::string& bias) {
    return Graph()
        .Add(Tensor("d.weight", {2, 3}, Raw(Counted(6))))
        .Constant("b", name, bias)
        .Node("Gemm", {"x", "d.weight", "b"}, "y")
        .Model();
  };
  std::vector<float> weights;
  for (const bool packed : {false, true}) {
    const std::string floats = FloatsAttribute({7, 8, 9}, packed);
    ASSERT_EQ(LoadBytes(model("value_floats", floats), ADense(), &weights), "");
    EXPECT_EQ(weights, Counted(9)) << packed;
  }
  const std::string parted = FloatsAttribute({7}, /*packed=*/false) +
                             FloatsAttribute({8, 9}, /*packed=*/true);
  ExpectHas(LoadBytes(model("value_floats", parted), ADense(), &weights),
            "'b': the floats of value_floats are not in one place");
  std::string ints;
  for (const int number : {7, 8, 9}) PutInt(&ints, kInts, number);
  ExpectHas(LoadBytes(model("value_ints", ints), ADense(), &weights),
            "d/bias: given by value_ints of a node Constant in the file");
  ExpectHas(LoadBytes(model("value_floats", ints), ADense(), &weights), "bias");
}

TEST(OnnxTensorsTest, Load_FloatOfAConstantNode_IsAWeight) {
  std::string one;
  PutFloat(&one, kFloat, 7);
  const std::string model = Graph()
                                .Add(Tensor("d.weight", {2, 1}, Raw({1, 2})))
                                .Constant("d.bias", "value_float", one)
                                .Node("Gemm", {"x", "d.weight", "d.bias"}, "y")
                                .Model();
  std::vector<float> weights;
  ASSERT_EQ(
      LoadBytes(model, Sequential({Input({2}), Dense(1).Name("d")}), &weights),
      "");
  EXPECT_EQ(weights, std::vector<float>({1, 2, 7}));
}

// --- nodes -------------------------------------------------------------------

TEST(OnnxTensorsTest, Load_TransposedKernel_HasTheModelsOrder) {
  std::vector<float> weights;
  // (h, w, c, o) is the model's own order.
  std::string model =
      Graph()
          .Add(Tensor("c/kernel", {1, 2, 2, 3}, Raw(Counted(12))))
          .Node("Transpose", {"c/kernel"}, "t", Perm({3, 2, 0, 1}))
          .Node("Conv", {"x", "t"}, "y")
          .Model();
  ASSERT_EQ(LoadBytes(model, AConvolution(false), &weights), "");
  EXPECT_EQ(weights, Counted(12));
  // In two steps: reversed (o, c, w, h), then the last two.
  model = Graph()
              .Add(Tensor("c/kernel", {1, 2, 2, 3}, Raw(Counted(12))))
              .Node("Transpose", {"c/kernel"}, "r")
              .Node("Transpose", {"r"}, "t", Perm({0, 1, 3, 2}))
              .Node("Conv", {"x", "t"}, "y")
              .Model();
  ASSERT_EQ(LoadBytes(model, AConvolution(false), &weights), "");
  EXPECT_EQ(weights, Counted(12));
  // A matrix (units, inputs), transposed for its product.
  model = Graph()
              .Add(Tensor("d.weight", {3, 2}, Raw({1, 4, 2, 5, 3, 6})))
              .Node("Transpose", {"d.weight"}, "t", Perm({1, 0}))
              .Node("MatMul", {"x", "t"}, "y")
              .Model();
  ASSERT_EQ(LoadBytes(model, ADense(false), &weights), "");
  EXPECT_EQ(weights, Counted(6));
  for (const Ints& perm : {Ints{0, 0}, Ints{0, 2}, Ints{-1, 0}, Ints{0}}) {
    model = Graph()
                .Add(Tensor("d.weight", {2, 3}, Raw(Counted(6))))
                .Node("Transpose", {"d.weight"}, "t", Perm(perm))
                .Node("MatMul", {"x", "t"}, "y")
                .Model();
    ExpectHas(LoadBytes(model, ADense(/*use_bias=*/false), &weights),
              "given by a node Transpose");
  }
}

TEST(OnnxTensorsTest, Load_SumBehindAProduct_BecomesItsBias) {
  std::vector<float> weights;
  for (const char* op : {"MatMul", "Gemm"}) {
    for (const Ints& dims : {Ints{3}, Ints{1, 3}, Ints{1, 1, 3}}) {
      for (const bool first : {false, true}) {
        const std::string model =
            Graph()
                .Add(Tensor("k", {2, 3}, Raw(Counted(6))))
                .Add(Tensor("b", dims, Raw({7, 8, 9})))
                .Node(op, {"x", "k"}, "p")
                .Node("Add",
                      first ? std::vector<std::string>{"b", "p"}
                            : std::vector<std::string>{"p", "b"},
                      "y")
                .Model();
        ASSERT_EQ(LoadBytes(model, ADense(), &weights), "") << op;
        EXPECT_EQ(weights, Counted(9));
      }
    }
  }
  const auto convolution = [](const Ints& dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    return Graph()
        .Add(Tensor("k", {3, 2, 1, 2}, Raw(std::vector<float>(12, 2))))
        .Add(Tensor("b", dims, Raw(Counted(count))))
        .Node("Conv", {"x", "k"}, "p")
        .Node("Add", {"p", "b"}, "y")
        .Model();
  };
  std::vector<float> expected(12, 2);
  expected.insert(expected.end(), {1, 2, 3});
  for (const Ints& dims : {Ints{3, 1, 1}, Ints{1, 3, 1, 1}}) {
    ASSERT_EQ(LoadBytes(convolution(dims), AConvolution(), &weights), "");
    EXPECT_EQ(weights, expected);
  }
  // Other sums are no bias: of one number, of each pixel, or along a row.
  for (const Ints& dims : {Ints{}, Ints{1}, Ints{3}, Ints{3, 4, 4},
                           Ints{1, 1, 3}, Ints{3, 1}, Ints{1, 1, 1, 3}}) {
    ExpectHas(LoadBytes(convolution(dims), AConvolution(), &weights),
              "missing in the file 'c/bias'");
    EXPECT_EQ(LoadBytes(convolution(dims), AConvolution(false), &weights), "");
  }
}

// A product without a name of PyTorch has the name of its bias or of the
// initializer behind a node, so that layers match by names.
TEST(OnnxTensorsTest, Load_NamesBehindNodes_EqualTheModules) {
  std::vector<float> weights;
  const std::string model =
      Graph()
          .Add(Tensor("val_1", {2, 2}, Raw({1, 2, 3, 4})))
          .Add(Tensor("second.bias", {2}, Raw({5, 6})))
          .Add(Tensor("first.weight", {2, 2}, Raw({7, 9, 8, 10})))
          .Node("MatMul", {"x", "val_1"}, "p")
          .Node("Add", {"second.bias", "p"}, "h")
          .Node("Transpose", {"first.weight"}, "val_2", Perm({1, 0}))
          .Node("MatMul", {"h", "val_2"}, "y")
          .Model();
  ASSERT_EQ(
      LoadBytes(model,
                Sequential({Input({2}), Dense(2).UseBias(false).Name("first"),
                            Dense(2).Name("second")}),
                &weights),
      "");
  EXPECT_EQ(weights, (std::vector<float>{7, 8, 9, 10, 1, 2, 3, 4, 5, 6}));
}

// --- hostile files -----------------------------------------------------------

TEST(OnnxTensorsTest, Load_AnyByteChanged_IsReadOrRefused) {
  TempFolder folder;
  const std::string path = folder / "m.onnx";
  WriteWhole(folder / "k", BytesOf(Counted(6), Storage::kF32));
  const std::string good =
      Graph()
          .Add(Tensor("d.weight", {3, 2}, External("k", "0", "24")))
          .Constant("b", Tensor("", {1, 3}, Int32Data({7, 8, 9}, Storage::kF16),
                                Storage::kF16))
          .Node("Transpose", {"d.weight"}, "t", Perm({1, 0}))
          .Node("MatMul", {"x", "t"}, "p")
          .Node("Add", {"p", "b"}, "y")
          .Model();
  std::vector<float> weights;
  WriteWhole(path, good);
  ASSERT_EQ(Load(path, ADense(), &weights), "");
  int read = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 2, 0x10, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      WriteWhole(path, bytes);
      OnnxWeights onnx;
      const Status status = onnx.Open(PosixFiles(), path);
      if (!status.ok()) continue;
      for (const StoredTensor& tensor : onnx.tensors()) {
        if (!tensor.unread.empty()) continue;
        std::vector<double> elements(
            static_cast<size_t>(tensor.shape.elements()));
        read += onnx.Read(tensor, elements.data()).ok();
      }
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace ringlet
