// Masking, and Mask: which steps of an example count.
//
// A mask has a number for each step, 1 for a step that counts and else 0. The
// graph adds it as an input of the layers that leave out masked steps
// (core/graph/graph_masks.cc). It has no gradient.

#include <algorithm>
#include <cmath>

#include "../op.h"

namespace ringlet {
namespace {

// The rows of some numbers, and the value that a masked row repeats.
struct Rows {
  int64_t width;
  float value;

  bool counts(const float* row) const {
    return std::any_of(row, row + width, [&](float x) { return x != value; });
  }
};

class MaskOp final : public Op {
 public:
  MaskOp(const Shape& output, const Rows& rows) : rows_(rows) {
    output_ = output;
  }

  void Forward(const OpCall& call) const override {
    const int64_t n = call.batch * output_.elements();
    for (int64_t i = 0; i < n; ++i) {
      call.y[i] = rows_.counts(call.x[0] + i * rows_.width) ? 1.0f : 0.0f;
    }
  }

 private:
  const Rows rows_;
};

class MaskingOp final : public Op {
 public:
  MaskingOp(const Shape& x, float value) : rows_{x.back(), value} {
    output_ = x;
  }
  bool backward_reads_input() const override { return true; }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }

  void Forward(const OpCall& call) const override {
    CopyCounted(call, call.x[0], call.y);
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] != nullptr) CopyCounted(call, call.dy, call.dx[0]);
  }

 private:
  // Copies the rows of the steps that count, and writes zeros for masked steps.
  void CopyCounted(const OpCall& call, const float* from, float* to) const {
    const int64_t width = rows_.width;
    ForEachPart(call, call.batch * output_.elements() / width, 1, [&](Range r) {
      for (int64_t i = r.begin * width; i < r.end * width; i += width) {
        if (!rows_.counts(call.x[0] + i)) {
          std::fill_n(to + i, width, 0.0f);
        } else if (to != from) {
          std::copy_n(from + i, width, to + i);
        }
      }
    });
  }

  const Rows rows_;
};

}  // namespace

Status MakeMasking(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (x.rank() < 2) {
    return InvalidArgument("Masking needs an input (steps, features), not %s",
                           x.ToString().c_str());
  }
  if (!std::isfinite(layer.mask_value)) {
    return InvalidArgument("mask_value must be a number, not %g",
                           double{layer.mask_value});
  }
  op->reset(new MaskingOp(x, layer.mask_value));
  return Status();
}

// The layer has mask_zero for an Embedding's mask, each number of which is a
// step.
Status MakeMask(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (layer.mask_zero) {
    op->reset(new MaskOp(x, {1, 0}));
    return Status();
  }
  Shape steps;
  for (int i = 0; i + 1 < x.rank(); ++i) steps.Append(x[i]);
  op->reset(new MaskOp(steps, {x.back(), layer.mask_value}));
  return Status();
}

}  // namespace ringlet
