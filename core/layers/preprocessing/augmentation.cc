// Layers that change images by random numbers in training: RandomFlip,
// RandomTranslation, RandomRotation, RandomZoom, RandomContrast and
// RandomBrightness. RandomCrop is in resizing.cc.
//
// Positions are computed in double from +, -, * and CosPi, so they have the
// same bits on every machine. The backward pass draws the numbers again.

#include <algorithm>
#include <cmath>

#include "../../compute/functions.h"
#include "../convolution/window.h"
#include "../layer_table.h"
#include "../op.h"
#include "example_draw.h"
#include "pixel_taps.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

// --- geometry ----------------------------------------------------------------

// The pixel (x, y) of the output shows the place (ax x + bx y + cx, ay x + by y
// + cy) of the input.
struct Affine {
  double ax = 1, bx = 0, cx = 0;
  double ay = 0, by = 1, cy = 0;
};

Affine Flipped(const Layer& layer, const Shape& image,
               const ExampleDraw& draw) {
  Affine affine;
  if (draw.Unit(0) > 0.5) return affine;
  if (layer.mode != FlipMode::kVertical) {
    affine.ax = -1;
    affine.cx = static_cast<double>(image[1] - 1);
  }
  if (layer.mode != FlipMode::kHorizontal) {
    affine.by = -1;
    affine.cy = static_cast<double>(image[0] - 1);
  }
  return affine;
}

Affine Translated(const Layer& layer, const Shape& image,
                  const ExampleDraw& draw) {
  Affine affine;
  affine.cy =
      -draw.InRange(layer.height_factor, 0) * static_cast<double>(image[0]);
  affine.cx =
      -draw.InRange(layer.width_factor, 1) * static_cast<double>(image[1]);
  return affine;
}

// A turn by -angle, since the affine is that from the output to the input. Rows
// count downwards.
Affine Rotated(const Layer& layer, const Shape& image,
               const ExampleDraw& draw) {
  const double half_turns = 2 * draw.InRange(layer.factor, 0);
  const double cosine = math::CosPi(half_turns);
  const double sine = math::CosPi(half_turns - 0.5);
  const double x = static_cast<double>(image[1] - 1) / 2;
  const double y = static_cast<double>(image[0] - 1) / 2;
  return {cosine, -sine,  x - x * cosine + y * sine,
          sine,   cosine, y - x * sine - y * cosine};
}

Affine Zoomed(const Layer& layer, const Shape& image, const ExampleDraw& draw) {
  const double down = 1 + draw.InRange(layer.height_factor, 0);
  const double across = layer.width_factor.is_none
                            ? down
                            : 1 + draw.InRange(layer.width_factor, 1);
  const double x = static_cast<double>(image[1] - 1) / 2;
  const double y = static_cast<double>(image[0] - 1) / 2;
  return {across, 0, x * (1 - across), 0, down, y * (1 - down)};
}

Affine AffineOf(const Layer& layer, const Shape& image,
                const ExampleDraw& draw) {
  switch (layer.kind) {
    case Kind::kRandomTranslation:
      return Translated(layer, image, draw);
    case Kind::kRandomRotation:
      return Rotated(layer, image, draw);
    case Kind::kRandomZoom:
      return Zoomed(layer, image, draw);
    default:
      return Flipped(layer, image, draw);
  }
}

// The pixel, of n, that is shown at place i, which may be outside of the image.
// -1 means the fill value.
int64_t PixelAt(int64_t i, int64_t n, FillMode mode) {
  if (i >= 0 && i < n) return i;
  const auto modulo = [i](int64_t period) {
    if (i < 0 && i >= -period) return i + period;  // needs no division
    if (i >= 0 && i < 2 * period) return i < period ? i : i - period;
    const int64_t rest = i % period;
    return rest < 0 ? rest + period : rest;
  };
  switch (mode) {
    case FillMode::kReflect: {
      const int64_t at = modulo(2 * n);
      return at < n ? at : 2 * n - 1 - at;
    }
    case FillMode::kWrap:
      return modulo(n);
    case FillMode::kNearest:
      return i < 0 ? 0 : n - 1;
    case FillMode::kConstant:
      break;
  }
  return -1;
}

