// Keras's names of the settings of image_dataset_from_directory.

#ifndef RINGLET_IO_KERAS_IMAGE_NAMES_H_
#define RINGLET_IO_KERAS_IMAGE_NAMES_H_

#include "name_table.h"
#include "ringlet/dataset.h"

namespace ringlet {

constexpr Named<Interpolation> kImageInterpolations[] = {
    {"bilinear", Interpolation::kBilinear},
    {"nearest", Interpolation::kNearest},
    {"area", Interpolation::kArea}};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_IMAGE_NAMES_H_
