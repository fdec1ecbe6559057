// Keras's names of the settings of image_dataset_from_directory.

#ifndef RINGLET_IO_KERAS_IMAGE_NAMES_H_
#define RINGLET_IO_KERAS_IMAGE_NAMES_H_

#include "../../core/layers/setting_names.h"
#include "name_table.h"
#include "ringlet/dataset.h"
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

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_IMAGE_NAMES_H_
