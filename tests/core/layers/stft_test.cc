// STFTSpectrogram against Keras's formula in float64.

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "../../support/python.h"
#include "core/layers/setting_names.h"

namespace ringlet {
namespace {

constexpr int64_t kStftSamples = 700, kStftChannels = 2;

std::string NameOrNull(const std::string& name) {
  return name.empty() ? "null" : "\"" + name + "\"";
}

std::string StftFields(const Layer& l) {
  std::ostringstream text;
  const auto number = [](int64_t n) {
    return n == 0 ? "null" : std::to_string(n);
  };
  text << "STFTSpectrogram channels=" << kStftChannels << " mode=\""
       << NameOf(l.spectrogram_mode) << "\" frame_length=" << l.sequence_length
       << " frame_step=" << number(l.sequence_stride)
       << " fft_length=" << number(l.fft_length)
       << " window=" << NameOrNull(NameOf(l.window_function))
       << " periodic=" << (l.periodic ? "true" : "false")
       << " scaling=" << NameOrNull(NameOf(l.window_scaling)) << " padding=\""
       << NameOf(l.padding)
       << "\" expand_dims=" << (l.expand_dims ? "true" : "false");
  return text.str();
}

Layer StftWith(SpectrogramMode mode) {
  Layer layer = STFTSpectrogram();
  layer.spectrogram_mode = mode;
  layer.sequence_length = 100;
  return layer;
}

std::vector<Layer> StftCases() {
  std::vector<Layer> all = {STFTSpectrogram()};
  for (const SpectrogramMode mode :
       {SpectrogramMode::kLog, SpectrogramMode::kMagnitude,
        SpectrogramMode::kPsd, SpectrogramMode::kReal, SpectrogramMode::kImag,
        SpectrogramMode::kAngle, SpectrogramMode::kStft}) {
    all.push_back(StftWith(mode));
    all.push_back(StftWith(mode));
    Layer& other = all.back();
    other.fft_length = 120;  // no power of 2
    other.sequence_stride = 33;
    other.window_function = WindowFunction::kHamming;
    other.window_scaling = WindowScaling::kSpectrum;
    other.periodic = other.expand_dims = true;
    other.Padding(kSame);
  }
  all.push_back(StftWith(SpectrogramMode::kPsd));
  all.back().window_function = WindowFunction::kNone;
  all.push_back(StftWith(SpectrogramMode::kReal));
  all.back().window_scaling = WindowScaling::kNone;
  all.push_back(StftWith(SpectrogramMode::kReal));
  all.back().sequence_length = all.back().sequence_stride = 64;
  all.back().Padding(kSame);
  return all;
}

Floats StereoSound(uint64_t seed) {
  return RandomFloats(kStftSamples * kStftChannels, seed);
}

TEST(StftTest, EachMode_RandomSamples_IsTheFormulaInFloat64) {
  const DataFiles files;
  const Floats sound = StereoSound(1);
  files.Write("x", std::string(reinterpret_cast<const char*>(sound.data()),
                               sound.size() * sizeof(float)));
  std::string cases;
  for (const Layer& layer : StftCases()) cases += StftFields(layer) + " x\n";
  files.Write("cases.txt", cases);
  const std::vector<std::string> lines =
      RunPython(Script("spectrogram_oracle.py") + files.root());
  ASSERT_EQ(lines.size(), StftCases().size());
  for (size_t i = 0; i < lines.size(); ++i) {
    SCOPED_TRACE(StftFields(StftCases()[i]));
    OpRunner op(StftCases()[i], {{kStftSamples, kStftChannels}});
    ASSERT_OK(op.status());
    std::istringstream values(lines[i]);
    double expected = 0, worst = 0;
    for (const float y : op.Run(1, {sound}, {}, {}).y) {
      ASSERT_TRUE(values >> expected);
      double error = std::fabs(y - expected);
      // Angles of -pi and pi are one.
      if (StftCases()[i].spectrogram_mode == SpectrogramMode::kAngle) {
        error = std::min(error, std::fabs(error - 2 * 3.141592653589793));
      }
      worst = std::max(worst, error / std::max(1.0, std::fabs(expected)));
    }
    EXPECT_FALSE(values >> expected);
    EXPECT_LE(worst, 1e-6);
  }
}

TEST(StftTest, Forward_AnyBatchAndThreads_GivesOneResult) {
  for (const Layer& layer : StftCases()) {
    OpRunner op(layer, {{kStftSamples, kStftChannels}});
    Floats all, expected;
    for (uint64_t i = 0; i < 5; ++i) {
      const Floats x = StereoSound(i);
      all.insert(all.end(), x.begin(), x.end());
      const Floats y = op.Run(1, {x}, {}, {}).y;
      expected.insert(expected.end(), y.begin(), y.end());
    }
    EXPECT_EQ(op.Run(5, {all}, {}, {}).y, expected);
    EXPECT_EQ(op.Run(5, {all}, {}, {}, /*threads=*/2, /*planned=*/32).y,
              expected);
    EXPECT_EQ(op.Run(5, {all}, {}, {}, /*threads=*/4).y, expected);
  }
}

// As Keras's documentation has them.
TEST(StftTest, Output_OfKerasExamples_HasTheirShapes) {
  Layer layer = STFTSpectrogram();
  layer.sequence_stride = 128;
  layer.fft_length = 512;
  const auto shape = [&](int64_t channels) {
    return OpRunner(layer, {{160000, channels}}).op().output();
  };
  EXPECT_EQ(shape(1), Shape({1249, 257}));
  layer.Padding(kSame);
  EXPECT_EQ(shape(2), Shape({1250, 514}));
  layer.expand_dims = true;
  EXPECT_EQ(shape(3), Shape({1250, 257, 3}));
}

TEST(StftTest, Make_WrongFields_AreRefused) {
  const auto error = [](auto Layer::*member, auto value,
                        const Shape& x = {1000, 1}) {
    Layer layer = STFTSpectrogram();
    layer.*member = value;
    return OpRunner(layer, {x}).status();
  };
  const auto number = [&](int64_t Layer::*member, int64_t value) {
    return error(member, value);
  };
  EXPECT_TRUE(Contains(error(&Layer::trainable, true), "must be false"));
  EXPECT_TRUE(Contains(error(&Layer::periodic, true, {1000}), "put a Reshape"));
  EXPECT_TRUE(Contains(error(&Layer::periodic, true, {255, 1}),
                       "at least 256 samples, not 255"));
  EXPECT_TRUE(Contains(number(&Layer::fft_length, 255), "fft_length is 255"));
  EXPECT_TRUE(Contains(number(&Layer::fft_length, 257), "must be even"));
  EXPECT_TRUE(Contains(number(&Layer::sequence_stride, 257),
                       "frame_step is 257; must be from 1 to 256"));
  EXPECT_TRUE(Contains(number(&Layer::sequence_length, 1), "frame_length"));
  EXPECT_TRUE(Contains(number(&Layer::num_mfcc, 3), "has no num_mfcc"));
  EXPECT_TRUE(Contains(error(&Layer::padding, kCausal), "padding must be"));
  Layer mfcc = MFCC();
  mfcc.window_function = WindowFunction::kHamming;
  EXPECT_TRUE(Contains(OpRunner(mfcc, {{16000}}).status(),
                       "MFCC has no window, which is of STFTSpectrogram"));
}

}  // namespace
}  // namespace ringlet
