// MelSpectrogram, MFCC and STFTSpectrogram: the Fourier transform of all frames
// is two convolutions, of its real and of its imaginary part.

#include <algorithm>

#include "../../../core/base/check.h"
#include "../../../core/layers/preprocessing/spectrogram_plan.h"
#include "../../../core/layers/preprocessing/stft.h"
#include "onnx_converter.h"

namespace ringlet {
namespace {

using Plan = SpectrogramPlan;

// The kernel (frequencies, 1, length) of a part.
std::vector<float> PartKernel(const FramePlan& plan,
                              const std::vector<double>& circle, double sign,
                              int64_t length) {
  std::vector<float> kernel(static_cast<size_t>(plan.frequencies() * length));
  for (int64_t k = 0; k < plan.frequencies(); ++k) {
    for (size_t i = 0; i < plan.window.size(); ++i) {
      const int64_t at = plan.window_begin + static_cast<int64_t>(i);
      kernel[static_cast<size_t>(k * length + at)] = static_cast<float>(
          sign * plan.window[i] *
          circle[static_cast<size_t>(at * k % plan.fft_length)]);
    }
  }
  return kernel;
}

// (mel bins, frequencies)
std::vector<float> MelMatrix(const Plan& plan) {
  std::vector<float> matrix(
      static_cast<size_t>(plan.mels() * plan.frequencies()));
  for (int64_t m = 0; m < plan.mels(); ++m) {
    const Plan::MelBin& bin = plan.mel_bins[static_cast<size_t>(m)];
    float* const row = matrix.data() + m * plan.frequencies() + bin.first;
    for (size_t i = 0; i < bin.weights.size(); ++i) {
      row[i] = static_cast<float>(bin.weights[i]);
    }
  }
  return matrix;
}

}  // namespace

int OnnxConverter::Floats(const char* name, const OnnxInts& dims,
                          const std::vector<float>& values) {
  return graph_->AddFloats(p_->layer->name + name, dims, values.data(),
                           static_cast<int64_t>(values.size()));
}

// A part of the transform of `rows`, (rows, frequencies, frames). The kernel
// has `length` samples.
int OnnxConverter::Part(const char* name, const FramePlan& plan,
                        const std::vector<double>& circle, double sign,
                        int64_t length, const OnnxInts& pads, int rows) {
  const int kernel = Floats(name, {plan.frequencies(), 1, length},
                            PartKernel(plan, circle, sign, length));
  return builder_.Node("Conv", {rows, kernel},
                       {{"kernel_shape", OnnxInts{length}},
                        {"strides", OnnxInts{plan.stride}},
                        {"dilations", OnnxInts{1}},
                        {"pads", pads},
                        {"group", int64_t{1}}});
}

// The squared magnitudes (batch, frequencies, frames).
int OnnxConverter::Powers(const Plan& plan) {
  int row = builder_.Reshaped(&x(), {1, plan.samples}).last;
  if (plan.padding > 0) {
    const int pads =
        builder_.Ints("/pads", {0, 0, plan.padding, 0, 0, plan.padding});
    row = builder_.Node("Pad", {row, pads}, {{"mode", "reflect"}});
  }
  const int64_t length = plan.padding > 0
                             ? plan.fft_length
                             : static_cast<int64_t>(plan.window.size());
  const auto square = [&](const char* name, const std::vector<double>& circle) {
    const int part = Part(name, plan, circle, 1, length, {0, 0}, row);
    return builder_.Node("Mul", {part, part});
  };
  const int real = square("/cosines", plan.cosines),
            imaginary = square("/sines", plan.sines);
  return builder_.Node("Add", {real, imaginary});
}

int OnnxConverter::Logarithm(const Plan& plan, int y) {
  if (plan.least > 0) {
    y = builder_.Node("Max", {y, builder_.Scalar(plan.least)});
  }
  if (plan.log_offset != 0) {
    y = builder_.Node("Add", {y, builder_.Scalar(plan.log_offset)});
  }
  y = builder_.Node("Log", {y});
  y = builder_.Node("Mul", {y, builder_.Scalar(plan.log_factor)});
  y = builder_.Node("Sub", {y, builder_.Scalar(plan.log_of_reference)});
  if (!plan.has_range) return y;
  const int maximum = builder_.Node(
      "ReduceMax", {y}, {{"axes", OnnxInts{1, 2}}, {"keepdims", int64_t{1}}});
  const int floor =
      builder_.Node("Sub", {maximum, builder_.Scalar(plan.range)});
  return builder_.Node("Max", {y, floor});
}

OnnxValue OnnxConverter::Spectrogram() {
  Plan plan;
  RINGLET_CHECK(MakeSpectrogramPlan(*p_->layer, x().shape, &plan).ok());
  int y = Powers(plan);
  if (plan.mag_exp == 1) {
    y = builder_.Node("Sqrt", {y});
  } else if (plan.mag_exp != 2) {
    const auto half = static_cast<float>(plan.mag_exp / 2);
    y = builder_.Node("Pow", {y, builder_.Scalar(half)});
  }
  const int matrix =
      Floats("/mels", {plan.mels(), plan.frequencies()}, MelMatrix(plan));
  y = builder_.Node("MatMul", {matrix, y});
  if (plan.has_log) y = Logarithm(plan, y);
  if (plan.num_mfcc > 0) {
    const std::vector<float> dct(plan.dct.begin(), plan.dct.end());
    y = builder_.Node("MatMul",
                      {Floats("/dct", {plan.num_mfcc, plan.mels()}, dct), y});
  }
  if (!plan.frames_last) {
    y = builder_.Node("Transpose", {y}, {{"perm", OnnxInts{0, 2, 1}}});
  }
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

// (rows, numbers, frames) of the two parts.
int OnnxConverter::StftNumbers(const StftPlan& plan, int real, int imaginary) {
  switch (plan.mode) {
    case SpectrogramMode::kReal:
      return real;
    case SpectrogramMode::kImag:
      return imaginary;
    case SpectrogramMode::kStft:
      return builder_.Node("Concat", {real, imaginary}, {{"axis", int64_t{1}}});
    default:
      break;
  }
  int y = builder_.Node("Add", {builder_.Node("Mul", {real, real}),
                                builder_.Node("Mul", {imaginary, imaginary})});
  if (plan.mode == SpectrogramMode::kPsd) {
    std::vector<float> twice(static_cast<size_t>(plan.frequencies()), 2);
    twice.front() = twice.back() = 1;
    return builder_.Node("Mul",
                         {y, Floats("/twice", {plan.frequencies(), 1}, twice)});
  }
  y = builder_.Node("Max", {y, builder_.Scalar(1e-7f)});
  y = builder_.Node("Sqrt", {y});
  return plan.mode == SpectrogramMode::kLog ? builder_.Node("Log", {y}) : y;
}

OnnxValue OnnxConverter::Stft() {
  StftPlan plan;
  RINGLET_CHECK(MakeStftPlan(*p_->layer, x().shape, &plan).ok());
  if (plan.mode == SpectrogramMode::kAngle) unsupported_ = "mode 'angle'";
  OnnxValue channels =
      OnnxBuilder::MakeValue({plan.channels, plan.samples},
                             AxisOrder::kChannelsLast, builder_.First(&x()));
  const int rows = builder_.Reshaped(&channels, {1, plan.samples}, -1).last;
  const auto length = static_cast<int64_t>(plan.window.size());
  const int64_t after =
      (plan.frames - 1) * plan.stride + length - plan.samples - plan.padding;
  const OnnxInts pads = {plan.padding, std::max<int64_t>(after, 0)};
  const bool has_real = plan.mode != SpectrogramMode::kImag,
             has_imaginary = plan.mode != SpectrogramMode::kReal;
  const int real =
      has_real ? Part("/cosines", plan, plan.cosines, 1, length, pads, rows)
               : -1;
  const int imaginary =
      has_imaginary ? Part("/sines", plan, plan.sines, -1, length, pads, rows)
                    : -1;
  OnnxValue y = OnnxBuilder::MakeValue({plan.numbers(), plan.frames},
                                       AxisOrder::kChannelsLast,
                                       StftNumbers(plan, real, imaginary));
  const Shape whole = plan.channels_last
                          ? Shape{plan.channels, plan.numbers(), plan.frames}
                          : Shape{plan.channels * plan.numbers(), plan.frames};
  const int joined = builder_.Reshaped(&y, whole, -1).last;
  const OnnxInts turn =
      plan.channels_last ? OnnxInts{0, 3, 2, 1} : OnnxInts{0, 2, 1};
  return OnnxBuilder::MakeValue(
      p_->output, AxisOrder::kChannelsLast,
      builder_.Node("Transpose", {joined}, {{"perm", turn}}));
}

}  // namespace ringlet
