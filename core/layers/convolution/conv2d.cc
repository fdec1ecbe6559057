// Conv2D and Conv1D, as direct sums over the image (conv_pass.h).
//
// Each thread has a copy of one image with its border, and of one dY with the
// gradient's border. Copies have planes if few filters benefit from them.
// Images that need no copy are read directly. The kernel is copied once a call
// if its rows are not whole vectors, and flipped for the gradient of the input.
//
// Threads divide outputs by images, and gradients of the kernel by taps, which
// are summed in the order of the images. So no bits depend on their number. If
// windows are pixels, the images of a batch are one. With a max pool (FusePool)
// one thread computes the sums of an image and their gradient, and for its taps
// it does so for all images.

#include <algorithm>

#include "../../compute/paired_conv.h"
#include "../../compute/planes_conv.h"
#include "../layer_loops.h"
#include "../op.h"
#include "conv_pass.h"
#include "max_pool.h"

namespace ringlet {
namespace {

constexpr int64_t kFewPositions = 8;

class ConvOp final : public Op {
 public:
  ConvOp(const Layer& layer, const Window2D& window)
      : window_(window),
        activation_(layer.activation),
        bias_(layer.use_bias),
        filters_(layer.units),
        groups_(layer.groups),
        is_point_(IsPoint(window.height) && IsPoint(window.width)),
        forward_(PlanForward(window, window.channels, window.channels / groups_,
                             /*copied=*/false, ForwardPlanesUsed())),
        gradient_(
            PlanForward(window, window.channels, window.channels / groups_)),
        backward_(PlanInputGradient(window, filters_, filters_ / groups_,
                                    /*copied=*/false, BackwardPlanesUsed())),
        filter_kernels_(BestDirectConv(filters_ / groups_)),
        channel_kernels_(BestDirectConv(window.channels / groups_)) {
    output_ =
        ShapeOf(layer, {window.height.output, window.width.output, filters_});
    weights_.push_back(
        {"kernel",
         KernelShape(layer, window, window.channels / groups_, filters_),
         layer.kernel_initializer, layer.kernel_regularizer,
         layer.kernel_constraint});
    AddBias(layer, filters_);
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool backward_reads_output() const override {
    return pool_ == nullptr && activation_ != kLinear;
  }
  // A pool's indices show where the output is 0.
  Activation fused_activation() const override {
    return pool_ == nullptr ? activation_ : kLinear;
  }
  bool FusePool(const MaxPool& pool) override {
    if (is_point_ || (activation_ != kLinear && activation_ != kRelu)) {
      return false;
    }
    pool_ = &pool;
    output_ = Shape{pool.output_floats()};
    return true;
  }
  uint64_t saved_floats(int64_t batch) const override {
    if (pool_ == nullptr) return 0;
    return static_cast<uint64_t>(batch * pool_->output_floats() + 3) / 4;
  }
  Recompute recompute() const override { return Recompute::kCostly; }
  int64_t multiply_adds() const override {
    return window_.positions() * Patch() * filters_;
  }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(PaddedKernelFloats() +
                                 threads * ForwardThreadFloats());
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>(FlippedFloats() + BiasFloats(batch) +
                                 threads * ThreadFloats());
  }

  void Forward(const OpCall& call) const override {
    PadKernel(call);
    ForEachIndex(call, Units(call.batch), [&](int64_t u, int t) {
      float* const scratch =
          call.scratch + PaddedKernelFloats() + t * ForwardThreadFloats();
      ForwardUnit(call, UnitOf(call, u), scratch);
    });
  }

