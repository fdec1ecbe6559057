// WeightsOf: a copy of a model's weights.

#ifndef RINGLET_TESTS_SUPPORT_MODEL_WEIGHTS_H_
#define RINGLET_TESTS_SUPPORT_MODEL_WEIGHTS_H_

#include <vector>

#include "ringlet/model.h"

namespace ringlet {

inline std::vector<float> WeightsOf(Model* model) {
  return {model->weights(), model->weights() + model->num_weights()};
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_MODEL_WEIGHTS_H_
