// MultiHeadAttention: projections of query, key and value, the sums of attend.h
// over each head, and a projection of the heads' contexts.
//
// Forward in training keeps the projections and the contexts. A projection is
// one product for all steps of all examples.

#include <algorithm>
#include <cmath>

#include "../layer_loops.h"
#include "attend.h"

namespace ringlet {
namespace {

class MultiHeadAttentionOp final : public Op {
 public:
  MultiHeadAttentionOp(const Layer& layer, const Attend::Sizes& sizes,
                       const std::vector<Shape>& inputs)
      : attend_(layer, sizes, inputs.size()),
        bias_(layer.use_bias),
        has_key_(inputs.size() == 3),
        masked_(layer.masked_inputs != 0),
        scale_(1 / std::sqrt(static_cast<float>(sizes.key_dim))) {
    output_ = inputs[0];
    const int64_t heads = sizes.heads, query = inputs[0][1];
    parts_[kQuery] = {sizes.queries, query, heads * sizes.key_dim};
    parts_[kKey] = {sizes.values, inputs.back()[1], heads * sizes.key_dim};
    parts_[kValue] = {sizes.values, inputs[1][1], heads * sizes.value_dim};
    parts_[kOutput] = {sizes.queries, heads * sizes.value_dim, query};
    AddPart(layer, "query", {query, heads, sizes.key_dim});
    AddPart(layer, "key", {inputs.back()[1], heads, sizes.key_dim});
    AddPart(layer, "value", {inputs[1][1], heads, sizes.value_dim});
    AddPart(layer, "attention_output", {heads, sizes.value_dim, query});
  }

  bool backward_reads_input() const override { return !frozen() || masked_; }
  int64_t multiply_adds() const override {
    int64_t sum = attend_.multiply_adds();
    for (const Part& part : parts_) sum += part.rows * part.in * part.out;
    return sum;
  }
  uint64_t saved_floats(int64_t batch) const override {
    return static_cast<uint64_t>(batch * SpanFloats());
  }
  // Spans that are not saved, then the spans of each thread.
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>(batch * SpanFloats() +
                                 threads * attend_.forward_floats());
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>(batch * SpanFloats() +
                                 threads * attend_.backward_floats());
  }

  void Forward(const OpCall& call) const override {
    const bool saves = call.training && call.saved != nullptr;
    const Spans to = SpansOf(call, saves ? call.saved : call.scratch);
    for (const int p : {kQuery, kKey, kValue}) {
      Project(call, p, InputOf(call, p), to.parts[p]);
    }
    attend_.Forward(call, &scale_, HeadsOf(to), to.parts[kOutput],
                    call.scratch + call.batch * SpanFloats());
    Project(call, kOutput, to.parts[kOutput], call.y);
  }

