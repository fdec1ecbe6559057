// The tutorials' model and data, shared by the samples.

#ifndef RINGLET_SAMPLES_MNIST_COMMON_H_
#define RINGLET_SAMPLES_MNIST_COMMON_H_

#include <string>

#include "ringlet/ringlet.h"

// `folder` holds the four (or, for MNIST's test set, two) IDX files.
inline ringlet::Dataset MnistDataset(const std::string& folder,
                                     const std::string& part) {
  return ringlet::IdxDataset(folder + "/" + part + "-images-idx3-ubyte.gz",
                             folder + "/" + part + "-labels-idx1-ubyte.gz")
      .Map(ringlet::Scale(1 / 255.f));
}

#endif  // RINGLET_SAMPLES_MNIST_COMMON_H_
