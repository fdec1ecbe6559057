// Keras's names of the settings of image_dataset_from_directory and of layers
// that change images.

#ifndef RINGLET_IO_KERAS_IMAGE_NAMES_H_
#define RINGLET_IO_KERAS_IMAGE_NAMES_H_

#include "name_table.h"
#include "ringlet/dataset.h"
#include "ringlet/layers.h"
#include "ringlet/readers.h"

namespace ringlet {

constexpr Named<ImageOptions::ColorMode> kImageColorModes[] = {
    {"grayscale", ImageOptions::ColorMode::kGrayscale},
    {"rgb", ImageOptions::ColorMode::kRgb},
    {"rgba", ImageOptions::ColorMode::kRgba}};
constexpr Named<ImageOptions::LabelMode> kImageLabelModes[] = {
    {"int", ImageOptions::LabelMode::kInt},
    {"categorical", ImageOptions::LabelMode::kCategorical},
    {"binary", ImageOptions::LabelMode::kBinary}};
constexpr Named<ImageOptions::Subset> kImageSubsets[] = {
    {"both", ImageOptions::Subset::kAll},
    {"training", ImageOptions::Subset::kTraining},
    {"validation", ImageOptions::Subset::kValidation}};
constexpr Named<Interpolation> kImageInterpolations[] = {
    {"bilinear", Interpolation::kBilinear},
    {"nearest", Interpolation::kNearest},
    {"area", Interpolation::kArea}};
// The names in the JSON of a layer.
constexpr Named<Interpolation> kInterpolations[] = {
    {"bilinear", Interpolation::kBilinear},
    {"nearest", Interpolation::kNearest}};

constexpr Named<FillMode> kFillModes[] = {{"reflect", FillMode::kReflect},
                                          {"wrap", FillMode::kWrap},
                                          {"constant", FillMode::kConstant},
                                          {"nearest", FillMode::kNearest}};

constexpr Named<FlipMode> kFlipModes[] = {
    {"horizontal_and_vertical", FlipMode::kHorizontalAndVertical},
    {"horizontal", FlipMode::kHorizontal},
    {"vertical", FlipMode::kVertical}};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_IMAGE_NAMES_H_
