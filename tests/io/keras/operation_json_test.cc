// Arithmetic on tensors in functional models, as Keras 3 and tf.keras write it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "../../support/temp_folder.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

using Floats = std::vector<float>;

// A model of inputs "x" and "y" of three numbers, and these layers; the last is
// named "z".
std::string ModelOf(const std::string& layers, bool two_inputs = false) {
  const auto input = [](const std::string& name) {
    return R"({"class_name": "InputLayer", "config": {"name": ")" + name +
           R"(", "batch_shape": [null, 3]}, "name": ")" + name +
           R"(", "inbound_nodes": []}, )";
  };
  return R"({"class_name": "Functional", "config": {"name": "m", "layers": [)" +
         input("x") + (two_inputs ? input("y") : "") + layers +
         R"(], "input_layers": [["x", 0, 0])" +
         (two_inputs ? R"(, ["y", 0, 0])" : "") +
         R"(], "output_layers": [["z", 0, 0]]}})";
}

std::string Tensor(const std::string& name) {
  return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 3],
            "dtype": "float32", "keras_history": [")" +
         name + R"(", 0, 0]}})";
}

// As Keras 3 writes an operation: `args` of its call.
std::string Keras3(const std::string& name, const std::string& args) {
  return R"({"module": "keras.src.ops.numpy", "class_name": ")" + name +
         R"(", "config": {"name": "z"}, "registered_name": ")" + name +
         R"(", "name": "z", "inbound_nodes": [{"args": [)" + args +
         R"(], "kwargs": {}}]})";
}

// As tf.keras writes a function of TensorFlow.
std::string TfKeras(const std::string& function, const std::string& nodes) {
  return R"({"class_name": "TFOpLambda", "config": {"name": "z",
            "trainable": true, "dtype": "float32", "function": ")" +
         function + R"("}, "name": "z", "inbound_nodes": [)" + nodes + "]}";
}

// The outputs for two examples of each input, 1, 2 and 3, then 4, 5 and 6; and
// ten times as much for the second input.
Floats Outputs(const std::string& json) {
  const auto model = LoadJson(json);
  if (model == nullptr) return {};
  model->Compile(SGD(), MeanSquaredError());
  EXPECT_OK(model->status());
  Floats x = {1, 2, 3, 4, 5, 6};
  if (model->num_inputs() == 2) x.insert(x.end(), {10, 20, 30, 40, 50, 60});
  EXPECT_OK(model->Forward(x.data(), 2, /*training=*/false));
  EXPECT_EQ(ToJson(*LoadJson(ToJson(*model))), ToJson(*model));
  return {model->output(), model->output() + 6};
}

