// Activation, Dropout, Reshape, Flatten, Add, Concatenate.

#include <algorithm>
#include <cstring>

#include "../base/random.h"
#include "kernels.h"
#include "op.h"

namespace ringlet {
namespace {

// Thread t's part of n floats.
template <typename Body>
void ForEachPart(const OpCall& call, int64_t n, int64_t grain,
                 const Body& body) {
  call.pool->Run([&](int t) {
    const Range part = Split(n, call.pool->threads(), t, grain);
    if (!part.empty()) body(part);
  });
}

class ActivationOp final : public Op {
 public:
  ActivationOp(Activation activation, const Shape& x)
      : activation_(activation) {
    output_ = x;
  }
  bool keeps_output() const override { return true; }
  Activation fused_activation() const override { return activation_; }

  void Forward(const OpCall& call) const override {
    ForEachPart(call, call.batch * Rows(), 1, [&](Range rows) {
      const int64_t width = output_.back(), begin = rows.begin * width;
      float* y = call.y + begin;
      std::copy_n(call.x[0] + begin, rows.size() * width, y);
      BiasActivation(call.without_activation ? kLinear : activation_, nullptr,
                     rows.size(), width, y);
    });
  }

  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachPart(call, call.batch * Rows(), 1, [&](Range rows) {
      const int64_t width = output_.back(), begin = rows.begin * width;
      float* dx = call.dx[0] + begin;
      std::copy_n(call.dy + begin, rows.size() * width, dx);
      if (call.without_activation) return;
      ActivationGradient(activation_, call.y + begin, rows.size(), width, dx);
    });
  }

 private:
  int64_t Rows() const { return output_.elements() / output_.back(); }

  const Activation activation_;
};

// The mask is drawn again for the backward pass, so it is not stored.
class DropoutOp final : public Op {
 public:
  DropoutOp(float rate, const Shape& x) : rate_(rate) { output_ = x; }

  void Forward(const OpCall& call) const override {
    if (!call.training || rate_ == 0) {
      std::copy_n(call.x[0], call.batch * output_.elements(), call.y);
      return;
    }
    Mask(call, call.x[0], call.y);
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    if (rate_ == 0) {
      std::copy_n(call.dy, call.batch * output_.elements(), call.dx[0]);
      return;
    }
    Mask(call, call.dy, call.dx[0]);
  }

 private:
  void Mask(const OpCall& call, const float* from, float* to) const {
    const Philox random(call.seed, call.counter);
    const float scale = 1 / (1 - rate_);
    const int64_t n = call.batch * output_.elements();
    ForEachPart(call, n, 4, [&](Range part) {
      for (int64_t i = part.begin; i < part.end; i += 4) {
        const Philox::Block words = random.At(static_cast<uint64_t>(i));
        const int64_t lanes = std::min<int64_t>(4, part.end - i);
        for (int64_t k = 0; k < lanes; ++k) {
          const bool keep = Philox::Unit(words[k]) >= rate_;
          to[i + k] = keep ? from[i + k] * scale : 0;
        }
      }
    });
  }

  const float rate_;
};

class ViewOp final : public Op {
 public:
  explicit ViewOp(const Shape& output) { output_ = output; }
  bool is_view() const override { return true; }
};

class AddOp final : public Op {
 public:
  AddOp(const Shape& x, size_t inputs) : inputs_(inputs) { output_ = x; }
  void Forward(const OpCall& call) const override {
    const int64_t n = call.batch * output_.elements();
    ForEachPart(call, n, 16, [&](Range part) {
      std::copy_n(call.x[0] + part.begin, part.size(), call.y + part.begin);
      for (size_t i = 1; i < inputs_; ++i) {
        AddTo(call.x[i] + part.begin, part.size(), call.y + part.begin);
      }
    });
  }
  void Backward(const OpCall& call) const override {
    const int64_t n = call.batch * output_.elements();
    for (size_t i = 0; i < inputs_; ++i) {
      if (call.dx[i] != nullptr) std::copy_n(call.dy, n, call.dx[i]);
    }
  }

 private:
  const size_t inputs_;
};

class ConcatenateOp final : public Op {
 public:
  explicit ConcatenateOp(const std::vector<Shape>& inputs) {
    output_ = inputs[0];
    int64_t width = 0;
    for (const Shape& x : inputs) {
      widths_.push_back(x.back());
      width += x.back();
    }
    output_[output_.rank() - 1] = width;
  }
  void Forward(const OpCall& call) const override {
    ForEachPiece(call.batch, [&](size_t i, int64_t from, int64_t to) {
      std::copy_n(call.x[i] + from, widths_[i], call.y + to);
    });
  }
  void Backward(const OpCall& call) const override {
    ForEachPiece(call.batch, [&](size_t i, int64_t from, int64_t to) {
      if (call.dx[i] == nullptr) return;
      std::copy_n(call.dy + to, widths_[i], call.dx[i] + from);
    });
  }

 private:
  template <typename Body>
  void ForEachPiece(int64_t batch, const Body& body) const {
    const int64_t rows = batch * output_.elements() / output_.back();
    for (int64_t r = 0; r < rows; ++r) {
      int64_t to = r * output_.back();
      for (size_t i = 0; i < widths_.size(); ++i) {
        body(i, r * widths_[i], to);
        to += widths_[i];
      }
    }
  }

  std::vector<int64_t> widths_;
};

}  // namespace

Status MakeActivation(const Layer& layer, const std::vector<Shape>& inputs,
                      std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (layer.activation == kSoftmax && x.rank() < 1) {
    return InvalidArgument("softmax needs at least one dimension");
  }
  op->reset(new ActivationOp(layer.activation, x));
  return Status();
}

Status MakeDropout(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (!(layer.rate >= 0 && layer.rate < 1)) {
    return InvalidArgument("rate must be in [0, 1), not %g", layer.rate);
  }
  op->reset(new DropoutOp(layer.rate, x));
  return Status();
}

Status MakeReshape(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (layer.kind == Layer::Kind::kFlatten) {
    op->reset(new ViewOp({x.elements()}));
    return Status();
  }
  Shape target = layer.shape;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < target.rank(); ++i) {
    if (target[i] == -1 && unknown < 0) {
      unknown = i;
    } else if (target[i] < 1 || known > x.elements() / target[i]) {
      known = 0;
      break;
    } else {
      known *= target[i];
    }
  }
  const bool divides = known > 0 && x.elements() % known == 0;
  if (divides && unknown >= 0) target[unknown] = x.elements() / known;
  if (!divides || target.elements() != x.elements()) {
    return InvalidArgument("cannot reshape %s into %s", x.ToString().c_str(),
                           layer.shape.ToString().c_str());
  }
  op->reset(new ViewOp(target));
  return Status();
}

Status MakeMerge(const Layer& layer, const std::vector<Shape>& inputs,
                 std::unique_ptr<Op>* op) {
  const bool concatenate = layer.kind == Layer::Kind::kConcatenate;
  for (const Shape& shape : inputs) {
    Shape a = shape, b = inputs[0];
    if (concatenate && a.rank() > 0 && b.rank() > 0) {
      a[a.rank() - 1] = b[b.rank() - 1] = 1;  // free to differ
    }
    if (a != b || (concatenate && shape.rank() == 0)) {
      return InvalidArgument("inputs of %s and %s do not fit together",
                             inputs[0].ToString().c_str(),
                             shape.ToString().c_str());
    }
  }
  if (concatenate) {
    op->reset(new ConcatenateOp(inputs));
  } else {
    op->reset(new AddOp(inputs[0], inputs.size()));
  }
  return Status();
}

}  // namespace ringlet
