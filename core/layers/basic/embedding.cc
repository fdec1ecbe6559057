// Embedding, PositionEmbedding and RepeatVector.
//
// The gradient of an Embedding is a sum for each row of its matrix, in the
// order of the numbers, or of the examples. Threads divide the rows of the
// matrix.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "../../compute/gemm.h"
#include "../layer_loops.h"
#include "../op.h"
#include "lora.h"

namespace ringlet {
namespace {

class EmbeddingOp final : public Op {
 public:
  EmbeddingOp(const Layer& layer, const Shape& x)
      : rows_(layer.input_dim),
        width_(layer.units),
        rank_(layer.lora_rank),
        scale_(rank_ > 0 ? LoraScale(layer) : 1) {
    output_ = x;
    output_.Append(width_);
    WeightSpec matrix = {"embeddings",
                         {rows_, width_},
                         layer.embeddings_initializer,
                         layer.embeddings_regularizer,
                         layer.embeddings_constraint};
    weights_.push_back(matrix);
    if (rank_ == 0) return;
    weights_[0].trainable = false;
    weights_[0].regularizer = {};
    weights_.push_back(SpecOfLoraA(layer, matrix));
    weights_.push_back(SpecOfLoraB(layer, matrix));
  }
  bool backward_reads_input() const override { return !frozen(); }
  uint64_t forward_scratch(int64_t batch, int) const override {
    return LoraFloats(batch);
  }
  uint64_t backward_scratch(int64_t batch, int) const override {
    if (frozen()) return 0;
    // Two numbers for each of the input (SumTouchedRows), if there is no LoRA.
    const int64_t numbers = batch * (output_.elements() / width_);
    return static_cast<uint64_t>(numbers * (rank_ > 0 ? rank_ : 2));
  }
  uint64_t saved_floats(int64_t batch) const override {
    return frozen() ? 0 : LoraFloats(batch);
  }
  int64_t multiply_adds() const override { return output_.elements() * rank_; }

  void Forward(const OpCall& call) const override {
    const int64_t n = Numbers(call);
    const float* const x = call.x[0];
    for (int64_t i = 0; i < n; ++i) {
      if (x[i] >= 0 && x[i] < static_cast<float>(rows_)) continue;
      *call.status = InvalidArgument(
          "number %lld of the batch is %g; an Embedding with input_dim %lld "
          "takes numbers from 0 to %lld",
          static_cast<long long>(i), x[i], static_cast<long long>(rows_),
          static_cast<long long>(rows_ - 1));
      return;
    }
    ForEachIndex(call, n, [&](int64_t i) {
      std::copy_n(call.weights[0] + RowOf(x[i]) * width_, width_,
                  call.y + i * width_);
    });
    if (rank_ > 0) AddLora(call);
  }

  void Backward(const OpCall& call) const override {
    if (call.dx[0] != nullptr) std::fill_n(call.dx[0], Numbers(call), 0.0f);
    if (frozen()) return;
    if (rank_ == 0 && call.skips_zeros && Numbers(call) <= INT32_MAX) {
      return SumTouchedRows(call);
    }
    if (rank_ > 0) {
      LoraGradients(call);
    } else {
      SumRows(call, call.dy, width_, call.d_weights[0]);
    }
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  int64_t Numbers(const OpCall& call) const {
    return call.batch * (output_.elements() / width_);
  }
  uint64_t LoraFloats(int64_t batch) const {
    return static_cast<uint64_t>(batch * (output_.elements() / width_) * rank_);
  }

  // Adds (s A) B: of each number its row of A, which is kept for Backward.
  void AddLora(const OpCall& call) const {
    const int64_t n = Numbers(call);
    float* const rows = ProductBuffer(call, frozen());
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(call.weights[1] + RowOf(call.x[0][i]) * rank_, rank_,
                  rows + i * rank_);
    }
    ScaleBy(scale_, n * rank_, rows);
    Gemm(RowMajor(static_cast<const float*>(rows), n, rank_), B(call),
         /*add=*/true, RowMajor(call.y, n, width_), call.pool);
  }

  void LoraGradients(const OpCall& call) const {
    const int64_t n = Numbers(call);
    const ConstMatrix dy =
        RowMajor(static_cast<const float*>(call.dy), n, width_);
    Gemm(RowMajor(static_cast<const float*>(call.saved), n, rank_).Transposed(),
         dy, /*add=*/false, RowMajor(call.d_weights[2], rank_, width_),
         call.pool);
    Gemm(dy, B(call).Transposed(), /*add=*/false,
         RowMajor(call.scratch, n, rank_), call.pool);
    ScaleBy(scale_, n * rank_, call.scratch);
    SumRows(call, call.scratch, rank_, call.d_weights[1]);
  }

  ConstMatrix B(const OpCall& call) const {
    return RowMajor(static_cast<const float*>(call.weights[2]), rank_, width_);
  }

  // Sums as SumRows does, only for rows with a number in the batch. The sums
  // are at the rows' places in d_weights.
  void SumTouchedRows(const OpCall& call) const {
    const int64_t n = Numbers(call);
    auto* const order = reinterpret_cast<int32_t*>(call.scratch);
    int32_t* const rows = order + n;
    const auto row = [&](int64_t i) {
      return RowOf(call.x[0][order[static_cast<size_t>(i)]]);
    };
    std::iota(order, order + n, 0);
    std::sort(order, order + n, [&](int32_t a, int32_t b) {
      const int64_t row_a = RowOf(call.x[0][a]), row_b = RowOf(call.x[0][b]);
      return row_a != row_b ? row_a < row_b : a < b;
    });
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0 && row(i) == row(i - 1)) continue;
      rows[count++] = static_cast<int32_t>(row(i));
    }
    // A row belongs to the part with its first number.
    ForEachIndex(call, n, [&](int64_t i) {
      if (i > 0 && row(i) == row(i - 1)) return;
      float* const sum = call.d_weights[0] + row(i) * width_;
      std::fill_n(sum, width_, 0.0f);
      for (int64_t k = i; k < n && row(k) == row(i); ++k) {
        AddTo(call.dy + order[k] * width_, width_, sum);
      }
    });
    call.sink->ConsumeRows(call.gradient_offset,
                           {width_, rows, count, call.d_weights[0]});
  }