TEST(OperationJsonTest, Load_TensorAndNumberOfKeras3_ComputesIt) {
  const std::string x = Tensor("x");
  const auto outputs_of = [](const std::string& name, const std::string& args) {
    return Outputs(ModelOf(Keras3(name, args)));
  };
  EXPECT_EQ(outputs_of("Add", x + ", 3.0"), Floats({4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(outputs_of("Add", "3, " + x), Floats({4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(outputs_of("Subtract", x + ", 1"), Floats({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(outputs_of("Subtract", "1, " + x), Floats({0, -1, -2, -3, -4, -5}));
  EXPECT_EQ(outputs_of("Multiply", x + ", 0.5"),
            Floats({0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(outputs_of("TrueDivide", x + ", 4"),
            Floats({0.25, 0.5, 0.75, 1, 1.25, 1.5}));
  EXPECT_EQ(outputs_of("Divide", x + ", -2"),
            Floats({-0.5, -1, -1.5, -2, -2.5, -3}));
  EXPECT_EQ(outputs_of("Negative", x), Floats({-1, -2, -3, -4, -5, -6}));
  EXPECT_EQ(outputs_of("Power", x + ", 2"), Floats({1, 4, 9, 16, 25, 36}));
  EXPECT_EQ(outputs_of("Power", x + ", 2.0"), Floats({1, 4, 9, 16, 25, 36}));
}

TEST(OperationJsonTest, Load_NumbersInAnyForm_AreForEachChannel) {
  const std::string forms[] = {
      "[1, 2, 4]", "[[1.0, 2.0, 4.0]]",
      R"({"class_name": "__numpy__", "config": {"value": [1, 2, 4],
          "dtype": "float32"}})",
      R"({"class_name": "__tensor__", "config": {"value": [[1, 2, 4]],
          "dtype": "float32"}})"};
  for (const std::string& form : forms) {
    EXPECT_EQ(Outputs(ModelOf(Keras3("Add", Tensor("x") + "," + form))),
              Floats({2, 4, 7, 5, 7, 10}))
        << form;
    EXPECT_EQ(Outputs(ModelOf(Keras3("Subtract", form + "," + Tensor("x")))),
              Floats({0, 0, 1, -3, -3, -2}))
        << form;
    EXPECT_EQ(Outputs(ModelOf(TfKeras("math.truediv",
                                      R"(["x", 0, 0, {"y": )" + form + "}]"))),
              Floats({1, 1, 0.75, 4, 2.5, 1.5}))
        << form;
  }
}

TEST(OperationJsonTest, Load_FunctionsOfTensorFlow_ComputeThem) {
  const auto outputs_of = [](const std::string& function,
                             const std::string& nodes) {
    return Outputs(ModelOf(TfKeras(function, nodes)));
  };
  const std::string with_2 = R"(["x", 0, 0, {"y": 2.0, "name": null}])";
  const std::string from_2 =
      R"(["_CONSTANT_VALUE", -1, 2.0, {"y": ["x", 0, 0], "name": null}])";
  const Floats sum = {3, 4, 5, 6, 7, 8};
  EXPECT_EQ(outputs_of("__operators__.add", with_2), sum);
  EXPECT_EQ(outputs_of("math.add", with_2), sum);
  EXPECT_EQ(outputs_of("math.add", "[" + with_2 + "]"), sum);
  EXPECT_EQ(outputs_of("math.add", from_2), sum);
  EXPECT_EQ(outputs_of("math.subtract", with_2), Floats({-1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(outputs_of("math.subtract", from_2),
            Floats({1, 0, -1, -2, -3, -4}));
  EXPECT_EQ(outputs_of("math.multiply", with_2), Floats({2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(outputs_of("math.truediv", with_2),
            Floats({0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(outputs_of("math.negative", R"(["x", 0, 0, {"name": null}])"),
            Floats({-1, -2, -3, -4, -5, -6}));
  EXPECT_EQ(outputs_of("math.pow", with_2), Floats({1, 4, 9, 16, 25, 36}));
}

TEST(OperationJsonTest, Load_TwoTensors_AreMerged) {
  const std::string args = Tensor("x") + ", " + Tensor("y");
  const std::string node = R"(["x", 0, 0, {"y": ["y", 0, 0], "name": null}])";
  const auto both = [&](const char* operation, const char* function) {
    const Floats keras3 =
        Outputs(ModelOf(Keras3(operation, args), /*two_inputs=*/true));
    EXPECT_EQ(Outputs(ModelOf(TfKeras(function, node), true)), keras3);
    return keras3;
  };
  EXPECT_EQ(both("Add", "math.add"), Floats({11, 22, 33, 44, 55, 66}));
  EXPECT_EQ(both("Subtract", "math.subtract"),
            Floats({-9, -18, -27, -36, -45, -54}));
  EXPECT_EQ(both("Multiply", "math.multiply"),
            Floats({10, 40, 90, 160, 250, 360}));
}

TEST(OperationJsonTest, Load_LayerCalledTwice_NeedsTheSameNumbers) {
  const std::string first = R"(["x", 0, 0, {"y": 2.0}], )";
  const auto model = [&](const std::string& second) {
    return ModelOf(TfKeras("math.add", first + second) +
                   R"(, {"class_name": "Add", "config": {"name": "w"},
                   "name": "w", "inbound_nodes": [[["z", 0, 0, {}],
                   ["z", 1, 0, {}]]]})");
  };
  std::string same = model(R"(["x", 0, 0, {"y": 2.0}])");
  same.replace(same.rfind(R"(["z", 0, 0]])"), 12, R"(["w", 0, 0]])");
  EXPECT_EQ(Outputs(same), Floats({6, 8, 10, 12, 14, 16}));
  EXPECT_NE(JsonError(model(R"(["x", 0, 0, {"y": 3.0}])"))
                .find("config.layers[1].inbound_nodes[1]: a call with other "
                      "numbers"),
            std::string::npos);
}

// Files of Keras 3 and tf.keras with one model: d = dense(x),
// -((1 - d * relu6(d + 3) / 6) / [1, 2, 4, 8]).
TEST(OperationJsonTest, Forward_FilesOfKeras_EqualTheFormula) {
  const std::string folder =
      EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/keras_json/";
  for (const char* name : {"keras3_operations", "tf_keras_2_11_operations"}) {
    SCOPED_TRACE(name);
    const auto model = LoadJson(ReadWhole(folder + name + ".json"));
    ASSERT_NE(model, nullptr);
    CompileOptions options;
    options.seed = 7;
    model->Compile(SGD(), MeanSquaredError(), {}, options);
    ASSERT_OK(model->status());
    const float* const w = model->weights();
    for (const int64_t batch : {1, 32, 100, 33}) {
      Floats x;
      for (int64_t i = 0; i < 4 * batch; ++i) {
        x.push_back(static_cast<float>(i * 53 % 97) / 10 - 5);
      }
      ASSERT_OK(model->Forward(x.data(), batch, /*training=*/false));
      for (int64_t i = 0; i < 4 * batch; ++i) {
        double d = 0;
        for (int64_t k = 0; k < 4; ++k) {
          d += double{x[i / 4 * 4 + k]} * double{w[4 * k + i % 4]};
        }
        const double swish = d * std::min(std::max(d + 3, 0.0), 6.0) / 6;
        const double expected = (swish - 1) / (1 << (i % 4));
        EXPECT_NEAR(model->output()[i], expected,
                    1e-5 * std::max(1.0, std::fabs(expected)))
            << batch << ", " << i;
      }
    }
  }
}

TEST(OperationJsonTest, Train_ThroughOperations_ChangesTheWeightsBefore) {
  const auto model =
      LoadJson(ReadWhole(EnvironmentOr("RINGLET_SOURCE", ".") +
                         "/tests/keras_json/keras3_operations.json"));
  ASSERT_NE(model, nullptr);
  model->Compile(SGD(0.01f), MeanSquaredError());
  const Floats before(model->weights(),
                      model->weights() + model->num_weights());
  const Floats x(8, 0.5f), y(8, 2);
  Batch batch;
  batch.count = batch.global_count = 2;
  batch.x = x.data();
  batch.y = y.data();
  ASSERT_OK(model->TrainStep(batch));
  EXPECT_FALSE(std::equal(before.begin(), before.end(), model->weights()));
}

// The loss (s^2 - y)^2 of s = w x has the gradient 4 (s^2 - y) s x.
TEST(OperationJsonTest, Train_ThroughASquare_HasTheGradientByHand) {
  const std::string dense =
      R"({"class_name": "Dense", "config": {"name": "d", "units": 1,
          "use_bias": false}, "name": "d", "inbound_nodes": [{"args": [)" +
      Tensor("x") + R"(], "kwargs": {}}]}, )";
  const auto model =
      LoadJson(ModelOf(dense + Keras3("Power", Tensor("d") + ", 2")));
  ASSERT_NE(model, nullptr);
  model->Compile(SGD(0.01f), MeanSquaredError());
  ASSERT_EQ(model->num_weights(), 3);
  const float w[] = {0.5f, -1, 2};
  std::copy(w, w + 3, model->weights());
  const Floats x = {1, 2, 1}, y = {5};  // s = 0.5
  Batch batch;
  batch.count = batch.global_count = 1;
  batch.x = x.data();
  batch.y = y.data();
  ASSERT_OK(model->TrainStep(batch));
  for (int i = 0; i < 3; ++i) {
    const float gradient = 4 * (0.25f - 5) * 0.5f * x[static_cast<size_t>(i)];
    EXPECT_NEAR(model->weights()[i], w[i] - 0.01f * gradient, 1e-6) << i;
  }
}

TEST(OperationJsonTest, Load_OtherOperations_AreRefusedWithTheirPlace) {
  const std::string x = Tensor("x"), y = Tensor("y");
  const struct {
    std::string json;
    const char* message;
  } kCases[] = {
      {ModelOf(Keras3("TrueDivide", x + ", 0")), "[0]: divides by 0"},
      {ModelOf(Keras3("TrueDivide", "1, " + x)),
       "layers[1].inbound_nodes[0]: a number divided by a tensor is not "
       "supported; no layer has 1 / x: compute it in the data"},
      {ModelOf(Keras3("TrueDivide", x + ", " + y), /*two_inputs=*/true),
       "a quotient of two tensors"},
      {ModelOf(Keras3("Add", x + ", 1, 2")), "a tensor and a number"},
      {ModelOf(Keras3("Add", "1, 2")), "a tensor and a number"},
      {ModelOf(Keras3("Negative", x + ", 1")), "must have one tensor"},
      {ModelOf(Keras3("Maximum", x + ", 0.0")), "a number as an input"},
      {ModelOf(Keras3("Add", x + ", true")), "args[1]: is true"},
      {ModelOf(Keras3("Add", x + ", 1e39")), "args[1]: is 1e+39"},
      {ModelOf(Keras3("Add", x + ", [1, 2]")), "offset has 2 values"},
      {ModelOf(Keras3("Add", x + ", [[[1, 2, 3]]]")),
       "numbers of 3 dimensions; at most 2"},
      {ModelOf(Keras3("Add", x + ", [[1], [2]]")), "a tensor and a number"},
      {ModelOf(Keras3("Power", x + ", 3")),
       "is not x ** 2, the only power that is read; for x ** 3 call the layer "
       "Multiply with [x, x, x]"},
      {ModelOf(Keras3("Power", "2, " + x)), "is not x ** 2"},
      {ModelOf(Keras3("Power", x + ", [2, 2, 2]")), "is not x ** 2"},
      {ModelOf(Keras3("Power", x + ", " + y), /*two_inputs=*/true),
       "a power of two tensors is not supported"},
      {ModelOf(TfKeras("nn.relu6", R"(["x", 0, 0, {"name": null}])")),
       "config.function: unknown function 'nn.relu6'"},
      {ModelOf(TfKeras("math.add", R"(["x", 0, 0, {"z": 1}])")),
       "unknown field 'z'"},
      {ModelOf(TfKeras("math.add", R"(["x", 0, 0, {"y": "a"}])")),
       "inbound_nodes[0][3].y: is \"a\""},
      {ModelOf(TfKeras("math.add", R"(["x", 0, 0, {}])")),
       "a tensor and a number, or two tensors"},
      {ModelOf(TfKeras("math.add", R"(["_CONSTANT_VALUE", -1, "a", {}])")),
       "inbound_nodes[0]"},
      {R"({"class_name": "Sequential", "config": [{"class_name": "InputLayer",
        "config": {"batch_shape": [null, 3]}}, {"class_name": "TFOpLambda",
        "config": {"name": "z", "function": "math.add"}}]})",
       "only a functional model"},
  };
  for (const auto& each : kCases) {
    const std::string error = JsonError(each.json);
    EXPECT_NE(error.find(each.message), std::string::npos)
        << "'" << each.message << "' is not in: " << error;
  }
}

}  // namespace
}  // namespace ringlet
