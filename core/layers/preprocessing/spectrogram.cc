// MelSpectrogram and MFCC. Each frame is computed by itself, in double and in a
// fixed order, so its bits do not depend on batches and threads.

#include <algorithm>
#include <cmath>

#include "../../compute/functions.h"
#include "../layer_table.h"
#include "../op.h"
#include "fourier.h"
#include "spectrogram_plan.h"

namespace ringlet {
namespace {

using Plan = SpectrogramPlan;

double Magnitude(double power, double exponent) {
  if (exponent == 2) return power;
  if (exponent == 1) return std::sqrt(power);
  return power > 0 ? math::Pow(power, 0.5 * exponent) : power;
}

class SpectrogramOp final : public Op {
 public:
  explicit SpectrogramOp(Plan plan) : plan_(std::move(plan)) {
    output_ = plan_.output();
  }
  bool has_gradient() const override { return false; }
  int64_t multiply_adds() const override { return plan_.multiply_adds(); }
  uint64_t table_bytes() const override { return plan_.table_bytes(); }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads) * ScratchDoubles() * 2 + 1;
  }

  void Forward(const OpCall& call) const override {
    const int64_t n = call.batch * plan_.frames;
    ForEachIndex(call, n, [&](int64_t i, int t) {
      double* const scratch = FirstDouble(call.scratch) +
                              static_cast<uint64_t>(t) * ScratchDoubles();
      const int64_t example = i / plan_.frames;
      WriteFrame(call.x[0] + example * plan_.samples, i % plan_.frames, scratch,
                 call.y + example * output_.elements());
    });
    if (plan_.has_range) LimitRange(call);
  }

 private:
  // The frame, its powers, and the values of its mel bins.
  uint64_t ScratchDoubles() const {
    const int64_t all = plan_.fft_length + plan_.frequencies() + plan_.mels();
    return static_cast<uint64_t>((all + 7) / 8 * 8);
  }

  void WriteFrame(const float* x, int64_t frame, double* scratch,
                  float* y) const {
    double* const powers = scratch + plan_.fft_length;
    double* const mels = powers + plan_.frequencies();
    TransformFrame(
        plan_, x, 1, frame, scratch, [&](int64_t k, double real, double imag) {
          powers[k] = Magnitude(real * real + imag * imag, plan_.mag_exp);
        });
    for (int64_t m = 0; m < plan_.mels(); ++m) {
      mels[m] = MelValue(plan_.mel_bins[static_cast<size_t>(m)], powers);
    }
    if (plan_.num_mfcc > 0) {
      return WriteCoefficients(mels, y + frame * plan_.num_mfcc);
    }
    const int64_t step = plan_.frames_last ? plan_.frames : 1;
    float* const first = y + (plan_.frames_last ? frame : frame * plan_.mels());
    for (int64_t m = 0; m < plan_.mels(); ++m) {
      first[m * step] = static_cast<float>(mels[m]);
    }
  }

  double MelValue(const Plan::MelBin& bin, const double* powers) const {
    double sum = 0;
    for (size_t k = 0; k < bin.weights.size(); ++k) {
      sum += bin.weights[k] * powers[static_cast<size_t>(bin.first) + k];
    }
    if (!plan_.has_log) return sum;
    const auto value = static_cast<float>(sum);
    const float log = math::Log((value < plan_.least ? plan_.least : value) +
                                plan_.log_offset);
    return log * plan_.log_factor - plan_.log_of_reference;
  }

  void WriteCoefficients(const double* mels, float* y) const {
    const double* row = plan_.dct.data();
    for (int64_t k = 0; k < plan_.num_mfcc; ++k, row += plan_.mels()) {
      double sum = 0;
      for (int64_t m = 0; m < plan_.mels(); ++m) sum += row[m] * mels[m];
      y[k] = static_cast<float>(sum);
    }
  }

  void LimitRange(const OpCall& call) const {
    const int64_t n = output_.elements();
    ForEachIndex(call, call.batch, [&](int64_t i) {
      float* const y = call.y + i * n;
      const float floor = *std::max_element(y, y + n) - plan_.range;
      for (int64_t k = 0; k < n; ++k) y[k] = y[k] < floor ? floor : y[k];
    });
  }

  const Plan plan_;
};

}  // namespace

Status MakeSpectrogram(const Layer& layer, const std::vector<Shape>& inputs,
                       std::unique_ptr<Op>* op) {
  SpectrogramPlan plan;
  RINGLET_RETURN_IF_ERROR(MakeSpectrogramPlan(layer, inputs[0], &plan));
  op->reset(new SpectrogramOp(std::move(plan)));
  return Status();
}

}  // namespace ringlet
