// Models that TensorFlow.js 4.22 wrote (model.toJSON) compute what they compute
// there. tests/keras_json/tfjs_*.json; the expected numbers are from its
// predict, for two examples.

#include <gtest/gtest.h>

#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "../../support/temp_folder.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

using Floats = std::vector<float>;

float Remainder(int64_t k, int64_t factor, int64_t modulus) {
  return static_cast<float>(k * factor % modulus);
}

// The outputs for numbers that JavaScript makes the same way.
void ExpectOutputs(const char* name, const std::vector<Floats>& expected) {
  SCOPED_TRACE(name);
  const auto model = LoadJson(KerasJson(name));
  ASSERT_NE(model, nullptr);
  const auto again = LoadJson(ToJson(*model));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ToJson(*again), ToJson(*model));
  Floats x;
  for (int i = 0; i < model->num_inputs(); ++i) {  // the first nodes
    for (int64_t k = 0; k < 2 * model->output_shape(i).elements(); ++k) {
      x.push_back(Remainder(k, 53, 97) / 97 - 0.3f);
    }
  }
  std::vector<OutputLoss> losses(expected.size());
  for (OutputLoss& each : losses) each.loss = MeanSquaredError();
  for (Model* each : {model.get(), again.get()}) {
    each->Compile(SGD(), losses);
    ASSERT_OK(each->status());
    for (const Variable& v : each->variables()) {
      for (int64_t k = 0; k < v.size(); ++k) {
        each->weights()[v.offset + k] = (Remainder(k, 37, 101) + 1) / 200;
      }
    }
    ASSERT_OK(each->Forward(x.data(), 2, /*training=*/false));
    for (size_t k = 0; k < expected.size(); ++k) {
      for (size_t i = 0; i < expected[k].size(); ++i) {
        const float value = each->output(static_cast<int>(k))[i];
        EXPECT_NEAR(value, expected[k][i],
                    2e-6 * std::max(1.0f, std::abs(value)))
            << k << ", " << i;
      }
    }
  }
}

TEST(TensorFlowJsTest, Forward_CurvesAndNormalizations_EqualsTensorFlowJs) {
  ExpectOutputs("tfjs_curves",
                {{0.2559465f, 0.3611797f, 0.5527768f, 0.3467686f, 0.4448345f,
                  0.2559775f, 0.3611604f, 0.5527817f, 0.3467978f, 0.4448167f}});
}

TEST(TensorFlowJsTest, Forward_LayersOverStepsAndNoise_EqualsTensorFlowJs) {
  ExpectOutputs("tfjs_lines", {{0.06552754f, 0.5528130f, 0.3816595f,
                                0.06029156f, 0.5606077f, 0.3791007f}});
}

TEST(TensorFlowJsTest, Forward_SharedNestedAndMerged_EqualsTensorFlowJs) {
  ExpectOutputs("tfjs_graph",
                {{0.1064246f, 0.01100771f, 0.8492320f, 0.03333561f, 0.1097834f,
                  0.01057491f, 0.8452343f, 0.03440738f},
                 {-15.69411f, -15.62672f}});
}

TEST(TensorFlowJsTest, Forward_RecurrentLayers_EqualsTensorFlowJs) {
  ExpectOutputs("tfjs_recurrent",
                {{0.4567753f, 0.2293655f, 0.7652310f, 0.4133736f, 0.9815371f,
                  0.5643756f, 0.4575969f, 0.2295530f, 0.7666520f, 0.4137644f,
                  0.9834136f, 0.5649738f}});
  ExpectOutputs("tfjs_directions",
                {{0.3950874f, 0.4702753f, 0.3968882f, 0.4717129f}});
}

}  // namespace
}  // namespace ringlet
