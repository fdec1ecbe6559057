// A pool of maxima that is computed along with a convolution gives the bits of
// one that is not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "core/graph/graph.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kClasses = 3, kExamples = 24;
using Floats = std::vector<float>;

struct Case {
  uint32_t seed;
  bool joined;
  int threads;
};

// Some convolutions, each with a pool behind it: joined, or with a layer
// between them that changes nothing.
class PooledModel {
 public:
  explicit PooledModel(const Case& c) : random_(c.seed), joined_(c.joined) {
    const bool lines = Below(4) == 0;
    shape_ = lines ? Shape{60, Some(3)} : Shape{27 + Below(8), 29, Some(3)};
    node_ = model_.Add(Input(shape_));
    for (int layers = 1 + Below(2); layers > 0; --layers) {
      Append(Conv(lines));
      if (!joined_) Append(ActivationLayer(kLinear));
      Append(Pool(lines));
    }
    Append(Flatten());
    Append(Dense(kClasses));
  }
  Model* model() { return &model_; }
  const Shape& shape() const { return shape_; }

 private:
  int Below(uint32_t n) { return static_cast<int>(random_() % n); }
  int Some(uint32_t most) { return 1 + Below(most); }
  void Append(const Layer& layer) { node_ = model_.Add(layer, {node_}); }

  Layer Conv(bool lines) {
    const Activation activation = Below(3) == 0 ? kLinear : kRelu;
    const int filters = Below(2) == 0 ? Some(9) : 10 + Below(12);
    const int size = Some(4), strides = Some(2);
    Layer layer = lines ? Conv1D(filters, size + 1, activation)
                        : Conv2D(filters, 2, size, activation);
    layer.Strides(strides).UseBias(Below(4) > 0);
    if (Below(2) == 0) layer.Padding(kSame);
    return layer.Trainable(Below(5) > 0);
  }
  Layer Pool(bool lines) {
    const int size = Some(3);
    Layer layer = lines ? MaxPooling1D(size) : MaxPooling2D(size, Some(2));
    layer.Strides(size + (lines ? Below(2) : 0));
    if (Below(2) == 0) layer.Padding(kSame);
    return layer;
  }

  std::mt19937 random_;
  const bool joined_;
  Functional model_;
  Shape shape_;
  int node_ = 0;
};

struct Trained {
  Floats weights, losses;
  uint64_t bytes = 0;
};

Trained Train(const Case& c) {
  PooledModel pooled(c);
  Model* const model = pooled.model();
  const auto floats =
      static_cast<size_t>(kExamples * pooled.shape().elements());
  Floats x(floats);
  std::vector<int32_t> y(kExamples);
  std::mt19937 random(c.seed);
  for (float& v : x) v = static_cast<float>(random() % 5) * 0.5f - 1;
  for (int32_t& v : y) v = static_cast<int32_t>(random() % kClasses);
  CompileOptions options;
  options.threads = c.threads;
  model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  Trained result;
  for (const int64_t count : {24, 1, 7}) {
    Batch batch;
    batch.count = batch.global_count = count;
    batch.x = x.data();
    batch.y = y.data();
    double loss = 0;
    EXPECT_STREQ(model->Forward(batch.x, count, /*training=*/true).message(),
                 "");
    EXPECT_STREQ(model->ComputeLoss(batch, &loss).message(), "");
    EXPECT_STREQ(model->Backward().message(), "");
    EXPECT_STREQ(model->ApplyGradients().message(), "");
    EXPECT_STREQ(model->TestStep(batch).message(), "");
    result.losses.push_back(static_cast<float>(loss));
  }
  result.weights = WeightsOf(model);
  result.bytes = model->BytesUsed();
  return result;
}

TEST(JoinedPoolsTest, Pools_JoinedWithConvolutions_GiveTheSameBits) {
  bool less = false;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Trained apart = Train({seed, /*joined=*/false, 1});
    for (const int threads : {1, 2, 3}) {
      const Trained joined = Train({seed, /*joined=*/true, threads});
      EXPECT_EQ(joined.losses, apart.losses);
      EXPECT_EQ(joined.weights, apart.weights);
      less |= joined.bytes < apart.bytes;
    }
  }
  EXPECT_TRUE(less);
}

// If the convolution is an output of the model, it is computed as without a
// join.
TEST(JoinedPoolsTest, Pools_ConvolutionIsAnOutput_LeaveTheOutput) {
  Functional model;
  const auto x = model.Add(Input({8, 8, 1}));
  const auto conv = model.Add(Conv2D(2, 3, kRelu), {x});
  model.Outputs({conv, model.Add(MaxPooling2D(2), {conv})});
  Floats image(64);
  for (size_t i = 0; i < image.size(); ++i) image[i] = std::sin(i);
  model.Compile(SGD(0.1f), MeanSquaredError(), {}, {});
  ASSERT_OK(model.Forward(image.data(), 1, /*training=*/false));
  for (int i = 0; i < 3 * 3 * 2; ++i) {
    const float* const first =
        model.output(0) + (i / 6 * 2 * 6 + i / 2 % 3 * 2) * 2 + i % 2;
    EXPECT_EQ(model.output(1)[i],
              std::max({first[0], first[2], first[12], first[14]}));
  }
}

}  // namespace
}  // namespace ringlet
