// The names of spans of state, which are part of the checkpoints' format.

#ifndef RINGLET_CORE_BASE_STATE_NAMES_H_
#define RINGLET_CORE_BASE_STATE_NAMES_H_

namespace ringlet {

constexpr char kWeightsPrefix[] = "model/";  // "model/dense/kernel"
constexpr char kOptimizerPrefix[] = "optimizer/";
constexpr char kLearningRateName[] = "optimizer/learning_rate";
// The scales of exact sums. Only a run with exact reduction has this span;
// other runs ignore it.
constexpr char kScalesName[] = "optimizer/reduction_scales";
// The momentum of local updates, in the place of the optimizer's slots.
constexpr char kOuterSlot[] = "outer_momentum";
constexpr char kOuterPrefix[] = "optimizer/outer_momentum/";
// State of local updates that each replica has alone. A span's name continues
// with the replica's number and the tensor.
constexpr char kErrorPrefix[] = "optimizer/error_feedback/";
constexpr char kStartPrefix[] = "optimizer/replica_start/";

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_STATE_NAMES_H_
