// STFTSpectrogram. Keras computes it by convolutions in float32 with kernels
// that may be trained; here it is a Fourier transform in double.

#include "stft.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../compute/functions.h"
#include "../layer_table.h"
#include "../op.h"
#include "fourier.h"

namespace ringlet {
namespace {

constexpr double kEpsilon = 1e-7;  // as in Keras

// As scipy.signal.get_window.
void AddWindow(const Layer& layer, int64_t length, StftPlan* plan) {
  const double alpha =
      layer.window_function == WindowFunction::kHamming ? 0.54 : 0.5;
  const int64_t period = layer.periodic ? length : length - 1;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < length; ++i) {
    const double turn =
        2 * static_cast<double>(i) / static_cast<double>(period);
    const bool is_one =
        layer.window_function == WindowFunction::kNone || length == 1;
    const double value = is_one ? 1 : alpha - (1 - alpha) * math::CosPi(turn);
    sum += std::fabs(value);
    squares += value * value;
    plan->window.push_back(value);
  }
  // In Keras a layer without a window is not scaled.
  if (layer.window_function == WindowFunction::kNone ||
      layer.window_scaling == WindowScaling::kNone) {
    return;
  }
  const double scale = layer.window_scaling == WindowScaling::kDensity
                           ? std::sqrt(squares)
                           : sum;
  for (double& value : plan->window) value /= scale;
}

// TensorFlow's padding, which a convolution has.
Status SetFrames(const Layer& layer, int64_t length, StftPlan* plan) {
  plan->stride = layer.sequence_stride > 0 ? layer.sequence_stride : length / 2;
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField("frame_step", plan->stride, 1, length));
  plan->reflects = false;
  if (layer.padding == kSame) {
    plan->frames = (plan->samples + plan->stride - 1) / plan->stride;
    const int64_t all =
        (plan->frames - 1) * plan->stride + length - plan->samples;
    plan->padding = std::max<int64_t>(all, 0) / 2;
    return Status();
  }
  if (plan->samples < length) {
    return InvalidArgument("takes at least %lld samples, not %lld",
                           static_cast<long long>(length),
                           static_cast<long long>(plan->samples));
  }
  plan->frames = (plan->samples - length) / plan->stride + 1;
  return Status();
}

class StftOp final : public Op {
 public:
  explicit StftOp(StftPlan plan) : plan_(std::move(plan)) {
    output_ = plan_.output();
  }
  bool has_gradient() const override { return false; }
  int64_t multiply_adds() const override {
    return plan_.channels * plan_.frame_multiply_adds();
  }
  uint64_t table_bytes() const override { return plan_.frame_table_bytes(); }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads) * ScratchDoubles() * 2 + 1;
  }

  void Forward(const OpCall& call) const override {
    const int64_t rows = plan_.frames * plan_.channels;
    ForEachIndex(call, call.batch * rows, [&](int64_t i, int t) {
      double* const scratch = FirstDouble(call.scratch) +
                              static_cast<uint64_t>(t) * ScratchDoubles();
      const int64_t example = i / rows, row = i % rows;
      WriteFrame(call.x[0] + example * plan_.samples * plan_.channels,
                 row / plan_.channels, row % plan_.channels, scratch,
                 call.y + example * output_.elements());
    });
  }

 private:
  uint64_t ScratchDoubles() const {
    return static_cast<uint64_t>((plan_.fft_length + 7) / 8 * 8);
  }

  void WriteFrame(const float* x, int64_t frame, int64_t channel,
                  double* scratch, float* y) const {
    const int64_t numbers = plan_.numbers();
    const int64_t step = plan_.channels_last ? plan_.channels : 1;
    y += plan_.channels_last ? frame * numbers * plan_.channels + channel
                             : (frame * plan_.channels + channel) * numbers;
    const int64_t last = plan_.frequencies() - 1;
    TransformFrame(plan_, x + channel, plan_.channels, frame, scratch,
                   [&](int64_t k, double real, double imag) {
                     y[k * step] = static_cast<float>(
                         Value(real, imag, k > 0 && k < last));
                     if (plan_.mode != SpectrogramMode::kStft) return;
                     y[(k + last + 1) * step] = static_cast<float>(imag);
                   });
  }

  // `is_inner` is false for the first and the last frequency.
  double Value(double real, double imag, bool is_inner) const {
    const double power = real * real + imag * imag;
    switch (plan_.mode) {
      case SpectrogramMode::kReal:
      case SpectrogramMode::kStft:
        return real;
      case SpectrogramMode::kImag:
        return imag;
      case SpectrogramMode::kAngle:
        return math::Atan2(imag, real);
      case SpectrogramMode::kPsd:
        return is_inner ? 2 * power : power;
      default:
        break;
    }
    const double magnitude = std::sqrt(std::max(power, kEpsilon));
    return plan_.mode == SpectrogramMode::kMagnitude ? magnitude
                                                     : math::Log(magnitude);
  }

  const StftPlan plan_;
};

}  // namespace

Status MakeStftPlan(const Layer& layer, const Shape& input, StftPlan* plan) {
  if (input.rank() != 2) {
    return InvalidArgument(
        "takes sound of shape (samples, channels), not %s; put a Reshape "
        "before it",
        input.ToString().c_str());
  }
  if (layer.trainable) {
    return InvalidArgument(
        "\"trainable\" must be false: the transform is computed by its "
        "formula, so it has no kernels to train");
  }
  if (layer.padding == kCausal) {
    return InvalidArgument("padding must be \"valid\" or \"same\"");
  }
  RINGLET_RETURN_IF_ERROR(CheckForeignFields(layer));
  const int64_t length = layer.sequence_length;
  RINGLET_RETURN_IF_ERROR(
      CheckSoundField("frame_length", length, 2, kMaxFftLength));
  plan->samples = input[0];
  plan->channels = input[1];
  plan->mode = layer.spectrogram_mode;
  plan->channels_last = layer.expand_dims;
  plan->fft_length =
      layer.fft_length > 0 ? layer.fft_length : NextPowerOf2(length);
  RINGLET_RETURN_IF_ERROR(CheckFftLength(*plan, length));
  if (plan->fft_length % 2 != 0) {
    return InvalidArgument("fft_length is %lld; must be even",
                           static_cast<long long>(plan->fft_length));
  }
  RINGLET_RETURN_IF_ERROR(SetFrames(layer, length, plan));
  AddWindow(layer, length, plan);
  plan->ComputeCircle();
  return Status();
}

Status MakeStft(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  StftPlan plan;
  RINGLET_RETURN_IF_ERROR(MakeStftPlan(layer, inputs[0], &plan));
  op->reset(new StftOp(std::move(plan)));
  return Status();
}

}  // namespace ringlet