class WarpOp final : public Op {
 public:
  WarpOp(const Layer& layer, const Shape& image)
      : layer_(layer),
        reader_(image, layer.fill_value),
        nearest_(layer.interpolation == Interpolation::kNearest ||
                 layer.kind == Kind::kRandomFlip) {
    output_ = image;
  }
  Recompute recompute() const override { return Recompute::kCostly; }

  void Forward(const OpCall& call) const override {
    const int64_t n = output_.elements();
    if (!call.training) {
      std::copy_n(call.x[0], call.batch * n, call.y);
      return;
    }
    ForEachIndex(call, call.batch, [&](int64_t i) {
      float* y = call.y + i * n;
      ForEachPixel(call, i, [&](const Tap& row, const Tap& column) {
        reader_.Read(call.x[0] + i * n, row, column, y);
        y += output_[2];
      });
    });
  }
  void Backward(const OpCall& call) const override {
    float* const dx = call.dx[0];
    if (dx == nullptr) return;
    const int64_t n = output_.elements();
    ForEachPart(call, call.batch, 1, [&](Range part) {
      std::fill_n(dx + part.begin * n, part.size() * n, 0.0f);
      for (int64_t i = part.begin; i < part.end; ++i) {
        const float* dy = call.dy + i * n;
        ForEachPixel(call, i, [&](const Tap& row, const Tap& column) {
          reader_.AddGradient(dy, row, column, dx + i * n);
          dy += output_[2];
        });
      }
    });
  }

 private:
  Tap TapAt(double place, int64_t n) const {
    // std::floor and std::round are not used: they are calls on some machines.
    int64_t i = static_cast<int64_t>(place);
    double rest = place - static_cast<double>(i);
    if (nearest_) {
      i = PixelAt(i + (rest >= 0.5) - (rest <= -0.5), n, layer_.fill_mode);
      return {i, i, 0};
    }
    if (rest < 0) {
      --i;
      rest = place - static_cast<double>(i);
    }
    return {PixelAt(i, n, layer_.fill_mode),
            PixelAt(i + 1, n, layer_.fill_mode), static_cast<float>(rest)};
  }

  // Calls body(row, column) for each pixel of the output.
  template <typename Body>
  void ForEachPixel(const OpCall& call, int64_t example,
                    const Body& body) const {
    const Affine a = AffineOf(layer_, output_, ExampleDraw(call, example));
    for (int64_t i = 0; i < output_[0]; ++i) {
      const auto y = static_cast<double>(i);
      Tap row = TapAt(a.by * y + a.cy, output_[0]);
      for (int64_t j = 0; j < output_[1]; ++j) {
        const auto x = static_cast<double>(j);
        if (a.ay != 0) row = TapAt(a.ay * x + a.by * y + a.cy, output_[0]);
        body(row, TapAt(a.ax * x + a.bx * y + a.cx, output_[1]));
      }
    }
  }

  const Layer layer_;
  const PixelReader reader_;
  const bool nearest_;
};

// --- colors ------------------------------------------------------------------

// y = (x - mean) times + mean + plus for each channel, clipped.
class ColorOp final : public Op {
 public:
  ColorOp(const Layer& layer, const Shape& image)
      : contrast_(layer.kind == Kind::kRandomContrast),
        draws_(contrast_
                   ? FloatRange(1 - layer.factor.lower, 1 + layer.factor.upper)
                   : layer.factor),
        low_(layer.value_range.lower),
        high_(layer.value_range.upper) {
    output_ = image;
  }
  bool backward_reads_input() const override { return true; }
  Recompute recompute() const override { return Recompute::kCostly; }

