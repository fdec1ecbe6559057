// Add, Subtract, Multiply, Average, Maximum, Minimum; Concatenate.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../layer_kind.h"
#include "../layer_loops.h"
#include "../op.h"
#include "ringlet/shape.h"

namespace ringlet {
namespace {

// Broadcast: the elements of a smaller shape in a larger one, as in NumPy.
// Each axis of `from` has the size of the axis of `to`, or 1; leading axes may
// be missing.
class Broadcast {
 public:
  Broadcast(const Shape& from, const Shape& to)
      : elements_(from.elements()), rank_(std::max(0, to.rank() - 1)) {
    int64_t stride = 1;
    for (int i = to.rank() - 1; i >= 0; --i) {
      const int from_axis = i - (to.rank() - from.rank());
      const int64_t size = from_axis < 0 ? 1 : from[from_axis];
      sizes_[i] = to[i];
      strides_[i] = size == 1 ? 0 : stride;
      stride *= size;
    }
    step_ = rank_ < to.rank() ? strides_[rank_] : 0;
  }

  int64_t elements() const { return elements_; }
  // The distance between neighbours in a row. A row is the last axis of `to`.
  int64_t step() const { return step_; }
  // The index in `from` of the first element of row `row`.
  int64_t At(int64_t row) const {
    int64_t index = 0;
    for (int i = rank_ - 1; i >= 0; --i) {
      index += row % sizes_[i] * strides_[i];
      row /= sizes_[i];
    }
    return index;
  }

 private:
  int64_t elements_;
  int rank_;  // axes of the rows
  int64_t step_ = 0;
  int64_t sizes_[Shape::kMaxRank] = {}, strides_[Shape::kMaxRank] = {};
};

using Kind = Layer::Kind;

// Inputs of the same shape are spans of numbers, cut anywhere. Inputs of
// different shapes are processed in rows of the output. One thread computes an
// example, so that the sums over a repeated input have a fixed order.
class MergeOp final : public Op {
 public:
  MergeOp(Kind kind, const Shape& output, const std::vector<Shape>& inputs)
      : kind_(kind), share_(static_cast<float>(inputs.size())) {
    output_ = output;
    for (const Shape& x : inputs) {
      alike_ &= x == output;
      inputs_.emplace_back(x, output);
    }
  }

  bool backward_reads_input() const override {
    return kind_ == Kind::kMultiply || picks();
  }
  ExactResults exact_results() const override {
    return {picks(),
            alike_ && kind_ != Kind::kMultiply && kind_ != Kind::kAverage};
  }
  bool may_overwrite_input() const override { return alike_; }
  bool dx_may_overwrite_dy(size_t) const override {
    return alike_ && kind_ == Kind::kAdd;
  }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachPiece(call, [&](const Run& run) {
      float* const y = call.y + run.y;
      Copy(run, 0, call.x[0], y);
      for (size_t i = 1; i < inputs_.size(); ++i) Merge(run, i, call.x[i], y);
      if (kind_ != Kind::kAverage) return;
      for (int64_t j = 0; j < run.n; ++j) y[j] /= share_;
    });
  }

