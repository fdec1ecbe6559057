// Pooling over windows and over whole images, with two axes and with one.
// max_pool.h computes maxima, and their gradients if windows do not overlap.
// With overlap a pixel's gradient is a sum.

#include <algorithm>

#include "../layer_kind.h"
#include "../layer_loops.h"
#include "../op.h"
#include "max_pool.h"
#include "window.h"

namespace ringlet {
namespace {

class Pooling2DOp final : public Op {
 public:
  Pooling2DOp(bool max, const Window2D& window, const Shape& output)
      : max_(max),
        apart_(window.height.stride >= window.height.window &&
               window.width.stride >= window.width.window),
        window_(window),
        maxima_(window) {
    output_ = output;
  }

  bool is_view() const override { return fused_into_previous(); }
  const MaxPool* max_pool() const override {
    return max_ && apart_ && maxima_.has_indices() ? &maxima_ : nullptr;
  }
  bool backward_reads_input() const override { return max_; }
  bool backward_reads_output() const override { return max_; }
  ExactResults exact_results() const override { return {max_, max_ && apart_}; }
  Recompute recompute() const override { return Recompute::kCostly; }

  void Forward(const OpCall& call) const override {
    if (fused_into_previous()) return;
    ForEachIndex(call, call.batch, [&](int64_t image) {
      const float* x = call.x[0] + image * ImageFloats();
      float* y = call.y + image * output_.elements();
      if (max_) return maxima_.Forward(x, /*above_zero=*/false, y, nullptr);
      ForEachPosition([&](const Box& box, int64_t position) {
        float* out = y + position * window_.channels;
        std::fill_n(out, window_.channels, 0.0f);
        ForEachPixel(box, [&](int64_t pixel) {
          const float* in = x + pixel * window_.channels;
          for (int64_t c = 0; c < window_.channels; ++c) out[c] += in[c];
        });
        const float share = 1.0f / static_cast<float>(box.pixels());
        for (int64_t c = 0; c < window_.channels; ++c) out[c] *= share;
      });
    });
  }

  // The gradient of a maximum goes to the first pixel that has it.
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t image) {
      const float* x = call.x[0] + image * ImageFloats();
      const float* y = call.y + image * output_.elements();
      float* dy = call.dy + image * output_.elements();
      float* dx = call.dx[0] + image * ImageFloats();
      if (max_ && apart_) return maxima_.Gradient(x, y, dy, dx);
      std::fill_n(dx, ImageFloats(), 0.0f);
      ForEachPosition([&](const Box& box, int64_t position) {
        const float* out = y + position * window_.channels;
        float* d_out = dy + position * window_.channels;
        const float share = 1.0f / static_cast<float>(box.pixels());
        ForEachPixel(box, [&](int64_t pixel) {
          const float* in = x + pixel * window_.channels;
          float* d_in = dx + pixel * window_.channels;
          for (int64_t c = 0; c < window_.channels; ++c) {
            if (!max_) {
              d_in[c] += d_out[c] * share;
            } else if (in[c] == out[c]) {
              d_in[c] += d_out[c];
              d_out[c] = 0;  // assigned
            }
          }
        });
      });
    });
  }

 private:
  // The part of a window that is on the image.
  struct Box {
    int64_t top, bottom, left, right;
    int64_t pixels() const { return (bottom - top) * (right - left); }
  };

  int64_t ImageFloats() const { return window_.image_floats(); }

  static Range Clip(const WindowAxis& axis, int64_t position) {
    const int64_t begin = position * axis.stride - axis.pad_before;
    return {std::max<int64_t>(0, begin),
            std::min(axis.input, begin + axis.window)};
  }

  template <typename Body>
  void ForEachPosition(const Body& body) const {
    for (int64_t oy = 0; oy < window_.height.output; ++oy) {
      const Range rows = Clip(window_.height, oy);
      for (int64_t ox = 0; ox < window_.width.output; ++ox) {
        const Range cols = Clip(window_.width, ox);
        body(Box{rows.begin, rows.end, cols.begin, cols.end},
             oy * window_.width.output + ox);
      }
    }
  }

  template <typename Body>
  void ForEachPixel(const Box& box, const Body& body) const {
    for (int64_t y = box.top; y < box.bottom; ++y) {
      for (int64_t x = box.left; x < box.right; ++x) {
        body(y * window_.width.input + x);
      }
    }
  }

  const bool max_;
  const bool apart_;  // windows do not overlap
  const Window2D window_;
  const MaxPool maxima_;
};

// As in Keras, which uses a reduction, all pixels with the maximum share the
// gradient. In MaxPooling2D the first one gets it.
class GlobalMaxPoolingOp final : public Op {
 public:
  GlobalMaxPoolingOp(int64_t pixels, int64_t channels, const Shape& output)
      : pixels_(pixels), channels_(channels) {
    output_ = output;
  }

