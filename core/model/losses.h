// Losses: what training makes small.
//
// Public. Names, formulas and defaults are those of Keras 3's losses/losses.py
// over TensorFlow's nn ops. A Loss is a plain value. Predictions are
// (count, output shape), row-major; the last axis holds the classes or values
// of one row, and the loss of an example is the mean over its rows (for the
// regression losses also over the last axis).

#ifndef RINGLET_CORE_MODEL_LOSSES_H_
#define RINGLET_CORE_MODEL_LOSSES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../base/shape.h"
#include "../base/status.h"
#include "../layers/layers.h"

namespace ringlet {

enum FromLogits : bool { kFromProbabilities = false, kFromLogits = true };

class CustomLoss;

struct Loss {
  enum class Kind : uint8_t {
    kSparseCategoricalCrossentropy,
    kCategoricalCrossentropy,
    kBinaryCrossentropy,
    kMeanSquaredError,
    kMeanAbsoluteError,
    kHuber,
    kCustom,
  };

  Kind kind = Kind::kMeanSquaredError;
  bool from_logits = false;
  float label_smoothing = 0;                 // categorical and binary
  float delta = 1;                           // Huber
  std::shared_ptr<const CustomLoss> custom;  // see custom_loss.h

  const char* class_name() const;  // "SparseCategoricalCrossentropy"
  std::string name() const;        // "sparse_categorical_crossentropy"
  // Targets are int32 class numbers, one a row; otherwise floats of the
  // output's shape.
  bool takes_classes() const;
  // Targets of one example of an output.
  int64_t targets(const Shape& output) const;
  // The activation whose input this loss could take instead (softmax, sigmoid),
  // or kLinear.
  Activation logits_activation() const;
};

// -log p[class].
Loss SparseCategoricalCrossentropy(FromLogits logits = kFromProbabilities);
// -sum t log p; probabilities are divided by their sum first.
Loss CategoricalCrossentropy(FromLogits logits = kFromProbabilities,
                             float label_smoothing = 0);
// -(t log p + (1 - t) log(1 - p)).
Loss BinaryCrossentropy(FromLogits logits = kFromProbabilities,
                        float label_smoothing = 0);
Loss MeanSquaredError();
Loss MeanAbsoluteError();
// e^2 / 2 up to |e| = delta, then delta |e| - delta^2 / 2.
Loss Huber(float delta = 1);

// Whether the loss can be taken of such an output.
Status CheckLossShape(const Loss& loss, const Shape& output);

// per_example[i] = the loss of example i. With a gradient, d_predictions =
// scale * d(sum of per_example) / d(predictions). Class numbers are in
// [0, output.back()): the caller checked them. Probabilities are clipped to
// [1e-7, 1 - 1e-7], and where they are clipped the gradient is 0.
// Crossentropy and its gradient are exact to a few roundings of float32,
// however large the logits and however small the loss; a largest logit that is
// not finite makes both NaN. An error is a custom loss's.
Status ComputeLoss(const Loss& loss, const Shape& output, int64_t count,
                   const float* predictions, const void* targets, float scale,
                   float* per_example, float* d_predictions);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_LOSSES_H_
