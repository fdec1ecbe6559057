// Recurrent layers with mixed_bfloat16 save gates and states as bfloat16.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "core/base/float16.h"
#include "core/layers/layer_kind.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

constexpr int64_t kSteps = 5, kFeatures = 3, kUnits = 6, kGroup = 8;

class NoSink final : public GradientSink {
 public:
  void OnGradientsFinal(int64_t) override {}
  void ConsumeGradients(int64_t, const float*) override {}
  void ConsumeRows(int64_t, const GradientRows&) override {}
};

// Passes of the float32 op over each group of examples, with rounding of what
// it saves in between.
OpRun RunRounded(const Layer& layer, int64_t batch, const Floats& x,
                 std::vector<Floats> weights, Floats dy) {
  std::unique_ptr<Op> op;
  EXPECT_OK(Op::Make(layer, {{kSteps, kFeatures}}, &op));
  const int64_t width = op->output().elements();
  OpRun all;
  all.y.resize(static_cast<size_t>(batch * width));
  all.dx.emplace_back(x.size());
  for (const Floats& w : weights) all.d_weights.emplace_back(w.size(), 0.0f);
  ThreadPool pool(1);
  NoSink sink;
  for (int64_t first = 0; first < batch; first += kGroup) {
    std::vector<Floats> d_weights = weights;
    std::vector<float*> w, d;
    for (Floats& each : weights) w.push_back(each.data());
    for (Floats& each : d_weights) d.push_back(each.data());
    const float* const xs[] = {x.data() + first * kSteps * kFeatures};
    float* const dxs[] = {all.dx[0].data() + first * kSteps * kFeatures};
    OpCall call;
    call.batch = std::min(kGroup, batch - first);
    Floats saved(op->saved_floats(call.batch)),
        scratch(std::max(op->forward_scratch(call.batch, 1),
                         op->backward_scratch(call.batch, 1)));
    call.x = xs;
    call.y = all.y.data() + first * width;
    call.weights = w.data();
    call.scratch = scratch.data();
    call.training = true;
    call.saved = saved.data();
    call.pool = &pool;
    call.dy = dy.data() + first * width;
    call.dx = dxs;
    call.d_weights = d.data();
    call.sink = &sink;
    op->Forward(call);
    for (float& each : saved) each = FloatOfBFloat16(BFloat16OfFloat(each));
    op->Backward(call);
    for (size_t v = 0; v < weights.size(); ++v) {
      for (size_t i = 0; i < weights[v].size(); ++i) {
        all.d_weights[v][i] += d_weights[v][i];
      }
    }
  }
  return all;
}

std::vector<Layer> Layers() {
  return {LSTM(kUnits).ReturnSequences(true), GRU(kUnits).GoBackwards(true),
          GRU(kUnits).ResetAfter(false), SimpleRNN(kUnits)};
}

TEST(PackedRecurrentTest, Gradients_MixedBFloat16_EqualFloat32OfRoundedStates) {
  for (const Layer& layer : Layers()) {
    Layer mixed = layer;
    OpRunner runner(mixed.DType(DTypePolicy::kMixedBFloat16),
                    {{kSteps, kFeatures}});
    ASSERT_OK(runner.status());
    const std::vector<Floats> weights = runner.RandomWeights(1);
    for (const int64_t batch : {1, 7, 8, 20}) {
      const auto floats = [batch](int64_t width) {
        return RandomFloats(static_cast<size_t>(batch * width), 9);
      };
      const Floats x = floats(kSteps * kFeatures),
                   dy = floats(runner.op().output().elements());
      const OpRun expected = RunRounded(layer, batch, x, weights, dy);
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(testing::Message() << "kind " << int(layer.kind) << ", "
                                        << batch << ", " << threads);
        const OpRun run = runner.Run(batch, {x}, weights, dy, threads, 32);
        EXPECT_EQ(run.y, expected.y);
        EXPECT_EQ(run.dx, expected.dx);
        EXPECT_EQ(run.d_weights[0], expected.d_weights[0]);
        EXPECT_EQ(run.d_weights[1], expected.d_weights[1]);
        // The bias's sum begins again in each of the expected groups.
        for (size_t i = 0; i < run.d_weights[2].size(); ++i) {
          EXPECT_NEAR(run.d_weights[2][i], expected.d_weights[2][i], 1e-4);
        }
      }
    }
  }
}

void ExpectNear(const Floats& values, const Floats& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::fabs(values[i] - expected[i]);
    size += std::fabs(expected[i]);
  }
  EXPECT_LT(error, 0.01 * size);
}

// Initial states, masked steps, and the masks of dropout are those of float32,
// in each group.
TEST(PackedRecurrentTest, SeveralGroups_AllInputs_GradientsAreNearFloat32s) {
  for (Layer layer : Layers()) {
    layer.Dropout(0.3f).RecurrentDropout(0.2f);
    layer.masked_inputs = 1;
    const int64_t batch = 20;
    std::vector<Shape> shapes = {{kSteps, kFeatures}, {kUnits}};
    if (layer.kind == Layer::Kind::kLSTM) shapes.push_back({kUnits});
    std::vector<Floats> x;
    for (const Shape& shape : shapes) {
      x.push_back(
          RandomFloats(static_cast<size_t>(batch * shape.elements()), 3));
    }
    shapes.push_back({kSteps});
    x.push_back(RandomFloats(static_cast<size_t>(batch * kSteps), 5));
    for (float& each : x.back()) each = each > -0.5f ? 1 : 0;
    OpRunner float32(layer, shapes);
    OpRunner mixed(layer.DType(DTypePolicy::kMixedBFloat16), shapes);
    ASSERT_OK(mixed.status());
    const std::vector<Floats> weights = float32.RandomWeights(1);
    const auto outputs =
        static_cast<size_t>(batch * float32.op().output().elements());
    const Floats dy = RandomFloats(outputs, 4);
    const OpRun expected = float32.Run(batch, x, weights, dy);
    const OpRun run = mixed.Run(batch, x, weights, dy, 2);
    EXPECT_EQ(run.y, expected.y);
    EXPECT_NE(run.dx[0], expected.dx[0]);
    for (size_t k = 0; k + 1 < x.size(); ++k) {
      ExpectNear(run.dx[k], expected.dx[k]);
    }
    for (size_t v = 0; v < weights.size(); ++v) {
      ExpectNear(run.d_weights[v], expected.d_weights[v]);
    }
  }
}

TEST(PackedRecurrentTest, Evaluation_Outputs_EqualFloat32s) {
  for (Layer layer : Layers()) {
    const Floats x = RandomFloats(20 * kSteps * kFeatures, 3);
    OpRunner float32(layer, {{kSteps, kFeatures}});
    OpRunner mixed(layer.DType(DTypePolicy::kMixedBFloat16),
                   {{kSteps, kFeatures}});
    float32.training = mixed.training = false;
    const std::vector<Floats> weights = float32.RandomWeights(1);
    EXPECT_EQ(mixed.Run(20, {x}, weights, {}).y,
              float32.Run(20, {x}, weights, {}).y);
  }
}

}  // namespace
}  // namespace ringlet
