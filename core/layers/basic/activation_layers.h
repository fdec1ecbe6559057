// AppendActivation: an op, followed by an activation that it cannot fuse.

#ifndef RINGLET_CORE_LAYERS_BASIC_ACTIVATION_LAYERS_H_
#define RINGLET_CORE_LAYERS_BASIC_ACTIVATION_LAYERS_H_

#include <memory>

#include "../op.h"

namespace ringlet {

// Returns `op`, which has no activation, followed by `activation`, which
// GradientReadsInput.
std::unique_ptr<Op> AppendActivation(Activation activation,
                                     std::unique_ptr<Op> op);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_BASIC_ACTIVATION_LAYERS_H_
