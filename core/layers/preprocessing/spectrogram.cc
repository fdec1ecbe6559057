// MelSpectrogram and MFCC. Each frame is computed by itself, in double and in a
// fixed order, so its bits do not depend on batches and threads.

#include <algorithm>
#include <cmath>

#include "../../compute/functions.h"
#include "../layer_table.h"
#include "../op.h"
#include "spectrogram_plan.h"

namespace ringlet {
namespace {

using Plan = SpectrogramPlan;

// Puts complex number i of `count`, a power of 2, at the place with the bits of
// i in reverse.
void ReverseBits(double* z, int64_t count) {
  for (int64_t i = 1, j = 0; i < count; ++i) {
    int64_t bit = count / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j ^= bit;
    if (i >= j) continue;
    std::swap(z[2 * i], z[2 * j]);
    std::swap(z[2 * i + 1], z[2 * j + 1]);
  }
}

// The Fourier transform of fft_length / 2 complex numbers, in place.
void TransformComplex(const Plan& plan, double* z) {
  const int64_t count = plan.fft_length / 2;
  ReverseBits(z, count);
  for (int64_t half = 1; half < count; half *= 2) {
    const int64_t step = count / half;  // of the circle
    for (int64_t begin = 0; begin < count; begin += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const double c = plan.cosines[static_cast<size_t>(k * step)],
                     s = plan.sines[static_cast<size_t>(k * step)];
        double* const a = z + 2 * (begin + k);
        double* const b = a + 2 * half;
        const double real = b[0] * c + b[1] * s, imag = b[1] * c - b[0] * s;
        b[0] = a[0] - real;
        b[1] = a[1] - imag;
        a[0] += real;
        a[1] += imag;
      }
    }
  }
}

// Squared magnitudes of the transform of fft_length numbers: pairs of them are
// taken as complex numbers, and the transform of these is divided.
void FastPowers(const Plan& plan, double* x, double* powers) {
  const int64_t count = plan.fft_length / 2;
  TransformComplex(plan, x);
  for (int64_t k = 0; k <= count; ++k) {
    const double* const p = x + 2 * (k % count);
    const double* const q = x + 2 * ((count - k) % count);
    const double even_r = 0.5 * (p[0] + q[0]), even_i = 0.5 * (p[1] - q[1]),
                 odd_r = 0.5 * (p[1] + q[1]), odd_i = 0.5 * (q[0] - p[0]);
    const double c = plan.cosines[static_cast<size_t>(k)],
                 s = plan.sines[static_cast<size_t>(k)];
    const double real = even_r + (odd_r * c + odd_i * s),
                 imag = even_i + (odd_i * c - odd_r * s);
    powers[k] = real * real + imag * imag;
  }
}

// The same by the definition.
void DirectPowers(const Plan& plan, const double* x, double* powers) {
  const auto window = static_cast<int64_t>(plan.window.size());
  for (int64_t k = 0; k < plan.frequencies(); ++k) {
    double real = 0, imag = 0;
    int64_t at = plan.window_begin * k % plan.fft_length;  // of the circle
    for (int64_t i = plan.window_begin; i < plan.window_begin + window; ++i) {
      real += x[i] * plan.cosines[static_cast<size_t>(at)];
      imag -= x[i] * plan.sines[static_cast<size_t>(at)];
      at += k;
      if (at >= plan.fft_length) at -= plan.fft_length;
    }
    powers[k] = real * real + imag * imag;
  }
}

double Magnitude(double power, double exponent) {
  if (exponent == 2) return power;
  if (exponent == 1) return std::sqrt(power);
  return power > 0 ? math::Pow(power, 0.5 * exponent) : power;
}

// The first place for a double.
double* FirstDouble(float* floats) {
  const bool fits = reinterpret_cast<uintptr_t>(floats) % sizeof(double) == 0;
  return reinterpret_cast<double*>(fits ? floats : floats + 1);
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
    call.pool->Run([&](int t) {
      double* const scratch = FirstDouble(call.scratch) +
                              static_cast<uint64_t>(t) * ScratchDoubles();
      const Range mine = Split(n, call.pool->threads(), t);
      for (int64_t i = mine.begin; i < mine.end; ++i) {
        const int64_t example = i / plan_.frames;
        WriteFrame(call.x[0] + example * plan_.samples, i % plan_.frames,
                   scratch, call.y + example * output_.elements());
      }
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
    ReadFrame(x, frame, scratch);
    if (plan_.is_fast()) {
      FastPowers(plan_, scratch, powers);
    } else {
      DirectPowers(plan_, scratch, powers);
    }
    for (int64_t k = 0; k < plan_.frequencies(); ++k) {
      powers[k] = Magnitude(powers[k], plan_.mag_exp);
    }
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

  // The samples of a frame times the window.
  void ReadFrame(const float* x, int64_t frame, double* to) const {
    std::fill_n(to, plan_.fft_length, 0.0);
    const int64_t begin = frame * plan_.stride + plan_.window_begin;
    for (size_t i = 0; i < plan_.window.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      to[plan_.window_begin + at] =
          plan_.window[i] * double{x[plan_.SampleAt(begin + at)]};
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
    ForEachPart(call, call.batch, 1, [&](Range part) {
      for (int64_t i = part.begin; i < part.end; ++i) {
        float* const y = call.y + i * n;
        const float least = *std::max_element(y, y + n) - plan_.range;
        for (int64_t k = 0; k < n; ++k) y[k] = y[k] < least ? least : y[k];
      }
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
