// The states of a metric: the numbers that it keeps over an epoch, from which
// its value is computed. How many there are depends on the model's output.

#ifndef RINGLET_CORE_OBJECTIVE_METRIC_STATES_H_
#define RINGLET_CORE_OBJECTIVE_METRIC_STATES_H_

#include <cstdint>
#include <vector>

#include "ringlet/losses.h"
#include "ringlet/metrics.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// Makes `metric` definite for an output of this shape with this loss:
// "accuracy", for example, becomes sparse categorical accuracy. An error if the
// metric cannot be computed from the targets of this loss.
Status ResolveMetric(const Metric& metric, const Loss& loss,
                     const Shape& output, Metric* resolved);

// The metrics that the logs show in place of a resolved one: itself, or one for
// each class of the output, such as "f1_score_0".
std::vector<Metric> LoggedMetrics(const Metric& metric, const Shape& output);

// The number of states that a resolved metric has for an output of this shape.
int64_t NumStates(const Metric& metric, const Shape& output);
// The value of a resolved metric, from its `count` states.
double MetricResult(const Metric& metric, const MetricState* states,
                    int64_t count);

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_METRIC_STATES_H_