  bool backward_reads_input() const override { return true; }
  bool backward_reads_output() const override { return true; }
  ExactResults exact_results() const override { return {true, false}; }
  Recompute recompute() const override { return Recompute::kCostly; }
  // For each thread: the part of each channel's gradient that one pixel gets.
  uint64_t backward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * channels_);
  }

  void Forward(const OpCall& call) const override {
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* x = call.x[0] + i * pixels_ * channels_;
      float* const y = call.y + i * channels_;
      std::copy_n(x, channels_, y);
      for (int64_t p = 1; p < pixels_; ++p) {
        x += channels_;
        for (int64_t c = 0; c < channels_; ++c) {
          y[c] = x[c] > y[c] || x[c] != x[c] ? x[c] : y[c];  // NaN wins
        }
      }
    });
  }

  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t i, int t) {
      float* const share = call.scratch + t * channels_;
      const float* const x = call.x[0] + i * pixels_ * channels_;
      const float* const y = call.y + i * channels_;
      float* const dx = call.dx[0] + i * pixels_ * channels_;
      std::fill_n(share, channels_, 0.0f);
      ForEachPixel([&](int64_t at, int64_t c) { share[c] += x[at] == y[c]; });
      for (int64_t c = 0; c < channels_; ++c) {
        share[c] = call.dy[i * channels_ + c] / std::max(share[c], 1.0f);
      }
      ForEachPixel([&](int64_t at, int64_t c) {
        dx[at] = x[at] == y[c] ? share[c] : 0.0f;
      });
    });
  }

 private:
  template <typename Body>
  void ForEachPixel(const Body& body) const {
    for (int64_t p = 0; p < pixels_; ++p) {
      for (int64_t c = 0; c < channels_; ++c) body(p * channels_ + c, c);
    }
  }

  const int64_t pixels_, channels_;
};

// The mean of the steps that count. Without one it is zeros, where Keras has
// NaN. Forward in training leaves the mask for Backward.
class MaskedMeanOp final : public Op {
 public:
  MaskedMeanOp(int64_t steps, int64_t channels, const Shape& output)
      : steps_(steps), channels_(channels) {
    output_ = output;
  }
  uint64_t saved_floats(int64_t batch) const override {
    return static_cast<uint64_t>(batch * steps_);
  }

  void Forward(const OpCall& call) const override {
    if (call.training && call.saved != nullptr) {
      std::copy_n(call.x[1], call.batch * steps_, call.saved);
    }
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* const mask = call.x[1] + i * steps_;
      float* const y = call.y + i * channels_;
      std::fill_n(y, channels_, 0.0f);
      for (int64_t t = 0; t < steps_; ++t) {
        if (mask[t] == 0) continue;
        AddTo(call.x[0] + (i * steps_ + t) * channels_, channels_, y);
      }
      const float share = ShareOf(mask);
      for (int64_t c = 0; c < channels_; ++c) y[c] *= share;
    });
  }

  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* const mask = call.saved + i * steps_;
      const float share = ShareOf(mask);
      for (int64_t t = 0; t < steps_; ++t) {
        float* const dx = call.dx[0] + (i * steps_ + t) * channels_;
        const float part = mask[t] * share;
        for (int64_t c = 0; c < channels_; ++c) {
          dx[c] = call.dy[i * channels_ + c] * part;
        }
      }
    });
  }

 private:
  float ShareOf(const float* mask) const {
    const auto count = std::count(mask, mask + steps_, 1.0f);
    return count == 0 ? 0 : 1.0f / static_cast<float>(count);
  }

  const int64_t steps_, channels_;
};

}  // namespace

Status MakePooling(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  Window2D window;
  RINGLET_RETURN_IF_ERROR(PlaceWindow(layer, inputs[0], "pool", &window));
  const bool max = layer.kind == Layer::Kind::kMaxPooling2D ||
                   layer.kind == Layer::Kind::kMaxPooling1D;
  op->reset(new Pooling2DOp(
      max, window,
      ShapeOf(layer,
              {window.height.output, window.width.output, window.channels})));
  return Status();
}

Status MakeGlobalPooling(const Layer& layer, const std::vector<Shape>& inputs,
                         std::unique_ptr<Op>* op) {
  Shape x;
  RINGLET_RETURN_IF_ERROR(FindImage(layer, inputs[0], &x));
  const Shape output =
      layer.keepdims ? ShapeOf(layer, {1, 1, x[2]}) : Shape{x[2]};
  if (layer.kind == Layer::Kind::kGlobalMaxPooling2D ||
      layer.kind == Layer::Kind::kGlobalMaxPooling1D) {
    op->reset(new GlobalMaxPoolingOp(x[0] * x[1], x[2], output));
    return Status();
  }
  if (layer.masked_inputs != 0) {
    op->reset(new MaskedMeanOp(inputs[1].elements(), x[2], output));
    return Status();
  }
  // One window over the whole image.
  const Window2D window = {{x[0], 1, x[0], 1, 0}, {x[1], 1, x[1], 1, 0}, x[2]};
  op->reset(new Pooling2DOp(/*max=*/false, window, output));
  return Status();
}

}  // namespace ringlet
