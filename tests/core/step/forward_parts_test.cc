// A large batch passes the layers part by part where nothing is trained.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kSide = 40;
constexpr int64_t kPixels = kSide * kSide;

// Two images become another image, a class of which the logits are an output
// too, and the second image as it is. With 22 floats for a pixel between two
// layers, a part has four examples.
std::unique_ptr<Functional> ImagesModel(int threads) {
  auto model = std::make_unique<Functional>();
  const auto a = model->Add(Input({kSide, kSide, 1}));
  const auto b = model->Add(Input({kSide, kSide, 1}));
  const auto wide =
      model->Add(Conv2D(11, 3).Padding(kSame), {model->Add(Add(), {a, b})});
  const auto normal = model->Add(BatchNormalization(), {wide});
  const auto image = model->Add(
      ReLU(), {model->Add(Conv2D(2, 1), {model->Add(ReLU(), {normal})})});
  const auto logits =
      model->Add(Dense(3), {model->Add(GlobalAveragePooling2D(), {image})});
  const auto classes = model->Add(Softmax(), {logits});
  const auto same = model->Add(Flatten(), {b});
  model->Outputs({image, logits, classes, same});
  CompileOptions options;
  options.threads = threads;
  model->Compile(SGD(0.1f), MeanSquaredError(), {}, options);
  EXPECT_OK(model->status());
  return model;
}

// The inputs of some examples: the first of each, then the second of each.
std::vector<float> InputsOf(int64_t first, int64_t count) {
  std::vector<float> x;
  for (const int64_t input : {0, 1}) {
    for (int64_t i = first * kPixels; i < (first + count) * kPixels; ++i) {
      x.push_back(static_cast<float>((i * 7919 + input) % 101) * 0.01f);
    }
  }
  return x;
}

TEST(ForwardPartsTest, Outputs_OfALargeBatch_EqualEachExamples) {
  for (const int threads : {1, 2}) {
    const auto model = ImagesModel(threads), one = ImagesModel(1);
    for (const int64_t batch : {100, 1, 32, 9}) {
      SCOPED_TRACE(batch);
      const std::vector<float> all = InputsOf(0, batch);
      ASSERT_OK(model->Forward(all.data(), batch, /*training=*/false));
      for (int64_t i = 0; i < batch; ++i) {
        const std::vector<float> x = InputsOf(i, 1);
        ASSERT_OK(one->Forward(x.data(), 1, /*training=*/false));
        for (int k = 0; k < 4; ++k) {
          const int64_t width =
              model->output_shape(model->output_node(k)).elements();
          ASSERT_TRUE(std::equal(one->output(k), one->output(k) + width,
                                 model->output(k) + i * width))
              << "output " << k << " of example " << i;
        }
      }
    }
  }
}

// The memory is then planned for a step, in which values have other places.
TEST(ForwardPartsTest, Outputs_AfterAStep_EqualEachExamples) {
  const auto model = ImagesModel(1);
  ASSERT_OK(model->Reserve(32, /*training=*/true));
  const std::vector<float> x = InputsOf(0, 32);
  ASSERT_OK(model->Forward(x.data(), 32, /*training=*/true));
  ASSERT_OK(model->Forward(x.data(), 32, /*training=*/false));
  const std::vector<float> image(model->output(0),
                                 model->output(0) + 32 * 2 * kPixels);
  for (int64_t i = 0; i < 32; ++i) {
    const std::vector<float> one = InputsOf(i, 1);
    ASSERT_OK(model->Forward(one.data(), 1, /*training=*/false));
    ASSERT_TRUE(std::equal(model->output(0), model->output(0) + 2 * kPixels,
                           image.data() + i * 2 * kPixels))
        << i;
  }
}

TEST(ForwardPartsTest, Error_InALaterPart_NamesThePlaceInTheBatch) {
  Sequential model;
  model.Add(Input({32, 32}));
  model.Add(Embedding(10, 32));  // 32 floats for each number
  model.Add(Conv2D(4, 3));
  model.Add(GlobalAveragePooling2D());
  model.Add(Dense(2));
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(model.status());
  std::vector<float> x(32 * 32 * 32, 1.0f);
  x[20 * 32 * 32 + 5] = 10;
  const Status status = model.Forward(x.data(), 32, /*training=*/false);
  EXPECT_TRUE(Contains(status.message(), "number 20485 of the batch is 10"))
      << status.message();
  x[20 * 32 * 32 + 5] = 9;
  EXPECT_OK(model.Forward(x.data(), 32, /*training=*/false));
}

}  // namespace
}  // namespace ringlet
