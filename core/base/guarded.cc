#include "guarded.h"

#include <algorithm>
#include <exception>
#include <new>

#include "ringlet/custom_layer.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/metrics.h"
#include "targets.h"

namespace ringlet {
namespace {

// The status for the exception that is being handled.
Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    return ResourceExhausted("an exception: %s", e.what());
  } catch (const std::exception& e) {
    return Error(Code::kInternal, "an exception: %s", e.what());
  } catch (...) {
    return Error(Code::kInternal, "an exception that is not a std::exception");
  }
}

}  // namespace

template <typename... Parameters>
Status CallGuarded(Callback* callback,
                   Status (Callback::*method)(FitState&, Parameters...),
                   FitState& fit, Parameters... parameters) {
  try {
    return (callback->*method)(fit, parameters...);
  } catch (...) {
    return StatusOfException();
  }
}
template Status CallGuarded(Callback*, Status (Callback::*)(FitState&),
                            FitState&);
template Status CallGuarded(Callback*, Status (Callback::*)(FitState&, bool),
                            FitState&, bool);
template Status CallGuarded(Callback*, Status (Callback::*)(FitState&, Logs*),
                            FitState&, Logs*);
template Status CallGuarded(Callback*,
                            Status (Callback::*)(FitState&, const Logs&),
                            FitState&, const Logs&);

Status CallFitReturn(Callback* callback, FitState& fit, const Status& status) {
  try {
    callback->OnFitReturn(fit, status);
    return Status();
  } catch (...) {
    return StatusOfException();
  }
}

Status CallRead(Source* source, const int64_t* index, int count, void* x,
                void* y) {
  try {
    return source->Read(index, count, x, y);
  } catch (...) {
    return StatusOfException().Annotate("%s", source->name().c_str());
  }
}

Status CallAugment(Source* source, const DataPosition& position,
                   const int64_t* index, int count, void* x) {
  try {
    return source->Augment(position, index, count, x);
  } catch (...) {
    return StatusOfException().Annotate("%s", source->name().c_str());
  }
}

Status CallGuarded(const CustomLayer& layer,
                   Status (CustomLayer::*method)(const LayerCall&) const,
                   const LayerCall& call) {
  try {
    return (layer.*method)(call);
  } catch (...) {
    return StatusOfException();
  }
}

Status CallBuild(const CustomLayer& layer, const std::vector<Shape>& inputs,
                 LayerPlan* plan) {
  try {
    return layer.Build(inputs, plan);
  } catch (...) {
    return StatusOfException();
  }
}

Status CallLoss(const CustomLoss& loss, const Shape& output, int64_t count,
                const float* predictions, const void* targets, float scale,
                float* per_example, float* d_predictions,
                const float* weights) {
  const int64_t width = output.elements(),
                targets_per_example = loss.targets(output);
  try {
    for (int64_t i = 0; i < count; ++i) {
      const Targets example_targets =
          TargetsFrom(targets, loss.takes_classes(), i * targets_per_example);
      float* const gradient =
          d_predictions == nullptr ? nullptr : d_predictions + i * width;
      if (gradient != nullptr) std::fill_n(gradient, width, 0.0f);
      const float weight = weights != nullptr ? weights[i] : 1;
      per_example[i] =
          static_cast<float>(loss.Compute(output, predictions + i * width,
                                          example_targets, gradient)) *
          weight;
      for (int64_t j = 0; gradient != nullptr && j < width; ++j) {
        gradient[j] *= scale * weight;
      }
    }
    return Status();
  } catch (...) {
    return StatusOfException().Annotate("loss %s", loss.class_name());
  }
}

Status CallUpdate(const CustomMetric& metric, const Shape& output,
                  int64_t count, const float* predictions,
                  const Targets& targets, MetricState* state) {
  try {
    metric.Update(output, count, predictions, targets, state);
    return Status();
  } catch (...) {
    return StatusOfException().Annotate("metric %s", metric.class_name());
  }
}

}  // namespace ringlet
