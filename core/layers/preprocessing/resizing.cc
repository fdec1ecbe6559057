// Resizing, CenterCrop and RandomCrop: a box of the image, resized to the
// output. Pixel o of n is at (o + 1/2) size / n - 1/2 of a box of this size,
// which is a fraction of whole numbers, so no machine rounds it differently.

#include "resizing.h"

#include <algorithm>

#include "../convolution/window.h"
#include "../layer_table.h"
#include "../op.h"
#include "example_draw.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

// Returns the length of the largest part of an axis of `size` pixels, if the
// part has the ratio form : other_form and the other axis has `other` pixels.
int64_t LargestPart(int64_t size, int64_t other, int64_t form,
                    int64_t other_form) {
  return std::max<int64_t>(std::min(size, other * form / other_form), 1);
}

class ResizeOp final : public Op {
 public:
  ResizeOp(const Layer& layer, const Shape& image)
      : image_(image),
        reader_(image, layer.fill_value),
        box_(BoxOf(layer, image)),
        interpolation_(layer.interpolation),
        is_random_(layer.kind == Kind::kRandomCrop &&
                   image[0] >= layer.height && image[1] >= layer.width) {
    output_ = {layer.height, layer.width, image[2]};
  }
  Recompute recompute() const override { return Recompute::kCostly; }

  void Forward(const OpCall& call) const override {
    ForEachPixel(call, [&](int64_t example, const Tap& row, const Tap& column,
                           int64_t at) {
      reader_.Read(call.x[0] + example * image_.elements(), row, column,
                   call.y + at);
    });
  }
  void Backward(const OpCall& call) const override {
    float* const dx = call.dx[0];
    if (dx == nullptr) return;
    const int64_t n = image_.elements();
    ForEachPart(call, call.batch, 1, [&](Range part) {
      std::fill_n(dx + part.begin * n, part.size() * n, 0.0f);
    });
    ForEachPixel(call, [&](int64_t example, const Tap& row, const Tap& column,
                           int64_t at) {
      reader_.AddGradient(call.dy + at, row, column, dx + example * n);
    });
  }

 private:
  ImageBox BoxOfExample(const OpCall& call, int64_t example) const {
    if (!is_random_ || !call.training) return box_;
    const ExampleDraw draw(call, example);
    const auto begin = [&](int axis, size_t number) {
      const int64_t places = image_[axis] - output_[axis] + 1;
      return std::min(
          static_cast<int64_t>(draw.Unit(number) * static_cast<double>(places)),
          places - 1);
    };
    return {begin(0, 0), begin(1, 1), output_[0], output_[1]};
  }

  // Calls body(example, row, column, offset in the output) for each pixel of
  // the output.
  template <typename Body>
  void ForEachPixel(const OpCall& call, const Body& body) const {
    ForEachIndex(call, call.batch, [&](int64_t i) {
      const ImageBox box = BoxOfExample(call, i);
      int64_t at = i * output_.elements();
      for (int64_t y = 0; y < output_[0]; ++y) {
        const Tap row = MakeTap(y, output_[0], box.top, box.height, image_[0],
                                interpolation_);
        for (int64_t x = 0; x < output_[1]; ++x, at += output_[2]) {
          body(i, row,
               MakeTap(x, output_[1], box.left, box.width, image_[1],
                       interpolation_),
               at);
        }
      }
    });
  }

  const Shape image_;
  const PixelReader reader_;
  const ImageBox box_;
  const Interpolation interpolation_;
  const bool is_random_;
};

}  // namespace

Tap MakeTap(int64_t at, int64_t outputs, int64_t begin, int64_t count,
            int64_t size, Interpolation interpolation) {
  const auto pixel = [&](int64_t i) {
    const int64_t inside = begin + std::clamp<int64_t>(i, 0, count - 1);
    return inside < size ? std::max<int64_t>(inside, -1) : -1;
  };
  const int64_t denominator = 2 * outputs, middle = (2 * at + 1) * count;
  if (interpolation == Interpolation::kNearest) {
    const int64_t i = pixel(middle / denominator);
    return {i, i, 0};
  }
  const int64_t parts = middle - outputs;  // above -whole
  const int64_t i = parts < 0 ? -1 : parts / denominator;
  const double rest = static_cast<double>(parts - i * denominator);
  return {pixel(i), pixel(i + 1),
          static_cast<float>(rest / static_cast<double>(denominator))};
}

ImageBox BoxOf(const Layer& layer, const Shape& image) {
  const int64_t height = image[0], width = image[1];
  const int64_t down = layer.height, across = layer.width;
  if (layer.kind == Kind::kCenterCrop && height >= down && width >= across) {
    return {(height - down) / 2, (width - across) / 2, down, across};
  }
  if (layer.kind == Kind::kResizing && layer.pad_to_aspect_ratio) {
    // As in Keras, both ends have the same border.
    const int64_t top =
        std::max<int64_t>(width * down / across - height, 0) / 2;
    const int64_t left =
        std::max<int64_t>(height * across / down - width, 0) / 2;
    return {-top, -left, height + 2 * top, width + 2 * left};
  }
  if (layer.kind == Kind::kResizing && !layer.crop_to_aspect_ratio) {
    return {0, 0, height, width};
  }
  const int64_t rows = LargestPart(height, width, down, across);
  const int64_t columns = LargestPart(width, height, across, down);
  return {(height - rows) / 2, (width - columns) / 2, rows, columns};
}

Status MakeResizing(const Layer& layer, const std::vector<Shape>& inputs,
                    std::unique_ptr<Op>* op) {
  Shape x;
  RINGLET_RETURN_IF_ERROR(FindImage(layer, inputs[0], &x));
  if (std::min(layer.height, layer.width) < 1 ||
      std::max(layer.height, layer.width) > kMaxLayerSize) {
    return InvalidArgument("height and width must be from 1 to %lld",
                           static_cast<long long>(kMaxLayerSize));
  }
  if (layer.interpolation == Interpolation::kArea) {
    return InvalidArgument(
        "interpolation must be \"nearest\" or \"bilinear\", not \"area\"");
  }
  if (layer.crop_to_aspect_ratio && layer.pad_to_aspect_ratio) {
    return InvalidArgument(
        "only one of crop_to_aspect_ratio and pad_to_aspect_ratio may be true");
  }
  const ImageBox box = BoxOf(layer, x);
  // This limit keeps products in int64.
  if (std::max(box.height, box.width) > kMaxLayerSize) {
    return InvalidArgument(
        "pad_to_aspect_ratio makes an image of (%lld, %lld) of %s, which is "
        "too large",
        static_cast<long long>(box.height), static_cast<long long>(box.width),
        x.ToString().c_str());
  }
  op->reset(new ResizeOp(layer, x));
  return Status();
}

}  // namespace ringlet
