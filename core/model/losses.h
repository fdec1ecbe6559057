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

// What a step's loss is of those of its examples, each times its weight.
enum class LossReduction : uint8_t {
  kSumOverBatchSize,  // the mean: divided by the number of examples
  kSum,               // the sum, also over an example's rows
};

class CustomLoss;

struct Loss {
  enum class Kind : uint8_t {
    kSparseCategoricalCrossentropy,
    kCategoricalCrossentropy,
    kBinaryCrossentropy,
    kMeanSquaredError,
    kMeanAbsoluteError,
    kHuber,
    kBinaryFocalCrossentropy,
    kCategoricalFocalCrossentropy,
    kKLDivergence,
    kPoisson,
    kMeanAbsolutePercentageError,
    kMeanSquaredLogarithmicError,
    kCosineSimilarity,
    kLogCosh,
    kHinge,
    kSquaredHinge,
    kCategoricalHinge,
    kCustom,  // the last; the others are rows of loss_table.h
  };

  Kind kind = Kind::kMeanSquaredError;
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  bool from_logits = false;            // crossentropies, as the next
  float label_smoothing = 0;           // but the sparse one
  float delta = 1;                     // Huber
  bool apply_class_balancing = false;  // BinaryFocalCrossentropy
  float alpha = 0.25f;                 // the focal ones …
  float gamma = 2;                     // … as this
  std::shared_ptr<const CustomLoss> custom;

  Loss& Reduction(LossReduction r) {
    reduction = r;
    return *this;
  }

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
// The binary crossentropy times (1 - p of the target)^gamma, and with class
// balancing times alpha for a 1, 1 - alpha for a 0.
Loss BinaryFocalCrossentropy(bool apply_class_balancing = false,
                             float alpha = 0.25f, float gamma = 2,
                             FromLogits logits = kFromProbabilities,
                             float label_smoothing = 0);
// -sum alpha (1 - p)^gamma t log p.
Loss CategoricalFocalCrossentropy(float alpha = 0.25f, float gamma = 2,
                                  FromLogits logits = kFromProbabilities,
                                  float label_smoothing = 0);
// sum t log(t / p), of values clipped to [1e-7, 1].
Loss KLDivergence();
// p - t log(p + 1e-7).
Loss Poisson();
Loss MeanSquaredError();
Loss MeanAbsoluteError();
// 100 |t - p| / |t|, of |t| no less than 1e-7.
Loss MeanAbsolutePercentageError();
// (log(p + 1) - log(t + 1))^2, of p and t no less than 1e-7.
Loss MeanSquaredLogarithmicError();
// Minus the cosine between targets and predictions over the last axis.
Loss CosineSimilarity();
// log(cosh(e)).
Loss LogCosh();
// max(1 - t p, 0), and its square; labels 0 and 1 stand for -1 and 1.
Loss Hinge();
Loss SquaredHinge();
// max(max((1 - t) p) - sum(t p) + 1, 0).
Loss CategoricalHinge();
// e^2 / 2 up to |e| = delta, then delta |e| - delta^2 / 2.
Loss Huber(float delta = 1);

// Whether the loss can be taken of such an output.
Status CheckLossShape(const Loss& loss, const Shape& output);

// By the loss's reduction: what ComputeLoss is to multiply the gradient with in
// a step of `global_count` examples, and what the sum of its per_example is to
// be multiplied with so that, divided by that count, it is the step's loss.
struct LossScale {
  float gradient;
  double sum;
};
LossScale ScaleOf(const Loss& loss, const Shape& output, int64_t global_count);

// per_example[i] = the loss of example i, times weights[i] where there are
// weights. With a gradient, d_predictions = scale * d(sum of per_example) /
// d(predictions). Class numbers are in
// [0, output.back()): the caller checked them. Probabilities are clipped to
// [1e-7, 1 - 1e-7], and where they are clipped the gradient is 0.
// Crossentropy and its gradient are exact to a few roundings of float32,
// however large the logits and however small the loss; a largest logit that is
// not finite makes both NaN. An error is a custom loss's.
Status ComputeLoss(const Loss& loss, const Shape& output, int64_t count,
                   const float* predictions, const void* targets, float scale,
                   float* per_example, float* d_predictions,
                   const float* weights = nullptr);

// Of an example, or of one example after another: one of the two, by
// takes_classes of the model's loss; the other is null.
struct Targets {
  const float* values = nullptr;
  const int32_t* classes = nullptr;  // from 0 to output.back() - 1
};

// From number `first` on of a batch's targets, of one type or the other.
inline Targets TargetsFrom(const void* targets, bool classes, int64_t first) {
  Targets t;
  if (classes) {
    t.classes = static_cast<const int32_t*>(targets) + first;
  } else {
    t.values = static_cast<const float*>(targets) + first;
  }
  return t;
}

// A loss of your own, as a subclass of Keras's Loss. It says the loss of one
// example and its gradient; the mean over a step's examples, on all workers, is
// the library's. samples/custom_parts.cc has one whole.
//
//   model.Compile(Adam(), Custom(std::make_shared<MyLoss>()));
//
// Compute may throw where the program has exceptions: what() becomes the error
// of the step. The other methods must not.
class CustomLoss {
 public:
  virtual ~CustomLoss() = default;

  // Keras's class name, "Pinball".
  virtual const char* class_name() const = 0;
  // Its options in a line, as far as they change numbers: the workers of a job
  // compare them.
  virtual std::string Describe() const { return ""; }
  // Whether it can be taken of such an output, of one example.
  virtual Status Check(const Shape& /*output*/) const { return Status(); }

  // Targets are class numbers, and not floats.
  virtual bool takes_classes() const { return false; }
  // Targets of one example, >= 1: the elements of a label.
  virtual int64_t targets(const Shape& output) const {
    return takes_classes() ? output.elements() / output.back()
                           : output.elements();
  }

  // The loss of one example of output.elements() predictions. `gradient` is
  // null, or as many zeros, and becomes its derivative.
  virtual double Compute(const Shape& output, const float* predictions,
                         const Targets& targets, float* gradient) const = 0;
};

Loss Custom(std::shared_ptr<const CustomLoss> loss);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_LOSSES_H_
