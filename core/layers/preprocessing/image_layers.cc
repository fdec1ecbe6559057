// The factories of the layers that change or resize images. Their ops are in
// augmentation.cc and resizing.cc, which a build may leave out.

#include <cmath>

#include "../layer_kind.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

Layer Random(Kind kind, const FloatRange& factor) {
  return MakeLayer(kind, &Layer::factor, factor);
}

Layer Random(Kind kind, const FloatRange& height, const FloatRange& width) {
  return MakeLayer(kind, &Layer::height_factor, height, &Layer::width_factor,
                   width);
}

Layer Sized(Kind kind, int64_t height, int64_t width) {
  return MakeLayer(kind, &Layer::height, height, &Layer::width, width);
}

}  // namespace

FloatRange::FloatRange(float number)
    : FloatRange(-std::fabs(number), std::fabs(number)) {}
FloatRange::FloatRange(float a, float b)
    : is_none(false), lower(b < a ? b : a), upper(b < a ? a : b) {}

Layer RandomFlip(FlipMode mode) {
  return MakeLayer(Kind::kRandomFlip, &Layer::mode, mode);
}
Layer RandomTranslation(const FloatRange& height_factor,
                        const FloatRange& width_factor) {
  return Random(Kind::kRandomTranslation, height_factor, width_factor);
}
Layer RandomRotation(const FloatRange& factor) {
  return Random(Kind::kRandomRotation, factor);
}
Layer RandomZoom(const FloatRange& height_factor,
                 const FloatRange& width_factor) {
  return Random(Kind::kRandomZoom, height_factor, width_factor);
}
Layer RandomContrast(float lower, float upper) {
  FloatRange factor(lower);
  factor.lower = lower;
  factor.upper = upper;
  return Random(Kind::kRandomContrast, factor);
}
Layer RandomContrast(float factor) { return RandomContrast(factor, factor); }
Layer RandomBrightness(const FloatRange& factor) {
  return Random(Kind::kRandomBrightness, factor);
}
Layer RandomCrop(int64_t height, int64_t width) {
  return Sized(Kind::kRandomCrop, height, width);
}
Layer CenterCrop(int64_t height, int64_t width) {
  return Sized(Kind::kCenterCrop, height, width);
}
Layer Resizing(int64_t height, int64_t width) {
  return Sized(Kind::kResizing, height, width);
}

}  // namespace ringlet
