// CustomMetric: a metric of your own, as a subclass of Keras's Metric.
//
// Public. A metric is total / count, of sums over examples: so those of steps
// and of workers add up. samples/custom_parts.cc has one whole.
//
//   model.Compile(Adam(), MeanSquaredError(),
//                 {Custom(std::make_shared<MyMetric>())});
//
// Update may throw where the program has exceptions: what() becomes the error
// of the step. The other methods must not.

#ifndef RINGLET_CORE_MODEL_CUSTOM_METRIC_H_
#define RINGLET_CORE_MODEL_CUSTOM_METRIC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../base/shape.h"
#include "../base/status.h"
#include "custom_loss.h"
#include "metrics.h"

namespace ringlet {

class CustomMetric {
 public:
  virtual ~CustomMetric() = default;

  // Keras's class name, "WithinOne"; in the logs it is "within_one", where the
  // Metric has no other Name.
  virtual const char* class_name() const = 0;
  // Its options in a line, as far as they change numbers: the workers of a job
  // compare them.
  virtual std::string Describe() const { return ""; }
  // A smaller value is better.
  virtual bool decreases() const { return false; }
  // Whether it can be taken of such an output, of one example, and of the
  // targets of such a loss.
  virtual Status Check(const Loss& /*loss*/, const Shape& /*output*/) const {
    return Status();
  }

  // Adds `count` examples, one after another, to the state: what counts, and
  // out of how many. Called once a step, and on one thread.
  virtual void Update(const Shape& output, int64_t count,
                      const float* predictions, const Targets& targets,
                      MetricState* state) const = 0;
};

Metric Custom(std::shared_ptr<const CustomMetric> metric);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_CUSTOM_METRIC_H_
