// Internal to core/.

#ifndef RINGLET_CORE_LAYERS_ACTIVATION_LAYERS_H_
#define RINGLET_CORE_LAYERS_ACTIVATION_LAYERS_H_

#include <memory>

#include "op.h"

namespace ringlet {

// `op`, which has no activation, and behind it one that ReadsInput.
std::unique_ptr<Op> PutBehind(Activation activation, std::unique_ptr<Op> op);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_ACTIVATION_LAYERS_H_
