// ComputeLoss: the losses of a batch's examples, and their gradient.

#ifndef RINGLET_CORE_OBJECTIVE_BATCH_LOSS_H_
#define RINGLET_CORE_OBJECTIVE_BATCH_LOSS_H_

#include <cstdint>

#include "ringlet/losses.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// kInvalidArgument if the loss does not accept such an output.
Status CheckLossShape(const Loss& loss, const Shape& output);

// The number of an example's rows, which have a loss each. A custom loss has
// one.
int64_t RowsOf(const Loss& loss, const Shape& output);

// Factors that follow from the loss's reduction, in a step of `global_count`
// examples:
//   loss of the step = sum(per_example) * sum / global_count
// ComputeLoss multiplies d_predictions by `gradient`.
struct LossScale {
  float gradient;
  double sum;
};
LossScale ScaleOf(const Loss& loss, const Shape& output, int64_t global_count);

// The steps of each example that count: 1 for a step that counts, otherwise 0.
// A step has one row of the output, or several.
struct StepMask {
  const float* values = nullptr;  // null if all steps count
  int64_t steps = 1;
};

// per_example[i] = the loss of example i, times its weights. Rows of the loss's
// ignore_class, and of masked steps, count as 0. The remaining rows are
// weighted as in Keras: with reduction kSumOverBatchSize the mean of
// per_example is the mean of the remaining rows. If d_predictions is not null,
// it becomes scale * d(sum of per_example) / d(predictions). Class numbers are
// in [0, output.back()) or ignore_class: the caller has checked them.
// Probabilities are clipped to [1e-7, 1 - 1e-7], and the gradient of a clipped
// probability is 0. Crossentropy and its gradient are exact to a few roundings
// of float32, however large the logits and however small the loss. If the
// largest logit is not finite, both are NaN. Only a custom loss returns an
// error.
Status ComputeLoss(const Loss& loss, const Shape& output, int64_t count,
                   const float* predictions, const void* targets, float scale,
                   float* per_example, float* d_predictions,
                   const ExampleWeights& weights = {},
                   const StepMask& mask = {});

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_BATCH_LOSS_H_
