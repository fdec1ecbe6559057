// The texts in a backup's metadata that describe its run.

#ifndef RINGLET_IO_CHECKPOINT_RUN_DESCRIPTION_H_
#define RINGLET_IO_CHECKPOINT_RUN_DESCRIPTION_H_

#include <string>

#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

// A line for each layer, as "Dense relu": its class, its inputs if they are not
// the previous layer, and the options that the shapes of weights do not show.
// Two models with the same description and weights compute the same outputs.
// Rates, initializers and regularizers are left out: they may be tuned in a
// run.
std::string LayersText(const Model& model);

// Compares the description `saved` with the description of `model`.
// kInvalidArgument names the first difference.
Status CheckLayers(const std::string& saved, const Model& model);

// The loss of each output, and its weight if that is not 1: "kind:
// SparseCategoricalCrossentropy; size: MeanSquaredError times 0.2". A single
// output is not named.
std::string LossesText(const Model& model);

// "rounds of 30 local steps, outer 0.7, 0.9, nesterov, int8"; empty without
// local updates.
std::string LocalUpdatesText(const Model& model);

// The properties of a fit's data on which a resume depends: "2000 examples,
// shuffled with seed 1, batches of 32, 63 steps per epoch". Empty without data.
std::string DataText(const FitState& fit);
// The names of the training data's classes, by their numbers; empty without
// names.
std::string ClassesText(const FitState& fit);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_RUN_DESCRIPTION_H_
