// Depthwise: each channel of an image under windows of its own, the loops of
// DepthwiseConv2D and SeparableConv2D.
//
// Internal to core/. Sums are straight from the image (direct_conv.h), or from
// a copy of it with its border, whose channels are repeated for each of their
// filters and filled to whole vectors. The order of every sum depends on the
// shapes alone, so the bits are the same for any vector width and any number of
// threads.

#ifndef RINGLET_CORE_LAYERS_DEPTHWISE_H_
#define RINGLET_CORE_LAYERS_DEPTHWISE_H_

#include <cstdint>

#include "conv_pass.h"
#include "window.h"

namespace ringlet {

// Spans of one image: x(height, width, channels), y(output height, output
// width, channels * multiplier), w(taps, channels * multiplier). Each call is
// given scratch_floats() of scratch, and fills what it reads of it.
class Depthwise {
 public:
  Depthwise() = default;
  // Of a layer with a depth_multiplier, over inputs of shape x.
  static Status Place(const Layer& layer, const Shape& x, Depthwise* depthwise);

  const Window2D& window() const { return window_; }
  int64_t multiplier() const { return multiplier_; }
  int64_t filters() const { return window_.channels * multiplier_; }
  int64_t output_floats() const { return window_.positions() * filters(); }
  int64_t kernel_floats() const { return taps() * filters(); }
  int64_t scratch_floats() const;

  // y = bias + the sum over taps, and then relu, for these rows of y. `bias`
  // may be null.
  void Forward(const float* x, const float* w, const float* bias, bool relu,
               Range rows, float* scratch, float* y) const;
  // dw += the sum over positions.
  void AddWeightGradient(const float* x, const float* dy, float* scratch,
                         float* dw) const;
  void InputGradient(const float* dy, const float* w, float* scratch,
                     float* dx) const;

 private:
  int64_t taps() const { return window_.height.window * window_.width.window; }
  int64_t padded() const { return PaddedFilters(filters()); }
  // Filters are whole vectors, and need no more beside them.
  bool is_whole() const { return filters() % kernels_->lanes == 0; }
  int64_t row() const { return is_whole() ? filters() : padded(); }
  int64_t CopyFloats(const ConvSource& source) const;

  Window2D window_ = {};
  int64_t multiplier_ = 1;
  ConvPlan forward_, backward_;
  const DirectConv* kernels_ = nullptr;
};

// Examples share sums in blocks that depend on the batch alone, so that sums
// of gradients over blocks, in their order, do not depend on the threads.
struct ExampleBlocks {
  static constexpr int64_t kMost = 16;

  explicit ExampleBlocks(int64_t examples, int64_t most = kMost)
      : batch(examples),
        size((examples + most - 1) / most),
        count((examples + size - 1) / size) {}
  // Enough of them for every batch up to this one.
  static int64_t Most(int64_t batch) { return batch < kMost ? batch : kMost; }
  Range operator[](int64_t block) const {
    const int64_t begin = block * size;
    return {begin, begin + size < batch ? begin + size : batch};
  }

  int64_t batch, size, count;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_DEPTHWISE_H_
