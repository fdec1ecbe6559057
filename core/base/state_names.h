// The names of spans of state, which are part of the checkpoints' format.

#ifndef RINGLET_CORE_BASE_STATE_NAMES_H_
#define RINGLET_CORE_BASE_STATE_NAMES_H_

namespace ringlet {

constexpr char kWeightsPrefix[] = "model/";  // "model/dense/kernel"
constexpr char kOptimizerPrefix[] = "optimizer/";
constexpr char kLearningRateName[] = "optimizer/learning_rate";
// Only exact reduction has it; other ways of training ignore it.
constexpr char kScalesName[] = "optimizer/reduction_scales";
// Only local updates have it; they keep no slots of the optimizer.
constexpr char kOuterSlot[] = "outer_momentum";
constexpr char kOuterPrefix[] = "optimizer/outer_momentum/";
// Each replica's own part of local updates: by number, then by tensor.
constexpr char kErrorPrefix[] = "optimizer/error_feedback/";
constexpr char kStartPrefix[] = "optimizer/replica_start/";

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_STATE_NAMES_H_
