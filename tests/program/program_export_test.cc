// Tests ringlet export of a whole model. tests/onnx_test.py tests the outputs
// that the file gives.

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/python.h"

namespace ringlet {
namespace {

// quickstart.md has this way back into Keras: set_weights takes the arrays in
// the order of the layers.
TEST_F(ProgramTest, Export_FormatJson_HasTheLayersOfTheWeights) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "model.json"}), 0) << err_;
  EXPECT_EQ(out_ + err_,
            "wrote model.json: the model's layers as Keras's JSON, " +
                std::to_string(ReadWhole(folder_ / "model.json").size()) +
                " bytes\n");
  WriteWhole(folder_ / "back.py", R"(
import json, sys
import numpy
model = json.load(open(sys.argv[1] + "/model.json"))
weights = numpy.load(sys.argv[1] + "/w.npz")
dense = [layer["config"] for layer in model["config"]["layers"]
         if layer["class_name"] == "Dense"]
expected = [layer["name"] + "/" + weight for layer in dense
            for weight in ("kernel", "bias")]
assert weights.files == expected, (weights.files, expected)
for layer in dense:
  assert weights[layer["name"] + "/bias"].shape == (layer["units"],)
print(model["class_name"], len(dense))
)");
  EXPECT_EQ(RunPython(folder_ / "back.py" + (" " + folder_.path())),
            Strings{"Sequential 2"});
  ExpectError({"export", "m", "--softmax", "-o", "m.json"}, 2, {"--softmax"});
  ExpectError({"export", "m", "--all", "-o", "m.json"}, 2, {"--all"});
}

TEST_F(ProgramTest, Export_ClassesWithNames_AreMetadataOfOnnx) {
  WriteWhole(folder_ / "d.csv", "a,kind\n1,emu\n2,auk\n3,\"a \"\"b\"\"\"\n");
  WriteWhole(folder_ / "run.json", R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1]}},
      {"class_name": "Dense", "config": {"units": 3}}]}},
    "compile": {"optimizer": "sgd", "loss": {"class_name":
      "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
    "data": {"train": {"csv": "d.csv"}}, "fit": {"verbose": 0}})");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "m.onnx"}), 0) << err_;
  const std::string onnx = ReadWhole(folder_ / "m.onnx");
  EXPECT_TRUE(Contains(onnx, "class_names"));
  EXPECT_TRUE(Contains(onnx, R"(["a \"b\"","auk","emu"])"));
}

// Keras sorts layers by their depth, so model.set_weights takes the arrays in
// that order, and not in the order of the file.
TEST_F(ProgramTest, Export_ModelOfBranches_HasTheOrderOfKeras) {
  const auto dense = [](const char* name, const char* from) {
    return std::string(R"({"class_name": "Dense", "name": ")") + name +
           R"(", "config": {"units": 1, "name": ")" + name +
           R"("}, "inbound_nodes": [[[")" + from + R"(", 0, 0, {}]]]})";
  };
  WriteWhole(folder_ / "d.csv", "a,b,c,d\n1,2,3,4\n4,3,2,1\n");
  WriteWhole(
      folder_ / "run.json",
      R"({"model": {"class_name": "Functional", "config": {"layers": [
        {"class_name": "InputLayer", "name": "in", "inbound_nodes": [],
         "config": {"batch_shape": [null, 3], "name": "in"}},)" +
          dense("b1", "in") + "," + dense("a1", "in") + "," +
          dense("a2", "a1") + "," + dense("a3", "a2") + "," +
          R"({"class_name": "Add", "name": "add", "config": {"name": "add"},
             "inbound_nodes": [[["a3", 0, 0, {}], ["b1", 0, 0, {}]]]},)" +
          dense("out", "add") +
          R"(], "input_layers": [["in", 0, 0]], "output_layers":
             [["out", 0, 0]]}},
      "compile": {"optimizer": "sgd", "loss": "mse"},
      "data": {"train": {"csv": "d.csv"}}, "fit": {"verbose": 0}})");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0) << err_;
  ASSERT_EQ(Run({"inspect", "w.npz"}), 0) << err_;
  size_t at = 0;
  for (const char* layer : {"a1/", "a2/", "a3/", "b1/", "out/"}) {
    const size_t found = out_.find(layer);
    EXPECT_TRUE(found != std::string::npos && found >= at) << layer << out_;
    at = found;
  }
}

TEST_F(ProgramTest, Export_FormatOnnx_WritesTheModel) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "m.onnx"}), 0) << err_;
  const std::string model = ReadWhole(folder_ / "m.onnx");
  EXPECT_EQ(out_ + err_, "wrote m.onnx: the model as ONNX, " +
                             std::to_string(model.size()) + " bytes\n");
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0) << err_;
  EXPECT_EQ(out_ + err_,
            "wrote w.npz: 4 arrays as npz, " +
                std::to_string(ReadWhole(folder_ / "w.npz").size()) +
                " bytes\n");
  ASSERT_EQ(Run({"export", "run.json", "--init", "w.npz", "--format", "onnx",
                 "-o", "again"}),
            0)
      << err_;
  EXPECT_EQ(ReadWhole(folder_ / "again"), model);
  ASSERT_EQ(Run({"export", "m", "--softmax", "-o", "p.onnx"}), 0) << err_;
  EXPECT_GT(ReadWhole(folder_ / "p.onnx").size(), model.size());
}