  // Row r of `sums` is the sum of the rows of `values` with number r.
  void SumRows(const OpCall& call, const float* values, int64_t width,
               float* sums) const {
    const int64_t n = Numbers(call);
    ForEachPart(call, rows_, 1, [&](Range part) {
      std::fill_n(sums + part.begin * width, part.size() * width, 0.0f);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = RowOf(call.x[0][i]);
        if (row < part.begin || row >= part.end) continue;
        AddTo(values + i * width, width, sums + row * width);
      }
    });
  }

  static int64_t RowOf(float number) { return static_cast<int64_t>(number); }

  const int64_t rows_, width_;
  const int64_t rank_;  // the rank of LoRA; 0 if there is none
  const float scale_;   // LoRA's alpha / rank
};

// Each sequence of the output is the first rows of the matrix.
class PositionEmbeddingOp final : public Op {
 public:
  PositionEmbeddingOp(const Layer& layer, const Shape& x)
      : rows_(layer.input_dim), steps_(x[x.rank() - 2]), width_(x.back()) {
    output_ = x;
    weights_.push_back({"embeddings",
                        {rows_, width_},
                        layer.embeddings_initializer,
                        layer.embeddings_regularizer,
                        layer.embeddings_constraint});
  }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    const int64_t n = steps_ * width_;
    ForEachIndex(call, Sequences(call), [&](int64_t i) {
      std::copy_n(call.weights[0], n, call.y + i * n);
    });
  }

  void Backward(const OpCall& call) const override {
    const int64_t n = steps_ * width_, sequences = Sequences(call);
    if (call.dx[0] != nullptr) std::fill_n(call.dx[0], sequences * n, 0.0f);
    if (frozen()) return;
    ForEachPart(call, rows_, 1, [&](Range part) {
      float* const d = call.d_weights[0] + part.begin * width_;
      std::fill_n(d, part.size() * width_, 0.0f);
      const int64_t rows = std::min(part.end, steps_) - part.begin;
      for (int64_t i = 0; i < sequences && rows > 0; ++i) {
        AddTo(call.dy + i * n + part.begin * width_, rows * width_, d);
      }
    });
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  int64_t Sequences(const OpCall& call) const {
    return call.batch * (output_.elements() / (steps_ * width_));
  }

  const int64_t rows_, steps_, width_;
};

class RepeatVectorOp final : public Op {
 public:
  RepeatVectorOp(int64_t repeats, int64_t width)
      : repeats_(repeats), width_(width) {
    output_ = {repeats, width};
  }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachPart(call, call.batch, 1, [&](Range part) {
      for (int64_t row = part.begin * repeats_; row < part.end * repeats_;
           ++row) {
        std::copy_n(call.x[0] + row / repeats_ * width_, width_,
                    call.y + row * width_);
      }
    });
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t i) {
      float* const dx = call.dx[0] + i * width_;
      std::fill_n(dx, width_, 0.0f);
      AddColumnSums(call.dy + i * repeats_ * width_, repeats_, width_, dx);
    });
  }

 private:
  const int64_t repeats_, width_;
};

}  // namespace

Status MakeEmbedding(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  // Larger whole numbers are not all floats.
  constexpr int64_t kMaxRows = int64_t{1} << 24;
  const Shape& x = inputs[0];
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("output_dim", layer.units));
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("input_dim", layer.input_dim));
  if (layer.input_dim > kMaxRows) {
    return InvalidArgument(
        "an input_dim of %lld is too large: inputs are float32, with whole "
        "numbers up to 2^24",
        static_cast<long long>(layer.input_dim));
  }
  if (x.rank() >= Shape::kMaxRank ||
      layer.units > (int64_t{1} << 31) / x.elements()) {
    return InvalidArgument(
        "an output_dim of %lld for an input of %s is too "
        "large",
        static_cast<long long>(layer.units), x.ToString().c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckLora(layer, x.elements(), "embeddings",
                                    layer.embeddings_constraint));
  op->reset(new EmbeddingOp(layer, x));
  return Status();
}

Status MakePositionEmbedding(const Layer& layer,
                             const std::vector<Shape>& inputs,
                             std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (x.rank() < 2) {
    return InvalidArgument(
        "PositionEmbedding needs an input (steps, features), not %s",
        x.ToString().c_str());
  }
  if (layer.input_dim < x[x.rank() - 2]) {
    return InvalidArgument(
        "a sequence_length of %lld is less than the steps of the input %s",
        static_cast<long long>(layer.input_dim), x.ToString().c_str());
  }
  op->reset(new PositionEmbeddingOp(layer, x));
  return Status();
}

Status MakeRepeatVector(const Layer& layer, const std::vector<Shape>& inputs,
                        std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (x.rank() != 1) {
    return InvalidArgument("RepeatVector needs an input (features), not %s",
                           x.ToString().c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("n", layer.repeats));
  if (layer.repeats > (int64_t{1} << 31) / x[0]) {
    return InvalidArgument(
        "%lld rows of %s are too many: the output may have at most 2^31 "
        "elements",
        static_cast<long long>(layer.repeats), x.ToString().c_str());
  }
  op->reset(new RepeatVectorOp(layer.repeats, x[0]));
  return Status();
}

}  // namespace ringlet
