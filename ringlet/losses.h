// Losses: the functions that training minimizes.
//
// Names, formulas and defaults are from Keras 3's losses/losses.py and
// TensorFlow's nn ops. A Loss is a plain value. Predictions have the shape
// (count, output shape), row-major. The last axis holds the classes or values
// of one row. The loss of an example is the mean over its rows; regression
// losses also take the mean over the last axis.

#ifndef RINGLET_LOSSES_H_
#define RINGLET_LOSSES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "layers.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

// Numbers along the last axis: (height, width, classes) has height * width.
inline int64_t RowsOf(const Shape& output) {
  return output.elements() / output.back();
}

enum FromLogits : bool { kFromProbabilities = false, kFromLogits = true };

// How the losses of examples, each times its weight, make the loss of a step.
enum class LossReduction : uint8_t {
  kSumOverBatchSize,  // the mean: divided by the number of examples
  kSum,               // the sum, also over an example's rows
};

// Weights in the loss and in weighted metrics. An example has one weight, or
// one for each row of its output, such as a step of a sequence.
struct ExampleWeights {
  const float* values = nullptr;  // null if each is 1
  int64_t weights_per_example = 1;

  bool of_rows() const { return values != nullptr && weights_per_example > 1; }
  // The weight of row `row`, counted over all examples of `rows` rows each.
  float At(int64_t row, int64_t rows) const {
    if (values == nullptr) return 1;
    return values[of_rows() ? row : row / rows];
  }
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
  bool from_logits = false;            // the crossentropies
  float label_smoothing = 0;           // crossentropies with float targets
  float delta = 1;                     // Huber
  bool apply_class_balancing = false;  // BinaryFocalCrossentropy
  float alpha = 0.25f;                 // the focal losses
  float gamma = 2;                     // the focal losses
  // SparseCategoricalCrossentropy: rows of this class, such as -1, do not
  // count.
  std::optional<int> ignore_class;
  std::shared_ptr<const CustomLoss> custom;

  Loss& Reduction(LossReduction r) {
    reduction = r;
    return *this;
  }

  const char* class_name() const;  // "SparseCategoricalCrossentropy"
  std::string name() const;        // "sparse_categorical_crossentropy"
  // Targets are int32 class numbers, one for each row. Otherwise they have the
  // output's shape.
  bool takes_classes() const;
  int64_t targets(const Shape& output) const;
  // The softmax or sigmoid that this loss can compute itself, otherwise
  // kLinear.
  Activation logits_activation() const;
  bool takes_probabilities() const;
};

// -log p[class]. With an ignore_class, the mean is over the rows of a replica's
// examples that have another class.
Loss SparseCategoricalCrossentropy(
    FromLogits logits = kFromProbabilities,
    std::optional<int> ignore_class = std::nullopt);
// -sum t log p; probabilities are divided by their sum first.
Loss CategoricalCrossentropy(FromLogits logits = kFromProbabilities,
                             float label_smoothing = 0);
// -(t log p + (1 - t) log(1 - p)).
Loss BinaryCrossentropy(FromLogits logits = kFromProbabilities,
                        float label_smoothing = 0);
// The binary crossentropy times (1 - p of the target)^gamma, and with
// apply_class_balancing times alpha for target 1, 1 - alpha for target 0.
Loss BinaryFocalCrossentropy(bool apply_class_balancing = false,
                             float alpha = 0.25f, float gamma = 2,
                             FromLogits logits = kFromProbabilities,
                             float label_smoothing = 0);
// -sum alpha (1 - p)^gamma t log p.
Loss CategoricalFocalCrossentropy(float alpha = 0.25f, float gamma = 2,
                                  FromLogits logits = kFromProbabilities,
                                  float label_smoothing = 0);
// sum t log(t / p); values are clipped to [1e-7, 1].
Loss KLDivergence();
// p - t log(p + 1e-7).
Loss Poisson();
Loss MeanSquaredError();
Loss MeanAbsoluteError();
// 100 |t - p| / |t|, with |t| at least 1e-7.
Loss MeanAbsolutePercentageError();
// (log(p + 1) - log(t + 1))^2, with p and t at least 1e-7.
Loss MeanSquaredLogarithmicError();
// Minus the cosine of the angle between targets and predictions, over the last
// axis.
Loss CosineSimilarity();
// log(cosh(e)).
Loss LogCosh();
// max(1 - t p, 0), and its square. Labels 0 and 1 become -1 and 1.
Loss Hinge();
Loss SquaredHinge();
// max(max((1 - t) p) - sum(t p) + 1, 0).
Loss CategoricalHinge();
// e^2 / 2 up to |e| = delta, then delta |e| - delta^2 / 2.
Loss Huber(float delta = 1);

// The targets of examples: `classes` if takes_classes() of the loss is true,
// otherwise `values`.
struct Targets {
  const float* values = nullptr;
  // From 0 to output.back() - 1, or the loss's ignore_class.
  const int32_t* classes = nullptr;
};

// As a subclass of Keras's Loss: computes the loss and the gradient of one
// example. The loss of a step is the mean over its examples.
// samples/custom_parts.cc has one.
//
//   model.Compile(Adam(), Custom(std::make_shared<MyLoss>()));
//
// Compute may throw: what() is then the error of the step. The other methods
// must not throw.
class CustomLoss {
 public:
  virtual ~CustomLoss() = default;

  // Keras's class name, "Pinball".
  virtual const char* class_name() const = 0;
  // The loss's options in one line, if they change numbers. Workers compare
  // this line.
  virtual std::string Describe() const { return ""; }
  // Accepts, or refuses, an output (of one example).
  virtual Status Check(const Shape& /*output*/) const { return Status(); }

  virtual bool takes_classes() const { return false; }
  // The number of elements of an example's label, >= 1.
  virtual int64_t targets(const Shape& output) const {
    return takes_classes() ? RowsOf(output) : output.elements();
  }

  // One example's loss. `gradient` is null, or output.elements() zeros to
  // replace by the derivative.
  virtual double Compute(const Shape& output, const float* predictions,
                         const Targets& targets, float* gradient) const = 0;
};

Loss Custom(std::shared_ptr<const CustomLoss> loss);

}  // namespace ringlet

#endif  // RINGLET_LOSSES_H_
