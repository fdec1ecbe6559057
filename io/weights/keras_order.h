// The order of a model's layers in Keras, which is also the order of the arrays
// of model.get_weights().

#ifndef RINGLET_IO_WEIGHTS_KERAS_ORDER_H_
#define RINGLET_IO_WEIGHTS_KERAS_ORDER_H_

#include <string>
#include <vector>

#include "ringlet/model.h"

namespace ringlet {

// The paths of all layers that are not models, as "dense" or "body/dense".
std::vector<std::string> LayersInKerasOrder(const Model& model);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_KERAS_ORDER_H_
