// Dot: the products of the rows of two inputs over an axis of each.

#include "../../compute/gemm.h"
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

// Y(M,N) = A(M,K) * B(N,K)^T for each example. Threads divide the examples.
class DotOp final : public Op {
 public:
  DotOp(const Shape& output, const Rows& a, const Rows& b) : a_(a), b_(b) {
    output_ = output;
  }
  bool backward_reads_input() const override { return true; }
  int64_t multiply_adds() const override { return a_.size() * b_.rows; }

  void Forward(const OpCall& call) const override {
    ForEachExample(call, [&](int64_t e) {
      Gemm(a_.Of(call.x[0], e), b_.Of(call.x[1], e).Transposed(),
           /*add=*/false, OutputOf(call.y, e));
    });
  }

  void Backward(const OpCall& call) const override {
    ForEachExample(call, [&](int64_t e) {
      const ConstMatrix dy = OutputOf(static_cast<const float*>(call.dy), e);
      // dA(M,K) = dY(M,N) * B(N,K), dB(N,K) = dY(M,N)^T * A(M,K)
      if (call.dx[0] != nullptr) {
        Gemm(dy, b_.Of(call.x[1], e), /*add=*/false, a_.Of(call.dx[0], e));
      }
      if (call.dx[1] != nullptr) {
        Gemm(dy.Transposed(), a_.Of(call.x[0], e), /*add=*/false,
             b_.Of(call.dx[1], e));
      }
    });
  }

 private:
  template <typename Body>
  static void ForEachExample(const OpCall& call, const Body& body) {
    ForEachPart(call, call.batch, 1, [&](Range part) {
      for (int64_t e = part.begin; e < part.end; ++e) body(e);
    });
  }
  template <typename T>
  MatrixView<T> OutputOf(T* y, int64_t example) const {
    return RowMajor(y + example * a_.rows * b_.rows, a_.rows, b_.rows);
  }

  const Rows a_, b_;
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

Layer Dot(const std::vector<int64_t>& axes) {
  return MakeLayer(Layer::Kind::kDot, &Layer::axes, axes);
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
  op->reset(new DotOp(output, a, b));
  return Status();
}

}  // namespace ringlet
