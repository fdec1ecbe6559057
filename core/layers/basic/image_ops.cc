// Layers that move pixels without arithmetic: ZeroPadding, Cropping,
// UpSampling, with two axes and with one, and Permute.

#include <algorithm>

#include "../convolution/window.h"
#include "../layer_table.h"
#include "../op.h"

namespace ringlet {
namespace {

// An image within a larger one: padding adds the frame, cropping removes it.
struct Frame {
  Shape inner, outer;  // (height, width, channels)
  int64_t top, left;

  void Embed(const float* from, float* to) const {
    std::fill_n(to, outer.elements(), 0.0f);
    for (int64_t y = 0; y < inner[0]; ++y) {
      std::copy_n(from + y * Row(), Row(), to + At(y));
    }
  }
  void Extract(const float* from, float* to) const {
    for (int64_t y = 0; y < inner[0]; ++y) {
      std::copy_n(from + At(y), Row(), to + y * Row());
    }
  }

 private:
  int64_t Row() const { return inner[1] * inner[2]; }
  int64_t At(int64_t y) const {
    return ((top + y) * outer[1] + left) * outer[2];
  }
};

// The gradient of padding is cropping, and vice versa.
class FrameOp final : public Op {
 public:
  FrameOp(bool pads, const Frame& frame, const Shape& output)
      : pads_(pads), frame_(frame) {
    output_ = output;
  }
  ExactResults exact_results() const override { return {true, true}; }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    Move(call, pads_, call.x[0], call.y);
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] != nullptr) Move(call, !pads_, call.dy, call.dx[0]);
  }

 private:
  void Move(const OpCall& call, bool embed, const float* from,
            float* to) const {
    const int64_t inner = frame_.inner.elements();
    const int64_t outer = frame_.outer.elements();
    ForEachIndex(call, call.batch, [&](int64_t i) {
      if (embed) {
        frame_.Embed(from + i * inner, to + i * outer);
      } else {
        frame_.Extract(from + i * outer, to + i * inner);
      }
    });
  }

  const bool pads_;
  const Frame frame_;
};

class UpSamplingOp final : public Op {
 public:
  UpSamplingOp(const Shape& image, int64_t height, int64_t width,
               const Shape& output)
      : image_(image), height_(height), width_(width) {
    output_ = output;
  }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* const x = call.x[0] + i * image_.elements();
      float* const y = call.y + i * output_.elements();
      ForEachCopy([&](int64_t from, int64_t to) {
        std::copy_n(x + from, image_[2], y + to);
      });
    });
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* const dy = call.dy + i * output_.elements();
      float* const dx = call.dx[0] + i * image_.elements();
      std::fill_n(dx, image_.elements(), 0.0f);
      ForEachCopy([&](int64_t from, int64_t to) {
        for (int64_t c = 0; c < image_[2]; ++c) dx[from + c] += dy[to + c];
      });
    });
  }

 private:
  // Calls body(pixel of x, pixel of y) in the order of y.
  template <typename Body>
  void ForEachCopy(const Body& body) const {
    const int64_t width = image_[1] * width_;
    for (int64_t y = 0; y < image_[0] * height_; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        body((y / height_ * image_[1] + x / width_) * image_[2],
             (y * width + x) * image_[2]);
      }
    }
  }

  const Shape image_;
  const int64_t height_, width_;
};

