// MaxPooling2D, AveragePooling2D and GlobalAveragePooling2D.

#include <algorithm>
#include <limits>

#include "kernels.h"
#include "op.h"

namespace ringlet {
namespace {

class Pooling2DOp final : public Op {
 public:
  Pooling2DOp(bool max, const Window2D& window, const Shape& output)
      : max_(max), window_(window) {
    output_ = output;
  }

  bool keeps_input() const override { return max_; }
  bool keeps_output() const override { return max_; }

  void Forward(const OpCall& call) const override {
    ForEachImage(call, [&](int64_t image) {
      const float* x = call.x[0] + image * ImageFloats();
      float* y = call.y + image * output_.elements();
      ForEachPosition([&](const Box& box, int64_t position) {
        float* out = y + position * window_.channels;
        std::fill_n(out, window_.channels,
                    max_ ? -std::numeric_limits<float>::infinity() : 0.0f);
        ForEachPixel(box, [&](int64_t pixel) {
          const float* in = x + pixel * window_.channels;
          for (int64_t c = 0; c < window_.channels; ++c) {
            if (!max_) {
              out[c] += in[c];
            } else if (in[c] > out[c] || in[c] != in[c]) {  // NaN wins
              out[c] = in[c];
            }
          }
        });
        if (max_) return;
        const float share = 1.0f / static_cast<float>(box.pixels());
        for (int64_t c = 0; c < window_.channels; ++c) out[c] *= share;
      });
    });
  }

  // The gradient of a maximum goes to the first pixel that holds it.
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachImage(call, [&](int64_t image) {
      const float* x = call.x[0] + image * ImageFloats();
      const float* y = call.y + image * output_.elements();
      float* dy = call.dy + image * output_.elements();
      float* dx = call.dx[0] + image * ImageFloats();
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
              d_out[c] = 0;  // given away
            }
          }
        });
      });
    });
  }

 private:
  // The part of a window that lies on the image.
  struct Box {
    int64_t top, bottom, left, right;
    int64_t pixels() const { return (bottom - top) * (right - left); }
  };

  int64_t ImageFloats() const {
    return window_.height.input * window_.width.input * window_.channels;
  }

  template <typename Body>
  void ForEachImage(const OpCall& call, const Body& body) const {
    call.pool->Run([&](int t) {
      const Range mine = Split(call.batch, call.pool->threads(), t);
      for (int64_t i = mine.begin; i < mine.end; ++i) body(i);
    });
  }

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
  const Window2D window_;
};

Status CheckImage(const Layer& layer, const Shape& x) {
  if (x.rank() == 3) return Status();
  return InvalidArgument(
      "%s needs an input of (height, width, channels), not %s",
      ClassName(layer), x.ToString().c_str());
}

}  // namespace

Status MakePooling2D(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  RINGLET_RETURN_IF_ERROR(CheckImage(layer, x));
  Window2D window;
  RINGLET_RETURN_IF_ERROR(PlaceWindow(layer, x, "pool", &window));
  op->reset(new Pooling2DOp(
      layer.kind == Layer::Kind::kMaxPooling2D, window,
      {window.height.output, window.width.output, window.channels}));
  return Status();
}

Layer GlobalAveragePooling2D() {
  Layer layer;
  layer.kind = Layer::Kind::kGlobalAveragePooling2D;
  return layer;
}

// One window over the whole image.
Status MakeGlobalAveragePooling2D(const Layer& layer,
                                  const std::vector<Shape>& inputs,
                                  std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  RINGLET_RETURN_IF_ERROR(CheckImage(layer, x));
  const Window2D window = {{x[0], 1, x[0], 1, 0}, {x[1], 1, x[1], 1, 0}, x[2]};
  op->reset(new Pooling2DOp(/*max=*/false, window,
                            layer.keepdims ? Shape{1, 1, x[2]} : Shape{x[2]}));
  return Status();
}

}  // namespace ringlet
