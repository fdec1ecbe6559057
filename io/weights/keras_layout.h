// Finds the tensor of each variable in a file from Keras or numpy.
//
// ringlet/checkpoint.h has the contract (WeightsLayout).

#ifndef RINGLET_IO_WEIGHTS_KERAS_LAYOUT_H_
#define RINGLET_IO_WEIGHTS_KERAS_LAYOUT_H_

#include <string>
#include <vector>

#include "ringlet/model.h"
#include "weights_file.h"

namespace ringlet {

// Sets one entry for each of model.variables(); null if missing. Shapes are not
// compared. With `parts` there may be fewer or more arrays without names than
// weights. kInvalidArgument if two tensors match a weight, or two weights a
// tensor.
Status FindKerasWeights(const WeightsFile& file, const Model& model, bool parts,
                        std::vector<const StoredTensor*>* tensors);

// A Normalization of the model with mean and variance in the file. Keras
// counts them and the number of examples, which is not used, as weights.
struct StoredNormalization {
  std::string layer;  // its path
  const StoredTensor* mean;
  const StoredTensor* variance;
  const StoredTensor* count;  // may be null
};

// Do not call it for a file of ringlet, which has them in the model's
// configuration.
std::vector<StoredNormalization> FindNormalizations(const WeightsFile& file,
                                                    const Model& model);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_KERAS_LAYOUT_H_
