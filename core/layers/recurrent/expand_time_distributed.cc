#include <algorithm>
#include <utility>

#include "bidirectional.h"
#include "time_distributed.h"

namespace ringlet {
namespace {

Shape OfAllSteps(int64_t steps, const Shape& step) {
  Shape shape = {steps};
  for (int i = 0; i < step.rank(); ++i) shape.Append(step[i]);
  return shape;
}

// The shape of the inputs of a layer's first call.
const Shape& InputOf(const NestedModel& model, size_t layer) {
  for (const NestedModel::Call& call : model.calls) {
    if (call.layer == static_cast<int>(layer)) {
      return model.calls[call.inputs[0]].output;
    }
  }
  return model.calls[0].output;
}

Status CheckModel(const NestedModel& model, const Shape& step) {
  RINGLET_RETURN_IF_ERROR(model.status);
  if (model.num_inputs != 1 || model.outputs.size() != 1) {
    return InvalidArgument(
        "TimeDistributed takes a model with one input and one output, and this "
        "one has %d and %zu",
        model.num_inputs, model.outputs.size());
  }
  const Shape& input_shape = model.calls[0].output;
  if (input_shape == step) return Status();
  return InvalidArgument("the model takes steps of %s, not of %s",
                         input_shape.ToString().c_str(),
                         step.ToString().c_str());
}

// Returns a layer of an expanded TimeDistributed as it is in the model.
Layer Unwrapped(const Layer& wrapped) {
  Layer layer = IsExpandedTimeDistributed(wrapped) ? AppliedLayer(wrapped)
                                                   : *wrapped.layer;
  layer.trainable = wrapped.trainable;
  layer.dtype = std::max(layer.dtype, wrapped.dtype);
  return layer;
}

// The expanded model has the weights.
std::shared_ptr<const Layer> WithoutWeights(const Layer& applied) {
  auto layer = std::make_shared<Layer>(applied);
  if (applied.model == nullptr) return layer;
  auto model = std::make_shared<NestedModel>(*applied.model);
  model->weights = nullptr;
  layer->model = std::move(model);
  return layer;
}

}  // namespace

Status ExpandTimeDistributed(const Shape& input, Layer* layer) {
  if (input.rank() < 2) {
    return InvalidArgument(
        "TimeDistributed needs an input with steps first, as (steps, "
        "features), not %s",
        input.ToString().c_str());
  }
  Shape step;
  for (int i = 1; i < input.rank(); ++i) step.Append(input[i]);
  Layer inner = *layer->layer;
  if (inner.kind == Layer::Kind::kBidirectional) {
    if (inner.merge_mode == kMergeNone) {
      return InvalidArgument(
          "a TimeDistributed takes a layer with one output, as in Keras; a "
          "Bidirectional without a merge mode has two");
    }
    RINGLET_RETURN_IF_ERROR(ExpandBidirectional({step}, &inner));
  }
  const NestedModel& step_model = *inner.model;
  RINGLET_RETURN_IF_ERROR(CheckModel(step_model, step));
  NestedModel model = step_model;
  model.class_name = kTimeDistributed;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    Layer& layer_of_step = model.layers[i];
    if (layer_of_step.kind == Layer::Kind::kInput) {
      layer_of_step = Input(input).Name(layer_of_step.name);
      continue;
    }
    Layer wrapped = TimeDistributed(layer_of_step)
                        .Name(layer_of_step.name)
                        .Trainable(layer_of_step.trainable)
                        .DType(layer_of_step.dtype);
    if (AppliesModel(wrapped)) {
      RINGLET_RETURN_IF_ERROR(ExpandTimeDistributed(
          OfAllSteps(input[0], InputOf(step_model, i)), &wrapped));
    }
    layer_of_step = std::move(wrapped);
  }
  for (NestedModel::Call& call : model.calls) {
    call.output = OfAllSteps(input[0], call.output);
  }
  layer->kind = Layer::Kind::kModel;
  layer->model = std::make_shared<NestedModel>(std::move(model));
  layer->layer = WithoutWeights(*layer->layer);
  return Status();
}

Layer AppliedLayer(const Layer& expanded) {
  Layer inner = *expanded.layer;
  const std::vector<Layer>& layers = expanded.model->layers;
  if (inner.kind == Layer::Kind::kBidirectional) {
    return Bidirectional(Unwrapped(DirectionOf(*expanded.model, 0)),
                         Unwrapped(DirectionOf(*expanded.model, 1)),
                         inner.merge_mode)
        .Name(inner.name)
        .Trainable(inner.trainable);
  }
  NestedModel model = *inner.model;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].kind == Layer::Kind::kInput) continue;
    model.layers[i] = Unwrapped(layers[i]);
  }
  inner.model = std::make_shared<NestedModel>(std::move(model));
  return inner;
}

}  // namespace ringlet
