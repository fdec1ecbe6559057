// What a backup's metadata say of the run that made it, as text.
//
// Internal to io/.

#ifndef RINGLET_IO_CHECKPOINT_RUN_DESCRIPTION_H_
#define RINGLET_IO_CHECKPOINT_RUN_DESCRIPTION_H_

#include <string>

#include "../../core/base/status.h"
#include "../../core/fit/callback.h"

namespace ringlet {

// A line for each layer of the model: its class, its input where that is not
// the layer before, and what the shapes of weights do not tell, "Dense relu".
// Two models of one description and the same weights compute alike; rates,
// initializers and regularizers, which may be tuned in a run, are left out.
std::string DescribeLayers(const Model& model);

// Whether `saved`, a description, is that of `model`; otherwise
// kInvalidArgument names the first difference.
Status CheckLayers(const std::string& saved, const Model& model);

// The loss of each output, and its weight where that is not 1: "kind:
// SparseCategoricalCrossentropy; size: MeanSquaredError times 0.2". An output
// that is the only one has no name.
std::string DescribeLosses(const Model& model);

// "rounds of 30 local steps, outer 0.7, 0.9, nesterov, int8"; "" without local
// updates.
std::string DescribeLocal(const Model& model);

// What of a fit's data a resume depends on: "2000 examples, shuffled with seed
// 1, batches of 32, 63 steps an epoch". "" without data.
std::string DescribeData(const FitState& fit);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_RUN_DESCRIPTION_H_
