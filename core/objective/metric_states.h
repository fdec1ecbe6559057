// The states of a metric for a certain output, and its value from them.

#ifndef RINGLET_CORE_OBJECTIVE_METRIC_STATES_H_
#define RINGLET_CORE_OBJECTIVE_METRIC_STATES_H_

#include <cstdint>
#include <vector>

#include "ringlet/losses.h"
#include "ringlet/metrics.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// Resolves the metric for a model with such a loss and output. An error if the
// loss's targets do not fit the metric.
Status ResolveMetric(const Metric& metric, const Loss& loss,
                     const Shape& output, Metric* resolved);

// The metrics of which the logs have a value each: `metric` itself, a resolved
// one, or one for each class of the output, such as "f1_score_0".
std::vector<Metric> LoggedMetrics(const Metric& metric, const Shape& output);

// NumStates is the number of consecutive states of a resolved metric for such
// an output. MetricResult is its value from these states.
int64_t NumStates(const Metric& metric, const Shape& output);
double MetricResult(const Metric& metric, const MetricState* states,
                    int64_t count);

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_METRIC_STATES_H_
