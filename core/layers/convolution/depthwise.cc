#include "depthwise.h"

#include <algorithm>

namespace ringlet {

Status Depthwise::Place(const Layer& layer, const Shape& x,
                        Depthwise* depthwise) {
  Depthwise& d = *depthwise;
  constexpr int64_t kMax = int64_t{1} << 31;  // limit of all sizes
  if (layer.depth_multiplier < 1 || layer.depth_multiplier > kMax) {
    return InvalidArgument("depth_multiplier must be from 1 to %lld",
                           static_cast<long long>(kMax));
  }
  d.multiplier_ = layer.depth_multiplier;
  RINGLET_RETURN_IF_ERROR(PlaceConv(layer, x, &d.window_));
  RINGLET_RETURN_IF_ERROR(CheckConv(d.window_, d.filters(), 1));
  d.kernels_ = &BestDirectConv(d.filters());
  d.forward_ = PlanForward(d.window_, d.row(), 1,
                           !d.rows_fill_vectors() || d.multiplier_ > 1);
  d.backward_ =
      PlanInputGradient(d.window_, d.row(), 1, !d.rows_fill_vectors());
  return Status();
}

// Counts for the widest vectors, so that the size is the same on every
// processor.
int64_t Depthwise::CopyFloats(const ConvSource& source) const {
  if (!source.copied && filters() % PaddedFilters(1) == 0) return 0;
  return source.height.size * source.width.size * padded();
}

int64_t Depthwise::scratch_floats() const {
  const int64_t x = CopyFloats(forward_.source) + (taps() + 1) * padded();
  const int64_t repeated =
      multiplier_ > 1 ? window_.height.input * window_.width.input * filters()
                      : 0;
  const int64_t dx =
      CopyFloats(backward_.source) + taps() * padded() + repeated;
  return std::max(x, dx);
}

void Depthwise::Forward(const float* x, const float* w, const float* bias,
                        bool relu, Range rows, float* scratch, float* y) const {
  ConvForward c;
  c.in = forward_.passes[0].Windows(
      forward_.source,
      forward_.source.ImageOrCopy(x, window_.channels, multiplier_, scratch));
  c.in.x += rows.begin * c.in.x_row;
  c.in.rows = rows.size();
  c.w = w;
  c.w_stride = c.filters = c.y_step = filters();
  c.bias = bias;
  c.relu = relu;
  c.y_row = window_.width.output * filters();
  c.y = y + rows.begin * c.y_row;
  if (!rows_fill_vectors()) {
    float* const weights = scratch + forward_.source.copy_floats();
    for (int64_t k = 0; k <= taps(); ++k) {
      const float* const from = k < taps() ? w + k * filters() : bias;
      float* const to = weights + k * padded();
      std::fill_n(to, padded(), 0.0f);
      if (from != nullptr) std::copy_n(from, filters(), to);
    }
    c.w = weights;
    c.w_stride = padded();
    if (bias != nullptr) c.bias = weights + taps() * padded();
  }
  kernels_->depthwise(c);
}

void Depthwise::AddWeightGradient(const float* x, const float* dy,
                                  float* scratch, float* dw) const {
  ConvGradient c;
  c.in = forward_.passes[0].Windows(
      forward_.source,
      forward_.source.ImageOrCopy(x, window_.channels, multiplier_, scratch));
  c.dy = dy;
  c.filters = c.dy_step = c.dw_stride = filters();
  c.dw = dw;
  c.adds = true;
  c.sums = nullptr;
  kernels_->depthwise_gradient(c);
}

void Depthwise::InputGradient(const float* dy, const float* w, float* scratch,
                              float* dx) const {
  const float* const source =
      backward_.source.ImageOrCopy(dy, filters(), 1, scratch);
  float* flipped = scratch + backward_.source.copy_floats();
  // If a channel has several filters, the gradient is computed for each filter,
  // and then summed.
  float* const per_filter =
      multiplier_ > 1 ? flipped + taps() * backward_.source.channels : dx;
  const int64_t pixels = window_.height.input * window_.width.input;
  if (backward_.leaves_gaps) std::fill_n(per_filter, pixels * filters(), 0.0f);
  for (const ConvPass& pass : backward_.passes) {
    ConvForward c;
    c.in = pass.Windows(backward_.source, source);
    c.w = flipped;
    c.w_stride = backward_.source.channels;
    c.filters = filters();
    c.bias = nullptr;
    c.relu = false;
    const int64_t row = window_.width.input * filters();
    c.y = per_filter + pass.height.to * row + pass.width.to * filters();
    c.y_row = pass.height.to_step * row;
    c.y_step = pass.width.to_step * filters();
    for (int64_t k = 0; k < pass.taps(); ++k, flipped += c.w_stride) {
      const int64_t tap =
          pass.height.Tap(k / pass.width.taps) * window_.width.window +
          pass.width.Tap(k % pass.width.taps);
      std::copy_n(w + tap * filters(), filters(), flipped);
      std::fill(flipped + filters(), flipped + c.w_stride, 0.0f);
    }
    kernels_->depthwise(c);
  }
  for (int64_t i = 0; i < pixels * window_.channels && multiplier_ > 1; ++i) {
    float sum = 0;
    for (int64_t m = 0; m < multiplier_; ++m)
      sum += per_filter[i * multiplier_ + m];
    dx[i] = sum;
  }
}

}  // namespace ringlet
