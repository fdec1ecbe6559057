// LoRA of a Dense: y = activation(x W + (s x A) B + b), with s = alpha / rank.
//
// The product A B is never computed, and W has no gradient. So a step costs
// little more than the pass of a frozen layer. An Embedding has its LoRA in
// embedding.cc.

#include "lora.h"

#include <algorithm>

#include "../../base/text.h"
#include "../../compute/gemm.h"
#include "../layer_loops.h"
#include "../layer_table.h"
#include "dense_product.h"

namespace ringlet {
namespace {

class LoraDenseOp final : public Op {
 public:
  LoraDenseOp(const Layer& layer, const Shape& x)
      : activation_(layer.activation),
        bias_(layer.use_bias),
        scale_(LoraScale(layer)),
        inputs_(x.back()),
        units_(layer.units),
        rank_(layer.lora_rank),
        rows_(x.elements() / x.back()) {
    output_ = x;
    output_[x.rank() - 1] = units_;
    WeightSpec kernel = {"kernel",
                         {inputs_, units_},
                         layer.kernel_initializer,
                         layer.kernel_regularizer};
    const WeightSpec a = SpecOfLoraA(layer, kernel),
                     b = SpecOfLoraB(layer, kernel);
    kernel.trainable = false;
    kernel.regularizer = {};
    weights_.push_back(kernel);
    AddBias(layer, units_);
    weights_.push_back(a);
    weights_.push_back(b);
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool backward_reads_output() const override { return activation_ != kLinear; }
  Activation fused_activation() const override { return activation_; }
  uint64_t forward_scratch(int64_t batch, int) const override {
    return static_cast<uint64_t>(batch * rows_ * rank_);
  }
  uint64_t backward_scratch(int64_t batch, int) const override {
    return static_cast<uint64_t>(batch * rows_ * rank_);
  }
  uint64_t saved_floats(int64_t batch) const override {
    return frozen() ? 0 : static_cast<uint64_t>(batch * rows_ * rank_);
  }
  Recompute recompute() const override { return Recompute::kCostly; }
  int64_t multiply_adds() const override {
    return rows_ * (inputs_ * units_ + rank_ * (inputs_ + units_));
  }

  void Forward(const OpCall& call) const override {
    const int64_t rows = call.batch * rows_;
    const Matrix xa = RowMajor(ProductBuffer(call, frozen()), rows, rank_);
    const ConstMatrix x = RowMajor(call.x[0], rows, inputs_);
    const Matrix y = RowMajor(call.y, rows, units_);
    // XA(B,R) = s X(B,K) * A(K,R)
    Gemm(x, A(call), /*add=*/false, xa, call.pool);
    ScaleBy(scale_, rows * rank_, xa.data);
    // Y(B,U) = X(B,K) * W(K,U) + XA(B,R) * B(R,U)
    Gemm(x, W(call), /*add=*/false, y, call.pool);
    Product product{Const(xa), B(call), y};
    product.add = true;
    MultiplyAndActivate(product, bias_ ? call.weights[1] : nullptr,
                        call.without_activation ? kLinear : activation_,
                        call.pool);
  }

  void Backward(const OpCall& call) const override {
    const int64_t rows = call.batch * rows_;
    if (!call.without_activation) {
      ActivationGradient(activation_, call.y, rows, units_, call.dy);
    }
    const ConstMatrix dy = Const(RowMajor(call.dy, rows, units_));
    // DYB(B,R) = s dY(B,U) * B(R,U)^T
    const Matrix dyb = RowMajor(call.scratch, rows, rank_);
    Gemm(dy, B(call).Transposed(), /*add=*/false, dyb, call.pool);
    ScaleBy(scale_, rows * rank_, dyb.data);
    if (!frozen()) WeightGradients(call, dy, Const(dyb));
    if (call.dx[0] != nullptr) {
      // dX(B,K) = dY(B,U) * W(K,U)^T + DYB(B,R) * A(K,R)^T
      const Matrix dx = RowMajor(call.dx[0], rows, inputs_);
      Gemm(dy, W(call).Transposed(), /*add=*/false, dx, call.pool);
      Gemm(Const(dyb), A(call).Transposed(), /*add=*/true, dx, call.pool);
    }
    if (!frozen()) call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  static ConstMatrix Const(const Matrix& m) {
    return {m.data, m.rows, m.cols, m.row_stride, m.col_stride};
  }
  ConstMatrix Weight(const OpCall& call, int64_t index, int64_t rows,
                     int64_t cols) const {
    return RowMajor(static_cast<const float*>(call.weights[index]), rows, cols);
  }
  ConstMatrix W(const OpCall& call) const {
    return Weight(call, 0, inputs_, units_);
  }
  ConstMatrix A(const OpCall& call) const {
    return Weight(call, first_, inputs_, rank_);
  }
  ConstMatrix B(const OpCall& call) const {
    return Weight(call, first_ + 1, rank_, units_);
  }

  void WeightGradients(const OpCall& call, const ConstMatrix& dy,
                       const ConstMatrix& dyb) const {
    const int64_t rows = call.batch * rows_;
    if (bias_) {
      std::fill_n(call.d_weights[1], units_, 0.0f);
      AddColumnSums(call.dy, rows, units_, call.d_weights[1]);
    }
    // dA(K,R) = X(B,K)^T * DYB(B,R)
    Gemm(RowMajor(call.x[0], rows, inputs_).Transposed(), dyb, /*add=*/false,
         RowMajor(call.d_weights[first_], inputs_, rank_), call.pool);
    // dB(R,U) = XA(B,R)^T * dY(B,U)
    Gemm(RowMajor(static_cast<const float*>(call.saved), rows, rank_)
             .Transposed(),
         dy, /*add=*/false, RowMajor(call.d_weights[first_ + 1], rank_, units_),
         call.pool);
  }

  const Activation activation_;
  const bool bias_;
  const float scale_;
  const int64_t inputs_, units_, rank_;
  const int64_t rows_;                   // rows of x in one example
  const int64_t first_ = bias_ ? 2 : 1;  // the place of A in weights
};

WeightSpec MakeLoraMatrix(const WeightSpec& w, const char* suffix,
                          const Shape& shape, const Initializer& initializer) {
  return {"lora_" + w.name + suffix, shape, initializer, w.regularizer};
}

// 0 means: not set.
Status CheckLoraSize(const char* field, int64_t size) {
  if (size >= 0 && size <= kMaxLayerSize) return Status();
  return InvalidArgument("%s must be a whole number from 1 to %lld, not %lld",
                         field, static_cast<long long>(kMaxLayerSize),
                         static_cast<long long>(size));
}

}  // namespace

int64_t LoraAlpha(const Layer& layer) {
  return layer.lora_alpha > 0 ? layer.lora_alpha : layer.lora_rank;
}

float LoraScale(const Layer& layer) {
  return static_cast<float>(static_cast<double>(LoraAlpha(layer)) /
                            static_cast<double>(layer.lora_rank));
}

bool IsLoraMatrix(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return StartsWith(name, "lora_") &&
         (EndsWith(name, "_a") || EndsWith(name, "_b"));
}

Status CheckLora(const Layer& layer, int64_t rows, const char* matrix,
                 const Constraint& constraint) {
  RINGLET_RETURN_IF_ERROR(CheckLoraSize("lora_rank", layer.lora_rank));
  RINGLET_RETURN_IF_ERROR(CheckLoraSize("lora_alpha", layer.lora_alpha));
  if (layer.lora_rank > kMaxLayerSize / rows) {
    return InvalidArgument(
        "a lora_rank of %lld is too large for %lld rows; give a small number",
        static_cast<long long>(layer.lora_rank), static_cast<long long>(rows));
  }
  if (layer.lora_rank == 0 && layer.lora_alpha != 0) {
    return InvalidArgument(
        "a lora_alpha of %lld needs a lora_rank; set it, or leave lora_alpha "
        "out",
        static_cast<long long>(layer.lora_alpha));
  }
  if (layer.lora_rank == 0 || constraint.empty()) return Status();
  return InvalidArgument(
      "%s_constraint: does not go with lora_rank, which freezes the %s; leave "
      "one of them out",
      matrix, matrix);
}

WeightSpec SpecOfLoraA(const Layer& layer, const WeightSpec& w) {
  return MakeLoraMatrix(w, "_a", {w.shape[0], layer.lora_rank}, HeUniform());
}

WeightSpec SpecOfLoraB(const Layer& layer, const WeightSpec& w) {
  return MakeLoraMatrix(w, "_b", {layer.lora_rank, w.shape[1]}, Zeros());
}

void ScaleBy(float scale, int64_t n, float* values) {
  if (scale == 1) return;
  for (int64_t i = 0; i < n; ++i) values[i] *= scale;
}

Status MakeLoraDense(const Layer& layer, const Shape& x,
                     std::unique_ptr<Op>* op) {
  op->reset(new LoraDenseOp(layer, x));
  return Status();
}

std::vector<float> MergeLora(const Layer& layer, const Shape& shape,
                             const float* w, const float* a, const float* b) {
  const int64_t rank = layer.lora_rank;
  std::vector<float> merged(w, w + shape.elements()),
      scaled(a, a + shape[0] * rank);
  ScaleBy(LoraScale(layer), shape[0] * rank, scaled.data());
  Gemm(RowMajor(static_cast<const float*>(scaled.data()), shape[0], rank),
       RowMajor(b, rank, shape[1]), /*add=*/true,
       RowMajor(merged.data(), shape[0], shape[1]));
  return merged;
}

}  // namespace ringlet
