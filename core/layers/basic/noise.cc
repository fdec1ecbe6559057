// Dropout and the other layers with random numbers in training.
//
// The random numbers of a step are counted over the whole batch, so they do not
// depend on the number of workers. Number m is word m % 4 of block m - m % 4 of
// the Philox stream (seed, counter). No number is stored: the backward pass
// generates it again. The Box-Muller transform makes four normal deviates of a
// block: the cosine and the sine from its first two words, then those from its
// last two.

#include <algorithm>
#include <cmath>

#include "../../compute/functions.h"
#include "../../compute/row_loops.h"
#include "../convolution/window.h"
#include "../layer_kind.h"
#include "../op.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

constexpr int64_t kPiece = 64;  // numbers that are generated at a time
constexpr double kSeluSlope = 1.0507009873554804934 * 1.6732632423543772848;

// to[i] = from[i]; `to` may be `from`.
void CopyTo(const float* from, int64_t n, float* to) {
  if (from != to) std::copy_n(from, n, to);
}

// Writes the step's random numbers [begin, begin + n), each in [0, 1), to `to`.
// `begin` is a multiple of 4.
void DrawUniform(const OpCall& call, int64_t begin, int64_t n, float* to) {
  BestRowLoops().uniform(call.seed, call.counter, static_cast<uint64_t>(begin),
                         n, to);
}

void DrawNormal(const OpCall& call, int64_t begin, int64_t n, float* to) {
  const Philox random(call.seed, call.counter);
  float radius[kPiece], angle[kPiece];
  for (int64_t i = 0; i < n; i += 4) {
    const Philox::Block words = random.At(static_cast<uint64_t>(begin + i));
    for (int64_t k = 0; k < 4; ++k) {
      // The radius must not be 0. The sine of an angle is the cosine of an
      // angle that is a quarter turn less.
      radius[i + k] = Philox::Unit(words[k & 2]) + 0x1p-25f;
      angle[i + k] = Philox::Unit(words[k | 1]) - (k % 2 == 0 ? 0 : 0.25f);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    to[i] = std::sqrt(-2 * math::Log(radius[i])) *
            static_cast<float>(math::CosPi(2.0 * angle[i]));
  }
}

// The constants of a layer. From a value x and its random number r a layer with
// a `rate` computes x * times + plus if r >= rate, and else `dropped`. With
// normal deviates it computes x * (1 + times * r) + plus * r.
struct Noise {
  bool normal = false;
  float rate = 0, times = 1, plus = 0, dropped = 0;
};

Noise NoiseOf(const Layer& layer) {
  const double rate = layer.rate, keep = 1 - rate;
  Noise noise;
  noise.rate = layer.rate;
  switch (layer.kind) {
    case Kind::kGaussianNoise:
      return {/*normal=*/true, 0, 0, layer.rate, 0};
    case Kind::kGaussianDropout:
      return {/*normal=*/true, 0, static_cast<float>(std::sqrt(rate / keep)), 0,
              0};
    case Kind::kAlphaDropout: {
      const double times =
          1 / std::sqrt(keep * (1 + rate * kSeluSlope * kSeluSlope));
      noise.times = static_cast<float>(times);
      noise.plus = static_cast<float>(times * kSeluSlope * rate);
      noise.dropped = static_cast<float>(times * kSeluSlope * (rate - 1));
      return noise;
    }
    default:
      noise.times = 1 / (1 - layer.rate);
      noise.plus = -0.0f;  // the sum keeps even -0
      return noise;
  }
}

class NoiseOp final : public Op {
 public:
  // With `channels` = 0 every value of an example has a random number of its
  // own. Otherwise the values are rows of `channels` values, and all rows have
  // the random numbers of the first.
  NoiseOp(const Layer& layer, const Shape& x, int64_t channels)
      : noise_(NoiseOf(layer)), off_(layer.rate == 0), channels_(channels) {
    output_ = x;
  }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }
  uint64_t forward_scratch(int64_t batch, int) const override {
    return static_cast<uint64_t>(batch * channels_);
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return forward_scratch(batch, threads);
  }

  void Forward(const OpCall& call) const override {
    Apply(call, call.training ? noise_ : Noise(), call.x[0], call.y);
  }
  // Added noise does not change the gradient.
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    Noise slope = noise_;
    slope.dropped = 0;
    slope.plus = noise_.normal ? 0 : -0.0f;
    Apply(call, slope, call.dy, call.dx[0]);
  }

 private:
  void Apply(const OpCall& call, const Noise& noise, const float* from,
             float* to) const {
    const int64_t n = call.batch * output_.elements();
    const bool none =
        noise.normal ? noise.times == 0 && noise.plus == 0 : noise.rate == 0;
    if (off_ || none) return CopyTo(from, n, to);
    if (channels_ == 1) return ApplyToExamples(call, noise, from, to);
    if (channels_ > 0) return ApplyToChannels(call, noise, from, to);
    ForEachPart(call, n, 4, [&](Range part) {
      float numbers[kPiece];
      for (int64_t at = part.begin; at < part.end; at += kPiece) {
        const int64_t count = std::min(kPiece, part.end - at);
        const auto draw = noise.normal ? DrawNormal : DrawUniform;
        draw(call, at, count, numbers);
        ApplyTo(noise, numbers, count, from + at, to + at);
      }
    });
  }

  static void ApplyTo(const Noise& noise, const float* r, int64_t n,
                      const float* from, float* to) {
    const float rate = noise.rate, times = noise.times, plus = noise.plus,
                dropped = noise.dropped;
    if (noise.normal) {
      for (int64_t i = 0; i < n; ++i) {
        to[i] = from[i] * (1 + times * r[i]) + plus * r[i];
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const float kept = from[i] * times + plus;
      to[i] = r[i] >= rate ? kept : dropped;
    }
  }

  void ApplyToExamples(const OpCall& call, const Noise& noise,
                       const float* from, float* to) const {
    DrawUniform(call, 0, call.batch, call.scratch);
    const int64_t n = output_.elements();
    ForEachPart(call, call.batch, 1, [&](Range part) {
      float numbers[kPiece];
      for (int64_t example = part.begin; example < part.end; ++example) {
        std::fill_n(numbers, kPiece, call.scratch[example]);
        for (int64_t at = example * n; at < (example + 1) * n; at += kPiece) {
          ApplyTo(noise, numbers, std::min(kPiece, (example + 1) * n - at),
                  from + at, to + at);
        }
      }
    });
  }

  void ApplyToChannels(const OpCall& call, const Noise& noise,
                       const float* from, float* to) const {
    ForEachPart(call, call.batch * channels_, 4, [&](Range part) {
      DrawUniform(call, part.begin, part.size(), call.scratch + part.begin);
    });
    const int64_t rows = output_.elements() / channels_;
    ForEachIndex(call, call.batch * rows, [&](int64_t row) {
      const int64_t at = row * channels_;
      ApplyTo(noise, call.scratch + row / rows * channels_, channels_,
              from + at, to + at);
    });
  }

  const Noise noise_;
  const bool off_;
  const int64_t channels_;
};

