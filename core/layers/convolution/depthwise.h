// Depthwise: the loops of DepthwiseConv2D and SeparableConv2D, which apply
// windows to each channel of an image separately.
//
// Sums are computed directly from the image (direct_conv.h), or from a copy
// with its border. The copy repeats each channel for its filters, and pads
// channels to whole vectors. The order of every sum depends only on the shapes,
// so the bits are the same for any vector width and any number of threads.

#ifndef RINGLET_CORE_LAYERS_CONVOLUTION_DEPTHWISE_H_
#define RINGLET_CORE_LAYERS_CONVOLUTION_DEPTHWISE_H_

#include <cstdint>

#include "conv_pass.h"
#include "window.h"

namespace ringlet {

// Spans of one image: x(height, width, channels), y(output height, output
// width, channels * multiplier), w(taps, channels * multiplier). Each call gets
// scratch_floats() floats of scratch with any content.
class Depthwise {
 public:
  Depthwise() = default;
  // Places the windows of a layer with a depth_multiplier on inputs of shape x.
  static Status Place(const Layer& layer, const Shape& x, Depthwise* depthwise);

  const Window2D& window() const { return window_; }
  int64_t multiplier() const { return multiplier_; }
  int64_t filters() const { return window_.channels * multiplier_; }
  int64_t output_floats() const { return window_.positions() * filters(); }
  int64_t kernel_floats() const { return taps() * filters(); }
  int64_t scratch_floats() const;

  // y = relu(bias + the sum over taps), or without relu, for these rows of y.
  // `bias` may be null.
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
  // The filters fill whole vectors, and need no padding.
  bool rows_fill_vectors() const { return filters() % kernels_->lanes == 0; }
  int64_t row() const { return rows_fill_vectors() ? filters() : padded(); }
  int64_t CopyFloats(const ConvSource& source) const;

  Window2D window_ = {};
  int64_t multiplier_ = 1;
  ConvPlan forward_, backward_;
  const DirectConv* kernels_ = nullptr;
};

// Cuts a batch into blocks of examples. The cuts depend only on the batch, so
// sums of gradients over blocks, in order, do not depend on the threads.
struct ExampleBlocks {
  static constexpr int64_t kMax = 16;

  explicit ExampleBlocks(int64_t examples, int64_t max_count = kMax)
      : batch(examples),
        size((examples + max_count - 1) / max_count),
        count((examples + size - 1) / size) {}
  // Returns the most blocks that a batch of up to `batch` examples has.
  static int64_t Most(int64_t batch) { return batch < kMax ? batch : kMax; }
  Range operator[](int64_t block) const {
    const int64_t begin = block * size;
    return {begin, begin + size < batch ? begin + size : batch};
  }

  int64_t batch, size, count;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_CONVOLUTION_DEPTHWISE_H_
