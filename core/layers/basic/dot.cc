// Dot: the products of the rows of two inputs over an axis of each.

#include <algorithm>
#include <cmath>

#include "../../compute/gemm.h"
#include "../../compute/sums.h"
#include "../layer_kind.h"
#include "../op.h"

namespace ringlet {
namespace {

// An input of at most two axes as a matrix. Its columns are summed over.
struct Rows {
  int64_t rows, cols, row_stride, col_stride;

  int64_t size() const { return rows * cols; }
  template <typename T>
  MatrixView<T> Of(T* span, int64_t example) const {
    return {span + example * size(), rows, cols, row_stride, col_stride};
  }
};

constexpr float kMaxInverseNorm = 1e7f;  // 1 / epsilon, as in Keras

// Divides the rows of x by their norm. Sets `factors` to 1 / norm.
void NormalizeRows(ConstMatrix x, Matrix y, float* factors) {
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* const from = x.data + i * x.row_stride;
    float* const to = y.data + i * y.row_stride;
    const double square = LaneSum<float>(x.cols, [=](int64_t k) {
      return from[k * x.col_stride] * from[k * x.col_stride];
    });
    factors[i] = static_cast<float>(
        std::min(1 / std::sqrt(square), double{kMaxInverseNorm}));
    for (int64_t k = 0; k < x.cols; ++k) {
      to[k * y.col_stride] = from[k * x.col_stride] * factors[i];
    }
  }
}

// d = (d - y sum(d y)) / norm. A norm that is too small is a constant.
void NormalizedGradient(ConstMatrix y, const float* factors, Matrix d) {
  for (int64_t i = 0; i < y.rows; ++i) {
    const float* const at = y.data + i * y.row_stride;
    float* const to = d.data + i * d.row_stride;
    const auto along =
        static_cast<float>(factors[i] < kMaxInverseNorm
                               ? LaneSum<float>(y.cols,
                                                [=](int64_t k) {
                                                  return at[k * y.col_stride] *
                                                         to[k * d.col_stride];
                                                })
                               : 0);
    for (int64_t k = 0; k < y.cols; ++k) {
      float& dk = to[k * d.col_stride];
      dk = (dk - at[k * y.col_stride] * along) * factors[i];
    }
  }
}

// Y(M,N) = A(M,K) * B(N,K)^T for each example. Threads divide the examples.
// Each has scratch for the normalized rows of one, and their factors.
class DotOp final : public Op {
 public:
  DotOp(const Shape& output, const Rows& a, const Rows& b, bool normalize)
      : a_(a), b_(b), normalize_(normalize) {
    output_ = output;
  }
  bool backward_reads_input() const override { return true; }
  int64_t multiply_adds() const override { return a_.size() * b_.rows; }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * floats());
  }
  uint64_t backward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * floats());
  }

  void Forward(const OpCall& call) const override {
    ForEachExample(call, [&](int64_t e, float* scratch) {
      ConstMatrix a = {}, b = {};
      InputsOf(call, e, scratch, &a, &b);
      Gemm(a, b.Transposed(), /*add=*/false, OutputOf(call.y, e));
    });
  }

  void Backward(const OpCall& call) const override {
    ForEachExample(call, [&](int64_t e, float* scratch) {
      ConstMatrix a = {}, b = {};
      InputsOf(call, e, scratch, &a, &b);
      const float* const factors = scratch + a_.size() + b_.size();
      const ConstMatrix dy = OutputOf(static_cast<const float*>(call.dy), e);
      // dA(M,K) = dY(M,N) * B(N,K), dB(N,K) = dY(M,N)^T * A(M,K)
      if (call.dx[0] != nullptr) {
        const Matrix da = a_.Of(call.dx[0], e);
        Gemm(dy, b, /*add=*/false, da);
        if (normalize_) NormalizedGradient(a, factors, da);
      }
      if (call.dx[1] != nullptr) {
        const Matrix db = b_.Of(call.dx[1], e);
        Gemm(dy.Transposed(), a, /*add=*/false, db);
        if (normalize_) NormalizedGradient(b, factors + a_.rows, db);
      }
    });
  }

 private:
  // Scratch of a thread.
  int64_t floats() const {
    return normalize_ ? a_.size() + b_.size() + a_.rows + b_.rows : 0;
  }
  // Calls body(example, scratch).
  template <typename Body>
  void ForEachExample(const OpCall& call, const Body& body) const {
    ForEachIndex(call, call.batch, [&](int64_t e, int t) {
      body(e, call.scratch + t * floats());
    });
  }
  // Sets *a and *b to the inputs, or to their normalized rows in scratch.
  void InputsOf(const OpCall& call, int64_t example, float* scratch,
                ConstMatrix* a, ConstMatrix* b) const {
    *a = a_.Of(call.x[0], example);
    *b = b_.Of(call.x[1], example);
    if (!normalize_) return;
    float* const factors = scratch + a_.size() + b_.size();
    const float *const a_rows = scratch, *const b_rows = scratch + a_.size();
    NormalizeRows(*a, a_.Of(scratch, 0), factors);
    NormalizeRows(*b, b_.Of(scratch + a_.size(), 0), factors + a_.rows);
    *a = a_.Of(a_rows, 0);
    *b = b_.Of(b_rows, 0);
  }
  template <typename T>
  MatrixView<T> OutputOf(T* y, int64_t example) const {
    return RowMajor(y + example * a_.rows * b_.rows, a_.rows, b_.rows);
  }

  const Rows a_, b_;
  const bool normalize_;
};

// False if the axis, which counts the batch, is none of the input.
bool Fits(const Shape& x, int64_t axis, Rows* rows) {
  if (axis < 0) axis += x.rank() + 1;
  if (x.rank() < 1 || x.rank() > 2 || axis < 1 || axis > x.rank()) return false;
  const int64_t others = x.rank() == 1 ? 1 : x[axis == 1 ? 1 : 0];
  const int64_t cols = x[static_cast<int>(axis) - 1];
  const bool is_last = axis == x.rank();
  *rows = {others, cols, is_last ? cols : 1, is_last ? 1 : others};
  return true;
}

}  // namespace

Layer Dot(const std::vector<int64_t>& axes, bool normalize) {
  return MakeLayer(Layer::Kind::kDot, &Layer::axes, axes, &Layer::normalize,
                   normalize);
}

Status MakeDot(const Layer& layer, const std::vector<Shape>& inputs,
               std::unique_ptr<Op>* op) {
  const std::vector<int64_t>& axes = layer.axes;
  Rows a = {}, b = {};
  if (inputs.size() != 2 || axes.empty() || axes.size() > 2 ||
      !Fits(inputs[0], axes[0], &a) || !Fits(inputs[1], axes.back(), &b) ||
      a.cols != b.cols) {
    return InvalidArgument(
        "Dot takes two inputs of one or two dimensions with axes, counted from "
        "1, of one size: axes [1, 2] fit (3, 5) and (4, 3); the inputs are %s "
        "and %s",
        inputs[0].ToString().c_str(), inputs.back().ToString().c_str());
  }
  Shape output;
  if (inputs[0].rank() == 2) output.Append(a.rows);
  if (inputs[1].rank() == 2) output.Append(b.rows);
  if (output.rank() == 0) output.Append(1);
  op->reset(new DotOp(output, a, b, layer.normalize));
  return Status();
}

}  // namespace ringlet