  void Backward(const OpCall& call) const override {
    const int64_t units = Units(call.batch);
    if (call.dx[0] != nullptr) FlipKernel(call);
    if (ActivatesFirst(call)) {
      ForEachIndex(call, units,
                   [&](int64_t u) { GradientOfSum(call, UnitOf(call, u)); });
    }
    call.pool->Run([&](int t) { BackwardPart(call, t); });
    if (frozen()) return;
    if (bias_) {
      std::fill_n(call.d_weights[1], filters_, 0.0f);
      AddColumnSums(BiasSums(call), units, filters_, call.d_weights[1]);
    }
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  // The work of a thread at a time: an image, or for pixel windows the points
  // of one block of a sum.
  struct Unit {
    int64_t number, positions;
    int64_t x, y;  // offsets in the spans of input and output
  };

  static bool IsPoint(const WindowAxis& axis) {
    return axis.window == 1 && axis.stride == 1;
  }
  // Taps of one filter in one group.
  int64_t Patch() const { return window_.patch() / groups_; }
  int64_t Filters() const { return filters_ / groups_; }
  int64_t Channels() const { return window_.channels / groups_; }

  // The floats of the sums of one image, before any pool.
  int64_t SumFloats() const { return window_.positions() * filters_; }
  int64_t PooledFloats() const { return pool_ != nullptr ? SumFloats() : 0; }

  int64_t Units(int64_t batch) const {
    if (!is_point_) return batch;
    return (batch * window_.positions() + kConvBlock - 1) / kConvBlock;
  }
  Unit UnitOf(const OpCall& call, int64_t u) const {
    const int64_t positions = window_.positions();
    if (!is_point_) {
      return {u, positions, u * window_.image_floats(), u * SumFloats()};
    }
    const int64_t begin = u * kConvBlock;
    return {u, std::min(kConvBlock, call.batch * positions - begin),
            begin * window_.channels, begin * filters_};
  }
  // The windows of `in`, over a unit of points.
  ConvWindows Windows(const ConvPlan& plan, const ConvPass& pass,
                      const float* x, const Unit& unit) const {
    ConvWindows in = pass.Windows(plan.source, x);
    if (is_point_) in.rows = 1, in.positions = unit.positions;
    return in;
  }

  // True if sums are over neighbouring positions (planes_conv.h), which needs a
  // copy. With up to eight positions kernels of eight lanes are as fast.
  bool PlanesPlanned(int64_t filters, const WindowAxis& axis,
                     int64_t step) const {
    return groups_ == 1 && !is_point_ && filters <= kMaxPlanesFilters &&
           axis.output > kFewPositions && step > 1;
  }
  // Planned: there is scratch for the planes, on every processor. Used: this
  // processor has kernels for them.
  bool ForwardPlanesPlanned() const {
    return PlanesPlanned(filters_, window_.width,
                         window_.width.stride * window_.channels);
  }
  bool BackwardPlanesPlanned() const {
    return PlanesPlanned(window_.channels, window_.width, filters_);
  }
  bool ForwardPlanesUsed() const {
    return ForwardPlanesPlanned() && BestPlanesForward(filters_) != nullptr;
  }
  bool BackwardPlanesUsed() const {
    return BackwardPlanesPlanned() &&
           BestPlanesForward(window_.channels) != nullptr;
  }
  // Returns the same number on every processor.
  static int64_t CopyFloats(ConvSource source, bool in_planes) {
    source.copied |= in_planes;
    source.planes = in_planes;
    return source.copy_floats();
  }
  int64_t ForwardCopyFloats() const {
    return CopyFloats(forward_.source, ForwardPlanesPlanned());
  }
  int64_t ForwardThreadFloats() const {
    return ForwardCopyFloats() + PooledFloats();
  }
  int64_t BackwardCopyFloats() const {
    return CopyFloats(backward_.source, BackwardPlanesPlanned());
  }
  // Sums `all` without the taps on the border's rows.
  void Sum(const DirectConv& kernels, const ConvPass& pass,
           const ConvForward& all) const {
    const bool is_plane =
        all.in.x_step == 1 && all.in.positions > kFewPositions;
    const PlanesForward planes =
        is_plane ? BestPlanesForward(all.filters) : nullptr;
    for (const ConvRows& rows : pass.rows) {
      ConvForward c = all;
      if (rows.taps < all.in.taps) {
        c.in.offsets += rows.first_tap;
        c.in.taps = rows.taps;
        c.in.first_tap = rows.first_tap;
        c.w += rows.first_tap * all.w_stride;
      }
      if (rows.count < all.in.rows) {
        c.in.x += rows.begin * all.in.x_row;
        c.in.rows = rows.count;
        c.y += rows.begin * all.y_row;
      }
      planes != nullptr ? planes(c) : kernels.forward(c);
    }
  }

  // Rows of whole vectors can be read directly. Scratch is planned for the
  // widest vectors, so that its size is the same on every processor.
  bool rows_fill_vectors() const {
    return Filters() % filter_kernels_.lanes == 0;
  }
  int64_t RowFloats() const {
    return rows_fill_vectors() ? filters_ : PaddedFilters(Filters());
  }
  // The kernel in padded rows, and a row of the bias, for each group.
  int64_t PaddedKernelFloats() const {
    const int64_t row = PaddedFilters(Filters());
    return row == Filters() ? 0 : groups_ * (Patch() + 1) * row;
  }
  int64_t FlippedFloats() const {
    return window_.height.window * window_.width.window * filters_ *
           PaddedFilters(Channels());
  }
  // The bias's gradient for each unit.
  int64_t BiasFloats(int64_t batch) const {
    return bias_ && !frozen() ? Units(batch) * filters_ : 0;
  }
  float* BiasSums(const OpCall& call) const {
    return call.scratch + FlippedFloats();
  }
  // Copies of x, and of dY with its border; after a pool also dY itself.
  int64_t ThreadFloats() const {
    const int64_t x_copy_floats = frozen() ? 0 : gradient_.source.copy_floats();
    return x_copy_floats + BackwardCopyFloats() + PooledFloats();
  }
  // Returns the pool's indices for image `number`.
  uint8_t* PoolIndices(const OpCall& call, int64_t number) const {
    return reinterpret_cast<uint8_t*>(call.saved) +
           number * pool_->output_floats();
  }

  void PadKernel(const OpCall& call) const {
    float* to = call.scratch;
    for (int64_t g = 0; g < groups_ && !rows_fill_vectors(); ++g) {
      for (int64_t k = 0; k <= Patch(); ++k, to += RowFloats()) {
        std::fill_n(to, RowFloats(), 0.0f);
        if (k == Patch() && !bias_) continue;
        const float* const from =
            k < Patch() ? call.weights[0] + k * filters_ : call.weights[1];
        std::copy_n(from + g * Filters(), Filters(), to);
      }
    }
  }

  void ForwardUnit(const OpCall& call, const Unit& unit, float* scratch) const {
    const Activation activation =
        call.without_activation ? kLinear : activation_;
    const ConvPass& pass = forward_.passes[0];
    const float* const x = forward_.source.ImageOrCopy(
        call.x[0] + unit.x, scratch + PooledFloats());
    float* const y = pool_ != nullptr ? scratch : call.y + unit.y;
    for (int64_t g = 0; g < groups_; ++g) {
      ConvForward c;
      c.in = Windows(forward_, pass, x + g * Channels(), unit);
      c.w = call.weights[0] + g * Filters();
      c.bias = bias_ ? call.weights[1] + g * Filters() : nullptr;
      if (!rows_fill_vectors()) {
        c.w = call.scratch + g * (Patch() + 1) * RowFloats();
        if (bias_) c.bias = c.w + Patch() * RowFloats();
      }
      c.w_stride = RowFloats();
      c.filters = Filters();
      c.relu = activation == kRelu;
      c.y = y + g * Filters();
      c.y_step = filters_;
      c.y_row = window_.width.output * filters_;
      Sum(filter_kernels_, pass, c);
    }
    if (pool_ != nullptr) {
      pool_->Forward(y, activation == kRelu,
                     call.y + unit.number * pool_->output_floats(),
                     call.training ? PoolIndices(call, unit.number) : nullptr);
    } else if (activation != kLinear && activation != kRelu) {
      BiasActivation(activation, nullptr, unit.positions, filters_, y);
    }
  }

  // Converts dY to the gradient of the sums.
  void GradientOfSum(const OpCall& call, const Unit& unit) const {
    if (call.without_activation) return;
    ActivationGradient(activation_, call.y + unit.y, unit.positions, filters_,
                       call.dy + unit.y);
  }
  // True if dY is converted before the threads read it.
  bool ActivatesFirst(const OpCall& call) const {
    return pool_ == nullptr && call.pool->threads() > 1 &&
           activation_ != kLinear && !call.without_activation;
  }

  void BackwardPart(const OpCall& call, int t) const {
    const int threads = call.pool->threads();
    const Range units = {0, Units(call.batch)};
    const Range own_units = Split(units.end, threads, t);
    const Range all = frozen() ? own_units : units;
    const Range taps = Split(Patch(), threads, t);
    float* const pooled = call.scratch + FlippedFloats() +
                          BiasFloats(call.batch) + t * ThreadFloats();
    float* const copy = pooled + PooledFloats();
    const bool activated = ActivatesFirst(call);
    for (int64_t u = all.begin; u < all.end; ++u) {
      const Unit unit = UnitOf(call, u);
      const bool is_own = u >= own_units.begin && u < own_units.end;
      const float* dy = call.dy + unit.y;
      if (pool_ != nullptr) {
        pool_->Gradient(PoolIndices(call, u),
                        call.dy + u * pool_->output_floats(), pooled);
        dy = pooled;
      } else if (is_own && !activated) {
        GradientOfSum(call, unit);
      }
      if (!frozen() && !taps.empty()) {
        KernelGradient(call, unit, taps, dy, copy);
      }
      if (call.dx[0] == nullptr || !is_own) continue;
      InputGradient(call, unit, dy,
                    pooled + ThreadFloats() - BackwardCopyFloats());
    }
  }

  // Computes the gradient of some taps; the first part includes the bias.
  void KernelGradient(const OpCall& call, const Unit& unit, Range taps,
                      const float* dy, float* copy) const {
    const float* const x =
        gradient_.source.ImageOrCopy(call.x[0] + unit.x, copy);
    const PairedGradient pairs = BestPairedGradient(Filters());
    float* const sums = bias_ && taps.begin == 0
                            ? BiasSums(call) + unit.number * filters_
                            : nullptr;
    if (sums != nullptr) std::fill_n(sums, filters_, 0.0f);
    for (int64_t g = 0; g < groups_; ++g) {
      ConvGradient c;
      c.in = Windows(gradient_, gradient_.passes[0], x + g * Channels(), unit);
      c.in.offsets += taps.begin;
      c.in.taps = taps.size();
      c.dy = dy + g * Filters();
      c.dy_step = filters_;
      c.filters = Filters();
      c.dw = call.d_weights[0] + taps.begin * filters_ + g * Filters();
      c.dw_stride = filters_;
      c.adds = unit.number > 0;
      c.sums = sums != nullptr ? sums + g * Filters() : nullptr;
      pairs != nullptr ? pairs(c) : filter_kernels_.gradient(c);
    }
  }

  // Writes rows of the kernel's channels for each pass and group, in whole
  // vectors.
  void FlipKernel(const OpCall& call) const {
    const int64_t stride = PaddedFilters(Channels());
    float* to = call.scratch;
    std::fill_n(to, FlippedFloats(), 0.0f);
    for (int64_t g = 0; g < groups_; ++g) {
      for (const ConvPass& pass : backward_.passes) {
        for (int64_t i = 0; i < pass.height.taps * pass.width.taps; ++i) {
          const int64_t ky = pass.height.Tap(i / pass.width.taps);
          const int64_t kx = pass.width.Tap(i % pass.width.taps);
          const float* from =
              call.weights[0] + g * Filters() +
              (ky * window_.width.window + kx) * Channels() * filters_;
          for (int64_t c = 0; c < Channels(); ++c, from += filters_) {
            for (int64_t f = 0; f < Filters(); ++f) {
              to[f * stride + c] = from[f];
            }
          }
          to += Filters() * stride;
        }
      }
    }
  }

  void InputGradient(const OpCall& call, const Unit& unit,
                     const float* dy_image, float* copy) const {
    const float* const dy = backward_.source.ImageOrCopy(dy_image, copy);
    float* const dx = call.dx[0] + unit.x;
    if (backward_.leaves_gaps) {
      std::fill_n(dx, window_.image_floats(), 0.0f);
    }
    const int64_t pixel = window_.channels, row = window_.row_floats();
    const float* w = call.scratch;
    for (int64_t g = 0; g < groups_; ++g) {
      for (const ConvPass& pass : backward_.passes) {
        ConvForward c;
        c.in = Windows(backward_, pass, dy + g * Filters(), unit);
        c.w = w;
        c.w_stride = PaddedFilters(Channels());
        c.filters = Channels();
        c.bias = nullptr;
        c.relu = false;
        c.y =
            dx + g * Channels() + pass.height.to * row + pass.width.to * pixel;
        c.y_row = pass.height.to_step * row;
        c.y_step = pass.width.to_step * pixel;
        Sum(channel_kernels_, pass, c);
        w += pass.taps() * c.w_stride;
      }
    }
  }

  const Window2D window_;
  const Activation activation_;
  const bool bias_;
  const int64_t filters_, groups_;
  const bool is_point_;
  const MaxPool* pool_ = nullptr;  // see FusePool
  const ConvPlan forward_, gradient_, backward_;
  // The kernel for products with neighbouring filters, or channels.
  const DirectConv &filter_kernels_, &channel_kernels_;
};

}  // namespace

Status MakeConv(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("filters", layer.units));
  const int64_t channels = inputs[0].back();
  if (layer.groups < 1 || channels % layer.groups != 0 ||
      layer.units % layer.groups != 0) {
    return InvalidArgument(
        "groups of %lld do not divide %lld channels and %lld filters",
        static_cast<long long>(layer.groups), static_cast<long long>(channels),
        static_cast<long long>(layer.units));
  }
  Window2D window;
  RINGLET_RETURN_IF_ERROR(PlaceConv(layer, inputs[0], &window));
  const int64_t widest = std::max(channels, layer.units);
  RINGLET_RETURN_IF_ERROR(CheckConv(window, widest, widest));
  op->reset(new ConvOp(layer, window));
  return Status();
}

}  // namespace ringlet
