// CustomLoss: a loss of your own, as a subclass of Keras's Loss.
//
// Public. It says the loss of one example and its gradient; the mean over a
// step's examples, on all workers, is the library's. samples/custom_parts.cc
// has one whole.
//
//   model.Compile(Adam(), Custom(std::make_shared<MyLoss>()));
//
// Compute may throw where the program has exceptions: what() becomes the error
// of the step. The other methods must not.

#ifndef RINGLET_CORE_MODEL_CUSTOM_LOSS_H_
#define RINGLET_CORE_MODEL_CUSTOM_LOSS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../base/shape.h"
#include "../base/status.h"
#include "losses.h"

namespace ringlet {

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

#endif  // RINGLET_CORE_MODEL_CUSTOM_LOSS_H_