class PermuteOp final : public Op {
 public:
  // Axis i of the output is axis axes[i] of x.
  PermuteOp(const Shape& x, const Shape& axes) {
    int64_t step = 1;
    int64_t steps_of_x[Shape::kMaxRank];
    for (int i = x.rank() - 1; i >= 0; step *= x[i--]) steps_of_x[i] = step;
    for (int i = 0; i < axes.rank(); ++i) {
      output_.Append(x[static_cast<int>(axes[i])]);
      steps_.Append(steps_of_x[axes[i]]);
    }
  }
  ExactResults exact_results() const override { return {true, true}; }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* const x = call.x[0] + i * output_.elements();
      float* y = call.y + i * output_.elements();
      ForEachRow([&](int64_t at, int64_t step, int64_t n) {
        for (int64_t k = 0; k < n; ++k) *y++ = x[at + k * step];
      });
    });
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const float* dy = call.dy + i * output_.elements();
      float* const dx = call.dx[0] + i * output_.elements();
      ForEachRow([&](int64_t at, int64_t step, int64_t n) {
        for (int64_t k = 0; k < n; ++k) dx[at + k * step] = *dy++;
      });
    });
  }

 private:
  // Calls body(offset of the first element in x, distance to the next, count)
  // for each run along the output's last axis, in the output's order.
  template <typename Body>
  void ForEachRow(const Body& body) const {
    const int last = output_.rank() - 1;
    int64_t index[Shape::kMaxRank] = {};
    for (int64_t at = 0;;) {
      body(at, steps_[last], output_[last]);
      int axis = last - 1;
      while (axis >= 0 && ++index[axis] == output_[axis]) {
        at -= (index[axis] - 1) * steps_[axis];
        index[axis--] = 0;
      }
      if (axis < 0) return;
      at += steps_[axis];
    }
  }

  Shape steps_;  // the steps in x along each axis of the output
};

}  // namespace

Status MakeFrame(const Layer& layer, const std::vector<Shape>& inputs,
                 std::unique_ptr<Op>* op) {
  Shape x;
  RINGLET_RETURN_IF_ERROR(FindImage(layer, inputs[0], &x));
  const bool pads = layer.kind == Layer::Kind::kZeroPadding2D ||
                    layer.kind == Layer::Kind::kZeroPadding1D;
  const int64_t* const b = layer.borders;
  if (*std::min_element(b, b + 4) < 0 ||
      *std::max_element(b, b + 4) > kMaxLayerSize) {
    return InvalidArgument("%s must be numbers from 0 to %lld",
                           pads ? "padding" : "cropping",
                           static_cast<long long>(kMaxLayerSize));
  }
  const int64_t sign = pads ? 1 : -1;
  const Shape y = {x[0] + sign * (b[0] + b[1]), x[1] + sign * (b[2] + b[3]),
                   x[2]};
  if (y[0] < 1 || y[1] < 1) {
    return InvalidArgument("cropping leaves nothing of an input of %s",
                           inputs[0].ToString().c_str());
  }
  op->reset(new FrameOp(pads, {pads ? x : y, pads ? y : x, b[0], b[2]},
                        ShapeOf(layer, y)));
  return Status();
}

Status MakeUpSampling(const Layer& layer, const std::vector<Shape>& inputs,
                      std::unique_ptr<Op>* op) {
  Shape x;
  RINGLET_RETURN_IF_ERROR(FindImage(layer, inputs[0], &x));
  const int64_t height = layer.window[0], width = layer.window[1];
  if (std::min(height, width) < 1 || std::max(height, width) > kMaxLayerSize) {
    return InvalidArgument("size must be from 1 to %lld",
                           static_cast<long long>(kMaxLayerSize));
  }
  op->reset(new UpSamplingOp(
      x, height, width, ShapeOf(layer, {x[0] * height, x[1] * width, x[2]})));
  return Status();
}

Status MakePermute(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  Shape axes;
  uint32_t seen = 0;
  for (int i = 0; i < layer.shape.rank(); ++i) {
    const int64_t axis = std::max<int64_t>(layer.shape[i], 0) - 1;
    if (axis >= 0 && axis < x.rank()) seen |= uint32_t{1} << axis;
    axes.Append(axis);
  }
  if (x.rank() < 1 || axes.rank() != x.rank() ||
      seen != (uint32_t{1} << x.rank()) - 1) {
    return InvalidArgument(
        "dims must have the axes of the input %s, each once, from 1 to %d, not "
        "%s",
        x.ToString().c_str(), x.rank(), layer.shape.ToString().c_str());
  }
  op->reset(new PermuteOp(x, axes));
  return Status();
}

}  // namespace ringlet