// Finds the argument `channels` of NoiseOp.
Status FindNoiseChannels(const Layer& layer, const Shape& x,
                         int64_t* channels) {
  if (layer.kind == Kind::kSpatialDropout2D ||
      layer.kind == Kind::kSpatialDropout1D) {
    Shape image;
    RINGLET_RETURN_IF_ERROR(FindImage(layer, x, &image));
    *channels = x.back();
    return Status();
  }
  const Shape& noise = layer.noise_shape;
  if (noise.rank() == 0) return Status();
  int axis = 0;
  while (axis < noise.rank() && noise[axis] == 1) ++axis;
  int64_t count = 1;
  bool fits = noise.rank() == x.rank();
  for (; fits && axis < x.rank(); ++axis) {
    fits = noise[axis] == -1 || noise[axis] == x[axis];
    count *= x[axis];
  }
  if (!fits) {
    return InvalidArgument(
        "noise_shape is %s for each example, and the input %s; it must be 1 in "
        "the first axes, and the input's size (or null, -1) in the others",
        noise.ToString().c_str(), x.ToString().c_str());
  }
  if (count < x.elements()) *channels = count;
  return Status();
}

Layer Random(Layer::Kind kind, float rate) {
  return MakeLayer(kind, &Layer::rate, rate);
}

}  // namespace

Layer Dropout(float rate) { return Random(Kind::kDropout, rate); }
Layer SpatialDropout2D(float rate) {
  return Random(Kind::kSpatialDropout2D, rate);
}
Layer SpatialDropout1D(float rate) {
  return Random(Kind::kSpatialDropout1D, rate);
}
Layer GaussianNoise(float stddev) {
  return Random(Kind::kGaussianNoise, stddev);
}
Layer GaussianDropout(float rate) {
  return Random(Kind::kGaussianDropout, rate);
}
Layer AlphaDropout(float rate) { return Random(Kind::kAlphaDropout, rate); }

Status MakeNoise(const Layer& layer, const std::vector<Shape>& inputs,
                 std::unique_ptr<Op>* op) {
  int64_t channels = 0;
  RINGLET_RETURN_IF_ERROR(FindNoiseChannels(layer, inputs[0], &channels));
  op->reset(new NoiseOp(layer, inputs[0], channels));
  return Status();
}

}  // namespace ringlet
