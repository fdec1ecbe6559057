// Calls user code, which may throw: an exception becomes a Status.
//
// The library is built without exceptions, so none may pass through its
// functions. Only guarded.cc, which makes all these calls, is built with
// exceptions. It knows the user's classes only by the public headers.

#ifndef RINGLET_CORE_BASE_GUARDED_H_
#define RINGLET_CORE_BASE_GUARDED_H_

#include <cstdint>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

class Callback;
class CustomLayer;
class CustomLoss;
class CustomMetric;
class Logs;
class Shape;
class Source;
struct DataPosition;
struct FitState;
struct LayerCall;
struct LayerPlan;
struct MetricState;
struct Targets;

// Calls the method and returns its status. An exception becomes kInternal with
// its what(), and std::bad_alloc becomes kResourceExhausted.
template <typename... Parameters>
Status CallGuarded(Callback* callback,
                   Status (Callback::*method)(FitState&, Parameters...),
                   FitState& fit, Parameters... parameters);
Status CallFitReturn(Callback* callback, FitState& fit, const Status& status);
Status CallRead(Source* source, const int64_t* index, int count, void* x,
                void* y);
Status CallAugment(Source* source, const DataPosition& position,
                   const int64_t* index, int count, void* x);
Status CallGuarded(const CustomLayer& layer,
                   Status (CustomLayer::*method)(const LayerCall&) const,
                   const LayerCall& call);
Status CallBuild(const CustomLayer& layer, const std::vector<Shape>& inputs,
                 LayerPlan* plan);
// Calls the loss or the metric for `count` examples; losses.h and metrics.h
// explain the arguments.
Status CallLoss(const CustomLoss& loss, const Shape& output, int64_t count,
                const float* predictions, const void* targets, float scale,
                float* per_example, float* d_predictions, const float* weights);
Status CallUpdate(const CustomMetric& metric, const Shape& output,
                  int64_t count, const float* predictions,
                  const Targets& targets, MetricState* state);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_GUARDED_H_