  void Backward(const OpCall& call) const override {
    const Spans saved = SpansOf(call, call.saved),
                d = SpansOf(call, call.scratch);
    WeightGradients(call, kOutput, saved.parts[kOutput], call.dy);
    InputGradient(call, kOutput, call.dy, /*add=*/false, d.parts[kOutput]);
    attend_.Backward(call, &scale_, HeadsOf(saved), d.parts[kOutput],
                     {d.parts[kQuery], d.parts[kKey], d.parts[kValue]},
                     /*d_scales=*/nullptr,
                     call.scratch + call.batch * SpanFloats());
    for (const int p : {kQuery, kKey, kValue}) {
      WeightGradients(call, p, InputOf(call, p), d.parts[p]);
      // The value is the key too, if there is no other.
      const bool add = p == kValue && !has_key_;
      InputGradient(call, p, d.parts[p], add, call.dx[InputIndexOf(p)]);
    }
    if (!frozen()) call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  // The projections, in the order of the weights.
  enum : int { kQuery, kKey, kValue, kOutput, kParts };
  // A projection of `rows` rows of an example, from `in` numbers to `out`.
  struct Part {
    int64_t rows, in, out;
  };
  // The projections, and in the place of the output's the contexts.
  struct Spans {
    float* parts[kParts];
  };

  void AddPart(const Layer& layer, const std::string& name,
               const Shape& kernel) {
    weights_.push_back({name + "_kernel", kernel, layer.kernel_initializer,
                        layer.kernel_regularizer, layer.kernel_constraint});
    if (!bias_) return;
    const bool is_output = name == "attention_output";
    weights_.push_back(
        {name + "_bias",
         is_output ? Shape{kernel[2]} : Shape{kernel[1], kernel[2]},
         layer.bias_initializer, layer.bias_regularizer,
         layer.bias_constraint});
  }

  int64_t WidthOf(int p) const {
    return p == kOutput ? parts_[p].in : parts_[p].out;
  }
  // The floats of all spans, for one example.
  int64_t SpanFloats() const {
    int64_t sum = 0;
    for (int p = 0; p < kParts; ++p) sum += parts_[p].rows * WidthOf(p);
    return sum;
  }
  Spans SpansOf(const OpCall& call, float* next) const {
    Spans spans = {};
    for (int p = 0; p < kParts; ++p) {
      spans.parts[p] = next;
      next += call.batch * parts_[p].rows * WidthOf(p);
    }
    return spans;
  }
  static AttendSpans<const float> HeadsOf(const Spans& spans) {
    return {spans.parts[kQuery], spans.parts[kKey], spans.parts[kValue]};
  }
  // The index among the inputs, which are query, value, key.
  int InputIndexOf(int p) const {
    if (p == kKey) return has_key_ ? 2 : 1;
    return p == kQuery ? 0 : 1;
  }
  const float* InputOf(const OpCall& call, int p) const {
    return call.x[InputIndexOf(p)];
  }
  int KernelOf(int p) const { return bias_ ? 2 * p : p; }
  ConstMatrix Kernel(const OpCall& call, int p) const {
    return RowMajor(static_cast<const float*>(call.weights[KernelOf(p)]),
                    parts_[p].in, parts_[p].out);
  }

  void Project(const OpCall& call, int p, const float* x, float* y) const {
    const Part& part = parts_[p];
    const int64_t rows = call.batch * part.rows;
    // Y(R,O) = X(R,I) * W(I,O)
    Product product{RowMajor(x, rows, part.in), Kernel(call, p),
                    RowMajor(y, rows, part.out)};
    product.bias = bias_ ? call.weights[KernelOf(p) + 1] : nullptr;
    Multiply(product, call.pool);
  }
  void WeightGradients(const OpCall& call, int p, const float* x,
                       const float* dy) const {
    if (frozen()) return;
    const Part& part = parts_[p];
    const int64_t rows = call.batch * part.rows;
    // dW(I,O) = X(R,I)^T * dY(R,O)
    Gemm(RowMajor(x, rows, part.in).Transposed(), RowMajor(dy, rows, part.out),
         /*add=*/false,
         RowMajor(call.d_weights[KernelOf(p)], part.in, part.out), call.pool);
    if (!bias_) return;
    float* const sums = call.d_weights[KernelOf(p) + 1];
    std::fill_n(sums, part.out, 0.0f);
    AddColumnSums(dy, rows, part.out, sums);
  }
  void InputGradient(const OpCall& call, int p, const float* dy, bool add,
                     float* dx) const {
    if (dx == nullptr) return;
    const int64_t rows = call.batch * parts_[p].rows;
    // dX(R,I) = dY(R,O) * W(I,O)^T
    Gemm(RowMajor(dy, rows, parts_[p].out), Kernel(call, p).Transposed(), add,
         RowMajor(dx, rows, parts_[p].in), call.pool);
  }

  const Attend attend_;
  const bool bias_, has_key_, masked_;
  const float scale_;
  Part parts_[kParts];
};

}  // namespace

Status MakeMultiHeadAttention(const Layer& layer,
                              const std::vector<Shape>& with_masks,
                              std::unique_ptr<Op>* op) {
  constexpr int64_t kMax = int64_t{1} << 29;
  Attend::Sizes sizes = {};
  std::vector<Shape> inputs = with_masks;
  inputs.resize(inputs.size() - CountMasks(layer));
  RINGLET_RETURN_IF_ERROR(CheckAttention(layer, inputs, &sizes));
  if (layer.num_heads < 1 || layer.key_dim < 1 || layer.value_dim < 0) {
    return InvalidArgument(
        "num_heads, key_dim and value_dim must be at least 1");
  }
  sizes.heads = layer.num_heads;
  sizes.key_dim = layer.key_dim;
  sizes.value_dim = layer.value_dim > 0 ? layer.value_dim : layer.key_dim;
  const int64_t steps = std::max(sizes.queries, sizes.values);
  const int64_t widest =
      std::max({inputs[0][1], inputs[1][1], inputs.back()[1], int64_t{1}});
  if (sizes.heads > kMax / std::max(sizes.key_dim, sizes.value_dim) / steps ||
      widest > kMax / steps) {
    return InvalidArgument(
        "%lld heads of %lld numbers for %lld steps are too many: the product "
        "may be at most 2^29",
        static_cast<long long>(sizes.heads),
        static_cast<long long>(std::max(sizes.key_dim, sizes.value_dim)),
        static_cast<long long>(steps));
  }
  op->reset(new MultiHeadAttentionOp(layer, sizes, inputs));
  return Status();
}

}  // namespace ringlet
