// Makers of the recurrent ops with a file of their own. MakeRecurrent has
// checked the layer.

#ifndef RINGLET_CORE_LAYERS_RECURRENT_LAYERS_H_
#define RINGLET_CORE_LAYERS_RECURRENT_LAYERS_H_

#include <memory>

#include "op.h"

namespace ringlet {

std::unique_ptr<Op> MakeLSTM(const Layer& layer, const Shape& x);
std::unique_ptr<Op> MakeGRU(const Layer& layer, const Shape& x);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_RECURRENT_LAYERS_H_