TEST_F(ProgramTest, Export_WrongCommand_WritesNoFile) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "m.onnx"}), 0) << err_;
  const std::string model = ReadWhole(folder_ / "m.onnx");
  WriteWhole(folder_ / "cut", ReadWhole(folder_ / "m").substr(0, 5000));
  WriteWhole(folder_ / "x.npy", "\x93NUMPY");
  const struct {
    Strings arguments;
    int code;
    Strings parts;  // parts of the message
  } cases[] = {
      {{"m", "--all", "-o", "m.onnx"}, 2, {"--all", "onnx"}},
      {{"m", "--softmax", "-o", "x.npz"}, 2, {"--softmax"}},
      {{"m", "--name", "two", "-o", "m.onnx"}, 2, {"--name needs --format c"}},
      {{"m", "--name", "2", "-o", "m.c"}, 2, {"m.c: '2' is"}},
      {{"m", "--with-preprocessing", "-o", "m.onnx"},
       2,
       {"--with-preprocessing needs --format c"}},
      {{"m", "--anomaly", "-o", "w2.npz"}, 2, {"--anomaly needs --format c"}},
      {{"m", "--anomaly", "-o", "m.c"},
       2,
       {"m.c: an anomaly score", "(28, 28)", "(10,)"}},
      {{"m", "--score", "mse", "-o", "m.c"}, 2, {"--score needs --anomaly"}},
      {{"m", "--anomaly", "--score", "rmse", "-o", "m.c"}, 2, {"--score rmse"}},
      {{"m", "--quantize", "int4", "-o", "m.c"}, 2, {"int4"}},
      {{"m", "--quantize", "int8", "-o", "m.onnx"},
       2,
       {"--quantize", "format c"}},
      {{"m", "--quantize", "int8", "-o", "m.c"}, 2, {"--data RUN.json"}},
      {{"m", "--data", "run.json", "-o", "m.c"},
       2,
       {"--data needs --quantize int8"}},
      {{"m", "--quantize", "int8", "--data", "none.json", "-o", "m.c"},
       2,
       {"none.json"}},
      {{"m", "--init", "w.npz", "-o", "x.npz"},
       2,
       {"--init does not go with --format npz"}},
      {{"m", "--init", "none", "-o", "m.onnx"}, 2, {"--init: none"}},
      {{"run.json", "-o", "m.onnx"}, 2, {"--init WEIGHTS"}},
      {{"run.json", "--init", "none", "-o", "m.onnx"}, 2, {"--init: none"}},
      {{"run.json", "--init", "w.npz", "--init-layout", "x", "-o", "m.onnx"},
       2,
       {"--init-layout x"}},
      {{"none", "-o", "m.onnx"}, 2, {"none, from the"}},
      {{"w.npz", "-o", "m.onnx"}, 2, {"w.npz"}},
      {{"x.npy", "-o", "m.onnx"}, 2, {"x.npy"}},
      {{"cut", "-o", "m.onnx"}, 1, {"cut"}},
      {{"m", "--format", "ONNX", "-o", "m.onnx"},
       2,
       {"'ONNX'", "--format onnx, c"}},
      {{"m", "-o", "no/m.onnx"}, 2, {"no/m.onnx"}},
      {{"m", "--format", "onnx", "-o", "."}, 2, {"folder"}},
      {{"m", "--format", "onnx", "-o", "./m"},
       2,
       {"--out ./m: is the file itself"}},
      {{"--format", "onnx", "-o", "m.onnx"}, 2, {"FILE is missing"}},
  };
  for (const auto& c : cases) {
    Strings command = {"export"};
    command.insert(command.end(), c.arguments.begin(), c.arguments.end());
    ExpectError(command, c.code, c.parts);
  }
  EXPECT_EQ(ReadWhole(folder_ / "m.onnx"), model);
}

TEST_F(ProgramTest, Export_SoftmaxAfterSoftmax_IsRefused) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0) << err_;
  WriteRun("\"units\": 10}", "\"units\": 10, \"activation\": \"softmax\"}");
  // The loss takes logits, so there is a warning first.
  EXPECT_EQ(Run({"export", "run.json", "--init", "w.npz", "--softmax", "-o",
                 "m.onnx"}),
            2);
  EXPECT_TRUE(
      Contains(err_,
               "error: m.onnx: a softmax is to follow logits, but layer "
               "'dense_1' has the activation 'softmax'"));
}

}  // namespace
}  // namespace ringlet