  void Forward(const OpCall& call) const override {
    if (!call.training) {
      std::copy_n(call.x[0], call.batch * output_.elements(), call.y);
      return;
    }
    const float* const x = call.x[0];
    float* const y = call.y;
    ForEachBlock(call, [&](const Block& block) {
      ForEachValue(block, [&](int64_t k, int64_t at) {
        const float v = block.changes[k].Of(x[at]);
        y[at] = v < low_ ? low_ : v > high_ ? high_ : v;
      });
    });
  }
  // The mean of the channel has a gradient too.
  void Backward(const OpCall& call) const override {
    const float *const x = call.x[0], *const dy = call.dy;
    float* const dx = call.dx[0];
    if (dx == nullptr) return;
    ForEachBlock(call, [&](const Block& block) {
      double sums[kMaxBlock] = {};
      ForEachValue(block, [&](int64_t k, int64_t at) {
        const float v = block.changes[k].Of(x[at]);
        const float d = v < low_ || v > high_ ? 0 : dy[at];
        sums[k] += double{d};
        dx[at] = block.changes[k].times * d;
      });
      float mean_gradients[kMaxBlock];
      for (int64_t k = 0; k < block.channels; ++k) {
        mean_gradients[k] = (1 - block.changes[k].times) *
                            static_cast<float>(sums[k] / pixels());
      }
      ForEachValue(block,
                   [&](int64_t k, int64_t at) { dx[at] += mean_gradients[k]; });
    });
  }

 private:
  static constexpr int64_t kMaxBlock = 16;
  struct Change {
    float mean, times, plus;
    float Of(float x) const { return (x - mean) * times + mean + plus; }
  };
  // Neighbouring channels of an example.
  struct Block {
    int64_t first;  // offset of the first value
    int64_t channels;
    Change changes[kMaxBlock];
  };
  double pixels() const { return static_cast<double>(output_[0] * output_[1]); }

  // Calls body(block) for all channels of each example.
  template <typename Body>
  void ForEachBlock(const OpCall& call, const Body& body) const {
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const double drawn = ExampleDraw(call, i).InRange(draws_, 0);
      for (int64_t c = 0; c < output_[2]; c += kMaxBlock) {
        Block block;
        block.first = i * output_.elements() + c;
        block.channels = std::min(kMaxBlock, output_[2] - c);
        FindChanges(call.x[0], drawn, &block);
        body(block);
      }
    });
  }
  void FindChanges(const float* x, double drawn, Block* block) const {
    if (!contrast_) {
      const double range = double{high_} - double{low_};
      std::fill_n(block->changes, block->channels,
                  Change{0, 1, static_cast<float>(drawn * range)});
      return;
    }
    double sums[kMaxBlock] = {};
    ForEachValue(*block,
                 [&](int64_t k, int64_t at) { sums[k] += double{x[at]}; });
    for (int64_t k = 0; k < block->channels; ++k) {
      block->changes[k] = {static_cast<float>(sums[k] / pixels()),
                           static_cast<float>(drawn), 0};
    }
  }
  // Calls body(channel of the block, offset) for each value.
  template <typename Body>
  void ForEachValue(const Block& block, const Body& body) const {
    const int64_t end = block.first + output_.elements();
    for (int64_t at = block.first; at < end; at += output_[2]) {
      for (int64_t k = 0; k < block.channels; ++k) body(k, at + k);
    }
  }

  const bool contrast_;
  const FloatRange draws_;
  const float low_, high_;
};

}  // namespace

Status MakeWarp(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  Shape x;
  RINGLET_RETURN_IF_ERROR(FindImage(layer, inputs[0], &x));
  if (layer.interpolation == Interpolation::kArea) {
    return InvalidArgument(
        "interpolation must be \"nearest\" or \"bilinear\", not \"area\"");
  }
  op->reset(new WarpOp(layer, x));
  return Status();
}

Status MakeColorChange(const Layer& layer, const std::vector<Shape>& inputs,
                       std::unique_ptr<Op>* op) {
  Shape x;
  RINGLET_RETURN_IF_ERROR(FindImage(layer, inputs[0], &x));
  op->reset(new ColorOp(layer, x));
  return Status();
}

}  // namespace ringlet