  void Backward(const OpCall& call) const override {
    ForEachPiece(call, [&](const Run& run) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (call.dx[i] != nullptr) ComputeGradient(call, run, i);
      }
    });
  }

 private:
  static constexpr int64_t kPiece = 512;

  // `n` consecutive numbers of the output, from number `first` on.
  struct Run {
    int64_t example, row, first, y, n;
  };

  bool picks() const {
    return kind_ == Kind::kMaximum || kind_ == Kind::kMinimum;
  }
  // The index of the first number of input i in the run.
  int64_t InputOffset(const Run& run, size_t i) const {
    if (alike_) return run.y;
    const Broadcast& x = inputs_[i];
    return run.example * x.elements() + x.At(run.row) + run.first * x.step();
  }
  int64_t Step(size_t i) const { return alike_ ? 1 : inputs_[i].step(); }

  template <typename Body>
  void ForEachRun(const OpCall& call, const Body& body) const {
    if (alike_) {
      ForEachPart(call, call.batch * output_.elements(), 16, [&](Range part) {
        body(Run{0, 0, 0, part.begin, part.size()});
      });
      return;
    }
    const int64_t width = output_.back();
    const int64_t rows = output_.elements() / width;
    ForEachIndex(call, call.batch, [&](int64_t e) {
      for (int64_t r = 0; r < rows; ++r) {
        body(Run{e, r, 0, (e * rows + r) * width, width});
      }
    });
  }

  // Pieces of the output that stay in the cache until they are read again.
  template <typename Body>
  void ForEachPiece(const OpCall& call, const Body& body) const {
    ForEachRun(call, [&](const Run& full_run) {
      for (int64_t at = 0; at < full_run.n; at += kPiece) {
        Run run = full_run;
        run.first += at;
        run.y += at;
        run.n = std::min(kPiece, full_run.n - at);
        body(run);
      }
    });
  }

  void Copy(const Run& run, size_t i, const float* x, float* y) const {
    x += InputOffset(run, i);
    if (x == y) return;
    if (Step(i) == 1) {
      std::copy_n(x, run.n, y);
    } else {
      std::fill_n(y, run.n, *x);
    }
  }

  template <typename Body>
  void Each(const Run& run, size_t i, const float* x, float* y,
            const Body& body) const {
    x += InputOffset(run, i);
    if (Step(i) == 1) {
      for (int64_t j = 0; j < run.n; ++j) y[j] = body(y[j], x[j]);
    } else {
      const float one = *x;
      for (int64_t j = 0; j < run.n; ++j) y[j] = body(y[j], one);
    }
  }

  // NaN wins.
  void Merge(const Run& run, size_t i, const float* x, float* y) const {
    if (kind_ == Kind::kMultiply) {
      Each(run, i, x, y, [](float a, float b) { return a * b; });
    } else if (kind_ == Kind::kSubtract) {
      Each(run, i, x, y, [](float a, float b) { return a - b; });
    } else if (kind_ == Kind::kMaximum) {
      Each(run, i, x, y,
           [](float a, float b) { return b > a || b != b ? b : a; });
    } else if (kind_ == Kind::kMinimum) {
      Each(run, i, x, y,
           [](float a, float b) { return b < a || b != b ? b : a; });
    } else {
      if (Step(i) == 1) return AddTo(x + InputOffset(run, i), run.n, y);
      Each(run, i, x, y, [](float a, float b) { return a + b; });
    }
  }

  // Computes the gradient of at most kPiece numbers.
  void ComputeGradient(const OpCall& call, const Run& run, size_t i) const {
    const bool as_it_is = kind_ == Kind::kAdd && alike_;
    if (as_it_is && call.dx[i] == call.dy) return;
    float d[kPiece];
    std::copy_n(call.dy + run.y, run.n, as_it_is ? call.dx[i] + run.y : d);
    if (as_it_is) return;
    if (kind_ == Kind::kAverage) {
      for (int64_t j = 0; j < run.n; ++j) d[j] /= share_;
    } else if (kind_ == Kind::kSubtract && i == 1) {
      for (int64_t j = 0; j < run.n; ++j) d[j] = -d[j];
    } else if (kind_ == Kind::kMultiply) {
      for (size_t k = 0; k < inputs_.size(); ++k) {
        if (k != i) Merge(run, k, call.x[k], d);
      }
    } else if (picks()) {
      ClearUnlessFirst(call, run, i, d);
    }
    Give(run, i, d, call.dx[i]);
  }

  // Writes 0 where input i was not chosen.
  void ClearUnlessFirst(const OpCall& call, const Run& run, size_t i,
                        float* d) const {
    float merged[kPiece], x[kPiece];
    Copy(run, 0, call.x[0], merged);
    for (size_t k = 1; k < inputs_.size(); ++k) {
      Merge(run, k, call.x[k], merged);
    }
    for (size_t k = 0; k <= i; ++k) {
      Copy(run, k, call.x[k], x);
      for (int64_t j = 0; j < run.n; ++j) {
        if ((x[j] == merged[j]) == (k < i)) d[j] = 0;
      }
    }
  }

  void Give(const Run& run, size_t i, const float* d, float* dx) const {
    if (alike_) {
      std::copy_n(d, run.n, dx + run.y);
      return;
    }
    const int64_t elements = inputs_[i].elements();
    if (run.row == 0 && run.first == 0) {
      std::fill_n(dx + run.example * elements, elements, 0.0f);
    }
    dx += InputOffset(run, i);
    if (Step(i) == 1) {
      for (int64_t j = 0; j < run.n; ++j) dx[j] += d[j];
    } else {
      float sum = 0;
      for (int64_t j = 0; j < run.n; ++j) sum += d[j];
      *dx += sum;
    }
  }

  const Kind kind_;
  const float share_;  // the number of inputs
  bool alike_ = true;  // all have the output's shape
  std::vector<Broadcast> inputs_;
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
  ExactResults exact_results() const override { return {true, true}; }
  Recompute recompute() const override { return Recompute::kCheap; }
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

// If two sizes differ, one must be 1; its elements are repeated.
bool BroadcastShape(const Shape& x, Shape* output) {
  const Shape& longer = x.rank() > output->rank() ? x : *output;
  const Shape& shorter = x.rank() > output->rank() ? *output : x;
  Shape widened = longer;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const int64_t a = longer[longer.rank() - i];
    const int64_t b = shorter[shorter.rank() - i];
    if (a != b && a != 1 && b != 1) return false;
    widened[longer.rank() - i] = std::max(a, b);
  }
  *output = widened;
  return true;
}

Status DoNotFit(const Shape& a, const Shape& b) {
  return InvalidArgument("inputs of %s and %s do not fit together",
                         a.ToString().c_str(), b.ToString().c_str());
}

}  // namespace

Status MakeMerge(const Layer& layer, const std::vector<Shape>& inputs,
                 std::unique_ptr<Op>* op) {
  if (layer.kind == Kind::kSubtract && inputs.size() != 2) {
    return InvalidArgument("takes two inputs, not %d",
                           static_cast<int>(inputs.size()));
  }
  Shape output = inputs[0];
  for (const Shape& x : inputs) {
    if (!BroadcastShape(x, &output)) return DoNotFit(inputs[0], x);
  }
  op->reset(new MergeOp(layer.kind, output, inputs));
  return Status();
}

Status MakeConcatenate(const Layer&, const std::vector<Shape>& inputs,
                       std::unique_ptr<Op>* op) {
  for (const Shape& x : inputs) {
    Shape a = x, b = inputs[0];
    if (a.rank() == 0 || b.rank() == 0) return DoNotFit(b, x);
    a[a.rank() - 1] = b[b.rank() - 1] = 1;  // may differ
    if (a != b) return DoNotFit(inputs[0], x);
  }
  op->reset(new ConcatenateOp(inputs));
  return Status();
}

}  // namespace ringlet
