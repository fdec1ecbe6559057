// STFTSpectrogram as JSON.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

// A Sequential of sound of (700, 2) with this layer.
Status LoadStft(const std::string& config, std::unique_ptr<Model>* model) {
  return ModelFromJson(
      R"({"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 700, 2]}},
      {"class_name": "STFTSpectrogram", "config": {)" +
          config + "}}]}}",
      model);
}

Layer StftOf(const std::string& config) {
  std::unique_ptr<Model> model, again;
  EXPECT_OK(LoadStft(config, &model));
  if (model == nullptr) return Layer();
  EXPECT_OK(ModelFromJson(ToJson(*model), &again));
  EXPECT_EQ(ToJson(*again), ToJson(*model));
  return model->layer(1);
}

TEST(SoundJsonTest, Stft_AsKerasWritesIt_HasItsFields) {
  const Layer standard = StftOf(R"("name": "it", "trainable": false)");
  EXPECT_EQ(standard.sequence_length, 256);
  EXPECT_EQ(standard.spectrogram_mode, SpectrogramMode::kLog);
  EXPECT_EQ(standard.window_function, WindowFunction::kHann);
  EXPECT_EQ(standard.window_scaling, WindowScaling::kDensity);
  const Layer other = StftOf(R"("trainable": false, "mode": "psd",
      "frame_length": 100, "frame_step": 33, "fft_length": 120,
      "window": null, "periodic": true, "scaling": null, "padding": "same",
      "data_format": "channels_last", "expand_dims": true)");
  EXPECT_EQ(other.spectrogram_mode, SpectrogramMode::kPsd);
  EXPECT_EQ(other.sequence_length, 100);
  EXPECT_EQ(other.sequence_stride, 33);
  EXPECT_EQ(other.fft_length, 120);
  EXPECT_EQ(other.window_function, WindowFunction::kNone);
  EXPECT_EQ(other.window_scaling, WindowScaling::kNone);
  EXPECT_EQ(other.padding, kSame);
  EXPECT_TRUE(other.periodic && other.expand_dims);
}

TEST(SoundJsonTest, Stft_TrainableOrUnknownWindow_IsRefused) {
  std::unique_ptr<Model> model;
  EXPECT_TRUE(Contains(LoadStft("", &model), "\"trainable\" must be false"));
  EXPECT_TRUE(
      Contains(LoadStft(R"("trainable": false, "window": "blackman")", &model),
               "blackman"));
  EXPECT_TRUE(Contains(
      LoadStft(R"("trainable": false, "window": [1, 2])", &model), "window"));
}

// The "trainable" of the TimeDistributed is not the "trainable" of its layer.
TEST(SoundJsonTest, Stft_InATimeDistributed_IsReadAsItIsWritten) {
  Sequential model(
      {Input({2, 700, 2}), TimeDistributed(STFTSpectrogram()), Flatten()});
  ASSERT_OK(model.status());
  std::unique_ptr<Model> read;
  ASSERT_OK(ModelFromJson(ToJson(model), &read));
  EXPECT_EQ(ToJson(*read), ToJson(model));
}

}  // namespace
}  // namespace ringlet
